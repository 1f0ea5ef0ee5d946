"""Reconstruction of the motion of a path through the graph, with hands exactly at what they pick up or put down.

Footsteps move by some centimetres and weights of blends leave the grid of the search; arm and spine do the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.blending import balance_motion
from marey.graph.arrays import PICK_LEFT, PICK_RIGHT, compose_planar, to_frame, wrap_angles
from marey.graph.paths import PathStep, SearchResult, blended_deltas, blended_hands
from marey.graph.reconstruction.joins import output_times, sample_track
from marey.graph.reconstruction.track import build_path_track, hold_path_feet, plant_positions
from marey.kinematics import PointTask, solve_ik
from marey.lie import SO3
from marey.motion import Motion, contact_positions
from marey.numerics import smoothstep
from marey.skeleton import contact_points
from marey.world import Sketch

if TYPE_CHECKING:
    from marey.graph.motion_graph import MotionGraph


MAX_FOOTSTEP_SHIFT_M: Final = 0.03  # [m] by which footsteps move: corridors are searched with more room than that
MAX_FOOTSTEP_ROTATION_RAD: Final = 0.1  # [rad] and turn
MAX_SHIFT_PER_M: Final = 0.05  # [-] of the distance over which they do


@dataclass(frozen=True, slots=True, eq=False)
class PickTarget:
    """Target of a hand at the end of a step, and of the root if it is pinned."""

    hand: FloatArray  # (3,) [m]
    root: FloatArray | None = None  # (2,) [m] x, z


def refine_footsteps(
    graph: MotionGraph, result: SearchResult, aims: dict[int, PickTarget], *, most_m: float = MAX_FOOTSTEP_SHIFT_M
) -> SearchResult:
    """Move footsteps so that hands are over their objects, as far as that is no more than ``most_m``.

    What is missing at the pick is spread over the path since the last constraint, and taken back until the next: a few
    millimetres for each step ([Safonova2006]_ F35).
    """
    marks = [0, *(step + 1 for step in result.met)]
    for step, aim in sorted(aims.items()):
        before = max(mark for mark in marks if mark <= step)
        after = min((mark for mark in marks if mark > step + 1), default=len(result.places) - 1)
        # What carries the hand to its aim, and the turn about it that brings the root to its pin
        hand, root = hand_and_root(graph, result, step)
        pivot, there, turn = hand[[0, 2]], aim.hand[[0, 2]], 0.0
        if aim.root is not None:
            own, wanted = pivot - root, there - aim.root
            angle = float(np.arctan2(wanted[0], wanted[1]) - np.arctan2(own[0], own[1]))
            turn = (angle + np.pi) % (2.0 * np.pi) - np.pi
            # What hand and root are too near or too far from one another is shared by both
            spare = float(np.linalg.norm(own) - np.linalg.norm(wanted))
            there = there + 0.5 * spare * wanted / max(float(np.linalg.norm(wanted)), 1e-9)
        shift = there - pivot
        # Share of the correction that each step takes: rising to the pick, falling to the next constraint
        pick = step + 1
        steps = np.linalg.norm(np.diff(result.places[:, :2], axis=0), axis=1)
        share = np.zeros(len(result.places))
        for first, last, rises in ((before, pick, True), (pick, after, False)):
            gone = np.concatenate([[0.0], np.cumsum(steps[first:last])])
            part = smoothstep(gone / max(float(gone[-1]), 1e-9))
            share[first : last + 1] = part if rises else 1.0 - part
        # Limit shift and turn, then carry all places about the pivot
        most = min(most_m, MAX_SHIFT_PER_M * float(steps[before:pick].sum()))
        size = float(np.linalg.norm(shift))
        shift = shift * min(1.0, most / max(size, 1e-9))
        turn = float(np.clip(turn, -MAX_FOOTSTEP_ROTATION_RAD, MAX_FOOTSTEP_ROTATION_RAD))
        angle = share * turn
        c, s, away = np.cos(angle), np.sin(angle), result.places[:, :2] - pivot
        turned = np.stack([c * away[:, 0] + s * away[:, 1], -s * away[:, 0] + c * away[:, 1]], axis=1)
        places = np.column_stack([turned + pivot + share[:, None] * shift, result.places[:, 2] + angle])
        moved = tuple(replace(step, place=places[n]) for n, step in enumerate(result.steps))
        result = replace(result, steps=moved, places=places)
    return result


def hand_and_root(graph: MotionGraph, result: SearchResult, step: int) -> tuple[FloatArray, FloatArray]:
    """Hand (3,) and root (2,) [m] at the end of a step, as the search has them."""
    own, arrays = result.steps[step], graph.arrays
    a, c, w = int(arrays.target[own.edge]), int(arrays.target[own.other]), own.weight
    x, y, z = blended_hands(graph, np.array([a]), np.array([c]), np.array([w]))[0, 0]
    root = w * arrays.root[a] + (1.0 - w) * arrays.root[c]
    hand = compose_planar(result.places[step + 1], np.array([x, z, 0.0]))
    return np.array([hand[0], y, hand[1]]), compose_planar(result.places[step + 1], root)[:2]


WEIGHT_SPAN: Final = 1.0 / 9.0  # [-] a weight stays within one step of the search's grid
NUM_TRIED: Final = 45  # weights looked at; a hand moves by less than a millimetre from one to the next
MAX_SHIFT_M: Final = 0.02  # [m] by which later footsteps may move: corridors are searched with more room than that
MAX_TURN_RAD: Final = 0.02


def refine_weights(graph: MotionGraph, result: SearchResult, targets: dict[int, FloatArray]) -> SearchResult:
    """Move the weights of blended picks so that hands come as near to their targets as the blends can bring them.

    The steps of one blend keep one weight. All that follows is carried along, by 2 cm at most ([Safonova2006]_ F35).

    Args:
        graph: that was searched.
        result: of the search.
        targets: point (3,) [m] for the hand at the end of each of some steps.
    """
    for step, target in sorted(targets.items()):
        steps = result.steps
        if not steps[step].is_blended:
            continue
        # Steps around this one that are blended with its weight or, where the pair is swapped, with what is left of it
        weight = min(steps[step].weight, 1.0 - steps[step].weight)
        alike = [s.is_blended and abs(min(s.weight, 1.0 - s.weight) - weight) < 1e-9 for s in steps]
        first, last = step, step
        while first > 0 and alike[first - 1]:
            first -= 1
        while last + 1 < len(steps) and alike[last + 1]:
            last += 1
        result = _refine_run_weight(graph, result, step, range(first, last + 1), target)
    return result


def _refine_run_weight(
    graph: MotionGraph, result: SearchResult, step: int, run: range, target: FloatArray
) -> SearchResult:
    """The path with the weight of a run at which the hand comes nearest to its target."""
    steps = result.steps
    weight = steps[step].weight
    tried = np.clip(weight + WEIGHT_SPAN * np.linspace(-1.0, 1.0, NUM_TRIED), 0.0, 1.0)
    # Anchors from the start of the run to its end, at each weight tried
    found = [np.tile(steps[run.start].place, (len(tried), 1))]
    for number in run:
        blend = steps[number]
        weights = blend.weight + _weight_sign(blend, weight) * (tried - weight)
        delta = blended_deltas(graph, np.array([blend.edge]), np.array([blend.other]), weights)[0]
        found.append(compose_planar(found[-1], delta))
    anchors = np.stack(found)
    # Distance of the hand from its target at each weight; weights that move the rest too far are out
    own = np.array([graph.arrays.target[steps[step].edge]]), np.array([graph.arrays.target[steps[step].other]])
    hands = blended_hands(graph, *own, tried)[0]
    at = anchors[step - run.start + 1]
    places = compose_planar(at, np.stack([hands[:, 0], hands[:, 2], 0.0 * tried], axis=1))
    away = np.linalg.norm(np.stack([places[:, 0], hands[:, 1], places[:, 1]], axis=1) - target, axis=1)
    shift = anchors[-1] - result.places[run.stop]
    turn = np.abs(wrap_angles(shift[:, 2]))
    far = (np.hypot(shift[:, 0], shift[:, 1]) > MAX_SHIFT_M) | (turn > MAX_TURN_RAD)
    best = int(np.argmin(np.where(far, np.inf, away)))
    # Rebuild the run with the best weight
    change = float(tried[best]) - weight
    changed, moved_places, anchor = list(result.steps), result.places.copy(), result.places[run.start]
    for number in run:
        before = changed[number]
        changed[number] = replace(before, weight=before.weight + _weight_sign(before, weight) * change, place=anchor)
        w = np.array([changed[number].weight])
        anchor = compose_planar(
            anchor, blended_deltas(graph, np.array([before.edge]), np.array([before.other]), w)[0, 0]
        )
        moved_places[number + 1] = anchor
    # What follows is carried along rigidly
    rest = result.places[run.stop :]
    moved = compose_planar(anchor, to_frame(rest, rest[0]))
    moved_places[run.stop :] = moved
    for number in range(run.stop, len(changed)):
        changed[number] = replace(changed[number], place=moved[number - run.stop])
    return replace(result, steps=tuple(changed), places=moved_places)


def _weight_sign(step: PathStep, weight: float) -> float:
    """Whether a step of the run has the weight itself, or what is left of it."""
    return 1.0 if abs(step.weight - weight) < 1e-9 else -1.0


REACH_EASE_S: Final = 0.4  # [s] over which a hand leaves its own way, and comes back to it
NEAR_M: Final = 0.5  # [m] a pick farther off than this is for something else (hands of blends are elsewhere)
HANDS: Final = {PICK_LEFT: "left_hand", PICK_RIGHT: "right_hand"}
REACH_TOL_M: Final = 1e-4  # [m] to which inverse kinematics goes


@dataclass(frozen=True, slots=True, eq=False)
class HandTarget:
    """Target of a hand at a frame."""

    frame: int
    hand: str  # "left_hand", "right_hand", or "" for the nearer one
    target: FloatArray  # (3,) [m]


def refine_reaches(motion: Motion, reaches: Sequence[HandTarget]) -> tuple[Motion, tuple[float, ...]]:
    """Bring hands to their targets by arm and spine; legs and root stay ([Safonova2006]_ A22).

    The pose of each frame is found by inverse kinematics; its change is eased in and out around the frame.

    Returns:
        The motion, and how far [m] each hand is from its target in it.
    """
    skeleton, points = motion.skeleton, contact_points(motion.skeleton)
    for reach in reaches:
        hand, away = find_nearest_hand(motion, reach)
        if away < REACH_TOL_M:
            continue
        # Only joints between the child of the root and the hand move
        number = points.index(hand)
        chain, at = set[int](), int(points.joints[number])
        while at > 0:
            chain.add(at)
            at = int(skeleton.parents[at])
        still = [j for j in range(1, skeleton.num_joints) if j not in chain]
        task = PointTask(int(points.joints[number]), reach.target, point=points.offsets[number])
        found = solve_ik(
            skeleton, [task], start=motion[reach.frame], limits=None, root="fixed", feet="free", frozen_joints=still,
            tolerance_m=REACH_TOL_M, follow=False, on_failure="return",
        )  # fmt: skip
        change = (motion.rotations[reach.frame].inverse() @ found.pose.rotations).log()
        frames = np.abs(np.arange(motion.num_frames) - reach.frame) / (REACH_EASE_S * motion.rate_hz)
        weight = 1.0 - smoothstep(frames)
        motion = replace(motion, rotations=motion.rotations @ SO3.exp(weight[:, None, None] * change))
    return motion, tuple(find_nearest_hand(motion, reach)[1] for reach in reaches)


def find_nearest_hand(motion: Motion, reach: HandTarget) -> tuple[str, float]:
    """The hand that reaches, the nearer one if either may, and its distance [m] from the target."""
    names = contact_points(motion.skeleton).names
    points = contact_positions(motion[reach.frame : reach.frame + 1])[0]
    hands = [reach.hand] if reach.hand else [name for name in ("left_hand", "right_hand") if name in names]
    away = [float(np.linalg.norm(points[names.index(hand)] - reach.target)) for hand in hands]
    best = int(np.argmin(away))
    return hands[best], away[best]


def find_pick_targets(graph: MotionGraph, result: SearchResult, sketch: Sketch) -> dict[int, PickTarget]:
    """What hands reach for at the ends of steps, by the picks and places of a sketch, and where roots are pinned."""
    wanted: list[PickTarget] = []
    for event in sketch.events:
        if event.kind in ("pick", "place"):
            is_placed = event.kind == "place" and event.to is not None
            target = event.to if is_placed else sketch.world.object(event.object or "").position
            wanted.append(PickTarget(np.array(target), None if event.at is None else np.array(event.at)))
    found: dict[int, PickTarget] = {}
    for step in result.met:
        if len(found) < len(wanted) and _step_event(graph, result, step) in HANDS:
            # A pick far from the next target is for something else
            target = wanted[len(found)]
            x, y, z = graph.arrays.hand[graph.arrays.target[result.steps[step].edge]]
            at = compose_planar(result.places[step + 1], np.array([x, z, 0.0]))
            if np.linalg.norm(np.array([at[0], y, at[1]]) - target.hand) < NEAR_M:
                found[step] = target
    return found


def _step_event(graph: MotionGraph, result: SearchResult, step: int) -> int:
    """Event at the end of a step."""
    return int(graph.arrays.event[graph.arrays.target[result.steps[step].edge]])


def rebuild_motion(graph: MotionGraph, result: SearchResult, *, rate_hz: float | None = None) -> Motion:
    """The motion of a path ([Safonova2006]_ §4.3.1, F27).

    Edges are blended where the path blends them, placed by their planted feet and joined; jumps of pose between them
    are spread over a quarter of a second on either side; every planted foot is held in one place for its whole stance,
    and legs follow. Poses at which constraints are met are shown unchanged, each on a frame of its own.

    Args:
        graph: that was searched.
        result: of the search.
        rate_hz: frames per second; those of the graph by default.

    Raises:
        InputError: there is no path, or the rate is not positive.
    """
    return rebuild_events(graph, result, rate_hz=rate_hz)[0]


def rebuild_events(
    graph: MotionGraph, result: SearchResult, *, rate_hz: float | None = None, pinned: Sequence[int] | None = None
) -> tuple[Motion, tuple[int, ...]]:
    """As :func:`rebuild_motion`, with the frame at which each constraint is met.

    Where ``pinned`` is given the body is balanced, with its root as it is at the ends of these steps.
    """
    if not result.is_solved:
        raise InputError(f"there is no path to rebuild: {result.status}", result.advice)
    rate = graph.database.rate_hz if rate_hz is None else float(rate_hz)
    if not (np.isfinite(rate) and rate > 0.0):
        raise InputError(f"rate_hz is {rate_hz}", "Give a positive number of frames per second")
    track, met = build_path_track(graph, result)
    times = output_times(track.seconds, met, rate)
    shown = sample_track(replace(track, plants=plant_positions(track)), times)
    motion = Motion(graph.database.body.skeleton, rate, shown.roots, SO3(shown.wxyz), name="graph")
    frames = tuple(int(np.argmin(np.abs(times - time))) for time in met)
    # Hands at the picks of the path, in a motion whose legs were not changed yet
    points, names = contact_positions(motion), contact_points(motion.skeleton).names
    events = [_step_event(graph, result, step) for step in result.met]
    reaches = [
        HandTarget(frame, HANDS[event], points[frame, names.index(HANDS[event])])
        for event, frame in zip(events, frames, strict=True)
        if event in HANDS
    ]
    held = hold_path_feet(motion, shown.plants)
    if pinned is not None:
        # The shift of the balance, with feet held anew: heels of short legs rise, so that nobody crouches for a lean
        keep = [frame for step, frame in zip(result.met, frames, strict=True) if step in pinned]
        balanced = balance_motion(held, graph.database.body, keep=keep)
        held = hold_path_feet(motion, shown.plants, (balanced.root_positions - held.root_positions)[:, [0, 2]])
    return refine_reaches(held, reaches)[0], frames


def rebuild_for_sketch(
    graph: MotionGraph, result: SearchResult, sketch: Sketch, *, rate_hz: float | None = None, refine: bool = True
) -> tuple[Motion, tuple[float, ...]]:
    """As :func:`rebuild_motion`, with hands at the objects of picks and places.

    First by the weights of blends, as far as they go, then by footsteps that move up to 3 cm (not in rivers and on
    stones), then by arm and spine. Between the two the root moves so that the body is balanced: see
    :func:`marey.blending.balance_motion`.

    Returns:
        The motion, and how far [m] each hand is from its thing.
    """
    motion, reaches, _ = _run_stages(graph, result, sketch, rate_hz, refine=refine)
    return motion, tuple(find_nearest_hand(motion, reach)[1] for reach in reaches)


def _run_stages(
    graph: MotionGraph, result: SearchResult, sketch: Sketch, rate_hz: float | None, *, refine: bool
) -> tuple[Motion, list[HandTarget], tuple[int, ...]]:
    """The motion, what its hands reach for, and the frames of its constraints."""
    if refine:
        # Weights and footsteps moved a little; where a root is pinned, the search has moved them already
        aims = {step: aim for step, aim in find_pick_targets(graph, result, sketch).items() if aim.root is None}
        result = refine_weights(graph, result, {step: aim.hand for step, aim in aims.items()})
        result = result if sketch.world.rivers or sketch.world.stones else refine_footsteps(graph, result, aims)
    # Targets of the hands, from the picks and places of the sketch, at the frames of the constraints; the root stays
    # where the sketch says where it is
    targets = find_pick_targets(graph, result, sketch)
    pinned = [step for step, target in targets.items() if target.root is not None]
    motion, frames = rebuild_events(graph, result, rate_hz=rate_hz, pinned=pinned if refine else None)
    reaches = [
        HandTarget(frame, HANDS[_step_event(graph, result, step)], targets[step].hand)
        for step, frame in zip(result.met, frames, strict=True)
        if step in targets
    ]
    motion = refine_reaches(motion, reaches)[0] if refine else motion
    return motion, reaches, frames


def final_errors(graph: MotionGraph, result: SearchResult, sketch: Sketch) -> tuple[Motion, tuple[float, ...]]:
    """The final motion, and how far [m] it is off at each constraint: hands and pinned roots as they are in it."""
    motion, reaches, frames = _run_stages(graph, result, sketch, None, refine=True)
    aims, errors = find_pick_targets(graph, result, sketch), list(result.found_errors)
    hands = {reach.frame: find_nearest_hand(motion, reach)[1] for reach in reaches}
    for n, (step, frame) in enumerate(zip(result.met, frames, strict=True)):
        if step in aims and frame in hands:
            root = aims[step].root
            off = 0.0 if root is None else float(np.linalg.norm(motion.root_positions[frame, [0, 2]] - root))
            errors[n] = max(hands[frame], off)
    return motion, tuple(errors)

"""Reconstruction of the motion of a path through the graph, with hands exactly at what they pick up or put down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.blending import balance_motion
from marey.graph.arrays import PICK_LEFT, PICK_RIGHT, compose_planar, to_frame, wrap_angles
from marey.graph.paths import SearchResult, blended_deltas, blended_hands
from marey.graph.reconstruction.joins import output_times, sample_track
from marey.graph.reconstruction.track import build_path_track, hold_path_feet, plant_positions, smooth_knees
from marey.kinematics import PointTask, solve_ik
from marey.lie import SO3
from marey.motion import Motion, contact_positions
from marey.numerics import smoothstep
from marey.skeleton import contact_points
from marey.world import Sketch, World, box_distance

if TYPE_CHECKING:
    from marey.graph.motion_graph import MotionGraph


@dataclass(frozen=True, slots=True, eq=False)
class PickTarget:
    """Target of a hand at the end of a step, and of the root if it is pinned."""

    hand: FloatArray  # (3,) [m]
    root: FloatArray | None = None  # (2,) [m] x, z


WEIGHT_SPAN: Final = 1.0 / 9.0  # [-] a weight stays within one step of the search's grid
NUM_TRIED: Final = 181  # weights looked at; a hand moves by a fraction of a millimetre from one to the next
MAX_SHIFT_M: Final = 0.02  # [m] by which later footsteps may move: corridors are searched with more room than that
MAX_TURN_RAD: Final = 0.02


def refine_weights(graph: MotionGraph, result: SearchResult, targets: dict[int, FloatArray]) -> SearchResult:
    """Move weights of blended picks off the search's grid, so that hands come as near to their targets as they can.

    The steps of one blend keep one weight. All that follows is carried along, by 2 cm at most ([Safonova2006]_ A22).

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
        weight = steps[step].weight
        alike = [s.is_blended and min(abs(s.weight - weight), abs(1.0 - s.weight - weight)) < 1e-9 for s in steps]
        first = last = step
        while first > 0 and alike[first - 1]:
            first -= 1
        while last + 1 < len(steps) and alike[last + 1]:
            last += 1
        tried = np.clip(weight + WEIGHT_SPAN * np.linspace(-1.0, 1.0, NUM_TRIED), 0.0, 1.0)
        # Weights of the steps of the run, and anchors from its start to its end, at each weight tried
        signs = [1.0 if abs(steps[n].weight - weight) < 1e-9 else -1.0 for n in range(first, last + 1)]
        weights = [steps[n].weight + sign * (tried - weight) for n, sign in enumerate(signs, first)]
        anchors = [np.tile(steps[first].place, (len(tried), 1))]
        for n, own in enumerate(weights, first):
            delta = blended_deltas(graph, np.array([steps[n].edge]), np.array([steps[n].other]), own)[0]
            anchors.append(compose_planar(anchors[-1], delta))
        # Distance of the hand from its target at each weight; weights that move the rest too far are out
        first_end, second_end = (graph.arrays.target[[edge]] for edge in (steps[step].edge, steps[step].other))
        hands = blended_hands(graph, first_end, second_end, tried)[0]
        x, z = compose_planar(anchors[step - first + 1], np.stack([hands[:, 0], hands[:, 2], 0.0 * tried], axis=1)).T[
            :2
        ]
        away = np.linalg.norm(np.stack([x, hands[:, 1], z], axis=1) - target, axis=1)
        shift = anchors[-1] - result.places[last + 1]
        is_far = (np.hypot(shift[:, 0], shift[:, 1]) > MAX_SHIFT_M) | (np.abs(wrap_angles(shift[:, 2])) > MAX_TURN_RAD)
        best = int(np.argmin(np.where(is_far, np.inf, away)))
        # The run with the best weight, and what follows, carried along rigidly
        places, rest = result.places.copy(), result.places[last + 1 :]
        places[first : last + 1] = [anchor[best] for anchor in anchors[:-1]]
        places[last + 1 :] = compose_planar(anchors[-1][best], to_frame(rest, rest[0]))
        chosen = {n: float(own[best]) for n, own in enumerate(weights, first)}
        moved = [replace(s, weight=chosen.get(n, s.weight), place=places[n]) for n, s in enumerate(steps)]
        result = replace(result, steps=tuple(moved), places=places)
    return result


REACH_EASE_S: Final = 0.4  # [s] over which a hand leaves its own way, and comes back to it
NEAR_M: Final = 0.5  # [m] a pick farther off than this is for something else (hands of blends are elsewhere)
HANDS: Final = {PICK_LEFT: "left_hand", PICK_RIGHT: "right_hand"}
REACH_TOL_M: Final = 1e-4  # [m] to which inverse kinematics goes
HAND_ROOM_M: Final = 0.02  # [m] between a palm and a table or box that it passes
LIFT_ROUNDS: Final = 4  # a hand that is brought out at one frame may still be inside at those round it


@dataclass(frozen=True, slots=True, eq=False)
class HandTarget:
    """Target of a hand at a frame."""

    frame: int
    hand: str  # "left_hand" or "right_hand"
    target: FloatArray  # (3,) [m]

    def distance(self, motion: Motion) -> float:
        """Distance [m] of the hand from its target."""
        points = contact_positions(motion[self.frame : self.frame + 1])[0]
        return float(np.linalg.norm(points[contact_points(motion.skeleton).index(self.hand)] - self.target))


def refine_reaches(motion: Motion, reaches: Sequence[HandTarget], *, spine: bool = True) -> Motion:
    """Bring hands to their targets by arm and spine, or by the arm alone; legs and root stay ([Safonova2006]_ A22).

    The pose of each frame is found by inverse kinematics; its change is eased in and out around the frame.
    """
    skeleton, points = motion.skeleton, contact_points(motion.skeleton)
    for reach in reaches:
        if reach.distance(motion) < REACH_TOL_M:
            continue
        # Only joints between the child of the root and the hand move; an arm is what carries one hand alone
        number = points.index(reach.hand)
        chains = [set[int](), set[int]()]
        for chain, name in zip(chains, sorted(HANDS.values(), key=reach.hand.__ne__), strict=True):
            at = int(points.joints[points.index(name)])
            while at > 0:
                chain.add(at)
                at = int(skeleton.parents[at])
        chain = chains[0] if spine else chains[0] - chains[1]
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
    return motion


def lift_hands(motion: Motion, world: World) -> Motion:
    """Bring hands out of tables and boxes, over the top or past the nearest side, whichever is the shorter way.

    The deepest frame of each stay inside is corrected by :func:`refine_reaches`, which eases into it and out of it. The
    arm alone gives way: a spine that bends for it would tip the body.
    """
    names = contact_points(motion.skeleton).names
    for solid in (*world.tables, *world.boxes):
        for hand in HANDS.values():
            point = contact_positions(motion)[:, names.index(hand)]
            beside = box_distance(solid.position, solid.size, solid.heading_deg, point[:, 0], point[:, 2])
            depth = np.minimum(HAND_ROOM_M - beside, solid.height_m + HAND_ROOM_M - point[:, 1])
            inside = np.flatnonzero(depth > 0.0)
            stays = np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1) if len(inside) else []
            reaches: list[HandTarget] = []
            for stay in stays:
                frame = int(stay[np.argmax(depth[stay])])
                # Outwards is up the slope of the distance
                x, y, z = point[frame]
                away = box_distance(
                    solid.position, solid.size, solid.heading_deg, x + np.array([-1e-4, 1e-4, 0.0, 0.0]),
                    z + np.array([0.0, 0.0, -1e-4, 1e-4]),
                )  # fmt: skip
                out = np.array([away[1] - away[0], 0.0, away[3] - away[2]])
                is_up = solid.height_m - y < -beside[frame]
                way = np.array([0.0, 1.0, 0.0]) if is_up else out / max(float(np.linalg.norm(out)), 1e-12)
                reaches.append(HandTarget(frame, hand, point[frame] + depth[frame] * way))
            motion = refine_reaches(motion, reaches, spine=False)
    return motion


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
    return refine_reaches(smooth_knees(held, motion), reaches), frames


def rebuild_for_sketch(
    graph: MotionGraph, result: SearchResult, sketch: Sketch, *, rate_hz: float | None = None, refine: bool = True
) -> tuple[Motion, tuple[float, ...]]:
    """As :func:`rebuild_motion`, with hands at the objects of picks and places.

    The search has moved footsteps; weights of blended picks move off its grid (:func:`refine_weights`), the root moves
    so that the body is balanced (:func:`marey.blending.balance_motion`), then arm and spine bring the hands to their
    objects.

    Returns:
        The motion, and how far [m] each hand is from its thing.
    """
    motion, reaches, _ = _run_stages(graph, result, sketch, rate_hz, refine=refine)
    return motion, tuple(reach.distance(motion) for reach in reaches)


def _run_stages(
    graph: MotionGraph, result: SearchResult, sketch: Sketch, rate_hz: float | None, *, refine: bool
) -> tuple[Motion, list[HandTarget], tuple[int, ...]]:
    """The motion, what its hands reach for, and the frames of its constraints."""
    # Targets of the hands, from the picks and places of the sketch, at the frames of the constraints; the root stays
    # where the sketch says where it is, and there the search has moved steps or weights already
    targets = find_pick_targets(graph, result, sketch)
    if refine:
        result = refine_weights(graph, result, {step: aim.hand for step, aim in targets.items() if aim.root is None})
    pinned = [step for step, target in targets.items() if target.root is not None]
    motion, frames = rebuild_events(graph, result, rate_hz=rate_hz, pinned=pinned if refine else None)
    reaches = [
        HandTarget(frame, HANDS[_step_event(graph, result, step)], targets[step].hand)
        for step, frame in zip(result.met, frames, strict=True)
        if step in targets
    ]
    if refine:
        motion = refine_reaches(motion, reaches)
        for _ in range(LIFT_ROUNDS):
            # A hand that reaches bends the spine, and so carries the other one
            lifted = lift_hands(motion, sketch.world)
            if lifted is motion:
                break
            motion = refine_reaches(lifted, reaches)
    return motion, reaches, frames


def final_errors(graph: MotionGraph, result: SearchResult, sketch: Sketch) -> tuple[Motion, tuple[float, ...]]:
    """The final motion, and how far [m] it is off at each constraint: hands and pinned roots as they are in it."""
    motion, reaches, frames = _run_stages(graph, result, sketch, None, refine=True)
    aims, errors = find_pick_targets(graph, result, sketch), list(result.found_errors)
    hands = {reach.frame: reach.distance(motion) for reach in reaches}
    for n, (step, frame) in enumerate(zip(result.met, frames, strict=True)):
        if step in aims and frame in hands:
            root = aims[step].root
            off = 0.0 if root is None else float(np.linalg.norm(motion.root_positions[frame, [0, 2]] - root))
            errors[n] = max(hands[frame], off)
    return motion, tuple(errors)

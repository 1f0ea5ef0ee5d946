"""Hands brought exactly to what they pick up or put down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray
from marey.graph._ara import PICK_LEFT, PICK_RIGHT, compose_planar
from marey.graph._refine_places import PickTarget
from marey.graph._search_result import SearchResult
from marey.kinematics import PointTask, solve_ik
from marey.lie import SO3
from marey.motion import Motion, contact_positions
from marey.numerics import smoothstep
from marey.skeleton import Skeleton, contact_points
from marey.world import Event, Sketch

if TYPE_CHECKING:
    from marey.graph._graph import MotionGraph

REACH_EASE_S: Final = 0.4  # [s] over which a hand leaves its own way, and comes back to it
NEAR_M: Final = 0.5  # [m] a pick farther off than this is for something else (hands of blends are elsewhere)
HANDS: Final = {PICK_LEFT: "left_hand", PICK_RIGHT: "right_hand"}
REACH_TOL_M: Final = 1e-4  # [m] to which inverse kinematics goes


@dataclass(frozen=True, slots=True, eq=False)
class HandTarget:
    """A hand that shall be somewhere at a frame."""

    frame: int
    hand: str  # "left_hand", "right_hand", or "" for the nearer one
    target: FloatArray  # (3,) [m]


def refine_reaches(motion: Motion, reaches: Sequence[HandTarget]) -> tuple[Motion, tuple[float, ...]]:
    """Bring hands to their targets by arm and spine; legs and root stay ([Safonova2006]_ A22).

    The pose of each frame is found by inverse kinematics; its change is eased in and out around the frame.

    Returns:
        The motion, and how far [m] each hand is from its target in it.
    """
    for reach in reaches:
        motion = _apply_reach(motion, reach)
    return motion, tuple(reach_error(motion, reach) for reach in reaches)


def reach_error(motion: Motion, reach: HandTarget) -> float:
    """Distance [m] of a hand from its target."""
    return _solve_reach(motion, reach)[1]


def _solve_reach(motion: Motion, reach: HandTarget) -> tuple[str, float]:
    names = contact_points(motion.skeleton).names
    points = contact_positions(motion[reach.frame : reach.frame + 1])[0]
    hands = [reach.hand] if reach.hand else [name for name in ("left_hand", "right_hand") if name in names]
    away = [float(np.linalg.norm(points[names.index(hand)] - reach.target)) for hand in hands]
    best = int(np.argmin(away))
    return hands[best], away[best]


def _apply_reach(motion: Motion, reach: HandTarget) -> Motion:
    hand, away = _solve_reach(motion, reach)
    if away < REACH_TOL_M:
        return motion
    points = contact_points(motion.skeleton)
    number = points.index(hand)
    task = PointTask(int(points.joints[number]), reach.target, point=points.offsets[number])
    start = motion[reach.frame]
    found = solve_ik(
        motion.skeleton, [task], start=start, root="fixed", frozen_joints=_joints_off_chain(motion.skeleton,
        task.joint),
        tolerance_m=REACH_TOL_M, on_failure="return",
    )  # fmt: skip
    change = (motion.rotations[reach.frame].inverse() @ found.pose.rotations).log()
    away = np.abs(np.arange(motion.num_frames) - reach.frame) / (REACH_EASE_S * motion.rate_hz)
    weight = 1.0 - smoothstep(away)
    return replace(motion, rotations=motion.rotations @ SO3.exp(weight[:, None, None] * change))


def _joints_off_chain(skeleton: Skeleton, joint: str | int) -> list[int]:
    """Joints that are not on the chain from a joint up to the child of the root."""
    chain, at = set[int](), int(joint)
    while at > 0:
        chain.add(at)
        at = int(skeleton.parents[at])
    return [j for j in range(1, skeleton.num_joints) if j not in chain]


def find_pick_targets(graph: MotionGraph, result: SearchResult, sketch: Sketch) -> dict[int, PickTarget]:
    """What hands reach for at the ends of steps, by the picks and places of a sketch, and where roots are pinned."""
    wanted = [_make_pick_target(sketch, event) for event in sketch.events if event.kind in ("pick", "place")]
    found: dict[int, PickTarget] = {}
    for step in result.met:
        if len(found) < len(wanted) and _is_within_reach(graph, result, step, wanted[len(found)].hand):
            found[step] = wanted[len(found)]
    return found


def find_hand_targets(
    graph: MotionGraph, result: SearchResult, frames: Sequence[int], sketch: Sketch
) -> list[HandTarget]:
    """What hands reach for in a way, by the picks and places of its sketch; ``frames`` are those of its constraints."""
    aims = find_pick_targets(graph, result, sketch)
    return [
        HandTarget(frame, HANDS[_step_event(graph, result, step)], aims[step].hand)
        for step, frame in zip(result.met, frames, strict=True)
        if step in aims
    ]


def _step_event(graph: MotionGraph, result: SearchResult, step: int) -> int:
    """What happens at the end of a step."""
    return int(graph.arrays.event[graph.arrays.target[result.steps[step].edge]])


def measure_hand_targets(
    graph: MotionGraph, result: SearchResult, motion: Motion, frames: Sequence[int]
) -> list[HandTarget]:
    """Where hands are at the picks of a way, in a motion whose legs were not changed yet."""
    points, names = contact_positions(motion), contact_points(motion.skeleton).names
    events = [_step_event(graph, result, step) for step in result.met]
    return [
        HandTarget(frame, HANDS[event], points[frame, names.index(HANDS[event])])
        for event, frame in zip(events, frames, strict=True)
        if event in HANDS
    ]


def _make_pick_target(sketch: Sketch, event: Event) -> PickTarget:
    root = None if event.at is None else np.array(event.at)
    if event.kind == "place" and event.to is not None:
        return PickTarget(np.array(event.to), root)
    return PickTarget(np.array(sketch.world.object(event.object or "").position), root)


def _is_within_reach(graph: MotionGraph, result: SearchResult, step: int, target: FloatArray) -> bool:
    if _step_event(graph, result, step) not in HANDS:
        return False
    x, y, z = graph.arrays.hand[graph.arrays.target[result.steps[step].edge]]
    at = compose_planar(result.places[step + 1], np.array([x, z, 0.0]))
    return float(np.linalg.norm([at[0] - target[0], y - target[1], at[1] - target[2]])) < NEAR_M

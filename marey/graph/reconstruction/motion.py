"""Reconstruction of the motion of a path through the graph."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from marey.base import InputError
from marey.blending import balance_motion
from marey.graph.paths import SearchResult
from marey.graph.reconstruction.hands import (
    HandTarget,
    find_hand_targets,
    find_nearest_hand,
    find_pick_targets,
    measure_hand_targets,
    refine_footsteps,
    refine_reaches,
    refine_weights,
)
from marey.graph.reconstruction.joins import output_times, sample_track
from marey.graph.reconstruction.track import build_path_track, hold_feet, plant_positions
from marey.lie import SO3
from marey.motion import Motion
from marey.world import Sketch

if TYPE_CHECKING:
    from marey.graph.motion_graph import MotionGraph


def rebuild_motion(graph: MotionGraph, result: SearchResult, *, rate_hz: float | None = None) -> Motion:
    """The motion of a way ([Safonova2006]_ §4.3.1, F27).

    Edges are blended where the way blends them, placed by their planted feet and joined; jumps of pose between them
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
    graph: MotionGraph, result: SearchResult, *, rate_hz: float | None = None
) -> tuple[Motion, tuple[int, ...]]:
    """As :func:`rebuild_motion`, with the frame at which each constraint is met."""
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
    held, _ = refine_reaches(hold_feet(motion, shown.plants), measure_hand_targets(graph, result, motion, frames))
    return held, frames


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
    motion, frames = rebuild_events(graph, result, rate_hz=rate_hz)
    reaches = find_hand_targets(graph, result, frames, sketch)
    if refine:
        # The root stays at frames at which the sketch says where it is
        aims = find_pick_targets(graph, result, sketch)
        met = zip(result.met, frames, strict=True)
        pinned = [frame for step, frame in met if step in aims and aims[step].root is not None]
        motion = refine_reaches(balance_motion(motion, graph.database.body, keep=pinned), reaches)[0]
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

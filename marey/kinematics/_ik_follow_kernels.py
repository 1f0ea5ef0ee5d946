"""Compiled clips in the full space: frame after frame, around limits, and never faster than the goals ask for."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, inline_kernel, kernel
from marey.kinematics._ik_kernels import REACHED, STATIONARY, evaluate_goals, solve_full
from marey.kinematics._ik_layout import IKLayout, SpeedLimits
from marey.kinematics._ik_limited_kernels import solve_limited
from marey.kinematics._ik_pace_kernels import (
    blend_towards,
    clamp_joint_steps,
    largest_joint_step,
    max_joint_step,
    scale_pose_step,
)
from marey.kinematics._limits_all_kernels import project_to_bounds
from marey.kinematics._limits_tables import BOX, FREE, Bounds

MAX_REPAIRS = 3  # times that a pose is held back and the joints that are not held take over
REPAIR_ITERATIONS = 12  # of each of them
NUDGE_FRACTIONS = (0.15, 0.5, 1.0)  # [-] of the way to the middle of the limits, when goals are missed
MIN_IMPROVEMENT = 0.5  # [-] of the objective: less than this is worth another branch of answers
MAX_WAIT_FRAMES = 16  # frames without another try, after tries that found nothing


@inline_kernel
def solve_frame(
    layout: IKLayout,
    bounds: Bounds,
    targets: FloatArray,
    active: BoolArray,
    root: FloatArray,
    wxyz: FloatArray,
    errors: FloatArray,
    max_iterations: int,
    seek_optimum: bool,
    start_damping: float,
) -> tuple[int, int, int, float, float]:
    """As ``solve_full``, or ``solve_limited`` under limits that are no boxes."""
    history = np.zeros((0, 4))
    how = (max_iterations, seek_optimum, start_damping, history)
    if bounds.kind > BOX:
        return solve_limited(layout, bounds, targets, active, root, wxyz, errors, *how)
    return solve_full(layout, targets, active, root, wxyz, errors, *how)


@inline_kernel
def solve_from_interior(
    layout: IKLayout,
    bounds: Bounds,
    pace: SpeedLimits,
    targets: FloatArray,
    active: BoolArray,
    last_root: FloatArray,
    last_wxyz: FloatArray,
    root: FloatArray,
    wxyz: FloatArray,
    errors: FloatArray,
    max_iterations: int,
    seek_optimum: bool,
    start_damping: float,
    found: tuple[int, int, int, float, float],
) -> tuple[int, int, int, float, float]:
    """Solve anew from the last pose moved off its bounds: a joint on one, a straight knee say, may be stuck there.

    Keeps the answer that reaches all goals, or one with less than half of the objective, else what was found.
    """
    best, spent = found, found[1]
    for n in range(len(NUDGE_FRACTIONS)):
        other, turns, missing = last_root.copy(), last_wxyz.copy(), np.zeros_like(errors)
        blend_towards(layout.springs.mobility, pace.middle, NUDGE_FRACTIONS[n], turns)
        tried = solve_frame(
            layout, bounds, targets, active, other, turns, missing, max_iterations, seek_optimum, start_damping
        )
        spent += tried[1]
        if tried[0] == REACHED or tried[3] < MIN_IMPROVEMENT * best[3]:
            best = tried
            root[:], wxyz[:], errors[:] = other, turns, missing
        if tried[0] == REACHED:
            break
    return best[0], spent, best[2], best[3], best[4]


@inline_kernel
def limit_frame_step(
    layout: IKLayout,
    bounds: Bounds,
    pace: SpeedLimits,
    most: float,
    targets: FloatArray,
    active: BoolArray,
    last_root: FloatArray,
    last_wxyz: FloatArray,
    root: FloatArray,
    wxyz: FloatArray,
    errors: FloatArray,
    seek_optimum: bool,
    start_damping: float,
) -> tuple[float, bool]:
    """Keep every joint within ``most`` [rad] of the last pose; return the objective and whether all is reached.

    Joints that would turn further are held, and the others take over what they can. What is left to do is done in the
    frames that follow. A pose that is on its way as a whole, all joints by the same part, is taken if it is nearer.
    """
    whole, turns, missing = last_root.copy(), last_wxyz.copy(), np.zeros_like(errors)
    scale_pose_step(last_root, last_wxyz, root, wxyz, most, pace.limb_m, whole, turns)
    clamp_joint_steps(last_root, last_wxyz, root, wxyz, most, pace.limb_m)
    for _ in range(MAX_REPAIRS):
        solve_frame(layout, bounds, targets, active, root, wxyz, errors, REPAIR_ITERATIONS, seek_optimum, start_damping)
        clamp_joint_steps(last_root, last_wxyz, root, wxyz, most, pace.limb_m)
    if bounds.kind != FREE:
        project_to_bounds(bounds, wxyz)
        project_to_bounds(bounds, turns)
    cost, is_reached = evaluate_goals(layout, targets, active, root, wxyz, errors)
    whole_cost, is_whole = evaluate_goals(layout, targets, active, whole, turns, missing)
    if whole_cost < cost and not is_reached:
        root[:], wxyz[:], errors[:] = whole, turns, missing
        return whole_cost, is_whole
    return cost, is_reached


@kernel
def solve_paced_clip(
    layout: IKLayout,
    bounds: Bounds,
    pace: SpeedLimits,
    targets: FloatArray,
    active: BoolArray,
    root: FloatArray,
    wxyz: FloatArray,
    max_iterations: int,
    seek_optimum: bool,
    start_damping: float,
    roots: FloatArray,
    rotations: FloatArray,
    errors: FloatArray,
    counts: FloatArray,
) -> None:
    """Solve frame after frame, each from the answer before, the first from ``root`` and ``wxyz``.

    Writes ``roots`` ``(F, 3)``, ``rotations`` ``(F, J, 4)``, ``errors`` ``(F, B, 3)`` and ``counts`` ``(F, 6)``: how it
    ended, iterations, objective, projected gradient, zero, and 1 where the pose was held back.
    """
    place, turns = root.copy(), wxyz.copy()
    last_place, last_turns, wait, pause = root.copy(), wxyz.copy(), 0, 1
    for f in range(targets.shape[0]):
        last_place[:], last_turns[:] = place, turns
        goals, flags, missing = targets[f], active[f], errors[f]
        found = solve_frame(
            layout, bounds, goals, flags, place, turns, missing, max_iterations, seek_optimum, start_damping
        )
        if found[0] != REACHED and pace.middle.shape[0] > 0:
            wait -= 1
            if wait <= 0:
                first = found[3]
                found = solve_from_interior(
                    layout,
                    bounds,
                    pace,
                    goals,
                    flags,
                    last_place,
                    last_turns,
                    place,
                    turns,
                    missing,
                    max_iterations,
                    seek_optimum,
                    start_damping,
                    found,
                )
                pause = 1 if found[3] < first else min(2 * pause, MAX_WAIT_FRAMES)
                wait = pause
        else:
            wait, pause = 0, 1
        stop, cost = found[0], found[3]
        most = max_joint_step(layout, pace, targets, active, f)
        if largest_joint_step(last_turns, turns, last_place, place, pace.limb_m) > most:
            cost, is_reached = limit_frame_step(
                layout,
                bounds,
                pace,
                most,
                goals,
                flags,
                last_place,
                last_turns,
                place,
                turns,
                missing,
                seek_optimum,
                start_damping,
            )
            stop, counts[f, 5] = REACHED if is_reached else STATIONARY, 1.0
        roots[f], rotations[f] = place, turns
        counts[f, 0], counts[f, 1], counts[f, 2], counts[f, 3] = stop, found[1], cost, found[4]

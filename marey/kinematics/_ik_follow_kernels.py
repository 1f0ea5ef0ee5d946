"""Compiled clips in the full space: frame after frame, around limits, and never faster than the goals ask for."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, inline_kernel, kernel
from marey.kinematics._ik_kernels import REACHED, STATIONARY, rate, solve_full
from marey.kinematics._ik_layout import Layout, Pace
from marey.kinematics._ik_limited_kernels import solve_limited
from marey.kinematics._ik_pace_kernels import asked_turn, hold_turn, largest_turn, part_of_turn, towards
from marey.kinematics._limits_all_kernels import enter_bounds
from marey.kinematics._limits_tables import BOX, FREE, Bounds

REPAIRS = 3  # times that a pose is held back and the joints that are not held take over
REPAIR_ITERATIONS = 12  # of each of them
NUDGES = (0.15, 0.5, 1.0)  # [-] of the way to the middle of the limits, when goals are missed
BETTER = 0.5  # [-] of the objective: less than this is worth another branch of answers
LONGEST_WAIT = 16  # frames without another try, after tries that found nothing


@inline_kernel
def solve_frame(
    layout: Layout,
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
def try_inside(
    layout: Layout,
    bounds: Bounds,
    pace: Pace,
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
    for n in range(len(NUDGES)):
        other, turns, missing = last_root.copy(), last_wxyz.copy(), np.zeros_like(errors)
        towards(layout.springs.mobility, pace.middle, NUDGES[n], turns)
        tried = solve_frame(
            layout, bounds, targets, active, other, turns, missing, max_iterations, seek_optimum, start_damping
        )
        spent += tried[1]
        if tried[0] == REACHED or tried[3] < BETTER * best[3]:
            best = tried
            root[:], wxyz[:], errors[:] = other, turns, missing
        if tried[0] == REACHED:
            break
    return best[0], spent, best[2], best[3], best[4]


@inline_kernel
def hold_back(
    layout: Layout,
    bounds: Bounds,
    pace: Pace,
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
    part_of_turn(last_root, last_wxyz, root, wxyz, most, pace.limb_m, whole, turns)
    hold_turn(last_root, last_wxyz, root, wxyz, most, pace.limb_m)
    for _ in range(REPAIRS):
        solve_frame(layout, bounds, targets, active, root, wxyz, errors, REPAIR_ITERATIONS, seek_optimum, start_damping)
        hold_turn(last_root, last_wxyz, root, wxyz, most, pace.limb_m)
    if bounds.kind != FREE:
        enter_bounds(bounds, wxyz)
        enter_bounds(bounds, turns)
    cost, is_reached = rate(layout, targets, active, root, wxyz, errors)
    whole_cost, is_whole = rate(layout, targets, active, whole, turns, missing)
    if whole_cost < cost and not is_reached:
        root[:], wxyz[:], errors[:] = whole, turns, missing
        return whole_cost, is_whole
    return cost, is_reached


@kernel
def follow_clip(
    layout: Layout,
    bounds: Bounds,
    pace: Pace,
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
                found = try_inside(
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
                pause = 1 if found[3] < first else min(2 * pause, LONGEST_WAIT)
                wait = pause
        else:
            wait, pause = 0, 1
        stop, cost = found[0], found[3]
        most = asked_turn(layout, pace, targets, active, f)
        if largest_turn(last_turns, turns, last_place, place, pace.limb_m) > most:
            cost, is_reached = hold_back(
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

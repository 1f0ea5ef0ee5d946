"""The frames of a clip, one after the other, by any method."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.kinematics._ik import solve_with_restarts
from marey.kinematics._ik_clips import (
    ALLOWED_RAD,
    ClipSolution,
    Guess,
    SolverInputs,
    allocate_clip,
    allocate_frame,
    full_pose_space,
    solve_clip_full,
    solve_clip_limited,
    solve_clip_newton,
    solve_clip_penalised,
)
from marey.kinematics._ik_layout import SpeedLimits
from marey.kinematics._ik_space import PosedBody
from marey.kinematics._limits import JointLimits
from marey.kinematics._limits_tables import FREE, Bounds
from marey.lie import SO3

if TYPE_CHECKING:
    from marey.kinematics._solvers_space_kernels import ModelSpace

MAX_STEP_RATIO: Final = 4.5  # [-] of what the goals ask for; 5 would be a jump, and projections on limits add a little
LIMB_FRACTION: Final = 0.25  # [-] of the reach: a goal that moves so far asks for a turn of 1 rad


def build_speed_limits(body: PosedBody, limits: JointLimits | None, max_turn: float | None) -> SpeedLimits:
    """How far a pose may go in a frame, and where its limits are widest.

    Raises:
        InputError: ``max_turn`` is not above 0.
    """
    most = np.inf if max_turn is None else float(max_turn)
    if not most > 0.0:
        raise InputError(f"max_turn is {max_turn}", "Give a positive number, or None for no bound")
    rest = body.skeleton.rest_positions()
    reach = float(np.linalg.norm(rest - rest[0], axis=1).max())
    middle = np.zeros((0, 4)) if limits is None else np.array(limits.middle().wxyz)
    return SpeedLimits(most, LIMB_FRACTION * max(reach, 1e-3), middle)


def solve_frames(
    run: SolverInputs,
    guess: Guess,
    method: str,
    body: PosedBody,
    limits: JointLimits | None,
    targets: FloatArray,
    active: BoolArray,
) -> ClipSolution:
    """Solve all frames, each from the answer before; the guess is the first answer."""
    frames, joints = len(targets), body.skeleton.num_joints
    clip = allocate_clip(frames, joints, len(guess.x), targets.shape[1])
    p = run.problem
    if method == "projected-lm" and p.bounds is not None and run.space is None:
        solve_clip_full(run, guess, p.bounds, targets, active, clip)
        return clip
    if method == "projected-lm" and p.bounds is not None and run.space is not None:
        _solve_model_frames(run, guess, run.space, p.bounds, targets, active, clip)
        return clip
    for f in range(frames):
        frame = replace(run, targets=targets[f], active=active[f], errors=clip.errors[f])
        last = Guess(guess.root.copy(), guess.wxyz.copy(), guess.x.copy())
        outcome = solve_with_restarts(frame, guess, method, body, limits, restarts=0)
        clip.counts[f, :5] = (*outcome[:2], *outcome[3:])
        _limit_frame(frame, limits, last, guess, targets, active, f, clip.counts[f])
        clip.roots[f], clip.wxyz[f], clip.x[f] = guess.root, guess.wxyz, guess.x
    return clip


def _solve_model_frames(
    run: SolverInputs,
    guess: Guess,
    space: ModelSpace,
    bounds: Bounds,
    targets: FloatArray,
    active: BoolArray,
    clip: ClipSolution,
) -> None:
    """Fill a clip in the space of a model, in one compiled loop."""
    if bounds.kind == FREE:
        solve_clip_newton(run, guess, None, targets, active, clip)
        return
    solve_clip_penalised(run, guess, space, bounds, targets, active, clip)
    _repair_frames(run, bounds, targets, active, clip)


def _repair_frames(
    run: SolverInputs, bounds: Bounds, targets: FloatArray, active: BoolArray, clip: ClipSolution
) -> None:
    """Solve frames anew whose model has no pose inside the limits, in the full space; leave a flag in the counts."""
    left = clip.counts[:, 4] > ALLOWED_RAD
    clip.counts[:, 4] = left
    for f in np.flatnonzero(left):
        guess = Guess(clip.roots[f].copy(), clip.wxyz[f].copy(), clip.x[f])
        single = allocate_frame(run, guess)
        solve_clip_limited(run, guess, bounds, targets[f : f + 1], active[f : f + 1], single)
        clip.roots[f], clip.wxyz[f], clip.errors[f] = single.roots[0], single.wxyz[0], single.errors[0]
        single.counts[0, 1] += clip.counts[f, 1]
        clip.counts[f, :4] = single.counts[0, :4]


def _limit_frame(
    run: SolverInputs,
    limits: JointLimits | None,
    last: Guess,
    guess: Guess,
    targets: FloatArray,
    active: BoolArray,
    f: int,
    counts: FloatArray,
) -> None:
    """Bring a pose that went too far in frame f back on its way, and into its limits."""
    from marey.kinematics._ik_kernels import evaluate_goals
    from marey.kinematics._solvers_pace_kernels import limit_state_step
    from marey.kinematics._solvers_space_kernels import new_state

    layout = run.problem.layout
    state = new_state(layout, guess.root, guess.wxyz, guess.x)
    old = new_state(layout, last.root, last.wxyz, last.x)
    if not limit_state_step(layout, full_pose_space(run), run.pace, targets, active, f, old, state, counts):
        return
    guess.root[:], guess.wxyz[:], guess.x[:] = state.root, state.wxyz, state.x
    if limits is not None:
        guess.wxyz[:] = limits.project_rotations(SO3(guess.wxyz[None])).wxyz[0]
    evaluate_goals(layout, run.targets, run.active, guess.root, guess.wxyz, run.errors)

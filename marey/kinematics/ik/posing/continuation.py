"""Frames solved one from another, a goal moved along its way in short steps, and clamps of a step ([Engell2012]_ §4.2).

A descent may end far from its start although the goal moved little: it steps over to another branch of answers, or its
branch ends at a limit or a straight limb. Joints are then held to so many radians for each metre of the goal's way.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.kinematics.ik.levenberg_marquardt import ALLOWED_RAD, DualStep, StopRule
from marey.kinematics.ik.methods import (
    START_DAMPING,
    allocate_clip,
    find_method,
    full_pose_space,
    select_bounds,
    solve_clip_dense,
    solve_dual_pose,
    solve_projected_lm,
)
from marey.kinematics.ik.pace import MIN_JOINT_STEP_RAD, ClipSolution, limit_pose_step, solve_full_clip
from marey.kinematics.ik.posing.attempts import measure_blocks, measure_turns, solve_with_restarts
from marey.kinematics.ik.posing.starts import PosedBody
from marey.kinematics.ik.problem import Guess, SolverInputs, SolverOutcome
from marey.kinematics.ik.state import (
    COM,
    LOOK_AT,
    ORIENTATION,
    OUT_OF_ITERATIONS,
    POINT,
    REACHED,
    STATIONARY,
    Goals,
    PoseArrays,
    evaluate_goals,
)
from marey.kinematics.limits.contract import JointLimits
from marey.lie import SO3
from marey.skeleton import Skeleton

MAX_STEP_RATIO: Final = 4.5  # [-] of what the goals ask for; 5 would be a jump, and projections on limits add a little
LIMB_FRACTION: Final = 0.25  # [-] of the reach: a goal that moves so far asks for a turn of 1 rad
MAX_TURN_RAD_PER_M: Final = 18.0  # [rad/m] of a joint over the goal's way; 0.2 rad for a centimetre would be a flip
SMALL_TURNS_PER_REACH: Final = 5.0  # [rad] the same for bodies of less than a quarter of a metre, by their reach
STIFF_RATIO: Final = 1e3  # [-] of weights
SUBSTEP_M: Final = 0.0025  # [m] the goal's way is divided into steps of this length
MIN_SUBSTEPS, MAX_SUBSTEPS = 4, 40
SUBSTEP_ITERATIONS: Final = 30  # of a step that is not the last: goals out of reach need not be settled on the way


class BranchEnd(NamedTuple):
    """A pose that was held back, since the answer lies on another branch."""

    joint: str  # that would have turned farthest
    turn_rad: float  # [rad] by this
    way_m: float  # [m] while the goal went so far; a turned goal counts by the limb it turns


@lru_cache(maxsize=64)
def body_reach(skeleton: Skeleton) -> float:
    """Distance of the joint that is farthest from the root, at rest [m]."""
    rest = skeleton.rest_positions()
    return max(float(np.linalg.norm(rest - rest[0], axis=1).max()), 1e-3)


def solve_frames(
    run: SolverInputs, guess: Guess, method: str, body: PosedBody, limits: JointLimits | None, goals: Goals
) -> tuple[ClipSolution, BoolArray]:
    """Solve all frames, each from the answer before; the guess is the first answer.

    Returns also the frames whose pose is not one of the model, since the model and the limits disagree ``(F,)``.
    """
    frames, p = len(goals.targets), run.problem
    clip = allocate_clip(run, guess, frames)
    is_left = np.zeros(frames, dtype=np.bool_)
    if method == "projected-lm" and p.bounds is not None and run.space is None:
        # One compiled loop in the full space
        bounds, pose = select_bounds(p), run.pose_arrays(guess)
        stop, dual = StopRule(run.max_iterations, p.seek_optimum), DualStep(START_DAMPING, False)
        solve_full_clip(p.layout, bounds, dual, run.pace, goals, pose, stop, clip)
        return clip, is_left
    if method == "projected-lm" and p.bounds is not None:
        solve_clip_dense(run, guess, goals, clip, bounds=p.bounds)
        is_left[:] = clip.violations > ALLOWED_RAD
        for f in np.flatnonzero(is_left):
            # The model has no pose inside the limits: go on in the full space
            pose = Guess(clip.roots[f], clip.wxyz[f], clip.x[f])
            single = run._replace(targets=goals.targets[f], active=goals.active[f], errors=clip.errors[f])
            more = solve_dual_pose(single, pose, p.bounds)
            clip.iterations[f] += more.iterations
            clip.stops[f], clip.objectives[f], clip.gradients[f] = more.stop, more.objective, more.gradient
        return clip, is_left
    for f in range(frames):
        frame = run._replace(targets=goals.targets[f], active=goals.active[f], errors=clip.errors[f])
        last = PoseArrays(guess.root.copy(), guess.wxyz.copy(), guess.x.copy(), np.zeros_like(frame.errors))
        outcome = solve_with_restarts(frame, guess, method, body, limits, restarts=0)
        clip.stops[f], clip.iterations[f], is_left[f] = outcome.stop, outcome.iterations, outcome.is_left
        # A pose that went too far is brought back on its way, and into its limits
        pose, space = frame.pose_arrays(guess), full_pose_space(run)
        clip.is_held[f], _, is_reached = limit_pose_step(p.layout, space, run.pace, goals, f, last, pose)
        if clip.is_held[f]:
            clip.stops[f] = REACHED if is_reached else STATIONARY
            if limits is not None:
                guess.wxyz[:] = limits.project_rotations(SO3(guess.wxyz[None])).wxyz[0]
            evaluate_goals(p.layout, frame.goals, pose)
        clip.roots[f], clip.wxyz[f], clip.x[f] = guess.root, guess.wxyz, guess.x
    return clip, is_left


def follow_branch(
    run: SolverInputs, first: Guess, guess: Guess, body: PosedBody, last_targets: FloatArray | None
) -> tuple[SolverOutcome, BranchEnd | None] | None:
    """Go from a pose to the goals by short steps of the goals, if the answer turned a joint too far on the way.

    Returns nothing if it did not. Otherwise ``guess`` is overwritten by the pose at the end of the branch that begins
    at ``first``; the second value tells where that branch ends short of the goals. ``last_targets`` are those
    ``(B, 4)`` that ``first`` was solved for, if they are known: then their way counts, not the distance that is left.
    """
    skeleton, problem = run.problem.skeleton, run.problem
    is_angle = np.array(problem.is_angle, dtype=np.bool_)
    limb_m = LIMB_FRACTION * body_reach(skeleton)
    rate = max(MAX_TURN_RAD_PER_M, SMALL_TURNS_PER_REACH / body_reach(skeleton))
    pair = (np.stack([first.root, guess.root]), np.stack([first.wxyz, guess.wxyz]))
    both = measure_blocks(problem, np.stack([run.targets] * 2), np.stack([run.active] * 2), *pair)
    # How far the blocks went; a turn counts by the limb that it asks for
    turned = 2.0 * np.arccos(np.minimum(np.abs((both.world[0] * both.world[1]).sum(axis=1)), 1.0))
    went = np.where(is_angle, turned[problem.layout.blocks.joints] * limb_m, _norm(both.places[1] - both.places[0]))
    turns = measure_turns(first, guess)
    # How far the goals went: from where the points were, or from the goals before
    way_m = float((both.sizes[0] * np.where(is_angle, limb_m, 1.0)).max(initial=0.0))
    allowed = limit_turn(rate, float(went[run.active].max(initial=0.0)))
    # A pose says nothing about the goals before: what the answer would go is at least no more than what is left
    most = min(limit_turn(rate, way_m), allowed)
    if last_targets is not None:
        is_turn = problem.layout.blocks.kinds == ORIENTATION
        swung = 2.0 * np.arccos(np.minimum(np.abs((run.targets * last_targets).sum(axis=1)), 1.0)) * limb_m
        ways = np.where(is_turn, swung, _norm(run.targets - last_targets))
        most = allowed = rate * float(ways[run.active].max(initial=0.0)) + MIN_JOINT_STEP_RAD
    if float(turns.max()) <= allowed:
        return None
    steps = int(np.clip(np.ceil(way_m / SUBSTEP_M), MIN_SUBSTEPS, MAX_SUBSTEPS))
    # Targets on their way from where the blocks are to where they should be
    blocks, parts = run.problem.layout.blocks, np.linspace(0.0, 1.0, steps + 1)[:, None]
    targets = np.repeat(run.targets[None], steps + 1, axis=0)
    for row, kind in enumerate(blocks.kinds.tolist()):
        frame, place = SO3(both.world[0])[int(blocks.joints[row])], both.places[0][row]
        if row >= len(run.problem.goals) or not run.active[row]:
            # Pins stay where they are
            continue
        if kind == ORIENTATION:
            whole = (frame.inverse() @ SO3(run.targets[row])).log()
            targets[:, row] = (frame @ SO3.exp(parts * whole)).wxyz
            continue
        if kind == LOOK_AT:
            # The point that the gaze meets now, as far away as the target
            place = place + np.linalg.norm(run.targets[row, :3] - place) * (frame @ blocks.aims[row])
        targets[:, row, :3] = place + parts * (run.targets[row, :3] - place)
    # Short steps; one that would turn a joint too far is taken a part of the way, and pins are met again
    here, outcome, is_held, spent, tries = first.copy(), SolverOutcome(REACHED, 0, 0, 0.0, 0.0), False, 0, 0
    # What is far heavier than the lightest goal, or of a higher priority, is met again like a pin
    weights = np.trace(problem.layout.blocks.weights, axis1=1, axis2=2)
    is_pin = (np.arange(len(weights)) >= len(problem.goals)) | (weights > STIFF_RATIO * weights.min())
    for k in range(1, steps + 1):
        there = here.copy()
        count = run.max_iterations if k == steps else min(run.max_iterations, SUBSTEP_ITERATIONS)
        step = run._replace(targets=targets[k], max_iterations=count, history=run.history[:0])
        outcome = solve_projected_lm(step, there)
        spent, tries = spent + outcome.iterations, tries + outcome.evaluations
        turn = float(measure_turns(here, there).max())
        if turn > most / steps:
            interpolate_pose(here, there, most / steps / turn, body)
            is_held = True
            if is_pin.any():
                # The nearest pose in turns, whatever the metric of the steps
                pins = step._replace(active=run.active & is_pin, errors=run.errors.copy(), variant=None)
                spent += solve_projected_lm(pins._replace(metric=np.zeros((0, 0))), there).iterations
        here = there
    guess.assign(here)
    size = measure_blocks(problem, run.targets[None], run.active[None], here.root[None], here.wxyz[None]).sizes[0]
    is_met = bool((size <= problem.layout.blocks.tolerances).all())
    stop = REACHED if is_met else STATIONARY if is_held else outcome.stop
    end = None
    if is_held and not is_met:
        end = BranchEnd(skeleton.names[int(turns.argmax())], float(turns.max()), way_m)
    return SolverOutcome(stop, spent, tries, outcome.objective, outcome.gradient, outcome.is_left), end


def limit_turn(rate: float, way_m: float) -> float:
    """Largest turn [rad] for a way of the goals: by the rate up to a centimetre, and at half of it farther away.

    A pose that was held back is a little behind its goals, whose last step is not known: it may not make up at once.
    """
    return rate * max(min(way_m, 0.01), 0.5 * way_m) + MIN_JOINT_STEP_RAD


def _norm(vectors: FloatArray) -> FloatArray:
    return np.sqrt((vectors[:, :3] ** 2).sum(axis=1))


def interpolate_pose(first: Guess, second: Guess, part: float, body: PosedBody) -> None:
    """Bring the second pose back to a part of its way from the first."""
    second.root[:] = first.root + part * (second.root - first.root)
    start = SO3(first.wxyz)
    second.wxyz[:] = (start @ SO3.exp(part * (start.inverse() @ SO3(second.wxyz)).log())).wxyz
    if body.model is not None:
        second.x[:] = first.x + part * (second.x - first.x)
        second.wxyz[1:] = body.model.rotations(second.x[None]).wxyz[0, 1:]


STILL = 1e-7  # [rad] an iteration that turns no joint by more is the last


def solve_clamped(
    run: SolverInputs, guess: Guess, method: str, body: PosedBody, rate_rad: float | None, goal_m: float | None
) -> SolverOutcome:
    r"""One iteration of a method after another, :math:`\|e_j\| \le D_{max}` and no joint beyond its rate.

    A goal farther than ``goal_m`` [m] from its point is taken at that distance; an iteration that turns a joint by more
    than ``rate_rad`` [rad] is shortened as a whole.

    Raises:
        InputError: a clamp that is not positive.
    """
    for name, clamp in (("rate_clamp_rad", rate_rad), ("goal_clamp_m", goal_m)):
        if clamp is not None and not clamp > 0.0:
            raise InputError(f"{name} is {clamp:g}", "Give a positive number, or None for no clamp")
    solver, kinds = find_method(method)[0], run.problem.layout.blocks.kinds
    tries, outcome = 0, SolverOutcome(OUT_OF_ITERATIONS, 0, 0, 0.0, 0.0)
    for count in range(1, run.max_iterations + 1):
        here = measure_blocks(run.problem, run.targets[None], run.active[None], guess.root[None], guess.wxyz[None])
        if (here.sizes[0] <= run.problem.layout.blocks.tolerances).all():
            return outcome._replace(stop=REACHED, iterations=count - 1, evaluations=tries)
        targets = run.targets.copy()
        for b in np.flatnonzero(((kinds == POINT) | (kinds == COM)) & (here.sizes[0] > (goal_m or np.inf))):
            place, size = here.places[0, b], float(here.sizes[0, b])
            targets[b, :3] = place + (goal_m or 0.0) / size * (targets[b, :3] - place)
        step, there = run._replace(targets=targets, max_iterations=1), guess.copy()
        outcome = solver(step, there, method)
        tries += outcome.evaluations
        turn = float(measure_turns(guess, there).max())
        if rate_rad is not None and turn > rate_rad:
            interpolate_pose(guess, there, rate_rad / turn, body)
        is_still = turn < STILL and float(np.abs(there.root - guess.root).max()) < STILL
        guess.assign(there)
        if is_still:
            return outcome._replace(stop=STATIONARY, iterations=count, evaluations=tries)
    return outcome._replace(stop=OUT_OF_ITERATIONS, iterations=run.max_iterations, evaluations=tries)

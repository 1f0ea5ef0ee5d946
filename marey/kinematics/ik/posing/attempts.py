"""Attempts at one pose: from the start, from others while goals are missed, inside the limits; goals measured anew."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import atan2, sqrt
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marey.base import BoolArray, FloatArray, InputError, patient_kernel
from marey.kinematics.ik.levenberg_marquardt import ALLOWED_RAD, REGION_TOL_RAD
from marey.kinematics.ik.methods import find_method, solve_dual_pose, solve_projected_lm
from marey.kinematics.ik.posing.starts import (
    NO_METRIC,
    STUB_MOBILITY,
    PosedBody,
    anatomical_mobility,
    animal_mobility,
    build_space,
    generate_restarts,
)
from marey.kinematics.ik.problem import (
    Guess,
    IKProblem,
    Root,
    SolverInputs,
    SolverOutcome,
    compile_problem,
    list_ancestors,
)
from marey.kinematics.ik.state import (
    COM,
    LOOK_AT,
    ORIENTATION,
    POINT,
    REACHED,
    JointArrays,
    MassPoints,
    PosePrior,
    TaskBlocks,
)
from marey.kinematics.ik.tasks import PointTask, Task
from marey.kinematics.limits.anatomy.check import measure_violation as measure_anatomical_violation
from marey.kinematics.limits.anatomy.model import AnatomicalLimits
from marey.kinematics.limits.contract import JointLimits
from marey.lie import SO3
from marey.lie.kernels import conjugate, log, multiply, quaternion_at, rotate, row3
from marey.numerics import SolveStatus
from marey.skeleton.tree import forward_kinematics


class MeasuredBlocks(NamedTuple):
    """Where the blocks of F poses are, and what is missing."""

    sizes: FloatArray  # (F, B) [m] or [rad]; 0 where a block is not active, axes without weight left out
    places: FloatArray  # (F, B, 3) [m]
    world: FloatArray  # (F, J, 4) rotations of the joints


def measure_blocks(
    problem: IKProblem, targets: FloatArray, active: BoolArray, roots: FloatArray, wxyz: FloatArray
) -> MeasuredBlocks:
    """Measure poses ``(F, 3)``, ``(F, J, 4)`` against targets ``(F, B, 4)``."""
    tree, blocks, _, mass, _, _ = problem.fields
    arrays = targets, active, roots, wxyz
    if not (targets.flags.writeable and active.flags.writeable and roots.flags.writeable and wxyz.flags.writeable):
        # Arrays that may be written: one compiled kernel serves guesses and clips
        arrays = tuple(a if a.flags.writeable else a.copy() for a in arrays)
    return MeasuredBlocks(*measure_poses(tree, blocks, mass, arrays))


@patient_kernel
def measure_poses(
    tree: tuple[Any, ...], blocks: tuple[Any, ...], mass: tuple[Any, ...], poses: tuple[Any, ...]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sizes, places and world rotations of :class:`MeasuredBlocks`; tuples cost a caller less than records."""
    tree_, b_, mass_ = JointArrays(*tree), TaskBlocks(*blocks), MassPoints(*mass)
    targets, active, roots, wxyz = poses
    offsets = tree_.offsets.reshape((1, tree_.offsets.shape[0], 3))
    positions, world = forward_kinematics(tree_.parents, offsets, roots, wxyz)
    frames, count = wxyz.shape[0], b_.kinds.shape[0]
    sizes, places, e = np.zeros((frames, count)), np.zeros((frames, count, 3)), np.zeros(3)
    for f in range(frames):
        for b in range(count):
            j, kind, place = b_.joints[b], b_.kinds[b], places[f, b]
            # The block's point: of a joint, or the centre of mass
            x, y, z = rotate(quaternion_at(world[f], j), row3(b_.points, b))
            place[0], place[1], place[2] = positions[f, j, 0] + x, positions[f, j, 1] + y, positions[f, j, 2] + z
            if kind == COM:
                place[:] = 0.0
                for i in range(mass_.joints.shape[0]):
                    k, m = mass_.joints[i], mass_.weights[i]
                    x, y, z = rotate(quaternion_at(world[f], k), row3(mass_.points, i))
                    place[0] += m * (positions[f, k, 0] + x)
                    place[1] += m * (positions[f, k, 1] + y)
                    place[2] += m * (positions[f, k, 2] + z)
            if not active[f, b]:
                continue
            # What is missing: a way, a turn, or the turn of an axis towards the target
            for c in range(3):
                e[c] = targets[f, b, c] - place[c]
            if kind == ORIENTATION:
                e[0], e[1], e[2] = log(multiply(quaternion_at(targets[f], b), conjugate(quaternion_at(world[f], j))))
            elif kind == LOOK_AT:
                u, v, w = rotate(quaternion_at(world[f], j), row3(b_.aims, b))
                x, y, z = v * e[2] - w * e[1], w * e[0] - u * e[2], u * e[1] - v * e[0]
                sine, cosine = sqrt(x * x + y * y + z * z), u * e[0] + v * e[1] + w * e[2]
                angle = atan2(sine, cosine)
                e[0], e[1], e[2] = (
                    (x * angle / sine, y * angle / sine, z * angle / sine) if sine > 1e-12 else (angle, 0.0, 0.0)
                )
            total = 0.0
            for c in range(3):
                total += (e[c] * b_.axes[b, c]) ** 2
            sizes[f, b] = sqrt(total)
    return sizes, places, world


def is_beyond_reach(
    problem: IKProblem, targets: FloatArray, active: BoolArray, anchors: Sequence[tuple[int, FloatArray]]
) -> bool:
    """Tell whether a place is farther from a joint that stays than all bones between them are long.

    ``anchors`` are joints with the places [m] that they keep: planted ankles, or a root that may not move.
    """
    blocks, skeleton = problem.layout.blocks, problem.skeleton
    lengths = np.linalg.norm(skeleton.offsets, axis=1)
    lengths[0] = 0.0
    for b in np.flatnonzero((blocks.kinds == POINT) & active & blocks.axes.all(axis=1)).tolist():
        mine = set(list_ancestors(skeleton, int(blocks.joints[b])))
        for joint, place in anchors:
            bones = mine ^ set(list_ancestors(skeleton, joint))
            longest = sum(float(lengths[j]) for j in bones) + float(np.linalg.norm(blocks.points[b]))
            if float(np.linalg.norm(targets[b, :3] - place)) > longest + blocks.tolerances[b]:
                return True
    return False


def name_worst_joint(names: Sequence[str], violation: FloatArray) -> str:
    """The joint that is farthest outside its limits, and by how much."""
    worst = int(violation.argmax())
    return f"joint '{names[worst]}' is outside its limits by {violation[worst]:.3g} rad"


KKT_TOL: Final = 1e-4  # [-] projected gradient, relative to 1 + objective, of a pose that nothing near it beats
HELD_RAD: Final = 1e-9  # [rad] a pose inside the limits to this needs no repair
NO_HISTORY: Final = np.zeros((0, 4))
SOFT_PINS: Final = (10.0, 1e3)  # [-] weights of pins over goals before they are stiff
SOFT_ITERATIONS: Final = 60  # of each of them
# [1/rad²] of a limb, stage by stage: 1 rad from the start costs as much as a goal missed by 10, 3 and 1 cm
POSTURE_STIFFNESS: Final = (1e-2, 1e-3, 1e-4)
POSTURE_ITERATIONS: Final = 60  # of each stage
REGION_COST: Final = 1.02  # [-] of the objective: goals out of reach may be a hundredth farther away inside a region
LOOSE_STEPS: Final = 6  # of a solve from rest; by the time of 480 solves of random poses
NEAREST_STARTS: Final = 3  # in a row from which no better pose is found where goals are said to be out of reach
MOST_STARTS: Final = 12  # of them and of those that found a better one
FAR_TURN_RAD: Final = 0.2  # [rad] more than this for a centimetre of a goal is a flip (Engell-Nørregård, check 13)
NEARER_M, NEARER_PART = 0.01, 0.05  # [m], [-] of the distance: poses that are nearer by less are as good
NEAR_M: Final = 0.05  # [m] goals nearer than this are dragged, and the feet need not give way first
CACHE_SIZE: Final = 64  # sets of tasks whose arrays are kept
_CACHE: OrderedDict[tuple[object, ...], IKProblem] = OrderedDict()


def compile_tasks(
    body: PosedBody,
    tasks: Sequence[Task],
    limits: JointLimits | None,
    root: Root,
    frozen_joints: Sequence[str | int],
    tolerance_m: float,
    tolerance_rad: float,
    pins: Sequence[Task] = (),
) -> IKProblem:
    """Check what was asked, and compile it; sets of tasks that differ in targets alone share their arrays."""
    is_reduced, tolerances = body.model is not None, (tolerance_m, tolerance_rad)
    keys = [task.key for task in (*tasks, *pins)]
    key = (id(body.skeleton), id(limits), is_reduced, root, *frozen_joints, tolerances, len(pins), *keys)
    known = _CACHE.get(key)
    if known is not None:
        return known
    for name, value in (("tolerance_m", tolerance_m), ("tolerance_rad", tolerance_rad)):
        if not 0.0 < value < np.inf:
            raise InputError(f"{name} is {value}", "Give a positive number")
    # Anatomical limits bring an anatomical metric
    ease = anatomical_mobility(body.skeleton) if isinstance(limits, AnatomicalLimits) and not is_reduced else None
    if ease is None and pins and not is_reduced and all(isinstance(pin, PointTask) for pin in pins):
        # Feet of people are pinned with their orientation, those of animals by their places alone
        ease = animal_mobility(body.skeleton)
    problem = compile_problem(body.skeleton, tasks, limits, is_reduced, root, frozen_joints, tolerances, pins, ease)
    _CACHE[key] = problem
    if len(_CACHE) > CACHE_SIZE:
        _CACHE.popitem(last=False)
    return problem


def build_solver_inputs(
    body: PosedBody,
    problem: IKProblem,
    targets: FloatArray,
    active: BoolArray,
    limits: JointLimits | None,
    max_iterations: int,
    variant: str | None,
    step: float | None,
    max_sigma: float | None,
    history: FloatArray,
) -> SolverInputs:
    """Everything a solver needs but the guess."""
    # Room for the kinetic metric, written at the start of each frame; empty for other variants
    metric = NO_METRIC
    if body.model is not None and variant == "kinetic":
        metric = np.zeros((6 + body.model.num_components, 6 + body.model.num_components))
    return SolverInputs(
        problem,
        targets,
        active,
        build_space(body, problem, max_sigma),
        limits if problem.bounds is None else None,
        max_iterations,
        variant,
        step,
        metric,
        history,
        np.zeros((len(targets), 3)),
    )


def require_int(value: object, name: str, lowest: int) -> int:
    """A whole number that is not below ``lowest``.

    Raises:
        InputError: it is none; the message names the option.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
        raise InputError(f"{name} is {value}", f"Give a whole number, {lowest} or more")
    return value


def read_status(is_reached: bool, stop: int, objective: float, gradient: float) -> SolveStatus:
    """Read how a compiled solver ended: 0 reached, 1 stationary, 2 out of iterations."""
    if is_reached and stop < 2:
        return SolveStatus.CONVERGED
    if 0.0 < gradient <= KKT_TOL * (1.0 + objective) and not is_reached:
        return SolveStatus.INFEASIBLE
    return SolveStatus.STALLED if stop == 1 else SolveStatus.ITERATION_LIMIT


def solve_with_restarts(
    run: SolverInputs, guess: Guess, method: str, body: PosedBody, limits: JointLimits | None, *, restarts: int
) -> SolverOutcome:
    """Solve from the guess, which is overwritten, then from others while goals are missed; keep the best."""
    best = _solve_with_pins(run, guess, method, limits)
    if best.stop == 0 or not restarts:
        return best
    # Other starts, while goals are missed; the best answer is kept
    kept = guess.copy()
    errors = run.errors.copy()
    iterations, evaluations = best.iterations, best.evaluations
    for other in generate_restarts(run, body, limits, restarts):
        tried = _solve_with_pins(run, other, method, limits)
        iterations, evaluations = iterations + tried.iterations, evaluations + tried.evaluations
        if tried.objective < best.objective or (tried.stop == 0 and best.stop != 0):
            best, kept, errors = tried, other, run.errors.copy()
        if best.stop == 0:
            break
    guess.assign(kept)
    run.errors[:] = errors
    return best._replace(iterations=iterations, evaluations=evaluations)


def _solve_with_pins(run: SolverInputs, guess: Guess, method: str, limits: JointLimits | None) -> SolverOutcome:
    """Solve from the guess. Pins first weigh little: where all goals can be met the weights do not matter.

    Steps along stiff pins are short, since a straight step leaves the curved set of poses that keep them. So only goals
    that cannot be met are settled with stiff pins: near ones from the guess, far ones from the pose with soft pins.
    """
    solver, spent, tries = find_method(method)[0], 0, 0
    goals = len(run.problem.goals)
    if len(run.targets) > goals and (run.problem.layout.blocks.kinds[goals:] == POINT).any():
        soft = guess.copy()
        for factor in SOFT_PINS:
            count = min(run.max_iterations, SOFT_ITERATIONS)
            stage = run._replace(problem=run.problem.with_pin_weight(factor), max_iterations=count)
            found = _enforce_limits(stage, soft, solver(stage, soft, method), limits, method)
            spent, tries = spent + found.iterations, tries + found.evaluations
            if found.stop == REACHED:
                guess.assign(soft)
                return found._replace(iterations=spent, evaluations=tries)
            if factor == SOFT_PINS[0]:
                missing = measure_blocks(
                    run.problem, run.targets[None], run.active[None], guess.root[None], guess.wxyz[None]
                )
                if float(missing.sizes.max()) < NEAR_M:
                    break
        else:
            guess.assign(soft)
    found = _enforce_limits(run, guess, solver(run, guess, method), limits, method)
    if not spent:
        return found
    return found._replace(iterations=spent + found.iterations, evaluations=tries + found.evaluations)


def solve_nearest_posture(run: SolverInputs, guess: Guess) -> SolverOutcome | None:
    r"""Solve for the pose nearest to the guess that meets the goals, in the metric of the joints; overwrite the guess.

    .. math:: \min_g \sum_j \frac{1}{m_j^2} \lVert \log(s_j^{-1} g_j) \rVert^2 \quad\text{s.t. goals, pins and limits}

    with mobilities :math:`m_j` and the guess :math:`s`. A plain descent from a hanging arm bends the trunk, since the
    straight arm cannot lift its hand at first; of all poses in which the hand is up, the nearest raises the arm.
    Springs to the guess that weaken in stages lead there, and a last solve without them takes up what they left.

    Returns ``None``, the guess unchanged, where goals are near, as in a drag, or are not met.
    """
    missing = measure_blocks(run.problem, run.targets[None], run.active[None], guess.root[None], guess.wxyz[None])
    if float(missing.sizes.max()) < NEAR_M:
        return None
    mobility = run.problem.layout.springs.mobility
    weights = 1.0 / np.maximum(mobility, STUB_MOBILITY) ** 2
    # The root's mobility is an area already: its place counts by the way that it goes, in mean bones
    weights[-1] = 1.0 / max(float(mobility[-1]), STUB_MOBILITY)
    count = min(run.max_iterations, POSTURE_ITERATIONS)
    problem, posed, spent, tries = run.problem.with_pin_weight(SOFT_PINS[0]), guess.copy(), 0, 0
    for stiffness in POSTURE_STIFFNESS:
        springs = PosePrior(mobility, stiffness * weights, guess.wxyz.copy(), guess.root.copy())
        # The same tasks with springs to the guess, which are brought to rest
        drawn = replace(problem.with_layout(problem.layout._replace(springs=springs)), seek_optimum=True)
        stage = run._replace(problem=drawn, max_iterations=count)
        found = solve_projected_lm(stage, posed)
        spent, tries = spent + found.iterations, tries + found.evaluations
    found = solve_projected_lm(run._replace(max_iterations=count), posed)
    if found.stop != REACHED:
        return None
    guess.assign(posed)
    return found._replace(iterations=spent + found.iterations, evaluations=tries + found.evaluations)


def find_nearest(
    run: SolverInputs, guess: Guess, outcome: SolverOutcome, body: PosedBody, limits: JointLimits, first: Guess | None
) -> SolverOutcome:
    """Descend from other starts while one ends nearer to goals that are missed; overwrite the guess by that pose.

    On curved sides of cones and fields steps get short long before the gradient is small, which therefore does not tell
    a goal that is out of reach: ``NEAREST_STARTS`` in a row that end no nearer do. Nearer is by a centimetre, and by a
    twentieth of the distance. A pose on another branch than ``first`` is not taken, and ends the search.
    """
    nothing, most = 0, np.inf
    if first is not None:
        away = measure_blocks(run.problem, run.targets[None], run.active[None], first.root[None], first.wxyz[None])
        most = 100.0 * FAR_TURN_RAD * float(away.sizes.max())
    for other in generate_restarts(run, body, limits, MOST_STARTS):
        trial = run._replace(errors=run.errors.copy(), history=NO_HISTORY)
        found = _solve_with_pins(trial, other, "projected-lm", limits)
        missing = sqrt(outcome.objective)
        if missing - sqrt(found.objective) <= max(NEARER_M, NEARER_PART * missing):
            nothing += 1
            if nothing == NEAREST_STARTS:
                return outcome._replace(is_nearest=True)
            continue
        if first is not None and float(measure_turns(first, other).max()) > most:
            return outcome
        guess.assign(other)
        run.errors[:] = trial.errors
        nothing, spent, tries = 0, outcome.iterations + found.iterations, outcome.evaluations + found.evaluations
        outcome = found._replace(iterations=spent, evaluations=tries)
        if outcome.stop == REACHED:
            break
    return outcome


def measure_turns(first: Guess, second: Guess) -> FloatArray:
    """Turn of each joint between two poses ``(J,)`` [rad]."""
    return 2.0 * np.arccos(np.minimum(np.abs((first.wxyz * second.wxyz).sum(axis=1)), 1.0))


def accept_nearest(run: SolverInputs, guess: Guess, outcome: SolverOutcome) -> SolverOutcome:
    """Distinguish unreachable goals from those that the method missed: only then return the nearest pose.

    Such a method steps about an unreachable goal for ever; the default goes on from its pose, and decides.
    """
    other = guess.copy()
    default = find_method("projected-lm")[1]
    judge = run._replace(errors=run.errors.copy(), history=NO_HISTORY, max_iterations=default, variant=None)
    more = solve_projected_lm(judge, other)
    if read_status(more.stop == 0, more.stop, more.objective, more.gradient) is not SolveStatus.INFEASIBLE:
        return outcome
    guess.assign(other)
    run.errors[:] = judge.errors
    tries = outcome.evaluations + more.evaluations
    return more._replace(iterations=outcome.iterations + more.iterations, evaluations=tries)


def measure_violation(limits: JointLimits, wxyz: FloatArray) -> FloatArray:
    """How far each joint of a pose ``(J, 4)`` is outside the limits ``(J,)`` [rad]."""
    if not isinstance(limits, AnatomicalLimits):
        return limits.violations(SO3(wxyz[None]))[0]
    # The default limits, without the checks of a batch of rotations, which take as long as the solve
    return measure_anatomical_violation(wxyz, _list_tables(limits))


@lru_cache(maxsize=64)
def _list_tables(limits: AnatomicalLimits) -> tuple[NDArray[Any], ...]:
    """Tables of limits as a plain tuple, kept from call to call."""
    return tuple(limits.tables())


def solve_inside_regions(
    run: SolverInputs, guess: Guess, limits: JointLimits
) -> tuple[SolverOutcome, FloatArray] | tuple[None, None]:
    """Solve without leaving regions; the guess is as it was, and nothing returned, where goals are not met so."""
    root, wxyz = guess.root.copy(), guess.wxyz.copy()
    found = solve_dual_pose(run, guess, None, True, LOOSE_STEPS)
    violation = measure_violation(limits, guess.wxyz)
    if found.stop == REACHED and max(violation.tolist()) <= REGION_TOL_RAD:
        return found, violation
    guess.root[:], guess.wxyz[:] = root, wxyz
    return None, None


def keep_regions(
    run: SolverInputs, guess: Guess, outcome: SolverOutcome, limits: JointLimits
) -> tuple[SolverOutcome, FloatArray]:
    """Move a pose that keeps the intervals of its coordinates into the regions that couple them, and measure it.

    Goals come first: a pose that meets them outside a region is kept if none inside is found. Returns also how far each
    joint is outside then ``(J,)`` [rad].
    """
    violation = measure_violation(limits, guess.wxyz)
    if float(violation.max()) <= REGION_TOL_RAD:
        return outcome, violation
    posed, errors = guess.copy(), run.errors.copy()
    found = solve_dual_pose(run._replace(errors=errors), posed, None, True)
    outcome = outcome._replace(
        iterations=outcome.iterations + found.iterations, evaluations=outcome.evaluations + found.evaluations
    )
    if found.stop != REACHED and (outcome.stop == REACHED or found.objective > REGION_COST * outcome.objective):
        return outcome, violation
    guess.assign(posed)
    run.errors[:] = errors
    outcome = outcome._replace(stop=min(found.stop, outcome.stop), objective=found.objective)
    return outcome, measure_violation(limits, guess.wxyz)


def _enforce_limits(
    run: SolverInputs, guess: Guess, outcome: SolverOutcome, limits: JointLimits | None, method: str
) -> SolverOutcome:
    """Bring the pose of a method that ignores limits into them: go on with the one that keeps them."""
    if limits is None or (method == "projected-lm" and run.problem.bounds is not None):
        return outcome
    allowed = HELD_RAD if run.space is None else ALLOWED_RAD
    if float(measure_violation(limits, guess.wxyz).max()) <= allowed:
        return outcome
    if run.problem.bounds is not None:
        more = solve_projected_lm(run, guess)
    else:
        more = solve_projected_lm(run._replace(space=None), guess)._replace(is_left=run.space is not None)
    return more._replace(
        iterations=outcome.iterations + more.iterations, evaluations=outcome.evaluations + more.evaluations
    )

"""The choice of the solver: a problem becomes a motion in the space that it names."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from marey.base import ConvergenceError, FloatArray, InputError, UnknownNameError
from marey.dynamics import Body, JointTree
from marey.motion import Motion
from marey.numerics import OnIteration
from marey.spacetime.full.keys import validate_full, validate_numbers
from marey.spacetime.full.layout import Derivatives, FullBodyModel, FullLayout
from marey.spacetime.full.sampling import interpolate_pose_keys
from marey.spacetime.full.solve import FullOptions, build_full_result, find_free_phases, solve_durations, solve_full
from marey.spacetime.problem.definition import SPACES, SpacetimeProblem, Style, resolve_poses
from marey.spacetime.problem.solution import SpacetimeResult
from marey.spacetime.reduced.assembly import build_reduced_space
from marey.spacetime.reduced.layout import FEET, build_layout
from marey.spacetime.reduced.programme import find_key_instants, validate_reduced
from marey.spacetime.reduced.solve import optimize_reduced, read_problem_behaviour
from marey.spacetime.repair.solve import check_search_options

DERIVATIVES: Final = ("linear-time", "pinocchio", "finite-difference")
SOLVERS: Final = ("sl1qp", "fang2003")


def optimize(
    problem: SpacetimeProblem,
    *,
    space: str | None = None,
    derivatives: Derivatives = "linear-time",
    solver: str = "sl1qp",
    on_iteration: OnIteration | None = None,
    time_limit_s: float | None = None,
    warm_start: Motion | None = None,
    on_failure: str = "raise",
) -> SpacetimeResult:
    """Find the motion that a problem asks for: one that a body could make.

    In the full space ([Fang2003]_) the unknowns are splines of all joint angles; the root follows from contacts and
    ballistics, and the aggregate force is kept within what the contacts can give. In the reduced space
    ([Safonova2006]_ ch. 3) they are the coordinates of a behaviour.

    Args:
        problem: phases with contacts and durations, keys, objective.
        space: ``"full"`` or ``"reduced"``, instead of the problem's.
        derivatives: of aggregate momentum and force in the full space: ``"linear-time"``, ``"pinocchio"`` or
            ``"finite-difference"``.
        solver: ``"sl1qp"``, or ``"fang2003"`` as printed.
        on_iteration: sees every iteration; returns True to stop, the best motion so far is kept.
        time_limit_s: wall time [s], 0 or more; the best motion so far is kept.
        warm_start: a motion of the same character to begin at, instead of the flat guess.
        on_failure: ``"raise"`` or ``"return"`` a result that is not solved.

    Raises:
        InputError: the problem contradicts itself, or asks for what the body cannot reach.
        ConvergenceError: not solved; its ``report`` is the result, which names the worst constraints.
    """
    space = space or problem.space
    for kind, name, known in (
        ("space", space, SPACES),
        ("derivatives", derivatives, DERIVATIVES),
        ("solver", solver, SOLVERS),
        ("on_failure", on_failure, ("raise", "return")),
    ):
        if name not in known:
            raise UnknownNameError(kind, name, "optimize", known)
    if time_limit_s is not None and not time_limit_s >= 0.0:
        raise InputError(f"a time limit of {time_limit_s} s", "Give 0 or more, or None")
    validate_numbers(problem)
    if space == "reduced" and derivatives != "linear-time":
        raise InputError(
            f"derivatives '{derivatives}' in the reduced space", "It has the linear-time ones; leave it out"
        )
    if space == "reduced":
        if any(key.pose is not None for key in problem.keys):
            problem = resolve_poses(problem, read_problem_behaviour(problem).tree)
        result = optimize_reduced(
            problem, warm_start=warm_start, on_iteration=on_iteration, time_limit_s=time_limit_s, solver=solver
        )
    else:
        tree, options = build_character(problem), FullOptions(derivatives, solver, on_iteration, time_limit_s)
        problem = resolve_poses(problem, tree)
        if find_free_phases(problem):
            result = solve_durations(problem, tree, options, warm_start=warm_start)
        else:
            began = time.perf_counter()
            result = build_full_result(solve_full(problem, tree, options, warm_start=warm_start), began)
    if on_failure == "raise" and not result.is_solved:
        raise ConvergenceError(result.sentence, report=result)
    return result


def optimize_styled(
    problem: SpacetimeProblem,
    *,
    styles: Sequence[Style] = (),
    S: FloatArray | None = None,
    time_limit_s: float | None = None,
    on_iteration: OnIteration | None = None,
    on_failure: Literal["raise", "return"] = "raise",
) -> SpacetimeResult:
    r"""Solve a problem in the full space with styles on its objective, or by a simplified character.

    Validity does not change: the same rows hold at the same frames ([Fang2003]_ F30). With :math:`q = S q_s` joints are
    fused, limbs mirrored or left at zero while force and momentum stay those of the whole body, so the result is
    valid for it (F31).

    Args:
        problem: what is wanted; durations are fixed.
        styles: costs of the state of a frame, see ``Style``.
        S: ``(D, d)`` on the coordinates of the character; each follows one of the simplified ones at most.
        time_limit_s: wall time [s]; the best so far is kept.
        on_iteration: sees every iteration; returns True to stop.
        on_failure: "raise" or "return" a result that is not solved.

    Raises:
        InputError: a style that gives arrays of another shape, or a map that fits no character.
        ConvergenceError: not solved; its ``report`` is the result.
    """
    began = time.perf_counter()
    check_search_options(problem.max_iterations, time_limit_s, on_failure)
    validate_numbers(problem)
    options = FullOptions(on_iteration=on_iteration, time_limit_s=time_limit_s, styles=tuple(styles), S=S)
    tree = build_character(problem)
    result = build_full_result(solve_full(resolve_poses(problem, tree), tree, options), began)
    if on_failure == "raise" and not result.is_solved:
        raise ConvergenceError(result.sentence, report=result)
    return result


def check_problem(problem: SpacetimeProblem) -> None:
    """Refuse, in the problem's own space, what cannot be solved; nothing is solved.

    Raises:
        InputError: contradicting keys, plants out of reach, or values that are not finite.
        UnknownNameError: a point, coordinate, phase or kind that does not exist.
        MissingFileError: no clip or basis of the name that the problem gives.
    """
    validate_numbers(problem)
    if problem.space == "full":
        tree = build_character(problem)
        layout = FullLayout.from_problem(resolve_poses(problem, tree), FullBodyModel.from_tree(tree))
        validate_full(layout)
        interpolate_pose_keys(layout)
        return

    # In the reduced space plants, keys and names are checked against the behaviour
    behaviour = read_problem_behaviour(problem).with_energy()
    problem = resolve_poses(problem, behaviour.tree)
    layout = build_layout(problem, behaviour.dimension)
    validate_reduced(problem, layout, build_reduced_space(behaviour))
    find_key_instants(problem, layout)
    for key in problem.keys:
        for name in key.joints:
            behaviour.tree.index(name)
        if key.point is not None and key.point not in FEET:
            behaviour.tree.point(key.point)


def build_character(problem: SpacetimeProblem) -> JointTree:
    """The body of a problem: Fang's two by name, or that of a clip file."""
    if problem.character == "fang22":
        return JointTree.fang22(problem.height_m, problem.mass_kg)
    if problem.character == "fang7":
        return JointTree.fang7(problem.height_m, problem.mass_kg)
    if Path(problem.character).suffix:
        from marey.io import load

        motion = load(problem.character)
        return JointTree.from_body(Body.from_motion(motion, mass_kg=problem.mass_kg), motion=motion)
    raise InputError(f"character '{problem.character}'", "Say fang22, fang7, or a clip file")

"""Clips edited by pins and key poses, so that a body could still make them ([Fang2003]_ F25, F32)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from marey.base import ConvergenceError, FloatArray
from marey.dynamics import Body, ValidityReport
from marey.motion import Contacts, Motion
from marey.numerics import SolveStatus, SQPResult
from marey.spacetime._edit_goals import (
    PointPin,
    PoseKey,
    check_pins,
    find_footprint_shifts,
    find_goal_frames,
    find_goal_window,
    key_rows,
    pin_rows,
)
from marey.spacetime._repair import SPAN_S, OnIteration, RepairCheck, check_search_options, solve_displacement
from marey.spacetime._repair_programme import DisplacementProgramme
from marey.spacetime._repair_result import RepairResult, measure_changes
from marey.spacetime._repair_stage import DisplacementProblem, EditWindow, find_window
from marey.spacetime._style import Style, check_coordinate_map

MAX_ITERATIONS: Final = 40
REACHED_TOL: Final = 0.1  # [-] scaled rows: pins within 5 mm beyond their band, keys within a hundredth of a radian


def edit_physically(
    motion: Motion,
    pins: Sequence[PointPin] = (),
    keys: Sequence[PoseKey] = (),
    *,
    body: Body | None = None,
    contacts: Contacts | None = None,
    start_s: float | None = None,
    stop_s: float | None = None,
    span_s: float = SPAN_S,
    friction: float = 0.8,
    physics: bool = True,
    styles: Sequence[Style] = (),
    max_iterations: int = MAX_ITERATIONS,
    time_limit_s: float | None = None,
    on_iteration: OnIteration | None = None,
    on_failure: Literal["raise", "return"] = "raise",
) -> RepairResult:
    r"""Bring points and poses of a clip to where they should be, and keep it one that a body could make.

    The displacement :math:`S\sum_k d_k\phi_k(t)` is the smallest for which pins and keys hold, contacts stay where they
    stand and can give the wrench of every instant ([Fang2003]_ §3.5.6). Key poses free all joints, pins those that
    carry weight.

    Args:
        motion: any clip with feet, +Y up.
        pins: points at times.
        keys: poses at times.
        body: by default ``Body.from_motion(motion)``.
        contacts: by default those of the motion, else detected ones.
        start_s: where the stretch that may change begins; by default a second before the first goal, if both ends are
            left open.
        stop_s: where it ends.
        span_s: knot spacing of the displacement [s].
        friction: coefficient of the floor.
        physics: whether wrenches count; without them the edit is kinematic.
        styles: costs of a state that are added to the size of the displacement, see ``Style``.
        max_iterations: quadratic programmes at most.
        time_limit_s: wall time [s]; the best so far is kept.
        on_iteration: sees every iteration; returns True to stop.
        on_failure: "raise" where a pin or a key is not reached, or "return" what was found.

    Raises:
        InputError: goals outside the stretch or that contradict one another; a pose that the body cannot take.
        ConvergenceError: the goals were not reached; the message names the worst row.
    """
    began = time.perf_counter()
    check_search_options(max_iterations, time_limit_s, on_failure)
    check = RepairCheck.from_motion(motion, body, contacts, friction)
    around = (
        find_goal_window(motion, check.track, pins, keys) if start_s is None and stop_s is None else (start_s, stop_s)
    )
    stretch = find_window(motion, *around, span_s)
    before = check.report(motion)
    stage, programme = build_edit_programme(
        motion, check, stretch, pins, keys, physics=physics, styles=styles, report=before
    )
    answer = solve_displacement(programme, max_iterations, time_limit_s, on_iteration)
    displacement = programme.displacement(answer.x)
    edited = stage.motion(displacement)
    result = RepairResult(
        answer.status,
        edited,
        motion,
        answer.violation,
        answer.iterations,
        time.perf_counter() - began,
        before,
        check.report(edited),
        *measure_changes(motion, edited, stretch.frames),
        displacement,
        answer.worst,
        answer.history,
        answer.advice,
    )
    if on_failure == "raise" and not is_reached(answer):
        name, value = answer.worst[0]
        raise ConvergenceError(
            f"the edit of '{motion.name}' does not reach: {name} (off by {value:.2g}, scaled). {answer.advice}", result
        )
    return result


def edit_kinematically(
    motion: Motion, pins: Sequence[PointPin] = (), keys: Sequence[PoseKey] = (), *, span_s: float = SPAN_S
) -> RepairResult:
    """The same edit without physics: a smallest displacement under kinematic constraints, the baseline (F32)."""
    return edit_physically(motion, pins, keys, span_s=span_s, physics=False, on_failure="return")


def build_edit_programme(
    motion: Motion,
    check: RepairCheck,
    stretch: EditWindow,
    pins: Sequence[PointPin],
    keys: Sequence[PoseKey],
    *,
    physics: bool = True,
    styles: Sequence[Style] = (),
    S: FloatArray | None = None,
    report: ValidityReport | None = None,
) -> tuple[DisplacementProblem, DisplacementProgramme]:
    """The stage and the programme of an edit.

    Raises:
        InputError: goals outside the stretch or that contradict one another; an ``S`` that fits no tree.
    """
    check_pins(pins, motion.rate_hz)
    frames = find_goal_frames(motion, stretch, pins, keys)
    steps = find_footprint_shifts(motion, check.track, pins)
    now = check.report(motion) if report is None else report
    stage = DisplacementProblem(motion, check.body, check.track, stretch, now, extra=frames, steps=steps)
    if S is not None:
        check_coordinate_map(S, stage.tree.num_dofs)
    programme = stage.programme(
        S=np.eye(stage.tree.num_dofs) if S is None and keys else S,
        physics=physics,
        friction=check.friction,
        points=pin_rows(stage, pins),
        angles=key_rows(stage, keys),
        styles=tuple(styles),
    )
    return stage, programme


def is_reached(answer: SQPResult) -> bool:
    """Whether all rows hold, or nearly."""
    return answer.status is SolveStatus.CONVERGED or answer.violation < REACHED_TOL

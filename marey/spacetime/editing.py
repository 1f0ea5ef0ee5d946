"""Clips edited by pins and key poses, so that a body could still make them ([Fang2003]_ F25, F32).

The interactive editor follows every change with as many iterations as fit in a moment ([Fang2003]_ F28).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final, Literal

import numpy as np

from marey.base import ConvergenceError, FloatArray, InputError, IntArray, MareyError
from marey.dynamics import Body, JointTree, ValidityReport
from marey.motion import Contacts, Motion
from marey.numerics import OnIteration, SolveStatus, SQPIteration, solve_sqp
from marey.spacetime.goals import (
    SAME_M,
    PointPin,
    PoseKey,
    find_footprint_shifts,
    find_goal_window,
    key_rows,
    measure_pin,
    pin_rows,
)
from marey.spacetime.problem.definition import Style, check_coordinate_map
from marey.spacetime.repair.programme import DisplacementProgramme, RepairSettings
from marey.spacetime.repair.solve import (
    SPAN_S,
    TOLERANCE,
    RepairCheck,
    RepairResult,
    check_search_options,
    measure_changes,
    solve_displacement,
)
from marey.spacetime.repair.window import DisplacementProblem, EditWindow, find_window

MAX_ITERATIONS: Final = 40
# A person whose hand or foot is put elsewhere keeps his bearing; RepairSettings says less for repairs
EDIT_ENDS: Final[dict[str, Any]] = {"max_root_rad": 0.2, "max_spine_rad": 0.2, "max_joint_rad": 1.5}
NOT_MOVED: Final = np.zeros((0, 0))
MAX_PASSES: Final = 3  # after the first, where less of the clip is green than before
PATIENCE: Final = 8  # quadratic programmes after which, and every so many, the clip itself is looked at
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
    settings: RepairSettings | None = None,
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
        settings: limits of forces and of the roll of planted feet.
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
    check = RepairCheck.from_motion(motion, body, contacts, friction, settings)
    around = (
        find_goal_window(motion, check.track, pins, keys) if start_s is None and stop_s is None else (start_s, stop_s)
    )
    stretch = find_window(motion, *around, span_s)
    before = check.report(motion)
    stage, programme = build_edit_programme(
        motion, check, stretch, pins, keys, physics=physics, styles=styles, report=before
    )

    def judge(x: FloatArray) -> tuple[Motion, ValidityReport, list[str]]:
        """The clip with a displacement, its report, and what is missing: goals in the clip itself, or green frames."""
        edited = stage.motion(programme.displacement(x))
        after = check.report(edited)
        faults = [text for pin in pins if (text := measure_pin(edited, pin)) is not None]
        if physics and after.valid_fraction < before.valid_fraction:
            faults.append(f"{100 * before.valid_fraction:.0f} % were green, {100 * after.valid_fraction:.0f} % are")
        return edited, after, faults

    def watch(step: SQPIteration) -> bool:
        """Stop on demand, or where a search that is slow to end has what was asked for."""
        is_slow = not keys and step.index >= PATIENCE and step.index % PATIENCE == 0 and step.is_accepted
        is_done = is_slow and not judge(step.x)[2]
        return bool(on_iteration is not None and on_iteration(step)) or is_done

    answer = solve_displacement(programme, max_iterations, time_limit_s, watch)
    edited, after, faults = judge(answer.x)
    displacement = programme.displacement(answer.x)
    # Wrenches that the rows saw elsewhere than the report: rows are built again on the edited clip, as in a repair
    for _ in range(MAX_PASSES if physics and not keys and time_limit_s is None else 0):
        if not faults:
            break
        kept = edited, after, faults, displacement
        looks = np.intersect1d(np.flatnonzero(after.levels > 0), np.arange(stretch.first, stretch.last + 1))
        stage, programme = build_edit_programme(
            edited, check, stretch, pins, keys, styles=styles, report=after, looks=looks, like=stage, moved=displacement
        )
        again = solve_displacement(programme, PATIENCE, None, on_iteration)
        edited, after, faults = judge(again.x)
        displacement = displacement + programme.displacement(again.x)
        if len(faults) > len(kept[2]) or after.valid_fraction <= kept[1].valid_fraction:
            edited, after, faults, displacement = kept
            break
        answer = replace(again, iterations=answer.iterations + again.iterations, history=answer.history + again.history)
    # The same with contacts as they are seen in the edited clip: none may have come or gone
    seen = check.detect_again(edited).report(edited).valid_fraction if physics and not faults else 1.0
    if seen < min(before.valid_fraction, after.valid_fraction):
        faults.append(
            f"with contacts detected again {100 * seen:.0f} % are green, {100 * before.valid_fraction:.0f} % were"
        )
    is_near = answer.status is SolveStatus.CONVERGED or answer.violation < REACHED_TOL
    is_reached = is_near or (bool(pins) and not keys and not faults)
    status = SolveStatus.CONVERGED if is_reached and not faults else answer.status
    if faults and status is SolveStatus.CONVERGED:
        status = SolveStatus.STALLED
    result = RepairResult(
        status,
        edited,
        motion,
        answer.violation,
        answer.iterations,
        time.perf_counter() - began,
        before,
        after,
        *measure_changes(motion, edited, stretch.frames),
        displacement,
        answer.worst,
        answer.history,
        f"{'; '.join(faults)}. {answer.advice}" if faults else answer.advice,
    )
    if on_failure == "raise" and not is_reached:
        name, value = answer.worst[0]
        raise ConvergenceError(
            f"the edit of '{motion.name}' does not reach: {name} (off by {value:.2g}, scaled). {answer.advice}", result
        )
    if on_failure == "raise" and faults:
        raise ConvergenceError(f"the edit of '{motion.name}' is not done: {result.advice}", result)
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
    looks: IntArray | None = None,
    like: DisplacementProblem | None = None,
    moved: FloatArray = NOT_MOVED,
) -> tuple[DisplacementProblem, DisplacementProgramme]:
    """The stage and the programme of an edit.

    ``looks`` are frames at which physics counts besides the usual ones, ``like`` is a stage of the same body, ``moved``
    the displacement of earlier passes.

    Raises:
        InputError: goals outside the stretch or that contradict one another; an ``S`` that fits no tree.
    """
    # Pins on one point at one frame must agree
    for pin, other in combinations(pins, 2):
        apart = float(np.linalg.norm(pin.place - other.place))
        is_same = pin.point == other.point and abs(pin.time_s - other.time_s) < 0.5 / motion.rate_hz
        if is_same and apart > SAME_M:
            what = f"'{pin.point}' is pinned to two places {apart:.3f} m apart at {other.time_s:g} s"
            raise InputError(what, "Drop one of them")
    # Frame of every pin and key
    found: list[int] = []
    for goal in (*pins, *keys):
        frame = round(goal.time_s * motion.rate_hz)
        inside = stretch.first <= frame <= stretch.last
        if not inside or stretch.control(np.array([frame / motion.rate_hz]))[0] < 0.5:
            what = f"pin of '{goal.point}'" if isinstance(goal, PointPin) else "a key pose"
            ends = f"{stretch.times[0]:.2f} to {stretch.times[-1]:.2f} s"
            raise InputError(f"{what} at {goal.time_s:g} s", f"It must lie well inside the stretch, {ends}")
        found.append(frame)
    frames = np.array([*found, *([] if looks is None else looks)], dtype=np.int64)
    steps = find_footprint_shifts(motion, check.track, pins)
    now = check.report(motion) if report is None else report
    stage = DisplacementProblem(
        motion,
        check.body,
        check.track,
        stretch,
        now,
        extra=frames,
        steps=steps,
        settings=check.settings if keys else replace(check.settings, **EDIT_ENDS),
        keeps_green=True,
        like=like,
    )
    if S is not None:
        check_coordinate_map(S, stage.tree.num_dofs)
    programme = stage.programme(
        S=np.eye(stage.tree.num_dofs) if S is None and keys else S,
        physics=physics,
        friction=check.friction,
        points=pin_rows(stage, pins),
        angles=key_rows(stage, keys),
        styles=tuple(styles),
        moved=None if keys or S is not None else moved,
    )
    return stage, programme


QUOTA_S: Final = 0.1
NUM_KEPT_ITERATES: Final = 3  # an iterate is shown if it is no worse than the worst of so many before


@dataclass(frozen=True, slots=True, eq=False)
class EditIterate:
    """An iterate of an edit."""

    stage: DisplacementProblem
    displacement: FloatArray  # (K, D) control points
    violation: float  # largest, of scaled rows
    objective: float
    seconds: float  # since the change was asked for

    @property
    def motion(self) -> Motion:
        """The clip as it is now."""
        return self.stage.motion(self.displacement)


OnIterate = Callable[[EditIterate], bool | None]


class ValidEditor:
    """A clip under the user's hand.

    Pins and keys are set and dropped; :meth:`improve` runs the search for a moment and shows every iterate that is no
    worse than the worst of the three before. The next moment begins where the last one ended.
    """

    def __init__(
        self,
        motion: Motion,
        *,
        start_s: float | None = None,
        stop_s: float | None = None,
        friction: float = 0.8,
        physics: bool = True,
        coordinates: FloatArray | None = None,
    ) -> None:
        """Take a clip.

        Args:
            motion: any clip with feet, +Y up.
            start_s: where the stretch that may change begins; the start of the clip by default.
            stop_s: where it ends.
            friction: coefficient of the floor.
            physics: whether wrenches count.
            coordinates: ``S (D, d)``, a simplified body that moves by ``S d``; by default what carries weight.
        """
        self.original = motion
        self._stretch = find_window(motion, start_s, stop_s, SPAN_S)
        self._check = RepairCheck.from_motion(motion, None, None, friction)
        self._report = self._check.report(motion)
        self._physics, self._S = physics, coordinates
        self._stage = DisplacementProblem(motion, self._check.body, self._check.track, self._stretch, self._report)
        self._pins: dict[tuple[str, int], PointPin] = {}
        self._keys: dict[int, PoseKey] = {}
        self._built: tuple[DisplacementProblem, DisplacementProgramme] | None = None
        self._x: FloatArray | None = None
        self._looks = np.zeros(0, dtype=np.int64)  # frames at which physics counts besides the usual ones

    @property
    def tree(self) -> JointTree:
        """Coordinates that styles and simplified bodies are about."""
        return self._problem()[0].tree

    @property
    def goals(self) -> tuple[PointPin | PoseKey, ...]:
        """What is asked for at present."""
        return (*self._pins.values(), *self._keys.values())

    def pin(self, pin: PointPin) -> None:
        """Set a pin, in the place of one on the same point at the same frame."""
        self._accept_goals({**self._pins, (pin.point, self._goal_frame(pin.time_s)): pin}, self._keys)

    def key(self, key: PoseKey) -> None:
        """Set a key pose, in the place of one at the same frame."""
        self._accept_goals(self._pins, {**self._keys, self._goal_frame(key.time_s): key})

    def drop(self, goal: PointPin | PoseKey) -> None:
        """Take a pin or a key away."""
        frame = self._goal_frame(goal.time_s)
        # A pin goes by point and frame, a key by frame
        point = goal.point if isinstance(goal, PointPin) else None
        pins = {where: pin for where, pin in self._pins.items() if where != (point, frame)}
        keys = {where: key for where, key in self._keys.items() if isinstance(goal, PointPin) or where != frame}
        self._accept_goals(pins, keys)

    def improve(self, quota_s: float = QUOTA_S, on_iterate: OnIterate | None = None) -> EditIterate:
        """Search for a moment, from where the last one ended; returns the best motion so far.

        Args:
            quota_s: wall time [s].
            on_iterate: sees iterates as they come; returns True to stop.
        """
        if not (np.isfinite(quota_s) and quota_s > 0.0):
            raise InputError(f"a quota of {quota_s} s", "It is positive")
        began, shown = time.perf_counter(), list[float]()
        while True:
            stage, programme = self._problem()

            def show(
                step: SQPIteration, stage: DisplacementProblem = stage, programme: DisplacementProgramme = programme
            ) -> bool:
                if step.violation > max(shown[-NUM_KEPT_ITERATES:], default=np.inf):
                    return False
                shown.append(step.violation)
                moved = programme.displacement(step.x)
                iterate = EditIterate(stage, moved, step.violation, step.objective, time.perf_counter() - began)
                return bool(on_iterate is not None and on_iterate(iterate))

            answer = solve_sqp(
                programme,
                np.zeros(programme.num_variables) if self._x is None else self._x,
                tolerance=TOLERANCE,
                time_limit_s=max(quota_s - (time.perf_counter() - began), 1e-3),
                on_iteration=show,
                on_failure="return",
            )
            self._x, moved = answer.x, programme.displacement(answer.x)
            best = EditIterate(stage, moved, answer.violation, answer.objective, time.perf_counter() - began)
            # With time left physics is asked for where the clip was green and is no longer
            if not (self._physics and answer.status is SolveStatus.CONVERGED and best.seconds < quota_s):
                return best
            is_lost = (self.report(best).levels > 0) & (self._report.levels == 0)
            is_lost[: self._stretch.first] = is_lost[self._stretch.last + 1 :] = False
            lost = np.setdiff1d(np.flatnonzero(is_lost), self._looks)
            if not len(lost):
                return best
            self._looks, self._built = np.union1d(self._looks, lost), None
            shown.clear()

    def report(self, iterate: EditIterate) -> ValidityReport:
        """Validity of an iterate, with the contacts of the clip."""
        return self._check.report(iterate.motion)

    def _goal_frame(self, time_s: float) -> int:
        return round(time_s * self.original.rate_hz)

    def _accept_goals(self, pins: dict[tuple[str, int], PointPin], keys: dict[int, PoseKey]) -> None:
        """Take goals, or keep the old ones if these are refused."""
        before = self._pins, self._keys
        self._pins, self._keys, self._built, self._looks = pins, keys, None, self._looks[:0]
        try:
            self._problem()
        except MareyError:
            self._pins, self._keys = before
            self._built = None
            raise

    def _problem(self) -> tuple[DisplacementProblem, DisplacementProgramme]:
        if self._built is None:
            pins, keys = tuple(self._pins.values()), tuple(self._keys.values())
            self._built = build_edit_programme(
                self.original,
                self._check,
                self._stretch,
                pins,
                keys,
                physics=self._physics,
                S=self._S,
                report=self._report,
                looks=self._looks,
                like=self._stage,
            )
            if self._x is not None and self._x.size != self._built[1].num_variables:
                self._x = None
        return self._built

"""A clip that a body could make, as near as possible to one that no body could ([Fang2003]_ F25-F27); pops first.

No force explains a step of 30 cm in a hundredth of a second; a displacement that tried to would bend the whole body.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np

from marey.base import BoolArray, ConvergenceError, FloatArray, InputError, Result, UnknownNameError
from marey.contacts import detect_contacts
from marey.dynamics import Body, ValidityReport, check_validity
from marey.lie import SO3
from marey.motion import Contacts, Motion, contact_positions, find_runs
from marey.numerics import OnIteration, SolveStatus, SQPIteration, SQPResult, solve_sqp
from marey.skeleton import role_map
from marey.spacetime.repair.programme import DisplacementProgramme, RepairSettings
from marey.spacetime.repair.window import (
    DisplacementProblem,
    EditWindow,
    find_touching_points,
    find_window,
    level_motion,
    restrict_to_faults,
)

NEIGHBOURS_S: Final = 0.1  # [s] to both sides, whose median a step is compared with


@dataclass(frozen=True, slots=True)
class PopSettings:
    """What is a pop and not a motion."""

    jump_speed: float = 4.0  # [m/s] of the root beyond the median about it; captured leaps stay below 1.5
    flip_speed: float = 40.0  # [rad/s] of a joint beyond the median about it; captured swings stay below 25
    longest_s: float = 0.06  # [s] of a flip, or of a root that jumps and comes back


def mend_pops(motion: Motion, settings: PopSettings | None = None) -> Motion:
    """The clip without one-frame jumps of its root and without short flips of its joints; itself if it has none.

    A root that comes back is taken between its neighbours; what stays where it jumped to is moved back. A joint that
    flips and comes back is turned evenly across the flip; one that the clip begins or ends with is held as beside it.
    """
    settings, rate_hz = settings or PopSettings(), motion.rate_hz
    longest = max(1, round(settings.longest_s * rate_hz))
    positions, wxyz = motion.root_positions.copy(), motion.rotations.wxyz.copy()
    steps = np.diff(positions, axis=0)
    beyond = steps - _running_median(steps, rate_hz)
    jumps = np.flatnonzero(np.linalg.norm(beyond, axis=1) * rate_hz > settings.jump_speed)
    # A jump and the jump back are one excursion; a lone one is a step of all that follows
    k = 0
    while k < len(jumps):
        first = int(jumps[k])
        back = int(jumps[k + 1]) if k + 1 < len(jumps) else -1
        if 0 < back - first <= longest and np.linalg.norm(beyond[first] + beyond[back]) < np.linalg.norm(beyond[first]):
            ends = positions[[first, back + 1]]
            share = np.linspace(0.0, 1.0, back - first + 2)[1:-1, None]
            positions[first + 1 : back + 1] = ends[0] + share * (ends[1] - ends[0])
            k += 2
        else:
            positions[first + 1 :] -= beyond[first]
            k += 1
    # Joints: the angle of each frame to the next, against the median about it
    turns = np.linalg.norm((motion.rotations[:-1].inverse() @ motion.rotations[1:]).log(), axis=-1)
    fast = (turns - _running_median(turns, rate_hz)) * rate_hz > settings.flip_speed
    for joint in np.flatnonzero(fast.any(axis=0)):
        # Steps from frame a to frame b are too fast: a flip and its way back, or one at an end of the clip
        for a, b in find_runs(fast[:, joint], longest):
            if b <= longest and (a == 0 or b - a == 1):
                wxyz[:b, joint] = wxyz[b, joint]
            elif a >= len(fast) - longest and (b == len(fast) or b - a == 1):
                wxyz[a + 1 :, joint] = wxyz[a, joint]
            elif 2 <= b - a <= longest + 1:
                low, high = SO3(wxyz[a, joint]), SO3(wxyz[b, joint])
                between = (low.inverse() @ high).log()
                share = np.linspace(0.0, 1.0, b - a + 1)[1:-1, None]
                wxyz[a + 1 : b, joint] = (low @ SO3.exp(share * between)).wxyz
    if not len(jumps) and not fast.any():
        return motion
    return replace(motion, root_positions=positions, rotations=SO3(wxyz), source=None)


def _running_median(values: FloatArray, rate_hz: float) -> FloatArray:
    """Median of steps ``(F, ...)`` over ``NEIGHBOURS_S`` to both sides; mirrored at the ends: a step counts once."""
    half = max(2, round(NEIGHBOURS_S * rate_hz))
    edges = ((half, half), *((0, 0),) * (values.ndim - 1))
    padded = np.pad(values, edges, mode="reflect" if len(values) > 1 else "edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1, axis=0)
    return np.asarray(np.median(windows, axis=-1), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RepairResult(Result):
    """The clip after the change, and what it took."""

    status: SolveStatus
    motion: Motion
    guess: Motion  # the clip before
    violation: float  # largest, of scaled rows
    iterations: int
    seconds: float
    before: ValidityReport
    after: ValidityReport
    change_rad: float  # root mean square over joints and frames of the stretch
    change_m: float  # largest move of the root
    displacement: FloatArray  # (K, D) control points added to the coordinates, of all passes
    worst: tuple[tuple[str, float], ...]
    history: tuple[SQPIteration, ...]
    advice: str

    @property
    def is_solved(self) -> bool:
        """Whether the clip is what was asked for, by a check from the outside."""
        return self.status is SolveStatus.CONVERGED

    @property
    def sentence(self) -> str:
        """What happened, in one line."""
        green = f"{100 * self.before.valid_fraction:.0f} % green before, {100 * self.after.valid_fraction:.0f} % after"
        moved = f"joints moved {np.rad2deg(self.change_rad):.1f}° (rms), the root at most {100 * self.change_m:.1f} cm"
        ended = "" if self.is_solved else f"not solved: {self.advice} "
        return f"{self.motion.name}: {ended}{green}; {moved}; {self.iterations} iterations, {self.seconds:.2f} s"

    def to_json(self) -> dict[str, Any]:
        """Plain data, without the motions."""
        return {
            "status": self.status.value,
            "violation": self.violation,
            "iterations": self.iterations,
            "seconds": self.seconds,
            "valid_before": self.before.valid_fraction,
            "valid_after": self.after.valid_fraction,
            "change_rad": self.change_rad,
            "change_m": self.change_m,
            "worst": [{"row": name, "violation": value} for name, value in self.worst],
            "advice": self.advice,
        }

    def __repr__(self) -> str:
        return f"RepairResult({self.status}, {self.sentence})"


MAX_TRUNK_DEG: Final = 15.0  # [°] a trunk that turns farther is another person's
MAX_LIFT_M: Final = 0.08  # [m] of a foot that stood
LEAST_FLIGHT_S: Final = 0.12  # [s] of detected contacts: shorter gaps are the detector's


def measure_trunk_turns(before: Motion, after: Motion) -> FloatArray:
    """Turn of the line from the hips to the neck in the world ``(F,)`` [°]; zero without a neck."""
    joints = role_map(before.skeleton).joints
    top = next((joints[role] for role in ("neck", "spine3", "head") if role in joints), None)
    if top is None:
        return np.zeros(before.num_frames)
    lines = [motion.joint_positions() for motion in (before, after)]
    lines = [place[:, top] - place[:, 0] for place in lines]
    lines = [line / np.maximum(np.linalg.norm(line, axis=1, keepdims=True), 1e-9) for line in lines]
    return np.rad2deg(np.arccos(np.clip((lines[0] * lines[1]).sum(axis=1), -1.0, 1.0)))


def find_person_faults(before: Motion, after: Motion) -> list[str]:
    """What a repair did to the person that it must not: a trunk that turns, flights that come or go."""
    found: list[str] = []
    turns = measure_trunk_turns(before, after)
    worst = int(np.argmax(turns))
    if turns[worst] > MAX_TRUNK_DEG:
        found.append(f"the trunk turned by {turns[worst]:.0f}° at {worst / before.rate_hz:.2f} s")
    # Flights as the detector sees them
    least = round(LEAST_FLIGHT_S * before.rate_hz)
    stands: list[BoolArray] = [
        np.asarray(detect_contacts(replace(motion, contacts=None)).active.any(axis=1)) for motion in (before, after)
    ]
    counts = [sum(b - a >= least for a, b in find_runs(~touching)) for touching in stands]
    if counts[0] != counts[1]:
        found.append(f"it has {counts[1]} flights where the clip had {counts[0]}")
    # And as heights show: where the clip stood, its lowest foot is not carried away from the floor
    lowest = [contact_positions(motion)[..., 1].min(axis=1) for motion in (before, after)]
    risen = lowest[1] - lowest[0]
    for a, b in find_runs((risen - np.median(risen) > MAX_LIFT_M) & stands[0]):
        if b - a >= least:
            found.append(f"a standing foot is lifted by {100 * risen[a:b].max():.0f} cm at {a / before.rate_hz:.2f} s")
            break
    return found


def measure_changes(before: Motion, after: Motion, frames: slice) -> tuple[float, float]:
    """Turn of joints against their parents, root mean square [rad], and largest move of the root [m]."""
    turned = (before.rotations[frames].inverse() @ after.rotations[frames]).log()
    moved = np.linalg.norm(after.root_positions - before.root_positions, axis=-1)
    return float(np.sqrt((turned**2).sum(axis=-1).mean())), float(moved.max())


SPAN_S: Final = 0.1
MAX_ITERATIONS: Final = 25  # quadratic programmes of one pass
LEAST_GAIN: Final = 0.95  # a pass that leaves more than this of what was wrong is the last
TOLERANCE: Final = 2e-3  # scaled: 0.2 % of the weight, 0.1 mm of a foot
MAX_ROUNDS: Final = 5  # of setting down and looking again
DETECTED_SLACK_S: Final = 0.07  # [s] as the report takes it for detected contacts
FAR_RAD: Final = 0.35  # [rad] root mean square: more than this is another motion
ON_FAILURE: Final = ("raise", "return")
MAX_FLIGHT_S: Final = 1.5  # longest jump


@dataclass(frozen=True, slots=True, eq=False)
class RepairCheck:
    """Validity check of a clip before and after."""

    body: Body
    track: Contacts
    friction: float
    slack_s: float | None
    settings: RepairSettings = field(default_factory=RepairSettings)

    @classmethod
    def from_motion(
        cls,
        motion: Motion,
        body: Body | None,
        contacts: Contacts | None,
        friction: float,
        settings: RepairSettings | None = None,
    ) -> RepairCheck:
        """By default with the contacts of the motion, else detected ones."""
        given = contacts if contacts is not None else motion.contacts
        track = detect_contacts(motion) if given is None else given
        slack = DETECTED_SLACK_S if given is None else None
        body = Body.from_motion(motion) if body is None else body
        return cls(body, track, friction, slack, settings or RepairSettings())

    def detect_again(self, motion: Motion) -> RepairCheck:
        """The same with contacts detected again, if they were detected."""
        return self if self.slack_s is None else replace(self, track=detect_contacts(motion))

    def report(self, motion: Motion) -> ValidityReport:
        """Validity with the same contacts each time."""
        return check_validity(motion, self.body, contacts=self.track, friction=self.friction, slack_s=self.slack_s)


def make_valid(
    motion: Motion,
    *,
    body: Body | None = None,
    contacts: Contacts | None = None,
    start_s: float | None = None,
    stop_s: float | None = None,
    span_s: float = SPAN_S,
    friction: float = 0.8,
    settings: RepairSettings | None = None,
    max_iterations: int = MAX_ITERATIONS,
    time_limit_s: float | None = None,
    on_iteration: OnIteration | None = None,
    on_failure: Literal["raise", "return"] = "raise",
) -> RepairResult:
    r"""Move a clip as little as needed so that its contacts could carry it.

    A clip that stands beside its floor, or leans, is first set down as a whole. Then a spline displacement is added to
    the coordinates near frames that are not green, :math:`q = q_R + S\sum_k d_k\phi_k` ([Fang2003]_ §3.5.6): the wrench
    of every instant must lie in the cone of the floor, and vanish in the air; heels and toes stay where they stand.
    What is green already, and all outside the stretch, stays bit for bit, and joins with continuous accelerations
    (F27).

    Args:
        motion: any clip with feet, +Y up.
        body: by default ``Body.from_motion(motion)``.
        contacts: by default those of the motion, else detected ones.
        start_s: where the stretch begins; the start of the clip by default.
        stop_s: where it ends.
        span_s: knot spacing of the displacement [s].
        friction: coefficient of the floor.
        settings: limits of forces, of the roll of planted feet, and of the search.
        max_iterations: quadratic programmes at most in each pass.
        time_limit_s: wall time [s]; the best so far is kept.
        on_iteration: sees every iteration; returns True to stop.
        on_failure: "raise" where the search fails, or "return" what was found.

    Raises:
        InputError: times that are not finite, a stretch that is too short, no feet, no contact to stand on, or quotas
            that leave nothing to do.
        ConvergenceError: no more of the clip is green than before; its ``report`` is the result.
    """
    began = time.perf_counter()
    check_search_options(max_iterations, time_limit_s, on_failure)
    stretch = find_window(motion, start_s, stop_s, span_s)
    check = RepairCheck.from_motion(motion, body, contacts, friction, settings)
    before = check.report(motion)
    wrong = before.levels > 0
    # A whole clip may be levelled, a part of it must join the rest
    is_whole = stretch.first == 0 and stretch.last == motion.num_frames - 1
    search = _RepairSearch(check, stretch, motion, before)
    if wrong[stretch.frames].any():
        if is_whole:
            search.mend()
            search.level()
            search.base = search.best.motion
        # A stretch must touch something that could carry it, or be as short as a jump
        supports, flags = search.last.report.supports, find_touching_points(motion, search.check.track)
        seconds = (stretch.last - stretch.first) / motion.rate_hz
        if all(name.endswith("hand") for name in flags):
            raise InputError(f"'{motion.name}' has no feet that could touch", "Give contacts, or a skeleton with feet")
        if not supports.active[stretch.frames].any():
            if any(active[stretch.frames].any() for active in flags.values()):
                what = f"the feet stand {supports.lifted_m:+.2f} m from the floor"
                raise InputError(what, "Repair the whole clip, not a part of it")
            if seconds > MAX_FLIGHT_S:
                what = f"nothing touches the floor for {seconds:.2f} s"
                raise InputError(what, "Give contacts= that say what stands where")
        search.run(began, max_iterations, time_limit_s, on_iteration)
    result = search.result(motion, before, time.perf_counter() - began)
    if on_failure == "raise" and not result.is_solved:
        raise ConvergenceError(f"the repair made '{motion.name}' no better. {result.advice}", report=result)
    return result


def check_search_options(max_iterations: int, time_limit_s: float | None, on_failure: str) -> None:
    """Refuse invalid quotas and unknown values of ``on_failure``.

    Raises:
        InputError: no iteration, or a time limit [s] that is negative or no number.
        UnknownNameError: ``on_failure`` is neither "raise" nor "return".
    """
    if max_iterations < 1:
        raise InputError(f"max_iterations is {max_iterations}", "It is at least 1")
    if time_limit_s is not None and not time_limit_s >= 0.0:
        raise InputError(f"a time limit of {time_limit_s} s", "Give 0 or more, or None")
    if on_failure not in ON_FAILURE:
        raise UnknownNameError("on_failure", on_failure, "a search", ON_FAILURE)


@dataclass(frozen=True, slots=True, eq=False)
class _RepairState:
    """State of a repair: the clip, its report, and the displacement."""

    motion: Motion
    report: ValidityReport
    displacement: FloatArray

    def wrong(self, stretch: EditWindow) -> BoolArray:
        """Frames of the stretch that are not green ``(F,)``."""
        inside = np.zeros(self.report.num_frames, dtype=np.bool_)
        inside[stretch.frames] = True
        return (self.report.levels > 0) & inside

    def merit(self, stretch: EditWindow) -> tuple[float, float]:
        """Share of frames that are not green, and the sum of what is missing."""
        return float(self.wrong(stretch).mean()), float(self.report.violation[stretch.frames].sum())


class _RepairSearch:
    """Passes over one clip; the best state is kept, the next pass starts at the last one."""

    def __init__(self, check: RepairCheck, stretch: EditWindow, motion: Motion, report: ValidityReport) -> None:
        self.check, self.stretch = check, stretch
        self.best = self.last = _RepairState(motion, report, np.zeros((stretch.spline.num_coefficients, 0)))
        self.base = motion  # the clip set down and without pops, from which the person is judged
        self.answers: list[SQPResult] = []
        self.refused: list[str] = []  # what the last better state did to the person

    def mend(self) -> None:
        """Take out jumps of the root and flips of joints: no force explains them."""
        motion = mend_pops(self.last.motion)
        if motion is not self.last.motion:
            self.check = self.check.detect_again(motion)
            self.best = self.last = replace(self.last, motion=motion, report=self.check.report(motion))

    def level(self) -> None:
        """Move the clip as a whole until it stands level on the floor, if that leaves as much of it green.

        What touches is seen better then, so it is looked at again.
        """
        check, now = self.check, self.last
        for _ in range(MAX_ROUNDS):
            motion = level_motion(now.motion, check.body, check.track)
            if motion is now.motion:
                break
            check = check.detect_again(motion)
            now = replace(now, motion=motion, report=check.report(motion))
        # Levelling counts only if as much of the clip is green, and not where it would turn the person over
        is_slight = measure_trunk_turns(self.last.motion, now.motion).max() <= MAX_TRUNK_DEG
        if is_slight and now.merit(self.stretch)[0] <= self.last.merit(self.stretch)[0]:
            self.check, self.best, self.last = check, now, now

    def run(
        self, began: float, max_iterations: int, time_limit_s: float | None, on_iteration: OnIteration | None
    ) -> None:
        """Pass after pass until all of the stretch is green, little more is gained, or time is up."""
        for _ in range(self.check.settings.max_passes):
            left = None if time_limit_s is None else time_limit_s - (time.perf_counter() - began)
            before = self.last.merit(self.stretch)
            if before[0] == 0.0 or (left is not None and left <= 0.0):
                return
            # One search from the clip as it is now
            now = self.last
            stretch = restrict_to_faults(self.stretch, now.wrong(self.stretch))
            stage = DisplacementProblem(
                now.motion, self.check.body, self.check.track, stretch, now.report, settings=self.check.settings
            )
            programme = stage.programme(friction=self.check.friction, moved=now.displacement)
            answer = solve_displacement(programme, max_iterations, left, on_iteration)
            self.answers.append(answer)
            added = programme.displacement(answer.x)
            moved = stage.motion(added)
            is_further = now.displacement.shape == added.shape
            total = now.displacement + added if is_further else added
            self.last = _RepairState(moved, self.check.report(moved), total)
            # The best state that leaves the person as he is is kept; little gain ends the search
            after = self.last.merit(self.stretch)
            if after < self.best.merit(self.stretch):
                self.refused = find_person_faults(self.base, moved)
                self.best = self.best if self.refused else self.last
            if self.answers[-1].status in (SolveStatus.STOPPED, SolveStatus.TIME_LIMIT):
                return
            if after[0] > LEAST_GAIN * before[0] and after[1] > LEAST_GAIN * before[1]:
                return

    def result(self, original: Motion, before: ValidityReport, seconds: float) -> RepairResult:
        """Everything that was found."""
        last, report, motion = self.answers[-1] if self.answers else None, self.best.report, self.best.motion
        is_green = not self.best.wrong(self.stretch).any()
        turned, moved = measure_changes(original, motion, self.stretch.frames)
        faults: list[str] = []
        levels, violation = report.levels[self.stretch.frames], report.violation[self.stretch.frames]
        is_whole = len(levels) == report.num_frames
        # A part is judged by itself: nothing red in it, or a tenth of what was missing
        was = float(before.violation[self.stretch.frames].sum())
        is_mended = report.colour == "green" if is_whole else not (levels == 2).any() or violation.sum() < 0.1 * was
        if not (is_mended or is_green):
            frames = self.stretch.frames
            reds = [one for one in report.spans if one.status == "red"]
            inside = [one for one in reds if one.start < frames.stop and one.stop > frames.start]
            worst = report.worst_span if is_whole else max(inside, key=len, default=None)
            where = "" if worst is None else f", worst from {worst.start_s:.2f} to {worst.stop_s:.2f} s: {worst.words}"
            faults.append(f"the clip is {report.colour}{where}")
            faults += [f"a state was refused in which {text}" for text in self.refused]
        if turned > FAR_RAD:
            faults.append("little of the clip is left: check its frame rate and its contacts")
        status, advice = SolveStatus.CONVERGED, "Nothing to do."
        if faults:
            ended = SolveStatus.TIME_LIMIT if last is None else last.status
            status = SolveStatus.STALLED if ended is SolveStatus.CONVERGED else ended
            advice = f"{'; '.join(faults)[:1].upper()}{'; '.join(faults)[1:]}."
            advice += " There was no time to search: give a longer time limit." if last is None else ""
        return RepairResult(
            status,
            motion,
            original,
            0.0 if last is None else last.violation,
            sum(answer.iterations for answer in self.answers),
            seconds,
            before,
            self.best.report,
            turned,
            moved,
            self.best.displacement,
            () if last is None else last.worst,
            tuple(step for answer in self.answers for step in answer.history),
            advice,
        )


def solve_displacement(
    programme: DisplacementProgramme, max_iterations: int, time_limit_s: float | None, on_iteration: OnIteration | None
) -> SQPResult:
    """The least change of a clip, starting from the clip; the best iterate if the search does not converge."""
    return solve_sqp(
        programme,
        np.zeros(programme.num_variables),
        max_iterations=max_iterations,
        tolerance=TOLERANCE,
        time_limit_s=time_limit_s,
        on_iteration=on_iteration,
        on_failure="return",
    )

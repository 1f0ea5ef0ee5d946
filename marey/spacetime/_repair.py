"""A clip that a body could make, as near as possible to one that no body could ([Fang2003]_ F25-F27)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.dynamics import (
    Body,
    JointTree,
    ValidityReport,
    differences,
    find_supports,
    smooth_values,
    validity,
)
from marey.lie import SO3
from marey.motion import Contacts, Motion, contact_positions, detect_contacts
from marey.numerics import KnotSpline, SolveStatus, SQPIteration, solve_sqp
from marey.skeleton import contact_points
from marey.spacetime._repair_programme import PlantRows, Reference, RepairProgramme
from marey.spacetime._repair_rows import wrench_rows

OnIteration = Callable[[SQPIteration], bool | None]

CUTOFF_HZ: Final = 6.0  # as the validity check
INSTANTS_PER_SPAN: Final = 2
SLACK_S: Final = 0.055  # contacts may begin earlier and end later, as in the validity check
UP: Final = np.array([0.0, 1.0, 0.0])
MIN_SPANS: Final = 4
MIN_PLANTED: Final = 8  # frames of contact that show where the floor is
LIFT_M: Final = 0.05  # a clip that stands farther from the floor is set down first
TILT_RAD: Final = 0.03  # one that leans more is levelled first
NARROW_M: Final = 0.15  # standard deviation of plants that shows a direction
MAX_ITERATIONS: Final = 40


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RepairResult:
    """The clip after the repair, and what it took."""

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
    worst: tuple[tuple[str, float], ...]
    history: tuple[SQPIteration, ...]
    advice: str

    @property
    def is_solved(self) -> bool:
        """Whether more of the clip is green than before, or nothing was left to do."""
        return self.after.valid_fraction >= self.before.valid_fraction

    @property
    def sentence(self) -> str:
        """What happened, in one line."""
        green = f"{100 * self.before.valid_fraction:.0f} % green before, {100 * self.after.valid_fraction:.0f} % after"
        moved = f"joints moved {np.rad2deg(self.change_rad):.1f}° (rms), the root at most {100 * self.change_m:.1f} cm"
        return f"{self.motion.name}: {green}; {moved}; {self.iterations} iterations, {self.seconds:.2f} s"

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


def make_valid(
    motion: Motion,
    *,
    body: Body | None = None,
    contacts: Contacts | None = None,
    start_s: float | None = None,
    stop_s: float | None = None,
    span_s: float = 0.1,
    friction: float = 0.8,
    max_iterations: int = MAX_ITERATIONS,
    time_limit_s: float | None = None,
    on_iteration: OnIteration | None = None,
    on_failure: Literal["raise", "return"] = "raise",
) -> RepairResult:
    r"""Move a clip as little as needed so that its contacts could carry it.

    A spline displacement is added to every coordinate, :math:`q = q_R + \sum_k d_k\phi_k` ([Fang2003]_ §3.5.6). The
    wrench of every instant must lie in the cone of the floor, and vanish in the air; heels and toes stay where they
    stand. Outside the stretch the clip stays as it is, bit for bit, and inside it joins with continuous
    accelerations (F27).

    Args:
        motion: any clip with feet, +Y up.
        body: by default ``Body.from_motion(motion)``.
        contacts: by default those of the motion, else detected ones.
        start_s: where the stretch begins; the start of the clip by default.
        stop_s: where it ends.
        span_s: knot spacing of the displacement [s].
        friction: coefficient of the floor.
        max_iterations: quadratic programmes at most.
        time_limit_s: wall time [s]; the best so far is kept.
        on_iteration: sees every iteration; returns True to stop.
        on_failure: "raise" where the search fails, or "return" what was found.
    """
    began = time.perf_counter()
    body = Body.from_motion(motion) if body is None else body
    frames = _stretch(motion, start_s, stop_s, span_s)
    given = contacts if contacts is not None else motion.contacts
    track = detect_contacts(motion) if given is None else given
    before = validity(motion, body, contacts=track, friction=friction)
    is_whole = frames.start == 0 and frames.stop == motion.num_frames
    lowered = _set_down(motion, track, is_whole=is_whole)
    edit = _Edit(lowered, body, track, frames, span_s, friction)
    answer = solve_sqp(
        edit.programme,
        np.zeros(edit.programme.num_variables),
        max_iterations=max_iterations,
        tolerance=2e-3,
        time_limit_s=time_limit_s,
        on_iteration=on_iteration,
        on_failure="return",
    )
    repaired = edit.motion(motion, answer.x)
    after = validity(repaired, body, contacts=track, friction=friction)
    turned = (motion.rotations.inverse() @ repaired.rotations).log()[frames]
    result = RepairResult(
        answer.status,
        repaired,
        motion,
        answer.violation,
        answer.iterations,
        time.perf_counter() - began,
        before,
        after,
        float(np.sqrt((turned**2).sum(axis=-1).mean())),
        float(np.linalg.norm(repaired.root_positions - motion.root_positions, axis=-1).max()),
        answer.worst,
        answer.history,
        answer.advice,
    )
    if on_failure == "raise" and not result.is_solved:
        from marey.base import ConvergenceError

        raise ConvergenceError(f"the repair made '{motion.name}' no better. {answer.advice}", report=result)
    return result


def _stretch(motion: Motion, start_s: float | None, stop_s: float | None, span_s: float) -> slice:
    begin, end = 0.0 if start_s is None else start_s, motion.duration_s if stop_s is None else stop_s
    if not (np.isfinite(begin) and np.isfinite(end) and np.isfinite(span_s) and span_s > 0.0):
        raise InputError(f"a stretch from {begin} to {end} s with knots {span_s} s apart", "Give finite times")
    first = max(0, round(begin * motion.rate_hz))
    last = min(motion.num_frames - 1, round(end * motion.rate_hz))
    if last - first < MIN_SPANS * span_s * motion.rate_hz:
        raise InputError(
            f"the stretch lasts {max(last - first, 0) / motion.rate_hz:.2f} s",
            f"It must hold {MIN_SPANS} spans of {span_s:g} s; choose a longer one",
        )
    return slice(first, last + 1)


def _set_down(motion: Motion, track: Contacts, *, is_whole: bool) -> Motion:
    """The clip with the plane of its plants level and on the floor, if it is far from that; a part is left alone."""
    places = _planted(motion, track)
    if not is_whole or len(places) < MIN_PLANTED:
        return motion
    level = _levelled(motion, places)
    height = float(np.median(_planted(level, track)[:, 1]))
    if abs(height) < LIFT_M and level is motion:
        return motion
    return replace(level, root_positions=level.root_positions - [0.0, height, 0.0], source=None)


def _levelled(motion: Motion, places: FloatArray) -> Motion:
    """Turn a clip about the middle of its plants so that their plane is level; a narrow strip tells its long side."""
    middle = places.mean(axis=0)
    _, spread, axes = np.linalg.svd(places - middle, full_matrices=False)
    widths = spread / np.sqrt(len(places))
    R = _levelling(axes, is_narrow=bool(widths[1] < NARROW_M))
    if widths[0] < NARROW_M or np.linalg.norm(R.log()) < TILT_RAD:
        return motion
    wxyz = motion.rotations.wxyz.copy()
    wxyz[:, 0] = (R @ motion.rotations[:, 0]).wxyz
    return replace(
        motion, root_positions=middle + R @ (motion.root_positions - middle), rotations=SO3(wxyz), source=None
    )


def _levelling(axes: FloatArray, *, is_narrow: bool) -> SO3:
    """Rotation that makes the first axis level, and the second too unless the plants form a line."""
    if is_narrow:
        along = axes[0] / np.linalg.norm(axes[0])
        return SO3.from_two_vectors(along, along * [1.0, 0.0, 1.0])
    normal = np.cross(axes[0], axes[1])
    return SO3.from_two_vectors(np.where(normal[1] < 0.0, -normal, normal), UP)


def _planted(motion: Motion, track: Contacts) -> FloatArray:
    """Places of heels and toes in contact, one a frame ``(N, 3)`` [m]."""
    known = contact_points(motion.skeleton).names
    positions = contact_positions(motion)
    feet = [name for name in track.names if name in known and not name.endswith("hand")]
    found = [positions[track.track(name), known.index(name)] for name in feet]
    return np.concatenate(found) if found else np.zeros((0, 3))


class _Edit:
    """One stretch of one clip on its way through the solver."""

    def __init__(
        self, motion: Motion, body: Body, track: Contacts, frames: slice, span_s: float, friction: float
    ) -> None:
        clip = body.motion(motion)
        self._tree = JointTree.from_body(body, motion=clip)
        self._frames, self._rate = frames, motion.rate_hz
        self._q = self._tree.from_motion(clip)
        self._times: FloatArray = np.arange(frames.start, frames.stop) / motion.rate_hz
        self._spline = KnotSpline.phases([self._times[0], self._times[-1]], span_s)
        step = max(1, round(span_s * motion.rate_hz / INSTANTS_PER_SPAN))
        instants = np.arange(frames.start, frames.stop, step)
        smooth_q = smooth_values(self._q, motion.rate_hz, min(CUTOFF_HZ, 0.45 * motion.rate_hz))
        qd, qdd = differences(smooth_q, motion.rate_hz)
        supports = find_supports(motion, track, friction=friction, slack_s=SLACK_S)
        com = body.centre_of_mass(motion)
        times = instants / motion.rate_hz
        rows = wrench_rows(
            times,
            supports.points[instants],
            supports.active[instants] & ~supports.grips[instants],
            com[instants],
            friction=friction,
            weight_n=body.weight_n,
        )
        names = tuple(name for name in track.names if name in self._tree.points)
        places = [self._tree.points[name] for name in names]
        dofs = np.array([dof for dof, _ in places], dtype=np.int64)
        points = np.array([point for _, point in places]).reshape(-1, 3)
        plants = _plants(motion, track, names, instants, supports.floor_m)
        self.programme = RepairProgramme(
            self._tree,
            Reference(smooth_q[instants], qd[instants], qdd[instants]),
            self._spline,
            times,
            rows,
            plants,
            (dofs, points),
            _free(self._spline, frames, motion.num_frames),
        )

    def motion(self, original: Motion, x: FloatArray) -> Motion:
        """The clip with the displacement added; frames outside the stretch are those of the original."""
        moved = self._q[self._frames] + self._spline.design(self._times) @ self.programme.displacement(x)
        part = self._tree.to_motion(moved, self._rate)
        positions, wxyz = original.root_positions.copy(), original.rotations.wxyz.copy()
        positions[self._frames] = part.root_positions
        wxyz[self._frames] = part.rotations.wxyz
        rotations = type(original.rotations)(wxyz)
        return replace(original, root_positions=positions, rotations=rotations, source=None)


def _free(spline: KnotSpline, frames: slice, num_frames: int) -> BoolArray:
    """Control points that may move ``(K,)``: three at each end stay, so that the stretch joins smoothly."""
    is_free = np.ones(spline.num_coefficients, dtype=np.bool_)
    if frames.start > 0:
        is_free[:3] = False
    if frames.stop < num_frames:
        is_free[-3:] = False
    return is_free


def _plants(motion: Motion, track: Contacts, names: tuple[str, ...], instants: IntArray, floor_m: float) -> PlantRows:
    """Where each point in contact stays: its median place, feet on the floor or where they were if that is higher."""
    known = contact_points(motion.skeleton).names
    positions = contact_positions(motion)
    found: list[tuple[int, int, FloatArray, str]] = []
    for k, name in enumerate(names):
        active = track.track(name)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], active, [False]]).astype(np.int8))).reshape(-1, 2)
        for a, b in edges:
            place = np.median(positions[a:b, known.index(name)], axis=0)
            inside = [n for n, frame in enumerate(instants) if a <= frame < b]
            found += [
                (n, k, place, f"{name} stays where it stands, {instants[n] / motion.rate_hz:.2f} s") for n in inside
            ]
    return PlantRows(
        np.array([f[0] for f in found], dtype=np.int64),
        np.array([f[1] for f in found], dtype=np.int64),
        np.array([f[2] for f in found]).reshape(-1, 3),
        tuple(f[3] for f in found),
    )

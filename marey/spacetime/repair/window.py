"""A window of a clip made ready to be displaced: levelled, with its coordinates, knots and contact rows.

A clip is levelled by where its feet stand and where its weight is. A repair moves the coordinates that carry weight,
the spine and the neck as one each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.dynamics import (
    CAUSES,
    PRISMATIC,
    Body,
    JointTree,
    ValidityReport,
    compute_aggregate,
    compute_differences,
    smooth_values,
)
from marey.lie import SO3
from marey.motion import Contacts, Motion, contact_positions, find_runs
from marey.numerics import KnotSpline
from marey.skeleton import contact_points, role_map
from marey.spacetime.problem.definition import Style
from marey.spacetime.repair.programme import (
    AngleRows,
    DisplacementProgramme,
    EditRows,
    PointRows,
    ReferenceMotion,
    RepairSettings,
    WrenchRows,
    evaluate_spline,
    pendulum_rows,
    wrench_rows,
)

PLANT_ERROR_M: Final = 0.02  # [m] height of a heel or toe that stands, as captures have it
BALANCE_ERROR_M: Final = 0.05  # [m] mean distance of the weight from the middle of the feet
MIN_PLANTED: Final = 8  # frames of contact that show where the floor is
LIFT_M: Final = 0.05  # a clip that stands farther from the floor is set down
TILT_RAD: Final = 0.03  # one that leans more is levelled
MIN_SIGNIFICANCE: Final = 3.0  # standard deviations
MAX_ROUNDS: Final = 4


def level_motion(motion: Motion, body: Body, track: Contacts) -> Motion:
    """The clip turned and lowered as a whole until its feet stand on a level floor; as it is if they do already.

    The tilt is the one that best explains the heights of the plants (2 cm each) and the weight beside the feet (5 cm):
    a line of footprints shows its own slope, and balance shows the lean to its sides.
    """
    positions, flags = _foot_positions(motion, track)
    if int(flags.sum()) < MIN_PLANTED:
        return motion
    # Median position of every contact, and the mean of the centre of mass over the middle of the feet that stand
    stands = flags.any(axis=1)
    runs = [(k, a, b) for k in range(flags.shape[1]) for a, b in find_runs(flags[:, k])]
    plants = np.array([np.median(positions[a:b, k], axis=0) for k, a, b in runs])
    shares = flags[stands] / flags[stands].sum(axis=1, keepdims=True)
    middles = np.einsum("fk,fkc->fc", shares, positions[stands])
    weight = (body.centre_of_mass(motion)[stands] - middles).mean(axis=0)
    # The tilt is small but not infinitesimal: estimate, turn, estimate again
    turns, is_sure, turned = list[SO3](), False, (plants, weight)
    for _ in range(MAX_ROUNDS):
        angles, spread = _estimate_tilt(*turned)
        is_sure = is_sure or float(np.linalg.norm(angles / spread)) > MIN_SIGNIFICANCE
        turns.append(SO3.exp(np.array([angles[0], 0.0, angles[1]])))
        turned = (turns[-1] @ turned[0], turns[-1] @ turned[1])
    R = reduce(lambda first, then: then @ first, turns)
    level = motion
    if is_sure and np.linalg.norm(R.log()) >= TILT_RAD:
        middle, wxyz = plants.mean(axis=0), motion.rotations.wxyz.copy()
        wxyz[:, 0] = (R @ motion.rotations[:, 0]).wxyz
        roots = middle + R @ (motion.root_positions - middle)
        level = replace(motion, root_positions=roots, rotations=SO3(wxyz), source=None)
    # Then the median height of heels and toes in contact is taken off
    positions, flags = _foot_positions(level, track)
    height = float(np.median(positions[flags][:, 1]))
    if abs(height) < LIFT_M and level is motion:
        return motion
    return replace(level, root_positions=level.root_positions - [0.0, height, 0.0], source=None)


def _estimate_tilt(plants: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Turn about X and Z ``(2,)`` [rad] and its standard deviation.

    Least squares on :math:`y_i + \omega_z x_i - \omega_x z_i = h` of the plants ``(N, 3)`` and, for the centre of mass
    over the middle of the feet :math:`v`, on :math:`v_x = \omega_z v_y` and :math:`v_z = -\omega_x v_y`.
    """
    p = plants - plants.mean(axis=0)
    rows = np.column_stack([-p[:, 2], p[:, 0], -np.ones(len(p))]) / PLANT_ERROR_M
    up = weight[1]
    balance = np.array([[0.0, -up, 0.0], [up, 0.0, 0.0]]) / BALANCE_ERROR_M
    A = np.concatenate([rows, balance])
    b = -np.concatenate([p[:, 1] / PLANT_ERROR_M, weight[[0, 2]] / BALANCE_ERROR_M])
    covariance: FloatArray = np.linalg.inv(A.T @ A).astype(np.float64)
    return (covariance @ (A.T @ b))[:2], np.sqrt(covariance.diagonal()[:2])


def _foot_positions(motion: Motion, track: Contacts) -> tuple[FloatArray, BoolArray]:
    """Places ``(F, K, 3)`` of heels and toes, and when they touch ``(F, K)``."""
    flags = find_touching_points(motion, track)
    feet = [name for name in flags if not name.endswith("hand")]
    known = contact_points(motion.skeleton).names
    positions = contact_positions(motion)[:, [known.index(name) for name in feet]]
    shape = (motion.num_frames, len(feet))
    return positions, np.array([flags[name] for name in feet], dtype=np.bool_).reshape(shape[::-1]).T


def find_touching_points(motion: Motion, track: Contacts) -> dict[str, BoolArray]:
    """When each heel, toe and hand of the skeleton touches ``(F,)``; a foot of the track is its heel and its toe."""
    found: dict[str, BoolArray] = {}
    for name in contact_points(motion.skeleton).names:
        side, part = name.split("_")
        whole = (f"{side}_foot", "feet") if part != "hand" else ("hands",)
        flags = [track.track(other) for other in (name, *whole) if other in track.names]
        if flags:
            found[name] = np.any(flags, axis=0)
    return found


MIN_MASS_FRACTION: Final = 0.01  # [-] of the body: what weighs less (hands, fingers, toes) keeps its angles
FIXED_JOINTS: Final = ("left_collar", "right_collar")
HINGE_JOINTS: Final = ("left_knee", "right_knee", "left_elbow", "right_elbow")  # they bend, but do not twist


def build_coordinate_map(tree: JointTree) -> FloatArray:
    """Matrix ``S (D, d)`` of the displacement ``S d``: one column for each turn that a repair may change.

    Joints of the spine turn by equal amounts, so do those of neck and head. Hands, fingers, toes and collars stay.
    """
    skeleton = tree.skeleton
    joints = role_map(skeleton).joints
    # The chain to which each joint of spine and neck belongs
    fused: dict[str, str] = {}
    for chain, top, bottom in (("spine", "spine3", "spine1"), ("neck", "head", "neck")):
        if top in joints and bottom in joints:
            joint = joints[top]
            while joint > joints[bottom]:
                fused[skeleton.names[joint]] = chain
                joint = int(skeleton.parents[joint])
            fused[skeleton.names[joints[bottom]]] = chain
    held = {skeleton.names[joints[role]] for role in FIXED_JOINTS if role in joints}
    hinges = {skeleton.names[joints[role]] for role in HINGE_JOINTS if role in joints}
    columns: dict[str, list[int]] = {}
    for i, name in enumerate(tree.names):
        group = tree.groups[i]
        twists = group in hinges and name != group and not name.endswith("_rx")
        if tree.far_mass(i) < MIN_MASS_FRACTION * tree.mass or group in held or twists:
            continue
        turn = name.rsplit("_", 1)[-1]
        columns.setdefault(f"{fused[group]}_{turn}" if group in fused else name, []).append(i)
    S = np.zeros((tree.num_dofs, len(columns)))
    for j, members in enumerate(columns.values()):
        S[members, j] = 1.0
    return S


CUTOFF_HZ: Final = 6.0  # forces of a report are averaged over about as long
INSTANTS_PER_SPAN: Final = 2
MIN_SPANS: Final = 4
MARGIN_S: Final = 0.4  # [s] four spans: what is moved around a frame that is wrong
WHOLE_CLIP_FRACTION: Final = 0.6  # [-] of the stretch: where more than this is to be moved, all is
STEP_SLACK_S: Final = 0.07  # [s] a footprint carries from this before its contact to this after
NEAR_FLOOR_M: Final = 0.2  # [m] a foot that swings lower than this is watched
KNEE_ROOM: Final = 0.02  # [rad] from a straight limb
NO_WRENCH_ROWS: Final = WrenchRows(np.zeros(0, dtype=np.int64), np.zeros((0, 6)), np.zeros(0), np.zeros(0), ())


@dataclass(frozen=True, slots=True, eq=False)
class EditWindow:
    """Frames that may move, and the knots of their displacement."""

    first: int
    last: int  # inclusive
    rate_hz: float
    spline: KnotSpline
    is_free: BoolArray  # (K,) control points that may move

    @property
    def frames(self) -> slice:
        """All frames from the first to the last."""
        return slice(self.first, self.last + 1)

    @property
    def times(self) -> FloatArray:
        """Time of each of its frames [s]."""
        return np.arange(self.first, self.last + 1) / self.rate_hz

    def control(self, times: FloatArray) -> FloatArray:
        """Share of what moves a time that is free ``(T,)``: one inside, zero where the clip stays as it is."""
        return evaluate_spline(self.spline, self.is_free.astype(np.float64)[:, None], times)[:, 0]


def find_window(motion: Motion, start_s: float | None, stop_s: float | None, span_s: float) -> EditWindow:
    """Frames between two times. Three control points stay at an end inside the clip: accelerations are continuous.

    Raises:
        InputError: times that are not finite, or too short a stretch.
    """
    begin, end = 0.0 if start_s is None else start_s, motion.duration_s if stop_s is None else stop_s
    if not (np.isfinite(begin) and np.isfinite(end) and np.isfinite(span_s) and span_s > 0.0):
        raise InputError(f"a stretch from {begin} to {end} s with knots {span_s} s apart", "Give finite times")
    if span_s < 1.0 / motion.rate_hz:
        raise InputError(
            f"knots {span_s:g} s apart are closer than the frames", f"Give {1.0 / motion.rate_hz:.3g} s or more"
        )
    first, last = max(0, round(begin * motion.rate_hz)), min(motion.num_frames - 1, round(end * motion.rate_hz))
    if last - first < MIN_SPANS * span_s * motion.rate_hz:
        raise InputError(
            f"the stretch from {begin:g} to {end:g} s lasts {max(last - first, 0) / motion.rate_hz:.2f} s",
            f"It must hold {MIN_SPANS} spans of {span_s:g} s; choose a longer one",
        )
    spline = KnotSpline.phases([first / motion.rate_hz, last / motion.rate_hz], span_s)
    is_free = np.ones(spline.num_coefficients, dtype=np.bool_)
    is_free[:3] &= first == 0
    is_free[-3:] &= last == motion.num_frames - 1
    return EditWindow(first, last, motion.rate_hz, spline, is_free)


def restrict_to_faults(stretch: EditWindow, wrong: BoolArray) -> EditWindow:
    """The stretch with only those control points free that act within 0.4 s of frames that are wrong ``(F,)``."""
    times = np.flatnonzero(wrong[stretch.frames]) / stretch.rate_hz + stretch.times[0]
    if not len(times):
        return stretch
    # A control point is free if frames within its reach are wrong
    knots = stretch.spline.knots
    low, high = knots[:-4], knots[4:]  # where each control point acts
    nearest = np.abs(stretch.spline.greville[:, None] - times).min(axis=1)
    is_near = nearest + 0.5 * (high - low) <= MARGIN_S + 0.5 * (high - low).max()
    is_free = stretch.is_free & is_near
    return stretch if is_free.mean() > WHOLE_CLIP_FRACTION else replace(stretch, is_free=is_free)


@dataclass(frozen=True, slots=True, eq=False)
class FootprintShift:
    """A footprint that is put elsewhere."""

    limb: int  # index into the supports' limbs: left and right foot, left and right hand
    start: int  # first frame of the contact
    stop: int  # one after the last
    shift: FloatArray  # (3,) [m]


class DisplacementProblem:
    """One stretch of one clip in the coordinates of its body; ``like`` one of the same body, whose trees it shares."""

    def __init__(
        self,
        motion: Motion,
        body: Body,
        track: Contacts,
        stretch: EditWindow,
        report: ValidityReport,
        *,
        extra: IntArray | None = None,
        steps: tuple[FootprintShift, ...] = (),
        settings: RepairSettings | None = None,
        keeps_green: bool = False,
        like: DisplacementProblem | None = None,
    ) -> None:
        clip = body.motion(motion)
        self._keeps_green = keeps_green  # no row asks for more than a frame has that is green and stays in place
        self.clip, self.track, self.stretch, self.report, self.steps = motion, track, stretch, report, steps
        self.settings = settings or RepairSettings()
        if like is None:
            plain = replace(motion, translations=None, source=None)
            tree = JointTree.from_body(body, motion=clip)
            figure = JointTree.from_body(replace(body, skeleton=motion.skeleton), motion=plain)
        else:
            tree, figure = like.tree, like.figure
        self.body: Body = body
        self.tree: JointTree = tree  # with bones of the body
        self.figure: JointTree = figure  # with bones of the clip
        self.q: FloatArray = self.tree.from_motion(clip) if like is None or like.clip is not motion else like.q
        step = max(1, round(float(np.diff(stretch.spline.breaks).max()) * motion.rate_hz / INSTANTS_PER_SPAN))
        frames = np.arange(stretch.first, stretch.last + 1, step)
        frames = frames if extra is None else np.union1d(frames, extra)
        self.instants: IntArray = frames[stretch.control(frames / motion.rate_hz) > 1e-6]

    @property
    def times(self) -> FloatArray:
        """Of the instants [s]."""
        return self.instants / self.clip.rate_hz

    def programme(
        self,
        *,
        S: FloatArray | None = None,
        physics: bool = True,
        friction: float = 0.8,
        points: PointRows | None = None,
        angles: AngleRows | None = None,
        styles: tuple[Style, ...] = (),
        moved: FloatArray | None = None,
    ) -> DisplacementProgramme:
        """The stretch as a programme: contacts, limits, and what is asked beyond.

        With ``moved (K, D)``, the displacement of earlier passes, angles stay near those of the clip in all.
        """
        reference = self.reference()
        # Heels and toes near the floor that do not stand stay above it, or no lower than they were
        known, positions = contact_points(self.clip.skeleton).names, contact_positions(self.clip)
        floor_m = self.report.supports.floor_m
        found: list[tuple[int, tuple[int, FloatArray], FloatArray, float, str]] = []
        for name, active in find_touching_points(self.clip, self.track).items():
            for n, frame in enumerate(self.instants):
                here = positions[frame, known.index(name)]
                if not active[frame] and here[1] - floor_m < NEAR_FLOOR_M:
                    target = np.array([0.0, min(float(here[1]), floor_m + self.settings.swing_m), 0.0])
                    label = f"{name} above the floor, {self.times[n]:.2f} s"
                    found.append((n, self.figure.point(name), target, np.inf, label))
        rows = EditRows(
            self._wrenches(friction) if physics else NO_WRENCH_ROWS,
            reduce(add, [self._plants(), PointRows.from_entries(found), *([] if points is None else [points])]),
            self._limits(reference.raw) if angles is None else self._limits(reference.raw) + angles,
        )
        chosen = build_coordinate_map(self.tree) if S is None else S
        stretch = self.stretch
        return DisplacementProgramme(
            self.tree,
            chosen,
            reference,
            stretch.spline,
            rows,
            stretch.is_free,
            styles,
            figure=self.figure,
            smoothness=self.settings.smoothness,
            ends=None if moved is None else self._find_ends(chosen, moved),
        )

    def _find_ends(self, S: FloatArray, moved: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How far each column of the displacement may go down and up at its control points ``(K, d)``."""
        tree, settings = self.tree, self.settings
        root = set(tree.figure.joint_dofs[0]) if tree.figure is not None else set[int]()
        most = np.full(S.shape[1], settings.max_joint_rad)
        total = np.zeros((self.stretch.spline.num_coefficients, S.shape[1]))
        for j in range(S.shape[1]):
            members = np.flatnonzero(S[:, j])
            if tree.kinds[members[0]] == PRISMATIC:
                most[j] = np.inf
            elif int(members[0]) in root:
                most[j] = settings.max_root_rad
            elif len(members) > 1:
                most[j] = settings.max_spine_rad / len(members)
            if moved.size:
                total[:, j] = moved[:, members[0]]
        return -most - total, most - total

    def motion(self, displacement: FloatArray) -> Motion:
        """The clip with control points ``(K, D)`` added; frames that none of them reaches stay bit for bit."""
        stretch = self.stretch
        # Frames that no free control point reaches are not written
        moved = np.arange(stretch.first, stretch.last + 1)[stretch.control(stretch.times) > 0.0]
        q = self.q[moved] + evaluate_spline(stretch.spline, displacement, moved / stretch.rate_hz)
        part = self.tree.to_motion(q, stretch.rate_hz)
        positions, wxyz = self.clip.root_positions.copy(), self.clip.rotations.wxyz.copy()
        positions[moved], wxyz[moved] = part.root_positions, part.rotations.wxyz
        return replace(self.clip, root_positions=positions, rotations=SO3(wxyz), source=None)

    def reference(self) -> ReferenceMotion:
        """Smoothed coordinates at the instants, and what is missing from their wrench to that of the report."""
        rate_hz, n = self.clip.rate_hz, self.instants
        # Rows see the wrench of the report: its difference from that of the smoothed clip is added
        smooth = smooth_values(self.q, rate_hz, min(CUTOFF_HZ, 0.45 * rate_hz))
        qd, qdd = compute_differences(smooth, rate_hz)
        q, qd, qdd = smooth[n], qd[n], qdd[n]
        return ReferenceMotion(
            self.times, self.q[n], q, qd, qdd, self.report.wrench[n] - compute_aggregate(self.tree, q, qd, qdd).wrench
        )

    def _wrenches(self, friction: float) -> WrenchRows:
        """Cones at the instants. Near the ends, where little can move, no row asks for more than the clip has."""
        supports, n = self.report.supports, self.instants
        # Corners of soles and palms, those of moved footprints where they will be
        slack, corners = round(STEP_SLACK_S * self.clip.rate_hz), supports.points.copy()
        for step in self.steps:
            corners[max(0, step.start - slack) : step.stop + slack, supports.limbs == step.limb] += step.shift
        rows = wrench_rows(
            self.times,
            corners[n],
            supports.active[n],
            self.report.dynamics.com[n],
            friction=friction,
            weight_n=self.body.weight_n,
            skipped=np.asarray(supports.grips[n].any(axis=1)),
            settings=self.settings,
        )
        if self.report.cause_flags[self.stretch.frames, CAUSES.index("haste")].any():
            # On one foot the body moves no harder than gravity tips it
            stands = np.stack([supports.limb_active(limb, slack=False)[n] for limb in range(4)], axis=1)
            for limb in range(2):
                alone = np.flatnonzero(stands[:, limb] & (stands.sum(axis=1) == 1))
                feet = supports.points[n[alone]][:, supports.limbs == limb].mean(axis=1)
                com, ratio = self.report.dynamics.com[n[alone]], self.settings.max_tipping_ratio
                rows = rows + pendulum_rows(self.times, alone, feet, com, self.body.weight_n, ratio)
        # Near the ends of the stretch, and in edits where it is green, no row asks for more than the clip has
        now = np.einsum("ri,ri->r", rows.matrix, self.report.wrench[n][rows.instants])
        is_weak = ((self.stretch.control(self.times) < 0.5) | self._is_kept())[rows.instants]
        lower = np.where(is_weak, np.minimum(rows.lower, now), rows.lower)
        return replace(rows, lower=lower, upper=np.where(is_weak, np.maximum(rows.upper, now), rows.upper))

    def _is_kept(self) -> BoolArray:
        """Instants ``(n,)`` of an edit at which the clip is green and no footprint is moved."""
        n, slack = self.instants, round(STEP_SLACK_S * self.clip.rate_hz)
        kept = (self.report.levels[n] == 0) & self._keeps_green
        for step in self.steps:
            kept &= (n < step.start - slack) | (n >= step.stop + slack)
        return kept

    def _plants(self) -> PointRows:
        """Points in contact stay at their median place, and roll about it by a centimetre at most."""
        known, positions = contact_points(self.clip.skeleton).names, contact_positions(self.clip)
        control = np.where(self._is_kept(), 0.0, self.stretch.control(self.times))
        found: list[tuple[int, tuple[int, FloatArray], FloatArray, float, str]] = []
        for name, active in find_touching_points(self.clip, self.track).items():
            for a, b in find_runs(active):
                # A footprint that is put elsewhere takes its points along
                moved = [s for s in self.steps if find_limb(name) == s.limb and a < s.stop and s.start < b]
                path = positions[a:b, known.index(name)] + (moved[0].shift if moved else np.zeros(3))
                place = np.median(path, axis=0)
                for n in np.flatnonzero((self.instants >= a) & (self.instants < b)):
                    here = path[self.instants[n] - a]
                    away = here - place
                    kept = place + away * min(1.0, self.settings.wander_m / max(float(np.linalg.norm(away)), 1e-9))
                    target = here + control[n] * (kept - here)  # little is asked where little can move
                    label = f"{name} stays where it stands, {self.times[n]:.2f} s"
                    found.append((int(n), self.figure.point(name), target, self.settings.plant_band_m, label))
        return PointRows.from_entries(found)

    def _limits(self, q: FloatArray) -> AngleRows:
        """Knees and elbows bend one way: no farther than their ends, or than the clip."""
        bounded = np.flatnonzero(np.isfinite(self.tree.lower) | np.isfinite(self.tree.upper))
        found: list[tuple[int, int, float, float, str]] = []
        for n in range(len(q)):
            for i in bounded.tolist():
                low = min(float(self.tree.lower[i]) + KNEE_ROOM, float(q[n, i]))
                high = max(float(self.tree.upper[i]), float(q[n, i]))
                found.append((n, i, low, high, f"{self.tree.groups[i]} within its limits, {self.times[n]:.2f} s"))
        return AngleRows.from_entries(found)


def find_limb(name: str) -> int:
    """Which of left foot, right foot, left hand and right hand a contact point belongs to."""
    side, part = name.split("_")
    return 2 * (part == "hand") + (side == "right")

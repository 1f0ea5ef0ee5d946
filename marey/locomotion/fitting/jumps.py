"""Jump models fitted to captured trials: the laws of poses, durations, foot events and speeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, frozen
from marey.locomotion.fitting.trials import JUMP_GAITS, ClipSource, Manifest, TrialLoader, make_loader
from marey.locomotion.model.jump_model import JumpModel
from marey.locomotion.planning.run_up import THESIS_LAWS, fit_run_up
from marey.locomotion.units.captured_jumps import (
    CapturedJump,
    canonical_steps,
    find_leaps,
    find_standing_jumps,
    retarget_to_body,
    sample_captured_jump,
)
from marey.locomotion.units.gait_unit import LEG_PARTS, joint_means, measure_leg_length
from marey.locomotion.units.jump_unit import JUMP_LEG_M
from marey.models import principal_components
from marey.motion import mirror
from marey.skeleton import HUMAN, Skeleton

RIDGE: Final = 0.15  # [-] pulls personal offsets to the mean: one jump of a person counts for less than the law
MIN_LEAP_FLIGHT_S: Final = 0.24  # [s] flights longer than this are leaps, shorter ones steps or runs
SHORTEST_LEAP_S: Final = 0.1  # [s] in the air, of leaps that are made
SHORTEST_PIECE_S: Final = 0.02
MAX_FLIGHT_FACTOR: Final = 1.2  # [-] longest time in the air over the longest captured
OWN_LEG_WEIGHT: Final = 0.4  # [-] weight of the own leg posture of people without captured leaps
MIN_JUMPS_FOR_SLOPE: Final = 4  # [jumps] fewer do not give a slope
AIRTIME_SLOPE_S: Final = 0.2  # [s] by l_n, for sets with too few jumps to estimate it


@dataclass(frozen=True, slots=True, eq=False)
class JumpTable:
    """Captured jumps of one kind as numbers."""

    kind: str
    jumps: tuple[CapturedJump, ...]
    people: tuple[str, ...]
    who: IntArray  # (n,) number of the performer
    at: FloatArray  # (n, 2) length over leg length, time in the air [s]
    is_leap: BoolArray  # (n,) the others are steps of walks and runs, the short end of leaps

    @classmethod
    def from_jumps(cls, kind: str, jumps: list[CapturedJump]) -> JumpTable:
        """Collect the numbers."""
        people = tuple(dict.fromkeys(jump.subject for jump in jumps))
        who = np.array([people.index(jump.subject) for jump in jumps], dtype=np.int64)
        leg_m = measure_leg_length(jumps[0].motion.skeleton)
        at = np.array([[jump.length_m / leg_m, jump.flight_s] for jump in jumps])
        is_leap = at[:, 1] >= (0.0 if kind == "standing" else MIN_LEAP_FLIGHT_S)
        return cls(kind, tuple(jumps), people, who, at, is_leap)

    @property
    def lengths(self) -> FloatArray:
        """Lengths of the leaps over leg length."""
        return self.at[self.is_leap, 0]

    @property
    def weights(self) -> FloatArray:
        """Weight ``(n,)`` of each jump, one on average: all leaps weigh as much as all steps."""
        leaps, steps = max(int(self.is_leap.sum()), 1), max(int((~self.is_leap).sum()), 1)
        return np.where(self.is_leap, 0.5 / leaps, 0.5 / steps) * float(len(self.at))


def fit_poses(scores: FloatArray, table: JumpTable, centre: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Personal offsets ``(K, C)`` and shared slopes ``(2, C)`` of scores ``(n, C)`` by length and airtime."""
    count = len(table.people)
    design = np.concatenate([np.eye(count)[table.who], np.ones((len(table.who), 1)), table.at - centre], axis=1)
    root = np.sqrt(table.weights)[:, None]
    left = np.concatenate([design * root, np.sqrt(RIDGE) * np.eye(count, count + 3)])
    right = np.concatenate([scores * root, np.zeros((count, scores.shape[1]))])
    solved = np.asarray(np.linalg.lstsq(left, right, rcond=None)[0], dtype=np.float64)
    return solved[:count] + solved[count], solved[count + 1 :]


def share_leg_offsets(offsets: FloatArray, leapers: BoolArray) -> FloatArray:
    """Offsets ``(K, p)``: people without captured leaps keep their posture, with legs half-way to those with leaps.

    A walker's long stride would otherwise make up the whole length of a short leap, which would not leave the ground.
    """
    is_leg = np.repeat([True, *(name.endswith(LEG_PARTS) for name in HUMAN.names)], 3)
    common = offsets[leapers].mean(axis=0)
    legs = np.tile(is_leg, offsets.shape[1] // len(is_leg)) & ~leapers[:, None]
    return np.where(legs, (1.0 - OWN_LEG_WEIGHT) * common + OWN_LEG_WEIGHT * offsets, offsets)


def condense_components(offsets: FloatArray, slopes: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Offsets ``(K, p)`` and slopes ``(2, p)`` in as few components as they have rows: scores, scores and lift."""
    u, s, lift = np.linalg.svd(np.concatenate([offsets, slopes]), full_matrices=False)
    scores = u * s
    return scores[: len(offsets)], scores[len(offsets) :], lift


def fit_timing(table: JumpTable) -> dict[str, FloatArray]:
    """Durations of pieces, foot events, time and speed of flights, as the fields of a jump model."""
    # Durations of the pieces but the flight, which lies in the middle
    spans = np.array([np.diff(jump.knots) for jump in table.jumps])
    spans = np.maximum(np.delete(spans, spans.shape[1] // 2, axis=1), SHORTEST_PIECE_S)
    marks = np.array([compute_event_marks(jump) for jump in table.jumps])
    leaps, shortest, kind = table.at[table.is_leap, 1], float(table.at[:, 1].min()), table.kind
    leg_m = measure_leg_length(table.jumps[0].motion.skeleton)
    flown = np.array([jump.flight_mps for jump in table.jumps])[table.is_leap] / leg_m
    return {
        "pieces": _fit_planes(table, np.log(spans)),
        "piece_limits": np.stack([spans.min(axis=0), spans.max(axis=0)]),
        "marks": _fit_planes(table, marks),
        "mark_limits": np.stack([marks[table.is_leap].min(axis=0), marks[table.is_leap].max(axis=0)]),
        "flight_law": _fit_line(table.lengths, leaps, AIRTIME_SLOPE_S),
        "flight_speed": _fit_line(table.lengths, flown, THESIS_LAWS[kind].slope if kind in THESIS_LAWS else 1.0),
        "flight_limits": np.array(
            [shortest if kind == "standing" else SHORTEST_LEAP_S, MAX_FLIGHT_FACTOR * float(leaps.max())]
        ),
    }


def compute_event_marks(jump: CapturedJump) -> FloatArray:
    """Toe strike and heel off as parts of the take-off stance; toe strike, heel off, toe off of what comes after."""
    rhs, rts, rho, rto, lhs, lts, lho, lto = jump.events
    first, last = max(rto - rhs, 1e-6), max(jump.knots[-1] - lhs, 1e-6)
    parts = [(rts - rhs) / first, (rho - rhs) / first, *((t - lhs) / last for t in (lts, lho, lto))]
    return np.clip(np.array(parts), 0.0, 1.0)


def path_speed(jump: CapturedJump) -> float:
    r"""Mean speed of the root along its path over leg length [1/s], [Glardon2005]_ §III.1.3.2.

    .. math:: \bar s = \frac{1}{(N-1) H} \sum_i \|p_i - p_{i-1}\| / \Delta t

    The source divides by the number of frames, not of steps.
    """
    steps = np.linalg.norm(np.diff(jump.motion.root_positions, axis=0), axis=1)
    return float(steps.mean()) * jump.motion.rate_hz / measure_leg_length(jump.motion.skeleton)


def _fit_line(lengths: FloatArray, values: FloatArray, slope: float) -> FloatArray:
    """Constant and slope ``(2,)`` of values by length; with the slope given where the jumps are too few."""
    if len(lengths) < MIN_JUMPS_FOR_SLOPE:
        return np.array([float(np.mean(values - slope * lengths)), slope])
    design = np.stack([np.ones(len(lengths)), lengths], axis=1)
    return np.asarray(np.linalg.lstsq(design, values, rcond=None)[0], dtype=np.float64)


def _fit_planes(table: JumpTable, values: FloatArray) -> FloatArray:
    """Constant and slopes by length and airtime ``(3, m)`` of values ``(n, m)``."""
    root = np.sqrt(table.weights)[:, None]
    design = np.concatenate([np.ones((len(root), 1)), table.at], axis=1)
    return np.asarray(np.linalg.lstsq(design * root, values * root, rcond=None)[0], dtype=np.float64)


JUMP_VARIANCE_EXPLAINED: Final = 0.97  # [-] of the variance of the rows; the thesis keeps 80 % of jumps
MAX_WALK_APPROACH_MPS: Final = 1.6  # [m/s] approach speed below which a leap is a walking leap
LENGTH_LIMITS: Final = {"walk": (0.42, 1.4), "run": (0.55, 1.15), "standing": (0.0, 1.1)}
"""Shortest l_n by kind, and the longest as a part of the longest captured."""
EXTRAPOLATION_FACTOR: Final = 1.05  # [-] how far poses go on beyond the longest and highest captured
STEP_LENGTHS: Final = (0.1, 0.9)  # [-] l_n of steps of walks that may stand at the short end
STEP_FLIGHTS_S: Final = (0.05, 0.06)  # longest of a step in walking, shortest of one in running
FALLS_MPS2: Final = (-13.0, -6.0)  # others are not flights or have a wrong rate
SHORT_FALL_MPS2: Final = 4.0  # [m/s2] how well the fall of a short flight is known ...
MIN_FALL_S: Final = 0.08  # [s] ... and of a shorter one it is not
NUM_LENGTHS: Final = 9  # jumps made to measure the model's own run-up


def fit_jumps(
    source: ClipSource,
    manifest: Manifest,
    skeleton: Skeleton = HUMAN,
    *,
    means: FloatArray | None = None,
    report: Callable[[str], None] | None = None,
) -> dict[str, JumpModel]:
    """Models of walking leaps, running leaps and standing jumps, by kind; a kind that was not captured is missing.

    Args:
        source: folder of trials, library, or a function that gives the trial of a name.
        manifest: its groups of jumps; steps of walks and runs among them are the short end of leaps.
        skeleton: the canonical human, on which jumps are measured.
        means: ``(J, 4)`` the joints' mean rotations of the gait model; of the jumps themselves by default.
        report: is told what was found, a line at a time.
    """
    load = make_loader(source, manifest.rates)
    jumps: dict[str, list[CapturedJump]] = {}
    for gait, kind in JUMP_GAITS.items():
        trials = {clip: group.subject for group, clip in manifest.clips_of("train", gait)}
        found = capture_jumps(load, kind, trials, report, skeleton=skeleton) if trials else []
        if any(kind == "standing" or jump.flight_s >= MIN_LEAP_FLIGHT_S for jump in found):
            jumps[kind] = found
    if means is None and jumps:
        poses = [jump.motion.rotations.wxyz[::6] for some in jumps.values() for jump in some]
        means = joint_means(np.concatenate(poses))
    return {} if means is None else {kind: fit_kind(kind, some, means) for kind, some in jumps.items()}


def capture_jumps(
    load: TrialLoader,
    kind: str,
    trials: Mapping[str, str],
    report: Callable[[str], None] | None = None,
    *,
    skeleton: Skeleton = HUMAN,
) -> list[CapturedJump]:
    """All jumps of a kind in some trials (name to subject), on the model's body."""
    found: list[CapturedJump] = []
    for name, subject in trials.items():
        body = retarget_to_body(load(name), skeleton)
        jumps = find_standing_jumps(body) if kind == "standing" else find_leaps(body, with_steps=kind == "walk")
        for jump in jumps:
            reason = find_jump_fault(jump, kind)
            if report is not None:
                fate = reason or "taken"
                report(f"{kind} {name}: {jump.length_m:.2f} m, {jump.flight_s:.3f} s in the air, {fate}")
            if reason is None:
                found.append(replace(jump, subject=subject, clip=name))
    if not found:
        raise InputError(f"no jump of kind '{kind}' in the trials given", "Name trials that hold some")
    return found


def find_jump_fault(jump: CapturedJump, kind: str) -> str | None:
    """Why a jump is left out, or nothing."""
    length_n = jump.length_m / measure_leg_length(jump.motion.skeleton)
    first, last = float(jump.knots[1]), float(jump.knots[-1] - jump.knots[-2])
    # A flight falls at about g, or its file has a wrong rate, or a foot was lost; of a short one it is known roughly.
    spare = 0.0 if jump.flight_s >= MIN_LEAP_FLIGHT_S else SHORT_FALL_MPS2
    if jump.flight_s >= MIN_FALL_S and not FALLS_MPS2[0] - spare < jump.fall_mps2 < FALLS_MPS2[1] + spare:
        return f"falls at {-jump.fall_mps2:.1f} m/s²"
    if kind == "standing":
        return None if length_n > -0.35 and first > 0.1 and last > 0.2 else "not from rest to rest"
    if length_n < STEP_LENGTHS[0]:
        return "too short"
    if first < 0.08 or last < 0.15:
        return "cut off"
    if kind == "run":
        return "hardly in the air" if jump.flight_s < STEP_FLIGHTS_S[1] else None
    if jump.flight_s >= MIN_LEAP_FLIGHT_S:
        return "too fast for a walk" if jump.speed_mps > MAX_WALK_APPROACH_MPS else None
    return "a run" if length_n > STEP_LENGTHS[1] or jump.flight_s > STEP_FLIGHTS_S[0] else None


def fit_kind(kind: str, jumps: list[CapturedJump], means: FloatArray) -> JumpModel:
    """Fit one kind: principal components of rows, shared slopes, personal offsets, laws of timing and events.

    Standing jumps are joined by their mirror images, so that both sides do alike.
    """
    if kind == "standing":
        jumps = [*jumps, *(replace(jump, motion=mirror(jump.motion)) for jump in jumps)]
    table = JumpTable.from_jumps(kind, jumps)
    centre = table.at[table.is_leap].mean(axis=0)
    rows = np.stack([sample_captured_jump(jump, means, canonical_steps(kind)).ravel() for jump in jumps])
    space = principal_components(rows, explained=JUMP_VARIANCE_EXPLAINED)
    offsets, slopes = fit_poses(space.scores(rows), table, centre)
    leapers = np.array([table.is_leap[table.who == k].any() for k in range(len(table.people))])
    own = share_leg_offsets(offsets @ space.lifting, leapers)
    offsets, slopes, lift = condense_components(own, slopes @ space.lifting)
    shortest, part = LENGTH_LIMITS[kind]
    captured = np.array([table.lengths.min(), table.lengths.max()])
    poses = {"mean": space.mean, "lift": lift, "offsets": offsets, "slopes": slopes, "centre": centre, "means": means}
    poses["pose_limits"] = np.stack([table.at.min(axis=0), EXTRAPOLATION_FACTOR * table.at.max(axis=0)])
    range_n = {"captured": captured, "limits": np.array([shortest, part * captured[1]])}
    shares = np.full(len(table.people), 1.0 / len(table.people))
    arrays = {"shares": shares, **poses, **fit_timing(table), **range_n}
    # The law of the captured leaps' run-ups, with the slope of the thesis where they are too few
    speeds = np.array([jump.speed_mps for jump in jumps])[table.is_leap] / measure_leg_length(jumps[0].motion.skeleton)
    slope = THESIS_LAWS[kind].slope if len(speeds) < MIN_JUMPS_FOR_SLOPE else None
    law, held = fit_run_up(table.lengths, speeds, slope), {n: frozen(array, name=n) for n, array in arrays.items()}
    model = JumpModel(
        kind=kind, people=table.people, run_up=law, captured_run_up=law, frequency_law=np.array([1.0, 0.0]), **held
    )
    # The thesis has its jump frequency from the line of mean path speeds by length.
    paths = np.array([path_speed(jump) for jump in jumps])[table.is_leap]
    path_law = fit_run_up(table.lengths, paths, 1.0 if len(paths) < MIN_JUMPS_FOR_SLOPE else None)
    # Its frequency [Hz] is that speed over the root's path in the model's own jumps, a line in length (§III.1.3.2).
    lengths = np.linspace(float(model.limits[0]), float(model.limits[1]), NUM_LENGTHS)
    units = [model.unit(float(length)) for length in lengths]
    ways = [np.linalg.norm(np.diff(unit.rows[:, :3], axis=0), axis=1).sum() for unit in units]
    slope, constant = np.polyfit(lengths, [path_law.speed(float(n)) for n in lengths] / np.array(ways), 1)
    frequency = frozen(np.array([constant, slope]), 2, name="frequency_law")
    # The law of the jumps that the model makes, within its limits; the captured jumps give the tolerance.
    made = np.array([unit.mean_speed_mps for unit in units]) / JUMP_LEG_M
    own_law = fit_run_up(lengths, made)
    own_law = replace(own_law, tolerance=max(own_law.tolerance, law.tolerance))
    return replace(model, run_up=own_law, frequency_law=frequency)

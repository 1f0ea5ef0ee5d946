"""The laws of a jump model, fitted to captured jumps: poses, durations, foot events and speeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.locomotion._fit_tree import LEG_PARTS
from marey.locomotion._jump_capture import CapturedJump
from marey.locomotion._jump_runup import THESIS_LAWS, RunUpLaw, fit_run_up
from marey.locomotion._segment import measure_leg_length
from marey.skeleton import HUMAN

RIDGE: Final = 0.15  # [-] pulls personal offsets to the mean: one jump of a person counts for less than the law
MIN_LEAP_FLIGHT_S: Final = 0.24  # [s] who is in the air for longer leaps, for less he steps or runs
SHORTEST_LEAP_S: Final = 0.1  # [s] in the air, of leaps that are made
SHORTEST_PIECE_S: Final = 0.02
MAX_FLIGHT_FACTOR: Final = 1.2  # [-] longest time in the air over the longest captured
OWN_LEG_WEIGHT: Final = 0.4  # [-] how much of their own legs those have who never leapt
MIN_JUMPS_FOR_SLOPE: Final = 4  # [jumps] fewer do not give a slope
AIRTIME_SLOPE_S: Final = 0.2  # [s] by l_n, where the jumps are too few to tell


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
    def leapers(self) -> BoolArray:
        """Who leapt ``(K,)``."""
        return np.array([self.is_leap[self.who == k].any() for k in range(len(self.people))])

    @property
    def lengths(self) -> FloatArray:
        """Lengths of the leaps over leg length."""
        return self.at[self.is_leap, 0]

    @property
    def weights(self) -> FloatArray:
        """Weight ``(n,)`` of each jump, one on average: all leaps weigh as much as all steps."""
        leaps, steps = max(int(self.is_leap.sum()), 1), max(int((~self.is_leap).sum()), 1)
        return np.where(self.is_leap, 0.5 / leaps, 0.5 / steps) * float(len(self.at))

    def numbers(self, name: str) -> FloatArray:
        """One number ``(n,)`` of every jump, by the name of its field."""
        return np.array([float(getattr(jump, name)) for jump in self.jumps])


def fit_poses(scores: FloatArray, table: JumpTable, centre: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Personal offsets ``(K, C)`` and shared slopes ``(2, C)`` of scores ``(n, C)`` by length and airtime."""
    count = len(table.people)
    design = np.concatenate([np.eye(count)[table.who], np.ones((len(table.who), 1)), table.at - centre], axis=1)
    root = np.sqrt(table.weights)[:, None]
    left = np.concatenate([design * root, np.sqrt(RIDGE) * np.eye(count, count + 3)])
    right = np.concatenate([scores * root, np.zeros((count, scores.shape[1]))])
    solved = _solve_least_squares(left, right)
    return solved[:count] + solved[count], solved[count + 1 :]


def share_leg_offsets(offsets: FloatArray, leapers: BoolArray) -> FloatArray:
    """Offsets ``(K, p)`` in which who never leapt has his own posture, but legs half-way to those of who did.

    A walker's long stride would otherwise make up the whole length of a short leap, which would not leave the ground.
    """
    is_leg = np.array([True] * 3 + [name.endswith(LEG_PARTS) for name in HUMAN.names for _ in range(3)])
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
    spans = np.array([np.diff(jump.knots) for jump in table.jumps])
    spans = np.maximum(np.delete(spans, spans.shape[1] // 2, axis=1), SHORTEST_PIECE_S)
    marks = np.array([compute_event_marks(jump) for jump in table.jumps])
    leaps, shortest = table.at[table.is_leap, 1], float(table.at[:, 1].min())
    return {
        "pieces": _fit_planes(table, np.log(spans)),
        "piece_limits": np.stack([spans.min(axis=0), spans.max(axis=0)]),
        "marks": _fit_planes(table, marks),
        "mark_limits": np.stack([marks[table.is_leap].min(axis=0), marks[table.is_leap].max(axis=0)]),
        "flight_law": _fit_line(table.lengths, leaps, AIRTIME_SLOPE_S),
        "flight_speed": _fit_flight_speed(table),
        "flight_limits": np.array(
            [shortest if table.kind == "standing" else SHORTEST_LEAP_S, MAX_FLIGHT_FACTOR * float(leaps.max())]
        ),
    }


def compute_event_marks(jump: CapturedJump) -> FloatArray:
    """Toe strike and heel off as parts of the take-off stance; toe strike, heel off, toe off of what comes after."""
    rhs, rts, rho, rto, lhs, lts, lho, lto = jump.events
    first, last = max(rto - rhs, 1e-6), max(jump.knots[-1] - lhs, 1e-6)
    parts = [(rts - rhs) / first, (rho - rhs) / first, *((t - lhs) / last for t in (lts, lho, lto))]
    return np.clip(np.array(parts), 0.0, 1.0)


def fit_captured_run_up(table: JumpTable) -> RunUpLaw:
    """The law of the captured leaps' run-ups; with the slope of the thesis where they are too few."""
    speeds = table.numbers("speed_mps")[table.is_leap] / measure_leg_length(table.jumps[0].motion.skeleton)
    return fit_run_up(
        table.lengths, speeds, THESIS_LAWS[table.kind].slope if len(speeds) < MIN_JUMPS_FOR_SLOPE else None
    )


def path_speed(jump: CapturedJump) -> float:
    r"""Mean speed of the root along its path over leg length [1/s], [Glardon2005]_ §III.1.3.2.

    .. math:: \bar s = \frac{1}{(N-1) H} \sum_i \|p_i - p_{i-1}\| / \Delta t

    The source divides by the number of frames, not of steps.
    """
    steps = np.linalg.norm(np.diff(jump.motion.root_positions, axis=0), axis=1)
    return float(steps.mean()) * jump.motion.rate_hz / measure_leg_length(jump.motion.skeleton)


def fit_path_speed(table: JumpTable) -> RunUpLaw:
    """The line of mean path speeds [1/s] by length, from which the thesis has its jump frequency."""
    speeds = np.array([path_speed(jump) for jump in table.jumps])[table.is_leap]
    return fit_run_up(table.lengths, speeds, 1.0 if len(speeds) < MIN_JUMPS_FOR_SLOPE else None)


def _fit_flight_speed(table: JumpTable) -> FloatArray:
    """Constant and slope [1/s] of the speed of flights by length."""
    speeds = table.numbers("flight_mps")[table.is_leap] / measure_leg_length(table.jumps[0].motion.skeleton)
    return _fit_line(table.lengths, speeds, THESIS_LAWS[table.kind].slope if table.kind in THESIS_LAWS else 1.0)


def _fit_line(lengths: FloatArray, values: FloatArray, slope: float) -> FloatArray:
    """Constant and slope ``(2,)`` of values by length; with the slope given where the jumps are too few."""
    if len(lengths) < MIN_JUMPS_FOR_SLOPE:
        return np.array([float(np.mean(values - slope * lengths)), slope])
    return _solve_least_squares(np.stack([np.ones(len(lengths)), lengths], axis=1), values)


def _fit_planes(table: JumpTable, values: FloatArray) -> FloatArray:
    """Constant and slopes by length and airtime ``(3, m)`` of values ``(n, m)``."""
    root = np.sqrt(table.weights)[:, None]
    return _solve_least_squares(np.concatenate([np.ones((len(root), 1)), table.at], axis=1) * root, values * root)


def _solve_least_squares(left: FloatArray, right: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.lstsq(left, right, rcond=None)[0], dtype=np.float64)

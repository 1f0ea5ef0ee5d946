"""Motions of a transition: a gait at constant speed or a jump, placed in the world, with footholds.

Compiled functions interpolate the frames of jumps and blend two poses; the schedule of footholds tells when and where
the feet are down. The jumps of a model are made by kind and length, in metres for legs of any length.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import acos, cos, sin, sqrt
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, UnknownNameError, kernel
from marey.lie.kernels import exp, multiply, quaternion_at, rotate, write_rotation
from marey.locomotion.model.clockwork import NEVER_S
from marey.locomotion.model.jump_model import JumpModel
from marey.locomotion.model.locomotion_model import EFFECTORS, EVENTS, LocomotionModel
from marey.locomotion.model.synthesis import write_effectors
from marey.locomotion.model.walker import GaitWalker, make_body_arrays
from marey.motion.editing import opposite_joints
from marey.skeleton import Skeleton


@kernel
def write_jump_frame(
    rows: FloatArray,
    means: FloatArray,
    opposite: IntArray,
    is_mirrored: bool,
    leg: float,
    phase: float,
    root: FloatArray,
    rotations: FloatArray,
) -> None:
    """Fill ``root`` ``(3,)`` [m] and ``rotations`` ``(J, 4)`` of a jump in its own frame.

    A mirrored jump has left and right exchanged, ``S R S`` with ``S = diag(-1, 1, 1)``.
    """
    # Catmull-Rom between the rows of a clip that runs once, phase 0 to 1; the ends hold.
    last = rows.shape[0] - 1
    place = min(max(phase, 0.0), 1.0) * last
    i = min(int(place), last - 1)
    u = place - i
    row = np.empty(rows.shape[1])
    for c in range(rows.shape[1]):
        start, stop = rows[i, c], rows[i + 1, c]
        before = rows[i - 1, c] if i > 0 else 3.0 * rows[0, c] - 3.0 * rows[1, c] + rows[2, c]
        after = rows[i + 2, c] if i + 2 <= last else 3.0 * stop - 3.0 * start + rows[i - 1, c]
        # Hermite's cubic with the slopes of Catmull-Rom; beyond the ends the parabola through three rows goes on.
        slope, end_slope, rise = 0.5 * (stop - before), 0.5 * (after - start), stop - start
        cubic = slope + end_slope - 2.0 * rise
        row[c] = start + u * (slope + u * (3.0 * rise - 2.0 * slope - end_slope + u * cubic))
    for j in range(rotations.shape[0]):
        k = opposite[j] if is_mirrored else j
        w, x, y, z = multiply(quaternion_at(means, k), exp((row[3 + 3 * k], row[4 + 3 * k], row[5 + 3 * k])))
        write_rotation(rotations[j], (w, x, -y, -z) if is_mirrored else (w, x, y, z))
    root[0], root[1], root[2] = -leg * row[0] if is_mirrored else leg * row[0], leg * row[1], leg * row[2]


@kernel
def transform_to_world(root: FloatArray, rotations: FloatArray, position: FloatArray, heading: float) -> None:
    """Carry a pose from its own ground frame to the point ``(x, z)`` of the world, turned by the heading [rad]."""
    turn = (cos(0.5 * heading), 0.0, sin(0.5 * heading), 0.0)
    x, y, z = rotate(turn, (root[0], root[1], root[2]))
    root[0], root[1], root[2] = position[0] + x, y, position[1] + z
    write_rotation(rotations[0], multiply(turn, quaternion_at(rotations, 0)))


@kernel
def blend_poses_in_place(
    root: FloatArray, rotations: FloatArray, to_root: FloatArray, to: FloatArray, weight: float
) -> None:
    """Move a pose a part of the way to another one: the root straight, every joint along the shorter arc."""
    for c in range(3):
        root[c] += weight * (to_root[c] - root[c])
    for j in range(rotations.shape[0]):
        a, b = quaternion_at(rotations, j), quaternion_at(to, j)
        # SLERP: sin((1 - w) angle) a + sin(w angle) b, over sin(angle), the nearer of b and -b
        cosine = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]
        sign = -1.0 if cosine < 0.0 else 1.0
        sine = sqrt(max(1.0 - cosine * cosine, 0.0))
        first, second = 1.0 - weight, weight
        if sine > 1e-6:  # a straight line is exact to rounding below
            angle = acos(min(abs(cosine), 1.0))
            first, second = sin(first * angle) / sine, sin(second * angle) / sine
        second *= sign
        w, x = first * a[0] + second * b[0], first * a[1] + second * b[1]
        y, z = first * a[2] + second * b[2], first * a[3] + second * b[3]
        norm = sqrt(w * w + x * x + y * y + z * z)
        write_rotation(rotations[j], (w / norm, x / norm, y / norm, z / norm))


RIGHT: Final = 0
LEFT: Final = 1
_NO_MIRROR: Final[IntArray] = np.zeros(0, dtype=np.int64)


class PoseFrame(NamedTuple):
    """Where the root is and how every joint is turned."""

    root: FloatArray  # (3,) [m]
    rotations: FloatArray  # (J, 4) wxyz, the root's first


@dataclass(frozen=True, slots=True, eq=False)
class ConstantGait:
    """Walking or running with frozen parameters, by phase."""

    walker: GaitWalker
    speed: float  # [m/s]
    run: float
    frequency_hz: float
    events: FloatArray  # (8,) unwrapped phases of the foot events, in the order of EVENTS

    def frame(self, phase: float) -> PoseFrame:
        """Pose at any phase, relative to the carriage."""
        return PoseFrame(*self.walker.pose_at(phase, self.speed, self.run, np.zeros(2), 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class JumpClip:
    """A jump of one length for one body: frames between phase 0 and 1, both included, with real translation.

    A mirrored clip takes off with the left foot. Its events keep their order: take-off foot first.
    """

    rows: FloatArray  # (N, D) root position over leg length, then the log of every joint
    means: FloatArray  # (J, 4) wxyz
    leg_length_m: float
    duration_s: float
    events: FloatArray  # (8,) phases: strike, toe strike, heel off, toe off of the take-off foot, then of the other
    opposite: IntArray | None = None  # (J,) joint of the other side, for a mirrored clip

    def frame(self, phase: float) -> PoseFrame:
        """Pose at a phase in the jump's own frame, by Catmull-Rom in log space; the ends hold."""
        root, rotations = np.empty(3), np.empty(self.means.shape)
        mirrored = self.opposite is not None
        order = self.opposite if self.opposite is not None else _NO_MIRROR
        write_jump_frame(self.rows, self.means, order, mirrored, self.leg_length_m, float(phase), root, rotations)
        return PoseFrame(root, rotations)


def place_frame(frame: PoseFrame, position: FloatArray, heading_rad: float) -> PoseFrame:
    """Carry a frame from its own ground frame to the point ``(x, z)`` of the world, turned by the heading."""
    root, rotations = frame.root.copy(), frame.rotations.copy()
    transform_to_world(root, rotations, position, float(heading_rad))
    return PoseFrame(root, rotations)


def blend_frames(a: PoseFrame, b: PoseFrame, weight: float) -> PoseFrame:
    """Part ``weight`` of the way from one frame to another: roots along a line, joints along the shorter arc."""
    root, rotations = a.root.copy(), a.rotations.copy()
    blend_poses_in_place(root, rotations, b.root, b.rotations, float(weight))
    return PoseFrame(root, rotations)


def compute_effectors(skeleton: Skeleton, frame: PoseFrame) -> FloatArray:
    """World positions ``(4, 3)`` [m] of the ankles and toes, in the order of EFFECTORS."""
    out = np.empty((len(EFFECTORS), 3))
    body = make_body_arrays(skeleton, 1.0, froude=True, cubic=True)
    write_effectors(body, 1.0, frame.root, frame.rotations, out)
    return out


def solve_ground_shift(held: FloatArray, moved: FloatArray, heading_rad: float) -> FloatArray:
    """Point ``(x, z)`` at which a unit's frame must stand so that its point ``moved`` (3,) falls on ``held`` (3,)."""
    c, s = cos(heading_rad), sin(heading_rad)
    return np.array([held[0] - c * moved[0] - s * moved[2], held[2] + s * moved[0] - c * moved[2]])


Span = tuple[float, float]
"""Start and stop of a plant [s]; minus infinity for a foot that is down already, plus for one that stays."""
Spans = Mapping[int, Sequence[Span]]
"""Plants of every effector, in time order."""


@dataclass(frozen=True, slots=True, eq=False)
class FootholdSchedule:
    """Foot plants of a plan, ready to be asked at any time since its start."""

    starts_s: FloatArray  # (4, P) plus infinity where there are fewer than P plants
    stops_s: FloatArray  # (4, P)
    places: FloatArray  # (4, P, 3) [m] raw effectors at the starts

    def planted(self, time_s: float) -> BoolArray:
        """Which effectors are down ``(4,)``."""
        return np.any((self.starts_s <= time_s) & (time_s < self.stops_s), axis=1, keepdims=True)[:, 0]

    def events(self, after_s: float, until_s: float) -> tuple[str, ...]:
        """Names of the foot events after one time and not after another, in order."""
        passed: list[tuple[float, str]] = []
        for e, (start, stop) in enumerate(((0, 2), (1, 3), (4, 6), (5, 7))):
            for times, name in ((self.starts_s[e], EVENTS[start]), (self.stops_s[e], EVENTS[stop])):
                passed += [(float(t), name) for t in times if after_s < t <= until_s]
        return tuple(name for _, name in sorted(passed))

    def next_plants(self, time_s: float, now: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Time to the start of the next plant ``(4,)`` [s] and its raw place ``(4, 3)``, ``now`` where none comes."""
        waits = np.where(self.starts_s > time_s, self.starts_s - time_s, np.inf)
        first = waits.argmin(axis=1)
        rows = np.arange(len(EFFECTORS))
        until = waits[rows, first]
        is_coming = np.isfinite(until)
        return np.where(is_coming, until, NEVER_S), np.where(is_coming[:, None], self.places[rows, first], now)


def schedule_footholds(skeleton: Skeleton, frame: Callable[[float], PoseFrame], spans: Spans) -> FootholdSchedule:
    """Table the plants of a plan whose raw pose at any time is ``frame``."""
    most = max(len(spans[e]) for e in range(len(EFFECTORS)))
    starts, stops = np.full((len(EFFECTORS), most), np.inf), np.full((len(EFFECTORS), most), np.inf)
    places = np.zeros((len(EFFECTORS), most, 3))
    for e in range(len(EFFECTORS)):
        for i, (start, stop) in enumerate(spans[e]):
            starts[e, i], stops[e, i] = start, stop
            if np.isfinite(start):
                places[e, i] = compute_effectors(skeleton, frame(start))[e]
    return FootholdSchedule(starts, stops, places)


MAX_CACHED_CLIPS: Final = 32  # clips; one takes some milliseconds to make

_Key = tuple[str, float, float, float | None, int, bytes]


class ModelJumps:
    """Jumps of a locomotion model, in metres for legs of any length; the last ones made are kept."""

    def __init__(self, model: LocomotionModel, scaling: str = "froude") -> None:
        self._model, self._scaling = model, scaling
        self._kept: OrderedDict[_Key, JumpClip] = OrderedDict()
        self._opposite = opposite_joints(model.skeleton)[0]
        self._body: tuple[float, Skeleton] | None = None

    def _model_of(self, kind: str) -> JumpModel:
        if kind not in self._model.jumps:
            raise UnknownNameError("kind of jump", kind, "this model", tuple(self._model.jumps))
        return self._model.jumps[kind]

    def limits_m(self, kind: str, leg_length_m: float) -> tuple[float, float]:
        """Shortest and longest jump of a kind [m]."""
        low, high = self._model_of(kind).limits
        return float(low) * leg_length_m, float(high) * leg_length_m

    def run_up(self, kind: str, length_m: float, leg_length_m: float) -> tuple[float, float]:
        """Speed of the approach and its tolerance [m/s]."""
        law, scale = self._model_of(kind).run_up, self._speed_scale(leg_length_m)
        return law.speed(length_m / leg_length_m) * scale, law.tolerance * scale

    def length_for(self, kind: str, speed: float, leg_length_m: float) -> float:
        """Length [m] of the jump whose approach has this speed [m/s]."""
        return self._model_of(kind).run_up.length(speed / self._speed_scale(leg_length_m)) * leg_length_m

    def _speed_scale(self, leg_length_m: float) -> float:
        own = self._model.leg_length_m
        return sqrt(leg_length_m * own) if self._scaling == "froude" else leg_length_m

    def clip(
        self, kind: str, length_m: float, leg_length_m: float, weights: FloatArray, *, height_m: float | None, side: int
    ) -> JumpClip:
        """The jump itself; mirrored for a take-off with the left foot.

        ``weights`` ``(K,)`` are of the model's styles; styles that never jumped are left out.
        """
        key = (kind, length_m, leg_length_m, height_m, side, np.asarray(weights).tobytes())
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        leg, height_n = leg_length_m, None if height_m is None else height_m / leg_length_m
        mixture = {name: float(w) for name, w in zip(self._model.styles, weights, strict=True)}
        model = self._model_of(kind)
        unit = model.unit(length_m / leg, mixture, height_n=height_n, leg_length_m=leg, scaling=self._scaling)
        opposite = self._opposite if side == LEFT else None
        clip = JumpClip(unit.rows, model.means, leg, unit.duration_s, unit.events, opposite)
        self._kept[key] = clip
        while len(self._kept) > MAX_CACHED_CLIPS:
            self._kept.popitem(last=False)
        return clip

    def rest_heights_m(self, leg_length_m: float) -> FloatArray:
        """Heights ``(4,)`` [m] of the effectors of a foot that stands flat."""
        return self._model.rest_heights * leg_length_m

    def skeleton_for(self, leg_length_m: float) -> Skeleton:
        """The body with legs of this length."""
        if self._body is None or self._body[0] != leg_length_m:
            self._body = leg_length_m, self._model.skeleton_for(leg_length_m)
        return self._body[1]

"""Which pairs of phases may be blended, told before blending them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.blending._phases import MotionPhase
from marey.blending._report import LEVEL_JUMP_MPS, end_velocity
from marey.blending._rules import blend_duration
from marey.blending._sources import UP
from marey.dynamics import Body
from marey.lie import SO3

TURN_RAD: Final = float(np.deg2rad(30.0))  # turns in flight that differ by less blend well
TILT_RAD: Final = float(np.deg2rad(30.0))  # a body that tilts by less does not visibly rotate
AXIS_RAD: Final = float(np.deg2rad(20.0))  # axes of two tumbles nearer than this are the same
MAX_TILT_RATIO: Final = 0.3  # [-] and their angles may differ by this part
MAX_DURATION_RATIO: Final = 3.0  # [-] of durations: beyond it even the blended squares look wrong


@dataclass(frozen=True, slots=True)
class BlendPrediction:
    """Whether a pair may be blended, and why not."""

    is_valid: bool
    reasons: tuple[str, ...] = ()


def predict_validity(
    first: MotionPhase, second: MotionPhase, weight: float = 0.5, body: Body | None = None
) -> BlendPrediction:
    """Tell whether a blend will look right, from the sources alone ([Safonova2006]_ §5.5).

    Safe are phases without flight, flights without visible rotation, and flights that rotate about the same axis by
    about the same amount. Turns about the vertical may differ if the landing is so steep that realigning leaves no
    visible jump of velocity.

    Args:
        first: a phase.
        second: another of the same skeleton.
        weight: of the first.
        body: of the first by default.
    """
    if first.planted != second.planted:
        return BlendPrediction(False, (f"other contacts: {first.planted} and {second.planted}",))
    reasons: list[str] = []
    ratio = max(first.duration_s, second.duration_s) / min(first.duration_s, second.duration_s)
    if ratio > MAX_DURATION_RATIO:
        reasons.append(f"one lasts {ratio:.1f} times as long as the other")
    if first.kind == "flight":
        body = Body.from_motion(first.motion) if body is None else body
        reasons += _flight_faults(first, second, weight, body)
    return BlendPrediction(not reasons, tuple(reasons))


def _flight_faults(first: MotionPhase, second: MotionPhase, weight: float, body: Body) -> list[str]:
    reasons: list[str] = []
    turns = [measure_flight_turn(phase) for phase in (first, second)]
    apart = abs(turns[0] - turns[1])
    if apart > TURN_RAD:
        jump = predict_landing_jump((first, second), np.array(turns), np.array([weight, 1.0 - weight]), body)
        if jump > LEVEL_JUMP_MPS:
            degrees = np.rad2deg(apart)
            reasons.append(f"turns differ by {degrees:.0f} degrees and the landing would jump by {jump:.1f} m/s")
    tilts = [measure_flight_tilt(phase) for phase in (first, second)]
    sizes = [float(np.linalg.norm(tilt)) for tilt in tilts]
    if max(sizes) > TILT_RAD and not _is_same_axis(tilts, sizes):
        reasons.append(f"the bodies tumble by {np.rad2deg(sizes[0]):.0f} and {np.rad2deg(sizes[1]):.0f} degrees")
    return reasons


def measure_flight_turn(phase: MotionPhase) -> float:
    """By how much the root turns about the vertical during a phase [rad]; a full turn counts."""
    yaw = np.unwrap(phase.motion.rotations[:, 0].twist_angle(UP))
    return float(yaw[-1] - yaw[0])


def measure_flight_tilt(phase: MotionPhase) -> FloatArray:
    """Largest tilt of the root away from where it was at the start ``(3,)`` [rad], a rotation vector in its heading."""
    yaw = np.unwrap(phase.motion.rotations[:, 0].twist_angle(UP))
    upright = SO3.exp(-yaw[:, None] * UP) @ phase.motion.rotations[:, 0]
    away = (upright @ upright[0].inverse()).log()
    return away[int(np.argmax(np.linalg.norm(away, axis=1)))]


def predict_landing_jump(
    phases: tuple[MotionPhase, MotionPhase], turns: FloatArray, weights: FloatArray, body: Body
) -> float:
    """Level jump of velocity [m/s] at landing after realigning two flights that turn differently."""
    velocities = np.stack([end_velocity(phase, body, -1) for phase in phases])
    spans = np.array([phase.duration_s for phase in phases])
    scale = weights * spans / blend_duration(spans, weights)
    goal = float(weights @ turns)
    turned = np.stack([SO3.exp((goal - t) * UP) @ v for t, v in zip(turns, velocities, strict=True)])
    jump = scale @ (turned - velocities)
    return float(np.hypot(jump[0], jump[2]))


def _is_same_axis(tilts: list[FloatArray], sizes: list[float]) -> bool:
    if min(sizes) < 1e-6:
        return False
    cosine = float(tilts[0] @ tilts[1]) / (sizes[0] * sizes[1])
    return cosine > np.cos(AXIS_RAD) and abs(sizes[0] - sizes[1]) <= MAX_TILT_RATIO * max(sizes)

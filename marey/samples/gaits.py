"""Synthetic clips: a walk, a run and a jump made of laws, not of captured data.

They obey what can be written down: planted feet do not slide, the centre of mass falls with gravity in
flight, and steps follow measured laws of cadence. They do not replace captured motion.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from marey.base import FloatArray, InputError
from marey.lie import SO3
from marey.motion import Motion, centre_of_mass
from marey.samples.figure import BodyTargets, FootShape, FootTrack, StanceRoll, StanceStep, pose_body, track_foot
from marey.skeleton import Skeleton, human

GRAVITY = 9.81  # [m/s²]
RATE_HZ = 60.0
CYCLE_POINTS = 256  # of a cycle in which the centre of mass is solved
SIDES = ("left", "right")
PRESSURE_FROM = 0.3  # [-] of the heel, where pressure is when the other foot has left
PRESSURE_TO = 1.0  # [-] of the toes, where it is when the other foot lands


@dataclass(frozen=True, slots=True)
class _SteadyGait:
    """When and where the feet of a straight gait land; the right foot lands at time zero."""

    speed_mps: float
    stride_s: float
    duty: float  # [-] stance, part of a cycle
    half_width: float  # [-] of the rest pose's distance between ankles
    behind_m: float  # [m] middle of the ankle's stance behind the centre of mass


@lru_cache(maxsize=32)  # a Motion cannot be changed, so callers may share it
def walk(speed_mps: float = 1.3, *, seconds: float = 4.0, stature_m: float = 1.75, rate_hz: float = RATE_HZ) -> Motion:
    r"""A straight walk at constant speed, by law.

    Stride frequency is :math:`0.776\,s_n^{0.425}` Hz with :math:`s_n` the speed over leg length
    ([Glardon2005]_ III.1.3, fitted to overground captures); stance is 62 % of a cycle [Winter2009]_. The centre of mass
    goes where the feet can press [Kajita2003]_, so the physics report is green up to 1.5 m/s.

    Args:
        speed_mps: between 0.4 and 2.2 m/s; above that people run.
        seconds: length of the clip.
        stature_m: body height.
        rate_hz: frames per second.
    """
    _check_range(speed_mps, 0.4, 2.2, "speed_mps of a walk")
    skeleton = human(stature_m)
    leg = _leg_length(skeleton)
    stride_s = 1.0 / (0.776 * (speed_mps / leg) ** 0.425)
    times = np.arange(round(seconds * rate_hz)) / rate_hz
    pace = speed_mps / 1.3
    roll = StanceRoll(strike_rad=-0.32 * pace, leave_rad=0.55 + 0.4 * pace)
    gait = _SteadyGait(speed_mps, stride_s, duty=0.62, half_width=0.6, behind_m=0.10)
    feet = _plan_feet(skeleton, times, gait, roll, clearance_m=0.03)
    phase, cycle = 2.0 * np.pi * times / stride_s, 2.0 * np.pi * np.arange(CYCLE_POINTS) / CYCLE_POINTS
    # The centre of mass bobs twice a cycle, lowest in double support; less in haste, or its feet would have to pull
    height = _standing_com(skeleton) - (0.016 + 0.022 * pace) * leg
    bob, bob_cycle = (-0.5 * (0.05 * min(pace, pace**-2) * leg) * np.cos(2.0 * angle - 0.9) for angle in (phase, cycle))
    sway, progress = _follow_pressure(skeleton, times, gait, height + bob_cycle)
    com = np.stack([sway, height + bob, progress], axis=1)
    targets = _plan_arm_swing(
        com, feet, phase, arm=0.36 * pace, elbow=(0.25, 0.2), yaw=-0.09 * pace, roll=0.06, lean=0.05
    )
    return pose_body(skeleton, rate_hz, targets, name="walk")


@lru_cache(maxsize=32)  # a Motion cannot be changed, so callers may share it
def run(speed_mps: float = 3.0, *, seconds: float = 3.0, stature_m: float = 1.75, rate_hz: float = RATE_HZ) -> Motion:
    r"""A straight run at constant speed: spring-like stance, ballistic flight.

    Stride frequency is :math:`1.03 + 0.127\,s_n` Hz ([Glardon2005]_ III.1.3, fitted to captures). The vertical
    force over a stance of length :math:`T_s` is a half sine whose impulse carries the weight over a step
    :math:`T`: :math:`\ddot y = -g + \frac{\pi g T}{2 T_s}\sin(\pi t/T_s)`.

    Args:
        speed_mps: between 2 and 5 m/s.
        seconds: length of the clip.
        stature_m: body height.
        rate_hz: frames per second.
    """
    _check_range(speed_mps, 2.0, 5.0, "speed_mps of a run")
    skeleton = human(stature_m)
    leg = _leg_length(skeleton)
    stride_s = 1.0 / (1.03 + 0.127 * speed_mps / leg)
    duty = float(np.clip(0.44 - 0.035 * speed_mps, 0.26, 0.38))
    times = np.arange(round(seconds * rate_hz)) / rate_hz
    roll = StanceRoll(strike_rad=-0.12, flat_from=0.2, lift_from=0.38, leave_rad=1.15)
    gait = _SteadyGait(speed_mps, stride_s, duty, half_width=0.3, behind_m=0.10)
    feet = _plan_feet(skeleton, times, gait, roll, clearance_m=0.18)
    phase = 2.0 * np.pi * times / stride_s
    stance_s, step_s = duty * stride_s, 0.5 * stride_s
    com = np.zeros((len(times), 3))
    # Height over one step: the law above in stance, a parabola in flight
    t, w = times % step_s, np.pi / stance_s
    lift = np.pi * GRAVITY * step_s / (2.0 * stance_s)
    start = -0.5 * GRAVITY * (step_s - stance_s)  # falling speed at landing
    stance = start * t - 0.5 * GRAVITY * t**2 + lift / w * t - lift / w**2 * np.sin(w * t)
    s = t - stance_s
    bounce = np.where(t < stance_s, stance, -start * s - 0.5 * GRAVITY * s**2)
    com[:, 1] = _standing_com(skeleton) - 0.02 * leg + bounce
    com[:, 2] = speed_mps * times
    targets = _plan_arm_swing(com, feet, phase, arm=0.7, elbow=(1.5, 0.25), yaw=-0.16, roll=0.05, lean=0.14)
    return pose_body(skeleton, rate_hz, targets, name="run")


@lru_cache(maxsize=32)  # a Motion cannot be changed, so callers may share it
def jump(length_m: float = 1.2, *, stature_m: float = 1.75, rate_hz: float = RATE_HZ) -> Motion:
    """A two-foot jump from standing to standing, ``length_m`` forward.

    The centre of mass flies on a parabola; before and after it moves on quintic curves that match the flight
    in position, velocity and acceleration, so that no force is asked for in the air.

    Args:
        length_m: distance between the planted feet, from 0 to 2 m.
        stature_m: body height.
        rate_hz: frames per second.
    """
    _check_range(length_m, 0.0, 2.0, "length_m of a jump")
    skeleton = human(stature_m)
    flight_s = 0.36 + 0.09 * length_m
    marks = np.cumsum([0.35, 0.55, 0.27, flight_s, 0.22, 0.65, 0.3])  # ends of the seven parts [s]
    times = np.arange(round(float(marks[-1]) * rate_hz) + 1) / rate_hz
    leave = StanceRoll(strike_rad=0.0, flat_from=0.1, lift_from=0.86, leave_rad=0.75)
    land = StanceRoll(strike_rad=-0.18, flat_from=0.05, lift_from=0.97, leave_rad=0.0)
    feet: dict[str, FootTrack] = {}
    for side in ("left", "right"):
        shape = FootShape.from_skeleton(skeleton, side)
        x = skeleton.rest_positions()[skeleton.index(f"{side}_ankle"), 0] * 1.25
        steps = [StanceStep(0.0, marks[2], x, 0.0, leave), StanceStep(marks[3], marks[6] + 1.0, x, length_m, land)]
        feet[side] = track_foot(times, steps, shape, clearance_m=0.10 + 0.08 * length_m)
    high, flight_s_leap = 0.99 * _standing_com(skeleton), float(marks[3] - marks[2])
    rise_mps = 0.5 * GRAVITY * flight_s_leap - 0.10 / flight_s_leap * high  # lands a tenth of its height lower
    take, landing = 0.22 * min(1.0, length_m) + 0.03, length_m - 0.16 * min(1.0, length_m)
    forward_mps = (landing - take) / flight_s_leap
    stand = (high, 0.0, 0.0)
    leave_leap, land_leap = (
        (1.06 * high, rise_mps, -GRAVITY),
        (0.96 * high, rise_mps - GRAVITY * flight_s_leap, -GRAVITY),
    )
    keys_y = [stand, stand, (0.74 * high, 0.0, 0.0), leave_leap, land_leap, (0.72 * high, 0.0, 4.0), stand, stand]
    before, after = (0.03, 0.0, 0.0), (length_m + 0.03, 0.0, 0.0)
    over = [(0.05, 0.1, 0.0), (take, forward_mps, 0.0), (landing, forward_mps, 0.0), (length_m - 0.01, 0.15, 0.0)]
    keys_z = [before, before, *over, after, after]
    knots = np.concatenate([[0.0], marks])
    com = np.stack([np.zeros_like(times), _quintics(times, knots, keys_y), _quintics(times, knots, keys_z)], axis=1)
    arm = _interpolate_monotone(times, knots, [0.0, 0.0, -0.9, 2.3, 0.9, 0.4, 0.0, 0.0])
    bend = _interpolate_monotone(times, knots, [0.2, 0.2, 0.35, 0.3, 0.5, 0.7, 0.2, 0.2])
    lean = _interpolate_monotone(times, knots, [0.0, 0.0, 0.75, 0.12, 0.45, 0.7, 0.0, 0.0])
    still = np.zeros_like(times)
    both = {"left": arm, "right": arm}
    targets = BodyTargets(com, feet, still, still, lean, both, 0.16, {"left": bend, "right": bend})
    return pose_body(skeleton, rate_hz, targets, name="jump")


def _plan_feet(
    skeleton: Skeleton, times: FloatArray, gait: _SteadyGait, roll: StanceRoll, *, clearance_m: float
) -> dict[str, FootTrack]:
    """Steps of a steady gait: the right foot lands at phase 0, the left half a cycle later."""
    tracks: dict[str, FootTrack] = {}
    stance_s = gait.duty * gait.stride_s
    for side, shift in (("left", 0.5), ("right", 0.0)):
        x = gait.half_width * skeleton.rest_positions()[skeleton.index(f"{side}_ankle"), 0]
        first = -1 if side == "right" else -2
        lands = [(n + shift) * gait.stride_s for n in range(first, int(times[-1] / gait.stride_s) + 3)]
        places = [gait.speed_mps * (t + 0.5 * stance_s) - gait.behind_m for t in lands]
        steps = [StanceStep(t, t + stance_s, x, z, roll) for t, z in zip(lands, places, strict=True)]
        tracks[side] = track_foot(times, steps, FootShape.from_skeleton(skeleton, side), clearance_m)
    return tracks


def _follow_pressure(
    skeleton: Skeleton, times: FloatArray, gait: _SteadyGait, height_m: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Sway and progress ``(F,)`` [m] of the centre of mass whose centre of pressure stays in the feet.

    Forces that meet in the centre of mass at height :math:`h` over the pressure :math:`p` ask for

    .. math:: \ddot x = \frac{g + \ddot h}{h}\,(x - p)

    (the cart-table model [Kajita2003]_, with a height that changes). The pressure rolls from heel to ball of the foot
    that carries alone, and goes over to the other foot while both stand. One cycle is solved as a periodic system of
    central differences.

    Args:
        skeleton: whose feet they are.
        times: ``(F,)`` [s] of the clip.
        gait: when and where feet land.
        height_m: ``(N,)`` [m] of the centre of mass, at even parts of a cycle from the landing of the right foot.
    """
    from scipy.interpolate import CubicSpline

    count, stride_s = len(height_m), gait.stride_s
    part, h = np.arange(count) / count, stride_s / count
    x = {side: gait.half_width * skeleton.rest_positions()[skeleton.index(f"{side}_ankle"), 0] for side in SIDES}
    # Pressure over one cycle, relative to a point that goes at the speed of the gait; the right foot lands at 0
    shape, step = FootShape.from_skeleton(skeleton, "right"), 0.5 * gait.speed_mps * stride_s
    middle = 0.5 * gait.speed_mps * gait.duty * stride_s - gait.behind_m  # where a foot stands that lands at 0
    heel, ball = middle + PRESSURE_FROM * shape.heel[2], middle + shape.ball[2] + PRESSURE_TO * shape.tip[2]
    alone = gait.duty - 0.5  # part of a cycle after which the foot that landed carries alone, up to the half
    knots = np.array([alone, 0.5, 0.5 + alone, 1.0])
    along = np.array([heel, ball, step + heel, step + ball]) - gait.speed_mps * stride_s * knots
    aside = np.array([x["right"], x["right"], x["left"], x["left"]])
    pressure = np.stack([np.interp(part, knots, values, period=1.0) for values in (aside, along)], axis=1)
    # (D - k) x = -k p, D the second difference of a cycle
    unit = np.eye(count)
    second = (np.roll(unit, 1, axis=1) + np.roll(unit, -1, axis=1) - 2.0 * unit) / h**2
    k = (GRAVITY + second @ height_m) / height_m
    cycle = np.linalg.solve(second - np.diag(k), -k[:, None] * pressure)
    closed = CubicSpline(np.append(part, 1.0), np.vstack([cycle, cycle[:1]]), bc_type="periodic")
    sway, lead = closed(times / stride_s % 1.0).T
    return sway, gait.speed_mps * times + lead


def _plan_arm_swing(
    com: FloatArray,
    feet: dict[str, FootTrack],
    phase: FloatArray,
    *,
    arm: float,
    elbow: tuple[float, float],
    yaw: float,
    roll: float,
    lean: float,
) -> BodyTargets:
    """Arms against legs, shoulders against hips; the right foot lands at phase 0."""
    right = -arm * np.cos(phase) - 0.1 * arm
    left = arm * np.cos(phase) - 0.1 * arm
    rest, more = elbow
    elbows = {"left": rest + more * np.cos(phase), "right": rest - more * np.cos(phase)}
    tilt = -roll * np.sin(phase)
    flexion = {"left": left, "right": right}
    return BodyTargets(com, feet, -yaw * np.cos(phase), tilt, np.full_like(phase, lean), flexion, 0.14, elbows)


def _quintics(times: FloatArray, knots: FloatArray, keys: list[tuple[float, float, float]]) -> FloatArray:
    """Piecewise quintic through (position, velocity, acceleration) at the knots."""
    from scipy.interpolate import BPoly

    curve = BPoly.from_derivatives(knots, keys)  # pyright: ignore[reportUnknownMemberType]  # scipy has no types
    return np.asarray(curve(np.minimum(times, knots[-1])), dtype=np.float64)


def _interpolate_monotone(times: FloatArray, knots: FloatArray, values: list[float]) -> FloatArray:
    """Monotone cubic through values at the knots."""
    from scipy.interpolate import PchipInterpolator

    return np.asarray(PchipInterpolator(knots, values)(np.minimum(times, knots[-1])), dtype=np.float64)


def _leg_length(skeleton: Skeleton) -> float:
    bones = skeleton.offsets[[skeleton.index("left_knee"), skeleton.index("left_ankle")]]
    return float(np.linalg.norm(bones, axis=1).sum())


def _standing_com(skeleton: Skeleton) -> float:
    """Height of the centre of mass [m] with straight legs and arms that hang."""
    local = SO3.identity(1, skeleton.num_joints).wxyz.copy()
    for side, sign in (("left", -1.0), ("right", 1.0)):
        local[0, skeleton.index(f"{side}_shoulder")] = SO3.exp([0.0, 0.0, sign * 1.4]).wxyz
    return float(centre_of_mass(Motion(skeleton, 1.0, skeleton.offsets[:1], SO3(local)))[0, 1])


def _check_range(value: float, low: float, high: float, what: str) -> None:
    if not low <= value <= high:
        raise InputError(f"{what} is {value}", f"It must be between {low} and {high}")

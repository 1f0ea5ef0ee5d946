"""Could a body have made this motion? The aggregate wrench of each frame against what its contacts can give.

A body on one foot moves as gravity tips it; a clip that is played too fast moves harder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.dynamics.bodies import GRAVITY, Body
from marey.dynamics.contact_cones import LEVER_M, fit_moving_cones, shift_wrench
from marey.dynamics.inverse.newton_euler import InverseDynamics, check_argument_types, solve_body_wrench
from marey.dynamics.inverse.support_split import compute_centre_of_pressure, split_limbs
from marey.dynamics.supports import (
    FOOT_SLACK_M,
    Floor,
    Supports,
    any_in_row,
    compute_polygon_margins,
    find_supports,
    widen_flags,
)
from marey.dynamics.validation.report import CAUSES, LEAST_FLIGHT_S, ValidityReport, find_spans
from marey.measure import Fault, measure_motion
from marey.motion import Contacts, Motion, find_runs
from marey.skeleton import Skeleton, leg_length, role_map

if TYPE_CHECKING:
    from marey.kinematics import JointLimits


TIPPING_WINDOW_S: Final = 1.2  # [s] standard deviation: a stride or two on both sides; a single stop is hasty too
MIN_ARM_M: Final = 0.08  # [m] below this mean offset from its foot a body gives no information
MIN_SHARE: Final = 0.2  # of the window on one foot
MIN_COSINE: Final = 0.4  # [-] between tipping by gravity and acceleration; below it, not a pendulum
MIN_NORMAL: Final = 0.2  # [body weights] force below which the centre of pressure is undefined


def compute_tipping_ratio(dynamics: InverseDynamics, supports: Supports, places: FloatArray) -> FloatArray:
    r"""Horizontal acceleration over the tipping effect of gravity on one foot ``(F,)``; zero where undefined.

    With :math:`u` from the middle of the foot to the centre of mass and :math:`w` from the centre of pressure that the
    motion needs to the centre of mass, both level, it is :math:`\sum u\cdot w/\sum u\cdot u` over the frames on one
    foot within a few strides. A walker's pressure rolls forward under the foot, so :math:`w` is shorter: captured
    walks have 0.5 to 0.75, runs 0.8 to 1.1. Accelerations grow with the square of the speed of play, so more than
    that asks the pressure to run backwards under a body that goes forward: the clip is too fast.

    Args:
        dynamics: of the clip.
        supports: of the clip.
        places: centre of pressure ``(F, 3)`` [m].
    """
    # Frames on the left foot only and on the right foot only, with some weight on it
    left, right, *hands = (supports.limb_active(limb, slack=False) for limb in range(4))
    free = ~np.any(hands, axis=0) & (dynamics.forces[:, 1] > MIN_NORMAL * dynamics.body.mass_kg * GRAVITY)
    alone = left & ~right & free, right & ~left & free
    # Sums of u.u, u.w and w.w
    total = np.zeros((3, dynamics.num_frames))
    for limb, used in enumerate(alone):
        corners = supports.points[:, supports.limbs == limb]
        if not (used.any() and corners.shape[1]):
            continue
        arm = (dynamics.com - corners.mean(axis=1))[:, [0, 2]]
        needed = (dynamics.com - places)[:, [0, 2]]
        sums = np.stack([(arm * arm).sum(axis=1), (arm * needed).sum(axis=1), (needed * needed).sum(axis=1)])
        total += np.where(used, sums, 0.0)
    share = np.any(alone, axis=0).astype(np.float64)
    # Rows `(K, F)` averaged over a Gaussian window that is cut at the ends of the clip
    rows = np.concatenate([total, share[None]])
    rate_hz = dynamics.rate_hz
    half = min(int(np.ceil(3.0 * TIPPING_WINDOW_S * rate_hz)), rows.shape[1] - 1)
    window = np.exp(-0.5 * (np.arange(-half, half + 1) / (TIPPING_WINDOW_S * rate_hz)) ** 2)
    length = rows.shape[1] + 2 * half
    spectrum = np.fft.rfft(window, length)
    inside = np.fft.irfft(np.fft.rfft(np.ones(rows.shape[1]), length) * spectrum, length)[half : half + rows.shape[1]]
    means = np.fft.irfft(np.fft.rfft(rows, length, axis=1) * spectrum, length, axis=1)
    means = np.maximum(means[:, half : half + rows.shape[1]] / np.maximum(inside, 1e-9), 0.0)
    # The ratio where the window has enough frames on one foot, far enough from it, that behave like a pendulum
    arms, products, needs, part = means
    tells = (part > MIN_SHARE) & (arms > MIN_ARM_M**2 * part)
    tells &= products > MIN_COSINE * np.sqrt(arms * needs)
    return np.where(tells, products / np.where(tells, arms, 1.0), 0.0)


# Noise of a capture changes sign from frame to frame, a force that is really missing lasts. So what is missing counts
# twice: its mean over a fifth of a second, and at half its size the frame by itself. Numbers chosen on walks of CMU
# subjects 02, 07, 16, 35 and 69 and their copies at 1.5 times the speed, with runs and jumps in view; of three weights
# the one was taken that also suits 31 walks of other subjects, so expect somewhat worse on new ones.
SLIP_MARGIN: Final = 0.025  # [body weights] of friction lacking that is called a slip
LASTING_S: Final = 0.08  # [s] standard deviation of the window of that mean
LASTING_WEIGHT: Final = 2.5
MOMENT_WEIGHT: Final = 0.5
FLIGHT_NEAR_S: Final = 1.0  # [s] within this of a flight a body is said to run
GRIP_MOMENT_M: Final = 0.05  # [m] moment over body weight that a hand holds about each axis
GRIP_ROUNDS: Final = 4  # of sharing between forces of hands and moments of hands
LOW_NORMAL: Final = 0.2  # [body weights] below this the centre of pressure means little
MIN_FLIGHT_S: Final = 0.08  # [s] shorter gaps between contacts are not called a flight


@dataclass(frozen=True, slots=True, eq=False)
class ContactSupply:
    """Wrench supplied by contacts, and the demand of the motion; moments about the centre of mass."""

    needed: FloatArray  # (F, 6) [body weights, moments over LEVER_M]
    given: FloatArray  # (F, 6) nearest that the contacts can give
    corner_forces: FloatArray  # (F, P, 3) [body weights]

    @property
    def missing(self) -> FloatArray:
        """Missing wrench ``(F, 6)``."""
        return self.needed - self.given


def fit_contact_supply(dynamics: InverseDynamics, supports: Supports) -> ContactSupply:
    """Find the nearest wrench that the supports can give, for every frame.

    Hands that hold on take any force, and a moment of up to ``GRIP_MOMENT_M`` body weights about each axis.
    """
    weight = dynamics.body.mass_kg * GRAVITY
    moments = dynamics.moments / LEVER_M
    needed = np.ascontiguousarray(np.concatenate([dynamics.forces, moments], axis=1) / weight)
    arms = np.ascontiguousarray(supports.points - dynamics.com[:, None])
    held = np.zeros_like(needed)
    bound = GRIP_MOMENT_M / LEVER_M * any_in_row(supports.grips)[:, None]
    given, forces = needed, np.zeros_like(arms)
    for _ in range(GRIP_ROUNDS if supports.grips.any() else 1):
        given, forces = fit_moving_cones(needed - held, arms, supports.active, supports.grips, supports.edges, LEVER_M)
        held[:, 3:] = np.clip((needed - given)[:, 3:], -bound, bound)
    return ContactSupply(needed, given + held, forces)


def average_gaussian(values: FloatArray, rate_hz: float, window_s: float) -> FloatArray:
    """Mean of values ``(F, ...)`` over a Gaussian window of this standard deviation, the clip mirrored at its ends."""
    half = min(int(np.ceil(3.0 * window_s * rate_hz)), len(values) - 1)
    if half < 1:
        return values
    window = np.exp(-0.5 * (np.arange(-half, half + 1) / (window_s * rate_hz)) ** 2)
    window /= window.sum()
    columns = values.reshape(len(values), -1)
    longer = np.concatenate([columns[half:0:-1], columns, columns[-2 : -half - 2 : -1]])
    means = [cast(FloatArray, np.convolve(longer[:, k], window, mode="valid")) for k in range(columns.shape[1])]
    return np.stack(means, axis=1).reshape(values.shape)


def compute_momentum_drift(dynamics: InverseDynamics, supports: Supports) -> FloatArray:
    """How far the angular momentum about the centre of mass is off its mean in each flight ``(F,)`` [kg m²/s].

    The timing slack of the contacts is left out; on the ground it is zero.
    """
    drift = np.zeros(dynamics.num_frames)
    for start, stop in find_flights(supports.active, dynamics.rate_hz):
        momentum = dynamics.angular_momentum[start:stop]
        drift[start:stop] = np.linalg.norm(momentum - momentum.mean(axis=0), axis=-1)
    return drift


def find_flights(active: BoolArray, rate_hz: float, least_s: float = MIN_FLIGHT_S) -> list[tuple[int, int]]:
    """Begin and end (exclusive) of every stretch without support ``(F, P)`` that is long enough to be a flight."""
    return [(a, b) for a, b in find_runs(~any_in_row(active)) if (b - a) >= least_s * rate_hz]


TOLERANCE: Final = 0.05  # [body weights] ([Fang2003]_ F26)
RED_FACTOR: Final = 1.5  # amber up to this many tolerances
# Forces are averaged over a Gaussian window. An average with positive weights of forces that contacts give is one that
# the contacts of the whole window can give (cones are convex), which no ringing filter can promise; so the low-pass
# before the differences only takes the worst of the noise, and contacts last longer by the width of the window.
CUTOFF_HZ: Final = 12.0
WINDOW_S: Final = 0.04  # [s] standard deviation
DETECTED_SLACK_S: Final = 0.03  # [s] detected contacts begin and end this precisely (two frames at 60 Hz)
STENCIL_FRAMES: Final = 2.0  # a force that begins suddenly is felt this many frames off by five-point differences
SLIDE_MM: Final = (30.0, 60.0)  # [mm in 0.1 s] amber and red: planted feet of clean walks reach 30
PENETRATION_MM: Final = (50.0, 100.0)  # [mm] amber and red: heels of clean walks reach 45, as soles are guessed
LIMIT_RAD: Final = (0.1, 0.5)  # [rad] amber and red
WALKING_TIPPING_RATIO: Final = 1.0  # [-] beyond it pressure runs backwards under the foot; walks have 0.5 to 0.9
RUNNING_TIPPING_RATIO: Final = 1.15  # [-] captured runs have 0.8 to 1.1
FAULT_CAUSES: Final = {
    "gravity": "gravity", "jump": "jump", "slide": "skate", "float": "float", "flip": "flip", "pop": "flip",
    "backwards": "backwards",
}  # fmt: skip
LEAST_SIZE: Final = {
    "pop": 40.0,
    "float": 0.08,
}  # [deg], [m] captures with lost markers jerk by 30, floors lie 7 cm off
# Median velocity of the soles of a runner over the stances of a clip; of 32 captured runs of the index two go farther
DRIFT_AHEAD_MPS: Final = 0.145  # of the slowest part of each sole; captured to 0.13
DRIFT_BACK_MPS: Final = 0.06  # captured to 0.00: a sole rolls forwards
DRIFT_ASIDE_MPS: Final = 0.11  # of the part that stands longest; captured to 0.09
DRIFT_SPAN_S: Final = 0.01  # [s] before and after a frame, over which a velocity is taken
MIN_STANCES: Final = 2
MIN_STANCE_FRAMES: Final = 3
SIZE_TOL: Final = 0.02  # [-] of the leg length; a body and a clip that differ by more are treated as different people
TIPPING_LIMITS: Final = (1.0, 1.1)  # [-] amber and red, over the two above


def check_validity(
    motion: Motion,
    body: Body | None = None,
    *,
    contacts: Contacts | None = None,
    friction: float = 0.8,
    tolerance: float = TOLERANCE,
    floor: Floor = "flat",
    cutoff_hz: float | None = CUTOFF_HZ,
    window_s: float | None = None,
    slack_s: float | None = None,
    limits: JointLimits | None = None,
    gravity: float = GRAVITY,
) -> ValidityReport:
    r"""Classify the frames of a motion as valid or not, with the causes ([Fang2003]_ §4.2, F26).

    The six numbers of the aggregate wrench :math:`f_0` must lie in the cone that friction and the shape of soles and
    palms allow; in flight they must vanish. The distance to the cone, moments taken about the centre of mass and
    divided by 1 m, is what is missing, in body weights. ``violation`` is 2.5 times its mean over about a fifth of a
    second, or half of the frame's own where that is more: green up to the tolerance (2 % of the body weight lasting
    on the ground, 10 % for a moment and in flight), amber to 1.5 times that, then red. Sliding, penetration, joint
    limits and a body that moves harder than gravity tips it over its foot (``compute_tipping_ratio``: a clip played
    too fast) colour a frame too, and so does what the meter sees (:func:`marey.measure_motion`, without contacts):
    flights that do not fall with gravity, jumps of the root, skating and floating feet, flips, limbs bent backwards.

    Args:
        motion: any clip of at least three frames, +Y up.
        body: by default ``Body.from_motion(motion)``.
        contacts: which points touch; by default those of the motion, else detected ones.
        friction: coefficient of the floor.
        tolerance: [body weights] see above.
        floor: ``"flat"``: one floor near height zero; ``"plants"``: each contact has its own (steps, pegs, boxes); or
            its height [m].
        cutoff_hz: low-pass before differentiating; ``None`` for motions that are smooth already.
        window_s: standard deviation of the window over which forces are averaged; by default 0.04 s, and 0 without a
            low-pass.
        slack_s: contacts may begin earlier and end later by this; by default what the detection and the window leave
            open: 0.07 s for a capture, two frames for a smooth motion with its own contacts.
        limits: joint limits to check as well.
        gravity: [m/s²] along -Y.

    Raises:
        InputError: fewer than three frames, limits of another skeleton, or an option out of range.
        UnknownNameError: the contact track names a point that the body does not have.
    """
    window = window_s if window_s is not None else 0.0 if cutoff_hz is None else WINDOW_S
    if not (np.isfinite(tolerance) and tolerance > 0.0):
        raise InputError(f"tolerance is {tolerance}", "Give a positive part of the body weight, 0.05 for instance")
    if not (np.isfinite(gravity) and gravity >= 0.0):
        raise InputError(f"gravity is {gravity}", "Give 0 or more, in m/s² along -Y")
    if slack_s is not None and not 0.0 <= slack_s <= 1.0:
        raise InputError(f"slack_s is {slack_s}", "Give 0 to 1 s")
    if not 0.0 <= window <= 1.0:
        raise InputError(f"window_s is {window}", "Give 0 to 1 s")
    check_argument_types("validity", motion=motion)
    if body is None:
        body = _cached_body(motion.skeleton) if motion.translations is None else Body.from_motion(motion)
    check_argument_types("validity", motion=motion, body=body)
    # What geometry alone objects to comes first, while nothing else is in memory
    faults = _find_geometric_faults(motion, floor, gravity)
    # Wrench that the motion needs, averaged, and what the contacts can give of it
    dynamics = solve_body_wrench(body, motion, cutoff_hz=cutoff_hz, gravity=gravity)
    dynamics = replace(dynamics, wrench=average_gaussian(dynamics.wrench, motion.rate_hz, window))
    is_detected = contacts is None and motion.contacts is None
    slack = DETECTED_SLACK_S * is_detected + max(window, STENCIL_FRAMES / motion.rate_hz)
    slack = slack if slack_s is None else slack_s
    supports = find_supports(motion, contacts, floor=floor, friction=friction, slack_s=slack)
    supply = fit_contact_supply(dynamics, supports)
    weighed = weigh_missing_wrench(supply.missing, supports, motion.rate_hz)
    places, balance = measure_balance(dynamics, supports)
    hurry = compute_tipping_ratio(dynamics, supports, places)
    # Near flights a body may hurry more
    flights = find_flights(supports.touching, motion.rate_hz, LEAST_FLIGHT_S)
    is_running = mark_running(flights, motion)
    measures = _FrameMeasures(
        np.linalg.norm(weighed, axis=-1),
        average_gaussian(1e3 * supports.slide_m, motion.rate_hz, LASTING_S),
        average_gaussian(np.maximum(-1e3 * supports.heights, 0.0), motion.rate_hz, LASTING_S),
        measure_limit_violation(motion, limits),
        hurry / np.where(is_running, RUNNING_TIPPING_RATIO, WALKING_TIPPING_RATIO),
    )
    # Ratios (F, 5): up to 1 is green, up to 2 amber
    bounds = ((tolerance, RED_FACTOR * tolerance), SLIDE_MM, PENETRATION_MM, LIMIT_RAD, TIPPING_LIMITS)
    pairs = zip(measures, bounds, strict=True)
    ratios = np.stack([np.interp(v, (0.0, a, r), (0.0, 1.0, 2.0)) + (v > r) for v, (a, r) in pairs], axis=1)
    worst = ratios.max(axis=1)
    levels = np.where(worst <= 1.0, 0, np.where(worst <= 2.0, 1, 2)).astype(np.int8)
    # Friction left, and the causes of frames that are not green
    force = supply.needed[:, :3]
    friction = float(np.hypot(supports.edges[0, 0], supports.edges[0, 2]))
    margin = friction * force[:, 1] - np.hypot(force[:, 0], force[:, 2])
    # Causes (F, C) by name: of a missing wrench by its direction, others by their measures above 1, those of the meter
    found = find_wrench_causes(weighed, ratios[:, 0] > 1.0, supports.carried, margin, balance)
    found |= {n: ratios[:, k] > 1.0 for k, n in enumerate(("slide", "penetration", "limits", "haste"), start=1)}
    marked, remarks = mark_geometric_faults(motion, supports, faults)
    if flights and skates(motion, supports):
        marked["skate"] = np.ones(motion.num_frames, dtype=np.bool_)
    for flags in marked.values():
        levels[flags] = 2
    nowhere = np.zeros(motion.num_frames, dtype=np.bool_)
    causes = np.stack([found.get(name, nowhere) | marked.get(name, nowhere) for name in CAUSES], axis=1)
    flags = causes & (levels > 0)[:, None]
    lack = np.linalg.norm(supply.missing, axis=-1)
    # What the contacts give, in newtons and about the world origin
    weight = dynamics.body.mass_kg * GRAVITY
    given = weight * supply.given * np.repeat([1.0, LEVER_M], 3)
    available = np.concatenate(shift_wrench(given, -dynamics.com), axis=1)
    return ValidityReport(
        name=motion.name,
        times=motion.times(),
        levels=levels,
        violation=measures.violation,
        lack=lack,
        missing=dynamics.wrench - available,
        cause_flags=flags,
        available=available,
        friction_margin=margin,
        balance_margin=balance,
        momentum_drift=compute_momentum_drift(dynamics, supports),
        slide_mm=measures.slide_mm,
        penetration_mm=measures.penetration_mm,
        limit_rad=measures.limit_rad,
        haste=hurry,
        centre_of_pressure=places,
        split=split_limbs(available, supports, weight * supply.corner_forces),
        dynamics=dynamics,
        supports=supports,
        tolerance=tolerance,
        warnings=tuple(write_remarks(motion, dynamics.body, supports, remarks)),
        spans=find_spans(levels, flags, measures.violation, lack, motion.rate_hz),
    )


def mark_running(flights: list[tuple[int, int]], motion: Motion) -> BoolArray:
    """Frames ``(F,)`` in or near a flight."""
    flying = np.zeros(motion.num_frames, dtype=np.bool_)
    for start, stop in flights:
        flying[start:stop] = True
    return widen_flags(flying, min(round(FLIGHT_NEAR_S * motion.rate_hz), len(flying)))


def weigh_missing_wrench(missing: FloatArray, supports: Supports, rate_hz: float) -> FloatArray:
    """What counts of a missing wrench ``(F, 6)``: what lasts on the ground, or the frame alone where that is more."""
    steady = LASTING_WEIGHT * average_gaussian(missing * supports.carried[:, None], rate_hz, LASTING_S)
    brief = MOMENT_WEIGHT * missing
    is_brief = np.linalg.norm(brief, axis=-1) > np.linalg.norm(steady, axis=-1)
    return np.where(is_brief[:, None], brief, steady)


def measure_limit_violation(motion: Motion, limits: JointLimits | None) -> FloatArray:
    """How far the joint farthest outside its limits is ``(F,)`` [rad]."""
    if limits is None:
        return np.zeros(motion.num_frames)
    if limits.skeleton.names != motion.skeleton.names:
        raise InputError(
            f"the limits are those of {limits.skeleton!r}, the motion is of {motion.skeleton!r}",
            "Fit limits to clips of the same skeleton, or retarget the motion",
        )
    return limits.violations(motion.rotations).max(axis=1)


def measure_balance(dynamics: InverseDynamics, supports: Supports) -> tuple[FloatArray, FloatArray]:
    """Centre of pressure ``(F, 3)`` [m], and its margin in the polygon of the supports ``(F,)`` [m].

    Where hardly anything presses it is under the centre of mass, and its margin counts less.
    """
    places, _ = compute_centre_of_pressure(dynamics.wrench, supports.floor_m)
    normal = dynamics.forces[:, 1] / (dynamics.body.mass_kg * GRAVITY)
    under = dynamics.com * [1.0, 0.0, 1.0] + [0.0, supports.floor_m, 0.0]
    places = np.where((normal > LOW_NORMAL / 4.0)[:, None], places, under)
    flat = np.ascontiguousarray(places[:, [0, 2]])
    points = np.ascontiguousarray(supports.points[..., [0, 2]])
    margins = compute_polygon_margins(flat, points, supports.active & ~supports.grips)
    return places, margins * np.clip(normal / LOW_NORMAL, 0.0, 1.0)


def find_wrench_causes(
    weighed: FloatArray, lacks: BoolArray, carried: BoolArray, margin: FloatArray, balance: FloatArray
) -> dict[str, BoolArray]:
    """Why a wrench is missing, by its direction: pull, slip or tipping on the ground, hover or momentum in flight.

    Args:
        weighed: missing wrench ``(F, 6)`` [body weights].
        lacks: frames ``(F,)`` in which it counts.
        carried: frames on the ground.
        margin: friction left ``(F,)`` [body weights].
        balance: margin of the centre of pressure ``(F,)`` [m].
    """
    up, level = weighed[:, 1], np.hypot(weighed[:, 0], weighed[:, 2])
    twist, tip = np.abs(weighed[:, 4]), np.hypot(weighed[:, 3], weighed[:, 5])
    total = np.linalg.norm(weighed, axis=-1)
    pulls = -up > 0.5 * total
    slips = (margin < -SLIP_MARGIN) | (twist > 0.6 * total)
    turns = np.maximum(tip, twist) > np.hypot(up, level)
    return {
        "pull": lacks & pulls,
        "slip": lacks & carried & ~pulls & slips,
        "tipping": lacks & carried & ~pulls & ((balance < 0.0) | ~slips),
        "hover": lacks & ~carried & ~pulls & ~turns,
        "momentum": lacks & ~carried & ~pulls & turns,
    }


def skates(motion: Motion, supports: Supports) -> bool:
    """Whether the soles of a runner go one way over the ground, stance after stance.

    They roll and slip forwards for a moment, so that the meter's speeds tell little. Of heel, ball and toe of every
    stance inside the clip two count: the one with the least median velocity, and the one that stands longest. The
    median over the stances must be small ahead and, of the second, aside; in a run that turns, in the world's frame.
    """
    span = max(1, round(DRIFT_SPAN_S * motion.rate_hz))
    if motion.num_frames <= 2 * span:
        return False
    rate, edges = motion.rate_hz / (2 * span), ((span, span), (0, 0), (0, 0))
    velocities = np.pad((supports.points[2 * span :] - supports.points[: -2 * span]) * rate, edges, mode="edge")
    found: list[FloatArray] = []  # velocity of the slowest part, the same ahead, that of the longest stand aside
    for limb in (0, 1):
        pairs = np.flatnonzero(supports.limbs == limb).reshape(-1, 2)
        moves = 0.5 * (velocities[:, pairs[:, 0]] + velocities[:, pairs[:, 1]])[..., [0, 2]]
        for start, stop in find_runs(supports.limb_active(limb, slack=False)):
            stands = supports.touching[start:stop, pairs[:, 0]]
            parts = [(int(n), np.median(moves[start:stop, k][stands[:, k]], axis=0))
                     for k, n in enumerate(stands.sum(axis=0)) if n >= MIN_STANCE_FRAMES]  # fmt: skip
            if start == 0 or stop == motion.num_frames or not parts:
                continue
            way = (motion.root_positions[stop - 1] - motion.root_positions[start])[[0, 2]]
            ahead = way / max(float(np.linalg.norm(way)), 1e-9)
            slow = min((v for _, v in parts), key=lambda v: float(v @ v))
            x, z = max(parts, key=lambda part: part[0])[1]
            found.append(np.array([*slow, slow @ ahead, x * ahead[1] - z * ahead[0]]))
    if len(found) < MIN_STANCES:
        return False
    east, south, ahead, aside = np.median(np.stack(found), axis=0).tolist()
    whole = float(np.hypot(east, south))
    return max(ahead, whole) > DRIFT_AHEAD_MPS or ahead < -DRIFT_BACK_MPS or abs(aside) > DRIFT_ASIDE_MPS


def mark_geometric_faults(
    motion: Motion, supports: Supports, faults: list[Fault]
) -> tuple[dict[str, BoolArray], list[Fault]]:
    """Frames ``(F,)`` that geometry alone objects to, by cause, and faults that are no more than a remark."""
    remarks = [f for f in faults if abs(f.size) < LEAST_SIZE.get(f.kind, 0.0) or f.kind not in FAULT_CAUSES]
    remarks += [f for f in faults if f.kind == "pop" and f.part.endswith("ankle")]
    marked: dict[str, BoolArray] = {}
    stands = ~any_in_row(supports.grips)
    for fault in set(faults) - set(remarks):
        flags = marked.setdefault(FAULT_CAUSES[fault.kind], np.zeros(motion.num_frames, dtype=np.bool_))
        span = slice(round(fault.start_s * motion.rate_hz), round(fault.stop_s * motion.rate_hz) + 1)
        # A body that hangs may have its feet anywhere
        flags[span] |= stands[span] if fault.kind == "float" else True
    return marked, remarks


def write_remarks(motion: Motion, body: Body, supports: Supports, remarks: list[Fault]) -> list[str]:
    """Remarks for the reader: estimated masses, another size, faults of the meter, no feet, another floor."""
    notes = [f"body: {note}" for note in body.report]
    ours, theirs = (leg_length(s, role_map(s)) for s in (body.skeleton, motion.skeleton))
    if abs(ours - theirs) > SIZE_TOL * max(ours, theirs):
        notes.append(
            f"the legs of the body are {ours:.2f} m long, those of the clip {theirs:.2f} m: "
            "contacts are those of the clip, forces those of the body"
        )
    notes += [f"the meter: {fault}; this makes no frame red" for fault in remarks[:2]]
    if not supports.points.shape[1]:
        notes.append("this body has no feet or hands that could touch: every frame is taken as flight")
    elif abs(supports.lifted_m) > FOOT_SLACK_M:
        notes.append(
            f"the feet stand {supports.lifted_m:+.2f} m from the floor at height {supports.floor_m:.2f} m; "
            "give floor= if the clip has another"
        )
    return notes


def _find_geometric_faults(motion: Motion, floor: Floor, gravity: float) -> list[Fault]:
    """Faults of the meter that matter here; none for a body without two legs, which the meter refuses."""
    try:
        faults = measure_motion(motion).faults
    except InputError:
        return []
    # Soles that rest beside the floor are no fault where there are steps, and without gravity nothing stands or falls
    left_out = {"gravity", "float"} if gravity != GRAVITY else {"float"} if floor != "flat" else set[str]()
    return [f for f in faults if f.kind not in left_out]


@lru_cache(maxsize=64)  # a skeleton cannot be changed, and clips share theirs
def _cached_body(skeleton: Skeleton) -> Body:
    return Body.from_skeleton(skeleton)


class _FrameMeasures(NamedTuple):
    """The five measures that colour a frame."""

    violation: FloatArray  # (F,) [body weights]
    slide_mm: FloatArray  # (F,) [mm in 0.1 s]
    penetration_mm: FloatArray  # (F,) [mm]
    limit_rad: FloatArray  # (F,) [rad]
    haste: FloatArray  # (F,) [-] over what a walker or a runner may have

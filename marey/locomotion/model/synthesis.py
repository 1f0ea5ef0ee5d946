"""Compiled synthesis: from the laws of the gait model to a placed body.

The laws give the weights of the components, the cadence and the foot events; the columns of a unit become a pose and
the four points of its feet. The compiler works over a kernel anew in each kernel that calls it, so that calls here
are few and not deep.
"""

from __future__ import annotations

from math import cos, floor, pi, sin, sqrt
from typing import NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.lie.kernels import Quaternion, conjugate, exp, log, multiply, quaternion_at, rotate, write_rotation
from marey.locomotion.model.locomotion_model import GaitArrays
from marey.locomotion.planning.parameters import BANK, CENTRE_PART, GRAVITY, LEG, SPEED, TURN


@kernel
def copy_values(out: FloatArray, values: FloatArray) -> None:
    """Copy values; a plain loop compiles twenty times faster than an assignment of slices."""
    for i in range(out.shape[0]):
        out[i] = values[i]


@kernel
def normalise_speed(speed: float, leg: float, own_leg: float, froude: bool) -> float:
    """Normalised speed [1/s] of a character with a leg of its own length ([Glardon2005]_ §III.1.2)."""
    return speed / sqrt(leg * own_leg) if froude else speed / leg


@kernel
def foot_speed(values: FloatArray) -> float:
    """Speed [m/s] of the ground under feet, which go round outside the way of who leans into a curve (`foot_lead`)."""
    return values[SPEED] + CENTRE_PART * values[LEG] * abs(values[TURN] * sin(values[BANK]))


@kernel
def find_table_row(speeds: FloatArray, s_n: float) -> tuple[int, float]:
    """Row of the tables below a speed, and how far it is to the next; the ends hold."""
    last = speeds.shape[0] - 1
    if s_n <= speeds[0]:
        return 0, 0.0
    if s_n >= speeds[last]:
        return last - 1, 1.0
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        if speeds[middle] <= s_n:
            low = middle
        else:
            high = middle
    return low, (s_n - speeds[low]) / (speeds[low + 1] - speeds[low])


@kernel
def gait_weight(gaits: GaitArrays, style: int, gait: int, run: float) -> float:
    """Part that a gait has in a style; who has one gait alone shows that gait."""
    if not gaits.has_gait[style, 1 - gait]:
        return 1.0
    if not gaits.has_gait[style, gait]:
        return 0.0
    return run if gait == 1 else 1.0 - run


@kernel
def evaluate_cadence(gaits: GaitArrays, s_n: float, run: float, weights: FloatArray) -> float:
    """Cycles per second [Hz] at the model's own leg length ([Glardon2005]_ Eq. III.1.8)."""
    g, part = find_table_row(gaits.speeds, s_n)
    total = 0.0
    for k in range(weights.shape[0]):
        if weights[k] > 0.0:
            for tau in range(2):
                table = gaits.frequency[k, tau]
                value = table[g] + part * (table[g + 1] - table[g])
                total += weights[k] * gait_weight(gaits, k, tau, run) * value
    return total


@kernel
def evaluate_foot_events(gaits: GaitArrays, s_n: float, run: float, weights: FloatArray, out: FloatArray) -> None:
    """Unwrapped phases ``(8,)`` of the foot events."""
    g, part = find_table_row(gaits.speeds, s_n)
    for e in range(8):
        out[e] = 0.0
    for k in range(weights.shape[0]):
        if weights[k] > 0.0:
            for tau in range(2):
                share = weights[k] * gait_weight(gaits, k, tau, run)
                if share > 0.0:
                    low, high = gaits.events[k, tau, g], gaits.events[k, tau, g + 1]
                    for e in range(8):
                        out[e] += share * (low[e] + part * (high[e] - low[e]))


@kernel
def evaluate_score(gaits: GaitArrays, style: int, gait: int, component: int, s_n: float) -> float:
    r"""Score :math:`A(s_n)` of one component: a power from standing, then a line ([Glardon2005]_ Eq. II.2.12)."""
    slope, offset = gaits.slope[style, gait, component], gaits.offset[style, gait, component]
    slowest = gaits.slowest[style, gait]
    if s_n >= slowest:
        return slope * s_n + offset
    standing = gaits.standing[style, gait, component]
    if s_n <= 0.0:
        return standing
    return standing + (slope * slowest + offset - standing) * (s_n / slowest) ** gaits.power


@kernel
def add_unit_row(
    gaits: GaitArrays, s_n: float, run: float, weights: FloatArray, row: int, share: float, out: FloatArray
) -> None:
    """Add ``share`` times one row of the synthesised unit ([Glardon2005]_ Eq. II.2.20, multiplied out).

    As many columns are added as ``out`` has.
    """
    for k in range(weights.shape[0]):
        if weights[k] > 0.0:
            for tau in range(2):
                part = share * weights[k] * gait_weight(gaits, k, tau, run)
                if part != 0.0:
                    for d in range(out.shape[0]):
                        out[d] += part * gaits.base[k, tau, row, d]
                    for c in range(gaits.lift.shape[2]):
                        score = part * evaluate_score(gaits, k, tau, c, s_n)
                        for d in range(out.shape[0]):
                            out[d] += score * gaits.lift[k, tau, c, row, d]


# Columns of a placing
S_N, RUN_AT, PHASE_AT, X_AT, Z_AT, HEADING_AT, LEG_AT, BANK_AT, PITCH_AT = 0, 1, 2, 3, 4, 5, 6, 7, 8
RATE_AT, PATH_AT, STANCE_AT, MIDDLE_AT, BOUNCE_AT, TURN_AT, SWAY_AT = 9, 10, 11, 12, 13, 14, 15
NUM_PLACING = 16
TRUNK_PART = (
    0.8  # [-] of the lean of a start, that the spine adds: captured runners (127_04) lean twice as far as a pendulum
)
TRUNK_LEVER = 0.18  # [-] of the leg: how far the centre of mass goes ahead for each radian of that
PRESSURE_PART = 0.95  # [-] of the way of a stance, that the pressure goes under the body; runs tip as gravity asks
LOADED_PART = 0.94  # [-] of a stance: a foot that has just touched, or is about to leave, presses hardly at all
FORCE_SKEW = 0.5  # [-] runs of 02, 09, 16 and 35: the middle of the force is 0.015 s before that of the stance
LEVEL_PART = 0.8  # [-] of a lean, that the neck takes back: in the start of 127_04 the head goes along by 0.1
LOOK_S = 0.2  # [s] who turns looks as far ahead on his way ([Grasso1996]_)
SWAY_POWER = 5.0  # [-] of the ratio of cadences; chosen on curves of 2 rad/s of the default mixture, 39, 35 and 16
SLOW_BOUNCE = 10.5  # [-] gravity over leg and squared cadence, beyond which slow steps bounce less than they could


class BodyArrays(NamedTuple):
    """What all characters of a model share."""

    offsets: FloatArray  # (J, 3) [m] of the model's own skeleton
    legs: IntArray  # (2, 4) hip, knee, ankle and toe joints of the right and the left leg
    num_low: int  # joints up to the last ankle: what feet hang on
    own_leg: float  # [m] leg length of the model's own skeleton
    spine: IntArray  # joints from the lowest of the trunk to the neck
    froude: bool  # scaling of speed and tempo by pendulum law, or by leg length alone
    cubic: bool  # between the frames of a unit: cubic curves, or slerp


@kernel
def write_unit(
    gaits: GaitArrays, cubic: bool, weights: FloatArray, at: FloatArray, columns: FloatArray, rotations: FloatArray
) -> None:
    """Columns of the unit at a phase, and its joint rotations, before it is placed.

    Between frames: a periodic cubic (Catmull-Rom) in log space through the four rows round the phase, or, as in the
    thesis, SLERP of joints and straight lines for the root ([Glardon2005]_ Eq. III.1.16).
    """
    count, joints = gaits.base.shape[2], rotations.shape[0]
    place = (at[PHASE_AT] - floor(at[PHASE_AT])) * count
    i = int(place)
    u = place - i
    # The columns: a cubic through four rows, or the two rows round the phase, one in each array
    after = np.empty(columns.shape[0])
    for c in range(columns.shape[0]):
        columns[c], after[c] = 0.0, 0.0
    shares = (0.0, 1.0, 1.0, 0.0)
    if cubic:
        # Catmull-Rom, for a place u between the second and the third row
        first, second = 0.5 * u * (u * (2.0 - u) - 1.0), 0.5 * (u * u * (3.0 * u - 5.0) + 2.0)
        shares = (first, second, 0.5 * u * (u * (4.0 - 3.0 * u) + 1.0), 0.5 * u * u * (u - 1.0))
    for r in range(4):
        if shares[r] != 0.0:
            out = after if r == 2 and not cubic else columns
            add_unit_row(gaits, at[S_N], at[RUN_AT], weights, (i + r - 1) % count, shares[r], out)
    # The rotations: mean times exponential; SLERP between the two rows of the thesis (Eq. III.1.16)
    for j in range(joints):
        q = exp((columns[3 + 3 * j], columns[4 + 3 * j], columns[5 + 3 * j]))
        if not cubic:
            b = exp((after[3 + 3 * j], after[4 + 3 * j], after[5 + 3 * j]))
            v = log(multiply(conjugate(q), b))
            q = multiply(q, exp((u * v[0], u * v[1], u * v[2])))
        write_rotation(rotations[j], multiply(quaternion_at(gaits.means, j), q))
    if not cubic:
        for c in range(3):
            columns[c] += u * (after[c] - columns[c])


@kernel
def write_rhythm(speed_over_leg: float, events: FloatArray, at: FloatArray) -> None:
    """Complete a placing whose cadence is known: way of a cycle, part of it that a foot stands, phase of its middle."""
    at[PATH_AT] = speed_over_leg / at[RATE_AT] if at[RATE_AT] > 0.0 else 0.0
    at[STANCE_AT] = 0.5 * LOADED_PART * (events[3] - events[0] + events[7] - events[4])
    at[MIDDLE_AT] = 0.25 * (events[3] + events[0] + events[7] + events[4] - 1.0)


@kernel
def add_bounce(at: FloatArray, columns: FloatArray) -> None:
    r"""Add the path of a runner's centre of mass about its mean, over leg length, to the columns of the root.

    With :math:`\psi` the phase from the middle of the nearest stance, :math:`d` the part of a cycle that a foot stands,
    :math:`\theta = \pi\psi/d` and :math:`\kappa = g / (l f^2)`, the force is one smooth hump, which rises sooner than
    it falls and whose impulse carries the weight over a step,

    .. math:: y'' = \kappa (F - 1), \quad z'' = \kappa F\,p\,(\psi - \bar\psi) / h, \qquad
              F = \frac{\pi}{4 d}\big(\cos\theta - \tfrac a2\sin 2\theta\big) \text{ on one foot, } 0 \text{ in flight}

    (half a sine in [Alexander1989]_, :math:`a = 0`); level forces meet in the centre of mass, at height :math:`h`, over
    a foot that goes back by :math:`p` a cycle and is under it at the middle :math:`\bar\psi = -a d/8` of the force.
    Both are integrated in closed form; in flight the body falls freely, at a constant speed. The columns are those of
    a body that leans: its height is along the lean, and the force of a turn pulses with the weight. The frame of the
    columns turns with the way, by :math:`w` a cycle, so that level velocities in it need, to first order in :math:`w`,

    .. math:: \Delta z = 2 w \int x, \quad \Delta x = -2 w \int z

    to be straight in flight.
    """
    if at[BOUNCE_AT] <= 0.0 or at[RATE_AT] <= 0.0:
        return
    kappa = GRAVITY / (at[LEG_AT] * at[RATE_AT] ** 2)
    # Steps that take so long would throw the body high: they are taken with less of a hump.
    kappa *= at[BOUNCE_AT] * min(1.0, (SLOW_BOUNCE / kappa) ** 1.5)
    d = min(max(at[STANCE_AT], 0.1), 0.5)
    psi = at[PHASE_AT] - at[MIDDLE_AT]
    psi -= 0.5 * floor(2.0 * psi + 0.5)
    flight, k3 = 0.25 - 0.5 * d, (d / pi) ** 3  # half of a flight
    # Heights without their mean; z is the same before and after a step.
    mean = 4.0 * (d * d / (4.0 * pi * pi) + d**3 / 48.0 + (d * d / 8.0 - 0.5 * flight**2) * flight + flight**3 / 6.0)
    drift = -8.0 * k3 - 4.0 * flight * d * d / pi * (0.5 - FORCE_SKEW**2 / 32.0)
    if 2.0 * abs(psi) < d:
        theta, middle = pi * psi / d, -0.125 * FORCE_SKEW * d
        y = mean - d / (4.0 * pi) * cos(theta) - 0.5 * psi * psi
        y += FORCE_SKEW * (d / (32.0 * pi) * sin(2.0 * theta) + 0.25 * flight * psi)
        # Double integrals of psi cos, cos, psi sin and sin
        z = 2.0 * k3 * sin(theta) + (d / pi) ** 2 * (middle - psi) * cos(theta) + drift * psi
        z += 0.125 * FORCE_SKEW * ((d / pi) ** 2 * (psi - middle) * sin(2.0 * theta) + k3 * (1.0 + cos(2.0 * theta)))
    else:
        u = 0.25 - abs(psi)
        side = 1.0 if psi > 0.0 else -1.0
        y = mean - d * d / 8.0 + 0.5 * (flight * flight - u * u) + 0.125 * FORCE_SKEW * d * u * side
        z = (2.0 * k3 + 0.5 * drift * d) * u / max(flight, 1e-12) * side
    gain = 0.25 * pi / d * PRESSURE_PART * at[PATH_AT] / CENTRE_PART
    lean = cos(at[BANK_AT]) * cos(at[PITCH_AT])
    columns[1] += kappa * y / lean
    columns[2] += kappa * z * gain
    if at[BANK_AT] == 0.0 or at[PATH_AT] <= 0.0:
        return
    # The integrals of y and, but for its skew, of z
    inwards, w = sin(at[BANK_AT]) / cos(at[BANK_AT]), at[TURN_AT] / at[RATE_AT]
    edge = min(max(psi, -0.5 * d), 0.5 * d)
    theta = pi * edge / d
    sum_y = mean * edge - (0.5 * d / pi) ** 2 * sin(theta) - edge**3 / 6.0
    sum_y += FORCE_SKEW * (0.125 * flight * edge * edge - (0.125 * d / pi) ** 2 * cos(2.0 * theta))
    sum_z = 0.5 * drift * edge * edge - 3.0 * k3 * d / pi * cos(theta) - k3 * edge * sin(theta)
    if 2.0 * abs(psi) > d:
        u = 0.25 - abs(psi)
        way = (mean - d * d / 8.0 + 0.5 * flight * flight) * (flight - u) - (flight**3 - u**3) / 6.0
        sum_y += way if psi > 0.0 else -way
        sum_y += 0.0625 * FORCE_SKEW * d * (flight * flight - u * u)
        sum_z += 0.5 * (2.0 * k3 + 0.5 * drift * d) * (flight * flight - u * u) / max(flight, 1e-12)
    aside = -2.0 * w * kappa * gain * sum_z
    columns[0] += aside * cos(at[BANK_AT])
    columns[1] += aside * sin(at[BANK_AT])
    columns[2] += 2.0 * w * kappa * inwards * sum_y


@kernel
def level_head(build: BodyArrays, at: FloatArray, lean: Quaternion, rotations: FloatArray) -> None:
    """Keep the head of a leaning body as level as in a captured start, and look where the way turns to.

    ``lean`` is the turn of the trunk by the lean, in the frame of the way.
    """
    neck = int(build.spine[build.spine.shape[0] - 1])
    if rotations.shape[0] <= neck or (at[BANK_AT] == 0.0 and at[PITCH_AT] == 0.0 and at[TURN_AT] == 0.0):
        return
    half = 0.5 * at[HEADING_AT]
    above = multiply((cos(half), 0.0, -sin(half), 0.0), quaternion_at(rotations, 0))
    for i in range(build.spine.shape[0] - 1):
        above = multiply(above, quaternion_at(rotations, int(build.spine[i])))
    v, look = log(lean), 0.5 * LOOK_S * at[TURN_AT]
    back = multiply((cos(look), 0.0, sin(look), 0.0), exp((-LEVEL_PART * v[0], -LEVEL_PART * v[1], -LEVEL_PART * v[2])))
    turned = multiply(conjugate(above), multiply(back, above))
    write_rotation(rotations[neck], multiply(turned, quaternion_at(rotations, neck)))


def synthesise_unit(gaits: GaitArrays, leg_m: float, speed_n: float, run: float, weights: FloatArray) -> FloatArray:
    """Rows ``(N, D)`` of a steady gait on the model's own legs, as ``GaitArrays.row`` but with a runner's bounce."""
    rows, at, events = gaits.row(speed_n, run, weights), np.zeros(NUM_PLACING), np.empty(8)
    evaluate_foot_events(gaits, speed_n, run, weights, events)
    at[LEG_AT], at[RATE_AT] = leg_m, evaluate_cadence(gaits, speed_n, run, weights)
    write_rhythm(speed_n, events, at)
    at[BOUNCE_AT], at[SWAY_AT] = float(gaits.shares(run, weights)[:, 1].sum()), 1.0
    for i in range(len(rows)):
        at[PHASE_AT] = i / len(rows)
        add_bounce(at, rows[i])
    return rows


@kernel
def write_pose(
    gaits: GaitArrays, build: BodyArrays, weights: FloatArray, at: FloatArray, root: FloatArray, rotations: FloatArray
) -> None:
    """Fill ``root`` ``(3,)`` [m] and the first rows of ``rotations`` ``(J, 4)``, as many as are given.

    ``at`` ``(16,)`` is a placing. A body that turns or changes its speed leans, and its centre of mass stays over its
    way: its feet go out, or come down behind and ahead.
    """
    columns = np.empty(3 + 3 * rotations.shape[0])
    write_unit(gaits, build.cubic, weights, at, columns, rotations)
    add_bounce(at, columns)
    columns[0] *= at[SWAY_AT] + at[BOUNCE_AT] * (1.0 - at[SWAY_AT])
    half = 0.5 * at[HEADING_AT]
    bank = (cos(0.5 * at[BANK_AT]), 0.0, 0.0, -sin(0.5 * at[BANK_AT]))
    pitch = (cos(0.5 * at[PITCH_AT]), sin(0.5 * at[PITCH_AT]), 0.0, 0.0)
    turn = multiply(multiply((cos(half), 0.0, sin(half), 0.0), pitch), bank)
    unleaned = quaternion_at(rotations, 0)
    write_rotation(rotations[0], multiply(turn, quaternion_at(rotations, 0)))
    # The trunk leans forwards by more than the legs.
    bend = TRUNK_PART * max(at[PITCH_AT], 0.0)
    bent, spine = (cos(0.5 * bend), sin(0.5 * bend), 0.0, 0.0), build.spine[0]
    write_rotation(rotations[spine], multiply(bent, quaternion_at(rotations, spine)))
    level_head(build, at, multiply(multiply(pitch, bank), bent), rotations)
    # Feet do not lean: in the frame of the shank, the lean is taken back.
    if at[BANK_AT] != 0.0 or at[PITCH_AT] != 0.0:
        lean = multiply(pitch, bank)
        for side in range(2):
            hip, knee, ankle = build.legs[side, 0], build.legs[side, 1], build.legs[side, 2]
            shank = multiply(unleaned, multiply(quaternion_at(rotations, hip), quaternion_at(rotations, knee)))
            back = multiply(conjugate(shank), multiply(conjugate(lean), shank))
            write_rotation(rotations[ankle], multiply(back, quaternion_at(rotations, ankle)))
    leg = at[LEG_AT]
    p = rotate(turn, (columns[0] * leg, columns[1] * leg, columns[2] * leg))
    # Where the centre of mass would go; that of a bent trunk, too, is over the way.
    centre = rotate(turn, (0.0, CENTRE_PART * leg, TRUNK_LEVER * leg * bend))
    root[0], root[1], root[2] = at[X_AT] + p[0] - centre[0], p[1], at[Z_AT] + p[2] - centre[2]


@kernel
def write_effectors(build: BodyArrays, leg: float, root: FloatArray, rotations: FloatArray, out: FloatArray) -> None:
    """Positions ``(4, 3)`` [m] of ankles and toes, from local rotations: a walk down each leg."""
    scale = leg / build.own_leg
    for side in range(2):
        q = quaternion_at(rotations, 0)
        p = (root[0], root[1], root[2])
        for part in range(4):
            j = build.legs[side, part]
            o = (build.offsets[j, 0] * scale, build.offsets[j, 1] * scale, build.offsets[j, 2] * scale)
            step = rotate(q, o)
            p = (p[0] + step[0], p[1] + step[1], p[2] + step[2])
            if part < 3:
                q = multiply(q, quaternion_at(rotations, j))
            # Ankle and toe are written; hip and knee only lead there.
            if part >= 2:
                row = 2 * side + part - 2
                out[row, 0], out[row, 1], out[row, 2] = p

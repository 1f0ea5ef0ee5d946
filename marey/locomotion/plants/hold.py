r"""Compiled foot plants of the engine: where a foot stands, how it leaves, swings and arrives, as functions of time.

A foot stands on its heel, on heel and ball, or on its ball, and rolls over them without sliding. With :math:`c(t)` the
raw path of the point on which it lands, :math:`c_1` its raw place at the landing and :math:`C_1` its goal,

.. math:: c'(t) = c(t) + S_\mathrm{in}\,(C_1 - c_1) + S_\mathrm{on}\,(c_1 - c(t)) + (1 - S_\mathrm{out})\,D_0,

where each :math:`S` is the quintic step :math:`10x^3 - 15x^4 + 6x^5` of time: the foot arrives at its goal at rest, and
the correction :math:`D_0` that it had when it left fades in the first half of the swing. These are the eases of
[Glardon2005]_ Eq. 2.6, of the whole swing and without acceleration at their ends. Soles of swinging feet keep a
clearance, which the slow gaits between standing and the slowest captured walk do not have.
"""

from __future__ import annotations

from math import atan2, e, pi, sqrt

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.lie.kernels import (
    Quaternion,
    Vector,
    add3,
    cross,
    dot,
    exp,
    log,
    multiply,
    norm,
    quaternion_at,
    rotate,
    row3,
    scale3,
    shortest_rotation,
    subtract3,
    unit,
)
from marey.locomotion.plants.leg import (
    bend_toes,
    flat_foot_vector,
    get3,
    get4,
    leg_extension,
    needed_toe_bend,
    pose_leg,
    raise_heel,
    relax_toe_bend,
    set3,
    set4,
    solve_leg,
    write_foot_measures,
    write_leg_frames,
    yaw_rotation,
)
from marey.locomotion.plants.state import (
    ANKLE,
    FOOT_RECORD,
    HIP,
    KNEE,
    PLANT_EASE_S,
    RUN_EASE_S,
    TOE,
    TWIST_RAD,
    FootState,
    LegArrays,
    PlantForecast,
    PlantOptions,
    PlantState,
)

LEAVE_S = 0.18  # [s] a foot that leaves follows its raw path wholly after this time ...
STEEP_RAD = (0.20, 0.90)  # [rad] ... or, from the first to the second, as its raw heel rises over its ball
RUN_STEEP_RAD = (0.23, 0.95)  # [rad] of a runner, whose leg is straight at the push-off and has nothing to spare
HIGH_M = (0.02, 0.10)  # [m] ... or, of a runner, from the first to the second, as its ball rises, ...
HIGH_PART = 0.85  # [-] ... by this part: at 1 the frame rate would move a knee by 1.1 mm as a run begins (A21: 1 mm)
LATE_PART = 0.35  # [-] of that way waits until the ball of a runner has risen ...
OFF_M = 0.012  # [m] ... by twice so much, and as it goes it is so high: a ball that goes ahead on the floor scrapes
RISE_PART = 0.5  # [-] of that: the ball may rise
ARRIVE_S = 0.03  # [s] before it lands a foot begins to slow down to rest ...
SHORT_SWING_S = 0.65  # [s] ... sooner in a longer swing, that of a slow walk, ...
ARRIVE_PART = 1.2  # [-] ... by this part of what it lasts longer, ...
MOST_ARRIVE_S = 0.30  # [s] ... at most so much: its heel would pass over the floor otherwise ...
ASIDE_S = (0.10, 0.02)  # [s] before and after it lands, over which it comes to rest aside: it has no weight to roll off
REST_S = 0.06  # [s] ... until so long after it
GOAL_PART = 0.7  # [-] of the way from where a foot lands to where it is in mid-stance: there it stands
NOTICE_S = 0.25  # [s] before it lands, a foot begins to turn to where it lands
LONG_S = 0.4  # [s] how long the feet that a character begins with have been in the air
FADE_PART = 0.6  # [-] of a swing: the correction of the last stance has faded
FLAT_S = 0.10  # [s] in which a foot is laid flat, and rises from it
HEEL_RISE_RAD = 0.12  # [rad] a foot whose raw heel is over its ball by more is not laid flat any more
HEEL_UP_M = 0.01  # [m] a planned heel this high is not reported to be down: it has risen
CLEARANCE_M = 0.016  # [m] of a sole in the middle of a swing, for a leg of the model
FLYING_CLEARANCE_M = 0.045  # [m] likewise, of a foot that pushed off into a flight: captured runs have 36 to 88 mm
CLEARANCE_PART = (0.26, 0.30)  # [-] of a swing, at its begin and end, over which it grows ...
CLEARANCE_S = (0.09, 0.21)  # [s] ... but no longer than this: a foot that moves is off the floor
DORSIFLEXION_RAD = 0.35  # [rad] an ankle bends by less for the clearance; the knee does what is left
TIP_SHARE = 0.25  # [-] of the rise of a ball that is let go: toes bend in the first part of it
LEAST_LEVER_M = 0.08  # [m] from ankle to ball over the ground, of a foot that points down
TIP_PART = 0.5  # [-] of a swing, after which the tip of the toes has the same clearance by the ankle; before ...
TIP_M = 0.0105  # [m] ... toes bend for so much, as soon as the ball is let go: a push-off ends on bent toes
BLUR_M = 0.016  # [m] half the width over which the lift sets in ...
TOUCH_M = 0.003  # [m] ... and that of the point of a standing foot that is not held
SINK_S = 0.10  # [s] in which a foot that lands above the floor, as in a run, comes down ...
SINK_M = 0.01  # [m] ... from no higher
KNEE_MASS, ANKLE_MASS = 0.075, 0.030  # [-] of the body: 0.9 times thigh and shank, shank and foot of [DeLeva1996]_
BROKEN_M = 0.002  # [m] a planted ankle farther from its goal is reported


@kernel
def quintic_step(x: float) -> float:
    """Return 0 for x up to 0 and 1 from 1 on, with zero slope and curvature at both ends."""
    x = min(1.0, max(0.0, x))
    return x * x * x * (10.0 + x * (6.0 * x - 15.0))


@kernel
def soft_ramp(x: float, width: float) -> float:
    """Return 0 up to -width and x from width on; a parabola joins them."""
    return max(0.0, x) if abs(x) >= width else 0.25 * (x + width) ** 2 / width


@kernel
def run_share(ease_s: float) -> float:
    """How much of a run a gait with this ease time is: 0 walks, 1 runs."""
    return (PLANT_EASE_S - ease_s) / (PLANT_EASE_S - RUN_EASE_S)


@kernel
def wrap_angle(angle: float) -> float:
    """Angle between -π and π."""
    return angle - 2.0 * pi * round(angle / (2.0 * pi))


@kernel
def release_shares(foot: FootState, raw_f: Vector, options: PlantOptions) -> Vector:
    """How far a ball has been let go, by how steep the raw foot has been since its heel rose.

    It rises sooner than it goes ahead, as the foot rolls over its toes. That of a runner, in flight soon, is not held
    back once it is high: the leg would swing ahead later and harder than the gait, and push the body back in the air.
    """
    drop = (foot.toe_rest - foot.ankle_rest - raw_f[1]) / max(norm(raw_f), 1e-9)
    foot.steepest = max(foot.steepest, 0.0 if foot.ankle_held else drop)
    run = run_share(options.ease_s)
    first = STEEP_RAD[0] + run * (RUN_STEEP_RAD[0] - STEEP_RAD[0])
    last = STEEP_RAD[1] + run * (RUN_STEEP_RAD[1] - STEEP_RAD[1])
    flat, up = (foot.steepest - first) / (last - first), (foot.steepest - first) / (RISE_PART * (last - first))
    height = row3(foot.origin, TOE)[1] + foot.frozen[1] - options.floor_y - foot.toe_rest
    high = HIGH_PART * run * quintic_step((height / foot.size - HIGH_M[0]) / (HIGH_M[1] - HIGH_M[0]))
    level = 1.0 - (1.0 - quintic_step(flat)) * (1.0 - high)
    # That of a slow runner goes ahead while it is still on the floor
    level *= 1.0 - LATE_PART * run * (1.0 - quintic_step(height / (2.0 * OFF_M * foot.size)))
    return level, quintic_step(up), level


@kernel
def mix3(a: Vector, b: Vector, shares: Vector) -> Vector:
    """From ``a`` to ``b``, each coordinate by a share of its own."""
    return (
        a[0] + shares[0] * (b[0] - a[0]),
        a[1] + shares[1] * (b[1] - a[1]),
        a[2] + shares[2] * (b[2] - a[2]),
    )


@kernel
def predict_heel(foot: FootState, ankle: Vector, ball: Vector, heel: Vector, left: Vector) -> Vector:
    """Raw heel pad [m] of a foot whose ankle and ball will be there; ``heel`` and ``left`` are its vectors now."""
    along = unit(subtract3(row3(foot.origin, TOE), row3(foot.origin, ANKLE)))
    up = cross(along, left)
    f = subtract3(ball, ankle)
    then = unit(f)
    heading = atan2(f[0], f[2]) - atan2(foot.flat[0], foot.flat[1])
    across = rotate(yaw_rotation(heading), (1.0, 0.0, 0.0))
    across = unit(subtract3(across, scale3(dot(across, then), then)))
    over = cross(then, across)
    out = add3(ankle, scale3(dot(heel, along), then))
    out = add3(out, scale3(dot(heel, up) / max(dot(up, up), 1e-9), over))
    return add3(out, scale3(dot(heel, left), across))


@kernel
def lift_sole(foot: FootState, target: Vector, f: Vector, heel: Vector, ground: float, least: float) -> float:
    """How far [m] a foot in the air is raised for ``least`` [m] of clearance of heel, ball and tip of the toes."""
    ball = target[1] + f[1] - foot.toe_rest
    low = min(min(target[1] + heel[1], ball), target[1] + f[1] + foot.tip_up) - ground
    away = least - low
    blur = BLUR_M * foot.size * min(1.0, least / max(CLEARANCE_M * foot.size, 1e-9)) + 1e-9
    return soft_ramp(away, blur)


@kernel
def clear_floor(
    foot: FootState, target: Vector, turn: Quaternion, times: tuple[float, float], ground: float
) -> tuple[Vector, Quaternion]:
    """Ankle [m] and turn of a foot whose sole keeps a clearance in the middle of its swing.

    ``times`` [s] are those since it left and until it lands. The ankle bends as far as people's do, and the leg lifts
    what is left: a knee that lifts a hanging foot flexes and stretches faster than that of the gait.
    """
    since, until = times
    u = since / max(since + until, 1e-6)
    begun = quintic_step(max(since / CLEARANCE_S[0], u / CLEARANCE_PART[0]))
    grown = begun * quintic_step(max(until / CLEARANCE_S[1], (1.0 - u) / CLEARANCE_PART[1]))
    high = FLYING_CLEARANCE_M if foot.has_flown else CLEARANCE_M
    least, tip_share = high * foot.size * grown, grown * quintic_step(u / TIP_PART)
    W, W_toe = quaternion_at(foot.world, ANKLE), quaternion_at(foot.world, TOE)
    raw_f = subtract3(row3(foot.origin, TOE), row3(foot.origin, ANKLE))
    raw_heel, raw_tip = rotate(W, get3(foot.heel)), rotate(W_toe, get3(foot.tip))
    # Ball and tip are raised about the ankle.
    f = rotate(turn, raw_f)
    foot.tip_up = tip_share * rotate(turn, raw_tip)[1] - (1.0 - tip_share) * foot.toe_rest
    lift = lift_sole(foot, target, f, (0.0, 1.0, 0.0), ground, least)
    bend = lift / max(LEAST_LEVER_M * foot.size, sqrt(f[0] * f[0] + f[2] * f[2]))
    bend = DORSIFLEXION_RAD * bend / sqrt(DORSIFLEXION_RAD * DORSIFLEXION_RAD + bend * bend)
    # From ahead to up is against the lateral axis.
    turn = multiply(exp(scale3(-bend, unit(rotate(turn, rotate(W, get3(foot.lateral)))))), turn)
    foot.tip_up = tip_share * rotate(turn, raw_tip)[1] - (1.0 - tip_share) * foot.toe_rest
    lift = lift_sole(foot, target, rotate(turn, raw_f), rotate(turn, raw_heel), ground, least)
    return (target[0], target[1] + lift, target[2]), turn


@kernel
def update_hold(foot: FootState, side: int, dt: float, forecast: PlantForecast, options: PlantOptions) -> None:
    """Where the ankle of one foot shall be, and how the foot is turned, in this frame."""
    a, t = 2 * side, 2 * side + 1
    p_ankle, p_ball, W = row3(foot.origin, ANKLE), row3(foot.origin, TOE), quaternion_at(foot.world, ANKLE)
    raw_f, raw_heel = subtract3(p_ball, p_ankle), rotate(W, get3(foot.heel))
    ground = options.floor_y
    # What is held: as planned, but for a foot that was given up
    foot.ankle_barred = foot.ankle_barred and forecast.planted[a]
    foot.toe_barred = foot.toe_barred and forecast.planted[t]
    ankle_down = forecast.planted[a] and not foot.ankle_barred
    toe_down = forecast.planted[t] and not foot.toe_barred
    down, was_down = ankle_down or toe_down, foot.ankle_held or foot.toe_held
    first_s = 0.0 if down else min(forecast.until_s[a], forecast.until_s[t])
    left_foot = was_down and not down
    if left_foot:
        foot.has_flown = not (forecast.planted[2 - a] or forecast.planted[3 - a])
    foot.free_s = 0.0 if down or left_foot else foot.free_s + (dt if foot.is_alive else LONG_S)
    swing_s = max(foot.free_s + first_s, 1e-6)
    # Eases of this moment
    leave = quintic_step(foot.free_s / LEAVE_S)
    fade = 1.0 - quintic_step(foot.free_s / (FADE_PART * swing_s))
    come = 0.0 if down else quintic_step(1.0 - first_s / min(NOTICE_S, 0.6 * swing_s))
    foot.stood_s = foot.stood_s + dt if was_down else 0.0
    if not down:
        foot.arrive_s = ARRIVE_S + min(MOST_ARRIVE_S, ARRIVE_PART * max(0.0, swing_s - SHORT_SWING_S))
    slow_s = foot.arrive_s + REST_S
    landed_s = foot.stood_s if down else -first_s
    arrive = quintic_step((landed_s + foot.arrive_s) / slow_s)
    aside = (1.0 - arrive) * quintic_step((landed_s + ASIDE_S[0]) / (ASIDE_S[0] + ASIDE_S[1]))
    # Yaw: a foot that stands keeps its heading
    left = rotate(W, get3(foot.lateral))
    heading = atan2(-left[2], left[0])
    if down:
        if not was_down:
            foot.heading = heading + foot.yaw
        foot.yaw = wrap_angle(foot.heading - heading)
        foot.frozen_yaw = foot.yaw
    else:
        kept = (1.0 - leave) * wrap_angle(foot.heading - heading) + leave * foot.frozen_yaw
        foot.yaw = (fade * kept if foot.is_alive else 0.0) + come * forecast.toe_in[side]
    turned = rotate(yaw_rotation(foot.yaw), raw_f)
    # Tilt: a foot is laid flat from its landing on, and let go when its heel leaves.
    wanted, step = 1.0 if ankle_down else 0.0, dt / FLAT_S
    foot.flatness = wanted if not foot.is_alive else min(foot.flatness + step, max(foot.flatness - step, wanted))
    stood, foot_heading = foot.heading, heading + foot.yaw
    foot.heading = foot_heading
    flat = flat_foot_vector(foot, norm(raw_f))
    foot.heading = stood
    tilt = log(shortest_rotation(unit(turned), unit(flat)))
    rising = norm(tilt) if turned[1] < flat[1] else 0.0
    tilt = scale3(quintic_step(foot.flatness) * (1.0 - quintic_step(rising / HEEL_RISE_RAD)), tilt)
    set3(foot.tilt, tilt)
    turn = multiply(exp(tilt), yaw_rotation(foot.yaw))
    f, heel = rotate(turn, raw_f), rotate(turn, raw_heel)
    foot.sink_s = max(0.0, foot.sink_s - dt)
    if down:
        begin_hold(foot, ankle_down, toe_down, forecast, side, f, heel, ground)
        sink = 1.0 - quintic_step(1.0 - foot.sink_s / SINK_S)
        # A foot that has just landed goes on a little, and comes back.
        moving = subtract3(p_ball if foot.on_ball else add3(p_ankle, raw_heel), get3(foot.struck))
        moving = subtract3(scale3(1.0 - arrive, moving), scale3(aside, project_aside(moving, left)))
        moving = scale3(0.0 if foot.has_rolled else 1.0, moving)
        if foot.on_ball:
            foot.toe_goal[1] = ground + foot.toe_rest + sink * foot.rise
            stands = subtract3(get3(foot.toe_goal), f)
        else:
            foot.heel_goal[1] = ground + sink * foot.rise
            stands = subtract3(get3(foot.heel_goal), heel)
        # The ball is let go as the foot becomes steep: its correction comes back to what it was before.
        free = (0.0, 0.0, 0.0) if ankle_down else release_shares(foot, raw_f, options)
        foot.tip_least = TIP_M * foot.size * quintic_step(free[1] / TIP_SHARE)
        if free[1] > 0.0:
            loose = subtract3(add3(p_ball, get3(foot.frozen)), f)
            stands = mix3(stands, (loose[0], max(loose[1], stands[1]), loose[2]), free)
            off = OFF_M * foot.size * free[0] * run_share(options.ease_s)
            stands = (stands[0], stands[1] + soft_ramp(ground + foot.toe_rest + off - f[1] - stands[1], off), stands[2])
        else:
            set3(foot.frozen, subtract3(add3(stands, f), p_ball))
        if ankle_down:
            foot.steepest = 0.0
        target = add3(stands, moving)
        # What is not held must not be under the floor.
        away = ground - target[1] - (heel[1] if foot.on_ball else f[1] - foot.toe_rest)
        blur = TOUCH_M * foot.size
        lift = 0.5 * (away + sqrt(away * away + blur * blur))
        target = (target[0], target[1] + lift, target[2])
    else:
        if left_foot and not foot.on_ball:
            set3(foot.toe_goal, add3(subtract3(get3(foot.heel_goal), heel), f))
        free = release_shares(foot, raw_f, options)
        free = mix3(free, (1.0, 1.0, 1.0), (leave, leave, leave))
        foot.tip_least = TIP_M * foot.size * quintic_step(free[1] / TIP_SHARE) * (1.0 - come)
        # The ball of a turned foot goes on its raw path, but for what is left of the last stance, until its heel lands.
        loose = subtract3(raw_f, f)
        kept = subtract3(subtract3(get3(foot.toe_goal), p_ankle), raw_f)
        out = mix3(kept, get3(foot.frozen), free)
        target = add3(p_ankle, add3(scale3(1.0 - come, loose), scale3(fade if foot.is_alive else 0.0, out)))
        if first_s <= NOTICE_S:
            target = add3(target, approach_landing(foot, side, forecast, (come, arrive, aside), f, heel))
        # A ball that leaves does not go under the floor.
        off = OFF_M * foot.size * free[0] * (1.0 - come) * run_share(options.ease_s)
        lift = soft_ramp(ground + foot.toe_rest + off - target[1] - f[1], max(off, 2.0 * TOUCH_M * foot.size * leave))
        target = (target[0], target[1] + lift, target[2])
        target, turn = clear_floor(foot, target, turn, (foot.free_s, first_s), ground)
    set3(foot.target, target)
    set4(foot.turn, turn)
    if down:
        set3(foot.ankle_goal, target)
    foot.is_alive, foot.ankle_held, foot.toe_held = True, ankle_down, toe_down
    foot.ankle_ahead_s, foot.toe_ahead_s = forecast.until_s[a], forecast.until_s[t]


@kernel
def project_aside(way: Vector, left: Vector) -> Vector:
    """Part of a way over the ground that is across a foot whose left is ``left``."""
    across = unit((left[0], 0.0, left[2]))
    return scale3(dot(way, across), across)


@kernel
def approach_landing(
    foot: FootState, side: int, forecast: PlantForecast, eases: tuple[float, float, float], f: Vector, heel: Vector
) -> Vector:
    """What is added to the ankle [m] of a foot that lands: towards its goal, and to rest there."""
    a, t = 2 * side, 2 * side + 1
    come, arrive, aside = eases
    p_ankle, p_ball, W = row3(foot.origin, ANKLE), row3(foot.origin, TOE), quaternion_at(foot.world, ANKLE)
    raw_heel, left = rotate(W, get3(foot.heel)), rotate(W, get3(foot.lateral))
    land_ankle, land_ball = row3(forecast.landing, a), row3(forecast.landing, t)
    stand_ankle, stand_ball = add3(land_ankle, row3(forecast.shift, a)), add3(land_ball, row3(forecast.shift, t))
    ahead = unit((stand_ball[0] - stand_ankle[0], 0.0, stand_ball[2] - stand_ankle[2]))
    left_over = 1.0 - GOAL_PART
    turn = yaw_rotation(atan2(ahead[0], ahead[2]) - atan2(foot.flat[0], foot.flat[1]))
    if forecast.until_s[t] < forecast.until_s[a]:
        foot.rise = min(SINK_M * foot.size, max(0.0, land_ball[1] - foot.toe_rest))
        goal = (
            GOAL_PART * stand_ball[0] + left_over * land_ball[0],
            foot.toe_rest + foot.rise,
            GOAL_PART * stand_ball[2] + left_over * land_ball[2],
        )
        set3(foot.landing_goal, goal)
        now, then, own = p_ball, land_ball, f
        foot.on_ball = True
    else:
        back = rotate(turn, (0.0, 0.0, foot.heel_back))
        now, then, own = add3(p_ankle, raw_heel), predict_heel(foot, land_ankle, land_ball, raw_heel, left), heel
        foot.rise = min(SINK_M * foot.size, max(0.0, then[1]))
        goal = (
            GOAL_PART * (stand_ankle[0] + back[0]) + left_over * then[0],
            foot.rise,
            GOAL_PART * (stand_ankle[2] + back[2]) + left_over * then[2],
        )
        set3(foot.landing_goal, goal)
        foot.on_ball = False
    set3(foot.struck, then)
    # c + (C1 - c1) - own - p_ankle, and c1 - c
    towards = subtract3(subtract3(add3(now, subtract3(goal, then)), own), p_ankle)
    rest = subtract3(then, now)
    return add3(add3(scale3(come, towards), scale3(arrive, rest)), scale3(aside, project_aside(rest, left)))


@kernel
def begin_hold(
    foot: FootState, ankle_down: bool, toe_down: bool, forecast: PlantForecast, side: int, f: Vector, heel: Vector,
    ground: float,
) -> None:  # fmt: skip
    """Choose where heel or ball stay that come down now: at their goal, a foot's length from the other, or here."""
    p_ankle = row3(foot.origin, ANKLE)
    was_down = foot.ankle_held or foot.toe_held
    heel_first = forecast.planted[2 * side]
    announced = foot.is_alive and (foot.ankle_ahead_s if heel_first else foot.toe_ahead_s) < NOTICE_S
    if not was_down and not announced:
        # Nobody saw it coming: it stays where it was posed last, and comes down.
        ankle = get3(foot.target) if foot.is_alive else p_ankle
        set3(foot.heel_goal, add3(ankle, heel))
        set3(foot.toe_goal, add3(ankle, f))
        low = ankle[1] + f[1] - foot.toe_rest - ground if toe_down else ankle[1] + heel[1] - ground
        foot.rise, foot.sink_s = low if foot.is_alive else 0.0, SINK_S
        # It is at rest already.
        foot.on_ball, foot.stood_s = not ankle_down, 1.0
        raw_heel = rotate(quaternion_at(foot.world, ANKLE), get3(foot.heel))
        set3(foot.struck, row3(foot.origin, TOE) if foot.on_ball else add3(p_ankle, raw_heel))
        return
    if not was_down:
        foot.sink_s, foot.has_rolled = SINK_S, False
        set3(foot.toe_goal if foot.on_ball else foot.heel_goal, get3(foot.landing_goal))
    if not ankle_down and not foot.on_ball:
        # The heel leaves: the foot rolls on over its ball, from where that is.
        set3(foot.toe_goal, add3(subtract3(get3(foot.heel_goal), heel), f))
        foot.rise, foot.sink_s = max(0.0, foot.toe_goal[1] - foot.toe_rest - ground), SINK_S
        foot.on_ball, foot.has_rolled = True, True


TICK_S = 1.0 / 60.0  # [s] between the moments at which plants are worked out
NUM_TICKS = 6  # corrections that are kept, three of them ahead of what is shown
TICKS_AHEAD = 3
BENT_LEG = (
    0.99,
    0.985,
)  # [-] extension of a leg bent by 16 and 20 degrees, in a walk and in a run: the pelvis gives beyond it
FORGET_S = 2.0  # [s] in which a standing leg forgets how far the hip was too high
LANDING_S = 0.08  # [s] before it lands, a leg counts as one that stands
DROP_HALF_S = 0.15  # [s] in which half of a lowering is done
DROP_PART = 0.04  # [-] of the leg: the most that the pelvis is lowered


TickWeights = tuple[float, float, float, float, float, float]


@kernel
def tick_weights(u: float) -> TickWeights:
    """Weights of six corrections, the third of which is ``u`` ticks past: a cubic B-spline over means 1, 2, 1 of three.

    A spline of the corrections is twice differentiable in time whatever they are, and depends on no frame rate.
    """
    v = 1.0 - u
    a, d = v * v * v / 24.0, u * u * u / 24.0
    b, c = (3.0 * u * u * u - 6.0 * u * u + 4.0) / 24.0, (3.0 * v * v * v - 6.0 * v * v + 4.0) / 24.0
    return a, b + 2.0 * a, a + 2.0 * b + c, b + 2.0 * c + d, c + 2.0 * d, d


@kernel
def hold_tick(
    forecast: PlantForecast, options: PlantOptions, legs: LegArrays, state: PlantState, root: FloatArray,
    rotations: FloatArray,
) -> None:  # fmt: skip
    """Work out the corrections of both feet at the next tick, ``TICK_S`` after the last.

    Args:
        forecast: what is down then, and what lands where and when; both rows of a foot's landing are of one moment.
        options: floor and size.
        legs: of the skeleton.
        state: zeros before the first tick.
        root: ``(3,)`` [m] raw position of the root then.
        rotations: ``(J, 4)`` raw local rotations then.
    """
    bent = BENT_LEG[0] + run_share(options.ease_s) * (BENT_LEG[1] - BENT_LEG[0])
    p_root, drop, was_alive = get3(root), state.root_drop[0], state.feet[0].is_alive
    for side in range(2):
        foot, was_down = state.feet[side], state.feet[side].ankle_held or state.feet[side].toe_held
        write_leg_frames(foot, side, p_root, rotations, legs, options.scale)
        write_foot_measures(foot, side, options.scale, legs)
        update_hold(foot, side, TICK_S, forecast, options)
        # How far the hip is too high for a leg that stands or soon will: as straight as the raw one, or nearly so
        hip, ankle, target = row3(foot.origin, HIP), row3(foot.origin, ANKLE), get3(foot.target)
        reach, soft, _ = leg_extension(foot)
        is_down = foot.ankle_held or foot.toe_held
        if is_down or min(foot.ankle_ahead_s, foot.toe_ahead_s) < LANDING_S:
            if is_down and not was_down:
                foot.stance_drop, foot.needed_drop = foot.needed_drop, 0.0
            far = max(norm(subtract3(ankle, hip)), bent * reach)
            dx, dz = target[0] - hip[0], target[2] - hip[2]
            height = sqrt(max(far * far - dx * dx - dz * dz, 0.0))
            needed = max(0.0, hip[1] - target[1] - height)
            foot.needed_drop = max(foot.needed_drop * (1.0 - TICK_S / FORGET_S), needed)
        # A heel over a planted ball rises as far as the leg needs.
        if foot.toe_held and foot.on_ball:
            raise_heel(foot, (hip[0], hip[1] - drop, hip[2]), soft * reach)
        if (foot.ankle_held or foot.toe_held) and abs(foot.yaw) > TWIST_RAD:
            foot.ankle_barred, foot.toe_barred = True, True
        least_y = options.floor_y + foot.tip_least
        needed, _ = needed_toe_bend(foot, side, get3(foot.target), get4(foot.turn), least_y, legs)
        relax_toe_bend(foot, needed, TICK_S)
        # The rings move on by one; the first tick fills them.
        shift, turn = subtract3(get3(foot.target), row3(foot.origin, ANKLE)), log(get4(foot.turn))
        for k in range(NUM_TICKS):
            if k == NUM_TICKS - 1 or not was_alive:
                set3(foot.shifts[k], shift)
                set3(foot.turns[k], turn)
                foot.bends[k] = foot.toe_bend
            else:
                set3(foot.shifts[k], row3(foot.shifts, k + 1))
                set3(foot.turns[k], row3(foot.turns, k + 1))
                foot.bends[k] = foot.bends[k + 1]

    # The pelvis is lowered as the last steps asked for, critically damped: constant in a steady gait.
    asked = 0.0
    for side in range(2):
        asked = max(asked, max(state.feet[side].needed_drop, state.feet[side].stance_drop))
    asked = min(asked, DROP_PART * options.scale * min(legs.reach[0], legs.reach[1]))
    omega, away, rate = 1.678 / DROP_HALF_S, state.root_drop[0] - asked, state.root_drop[1]
    push, fade = rate + omega * away, e ** (-omega * TICK_S)
    state.root_drop[0] = asked + (away + push * TICK_S) * fade if was_alive else asked
    state.root_drop[1] = (rate - push * omega * TICK_S) * fade if was_alive else 0.0
    for k in range(NUM_TICKS):
        latest = k == NUM_TICKS - 1 or not was_alive
        state.drops[k] = state.root_drop[0] if latest else state.drops[k + 1]


@kernel
def move_root(
    weights: TickWeights, options: PlantOptions, legs: LegArrays, state: PlantState, root: FloatArray,
    rotations: FloatArray,
) -> Vector:  # fmt: skip
    r"""Lower a root as far as the legs need, and write the frames of the raw legs; returns how far it moved [m].

    The centre of mass of a runner goes on the path that gravity and the forces of its stances ask for. Knees and ankles
    that are moved by :math:`\delta_k` and :math:`\delta_a` take it off that path, and the root takes it back, by

    .. math:: -(1 + \epsilon) \sum (m_k \delta_k + m_a \delta_a)

    with masses :math:`m` of the body ([DeLeva1996]_) and :math:`\epsilon` for legs that go along in part.
    """
    move = (0.0, 0.0, 0.0)
    for k in range(NUM_TICKS):
        move = (0.0, move[1] - weights[k] * state.drops[k], 0.0)
    lowered, sway, run = add3(get3(root), move), (0.0, 0.0, 0.0), run_share(options.ease_s)
    for side in range(2):
        foot = state.feet[side]
        write_leg_frames(foot, side, lowered, rotations, legs, options.scale)
        if run > 0.0:
            target, _, _ = read_ticks(foot, weights, move)
            hip, knee, ankle = row3(foot.origin, HIP), row3(foot.origin, KNEE), row3(foot.origin, ANKLE)
            pole = rotate(quaternion_at(foot.world, HIP), row3(legs.pole, side))
            upper, _, reached = solve_leg(hip, knee, ankle, target, pole)
            thigh = subtract3(knee, hip)
            sway = subtract3(sway, scale3(run * KNEE_MASS, subtract3(rotate(upper, thigh), thigh)))
            sway = subtract3(sway, scale3(run * ANKLE_MASS, subtract3(reached, ankle)))
    if run > 0.0:
        for foot in state.feet:
            for j in range(4):
                set3(foot.origin[j], add3(row3(foot.origin, j), sway))
    set3(root, add3(lowered, sway))
    return add3(move, sway)


@kernel
def read_ticks(foot: FootState, weights: TickWeights, move: Vector) -> tuple[Vector, Quaternion, float]:
    """Target of an ankle [m], turn of its foot and bend [rad] of its toes, between ticks; the root was moved."""
    target, tilt, bend = subtract3(row3(foot.origin, ANKLE), move), (0.0, 0.0, 0.0), 0.0
    for k in range(NUM_TICKS):
        target = add3(target, scale3(weights[k], row3(foot.shifts, k)))
        tilt = add3(tilt, scale3(weights[k], row3(foot.turns, k)))
        bend += weights[k] * foot.bends[k]
    return target, exp(tilt), bend


@kernel
def finish_foot(
    foot: FootState, side: int, planted: BoolArray, options: PlantOptions,
    posed: tuple[Vector, float, Quaternion, float], legs: LegArrays, rotations: FloatArray,
) -> int:  # fmt: skip
    """Bend the toes of a leg that is posed, and return the bits of its contacts.

    ``posed`` are the ankle reached and its miss [m], the turn of the foot and the least bend [rad] of its toes.
    """
    ankle, miss, turn, bend = posed
    needed, axis = needed_toe_bend(foot, side, ankle, turn, options.floor_y, legs)
    bend_toes(foot, side, turn, axis, max(needed, bend), legs, rotations)
    heel = rotate(multiply(turn, quaternion_at(foot.world, ANKLE)), get3(foot.heel))
    is_up = ankle[1] + heel[1] - options.floor_y > HEEL_UP_M * options.scale
    # Contacts are those of the plan, kept or not; a heel that has risen with the gait is not down.
    flags = 1 << (2 * side) if planted[2 * side] and not is_up else 0
    flags |= 2 << (2 * side) if planted[2 * side + 1] else 0
    held = planted[2 * side] or planted[2 * side + 1]
    if held and (foot.ankle_barred or foot.toe_barred or miss > BROKEN_M * options.scale):
        flags |= 16 << side
    return flags


@kernel
def hold_frame(
    u: float, planted: BoolArray, options: PlantOptions, legs: LegArrays, state: PlantState, root: FloatArray,
    rotations: FloatArray,
) -> int:  # fmt: skip
    """Hold the feet of one character in one frame, in place and without allocating.

    Args:
        u: ticks since the last one, of which ``TICKS_AHEAD`` more have been worked out.
        planted: ``(4,)`` which effectors are planned to stand now.
        options: floor and size.
        legs: of the skeleton.
        state: with its ticks worked out.
        root: ``(3,)`` [m] raw position of the root; lowered as far as the legs need.
        rotations: ``(J, 4)`` raw local rotations; those of the legs are changed.

    Returns:
        Bits 0-3: effector is planned to stand. Bits 4, 5: a plant of the right, left foot is not kept.
    """
    flags, weights = 0, tick_weights(u)
    move = move_root(weights, options, legs, state, root, rotations)
    for side in range(2):
        foot = state.feet[side]
        target, turn, bend = read_ticks(foot, weights, move)
        ankle, miss = pose_leg(foot, side, target, turn, legs, rotations)
        flags |= finish_foot(foot, side, planted, options, (ankle, miss, turn, bend), legs, rotations)
    return flags


@kernel
def pose_feet(
    scale: float, legs: LegArrays, ankles: FloatArray, turns: FloatArray, root: FloatArray, rotations: FloatArray
) -> None:
    """Bring both ankles to ``(2, 3)`` [m] and turn the feet by ``(2, 4)`` wxyz, in place; right first."""
    state = np.empty(1, dtype=FOOT_RECORD)
    for side in range(2):
        write_leg_frames(state[0], side, get3(root), rotations, legs, scale)
        pose_leg(state[0], side, row3(ankles, side), quaternion_at(turns, side), legs, rotations)

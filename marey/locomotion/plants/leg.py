"""Compiled kinematics of one leg and its foot: frames, measures, a heel that rises, the pose of both."""

from __future__ import annotations

from math import acos, atan2, cos, exp, sin, sqrt

from marey.base import FloatArray, kernel
from marey.lie.kernels import (
    Quaternion,
    Vector,
    add3,
    conjugate,
    cross,
    dot,
    log,
    multiply,
    norm,
    perpendicular,
    quaternion_at,
    rotate,
    row3,
    scale3,
    shortest_rotation,
    subtract3,
    unit,
    write_rotation,
)
from marey.lie.kernels import exp as rotation_exp
from marey.locomotion.plants.state import ANKLE, HIP, KNEE, TOE, FootState, LegArrays

SOFTNESS = 3.0  # [-] saturation starts this part of the last stretch before the largest extension
MAX_LEG_EXTENSION = 0.9985  # [-] largest extension of a leg: beyond it a knee snaps straight ([Glardon2005]_ §III.2.4)
MARGIN_RAD = 0.05  # [rad] over which a heel that must rise takes over from one that rises
MAX_HEEL_RAD = 1.4  # [rad] a foot stands on its toe no steeper than this
STRAIGHT_LEG = 0.9999  # [-] as straight as a captured leg is taken to be
TOE_RETURN_S = 0.05  # [s] bent toes stretch by half in 0.035 s ...
TOE_RETURN_RADPS = 5.0  # [rad/s] ... but no faster than 290 degrees/s
WEAK_BEND = 0.08  # [-] of the thigh: the plane of a knee that bends less is undefined


@kernel
def yaw_rotation(angle: float) -> Quaternion:
    """Rotation about the vertical; positive to the left."""
    return cos(0.5 * angle), 0.0, sin(0.5 * angle), 0.0


@kernel
def joint_in_world(
    j: int, top: int, origin: Vector, world: Quaternion, legs: LegArrays, scale: float, rotations: FloatArray
) -> tuple[Vector, Quaternion, Quaternion]:
    """Origin of joint ``j``, world rotations of its parent and of itself, from those of its ancestor ``top``."""
    # Up the chain from the joint: its origin and the rotation of its parent in the frame of `top`.
    p, q = scale3(scale, row3(legs.offsets, j)), (1.0, 0.0, 0.0, 0.0)
    k = int(legs.parents[j])
    while k > top:
        r = quaternion_at(rotations, k)
        p = add3(scale3(scale, row3(legs.offsets, k)), rotate(r, p))
        q = multiply(r, q)
        k = int(legs.parents[k])
    above = multiply(world, q)
    return add3(origin, rotate(world, p)), above, multiply(above, quaternion_at(rotations, j))


@kernel
def saturate_length(length: float, soft: float, limit: float) -> float:
    """``length`` up to ``soft``, then bending over smoothly (C1) so that it never passes ``limit``."""
    if length <= soft:
        return length
    return soft + (limit - soft) * (1.0 - exp(-(length - soft) / (limit - soft)))


@kernel
def saturation_limits(extension: float) -> tuple[float, float]:
    """Start and end of the saturation as leg extensions, at least the present extension."""
    limit = min(max(1.0 - (1.0 - extension) / (1.0 + SOFTNESS), MAX_LEG_EXTENSION), STRAIGHT_LEG)
    return 1.0 - (1.0 + SOFTNESS) * (1.0 - limit), limit


@kernel
def rotation_between_frames(a: Vector, n: Vector, b: Vector, m: Vector) -> Quaternion:
    """Rotation that takes unit vector ``a`` to ``b``, and ``n``, across ``a``, to ``m``, across ``b``."""
    first = shortest_rotation(a, b)
    n = rotate(first, n)
    n = unit(subtract3(n, scale3(dot(n, b), b)))
    m = unit(subtract3(m, scale3(dot(m, b), b)))
    return multiply(shortest_rotation(n, m), first)


@kernel
def bend_direction(k: Vector, a: Vector, thigh: float, pole: Vector) -> Vector:
    """Where the knee points, across the line ``a`` from hip to ankle; a straight one points along the pole."""
    bend = subtract3(k, scale3(dot(a, k), a))
    hint = subtract3(pole, scale3(dot(a, pole), a))
    hint = unit(hint) if norm(hint) > 1e-6 else perpendicular(a)
    # A captured knee that is bent backwards by its noise is no knee: that part of the bend is left out.
    bend = subtract3(bend, scale3(min(0.0, dot(bend, hint)), hint))
    weak = max(0.0, 1.0 - norm(bend) / (WEAK_BEND * thigh))
    return unit(add3(bend, scale3(thigh * (0.25 * WEAK_BEND * weak * weak + 1e-12), hint)))


@kernel
def solve_leg(
    hip: Vector, knee: Vector, ankle: Vector, target: Vector, pole: Vector
) -> tuple[Quaternion, Quaternion, Vector]:
    r"""Turns of thigh and shank that put the ankle on its target, in the knee's own plane ([Glardon2005]_ §III.2.4).

    .. math:: \cos\alpha = \frac{l_1^2 + L^2 - l_2^2}{2 l_1 L}

    with :math:`L` the distance to the target, saturated before the knee snaps. Also returns the ankle reached.
    """
    k, s, a = subtract3(knee, hip), subtract3(ankle, knee), subtract3(ankle, hip)
    l1, l2 = norm(k), norm(s)
    total = l1 + l2
    g = subtract3(target, hip)
    far = norm(g)
    # The distance to the target saturates before the knee snaps straight.
    soft, limit = saturation_limits(norm(a) / total)
    a = unit(a) if norm(a) > 1e-9 * total else unit(k)
    g = scale3(1.0 / far, g) if far > 1e-9 * total else a
    length = max(saturate_length(far, soft * total, limit * total), abs(l1 - l2) + 1e-6 * total)
    # The knee's own plane turns with the line from hip to ankle.
    bend = bend_direction(k, a, l1, pole)
    bent = rotate(shortest_rotation(a, g), bend)
    # Law of cosines at the hip, with the knee on the side of `bent`
    cosine = min(1.0, max(-1.0, (l1 * l1 + length * length - l2 * l2) / (2.0 * l1 * length)))
    k_new = add3(scale3(l1 * cosine, g), scale3(l1 * sqrt(1.0 - cosine * cosine), bent))
    s_new = subtract3(scale3(length, g), k_new)
    # Thigh and shank turn with their planes, so that no twist about the bones is added.
    n, m = cross(a, bend), cross(g, bent)
    upper = rotation_between_frames(unit(k), n, unit(k_new), m)
    lower = rotation_between_frames(unit(s), n, unit(s_new), m)
    return upper, lower, add3(hip, scale3(length, g))


@kernel
def get3(values: FloatArray) -> Vector:
    """Three numbers of an array."""
    return values[0], values[1], values[2]


@kernel
def set3(out: FloatArray, value: Vector) -> None:
    """Write three numbers into an array."""
    out[0], out[1], out[2] = value


@kernel
def get4(values: FloatArray) -> Quaternion:
    """Four numbers of an array."""
    return values[0], values[1], values[2], values[3]


@kernel
def set4(out: FloatArray, value: Quaternion) -> None:
    """Write four numbers into an array."""
    out[0], out[1], out[2], out[3] = value


@kernel
def write_leg_frames(
    foot: FootState, side: int, root: Vector, rotations: FloatArray, legs: LegArrays, scale: float
) -> None:
    """Write origin, world rotation of the parent and own world rotation of hip, knee, ankle and toe into the state."""
    top, origin, world = 0, root, quaternion_at(rotations, 0)
    for j in range(4):
        joint = legs.joints[side, j]
        origin, above, world = joint_in_world(joint, top, origin, world, legs, scale, rotations)
        set3(foot.origin[j], origin)
        set4(foot.above[j], above)
        set4(foot.world[j], world)
        top = joint


@kernel
def leg_extension(foot: FootState) -> tuple[float, float, float]:
    """Length of thigh and shank [m] of a raw leg, and where saturation starts and ends, as parts of it."""
    hip, knee, ankle = row3(foot.origin, HIP), row3(foot.origin, KNEE), row3(foot.origin, ANKLE)
    reach = norm(subtract3(knee, hip)) + norm(subtract3(ankle, knee))
    soft, limit = saturation_limits(norm(subtract3(ankle, hip)) / reach)
    return reach, soft, limit


@kernel
def pose_leg(
    foot: FootState, side: int, target: Vector, turn: Quaternion, legs: LegArrays, rotations: FloatArray
) -> tuple[Vector, float]:
    """Move the ankle to ``target`` and turn the foot by ``turn`` against the raw pose.

    The state holds the frames of the raw leg. Returns the ankle reached and the miss [m].
    """
    W_hip, W_knee, W_ankle = (
        quaternion_at(foot.world, HIP),
        quaternion_at(foot.world, KNEE),
        quaternion_at(foot.world, ANKLE),
    )
    pole = rotate(W_hip, row3(legs.pole, side))
    upper, lower, reached = solve_leg(
        row3(foot.origin, HIP), row3(foot.origin, KNEE), row3(foot.origin, ANKLE), target, pole
    )
    # R_parent_joint = R_world_parent^-1 R_world_joint: the parents of knee and ankle turn with thigh and shank.
    above_hip = quaternion_at(foot.above, HIP)
    above_knee = multiply(upper, quaternion_at(foot.above, KNEE))
    above_ankle = multiply(lower, quaternion_at(foot.above, ANKLE))
    hip, knee, ankle = legs.joints[side, HIP], legs.joints[side, KNEE], legs.joints[side, ANKLE]
    write_rotation(rotations[hip], multiply(conjugate(above_hip), multiply(upper, W_hip)))
    write_rotation(rotations[knee], multiply(conjugate(above_knee), multiply(lower, W_knee)))
    write_rotation(rotations[ankle], multiply(conjugate(above_ankle), multiply(turn, W_ankle)))
    return reached, norm(subtract3(reached, target))


@kernel
def needed_toe_bend(
    foot: FootState, side: int, ankle: Vector, turn: Quaternion, floor_y: float, legs: LegArrays
) -> tuple[float, Vector]:
    """Angle [rad] by which toes must bend whose end would be under the floor, and the foot's lateral axis."""
    toe = add3(ankle, rotate(turn, subtract3(row3(foot.origin, TOE), row3(foot.origin, ANKLE))))
    W_toe = multiply(turn, quaternion_at(foot.world, TOE))
    axis = rotate(multiply(turn, quaternion_at(foot.world, ANKLE)), row3(legs.lateral, side))
    tip = rotate(W_toe, scale3(foot.size, row3(legs.tip, side)))
    return toe_clearance_angle(tip, axis, floor_y - toe[1]), axis


@kernel
def relax_toe_bend(foot: FootState, needed: float, dt: float) -> None:
    """Toes bent more than needed [rad] stretch exponentially, but no faster than the limit."""
    slack = max(0.0, foot.toe_bend - needed)
    foot.toe_bend = needed + max(slack * exp(-dt / TOE_RETURN_S), slack - TOE_RETURN_RADPS * dt)


@kernel
def bend_toes(
    foot: FootState, side: int, turn: Quaternion, axis: Vector, bend: float, legs: LegArrays, rotations: FloatArray
) -> None:
    """Bend the toes of a turned foot up about its lateral axis by an angle [rad]."""
    if bend > 1e-9:
        above, W_toe = multiply(turn, quaternion_at(foot.above, TOE)), multiply(turn, quaternion_at(foot.world, TOE))
        half = -0.5 * bend  # from ahead to up is against the lateral axis
        bent = multiply((cos(half), sin(half) * axis[0], sin(half) * axis[1], sin(half) * axis[2]), W_toe)
        write_rotation(rotations[legs.joints[side, TOE]], multiply(conjugate(above), bent))


@kernel
def toe_clearance_angle(tip: Vector, axis: Vector, lowest: float) -> float:
    """Angle [rad] by which a vector must turn up about ``axis``, which points left, to rise to ``lowest`` [m]."""
    if tip[1] >= lowest:
        return 0.0
    ahead = unit(cross(axis, (0.0, 1.0, 0.0)))
    up = cross(ahead, axis)
    u, v = dot(tip, ahead), dot(tip, up)
    size = sqrt(u * u + v * v) * up[1]
    if size < 1e-9:
        return 0.0
    sine = min(1.0, max(-1.0, (lowest - dot(tip, axis) * axis[1]) / size))
    return min(1.5, max(0.0, atan2(sine, sqrt(1.0 - sine * sine)) - atan2(v, u)))


@kernel
def heel_rise_angle(hip: Vector, toe: Vector, ahead: Vector, foot: float, reach: float) -> float:
    r"""Smallest angle [rad] by which a foot on its toe must rise for its ankle to be within ``reach`` of the hip.

    With :math:`D` from toe to hip and the foot :math:`f = l(\cos\varphi\,u - \sin\varphi\,y)`, the ankle is at
    :math:`T - f`, so :math:`\|D + f\|^2 \le r^2` means :math:`\cos(\varphi + \beta) \le c`.
    """
    d = subtract3(hip, toe)
    along, size = dot(d, ahead), dot(d, d)
    k, beta = sqrt(along * along + d[1] * d[1]), atan2(d[1], along)
    c = (reach * reach - size - foot * foot) / (2.0 * foot * max(k, 1e-9))
    return acos(min(1.0, max(-1.0, c))) - beta


@kernel
def write_foot_measures(foot: FootState, side: int, scale: float, legs: LegArrays) -> None:
    """Copy what the other kernels need of a foot into its state, in the size of the character."""
    foot.ankle_rest, foot.toe_rest, foot.size = scale * legs.rest[2 * side], scale * legs.rest[2 * side + 1], scale
    flat = unit((legs.foot[side, 0], 0.0, legs.foot[side, 2]))
    foot.flat[0], foot.flat[1] = flat[0], flat[2]
    set3(foot.lateral, row3(legs.lateral, side))
    set3(foot.heel, scale3(scale, row3(legs.heel, side)))
    set3(foot.tip, scale3(scale, row3(legs.tip, side)))
    foot.heel_back = scale * legs.heel[side, 2]


@kernel
def flat_foot_vector(foot: FootState, length: float) -> Vector:
    """Ankle to toe [m] of a foot that lies flat along its heading."""
    rise = foot.toe_rest - foot.ankle_rest
    along = sqrt(max(length * length - rise * rise, 0.0))
    ahead = rotate(yaw_rotation(foot.heading), (foot.flat[0], 0.0, foot.flat[1]))
    return along * ahead[0], rise, along * ahead[2]


@kernel
def raise_heel(foot: FootState, hip: Vector, reach: float) -> None:
    """Let a foot on its toe roll so far that its ankle is within ``reach`` [m] of the hip; keeps the turn."""
    target, toe = get3(foot.target), get3(foot.toe_goal)
    f0 = subtract3(row3(foot.origin, TOE), row3(foot.origin, ANKLE))
    f = subtract3(toe, target)
    length = norm(f)
    ahead = unit((f[0], 0.0, f[2]))
    angle = atan2(-f[1], sqrt(f[0] * f[0] + f[2] * f[2]))
    needed = min(MAX_HEEL_RAD, heel_rise_angle(hip, toe, ahead, length, reach))
    gap = angle - needed
    if gap >= MARGIN_RAD:
        return
    # A parabola over the margin joins the heel that rises with the one that must.
    raised = needed + (0.25 * (gap + MARGIN_RAD) ** 2 / MARGIN_RAD if gap > -MARGIN_RAD else 0.0)
    half = yaw_rotation(min(raised, MAX_HEEL_RAD))
    c, s = half[0] * half[0] - half[2] * half[2], 2.0 * half[0] * half[2]
    f = (length * c * ahead[0], -length * s, length * c * ahead[2])
    set3(foot.tilt, log(shortest_rotation(unit(rotate(yaw_rotation(foot.yaw), f0)), unit(f))))
    turn = multiply(rotation_exp(get3(foot.tilt)), yaw_rotation(foot.yaw))
    set3(foot.target, subtract3(toe, f))
    set4(foot.turn, multiply(shortest_rotation(unit(rotate(turn, f0)), unit(f)), turn))

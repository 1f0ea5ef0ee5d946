"""Compiled foot plants: measures of a foot, the flat foot, and the heel that rises over a planted toe."""

from __future__ import annotations

from math import atan2, sqrt

from marey.base import kernel
from marey.lie.kernels import (
    Vector,
    exp,
    log,
    multiply,
    norm,
    rotate,
    row3,
    scale3,
    shortest_rotation,
    subtract3,
    unit,
)
from marey.locomotion.plants.leg import get3, heel_rise_angle, set3, set4, yaw_rotation
from marey.locomotion.plants.state import ANKLE, TOE, FootState, LegArrays

MARGIN_RAD = 0.05  # [rad] over which a heel that must rise takes over from one that rises
MAX_HEEL_RAD = 1.4  # [rad] a foot stands on its toe no steeper than this


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
    turn = multiply(exp(get3(foot.tilt)), yaw_rotation(foot.yaw))
    set3(foot.target, subtract3(toe, f))
    set4(foot.turn, multiply(shortest_rotation(unit(rotate(turn, f0)), unit(f)), turn))

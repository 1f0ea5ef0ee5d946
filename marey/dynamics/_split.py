"""How two feet share what the ground gives: underdetermined in double support, settled by a rule with a name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, UnknownNameError, frozen
from marey.dynamics._cones import shift_wrench
from marey.dynamics._supports import LIMBS, Supports

if TYPE_CHECKING:
    from marey.dynamics._inverse import InverseDynamics

RULES: Final = ("alpha", "cone", "torque")
MIN_NORMAL: Final = 1e-6  # [-] of the largest normal force: below it there is no centre of pressure


@dataclass(frozen=True, slots=True, eq=False)
class SupportSplit:
    """Force and moment of each limb on the ground; they add up to the wrench wherever a limb touches."""

    forces: FloatArray  # (F, L, 3) [N]
    places: FloatArray  # (F, L, 3) [m] where each force acts: the centre of pressure of the limb
    moments: FloatArray  # (F, L, 3) [N m] left over, about the place
    share: FloatArray  # (F,) part of the force that the first limb carries

    def total(self) -> FloatArray:
        """The wrench ``(F, 6)`` that they add up to, about the world origin."""
        moments = np.cross(self.places, self.forces) + self.moments
        return np.concatenate([self.forces.sum(axis=1), moments.sum(axis=1)], axis=-1)


def compute_centre_of_pressure(wrenches: FloatArray, floor_m: float = 0.0) -> tuple[FloatArray, BoolArray]:
    r"""Where on the level floor the force acts ``(F, 3)`` [m], and whether there is such a place ``(F,)``.

    .. math:: x = (n_z + y f_x)/f_y,\qquad z = -(n_x - y f_z)/f_y

    with y the height of the floor, so that :math:`p\times f = n` but for the moment about the normal.

    Without a normal force the place is the origin of the floor.
    """
    force, moment = shift_wrench(wrenches, (0.0, floor_m, 0.0))
    normal = force[:, 1]
    exists = np.abs(normal) > MIN_NORMAL * max(float(np.abs(force).max(initial=0.0)), 1e-12)
    safe = np.where(exists, normal, 1.0)
    x, z = moment[:, 2] / safe, -moment[:, 0] / safe
    places = np.stack([x, np.full(len(x), floor_m), z], axis=1)
    return np.where(exists[:, None], places, [0.0, floor_m, 0.0]), exists


def split_by_pressure(
    wrenches: FloatArray, first: FloatArray, second: FloatArray, touching: BoolArray, floor_m: float = 0.0
) -> SupportSplit:
    r"""Share a wrench between two feet by where the centre of pressure lies ([Safonova2006]_ §3.1.3, F10).

    :math:`\alpha\in[0,1]` is the centre of pressure of the whole, projected on the line between the middles of the two
    soles (one over the first), :math:`f_1 = \alpha f`, :math:`f_2 = (1-\alpha) f`; each acts at the point of its sole
    nearest to the whole centre of pressure, and the moment left over is shared in the same ratio.

    Args:
        wrenches: ``(F, 6)`` force [N] and moment about the world origin [N m].
        first: corners of the first sole ``(F, C, 3)`` [m].
        second: those of the second.
        touching: whether each foot touches ``(F, 2)``; where one does it carries all, where none does nobody carries.
        floor_m: height of the floor [m].
    """
    wanted = frozen(wrenches, None, 6, name="wrenches")
    places, _ = compute_centre_of_pressure(wanted, floor_m)
    middles = [corners.mean(axis=1) for corners in (first, second)]
    share = _force_fractions(places, middles[0], middles[1], touching)
    acts = np.stack([project_on_sole(places, corners) for corners in (first, second)], axis=1)
    parts = np.stack([share, np.where(touching.any(axis=1), 1.0 - share, 0.0)], axis=1)
    forces = parts[..., None] * wanted[:, None, :3]
    left = wanted[:, 3:] - np.cross(acts, forces).sum(axis=1)
    return SupportSplit(forces, acts, parts[..., None] * left[:, None], share)


def _force_fractions(places: FloatArray, first: FloatArray, second: FloatArray, touching: BoolArray) -> FloatArray:
    """Part of the first foot ``(F,)``: one or zero on one foot, by the rule on both."""
    line = first - second
    length = np.maximum((line**2).sum(axis=-1), 1e-12)
    along = np.clip(((places - second) * line).sum(axis=-1) / length, 0.0, 1.0)
    return np.where(touching.all(axis=1), along, touching[:, 0].astype(np.float64))


def project_on_sole(places: FloatArray, corners: FloatArray) -> FloatArray:
    """Point of each sole nearest to a place ``(F, 3)``, taking the sole as the box around its corners ``(F, C, 3)``.

    The box is lined up with the first and last corner pair, heel to toe.
    """
    ahead = corners[:, -2:].mean(axis=1) - corners[:, :2].mean(axis=1)
    ahead = ahead * [1.0, 0.0, 1.0]
    ahead = ahead / np.maximum(np.linalg.norm(ahead, axis=-1, keepdims=True), 1e-9)
    across = np.cross([0.0, 1.0, 0.0], ahead)
    middle = corners.mean(axis=1)
    found = middle.copy()
    for axis in (ahead, across):
        reach = ((corners - middle[:, None]) * axis[:, None]).sum(axis=-1)
        along = np.clip(((places - middle) * axis).sum(axis=-1), reach.min(axis=1), reach.max(axis=1))
        found = found + along[:, None] * axis
    return found


def split_support(
    wrenches: FloatArray,
    supports: Supports,
    *,
    rule: str = "alpha",
    corner_forces: FloatArray | None = None,
    dynamics: InverseDynamics | None = None,
) -> SupportSplit:
    """Share a wrench between the limbs that touch, in the order of ``LIMBS``.

    Args:
        wrenches: ``(F, 6)``.
        supports: from ``find_supports``.
        rule: ``"alpha"`` shares between the feet by the centre of pressure; ``"cone"`` takes the forces of the
            corners that the nearest wrench in the friction cones is made of, which hands need too; ``"torque"`` is the
            quadratic programme of :func:`split_least_torque`.
        corner_forces: forces ``(F, P, 3)`` [N] at the corners, for ``"cone"`` and ``"torque"``.
        dynamics: for ``"torque"``.

    Raises:
        UnknownNameError: there is no such rule.
    """
    if rule not in RULES:
        raise UnknownNameError("rule", rule, "split_support", RULES)
    if rule != "alpha":
        if corner_forces is None or (rule == "torque" and dynamics is None):
            raise InputError(f"the {rule} rule needs the forces at the corners", "Give corner_forces and dynamics")
        return _split_corners(supports, corner_forces, dynamics if rule == "torque" else None)
    feet = [supports.points[:, supports.limbs == limb] for limb in (0, 1)]
    if not all(corners.shape[1] for corners in feet):
        raise InputError("this body does not have two feet", 'Use rule="cone"')
    return split_by_pressure(wrenches, feet[0], feet[1], find_loaded_feet(supports), supports.floor_m)


def find_loaded_feet(supports: Supports) -> BoolArray:
    """Which feet carry ``(F, 2)``: those that touch, and where none does those that may within the timing slack."""
    touch = np.stack([supports.limb_active(limb, slack=False) for limb in (0, 1)], axis=1)
    near = np.stack([supports.limb_active(limb) for limb in (0, 1)], axis=1)
    return np.where(touch.any(axis=1, keepdims=True), touch, near)


def split_limbs(wrenches: FloatArray, supports: Supports, corner_forces: FloatArray) -> SupportSplit:
    """Share a wrench between all of ``LIMBS``: by the alpha rule while only feet touch, else by their corners."""
    split = sum_corners(supports, corner_forces)
    if not all((supports.limbs == limb).any() for limb in (0, 1)):
        return split
    feet = split_support(wrenches, supports)
    only_feet = ~(supports.limb_active(2) | supports.limb_active(3))
    for ours, theirs in ((split.forces, feet.forces), (split.places, feet.places), (split.moments, feet.moments)):
        ours[only_feet, :2] = theirs[only_feet]
    return replace(split, share=np.where(only_feet, feet.share, split.share))


def _split_corners(supports: Supports, corner_forces: FloatArray, dynamics: InverseDynamics | None) -> SupportSplit:
    if dynamics is None:
        return sum_corners(supports, corner_forces)
    from marey.dynamics._split_torque import split_least_torque

    return split_least_torque(dynamics, supports, corner_forces)


def sum_corners(supports: Supports, corner_forces: FloatArray) -> SupportSplit:
    """Sum the forces of the corners of each limb, at the mean of the corners weighted by their normal force."""
    num_frames = len(corner_forces)
    forces = np.zeros((num_frames, len(LIMBS), 3))
    places, moments = np.zeros_like(forces), np.zeros_like(forces)
    for limb in range(len(LIMBS)):
        columns = supports.limbs == limb
        if not columns.any():
            continue
        points, pushes = supports.points[:, columns], corner_forces[:, columns]
        sizes = np.linalg.norm(pushes, axis=-1)
        weights = np.where(sizes.sum(axis=1, keepdims=True) > 0.0, sizes, 1.0)
        forces[:, limb] = pushes.sum(axis=1)
        places[:, limb] = (weights[..., None] * points).sum(axis=1) / weights.sum(axis=1)[:, None]
        whole = np.cross(points, pushes).sum(axis=1)
        moments[:, limb] = whole - np.cross(places[:, limb], forces[:, limb])
    normal = forces[:, :, 1].sum(axis=1)
    share = np.where(normal > 0.0, forces[:, 0, 1] / np.where(normal > 0.0, normal, 1.0), 0.0)
    return SupportSplit(forces, places, moments, share)

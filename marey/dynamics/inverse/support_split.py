"""Distribution of the ground reaction over feet and hands; in double support by a named rule.

The rules are the centre of pressure, the friction cones, and least work of the limbs ([Safonova2006]_ §3.1.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, UnknownNameError, frozen
from marey.dynamics.bodies import GRAVITY
from marey.dynamics.contact_cones import shift_wrench
from marey.dynamics.supports import LIMBS, Supports
from marey.numerics import solve_qp
from marey.skeleton import role_map

if TYPE_CHECKING:
    from marey.dynamics.inverse.newton_euler import InverseDynamics


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
    r"""Centre of pressure on the level floor ``(F, 3)`` [m], and whether it is defined ``(F,)``.

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
        touching: whether each foot touches ``(F, 2)``; one foot alone carries all, no foot carries nothing.
        floor_m: height of the floor [m].
    """
    wanted = frozen(wrenches, None, 6, name="wrenches")
    places, _ = compute_centre_of_pressure(wanted, floor_m)
    middles = [corners.mean(axis=1) for corners in (first, second)]
    # alpha: the centre of pressure projected on the line between the soles; one or zero on one foot
    line = middles[0] - middles[1]
    length = np.maximum((line**2).sum(axis=-1), 1e-12)
    along = np.clip(((places - middles[1]) * line).sum(axis=-1) / length, 0.0, 1.0)
    share = np.where(touching.all(axis=1), along, touching[:, 0].astype(np.float64))
    # Each foot carries its part where its sole is nearest to the pressure, and its part of the moment left
    acts = np.stack([project_on_sole(places, corners) for corners in (first, second)], axis=1)
    parts = np.stack([share, np.where(touching.any(axis=1), 1.0 - share, 0.0)], axis=1)
    forces = parts[..., None] * wanted[:, None, :3]
    left = wanted[:, 3:] - np.cross(acts, forces).sum(axis=1)
    return SupportSplit(forces, acts, parts[..., None] * left[:, None], share)


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
        if rule == "cone" or dynamics is None:
            return sum_corners(supports, corner_forces)
        return split_least_torque(dynamics, supports, corner_forces)
    feet = [supports.points[:, supports.limbs == limb] for limb in (0, 1)]
    if not all(corners.shape[1] for corners in feet):
        raise InputError("this body does not have two feet", 'Use rule="cone"')
    # Which feet carry `(F, 2)`: those that touch, and where none does those that may within the timing slack
    touch = np.stack([supports.limb_active(limb, slack=False) for limb in (0, 1)], axis=1)
    near = np.stack([supports.limb_active(limb) for limb in (0, 1)], axis=1)
    return split_by_pressure(
        wrenches, feet[0], feet[1], np.where(touch.any(axis=1, keepdims=True), touch, near), supports.floor_m
    )


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


LIMB_JOINTS: Final = {
    0: ("left_hip", "left_knee", "left_ankle"),
    1: ("right_hip", "right_knee", "right_ankle"),
    2: ("left_shoulder", "left_elbow", "left_wrist"),
    3: ("right_shoulder", "right_elbow", "right_wrist"),
}
WRENCH_WEIGHT: Final = 1e3  # [-] of the wrench that must come out, against torques of body weight times metres
SMALL_WEIGHT: Final = 1e-3  # [-] of the corner forces themselves, so that the answer is unique


def split_least_torque(dynamics: InverseDynamics, supports: Supports, corner_forces: FloatArray) -> SupportSplit:
    r"""Share the supplied wrench so that the torques in the limbs that touch are least ([Safonova2006]_ §3.1.3, F10).

    .. math:: \min_{f_c\in\text{cone}} \sum_j \|\tau_j - \sum_c (p_c - p_j)\times f_c\|^2
        \quad\text{so that}\quad \sum_c f_c,\ \sum_c p_c\times f_c\ \text{stay}

    over hips, knees and ankles (shoulders, elbows and wrists) of the limbs in contact. A quadratic programme for each
    frame in which more than one limb touches, so it is for reports rather than loops.

    Args:
        dynamics: whose torques have no ground force in them.
        supports: from ``find_supports``.
        corner_forces: any forces ``(F, P, 3)`` [N] at the corners that give the wrench; their sum is kept.
    """
    shared = corner_forces.copy()
    limbs = [np.flatnonzero(supports.limbs == limb) for limb in LIMB_JOINTS]
    busy = np.stack([supports.active[:, columns].any(axis=1) for columns in limbs], axis=1).sum(axis=1) > 1
    origins, turns = dynamics.motion().joint_frames()
    roles = role_map(dynamics.body.skeleton)
    for f in np.flatnonzero(busy & ~supports.grips.any(axis=1)):
        frame, forces = int(f), corner_forces[f]
        weight = dynamics.body.mass_kg * GRAVITY
        corners = np.flatnonzero(supports.active[frame])
        points, edges = supports.points[frame, corners], supports.edges
        com = dynamics.com[frame]
        # Least squares in the weights of the friction edges: the wrench is kept, by a large weight
        kept = np.concatenate([np.tile(edges.T, (1, len(points))), _moment_map(points - com, edges)])
        moment = np.cross(supports.points[frame] - com, forces).sum(axis=0)
        total = np.concatenate([forces.sum(axis=0), moment]) / weight
        rows, values = [WRENCH_WEIGHT * kept], [WRENCH_WEIGHT * total]
        # Torque of each joint of a limb in contact: tau_j less the moment of the corners beyond it
        for limb, names in LIMB_JOINTS.items():
            carried = supports.limbs[corners] == limb
            joints = [roles[name] for name in names if name in roles] if carried.any() else []
            for joint in joints:
                rows.append(_moment_map(points - origins[f][joint], edges) * np.repeat(carried, len(edges)))
                values.append(turns[f][joint] @ dynamics.torques[frame, joint] / weight)
        A, b = np.concatenate(rows), np.concatenate(values)
        H = A.T @ A + SMALL_WEIGHT**2 * np.eye(A.shape[1])
        found = solve_qp(0.5 * (H + H.T), -A.T @ b, bounds=(np.zeros(A.shape[1]), np.full(A.shape[1], np.inf)))
        split = np.zeros_like(forces)
        split[corners] = weight * np.einsum("ce,ei->ci", found.x.reshape(len(corners), len(edges)), edges)
        shared[f] = split if found.is_solved else forces
    return sum_corners(supports, shared)


def _moment_map(arms: FloatArray, edges: FloatArray) -> FloatArray:
    """Moment ``(3, C · E)`` of unit weights on the edges at arms ``(C, 3)`` [m]."""
    return np.cross(arms[:, None], edges[None]).reshape(-1, 3).T

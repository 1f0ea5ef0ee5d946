"""How feet and hands share the ground's force when the limbs are to work least."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.dynamics._body import GRAVITY
from marey.dynamics._split import SupportSplit, sum_corners
from marey.dynamics._supports import Supports
from marey.lie import SO3
from marey.numerics import solve_qp
from marey.skeleton import role_map

if TYPE_CHECKING:
    from marey.dynamics._inverse import InverseDynamics

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
    for f in np.flatnonzero(busy & ~supports.grips.any(axis=1)):
        shared[f] = _split_frame(dynamics, supports, origins[f], turns[f], corner_forces[f], int(f))
    return sum_corners(supports, shared)


def _split_frame(
    dynamics: InverseDynamics, supports: Supports, origins: FloatArray, turns: SO3, forces: FloatArray, frame: int
) -> FloatArray:
    weight = dynamics.body.mass_kg * GRAVITY
    corners = np.flatnonzero(supports.active[frame])
    points, edges = supports.points[frame, corners], supports.edges
    com = dynamics.com[frame]
    kept = np.concatenate([_force_map(points, edges), _moment_map(points - com, edges)])
    total = np.concatenate([forces.sum(axis=0), np.cross(supports.points[frame] - com, forces).sum(axis=0)]) / weight
    rows, values = [WRENCH_WEIGHT * kept], [WRENCH_WEIGHT * total]
    for limb, names in LIMB_JOINTS.items():
        carried = supports.limbs[corners] == limb
        for joint in _find_joints(dynamics, names) if carried.any() else ():
            rows.append(_moment_map(points - origins[joint], edges) * np.repeat(carried, len(edges)))
            values.append(turns[joint] @ dynamics.torques[frame, joint] / weight)
    A, b = np.concatenate(rows), np.concatenate(values)
    H = A.T @ A + SMALL_WEIGHT**2 * np.eye(A.shape[1])
    found = solve_qp(0.5 * (H + H.T), -A.T @ b, bounds=(np.zeros(A.shape[1]), np.full(A.shape[1], np.inf)))
    shared = np.zeros_like(forces)
    shared[corners] = weight * np.einsum("ce,ei->ci", found.x.reshape(len(corners), len(edges)), edges)
    return shared if found.is_solved else forces


def _find_joints(dynamics: InverseDynamics, names: tuple[str, ...]) -> IntArray:
    roles = role_map(dynamics.body.skeleton)
    return np.array([roles[name] for name in names if name in roles], dtype=np.int64)


def _force_map(points: FloatArray, edges: FloatArray) -> FloatArray:
    """Force ``(3, C · E)`` of unit weights on the edges at each of C points."""
    return np.tile(edges.T, (1, len(points)))


def _moment_map(arms: FloatArray, edges: FloatArray) -> FloatArray:
    """Moment ``(3, C · E)`` of unit weights on the edges at arms ``(C, 3)`` [m]."""
    return np.cross(arms[:, None], edges[None]).reshape(-1, 3).T

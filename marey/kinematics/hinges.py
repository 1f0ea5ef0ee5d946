"""Knees and elbows bend one way: the bend of a captured limb about its own axis, and limbs that bend backwards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.motion import Motion, find_runs
from marey.motion.cleaning import format_time, interpolate_frames
from marey.skeleton import RoleMap, role_map, t_pose


@dataclass(frozen=True, slots=True)
class HingeSettings:
    """How far a limb may be bent backwards."""

    knee_rad: float = np.deg2rad(10.0)  # captured legs and their marker models go to 5 degrees past straight
    elbow_rad: float = np.deg2rad(15.0)  # supple elbows, and an axis that markers tell less well
    bent_rad: float = np.deg2rad(25.0)  # frames bent by more tell the axis
    brief_s: float = 0.15  # [s] a limb that is backwards no longer is interpolated, a longer one straightened


HINGE_SETTINGS: Final = HingeSettings()
_HINGES: Final = (("hip", "knee", "ankle"), ("shoulder", "elbow", "wrist"))


@dataclass(frozen=True, slots=True, eq=False)
class HingeBend:
    """The bend of one knee or elbow over a clip."""

    role: str  # "left_knee"
    axis: FloatArray  # (3,) unit, in the axes of the upper segment in the T-pose; a positive turn flexes
    angles: FloatArray  # (F,) [rad] of flexion; negative is backwards


def measure_bends(
    motion: Motion, roles: RoleMap | None = None, settings: HingeSettings = HINGE_SETTINGS
) -> list[HingeBend]:
    r"""Flexion of every knee and elbow whose axis the clip shows.

    With :math:`W` the world rotations of the T-pose and :math:`L` the joint's own, :math:`D = W_{p} L W^{-1}` turns
    the lower segment away from the T-pose in the axes of the upper one. The axis is the mean of :math:`u \times D u`
    over frames bent by more than ``bent_rad``, :math:`u` along the lower segment in the T-pose; a knee that never bends
    so far takes the axis that points to the body's left, an elbow without such frames is left out.
    """
    roles = role_map(motion.skeleton) if roles is None else roles
    rest = t_pose(motion.skeleton, roles)
    W, p = rest.joint_rotations(), rest.joint_positions()
    bends: list[HingeBend] = []
    for side in ("left", "right"):
        for upper, middle, lower in _HINGES:
            if any(f"{side}_{part}" not in roles for part in (upper, middle, lower)):
                continue
            joint, end = roles[f"{side}_{middle}"], roles[f"{side}_{lower}"]
            u = p[end] - p[joint]
            if np.linalg.norm(u) < 1e-6:
                continue
            u /= np.linalg.norm(u)
            parent = int(motion.skeleton.parents[joint])
            directions = (W[parent] @ motion.rotations[:, joint] @ W[joint].inverse()) @ u
            # Axis of the bend: from straight to bent, the frames that bend most counting most
            across = np.cross(u, directions)
            bent = np.linalg.norm(across, axis=1) > np.sin(settings.bent_rad)
            if bent.any():
                axis = across[bent].sum(axis=0)
                # A knee bends about the axis to the left, also one that is backwards most of the time
                axis *= -1.0 if middle == "knee" and axis[0] < 0.0 else 1.0
            elif middle == "knee":
                axis = np.array([1.0, 0.0, 0.0]) - u[0] * u
            else:
                continue
            if np.linalg.norm(axis) < 1e-6:
                continue
            axis /= np.linalg.norm(axis)
            angles = np.arctan2(across @ axis, directions @ u)
            bends.append(HingeBend(f"{side}_{middle}", axis, angles))
    return bends


def straighten_hinges(motion: Motion, settings: HingeSettings = HINGE_SETTINGS) -> tuple[Motion, tuple[str, ...]]:
    """Mend knees and elbows that bend backwards further than allowed.

    A short stretch is interpolated from the frames beside it. In a longer one the joint is brought to the largest
    hyperextension allowed, and the foot or hand keeps its turn.

    Returns:
        The motion, and a sentence for each stretch that was changed.
    """
    roles = role_map(motion.skeleton)
    W = t_pose(motion.skeleton, roles).joint_rotations()
    findings: list[str] = []
    for bend in measure_bends(motion, roles, settings):
        allowed = settings.knee_rad if bend.role.endswith("knee") else settings.elbow_rad
        missing = np.maximum(-allowed - bend.angles, 0.0)
        joint = roles[bend.role]
        parent = int(motion.skeleton.parents[joint])
        only = np.arange(motion.skeleton.num_joints) == joint
        for start, stop in find_runs(missing > 0.0, 2):
            inside = start > 0 and stop < motion.num_frames
            is_brief = inside and stop - start <= settings.brief_s * motion.rate_hz
            if is_brief:
                motion = interpolate_frames(motion, start, stop, only, root=False)
            else:
                # D' = exp(missing * axis) D, and the joints below keep their world rotation
                bad = np.arange(start, stop)
                turn = W[parent].inverse() @ SO3.exp(missing[bad, None] * bend.axis) @ W[parent]
                wxyz = motion.rotations.wxyz.copy()
                before = motion.rotations[bad, joint]
                wxyz[bad, joint] = (turn @ before).wxyz
                for child in motion.skeleton.children(joint).tolist():
                    wxyz[bad, child] = ((turn @ before).inverse() @ before @ motion.rotations[bad, child]).wxyz
                motion = replace(motion, rotations=SO3(wxyz), source=motion.edited_source())
            worst = np.rad2deg(-bend.angles[start:stop].min())
            name, when = bend.role.replace("_", " "), format_time(motion, start, stop)
            cure = "interpolated" if is_brief else "straightened"
            findings.append(f"{name} bends backwards by {worst:.0f}° {when}: {cure}")
    return motion, tuple(findings)

"""A soft arm that hangs from its shoulder: two rigid bones in flesh, a flexor and an extensor at each joint."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import InputError
from marey.muscle._body import SoftBody
from marey.muscle._bones import Bone, Bones
from marey.muscle._mesh import TetMesh
from marey.muscle._muscles import Muscles
from marey.muscle._spline import ActivationSpline
from marey.skeleton import HUMAN, Skeleton

ARM_THICKNESS_M: Final = 0.08  # [m] of the flesh
MUSCLE_DEPTH_M: Final = 0.034  # [m] of a muscle in front of or behind the bone
TORSO_M: Final = 0.10  # [m] of flesh above the shoulder, which does not move
JOINT_CLEARANCE_M: Final = 0.04  # [m] of flesh near a joint that no bone carries
YOUNG_PA: Final = 1.5e4
STIFFNESS_N_M: Final = 1.6e4  # of each muscle
ALPHA_MIN: Final = 0.4
FLEXION_AXIS: Final = (-1.0, 0.0, 0.0)  # hinge axis that lifts a hanging arm to the front
BONE_MASSES_KG: Final = (0.3, 0.6)  # of upper arm and forearm with hand, beside their flesh
ARM_MUSCLES: Final = ("deltoid", "latissimus", "biceps", "triceps")


def measure_arm(skeleton: Skeleton = HUMAN, side: str = "left") -> tuple[float, float]:
    """Lengths [m] of upper arm and forearm."""
    elbow, wrist = (skeleton.names.index(f"{side}_{joint}") for joint in ("elbow", "wrist"))
    return float(np.linalg.norm(skeleton.offsets[elbow])), float(np.linalg.norm(skeleton.offsets[wrist]))


def make_soft_arm(
    upper_m: float | None = None,
    fore_m: float | None = None,
    *,
    shoulder: str = "hinge",
    counts: tuple[int, int, int] = (2, 11, 2),
) -> SoftBody:
    """A soft arm along -Y, shoulder at the origin, that bends forwards (+Z); bones "upper" and "fore".

    Args:
        upper_m: shoulder to elbow [m], as in ``marey.HUMAN`` by default.
        fore_m: elbow to wrist [m].
        shoulder: "hinge", or "fixed" for an arm that bends at the elbow only.
        counts: cells across, along and deep.
    """
    usual = measure_arm()
    upper, fore = usual[0] if upper_m is None else upper_m, usual[1] if fore_m is None else fore_m
    if not (0.1 <= upper <= 1.0 and 0.1 <= fore <= 1.0):
        raise InputError(f"an arm of {upper:g} m and {fore:g} m", "Give lengths between 0.1 and 1 m")
    block = TetMesh.box((ARM_THICKNESS_M, TORSO_M + upper + fore, ARM_THICKNESS_M), counts)
    mesh = TetMesh(block.nodes - [ARM_THICKNESS_M / 2, upper + fore, ARM_THICKNESS_M / 2], block.cells)
    muscles = Muscles(mesh, _arm_splines(upper), young_pa=YOUNG_PA, transfer="virtual_work")
    return SoftBody.from_mesh(
        mesh,
        young_pa=YOUNG_PA,
        muscles=muscles,
        bones=_arm_bones(mesh, upper, fore, shoulder),
        damping=(0.5, 0.02),
        pinned=np.flatnonzero(mesh.nodes[:, 1] > 0.3 * TORSO_M),
    )


def _arm_splines(upper: float) -> list[ActivationSpline]:
    """One muscle in front of and one behind each joint."""
    spans = ((0.9 * TORSO_M, -0.6 * upper), (-0.3 * upper, -upper - 0.17))
    rows = [(high, low, side * MUSCLE_DEPTH_M) for high, low in spans for side in (1.0, -1.0)]
    return [
        ActivationSpline(np.linspace((0.0, high, z), (0.0, low, z), 4), STIFFNESS_N_M, name, alpha_min=ALPHA_MIN)
        for name, (high, low, z) in zip(ARM_MUSCLES, rows, strict=True)
    ]


def _arm_bones(mesh: TetMesh, upper: float, fore: float, shoulder: str) -> Bones:
    x, y, z = mesh.nodes.T
    core = np.maximum(np.abs(x), np.abs(z)) < 0.01
    near = np.flatnonzero(core & (y < -JOINT_CLEARANCE_M) & (y > -upper + JOINT_CLEARANCE_M))
    far = np.flatnonzero(core & (y < -upper - JOINT_CLEARANCE_M))
    elbow, wrist = (0.0, -upper, 0.0), (0.0, -upper - fore, 0.0)
    return Bones(
        [
            Bone(
                "upper", (0, 0, 0), None, shoulder, FLEXION_AXIS, (-1.0, 2.6), BONE_MASSES_KG[0], end=elbow, nodes=near
            ),
            Bone("fore", elbow, "upper", "hinge", FLEXION_AXIS, (-0.05, 2.4), BONE_MASSES_KG[1], end=wrist, nodes=far),
        ],
        joint_damping=0.3,
    )

"""Clips of Kimodo (github.com/nv-tlabs/kimodo): world positions and rotations of every joint.

``posed_joints`` (F, J, 3) [m] and ``global_rot_mats`` (F, J, 3, 3), or ``local_rot_mats``, +Y up. The number of joints
names the skeleton: SOMA with 77 or 30 joints, SMPL-X's body with 22, the robot Unitree G1 with 34; all rest with their
joint frames along the world's axes. Offsets are not in the file; they follow from it, since bones are rigid.
Joint names and parents are those that Kimodo publishes (``kimodo/skeleton/definitions.py``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.io.binary import format_error
from marey.io.npz.archive import NpzArchive, read_contacts
from marey.io.npz.smpl import read_rate, rotations_from_matrices
from marey.io.vertical_axis import detect_up, rotate_wxyz, to_world
from marey.io.world_frames import localise_frames
from marey.lie import SO3
from marey.motion import LoadReport, Motion, Source
from marey.skeleton import HUMAN, NO_PARENT, Skeleton

STRETCH_TOL_M: Final = 1e-4  # bones that change by less are rigid; single precision leaves 1e-6


def _chain(side: str, *parts: str) -> tuple[str, ...]:
    return tuple(f"{side}{part}" for part in parts)


_FINGERS: Final = tuple(
    tuple(f"Hand{name}{part}" for part in (*range(1, count + 1), "End"))
    for name, count in (("Thumb", 3), ("Index", 4), ("Middle", 4), ("Ring", 4), ("Pinky", 4))
)
_SPINE: Final = ("Hips", "Spine1", "Spine2", "Chest", "Neck1", "Neck2", "Head")
_ARM: Final = ("Shoulder", "Arm", "ForeArm", "Hand")
_LEG: Final = ("Leg", "Shin", "Foot", "ToeBase")
_FACE: Final = ((("Jaw",), "Head"), (("LeftEye",), "Head"), (("RightEye",), "Head"))
_G1_LEG: Final = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
_G1_ARM: Final = (
    "shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll", "wrist_pitch", "wrist_yaw", "hand_roll",
)  # fmt: skip

# Chains of joints, each with the joint it hangs on, in the order of the arrays
_CHAINS: Final[dict[str, tuple[tuple[tuple[str, ...], str], ...]]] = {
    "soma77": (
        (_SPINE, ""),
        (("HeadEnd",), "Head"),
        *_FACE,
        *(
            chain
            for side in ("Left", "Right")
            for chain in (
                (_chain(side, *_ARM), "Chest"),
                *((_chain(side, *finger), f"{side}Hand") for finger in _FINGERS),
            )
        ),
        *((_chain(side, *_LEG, "ToeEnd"), "Hips") for side in ("Left", "Right")),
    ),
    "soma30": (
        (_SPINE, ""),
        *_FACE,
        *(
            chain
            for side in ("Left", "Right")
            for chain in (
                (_chain(side, *_ARM), "Chest"),
                ((f"{side}HandThumbEnd",), f"{side}Hand"),
                ((f"{side}HandMiddleEnd",), f"{side}Hand"),
            )
        ),
        *((_chain(side, *_LEG), "Hips") for side in ("Left", "Right")),
    ),
    "unitree_g1": (
        (("pelvis_skel",), ""),
        *(
            ((*(f"{side}_{part}_skel" for part in _G1_LEG), f"{side}_toe_base"), "pelvis_skel")
            for side in ("left", "right")
        ),
        (("waist_yaw_skel", "waist_roll_skel", "waist_pitch_skel"), "pelvis_skel"),
        *((tuple(f"{side}_{part}_skel" for part in _G1_ARM), "waist_pitch_skel") for side in ("left", "right")),
    ),
}


def kimodo_trees() -> dict[int, tuple[str, tuple[str, ...], list[int]]]:
    """Name, joint names and parents of each skeleton, by its number of joints."""
    trees = {len(HUMAN.names): ("smplx22", HUMAN.names, [int(p) for p in HUMAN.parents])}
    for name, chains in _CHAINS.items():
        joints, parents = list[str](), list[int]()
        for chain, above in chains:
            for part, joint in enumerate(chain):
                parents.append(NO_PARENT if not joints else len(joints) - 1 if part else joints.index(above))
                joints.append(joint)
        trees[len(joints)] = (name, tuple(joints), parents)
    return trees


def read_kimodo(archive: NpzArchive, *, rate_hz: float | None = None) -> Motion:
    """Read a Kimodo clip with its foot contacts.

    Raises:
        FormatError: the arrays do not fit together, or no published skeleton has this number of joints.
    """
    notes, warnings = list[str](), list[str]()
    shape = archive.plain_header("posed_joints").shape
    samples = shape[0] if len(shape) == 4 else 1
    if len(shape) not in (3, 4) or shape[-1] != 3 or 0 in shape:
        raise format_error(archive.path, f"'posed_joints' has shape {shape}, expected frames x joints x 3")
    if samples > 1:
        warnings.append(f"{samples} samples in one file: the first was read")
    frames, joints = shape[-3:-1]
    trees = kimodo_trees()
    if joints not in trees:
        known = ", ".join(f"{count} ({trees[count][0]})" for count in sorted(trees))
        raise format_error(archive.path, f"'posed_joints' has {joints} joints; Kimodo's skeletons have {known}")
    name, joint_names, parents = trees[joints]
    positions = _first_sample(archive, "posed_joints", (frames, joints, 3))
    # World rotations, given or composed along the tree
    if "global_rot_mats" in archive:
        matrices = _first_sample(archive, "global_rot_mats", (frames, joints, 3, 3))
        world = rotations_from_matrices(matrices, "global_rot_mats", notes)
    else:
        matrices = _first_sample(archive, "local_rot_mats", (frames, joints, 3, 3))
        local = rotations_from_matrices(matrices, "local_rot_mats", notes)
        turned = [local[:, 0]]
        for j in range(1, joints):
            turned.append(turned[parents[j]] @ local[:, j])
        world = SO3.stack(turned, axis=1)
    posed = localise_frames(world, positions, np.array(parents))
    local, offsets, translations = posed.rotations, posed.offsets, posed.translations(STRETCH_TOL_M)
    if translations is not None:
        warnings.append(f"bones change by up to {1000 * posed.stretch_m:.1f} mm; the change is kept")
    skeleton = Skeleton(joint_names, np.array(parents), offsets, name=name)
    # Kimodo writes +Y up; some of its users turn people to Z, and no one turns them any other way
    is_z = "g1" not in name.lower() and detect_up(skeleton, positions[:, 0], local.wxyz, translations) == "+z"
    up = "+z" if is_z else "+y"
    if up != "+y":
        skeleton = Skeleton(joint_names, np.array(parents), to_world(offsets, up), name=name)
        local = SO3(rotate_wxyz(local.wxyz, up))
        translations = None if translations is None else to_world(translations, up)
    notes.append(f"Kimodo clip on the skeleton {name}; offsets follow from positions and rotations")
    return Motion(
        skeleton,
        read_rate(archive, rate_hz, "", warnings),
        to_world(positions[:, 0], up),
        local,
        contacts=read_contacts(archive, frames, notes),
        translations=translations,
        source=Source(str(archive.path), "kimodo", up=up),
        load_report=LoadReport(warnings, notes),
        name=Path(archive.path).stem,
    )


def _first_sample(archive: NpzArchive, name: str, wanted: tuple[int, ...]) -> FloatArray:
    shape = archive.plain_header(name).shape
    if shape[-len(wanted) :] != wanted or len(shape) > len(wanted) + 1:
        raise format_error(archive.path, f"'{name}' has shape {shape}, expected {wanted}")
    return archive.read_numbers(name).reshape(-1, *wanted)[0]

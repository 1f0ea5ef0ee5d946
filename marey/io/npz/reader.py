r"""One reader for every `.npz` motion: the names of the arrays tell whose it is; clips of Kimodo and of MuJoCo bodies.

Clips of Kimodo (github.com/nv-tlabs/kimodo) hold world positions and rotations of every joint: ``posed_joints``
(F, J, 3) [m] and ``global_rot_mats`` (F, J, 3, 3), or ``local_rot_mats``, +Y up. The number of joints
names the skeleton: SOMA with 77 or 30 joints, SMPL-X's body with 22, the robot Unitree G1 with 34; all rest with their
joint frames along the world's axes. Offsets are not in the file; they follow from it, since bones are rigid.
Joint names and parents are those that Kimodo publishes (``kimodo/skeleton/definitions.py``).

MuJoCo keeps one array a coordinate: ``q_hip_flexion_r`` (F,) [rad], ``dq_hip_flexion_r``. Coordinates alone are no
motion: lengths and axes are those of the simulated body, which the file does not name. One human is known here: the
humanoid of LocoMuJoCo (github.com/robfiras/loco-mujoco, MIT), made by G. Zhao after the OpenSim model of
[Hamner2010]_; its offsets and axes are below. In its axes (x forward, y up, z right) a joint turns by its coordinates
one after the other,

.. math:: R_{parent,joint} = \prod_i \exp(q_i\,[a_i]_\times), \qquad a^{left} = (-a_x, -a_y, a_z)^{right}.

The files have no clock. Their velocities have: the rate :math:`f` is that of :math:`f\,q = \sum \dot q + c`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.io.binary import AnyPath, as_format_error, format_error
from marey.io.conventions import COMMON_RATES, localise_frames
from marey.io.npz.archive import NpzArchive, open_archive, read_contacts
from marey.io.npz.smpl import RATE_NAMES, find_smpl_names, read_rate, read_smpl, rotations_from_matrices
from marey.io.vertical_axis import detect_up, rotate_wxyz, to_world
from marey.lie import SO3
from marey.motion import LoadReport, Motion, Source
from marey.skeleton import HUMAN, NO_PARENT, Skeleton, SkeletonDraft

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


# Joint, parent, offset [m] and coordinates with their axes
ModelJoint = tuple[str, str, FloatArray, tuple[tuple[str, tuple[float, float, float]], ...]]
PELVIS_M: Final = (0.0, 0.975, 0.0)  # where the pelvis is when its coordinates are zero
NEAR_RATE: Final = 0.05  # [-] a common rate within this of the fitted one is meant: differences are only differences
NAMED: Final = 6  # coordinates of an unknown body, in a message

_X, _Y, _Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
# joint, parent, offset [m], coordinates with their axes in the order they act; the right side, mirrored to the left
_TRUNK: Final = (
    ("pelvis", "", (0.0, 0.0, 0.0), (("pelvis_tilt", _Z), ("pelvis_list", _X), ("pelvis_rotation", _Y))),
    ("torso", "pelvis", (-0.10282, 0.0832155, 0.0),
     (("lumbar_extension", _Z), ("lumbar_bending", _X), ("lumbar_rotation", _Y))),
)  # fmt: skip
_LIMBS: Final = (
    ("hip", "pelvis", (-0.0721882, -0.0674914, 0.0852576),
     (("hip_flexion", _Z), ("hip_adduction", _X), ("hip_rotation", _Y))),
    ("knee", "hip", (-0.00167398, -0.365545, 0.0), (("knee_angle", _Z),)),
    ("ankle", "knee", (0.0, -0.480173, 0.0), (("ankle_angle", (-0.105014, -0.174022, 0.979126)),)),
    ("subtalar", "ankle", (-0.0544606, -0.0468448, 0.00884412), (("subtalar_angle", (0.78718, 0.604747, -0.120949)),)),
    ("foot", "subtalar", (0.190515, -0.00213104, 0.00115076), (("mtp_angle", (-0.580954, 0.0, 0.813936)),)),
    ("shoulder", "torso", (0.00339907, 0.400239, 0.183151), (("arm_flex", _Z), ("arm_add", _X), ("arm_rot", _Y))),
    ("elbow", "shoulder", (0.0154412, -0.336305, -0.0112719), (("elbow_flex", (0.226047, 0.022269, 0.973862)),)),
    ("forearm", "elbow", (-0.00745535, -0.0144153, 0.0289071), (("pro_sup", (0.056398, 0.998406, 0.001952)),)),
    ("wrist", "forearm", (-0.00974948, -0.261376, 0.0150836), (("wrist_flex", _Z), ("wrist_dev", _X))),
)  # fmt: skip
_SLIDES: Final = ("pelvis_tx", "pelvis_ty", "pelvis_tz")
# Of the version whose knee also slides: held at zero, or of the kneecap
_IDLE: Final = tuple(
    f"knee_angle_{side}_{part}"
    for side in "rl"
    for part in (
        "translation1", "translation2", "rotation2", "rotation3",
        "beta_translation1", "beta_translation2", "beta_rotation1",
    )
)  # fmt: skip


def read_coordinates(archive: NpzArchive, names: tuple[str, ...], *, rate_hz: float | None = None) -> Motion:
    """Read the coordinates of LocoMuJoCo's humanoid as a motion.

    Raises:
        FormatError: the coordinates have different lengths.
    """
    q = {name: archive.read_numbers(f"q_{name}") for name in names}
    frames = len(next(iter(q.values())).reshape(-1))
    for name, values in q.items():
        if values.shape != (frames,) or frames == 0:
            raise format_error(archive.path, f"'q_{name}' has shape {values.shape}, expected {frames} frames")
    warnings = list[str]()
    joints = _human_joints()
    rotations = list[SO3]()
    for joint, _, _, coordinates in joints:
        turned = SO3.identity(frames)
        for name, axis in coordinates:
            if name in q:
                # A knee bends backwards, whichever sign its file gives to it
                sign = -1.0 if joint.endswith("knee") and np.median(q[name]) > 0.0 else 1.0
                turned = turned @ SO3.from_axis_angle(np.array(axis), sign * q[name])
        rotations.append(turned)
    local = SO3.stack(rotations, axis=1).wxyz
    place = np.array(PELVIS_M) + np.stack([q.get(name, np.zeros(frames)) for name in _SLIDES], axis=1)
    draft = SkeletonDraft(name="locomujoco_humanoid")
    for name, parent, offset, _ in joints:
        draft.add(name, draft.names.index(parent) if parent else -1, [float(x) for x in _face_z(offset)])
    # Neck and head above the middle of the shoulders, as far as those of the canonical human for shoulders this wide
    rest = HUMAN.rest_positions()
    left, right, neck, head = (rest[HUMAN.index(name)] for name in ("left_shoulder", "right_shoulder", "neck", "head"))
    width = 2.0 * abs(float(_LIMBS[5][2][2]))
    scale = width / float(np.linalg.norm(left - right))
    shoulders = _face_z(np.array([_LIMBS[5][2][0], _LIMBS[5][2][1], 0.0]))
    draft.add("neck", draft.names.index("torso"), [float(x) for x in shoulders + scale * (neck - 0.5 * (left + right))])
    draft.add("head", draft.names.index("neck"), [float(x) for x in scale * (head - neck)])
    draft.tips[draft.names.index("head")] = [float(x) for x in scale * HUMAN.tips[HUMAN.index("head")]]
    skeleton = draft.build()
    # The neck and the head do not move in this model
    still = SO3.identity(frames, skeleton.num_joints - len(joints)).wxyz
    return Motion(
        skeleton,
        _find_rate(archive, q, rate_hz, warnings),
        _face_z(place),
        SO3(np.concatenate([np.concatenate([local[..., :1], _face_z(local[..., 1:])], axis=-1), still], axis=1)),
        source=Source(str(archive.path), "mujoco"),
        load_report=LoadReport(
            warnings,
            [
                "coordinates of LocoMuJoCo's humanoid: lengths and axes are those of the published model",
                "the model has no neck joint: neck and head stand on the torso in the proportions of marey.HUMAN",
            ],
        ),
        name=Path(archive.path).stem,
    )


def _human_joints() -> list[ModelJoint]:
    """Joints of both sides with parents, offsets and coordinates, parents first, in the model's own axes."""
    joints: list[ModelJoint] = [(name, parent, np.array(offset), axes) for name, parent, offset, axes in _TRUNK]
    for side, suffix, mirror in (("right", "_r", 1.0), ("left", "_l", -1.0)):
        for name, parent, offset, axes in _LIMBS:
            above = parent if parent in ("pelvis", "torso") else f"{side}_{parent}"
            turned = tuple((n + suffix, (mirror * a[0], mirror * a[1], a[2])) for n, a in axes)
            joints.append((f"{side}_{name}", above, np.array(offset) * [1.0, 1.0, mirror], turned))
    return joints


def _face_z(vectors: FloatArray) -> FloatArray:
    """Turn ``(x forward, y up, z right)`` to ``(x left, y up, z forward)``."""
    return np.stack([-vectors[..., 2], vectors[..., 1], vectors[..., 0]], axis=-1)


def _find_rate(archive: NpzArchive, q: dict[str, FloatArray], asked_hz: float | None, warnings: list[str]) -> float:
    """Return the rate asked for, the archive's own, or the one that its velocities have."""
    if asked_hz is None and not any(name in archive for name in RATE_NAMES):
        # Of centred coordinates and integrals: a difference of frames would bring its noise with it
        across, along = 0.0, 0.0
        for name, values in q.items():
            speed = archive.read_numbers(f"dq_{name}") if f"dq_{name}" in archive else np.zeros(0)
            if speed.shape == values.shape:
                whole = np.cumsum(speed) - 0.5 * speed
                whole, values = whole - whole.mean(), values - values.mean()
                across, along = across + float(whole @ whole), along + float(whole @ values)
        if along > 0.0:
            fitted = across / along
            near = min(COMMON_RATES, key=lambda rate: abs(rate - fitted))
            rate = near if abs(near - fitted) < NEAR_RATE * near else fitted
            if rate > 0.0:
                warnings.append(f"no frame rate in it: its velocities fit {fitted:.4g} Hz, {rate:g} Hz is taken")
                return rate
    return read_rate(archive, asked_hz, "", warnings)


def read_npz(path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """Read a motion of AMASS, of SMPL parameters, of Kimodo or of MuJoCo's coordinates.

    Args:
        path: the `.npz` file.
        rate_hz: frames per second to use instead of the archive's.
        unit: the archives are in metres; anything but ``"m"`` is refused.

    Raises:
        FormatError: the archive is damaged, needs pickle, or holds no motion that is known here.
    """
    if unit not in (None, "m"):
        raise InputError(f"unit '{unit}' for an .npz archive", "These archives are always in metres; leave unit out")
    with as_format_error(path), open_archive(path) as archive:
        names = find_smpl_names(archive.names)
        has_rotations = "global_rot_mats" in archive.names or "local_rot_mats" in archive.names
        if has_rotations and "posed_joints" in archive.names:
            return read_kimodo(archive, rate_hz=rate_hz)
        if names is not None:
            return read_smpl(archive, names, rate_hz=rate_hz)
        # Names of the coordinates of LocoMuJoCo's humanoid, without `q_`
        if "qpos" in archive and "q_pelvis_tx" not in archive:
            what = "'qpos' holds joint coordinates without the body they belong to: no lengths, no axes"
            raise format_error(
                archive.path, what, "Export positions or rotations of the joints (BVH, GLB) from the simulator."
            )
        coordinates = tuple(name[2:] for name in archive.names if name.startswith("q_"))
        if coordinates:
            known = {*_SLIDES, *_IDLE, *(name for joint in _human_joints() for name, _ in joint[3])}
            strange = [name for name in coordinates if name not in known]
            missing = [
                name
                for name in ("hip_flexion_r", "knee_angle_r", "arm_flex_r", "elbow_flex_r")
                if name not in coordinates
            ]
            if strange or missing:
                shown = ", ".join(name[:40] for name in (strange or missing)[:NAMED])
                how = f"such as {shown}" if strange else f"without {shown}"
                what = f"MuJoCo coordinates {how}: a robot or a body whose lengths and axes are not in the file"
                raise format_error(
                    archive.path, what, "Only LocoMuJoCo's humanoid is known. Export the joints' positions instead."
                )
            return read_coordinates(archive, coordinates, rate_hz=rate_hz)
        raise format_error(
            path,
            f"no motion that marey knows is in it; it holds {archive.describe() or 'nothing'}",
            "Known are AMASS ('poses', 'trans'), SMPL parameters ('global_orient', 'body_pose', 'transl'), Kimodo "
            "('posed_joints', 'global_rot_mats') and MuJoCo's coordinates ('q_hip_flexion_r'), as plain arrays.",
        )

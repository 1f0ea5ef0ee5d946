r"""Joint coordinates of a MuJoCo body, one array a coordinate: ``q_hip_flexion_r`` (F,) [rad], ``dq_hip_flexion_r``.

Coordinates alone are no motion: lengths and axes are those of the simulated body, which the file does not name. One
human is known here: the humanoid of LocoMuJoCo (github.com/robfiras/loco-mujoco, MIT), made by G. Zhao after the
OpenSim model of [Hamner2010]_; its offsets and axes are below. In its axes (x forward, y up, z right) a joint turns by
its coordinates one after the other,

.. math:: R_{parent,joint} = \prod_i \exp(q_i\,[a_i]_\times), \qquad a^{left} = (-a_x, -a_y, a_z)^{right}.

The files have no clock. Their velocities have: the rate :math:`f` is that of :math:`f\,q = \sum \dot q + c`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.io.binary import format_error
from marey.io.conventions import COMMON_RATES
from marey.io.npz.archive import NpzArchive
from marey.io.npz.smpl import RATE_NAMES, read_rate
from marey.lie import SO3
from marey.motion import LoadReport, Motion, Source
from marey.skeleton import HUMAN, SkeletonDraft

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


def find_coordinates(archive: NpzArchive) -> tuple[str, ...] | None:
    """Names of the coordinates of an archive, without ``q_``; nothing where it holds no coordinates.

    Raises:
        FormatError: it holds coordinates, but of a body that is not known here.
    """
    if "qpos" in archive and "q_pelvis_tx" not in archive:
        what = "'qpos' holds joint coordinates without the body they belong to: no lengths, no axes"
        raise format_error(
            archive.path, what, "Export positions or rotations of the joints (BVH, GLB) from the simulator."
        )
    found = tuple(name[2:] for name in archive.names if name.startswith("q_"))
    if not found:
        return None
    known = {*_SLIDES, *_IDLE, *(name for joint in _human_joints() for name, _ in joint[3])}
    strange = [name for name in found if name not in known]
    missing = [name for name in ("hip_flexion_r", "knee_angle_r", "arm_flex_r", "elbow_flex_r") if name not in found]
    if strange or missing:
        shown = ", ".join(name[:40] for name in (strange or missing)[:NAMED])
        how = f"such as {shown}" if strange else f"without {shown}"
        what = f"MuJoCo coordinates {how}: a robot or a body whose lengths and axes are not in the file"
        raise format_error(
            archive.path, what, "Only LocoMuJoCo's humanoid is known. Export the joints' positions instead."
        )
    return found


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

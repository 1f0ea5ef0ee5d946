r"""Poses of SMPL bodies: AMASS archives ([Mahmood2019]_), read and written, and parameters that video trackers save.

AMASS keeps one array ``poses``, an axis-angle vector a joint; trackers (GVHMR, WHAM, 4D-Humans, SMPLify-X) keep
``global_orient``, ``body_pose`` and ``transl``, as axis-angle vectors, as matrices, or as the 6-D form of [Zhou2019]_.
The first 22 joints are those of the canonical human, in its order. Archives stand along +Z (AMASS), along +Y, or hang
along -Y (a camera's axes); the direction of the pelvis tells which. For Z,

.. math:: R_{root} = C\,R_{poses}, \quad p_{root} = C\,trans, \quad C(x, y, z) = (x, z, -y).

The shapes of SMPL bodies may not be passed on, so the motion is put on the proportions of :data:`marey.HUMAN`.

The writer lays out the poses of the canonical human as AMASS does:

.. math:: R_{poses} = C^{-1} R_{root}, \quad trans = C^{-1} p_{root}, \quad C(x, y, z) = (x, z, -y)

for the root; the other joints keep their rotations, whose frames are those of :data:`marey.HUMAN`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from warnings import catch_warnings, simplefilter

import numpy as np

from marey.base import FloatArray, InputError
from marey.io.binary import AnyPath, format_error
from marey.io.npz.archive import NpzArchive, read_contacts
from marey.lie import SO3
from marey.motion import LoadReport, Motion, Source
from marey.skeleton import HUMAN, tree_difference

NUM_JOINTS: Final = 22  # of the body, the pelvis included; hands and face follow
MODELS: Final = {22: "SMPL body", 24: "SMPL", 52: "SMPL-H", 55: "SMPL-X"}  # by joints
WIDTHS: Final = {3: "axis-angle vectors", 6: "6-D rotations", 9: "matrices"}  # values a joint
UNIT_TOL: Final = 0.02  # [-] length of a matrix's column in half precision
UPRIGHT: Final = 0.5  # [-] cosine: a pelvis that leans by less than 60° tells which axis is vertical
ASSUMED_RATE_HZ: Final = 30.0  # of the video that trackers read, and of what Kimodo generates

RATE_NAMES: Final = (
    "mocap_framerate", "mocap_frame_rate", "mocap_fps", "fps", "frame_rate", "framerate", "rate_hz",
)  # fmt: skip
WHOLE_NAMES: Final = ("poses", "fullpose", "full_pose", "smpl_poses", "pose", "pred_rotmat")
ROOT_NAMES: Final = ("root_orient", "global_orient", "root_pose", "orient")
BODY_NAMES: Final = ("pose_body", "body_pose")
PLACE_NAMES: Final = ("trans", "transl", "translation", "smpl_trans", "root_trans", "pred_trans")
KEPT_NAMES: Final = ("betas", "gender")  # passed on with the motion, unread

# The turn that makes an archive stand along +Y, by the axis it stands along
_TO_Y_UP: Final = {
    "+y": SO3.identity(),
    "+z": SO3.from_axis_angle([1.0, 0.0, 0.0], -0.5 * np.pi),
    "-y": SO3.from_axis_angle([1.0, 0.0, 0.0], np.pi),
}


@dataclass(frozen=True, slots=True)
class SmplNames:
    """Names under which an archive keeps the parts of one motion."""

    whole: str | None  # all joints in one array, or ...
    root: str | None  # ... the pelvis
    body: str | None  # ... and the rest
    place: str | None
    prefix: str = ""

    @property
    def is_amass(self) -> bool:
        """Whether the names are those of AMASS, which stands along Z."""
        return self.whole == "poses" or self.root == "root_orient"


def find_smpl_names(names: tuple[str, ...]) -> SmplNames | None:
    """Find the arrays of an SMPL motion, also under a common prefix such as ``smpl_params_global/``.

    Where an archive has one motion in the world and one before the camera (``incam``), that in the world is taken.
    """
    found = dict[str, SmplNames]()
    words = "|".join(sorted({*WHOLE_NAMES, *ROOT_NAMES, *BODY_NAMES, *PLACE_NAMES}, key=len, reverse=True))
    prefixes = {match[1] or "" for name in names if (match := re.fullmatch(rf"(.*[/._:])?(?:{words})", name))}
    for prefix in prefixes:

        def pick(words: tuple[str, ...], prefix: str = prefix) -> str | None:
            return next((prefix + word for word in words if prefix + word in names), None)

        parts = SmplNames(pick(WHOLE_NAMES), pick(ROOT_NAMES), pick(BODY_NAMES), pick(PLACE_NAMES), prefix)
        if parts.whole or (parts.root and parts.body):
            found[prefix] = parts
    if not found:
        return None
    return found[min(found, key=lambda prefix: ("incam" in prefix, "camera" in prefix, "global" not in prefix, prefix))]


def read_smpl(archive: NpzArchive, names: SmplNames, *, rate_hz: float | None = None) -> Motion:
    """Read the body motion of an SMPL archive; hands, face and soft tissue are left out.

    Raises:
        FormatError: an array has a shape that no SMPL body has.
    """
    notes, warnings = list[str](), list[str]()
    if names.whole is not None:
        rotations, num_joints = _read_rotations(archive, names.whole, tuple(MODELS), notes)
        kind = MODELS[num_joints]
    else:
        assert names.root is not None and names.body is not None
        root, _ = _read_rotations(archive, names.root, (1,), notes)
        body, num_joints = _read_rotations(archive, names.body, (21, 23), notes)
        if len(root) != len(body):
            what = f"'{names.root}' has {len(root)} frames, '{names.body}' {len(body)}"
            raise format_error(archive.path, what)
        kind = {21: "SMPL-X", 23: "SMPL"}[num_joints]
        rotations = SO3.concatenate([root, body], axis=1)
    rotations = rotations[:, :NUM_JOINTS]
    notes.insert(0, f"{kind} archive: the 22 body joints are read, hands and face are dropped")
    if names.prefix:
        notes.append(f"the arrays of '{names.prefix.rstrip('/._:')}' were read")
    warnings.append(
        "the archive's body shape is not known here, so the poses are put on the proportions of marey.HUMAN: "
        "feet may float or sink by some centimetres"
    )
    positions = np.zeros((len(rotations), 3))
    if names.place is not None:
        positions = archive.read_numbers(names.place)
        positions = positions.reshape(-1, 3) if positions.size == 3 * len(rotations) else positions
        if positions.shape != (len(rotations), 3):
            what = f"'{names.place}' has shape {positions.shape}, the poses have {len(rotations)} frames"
            raise format_error(archive.path, what)
    else:
        warnings.append("no 'trans' in it: the body stays in place")
    # The axis along which the pelvis stands is vertical; a body that lies says nothing
    upright = (rotations[:, 0] @ np.array([0.0, 1.0, 0.0])).mean(axis=0)
    leaning = {"+y": upright[1], "+z": upright[2], "-y": -upright[1]}
    up = max(leaning, key=lambda axis: leaning[axis])
    if leaning[up] < UPRIGHT:
        up = "+z" if names.is_amass else "+y"
    rotations = SO3.concatenate([_TO_Y_UP[up] @ rotations[:, :1], rotations[:, 1:]], axis=1)
    notes.append(
        "the body stands along +Y already, so the axes were left as they are"
        if up == "+y"
        else f"the body stands along {up.upper()} and was turned to +Y"
    )
    layout = {name: array for name in KEPT_NAMES if (array := archive.read_spare(names.prefix + name)) is not None}
    return Motion(
        HUMAN,
        read_rate(archive, rate_hz, names.prefix, warnings),
        _TO_Y_UP[up] @ positions,
        rotations,
        contacts=read_contacts(archive, len(positions), notes, names.prefix),
        source=Source(str(archive.path), "amass" if names.is_amass else "smpl", up=up.replace("-", "+"), layout=layout),
        load_report=LoadReport(warnings, notes),
        name=Path(archive.path).stem,
    )


def read_rate(archive: NpzArchive, asked_hz: float | None, prefix: str, warnings: list[str]) -> float:
    """Return the rate asked for, else the archive's own, else that of video, with a warning."""
    if asked_hz is not None:
        return asked_hz
    name = next((p + n for p in (prefix, "") for n in RATE_NAMES if p + n in archive), None)
    if name is not None:
        # One number
        header = archive.plain_header(name)
        if any(length != 1 for length in header.shape):
            raise format_error(archive.path, f"'{name}' has shape {header.shape}, expected one number")
        return float(archive.read_numbers(name).reshape(()))
    warnings.append(f"no frame rate in it: {ASSUMED_RATE_HZ:g} Hz is assumed. Give rate_hz= to override")
    return ASSUMED_RATE_HZ


def rotations_from_matrices(matrices: FloatArray, name: str, notes: list[str]) -> SO3:
    """Turn matrices ``(..., 3, 3)`` into rotations; a repair of those that are slightly off goes to the notes."""
    with catch_warnings(record=True) as said:
        simplefilter("always")
        rotations = SO3.from_matrix(matrices)
    notes += [f"'{name}': {warning.message}" for warning in said]
    return rotations


def _read_rotations(archive: NpzArchive, name: str, counts: tuple[int, ...], notes: list[str]) -> tuple[SO3, int]:
    """Rotations, batch (F, N), and N, of an array that has vectors, 6-D rotations or matrices for N joints."""
    shape = archive.plain_header(name).shape
    # Axes after that of the frames: all in one, joints apart, matrices apart; a batch of one may stand before them
    known: dict[tuple[int, ...], tuple[int, int]] = {
        axes: (n, w)
        for n in counts
        for w, tails in {3: [(3,)], 6: [(6,), (3, 2)], 9: [(3, 3), (9,)]}.items()
        for axes in [(n * w,), *((n, *tail) for tail in tails), *(tails if n == 1 else ())]
    }
    found = next(
        ((s[0], *known[s[1:]]) for s in (shape, shape[1:]) if s[1:] in known and (s is shape or shape[0] == 1)), None
    )
    if found is None or found[0] == 0:
        rows = ", ".join(str(3 * n) for n in counts)
        what = f"{name} has shape {shape}; rows of {rows} numbers (or as many joints x 3, 6 or 3 x 3) are read"
        raise format_error(archive.path, what, "Give an AMASS archive or SMPL parameters, one person a file.")
    frames, count, width = found
    values = archive.read_numbers(name).reshape(frames, count, width)
    if width == 3:
        return SO3.exp(values), count
    notes.append(f"'{name}' holds {WIDTHS[width]}")
    matrices = _six_to_matrices(values) if width == 6 else values.reshape(frames, count, 3, 3)
    return rotations_from_matrices(matrices, name, notes), count


def _six_to_matrices(values: FloatArray) -> FloatArray:
    r"""Matrices ``(F, N, 3, 3)`` of 6-D rotations by Gram-Schmidt ([Zhou2019]_, eq. 6).

    Two layouts are in use: the first two columns, interleaved as :math:`R_{11}, R_{12}, R_{21}, \dots`, and, after
    PyTorch3D, the first two rows one after the other. In either, the two vectors are of unit length and
    perpendicular; read in the other way they are not.
    """
    a, b = values[..., :3], values[..., 3:]
    c, d = values[..., 0::2], values[..., 1::2]

    def error(u: FloatArray, v: FloatArray) -> float:
        lengths = np.abs(np.linalg.norm(u, axis=-1) - 1.0) + np.abs(np.linalg.norm(v, axis=-1) - 1.0)
        return float((lengths + np.abs((u * v).sum(axis=-1))).mean())

    in_rows = error(a, b) <= max(error(c, d), UNIT_TOL)
    u: FloatArray = a if in_rows else c
    v: FloatArray = b if in_rows else d
    u = u / np.maximum(np.linalg.norm(u, axis=-1, keepdims=True), 1e-12)
    v = v - (u * v).sum(axis=-1, keepdims=True) * u
    v = v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-12)
    rows: list[FloatArray] = [u, v, np.cross(u, v)]
    return np.stack(rows, axis=-2 if in_rows else -1)


WIDTH: Final = 156  # numbers a frame of SMPL-H: 22 joints of the body, 30 of the hands, three each
NUM_BETAS: Final = 16
SAME_DIRECTION: Final = 0.1  # [rad] bones of a rest pose that is SMPL's
_TO_Z_UP: Final = SO3.from_axis_angle([1.0, 0.0, 0.0], 0.5 * np.pi)  # (x, y, z) to (x, -z, y)


def write_amass(motion: Motion, path: AnyPath, *, gender: str = "neutral", betas: Any = None) -> None:
    """Write a motion of the canonical human as an AMASS archive: ``poses``, ``trans``, ``mocap_framerate``.

    Contacts travel as ``contacts`` ``(F, K)`` and ``contact_names``. Hands rest. The body's shape is SMPL's mean
    unless ``betas`` are given: SMPL then has its own bone lengths, so feet may float or sink by some centimetres on a
    body of other proportions.

    Args:
        motion: on the joints of :data:`marey.HUMAN`.
        path: an `.npz` file.
        gender: ``neutral``, ``female`` or ``male``.
        betas: shape coefficients, at most 16.

    Raises:
        InputError: the motion is on another skeleton.
    """
    skeleton = motion.skeleton
    difference = tree_difference(HUMAN, skeleton)
    # A bone that rests along another direction than the canonical human's; lengths do not count
    for joint in range(1, skeleton.num_joints) if difference is None else ():
        own, known = skeleton.offsets[joint], HUMAN.offsets[joint]
        lengths = np.linalg.norm(own) * np.linalg.norm(known)
        if lengths > 0.0 and own @ known < np.cos(SAME_DIRECTION) * lengths:
            difference = f"'{skeleton.names[joint]}' rests elsewhere than in its T-pose"
            break
    if difference is not None:
        raise InputError(
            f"'{motion.name}' is not on SMPL's joints: {difference}", "Retarget it first: marey.retarget(motion)"
        )
    if gender not in ("neutral", "female", "male"):
        raise InputError(f"gender '{gender}'", "SMPL knows neutral, female and male")
    shape = np.zeros(NUM_BETAS)
    given = np.asarray([] if betas is None else betas, dtype=np.float64).reshape(-1)
    if len(given) > NUM_BETAS or not np.isfinite(given).all():
        raise InputError(f"{len(given)} betas", f"At most {NUM_BETAS} finite numbers")
    shape[: len(given)] = given
    poses = np.zeros((motion.num_frames, WIDTH))
    poses[:, :3] = (_TO_Z_UP @ motion.rotations[:, 0]).log()
    poses[:, 3:66] = motion.rotations[:, 1:].log().reshape(motion.num_frames, -1)
    track = motion.contacts
    told: dict[str, Any] = {} if track is None else {"contacts": track.active, "contact_names": np.array(track.names)}
    with Path(path).open("wb") as file:
        np.savez(
            file,
            poses=poses,
            trans=_TO_Z_UP @ motion.root_positions,
            mocap_framerate=np.array(motion.rate_hz),
            gender=np.array(gender),
            betas=shape,
            **told,
        )

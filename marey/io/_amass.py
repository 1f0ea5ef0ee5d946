r"""AMASS archives: SMPL, SMPL-H and SMPL-X poses in `.npz` files ([Mahmood2019]_).

``poses`` holds an axis-angle vector a joint; the first 22 are those of the canonical human, in its order. AMASS is
z-up:

.. math:: R_{root} = C\,R_{poses}, \quad p_{root} = C\,trans, \quad C(x, y, z) = (x, z, -y).

The shapes of SMPL bodies may not be passed on, so the motion is put on the proportions of :data:`marey.HUMAN`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, InputError, frozen
from marey.io._amass_archive import read_arrays
from marey.io._bytes import AnyPath, as_format_error, format_error
from marey.lie import SO3
from marey.motion import LoadReport, Motion, Source
from marey.skeleton import HUMAN

KINDS: Final = {66: "SMPL body", 72: "SMPL", 156: "SMPL-H", 165: "SMPL-X"}  # values a frame
RATE_NAMES: Final = ("mocap_framerate", "mocap_frame_rate", "fps")
WANTED: Final = ("poses", "root_orient", "pose_body", "trans", "betas", "gender", *RATE_NAMES)
_Z_UP: Final = SO3.from_axis_angle([1.0, 0.0, 0.0], -0.5 * np.pi)  # C: (x, y, z) to (x, z, -y)


def read_amass(path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """Read the body motion of an AMASS archive; hands, face and soft tissue are left out.

    Args:
        path: the `.npz` file.
        rate_hz: frames per second to use instead of the archive's.
        unit: the archives are in metres; anything but ``"m"`` is refused.

    Raises:
        FormatError: the archive is damaged, needs pickle, or holds no SMPL poses.
    """
    if unit not in (None, "m"):
        raise InputError(f"unit '{unit}' for an AMASS archive", "AMASS is always in metres; leave unit out")
    arrays = read_arrays(path, WANTED, spare=("betas", "gender"))
    with as_format_error(path):
        vectors, kind = _vectors(arrays, path)
        rate = _rate(arrays, path) if rate_hz is None else rate_hz
        return _motion(arrays, vectors, kind, rate, path)


def _vectors(arrays: dict[str, Any], path: AnyPath) -> tuple[FloatArray, str]:
    """Axis-angle vectors (F, 22, 3) [rad] and the name of the body model."""
    if "poses" in arrays:
        poses = np.asarray(arrays["poses"], dtype=np.float64)
    elif "root_orient" in arrays and "pose_body" in arrays:
        poses = np.concatenate([np.asarray(arrays[n], dtype=np.float64) for n in ("root_orient", "pose_body")], axis=-1)
    else:
        raise format_error(
            path, "neither 'poses' nor 'root_orient' and 'pose_body' are in it", "Give an AMASS archive."
        )
    if poses.ndim != 2 or poses.shape[1] not in KINDS or len(poses) == 0:
        widths = ", ".join(str(n) for n in KINDS)
        raise format_error(path, f"poses has shape {poses.shape}; rows of {widths} are read", "Give an AMASS archive.")
    return poses[:, :66].reshape(-1, 22, 3), KINDS[poses.shape[1]]


def _rate(arrays: dict[str, Any], path: AnyPath) -> float:
    for name in RATE_NAMES:
        if name in arrays:
            return float(np.asarray(arrays[name], dtype=np.float64).reshape(()))
    raise format_error(path, "no frame rate in it", "Say it: rate_hz=120.")


def _motion(arrays: dict[str, Any], vectors: FloatArray, kind: str, rate: float, path: AnyPath) -> Motion:
    notes = [f"{kind} archive: the 22 body joints are kept, hands and face are left out"]
    warnings = [
        "the archive's body shape is not known here, so the poses are put on the proportions of marey.HUMAN: "
        "feet may float or sink by some centimetres"
    ]
    positions = np.zeros((len(vectors), 3))
    if "trans" in arrays:
        positions = frozen(arrays["trans"], None, 3, name="trans")
    else:
        warnings.append("no 'trans' in it: the body stays in place")
    rotations = SO3.exp(vectors)
    up = _vertical(rotations)
    if up == "+z":
        rotations = SO3(np.concatenate([(_Z_UP @ rotations[:, :1]).wxyz, rotations.wxyz[:, 1:]], axis=1))
        positions = _Z_UP @ positions
    else:
        notes.append("the body stands along +Y already, so the axes were left as they are")
    layout = {name: np.asarray(arrays[name]) for name in ("betas", "gender") if name in arrays}
    return Motion(
        HUMAN,
        rate,
        positions,
        rotations,
        source=Source(str(path), "amass", up=up, layout=layout),
        load_report=LoadReport(warnings, notes),
        name=Path(path).stem,
    )


def _vertical(rotations: SO3) -> str:
    """``"+z"`` as AMASS says, unless the pelvis clearly stands along +Y."""
    upright = (rotations[:, 0] @ np.array([0.0, 1.0, 0.0])).mean(axis=0)
    return "+y" if upright[1] > 0.5 and upright[1] > upright[2] else "+z"

r"""AMASS archives: SMPL, SMPL-H and SMPL-X poses in `.npz` files ([Mahmood2019]_).

An archive is not trusted: no pickle, no bomb, nothing that is not asked for.

``poses`` holds an axis-angle vector a joint; the first 22 are those of the canonical human, in its order. AMASS is
z-up:

.. math:: R_{root} = C\,R_{poses}, \quad p_{root} = C\,trans, \quad C(x, y, z) = (x, z, -y).

The shapes of SMPL bodies may not be passed on, so the motion is put on the proportions of :data:`marey.HUMAN`.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Collection, Iterable
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, FormatError, InputError, frozen
from marey.io.binary import AnyPath, as_format_error, file_size, format_error
from marey.lie import SO3
from marey.motion import LoadReport, Motion, Source
from marey.skeleton import HUMAN

MAX_ARCHIVE_BYTES: Final = 2 << 30
MAX_ARRAY_BYTES: Final = 1 << 30  # [byte] two hours of 156 numbers at 120 Hz
FREE_BYTES: Final = 32 << 20  # [byte] arrays below this may be packed as tightly as they like ...
MAX_RATIO: Final = 50  # ... larger ones not: captured motion packs to a fifth at best
MAX_MEMBERS: Final = 1000


def read_arrays(path: AnyPath, wanted: Iterable[str], *, spare: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """Return the requested arrays of the archive; damaged ``spare`` ones are omitted.

    Raises:
        FormatError: the archive is damaged, an array needs pickle, or its packed form is a bomb.
    """
    file_size(path, limit=MAX_ARCHIVE_BYTES)
    try:
        with zipfile.ZipFile(path) as archive:
            if len(archive.infolist()) > MAX_MEMBERS:
                raise format_error(path, f"{len(archive.infolist())} arrays in one archive", "Give an AMASS archive.")
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            found = {name: _read(archive, members[name], path, name in spare) for name in wanted if name in members}
            return {name: array for name, array in found.items() if array is not None}
    except zipfile.BadZipFile as error:
        raise format_error(path, f"not a readable .npz archive: {error}") from error
    except (zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, OverflowError, MemoryError) as error:
        raise format_error(path, f"the archive is damaged: {error or type(error).__name__}") from error


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: AnyPath, is_spare: bool) -> NDArray[Any] | None:
    name, size = info.filename, info.file_size
    # Refused before a byte is unpacked
    if size > MAX_ARRAY_BYTES or size > max(FREE_BYTES, MAX_RATIO * info.compress_size):
        what = f"'{name}' unpacks from {info.compress_size} to {size} bytes"
        raise format_error(path, what, "This looks like a decompression bomb; it was not read.")
    with archive.open(info) as member:
        try:
            content = member.read(size + 1)
            # The header of a .npy member is checked against the bytes that follow
            stream = BytesIO(content)
            version = np.lib.format.read_magic(stream)
            if version not in ((1, 0), (2, 0)):
                raise ValueError(f"array format {version}")
            read_header = (
                np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            )
            shape, in_columns, kind = read_header(stream)
            if kind.hasobject:
                raise format_error(
                    path, f"'{name}' holds Python objects", "They could run code. Save it with plain arrays."
                )
            count = 1
            for length in shape:
                count *= length
            if count * kind.itemsize != len(content) - stream.tell():
                raise ValueError(f"it announces {count} values, {len(content) - stream.tell()} bytes follow")
            array = np.frombuffer(content, dtype=kind, count=count, offset=stream.tell())
            return array.reshape(shape, order="F" if in_columns else "C")
        except FormatError:
            if is_spare:
                return None
            raise
        except ValueError as error:
            raise format_error(path, f"'{name}' is not a plain array: {str(error)[:120]}") from error


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
        # Axis-angle vectors (F, 22, 3) [rad] and the name of the body model
        if "poses" in arrays:
            poses = np.asarray(arrays["poses"], dtype=np.float64)
        elif "root_orient" in arrays and "pose_body" in arrays:
            poses = np.concatenate(
                [np.asarray(arrays[n], dtype=np.float64) for n in ("root_orient", "pose_body")], axis=-1
            )
        else:
            raise format_error(
                path, "neither 'poses' nor 'root_orient' and 'pose_body' are in it", "Give an AMASS archive."
            )
        if poses.ndim != 2 or poses.shape[1] not in KINDS or len(poses) == 0:
            widths = ", ".join(str(n) for n in KINDS)
            raise format_error(
                path, f"poses has shape {poses.shape}; rows of {widths} are read", "Give an AMASS archive."
            )
        if rate_hz is None:
            name = next((name for name in RATE_NAMES if name in arrays), None)
            if name is None:
                raise format_error(path, "no frame rate in it", "Say it: rate_hz=120.")
            rate_hz = float(np.asarray(arrays[name], dtype=np.float64).reshape(()))
        return _motion(arrays, poses[:, :66].reshape(-1, 22, 3), KINDS[poses.shape[1]], rate_hz, path)


def _motion(arrays: dict[str, Any], vectors: FloatArray, kind: str, rate: float, path: AnyPath) -> Motion:
    notes = [f"{kind} archive: the 22 body joints are read, hands and face are dropped"]
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
    # Z is up, as AMASS says, unless the pelvis clearly stands along +Y
    upright = (rotations[:, 0] @ np.array([0.0, 1.0, 0.0])).mean(axis=0)
    up = "+y" if upright[1] > 0.5 and upright[1] > upright[2] else "+z"
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

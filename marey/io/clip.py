"""Our own clip file: every field of a Motion, bit for bit, in one `.safetensors` file.

`Motion.source` is kept as JSON for plain values and as tensors for channel tables.

Arrays are tensors of the file; the rest is one JSON text in the file's metadata under the key ``marey``. Any
tool that reads safetensors can read our arrays; nothing in the file can run code.

`.marey` files hold compressed motions, which a room above this one makes and reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, FormatError, InputError, MareyError, MissingFileError, write_atomically
from marey.io.binary import (
    MAX_JSON_BYTES,
    MAX_JSON_VALUES,
    AnyPath,
    as_format_error,
    count_json_values,
    file_size,
    format_error,
    parse_json,
)
from marey.lie import SO3
from marey.motion import Contacts, LoadReport, Motion, Source
from marey.skeleton import EulerLimits, Skeleton


def to_plain(value: Any) -> Any:
    """Turn nested tuples, mappings and arrays into JSON that :func:`from_plain` turns back without loss.

    Raises:
        InputError: the value holds something that is not plain data.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        items = [to_plain(item) for item in cast(tuple[Any, ...] | list[Any], value)]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, Mapping):
        pairs = cast(Mapping[Any, Any], value).items()
        return {"mapping": [[to_plain(key), to_plain(item)] for key, item in pairs]}
    if isinstance(value, np.generic):
        return cast(Any, value).item()
    if isinstance(value, np.ndarray):
        array = cast(NDArray[Any], value)
        return {"array": array.tolist(), "dtype": array.dtype.str, "shape": list(array.shape)}
    raise InputError(f"source.layout holds a {type(value).__name__}", "Keep plain numbers, texts, lists and arrays")


def from_plain(value: Any) -> Any:
    """Undo :func:`to_plain`."""
    if isinstance(value, list):
        return [from_plain(item) for item in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    tagged = cast(dict[str, Any], value)
    if "tuple" in tagged:
        return tuple(from_plain(item) for item in tagged["tuple"])
    if "mapping" in tagged:
        return {from_plain(key): from_plain(item) for key, item in tagged["mapping"]}
    kind = np.dtype(tagged["dtype"])
    if kind.kind not in "biufU":
        raise InputError(f"an array of {kind} in the source's layout", "Write the clip again")
    return np.array(tagged["array"], dtype=kind).reshape(tagged["shape"])


CLIP_VERSION: Final = 1  # raise it when a reader of the old version would misread a new file
MAX_CLIP_BYTES: Final = 4 << 30  # [byte] 12 hours of 31 joints at 120 Hz

TENSORS: Final = (
    *("parents", "offsets", "tips", "root_positions", "rotations", "contacts", "translations"),
    *("limits.low", "limits.high", "limits.axis", "source.channels", "source.dropped"),
)

Tensors = dict[str, NDArray[Any]]


def write_clip(motion: Motion, path: AnyPath, *, channels: bool = True) -> None:
    """Write a clip that :func:`read_clip` gives back bit for bit; the same motion makes the same bytes.

    Args:
        motion: what to keep; its load report is completed first.
        path: the `.safetensors` file.
        channels: keep the values of the file the motion was read from too, so that a BVH file can still be given
            back channel by channel. It nearly doubles the size.
    """
    write_atomically(Path(path), clip_bytes(motion, channels=channels))


def clip_bytes(motion: Motion, *, channels: bool = True) -> bytes:
    """Return the content of the file that :func:`write_clip` writes."""
    from safetensors.numpy import save

    skeleton = motion.skeleton
    tensors: Tensors = {
        "parents": skeleton.parents,
        "offsets": skeleton.offsets,
        "tips": skeleton.tips,
        "root_positions": motion.root_positions,
        "rotations": motion.rotations.wxyz,
    }
    if motion.contacts is not None:
        tensors["contacts"] = motion.contacts.active
    if motion.translations is not None:
        tensors["translations"] = motion.translations
    if skeleton.limits:
        # The ranges of all joints end to end; the orders say how long each is
        tensors["limits.low"] = np.concatenate([np.asarray(limit.low_rad, float) for limit in skeleton.limits])
        tensors["limits.high"] = np.concatenate([np.asarray(limit.high_rad, float) for limit in skeleton.limits])
        tensors["limits.axis"] = np.stack([limit.axis.wxyz for limit in skeleton.limits])
    described: dict[str, Any] = {
        "format": "marey-clip",
        "clip_version": CLIP_VERSION,
        "name": motion.name,
        "rate_hz": motion.rate_hz,
        "skeleton": skeleton.name,
        "joints": list(skeleton.names),
        "limits": [[limit.joint, limit.order] for limit in skeleton.limits],
        "contacts": None if motion.contacts is None else list(motion.contacts.names),
        "warnings": list(motion.load_report.warnings),
        "notes": list(motion.load_report.notes),
    }
    source = motion.source
    if source is not None:
        described["source"] = {
            "path": source.path,
            "format": source.format,
            "unit": source.unit,
            "metres_per_unit": source.metres_per_unit,
            "up": source.up,
            "layout": [[to_plain(key), to_plain(value)] for key, value in source.layout.items()],
        }
        if channels and source.channels is not None:
            tensors["source.channels"] = np.asarray(source.channels, dtype=np.float64)
        if channels and source.dropped is not None:
            tensors["source.dropped"] = np.asarray(source.dropped, dtype=np.float64)
    text = json.dumps(described, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if len(text.encode()) > MAX_JSON_BYTES // 2 or count_json_values(text.encode()) > MAX_JSON_VALUES:
        raise InputError("the names and notes of this motion are too many to be kept", "Drop motion.source first")
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    return save(contiguous, metadata={"marey": text})


def read_clip(path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """Read a clip written by :func:`write_clip`, of this or any earlier version.

    The file is mapped into memory, so that only its arrays are copied, once.

    Args:
        path: the `.safetensors` file.
        rate_hz: use this frame rate instead of the file's.
        unit: clip files are in metres; anything but ``"m"`` is refused.

    Raises:
        FormatError: the file is damaged, is not a clip, or was written by a newer version.
    """
    if unit not in (None, "m"):
        raise InputError(f"unit '{unit}' for a clip file", "Clip files are always in metres; leave unit out")
    # The header, checked, and the tensors that it lists
    from safetensors import SafetensorError, safe_open

    size = file_size(path, limit=MAX_CLIP_BYTES)
    # The length of the header is checked before the library reads it
    with Path(path).open("rb") as stream:
        announced = int.from_bytes(stream.read(8), "little")
    if size < 8 or announced > size - 8:
        raise format_error(path, "the header is longer than the file: it is cut off or no safetensors file")
    if announced > MAX_JSON_BYTES:
        raise format_error(path, f"a header of {announced} bytes; the limit is {MAX_JSON_BYTES}")
    try:
        with cast(Any, safe_open(str(path), framework="np")) as file:
            metadata: dict[str, str] = file.metadata() or {}
            text = parse_json(metadata.get("marey", "{}"), path)
            described = cast(dict[str, Any], text) if isinstance(text, dict) else {}
            version: Any = described.get("clip_version")
            if not isinstance(version, int) or isinstance(version, bool) or version < 1:
                raise format_error(path, "a safetensors file, but not a marey clip", "Give a file that marey wrote.")
            if version > CLIP_VERSION:
                what = f"clip version {version}; this marey reads versions up to {CLIP_VERSION}"
                raise format_error(path, what, "Upgrade marey: pip install --upgrade marey")
            names = cast(list[str], file.keys())
            tensors: Tensors = {name: file.get_tensor(name) for name in names if name in TENSORS}
    except MareyError:
        raise
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        said = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise format_error(path, f"not a readable safetensors file: {said}", "Write the clip again.") from error
    with as_format_error(path, "Write the clip again."):
        motion = _restore_motion(tensors, described)
    return motion if rate_hz is None else replace(motion, rate_hz=rate_hz)


def _restore_motion(tensors: Tensors, described: Mapping[str, Any]) -> Motion:
    contacts = described["contacts"]
    source = described.get("source")
    # Ranges of all joints lie end to end
    limits: list[EulerLimits] = []
    first = 0
    for number, (joint, order) in enumerate(described["limits"]):
        span = slice(first, first + len(order))
        low, high = _floats(tensors, "limits.low")[span], _floats(tensors, "limits.high")[span]
        limits.append(EulerLimits(joint, order, low, high, SO3(_floats(tensors, "limits.axis")[number])))
        first = span.stop
    return Motion(
        skeleton=Skeleton(
            _texts(described["joints"]),
            tensors["parents"],
            _floats(tensors, "offsets"),
            _floats(tensors, "tips"),
            tuple(limits),
            str(described["skeleton"]),
        ),
        rate_hz=described["rate_hz"],
        root_positions=_floats(tensors, "root_positions"),
        rotations=SO3(_floats(tensors, "rotations")),
        contacts=None if contacts is None else Contacts(_texts(contacts), tensors["contacts"]),
        translations=_floats(tensors, "translations") if "translations" in tensors else None,
        source=None
        if source is None
        else Source(
            path=str(source["path"]),
            format=str(source["format"]),
            unit=str(source["unit"]),
            metres_per_unit=float(source["metres_per_unit"]),
            up=str(source["up"]),
            layout={from_plain(key): from_plain(value) for key, value in source["layout"]},
            channels=tensors.get("source.channels"),
            dropped=tensors.get("source.dropped"),
        ),
        load_report=LoadReport(_texts(described["warnings"]), _texts(described["notes"])),
        name=str(described["name"]),
    )


def _floats(tensors: Tensors, name: str) -> FloatArray:
    array = tensors[name]
    if array.dtype != np.float64:
        raise InputError(f"tensor '{name}' holds {array.dtype}, expected float64")
    return array


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise InputError(f"a list of names was expected, found {type(values).__name__}")
    return tuple(str(value) for value in cast(list[Any], values))


def read_compressed(path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """Read a `.marey` file, through the public name ``marey.decompress``: the codec stands above the readers.

    Raises:
        MissingFileError: there is no such file.
        FormatError: the file is damaged or of another version.
        InputError: it holds only the fingerprint of its skeleton (``marey.decompress(data, skeleton=...)`` takes one),
            or a unit other than metres is given.
    """
    if unit not in (None, "m"):
        raise InputError(f"unit '{unit}' for a .marey file", "Compressed motions are always in metres; leave unit out")
    if not Path(path).is_file():
        raise MissingFileError(str(path))
    codec: Any = import_module("marey")
    try:
        motion = cast(Motion, codec.decompress(Path(path).read_bytes()))
    except FormatError as error:
        raise FormatError(error.what, str(path), 0, error.fix) from None
    return replace(motion, rate_hz=motion.rate_hz if rate_hz is None else rate_hz, name=motion.name or Path(path).stem)

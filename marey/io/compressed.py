"""`.marey` files: compressed motions, which a room above this one makes."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from marey.base import FormatError, InputError, MissingFileError
from marey.io.binary import AnyPath
from marey.motion import Motion


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

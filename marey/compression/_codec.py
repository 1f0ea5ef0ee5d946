"""compress and decompress: a motion to few bytes and back."""

from __future__ import annotations

import math
from typing import Any

from marey.base import InputError, UnknownNameError
from marey.compression._container import DEFAULT, METHODS, seal, unseal
from marey.compression._default import Bound, decode_default, encode_default
from marey.compression._fields import FieldReader
from marey.motion import Motion
from marey.skeleton import Skeleton

SHELL_M = 0.03  # [m] as ACL measures: a skin of 3 cm around each joint


def compress(motion: Motion, *, max_error_m: float = 1e-3, method: str = "default", **options: Any) -> bytes:
    if method == "default":
        bound = Bound(float(max_error_m), float(options.get("shell_m", SHELL_M)))
        return seal(DEFAULT, encode_default(motion, bound, is_inside=options.get("skeleton", "inside") == "inside", levels=options.get("levels",(0,2,5))))
    raise UnknownNameError("method", method, "compress", METHODS)


def decompress(data: bytes, *, skeleton: Skeleton | None = None) -> Motion:
    method, body = unseal(data)
    return decode_default(FieldReader(body), skeleton)

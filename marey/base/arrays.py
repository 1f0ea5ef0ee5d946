"""Read-only arrays, validated once where data enters and trusted afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

EPS: Final = float(np.finfo(np.float64).eps)
BLOCK_VALUES: Final = 1 << 16  # values that are checked at a time
RATES_HZ: Final = (1e-6, 1e6)  # one frame in eleven days, and a hundred times any sensor
MAX_FRAMES: Final = 10_000_000  # 23 hours at 120 Hz; larger requests are mistakes


def split_blocks(count: int, size: int = 4096) -> Iterator[slice]:
    """Split rows into ranges of at most ``size``, so that intermediate results fit into the processor cache."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def check_frame_count(count: float, what: str, most: int = MAX_FRAMES) -> None:
    """Refuse an absurdly large number of frames before anything is allocated."""
    if not count <= most:
        raise InputError(f"{what} asks for {count:.3g} frames", f"Ask for at most {most} at once")


def check_rate(rate_hz: float, what: str = "frames") -> float:
    """Return a sampling rate [Hz] as a float; windows of frames and spectra are made for it.

    Raises:
        InputError: it is not a number between ``RATES_HZ``.
    """
    if not RATES_HZ[0] <= rate_hz <= RATES_HZ[1]:
        fix = f"It must be a positive number of {what} per second, between {RATES_HZ[0]:g} and {RATES_HZ[1]:g}"
        raise InputError(f"rate_hz is {rate_hz}", fix)
    return float(rate_hz)


def frozen(values: ArrayLike, *shape: int | None, name: str) -> FloatArray:
    """Copy to a read-only float64 array of the given shape; ``None`` stands for any length.

    Without a shape, any is accepted. An array that is read-only down to the owner of its data is returned unchanged.

    Raises:
        InputError: the shape is wrong, or a value is not finite; the message names the first such index.
    """
    array = _freeze(values, np.float64, shape, name)
    if array.size <= BLOCK_VALUES:
        is_finite = bool(np.isfinite(array).all())
    else:
        flat = array.reshape(-1)
        is_finite = all(np.isfinite(flat[part]).all() for part in split_blocks(len(flat), BLOCK_VALUES))
    if not is_finite:
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(f"{name} holds {array[where]} at index {where}", "Fill or cut the gap first")
    return array


def frozen_ints(values: ArrayLike, *shape: int | None, name: str) -> IntArray:
    """Copy to a read-only int64 array; see :func:`frozen`."""
    return _freeze(values, np.int64, shape, name)


def frozen_bools(values: ArrayLike, *shape: int | None, name: str) -> BoolArray:
    """Copy to a read-only bool array; see :func:`frozen`."""
    return _freeze(values, np.bool_, shape, name)


def _freeze(values: ArrayLike, dtype: type[Any], shape: tuple[int | None, ...], name: str) -> NDArray[Any]:
    given = cast("NDArray[Any]", values)  # a string, since building the alias takes 3 microseconds
    base = given if isinstance(values, np.ndarray) else None
    # Follow the views down to the array that owns the data
    while base is not None and not base.flags.writeable and isinstance(base.base, np.ndarray):
        base = base.base
    is_immutable = base is not None and not base.flags.writeable and base.base is None
    if is_immutable and given.dtype == dtype and given.flags.c_contiguous:
        array = given
    else:
        try:
            array = np.array(values, dtype=dtype, order="C")
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{name} is not an array of {dtype.__name__}: {error}") from None
    is_fit = shape == array.shape or (
        len(shape) == array.ndim and all(want in (None, have) for want, have in zip(shape, array.shape, strict=True))
    )
    if shape and not is_fit:
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise InputError(f"{name} has shape {array.shape}, expected ({wanted})")
    array.setflags(write=False)
    return array


def clamp_value(value: float, bounds: tuple[float, float], what: str) -> float:
    """Clamp a finite number to its range; ``what`` names it in errors."""
    if not np.isfinite(value):
        raise InputError(f"{what} is not a number")
    return float(np.clip(value, *bounds))

"""Read-only arrays: checked once where data enters, trusted everywhere after."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

EPS: Final = float(np.finfo(np.float64).eps)


def frozen(values: ArrayLike, *shape: int | None, name: str) -> FloatArray:
    """Copy to a read-only float64 array of the given shape; ``None`` is any length.

    Without a shape, any is taken. An array that is already read-only,
    float64 and owns its data is returned unchanged, since it cannot be modified.

    Raises:
        InputError: the shape is wrong, or a value is not finite; the message names the first bad index.
    """
    array = _copy_as(values, np.float64, name)
    _check_shape(array, shape, name)
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(f"{name} holds {array[where]} at index {where}", "Fill or cut the gap first")
    array.setflags(write=False)
    return array


def frozen_ints(values: ArrayLike, *shape: int | None, name: str) -> IntArray:
    """As :func:`frozen`, for whole numbers."""
    array = _copy_as(values, np.int64, name)
    _check_shape(array, shape, name)
    array.setflags(write=False)
    return array


def frozen_bools(values: ArrayLike, *shape: int | None, name: str) -> BoolArray:
    """As :func:`frozen`, for flags."""
    array = _copy_as(values, np.bool_, name)
    _check_shape(array, shape, name)
    array.setflags(write=False)
    return array


def _copy_as(values: ArrayLike, dtype: type[Any], name: str) -> NDArray[Any]:
    if isinstance(values, np.ndarray):
        given = cast(NDArray[Any], values)
        if given.dtype == dtype and given.flags.c_contiguous and _is_immutable(given):
            return given
    try:
        return np.array(values, dtype=dtype, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} is not an array of {dtype.__name__}: {error}") from None


def _is_immutable(array: NDArray[Any]) -> bool:
    while not array.flags.writeable:
        if not isinstance(array.base, np.ndarray):
            return array.base is None
        array = array.base
    return False


def _check_shape(array: NDArray[Any], shape: tuple[int | None, ...], name: str) -> None:
    if not shape:
        return
    fits = array.ndim == len(shape) and all(
        want is None or want == have for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise InputError(f"{name} has shape {array.shape}, expected ({wanted})")

"""Compiled writing of tables of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, kernel


@kernel
def format_table(values: FloatArray, decimals: int, out: NDArray[np.uint8]) -> int:
    """Write a row a line with at most ``decimals`` decimals, no trailing zeros; returns the bytes used.

    ``out`` has at least 24 bytes a value; ``abs(values) * 10**decimals`` fits in 63 bits.
    """
    scale = 10**decimals
    p = 0
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            p = format_fixed(values[row, column], scale, decimals, out, p)
            out[p] = 32
            p += 1
        out[p - 1] = 10
    return p


@kernel
def format_fixed(value: float, scale: int, decimals: int, out: NDArray[np.uint8], p: int) -> int:
    """Write one number from byte ``p`` on; returns the byte after it."""
    number = np.int64(np.rint(abs(value) * scale))
    whole, part = number // scale, number % scale
    if value < 0.0 and number > 0:
        out[p] = 45
        p += 1
    length = 1
    while 10**length <= whole:
        length += 1
    for n in range(length):
        out[p + length - 1 - n] = 48 + whole % 10
        whole //= 10
    p += length
    if part == 0:
        return p
    while part % 10 == 0:
        part //= 10
        decimals -= 1
    out[p] = 46
    for n in range(decimals):
        out[p + decimals - n] = 48 + part % 10
        part //= 10
    return p + decimals + 1

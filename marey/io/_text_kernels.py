"""Compiled reading of numbers from bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, kernel

TENS = 10.0 ** np.arange(23)  # every power of ten that a float64 holds exactly
TWO_53 = 1 << 53  # whole numbers up to here are exact


@kernel
def parse_numbers(
    data: NDArray[np.uint8], start: int, values: FloatArray, per_line: int
) -> tuple[int, int, int, int, int, bool]:
    """Fill ``values`` with the numbers written in ``data`` from byte ``start``, white space between them.

    ``data`` ends with a line end, so no loop needs to look for the end of the array inside a number.

    Returns:
        How many numbers were read; the byte where reading stopped; the byte that ends the first line which
        does not hold ``per_line`` numbers (-1 if none) and how many it holds; how many numbers of the line in
        hand were read; whether reading stopped at something that is no number.
    """
    stop, capacity = len(data), len(values)
    count, in_line, odd_at, odd_count, p = 0, 0, -1, 0, start
    while p < stop:
        byte = data[p]
        if byte <= 32:
            if byte == 10:
                if in_line != per_line and in_line != 0 and odd_at < 0:
                    odd_at, odd_count = p, in_line
                in_line = 0
            p += 1
            continue
        if count == capacity:
            break
        value, end = parse_number(data, p)
        if end < 0:
            return count, p, odd_at, odd_count, in_line, True
        values[count] = value
        count += 1
        in_line += 1
        p = end
    return count, p, odd_at, odd_count, in_line, False


@kernel
def parse_number(data: NDArray[np.uint8], p: int) -> tuple[float, int]:
    """Read one number; returns it and the byte after it, or -1 if the word is none.

    Up to 18 digits are kept. The result is rightly rounded when the digits fit in 53 bits and the power of ten
    in 22 ([Clinger1990]_), and within one unit in the last place otherwise.
    """
    negative = data[p] == 45
    if negative or data[p] == 43:
        p += 1
    mantissa, digits, exponent, seen = 0, 0, 0, False
    while True:
        digit = np.int64(data[p]) - 48
        if digit < 0 or digit > 9:
            break
        seen = True
        if digits < 18:
            mantissa = mantissa * 10 + digit
            digits += mantissa > 0
        else:
            exponent += 1
        p += 1
    if data[p] == 46:
        p += 1
        while True:
            digit = np.int64(data[p]) - 48
            if digit < 0 or digit > 9:
                break
            seen = True
            if digits < 18:
                mantissa = mantissa * 10 + digit
                digits += mantissa > 0
                exponent -= 1
            p += 1
    if not seen:
        return 0.0, -1
    if data[p] == 101 or data[p] == 69:
        power, p = parse_exponent(data, p + 1)
        exponent += power
    if p < 0 or data[p] > 32:
        return 0.0, -1
    value = scaled(mantissa, exponent)
    return (-value if negative else value), p


@kernel
def parse_exponent(data: NDArray[np.uint8], p: int) -> tuple[int, int]:
    """Read the whole number after ``e``; returns it and the byte after it, or -1."""
    negative = data[p] == 45
    if negative or data[p] == 43:
        p += 1
    power, first = 0, p
    while True:
        digit = np.int64(data[p]) - 48
        if digit < 0 or digit > 9:
            break
        power = min(power * 10 + digit, 9999)
        p += 1
    return (-power if negative else power), (p if p > first else -1)


@kernel
def scaled(mantissa: int, exponent: int) -> float:
    """``mantissa`` times ten to ``exponent``."""
    value = float(mantissa)
    if mantissa == 0:
        return value
    while exponent > 22 and value < 1e300:
        value *= 1e22
        exponent -= 22
    while exponent < -22 and value > 1e-300:
        value /= 1e22
        exponent += 22
    if exponent < -22:
        return 0.0
    if exponent > 22:
        return np.inf
    return value / TENS[-exponent] if exponent < 0 else value * TENS[exponent]

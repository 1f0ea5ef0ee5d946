"""Text files as bytes: read with a limit, made plain, able to name the line of an error; numbers by compiled loops."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, FormatError, MissingFileError, kernel, numba_function

MAX_FILE_BYTES: Final = 1 << 30  # two hours of 96 channels at 120 Hz fill 0.7 GB; past this a file is a mistake
SHOWN: Final = 32  # characters of a bad word that a message repeats


@dataclass(frozen=True, slots=True)
class TextFile:
    """The bytes of a text file: UTF-8 without a mark, lines ended by a line feed, the last one too."""

    path: str
    data: bytes
    was_cut: bool = False  # the file does not end with a line end

    def line_at(self, offset: int) -> int:
        """Line number, from one, of a byte."""
        return self.data.count(b"\n", 0, offset) + 1

    def word_at(self, offset: int) -> str:
        """Return the word that starts at a byte, made fit to print."""
        return make_printable(self.data[offset : offset + 4 * SHOWN].split(None, 1)[0])

    def error(self, what: str, offset: int, fix: str) -> FormatError:
        """Build the error for something wrong at a byte."""
        return FormatError(what, self.path, self.line_at(offset), fix)

    def error_on_line(self, what: str, line: int, fix: str) -> FormatError:
        """Build the error for something wrong on a line whose number is known."""
        return FormatError(what, self.path, line, fix)

    def array(self) -> NDArray[np.uint8]:
        """Return the bytes as a read-only array, without a copy."""
        return np.frombuffer(self.data, dtype=np.uint8)


def read_text(path: str | os.PathLike[str]) -> TextFile:
    """Read a whole text file.

    Raises:
        MissingFileError: there is no such file.
        FormatError: it is a folder, empty, too large, or not text.
    """
    path_text = str(path)
    data = read_bytes(path)
    # UTF-16 with a mark or without, marks of UTF-8, and line ends of old Macs
    if data[:2] in _UTF16:
        data = _recode(path_text, data[2:], _UTF16[data[:2]])
    elif b"\0" in data[:256]:
        data = _recode(path_text, data, "utf-16-le" if data[1:2] == b"\0" else "utf-16-be")
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    was_cut = not data.endswith(b"\n")
    return TextFile(str(path), data + b"\n" if was_cut else data, was_cut)


def read_bytes(path: str | os.PathLike[str], *, limit: int = MAX_FILE_BYTES) -> bytes:
    """Read a file of at most ``limit`` bytes; the errors of :func:`read_text`, the encoding apart."""
    file = Path(path)
    try:
        size = file.stat().st_size
        if file.is_dir():
            raise FormatError("this is a folder", str(path), 1, "Name one file in it.")
        if size > limit:
            raise FormatError(f"{size} bytes are too many to read", str(path), 1, f"The limit is {limit} bytes.")
        data = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError(str(path)) from None
    except (OSError, ValueError) as error:
        raise FormatError(f"cannot be read: {error}", str(path), 1, "Check the path and its permissions.") from None
    if not data[:4096].strip() and not data.strip():
        raise FormatError("the file is empty", str(path), 1, "Export it again.")
    return data


def make_printable(word: bytes | str) -> str:
    """Shorten a word and replace what a terminal should not be sent."""
    text = word.decode("utf-8", errors="replace") if isinstance(word, bytes) else word
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: SHOWN + 1])
    return clean if len(clean) <= SHOWN else clean[:SHOWN] + "..."


def plural(count: int, noun: str) -> str:
    """``1 frame``, ``2 frames``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def is_decimal_comma(word: str) -> bool:
    """Tell whether a word is a number written with a decimal comma."""
    return re.fullmatch(r"[-+]?\d*,\d+([eE][-+]?\d+)?", word) is not None


def parse_float(word: str) -> float | None:
    """Return the finite number that a word spells, or ``None``; stricter than ``float``: no ``1_0``, no ``nan``."""
    if _NUMBER.fullmatch(word) is None:
        return None
    value = float(word)
    return value if np.isfinite(value) else None


_NUMBER: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_UTF16: Final = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def _recode(path: str, data: bytes, encoding: str) -> bytes:
    text = data.decode(encoding, errors="replace")
    if sum(c.isascii() and c != "\0" for c in text[:256]) < 0.9 * len(text[:256]):
        what, fix = "this is binary data, not text", "Check that the file has the right suffix; save text as UTF-8."
        raise FormatError(what, path, 1, fix)
    return text.encode("utf-8", errors="replace")


Int = int | np.signedinteger[Any]  # the compiled code makes no difference
trailing_zeros: Callable[[np.uint64], np.uint64] = numba_function("numba.cpython.unsafe.numbers", "trailing_zeros")

TENS = 10.0 ** np.arange(23)  # every power of ten that a float64 holds exactly
U0, U1, U2, U3, U4, U5, U6, U7, U8, U10 = (np.uint64(n) for n in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10))
U16, U24, U32, U40, U48, U56, U63 = (np.uint64(n) for n in (16, 24, 32, 40, 48, 56, 63))
U45, U46, U255, FULL = np.uint64(45), np.uint64(46), np.uint64(255), np.uint64(0xFFFFFFFFFFFFFFFF)
HIGHS = np.uint64(0x8080808080808080)
ZEROS = np.uint64(0x3030303030303030)  # eight digits 0
BEYOND_NINE = np.uint64(0x7676767676767676)  # added to a byte above nine, sets its high bit
BEYOND_BLANK = np.uint64(0x2121212121212121)  # taken from a blank byte, sets its high bit
PAIR_MASK = np.uint64(0x000000FF000000FF)
MILLIONS = np.uint64(0x000F424000000064)  # 1 000 000 and 100
TEN_THOUSANDS = np.uint64(0x0000271000000001)  # 10 000 and 1


@kernel
def parse_numbers(
    data: NDArray[np.uint8], start: Int, values: FloatArray, per_line: Int
) -> tuple[Int, Int, Int, Int, Int, bool]:
    """Fill ``values`` with the numbers written in ``data`` from byte ``start``, white space between them.

    ``data`` ends with a line end, so no loop needs to look for the end of the array inside a number.

    Returns:
        How many numbers were read; the byte where reading stopped; the byte that ends the first line which
        does not hold ``per_line`` numbers (-1 if none) and how many it holds; how many numbers of the line in
        hand were read; whether reading stopped at a word that is not a number.
    """
    stop, capacity = len(data), len(values)
    count, in_line, odd_at, odd_count, p = 0, 0, -1, 0, start
    while p < stop:
        byte = data[p]
        if byte <= 32:
            # A line end: is the number of values right?
            if byte == 10:
                if in_line != per_line and in_line != 0 and odd_at < 0:
                    odd_at, odd_count = p, in_line
                in_line = 0
            p += 1
            continue
        if count == capacity:
            break
        # The fast reader where 24 bytes follow, else and for odd shapes the careful one
        value, end = parse_plain(data, p) if p + 24 <= stop else (0.0, -1)
        if end < 0:
            value, end = parse_number(data, p)
            if end < 0:
                return count, p, odd_at, odd_count, in_line, True
        values[count] = value
        count += 1
        in_line += 1
        p = end
    return count, p, odd_at, odd_count, in_line, False


@kernel
def word_at(data: NDArray[np.uint8], p: Int) -> np.uint64:
    """Eight bytes as one number, the first byte lowest; the compiler makes one load of it."""
    q = np.uint64(p)
    return (
        np.uint64(data[q])
        | np.uint64(data[q + U1]) << U8
        | np.uint64(data[q + U2]) << U16
        | np.uint64(data[q + U3]) << U24
        | np.uint64(data[q + U4]) << U32
        | np.uint64(data[q + U5]) << U40
        | np.uint64(data[q + U6]) << U48
        | np.uint64(data[q + U7]) << U56
    )


@kernel
def blank_bits(word: np.uint64) -> np.uint64:
    """Bits of which the lowest marks the first white space among eight bytes; zero if there is none."""
    return (word - BEYOND_BLANK) & ~word & HIGHS


@kernel
def leading_digits(word: np.uint64) -> Int:
    """How many of the first bytes of a word are digits, 0 to 8."""
    other = word ^ ZEROS  # a digit becomes 0 .. 9
    return np.int64(trailing_zeros(((other + BEYOND_NINE) | other) & HIGHS) >> U3)


@kernel
def digits_value(word: np.uint64, count: Int) -> float:
    """Value of the first ``count`` digits of a word, 0 to 7."""
    if count <= 0:
        return 0.0
    digits = (word ^ ZEROS) << (np.uint64(64 - 8 * count) & U63)
    # Eight digits 0 .. 9 all at once, the first byte the highest ([Lemire2021]_)
    pairs = digits * U10 + (digits >> U8)
    total = (pairs & PAIR_MASK) * MILLIONS + ((pairs >> U16) & PAIR_MASK) * TEN_THOUSANDS
    return np.float64(np.int64(total >> U32))


@kernel
def parse_plain(data: NDArray[np.uint8], p: Int) -> tuple[float, Int]:
    """Read a number of at most seven digits before and after the point, of which there may be none.

    Returns it and the byte after it, -1 for any other shape. Twenty-four bytes from ``p`` on must exist.
    """
    is_negative = np.int64(data[p] == 45)
    whole = word_at(data, p + is_negative)
    num_whole = leading_digits(whole)
    end = p + is_negative + num_whole
    part, num_part = whole, np.int64(0)
    if data[end] == 46:
        part = word_at(data, end + 1)
        num_part = leading_digits(part)
        end += 1 + num_part
    if num_whole > 7 or num_part > 7 or num_whole + num_part == 0 or data[end] > 32:
        return 0.0, -1
    tens = TENS[num_part]
    value = (digits_value(whole, num_whole) * tens + digits_value(part, num_part)) / tens
    return value * (1 - 2 * is_negative), end


@kernel
def parse_number(data: NDArray[np.uint8], p: Int) -> tuple[float, Int]:
    """Read one number; returns it and the byte after it, or -1 if the word is none.

    Up to 18 digits are kept. The result is rightly rounded when the digits fit in 53 bits and the power of ten
    in 22 ([Clinger1990]_), and within one unit in the last place otherwise.
    """
    negative = data[p] == 45
    if negative or data[p] == 43:
        p += 1
    # Digits with at most one point; those beyond the eighteenth only move the exponent
    mantissa, digits, exponent, seen, is_part = 0, 0, 0, False, False
    while True:
        digit = np.int64(data[p]) - 48
        if digit == -2 and not is_part:
            is_part = True
        elif digit < 0 or digit > 9:
            break
        else:
            seen = True
            if digits < 18:
                mantissa = mantissa * 10 + digit
                digits += mantissa > 0
                exponent -= 1 if is_part else 0
            elif not is_part:
                exponent += 1
        p += 1
    if not seen:
        return 0.0, -1
    # The power of ten after e or E, which needs a digit
    if data[p] == 101 or data[p] == 69:
        p += 1
        is_small = data[p] == 45
        if is_small or data[p] == 43:
            p += 1
        power, first = 0, p
        while True:
            digit = np.int64(data[p]) - 48
            if digit < 0 or digit > 9:
                break
            power = min(power * 10 + digit, 9999)
            p += 1
        if p == first:
            return 0.0, -1
        exponent += -power if is_small else power
    if data[p] > 32:
        return 0.0, -1
    value = scale_by_ten(mantissa, exponent)
    return (-value if negative else value), p


@kernel
def scale_by_ten(mantissa: Int, exponent: Int) -> float:
    """``mantissa`` times ten to ``exponent``, carried as a sum of two floats so that only the last step rounds."""
    high = float(mantissa)
    low = float(mantissa - np.int64(high))
    if mantissa == 0:
        return high
    while exponent > 0 and high < 1e300:
        step = min(exponent, 22)
        # The sum `high + low` times a power of ten that a float holds exactly
        factor = TENS[step]
        product = high * factor
        if product == np.inf:
            high, low = product, 0.0
        else:
            high, low = two_sum(product, product_error(high, factor, product) + low * factor)
        exponent -= step
    while exponent < 0 and high > 1e-300:
        step = min(-exponent, 22)
        # Divide the pair: the rest of the rounded quotient goes into the low part
        divisor = TENS[step]
        quotient = high / divisor
        product = quotient * divisor
        rest = (high - product) - product_error(quotient, divisor, product) + low
        high, low = two_sum(quotient, rest / divisor)
        exponent += step
    if exponent < 0:  # below 1e-300: nothing a motion can mean
        return 0.0 if exponent < -22 else high / TENS[-exponent]
    return np.inf if exponent > 0 else high


@kernel
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Rounded sum of a large and a small float, and what rounding lost."""
    total = a + b
    return total, b - (total - a)


@kernel
def product_error(a: float, b: float, product: float) -> float:
    """Rounding error of ``product = a * b``, by splitting both factors ([Dekker1971]_)."""
    a_big, b_big = 134217729.0 * a, 134217729.0 * b
    a_high, b_high = a_big - (a_big - a), b_big - (b_big - b)
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low

"""Checks of single values that are handed over: numbers, times, names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite, nan
from typing import Final, cast

import numpy as np

from marey.base import InputError, UnknownNameError

MAX_TIME_S: Final = 36_000.0  # [s] ten hours in one go are a mistake


def check_number(name: str, value: object) -> float:
    """Return a finite number.

    Raises:
        InputError: it is none.
    """
    # A flag is a whole number to Python, but none here.
    if not (isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)):
        raise InputError(f"{name} is {value!r}", "It must be a number")
    try:
        number = float(cast(float, value))
    except OverflowError:  # a whole number of hundreds of digits
        number = nan
    if not isfinite(number):
        raise InputError(f"{name} is {number}", "It must be a finite number")
    return number


def check_positive(name: str, value: object) -> float:
    """Return a finite number above zero."""
    number = check_number(name, value)
    if number <= 0.0:
        raise InputError(f"{name} is {number:g}", "It must be a positive number")
    return number


def check_time(name: str, value: object) -> float:
    """Return a time [s] that is neither negative nor beyond ``MAX_TIME_S``."""
    time_s = check_number(name, value)
    if time_s < 0.0:
        raise InputError(f"{name} is {time_s}", "Time does not run backwards: give zero or more seconds")
    if time_s > MAX_TIME_S:
        raise InputError(f"{name} is {time_s:g}", f"Give at most {MAX_TIME_S:g} seconds at once")
    return time_s


def check_name(kind: str, name: object, owner: str, known: Iterable[str]) -> str:
    """Return a name that is known.

    Raises:
        UnknownNameError: it is not.
    """
    names = tuple(known)
    if not isinstance(name, str) or name not in names:
        raise UnknownNameError(kind, str(name), owner, names)
    return name


def check_weights(name: str, value: object) -> dict[str, float]:
    """Return weights by name, none of them negative.

    Raises:
        InputError: it is not a mapping, or a weight is negative or not a number.
    """
    if not isinstance(value, Mapping):
        raise InputError(f"{name} is {value!r}", "Give a name, or a weight for each of some names")
    given = cast("Mapping[object, object]", value)
    weights = {str(key): check_number(f"{name}: the weight of '{key}'", weight) for key, weight in given.items()}
    below = [key for key, weight in weights.items() if weight < 0.0]
    if below:
        raise InputError(f"{name} gives '{below[0]}' the weight {weights[below[0]]}", "Weights are zero or more")
    return weights

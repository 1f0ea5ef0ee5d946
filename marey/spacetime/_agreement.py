"""Keys that no motion of any character could satisfy together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import inf
from typing import Final, NamedTuple

from marey.base import InputError
from marey.spacetime._problem import Key, Problem

SAME: Final = 1e-9  # [m], [m/s], [rad] values this near are the same
AXIS_NAMES: Final = ("x", "y", "z")
PLACED: Final = ("point", "com", "com_velocity", "bar")  # kinds with a target of three components
JUMPING: Final = ("velocity", "com_velocity")  # where an impact may change the value between two phases


class Wish(NamedTuple):
    """One number that a key wants within two ends, from one instant to another."""

    what: str
    low: float
    high: float
    begin: float  # number of the phase plus the share of it
    end: float
    key: Key


def check_agreement(problem: Problem) -> None:
    """Refuse two keys that want different values of the same thing at the same instant.

    Raises:
        InputError: with both keys and both values.
    """
    wishes = [wish for key in problem.keys for wish in _wishes(problem, key)]
    for one, other in combinations(wishes, 2):
        if one.what == other.what and _meet(one, other) and max(one.low, other.low) > min(one.high, other.high) + SAME:
            raise InputError(
                f"keys '{one.key.kind}' in phase '{one.key.phase}' and '{other.key.kind}' in phase "
                f"'{other.key.phase}' contradict: {one.what} cannot be {_words(one)} and {_words(other)}",
                "Change one of them",
            )


def _wishes(problem: Problem, key: Key) -> Iterator[Wish]:
    begin = problem.phase_index(key.phase) + (0.0 if key.at is None else key.at)
    end = begin + (1.0 if key.at is None else 0.0)
    for what, low, high in _values(key):
        yield Wish(what, low, high, begin, end, key)


def _values(key: Key) -> Iterator[tuple[str, float, float]]:
    """What a key wants of which number: name, lowest, highest."""
    names = {"point": key.point, "com": "the centre of mass", "com_velocity": "the velocity of the centre of mass"}
    if key.kind in names:
        for axis, value in zip(AXIS_NAMES, key.target, strict=False):
            if value is not None:
                yield f"{names[key.kind]} along {axis}", value, value
    elif key.kind == "clearance":
        yield f"{key.point} along y", 0.0 if key.lower is None else key.lower, inf
    elif key.kind in ("pose", "velocity"):
        for name, value in key.joints.items():
            yield f"the speed of {name}" if key.kind == "velocity" else name, value, value


def _meet(one: Wish, other: Wish) -> bool:
    """Whether two keys share an instant; speeds before and after a border are two things."""
    if one.key.kind in JUMPING and one.key.phase != other.key.phase:
        return False
    return max(one.begin, other.begin) <= min(one.end, other.end)


def _words(wish: Wish) -> str:
    return f"{wish.low:g}" if wish.low == wish.high else f"at least {wish.low:g}"

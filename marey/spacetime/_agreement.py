"""Keys that no motion of any character could satisfy together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import inf
from typing import Final, NamedTuple

from marey.base import InputError
from marey.spacetime._problem import Key, SpacetimeProblem

SAME_TOL: Final = 1e-9  # [m], [m/s], [rad] values this near are the same
AXIS_NAMES: Final = ("x", "y", "z")
POSITION_KINDS: Final = ("point", "com", "com_velocity", "bar")  # kinds with a target of three components
VELOCITY_KINDS: Final = ("velocity", "com_velocity")  # where an impact may change the value between two phases


class KeyInterval(NamedTuple):
    """One number that a key wants within two ends, from one instant to another."""

    what: str
    low: float
    high: float
    begin: float  # number of the phase plus the share of it
    end: float
    key: Key


def check_key_conflicts(problem: SpacetimeProblem) -> None:
    """Refuse two keys that want different values of the same thing at the same instant.

    Raises:
        InputError: with both keys and both values.
    """
    wishes = [wish for key in problem.keys for wish in _key_intervals(problem, key)]
    for one, other in combinations(wishes, 2):
        if (
            one.what == other.what
            and _is_compatible(one, other)
            and max(one.low, other.low) > min(one.high, other.high) + SAME_TOL
        ):
            raise InputError(
                f"keys '{one.key.kind}' in phase '{one.key.phase}' and '{other.key.kind}' in phase "
                f"'{other.key.phase}' contradict: {one.what} cannot be "
                f"{_describe_interval(one)} and {_describe_interval(other)}",
                "Change one of them",
            )


def _key_intervals(problem: SpacetimeProblem, key: Key) -> Iterator[KeyInterval]:
    begin = problem.phase_index(key.phase) + (0.0 if key.at is None else key.at)
    end = begin + (1.0 if key.at is None else 0.0)
    for what, low, high in _key_ranges(key):
        yield KeyInterval(what, low, high, begin, end, key)


def _key_ranges(key: Key) -> Iterator[tuple[str, float, float]]:
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


def _is_compatible(one: KeyInterval, other: KeyInterval) -> bool:
    """Whether two keys share an instant; speeds before and after a border are two things."""
    if one.key.kind in VELOCITY_KINDS and one.key.phase != other.key.phase:
        return False
    return max(one.begin, other.begin) <= min(one.end, other.end)


def _describe_interval(wish: KeyInterval) -> str:
    return f"{wish.low:g}" if wish.low == wish.high else f"at least {wish.low:g}"

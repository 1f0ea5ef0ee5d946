"""What a BVH hierarchy means: skeleton, channels, profile and unit, worked out once for all clips that share it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from marey.base import FormatError
from marey.io._axes import to_world
from marey.io._bvh_header import BvhHeader, Vector, find_motion, parse_header
from marey.io._bvh_repair import find_profile
from marey.io._euler import ChannelMap
from marey.io._text import TextFile, make_printable
from marey.io._units import CMU_UNIT_M, UnitGuess, guess_unit, longest_reach
from marey.skeleton import Skeleton, SkeletonDraft


@dataclass(frozen=True, slots=True, eq=False)
class BvhTree:
    """A parsed hierarchy; shared and never changed."""

    names: tuple[str, ...]  # (J,) as the file spells them
    layout: ChannelMap
    end_sites: tuple[tuple[int, Vector], ...]  # joint, offset in file units
    raw: Skeleton  # file units and axes
    profile: str  # "cmu" or empty
    unit: UnitGuess
    warnings: tuple[str, ...]


def read_tree(text: TextFile) -> tuple[BvhTree, int]:
    """Parse up to the word MOTION; returns the tree and the byte after that word.

    Trials of one person begin with the same bytes, so these are parsed once and give one skeleton.
    """
    start, stop = find_motion(text)
    try:
        return _interpret_header(text.data[:start]), stop
    except FormatError as error:
        raise FormatError(error.what, text.path, error.line, error.fix) from None


@lru_cache(maxsize=64)
def build_skeleton(tree: BvhTree, up: str, metres: float) -> Skeleton:
    """The skeleton in metres with Y up."""
    raw = tree.raw
    return replace(raw, offsets=to_world(raw.offsets, up) * metres, tips=to_world(raw.tips, up) * metres)


@lru_cache(maxsize=64)
def _interpret_header(head: bytes) -> BvhTree:
    header = parse_header(TextFile("", head))
    layout = ChannelMap.from_names(header.channels)
    names, warnings = _make_names_unique(header.names)
    if layout.num_channels == 0:
        raise FormatError("no joint has channels", "", head.count(b"\n") + 1, "Add a CHANNELS line to each joint.")
    draft = SkeletonDraft("bvh", names, header.parents, list(header.offsets), dict(_first_tips(header)))
    raw = draft.build()
    profile = find_profile(raw)
    sites = tuple(header.end_sites)
    return BvhTree(tuple(header.names), layout, sites, raw, profile, _unit(raw, profile), tuple(warnings))


def _make_names_unique(names: list[str]) -> tuple[list[str], list[str]]:
    """Give each joint a name of its own; returns the names and warnings that say what was changed."""
    taken, seen = set(names), set[str]()
    counters: dict[str, int] = {}
    result: list[str] = []
    changes: list[str] = []
    for index, name in enumerate(names):
        new = name if name and name not in seen else _free_name(name or "joint", taken, counters)
        if new != name:
            changes.append(f"joint {index} '{make_printable(name)}' is now '{make_printable(new)}'")
        taken.add(new)
        seen.add(new)
        result.append(new)
    if not changes:
        return result, []
    shown = "; ".join(changes[:4]) + (f"; and {len(changes) - 4} more" if len(changes) > 4 else "")
    return result, [f"joints without a name of their own were renamed: {shown}"]


def _free_name(stem: str, taken: set[str], counters: dict[str, int]) -> str:
    number = counters.get(stem, 1) + 1
    while f"{stem}_{number}" in taken:
        number += 1
    counters[stem] = number
    return f"{stem}_{number}"


def _first_tips(header: BvhHeader) -> list[tuple[int, Vector]]:
    """The end site of each joint that has one; of several the first, as dict keeps the last."""
    return list(reversed(header.end_sites))


def _unit(raw: Skeleton, profile: str) -> UnitGuess:
    if profile == "cmu":
        return UnitGuess("cmu", CMU_UNIT_M, f"CMU skeleton: lengths are inches / 0.45, {CMU_UNIT_M:.7f} m")
    return guess_unit(longest_reach(raw.parents, raw.offsets, raw.tips))

"""The HIERARCHY of a BVH file: joints, offsets, channels and end sites, and what they mean.

Skeleton, channels, profile and unit are worked out once for all clips that share them. Known faults of collections
have profiles: added poses, frames without data.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FloatArray, FormatError, IntArray
from marey.io.binary import AnyPath
from marey.io.conventions import CMU_UNIT_M, METRES, UnitGuess, estimate_stature, guess_body_unit
from marey.io.euler import NONE, ChannelMap, compose_euler
from marey.io.scene.clip import choose_clip, name_clips
from marey.io.text import TextFile, is_decimal_comma, make_printable, parse_float, plural, read_text
from marey.io.vertical_axis import to_world
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion
from marey.skeleton import (
    MAX_JOINTS,
    Skeleton,
    SkeletonDraft,
    assess_anatomy,
    find_body_plan,
    is_rest_pose,
    joint_frames,
)

CHANNELS: Final = tuple(f"{axis}{kind}" for kind in ("position", "rotation") for axis in "XYZ")
MAX_OFFSET: Final = 1e9  # file units; keeps every later product finite
Vector = tuple[float, float, float]
_CHANNEL: Final = {
    **{name.lower(): name for name in CHANNELS},
    **{f"{axis}translation": f"{axis.upper()}position" for axis in "xyz"},
    **{f"{axis}scale": f"{axis.upper()}scale" for axis in "xyz"},
}
MOST_ASKED: Final = 16  # characters of a file of which it is asked whether they are human
MOST_CHANNELS: Final = 9  # of a joint: positions, rotations, scales
_REMARK: Final = re.compile(r"#(?!!)|//")  # "#!" begins an AMC file
_POINT: Final = re.compile(rb"\d\.\d")
_COMMA: Final = re.compile(rb"(?<=\d),(?=\d)")
_JOINT: Final = re.compile(rb"^[ \t]*JOINT\b", re.IGNORECASE | re.MULTILINE)
_WORDS: Final = re.compile(r"\n|[{}]|[^\s{}]+")
_MOTION: Final = re.compile(rb"^[ \t\r\f\v]*motion(?=[\s:])", re.IGNORECASE | re.MULTILINE)
_END_SITE: Final = -2  # on the stack of open braces: an end site, not a joint


@dataclass(slots=True)
class BvhHeader:
    """The tree as the file states it."""

    names: list[str] = field(default_factory=list[str])
    parents: list[int] = field(default_factory=list[int])
    offsets: list[Vector] = field(default_factory=list[Vector])
    channels: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    end_sites: list[tuple[int, Vector]] = field(default_factory=list[tuple[int, Vector]])  # joint, offset
    rest_rotations: int = 0  # offsets followed by three more numbers


def read_bvh_text(path: AnyPath) -> tuple[TextFile, tuple[str, ...]]:
    """Read the file, and a note where all of its decimals are written with a comma, which some countries' tools do."""
    text = read_text(path)
    if _POINT.search(text.data) is None and _COMMA.search(text.data) is not None:
        return replace(text, data=_COMMA.sub(b".", text.data)), ("decimals are written with a comma in the file",)
    return text, ()


def find_motion(text: TextFile) -> tuple[int, int]:
    """Where the word MOTION begins and ends; it counts only at the start of a line."""
    match = _MOTION.search(text.data)
    if match is not None:
        return match.start(), match.end()
    parse_header(text)  # a fault of the hierarchy explains more than a missing section
    raise text.error("there is no MOTION section", len(text.data) - 1, "The file was cut short: export it again.")


def parse_header(text: TextFile) -> BvhHeader:
    """Parse a text that ends where MOTION begins."""
    parser = _HierarchyParser(text)
    parser.run()
    return parser.tree


class _HierarchyParser:
    """Walks the words of the header with a stack of open braces; nothing recurses."""

    __slots__ = ("at", "open", "text", "tree", "unset", "words")

    def __init__(self, text: TextFile) -> None:
        self.text, self.at = text, 0
        # No words of joints beyond the limit, at which parsing ends
        beyond = next(islice(_JOINT.finditer(text.data), MAX_JOINTS + 1, None), None)
        data = text.data if beyond is None else text.data[: beyond.end()]
        try:
            head = data.decode("utf-8")
        except UnicodeDecodeError:
            # Names in the characters of a country: each byte stays apart from the others
            head = data.decode("latin-1")
        self.words: list[str] = _WORDS.findall(head)
        self.tree = BvhHeader()
        self.open: list[int] = []  # joints whose braces are open
        self.unset: set[int] = set()  # joints whose OFFSET has not come yet

    def run(self) -> None:
        first = self.next()
        if first.upper() != "HIERARCHY":
            raise self.error(f"expected HIERARCHY, found '{make_printable(first)}'", "Check that this is a BVH file.")
        while word := self.next():
            handler = _HANDLERS.get(word.upper())
            if handler is None:
                raise self.unknown(word)
            handler(self)
        if self.open:
            raise self.error(f"{plural(len(self.open), 'brace')} not closed before MOTION", "Close what was opened.")
        if not self.tree.names:
            raise self.error("the hierarchy has no ROOT", "A BVH file needs one ROOT joint.")

    def next(self) -> str:
        """Return the next word, or an empty one at the end; remarks after # or // are passed over."""
        words, at = self.words, self.at
        while at < len(words) and (words[at] == "\n" or _REMARK.match(words[at])):
            if words[at] != "\n":
                while at < len(words) and words[at] != "\n":
                    at += 1
            at += 1
        self.at = at + 1
        return words[at] if at < len(words) else ""

    def rest_of_line(self) -> list[str]:
        """Words up to the end of the line or the next brace."""
        words, first = self.words, self.at
        at = first
        while at < len(words) and words[at] not in "\n{}":
            at += 1
        self.at = at
        return words[first:at]

    def error(self, what: str, fix: str) -> FormatError:
        line = 1 + self.words[: max(self.at - 1, 0)].count("\n")
        return FormatError(what, self.text.path, line, fix)

    def unknown(self, word: str) -> FormatError:
        if parse_float(word) is not None:
            return self.error(
                f"a number, {make_printable(word)}, stands where a keyword should", "Is a value too many?"
            )
        fix = "A hierarchy knows ROOT, JOINT, End Site, OFFSET and CHANNELS."
        return self.error(f"unknown keyword '{make_printable(word)}'", fix)

    def number(self, what: str) -> float:
        words, at = self.words, self.at
        word = words[at] if at < len(words) else ""
        self.at = at + 1
        value = parse_float(word)
        if value is None or abs(value) > MAX_OFFSET:
            word = word.strip()
            if not word or word in "{}":
                raise self.error(f"{what} has too few numbers", "Check that the line was not truncated.")
            if is_decimal_comma(word):
                raise self.error(f"'{make_printable(word)}' has a decimal comma", "Write decimals with a point.")
            raise self.error(f"'{make_printable(word)}' in {what} is not a usable number", "Correct the value.")
        return value

    def root(self) -> None:
        if self.open:
            raise self.error("ROOT stands inside a joint", "Close the braces above it, or write JOINT.")
        self.add_joint("ROOT", -1)

    def joint(self) -> None:
        if not self.open or self.open[-1] == _END_SITE:
            where = "an end site" if self.open else "no joint"
            raise self.error(f"JOINT stands inside {where}", "Put it within the braces of its parent.")
        self.add_joint("JOINT", self.open[-1])

    def add_joint(self, kind: str, parent: int) -> None:
        tree = self.tree
        name = " ".join(self.rest_of_line())
        if len(tree.names) == MAX_JOINTS:
            raise self.error(f"more than {MAX_JOINTS} joints", "Check that the file is a character's skeleton.")
        self.open_brace(f"{kind} {make_printable(name)}")
        self.unset.add(len(tree.names))
        self.open.append(len(tree.names))
        tree.names.append(name)
        tree.parents.append(parent)
        tree.offsets.append((0.0, 0.0, 0.0))
        tree.channels.append(())

    def end(self) -> None:
        self.rest_of_line()
        if not self.open or self.open[-1] == _END_SITE:
            raise self.error("End Site stands outside a joint", "Put it within the braces of a joint.")
        self.open_brace("End Site")
        self.open.append(_END_SITE)

    def open_brace(self, what: str) -> None:
        word = self.next()
        if word != "{":
            raise self.error(f"expected {{ after {what}, found '{make_printable(word)}'", "Add the brace.")

    def close_brace(self) -> None:
        if not self.open:
            raise self.error("a closing brace too many", "Remove it, or check the braces above.")
        joint = self.open.pop()
        if joint in self.unset:
            raise self.error(f"joint '{make_printable(self.tree.names[joint])}' has no OFFSET", "Add: OFFSET x y z")

    def offset(self) -> None:
        if not self.open:
            raise self.error("OFFSET stands outside a joint", "Put it within the braces of a joint.")
        vector = (self.number("OFFSET"), self.number("OFFSET"), self.number("OFFSET"))
        # Some tools add the joint's rest rotation, which all of them leave out again: the channels hold the whole pose
        extra = self.rest_of_line()
        if len(extra) == 3 and all(parse_float(word) is not None for word in extra):
            self.tree.rest_rotations += 1
        else:
            self.at -= len(extra)
        joint = self.open[-1]
        if joint == _END_SITE:
            self.tree.end_sites.append((self.open[-2], vector))
        else:
            self.tree.offsets[joint] = vector
            self.unset.discard(joint)

    def read_channels(self) -> None:
        words = self.rest_of_line()
        count = parse_float(words[0]) if words else None
        if count is None or not 0 <= count <= MOST_CHANNELS or count != int(count):
            found = make_printable(words[0]) if words else ""
            raise self.error(f"CHANNELS count is '{found}'", f"It must be a whole number from 0 to {MOST_CHANNELS}.")
        named = words[1 : 1 + int(count)]
        for word in named:
            if word.lower() not in _CHANNEL:
                raise self.error(f"unknown channel '{make_printable(word)}'", f"Channels are {', '.join(CHANNELS)}.")
        names = tuple(_CHANNEL[word.lower()] for word in named)
        extra = words[1 + int(count) :]
        if len(names) < count or (extra and extra[0].lower() in _CHANNEL):
            what = f"CHANNELS announces {plural(int(count), 'channel')} and names {len(names) + len(extra)}"
            raise self.error(what, "Make the count and the names agree.")
        self.at -= len(extra)  # the next statement may stand on the same line
        if len(set(names)) < len(names):
            raise self.error(f"a channel is named twice: {' '.join(names)}", "Name each channel once.")
        # An end site may have CHANNELS 0
        if not self.open or (self.open[-1] == _END_SITE and names):
            raise self.error("CHANNELS stands outside a joint", "Put it within the braces of a joint.")
        joint = self.open[-1]
        if joint == _END_SITE:
            return
        if self.tree.channels[joint]:
            raise self.error(f"a second CHANNELS for joint '{make_printable(self.tree.names[joint])}'", "Keep one.")
        self.tree.channels[joint] = names


_HANDLERS: Final[dict[str, Callable[[_HierarchyParser], None]]] = {
    "ROOT": _HierarchyParser.root,
    "JOINT": _HierarchyParser.joint,
    "END": _HierarchyParser.end,
    "ENDSITE": _HierarchyParser.end,
    "OFFSET": _HierarchyParser.offset,
    "CHANNELS": _HierarchyParser.read_channels,
    "}": _HierarchyParser.close_brace,
}


CMU_NAMES: Final = frozenset({"Hips", "LHipJoint", "RHipJoint", "LowerBack", "Spine1", "Neck1", "LeftFingerBase"})
LOST_BONES: Final = (
    "this conversion has lost the thorax and wrist bones: neck and shoulders sit on Spine1, 11 to 13 cm too low, "
    "and the fingers on the wrist"
)
FLIP_DEG: Final = 40.0  # a joint at 120 Hz would need 4800 degrees a second; markers were swapped or lost
MIN_JUMPED, MAX_JUMPED = 10, 60  # frames that must follow a pose which was added, and that are compared with it
JUMP: Final = 3.0  # [-] times the turn from any of these to the next
CMU_HEIGHT_M: Final = (1.0, 2.4)  # height of a CMU skeleton read in CMU units; else it was rescaled


def leading_rows(
    channels: FloatArray, layout: ChannelMap, profile: str, raw: Skeleton
) -> tuple[int, list[str], list[str]]:
    """How many rows at the start were not captured, and warnings and notes that say so."""
    warnings: list[str] = []
    notes: list[str] = []
    dropped = int(_is_added_pose(channels, layout, raw, is_known=profile == "cmu"))
    if dropped:
        notes.append("frame 0 is a T-pose that was added to the capture; dropped (kept in source.dropped)")
    if profile != "cmu":
        return dropped, warnings, notes
    # Rows of zeros at the start, unless all rows are
    filled = np.flatnonzero(channels[dropped:].any(axis=1))
    empty = int(filled[0]) if len(filled) else 0
    if empty:
        what = f"only zeros at the start, for {plural(empty, 'frame')}"
        warnings.append(f"{what}: not captured, left out (source.dropped keeps them)")
    names = ("Neck", "LeftShoulder", "RightShoulder")
    if all(n in raw.names and not raw.offsets[raw.index(n)].any() for n in names):
        notes.append(LOST_BONES)
    return dropped + empty, warnings, notes


def _is_added_pose(channels: FloatArray, layout: ChannelMap, raw: Skeleton, *, is_known: bool) -> bool:
    """Whole degrees, mostly zero, or mirrored limbs, before the first captured frame: not a captured pose.

    A collection that is known to do so lets the pose stand where the capture begins; elsewhere the joints must jump out
    of it, as they do in no other frame.
    """
    columns = layout.columns[layout.columns != NONE]
    if len(channels) < (2 if is_known else MIN_JUMPED) or not len(columns):
        return False
    turns = channels[0, columns]
    is_typed = (turns == np.rint(turns)).all() and np.count_nonzero(turns) < 0.2 * len(turns)
    if is_known:
        places = layout.positions[0][layout.positions[0] != NONE]
        return bool(is_typed and (channels[0, places] == channels[1, places]).all())
    rotations = SO3(compose_euler(np.ascontiguousarray(channels[: MAX_JUMPED + 1]), layout.axes, layout.columns))
    steps = np.degrees(geodesic_distance(rotations[1:], rotations[:-1]))
    if steps[0].max() < FLIP_DEG or steps[0].mean() < JUMP * steps[1:].mean(axis=1).max():
        return False
    plan = None if is_typed else find_body_plan(raw)
    points = joint_frames(raw, np.zeros((1, 3)), rotations.wxyz[:1])[0][0]
    return bool(is_typed) or (plan is not None and is_rest_pose(plan, points))


def joint_flips(motion: Motion) -> tuple[str, ...]:
    """A warning that names the joints which turn by more than ``FLIP_DEG`` from one frame to the next."""
    wxyz = motion.rotations.wxyz
    cosines = np.abs(np.einsum("fjc,fjc->fj", wxyz[1:], wxyz[:-1]))
    counts = (cosines < np.cos(np.deg2rad(0.5 * FLIP_DEG))).sum(axis=0)
    joints = sorted(np.flatnonzero(counts).tolist(), key=lambda j: -int(counts[j]))
    if not joints:
        return ()
    named = ", ".join(f"{motion.skeleton.names[j]} x{counts[j]}" for j in joints)
    return (f"joints turn by more than {FLIP_DEG:g} degrees between two frames: {named}",)


@dataclass(frozen=True, slots=True, eq=False)
class BvhTree:
    """A parsed hierarchy; shared and never changed."""

    names: tuple[str, ...]  # (J,) as the file spells them
    layout: ChannelMap
    whole: ChannelMap  # of all characters of the file, scales included
    first: int  # joint of the whole at which this character begins
    columns: IntArray  # (C,) its columns of the whole
    scales: IntArray  # columns of its scales, which are left out
    end_sites: tuple[tuple[int, Vector], ...]  # joint, offset in file units
    raw: Skeleton  # file units and axes
    profile: str  # "cmu" or empty
    unit: UnitGuess
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()


def read_tree(text: TextFile, clip: str | int | None = None) -> tuple[BvhTree, int]:
    """Parse up to the word MOTION; returns the tree of one character and the byte after that word.

    Trials of one person begin with the same bytes, so these are parsed once and give one skeleton.
    """
    start, stop = find_motion(text)
    try:
        head = text.data[:start]
        names = _name_characters(head, Path(text.path).stem)
        chosen, notes = choose_clip(text.path, names, clip, lambda i: i == _find_body(head))
        tree = _interpret_header(head, chosen)
        if tree.layout.num_channels == 0:
            raise FormatError("no joint has channels", "", head.count(b"\n") + 1, "Add a CHANNELS line to each joint.")
        return (replace(tree, notes=(*tree.notes, *notes)) if notes else tree), stop
    except FormatError as error:
        raise FormatError(error.what, text.path, error.line, error.fix) from None


def list_bvh_clips(path: AnyPath) -> tuple[str, ...]:
    """Characters of a file by their roots, or the name of the file where there is one."""
    text, _ = read_bvh_text(path)
    return _name_characters(text.data[: find_motion(text)[0]], Path(path).stem)


@lru_cache(maxsize=64)
def _name_characters(head: bytes, stem: str) -> tuple[str, ...]:
    header = parse_header(TextFile("", head))
    roots = [name for name, parent in zip(header.names, header.parents, strict=True) if parent < 0]
    return (stem,) if len(roots) == 1 else name_clips(roots)


@lru_cache(maxsize=64)
def _find_body(head: bytes) -> int:
    """The first character that is human, else the first that is no prop: a ball may have a root before the person's."""
    parents = parse_header(TextFile("", head)).parents
    roots = [*(j for j, parent in enumerate(parents) if parent < 0), len(parents)]
    sizes = np.diff(roots)
    large = np.flatnonzero(2 * sizes >= sizes.max()).tolist()
    humans = (i for i in large[:MOST_ASKED] if assess_anatomy(_interpret_header(head, i).raw).is_human)
    return next(humans, large[0])


@lru_cache(maxsize=64)
def build_skeleton(tree: BvhTree, up: str, metres: float) -> Skeleton:
    """The skeleton in metres with Y up."""
    raw = tree.raw
    return replace(raw, offsets=to_world(raw.offsets, up) * metres, tips=to_world(raw.tips, up) * metres)


@lru_cache(maxsize=64)
def _interpret_header(head: bytes, character: int) -> BvhTree:
    header = parse_header(TextFile("", head))
    whole = ChannelMap.from_names(header.channels)
    # The joints of one character, numbered from its root
    roots = [*(j for j, parent in enumerate(header.parents) if parent < 0), len(header.names)]
    a, b = roots[character], roots[character + 1]
    named = [(j, channel) for j, channels in enumerate(header.channels) for channel in channels]
    mine = [(k, channel[1:] == "scale") for k, (j, channel) in enumerate(named) if a <= j < b]
    columns, scales = (
        np.array([k for k, is_scale in mine if is_scale == flag], dtype=np.int64) for flag in (False, True)
    )
    header.names, header.offsets = header.names[a:b], header.offsets[a:b]
    header.channels = [tuple(c for c in channels if c[1:] != "scale") for channels in header.channels[a:b]]
    header.parents = [max(parent - a, -1) for parent in header.parents[a:b]]
    header.end_sites = [(joint - a, tip) for joint, tip in header.end_sites if a <= joint < b]
    layout = ChannelMap.from_names(header.channels)
    # Give each joint a name of its own, with warnings that say what was changed
    taken, seen = set(header.names), set[str]()
    counters: dict[str, int] = {}
    names: list[str] = []
    changes: list[str] = []
    for index, name in enumerate(header.names):
        new = name
        if not name or name in seen:
            # The stem and the next number that is free
            stem = name or "joint"
            number = counters.get(stem, 1) + 1
            while f"{stem}_{number}" in taken:
                number += 1
            counters[stem] = number
            new = f"{stem}_{number}"
        if new != name:
            changes.append(f"joint {index} '{make_printable(name)}' is now '{make_printable(new)}'")
        taken.add(new)
        seen.add(new)
        names.append(new)
    warnings: list[str] = []
    if changes:
        shown = "; ".join(changes[:4]) + (f"; and {len(changes) - 4} more" if len(changes) > 4 else "")
        warnings = [f"joints without a name of their own were renamed: {shown}"]
    # A joint's tip is its first end site, for a dict keeps the last of equal keys
    draft = SkeletonDraft("bvh", names, header.parents, list(header.offsets), dict(list(reversed(header.end_sites))))
    raw = draft.build()
    # The 2010 conversion of the CMU database in its own unit
    height = estimate_stature(raw)
    is_cmu = CMU_NAMES.issubset(raw.names) and CMU_HEIGHT_M[0] <= height * METRES["cmu"] <= CMU_HEIGHT_M[1]
    unit = guess_body_unit(raw)
    if is_cmu:
        unit = UnitGuess("cmu", CMU_UNIT_M, f"CMU skeleton: lengths are inches / 0.45, {CMU_UNIT_M:.7f} m")
    sites, profile = tuple(header.end_sites), "cmu" if is_cmu else ""
    notes = (
        ("offsets are followed by three more numbers, a rest rotation; left out, as the channels hold the whole pose",)
        if header.rest_rotations
        else ()
    )
    return BvhTree(
        tuple(header.names), layout, whole, a, columns, scales, sites, raw, profile, unit, tuple(warnings), notes
    )

"""The HIERARCHY of a BVH file: joints, offsets, channels and end sites, in file units."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from marey.base import FormatError
from marey.io._text import TextFile, is_decimal_comma, make_printable, parse_float, plural
from marey.skeleton import MAX_JOINTS

CHANNELS: Final = tuple(f"{axis}{kind}" for kind in ("position", "rotation") for axis in "XYZ")
MAX_OFFSET: Final = 1e9  # file units; keeps every later product finite
Vector = tuple[float, float, float]
_CHANNEL: Final = {name.lower(): name for name in CHANNELS}
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


def find_motion(text: TextFile) -> tuple[int, int]:
    """Where the word MOTION begins and ends; it counts only at the start of a line."""
    match = _MOTION.search(text.data)
    if match is not None:
        return match.start(), match.end()
    parse_header(text)  # a fault of the hierarchy explains more than a missing section
    raise text.error("there is no MOTION section", len(text.data) - 1, "The file was cut short: export it again.")


def parse_header(text: TextFile) -> BvhHeader:
    """Parse a text that ends where MOTION begins."""
    parser = _Parser(text)
    parser.run()
    return parser.tree


class _Parser:
    """Walks the words of the header with a stack of open braces; nothing recurses."""

    __slots__ = ("at", "open", "text", "tree", "unset", "words")

    def __init__(self, text: TextFile) -> None:
        self.text, self.at = text, 0
        self.words: list[str] = _WORDS.findall(text.data.decode("utf-8", errors="replace"))
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
        """Return the next word, or an empty one at the end."""
        words, at = self.words, self.at
        while at < len(words) and words[at] == "\n":
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
            raise self.no_number(word.strip(), what)
        return value

    def no_number(self, word: str, what: str) -> FormatError:
        if not word or word in "{}":
            return self.error(f"{what} has too few numbers", "Check that the line was not truncated.")
        if is_decimal_comma(word):
            return self.error(f"'{make_printable(word)}' has a decimal comma", "Write decimals with a point.")
        return self.error(f"'{make_printable(word)}' in {what} is not a usable number", "Correct the value.")

    def root(self) -> None:
        if self.tree.names:
            raise self.error("a second ROOT", "Split the file: one character in each.")
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
        joint = self.open[-1]
        if joint == _END_SITE:
            self.tree.end_sites.append((self.open[-2], vector))
        else:
            self.tree.offsets[joint] = vector
            self.unset.discard(joint)

    def read_channels(self) -> None:
        words = self.rest_of_line()
        count = parse_float(words[0]) if words else None
        if count is None or not 0 <= count <= 6 or count != int(count):
            found = make_printable(words[0]) if words else ""
            raise self.error(f"CHANNELS count is '{found}'", "It must be a whole number from 0 to 6.")
        names = tuple(self.channel(word) for word in words[1 : 1 + int(count)])
        extra = words[1 + int(count) :]
        if len(names) < count or (extra and extra[0].lower() in _CHANNEL):
            what = f"CHANNELS announces {plural(int(count), 'channel')} and names {len(names) + len(extra)}"
            raise self.error(what, "Make the count and the names agree.")
        self.at -= len(extra)  # the next statement may stand on the same line
        if len(set(names)) < len(names):
            raise self.error(f"a channel is named twice: {' '.join(names)}", "Name each channel once.")
        self.place_channels(names)

    def channel(self, word: str) -> str:
        name = _CHANNEL.get(word.lower())
        if name is None:
            raise self.error(f"unknown channel '{make_printable(word)}'", f"Channels are {', '.join(CHANNELS)}.")
        return name

    def place_channels(self, names: tuple[str, ...]) -> None:
        if not self.open or (self.open[-1] == _END_SITE and names):
            raise self.error("CHANNELS stands outside a joint", "Put it within the braces of a joint.")
        joint = self.open[-1]
        if joint == _END_SITE:
            return
        if self.tree.channels[joint]:
            raise self.error(f"a second CHANNELS for joint '{make_printable(self.tree.names[joint])}'", "Keep one.")
        self.tree.channels[joint] = names


_HANDLERS: Final[dict[str, Callable[[_Parser], None]]] = {
    "ROOT": _Parser.root,
    "JOINT": _Parser.joint,
    "END": _Parser.end,
    "ENDSITE": _Parser.end,
    "OFFSET": _Parser.offset,
    "CHANNELS": _Parser.read_channels,
    "}": _Parser.close_brace,
}

"""The XML scripts of the thesis ([Glardon2005]_ §IV.2.3.1, fig. 2.1): every mistake is named with its line.

The tags of jumps and transitions are lost in the printed figure; we read ``<transition>`` and ``<jump>``.
``humanFile``, ``dataBaseFile`` and ``outputFile`` are read over: model and output are named on the command line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from marey.base import FormatError, InputError
from marey.locomotion._script import Action, Element, JumpAction, Script, Transition
from marey.locomotion._script_toml import check_order_with_lines

MAX_DEPTH: Final = 8  # the grammar has three levels
MAX_NODES: Final = 200_000
XML_RATE_HZ: Final = 25.0  # of the thesis, where the file names none
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_HEADER_TAGS: Final = ("humanFile", "dataBaseFile", "frameRate", "outputFile")
_TAGS: Final[Mapping[str, Mapping[str, str]]] = {  # tag of a number -> field
    "action": {
        "speed": "speed",
        "typeOfLocomotion": "run",
        "speedAng": "turn_rate",
        "duration": "seconds",
        "legLength": "leg_length_m",
    },
    "transition": {"duration": "seconds"},
    "jump": {"length": "length_m", "height": "height_m"},
}
_REQUIRED_TAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "action": ("speed", "duration"),
    "transition": ("duration",),
    "jump": ("length",),
}
Record = TypeVar("Record")
_XML_JUMP_KINDS: Final = {"0": "walk", "1": "run"}


@dataclass(slots=True)
class XmlNode:
    """One element of an XML file."""

    tag: str
    attributes: dict[str, str]
    line: int
    text: str = ""
    children: list[XmlNode] = field(default_factory=list["XmlNode"])


def parse_xml_script(text: str, *, file: str = "<script>") -> Script:
    """Read a script from the thesis's XML; ``file`` is the name used in error messages.

    Raises:
        FormatError: the text is no XML, declares entities, or breaks the grammar; the message names file and line.
    """
    root = _XmlTreeBuilder(file).read(text)
    if root.tag != "animationGenerator":
        _xml_error(file, root, f"the file is a <{root.tag}>", "A script is an <animationGenerator>")
    rate_hz, nodes = XML_RATE_HZ, list[XmlNode]()
    for node in root.children:
        if node.tag == "frameRate":
            rate_hz = _read_number(node, file)
        elif node.tag in _TAGS:
            nodes.append(node)
        elif node.tag not in _HEADER_TAGS:
            _xml_error(file, node, f"unknown tag <{node.tag}>", f"Known are {', '.join((*_HEADER_TAGS, *_TAGS))}")
    timeline, lines = tuple(_read_xml_element(node, file) for node in nodes), tuple(node.line for node in nodes)
    check_order_with_lines(timeline, file, lines)
    rate_line = next((node for node in root.children if node.tag == "frameRate"), root)
    name = Path(file).stem.strip("<>") or "script"
    return _build_record(Script, rate_line, file, timeline=timeline, rate_hz=rate_hz, name=name, file=file, lines=lines)


class _XmlTreeBuilder:
    """Builds a bounded tree of nodes; document types and entities are refused."""

    def __init__(self, file: str) -> None:
        from xml.parsers.expat import ParserCreate

        self.file, self.open, self.count = file, list[XmlNode](), 0
        self.root = XmlNode("", {}, 1)
        self.parser = ParserCreate("utf-8")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._data
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.EntityDeclHandler = self._refuse

    def read(self, text: str) -> XmlNode:
        from xml.parsers.expat import ExpatError, errors

        try:
            self.parser.Parse(text.encode("utf-8"), True)
        except ExpatError as error:
            what = f"the XML is broken: {errors.messages[error.code]}"
            raise FormatError(what, self.file, error.lineno, "Close every tag that is opened") from None
        return self.root

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        node = XmlNode(tag, attributes, self.parser.CurrentLineNumber)
        self.count += 1
        if self.count > MAX_NODES or len(self.open) >= MAX_DEPTH:
            _xml_error(self.file, node, "the script is too large or nested too deeply", "Use fewer elements")
        if self.open:
            self.open[-1].children.append(node)
        else:
            self.root = node
        self.open.append(node)

    def _end(self, _tag: str) -> None:
        self.open.pop()

    def _data(self, data: str) -> None:
        self.open[-1].text += data

    def _refuse(self, *_: Any) -> None:
        here = XmlNode("", {}, self.parser.CurrentLineNumber)
        _xml_error(self.file, here, "the file declares a document type or an entity", "Scripts need neither: remove it")


def _read_xml_element(node: XmlNode, file: str) -> Element:
    values: dict[str, Any] = {"name": node.attributes.get("name", "")}
    styles: dict[str, float] = {}
    seen: set[str] = set()
    for child in node.children:
        if child.tag in seen:
            _xml_error(file, child, f"<{child.tag}> is given twice", "Remove one of them")
        seen |= {child.tag} - {"perso"}
        if child.tag in _TAGS[node.tag]:
            values[_TAGS[node.tag][child.tag]] = _read_number(child, file)
        elif child.tag == "perso" and node.tag != "transition":
            _read_style(child, styles, file)
        elif node.tag == "jump" and child.tag in ("type", "takeoff"):
            values |= _read_jump_value(child, file)
        else:
            known = (*_TAGS[node.tag], *(("perso",) if node.tag != "transition" else ()))
            _xml_error(file, child, f"unknown tag <{child.tag}> in a <{node.tag}>", f"Known are {', '.join(known)}")
    missing = [tag for tag in _REQUIRED_TAGS[node.tag] if tag not in seen]
    if missing:
        _xml_error(
            file, node, f"the {node.tag} has no <{missing[0]}>", f"It needs {', '.join(_REQUIRED_TAGS[node.tag])}"
        )
    if node.tag == "transition":
        return _build_record(Transition, node, file, **values)
    return _build_record(Action if node.tag == "action" else JumpAction, node, file, style=styles or None, **values)


def _read_style(node: XmlNode, styles: dict[str, float], file: str) -> None:
    """``<perso id="2">0.7</perso>``: the third style of the model, or ``id`` is its name."""
    name = node.attributes.get("id", "")
    if not name or name in styles:
        _xml_error(
            file, node, f"<perso> has {'an id given before' if name else 'no id'}", 'Write <perso id="0">1.0</perso>'
        )
    weight = _read_number(node, file)
    if weight < 0.0:
        _xml_error(file, node, f"style '{name}' has the weight {weight:g}", "Weights are zero or more")
    styles[name] = weight


def _read_jump_value(node: XmlNode, file: str) -> dict[str, Any]:
    if node.tag == "takeoff":
        x, z = (XmlNode("takeoff", {}, node.line, node.attributes.get(axis, "")) for axis in ("x", "z"))
        return {"takeoff": (_read_number(x, file), _read_number(z, file))}
    text = node.text.strip()
    if _NUMBER.fullmatch(text):  # as typeOfLocomotion of an action
        text = _XML_JUMP_KINDS.get(f"{float(text):g}", text)
    return {"kind": text}


def _read_number(node: XmlNode, file: str) -> float:
    text = node.text.strip()
    if node.children or not _NUMBER.fullmatch(text) or abs(float(text)) > 1e6:
        _xml_error(file, node, f"<{node.tag}> is '{text[:40]}'", "It must be a number")
    if node.tag in ("duration", "length", "height", "legLength", "frameRate") and float(text) <= 0.0:
        _xml_error(file, node, f"<{node.tag}> is {text[:40]}", "It must be positive")
    return float(text)


def _build_record(kind: type[Record], node: XmlNode, where: str, /, **values: Any) -> Record:
    try:
        return kind(**values)
    except InputError as error:
        _xml_error(where, node, error.what, error.fix)


def _xml_error(file: str, node: XmlNode, what: str, fix: str) -> NoReturn:
    raise FormatError(what, file, node.line, fix)

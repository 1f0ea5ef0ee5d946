"""Scripts as TOML, and the XML scripts of the thesis ([Glardon2005]_ §IV.2.3.1, fig. 2.1).

Every mistake is named with its file and line. The tags of jumps and transitions are lost in the printed figure; we
read ``<transition>`` and ``<jump>``. ``humanFile``, ``dataBaseFile`` and ``outputFile`` are ignored: model and output
are named on the command line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, cast

from marey.base import (
    FormatError,
    InputError,
    TomlLocation,
    as_table,
    find_shipped_file,
    format_toml_keys,
    parse_toml,
    read_record,
    read_tables,
    read_toml_text,
    write_atomically,
)
from marey.locomotion.scripts.script import Action, Element, ElementError, JumpAction, Script, Transition, check_order

SCRIPT_VERSION: Final = 1
_ELEMENT_TYPES: Final[dict[str, type[Any]]] = {"action": Action, "transition": Transition, "jump": JumpAction}
_POSITIVE_KEYS: Final = frozenset({"seconds", "rate_hz", "leg_length_m", "length_m", "height_m"})
_SPELLINGS: Final = {"length": "length_m", "height": "height_m", "speed_mps": "speed"}
_DERIVED_FIELDS: Final = ("timeline", "file", "lines")


def load_script(path: str | Path) -> Script:
    """Read a script: TOML, or the XML form of the thesis (by its suffix or its first character); or a shipped name.

    Raises:
        FormatError: the file is not TOML or XML, or breaks the grammar; the message names file and line.
    """
    path = find_shipped_file(path, "script")
    text = read_toml_text(path, "script")
    return parse_script(text, file=str(path))


def parse_script(text: str, *, file: str = "<script>") -> Script:
    """Read a script from text, TOML or XML; ``file`` is the name used in error messages."""
    if Path(file).suffix.lower() == ".xml" or text.lstrip()[:1] == "<":
        return parse_xml_script(text, file=file)
    data, place = parse_toml(text, file, positive=_POSITIVE_KEYS)
    version = data.pop("version", SCRIPT_VERSION)
    if version != SCRIPT_VERSION:
        place.fail(f"script version {version}", f"This marey reads version {SCRIPT_VERSION}", "version")
    # Line, kind, number and table of every element, in the order of the file: TOML itself forgets it.
    elements: list[tuple[int, str, int, Any]] = []
    for kind in _ELEMENT_TYPES:
        tables = read_tables(data, kind, place)
        lines = [place.lines.get((kind, number, "")) for number in range(len(tables))]
        if None in lines or (kind, len(tables), "") in place.lines:
            place.at(kind).fail(f"the order of '{kind}' on the time line is not clear", f"Write each as [[{kind}]]")
        elements += [
            (cast(int, line), kind, number, row) for number, (line, row) in enumerate(zip(lines, tables, strict=True))
        ]
    rows = sorted(elements, key=lambda row: row[0])
    timeline: tuple[Element, ...] = ()
    for _, kind, number, row in rows:
        here = place.at(kind, number)
        table = {_SPELLINGS.get(key, key): value for key, value in as_table(row, here).items()}
        if isinstance(table.get("run"), bool):
            table["run"] = float(table["run"])
        timeline += (_read_record(table, _ELEMENT_TYPES[kind], here),)
    header = {key: value for key, value in data.items() if key not in _ELEMENT_TYPES}
    header.setdefault("name", Path(file).stem.strip("<>") or "script")
    order = tuple(line for line, *_ in rows)
    for key in _DERIVED_FIELDS:
        if key in header:
            place.at(key).fail(f"unknown key '{key}'", "Write [[action]], [[transition]] and [[jump]]")
    check_order_with_lines(timeline, file, order)
    return _read_record(header, Script, place, timeline=timeline, file=file, lines=order)


def check_order_with_lines(timeline: tuple[Element, ...], file: str, lines: tuple[int, ...]) -> None:
    """As ``check_order``, with the line of the mistake."""
    try:
        check_order(timeline)
    except ElementError as error:
        line = lines[error.index] if error.index < len(lines) else 1
        raise FormatError(error.what, file, line, error.fix) from None


def _read_record(table: dict[str, Any], kind: type[Any], place: TomlLocation, **read: Any) -> Any:
    """As ``read_record``; a mistake that names its key gets the line of that key."""
    if isinstance(table.get("style"), str):
        table = table | {"style": {table["style"]: 1.0}}
    try:
        return read_record(table, kind, place, **read)
    except FormatError as error:
        named = error.what.split("'")[1] if error.what.startswith("'") else ""
        spellings = [named, *(short for short, long in _SPELLINGS.items() if long == named)]
        found = [key for key in spellings if key and (place.table, place.number, key) in place.lines]
        if found:
            place.fail(error.what, error.fix, found[0])
        raise


def script_to_toml(script: Script) -> str:
    """Write a script as TOML; reading it back gives the same script."""
    rows = [f"version = {SCRIPT_VERSION}", *format_toml_keys(script, leave_out=_DERIVED_FIELDS)]
    names = {kind: name for name, kind in _ELEMENT_TYPES.items()}
    for element in script.timeline:
        rows += ["", f"[[{names[type(element)]}]]", *[row for row in format_toml_keys(element) if row != 'name = ""']]
    return "\n".join(rows) + "\n"


def save_script(script: Script, path: str | Path) -> None:
    """Write a script to a TOML file."""
    if Path(path).suffix.lower() != ".toml":
        raise InputError(f"cannot write a script to '{path}'", "Use the suffix .toml")
    write_atomically(Path(path), script_to_toml(script))


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
        FormatError: the text is not XML, declares entities, or breaks the grammar; the message names file and line.
    """
    # Read a bounded tree of nodes; document types and entities are refused
    from xml.parsers.expat import ExpatError, ParserCreate, errors

    parser, opened, count = ParserCreate("utf-8"), [XmlNode("", {}, 1)], 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        node, count = XmlNode(tag, attributes, parser.CurrentLineNumber), count + 1
        if count > MAX_NODES or len(opened) > MAX_DEPTH:
            _xml_error(file, node, "the script is too large or nested too deeply", "Use fewer elements")
        opened[-1].children.append(node)
        opened.append(node)

    def add_text(data: str) -> None:
        opened[-1].text += data

    def refuse(*_: Any) -> None:
        here = XmlNode("", {}, parser.CurrentLineNumber)
        _xml_error(file, here, "the file declares a document type or an entity", "Scripts need neither: remove it")

    parser.StartElementHandler, parser.EndElementHandler = start, lambda _tag: opened.pop()
    parser.CharacterDataHandler = add_text
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(text.encode("utf-8"), True)
    except ExpatError as error:
        what = f"the XML is broken: {errors.messages[error.code]}"
        raise FormatError(what, file, error.lineno, "Close every tag that is opened") from None
    root = opened[0].children[0]
    if root.tag != "animationGenerator":
        _xml_error(file, root, f"the file is a <{root.tag}>", "A script is an <animationGenerator>")
    # The header and the elements of the time line, in the order of the file
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
            # <perso id="2">0.7</perso> is the third style of the model, or `id` is its name.
            name = child.attributes.get("id", "")
            if not name or name in styles:
                _xml_error(
                    file,
                    child,
                    f"<perso> has {'an id given before' if name else 'no id'}",
                    'Write <perso id="0">1.0</perso>',
                )
            weight = _read_number(child, file)
            if weight < 0.0:
                _xml_error(file, child, f"style '{name}' has the weight {weight:g}", "Weights are zero or more")
            styles[name] = weight
        elif node.tag == "jump" and child.tag == "takeoff":
            x, z = (XmlNode("takeoff", {}, child.line, child.attributes.get(axis, "")) for axis in ("x", "z"))
            values["takeoff"] = (_read_number(x, file), _read_number(z, file))
        elif node.tag == "jump" and child.tag == "type":
            # A number is read as typeOfLocomotion of an action is.
            text = child.text.strip()
            number = f"{float(text):g}" if _NUMBER.fullmatch(text) else ""
            values["kind"] = _XML_JUMP_KINDS.get(number, text)
        else:
            known = (*_TAGS[node.tag], *(("perso",) if node.tag != "transition" else ()))
            _xml_error(file, child, f"unknown tag <{child.tag}> in a <{node.tag}>", f"Known are {', '.join(known)}")
    # What is left out has no default.
    missing = [tag for tag in _REQUIRED_TAGS[node.tag] if tag not in seen]
    if missing:
        _xml_error(
            file, node, f"the {node.tag} has no <{missing[0]}>", f"It needs {', '.join(_REQUIRED_TAGS[node.tag])}"
        )
    if node.tag == "transition":
        return _build_record(Transition, node, file, **values)
    return _build_record(Action if node.tag == "action" else JumpAction, node, file, style=styles or None, **values)


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

r"""Xsens MVNX: the XML that MVN Analyze exports from its suits (Awinda, Link), versions 3 and 4.

A subject has segments, joints that say which segment hangs on which (``<connector1>Pelvis/jL5S1</connector1>``), and
frames. A frame has a quaternion (scalar first) and a position [m] of each segment in the world, x forward, y left,
z up; the origin of a segment is its joint with its parent. In the T-pose, kept as a frame of its own, every quaternion
is the identity. (MVN User Manual, "MVNX file format"; schema at xsens.com/mvn/mvnx/schema.xsd.) We turn the axes to

.. math:: (x, y, z) \mapsto (y, z, x).

The parser sees one frame at a time. A document type, which could announce entities without end, is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.parsers import expat

import numpy as np

from marey.base import FloatArray, FormatError, InputError, IntArray
from marey.io.binary import AnyPath, as_format_error, file_size, format_error
from marey.io.conventions import COMMON_RATES, localise_frames
from marey.io.scene.clip import choose_clip, name_clips
from marey.lie import SO3
from marey.motion import Contacts, LoadReport, Motion, Source
from marey.skeleton import NO_PARENT, Skeleton

MAX_BYTES: Final = 2 << 30
CHUNK_BYTES: Final = 1 << 16
MAX_PENDING_BYTES: Final = 4 << 20  # [byte] of one tag: more is no file of a suit
MAX_TEXT_BYTES: Final = 1 << 20  # [byte] of one frame's numbers
MAX_DEPTH: Final = 32
MAX_SEGMENTS: Final = 1000
MAX_SUBJECTS: Final = 64
MAX_NUMBER: Final = 1e6  # [m] nobody is a thousand kilometres away
NEAR_RATE: Final = 0.01  # [-] a common rate as near as this is meant
STRETCH_TOL_M: Final = 1e-3  # bones that change by less are rigid: suits print six digits
REST_TOL_M: Final = 1e-3  # a T-pose whose bones differ by more was made for another calibration

REST_POSES: Final = ("tpose", "identity", "npose")  # the best first
WANTED: Final = ("orientation", "position", "footContacts")
CONTACTS: Final = {
    "LeftFoot_Heel": "left_heel", "LeftFoot_Toe": "left_toe",
    "RightFoot_Heel": "right_heel", "RightFoot_Toe": "right_toe",
}  # fmt: skip
_ARM: Final = {"Shoulder": "T8", "UpperArm": "Shoulder", "ForeArm": "UpperArm", "Hand": "ForeArm"}
_LEG: Final = {"UpperLeg": "Pelvis", "LowerLeg": "UpperLeg", "Foot": "LowerLeg", "Toe": "Foot"}
# Segments of the full body after the pelvis, in the order of the arrays, with their parents
TREE: Final = {
    "L5": "Pelvis", "L3": "L5", "T12": "L3", "T8": "T12", "Neck": "T8", "Head": "Neck",
    **{
        f"{side}{part}": above if above in ("T8", "Pelvis") else f"{side}{above}"
        for limb in (_ARM, _LEG)
        for side in ("Right", "Left")
        for part, above in limb.items()
    },
}  # fmt: skip


@dataclass(slots=True)
class MvnxDraft:
    """What has been read of one subject so far."""

    version: str = ""
    subject: dict[str, str] = field(default_factory=dict[str, str])
    segments: list[str] = field(default_factory=list[str])
    points: dict[str, dict[str, FloatArray]] = field(default_factory=dict[str, dict[str, FloatArray]])
    """by segment and name [m], in the segment's frame"""
    parents: dict[str, str] = field(default_factory=dict[str, str])
    contact_names: list[str] = field(default_factory=list[str])
    times_ms: list[float] = field(default_factory=list[float])
    frames: dict[str, list[FloatArray]] = field(default_factory=lambda: {name: list[FloatArray]() for name in WANTED})
    rest: dict[str, dict[str, FloatArray]] = field(default_factory=dict[str, dict[str, FloatArray]])
    """rest poses by type: quaternions and positions, flat"""
    left_out: set[str] = field(default_factory=set[str])


class _MvnxParser:
    """Fills a draft for each subject from the events of an XML parser."""

    def __init__(self, path: AnyPath) -> None:
        self.path, self.draft = path, MvnxDraft()
        self.subjects = list[MvnxDraft]()
        self.open = list[str]()  # names of the elements we are in
        self.text: list[str] | None = None  # of the element that is being read
        self.text_bytes = 0
        self.label, self.connector, self.frame_type = "", "", ""
        self.frame = dict[str, FloatArray]()
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.StartDoctypeDeclHandler = self.refuse_doctype

    def error(self, what: str, fix: str = "Export the file again.") -> FormatError:
        return FormatError(what, str(self.path), self.parser.CurrentLineNumber, fix)

    def refuse_doctype(self, *_: object) -> None:
        raise self.error("a document type, which no MVNX file has", "It could announce endless text; it was not read.")

    def start(self, tag: str, values: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        above = self.open[-1] if self.open else ""
        self.open.append(name)
        if len(self.open) > MAX_DEPTH:
            raise self.error(f"elements are nested more than {MAX_DEPTH} deep")
        draft = self.draft
        if len(self.open) == 1:
            if name not in ("mvnx", "frames"):
                raise self.error(f"the file starts with <{name[:40]}>, not with <mvnx>", "Give a file of MVN Analyze.")
            draft.version = values.get("version", "")
            # Some programs keep the frames alone; there is one subject then, and its segments are the usual ones
            self.subjects += [draft] if name == "frames" else []
        elif name == "subject":
            self.draft = MvnxDraft(draft.version, dict(values))
            self.subjects.append(self.draft)
            if len(self.subjects) > MAX_SUBJECTS:
                raise self.error(f"more than {MAX_SUBJECTS} subjects")
        elif name == "segment" and above == "segments":
            self.label = values.get("label", "")
            draft.segments.append(self.label)
            if len(draft.segments) > MAX_SEGMENTS:
                raise self.error(f"more than {MAX_SEGMENTS} segments")
        elif name == "point":
            self.connector = values.get("label", "")
        elif name == "contactDefinition":
            draft.contact_names.append(values.get("label", ""))
        elif name == "frame" and above == "frames":
            draft.segments = draft.segments or ["Pelvis", *TREE]
            self.frame_type, self.frame = values.get("type", "normal"), {}
            if self.frame_type == "normal":
                draft.times_ms.append(_number_or_nan(values.get("time", "")))
        elif (name in WANTED and above == "frame") or name in ("connector1", "connector2", "pos_b"):
            self.text, self.text_bytes = [], 0
            self.parser.CharacterDataHandler = self.gather
        elif above == "frame" and name.endswith(("FingersLeft", "FingersRight")):
            draft.left_out.add("fingers")
        elif name == "contacts" and above == "frame":
            draft.left_out.add("contacts as MVN Studio kept them")

    def gather(self, data: str) -> None:
        self.text_bytes += len(data)
        if self.text_bytes > MAX_TEXT_BYTES or self.text is None:
            raise self.error(f"<{self.open[-1][:40]}> holds more than {MAX_TEXT_BYTES >> 20} MB of text")
        self.text.append(data)

    def end(self, _: str) -> None:
        name = self.open.pop()
        draft = self.draft
        if self.text is not None:
            text = "".join(self.text).strip()
            self.text, self.parser.CharacterDataHandler = None, None
            if name == "connector1":
                self.connector = text
            elif name == "connector2":
                draft.parents[text.partition("/")[0]] = self.connector.partition("/")[0]
            elif name == "pos_b":
                draft.points.setdefault(self.label, {})[self.connector] = self.numbers(name, text, 3)
            else:
                wide = {"orientation": 4, "position": 3}.get(name)
                self.frame[name] = self.numbers(name, text, None if wide is None else wide * len(draft.segments))
        elif name == "frame" and self.frame:
            if self.frame_type == "normal":
                for wanted in WANTED:
                    if wanted in self.frame:
                        draft.frames[wanted].append(self.frame[wanted])
                    elif wanted == "orientation" or (wanted == "position" and draft.frames[wanted]):
                        raise self.error(f"a frame without <{wanted}>", "Export the file again, with segment data.")
            elif {"orientation", "position"} <= self.frame.keys():
                draft.rest.setdefault(self.frame_type, self.frame)
            self.frame = {}

    def numbers(self, name: str, text: str, count: int | None) -> FloatArray:
        words = text.split()
        if count is not None and len(words) != count:
            raise self.error(f"<{name}> has {len(words)} numbers, expected {count}")
        try:
            values = np.array(words, dtype=np.float64)
        except ValueError:
            raise self.error(f"<{name}> holds something that is no number") from None
        if not (np.abs(values) <= MAX_NUMBER).all():
            raise self.error(f"<{name}> holds a value that is not finite, or far too large")
        return values


def parse_mvnx(path: AnyPath) -> list[MvnxDraft]:
    """Read the XML piece by piece; returns its subjects.

    Raises:
        FormatError: it is no MVNX, or breaks off; the line is where parsing stopped.
    """
    file_size(path, limit=MAX_BYTES)
    events = _MvnxParser(path)
    fed = 0
    with Path(path).open("rb") as file:
        try:
            while chunk := file.read(CHUNK_BYTES):
                events.parser.Parse(chunk, False)
                fed += len(chunk)
                if fed - max(events.parser.CurrentByteIndex, 0) > MAX_PENDING_BYTES:
                    raise events.error(f"one tag of more than {MAX_PENDING_BYTES >> 20} MB")
            events.parser.Parse(b"", True)
        except expat.ExpatError as error:
            what = f"not valid XML: {expat.errors.messages.get(error.code, 'error')}"
            raise FormatError(what, str(path), error.lineno, "Export the file again.") from None
        except (LookupError, UnicodeError, ValueError) as error:
            if isinstance(error, FormatError):
                raise
            raise format_error(path, f"not valid XML: {str(error)[:120]}") from error
    return events.subjects or [events.draft]


def list_mvnx_clips(path: AnyPath) -> tuple[str, ...]:
    """Subjects of a file by their labels, or the name of the file where there is one."""
    return _name_subjects(path, parse_mvnx(path))


def _name_subjects(path: AnyPath, subjects: list[MvnxDraft]) -> tuple[str, ...]:
    if len(subjects) == 1:
        return (Path(path).stem,)
    return name_clips(draft.subject.get("label", "")[:60] for draft in subjects)


def read_mvnx(
    path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None, clip: str | int | None = None
) -> Motion:
    """Read the segments of an MVNX file as a motion, with its foot contacts.

    Args:
        path: the file.
        rate_hz: frames per second to use instead of the file's.
        unit: these files are in metres; anything but ``"m"`` is refused.
        clip: which subject of a file that holds several: the label, or the number from 0.

    Raises:
        FormatError: the file breaks its format, or its segments do not hang together.
    """
    if unit not in (None, "m"):
        raise InputError(f"unit '{unit}' for an MVNX file", "These files are always in metres; leave unit out")
    subjects = parse_mvnx(path)
    names = _name_subjects(path, subjects)
    chosen, others = choose_clip(path, names, clip, lambda i: bool(subjects[i].frames["orientation"]))
    with as_format_error(path):
        return _build_motion(subjects[chosen], path, rate_hz, others)


def _build_motion(draft: MvnxDraft, path: AnyPath, asked_hz: float | None, warnings: list[str]) -> Motion:
    notes = [f"MVNX version {draft.version or '?'}, subject '{draft.subject.get('label', '?')[:60]}'"]
    if not draft.segments:
        raise format_error(path, "no segments in it", "Export it with segment data.")
    if not draft.frames["orientation"]:
        raise format_error(path, "no captured frame in it", "Export it with the recording, not only the T-pose.")
    if draft.left_out:
        notes.append(f"left out: {', '.join(sorted(draft.left_out))}")
    order, parents = _order_segments(draft, path, notes)
    # World frames of the segments, in our axes
    count, frames = len(draft.segments), len(draft.frames["orientation"])

    def to_frames(orientation: FloatArray, position: FloatArray) -> tuple[SO3, FloatArray]:
        wxyz = orientation.reshape(-1, count, 4)[:, order]
        turned = np.concatenate([wxyz[..., :1], np.roll(wxyz[..., 1:], -1, axis=-1)], axis=-1)
        return SO3(turned), np.roll(position.reshape(-1, count, 3)[:, order], -1, axis=-1)

    kind = next((name for name in REST_POSES if name in draft.rest), None)
    places = draft.frames["position"]
    if not places:
        # Exported with orientations alone: the bones are those of the T-pose, the pelvis stays where that has it
        if kind is None:
            raise format_error(path, "no positions and no T-pose in it", "Export it with segment positions.")
        places = [draft.rest[kind]["position"]] * frames
    world, positions = to_frames(np.stack(draft.frames["orientation"]), np.stack(places))
    if kind is not None and not draft.frames["position"]:
        warnings.append("orientations without positions: the person turns in place, with the bones of the T-pose")
        bones = localise_frames(*to_frames(draft.rest[kind]["orientation"], places[0]), parents).offsets
        for j in range(1, len(order)):
            positions[:, j] = positions[:, parents[j]] + world[:, int(parents[j])] @ bones[j]
    posed = localise_frames(world, positions, parents)
    offsets, translations = posed.offsets, posed.translations(STRETCH_TOL_M)
    if translations is not None:
        warnings.append(f"bones change by up to {1000 * posed.stretch_m:.1f} mm; the change is kept")
    if kind is not None:
        # Bones of the T-pose, unless it was calibrated for somebody else
        rest = draft.rest[kind]
        bones = localise_frames(*to_frames(rest["orientation"], rest["position"]), parents).offsets
        if np.abs(bones - offsets).max() < REST_TOL_M:
            offsets = bones
        else:
            notes.append(f"bones of the frame '{kind}' differ from those of the recording, which were taken")
    names = tuple(draft.segments[j] for j in order)
    tips = np.zeros((len(names), 3))
    for tip, name in zip(tips, names, strict=True):
        # Where a segment ends: its top or its toe, else its farthest point
        points = draft.points.get(name, {})
        ends = [p for label, p in points.items() if "Top" in label or label.endswith("Toe")] or list(points.values())
        tip[:] = np.roll(max(ends or [np.zeros(3)], key=lambda p: float(p @ p)), -1)
    tips[np.unique(parents[1:])] = 0.0
    # Contacts, where there is one of each foot in each frame
    contacts = None
    touched = draft.frames["footContacts"]
    feet = [CONTACTS.get(name, name.lower()) for name in draft.contact_names or CONTACTS]
    if touched:
        if len(touched) != frames or any(len(row) != len(feet) for row in touched) or len(set(feet)) < len(feet):
            notes.append("foot contacts do not fit the frames and were left out")
        else:
            contacts = Contacts(tuple(feet), np.stack(touched) > 0.5)
    return Motion(
        Skeleton(names, parents, offsets, tips=tips, name="xsens"),
        _find_rate(draft, path, asked_hz),
        positions[:, 0],
        posed.rotations,
        contacts=contacts,
        translations=translations,
        source=Source(str(path), "mvnx", up="+z", layout={"subject": draft.subject, "version": draft.version}),
        load_report=LoadReport(warnings, notes),
        name=Path(path).stem,
    )


def _order_segments(draft: MvnxDraft, path: AnyPath, notes: list[str]) -> tuple[list[int], IntArray]:
    """Numbers of the segments that hang together, parents first, and their parents among them."""
    names = draft.segments
    if len(set(names)) < len(names) or "" in names:
        raise format_error(path, "two segments have the same name, or one has none")
    above = draft.parents or TREE
    if not draft.parents:
        notes.append("no joints in it: the tree is that of Xsens' full body")
    tree = {name: above[name] for name in names if above.get(name) in names}
    # One segment holds others and hangs on none; those with no joint at all (props) are left out
    roots = [name for name in names if name not in tree and name in tree.values()] or [names[0]]
    props = [name for name in names if name not in tree and name not in roots]
    order, placed = roots[:1], set(roots[:1])
    for _ in names:
        # In the order of the file, where it lists parents first: one pass does then
        for name in names:
            if name not in placed and tree.get(name) in placed:
                order.append(name)
                placed.add(name)
    if len(order) + len(props) < len(names):
        lost = [name for name in names if name not in placed and name not in props]
        raise format_error(path, f"the segments {', '.join((roots[1:] or lost)[:4])} do not hang on the others")
    if props:
        notes.append(f"segments that hang on nothing were left out: {', '.join(props[:8])}")
    parents = np.array([NO_PARENT, *(order.index(tree[name]) for name in order[1:])])
    return [names.index(name) for name in order], parents


def _find_rate(draft: MvnxDraft, path: AnyPath, asked_hz: float | None) -> float:
    """Frames per second: asked for, of the subject, or of the times of the frames."""
    if asked_hz is not None:
        return asked_hz
    given = _number_or_nan(draft.subject.get("frameRate", ""))
    if np.isfinite(given) and given > 0.0:
        return given
    # Times are whole milliseconds, 0 16 33 50: their mean step is exact enough to name the rate
    steps = np.diff(np.array(draft.times_ms))
    if len(steps) and np.isfinite(steps).all() and (steps > 0.0).all():
        rate = 1000.0 / float(np.mean(steps))
        near = min(COMMON_RATES, key=lambda common: abs(common - rate))
        return near if abs(near - rate) < NEAR_RATE * near else rate
    raise format_error(path, "no frame rate in it", "Say it: rate_hz=60.")


def _number_or_nan(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")

"""Shape of a project's document. The tree itself is plain data; these types check what enters it."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from marey.base import InputError
from marey.studio.project.patches import Tree, check_plain

DOCUMENT_VERSION: Final = 1

Id = Annotated[str, Meta(min_length=1, max_length=120)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Sentence = Annotated[str, Meta(max_length=4000)]
Seconds = Annotated[float, Meta(ge=-1e6, le=1e6)]
Weight = Annotated[float, Meta(ge=0.0, le=10.0)]
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
TakeState = Literal["fresh", "stale", "failed"]
PlainTree = Annotated[dict[str, Any], "Record<string, unknown>"]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Part of a document."""


class CharacterEntry(Entry, frozen=True):
    """A skeleton that motions can be put on; ``mesh`` is the hash of its file where it has a skin."""

    name: Name
    joints: list[str]
    parents: list[int]
    source: str = ""
    mesh: str | None = None


class ClipEntry(Entry, frozen=True):
    """An immutable motion: an import, or a capture."""

    name: Name
    hash: Hash
    source: str
    frames: int
    rate_hz: float
    character: str
    notes: list[str] = []
    contacts: list[str] = []  # names of its contact points


class RecipeEntry(Entry, frozen=True):
    """How a motion was made; as TOML it is what `marey run` executes."""

    tool: Id
    inputs: dict[str, str] = {}  # name of a setting -> id of a clip or take
    settings: PlainTree = {}
    seed: int = 0
    version: int = 1


class KeyEntry(Entry, frozen=True):
    """A key of a layer: a rotation (wxyz) or an offset [m] of one joint, on top of what lies below."""

    time_s: Seconds
    joint: Name
    rotation: tuple[float, float, float, float] | None = None
    offset: tuple[float, float, float] | None = None
    slope: dict[str, float] = {}  # of x, y, z [rad/s or m/s], where it is not left to the neighbours


class LayerEntry(Entry, frozen=True):
    """Keys on top of a take, with a weight and the joints they may move (all, where ``mask`` is empty)."""

    id: Id
    name: Name
    weight: Weight = 1.0
    mask: list[str] = []
    keys: list[KeyEntry] = []


class TakeEntry(Entry, frozen=True):
    """A motion with its recipe, and the layers and edits on top.

    ``base`` is the hash of what the recipe or the clip gives, ``result`` with layers and edits, None until it is made.
    """

    name: Name
    character: str
    clip: str
    recipe: RecipeEntry | None = None
    layers: list[LayerEntry] = []
    edits: list[PlainTree] = []
    base: Hash | None = None
    result: Hash | None = None
    state: TakeState = "fresh"
    message: Sentence = ""


class StripEntry(Entry, frozen=True):
    """A stretch of a take on the timeline."""

    id: Id
    take: Id
    start_s: Seconds = 0.0
    in_s: Seconds = 0.0
    out_s: Seconds = 0.0
    blend_s: Annotated[float, Meta(ge=0.0, le=1e4)] = 0.0
    loop: Annotated[float, Meta(ge=0.0, le=1e4)] = 1.0  # how often it is played


class MarkerEntry(Entry, frozen=True):
    """A word on the ruler."""

    time_s: Seconds
    text: Sentence


class TimelineEntry(Entry, frozen=True):
    """Strips of takes, markers, the range that plays."""

    strips: list[StripEntry] = []
    markers: list[MarkerEntry] = []
    range_s: tuple[Seconds, Seconds] | None = None
    rate_hz: Annotated[float, Meta(gt=0.0, le=10_000.0)] = 60.0


class ProjectDocument(Entry, frozen=True):
    """Everything that undo covers and the journal keeps."""

    name: Name = "Untitled"
    version: int = DOCUMENT_VERSION
    characters: dict[str, CharacterEntry] = {}
    clips: dict[str, ClipEntry] = {}
    takes: dict[str, TakeEntry] = {}
    world: PlainTree = {}  # as the tables of a sketch's TOML
    sketch: PlainTree = {}
    timeline: TimelineEntry = TimelineEntry()


def empty_project(name: str = "Untitled") -> Tree:
    """Return the tree of a project with nothing in it."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(ProjectDocument(name=name)))


def check_project(tree: Any) -> Tree:
    """Return a tree that was read from a file, when it has the shape of a project."""
    check_plain(tree, "the project", most_values=20_000_000)
    try:
        project = msgspec.convert(tree, ProjectDocument)
    except msgspec.ValidationError as error:
        raise InputError(f"this is no project: {error}", "Open another folder") from error
    if project.version != DOCUMENT_VERSION:
        raise InputError(
            f"the project has version {project.version}, this marey reads {DOCUMENT_VERSION}", "Update marey"
        )
    return tree

"""The document of a project: its shape, and the patches that change it.

A document is a tree of dicts, lists, texts, numbers, switches and None; the types here check what enters it. Patches
are the one way in which it changes, on the wire, in the journal and in the browser's mirror: a patch names a place by
its keys, and sets, inserts or removes one value there. Trees are never changed in place: the nodes on the way are
copied, all others are shared with the tree before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from marey.base import InputError

MAX_DEPTH: Final = 24  # of a tree; the deepest of ours has nine levels
MAX_PATCHES: Final = 100_000  # of one command: every key of a long take moved at once
DOCUMENT_VERSION: Final = 1
Tree = dict[str, Any]
Id = Annotated[str, Meta(min_length=1, max_length=120)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Sentence = Annotated[str, Meta(max_length=4000)]
Seconds = Annotated[float, Meta(ge=-1e6, le=1e6)]
Weight = Annotated[float, Meta(ge=0.0, le=10.0)]
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
TakeState = Literal["fresh", "stale", "failed"]
PlainTree = Annotated[dict[str, Any], "Record<string, unknown>"]


class DocumentPatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change: ``value`` is set, ``insert`` goes into a list before the index, ``remove`` takes away."""

    path: tuple[str | int, ...]
    value: Any | UnsetType = UNSET
    insert: Any | UnsetType = UNSET
    remove: bool | UnsetType = UNSET


def apply_patches(tree: Tree, patches: Sequence[DocumentPatch]) -> tuple[Tree, tuple[DocumentPatch, ...]]:
    """Return the changed tree, and the patches that change it back."""
    fresh: set[int] = set()  # nodes that this call has copied, and may change
    kept: list[Any] = []  # keeps their addresses from being used again
    root = cast(Tree, _copy_node(tree, fresh, kept))
    inverse: list[DocumentPatch] = []
    for patch in patches:
        if not patch.path:
            raise InputError("a patch without a path", "Name what it changes")
        node: Any = root
        for key in patch.path[:-1]:
            child = _find_child(node, key, patch)
            if not isinstance(child, dict | list):
                raise _lost(patch)
            if id(cast(Any, child)) not in fresh:
                child = node[key] = _copy_node(child, fresh, kept)
            node = cast(Any, child)
        # Change the node in place; the patch that changes it back
        last, path = patch.path[-1], patch.path
        if patch.insert is not UNSET:
            if not (isinstance(node, list) and isinstance(last, int) and 0 <= last <= len(cast(list[Any], node))):
                raise _lost(patch)
            cast(list[Any], node).insert(last, patch.insert)
            undone = DocumentPatch(path, remove=True)
        elif patch.remove is True:
            old = _find_child(node, last, patch)
            del node[last]
            undone = DocumentPatch(path, insert=old) if isinstance(node, list) else DocumentPatch(path, value=old)
        else:
            if patch.value is UNSET:
                raise InputError(f"the patch of {list(path)} changes nothing", "Give a value, or say insert or remove")
            if isinstance(node, dict) and isinstance(last, str) and last not in cast(Tree, node):
                cast(Tree, node)[last] = patch.value
                undone = DocumentPatch(path, remove=True)
            else:
                old = _find_child(node, last, patch)
                node[last] = patch.value
                undone = DocumentPatch(path, value=old)
        inverse.append(undone)
    return root, tuple(reversed(inverse))


def _copy_node(node: Any, fresh: set[int], kept: list[Any]) -> Any:
    copy = node.copy()
    fresh.add(id(copy))
    kept.append(copy)
    return copy


def _find_child(node: Any, key: str | int, patch: DocumentPatch) -> Any:
    if isinstance(node, dict) and isinstance(key, str) and key in cast(Tree, node):
        return cast(Tree, node)[key]
    if isinstance(node, list) and isinstance(key, int) and 0 <= key < len(cast(list[Any], node)):
        return cast(list[Any], node)[key]
    raise _lost(patch)


def _lost(patch: DocumentPatch) -> InputError:
    return InputError(
        f"the project has no {'/'.join(map(str, patch.path))[:200]}", "It may have been removed meanwhile"
    )


def check_plain(value: Any, what: str, *, most_values: int = 200_000) -> None:
    """Refuse what a document cannot hold: numbers that are not finite, keys that are no texts, too deep or too much."""
    count = 0
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        node, depth = waiting.pop()
        count += 1
        if depth > MAX_DEPTH or count > most_values:
            raise InputError(f"{what} is too large or too deep", f"Keep it under {most_values} values")
        if isinstance(node, dict):
            for key, child in cast(dict[Any, Any], node).items():
                if not isinstance(key, str) or len(key) > 200:
                    raise InputError(f"{what} has a key that is no short text", "Use texts as keys")
                waiting.append((child, depth + 1))
        elif isinstance(node, list | tuple):
            waiting.extend((child, depth + 1) for child in cast(list[Any], node))
        elif isinstance(node, float):
            if not math.isfinite(node):
                raise InputError(f"{what} has a number that is not finite", "Check what was typed")
        elif isinstance(node, int):
            if abs(node) > 2**53:
                raise InputError(f"{what} has a number that is too large", "Check what was typed")
        elif not (node is None or isinstance(node, str)):
            raise InputError(f"{what} holds a {type(node).__name__}", "Use texts, numbers, lists and tables")


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

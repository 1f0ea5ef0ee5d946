"""Patches: the one way in which a document changes, on the wire, in the journal and in the browser's mirror.

A document is a tree of dicts, lists, texts, numbers, switches and None. A patch names a place by its keys, and sets,
inserts or removes one value there. Trees are never changed in place: the nodes on the way are copied, all others are
shared with the tree before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, UnsetType

from marey.base import InputError

MAX_DEPTH: Final = 24  # of a tree; the deepest of ours has nine levels
MAX_PATCHES: Final = 100_000  # of one command: every key of a long take moved at once

Tree = dict[str, Any]


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
        inverse.append(_change_node(node, patch))
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


def _change_node(node: Any, patch: DocumentPatch) -> DocumentPatch:
    """Change one node in place; return the patch that changes it back."""
    key, path = patch.path[-1], patch.path
    if patch.insert is not UNSET:
        if not (isinstance(node, list) and isinstance(key, int) and 0 <= key <= len(cast(list[Any], node))):
            raise _lost(patch)
        cast(list[Any], node).insert(key, patch.insert)
        return DocumentPatch(path, remove=True)
    if patch.remove is True:
        old = _find_child(node, key, patch)
        del node[key]
        return DocumentPatch(path, insert=old) if isinstance(node, list) else DocumentPatch(path, value=old)
    if patch.value is UNSET:
        raise InputError(f"the patch of {list(path)} changes nothing", "Give a value, or say insert or remove")
    if isinstance(node, dict) and isinstance(key, str) and key not in cast(Tree, node):
        cast(Tree, node)[key] = patch.value
        return DocumentPatch(path, remove=True)
    old = _find_child(node, key, patch)
    node[key] = patch.value
    return DocumentPatch(path, value=old)


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

"""Commands of a project: functions that compile to patches, each with a frozen type of its arguments.

The inverse of a command is made from what its patches replace. A page may ask for those of :data:`COMMANDS`; the others
are the server's own, since only it knows the hashes of motions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Annotated, Any, ClassVar, Final, Literal, cast, get_type_hints

import msgspec
from msgspec import Meta

from marey.base import InputError, UnknownNameError
from marey.studio import schema
from marey.studio.schema import MAX_PATCHES, DocumentPatch, Tree, check_plain

Index = Annotated[int, Meta(ge=0)]
Indices = Annotated[list[Index], Meta(max_length=MAX_PATCHES)]
Keys = Annotated[list[schema.KeyEntry], Meta(max_length=MAX_PATCHES)]
Kind = Literal["characters", "clips", "takes"]
Path = tuple[str | int, ...]
Patches = list[DocumentPatch]


class ProjectCommand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step of the undo list; ``label`` names it there."""

    label: ClassVar[str] = ""
    act: ClassVar[Callable[..., Patches]]

    def compile(self, tree: Tree) -> Patches:
        """Patches that carry it out on this tree, or an error where what it names is not there or is in use."""
        return type(self).act(tree, **msgspec.structs.asdict(self))


def make_command(label: str, act: Callable[..., Patches]) -> Any:
    """Return the type of a command: its fields are the arguments of the function, after the tree."""
    hints, parameters = get_type_hints(act, include_extras=True), list(signature(act).parameters.values())[1:]
    fields = [(p.name, hints[p.name], *(() if p.default is p.empty else (p.default,))) for p in parameters]
    space = {"label": label, "act": staticmethod(act), "__doc__": act.__doc__}
    kind = cast(Any, msgspec.defstruct)
    return kind(act.__name__, fields, bases=(ProjectCommand,), namespace=space, frozen=True, forbid_unknown_fields=True)


def read_command(name: str, args: Any) -> ProjectCommand:
    """Return the command that a page asks for."""
    if name not in COMMANDS:
        raise UnknownNameError("command", name, "the studio", COMMANDS)
    check_plain(args, f"the command '{name}'", most_values=2_000_000)
    try:
        return msgspec.convert(args, COMMANDS[name])
    except msgspec.ValidationError as error:
        raise InputError(f"the command '{name}' does not fit: {error}", "Check its arguments") from error


def _plain(entry: schema.Entry) -> Any:
    # Through bytes, so that tuples are lists, as they are after the journal was read
    return msgspec.msgpack.decode(msgspec.msgpack.encode(entry))


def _set(path: Path, value: Any) -> DocumentPatch:
    return DocumentPatch(path, value=value)


def _require(tree: Tree, kind: str, key: str) -> Tree:
    """Return a character, clip or take by its id; ``kind`` is the name of its table."""
    if key not in tree[kind]:
        raise UnknownNameError(kind.removesuffix("s"), key, "the project", tree[kind])
    return tree[kind][key]


def _find_layer(tree: Tree, take: str, layer: str) -> tuple[Path, Tree]:
    """Path of a layer, and the layer."""
    layers = _require(tree, "takes", take)["layers"]
    keys = [one["id"] for one in layers]
    if layer not in keys:
        raise UnknownNameError("layer", layer, "the take", keys)
    return ("takes", take, "layers", keys.index(layer)), layers[keys.index(layer)]


def _forget_result(tree: Tree, take: str) -> Patches:
    """The layers or edits of a take have changed: its motion must be made anew, and what was made from it."""
    return [_set(("takes", take, "result"), None), *_stale_users(tree, take)]


def _stale_users(tree: Tree, take: str) -> Patches:
    """Mark the takes whose recipes use this one, directly or through others."""
    patches: Patches = []
    waiting, seen = [take], {take}
    while waiting:
        used = waiting.pop()
        for key, other in tree["takes"].items():
            if key not in seen and other["recipe"] and used in other["recipe"]["inputs"].values():
                seen.add(key)
                waiting.append(key)
                patches += [_set(("takes", key, "state"), "stale")] if other["state"] == "fresh" else []
    return patches


def new_id(tree: Tree, kind: str, taken: Sequence[str] = ()) -> str:
    """Return the next free id of a kind: ``t7`` for the seventh take."""
    used = {*tree[kind], *taken}
    number = len(used) + 1
    while (key := f"{kind[0]}{number}") in used:
        number += 1
    return key


# The server's own


def _add_motions(
    tree: Tree,
    characters: dict[str, schema.CharacterEntry] = {},  # noqa: B006  msgspec copies it
    clips: dict[str, schema.ClipEntry] = {},  # noqa: B006
    takes: dict[str, schema.TakeEntry] = {},  # noqa: B006
) -> Patches:
    """Put clips, their characters and takes into the project."""
    sets: Mapping[str, Mapping[str, schema.Entry]] = {"characters": characters, "clips": clips, "takes": takes}
    return [_set((kind, key), _plain(entry)) for kind, entries in sets.items() for key, entry in entries.items()]


def _set_result(
    tree: Tree,
    take: schema.Id,
    base: schema.Hash,
    state: schema.TakeState,
    message: schema.Sentence = "",
    recipe: schema.RecipeEntry | None = None,
) -> Patches:
    """Keep the motion that a job gave for a take."""
    entry = _require(tree, "takes", take)
    result = None if entry["layers"] or entry["edits"] else base
    values: Tree = {"base": base, "result": result, "state": state, "message": message}
    values |= {} if recipe is None else {"recipe": _plain(recipe)}
    return [_set(("takes", take, key), value) for key, value in values.items()] + _stale_users(tree, take)


def _set_edited(tree: Tree, take: schema.Id, result: schema.Hash, message: schema.Sentence = "") -> Patches:
    """Keep the motion of a take with its layers and edits."""
    _require(tree, "takes", take)
    return [_set(("takes", take, "result"), result), _set(("takes", take, "message"), message)]


# Those of a page


def _rename_project(tree: Tree, name: schema.Name) -> Patches:
    """Give the project another name."""
    return [_set(("name",), name)]


def _rename(tree: Tree, kind: Kind, id: schema.Id, name: schema.Name) -> Patches:  # noqa: A002
    """Give a character, clip or take another name."""
    _require(tree, kind, id)
    return [_set((kind, id, "name"), name)]


def _add_take(tree: Tree, id: schema.Id, name: schema.Name, clip: str = "", copy: str = "") -> Patches:  # noqa: A002
    """Make a take of a clip, or a copy of another take."""
    if id in tree["takes"]:
        raise InputError(f"there is a take '{id}'", "Choose another id")
    if copy:
        return [_set(("takes", id), {**_require(tree, "takes", copy), "name": name})]
    entry = _require(tree, "clips", clip)
    take = schema.TakeEntry(name, entry["character"], clip, base=entry["hash"], result=entry["hash"])
    return [_set(("takes", id), _plain(take))]


def _remove(tree: Tree, kind: Kind, id: schema.Id) -> Patches:  # noqa: A002
    """Remove a character, clip or take that nothing needs."""
    _require(tree, kind, id)
    takes: dict[str, Tree] = tree["takes"]
    users = [
        str(take["name"])
        for key, take in takes.items()
        if key != id and (take["clip"] == id or (take["recipe"] and id in take["recipe"]["inputs"].values()))
    ]
    users += ["the timeline"] * any(strip["take"] == id for strip in tree["timeline"]["strips"])
    owners = [*tree["clips"].values(), *takes.values()] if kind == "characters" else []
    users += [str(one["name"]) for one in owners if one["character"] == id]
    if users:
        raise InputError(f"this {kind.removesuffix('s')} is used by {', '.join(users[:5])}", "Remove them first")
    return [DocumentPatch((kind, id), remove=True)]


def _set_recipe(tree: Tree, take: schema.Id, recipe: schema.RecipeEntry | None) -> Patches:
    """Change how a take is made; its result is stale until it is made anew."""
    _require(tree, "takes", take)
    values = {"recipe": None if recipe is None else _plain(recipe), "state": "stale"}
    return [_set(("takes", take, key), value) for key, value in values.items()] + _stale_users(tree, take)


def _add_layer(tree: Tree, take: schema.Id, layer: schema.LayerEntry) -> Patches:
    """Put a layer on top of a take."""
    layers = _require(tree, "takes", take)["layers"]
    if any(one["id"] == layer.id for one in layers):
        raise InputError(f"the take has a layer '{layer.id}'", "Choose another id")
    patch = DocumentPatch(("takes", take, "layers", len(layers)), insert=_plain(layer))
    return [patch, *(_forget_result(tree, take) if layer.keys else [])]


def _set_layer(
    tree: Tree,
    take: schema.Id,
    layer: schema.Id,
    name: schema.Name | None = None,
    weight: schema.Weight | None = None,
    mask: list[str] | None = None,
) -> Patches:
    """Change name, weight or mask of a layer; what is None stays."""
    path, _ = _find_layer(tree, take, layer)
    values = {"name": name, "weight": weight, "mask": mask}
    patches = [_set((*path, key), value) for key, value in values.items() if value is not None]
    return patches + (_forget_result(tree, take) if weight is not None or mask is not None else [])


def _remove_layer(tree: Tree, take: schema.Id, layer: schema.Id) -> Patches:
    """Take a layer away."""
    return [DocumentPatch(_find_layer(tree, take, layer)[0], remove=True), *_forget_result(tree, take)]


def _set_keys(tree: Tree, take: schema.Id, layer: schema.Id, keys: Keys) -> Patches:
    """Put keys into a layer; one of the same joint, kind and time (to a tenth of a millisecond) is replaced."""

    def identify(key: Tree) -> tuple[Any, ...]:
        return key["joint"], round(key["time_s"] * 1e4), key["rotation"] is None

    path, found = _find_layer(tree, take, layer)
    places = {identify(key): index for index, key in enumerate(found["keys"])}
    count = len(found["keys"])
    patches: Patches = []
    for entry in keys:
        if (entry.rotation is None) == (entry.offset is None) or not entry.slope.keys() <= {"x", "y", "z"}:
            fix = "Give a rotation or an offset, and slopes of x, y, z alone"
            raise InputError(f"the key of '{entry.joint}' at {entry.time_s:g} s", fix)
        key = _plain(entry)
        if (place := places.get(identify(key))) is not None:
            patches.append(_set((*path, "keys", place), key))
        else:
            places[identify(key)] = count
            patches.append(DocumentPatch((*path, "keys", count), insert=key))
            count += 1
    return patches + _forget_result(tree, take)


def _find_keys(found: Tree, indices: Sequence[int]) -> list[int]:
    """Indices of keys, each once, from the last one on, so that removing one leaves the others in their places."""
    places = sorted(set(indices), reverse=True)
    if places and places[0] >= len(found["keys"]):
        raise InputError(f"the layer has no key {places[0]}", f"It has {len(found['keys'])}")
    return places


def _move_keys(tree: Tree, take: schema.Id, layer: schema.Id, indices: Indices, shift_s: schema.Seconds) -> Patches:
    """Shift keys in time."""
    path, found = _find_layer(tree, take, layer)
    times = {place: found["keys"][place]["time_s"] + shift_s for place in _find_keys(found, indices)}
    patches = [_set((*path, "keys", place, "time_s"), time_s) for place, time_s in times.items()]
    return patches + _forget_result(tree, take)


def _remove_keys(tree: Tree, take: schema.Id, layer: schema.Id, indices: Indices) -> Patches:
    """Take keys away."""
    path, found = _find_layer(tree, take, layer)
    patches = [DocumentPatch((*path, "keys", place), remove=True) for place in _find_keys(found, indices)]
    return patches + _forget_result(tree, take)


def _set_edit(tree: Tree, take: schema.Id, edit: schema.PlainTree | None, index: Index | None = None) -> Patches:
    """Put an edit on top of a take (its ``kind``: contact, pin, trim); change or remove the one of an index."""
    count = len(_require(tree, "takes", take)["edits"])
    if index is not None and index >= count:
        raise InputError(f"the take has no edit {index}", "It may have been removed meanwhile")
    if edit is not None and not isinstance(edit.get("kind"), str):
        raise InputError("an edit without a kind", "Say what it does")
    path = ("takes", take, "edits", count if index is None else index)
    if edit is None:
        patch = DocumentPatch(path, remove=True)
    else:
        patch = DocumentPatch(path, insert=edit) if index is None else _set(path, edit)
    return [patch, *_forget_result(tree, take)]


def _edit_world(
    tree: Tree,
    root: Literal["world", "sketch"],
    patches: Annotated[list[DocumentPatch], Meta(max_length=MAX_PATCHES)],
) -> Patches:
    """Change the world or the sketch by patches below it; an empty path stands for all of it."""
    if any(not patch.path and not isinstance(patch.value, dict) for patch in patches):
        raise InputError(f"the {root} is a table", "Give its tables")
    return [DocumentPatch((root, *p.path), p.value, p.insert, p.remove) for p in patches]


def _set_strip(tree: Tree, strip: schema.StripEntry) -> Patches:
    """Put a stretch of a take onto the timeline; the one with the same id is replaced."""
    _require(tree, "takes", strip.take)
    keys = [one["id"] for one in tree["timeline"]["strips"]]
    if strip.id in keys:
        return [_set(("timeline", "strips", keys.index(strip.id)), _plain(strip))]
    return [DocumentPatch(("timeline", "strips", len(keys)), insert=_plain(strip))]


def _remove_strip(tree: Tree, id: schema.Id) -> Patches:  # noqa: A002
    """Take a strip off the timeline."""
    keys = [one["id"] for one in tree["timeline"]["strips"]]
    if id not in keys:
        raise UnknownNameError("strip", id, "the timeline", keys)
    return [DocumentPatch(("timeline", "strips", keys.index(id)), remove=True)]


def _set_timeline(
    tree: Tree,
    markers: list[schema.MarkerEntry] | None = None,
    range_s: tuple[schema.Seconds, schema.Seconds] | None = None,
    rate_hz: Annotated[float, Meta(gt=0.0, le=10_000.0)] | None = None,
    whole: bool = False,  # forget the range
) -> Patches:
    """Replace the markers, the range or the rate of the timeline; what is not given stays."""
    if range_s is not None and range_s[0] >= range_s[1]:
        raise InputError("the range ends before it begins", "Choose an end after the beginning")
    values = _plain(schema.TimelineEntry(markers=markers or [], range_s=range_s, rate_hz=rate_hz or 60.0))
    given = {"markers": markers is not None, "rate_hz": rate_hz is not None, "range_s": range_s is not None or whole}
    return [_set(("timeline", key), values[key]) for key, is_given in given.items() if is_given]


AddMotions: Final = make_command("Add motions", _add_motions)
SetResult: Final = make_command("New result", _set_result)
SetEdited: Final = make_command("Edited", _set_edited)
COMMANDS: Final[dict[str, Any]] = {
    "rename_project": make_command("Rename project", _rename_project),
    "rename": make_command("Rename", _rename),
    "add_take": make_command("New take", _add_take),
    "remove": make_command("Remove", _remove),
    "set_recipe": make_command("Change recipe", _set_recipe),
    "add_layer": make_command("New layer", _add_layer),
    "set_layer": make_command("Change layer", _set_layer),
    "remove_layer": make_command("Remove layer", _remove_layer),
    "set_keys": make_command("Set keys", _set_keys),
    "move_keys": make_command("Move keys", _move_keys),
    "remove_keys": make_command("Remove keys", _remove_keys),
    "set_edit": make_command("Edit", _set_edit),
    "edit_world": make_command("Edit world", _edit_world),
    "set_strip": make_command("Place strip", _set_strip),
    "remove_strip": make_command("Remove strip", _remove_strip),
    "set_timeline": make_command("Change timeline", _set_timeline),
}

"""Commands of the new studio's project: undo and redo give the document back bit for bit, and so does the journal."""

from __future__ import annotations

import copy
import random

import msgspec
import pytest

from marey.base import InputError, MareyError
from marey.studio.commands import AddMotions, SetEdited, SetResult, read_command
from marey.studio.project import Project
from marey.studio.schema import ClipEntry, DocumentPatch, TakeEntry, apply_patches, check_project

HASH = "ab" * 32


def encode(tree) -> bytes:
    return msgspec.json.encode(tree, order="deterministic")


def begin(project: Project) -> None:
    clip = ClipEntry("walk", HASH, "walk.bvh", 240, 60.0, "")
    takes = {f"t{n}": TakeEntry(f"take {n}", "", "c1", base=HASH, result=HASH) for n in range(3)}
    project.run(AddMotions(clips={"c1": clip}, takes=takes))


def random_command(tree, rng: random.Random):
    """Return any command, most of the time one that makes sense here."""
    takes, strips = list(tree["takes"]), [strip["id"] for strip in tree["timeline"]["strips"]]
    take = rng.choice([*takes, "nobody"])
    layers = [layer["id"] for layer in tree["takes"].get(take, {}).get("layers", ())] or ["none"]
    layer = rng.choice(layers)
    number = rng.randrange(10_000)
    key = {"time_s": rng.random() * 4, "joint": rng.choice("ab"), "rotation": [1.0, 0.0, 0.0, rng.random()]}
    shift = {"time_s": rng.random(), "joint": "a", "offset": [rng.random(), 0, 1]}
    strip = {"id": f"s{number}", "take": take, "in_s": 0.5, "out_s": 2.0}
    patches = [
        {"path": ["path"], "value": {"points": [[0.0, 1.5], [number, -0.0]]}},
        {"path": ["path", "points", 0], "insert": [rng.random(), 2]},
        {"path": ["path", "points", 1], "remove": True},
    ]
    name, args = rng.choice(
        [
            ("rename_project", {"name": f"p{number}"}),
            ("rename", {"kind": "takes", "id": take, "name": f"n{number}"}),
            ("add_take", {"id": f"x{number}", "name": "new", "clip": "c1"}),
            ("add_take", {"id": f"y{number}", "name": "copy", "copy": take}),
            ("remove", {"kind": rng.choice(["takes", "clips"]), "id": rng.choice([take, "c1"])}),
            ("set_recipe", {"take": take, "recipe": {"tool": "clean", "inputs": {"motion": rng.choice(takes)}}}),
            ("add_layer", {"take": take, "layer": {"id": f"l{number}", "name": "l", "keys": [key]}}),
            ("set_layer", {"take": take, "layer": layer, "weight": rng.random(), "mask": ["a"]}),
            ("remove_layer", {"take": take, "layer": layer}),
            ("set_keys", {"take": take, "layer": layer, "keys": [key, shift, key]}),
            ("move_keys", {"take": take, "layer": layer, "indices": [0, 0, 1], "shift_s": rng.random() - 0.5}),
            ("remove_keys", {"take": take, "layer": layer, "indices": [rng.randrange(3), 0]}),
            ("set_edit", {"take": take, "edit": {"kind": "pin", "place": [rng.random(), 1, None]}}),
            ("set_edit", {"take": take, "index": rng.randrange(3), "edit": rng.choice([None, {"kind": "trim"}])}),
            ("edit_world", {"root": "sketch", "patches": rng.sample(patches, rng.randrange(1, 4))}),
            ("edit_world", {"root": "world", "patches": [{"path": [], "value": {"walls": [number]}}]}),
            ("set_strip", {"strip": strip}),
            ("set_strip", {"strip": {**strip, "id": rng.choice([*strips, "s"]), "loop": 2}}),
            ("remove_strip", {"id": rng.choice([*strips, "s"])}),
            ("set_timeline", {"markers": [{"time_s": 1, "text": "é"}], "range_s": [0, number]}),
            ("set_timeline", {"whole": True, "rate_hz": 29.97}),
        ]
    )
    return read_command(name, args)


def mirror(tree, patches) -> None:
    """Apply patches in place, as a page does."""
    for patch in msgspec.to_builtins(patches):
        *way, last = patch["path"]
        node = tree
        for step in way:
            node = node[step]
        if "insert" in patch:
            node.insert(last, copy.deepcopy(patch["insert"]))
        elif patch.get("remove"):
            del node[last]
        else:
            node[last] = copy.deepcopy(patch["value"])


def check_walk(folder, count: int, seed: int) -> None:
    rng = random.Random(seed)
    project = Project(folder)
    begin(project)
    page = copy.deepcopy(project.tree)
    states = [encode(project.tree)]  # after each step that can be undone
    at = refused = amended = 0
    for _ in range(count):
        act = rng.random()
        if act < 0.12 and at:
            change, at = project.undo(), at - 1
        elif act < 0.2 and at < len(states) - 1:
            change, at = project.redo(), at + 1
        elif act < 0.25 and at and at == len(states) - 1 and (takes := list(project.tree["takes"])):
            change = project.amend(SetEdited(rng.choice(takes), HASH, "made"))
            states[at] = encode(project.tree)
            amended += 1
        else:
            before = project.tree
            try:
                change = project.run(random_command(project.tree, rng))
            except MareyError:
                assert project.tree is before
                refused += 1
                continue
            at += 1
            states[at:] = [encode(project.tree)]
        assert encode(project.tree) == states[at]
        mirror(page, change.patches)
    assert encode(page) == encode(project.tree)  # what a page made of the patches alone
    assert count / 2 > refused > 0 < amended
    check_project(project.tree)
    last = states[at]
    while project.undo_label != "Add motions":
        project.undo()
        at -= 1
        assert encode(project.tree) == states[at]
    assert at == 0
    while project.redo_label is not None:
        project.redo()
        at += 1
        assert encode(project.tree) == states[at]
    final, labels = project.tree, (project.seq, project.undo_label)
    project._journal.close()  # as after kill -9: nothing is written any more
    project._lock.release()
    again = Project(folder)
    assert (encode(again.tree), (again.seq, again.undo_label)) == (encode(final), labels)
    assert last in states
    while again.undo_label != "Add motions":
        again.undo()
    assert encode(again.tree) == states[0]
    again.close()


def test_150_random_commands_are_undone_bit_for_bit(tmp_path) -> None:
    check_walk(tmp_path, 150, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_1000_random_commands_are_undone_bit_for_bit(tmp_path, seed) -> None:
    check_walk(tmp_path, 1000, 100 + seed)


def test_a_patch_shares_what_it_does_not_touch() -> None:
    tree = {"a": {"b": [1, 2]}, "c": {"d": 0}}
    changed, inverse = apply_patches(tree, [DocumentPatch(("a", "b", 0), value=5)])
    assert tree == {"a": {"b": [1, 2]}, "c": {"d": 0}}
    assert changed["c"] is tree["c"] and changed["a"]["b"] == [5, 2]
    assert apply_patches(changed, inverse)[0] == tree


@pytest.mark.parametrize(
    "patch",
    [
        DocumentPatch(()),
        DocumentPatch(("x", "y"), value=1),
        DocumentPatch(("a", "b", 7), value=1),
        DocumentPatch(("a", "b", -1), value=1),
        DocumentPatch(("a", "b", 3), insert=1),
        DocumentPatch(("a", "b", "0"), remove=True),
        DocumentPatch(("a", "z"), remove=True),
        DocumentPatch(("a", "b")),
    ],
)
def test_a_patch_that_leads_nowhere_is_refused(patch) -> None:
    with pytest.raises(InputError):
        apply_patches({"a": {"b": [1, 2]}}, [patch])


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("rename", {"kind": "takes", "id": "t0"}),
        ("rename", {"kind": "version", "id": "t0", "name": "x"}),
        ("rename", {"kind": "takes", "id": "t0", "name": "x", "more": 1}),
        ("rename_project", {"name": "x" * 300}),
        ("set_layer", {"take": "t0", "layer": "l", "weight": float("nan")}),
        ("move_keys", {"take": "t0", "layer": "l", "indices": [-1], "shift_s": 0.0}),
        ("edit_world", {"root": "takes", "patches": []}),
        ("edit_world", {"root": "world", "patches": [{"path": ["a"], "value": float("inf")}]}),
        ("add_motions", {}),
        ("set_result", {}),
        ("", None),
        ("rename", [1, 2]),
    ],
)
def test_a_command_with_wrong_arguments_is_refused(name, args) -> None:
    with pytest.raises(MareyError):
        read_command(name, args)


def test_what_is_in_use_is_not_removed(tmp_path) -> None:
    project = Project(tmp_path)
    begin(project)
    for name, args in (("clips", "c1"), ("takes", "t1")):
        if name == "takes":
            project.run(read_command("set_strip", {"strip": {"id": "s", "take": "t1"}}))
        with pytest.raises(InputError, match="is used by"):
            project.run(read_command("remove", {"kind": name, "id": args}))
    project.close()


def test_a_new_result_makes_what_was_made_of_it_stale(tmp_path) -> None:
    project = Project(tmp_path)
    begin(project)
    for take, source in (("t1", "t0"), ("t2", "t1")):
        project.run(
            read_command("set_recipe", {"take": take, "recipe": {"tool": "clean", "inputs": {"motion": source}}})
        )
        project.run(SetResult(take, HASH, "fresh"))
    assert [take["state"] for take in project.tree["takes"].values()] == ["fresh"] * 3
    project.run(SetResult("t0", "cd" * 32, "fresh"))
    assert [take["state"] for take in project.tree["takes"].values()] == ["fresh", "stale", "stale"]
    project.undo()
    assert [take["state"] for take in project.tree["takes"].values()] == ["fresh"] * 3
    project.close()


def test_a_project_is_open_once(tmp_path) -> None:
    project = Project(tmp_path)
    with pytest.raises(InputError, match="another studio"):
        Project(tmp_path)
    project.close()
    Project(tmp_path).close()

"""Recipes: TOML there and back, mistakes with their line, and the same bytes again from the command."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import marey
from marey import samples
from marey.base import FormatError, InputError
from marey.cli.app import app
from marey.motion import Motion, mirror
from marey.pipeline import Recipe, load_recipe, parse_recipe, run_recipe, save_recipe
from marey.pipeline.recipes import format_toml
from marey.studio.tools import TOOLS

WORDS = st.text(max_size=12)
NUMBERS = st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = WORDS | NUMBERS | st.booleans()
TREES = st.recursive(
    st.dictionaries(WORDS, LEAVES | st.lists(LEAVES, max_size=3), max_size=4),
    lambda inner: st.dictionaries(WORDS, inner | LEAVES | st.lists(inner, min_size=1, max_size=3), max_size=3),
    max_leaves=6,
)
# Every tool that a recipe can run, with settings that are quick; inputs are shipped clips and files beside the recipe
QUICK: dict[str, dict[str, Any]] = {
    "import": {"settings": {"file": "walk.bvh", "rate_hz": 30.0}},
    "export": {"inputs": {"motion": "walk.safetensors"}, "settings": {"format": "glb"}},
    "clean": {"inputs": {"motion": "walk.safetensors"}, "settings": {"tremor": False}},
    "retarget": {"inputs": {"motion": "walk.safetensors", "target": "other.safetensors"}},
    "hold": {"inputs": {"motion": "walk.safetensors"}, "settings": {"toes_in_deg": 5.0}},
    "bake": {
        "inputs": {"motion": "walk.safetensors"},
        "layers": ({"weight": 0.5, "keys": [{"time_s": 0.1, "joint": "head", "rotation": [0.995, 0.0998, 0.0, 0.0]}]},),
        "edits": ({"kind": "mirror"}, {"kind": "trim", "start_s": 0.1, "stop_s": 0.9}),
    },
    "strips": {
        "settings": {
            "strips": [{"take": "walk.safetensors", "loop": 2.0}, {"take": "other.safetensors", "blend_s": 0.3}]
        }
    },
    "between": {
        "inputs": {"motion": "walk.safetensors"},
        "settings": {"poses": [{"time_s": 0.0, "at_s": 0.2}, {"time_s": 0.5, "at_s": 0.6}]},
    },
    "path": {
        "settings": {
            "engine": "locomotion",
            "sketch": {"start": {"position": [0.0, 0.0]}, "goal": {"position": [0.0, 2.0]}},
        }
    },
    "walk": {"settings": {"speed": 1.1, "seconds": 0.7, "commands": [{"step": 20, "turn_rate": 0.4}]}, "seed": 4},
    "script": {"settings": {"script": "walk"}},
    "repair": {"inputs": {"motion": "walk.safetensors"}, "settings": {"range_s": [0.2, 0.9], "iterations": 2}},
    "accept": {
        "inputs": {"motion": "walk.safetensors", "repaired": "other.safetensors"},
        "settings": {"intervals": [[0.2, 0.4]]},
    },
    "simulate": {
        "inputs": {"motion": "walk.safetensors"},
        "settings": {"modes": 6, "seconds": 0.2, "commands": [{"step": 2, "push": {"force_n": 200.0}}]},
    },
    "track": {"inputs": {"motion": "walk.safetensors"}, "settings": {"seconds": 0.2, "modes": 10}},
    "muscle": {"settings": {"seconds": 0.1}},
    "muscles": {"inputs": {"motion": "walk.safetensors"}},
}
SLOW: dict[str, dict[str, Any]] = {
    "jump": {"settings": {"length_m": 0.8, "iterations": 4}},
    "problem": {"settings": {"problem": "long-step", "iterations": 2}},
    "reach": {"settings": {"goals": [{"time_s": 0.3, "place": [0.2, 1.1, 0.3]}]}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("recipes")
    walk = samples.walk()[:66]
    marey.save(walk, home / "walk.safetensors")
    marey.save(walk, home / "walk.bvh")
    marey.save(mirror(walk), home / "other.safetensors")
    return home


def write(folder: Path, stem: str, tool: str, **parts: Any) -> Path:
    path = folder / f"{stem}.toml"
    save_recipe(Recipe(tool, **parts), path)
    return path


@settings(max_examples=40)
@given(tree=TREES)
def test_a_tree_comes_back_from_its_toml(tree: dict[str, Any]) -> None:
    assert tomllib.loads(format_toml(tree)) == tree


def test_a_recipe_comes_back_from_its_toml() -> None:
    recipe = Recipe("bake", **QUICK["bake"], seed=3, name="a “name”")
    again = parse_recipe(recipe.to_toml())
    assert again == Recipe("bake", {"motion": "walk.safetensors"}, {}, 3, "a “name”", again.layers, again.edits)
    assert json.loads(json.dumps(again.layers)) == json.loads(json.dumps(recipe.layers))


def test_every_tool_with_a_recipe_is_tried_here() -> None:
    assert {*QUICK, *SLOW} == {tool.id for tool in TOOLS.values() if tool.has_recipe}


@pytest.mark.parametrize("tool", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_a_recipe_runs_again_to_equal_bytes(folder: Path, tool: str, tmp_path: Path) -> None:
    recipe = write(folder, f"try-{tool}", tool, **(QUICK | SLOW)[tool])
    made: list[dict[str, bytes]] = []
    for turn in ("first", "second"):
        out = tmp_path / turn / "made.safetensors"
        result = CliRunner().invoke(app, ["run", str(recipe), "-o", str(out), "--json"])
        assert result.exit_code == 0, result.output
        facts = json.loads(result.stdout)
        made.append({file.name: file.read_bytes() for file in out.parent.iterdir()})
        assert len(made[-1]) == len(facts["files"]) + (facts["out"] is not None)
    assert made[0]
    assert made[0] == made[1]


def test_a_recipe_of_a_recipe_is_run_first_and_edits_come_last(folder: Path) -> None:
    write(folder, "first", "bake", inputs={"motion": "walk.safetensors"}, edits=({"kind": "mirror"},))
    second = write(folder, "second", "bake", inputs={"motion": "first.toml"}, edits=({"kind": "mirror"},), name="back")
    made: Motion = run_recipe(load_recipe(second), TOOLS).motion
    walk = marey.load(folder / "walk.safetensors")
    np.testing.assert_allclose(made.joint_positions(), walk.joint_positions(), atol=1e-9)
    assert made.name == "back"


def test_a_recipe_that_uses_itself_ends_with_a_sentence(folder: Path) -> None:
    path = write(folder, "snake", "bake", inputs={"motion": "snake.toml"})
    with pytest.raises(InputError, match="use itself"):
        run_recipe(load_recipe(path), TOOLS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('tool = "claen"', r"r.toml:1: no tool 'claen'.*clean"),
        ("seed = 1", r"r.toml:1: the recipe names no tool"),
        ('tool = "clean"\nseed = -1', r"r.toml:2: seed is -1"),
        ('tool = "clean"\ncolour = 1', r"r.toml:2: .*colour"),
        ('version = 9\ntool = "clean"', r"r.toml:1: recipe version 9"),
        ('tool = "clean"\n[settings]\n\ntremor = 3', r"r.toml:4: 'tremor' of 'clean' is no switch. Give true"),
        ('tool = "jump"\n[settings]\nlength_m = 9.0', r"r.toml:3: 'length_m' of 'jump' is 9 m. Give at least 0.3"),
        ('tool = "jump"\n[settings]\nlenght_m = 1.0', r"r.toml:3: no setting 'lenght_m'.*length_m"),
        ('tool = "clean"\n[settings]\nmotion = "walk"', r"r.toml:3: 'motion' does not belong.*\[inputs\]"),
        ('tool = "clean"\n[inputs]\ntremor = "walk"', r"r.toml:3: 'tremor' does not belong"),
        ('tool = "clean"\nsettings = 3', r"r.toml:2: 'settings' is no table"),
        ('tool = "clean"\n[settings', r"r.toml:2: .*Correct the TOML"),
        ('tool = "measure"\nedits = [{kind = "mirror"}]\n[inputs]\nmotion = "walk"', r"r.toml:1: .*no motion to edit"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        run_recipe(parse_recipe(text, file="r.toml"), TOOLS)


def test_what_works_under_the_pointer_only_is_refused() -> None:
    with pytest.raises(InputError, match="under the pointer"):
        run_recipe(parse_recipe('tool = "pose"\n[inputs]\nmotion = "walk"'), TOOLS)


def test_the_command_goes_on_after_a_recipe_that_fails(folder: Path, tmp_path: Path) -> None:
    good = write(folder, "good", "bake", inputs={"motion": "walk.safetensors"})
    bad = write(folder, "bad", "bake", inputs={"motion": "missing.bvh"})
    result = CliRunner().invoke(app, ["run", str(bad), str(good), "-o", str(tmp_path), "--format", "bvh", "--json"])
    assert result.exit_code == 1
    rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert "missing.bvh" in rows[0]["error"]
    assert rows[1]["frames"] == 66
    assert (tmp_path / "good.bvh").is_file()
    assert not (tmp_path / "bad.bvh").exists()

"""The verbs `strip` and `film`: characters, bodies and worlds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from oracles.rigs import write_character
from PIL import Image as Pillow

from marey import samples, save

WORLD = """version = 1
[start]
position = [0.0, 0.0]
[goal]
position = [0.0, 3.0]
[[box]]
position = [0.5, 1.0]
height_m = 0.6
[[river]]
start = [-2.0, 2.0]
end = [2.0, 2.0]
"""


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Pillow.open(path).convert("RGB")).astype(int)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    save(samples.walk()[:60], tmp_path / "walk.bvh")
    return tmp_path / "walk.bvh"


def test_strip_and_film_draw_the_world_of_a_sketch(run, clip, tmp_path):
    (tmp_path / "world.toml").write_text(WORLD, encoding="utf-8")
    options = ("--world", tmp_path / "world.toml")
    assert run("strip", clip, "-o", tmp_path / "plain.png", "--width", 320).code == 0
    assert run("strip", clip, "-o", tmp_path / "world.png", "--width", 320, *options).code == 0
    plain, world = pixels(tmp_path / "plain.png"), pixels(tmp_path / "world.png")
    assert ((world[..., 2] > world[..., 0] + 25) & (world[..., 1] > world[..., 0] + 10)).sum() > 50  # water
    assert plain.shape != world.shape or np.abs(plain - world).max() > 40
    assert run("film", clip, "-o", tmp_path / "a.gif", "--fps", 2, *options).code == 0


def test_a_character_is_drawn_and_a_wrong_one_refused_in_one_line(run, clip, tmp_path):
    write_character(tmp_path / "someone.glb", armature=False, clips=1)
    for body in ("auto", "mesh", "capsules"):
        result = run("strip", tmp_path / "someone.glb", "-o", tmp_path / f"{body}.png", "--width", 256, "--body", body)
        assert result.code == 0
    assert (pixels(tmp_path / "auto.png") == pixels(tmp_path / "mesh.png")).all()
    assert pixels(tmp_path / "auto.png").shape != pixels(tmp_path / "capsules.png").shape or (
        np.abs(pixels(tmp_path / "auto.png") - pixels(tmp_path / "capsules.png")).max() > 40
    )
    result = run("strip", clip, "-o", tmp_path / "x.png", "--body", "mesh")
    assert result.code == 1 and "holds no character" in result.err
    assert run("strip", clip, "-o", tmp_path / "x.png", "--body", "flesh").code == 2
    assert run("strip", clip, "-o", tmp_path / "x.png", "--character", tmp_path / "none.glb").code != 0
    assert not (tmp_path / "x.png").exists()

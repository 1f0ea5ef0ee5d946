"""Clips of a scene: their names, the choice of one, and the frame rate of keys."""

from __future__ import annotations

import numpy as np
import pytest

import marey
from marey.base import InputError, MissingFileError, UnknownNameError
from marey.io import save
from marey.io.scene import choose_clip, name_clips
from marey.io.scene.motion import guess_rate
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import HUMAN

CLIP = Motion(HUMAN, 60.0, np.tile([0.0, 0.96, 0.0], (5, 1)), SO3.exp(0.2 * np.sin(np.arange(330.0)).reshape(5, 22, 3)))


def test_every_clip_gets_a_name_of_its_own():
    assert name_clips(["Walk", "", "Walk", "Walk (2)", " "]) == ("Walk", "clip 1", "Walk (2)", "Walk (2) (2)", "clip 4")


def test_a_clip_is_chosen_by_name_or_number():
    names = ("Idle", "Walk", "7")
    assert choose_clip("a.glb", names, "Walk", bool) == (1, [])
    assert choose_clip("a.glb", names, 2, bool) == choose_clip("a.glb", names, "2", bool) == (2, [])
    assert choose_clip("a.glb", names, "7", bool) == (2, [])
    for wrong in ("Wlak", 3, -1, "9"):
        with pytest.raises(UnknownNameError, match=r"'a\.glb'"):
            choose_clip("a.glb", names, wrong, bool)
    for odd in (1.5, True, ["Walk"]):
        with pytest.raises(InputError, match="clip is"):
            choose_clip("a.glb", names, odd, bool)  # pyright: ignore[reportArgumentType]


def test_the_first_clip_that_moves_is_the_default():
    names = tuple(f"c{i}" for i in range(9))
    number, notes = choose_clip("a.glb", names, None, lambda i: i >= 4)
    assert number == 4 and "'c4' was read, not 'c0', 'c1', 'c2', 'c3', 'c5', ..." in notes[0]
    assert choose_clip("a.glb", names, None, lambda _: False)[0] == 0
    assert choose_clip("a.glb", ("only",), None, lambda _: False) == (0, [])


@pytest.mark.parametrize(
    ("times", "declared", "rate"),
    [
        (np.arange(50) / 120.0, 30.0, 120.0),  # baked at another rate than the file's
        (np.array([0.0, 10.0, 25.0]) / 25.0, 25.0, 25.0),  # poses on frames of the file's
        (np.array([0.0, 7.0, 25.0]) / 48.0, 30.0, 48.0),  # poses on other frames
        (np.array([0.0, 0.1234, 0.9871]), 24.0, 24.0),  # on none
        (np.array([2.0]), 24.0, 24.0),
    ],
)
def test_the_rate_is_that_of_the_keys(times, declared, rate):
    assert guess_rate(times, declared)[0] == rate


def test_formats_of_one_clip_have_one_called_like_the_file(tmp_path):
    save(CLIP, tmp_path / "walk.bvh")
    assert marey.clips(tmp_path / "walk.bvh") == ("walk",)
    assert marey.load(tmp_path / "walk.bvh", clip="walk").num_frames == 5
    assert marey.load(tmp_path / "walk.bvh", clip=0).num_frames == 5
    with pytest.raises(UnknownNameError, match=r"no clip 'run' in 'walk\.bvh'"):
        marey.load(tmp_path / "walk.bvh", clip="run")
    with pytest.raises(MissingFileError):
        marey.clips(tmp_path / "run.bvh")
    (tmp_path / "x.xyz").write_text("")
    with pytest.raises(InputError, match="cannot read"):
        marey.clips(tmp_path / "x.xyz")


def test_animations_of_gltf_are_clips(tmp_path):
    save(CLIP, tmp_path / "walk.glb")
    assert marey.clips(tmp_path / "walk.glb") == (CLIP.name,)
    assert marey.load(tmp_path / "walk.glb", clip=CLIP.name).num_frames == 5


@pytest.mark.real
def test_every_animation_of_a_real_file_is_read(real):
    path = real / "khronos-gltf" / "Fox.glb"
    assert marey.clips(path) == ("Survey", "Walk", "Run")
    lengths = [marey.load(path, clip=name).duration_s for name in marey.clips(path)]
    np.testing.assert_allclose(lengths, [3.4167, 0.7083, 1.1583], atol=0.05)
    assert marey.load(path).name == "Survey"

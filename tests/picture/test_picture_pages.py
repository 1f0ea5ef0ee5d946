"""Pages that play motions: what is written into them is the motion."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest

import marey
from marey.base import InputError, MissingFileError
from marey.io import Character, pose_vertices
from marey.picture import save_page
from marey.picture.pages import PLAYER
from marey.world import River, Sketch, Wall, World

SCRIPT = "/* </script> */"  # stands for the player: what it holds must not end its element


def read_back(path):
    """Description and numbers of a page."""
    text = path.read_text(encoding="utf-8")
    header = re.search(r'id="marey-header">(.*?)</script>', text, re.DOTALL)
    numbers = re.search(r'id="marey-numbers">(.*?)</script>', text, re.DOTALL)
    assert header is not None and numbers is not None
    return json.loads(header[1]), np.frombuffer(base64.b64decode(numbers[1]), dtype="<f4")


def cut(numbers, place, *shape):
    first, count = place
    return numbers[first : first + count].reshape(shape)


def make_cube(motion):
    """A cube of 20 cm that hangs on the head, on the skeleton of a motion."""
    skeleton = motion.skeleton
    head = skeleton.index("head")
    corners = np.array([[x, y, z] for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)])
    joints = np.full((8, 4), head)
    weights = np.tile([1.0, 0.0, 0.0, 0.0], (8, 1))
    faces = np.array([[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5]])
    return Character(skeleton, corners + skeleton.rest_positions()[head], faces, joints, weights, np.ones((8, 3)))


def test_page_holds_the_mesh_of_a_character(tmp_path):
    walk = marey.samples.walk()
    save_page([walk], tmp_path / "walk.html", character=make_cube(walk), player=SCRIPT)
    header, numbers = read_back(tmp_path / "walk.html")
    skin = header["clips"][0]["skin"]
    carriers = cut(numbers, skin["carriers"], -1, 4).astype(int)
    # Linear blend skinning of what the page holds
    vertices = np.column_stack([cut(numbers, skin["vertices"], -1, 3), np.ones(8)])
    matrices = np.swapaxes(cut(numbers, skin["inverse_bind"], -1, 4, 4), 1, 2)[carriers[:, 0]]
    local = (matrices @ vertices[..., None])[:, :3, 0]
    pose = walk[30]
    shown = (pose.joint_rotations().matrix()[carriers[:, 0]] @ local[..., None])[..., 0]
    shown += pose.joint_positions()[carriers[:, 0]]
    np.testing.assert_allclose(shown, pose_vertices(make_cube(walk), walk, [30])[0], atol=1e-5)
    save_page([walk], tmp_path / "plain.html", body="capsules", player=SCRIPT)
    assert read_back(tmp_path / "plain.html")[0]["clips"][0]["skin"] is None


def test_page_holds_the_motion_to_single_precision(tmp_path):
    walk = marey.samples.walk()
    save_page([walk], tmp_path / "walk.html", player=SCRIPT)
    header, numbers = read_back(tmp_path / "walk.html")
    clip = header["clips"][0]
    assert clip["joints"] == list(walk.skeleton.names) and clip["rate_hz"] == walk.rate_hz
    roots = cut(numbers, clip["roots"], walk.num_frames, 3)
    np.testing.assert_allclose(roots, walk.root_positions, rtol=0, atol=1e-6)
    xyzw = cut(numbers, clip["rotations"], walk.num_frames, walk.skeleton.num_joints, 4)
    np.testing.assert_allclose(xyzw[..., [3, 0, 1, 2]], walk.rotations.wxyz, rtol=0, atol=1e-6)


def test_contacts_of_the_page_are_those_of_the_motion(tmp_path):
    jump = marey.samples.jump(1.2)
    save_page([jump], tmp_path / "jump.html", player=SCRIPT)
    clip = read_back(tmp_path / "jump.html")[0]["clips"][0]
    for track in clip["contacts"]:
        flags = np.zeros(jump.num_frames, dtype=bool)
        for first, stop in track["runs"]:
            flags[first:stop] = True
        np.testing.assert_array_equal(flags, jump.contacts.track(track["name"]))


def test_world_and_bands_are_on_the_page(tmp_path):
    walk = marey.samples.walk()
    world = World(walls=(Wall((1, 0), (1, 3)),), rivers=(River((-2, 2), (2, 2), width_m=0.5),))
    bands = [{"physics": [(0.0, 1.0, "green", "a < b </script>"), (1.0, 2.0, "red", "slides")]}]
    save_page([walk], tmp_path / "w.html", world=world, bands=bands, player=SCRIPT)
    header, numbers = read_back(tmp_path / "w.html")
    assert [span["text"] for span in header["clips"][0]["bands"][0]["spans"]] == ["a < b </script>", "slides"]
    assert sorted(mesh["opacity"] for mesh in header["world"]) == [0.35, 1.0]
    for mesh in header["world"]:
        assert max(mesh["faces"]) < mesh["vertices"][1] / 3
        assert np.isfinite(cut(numbers, mesh["vertices"], -1, 3)).all()


def test_same_motions_make_the_same_bytes(tmp_path):
    sketch = Sketch.load(marey.samples.sketch_file("three-rivers"))
    for name in ("a.html", "b.html"):
        save_page([marey.samples.walk()], tmp_path / name, world=sketch, player=SCRIPT)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_pages_that_cannot_be_made_are_refused(tmp_path):
    walk = marey.samples.walk()
    with pytest.raises(InputError, match="needs a motion"):
        save_page([], tmp_path / "x.html", player=SCRIPT)
    with pytest.raises(InputError, match="1 of 2"):
        save_page([walk, walk], tmp_path / "x.html", bands=[{}], player=SCRIPT)
    with pytest.raises(InputError, match="'blue' is no level"):
        save_page([walk], tmp_path / "x.html", bands=[{"row": [(0.0, 1.0, "blue", "")]}], player=SCRIPT)
    assert not (tmp_path / "x.html").exists()


def test_page_without_a_built_player_says_how_to_build_it(tmp_path, monkeypatch):
    monkeypatch.setattr("marey.picture.pages.PLAYER", PLAYER.with_name("nowhere.js"))
    with pytest.raises(MissingFileError, match="make web"):
        save_page([marey.samples.walk()], tmp_path / "x.html")

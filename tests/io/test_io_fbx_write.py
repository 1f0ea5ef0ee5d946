"""Our FBX, read by ufbx in a process of its own: joints, takes, root motion, contacts, skin."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracles.rigs import waving, write_character

import marey
from marey.base import InputError
from marey.io import load_character, pose_vertices
from marey.motion import Motion
from marey.skeleton import HUMAN, Skeleton

BAR_MM = 0.01
SIDE = Path(__file__).parents[1] / "oracles" / "ufbx_side.py"
needs_ufbx = pytest.mark.skipif(find_spec("ufbx") is None, reason="ufbx is not installed: pip install 'marey[fbx]'")


def ask_ufbx(path: Path, times: np.ndarray, take: int = 0) -> dict[str, Any]:
    command = [sys.executable, str(SIDE), str(path), str(take), *[repr(float(t)) for t in times]]
    return json.loads(subprocess.run(command, capture_output=True, check=True, text=True, timeout=120).stdout)


def gap_mm(path: Path, motion: Motion, take: int = 0) -> float:
    """Largest distance between ufbx's nodes and our joints at 20 frames."""
    frames = np.unique(np.linspace(0, motion.num_frames - 1, 20).astype(int))
    said = ask_ufbx(path, frames / motion.rate_hz, take)
    ours, unit = motion.joint_positions()[frames], said["unit_m"]
    theirs = said["positions"]
    names = enumerate(motion.skeleton.names)
    return 1e3 * max(float(np.abs(unit * np.array(theirs[n]) - ours[:, j]).max()) for j, n in names)


@needs_ufbx
@pytest.mark.parametrize("rate_hz", [24.0, 30000 / 1001, 60.0, 120.0, 37.5])
@pytest.mark.parametrize("root", ["hips", "bone"])
def test_ufbx_finds_our_joints(tmp_path: Path, rate_hz: float, root: str) -> None:
    motion = waving(rate_hz=rate_hz)
    marey.save(motion, tmp_path / "out.fbx", root=root)
    said = ask_ufbx(tmp_path / "out.fbx", motion.times()[-1:])
    assert said["rate_hz"] == pytest.approx(rate_hz)
    assert said["takes"][0]["end_s"] == pytest.approx(motion.duration_s)
    assert gap_mm(tmp_path / "out.fbx", motion) < BAR_MM


@needs_ufbx
def test_bones_that_change_length_and_turn_over_stay_where_they_are(tmp_path: Path) -> None:
    motion = waving(amount=2.9)
    stretch = 1.0 + 0.2 * np.sin(motion.times())[:, None, None]
    motion = replace(motion, translations=stretch * HUMAN.offsets)
    marey.save(motion, tmp_path / "out.fbx")
    assert gap_mm(tmp_path / "out.fbx", motion) < BAR_MM


@needs_ufbx
def test_several_takes_are_read_one_by_one(tmp_path: Path) -> None:
    clips = [waving(), replace(waving(frames=25, amount=0.2), name="small"), waving(frames=12, amount=1.0)]
    marey.save(clips, tmp_path / "out.fbx")
    said = ask_ufbx(tmp_path / "out.fbx", np.zeros(1))
    assert [take["name"] for take in said["takes"]] == ["wave", "small", "wave_2"]
    for number, clip in enumerate(clips):
        assert gap_mm(tmp_path / "out.fbx", clip, number) < BAR_MM


@needs_ufbx
def test_contacts_are_animated_properties_of_the_root(tmp_path: Path) -> None:
    motion = waving()
    marey.save(motion, tmp_path / "out.fbx")
    said = ask_ufbx(tmp_path / "out.fbx", motion.times() + 1e-4)
    assert motion.contacts is not None
    for name in motion.contacts.names:
        np.testing.assert_array_equal(said["properties"][f"contact_{name}"], motion.contacts.track(name))


@needs_ufbx
def test_a_character_comes_out_with_its_mesh_and_skin(tmp_path: Path) -> None:
    write_character(tmp_path / "someone.glb")
    character = load_character(tmp_path / "someone.glb")
    motion = waving(character.skeleton)
    for root in ("hips", "bone"):
        marey.save(motion, tmp_path / "out.fbx", onto=tmp_path / "someone.glb", root=root)
        said = ask_ufbx(tmp_path / "out.fbx", np.zeros(1))
        assert said["meshes"] == [len(character.vertices)]
        assert said["clusters"] == character.skeleton.num_joints
        assert gap_mm(tmp_path / "out.fbx", motion) < BAR_MM


@needs_ufbx
def test_a_character_of_fbx_is_the_one_that_was_written(tmp_path: Path) -> None:
    write_character(tmp_path / "someone.glb")
    character = load_character(tmp_path / "someone.glb")
    motion = waving(character.skeleton)
    marey.save(motion, tmp_path / "someone.fbx", onto=character)
    again = load_character(tmp_path / "someone.fbx")
    assert set(again.skeleton.names) == set(character.skeleton.names)
    np.testing.assert_allclose(again.vertices, character.vertices, atol=1e-5)
    np.testing.assert_array_equal(again.triangles, character.triangles)
    expected = pose_vertices(character, motion, [0, 30])
    found = pose_vertices(again, marey.load(tmp_path / "someone.fbx"), [0, 30])
    np.testing.assert_allclose(found, expected, atol=2e-5)
    # An FBX character goes to FBX and to glTF again
    for suffix in (".fbx", ".glb"):
        marey.save(motion, tmp_path / f"again{suffix}", onto=tmp_path / "someone.fbx", root="bone")
        third = load_character(tmp_path / f"again{suffix}")
        places = {name: j for j, name in enumerate(third.skeleton.names)}
        assert len(third.vertices) == len(character.vertices)
        moved = marey.load(tmp_path / f"again{suffix}")
        kept = [places[name] for name in motion.skeleton.names]
        np.testing.assert_allclose(moved.joint_positions()[:, kept], motion.joint_positions(), atol=1e-5)
        np.testing.assert_allclose(pose_vertices(third, moved, [0, 30]), expected, atol=3e-5)


@needs_ufbx
@pytest.mark.real
def test_a_real_fbx_character_keeps_its_mesh(real: Path, tmp_path: Path) -> None:
    path = real / "momentum-tests" / "character.fbx"
    character = load_character(path)
    motion = waving(character.skeleton)
    marey.save(motion, tmp_path / "out.fbx", onto=path)
    again = load_character(tmp_path / "out.fbx")
    assert gap_mm(tmp_path / "out.fbx", motion) < BAR_MM
    found = pose_vertices(again, marey.load(tmp_path / "out.fbx"), [9])
    np.testing.assert_allclose(found, pose_vertices(character, motion, [9]), atol=1e-5)


def test_curves_do_not_jump(tmp_path: Path) -> None:
    from marey.io.euler import decompose_euler

    motion = waving(amount=2.5)
    angles = decompose_euler(
        np.ascontiguousarray(motion.rotations.wxyz), np.tile([2, 1, 0], (22, 1)), np.zeros((1, 22, 3)), False
    )
    assert np.abs(np.diff(angles, axis=0)).max() < 180.0


def test_the_same_motion_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.fbx", "b.fbx"):
        marey.save(waving(), tmp_path / name)
    assert (tmp_path / "a.fbx").read_bytes() == (tmp_path / "b.fbx").read_bytes()


def test_motions_on_other_skeletons_are_refused(tmp_path: Path) -> None:
    other = waving(replace(HUMAN, offsets=1.1 * HUMAN.offsets))
    with pytest.raises(InputError, match="different skeletons"):
        marey.save([waving(), other], tmp_path / "out.fbx")
    with pytest.raises(InputError, match="no motion to write"):
        marey.save([], tmp_path / "out.fbx")
    assert not list(tmp_path.iterdir())


@pytest.mark.timing
def test_a_long_take_of_many_joints_is_written_in_two_seconds(tmp_path: Path) -> None:
    count = 65
    parents = np.arange(-1, count - 1)
    chain = Skeleton(tuple(f"joint{j}" for j in range(count)), parents, np.tile([0.0, 0.02, 0.0], (count, 1)))
    motion = waving(chain, frames=10_000)
    marey.save(motion[:10], tmp_path / "warm.fbx")
    start = time.process_time()
    marey.save(motion, tmp_path / "out.fbx")
    assert time.process_time() - start < 2.0


@needs_ufbx
@pytest.mark.mocap
@pytest.mark.parametrize("trial", ["08_01", "16_11", "118_01"])
def test_captured_clips_are_read_by_ufbx(mocap: Path, tmp_path: Path, trial: str) -> None:
    motion = marey.load(mocap / "cmu-bvh" / f"{trial}.bvh")
    marey.save(motion, tmp_path / "out.fbx")
    assert gap_mm(tmp_path / "out.fbx", motion) < BAR_MM


@needs_ufbx
@pytest.mark.parametrize("root", ["hips", "bone"])
def test_contacts_come_back_with_each_take(tmp_path: Path, root: str) -> None:
    motion = waving(rate_hz=60.0)
    clips = [motion, replace(motion[5:], name="later"), replace(motion, contacts=None, name="bare")]
    marey.save(clips, tmp_path / "out.fbx", root=root)
    for clip in clips:
        again = marey.load(tmp_path / "out.fbx", clip=clip.name)
        if clip.contacts is None:
            assert again.contacts is None
            continue
        assert again.contacts is not None and again.contacts.names == clip.contacts.names
        np.testing.assert_array_equal(again.contacts.active, clip.contacts.active)

"""Our USD text, read by usd-core: joints, names, contacts, mesh."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from oracles.rigs import waving, write_character

import marey
from marey.io import load_character, pose_vertices
from marey.motion import Contacts, Motion
from marey.skeleton import HUMAN, Skeleton

pytest.importorskip("pxr", reason="usd-core is not installed: pip install 'marey[usd]'")
from pxr import Usd, UsdGeom, UsdSkel

BAR_M = 1e-5


def read_joints(path: Path, frames: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Joint names and world positions [m] that UsdSkel computes."""
    stage = Usd.Stage.Open(str(path))
    cache = UsdSkel.Cache()
    root = UsdSkel.Root(stage.GetDefaultPrim())
    cache.Populate(root, Usd.PrimDefaultPredicate)
    skeleton = next(UsdSkel.Skeleton(prim) for prim in stage.Traverse() if prim.IsA(UsdSkel.Skeleton))
    query = cache.GetSkelQuery(skeleton)
    unit = UsdGeom.GetStageMetersPerUnit(stage)
    assert UsdGeom.GetStageUpAxis(stage) == "Y"
    places = []
    for frame in frames:
        worlds = np.array(query.ComputeJointSkelTransforms(float(frame)))
        places.append(unit * worlds[:, 3, :3])
    return list(skeleton.GetJointNamesAttr().Get()), np.array(places)


def gap_m(path: Path, motion: Motion) -> float:
    frames = np.unique(np.linspace(0, motion.num_frames - 1, 20).astype(int))
    names, places = read_joints(path, frames)
    ours = motion.joint_positions()[frames]
    return max(float(np.abs(places[:, names.index(n)] - ours[:, j]).max()) for j, n in enumerate(motion.skeleton.names))


@pytest.mark.parametrize("root", ["hips", "bone"])
def test_usd_core_finds_our_joints(tmp_path: Path, root: str) -> None:
    marey.save(waving(), tmp_path / "out.usda", root=root)
    assert gap_m(tmp_path / "out.usda", waving()) < BAR_M


def test_bones_that_change_length_stay_where_they_are(tmp_path: Path) -> None:
    motion = waving()
    stretch = 1.0 + 0.2 * np.sin(motion.times())[:, None, None]
    motion = replace(motion, translations=stretch * HUMAN.offsets)
    marey.save(motion, tmp_path / "out.usda")
    assert gap_m(tmp_path / "out.usda", motion) < BAR_M


def test_names_that_usd_does_not_allow_are_kept_as_joint_names(tmp_path: Path) -> None:
    names = tuple(f'rig:{n} "1"' for n in HUMAN.names)
    motion = waving(replace(HUMAN, names=names))
    marey.save(motion, tmp_path / "out.usda")
    assert tuple(read_joints(tmp_path / "out.usda", np.zeros(1))[0]) == names
    assert gap_m(tmp_path / "out.usda", motion) < BAR_M


def test_rate_frames_and_contacts_are_there(tmp_path: Path) -> None:
    motion = waving(rate_hz=30000 / 1001)
    marey.save([motion, replace(motion[:9], name="short")], tmp_path / "out.usda")
    stage = Usd.Stage.Open(str(tmp_path / "out.usda"))
    assert stage.GetTimeCodesPerSecond() == motion.rate_hz
    assert stage.GetEndTimeCode() == motion.num_frames - 1
    prims = [prim for prim in stage.Traverse() if prim.IsA(UsdSkel.Animation)]
    assert [prim.GetName() for prim in prims] == ["wave", "short"]
    assert motion.contacts is not None
    for point in motion.contacts.names:
        attribute = prims[0].GetAttribute(f"contact:{point}")
        found = [bool(attribute.Get(float(f))) for f in range(motion.num_frames)]
        assert found == motion.contacts.track(point).tolist()


@pytest.mark.parametrize("root", ["hips", "bone"])
def test_the_mesh_of_a_character_moves_as_our_skinning_says(tmp_path: Path, root: str) -> None:
    write_character(tmp_path / "someone.glb")
    character = load_character(tmp_path / "someone.glb")
    motion = waving(character.skeleton)
    marey.save(motion, tmp_path / "out.usda", onto=character, root=root)
    stage = Usd.Stage.Open(str(tmp_path / "out.usda"))
    assert UsdSkel.BakeSkinning(UsdSkel.Root(stage.GetDefaultPrim()))
    mesh = next(UsdGeom.Mesh(prim) for prim in stage.Traverse() if prim.IsA(UsdGeom.Mesh))
    for frame in (0, 31, 59):
        points = np.array(mesh.GetPointsAttr().Get(float(frame)))
        np.testing.assert_allclose(points, pose_vertices(character, motion, [frame])[0], atol=2e-5)


def test_the_same_motion_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.usda", "b.usda"):
        marey.save(waving(), tmp_path / name)
    assert (tmp_path / "a.usda").read_bytes() == (tmp_path / "b.usda").read_bytes()


@pytest.mark.timing
def test_a_long_take_of_many_joints_is_written_in_two_seconds(tmp_path: Path) -> None:
    count = 65
    chain = Skeleton(
        tuple(f"j{j}" for j in range(count)), np.arange(-1, count - 1), np.tile([0.0, 0.02, 0.0], (count, 1))
    )
    motion = waving(chain, frames=10_000)
    start = time.process_time()
    marey.save(motion, tmp_path / "out.usda")
    assert time.process_time() - start < 2.0


def test_contacts_and_names_come_back(tmp_path: Path) -> None:
    motion = waving(replace(HUMAN, names=tuple(f"rig:{name}" for name in HUMAN.names)), rate_hz=30000 / 1001)
    assert motion.contacts is not None
    odd = Contacts(tuple(f"{name} (1)" for name in motion.contacts.names), motion.contacts.active)
    marey.save([motion, replace(motion, contacts=odd, name="odd")], tmp_path / "out.usda")
    for clip, asked in ((motion.contacts, 0), (odd, "odd")):
        again = marey.load(tmp_path / "out.usda", clip=asked)
        assert again.skeleton.names == motion.skeleton.names
        assert again.contacts is not None and again.contacts.names == clip.names
        np.testing.assert_array_equal(again.contacts.active, clip.active)

"""The captured clips: all of them load, come back as they were, and agree between formats and with another reader."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from marey.io import load, save
from marey.io.bvh.frames import read_frames
from marey.io.bvh.hierarchy import read_tree
from marey.io.bvh.reader import read_bvh
from marey.io.text import read_text
from marey.motion import Motion

pytestmark = pytest.mark.mocap

LOWER = {"root": "Hips", "lowerback": "LowerBack", "upperback": "Spine", "thorax": "Spine1"}
UPPER = {"lowerneck": "Neck", "upperneck": "Neck1", "head": "Head"}
for side, name in (("l", "Left"), ("r", "Right")):
    LOWER |= {f"{side}hipjoint": f"{side.upper()}HipJoint", f"{side}femur": f"{name}UpLeg",
              f"{side}tibia": f"{name}Leg", f"{side}foot": f"{name}Foot", f"{side}toes": f"{name}ToeBase"}  # fmt: skip
    UPPER |= {f"{side}clavicle": f"{name}Shoulder", f"{side}humerus": f"{name}Arm", f"{side}radius": f"{name}ForeArm",
              f"{side}wrist": f"{name}Hand"}  # fmt: skip
WITHOUT_ROOT = {"07_12": 1, "09_10": 4, "104_01": 55}  # clips whose first frames were not captured


def table(path: Path) -> np.ndarray:
    text = read_text(path)
    tree, at = read_tree(text)
    return read_frames(text, at, tree.layout).channels


def test_all_bvh_files_load_and_every_cut_is_reported(mocap):
    files = sorted((mocap / "cmu-bvh").glob("*.bvh"))
    assert len(files) == 339
    for path in files:
        motion = read_bvh(path)
        source = motion.source
        assert motion.skeleton.num_joints == 31 and motion.rate_hz == 120.0
        assert source is not None and source.unit == "cmu" and source.dropped is not None
        assert len(source.dropped) == 1 + WITHOUT_ROOT.get(path.stem, 0)
        height = motion.joint_positions()[..., 1].max()
        assert 0.9 < height < 4.0, path.name


@pytest.mark.parametrize("stem", sorted(WITHOUT_ROOT))
def test_frames_that_were_not_captured_are_warned_of(mocap, stem):
    warnings = read_bvh(mocap / "cmu-bvh" / f"{stem}.bvh").load_report.warnings
    assert f"for {WITHOUT_ROOT[stem]} frame" in warnings[0]


@pytest.mark.parametrize("stem", ["02_01", "05_16", "07_12", "104_01", "118_32", "13_33", "85_12", "90_11"])
def test_a_clip_comes_back_channel_by_channel(mocap, tmp_path, stem):
    path = mocap / "cmu-bvh" / f"{stem}.bvh"
    save(load(path), tmp_path / "again.bvh")
    before, after = table(path), table(tmp_path / "again.bvh")
    assert before.shape == after.shape
    np.testing.assert_array_equal(after, before)
    assert read_bvh(tmp_path / "again.bvh").num_frames == read_bvh(path).num_frames


@pytest.mark.parametrize("stem", ["02_01", "90_11"])
def test_a_clip_without_its_channels_comes_back_by_position(mocap, tmp_path, stem):
    motion = load(mocap / "cmu-bvh" / f"{stem}.bvh")
    save(replace(motion, source=None), tmp_path / "again.bvh")
    np.testing.assert_allclose(load(tmp_path / "again.bvh").joint_positions(), motion.joint_positions(), atol=1e-8)


def distance_mm(a: Motion, b: Motion, names: dict[str, str]) -> float:
    in_a = [a.skeleton.index(name) for name in names]
    in_b = [b.skeleton.index(name) for name in names.values()]
    apart = a.joint_positions()[:, in_a] - b.joint_positions()[:, in_b]
    return 1e3 * float(np.linalg.norm(apart, axis=-1).max())


def with_thorax(bvh: Motion, amc: Motion) -> Motion:
    """Put back the thorax bone that the conversion to BVH has lost."""
    offsets = bvh.skeleton.offsets.copy()
    for name in ("Neck", "LeftShoulder", "RightShoulder"):
        offsets[bvh.skeleton.index(name)] = amc.skeleton.offsets[amc.skeleton.index("lowerneck")]
    return replace(bvh, skeleton=replace(bvh.skeleton, offsets=offsets))


def test_amc_and_bvh_of_one_trial_agree_frame_by_frame(mocap):
    files = sorted((mocap / "cmu-asfamc").rglob("*.amc"))
    assert len(files) == 12
    for path in files:
        amc = load(path)
        trial = re.match(r"\d+_\d+", path.stem)
        assert trial is not None
        bvh = load(mocap / "cmu-bvh" / f"{trial[0]}.bvh")
        assert len(amc) == len(bvh) and len(amc.skeleton.limits) == 28
        assert distance_mm(amc, bvh, LOWER) < 0.01
        assert distance_mm(amc, with_thorax(bvh, amc), UPPER) < 0.01


def test_flips_are_those_of_the_index(mocap):
    with (mocap / "index.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if "flips" in str(row.values())]
    assert rows
    for row in rows[::6]:
        noted = re.findall(r"(\w+) x(\d+)", next(str(v) for v in row.values() if "flips" in str(v)))
        name = next(str(v) for v in row.values() if str(v).endswith(".bvh"))
        warnings = read_bvh(mocap / "cmu-bvh" / Path(name).name).load_report.warnings
        found = dict(re.findall(r"(\w+) x(\d+)", " ".join(warnings)))
        assert {joint: found.get(joint) for joint, _ in noted} == dict(noted), name


def test_another_reader_finds_the_same_joints(mocap):
    pybvh = pytest.importorskip("pybvh", reason="the peer reader is in the 'bench' extra")
    path = mocap / "cmu-bvh" / "05_16.bvh"
    theirs = pybvh.read_bvh_file(path)
    np.testing.assert_allclose(
        np.rad2deg(np.asarray(theirs.joint_angles)).reshape(len(table(path)), -1), table(path)[:, 3:], atol=1e-10
    )
    np.testing.assert_allclose(np.asarray(theirs.root_pos), table(path)[:, :3], atol=1e-12)

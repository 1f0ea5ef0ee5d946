"""Behaviour files: what comes back, and a file for every way to break one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save

import marey.spacetime
from marey.base import FormatError, InputError, MissingFileError
from marey.spacetime import BehaviourSpace

FOLDER = Path(marey.spacetime.__file__).parent / "behaviours"


@pytest.fixture(scope="module")
def raw():
    return (FOLDER / "walk.safetensors").read_bytes()


@pytest.fixture(scope="module")
def walk():
    return BehaviourSpace.load(FOLDER / "walk.safetensors")


def parts(raw):
    size = int.from_bytes(raw[:8], "little")
    return load(raw), json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["marey"])


def written(path, tensors, described):
    path.write_bytes(save(tensors, metadata={"marey": json.dumps(described)}))
    return path


def test_everything_in_a_file_comes_back(walk, tmp_path):
    file = tmp_path / "again.safetensors"
    named = replace(walk, name="größer", report=("a remark",))
    named.save(file)
    again = BehaviourSpace.load(file)
    assert (again.name, again.report, again.trials) == ("größer", ("a remark",), walk.trials)
    for name in ("columns", "mean", "basis", "variances", "lower", "upper"):
        assert np.array_equal(getattr(again, name), getattr(walk, name))
    assert again.tree.names == walk.tree.names
    assert np.array_equal(again.tree.inertias, walk.tree.inertias)
    assert set(again.poses) == set(walk.poses) and set(again.borders) == set(walk.borders)
    for name, pose in walk.poses.items():
        assert np.array_equal(again.poses[name].qd, pose.qd)
    assert (again.residual_variance, again.accel_scale) == (walk.residual_variance, walk.accel_scale)


def test_the_body_of_a_file_still_makes_motions(walk):
    q = np.tile(walk.pose("start").q, (4, 1))
    motion = walk.tree.to_motion(q, 60.0)
    assert walk.tree.from_motion(motion) == pytest.approx(q, abs=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(raw, tmp_path, share):
    bad = tmp_path / "short.safetensors"
    bad.write_bytes(raw[: int(share * len(raw))])
    with pytest.raises(FormatError, match=r"short\.safetensors"):
        BehaviourSpace.load(bad)


@pytest.mark.parametrize("name", ["tree.parents", "space.basis", "skeleton.offsets", "pose.start.q"])
def test_a_file_without_one_of_its_arrays_is_refused(raw, tmp_path, name):
    tensors, described = parts(raw)
    del tensors[name]
    with pytest.raises(FormatError, match="damaged"):
        BehaviourSpace.load(written(tmp_path / "bad.safetensors", tensors, described))


@pytest.mark.parametrize("name", ["format", "version", "coordinates", "joint_dofs", "residual_variance", "poses"])
def test_a_file_without_one_of_its_words_is_refused(raw, tmp_path, name):
    tensors, described = parts(raw)
    del described[name]
    with pytest.raises(FormatError, match=r"damaged|not a behaviour"):
        BehaviourSpace.load(written(tmp_path / "bad.safetensors", tensors, described))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "marey-walk"}, "marey-walk"),
        ({"version": 99}, "Upgrade"),
        ({"residual_variance": -1.0}, "positive"),
        ({"poses": ["nowhere"]}, "nowhere"),
        ({"coordinates": ["one"]}, "damaged"),
        ({"joint_dofs": 3}, "damaged"),
        ({"trials": 5}, "damaged"),
    ],
)
def test_a_file_that_says_nonsense_is_refused(raw, tmp_path, change, words):
    tensors, described = parts(raw)
    with pytest.raises(FormatError, match=words):
        BehaviourSpace.load(written(tmp_path / "bad.safetensors", tensors, described | change))


@pytest.mark.parametrize("name", ["space.mean", "space.basis", "space.variances", "space.lower"])
def test_numbers_that_are_none_are_refused(raw, tmp_path, name):
    tensors, described = parts(raw)
    tensors[name] = np.full_like(tensors[name], np.nan)
    with pytest.raises(FormatError):
        BehaviourSpace.load(written(tmp_path / "bad.safetensors", tensors, described))


def test_arrays_of_the_wrong_size_are_refused(raw, tmp_path):
    tensors, described = parts(raw)
    tensors["space.mean"] = tensors["space.mean"][:-1].copy()
    with pytest.raises(FormatError):
        BehaviourSpace.load(written(tmp_path / "bad.safetensors", tensors, described))
    tensors, described = parts(raw)
    tensors["space.upper"] = tensors["space.upper"][:-1].copy()
    with pytest.raises(FormatError):
        BehaviourSpace.load(written(tmp_path / "bad.safetensors", tensors, described))


def test_columns_outside_the_body_are_refused(raw, tmp_path):
    tensors, described = parts(raw)
    tensors["space.columns"] = tensors["space.columns"] + 1000
    with pytest.raises(FormatError):
        BehaviourSpace.load(written(tmp_path / "bad.safetensors", tensors, described))


def test_poses_of_another_body_are_refused(raw, tmp_path):
    tensors, described = parts(raw)
    tensors["pose.start.q"] = tensors["pose.start.q"][:-2].copy()
    with pytest.raises(FormatError):
        BehaviourSpace.load(written(tmp_path / "bad.safetensors", tensors, described))


def test_a_header_that_lies_about_its_size_is_refused(raw, tmp_path):
    bad = tmp_path / "bad.safetensors"
    for size in (0, 1, 1 << 62):
        bad.write_bytes(size.to_bytes(8, "little") + raw[8:])
        with pytest.raises(FormatError, match="not a readable"):
            BehaviourSpace.load(bad)


def test_other_safetensors_files_are_refused(tmp_path):
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(save({"x": np.zeros(3)}))
    with pytest.raises(FormatError, match="not a behaviour"):
        BehaviourSpace.load(bad)


def test_folders_and_other_names_are_refused(walk, tmp_path):
    with pytest.raises(MissingFileError):
        BehaviourSpace.load(tmp_path)
    with pytest.raises(InputError, match="safetensors"):
        walk.save(tmp_path / "walk.json")

"""Behaviours: what principal components must give, files, and which clips they come from (A38, A39)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import subspace_angles

import marey.spacetime
from marey.base import FormatError, InputError, MissingFileError, UnknownNameError
from marey.io import load
from marey.motion import place
from marey.spacetime import BehaviourSpace
from marey.spacetime.reduced.behaviour import compute_principal_components

FOLDER = Path(marey.spacetime.__file__).parent / "behaviours"


@pytest.fixture(scope="module")
def jump():
    return BehaviourSpace.load(FOLDER / "jump.safetensors")


def clip(mocap, trial):
    return load(mocap / "cmu-bvh" / f"{trial}.bvh")


def test_a38_what_is_left_out_is_the_sum_of_the_discarded_variances():
    rows = np.random.default_rng(0).normal(size=(200, 12)) @ np.random.default_rng(1).normal(size=(12, 12))
    mean, basis, variances = compute_principal_components(rows)
    for k in (1, 4, 9):
        off = (rows - mean) - (rows - mean) @ basis[:, :k] @ basis[:, :k].T
        error = (off**2).sum() / len(rows)
        assert error == pytest.approx(variances[k:].sum() * (len(rows) - 1) / len(rows), rel=1e-9)


def test_components_are_orthonormal_and_ordered():
    rows = np.random.default_rng(0).normal(size=(50, 8))
    _, basis, variances = compute_principal_components(rows)
    assert basis.T @ basis == pytest.approx(np.eye(8), abs=1e-12)
    assert (np.diff(variances) <= 0.0).all()


@pytest.mark.mocap
def test_a38_own_clip_beats_others_of_the_kind_beat_one_beat_another_behaviour(mocap):
    trials = [clip(mocap, t) for t in ("118_10", "118_01", "118_05", "118_07", "118_12", "118_20")]
    target, others = trials[0], trials[1:]

    jumps = BehaviourSpace.fit(others, dimension=7, window="flight")
    q = _coordinates(target)
    own = BehaviourSpace.fit([target], dimension=7, window="flight")
    one = BehaviourSpace.fit(others[:1], dimension=7, window="flight")
    runs = BehaviourSpace.fit([clip(mocap, t) for t in ("35_17", "35_18", "35_19")], dimension=7)
    errors = [float(space.residuals(q)[100:400].mean()) for space in (own, jumps, one, runs)]
    assert errors == sorted(errors)
    assert errors[3] > 10.0 * errors[1]


def _coordinates(motion):
    from marey.dynamics import Body, JointTree

    body = Body.from_motion(motion)
    return JointTree.from_body(body, fingers=False).from_motion(body.motion(motion))


@pytest.mark.mocap
def test_a39_where_a_clip_stands_and_faces_does_not_matter(mocap):
    motions = [clip(mocap, t) for t in ("118_10", "118_01")]
    turned = [place(m, (3.0, -2.0), 1.1) for m in motions]
    spaces = [BehaviourSpace.fit(ms, dimension=7, window="flight") for ms in (motions, turned)]
    assert subspace_angles(spaces[0].basis, spaces[1].basis).max() < 1e-6
    assert spaces[0].mean == pytest.approx(spaces[1].mean, abs=1e-9)


def test_shipped_behaviours_have_seven_to_ten_coordinates_and_name_their_trials():
    for file in FOLDER.glob("*.safetensors"):
        space = BehaviourSpace.load(file)
        used = space.with_energy()
        assert 7 <= used.dimension <= 10
        assert used.explained >= 0.9
        assert len(space.trials) >= 2
        assert {"start", "end"} <= set(space.poses)
        assert file.stat().st_size < 60_000


def test_encoding_undoes_decoding(jump):
    a = np.random.default_rng(0).normal(size=(5, jump.dimension))
    q = np.zeros((5, jump.tree.num_dofs))
    q[:, jump.columns] = jump.decode(a)
    assert jump.encode(q) == pytest.approx(a, abs=1e-12)
    assert jump.residuals(q) == pytest.approx(0.0, abs=1e-20)
    assert jump.distance(q) == pytest.approx((a**2).sum(axis=1), rel=1e-9)


def test_fewer_coordinates_leave_more_variance_outside(jump):
    shorter = jump.truncate(5)
    assert shorter.dimension == 5
    assert shorter.residual_variance > jump.residual_variance
    assert shorter.explained < jump.explained
    total = [s.variances.sum() + s.residual_variance * (len(s.columns) - s.dimension) for s in (jump, shorter)]
    assert total[0] == pytest.approx(total[1], rel=1e-9)


def test_a_file_gives_the_behaviour_back_bit_for_bit(jump, tmp_path):
    jump.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (FOLDER / "jump.safetensors").read_bytes()


def test_files_that_are_none_are_refused_by_name(jump, tmp_path):
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(b"not a behaviour")
    with pytest.raises(FormatError, match=r"bad\.safetensors"):
        BehaviourSpace.load(bad)
    whole = (FOLDER / "jump.safetensors").read_bytes()
    bad.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError):
        BehaviourSpace.load(bad)
    with pytest.raises(MissingFileError):
        BehaviourSpace.load(tmp_path / "missing.safetensors")
    with pytest.raises(InputError, match="safetensors"):
        jump.save(tmp_path / "wrong.npz")


def test_empty_and_impossible_behaviours_are_refused(jump):
    with pytest.raises(InputError, match="no clips"):
        BehaviourSpace.fit([])
    with pytest.raises(InputError, match="positive"):
        replace(jump, residual_variance=0.0)
    with pytest.raises(UnknownNameError, match="start"):
        jump.pose("strat")
    with pytest.raises(InputError, match="dimension"):
        jump.truncate(99)


def test_usual_poses_of_a_jump_bend_the_knees(jump):
    knee = jump.tree.index("LeftLeg")
    for event in ("left_lift", "left_land"):
        assert 0.2 < jump.borders[event].mean[knee] < 1.2

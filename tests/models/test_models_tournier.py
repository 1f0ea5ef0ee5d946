"""Tournier 2011, acceptance checks 12 to 22: the mean and principal geodesics."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest

from marey import SO3, Motion, load
from marey.base import ConvergenceError
from marey.lie import frechet_mean, geodesic_distance, robust_mean
from marey.models import PCA, PGA, find_far_samples, joint_error, load_model
from marey.models.pga import fit_exact
from marey.models.projection import LINEAR_TANGENT, pose_errors
from marey.models.samples import pose_mass_matrix
from marey.models.selection import reconstruct


def modes_for(model, *shares):
    sums = np.cumsum(model.explained)
    return tuple(int(np.argmax(sums >= share)) + 1 for share in shares)


def residual(model, motion, projection):
    x = model.encode(motion, projection=projection)
    return pose_errors(model.arrays(), model.metric, motion.rotations.wxyz, x)


def test_tournier_12_the_mean_is_stationary_and_equivariant(clip):
    rng = np.random.default_rng(1)
    left, right = SO3.random(rng, clip.skeleton.num_joints), SO3.random(rng, clip.skeleton.num_joints)
    mean = frechet_mean(clip.rotations)
    assert np.abs((mean.inverse() @ clip.rotations).log().mean(axis=0)).max() < 1e-10
    assert geodesic_distance(frechet_mean(left @ clip.rotations @ right), left @ mean @ right).max() < 1e-10
    pairs = rng.normal(0.0, 0.4, (20, 3))
    centre = SO3.random(rng)
    symmetric = centre @ SO3.exp(np.concatenate([pairs, -pairs]))
    assert geodesic_distance(frechet_mean(symmetric), centre) < 1e-10


@pytest.mark.mocap
@pytest.mark.parametrize("name", ["02_01", "09_06", "17_10", "49_06", "85_12"])
def test_tournier_13_the_mean_settles_within_thirty_iterations(name, captured):
    frechet_mean(captured(name).rotations[:, 1:], max_iterations=30)


def test_tournier_13_samples_outside_the_ball_are_masked_and_named(clip):
    """A wrist that flips in three frames: the mean is that of the others, and the report names joint and frames."""
    wxyz = np.array(clip.rotations.wxyz)
    mean = frechet_mean(clip.rotations[:, 5])
    wxyz[10:13, 5] = (mean @ SO3.exp([3.1, 0.0, 0.0])).wxyz
    flipped = replace(clip, rotations=SO3(wxyz))
    found = robust_mean(flipped.rotations[:, 1:])
    others = np.delete(np.arange(clip.num_frames), [10, 11, 12])
    assert np.flatnonzero(found.is_far.any(axis=1)).tolist() == [10, 11, 12]
    assert geodesic_distance(found.mean[4], frechet_mean(clip.rotations[others, 5])) < 1e-9
    (far,) = find_far_samples(flipped)
    assert (far.joint, far.frames.tolist()) == (clip.skeleton.names[5], [10, 11, 12])
    assert not find_far_samples(clip)


def test_tournier_13_a_joint_without_a_mean_is_named(clip, monkeypatch):
    wxyz = np.array(clip.rotations.wxyz)
    angles = 2.0 * np.pi * np.arange(len(wxyz)) / len(wxyz)
    wxyz[:, 5] = SO3.exp(angles[:, None] * [0.0, 0.0, 1.0]).wxyz

    def fails(rotations):
        raise ConvergenceError("Fréchet mean did not settle", rotations)

    monkeypatch.setattr("marey.models.samples.robust_mean", fails)
    with pytest.raises(ConvergenceError, match=r"'joint5' \(1[78]\d degrees\)"):
        PGA().fit(replace(clip, rotations=SO3(wxyz)))


def test_tournier_14_geodesics_do_not_depend_on_the_joint_frames_and_euler_angles_do(clip):
    turns = SO3.random(np.random.default_rng(2), clip.skeleton.num_joints)
    turned = replace(clip, rotations=turns @ clip.rotations)
    one, two = PGA(explained=1.0).fit(clip), PGA(explained=1.0).fit(turned)
    np.testing.assert_allclose(two.deviations[:20], one.deviations[:20], rtol=1e-9)
    flat = [(PCA(explained=1.0, space="euler").fit(motion).deviations ** 2).sum() for motion in (clip, turned)]
    assert abs(flat[1] / flat[0] - 1.0) > 0.1


@pytest.mark.parametrize("kind", ["first"])
def test_tournier_15_data_of_three_geodesics_are_explained_by_three(clip, kind):
    rng = np.random.default_rng(5)
    joints = clip.skeleton.num_joints
    directions = np.linalg.qr(rng.normal(size=(3 * joints - 3, 3)))[0].reshape(joints - 1, 3, 3)
    x = rng.normal(0.0, 0.4, (40, 3)) * [1.0, 0.7, 0.4]
    xi = np.einsum("jck,fk->fjc", directions, np.concatenate([x, -x]))
    base = SO3.random(rng, joints)
    rotations = SO3.concatenate([SO3.identity(80, 1), base[1:] @ SO3.exp(xi)], axis=1)
    made = Motion(clip.skeleton, 60.0, np.zeros((80, 3)), rotations)
    model = PGA(n_components=3, kind=kind).fit(made)
    assert model.explained.sum() >= 1.0 - 1e-10
    assert joint_error(model, made).max_cm < 1e-8


# 85_01 and 91_62 of the specification are not among the captured clips here; the others are, with its own figures.
MODES = {
    "02_01": ((0, 6), (0, 12)),
    "09_06": ((0, 5), (0, 10)),
    "49_06": ((0, 7), (0, 13)),
    "85_12": ((20, 26), (28, 34)),
}


@pytest.mark.mocap
@pytest.mark.parametrize("name", MODES)
def test_tournier_16_modes_for_95_and_99_percent(name, captured):
    found = modes_for(PGA(explained=1.0).fit(captured(name)), 0.95, 0.99)
    for modes, (low, high) in zip(found, MODES[name], strict=True):
        assert low <= modes <= high


def plain_walks(mocap):
    with (mocap / "index.csv").open() as file:
        told = {row["file"]: row["description"] for row in csv.DictReader(file)}
    for line in (mocap / "README.md").read_text().splitlines():
        if found := re.match(r"\| (\d+_\d+\.bvh) \| ([^|]+?) \| \d+ \| \d+ \|", line):
            told[found[1]] = found[2]
    return sorted(f for f, text in told.items() if text.lower() in ("walk", "slow walk", "walk forward", "walkforward"))


@pytest.mark.mocap
@pytest.mark.slow
def test_tournier_17_plain_walks_need_ten_modes_for_95_percent_and_twenty_for_99(mocap):
    """On all plain walks there are; that they are a hundred is a check of its own, below."""
    walks = plain_walks(mocap)
    found = np.array([modes_for(PGA(explained=1.0).fit(load(mocap / "cmu-bvh" / w)), 0.95, 0.99) for w in walks])
    assert (found[:, 0] <= 10).mean() >= 0.9
    assert (found[:, 1] <= 20).mean() >= 0.9


@pytest.mark.mocap
@pytest.mark.xfail(strict=True, reason="68 of 339 captured clips are described as a plain walk")
def test_tournier_17_a_hundred_plain_walks_are_at_hand(mocap):
    assert len(plain_walks(mocap)) >= 100


ALL_FRAMES = [pytest.param("17_10", 1, marks=pytest.mark.slow), pytest.param("85_12", 1, marks=pytest.mark.slow)]


@pytest.mark.mocap
@pytest.mark.parametrize(
    ("name", "step"), [("02_01", 1), ("09_06", 1), ("49_06", 1), ("17_10", 12), ("85_12", 20), *ALL_FRAMES]
)
@pytest.mark.parametrize("k", [6, 12])
def test_tournier_18_the_exact_projection_is_never_worse_and_hardly_better(name, step, k, captured):
    motion = captured(name, step)
    model = PGA(n_components=k).fit(motion)
    linear, exact = residual(model, motion, "linear"), residual(model, motion, "exact")
    assert (exact <= linear + 1e-12).all()
    assert linear.mean() / exact.mean() - 1.0 <= 0.005


@pytest.mark.parametrize("kind", ["first", "second"])
@pytest.mark.parametrize("weights", [None, "lever"])
def test_tournier_18_exact_geodesics_never_leave_more_than_linearised_ones(kind, weights, clip):
    plain = PGA(n_components=4, kind=kind, weights=weights)
    linearised, exact = plain.fit(clip), replace(plain, method="exact").fit(clip)
    best = residual(linearised, clip, "exact").mean()
    assert residual(exact, clip, "exact").mean() < best < residual(linearised, clip, "linear").mean()
    flat = (np.sqrt(exact.metric)[:, None, None] * exact.basis).reshape(-1, 4)
    np.testing.assert_allclose(flat.T @ flat, np.eye(4), atol=1e-9)


@pytest.mark.mocap
@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("02_01", 4),
        ("49_06", 4),
        ("85_12", 40),
        pytest.param(
            "17_10",
            1,
            marks=[
                pytest.mark.slow,
                pytest.mark.xfail(strict=True, reason="projected anew, exact leaves 0.6387 rad², linearised 0.6328"),
            ],
        ),
        ALL_FRAMES[1],
    ],
)
def test_tournier_18_exact_geodesics_of_captured_clips_leave_no_more(name, step, captured):
    motion = captured(name, step)
    linearised, exact = PGA(n_components=6).fit(motion), PGA(n_components=6, method="exact").fit(motion)
    assert residual(exact, motion, "exact").mean() <= residual(linearised, motion, "exact").mean()
    assert geodesic_distance(exact.centre, linearised.centre).max() == 0.0


def test_the_mean_of_exact_geodesics_may_move_and_leaves_less(clip):
    """(mu, V, lambda) of section 8.1: no worse than directions alone, and near the intrinsic mean."""
    exact = PGA(n_components=2, method="exact").fit(clip)
    moved = PGA(n_components=2, method="exact-mean").fit(clip)
    assert residual(moved, clip, "exact").mean() < residual(exact, clip, "exact").mean()
    assert geodesic_distance(moved.centre, exact.centre).max() < 0.5


def test_deflation_explains_what_is_left_and_its_directions_may_lean(clip):
    """(8.8): the residual falls with each geodesic, and no first geodesic leaves less than that of deflation."""
    models = [PGA(n_components=k, method="deflation").fit(clip) for k in (1, 2, 3)]
    left = [residual(model, clip, "exact").mean() for model in models]
    assert left[0] > left[1] > left[2]
    assert left[0] <= residual(PGA(n_components=1).fit(clip), clip, "exact").mean()
    assert models[2].kind == "second"
    np.testing.assert_allclose(models[2].basis[..., :2], models[1].basis, atol=1e-12)
    flat = models[2].basis.reshape(-1, 3)
    np.testing.assert_allclose(np.diag(flat.T @ flat), 1.0, atol=1e-9)


def test_the_greatest_projected_variance_is_no_less_than_the_linearised(clip):
    """(8.5) with exact projections, along the first direction: no small turn of it projects more variance."""
    plain, best = (PGA(n_components=1, method=m).fit(clip) for m in ("linearised", "variance"))
    variance = [(m.encode(clip, projection="exact") ** 2).mean() for m in (plain, best)]
    assert variance[1] >= variance[0]
    rng = np.random.default_rng(0)
    for _ in range(5):
        turn = rng.normal(size=best.basis.shape)
        turn[0] = 0.0
        for h in (-1e-3, 1e-3):
            basis = best.basis + h * turn
            tried = replace(best, basis=basis / np.linalg.norm(basis))
            assert (tried.encode(clip, projection="exact") ** 2).mean() <= variance[1] * (1.0 + 1e-7)


def test_kinetic_geodesics_are_orthonormal_in_the_energy_at_the_mean(clip, tmp_path):
    model = PGA(n_components=4, weights="kinetic").fit(clip)
    flat = model.basis[1:].reshape(-1, 4)
    np.testing.assert_allclose(flat.T @ pose_mass_matrix(model.mean) @ flat, np.eye(4), atol=1e-9)
    x = np.random.default_rng(1).normal(0.0, 0.2, (6, 4)) * model.deviations
    made = model.decode(x)
    np.testing.assert_allclose(model.encode(made), x, atol=1e-9)
    model.save(tmp_path / "kinetic.safetensors")
    np.testing.assert_array_equal(load_model(tmp_path / "kinetic.safetensors").encode(made), model.encode(made))
    # Products of matrices of another width differ in their last bits
    np.testing.assert_allclose(model.truncate(2).encode(made), model.encode(made)[:, :2], rtol=1e-13)


def test_exact_geodesics_are_stationary(clip):
    """No small turn of the directions lowers the error: the gradient along random tangents vanishes."""
    model = PGA(n_components=2, method="exact").fit(clip)
    arrays, wxyz, ones = model.arrays(), clip.rotations.wxyz, model.metric
    best = fit_exact(arrays, ones, wxyz)
    rng = np.random.default_rng(0)
    for _ in range(3):
        turn = rng.normal(size=arrays.basis.shape)
        turn[0] = 0.0
        errors = []
        for h in (-1e-4, 1e-4):
            flat = (arrays.basis + h * turn).reshape(-1, 2)
            moved = replace(arrays, basis=np.linalg.qr(flat)[0].reshape(arrays.basis.shape))
            errors.append(float(pose_errors(moved, ones, wxyz, _refit(moved, ones, wxyz)).mean()))
        slope = (errors[1] - errors[0]) / 2e-4
        assert abs(slope) < 2e-4 * best.residual
        assert min(errors) > best.residual - 1e-9


def _refit(arrays, metric, wxyz):
    from marey.models.projection import project_poses

    return project_poses(arrays, metric, wxyz, is_exact=True)


@pytest.mark.parametrize("kind", ["first", "second"])
@pytest.mark.parametrize("k", [1, 7, 20])
def test_tournier_19_jacobians_equal_central_differences(kind, k, clip):
    model = PGA(n_components=k, kind=kind).fit(clip)
    k = model.num_components
    x = np.random.default_rng(k).uniform(-3.0, 3.0, (4, k)) * model.deviations
    columns, h = model.jacobian(x), 1e-5
    for i, e in enumerate(np.eye(k)):
        twin = (model.rotations(x - h * e).inverse() @ model.rotations(x + h * e)).log() / (2.0 * h)
        np.testing.assert_allclose(columns[..., i], twin, rtol=0.0, atol=1e-7)


def test_tournier_19_both_kinds_agree_along_one_geodesic(clip):
    first, second = (PGA(n_components=5, kind=kind).fit(clip) for kind in ("first", "second"))
    for i in range(5):
        x = np.linspace(-3.0, 3.0, 7)[:, None] * first.deviations * np.eye(5)[i]
        assert geodesic_distance(first.rotations(x), second.rotations(x)).max() < 1e-12
    x = 2.0 * first.deviations
    assert geodesic_distance(first.rotations(x), second.rotations(x)).max() > 1e-3


@pytest.mark.timing
@pytest.mark.parametrize("kind", [LINEAR_TANGENT, 1])
def test_tournier_20_the_jacobian_costs_in_proportion_to_modes_and_joints(kind):
    from marey.models.projection import batch_jacobians

    rng = np.random.default_rng(0)

    def job(joints, k):
        mean, basis = SO3.random(rng, joints).wxyz, rng.normal(0.0, 0.1, (joints, 3, k))
        x = rng.normal(size=(20, k))
        return lambda: batch_jacobians(kind, mean, basis, x)

    jobs = [job(30, 10), job(30, 20), job(60, 10)]
    best = [np.inf] * 3
    for _ in range(200):  # the quickest of many, taken in turn: other work on the machine slows all three alike
        for i, run in enumerate(jobs):
            start = perf_counter()
            run()
            best[i] = min(best[i], perf_counter() - start)
    assert best[1] <= 2.5 * best[0]
    assert best[2] <= 2.5 * best[0]


def distortion(model, motion):
    true = motion.joint_positions()
    made = reconstruct(model, motion).joint_positions()
    return 100.0 * np.linalg.norm(made - true) / np.linalg.norm(true - true.mean(axis=0))


# 91_62 is not among the captured clips here; 91_57, a walk of the same subject, stands in for it.
@pytest.mark.mocap
@pytest.mark.parametrize(("name", "k"), [("85_12", 15), ("17_10", 12), ("91_57", 10)])
def test_tournier_22_the_lever_metric_distorts_positions_less(name, k, captured):
    motion = captured(name)
    plain, weighted = (distortion(PGA(k, weights=w).fit(motion), motion) for w in (None, "lever"))
    assert weighted <= 0.7 * plain


@pytest.mark.mocap
def test_distortions_of_the_projection_are_those_of_the_specification(captured):
    """Figures of §3.7 in percent: plain and with lever arms, a tenth of a point of rounding apart."""
    printed = {("09_06", 6): (1.28, 0.72), ("17_10", 12): (10.4, 6.5), ("85_12", 15): (11.6, 6.7)}
    for (name, k), values in printed.items():
        motion = captured(name)
        found = [distortion(PGA(k, weights=w).fit(motion), motion) for w in (None, "lever")]
        np.testing.assert_allclose(found, values, atol=0.06)

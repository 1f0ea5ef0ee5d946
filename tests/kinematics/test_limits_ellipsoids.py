"""Learnt ellipsoids: the checks of Tournier's chapter on angular limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marey.base import EPS, FloatArray, InputError
from marey.io import load
from marey.kinematics import EllipsoidLimits
from marey.kinematics.limits.ellipsoids import FLOOR_RAD, fit_ellipsoid, fit_enclosing_ellipsoid
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion
from marey.skeleton import HUMAN


def cloud(seed: int, count: int = 300) -> SO3:
    """Rotations along a smooth path, about a radian wide, around some centre."""
    rng, t = np.random.default_rng(seed), np.linspace(0.0, 12.0, count)
    a, b = rng.uniform(0.1, 0.5, (3, 3)), rng.uniform(0.3, 2.0, (3, 3))
    vectors = np.stack([np.sum(a[i] * np.sin(np.outer(t, b[i]) + 7.0 * b[i]), axis=1) for i in range(3)], axis=1)
    return SO3.random(rng) @ SO3.exp(vectors)


def levels(found: object, rotations: SO3) -> FloatArray:
    vectors = (found.centre.inverse() @ rotations).log()  # type: ignore[attr-defined]
    return np.einsum("ni,ij,nj->n", vectors, found.matrix, vectors)  # type: ignore[attr-defined]


def reference_volume(points: FloatArray, tolerance: float = 1e-4) -> float:
    """Half-axes' product of the smallest ellipsoid by plain Khachiyan steps, inflated to hold all points."""
    count, dimension = points.shape
    lifted, u = np.column_stack([points, np.ones(count)]), np.full(count, 1.0 / count)
    for _ in range(200_000):
        g = np.einsum("ni,ij,nj->n", lifted, np.linalg.inv(lifted.T * u @ lifted), lifted)
        j = int(np.argmax(g))
        if g[j] / (dimension + 1) - 1.0 < tolerance:
            break
        step = (g[j] - dimension - 1) / ((dimension + 1) * (g[j] - 1))
        u = (1.0 - step) * u
        u[j] += step
    centre = points.T @ u
    matrix = np.linalg.inv((points.T * u) @ points - np.outer(centre, centre)) / dimension
    away = points - centre
    return float(np.linalg.det(matrix / np.einsum("ni,ij,nj->n", away, matrix, away).max()) ** -0.5)


@pytest.mark.parametrize("seed", range(4))
def test_tournier_55_samples_are_inside_some_touch_and_the_volume_is_least(seed: int) -> None:
    rotations = cloud(seed)
    level = levels(fit_ellipsoid([rotations]), rotations)
    assert level.max() <= 1.0 + 1e-6
    assert np.count_nonzero(level > 1.0 - 1e-3) >= 3
    points = np.random.default_rng(seed).normal(size=(40 + 100 * seed, 3)) * [1.0, 0.4, 0.1]
    _, matrix = fit_enclosing_ellipsoid(points)
    assert np.linalg.det(matrix) ** -0.5 <= 1.01 * reference_volume(points)


@pytest.mark.parametrize("wobble", [0.0, 1e-7, 1e-3])
@pytest.mark.parametrize("dimension", [2, 3])
def test_points_of_one_ellipsoid_give_it_back(dimension: int, wobble: float) -> None:
    """Hundreds of points that all touch share the weights in many ways; the ellipsoid is the same."""
    rng = np.random.default_rng(dimension)
    unit = rng.normal(size=(240, dimension))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True) * (1.0 + wobble * rng.uniform(size=(240, 1)))
    shape, middle = np.diag([1.3, 0.4, 0.2][:dimension]), np.array([0.3, -0.2, 0.1])[:dimension]
    centre, matrix = fit_enclosing_ellipsoid(unit @ shape + middle)
    tolerance = max(10.0 * wobble, 1e-9)
    np.testing.assert_allclose(centre, middle, rtol=0, atol=tolerance)
    np.testing.assert_allclose(shape @ matrix @ shape, np.eye(dimension), rtol=0, atol=tolerance)


@pytest.mark.parametrize("seed", range(4))
def test_tournier_56_the_centre_settles_and_follows_a_rotation(seed: int) -> None:
    rotations, turn = cloud(seed), SO3.random(np.random.default_rng(seed + 50))
    found, moved = fit_ellipsoid([rotations]), fit_ellipsoid([turn @ rotations])
    assert found.is_converged and found.iterations <= 30
    assert geodesic_distance(turn @ found.centre, moved.centre) < 1e-8
    np.testing.assert_allclose(moved.matrix, found.matrix, rtol=0, atol=1e-8 * np.abs(found.matrix).max())


@pytest.mark.mocap
@pytest.mark.parametrize("name", ["85_12", "49_06", "17_10"])
def test_tournier_56_every_joint_of_the_thesis_clips_settles(mocap: Path, name: str) -> None:
    """91_62 and 85_01 are not in the collection; these three are."""
    clip = load(mocap / "cmu-bvh" / f"{name}.bvh")
    for j in range(1, clip.skeleton.num_joints):
        found = fit_ellipsoid([clip.rotations[:, j]])
        assert (found.is_converged and found.iterations <= 30) or not found.is_local


@pytest.mark.mocap
def test_tournier_57_one_flip_changes_nothing_with_rejection_and_much_without(mocap: Path) -> None:
    """The right femur of a walk (07_01; 91_62 is not in the collection), one frame turned by 2.5 rad."""
    clip = load(mocap / "cmu-bvh" / "07_01.bvh")
    femur = clip.rotations[:, clip.skeleton.index("RightUpLeg")]
    wxyz = femur.wxyz.copy()
    wxyz[100] = (femur[100] @ SO3.exp([0.0, 2.5, 0.0])).wxyz
    clean, flipped = fit_ellipsoid([femur]), SO3(wxyz)
    kept = fit_ellipsoid([flipped])
    np.testing.assert_allclose(kept.semi_axes, clean.semi_axes, rtol=0.02)
    spoilt = fit_ellipsoid([flipped], reject_outliers=False)
    assert spoilt.semi_axes.max() > 2.0 * clean.semi_axes.max()


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_tournier_58_joints_without_all_freedoms_stay_finite(rank: int) -> None:
    t = np.linspace(0.0, 6.0, 200)
    vectors = np.stack([np.sin(t), np.cos(2.0 * t), 0.0 * t], axis=1) * (np.arange(3) < rank) * 0.6
    rotations = SO3.exp([0.4, -0.2, 0.9]) @ SO3.exp(vectors)
    found = fit_ellipsoid([rotations])
    assert found.rank == rank and np.isfinite(found.matrix).all()
    assert found.semi_axes.min() >= FLOOR_RAD - 1e-12
    assert levels(found, rotations).max() <= 1.0 + 1e-6


def wander() -> Motion:
    rotations = SO3.stack([cloud(j, 120) if j % 5 else SO3.identity(120) for j in range(HUMAN.num_joints)], axis=1)
    return Motion(HUMAN, 60.0, np.zeros((120, 3)), rotations)


def test_tournier_58_replaying_the_training_clip_violates_nothing() -> None:
    motion = wander()
    assert EllipsoidLimits.from_clips(motion).violations(motion.rotations).max() < 1e-6


def test_tournier_59_the_gradient_of_the_level_equals_central_differences() -> None:
    """The part on a simulated ragdoll needs dynamics, which is another floor's test."""
    limits = EllipsoidLimits.from_clips(wander())
    rotations = SO3.random(np.random.default_rng(1), 40, HUMAN.num_joints)
    near = limits.centres @ SO3.exp(np.random.default_rng(2).uniform(-1.0, 1.0, (40, HUMAN.num_joints, 3)))
    h = EPS ** (1 / 3)
    for batch in (near, near.slerp(rotations, 0.2)):
        rows = limits.levels(batch)[1]
        for i, e in enumerate(np.eye(3)):
            ahead, behind = (limits.levels(batch @ SO3.exp(s * h * e))[0] for s in (1.0, -1.0))
            scale = np.maximum(1.0, np.abs(rows).max(axis=-1))
            assert (np.abs(rows[..., i] - (ahead - behind) / (2.0 * h)) / scale).max() < 1e-7


def test_rotations_all_around_are_reported_as_not_local() -> None:
    around = SO3.exp([[0.0, 0.0, a] for a in np.linspace(-3.1, 3.1, 100)])
    assert not fit_ellipsoid([around], reject_outliers=False).is_local


def test_a_half_axis_of_nothing_is_refused() -> None:
    joints = HUMAN.num_joints
    with pytest.raises(InputError, match="not positive"):
        EllipsoidLimits(HUMAN, SO3.identity(joints), SO3.identity(joints), np.zeros((joints, 3)))

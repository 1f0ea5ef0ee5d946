"""Clips to fit on, and the battery that every pose model passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from marey import SO3, Motion, Skeleton, load
from marey.base import InputError
from marey.lie import geodesic_distance
from marey.models import PoseModel, load_model

Battery = Callable[[PoseModel, Motion], None]


def chains(names: int = 12) -> Skeleton:
    """Three chains from one root: fixture S1 of Tournier's checks."""
    per_chain = names // 3
    parents = [-1] + [0 if j % per_chain == 0 else j for j in range(3 * per_chain)]
    offsets = np.random.default_rng(3).normal(0.0, 0.3, (len(parents), 3))
    return Skeleton(tuple(f"joint{j}" for j in range(len(parents))), np.array(parents), offsets, name="chains")


def wandering(skeleton: Skeleton, frames: int, *, radius: float = 1.0, seed: int = 0) -> Motion:
    """Smooth random poses whose joints turn by at most ``radius`` [rad]."""
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0.0, 2.0 * np.pi, (6, skeleton.num_joints, 3))
    speed = rng.uniform(0.5, 3.0, (6, 1, 1))
    t = np.linspace(0.0, 4.0, frames)[:, None, None, None]
    gains = rng.normal(size=(6, skeleton.num_joints, 3)) * 0.5 ** np.arange(6)[:, None, None]
    v = (gains * np.sin(speed * t + phase)).sum(axis=1)
    v += 0.02 * rng.normal(size=v.shape)  # as capture does: every direction moves a little
    v *= radius / max(1.0, np.linalg.norm(v, axis=-1).max())
    rest = SO3.random(rng, skeleton.num_joints)
    return Motion(skeleton, 120.0, rng.normal(size=(frames, 3)), rest @ SO3.exp(v))


@pytest.fixture(scope="session")
def clip() -> Motion:
    return wandering(chains(), 150)


@pytest.fixture(scope="session")
def captured(mocap: Path) -> Callable[..., Motion]:
    """Load a captured clip by name, every ``step``-th frame."""
    kept: dict[str, Motion] = {}

    def get(name: str, step: int = 1) -> Motion:
        if name not in kept:
            kept[name] = load(mocap / "cmu-bvh" / f"{name}.bvh")
        return kept[name][::step]

    return get


@pytest.fixture(scope="session")
def check_pose_model(tmp_path_factory: pytest.TempPathFactory) -> Battery:
    """The battery: laws that hold for every pose model, given a clip of its joints."""

    def check(model: PoseModel, motion: Motion) -> None:
        k = model.num_components
        x = np.random.default_rng(7).normal(size=(5, k)) * model.deviations
        _check_spectrum(model)
        _check_rotations(model, x)
        _check_jacobian(model, x)
        _check_coordinates(model, x, motion)
        _check_refusals(model, motion)
        _check_file(model, motion, tmp_path_factory.mktemp("model") / "model.safetensors")

    return check


def _check_spectrum(model: PoseModel) -> None:
    assert model.explained.shape == model.deviations.shape == (model.num_components,)
    assert (model.explained >= 0.0).all() and model.explained.sum() <= 1.0 + 1e-9
    assert (model.deviations > 0.0).all()
    assert not model.explained.flags.writeable


def _check_rotations(model: PoseModel, x: np.ndarray) -> None:
    from marey.models.projection import model_rotations

    joints = model.skeleton.num_joints
    made = model.rotations(x)
    assert made.shape == (5, joints)
    assert model.rotations(x[0]).shape == (joints,)
    assert geodesic_distance(made[:, 0], SO3.identity()).max() == 0.0
    assert geodesic_distance(model.mean.rotations[1:], model.rotations(0.0 * x[0])[1:]).max() < 1e-14
    arrays, single = model.arrays(), np.empty((joints, 4))
    model_rotations(arrays.kind, arrays.mean_wxyz, arrays.basis, x[1], single)
    np.testing.assert_array_equal(SO3(single).wxyz, made[1].wxyz)
    for count in {0, min(1, x.shape[1]), x.shape[1]}:
        padded = np.where(np.arange(x.shape[1]) < count, x, 0.0)
        gap = geodesic_distance(model.truncate(count).rotations(x[:, :count]), model.rotations(padded))
        assert gap.max() < 1e-14


def _check_jacobian(model: PoseModel, x: np.ndarray) -> None:
    columns = model.jacobian(x)
    assert columns.shape == (5, model.skeleton.num_joints, 3, x.shape[1])
    assert not columns[:, 0].any()
    h = 1e-5
    for i, e in enumerate(np.eye(x.shape[1])):
        twin = (model.rotations(x - h * e).inverse() @ model.rotations(x + h * e)).log() / (2.0 * h)
        np.testing.assert_allclose(columns[..., i], twin, rtol=0.0, atol=1e-7)


def _check_coordinates(model: PoseModel, x: np.ndarray, motion: Motion) -> None:
    small = 0.5 * x
    if not getattr(model, "covers_root", False):
        np.testing.assert_allclose(model.encode(model.decode(small)), small, rtol=0.0, atol=1e-8)
    encoded = model.encode(motion)
    assert encoded.shape == (motion.num_frames, model.num_components)
    placed = model.decode(encoded, root_positions=motion.root_positions, root_rotations=motion.rotations[:, 0])
    np.testing.assert_array_equal(placed.root_positions, motion.root_positions)
    assert geodesic_distance(placed.rotations[:, 0], motion.rotations[:, 0]).max() < 1e-15
    assert model.decode(encoded[:2], rate_hz=30.0).rate_hz == 30.0
    assert model.decode(encoded[:2]).rate_hz == model.rate_hz


def _check_refusals(model: PoseModel, motion: Motion) -> None:
    with pytest.raises(InputError, match="expected"):
        model.rotations(np.zeros(model.num_components + 1))
    if model.num_components:
        with pytest.raises(InputError, match="finite"):
            model.jacobian(np.full(model.num_components, np.nan))
    with pytest.raises(InputError, match="root_positions"):
        model.decode(np.zeros((3, model.num_components)), root_positions=np.zeros((2, 3)))
    with pytest.raises(InputError, match="components of a model"):
        model.truncate(model.num_components + 1)
    other = chains(15)
    alien = Motion(other, 30.0, np.zeros((2, 3)), SO3.identity(2, other.num_joints))
    with pytest.raises(InputError, match="another skeleton: 16 joints"):
        model.encode(alien)


def _check_file(model: PoseModel, motion: Motion, path: Path) -> None:
    model.save(path)
    again = load_model(path)
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.encode(motion), model.encode(motion))
    np.testing.assert_array_equal(again.explained, model.explained)
    assert again.skeleton.names == model.skeleton.names
    assert again.rate_hz == model.rate_hz
    first = path.read_bytes()
    again.save(path)
    assert path.read_bytes() == first

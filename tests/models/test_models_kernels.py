"""Compiled pieces against their twins, closed forms, and files of past versions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.charts import from_chart
from oracles.jacobians import right_jacobian_inverse

from marey import SO3, Motion, Skeleton
from marey.lie import geodesic_distance, right_jacobian
from marey.lie.quaternions import stumpff
from marey.models import PGA, load_model
from marey.models.projection import EULER_LINEAR, GEODESIC_PRODUCT, LINEAR_TANGENT, LOG_LINEAR, ModelArrays
from marey.models.samples import gather_samples, lever_arms
from marey.models.selection import joint_distances

GOLDEN = Path(__file__).parent / "golden"

vectors = st.tuples(*(st.floats(-2.5, 2.5) for _ in range(3)))
sizes = st.floats(-9.0, 0.0).map(lambda e: 10.0**e)


@given(v=vectors, a=vectors, size=sizes)
def test_jacobians_of_the_kernels_are_those_of_the_library(v, a, size):
    from marey.lie.kernels import right_jacobian_inverse_times, right_jacobian_times

    xi, tangent = size * np.array(v), np.array(a)
    np.testing.assert_allclose(right_jacobian_times(*xi, *tangent), right_jacobian(xi) @ tangent, atol=1e-14)
    np.testing.assert_allclose(
        right_jacobian_inverse_times(tuple(xi), tuple(tangent)), right_jacobian_inverse(xi) @ tangent, atol=1e-13
    )
    undone = right_jacobian_inverse_times(tuple(xi), tuple(tangent))
    np.testing.assert_allclose(undone, right_jacobian_inverse(xi) @ tangent, atol=1e-13)


@given(theta=st.floats(-12.0, 0.79).map(lambda e: 10.0**e))
def test_the_third_stumpff_function_keeps_its_digits_across_the_switch(theta):
    from marey.lie.kernels import third_stumpff

    assert third_stumpff(theta * theta) == pytest.approx(float(stumpff(3, theta)), rel=2e-15)


@given(v=vectors)
def test_logarithm_undoes_exponential_and_takes_the_short_way(v):
    from marey.lie.kernels import exponential, logarithm

    q = np.array(exponential(*v))
    np.testing.assert_allclose(q, SO3.exp(v).wxyz * np.copysign(1.0, q @ SO3.exp(v).wxyz), atol=1e-15)
    np.testing.assert_allclose(logarithm(*q), SO3(q).log(), atol=1e-13)
    np.testing.assert_allclose(logarithm(*-q), logarithm(*q), atol=1e-13)


def formula(arrays: ModelArrays, x: np.ndarray) -> SO3:
    """Local rotations by the definition of each kind, in plain numpy."""
    parts = arrays.basis * x
    if arrays.kind == GEODESIC_PRODUCT:
        made = SO3(arrays.mean_wxyz)
        for i in range(len(x)):
            made = made @ SO3.exp(parts[..., i])
        return made
    xi = parts.sum(axis=-1)
    if arrays.kind == LINEAR_TANGENT:
        return SO3(arrays.mean_wxyz) @ SO3.exp(xi)
    return from_chart("euler" if arrays.kind == EULER_LINEAR else "exponential", arrays.mean_wxyz[:, 1:] + xi)


@pytest.mark.parametrize("kind", [LINEAR_TANGENT, GEODESIC_PRODUCT, LOG_LINEAR, EULER_LINEAR])
def test_compiled_rotations_follow_the_definition_of_each_kind(kind):
    from marey.models.projection import model_rotations

    rng = np.random.default_rng(kind)
    mean = SO3.random(rng, 7).wxyz
    if kind in (LOG_LINEAR, EULER_LINEAR):
        mean = np.concatenate([np.zeros((7, 1)), rng.uniform(-3.0, 3.0, (7, 3))], axis=1)
    arrays = ModelArrays(kind, mean, rng.normal(0.0, 0.5, (7, 3, 4)))
    x, out = rng.normal(size=4), np.empty((7, 4))
    model_rotations(kind, arrays.mean_wxyz, arrays.basis, x, out)
    assert geodesic_distance(SO3(out), formula(arrays, x)).max() < 1e-14


def one_joint(rotations: SO3) -> Motion:
    skeleton = Skeleton(("root", "joint"), np.array([-1, 0]), np.array([[0.0, 0, 0], [0, 1, 0]]))
    both = SO3.stack([SO3.identity(len(rotations)), rotations], axis=1)
    return Motion(skeleton, 60.0, np.zeros((len(rotations), 3)), both)


def test_the_exact_projection_of_one_joint_is_the_closed_form():
    r"""On SO(3), the nearest point of a geodesic is at :math:`2\,\mathrm{atan2}(u \cdot v, w)`: the twist angle."""
    rng = np.random.default_rng(8)
    hinge = SO3.exp(np.concatenate([rng.normal(0.0, 0.6, (40, 1)), rng.normal(0.0, 0.2, (40, 2))], axis=1))
    motion = one_joint(hinge)
    model = PGA(n_components=1).fit(motion)
    axis = model.basis[1, :, 0]
    expected = (model.centre[1].inverse() @ hinge).twist_angle(axis)
    np.testing.assert_allclose(model.encode(motion, projection="exact")[:, 0], expected, atol=1e-9)
    assert np.abs(model.encode(motion)[:, 0] - expected).max() > 1e-4


def test_a_hinge_has_one_geodesic_about_its_axis():
    axis = np.array([1.0, 2.0, -2.0]) / 3.0
    angles = np.linspace(-1.0, 1.0, 21)
    model = PGA(explained=0.999).fit(one_joint(SO3.exp(angles[:, None] * axis)))
    assert model.num_components == 1
    np.testing.assert_allclose(np.abs(model.basis[1, :, 0] @ axis), 1.0, atol=1e-12)
    assert model.deviations[0] == pytest.approx(angles.std(), rel=1e-12)


def test_modes_are_those_of_a_plain_singular_value_decomposition(clip):
    model = PGA(n_components=6).fit(clip)
    logs = (model.centre[1:].inverse() @ clip.rotations[:, 1:]).log().reshape(clip.num_frames, -1)
    _, s, vt = np.linalg.svd(logs, full_matrices=False)
    np.testing.assert_allclose(model.deviations, s[:6] / np.sqrt(clip.num_frames), rtol=1e-10)
    cosines = np.abs(np.einsum("dk,kd->k", model.basis[1:].reshape(-1, 6), vt[:6]))
    np.testing.assert_allclose(cosines, 1.0, atol=1e-10)
    flat = model.basis[1:].reshape(-1, 6)
    assert (flat[np.argmax(np.abs(flat), axis=0), np.arange(6)] > 0.0).all()


def test_a_lever_arm_is_the_distance_to_what_a_joint_carries():
    parents = np.array([-1, 0, 1, 2])
    offsets = np.array([[0, 0, 0], [0, 1, 0], [0, 2, 0], [0, 3, 0]], dtype=float)
    tips = np.array([[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 4, 0]], dtype=float)
    body = Skeleton(("a", "b", "c", "d"), parents, offsets, tips)
    straight = Motion(body, 30.0, np.zeros((2, 3)), SO3.identity(2, 4))
    expected = np.sqrt(2 / 3 * np.array([1 + 9 + 36 + 100, 4 + 25 + 81, 9 + 49, 16]))
    np.testing.assert_allclose(lever_arms(gather_samples(straight)), expected)
    assert not joint_distances(PGA(weights="lever").fit(straight), straight).any()


@pytest.mark.parametrize("name", ["pose_model_v1_geodesic", "pose_model_v1_linear"])
def test_files_of_past_versions_are_still_read(name):
    model = load_model(GOLDEN / f"{name}.safetensors")
    expected = np.load(GOLDEN / f"{name}.npy")
    assert geodesic_distance(model.rotations([0.5, -0.25]), SO3(expected)).max() < 1e-14
    assert model.skeleton.names == ("root", "joint")

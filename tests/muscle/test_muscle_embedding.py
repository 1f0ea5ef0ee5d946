"""Points bound to cells: barycentric, bilinear, trilinear, and outside the body."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.base import InputError, MareyWarning
from marey.muscle import ActivationSpline, Muscles, TetMesh
from marey.muscle.elastic.models import Lattice
from marey.muscle.muscles.spline import Embedding

MESHES = {
    "tetrahedra": TetMesh.box((0.3, 0.2, 0.25), (4, 3, 3)),
    "cubes": Lattice.from_mask(np.ones((4, 3, 3), dtype=bool), 0.08),
    "squares": Lattice.from_mask(np.ones((5, 3), dtype=bool), 0.08),
}


def inside(mesh, rng: np.random.Generator, count: int):
    """Random points in random cells."""
    corners = mesh.nodes[mesh.cells[rng.integers(len(mesh.cells), size=count)]]
    weights = rng.dirichlet(np.ones(corners.shape[1]), size=count)
    return np.einsum("nk,nkc->nc", weights, corners)


@pytest.mark.parametrize("kind", MESHES)
def test_engell_46_embedding_reproduces_points_and_affine_motions(kind: str):
    mesh, rng = MESHES[kind], np.random.default_rng(1)
    p = inside(mesh, rng, 40)
    bound = Embedding.from_points(p, mesh.nodes, mesh.cells)
    np.testing.assert_allclose(bound(mesh.nodes), p, atol=1e-12)
    np.testing.assert_allclose(bound.weights.sum(axis=1), 1.0, atol=1e-12)
    assert bound.weights.min() > -1e-9
    A, b = rng.normal(size=(3, 3)), rng.normal(size=3)
    np.testing.assert_allclose(bound(mesh.nodes @ A.T + b), p @ A.T + b, atol=1e-12)
    np.testing.assert_allclose(bound.matrix() @ mesh.nodes, p, atol=1e-12)


@given(seed=st.integers(0, 10_000))
def test_points_lie_in_the_cell_that_is_named(seed: int):
    mesh = MESHES["tetrahedra"]
    p = inside(mesh, np.random.default_rng(seed), 3)
    bound = Embedding.from_points(p, mesh.nodes, mesh.cells)
    corners = mesh.nodes[mesh.cells[bound.cells]]
    assert (p >= corners.min(axis=1) - 1e-12).all() and (p <= corners.max(axis=1) + 1e-12).all()


def test_a_point_on_a_shared_face_takes_the_lowest_cell():
    mesh = MESHES["tetrahedra"]
    shared = mesh.nodes[mesh.cells[5]][:3].mean(axis=0)
    holders = [t for t in range(len(mesh.cells)) if holds(mesh, t, shared)]
    assert Embedding.from_points([shared], mesh.nodes, mesh.cells).cells[0] == min(holders)


def holds(mesh: TetMesh, t: int, p) -> bool:
    corners = mesh.nodes[mesh.cells[t]]
    local = np.linalg.solve((corners[1:] - corners[0]).T, p - corners[0])
    return min(local.min(), 1.0 - local.sum()) >= -1e-10


def test_a_sheared_cube_is_inverted_by_newton():
    nodes = Lattice.from_mask(np.ones((1, 1, 1), dtype=bool), 1.0).nodes.copy()
    cells = Lattice.from_mask(np.ones((1, 1, 1), dtype=bool), 1.0).cells
    nodes[np.all(nodes == 1.0, axis=1)] += 0.3  # no affine map
    p = np.array([[0.6, 0.7, 0.55]])
    np.testing.assert_allclose(Embedding.from_points(p, nodes, cells)(nodes), p, atol=1e-12)


def test_triangles_of_a_flat_body():
    nodes = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=float)
    bound = Embedding.from_points([(0.7, 0.2, 0), (0.2, 0.7, 0)], nodes, np.array([[0, 1, 2], [0, 2, 3]]))
    assert bound.cells.tolist() == [0, 1]
    np.testing.assert_allclose(bound(nodes), [(0.7, 0.2, 0), (0.2, 0.7, 0)], atol=1e-12)


@pytest.mark.parametrize("kind", MESHES)
def test_a_point_a_little_outside_is_carried_with_a_warning(kind: str):
    mesh = MESHES[kind]
    p = mesh.nodes.max(axis=0) + np.array([0.01, 0.0, 0.0])
    with pytest.warns(MareyWarning, match=r"points \[0\] lie"):
        bound = Embedding.from_points([p], mesh.nodes, mesh.cells)
    np.testing.assert_allclose(bound(mesh.nodes)[0], p, atol=1e-12)
    assert bound.weights.min() < 0.0 and bound.outside[0] > 0.0


@pytest.mark.parametrize("kind", MESHES)
def test_a_point_far_outside_is_refused_by_number(kind: str):
    mesh = MESHES[kind]
    good, bad = mesh.nodes.mean(axis=0), mesh.nodes.max(axis=0) + np.array([0.5, 0.0, 0.0])
    with pytest.raises(InputError, match="point 1 lies"):
        Embedding.from_points([good, bad], mesh.nodes, mesh.cells)


def test_a_spline_inside_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Muscles(MESHES["tetrahedra"], [ActivationSpline([(0.02, 0.1, 0.12), (0.28, 0.1, 0.12)])])

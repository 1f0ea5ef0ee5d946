"""Forces, energies and stiffness of cells: patch tests, differences, and another library's matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.elastic import add_cell_forces, add_exact_stiffness

from marey.lie import SO3
from marey.muscle import SoftBody, TetMesh

YOUNG = 4e4
MATERIALS = ("corotational", "neo-hookean")


def small_body(material: str, poisson: float | None = None) -> SoftBody:
    mesh = TetMesh.box((0.2, 0.1, 0.1), (3, 2, 2))
    return SoftBody.from_mesh(mesh, material=material, young_pa=YOUNG, poisson=poisson, gravity=(0, 0, 0))


def shaken(body: SoftBody, size: float, seed: int = 0) -> np.ndarray:
    nodes = body.mesh.nodes
    return nodes + size * np.random.default_rng(seed).standard_normal(nodes.shape)


@pytest.mark.parametrize("material", MATERIALS)
def test_engell_38_patch_test_an_affine_motion_leaves_no_force_inside(material):
    body = small_body(material)
    nodes = body.mesh.nodes
    affine = np.eye(3) + 0.01 * np.random.default_rng(1).standard_normal((3, 3))
    inside = np.setdiff1d(np.arange(len(nodes)), body.mesh.surface)
    assert len(inside)
    forces = body.forces(nodes @ affine.T + 0.3)
    assert np.abs(forces[inside]).max() < 1e-10 * np.abs(forces).max()


def test_engell_38_patch_test_a_static_solve_reproduces_an_affine_displacement():
    mesh = TetMesh.box((0.2, 0.1, 0.1), (3, 2, 2))
    inside = np.setdiff1d(np.arange(len(mesh.nodes)), mesh.surface)
    rng = np.random.default_rng(2)
    nodes = mesh.nodes.copy()
    nodes[inside] += 0.004 * rng.standard_normal((len(inside), 3))  # no symmetry helps
    body = SoftBody.from_mesh((nodes, mesh.cells), material="corotational", gravity=(0, 0, 0))
    affine = 1e-7 * rng.standard_normal((3, 3))
    wanted = nodes @ affine.T
    matrix = body.tangent().toarray()
    free = np.zeros(len(nodes), dtype=bool)
    free[inside] = True
    free = np.repeat(free, 3)
    found = np.linalg.solve(matrix[np.ix_(free, free)], -matrix[np.ix_(free, ~free)] @ wanted.ravel()[~free])
    assert np.abs(found - wanted.ravel()[free]).max() < 1e-10 * np.abs(wanted).max()


@pytest.mark.parametrize("material", MATERIALS)
@settings(max_examples=15)
@given(turn=st.tuples(*[st.floats(-3, 3)] * 3))
def test_engell_38_a_rigid_motion_makes_no_force(material, turn):
    body = small_body(material)
    for rotation in (SO3.exp([0.0, 0.0, np.pi / 2]), SO3.exp(turn)):
        moved = body.mesh.nodes @ rotation.matrix().T + (0.5, -1.0, 2.0)
        assert np.abs(body.forces(moved)).max() < 1e-8 * YOUNG * 0.2**2
        assert abs(body.elastic.energy(moved)) < 1e-10 * YOUNG * 0.2**3


def test_stiffness_at_rest_is_that_of_another_library():
    from skfem import Basis, ElementTetP1, ElementVector, MeshTet
    from skfem.models.elasticity import lame_parameters, linear_elasticity

    mesh = TetMesh.cylinder(0.05, 0.1, rings=2, layers=3)
    basis = Basis(MeshTet(mesh.nodes.T.copy(), mesh.cells.T.astype(np.int64)), ElementVector(ElementTetP1()))
    theirs = linear_elasticity(*lame_parameters(YOUNG, 0.3)).assemble(basis).toarray()
    for material in MATERIALS:
        body = SoftBody.from_mesh(mesh, material=material, young_pa=YOUNG, poisson=0.3)
        for exact in (True, False):
            assert np.abs(body.tangent(exact=exact).toarray() - theirs).max() < 1e-12 * np.abs(theirs).max()


@pytest.mark.parametrize("material", MATERIALS)
@pytest.mark.parametrize("size", [1e-3, 1e-2, 4e-2])
def test_forces_are_the_slope_of_the_energy_and_the_tangent_that_of_forces(material, size):
    body = small_body(material)
    x, way, h = shaken(body, size), np.random.default_rng(3).standard_normal(body.mesh.nodes.shape), 1e-7
    slope = (body.elastic.energy(x + h * way) - body.elastic.energy(x - h * way)) / (2 * h)
    assert slope == pytest.approx(-np.sum(body.forces(x) * way), rel=1e-6)
    change = (body.forces(x - h * way) - body.forces(x + h * way)) / (2 * h)
    assert np.abs((body.tangent(x) @ way.ravel()).reshape(x.shape) - change).max() < 1e-6 * np.abs(change).max()


@pytest.mark.parametrize("material", MATERIALS)
@pytest.mark.parametrize("size", [0.0, 1e-2, 5e-2])
def test_the_stiffness_of_a_step_never_pushes_and_has_the_forces_of_the_exact_one(material, size):
    body = small_body(material)
    x = shaken(body, size, seed=4)  # at five centimetres most cells are inside out
    values = np.linalg.eigvalsh(body.tangent(x, exact=False).toarray())
    assert values.min() > -1e-12 * values.max()
    forces = body.elastic.assemble(x, exact=False)
    assert np.abs(forces - body.forces(x)).max() < 1e-12 * YOUNG * 0.1**2


@pytest.mark.parametrize("material", MATERIALS)
@pytest.mark.parametrize("size", [1e-3, 1e-2, 4e-2])
def test_eight_cells_at_once_give_what_one_at_a_time_gives(material, size):
    body = small_body(material)
    elastic, x = body.elastic, shaken(body, size, seed=5)  # at four centimetres many cells are inside out
    plain = np.zeros_like(x)
    forces = body.forces(x)  # leaves the pressures of nodes at x
    add_cell_forces(elastic.number, elastic.arrays, x, elastic.pressures, plain)
    assert np.abs(forces - plain).max() < 1e-10 * np.abs(plain).max()
    sums = np.zeros_like(x), np.zeros_like(elastic.blocks.values), np.zeros_like(elastic.rises)
    assembled = elastic.assemble(x, exact=True)
    add_exact_stiffness(elastic.number, elastic.arrays, x, elastic.pressures, *sums)
    assert np.abs(assembled - plain).max() < 1e-10 * np.abs(plain).max()
    assert np.abs(elastic.blocks.values - sums[1]).max() < 1e-9 * np.abs(sums[1]).max()
    if len(elastic.rises):
        assert np.abs(elastic.rises - sums[2]).max() < 1e-12 * np.abs(sums[2]).max()


def test_flat_and_vanished_cells_give_numbers():
    for material in MATERIALS:
        body = small_body(material)
        for squeeze in ((1.0, 0.0, 1.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0), (-1.0, 1.0, 1.0)):
            x = body.mesh.nodes * squeeze
            assert np.isfinite(body.forces(x)).all()
            assert np.isfinite(body.tangent(x, exact=False).toarray()).all()


def test_scaled_cells_are_stiffer_by_their_factor():
    mesh = TetMesh.box((0.2, 0.1, 0.1), (2, 1, 1))
    soft = SoftBody.from_mesh(mesh)
    hard = SoftBody.from_mesh(mesh, stiffness_scale=np.full(len(mesh.cells), 250.0))
    x = shaken(soft, 1e-3)
    assert np.allclose(hard.forces(x), 250 * soft.forces(x))

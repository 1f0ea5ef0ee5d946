"""Lattices: counts, moduli, derivatives, the explicit step and its limit."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.soft_steps import use_newton

from marey.base import InputError
from marey.muscle import SoftBody
from marey.muscle.elastic.models import Lattice

YOUNG = 4e4
STILL = (0.0, 0.0, 0.0)


def test_a_cube_has_edges_and_all_diagonals():
    cube = Lattice.from_mask(np.ones((1, 1, 1), bool), 0.1)
    assert cube.nodes.shape == (8, 3)
    lengths = np.linalg.norm(np.diff(cube.nodes[cube.springs], axis=1)[:, 0], axis=1) / 0.1
    assert sorted(np.round(lengths**2).astype(int).tolist()) == [1] * 12 + [2] * 12 + [3] * 4
    square = Lattice.from_mask(np.ones((1, 1), bool), 0.1)
    assert square.springs.shape == (6, 2)
    assert square.is_flat
    assert not square.nodes[:, 2].any()


def test_the_surface_of_cubes_encloses_them():
    lattice = Lattice.from_mask(np.ones((3, 2, 2), bool), 0.1)
    corners = lattice.nodes[lattice.surface]
    assert np.einsum("fi,fi->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6 == pytest.approx(0.012)


def stretched_modulus(lattice: Lattice, axis: int) -> float:
    """Young's modulus that a bar of springs shows, pulled along an axis by rigid ends that may narrow."""
    body = SoftBody.from_mesh(lattice, young_pa=YOUNG, gravity=STILL)
    nodes = lattice.nodes
    low, high = nodes[:, axis].min(), nodes[:, axis].max()
    matrix = body.tangent().toarray()
    ends = (np.abs(nodes[:, axis] - low) < 1e-9) | (np.abs(nodes[:, axis] - high) < 1e-9)
    held = np.zeros(nodes.shape, dtype=bool)
    held[ends, axis] = True
    wanted = np.where(held, 1e-6 * (nodes - low), 0.0).ravel()
    free = ~held.ravel()
    moved = wanted.copy()
    moved[free] = np.linalg.lstsq(matrix[np.ix_(free, free)], -matrix[free] @ wanted, rcond=1e-10)[0]
    force = (matrix @ moved).reshape(nodes.shape)[np.abs(nodes[:, axis] - high) < 1e-9, axis].sum()
    others = [i for i in range(3) if i != axis]
    section = np.prod([max(np.ptp(nodes[:, i]), lattice.spacing_m if lattice.is_flat else 0) for i in others])
    return force / (section * 1e-6)


@pytest.mark.parametrize("shape", [(8, 3, 3), (2, 6, 4), (10, 4), (1, 1, 1)])
@pytest.mark.parametrize("axis", [0, 1])
def test_springs_show_the_modulus_that_was_asked_for(shape, axis):
    lattice = Lattice.from_mask(np.ones(shape, bool), 0.02)
    assert stretched_modulus(lattice, axis) == pytest.approx(YOUNG, rel=1e-6)


@pytest.mark.parametrize("shape", [(4, 3), (3, 2, 2)])
def test_spring_forces_and_tangents_match_differences(shape):
    body = SoftBody.from_mesh(Lattice.from_mask(np.ones(shape, bool), 0.05))
    rng = np.random.default_rng(0)
    x = body.mesh.nodes + 0.01 * rng.standard_normal(body.mesh.nodes.shape)
    way, h = rng.standard_normal(x.shape), 1e-7
    slope = (body.elastic.energy(x + h * way) - body.elastic.energy(x - h * way)) / (2 * h)
    assert slope == pytest.approx(-np.sum(body.forces(x) * way), rel=1e-6)
    change = (body.forces(x - h * way) - body.forces(x + h * way)) / (2 * h)
    assert np.abs((body.tangent(x) @ way.ravel()).reshape(x.shape) - change).max() < 1e-6 * np.abs(change).max()
    assert np.linalg.eigvalsh(body.tangent(x, exact=False).toarray()).min() > -1e-9 * YOUNG


def test_bodies_in_the_plane_stay_in_it():
    lattice = Lattice.from_mask(np.ones((6, 2), bool), 0.05)
    body = SoftBody.from_mesh(lattice, pinned=np.flatnonzero(lattice.nodes[:, 0] == 0))
    for _ in range(30):
        body.step()
    assert not body.positions[:, 2].any()
    assert body.positions[:, 1].min() < -0.01


def test_explicit_and_implicit_steps_agree_where_both_are_short():
    lattice = Lattice.from_mask(np.ones((5, 2, 2), bool), 0.04)
    pins = np.flatnonzero(lattice.nodes[:, 0] == 0)
    found = []
    for integrator in ("explicit", "implicit", "newton"):
        named = "explicit" if integrator == "explicit" else "implicit"
        body = SoftBody.from_mesh(lattice, pinned=pins, integrator=named, damping=(0.0, 0.002), tolerance=1e-6)
        if integrator == "newton":
            use_newton(body)
        for _ in range(100):
            body.step(0.0005)
        found.append(body.positions)
    sag = np.abs(found[0] - lattice.nodes).max()
    assert sag > 0.004
    assert np.abs(found[1] - found[0]).max() < 0.03 * sag
    assert np.abs(found[2] - found[0]).max() < 0.03 * sag


def test_the_explicit_step_is_cut_below_its_limit_and_no_further_than_it_must():
    from marey.muscle.body.time_step import compute_stable_step

    lattice = Lattice.from_mask(np.ones((4, 2, 2), bool), 0.05)
    body = SoftBody.from_mesh(lattice, integrator="explicit", gravity=STILL)
    limit = compute_stable_step(body, body._stepper.implicit)
    weights = np.repeat(body.masses, 3) ** -0.5
    highest = np.linalg.eigvalsh(weights[:, None] * body.tangent().toarray() * weights).max()
    exact = 2 / np.sqrt(highest)
    assert 0.3 * exact < limit <= exact
    body.velocities[:] = 0.1 * np.random.default_rng(1).standard_normal(body.velocities.shape)
    energy = body.energy()
    for _ in range(300):
        report = body.step()
    assert report.substeps > 1
    assert body.energy() < 1.5 * energy  # it swings, and does not grow


def test_a_stiffer_cell_stiffens_its_springs():
    lattice = Lattice.from_mask(np.ones((2, 1, 1), bool), 0.1)
    soft = SoftBody.from_mesh(lattice)
    hard = SoftBody.from_mesh(lattice, stiffness_scale=[1.0, 9.0])
    ratio = hard.elastic.springs.stiffness / soft.elastic.springs.stiffness
    assert set(np.round(ratio, 9)) == {1.0, 5.0, 9.0}


def test_bad_lattices_are_told():
    with pytest.raises(InputError, match="mask is empty"):
        Lattice.from_mask(np.zeros((2, 2), bool), 0.1)
    with pytest.raises(InputError, match="truth values"):
        Lattice.from_mask(np.ones((2, 2)), 0.1)
    with pytest.raises(InputError, match="spacing_m"):
        Lattice.from_mask(np.ones((2, 2), bool), -0.1)
    with pytest.raises(InputError, match="stiffness_scale"):
        SoftBody.from_mesh(Lattice.from_mask(np.ones((2, 2), bool), 0.1), stiffness_scale=[1, 1, 1])

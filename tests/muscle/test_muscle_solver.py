"""The linear solve: against sparse factors, few iterations, exact derivatives of its parts."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.soft_steps import solve_direct, use_newton

from marey.base import InputError, UnknownNameError
from marey.muscle import ActivationSpline, Muscles, SoftBody, TetMesh
from marey.muscle.body import time_step
from marey.muscle.body.bones import Bone, Bones
from marey.muscle.body.linear_system import apply_system, contract_forces, expand_unknowns, invert_coarse_matrix
from marey.muscle.elastic.models import Lattice


def arm(**options: object) -> SoftBody:
    """A bent rod with a spline, a bone and a pinned end."""
    mesh = TetMesh.cylinder(0.03, 0.2, rings=2, layers=10)
    height = mesh.nodes[:, 1]
    line = np.array([[0.01, 0.02, 0.0], [0.012, 0.1, 0.0], [0.01, 0.18, 0.0]])
    bone = Bone("tip", (0, 0.14, 0), axis=(0, 0, 1), nodes=np.flatnonzero(height > 0.17), mass_kg=0.05)
    pinned = np.flatnonzero(height == 0)
    muscles = Muscles(mesh, [ActivationSpline(line)])
    return SoftBody.from_mesh(mesh, pinned=pinned, muscles=muscles, bones=Bones([bone]), gravity=(5, -9, 2), **options)


@pytest.mark.parametrize("material", ["neo-hookean", "corotational"])
def test_gradients_and_sparse_factors_give_the_same_step(material, monkeypatch):
    bodies = [arm(material=material), arm(material=material, tolerance=1e-9)]
    for _ in range(5):
        with monkeypatch.context() as patched:
            patched.setattr(
                time_step, "solve_conjugate_gradients", lambda s, right, drive, u, *_: solve_direct(s, right, u)
            )
            bodies[0].step(activations=[0.5])
        bodies[1].step(activations=[0.5])
    moved = np.abs(bodies[0].positions - bodies[0].mesh.nodes).max()
    assert moved > 0.003
    assert np.abs(bodies[0].positions - bodies[1].positions).max() < 1e-6 * moved


def test_the_default_tolerance_is_far_below_what_is_seen():
    bodies = [arm(tolerance=1e-9), arm()]
    for _ in range(30):
        for body in bodies:
            body.step(activations=[0.5])
    assert np.abs(bodies[0].positions - bodies[1].positions).max() < 2e-4 * 0.2


def test_regions_cut_the_iterations_of_a_long_body(monkeypatch):
    import marey.muscle.body.linear_system as coarse

    def iterations(per_region: int) -> int:
        monkeypatch.setattr(coarse, "NODES_PER_REGION", per_region)
        mesh = TetMesh.cylinder(0.02, 0.4, rings=2, layers=40)
        body = SoftBody.from_mesh(mesh, pinned=np.flatnonzero(mesh.nodes[:, 1] == 0), gravity=(9.82, 0, 0))
        return sum(body.step().iterations for _ in range(10))

    assert iterations(40) < 0.35 * iterations(10**6)


def test_the_matrix_of_a_step_is_symmetric_with_muscles_and_bones():
    body = arm()
    body.step(activations=[0.8])
    system = body._stepper.implicit.system
    size = 3 * (len(body.masses) + body.bones.num_rows)
    columns = []
    for k in range(size):
        unit, out = np.zeros(size), np.zeros((size // 3, 3))
        unit[k] = 1.0
        apply_system(system, unit.reshape(-1, 3), out)
        columns.append(out.ravel())
    free = np.repeat(np.concatenate([body.carriers == -1, np.zeros(body.bones.num_rows, bool)]), 3)
    free[3 * len(body.masses)] = True  # the rate of the hinge
    matrix = np.array(columns)[np.ix_(free, free)]
    assert np.abs(matrix - matrix.T).max() < 1e-12 * np.abs(matrix).max()
    assert np.linalg.eigvalsh(matrix).min() > 0


def test_contract_is_the_transpose_of_expand():
    body = arm()
    system, rng = body._stepper.implicit.system, np.random.default_rng(2)
    count = len(body.masses)
    u = rng.standard_normal((count + body.bones.num_rows, 3))
    u[:count][body.carriers != -1] = 0.0
    u[count:].ravel()[1:] = 0.0
    f, v, back = rng.standard_normal((count, 3)), np.zeros((count, 3)), np.zeros_like(u)
    expand_unknowns(system.bones, u, v)
    contract_forces(system.carriers, system.bones, f, back)
    assert np.sum(f * v) == pytest.approx(np.sum(u * back) + 0.0, rel=1e-12)


def test_coarse_inverse_is_an_inverse_and_leaves_out_what_vanishes():
    rng = np.random.default_rng(3)
    half = rng.standard_normal((40, 60))
    matrix = half @ half.T
    inverse = matrix.copy()
    invert_coarse_matrix(inverse)
    assert np.abs(inverse @ matrix - np.eye(40)).max() < 1e-10
    half[7] = half[3]
    singular = half @ half.T
    inverse = singular.copy()
    invert_coarse_matrix(inverse)
    assert np.isfinite(inverse).all()
    given = singular @ rng.standard_normal(40)
    assert np.abs(singular @ (inverse @ given) - given).max() < 1e-8 * np.abs(given).max()


def test_newton_solves_backward_euler():
    mesh = TetMesh.box((0.2, 0.05, 0.05), (6, 2, 2))
    pins = np.flatnonzero(mesh.nodes[:, 0] == 0)
    options = {"pinned": pins, "damping": (0.3, 0.003)}
    body = use_newton(SoftBody.from_mesh(mesh, **options))
    direct = use_newton(SoftBody.from_mesh(mesh, **options), direct=True)
    h = 1 / 60
    for _ in range(6):
        x, v = body.positions, body.velocities
        drag = body.tangent(x, exact=False)
        body.step(h)
        direct.step(h)
        new = body.velocities
        forces = body.forces() + body.masses[:, None] * (body.gravity - 0.3 * new)
        forces -= 0.003 * (drag @ new.ravel()).reshape(x.shape)
        missing = (body.masses[:, None] * (new - v) - h * forces)[body.carriers == -1]
        assert np.abs(missing).max() < 1e-7 * h * np.abs(body.masses[:, None] * body.gravity).max()
    assert np.abs(body.positions - direct.positions).max() < 1e-8


def test_schemes_say_what_they_cannot_do():
    mesh = TetMesh.box((0.1, 0.1, 0.1), (1, 1, 1))
    bones = Bones([Bone("b", (0, 0, 0), nodes=[0])])
    with pytest.raises(InputError, match="implicit"):
        SoftBody.from_mesh(mesh, bones=bones, integrator="explicit")
    with pytest.raises(UnknownNameError, match="integrator"):
        SoftBody.from_mesh(mesh, integrator="leapfrog")
    body = SoftBody.from_mesh(Lattice.from_mask(np.ones((1, 1, 1), bool), 1e-3), young_pa=1e12, integrator="explicit")
    with pytest.raises(InputError, match="sub-steps"):
        body.step(10.0)

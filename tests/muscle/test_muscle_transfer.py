"""From points of splines to nodes: averages, momentum, energy, and which operator keeps what."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.muscle_matrices import (
    compute_spring_energy,
    differentiate_by_alpha,
    make_damping_matrix,
    make_stiffness_matrix,
    measure_momentum_defect,
)
from scipy.spatial.transform import Rotation

from marey.base import ConvergenceError, InputError, UnknownNameError
from marey.muscle import ActivationSpline, Muscles, SoftBody, TetMesh
from marey.muscle.elastic.models import Lattice
from marey.muscle.muscles.setup import Regions
from marey.muscle.muscles.transfer import invert_by_rank, iterate_gradient, solve_gram_pcg

MESH = TetMesh.cylinder(0.05, 0.4, rings=3, layers=10)
LONG = ActivationSpline([(0.01, 0.02, 0.0), (0.02, 0.2, 0.01), (0.0, 0.37, 0.0)], name="long", samples=9)
SHORT = ActivationSpline([(-0.02, 0.05, 0.0), (-0.02, 0.22, 0.01)], name="short", samples=5)
ALL = ("conservative", "virtual_work", "transpose", "pinv", "gradient", "pcg")
BOTH = Muscles(MESH, [LONG, SHORT])


@pytest.fixture(scope="module")
def muscles() -> dict[str, Muscles]:
    """The same two overlapping splines by each operator."""
    return {name: Muscles(MESH, [LONG, SHORT], transfer=name) for name in ALL}


def shaken(rng: np.random.Generator, size_m: float = 0.004):
    """The body deformed at random and turned as a whole."""
    turn = Rotation.random(rng=rng).as_matrix()
    return (MESH.nodes + rng.normal(scale=size_m, size=MESH.nodes.shape)) @ turn.T + rng.normal(size=3)


@pytest.mark.parametrize("name", ALL)
def test_gather_is_the_transpose_of_scatter(muscles: dict[str, Muscles], name: str):
    rng = np.random.default_rng(2)
    x, m = shaken(rng), muscles[name]
    f, v = rng.normal(size=(14, 3)), rng.normal(size=MESH.nodes.shape)
    assert np.sum(m.velocities(v, x) * f) == pytest.approx(np.sum(m.spread(f, x) * v), rel=1e-10)


def test_engell_47_pseudo_inverse_meets_averages_with_the_least_forces(muscles: dict[str, Muscles]):
    rng = np.random.default_rng(3)
    one = Muscles(MESH, [LONG], transfer="pinv")
    A = averages(one)
    b = rng.normal(size=(9, 3))
    F = one.spread(b)
    assert np.linalg.norm(A @ F - b) < 1e-10 * np.linalg.norm(b)
    null = np.eye(A.shape[1]) - np.linalg.pinv(A.toarray()) @ A
    assert np.abs(null @ F).max() < 1e-10 * np.abs(F).max()
    np.testing.assert_allclose(F, np.linalg.lstsq(A.toarray(), b, rcond=None)[0], atol=1e-9 * np.abs(F).max())


def averages(m: Muscles):
    """The matrix A of Eq. 84."""
    a = m.arrays
    return Regions(a.starts, a.nodes, np.ones(len(a.nodes))).matrix(m.masses)


def test_engell_47_two_points_in_one_cell_are_handled():
    corners = MESH.nodes[MESH.cells[200]]
    ends = [np.array([0.4, 0.2, 0.2, 0.2]) @ corners, np.array([0.2, 0.4, 0.2, 0.2]) @ corners]
    close = ActivationSpline(np.array(ends), region="cell", samples=2)
    m = Muscles(MESH, [close], transfer="pinv")
    assert m.embedding.cells[0] == m.embedding.cells[1]
    f = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    F = m.spread(f)
    np.testing.assert_allclose(averages(m) @ F, f, atol=1e-10)
    assert np.isfinite(m.spread(np.array([[1.0, 0, 0], [-1.0, 0, 0]]))).all()


@given(seed=st.integers(0, 10_000))
def test_engell_48_conservative_transfer_keeps_momentum_of_unequal_overlapping_sets(seed: int):
    rng = np.random.default_rng(seed)
    force, torque = measure_momentum_defect(BOTH, rng.normal(size=(14, 3)), shaken(rng))
    assert force < 1e-12
    assert torque < 1e-12


def test_engell_48_transpose_keeps_force_and_pseudo_inverse_keeps_neither(muscles: dict[str, Muscles]):
    x = MESH.nodes
    for name in ("transpose", "virtual_work"):
        assert measure_momentum_defect(muscles[name], muscles[name].spline_forces(x, None, [1.0, 0.5]))[0] < 1e-12
    one = Muscles(MESH, [LONG], transfer="pinv")
    f = one.spline_forces(x, None, np.linspace(0.5, 1.2, 8))
    assert np.linalg.norm(f.sum(axis=0)) < 1e-12 * np.abs(f).sum()
    sizes = np.diff(one.arrays.starts)
    assert sizes.max() > sizes.min()
    net, torque = measure_momentum_defect(one, f)
    assert net > 1e-2
    assert torque > 1e-2


def test_net_force_of_the_pseudo_inverse_is_that_of_effective_counts():
    m = Muscles(MESH, [LONG], transfer="pinv")  # disjoint sets
    f = np.random.default_rng(5).normal(size=(9, 3))
    A = averages(m)
    nu = 1.0 / np.asarray(A.multiply(A).sum(axis=1)).ravel()  # effective number of nodes, M^2 / sum m^2, of each region
    np.testing.assert_allclose(m.spread(f).sum(axis=0), nu @ f, rtol=1e-10)


def test_pinv_scaled_by_the_count_of_nodes_pulls_as_strongly():
    """Pull along the axis over half of a spline: regions of some thirty nodes get the force of each node."""
    x = MESH.nodes * np.array([1.0, 1.1, 1.0])
    plain = Muscles(MESH, [LONG], transfer="transpose")
    count = plain.mean_count
    assert 10.0 < count < 80.0
    scaled = Muscles(MESH, [LONG], transfer="pinv", force_scale=1.0 / count)
    low = MESH.nodes[:, 1] < 0.1
    ours, theirs = (m.forces(x, None, [1.0])[low, 1].sum() for m in (plain, scaled))
    assert theirs == pytest.approx(ours, rel=0.5)


def test_conservative_is_the_least_load_that_keeps_force_and_first_moments():
    m = Muscles(MESH, [ActivationSpline([(0.01, 0.05, 0.0), (0.01, 0.35, 0.01)], region=("radius", 0.08), samples=9)])
    i = 4
    assert m.arrays.turns[i] == 0
    nodes = m.arrays.nodes[m.arrays.starts[i] : m.arrays.starts[i + 1]]
    f = np.zeros((9, 3))
    f[i] = (1.0, -2.0, 0.5)
    r = MESH.nodes[nodes] - m.points()[i]
    rows = np.vstack([np.kron(np.ones(len(nodes)), np.eye(3)), *(np.kron(r[:, k], np.eye(3)) for k in range(3))])
    root = np.repeat(np.sqrt(m.masses[nodes]), 3)
    least = root * np.linalg.lstsq(rows * root, np.concatenate([f[i], np.zeros(9)]), rcond=None)[0]
    np.testing.assert_allclose(m.spread(f)[nodes], least.reshape(-1, 3), atol=1e-12)


def test_a_point_off_a_thin_region_turns_with_it():
    line = ActivationSpline([(0.0, 0.01, 0.0), (0.0, 0.37, 0.0)], samples=11)
    m = Muscles(MESH, [line])
    assert m.arrays.turns.any()  # regions are single layers of nodes, some points lie beside theirs
    rng = np.random.default_rng(4)
    assert max(measure_momentum_defect(m, rng.normal(size=(11, 3)), shaken(rng))) < 1e-12
    np.testing.assert_allclose(m.acting_points(MESH.nodes), m.points(), atol=1e-12)


def test_overlapping_regions_do_not_shake_a_body_to_pieces():
    flat = Lattice.from_mask(np.ones((16, 4), dtype=bool), 0.025)
    m = Muscles(flat, [ActivationSpline([(0.02, 0.05, 0.0), (0.38, 0.05, 0.0)])])
    body = SoftBody.from_mesh(flat, muscles=m, gravity=(0.0, 0.0, 0.0))
    body.velocities[:, :2] += 1e-6 * np.random.default_rng(0).normal(size=(85, 2))
    for _ in range(60):
        body.step(1 / 60)
    assert np.abs(body.velocities).max() < 1e-6


@pytest.mark.parametrize("name", ["conservative", "virtual_work"])
def test_forces_are_the_slope_of_an_energy(muscles: dict[str, Muscles], name: str):
    rng = np.random.default_rng(7)
    m, x, alpha = muscles[name], shaken(rng), [0.8, 0.3]
    d, h = rng.normal(size=x.shape), 1e-6

    def energy(y):
        p, s = m.acting_points(y), m.arrays.segments
        lengths = np.linalg.norm(p[s[:, 1]] - p[s[:, 0]], axis=1)
        return 0.5 * np.sum(m.arrays.stiffness * (lengths - m.alphas(alpha) * m.arrays.rest) ** 2)

    slope = (energy(x + h * d) - energy(x - h * d)) / (2 * h)
    assert -np.sum(m.forces(x, None, alpha) * d) == pytest.approx(slope, rel=1e-6)


def test_virtual_work_has_exact_derivatives(muscles: dict[str, Muscles]):
    rng = np.random.default_rng(8)
    m, x, h = muscles["virtual_work"], shaken(rng), 1e-7
    alpha = rng.uniform(0.6, 1.1, size=m.num_segments)
    d = rng.normal(size=x.shape)
    K = make_stiffness_matrix(m, x, alpha) @ d.ravel()
    numeric = -(m.forces(x + h * d, None, alpha) - m.forces(x - h * d, None, alpha)).ravel() / (2 * h)
    np.testing.assert_allclose(K, numeric, atol=1e-6 * np.abs(K).max())
    C = make_damping_matrix(m, x) @ d.ravel()
    still = m.forces(x, np.zeros_like(x), alpha)
    np.testing.assert_allclose(C, -(m.forces(x, d, alpha) - still).ravel(), atol=1e-9 * np.abs(C).max())
    step = rng.normal(size=m.num_segments)
    G = differentiate_by_alpha(m, x) @ step
    change = (m.forces(x, None, alpha + 0.01 * step) - m.forces(x, None, alpha)).ravel() / 0.01
    np.testing.assert_allclose(G, change, atol=1e-9 * np.abs(G).max())
    assert compute_spring_energy(m, x, alpha) > 0.0


def test_conservative_points_are_carried_by_rigid_motions_exactly(muscles: dict[str, Muscles]):
    m = muscles["conservative"]
    turn = Rotation.from_rotvec([2.0, -1.5, 1.0]).as_matrix()
    x = MESH.nodes @ turn.T + 0.3
    np.testing.assert_allclose(m.acting_points(x), m.points() @ turn.T + 0.3, atol=1e-12)
    assert np.abs(m.forces(x)).max() < 1e-8


def test_rotations_of_regions_do_not_hang_on_the_past():
    rng = np.random.default_rng(11)
    x = shaken(rng)
    fresh, used = Muscles(MESH, [LONG]), Muscles(MESH, [LONG])
    for _ in range(3):
        used.acting_points(shaken(rng))
    np.testing.assert_allclose(used.acting_points(x), fresh.acting_points(x), atol=1e-10)


def test_gradient_steps_come_to_the_pseudo_inverse_and_refuse_to_grow():
    gram = np.diag([0.2, 0.5, 1.0])
    np.testing.assert_allclose(iterate_gradient(gram, 300), np.diag([5.0, 2.0, 1.0]), atol=1e-10)
    np.testing.assert_allclose(iterate_gradient(gram, 1), np.eye(3))  # one step is the transpose (Eq. 93)
    with pytest.raises(InputError, match="grow"):
        iterate_gradient(np.diag([2.1, 0.5]))


def test_conjugate_gradients_solve_and_tell_when_they_cannot():
    rng = np.random.default_rng(12)
    B = rng.normal(size=(8, 8))
    gram, b = B @ B.T + np.eye(8), rng.normal(size=(8, 3))
    np.testing.assert_allclose(solve_gram_pcg(gram, b), np.linalg.solve(gram, b), rtol=1e-8)
    with pytest.raises(ConvergenceError, match="share a region"):
        solve_gram_pcg(np.ones((2, 2)), np.array([[1.0], [-1.0]]))
    np.testing.assert_allclose(invert_by_rank(np.ones((2, 2))), np.full((2, 2), 0.25))


def test_pcg_and_pinv_give_the_same_forces(muscles: dict[str, Muscles]):
    f = np.random.default_rng(13).normal(size=(14, 3))
    F = muscles["pinv"].spread(f)
    np.testing.assert_allclose(muscles["pcg"].spread(f), F, atol=1e-7 * np.abs(F).max())


def test_unknown_transfer_is_named():
    with pytest.raises(UnknownNameError, match="conservative"):
        Muscles(MESH, [LONG], transfer="conservativ")


def test_engell_49_a_floating_body_keeps_its_momentum():
    mesh = TetMesh.cylinder(0.05, 0.3, rings=2, layers=5)
    lines = [ActivationSpline([(0.02, 0.03, 0), (0.02, 0.28, 0)]), ActivationSpline([(-0.02, 0.02, 0), (0, 0.2, 0.02)])]
    m = Muscles(mesh, lines)
    body = SoftBody.from_mesh(mesh, muscles=m, gravity=(0.0, 0.0, 0.0))
    start, fastest, most = centre(body), 0.0, 0.0
    for k in range(1000):
        body.step(1 / 60, activations=[float(k // 20 % 2), float(k // 30 % 2)])
        fastest = max(fastest, float(np.linalg.norm(body.velocities, axis=1).max()))
        most = max(most, float(np.linalg.norm(body.momentum()[1])))
    arms = np.linalg.norm(body.positions - centre(body), axis=1)
    assert fastest > 0.1  # it does move
    assert np.linalg.norm(centre(body) - start) < 1e-6 * 0.3
    assert most < 1e-6 * float(body.masses @ arms) * fastest


def centre(body: SoftBody):
    """Centre of mass."""
    return body.masses @ body.positions / body.masses.sum()

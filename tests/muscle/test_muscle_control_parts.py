"""Parts of controlled soft bodies: matrices, segments, ground, bones, each against an independent twin."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import ConvergenceError, InputError, UnknownNameError
from marey.muscle import (
    ActivationSpline,
    Muscles,
    OptimalControlProblem,
    SoftBody,
    SoftSystem,
    StateGoal,
    TetMesh,
    compute_adjoint_gradient,
    simulate_controls,
)
from marey.muscle.body.bones import Bone, Bones
from marey.muscle.elastic.models import Lattice
from marey.muscle.elastic.segments import (
    WeightedSegments,
    add_segment_forces,
    differentiate_segments,
    join_segments,
    make_edge_dampers,
    multiply_segment_blocks,
    sum_segment_columns,
)
from marey.muscle.optimal_control.adjoint import compute_total_cost
from marey.muscle.optimal_control.coordinates import FreeNodeMatrix, StepPattern, factorise, make_bordered_solver
from marey.muscle.optimal_control.soft_system import SmoothContactPlane, add_ground_forces, differentiate_ground_forces


def random_segments(rng, num_nodes=9, count=5):
    """Segments between weighted sums of some nodes."""
    parts = []
    for _ in range(count):
        nodes = rng.permutation(num_nodes)[:5]
        first, second = rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(3))
        weights = np.concatenate([first, -second])
        k, c = np.array([rng.uniform(10, 50)]), np.array([rng.uniform(1, 3)])
        parts.append(WeightedSegments(np.array([0, 5]), nodes, weights, np.array([0.5]), k, c))
    return join_segments(parts)


def block_problem(rng):
    segments = random_segments(rng)
    x, v, alpha = rng.normal(size=(9, 3)), rng.normal(size=(9, 3)), rng.uniform(0.5, 1.0, 5)
    return segments, x, v, alpha


def forces_of(segments, x, v, alpha):
    out = np.zeros_like(x)
    add_segment_forces(segments, x, v, alpha, out)
    return out


def test_segments_add_no_momentum():
    segments, x, v, alpha = block_problem(np.random.default_rng(0))
    forces = forces_of(segments, x, v, alpha)
    assert np.abs(forces).max() > 1.0
    np.testing.assert_allclose(forces.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.cross(x, forces).sum(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("by", ["x", "v"])
def test_slopes_of_segments_match_differences(by):
    rng = np.random.default_rng(1)
    segments, x, v, alpha = block_problem(rng)
    blocks = differentiate_segments(segments, x, v, alpha, True)[0 if by == "x" else 1]
    d, h = rng.normal(size=x.shape), 1e-6
    moved = [(x + s * h * d, v) if by == "x" else (x, v + s * h * d) for s in (1, -1)]
    numeric = (forces_of(segments, *moved[0], alpha) - forces_of(segments, *moved[1], alpha)) / (2 * h)
    product = multiply_segment_blocks(segments, blocks, d[:, :, None].copy(), False)[:, :, 0]
    np.testing.assert_allclose(product, numeric, atol=1e-6)


def test_products_of_segments_have_their_transposes():
    rng = np.random.default_rng(2)
    segments, x, v, alpha = block_problem(rng)
    blocks = differentiate_segments(segments, x, v, alpha, True)[0]
    a, b = rng.normal(size=(2, 9, 3, 1))
    forth, back = (
        multiply_segment_blocks(segments, blocks, a, False),
        multiply_segment_blocks(segments, blocks, b, True),
    )
    assert np.sum(b * forth) == pytest.approx(np.sum(a * back), rel=1e-12)


def test_contraction_pulls_the_ends_together_as_its_derivative_says():
    rng = np.random.default_rng(3)
    segments, x, v, alpha = block_problem(rng)
    pulls = differentiate_segments(segments, x, v, alpha, True)[2]
    columns = sum_segment_columns(segments, pulls, np.eye(5), 9)
    for s in range(5):
        step = np.zeros(5)
        step[s] = 1e-6
        numeric = (forces_of(segments, x, v, alpha + step) - forces_of(segments, x, v, alpha - step)) / 2e-6
        np.testing.assert_allclose(columns[:, :, s], numeric, atol=1e-7)


def test_slopes_that_are_not_exact_only_hold_back():
    segments, x, v, alpha = block_problem(np.random.default_rng(4))
    by_x, by_v, _ = differentiate_segments(segments, x, v, alpha * 3.0, False)  # slack springs would push
    for block in (*by_x, *by_v):
        np.testing.assert_allclose(block, block.T, atol=1e-12)
        assert np.linalg.eigvalsh(block).max() <= 1e-9


def test_a_segment_of_no_length_pulls_nowhere():
    one = WeightedSegments(
        np.array([0, 2]), np.array([0, 1]), np.array([1.0, -1.0]), *(np.array([1.0]) for _ in range(3))
    )
    same = np.ones((2, 3))
    assert not forces_of(one, same, 0 * same, np.ones(1)).any()
    assert not np.concatenate([p.ravel() for p in differentiate_segments(one, same, 0 * same, np.ones(1), True)]).any()


def test_dampers_of_edges_resist_stretch_and_let_rigid_motion_go():
    mesh = TetMesh.box((1.0, 1.0, 1.0), (1, 1, 1))
    dampers = make_edge_dampers(mesh.nodes, np.asarray(mesh.cells, dtype=np.int64), np.ones(len(mesh.cells)))
    ones, x = np.ones(len(dampers.rest)), mesh.nodes
    turn = np.cross([0.3, -0.2, 0.5], x) + np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(forces_of(dampers, x, turn, ones), 0.0, atol=1e-12)
    swell = forces_of(dampers, x, x - x.mean(axis=0), ones)
    assert np.sum(swell * (x - x.mean(axis=0))) < 0.0


def ground():
    return SmoothContactPlane(np.zeros(3), np.array([0.0, 0.8, 0.6]), np.full(6, 300.0), 0.6, 0.02, 0.1)


def test_slopes_of_the_ground_match_differences():
    rng = np.random.default_rng(5)
    plane = ground()
    x, v = 0.03 * rng.normal(size=(6, 3)), rng.normal(size=(6, 3))
    by_x, by_v = differentiate_ground_forces(plane, x, v, True)

    def forces(x, v):
        out = np.zeros_like(x)
        add_ground_forces(plane, x, v, out)
        return out

    assert np.abs(by_x).max() > 1.0
    for i, e in enumerate(1e-7 * np.eye(3)):
        np.testing.assert_allclose(by_x[:, :, i], (forces(x + e, v) - forces(x - e, v)) / 2e-7, atol=1e-4)
        np.testing.assert_allclose(by_v[:, :, i], (forces(x, v + e) - forces(x, v - e)) / 2e-7, atol=1e-5)


def test_the_ground_pushes_up_never_down_and_friction_brakes():
    rng = np.random.default_rng(6)
    plane = ground()
    x, v = 0.05 * rng.normal(size=(6, 3)), rng.normal(size=(6, 3))
    out = np.zeros((6, 3))
    add_ground_forces(plane, x, v, out)
    normal = out @ plane.normal
    along, sliding = out - normal[:, None] * plane.normal, v - (v @ plane.normal)[:, None] * plane.normal
    assert normal.min() >= 0.0
    assert np.all(normal[x @ plane.normal >= 0.02] == 0.0)
    assert np.all(np.sum(along * sliding, axis=1) <= 0.0)
    assert np.all(np.linalg.norm(along, axis=1) <= 0.6 * normal + 1e-12)


@pytest.mark.parametrize("material", ["neo-hookean", "corotational"])
def test_the_matrix_of_a_step_holds_the_tangent_of_the_body(material):
    rng = np.random.default_rng(7)
    mesh = TetMesh.box((0.3, 0.1, 0.1), (3, 1, 1))
    body = SoftBody.from_mesh(mesh, material=material)
    x = mesh.nodes + 0.005 * rng.normal(size=mesh.nodes.shape)
    pattern = StepPattern(body.elastic, join_segments([]), len(mesh.nodes))
    values = pattern.assemble(x, np.zeros((0, 3, 3)), np.zeros((len(x), 3, 3)), exact=True)
    whole = FreeNodeMatrix(pattern, np.arange(len(x)), len(x))
    scale = np.abs(values).max()
    np.testing.assert_allclose(whole.dense(values), body.tangent(x).toarray(), atol=1e-9 * scale)
    np.testing.assert_allclose(whole.sparse(values).toarray(), whole.dense(values), atol=1e-15 * scale)


def test_dense_and_sparse_factors_solve_the_same():
    from scipy.sparse import csc_array

    rng = np.random.default_rng(8)
    A = rng.normal(size=(12, 12)) + 8 * np.eye(12)
    b = rng.normal(size=(12, 2))
    for transposed in (False, True):
        exact = np.linalg.solve(A.T if transposed else A, b)
        np.testing.assert_allclose(factorise(A.copy())(b, transposed), exact, rtol=1e-10)
        np.testing.assert_allclose(factorise(csc_array(A))(b, transposed), exact, rtol=1e-10)


def test_a_singular_matrix_is_an_error_with_a_reason():
    from scipy.sparse import csc_array

    with pytest.raises(ConvergenceError, match="singular"):
        factorise(csc_array(np.diag([1.0, 0.0, 2.0])))


def test_a_bordered_matrix_is_solved_through_its_inner_part():
    rng = np.random.default_rng(9)
    A = rng.normal(size=(9, 9)) + 6 * np.eye(9)
    solve = make_bordered_solver(factorise(A[:7, :7].copy()), A[:7, 7:].copy(), A[7:, :7].copy(), A[7:, 7:].copy())
    for b in (rng.normal(size=9), rng.normal(size=(9, 3))):
        np.testing.assert_allclose(solve(b, False), np.linalg.solve(A, b), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(solve(b, True), np.linalg.solve(A.T, b), rtol=1e-9, atol=1e-12)


def finger(kinds=("ball", "hinge", "hinge"), **options):
    """Three bones in a row in a soft rod along x."""
    mesh = TetMesh.box((0.3, 0.05, 0.05), (6, 2, 2))
    x, middle = mesh.nodes, 0.025
    core = np.abs(x[:, 1:] - middle).max(axis=1) < 0.01
    bones = []
    for i, kind in enumerate(kinds):
        low, high = 0.1 * i + 0.02, 0.1 * (i + 1) - 0.02
        nodes = np.flatnonzero(core & (x[:, 0] > low) & (x[:, 0] < high))
        start, end = ([0.1 * (i + k), middle, middle] for k in (0, 1))
        axis = (0.0, 0.6, 0.8) if i == 1 else (0.0, 0.0, 1.0)
        parent = f"bone{i - 1}" if i else None
        bones.append(Bone(f"bone{i}", start, parent, kind, axis, mass_kg=0.02 * i, end=end, nodes=nodes))
    return SoftBody.from_mesh(mesh, young_pa=1e4, bones=Bones(bones), damping=(0.5, 0.0), **options)


def test_carried_points_turn_about_their_joints_without_change_of_distance():
    system = SoftSystem(finger())
    chart, rng = system.chart, np.random.default_rng(10)
    angles = rng.normal(size=chart.num_angles)
    z = chart.coordinates(system.rest, angles)
    x = chart.positions(z, system.rest)
    for bone in range(3):
        own = chart.carried[chart.owners == bone]
        before, after = (np.linalg.norm(p[own][:, None] - p[own], axis=2) for p in (system.rest, x))
        np.testing.assert_allclose(after, before, atol=1e-12)
    np.testing.assert_allclose(x[system.num_points - 3], _turned_end(angles), atol=1e-12)


def _turned_end(angles):
    """End of the first bone: turns about x, y and z of the world at its origin, the last one nearest to the bone."""
    c, s = np.cos(angles), np.sin(angles)
    about_x = np.array([[1, 0, 0], [0, c[0], -s[0]], [0, s[0], c[0]]])
    about_y = np.array([[c[1], 0, s[1]], [0, 1, 0], [-s[1], 0, c[1]]])
    about_z = np.array([[c[2], -s[2], 0], [s[2], c[2], 0], [0, 0, 1]])
    return np.array([0.0, 0.025, 0.025]) + about_x @ about_y @ about_z @ [0.1, 0.0, 0.0]


def test_the_chart_of_bones_has_the_derivatives_of_its_positions():
    system = SoftSystem(finger())
    chart, rng = system.chart, np.random.default_rng(11)
    z = chart.coordinates(system.rest, 0.5 * rng.normal(size=chart.num_angles))
    d, h = rng.normal(size=chart.size), 1e-6
    numeric = (chart.positions(z + h * d, system.rest) - chart.positions(z - h * d, system.rest)) / (2 * h)
    np.testing.assert_allclose(chart.lift(z, d), numeric.ravel(), atol=1e-8)
    f = rng.normal(size=3 * system.num_points)
    assert f @ chart.lift(z, d) == pytest.approx(chart.drop(z, f) @ d, rel=1e-12)
    bend = (chart.drop(z + h * d, f) - chart.drop(z - h * d, f)) / (2 * h)
    last = chart.size - chart.num_angles
    curve = chart.curvature(z, f.reshape(-1, 3)[chart.carried])
    np.testing.assert_allclose(curve @ d[last:], bend[last:], atol=1e-7)


def test_carried_nodes_lie_where_the_bones_of_the_body_put_them():
    body = finger(("hinge", "hinge", "hinge"))
    system = SoftSystem(body)
    for _ in range(10):
        body.step(1 / 60)
    angles = np.array([body.bones.angles[name] for name in body.bones.names])
    assert np.abs(angles).max() > 0.05
    x = system.chart.positions(system.chart.coordinates(system.rest, angles), system.rest)
    carried = np.flatnonzero(body.carriers >= 0)
    np.testing.assert_allclose(x[carried], body.positions[carried], atol=1e-9)
    np.testing.assert_allclose(x[system.num_points - 3 :], body.bones.ends, atol=1e-9)


def test_a_stiff_pendulum_swings_as_a_pendulum():
    mesh = TetMesh.box((0.2, 0.02, 0.02), (4, 1, 1))
    bone = Bone("rod", (0.0, 0.01, 0.01), kind="hinge", end=(0.2, 0.01, 0.01), nodes=np.arange(len(mesh.nodes)))
    body = SoftBody.from_mesh(mesh, bones=Bones([bone]))
    system = SoftSystem(body, dt=1e-3, control="nodes", actuated=[])
    q, arms = system.state(), mesh.nodes - [0.0, 0.01, 0.01]
    for t in range(100):
        q = system.step(q, np.zeros(0), t)
    inertia = float(body.masses @ np.sum(arms[:, :2] ** 2, axis=1))
    weight = 9.82 * float(body.masses @ arms[:, 0])
    angle, rate = 0.0, 0.0  # the pendulum alone, in much smaller steps
    for _ in range(100_000):
        rate -= 1e-6 * weight / inertia * np.cos(angle)
        angle += 1e-6 * rate
    assert system.angles(q)[0] == pytest.approx(angle, rel=0.02)


def test_a_joint_limit_holds_and_the_gradient_passes_it():
    mesh = TetMesh.box((0.2, 0.02, 0.02), (4, 1, 1))
    bone = Bone("rod", (0.0, 0.01, 0.01), limits=(-0.3, 1.0), end=(0.2, 0.01, 0.01), nodes=np.arange(len(mesh.nodes)))
    body = SoftBody.from_mesh(mesh, bones=Bones([bone], joint_damping=2e-3))
    system = SoftSystem(body, control="nodes", actuated=[])
    q = system.state()
    for t in range(120):
        q = system.step(q, np.zeros(0), t)
    assert -0.35 < system.angles(q)[0] < -0.29


def test_unknown_bones_and_free_ones_are_refused():
    system = SoftSystem(finger())
    with pytest.raises(UnknownNameError, match="bone1"):
        system.end_components("thumb")
    with pytest.raises(InputError, match="starts at rest"):
        system.state(np.zeros((system.num_nodes, 3)))
    loose = SoftBody.from_mesh(
        TetMesh.box((0.1, 0.1, 0.1), (1, 1, 1)), bones=Bones([Bone("loose", (0.0, 0.0, 0.0), kind="free", nodes=[0])])
    )
    with pytest.raises(InputError, match="'loose' is free"):
        SoftSystem(loose)


def test_a_hill_spline_is_refused():
    mesh = TetMesh.box((0.3, 0.1, 0.1), (3, 1, 1))
    hill = ActivationSpline([[0.02, 0.05, 0.05], [0.28, 0.05, 0.05]], law="hill")
    body = SoftBody.from_mesh(mesh, muscles=Muscles(mesh, [hill]))
    with pytest.raises(InputError, match="'hill'"):
        SoftSystem(body)


@pytest.mark.parametrize("counts", [(4, 2, 1), (3, 2, 2)])
def test_engell_60_a_lattice_of_springs_matches_differences(counts):
    rng = np.random.default_rng(12)
    lattice = Lattice.from_mask(np.ones(counts, dtype=bool), 0.05)
    body = SoftBody.from_mesh(lattice, young_pa=2e4, pinned=[0, 1])
    system = SoftSystem(body)
    goal = StateGoal(6, system.state() + 0.02 * rng.normal(size=system.num_states))
    problem = OptimalControlProblem(system, system.state(), 6, [goal], goal_weight=50.0)
    controls = 0.05 * rng.normal(size=problem.shape)
    d, h = 0.05 * rng.normal(size=problem.shape), 1e-3
    costs = [
        compute_total_cost(problem, a, simulate_controls(problem, a)) for a in (controls + h * d, controls - h * d)
    ]
    exact = np.sum(compute_adjoint_gradient(problem, controls).by_controls * d)
    assert (costs[0] - costs[1]) / (2 * h) == pytest.approx(exact, rel=1e-5)

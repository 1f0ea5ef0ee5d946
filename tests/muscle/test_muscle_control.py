"""Soft bodies under space-time control: exact derivatives, laws of the step, and goals that are reached."""

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
    solve_control,
)
from marey.muscle.body.bones import Bone, Bones
from marey.muscle.body.contact import ContactPlane
from marey.muscle.elastic.segments import make_spline_segments
from marey.muscle.optimal_control.adjoint import compute_total_cost, make_gauss_newton_model
from marey.numerics import SolveStatus

LENGTH, WIDTH = 0.4, 0.08


def along(mesh, z, name, **options):
    """A spline from end to end at height z of a beam along x."""
    ends = mesh.nodes.max(axis=0)
    xs = np.array([0.03, 0.33, 0.66, 0.97]) * ends[0]
    return ActivationSpline([[x, 0.5 * ends[1], z] for x in xs], name=name, **options)


def beam(counts=(5, 1, 2), *, splines=True, transfer="virtual_work", alpha_min=0.6, samples=None, **options):
    """A beam along x, clamped at x = 0, with a spline near each side in z."""
    mesh = TetMesh.box((LENGTH, WIDTH, WIDTH), counts)
    options_of = {"alpha_min": alpha_min, "samples": samples}
    sides = [along(mesh, z, name, **options_of) for z, name in ((0.012, "left"), (WIDTH - 0.012, "right"))]
    muscles = Muscles(mesh, sides, young_pa=4e4, transfer=transfer) if splines else None
    pinned = np.flatnonzero(mesh.nodes[:, 0] < 1e-9)
    given = {"young_pa": 4e4, "pinned": pinned, "muscles": muscles, "damping": (0.5, 0.01)} | options
    return SoftBody.from_mesh(mesh, **given)


def arm(kind="fixed", *, alpha_min=0.5, gravity=(0.0, -9.82, 0.0)):
    """Two rigid bones with a hinge between them inside a soft beam, a spline above and one below."""
    mesh = TetMesh.box((0.5, WIDTH, WIDTH), (6, 2, 2))
    x = mesh.nodes
    core = np.abs(x[:, 1:] - WIDTH / 2).max(axis=1) < 0.01
    upper, fore = np.flatnonzero(core & (x[:, 0] < 0.2)), np.flatnonzero(core & (x[:, 0] > 0.3))
    shoulder, elbow, hand = ((p, WIDTH / 2, WIDTH / 2) for p in (0.0, 0.25, 0.5))
    bones = [
        Bone("upper", shoulder, kind=kind, mass_kg=0.3, end=elbow, nodes=upper),
        Bone("fore", elbow, "upper", axis=(0, 0, 1), limits=(-0.1, 2.5), mass_kg=0.2, end=hand, nodes=fore),
    ]
    splines = [
        ActivationSpline([[p, y, WIDTH / 2] for p in (0.05, 0.2, 0.3, 0.4)], 2000.0, name, alpha_min=alpha_min)
        for y, name in ((WIDTH - 0.012, "biceps"), (0.012, "triceps"))
    ]
    muscles = Muscles(mesh, splines, young_pa=2e4, transfer="virtual_work")
    body = SoftBody.from_mesh(
        mesh,
        young_pa=2e4,
        muscles=muscles,
        bones=Bones(bones, joint_damping=0.02),
        damping=(0.5, 0.01),
        gravity=gravity,
    )
    return body, fore


def problem_of(system, rng, steps=6, **options):
    goals = [StateGoal(i, system.state() + 0.05 * rng.normal(size=system.num_states)) for i in (steps // 2, steps)]
    return OptimalControlProblem(
        system, system.state(), steps, goals, **({"goal_weight": 20.0, "effort": 0.1} | options)
    )


def gradient_error(problem, controls, rng, size):
    """Relative difference between the adjoint and differences of fourth order along a random direction."""
    gradient = compute_adjoint_gradient(problem, controls).by_controls
    d = size * rng.normal(size=controls.shape)
    h = 1e-3

    def cost(share):
        moved = controls + share * h * d
        return compute_total_cost(problem, moved, simulate_controls(problem, moved))

    numeric = (8 * (cost(1) - cost(-1)) - (cost(2) - cost(-2))) / (12 * h)
    return abs(numeric - np.sum(gradient * d)) / abs(numeric)


@pytest.mark.parametrize("material", ["neo-hookean", "corotational"])
def test_engell_60_nodal_controls_of_fifty_tetrahedra_match_differences(material):
    rng = np.random.default_rng(0)
    body = beam(splines=False, material=material)
    assert 45 <= len(body.cells) <= 65
    problem = problem_of(SoftSystem(body, dt=1 / 60), rng)
    controls = 0.02 * rng.normal(size=problem.shape)
    assert gradient_error(problem, controls, rng, 0.02) < 1e-6


@pytest.mark.parametrize("material", ["neo-hookean", "corotational"])
@pytest.mark.parametrize("spread", ["cell", "region"])
def test_engell_60_spline_controls_of_fifty_tetrahedra_match_differences(material, spread):
    rng = np.random.default_rng(1)
    transfer = {"cell": "virtual_work", "region": "conservative"}[spread]
    problem = problem_of(SoftSystem(beam(material=material, transfer=transfer, samples=3), spread=spread), rng)
    controls = rng.uniform(0.2, 0.8, problem.shape)
    assert gradient_error(problem, controls, rng, 0.1) < 1e-6


@pytest.mark.parametrize("kind", ["fixed", "ball"])
def test_engell_60_an_arm_with_rigid_bones_matches_differences(kind):
    rng = np.random.default_rng(2)
    problem = problem_of(SoftSystem(arm(kind)[0]), rng)
    controls = rng.uniform(0.1, 0.6, problem.shape)
    assert gradient_error(problem, controls, rng, 0.1) < 1e-6


def test_forward_and_backward_derivatives_are_transposes():
    rng = np.random.default_rng(3)
    problem = problem_of(SoftSystem(arm("ball")[0]), rng)
    controls = rng.uniform(0.1, 0.6, problem.shape)
    model = make_gauss_newton_model(problem, controls, simulate_controls(problem, controls))
    exact = compute_adjoint_gradient(problem, controls).by_controls.ravel()
    np.testing.assert_allclose(model.gradient, exact, atol=1e-10 * np.abs(exact).max())


def test_engell_63_checkpoints_serve_implicit_steps_too():
    rng = np.random.default_rng(4)
    problem = problem_of(SoftSystem(beam()), rng)
    controls = rng.uniform(0.0, 1.0, problem.shape)
    whole, kept = (
        compute_adjoint_gradient(problem, controls),
        compute_adjoint_gradient(problem, controls, checkpoints=2),
    )
    np.testing.assert_allclose(kept.by_controls, whole.by_controls, rtol=1e-12, atol=1e-14)
    assert kept.stored < whole.stored


def test_engell_66_two_antagonists_bend_a_soft_beam_to_its_target():
    body = beam((8, 2, 2), alpha_min=0.5, gravity=(0.0, 0.0, 0.0))
    system, steps = SoftSystem(body), 30
    tip = np.flatnonzero(body.mesh.nodes[:, 0] > LENGTH - 1e-9)
    rows = np.zeros((1, system.num_states))
    rows[0, 3 * tip + 2] = 1.0 / len(tip)
    aside = body.mesh.nodes[tip, 2].mean() + 0.3 * LENGTH
    goal, options = (
        StateGoal(steps, [aside], rows=rows),
        {"goal_weight": 1e4, "effort": 1e-2, "knots": 6, "bounds": (0, 1)},
    )
    problem = OptimalControlProblem(system, system.state(), steps, [goal], **options)
    result = solve_control(problem, tolerance=1e-4, goal_tolerance=0.02 * LENGTH)
    assert result.reached
    assert result.goal_error <= 0.02 * LENGTH
    assert result.controls.min() >= 0.0 and result.controls.max() <= 1.0
    np.testing.assert_allclose(system.split(result.states)[0][-1, tip, 2].mean(), aside, atol=0.02 * LENGTH)


def test_the_muscles_of_an_arm_find_how_to_lift_the_hand():
    body, fore = arm(gravity=(0.0, 0.0, 0.0))
    system, steps = SoftSystem(body), 24
    hand = int(fore[np.argmax(body.mesh.nodes[fore, 0])])
    angle, reach = 0.6, body.mesh.nodes[hand] - [0.25, WIDTH / 2, WIDTH / 2]
    target = np.array([0.25, WIDTH / 2, WIDTH / 2]) + reach[0] * np.array([np.cos(angle), np.sin(angle), 0.0])
    goal = StateGoal(steps, target, components=system.components(hand))
    problem = OptimalControlProblem(
        system, system.state(), steps, [goal], goal_weight=1e4, effort=1e-2, knots=5, bounds=(0, 1)
    )
    result = solve_control(problem, tolerance=1e-4, goal_tolerance=0.01)
    assert result.reached
    assert system.angles(result.states)[-1, 0] == pytest.approx(angle, abs=0.05)


def test_quasi_newton_lowers_the_cost_of_a_soft_body_as_gauss_newton_does():
    rng = np.random.default_rng(5)
    problem = problem_of(SoftSystem(beam()), rng, effort=1.0, bounds=(0.0, 1.0))
    newton, quasi = solve_control(problem), solve_control(problem, method="lbfgs", max_iterations=60)
    assert newton.status is SolveStatus.CONVERGED
    assert quasi.cost == pytest.approx(newton.cost, rel=1e-5)


def test_a_body_at_rest_without_gravity_stays_there():
    system = SoftSystem(beam(gravity=(0.0, 0.0, 0.0)))
    after = system.step(system.state(), np.zeros(2), 0)
    np.testing.assert_allclose(after, system.state(), atol=1e-12)


def test_a_hanging_beam_settles_where_forces_balance():
    body = beam(splines=False, damping=(5.0, 0.01))
    system = SoftSystem(body, dt=0.5)
    q = system.state()
    for t in range(60):
        q = system.step(q, np.zeros(system.num_controls), t)
    x, v = system.split(q)
    free = body.carriers == -1
    weight = body.masses[:, None] * body.gravity
    assert np.abs(v).max() < 1e-6
    np.testing.assert_allclose((body.forces(x) + weight)[free], 0.0, atol=1e-6 * np.abs(weight).sum())


def test_contraction_of_a_floating_body_moves_no_centre():
    body = beam(pinned=(), gravity=(0.0, 0.0, 0.0), damping=(0.0, 0.02), transfer="conservative", samples=3)
    system = SoftSystem(body, spread="region")
    q = system.state()
    for t in range(10):
        q = system.step(q, np.array([0.9, 0.1]), t)
    x, v = system.split(q)
    assert np.abs(v).max() > 1e-3
    np.testing.assert_allclose(body.masses @ v, 0.0, atol=1e-10)
    np.testing.assert_allclose(body.masses @ x, body.masses @ body.mesh.nodes, atol=1e-10)


def test_the_step_agrees_with_that_of_the_body_as_steps_become_short():
    gaps = []
    for parts in (1, 4):
        body = beam(splines=False, damping=(0.0, 0.0), tolerance=1e-8)
        system, dt = SoftSystem(body, dt=1 / (60 * parts)), 1 / (60 * parts)
        q = system.state()
        for t in range(6 * parts):
            q = system.step(q, np.zeros(system.num_controls), t)
            body.step(dt)
        gaps.append(np.abs(system.split(q)[0] - body.positions).max())
        fallen = np.abs(body.positions - body.mesh.nodes).max()
    assert gaps[1] < 0.5 * gaps[0]
    assert gaps[1] < 0.02 * fallen


def test_forces_of_controlled_splines_are_those_of_the_muscles():
    rng = np.random.default_rng(8)
    for transfer in ("conservative", "virtual_work"):
        body = beam((8, 2, 2), transfer=transfer, damping=(0.0, 0.0), samples=4)
        assert not body.muscles.arrays.turns.any()
        system = SoftSystem(body)
        shape = body.mesh.nodes.shape
        x, v = body.mesh.nodes + 1e-3 * rng.normal(size=shape), rng.normal(size=shape)
        a = np.array([0.3, 0.8])
        weight = body.masses[:, None] * body.gravity
        pulled = system.forces(x, v, a).reshape(-1, 3) - body.forces(x) - weight
        np.testing.assert_allclose(pulled, body.muscles.forces(x, v, a), atol=1e-9 * np.abs(pulled).max())


def test_weights_of_regions_give_points_back_under_any_affine_motion():
    rng = np.random.default_rng(6)
    muscles = beam((8, 2, 2), transfer="conservative", samples=4).muscles
    F, shift = rng.normal(size=(3, 3)), rng.normal(size=3)
    segments = make_spline_segments(muscles, "region")
    ends = muscles.points()[muscles.arrays.segments]
    for s in range(muscles.num_segments):
        part = slice(segments.starts[s], segments.starts[s + 1])
        moved = muscles.rest_nodes[segments.nodes[part]] @ F.T + shift
        np.testing.assert_allclose(segments.weights[part] @ moved, F @ (ends[s, 0] - ends[s, 1]), atol=1e-10)


def test_own_masses_of_bones_keep_their_weight_and_inertia():
    body, _ = arm("ball")
    system = SoftSystem(body)
    extra = slice(system.num_nodes, system.num_points)
    x, m = system.rest[extra][:6], system.point_masses[extra][:6]
    centre = m @ x / m.sum()
    inertia = np.einsum("p,pij->ij", m, np.sum((x - centre) ** 2, axis=1)[:, None, None] * np.eye(3)
                        - (x - centre)[:, :, None] * (x - centre)[:, None, :])  # fmt: skip
    assert m.sum() == pytest.approx(0.3)
    np.testing.assert_allclose(centre, [0.125, WIDTH / 2, WIDTH / 2], atol=1e-12)
    assert inertia[1, 1] == pytest.approx(0.3 * 0.25**2 / 12, rel=0.1)  # a rod, not quite thin


def test_controls_by_alpha_and_by_activation_are_the_same_motion():
    by_activation, by_alpha = SoftSystem(beam()), SoftSystem(beam(), control="alpha")
    segments = SoftSystem(beam(), control="segments")
    a = np.array([0.25, 0.5])
    alpha = 1.0 - 0.4 * a
    one = by_activation.step(by_activation.state(), a, 0)
    np.testing.assert_allclose(by_alpha.step(by_alpha.state(), alpha, 0), one, atol=1e-10)
    each = alpha[segments.body.muscles.owners]
    np.testing.assert_allclose(segments.step(segments.state(), each, 0), one, atol=1e-10)


def test_a_step_too_violent_to_solve_is_told():
    system = SoftSystem(beam(splines=False), dt=1.0)
    wild = np.full(system.num_controls, 1e12)
    with pytest.raises(ConvergenceError, match="did not settle"):
        system.step(system.state(), wild, 0)


def test_bad_systems_are_refused():
    soft = beam(splines=False)
    with pytest.raises(InputError, match="no muscles"):
        SoftSystem(soft, control="activation")
    with pytest.raises(UnknownNameError, match="alpha"):
        SoftSystem(beam(), control="alhpa")
    with pytest.raises(InputError, match="time step above zero"):
        SoftSystem(soft, dt=0.0)
    with pytest.raises(InputError, match="held or not there"):
        SoftSystem(soft, actuated=[0])
    with pytest.raises(InputError, match="'cell' or 'region'"):
        SoftSystem(beam(), spread="all")
    with pytest.raises(InputError, match="need 'conservative'"):
        SoftSystem(beam(), spread="region")
    with pytest.raises(InputError, match="positions has shape"):
        SoftSystem(soft).state(np.zeros((2, 3)))


def block(friction=0.5, slope=0.0):
    """A stiff cube that stands on a plane which rises by ``slope`` along x."""
    mesh = TetMesh.box((0.1, 0.1, 0.1), (2, 2, 2))
    ground = ContactPlane(friction=friction, normal=(-np.sin(slope), np.cos(slope), 0.0))
    turn = np.array([[np.cos(slope), -np.sin(slope), 0.0], [np.sin(slope), np.cos(slope), 0.0], [0.0, 0.0, 1.0]])
    turned = TetMesh(mesh.nodes @ turn.T, mesh.cells)
    return SoftBody.from_mesh(turned, young_pa=1e5, ground=ground, damping=(0.0, 0.01))


def test_engell_60_a_body_that_slides_over_a_smoothed_ground_matches_differences():
    rng = np.random.default_rng(7)
    problem = problem_of(SoftSystem(block(), actuated=[26, 25]), rng, steps=10)
    controls = np.tile([2.0, 0.0, 0.0], (10, 2)) + 0.3 * rng.normal(size=problem.shape)
    assert gradient_error(problem, controls, rng, 0.3) < 1e-6
    moved = simulate_controls(problem, controls)[-1] - problem.start
    assert SoftSystem(block()).split(moved)[0][:, 0].mean() > 1e-3


def test_engell_55_a_block_rests_on_the_smoothed_ground():
    system = SoftSystem(block(), dt=1 / 30)
    q = system.state()
    for t in range(40):
        q = system.step(q, np.zeros(system.num_controls), t)
    x, v = system.split(q)
    assert x[:, 1].min() > -1e-3
    assert np.abs(v).max() < 1e-3


@pytest.mark.parametrize("friction", [0.2, 1.0])
def test_engell_55_a_block_on_a_slope_slides_or_creeps_as_the_smoothing_says(friction):
    slope = np.radians(30.0)
    system = SoftSystem(block(friction, slope), dt=1 / 120)
    q, speeds = system.state(), []
    for t in range(60):
        q = system.step(q, np.zeros(system.num_controls), t)
        speeds.append(system.split(q)[1].mean(axis=0) @ [-np.cos(slope), -np.sin(slope), 0.0])
    if friction < np.tan(slope):
        pull = (speeds[-1] - speeds[29]) * 120 / 30
        assert pull == pytest.approx(9.82 * (np.sin(slope) - friction * np.cos(slope)), rel=0.05)
    else:
        share = np.tan(slope) / friction
        assert speeds[-1] == pytest.approx(0.02 * share / np.sqrt(1.0 - share**2), rel=0.02)


def test_friction_that_differs_by_direction_is_refused():
    body = SoftBody.from_mesh(
        TetMesh.box((0.1, 0.1, 0.1), (1, 1, 1)), ground=ContactPlane(friction=(0.1, 0.5, 1.0), axis=(1, 0, 0))
    )
    with pytest.raises(InputError, match="all directions"):
        SoftSystem(body)

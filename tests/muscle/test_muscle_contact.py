"""Ground contact: nothing sinks, nothing sticks, friction is Coulomb's and never reverses a motion."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import InputError
from marey.muscle import ActivationSpline, Muscles, SoftBody, TetMesh
from marey.muscle.body.contact import ContactPlane, ContactState, StepStart, find_axis_pairs
from marey.muscle.elastic.models import Lattice

G = 9.82
BLOCK = Lattice.from_mask(np.ones((4, 4, 4), dtype=bool), 0.025)
HEIGHT = 0.1


def on_slope(degrees: float, friction: float) -> SoftBody:
    """A block on a slope: gravity leans, the ground stays."""
    angle = np.radians(degrees)
    pull = G * np.array([np.sin(angle), -np.cos(angle), 0.0])
    return SoftBody.from_mesh(BLOCK, ground=ContactPlane(friction=friction), young_pa=1e6, gravity=pull)


@pytest.mark.parametrize("solid", [BLOCK, TetMesh.box((0.1, 0.1, 0.1), (3, 3, 3))], ids=["springs", "tetrahedra"])
def test_engell_55_a_block_at_rest_sinks_by_less_than_a_hundredth(solid):
    body = SoftBody.from_mesh(solid, ground=ContactPlane(), young_pa=1e6)
    body.positions[:, 1] += 0.02  # it falls first
    lowest = 0.0
    for _ in range(90):
        body.step(1 / 60)
        lowest = min(lowest, float(body.positions[:, 1].min()))
    assert -lowest < 0.01 * HEIGHT
    assert np.abs(body.velocities).max() < 1e-3


@pytest.mark.parametrize(("degrees", "friction"), [(15.0, 0.8), (30.0, 0.8), (20.0, 0.4)])
def test_engell_55_below_the_cone_a_block_creeps_less_than_a_millimetre_a_second(degrees: float, friction: float):
    assert np.tan(np.radians(degrees)) < friction
    body = on_slope(degrees, friction)
    for _ in range(60):
        body.step(1 / 60)
    before = body.positions[:, 0].mean()
    for _ in range(60):
        body.step(1 / 60)
    assert abs(body.positions[:, 0].mean() - before) < 1e-3


@pytest.mark.parametrize(("degrees", "friction"), [(30.0, 0.3), (45.0, 0.5)])
def test_engell_55_above_the_cone_a_block_slides_at_its_acceleration(degrees: float, friction: float):
    body, angle = on_slope(degrees, friction), np.radians(degrees)
    speeds: list[float] = []
    for _ in range(90):
        body.step(1 / 60)
        speeds.append(float(body.velocities[:, 0].mean()))
    found = (speeds[-1] - speeds[-31]) / 0.5
    assert found == pytest.approx(G * (np.sin(angle) - friction * np.cos(angle)), rel=0.05)


def particles(heights: list[float], speeds: list[float]):
    """Loose nodes over the ground, 10 g each."""
    x = np.array([(0.1 * i, h, 0.0) for i, h in enumerate(heights)])
    v = np.array([(0.0, s, 0.0) for s in speeds])
    springs = np.array([[i, i + 1] for i in range(len(x) - 1)])
    return x, v, np.full(len(x), 0.01), springs


def test_engell_55_normal_forces_are_never_negative_and_print_would_pull():
    from marey.muscle.body.contact import add_explicit_contact

    x, v, m, springs = particles([-1e-3, -1e-3, 0.01], [5.0, -0.1, 0.0])
    ground = ContactPlane(stiffness=100.0, damping=1.0).compile(x, m, springs)
    loads, forces = np.zeros(3), np.zeros((3, 3))
    add_explicit_contact(StepStart(x, v, m, 1e-3), ground, False, forces, loads)
    assert loads.min() >= 0.0 and loads[1] > 0.0 and loads[2] == 0.0
    assert forces[:, 1].min() >= 0.0
    forces[:] = 0.0
    add_explicit_contact(StepStart(x, v, m, 1e-3), ground, True, forces, loads)  # Eq. 96 as printed
    assert loads[0] < 0.0 and forces[0, 1] < 0.0  # a node that leaves is held back


def test_engell_55_no_node_is_pulled_in_an_implicit_step():
    from marey.muscle.body.contact import update_contacts

    x, v, m, springs = particles([-1e-4, -1e-4, 1e-3], [2.0, 0.0, -1.0])
    ground = ContactPlane().compile(x, m, springs)
    active, loads = np.array([1, 1, 0]), np.zeros(3)
    changed = update_contacts(StepStart(x, v, m, 1 / 60), v, ground, ContactState(active, loads))
    assert changed == 2
    assert active.tolist() == [0, 1, 1]  # the one that leaves goes free, the one that fell through is caught
    assert loads.min() >= 0.0


def test_a_jumping_block_is_let_go():
    body = SoftBody.from_mesh(BLOCK, ground=ContactPlane(), young_pa=1e6)
    for _ in range(20):
        body.step(1 / 60)
    body.velocities[:, 1] += 2.0
    start = body.masses @ body.velocities[:, 1] / body.masses.sum()
    body.step(1 / 60)
    after = body.masses @ body.velocities[:, 1] / body.masses.sum()
    assert after == pytest.approx(start - G / 60, abs=0.05)


@pytest.mark.parametrize("dt", [1 / 30, 1 / 60, 1 / 200])
def test_a_body_thrown_at_the_ground_neither_sinks_nor_explodes(dt: float):
    mesh = TetMesh.box((0.2, 0.1, 0.1), (6, 3, 3))
    m = Muscles(mesh, [ActivationSpline([(0.02, 0.05, 0.05), (0.18, 0.05, 0.05)])])
    body = SoftBody.from_mesh(mesh, muscles=m, ground=ContactPlane(friction=0.6), young_pa=3e4)
    body.positions[:, 1] += 1.0
    body.velocities[:] += (3.0, -4.0, 1.0)
    lowest, fastest = 0.0, 0.0
    for k in range(int(0.8 / dt)):
        body.step(dt, activations=[0.5 + 0.5 * np.sin(20.0 * k * dt)])
        lowest = min(lowest, float(body.positions[:, 1].min()))
        fastest = max(fastest, float(np.linalg.norm(body.velocities, axis=1).max()))
    assert -lowest < 0.03 * 0.1
    assert fastest < 10.0  # it falls at 6.5 m/s
    assert body.report.inverted == 0


def test_friction_never_reverses_a_motion():
    from marey.muscle.body.contact import add_explicit_contact

    x, v, m, springs = particles([-1e-3, -1e-3], [0.0, 0.0])
    v[:, 0] = 1e-5, 0.5
    ground = ContactPlane(friction=50.0).compile(x, m, springs)
    for h in (1e-4, 1e-2, 1.0):
        forces, loads = np.zeros((2, 3)), np.zeros(2)
        add_explicit_contact(StepStart(x, v, m, h), ground, False, forces, loads)
        after = v[:, 0] + h * forces[:, 0] / m
        assert (after >= -1e-15).all() and (after <= v[:, 0]).all()


def drag(ground: ContactPlane, velocity: tuple[float, float, float]):
    """Friction over the normal force on one node of a body along x."""
    from marey.muscle.body.contact import add_implicit_contact

    x = np.array([(0.0, 0, 0), (0.1, 0, 0), (0.2, 0, 0)])
    m, loads = np.full(3, 0.01), np.ones(3)
    arrays = ground.compile(x, m, np.array([[0, 1], [1, 2]]))
    v = np.tile(np.asarray(velocity), (3, 1))
    forces, blocks = np.zeros((3, 3)), np.zeros((3, 3, 3))
    state = ContactState(np.ones(3, dtype=np.int64), loads)
    add_implicit_contact(StepStart(x, v, m, 1e-3), arrays, state, v, forces, blocks)
    flat = blocks[1] / 1e-3
    assert np.linalg.eigvalsh(flat).min() > -1e-12  # it only takes energy
    return -(flat @ v[1])


def test_friction_differs_forwards_backwards_and_sideways():
    snake = ContactPlane(friction=(0.1, 0.5, 1.0), axis=(1.0, 0.0, 0.0))
    np.testing.assert_allclose(drag(snake, (0.3, 0, 0)), (-0.1, 0, 0), atol=1e-4)
    np.testing.assert_allclose(drag(snake, (-0.3, 0, 0)), (0.5, 0, 0), atol=1e-4)
    np.testing.assert_allclose(drag(snake, (0, 0, 0.3)), (0, 0, -1.0), atol=1e-4)


def test_friction_between_the_axes_is_an_ellipse():
    snake = ContactPlane(friction=(0.1, 0.1, 1.0), axis=(1.0, 0.0, 0.0))
    for angle in np.linspace(0.1, 1.5, 7):
        f = drag(snake, (np.cos(angle), 0.0, np.sin(angle)))
        assert (f[0] / 0.1) ** 2 + (f[2] / 1.0) ** 2 == pytest.approx(1.0, abs=1e-3)


def test_isotropic_friction_opposes_the_motion():
    f = drag(ContactPlane(friction=0.6), (0.3, 0.0, -0.4))
    np.testing.assert_allclose(f, (-0.36, 0.0, 0.48), atol=1e-4)


def test_the_axis_turns_with_the_body():
    nodes = Lattice.from_mask(np.ones((6, 2, 2), dtype=bool), 0.1)
    pairs = find_axis_pairs(nodes.nodes, nodes.cells, np.array([1.0, 0.0, 0.0]))
    along = nodes.nodes[pairs[:, 1]] - nodes.nodes[pairs[:, 0]]
    assert (along[:, 0] > 0.15).all() and np.abs(along[:, 1:]).max() == 0.0
    turned = nodes.nodes[:, [2, 1, 0]]
    assert ((turned[pairs[:, 1]] - turned[pairs[:, 0]])[:, 2] > 0.15).all()


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: ContactPlane(normal=(0, 0, 0)), "direction"),
        (lambda: ContactPlane(friction=-0.1), "friction"),
        (lambda: ContactPlane(friction=(0.1, 0.2)), "friction"),  # pyright: ignore[reportArgumentType]  # what is tested
        (lambda: ContactPlane(friction=(0.1, 0.5, 1.0)), "axis"),
        (lambda: ContactPlane(stiffness=0.0), "stiffness"),
        (lambda: ContactPlane(damping=-1.0), "damping"),
        (lambda: ContactPlane(point=(0, float("nan"), 0)), "nan"),
        (lambda: ContactPlane(smoothing_m_s=0.0), "smoothing"),
    ],
)
def test_bad_grounds_are_named(make, word: str):
    with pytest.raises(InputError, match=word):
        make()

"""The simulation in the scene, without a browser: body, arrows, support, balls, hand, tilted ground, plots."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from marey import samples
from marey.lie import SO3
from marey.studio.document.simulate.arena import SimulationDocument
from marey.studio.document.simulate.figure import FigureFactory, SimulationSettings
from marey.studio.document.simulate.recording import KEPT, SupportState
from marey.studio.modes.simulate import SIDE_M, SIDE_PX, SimulationPlots, support_svg
from marey.studio.view.simulate import (
    HIDDEN_M,
    MAX_ARROWS,
    MAX_CORNERS,
    MAX_M,
    SimulationStage,
    arrow_ends,
    ball_mesh,
    fan_faces,
    ground_forces,
    outer_forces,
    polygon_outline,
)

WALK = samples.walk()
FIGURES = FigureFactory(WALK)


@pytest.fixture
def arena() -> SimulationDocument:
    return SimulationDocument(FIGURES, 30)


def run(arena: SimulationDocument, steps: int) -> None:
    for _ in range(steps):
        arena._step()


@pytest.fixture
def drags() -> list:
    return []


@pytest.fixture
def stage(server, drags: list) -> SimulationStage:
    return SimulationStage(server.scene, lambda *drag: drags.append(drag))


def test_the_body_is_drawn_where_its_joints_are(stage: SimulationStage, arena: SimulationDocument) -> None:
    run(arena, 20)
    stage.draw(arena, arena.place())
    joints = arena.simulator.mechanics().joints
    for joint, node in stage._body._nodes.items():
        np.testing.assert_allclose(node.batched_positions[0], joints[joint], atol=1e-5)
    assert stage._root.visible
    stage.hide()
    assert not stage._root.visible


def test_a_drag_tells_joint_and_place_in_the_world(
    stage: SimulationStage, arena: SimulationDocument, drags: list
) -> None:
    stage.draw(arena, (2.0, -3.0))
    node = stage._body._nodes[15]
    handler = node._impl.drag_cb[0].callback
    event = SimpleNamespace(phase="start", start_position=(0.1, 1.5, 0.2), end_position=(9.0, 9.0, 9.0))
    asyncio.run(handler(event))
    event.phase, event.end_position = "update", (0.3, 1.6, 0.2)
    asyncio.run(handler(event))
    assert [(phase, joint) for phase, joint, _ in drags] == [("start", 15), ("update", 15)]
    np.testing.assert_allclose(drags[0][2], [2.1, 1.5, -2.8])
    np.testing.assert_allclose(drags[1][2], [2.3, 1.6, -2.8])


def test_another_body_replaces_the_first(stage: SimulationStage, arena: SimulationDocument) -> None:
    stage.draw(arena, (0.0, 0.0))
    first = stage._body
    stage.draw(SimulationDocument(FigureFactory(samples.load("deepmimic/walk")), 0), (0.0, 0.0))
    assert stage._body is not first and len(stage._body._nodes) <= 15


def test_ground_forces_carry_the_figure(arena: SimulationDocument) -> None:
    run(arena, 400)  # it lies still by now
    places, forces = ground_forces(arena)
    weight = arena.body.mass_kg * 9.81
    assert forces[:, 1].sum() == pytest.approx(weight, rel=0.1)
    assert np.abs(places[:, 1]).max() < 0.05


def test_outer_forces_are_those_of_hand_and_push(arena: SimulationDocument) -> None:
    arena.grab(15, arena.simulator.mechanics().joints[15])
    arena.pull(arena.hand.target + np.array([0.0, 0.4, 0.0]))
    arena.push("pelvis", 90.0, 0.0, 120.0, 0.1)
    run(arena, 1)
    places, forces = outer_forces(arena)
    assert forces.shape == (2, 3) and forces[0, 1] > 50.0
    np.testing.assert_allclose(forces[1], [120.0, 0.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(places[1], arena.simulator.mechanics().joints[0], atol=1e-9)


def test_arrows_are_as_long_as_forces_are_large_up_to_an_end() -> None:
    places, forces = np.zeros((3, 3)), np.array([[0.0, 700.0, 0.0], [70.0, 0.0, 0.0], [0.0, 0.0, -1e6]])
    ends = arrow_ends(places, forces, 700.0)
    lengths = np.linalg.norm(ends[:3, 1] - ends[:3, 0], axis=1)
    np.testing.assert_allclose(lengths, [MAX_M, 0.8, 0.08], atol=1e-6)
    assert ends.shape == (MAX_ARROWS, 2, 3) and (ends[3:, :, 1] < -900.0).all()


def test_an_outline_has_one_size_and_keeps_its_corners() -> None:
    square = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    vertices = polygon_outline(square)
    assert vertices.shape == (MAX_CORNERS, 3) and fan_faces().max() == MAX_CORNERS - 1
    np.testing.assert_allclose(vertices[:4, [0, 2]], square[:, [0, 2]])
    a, b, c = (vertices[fan_faces()[:, k]][:, [0, 2]] for k in range(3))
    (u, v), (x, y) = (b - a).T, (c - a).T
    areas = 0.5 * np.abs(u * y - v * x)
    assert areas.sum() == pytest.approx(1.0)
    many = np.stack([np.cos(np.linspace(0, 6, 40)), np.zeros(40), np.sin(np.linspace(0, 6, 40))], axis=1)
    assert polygon_outline(many).shape == (MAX_CORNERS, 3)


def test_the_ground_that_is_seen_is_the_ground_that_holds(stage: SimulationStage, arena: SimulationDocument) -> None:
    arena.ask("slope_deg", 12.0)
    stage.draw(arena, (0.0, 0.0))
    slope = stage._marks._slope
    assert slope.visible
    np.testing.assert_allclose(SO3(np.array(slope.wxyz)) @ np.array([0.0, 1.0, 0.0]), arena.ground.normal, atol=1e-9)
    stand = arena.standing()
    np.testing.assert_allclose(arena.ground.gaps(stand.foot), 0.0, atol=1e-9)
    np.testing.assert_allclose(arena.ground.gaps(stand.corners), 0.0, atol=1e-9)
    arena.ask("slope_deg", 0.0)
    stage.draw(arena, (0.0, 0.0))
    assert not slope.visible


def test_balls_hand_and_support_come_and_go(stage: SimulationStage, arena: SimulationDocument) -> None:
    arena.throw("chest", 0.0, 5.0, 1.0)
    arena.grab(15, arena.simulator.mechanics().joints[15])
    run(arena, 2)
    stage.draw(arena, (0.0, 0.0))
    marks = stage._marks
    mass, foot, hand, *balls = marks._spheres._node.batched_positions
    assert [ball[1] > HIDDEN_M for ball in balls] == [True, False, False, False]
    np.testing.assert_allclose(balls[0], arena.balls[0].place, atol=1e-5)
    np.testing.assert_allclose(hand, arena.hand.target, atol=1e-5)
    np.testing.assert_allclose(mass - foot, [0.0, arena.standing().com[1], 0.0], atol=1e-2)
    assert marks._string._node.visible
    arena.release()
    arena.show("Support", False)
    arena.show("Centre of mass", False)
    arena.show("Forces", False)
    stage.draw(arena, (0.0, 0.0))
    assert (marks._spheres._node.batched_positions[:3] == HIDDEN_M).all()
    assert not any(m._node.visible for m in (marks._string, marks._support, marks._plumb, marks._outer_forces))


def test_a_ball_is_round_and_faces_outwards() -> None:
    vertices, faces = ball_mesh()
    np.testing.assert_allclose(np.linalg.norm(vertices, axis=1), 1.0, atol=1e-6)
    a, b, c = (vertices[faces[:, k]].astype(np.float64) for k in range(3))
    volume = float(np.einsum("fi,fi->f", a, np.cross(b, c)).sum()) / 6.0
    assert 0.9 * 4.0 / 3.0 * np.pi < volume < 4.0 / 3.0 * np.pi


def test_a_push_is_seen_a_little_longer_than_it_lasts(arena: SimulationDocument) -> None:
    arena.push("pelvis", 90.0, 0.0, 120.0, 0.1)
    run(arena, 15)
    assert not arena.pulls and len(outer_forces(arena)[0]) == 1
    run(arena, 30)
    assert len(outer_forces(arena)[0]) == 0


def test_the_view_from_above_has_left_on_the_left() -> None:
    corners = np.array([[0.1, 0.0, -0.1], [0.1, 0.0, 0.1], [-0.1, 0.0, 0.1], [-0.1, 0.0, -0.1]])
    stand = SupportState(np.array([0.05, 0.9, 0.0]), np.array([0.05, 0.0, 0.0]), corners, 0.05)
    svg = support_svg(stand)
    x = 0.5 * SIDE_PX - 0.05 * SIDE_PX / SIDE_M
    assert f'cx="{x:.1f}"' in svg and "+5.0 cm" in svg
    out = support_svg(SupportState(np.array([9.0, 0.9, 0.0]), np.array([9.0, 0.0, 0.0]), corners, -8.9))
    assert 'cx="4.0"' in out and "#cc3b3b" in out
    assert "in the air" in support_svg(SupportState(np.zeros(3), np.zeros(3), np.zeros((0, 3)), None))


def test_a_centre_of_mass_outside_its_support_has_a_negative_margin(arena: SimulationDocument) -> None:
    arena.choose("balance")
    run(arena, 30)
    assert arena.standing().margin_m > 0.0
    arena.push("chest", 0.0, 0.0, 1000.0, 0.2)
    run(arena, 40)
    assert arena.standing().margin_m is None or arena.standing().margin_m < 0.0


def test_plots_follow_now_and_then_and_keep_a_window(server, arena: SimulationDocument) -> None:
    plots = SimulationPlots(server.gui)
    run(arena, 8)
    plots.refresh(arena)
    first = plots._energy.data
    run(arena, 8)
    plots.refresh(arena)
    assert plots._energy.data is first  # too soon
    for _ in range(6):
        plots.refresh(arena)
    times, kinetic, potential, total = plots._energy.data
    np.testing.assert_allclose(kinetic + potential, total, rtol=1e-9)
    assert len(times) == len(arena.trace.table()) > 2
    for _ in range(2 * KEPT):
        arena.trace._skipped = 10
        arena.trace.note(arena.time_s, arena.simulator, 0.0)
    assert len(arena.trace.table()) == KEPT


def test_a_puppet_shows_what_its_strings_do(arena: SimulationDocument) -> None:
    arena.choose("puppet")
    arena.ask("alpha", 0.9)
    arena.grab(15, arena.simulator.mechanics().joints[15])
    arena.pull(arena.hand.target + np.array([0.0, 0.5, 0.0]))
    run(arena, 80)
    (place, force), *_ = arena.will.outer()
    np.testing.assert_allclose(place, arena.simulator.mechanics().com, atol=1e-12)
    assert force[1] > 100.0 and "strings pull" in arena.will.words  # they hold it up


def test_every_will_is_drawn(stage: SimulationStage) -> None:
    for will in ("free", "puppet", "balance", "track"):
        arena = SimulationDocument(FIGURES, 30, SimulationSettings(will=will))
        run(arena, 3)
        stage.draw(arena, arena.place())
        assert np.isfinite(stage._marks._spheres._node.batched_positions).all()

"""Friction: what stands still, what slides, and how fast."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import FloatArray
from marey.dynamics import GRAVITY, Body
from marey.lie import SO3
from marey.models import PoseModel
from marey.motion import Motion
from marey.simulate import Ground, PointForce, Simulator, contact_spheres
from marey.skeleton import Pose, Skeleton

H = 0.01
CONES = ("coulomb", "staggered")


def sled() -> Body:
    """A rigid table of four legs with all its mass low in the middle: it slides and does not topple."""
    arms = [[0.3, -0.05, 0.3], [0.3, -0.05, -0.3], [-0.3, -0.05, 0.3], [-0.3, -0.05, -0.3]]
    shape = Skeleton(("middle", "a", "b", "c", "d"), [-1, 0, 0, 0, 0], [[0, 0, 0], *arms])
    masses, inertias = [10.0, 0, 0, 0, 0], np.zeros((5, 3, 3))
    inertias[0] = np.diag([0.5, 1.0, 0.5])
    return Body(shape, masses, np.zeros((5, 3)), inertias, height_m=0.1)


def on_slope(slope: float, friction: str, mu: float, *, facets: int = 4) -> tuple[Simulator, FloatArray]:
    """A sled at rest on a slope that rises along z, and the downhill direction."""
    body = sled()
    slant = Ground.from_slope(slope, friction="coulomb", mu=mu)
    ground = Ground(slant.point, slant.normal, friction, mu, facets)  # pyright: ignore[reportArgumentType]
    simulator = Simulator(body, ground=ground)
    spheres, _ = contact_spheres(body.skeleton)
    turn = SO3.exp([-slope, 0.0, 0.0])
    rotations = SO3.concatenate([turn.reshape(1), SO3.identity(4)])
    lowest = min(o[1] - r for o, r in zip(spheres.offsets, spheres.radii, strict=True))
    simulator.reset(Pose(body.skeleton, -lowest * ground.normal, rotations))
    return simulator, np.array([0.0, -np.sin(slope), -np.cos(slope)])


@pytest.mark.parametrize("slope_deg", [5.0, 20.0, 40.0])
def test_tournier_53_on_a_slope_without_friction_a_figure_slides_at_g_sine(slope_deg: float) -> None:
    slope = np.deg2rad(slope_deg)
    simulator, downhill = on_slope(slope, "frictionless", 0.5)
    for _ in range(100):
        state = simulator.step(H)
    speed = float(state.velocity[3:6] @ downhill)
    assert speed == pytest.approx(GRAVITY * np.sin(slope) * 1.0, rel=0.02)


@pytest.mark.parametrize("friction", CONES)
@pytest.mark.parametrize("mu", [0.2, 0.5, 0.9])
def test_tournier_53_a_figure_sticks_below_and_slides_above_the_angle_of_friction(friction: str, mu: float) -> None:
    moved: list[float] = []
    for part in (0.98, 1.02):
        simulator, downhill = on_slope(float(np.arctan(part * mu)), friction, mu)
        start = simulator.state.place
        for _ in range(100):
            simulator.step(H)
        moved.append(float((simulator.state.place - start) @ downhill))
    assert abs(moved[0]) < 1e-4
    slope = np.arctan(1.02 * mu)
    expected = 0.5 * GRAVITY * (np.sin(slope) - mu * np.cos(slope))
    assert moved[1] == pytest.approx(expected, rel=0.3)  # a small difference of large forces
    assert moved[1] > 20 * abs(moved[0])


@pytest.mark.parametrize("friction", CONES)
@pytest.mark.parametrize("facets", [4, 8])
def test_a_sliding_figure_slows_down_at_mu_g(friction: str, facets: int) -> None:
    simulator, _ = on_slope(0.0, friction, 0.4, facets=facets)
    heading = np.array([np.cos(0.7), 0.0, np.sin(0.7)])
    simulator.reset(simulator.state.pose, velocity=np.concatenate([np.zeros(3), 3.0 * heading]))
    for _ in range(40):
        state = simulator.step(H)
    speed = state.velocity[3:6]
    assert speed @ heading == pytest.approx(3.0 - 0.4 * GRAVITY * 0.4, rel=0.03)
    assert np.linalg.norm(speed - (speed @ heading) * heading) < 0.02
    for _ in range(60):
        state = simulator.step(H)
    assert np.linalg.norm(state.velocity[3:6]) < 1e-6  # and then it stands


@pytest.mark.parametrize("friction", CONES)
def test_a_figure_that_slides_stays_on_the_ground(friction: str) -> None:
    simulator, _ = on_slope(0.0, friction, 0.6)
    before = simulator.state.place[1]
    simulator.reset(simulator.state.pose, velocity=[0, 0, 0, 4.0, 0, 0])
    heights = [simulator.step(H).place[1] - before for _ in range(50)]
    assert max(heights) < 4e-3
    assert min(heights) > -1e-3


def test_a_box_that_sticks_needs_no_friction_coefficient() -> None:
    simulator, _ = on_slope(np.deg2rad(60.0), "stick", 0.1)
    start = simulator.state.place
    for _ in range(100):
        simulator.step(H)
    assert np.linalg.norm(simulator.state.place - start) < 1e-4


@pytest.mark.parametrize("friction", CONES)
def test_impulses_stay_inside_the_cone(friction: str) -> None:
    simulator, _ = on_slope(0.0, friction, 0.5, facets=8)
    simulator.reset(simulator.state.pose, velocity=[0, 2.0, 0, 2.0, 0, 1.0])
    for _ in range(40):
        simulator.step(H)
        assert simulator.contacts is not None
        push, side = simulator.contacts.impulses[:, 1], simulator.contacts.impulses[:, [0, 2]]
        assert (push >= -1e-12).all()
        widest = 0.5 if friction == "coulomb" else 0.5 * np.sqrt(2.0)  # the corner of a box
        assert np.all(np.linalg.norm(side, axis=1) <= widest * push + 1e-4)


def test_friction_of_nothing_is_ice() -> None:
    ice, _ = on_slope(0.3, "coulomb", 0.0)
    smooth, _ = on_slope(0.3, "frictionless", 0.5)
    for _ in range(20):
        ice.step(H)
        smooth.step(H)
    np.testing.assert_allclose(ice.state.velocity, smooth.state.velocity, atol=1e-9)


@pytest.mark.mocap
@pytest.mark.parametrize("friction", ["stick", *CONES])
def test_tournier_53_feet_that_stand_do_not_slip(
    d1_body: Body, c1_model: PoseModel, d1_walk: Motion, friction: str
) -> None:
    """A stiff figure sways on its feet for a second: corners that stay on the ground stay where they are."""
    simulator = Simulator(d1_body, c1_model, damping="energetic", damping_rate=300.0, ground=Ground(friction=friction))
    spheres, _ = contact_spheres(d1_body.skeleton)
    simulator.reset(d1_walk[0])
    shape, here = simulator.state.pose, simulator.mechanics()
    low = min(here.point(int(j), o)[1] - r for j, o, r in zip(*spheres, strict=True))
    simulator.reset(Pose(shape.skeleton, shape.root_position - [0.0, low, 0.0], shape.rotations))
    first: dict[str, FloatArray] = {}
    slip = 0.0
    for _ in range(100):
        simulator.step(H)
        contacts = simulator.contacts
        assert contacts is not None
        touching = {
            name: contacts.places[i]
            for i, name in enumerate(contacts.names)
            if contacts.impulses[i, 1] > 0.0 and name.split("_")[0] in ("left", "right") and not name.endswith("toe")
        }
        first = {name: first.get(name, place) for name, place in touching.items()}
        slip = max([slip, *(float(np.linalg.norm((touching[n] - first[n])[[0, 2]])) for n in touching)])
    assert first
    assert slip < 1e-3


@pytest.mark.mocap
@pytest.mark.parametrize("friction", CONES)
def test_a_foot_that_carries_the_body_stands_though_the_leg_pushes_hard(
    d1_body: Body, c1_model: PoseModel, d1_walk: Motion, friction: str
) -> None:
    """A leg is light: without friction its foot would slide off at once, but the whole weight holds it."""
    simulator = Simulator(d1_body, c1_model, damping="energetic", damping_rate=300.0, ground=Ground(friction=friction))
    spheres, names = contact_spheres(d1_body.skeleton)
    simulator.reset(d1_walk[0])
    shape, here = simulator.state.pose, simulator.mechanics()
    low = min(here.point(int(j), o)[1] - r for j, o, r in zip(*spheres, strict=True))
    simulator.reset(Pose(shape.skeleton, shape.root_position - [0.0, low, 0.0], shape.rotations))
    for _ in range(20):
        simulator.step(H)
    contacts = simulator.contacts
    assert contacts is not None
    loaded = names.index(contacts.names[int(np.argmax(contacts.impulses[:, 1]))])
    joint, offset = int(spheres.joints[loaded]), spheres.offsets[loaded]
    before = simulator.mechanics().point(joint, offset)
    for _ in range(15):
        simulator.step(H, [PointForce(d1_body.skeleton.names[joint], [150.0, 0.0, 0.0], offset)])
    assert np.linalg.norm((simulator.mechanics().point(joint, offset) - before)[[0, 2]]) < 5e-3

"""A figure on the ground: what touches, how it settles, and what carries it."""

from __future__ import annotations

import time

import numpy as np
import pytest

from marey.base import FloatArray, InputError, UnknownNameError
from marey.dynamics import GRAVITY, Body
from marey.kinematics import EllipsoidLimits
from marey.lie import SO3
from marey.models import PoseModel
from marey.motion import Motion
from marey.simulate import FRICTIONS, Ground, Simulator, contact_spheres
from marey.skeleton import HUMAN, Pose

H = 0.01


def lowest(simulator: Simulator) -> float:
    """Height [m] of the lowest point of a figure above the ground y = 0."""
    spheres, _ = contact_spheres(simulator.body.skeleton)
    here = simulator.mechanics()
    places = (here.point(int(j), o)[1] - r for j, o, r in zip(*spheres, strict=True))
    return min(places)


def put(simulator: Simulator, pose: Pose, height_m: float) -> None:
    """Put a figure into a pose, its lowest point at a height."""
    simulator.reset(pose)
    shape = simulator.state.pose
    up = np.array([0.0, height_m - lowest(simulator), 0.0])
    simulator.reset(Pose(shape.skeleton, shape.root_position + up, shape.rotations))


def energy(simulator: Simulator) -> float:
    v = simulator.state.velocity
    return float(0.5 * v @ simulator.mechanics().inertia @ v)


def drop(simulator: Simulator, motion: Motion) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Twelve poses dropped from 5 cm: lowest points (12,) [m], energies (12,) [J] after two and four seconds."""
    deepest, energies = np.zeros(12), np.empty((12, 2))
    for n in range(12):
        put(simulator, motion[25 * n], 0.05)
        for half in range(2):
            for _ in range(200):
                simulator.step(H)
                deepest[n] = min(deepest[n], lowest(simulator))
            energies[n, half] = energy(simulator)
    return deepest, energies[:, 0], energies[:, 1]


@pytest.mark.mocap
@pytest.mark.parametrize("friction", FRICTIONS)
def test_tournier_52_a_dropped_figure_settles(
    d1_body: Body, c1_model: PoseModel, d1_walk: Motion, friction: str
) -> None:
    simulator = Simulator(d1_body, c1_model, damping="energetic", damping_rate=5.0, ground=Ground(friction=friction))
    deepest, _, later = drop(simulator, d1_walk)
    assert deepest[0] > -2e-3
    assert (deepest > -2e-3).sum() >= 10  # one pose goes 12 mm deep where points stick, one 2.1 mm on ice
    # How long a limp figure tumbles differs from pose to pose; on ice it slides on for ever
    assert (later < 1e-3).sum() >= 6 or friction == "frictionless"


@pytest.mark.mocap
@pytest.mark.xfail(strict=True, reason="about half of the poses still tumble after 2 s (22 of 49 have settled)")
def test_tournier_52_every_pose_settles_within_two_seconds(d1_body: Body, c1_model: PoseModel, d1_walk: Motion) -> None:
    simulator = Simulator(d1_body, c1_model, damping="energetic", damping_rate=5.0, ground=Ground())
    assert (drop(simulator, d1_walk)[1] < 1e-3).all()


@pytest.mark.mocap
def test_a_figure_at_rest_is_carried_by_its_weight_and_nothing_else(
    d1_body: Body, c1_model: PoseModel, d1_walk: Motion
) -> None:
    simulator = Simulator(d1_body, c1_model, damping="energetic", damping_rate=5.0, ground=Ground())
    put(simulator, d1_walk[0], 0.0)
    # It tumbles for some seconds; then each single step carries its weight
    for _ in range(1500):
        simulator.step(H)
        if energy(simulator) < 1e-9:
            break
    for _ in range(100):
        simulator.step(H)
        assert simulator.contacts is not None
        np.testing.assert_allclose(simulator.contacts.forces.sum(axis=0), [0.0, 70.0 * GRAVITY, 0.0], atol=2.0)
    contacts = simulator.contacts
    assert contacts is not None
    push = contacts.impulses[:, 1]
    assert (push >= -1e-12).all()
    side = np.linalg.norm(contacts.impulses[:, [0, 2]], axis=1)
    assert (side <= 0.8 * push + 1e-9).all()  # inside the cone
    assert (push > 0.0).sum() >= 3


@pytest.mark.mocap
def test_impulses_of_contacts_are_the_change_of_momentum(d1_body: Body, c1_model: PoseModel, d1_walk: Motion) -> None:
    simulator = Simulator(d1_body, c1_model, ground=Ground())
    put(simulator, d1_walk[0], 0.02)
    for _ in range(30):
        here, before = simulator.mechanics(), simulator.state.velocity
        after = simulator.step(H).velocity
        assert simulator.contacts is not None
        if len(simulator.steps_made) == 1:
            change = d1_body.mass_kg * (after[3:6] - before[3:6] + H * np.array([0.0, GRAVITY, 0.0]))
            np.testing.assert_allclose(simulator.contacts.impulses.sum(axis=0), change, atol=1e-9)
            arms = simulator.contacts.places - here.com
            twist = np.cross(arms, simulator.contacts.impulses).sum(axis=0)
            assert simulator.outcome is not None
            np.testing.assert_allclose(here.frames[0] @ simulator.outcome.impulse[:3], twist, atol=1e-9)


@pytest.mark.mocap
def test_a_figure_in_the_air_feels_no_ground(d1_body: Body, d1_model: PoseModel, d1_walk: Motion) -> None:
    held, free = Simulator(d1_body, d1_model, ground=Ground()), Simulator(d1_body, d1_model)
    put(held, d1_walk[0], 1.0)
    free.reset(held.state.pose)
    for _ in range(30):
        held.step(H)
        free.step(H)
    np.testing.assert_allclose(held.state.velocity, free.state.velocity, rtol=0, atol=1e-9)


@pytest.mark.mocap
@pytest.mark.parametrize("friction", FRICTIONS)
def test_contacts_add_no_energy_but_what_lifts_out_of_the_ground(
    d1_body: Body, d1_model: PoseModel, d1_walk: Motion, friction: str
) -> None:
    simulator = Simulator(d1_body, d1_model, damping="energetic", damping_rate=3.0, ground=Ground(friction=friction))
    put(simulator, d1_walk[0], 0.3)

    def total() -> float:
        return energy(simulator) + 70.0 * GRAVITY * simulator.mechanics().com[1]

    before = total()
    for _ in range(150):
        simulator.step(H)
        after = total()
        assert simulator.outcome is not None
        repair = max(0.0, float(simulator.outcome.impulse @ simulator.state.velocity))  # of penetrations
        assert after <= before + repair + 0.02 * max(1.0, energy(simulator))  # the explicit step errs by this much
        before = after


@pytest.mark.mocap
def test_a_figure_that_starts_inside_the_ground_comes_out_slowly(
    d1_body: Body, d1_model: PoseModel, d1_walk: Motion
) -> None:
    simulator = Simulator(d1_body, d1_model, damping="energetic", damping_rate=5.0, ground=Ground())
    put(simulator, d1_walk[0], -0.2)
    for _ in range(100):
        state = simulator.step(H)
        assert np.linalg.norm(state.velocity[3:6]) < 2.0
    assert lowest(simulator) > -5e-3


@pytest.mark.mocap
def test_a_corner_of_two_planes_holds_a_figure_on_both_sides(
    d1_body: Body, d1_model: PoseModel, d1_walk: Motion
) -> None:
    walls = [Ground(friction="frictionless"), Ground(point=(0, 0, 5.0), normal=(0, 0, -1), friction="frictionless")]
    simulator = Simulator(d1_body, d1_model, damping="energetic", damping_rate=5.0, gravity=(0, -7, 7), ground=walls)
    put(simulator, d1_walk[0], 0.05)
    for _ in range(250):
        simulator.step(H)
    spheres, _ = contact_spheres(d1_body.skeleton)
    here = simulator.mechanics()
    tops = [here.point(int(j), o)[2] + r for j, o, r in zip(*spheres, strict=True)]
    assert max(tops) == pytest.approx(5.0, abs=5e-3)
    assert lowest(simulator) == pytest.approx(0.0, abs=5e-3)


def test_every_foot_has_four_corners_and_the_body_balls_all_over() -> None:
    spheres, names = contact_spheres(HUMAN)
    corners = [n for n, r in zip(names, spheres.radii, strict=True) if r == 0.0]
    assert len([n for n in corners if n.startswith("left")]) == len([n for n in corners if n.startswith("right")]) == 4
    carriers = {HUMAN.names[j] for j in spheres.joints}
    assert {"pelvis", "head", "left_wrist", "right_wrist", "left_ankle", "right_ankle"} <= carriers
    assert len(set(names)) == len(names)


def test_the_corners_of_a_sole_lie_in_one_plane_in_the_calibration_pose() -> None:
    from marey.skeleton import t_pose

    spheres, _ = contact_spheres(HUMAN)
    pose = t_pose(HUMAN)
    places = pose.joint_positions()[spheres.joints] + pose.joint_rotations()[spheres.joints] @ spheres.offsets
    heights = (places[:, 1] - spheres.radii)[spheres.radii == 0.0]
    assert np.ptp(heights) < 1e-9
    assert (places[:, 1] - spheres.radii).min() == pytest.approx(heights.min(), abs=1e-9)


def test_a_sloped_ground_rises_where_it_should() -> None:
    ground = Ground.from_slope(np.deg2rad(30.0), uphill=(0, 0, 1))
    assert ground.gaps((0.0, np.tan(np.deg2rad(30.0)), 1.0)) == pytest.approx(0.0, abs=1e-12)
    assert ground.gaps((0.0, 1.0, 0.0)) == pytest.approx(np.cos(np.deg2rad(30.0)))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"normal": (0, 0, 0)}, "normal"),
        ({"mu": -0.1}, "mu"),
        ({"mu": np.nan}, "mu"),
        ({"facets": 5}, "facets"),
        ({"gamma": 0.0}, "gamma"),
        ({"point": (0, np.inf, 0)}, "point"),
    ],
)
def test_a_ground_that_makes_no_sense_is_refused(arguments: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        Ground(**arguments)  # pyright: ignore[reportArgumentType]


def test_unknown_friction_and_slopes_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="sticky"):
        Ground(friction="sticky")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="slope"):
        Ground.from_slope(2.0)
    with pytest.raises(InputError, match="uphill"):
        Ground.from_slope(0.1, uphill=(0, 1, 0))


@pytest.mark.mocap
def test_a_ground_of_another_kind_is_refused(d1_body: Body, d1_model: PoseModel) -> None:
    with pytest.raises(InputError, match="ground"):
        Simulator(d1_body, d1_model, ground=["floor"])  # pyright: ignore[reportArgumentType]


@pytest.mark.mocap
def test_rows_for_a_controller_come_in_every_form_of_friction(
    d1_body: Body, c1_model: PoseModel, d1_walk: Motion
) -> None:
    simulator = Simulator(d1_body, c1_model, damping="energetic", damping_rate=300.0, ground=Ground(mu=0.6))
    put(simulator, d1_walk[0], 0.0)
    for _ in range(20):
        simulator.step(H)
    constrainer, here = simulator.constrainer, simulator.mechanics()
    assert constrainer is not None
    asked = (here, simulator.state, H)
    forms = {f: constrainer.rows(*asked, friction=f) for f in FRICTIONS}
    count = len(forms["frictionless"])
    assert count >= 4
    np.testing.assert_allclose(forms["frictionless"].directions, np.tile([0.0, 1.0, 0.0], (count, 1)), atol=1e-12)
    pairs = forms["staggered"]
    sides = np.flatnonzero(pairs.partners >= 0)
    assert len(sides) == 2 * len(np.unique(pairs.partners[sides]))
    np.testing.assert_allclose(pairs.directions[sides, 1], 0.0, atol=1e-12)
    np.testing.assert_allclose(pairs.directions[pairs.partners[sides], 1], 1.0)
    assert (pairs.grips[sides] == 0.6).all()
    assert (pairs.owners[sides] == pairs.owners[pairs.partners[sides]]).all()
    facets = forms["coulomb"].directions
    slanted = np.linalg.norm(facets[:, [0, 2]], axis=1)
    assert set(np.round(slanted, 9)) <= {0.0, 0.6}
    assert len(constrainer.rows(*asked)) == len(forms["coulomb"])
    for rows in forms.values():  # a row is the speed of its point along its direction
        for i in range(len(rows)):
            name = rows.names[i].removeprefix("contact of ")
            at = contact_spheres(d1_body.skeleton)[1].index(name)
            joint, offset, radius = (part[at] for part in contact_spheres(d1_body.skeleton)[0])
            low = offset - radius * here.frames[joint].T @ [0.0, 1.0, 0.0]
            np.testing.assert_allclose(rows.J[i], rows.directions[i] @ here.point_jacobian(joint, low), atol=1e-12)
    with pytest.raises(UnknownNameError, match="glue"):
        constrainer.rows(*asked, friction="glue")  # pyright: ignore[reportArgumentType]


@pytest.mark.mocap
def test_the_same_drop_twice_gives_the_same_bits(d1_body: Body, d1_model: PoseModel, d1_walk: Motion) -> None:
    def run() -> np.ndarray:
        simulator = Simulator(d1_body, d1_model, ground=Ground())
        put(simulator, d1_walk[0], 0.05)
        return np.array([simulator.step(H).velocity for _ in range(60)])

    assert (run() == run()).all()


@pytest.mark.timing
@pytest.mark.mocap
def test_tournier_54_a_step_with_contacts_and_limits_is_quick(
    d1_body: Body, c1_model: PoseModel, d1_walk: Motion
) -> None:
    limits = EllipsoidLimits.from_clips(d1_walk)
    simulator = Simulator(d1_body, c1_model, damping="energetic", ground=Ground(), limits=limits)
    put(simulator, d1_walk[0], 0.0)
    spent: list[float] = []
    for _ in range(300):
        began = time.thread_time()
        simulator.step(H)
        seconds = time.thread_time() - began
        assert simulator.contacts is not None
        if len(simulator.contacts) >= 8:
            spent.append(seconds)
    assert len(spent) > 30
    assert np.median(spent) < 2e-3


def test_a_body_of_no_named_parts_can_touch_too() -> None:
    from marey.skeleton import Skeleton

    stick = Skeleton(("a", "b", "c"), [-1, 0, 1], [[0, 0, 0], [0, 0.3, 0], [0, 0.3, 0]])
    spheres, names = contact_spheres(stick)
    assert len(names) >= 2
    assert (spheres.radii > 0.0).all()
    body = Body(stick, [1.0, 1.0, 1.0], np.zeros((3, 3)), np.tile(0.01 * np.eye(3), (3, 1, 1)), height_m=0.6)
    simulator = Simulator(body, damping="energetic", damping_rate=5.0, ground=Ground())
    simulator.reset(Pose(stick, [0, 0.1, 0], SO3.identity(3)))
    for _ in range(200):
        simulator.step(H)
    assert lowest(simulator) == pytest.approx(0.0, abs=2e-3)

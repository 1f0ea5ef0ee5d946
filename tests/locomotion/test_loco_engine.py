"""The engine: speed, phase, place, prediction; on the shipped model."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from oracles.gait_tables import events_at, frequency_at

from marey.base import InputError, MareyWarning, UnknownNameError
from marey.lie import SO3, geodesic_distance
from marey.locomotion import Engine, GaitParameters, LocomotionModel, load_model
from marey.locomotion.model.locomotion_model import EVENTS
from marey.locomotion.model.synthesis import synthesise_unit

SIZES_M = (0.6, 0.9, 1.1)


@pytest.fixture(scope="module")
def model() -> LocomotionModel:
    return load_model()


def largest_turn(a: SO3, b: SO3) -> float:
    return float(np.max(geodesic_distance(a, b)))


def walked(engine: Engine, seconds: float, dt: float) -> Engine:
    for _ in range(round(seconds / dt)):
        engine.step(dt)
    return engine


@pytest.mark.parametrize("leg_length_m", SIZES_M)
@pytest.mark.parametrize("turn_rate", [0.0, 0.5])
@pytest.mark.parametrize("speed", [0.3, 0.7, 1.1, 1.5, 2.0, 2.5, 3.0])
def test_glardon_a17_mean_root_speed_is_the_requested_one(model, speed, turn_rate, leg_length_m):
    run = 0.0 if speed <= 1.5 else 1.0
    options = {"speed": speed, "run": run, "turn_rate": turn_rate, "leg_length_m": leg_length_m, "plants": False}
    engine = Engine(model, **options)
    cycle_s = 1.0 / engine._walker.frequency(speed, run)
    places = []
    for _ in range(11):
        engine.step(cycle_s / 2)
        pose = engine.step(cycle_s / 2)  # at equal phases the root sways equally
        places.append(engine.position if turn_rate else pose.root_position[[0, 2]])  # who leans runs inside its way
    half = 0.5 * turn_rate * cycle_s
    arcs = np.linalg.norm(np.diff(places, axis=0), axis=1) * (half / np.sin(half) if half else 1.0)
    assert arcs.sum() / (10 * cycle_s) == pytest.approx(speed, rel=0.005)


@pytest.mark.parametrize("count", [500, *(pytest.param(n, marks=pytest.mark.slow) for n in (1_500, 10_000))])
def test_glardon_a20_phase_never_decreases_under_random_control(model, count):
    rng = np.random.default_rng(20)
    engine = Engine(model, plants=False)
    last, styles = 0.0, model.styles
    for _ in range(count):
        wish = {"speed": rng.uniform(0.0, 1.85), "run": rng.uniform(), "turn_rate": rng.uniform(-1, 1)}
        if rng.uniform() < 0.2:
            wish["style"] = styles[rng.integers(len(styles))]
        if rng.uniform() < 0.2:
            wish["speed"] = 0.0
        engine.set(**wish, leg_length_m=rng.uniform(0.6, 1.1), over_s=rng.uniform(0.0, 0.5))
        engine.step(rng.uniform(0.001, 0.1))
        assert engine.phase >= last
        last = engine.phase


@pytest.mark.parametrize("plants", [False, True])
def test_glardon_a20_who_stands_stands_still(model, plants):
    engine = Engine(model, plants=plants)
    engine.step(0.0)
    start = engine.pose
    for _ in range(600):
        engine.step(0.1)
    assert engine.state == "standing"
    assert engine.time_s == pytest.approx(60.0)
    np.testing.assert_allclose(engine.pose.root_position, start.root_position, atol=1e-12)
    assert largest_turn(engine.pose.rotations, start.rotations) < 1e-9
    assert engine.phase == 0.25  # the right foot is under the body, as in the middle of its stance


def test_glardon_a21_the_result_does_not_depend_on_the_frame_rate(model):
    slow = walked(Engine(model, speed=1.3, turn_rate=0.4, plants=False), 100.0, 1 / 30)
    fast = walked(Engine(model, speed=1.3, turn_rate=0.4, plants=False), 100.0, 1 / 240)
    np.testing.assert_allclose(slow.pose.joint_positions(), fast.pose.joint_positions(), atol=1e-8)
    assert largest_turn(slow.pose.rotations, fast.pose.rotations) < 1e-7


def test_glardon_a21_planted_feet_do_not_depend_on_the_frame_rate(model):
    paths = []
    for rate in (30, 240):
        engine, path = Engine(model, speed=1.0), []
        for change in ({"speed": 1.8, "turn_rate": 0.6}, {"speed": 3.0, "run": 1.0}, {"speed": 0.0, "run": 0.0}):
            engine.set(**change)
            for _ in range(60):
                walked(engine, 1 / 30, 1 / rate)
                path.append(engine.pose.joint_positions())
        paths.append(path)
    np.testing.assert_allclose(*paths, atol=1e-3)


def test_a_ramp_does_not_depend_on_the_frame_rate_either(model):
    poses = []
    for dt in (1 / 30, 1 / 240, 0.1):
        engine = Engine(model, speed=0.5, plants=False)
        engine.set(speed=2.4, run=1.0, turn_rate=0.8, leg_length_m=0.7, over_s=1.7)
        poses.append(walked(engine, 3.0, dt).pose)
    for pose in poses[1:]:
        np.testing.assert_allclose(pose.joint_positions(), poses[0].joint_positions(), atol=1e-9)


def test_glardon_a22_a_full_circle_closes(model):
    engine = Engine(model, speed=1.2, turn_rate=0.5, plants=False)
    lap_s = 2 * np.pi / 0.5
    walked(engine, lap_s, lap_s / 500)
    assert np.linalg.norm(engine.position) < 1e-3
    other = Engine(model, speed=1.2, turn_rate=0.5, plants=False, phase=engine.phase)
    same = other.pose.rotations[0].inverse() @ engine.pose.rotations[0]
    assert np.linalg.norm(same.log()) < 1e-6  # neither pitch nor roll drifts


def test_glardon_a22_the_arc_is_that_of_a_circle(model):
    engine = Engine(model, speed=2.0, run=1.0, turn_rate=-0.8, plants=False)
    walked(engine, 1.1, 0.05)
    angle, radius = -0.8 * 1.1, 2.0 / -0.8
    np.testing.assert_allclose(engine.position, [radius * (1 - np.cos(angle)), radius * np.sin(angle)], atol=1e-9)
    assert engine.heading_rad == pytest.approx(angle)


def test_glardon_a23_a_body_may_grow_on_line(model):
    engine = Engine(model, speed=1.0, leg_length_m=0.6)
    walked(engine, 1.0, 1 / 60)
    engine.set(leg_length_m=1.1, over_s=2.0)
    motion = engine.run(3.0, 60.0)
    turns = geodesic_distance(motion.rotations[1:], motion.rotations[:-1])
    steady = Engine(model, speed=1.0, leg_length_m=0.6).run(3.0, 60.0)
    usual = geodesic_distance(steady.rotations[1:], steady.rotations[:-1])
    assert turns.max() < max(np.radians(5.0), 1.3 * usual.max() + np.radians(1.5))
    assert engine.leg_length_m == pytest.approx(1.1)
    assert motion.translations is not None
    np.testing.assert_allclose(engine.skeleton.offsets, model.skeleton_for(1.1).offsets)


@pytest.mark.parametrize("rate_hz", [50.0, 60.0, 144.0])
@pytest.mark.parametrize("plants", [False, True])
@pytest.mark.parametrize("over_s", [0.0, 1.0])
def test_glardon_a24_prediction_is_what_comes(model, plants, over_s, rate_hz):
    engine = Engine(model, speed=0.9, turn_rate=0.3, plants=plants)
    walked(engine, 0.7, 1 / rate_hz)
    engine.set(speed=1.6, turn_rate=-0.2, over_s=over_s)
    for tau in (0.0, 0.25, 1.3):
        foreseen = engine.predict(tau)
        twin = Engine(model, speed=0.9, turn_rate=0.3, plants=plants)
        walked(twin, 0.7, 1 / rate_hz)
        twin.set(speed=1.6, turn_rate=-0.2, over_s=over_s)
        came = walked(twin, tau, tau / round(tau * rate_hz) if tau else 1.0).pose
        np.testing.assert_allclose(foreseen.joint_positions(), came.joint_positions(), atol=1e-6)


def test_glardon_a24_prediction_changes_nothing(model):
    watched, alone = (Engine(model, speed=1.2) for _ in range(2))
    for engine in (watched, alone):
        engine.set(speed=0.0, turn_rate=0.5, over_s=0.8)
    for _ in range(90):
        watched.predict(0.4)
        a, b = watched.step(1 / 30), alone.step(1 / 30)
        np.testing.assert_array_equal(a.root_position, b.root_position)
        np.testing.assert_array_equal(a.rotations.wxyz, b.rotations.wxyz)


def test_the_kernels_row_is_the_models_row(model):
    engine = Engine(model, speed=1.1, run=0.3, plants=False)
    count = model.gaits.base.shape[2]
    for speed, run in ((0.0, 0.0), (0.2, 0.0), (1.1, 0.3), (3.0, 1.0)):
        s = speed * model.scales(model.leg_length_m)[0]
        rows = synthesise_unit(model.gaits, model.leg_length_m, s, run, model.weights())
        for i in (0, 7, count - 1):
            root, wxyz = engine._walker.pose_at(i / count, speed, run, (0.0, 0.0), 0.0)
            expected = SO3(model.gaits.means) @ SO3.exp(rows[i, 3:].reshape(-1, 3))
            assert largest_turn(SO3(wxyz), expected) < 1e-9
            np.testing.assert_allclose(root, rows[i, :3] * model.leg_length_m, atol=1e-12)


def test_frequency_and_events_are_the_models(model):
    engine = Engine(model, style=model.styles[0], plants=False)
    weights = model.weights(model.styles[0])
    for speed, run in ((0.4, 0.0), (1.3, 0.5), (3.1, 1.0)):
        s_n = speed * model.scales(model.leg_length_m)[0]
        expected = frequency_at(model.gaits, s_n, run, weights)
        assert engine._walker.frequency(speed, run) == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(engine._walker.events(speed, run), events_at(model.gaits, s_n, run, weights))


def test_short_legs_step_faster_by_the_pendulums_law(model):
    tall = Engine(model, plants=False)
    short = Engine(model, size=0.25, plants=False)  # a quarter of the length, half the speed, twice the tempo
    assert short._walker.frequency(0.5, 0.0) == pytest.approx(2.0 * tall._walker.frequency(1.0, 0.0))
    thesis = Engine(model, size=0.25, scaling="leg", plants=False)
    assert thesis._walker.frequency(0.25, 0.0) == pytest.approx(tall._walker.frequency(1.0, 0.0))


def test_slerp_and_cubic_agree_at_the_frames_and_nearly_between(model):
    count = model.gaits.base.shape[2]
    cubic, slerp = (Engine(model, plants=False, interpolation=name)._walker for name in ("cubic", "slerp"))
    for place, bound in ((0.0, 1e-12), (3.0, 1e-12), (3.5, 0.02)):
        a, b = (w.pose_at(place / count, 1.2, 0.0, (0.0, 0.0), 0.0) for w in (cubic, slerp))
        assert largest_turn(SO3(a[1]), SO3(b[1])) <= bound
        assert np.abs(a[0] - b[0]).max() <= bound


def test_foot_events_come_once_a_cycle_in_their_order(model):
    engine = Engine(model, speed=1.3)
    heard: list[str] = []
    while engine.phase < 4.9:
        engine.step(1 / 240)
        heard += engine.events
    for name in EVENTS:
        assert heard.count(name) in (4, 5)
    strikes = [name for name in heard if name.endswith("HS")]
    assert all(a != b for a, b in pairwise(strikes))


def test_run_is_a_motion_with_contacts(model):
    motion = Engine(model, speed=1.2).run(1.5, 50.0)
    assert motion.num_frames == 76
    assert motion.rate_hz == 50.0
    assert motion.contacts is not None
    assert motion.contacts.names == ("right_heel", "right_toe", "left_heel", "left_toe")
    assert 0.2 < np.asarray(motion.contacts.active).mean() < 0.8
    np.testing.assert_allclose(np.diff(motion.root_positions[:, 2]).sum() / 1.5, 1.2, atol=0.06)


def test_only_what_is_asked_for_changes(model):
    engine = Engine(model, speed=1.0, plants=False)
    engine.set(leg_length_m=0.7, over_s=2.0)
    walked(engine, 1.0, 0.05)
    engine.set(speed=0.6)
    walked(engine, 0.5, 0.05)
    assert engine.speed == pytest.approx(0.6)
    half = model.leg_length_m + 0.75 * (0.7 - model.leg_length_m)
    assert engine.leg_length_m == pytest.approx(half)
    walked(engine, 0.6, 0.05)
    assert engine.leg_length_m == pytest.approx(0.7)
    assert engine.targets.speed == pytest.approx(0.6)


def test_a_ramp_is_a_straight_line_and_can_be_interrupted(model):
    engine = Engine(model, speed=1.0, plants=False)
    engine.set(speed=2.0, over_s=2.0)
    walked(engine, 1.0, 0.1)
    assert engine.speed == pytest.approx(1.5)
    engine.set(speed=0.5, over_s=1.0)
    walked(engine, 0.5, 0.1)
    assert engine.speed == pytest.approx(1.0)
    walked(engine, 0.5, 0.1)
    assert engine.speed == pytest.approx(0.5)


def test_a_change_takes_at_least_a_tenth_of_a_second(model):
    engine = Engine(model, speed=1.0, plants=False)
    engine.set(speed=1.4, over_s=0.0)
    engine.step(0.05)
    assert engine.speed == pytest.approx(1.2)


@pytest.mark.parametrize(("before", "after", "run", "most"), [(0.0, 1.4, 0.0, 1.5), (3.0, 0.0, 1.0, 2.0)])
def test_without_a_time_nobody_accelerates_harder_than_a_body(model, before, after, run, most):
    engine = Engine(model, speed=before, run=run, plants=False)
    engine.set(speed=after)
    speeds = [engine.step(0.02) and engine.speed for _ in range(150)]
    assert speeds[-1] == pytest.approx(after)
    assert np.abs(np.diff(speeds)).max() / 0.02 <= 1.01 * most


def test_a_plan_is_followed_and_foreseen(model):
    engine = Engine(model, speed=1.0, plants=False)
    engine.follow_plan([0.0, 1.0, 3.0], [1.0, 2.0, 1.2], turn_rate=[0.0, 0.4, 0.0])
    foreseen = engine.predict(2.0)
    walked(engine, 2.0, 1 / 60)
    assert engine.speed == pytest.approx(1.6)
    assert engine.parameters.turn_rate == pytest.approx(0.2)
    assert engine.heading_rad == pytest.approx(0.2 + 0.3)  # integral of the turn rate
    np.testing.assert_allclose(foreseen.joint_positions(), engine.pose.joint_positions(), atol=1e-9)
    engine.set(style=model.styles[1], over_s=0.5)  # the plan goes on
    walked(engine, 1.0, 1 / 60)
    assert engine.speed == pytest.approx(1.2)
    engine.set(speed=0.9)
    walked(engine, 1.0, 1 / 60)
    assert engine.speed == pytest.approx(0.9)


def test_phase_over_a_plan_is_the_integral_of_frequency(model):
    engine = Engine(model, speed=0.8, plants=False)
    times = np.linspace(0.0, 2.0, 9)
    speeds = 0.8 + 0.3 * times**2
    engine.follow_plan(times, speeds)
    walked(engine, 2.0, 0.1)
    t = np.linspace(0.0, 2.0, 4001)
    hertz = [engine._walker.frequency(float(s), 0.0) for s in np.interp(t, times, speeds)]
    assert engine.phase == pytest.approx(np.trapezoid(hertz, t), abs=5e-4)


def test_who_turns_leans_inwards_as_gravity_asks_over_feet_that_go_round_outside(model):
    left = Engine(model, speed=1.4, turn_rate=0.7, plants=False)
    bank = np.arctan(1.4 * 0.7 / 9.81)
    straight = Engine(model, speed=1.4 + 0.7 * 1.05 * left.leg_length_m * np.sin(bank), plants=False)
    lean = left.pose.rotations[0] @ straight.pose.rotations[0].inverse()
    up = lean @ np.array([0.0, 1.0, 0.0])
    assert np.arctan2(up[0], up[1]) == pytest.approx(bank, abs=1e-6)


def test_a_runner_keeps_the_head_up_in_a_curve(model):
    """Whose body leans by 27 degrees; the head leans forwards in the straight run, too."""
    tilts = []
    for turn_rate in (0.0, 2.0):
        motion = Engine(model, speed=2.5, run=1.0, turn_rate=turn_rate, plants=False).run(2.0)
        heads = [motion[i].joint_rotations()[model.skeleton.index("head")] for i in range(motion.num_frames)]
        tilts.append(np.degrees(np.mean([np.arccos((head @ np.array([0.0, 1.0, 0.0]))[1]) for head in heads])))
    assert abs(tilts[1] - tilts[0]) < 5.0


def test_drivers_are_called_until_they_are_done(model):
    engine, calls = Engine(model, plants=False), []

    def driver(given: Engine, dt: float) -> bool:
        calls.append((given is engine, dt))
        return len(calls) < 3

    engine.add_driver(driver)
    engine.step(0.25)  # split in three
    engine.step(0.05)
    assert calls == [(True, pytest.approx(0.25 / 3))] * 3


def test_frequency_table_is_what_the_walker_uses(model):
    engine = Engine(model, leg_length_m=0.8)
    speeds, hertz = engine.frequency_table()
    assert hertz.shape == (2, len(speeds))
    assert hertz[:, 0].tolist() == [0.0, 0.0]
    assert np.interp(1.0, speeds, hertz[0]) == pytest.approx(engine._walker.frequency(1.0, 0.0), rel=1e-9)


@pytest.mark.parametrize("wish", [{"speed": float("nan")}, {"run": float("inf")}, {"turn_rate": "left"},
                                  {"leg_length_m": -1.0}, {"leg_length_m": 0.0}, {"speed": True},
                                  {"over_s": -1.0}, {"style": {}}, {"style": 3}])  # fmt: skip
def test_glardon_a50_what_is_no_value_is_refused(model, wish):
    engine = Engine(model, speed=1.0, plants=False)
    with pytest.raises(InputError):
        engine.set(**wish)
    engine.step(0.1)
    assert engine.speed == pytest.approx(1.0)
    assert np.isfinite(engine.pose.root_position).all()


def test_glardon_a50_style_weights_are_refused_or_normalised(model):
    engine, first, second = Engine(model, plants=False), *model.styles[:2]
    for style in ({first: -1.0, second: 2.0}, {first: 0.0}, {first: float("nan")}):
        with pytest.raises(InputError):
            engine.set(style=style)
    with pytest.raises(UnknownNameError):
        engine.set(style="nobody")
    engine.set(style={first: 1.0, second: 1.1})
    engine.run(0.5)
    assert engine.parameters.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("wish", "read", "held"), [
    ({"speed": -1.0}, "speed", 0.0),
    ({"run": 1.5}, "run", 1.0),
    ({"turn_rate": 9.0}, "turn_rate", np.pi),
    ({"leg_length_m": 9.0}, "leg_length_m", 2.0),
])  # fmt: skip
def test_glardon_a50_what_is_out_of_range_is_held_with_a_warning(model, wish, read, held):
    engine = Engine(model, plants=False)
    with pytest.warns(MareyWarning, match="was held"):
        engine.set(**wish)
    assert getattr(engine.targets, read) == pytest.approx(held)
    assert len(engine.notes) == 1


def test_speeds_beyond_the_gait_are_held_at_its_limit(model):
    engine = Engine(model, plants=False)
    with pytest.warns(MareyWarning):
        engine.set(speed=50.0)
    limit = model.gaits.limits[0] / model.scales(model.leg_length_m)[0]
    assert engine.targets.speed == pytest.approx(limit)
    engine.set(speed=3.0, run=1.0)
    assert engine.targets.speed == pytest.approx(3.0)


def test_time_does_not_run_backwards(model):
    engine = Engine(model, plants=False)
    for dt in (-0.1, float("nan"), float("inf"), "1"):
        with pytest.raises(InputError):
            engine.step(dt)
        with pytest.raises(InputError):
            engine.predict(dt)
    with pytest.raises(InputError):
        engine.run(0.0)
    with pytest.raises(InputError):
        engine.run(1.0, rate_hz=0.0)


@pytest.mark.parametrize("far", [1e9, 1e300, 10**400])
def test_glardon_a50_times_without_end_are_refused_at_once(model, far):
    engine = Engine(model, speed=1.0, plants=False)
    for ask in (engine.step, engine.predict, engine.run, lambda s: engine.set(speed=0.5, over_s=s)):
        with pytest.raises(InputError):
            ask(far)
    with pytest.raises(InputError):
        engine.run(1.0, rate_hz=far)
    with pytest.raises(InputError, match="seconds ahead"):
        engine.follow_plan([0.0, float(min(far, 1e300))], [1.0, 1.0])
    assert engine.time_s == 0.0


@pytest.mark.parametrize("options", [{"length_m": "far"}, {"length_m": None}, {"length_m": 10**400},
                                     {"height_m": "high"}, {"takeoff": 3.0}, {"takeoff": (1.0, 2.0, 3.0)},
                                     {"takeoff": "there"}, {"max_acceleration": "some"},
                                     {"max_acceleration": float("nan")}])  # fmt: skip
def test_glardon_a50_jumps_of_no_numbers_are_refused(model, options):
    engine = Engine(model, speed=1.2, plants=False)
    with pytest.raises(InputError):
        engine.jump(**({"length_m": 0.8} | options))
    assert engine.state == "locomotion"


def test_a_driver_is_a_function(model):
    with pytest.raises(InputError, match="driver"):
        Engine(model, plants=False).add_driver(3)


def test_odd_constructions_are_refused(model):
    for options in ({"scaling": "mass"}, {"timing": "moon"}, {"ik": "magic"}, {"interpolation": "nearest"}):
        with pytest.raises(UnknownNameError):
            Engine(model, **options)
    for options in ({"size": 1.0, "leg_length_m": 0.9}, {"size": -1.0}, {"position": (0.0, float("nan"))},
                    {"position": "here"}, {"phase": 1e300}, {"heading_rad": None}, {"style": 3}):  # fmt: skip
        with pytest.raises(InputError):
            Engine(model, **options)
    for other in ("model", 3.0, [model]):
        with pytest.raises(InputError, match="load_model"):
            Engine(other)


def test_plans_that_make_no_sense_are_refused(model):
    engine = Engine(model, plants=False)
    for times, speeds in (([], []), ([0.0, 0.0], [1.0, 1.0]), ([-1.0, 1.0], [1.0, 1.0]), ([0.0, 1.0], [1.0])):
        with pytest.raises(InputError):
            engine.follow_plan(times, speeds)
    with pytest.warns(MareyWarning):
        engine.follow_plan([0.0, 1.0], [0.0, 30.0])


def test_parameters_survive_their_row(model):
    given = GaitParameters(1.0, 0.5, 0.1, 0.9, model.weights())
    back = GaitParameters.from_row(given.row())
    assert back[:4] == given[:4]
    np.testing.assert_array_equal(back.weights, given.weights)

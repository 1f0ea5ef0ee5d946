"""Jumps through the engine, on the shipped model."""

import numpy as np
import pytest

from marey.base import InputError, MareyWarning
from marey.lie import SO3
from marey.locomotion import Engine, load_model
from marey.locomotion.transitions.clips import ModelJumps, compute_effectors
from marey.skeleton import joint_positions

RATE = 60.0
FEET = ("right_ankle", "right_foot", "left_ankle", "left_foot")
LEAPS = [("walk", 0.6, "right"), ("walk", 1.0, "left"), ("run", 0.9, "right"), ("run", 1.8, "left")]


@pytest.fixture(scope="module")
def model():
    return load_model()


@pytest.fixture(scope="module")
def jumps(model):
    return ModelJumps(model)


def started(model, kind, **options):
    """An engine in the gait of a kind of leap."""
    speed, run = {"walk": (1.4, 0.0), "run": (2.3, 1.0), "standing": (0.0, 0.0)}[kind]
    engine = Engine(model, **({"speed": speed, "run": run} | options))
    engine.run(0.9, RATE)
    return engine


def recorded(engine, seconds):
    """States, poses, feet and contacts, frame by frame."""
    states, roots, wxyz, contacts = [], [], [], []
    for _ in range(round(seconds * RATE)):
        pose = engine.step(1.0 / RATE)
        states.append(engine.state)
        roots.append(pose.root_position)
        wxyz.append(pose.rotations.wxyz)
        contacts.append(engine.contacts)
    roots, wxyz = np.array(roots), np.array(wxyz)
    joints = [engine.skeleton.index(name) for name in FEET]
    feet = joint_positions(engine.skeleton, roots, wxyz)[:, joints]
    return np.array(states), roots, SO3(wxyz), feet, np.array(contacts)


def in_turn(states):
    """States without repetition."""
    return [str(state) for i, state in enumerate(states) if i == 0 or state != states[i - 1]]


@pytest.mark.parametrize("kind", ["walk", "run", "standing"])
def test_a_jump_goes_through_its_states_and_back(model, kind):
    engine = started(model, kind)
    before = engine.parameters
    answer = engine.jump(length_m=1.0, kind=kind)
    states, *_ = recorded(engine, answer.starts_in_s + 4.5)
    last = "standing" if kind == "standing" else "locomotion"
    assert in_turn(states)[-5:] == ["blend-in", "jump", "blend-out", "restore", last]
    assert engine.parameters[:4] == before[:4]


@pytest.mark.parametrize(("kind", "length", "foot"), LEAPS)
@pytest.mark.xfail(
    strict=True, reason="soles land and leave within a plant of the plan: 0.7 to 1.8 mm a frame, bar 0.2"
)
def test_glardon_a37_the_stance_foot_stays_where_it_is(model, kind, length, foot):
    engine = started(model, kind)
    answer = engine.jump(length, kind, foot=foot)
    _, _, _, feet, contacts = recorded(engine, answer.starts_in_s + 2.0)
    steps = 1e3 * np.linalg.norm(np.diff(feet[:, :, [0, 2]], axis=0), axis=-1) * RATE / 30.0  # of a frame at 30 Hz
    held = contacts[1:] & contacts[:-1]
    inner = held[1:-1] & held[2:] & held[:-2]
    for effector, (mean, most) in enumerate(((0.2, 1.0), (0.5, 3.0)) * 2):
        slide = steps[1:-1, effector][inner[:, effector]]
        assert slide.mean() <= mean
        assert slide.max() <= most


@pytest.mark.parametrize("count", [40, pytest.param(10_000, marks=pytest.mark.slow)])
def test_glardon_a34_random_requests_begin_at_a_heel_strike_and_end_where_they_began(model, jumps, count):
    """With the cap of the specification on the acceleration, 0.2 m/s², which is the default."""
    rng = np.random.default_rng(34)
    for _ in range(count):
        engine = Engine(model, speed=float(rng.uniform(0.5, 2.0)), phase=float(rng.uniform()), plants=False)
        kind, foot, before = str(rng.choice(["walk", "run"])), str(rng.choice(["right", "left"])), engine.parameters
        length = float(rng.uniform(*jumps.limits_m(kind, engine.leg_length_m)))
        answer = engine.jump(length, kind, foot=foot)
        engine.jumper.advance(answer.starts_in_s + 1e-6)
        assert engine.state == "blend-in"
        strike = engine._walker.events(answer.speed, float(kind == "run"))[0 if foot == "right" else 4]
        assert abs((engine.jumper.plan.gait_phase(0.0) - strike + 0.5) % 1.0 - 0.5) < 1e-3
        engine.jumper.advance(60.0)
        assert engine.state == "locomotion"
        assert engine.parameters[:4] == before[:4]


@pytest.mark.parametrize(("kind", "length", "foot"), LEAPS)
def test_the_measured_leap_is_as_long_as_asked(model, kind, length, foot):
    engine = started(model, kind)
    answer = engine.jump(length, kind, foot=foot)
    states, _, _, feet, contacts = recorded(engine, answer.starts_in_s + 2.0)
    toe, ankle = (1, 2) if foot == "right" else (3, 0)
    leaving = feet[np.flatnonzero((states == "blend-in") & contacts[:, toe])[-1], toe]
    landed = feet[np.flatnonzero((states == "blend-out") & contacts[:, ankle])[0], ankle]
    heel = 0.039  # [m] the heel is behind the ankle, as the jump model measures it
    assert landed[2] - leaving[2] - heel == pytest.approx(length, abs=0.03)


@pytest.mark.parametrize(("kind", "length", "foot"), LEAPS)
def test_glardon_a36_blends_have_no_kinks(model, jumps, kind, length, foot):
    engine = started(model, kind)
    speed = jumps.run_up(kind, length, model.leg_length_m)[0]
    plan, _ = engine.jumper.preview(length, kind, speed, foot=foot)
    toe_off, strike, end = plan.times_s
    assert 0.15 <= toe_off <= 0.6
    assert 0.15 <= end - strike <= 0.6
    h = 1e-4

    def gait(time_s):
        phase = plan.into.a[0] + time_s * plan.gait.frequency_hz
        return plan._gait(plan.start, plan.into.a[0], phase)

    for at, before, after in (
        (0.0, gait, plan.frame),
        (toe_off, plan.frame, plan.frame),
        (strike, plan.frame, plan.frame),
        (end, plan.frame, plan.after),
    ):
        rates = []
        for motion, a, b in ((before, at - 2.0 * h, at - h), (after, at + h, at + 2.0 * h)):
            first, second = motion(a), motion(b)
            turned = (SO3(first.rotations).inverse() @ SO3(second.rotations)).log() / h
            rates.append((turned, (second.root - first.root)[[0, 2]] / h))
        assert np.degrees(np.linalg.norm(rates[1][0] - rates[0][0], axis=-1)).max() <= 60.0
        assert np.linalg.norm(rates[1][1] - rates[0][1]) <= 0.1


@pytest.mark.parametrize(
    ("kind", "length", "foot"),
    [
        *LEAPS[:3],
        pytest.param(*LEAPS[3], marks=pytest.mark.xfail(strict=True, reason="a joint is faster than in both")),
    ],
)
def test_glardon_a36_joints_turn_no_faster_than_in_both_motions(model, jumps, kind, length, foot):
    engine = started(model, kind)
    speed = jumps.run_up(kind, length, model.leg_length_m)[0]
    plan, _ = engine.jumper.preview(length, kind, speed, foot=foot)

    def fastest(frame, stop):
        wxyz = SO3(np.array([frame(t).rotations for t in np.arange(0.0, stop, 1.0 / RATE)]))
        return np.degrees((wxyz[:-1].inverse() @ wxyz[1:]).angle()).max(axis=0)

    hertz = plan.gait.frequency_hz
    gait = fastest(lambda t: plan.gait.frame(t * hertz), 1.0 / hertz)
    jump = fastest(lambda t: plan.jump.frame(t / plan.jump.duration_s), plan.jump.duration_s)
    both = fastest(plan.frame, plan.duration_s)
    assert both.max() <= 1.25 * max(gait.max(), jump.max())
    assert (
        both <= 1.25 * np.maximum(gait, jump) + 2.0
    ).all()  # a neck hardly moves in either, and yet has to get there


@pytest.mark.parametrize(("kind", "length", "foot"), LEAPS)
def test_the_body_neither_hurries_nor_waits_in_a_blend(model, jumps, kind, length, foot):
    engine = started(model, kind)
    speed = jumps.run_up(kind, length, model.leg_length_m)[0]
    plan, _ = engine.jumper.preview(length, kind, speed, foot=foot)
    roots = np.array([plan.frame(t).root[2] for t in np.arange(0.0, plan.duration_s, 1.0 / RATE)])
    forward = np.diff(roots) * RATE
    assert forward.min() > 0.6 * speed
    assert forward.max() < 1.75 * speed


@pytest.mark.parametrize(("kind", "length", "foot"), LEAPS)
def test_swinging_feet_stay_above_the_ground_while_two_motions_are_mixed(model, jumps, kind, length, foot):
    engine = started(model, kind)
    speed = jumps.run_up(kind, length, model.leg_length_m)[0]
    plan, _ = engine.jumper.preview(length, kind, speed, foot=foot)
    for time in np.arange(0.0, plan.duration_s, 1.0 / RATE):
        heights = compute_effectors(plan.skeleton, plan.frame(time))[:, 1]
        assert heights.min() > -0.03


def test_glardon_a35_the_take_off_is_at_the_jump_s_speed(model, jumps):
    for kind, length, speed in (("walk", 0.9, 0.8), ("walk", 0.6, 1.8), ("run", 1.2, 1.6)):
        engine = Engine(model, speed=speed, run=float(kind == "run"))
        answer = engine.jump(length, kind)
        last, fastest = engine.speed, 0.0
        while engine.state == "adapt":
            engine.step(1.0 / RATE)
            fastest, last = max(fastest, abs(engine.speed - last) * RATE), engine.speed
        wanted, tolerance = jumps.run_up(kind, length, model.leg_length_m)
        assert abs(last - wanted) <= tolerance + 1e-6
        assert fastest <= 0.2 + 1e-3
        assert last == pytest.approx(answer.speed)


@pytest.mark.parametrize("leg", [0.7, 0.93, 1.1])
@pytest.mark.parametrize(("kind", "foot"), [("walk", "right"), ("run", "left")])
def test_the_take_off_toe_comes_down_on_its_place(model, leg, kind, foot):
    engine = started(model, kind, leg_length_m=leg, heading_rad=0.7)
    ahead = np.array([np.sin(0.7), np.cos(0.7)])
    place = engine.position + 7.5 * ahead
    answer = engine.jump(1.0 * leg, kind, takeoff=(float(place[0]), float(place[1])), foot=foot)
    states, _, _, feet, contacts = recorded(engine, answer.starts_in_s + 1.0)
    toe = 1 if foot == "right" else 3
    there = feet[np.flatnonzero((states == "blend-in") & contacts[:, toe])[-1], toe]
    assert (there[[0, 2]] - place) @ ahead == pytest.approx(0.0, abs=0.02)
    assert "jump" in states


def test_a_take_off_that_cannot_be_reached_is_refused(model):
    engine = started(model, "walk")
    with pytest.raises(InputError, match="ahead"):
        engine.jump(0.9, takeoff=(0.0, float(engine.position[1]) + 0.3))
    assert engine.state == "locomotion"


def test_a_prediction_during_a_jump_is_what_comes(model):
    engine = started(model, "walk")
    engine.jump(0.9)
    while engine.state != "blend-in":
        engine.step(1.0 / RATE)
    foreseen = engine.jumper.snapshot()
    engine.jumper.advance(0.4)
    ahead = engine.jumper.frame()
    engine.jumper.restore(foreseen)
    for _ in range(24):
        engine.step(1.0 / RATE)
    now = engine.jumper.frame()
    assert np.abs(now.root_position - ahead.root_position).max() < 1e-6
    assert np.abs(now.rotations - ahead.rotations).max() < 1e-6


def test_a_flight_falls_at_g(model):
    engine = started(model, "run")
    engine.jump(1.6, "run")
    while engine.state != "jump":
        engine.step(1.0 / RATE)
    heights, dt = [], 1.0 / 240.0
    while engine.state == "jump":
        heights.append(engine._source.frame().root_position[1])
        engine.step(dt)
    times = dt * np.arange(len(heights))
    assert 2.0 * np.polyfit(times, heights, 2)[0] == pytest.approx(-9.81, abs=2.8)


def test_a_standing_jump_from_a_walk_stops_first_and_walks_on(model):
    engine = started(model, "walk")
    engine.jump(0.8, "standing")
    states, roots, _, _, _ = recorded(engine, 9.0)
    assert in_turn(states) == ["adapt", "blend-in", "jump", "blend-out", "restore", "locomotion"]
    assert engine.speed == pytest.approx(1.4)
    flying = roots[states == "jump", 1]
    assert flying.max() - roots[0, 1] > 0.1


def test_higher_standing_jumps_rise_higher(model):
    rises = []
    for height in (0.15, 0.35):
        engine = started(model, "standing")
        engine.jump(0.5, "standing", height_m=height)
        _, roots, _, _, _ = recorded(engine, 3.0)
        rises.append(roots[:, 1].max() - roots[0, 1])
    assert rises[1] - rises[0] > 0.1


def test_a_jump_in_a_turn_straightens_and_turns_on(model):
    engine = started(model, "walk", turn_rate=0.4)
    answer = engine.jump(0.8)
    headings = []
    for _ in range(round((answer.starts_in_s + 4.0) * RATE)):
        engine.step(1.0 / RATE)
        if engine.state in ("blend-in", "jump", "blend-out"):
            headings.append(engine.heading_rad)
    assert np.ptp(headings) < 1e-9
    assert engine.parameters.turn_rate == pytest.approx(0.4)


def test_every_frame_of_random_jumping_is_finite_and_within_reach(model):
    rng = np.random.default_rng(5)
    engine = Engine(model, speed=1.2)
    last = engine.pose.root_position
    for _ in range(1500):
        if rng.uniform() < 0.02:
            kind = str(rng.choice(["walk", "run", "standing"]))
            engine.jump(
                float(rng.uniform(0.6, 1.1)), kind, max_acceleration=1.0, foot=str(rng.choice(["left", "right"]))
            )
        if rng.uniform() < 0.02:
            engine.set(speed=float(rng.uniform(0.0, 2.0)), turn_rate=float(rng.uniform(-0.5, 0.5)), over_s=0.5)
        pose = engine.step(1.0 / 30.0)
        assert np.isfinite(pose.rotations.wxyz).all()
        assert np.linalg.norm(pose.root_position - last) < 0.3
        last = pose.root_position


@pytest.mark.parametrize("kind", ["walk", "run", "standing"])
def test_too_long_a_jump_is_clamped_with_a_warning(model, kind):
    engine = started(model, kind)
    with pytest.warns(MareyWarning, match="outside"):
        answer = engine.jump(5.0, kind, max_acceleration=1.0)
    assert answer.length_m < 3.0

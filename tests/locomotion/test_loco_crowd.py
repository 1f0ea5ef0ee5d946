"""Crowds: the engine's clockwork over arrays; budgets of time and memory."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.contacts import detect_plants
from marey.locomotion import Crowd, Engine, LocomotionModel, load_model


@pytest.fixture(scope="module")
def model() -> LocomotionModel:
    return load_model()


@pytest.mark.parametrize("plants", [False, True])
def test_each_of_a_crowd_does_what_an_engine_does(model, plants):
    legs, speeds, phases = [0.7, 0.93, 1.05], [0.8, 1.2, 1.5], [0.0, 0.3, 0.8]
    styles = [model.styles[0], None, {model.styles[1]: 0.5, model.styles[2]: 0.5}]
    crowd = Crowd(model, legs, styles=styles, speeds=speeds, phases=phases, plants=plants)
    engines = [
        Engine(model, leg_length_m=legs[i], style=styles[i], speed=speeds[i], phase=phases[i], plants=plants)
        for i in range(3)
    ]
    for frame in range(150):
        if frame == 30:
            crowd.set(speed=[1.0, 2.2, 0.0], run=[0.0, 1.0, 0.0], turn_rate=0.4, over_s=0.8)
            for engine, speed, run in zip(engines, [1.0, 2.2, 0.0], [0.0, 1.0, 0.0], strict=True):
                engine.set(speed=speed, run=run, turn_rate=0.4, over_s=0.8)
        crowd.step(1 / 60)
        for i, engine in enumerate(engines):
            pose = engine.step(1 / 60)
            np.testing.assert_allclose(crowd.poses(i).joint_positions(), pose.joint_positions(), atol=2e-3)
    for i, engine in enumerate(engines):
        assert crowd.phases[i] == pytest.approx(engine.phase, abs=2e-3)
        np.testing.assert_allclose(crowd.positions[i], engine.position, atol=1e-3)


def test_some_of_a_crowd_may_change(model):
    crowd = Crowd(model, np.full(4, 0.9), speeds=1.0)
    crowd.set(speed=[0.5, 1.5], over_s=0.1, where=[1, 3])
    crowd.set(leg_length_m=0.8, over_s=0.2, where=np.array([True, False, False, False]))
    crowd.step(0.5)
    np.testing.assert_allclose(crowd.speeds, [1.0, 0.5, 1.0, 1.5])
    assert crowd.poses(0).skeleton.offsets[1, 0] < crowd.poses(1).skeleton.offsets[1, 0]


def test_what_is_not_asked_for_goes_on(model):
    crowd = Crowd(model, [0.9, 0.9], speeds=1.0)
    crowd.set(speed=2.0, run=1.0, over_s=2.0)
    crowd.step(1.0)
    crowd.set(turn_rate=0.5, over_s=0.1)
    crowd.step(0.5)
    np.testing.assert_allclose(crowd.speeds, 1.75)
    crowd.step(1.0)
    np.testing.assert_allclose(crowd.speeds, 2.0)


def test_a_standing_crowd_stands(model):
    crowd = Crowd(model, [0.8, 1.0], positions=[[0.0, 0.0], [3.0, 1.0]], headings_rad=[0.0, 1.0], plants=True)
    before = crowd.root_positions.copy()
    for _ in range(120):
        crowd.step(0.1)
    np.testing.assert_allclose(crowd.root_positions, before, atol=1e-9)
    assert crowd.contacts.all()
    np.testing.assert_allclose(crowd.headings_rad, [0.0, 1.0])


def test_crowds_that_make_no_sense_are_refused(model):
    for legs in ([], [0.9, -0.1], [[0.9]], [float("nan")]):
        with pytest.raises(InputError):
            Crowd(model, legs)
    for wrong in ({"scaling": "mass"}, {"timing": "moon"}):
        with pytest.raises(UnknownNameError):
            Crowd(model, [0.9], **wrong)
    for wrong in ({"phases": 1e300}, {"styles": 3.0}, {"styles": {model.styles[0]: "much"}}):
        with pytest.raises(InputError):
            Crowd(model, [0.9], **wrong)
    crowd = Crowd(model, [0.9, 0.8])
    for index in (2, -3, 0.5, "first"):
        with pytest.raises(InputError):
            crowd.poses(index)
    for wish in ({"speed": [1.0, 2.0, 3.0]}, {"speed": float("nan")}, {"where": [5]}, {"styles": [None] * 5}):
        with pytest.raises(InputError):
            crowd.set(**wish)
    with pytest.raises(UnknownNameError):
        crowd.set(styles="nobody")
    with pytest.raises(InputError):
        crowd.step(-1.0)
    crowd.set(speed=99.0, turn_rate=-99.0, run=7.0, leg_length_m=99.0)
    crowd.step(1.0)
    assert np.isfinite(crowd.root_positions).all()


@pytest.mark.timing
@pytest.mark.parametrize(("count", "plants"), [(300, False), (100, True)])
def test_glardon_a45_a_crowd_keeps_sixty_frames_a_second(model, count, plants):
    rng = np.random.default_rng(3)
    crowd = Crowd(model, rng.uniform(0.7, 1.1, count), speeds=rng.uniform(0.5, 1.5, count), plants=plants)
    crowd.set(speed=rng.uniform(0.5, 1.5, count), over_s=1.0)
    crowd.step(1 / 60)
    start = time.process_time()
    for _ in range(60):
        crowd.step(1 / 60)
    assert time.process_time() - start < 1.0


@pytest.mark.timing
def test_glardon_a44_one_frame_with_plants_is_quick(model):
    engine = Engine(model, speed=1.2)
    engine.step(1 / 60)
    start = time.process_time()
    for _ in range(300):
        engine.step(1 / 60)
    constant = (time.process_time() - start) / 300
    engine.set(speed=0.6, over_s=20.0)
    start = time.process_time()
    for _ in range(300):
        engine.step(1 / 60)
    varying = (time.process_time() - start) / 300
    assert constant < 1e-3
    assert varying < 3e-3


@pytest.mark.timing
def test_glardon_a44_units_and_plants_are_quick(model):
    weights, heights = model.weights(model.styles[0]), np.abs(np.sin(0.25 * np.arange(25)[:, None] + np.arange(4)))
    for work, most_s in ((lambda: model.gaits.row(1.4, 0.0, weights), 1e-4), (lambda: detect_plants(heights), 5e-4)):
        work()
        taken = []
        for _ in range(5):
            start = time.process_time()
            for _ in range(100):
                work()
            taken.append((time.process_time() - start) / 100)
        assert min(taken) < most_s


@pytest.mark.parametrize("minutes", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 10))])
def test_glardon_a46_random_control_leaves_memory_flat(model, minutes):
    rng = np.random.default_rng(4)
    engine = Engine(model, speed=1.0)

    def drive(steps: int) -> None:
        for _ in range(steps):
            if rng.uniform() < 0.05:
                engine.set(speed=rng.uniform(0, 1.6), turn_rate=rng.uniform(-1, 1), over_s=rng.uniform(0, 3))
            engine.step(0.1)

    drive(500)
    tracemalloc.start()
    try:
        drive(100)
        before = tracemalloc.get_traced_memory()[0]
        drive(600 * minutes)
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert after - before < 400_000  # what 256 footprints take, and no more with time


def test_glardon_a46_a_character_needs_little_memory(model):
    crowd = Crowd(model, np.full(10, 0.9), plants=True)
    crowd.set(speed=1.0)
    arrays = [*crowd._plans, *crowd._walkers, *crowd._states, crowd.root_positions, crowd.rotations, crowd._landings]
    assert sum(array.nbytes for array in arrays) / 10 < 100_000

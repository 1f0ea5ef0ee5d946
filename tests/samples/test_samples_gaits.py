"""Synthetic clips obey the laws they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from marey import samples
from marey.base import InputError, UnknownNameError
from marey.motion import Motion, centre_of_mass, contact_positions, mean_speed
from marey.skeleton import contact_points

FLOOR_TOL_M = 0.004


def worst_slide_mm(motion: Motion) -> float:
    """Largest horizontal travel of a planted heel or toe between two frames [mm]."""
    names = contact_points(motion.skeleton).names
    points = contact_positions(motion)
    assert motion.contacts is not None
    worst = 0.0
    for name in names[:4]:
        on = motion.contacts.track(name)
        steps = np.linalg.norm(np.diff(points[:, names.index(name)][:, [0, 2]], axis=0), axis=1)
        worst = max(worst, 1e3 * float(steps[on[1:] & on[:-1]].max()))
    return worst


@pytest.mark.parametrize("speed", [0.5, 0.9, 1.3, 1.7, 2.1])
def test_a_walk_goes_as_fast_as_asked_and_plants_its_feet(speed: float) -> None:
    motion = samples.walk(speed)
    assert mean_speed(motion) == pytest.approx(speed, rel=0.03)  # the hips sway sideways too
    assert worst_slide_mm(motion) < 2.0
    assert contact_positions(motion)[..., 1].min() > -FLOOR_TOL_M


@pytest.mark.parametrize("speed", [2.2, 3.0, 4.5])
def test_a_run_flies_under_gravity_and_plants_its_feet(speed: float) -> None:
    motion = samples.run(speed)
    assert mean_speed(motion) == pytest.approx(speed, rel=0.02)
    assert worst_slide_mm(motion) < 2.0
    assert flight_acceleration(motion) == pytest.approx(-9.81, abs=0.1)


@pytest.mark.parametrize("length", [0.0, 0.6, 1.2, 1.8])
def test_a_jump_lands_where_asked_and_flies_under_gravity(length: float) -> None:
    motion = samples.jump(length)
    ankle = motion.joint_positions()[:, motion.skeleton.index("left_ankle")]
    assert ankle[-1, 2] - ankle[0, 2] == pytest.approx(length, abs=2e-3)
    assert flight_acceleration(motion) == pytest.approx(-9.81, abs=0.15)
    assert worst_slide_mm(motion) < 2.0


def flight_acceleration(motion: Motion) -> float:
    """Mean vertical acceleration of the centre of mass while nothing touches the ground [m/s²]."""
    assert motion.contacts is not None
    free = ~motion.contacts.active.any(axis=1)
    inside = free[1:-1] & free[2:] & free[:-2]
    assert inside.sum() >= 5
    return float((np.diff(centre_of_mass(motion)[:, 1], 2) * motion.rate_hz**2)[inside].mean())


def test_a_walk_never_leaves_the_ground() -> None:
    motion = samples.walk()
    assert motion.contacts is not None
    assert motion.contacts.active.any(axis=1).all()


def test_bones_keep_their_length() -> None:
    motion = samples.run()
    positions, parents = motion.joint_positions(), motion.skeleton.parents
    lengths = np.linalg.norm(positions[:, 1:] - positions[:, parents[1:]], axis=-1)
    np.testing.assert_allclose(
        lengths, np.broadcast_to(np.linalg.norm(motion.skeleton.offsets[1:], axis=1), lengths.shape)
    )


def test_size_and_rate_are_as_asked() -> None:
    motion = samples.walk(stature_m=1.5, rate_hz=30.0, seconds=2.0)
    assert motion.rate_hz == 30.0 and motion.num_frames == 60
    assert motion.joint_positions()[..., 1].max() < 1.4


@pytest.mark.parametrize("make", [lambda: samples.walk(5.0), lambda: samples.run(0.5), lambda: samples.jump(9.0)])
def test_what_no_person_does_is_refused(make) -> None:
    with pytest.raises(InputError, match="must be between"):
        make()


def test_every_name_can_be_loaded() -> None:
    assert {"walk", "run", "jump"} <= set(samples.names())
    for name in samples.names()[:5]:
        assert samples.load(name).num_frames > 10


def test_an_unknown_sample_is_named() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'walk'"):
        samples.load("wolk")


def test_the_same_call_gives_the_same_bytes() -> None:
    assert samples.jump().rotations.wxyz.tobytes() == samples.jump().rotations.wxyz.tobytes()

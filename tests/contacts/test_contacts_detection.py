"""Contacts of synthetic motions, where the truth is known by construction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey import samples
from marey.base import FloatArray, InputError, UnknownNameError
from marey.contacts import detect_contacts, ensure_contacts, feet_down, slide_mm
from marey.contacts.detection.baselines import find_plant_in_window
from marey.lie import SO3
from marey.motion import Contacts, Motion, contact_positions, find_runs, mirror
from marey.skeleton import HUMAN, Skeleton, contact_points

TWO_FRAMES_S = 2.0 / 30.0
GRAVITY = 9.81


def standing(heights: FloatArray, rate_hz: float, **turned: FloatArray) -> Motion:
    """The canonical human at rest, its root raised by ``heights`` [m]; ``turned`` bends joints about x [rad]."""
    wxyz = np.zeros((len(heights), HUMAN.num_joints, 4))
    wxyz[..., 0] = 1.0
    for joint, angles in turned.items():
        wxyz[:, HUMAN.index(joint)] = SO3.exp(np.stack([angles, 0 * angles, 0 * angles], axis=-1)).wxyz
    roots = HUMAN.offsets[0] + np.stack([0 * heights, heights, 0 * heights], axis=-1)
    return Motion(HUMAN, rate_hz, roots, SO3(wxyz))


def jump(rate_hz: float, *, rise_m: float = 0.3, landing_m: float = 0.0) -> tuple[Motion, float, float]:
    """A rigid jump from 1 s on, with its take-off and landing times."""
    start, speed = 1.0, np.sqrt(2.0 * GRAVITY * rise_m)
    stop = start + (speed + np.sqrt(speed**2 - 2.0 * GRAVITY * landing_m)) / GRAVITY
    t = np.arange(round((stop + 1.0) * rate_hz)) / rate_hz
    flight = speed * (t - start) - 0.5 * GRAVITY * (t - start) ** 2
    heights = np.where(t < start, 0.0, np.where(t < stop, flight, landing_m))
    return standing(heights, rate_hz), start, stop


def boundaries(down: np.ndarray, rate_hz: float) -> list[tuple[float, bool]]:
    """Times at which flags change, half way between frames, and what to."""
    return [((int(i) + 0.5) / rate_hz, bool(down[i + 1])) for i in np.flatnonzero(np.diff(down.astype(int)))]


def assert_same_contacts(truth: Contacts | None, found: Contacts, rate_hz: float) -> None:
    """Each boundary of one has one of the other within two frames at 30 Hz; the ends of the clip are not looked at."""
    assert truth is not None
    last = (len(found) - 1) / rate_hz - TWO_FRAMES_S
    for expected, actual in zip(feet_down(truth).T, feet_down(found).T, strict=True):
        pair = boundaries(expected, rate_hz), boundaries(actual, rate_hz)
        assert len(pair[0]) > 1
        for some, others in (pair, pair[::-1]):
            for t, on in (b for b in some if TWO_FRAMES_S < b[0] < last):
                assert min(abs(t - u) for u, also in others if also == on) <= TWO_FRAMES_S


def plants(contacts: Contacts, name: str) -> int:
    return len(find_runs(contacts.track(name)))


@pytest.mark.parametrize("rate_hz", [30.0, 59.94, 120.0, 250.0])
def test_jump_leaves_and_lands_when_it_does(rate_hz: float) -> None:
    motion, start, stop = jump(rate_hz)
    down = feet_down(detect_contacts(motion))
    for foot in down.T:
        (left, off), (landed, on) = boundaries(foot, rate_hz)
        assert (off, on) == (False, True)
        assert abs(left - start) <= TWO_FRAMES_S and abs(landed - stop) <= TWO_FRAMES_S


def test_a_jump_onto_a_step_is_planted_on_the_step() -> None:
    motion, start, stop = jump(120.0, rise_m=0.45, landing_m=0.35)
    for foot in feet_down(detect_contacts(motion)).T:
        (left, _), (landed, _) = boundaries(foot, 120.0)
        assert abs(left - start) <= TWO_FRAMES_S and abs(landed - stop) <= TWO_FRAMES_S
        assert foot[-100:].all()


def test_a_foot_held_in_the_air_is_not_planted() -> None:
    t = np.arange(480) / 120.0
    bend = np.clip(np.minimum(t - 1.0, 3.0 - t) / 0.4, 0.0, 1.0)  # lifted from 1 s, held from 1.4 to 2.6 s, down at 3 s
    motion = standing(0 * t, 120.0, left_hip=-1.2 * bend, left_knee=1.2 * bend)
    left, right = feet_down(detect_contacts(motion)).T
    assert right.all()
    assert not left[(t > 1.1) & (t < 2.9)].any()
    assert left[(t < 1.0) | (t > 3.0)].all()


def test_a_hover_at_the_top_of_a_jump_is_no_contact() -> None:
    motion, start, stop = jump(120.0, rise_m=0.5)
    t = motion.times()
    assert not feet_down(detect_contacts(motion))[(t > start + 0.05) & (t < stop - 0.05)].any()


@pytest.mark.parametrize("rate_hz", [30.0, 60.0, 120.0, 250.0])
@pytest.mark.parametrize("make", [samples.walk, samples.run, samples.jump])
def test_detected_contacts_are_those_that_the_synthetic_gait_was_made_with(make, rate_hz: float) -> None:
    motion = make(rate_hz=rate_hz)
    assert_same_contacts(motion.contacts, detect_contacts(motion), rate_hz)


@pytest.mark.parametrize("stature_m", [1.1, 1.5, 2.0])
def test_contacts_scale_with_the_body(stature_m: float) -> None:
    motion = samples.walk(stature_m=stature_m)
    assert_same_contacts(motion.contacts, detect_contacts(motion), motion.rate_hz)


def noisy(motion: Motion, seed: int) -> Motion:
    noise = np.random.default_rng(seed).normal(0.0, 0.005, motion.root_positions.shape)
    return replace(motion, root_positions=motion.root_positions + noise)


@pytest.mark.parametrize("seed", range(3))
def test_glardon_a25_noise_of_5_mm_splits_the_baseline_and_never_the_adaptive_method(seed: int) -> None:
    clean = samples.walk(rate_hz=120.0)
    rough = noisy(clean, seed)
    feet = contact_points(HUMAN).names[:4]
    adaptive = [plants(detect_contacts(rough, method="adaptive"), name) for name in feet]
    assert adaptive == [plants(detect_contacts(clean, method="adaptive"), name) for name in feet]
    baseline = sum(plants(detect_contacts(rough, method="threshold"), name) for name in feet)
    assert baseline > sum(plants(detect_contacts(clean, method="threshold"), name) for name in feet)


@pytest.mark.parametrize("seed", range(3))
def test_noise_of_5_mm_moves_no_boundary_by_more_than_two_frames(seed: int) -> None:
    clean = samples.walk(rate_hz=120.0)
    assert_same_contacts(clean.contacts, detect_contacts(noisy(clean, seed)), 120.0)


@pytest.mark.parametrize("make", [samples.walk, samples.run])
def test_adaptive_plants_are_near_those_of_the_synthetic_gait(make) -> None:
    motion = make(rate_hz=120.0)
    truth, found = feet_down(motion.contacts), feet_down(detect_contacts(motion, method="adaptive"))
    assert (truth == found).mean() > 0.93


def test_adaptive_plant_is_the_part_of_the_window_below_the_threshold() -> None:
    heights = np.array([9.0, 5.0, 3.0, 1.0, 1.2, 1.0, 2.0, 4.0, 5.0, 9.0])
    assert find_plant_in_window(heights, 1, 8) == (3, 7)  # threshold 1 + 0.4 (5 - 1) = 2.6
    assert find_plant_in_window(heights, 1, 8, delta=0.5) == (2, 7)  # threshold 3


def test_adaptive_plant_of_a_level_window_is_the_whole_window() -> None:
    assert find_plant_in_window(np.ones(10), 2, 7) == (2, 8)


def test_adaptive_plant_does_not_depend_on_the_floor() -> None:
    heights = np.random.default_rng(5).random(40)
    assert find_plant_in_window(heights, 3, 30) == find_plant_in_window(heights + 7.0, 3, 30)


@pytest.mark.parametrize("method", ["hysteresis", "adaptive", "threshold"])
def test_mirrored_motion_has_mirrored_contacts(method: str) -> None:
    motion = replace(samples.walk(), contacts=None)
    contacts, swapped = detect_contacts(motion, method=method), detect_contacts(mirror(motion), method=method)
    for side, other in (("left", "right"), ("right", "left")):
        for part in ("heel", "toe", "hand"):
            np.testing.assert_array_equal(contacts.track(f"{side}_{part}"), swapped.track(f"{other}_{part}"))


def test_contacts_do_not_depend_on_where_the_clip_is() -> None:
    motion = samples.walk()
    moved = replace(motion, root_positions=motion.root_positions + np.array([3.0, -0.7, 11.0]))
    np.testing.assert_array_equal(detect_contacts(motion).active, detect_contacts(moved).active)


def test_contact_positions_are_points_fixed_to_their_joints() -> None:
    motion = samples.walk(seconds=1.0)
    points = contact_points(motion.skeleton)
    origins, frames = motion.joint_frames()
    for k, joint in enumerate(points.joints):
        expected = origins[7, joint] + frames[7, int(joint)].matrix() @ points.offsets[k]
        np.testing.assert_allclose(contact_positions(motion)[7, k], expected, atol=1e-12)


def test_slide_of_a_plant_that_is_dragged_is_its_speed_over_the_rate() -> None:
    motion = standing(np.zeros(50), 100.0)
    drag = np.arange(50)[:, None] * np.array([0.0006, 0.0, 0.0008])
    names = contact_points(HUMAN).names
    dragged = replace(
        motion, root_positions=motion.root_positions + drag, contacts=Contacts(names, np.ones((50, len(names)), bool))
    )
    slides = slide_mm(dragged)
    np.testing.assert_allclose(slides[1:], 1.0, rtol=1e-9)
    assert not slides[0].any()


def test_slide_is_zero_off_the_ground_and_for_a_body_at_rest() -> None:
    motion, *_ = jump(120.0)
    slides = slide_mm(motion)
    assert slides.shape == (motion.num_frames, len(contact_points(HUMAN).names))
    assert slides.max() < 1e-9


def test_with_contacts_keeps_a_track_that_is_there() -> None:
    motion = samples.walk(seconds=1.0)
    assert ensure_contacts(motion) is motion
    bare = replace(motion, contacts=None)
    assert ensure_contacts(bare).contacts is not None


def test_unknown_method_is_named() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'hysteresis'"):
        detect_contacts(samples.walk(seconds=1.0), method="histeresis")


def test_adaptive_method_says_that_a_jump_has_no_gait_cycle() -> None:
    with pytest.raises(InputError, match="no gait cycle"):
        detect_contacts(jump(120.0)[0], method="adaptive")


@pytest.mark.parametrize("frames", [1, 2, 3, 5])
def test_clips_of_a_few_frames_are_planted_where_they_stand(frames: int) -> None:
    contacts = detect_contacts(standing(np.zeros(frames), 30.0))
    assert contacts.shape == (frames, 6)
    assert feet_down(contacts).all()


def test_a_body_without_feet_has_no_foot_contacts() -> None:
    stick = Skeleton(("a", "b"), np.array([-1, 0]), np.array([[0.0, 1.0, 0.0], [0.0, 0.5, 0.0]]))
    motion = Motion(stick, 30.0, np.tile([0.0, 1.0, 0.0], (10, 1)), SO3.identity(10, 2))
    contacts = detect_contacts(motion)
    assert contacts.names == contact_points(stick).names
    assert not feet_down(contacts).any()

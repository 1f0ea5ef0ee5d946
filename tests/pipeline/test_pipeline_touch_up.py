"""The physics touch-up: red stretches are found, repaired, and kept only where the sketch stays kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from marey.dynamics import check_validity
from marey.kinematics import Limb, solve_two_bone
from marey.motion import Motion
from marey.pipeline import cleaning as _touch_up
from marey.pipeline import synthesize_sketch
from marey.pipeline.cleaning import find_invalid_stretches, measure_reaches, repair_motion
from marey.samples import walk
from marey.world import Event, GroundPose, Path, Sketch, Thing, World

SKETCH = Sketch(
    GroundPose((0.0, 0.0)), GroundPose((0.0, 4.0)), Path(np.array([[0.0, 0.0], [0.0, 4.0]])), corridor_m=0.6
)


def red(*frames: int) -> SimpleNamespace:
    levels = np.zeros(300, dtype=np.int64)
    levels[list(frames)] = 2
    return SimpleNamespace(levels=levels, num_frames=300)


def test_red_frames_near_one_another_are_one_stretch():
    assert find_invalid_stretches(red(), 60.0) == []
    (start, stop), (again, last) = find_invalid_stretches(red(30, 40, 200), 60.0)
    assert (start, stop) == pytest.approx((30 / 60 - 0.35, 40 / 60 + 0.35))
    assert (again, last) == pytest.approx((200 / 60 - 0.35, 200 / 60 + 0.35))


def test_long_red_stretches_are_cut_and_ends_stay_inside():
    found = find_invalid_stretches(red(*range(300)), 60.0)
    assert found[0][0] == 0.0 and found[-1][1] <= 299 / 60
    assert all(stop - start <= 3.0 + 1e-9 for start, stop in found)
    assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(found))


@pytest.fixture(scope="module")
def jolted() -> Motion:
    """A walk whose hips are thrown aside in the middle, harder than its feet could push, over feet that stay."""
    motion = synthesize_sketch(SKETCH, "locomotion", check=False).motion
    assert motion is not None
    t = np.arange(motion.num_frames) / motion.rate_hz
    bump = 0.03 * np.exp(-0.5 * ((t - 2.5) / 0.1) ** 2)
    thrown = replace(motion, root_positions=motion.root_positions + bump[:, None] * [1.0, 0.0, 0.0])
    for side in ("left", "right"):
        limb = Limb.from_name(motion.skeleton, f"{side}_leg")
        ends = motion.joint_frames()[1][:, limb.end]
        thrown = solve_two_bone(thrown, limb, motion.joint_positions()[:, limb.end], end_rotations=ends).motion
    return thrown


def test_a_jolt_is_smoothed_and_the_sketch_stays_kept(jolted):
    done = repair_motion(jolted, SKETCH)
    assert len(done.stretches) >= 1 and done.kept >= 1
    assert done.after > done.before
    assert check_validity(done.motion).valid_fraction == pytest.approx(done.after)
    assert "repaired" in done.sentence and done.to_json()["kept"] == done.kept


def test_a_repair_that_leaves_the_corridor_is_not_taken(jolted, monkeypatch):
    aside = replace(jolted, root_positions=jolted.root_positions + np.array([1.0, 0.0, 0.0]))
    monkeypatch.setattr(_touch_up, "repair_stretch", lambda *_: aside)
    done = repair_motion(jolted, SKETCH)
    assert done.kept == 0 and done.motion is jolted


def test_a_repair_that_takes_the_hand_off_its_thing_is_not_taken(jolted, monkeypatch):
    from marey.motion import contact_positions
    from marey.skeleton import contact_points

    hand = contact_positions(jolted)[120, contact_points(jolted.skeleton).index("left_hand")]
    place = (float(hand[0]), float(hand[1]), float(hand[2]))
    sketch = replace(SKETCH, events=(Event("pick", object="cup"),), world=World(objects=(Thing("cup", place),)))
    assert measure_reaches(jolted, sketch) == pytest.approx([0.0], abs=1e-9)
    monkeypatch.setattr(_touch_up, "repair_stretch", lambda *_: walk())
    assert repair_motion(jolted, sketch).kept == 0


def test_no_time_changes_nothing(jolted):
    done = repair_motion(jolted, SKETCH, limit_s=0.0)
    assert done.motion is jolted and done.before == done.after


def test_synthesis_reports_its_touch_up():
    result = synthesize_sketch(replace(SKETCH, goal=GroundPose((0.0, 1.5)), path=None), "locomotion", touch_up=True)
    assert result.touched is not None
    assert result.to_json()["touch_up"]["valid_before"] <= result.validity.valid_fraction + 1e-3

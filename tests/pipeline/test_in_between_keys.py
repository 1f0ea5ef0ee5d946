"""Keys of files and clips become a motion: every key met, feet held where told, every mistake named with its line."""

from __future__ import annotations

import json

import numpy as np
import pytest

import marey
from marey.base import FormatError, InputError
from marey.measure import measure_motion
from marey.pipeline import load_keys, make_in_betweens, take_keys

TIMES = [0.0, 0.5, 1.0, 1.5, 2.0]


@pytest.fixture(scope="module")
def clip():
    return marey.samples.walk(1.2, seconds=2.5)


@pytest.fixture(scope="module")
def source(clip):
    return clip[: round(2.0 * clip.rate_hz) + 1]


@pytest.fixture(scope="module")
def made(clip, source):
    return make_in_betweens(take_keys(clip, TIMES), source=source)


def test_a_walk_of_nobody_in_the_fit_is_nearer_than_slerp(made):
    assert made.method == "people"
    assert made.against["motion"]["l2p_m"] < 0.7 * made.against["slerp"]["l2p_m"]


def test_every_key_is_met_and_said(made, clip):
    assert made.key_miss_m < 0.01
    assert made.is_kept
    for time in TIMES:
        frame = round(time * clip.rate_hz)
        assert np.abs(made.motion.joint_positions()[frame] - clip.joint_positions()[frame]).max() < 0.01


def test_no_joint_jerks_at_a_key(made, clip):
    """Accelerations at keys are no larger than twice the largest between them."""
    speed = np.diff(made.motion.joint_positions(), n=2, axis=0)
    size = np.linalg.norm(speed, axis=-1).max(axis=1)
    at = [round(time * clip.rate_hz) - 1 for time in TIMES[1:-1]]
    assert size[at].max() < 2.0 * np.delete(size, at).max()


def test_a_standing_body_stays(clip):
    plan = take_keys(clip, [0.0, 0.5])
    still = type(plan.keys)(clip.skeleton, dict.fromkeys((0.0, 0.5, 1.0), clip[0]))
    motion = make_in_betweens(type(plan)(still, 30.0)).motion
    assert np.abs(motion.joint_positions() - clip.joint_positions()[0]).max() < 0.03


def test_feet_are_held_on_request_and_the_meter_sees_it(made, clip):
    held = make_in_betweens(take_keys(clip, TIMES), hold=True)
    scraped = [measure_motion(one).values["scraped_m_per_10m"] for one in (made.motion, held.motion)]
    assert scraped[1] < 0.5 * scraped[0]
    assert held.key_miss_m < held.tolerance_m


def test_contacts_that_are_told_are_held(clip, tmp_path):
    marey.save(clip, tmp_path / "clip.bvh")
    rows = "".join(f'[[key]]\ntime_s = {t}\npose = "clip.bvh@{t}"\n' for t in TIMES)
    (tmp_path / "keys.toml").write_text(rows + '[[contact]]\nfoot = "left"\nfrom_s = 0.1\nto_s = 0.4\n')
    plan = load_keys(tmp_path / "keys.toml")
    assert plan.contacts is not None
    assert plan.contacts.track("left_heel").sum() == 10
    motion = make_in_betweens(plan).motion
    ball = motion.joint_positions()[4:12, motion.skeleton.index("left_foot")]
    assert np.ptp(ball, axis=0).max() < 0.01


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('[[key]]\ntime_s = 0\npose = "walk"\n', 3, "FILE@SECONDS"),
        ('[[key]]\ntime_s = 0\npose = "walk@0.1"\n', 1, "two"),
        ('rate_hz = 0\n[[key]]\ntime_s = 0\npose = "walk@0.1"\n', 1, "positive"),
        ('[[key]]\ntime_s = 0\nposes = "walk@0.1"\n', 3, "poses"),
        ('[[key]]\ntime_s = 0\npose = "walk@0"\n[[key]]\ntime_s = 0\npose = "walk@1"\n', 5, "differ"),
    ],
)
def test_a_mistake_is_named_with_its_line(text, line, says, tmp_path):
    (tmp_path / "keys.toml").write_text(text)
    with pytest.raises(FormatError, match=says) as error:
        load_keys(tmp_path / "keys.toml")
    assert f":{line}" in str(error.value)


def test_times_outside_the_clip_are_refused(clip):
    with pytest.raises(InputError, match="lasts"):
        take_keys(clip, [0.0, 99.0])
    with pytest.raises(InputError, match="keys"):
        take_keys(clip, [0.0])


def test_a_creature_is_moved_smoothly_and_that_is_said():
    from marey.lie import SO3
    from marey.motion import KeyFrames
    from marey.pipeline import KeyPlan
    from marey.skeleton import Pose, Skeleton

    snake = Skeleton(("head", "middle", "tail"), (-1, 0, 1), np.array([[0, 0, 0], [0, 0, 1.0], [0, 0, 1.0]]))
    bent = Pose(snake, np.zeros(3), SO3.exp(np.array([[0, 0, 0], [0, 0.5, 0], [0, -0.5, 0]])))
    result = make_in_betweens(KeyPlan(KeyFrames(snake, {0.0: Pose.rest(snake), 1.0: bent}), 30.0))
    assert result.method == "smooth"
    assert any("smoothly" in remark for remark in result.remarks)


def test_the_verb_prints_figures_beside_slerp(run, tmp_path):
    result = run("between", "walk", "--every", "0.5", "-o", tmp_path / "out.bvh", "--json")
    facts = json.loads(result.out)
    assert result.code == 0
    assert set(facts["against"]) == {"motion", "slerp"}
    assert measure_motion(marey.load(tmp_path / "out.bvh")).values["inverted_knee_frames"] == 0


@pytest.mark.parametrize("options", [(), ("--every", "0.5", "--at", "0,1"), ("--at", "0,x")])
def test_the_verb_asks_for_times(run, options):
    assert run("between", "walk", *options).code == 2

"""`marey clean`: defects put into a captured and a shipped walk go, each step on its own account, by the meter."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from marey import load, save
from marey.base import UnknownNameError
from marey.lie import SO3
from marey.measure import measure_motion
from marey.pipeline import clean_motion
from marey.samples import walk


def damage(motion):
    """A gap, a spike of the elbow, a jump of the root, a knee bent backwards and a floor at 10 cm."""
    wxyz, positions = motion.rotations.wxyz.copy(), motion.root_positions.copy()
    wxyz[40:48], positions[40:48] = wxyz[40], positions[40]
    elbow, knee = motion.skeleton.index("right_elbow"), motion.skeleton.index("left_knee")
    wxyz[80, elbow] = (SO3(wxyz[80, elbow]) @ SO3.exp([0.0, 0.5, 0.3])).wxyz
    positions[100:] += [0.3, 0.0, 0.1]
    wxyz[120:126, knee] = SO3.exp([-0.5, 0.0, 0.0]).wxyz
    positions[:, 1] += 0.1
    return replace(motion, rotations=SO3(wxyz), root_positions=positions, contacts=None, source=None)


def find_kinds(motion):
    return {fault.kind for fault in measure_motion(motion).faults}


def check_cleaned(good):
    bad = damage(good)
    result = clean_motion(bad)
    new = find_kinds(bad) - find_kinds(good)
    assert len(new) >= 3, new
    assert not new & find_kinds(result.motion)
    changed = {step.name for step in result.steps if step.frames}
    assert {"gaps", "spikes", "jumps", "floor"} <= changed
    # Where the body is, without the steps that also change a good clip
    same = clean_motion(bad, steps=("gaps", "spikes", "jumps", "limits")).motion
    away = np.linalg.norm(same.joint_positions() - good.joint_positions() - [0.0, 0.1, 0.0], axis=-1)
    assert away.max() < 0.12
    assert np.median(away.max(axis=1)) < 0.01


def test_a_broken_walk_comes_back():
    check_cleaned(walk())


@pytest.mark.mocap
@pytest.mark.parametrize(
    "name",
    ["35_05", "07_03", "91_42"],
)
def test_broken_captures_come_back(mocap, name):
    check_cleaned(load(next(mocap.rglob(f"{name}.bvh"))))


def test_a_step_left_out_changes_nothing_and_an_unknown_one_is_refused():
    bad = damage(walk())
    result = clean_motion(bad, steps=("floor",))
    assert [step.name for step in result.steps] == ["floor"]
    assert (result.motion.rotations.wxyz == bad.rotations.wxyz).all()
    with pytest.raises(UnknownNameError, match="spikes"):
        clean_motion(bad, steps=("spike",))


def test_a_tilted_floor_is_levelled():
    good = walk()
    tilt = SO3.exp([np.deg2rad(2.0), 0.0, 0.0])
    wxyz = good.rotations.wxyz.copy()
    wxyz[:, 0] = (tilt @ good.rotations[:, 0]).wxyz
    tilted = replace(good, root_positions=tilt @ good.root_positions, rotations=SO3(wxyz), source=None)
    result = clean_motion(tilted, steps=("floor",))
    assert any("tilted by 2" in finding for finding in result.steps[0].findings)
    heights = result.motion.root_positions[:, 1]
    assert np.polyfit(np.arange(len(heights)), heights, 1)[0] * len(heights) == pytest.approx(0.0, abs=0.03)


def test_plants_that_scrape_more_are_not_kept():
    motion = walk()
    result = clean_motion(motion, steps=("plants",))
    before, after = (measure_motion(one).values.get("scraped_m_per_10m", 0.0) for one in (motion, result.motion))
    assert after <= before


def test_the_command_tells_every_step_and_writes_both_pictures(run, tmp_path):
    save(damage(walk()), tmp_path / "bad.bvh")
    done = run(
        "clean", tmp_path / "bad.bvh", "-o", tmp_path / "good.bvh", "--strip", tmp_path / "both.png", "--skip",
        "plants", "--csv", tmp_path / "steps.csv", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert {step["step"] for step in facts["steps"]} >= {"gaps", "spikes", "floor"}
    assert "plants" not in {step["step"] for step in facts["steps"]}
    assert facts["before"]["faults"]
    assert (tmp_path / "good.bvh").is_file()
    assert (tmp_path / "both.png").stat().st_size > 10_000
    assert len((tmp_path / "steps.csv").read_text().splitlines()) == 1 + len(facts["steps"])
    assert run("clean", tmp_path / "bad.bvh", "-o", tmp_path / "x.bvh", "--only", "spoke").code == 2


def test_a_take_at_twice_its_rate_is_slowed_and_the_step_says_so():
    fast = replace(walk(), rate_hz=2.0 * walk().rate_hz, source=None)
    (step,) = clean_motion(fast, steps=("time-base",)).steps
    assert step.frames == fast.num_frames
    assert "played at 60 Hz, not 120" in step.findings[0]


def test_a_take_in_order_comes_out_without_a_contact_track():
    good = replace(walk(), contacts=None)
    assert clean_motion(good, steps=("gaps", "spikes", "jumps", "floor")).motion.contacts is None

"""The time-base check."""

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from marey import samples
from marey.io import load
from marey.lie import SO3
from marey.motion import Motion, check_time_base, place, resample
from marey.motion.time_base import WEIGHTS, cue_score, find_body, measure_cues, score_cues, slow_fall
from marey.skeleton import Skeleton, human

jump, run, walk = (cache(make) for make in (samples.jump, samples.run, samples.walk))


@pytest.mark.parametrize("make", [walk, run, jump])
def test_samples_are_not_suspect_at_their_own_rate(make):
    base = check_time_base(make())
    assert not base.is_suspect
    assert base.warning is None and base.suggested_rate_hz == base.rate_hz == make().rate_hz


@pytest.mark.parametrize("make", [walk, run, jump])
@pytest.mark.parametrize("factor", [2, 4])
def test_samples_read_too_fast_are_flagged_with_their_true_rate(make, factor):
    clip = make()
    base = check_time_base(replace(clip, rate_hz=factor * clip.rate_hz))
    assert base.is_suspect and base.suggested_rate_hz == clip.rate_hz
    assert f"rate_hz={clip.rate_hz:g}" in base.warning


def test_gravity_is_the_first_reason_for_a_jump_read_too_fast():
    base = check_time_base(replace(jump(), rate_hz=2 * jump().rate_hz))
    assert base.evidence[0].startswith("in flight it falls at 3")  # 4 g: 39 m/s²


def test_free_fall_is_one_at_the_right_rate_and_the_square_of_the_speed_up():
    falls = []
    for factor in (1.0, 2.0):
        body = find_body(replace(jump(), rate_hz=factor * jump().rate_hz))
        assert body is not None
        falls.append(measure_cues(body)["free fall"])
    assert falls[0] == pytest.approx(1.0, abs=0.05)
    assert falls[1] == pytest.approx(4.0, abs=0.3)


def test_a_jump_played_at_half_speed_is_flagged_with_double_the_rate():
    base = check_time_base(replace(jump(), rate_hz=0.5 * jump().rate_hz))
    assert base.is_suspect and base.suggested_rate_hz == jump().rate_hz
    assert "too low: in flight it falls at 2." in base.warning


def test_a_lively_walk_at_a_quarter_of_its_speed_is_flagged_with_its_true_rate():
    base = check_time_base(replace(walk(), rate_hz=0.25 * walk().rate_hz))
    assert base.suggested_rate_hz == walk().rate_hz
    assert "too low: people take" in base.warning


def test_a_clip_without_steps_and_flights_cannot_be_told():
    still = replace(walk(), root_positions=walk().root_positions * [0.0, 1.0, 0.0])
    still = replace(still, rotations=SO3(np.tile(walk().rotations.wxyz[:1], (walk().num_frames, 1, 1))))
    assert check_time_base(walk()).is_testable and not check_time_base(still).is_testable


@pytest.mark.parametrize("make", [walk, run])
def test_people_may_move_slowly(make):
    base = check_time_base(replace(make(), rate_hz=0.6 * make().rate_hz))
    assert not base.is_suspect


def test_no_sample_falls_slowly():
    assert [slow_fall(find_body(make())) for make in (walk, run, jump)] == [None, None, None]


@pytest.mark.parametrize("cue", ["swing", "step time"])
def test_durations_halve_at_double_speed(cue):
    slow, fast = (measure_cues(find_body(replace(walk(), rate_hz=f * walk().rate_hz)))[cue] for f in (1.0, 2.0))
    assert slow / fast == pytest.approx(2.0, rel=0.15)


def test_the_verdict_does_not_depend_on_where_the_clip_is():
    a, b = check_time_base(walk()), check_time_base(place(walk(), (30.0, -8.0), 2.2))
    assert a.log_odds == pytest.approx(b.log_odds, abs=0.2)


def test_a_cue_at_its_middle_or_absent_says_nothing():
    assert score_cues({}, bias=0.0) == 0.0
    for weight in WEIGHTS.values():
        assert cue_score(weight, weight.middle) == pytest.approx(0.0)


def test_signs_follow_physics():
    assert all((weight.slope < 0.0) == (name in ("swing", "step time")) for name, weight in WEIGHTS.items())


def test_one_absurd_value_cannot_decide_alone():
    for weight in WEIGHTS.values():
        assert cue_score(weight, 1e9) == cue_score(weight, 1e-9) == 0.0
        assert 0.0 < cue_score(weight, 1.3 * weight.high) / cue_score(weight, weight.high) < 1.0


def test_a_tree_without_legs_is_not_judged():
    stick = Skeleton(("a", "b"), np.array([-1, 0]), np.array([[0.0, 0, 0], [0, 1.0, 0]]))
    base = check_time_base(Motion(stick, 240.0, np.zeros((100, 3)), SO3.identity(100, 2)))
    assert not base.is_suspect and "no evidence" in base.evidence[0]


def test_a_clip_of_a_few_frames_or_a_giant_is_not_judged():
    fast = replace(walk(), rate_hz=480.0)
    assert not check_time_base(fast[:20]).is_suspect
    giant = replace(fast, skeleton=human(30.0), root_positions=fast.root_positions * 17.0)
    assert not check_time_base(giant).is_suspect


def test_a_root_that_jumps_is_cut_out():
    clip = walk()
    positions = clip.root_positions.copy()
    positions[:4] = 0.0  # as in captures whose first frames are empty
    positions[4:, 0] += 5.0
    assert not check_time_base(replace(clip, root_positions=positions)).is_suspect


def test_standing_still_is_not_suspect():
    still = replace(walk(), root_positions=np.tile(walk().root_positions[:1], (240, 1)))
    still = replace(still, rotations=SO3(np.tile(walk().rotations.wxyz[:1], (240, 1, 1))))
    assert not check_time_base(still).is_suspect


def true_rates(mocap: Path) -> dict[str, float]:
    """Rates judged true by the tables of the data's README."""
    rates: dict[str, float] = {}
    for line in (mocap / "README.md").read_text().splitlines():
        cells = [cell.strip(" *") for cell in line.split("|")]
        if len(cells) > 5 and cells[1].endswith(".bvh"):
            rates[cells[1]] = float(cells[6] if len(cells) > 10 else cells[4])
    with (mocap / "index.csv").open() as lines:
        for row in csv.DictReader(lines):
            assert rates[row["file"]] == float(row["fps_true"])
    return rates


@pytest.mark.mocap
@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])  # of the clips, one in so many
def test_captured_clips_of_60_hz_are_flagged_and_at_most_3_percent_of_the_others(mocap, every):
    flagged: dict[str, float] = {}
    rates = dict(sorted(true_rates(mocap).items())[::every])
    for name in rates:
        base = check_time_base(load(mocap / "cmu-bvh" / name))
        if base.is_suspect:
            flagged[name] = base.suggested_rate_hz
    fast = {name for name, rate in rates.items() if rate == 60.0}
    assert len(true_rates(mocap)) == 339
    assert len(fast) == 43 if every == 1 else len(fast) >= 3
    assert fast - set(flagged) == set()
    assert {flagged[name] for name in fast} == {60.0}
    assert len(set(flagged) - fast) <= 0.03 * (len(rates) - len(fast))


@pytest.mark.mocap
@pytest.mark.parametrize("rate_hz", [30.0, 60.0, 125.0])
def test_clips_resampled_to_a_genuine_rate_ring_at_most_once_in_a_hundred(mocap, rate_hz):
    rung = [name for name, clip in some_clips(mocap) if check_time_base(resample(clip, rate_hz)).is_suspect]
    assert len(rung) <= 1


@pytest.mark.mocap
def test_noise_drift_and_clips_in_place_do_not_ring(mocap):
    rng = np.random.default_rng(0)
    rung: list[str] = []
    for name, clip in some_clips(mocap):
        clip = resample(clip, 60.0)
        path = clip.root_positions
        tremble = SO3.exp(np.radians(1.0) * rng.normal(size=(*clip.rotations.shape, 3)))
        noisy = replace(
            clip, root_positions=path + 0.004 * rng.normal(size=path.shape), rotations=clip.rotations @ tremble
        )
        turns = np.arange(len(path))[:, None] / 60.0 * rng.uniform(2.0, 5.0, 3) + rng.uniform(0.0, 1.0, 3)
        drifting = replace(clip, root_positions=path + 0.02 * np.sin(2.0 * np.pi * turns))
        level = np.array([1.0, 0.0, 1.0])
        pinned = replace(clip, root_positions=path - level * (path - path[0]))
        rung += [name for variant in (noisy, drifting, pinned) if check_time_base(variant).is_suspect]
    assert len(rung) <= 5  # of 255


@pytest.mark.mocap
def test_clips_of_other_tools_at_double_speed_are_found_in_four_of_five(mocap):
    clips = [replace(clip, rate_hz=2.0 * clip.rate_hz) for _, clip in some_clips(mocap)]
    found = [check_time_base(clip) for clip in clips]
    assert np.mean([base.is_suspect for base in found]) > 0.8
    halves = [base.suggested_rate_hz / base.rate_hz for base in found if base.is_suspect]
    assert np.mean(np.array(halves) == 0.5) > 0.95


@cache
def some_clips(mocap: Path) -> list[tuple[str, Motion]]:
    """Every fourth captured clip at its true rate, as if another tool had written it."""
    rates = sorted(true_rates(mocap).items())[::4]
    clips = [(name, load(mocap / "cmu-bvh" / name, rate_hz=rate), rate) for name, rate in rates]
    return [(name, replace(clip[:1500], source=None, rate_hz=rate)) for name, clip, rate in clips]


@pytest.mark.mocap
@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_captured_clips_are_not_suspect_once_their_rate_is_right(mocap, every):
    fast = [name for name, rate in true_rates(mocap).items() if rate == 60.0][::every]
    wrong = [name for name in fast if check_time_base(replace(load(mocap / "cmu-bvh" / name), rate_hz=60.0)).is_suspect]
    assert wrong == []


@pytest.mark.mocap
def test_captured_gaits_played_at_half_speed_are_flagged_in_half_and_to_no_other_rate(mocap):
    clips = [clip for _, clip in some_clips(mocap)[::4]]
    factors = [check_time_base(replace(c, rate_hz=0.5 * c.rate_hz)).suggested_rate_hz / c.rate_hz for c in clips]
    assert set(factors) <= {0.5, 1.0} and np.mean(np.array(factors) == 1.0) > 0.5


@pytest.mark.mocap
def test_captured_jumps_played_at_half_speed_are_flagged(mocap):
    names = sorted(path.name for path in (mocap / "cmu-bvh").glob("118_*.bvh"))[:12]
    slow = [check_time_base(replace(load(mocap / "cmu-bvh" / name), rate_hz=60.0)) for name in names]
    assert np.mean([base.suggested_rate_hz == 120.0 for base in slow]) > 0.8

"""The study of inverse kinematics: its statistics against an oracle, its protocol on a few frames."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from matplotlib.cbook import boxplot_stats

from marey.kinematics import BoxLimits
from marey.samples import walk

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import ik_harness

    return ik_harness


@pytest.mark.parametrize("seed", range(6))
def test_boxes_whiskers_and_outliers_are_those_of_matplotlib(harness: ModuleType, seed: int):
    values = np.random.default_rng(seed).standard_t(1.5, 15 + 40 * seed)
    ours, theirs = harness.box_stats(values), boxplot_stats(values)[0]
    found = (ours.low, ours.q1, ours.median, ours.q3, ours.high)
    assert found == pytest.approx([theirs[key] for key in ("whislo", "q1", "med", "q3", "whishi")])
    np.testing.assert_allclose(ours.outliers, np.sort(theirs["fliers"]))


def test_a_course_runs_forth_and_back_at_its_interval(harness: ModuleType):
    clip = walk()[:61]  # one second
    way = harness.course(clip, 0.4, 8, None)
    rows = [0, 24, 48, 48, 24, 0, 24, 48]  # 72 is 48 on the way back from 60
    np.testing.assert_array_equal(way.roots, clip.root_positions[rows])
    np.testing.assert_allclose(way.goals[:, 4], clip.root_positions[rows])  # the pelvis is the root


def test_stretched_goals_are_as_much_further_from_the_pelvis(harness: ModuleType):
    way = harness.course(walk(), 0.1, 4, None)
    far = way.stretched(1.5)
    before, after = (np.linalg.norm(w.goals - w.goals[:, 4:5], axis=-1) for w in (way, far))
    np.testing.assert_allclose(after, 1.5 * before, atol=1e-12)


@pytest.mark.slow
def test_every_method_follows_a_walk_inside_its_limits(harness: ModuleType):
    limits = BoxLimits.from_clips(walk(), margin_rad=0.1)
    way = harness.course(walk(), 0.05, 5, limits)
    for solver in harness.SOLVERS:
        log = harness.follow(way, solver, 40)
        assert len(log.objective) == 4 and len(log.shake) == 2
        assert np.isfinite(log.objective).all() and not log.diverged.any()
        assert log.violation_rad.max() <= 1e-6 and (log.seconds > 0.0).all()
    assert harness.follow(way, harness.SOLVERS[0], 40).goal_error_m.max() <= 1e-3


def test_a_pose_that_is_the_reference_neither_shakes_nor_strays(harness: ModuleType):
    way = harness.course(walk(), 0.05, 8, None)
    turn, _, shake, stray = harness._smoothness(way, [way.pose(k) for k in range(8)])
    assert np.sqrt((shake**2).mean()) == pytest.approx(1.0) and stray.max() < 1e-12 and turn.max() > 0.01


@pytest.mark.slow
def test_the_study_writes_its_table_its_figures_and_its_picture(
    harness: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    import study_ik_harness

    words = ["--frames", "4", "--slot-ms", "1", "--methods", "projected-lm", "ccd", "--out", str(tmp_path)]
    assert study_ik_harness.main(words) == 0
    report = json.loads((tmp_path / "ik_harness.json").read_text())
    assert set(report["coherence"]) == {"projected-lm", "ccd"} and report["clips"] == ["walk", "run", "jump"]
    assert set(report["coherence"]["ccd"]) == {"0.05", "0.175", "0.7", "1.0"}
    assert report["transpose_step"]["0.05"]["rising_share"] > report["transpose_step"]["0.001"]["rising_share"]
    assert (tmp_path / "ik_harness.png").stat().st_size > 20_000
    assert "| projected-lm | 0.05 |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--methods", "newton"], "no method called newton; there are projected-lm"),
        (["--frames", "2"], "at least 4 frames"),
        (["--slot-ms", "0"], "a slot longer than nothing"),
    ],
)
def test_wrong_usage_ends_with_a_sentence(
    harness: ModuleType, capsys: pytest.CaptureFixture[str], words: list[str], answer: str
):
    import study_ik_harness

    with pytest.raises(SystemExit) as ended:
        study_ik_harness.main(words)
    assert ended.value.code == 2 and answer in capsys.readouterr().err

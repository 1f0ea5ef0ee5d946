"""Training on cycles that were synthesised: cutting, closing, cleaning, and what a fit makes of them. No captures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.gait_tables import frequency_at

from marey.base import FormatError, InputError
from marey.lie import SO3
from marey.locomotion import LocomotionModel, load_manifest, load_model
from marey.locomotion.fitting.fit import COLUMN_WEIGHTS, POSTURE_COLUMNS, fit_units
from marey.locomotion.fitting.trials import TrialGroup, reject_outliers
from marey.locomotion.model.synthesis import synthesise_unit
from marey.locomotion.units.gait_unit import (
    Cycle,
    MotionUnit,
    close_cycle,
    closing_residual,
    expected_cadence,
    find_far_rotations,
    foot_pitches,
    joint_angular_speeds,
    level_feet,
    measure_leg_length,
    repair_joint_flips,
    resample_cycle,
    rotations_from_rows,
    segment_clip,
    straighten_cycle,
    unit_rows,
    unwrap_rotation_vectors,
    warp_phases,
)
from marey.models.hierarchy import sort_gaits, sort_subjects
from marey.motion import Motion, place
from marey.skeleton import HUMAN, joint_positions

PEOPLE = ("07", "16", "35", "39")


@pytest.fixture(scope="module")
def model() -> LocomotionModel:
    return load_model()


def made(
    model: LocomotionModel, speed: float, style: str, run: float = 0.0, seed: int = 0, noise: float = 0.01
) -> MotionUnit:
    s = speed / model.leg_length_m
    rows = synthesise_unit(model.gaits, model.leg_length_m, s, run, model.weights(style))
    shake = noise * np.random.default_rng(seed).normal(size=(1, HUMAN.num_joints, 3))
    wxyz = (SO3(rotations_from_rows(rows, model.gaits.means)) @ SO3.exp(shake)).wxyz
    return MotionUnit(
        rows[:, :3], wxyz, style, "run" if run else "walk", s, speed, model.leg_length_m, 1.0, clip=f"{style}_{seed}"
    )


@pytest.fixture(scope="module")
def units(model) -> list[MotionUnit]:
    walks = [made(model, v, p, 0.0, i) for p in PEOPLE for i, v in enumerate((0.8, 1.1, 1.4, 1.7, 2.0))]
    return walks + [made(model, v, p, 1.0, 9 + i) for p in PEOPLE[1:3] for i, v in enumerate((2.0, 2.7, 3.4, 4.1))]


@pytest.fixture(scope="module")
def fitted(units) -> LocomotionModel:
    return fit_units(units)


def walked(model: LocomotionModel, speed: float, style: str, heading: float = 0.0, seconds: float = 5.0) -> Motion:
    s, weights, rate = speed / model.leg_length_m, model.weights(style), 120.0
    rows = model.gaits.row(s, 0.0, weights)
    times = np.arange(int(seconds * rate)) / rate
    phases = (times * frequency_at(model.gaits, s, 0.0, weights) * len(rows)) % len(rows)
    low = phases.astype(int)
    part = (phases - low)[:, None]
    now = (1.0 - part) * rows[low] + part * rows[(low + 1) % len(rows)]
    roots = model.leg_length_m * now[..., :3] + speed * times[:, None] * np.array([0.0, 0.0, 1.0])
    walk = Motion(model.skeleton, rate, roots, SO3(rotations_from_rows(now, model.gaits.means)), name="walked")
    return place(walk, (3.0, -1.0), heading) if heading else walk


def test_closing_a_cycle_spreads_its_gap_over_all_frames():
    rng = np.random.default_rng(0)
    root = np.cumsum(rng.normal(size=(30, 3)), axis=0)
    wxyz = SO3.exp(0.4 * np.cumsum(rng.normal(size=(30, 2, 3)), axis=0) / 5.0).wxyz
    cycle = close_cycle(root, wxyz)
    np.testing.assert_allclose(cycle.root[-1], cycle.root[0], atol=1e-12)
    assert closing_residual(cycle.wxyz[0], cycle.wxyz[-1]).max() < 1e-7
    np.testing.assert_allclose(cycle.root[0], root[0])


def test_warped_time_puts_the_other_strike_at_one_half():
    for opposite in (0.42, 0.5, 0.58):
        phases = warp_phases(50, opposite)
        assert np.interp(0.5, np.arange(50) / 50, phases) == pytest.approx(opposite, abs=2e-3)
        assert (np.diff(phases) > 0.0).all() and phases[0] == 0.0


def test_resampling_a_cycle_at_its_own_frames_gives_it_back():
    rng = np.random.default_rng(1)
    cycle = close_cycle(rng.normal(size=(21, 3)), SO3.exp(0.2 * rng.normal(size=(21, 3, 3))).wxyz)
    again = resample_cycle(cycle, np.arange(20) / 20)
    np.testing.assert_allclose(again.root, cycle.root[:-1], atol=1e-12)
    assert SO3(again.wxyz).inverse().__matmul__(SO3(cycle.wxyz[:-1])).angle().max() < 1e-7


def test_a_straightened_stretch_travels_along_z():
    root = np.linspace(0.0, 2.0, 11)[:, None] * np.array([np.sin(0.7), 0.0, np.cos(0.7)])
    turned = straighten_cycle(root, SO3.identity(11, 1).wxyz, 0.7)
    np.testing.assert_allclose(turned.root[-1], [0.0, 0.0, 2.0], atol=1e-12)
    assert isinstance(turned, Cycle)


def test_logs_follow_the_frame_before_over_half_a_turn():
    angles = np.linspace(2.5, 4.5, 20)
    logs = SO3.exp(angles[:, None, None] * np.array([0.0, 1.0, 0.0])).log()
    np.testing.assert_allclose(unwrap_rotation_vectors(logs)[:, 0, 1], angles, atol=1e-9)


@pytest.mark.parametrize("heading", [0.0, 2.1])
def test_a_walk_is_cut_into_units_that_are_the_walk(model, heading):
    units, rejected, notes = segment_clip(walked(model, 1.3, "35", heading), "35", "walk")
    assert len(units) >= 5 and not rejected and not notes
    truth = model.gaits.row(1.3 / model.leg_length_m, 0.0, model.weights("35"))
    wanted = SO3(rotations_from_rows(truth, model.gaits.means))
    for unit in units:
        assert unit.speed_mps == pytest.approx(1.3, rel=0.02)
        assert unit.speed_n == pytest.approx(1.3 / model.leg_length_m, rel=0.02)
        off = min((SO3(np.roll(unit.wxyz, roll, axis=0)).inverse() @ wanted).angle().mean() for roll in range(-4, 5))
        assert np.rad2deg(off) < 2.0
    assert {unit.side for unit in units} == {"left", "right"}


def test_a_backward_walk_is_left_out(model):
    walk = walked(model, 1.3, "35")
    backward = replace(walk, root_positions=walk.root_positions[::-1], rotations=SO3(walk.rotations.wxyz[::-1]))
    units, rejected, _ = segment_clip(backward, "35", "walk")
    assert not units
    assert all("backwards" in r.reason for r in rejected)


def test_short_clips_are_refused_by_name(model):
    with pytest.raises(InputError, match="walked"):
        segment_clip(walked(model, 1.3, "35")[:40], "35", "walk")


def test_a_flip_is_bridged_and_told(model):
    walk = walked(model, 1.3, "35")
    wxyz = walk.rotations.wxyz.copy()
    knee = HUMAN.index("left_knee")
    wxyz[200:206, knee] = (SO3(wxyz[200:206, knee]) @ SO3.exp(np.array([0.0, 0.0, 2.0]))).wxyz
    whole, notes = repair_joint_flips(replace(walk, rotations=SO3(wxyz)))
    assert len(notes) == 1 and "left_knee" in notes[0]
    off = (SO3(whole.rotations.wxyz[:, knee]).inverse() @ SO3(walk.rotations.wxyz[:, knee])).angle()
    assert np.rad2deg(off.max()) < 8.0
    assert joint_angular_speeds(whole.rotations.wxyz, 120.0).max() < joint_angular_speeds(wxyz, 120.0).max() / 4.0
    assert repair_joint_flips(walk) == (walk, ())


def test_feet_that_were_captured_pitched_are_laid_flat(model):
    unit = made(model, 1.3, "35", noise=0.0)
    wxyz = unit.wxyz.copy()
    for side in ("left", "right"):
        ankle = HUMAN.index(f"{side}_ankle")
        wxyz[:, ankle] = (SO3(wxyz[:, ankle]) @ SO3.exp(np.array([0.12, 0.0, 0.0]))).wxyz
    root = unit.root + np.array([0.0, 0.05, 0.0])
    tilted = replace(unit, wxyz=wxyz, root=root)
    assert (foot_pitches([tilted]) - foot_pitches([unit])).mean() == pytest.approx(0.12, abs=0.01)
    flat = level_feet([tilted], model.leg_length_m)[0]
    heights = joint_positions(HUMAN, flat.root * model.leg_length_m, flat.wxyz)[8:13, HUMAN.index("right_ankle"), 1]
    assert heights.mean() == pytest.approx(HUMAN.rest_positions()[HUMAN.index("right_ankle"), 1], abs=0.01)


def test_units_far_from_their_group_are_left_out(units):
    odd = units[2]
    wxyz = (SO3(odd.wxyz) @ SO3.exp(0.3 * np.ones((1, HUMAN.num_joints, 3)))).wxyz
    group = [*units[:5], *(replace(u, clip="again") for u in units[:5]), replace(odd, wxyz=wxyz, clip="odd")]
    kept, far = reject_outliers(group)
    assert [r.clip for r in far] == ["odd"] and len(kept) == 10
    assert reject_outliers([]) == ([], [])


def test_a_fit_gives_back_the_units_it_was_made_of(model, fitted):
    for style, run, speed in (("35", 0.0, 1.2), ("16", 1.0, 3.0), ("07", 0.0, 1.6)):
        s = speed / model.leg_length_m
        rows = fitted.gaits.row(s, run, fitted.weights(style))
        wanted = model.gaits.row(s, run, model.weights(style))
        off = (
            SO3(rotations_from_rows(rows, fitted.gaits.means)).inverse()
            @ SO3(rotations_from_rows(wanted, model.gaits.means))
        ).angle()
        assert np.rad2deg(off.mean()) < 2.5, (style, run)
        assert frequency_at(fitted.gaits, s, run, fitted.weights(style)) == pytest.approx(
            frequency_at(model.gaits, s, run, model.weights(style)), rel=0.08
        )


def test_who_never_ran_runs_as_the_others_in_an_own_posture(fitted):
    k = fitted.styles.index("07")
    assert fitted.lent[k].tolist() == [False, True]
    row = fitted.gaits.row(3.0, 1.0, fitted.weights("07"))
    common = fitted.gaits.row(3.0, 1.0, fitted.weights({"16": 1.0, "35": 1.0}))
    legs = [3 + 3 * HUMAN.index(f"{side}_knee") for side in ("left", "right")]
    assert np.abs(row[:, legs] - common[:, legs]).max() < 0.25
    assert set(fitted.default_style) == {"16", "35"}


def test_glardon_a6_a_style_does_not_hear_of_the_others(fitted):
    """With the common parts fixed, other people's leaves may change: the style of one stays to the bit."""
    gaits, k = fitted.gaits, fitted.styles.index("35")
    weights = fitted.weights("35")
    before = gaits.row(1.4, 0.5, weights)
    base, lift = gaits.base.copy(), gaits.lift.copy()
    for other in range(len(fitted.styles)):
        if other != k:
            base[other] += 1.0
            lift[other] *= -2.0
    np.testing.assert_array_equal(gaits._replace(base=base, lift=lift).row(1.4, 0.5, weights), before)
    people = {name: person for name, person in fitted.tree.people.items() if name in ("35", "16")}
    alone = replace(fitted.tree, people=people)
    np.testing.assert_array_equal(alone.row(1.4, people={"35": 1.0}), fitted.tree.row(1.4, people={"35": 1.0}))


def test_units_sort_by_gait_and_person(model, units, fitted):
    table = np.stack([unit_rows(u.root, u.wxyz, fitted.gaits.means).ravel() for u in units])
    scores = fitted.tree.main.scores(table)
    assert sort_gaits(scores, np.array([u.speed_mps for u in units])) == tuple(u.gait for u in units)
    walks = [i for i, u in enumerate(units) if u.gait == "walk"]
    examples = {
        p: next(n for n, i in enumerate(walks) if units[i].subject == p and units[i].speed_mps == 1.4) for p in PEOPLE
    }
    found = sort_subjects(scores[walks], examples)
    assert np.mean([a == units[i].subject for a, i in zip(found, walks, strict=True)]) >= 0.8


@pytest.mark.slow
def test_units_of_25_frames_as_in_the_thesis_serve_as_well(model, units, fitted):
    few = fit_units([replace(u, root=u.root[::2], wxyz=u.wxyz[::2]) for u in units])
    assert few.gaits.base.shape[2] == 25
    rows = few.gaits.row(1.4, 0.0, few.weights("35"))
    wanted = fitted.gaits.row(1.4, 0.0, fitted.weights("35"))[::2]
    off = (
        SO3(rotations_from_rows(rows, few.gaits.means)).inverse() @ SO3(rotations_from_rows(wanted, fitted.gaits.means))
    ).angle()
    assert np.rad2deg(off.max()) < 4.0
    assert frequency_at(few.gaits, 1.4, 0.0, few.weights()) == pytest.approx(
        frequency_at(fitted.gaits, 1.4, 0.0, fitted.weights()), rel=0.05
    )


def test_joints_whose_rotations_are_no_lines_are_told():
    table = np.zeros((2, 4, 9))  # two units, four frames, root and two joints
    table[0, :, 3], table[1, :, 3] = 1.8, 1.7  # far, but about one axis
    table[0, 1, 6], table[1, 1, 7] = 1.8, 1.7  # far, about two
    found = find_far_rotations(table, ("knee", "shoulder"))
    assert list(found) == ["shoulder"]
    assert found["shoulder"] == pytest.approx((1.8, np.pi / 2))


def test_a_model_needs_walks_and_runs(units):
    with pytest.raises(InputError, match="run"):
        fit_units([u for u in units if u.gait == "walk"])


def test_noisy_joints_weigh_less_and_legs_are_no_posture():
    weights, posture = COLUMN_WEIGHTS, POSTURE_COLUMNS
    wrist, knee = 3 + 3 * HUMAN.index("left_wrist"), 3 + 3 * HUMAN.index("left_knee")
    assert weights[wrist] < weights[knee] == 1.0
    assert posture[wrist] == 1.0 and posture[knee] == 0.0 and not posture[:3].any()


def test_the_leg_of_a_performer_is_hip_to_floor(model):
    assert measure_leg_length(HUMAN) == pytest.approx(model.leg_length_m, rel=2e-3)
    assert expected_cadence(1.5, "walk") == pytest.approx(0.92, abs=0.02)
    assert expected_cadence(3.2, "run") == pytest.approx(1.44, abs=0.02)


def test_the_shipped_manifest_keeps_its_splits_apart():
    plan = load_manifest()
    train, test = ({clip for group in plan.groups for clip in getattr(group, split)} for split in ("train", "test"))
    assert len(train) > 40 and len(test) > 20 and not train & test
    assert set(load_model().info["clips"]) <= train


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("", 1, "group"),
        ('[[group]]\nsubject = "a"\ngait = "hop"\ntrain = ["x"]\n', 1, "hop"),
        ('[[group]]\nsubject = "a"\ngait = "walk"\ntrain = ["x"]\ntest = ["x"]\n', 1, "trains and tests"),
        ('[[group]]\nsubject = "a"\ngait = "walk"\ntrain = ["x"]\nspeed = 3\n', 5, "speed"),
        ('default_style = ["b"]\n[[group]]\nsubject = "a"\ngait = "walk"\ntrain = ["x"]\n', 1, "default_style"),
        ('[[group]\n', 1, "wrong"),
    ],
)  # fmt: skip
def test_a_wrong_manifest_is_refused_with_its_line(tmp_path, text, line, told):
    file = tmp_path / "wrong.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=told) as error:
        load_manifest(file)
    assert "wrong.toml" in str(error.value)
    assert error.value.line == line


def test_a_group_of_no_clip_is_refused():
    with pytest.raises(InputError):
        TrialGroup("a", "walk", ())

"""Clips that no body could make, made valid: lifted, tilted, played too fast, or only in part ([Fang2003]_ F25-F27)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from oracles.stiff_walk import make_stiff_walk
from typer.testing import CliRunner

from marey.base import ConvergenceError, InputError, MareyError
from marey.cli.app import app
from marey.contacts import detect_contacts
from marey.dynamics import Body, JointTree, check_validity
from marey.io import load, save
from marey.lie import SO3
from marey.motion import Contacts, Motion, contact_positions
from marey.numerics import SolveStatus
from marey.samples import jump, names, run, walk
from marey.samples import load as load_sample
from marey.skeleton import contact_points
from marey.spacetime import RepairResult, make_valid
from marey.spacetime.repair.programme import RepairSettings, pendulum_rows, wrench_rows
from marey.spacetime.repair.window import build_coordinate_map, level_motion


def lifted(motion: Motion, height_m: float = 0.2) -> Motion:
    return replace(motion, root_positions=motion.root_positions + np.array([0.0, height_m, 0.0]), source=None)


def tilted(motion: Motion, axis: tuple[float, float, float] = (0.0, 0.0, 1.0)) -> Motion:
    R = SO3.exp(np.deg2rad(12.0) * np.array(axis))
    wxyz = motion.rotations.wxyz.copy()
    wxyz[:, 0] = (R @ motion.rotations[:, 0]).wxyz
    return replace(motion, root_positions=R @ motion.root_positions, rotations=SO3(wxyz), source=None)


def speeded(motion: Motion) -> Motion:
    return replace(motion, rate_hz=1.5 * motion.rate_hz, source=None)


@pytest.fixture(scope="module")
def stroll(mocap: Path) -> Motion:
    return load(mocap / "cmu-bvh" / "16_47.bvh")[1:300]


@pytest.fixture(scope="module")
def hop(mocap: Path) -> Motion:
    return load(mocap / "cmu-bvh" / "118_03.bvh")[100:400]


@pytest.fixture(scope="module")
def hasty(stroll: Motion) -> RepairResult:
    return make_valid(speeded(stroll))


@pytest.fixture(scope="module")
def sample() -> RepairResult:
    return make_valid(make_stiff_walk())


# The shipped clips, on any machine


def test_the_sample_walk_turns_green(sample: RepairResult) -> None:
    assert sample.before.valid_fraction < 0.5
    assert sample.after.valid_fraction >= 0.98
    assert sample.status is SolveStatus.CONVERGED


def test_the_sample_walk_hardly_moves(sample: RepairResult) -> None:
    assert 0.0 < sample.change_rad < np.deg2rad(1.5)
    assert sample.change_m < 0.04


def test_the_report_of_a_repair_is_that_of_its_motion(sample: RepairResult) -> None:
    again = check_validity(sample.motion, contacts=make_stiff_walk().contacts)
    assert again.valid_fraction == pytest.approx(sample.after.valid_fraction, abs=0.01)


def test_the_same_clip_gives_the_same_bits(sample: RepairResult) -> None:
    again = make_valid(make_stiff_walk())
    assert np.array_equal(again.motion.rotations.wxyz, sample.motion.rotations.wxyz)
    assert np.array_equal(again.motion.root_positions, sample.motion.root_positions)


@pytest.mark.slow
@pytest.mark.parametrize("clip", [jump, run])
def test_other_samples_get_greener(clip) -> None:
    found = make_valid(clip())
    assert found.after.valid_fraction >= 0.9 > found.before.valid_fraction


def test_what_is_green_stays_bit_for_bit(sample: RepairResult) -> None:
    again = make_valid(sample.motion)
    assert again.iterations == 0
    assert again.motion is sample.motion
    assert again.change_rad < 1e-15
    assert again.change_m == 0.0


def test_a_result_says_what_it_did(sample: RepairResult) -> None:
    data = sample.to_json()
    assert data["valid_after"] > data["valid_before"]
    assert data["change_rad"] == sample.change_rad
    assert "% green before" in sample.sentence
    assert "CONVERGED" in repr(sample)


def test_planted_feet_stay_within_two_centimetres(sample: RepairResult) -> None:
    before, after = contact_positions(make_stiff_walk()), contact_positions(sample.motion)
    track = make_stiff_walk().contacts
    assert track is not None
    names = contact_points(make_stiff_walk().skeleton).names
    moved = [
        np.linalg.norm((after - before)[track.track(name), names.index(name)], axis=-1).max(initial=0.0)
        for name in track.names
        if name in names
    ]
    assert 0.0 < max(moved) < 0.02


# Captures


@pytest.mark.mocap
def test_a_lifted_walk_is_set_down_as_a_whole(stroll: Motion) -> None:
    found = make_valid(lifted(stroll))
    assert found.before.valid_fraction < 0.1
    assert found.after.valid_fraction >= 0.98
    assert found.change_rad < 1e-9  # no joint had to turn
    assert found.change_m == pytest.approx(0.2, abs=0.06)


@pytest.mark.mocap
@pytest.mark.parametrize("axis", [(0.0, 0.0, 1.0), (1.0, 0.0, 0.0)])
def test_a_tilted_walk_is_levelled(stroll: Motion, axis: tuple[float, float, float]) -> None:
    found = make_valid(tilted(stroll, axis))
    assert found.before.valid_fraction < 0.2
    assert found.after.valid_fraction >= 0.98
    left = (stroll.rotations[:, 0].inverse() @ found.motion.rotations[:, 0]).log()
    assert np.linalg.norm(left, axis=-1).mean() < np.deg2rad(4.0)  # of the twelve


@pytest.mark.mocap
def test_a_walk_played_too_fast_turns_green(hasty: RepairResult) -> None:
    assert hasty.before.valid_fraction < 0.3
    assert hasty.after.valid_fraction >= 0.98
    assert hasty.change_rad < np.deg2rad(4.0)


@pytest.mark.mocap
def test_a_repaired_capture_is_green_with_contacts_seen_anew(hasty: RepairResult) -> None:
    assert check_validity(hasty.motion).valid_fraction >= 0.95


@pytest.mark.mocap
def test_knees_bend_one_way_after_a_repair(hasty: RepairResult) -> None:
    legs = [hasty.motion.skeleton.names.index(name) for name in ("LeftLeg", "RightLeg")]
    before = np.linalg.norm(hasty.guess.rotations[:, legs].log(), axis=-1)
    after = np.linalg.norm(hasty.motion.rotations[:, legs].log(), axis=-1)
    turns = (hasty.guess.rotations[:, legs].log() * hasty.motion.rotations[:, legs].log()).sum(axis=-1)
    assert (turns > -1e-9).all()  # same side of straight
    assert np.abs(after - before).max() < 0.5


@pytest.mark.mocap
@pytest.mark.parametrize("spoil", [lifted, tilted, speeded])
def test_a_spoilt_jump_turns_green(hop: Motion, spoil) -> None:
    found = make_valid(spoil(hop))
    assert found.before.valid_fraction < 0.85
    assert found.after.valid_fraction >= 0.95
    assert found.after.valid_fraction > found.before.valid_fraction


# A stretch of a clip (A49)


@pytest.fixture(scope="module")
def part(stroll: Motion) -> RepairResult:
    return make_valid(speeded(stroll), start_s=0.4, stop_s=1.4)


def inside(result: RepairResult, start_s: float, stop_s: float):
    return (result.motion.times() >= start_s) & (result.motion.times() <= stop_s)


@pytest.mark.mocap
def test_a49_frames_outside_the_stretch_are_the_same_bits(part: RepairResult) -> None:
    outside = ~inside(part, 0.4, 1.4)
    assert np.array_equal(part.motion.rotations.wxyz[outside], part.guess.rotations.wxyz[outside])
    assert np.array_equal(part.motion.root_positions[outside], part.guess.root_positions[outside])
    assert not np.array_equal(part.motion.root_positions, part.guess.root_positions)


@pytest.mark.mocap
def test_a49_control_points_at_the_ends_of_the_stretch_do_not_move(part: RepairResult) -> None:
    assert not part.displacement[:3].any()
    assert not part.displacement[-3:].any()
    assert part.displacement[3:-3].any()


@pytest.mark.mocap
def test_a49_violation_inside_falls_by_nine_tenths(part: RepairResult) -> None:
    middle = inside(part, 0.7, 1.1)
    before, after = part.before.violation[middle], part.after.violation[middle]
    assert before.max() > part.before.tolerance
    assert after.sum() <= 0.1 * before.sum()
    assert 0.0 < part.change_rad < np.deg2rad(5.0)


@pytest.mark.mocap
def test_a_stretch_joins_with_continuous_accelerations(part: RepairResult) -> None:
    moved = part.motion.root_positions - part.guess.root_positions
    bend = np.linalg.norm(np.diff(moved, 2, axis=0), axis=-1) * part.motion.rate_hz**2
    edge = round(0.4 * part.motion.rate_hz)
    assert bend[edge - 2 : edge + 2].max() < 0.05 * bend.max()


# Setting down


@pytest.mark.parametrize("degrees", [-12.0, 10.0, 15.0])
@pytest.mark.parametrize("axis", [(1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.6, 0.0, -0.8)])
def test_a_leaning_walk_is_set_upright(degrees: float, axis: tuple[float, float, float]) -> None:
    clip = walk()
    assert clip.contacts is not None
    R = SO3.exp(np.deg2rad(degrees) * np.array(axis))
    wxyz = clip.rotations.wxyz.copy()
    wxyz[:, 0] = (R @ clip.rotations[:, 0]).wxyz
    leaning = replace(clip, root_positions=R @ clip.root_positions, rotations=SO3(wxyz), source=None)
    upright = level_motion(leaning, Body.from_motion(clip), clip.contacts)
    left = (clip.rotations[:, 0].inverse() @ upright.rotations[:, 0]).log()
    assert np.linalg.norm(left, axis=-1).max() < np.deg2rad(2.5)
    planted = contact_positions(upright)[:, :4, 1][clip.contacts.active[:, :4]]
    assert abs(np.median(planted)) < 0.01


def test_a_clip_that_stands_well_is_left_alone() -> None:
    clip = walk()
    assert clip.contacts is not None
    assert level_motion(clip, Body.from_motion(clip), clip.contacts) is clip


def test_a_clip_without_plants_is_left_alone() -> None:
    clip = walk()
    nothing = Contacts(("left_toe",), np.zeros((clip.num_frames, 1), dtype=bool))
    assert level_motion(lifted(clip), Body.from_motion(clip), nothing).root_positions[0, 1] > clip.root_positions[0, 1]


@pytest.mark.skipif("deepmimic/getup_facedown" not in names(), reason="the clips of the samples extra are not here")
def test_a_body_that_lies_is_not_stood_upright() -> None:
    found = make_valid(load_sample("deepmimic/getup_facedown"), on_failure="return", max_iterations=8)
    assert found.after.valid_fraction >= found.before.valid_fraction
    assert found.change_rad < 0.35


# What moves


def test_a_repair_moves_what_carries_weight_and_the_spine_as_one() -> None:
    body = Body.from_skeleton(walk().skeleton)
    tree = JointTree.from_body(body)
    S = build_coordinate_map(tree)
    assert S.shape[1] < 0.7 * tree.num_dofs
    assert (S.sum(axis=0) >= 1.0).all()
    assert ((S != 0.0).sum(axis=1) <= 1).all()
    spine = [i for i, group in enumerate(tree.groups) if group in ("spine1", "spine2", "spine3")]
    assert (S[spine].sum(axis=0) > 0.0).sum() == 3
    held = [i for i, group in enumerate(tree.groups) if "wrist" in group or "collar" in group]
    assert not S[held].any()


def test_swinging_feet_stay_above_the_floor(sample: RepairResult) -> None:
    assert sample.after.penetration_mm.max() <= sample.before.penetration_mm.max() + 3.0


# The cone of a support


def test_rows_of_a_square_support_hold_what_presses_inside_and_refuse_what_does_not() -> None:
    corners = np.array([[[-0.1, 0.0, -0.1], [0.1, 0.0, -0.1], [0.1, 0.0, 0.1], [-0.1, 0.0, 0.1]]])
    rows = wrench_rows(
        np.zeros(1),
        corners,
        np.ones((1, 4), dtype=bool),
        np.zeros((1, 3)),
        friction=0.8,
        weight_n=100.0,
        skipped=np.zeros(1, dtype=bool),
        settings=RepairSettings(),
    )

    def lack(force: tuple[float, float, float], place: tuple[float, float, float]) -> dict[str, float]:
        wrench = np.concatenate([force, np.cross(place, force)])
        short = np.maximum(rows.lower - rows.matrix @ wrench, rows.matrix @ wrench - rows.upper)
        return {rows.names[i].split(" at")[0]: float(short[i]) for i in np.flatnonzero(short > 1e-12)}

    assert lack((0.0, 100.0, 0.0), (0.09, 0.0, -0.09)) == {}
    assert lack((70.0, 100.0, 0.0), (0.0, 0.0, 0.0)) == {}
    assert set(lack((90.0, 100.0, 0.0), (0.0, 0.0, 0.0))) == {"friction"}
    assert set(lack((0.0, 100.0, 0.0), (0.15, 0.0, 0.0))) == {"balance"}
    assert lack((0.0, 100.0, 0.0), (0.15, 0.0, 0.0))["balance"] == pytest.approx(4.0 * 0.055)
    assert "normal force" in lack((0.0, -10.0, 0.0), (0.0, 0.0, 0.0))


def test_rows_of_a_flight_allow_no_force() -> None:
    rows = wrench_rows(
        np.zeros(1),
        np.zeros((1, 4, 3)),
        np.zeros((1, 4), dtype=bool),
        np.array([[0.3, 1.0, -0.2]]),
        friction=0.8,
        weight_n=1.0,
        skipped=np.zeros(1, dtype=bool),
        settings=RepairSettings(),
    )
    pull = np.array([0.0, 1.0, 0.0])
    through_com = np.concatenate([pull, np.cross([0.3, 1.0, -0.2], pull)])
    values = rows.matrix @ through_com
    np.testing.assert_allclose(values, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0], atol=1e-12)
    assert (np.abs(rows.upper) < 0.02).all()


def test_pendulum_rows_hold_a_pressure_that_follows_the_body() -> None:
    foot, com = np.array([[0.0, 0.0, 0.0]]), np.array([[0.0, 1.0, 0.3]])
    rows = pendulum_rows(np.zeros(1), np.zeros(1, dtype=np.int64), foot, com, 1.0, 0.9)
    force = np.array([0.0, 1.0, 0.0])

    def margin(z: float) -> float:
        return float((rows.matrix @ np.concatenate([force, np.cross([0.0, 0.0, z], force)]))[0])

    assert margin(0.05) > 0.0 > margin(0.0) > margin(-0.05)
    assert margin(0.1 * 0.3) == pytest.approx(0.0, abs=1e-12)


# The command


def test_the_command_repairs_a_clip(tmp_path: Path) -> None:
    source, target = tmp_path / "red.glb", tmp_path / "green.glb"
    save(make_stiff_walk(), source)
    done = CliRunner().invoke(app, ["optimize", "--from", str(source), "--make-valid", "-o", str(target), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["valid_after"] >= 0.95 > told["valid_before"]
    assert check_validity(load(target)).valid_fraction >= 0.95


def test_the_command_wants_make_valid_with_a_clip(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["optimize", "--from", "clip.bvh"])
    assert done.exit_code == 2


# What is refused


@pytest.mark.parametrize("times", [(np.nan, 1.0), (0.0, np.inf), (np.inf, None)])
def test_times_that_are_not_finite_are_refused(times: tuple[float, float | None]) -> None:
    with pytest.raises(InputError, match="finite"):
        make_valid(walk(), start_s=times[0], stop_s=times[1])


@pytest.mark.parametrize(("start_s", "stop_s"), [(1.0, 1.2), (2.0, 1.0), (9.0, 10.0)])
def test_too_short_a_stretch_is_refused(start_s: float, stop_s: float) -> None:
    with pytest.raises(InputError, match="choose a longer one"):
        make_valid(walk(), start_s=start_s, stop_s=stop_s)


def test_too_short_a_clip_is_refused() -> None:
    with pytest.raises(InputError, match="It must hold 4 spans"):
        make_valid(walk()[:12])


@pytest.mark.parametrize("span_s", [0.0, -0.1, np.nan])
def test_knots_without_spacing_are_refused(span_s: float) -> None:
    with pytest.raises(InputError):
        make_valid(walk(), span_s=span_s)


def test_a_body_without_feet_is_refused() -> None:
    chain = JointTree.chain(4)
    rng = np.random.default_rng(3)
    swing = chain.to_motion(np.cumsum(0.02 * rng.normal(size=(120, 4)), axis=0), 60.0)
    with pytest.raises((InputError, ValueError)):
        make_valid(swing)


def test_a_lifted_stretch_is_refused_as_the_whole_clip_stands_elsewhere() -> None:
    with pytest.raises(InputError, match="Repair the whole clip"):
        make_valid(lifted(walk(), 0.3), start_s=1.0, stop_s=2.0)


def test_a_long_stretch_without_contact_is_refused() -> None:
    motion = walk()
    names = detect_contacts(motion).names
    nothing = Contacts(names, np.zeros((motion.num_frames, len(names)), dtype=bool))
    with pytest.raises(InputError, match="nothing touches the floor"):
        make_valid(motion, contacts=nothing)


def test_a_search_that_is_stopped_keeps_what_it_has() -> None:
    found = make_valid(jump(), on_iteration=lambda _: True, on_failure="return")
    assert found.iterations == 1
    assert found.status is SolveStatus.STOPPED
    assert not found.is_solved and found.after.valid_fraction >= found.before.valid_fraction


def test_no_time_means_no_change_and_is_no_success() -> None:
    found = make_valid(make_stiff_walk(), time_limit_s=0.0, on_failure="return")
    assert found.iterations == 0
    assert found.status is SolveStatus.TIME_LIMIT and not found.is_solved and "time limit" in found.advice
    with pytest.raises(ConvergenceError, match="no better"):
        make_valid(make_stiff_walk(), time_limit_s=0.0)
    assert np.array_equal(found.motion.root_positions, make_stiff_walk().root_positions)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"time_limit_s": float("nan")}, "time limit"),
        ({"time_limit_s": -1.0}, "time limit"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"on_failure": "weep"}, "weep"),
        ({"span_s": 1e-4}, "closer than the frames"),
        ({"friction": float("nan")}, "friction"),
        ({"start_s": float("nan")}, "finite"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict, words: str) -> None:
    with pytest.raises(MareyError, match=words):
        make_valid(walk(seconds=1.0, rate_hz=30.0), **options)

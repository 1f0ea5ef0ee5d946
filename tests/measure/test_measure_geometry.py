"""Figures that are known by construction: slides, accelerations, clips of few frames, other rates and skeletons."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

import marey
from marey.base import InputError, UnknownNameError
from marey.kinematics import solve_two_bone
from marey.lie import SO3
from marey.measure import MeterSettings, measure_motion
from marey.measure.feet import STAIR_M, _find_floor
from marey.measure.tracks import find_root_jumps, second_difference
from marey.motion import Motion, resample
from marey.numerics import smootherstep
from marey.skeleton import RoleMap, Skeleton, role_map

from .broken_walks import bend_knee_backwards
from .conftest import stand


@pytest.mark.parametrize("rate_hz", [30.0, 59.94, 120.0, 240.0])
def test_a_body_carried_over_the_floor_scrapes_its_way_with_each_foot(rate_hz: float) -> None:
    found = measure_motion(stand(rate_hz, velocity=(0.0, 0.0, 0.5)))
    assert found["way_m"] == pytest.approx(1.5, rel=0.01)
    assert found["scraped_m_per_10m"] == pytest.approx(20.0, rel=0.02)  # two feet
    assert found["stance_slip_median_mps"] == pytest.approx(0.5, rel=1e-6)
    assert {fault.kind for fault in found.faults} >= {"slide"}


def test_a_body_slower_than_the_threshold_does_not_scrape() -> None:
    assert measure_motion(stand(velocity=(0.0, 0.0, 0.14)))["scraped_m_per_s"] == 0.0


def test_a_body_that_stands_has_no_fault() -> None:
    found = measure_motion(stand())
    assert found.faults == ()
    assert found.kind == "other"
    assert found["support_share"] == found["standing_share"] == 1.0
    assert found["scraped_m_per_s"] == found["root_jump_max_m"] == 0.0


@pytest.mark.parametrize("rate_hz", [30.0, 60.0, 100.0, 120.0, 240.0])
def test_the_acceleration_of_a_sinusoid_is_that_of_its_span(rate_hz: float) -> None:
    t = np.arange(int(4 * rate_hz)) / rate_hz
    omega, h = 2 * np.pi * 2.0, 1.0 / 30.0
    found = np.abs(second_difference(0.1 * np.sin(omega * t), rate_hz, h)).max()
    exact = 0.1 * (2.0 * np.sin(0.5 * omega * h) / h) ** 2  # differences over h of a sinusoid
    assert found == pytest.approx(exact, rel=0.02)
    assert found == pytest.approx(0.1 * omega**2, rel=0.03)


def test_accelerations_of_one_motion_agree_between_rates(walk: Motion) -> None:
    fine = resample(walk, 240.0)
    names = ("root_acceleration_p99_mps2", "knee_acceleration_p99_deg_per_s2", "joint_acceleration_p99_deg_per_s2")
    for name in names:
        values = [measure_motion(resample(fine, rate))[name] for rate in (30.0, 60.0, 120.0, 240.0)]
        assert max(values) < 1.25 * min(values), (name, values)


@pytest.mark.parametrize("size_m", [0.05, 0.3])
@pytest.mark.parametrize("rate_hz", [60.0, 120.0, 240.0])
def test_a_jump_of_the_root_is_found_with_its_frame_and_size(size_m: float, rate_hz: float) -> None:
    t = np.arange(200) / rate_hz
    root = np.stack([0.02 * np.sin(12 * t), 0.9 + 0.02 * np.sin(24 * t), 1.4 * t], axis=1)
    assert len(find_root_jumps(root, rate_hz, MeterSettings()).frames) == 0
    root[120:, 0] += size_m
    jumps = find_root_jumps(root, rate_hz, MeterSettings())
    assert jumps.frames.tolist() == [120]
    assert np.linalg.norm(jumps.offsets[0]) == pytest.approx(size_m, abs=0.002)


@pytest.mark.parametrize("frame", [1, 2, 197, 198, 199])
def test_a_jump_beside_an_end_of_the_clip_is_found(frame: int) -> None:
    t = np.arange(200) / 60.0
    root = np.stack([0.02 * np.sin(12 * t), 0.9 + 0.02 * np.sin(24 * t), 1.4 * t], axis=1)
    root[frame:, 0] += 0.3
    assert frame in find_root_jumps(root, 60.0, MeterSettings()).frames


def test_a_stair_is_a_floor_of_its_own() -> None:
    # A point rests at 0, then 17 cm higher; before the second rest it scrapes along the stair
    t = np.arange(240) / 60.0
    heights = np.where(t < 1.5, 0.0, 0.17)[:, None] + 0.1 * np.exp(-(((t - 1.5) / 0.1) ** 2))[:, None] * np.ones(3)
    floor = _find_floor(heights, 90, 240, 45, STAIR_M)
    assert np.abs(floor - 0.17).max() < 0.01
    assert np.abs(_find_floor(heights, 0, 90, 45, STAIR_M)).max() < 1e-6


def test_a_hard_landing_is_no_jump() -> None:
    t = np.arange(60) / 30.0
    height = 0.9 + np.maximum(0.0, 3.0 * (t - 1.0) - 0.5 * 9.81 * (t - 1.0) ** 2) * (t > 1.0)
    root = np.stack([0 * t, height, 0 * t], axis=1)
    assert len(find_root_jumps(root, 30.0, MeterSettings()).frames) == 0


@pytest.mark.parametrize("frames", [1, 2, 3, 5, 12])
def test_clips_of_few_frames_have_finite_figures(walk: Motion, frames: int) -> None:
    found = measure_motion(walk[:frames], against=walk[:frames])
    assert all(np.isfinite(value) for value in found.values.values())


def test_knees_are_judged_with_the_leg_turned_and_an_ankle_flip_is_not_a_knee(walk: Motion) -> None:
    bent = measure_motion(bend_knee_backwards(walk, 100, 30.0, 6))
    assert bent["knee_backwards_max_deg"] == pytest.approx(30.0, abs=2.0)
    assert bent["inverted_knee_frames"] == 6
    # The foot alone turned round: an ankle that jerks, no knee that bends backwards
    from marey.lie import SO3
    from marey.skeleton import role_map

    joint = role_map(walk.skeleton)["left_ankle"]
    wxyz = walk.rotations.wxyz.copy()
    wxyz[100:110, joint] = (walk.rotations[100:110, joint] @ SO3.exp([0.0, np.pi, 0.0])).wxyz
    turned = measure_motion(replace(walk, rotations=SO3(wxyz)))
    assert turned["inverted_knee_frames"] == 0
    assert any(fault.kind == "pop" and fault.part == "left_ankle" for fault in turned.faults)


def test_a_leg_turned_about_its_own_axis_has_an_inverted_knee(walk: Motion) -> None:
    from marey.lie import SO3
    from marey.skeleton import role_map

    # Half a turn of the thigh about the line from hip to ankle, the foot turned back: what inverse kinematics does
    roles = role_map(walk.skeleton)
    positions, R = walk.joint_frames()
    hip, ankle = roles["left_hip"], roles["left_ankle"]
    wxyz = walk.rotations.wxyz.copy()
    for f in range(90, 110):
        line = positions[f, ankle] - positions[f, hip]
        turn = SO3.exp(np.pi * line / np.linalg.norm(line))
        parent = R[f, int(walk.skeleton.parents[hip])]
        wxyz[f, hip] = (parent.inverse() @ turn @ R[f, hip]).wxyz
        knee = R[f, int(walk.skeleton.parents[ankle])]
        wxyz[f, ankle] = ((turn @ knee).inverse() @ R[f, ankle]).wxyz
    found = measure_motion(replace(walk, rotations=SO3(wxyz)))
    bent = measure_motion(walk)  # the frames of a swing, in which the knee is bent by more than the limit
    assert found["inverted_knee_frames"] >= 5 > bent["inverted_knee_frames"]
    assert any(fault.kind == "backwards" and fault.part == "left_knee" for fault in found.faults)


def test_names_of_joints_do_not_matter(walk: Motion) -> None:
    skeleton = walk.skeleton
    other = Skeleton(tuple(f"{n}_jnt" for n in skeleton.names), skeleton.parents, skeleton.offsets, skeleton.tips)
    first, second = measure_motion(walk), measure_motion(replace(walk, skeleton=other))
    for name in ("scraped_m_per_10m", "trunk_pitch_mean_deg", "left_knee_flexion_median_deg"):
        assert second[name] == pytest.approx(first[name], abs=1e-6)


def test_a_scene_root_above_the_pelvis_does_not_matter(walk: Motion) -> None:
    from marey.lie import SO3

    # A node far from the body, turned, with the whole way on the pelvis below it
    skeleton, R = walk.skeleton, SO3.exp([0.0, 2.0, 0.0])
    place = np.array([5.0, 0.4, -3.0])
    names, parents = ("scene", *skeleton.names), np.concatenate([[-1], skeleton.parents + 1])
    offsets = np.concatenate([[place], skeleton.offsets])
    tips = np.concatenate([np.zeros((1, 3)), skeleton.tips])
    frames = walk.num_frames
    wxyz = np.concatenate([np.repeat(R.wxyz[None, None], frames, axis=0), walk.rotations.wxyz], axis=1)
    wxyz[:, 1] = (R.inverse() @ walk.rotations[:, 0]).wxyz
    translations = np.repeat(offsets[None], frames, axis=0)
    translations[:, 1] = R.inverse() @ (walk.root_positions - place)
    scene = Skeleton(names, parents, offsets, tips)
    clip = Motion(scene, walk.rate_hz, np.repeat(place[None], frames, axis=0), SO3(wxyz), translations=translations)
    roles = RoleMap({role: joint + 1 for role, joint in role_map(skeleton).joints.items()}, "given")
    first, second = measure_motion(walk), measure_motion(clip, roles=roles)
    for name, value in first.values.items():
        assert second[name] == pytest.approx(value, rel=1e-6, abs=1e-6), name


def test_a_contact_track_changes_nothing(walk: Motion) -> None:
    assert (
        measure_motion(replace(walk, contacts=None)).values
        == measure_motion(marey.contacts.ensure_contacts(walk)).values
    )


def test_without_legs_there_is_no_person_to_measure() -> None:
    chain = Skeleton(("a", "b", "c"), np.array([-1, 0, 1]), np.array([[0, 1, 0], [0, 1, 0], [0, 1, 0]], dtype=float))
    clip = Motion(chain, 30.0, np.zeros((5, 3)), marey.SO3.identity(5, 3))
    with pytest.raises(InputError, match="needs a human"):
        measure_motion(clip)


def test_a_foot_held_in_the_air_beside_the_other_one_does_not_float() -> None:
    from marey.lie import SO3
    from marey.skeleton import role_map

    clip = stand()
    roles = role_map(clip.skeleton)
    wxyz = clip.rotations.wxyz.copy()
    wxyz[:, roles["left_hip"]] = SO3.exp([-1.2, 0.0, 0.0]).wxyz
    wxyz[:, roles["left_knee"]] = SO3.exp([1.2, 0.0, 0.0]).wxyz
    found = measure_motion(replace(clip, rotations=SO3(wxyz)))
    assert found.faults == ()
    assert found["sole_rest_height_max_m"] < 0.01


def test_an_unknown_kind_and_figure_are_refused(walk: Motion) -> None:
    with pytest.raises(InputError, match="kind"):
        measure_motion(walk, kind="swim")
    with pytest.raises(UnknownNameError, match="scraped"):
        _ = measure_motion(walk)["scraped"]


def test_the_room_is_its_function(walk: Motion) -> None:
    assert marey.measure_motion(walk).values == measure_motion(walk).values


def test_a_result_has_a_line_a_table_and_a_plot(walk: Motion, tmp_path) -> None:
    found = measure_motion(walk)
    assert repr(found).startswith("Measurement('walk', walk by its looks")
    assert found.to_csv().splitlines()[0] == "name,value,unit,low,high,source,remark"
    found.plot(tmp_path / "figures.png")
    assert (tmp_path / "figures.png").stat().st_size > 10_000


@pytest.mark.timing
def test_a_thousand_frames_take_less_than_fifty_milliseconds() -> None:
    clip = resample(stand(30.0, 8.4, (0.0, 0.0, 0.5)), 119.0)[:1000]
    measure_motion(clip)
    times = []
    for _ in range(7):
        start = time.process_time()
        measure_motion(clip)
        times.append(time.process_time() - start)
    assert min(times) < 0.05


def test_a_slow_walk_that_ends_in_a_swing_does_not_scrape_in_the_air() -> None:
    # Slower than half: a heel is longer off the ground than the meter looks back for a floor
    slow = replace(marey.samples.walk(), rate_hz=marey.samples.walk().rate_hz / 2.5)
    whole = measure_motion(slow, kind="walk").scraped_m
    stride = round(2.7 * slow.rate_hz)
    # A landing that the clip cuts may count 3 cm: nobody knows how low the heel would have come
    for stop in range(slow.num_frames - stride, slow.num_frames, stride // 24):
        assert measure_motion(slow[:stop], kind="walk").scraped_m[-1] <= whole[stop - 1] + 0.04


def shuffle(step_m: float) -> Motion:
    """Flat feet that take steps of this length in turn, every 0.4 s, under a body that goes along."""
    still = stand(seconds=4.0, velocity=(0.0, 0.0, step_m / 0.8))
    motion = replace(still, root_positions=still.root_positions - [0.0, 0.08, 0.0])
    time, ankles, frames = motion.times(), still.joint_positions()[0], still[0].joint_rotations()
    for n, side in enumerate(("left", "right")):
        cycle = (time - 0.4 * n) / 0.8
        swing = np.clip(2.0 * (cycle % 1.0), 0.0, 1.0)
        ankle = still.skeleton.index(f"{side}_ankle")
        moved = np.stack([0.0 * time, 0.06 * np.sin(np.pi * swing) ** 2, step_m * (cycle // 1.0 + smootherstep(swing))])
        flat = SO3(np.tile(frames.wxyz[ankle], (motion.num_frames, 1)))
        motion = solve_two_bone(motion, f"{side}_leg", ankles[ankle] + moved.T, end_rotations=flat).motion
    return motion


def test_short_steps_in_a_row_tell_a_dither_from_a_walk(walk):
    assert measure_motion(shuffle(0.15))["short_steps_in_a_row"] >= 6
    assert measure_motion(shuffle(0.5))["short_steps_in_a_row"] <= 1
    assert measure_motion(walk)["short_steps_in_a_row"] <= 1
    assert measure_motion(stand())["short_steps_in_a_row"] == 0


@pytest.mark.mocap
@pytest.mark.parametrize("trial", ["69_68", "69_70", "69_75", "143_10", "143_13"])
def test_people_who_pick_things_up_take_no_short_steps_in_a_row(trial, mocap):
    assert measure_motion(marey.load(mocap / "cmu-bvh" / f"{trial}.bvh"))["short_steps_in_a_row"] <= 1

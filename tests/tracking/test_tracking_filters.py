"""Both particle filters on the seated person: Engell checks 19-22, and what happens when the track breaks."""

from __future__ import annotations

from dataclasses import replace
from time import process_time

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.kinematics import BoxLimits
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import human
from marey.tracking import (
    Camera,
    EffectorFilter,
    FilterResult,
    Likelihood,
    Observations,
    Occlusion,
    PoseFilter,
    observe,
    seated_limits,
)
from marey.tracking.filters import sample_guided_step, sample_random_step
from marey.tracking.observation import TOOLS, track_points
from marey.tracking.particle_filter import FrameDetections, TrackingProblem, TrackState

LIMITS = seated_limits()
EFFECTORS, POSES = EffectorFilter(limits=LIMITS), PoseFilter(limits=LIMITS)
SHORT = 150  # frames of the quick versions: 10 s
SETTLED = 30  # frames after which the person is in full motion


def head(seen: Observations, frames: int) -> Observations:
    return replace(seen, pixels=seen.pixels[:frames], valid=seen.valid[:frames], confidences=None)


def run(tracker: EffectorFilter | PoseFilter, seen: Observations, truth: Motion, seed: int = 0) -> FilterResult:
    return tracker.run(seen, truth[0], np.random.default_rng(seed))


def mean_error_m(tracker: EffectorFilter | PoseFilter, seen: Observations, truth: Motion) -> float:
    return float(run(tracker, seen, truth).tool_errors(truth).mean())


@pytest.fixture(scope="module")
def short_track(seen: Observations, seated: Motion) -> FilterResult:
    return run(EFFECTORS, head(seen, SHORT), seated)


# Checks 19 to 22


def test_engell_19_short_25_particles_keep_the_tools_within_5_cm(short_track: FilterResult, seated: Motion) -> None:
    assert short_track.tool_errors(seated[:SHORT]).mean() <= 0.05
    assert short_track.num_lost == 0


@pytest.mark.slow
def test_engell_19_25_particles_keep_the_tools_within_5_cm(seen: Observations, seated: Motion) -> None:
    track = run(EFFECTORS, seen, seated)
    assert track.motion.num_frames == 675
    assert track.tool_errors(seated).mean() <= 0.05
    assert track.num_lost == 0


def test_engell_20_short_a_full_pose_filter_of_100_has_twice_the_error(
    short_track: FilterResult, seen: Observations, seated: Motion
) -> None:
    ours = short_track.tool_errors(seated[:SHORT])[SETTLED:].mean()
    theirs = run(POSES, head(seen, SHORT), seated).tool_errors(seated[:SHORT])[SETTLED:].mean()
    assert theirs >= 2.0 * ours


@pytest.mark.slow
def test_engell_20_a_full_pose_filter_of_100_has_twice_the_error(seen: Observations, seated: Motion) -> None:
    assert mean_error_m(POSES, seen, seated) >= 2.0 * mean_error_m(EFFECTORS, seen, seated)


@pytest.mark.slow
def test_engell_20_ten_times_the_particles_do_not_match_it_in_full_pose_space(
    seen: Observations, seated: Motion
) -> None:
    ours = mean_error_m(EFFECTORS, seen, seated)
    ten_times = replace(POSES, num_particles=10 * EFFECTORS.num_particles)
    assert mean_error_m(ten_times, seen, seated) > 1.1 * ours


@pytest.mark.timing
def test_engell_21_the_filter_is_faster_than_15_frames_a_second(
    short_track: FilterResult, seen: Observations, seated: Motion
) -> None:
    assert short_track.frames_per_second > 0.0  # kernels are compiled now
    begin = process_time()  # one core's work, whatever else the machine does
    run(EFFECTORS, head(seen, 40), seated)
    assert 40 / (process_time() - begin) >= 15.0


@pytest.mark.parametrize("tracker", [replace(EFFECTORS, num_particles=10), POSES], ids=["effector", "pose"])
def test_engell_22_particles_keep_the_limits_and_weights_sum_to_one(
    tracker: EffectorFilter | PoseFilter, seen: Observations, seated: Motion
) -> None:
    for frame in tracker.follow(head(seen, 40), seated[0], np.random.default_rng(1)):
        assert LIMITS.violations(SO3(frame.particles.wxyz)).max() < 1e-9
        assert LIMITS.violations(SO3(frame.wxyz[None])).max() < 1e-9
        assert abs(frame.particles.weights.sum() - 1.0) < 1e-12


@pytest.mark.parametrize("tracker", [replace(EFFECTORS, num_particles=5), POSES], ids=["effector", "pose"])
def test_engell_22_energies_of_a_million_give_no_nan(
    tracker: EffectorFilter | PoseFilter, seen: Observations, seated: Motion
) -> None:
    sharp = replace(tracker, likelihood=Likelihood(sigma_px=0.05, robust_px=1e4, lost_px=1e9))
    wild = replace(head(seen, 8), pixels=seen.pixels[:8] + 200.0)  # 9 points 280 px off: E / 2σ² above 1e8
    for frame in sharp.follow(wild, seated[0], np.random.default_rng(1)):
        assert np.isfinite(frame.wxyz).all() and np.isfinite(frame.particles.weights).all()
        assert abs(frame.particles.weights.sum() - 1.0) < 1e-12


# When the track breaks


@pytest.mark.parametrize("tracker", [replace(EFFECTORS, num_particles=10), POSES], ids=["effector", "pose"])
def test_a_filter_that_sees_nonsense_says_lost_holds_its_pose_and_recovers(
    tracker: EffectorFilter | PoseFilter, seen: Observations, seated: Motion
) -> None:
    pixels = seen.pixels[:40].copy()
    pixels[10:15] = np.random.default_rng(5).uniform(0.0, 480.0, (5, pixels.shape[1], 2))
    track = run(tracker, replace(head(seen, 40), pixels=pixels), seated)
    lost = [state is TrackState.LOST for state in track.states]
    assert all(lost[10:15]) and not any(lost[:10]) and not any(lost[20:])
    np.testing.assert_array_equal(track.motion.rotations.wxyz[10], track.motion.rotations.wxyz[14])
    assert track.num_lost == sum(lost)
    assert track.tool_errors(seated[:40])[25:].mean() < 0.15


def test_frames_without_detections_are_occluded_not_lost(seen: Observations, seated: Motion) -> None:
    valid = seen.valid[:30].copy()
    valid[8:12] = False
    track = run(replace(EFFECTORS, num_particles=10), replace(head(seen, 30), valid=valid), seated)
    assert all(state is TrackState.OCCLUDED for state in track.states[8:12])
    assert track.num_lost == 0
    assert np.isfinite(track.motion.rotations.wxyz).all()


@pytest.mark.slow
def test_a_hidden_hand_is_not_lost_for_long(seated: Motion, camera: Camera) -> None:
    occlusion = Occlusion(share=0.1, bursts_per_s=0.15, burst_s=0.4)
    seen = observe(seated[:SHORT], camera, noise_px=2.0, occlusion=occlusion, rng=np.random.default_rng(8))
    track = run(EFFECTORS, seen, seated)
    assert seen.valid.mean() < 0.9 and track.num_lost == 0
    assert track.tool_errors(seated[:SHORT]).mean() < 0.08


def test_stray_detections_are_survived(seated: Motion, camera: Camera) -> None:
    seen = observe(seated[:80], camera, noise_px=2.0, outliers=0.03, rng=np.random.default_rng(9))
    steady = replace(EFFECTORS, likelihood=Likelihood(sigma_px=3.0, robust_px=30.0, lost_px=300.0))
    assert np.median(run(steady, seen, seated).tool_errors(seated[:80])) < 0.08


# How it works


def test_the_same_seed_gives_the_same_track_and_another_seed_another(seen: Observations, seated: Motion) -> None:
    for tracker in (replace(EFFECTORS, num_particles=6), replace(POSES, num_particles=20)):
        a, b, c = (run(tracker, head(seen, 10), seated, seed).motion.rotations.wxyz for seed in (3, 3, 4))
        assert np.array_equal(a, b)
        assert not np.allclose(a, c, atol=1e-9)


def test_following_and_running_are_the_same(seen: Observations, seated: Motion) -> None:
    tracker = replace(EFFECTORS, num_particles=6)
    frames = [f.wxyz for f in tracker.follow(head(seen, 8), seated[0], np.random.default_rng(2))]
    np.testing.assert_array_equal(frames, run(tracker, head(seen, 8), seated, 2).motion.rotations.wxyz)


def test_the_random_walk_of_the_thesis_follows_the_picture(seen: Observations, seated: Motion, camera: Camera) -> None:
    """In depth it wanders, and does not reach check 19: see docs/tracking.md."""
    track = run(replace(EFFECTORS, proposal="random-walk", num_particles=50), head(seen, 60), seated)
    truth = camera.project(track_points(seated[:60], TOOLS))
    missed = np.linalg.norm(camera.project(track.tools) - truth, axis=-1)[SETTLED:].mean()
    still = np.linalg.norm(truth[:1] - truth, axis=-1)[SETTLED:].mean()
    assert track.num_lost == 0
    assert missed < 0.5 * still


def test_the_result_reports_what_it_measured(short_track: FilterResult, seated: Motion) -> None:
    assert short_track.tools.shape == (SHORT, 3, 3) and short_track.tool_names == TOOLS
    assert (short_track.effective_sizes >= 1.0).all() and (short_track.effective_sizes <= 25.0 + 1e-9).all()
    assert short_track.num_resamplings == int((short_track.effective_sizes < 12.5).sum())
    assert short_track.motion.rate_hz == 15.0 and np.ptp(short_track.motion.root_positions, axis=0).max() == 0.0
    assert "150 frames, 0 lost" in repr(short_track)
    with pytest.raises(InputError, match="frames"):
        short_track.tool_errors(seated)


def test_a_random_step_has_the_covariance_asked_for(camera: Camera) -> None:
    covariance = camera.diagonal(0.01**2, 0.02**2, 0.05**2)
    step = sample_random_step(np.zeros((40_000, 1, 3)), covariance, np.random.default_rng(0))
    np.testing.assert_allclose(np.cov(step.places[:, 0].T), covariance, atol=0.03 * 0.05**2)
    assert not step.gains.any()


def test_a_guided_step_is_the_conditioned_gaussian(seen: Observations, seated: Motion, camera: Camera) -> None:
    """Weighted by its gains and the (linear) likelihood it has the moments of prior times likelihood."""
    scene = TrackingProblem.from_observations(head(seen, 2), seated[0], ("left_hand",), LIMITS)
    here = track_points(seated[:1], ("left_hand",))[0]
    tools = np.repeat(here[None], 60_000, axis=0)
    covariance, sigma_px = camera.diagonal(0.03**2, 0.03**2, 0.05**2), 4.0
    pixels = np.tile(camera.project(here)[0] + (6.0, -3.0), (len(scene.keypoints), 1))
    sight = FrameDetections(pixels, np.ones(len(scene.keypoints)))
    step = sample_guided_step(scene, tools, sight, covariance, sigma_px, np.random.default_rng(0))
    H = camera.jacobian(here)[0]
    P = np.linalg.inv(np.linalg.inv(covariance) + H.T @ H / sigma_px**2)
    mean = here[0] + P @ H.T @ np.array([6.0, -3.0]) / sigma_px**2
    np.testing.assert_allclose(step.places.mean(axis=0)[0], mean, atol=1e-3)
    np.testing.assert_allclose(np.cov(step.places[:, 0].T), P, atol=3e-5)
    missed = np.array([6.0, -3.0]) - (step.places - tools)[:, 0] @ H.T
    total = step.gains - 0.5 * (missed**2).sum(axis=1) / sigma_px**2
    assert np.ptp(total) < 1e-6  # the proposal is optimal: every draw has the same weight


def test_a_tool_that_is_not_seen_is_drawn_from_the_prior(seen: Observations, seated: Motion, camera: Camera) -> None:
    scene = TrackingProblem.from_observations(head(seen, 2), seated[0], ("left_hand",), LIMITS)
    tools = np.repeat(track_points(seated[:1], ("left_hand",)), 50, axis=0)
    sight, covariance = (
        FrameDetections(seen.pixels[0], np.zeros(len(scene.keypoints))),
        camera.diagonal(1e-4, 1e-4, 1e-3),
    )
    guided = sample_guided_step(scene, tools, sight, covariance, 3.0, np.random.default_rng(0))
    np.testing.assert_allclose(guided.gains - guided.gains[0], 0.0, atol=1e-9)


# Bad input


def test_bad_settings_are_refused() -> None:
    for make, message in (
        (lambda: EffectorFilter(num_particles=0), "num_particles"),
        (lambda: PoseFilter(num_particles=0), "num_particles"),
        (lambda: EffectorFilter(step_m=(0.03, 0.0, 0.03)), "step_m"),
        (lambda: EffectorFilter(depth_weight=float("nan")), "depth_weight"),
        (lambda: EffectorFilter(iterations=0), "iterations"),
        (lambda: PoseFilter(step_rad=float("nan")), "step_rad"),
        (lambda: Likelihood(sigma_px=0.0), "sigma_px"),
        (lambda: Likelihood(sigma_px=3.0, lost_px=float("inf")), "lost_px"),
    ):
        with pytest.raises(InputError, match=message):
            make()
    with pytest.raises(UnknownNameError, match="guided"):
        EffectorFilter(proposal="guide")  # type: ignore[arg-type]


def test_a_track_of_the_wrong_body_is_refused(seen: Observations, seated: Motion) -> None:
    with pytest.raises(UnknownNameError, match="left_hand"):
        run(EffectorFilter(tools=("left_hnd",)), seen, seated)
    with pytest.raises(InputError, match="step_rad"):
        run(PoseFilter(step_rad=np.zeros(3)), seen, seated)
    other = human(1.6)
    short = BoxLimits(replace(other, names=tuple(f"{n}_" for n in other.names)), LIMITS.low, LIMITS.high)
    with pytest.raises(InputError, match="one skeleton"):
        run(EffectorFilter(limits=short), seen, seated)


@pytest.mark.slow
def test_engell_20_at_equal_information_the_full_pose_filter_has_twice_the_error(seated: Motion, seen: Observations):
    cut, part = seated[:225], head(seen, 225)
    few = EffectorFilter(limits=LIMITS).run(part, seated[0], np.random.default_rng(0))
    full = PoseFilter(limits=LIMITS, proposal="guided").run(part, seated[0], np.random.default_rng(0))
    assert full.tool_errors(cut).mean() > 2.0 * few.tool_errors(cut).mean()


def test_a_guided_full_pose_follows_a_free_root(seated: Motion, seen: Observations):
    part = head(seen, 8)
    found = PoseFilter(20, limits=LIMITS, proposal="guided", root="free").run(part, seated[0], np.random.default_rng(0))
    plain = PoseFilter(20, limits=LIMITS, root="free").run(part, seated[0], np.random.default_rng(0))
    assert np.ptp(found.motion.root_positions, axis=0).max() > 0.0
    assert found.distances_px.mean() < plain.distances_px.mean()

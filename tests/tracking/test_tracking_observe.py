"""What the camera reports of a clip: noise, gaps, strays, and points by name."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.motion import Motion
from marey.skeleton import HUMAN, Pose, contact_points
from marey.tracking import Camera, Observations, Occlusion, observe, seated_limits, seated_motion
from marey.tracking.observation import KEYPOINTS, TOOLS, body_points, stretch_body, track_points


def watch(motion: Motion, camera: Camera, seed: int = 0, **options: object) -> Observations:
    return observe(motion, camera, rng=np.random.default_rng(seed), **options)  # type: ignore[arg-type]


def test_without_noise_the_pixels_are_the_projected_points(seated: Motion, camera: Camera) -> None:
    seen = watch(seated[:20], camera, noise_px=0.0)
    np.testing.assert_allclose(seen.pixels, camera.project(track_points(seated[:20], KEYPOINTS)), atol=1e-9)
    assert seen.valid.all() and seen.names == KEYPOINTS and seen.rate_hz == 15.0


def test_the_noise_has_the_standard_deviation_asked_for(seated: Motion, camera: Camera) -> None:
    noise = watch(seated, camera, noise_px=2.0).pixels - watch(seated, camera, noise_px=0.0).pixels
    assert abs(noise.std() - 2.0) < 4.0 * 2.0 / np.sqrt(2.0 * noise.size)  # four standard errors
    assert abs(noise.mean()) < 4.0 * 2.0 / np.sqrt(noise.size)


def test_single_gaps_take_the_share_asked_for(seated: Motion, camera: Camera) -> None:
    hidden = ~watch(seated, camera, occlusion=Occlusion(share=0.2)).valid
    assert abs(hidden.mean() - 0.2) < 4.0 * np.sqrt(0.16 / hidden.size)


def test_bursts_last_as_long_as_asked_on_average() -> None:
    hidden = Occlusion(bursts_per_s=0.5, burst_s=0.4).sample_hidden(np.random.default_rng(3), 40_000, 2, 15.0)
    edges = np.diff(np.vstack([np.zeros((1, 2), dtype=bool), hidden, np.zeros((1, 2), dtype=bool)]).astype(int), axis=0)
    lengths = np.concatenate([np.flatnonzero(e == -1) - np.flatnonzero(e == 1) for e in edges.T])
    assert abs(lengths.mean() / 15.0 - 0.4) < 0.02
    assert abs(len(lengths) / (2 * (1.0 - hidden.mean()) * 40_000 / 15.0) - 0.5) < 0.03


def test_points_outside_the_picture_are_hidden(seated: Motion) -> None:
    narrow = Camera(np.array([0.0, 1.0, 2.2]), np.array([0.0, 1.0, 0.0]), focal_px=4000.0)
    seen = watch(seated[:5], narrow, noise_px=0.0)
    assert not seen.valid[:, KEYPOINTS.index("left_hand")].any()


def test_strays_are_as_many_as_asked_and_inside_the_picture(seated: Motion, camera: Camera) -> None:
    clean, strayed = watch(seated, camera, noise_px=0.0), watch(seated, camera, noise_px=0.0, outliers=0.1)
    far = np.linalg.norm(strayed.pixels - clean.pixels, axis=-1) > 1e-9
    assert abs(far.mean() - 0.1) < 4.0 * np.sqrt(0.09 / far.size)
    assert (strayed.pixels[far] >= 0.0).all() and (strayed.pixels[far] <= camera.size).all()


def test_the_same_seed_gives_the_same_observations(seated: Motion, camera: Camera) -> None:
    options = {"occlusion": Occlusion(0.1, 0.2), "outliers": 0.05}
    a, b = (watch(seated[:50], camera, 7, **options) for _ in range(2))
    assert np.array_equal(a.pixels, b.pixels) and np.array_equal(a.valid, b.valid)


def test_points_are_joints_palms_and_tips() -> None:
    points = body_points(HUMAN, ("left_elbow", "left_hand", "head_tip"))
    palms, rest = contact_points(HUMAN), Pose.rest(HUMAN)
    places = points.positions(rest.joint_positions(), rest.joint_rotations())
    np.testing.assert_allclose(places[0], rest.joint_positions()[HUMAN.index("left_elbow")])
    np.testing.assert_allclose(points.offsets[1], palms.offsets[palms.index("left_hand")])
    assert places[2, 1] == pytest.approx(1.75)  # the crown


def test_an_unknown_point_suggests_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match="left_hand"):
        body_points(HUMAN, ("left_hnd",))


@pytest.mark.parametrize("names", [(), ("head", "head")])
def test_points_are_named_once_and_at_least_one(names: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="each of them once"):
        body_points(HUMAN, names)


@pytest.mark.parametrize(
    "options", [{"noise_px": -1.0}, {"noise_px": float("nan")}, {"outliers": 1.5}], ids=["negative", "nan", "share"]
)
def test_an_impossible_watch_is_refused(seated: Motion, camera: Camera, options: dict[str, float]) -> None:
    with pytest.raises(InputError):
        watch(seated[:2], camera, **options)


@pytest.mark.parametrize("options", [{"share": -0.1}, {"bursts_per_s": -1.0}, {"burst_s": 0.0}])
def test_an_impossible_occlusion_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Occlusion(**options)


def test_observations_refuse_nan_and_wrong_shapes(camera: Camera) -> None:
    with pytest.raises(InputError, match="pixels"):
        Observations(camera, 15.0, ("head",), np.full((3, 1, 2), np.nan), np.ones((3, 1), dtype=bool))
    with pytest.raises(InputError, match="valid"):
        Observations(camera, 15.0, ("head",), np.zeros((3, 1, 2)), np.ones((2, 1), dtype=bool))
    with pytest.raises(InputError, match="confidence"):
        Observations(camera, 15.0, ("head",), np.zeros((1, 1, 2)), np.ones((1, 1), dtype=bool), np.full((1, 1), 2.0))
    with pytest.raises(InputError, match="frames"):
        Observations(camera, 15.0, ("head",), np.zeros((0, 1, 2)), np.ones((0, 1), dtype=bool))
    with pytest.raises(InputError, match="rate_hz"):
        Observations(camera, 0.0, ("head",), np.zeros((1, 1, 2)), np.ones((1, 1), dtype=bool))


def test_the_seated_person_keeps_the_protocol_and_the_limits(seated: Motion) -> None:
    assert (seated.num_frames, seated.rate_hz) == (675, 15.0)
    assert np.ptp(seated.root_positions, axis=0).max() == 0.0
    assert seated_limits().violations(seated.rotations).max() < 1e-12
    back = seated_motion(np.random.default_rng(0), reach_back=True)
    assert seated_limits().violations(back.rotations).max() < 1e-12
    hands = track_points(seated, TOOLS)[:, :2]
    speeds = np.linalg.norm(np.diff(hands, axis=0), axis=-1) * seated.rate_hz
    assert 0.3 < speeds.mean() < 0.8 and speeds.max() > 1.0  # [m/s] moves the arms about, briskly


def test_the_seated_person_is_drawn_from_the_seed() -> None:
    a, b, c = (seated_motion(np.random.default_rng(seed), frames=30) for seed in (1, 1, 2))
    assert np.array_equal(a.rotations.wxyz, b.rotations.wxyz)
    assert not np.allclose(a.rotations.wxyz[-1], c.rotations.wxyz[-1])
    with pytest.raises(InputError, match="frames"):
        seated_motion(np.random.default_rng(0), frames=0)


def test_shoes_raise_the_ankles_by_their_soles():
    bare, shod = (contact_points(stretch_body(HUMAN, 1.0, {}, sole_m=m)).offsets for m in (0.0, 0.02))
    soles = [contact_points(HUMAN).index(f"{side}_heel") for side in ("left", "right")]
    np.testing.assert_allclose((bare - shod)[soles, 1], 0.02, atol=1e-3)

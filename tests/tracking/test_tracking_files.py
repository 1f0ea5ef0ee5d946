"""Key points and cameras of other tools' files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import marey
from marey.base import FormatError, InputError, MissingFileError
from marey.skeleton import HUMAN, contact_points
from marey.tracking import Camera, PersonTracker, load_cameras, load_keypoints, observe, track_points
from marey.tracking.keypoint_files import BLAZEPOSE, BODY_POINTS, COCO, OPENPOSE_25
from marey.tracking.observation import COCO_JOINTS, fit_body, measure_clip_segments, triangulate

WALK = marey.samples.walk(1.2)[::4]
SIZE = (1280, 960)
EYES = [Camera(np.array(eye), np.array([0.0, 0.9, 0.8]), 900.0, SIZE) for eye in ((0.8, 1.4, 5.5), (4.5, 1.3, 0.5))]
FRAMES = range(12)


def points_of(names: tuple[str, ...], camera: Camera = EYES[0]) -> np.ndarray:
    """Pixels and confidences (F, K, 3) of a detector; points that a skeleton lacks are not seen."""
    found = np.zeros((len(FRAMES), len(names), 3))
    known = [k for k, name in enumerate(names) if name in BODY_POINTS]
    places = track_points(WALK[: len(FRAMES)], [BODY_POINTS[names[k]] for k in known])
    found[:, known, :2], found[:, known, 2] = camera.project(places), 0.9
    return found


def write_coco(folder: Path, camera: Camera = EYES[0], name: str = "coco.json") -> Path:
    points = points_of(COCO, camera)
    facts = [{"image_id": f, "category_id": 1, "keypoints": points[f].ravel().tolist(), "score": 0.9} for f in FRAMES]
    (folder / name).write_text(json.dumps(facts))
    return folder / name


def write_openpose(folder: Path) -> Path:
    points = points_of(OPENPOSE_25)
    (folder / "openpose").mkdir()
    for f in FRAMES:
        people = [{"person_id": [-1], "pose_keypoints_2d": points[f].ravel().tolist()}]
        (folder / "openpose" / f"clip_{f:012d}_keypoints.json").write_text(
            json.dumps({"version": 1.3, "people": people})
        )
    return folder / "openpose"


def write_blazepose(folder: Path) -> Path:
    points = points_of(BLAZEPOSE)
    frames = [
        {"pose_landmarks": [[{"x": u / 1280, "y": v / 960, "z": 0.0, "visibility": c} for u, v, c in points[f]]]}
        for f in FRAMES
    ]
    (folder / "mediapipe.json").write_text(json.dumps({"fps": 25.0, "width": 1280, "height": 960, "frames": frames}))
    return folder / "mediapipe.json"


@pytest.mark.parametrize("write", [write_coco, write_openpose, write_blazepose])
def test_points_of_each_detector_are_where_they_were_seen(tmp_path, write):
    found = load_keypoints(write(tmp_path))
    (tmp_path / "camera.json").write_text(
        json.dumps({"size": SIZE, "focal_px": 900.0, "position": [0, 1, 5], "target": [0, 1, 0]})
    )
    seen = found.observe(load_cameras(tmp_path / "camera.json")[0], 25.0)
    wanted = EYES[0].project(track_points(WALK[: len(FRAMES)], seen.names))
    assert {"left_ankle", "right_wrist", "nose"} <= set(seen.names)
    assert seen.valid.all()
    assert np.abs(seen.pixels - wanted).max() < 1e-6
    assert seen.trust[:, seen.names.index("left_knee")] == pytest.approx(0.9)


def test_rate_size_and_unused_points_are_read(tmp_path):
    found = load_keypoints(write_blazepose(tmp_path))
    assert (found.rate_hz, found.size, found.is_normalised) == (25.0, SIZE, True)
    assert "mouth_left" in found.unused and "left_heel" not in found.unused


def test_a_frame_without_a_person_is_not_seen_and_the_nearest_is_followed(tmp_path):
    points = points_of(OPENPOSE_25)
    stranger = points + np.array([500.0, 0.0, -0.2])
    frames = []
    for f in FRAMES:
        people = [stranger[f], points[f]] if f % 2 else [points[f], stranger[f]]
        frames.append({"people": [] if f == 5 else [{"pose_keypoints_2d": p.ravel().tolist()} for p in people]})
    (tmp_path / "two.json").write_text(json.dumps(frames))
    found = load_keypoints(tmp_path / "two.json")
    assert found.num_people == 2
    assert not found.confidences[5].any()
    seen = found.confidences > 0.0
    assert np.abs(found.pixels - points[..., :2])[seen].max() < 1e-9
    other = load_keypoints(tmp_path / "two.json", person=1)
    assert np.abs(other.pixels - stranger[..., :2])[other.confidences > 0.0].max() < 1e-9
    with pytest.raises(InputError, match="at most 2"):
        load_keypoints(tmp_path / "two.json", person=2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        "[1, 2]",
        '{"people": []}',
        '[{"people": [{"pose_keypoints_2d": [1, 2]}]}]',
        '{"names": ["head"], "pixels": [[3]]}',
    ],
)
def test_broken_files_are_refused_with_their_name(tmp_path, text):
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises((FormatError, InputError), match=r"broken\.json"):
        load_keypoints(tmp_path / "broken.json")
    with pytest.raises(MissingFileError):
        load_keypoints(tmp_path / "nothing.json")


def distort(x: np.ndarray, k: tuple[float, ...]) -> np.ndarray:
    """The lens model of OpenCV's documentation, forwards."""
    k1, k2, p1, p2, k3 = k
    r2 = (x**2).sum(axis=-1)
    radial = 1.0 + k1 * r2 + k2 * r2**2 + k3 * r2**3
    a, b = x[..., 0], x[..., 1]
    side = np.stack([2 * p1 * a * b + p2 * (r2 + 2 * a**2), p1 * (r2 + 2 * b**2) + 2 * p2 * a * b], axis=-1)
    return x * radial[..., None] + side


@pytest.mark.parametrize("up", ["y", "z", "-y"])
def test_an_opencv_camera_sees_what_its_formula_says(tmp_path, up):
    # Our world in the file's axes: (x, y, z) with y up becomes (x, -z, y) where z is up
    turn = {"y": np.eye(3), "z": np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]), "-y": np.diag([1.0, -1, -1])}[up]
    right, above, ahead = EYES[0].axes()
    R = np.stack([right, -above, ahead]) @ turn.T
    t = -R @ turn @ EYES[0].position
    K, k = [[900.0, 0, 610.0], [0, 870.0, 500.0], [0, 0, 1]], (-0.2, 0.05, 0.001, -0.002, 0.01)
    facts = {"size": SIZE, "K": K, "R": R.tolist(), "t": (100.0 * t).tolist(), "distortion": k, "up": up, "unit": "cm"}
    (tmp_path / "cameras.json").write_text(json.dumps({"cameras": [facts]}))
    lens = load_cameras(tmp_path / "cameras.json")[0]
    places = track_points(WALK[:3], COCO)
    seen = places @ turn.T @ R.T + t
    pixels = distort(seen[..., :2] / seen[..., 2:], k) * (900.0, 870.0) + (610.0, 500.0)
    assert np.abs(lens.rectify(pixels) - lens.camera.project(places)).max() < 1e-3


def test_a_camera_with_an_unknown_field_is_refused(tmp_path):
    (tmp_path / "c.json").write_text(
        json.dumps({"size": SIZE, "focal": 900.0, "position": [0, 1, 5], "target": [0, 1, 0]})
    )
    with pytest.raises(InputError, match="unknown field 'focal'"):
        load_cameras(tmp_path / "c.json")
    (tmp_path / "c.toml").write_text("size = [640, 480]\nposition = [0.0, 1.0, 5.0]\ntarget = [0.0, 1.0, 0.0]\n")
    with pytest.raises(InputError, match="no focal length"):
        load_cameras(tmp_path / "c.toml")


def test_two_cameras_measure_the_body():
    body = fit_body({"thigh": 0.50, "shank": 0.40, "upper_arm": 0.30, "forearm": 0.22, "trunk": 0.45})
    clip = replace(WALK[:24], skeleton=body)
    views = [observe(clip, eye, COCO, noise_px=0.0, rng=np.random.default_rng(0)) for eye in EYES]
    names, points, fixed = triangulate(views)
    assert fixed.all()
    assert np.abs(points - track_points(clip, names)).max() < 1e-6
    found = measure_clip_segments(clip)
    assert (found["thigh"], found["shank"], found["forearm"]) == pytest.approx((0.50, 0.40, 0.22))


def test_one_camera_estimates_proportions_that_are_not_told():
    lengths = {"thigh": 0.37, "shank": 0.45, "upper_arm": 0.25, "forearm": 0.25, "trunk": 0.40}
    clip = replace(WALK[:24], skeleton=fit_body(lengths))
    soles = contact_points(clip.skeleton).positions(*clip.joint_frames())[..., 1]
    clip = replace(clip, root_positions=clip.root_positions - (0.0, float(soles.min()), 0.0))
    seen = observe(clip, EYES[0], COCO, noise_px=2.0, rng=np.random.default_rng(0))
    away = {}
    for kind, tracker in (("unknown", PersonTracker()), ("usual", PersonTracker(body=HUMAN))):
        found = tracker.run(seen).motion
        ours = measure_clip_segments(found)
        away[kind] = [abs(np.log(ours[name] / length)) for name, length in lengths.items()]
        points = np.linalg.norm(track_points(found, COCO_JOINTS) - track_points(clip, COCO_JOINTS), axis=-1)
        away[kind].append(float(points.mean()))
    assert np.mean(away["unknown"][:-1]) < 0.6 * np.mean(away["usual"][:-1])
    assert away["unknown"][-1] < min(0.12, 0.5 * away["usual"][-1])


def test_a_person_is_found_from_two_cameras_without_any_start(tmp_path):
    files = [write_coco(tmp_path, eye, f"{c}.json") for c, eye in enumerate(EYES)]
    cameras = [
        {"size": SIZE, "focal_px": 900.0, "position": e.position.tolist(), "target": e.target.tolist()} for e in EYES
    ]
    (tmp_path / "cameras.json").write_text(json.dumps(cameras))
    lenses = load_cameras(tmp_path / "cameras.json")
    views = [load_keypoints(file).observe(lens, WALK.rate_hz) for file, lens in zip(files, lenses, strict=True)]
    found = PersonTracker().run(views)
    away = np.linalg.norm(found.motion.joint_positions() - WALK[: len(FRAMES)].joint_positions(), axis=-1)
    assert found.body_source == "triangulated"
    assert set(found.states) == {"tracked"}
    assert away.mean() < 0.03
    assert found.motion.skeleton.names == HUMAN.names


def test_a_person_that_leaves_is_occluded_and_a_wrong_picture_is_lost():
    clip = WALK[:24]
    seen = observe(clip, EYES[0], COCO, noise_px=1.0, rng=np.random.default_rng(0))
    valid, pixels = np.array(seen.valid), np.array(seen.pixels)
    valid[8:11] = False
    pixels[16:19] = np.random.default_rng(1).uniform(0.0, 900.0, pixels[16:19].shape)
    found = PersonTracker(body=HUMAN).run(replace(seen, valid=valid, pixels=pixels))
    assert [found.states[f] for f in (8, 9, 10)] == ["occluded"] * 3
    assert [found.states[f] for f in (16, 17, 18)] == ["lost"] * 3
    assert found.states.count("tracked") == 18

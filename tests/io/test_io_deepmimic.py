"""DeepMimic clips: the body of PyBullet's humanoid, forward along +Z, knees bending the right way."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from marey.base import FormatError, InputError
from marey.io.deepmimic import deepmimic_skeleton, read_deepmimic
from marey.lie import SO3


def row(duration: float = 1 / 30, position=(0.0, 0.9, 0.0), **angles) -> list[float]:
    """One frame: the rest pose with some joints turned; a quaternion wxyz, or one angle for knees and elbows."""
    order = ["root", "chest", "neck"]
    for side in ("right", "left"):
        order += [f"{side}_{joint}" for joint in ("hip", "knee", "ankle", "shoulder", "elbow")]
    values = [duration, *position]
    for joint in order:
        single = joint.endswith(("knee", "elbow"))
        value = angles.get(joint, 0.0 if single else (1.0, 0.0, 0.0, 0.0))
        values += [value] if single else list(value)
    return values


def write(path: Path, rows, **more) -> Path:
    path.write_text(json.dumps({"Loop": "wrap", "Frames": rows} | more))
    return path


def position(motion, joint: str, frame: int = 0) -> np.ndarray:
    return motion.joint_positions()[frame, motion.skeleton.index(joint)]


def test_the_rest_body_looks_along_z_with_its_left_along_x():
    rest = dict(zip(deepmimic_skeleton().names, deepmimic_skeleton().rest_positions(), strict=True))
    assert rest["left_hip"][0] == pytest.approx(0.084887)
    assert rest["right_hip"][0] == pytest.approx(-0.084887)
    assert rest["left_ankle"][1] == pytest.approx(-0.421546 - 0.409870)
    toes = deepmimic_skeleton().tips[deepmimic_skeleton().index("left_ankle")]
    assert toes[2] > 0.1


def test_a_step_along_the_clips_x_is_a_step_forward(tmp_path):
    motion = read_deepmimic(write(tmp_path / "a.txt", [row(), row(position=(0.5, 0.9, 0.1))]))
    np.testing.assert_allclose(motion.root_positions[1] - motion.root_positions[0], [-0.1, 0.0, 0.5], atol=1e-15)


def test_a_negative_knee_angle_takes_the_foot_back(tmp_path):
    motion = read_deepmimic(write(tmp_path / "a.txt", [row(right_knee=-0.5)] * 2))
    knee, ankle = position(motion, "right_knee"), position(motion, "right_ankle")
    np.testing.assert_allclose(ankle - knee, 0.409870 * np.array([0.0, -np.cos(0.5), -np.sin(0.5)]), atol=1e-12)


def test_a_positive_elbow_angle_takes_the_hand_forward(tmp_path):
    motion = read_deepmimic(write(tmp_path / "a.txt", [row(left_elbow=0.4)] * 2))
    hand = position(motion, "left_wrist") - position(motion, "left_elbow")
    np.testing.assert_allclose(hand, 0.258947 * np.array([0.0, -np.cos(0.4), np.sin(0.4)]), atol=1e-12)


def test_quaternions_have_the_scalar_first(tmp_path):
    """A quarter turn of the root about the clip's vertical, left, makes the body look along +X."""
    half = np.sqrt(0.5)
    motion = read_deepmimic(write(tmp_path / "a.txt", [row(root=(half, 0.0, half, 0.0))] * 2))
    left = position(motion, "left_hip") - position(motion, "right_hip")
    np.testing.assert_allclose(left / np.linalg.norm(left), [0.0, 0.0, -1.0], atol=1e-12)
    np.testing.assert_allclose(motion.rotations[0, 0] @ np.array([0.0, 0.0, 1.0]), [1.0, 0.0, 0.0], atol=1e-12)


@pytest.mark.parametrize(
    ("duration", "rate"), [(0.016666, 60.0), (0.0333333015, 30.0), (0.041667, 24.0), (0.0625, 16.0), (0.02, 50.0)]
)
def test_durations_of_few_digits_mean_a_common_rate(tmp_path, duration, rate):
    motion = read_deepmimic(write(tmp_path / "a.txt", [row(duration)] * 3 + [row(0.0)]))
    assert motion.rate_hz == rate
    assert motion.num_frames == 4


def test_uneven_durations_are_sampled_anew_and_reported(tmp_path):
    """A root that moves steadily and turns steadily still does so after the long frame was divided."""
    lengths = np.array([0.1, 0.1, 0.3, 0.1, 0.1])
    times = np.concatenate([[0.0], np.cumsum(lengths)])
    turns = SO3.exp(times[:, None] * np.array([0.0, 1.0, 0.0])).wxyz
    rows = [
        row(float(d), (float(t), 0.9, 0.0), root=tuple(q))
        for t, d, q in zip(times, [*lengths, 0.0], turns, strict=True)
    ]
    motion = read_deepmimic(write(tmp_path / "a.txt", rows))
    assert motion.num_frames == 8
    np.testing.assert_allclose(motion.root_positions[:, 2], np.arange(8) * 0.1, atol=1e-12)
    np.testing.assert_allclose(motion.rotations[:, 0].log()[:, 1], np.arange(8) * 0.1, atol=1e-12)
    assert any("1 of 5 frames do not last 0.1 s" in w for w in motion.load_report.warnings)


def test_a_rate_from_outside_wins(tmp_path):
    assert read_deepmimic(write(tmp_path / "a.txt", [row()] * 3), rate_hz=25).rate_hz == 25.0
    with pytest.raises(InputError, match="always in metres"):
        read_deepmimic(tmp_path / "a.txt", unit="cm")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("Frames: none", "a text that holds no motion"),
        ("[" * 100_000, "nested too deeply"),
        ("[1, 2]", "no list 'Frames'"),
        ('{"Frames": []}', "no list 'Frames'"),
        ('{"Frames": [[1, 2, 3]]}', "frame 0 has 3 values; the humanoid has 44"),
        ('{"Frames": [5]}', "frame 0 has 0 values"),
        (json.dumps({"Frames": [["x"] * 44]}), "a field is missing or has a wrong form"),
        (json.dumps({"Frames": [row(0.0)]}), "lasts 0 s"),
        (json.dumps({"Frames": [[0.1] + [0.0] * 43] * 2}), "is zero, so it is no rotation"),
        (json.dumps({"Frames": [row(-0.1), row()]}), "frame 0 lasts -0.1 s"),
        (json.dumps({"Frames": [row(), row(1e9), row(), row()]}), r"frame 1 lasts 1e\+09 s"),
        (json.dumps({"Frames": [row()]}).replace("0.9", "NaN"), "frame 0, value 2 is not finite"),
        (json.dumps({"Frames": [row()]}).replace("0.9", "1e999"), "is not finite"),
        ('{"Frames": [[' + "9" * 6000 + "]]}", "not valid JSON"),
    ],
)
def test_damaged_clips_end_in_a_sentence(tmp_path, content, message):
    (tmp_path / "bad.txt").write_text(content)
    with pytest.raises(FormatError, match=message):
        read_deepmimic(tmp_path / "bad.txt")


def pybullet_data() -> Path:
    return Path(pytest.importorskip("pybullet_data").__file__).parent


def test_offsets_are_a_quarter_of_pybullets_humanoid():
    text = (pybullet_data() / "humanoid" / "humanoid.urdf").read_text(errors="replace")
    found = re.findall(r'<joint name="(\w+)".*?<origin[^>]*xyz = "([-\d. ]+)".*?</joint>', text, re.DOTALL)
    offsets = {name: 0.25 * np.array([float(x) for x in xyz.split()]) for name, xyz in found}
    skeleton = deepmimic_skeleton()
    assert set(offsets) == set(skeleton.names)
    for joint, name in enumerate(skeleton.names):
        forward, up, right = offsets[name]
        np.testing.assert_allclose(skeleton.offsets[joint], [-right, up, forward], atol=1e-12)


def test_the_shipped_walk_goes_forward_over_its_feet():
    motion = read_deepmimic(pybullet_data() / "data" / "motions" / "humanoid3d_walk.txt")
    travelled = motion.root_positions[-1] - motion.root_positions[0]
    assert travelled[2] > 1.0
    assert abs(travelled[0]) < 0.1
    knees = motion.joint_positions()[:, [motion.skeleton.index("left_knee"), motion.skeleton.index("right_knee")]]
    hips = motion.joint_positions()[:, [motion.skeleton.index("left_hip"), motion.skeleton.index("right_hip")]]
    ankles = motion.joint_positions()[:, [motion.skeleton.index("left_ankle"), motion.skeleton.index("right_ankle")]]
    bend = knees - 0.5 * (hips + ankles)
    assert (bend[..., 2] > -0.01).all()  # knees lie before the line from hip to ankle
    assert 0.0 < motion.joint_positions()[..., 1].min() < 0.15


def test_all_shipped_humanoid_clips_load():
    clips = sorted((pybullet_data() / "data" / "motions").glob("humanoid3d_*.txt"))
    assert len(clips) >= 15
    for clip in clips:
        motion = read_deepmimic(clip)
        assert motion.num_frames >= 25
        assert motion.source.layout["loop"] in ("wrap", "none")

"""Anatomical limits: the same for every file of a body, coupled, widened and never narrowed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from marey.base import EPS, FloatArray, InputError
from marey.cli.poses.limits import app
from marey.io import load, save
from marey.kinematics import PointTask, anatomical_limits, load_limits, posing_limits, solve_ik
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion
from marey.skeleton import HUMAN, Pose, Skeleton

LIMITS = anatomical_limits(HUMAN)


def bend(joint: str, *degrees: float) -> Pose:
    """The rest pose of the canonical human with one joint turned by a rotation vector in degrees."""
    wxyz = SO3.identity(HUMAN.num_joints).wxyz.copy()
    wxyz[HUMAN.index(joint)] = SO3.exp(np.deg2rad(degrees)).wxyz
    return Pose(HUMAN, HUMAN.offsets[0], SO3(wxyz))


@pytest.mark.parametrize(
    ("joint", "degrees", "is_possible"),
    [
        ("left_knee", (100, 0, 0), True),
        ("left_knee", (-40, 0, 0), False),  # bent forwards
        ("right_knee", (0, 0, 40), False),
        ("left_elbow", (0, -100, 0), True),
        ("right_elbow", (0, 100, 0), True),
        ("left_elbow", (0, 60, 0), False),
        ("left_hip", (-75, 0, 0), True),  # the raise of a straight leg
        ("left_hip", (-125, 0, 0), False),  # beyond what hamstrings give with a straight knee
        ("left_hip", (80, 0, 0), False),  # thigh behind the back
        ("left_collar", (0, 0, 120), False),
        ("head", (0, 150, 0), False),
        ("spine2", (0, 0, 70), False),
    ],
)
def test_limits_tell_possible_from_impossible_bends(
    joint: str, degrees: tuple[float, float, float], is_possible: bool
) -> None:
    assert LIMITS.is_feasible(bend(joint, *degrees), 0.1) == is_possible


@pytest.mark.parametrize("knee", ["left_knee", "right_knee"])
def test_knees_that_are_held_do_not_bend_backwards(knee: str) -> None:
    """Backwards and forwards, with limits that hold the knees and with those of people."""
    poses = SO3(np.stack([bend(knee, degrees, 0, 0).rotations.wxyz for degrees in (-20, 20)]))
    limits = posing_limits(HUMAN)
    held, free = (one.violations(poses)[:, HUMAN.index(knee)] for one in (limits.hold_knees(-0.02), limits))
    assert held[0] - free[0] == pytest.approx(np.deg2rad(10.0) - 0.02, abs=0.01)  # people's bend by ten degrees
    assert held[1] == free[1]


def test_left_and_right_are_mirror_images() -> None:
    """A limb alone."""
    turns = np.zeros((300, HUMAN.num_joints, 3))
    limb = [HUMAN.index(f"left_{part}") for part in ("hip", "knee", "ankle", "shoulder", "elbow")]
    turns[:, limb] = np.random.default_rng(0).normal(0.0, 0.5, (300, len(limb), 3))
    swapped = [HUMAN.index(_other_side(name)) for name in HUMAN.names]
    mirrored = (turns * [1.0, -1.0, -1.0])[:, swapped]
    once, again = (LIMITS.violations(SO3.exp(poses)).max(axis=1) for poses in (turns, mirrored))
    assert np.mean(np.abs(once - again) < 0.02) > 0.95


def _other_side(name: str) -> str:
    return name.replace("left", "R").replace("right", "left").replace("R", "right")


def test_the_rest_pose_of_a_file_does_not_matter() -> None:
    """The same body drawn with hanging arms and splayed legs, as many files have it."""
    turns = np.zeros((HUMAN.num_joints, 3))
    for side, sign in (("left", 1.0), ("right", -1.0)):
        turns[HUMAN.index(f"{side}_shoulder"), 2] = -1.2 * sign
        turns[HUMAN.index(f"{side}_hip"), 2] = 0.3 * sign
    W = Pose(HUMAN, HUMAN.offsets[0], SO3.exp(turns)).joint_rotations()
    parents = np.maximum(HUMAN.parents, 0)
    offsets = np.array(W[parents] @ HUMAN.offsets)
    hanging = Skeleton(HUMAN.names, HUMAN.parents, offsets, np.array(W @ HUMAN.tips), name="hanging")
    rotations = SO3.exp(np.random.default_rng(1).normal(0.0, 0.6, (200, HUMAN.num_joints, 3)))
    # World frames of the joints stay what they were, so local rotations are seen between turned axes
    seen = SO3.stack([W[int(parents[j])] @ rotations[:, j] @ W[j].inverse() for j in range(HUMAN.num_joints)], axis=1)
    once, again = LIMITS.violations(rotations), anatomical_limits(hanging).violations(seen)
    assert once.max() > 1.0
    # The canonical legs and arms are a degree off the axes to which the calibration pose brings bones
    assert np.quantile(np.abs(once - again), 0.99) < 0.05


def test_projected_poses_are_inside_intervals_regions_and_synergies() -> None:
    rotations = SO3.exp(np.random.default_rng(3).normal(0.0, 0.5, (60, HUMAN.num_joints, 3)))
    found = LIMITS.check(rotations)
    assert len(LIMITS.tables().reaches) == 2 and np.median(found.violation.max(axis=1)) > 0.5
    assert LIMITS.violations(found.projected).max() < 1e-9


def test_clips_widen_limits_and_never_narrow_them() -> None:
    count = 40
    turns = np.zeros((count, HUMAN.num_joints, 3))
    turns[:, HUMAN.index("left_knee"), 0] = np.linspace(0.0, -0.8, count)
    clip = Motion(HUMAN, 30.0, np.zeros((count, 3)), SO3.exp(turns), name="supple")
    wide = anatomical_limits(HUMAN, clips=[clip])
    assert LIMITS.violations(clip.rotations).max() > 0.3
    assert wide.violations(clip.rotations).max() < 1e-9
    some = SO3.exp(np.random.default_rng(2).normal(0.0, 0.8, (300, HUMAN.num_joints, 3)))
    before, after = (limits.violations(some).max(axis=1) for limits in (LIMITS, wide))
    assert np.all(after[before < 1e-9] < 1e-9)


@pytest.mark.parametrize("poses", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_the_gradient_equals_central_differences(poses: int) -> None:
    """Of half the sum over all joints, since a coupling turns two of them; kinks of the tables are left out."""
    rng, h = np.random.default_rng(5), EPS ** (1 / 3)
    rotations = SO3.exp(rng.normal(0.0, 0.5, (poses, HUMAN.num_joints, 3)))
    gradient = LIMITS.check(rotations).gradient
    errors = []
    for j in range(1, HUMAN.num_joints):
        for c in range(3):
            step = np.zeros((HUMAN.num_joints, 3))
            step[j, c] = h
            ahead, behind = (
                0.5 * (LIMITS.violations(rotations @ SO3.exp(sign * step)) ** 2).sum(axis=1) for sign in (1.0, -1.0)
            )
            errors.append(np.abs(gradient[:, j, c] - (ahead - behind) / (2.0 * h)))
    assert np.quantile(errors, 0.98) < 1e-6


def test_saved_limits_are_read_back_and_told_by_joint_and_time(tmp_path: Path) -> None:
    file, clip = tmp_path / "limits.safetensors", tmp_path / "clip.bvh"
    turns = np.zeros((30, HUMAN.num_joints, 3))
    turns[12, HUMAN.index("left_knee"), 0] = -0.6
    save(Motion(HUMAN, 30.0, np.zeros((30, 3)), SO3.exp(turns)), clip)
    run = CliRunner()
    assert run.invoke(app, ["fit", str(clip), "-o", str(file), "--anatomical"]).exit_code == 0
    shown = run.invoke(app, ["show", str(file), "--clip", str(clip), "--json"])
    facts = json.loads(shown.stdout.splitlines()[-1])
    assert facts["max_error"]["joint"] == "left_knee" and facts["max_error"]["time_s"] == pytest.approx(0.4)
    assert facts["infeasible_frames"] == 1
    widened = run.invoke(app, ["fit", str(clip), "-o", str(file), "--widen"])
    assert widened.exit_code == 0, widened.output
    assert load_limits(file).violations(load(clip).rotations).max() < 1e-9


def test_skeletons_without_roles_are_refused_with_the_reason() -> None:
    stick = Skeleton(("root", "arm"), np.array([-1, 0]), np.array([[0, 0, 0], [0, 1, 0]]), name="stick")
    with pytest.raises(InputError, match="'stick', whose joints have no human roles"):
        anatomical_limits(stick)


WALKS = ("02_01", "38_01", "39_01", "132_18", "143_03")  # of people outside the fit


def load_gait(folder: Path, name: str) -> Motion:
    return load(folder / "cmu-bvh" / f"{name}.bvh")[1::8]


@pytest.mark.mocap
def test_whole_poses_of_people_outside_the_fit_are_feasible(mocap: Path) -> None:
    """All 39 gaits: 0.979 (docs/results/posing.md)."""
    worst = []
    for name in WALKS:
        clip = load_gait(mocap, name)
        worst.append(anatomical_limits(clip.skeleton).violations(clip.rotations).max(axis=1))
    assert np.mean(np.concatenate(worst) <= 0.1) >= 0.97


def accept_swapped(folder: Path, far_rad: float) -> float:
    """Share of poses within 0.1 rad that take each joint from one or the other of two poses so far apart."""
    names = (
        "02_04",
        "49_06",
        "79_20",
        "90_02",
        "118_02",
        "140_01",
        "143_05",
        "13_33",
        "87_05",
        "16_55",
        "115_01",
        "01_10",
    )
    clips, rng = [load_gait(folder, name) for name in names], np.random.default_rng(0)
    limits = anatomical_limits(clips[0].skeleton)
    poses: list[FloatArray] = []
    while len(poses) < 300:
        one, two = (clips[n].rotations.wxyz[rng.integers(len(clips[n]))] for n in rng.choice(len(clips), 2, False))
        apart = geodesic_distance(SO3(one[1:]), SO3(two[1:]))
        if np.sqrt(np.mean(apart[apart > 0.0] ** 2)) >= far_rad:
            poses.append(np.where(rng.random(len(one))[:, None] < 0.5, one, two))
    return float(np.mean(limits.violations(SO3(np.array(poses))).max(axis=1) <= 0.1))


@pytest.mark.mocap
def test_poses_swapped_between_unlike_ones_are_refused(mocap: Path) -> None:
    assert accept_swapped(mocap, 0.9) <= 0.5


@pytest.mark.mocap
def test_poses_swapped_between_less_unlike_ones_are_refused(mocap: Path) -> None:
    assert accept_swapped(mocap, 0.7) <= 0.5


def test_poses_solved_under_the_limits_keep_them() -> None:
    start = Pose.rest(HUMAN)
    for target in ((0.3, 1.9, 0.1), (0.1, 0.6, 0.5), (-0.3, 1.2, -0.2)):
        for limits, most in ((LIMITS, 1e-6), (posing_limits(HUMAN), 1e-3)):
            found = solve_ik(HUMAN, [PointTask("left_wrist", target)], start=start, limits=limits, on_failure="return")
            assert limits.violation(found.pose).max() <= most
            coordinates = limits.coordinates(found.pose.rotations[None]).ravel()
            assert (coordinates >= limits.tables().low - 1e-9).all()
            assert (coordinates <= limits.tables().high + 1e-9).all()

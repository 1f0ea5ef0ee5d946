"""Boxes, ASF limits, cones and reach cones: closed forms, nearest points, bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marey.base import InputError
from marey.io import load
from marey.io.acclaim.asf import read_asf
from marey.kinematics import BoxLimits, ConeLimits, JointLimits
from marey.kinematics.limits.cones import ReachConeLimits
from marey.lie import SO3, geodesic_distance
from marey.skeleton import HUMAN, EulerLimits, Pose, Skeleton

STICK = Skeleton(("root", "arm"), np.array([-1, 0]), np.array([[0, 0, 0], [0, 1, 0]]), np.array([[0, 0, 0], [1, 0, 0]]))


def turned(vector: object) -> SO3:
    """One frame of the stick, its arm turned."""
    return SO3.exp(np.stack([np.zeros(3), np.asarray(vector, dtype=float)]))[None]


def test_a_box_clamps_the_rotation_vector() -> None:
    low, high = np.tile([-1.0, -0.5, 0.0], (2, 1)), np.tile([1.0, 0.5, 0.2], (2, 1))
    check = BoxLimits(STICK, low, high).check(turned([1.3, 0.1, -0.4]))
    np.testing.assert_allclose(check.projected.log()[0, 1], [1.0, 0.1, 0.0], atol=1e-15)
    assert check.violation[0, 1] == pytest.approx(0.5, abs=1e-15)


def test_a_box_over_half_a_turn_takes_the_nearer_way_round() -> None:
    limits = BoxLimits(STICK, np.array([[-4.0, 0, 0], [2.5, 0, 0]]), np.array([[4.0, 0, 0], [4.0, 0, 0]]))
    assert limits.violations(turned([3.9 - 2.0 * np.pi, 0.0, 0.0]))[0, 1] == 0.0
    reached = limits.project_rotations(turned([-1.5, 0.0, 0.0]))
    assert geodesic_distance(reached[0, 1], SO3.exp([4.0, 0.0, 0.0])) < 1e-12


def test_a_half_open_box_and_a_frozen_one() -> None:
    low, high = np.array([[0.0, 0, 0], [-np.inf, 0.1, -np.inf]]), np.array([[0.0, 0, 0], [0.5, 0.1, np.inf]])
    limits = BoxLimits(STICK, low, high)
    np.testing.assert_allclose(limits.project_rotations(turned([0.9, 0.4, 0.7])).log()[0, 1], [0.5, 0.1, 0.7])
    assert limits.violations(turned([-2.9, 0.1, 0.0]))[0, 1] < 1e-15


def test_free_limits_allow_everything() -> None:
    limits = BoxLimits.free(HUMAN)
    rotations = SO3.random(np.random.default_rng(0), 50, HUMAN.num_joints)
    assert np.array_equal(limits.project_rotations(rotations).wxyz, rotations.wxyz)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        ([[0.2, 0, 0]] * 2, [[0.1, 0, 0]] * 2, "above the upper"),
        ([[np.nan, 0, 0]] * 2, [[1.0, 0, 0]] * 2, "low holds nan"),
        ([[0.0, 0]] * 2, [[1.0, 0, 0]] * 2, "low has shape"),
        ([[5.0, 5.0, 0]] * 2, [[6.0, 6.0, 0]] * 2, "beyond a whole turn"),
    ],
)
def test_bad_bounds_are_refused(low: object, high: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        BoxLimits(STICK, np.array(low), np.array(high))


def euler_matrix(order: str, angles: np.ndarray) -> SO3:
    """The first letter acts first."""
    result = SO3.identity()
    for letter, angle in zip(order, angles, strict=True):
        result = SO3.exp(angle * np.eye(3)["xyz".index(letter)]) @ result
    return result


@pytest.mark.parametrize("order", ["xyz", "xzy", "yxz", "yzx", "zxy", "zyx", "xz", "zy", "y"])
def test_euler_boxes_clamp_the_angles_of_the_file(order: str) -> None:
    rng = np.random.default_rng(1)
    axis = SO3.random(rng)
    low, high = np.full(len(order), -0.6), np.full(len(order), 0.4)
    limited = Skeleton(STICK.names, STICK.parents, STICK.offsets, limits=(EulerLimits("arm", order, low, high, axis),))
    limits = BoxLimits.from_skeleton(limited)
    for angles in rng.uniform(-0.9, 0.9, (20, len(order))):
        given, wanted = (axis @ euler_matrix(order, a) @ axis.inverse() for a in (angles, np.clip(angles, low, high)))
        check = limits.check(SO3.stack([SO3.identity(), given])[None])
        assert geodesic_distance(check.projected[0, 1], wanted) < 1e-7
        assert check.violation[0, 1] == pytest.approx(np.linalg.norm(angles - np.clip(angles, low, high)), abs=1e-7)


def test_euler_boxes_refuse_nonsense() -> None:
    axis = SO3.identity()
    for limit in (
        EulerLimits("arm", "xx", np.zeros(2), np.ones(2), axis),
        EulerLimits("arm", "x", np.ones(1), np.zeros(1), axis),
    ):
        broken = Skeleton(STICK.names, STICK.parents, STICK.offsets, limits=(limit,))
        with pytest.raises(InputError, match="arm"):
            BoxLimits.from_skeleton(broken)


@pytest.mark.mocap
def test_engell_05_asf_limits_are_those_of_the_file(mocap: Path) -> None:
    """The left knee of CMU's subject 02: `dof rx`, `limits (-10.0 170.0)`."""
    skeleton = read_asf(mocap / "cmu-asfamc" / "02" / "02.asf").skeleton
    limits = BoxLimits.from_skeleton(skeleton)
    knee = next(limit for limit in limits.limits if limit.joint == "ltibia")
    np.testing.assert_allclose(np.rad2deg([knee.low_rad[0], knee.high_rad[0]]), [-10.0, 170.0])
    for degrees, beyond in ((-20.0, 10.0), (80.0, 0.0), (175.0, 5.0)):
        j = skeleton.index("ltibia")
        vectors = np.zeros((skeleton.num_joints, 3))
        vectors[j, 0] = np.deg2rad(degrees)
        rotations = SO3.exp(vectors).wxyz.copy()
        rotations[j] = (knee.axis @ SO3.exp(vectors[j]) @ knee.axis.inverse()).wxyz
        pose = Pose(skeleton, np.zeros(3), SO3(rotations))
        assert np.rad2deg(limits.violation(pose)[j]) == pytest.approx(beyond, abs=1e-9)
    walk = load(mocap / "cmu-asfamc" / "02" / "02_01.amc")
    violation = BoxLimits.from_skeleton(walk.skeleton).violations(walk.rotations)
    assert np.mean(violation <= 1e-6) > 0.9  # captured poses pass the printed limits now and then


def test_a_round_cone_clamps_the_swing_and_the_twist() -> None:
    limits = ConeLimits.around_bones(STICK, 0.5, (-0.2, 0.3))
    arm = SO3.exp([0.0, 0.0, 0.8]) @ SO3.exp([0.7, 0.0, 0.0])  # the bone is x: a swing about z, then a twist
    check = limits.check(SO3.stack([SO3.identity(), arm])[None])
    wanted = SO3.exp([0.0, 0.0, 0.5]) @ SO3.exp([0.3, 0.0, 0.0])
    assert geodesic_distance(check.projected[0, 1], wanted) < 1e-12
    assert check.violation[0, 1] == pytest.approx(np.hypot(0.3, 0.4), abs=1e-12)


def test_an_elliptic_cone_takes_the_nearest_point() -> None:
    """Brute force over the ellipse's rim."""
    limits = ConeLimits.around_bones(STICK, (0.8, 0.3), (0.0, 0.0))
    t = np.linspace(0.0, 2.0 * np.pi, 200_001)
    rim = np.stack([0.8 * np.cos(t), 0.3 * np.sin(t)], axis=1)
    for y, z in np.random.default_rng(2).uniform(-1.2, 1.2, (30, 2)):
        if (y / 0.8) ** 2 + (z / 0.3) ** 2 > 1.0:
            least = np.hypot(rim[:, 0] - y, rim[:, 1] - z).min()
            assert limits.violations(turned([0.0, y, z]))[0, 1] == pytest.approx(least, abs=1e-8)


def test_reach_cones_agree_with_a_dense_polygon() -> None:
    """Distance to a concave polygon against brute force over points of its sides."""
    corners = np.array([[1, 0.5, 0], [1, 0.1, 0.1], [1, 0, 0.5], [1, -0.1, 0.1], [1, -0.5, 0], [1, 0, -0.5]])
    limits = ReachConeLimits.around_bones(STICK, {"arm": corners}, inner={"arm": (1.0, 0.0, 0.0)})
    unit = corners / np.linalg.norm(corners, axis=1, keepdims=True)
    t = np.linspace(0.0, 1.0, 2000)[:, None]
    sides = np.concatenate([(1 - t) * a + t * b for a, b in zip(unit, np.roll(unit, -1, axis=0), strict=True)])
    sides /= np.linalg.norm(sides, axis=1, keepdims=True)
    inside = 0
    for direction in np.random.default_rng(3).normal((1.0, 0.0, 0.0), 0.6, (60, 3)):
        arm = SO3.from_two_vectors([1.0, 0.0, 0.0], direction)
        violation = float(limits.violations(SO3.stack([SO3.identity(), arm])[None])[0, 1])
        least = np.arccos(np.clip(sides @ (direction / np.linalg.norm(direction)), -1.0, 1.0)).min()
        inside += violation == 0.0
        assert violation == 0.0 or violation == pytest.approx(least, abs=1e-5)
    assert 2 < inside < 50


def test_polygons_that_hide_from_their_inner_point_are_refused() -> None:
    bow_tie = np.array([[1, 0.5, 0.5], [1, -0.5, -0.5], [1, 0.5, -0.5], [1, -0.5, 0.5]])
    with pytest.raises(InputError, match="not all seen"):
        ReachConeLimits.around_bones(STICK, {"arm": bow_tie})
    with pytest.raises(InputError, match="2 corners"):
        ReachConeLimits.around_bones(STICK, {"arm": bow_tie[:2]})


def test_cones_refuse_negative_angles_and_wrong_batches() -> None:
    with pytest.raises(InputError, match="negative"):
        ConeLimits.around_bones(STICK, -0.1)
    with pytest.raises(InputError, match="centres has batch"):
        ConeLimits.around_bones(STICK, 0.1, centres=SO3.identity(3))


def test_the_contract_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        JointLimits()  # type: ignore[abstract]

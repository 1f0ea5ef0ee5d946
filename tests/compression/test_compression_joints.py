"""Kinds of joints: as few numbers as a clip uses, and their derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from marey.compression.file_format import FieldReader, FieldWriter
from marey.compression.joint_fit import (
    BALL,
    FIXED,
    FREE,
    HINGE,
    UNIVERSAL,
    WIDTHS,
    compute_columns,
    compute_rotations,
    fit_joints,
    fit_universal_axes,
    read_fit,
    unwrap_rotation_vectors,
    write_fit,
)
from marey.compression.pose_error import build_link_table, build_point_table, compute_reach
from marey.lie import SO3, geodesic_distance
from marey.skeleton import Skeleton

TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def fitted(chain):
    return fit_joints(chain, np.full(11, TOLERANCE))


def test_each_joint_gets_its_kind(fitted):
    fit, numbers = fitted
    assert fit.kinds.tolist() == [FREE, BALL, BALL, BALL, HINGE, UNIVERSAL, BALL, BALL, BALL, BALL, FIXED]
    assert numbers.shape[1] == 3 + sum(WIDTHS[k] for k in fit.kinds)


def test_numbers_give_the_rotations_back_within_the_tolerance(fitted, chain):
    fit, numbers = fitted
    back = SO3(compute_rotations(fit.joints(chain.skeleton), numbers))
    assert geodesic_distance(back, chain.rotations).max() <= TOLERANCE
    assert np.array_equal(numbers[:, :3], chain.root_positions)


def test_without_tolerance_every_joint_is_a_ball_or_free(chain):
    fit, numbers = fit_joints(chain, np.zeros(11))
    assert set(fit.kinds.tolist()) <= {BALL, FREE}
    back = SO3(compute_rotations(fit.joints(chain.skeleton), numbers))
    assert geodesic_distance(back, chain.rotations).max() <= 1e-12


def test_columns_are_the_derivatives_of_the_rotations(fitted, chain):
    fit, numbers = fitted
    joints = fit.joints(chain.skeleton)
    owners = np.repeat(np.arange(11), np.diff(joints.starts))
    columns = compute_columns(joints, numbers, owners)
    base = SO3(compute_rotations(joints, numbers))
    for i, joint in enumerate(owners):
        moved = numbers.copy()
        moved[:, 3 + i] += 1e-6
        turned = SO3(compute_rotations(joints, moved))
        numeric = (base[:, joint].inverse() @ turned[:, joint]).log() / 1e-6
        np.testing.assert_allclose(columns[:, i], numeric, atol=2e-5)


def test_a_fit_survives_the_file(fitted):
    out = FieldWriter()
    write_fit(out, fitted[0])
    back = read_fit(FieldReader(bytes(out.data)), 11)
    assert np.array_equal(back.kinds, fitted[0].kinds)
    assert np.array_equal(back.constants, fitted[0].constants) and back.grid == fitted[0].grid


def test_axes_of_a_universal_joint_are_found():
    rng = np.random.default_rng(8)
    a, b = np.array([0.36, 0.48, 0.8]), np.array([0.0, 0.6, -0.8])
    middle = SO3.exp((0.4, -0.3, 0.9))
    track = SO3.exp(rng.normal(size=(60, 1)) * a) @ middle @ SO3.exp(rng.normal(size=(60, 1)) * b)
    axes = fit_universal_axes(track.matrix())
    assert axes is not None
    assert abs(abs(axes[0] @ a) - 1.0) < 1e-9 and abs(abs(axes[1] @ b) - 1.0) < 1e-9
    assert abs(abs(axes[2]) - abs(a @ (middle @ b))) < 1e-9


def test_logs_go_on_beyond_half_a_turn():
    angles = np.linspace(0.0, 5.5, 200)[:, None]
    axis = np.array([0.6, -0.8, 0.0])
    np.testing.assert_allclose(unwrap_rotation_vectors(SO3.exp(angles * axis).wxyz), angles * axis, atol=1e-9)


@pytest.mark.mocap
def test_knees_are_hinges_and_ankles_are_universal_in_captured_clips(cmu):
    clip = cmu("02_01")
    fit, numbers = fit_joints(clip, np.full(31, 5e-6))
    kinds = dict(zip(clip.skeleton.names, fit.kinds.tolist(), strict=True))
    assert kinds["LeftLeg"] == kinds["RightForeArm"] == HINGE
    assert kinds["LeftFoot"] == kinds["RThumb"] == UNIVERSAL
    assert kinds["LHipJoint"] == FIXED and kinds["LeftArm"] == BALL
    assert numbers.shape[1] == 56  # of 96 channels in the file


def test_a_joint_answers_for_what_lies_behind_a_hinge(chain):
    kinds = np.array([FREE, BALL, BALL, BALL, HINGE, UNIVERSAL, BALL, BALL, BALL, BALL, FIXED])
    points, weights, starts = build_point_table(chain.skeleton, kinds)
    l1 = dict(zip(points[starts[3] : starts[4]].tolist(), weights[starts[3] : starts[4]].tolist(), strict=True))
    assert set(l1) == {4, 5, 6} and l1[4] == 1.0 > l1[5] > l1[6]
    assert points[starts[8] : starts[9]].tolist() == [9]


def test_links_point_back_in_the_frame(chain):
    kinds = np.full(11, BALL)
    links = build_link_table(chain.skeleton, kinds)
    assert links.shape == (36, 8)
    assert all(other < i for i, row in enumerate(links) for other in row)


def test_reach_is_the_longest_way_out():
    line = Skeleton(("a", "b", "c"), np.array([-1, 0, 1]), np.array([[0, 0, 0], [0, 0.5, 0], [0.2, 0, 0]]))
    np.testing.assert_allclose(compute_reach(line, 0.03), [0.73, 0.23, 0.03])

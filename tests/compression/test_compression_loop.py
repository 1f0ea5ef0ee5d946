"""Inside the closed loop: aiming, yielding, predicting, and that the reader has what the writer had."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marey.compression import predictive
from marey.compression.joint_fit import fit_joints, right_jacobian_column
from marey.compression.pose_error import (
    build_link_table,
    compensate_rounding,
    compute_joint_error,
    compute_joint_levers,
    compute_reach,
    new_frame_state,
    position_joint,
    rotate_joint,
    solve_joint,
    solve_small,
)
from marey.compression.predictive import CapturedClip, decode_table, encode_table
from marey.compression.predictor import (
    NUM_LINKS,
    new_predictor,
    predict_number,
    prepare_features,
    reset_predictor,
    update_weights,
)
from marey.lie import SO3, right_jacobian
from marey.lie.kernels import exponential, multiply, rotate, unrotate

SHELL_M = 0.03
NO_LINKS = np.full((1, NUM_LINKS), -1, dtype=np.int64)


@pytest.fixture(scope="module")
def problem(chain):
    fit, numbers = fit_joints(chain, 1e-6 / compute_reach(chain.skeleton, SHELL_M))
    clip = CapturedClip.build(chain, fit, numbers, SHELL_M, None)
    return *clip.take(np.arange(len(numbers))), build_link_table(chain.skeleton, fit.kinds)


@pytest.fixture(scope="module")
def clip(chain):
    fit, numbers = fit_joints(chain, 1e-6 / compute_reach(chain.skeleton, SHELL_M))
    return CapturedClip.build(chain, fit, numbers, SHELL_M, None)


def posed(body, goal, t, upto):
    """The captured pose down to a joint, built from the numbers."""
    pose = new_frame_state(len(body.parents))
    pose.positions[0] = goal.numbers[t, :3]
    for j in range(upto):
        if j > 0:
            position_joint(body, pose, t, j)
        rotate_joint(body, pose, j, goal.numbers[t, body.joints.starts[j] :])
    return pose


def test_the_captured_numbers_give_the_captured_pose(problem):
    body, goal, _ = problem
    pose = posed(body, goal, 30, 11)
    assert np.abs(pose.positions - goal.positions[30]).max() < 1e-5
    assert max(compute_joint_error(body, goal, pose, 30, j) for j in range(11)) < 1e-10


@pytest.mark.parametrize("joint", [1, 3, 4, 5, 8])
def test_aiming_at_a_captured_pose_changes_nothing(problem, joint):
    body, goal, _ = problem
    pose = posed(body, goal, 20, joint)
    position_joint(body, pose, 20, joint)
    solve_joint(body, goal, pose, 20, joint)
    first, last = body.joints.starts[joint], body.joints.starts[joint + 1]
    np.testing.assert_allclose(pose.wanted[: last - first], goal.numbers[20, first:last], atol=2e-5)


@pytest.mark.parametrize("joint", [3, 7, 8])
def test_aiming_makes_up_for_a_parent_that_is_off(problem, joint):
    body, goal, _ = problem
    t, child = 20, joint + 1
    pose = posed(body, goal, t, joint)
    position_joint(body, pose, t, joint)
    pose.positions[joint] += (1e-3, -1e-3, 5e-4)
    gaps = []
    for is_aimed in (False, True):
        numbers = goal.numbers[t, body.joints.starts[joint] :].copy()
        if is_aimed:
            solve_joint(body, goal, pose, t, joint)
            numbers[:3] = pose.wanted[:3]
        rotate_joint(body, pose, joint, numbers)
        position_joint(body, pose, t, child)
        gaps.append(np.linalg.norm(pose.positions[child] - goal.positions[t, child]))
    assert gaps[1] < gaps[0]


def test_later_numbers_make_up_for_earlier_ones(problem):
    body, goal, _ = problem
    pose = posed(body, goal, 20, 3)
    position_joint(body, pose, 20, 3)
    solve_joint(body, goal, pose, 20, 3)
    best, normal = pose.wanted[:3].copy(), pose.normal[:3, :3].copy()
    error = 1e-3
    compensate_rounding(pose, 0, error, 3)
    moved = pose.wanted[:3] - best
    moved[0] = error
    assert moved @ normal @ moved < error * normal[0, 0] * error + 1e-18
    np.testing.assert_allclose(normal[1:] @ moved, 0.0, atol=1e-9 * np.abs(normal).max())


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(max_examples=25)
def test_small_systems_are_solved(seed, size):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(4, 4))
    matrix, right = root @ root.T + 0.1 * np.eye(4), rng.normal(size=4)
    first = 4 - size
    expected = np.linalg.solve(matrix[first:, first:], right[first:])
    solve_small(matrix, right, first, 4, np.zeros((4, 5)))
    np.testing.assert_allclose(right[first:], expected, rtol=1e-8)


def test_levers_are_lengths_of_bones(problem, chain):
    body, goal, _ = problem
    levers = compute_joint_levers(body, goal)
    starts = body.joints.starts
    l1 = levers[starts[7] : starts[8]]
    bone = np.linalg.norm(chain.skeleton.offsets[8])
    assert 0.5 * bone < l1.max() <= 1.001 * bone
    assert l1.min() < 0.3 * l1.max()  # twist moves less than swing
    leaf = levers[starts[2] : starts[3]]
    assert np.all(leaf <= 1.001 * SHELL_M)


@pytest.mark.parametrize("levels", [0, 1, 4])
@pytest.mark.parametrize("bound", [1e-4, 1e-2])
def test_the_reader_has_the_numbers_of_the_writer(problem, clip, levels, bound):
    body, goal, links = problem
    steps = clip.choose_steps(bound)
    coded, error = clip.code(links, steps, levels, bound)
    assert error <= bound
    back = decode_table(coded.numbers, coded.refined, links, steps, levels)
    worst = 0.0
    for t in range(len(back)):
        pose = new_frame_state(11)
        pose.positions[0] = back[t, :3]
        for j in range(11):
            if j > 0:
                position_joint(body, pose, t, j)
            rotate_joint(body, pose, j, back[t, body.joints.starts[j] :])
            worst = max(worst, compute_joint_error(body, goal, pose, t, j))
    assert np.sqrt(worst) == pytest.approx(error, rel=1e-9)


def test_a_bound_that_is_out_of_reach_is_reported(problem, clip):
    assert clip.code(problem[2], clip.choose_steps(1e-3), 0, 1e-9)[1] > 1e-9


def test_frames_coded_in_blocks_are_those_of_one_piece(problem, clip, monkeypatch):
    links, steps = problem[2], clip.choose_steps(1e-3)
    for levels in (0, 2):
        whole, error = clip.code(links, steps, levels, 1e-3)
        monkeypatch.setattr(predictive, "BLOCK_FRAMES", 7)
        parts, other = clip.code(links, steps, levels, 1e-3)
        monkeypatch.undo()
        np.testing.assert_array_equal(parts.numbers, whole.numbers)
        np.testing.assert_array_equal(parts.refined, whole.refined)
        assert other == error


@pytest.mark.parametrize("levels", [0, 3])
def test_tables_are_quantised_to_half_a_step(levels):
    values = np.random.default_rng(2).normal(size=(70, 5)).cumsum(axis=0)
    steps = np.array([0.1, 0.2, 0.01, 1.0, 3.0])
    links = np.full((5, NUM_LINKS), -1, dtype=np.int64)
    links[1, 0] = 0
    numbers, decoded = encode_table(values, links, steps, levels)
    assert np.all(np.abs(decoded - values) <= 0.5 * steps + 1e-12)
    back = decode_table(numbers, np.zeros(70, dtype=np.int64), links, steps, levels)
    assert np.array_equal(back, decoded)


def test_the_prediction_learns_a_swinging_track():
    t = np.arange(600)
    values = 100.0 * np.sin(0.31 * t)[:, None]
    numbers, _ = encode_table(values, NO_LINKS, np.ones(1), 0)
    assert np.abs(numbers[400:]).mean() < 0.1 * np.abs(numbers[2:20]).mean() + 1.5


def test_a_number_that_copies_another_costs_little():
    rng = np.random.default_rng(3)
    first = np.rint(10.0 * rng.normal(size=400).cumsum())
    values = np.stack([first, first + 7.0], axis=1)
    links = np.full((2, NUM_LINKS), -1, dtype=np.int64)
    links[1, 0] = 0
    numbers, _ = encode_table(values, links, np.ones(2), 0)
    assert np.abs(numbers[200:, 1]).mean() < 0.2 * np.abs(numbers[200:, 0]).mean()


def test_frames_between_others_are_predicted_from_both_sides():
    t = np.arange(257.0)
    cubic = (1e-4 * (t - 100.0) ** 3)[:, None]
    numbers, _ = encode_table(cubic, NO_LINKS, np.full(1, 1e-3), 4)
    inside = numbers[21:-21:2, 0]  # odd frames come last
    assert np.abs(inside).max() <= 1


def test_learning_moves_the_prediction_towards_what_came():
    predictor = new_predictor(NO_LINKS, np.ones(1))
    reset_predictor(predictor, 1, True)
    s = np.array([[0.0], [1.0], [3.0], [0.0]])
    prepare_features(predictor, s, 3, 1, True)
    before = predict_number(predictor, 0)
    predictor.surprise[0] = 4.0
    update_weights(predictor)
    prepare_features(predictor, s, 3, 1, True)
    assert before < predict_number(predictor, 0) <= before + 4.0


def test_compiled_quaternions_agree_with_rotations():
    rng = np.random.default_rng(4)
    for _ in range(20):
        a, b, v = rng.normal(size=(3, 3))
        p, q = exponential(*a), exponential(*b)
        expected = SO3.exp(a) @ SO3.exp(b)
        np.testing.assert_allclose(np.abs(np.dot(multiply(p, q), expected.wxyz)), 1.0, atol=1e-12)
        np.testing.assert_allclose(rotate(p, tuple(v)), SO3.exp(a) @ v, atol=1e-12)
        np.testing.assert_allclose(unrotate(p, rotate(p, tuple(v))), v, atol=1e-12)


@pytest.mark.parametrize("size", [0.0, 1e-5, 9e-3, 1.1e-2, 1.0, 3.0])
def test_columns_of_the_right_jacobian(size):
    v = size * np.array([0.6, -0.48, 0.64])
    columns = np.array([right_jacobian_column(*v, axis) for axis in range(3)]).T
    np.testing.assert_allclose(columns, right_jacobian(v), atol=1e-9)

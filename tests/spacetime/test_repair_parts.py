"""Parts of a repair by themselves: stretches, knots that may move, hulls, rows, contacts, curves."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import InputError
from marey.dynamics import Body, JointTree, check_validity
from marey.motion import Contacts
from marey.numerics import KnotSpline, convex_hull
from marey.samples import walk
from marey.spacetime.problem.definition import (
    build_pose_style,
    build_stillness_style,
    check_coordinate_map,
    evaluate_style,
)
from marey.spacetime.repair.programme import AngleRows, PointRows, evaluate_spline, wrench_shift_matrix
from marey.spacetime.repair.window import (
    DisplacementProblem,
    find_limb,
    find_touching_points,
    find_window,
    restrict_to_faults,
)


def test_a_foot_of_a_track_is_its_heel_and_its_toe() -> None:
    clip = walk()
    active = np.zeros((clip.num_frames, 2), dtype=bool)
    active[10:20, 0] = active[30:40, 1] = True
    flags = find_touching_points(clip, Contacts(("left_foot", "hands"), active))
    assert np.array_equal(flags["left_heel"], active[:, 0])
    assert np.array_equal(flags["left_toe"], active[:, 0])
    assert np.array_equal(flags["right_hand"], active[:, 1])
    assert "right_toe" not in flags


@pytest.mark.parametrize(("name", "limb"), [("left_heel", 0), ("right_toe", 1), ("left_hand", 2), ("right_hand", 3)])
def test_points_belong_to_limbs(name: str, limb: int) -> None:
    assert find_limb(name) == limb


def test_a_hull_has_its_corners_counter_clockwise_and_nothing_inside() -> None:
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    inside = np.array([[0.5, 0.5], [0.2, 0.7], [0.5, 0.0]])
    hull = convex_hull(np.concatenate([inside, square]))
    assert sorted(map(tuple, hull)) == sorted(map(tuple, square))
    x, y = hull.T
    assert 0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) == pytest.approx(1.0)


def test_a_wrench_moved_to_a_place_loses_the_arm_of_its_force() -> None:
    rng = np.random.default_rng(4)
    place, force, couple = rng.normal(size=(3, 3))
    wrench = np.concatenate([force, couple + np.cross(place, force)])
    np.testing.assert_allclose(wrench_shift_matrix(place) @ wrench, np.concatenate([force, couple]), atol=1e-12)


def test_curves_of_ones_are_one_and_lines_are_lines() -> None:
    spline = KnotSpline.phases([0.0, 1.0], 0.1)
    times = np.linspace(0.0, 1.0, 37)
    points = np.stack([np.ones(spline.num_coefficients), spline.greville], axis=1)
    np.testing.assert_allclose(
        evaluate_spline(spline, points, times), np.stack([np.ones(37), times], axis=1), atol=1e-12
    )


def test_a_stretch_inside_a_clip_holds_three_control_points_at_each_end() -> None:
    stretch = find_window(walk(), 1.0, 2.0, 0.1)
    assert not stretch.is_free[:3].any()
    assert not stretch.is_free[-3:].any()
    assert stretch.is_free[3:-3].all()
    control = stretch.control(stretch.times)
    assert control[0] == control[-1] == 0.0
    assert control.max() == pytest.approx(1.0)


def test_a_whole_clip_is_free_to_its_ends() -> None:
    stretch = find_window(walk(), None, None, 0.1)
    assert stretch.is_free.all()
    assert stretch.frames == slice(0, walk().num_frames)


def test_only_control_points_near_a_fault_are_free() -> None:
    stretch = find_window(walk(), None, None, 0.1)
    wrong = np.zeros(walk().num_frames, dtype=bool)
    wrong[round(2.0 * walk().rate_hz)] = True
    chosen = restrict_to_faults(stretch, wrong)
    control = chosen.control(stretch.times)
    assert control[wrong[stretch.frames]].min() == pytest.approx(1.0)
    assert not control[np.abs(stretch.times - 2.0) > 0.85].any()
    assert restrict_to_faults(stretch, ~wrong).is_free.all()


def test_rows_add_up() -> None:
    one = PointRows.from_entries([(0, (3, np.zeros(3)), np.ones(3), 0.01, "one")])
    floor = PointRows.from_entries([(1, (4, np.zeros(3)), np.ones(3), np.inf, "floor")])
    both = one + floor
    assert both.names == ("one", "floor")
    np.testing.assert_array_equal(both.lower, [[-0.01] * 3, [-np.inf, 0.0, -np.inf]])
    np.testing.assert_array_equal(both.upper, [[0.01] * 3, [np.inf] * 3])
    angles = AngleRows.from_entries([(0, 1, -1.0, 1.0, "a")]) + AngleRows.from_entries([])
    assert angles.names == ("a",)
    assert angles.instants.tolist() == [0]


def test_no_displacement_gives_back_the_clip() -> None:
    clip = walk()
    stretch = find_window(clip, 1.0, 2.0, 0.1)
    assert clip.contacts is not None
    stage = DisplacementProblem(clip, Body.from_motion(clip), clip.contacts, stretch, check_validity(clip))
    same = stage.motion(np.zeros((stretch.spline.num_coefficients, stage.tree.num_dofs)))
    assert np.abs((clip.rotations.inverse() @ same.rotations).log()).max() < 1e-9
    np.testing.assert_allclose(same.root_positions, clip.root_positions, atol=1e-12)


def test_at_no_displacement_rows_see_the_wrench_of_the_report() -> None:
    clip = walk()
    assert clip.contacts is not None
    report = check_validity(clip)
    stage = DisplacementProblem(clip, Body.from_motion(clip), clip.contacts, find_window(clip, 1.0, 2.0, 0.1), report)
    programme = stage.programme()
    wrenches = programme._rows.wrenches
    _, rows = programme.values(np.zeros(programme.num_variables))
    seen = np.einsum("ri,ri->r", wrenches.matrix, report.wrench[stage.instants[wrenches.instants]])
    np.testing.assert_allclose(rows[: seen.size], seen, atol=1e-9)


@pytest.mark.parametrize(
    "make", [lambda t: build_stillness_style(t, ["left_hip"], 0.7), lambda t: build_pose_style(t, {"root_ry": 0.4})]
)
def test_gradients_of_shipped_styles_equal_differences(make) -> None:
    tree = JointTree.fang22()
    style = make(tree)
    rng = np.random.default_rng(8)
    states = rng.normal(size=(3, 5, tree.num_dofs))
    along = rng.normal(size=states.shape)
    _, *slopes = evaluate_style(style, *states)
    high, low = (evaluate_style(style, *(states + h * along))[0] for h in (1e-6, -1e-6))
    expected = sum((slope * step).sum(axis=1) for slope, step in zip(slopes, along, strict=True))
    np.testing.assert_allclose((high - low) / 2e-6, expected, rtol=1e-6, atol=1e-8)


def test_times_outside_the_clip_leave_nothing_to_repair() -> None:
    with pytest.raises(InputError, match="choose a longer one"):
        find_window(walk(), 50.0, 60.0, 0.1)


@pytest.mark.parametrize(("value", "weight"), [(float("nan"), 1.0), (0.3, float("inf"))])
def test_a_style_of_numbers_that_are_none_is_refused(value: float, weight: float) -> None:
    with pytest.raises(InputError, match="finite"):
        build_pose_style(JointTree.fang7(), {"knee": value}, weight)


@pytest.mark.parametrize("S", [np.zeros((3, 2)), np.zeros(7), np.full((7, 1), np.nan)])
def test_a_simplified_body_must_fit_its_tree(S) -> None:
    with pytest.raises(InputError, match="S has shape"):
        check_coordinate_map(S, 7)

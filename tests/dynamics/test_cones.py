"""Contact wrench cones: against linear programmes, an independent solver and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from oracles.cones import GripSupport, RectangleSupport, compute_point_generators, project_on_cone
from scipy.optimize import linprog, nnls

from marey.base import InputError, UnknownNameError
from marey.dynamics import shift_wrench
from marey.dynamics.contact_cones import compute_friction_edges

UP = (0.0, 1.0, 0.0)


def sole(**options) -> RectangleSupport:
    return RectangleSupport.foot((0.3, 0.1, -0.2), 0.7, half_m=(0.12, 0.05), **options)


def wrench_at(support: RectangleSupport, local) -> np.ndarray:
    """World wrench of a local one: force and moment about the centre, in the axes of the support."""
    force, moment = support.axes.T @ local[:3], support.axes.T @ local[3:]
    return np.concatenate([force, moment + np.cross(support.centre, force)])[None]


@given(seed=st.integers(0, 10_000))
def test_local_wrench_undoes_the_change_to_the_world(seed):
    local = default_rng(seed).normal(size=6)
    np.testing.assert_allclose(sole().local(wrench_at(sole(), local))[0], local, atol=1e-12)


@given(seed=st.integers(0, 300))
def test_exact_twist_limits_are_those_of_a_linear_programme(seed):
    support, rng = sole(friction=0.6), default_rng(seed)
    edges = support.generators(4)
    inside = wrench_at(support, support.local((edges @ rng.uniform(0.0, 1.0, edges.shape[1]))[None])[0])
    turned = np.stack([support.local(g[None])[0] for g in edges.T], axis=1)  # (6, n)
    local = support.local(inside)[0]
    lower, upper = support.twist_range(inside)
    for sign, found in ((1.0, lower[0]), (-1.0, -upper[0])):
        answer = linprog(sign * turned[5], A_eq=turned[:5], b_eq=local[:5], bounds=(0.0, None))
        assert answer.status == 0
        assert answer.fun == pytest.approx(found, abs=1e-7)


@given(seed=st.integers(0, 500))
def test_what_the_corners_can_give_is_in_the_exact_cone(seed):
    support, rng = sole(), default_rng(seed)
    edges = support.generators(4)
    weights = rng.uniform(0.0, 1.0, edges.shape[1]) * (rng.random(edges.shape[1]) < 0.3)
    assert support.contains((edges @ weights)[None], tolerance=1e-9)[0]


@given(seed=st.integers(0, 500))
def test_membership_of_the_exact_cone_and_distance_to_its_edges_agree(seed):
    support, rng = sole(), default_rng(seed)
    wrench = wrench_at(support, rng.normal(size=6) * [0.5, 0.5, 1.0, 0.05, 0.1, 0.03] + [0, 0, 1.0, 0, 0, 0])
    distance = project_on_cone(wrench, support.generators(4), about=support.centre).distance[0]
    worst = float(support.margins(wrench, cone="square").worst[0])
    if abs(worst) > 1e-6:
        assert (distance < 1e-9) == (worst > 0.0)


@given(seed=st.integers(0, 300), count=st.integers(1, 60))
def test_distance_to_a_cone_is_that_of_an_independent_solver(seed, count):
    rng = default_rng(seed)
    edges, wanted = rng.normal(size=(6, count)), rng.normal(size=(3, 6))
    fit = project_on_cone(wanted, edges)
    for f in range(3):
        assert fit.distance[f] == pytest.approx(nnls(edges, wanted[f])[1], abs=1e-8)
    assert (fit.weights >= 0.0).all()
    np.testing.assert_allclose(fit.wrenches, fit.weights @ edges.T, atol=1e-12)


def test_distance_is_zero_inside_and_the_whole_length_in_the_polar_cone():
    edges = sole().generators(8)
    assert project_on_cone(edges.sum(axis=1)[None], edges).distance[0] < 1e-9
    pull = wrench_at(sole(), np.array([0.0, 0.0, -2.0, 0.0, 0.0, 0.0]))
    assert project_on_cone(pull, edges, about=sole().centre).distance[0] == pytest.approx(2.0)


def test_distance_of_a_weight_beside_a_sole_is_the_way_to_its_edge_for_a_long_lever():
    # with a force that cannot change (a lever so long that moments are free), half a metre beside is still near
    support = RectangleSupport.foot((0.0, 0.0, 0.0))
    beside = np.array([[0.0, 1.0, 0.0, *np.cross([0.5, 0.0, 0.0], [0.0, 1.0, 0.0])]])
    near = project_on_cone(beside, support.generators(4), lever_m=1e3).distance[0]
    assert near == pytest.approx((0.5 - 0.05) / 1e3, rel=1e-3)


def test_margins_are_zero_on_each_bound():
    support = sole(friction=0.5, twist_m=0.05, max_force_n=700.0)
    rows = {
        "friction": [50.0, 0.0, 100.0, 0.0, 0.0, 0.0],
        "tipping_x": [0.0, 0.0, 100.0, 0.0, 12.0, 0.0],
        "tipping_y": [0.0, 0.0, 100.0, -5.0, 0.0, 0.0],
        "twist": [0.0, 0.0, 100.0, 0.0, 0.0, -5.0],
        "pull": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        "peak": [0.0, 0.0, 700.0, 0.0, 0.0, 0.0],
    }
    for name, local in rows.items():
        margins = support.margins(wrench_at(support, np.array(local)))
        assert getattr(margins, name)[0] == pytest.approx(0.0, abs=1e-9), name
        assert margins.worst[0] == pytest.approx(0.0, abs=1e-9), name


def test_a_smoothed_cone_touches_the_round_one_at_zero_force_and_is_never_outside_by_more_than_epsilon():
    support = sole(friction=0.5)
    zero = support.margins(np.zeros((1, 6)), smoothing_n=7.0).friction[0]
    assert zero == pytest.approx(0.0, abs=1e-12)
    slipping = wrench_at(support, np.array([80.0, 0.0, 100.0, 0.0, 0.0, 0.0]))
    gap = support.margins(slipping, smoothing_n=7.0).friction - support.margins(slipping).friction
    assert 0.0 <= gap[0] <= 7.0


def test_cosine_cone_has_the_bound_of_the_round_one():
    support = sole(friction=0.5)
    edge = support.margins(wrench_at(support, np.array([30.0, 40.0, 100.0, 0, 0, 0])), cone="cosine")
    assert edge.friction[0] == pytest.approx(0.0, abs=1e-12)


def test_a_left_handed_rectangle_is_turned_round():
    given_axes = RectangleSupport(np.zeros(3), np.array([0.1, 0, 0]), np.array([0, 0, 0.1]), np.array(UP))
    np.testing.assert_allclose(np.linalg.det(given_axes.axes), 1.0)


def test_a_grip_holds_any_direction_up_to_its_strength():
    grip = GripSupport((0.0, 2.0, 0.0), max_force_n=3000.0, max_moment_nm=35.0)
    hanging = np.array([[0.0, 700.0, 0.0, 0.0, 0.0, 0.0]])
    force_left, moment_left = grip.margins(hanging)
    assert force_left[0] == pytest.approx(2300.0)
    assert moment_left[0] == pytest.approx(35.0)
    assert grip.margins(5.0 * hanging)[0][0] < 0.0


def test_friction_edges_lie_on_the_round_cone_and_the_square_ones_around_it():
    edges = compute_friction_edges(UP, 0.8, 8)
    np.testing.assert_allclose(np.hypot(edges[:, 0], edges[:, 2]), 0.8)
    square = compute_friction_edges(UP, 0.8, 4, square=True)
    np.testing.assert_allclose(np.abs(square[:, [0, 2]]), 0.8, atol=1e-12)


def test_generators_of_a_point_have_the_moment_of_their_force():
    wrench = compute_point_generators(np.array([[1.0, 0.0, 0.0]]), np.array([[[0.0, 2.0, 0.0]]]))
    np.testing.assert_allclose(wrench[:, 0], [0, 2, 0, 0, 0, 2])
    force, moment = shift_wrench(wrench.T, (1.0, 0.0, 0.0))
    np.testing.assert_allclose(moment, 0.0)
    np.testing.assert_allclose(force, [[0, 2, 0]])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"normal": (0.0, 2.0, 0.0)}, "unit"),
        ({"half_x": (0.1, 0.1, 0.0)}, "right angles"),
        ({"half_y": (0.0, 0.0, 0.0)}, "extent"),
        ({"friction": -0.1}, "friction"),
        ({"friction": float("nan")}, "friction"),
        ({"centre": (np.nan, 0.0, 0.0)}, "centre"),
        ({"max_force_n": -1.0}, "largest force"),
        ({"twist_m": -1.0}, "twist"),
    ],
)
def test_supports_that_are_no_rectangles_are_refused(change, says):
    fine = {"centre": (0, 0, 0), "half_x": (0.1, 0, 0), "half_y": (0, 0, 0.1), "normal": UP}
    RectangleSupport(**fine)
    with pytest.raises(InputError, match=says):
        RectangleSupport(**(fine | change))


def test_bad_options_are_refused():
    with pytest.raises(UnknownNameError):
        sole().margins(np.zeros((1, 6)), cone="oval")
    with pytest.raises(InputError):
        compute_friction_edges(UP, 0.8, 2)
    with pytest.raises(InputError):
        project_on_cone(np.full((1, 6), np.nan), sole().generators())
    with pytest.raises(InputError):
        project_on_cone(np.zeros((1, 6)), sole().generators(), lever_m=0.0)
    with pytest.raises(InputError):
        GripSupport((0, 0, 0), max_force_n=-1.0, max_moment_nm=0.0)


@pytest.mark.parametrize("options", [{"max_force_n": np.nan}, {"max_force_n": 0.0}, {"twist_m": np.nan}])
def test_supports_with_limits_that_are_no_numbers_are_refused(options):
    with pytest.raises(InputError, match="largest force"):
        sole(**options)
    with pytest.raises(InputError, match="largest moment"):
        GripSupport((0.0, 1.0, 0.0), np.nan, np.nan)


def test_a_foot_that_points_along_its_normal_is_refused():
    with pytest.raises(InputError, match="points along the normal"):
        RectangleSupport.foot((0.0, 0.0, 0.0), normal=(0.0, 0.0, 1.0))


@pytest.mark.parametrize("shape", [(6,), (2, 5), (2, 7)])
def test_wrenches_of_another_shape_are_refused(shape):
    with pytest.raises(InputError, match="wrenches has shape"):
        sole().margins(np.ones(shape))


def test_a_pyramid_about_no_direction_is_refused():
    with pytest.raises(InputError, match="length 0"):
        compute_friction_edges((0.0, 0.0, 0.0), 0.8)

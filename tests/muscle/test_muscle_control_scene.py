"""Goals for scenes: the coarser body that is solved, and the scene that follows its activations."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.muscle import load_scene, solve_scene
from marey.muscle.optimal_control.solve import PositionGoal, build_coarse_scene

WORM = """
version = 1
title = "A worm that is held at one end and bends to either side"
seconds = 1.0

[mesh]
spacing_m = 0.04

[[solid]]
kind = "rod"
points = [[0, 0, 0], [0, 0, 0.5]]
radii = [0.06]

[material]
gravity_m_s2 = 0.0
damping = [0.5, 0.01]

[[pin]]
low = [-1, -1, -1]
high = [1, 1, 0.02]

[[spline]]
name = "left"
points = [[0.035, 0, 0.02], [0.035, 0, 0.48]]

[[spline]]
name = "right"
points = [[-0.035, 0, 0.02], [-0.035, 0, 0.48]]

[[programme]]
spline = "left"
kind = "constant"
value = 1.0
"""


@pytest.fixture(scope="module")
def worm(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenes") / "worm.toml"
    path.write_text(WORM, encoding="utf-8")
    return load_scene(path)


def test_a_coarser_body_has_fewer_cells_and_is_held_alike(worm):
    fine, coarse = worm.stage().body, build_coarse_scene(worm, 150).body
    assert len(coarse.cells) < 0.6 * len(fine.cells)
    assert np.any(coarse.carriers == -2)
    assert coarse.muscles.num_splines == 2


def test_a_small_body_is_solved_as_it_is(worm):
    assert len(build_coarse_scene(worm, 10_000).body.cells) == len(worm.stage().body.cells)


def test_a_scene_bends_its_tip_to_a_place(worm):
    tip = np.array([0.0, 0.0, 0.5])
    place = tip + np.array([0.08, 0.0, -0.01])
    solved = solve_scene(worm, [(0.5, tip, place)], max_cells=150)
    assert solved.reached
    assert solved.seconds == pytest.approx(0.5)
    activations = np.array([solved(t) for t in np.linspace(0.0, 0.6, 20)])
    assert activations.shape == (20, 2)
    assert activations.min() >= 0.0 and activations.max() <= 1.0
    film = solved.film()
    node = int(np.argmin(np.linalg.norm(film.positions[0] - tip, axis=1)))
    at_goal = film.positions[int(np.argmin(np.abs(film.times - 0.5))), node]
    assert np.linalg.norm(at_goal - place) < 0.02  # the scene itself, not the coarser body
    assert solved.errors_m[0] == pytest.approx(np.linalg.norm(at_goal - place), abs=1e-9)


def test_a_goal_out_of_reach_is_not_called_reached(worm):
    solved = solve_scene(worm, [(0.3, (0.0, 0.0, 0.5), (0.0, 0.0, 1.5))], max_cells=150)
    assert not solved.reached
    assert solved.errors_m[0] > 0.5


def test_the_caller_sees_and_ends_the_search_of_a_scene(worm):
    seen = []
    goal = PositionGoal(0.2, (0.0, 0.0, 0.5), (0.3, 0.0, 0.4))
    solve_scene(worm, [goal], max_cells=150, on_iteration=lambda i, cost: bool(seen.append(cost)))
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("goals", "error", "words"),
    [
        ([], InputError, "no goal"),
        ([(0.0, (0, 0, 0.5), (0, 0, 0))], InputError, "time above zero"),
        ([("soon", (0, 0, 0.5), (0, 0, 0))], InputError, "Give a number"),
        ([(0.2, (0, 0, 0.5), (0, np.nan, 0))], InputError, "place of a goal holds nan"),
        ([(0.2, (5, 0, 0.5), (0, 0, 0))], InputError, "away from the body"),
        ([(0.2, "hand", (0, 0, 0))], UnknownNameError, "no bone 'hand'"),
    ],
)
def test_bad_goals_of_scenes_are_refused(worm, goals, error, words):
    with pytest.raises(error, match=words):
        solve_scene(worm, goals, max_cells=150)

"""The continuous engine on sketches: where feet go, what it makes, and what it says it cannot do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.footprints import find_footprints

from marey.base import InputError
from marey.contacts import slide_mm
from marey.motion import transform_motion
from marey.pipeline import synthesize_sketch
from marey.pipeline.measures import check_motion
from marey.pipeline.spacetime_engine import (
    STEP_RANGE_M,
    StraightPath,
    make_jump_problem,
    make_walk_problem,
    plan_footsteps,
)
from marey.spacetime import optimize_reduced
from marey.spacetime.reduced.assembly import choose_settings
from marey.world import Box, Event, GroundPose, Path, River, Sketch, Stone, Table, Thing, Wall, World
from marey.world.sketch import KeyPose

WALK = Sketch(
    GroundPose((1.0, 2.0), 90.0), GroundPose((3.6, 2.0)), Path(np.array([[1.0, 2.0], [3.6, 2.0]])), corridor_m=0.6
)
AHEAD = Sketch(GroundPose((0.0, 0.0)), GroundPose((0.0, 6.0)))


def river(at: float, width: float) -> River:
    return River((-3.0, at), (3.0, at), width)


def test_steps_are_even_on_dry_land():
    places = plan_footsteps(StraightPath.from_sketch(AHEAD), World())
    np.testing.assert_allclose(np.diff(places), 0.6, atol=0.021)
    assert (places[0], places[-1], len(places) % 2) == (0.0, 6.0, 1)


@pytest.mark.parametrize("width", [0.1, 0.3, 0.5])
def test_no_foot_is_put_into_a_river_and_no_step_is_too_long(width):
    places = plan_footsteps(StraightPath.from_sketch(AHEAD), World(rivers=(river(2.4, width), river(4.8, width))))
    steps = np.diff(places)
    assert STEP_RANGE_M[0] <= steps.min() and steps.max() <= STEP_RANGE_M[1]
    for place in places:
        assert min(abs(place - 2.4), abs(place - 4.8)) >= 0.5 * width + 0.12


def test_a_foot_stands_on_one_stone():
    world = World(rivers=(river(3.0, 2.0),), stones=tuple(Stone((0.0, z), 0.25) for z in (2.4, 3.0, 3.6)))
    places = plan_footsteps(StraightPath.from_sketch(AHEAD), world)
    wet = [place for place in places if 2.0 < place < 4.0]
    assert len(wet) >= 2
    for place in wet:
        assert min(abs(place - z) for z in (2.4, 3.0, 3.6)) < 0.13


def test_a_river_too_wide_for_a_step_is_told():
    with pytest.raises(InputError, match="keep out of the water"):
        plan_footsteps(StraightPath.from_sketch(AHEAD), World(rivers=(river(3.0, 1.0),)))


@pytest.mark.parametrize(
    ("sketch", "words"),
    [
        (replace(AHEAD, events=(Event("stop", at=(0.0, 2.0)),)), "a stop event"),
        (
            replace(
                AHEAD,
                events=(Event("pick", object="cup"),),
                world=World(objects=(Thing("cup", (0.2, 0.8, 3.0)),)),
            ),
            "a pick event",
        ),
        (replace(AHEAD, key_poses=(KeyPose(0.0, "walk", 3),)), "key poses"),
        (replace(AHEAD, goal=GroundPose((0.0, 30.0))), "30.0 m"),
        (replace(AHEAD, goal=GroundPose((0.0, 0.05))), "same place"),
        (replace(AHEAD, events=(Event("jump", at=(0.0, 1.0)), Event("jump", at=(0.0, 3.0)))), "several jumps"),
        (replace(AHEAD, path=Path(np.array([[0.0, 0.0], [1.0, 3.0], [0.0, 6.0]]))), "deviates 1.00 m"),
        (replace(AHEAD, events=(Event("pass", at=(1.0, 3.0)),)), "deviates 1.00 m"),
        (replace(AHEAD, world=World(walls=(Wall((-1.0, 3.0), (1.0, 3.0)),))), "wall 1 is in the way"),
        (replace(AHEAD, world=World(tables=(Table((0.5, 3.0)),))), "table 1 is in the way"),
        (replace(AHEAD, world=World(boxes=(Box((0.0, 3.0), heading_deg=45.0),))), "box 1 is in the way"),
        (replace(AHEAD, world=World(stones=(Stone((0.0, 3.0), height_m=0.1),))), "level ground"),
        (replace(AHEAD, start=GroundPose((0.0, 0.0), 90.0)), "the start faces"),
        (replace(AHEAD, goal=GroundPose((0.0, 6.0), 180.0)), "the goal faces"),
        (replace(AHEAD, speed_mps=3.0), "3.00 m/s"),
        (replace(AHEAD, goal=GroundPose((0.0, 3.0)), events=(Event("jump", at=(0.0, 1.0)),)), "a jump of 3.00 m"),
        (replace(AHEAD, events=(Event("jump", at=(0.0, 1.0), length_m=1.0),)), "from stand to stand"),
        (
            replace(AHEAD, goal=GroundPose((0.0, 1.0)), events=(Event("jump", at=(0.0, 0.5), height_m=2.0),)),
            "a rise of",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_it_cannot_do_is_said_in_words(sketch, words):
    with pytest.raises(InputError, match=words):
        synthesize_sketch(sketch, "spacetime")


def test_an_unknown_option_is_told():
    with pytest.raises(InputError, match="style"):
        synthesize_sketch(AHEAD, "spacetime", style="sad")


def test_speed_and_turns_become_times_and_angles():
    slow = make_walk_problem(replace(AHEAD, speed_mps=1.0), StraightPath.from_sketch(AHEAD))
    assert slow.duration_s == pytest.approx(6.0 / 1.0, rel=0.15)
    turned = replace(AHEAD, start=GroundPose((0.0, 0.0), 0.0), goal=GroundPose((0.0, 1.0), 90.0))
    problem = make_jump_problem(turned, StraightPath.from_sketch(turned), Event("jump", at=(0.0, 0.5), height_m=0.3))
    assert problem.basis == "turn.safetensors"
    assert problem.phases[1].duration_s == pytest.approx(2.0 * np.sqrt(0.6 / 9.81), abs=1e-3)
    assert problem.phases[2].contacts[0].heading_deg == pytest.approx(90.0)


@pytest.fixture(scope="module")
def walked():
    return synthesize_sketch(WALK, "spacetime")


def test_a_walk_keeps_to_its_sketch_and_to_the_laws_of_motion(walked):
    assert (walked.status, walked.engine) == ("SOLVED", "spacetime")
    assert slide_mm(walked.motion).max() <= 2.0 and walked.errors.penetration_mm <= 5.0
    assert walked.errors.off_corridor_m == 0.0 and walked.errors.goal_m < 0.2
    assert walked.validity.red_fraction == 0.0
    np.testing.assert_allclose(walked.motion.root_positions[0, [0, 2]], [1.0, 2.0], atol=0.05)
    assert "spacetime" in walked.sentence


def test_feet_of_an_optimised_walk_do_not_scrape(walked):
    assert walked.errors.scraped_m <= 0.03 * walked.errors.way_m  # captured walks: 1.4 to 2.4 m in 10 m
    assert not walked.errors.faults and not walked.broken


def test_feet_without_clearance_scrape_and_break_the_sketch():
    """3.7 m over a way of 2.6 m: swinging soles pass less than 8 mm over the floor."""
    problem = make_walk_problem(WALK, StraightPath.from_sketch(WALK))
    found = optimize_reduced(problem, settings=replace(choose_settings(problem), swing=None))
    there = transform_motion(found.motion, np.pi / 2.0, np.zeros(3), np.array([1.0, 0.0, 2.0]))
    check = check_motion(there, WALK)
    assert check.scraped_m > check.way_m
    assert any("scrape" in text for text in check.broken)


def test_its_steps_are_those_that_were_planned(walked):
    balls = find_footprints(walked.motion)[:, [0, 2]]
    np.testing.assert_allclose(np.abs(np.diff(balls[:, 0])), 2.6 / 4, atol=0.03)
    assert np.abs(balls[:, 1] - 2.0).max() < 0.15


def test_time_that_is_too_short_is_an_answer(monkeypatch):
    result = synthesize_sketch(WALK, "spacetime", budget_s=0.05)
    assert result.motion is None and result.advice
    assert result.status != "SOLVED"

"""Footsteps move by a few centimetres so that a pick is where its object is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.contacts import slide_mm
from marey.graph import MotionGraph, SearchResult, rebuild_for_sketch
from marey.graph.arrays import PICK_LEFT, PICK_RIGHT, compose_planar
from marey.graph.paths import PathStep
from marey.graph.reconstruction.motion import MAX_FOOTSTEP_SHIFT_M, PickTarget, hand_and_root, refine_footsteps
from marey.world import Event, GroundPose, Sketch, Thing, World

pytestmark = pytest.mark.mocap


@pytest.fixture(scope="module")
def way(picking: MotionGraph) -> SearchResult:
    """A walk of twelve edges back from a pick, and six on."""
    arrays, rng = picking.arrays, np.random.default_rng(3)
    source = np.repeat(np.arange(picking.num_states), np.diff(arrays.first))
    pick = int(np.flatnonzero(np.isin(arrays.event, (PICK_LEFT, PICK_RIGHT)))[0])
    edges, at = list[int](), pick
    for _ in range(12):
        into = np.flatnonzero(arrays.target == at)
        edges.insert(0, int(rng.choice(into)))
        at = int(source[edges[0]])
    for _ in range(6):
        node = int(arrays.target[edges[-1]])
        edges.append(int(arrays.first[node]))
    place, steps, places = np.array([0.0, 0.0, 0.2]), list[PathStep](), list[np.ndarray]()
    for edge in edges:
        steps.append(PathStep(edge, edge, 1.0, place))
        places.append(place)
        place = compose_planar(place, arrays.delta[edge])
    return SearchResult("BOUNDED", tuple(steps), np.array([*places, place]), at, met=(11, 17))


def test_the_hand_comes_over_its_object(picking, way):
    hand, _ = hand_and_root(picking, way, 11)
    aim = PickTarget(hand + np.array([0.015, 0.04, -0.02]))
    moved = refine_footsteps(picking, way, {11: aim})
    there, _ = hand_and_root(picking, moved, 11)
    assert np.abs(there - aim.hand)[[0, 2]].max() < 1e-9
    assert there[1] == hand[1]  # heights are for the arm
    apart = np.linalg.norm((moved.places - way.places)[:, :2], axis=1)
    assert apart.max() <= 0.0251
    assert apart[0] == 0.0 and apart[-1] < 1e-12
    assert all(np.array_equal(step.place, moved.places[n]) for n, step in enumerate(moved.steps))


def test_no_footstep_moves_far(picking, way):
    hand, _ = hand_and_root(picking, way, 11)
    moved = refine_footsteps(picking, way, {11: PickTarget(hand + np.array([0.3, 0.0, 0.3]))})
    apart = np.linalg.norm((moved.places - way.places)[:, :2], axis=1)
    assert 0.5 * MAX_FOOTSTEP_SHIFT_M < apart.max() <= MAX_FOOTSTEP_SHIFT_M + 1e-9


def test_a_pinned_root_and_the_hand_share_what_is_missing(picking, way):
    hand, root = hand_and_root(picking, way, 11)
    along = (hand[[0, 2]] - root) / np.linalg.norm(hand[[0, 2]] - root)
    side = np.array([-along[1], along[0]])
    aim = PickTarget(hand + np.array([0.01, 0.0, 0.0]), root + np.array([0.01, 0.0]) - 0.02 * along + 0.015 * side)
    moved = refine_footsteps(picking, way, {11: aim})
    there, stands = hand_and_root(picking, moved, 11)
    assert np.linalg.norm(there[[0, 2]] - aim.hand[[0, 2]]) == pytest.approx(0.01, abs=2e-3)
    assert np.linalg.norm(stands - aim.root) == pytest.approx(0.01, abs=2e-3)


def test_safonova_a22_moved_feet_stand_still_and_the_hand_is_there(picking, way):
    hand, _ = hand_and_root(picking, way, 11)
    x, y, z = (float(v) for v in hand + np.array([0.02, 0.01, 0.02]))
    sketch = Sketch(
        GroundPose((0.0, 0.0)), GroundPose((0.0, 3.0)), events=(Event("pick", object="cup"),),
        world=World(objects=(Thing("cup", (x, y, z)),)),
    )  # fmt: skip
    motion, error = rebuild_for_sketch(picking, way, sketch, rate_hz=60.0)
    assert error[0] < 1e-3
    active = motion.contacts.active
    assert slide_mm(motion).max() <= 2.0
    raw = rebuild_for_sketch(picking, way, sketch, rate_hz=60.0, refine=False)[0]
    assert active[:, :4].mean() > raw.contacts.active[:, :4].mean() - 0.03  # as much on the ground as before


def test_a_way_that_meets_its_object_stays(picking, way):
    hand, _ = hand_and_root(picking, way, 11)
    same = refine_footsteps(picking, replace(way), {11: PickTarget(hand)})
    assert np.abs(same.places - way.places).max() < 1e-12

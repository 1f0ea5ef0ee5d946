"""The hand of a rebuilt pick is where its object is."""

from __future__ import annotations

import numpy as np
import pytest

from marey.contacts import slide_mm
from marey.graph import MotionGraph, SearchResult, rebuild_for_sketch
from marey.graph.arrays import PICK_LEFT, PICK_RIGHT, compose_planar
from marey.graph.paths import PathStep
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


def test_safonova_a22_feet_stand_still_and_the_hand_is_there(picking, way):
    local = picking.arrays.hand[picking.arrays.target[way.steps[11].edge]]
    at = compose_planar(way.places[12], np.array([local[0], local[2], 0.0]))
    hand = np.array([at[0], local[1], at[1]])
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

"""Ways through a graph become motions: feet stay, events have their frame, nothing jumps."""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
import pytest

from marey.base import InputError
from marey.contacts import slide_mm
from marey.graph import MotionGraph, SearchResult, rebuild_for_sketch, rebuild_motion
from marey.graph.arrays import PICK_LEFT, PICK_RIGHT, compose_planar
from marey.graph.paths import PathStep
from marey.graph.reconstruction.motion import rebuild_events
from marey.graph.reconstruction.track import REST_S, SETTLE_S
from marey.io import load, save
from marey.measure import measure_motion
from marey.motion import Motion, contact_positions, headings
from marey.skeleton import contact_points
from marey.world import Event, GroundPose, River, Sketch, Thing, World

pytestmark = pytest.mark.mocap


def cheapest(graph: MotionGraph, start: int, goals: set[int]) -> list[int]:
    """Edges of the cheapest way to any of some states, by a search of its own."""
    arrays, best, back, heap = graph.arrays, {start: 0.0}, dict[int, tuple[int, int]](), [(0.0, start)]
    while heap:
        cost, node = heapq.heappop(heap)
        if cost > best[node]:
            continue
        if node in goals and node != start:
            edges: list[int] = []
            while node != start:
                node, edge = back[node]
                edges.append(edge)
            return edges[::-1]
        for edge in range(arrays.first[node], arrays.first[node + 1]):
            target, total = int(arrays.target[edge]), cost + float(arrays.cost[edge])
            if total < best.get(target, np.inf):
                best[target], back[target] = total, (node, edge)
                heapq.heappush(heap, (total, target))
    raise AssertionError("no way")


def as_way(graph: MotionGraph, edges: list[int], met: tuple[int, ...] = (), **changes: object) -> SearchResult:
    """A search result that takes these edges from (1, 2), heading 0.5 rad; ``changes`` are those of every step."""
    place, steps, places = np.array([1.0, 2.0, 0.5]), list[PathStep](), list[np.ndarray]()
    for edge in edges:
        steps.append(replace(PathStep(edge, edge, 1.0, place), **changes))
        places.append(place)
        place = compose_planar(place, graph.arrays.delta[edge])
    start = int(np.searchsorted(graph.arrays.first, edges[0], side="right")) - 1
    return SearchResult("BOUNDED", tuple(steps), np.array([*places, place]), start, met=met)


@pytest.fixture(scope="module")
def way(picking: MotionGraph) -> SearchResult:
    """From a stand to the farthest pick and on to a stand."""
    arrays = picking.arrays
    stands = np.flatnonzero(arrays.is_standing)
    picks = np.flatnonzero((arrays.event == PICK_LEFT) | (arrays.event == PICK_RIGHT))
    ways = [cheapest(picking, int(s), set(picks.tolist())) for s in stands]
    there = max(ways, key=len)
    back = cheapest(picking, int(arrays.target[there[-1]]), set(stands.tolist()))
    return as_way(picking, there + back, met=(len(there) - 1, len(there) + len(back) - 1))


def hand_of(graph: MotionGraph, way: SearchResult) -> tuple[str, np.ndarray]:
    """Hand of the pick and where the graph says it is."""
    step = way.met[0]
    state = int(graph.arrays.target[way.steps[step].edge])
    x, y, z = graph.arrays.hand[state]
    at = compose_planar(way.places[step + 1], np.array([x, z, 0.0]))
    return "left_hand" if graph.arrays.event[state] == PICK_LEFT else "right_hand", np.array([at[0], y, at[1]])


def point(motion: Motion, name: str, frame: int) -> np.ndarray:
    return contact_positions(motion)[frame, contact_points(motion.skeleton).index(name)]


@pytest.mark.parametrize("rate_hz", [30.0, 60.0, 47.3])
def test_planted_feet_stay_and_no_sole_sinks(picking, way, rate_hz):
    motion = rebuild_motion(picking, way, rate_hz=rate_hz)
    points, active = contact_positions(motion), motion.contacts.active
    held = active[1:] & active[:-1]
    assert held[:, :4].sum() > motion.num_frames  # feet do touch
    assert slide_mm(motion).max() <= 2.0
    assert points[:, :4, 1].min() > -0.005


@pytest.mark.parametrize("rate_hz", [30.0, 60.0, 47.3])
def test_safonova_a22_the_event_has_a_frame_and_the_hand_is_there(picking, way, rate_hz):
    motion, frames = rebuild_events(picking, way, rate_hz=rate_hz)
    hand, goal = hand_of(picking, way)
    assert np.linalg.norm(point(motion, hand, frames[0]) - goal) < 1e-3
    seconds = picking.arrays.seconds[list(way.edges)]
    assert frames[0] / rate_hz == pytest.approx(seconds[: way.met[0] + 1].sum(), abs=0.51 / rate_hz)
    assert frames[-1] / rate_hz == pytest.approx(seconds.sum(), abs=0.51 / rate_hz)
    assert seconds.sum() + REST_S - 0.51 / rate_hz <= motion.duration_s
    assert motion.duration_s <= seconds.sum() + SETTLE_S + REST_S + 0.51 / rate_hz


@pytest.fixture(scope="module")
def beside_hand(picking, way):
    """The motion as searched and as refined for a thing beside the hand; and how far the hand is off in both."""
    _, goal = hand_of(picking, way)
    thing = goal + np.array([0.02, 0.03, -0.02])
    sketch = Sketch(
        GroundPose((0.0, 0.0)), GroundPose((0.0, 3.0)), events=(Event("pick", object="cup"),),
        world=World(objects=(Thing("cup", tuple(thing)),)),
    )  # fmt: skip
    return (*rebuild_for_sketch(picking, way, sketch, refine=False), *rebuild_for_sketch(picking, way, sketch))


def test_safonova_a22_a_thing_beside_the_hand_is_reached_to_a_millimetre(beside_hand):
    _, before, _, after = beside_hand
    assert before[0] == pytest.approx(np.linalg.norm([0.02, 0.03, 0.02]), abs=1e-3)
    assert after[0] < 1e-3


@pytest.mark.xfail(strict=True, reason="a foot in the air follows the lean: 38 mm from the searched motion")
def test_safonova_a22_a_thing_beside_the_hand_moves_feet_by_two_centimetres(beside_hand):
    raw, _, motion, _ = beside_hand
    feet = [contact_points(motion.skeleton).index(f"{side}_toe") for side in ("left", "right")]
    apart = np.abs(contact_positions(motion)[:, feet] - contact_positions(raw)[:, feet])
    assert 0.015 < apart.max() < 0.025  # footsteps bring two centimetres, arm and spine the rest


@pytest.fixture(scope="module")
def beside_river(picking, way):
    """The motion as searched and as refined, beside a river; and how far its hand is off."""
    cup = Thing("cup", tuple(hand_of(picking, way)[1] + np.array([0.02, 0.03, -0.02])))
    world = World(objects=(cup,), rivers=(River((8.0, 0.0), (8.0, 1.0), 0.3),))
    sketch = Sketch(GroundPose((0.0, 0.0)), GroundPose((0.0, 3.0)), events=(Event("pick", object="cup"),), world=world)
    return rebuild_for_sketch(picking, way, sketch, refine=False)[0], *rebuild_for_sketch(picking, way, sketch)


def test_by_a_river_who_tips_leans(beside_river):
    raw, still, there = beside_river
    assert there[0] < 1e-3
    assert np.abs(still.root_positions - raw.root_positions).max() < 0.1


def test_by_a_river_no_plant_moves(beside_river):
    raw, still, _ = beside_river
    feet = [contact_points(raw.skeleton).index(f"{side}_toe") for side in ("left", "right")]
    away = np.linalg.norm(contact_positions(still)[:, feet] - contact_positions(raw)[:, feet], axis=-1)
    assert away[raw.contacts.active[:, feet] & still.contacts.active[:, feet]].max() < 2e-3


@pytest.mark.xfail(strict=True, reason="9.6 mm in the air: feet are held anew after the lean")
def test_by_a_river_no_foot_moves_in_any_frame(beside_river):
    raw, still, _ = beside_river
    feet = [contact_points(raw.skeleton).index(f"{side}_toe") for side in ("left", "right")]
    assert np.abs(contact_positions(still)[:, feet] - contact_positions(raw)[:, feet]).max() < 1e-9


def test_safonova_a23_the_root_stays_by_the_places_that_the_search_tested(picking, way):
    motion = rebuild_motion(picking, way, rate_hz=60.0)
    tested = np.concatenate([
        compose_planar(step.place, np.concatenate([path, np.zeros((len(path), 1))], axis=1))[:, :2]
        for step, path in zip(way.steps, picking.arrays.path[list(way.edges)], strict=True)
    ])  # fmt: skip
    apart = np.linalg.norm(motion.root_positions[:, None, [0, 2]] - tested[None], axis=-1).min(axis=1)
    assert apart.max() < 0.05  # corridors are searched 4 cm narrower, and violations up to 1 cm are allowed


def test_no_joint_jumps_between_stretches(picking, way):
    motion = rebuild_motion(picking, way)
    turns = np.linalg.norm((motion.rotations[:-1].inverse() @ motion.rotations[1:]).log(), axis=-1)
    own = picking.database
    same = own.clip[1:] == own.clip[:-1]
    wxyz = type(motion.rotations)(own.wxyz)
    usual = np.linalg.norm((wxyz[:-1].inverse() @ wxyz[1:]).log(), axis=-1)[same]
    assert turns.max() < 1.3 * usual.max()
    steps = np.linalg.norm(np.diff(motion.root_positions, axis=0), axis=1)
    assert steps.max() < 1.3 * np.linalg.norm(np.diff(own.roots, axis=0), axis=1)[same].max()


def test_a_hold_comes_to_rest_and_goes_on(picking, way):
    plain, frames = rebuild_events(picking, way)
    last = len(way.steps) - 1
    steps = (*way.steps[:last], replace(way.steps[last], hold_s=1.5))
    held = rebuild_motion(picking, replace(way, steps=steps))
    assert held.num_frames == plain.num_frames + 45
    rest = held.root_positions[frames[-1] + 15 : frames[-1] + 36]
    assert np.abs(np.diff(rest, axis=0)).max() < 1e-3


def test_a_way_ends_at_rest(picking, way):
    motion = rebuild_motion(picking, way, rate_hz=60.0)
    speed = np.linalg.norm(np.diff(motion.root_positions, axis=0), axis=1) * 60.0
    assert speed[-1] < 0.01 < speed.max()
    turning = np.linalg.norm((motion.rotations[-2].inverse() @ motion.rotations[-1]).log(), axis=-1) * 60.0
    assert turning.max() < 0.1


def test_stretches_of_a_step_are_shown_in_place_of_the_edge(picking, way):
    steps = tuple(replace(s, stretches=tuple(picking.stretches(s.edge))) for s in way.steps)
    same = rebuild_motion(picking, replace(way, steps=steps))
    assert np.array_equal(same.root_positions, rebuild_motion(picking, way).root_positions)


def test_feet_stay_and_joints_move_as_before_where_steps_are_warped(picking, way):
    arrays, place, steps, places = picking.arrays, way.places[0], list[PathStep](), list[np.ndarray]()
    planted = np.isfinite(arrays.feet[arrays.source, :, 0]).sum(axis=1)
    for step in way.steps:
        warp = (0.0, 0.05, 0.35) if planted[step.edge] == 1 else (0.0, 0.0, 0.0)
        steps.append(replace(step, place=place, warp=warp))
        places.append(place)
        place = compose_planar(compose_planar(place, np.array(warp)), arrays.delta[step.edge])
    turned = replace(way, steps=tuple(steps), places=np.array([*places, place]))
    plain, motion = (rebuild_motion(picking, each, rate_hz=60.0) for each in (way, turned))
    assert slide_mm(motion).max() <= 2.0
    assert contact_positions(motion)[:, :4, 1].min() > -0.005
    # The body has turned by all turns, and no joint by leaps
    yaw = [np.unwrap(headings(each))[-1] for each in (plain, motion)]
    assert sum(step.is_warped for step in steps) >= 5
    assert yaw[1] - yaw[0] == pytest.approx(sum(step.warp[2] for step in steps), abs=0.05)
    own, other = (measure_motion(each)["joint_acceleration_p99_deg_per_s2"] for each in (motion, plain))
    assert own <= 1.3 * other


def test_an_edge_blended_with_itself_is_itself(picking, way):
    from marey.graph.reconstruction.track import _blend_edges, step_track

    for step in way.steps[:4]:
        alone = step_track(picking, step)
        both = _blend_edges(picking, alone, alone, replace(step, weight=0.4))
        assert both.seconds == pytest.approx(alone.seconds, abs=1e-12)
        assert np.abs(both.roots[[0, -1]] - alone.roots[[0, -1]]).max() < 2e-3
        assert np.abs(both.plants - both.plants[0])[~np.isnan(both.plants)].max(initial=0.0) == 0.0


def test_blended_steps_last_as_the_square_root_rule_says_and_feet_stay(picking, way):
    arrays, steps, place = picking.arrays, list[PathStep](), way.places[0]
    for step in way.steps:
        node = int(np.searchsorted(arrays.first, step.edge, side="right")) - 1
        others = np.arange(arrays.first[node], arrays.first[node + 1])
        alike = others[arrays.kind[arrays.target[others]] == arrays.kind[arrays.target[step.edge]]]
        steps.append(PathStep(step.edge, int(alike[-1]), 0.6, place))
        mixed = 0.6 * arrays.delta[step.edge] + 0.4 * arrays.delta[alike[-1]]
        place = compose_planar(place, mixed)
    assert any(step.is_blended for step in steps)
    places = np.array([*(s.place for s in steps), place])
    motion, frames = rebuild_events(picking, replace(way, steps=tuple(steps), places=places), rate_hz=60.0)
    T = [np.sqrt(0.6 * arrays.seconds[s.edge] ** 2 + 0.4 * arrays.seconds[s.other] ** 2) for s in steps]
    assert frames[-1] / 60.0 == pytest.approx(sum(T), abs=1.01 / 60.0)
    assert slide_mm(motion).max() <= 2.0


@pytest.mark.parametrize("suffix", [".safetensors", ".glb"])
def test_safonova_a50_a_rebuilt_motion_survives_its_file(picking, way, tmp_path, suffix):
    motion = rebuild_motion(picking, way)
    save(motion, tmp_path / f"way{suffix}")
    again = load(tmp_path / f"way{suffix}")
    assert np.abs(again.joint_positions() - motion.joint_positions()).max() < 1e-4
    assert again.contacts is not None
    assert np.array_equal(again.contacts.active, motion.contacts.active)


def test_no_way_and_no_rate_are_told(picking, way):
    with pytest.raises(InputError, match="EXHAUSTED"):
        rebuild_motion(picking, SearchResult("EXHAUSTED", advice="add clips"))
    with pytest.raises(InputError, match="rate_hz"):
        rebuild_motion(picking, way, rate_hz=0.0)

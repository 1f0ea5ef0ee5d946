"""Pairs of like poses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.base import InputError
from marey.graph.construction.build import event_phases, rescue_events
from marey.graph.database.neighbours import PoseGroup, find_low_pairs, list_pairs_within
from marey.graph.database.pose_metric import LEE_ROLES, PoseMetric, compute_lee_features, squared_distances
from marey.graph.database.settings import GraphSettings
from marey.graph.database.transitions import (
    Transitions,
    _smallest_in_groups,
    calibrate_threshold,
    find_transitions,
    has_successor,
    pose_behaviours,
)
from marey.lie import SO3
from marey.skeleton import role_map


class PlainMetric:
    """Squared distances of rows, of which the first columns are compared first."""

    def __init__(self, rows):
        self.rows, self.coordinates = rows, rows[:, :4]

    def of_pairs(self, first, second):
        return ((self.rows[first] - self.rows[second]) ** 2).sum(axis=1)


def find_low(rows, *, apart=0, clips=1, behaviours=1, limits=1e9):
    """Low places of poses of some clips and behaviours, as in a build."""
    count = len(rows)
    group = PoseGroup(np.arange(count), np.arange(count) * clips // count, np.arange(count) // 7 % behaviours)
    limits = np.broadcast_to(np.array(limits), (behaviours, behaviours))
    return find_low_pairs(PlainMetric(rows), group, apart, limits)


def test_a_valley_keeps_its_lowest_place():
    places = np.array([0.0, 5.0, 3.0, 1.0, 2.0, 4.0, 3.0, 2.5, 6.0, 7.0])
    low = find_low(np.pad(places[:, None], ((0, 0), (0, 3))), apart=1)
    assert low.column[low.row == 0].tolist() == [3, 7]


def test_places_that_are_no_pairs_are_never_lowest():
    low = find_low(np.zeros((6, 4)), apart=9)
    assert not len(low.row)
    assert low.num_like == 0


@pytest.mark.parametrize("limit", [0.0, 0.5, 3.0, 1e9])
def test_low_places_are_those_of_the_definition(limit):
    """Paths of three clips through eight dimensions, of three behaviours; one pair of these is not looked for."""
    rng = np.random.default_rng(4)
    rows, apart = np.cumsum(rng.normal(0.0, 0.2, (400, 8)), axis=0) % 3.0, 4
    limits = limit * np.array([[1.0, 3.0, 3.0], [0.0, 1.0, 3.0], [3.0, 3.0, 1.0]])
    found = find_low(rows, apart=apart, clips=3, behaviours=3, limits=limits)
    # The same by whole arrays
    pose, behaviour = np.arange(400), np.arange(400) // 7 % 3
    clip = pose * 3 // 400
    D = ((rows[:, None] - rows) ** 2).sum(axis=-1)
    D[(np.abs(pose[:, None] - pose) < apart) & (clip[:, None] == clip)] = np.inf
    like = limits[behaviour[:, None], behaviour] > D
    padded = np.pad(D, ((0, 0), (2, 2)), constant_values=np.inf)
    low = like.copy()
    for step in (1, 2):
        low &= (padded[:, 2 - step : 402 - step] >= D) & (padded[:, 2 + step : 402 + step] > D)
    assert found.num_like == like.sum()
    assert (found.row * 400 + found.column).tolist() == np.flatnonzero(low).tolist()
    assert (found.distance == D[low]).all()


def test_nearest_of_each_group_in_their_old_order():
    group, value = np.array([0, 1, 0, 0, 1]), np.array([3.0, 1.0, 2.0, 1.0, 5.0])
    assert _smallest_in_groups(group, value, 2).tolist() == [1, 2, 3, 4]
    assert _smallest_in_groups(group, value, 1).tolist() == [1, 3]


def test_the_chance_of_a_transition_falls_with_its_distance():
    made = Transitions(np.arange(3), np.arange(3), np.array([0.0, 1.0, 2.0]), 1.0)
    assert made.probability[0] == 1.0
    assert made.probability[1] == pytest.approx(np.exp(-1.0))
    assert (np.diff(made.probability) < 0.0).all()


@pytest.mark.mocap
def test_transitions_keep_class_threshold_and_number(picking):
    database, found, settings = picking.database, picking.transitions, picking.settings
    kind = database.phases.kind[database.phase]
    assert (kind[found.source] == kind[found.target]).all()
    assert has_successor(database)[found.source].all()
    assert has_successor(database)[found.target - 1].all()
    assert np.bincount(found.source).max() <= 2 * settings.links + 3 * settings.cross_links
    apart = np.abs(found.source - (found.target - 1)) >= round(settings.min_apart_s * database.rate_hz)
    assert (apart | (database.clip[found.source] != database.clip[found.target])).all()
    assert found.num_like > len(found.source)


@pytest.mark.mocap
def test_features_give_the_distance_of_their_source_after_correction(picking):
    """Exact angles between joints, against logarithms taken pair by pair."""
    database = picking.database
    settings = replace(picking.settings, foot_weight=0.0, velocity_weight=0.0)
    metric = PoseMetric(database, settings)
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, database.num_poses, (2, 60))
    features = compute_lee_features(database, settings)
    D = np.array([squared_distances(features[[i]], features[[j]])[0, 0] for i, j in zip(a, b, strict=True)])
    exact = metric.exact(a, b, D)
    roles = role_map(database.body.skeleton)
    joints = [roles[name] for name in LEE_ROLES if name in roles]
    angles = (SO3(database.wxyz[b][:, joints]).inverse() @ SO3(database.wxyz[a][:, joints])).log()
    rest = D - exact + (angles**2).sum(axis=(1, 2))
    columns = squared_distances(features[:, :4], features[:, :4])[a, b]  # height and tilt of the root
    np.testing.assert_allclose(exact, columns + (angles**2).sum(axis=(1, 2)), atol=1e-9)
    assert np.isfinite(rest).all()


@pytest.mark.mocap
@pytest.mark.parametrize(("name", "share"), [("lee2002", 0.6), ("kovar2002", 0.2)])
def test_pairs_have_the_distances_of_tables_and_coordinates_are_no_farther(picking, name, share):
    metric = PoseMetric(picking.database, replace(picking.settings, metric=name))
    rows, columns = np.arange(0, picking.database.num_poses, 9), np.arange(3, picking.database.num_poses, 7)
    a, b = (one.ravel() for one in np.meshgrid(rows, columns, indexing="ij"))
    D = metric.of_pairs(a, b)
    assert (metric.between(rows, columns).ravel() == D).all()
    least = ((metric.coordinates[a] - metric.coordinates[b]) ** 2).sum(axis=1)
    assert (least <= D + 1e-9).all()
    assert np.median(least / np.maximum(D, 1e-12)) > share


@pytest.mark.mocap
def test_the_threshold_gives_the_density_asked_for(picking):
    database, settings = picking.database, picking.settings
    metric = PoseMetric(database, settings)
    assert calibrate_threshold(database, replace(settings, density=6.0), metric) < calibrate_threshold(
        database, settings, metric
    )


@pytest.mark.mocap
def test_stopping_is_a_behaviour_of_its_own(picking):
    numbers = pose_behaviours(picking.database)
    assert numbers.max() + 1 > len(set(picking.database.behaviours))


@pytest.mark.mocap
def test_no_pick_is_lost(picking):
    """All six picks of the clips can be reached and left."""
    database = picking.database
    inside = np.concatenate(picking.members)
    events = event_phases(database)
    assert len(events) == 6
    assert np.isin(events, inside).all()


@pytest.mark.mocap
def test_a_lost_event_is_joined_by_the_nearest_poses(picking):
    database, settings = picking.database, picking.settings
    metric = PoseMetric(database, settings)
    found = picking.transitions
    lost = event_phases(database)[0]
    clip = database.clip[database.phases.start[lost]]
    other = (database.clip[found.source] != clip) & (database.clip[found.target] != clip)
    alone = Transitions(found.source[other], found.target[other], found.distance[other], found.threshold)
    joined, notes = rescue_events(database, alone, settings, metric)
    added = slice(len(alone.source), None)
    assert (database.clip[joined.source[added]] == clip).any()
    assert (database.clip[joined.target[added]] == clip).any()
    assert joined.distance[added].max() < settings.reach * found.threshold
    assert notes == ()
    _, notes = rescue_events(database, alone, replace(settings, reach=0.0), metric)
    assert any("similar to no other" in note for note in notes)


@pytest.mark.mocap
def test_clouds_of_five_poses_find_transitions_too(picking):
    settings = replace(picking.settings, metric="kovar2002")
    found = find_transitions(picking.database, settings)
    assert len(found.source) > 500
    assert (found.distance >= 0.0).all()


@pytest.mark.mocap
def test_clips_that_are_not_alike_say_how_far_they_are(picking):
    with pytest.raises(InputError, match="the nearest are"):
        find_transitions(picking.database, GraphSettings(links=0, cross_links=0))


@pytest.mark.parametrize("seed", range(3))
def test_pairs_within_a_limit_are_those_of_all_pairs(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(30, 16)), rng.normal(size=(200, 16))
    D = ((first[:, None] - second) ** 2).sum(axis=2)
    limit = float(np.quantile(D, 0.1))
    rows, columns = list_pairs_within(first, second, limit, 0)
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == set(zip(*np.nonzero(limit >= D), strict=True))
    assert (np.diff(rows * len(second) + columns) > 0).all()
    rows, columns = list_pairs_within(first, second, np.inf, 3)
    np.testing.assert_allclose(np.sort(D[rows, columns]), np.sort(D.ravel())[:3])
    assert len(list_pairs_within(first[:1], second[:2], np.inf, 3)[0]) == 2

"""Pairs of like poses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.base import InputError
from marey.graph.construction.build import event_phases, rescue_events
from marey.graph.database.settings import GraphSettings
from marey.graph.database.transitions import (
    LEE_ROLES,
    PoseGroup,
    PoseMetric,
    Transitions,
    _smallest_in_groups,
    calibrate_threshold,
    compute_lee_features,
    find_low_places,
    find_transitions,
    has_successor,
    pose_behaviours,
    squared_distances,
)
from marey.lie import SO3
from marey.skeleton import role_map


def find_low(D, *, apart=0, clips=1, behaviours=1, limits=(1e9, 1e9, 1e9)):
    """Low places of rows of distances to poses of some clips and behaviours, as in a build."""
    count = D.shape[1]
    group = PoseGroup(np.arange(count), np.arange(count) * clips // count, np.arange(count) % behaviours)
    return find_low_places(D.copy(), 0, group, apart, np.array(limits))


def test_a_valley_keeps_its_lowest_place():
    D = np.array([[5.0, 3.0, 1.0, 2.0, 4.0, 3.0, 2.5, 6.0, 7.0]])
    assert find_low(D)[0].tolist() == [2, 6]


def test_places_that_are_no_pairs_are_never_lowest():
    assert not len(find_low(np.full((2, 5), np.inf))[0])


def test_low_places_are_those_of_the_definition():
    rng = np.random.default_rng(4)
    D, apart, limits = rng.integers(0, 20, (30, 60)).astype(float), 4, (9.0, 5.0, 12.0)
    places, kinds, (least, like) = find_low(D, apart=apart, clips=3, behaviours=2, limits=limits)
    clip, behaviour, pose = np.arange(60) // 20, np.arange(60) % 2, np.arange(60)
    # The same by whole arrays
    beside = (np.abs(pose[:30, None] - pose) < apart) & (clip[:30, None] == clip)
    D[beside] = np.inf
    padded = np.pad(D, ((0, 0), (2, 2)), constant_values=np.inf)
    low = np.isfinite(D)
    for step in (1, 2):
        low &= (padded[:, 2 - step : 62 - step] >= D) & (padded[:, 2 + step : 62 + step] > D)
    same = behaviour[:30, None] == behaviour
    within, across = same & (limits[0] > D), ~same & (limits[1] > D)
    assert like == within.sum() + across.sum()
    assert least == D.min()
    for kind, mask in enumerate((within & low, across & low, ~same & ~across & low & (limits[2] > D))):
        assert np.flatnonzero(mask).tolist() == places[kinds == kind].tolist()


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

"""Glardon 2005, checks A3 to A8: the kernel of hierarchical PCA."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import InputError, MareyError
from marey.models import HierarchicalPCA, MotionUnits, find_outliers, fit_speed_law, principal_components
from marey.models.hierarchy import gait_shares, joint_shares, sort_gaits, sort_subjects

SUBJECTS = ("anna", "bert", "cleo")


def made_units(seed=0, p=240):
    """Units whose rows follow person, gait and speed: nearly straight in speed, one style a person."""
    rng = np.random.default_rng(seed)
    mean, styles = rng.normal(size=p), rng.normal(size=(3, p))
    ways = {gait: rng.normal(size=(3, p)) for gait in ("walk", "run")}
    rows, subjects, gaits, speeds = [], [], [], []
    for k, name in enumerate(SUBJECTS):
        rows.append(mean + styles[k])
        subjects.append(name), gaits.append("stand"), speeds.append(0.0)
        for gait, low, high in (("walk", 1.0, 2.0), ("run", 2.0, 4.0)):
            for s in np.linspace(low, high, 9):
                noise = 0.02 * rng.normal(size=p)
                rows.append(mean + styles[k] + (2.0 if gait == "run" else 1.0) * s * ways[gait][k] / 3 + noise)
                subjects.append(name), gaits.append(gait), speeds.append(s)
    return MotionUnits(np.array(rows), tuple(subjects), tuple(gaits), np.array(speeds))


def test_glardon_a3_both_routes_give_the_same_components():
    table = np.random.default_rng(1).normal(size=(30, 500)) * np.linspace(3.0, 0.1, 500)
    svd, gram = (principal_components(table, explained=1.0, route=route) for route in ("svd", "gram"))
    np.testing.assert_allclose(gram.variances, svd.variances, rtol=1e-10)
    cosines = np.linalg.svd(svd.directions[:, :10].T @ gram.directions[:, :10], compute_uv=False)
    sines = np.linalg.norm(
        svd.directions[:, :10] - gram.directions[:, :10] @ (gram.directions[:, :10].T @ svd.directions[:, :10])
    )
    assert cosines.min() > 1.0 - 1e-14 and sines < 1e-8
    for found in (svd, gram):
        np.testing.assert_allclose(found.rows(found.scores(table)), table, atol=1e-10)


def test_components_are_scaled_and_weighted_as_asked():
    rng = np.random.default_rng(2)
    table = rng.normal(size=(40, 6)) * [1.0, 100.0, 1.0, 1.0, 1.0, 0.0]
    covariance = principal_components(table, n_components=1)
    correlation = principal_components(table, n_components=1, scaling="correlation")
    lowered = principal_components(table, n_components=1, weights=[1.0, 0.001, 1.0, 1.0, 1.0, 1.0])
    assert np.argmax(np.abs(covariance.directions[:, 0])) == 1 and covariance.shares[0] > 0.99
    assert correlation.shares[0] < 0.5
    assert np.argmax(np.abs(lowered.directions[:, 0])) != 1
    whole = principal_components(table, explained=1.0, scaling="correlation")
    np.testing.assert_allclose(whole.rows(whole.scores(table)), table, atol=1e-10)
    assert whole.count == 5  # a constant column carries nothing


def test_one_row_is_its_own_mean():
    one = principal_components([[1.0, 2.0, 3.0]])
    assert one.count == 0
    np.testing.assert_array_equal(one.rows(np.zeros(0)), [1.0, 2.0, 3.0])


def test_glardon_a4_leaves_multiplied_out_equal_the_levels():
    model = HierarchicalPCA().fit(made_units())
    leaves = {(name, gait): model.expand_leaf(name, gait) for name in SUBJECTS for gait in model.people[name].leaves}
    rng = np.random.default_rng(3)
    for _ in range(1000):
        psi = {
            "running": float(rng.uniform()),
            "people": dict(zip(SUBJECTS, rng.uniform(size=3).tolist(), strict=True)),
        }
        speed = float(rng.uniform(0.0, 5.0))
        total = np.zeros_like(model.main.mean)
        for name, weight in model.weights(psi["people"]).items():
            for gait, share in gait_shares(model.people[name].leaves, psi["running"]).items():
                base, lift = leaves[name, gait]
                total += weight * share * (base + model.people[name].leaves[gait].law(speed) @ lift)
        np.testing.assert_allclose(total, model.row(speed, **psi), rtol=0.0, atol=1e-10)


def test_glardon_a5_the_speed_law_is_continuous_and_starts_at_rest():
    rng = np.random.default_rng(4)
    speeds = np.linspace(0.8, 2.0, 10)
    law = fit_speed_law(speeds[:, None] * [2.0, -1.0] + 0.01 * rng.normal(size=(10, 2)), speeds, [0.3, 0.1])
    below, above = law(np.nextafter(0.8, 0.0)), law(0.8)
    assert np.abs(below - above).max() < 1e-12
    np.testing.assert_array_equal(law(0.0), [0.3, 0.1])
    np.testing.assert_array_equal(law(-1.0), law(0.0))
    np.testing.assert_allclose(law([1.0, 2.0])[1] - law([1.0, 2.0])[0], law.slope, atol=1e-12)


def test_glardon_a5_at_rest_the_model_stands():
    units = made_units()
    model = HierarchicalPCA(explained=1.0).fit(units)
    for k, name in enumerate(SUBJECTS):
        standing = units.table[units.rows_of(name, "stand")[0]]
        for running in (0.0, 1.0):
            np.testing.assert_allclose(model.row(0.0, running=running, people={name: 1.0}), standing, atol=1e-9), k


def test_the_model_reproduces_captured_units():
    units = made_units()
    model = HierarchicalPCA(explained=0.99).fit(units)
    row = units.rows_of("bert", "run")[4]
    made = model.row(float(units.speeds[row]), running=1.0, people={"bert": 1.0})
    spread = np.linalg.norm(units.table - units.table.mean(axis=0), axis=1).mean()
    assert np.linalg.norm(made - units.table[row]) < 0.05 * spread


def test_glardon_a6_the_leaves_of_others_do_not_change_a_person():
    units = made_units()
    settings = HierarchicalPCA()
    model = settings.fit(units)
    before = model.row(1.7, running=0.4, people={"anna": 1.0})
    table = np.array(units.table)
    table[units.rows_of("bert")] += 0.5
    scores = model.main.scores(table)
    others = MotionUnits(table, units.subjects, units.gaits, units.speeds)
    people = dict(model.people) | {"bert": settings.fit_person(others, scores, "bert")}
    after = type(model)(model.main, people)
    np.testing.assert_array_equal(after.row(1.7, running=0.4, people={"anna": 1.0}), before)
    assert np.abs(after.row(1.7, people={"bert": 1.0}) - model.row(1.7, people={"bert": 1.0})).max() > 1e-3


def test_glardon_a7_units_are_sorted_by_gait_and_subject():
    units = made_units()
    moving = [i for i, gait in enumerate(units.gaits) if gait != "stand"]
    scores = principal_components(units.table[moving]).scores(units.table[moving])
    true_gaits = [units.gaits[i] for i in moving]
    speeds = units.speeds[moving]
    for name in SUBJECTS:
        own = [n for n, i in enumerate(moving) if units.subjects[i] == name]
        assert sort_gaits(scores[own], speeds[own]) == tuple(true_gaits[n] for n in own)
    for gait in ("walk", "run"):
        rows = [n for n, g in enumerate(true_gaits) if g == gait]
        true = [units.subjects[moving[n]] for n in rows]
        found = sort_subjects(scores[rows], {name: true.index(name) for name in SUBJECTS})
        assert np.mean([a == b for a, b in zip(found, true, strict=True)]) >= 0.95


def test_outliers_are_those_far_from_the_median_of_their_group():
    points = np.random.default_rng(5).normal(size=(30, 4))
    points[7] += 20.0
    assert find_outliers(points)[7]
    assert find_outliers(points).sum() <= 3


def test_glardon_a8_a_joint_that_flips_makes_most_of_the_first_component():
    rng = np.random.default_rng(6)
    units = 0.1 * rng.normal(size=(12, 10 * 5 * 3))
    assert joint_shares(principal_components(units).directions[:, 0], 5).max() < 0.5
    wrapped = units.reshape(12, 10, 5, 3).copy()
    wrapped[3:7, :, 2] += np.pi
    shares = joint_shares(principal_components(wrapped.reshape(12, -1)).directions[:, 0], 5)
    assert np.argmax(shares) == 2 and shares[2] > 0.5
    assert shares.sum() == pytest.approx(1.0)


def test_who_never_ran_shows_a_walk():
    units = made_units()
    kept = [i for i in range(len(units.table)) if (units.subjects[i], units.gaits[i]) != ("anna", "run")]
    part = MotionUnits(
        units.table[kept], [units.subjects[i] for i in kept], [units.gaits[i] for i in kept], units.speeds[kept]
    )
    model = HierarchicalPCA().fit(part)
    anna = {"people": {"anna": 1.0}}
    np.testing.assert_array_equal(model.row(1.5, running=1.0, **anna), model.row(1.5, running=0.0, **anna))


def test_a_speed_law_of_few_units_is_not_bent_by_one():
    speeds = np.array([1.0, 1.2, 1.4, 1.6, 1.8])
    scores = 2.0 * speeds[:, None]
    scores[2] += 50.0
    assert fit_speed_law(scores, speeds).slope[0] == pytest.approx(2.0)
    level = fit_speed_law(np.array([[1.0], [3.0]]), [1.5, 1.5])
    assert level.slope[0] == 0.0 and level(2.0)[0] == 2.0


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda m: m.row(1.0, people={"dora": 1.0}), "no person 'dora'"),
        (lambda m: m.row(1.0, people={"anna": -1.0}), "not negative"),
        (lambda m: m.row(1.0, people={"anna": 0.0}), "all weights are zero"),
        (lambda m: m.row(float("nan")), "speed holds nan"),
        (
            lambda m: HierarchicalPCA().fit(MotionUnits(np.ones((1, 3)), ("a",), ("stand",), np.zeros(1))),
            "no unit moves",
        ),
        (lambda m: MotionUnits(np.ones((1, 3)), ("a",), ("hop",), np.zeros(1)), "no gait 'hop'"),
        (lambda m: MotionUnits(np.ones((2, 3)), ("a",), ("walk",), np.zeros(2)), "one of each"),
        (lambda m: fit_speed_law(np.ones((2, 1)), [0.0, 1.0]), "at rest"),
        (lambda m: principal_components(np.ones((0, 3))), "no rows"),
        (lambda m: principal_components(np.ones((2, 3)), weights=[1, 0, 1]), "positive weights"),
        (lambda m: sort_subjects(np.ones((2, 1)), {"a": 5}), "one row of each"),
        (lambda m: sort_gaits(np.ones((1, 1)), [1.0]), "two at least"),
        (lambda m: joint_shares(np.ones(7), 2), "frames x joints x 3"),
    ],
)
def test_bad_tables_are_refused(call, what):
    with pytest.raises(MareyError, match=what):
        call(HierarchicalPCA().fit(made_units()))


def test_weights_need_not_sum_to_one():
    model = HierarchicalPCA().fit(made_units())
    double = dict.fromkeys(SUBJECTS, 2.1)
    np.testing.assert_allclose(model.row(1.5, people=double), model.row(1.5), atol=1e-12)
    with pytest.raises(InputError):
        model.row(1.5, people={})

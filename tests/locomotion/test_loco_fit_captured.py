"""Training on real captures: the figures of the specification, on trials of the shipped manifest and beside it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from oracles.gait_tables import frequency_at
from oracles.speed_fits import leave_speed_out, make_flat_synthesis

from marey.cli import main
from marey.locomotion import LocomotionModel, load_manifest, load_model
from marey.locomotion.fitting.fit import COLUMN_WEIGHTS, fit_shared_speed_law, flatten_units
from marey.locomotion.fitting.quality import (
    UnitGroup,
    count_components,
    group_by_speed,
    leave_unit_out,
    make_model_synthesis,
    make_pooled_fit,
    measure_held_out_cells,
    rms_degrees,
    synthesis_errors,
)
from marey.locomotion.fitting.trials import CapturedUnits, Manifest, TrialGroup, capture_units
from marey.locomotion.model.locomotion_model import SHIPPED_MODEL
from marey.locomotion.units.gait_unit import MotionUnit
from marey.models import principal_components
from marey.models.hierarchy import sort_gaits, sort_subjects

pytestmark = pytest.mark.mocap

# rms over ten joints [degree] with every unit left out in turn, as measured for the specification, §3.9. Of its groups
# 104 and 127 the captures at hand hold one regular walk and four regular runs.
LEFT_OUT = {
    ("07", "walk"): 6.7, ("08", "walk"): 7.1, ("16", "walk"): 4.8, ("35", "walk"): 3.8, ("39", "walk"): 5.6,
    ("104", "walk"): 9.5, ("35", "run"): 6.4, ("09", "run"): 5.5, ("16", "run"): 13.8, ("127", "run"): 14.7,
}  # fmt: skip
MISSED = {("104", "walk"): "one regular cycle at hand", ("127", "run"): "15.9 degrees against 15.2, four cycles"}


def groups(missed: dict[tuple[str, str], str]) -> list:
    marks = {key: [pytest.mark.xfail(strict=True, reason=reason)] for key, reason in missed.items()}
    return [pytest.param(key, id=" ".join(key), marks=marks.get(key, [])) for key in LEFT_OUT]


@pytest.fixture(scope="module")
def model() -> LocomotionModel:
    return load_model()


@pytest.fixture(scope="module")
def train(mocap: Path) -> CapturedUnits:
    return capture_units(mocap / "cmu-bvh", load_manifest(), "train")


@pytest.fixture(scope="module")
def test(mocap: Path) -> CapturedUnits:
    return capture_units(mocap / "cmu-bvh", load_manifest(), "test")


@pytest.fixture(scope="module")
def every(mocap: Path, train: CapturedUnits, test: CapturedUnits) -> list[MotionUnit]:
    """Units of both splits, and of the people that the specification measured beside."""
    beside = (TrialGroup("104", "walk", ("104_22",)), TrialGroup("127", "run", ("127_03", "127_06", "127_35")))
    more = capture_units(mocap / "cmu-bvh", Manifest(beside), "train")
    return [*train.units, *test.units, *more.units]


def group_of(units: list[MotionUnit], key: tuple[str, str]) -> list[MotionUnit]:
    return [unit for unit in units if (unit.subject, unit.gait) == key]


def left_out(units: list[MotionUnit], key: tuple[str, str], means):
    line = fit_shared_speed_law(
        flatten_units([u for u in units if u.gait == key[1] and u.subject != key[0]], means), key[1]
    )
    return UnitGroup.from_units(group_of(units, key), means), make_pooled_fit(line)


def test_the_shipped_model_was_fitted_on_these_units(model, train):
    assert {unit.clip for unit in train.units} == set(model.info["clips"])
    assert len(train.units) == model.info["num_units"] > 180
    assert {r.reason for r in train.rejected} & {"far from the others"}


def test_glardon_a7_units_sort_themselves_by_gait_and_person(model, train):
    """One labelled unit of each person starts the clusters: the first that was cut, whichever it is."""
    rows = flatten_units(train.units, model.gaits.means)
    scores = principal_components(rows.table, explained=0.95).scores(rows.table)
    assert sort_gaits(scores, rows.speeds) == rows.gaits
    for gait in ("walk", "run"):
        own = [i for i, found in enumerate(rows.gaits) if found == gait]
        examples: dict[str, int] = {}
        for n, i in enumerate(own):
            examples.setdefault(rows.subjects[i], n)
        found = sort_subjects(scores[own], examples)
        assert np.mean([name == rows.subjects[i] for name, i in zip(found, own, strict=True)]) >= 0.95, gait


@pytest.mark.parametrize(
    ("gait", "limit"),
    [
        pytest.param(
            "walk", 0.7, marks=pytest.mark.xfail(strict=True, reason="6 of 28 cells above 0.7, the worst at 1.35")
        ),
        ("run", 0.8),
    ],
)
def test_glardon_a9_what_was_captured_is_given_back_within_its_spread(model, train, gait, limit):
    synthesis = make_model_synthesis(model)
    cells = [cell for cell in group_by_speed(train.units) if cell.gait == gait and cell.spread > 0.0]
    assert cells
    ratios = [float(np.mean(synthesis_errors(synthesis, cell.units))) / cell.spread for cell in cells]
    assert max(ratios) <= limit, ratios


@pytest.mark.parametrize("key", groups(MISSED))
def test_glardon_a10_left_out_units_are_foretold(model, every, key):
    group, fit = left_out(every, key, model.gaits.means)
    assert len(group.units) > 1
    errors = leave_unit_out(group, fit)
    assert rms_degrees(errors) <= LEFT_OUT[key] + 0.5
    spread = max(cell.spread for cell in group_by_speed(group.units))
    if spread > 0.0:  # no two runs of 16 and of 127 are equally fast
        assert np.mean(errors) <= 0.55 * spread


@pytest.mark.parametrize(
    "subject",
    [
        "07",
        "08",
        pytest.param("16", marks=pytest.mark.xfail(strict=True, reason="0.55 and 0.60: speed lies between the two")),
        pytest.param("104", marks=pytest.mark.xfail(strict=True, reason="one regular cycle at hand")),
    ],
)
def test_glardon_a11_a_first_component_is_speed(every, subject):
    group = UnitGroup.from_units(group_of(every, (subject, "walk")))
    assert len(group.units) > 2
    weights = np.tile(COLUMN_WEIGHTS, group.units[0].num_frames)
    scores = principal_components(group.table, n_components=2, weights=weights).scores(group.table)
    assert max(abs(np.corrcoef(scores[:, i], group.speeds)[0, 1]) for i in (0, 1)) >= 0.75


@pytest.mark.xfail(strict=True, reason="not reproduced: 0.00897 against 0.00890 rad² on the held-out cycles")
def test_glardon_a12_levels_do_no_worse_than_a_flat_model(model, train, test):
    units = [u for u in test.units if len(group_of(list(train.units), (u.subject, u.gait))) >= 4]
    rows = {}
    for key in {(u.subject, u.gait) for u in units}:
        group = UnitGroup.from_units(group_of(list(train.units), key), model.gaits.means)
        rows[key] = (group.table, group.speeds)
    levels = np.mean(synthesis_errors(make_model_synthesis(model), units))
    flat = np.mean(synthesis_errors(make_flat_synthesis(model, rows), units))
    assert levels <= flat, (levels, flat)


@pytest.mark.parametrize("key", groups({("104", "walk"): "one regular cycle at hand", ("16", "run"): "two cycles"}))
def test_glardon_a13_speeds_that_were_left_out_are_foretold(model, every, key):
    group, fit = left_out(every, key, model.gaits.means)
    assert len(group.units) > 2
    usual = rms_degrees(leave_unit_out(group, fit))
    inner, outer = leave_speed_out(group, fit)
    if inner:
        assert rms_degrees(inner) <= 1.3 * usual
    assert outer and rms_degrees(outer) <= 2.0 * usual


@pytest.mark.xfail(strict=True, reason="13.9 %: the levels below the main one keep 99.9 %, and jumps come with it")
def test_glardon_a14_the_shipped_file_is_a_twentieth_of_its_units(model, train):
    raw = flatten_units(train.units, model.gaits.means).table.nbytes
    assert SHIPPED_MODEL.stat().st_size <= 0.05 * raw


def test_glardon_a14_a_model_of_95_percent_is_a_twentieth_of_its_units(model, train):
    table = flatten_units(train.units, model.gaits.means).table
    main = principal_components(table, explained=0.95)
    people = model.tree.people.values()
    levels = sum(p.space.directions.nbytes + sum(f.space.directions.nbytes for f in p.leaves.values()) for p in people)
    kept = 4 * (main.count + 1) * table.shape[1] + levels  # main components in single precision, as in the file
    assert kept <= 0.05 * table.nbytes


@pytest.mark.parametrize(
    "style",
    [
        *("02", "07", "08", "16", "35", "38", "39", "69", "91"),
        pytest.param("stride", marks=pytest.mark.xfail(strict=True, reason="0.76: captured with exaggerated strides")),
    ],
)
def test_glardon_a19_walking_cadence_is_that_of_people(model, train, style):
    """Inman's law, at every speed at which the person was captured."""
    speeds = [unit.speed_n for unit in group_of(list(train.units), (style, "walk"))]
    assert speeds
    rates = [frequency_at(model.gaits, s, 0.0, model.weights(style)) / (0.743 * np.sqrt(s)) for s in speeds]
    assert min(rates) >= 0.85 and max(rates) <= 1.2, (min(rates), max(rates))


def test_trials_that_were_held_out_are_met_by_person_and_speed(model, test):
    cells = measure_held_out_cells(model, test.units)
    assert len({cell.subject for cell in cells}) >= 6
    assert sum(cell.num_units for cell in cells) == len(test.units)
    by_gait = {gait: np.average([c.rms_deg for c in cells if c.gait == gait]) for gait in ("walk", "run")}
    assert by_gait["walk"] < 7.0 and by_gait["run"] < 8.5
    assert max(cell.rms_deg for cell in cells) < 15.0


def test_more_people_need_more_components_but_ever_fewer(train):
    counts = list(count_components(train.units).values())
    assert counts[0] < counts[-1] < 3 * counts[3]


def test_the_verb_fits_and_judges_a_small_model(mocap, tmp_path, capsys):
    manifest = tmp_path / "few.toml"
    manifest.write_text(
        '[[group]]\nsubject = "16"\ngait = "walk"\ntrain = ["16_15", "16_21"]\ntest = ["16_58"]\n'
        '[[group]]\nsubject = "35"\ngait = "walk"\ntrain = ["35_01", "35_29"]\n'
        '[[group]]\nsubject = "35"\ngait = "run"\ntrain = ["35_17", "35_21"]\n'
        '[[group]]\nsubject = "09"\ngait = "run"\ntrain = ["09_01"]\n',
        encoding="utf-8",
    )
    out, report = tmp_path / "few.safetensors", tmp_path / "few.json"
    args = ["fit", "locomotion", str(mocap / "cmu-bvh"), "-o", str(out), "--manifest", str(manifest)]
    assert main([*args, "--report", str(report), "--json", "--no-jumps", "--alone"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["styles"] == ["16", "35", "09"] and facts["num_units"] > 8
    judged = json.loads(report.read_text(encoding="utf-8"))
    assert judged["num_test"] >= 2 and judged["cells"][0]["subject"] == "16"
    model = load_model(out)
    assert frequency_at(model.gaits, 1.4, 0.0, model.weights()) == pytest.approx(0.93, rel=0.25)

"""Sketches become motions: the engine is chosen, the motion measured, and what is impossible told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import marey
from marey.base import FormatError, InputError, UnknownNameError
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.pipeline import check_motion, choose_engine, synthesize_sketch
from marey.skeleton import HUMAN, contact_points
from marey.world import Event, GroundPose, Path, River, Sketch, Stone, Thing, World

STRAIGHT = Sketch(GroundPose((0.0, 0.0)), GroundPose((0.0, 3.0)), path=Path(((0.0, 0.0), (0.0, 3.0))), name="straight")
PICK = Sketch(
    GroundPose((0.0, 0.0)), GroundPose((0.0, 3.0)), events=(Event("pick", object="cup"),),
    world=World(objects=(Thing("cup", (0.2, 0.4, 1.5)),)),
)  # fmt: skip


def test_auto_walks_unless_hands_or_a_graph_or_stones_are_there():
    assert choose_engine(STRAIGHT) == "locomotion"
    assert choose_engine(STRAIGHT, graph="walks.safetensors") == "graph"
    assert choose_engine(PICK) == "graph"
    assert choose_engine(replace(STRAIGHT, world=World(stones=(Stone((0.0, 1.0)),)))) == "graph"


def test_a_hand_that_nobody_has_is_told():
    with pytest.raises(InputError, match="a hand 'third'"):
        Event("pick", object="cup", hand="third")


def test_a_walk_comes_with_measures_and_a_validity_report():
    result = synthesize_sketch(STRAIGHT, rate_hz=30.0)
    assert (result.status, result.engine, result.is_solved) == ("SOLVED", "locomotion", True)
    assert result.motion is not None and result.motion.rate_hz == 30.0
    assert result.errors is not None and result.errors.goal_m < 0.2 and result.errors.off_corridor_m == 0.0
    assert result.validity is not None and result.validity.num_frames == result.motion.num_frames
    facts = result.to_json()
    assert facts["frames"] == result.motion.num_frames and facts["validity"]["colour"] == result.validity.colour
    assert "locomotion" in result.sentence
    assert result.motion.name == STRAIGHT.name


def test_the_public_name_gives_the_motion():
    motion = marey.synthesize(STRAIGHT, engine="locomotion", rate_hz=30.0)
    assert isinstance(motion, Motion)
    assert abs(motion.root_positions[-1, 2] - 3.0) < 0.2


def test_a_sketch_is_loaded_by_its_class(tmp_path):
    file = tmp_path / "way.toml"
    file.write_text("version = 1\n[start]\nposition = [0, 0]\n[goal]\nposition = [0, 3]\n", encoding="utf-8")
    assert marey.Sketch.load(file).goal.position == (0.0, 3.0)
    assert marey.World is World
    file.write_text("version = 1\n[start]\nposition = [0]\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"way\.toml:3"):
        marey.Sketch.load(file)


def test_what_makes_no_sense_is_told():
    with pytest.raises(UnknownNameError, match="magic"):
        synthesize_sketch(STRAIGHT, "magic")
    with pytest.raises(InputError, match="rate_hz"):
        synthesize_sketch(STRAIGHT, rate_hz=0.0)
    with pytest.raises(InputError, match="hands"):
        synthesize_sketch(PICK, "locomotion")


def standing(places: np.ndarray, active: np.ndarray, height_m: float = 0.95) -> Motion:
    """Somebody carried along; contacts as told."""
    roots = np.stack([places[:, 0], np.full(len(places), height_m), places[:, 1]], axis=1)
    names = contact_points(HUMAN).names
    flags = np.zeros((len(places), len(names)), dtype=bool)
    flags[:, names.index("left_toe")] = active
    wxyz = SO3.identity(len(places), HUMAN.num_joints)
    return Motion(HUMAN, 30.0, roots, wxyz, contacts=Contacts(names, flags))


def test_slides_and_ways_off_the_corridor_are_measured():
    places = np.stack([np.full(10, 0.8), np.linspace(0.0, 3.0, 10)], axis=1)
    check = check_motion(standing(places, np.ones(10, dtype=bool)), STRAIGHT, reaches_m=(0.01,))
    assert check.off_path_m == pytest.approx(0.8)
    assert check.off_corridor_m == pytest.approx(0.3)
    assert check.goal_m == pytest.approx(0.8)
    assert check.to_json()["reaches_m"] == [0.01]


def test_a_body_that_is_carried_along_breaks_the_sketch_by_the_meter_whatever_its_contacts_say():
    places = np.stack([np.zeros(60), np.linspace(0.0, 3.0, 60)], axis=1)
    for told in (True, False):
        check = check_motion(standing(places, np.full(60, told)), STRAIGHT)
        assert check.scraped_m > 2.0
        assert any("foot" in sentence for sentence in check.broken)


def test_plants_in_water_are_counted_once_each_and_stones_are_dry():
    river = River((-5.0, 1.5), (5.0, 1.5), width_m=2.0)
    active = np.array([True, True, False, True, True, True])
    motion = standing(np.tile([0.0, 1.5], (6, 1)), active)
    wet = replace(STRAIGHT, world=World(rivers=(river,)))
    assert check_motion(motion, wet).wet_plants == 2
    toe = contact_points(HUMAN).index("left_toe")
    from marey.motion import contact_positions

    x, _, z = contact_positions(motion)[0, toe]
    dry = replace(wet, world=World(rivers=(river,), stones=(Stone((float(x), float(z)), 0.1),)))
    assert check_motion(motion, dry).wet_plants == 0


def test_soles_under_the_ground_are_measured():
    deep = standing(np.zeros((4, 2)), np.zeros(4, dtype=bool), height_m=0.5)
    high = standing(np.zeros((4, 2)), np.zeros(4, dtype=bool), height_m=2.0)
    assert check_motion(deep, STRAIGHT).penetration_mm > 100.0
    assert check_motion(high, STRAIGHT).penetration_mm == 0.0


@pytest.fixture(scope="module")
def small_graph(mocap):
    from marey.graph import build_graph
    from marey.io import load

    return build_graph([load(mocap / "cmu-bvh" / f"{name}.bvh") for name in ("69_01", "69_70", "69_75")])


@pytest.mark.mocap
def test_objectives_are_sought(small_graph):
    asked = replace(STRAIGHT, goal=GroundPose((0.0, 3.0), tolerance_m=0.4), corridor_m=1.2, speed_mps=0.8)
    found = {
        name: small_graph.search(asked, k=1, budget_s=10.0, objective=name)
        for name in ("effort", "time", "smoothness", "speed")
    }
    assert all(way.status == "OPTIMAL" for way in found.values())
    arrays = small_graph.arrays

    def total(name: str, values: np.ndarray) -> float:
        return float(values[list(found[name].edges)].sum())

    for name in ("effort", "smoothness", "speed"):
        assert total("time", arrays.seconds) <= total(name, arrays.seconds) + 1.0 / 30.0
    assert total("smoothness", arrays.price) <= total("effort", arrays.price)
    assert total("effort", arrays.cost) <= min(total(name, arrays.cost) for name in found) + 1e-9
    # By effort, the squared error of the speed along the way; stands and starts count like any other second
    errors = arrays.seconds * arrays.power * (arrays.arc / arrays.seconds / 0.8 - 1.0) ** 2
    assert total("speed", errors) <= min(total(name, errors) for name in found) + 1e-9


@pytest.mark.mocap
def test_an_objective_that_cannot_be_sought_is_refused(small_graph):
    with pytest.raises(InputError, match="no speed"):
        small_graph.search(STRAIGHT, objective="speed")
    with pytest.raises(UnknownNameError, match="objective"):
        small_graph.search(STRAIGHT, objective="beauty")
    with pytest.raises((InputError, TypeError), match="objective"):
        synthesize_sketch(STRAIGHT, "locomotion", objective="time")
    with pytest.raises(InputError, match="objective"):
        synthesize_sketch(STRAIGHT, "spacetime", objective="time")


@pytest.mark.mocap
def test_a_graph_walks_a_sketch_inside_its_corridor(small_graph):
    sketch = replace(STRAIGHT, goal=GroundPose((0.0, 3.0), tolerance_m=0.4), corridor_m=1.2)
    result = synthesize_sketch(sketch, "graph", graph=small_graph, k=1, budget_s=10.0, epsilon=(3.0,))
    assert result.is_solved, result.advice
    assert result.errors is not None and result.motion is not None
    assert result.errors.off_corridor_m <= 0.01
    assert result.errors.goal_m <= 0.45
    assert result.errors.scraped_m <= 0.05 * result.errors.way_m  # a third of the best of its clips, 1.4 m in 10 m
    assert result.errors.penetration_mm <= 5.0
    assert result.to_json()["history"][0]["cost"] == pytest.approx(result.search.cost, abs=1e-5)


def test_a_bound_that_was_not_proved_is_no_number_in_json():
    import json

    from marey.graph import SearchResult
    from marey.graph.paths import PathStep
    from marey.pipeline import SynthesisResult

    search = SearchResult("BOUNDED", (PathStep(0, 0, 1.0, np.zeros(3)),), cost=3.0, epsilon=np.inf)
    facts = SynthesisResult("BOUNDED", "graph", None, None, None, 0.1, search=search).to_json()
    assert facts["epsilon"] is None and facts["cost"] == 3.0
    json.dumps(facts, allow_nan=False)


@pytest.mark.mocap
def test_what_a_graph_cannot_do_has_a_code_and_advice(small_graph):
    high = replace(PICK, world=World(objects=(Thing("cup", (0.2, 2.5, 1.5)),)))
    result = synthesize_sketch(high, graph=small_graph, k=1)
    assert not result.is_solved and result.motion is None
    assert result.status.startswith("PARAM_OUT_OF_RANGE") and "2.50 m" in result.advice
    assert result.status in result.sentence
    with pytest.raises(InputError, match="PARAM_OUT_OF_RANGE"):
        marey.synthesize(high, graph=small_graph, k=1)


@pytest.mark.parametrize("slip", [{"rate_hz": 1e6}, {"speed_mps": 1e-4}, {"rate_hz": 1e308}, {"speed_mps": 1e-308}])
def test_a_slip_in_rate_or_speed_is_refused_at_once(slip):
    sketch = marey.Sketch.load(marey.samples.sketch_file("straight"))
    with pytest.raises(InputError, match="frames"):
        marey.synthesize(sketch, **slip)


def test_motions_are_shown_while_the_search_goes_on_if_they_are_clearly_cheaper(monkeypatch):
    from marey.graph import SearchResult, SearchSolution
    from marey.samples import walk

    class Graph:
        """Finds four ways, two of them hardly better than the one before, and no end."""

        def search(self, sketch, *, on_solution, **options):
            for cost in (10.0, 9.9, 9.0, 8.95):
                on_solution(SearchSolution(1.5, 1.5, cost, 10, 0.1, result=SearchResult("BOUNDED", cost=cost)))
            return SearchResult("TIMEOUT", expansions=10_000, advice="give more time")

    steps = walk(speed_mps=1.2, seconds=1.0)
    monkeypatch.setattr("marey.graph.rebuild_for_sketch", lambda graph, found, *_, **__: (steps, ()))
    shown, told = [], []
    result = synthesize_sketch(
        STRAIGHT, "graph", graph=Graph(), on_motion=lambda motion, found: shown.append((motion.name, found.cost)),
        on_solution=lambda found: told.append(found.cost),
    )  # fmt: skip
    assert result.motion is None
    assert shown == [("straight", 10.0), ("straight", 9.0)]
    assert told == [10.0, 9.9, 9.0, 8.95]


def test_a_walker_that_dawdles_is_told_of():
    from marey.samples import walk

    brisk = walk(speed_mps=1.2, seconds=4.0)
    end = tuple(float(v) for v in brisk.root_positions[-1, [0, 2]])
    sketch = Sketch(GroundPose((0.0, 0.0)), GroundPose(end))
    assert check_motion(brisk, sketch).slow_s == 0.0
    # The same four times as slow: 0.3 m/s
    slow = check_motion(replace(brisk, rate_hz=0.25 * brisk.rate_hz), sketch)
    assert slow.slow_s > 0.8 * 16.0
    assert any("slower than" in remark for remark in slow.remarks)
    asked = check_motion(replace(brisk, rate_hz=0.25 * brisk.rate_hz), replace(sketch, speed_mps=0.3))
    assert asked.slow_s == 0.0


def test_auto_takes_the_engine_that_does_not_dawdle(monkeypatch):
    from marey.pipeline import synthesis

    made = synthesize_sketch(STRAIGHT, "locomotion", check=False)
    assert made.errors is not None and made.errors.slow_s == 0.0
    slow_s = {"locomotion": 3.0, "graph": 0.0}

    def make(run, chosen, options):
        return replace(made, engine=chosen, errors=replace(made.errors, slow_s=slow_s[chosen]))

    monkeypatch.setattr(synthesis._SketchRun, "make", make)
    taken = synthesize_sketch(STRAIGHT)
    assert taken.engine == "graph" and taken.refusals == ("locomotion: walks slowly for 3.0 s",)
    # Whoever asks for a style gets it; of two that dawdle the one that does so for less
    assert synthesize_sketch(STRAIGHT, style="march").engine == "locomotion"
    slow_s["graph"] = 4.0
    assert synthesize_sketch(STRAIGHT).engine == "locomotion"

"""Tools over the engines: each result is checked by a law, by geometry, or by running it again."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from oracles.stiff_walk import make_stiff_walk
from scipy.spatial import ConvexHull

from marey import samples
from marey.base import InputError, MareyError, UnknownNameError
from marey.dynamics import Body, check_validity, make_overlay
from marey.graph import SearchSolution
from marey.lie import SO3
from marey.motion import Contacts, Motion, contact_positions, mean_speed
from marey.skeleton import contact_points
from marey.studio.tools import TOOLS
from marey.world import load_sketch


def begin(tool: str, session: Any, **settings: Any) -> Any:
    return TOOLS[tool].run(session, TOOLS[tool].check(settings))


def test_the_report_covers_the_clip_with_bands_and_causes(run: Any, walk: Motion) -> None:
    made = run("physics")
    bands = made.report["spans"]
    assert bands[0]["start_s"] == 0.0
    assert all(a["stop_s"] <= b["start_s"] + 1e-9 for a, b in pairwise(bands))
    assert {band["status"] for band in bands} <= {"green", "amber", "red"}
    assert all(band["causes"] for band in bands if band["status"] == "red")


def test_forces_of_the_overlay_carry_the_weight_on_average(context: Any) -> None:
    motion = samples.walk()
    arrays = make_overlay(check_validity(motion))
    frames = slice(30, -30)
    upward = arrays["forces"][:, frames, 4].sum(axis=0).mean()
    assert upward == pytest.approx(Body.from_motion(motion).weight_n, rel=0.1)
    assert arrays["ground_force"][frames, 1].mean() == pytest.approx(1.0, rel=0.1)


def test_plots_obey_the_laws_of_a_flight() -> None:
    """A body that is thrown: what is plotted is what closed forms say."""
    body = samples.walk()[:61]
    times = np.arange(61) / 60.0
    roots = body.root_positions[0] + times[:, None] * [1, 4.905, 0.5] - 4.905 * times[:, None] ** 2 * [0, 1, 0]
    still = np.repeat(body.rotations.wxyz[:1], 61, axis=0)
    touching = np.zeros((61, 4), dtype=bool)
    touching[[0, 60]] = True
    names = ("left_heel", "left_toe", "right_heel", "right_toe")
    thrown = replace(body, root_positions=roots, rotations=SO3(still), rate_hz=60.0, contacts=Contacts(names, touching))
    arrays, inside = make_overlay(check_validity(thrown)), slice(15, -15)
    mass = Body.from_motion(thrown).mass_kg
    np.testing.assert_allclose(arrays["ground_force"][inside], 0.0, atol=0.02)
    np.testing.assert_allclose(arrays["momentum"][inside, 0], mass, rtol=0.01)
    assert np.ptp(arrays["energy"][inside, 2]) < 0.01 * arrays["energy"][30, 2]
    np.testing.assert_allclose(arrays["energy"][:, :2].sum(axis=1), arrays["energy"][:, 2])
    np.testing.assert_allclose(arrays["angular_momentum"][inside], 0.0, atol=0.2)
    assert arrays["flights"].tolist() == [[0.0, 60.0]]
    # The drawn fall is that of the body: gravity downwards, even steps along
    (fall,) = arrays["falls"]
    np.testing.assert_allclose(fall[[0, -1]], arrays["com"][[0, 60]], atol=1e-12)
    step_s = 1.0 / (len(fall) - 1)
    np.testing.assert_allclose(np.diff(fall, n=2, axis=0) / step_s**2, np.tile([0, -9.81, 0], (38, 1)), atol=1e-9)


def test_the_support_is_the_hull_of_what_touches() -> None:
    walk = samples.walk()
    drawn = make_overlay(check_validity(walk))["support"]
    supports = check_validity(walk).supports
    for frame in range(0, walk.num_frames, 20):
        touching = supports.points[frame][supports.touching[frame]][:, [0, 2]]
        corners = np.unique(drawn[frame], axis=0)
        expected = touching[ConvexHull(touching).vertices] if len(touching) > 2 else touching
        if len(touching):
            np.testing.assert_allclose(corners, np.unique(expected, axis=0), atol=1e-12)


def test_a_repair_changes_its_range_alone_and_is_accepted_in_part(run: Any, context: Any) -> None:
    walk = make_stiff_walk()[:90]
    session = context(motions={"walk": walk})
    made = run("repair", session, range_s=[0.3, 1.1], iterations=6)
    moved = np.linalg.norm(made.motion.joint_positions() - walk.joint_positions(), axis=-1).max(axis=1)
    times = walk.times()
    assert moved[(times < 0.3 - 1e-6) | (times > 1.1 + 1e-6)].max() == 0.0
    assert moved.max() > 1e-4
    assert check_validity(made.motion).valid_fraction >= check_validity(walk).valid_fraction
    assert session.said
    # Half of it
    session.motions["ghost"] = made.motion
    half = run("accept", session, repaired="ghost", intervals=[[0.3, 0.7]], ease_s=0.1).motion
    inside, outside = (times >= 0.3) & (times <= 0.7), (times < 0.2) | (times > 0.8)
    np.testing.assert_array_equal(half.rotations.wxyz[inside], made.motion.rotations.wxyz[inside])
    np.testing.assert_array_equal(half.rotations.wxyz[outside], walk.rotations.wxyz[outside])
    # Just before a frame: there the easing rounds above one
    run("accept", session, repaired="ghost", intervals=[[0.3, 2.0 / 3.0 - 1e-7]], ease_s=0.1)
    none = run("accept", session, repaired="ghost", intervals=[]).motion
    np.testing.assert_array_equal(none.rotations.wxyz, walk.rotations.wxyz)


@pytest.mark.slow
def test_a_jump_flies_as_long_as_gravity_says(run: Any) -> None:
    made = run("jump", length_m=0.6, rise_m=0.2, iterations=40)
    com = Body.from_motion(made.motion).centre_of_mass(made.motion)
    start, stop = com[0, [0, 2]], com[-1, [0, 2]]
    assert np.linalg.norm(stop - start) == pytest.approx(0.6, abs=0.1)
    assert com[:, 1].max() - com[0, 1] > 0.1
    # In the middle of the flight the centre of mass falls freely
    peak = int(com[:, 1].argmax())
    fall = np.diff(com[peak - 3 : peak + 4, 1], n=2) * made.motion.rate_hz**2
    assert fall.mean() == pytest.approx(-9.81, abs=1.0)


def test_a_pose_of_the_timeline_is_met_by_a_shipped_problem(run: Any, context: Any, walk: Motion) -> None:
    wanted = samples.walk()[60]
    session = context(motions={"whole": samples.walk()})
    row = {"phase": "land", "at": 1.0, "motion": "whole", "at_s": 1.0}
    made = run("problem", session, problem="jump-1.0", poses=[row], iterations=60)
    plain = run("problem", session, problem="jump-1.0", iterations=60)

    def away(motion: Motion) -> float:
        # Of joints about the root, whichever way the body faces
        last = motion[motion.num_frames - 1]
        there, here = (np.sort(pose.joint_positions()[:, 1] - pose.root_position[1]) for pose in (wanted, last))
        return float(np.abs(there[:8] - here[:8]).mean())

    assert away(made.motion) < away(plain.motion)
    with pytest.raises(MareyError, match="phase"):
        run("problem", session, problem="jump-1.0", poses=[row | {"phase": "nowhere"}], iterations=1)


def test_a_problem_of_ones_own_is_solved(run: Any) -> None:
    import tomllib

    tree = tomllib.loads(samples.problem_file("long-step").read_text(encoding="utf-8"))
    made = run("problem", own=tree, iterations=2)
    # The phases of the problem last as long as they are written
    seconds = sum(phase["duration_s"] for phase in tree["phase"])
    assert made.motion.duration_s == pytest.approx(seconds, rel=0.3)
    assert made.report["iterations"] <= 6


def test_a_sketched_path_is_walked_to_its_goal(run: Any, context: Any, tmp_path: Path) -> None:
    sketch = {
        "start": {"position": [0.0, 0.0], "heading_deg": 0.0}, "goal": {"position": [0.0, 3.0]},
        "path": {"points": [[0.0, 0.0], [0.0, 3.0]], "corridor_m": 1.0, "speed_mps": 1.2},
    }  # fmt: skip
    made = run("path", sketch=sketch, engine="locomotion")
    x, _, z = made.motion.root_positions[-1]
    assert np.hypot(x, z - 3.0) < 0.25
    assert made.report["engine"] == "locomotion"
    with pytest.raises(InputError, match="no sketch"):
        run("path")
    assert run("shipped_sketch", name="pick").report["sketch"]["goal"]
    files = run("export", context(project={"sketch": sketch}), format="sketch").files
    (tmp_path / "mine.toml").write_bytes(files["sketch.toml"])
    again = run("shipped_sketch", context(files={"u": str(tmp_path / "mine.toml")}), file="u")
    assert again.report["sketch"] == sketch
    with pytest.raises(ValueError, match="goal"):
        run("path", sketch={"start": {"position": [0.0, 0.0]}})


@pytest.mark.slow
def test_a_search_shows_a_first_motion_before_the_best(run: Any, context: Any) -> None:
    session = context()
    made = run("path", session, shipped="pick", engine="graph", epsilon=1.5)
    assert session.partials
    costs = [row["cost"] for row in made.table]
    assert costs == sorted(costs, reverse=True)
    thing = load_sketch("pick").world.objects[0].position
    names = contact_points(made.motion.skeleton).names
    hands = contact_positions(made.motion)[:, [n for n, name in enumerate(names) if name.endswith("hand")]]
    assert np.linalg.norm(hands - np.array(thing), axis=-1).min() < 0.01


def test_ways_of_solutions_are_drawn_as_they_come_and_k_1_stands_beside_k_2(
    run: Any, context: Any, walk: Motion, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def search(sketch: Any, engine: str, *, k: int, on_solution: Any, on_motion: Any, **options: Any) -> Any:
        asked.append(k)
        for cost in (3.0, 2.0):
            solution = SearchSolution(1.5, 1.5, cost, 10, 0.1, k, np.linspace([0.0, 0.0], [0.0, cost], 500))
            on_motion(walk, solution)
            on_solution(solution)
        facts = dict.fromkeys(("validity", "search", "way_m", "advice"))
        return SimpleNamespace(
            motion=replace(walk, name=f"found {len(asked)}"),
            sentence="",
            status="",
            engine=engine,
            broken=(),
            remarks=(),
            **facts,
        )

    monkeypatch.setattr("marey.studio.tools.making.synthesize_sketch", search)
    monkeypatch.setattr("marey.studio.tools.making._get_graph", lambda *_: None)
    session = context()
    made = run("path", session, shipped="pick", engine="graph", compare=True)
    assert asked == [1, 2]
    assert [motion.name for motion in session.partials] == ["k = 1", "k = 1", "k = 1", "k = 2", "k = 2"]
    assert made.motion.name == "found 2" and list(made.motions) == ["k = 1"]
    # Each solution came with its way, thinned; all of them are kept
    drawn = [facts["ways"] for facts in session.drawn if facts]
    assert drawn[-1] == made.report["ways"] and [(way["k"], way["cost"]) for way in drawn[-1]] == [
        (1, 3.0),
        (1, 2.0),
        (2, 3.0),
        (2, 2.0),
    ]
    assert all(10 < len(way["places"]) <= 120 for way in drawn[-1]) and drawn[-1][1]["places"][0] == [0.0, 0.0]


def test_a_driven_walker_obeys_and_runs_again_from_its_commands(context: Any) -> None:
    session = context(seed=3)
    live = begin("walk", session, speed=1.2)
    for n in range(150):
        answer = live.move({60: {"turn_rate": 0.5}, 100: {"obstacle": True}}.get(n, {}))
    assert answer.facts["obstacles"]
    ended = live.end({})
    motion = ended.motion
    assert motion.num_frames == 150
    assert mean_speed(motion[:60]) == pytest.approx(1.2, abs=0.15)
    # Positive turns are to the left, towards +X
    assert motion.root_positions[-1, 0] > 0.1
    recipe = ended.report["recipe"]
    again = TOOLS["walk"].make(context(seed=recipe["seed"]), TOOLS["walk"].check(recipe["settings"])).motion
    np.testing.assert_array_equal(again.rotations.wxyz, motion.rotations.wxyz)


@pytest.mark.parametrize(("tool", "settings"), [("walk", {}), ("simulate", {"motion": "walk", "modes": 6})])
def test_a_live_session_goes_on_after_a_control_it_refuses(context: Any, tool: str, settings: dict[str, Any]) -> None:
    live = begin(tool, context(), **settings)
    answer = live.move({"turnrate": 1.0, "gravity_m_s2" if tool == "simulate" else "speed": 1.0})
    assert "turnrate" in answer.facts["refused"][0]
    assert len(live.log[0]) == 2  # the step, and what was obeyed
    assert live.move({"push": 3, "jump": None}).facts["refused"]
    assert live.move({}).facts["refused"] == []
    # Time stands still, or goes on by one step
    paused = live.move({"pause": True})
    assert live.move({}).facts["time_s"] == paused.facts["time_s"]
    assert live.move({"single_step": True}).facts["time_s"] > paused.facts["time_s"]
    assert live.end({}).motion.num_frames >= 3


def test_walkers_jump_change_style_and_come_in_numbers(context: Any, run: Any) -> None:
    live = begin("walk", context(), speed=1.3)
    style = run("styles").table[0]["style"]
    high = []
    script = {0: {"style": style}, 30: {"jump": {"length_m": 0.9}}, 60: {"add": True}}
    for n in range(240):
        answer = live.move(script.get(n, {}) | {"ghosts": n == 239})
        high.append(answer.arrays["pose_root"][1])
    assert answer.arrays["other_roots"].shape == (1, 3)
    assert answer.arrays["ghost_roots"].shape[0] == 4
    assert len(answer.facts["characters"]) == 2
    assert answer.facts["speed_mps"] == 0.0  # the new one is driven, and stands


def test_a_script_is_played_also_ones_own(run: Any, context: Any, tmp_path: Path) -> None:
    made = run("script", script="walk")
    assert made.motion.duration_s == pytest.approx(4.0, abs=0.05)
    own = samples.script_file("walk").read_text(encoding="utf-8").replace("seconds = 2.0", "seconds = 1.0")
    (tmp_path / "own.toml").write_text(own)
    made = run("script", context(files={"u": str(tmp_path / "own.toml")}), file="u")
    assert made.motion.duration_s == pytest.approx(3.0, abs=0.05)


def test_a_limp_figure_falls_and_runs_again_from_its_commands(context: Any, walk: Motion) -> None:
    session = context()
    live = begin("simulate", session, motion="walk", modes=8)
    acts = {5: {"push": {"force_n": 300.0, "heading_deg": 90.0}}, 10: {"throw": {"part": "head"}}}
    told = []
    for n in range(45):
        answer = live.move(acts.get(n, {}))
        told.append((answer.facts["ground_force"][1], answer.facts["momentum"][1]))
    assert answer.arrays["balls"].shape == (1, 3)
    # The impulse of ground and weight is what the momentum has changed by; a ball may bring a little
    force, momentum = np.array(told).T
    weight = live.figure.simulator.body.weight_n
    assert weight * (force[6:] - 1.0).sum() / 60.0 == pytest.approx(momentum[-1] - momentum[5], abs=0.03 * weight)
    assert answer.arrays["pose_root"][1] < walk.root_positions[0, 1] - 0.1
    ended = live.end({})
    settings = ended.report["recipe"]["settings"]
    again = TOOLS["simulate"].make(session, TOOLS["simulate"].check(settings)).motion
    np.testing.assert_array_equal(again.root_positions, ended.motion.root_positions)


def test_a_figure_that_is_pulled_up_follows_the_hand(context: Any, walk: Motion) -> None:
    live = begin("simulate", context(), motion="walk", mode="puppet", alpha=0.8, modes=8)
    joint = walk.skeleton.index("head")
    place = walk[0].joint_positions()[joint]
    live.move({"grab": {"joint": "head", "place": place.tolist()}})
    for _ in range(30):
        answer = live.move({"pull": (place + np.array([0.0, 0.0, 0.4])).tolist()})
    assert answer.arrays["pose_root"][2] > walk.root_positions[0, 2] + 0.02


def test_a_tracked_clip_stays_near_and_a_push_is_felt(run: Any) -> None:
    calm = run("track", seconds=0.4, modes=10)
    assert calm.report["fall"] is None
    assert calm.report["max_error_cm"] < 10.0
    push = [{"joint": "spine3", "force_n": [600.0, 0.0, 0.0], "start_s": 0.1, "duration_s": 0.2}]
    hit = run("track", seconds=0.4, modes=10, pushes=push)
    assert hit.motion.root_positions[-1, 0] > calm.motion.root_positions[-1, 0] + 0.01
    with pytest.raises(InputError, match="joint"):
        run("track", pushes=[{"force_n": [1.0, 0.0, 0.0]}])


def test_a_soft_arm_bends_when_its_biceps_is_held(run: Any, context: Any) -> None:
    live = begin("muscle", context())
    first = live.move({})
    assert first.arrays["faces"].shape[1] == 3
    spline = next(iter(first.facts["activations"]))
    for _ in range(20):
        answer = live.move({spline: 1.0})
    assert answer.facts["activations"][spline] > first.facts["activations"][spline] + 0.5
    assert np.abs(answer.arrays["surface"] - first.arrays["surface"]).max() > 0.01
    film = live.end({})
    assert film.files["biceps-arm.glb"][:4] == b"glTF"
    held = run("muscle", seconds=0.1, activations={spline: 1.0})
    assert held.report["frames"] > 2
    with pytest.raises(UnknownNameError):
        run("muscle", activations={"no such": 1.0})


def test_muscles_of_a_clip_are_those_that_carry(run: Any, walk: Motion) -> None:
    made = run("muscles")
    assert made.arrays["activations"].shape[0] == walk.num_frames
    assert made.arrays["activations"].min() >= 0.0
    assert made.arrays["activations"].max() <= 1.0 + 1e-6
    assert made.report["given"] > 0.8
    assert made.files["muscles.csv"].startswith(b"time")


def test_an_arm_reaches_where_it_is_asked_to(run: Any) -> None:
    made = run("reach", goals=[{"time_s": 0.3, "place": [0.2, 1.1, 0.3]}])
    assert len(made.report["missed_m"]) == 1
    assert made.files["arm.glb"][:4] == b"glTF"

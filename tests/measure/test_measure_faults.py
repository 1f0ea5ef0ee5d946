"""What is bad is named, and nothing else: broken walks, captures of other people, obstacles."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from oracles.stiff_walk import make_stiff_walk

import marey
from marey.locomotion import Engine, Slope
from marey.measure import measure_motion, read_typical
from marey.motion import Motion
from marey.world import Box, River, Stone, Table, Wall, World

from .broken_walks import bend_knee_backwards, drag_root, float_root, jump_root
from .conftest import stand

CAPTURED = ("16_47", "39_09", "43_01", "08_01", "39_04", "16_31")  # people who are not in the typical table
# Every walk, run and jump of people who are not in the typical table, except those on which limits were chosen
FRESH = (
    "08_02 08_03 08_07 08_08 08_10 16_10 16_15 16_16 16_31 16_32 16_57 39_03 39_04 39_05 39_06 39_07 39_08 39_10 "
    "39_12 39_13 39_14 127_03 127_13 127_14 127_17 127_19 127_20 127_29 127_30 127_31 127_32 127_33 127_34 "
    "127_35 127_36 127_37 127_38 91_40 91_41 91_42 91_46 91_47 91_48 91_49 91_50 91_51 91_52 91_53 91_57 143_10 "
    "143_11 143_12 143_13 143_14 143_15 143_16 13_19"
)
MOST_FALSE_ALARMS = 0.12  # one-frame flips and jumps that the captures have


def break_clip(motion: Motion) -> dict[str, Motion]:
    """The four bad walks, by the kind of fault that must be named."""
    middle = motion.num_frames // 2
    return {
        "slide": drag_root(motion),
        "backwards": bend_knee_backwards(motion, middle),
        "jump": jump_root(motion, middle),
        "float": float_root(motion),
    }


def check_broken(motion: Motion, also: dict[str, set[str]]) -> None:
    """Each bad walk has its fault named where it is, and no other kinds of fault than the good one and ``also``."""
    before = {fault.kind for fault in measure_motion(motion).faults}
    for kind, broken in break_clip(motion).items():
        faults = measure_motion(broken).faults
        named = [fault for fault in faults if fault.kind == kind]
        assert named, (motion.name, kind)
        extra = {fault.kind for fault in faults} - before - {kind} - also.get(kind, set())
        assert extra == set(), (motion.name, kind, [str(fault) for fault in faults])
        if kind in ("backwards", "jump"):
            middle = motion.num_frames // 2 / motion.rate_hz
            assert any(abs(fault.start_s - middle) < 1.5 / motion.rate_hz for fault in named)
        if kind == "float":
            assert named[0].size == pytest.approx(0.1, abs=0.07)
        if kind == "jump":
            assert named[0].size == pytest.approx(0.3, abs=0.03)


def test_four_bad_walks_are_named_on_the_walk_that_ships(walk: Motion) -> None:
    check_broken(make_stiff_walk(), {"slide": {"scrape", "drag"}})
    # A knee that bends backwards puts a sole on the floor that no other fault puts there
    check_broken(walk, {"slide": {"scrape", "drag"}, "backwards": {"drag"}})


@pytest.mark.mocap
@pytest.mark.parametrize("name", CAPTURED)
@pytest.mark.parametrize("step", [1, 4])
def test_four_bad_walks_are_named_on_captures_at_120_and_30_hz(mocap: Path, name: str, step: int) -> None:
    clip = marey.load(mocap / "cmu-bvh" / f"{name}.bvh")
    assert name not in read_typical()["walk"]["clips"]
    check_broken(clip[::step], {"slide": {"scrape", "drag"}})


@pytest.mark.real
@pytest.mark.parametrize(
    "pattern",
    [
        "deepmimic/humanoid3d_walk.txt",
        "kimodo-npz/*kimodo-soma-rp__01_*motion.npz",
        "kimodo-npz/*kimodo-soma-rp__05_*motion.npz",
        "locomujoco-npz/02-constspeed_reduced_humanoid.npz",
    ],
)
def test_four_bad_walks_are_named_on_bodies_of_other_tools(real: Path, pattern: str) -> None:
    check_broken(
        marey.load(next(real.glob(pattern))),
        {"slide": {"scrape", "drag"}, "backwards": {"pop", "slide", "drag", "scrape"}},
    )


@pytest.mark.mocap
def test_captures_of_other_people_are_mostly_silent(mocap: Path, capsys) -> None:
    table = {clip.split("_")[0] for kind in read_typical().values() for clip in kind["clips"]}
    assert table.isdisjoint({name.split("_")[0] for name in FRESH.split()})
    named = {}
    for name in FRESH.split():
        clip = marey.load(mocap / "cmu-bvh" / f"{name}.bvh", rate_hz=60.0 if name.startswith("143") else 120.0)
        faults = measure_motion(clip).faults
        if faults:
            named[name] = "; ".join(map(str, faults))
    rate = len(named) / len(FRESH.split())
    with capsys.disabled():
        print(
            f"\nfaults in {len(named)} of {len(FRESH.split())} captures ({100 * rate:.0f} %):",
            *named.items(),
            sep="\n  ",
        )
    assert rate <= MOST_FALSE_ALARMS


def test_the_table_names_its_clips_and_orders_its_ranges() -> None:
    table = read_typical()
    assert set(table) == {"walk", "run", "jump"}
    for kind in table.values():
        assert len(kind["clips"]) >= 15
        assert all(low <= high for low, high in kind["figures"].values())
    assert table["walk"]["figures"]["scraped_m_per_10m"][1] < 2.5


def test_a_figure_outside_the_range_is_marked(walk: Motion) -> None:
    dragged = measure_motion(drag_root(walk, 1.0), kind="walk")
    figure = next(one for one in dragged.figures if one.name == "stance_slip_median_mps")
    assert figure.high is not None
    assert figure.remark == "high"


def test_a_standing_body_inside_things_is_named_with_the_part() -> None:
    clip = stand()
    world = World(tables=(Table((0.75, 0.0), (0.3, 0.4), 1.5),), walls=(Wall((-1.0, 0.0), (1.0, 0.0), 0.1, 0.5),))
    found = measure_motion(clip, world=world)
    parts = Counter((fault.part, fault.sentence.split(" inside ")[1].split(",")[0]) for fault in found.faults)
    assert ("left hand", "table 1") in parts or ("left arm", "table 1") in parts
    assert ("left leg", "wall 1") in parts
    assert not any(part.startswith("right") and thing == "table 1" for part, thing in parts)
    assert found["obstacle_frames"] == clip.num_frames


def test_a_foot_in_a_river_is_named_and_one_on_a_stone_is_not() -> None:
    river = River((-2.0, 0.0), (2.0, 0.0), 1.0)
    wet = measure_motion(stand(), world=World(rivers=(river,)))
    assert {fault.part for fault in wet.faults} == {"left foot", "right foot"}
    assert all("stands in river 1" in str(fault) for fault in wet.faults)
    dry = measure_motion(stand(), world=World(rivers=(river,), stones=(Stone((0.0, 0.0), 0.6),)))
    assert dry.faults == ()


def test_a_body_on_a_box_floats_only_where_there_is_no_box() -> None:
    clip = stand()
    raised = replace(clip, root_positions=clip.root_positions + np.array([0.0, 0.3, 0.0]))
    assert [fault.kind for fault in measure_motion(raised).faults] == ["float"]
    assert "30 cm above the floor" in str(measure_motion(raised).faults[0])
    assert measure_motion(raised, world=World(boxes=(Box((0.0, 0.0), (1.0, 1.0), 0.3),))).faults == ()


def test_stairs_do_not_scrape(walk: Motion) -> None:
    # The way of the walk becomes a slope of 5 %: soles rest higher with every step
    rise = 0.05 * walk.root_positions[:, 2]
    sloped = replace(walk, root_positions=walk.root_positions + rise[:, None] * np.array([0.0, 1.0, 0.0]))
    assert measure_motion(sloped)["scraped_m_per_10m"] < 1.2 * measure_motion(walk)["scraped_m_per_10m"] + 0.5


def test_a_ground_that_is_given_is_what_soles_rest_on() -> None:
    slope = Slope(np.radians(8.0), start_m=2.0)
    engine = Engine(speed=1.2, ground=slope)
    engine.run(1.0, 60.0)
    motion = engine.run(6.0, 60.0)
    found = measure_motion(motion, kind="walk", ground=slope)
    assert found.faults == ()
    assert abs(found["sole_rest_height_median_m"]) < 0.005
    # It is the ground that counts: the same walk rests high over the level, and over a slope that is less steep
    for other in (None, Slope(np.radians(4.0), start_m=2.0)):
        faults = measure_motion(motion, kind="walk", ground=other).faults
        assert {fault.kind for fault in faults} == {"float"}

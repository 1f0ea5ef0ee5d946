"""Phases: how contact tracks are cut, named and ordered, and where the feet stand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey import samples
from marey.contacts import contact_phases, feet_down
from marey.lie import SO3
from marey.motion import Contacts, Motion, place
from marey.skeleton import HUMAN

NAMES = ("left_heel", "left_toe", "right_heel", "right_toe", "left_hand", "right_hand")


def track(left: str, right: str, hands: str = "") -> Contacts:
    """A contact track drawn with one letter per frame: ``x`` is planted."""
    hands = hands or "." * len(left)
    columns = [left, "." * len(left), "." * len(left), right, hands, "." * len(left)]
    return Contacts(NAMES, np.array([[c == "x" for c in column] for column in columns]).T)


def kinds(contacts: Contacts) -> list[tuple[str, int, int]]:
    return [(phase.kind, phase.start, phase.stop) for phase in contact_phases(contacts)]


def test_a_foot_is_down_when_its_heel_or_its_toe_is() -> None:
    flags = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], dtype=bool)
    down = feet_down(Contacts(NAMES[:4], flags))
    np.testing.assert_array_equal(down, [[True, False], [True, False], [False, True], [False, False]])


def test_phases_are_runs_of_the_same_planted_feet() -> None:
    contacts = track("xxxx....xxxx", "xx..xxxxxx..")
    assert kinds(contacts) == [("double", 0, 2), ("left", 2, 4), ("right", 4, 8), ("double", 8, 10), ("left", 10, 12)]


def test_double_support_names_the_trailing_foot_first() -> None:
    first, _, second = (p for p in contact_phases(track("xxxxxx..", "..xxxxxx")))
    assert (first.kind, second.kind) == ("left", "right")
    double = contact_phases(track("xxxxxx..", "..xxxxxx"))[1]
    assert double.planted == ("left", "right")
    assert contact_phases(track("..xxxxxx", "xxxxxx.."))[1].planted == ("right", "left")


def test_of_feet_that_landed_together_the_one_that_stays_leads() -> None:
    assert contact_phases(track("..xxxx..", "..xxxxxx"))[1].planted == ("left", "right")
    assert contact_phases(track("..xxxxxx", "..xxxx.."))[1].planted == ("right", "left")
    assert contact_phases(track("xxxxxx", "xxxx.."))[0].planted == ("right", "left")


def test_a_short_phase_joins_its_longer_neighbour() -> None:
    assert kinds(track("xxxxx.....", "xxxx......")) == [("double", 0, 4), ("flight", 4, 10)]
    assert kinds(track("xxxx......", "xxx.......")) == [("double", 0, 3), ("flight", 3, 10)]


def test_a_one_frame_flight_vanishes() -> None:
    assert kinds(track("xxxxx.....", "......xxxx")) == [("left", 0, 6), ("right", 6, 10)]


def test_the_shortest_phase_follows_the_frame_rate() -> None:
    contacts = track("xxxxxxxxxxxx....", "............xxxx")
    assert len(contact_phases(contacts, rate_hz=30.0)) == 2
    assert len(contact_phases(contacts, rate_hz=120.0)) == 1


def test_hands_are_planted_too() -> None:
    phases = contact_phases(track("xxxx........", "xxxx......xx", "..xxxxxxxx.."))
    assert [p.kind for p in phases] == ["double", "double", "hands", "right"]
    assert phases[1].planted == ("left", "right", "left_hand") and phases[2].planted == ("left_hand",)


@given(flags=st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_phases_tile_the_clip_and_none_is_short(flags: list[tuple[bool, bool, bool]]) -> None:
    names = ("left_toe", "right_heel", "left_hand")
    phases = contact_phases(Contacts(names, np.array(flags)), rate_hz=90.0)
    assert phases[0].start == 0 and phases[-1].stop == len(flags)
    assert all(a.stop == b.start and set(a.planted) != set(b.planted) for a, b in pairwise(phases))
    assert len(phases) == 1 or min(len(phase) for phase in phases) >= 6


def test_a_jump_is_double_support_flight_double_support() -> None:
    phases = contact_phases(replace(samples.jump(), contacts=None))
    assert [phase.kind for phase in phases] == ["double", "flight", "double"]
    assert phases[1].fall_mps2 == pytest.approx(-9.81, abs=1.5)  # [Safonova2006]_ F3
    assert phases[0].fall_mps2 is not None and abs(phases[0].fall_mps2) < 3.0


def test_a_walk_alternates_and_a_run_flies() -> None:
    assert {p.kind for p in contact_phases(samples.walk())} == {"left", "right", "double"}
    assert {p.kind for p in contact_phases(samples.run())} == {"left", "right", "flight"}
    doubles = [p.planted for p in contact_phases(samples.walk()) if p.kind == "double"]
    assert all(a == b[::-1] for a, b in pairwise(doubles))


def standing(frames: int = 60) -> Motion:
    return Motion(HUMAN, 60.0, np.tile(HUMAN.offsets[0], (frames, 1)), SO3.identity(frames, HUMAN.num_joints))


def test_a_body_that_neither_stands_nor_falls_is_unsupported() -> None:
    seated = replace(standing(), contacts=Contacts(NAMES, np.zeros((60, 6), dtype=bool)))
    assert [phase.kind for phase in contact_phases(seated)] == ["unsupported"]


@pytest.mark.parametrize("yaw", [-2.5, 0.0, 0.6, 3.0])
def test_plants_tell_where_the_feet_stand_and_point(yaw: float) -> None:
    motion = place(standing(), (1.0, -2.0), yaw)
    (phase,) = contact_phases(motion)
    assert [plant.foot for plant in phase.plants] == list(phase.planted)
    ball = motion.joint_positions()[0]
    for plant in phase.plants:
        joint = HUMAN.index(f"{plant.foot}_foot")
        np.testing.assert_allclose(plant.position[[0, 2]], ball[joint, [0, 2]], atol=1e-6)
        assert plant.position[1] == pytest.approx(0.0, abs=0.02)
        assert abs((plant.yaw_rad - yaw + np.pi) % (2 * np.pi) - np.pi) < 0.1
        assert plant.spread_m < 1e-9


def test_a_stance_has_one_plant_in_all_its_phases() -> None:
    phases = contact_phases(samples.walk())
    for before, after in pairwise(phases):
        kept = {p.foot: p for p in before.plants}
        for plant in after.plants:
            assert plant.foot not in kept or kept[plant.foot] is plant


def test_plants_of_a_walk_stay_put() -> None:
    plants = [plant for phase in contact_phases(samples.walk()) for plant in phase.plants]
    assert max(plant.spread_m for plant in plants) < 0.03


def test_a_bare_track_has_no_plants_and_no_fall() -> None:
    phase = contact_phases(track("xxxx", "xxxx"))[0]
    assert phase.plants == () and phase.fall_mps2 is None and len(phase) == 4

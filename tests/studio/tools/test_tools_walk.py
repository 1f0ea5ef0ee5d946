"""[Glardon2005]_ A48: every control of the walking tool changes the state that it names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marey.studio.tools import TOOLS


@pytest.fixture
def live(context: Any) -> Any:
    return TOOLS["walk"].run(context(seed=2), TOOLS["walk"].check({"speed": 1.2}))


def drive(live: Any, seconds: float, **first: Any) -> dict[str, Any]:
    answer = live.move(first)
    for _ in range(round(60 * seconds) - 1):
        answer = live.move({})
    return answer.facts


@pytest.mark.parametrize(
    ("what", "value"), [("speed", 1.6), ("run", 0.0), ("turn_rate", 0.4), ("leg_length_m", 0.8), ("speed", 0.0)]
)
def test_glardon_a48_each_control_changes_the_state_it_names(live: Any, what: str, value: float) -> None:
    live.move({"record": what != "leg_length_m"})  # a recording keeps its size
    facts = drive(live, 0.2, **{what: value, "over_s": 0.1})
    assert facts["asked"][what] == pytest.approx(value, abs=1e-6)
    engine = live.walk.active_character.engine
    shown = engine.leg_length_m if what == "leg_length_m" else getattr(engine.parameters, what)
    assert shown == pytest.approx(value, abs=1e-3)


def test_glardon_a48_a_change_takes_the_time_that_was_given(live: Any) -> None:
    drive(live, 0.2)
    assert 1.2 < drive(live, 0.5, speed=1.8, over_s=1.0)["speed_mps"] < 1.75
    assert drive(live, 0.7)["speed_mps"] == pytest.approx(1.8, abs=1e-6)


def test_glardon_a48_styles_change_the_weights(live: Any) -> None:
    styles = live.move({}).facts["styles"]
    name = next(iter(styles))
    after = drive(live, 0.2, style=name, over_s=0.1)["styles"]
    assert after[name] == 1.0
    assert sum(after.values()) == pytest.approx(1.0)


def test_glardon_a48_feet_are_held_or_not(live: Any) -> None:
    live.move({"hold_feet": False})
    assert not live.walk.active_character.engine.plants
    live.move({"hold_feet": True})
    assert live.walk.active_character.engine.plants


def test_glardon_a48_a_jump_starts_the_machine_and_leaves_the_ground(live: Any) -> None:
    drive(live, 1.0)
    live.move({"jump": {"length_m": 0.9}})
    states, down = set[str](), list[bool]()
    for _ in range(420):
        answer = live.move({})
        states.add(answer.facts["state"])
        down.append(bool(answer.arrays["goals_down"].any()))
    assert len(states) > 2
    assert not all(down)
    assert answer.facts["state"] == "locomotion"


def test_glardon_a48_an_obstacle_is_decided_about_and_cleared(live: Any) -> None:
    (thing,) = live.move({"obstacle": True}).facts["obstacles"]
    assert thing["words"] and thing["label"]
    assert live.move({"clear_obstacles": True}).facts["obstacles"] == []


def test_glardon_a48_time_stops_goes_on_and_takes_single_steps(live: Any) -> None:
    here = live.move({"pause": True}).arrays["pose_root"]
    np.testing.assert_array_equal(live.move({}).arrays["pose_root"], here)
    there = live.move({"single_step": True}).arrays["pose_root"]
    assert 0.0 < np.linalg.norm(there - here) < 0.05
    assert np.linalg.norm(live.move({"pause": False}).arrays["pose_root"] - there) > 0.0


def test_glardon_a48_footprints_goals_and_ghosts_are_there_to_draw(live: Any) -> None:
    drive(live, 2.0)
    answer = live.move({"ghosts": True})
    assert len(answer.facts["footprints"]) >= 2
    assert answer.arrays["goals"].shape == (4, 3)
    ahead = answer.arrays["ghost_roots"][:, 2] - answer.arrays["pose_root"][2]
    assert (np.diff(ahead) > 0.0).all() and ahead[0] > 0.1


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e308, -5.0, 99999.0, "fast", None, []])
def test_a_bad_value_harms_nothing(live: Any, bad: Any) -> None:
    facts = drive(live, 0.2, speed=bad, turn_rate=bad, jump=bad, style=bad)
    assert np.isfinite(facts["speed_mps"])
    assert np.isfinite(live.end({}).motion.root_positions).all()

"""Falls: who is bent over, too low, or on something other than feet has fallen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import marey
from marey.control.balance import (
    DEFAULT_FALLS,
    Fall,
    FallSettings,
    detect_fall,
    find_grounded_part,
    trunk_angle,
    trunk_direction,
)
from marey.control.tracking import make_figure
from marey.lie import SO3
from marey.motion import Motion
from marey.simulate import Simulator
from marey.skeleton import Pose, role_map


@pytest.fixture(scope="module")
def clip() -> Motion:
    """The walk that ships."""
    return marey.samples.walk(seconds=1.0)


@pytest.fixture
def simulator(clip: Motion) -> Simulator:
    """Who walks in it, all joints free."""
    figure = make_figure(clip, None)
    figure.reset(clip[0])
    return figure


def bent(pose: Pose, angle_rad: float) -> Pose:
    """A pose that is bent forwards at both hips: the pelvis turns, the legs turn back."""
    roles, wxyz = role_map(pose.skeleton), np.array(pose.rotations.wxyz)
    turn = SO3.exp(np.array([angle_rad, 0.0, 0.0]))
    wxyz[0] = (turn @ pose.rotations[0]).wxyz
    for side in ("left", "right"):
        hip = roles[f"{side}_hip"]
        wxyz[hip] = (pose.rotations[0].inverse() @ turn.inverse() @ pose.rotations[0] @ pose.rotations[hip]).wxyz
    return replace(pose, rotations=SO3(wxyz))


@pytest.mark.parametrize("angle_deg", [0.0, 20.0, 60.0, 90.0])
def test_lean_is_the_angle_between_trunks(clip: Motion, angle_deg: float) -> None:
    pose = clip[0]
    leaning = bent(pose, np.radians(angle_deg))
    found = trunk_angle(clip.skeleton, leaning.joint_positions(), pose.joint_positions())
    assert np.degrees(found) == pytest.approx(angle_deg, abs=1e-4)


def test_trunk_of_who_stands_points_up(clip: Motion) -> None:
    assert trunk_direction(clip.skeleton, clip[0].joint_positions())[1] > 0.95


def test_doubled_over_figure_has_fallen_though_its_feet_stand(simulator: Simulator) -> None:
    state = simulator.state
    assert detect_fall(simulator, state, 0.95, 1.0, lean_rad=0.9 * DEFAULT_FALLS.lean_rad) is None
    found = detect_fall(simulator, state, 0.95, 1.0, lean_rad=1.1 * DEFAULT_FALLS.lean_rad)
    assert found is not None
    assert str(found) == f"doubled over at {state.time_s:.2f} s"


def test_figure_that_is_too_low_has_fallen(simulator: Simulator) -> None:
    assert detect_fall(simulator, simulator.state, DEFAULT_FALLS.low_height + 0.01, 1.0) is None
    found = detect_fall(simulator, simulator.state, DEFAULT_FALLS.low_height - 0.01, 1.0)
    assert found is not None
    assert found.cause == "low"


def test_thresholds_of_a_fall_are_settings(simulator: Simulator) -> None:
    assert detect_fall(simulator, simulator.state, 0.98, 1.0) is None
    found = detect_fall(simulator, simulator.state, 0.98, 1.0, settings=FallSettings(low_height=0.99))
    assert found is not None
    assert found.cause == "low"


def test_capture_point_beyond_a_step_is_a_lost_balance(simulator: Simulator) -> None:
    found = detect_fall(simulator, simulator.state, 1.0, 1.0, 0.7)
    assert found is not None
    assert found.cause == "balance"


def test_limp_figure_falls_on_something_other_than_its_feet(simulator: Simulator) -> None:
    hit = None
    for _ in range(150):
        simulator.step(0.01)
        hit = find_grounded_part(simulator)
        if hit is not None:
            break
    assert hit is not None
    roles = role_map(simulator.body.skeleton)
    assert simulator.body.skeleton.index(hit) not in {roles["left_ankle"], roles["right_ankle"]}
    assert find_grounded_part(simulator, lambda _: True) is None
    found = detect_fall(simulator, simulator.state, 1.0, 1.0)
    assert found is not None
    assert str(found).startswith(f"fell on its {hit} at")


def test_fall_tells_when_and_how() -> None:
    assert str(Fall(1.5, "low")) == "sank at 1.50 s"
    assert str(Fall(0.25, "balance")) == "lost its balance at 0.25 s"
    assert str(Fall(0.25, "Head")) == "fell on its Head at 0.25 s"

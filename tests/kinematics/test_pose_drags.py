"""Drags of half a metre in a pose space: within three deviations, without flips, on feet that stay."""

from __future__ import annotations

import numpy as np
import pytest

from marey.io import load
from marey.kinematics import PointTask, solve_ik
from marey.lie import geodesic_distance
from marey.models import PGA

FITTED = ("07_01", "08_01", "35_01", "39_01")
SHOWN = ("02_01", "16_15", "69_02", "82_12", "132_18")  # people who are not in the fit
HANDLES = ("LeftHand", "RightHand", "Head", "Hips")
FEET = ("LeftFoot", "RightFoot")
OPTIONS = {"limits": None, "feet": "free", "on_failure": "return"}


def drag(model, clip, frame, handle, way, variant, steps=50):
    """Largest turn of a step of 1 cm [rad], largest coordinate [deviations], largest way of a pinned ankle [m]."""
    index, places = clip.skeleton.index, clip.joint_positions()[frame]
    ends = [PointTask(name, places[index(name)]) for name in (*FEET, "Head", "LeftHand", "RightHand")]
    pose = solve_ik(model, ends, start=clip[frame], follow=False, **OPTIONS).pose
    places, last, worst = pose.joint_positions(), None, np.zeros(3)
    feet = [PointTask(name, places[index(name)], weight=100.0) for name in FEET]
    for step in range(1, steps + 1):
        goal = PointTask(handle, places[index(handle)] + 0.01 * step * way, priority=1)
        last = solve_ik(model, [*feet, goal], start=pose if last is None else last, variant=variant, **OPTIONS)
        turn = geodesic_distance(pose.rotations, last.pose.rotations).max()
        pose = last.pose
        slid = max(np.linalg.norm(pose.joint_positions()[index(name)] - places[index(name)]) for name in FEET)
        worst = np.maximum(worst, [turn, np.abs(last.coordinates / model.deviations).max(), slid])
    return worst


@pytest.mark.mocap
@pytest.mark.parametrize("variant", ["canonical", "kinetic"])
@pytest.mark.parametrize(
    "count", [pytest.param(100, marks=pytest.mark.slow), pytest.param(3, id="three of them, half as long")]
)
def test_pose_space_drags_stay_in_the_style_and_on_their_feet(mocap, variant, count):
    folder = mocap / "cmu-bvh"
    model = PGA(explained=0.95).fit([load(folder / f"{name}.bvh")[::4] for name in FITTED])
    clips = [load(folder / f"{name}.bvh") for name in SHOWN[:count]]
    i = np.arange(100) + 0.5
    polar, azimuth = np.arccos(1.0 - 0.02 * i), np.pi * (1.0 + 5.0**0.5) * i
    ways = np.stack([np.cos(azimuth) * np.sin(polar), np.cos(polar), np.sin(azimuth) * np.sin(polar)], axis=1)
    worst = np.zeros(3)
    for number in range(0, 100, 100 // count):
        clip = clips[number % len(clips)]
        frame = number // 5 * clip.num_frames // 20
        found = drag(model, clip, frame, HANDLES[number // 5 % 4], ways[number], variant, 50 if count == 100 else 25)
        worst = np.maximum(worst, found)
    assert worst[0] <= 0.2
    assert worst[1] <= 3.0 + 1e-9
    assert worst[2] < 1e-3

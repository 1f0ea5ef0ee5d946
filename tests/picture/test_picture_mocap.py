"""Strips of captured clips: the layout that suits each, and bodies where their joints are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.contacts import detect_contacts
from marey.io import load
from marey.motion import Motion
from marey.picture import CapsuleBatch, film_strip, ground_level, motion_scene, render
from marey.picture.bodies import PALETTES, foot_prints
from marey.picture.motions import is_travelling, strip_frames

pytestmark = pytest.mark.mocap


def clip(mocap, name) -> Motion:
    return load(mocap / "cmu-bvh" / f"{name}.bvh")


@pytest.mark.parametrize(
    ("name", "travels"),
    [("07_01", True), ("35_17", True), ("38_03", True), ("16_09", False), ("90_02", False), ("39_11", False)],
)
def test_walks_runs_and_circles_travel_jumps_cartwheels_and_walks_there_and_back_do_not(mocap, name, travels):
    motion = clip(mocap, name)
    assert is_travelling(motion, strip_frames(motion, 8, by_movement=False)) is travels


def test_a_walk_leaves_prints_on_alternate_sides_along_its_way(mocap):
    motion = clip(mocap, "07_01")
    prints = foot_prints(motion, detect_contacts(motion), PALETTES[0])
    assert 4 <= len(prints) <= 9  # 2.6 s at 111 steps a minute, cut at both ends
    lefts = (prints.colours == PALETTES[0].left).all(axis=1)
    forward = motion.root_positions[-1, [0, 2]] - motion.root_positions[0, [0, 2]]
    order = np.argsort(0.5 * (prints.starts + prints.ends) @ forward)
    assert (np.diff(lefts[order].astype(int)) != 0).all()


def test_a_walk_is_drawn_at_its_joints_on_its_ground(mocap):
    motion, size, frames = clip(mocap, "07_01"), (640, 360), [0, 100, 200]
    scene = motion_scene(motion, frames, size=size)
    empty = render(replace(scene, solids=CapsuleBatch.none()), size).astype(int)
    changed = np.abs(render(scene, size) - empty).max(axis=2) > 6
    u, v, _ = scene.camera.project(motion.joint_positions()[frames].reshape(-1, 3), size).T
    assert changed[v.astype(int), u.astype(int)].mean() > 0.98
    assert abs(ground_level(motion, detect_contacts(motion))) < 0.06


def test_a_strip_of_a_walk_fills_its_width(mocap):
    image = film_strip(clip(mocap, "07_01"), width=800)
    used = np.flatnonzero((image.min(axis=2) < 150).any(axis=0))
    assert image.shape[1] == 800 and used[0] < 80 and used[-1] > 720

"""The length of a jump by geometry: a stiff body carried over the ground."""

from __future__ import annotations

import numpy as np
import pytest

from marey import HUMAN, Motion, Pose
from marey.motion import Contacts, contact_positions
from marey.pipeline.measures import check_motion
from marey.skeleton import contact_points
from marey.world import Event, GroundPose, Sketch

CARRIED_M, FRAMES = 1.5, 20


def leap() -> Motion:
    """Stand, fly by CARRIED_M, stand; feet side by side."""
    rest, names = Pose.rest(HUMAN), contact_points(HUMAN).names
    share = np.clip((np.arange(3 * FRAMES) - FRAMES) / FRAMES, 0.0, 1.0)
    roots = rest.root_position + np.stack([0.0 * share, 0.8 * share * (1.0 - share), CARRIED_M * share], axis=1)
    wxyz = np.repeat(rest.rotations.wxyz[None], 3 * FRAMES, axis=0)
    in_air = (share > 0.0) & (share < 1.0)
    active = np.repeat(~in_air[:, None], len(names), axis=1)
    active[:, [n for n, name in enumerate(names) if name.endswith("hand")]] = False
    return Motion(HUMAN, 60.0, roots, type(rest.rotations)(wxyz), contacts=Contacts(names, active))


@pytest.mark.parametrize(("off_m", "is_long_enough"), [(-0.03, True), (0.01, True), (0.05, False)])
def test_a_jump_is_as_long_as_the_ground_between_toes_and_heels(off_m, is_long_enough):
    motion = leap()
    points, names = contact_positions(motion)[0], contact_points(HUMAN).names
    toes, heels = ([points[n, 2] for n, name in enumerate(names) if name.endswith(part)] for part in ("toe", "heel"))
    asked = CARRIED_M - (max(toes) - min(heels)) + off_m
    jump = Event("jump", at=(0.0, 0.5 * CARRIED_M), length_m=asked)
    sketch = Sketch(GroundPose((0.0, 0.0)), GroundPose((0.0, CARRIED_M)), events=(jump,))
    told = [line for line in check_motion(motion, sketch).broken if "from toe to heel" in line]
    assert (not told) == is_long_enough

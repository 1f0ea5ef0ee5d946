"""The standing unit: how a person stands who was only seen walking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.locomotion._model_file import HUMAN_LEG
from marey.locomotion._units import Unit, mean_rotations, unit_rows
from marey.skeleton import HUMAN, joint_positions

KNEE_RAD: Final = float(np.deg2rad(12.0))  # legs reach 99.4 % of their length: soft knees, room for foot plants
LOWER: Final = ("pelvis", "hip", "knee", "ankle", "foot")


def standing_row(units: Sequence[Unit], means: FloatArray) -> FloatArray:
    """Row ``(D,)`` of a person at rest: feet flat under the hips, soft knees, the upper body as it is on average.

    The upper body is the mean over the person's walks (runs where there are none), made alike on both sides.
    """
    walks = [unit for unit in units if unit.gait == "walk"] or list(units)
    wxyz = symmetric(mean_rotations(np.concatenate([unit.wxyz for unit in walks])))
    for j, name in enumerate(HUMAN.names):
        if name.endswith(LOWER):
            wxyz[j] = SO3.exp(_bend(name)).wxyz
    root = np.zeros((1, 3))
    ankle = joint_positions(HUMAN, root, wxyz[None])[0, HUMAN.index("right_ankle"), 1]
    root[0, 1] = HUMAN.rest_positions()[HUMAN.index("right_ankle"), 1] - ankle
    return unit_rows(root / HUMAN_LEG, wxyz[None], means)[0]


def _bend(name: str) -> FloatArray:
    """Rotation vector ``(3,)`` [rad] of a joint of a softly bent leg whose foot stays level."""
    share = {"hip": -0.5, "knee": 1.0, "ankle": -0.5}.get(name.split("_")[-1], 0.0)
    return np.array([share * KNEE_RAD, 0.0, 0.0])


def symmetric(wxyz: FloatArray) -> FloatArray:
    """Mean ``(J, 4)`` of a pose and its mirror image."""
    swap = [HUMAN.index(_other(name)) for name in HUMAN.names]
    mirrored = wxyz[swap] * np.array([1.0, 1.0, -1.0, -1.0])
    return SO3(wxyz).slerp(SO3(mirrored), 0.5).wxyz.copy()


def _other(name: str) -> str:
    for a, b in (("left", "right"), ("right", "left")):
        if name.startswith(a):
            return b + name.removeprefix(a)
    return name

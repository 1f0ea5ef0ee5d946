"""Feet of captured units laid flat on the ground: what the sensors of one person had wrong, taken out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.lie import SO3
from marey.locomotion._units import MotionUnit
from marey.skeleton import HUMAN, joint_frames

FLAT_PHASES: Final = {"walk": (0.12, 0.28), "run": (0.06, 0.13)}  # phases at which the whole sole is down
MAX_PITCH_RAD: Final = float(np.deg2rad(12.0))  # more is no offset of a capture but how somebody runs
SIDES: Final = ("right", "left")
LATERAL_AXIS: Final = np.array([1.0, 0.0, 0.0])


def level_feet(units: Sequence[MotionUnit], leg_length_m: float) -> list[MotionUnit]:
    """Units whose feet are flat, and on the ground, when the whole sole is down.

    The pitch of a foot against the shank depends on where its markers sat: it is measured for each person and foot as
    the mean over all walks (runs where there is no walk), and taken out of the ankle. The height of the root is then
    set for each unit so that the ankles are at the height of a standing body's.
    """
    people = dict.fromkeys(unit.subject for unit in units)
    pitches = {person: foot_pitches([unit for unit in units if unit.subject == person]) for person in people}
    return [_ground_unit(_pitch_ankles(unit, pitches[unit.subject]), leg_length_m) for unit in units]


def foot_pitches(units: Sequence[MotionUnit]) -> FloatArray:
    """Mean pitch ``(2,)`` [rad] of right and left foot against level while flat; positive has the toes too low."""
    told = [unit for unit in units if unit.gait == "walk"] or list(units)
    pitches = np.mean([[_measure_pitch(unit, side) for side in (0, 1)] for unit in told], axis=0)
    return np.clip(pitches, -MAX_PITCH_RAD, MAX_PITCH_RAD)


def flat_frames(unit: MotionUnit, side: int) -> BoolArray:
    """Whether the whole sole of a foot is down, at each frame ``(N,)``."""
    begin, end = FLAT_PHASES[unit.gait]
    phases = (np.arange(unit.num_frames) / unit.num_frames - 0.5 * side) % 1.0
    return (phases >= begin) & (phases <= end)


def _measure_pitch(unit: MotionUnit, side: int) -> float:
    """How much steeper than at rest the line from ankle to ball points down [rad], while the foot is flat."""
    ankle, ball = (HUMAN.index(f"{SIDES[side]}_{part}") for part in ("ankle", "foot"))
    positions, _ = joint_frames(HUMAN, unit.root, unit.wxyz)
    down = _line_slope(positions[:, ball] - positions[:, ankle])[flat_frames(unit, side)]
    return float(down.mean() - _line_slope(HUMAN.offsets[ball]))


def _line_slope(line: FloatArray) -> FloatArray:
    return np.arctan2(-line[..., 1], np.hypot(line[..., 0], line[..., 2]))


def _pitch_ankles(unit: MotionUnit, pitches: FloatArray) -> MotionUnit:
    """A unit whose ankles are pitched up by ``(2,)`` [rad] about the foot's own axis across."""
    wxyz = unit.wxyz.copy()
    for side in (0, 1):
        ankle = HUMAN.index(f"{SIDES[side]}_ankle")
        wxyz[:, ankle] = (SO3(wxyz[:, ankle]) @ SO3.exp(-pitches[side] * LATERAL_AXIS)).wxyz
    return replace(unit, wxyz=wxyz)


def _ground_unit(unit: MotionUnit, leg_length_m: float) -> MotionUnit:
    """A unit whose ankles are as high as a standing body's while their feet are flat; of a run, the lower ankle."""
    positions, _ = joint_frames(HUMAN, unit.root * leg_length_m, unit.wxyz)
    lifts: list[float] = []
    for side in (0, 1):
        parts = [HUMAN.index(f"{SIDES[side]}_{part}") for part in ("ankle", "foot")]
        rest = HUMAN.rest_positions()[parts, 1]
        heights = positions[flat_frames(unit, side)][:, parts, 1] - rest
        lifts.append(float(heights[:, 0].mean() if unit.gait == "walk" else heights.min(axis=1).mean()))
    root = unit.root.copy()
    root[:, 1] -= np.mean(lifts) / leg_length_m
    return replace(unit, root=root)

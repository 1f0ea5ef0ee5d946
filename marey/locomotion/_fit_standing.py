"""The standing unit: how a person stands who was only seen walking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.locomotion._model_file import HUMAN_LEG_M
from marey.locomotion._units import MotionUnit, joint_means, unit_rows
from marey.motion import Motion, centre_of_mass
from marey.skeleton import HUMAN, joint_positions

STANDING_KNEE_RAD: Final = float(
    np.deg2rad(12.0)
)  # legs reach 99.4 % of their length: soft knees, room for foot plants
STANDING_COM_FRACTION: Final = 0.38  # [-] of the way from ankle to ball: where people stand
PROBE_RAD: Final = 0.01
STANDING_HEAD_AHEAD_M: Final = 0.03  # [m] how far the head of a standing body is ahead of its pelvis
NUM_SECANT_STEPS: Final = 4  # of secants that have settled after three
LOWER_BODY_PARTS: Final = ("pelvis", "hip", "knee", "ankle", "foot")


def build_standing_rows(units: Sequence[MotionUnit], people: Sequence[str], means: FloatArray) -> FloatArray:
    """Rows ``(K, D)`` of people at rest; who was only seen running stands as the others do on average."""
    walks = [unit for unit in units if unit.gait == "walk"]
    own = {person: [unit for unit in walks if unit.subject == person] or walks for person in people}
    return np.stack([build_standing_row(own[person], means) for person in people])


def build_standing_row(walks: Sequence[MotionUnit], means: FloatArray) -> FloatArray:
    """Row ``(D,)`` of a person at rest: feet flat under the hips, soft knees, the upper body as it is on average.

    The upper body is the mean over the walks, made alike on both sides.
    """
    wxyz = symmetrise_pose(joint_means(np.concatenate([unit.wxyz for unit in walks])))
    spine = HUMAN.index("spine1")
    wxyz[spine] = (SO3(wxyz[0]) @ SO3(wxyz[spine])).wxyz
    for j, name in enumerate(HUMAN.names):
        if name.endswith(LOWER_BODY_PARTS):
            wxyz[j] = SO3.exp(_soft_bend(name)).wxyz
    wxyz = balance_standing_pose(wxyz)
    root = np.zeros((1, 3))
    ankle = joint_positions(HUMAN, root, wxyz[None])[0, HUMAN.index("right_ankle"), 1]
    root[0, 1] = HUMAN.rest_positions()[HUMAN.index("right_ankle"), 1] - ankle
    return unit_rows(root / HUMAN_LEG_M, wxyz[None], means)[0]


def balance_standing_pose(wxyz: FloatArray) -> FloatArray:
    """Straighten a standing pose ``(J, 4)``: its head over its pelvis, its centre of mass over its feet."""
    spine = HUMAN.index("spine1")
    upright = _solve_secant(
        wxyz, lambda pose, angle: _pitch_joints(pose, {spine: angle}), _head_ahead, STANDING_HEAD_AHEAD_M
    )
    legs = [(HUMAN.index(f"{side}_hip"), HUMAN.index(f"{side}_ankle")) for side in ("left", "right")]
    signs = {joint: sign for pair in legs for joint, sign in zip(pair, (1.0, -1.0), strict=True)}
    return _solve_secant(
        upright,
        lambda pose, angle: _pitch_joints(pose, {j: sign * angle for j, sign in signs.items()}),
        _com_over_feet,
        STANDING_COM_FRACTION,
    )


def _solve_secant(
    pose: FloatArray,
    turn: Callable[[FloatArray, float], FloatArray],
    measure: Callable[[FloatArray], float],
    goal: float,
) -> FloatArray:
    """Turn a pose until a measure of it reaches a goal, by secants."""
    for _ in range(NUM_SECANT_STEPS):
        here, there = measure(pose), measure(turn(pose, PROBE_RAD))
        pose = turn(pose, PROBE_RAD * (goal - here) / (there - here))
    return pose


def _pitch_joints(wxyz: FloatArray, angles: Mapping[int, float]) -> FloatArray:
    """Pitch some joints by angles [rad] about the parent's axis across."""
    out = wxyz.copy()
    for joint, angle in angles.items():
        out[joint] = (SO3.exp(np.array([angle, 0.0, 0.0])) @ SO3(out[joint])).wxyz
    return out


def _head_ahead(wxyz: FloatArray) -> float:
    """How far [m] the head is ahead of the pelvis."""
    positions = joint_positions(HUMAN, np.zeros((1, 3)), wxyz[None])[0]
    return float(positions[HUMAN.index("head"), 2] - positions[0, 2])


def _com_over_feet(wxyz: FloatArray) -> float:
    """Where the centre of mass is between ankles (0) and balls of the feet (1)."""
    motion = Motion(HUMAN, 1.0, np.zeros((1, 3)), SO3(wxyz[None]))
    ankle, ball = (motion.joint_positions()[0, HUMAN.index(f"right_{part}"), 2] for part in ("ankle", "foot"))
    return float((centre_of_mass(motion)[0, 2] - ankle) / (ball - ankle))


def _soft_bend(name: str) -> FloatArray:
    """Rotation vector ``(3,)`` [rad] of a joint of a softly bent leg whose foot stays level."""
    share = {"hip": -0.5, "knee": 1.0, "ankle": -0.5}.get(name.split("_")[-1], 0.0)
    return np.array([share * STANDING_KNEE_RAD, 0.0, 0.0])


def symmetrise_pose(wxyz: FloatArray) -> FloatArray:
    """Mean ``(J, 4)`` of a pose and its mirror image."""
    swap = [HUMAN.index(_opposite_side(name)) for name in HUMAN.names]
    mirrored = wxyz[swap] * np.array([1.0, 1.0, -1.0, -1.0])
    return SO3(wxyz).slerp(SO3(mirrored), 0.5).wxyz.copy()


def _opposite_side(name: str) -> str:
    for a, b in (("left", "right"), ("right", "left")):
        if name.startswith(a):
            return b + name.removeprefix(a)
    return name

"""Smooth tracks of a moving body in its own units, for the cues of the time base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.motion._filter import lowpass_values
from marey.motion._mass import mass_weights
from marey.motion._motion import Motion
from marey.skeleton import RoleMap, foot_points, role_map

GRAVITY: Final = 9.81  # [m/s²]
SMOOTHING_HZ: Final = 9.0  # above the bandwidth of whole-body motion, below marker noise
MIN_FRAMES: Final = 30
MAX_FRAMES: Final = 2000  # the busiest stretch of this length is enough, and keeps long clips cheap
JUMP: Final = 0.3  # [leg] a root that moves this far in one frame was not followed
UPRIGHT: Final = 0.6  # [leg] height of the centre of mass: 1.1 standing, 0.8 seated, 0.4 on all fours
SIDES: Final = ("left_", "right_")
LEVEL: Final = [0, 2]
_LEGS: Final = tuple(side + part for side in SIDES for part in ("hip", "knee", "ankle"))
_ARMS: Final = tuple(side + part for side in SIDES for part in ("shoulder", "elbow", "wrist"))


@dataclass(frozen=True, slots=True, eq=False)
class BodyTracks:
    r"""Smooth tracks of the joints that matter, in units of leg length and :math:`\sqrt{leg/g}`: gravity is 1."""

    step: float  # time between frames
    position: dict[str, FloatArray]  # (F, 3) by role, and "com"
    velocity: dict[str, FloatArray]
    acceleration: dict[str, FloatArray]
    height: FloatArray  # (2, F) of each foot's lowest joint above the floor
    speed: FloatArray  # (2, F) of each foot's slower joint
    down: BoolArray  # (2, F) feet that stand: still, near the floor, under a body that neither lies nor leans on a hand
    airborne: BoolArray  # (F,) both feet move above the floor and no hand is near it
    leg_m: float

    def frames(self, duration: float) -> int:
        """How many frames a duration [unit] takes, at least two."""
        return max(2, round(duration / self.step))


def find_body(motion: Motion, roles: RoleMap | None = None) -> BodyTracks | None:
    """Tracks for the cues, or ``None`` if the clip has no legs, is too short, or is not of human size."""
    roles = role_map(motion.skeleton) if roles is None else roles
    if any(role not in roles for role in _LEGS):
        return None
    used = [role for role in (*_LEGS, *_ARMS, "neck", "head") if role in roles]
    joints = motion.joint_positions()
    points = np.concatenate([joints[:, [roles[role] for role in used]], _ball_positions(motion, roles, joints)], axis=1)
    used += [side + "foot" for side in SIDES]
    leg = _leg_length(points, used)
    if not 0.3 < leg < 1.5:
        return None
    unit_s = float(np.sqrt(leg / GRAVITY))
    points = _steady_stretch(points / leg)
    cutoff = min(SMOOTHING_HZ, 0.4 * motion.rate_hz)
    if len(points) < MIN_FRAMES:
        return None
    return _build_tracks(lowpass_values(points, motion.rate_hz, cutoff), used, 1.0 / (motion.rate_hz * unit_s), leg)


def _ball_positions(motion: Motion, roles: RoleMap, joints: FloatArray) -> FloatArray:
    """Balls of the feet ``(F, 2, 3)``: their joints, or where a foot without toes has them."""
    if all(side + "foot" in roles for side in SIDES):
        return joints[:, [roles[side + "foot"] for side in SIDES]]
    feet = foot_points(motion.skeleton, roles)
    return feet.positions(*motion.joint_frames())[:, [feet.index(side + "ball") for side in SIDES]]


def _leg_length(points: FloatArray, used: list[str]) -> float:
    hip, knee, ankle = (points[:, used.index("left_" + part)] for part in ("hip", "knee", "ankle"))
    return float(np.median(np.linalg.norm(hip - knee, axis=1) + np.linalg.norm(knee - ankle, axis=1)))


def _steady_stretch(points: FloatArray) -> FloatArray:
    """The longest stretch without jumps of the root, cut to the busiest ``MAX_FRAMES``."""
    steps = np.linalg.norm(np.diff(points[:, 0], axis=0), axis=1)
    edges = np.concatenate([[0], np.flatnonzero(steps > JUMP) + 1, [len(points)]])
    longest = int(np.argmax(np.diff(edges)))
    points = points[edges[longest] : edges[longest + 1]]
    if len(points) <= MAX_FRAMES:
        return points
    travelled = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(points, axis=0)).sum(axis=(1, 2)))])
    start = int(np.argmax(travelled[MAX_FRAMES - 1 :] - travelled[: len(points) - MAX_FRAMES + 1]))
    return points[start : start + MAX_FRAMES]


def _build_tracks(points: FloatArray, used: list[str], step: float, leg_m: float) -> BodyTracks:
    weights = mass_weights(frozenset(used))
    names = [*used, "com"]
    centre = np.einsum("p,fpi->fi", [weights.get(role, 0.0) for role in used], points)
    points = np.concatenate([points, centre[:, None]], axis=1)
    velocities = np.gradient(points, step, axis=0)
    accelerations = np.gradient(velocities, step, axis=0)
    position, velocity, acceleration = (
        {name: values[:, k] for k, name in enumerate(names)} for values in (points, velocities, accelerations)
    )
    height = np.stack([np.minimum(position[s + "ankle"][:, 1] - 0.095, position[s + "foot"][:, 1]) for s in SIDES])
    floor = np.percentile(height.min(axis=0), 5)
    speed = np.stack([np.minimum(row_norms(velocity[s + "ankle"]), row_norms(velocity[s + "foot"])) for s in SIDES])
    for values in position.values():
        values[:, 1] -= floor
    height -= floor
    hands = np.full(len(points), np.inf)
    for side in SIDES:
        hands = np.minimum(hands, position[side + "wrist"][:, 1] if side + "wrist" in position else np.inf)
    upright = (position["com"][:, 1] > UPRIGHT) & (hands > 0.25)
    down = (speed < 0.16) & (height < 0.12) & upright
    moving = (speed > 0.21) & (height > 0.024)
    airborne = moving[0] & moving[1] & (hands > 0.42)
    return BodyTracks(step, position, velocity, acceleration, height, speed, down, airborne, leg_m)


def row_norms(vectors: FloatArray) -> FloatArray:
    return np.sqrt((vectors**2).sum(axis=-1))

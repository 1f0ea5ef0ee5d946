"""A clip put back on its floor: levelled by where its feet stand and where its weight is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.dynamics import Body
from marey.lie import SO3
from marey.motion import Contacts, Motion, contact_positions, find_runs
from marey.skeleton import contact_points

PLANT_ERROR_M: Final = 0.02  # [m] height of a heel or toe that stands, as captures have it
BALANCE_ERROR_M: Final = 0.05  # [m] mean distance of the weight from the middle of the feet
MIN_PLANTED: Final = 8  # frames of contact that show where the floor is
LIFT_M: Final = 0.05  # a clip that stands farther from the floor is set down
TILT_RAD: Final = 0.03  # one that leans more is levelled
MIN_SIGNIFICANCE: Final = 3.0  # standard deviations
MAX_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class _Stance:
    plants: FloatArray  # (N, 3) [m] median place of every contact
    weight: FloatArray  # (3,) [m] mean of the centre of mass over the middle of the feet that stand


def level_motion(motion: Motion, body: Body, track: Contacts) -> Motion:
    """The clip turned and lowered as a whole until its feet stand on a level floor; as it is if they do already.

    The tilt is the one that best explains the heights of the plants (2 cm each) and the weight beside the feet (5 cm):
    a line of footprints shows its own slope, and balance shows the lean to its sides.
    """
    stance = _measure_stance(motion, body, track)
    if stance is None:
        return motion
    level = _level_once(motion, stance)
    height = float(np.median(_planted_positions(level, track)[:, 1]))
    if abs(height) < LIFT_M and level is motion:
        return motion
    return replace(level, root_positions=level.root_positions - [0.0, height, 0.0], source=None)


def _level_once(motion: Motion, stance: _Stance) -> Motion:
    turns, is_sure = list[SO3](), False
    moved = stance
    for _ in range(MAX_ROUNDS):
        turn, spread = _estimate_tilt(moved)
        is_sure = is_sure or float(np.linalg.norm(turn / spread)) > MIN_SIGNIFICANCE
        turns.append(SO3.exp(np.array([turn[0], 0.0, turn[1]])))
        moved = _Stance(turns[-1] @ moved.plants, turns[-1] @ moved.weight)
    R = reduce(lambda first, then: then @ first, turns)
    if not is_sure or np.linalg.norm(R.log()) < TILT_RAD:
        return motion
    middle = stance.plants.mean(axis=0)
    wxyz = motion.rotations.wxyz.copy()
    wxyz[:, 0] = (R @ motion.rotations[:, 0]).wxyz
    return replace(
        motion, root_positions=middle + R @ (motion.root_positions - middle), rotations=SO3(wxyz), source=None
    )


def _estimate_tilt(stance: _Stance) -> tuple[FloatArray, FloatArray]:
    r"""Turn about X and Z ``(2,)`` [rad] and its standard deviation.

    Least squares on :math:`y_i + \omega_z x_i - \omega_x z_i = h` and on the weight, :math:`v_x = \omega_z v_y`,
    :math:`v_z = -\omega_x v_y`.
    """
    p = stance.plants - stance.plants.mean(axis=0)
    rows = np.column_stack([-p[:, 2], p[:, 0], -np.ones(len(p))]) / PLANT_ERROR_M
    up = stance.weight[1]
    balance = np.array([[0.0, -up, 0.0], [up, 0.0, 0.0]]) / BALANCE_ERROR_M
    A = np.concatenate([rows, balance])
    b = -np.concatenate([p[:, 1] / PLANT_ERROR_M, stance.weight[[0, 2]] / BALANCE_ERROR_M])
    covariance: FloatArray = np.linalg.inv(A.T @ A).astype(np.float64)
    return (covariance @ (A.T @ b))[:2], np.sqrt(covariance.diagonal()[:2])


def _measure_stance(motion: Motion, body: Body, track: Contacts) -> _Stance | None:
    positions, flags = _foot_positions(motion, track)
    stands = flags.any(axis=1)
    if int(flags.sum()) < MIN_PLANTED:
        return None
    plants = [np.median(positions[a:b, k], axis=0) for k in range(flags.shape[1]) for a, b in find_runs(flags[:, k])]
    shares = flags[stands] / flags[stands].sum(axis=1, keepdims=True)
    middles = np.einsum("fk,fkc->fc", shares, positions[stands])
    weight = (body.centre_of_mass(motion)[stands] - middles).mean(axis=0)
    return _Stance(np.array(plants), weight)


def _planted_positions(motion: Motion, track: Contacts) -> FloatArray:
    """Places of heels and toes in contact, one a frame ``(N, 3)`` [m]."""
    positions, flags = _foot_positions(motion, track)
    return positions[flags]


def _foot_positions(motion: Motion, track: Contacts) -> tuple[FloatArray, BoolArray]:
    """Places ``(F, K, 3)`` of heels and toes, and when they touch ``(F, K)``."""
    flags = find_touching_points(motion, track)
    feet = [name for name in flags if not name.endswith("hand")]
    known = contact_points(motion.skeleton).names
    positions = contact_positions(motion)[:, [known.index(name) for name in feet]]
    shape = (motion.num_frames, len(feet))
    return positions, np.array([flags[name] for name in feet], dtype=np.bool_).reshape(shape[::-1]).T


def find_touching_points(motion: Motion, track: Contacts) -> dict[str, BoolArray]:
    """When each heel, toe and hand of the skeleton touches ``(F,)``; a foot of the track is its heel and its toe."""
    found: dict[str, BoolArray] = {}
    for name in contact_points(motion.skeleton).names:
        side, part = name.split("_")
        whole = (f"{side}_foot", "feet") if part != "hand" else ("hands",)
        flags = [track.track(other) for other in (name, *whole) if other in track.names]
        if flags:
            found[name] = np.any(flags, axis=0)
    return found

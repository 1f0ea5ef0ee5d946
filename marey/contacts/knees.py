"""Knees over planted feet: how fast they may turn, and the rise of the pelvis that keeps them to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.contacts.body import BodyPosture
from marey.contacts.feet import FootPath
from marey.contacts.limbs import measure_flexion, measure_length
from marey.contacts.plants import FREE, HoldSettings

KNEE_ROUNDS: Final = 12  # of Newton's method for the rise of the pelvis that knees ask for
MAX_GIVE_M: Final = 0.02  # [m] the most that the pelvis gives in one of them
RISE_S: Final = 0.02  # [s] smoothness of that rise
RISE_TOL_M: Final = 1e-5  # [m] of its last step
RISE_REST: Final = 1.0  # [-] weight that draws it to zero
RISE_WEIGHT: Final = 1e6  # [-] of a knee that turns too fast: it is met to a thousandth
STEP_MARGIN: Final = 0.95  # [-] of the turn that a knee is allowed: what the penalty leaves open
LEAST_TURN_RAD: Final = 1e-3  # [rad] over which the slope of a knee is measured
UPRIGHT: Final = 0.3  # [-] hip over ankle, part of their distance: less, and a leg does not carry
LONGEST: Final = 0.9999  # [-] of both bones: the farthest that a foot in contact is from its hip


@dataclass(frozen=True, slots=True, eq=False)
class KneeLimit:
    """How fast a knee may turn."""

    is_held: BoolArray  # (F,) its foot is in contact
    bones: tuple[FloatArray, FloatArray]  # (F,) [m] thigh and shank
    natural: FloatArray  # (F,) [rad] flexion before feet are planted
    step: float  # [rad] the most from frame to frame

    @classmethod
    def measure(cls, stand: BodyPosture, side: str, modes: IntArray, settings: HoldSettings) -> KneeLimit:
        """Limit the turn of a knee to a share of the largest that it makes in this posture, and a little more."""
        hip, knee, ankle = stand.leg_path(side)
        bones = (np.linalg.norm(knee - hip, axis=-1), np.linalg.norm(ankle - knee, axis=-1))
        natural = measure_flexion(np.linalg.norm(ankle - hip, axis=-1), *bones)
        step = settings.step_share * float(np.abs(np.diff(natural)).max(initial=0.0)) + settings.step_rad
        return cls(modes != FREE, bones, natural, step)


def _measure_hip_slope(
    flexion: FloatArray, turn: FloatArray, height: FloatArray, far: FloatArray, knee: KneeLimit, part: slice
) -> FloatArray:
    """How much a knee bends for the height of its hip ``(N,)`` [rad/m], along the chord to ``turn`` [rad] from here."""
    bones = (knee.bones[0][part], knee.bones[1][part])
    turned = np.maximum(flexion + turn, 0.0)
    level = far**2 - height**2
    moved = np.sqrt(np.maximum(measure_length(turned, *bones) ** 2 - level, 0.0)) - height
    return np.where(np.abs(moved) > 1e-9, (turned - flexion) / np.where(np.abs(moved) > 1e-9, moved, 1.0), 0.0)


def _add_knee_rows(
    band: FloatArray, right: FloatArray, away: FloatArray, rise: FloatArray, knee: KneeLimit, binds: BoolArray
) -> tuple[tuple[FloatArray, FloatArray, FloatArray], bool]:
    """Add the rows of one leg to the banded system; returns them, and whether none binds. ``binds`` is updated."""
    height = away[:, 1] + rise
    far = np.sqrt(away[:, 0] ** 2 + away[:, 2] ** 2 + height**2)
    flexion, carries = measure_flexion(far, *knee.bones), height > UPRIGHT * far
    step = np.diff(flexion)
    excess = np.abs(step) - STEP_MARGIN * knee.step
    # Flexion by the height of the hip, as the chord from here to where each frame has taken its half
    half = 0.5 * np.sign(step) * np.maximum(excess, LEAST_TURN_RAD)
    before, after = (
        np.where(carries[part], _measure_hip_slope(flexion[part], turn, height[part], far[part], knee, part), 0.0)
        for part, turn in ((slice(None, -1), half), (slice(1, None), -half))
    )
    before, after = -np.sign(step) * before, np.sign(step) * after
    # From each frame in contact to the next: a foot may leave there, but one that lands strikes
    binds |= (excess > 0.0) & knee.is_held[:-1]
    weight = np.where(binds, RISE_WEIGHT / np.maximum(before**2 + after**2, 1e-12), 0.0)
    wanted = before * rise[:-1] + after * rise[1:] - excess
    band[2, :-1] += weight * before**2
    band[2, 1:] += weight * after**2
    band[1, 1:] += weight * before * after
    right[:-1] += weight * before * wanted
    right[1:] += weight * after * wanted
    # Within reach, or as near to it as without the rise
    reach_m = LONGEST * (knee.bones[0] + knee.bones[1])
    short = far - np.maximum(reach_m, np.linalg.norm(away, axis=-1))
    nearer = np.where(knee.is_held & carries & (short > 0.0), height / np.maximum(far, 1e-9), 0.0)
    band[2] += RISE_WEIGHT * nearer**2
    right += RISE_WEIGHT * nearer * (nearer * rise - short)
    return (before, after, wanted), not nearer.any() and not binds.any()


def solve_pelvis_rise(
    stand: BodyPosture, goals: Mapping[str, FootPath], knees: Mapping[str, KneeLimit], rate_hz: float
) -> FloatArray:
    r"""Smoothest rise of the pelvis ``(F,)`` [m] after which standing knees turn no faster than they may.

    .. math:: \min_d \sum_t \rho\,d_t^2 + \tau^4\,\ddot d_t^2 \quad\text{with}\quad
        |\phi_{t+1}(d_{t+1}) - \phi_t(d_t)| \le \omega

    for the flexion :math:`\phi` of each leg in contact. Newton's steps for a quadratic penalty: where a knee turns too
    fast or a leg is too short, its linearised excess is one row of weight ``RISE_WEIGHT``; each step is one banded
    solve for the whole clip. A leg that lies or kneels more than it stands says nothing.
    """
    from scipy.linalg import solveh_banded

    frames = len(stand.roots)
    rise, bend = np.zeros(frames), (RISE_S * rate_hz) ** 4
    binds = {side: np.zeros(max(frames - 1, 0), dtype=np.bool_) for side in knees}
    for _ in range(KNEE_ROUNDS if frames > 2 else 0):
        band, right, is_done = np.zeros((3, frames)), np.zeros(frames), True
        rows: dict[str, tuple[FloatArray, FloatArray, FloatArray]] = {}
        for side, knee in knees.items():
            away = stand.at(stand.leg(side).upper) - goals[side].ankle
            rows[side], is_free = _add_knee_rows(band, right, away, rise, knee, binds[side])
            del away  # a long clip is large
            is_done = is_done and is_free
        if is_done:
            break
        # Second differences, squared, as in spread_corrections
        band[2] += RISE_REST
        band[2, :-2] += bend
        band[2, 1:-1] += 4.0 * bend
        band[2, 2:] += bend
        band[1, 1:-1] -= 2.0 * bend
        band[1, 2:] -= 2.0 * bend
        band[0, 2:] += bend
        solved: FloatArray = solveh_banded(band, right, check_finite=False)
        # A row stays while the others would break it
        binds = {
            side: binds[side] & (before * solved[:-1] + after * solved[1:] > wanted)
            for side, (before, after, wanted) in rows.items()
        }
        change = np.clip(solved - rise, -MAX_GIVE_M, MAX_GIVE_M)
        rise = rise + change
        if np.abs(change).max() < RISE_TOL_M:
            break
    return rise

"""The smallest shift of a pendulum that keeps its pressure on the soles: a banded least-squares problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray

NUM_DIRECTIONS: Final = 24  # of half planes round the soles
_ANGLES: Final = 2.0 * np.pi * np.arange(NUM_DIRECTIONS) / NUM_DIRECTIONS
DIRECTIONS: Final[FloatArray] = np.stack([np.sin(_ANGLES), np.cos(_ANGLES)], axis=1)
STAY_WEIGHT: Final = 0.03  # weight of a shift against that of pressure beside the soles
KEEP_WEIGHT: Final = 1e6  # times as much where the root is to stay
COM_FOLLOWS_ROOT: Final = (
    0.87  # [-] part of the root's shift that the centre of mass makes, feet staying where they are
)
REST_WEIGHT: Final = 100.0  # [s²] weight of its speed at both ends
JERK_WEIGHT: Final = 1e-8  # [s⁶] weight of its third derivative
MAX_SHIFT_M: Final = 0.08  # [m] a shift beyond this counts as pressure beside the soles does
MAX_SHIFT_ITERATIONS: Final = 30
SHIFT_TOL_M: Final = 1e-5  # [m]
STENCIL_REACH: Final = 3  # frames that a row of the equations spans
NUM_BANDS: Final = 2 * STENCIL_REACH + 2


class PressureConstraints(NamedTuple):
    """What a clip asks of the ground."""

    places: FloatArray  # (F, 2) [m] centre of pressure
    lever: FloatArray  # (F,) [s²] height of the centre of mass over the pull it feels
    bounds: FloatArray  # (F, K) [m] along DIRECTIONS
    is_bound: BoolArray  # (F,) where soles alone carry
    is_carried: BoolArray  # (F,) where anything does; elsewhere it flies


def solve_least_shift(
    need: PressureConstraints, rate_hz: float, keep: Sequence[int] = (), before: FloatArray | None = None
) -> FloatArray:
    r"""Find the least shift ``(F, 2)`` [m] of the root that brings the pressure onto the soles.

    .. math:: \sum_t |p + L\delta - S|^2 + a|\delta|^2 + b|\dddot\delta|^2,\qquad L\delta = c\,(\delta - l\,\ddot\delta)

    is made least, in which :math:`|\cdot - S|` counts how far the pressure is beyond each half plane round the soles.
    In flight :math:`l\,\ddot\delta` is counted instead: what flies is not pushed. At the ends neither the root nor its
    speed changes. Newton's steps, each a banded system.

    Args:
        need: of the clip.
        rate_hz: frames per second.
        keep: frames with no shift.
        before: shift ``(F, 2)`` [m] that the clip has already, from which the new one goes on.
    """
    count = len(need.places)
    curve = _stencil_rows(count, (1.0, -2.0, 1.0), -1) * rate_hz**2
    pendulum = -need.lever[:, None] * curve
    pendulum[:, 1] += 1.0
    pendulum *= COM_FOLLOWS_ROOT
    if before is not None:
        need = need._replace(places=need.places - _apply_rows(pendulum, before))
    still = np.full(count, STAY_WEIGHT)
    still[[0, -1, *keep]] *= KEEP_WEIGHT
    ends = np.isin(np.arange(count), (0, count - 2))
    fixed = _zero_bands(count)
    _add_normal_blocks(fixed, np.ones((count, 1)), 0, _identity_blocks(still))
    _add_normal_blocks(
        fixed,
        _stencil_rows(count, (-1.0, 3.0, -3.0, 1.0), -1) * rate_hz**3,
        -1,
        _identity_blocks(np.full(count, JERK_WEIGHT)),
    )
    _add_normal_blocks(fixed, _stencil_rows(count, (-1.0, 1.0), 0) * rate_hz, 0, REST_WEIGHT * _identity_blocks(ends))
    _add_normal_blocks(fixed, need.lever[:, None] * curve, -1, _identity_blocks(~need.is_carried))
    return _solve_weighted_shift(need, pendulum, fixed)


def _solve_weighted_shift(need: PressureConstraints, pendulum: FloatArray, fixed: FloatArray) -> FloatArray:
    beyond = need.places @ DIRECTIONS.T - need.bounds
    shift = np.zeros_like(need.places)
    for _ in range(MAX_SHIFT_ITERATIONS):
        out = (beyond + _apply_rows(pendulum, shift) @ DIRECTIONS.T > 0.0) & need.is_bound[:, None]
        far = shift @ DIRECTIONS.T > MAX_SHIFT_M
        bands = fixed.copy()
        _add_normal_blocks(bands, pendulum, -1, _direction_blocks(out))
        _add_normal_blocks(bands, np.ones((len(shift), 1)), 0, _direction_blocks(far))
        right = _apply_rows_transposed(pendulum, np.where(out, -beyond, 0.0) @ DIRECTIONS) + MAX_SHIFT_M * (
            far @ DIRECTIONS
        )
        before, shift = shift, _solve_banded(bands, right)
        if np.abs(shift - before).max() < SHIFT_TOL_M:
            break
    return shift


def _stencil_rows(count: int, stencil: Sequence[float], first: int) -> FloatArray:
    """A stencil for each frame ``(F, S)`` that begins ``first`` frames on; zero where it would leave the clip."""
    rows = np.tile(np.asarray(stencil, dtype=np.float64), (count, 1))
    at = np.arange(count)
    rows[(at + first < 0) | (at + first + len(stencil) > count)] = 0.0
    return rows


def _identity_blocks(weights: FloatArray | BoolArray) -> FloatArray:
    return np.asarray(weights, dtype=np.float64)[:, None, None] * np.eye(2)


def _direction_blocks(beyond: BoolArray) -> FloatArray:
    """Weights ``(F, 2, 2)`` of the directions ``(F, K)`` in which something is too far."""
    return np.einsum("fk,ka,kb->fab", beyond.astype(np.float64), DIRECTIONS, DIRECTIONS)


def _apply_rows(rows: FloatArray, shift: FloatArray) -> FloatArray:
    """Rows of three, each about its frame, times a shift ``(F, 2)``."""
    padded = np.pad(shift, ((1, 1), (0, 0)))
    return rows[:, :1] * padded[:-2] + rows[:, 1:2] * shift + rows[:, 2:] * padded[2:]


def _apply_rows_transposed(rows: FloatArray, values: FloatArray) -> FloatArray:
    """The transpose of such rows, times values ``(F, 2)``."""
    spread = np.pad(np.zeros_like(values), ((1, 1), (0, 0)))
    for n in range(3):
        spread[n : n + len(values)] += rows[:, n : n + 1] * values
    return spread[1:-1]


def _zero_bands(count: int) -> FloatArray:
    """Lower bands of a symmetric matrix of 2 F unknowns, x and z by turns, with room for rows beyond the ends."""
    return np.zeros((NUM_BANDS, 2 * (count + 2 * STENCIL_REACH)))


def _add_normal_blocks(bands: FloatArray, rows: FloatArray, first: int, blocks: FloatArray) -> None:
    """Add :math:`A^T W A` of rows ``(F, S)`` that begin ``first`` frames on, with blocks W ``(F, 2, 2)``."""
    at = np.arange(len(rows)) + first + STENCIL_REACH
    for i in range(rows.shape[1]):
        for j in range(i + 1):
            part = (rows[:, i] * rows[:, j])[:, None, None] * blocks
            for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
                below = 2 * (i - j) + a - b
                if below >= 0:
                    bands[below, 2 * (at + j) + b] += part[:, a, b]


def _solve_banded(bands: FloatArray, right: FloatArray) -> FloatArray:
    from scipy.linalg import solveh_banded  # pyright: ignore[reportUnknownVariableType] (scipy has no types)

    own = bands[:, 2 * STENCIL_REACH : bands.shape[1] - 2 * STENCIL_REACH]
    return np.asarray(solveh_banded(own, right.ravel(), lower=True), dtype=np.float64).reshape(-1, 2)

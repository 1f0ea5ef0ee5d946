"""Balance: the root of a finished clip moves by some centimetres, so that soles lie where the ground has to push.

The smallest shift of a pendulum that keeps its pressure on the soles is a banded least-squares problem. The root
comes down where an ankle would be too far away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.contacts import ensure_contacts
from marey.dynamics import GRAVITY, Body, compute_centre_of_pressure, find_supports, solve_inverse_dynamics
from marey.kinematics import Limb, solve_two_bone
from marey.motion import Motion

NUM_DIRECTIONS: Final = 24  # of half planes round the soles
_ANGLES: Final = 2.0 * np.pi * np.arange(NUM_DIRECTIONS) / NUM_DIRECTIONS
DIRECTIONS: Final[FloatArray] = np.stack([np.sin(_ANGLES), np.cos(_ANGLES)], axis=1)
STENCIL_REACH: Final = 3  # frames that a row of the equations spans
NUM_BANDS: Final = 2 * STENCIL_REACH + 2


@dataclass(frozen=True, slots=True)
class BalanceSettings:
    """How far and how hard a clip leans."""

    stay_weight: float = 0.03  # [-] weight of a shift against that of pressure beside the soles
    keep_weight: float = 1e6  # [-] times as much where the root is to stay
    com_follows_root: float = 0.87  # [-] part of the root's shift that the centre of mass makes while feet stay
    rest_weight: float = 100.0  # [s²] weight of its speed at both ends
    jerk_weight: float = 1e-8  # [s⁶] weight of its third derivative
    max_shift_m: float = 0.08  # [m] a shift beyond this counts as pressure beside the soles does
    max_iterations: int = 30  # Newton's steps of one pass
    shift_tol_m: float = 1e-5  # [m] a step below ends them
    num_passes: int = 2  # of measuring and moving: legs that follow have masses of their own
    cutoff_hz: float = 12.0  # [Hz] as the validity report measures forces
    window_s: float = 0.04  # [s] and averages them, by a window of this standard deviation
    min_support_fraction: float = 0.1  # [-] of a support that is left by the margin
    min_carried_weight: float = 0.2  # [body weights] less is about to fly
    own_quantile: float = 0.98  # [-] of the frames in which a leg is bent further: it may become as straight as that
    final_leg_extension: float = 0.99999  # [-] straightest leg after the root was moved
    lowering_time_s: float = 0.2  # [s] over which the root goes down so that a leg reaches
    max_lowering_m: float = 0.05  # [m] the most that it goes down


DEFAULT_SETTINGS: Final = BalanceSettings()


class PressureConstraints(NamedTuple):
    """Centre-of-pressure constraints of a clip."""

    places: FloatArray  # (F, 2) [m] centre of pressure
    lever: FloatArray  # (F,) [s²] height of the centre of mass over the pull it feels
    bounds: FloatArray  # (F, K) [m] along DIRECTIONS
    is_bound: BoolArray  # (F,) where soles alone carry
    is_carried: BoolArray  # (F,) where anything does; elsewhere it flies


def solve_least_shift(
    need: PressureConstraints,
    rate_hz: float,
    keep: Sequence[int] = (),
    before: FloatArray | None = None,
    settings: BalanceSettings = DEFAULT_SETTINGS,
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
        before: present shift ``(F, 2)`` [m] of the clip, to which the new one is added.
        settings: weights and limits.
    """
    from scipy.linalg import solveh_banded

    count = len(need.places)
    curve = _stencil_rows(count, (1.0, -2.0, 1.0), -1) * rate_hz**2
    # L: the pressure of a pendulum moves with its shift and against its acceleration
    pendulum = -need.lever[:, None] * curve
    pendulum[:, 1] += 1.0
    pendulum *= settings.com_follows_root
    if before is not None:
        need = need._replace(places=need.places - _apply_rows(pendulum, before))
    still = np.full(count, settings.stay_weight)
    still[[0, -1, *keep]] *= settings.keep_weight
    ends = np.isin(np.arange(count), (0, count - 2))
    # Lower bands of the matrix of 2 F unknowns, x and z by turns, with room for rows beyond the ends: size, jerk,
    # speed at the ends and acceleration in flight do not change from step to step
    fixed = np.zeros((NUM_BANDS, 2 * (count + 2 * STENCIL_REACH)))
    jerk = _stencil_rows(count, (-1.0, 3.0, -3.0, 1.0), -1) * rate_hz**3
    speed = _stencil_rows(count, (-1.0, 1.0), 0) * rate_hz
    _add_normal_blocks(fixed, np.ones((count, 1)), 0, _identity_blocks(still))
    _add_normal_blocks(fixed, jerk, -1, _identity_blocks(np.full(count, settings.jerk_weight)))
    _add_normal_blocks(fixed, speed, 0, settings.rest_weight * _identity_blocks(ends))
    _add_normal_blocks(fixed, need.lever[:, None] * curve, -1, _identity_blocks(~need.is_carried))
    beyond = need.places @ DIRECTIONS.T - need.bounds
    shift = np.zeros_like(need.places)
    for _ in range(settings.max_iterations):
        # Half planes that the pressure, and the shift itself, is beyond at present
        out = (beyond + _apply_rows(pendulum, shift) @ DIRECTIONS.T > 0.0) & need.is_bound[:, None]
        far = shift @ DIRECTIONS.T > settings.max_shift_m
        bands = fixed.copy()
        _add_normal_blocks(bands, pendulum, -1, _direction_blocks(out))
        _add_normal_blocks(bands, np.ones((count, 1)), 0, _direction_blocks(far))
        # Right side: L transposed times the excess
        pull = np.where(out, -beyond, 0.0) @ DIRECTIONS
        spread = np.pad(np.zeros_like(pull), ((1, 1), (0, 0)))
        for n in range(3):
            spread[n : n + count] += pendulum[:, n : n + 1] * pull
        right = spread[1:-1] + settings.max_shift_m * (far @ DIRECTIONS)
        own = bands[:, 2 * STENCIL_REACH : bands.shape[1] - 2 * STENCIL_REACH]
        last = shift
        shift = np.asarray(solveh_banded(own, right.ravel(), lower=True), dtype=np.float64).reshape(-1, 2)
        if np.abs(shift - last).max() < settings.shift_tol_m:
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


def _add_normal_blocks(bands: FloatArray, rows: FloatArray, first: int, blocks: FloatArray) -> None:
    """Add :math:`A^T W A` of rows ``(F, S)`` that begin ``first`` frames on, with blocks W ``(F, 2, 2)``."""
    for i in range(rows.shape[1]):
        for j in range(i + 1):
            # Block (i, j) of A^T W A; only the lower bands are kept
            part = (rows[:, i] * rows[:, j])[:, None, None] * blocks
            for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
                below = 2 * (i - j) + a - b
                if below >= 0:
                    column = 2 * (first + STENCIL_REACH + j) + b
                    bands[below, column : column + 2 * len(rows) : 2] += part[:, a, b]


def lower_root_to_reach(
    motion: Motion, ankles: Sequence[FloatArray], *, settings: BalanceSettings = DEFAULT_SETTINGS
) -> Motion:
    """The clip with its root lower where a leg is too short for its ankle, with time to go down and up.

    Args:
        motion: any clip.
        ankles: where the left and the right ankle will be, ``(F, 3)`` [m] each.
        settings: how straight legs may be, how far and how fast the root goes down.
    """
    positions, down = motion.joint_positions(), np.zeros(motion.num_frames)
    for side, goals in zip(("left", "right"), ankles, strict=True):
        limb = Limb.from_name(motion.skeleton, f"{side}_leg")
        hip, ankle = positions[:, limb.upper], positions[:, limb.end]
        # A leg becomes as straight as this person's legs are, or as it was: nobody crouches for a lean
        chain = positions[0, [limb.upper, limb.middle, limb.end]]
        length = float(np.linalg.norm(np.diff(chain, axis=0), axis=1).sum())
        far = np.linalg.norm(hip - ankle, axis=1)
        usual = float(np.quantile(far, settings.own_quantile))
        reach = np.clip(far, min(usual, settings.final_leg_extension * length), settings.final_leg_extension * length)
        # Pythagoras: how high the hip may be over an ankle that is that far away over the ground
        apart = hip - goals
        room = np.maximum(reach**2 - apart[:, 0] ** 2 - apart[:, 2] ** 2, 0.0)
        down = np.maximum(down, apart[:, 1] - np.sqrt(room))
    # A smooth curve above what is needed: the highest within reach, averaged over as many frames
    down = np.clip(down, 0.0, settings.max_lowering_m)
    half = max(1, round(settings.lowering_time_s * motion.rate_hz))
    windows = np.lib.stride_tricks.sliding_window_view
    high = windows(np.pad(down, half, mode="edge"), 2 * half + 1).max(axis=1)
    hann = np.asarray(np.hanning(2 * half + 3), dtype=np.float64)[1:-1]
    down = windows(np.pad(high, half, mode="edge"), 2 * half + 1) @ (hann / hann.sum())
    return replace(motion, root_positions=motion.root_positions - down[:, None] * [0.0, 1.0, 0.0])


MARGIN_M: Final = 0.01  # [m] inside the edge of the soles
MIN_FRAMES: Final = 5  # shorter clips have no meaningful accelerations
SIDES: Final = ("left", "right")


def balance_motion(
    motion: Motion,
    body: Body | None = None,
    *,
    keep: Sequence[int] = (),
    margin_m: float = MARGIN_M,
    settings: BalanceSettings = DEFAULT_SETTINGS,
) -> Motion:
    r"""Let a clip lean where it would tip: into curves, back before stops, over the foot that carries.

    Feet stay where they are at every frame, the root moves over the ground by :math:`\delta(t)`, and legs follow. The
    centre of pressure ([Vukobratovic2004]_) moves with it as that of a pendulum of height h,

    .. math:: \Delta p = \delta - \frac{h}{g + \ddot y}\,\ddot\delta ,

    and :math:`\delta` is the smallest and smoothest shift that keeps it on the soles. It knows the whole clip, so that
    a body leans before the curve begins; at both ends it vanishes. In flight the root continues ballistically.
    The root comes down a little where a leg would not reach.

    Args:
        motion: with contacts; they are detected where it has none.
        body: by default that of the skeleton.
        keep: frames in which the root stays where it is.
        margin_m: [m] inside the edge of the soles that the pressure keeps to.
        settings: weights and limits.

    Raises:
        InputError: a frame to keep is outside the clip, or the margin is out of range.
        UnknownNameError: the skeleton lacks a leg.
    """
    wrong = [frame for frame in keep if not 0 <= frame < motion.num_frames]
    if wrong:
        raise InputError(f"frame {wrong[0]} is to stay, of {motion.num_frames}", "Count frames from zero")
    if not 0.0 <= margin_m <= 0.1:
        raise InputError(f"margin_m is {margin_m}", "Give 0 to 0.1 m")
    motion = ensure_contacts(motion)
    if motion.num_frames < MIN_FRAMES:
        return motion
    body = Body.from_motion(motion) if body is None else body
    # Each pass measures the clip as it was moved and begins at the last shift
    shift, shown = np.zeros((motion.num_frames, 2)), motion
    for _ in range(settings.num_passes):
        # Centre of pressure that each frame demands, and the support that it has
        from scipy.ndimage import gaussian_filter1d

        dynamics = solve_inverse_dynamics(body, shown, cutoff_hz=settings.cutoff_hz)
        averaged = gaussian_filter1d(dynamics.wrench, settings.window_s * shown.rate_hz, axis=0, mode="mirror")
        wrench = np.asarray(averaged, dtype=np.float64)
        supports = find_supports(shown, slack_s=settings.window_s)
        normal = wrench[:, 1] / body.weight_n
        carried = supports.carried & (normal > settings.min_carried_weight)
        pressure = compute_centre_of_pressure(wrench, supports.floor_m)[0]
        places = np.where(carried[:, None], pressure, dynamics.com)[:, [0, 2]]
        pull = GRAVITY * np.where(carried, np.maximum(normal, settings.min_carried_weight), 1.0)
        lever = (dynamics.com[:, 1] - supports.floor_m) / pull
        # How far along each direction the pressure may go: the soles without their rim
        along = supports.points[:, :, [0, 2]] @ DIRECTIONS.T
        on = (supports.active & carried[:, None])[..., None]
        high = np.where(carried[:, None], np.where(on, along, -np.inf).max(axis=1, initial=-np.inf), 0.0)
        low = np.where(carried[:, None], np.where(on, along, np.inf).min(axis=1, initial=np.inf), 0.0)
        half = 0.5 * (high - low)
        bounds = 0.5 * (high + low) + np.maximum(half - margin_m, settings.min_support_fraction * half)
        need = PressureConstraints(places, lever, bounds, carried & ~supports.grips.any(axis=1), carried)
        shift = solve_least_shift(need, motion.rate_hz, keep, shift, settings)
        shown = shift_root(motion, shift, settings)
    return shown


def shift_root(motion: Motion, shift: FloatArray, settings: BalanceSettings = DEFAULT_SETTINGS) -> Motion:
    """The clip with its root moved by ``shift`` ``(F, 2)`` [m] over the ground, and its feet where they were."""
    # Ankles are held where they are, legs bend for the moved root
    legs = [Limb.from_name(motion.skeleton, f"{side}_leg") for side in SIDES]
    positions, frames = motion.joint_frames()
    ankles = [positions[:, leg.end] for leg in legs]
    moved = motion.root_positions.copy()
    moved[:, [0, 2]] += shift
    held = lower_root_to_reach(replace(motion, root_positions=moved), ankles, settings=settings)
    for leg, goals in zip(legs, ankles, strict=True):
        held = solve_two_bone(
            held, leg, goals, end_rotations=frames[:, leg.end], stretch=settings.final_leg_extension
        ).motion
    return held

"""Balance: the root of a finished clip moves by some centimetres, so that soles lie where the ground has to push."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.blending._balance_legs import lower_root_to_reach
from marey.blending._balance_shift import DIRECTIONS, PressureConstraints, solve_least_shift
from marey.dynamics import GRAVITY, Body, Supports, compute_centre_of_pressure, find_supports, solve_inverse_dynamics
from marey.kinematics import Limb, solve_two_bone
from marey.motion import Motion, ensure_contacts

NUM_BALANCE_PASSES: Final = 2  # of measuring and moving: legs that follow have masses of their own
CUTOFF_HZ: Final = 12.0  # as the validity report measures forces
WINDOW_S: Final = 0.04  # [s] and averages them, by a window of this standard deviation
MARGIN_M: Final = 0.01  # [m] inside the edge of the soles
MIN_SUPPORT_FRACTION: Final = 0.1  # [-] of a support that is left by that margin
MIN_CARRIED_WEIGHT: Final = 0.2  # [body weights] less is about to fly
MAX_SHIFTED_LEG_EXTENSION: Final = 0.9995  # [-] straightest leg
MIN_FRAMES: Final = 5  # shorter clips have no accelerations to speak of
SIDES: Final = ("left", "right")


def balance_motion(
    motion: Motion,
    body: Body | None = None,
    *,
    keep: Sequence[int] = (),
    margin_m: float = MARGIN_M,
) -> Motion:
    r"""Let a clip lean where it would tip: into curves, back before stops, over the foot that carries.

    Feet stay where they are at every frame, the root moves over the ground by :math:`\delta(t)`, and legs follow. The
    centre of pressure ([Vukobratovic2004]_) moves with it as that of a pendulum of height h,

    .. math:: \Delta p = \delta - \frac{h}{g + \ddot y}\,\ddot\delta ,

    and :math:`\delta` is the smallest and smoothest shift that keeps it on the soles. It knows the whole clip, so that
    a body leans before the curve begins; at both ends it vanishes. In flight the root goes on as it would have done.
    The root comes down a little where a leg would not reach.

    Args:
        motion: with contacts; they are detected where it has none.
        body: by default that of the skeleton.
        keep: frames in which the root stays where it is.
        margin_m: [m] inside the edge of the soles that the pressure keeps to.

    Raises:
        InputError: a frame to keep is not in the clip, or the margin is no small number.
        UnknownNameError: the skeleton lacks a leg.
    """
    _check_balance_request(motion, keep, margin_m)
    motion = ensure_contacts(motion)
    if motion.num_frames < MIN_FRAMES:
        return motion
    body = Body.from_motion(motion) if body is None else body
    shift, shown = np.zeros((motion.num_frames, 2)), motion
    for _ in range(NUM_BALANCE_PASSES):
        shift = solve_least_shift(_pressure_constraints(shown, body, margin_m), motion.rate_hz, keep, shift)
        shown = shift_root(motion, shift)
    return shown


def _check_balance_request(motion: Motion, keep: Sequence[int], margin_m: float) -> None:
    wrong = [frame for frame in keep if not 0 <= frame < motion.num_frames]
    if wrong:
        raise InputError(f"frame {wrong[0]} is to stay, of {motion.num_frames}", "Count frames from zero")
    if not 0.0 <= margin_m <= 0.1:
        raise InputError(f"margin_m is {margin_m}", "Give 0 to 0.1 m")


def shift_root(motion: Motion, shift: FloatArray) -> Motion:
    """The clip with its root moved by ``shift`` ``(F, 2)`` [m] over the ground, and its feet where they were."""
    legs = [Limb.from_name(motion.skeleton, f"{side}_leg") for side in SIDES]
    positions, frames = motion.joint_frames()
    ankles = [positions[:, leg.end] for leg in legs]
    moved = motion.root_positions.copy()
    moved[:, [0, 2]] += shift
    held = lower_root_to_reach(replace(motion, root_positions=moved), ankles)
    for leg, goals in zip(legs, ankles, strict=True):
        held = solve_two_bone(
            held, leg, goals, end_rotations=frames[:, leg.end], stretch=MAX_SHIFTED_LEG_EXTENSION
        ).motion
    return held


def _pressure_constraints(motion: Motion, body: Body, margin_m: float) -> PressureConstraints:
    """Where the ground has to push, and where it can."""
    dynamics = solve_inverse_dynamics(body, motion, cutoff_hz=CUTOFF_HZ)
    wrench = _moving_average(dynamics.wrench, motion.rate_hz)
    supports = find_supports(motion, slack_s=WINDOW_S)
    normal = wrench[:, 1] / body.weight_n
    carried = supports.carried & (normal > MIN_CARRIED_WEIGHT)
    places = np.where(carried[:, None], compute_centre_of_pressure(wrench, supports.floor_m)[0], dynamics.com)[
        :, [0, 2]
    ]
    lever = (dynamics.com[:, 1] - supports.floor_m) / (
        GRAVITY * np.where(carried, np.maximum(normal, MIN_CARRIED_WEIGHT), 1.0)
    )
    bounds = _pressure_bounds(supports, carried, margin_m)
    return PressureConstraints(places, lever, bounds, carried & ~supports.grips.any(axis=1), carried)


def _moving_average(values: FloatArray, rate_hz: float) -> FloatArray:
    from scipy.ndimage import gaussian_filter1d  # pyright: ignore[reportUnknownVariableType] (scipy has no types)

    return np.asarray(gaussian_filter1d(values, WINDOW_S * rate_hz, axis=0, mode="mirror"), dtype=np.float64)


def _pressure_bounds(supports: Supports, carried: BoolArray, margin_m: float) -> FloatArray:
    """How far ``(F, K)`` [m] along each direction the pressure may go: the soles without their rim."""
    along = supports.points[:, :, [0, 2]] @ DIRECTIONS.T
    on = (supports.active & carried[:, None])[..., None]
    high = np.where(carried[:, None], np.where(on, along, -np.inf).max(axis=1, initial=-np.inf), 0.0)
    low = np.where(carried[:, None], np.where(on, along, np.inf).min(axis=1, initial=np.inf), 0.0)
    half = 0.5 * (high - low)
    return 0.5 * (high + low) + np.maximum(half - margin_m, MIN_SUPPORT_FRACTION * half)

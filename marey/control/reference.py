"""Reference: what a clip asks of a simulated figure, step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, frozen, frozen_bools
from marey.contacts import feet_down
from marey.control.balance import HORIZONTAL_AXES, find_bounces, find_leaps, smooth_values, solve_com_path
from marey.control.preparation import (
    RUN_HZ,
    SIDES,
    SMOOTHING_HZ,
    find_leg,
    find_soles,
    prepare_clip,
    put_feet,
    shift_to_floor,
    smooth_clip,
    sole_positions,
)
from marey.lie import SO3
from marey.motion import Motion, resample
from marey.simulate import Mechanics, Simulator
from marey.simulate.mechanism import make_mechanics

MIN_FRAMES: Final = 3  # an acceleration needs three
REACH: Final = 0.99  # [-] of a leg that stands: a straight one can neither push nor follow
DROP_S: Final = 0.1  # [s] over which a body is lowered for it
CARRY_ROUNDS: Final = 3  # of moving a body onto a path that its soles can carry
LOW_M: Final = 0.003  # [m] points of a clip that are lower touch the ground
SPIN_S: Final = 0.25  # [s] before and after a jump in which its angular momentum comes and goes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reference:
    """A clip in the coordinates of a simulator, one frame for each step."""

    source: Motion  # the clip as it was given, at one frame a step, its floor at height zero
    motion: Motion  # as the simulator can pose it and its soles can carry it
    coordinates: FloatArray  # (F, k) of the pose model; empty in the full space
    velocities: FloatArray  # (F, d) that lead from each frame to the next
    com: FloatArray  # (F, 3) [m]
    momenta: FloatArray  # (F, 3) [kg m²/s] angular, about the centre of mass
    rates: FloatArray  # (F, J, 3) [rad/s] of the joints, each in its own frame
    corners: FloatArray  # (F, 2, 5, 3) [m] of the soles, and toes
    soles: FloatArray  # (F, 2, 3) [m] their middles
    sole_rates: FloatArray  # (F, 2, 3) [m/s]
    foot_turns: FloatArray  # (F, 2, 4) rotations of the ankles in world, as wxyz
    foot_rates: FloatArray  # (F, 2, 3) [rad/s] of the ankles in their own frames
    down: BoolArray  # (F, 2) feet on the ground, left and right
    bearing: BoolArray  # (F, 2, 5) corners low enough to be in contact

    def __post_init__(self) -> None:
        for name in sorted({*self.__slots__} - {"source", "motion", "down", "bearing"}):
            object.__setattr__(self, name, frozen(getattr(self, name), name=name))
        object.__setattr__(self, "down", frozen_bools(self.down, None, 2, name="down"))
        object.__setattr__(self, "bearing", frozen_bools(self.bearing, None, 2, 5, name="bearing"))

    def __len__(self) -> int:
        return len(self.com)

    @property
    def dt(self) -> float:
        """Length of a step [s]."""
        return 1.0 / self.motion.rate_hz


def make_reference(motion: Motion, simulator: Simulator, dt: float) -> Reference:
    r"""Pose a clip in a simulator's coordinates, one frame every ``dt`` [s], its floor at height zero.

    Velocities are those that lead from frame to frame, as the integrator moves: :math:`g_{i+1} = g_i\exp(h v_i)`.

    Raises:
        InputError: the clip has other joints than the body, or fewer than three frames.
    """
    if motion.skeleton.names != simulator.body.skeleton.names:
        raise InputError("the clip has other joints than the body", "Retarget it, or give no body")
    if motion.duration_s < MIN_FRAMES * dt:
        raise InputError(f"a clip of {motion.duration_s:.3g} s", f"Give one of at least {MIN_FRAMES * dt:.3g} s")
    clip = prepare_clip(motion, 1.0 / dt)
    assert clip.contacts is not None
    given = motion if motion.rate_hz == clip.rate_hz else resample(motion, clip.rate_hz)
    given = Motion(simulator.body.skeleton, given.rate_hz, given.root_positions, given.rotations, name=motion.name)
    source = shift_to_floor(given, find_soles(given.skeleton), feet_down(clip.contacts)[: len(given)])
    # Move the body, between feet that stay, onto a path of the centre of mass that the soles can carry
    places, turns = clip.joint_frames()
    soles, down = find_soles(clip.skeleton), feet_down(clip.contacts)
    feet = [
        (
            places[:, joint],
            turns[:, joint],
            clip.rotations[:, toe] if int(clip.skeleton.parents[toe]) == joint else None,
        )
        for joint, toe in zip(soles.joints, soles.toe_joints, strict=True)
    ]
    is_flight = np.asarray(~down.any(axis=1), dtype=np.bool_)
    smoothing_hz = RUN_HZ if find_bounces(is_flight, dt).any() else SMOOTHING_HZ
    for _ in range(CARRY_ROUNDS):
        reference = pose_clip(clip, source, simulator)
        weight = float(np.linalg.norm(simulator.gravity))
        path = solve_com_path(reference, simulator.body.mass_kg, weight)
        offsets = path.com - reference.com
        # Standing legs that are longer than REACH lower the body, smoothly
        drops = np.zeros(len(clip))
        for s, side in enumerate(SIDES):
            hip, ankle, length = find_leg(clip, side)
            longest = REACH * length
            away = np.linalg.norm((hip - ankle)[:, HORIZONTAL_AXES], axis=1)
            excess = (hip - ankle)[:, 1] - np.sqrt(np.maximum(longest**2 - away**2, 0.0))
            drops = np.maximum(drops, np.where(reference.down[:, s], excess, 0.0))
        # The largest nearby, then smooth
        width = max(2, round(DROP_S * clip.rate_hz))
        padded = np.pad(drops, width, mode="edge")
        highest = np.max([padded[n : n + len(drops)] for n in range(2 * width + 1)], axis=0)
        offsets[:, 1] -= smooth_values(highest, width)
        moved = smooth_clip(replace(clip, root_positions=clip.root_positions + offsets), smoothing_hz)
        clip = replace(put_feet(moved, feet, down), contacts=clip.contacts)
    # Legs that come to their full length leave a kink
    return pose_clip(smooth_clip(clip, smoothing_hz), source, simulator)


def pose_clip(clip: Motion, source: Motion, simulator: Simulator) -> Reference:
    """Reference of a prepared clip; see :func:`make_reference`."""
    dt = 1.0 / clip.rate_hz
    assert clip.contacts is not None
    soles = find_soles(simulator.body.skeleton)
    # Feet as captured, not as modelled
    feet, corners = clip.joint_frames()[1][:, list(soles.joints)], sole_positions(clip, soles)
    down = feet_down(clip.contacts)
    # Coordinates of the clip in the model, and the clip that they stand for
    model, skeleton = simulator.model, simulator.body.skeleton
    wxyz = np.array(clip.rotations.wxyz)
    coordinates = np.zeros((len(clip), 0))
    if model is not None:
        coordinates = model.encode(replace(clip, skeleton=model.skeleton, translations=None))
        wxyz[:, 1:] = model.rotations(coordinates).wxyz[:, 1:]
    posed = Motion(skeleton, clip.rate_hz, clip.root_positions, SO3(wxyz), name=clip.name)
    # Mechanics of each frame, the pelvis where the clip has it
    here: list[Mechanics] = []
    for root, turned, at in zip(posed.root_positions, posed.rotations.wxyz, coordinates, strict=True):
        first = make_mechanics(simulator.mechanism, root, turned, at)
        here.append(make_mechanics(simulator.mechanism, root + (root - first.joints[0]), turned, at))
    com = np.array([m.com for m in here])
    rates = _turn_rates(posed.rotations, dt)
    # v_i from g_{i+1} = g_i exp(h v_i); the last frame repeats the one before
    place = com if simulator.mechanism.is_com else posed.root_positions
    inner = _repeat_last(np.diff(coordinates, axis=0) / dt)
    if simulator.model is None:
        inner = rates[:, simulator.mechanism.joints].reshape(len(rates), -1)
    velocities = np.concatenate([rates[:, 0], _repeat_last(np.diff(place, axis=0) / dt), inner], axis=1)
    middles = corners[:, :, :4].mean(axis=2)
    return Reference(
        source=source,
        motion=posed,
        coordinates=coordinates,
        velocities=velocities,
        com=com,
        momenta=keep_in_flight(
            np.array([m.momentum_matrix()[:3] @ v for m, v in zip(here, velocities, strict=True)]), down, dt
        ),
        rates=rates,
        corners=corners,
        soles=middles,
        sole_rates=_repeat_last(np.diff(middles, axis=0) / dt),
        foot_turns=feet.wxyz,
        foot_rates=_turn_rates(feet, dt),
        down=down,
        bearing=bearing_points(corners, down),
    )


def keep_in_flight(momenta: FloatArray, down: BoolArray, dt: float) -> FloatArray:
    """Angular momenta ``(F, 3)`` that no jump changes: it has its mean, which stances beside it lead to and from.

    Runs keep their captured ones: their stances are too short to be led anywhere.
    """
    kept, width = np.array(momenta), round(SPIN_S / dt)
    part = np.linspace(0.0, 1.0, width + 2)[1:-1, None]
    part = part**2 * (3.0 - 2.0 * part)
    is_flight = np.asarray(~down.any(axis=1), dtype=np.bool_)
    for start, stop in find_leaps(is_flight, dt):
        if start < width or stop + width > len(momenta):
            continue
        mean = momenta[start:stop].mean(axis=0)
        kept[start:stop] = mean
        kept[start - width : start] += part * (mean - kept[start - width : start])
        kept[stop : stop + width] += part[::-1] * (mean - kept[stop : stop + width])
    return kept


def bearing_points(corners: FloatArray, down: BoolArray) -> BoolArray:
    """Points ``(F, 2, 5)`` of feet that are down which are low enough; of a foot without any, the lowest."""
    heights = np.where(down[..., None], corners[..., 1], np.inf)
    heights[..., 4] = np.where((heights[..., :4] < LOW_M).any(axis=-1), np.inf, heights[..., 4])  # toes come last
    lowest = heights.min(axis=2, keepdims=True)
    return heights < np.where(lowest < LOW_M, LOW_M, lowest + LOW_M)


def _turn_rates(turns: SO3, dt: float) -> FloatArray:
    """Angular velocities in own frames from each frame to the next; the last is that of the one before."""
    return _repeat_last((turns[:-1].inverse() @ turns[1:]).log() / dt)


def _repeat_last(steps: FloatArray) -> FloatArray:
    """One row more: the last again."""
    return np.concatenate([steps, steps[-1:]])

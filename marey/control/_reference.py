"""Reference: what a clip asks of a simulated figure, step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, frozen, frozen_bools
from marey.lie import SO3
from marey.motion import Motion, detect_contacts, feet_down, lowpass, resample
from marey.simulate import Mechanics, Simulator, contact_spheres
from marey.simulate._mechanics import mechanics_of
from marey.skeleton import Skeleton, t_pose

SIDES: Final = ("left", "right")
SMOOTHING_HZ: Final = 8.0  # a body has no faster movements that matter; captures tremble
MIN_FRAMES: Final = 3  # an acceleration needs three
FLOOR_PERCENT: Final = 50.0  # of the heights of the lowest corner of standing soles


_STATES: Final = ("coordinates", "velocities", "com", "momenta", "rates")
_ARRAYS: Final = (*_STATES, "corners", "soles", "sole_rates", "foot_turns", "foot_rates")


@dataclass(frozen=True, slots=True, eq=False)
class Soles:
    """Corners of both soles, as points that ride on the ankles."""

    joints: tuple[int, int]  # ankles, left and right
    corners: FloatArray  # (2, 4, 3) [m] heel left, heel right, ball left, ball right, in the ankle's frame

    def places(self, origins: FloatArray, frames: FloatArray) -> FloatArray:
        """Corners ``(2, 4, 3)`` [m] in world, for joints at ``origins (J, 3)`` with ``frames (J, 3, 3)``."""
        ankles = list(self.joints)
        return origins[ankles][:, None] + np.einsum("aij,acj->aci", frames[ankles], self.corners)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reference:
    """A clip in the coordinates of a simulator, one frame for each step."""

    motion: Motion  # as the simulator can pose it, at one frame a step
    coordinates: FloatArray  # (F, k) of the pose model; empty in the full space
    velocities: FloatArray  # (F, d) that lead from each frame to the next
    com: FloatArray  # (F, 3) [m]
    momenta: FloatArray  # (F, 3) [kg m²/s] angular, about the centre of mass
    rates: FloatArray  # (F, J, 3) [rad/s] of the joints, each in its own frame
    corners: FloatArray  # (F, 2, 4, 3) [m] of the soles
    soles: FloatArray  # (F, 2, 3) [m] their middles
    sole_rates: FloatArray  # (F, 2, 3) [m/s]
    foot_turns: FloatArray  # (F, 2, 4) rotations of the ankles in world, as wxyz
    foot_rates: FloatArray  # (F, 2, 3) [rad/s] of the ankles in their own frames
    down: BoolArray  # (F, 2) feet on the ground, left and right

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            object.__setattr__(self, name, frozen(getattr(self, name), name=name))
        object.__setattr__(self, "down", frozen_bools(self.down, None, 2, name="down"))

    def __len__(self) -> int:
        return len(self.com)

    @property
    def dt(self) -> float:
        """Length of a step [s]."""
        return 1.0 / self.motion.rate_hz


def soles_of(skeleton: Skeleton) -> Soles:
    """Corners of the soles of a skeleton.

    Raises:
        InputError: it has no two feet to stand on.
    """
    spheres, names = contact_spheres(skeleton)
    wanted = [[f"{side}_{part}_{way}" for part in ("heel", "ball") for way in SIDES] for side in SIDES]
    if any(name not in names for foot in wanted for name in foot):
        raise InputError(f"'{skeleton.name}' has no two feet to stand on", "Name its ankles; see marey.skeleton.ROLES")
    numbers = [[names.index(name) for name in foot] for foot in wanted]
    left, right = (int(spheres.joints[foot[0]]) for foot in numbers)
    return Soles((left, right), frozen(spheres.offsets[np.array(numbers)], 2, 4, 3, name="corners"))


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
    sampled = sampled_clip(motion, 1.0 / dt)
    down = feet_down(detect_contacts(sampled) if sampled.contacts is None else sampled.contacts)
    coordinates, posed = _as_posed(sampled, simulator)
    soles = soles_of(simulator.body.skeleton)
    posed = on_floor(posed, soles, down)
    here = [_mechanics(simulator, posed, coordinates, i) for i in range(len(posed))]
    com = np.array([m.com for m in here])
    rates = _turn_rates(posed.rotations, dt)
    velocities = _velocities(simulator, posed, coordinates, com, rates, dt)
    feet = posed.joint_frames()[1][:, list(soles.joints)]
    corners = np.array([soles.places(m.joints, m.frames) for m in here])
    middles = corners.mean(axis=2)
    return Reference(
        motion=posed,
        coordinates=coordinates,
        velocities=velocities,
        com=com,
        momenta=np.array([m.momentum_matrix()[:3] @ v for m, v in zip(here, velocities, strict=True)]),
        rates=rates,
        corners=corners,
        soles=middles,
        sole_rates=_held(np.diff(middles, axis=0) / dt),
        foot_turns=feet.wxyz,
        foot_rates=_turn_rates(feet, dt),
        down=down,
    )


def sampled_clip(motion: Motion, rate_hz: float) -> Motion:
    """Smooth clip at a rate; contacts that it has are kept."""
    motion = with_calm_toes(motion)
    calm = lowpass(motion, SMOOTHING_HZ) if motion.rate_hz > 2.5 * SMOOTHING_HZ and len(motion) > 30 else motion
    return calm if calm.rate_hz == rate_hz else resample(calm, rate_hz)


def with_calm_toes(motion: Motion) -> Motion:
    """Clip whose toes never point below the sole: the angles of toes tremble in captures, and dig into the ground."""
    skeleton = motion.skeleton
    spheres, names = contact_spheres(skeleton)
    rest, wxyz = t_pose(skeleton).rotations, np.array(motion.rotations.wxyz)
    for side in SIDES:
        toe = int(spheres.joints[names.index(f"{side}_toe")]) if f"{side}_toe" in names else 0
        if toe and skeleton.parents[toe] in soles_of(skeleton).joints:
            offset = spheres.offsets[names.index(f"{side}_toe")]
            bent = motion.rotations[:, toe] @ offset - rest[toe] @ offset
            up = (t_pose(skeleton).joint_rotations()[int(skeleton.parents[toe])]).inverse() @ np.array([0.0, 1.0, 0.0])
            wxyz[bent @ up < 0.0, toe] = rest[toe].wxyz
    return replace(motion, rotations=SO3(wxyz))


def on_floor(motion: Motion, soles: Soles, down: BoolArray) -> Motion:
    """Clip moved up or down so that the lowest corner of standing soles is at height zero, in the median."""
    origins, turns = motion.joint_frames()
    frames = turns.matrix()
    lows = np.array([soles.places(origins[i], frames[i])[..., 1].min(axis=1) for i in range(len(motion))])
    standing = lows[down] if down.any() else lows.min(axis=1)
    shift = np.array([0.0, float(np.percentile(standing, FLOOR_PERCENT)), 0.0])
    return replace(motion, root_positions=motion.root_positions - shift)


def _as_posed(motion: Motion, simulator: Simulator) -> tuple[FloatArray, Motion]:
    """Coordinates ``(F, k)`` of a clip and the clip that they stand for."""
    model, skeleton = simulator.model, simulator.body.skeleton
    wxyz = np.array(motion.rotations.wxyz)
    coordinates = np.zeros((len(motion), 0))
    if model is not None:
        coordinates = model.encode(replace(motion, skeleton=model.skeleton, translations=None))
        wxyz[:, 1:] = model.rotations(coordinates).wxyz[:, 1:]
    posed = Motion(skeleton, motion.rate_hz, motion.root_positions, SO3(wxyz), name=motion.name)
    return coordinates, posed


def _mechanics(simulator: Simulator, motion: Motion, coordinates: FloatArray, i: int) -> Mechanics:
    """Mechanics of a frame, the pelvis where the clip has it."""
    root, wxyz = motion.root_positions[i], motion.rotations[i].wxyz
    here = mechanics_of(simulator.mechanism, root, wxyz, coordinates[i])
    return mechanics_of(simulator.mechanism, root + (root - here.joints[0]), wxyz, coordinates[i])


def _velocities(
    simulator: Simulator, motion: Motion, coordinates: FloatArray, com: FloatArray, rates: FloatArray, dt: float
) -> FloatArray:
    """Velocities ``(F, d)`` from each frame to the next; the last is that of the one before."""
    place = com if simulator.mechanism.is_com else motion.root_positions
    inner = _held(np.diff(coordinates, axis=0) / dt)
    if simulator.model is None:
        inner = rates[:, simulator.mechanism.joints].reshape(len(rates), -1)
    return np.concatenate([rates[:, 0], _held(np.diff(place, axis=0) / dt), inner], axis=1)


def _turn_rates(turns: SO3, dt: float) -> FloatArray:
    """Angular velocities in own frames from each frame to the next; the last is that of the one before."""
    return _held((turns[:-1].inverse() @ turns[1:]).log() / dt)


def _held(steps: FloatArray) -> FloatArray:
    """One row more: the last again."""
    return np.concatenate([steps, steps[-1:]])

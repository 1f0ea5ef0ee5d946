"""The muscles of a whole body over a motion: which ones pull, how much."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError
from marey.dynamics import Body, solve_inverse_dynamics
from marey.kinematics import retarget
from marey.lie import SO3
from marey.motion import Motion, detect_contacts
from marey.muscle._human_muscles import (
    MuscleGeometry,
    MusclePath,
    compute_muscle_geometry,
    find_governed_axes,
    make_human_muscles,
)
from marey.skeleton import HUMAN, Skeleton

RESERVE_NM: Final = 5.0  # [N m] size of a torque that costs as much as a fully active muscle, over sqrt(weight)
RESERVE_WEIGHT: Final = 100.0  # [-]
SATURATED_ACTIVATION: Final = 0.999  # [-] activation from which a muscle counts as giving all it can


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MuscleTrack:
    """What M muscles do over F frames, and what they could not do."""

    motion: Motion  # on the joints of marey.HUMAN
    muscles: tuple[MusclePath, ...]
    axes: tuple[tuple[str, int], ...]  # joint and axis of each torque
    geometry: MuscleGeometry
    activations: FloatArray  # (F, M) between 0 and 1
    forces: FloatArray  # (F, M) [N] tension
    torques: FloatArray  # (F, A) [N m] that the motion needs about each axis
    reserves: FloatArray  # (F, A) [N m] of it that the muscles do not give

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the muscles."""
        return tuple(muscle.name for muscle in self.muscles)

    @property
    def times(self) -> FloatArray:
        """Time of each frame [s]."""
        return np.arange(len(self.activations)) / self.motion.rate_hz

    @property
    def given(self) -> float:
        """Part of the torque, in root mean square over all axes and frames, that muscles give (1: all)."""
        asked = float(np.linalg.norm(self.torques))
        return 1.0 - float(np.linalg.norm(self.reserves)) / asked if asked > 0.0 else 1.0

    def of(self, name: str) -> FloatArray:
        """Activation ``(F,)`` of one muscle."""
        if name not in self.names:
            raise UnknownNameError("muscle", name, "this body", self.names)
        return self.activations[:, self.names.index(name)]

    def busiest(self, count: int = 5) -> tuple[tuple[str, float], ...]:
        """Muscles with the largest mean activation."""
        means = zip(self.names, self.activations.mean(axis=0).tolist(), strict=True)
        return tuple(sorted(means, key=lambda pair: -pair[1])[:count])

    def save(self, path: str | Path) -> Path:
        """Write a CSV: time, then the activation, force [N] and length [m] of each muscle."""
        target = Path(path)
        with target.open("w", newline="", encoding="utf-8") as stream:
            rows = csv.writer(stream)
            kinds = ("activation", "force_n", "length_m")
            rows.writerow(["time_s", *(f"{name}.{kind}" for kind in kinds for name in self.names)])
            table = np.concatenate([self.times[:, None], self.activations, self.forces, self.geometry.lengths], axis=1)
            rows.writerows([[f"{value:.6g}" for value in row] for row in table])
        return target

    def __repr__(self) -> str:
        return f"MuscleTrack({len(self.muscles)} muscles, {len(self.activations)} frames, {self.given:.0%} given)"


def estimate_activations(
    motion: Motion,
    *,
    muscles: Sequence[MusclePath] | None = None,
    body: Body | None = None,
    hill: bool = True,
    passive: bool = False,
    power: float = 2.0,
) -> MuscleTrack:
    r"""Share the torques of a motion among muscles, frame by frame (static optimisation, [Crowninshield1981]_).

    .. math:: \min_{0\le a\le1}\sum_m a_m^p/p + \tfrac w2|r|^2/r_0^2,\qquad
              \textstyle\sum_m R_{jm}\,(a_m c_m + f_m) + r_j = \tau_j

    where R are moment arms, :math:`c = F_0 f_L f_V` tensions at full activation, f passive tensions, and the reserve r
    is what muscles cannot give: it is reported, never hidden.

    Args:
        motion: any clip; put on ``marey.HUMAN`` first unless it has those joints. Feet on the ground carry the body:
            contacts are detected where the clip has none.
        muscles: lines over the joints of ``marey.HUMAN``; :func:`human_muscles` by default.
        body: masses, by default those of the figure.
        hill: strength depends on length and speed of the fibres; else it is the largest force.
        passive: stretched fibres pull also when at rest. Lengths at rest are those of standing.
        power: p; 2 spreads the work, 3 is the criterion of endurance.

    Raises:
        InputError: fewer than three frames, a power below 2, or muscles that do not fit the figure.
    """
    if not (np.isfinite(power) and 2.0 <= power <= 8.0):
        raise InputError(f"power is {power}", "Give 2 to 8")
    figure = motion if motion.skeleton.names == HUMAN.names else retarget(motion)
    lines = make_human_muscles(figure.skeleton) if muscles is None else tuple(muscles)
    if not lines:
        raise InputError("no muscles", "Leave them out, or give at least one")
    axes = find_governed_axes(figure.skeleton)
    masses = Body.from_motion(figure) if body is None else body
    contacts = detect_contacts(figure) if figure.contacts is None else figure.contacts
    needed = solve_inverse_dynamics(masses, figure, contacts=contacts)
    smoothed = needed.motion()
    geometry = compute_muscle_geometry(smoothed, lines, axes)
    joints = [figure.skeleton.names.index(joint) for joint, _ in axes]
    torques = needed.torques[:, joints, [axis for _, axis in axes]]
    active, resting = _compute_tensions(geometry, lines, figure.skeleton, hill=hill, passive=passive)
    activations, left = _share_frame_torques(
        geometry.arms, active, torques - np.einsum("fma,fm->fa", geometry.arms, resting), power
    )
    if not np.isfinite(left).all():
        raise InputError("torques of the motion are not finite", "Look at the clip with `marey physics`")
    forces = active * activations + resting
    reserves = torques - np.einsum("fma,fm->fa", geometry.arms, forces)
    return MuscleTrack(smoothed, lines, axes, geometry, activations, forces, torques, reserves)


def compute_standing_lengths(muscles: Sequence[MusclePath], skeleton: Skeleton = HUMAN) -> FloatArray:
    """Length of each muscle [m] when the figure stands with hanging arms and slightly bent elbows."""
    turns = np.zeros((1, skeleton.num_joints, 3))
    for joint, axis, degrees in (
        ("left_shoulder", 2, -75.0),
        ("right_shoulder", 2, 75.0),
        ("left_elbow", 1, -30.0),
        ("right_elbow", 1, 30.0),
    ):
        turns[0, skeleton.names.index(joint), axis] = np.deg2rad(degrees)
    pose = Motion(skeleton, 1.0, np.zeros((1, 3)), SO3.exp(turns))
    return compute_muscle_geometry(pose, muscles, ()).lengths[0]


def _compute_tensions(
    geometry: MuscleGeometry, muscles: Sequence[MusclePath], skeleton: Skeleton, *, hill: bool, passive: bool
) -> tuple[FloatArray, FloatArray]:
    """Tension at full activation and at rest ``(F, M)`` [N]."""
    from marey.muscle._human_sharing_kernels import compute_capacities

    largest = np.array([muscle.largest_force_n for muscle in muscles])
    fibres = np.array([muscle.fibre_length_m for muscle in muscles])
    active, resting = compute_capacities(
        geometry.lengths, geometry.speeds, compute_standing_lengths(muscles, skeleton), fibres, largest
    )
    if not hill:
        active = np.broadcast_to(largest, active.shape).copy()
    return active, resting if passive else np.zeros_like(resting)


def _share_frame_torques(
    arms: FloatArray, active: FloatArray, wanted: FloatArray, power: float
) -> tuple[FloatArray, FloatArray]:
    from marey.muscle._human_sharing_kernels import share_torques

    turning = np.ascontiguousarray((arms * active[..., None]).transpose(0, 2, 1)) / RESERVE_NM
    return share_torques(turning, np.ascontiguousarray(wanted) / RESERVE_NM, RESERVE_WEIGHT, power, 0.05)

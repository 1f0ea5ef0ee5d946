"""The muscles of a whole body over a motion: joint torques are shared among them, and give their activations."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, Result, UnknownNameError, atomic_file, kernel
from marey.contacts import detect_contacts
from marey.dynamics import Body, solve_inverse_dynamics
from marey.kinematics import retarget
from marey.lie import SO3
from marey.motion import Motion
from marey.muscle.human.muscle_paths import (
    MuscleGeometry,
    MusclePath,
    compute_muscle_geometry,
    find_governed_axes,
    make_human_muscles,
)
from marey.muscle.muscles.hill import groote_length, groote_passive, groote_speed
from marey.skeleton import HUMAN

MAX_NEWTON_STEPS = 60
SLOPE_TOL = 1e-9  # [-] largest projected slope
ARMIJO = 1e-4
# [-] of the best fibre length: stiff tendons would stretch fibres further than real ones
MIN_FIBRE_LENGTH, MAX_FIBRE_LENGTH = 0.45, 1.55
LENGTHS_PER_S = 10.0  # fastest shortening, in best fibre lengths a second
MIN_CAPACITY = 0.05  # [-] of the largest force that is left at bad lengths and speeds


@kernel
def share_torques(
    turning: FloatArray, wanted: FloatArray, weight: float, power: float, start: float
) -> tuple[FloatArray, FloatArray]:
    r"""Least activations that turn each joint as wanted, frame after frame ([Crowninshield1981]_).

    .. math:: \min_{0\le a\le1}\ \sum_m a_m^p/p + \tfrac w2|Ba-b|^2

    by projected Newton steps, each frame begun where the last one ended.

    Args:
        turning: ``(F, A, M)`` B, torque of each axis at full activation over the size of a reserve.
        wanted: ``(F, A)`` b, torque wanted, in the same measure.
        weight: w of what is not met.
        power: p, two or more.
        start: activation that the first frame begins with.

    Returns:
        activations ``(F, M)`` and the largest slope left ``(F,)``.
    """
    frames, _, muscles = turning.shape
    out = np.empty((frames, muscles))
    left = np.empty(frames)
    a = np.full(muscles, start)
    for f in range(frames):
        # Normal equations of the torques: w B^T B and w B^T b.
        B = np.ascontiguousarray(turning[f])
        normal = weight * (B.T @ B)
        pull = weight * (B.T @ wanted[f])
        # Minimise in place; returns the largest projected slope
        count, worst = len(a), 0.0
        for number in range(MAX_NEWTON_STEPS + 1):
            # Slope of the cost, and the largest way that it leads inside the bounds.
            slope = normal @ a - pull
            worst = 0.0
            for m in range(count):
                slope[m] += a[m] ** (power - 1.0)
                worst = max(worst, abs(min(max(a[m] - slope[m], 0.0), 1.0) - a[m]))
            if worst < SLOPE_TOL or number == MAX_NEWTON_STEPS:
                break
            # Activations that no bound holds back.
            free = np.empty(count, dtype=np.int64)
            inside = 0
            for m in range(count):
                if not ((a[m] <= 0.0 and slope[m] > 0.0) or (a[m] >= 1.0 and slope[m] < 0.0)):
                    free[inside] = m
                    inside += 1
            # Newton's step for them.
            H = np.empty((inside, inside))
            g = np.empty(inside)
            for i in range(inside):
                g[i] = -slope[free[i]]
                for j in range(inside):
                    H[i, j] = normal[free[i], free[j]]
                H[i, i] += max((power - 1.0) * max(a[free[i]], 0.0) ** (power - 2.0), 1e-6)
            step = np.linalg.solve(H, g)
            # The step is halved and projected until the cost falls (Armijo).
            value = _cost_value(normal, pull, power, a)
            length = 1.0
            tried = a.copy()
            for _ in range(30):
                promised = 0.0
                for m in range(count):
                    tried[m] = a[m]
                for i in range(inside):
                    tried[free[i]] = min(max(a[free[i]] + length * step[i], 0.0), 1.0)
                    promised += slope[free[i]] * (tried[free[i]] - a[free[i]])
                if _cost_value(normal, pull, power, tried) <= value + ARMIJO * promised:
                    break
                length *= 0.5
            for m in range(count):
                a[m] = tried[m]
        left[f] = worst
        out[f] = a
    return out, left


@kernel
def _cost_value(normal: FloatArray, pull: FloatArray, power: float, a: FloatArray) -> float:
    value = 0.5 * np.dot(a, normal @ a) - np.dot(pull, a)
    for m in range(len(a)):
        value += a[m] ** power / power
    return value


@kernel
def compute_capacities(
    lengths: FloatArray, speeds: FloatArray, rest: FloatArray, fibres: FloatArray, largest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Tension at full activation, and passive tension ``(F, M)`` [N], of fibres on stiff tendons.

    Fibres have their best length where the muscle has its length at rest; what the muscle gains, its fibres gain.
    """
    frames, muscles = lengths.shape
    active = np.empty((frames, muscles))
    passive = np.empty((frames, muscles))
    for f in range(frames):
        for m in range(muscles):
            x = min(max(1.0 + (lengths[f, m] - rest[m]) / fibres[m], MIN_FIBRE_LENGTH), MAX_FIBRE_LENGTH)
            v = min(max(speeds[f, m] / (fibres[m] * LENGTHS_PER_S), -1.0), 1.0)
            active[f, m] = largest[m] * max(groote_length(x) * groote_speed(v), MIN_CAPACITY)
            passive[f, m] = largest[m] * groote_passive(x)
    return active, passive


RESERVE_NM: Final = 5.0  # [N m] size of a torque that costs as much as a fully active muscle, over sqrt(weight)
RESERVE_WEIGHT: Final = 100.0  # [-]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MuscleTrack(Result):
    """Activations and forces of M muscles over F frames, and the reserves."""

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
    def torque_fraction(self) -> float:
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
        with atomic_file(target) as draft, draft.open("w", newline="", encoding="utf-8") as stream:
            rows = csv.writer(stream)
            kinds = ("activation", "force_n", "length_m")
            rows.writerow(["time_s", *(f"{name}.{kind}" for kind in kinds for name in self.names)])
            table = np.concatenate([self.times[:, None], self.activations, self.forces, self.geometry.lengths], axis=1)
            rows.writerows([[f"{value:.6g}" for value in row] for row in table])
        return target

    def __repr__(self) -> str:
        size = f"{len(self.muscles)} muscles, {len(self.activations)} frames"
        return f"MuscleTrack({size}, {self.torque_fraction:.0%} given)"


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
        muscles: lines over the joints of ``marey.HUMAN``; :func:`make_human_muscles` by default.
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
    # Tensions at full activation and at rest (F, M) [N].
    largest = np.array([muscle.largest_force_n for muscle in lines])
    fibres = np.array([muscle.fibre_length_m for muscle in lines])
    # Length of each muscle [m] when the figure stands with hanging arms and slightly bent elbows
    turns = np.zeros((1, figure.skeleton.num_joints, 3))
    for joint, axis, degrees in (
        ("left_shoulder", 2, -75.0),
        ("right_shoulder", 2, 75.0),
        ("left_elbow", 1, -30.0),
        ("right_elbow", 1, 30.0),
    ):
        turns[0, figure.skeleton.names.index(joint), axis] = np.deg2rad(degrees)
    pose = Motion(figure.skeleton, 1.0, np.zeros((1, 3)), SO3.exp(turns))
    active, resting = compute_capacities(
        geometry.lengths, geometry.speeds, compute_muscle_geometry(pose, lines, ()).lengths[0], fibres, largest
    )
    if not hill:
        active = np.broadcast_to(largest, active.shape).copy()
    resting = resting if passive else np.zeros_like(resting)
    # Torques that are left for active tension, shared frame by frame; all in units of a reserve.
    wanted = torques - np.einsum("fma,fm->fa", geometry.arms, resting)
    turning = np.ascontiguousarray((geometry.arms * active[..., None]).transpose(0, 2, 1)) / RESERVE_NM
    activations, left = share_torques(turning, np.ascontiguousarray(wanted) / RESERVE_NM, RESERVE_WEIGHT, power, 0.05)
    if not np.isfinite(left).all():
        raise InputError("torques of the motion are not finite", "Look at the clip with `marey physics`")
    forces = active * activations + resting
    reserves = torques - np.einsum("fma,fm->fa", geometry.arms, forces)
    return MuscleTrack(smoothed, lines, axes, geometry, activations, forces, torques, reserves)

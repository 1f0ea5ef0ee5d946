"""The muscles of a whole body over a motion: joint torques are shared among them, and give their activations."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from marey.base import FloatArray, InputError, Result, UnknownNameError, atomic_file, kernel
from marey.contacts import detect_contacts
from marey.dynamics import GRAVITY, Body, compute_differences, smooth_values, solve_inverse_dynamics
from marey.kinematics import retarget
from marey.lie import SO3
from marey.motion import Motion
from marey.muscle.human.mechanics import (
    FootLoads,
    MuscleGeometry,
    MusclePath,
    apply_foot_loads,
    compute_muscle_geometry,
    estimate_foot_loads,
    find_governed_axes,
    make_human_muscles,
    measure_foot_loads,
)
from marey.muscle.muscles.spline import groote_length, groote_passive, groote_speed
from marey.skeleton import HUMAN, HUMAN_STATURE_M, human, leg_length, role_map

if TYPE_CHECKING:
    from marey.io import GroundReaction

MAX_NEWTON_STEPS = 60
SLOPE_TOL = 1e-9  # [-] largest projected slope
ARMIJO = 1e-4
# [-] of the best fibre length: stiff tendons would stretch fibres further than real ones
MIN_FIBRE_LENGTH, MAX_FIBRE_LENGTH = 0.45, 1.55
LENGTHS_PER_S = 10.0  # fastest shortening, in best fibre lengths a second
MIN_CAPACITY = 0.05  # [-] of the largest force that is left at bad lengths and speeds


class ShareRule(NamedTuple):
    """What the sharing of torques minimises, and how fast activations may change."""

    weight: float  # w of what is not met
    power: float  # p, two or more
    lowest: float  # [-] activation of every muscle at least: co-contraction
    rest: float  # [-] part of 1 - a that is left after a frame of full excitation
    fall: float  # [-] part of a that is left after a frame of none; 0 for both: no activation dynamics


@kernel
def share_torques(
    turning: FloatArray, wanted: FloatArray, rule: ShareRule, start: float
) -> tuple[FloatArray, FloatArray]:
    r"""Least activations that turn each joint as wanted, frame after frame ([Crowninshield1981]_).

    .. math:: \min_{l\le a\le u}\ \sum_m a_m^p/p + \tfrac w2|Ba-b|^2

    by projected Newton steps, each frame begun where the last one ended. After the first frame the bounds are what an
    excitation between 0 and 1 can make of the last activation ([DeGroote2009]_).

    Args:
        turning: ``(F, A, M)`` B, torque of each axis at full activation over the size of a reserve.
        wanted: ``(F, A)`` b, torque wanted, in the same measure.
        rule: cost and bounds.
        start: activation that the first frame begins with.

    Returns:
        activations ``(F, M)`` and the largest slope left ``(F,)``.
    """
    frames, _, muscles = turning.shape
    weight, power = rule.weight, rule.power
    out = np.empty((frames, muscles))
    left = np.empty(frames)
    a = np.full(muscles, max(start, rule.lowest))
    low, high = np.full(muscles, rule.lowest), np.ones(muscles)
    for f in range(frames):
        if f > 0:
            # Bounds of this frame: excitation none or full since the last
            for m in range(muscles):
                low[m] = max(rule.lowest, a[m] * rule.fall)
                high[m] = max(1.0 - (1.0 - a[m]) * rule.rest, low[m])
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
                worst = max(worst, abs(min(max(a[m] - slope[m], low[m]), high[m]) - a[m]))
            if worst < SLOPE_TOL or number == MAX_NEWTON_STEPS:
                break
            # Activations that no bound holds back.
            free = np.empty(count, dtype=np.int64)
            inside = 0
            for m in range(count):
                if not ((a[m] <= low[m] and slope[m] > 0.0) or (a[m] >= high[m] and slope[m] < 0.0)):
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
                    m = free[i]
                    tried[m] = min(max(a[m] + length * step[i], low[m]), high[m])
                    promised += slope[m] * (tried[m] - a[m])
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
def compute_capacities(fibres: FloatArray, speeds: FloatArray, largest: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Tension at full activation, and passive tension ``(F, M)`` [N].

    Args:
        fibres: length of the fibres over their best ``(F, M)``.
        speeds: rate of that length ``(F, M)`` [1/s].
        largest: largest forces ``(M,)`` [N].
    """
    frames, muscles = fibres.shape
    active = np.empty((frames, muscles))
    passive = np.empty((frames, muscles))
    for f in range(frames):
        for m in range(muscles):
            x = min(max(fibres[f, m], MIN_FIBRE_LENGTH), MAX_FIBRE_LENGTH)
            v = min(max(speeds[f, m] / LENGTHS_PER_S, -1.0), 1.0)
            active[f, m] = largest[m] * max(groote_length(x) * groote_speed(v), MIN_CAPACITY)
            passive[f, m] = largest[m] * groote_passive(x)
    return active, passive


@kernel
def balance_tendons(rigid: FloatArray, stretch: FloatArray, pull: FloatArray) -> FloatArray:
    r"""Length of fibres over their best ``(F, M)`` at which fibres and tendon pull equally, by bisection.

    .. math:: x + s\,\sqrt{f_P(x) + f_A} = x_0

    A tendon under the force f (over the largest) is longer by :math:`\epsilon\,l_T\sqrt f`.

    Args:
        rigid: :math:`x_0`, on a tendon that does not stretch ``(F, M)``.
        stretch: s, of a tendon at the largest force, over the best length of the fibres ``(M,)``.
        pull: :math:`f_A`, active tension over the largest ``(F, M)``.
    """
    out = np.empty_like(rigid)
    for f in range(rigid.shape[0]):
        for m in range(rigid.shape[1]):
            low, high = rigid[f, m] - 2.0 * stretch[m], rigid[f, m]
            for _ in range(24):
                x = 0.5 * (low + high)
                force = groote_passive(min(max(x, MIN_FIBRE_LENGTH), MAX_FIBRE_LENGTH)) + pull[f, m]
                if x + stretch[m] * np.sqrt(max(force, 0.0)) > rigid[f, m]:
                    high = x
                else:
                    low = x
            out[f, m] = 0.5 * (low + high)
    return out


RESERVE_NM: Final = 5.0  # [N m] size of a torque that costs as much as a fully active muscle, over sqrt(weight)
RESERVE_WEIGHT: Final = 100.0  # [-]


ACTIVATION_S: Final = 0.01  # [s] rise of the activation after excitation ([Rajagopal2016]_)
DEACTIVATION_S: Final = 0.04  # [s]
ELECTRICAL_LEAD_S: Final = 0.04  # [s] EMG before what it excites; models after [Lloyd2003]_ seek it in 0 to 0.07
TENDON_STRAIN: Final = 0.049  # [-] of a tendon at the largest force of its muscle ([Rajagopal2016]_)
TENDON_HZ: Final = 8.0  # [Hz] a tendon stretches no faster than the forces of the body are known
WRISTS: Final = ("left_wrist", "right_wrist")
MAX_BURDEN_KG: Final = 300.0
TRACK_SUFFIXES: Final = (".csv", ".sto")
TENDON_PASSES: Final = 2  # sharings after which the stretch of tendons is brought up to date
STAND_DEG: Final = (
    ("left_shoulder", 2, -75.0),
    ("right_shoulder", 2, 75.0),
    ("left_elbow", 1, -30.0),
    ("right_elbow", 1, 30.0),
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MuscleTrack(Result):
    """Activations and forces of M muscles over F frames, and the reserves."""

    motion: Motion  # on the joints of marey.HUMAN
    muscles: tuple[MusclePath, ...]
    axes: tuple[tuple[str, int], ...]  # joint and axis of each torque
    geometry: MuscleGeometry
    activations: FloatArray  # (F, M) between 0 and 1
    excitations: FloatArray  # (F, M) between 0 and 1: what drives the activations
    forces: FloatArray  # (F, M) [N] tension
    fibres: FloatArray  # (F, M) length of the fibres over their best
    torques: FloatArray  # (F, A) [N m] that the motion needs about each axis
    resistance: FloatArray  # (F, A) [N m] of it that ligaments and resting muscles give
    reserves: FloatArray  # (F, A) [N m] of it that neither gives
    loads: FootLoads  # of the ground on the feet, and the residual at the root
    mass_kg: float

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
        """Part of the torque, in root mean square over axes and frames, that muscles and resistance give (1: all)."""
        asked = float(np.linalg.norm(self.torques))
        return 1.0 - float(np.linalg.norm(self.reserves)) / asked if asked > 0.0 else 1.0

    @property
    def emg(self) -> FloatArray:
        """What electrodes show ``(F, M)``: excitations before the electromechanical delay; the last ones are held."""
        lead = np.minimum(self.times + ELECTRICAL_LEAD_S, self.times[-1])
        columns = [np.asarray(np.interp(lead, self.times, row), dtype=np.float64) for row in self.excitations.T]
        return np.stack(columns, axis=1)

    def of(self, name: str) -> FloatArray:
        """Activation ``(F,)`` of one muscle."""
        if name not in self.names:
            raise UnknownNameError("muscle", name, "this body", self.names)
        return self.activations[:, self.names.index(name)]

    def busiest(self, count: int = 5) -> tuple[tuple[str, float], ...]:
        """Muscles with the largest mean activation."""
        means = zip(self.names, self.activations.mean(axis=0).tolist(), strict=True)
        return tuple(sorted(means, key=lambda pair: -pair[1])[:count])

    @property
    def residual_fraction(self) -> float:
        """Moment that neither feet nor muscles give, root mean square over body weight times a metre."""
        moments = self.loads.residual[:, 3:] / (self.mass_kg * GRAVITY)
        return float(np.sqrt((moments**2).sum(axis=1).mean()))

    def save(self, path: str | Path) -> Path:
        """Write a table: CSV, or an OpenSim storage file (``.sto``).

        Columns are the time, then activation, excitation, force [N] and length [m] of each muscle, then the torque and
        the reserve [N m] about each axis.

        Raises:
            InputError: the name ends in neither.
        """
        target = Path(path)
        if target.suffix.lower() not in TRACK_SUFFIXES:
            raise InputError(f"cannot write '{target.name}'", f"Name it {' or '.join(TRACK_SUFFIXES)}")
        axes = [f"{joint}_{'xyz'[axis]}" for joint, axis in self.axes]
        parts = (
            ("activation", self.names, self.activations),
            ("excitation", self.names, self.excitations),
            ("force_n", self.names, self.forces),
            ("length_m", self.names, self.geometry.lengths),
            ("torque_nm", axes, self.torques),
            ("reserve_nm", axes, self.reserves),
        )
        is_storage = target.suffix.lower() == ".sto"
        time = "time" if is_storage else "time_s"
        header = [time, *(f"{name}.{kind}" for kind, names, _ in parts for name in names)]
        table = np.concatenate([self.times[:, None], *(values for *_, values in parts)], axis=1)
        with atomic_file(target) as draft, draft.open("w", newline="", encoding="utf-8") as stream:
            if is_storage:
                facts = ("version=1", f"nRows={len(table)}", f"nColumns={len(header)}", "inDegrees=no", "endheader")
                stream.write("\n".join(("muscles", *facts, "")))
            rows = csv.writer(stream, delimiter="\t" if is_storage else ",", lineterminator="\n")
            rows.writerow(header)
            rows.writerows([[f"{value:.6g}" for value in row] for row in table])
        return target

    def __repr__(self) -> str:
        size = f"{len(self.muscles)} muscles, {len(self.activations)} frames"
        return f"MuscleTrack({size}, {self.torque_fraction:.0%} given)"


# Sagittal angles [degrees] over which resistance was measured: flexion of hip and knee, plantar flexion of the ankle
RESISTANCE_RANGES: Final = {"hip": (-20.0, 110.0), "knee": (0.0, 130.0), "ankle": (-20.0, 50.0)}


def compute_joint_resistance(motion: Motion, axes: Sequence[tuple[str, int]]) -> FloatArray:
    r"""Torques ``(F, A)`` [N m] with which the legs of a relaxed adult resist bending, ligaments and muscles together.

    Sums of exponentials of the angles of hip, knee and ankle, measured by [Riener1999]_; beyond the range that was
    measured they stay as at its end. A straight knee is bent by 10 N m, an extended hip flexed by 20 N m.
    """
    names, turns = motion.skeleton.names, np.rad2deg(motion.rotations.log())
    found = np.zeros((motion.num_frames, len(axes)))
    for side in ("left", "right"):
        hip, knee, ankle = (
            np.clip((-1.0 if joint == "hip" else 1.0) * turns[:, names.index(f"{side}_{joint}"), 0], *span)
            for joint, span in RESISTANCE_RANGES.items()
        )
        moments = {
            "hip": np.exp(1.3403 - 0.0226 * knee + 0.0305 * hip)
            - np.exp(1.4655 - 0.0034 * knee - 0.0750 * hip)
            - 8.072,
            "knee": np.exp(1.800 - 0.0460 * ankle - 0.0352 * knee + 0.0217 * hip)
            - np.exp(-3.971 - 0.0004 * ankle + 0.0495 * knee - 0.0128 * hip)
            + np.exp(2.220 - 0.150 * knee)
            - 4.820,
            "ankle": np.exp(2.1016 - 0.0843 * ankle - 0.0176 * knee)
            - np.exp(-7.9763 + 0.1949 * ankle + 0.0008 * knee)
            - 1.792,
        }
        for joint, moment in moments.items():
            if (f"{side}_{joint}", 0) in axes:
                found[:, list(axes).index((f"{side}_{joint}", 0))] = moment
    return found


def estimate_activations(
    motion: Motion,
    *,
    muscles: Sequence[MusclePath] | None = None,
    body: Body | None = None,
    reaction: GroundReaction | None = None,
    carried_kg: Mapping[str, float] | None = None,
    hill: bool = True,
    passive: bool = False,
    resistance: bool = False,
    dynamics: bool = True,
    co_contraction: float = 0.0,
    power: float = 2.0,
) -> MuscleTrack:
    r"""Share the torques of a motion among muscles, frame by frame (static optimisation, [Crowninshield1981]_).

    .. math:: \min_{0\le a\le1}\sum_m a_m^p/p + \tfrac w2|r|^2/r_0^2,\qquad
              \textstyle\sum_m R_{jm}\,(a_m c_m + f_m) + p_j + r_j = \tau_j

    where R are moment arms, :math:`c = F_0 f_L f_V` tensions at full activation, f passive tensions and p the
    resistance of relaxed legs (:func:`compute_joint_resistance`), both by choice, and the reserve r is what none of
    them gives: it is reported, never hidden. Tendons stretch with the force of the sharing before. Torques go through
    the low-pass of the accelerations, so that ground forces and inertia are smooth alike.

    Args:
        motion: any clip; put on the joints of ``marey.HUMAN`` in its own size first, unless it has them. The path of
            the body is kept as captured: feet that are held still would shake the accelerations of the trunk.
        muscles: lines over the joints of ``marey.HUMAN``; :func:`make_human_muscles` by default.
        body: masses, by default those of the figure.
        reaction: measured forces on "left" and "right", on the clock and in the axes of the motion; by default they
            are estimated from the motion and contacts that are detected on the figure (:func:`estimate_foot_loads`).
        carried_kg: what "left_wrist" and "right_wrist" carry.
        hill: strength depends on length and speed of the fibres; else it is the largest force.
        passive: stretched fibres pull also when at rest, muscle by muscle.
        resistance: legs resist bending as measured ones at rest do, muscles and ligaments as a whole.
        dynamics: activations change no faster than excitation lets them, 10 ms up and 40 ms down.
        co_contraction: least activation of every muscle.
        power: p; 2 spreads the work, 3 is the criterion of endurance.

    Raises:
        InputError: fewer than three frames, a power below 2, both ``passive`` and ``resistance``, or muscles that do
            not fit the figure.
    """
    if not (np.isfinite(power) and 2.0 <= power <= 8.0):
        raise InputError(f"power is {power}", "Give 2 to 8")
    if not 0.0 <= co_contraction < 1.0:
        raise InputError(f"co_contraction is {co_contraction}", "Give 0 to less than 1")
    if passive and resistance:
        raise InputError("resting muscles would pull twice", "Give passive or resistance")
    figure = motion
    if motion.skeleton.names != HUMAN.names:
        ratio = leg_length(motion.skeleton, role_map(motion.skeleton)) / leg_length(HUMAN, role_map(HUMAN))
        figure = retarget(motion, human(ratio * HUMAN_STATURE_M), contacts=False)
    lines = make_human_muscles(figure.skeleton) if muscles is None else tuple(muscles)
    if not lines:
        raise InputError("no muscles", "Leave them out, or give at least one")
    axes = find_governed_axes(figure.skeleton)
    masses = Body.from_motion(figure) if body is None else body
    needed = solve_inverse_dynamics(masses, figure)
    # Force and moment about the world origin (F, J, 6) of what the hands carry, as heavy as it moves
    names = figure.skeleton.names
    burden = np.zeros((needed.num_frames, len(names), 6))
    for name, mass in (carried_kg or {}).items():
        if name not in WRISTS:
            raise UnknownNameError("carrier", name, "estimate_activations", WRISTS)
        if not (np.isfinite(mass) and 0.0 <= mass <= MAX_BURDEN_KG):
            raise InputError(f"{name} carries {mass} kg", f"Give 0 to {MAX_BURDEN_KG:g}")
        place = needed.motion().joint_positions()[:, names.index(name)]
        _, acceleration = compute_differences(place, needed.rate_hz)
        force = -mass * (acceleration + np.array([0.0, needed.gravity, 0.0]))
        burden[:, names.index(name)] = np.concatenate([force, np.cross(place, force)], axis=1)
    if carried_kg:
        needed = solve_inverse_dynamics(masses, figure, external=burden)
    loads = (
        estimate_foot_loads(needed, detect_contacts(figure))
        if reaction is None
        else measure_foot_loads(needed, reaction)
    )
    turned = apply_foot_loads(needed, loads, burden)
    smoothed = needed.motion()
    geometry = compute_muscle_geometry(smoothed, lines, axes)
    joints = [figure.skeleton.names.index(joint) for joint, _ in axes]
    torques = turned[:, joints, [axis for _, axis in axes]]
    if needed.cutoff_hz is not None:
        torques = smooth_values(torques, needed.rate_hz, needed.cutoff_hz)
    # Length of each muscle [m] when the figure stands with hanging arms and slightly bent elbows
    turns = np.zeros((1, figure.skeleton.num_joints, 3))
    for joint, axis, degrees in STAND_DEG:
        turns[0, figure.skeleton.names.index(joint), axis] = np.deg2rad(degrees)
    pose = Motion(figure.skeleton, 1.0, np.zeros((1, 3)), SO3.exp(turns))
    standing = compute_muscle_geometry(pose, lines, ()).lengths[0]
    largest, fibres, tendons, begin = np.array(
        [(m.largest_force_n, m.fibre_length_m, m.tendon_length_m, m.standing_fibre) for m in lines]
    ).T
    # Bounds of the activation after one frame of excitation none or full
    step_s = 1.0 / figure.rate_hz
    rest, fall = (np.exp(-step_s / np.array([ACTIVATION_S, DEACTIVATION_S])) if dynamics else np.zeros(2)).tolist()
    rule = ShareRule(RESERVE_WEIGHT, power, co_contraction, rest, fall)
    rigid, longer = begin + (geometry.lengths - standing) / fibres, TENDON_STRAIN * tendons / fibres
    resisted = compute_joint_resistance(smoothed, axes) if resistance else np.zeros_like(torques)
    pull = forces = activations = relative = np.zeros_like(rigid)
    for _ in range(TENDON_PASSES):
        relative = balance_tendons(rigid, longer, pull)
        rates = np.gradient(relative, step_s, axis=0)
        active, resting = compute_capacities(relative, rates, largest)
        if not hill:
            active = np.broadcast_to(largest, active.shape).copy()
        resting = resting if passive else np.zeros_like(resting)
        # Torques that are left for active tension, shared frame by frame; all in units of a reserve.
        wanted = torques - resisted - np.einsum("fma,fm->fa", geometry.arms, resting)
        turning = np.ascontiguousarray((geometry.arms * active[..., None]).transpose(0, 2, 1)) / RESERVE_NM
        activations, left = share_torques(turning, np.ascontiguousarray(wanted) / RESERVE_NM, rule, 0.05)
        if not np.isfinite(left).all():
            raise InputError("torques of the motion are not finite", "Look at the clip with `marey physics`")
        forces = active * activations + resting
        pull = smooth_values(active * activations / largest, figure.rate_hz, TENDON_HZ)
    reserves = torques - resisted - np.einsum("fma,fm->fa", geometry.arms, forces)
    # Excitation that makes each activation of the last: a first-order lag, exact over a frame
    excitations = activations.copy()
    if dynamics:
        before, after = activations[:-1], activations[1:]
        left_over = np.where(after > before, rest, fall)
        excitations[1:] = np.clip((after - left_over * before) / (1.0 - left_over), 0.0, 1.0)
    return MuscleTrack(
        smoothed, lines, axes, geometry, activations, excitations, forces, relative, torques, resisted,
        reserves, loads,
        masses.mass_kg,
    )  # fmt: skip

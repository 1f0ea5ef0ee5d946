"""Mechanics of a body's muscles: their lengths and moment arms in a motion, and the ground forces under each foot.

``muscles.toml`` places the muscles of the canonical human, after [Rajagopal2016]_ (legs) and [Holzbaur2005]_ (arms).

The whole wrench of the ground follows from the motion, but torques of the legs depend on how two feet share it and on
where under a sole it acts, to centimetres. Accelerations of a trunk tell neither; what is known of feet does.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, UnknownNameError, frozen
from marey.dynamics import compute_centre_of_pressure, find_supports, solve_newton_euler
from marey.motion import Contacts, Motion, find_runs, other_side
from marey.skeleton import HUMAN, HUMAN_STATURE_M, Skeleton, joint_frames, role_map

if TYPE_CHECKING:
    from marey.dynamics.inverse.newton_euler import InverseDynamics
    from marey.io import GroundReaction


@dataclass(frozen=True, slots=True, eq=False)
class MusclePath:
    """A muscle that runs straight from point to point, each carried by a joint."""

    name: str
    joints: tuple[str, ...]  # (P,) joint that carries each point
    offsets: FloatArray  # (P, 3) [m] from that joint, in its frame
    largest_force_n: float
    fibre_length_m: float  # best length of the fibres
    tendon_length_m: float = 0.0  # slack; it stretches by 4.9 % at the largest force
    standing_fibre: float = 1.0  # [-] length of the fibres over their best when the figure stands

    def __post_init__(self) -> None:
        offsets = frozen(self.offsets, len(self.joints), 3, name=f"offsets of '{self.name}'")
        object.__setattr__(self, "offsets", offsets)
        if len(offsets) < 2:
            raise InputError(f"muscle '{self.name}' has {len(offsets)} points", "Give an origin and an insertion")
        for what in ("largest_force_n", "fibre_length_m"):
            if not (np.isfinite(getattr(self, what)) and getattr(self, what) > 0.0):
                raise InputError(f"{what} of muscle '{self.name}' is {getattr(self, what)}", "It must be above zero")


@cache
def _read_muscle_table() -> dict[str, Any]:
    """The muscles of the left side, and the axes of joints that they govern."""
    return tomllib.loads((files("marey.muscle.human") / "muscles.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=8)
def make_human_muscles(skeleton: Skeleton = HUMAN) -> tuple[MusclePath, ...]:
    """The muscles of a skeleton with the joints of ``marey.HUMAN``, 50 a side.

    A point keeps its place relative to the joint that carries it, scaled by the stature; so bones of other lengths keep
    the moment arms of their joints.
    """
    _check_joints(skeleton, HUMAN.names)
    rest = HUMAN.rest_positions()
    scale = float(np.ptp(skeleton.rest_positions()[:, 1]) / np.ptp(rest[:, 1]))
    muscles: list[MusclePath] = []
    for side, sign in (("left", 1.0), ("right", -1.0)):
        for row in _read_muscle_table()["muscle"]:
            joints = tuple(joint if side == "left" else other_side(joint) for joint, *_ in row["points"])
            places = np.array([sign, 1.0, 1.0]) * np.array([place for _, *place in row["points"]]) * HUMAN_STATURE_M
            offsets = scale * (places - rest[[HUMAN.names.index(joint) for joint in joints]])
            force, fibre = row["largest_force_n"] * scale**2, row["fibre_length_m"] * scale
            tendon, standing = row.get("tendon_length_m", 0.0) * scale, row.get("standing_fibre", 1.0)
            muscles.append(MusclePath(f"{side}_{row['name']}", joints, offsets, force, fibre, tendon, standing))
    return tuple(muscles)


def find_governed_axes(skeleton: Skeleton) -> tuple[tuple[str, int], ...]:
    """Joints and axes (0 x, 1 y, 2 z of the joint's own frame) whose torque is shared among muscles."""
    rows = list[tuple[str, int]]()
    for name, axes in _read_muscle_table()["governed_axes"].items():
        for joint in dict.fromkeys((name, other_side(name))):
            rows += [(joint, "xyz".index(axis)) for axis in axes]
    return tuple(row for row in rows if row[0] in skeleton.names)


@dataclass(frozen=True, slots=True, eq=False)
class MuscleGeometry:
    """Lengths and moment arms of M muscles over F frames."""

    points: tuple[FloatArray, ...]  # M times (F, P, 3) [m] in world
    lengths: FloatArray  # (F, M) [m]
    speeds: FloatArray  # (F, M) [m/s], shortening is negative
    arms: FloatArray  # (F, M, A) [m] of the governed axes: torque on the joint over tension


def compute_muscle_geometry(
    motion: Motion, muscles: Sequence[MusclePath], axes: Sequence[tuple[str, int]]
) -> MuscleGeometry:
    r"""Lengths, their rates and moment arms of every muscle at every frame.

    .. math:: l = \sum_s |p_{s+1}-p_s|,\qquad r = -\partial l/\partial\theta

    for a turn :math:`\theta` of all that hangs on the joint about one axis of its own frame: the torque of tension T
    is r T.

    Args:
        motion: at least two frames.
        muscles: lines over the joints of the motion.
        axes: joint name and axis number of each wanted moment arm.
    """
    skeleton = motion.skeleton
    _check_joints(skeleton, [joint for muscle in muscles for joint in muscle.joints] + [joint for joint, _ in axes])
    places, turns = joint_frames(skeleton, motion.root_positions, motion.rotations.wxyz, motion.translations)
    frames = turns.matrix()
    # Whether the second joint (J, J) hangs on the first, or is it.
    below = np.eye(skeleton.num_joints, dtype=np.bool_)
    for child, parent in enumerate(skeleton.parents):
        if parent >= 0:
            below[:, child] |= below[:, parent]
    carriers = [[skeleton.names.index(name) for name in muscle.joints] for muscle in muscles]
    points = tuple(
        places[:, who] + np.einsum("fpij,pj->fpi", frames[:, who], muscle.offsets)
        for who, muscle in zip(carriers, muscles, strict=True)
    )
    lengths = np.stack([np.linalg.norm(np.diff(line, axis=1), axis=2).sum(axis=1) for line in points], axis=1)
    speeds = np.gradient(lengths, 1.0 / motion.rate_hz, axis=0) if len(lengths) > 1 else np.zeros_like(lengths)
    arms = np.zeros((*lengths.shape, len(axes)))
    for a, (name, axis) in enumerate(axes):
        joint = skeleton.names.index(name)
        for m in range(len(muscles)):
            hangs = below[joint, carriers[m]]
            if hangs.any() and not hangs.all():
                # r = -dl/dtheta: only pieces of the line between the two sides of the joint count.
                line, centre, about = points[m], places[:, joint], frames[:, joint, :, axis]
                for s in np.flatnonzero(hangs[1:] != hangs[:-1]):
                    step = line[:, s + 1] - line[:, s]
                    along = step / np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-12)
                    moved, sign = (line[:, s + 1], 1.0) if hangs[s + 1] else (line[:, s], -1.0)
                    arms[:, m, a] -= sign * np.einsum("fi,fi->f", about, np.cross(moved - centre, along))
    return MuscleGeometry(points, lengths, speeds, arms)


def _check_joints(skeleton: Skeleton, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in skeleton.names]
    if missing:
        raise UnknownNameError("joint", missing[0], f"skeleton {skeleton.name!r}", skeleton.names)


STANDING_ERROR: Final = 1.0  # [-] of the timing of feet that do not step: it says nothing
ANKLES: Final = ("left_ankle", "right_ankle")
# Centre of pressure from the end of the heel to the tip of the toe over a stance: mean of the measured stances of
# AddBiomechanics' Arnold 2013 subjects 01 and 02 and OpenCap subject 2.
STANCE_PHASES: Final = np.array([0.0, 0.1, 0.26, 0.42, 0.58, 0.74, 0.9, 1.0])
STANCE_PRESSURE: Final = np.array([0.05, 0.19, 0.38, 0.50, 0.63, 0.75, 0.90, 0.98])


@dataclass(frozen=True, slots=True)
class FootLoadSettings:
    """How feet share the ground reaction; chosen on the same three people, shown on others in ``study_muscles``."""

    longest_transfer_s: float = 0.4  # double support of a step; who stands longer on both feet does not step
    longest_step_s: float = 1.2  # a longer stance has no heel-to-toe pressure of a step
    shortest_s: float = 0.1  # shorter contacts and gaps are noise of the detection
    early_s: float = 0.02  # plates feel a heel this much before its marker is still
    slack_s: float = 0.08  # a foot may carry this long before and after its contact was seen
    timing_error: float = 0.3  # [-] standard deviation of the share that timing alone gives
    pressure_error_m: float = 0.06  # that of the computed centre of pressure
    computed_weight: float = 0.5  # [-] of the computed centre of pressure against the profile, on one foot
    sole_span: tuple[float, float] = (0.2, 0.78)  # [-] where a foot that carries alone can press: heel pad to ball
    half_width_m: float = 0.03
    pivot_m: float = 0.25  # above the centre of mass: where the forces of walking feet point ([Maus2010]_)
    horizontal_weight: float = 0.5  # [-] of the computed horizontal force against that which points at the pivot
    unseen_load: float = 0.35  # [body weights] that are never carried by nothing: a contact was missed


@dataclass(frozen=True, slots=True, eq=False)
class FootLoads:
    """Forces of the ground on the left and the right foot, and what they leave of the wrench."""

    forces: FloatArray  # (F, 2, 3) [N]
    places: FloatArray  # (F, 2, 3) [m] centre of pressure
    shares: FloatArray  # (F, 2) part of the reaction
    residual: FloatArray  # (F, 6) [N, N m] that the feet do not give, at the root; moment about the centre of mass


def estimate_foot_loads(
    dynamics: InverseDynamics, contacts: Contacts, settings: FootLoadSettings | None = None
) -> FootLoads:
    r"""Share the ground reaction of a motion between its feet.

    In double support of a step the load goes over smoothly, :math:`s = u^2(3-2u)` ([Ren2008]_ transfer it by
    exponentials); who stands on both feet shares it by the centre of pressure. A foot that carries alone presses where
    the wrench says, averaged with the usual way from heel to toe; forces of both feet point at a pivot above the centre
    of mass, and their difference from the whole is shared as the load. The moment that then is left stays at the root,
    as a residual that is reported: accelerations of a captured trunk are not good enough to load an ankle with.

    Args:
        dynamics: of the motion, all that the world gives in its wrench.
        contacts: of heels and toes, as ``marey.contacts.detect_contacts`` gives them.
        settings: how loads are shared.
    """
    chosen = settings or FootLoadSettings()
    motion, weight = dynamics.motion(), dynamics.body.weight_n
    rate, count = motion.rate_hz, motion.num_frames
    supports = find_supports(motion, contacts)
    # First frame and end of each stance of a foot, without gaps and contacts too short to be one
    stances, early = list[list[tuple[int, int]]](), round(chosen.early_s * rate)
    for limb in (0, 1):
        down = supports.limb_active(limb, slack=False).copy()
        for kind in (False, True):
            for a, b in find_runs(down == kind):
                if a > 0 and b < count and b - a < chosen.shortest_s * rate:
                    down[a:b] = not kind
        stances.append([(max(int(a) - early, 0), int(b)) for a, b in find_runs(down)])
    load, phases, steps, near = _window_stances(stances, count, rate, chosen)
    # Where something carries the body and no contact was seen, the nearest stance goes on.
    for f in np.flatnonzero(~load.any(axis=0) & (dynamics.wrench[:, 1] > chosen.unseen_load * weight)):
        gaps = [(min(abs(f - a), abs(f - b)), limb, f >= b) for limb in (0, 1) for a, b in stances[limb]]
        gap, limb, is_late = min(gaps, default=(count, 0, False))
        if gap < chosen.shortest_s * rate:
            load[limb, f], phases[limb, f], steps[limb, f] = 1.0, float(is_late), True
    pressure, _ = compute_centre_of_pressure(dynamics.wrench, supports.floor_m)
    soles = [supports.points[:, supports.limbs == limb] for limb in (0, 1)]
    heels, toes = (np.stack([sole[:, ends].mean(axis=1) for sole in soles]) for ends in (slice(0, 2), slice(-2, None)))
    # Places on one foot: along and across the sole, the computed pressure against the profile of a step.
    along = (toes - heels) * [1.0, 0.0, 1.0]
    lengths = np.maximum(np.linalg.norm(along, axis=2), 1e-9)
    along /= lengths[..., None]
    across = np.cross([0.0, 1.0, 0.0], along)
    usual = np.interp(phases, STANCE_PHASES, STANCE_PRESSURE)
    shares = load / np.maximum(load.sum(axis=0), 1e-9)
    computed = np.clip(((pressure - heels) * along).sum(axis=2) / lengths, *chosen.sole_span)
    # Under a stepping foot the pressure only goes forwards: the mean of the nearest rising bounds of the computed one.
    for limb in (0, 1):
        for a, b in stances[limb]:
            if steps[limb, a]:
                way = computed[limb, a:b]
                computed[limb, a:b] = 0.5 * (np.maximum.accumulate(way) + np.minimum.accumulate(way[::-1])[::-1])
    sideways = np.clip(((pressure - heels) * across).sum(axis=2), -chosen.half_width_m, chosen.half_width_m)
    trust = np.where(steps, chosen.computed_weight * _rise(2.0 * shares - 1.0), 1.0)
    parts = trust * computed + (1.0 - trust) * usual
    places = heels + (parts * lengths)[..., None] * along + (trust * sideways)[..., None] * across
    places[..., 1] = supports.floor_m
    # Shares while both feet may carry: the timing of the step against where the whole pressure is between the feet,
    # each weighed by its variance.
    line = places[0] - places[1]
    apart = np.maximum((line**2).sum(axis=1), 1e-6)
    between = np.clip(((pressure - places[1]) * line).sum(axis=1) / apart, 0.0, 1.0)
    timing = np.where(np.asarray(steps.all(axis=0)), chosen.timing_error, STANDING_ERROR) ** -2.0
    position = apart / chosen.pressure_error_m**2
    both_near = np.asarray(near.all(axis=0), dtype=np.bool_)
    both = np.asarray((timing * shares[0] + position * between) / (timing + position), dtype=np.float64)
    first = np.where(both_near, both, np.asarray(shares[0], dtype=np.float64))
    shares = np.stack([first, np.where(load.any(axis=0), 1.0 - first, 0.0)])
    # Forces: each towards the pivot, and what is left of the whole as the load is shared.
    towards_pivot = dynamics.com + np.array([0.0, chosen.pivot_m, 0.0]) - places
    normal = shares * np.maximum(dynamics.wrench[:, 1], 0.0)
    forces = normal[..., None] * towards_pivot / np.maximum(towards_pivot[..., 1:2], 0.3)
    trusted = np.array([chosen.horizontal_weight, 1.0, chosen.horizontal_weight])
    forces += shares[..., None] * trusted * (dynamics.wrench[:, :3] - forces.sum(axis=0))
    forces, places = forces.transpose(1, 0, 2), places.transpose(1, 0, 2)
    return FootLoads(forces, places, shares.T, _find_residual(dynamics, forces, places))


def measure_foot_loads(dynamics: InverseDynamics, reaction: GroundReaction) -> FootLoads:
    """Loads of force plates named "left" and "right", on the clock and in the axes of the motion.

    Raises:
        InputError: there is no plate of one of the feet.
    """
    missing = [side for side in ("left", "right") if side not in reaction.names]
    if missing:
        raise InputError(f"no plate of the {missing[0]} foot", f"The plates are {', '.join(reaction.names)}")
    columns = [reaction.names.index(side) for side in ("left", "right")]
    there = reaction.at(dynamics.times)
    loaded = there.is_loaded()[:, columns, None]
    forces, moments = loaded * there.forces[:, columns], loaded * there.moments[:, columns]
    # Pure moments of the plates move the places: the vertical part, which cannot, is left to the residual
    normal = np.maximum(forces[..., 1], 1.0)
    shift = np.stack([moments[..., 2] / normal, np.zeros_like(normal), -moments[..., 0] / normal], axis=2)
    places = there.places[:, columns] + np.where(loaded, np.clip(shift, -0.05, 0.05), 0.0)
    shares = forces[..., 1] / np.maximum(forces[..., 1].sum(axis=1, keepdims=True), 1.0)
    return FootLoads(forces, places, shares, _find_residual(dynamics, forces, places))


def _find_residual(dynamics: InverseDynamics, forces: FloatArray, places: FloatArray) -> FloatArray:
    """Wrench ``(F, 6)`` that forces ``(F, 2, 3)`` leave, its moment about the centre of mass."""
    left = dynamics.wrench - np.concatenate([forces.sum(axis=1), np.cross(places, forces).sum(axis=1)], axis=1)
    left[:, 3:] -= np.cross(dynamics.com, left[:, :3])
    return left


def apply_foot_loads(dynamics: InverseDynamics, loads: FootLoads, external: FloatArray | None = None) -> FloatArray:
    """Torques ``(F, J, 3)`` [N m] of a body that stands on its feet, with other forces ``(F, J, 6)`` if there are."""
    push = (
        np.zeros((dynamics.num_frames, dynamics.body.skeleton.num_joints, 6)) if external is None else external.copy()
    )
    roles = role_map(dynamics.body.skeleton)
    for limb, ankle in enumerate(ANKLES):
        push[:, roles[ankle], :3] += loads.forces[:, limb]
        push[:, roles[ankle], 3:] += np.cross(loads.places[:, limb], loads.forces[:, limb])
    found = solve_newton_euler(
        dynamics.body, dynamics.states, dynamics.rate_hz, external=push, gravity=dynamics.gravity
    )
    return found.torques


def _rise(u: FloatArray) -> FloatArray:
    """Smooth step from 0 to 1."""
    inside = np.clip(u, 0.0, 1.0)
    return inside * inside * (3.0 - 2.0 * inside)


def _window_stances(
    stances: list[list[tuple[int, int]]], count: int, rate_hz: float, settings: FootLoadSettings
) -> tuple[FloatArray, FloatArray, BoolArray, BoolArray]:
    """Load window, phase from 0 to 1, whether it is a step, and whether the foot may carry, ``(2, F)``."""
    load, phases, (steps, near) = np.zeros((2, count)), np.zeros((2, count)), np.zeros((2, 2, count), dtype=np.bool_)
    slack = round(settings.slack_s * rate_hz)
    longest = settings.longest_transfer_s * rate_hz
    # What the ends of a clip cut off is as long as the others are.
    overlaps = [
        b - c for limb in (0, 1) for a, b in stances[limb] for c, e in stances[1 - limb] if a < c < b < e <= count
    ]
    usual = float(np.median([d for d in overlaps if d < longest] or [0.12 * rate_hz]))
    whole = [b - a for side in stances for a, b in side if a > 0 and b < count]
    stance = float(np.median([d for d in whole if d < settings.longest_step_s * rate_hz] or [0.65 * rate_hz]))
    for limb in (0, 1):
        for a, b in stances[limb]:
            frames = np.arange(a, b, dtype=np.float64) + 0.5
            window = np.ones(b - a)
            for c, e in stances[1 - limb]:
                # The other foot stood before this one came down, or stands on after it lifts.
                if c < a < e:
                    window *= _rise((frames - a) / max(min(e - a, longest) if e < count else usual, 1.0))
                if c < b < e and b < count:
                    window *= _rise((b - frames) / max(min(b - c, longest) if c > 0 else usual, 1.0))
            first = a if a > 0 else min(a, b - stance)
            last = b if b < count else max(b, first + stance)
            load[limb, a:b] = window
            low, high = max(a - slack, 0), min(b + slack, count)
            phases[limb, low:high] = np.clip((np.arange(low, high) + 0.5 - first) / (last - first), 0.0, 1.0)
            steps[limb, low:high] = last - first < settings.longest_step_s * rate_hz
            near[limb, low:high] = True
    return load, phases, steps, near

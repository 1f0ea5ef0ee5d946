"""Fitting a behaviour: clips to coordinates, principal components, usual poses at contact changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.dynamics import Body, JointTree
from marey.kinematics import retarget
from marey.motion import ContactPhase, Motion, align_to_ground, contact_phases, lowpass
from marey.spacetime._behaviour import (
    MAX_DIMENSION,
    MIN_DIMENSION,
    VARIANCE_FLOOR,
    BehaviourPose,
    BehaviourSpace,
    ContactBorder,
)
from marey.spacetime._limbs_tree import SIDES, align_legs, find_leg_dofs, find_root_dofs

SAMPLE_HZ: Final = 30.0
BEFORE_S: Final = 0.95  # [s] kept before a flight
AFTER_S: Final = 0.75  # [s] kept after it
SMOOTH_HZ: Final = 6.0  # [Hz] before velocities and accelerations are taken
LIFT_LEAD_S: Final = 0.02  # [s] contacts are labelled a little late as feet leave
MIN_DEVIATION: Final = 0.05  # [rad] of a usual angle
LIMIT_MARGIN: Final = 0.35  # [rad] beyond what the clips show
HIP_LIMIT: Final = 2.4  # [rad] of each turn, whatever a noisy clip shows
ANKLE_LIMIT: Final = 1.2  # [rad]
TOE_LIMIT: Final = 1.3  # [rad] captured toes jitter and hardly bend; a heel lifts as far as this
MAX_ACCEL: Final = 2e5  # [rad^2/s^3] what is more in a clip is noise of its joints
NUM_MIXED_FRAMES: Final = 12  # dimensions at which clips are probably of several behaviours
SAME_BONES_M: Final = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class ClipSample:
    """A clip as coordinates, smoothed, with its contact phases."""

    name: str
    rate_hz: float
    q: FloatArray  # (F, D) raw
    smooth: FloatArray  # (F, D)
    phases: tuple[ContactPhase, ...]
    keep: slice  # frames inside the window
    flight: tuple[int, int] | None = None  # first frame and the one after the last of the flight it was chosen by

    @property
    def rates(self) -> FloatArray:
        """Velocities ``(F, D)``."""
        return np.gradient(self.smooth, axis=0) * self.rate_hz


def fit_behaviour(
    motions: Sequence[Motion],
    dimension: int | None,
    energy: float,
    root_order: str,
    free_root: str,
    mass_kg: float | None,
    window: str | None,
    name: str,
) -> BehaviourSpace:
    """See :meth:`BehaviourSpace.fit`."""
    if not motions:
        raise InputError("a behaviour of no clips", "Give at least one; three or more make a better space")
    body = Body.from_motion(motions[0], mass_kg)
    tree = JointTree.from_body(body, root_order=root_order, fingers=False)
    samples = [_sample_clip(tree, body, motion, window) for motion in motions]
    columns = _choose_columns(tree, free_root, samples)
    rows = np.concatenate([_resample(s.q[s.keep], s.rate_hz)[:, columns] for s in samples])
    mean, basis, variances = compute_principal_components(rows)
    wanted = _choose_dimension(variances, energy) if dimension is None else dimension
    if not 1 <= wanted <= min(len(variances), len(rows) - 1):
        raise InputError(f"dimension {wanted}", f"{len(rows)} poses of {len(columns)} coordinates allow fewer")
    rest = float(variances[wanted:].mean()) if wanted < len(variances) else VARIANCE_FLOOR
    lower, upper = _fit_limits(tree, samples)
    return BehaviourSpace(
        tree=align_legs(tree),
        columns=columns,
        mean=mean,
        basis=basis[:, :wanted],
        variances=np.maximum(variances[:wanted], VARIANCE_FLOOR),
        residual_variance=max(rest, VARIANCE_FLOOR),
        explained=float(variances[:wanted].sum() / variances.sum()),
        lower=lower,
        upper=upper,
        borders=_fit_borders(tree, samples),
        poses=_choose_key_poses(samples, at_rest=window == "flight"),
        accel_scale=_median_acceleration(tree, samples),
        trials=tuple(s.name for s in samples),
        name=name,
        report=_describe_fit(samples, variances),
    )


def compute_principal_components(rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean ``(n,)``, orthonormal directions ``(n, r)`` and variances ``(r,)`` of samples ``(T, n)``, largest first."""
    mean = rows.mean(axis=0)
    _, s, vt = np.linalg.svd(rows - mean, full_matrices=False)
    signs = np.sign(vt[np.arange(len(vt)), np.argmax(np.abs(vt), axis=1)])  # same bytes on every machine
    return mean, (vt * signs[:, None]).T, s**2 / max(len(rows) - 1, 1)


def _choose_dimension(variances: FloatArray, energy: float) -> int:
    """max(d_0.9, 7), at most 10."""
    enough = int(np.searchsorted(np.cumsum(variances) / variances.sum(), energy - 1e-12)) + 1
    return int(np.clip(enough, min(MIN_DIMENSION, len(variances)), MAX_DIMENSION))


def _sample_clip(tree: JointTree, body: Body, motion: Motion, window: str | None) -> ClipSample:
    same = motion.skeleton.names == body.skeleton.names
    motion = align_to_ground(motion)
    if same:
        fitted = Body.from_motion(motion).skeleton
        same = float(np.abs(fitted.offsets[1:] - body.skeleton.offsets[1:]).max()) < SAME_BONES_M
    own = body.motion(motion) if same else retarget(motion, body.skeleton)
    phases = contact_phases(motion)
    q = tree.from_motion(own)
    smooth = tree.from_motion(lowpass(own, SMOOTH_HZ))
    keep = _choose_window(motion, phases, window)
    flight = _find_longest_flight(phases) if window == "flight" else None
    edges = None if flight is None else (flight.start, flight.stop)
    return ClipSample(motion.name, motion.rate_hz, q, smooth, phases, keep, edges)


def _choose_window(motion: Motion, phases: tuple[ContactPhase, ...], window: str | None) -> slice:
    if window is None:
        return slice(0, motion.num_frames)
    if window == "stance":
        stances = [
            phase for phase in phases if phase.kind == "left" and phase.start > 0 and phase.stop < motion.num_frames
        ]
        if not stances:
            raise InputError(f"clip '{motion.name}' never stands on its left foot alone", "Leave it out")
        middles = [(phase.start + phase.stop) // 2 for phase in stances]
        return slice(middles[0], max(middles[-1] + 1, middles[0] + 4))
    longest = _find_longest_flight(phases)
    if window != "flight" or longest is None:
        raise InputError(f"clip '{motion.name}' has no {window}", "Leave it out, or fit whole clips")
    start = longest.start - int(BEFORE_S * motion.rate_hz)
    return slice(max(start, 0), min(longest.stop + int(AFTER_S * motion.rate_hz), motion.num_frames))


def _find_longest_flight(phases: tuple[ContactPhase, ...]) -> ContactPhase | None:
    flights = [phase for phase in phases if phase.kind == "flight"]
    return max(flights, key=len) if flights else None


def _choose_columns(tree: JointTree, free_root: str, samples: list[ClipSample]) -> IntArray:
    """All turns but the root's free ones; those that no clip moves are left out."""
    slides, turns = find_root_dofs(tree)
    free = [dof for dof in turns if "xyz"[int(np.argmax(np.abs(tree.axes[dof])))] in free_root]
    poses = np.concatenate([s.q[s.keep] for s in samples])
    still = np.flatnonzero(poses.var(axis=0) < VARIANCE_FLOOR)
    legs = {int(dof) for dof in range(tree.num_dofs)} - set(still.tolist())
    return np.array([i for i in sorted(legs) if i not in slides and i not in free], dtype=np.int64)


def _resample(q: FloatArray, rate_hz: float) -> FloatArray:
    return q[:: max(1, round(rate_hz / SAMPLE_HZ))]


def _fit_limits(tree: JointTree, samples: list[ClipSample]) -> tuple[FloatArray, FloatArray]:
    poses = np.concatenate([s.smooth for s in samples])
    lower = np.maximum(poses.min(axis=0) - LIMIT_MARGIN, tree.lower)
    upper = np.minimum(poses.max(axis=0) + LIMIT_MARGIN, np.where(np.isfinite(tree.upper), tree.upper, np.inf))
    for side in SIDES:
        dofs = find_leg_dofs(tree, side)
        for part, most in ((dofs[:3], HIP_LIMIT), (dofs[4:7], ANKLE_LIMIT)):
            lower[part], upper[part] = np.maximum(lower[part], -most), np.minimum(upper[part], most)
    toes = [find_leg_dofs(tree, side)[7] for side in SIDES]
    lower[toes], upper[toes] = np.minimum(lower[toes], -TOE_LIMIT), np.maximum(upper[toes], TOE_LIMIT)
    return lower, np.maximum(upper, lower + LIMIT_MARGIN)


def _fit_borders(tree: JointTree, samples: list[ClipSample]) -> dict[str, ContactBorder]:
    """Usual poses where a foot leaves or lands."""
    found: dict[str, list[FloatArray]] = {}
    for sample in samples:
        for before, after in zip(sample.phases[:-1], sample.phases[1:], strict=True):
            if not sample.keep.start <= after.start < sample.keep.stop or (
                sample.flight is not None and after.start not in sample.flight
            ):
                continue
            for side in SIDES:
                was, is_ = side in before.planted, side in after.planted
                if was != is_:
                    lead = int(LIFT_LEAD_S * sample.rate_hz) if was else 0
                    found.setdefault(f"{side}_{'lift' if was else 'land'}", []).append(
                        sample.smooth[max(after.start - lead, 0)]
                    )
    return {
        event: ContactBorder(np.mean(poses, axis=0), np.maximum(np.std(poses, axis=0), MIN_DEVIATION))
        for event, poses in found.items()
    }


def _choose_key_poses(samples: list[ClipSample], *, at_rest: bool) -> dict[str, BehaviourPose]:
    """First and last pose of the window of the clip that is nearest to the others' there."""
    poses: dict[str, BehaviourPose] = {}
    for name, index in (("start", 0), ("end", -1)):
        frames = [range(s.keep.start, s.keep.stop)[index] for s in samples]
        stack = np.stack([s.smooth[f] for s, f in zip(samples, frames, strict=True)])
        gaps = np.linalg.norm(stack[:, 6:] - np.median(stack[:, 6:], axis=0), axis=1)
        best = int(np.argmin(gaps))
        rate = samples[best].rates[frames[best]]
        poses[name] = BehaviourPose(stack[best], np.zeros_like(rate) if at_rest else rate)
    return poses


def _median_acceleration(tree: JointTree, samples: list[ClipSample]) -> float:
    """Median over clips of the square acceleration of all coordinates, over time."""
    sums = [
        float((np.gradient(s.rates, axis=0)[s.keep] ** 2).sum() * s.rate_hz)  # (rate^2) / rate
        for s in samples
    ]
    return min(float(np.median(sums)), MAX_ACCEL)


def _describe_fit(samples: list[ClipSample], variances: FloatArray) -> tuple[str, ...]:
    notes: list[str] = []
    if len(samples) < 3:
        notes.append(f"only {len(samples)} clips: the space may be too narrow")
    needed = int(np.searchsorted(np.cumsum(variances) / variances.sum(), 0.9)) + 1
    if needed > NUM_MIXED_FRAMES:
        notes.append(f"{needed} dimensions for 90 % of the variance: the clips are probably of several behaviours")
    return tuple(notes)

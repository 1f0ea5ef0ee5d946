"""The poses of a behaviour: a few coordinates learnt from a few clips, and their file.

Clips become coordinates, coordinates principal components, and usual poses are kept at contact changes. A behaviour
file is one ``.safetensors`` file that cannot run code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import (
    FloatArray,
    InputError,
    IntArray,
    MareyError,
    TensorFormat,
    Tensors,
    UnknownNameError,
    frozen,
    frozen_ints,
)
from marey.contacts import ContactPhase, contact_phases
from marey.dynamics import Body, JointTree, TreeSkeleton
from marey.kinematics import retarget
from marey.motion import Motion, align_to_ground, lowpass
from marey.skeleton import Skeleton
from marey.spacetime.reduced.legs import SIDES, align_legs, find_leg_dofs, find_root_dofs

VARIANCE_FRACTION: Final = 0.9  # of the variance, [Safonova2006]_ (3.2)
MIN_DIMENSION: Final = 7
MAX_DIMENSION: Final = 10
VARIANCE_FLOOR: Final = 1e-6  # [rad^2] variance below which a coordinate is ignored

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
BEHAVIOUR_FILE: Final = TensorFormat(
    "marey-behaviour", "behaviour", 1, "Fit one with BehaviourSpace.fit, or name a shipped one."
)
_TREE_FIELDS: Final = ("parents", "kinds", "axes", "offsets", "masses", "centres", "inertias", "orientations")
_SPACE_FIELDS: Final = ("columns", "mean", "basis", "variances", "lower", "upper")

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True, eq=False)
class ContactBorder:
    """Mean and spread of a coordinate at contact borders."""

    mean: FloatArray  # (D,)
    deviation: FloatArray  # (D,)


@dataclass(frozen=True, slots=True, eq=False)
class BehaviourPose:
    """A pose with its velocity, as a start or an end."""

    q: FloatArray  # (D,)
    qd: FloatArray  # (D,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BehaviourSpace:
    r"""Poses :math:`q = \bar q + \sum_i B_i A_i` near a few clips of one behaviour ([Safonova2006]_ §3.1.1).

    Position and yaw of the root are not in it: what a body does in a jump does not depend on where it faces. The
    variance outside the space, per coordinate, is kept as ``residual_variance``.
    """

    tree: JointTree
    columns: IntArray  # (n,) coordinates that the space speaks of
    mean: FloatArray  # (n,)
    basis: FloatArray  # (n, d) orthonormal
    variances: FloatArray  # (d,) [rad^2]
    residual_variance: float  # [rad^2]
    explained: float  # share of the variance
    lower: FloatArray  # (D,) [rad] range of the clips with a margin
    upper: FloatArray
    borders: Mapping[str, ContactBorder] = field(default_factory=dict[str, ContactBorder])
    """by leg and event: left_lift, left_land, right_lift, right_land"""
    poses: Mapping[str, BehaviourPose] = field(default_factory=dict[str, BehaviourPose])  # "start", "end", ...
    accel_scale: float = 5.06e4  # [rad^2/s^3] square acceleration over a clip, the measure of smoothness
    trials: tuple[str, ...] = ()
    name: str = "behaviour"
    report: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n, d = len(self.columns), self.basis.shape[-1]
        set_ = object.__setattr__
        set_(self, "columns", frozen_ints(self.columns, n, name="columns"))
        set_(self, "mean", frozen(self.mean, n, name="mean"))
        set_(self, "basis", frozen(self.basis, n, d, name="basis"))
        set_(self, "variances", frozen(self.variances, d, name="variances"))
        for name in ("lower", "upper"):
            set_(self, name, frozen(getattr(self, name), self.tree.num_dofs, name=name))
        if n == 0 or d == 0:
            raise InputError("an empty behaviour", "Fit it to at least one clip")
        if (self.variances <= 0.0).any() or not self.residual_variance > 0.0:
            raise InputError("variances must be positive")
        if len(set(self.columns.tolist())) < n or self.columns.min() < 0 or self.columns.max() >= self.tree.num_dofs:
            raise InputError(f"columns that are not {n} of the body's {self.tree.num_dofs} coordinates")
        for kind, known in (("border", self.borders), ("pose", self.poses)):
            for name, value in known.items():
                for part in value.__slots__:
                    frozen(getattr(value, part), self.tree.num_dofs, name=f"{part} of {kind} '{name}'")

    @classmethod
    def fit(
        cls,
        motions: Sequence[Motion],
        *,
        dimension: int | None = None,
        energy: float = VARIANCE_FRACTION,
        root_order: str = "yxz",
        free_root: str = "y",
        mass_kg: float | None = None,
        window: str | None = None,
        name: str = "behaviour",
    ) -> BehaviourSpace:
        """Learn a behaviour from clips; those of other bodies are first put on the first one's.

        Args:
            motions: clips of one behaviour, three or more for a space that is not too narrow.
            dimension: how many coordinates; by default enough for ``energy``, between 7 and 10.
            energy: share of the variance.
            root_order: order of the root's turns; ``"xyz"`` keeps somersaults regular.
            free_root: letters of the root's turns that are left out: yaw; also pitch where the body turns over.
            mass_kg: of the body; by its height if left out.
            window: ``"flight"`` keeps 0.95 s before to 0.75 s after the longest flight of each clip; None all.
            name: of the behaviour.

        Raises:
            InputError: no clip, or a clip without what ``window`` asks for.
        """
        if not motions:
            raise InputError("a behaviour of no clips", "Give at least one; three or more make a better space")
        body = Body.from_motion(motions[0], mass_kg)
        tree = JointTree.from_body(body, root_order=root_order, fingers=False)
        samples = [_sample_clip(tree, body, motion, window) for motion in motions]
        # Coordinates: all turns but the root's free ones; those that no clip moves are left out
        slides, turns = find_root_dofs(tree)
        free = [dof for dof in turns if "xyz"[int(np.argmax(np.abs(tree.axes[dof])))] in free_root]
        is_moved = np.concatenate([s.q[s.keep] for s in samples]).var(axis=0) >= VARIANCE_FLOOR
        columns = np.array([i for i in np.flatnonzero(is_moved) if i not in slides and i not in free], dtype=np.int64)
        # Principal components of thinned-out poses: max(d_0.9, 7) of them, at most 10
        rows = np.concatenate([s.q[s.keep][:: max(1, round(s.rate_hz / SAMPLE_HZ))][:, columns] for s in samples])
        mean, basis, variances = compute_principal_components(rows)
        wanted = dimension
        if wanted is None:
            enough = int(np.searchsorted(np.cumsum(variances) / variances.sum(), energy - 1e-12)) + 1
            wanted = int(np.clip(enough, min(MIN_DIMENSION, len(variances)), MAX_DIMENSION))
        if not 1 <= wanted <= min(len(variances), len(rows) - 1):
            raise InputError(f"dimension {wanted}", f"{len(rows)} poses of {len(columns)} coordinates allow fewer")
        rest = float(variances[wanted:].mean()) if wanted < len(variances) else VARIANCE_FLOOR
        # Limits: what the clips show and a margin, hips, ankles and toes within fixed ones
        poses = np.concatenate([s.smooth for s in samples])
        lower = np.maximum(poses.min(axis=0) - LIMIT_MARGIN, tree.lower)
        upper = np.minimum(poses.max(axis=0) + LIMIT_MARGIN, np.where(np.isfinite(tree.upper), tree.upper, np.inf))
        for side in SIDES:
            dofs = find_leg_dofs(tree, side)
            for part, most in ((dofs[:3], HIP_LIMIT), (dofs[4:7], ANKLE_LIMIT)):
                lower[part], upper[part] = np.maximum(lower[part], -most), np.minimum(upper[part], most)
        toes = [find_leg_dofs(tree, side)[7] for side in SIDES]
        lower[toes], upper[toes] = np.minimum(lower[toes], -TOE_LIMIT), np.maximum(upper[toes], TOE_LIMIT)
        upper = np.maximum(upper, lower + LIMIT_MARGIN)
        # Square acceleration of all coordinates over the time of each clip: (rate^2) / rate
        accelerations = [float((np.gradient(s.rates, axis=0)[s.keep] ** 2).sum() * s.rate_hz) for s in samples]
        notes: list[str] = []
        if len(samples) < 3:
            notes.append(f"only {len(samples)} clips: the space may be too narrow")
        needed = int(np.searchsorted(np.cumsum(variances) / variances.sum(), 0.9)) + 1
        if needed > NUM_MIXED_FRAMES:
            notes.append(f"{needed} dimensions for 90 % of the variance: the clips are probably of several behaviours")
        # Mean poses where a foot leaves or lands
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
        # First and last pose of the window of the clip that is nearest to the others' there
        at_rest = window == "flight"
        ends: dict[str, BehaviourPose] = {}
        for key, index in (("start", 0), ("end", -1)):
            frames = [range(s.keep.start, s.keep.stop)[index] for s in samples]
            stack = np.stack([s.smooth[f] for s, f in zip(samples, frames, strict=True)])
            gaps = np.linalg.norm(stack[:, 6:] - np.median(stack[:, 6:], axis=0), axis=1)
            best = int(np.argmin(gaps))
            rate = samples[best].rates[frames[best]]
            ends[key] = BehaviourPose(stack[best], np.zeros_like(rate) if at_rest else rate)
        return cls(
            tree=align_legs(tree),
            columns=columns,
            mean=mean,
            basis=basis[:, :wanted],
            variances=np.maximum(variances[:wanted], VARIANCE_FLOOR),
            residual_variance=max(rest, VARIANCE_FLOOR),
            explained=float(variances[:wanted].sum() / variances.sum()),
            lower=lower,
            upper=upper,
            borders={
                event: ContactBorder(np.mean(poses, axis=0), np.maximum(np.std(poses, axis=0), MIN_DEVIATION))
                for event, poses in found.items()
            },
            poses=ends,
            accel_scale=min(float(np.median(accelerations)), MAX_ACCEL),
            trials=tuple(s.name for s in samples),
            name=name,
            report=tuple(notes),
        )

    @staticmethod
    def load(path: AnyPath) -> BehaviourSpace:
        """Read a behaviour written by :meth:`save`.

        Raises:
            MissingFileError: there is no such file.
            FormatError: the file is damaged, holds something else, or was written by a newer marey.
        """
        tensors, described = BEHAVIOUR_FILE.read(Path(path))
        try:
            skeleton = Skeleton(
                tuple(str(name) for name in described["joints"]),
                tensors["skeleton.parents"],
                tensors["skeleton.offsets"],
                tensors["skeleton.tips"],
                name=str(described["skeleton"]),
            )
            dofs = tuple(tuple(int(dof) for dof in joint) for joint in described["joint_dofs"])
            points = {
                str(name): (int(p[0]), np.array(p[1:], dtype=np.float64)) for name, p in described["points"].items()
            }
            tree = JointTree(
                names=tuple(str(name) for name in described["coordinates"]),
                **{name: tensors[f"tree.{name}"] for name in _TREE_FIELDS},  # type: ignore[arg-type]
                lower=tensors["tree.lower"],
                upper=tensors["tree.upper"],
                groups=tuple(str(name) for name in described["groups"]),
                points=points,
                figure=TreeSkeleton(skeleton, dofs),
            )
            return BehaviourSpace(
                tree=tree,
                **{name: tensors[f"space.{name}"] for name in _SPACE_FIELDS},  # type: ignore[arg-type]
                residual_variance=float(described["residual_variance"]),
                explained=float(described["explained"]),
                borders={
                    str(n): ContactBorder(tensors[f"border.{n}.mean"], tensors[f"border.{n}.deviation"])
                    for n in described["borders"]
                },
                poses={
                    str(n): BehaviourPose(tensors[f"pose.{n}.q"], tensors[f"pose.{n}.qd"]) for n in described["poses"]
                },
                accel_scale=float(described["accel_scale"]),
                trials=tuple(str(trial) for trial in described["trials"]),
                name=str(described["name"]),
                report=tuple(str(line) for line in described["report"]),
            )
        except (MareyError, KeyError, TypeError, ValueError, IndexError) as error:
            raise BEHAVIOUR_FILE.damage_error(Path(path), error) from error

    def save(self, path: AnyPath) -> None:
        """Write the behaviour, its body included, to a ``.safetensors`` file that gives it back bit for bit."""
        tree, figure = self.tree, self.tree.figure
        assert figure is not None
        skeleton = figure.skeleton
        tensors: Tensors = {f"tree.{name}": getattr(tree, name) for name in _TREE_FIELDS}
        tensors |= {"tree.lower": tree.lower, "tree.upper": tree.upper}
        tensors |= {f"space.{name}": getattr(self, name) for name in _SPACE_FIELDS}
        tensors |= {f"skeleton.{name}": getattr(skeleton, name) for name in ("parents", "offsets", "tips")}
        for name, border in self.borders.items():
            tensors |= {f"border.{name}.mean": border.mean, f"border.{name}.deviation": border.deviation}
        for name, pose in self.poses.items():
            tensors |= {f"pose.{name}.q": pose.q, f"pose.{name}.qd": pose.qd}
        # What is not an array
        facts: dict[str, Any] = {
            "name": self.name,
            "trials": self.trials,
            "report": self.report,
            "residual_variance": self.residual_variance,
            "explained": self.explained,
            "accel_scale": self.accel_scale,
            "coordinates": tree.names,
            "groups": tree.groups,
            "points": {name: [dof, *point.tolist()] for name, (dof, point) in tree.points.items()},
            "skeleton": skeleton.name,
            "joints": skeleton.names,
            "joint_dofs": figure.joint_dofs,
            "borders": sorted(self.borders),
            "poses": sorted(self.poses),
        }
        BEHAVIOUR_FILE.write(Path(path), tensors, facts)

    @property
    def dimension(self) -> int:
        """How many coordinates the space has."""
        return len(self.variances)

    @property
    def deviations(self) -> FloatArray:
        """Standard deviation of each coordinate ``(d,)`` [rad]."""
        return np.sqrt(self.variances)

    def encode(self, q: FloatArray) -> FloatArray:
        """Amplitudes of unit variance ``(F, d)`` of poses ``(F, D)``: their projection."""
        return (q[..., self.columns] - self.mean) @ self.basis / self.deviations

    def decode(self, amplitudes: FloatArray) -> FloatArray:
        """Coordinates ``(F, n)`` of the columns from amplitudes ``(F, d)``."""
        return self.mean + (amplitudes * self.deviations) @ self.basis.T

    def residuals(self, q: FloatArray) -> FloatArray:
        """Square distance [rad^2] of poses ``(F, D)`` from the space, mean over the columns, ``(F,)``."""
        off = q[..., self.columns] - self.decode(self.encode(q))
        return np.asarray((off * off).mean(axis=-1))

    def distance(self, q: FloatArray) -> FloatArray:
        """Square Mahalanobis distance ``(F,)`` of poses ``(F, D)`` from the data, outside the space included."""
        a = self.encode(q)
        outside = self.residuals(q) * len(self.columns) / self.residual_variance
        return np.asarray((a * a).sum(axis=-1) + outside)

    def pose(self, name: str) -> BehaviourPose:
        """Return a pose by name."""
        if name not in self.poses:
            raise UnknownNameError("pose", name, f"behaviour '{self.name}'", self.poses)
        return self.poses[name]

    def with_energy(self, energy: float = VARIANCE_FRACTION) -> BehaviourSpace:
        """Return the space with enough coordinates for a share of the variance, between 7 and 10 of those there."""
        rest = self.residual_variance * (len(self.columns) - self.dimension)
        shares = np.cumsum(self.variances) / (float(self.variances.sum()) + rest)
        enough = int(np.searchsorted(shares, energy - 1e-12)) + 1
        return self.truncate(min(int(np.clip(enough, MIN_DIMENSION, MAX_DIMENSION)), self.dimension))

    def truncate(self, dimension: int) -> BehaviourSpace:
        """Return the space with fewer coordinates; the variance left out goes to the residual."""
        if not 1 <= dimension <= self.dimension:
            raise InputError(f"dimension {dimension} of {self.dimension}", "It is at least 1 and at most what is there")
        rest = len(self.columns) - self.dimension
        spread = self.residual_variance * rest + float(self.variances[dimension:].sum())
        total = float(self.variances.sum()) + self.residual_variance * rest
        return replace(
            self,
            basis=self.basis[:, :dimension],
            variances=self.variances[:dimension],
            residual_variance=max(spread / max(len(self.columns) - dimension, 1), VARIANCE_FLOOR),
            explained=float(self.variances[:dimension].sum()) / total,
        )

    def __repr__(self) -> str:
        size = f"{self.dimension} of {len(self.columns)} coordinates"
        return f"BehaviourSpace('{self.name}', {size}, {len(self.trials)} clips)"


@dataclass(frozen=True, slots=True, eq=False)
class ClipSample:
    """A clip as coordinates, smoothed, with its contact phases."""

    name: str
    rate_hz: float
    q: FloatArray  # (F, D) raw
    smooth: FloatArray  # (F, D)
    rates: FloatArray  # (F, D) velocities of the smooth ones
    phases: tuple[ContactPhase, ...]
    keep: slice  # frames inside the window
    flight: tuple[int, int] | None = None  # first frame and the one after the last of the flight it was chosen by


def compute_principal_components(rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean ``(n,)``, orthonormal directions ``(n, r)`` and variances ``(r,)`` of samples ``(T, n)``, largest first."""
    mean = rows.mean(axis=0)
    _, s, vt = np.linalg.svd(rows - mean, full_matrices=False)
    signs = np.sign(vt[np.arange(len(vt)), np.argmax(np.abs(vt), axis=1)])  # same bytes on every machine
    return mean, (vt * signs[:, None]).T, s**2 / max(len(rows) - 1, 1)


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
    keep, edges = slice(0, motion.num_frames), None
    if window == "stance":
        # From the middle of the first whole stance on the left foot to that of the last
        stances = [p for p in phases if p.kind == "left" and p.start > 0 and p.stop < motion.num_frames]
        if not stances:
            raise InputError(f"clip '{motion.name}' never stands on its left foot alone", "Leave it out")
        middles = [(phase.start + phase.stop) // 2 for phase in stances]
        keep = slice(middles[0], max(middles[-1] + 1, middles[0] + 4))
    elif window is not None:
        flights = [phase for phase in phases if phase.kind == "flight"]
        if window != "flight" or not flights:
            raise InputError(f"clip '{motion.name}' has no {window}", "Leave it out, or fit whole clips")
        longest = max(flights, key=len)
        start = longest.start - int(BEFORE_S * motion.rate_hz)
        keep = slice(max(start, 0), min(longest.stop + int(AFTER_S * motion.rate_hz), motion.num_frames))
        edges = (longest.start, longest.stop)
    rates = np.gradient(smooth, axis=0) * motion.rate_hz
    return ClipSample(motion.name, motion.rate_hz, q, smooth, rates, phases, keep, edges)

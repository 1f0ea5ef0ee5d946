"""Key frames, a few poses with the motion between them; additive layers over a clip; the mixture of two clips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.lie import SO3
from marey.motion.clip import Motion
from marey.skeleton import Pose, Skeleton

MAX_KEYS = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class KeyFrames:
    """Poses of one skeleton at given times. Edits return a new set, so undo only needs to keep the old one."""

    skeleton: Skeleton
    poses: Mapping[float, Pose] = field(default_factory=dict[float, Pose])  # time [s] -> pose, in order of time

    def __post_init__(self) -> None:
        if len(self.poses) > MAX_KEYS:
            raise InputError(f"{len(self.poses)} key frames", f"At most {MAX_KEYS} can be held")
        for time_s, pose in self.poses.items():
            if not (np.isfinite(time_s) and time_s >= 0.0):
                raise InputError(f"a key frame at {time_s} s", "Times are finite and not negative")
            if pose.skeleton.names != self.skeleton.names:
                raise InputError(f"the key frame at {time_s} s belongs to another skeleton")
        ordered = {float(t): self.poses[t] for t in sorted(self.poses)}
        object.__setattr__(self, "poses", MappingProxyType(ordered))

    @property
    def times(self) -> tuple[float, ...]:
        """Times of the keys [s], ascending."""
        return tuple(self.poses)

    def with_key(self, time_s: float, pose: Pose) -> KeyFrames:
        """Set a key; an existing key at this time is replaced."""
        return replace(self, poses={**self.poses, float(time_s): pose})

    def without_key(self, time_s: float) -> KeyFrames:
        """Delete the key at this time."""
        self._check(time_s)
        return replace(self, poses={t: pose for t, pose in self.poses.items() if t != time_s})

    def moved(self, time_s: float, to_s: float) -> KeyFrames:
        """Move a key to another time; an existing key there is replaced."""
        self._check(time_s)
        others = {t: pose for t, pose in self.poses.items() if t not in (time_s, to_s)}
        return replace(self, poses={**others, float(to_s): self.poses[time_s]})

    def pose_at(self, time_s: float) -> Pose:
        r"""Return the pose at any time: between two keys :math:`R_a \exp(u \log(R_a^{-1} R_b))`, held outside them.

        Root positions are interpolated linearly ([Engell2012]_ §5).
        """
        times = np.array(self.times)
        if len(times) == 0:
            return Pose.rest(self.skeleton)
        after = int(np.clip(np.searchsorted(times, time_s), 0, len(times) - 1))
        before = max(after - 1, 0) if time_s < times[after] else after
        a, b = self.poses[self.times[before]], self.poses[self.times[after]]
        gap = times[after] - times[before]
        u = float(np.clip((time_s - times[before]) / gap, 0.0, 1.0)) if gap > 0.0 else 0.0
        return Pose(self.skeleton, (1.0 - u) * a.root_position + u * b.root_position, a.rotations.slerp(b.rotations, u))

    def in_betweens(self, rate_hz: float) -> Motion:
        """The whole clip from time zero to the last key.

        Raises:
            InputError: there is no key.
        """
        if not self.poses:
            raise InputError("no key frame is set", "Set at least one")
        count = int(np.floor(self.times[-1] * rate_hz + 1e-9)) + 1
        poses = [self.pose_at(i / rate_hz) for i in range(count)]
        roots = np.stack([pose.root_position for pose in poses])
        return Motion(self.skeleton, rate_hz, roots, SO3.stack([pose.rotations for pose in poses]), name="keys")

    def _check(self, time_s: float) -> None:
        if time_s not in self.poses:
            raise InputError(
                f"no key frame at {time_s} s", f"There are keys at {', '.join(f'{t:g}' for t in self.times)}"
            )


SAME_ANGLE_RAD = 1e-7  # [rad] smaller changes of a joint are not keyed; above the rounding of a logarithm
SAME_POSITION_M = 1e-7  # [m] the same for the root
AXES = ("x", "y", "z")


@dataclass(frozen=True, slots=True, eq=False)
class LayerKey:
    """Change of one joint at one time, relative to the layers below."""

    time_s: float
    joint: str
    rotation: FloatArray | None = None  # (4,) wxyz, in the joint's frame
    offset: FloatArray | None = None  # (3,) [m] in world, for the root only
    # Prescribed slopes of x, y, z [rad/s or m/s]; other slopes follow from the adjacent keys
    slope: Mapping[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        if not np.isfinite(self.time_s):
            raise InputError("a key's time is not a number", "Give seconds")
        if (self.rotation is None) == (self.offset is None):
            raise InputError(f"the key of '{self.joint}' needs a rotation or an offset", "Give one of them")
        if self.rotation is not None:
            object.__setattr__(self, "rotation", frozen(self.rotation, 4, name="rotation"))
        if self.offset is not None:
            object.__setattr__(self, "offset", frozen(self.offset, 3, name="offset"))
        for axis, slope in self.slope.items():
            if axis not in AXES or not np.isfinite(slope):
                raise InputError(f"slope '{axis}' of a key of '{self.joint}'", "Give numbers for x, y, z")


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Keys with a weight; a mask restricts the layer to some joints, an empty mask does not."""

    keys: tuple[LayerKey, ...] = ()
    weight: float = 1.0
    mask: tuple[str, ...] = ()

    def tracks(self, skeleton: Skeleton, times: FloatArray) -> dict[tuple[str, str], FloatArray]:
        """Rotation vectors and offsets ``(F, 3)`` at some times, unweighted, by joint and kind."""
        grouped: dict[tuple[str, str], dict[float, tuple[FloatArray, LayerKey]]] = {}
        for key in self.keys:
            skeleton.index(key.joint)  # an unknown joint is refused
            if self.mask and key.joint not in self.mask:
                continue
            if key.rotation is not None:
                grouped.setdefault((key.joint, "rotation"), {})[key.time_s] = SO3(key.rotation).log(), key
            elif key.joint != skeleton.names[0]:
                raise InputError(f"an offset of '{key.joint}'", f"Only the root '{skeleton.names[0]}' is moved")
            elif key.offset is not None:
                grouped.setdefault((key.joint, "offset"), {})[key.time_s] = key.offset, key
        return {name: _interpolate(values, times) for name, values in grouped.items()}


def _interpolate(values: dict[float, tuple[FloatArray, LayerKey]], times: FloatArray) -> FloatArray:
    """Cubics through the values, constant before the first key and after the last; monotone unless a slope is given."""
    at = np.array(sorted(values))
    rows = np.stack([values[time][0] for time in at.tolist()])
    if len(at) == 1:
        return np.repeat(rows, len(times), axis=0)
    from scipy.interpolate import CubicHermiteSpline, PchipInterpolator

    curve = PchipInterpolator(at, rows)
    if any(key.slope for _, key in values.values()):
        slopes = curve.derivative()(at)
        for row, time in zip(slopes, at.tolist(), strict=True):
            for axis, slope in values[time][1].slope.items():
                row[AXES.index(axis)] = slope
        curve = CubicHermiteSpline(at, rows, slopes)
    return np.asarray(curve(np.clip(times, at[0], at[-1])), dtype=np.float64)


def apply_layers(motion: Motion, layers: Sequence[Layer]) -> Motion:
    r"""Apply additive layers to a clip, in order.

    .. math:: R'_j(t) = R_j(t)\prod_\ell \exp\big(w_\ell\,\phi_{\ell j}(t)\big), \qquad
              p'(t) = p(t) + \sum_\ell w_\ell\,o_\ell(t)

    where :math:`\phi` interpolates the logarithms of a layer's keys by monotone cubics (Fritsch and Carlson), which do
    not overshoot keys without a prescribed slope. Joints without keys keep their values bit for bit.

    Args:
        motion: any clip.
        layers: with weights from 0 (no effect) to 1 (full effect).

    Raises:
        InputError: an offset of a joint that is not the root, a weight that is not a number.
        UnknownNameError: a key of a joint that the clip does not have.
    """
    roots, wxyz = motion.root_positions.copy(), motion.rotations.wxyz.copy()
    for layer in layers:
        if not np.isfinite(layer.weight):
            raise InputError("the weight of a layer is not a number", "Give 0 to 1")
        for (joint, kind), track in layer.tracks(motion.skeleton, motion.times()).items():
            if kind == "offset":
                roots += layer.weight * track
                continue
            j = motion.skeleton.index(joint)
            wxyz[:, j] = (SO3(wxyz[:, j]) @ SO3.exp(layer.weight * track)).wxyz
    return replace(motion, root_positions=roots, rotations=SO3(wxyz), source=motion.edited_source())


def key_pose(layer: Layer, shown: Motion, pose: Pose, time_s: float, *, around_s: float | None = None) -> Layer:
    r"""Set keys so that a clip with this as its last layer shows a given pose at a given time.

    With :math:`R` the shown and :math:`Q` the desired rotation, the key becomes :math:`\log(\exp(w\phi)\,R^{-1}Q)/w`.

    Args:
        layer: the last layer of the clip, with a weight other than zero.
        shown: the clip with all layers applied.
        pose: desired pose, of the same skeleton.
        time_s: time of the key; the nearest frame is changed.
        around_s: distance of keys with the present values on both sides, which limit the change; none by default.

    Raises:
        InputError: a weight of zero, or a pose of other joints.
    """
    if layer.weight == 0.0:
        raise InputError("a layer of weight 0 shows no key", "Give it another weight first")
    if pose.skeleton.names != shown.skeleton.names:
        raise InputError("the pose has other joints than the clip", "Pose a frame of this clip")
    frame = min(max(round(time_s * shown.rate_hz), 0), shown.num_frames - 1)
    instant = frame / shown.rate_hz
    sides = () if around_s is None else (instant - around_s, instant + around_s)
    here = layer.tracks(shown.skeleton, np.array([instant, *sides]))
    nothing = np.zeros((1 + len(sides), 3))
    vectors = (shown.rotations[frame].inverse() @ pose.rotations).log()
    keys = list(layer.keys)
    changes: list[tuple[str, str, FloatArray]] = []
    for j in np.flatnonzero(np.linalg.norm(vectors, axis=-1) > SAME_ANGLE_RAD):
        name = shown.skeleton.names[j]
        now = here.get((name, "rotation"), nothing)
        wanted = (SO3.exp(layer.weight * now[0]) @ SO3.exp(vectors[j])).log() / layer.weight
        changes.append((name, "rotation", np.vstack([wanted, now[1:]])))
    moved = pose.root_position - shown.root_positions[frame]
    if np.linalg.norm(moved) > SAME_POSITION_M:
        now = here.get((shown.skeleton.names[0], "offset"), nothing)
        changes.append((shown.skeleton.names[0], "offset", np.vstack([now[0] + moved / layer.weight, now[1:]])))
    for name, kind, rows in changes:
        # The key at the instant, and the present values on both sides unless there is a key in between
        low, high = (-np.inf, np.inf) if around_s is None else (instant - around_s, instant + around_s)
        own = [k for k in keys if k.joint == name and (k.rotation is None) == (kind == "offset")]
        taken = [k.time_s for k in own]
        keys = [k for k in keys if k not in own or abs(k.time_s - instant) > 0.5 / shown.rate_hz]
        keys.append(_make_key(instant, name, kind, rows[0]))
        for time, row in zip(sides, rows[1:], strict=True):
            side = (low, instant) if time < instant else (instant, high)
            if not any(side[0] <= t <= side[1] and abs(t - instant) > 0.5 / shown.rate_hz for t in taken):
                keys.append(_make_key(time, name, kind, row))
    keys.sort(key=lambda key: (key.joint, key.time_s))
    return replace(layer, keys=tuple(keys))


def _make_key(time_s: float, joint: str, kind: str, row: FloatArray) -> LayerKey:
    if kind == "offset":
        return LayerKey(float(time_s), joint, offset=row)
    return LayerKey(float(time_s), joint, rotation=SO3.exp(row).wxyz)


def mix_motions(motion: Motion, other: Motion, weights: ArrayLike) -> Motion:
    """Interpolate between two clips of the same joints and length, frame by frame.

    Args:
        motion: the result at weight 0, bit for bit.
        other: the result at weight 1, bit for bit.
        weights: ``(F,)``, from 0 to 1; rotations are interpolated by slerp and positions linearly, contacts and bones
            of variable length are taken from the nearer clip.

    Raises:
        InputError: other joints, rates or lengths, or weights outside 0 to 1.
    """
    if other.skeleton.names != motion.skeleton.names or other.num_frames != motion.num_frames:
        raise InputError("two clips of other joints or another length", "Mix a clip with a changed copy of itself")
    w = frozen(weights, motion.num_frames, name="weights")
    if not ((w >= 0.0) & (w <= 1.0)).all():
        raise InputError("a weight outside 0 to 1", "Give weights from 0 to 1")
    between = (w > 0.0) & (w < 1.0)
    is_other = w >= 0.5
    roots = np.where(is_other[:, None], other.root_positions, motion.root_positions)
    wxyz = np.where(is_other[:, None, None], other.rotations.wxyz, motion.rotations.wxyz)
    if between.any():
        # Frames at weight 0 or 1 are copied, so that they stay equal bit for bit
        a, b = SO3(motion.rotations.wxyz[between]), SO3(other.rotations.wxyz[between])
        wxyz[between] = (a @ SO3.exp(w[between, None, None] * (a.inverse() @ b).log())).wxyz
        p, q = motion.root_positions[between], other.root_positions[between]
        roots[between] = p + w[between, None] * (q - p)
    contacts = motion.contacts
    if contacts is not None and other.contacts is not None and other.contacts.names == contacts.names:
        active = np.where(is_other[:, None], other.contacts.active, contacts.active)
        contacts = type(contacts)(contacts.names, active)
    return replace(motion, root_positions=roots, rotations=SO3(wxyz), contacts=contacts, source=motion.edited_source())

"""Key frames: a few poses at chosen times, and the motion between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from marey.base import InputError
from marey.lie import SO3
from marey.motion.clip import Motion
from marey.skeleton import Pose, Skeleton

MAX_KEYS = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class KeyFrames:
    """Poses of one skeleton at times; every edit returns a new set, so that undo is keeping the old one."""

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
        """Set a key, replacing one that is there."""
        return replace(self, poses={**self.poses, float(time_s): pose})

    def without_key(self, time_s: float) -> KeyFrames:
        """Delete the key at this time."""
        self._check(time_s)
        return replace(self, poses={t: pose for t, pose in self.poses.items() if t != time_s})

    def moved(self, time_s: float, to_s: float) -> KeyFrames:
        """Move a key to another time; a key that is already there is replaced."""
        self._check(time_s)
        others = {t: pose for t, pose in self.poses.items() if t not in (time_s, to_s)}
        return replace(self, poses={**others, float(to_s): self.poses[time_s]})

    def pose_at(self, time_s: float) -> Pose:
        r"""The pose at any time: between two keys :math:`R_a \exp(u \log(R_a^{-1} R_b))`, held outside them.

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

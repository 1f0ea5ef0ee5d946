"""Muscles as lines over a skeleton: their lengths and moment arms at every frame of a motion.

``muscles.toml`` places the muscles of the canonical human, after [Rajagopal2016]_ (legs) and [Holzbaur2005]_ (arms).
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.motion import Motion, other_side
from marey.skeleton import HUMAN, HUMAN_STATURE_M, Skeleton, joint_frames


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

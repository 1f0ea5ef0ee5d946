"""Models of joint limits side by side, on the same motion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, final

import numpy as np

from marey.base import FloatArray, InputError
from marey.kinematics._limits import JointLimits, collect_clips
from marey.kinematics._limits_box import BoxLimits
from marey.kinematics._limits_fit import fit_limits
from marey.lie import SO3
from marey.motion import Motion


@final
@dataclass(frozen=True, slots=True)
class LimitModel:
    """What a model of limits is, as [Engell2012]_ table 1 lists it."""

    kind: str
    representation: str
    data: str
    projection: str
    test: str
    capability: str


LIMIT_MODELS: Final = (
    LimitModel("box", "explicit", "intervals", "constant time", "constant time", "convex box"),
    LimitModel("cone", "implicit", "ellipse and interval", "root search", "closed form", "convex, ellipsoidal"),
    LimitModel("reach", "explicit", "spherical polygon", "linear search", "linear search", "non-convex, no holes"),
    LimitModel("ellipsoid", "implicit", "centre and matrix", "root search", "closed form", "convex, ellipsoidal"),
    LimitModel("spline", "parametric", "B-splines", "none", "infeasible poses cannot be written", "non-convex"),
    LimitModel("field", "implicit", "bumps", "bisection", "sum over all samples", "non-convex, trouble with holes"),
    LimitModel("sdf", "implicit", "distance grid", "constant time", "constant time", "non-convex"),
)
"""The models of the source's table, and the ellipsoid of [Tournier2011]_. A spline joint has no outside: there is
nothing to project and nothing to compare, so it appears in the table alone."""


@final
@dataclass(frozen=True, slots=True)
class LimitScore:
    """How a model did. Shares are of single joints' rotations."""

    model: LimitModel
    training: float  # share of the training rotations that are feasible
    held_out: float | None  # share of the held-out rotations that are
    held_out_margin: float | None  # share within ``margin_rad`` of feasible
    volume: float  # share of the box of rotation vectors that is feasible: smaller is tighter
    project_ns: float  # [ns] to check and project one rotation
    num_bytes: int  # of the arrays in a file


def compare_limits(
    motions: Motion | Iterable[Motion],
    *,
    held_out: Motion | Iterable[Motion] | None = None,
    kinds: Sequence[str] = ("box", "cone", "reach", "ellipsoid", "field", "sdf"),
    joints: Sequence[str] | None = None,
    rng: np.random.Generator,
    num_points: int = 4000,
    margin_rad: float = 0.1,
) -> tuple[LimitScore, ...]:
    """Fit every kind of limits to clips and score it: what it holds, how tight and how fast it is.

    Args:
        motions: clips to learn from.
        held_out: clips of the same joints that must be feasible too.
        kinds: which models.
        joints: names of joints to score; all but the root by default.
        rng: draws the points of the volume.
        num_points: rotations drawn from each joint's box.
        margin_rad: violation [rad] that still counts as near.
    """
    skeleton, clips = collect_clips(motions)
    chosen = [skeleton.index(n) for n in joints] if joints is not None else list(range(1, skeleton.num_joints))
    if not chosen:
        raise InputError("no joint to score", "Name at least one")
    every = SO3.concatenate(clips)
    unseen = None if held_out is None else SO3.concatenate(collect_clips(held_out)[1])
    box = BoxLimits.from_clips(motions)
    low, high = (np.clip(b, -np.pi, np.pi) for b in (box.low, box.high))
    drawn = SO3.exp(rng.uniform(low, high, (num_points, skeleton.num_joints, 3)))
    models = {model.kind: model for model in LIMIT_MODELS}
    return tuple(
        _score_model(models[kind], fit_limits(motions, kind), every, unseen, drawn, chosen, margin_rad)
        for kind in kinds
    )


def _score_model(
    model: LimitModel,
    limits: JointLimits,
    every: SO3,
    unseen: SO3 | None,
    drawn: SO3,
    chosen: Sequence[int],
    margin_rad: float,
) -> LimitScore:
    limits.project_rotations(drawn[:2])  # compiles
    began = perf_counter()
    outside = _chosen_violations(limits, drawn, chosen)
    seconds = perf_counter() - began
    new = None if unseen is None else _chosen_violations(limits, unseen, chosen)
    return LimitScore(
        model,
        float(np.mean(_chosen_violations(limits, every, chosen) <= 1e-9)),
        None if new is None else float(np.mean(new <= 1e-9)),
        None if new is None else float(np.mean(new <= margin_rad)),
        float(np.mean(outside <= 1e-9)),
        1e9 * seconds / (drawn.shape[0] * drawn.shape[1]),
        sum(array.nbytes for array in limits.to_arrays().values()),
    )


def _chosen_violations(limits: JointLimits, rotations: SO3, chosen: Sequence[int]) -> FloatArray:
    picked: Any = list(chosen)
    return limits.violations(rotations)[:, picked]

"""Limits of every kind: as arrays for compiled solvers, learnt from clips, read from a file, compared on one motion.

One function fits any kind. :func:`estimate_joints` returns joint types and intervals ([Engell2012]_ §13). A file holds
named arrays, the skeleton and a version; nothing in it can run code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Literal, NamedTuple, cast, final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, MareyError, UnknownNameError, kernel
from marey.kinematics.limits.anatomy.check import AnatomicalTables, check_anatomy
from marey.kinematics.limits.anatomy.model import AnatomicalLimits
from marey.kinematics.limits.box import BoxLimits, EulerBoxLimits, check_box, check_euler_box, circular_interval
from marey.kinematics.limits.charts import ZYZ, FieldTables, chart_coordinates, check_fields, unwrap_angles
from marey.kinematics.limits.cones import ConeLimits, ReachConeLimits, check_cones, check_reach_cones
from marey.kinematics.limits.contract import (
    FEASIBLE_TOL,
    LIMITS_FILE,
    SKELETON_ARRAYS,
    CheckArrays,
    JointLimits,
    collect_clips,
    compute_mean_rotation,
)
from marey.kinematics.limits.ellipsoids import EllipsoidLimits, check_ellipsoids
from marey.kinematics.limits.sdf import QuaternionFieldLimits, SdfLimits, check_quaternion_field
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import Skeleton

Tables = tuple[Any, ...]  # arrays, as the kernel of a kind takes them after the rotations
FREE, BOX, EULER, CONES, REACH, ELLIPSOIDS, QUATERNION_FIELDS, DISTANCE_FIELDS, ANATOMY = range(9)


class Bounds(NamedTuple):
    """Limits of one kind, as its ``tables`` gives them, at the place of the kind; all other arrays are empty."""

    kind: int
    boxes: Tables
    eulers: Tables
    cones: Tables
    polygons: Tables
    ellipsoids: Tables
    bumps: Tables
    fields: FieldTables
    anatomy: AnatomicalTables


def _as_tables(*arrays: NDArray[Any]) -> Tables:
    """Contiguous read-only views, so that each kernel is compiled once."""
    views = tuple(np.ascontiguousarray(array)[...] for array in arrays)
    for view in views:
        view.setflags(write=False)
    return views


def _empty_tables(kinds: str) -> Tables:
    """Arrays without rows of the kinds named, "f2 i1" say: numbers of two axes, then integers of one."""
    types = {"f": np.float64, "i": np.int64, "b": np.bool_, "s": np.float32, "y": np.int8}
    return _as_tables(*(np.zeros((0,) * int(kind[1]), dtype=types[kind[0]]) for kind in kinds.split()))


NO_BOUNDS: Final = Bounds(
    FREE,
    _empty_tables("f2 f2"),
    _empty_tables("f2 i2 f1 f2 f2"),
    _empty_tables("f2 f2 f2 f2"),
    _empty_tables("f2 f2 f3 i1 f2 f2"),
    _empty_tables("f2 f2 f2"),
    _empty_tables("f2 f2 i1 f1 f1"),
    FieldTables(*_empty_tables("i1 f2 f2 f2 i1 i1 i2 f2 f2 b2 f3 f1")),
    AnatomicalTables(*_empty_tables("i1 f2 f2 f1 f1 i1 i2 f2 i1 i1 i1 i2 f2 f2 s1 i1 i2 f3 f3 f1 s2 f2 y1")),
)

_KINDS: Final[dict[type[JointLimits], int]] = {
    BoxLimits: BOX,
    EulerBoxLimits: EULER,
    ConeLimits: CONES,
    ReachConeLimits: REACH,
    EllipsoidLimits: ELLIPSOIDS,
    QuaternionFieldLimits: QUATERNION_FIELDS,
    SdfLimits: DISTANCE_FIELDS,
    AnatomicalLimits: ANATOMY,
}


def compile_bounds(limits: JointLimits | None) -> Bounds | None:
    """Limits as arrays, or ``None`` for a kind that is not of this package: Python alone can check it."""
    if limits is None:
        return NO_BOUNDS
    kind = _KINDS.get(type(limits))
    if kind is None:
        return None
    tables = _as_tables(*cast(Any, limits).tables())
    name = Bounds._fields[kind]
    records: dict[int, Any] = {DISTANCE_FIELDS: FieldTables, ANATOMY: AnatomicalTables}
    return NO_BOUNDS._replace(**{"kind": kind, name: records[kind](*tables) if kind in records else tables})


BOUND_TOL_RAD = 1e-9  # [rad] a pose inside the limits to this is inside
MAX_PROJECTIONS = 3  # projections of one pose: a field may leave a little over where cells meet


@kernel
def check_bounds(bounds: Bounds, wxyz: FloatArray) -> CheckArrays:
    """Project rotations ``(F, J, 4)``; violation and gradient too."""
    # Only the arrays of one kind have rows
    if bounds.kind == BOX:
        return check_box(wxyz, *bounds.boxes)
    if bounds.kind == EULER:
        return check_euler_box(wxyz, *bounds.eulers)
    if bounds.kind == CONES:
        return check_cones(wxyz, *bounds.cones)
    if bounds.kind == REACH:
        return check_reach_cones(wxyz, *bounds.polygons)
    if bounds.kind == ELLIPSOIDS:
        return check_ellipsoids(wxyz, *bounds.ellipsoids)
    if bounds.kind == QUATERNION_FIELDS:
        return check_quaternion_field(wxyz, *bounds.bumps)
    if bounds.kind == DISTANCE_FIELDS:
        return check_fields(wxyz, bounds.fields)
    if bounds.kind == ANATOMY:
        return check_anatomy(wxyz, bounds.anatomy)
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    return wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))


@kernel
def project_to_bounds(bounds: Bounds, wxyz: FloatArray) -> float:
    """Bring the rotations of one pose ``(J, 4)`` into the limits; return how far the furthest was outside [rad]."""
    joints, furthest = wxyz.shape[0], 0.0
    for n in range(MAX_PROJECTIONS):
        out, violation, _ = check_bounds(bounds, wxyz.reshape((1, joints, 4)))
        away = violation.max()
        furthest = away if n == 0 else furthest
        if away <= BOUND_TOL_RAD:
            break
        for j in range(joints):
            if violation[0, j] > 0.0:
                wxyz[j] = out[0, j]
    return furthest


_FITTED: Final[dict[str, Any]] = {
    kind.kind: kind
    for kind in (BoxLimits, ConeLimits, ReachConeLimits, EllipsoidLimits, SdfLimits, QuaternionFieldLimits)
}
KINDS: Final = tuple(_FITTED)  # that can be learnt from clips


def load_limits(path: str | Path) -> JointLimits:
    """Read limits of any kind that ``JointLimits.save`` wrote, of this or an earlier version.

    Raises:
        MissingFileError: there is no such file.
        FormatError: the file is damaged, holds no limits, or was written by a newer marey.
    """
    arrays, described = LIMITS_FILE.read(path)
    try:
        parents, offsets, tips = (arrays[f"skeleton.{name}"] for name in SKELETON_ARRAYS)
        skeleton = Skeleton(tuple(described["joints"]), parents, offsets, tips, name=str(described["skeleton"]))
        own = {name.removeprefix("limits."): a for name, a in arrays.items() if name.startswith("limits.")}
        others = {kind.kind: kind for kind in (EulerBoxLimits, AnatomicalLimits)}
        return {**_FITTED, **others}[str(described["kind"])].from_arrays(skeleton, own)
    except (MareyError, KeyError, ValueError, TypeError, IndexError) as error:
        raise LIMITS_FILE.damage_error(path, error) from error


NUM_SAMPLES = 100  # rotations from which the type of a joint is estimated ([Engell2012]_ §13)
FREEDOM_EIGENVALUE = 1e-4  # [-] variance of a quaternion component below which it is fixed: about 1.1 degrees

JointKind = Literal["fixed", "hinge", "ball"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class JointEstimate:
    """Estimated type and intervals of a joint."""

    joint: str
    kind: JointKind
    axis: FloatArray  # (3,) unit axis of a hinge; zero for the others
    low_rad: FloatArray  # (3,) hinge: its angle first; ball: Z-Y-Z angles; in [0, 2 pi)
    high_rad: FloatArray  # (3,) not below ``low_rad``; infinite (with low minus infinite) is unlimited
    note: str = ""


def fit_limits(motions: Motion | Iterable[Motion], kind: str = "sdf", **options: Any) -> JointLimits:
    """Learn limits of a kind from clips: ``box``, ``cone``, ``reach``, ``ellipsoid``, ``sdf`` or ``field``.

    Options go to the ``from_clips`` of the class.
    """
    if kind not in KINDS:
        raise UnknownNameError("kind of limits", kind, "marey", KINDS)
    return _FITTED[kind].from_clips(motions, **options)


def estimate_joints(
    motions: Motion | Iterable[Motion], *, trim: float = 0.0, margin_rad: float = 0.0
) -> tuple[JointEstimate, ...]:
    """Type and intervals of every joint from clips. [Engell2012]_ §13.

    A hundred rotations show in how many directions the quaternion varies: none, a fixed joint; one, a hinge about the
    principal axis; more, a ball with intervals of Z-Y-Z angles. An interval is what the largest gap of the angles on
    the circle leaves over, so it may cross zero.
    """
    if not 0.0 <= trim < 0.5:
        raise InputError(f"trim is {trim}", "Give a part of the angles, from 0 to less than a half")
    skeleton, clips = collect_clips(motions)
    every = SO3.concatenate(clips)
    return tuple(_estimate_joint(n, every[:, j], trim, margin_rad) for j, n in enumerate(skeleton.names))


def _estimate_joint(joint: str, rotations: SO3, trim: float, margin_rad: float) -> JointEstimate:
    zero = np.zeros(3)
    if len(rotations) < 2:
        constant = rotations.log()[0]
        return JointEstimate(joint, "fixed", zero, constant, constant, "fewer than two frames")
    few = rotations[np.linspace(0, len(rotations) - 1, min(NUM_SAMPLES, len(rotations))).round().astype(int)]
    # Principal axes of the vector parts of the quaternions, all taken on the side of their mean
    wxyz = few.wxyz
    mean = np.linalg.eigh(wxyz.T @ wxyz)[1][:, -1]
    signs = np.where(wxyz @ mean < 0.0, -1.0, 1.0)
    values, vectors = np.linalg.eigh(np.cov((wxyz[:, 1:] * signs[:, None]).T))
    freedoms = int(np.count_nonzero(np.abs(values) > FREEDOM_EIGENVALUE))
    if freedoms == 0:
        constant = compute_mean_rotation(rotations).log()
        return JointEstimate(joint, "fixed", zero, constant, constant)
    if freedoms == 1:
        axis = vectors[:, -1] * np.sign(vectors[np.argmax(np.abs(vectors[:, -1])), -1])
        low, high = circular_interval(rotations.twist_angle(axis), trim=trim, margin_rad=margin_rad)
        return JointEstimate(joint, "hinge", axis, np.array([low, 0.0, 0.0]), np.array([high, 0.0, 0.0]))

    # A ball: intervals of Z-Y-Z angles
    angles = unwrap_angles(chart_coordinates(rotations.wxyz, ZYZ))
    bounds = [circular_interval(angles[:, i], trim=trim, margin_rad=margin_rad) for i in range(3)]
    return JointEstimate(joint, "ball", zero, np.array([b[0] for b in bounds]), np.array([b[1] for b in bounds]))


@final
@dataclass(frozen=True, slots=True)
class LimitModel:
    """Properties of a model of limits ([Engell2012]_ table 1)."""

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
    """Scores of a model of limits, as fractions of single joint rotations."""

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
    # Rotations drawn from the box around the motion measure how tight a kind is
    box = BoxLimits.from_clips(motions)
    low, high = (np.clip(b, -np.pi, np.pi) for b in (box.low, box.high))
    drawn = SO3.exp(rng.uniform(low, high, (num_points, skeleton.num_joints, 3)))
    # Each kind is fitted to the same clips and asked about the same rotations
    scores: list[LimitScore] = []
    for kind in kinds:
        limits = fit_limits(motions, kind)
        limits.project_rotations(drawn[:2])  # compiles
        began = perf_counter()
        outside = limits.violations(drawn)[:, chosen]
        seconds = perf_counter() - began
        seen = limits.violations(every)[:, chosen]
        new = None if unseen is None else limits.violations(unseen)[:, chosen]
        scores.append(
            LimitScore(
                next(model for model in LIMIT_MODELS if model.kind == kind),
                float(np.mean(seen <= FEASIBLE_TOL)),
                None if new is None else float(np.mean(new <= FEASIBLE_TOL)),
                None if new is None else float(np.mean(new <= margin_rad)),
                float(np.mean(outside <= FEASIBLE_TOL)),
                1e9 * seconds / (drawn.shape[0] * drawn.shape[1]),
                sum(array.nbytes for array in limits.to_arrays().values()),
            )
        )
    return tuple(scores)

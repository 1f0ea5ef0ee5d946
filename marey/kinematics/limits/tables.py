"""Joint limits of every kind as plain arrays, and the compiled check of a joint against them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, kernel
from marey.kinematics.limits.anatomy.check import AnatomicalTables, check_anatomy
from marey.kinematics.limits.anatomy.model import AnatomicalLimits
from marey.kinematics.limits.baseline_field import QuaternionFieldLimits, check_quaternion_field
from marey.kinematics.limits.box import BoxLimits, EulerBoxLimits, check_box, check_euler_box
from marey.kinematics.limits.charts import FieldTables, check_fields
from marey.kinematics.limits.cones import ConeLimits, ReachConeLimits, check_cones, check_reach_cones
from marey.kinematics.limits.contract import CheckArrays, JointLimits
from marey.kinematics.limits.ellipsoids import EllipsoidLimits, check_ellipsoids
from marey.kinematics.limits.sdf import SdfLimits

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
    types = {"f": np.float64, "i": np.int64, "b": np.bool_, "s": np.float32}
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
    AnatomicalTables(*_empty_tables("i1 f2 f2 f1 f1 i1 i2 f2 i1 i1 i1 i2 f2 f2 s1 i1 i2 f3 f3 f1 s2 f2")),
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

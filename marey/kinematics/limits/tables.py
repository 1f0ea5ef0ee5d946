"""Joint limits of every kind as plain arrays, and the compiled check of a joint against them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.kinematics.limits.baseline_field import QuaternionFieldLimits, check_quaternion_field
from marey.kinematics.limits.box import BoxLimits, CheckArrays, EulerBoxLimits, check_box, check_euler_box
from marey.kinematics.limits.charts import check_fields
from marey.kinematics.limits.cones import ConeLimits, ReachConeLimits, check_cones, check_reach_cones
from marey.kinematics.limits.contract import JointLimits
from marey.kinematics.limits.ellipsoids import EllipsoidLimits, check_ellipsoids
from marey.kinematics.limits.sdf import SdfLimits

Tables = tuple[Any, ...]  # arrays, as the kernel of a kind takes them after the rotations
FREE, BOX, EULER, CONES, REACH, ELLIPSOIDS, QUATERNION_FIELDS, DISTANCE_FIELDS = range(8)


class Bounds(NamedTuple):
    """Limits of one kind, as its ``tables`` gives them; the arrays of all other kinds are empty."""

    kind: int
    boxes: Tables
    eulers: Tables
    cones: Tables
    polygons: Tables
    ellipsoids: Tables
    bumps: Tables
    fields: Tables


def _empty_floats(dimensions: int) -> FloatArray:
    return _contiguous(np.zeros((0,) * dimensions))


def _empty_ints(dimensions: int) -> IntArray:
    return _contiguous(np.zeros((0,) * dimensions, dtype=np.int64))


def _contiguous(array: Any) -> Any:
    """Contiguous read-only view, so that each kernel is compiled once."""
    view = np.ascontiguousarray(array)[...]
    view.setflags(write=False)
    return view


NO_BOUNDS: Final = Bounds(
    FREE,
    (_empty_floats(2), _empty_floats(2)),
    (_empty_floats(2), _empty_ints(2), _empty_floats(1), _empty_floats(2), _empty_floats(2)),
    (_empty_floats(2), _empty_floats(2), _empty_floats(2), _empty_floats(2)),
    (_empty_floats(2), _empty_floats(2), _empty_floats(3), _empty_ints(1), _empty_floats(2), _empty_floats(2)),
    (_empty_floats(2), _empty_floats(2), _empty_floats(2)),
    (_empty_floats(2), _empty_floats(2), _empty_ints(1), _empty_floats(1), _empty_floats(1)),
    (
        *(
            _empty_ints(1),
            _empty_floats(2),
            _empty_floats(2),
            _empty_floats(2),
            _empty_ints(1),
            _empty_ints(1),
            _empty_ints(2),
            _empty_floats(2),
            _empty_floats(2),
        ),
        *(_contiguous(np.zeros((0, 0), dtype=np.bool_)), _empty_floats(3), _empty_floats(1)),
    ),
)

_KINDS: Final[dict[type[JointLimits], tuple[int, str]]] = {
    BoxLimits: (BOX, "boxes"),
    EulerBoxLimits: (EULER, "eulers"),
    ConeLimits: (CONES, "cones"),
    ReachConeLimits: (REACH, "polygons"),
    EllipsoidLimits: (ELLIPSOIDS, "ellipsoids"),
    QuaternionFieldLimits: (QUATERNION_FIELDS, "bumps"),
    SdfLimits: (DISTANCE_FIELDS, "fields"),
}


def compile_bounds(limits: JointLimits | None) -> Bounds | None:
    """Limits as arrays, or ``None`` for a kind that is not of this package: Python alone can check it."""
    if limits is None:
        return NO_BOUNDS
    found = _KINDS.get(type(limits))
    if found is None:
        return None
    number, name = found
    tables = (_contiguous(table) for table in cast(Any, limits).tables())
    return NO_BOUNDS._replace(**{"kind": number, name: tuple(tables)})


PROJECTION_OPTIONS = (
    2,
    True,
    True,
)  # as ``SdfLimits`` projects: two steps, divided by the slope, and the way to a feasible node
BOUND_TOL_RAD = 1e-9  # [rad] a pose inside the limits to this is inside
MAX_PROJECTIONS = 3  # projections of one pose: a field may leave a little over where cells meet


@kernel
def check_bounds(bounds: Bounds, wxyz: FloatArray) -> CheckArrays:
    """Project rotations ``(F, J, 4)``; violation and gradient too."""
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
        tables = bounds.fields
        charts, before, after, table, nearest, starts, shapes, origins, spacings, periodic, across, epsilons = tables
        places = (starts, shapes, origins, spacings, periodic, across, epsilons)
        return check_fields(wxyz, charts, before, after, table, nearest, *places, PROJECTION_OPTIONS)
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


@kernel
def largest_violation(bounds: Bounds, wxyz: FloatArray) -> float:
    """How far the furthest joint of one pose ``(J, 4)`` is outside [rad]."""
    return check_bounds(bounds, wxyz.reshape((1, wxyz.shape[0], 4)))[1].max()

"""Joint limits of every kind as plain arrays, so that compiled solvers can check them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import numpy as np

from marey.base import FloatArray, IntArray
from marey.kinematics._cones import ConeLimits, ReachConeLimits
from marey.kinematics._ellipsoids import EllipsoidLimits
from marey.kinematics._limits import JointLimits
from marey.kinematics._limits_box import BoxLimits, EulerBoxLimits
from marey.kinematics._limits_field import QuaternionFieldLimits
from marey.kinematics._sdf import SdfLimits

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

"""Compiled limits of any kind."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, kernel
from marey.kinematics._cones_kernels import check_cones, check_reach_cones
from marey.kinematics._ellipsoids_kernels import check_ellipsoids
from marey.kinematics._limits_field_kernels import check_quaternion_field
from marey.kinematics._limits_kernels import CheckArrays, check_box, check_euler_box
from marey.kinematics._limits_tables import (
    BOX,
    CONES,
    DISTANCE_FIELDS,
    ELLIPSOIDS,
    EULER,
    QUATERNION_FIELDS,
    REACH,
    Bounds,
    Tables,
)
from marey.kinematics._sdf_chart_kernels import check_fields

PROJECTION_OPTIONS = (
    2,
    True,
    True,
)  # as ``SdfLimits`` projects: two steps, divided by the slope, and the way to a feasible node
BOUND_TOL_RAD = 1e-9  # [rad] a pose inside the limits to this is inside
MAX_PROJECTIONS = 3  # projections of one pose: a field may leave a little over where cells meet


@kernel
def _check_sdf(wxyz: FloatArray, tables: Tables) -> CheckArrays:
    charts, before, after, table, nearest, starts, shapes, origins, spacings, periodic, across, epsilons = tables
    places = (starts, shapes, origins, spacings, periodic, across, epsilons)
    return check_fields(wxyz, charts, before, after, table, nearest, *places, PROJECTION_OPTIONS)


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
        return _check_sdf(wxyz, bounds.fields)
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

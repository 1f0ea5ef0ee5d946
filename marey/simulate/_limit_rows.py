"""Joint limits of every kind as rows of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.kinematics import EllipsoidLimits, JointLimits
from marey.lie import SO3
from marey.skeleton import Skeleton

VIOLATION_TOL_RAD: Final = 2e-5  # [rad] further outside than before by more than this, a limit is broken


class LimitRows:
    """Limits of a figure, ready to be asked at every step.

    Ellipsoids know how deep inside a joint is, so their rows come before the limit is reached. Other kinds are asked
    where a free step would end.
    """

    def __init__(self, limits: JointLimits, skeleton: Skeleton) -> None:
        from marey.kinematics._limits_tables import compile_bounds

        if not isinstance(limits, JointLimits):  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
            raise InputError(
                f"limits is a {type(limits).__name__}", "Pass joint limits, marey.kinematics.BoxLimits say"
            )
        if limits.skeleton.names != skeleton.names:
            raise InputError(
                f"the limits are of '{limits.skeleton.name}', the body of '{skeleton.name}'; their joints differ",
                "Fit the limits on clips of this skeleton",
            )
        self.limits = limits
        bounds = compile_bounds(limits)
        self._bounds = bounds
        self._tables: tuple[FloatArray, ...] = () if bounds is None else cast(Any, bounds)[bounds.kind]
        self._is_ellipsoid = isinstance(limits, EllipsoidLimits)
        self._kernel = None if bounds is None else _limit_kernel(bounds.kind)

    def rows(
        self, wxyz: FloatArray, turns: FloatArray, logs: FloatArray, velocity: FloatArray, dt: float
    ) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
        """Rows ``(m, d)``, bounds ``(m,)``, joints ``(m,)``, and logarithms ``(J, 3)`` for the next step."""
        from marey.simulate._limit_rows_kernels import distance_rows, ellipsoid_rows, rotate_joints

        if self._is_ellipsoid:
            centres, axes, semi = self._tables
            return ellipsoid_rows(wxyz, turns, centres, axes, semi, logs, velocity, dt)
        both, omega = rotate_joints(wxyz, turns, velocity, dt)
        violation, gradient = self._check_limits(both)
        return (*distance_rows(turns, violation, gradient, omega, dt), logs)

    def broken_rows(
        self, wxyz: FloatArray, turns: FloatArray, velocity: FloatArray, dt: float
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        """Rows, bounds and joints of limits that a step of this velocity would break, seen from where it ends.

        Limits are round and rows are flat, so a fast joint may keep its row and yet leave its limit.
        """
        from marey.simulate._limit_rows_kernels import distance_rows, rotate_joints

        both, omega = rotate_joints(wxyz, turns, velocity, dt)
        violation, gradient = self._check_limits(both)
        broken = violation[1] > np.maximum(violation[0], 0.0) + VIOLATION_TOL_RAD
        broken[0] = False
        if not broken.any():
            return np.zeros((0, 6 + turns.shape[2])), np.zeros(0), np.zeros(0, dtype=np.int64)
        return distance_rows(turns, violation * broken, gradient, omega, dt)

    def _check_limits(self, wxyz: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self._kernel is not None:
            _, violation, gradient = self._kernel(wxyz, *self._tables)
            return violation, gradient
        if self._bounds is not None:
            from marey.kinematics._limits_all_kernels import check_bounds

            _, violation, gradient = check_bounds(self._bounds, wxyz)
            return violation, gradient
        check = self.limits.check(SO3(wxyz))  # a kind of the user's own
        return np.ascontiguousarray(check.violation), np.ascontiguousarray(check.gradient)


def _limit_kernel(kind: int) -> Callable[..., tuple[FloatArray, FloatArray, FloatArray]] | None:
    """Compiled check of a kind that takes its tables as they are; the way over all kinds costs more than the check."""
    from marey.kinematics import _cones_kernels, _ellipsoids_kernels, _limits_field_kernels, _limits_kernels
    from marey.kinematics._limits_tables import BOX, CONES, ELLIPSOIDS, EULER, QUATERNION_FIELDS, REACH

    return {
        BOX: _limits_kernels.check_box,
        EULER: _limits_kernels.check_euler_box,
        CONES: _cones_kernels.check_cones,
        REACH: _cones_kernels.check_reach_cones,
        ELLIPSOIDS: _ellipsoids_kernels.check_ellipsoids,
        QUATERNION_FIELDS: _limits_field_kernels.check_quaternion_field,
    }.get(kind)

"""Joint limits of every kind as rows of a step."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.kinematics import EllipsoidLimits, JointLimits
from marey.lie import SO3
from marey.skeleton import Skeleton

BROKEN_RAD: Final = 2e-4  # [rad] further outside than before by more than this, a limit is broken


class LimitRows:
    """Limits of a figure, ready to be asked at every step.

    Ellipsoids know how deep inside a joint is, so their rows come before the limit is reached. Other kinds are asked
    where a free step would end.
    """

    def __init__(self, limits: JointLimits, skeleton: Skeleton) -> None:
        from marey.kinematics._limits_tables import bounds_of

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
        is_ellipsoid = isinstance(limits, EllipsoidLimits)
        self._tables = tuple(np.array(t) for t in cast(Any, limits).tables()) if is_ellipsoid else None
        self._bounds = bounds_of(limits)

    def rows(
        self, wxyz: FloatArray, turns: FloatArray, logs: FloatArray, velocity: FloatArray, dt: float
    ) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
        """Rows ``(m, d)``, bounds ``(m,)``, joints ``(m,)``, and logarithms ``(J, 3)`` for the next step."""
        from marey.simulate._limit_rows_kernels import distance_rows, ellipsoid_rows, turned_by

        if self._tables is not None:
            return ellipsoid_rows(wxyz, turns, *self._tables, logs, velocity, dt)
        both, omega = turned_by(wxyz, turns, velocity, dt)
        violation, gradient = self._checked(both)
        return (*distance_rows(turns, violation, gradient, omega, dt), logs)

    def broken_rows(
        self, wxyz: FloatArray, turns: FloatArray, velocity: FloatArray, dt: float
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        """Rows, bounds and joints of limits that a step of this velocity would break, seen from where it ends.

        Limits are round and rows are flat, so a fast joint may keep its row and yet leave its limit.
        """
        from marey.simulate._limit_rows_kernels import distance_rows, turned_by

        both, omega = turned_by(wxyz, turns, velocity, dt)
        violation, gradient = self._checked(both)
        broken = violation[1] > np.maximum(violation[0], 0.0) + BROKEN_RAD
        broken[0] = False
        if not broken.any():
            return np.zeros((0, 6 + turns.shape[2])), np.zeros(0), np.zeros(0, dtype=np.int64)
        return distance_rows(turns, violation * broken, gradient, omega, dt)

    def _checked(self, wxyz: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self._bounds is None:  # a kind of the user's own
            check = self.limits.check(SO3(wxyz))
            return np.ascontiguousarray(check.violation), np.ascontiguousarray(check.gradient)
        from marey.kinematics._limits_all_kernels import check_bounds

        _, violation, gradient = check_bounds(self._bounds, wxyz)
        return violation, gradient

r"""Joint limits of every kind as rows of a step.

An ellipsoid has a level :math:`f = x^T A x`, :math:`x = \log(c^{-1} q)`, with the body gradient
:math:`2 J_r^{-T}(x)\,A x`; its row is :math:`-\nabla f \cdot \omega \ge -(1 - f)/h`. [Tournier2011]_ §12.4.
Anatomical limits have a signed distance for each interval and each region, which may read several joints. Limits of
other kinds define a distance d only outside, so it is measured at the end of the free step.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi, sqrt
from typing import Any, cast

import numpy as np

from marey.base import FloatArray, InputError, IntArray, kernel
from marey.kinematics import EllipsoidLimits, JointLimits
from marey.kinematics.limits.anatomy.check import BoundDistances, measure_bounds
from marey.kinematics.limits.anatomy.model import AnatomicalLimits
from marey.kinematics.limits.learn import check_bounds
from marey.lie import SO3
from marey.lie.kernels import (
    conjugate,
    exp,
    left_jacobian_inverse_times,
    log,
    multiply,
    quaternion_at,
    rotate,
    write_rotation,
)
from marey.skeleton import Skeleton

ACTIVE_LEVEL = 0.8  # [-] of an ellipsoid above which its row is there: speculative, so that nothing chatters
RECOVERY_FRACTION = 0.2  # [-] part of a violation that a step repairs
RECOVERY_RAD_S = 2.0  # [rad/s] a violation is left at this speed at most
NEAR_HALF_TURN = pi - 1e-3  # [rad] beyond, the logarithm is continued from the last step
LEAST_RAD = 1e-9  # [rad] of a violation
NEAR_RAD = 0.05  # [rad] inside a bound, from where its row is there: what a joint of 5 rad/s turns in a step
VIOLATION_TOL_RAD = 2e-5  # [rad] further outside than before by more than this, a limit is broken
LEAST_ROW = 1e-6  # [-] a row that no coordinate can change is dropped


@kernel
def rotate_joints(
    wxyz: FloatArray, turns: FloatArray, velocity: FloatArray, dt: float
) -> tuple[FloatArray, FloatArray]:
    """Local rotations ``(2, J, 4)`` now and after a step, and the joints' angular velocities ``(J, 3)``."""
    count, k = turns.shape[0], turns.shape[2]
    out, omega = np.empty((2, count, 4)), np.zeros((count, 3))
    out[0], out[1] = wxyz, wxyz
    for j in range(1, count):
        for r in range(3):
            for i in range(k):
                omega[j, r] += turns[j, r, i] * velocity[6 + i]
        step = exp((dt * omega[j, 0], dt * omega[j, 1], dt * omega[j, 2]))
        write_rotation(out[1, j], multiply(quaternion_at(wxyz, j), step))
    return out, omega


@kernel
def ellipsoid_rows(
    wxyz: FloatArray,
    turns: FloatArray,
    centres: FloatArray,
    axes: FloatArray,
    semi: FloatArray,
    logs: FloatArray,
    velocity: FloatArray,
    dt: float,
) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
    """Rows ``(m, d)``, bounds, joints of the ellipsoids that a joint is near to, and all logarithms ``(J, 3)``."""
    count, d = turns.shape[0], 6 + turns.shape[2]
    J, b, who, found = np.empty((count, d)), np.empty(count), np.empty(count, dtype=np.int64), logs.copy()
    m = 0
    for j in range(1, count):
        if np.isinf(semi[j, 0]):
            continue
        # Logarithm y of the rotation from the centre, in the axes of the ellipsoid
        frame = quaternion_at(axes, j)
        y = rotate(conjugate(frame), log(multiply(conjugate(quaternion_at(centres, j)), quaternion_at(wxyz, j))))
        angle = sqrt(y[0] * y[0] + y[1] * y[1] + y[2] * y[2])
        # Near half a turn the logarithm takes the branch of the last step
        if angle > NEAR_HALF_TURN and logs[j, 0] * y[0] + logs[j, 1] * y[1] + logs[j, 2] * y[2] < 0.0:
            back = 1.0 - 2.0 * pi / angle
            y = (back * y[0], back * y[1], back * y[2])
        found[j, 0], found[j, 1], found[j, 2] = y
        # Level y^T S^-2 y and its gradient; J_l^-1 carries the gradient to the angular velocity
        a = (2.0 * y[0] / semi[j, 0] ** 2, 2.0 * y[1] / semi[j, 1] ** 2, 2.0 * y[2] / semi[j, 2] ** 2)
        level = 0.5 * (a[0] * y[0] + a[1] * y[1] + a[2] * y[2])
        g = rotate(frame, left_jacobian_inverse_times(y, a))
        # The row of the joint's angular velocity against the gradient, and its squared length
        square = 0.0
        for i in range(6):
            J[m, i] = 0.0
        for i in range(turns.shape[2]):
            value = -g[0] * turns[j, 0, i] + -g[1] * turns[j, 1, i] + -g[2] * turns[j, 2, i]
            J[m, 6 + i] = value
            square += value * value
        if square < LEAST_ROW * LEAST_ROW:
            continue
        # Skip joints that stay inside during the step
        rate = 0.0
        for i in range(turns.shape[2]):
            rate -= J[m, 6 + i] * velocity[6 + i]
        if max(level, level + dt * rate) <= ACTIVE_LEVEL:
            continue
        steepness = sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2])
        # Inside, the level may rise to one; outside it falls by a share, no faster than RECOVERY_RAD_S
        b[m] = (
            -(1.0 - level) / dt
            if level <= 1.0
            else min(RECOVERY_FRACTION * (level - 1.0) / dt, RECOVERY_RAD_S * steepness)
        )
        who[m] = j
        m += 1
    return J[:m], b[:m], who[:m], found


@kernel
def distance_rows(
    turns: FloatArray, bounds: BoundDistances, omega: FloatArray, dt: float, most: float, only_broken: bool
) -> tuple[FloatArray, FloatArray, IntArray]:
    r"""Rows ``(m, d)``, ends and numbers of bounds, from their distances now and at the end of a free step.

    With the distance :math:`d_1` and slope at the end of the free step,
    :math:`d_1 + h \nabla d \cdot (\omega - \omega_{free}) \le (1 - \gamma)\,d_0`. No row asks for a speed that is
    by ``most`` [rad/s] above that of the repair: a slope may turn on the way, and its row then throws a joint back that
    had to be stopped alone. Bounds that are known from inside need none; others are noticed too late. With
    ``only_broken`` bounds that the step does not leave further behind have no row.
    """
    values, joints, gradients = bounds
    count, k = values.shape[1], turns.shape[2]
    J, b, who = np.zeros((count, 6 + k)), np.empty(count), np.empty(count, dtype=np.int64)
    m = 0
    for n in range(count):
        now, then = values[0, n], values[1, n]
        if only_broken and not then > max(now, 0.0) + VIOLATION_TOL_RAD:
            continue
        # Share of the present violation that this step repairs
        repair = min(RECOVERY_FRACTION * max(now, 0.0), RECOVERY_RAD_S * dt)
        # Slope at the end of the free step if that violates, else at its start
        f = 1 if then >= LEAST_RAD else 0
        square, rate = 0.0, 0.0
        J[m] = 0.0
        for a in range(3):
            j, g = joints[n, a], gradients[f, n, a]
            if g[0] == 0.0 and g[1] == 0.0 and g[2] == 0.0:
                continue
            rate += g[0] * omega[j, 0] + g[1] * omega[j, 1] + g[2] * omega[j, 2]
            for i in range(k):
                J[m, 6 + i] -= g[0] * turns[j, 0, i] + g[1] * turns[j, 1, i] + g[2] * turns[j, 2, i]
        for i in range(k):
            square += J[m, 6 + i] ** 2
        if square < LEAST_ROW * LEAST_ROW:
            continue
        # Inside, a bound may be reached; outside it is neared by the repair
        least = then - max(now, 0.0) if f == 1 else min(now, 0.0)
        b[m] = min((least + repair) / dt - (rate if f == 1 else 0.0), repair / dt + most)
        who[m] = n
        m += 1
    return J[:m], b[:m], who[:m]


@kernel
def violation_rows(
    turns: FloatArray,
    violation: FloatArray,
    gradient: FloatArray,
    omega: FloatArray,
    dt: float,
    most: float,
    only_broken: bool,
) -> tuple[FloatArray, FloatArray, IntArray]:
    """As :func:`distance_rows`, from violations ``(2, J)`` [rad] and gradients ``(2, J, 3)`` of half their squares."""
    poses, count = violation.shape
    values, slopes = np.zeros((poses, count)), np.zeros((poses, count, 3, 3))
    joints = np.empty((count, 3), dtype=np.int64)
    for j in range(count):
        joints[j] = j
        for f in range(poses):
            if j > 0 and violation[f, j] >= LEAST_RAD:
                values[f, j] = violation[f, j]
                for r in range(3):
                    slopes[f, j, 0, r] = gradient[f, j, r] / violation[f, j]
    return distance_rows(turns, BoundDistances(values, joints, slopes), omega, dt, most, only_broken)


class LimitRows:
    """Limits of a figure, ready to be asked at every step.

    Ellipsoids know how deep inside a joint is, so their rows come before the limit is reached. Other kinds are asked
    where a free step would end.
    """

    def __init__(self, limits: JointLimits, skeleton: Skeleton) -> None:
        from marey.kinematics.limits import box, cones, ellipsoids, learn, sdf

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
        bounds = self._bounds = learn.compile_bounds(limits)
        self._tables: tuple[FloatArray, ...] = () if bounds is None else cast(Any, bounds)[bounds.kind]
        # Joint of each bound that may have a row
        self.owners, self._most = np.arange(skeleton.num_joints), inf
        if isinstance(limits, AnatomicalLimits):
            found = limits.tables()
            self.owners = found.joints[np.concatenate([np.arange(3 * len(found.joints)), found.owners]) // 3]
            self._most = 0.0
        self._is_ellipsoid = isinstance(limits, EllipsoidLimits)
        # Compiled checks that take the tables of their kind as they are; the way over all kinds costs more
        kernels: dict[int, Callable[..., tuple[FloatArray, FloatArray, FloatArray]]] = {
            learn.BOX: box.check_box,
            learn.EULER: box.check_euler_box,
            learn.CONES: cones.check_cones,
            learn.REACH: cones.check_reach_cones,
            learn.ELLIPSOIDS: ellipsoids.check_ellipsoids,
            learn.QUATERNION_FIELDS: sdf.check_quaternion_field,
        }
        self._kernel = None if bounds is None else kernels.get(bounds.kind)

    def rows(
        self,
        wxyz: FloatArray,
        turns: FloatArray,
        logs: FloatArray,
        velocity: FloatArray,
        dt: float,
        *,
        only_broken: bool = False,
    ) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
        """Rows ``(m, d)``, ends ``(m,)``, numbers of their bounds ``(m,)``, and next logarithms ``(J, 3)``.

        With ``only_broken``, of limits that a step of this velocity would break, seen from where it ends. Limits are
        round and rows are flat, so a fast joint may keep its row and yet leave its limit.
        """
        if self._is_ellipsoid and not only_broken:
            centres, axes, semi = self._tables
            return ellipsoid_rows(wxyz, turns, centres, axes, semi, logs, velocity, dt)
        both, omega = rotate_joints(wxyz, turns, velocity, dt)
        if isinstance(self.limits, AnatomicalLimits):
            bounds = measure_bounds(both, self.limits.tables(), NEAR_RAD)
            return (*distance_rows(turns, bounds, omega, dt, self._most, only_broken), logs)
        if self._kernel is not None:
            _, violation, gradient = self._kernel(both, *self._tables)
        elif self._bounds is not None:
            _, violation, gradient = check_bounds(self._bounds, both)
        else:
            check = self.limits.check(SO3(both))  # a kind of the user's own
            violation, gradient = check.violation, check.gradient
        return (*violation_rows(turns, violation, gradient, omega, dt, self._most, only_broken), logs)

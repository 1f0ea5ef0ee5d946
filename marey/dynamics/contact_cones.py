"""Contact wrench cones: which forces and moments a support can give, as rows, as edges, and how far a wrench is off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, IntArray, UnknownNameError, frozen, kernel
from marey.dynamics.spatial import Vector, cross, row3

MAX_ROUNDS = 60  # columns taken in by one frame; 6 to 15 are usual
GAIN_TOL = 1e-10  # [-] a column whose slope is less than this part of the target's length brings nothing
NO_LENGTH = 1e-12  # what is left of a column that the others span

# room for one fit: numbers of the columns in use (6,); their weights, the least-squares ones, the residual (3, 6); the
# columns, and their factors Q and R (3, 6, 6)
FitScratch = tuple[IntArray, FloatArray, FloatArray]


@kernel
def allocate_fit() -> FitScratch:
    """Scratch that all frames share."""
    return np.zeros(6, dtype=np.int64), np.zeros((3, 6)), np.zeros((3, 6, 6))


@kernel
def _is_used(used: IntArray, count: int, column: int) -> bool:
    found = False
    for k in range(count):
        found = found or used[k] == column
    return found


@kernel
def _step_to_boundary(used: IntArray, count: int, x: FloatArray, y: FloatArray) -> int:
    """Go from weights ``x`` towards ``y`` as far as none is negative, drop those at zero, and count what is left."""
    step, is_inside = 1.0, True
    for k in range(count):
        if y[k] <= 0.0:
            is_inside = False
            step = min(step, x[k] / (x[k] - y[k]) if x[k] > y[k] else 0.0)
    if is_inside:
        x[:count] = y[:count]
        return count
    kept = 0
    for k in range(count):
        value = x[k] + step * (y[k] - x[k])
        if value > 1e-14:
            used[kept], x[kept] = used[k], value
            kept += 1
    return min(kept, count - 1)  # rounding may have kept the one that should go


@kernel
def _solve_active_columns(A: FloatArray, target: FloatArray, count: int, room: FitScratch) -> int:
    """Least squares on the columns in use, without those whose weight would be negative; returns how many stay."""
    used, rows, (chosen, Q, R) = room[0], room[1], (room[2][0], room[2][1], room[2][2])
    while count > 0:
        for k in range(count):
            for i in range(6):
                chosen[i, k] = A[i, used[k]]
        # Orthogonal factors of the first columns `(6, count)`, by modified Gram-Schmidt
        for j in range(count):
            for i in range(6):
                Q[i, j] = chosen[i, j]
            for k in range(j):
                share = 0.0
                for i in range(6):
                    share += Q[i, k] * Q[i, j]
                R[k, j] = share
                for i in range(6):
                    Q[i, j] -= share * Q[i, k]
            square = 0.0
            for i in range(6):
                square += Q[i, j] * Q[i, j]
            length = np.sqrt(square)
            R[j, j] = length
            for i in range(6):
                Q[i, j] = Q[i, j] / length if length > NO_LENGTH else 0.0
        # Solve for `x[:count]` with the factors of the columns; a column that the others span gets nothing
        x = rows[1]
        for j in range(count - 1, -1, -1):
            value = 0.0
            for i in range(6):
                value += Q[i, j] * target[i]
            for k in range(j + 1, count):
                value -= R[j, k] * x[k]
            x[j] = value / R[j, j] if R[j, j] > NO_LENGTH else 0.0
        left = _step_to_boundary(used, count, rows[0], rows[1])
        if left == count:
            break
        count = left
    return count


@kernel
def solve_nonnegative(A: FloatArray, num: int, target: FloatArray, weights: FloatArray, room: FitScratch) -> None:
    """Weights ``w >= 0`` of the columns ``(6, num)`` that bring ``A w`` nearest to ``target``: Lawson and Hanson."""
    used, x, residual = room[0], room[1][0], room[1][2]
    count, square = 0, 0.0
    for i in range(6):
        residual[i] = target[i]
        square += target[i] * target[i]
    least = GAIN_TOL * max(np.sqrt(square), 1e-9)
    for _ in range(MAX_ROUNDS):
        # Number of the column along which the residual is longest, -1 if it is nowhere longer than `least`
        best, slope = -1, least
        for j in range(num):
            gain = 0.0
            for i in range(6):
                gain += A[i, j] * residual[i]
            if gain > slope:
                best, slope = j, gain
        if best < 0 or count == 6 or _is_used(used, count, best):
            break
        used[count], x[count] = best, 0.0
        count = _solve_active_columns(A, target, count + 1, room)
        for i in range(6):
            residual[i] = target[i]
            for k in range(count):
                residual[i] -= A[i, used[k]] * x[k]
    weights[:num] = 0.0
    for k in range(count):
        weights[used[k]] = x[k]


@kernel
def fit_fixed_cone(columns: FloatArray, targets: FloatArray) -> FloatArray:
    """Weights ``(F, n)`` of the same columns ``(6, n)`` for each target ``(F, 6)``."""
    weights, room = np.zeros((len(targets), columns.shape[1])), allocate_fit()
    for f in range(len(targets)):
        solve_nonnegative(columns, columns.shape[1], targets[f], weights[f], room)
    return weights


@kernel
def _axis_direction(e: int) -> Vector:
    """Direction ``e`` of the six along the axes."""
    sign = 1.0 - 2.0 * (e // 3)
    return sign * (e % 3 == 0), sign * (e % 3 == 1), sign * (e % 3 == 2)


@kernel
def fit_moving_cones(
    targets: FloatArray, arms: FloatArray, active: BoolArray, grips: BoolArray, edges: FloatArray, lever: float
) -> tuple[FloatArray, FloatArray]:
    """Generators of the wrenches of contacts at moving points.

    Args:
        targets: demanded force and moment ``(F, 6)``, the moment over ``lever``.
        arms: points ``(F, P, 3)`` relative to the point about which moments are taken.
        active: which of them touch ``(F, P)``.
        grips: which of them hold on ``(F, P)``: they can push in every direction.
        edges: directions ``(E, 3)`` in which the others can push.
        lever: length [m] that makes moments forces.

    Returns:
        the nearest wrench ``(F, 6)`` scaled as the targets, and the force at each point ``(F, P, 3)``.
    """
    num_frames, num_points = arms.shape[0], arms.shape[1]
    most = num_points * max(len(edges), 6)
    given, forces = np.zeros((num_frames, 6)), np.zeros((num_frames, num_points, 3))
    A, owner, weights, room = np.zeros((6, most)), np.zeros(most, dtype=np.int64), np.zeros(most), allocate_fit()
    for f in range(num_frames):
        num = 0
        for p in range(num_points):
            if active[f, p]:
                # Add what point `p` can give to the columns `(6, num_columns)`; returns how many there are then
                num_columns = num
                arm = row3(arms[f], p)
                is_grip = grips[f, p]
                for e in range(6 if is_grip else len(edges)):
                    force = _axis_direction(e) if is_grip else row3(edges, e)
                    moment = cross(arm, force)
                    for i in range(3):
                        A[i, num_columns], A[3 + i, num_columns] = force[i], moment[i] / lever
                    owner[num_columns] = p
                    num_columns += 1
                num = num_columns
        solve_nonnegative(A, num, targets[f], weights, room)
        for j in range(num):
            if weights[j] > 0.0:
                for i in range(6):
                    given[f, i] += weights[j] * A[i, j]
                for i in range(3):
                    forces[f, owner[j], i] += weights[j] * A[i, j]
    return given, forces


FOOT_HALF_M: Final = (0.12, 0.05)  # [m] along and across the foot ([Fang2003]_ gives none)
LEVER_M: Final = 1.0  # [m] a moment of body weight times this counts like a force of body weight
UNIT_TOL: Final = 1e-6  # [-] how far from unit length or from a right angle the axes of a support may be
MARGIN_NAMES: Final = ("friction", "tipping_x", "tipping_y", "twist", "pull", "peak")


@dataclass(frozen=True, slots=True, eq=False)
class ConeMargins:
    """Margins of a wrench inside its bounds, frame by frame; negative is outside ([Fang2003]_ eq. 4.9-4.16)."""

    friction: FloatArray  # (F,) [N] C1: friction · f_n - |f_t|
    tipping_x: FloatArray  # (F,) [N m] C2: f_n |T_x| - |moment about y|
    tipping_y: FloatArray  # (F,) [N m] C3: f_n |T_y| - |moment about x|
    twist: FloatArray  # (F,) [N m] C4, or the exact limit of the rectangle
    pull: FloatArray  # (F,) [N] C5: f_n
    peak: FloatArray  # (F,) [N] C5: largest normal force - f_n

    @property
    def worst(self) -> FloatArray:
        """Smallest margin of each frame ``(F,)`` [N, N m]."""
        return np.min([getattr(self, name) for name in MARGIN_NAMES], axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class RectangleSupport:
    r"""A flat rectangle that can push but not pull ([Fang2003]_ §4.2.3).

    ``half_x`` and ``half_y`` reach from the centre to the edges, :math:`N = \hat T_x\times\hat T_y`.
    """

    centre: FloatArray  # (3,) [m] in world
    half_x: FloatArray  # (3,) [m]
    half_y: FloatArray  # (3,) [m]; turned round where it makes a left-handed frame
    normal: FloatArray  # (3,) unit
    friction: float = 0.8
    max_force_n: float = 1e9  # [N] largest normal force
    twist_m: float | None = None  # [m] largest twist over normal force (C4); None: the exact limit of the rectangle

    def __post_init__(self) -> None:
        for name in ("centre", "half_x", "half_y", "normal"):
            object.__setattr__(self, name, frozen(getattr(self, name), 3, name=name))
        self._check()
        if np.cross(self.half_x, self.half_y) @ self.normal < 0.0:
            object.__setattr__(self, "half_y", frozen(-self.half_y, 3, name="half_y"))

    def _check(self) -> None:
        _check_friction(self.friction)
        sizes = [float(np.linalg.norm(v)) for v in (self.half_x, self.half_y)]
        _check_unit(self.normal)
        if min(sizes) <= 0.0:
            raise InputError("a support without extent", "half_x and half_y reach from the centre to the edges")
        cosines = [
            float(self.half_x @ self.half_y) / (sizes[0] * sizes[1]),
            float(self.half_x @ self.normal) / sizes[0],
            float(self.half_y @ self.normal) / sizes[1],
        ]
        if max(abs(c) for c in cosines) > UNIT_TOL:
            raise InputError("half_x, half_y and the normal of a support are not at right angles", "Make them so")
        if not self.max_force_n > 0.0 or not (self.twist_m is None or self.twist_m >= 0.0):
            what = f"the largest force of a support is {self.max_force_n}, its largest twist {self.twist_m}"
            raise InputError(what, "Give positive numbers")

    @classmethod
    def foot(
        cls,
        centre: ArrayLike,
        heading_rad: float = 0.0,
        *,
        half_m: tuple[float, float] = FOOT_HALF_M,
        normal: ArrayLike = (0.0, 1.0, 0.0),
        friction: float = 0.8,
        twist_m: float | None = None,
        max_force_n: float = 1e9,
    ) -> RectangleSupport:
        """A sole on a plane: ``half_m`` along its heading and across it; heading 0 is +Z, positive to +X."""
        up = frozen(normal, 3, name="normal")
        ahead = np.array([np.sin(heading_rad), 0.0, np.cos(heading_rad)])
        ahead = ahead - up * (up @ ahead)
        if float(np.linalg.norm(ahead)) < UNIT_TOL:
            raise InputError("the foot points along the normal of its support", "Turn the heading or the normal")
        ahead = ahead / np.linalg.norm(ahead)
        across = np.cross(up, ahead)
        place = frozen(centre, 3, name="centre")
        return cls(place, half_m[0] * ahead, half_m[1] * across, up, friction, max_force_n, twist_m)

    @property
    def axes(self) -> FloatArray:
        """Unit axes ``(3, 3)`` as rows: along ``half_x``, along ``half_y``, normal."""
        x, y = (v / np.linalg.norm(v) for v in (self.half_x, self.half_y))
        return np.stack([x, y, self.normal])

    @property
    def half_m(self) -> tuple[float, float]:
        """Half lengths [m] of the rectangle."""
        return float(np.linalg.norm(self.half_x)), float(np.linalg.norm(self.half_y))

    def corners(self) -> FloatArray:
        """Corners ``(4, 3)`` [m] in world."""
        signs = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])
        return self.centre + signs @ np.stack([self.half_x, self.half_y])

    def local(self, wrenches: ArrayLike) -> FloatArray:
        r"""Wrenches ``(F, 6)`` about the centre, in the axes of the support: :math:`f`, :math:`n - c\times f`."""
        force, moment = shift_wrench(frozen(wrenches, None, 6, name="wrenches"), self.centre)
        return np.concatenate([force @ self.axes.T, moment @ self.axes.T], axis=-1)

    def margins(self, wrenches: ArrayLike, *, cone: str = "round", smoothing_n: float = 0.0) -> ConeMargins:
        r"""Rows C1 to C5 of [Fang2003]_ for wrenches ``(F, 6)``: force [N], then moment about the world origin [N m].

        Args:
            wrenches: as above.
            cone: ``"round"`` :math:`\mu f_n - \sqrt{|f_t|^2+\epsilon^2} + \epsilon`; ``"square"`` for
                :math:`|f_x|, |f_y| \le \mu f_n`; ``"cosine"`` as printed, without a unit,
                :math:`f_n/|f| - 1/\sqrt{\mu^2+1}`.
            smoothing_n: ε above [N].
        """
        x, y, n, about_x, about_y, _ = self.local(wrenches).T
        half_x, half_y = self.half_m
        return ConeMargins(
            _friction_margin(x, y, n, self.friction, cone, smoothing_n),
            n * half_x - np.abs(about_y),
            n * half_y - np.abs(about_x),
            self._twist_margin(wrenches),
            n,
            self.max_force_n - n,
        )

    def twist_range(self, wrenches: ArrayLike) -> tuple[FloatArray, FloatArray]:
        r"""Least and largest moment about the normal [N m] that the rectangle can give with the other five components.

        .. math:: -\mu(X{+}Y)f_z+|Yf_x-\mu\tau_x|+|Xf_y-\mu\tau_y| \le\tau_z\le
            \mu(X{+}Y)f_z-|Yf_x+\mu\tau_x|-|Xf_y+\mu\tau_y|

        Exact for four-sided friction cones at the corners ([Caron2015]_).
        """
        fx, fy, fz, tx, ty, _ = self.local(wrenches).T
        (X, Y), mu = self.half_m, self.friction
        lower = -mu * (X + Y) * fz + np.abs(Y * fx - mu * tx) + np.abs(X * fy - mu * ty)
        upper = mu * (X + Y) * fz - np.abs(Y * fx + mu * tx) - np.abs(X * fy + mu * ty)
        return lower, upper

    def contains(self, wrenches: ArrayLike, tolerance: float = 1e-9) -> BoolArray:
        """Whether wrenches ``(F, 6)`` are in the exact cone of the rectangle, with four-sided friction cones."""
        margins = self.margins(wrenches, cone="square")
        return np.asarray(margins.worst >= -tolerance)

    def generators(self, edges: int = 4) -> FloatArray:
        """Edges of the cone as wrenches ``(6, 4 · edges)`` about the world origin, unit normal force each."""
        directions = compute_friction_edges(self.normal, self.friction, edges, ahead=self.half_x, square=edges == 4)
        return compute_point_generators(self.corners(), np.broadcast_to(directions, (4, *directions.shape)))

    def _twist_margin(self, wrenches: ArrayLike) -> FloatArray:
        local = self.local(wrenches)
        if self.twist_m is not None:
            return local[:, 2] * self.twist_m - np.abs(local[:, 5])
        lower, upper = self.twist_range(wrenches)
        return np.minimum(local[:, 5] - lower, upper - local[:, 5])


@dataclass(frozen=True, slots=True, eq=False)
class GripSupport:
    """A hand that holds on: any force up to a size, moments up to a size about each axis ([Fang2003]_, spec §2.9)."""

    centre: FloatArray  # (3,) [m] in world
    max_force_n: float
    max_moment_nm: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", frozen(self.centre, 3, name="centre"))
        if not self.max_force_n > 0.0 or not self.max_moment_nm >= 0.0:
            what = f"the largest force of a grip is {self.max_force_n}, its largest moment {self.max_moment_nm}"
            raise InputError(what, "Give positive numbers")

    def margins(self, wrenches: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Margins of force [N] and moment [N m] ``(F,)``; negative beyond the capacity of the hand."""
        force, moment = shift_wrench(wrenches, self.centre)
        held = self.max_force_n - np.linalg.norm(force, axis=-1)
        return held, self.max_moment_nm - np.abs(moment).max(axis=-1)


@dataclass(frozen=True, slots=True, eq=False)
class ConeProjection:
    """The wrench of a cone nearest to each demanded one."""

    distance: FloatArray  # (F,) [N] with moments divided by the lever
    wrenches: FloatArray  # (F, 6) the nearest ones, about the world origin
    weights: FloatArray  # (F, n) of the generators


def project_on_cone(
    wrenches: ArrayLike, generators: ArrayLike, *, about: ArrayLike = (0.0, 0.0, 0.0), lever_m: float = LEVER_M
) -> ConeProjection:
    r"""How far wrenches ``(F, 6)`` are from a cone, :math:`\min_{w\ge0}\|S(f - Gw)\|`.

    S takes moments about ``about`` and divides them by ``lever_m``; the answer depends on both. Zero inside the cone.

    Args:
        wrenches: force [N], moment about the world origin [N m].
        generators: edges of the cone ``(6, n)``, in the same way; those of several contacts side by side.
        about: point ``(3,)`` [m], the centre of mass for instance.
        lever_m: [m].
    """
    wanted = frozen(np.atleast_2d(wrenches), None, 6, name="wrenches")
    edges = frozen(generators, 6, None, name="generators")
    name = "lever_m"
    if not (np.isfinite(lever_m) and lever_m > 0.0):
        raise InputError(f"{name} is {lever_m}", "It must be positive")
    scaled = [_scale_wrenches(w, about, lever_m) for w in (edges.T, wanted)]
    weights = fit_fixed_cone(np.ascontiguousarray(scaled[0].T), scaled[1])
    away = scaled[1] - weights @ scaled[0]
    return ConeProjection(np.linalg.norm(away, axis=-1), weights @ edges.T, weights)


def shift_wrench(wrenches: ArrayLike, point: ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""Force and moment about a point ``(3,)`` or ``(F, 3)``: :math:`n_p = n_0 - p\times f`."""
    values = np.asarray(wrenches, dtype=np.float64)
    if values.shape[-1:] != (6,):
        raise InputError(f"wrenches have shape {values.shape}, expected (..., 6)", "Force first, then moment")
    force, moment = values[..., :3], values[..., 3:]
    return force, moment - np.cross(np.broadcast_to(np.asarray(point, dtype=np.float64), force.shape), force)


def compute_friction_edges(
    normal: ArrayLike, friction: float, edges: int = 8, *, ahead: ArrayLike | None = None, square: bool = False
) -> FloatArray:
    """Directions ``(edges, 3)`` of a friction pyramid inside the round cone, unit along the normal.

    Args:
        normal: unit ``(3,)``.
        friction: coefficient.
        edges: at least three.
        ahead: a direction across the normal that the pyramid is lined up with.
        square: with four edges, the pyramid around the round cone whose sides are at ``|f_x| = friction · f_n``.
    """
    _check_friction(friction)
    if edges < 3:
        raise InputError(f"{edges} edges make no pyramid", "Give at least 3")
    up = frozen(normal, 3, name="normal")
    _check_unit(up)
    x = np.asarray(_perpendicular_direction(up) if ahead is None else ahead, dtype=np.float64)
    x = x / np.linalg.norm(x)
    angles = 2.0 * np.pi * (np.arange(edges) + 0.5) / edges
    reach = friction * (np.sqrt(2.0) if square else 1.0)
    return up + reach * (np.outer(np.cos(angles), x) + np.outer(np.sin(angles), np.cross(up, x)))


def compute_point_generators(points: FloatArray, directions: FloatArray) -> FloatArray:
    """Wrenches ``(6, P · E)`` about the world origin of forces along ``(P, E, 3)`` at points ``(P, 3)`` [m]."""
    moments = np.cross(points[:, None], directions)
    return np.concatenate([directions, moments], axis=-1).reshape(-1, 6).T


def _friction_margin(
    x: FloatArray, y: FloatArray, n: FloatArray, friction: float, cone: str, smoothing_n: float
) -> FloatArray:
    if cone == "round":
        return friction * n - np.sqrt(x**2 + y**2 + smoothing_n**2) + smoothing_n
    if cone == "square":
        return friction * n - np.maximum(np.abs(x), np.abs(y))
    if cone == "cosine":
        length = np.maximum(np.sqrt(x**2 + y**2 + n**2), 1e-300)
        return n / length - 1.0 / np.sqrt(friction**2 + 1.0)
    raise UnknownNameError("cone", cone, "RectangleSupport.margins", ("round", "square", "cosine"))


def _scale_wrenches(wrenches: FloatArray, about: ArrayLike, lever_m: float) -> FloatArray:
    force, moment = shift_wrench(wrenches, about)
    return np.ascontiguousarray(np.concatenate([force, moment / lever_m], axis=-1))


def _perpendicular_direction(up: FloatArray) -> FloatArray:
    """Some direction across a unit vector."""
    across = np.eye(3)[int(np.argmin(np.abs(up)))]
    return across - up * (up @ across)


def _check_unit(normal: FloatArray) -> None:
    length = float(np.linalg.norm(normal))
    if abs(length - 1.0) > UNIT_TOL:
        raise InputError(f"the normal has length {length:g}", "Give a unit vector")


def _check_friction(friction: float) -> None:
    if not (np.isfinite(friction) and friction >= 0.0):
        raise InputError(f"friction is {friction}", "It is 0 or more; shoes on a floor have 0.5 to 1")

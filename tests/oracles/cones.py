"""Wrench cones of rectangular soles and of hands: rows C1 to C5 of [Fang2003]_, edges, and the distance to a cone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, UnknownNameError, frozen, kernel
from marey.dynamics import shift_wrench
from marey.dynamics.contact_cones import (
    LEVER_M,
    UNIT_TOL,
    allocate_fit,
    compute_friction_edges,
    solve_nonnegative,
)

FOOT_HALF_M: Final = (0.12, 0.05)  # [m] along and across the foot ([Fang2003]_ gives none)
MARGIN_NAMES: Final = ("friction", "tipping_x", "tipping_y", "twist", "pull", "peak")


def check_unit(normal: FloatArray) -> None:
    """Refuse a normal that has no unit length."""
    length = float(np.linalg.norm(normal))
    if abs(length - 1.0) > UNIT_TOL:
        raise InputError(f"the normal has length {length:g}", "Give a unit vector")


def check_friction(friction: float) -> None:
    """Refuse a coefficient of friction that is negative or no number."""
    if not (np.isfinite(friction) and friction >= 0.0):
        raise InputError(f"friction is {friction}", "It is 0 or more; shoes on a floor have 0.5 to 1")


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
        check_friction(self.friction)
        sizes = [float(np.linalg.norm(v)) for v in (self.half_x, self.half_y)]
        check_unit(self.normal)
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


@kernel
def fit_fixed_cone(columns: FloatArray, targets: FloatArray) -> FloatArray:
    """Weights ``(F, n)`` of the same columns ``(6, n)`` for each target ``(F, 6)``."""
    weights, room = np.zeros((len(targets), columns.shape[1])), allocate_fit()
    for f in range(len(targets)):
        solve_nonnegative(columns, columns.shape[1], targets[f], weights[f], room)
    return weights


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

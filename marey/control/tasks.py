"""Tasks of a controller beyond those of inverse kinematics: momentum, support, gaze, modes, feet.

Gains say how fast an error is corrected; the gaze frame is the one that a head should have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.kinematics import ComTask, LookAtTask, OrientationTask, PointTask, PoseTask


@dataclass(frozen=True, slots=True)
class Gains:
    r"""Proportional and derivative gains of a law for velocities.

    .. math:: v^* = \dot h^* - \kappa_p \log(h^{*-1} h) - \kappa_d\,(v - \dot h^*)

    [Tournier2011]_ §14.1. Since it sets a velocity, it is stable for :math:`0\le\kappa_d<1` and
    :math:`0<\kappa_p\,dt<2(1-\kappa_d)`; :math:`\kappa_p = 1/dt` is the step of Gauss and Newton.
    """

    stiffness_per_s: float | None = None  # κp [1/s]; None: 0.2 / dt
    damping: float = 0.1  # κd [-]
    fastest: float = 5.0  # [m/s] or [rad/s] at which an error is taken back at most: far targets are soft too

    def per_s(self, dt: float) -> float:
        """Stiffness [1/s] for steps of ``dt`` [s].

        Raises:
            InputError: the law is unstable with such steps.
        """
        if not self.fastest > 0.0:
            raise InputError(f"fastest is {self.fastest}", "Give a speed above zero; infinity is one")
        stiffness = 0.2 / dt if self.stiffness_per_s is None else self.stiffness_per_s
        if not 0.0 <= self.damping < 1.0 or not 0.0 < stiffness * dt < 2.0 * (1.0 - self.damping):
            raise InputError(
                f"gains of {stiffness:.4g} per s and {self.damping:.4g} are unstable with steps of {dt:.4g} s",
                f"Damping is from 0 to below 1, stiffness above 0 and below {2 * (1 - self.damping) / dt:.4g} per s",
            )
        return stiffness


NEAREST_M: Final = 1e-3  # [m] the gaze towards a nearer point has no direction
LEAST_ACROSS: Final = 0.05  # [-] component of "up" across the gaze, below which the roll of the head is undefined


def gaze_frame(view: FloatArray, up: FloatArray) -> FloatArray | None:
    r"""Frame ``(3, 3)`` whose columns are the gaze, the crown and their product.

    .. math:: e_1 = w/\|w\|,\quad e_2 \propto u - e_1 (e_1\cdot u),\quad e_3 = e_1\times e_2

    [Tournier2011]_ §15.1. None where the gaze has no direction, or is along ``up``.
    """
    far, length = float(np.linalg.norm(view)), float(np.linalg.norm(up))
    if far < NEAREST_M or length < 1e-12:
        return None
    first = view / far
    across = up / length - first * float(first @ up) / length
    part = float(np.linalg.norm(across))
    if part < LEAST_ACROSS:
        return None
    second = across / part
    return np.stack([first, second, np.cross(first, second)], axis=1)


def gaze_rate(frame: FloatArray, view: FloatArray, view_velocity: FloatArray, up: FloatArray) -> FloatArray:
    r"""Angular velocity ``(3,)`` of a gaze's frame, in that frame, while the view changes.

    .. math:: y = g^T\dot w/\|w\|,\quad g^T u = (a, b, 0):\qquad d^b g = (-\tfrac ab y_3,\ -y_3,\ y_2)

    The source leaves this out; ours, so that a moving target is followed without lag.
    """
    y = frame.T @ view_velocity / float(np.linalg.norm(view))
    a, b, _ = frame.T @ up
    return np.array([-a / b * y[2], -y[2], y[1]])


Side = Literal["left", "right"]
SIDES: Final[tuple[Side, ...]] = ("left", "right")
Centre = Literal["hull", "mean"]
ModeMetric = Literal["joints", "deviations"]
MODE_METRICS: Final[tuple[ModeMetric, ...]] = ("joints", "deviations")
CENTRES: Final[tuple[Centre, ...]] = ("hull", "mean")


@dataclass(frozen=True, slots=True, eq=False)
class MomentumTask:
    """The angular momentum about the centre of mass follows a target: limits whirling arms and tipping.

    ``weight`` multiplies the squared momentum per kilogram of body mass [s²/m⁴]. [Tournier2011]_ §15.2.
    """

    target: ArrayLike = (0.0, 0.0, 0.0)  # (3,) [kg m²/s] in world
    weight: float = field(default=30.0, kw_only=True)
    priority: int = field(default=0, kw_only=True)
    goal: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "goal", frozen(self.target, 3, name="target"))
        _check(self.weight, self.priority)


@dataclass(frozen=True, slots=True, eq=False)
class SupportTask:
    r"""The centre of mass stays above the centre of the support. [Tournier2011]_ §15.2.

    The source takes the mean of the points that touch (``centre="mean"``); we take the middle of their hull. With a
    margin, the capture point :math:`c + \dot c\sqrt{h/g}` is also fenced in: it stays that far inside the hull, so that
    the figure can always come to rest without a step. Without contact the last middle is held for ``hold_s``, then
    fades.
    """

    height_m: float | None = None  # of the centre of mass above what it stands on; None: as at first
    weight: float = field(default=100.0, kw_only=True)
    priority: int = field(default=0, kw_only=True)
    centre: Centre = field(default="hull", kw_only=True)
    margin_m: float | None = field(default=None, kw_only=True)
    hold_s: float = field(default=0.2, kw_only=True)
    keeps_height: bool = field(default=True, kw_only=True)
    keeps_middle: bool = field(default=True, kw_only=True)  # False: only the fence counts

    def __post_init__(self) -> None:
        _check(self.weight, self.priority)
        if self.centre not in CENTRES:
            raise UnknownNameError("centre", str(self.centre), "the support", CENTRES)
        for name, value in (("height_m", self.height_m), ("margin_m", self.margin_m), ("hold_s", self.hold_s)):
            if value is not None and not (isfinite(value) and value >= 0.0):
                raise InputError(f"{name} is {value}", "Give a finite number that is not negative")


@dataclass(frozen=True, slots=True, eq=False)
class GazeTask:
    """The head looks at a position and stays upright: its whole frame follows. [Tournier2011]_ §15.1.

    A target nearer than a millimetre, or straight above or below, asks for nothing.
    """

    joint: str | int
    target_world: ArrayLike  # (3,) [m]
    axis: ArrayLike = field(default=(0.0, 0.0, 1.0), kw_only=True)  # (3,) of the gaze, in the joint's frame
    up_axis: ArrayLike = field(default=(0.0, 1.0, 0.0), kw_only=True)  # (3,) of the crown, in the joint's frame
    up_world: ArrayLike = field(default=(0.0, 1.0, 0.0), kw_only=True)  # (3,)
    weight: float = field(default=1.0, kw_only=True)
    priority: int = field(default=0, kw_only=True)
    goal: FloatArray = field(init=False, repr=False)
    offset: FloatArray = field(init=False, repr=False)  # (3, 3) gaze, crown and their product in the joint's frame

    def __post_init__(self) -> None:
        _check(self.weight, self.priority)
        offset = gaze_frame(frozen(self.axis, 3, name="axis"), frozen(self.up_axis, 3, name="up_axis"))
        if offset is None:
            raise InputError("gaze and crown are parallel, or zero", "Give two directions that differ")
        object.__setattr__(self, "up_world", frozen(self.up_world, 3, name="up_world"))
        object.__setattr__(self, "goal", frozen(self.target_world, 3, name="target_world"))
        object.__setattr__(self, "offset", frozen(offset, 3, 3, name="offset"))


@dataclass(frozen=True, slots=True, eq=False)
class ModesTask:
    """The coordinates of the pose model follow a target: a ``PoseTask`` for encoded clips.

    ``weight`` multiplies the squared angles by which joints differ [1/rad²], as in the full space
    (``metric="joints"``), or squares of standard deviations (``metric="deviations"``), as in inverse kinematics: the
    small modes are then so stiff that little is left to balance with.
    """

    target: ArrayLike  # (k,)
    weight: float = field(default=1.0, kw_only=True)
    priority: int = field(default=0, kw_only=True)
    metric: ModeMetric = field(default="joints", kw_only=True)
    goal: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "goal", frozen(self.target, None, name="target"))
        _check(self.weight, self.priority)
        if self.metric not in MODE_METRICS:
            raise UnknownNameError("metric", str(self.metric), "the modes", MODE_METRICS)


@dataclass(frozen=True, slots=True, eq=False)
class RowsTask:
    r"""User-defined rows: after the step, :math:`\Gamma v` equals the target. Gains have no effect."""

    matrix: ArrayLike  # (r, d) Γ
    target: ArrayLike  # (r,)
    weight: float = field(default=1.0, kw_only=True)
    priority: int = field(default=0, kw_only=True)
    rows: FloatArray = field(init=False, repr=False)
    goal: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check(self.weight, self.priority)
        object.__setattr__(self, "goal", frozen(self.target, None, name="target"))
        object.__setattr__(self, "rows", frozen(self.matrix, self.goal.size, None, name="matrix"))


@dataclass(frozen=True, slots=True, eq=False)
class FootTask:
    """A sole is flat at a position with a heading: places a step, or keeps a foot in place.

    ``weight`` multiplies the squared distance [1/m²] of the middle of the sole, and of its ends.
    """

    side: Side
    target_world: ArrayLike  # (3,) [m] of the middle of the sole
    heading_rad: float | None = field(default=None, kw_only=True)  # from +Z towards +X; None: as it turns
    normal: ArrayLike = field(default=(0.0, 1.0, 0.0), kw_only=True)  # (3,) of the ground there
    weight: float = field(default=100.0, kw_only=True)
    priority: int = field(default=0, kw_only=True)
    goal: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check(self.weight, self.priority)
        if self.side not in SIDES:
            raise UnknownNameError("side", str(self.side), "the body", SIDES)
        if self.heading_rad is not None and not isfinite(self.heading_rad):
            raise InputError(f"heading_rad is {self.heading_rad}", "Give a finite angle")
        normal = frozen(self.normal, 3, name="normal")
        length = float(np.linalg.norm(normal))
        if length < 1e-9:
            raise InputError("the normal of a foot target is zero", "Give the direction that points out of the ground")
        object.__setattr__(self, "normal", frozen(normal / length, 3, name="normal"))
        object.__setattr__(self, "goal", frozen(self.target_world, 3, name="target_world"))


ControlTask = (
    PointTask
    | OrientationTask
    | LookAtTask
    | ComTask
    | PoseTask
    | MomentumTask
    | SupportTask
    | GazeTask
    | ModesTask
    | RowsTask
    | FootTask
)


@dataclass(frozen=True, slots=True, eq=False)
class Drive:
    """A task with gains of its own and the velocity that its target has."""

    task: ControlTask
    gains: Gains | None = None  # None: those of the kind of task
    velocity: ArrayLike | None = None  # of the target: [m/s], [rad/s] in world, or of the coordinates [1/s]
    flow: FloatArray | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.task, ControlTask):  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
            raise InputError(f"a task is a {type(self.task).__name__}", "Pass PointTask, ComTask, MomentumTask ...")
        if isinstance(self.task, PointTask | LookAtTask | ComTask):
            # Inverse kinematics skips an unknown goal; a controller would be left without a law at that step
            frozen(self.task.goal, name="target_world")
        width = None if isinstance(self.task, ModesTask | PoseTask) else 3  # coordinates, or a velocity in space
        flow = None if self.velocity is None else frozen(self.velocity, width, name="velocity")
        object.__setattr__(self, "flow", flow)


def _check(weight: float, priority: int) -> None:
    if not (isfinite(weight) and weight > 0.0):
        raise InputError(f"weight is {weight}", "Give a positive number")
    if priority not in range(9):
        raise InputError(f"priority is {priority}", "Levels are whole numbers from 0, the first, to 8")

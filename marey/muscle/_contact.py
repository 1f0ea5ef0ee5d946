"""The ground under a soft body. [Engell2012]_ §20.5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base import FloatArray, InputError, IntArray, frozen

if TYPE_CHECKING:
    from marey.muscle._contact_kernels import ContactPlaneArrays

STIFFNESS_PER_KG: Final = 2e6  # [1/s^2] of the mean mass of a node: sixteen nodes on one sink by 0.08 mm
SMOOTHING_M_S: Final = 1e-4  # [m/s] below this speed friction is a stiff damper; a tenth of that in print: no creep
SNAKE_FRICTION: Final = (0.1, 0.5, 1.0)  # forwards, backwards, sideways


@dataclass(frozen=True, slots=True, eq=False)
class ContactPlane:
    """A plane that bodies rest and slide on.

    Friction is one number, or three: forwards, backwards and sideways of the body's own axis, which is given in the
    rest shape and turns with the body.
    """

    point: FloatArray = (0.0, 0.0, 0.0)  # pyright: ignore[reportAssignmentType]  # made an array below
    normal: FloatArray = (0.0, 1.0, 0.0)  # pyright: ignore[reportAssignmentType]  # made a unit array below
    stiffness: float | None = None  # [N/m] of a node; None: from the masses
    damping: float | None = None  # [N s/m] of a node; None: critical
    friction: float | tuple[float, float, float] = 0.8
    axis: FloatArray | tuple[float, float, float] | None = None
    smoothing_m_s: float = SMOOTHING_M_S

    def __post_init__(self) -> None:
        object.__setattr__(self, "point", frozen(self.point, 3, name="point"))
        object.__setattr__(self, "normal", _check_direction(self.normal, "normal"))
        if self.axis is not None:
            object.__setattr__(self, "axis", _check_direction(self.axis, "axis"))
        for name in ("stiffness", "smoothing_m_s"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0.0):
                raise InputError(f"{name} of the ground is {value}", "It must be above zero")
        if self.damping is not None and not (np.isfinite(self.damping) and self.damping >= 0.0):
            raise InputError(f"damping of the ground is {self.damping}", "It cannot be negative")
        _check_friction(self)

    @property
    def frictions(self) -> FloatArray:
        """Forwards, backwards, sideways ``(3,)``."""
        return np.array(np.broadcast_to(np.asarray(self.friction, dtype=np.float64), 3))

    def heights(self, x: FloatArray) -> FloatArray:
        """Heights of points ``(..., 3)`` over the plane [m]."""
        return (frozen(x, name="x") - self.point) @ self.normal

    def compile(self, nodes: ArrayLike, masses: ArrayLike, cells: NDArray[np.integer]) -> ContactPlaneArrays:
        """Arrays for the kernels.

        Args:
            nodes: the body at rest ``(V, 3)`` [m].
            masses: of its nodes ``(V,)`` [kg].
            cells: nodes of each cell ``(C, k)``, or springs ``(S, 2)``: who neighbours whom.
        """
        from marey.muscle._contact_kernels import ContactPlaneArrays

        x, m = frozen(nodes, None, 3, name="nodes"), frozen(masses, None, name="masses")
        k = np.full(len(m), self.stiffness or STIFFNESS_PER_KG * float(m.mean()))
        c = 2.0 * np.sqrt(k * m) if self.damping is None else np.full(len(m), self.damping)
        pairs = np.zeros((0, 2), dtype=np.int64)
        if self.axis is not None and np.ptp(self.frictions) > 0.0:
            pairs = find_axis_pairs(x, cells, np.asarray(self.axis))
        point, normal = np.array(self.point), np.array(self.normal)
        return ContactPlaneArrays(point, normal, k, c, self.frictions, self.smoothing_m_s, pairs)


def find_axis_pairs(nodes: FloatArray, cells: NDArray[np.integer], axis: FloatArray) -> IntArray:
    """A node behind and one before each node along an axis of the rest shape ``(V, 2)``, two edges away where it can.

    From one to the other is the body's axis at that node, however it bends.
    """
    from marey.muscle._regions import make_edge_graph

    graph = make_edge_graph(nodes, cells)
    rows = np.repeat(np.arange(len(nodes)), np.diff(graph.indptr))
    offset = nodes[graph.indices] - nodes[rows]
    straight = offset @ axis / np.linalg.norm(offset, axis=1)  # cosine with the axis
    behind, before = _best_neighbours(rows, graph.indices, -straight), _best_neighbours(rows, graph.indices, straight)
    return np.stack([behind[behind], before[before]], axis=1)


def _best_neighbours(rows: IntArray, columns: NDArray[np.integer], score: FloatArray) -> IntArray:
    """The neighbour of each node with the largest score above zero; itself where there is none."""
    best = np.arange(int(rows.max()) + 1)
    order = np.argsort(score, kind="stable")
    order = order[score[order] > 0.0]
    best[rows[order]] = columns[order]
    return best


def _check_direction(values: ArrayLike, name: str) -> FloatArray:
    v = frozen(values, 3, name=name)
    size = float(np.linalg.norm(v))
    if size == 0.0:
        raise InputError(f"{name} of the ground is zero", "It needs a direction")
    return frozen(v / size, 3, name=name)


def _check_friction(ground: ContactPlane) -> None:
    values = np.asarray(ground.friction, dtype=np.float64)
    if values.shape not in ((), (3,)) or not np.isfinite(values).all() or (values < 0.0).any():
        fix = "Give one number or (forwards, backwards, sideways), 0 and up"
        raise InputError(f"friction of the ground is {ground.friction}", fix)
    if values.shape == (3,) and np.ptp(values) > 0.0 and ground.axis is None:
        raise InputError("friction differs by direction, but the body has no axis", "Give axis, as in the rest shape")

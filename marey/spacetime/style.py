"""Style: what a motion should be like beyond being possible, as costs of the state of a frame ([Fang2003]_ F30)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError
from marey.dynamics import JointTree

StyleValues = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
# A style takes q, q' and q'' (N, D) of N frames and gives the cost of each frame (N,) and its gradients by q, q' and
# q'' (N, D). Frames are costed one by one, and a motion costs the mean.
Style = Callable[[FloatArray, FloatArray, FloatArray], StyleValues]


def evaluate_style(style: Style, q: FloatArray, qd: FloatArray, qdd: FloatArray) -> StyleValues:
    """Call a style and check what it gives.

    Raises:
        InputError: an array of another shape, or a number that is not finite.
    """
    found = tuple(np.asarray(part, dtype=np.float64) for part in style(q, qd, qdd))
    name = getattr(style, "__name__", type(style).__name__)
    shapes = [q.shape[:1], q.shape, q.shape, q.shape]
    if len(found) != 4 or [part.shape for part in found] != shapes:
        raise InputError(
            f"style '{name}' gives arrays of shapes {[part.shape for part in found]}",
            f"It must give the cost and its gradients by q, q' and q'': {shapes}",
        )
    if not all(np.isfinite(part).all() for part in found):
        raise InputError(f"style '{name}' gives a number that is not finite", "Check it on the clip's own states")
    return found[0], found[1], found[2], found[3]


def check_coordinate_map(S: FloatArray, num_dofs: int) -> FloatArray:
    """The matrix ``S (D, d)`` of a simplified body as floats.

    Raises:
        InputError: another shape, or numbers that are not finite.
    """
    matrix = np.asarray(S, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != num_dofs or not np.isfinite(matrix).all():
        raise InputError(f"S has shape {matrix.shape}", f"It has one row for each of {num_dofs} coordinates, finite")
    return matrix


def build_pose_style(tree: JointTree, targets: Mapping[str, float], weight: float = 1.0) -> Style:
    r"""Style that draws coordinates towards values: :math:`w\sum_i (q_i - \bar q_i)^2`.

    Args:
        tree: whose coordinates are named.
        targets: value [rad] or [m] by the name of a coordinate.
        weight: w.

    Raises:
        InputError: a target or the weight is not finite.
        UnknownNameError: no such coordinate.
    """
    dofs = [tree.index(name) for name in targets]
    wanted = np.array(list(targets.values()), dtype=np.float64)
    if not (np.isfinite(wanted).all() and np.isfinite(weight)):
        raise InputError(f"a style with targets {dict(targets)} and weight {weight}", "Give finite numbers")

    def drawn(q: FloatArray, qd: FloatArray, qdd: FloatArray) -> StyleValues:
        away = q[:, dofs] - wanted
        gradient = np.zeros_like(q)
        gradient[:, dofs] = 2.0 * weight * away
        return weight * (away**2).sum(axis=1), gradient, np.zeros_like(qd), np.zeros_like(qdd)

    return drawn


def build_stillness_style(tree: JointTree, joints: Sequence[str], weight: float = 1.0) -> Style:
    r"""Style that keeps joints still: :math:`w\sum_i \dot q_i^2` over the coordinates of the named joints.

    Args:
        tree: whose joints are named.
        joints: names of joints.
        weight: w [s²].

    Raises:
        UnknownNameError: no such joint.
    """
    dofs = [i for i, group in enumerate(tree.groups) if group in joints]
    for joint in joints:
        if joint not in tree.groups:
            raise UnknownNameError("joint", joint, "this tree", sorted(set(tree.groups)))

    def calm(q: FloatArray, qd: FloatArray, qdd: FloatArray) -> StyleValues:
        gradient = np.zeros_like(qd)
        gradient[:, dofs] = 2.0 * weight * qd[:, dofs]
        return weight * (qd[:, dofs] ** 2).sum(axis=1), np.zeros_like(q), gradient, np.zeros_like(qdd)

    return calm

"""Torque limits of a problem: what it says of each coordinate, and published isometric maxima for the others.

The table is in units of body weight times stature, so that it fits bodies of every size. Coordinates follow the house's
signs: hips extend, knees and elbows bend, ankles point and the trunk bends forwards with positive angles.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray
from marey.dynamics import GRAVITY, JointTree, compute_point_positions, compute_torques
from marey.motion import standing_height
from marey.numerics import solve_qp
from marey.skeleton import role_map
from marey.spacetime.problem.definition import SpacetimeProblem
from marey.spacetime.problem.supply import MOMENT_COST, SolutionTrack, SupplyPoints, build_generators

MEN_NM: Final = 75.0 * GRAVITY * 1.75  # [N m] weight times stature of a man for whom [Harbo2012]_ is evaluated
ATHLETE_NM: Final = 69.6 * GRAVITY * 1.732  # [N m] of the gymnast of [Millard2018]_

# Part of the body and axis ("" is a hinge): lowest and highest torque over weight times stature. Legs: men of 18 to 25
# years, C1 of table 3 of [Anderson2007]_. Elbows, and arms to the side (adduction, which is more than abduction, both
# ways): regressions of [Harbo2012]_ at 25 years; extension and adduction were measured in motion only. Arms fore and
# aft, trunk: isometric maxima of the whole-body table of [Millard2018]_, a trained man's, at the best angle, so that
# these are wide. What the sources do not measure (turns about long axes, bending of trunk, hips and ankles to the side,
# wrists, neck) has no limit.
ISOMETRIC_MAXIMA: Final[dict[tuple[str, str], tuple[float, float]]] = {
    ("hip", "rx"): (-0.113, 0.161),
    ("knee", ""): (-0.163, 0.087),
    ("ankle", "rx"): (-0.033, 0.095),
    ("elbow", ""): (-46.4 / MEN_NM, 49.7 / MEN_NM),
    ("shoulder", "rx"): (-91.1 / ATHLETE_NM, 127.4 / ATHLETE_NM),
    ("shoulder", "rz"): (-80.1 / MEN_NM, 80.1 / MEN_NM),
    **{(f"spine{i}", "rx"): (-687.9 / ATHLETE_NM, 211.7 / ATHLETE_NM) for i in (1, 2, 3)},
}


class TorqueLimits(NamedTuple):
    """Coordinates whose torque is limited."""

    dofs: IntArray  # (L,) of the tree
    lower: FloatArray  # (L,) [N m] at most 0
    upper: FloatArray  # (L,) at least 0


def build_torque_limits(tree: JointTree, problem: SpacetimeProblem) -> TorqueLimits:
    """Limits of the torques of a body: the table times ``strength``, and in its place what the problem names.

    Raises:
        UnknownNameError: the problem limits a coordinate that the body does not have.
    """
    found: dict[int, tuple[float, float]] = {}
    if problem.strength is not None:
        roles = {tree.skeleton.names[joint]: role for role, joint in role_map(tree.skeleton).joints.items()}
        unit = problem.strength * tree.mass * GRAVITY * standing_height(tree.skeleton)
        # In the planar character both limbs are one link, with the strength of both
        unit *= 2.0 if "hip" in tree.groups else 1.0
        for i, (name, group) in enumerate(zip(tree.names, tree.groups, strict=True)):
            part = roles.get(group, group).removeprefix("left_").removeprefix("right_")
            axis = name.removeprefix(group).removeprefix("_")
            known = ISOMETRIC_MAXIMA.get((part, axis)) or (None if axis else ISOMETRIC_MAXIMA.get((part, "rx")))
            if known is not None:
                found[i] = unit * known[0], unit * known[1]
    found |= {tree.index(name): (ends[0], ends[1]) for name, ends in problem.torque_limits.items()}
    dofs = np.array(sorted(found), dtype=np.int64)
    lower, upper = np.array([found[int(i)] for i in dofs], dtype=np.float64).reshape(-1, 2).T
    return TorqueLimits(dofs, lower, upper)


CONE_EDGES: Final = 4  # of the pyramid about a corner's friction cone: the split of loads needs no more
WEIGHT_COST: Final = 1e-6  # of the weights of generators [mg], against the excess of torques
MISS_COST: Final = 1e9  # of what is missing of the wrench [mg], which the check counts elsewhere


def measure_torque_excess(
    tree: JointTree,
    limits: TorqueLimits,
    track: SolutionTrack,
    points: SupplyPoints,
    *,
    wrench: FloatArray,
    gravity: float,
) -> FloatArray:
    r"""How far torques pass their limits ``(T, L)``, over these, if contacts share their load as well as they can.

    .. math:: \tau = \tau_0(q, \dot q, \ddot q) - \sum_k \lambda_k J_k^T g_k,\quad \sum_k \lambda_k g_k = w,\quad
        \lambda_k \ge 0

    with weights of the generators of contacts that pass the limits by the least sum of squares.

    Args:
        tree: the character.
        limits: of its torques.
        track: the motion.
        points: what can push at every sample.
        wrench: what the contacts give together ``(T, 6)`` [mg, mg m], about the world's origin.
        gravity: [m/s^2] along -Y.
    """
    dofs, weight, count = limits.dofs, tree.mass * GRAVITY, len(limits.dofs)
    if not count:
        return np.zeros((len(track.times), 0))
    torques = compute_torques(tree, track.q, track.qd, track.qdd, gravity=gravity)[:, dofs]
    # Axes and origins of the limited coordinates in the world, and the links that they carry
    places = np.concatenate([np.zeros((count, 3)), tree.axes[dofs]])
    at = compute_point_positions(tree, track.q, np.tile(dofs, 2), places)
    origins, axes = at[:, :count], at[:, count:] - at[:, :count]
    carries = np.zeros((count, tree.num_dofs))
    for row, dof in enumerate(dofs.tolist()):
        carries[row, tree.subtree(dof)] = 1.0
    unit = 0.5 * (limits.upper - limits.lower)
    for t in np.flatnonzero(points.active.any(axis=1)).tolist():
        own = np.flatnonzero(points.active[t])
        G, price, owners = build_generators(points.places[t], points, own, t, CONE_EDGES)
        # s . (n - o x f): what each generator does along each coordinate that carries its link
        by_weight = (axes[t] @ G[3:] - np.cross(axes[t], origins[t]) @ G[:3]) * carries[:, points.links[t, owners]]
        # Unknowns: weights of generators [mg], excess of torques over the limits, what is missing of the wrench
        n = G.shape[1]
        H = np.diag(np.repeat([WEIGHT_COST, 1.0, MISS_COST], [n, count, 6]))
        A = np.zeros((6 + count, n + count + 6))
        A[:6, :n], A[:6, n + count :] = G, np.eye(6)
        A[6:, :n], A[6:, n : n + count] = weight * by_weight / unit[:, None], np.eye(count)
        low = np.concatenate([wrench[t], (torques[t] - limits.upper) / unit])
        high = np.concatenate([wrench[t], (torques[t] - limits.lower) / unit])
        most = points.strength[t, owners].copy()
        most[price == MOMENT_COST] = points.twist[t, owners][price == MOMENT_COST]
        ends = np.full(count + 6, np.inf)
        bounds = np.concatenate([np.zeros(n), -ends]), np.concatenate([most, ends])
        answer = solve_qp(H, np.zeros(n + count + 6), A, low, high, bounds=bounds)
        torques[t] -= weight * by_weight @ answer.x[:n]
    return np.maximum(limits.lower - torques, torques - limits.upper).clip(0.0) / unit

"""The problem of one control step: which internal forces bring the figure nearest to what it is told."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, frozen, frozen_bools, frozen_ints

ROOT_SIZE = 6  # velocities of the root, on which nothing inside can push


def _no_numbers() -> FloatArray:
    return np.zeros(0)


def _no_partners() -> IntArray:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class ControlProblem:
    r"""Goals, mechanics and contacts of one step, as matrices.

    .. math:: \min_{\mu}\ \tfrac12 v^T Q v + c^T v,\qquad
              v = \arg\min_{Jv \ge b} \tfrac12 v^T M v - (f + A^T\mu)^T v

    where A picks the coordinates that have actuators: all but the root's six. [Tournier2011]_ §14.2. Impulses, not
    forces, so that bounds on the actuation are forces times the time step. Rows of friction (ours) have a partner that
    presses: :math:`|\lambda_t| \le g\,\lambda_n`; their velocity is free, and the goals may ask it to be zero. Fences
    (ours) are one-sided goals, :math:`F v \ge e` as far as it goes.
    """

    inertia: FloatArray  # (d, d) M, damping included
    impulse: FloatArray  # (d,) f: momentum carried on, and what acts without actuation
    rows: FloatArray  # (m, d) J
    ends: FloatArray  # (m,) b
    is_equal: BoolArray  # (m,) rows that hold exactly; their multipliers may have any sign
    goal_matrix: FloatArray  # (d, d) Q
    goal_vector: FloatArray  # (d,) c
    strongest: FloatArray  # (k,) largest impulse of each actuator
    partners: IntArray = field(default_factory=_no_partners)  # (m,) of rows of friction the row that presses, else -1
    grips: FloatArray = field(default_factory=_no_numbers)  # (m,) coefficients of friction
    fences: FloatArray = field(default_factory=_no_numbers)  # (s, d) F
    fence_ends: FloatArray = field(default_factory=_no_numbers)  # (s,) e
    fence_weight: float = 1e4  # of the squared velocity by which a fence is broken

    def __post_init__(self) -> None:
        d, m, s = (np.asarray(a).size for a in (self.impulse, self.ends, self.fence_ends))
        if not np.asarray(self.partners).size:
            object.__setattr__(self, "partners", np.full(m, -1))
            object.__setattr__(self, "grips", np.zeros(m))
        if not s:
            object.__setattr__(self, "fences", np.zeros((0, d)))
        shapes = {
            "inertia": (d, d),
            "impulse": (d,),
            "rows": (m, d),
            "ends": (m,),
            "goal_matrix": (d, d),
            "goal_vector": (d,),
            "strongest": (d - ROOT_SIZE,),
            "grips": (m,),
            "fences": (s, d),
            "fence_ends": (s,),
        }
        for name, shape in shapes.items():
            object.__setattr__(self, name, frozen(getattr(self, name), *shape, name=name))
        object.__setattr__(self, "is_equal", frozen_bools(self.is_equal, m, name="is_equal"))
        object.__setattr__(self, "partners", frozen_ints(self.partners, m, name="partners"))
        if d <= ROOT_SIZE or (self.strongest < 0.0).any():
            raise InputError("there is no actuator, or one has a negative bound", "Give at least one mode, bounds >= 0")

    @property
    def num_actuators(self) -> int:
        """How many coordinates have an actuator."""
        return self.impulse.size - ROOT_SIZE

    @cached_property
    def is_friction(self) -> BoolArray:
        """Rows ``(m,)`` whose impulses are bounded by those of others."""
        return self.partners >= 0

    @cached_property
    def _kinetics(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        from marey.control._solve_kernels import compute_kinetics

        velocity, response, gram, is_definite = compute_kinetics(self.inertia, self.impulse, self.rows)
        if not is_definite:
            raise InputError("the inertia is not positive definite", "Give mass to every segment that moves")
        return velocity, response, gram

    @property
    def free_velocity(self) -> FloatArray:
        r"""Velocity ``(d,)`` without actuation and contacts, :math:`M^{-1} f`."""
        return self._kinetics[0]

    @property
    def response(self) -> FloatArray:
        r"""Velocity per unit of each actuator and each multiplier, :math:`M^{-1}(A^T, J^T)`: ``(d, k + m)``."""
        return self._kinetics[1]

    @property
    def gram(self) -> FloatArray:
        r"""Kinetic products :math:`(A^T, J^T)^T M^{-1} (A^T, J^T)`: ``(k + m, k + m)``."""
        return self._kinetics[2]

    def with_goals(self, goal_matrix: FloatArray, goal_vector: FloatArray) -> ControlProblem:
        """The same mechanics and contacts with other goals; nothing is checked or worked out again."""
        other = copy(self)
        object.__setattr__(other, "goal_matrix", goal_matrix)
        object.__setattr__(other, "goal_vector", goal_vector)
        return other

    def goal(self, velocity: FloatArray) -> float:
        """Value of the goals at a velocity."""
        return float(0.5 * velocity @ self.goal_matrix @ velocity + self.goal_vector @ velocity)

"""Mechanics of one state: Jacobians, inertia, momentum and energy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray
from marey.simulate._mechanism import Mechanism, as_kernel_array


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Mechanics:
    """What can be said of a configuration before any velocity is known; everything in world axes [m]."""

    mechanism: Mechanism
    frames: FloatArray  # (J, 3, 3) of the joints
    joints: FloatArray  # (J, 3)
    centres: FloatArray  # (J, 3) of the segments' masses
    com: FloatArray  # (3,)
    turns: FloatArray  # (J, 3, k) of each joint in its own frame
    angular: FloatArray  # (J, 3, d) angular velocity of each segment
    linear: FloatArray  # (J, 3, d) velocity of each joint's origin
    com_jacobian: FloatArray  # (3, d)
    inertia: FloatArray  # (d, d) M(g)

    def point(self, joint: int, offset: ArrayLike = (0.0, 0.0, 0.0)) -> FloatArray:
        """Place ``(3,)`` [m] in world of a point that rides on a joint's segment."""
        return self.joints[joint] + self.frames[joint] @ np.asarray(offset, dtype=np.float64)

    def point_jacobian(self, joint: int, offset: ArrayLike = (0.0, 0.0, 0.0)) -> FloatArray:
        """Jacobian ``(3, d)`` of the velocity in world of a point that rides on a joint's segment."""
        arm = self.frames[joint] @ np.asarray(offset, dtype=np.float64)
        return self.linear[joint] + np.cross(self.angular[joint], arm, axisa=0, axisc=0)

    def momentum_matrix(self) -> FloatArray:
        """Matrix ``(6, d)`` to the angular momentum about the centre of mass and the linear one, in world."""
        from marey.simulate._mechanism_kernels import compute_momentum_matrix

        return compute_momentum_matrix(
            self.mechanism, self.frames, self.joints, self.centres, self.com, self.angular, self.linear
        )

    def own_forces(self, coordinates: FloatArray, velocity: FloatArray) -> FloatArray:
        r"""Quadratic forces :math:`\partial_g T(g, v)` ``(d,)``; ``coordinates`` are those of the configuration."""
        from marey.simulate._mechanism_forces_kernels import compute_quadratic_forces

        parts = (self.frames, self.joints, self.centres, self.turns, self.angular, self.linear)
        return compute_quadratic_forces(self.mechanism, as_kernel_array(coordinates), *parts, np.array(velocity))


def make_mechanics(mechanism: Mechanism, place: FloatArray, wxyz: FloatArray, coordinates: FloatArray) -> Mechanics:
    """Mechanics of a configuration: place ``(3,)`` [m], local rotations ``(J, 4)`` and coordinates ``(k,)``."""
    from marey.simulate._mechanism_kernels import compute_mechanics

    return Mechanics(
        mechanism,
        *compute_mechanics(mechanism, as_kernel_array(place), as_kernel_array(wxyz), as_kernel_array(coordinates)),
    )

"""What a pose model is to a compiled loop: a kind and two arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from marey.base import FloatArray

LINEAR_TANGENT: Final = 0  # r_j = mean_j exp(sum_i x_i B_ji): canonical coordinates of the first kind
GEODESIC_PRODUCT: Final = 1  # r_j = mean_j exp(x_1 B_j1) ... exp(x_k B_jk): coordinates of the second kind
LOG_LINEAR: Final = 2  # r_j = exp(c_j + sum_i x_i B_ji): principal components of rotation vectors
EULER_LINEAR: Final = 3  # r_j = R_z(a_z) R_y(a_y) R_x(a_x), a = c_j + sum_i x_i B_ji: of Euler angles


@dataclass(frozen=True, slots=True, eq=False)
class ModelArrays:
    """A pose model as plain arrays, for the kernels of ``_model_kernels``.

    They cover the joints below the root: the root's row gives the identity, whatever the coordinates.
    """

    kind: int  # LINEAR_TANGENT, GEODESIC_PRODUCT, LOG_LINEAR or EULER_LINEAR
    mean_wxyz: FloatArray
    """(J, 4) unit quaternions of the mean; for the two linear kinds the rows are ``(0, c_j)`` [rad], which no unit
    quaternion of a rotation vector could tell apart from its turns by 2π"""
    basis: FloatArray  # (J, 3, k) [rad] per unit of each coordinate

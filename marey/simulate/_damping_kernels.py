r"""Compiled damping: the diagonal D of :math:`(M + D)\,v = f`. [Tournier2011]_ §11.2."""

from __future__ import annotations

from marey.base import FloatArray, kernel
from marey.simulate._mechanism import Mechanism

NONE, UNIFORM, KINEMATIC, ENERGETIC = 0, 1, 2, 3


@kernel
def add_damping(
    mech: Mechanism,
    damping: int,
    amount: float,
    inertia: FloatArray,
    frames: FloatArray,
    angular: FloatArray,
    linear: FloatArray,
) -> FloatArray:
    r"""Inertia ``(d, d)`` with damping, :math:`M + D`; ``amount`` is the rate times the step, :math:`\alpha\,dt`.

    ``UNIFORM`` :math:`D = \alpha\,dt\,I`, which brakes the root too; ``KINEMATIC``
    :math:`D = \alpha\,dt\,\mathrm{diag}(J^T J)` with J of the ends of the figure; ``ENERGETIC``
    :math:`D = \alpha\,dt\,\mathrm{diag}(M)`. The last two leave the six entries of the root, hence every momentum.
    """
    out = inertia.copy()
    size = inertia.shape[0]
    if damping == NONE or amount == 0.0:
        return out
    if damping == UNIFORM:
        for i in range(size):
            out[i, i] += amount
    elif damping == ENERGETIC:
        for i in range(6, size):
            out[i, i] += amount * inertia[i, i]
    else:
        _add_ends(mech, amount, frames, angular, linear, out)
    return out


@kernel
def _add_ends(
    mech: Mechanism, amount: float, frames: FloatArray, angular: FloatArray, linear: FloatArray, out: FloatArray
) -> None:
    """Add the squared speeds of the ends to the diagonal, for every coordinate but the root's."""
    for n in range(mech.ends.shape[0]):
        j = mech.ends[n]
        p, q, r = mech.tips[n, 0], mech.tips[n, 1], mech.tips[n, 2]
        x = frames[j, 0, 0] * p + frames[j, 0, 1] * q + frames[j, 0, 2] * r
        y = frames[j, 1, 0] * p + frames[j, 1, 1] * q + frames[j, 1, 2] * r
        z = frames[j, 2, 0] * p + frames[j, 2, 1] * q + frames[j, 2, 2] * r
        for i in range(6, out.shape[0]):
            a, b, c = angular[j, 0, i], angular[j, 1, i], angular[j, 2, i]
            u = linear[j, 0, i] + b * z - c * y
            v = linear[j, 1, i] + c * x - a * z
            w = linear[j, 2, i] + a * y - b * x
            out[i, i] += amount * (u * u + v * v + w * w)

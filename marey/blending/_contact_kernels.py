"""Compiled search for the root that puts the centre of mass where it shall be while feet stand still."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel

MAX_ROOT_ITERATIONS = 20
MAX_ROOT_STEP_M = 0.1  # [m] longest step of the root
DIFFERENCE_STEP_M = 1e-6  # [m] for differences
COM_TOL_M = 1e-9  # [m]
EXTENSION_SLACK = 1e-4  # [-] of a leg that is never stretched out


@kernel
def _cross(a: FloatArray, b: FloatArray, out: FloatArray) -> None:
    x = a[1] * b[2] - a[2] * b[1]
    y = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]
    out[0], out[1] = x, y


@kernel
def _normalise(v: FloatArray) -> float:
    size = np.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
    if size > 1e-12:
        v /= size
    return size


@kernel
def _solve3(A: FloatArray, b: FloatArray, x: FloatArray) -> None:
    """Solve ``A x = b`` by Cramer's rule; a singular ``A`` counts as the identity."""
    c = np.empty(3)
    _cross(A[:, 1], A[:, 2], c)
    det = A[0, 0] * c[0] + A[1, 0] * c[1] + A[2, 0] * c[2]
    if abs(det) < 1e-6:
        x[:] = b
        return
    x[0] = (b[0] * c[0] + b[1] * c[1] + b[2] * c[2]) / det
    _cross(A[:, 2], A[:, 0], c)
    x[1] = (b[0] * c[0] + b[1] * c[1] + b[2] * c[2]) / det
    _cross(A[:, 0], A[:, 1], c)
    x[2] = (b[0] * c[0] + b[1] * c[1] + b[2] * c[2]) / det


@kernel
def _solve_leg_frame(
    hip: FloatArray, ankle: FloatArray, pole: FloatArray, lengths: FloatArray, frame: FloatArray, reached: FloatArray
) -> float:
    """Columns of ``frame``: along thigh, along shank, axis of the knee; returns how far the ankle is short [m]."""
    l1, l2 = lengths[0], lengths[1]
    n, b = frame[0], frame[1]
    n[:] = ankle - hip
    far = _normalise(n)
    length = min(max(far, abs(l1 - l2) + 1e-6), (1.0 - EXTENSION_SLACK) * (l1 + l2))
    reached[:] = hip + length * n
    dot = pole[0] * n[0] + pole[1] * n[1] + pole[2] * n[2]
    b[:] = pole - dot * n
    _normalise(b)
    _cross(n, b, frame[2])
    x = (l1 * l1 - l2 * l2 + length * length) / (2.0 * length)
    r = np.sqrt(max(l1 * l1 - x * x, 0.0))
    knee = x * n + r * b
    b[:] = (length * n - knee) / l2
    n[:] = knee / l1
    return far - length


@kernel
def _first_moment(
    root: FloatArray,
    rest: FloatArray,
    rest_mass: float,
    hips: FloatArray,
    ankles: FloatArray,
    poles: FloatArray,
    lengths: FloatArray,
    masses: FloatArray,
    centres: FloatArray,
    feet: FloatArray,
    frames: FloatArray,
    reached: FloatArray,
    out: FloatArray,
) -> float:
    """First moment of mass [kg m] of the whole body with its root there, into ``out``; returns the worst shortage."""
    out[:] = rest + rest_mass * root
    worst = 0.0
    side = np.empty(3)
    for leg in range(len(lengths)):
        hip = root + hips[leg]
        short = _solve_leg_frame(hip, ankles[leg], poles[leg], lengths[leg], frames[leg], reached[leg])
        worst = max(worst, abs(short))
        knee = hip + lengths[leg, 0] * frames[leg, 0]
        for bone in range(2):
            along, axis = frames[leg, bone], frames[leg, 2]
            _cross(axis, along, side)
            c = centres[leg, bone]
            start = hip if bone == 0 else knee
            out += masses[leg, bone] * (start + c[0] * along + c[1] * side + c[2] * axis)
        out += feet[leg] + masses[leg, 2] * (reached[leg] - ankles[leg])
    return worst


@kernel
def solve_roots(
    com: FloatArray,
    rest: FloatArray,
    rest_mass: float,
    hips: FloatArray,
    ankles: FloatArray,
    poles: FloatArray,
    lengths: FloatArray,
    masses: FloatArray,
    centres: FloatArray,
    feet: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, IntArray]:
    r"""Root positions with which the body has its centre of mass at ``com``, its planted feet where they stand.

    Newton's method on :math:`\frac1m\sum_i m_i c_i(P) = P_{com}` with the knees on their circles:
    [Safonova2006]_ App. C, whose sums lack the division by the mass.

    Args:
        com: wanted centre of mass ``(N, 3)`` [m].
        rest: first moment ``(N, 3)`` [kg m] of all but the planted legs, the root at the origin.
        rest_mass: their mass [kg].
        hips: hips ``(N, L, 3)`` [m] relative to the root.
        ankles: planted ankles ``(N, L, 3)`` [m].
        poles: directions ``(N, L, 3)`` towards which the knees bend.
        lengths: thigh and shank ``(L, 2)`` [m].
        masses: thigh, shank, foot ``(L, 3)`` [kg].
        centres: of thigh and shank ``(N, L, 2, 3)`` [m]: along the bone, to its side, along the knee's axis.
        feet: first moments ``(N, L, 3)`` [kg m] of the planted feet.

    Returns:
        Roots ``(N, 3)``, leg frames ``(N, L, 3, 3)`` (rows: thigh, shank, axis), ankles reached ``(N, L, 3)``, how far
        the centre of mass is off ``(N,)`` [m], steps ``(N,)``.
    """
    count, legs = com.shape[0], lengths.shape[0]
    roots, frames, reached = np.empty((count, 3)), np.empty((count, legs, 3, 3)), np.empty((count, legs, 3))
    off, steps = np.empty(count), np.zeros(count, dtype=np.int64)
    total = rest_mass + masses.sum()
    moment, moved, J = np.empty(3), np.empty(3), np.empty((3, 3))
    root, probe, move = np.empty(3), np.empty(3), np.empty(3)
    for f in range(count):
        root[:] = com[f] - rest[f] / total if f == 0 else roots[f - 1] + com[f] - com[f - 1]
        goal = total * com[f]
        best = np.inf
        damping = 1.0
        for step in range(MAX_ROOT_ITERATIONS):
            _first_moment(
                root, rest[f], rest_mass, hips[f], ankles[f], poles[f], lengths, masses, centres[f], feet[f], frames[f],
                reached[f], moment,
            )  # fmt: skip
            miss = (goal - moment) / total
            size = float(np.linalg.norm(miss))
            if size < best:
                best = size
                roots[f] = root
            else:
                damping *= 0.5
            if size < COM_TOL_M or damping < 0.05:
                break
            steps[f] = step + 1
            for i in range(3):
                probe[:] = root
                probe[i] += DIFFERENCE_STEP_M
                _first_moment(
                    probe, rest[f], rest_mass, hips[f], ankles[f], poles[f], lengths, masses, centres[f], feet[f],
                    frames[f], reached[f], moved,
                )  # fmt: skip
                J[:, i] = (moved - moment) / (DIFFERENCE_STEP_M * total)
            _solve3(J, miss, move)
            far = np.sqrt(move[0] * move[0] + move[1] * move[1] + move[2] * move[2])
            root += damping * min(1.0, MAX_ROOT_STEP_M / max(far, 1e-12)) * move
        _first_moment(
            roots[f], rest[f], rest_mass, hips[f], ankles[f], poles[f], lengths, masses, centres[f], feet[f], frames[f],
            reached[f], moment,
        )  # fmt: skip
        miss = moment / total - com[f]
        off[f] = float(np.linalg.norm(miss))
    return roots, frames, reached, off, steps

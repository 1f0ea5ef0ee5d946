"""Frames made again from the frames beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from marey.base import BoolArray
from marey.lie import SO3
from marey.motion.clip import Motion

FULL_SPEED_S = 0.1  # [s] across longer gaps the speeds at their ends count less: what happened inside is unknown


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """A motion after one step of cleaning, and what the step found."""

    motion: Motion
    findings: tuple[str, ...] = ()  # one sentence each, with times; also for what was found and left


def interpolate_frames(motion: Motion, start: int, stop: int, joints: BoolArray, *, root: bool) -> Motion:
    r"""Replace frames ``start`` to ``stop`` (not included) by a cubic between the frames beside them.

    With :math:`u \in [0, 1]` from the frame before to the frame after, :math:`n` frames apart, and body velocities
    :math:`\omega` per frame there, a joint turns by the Hermite cubic of its rotation vector

    .. math:: R(u) = R_a \exp\big(h_{10}(u)\,n\,\omega_a + h_{01}(u)\,\log(R_a^{-1} R_b) + h_{11}(u)\,n\,\omega_b\big)

    which meets both ends exactly and their velocities to second order in the angle; the root's place likewise.

    Args:
        motion: a clip with at least one good frame on either side of the stretch.
        start: first frame to replace, at least 1.
        stop: first good frame after it.
        joints: which joints to replace ``(J,)``.
        root: whether to replace the root's position.
    """
    a, b, last = start - 1, stop, motion.num_frames - 1
    n = b - a
    u = (np.arange(start, stop) - a) / n
    # Hermite polynomials; speeds at the ends fade for gaps longer than FULL_SPEED_S
    trust = min(1.0, FULL_SPEED_S * motion.rate_hz / n)
    leave, reach, arrive = trust * (u**3 - 2 * u**2 + u), 3 * u**2 - 2 * u**3, trust * (u**3 - u**2)
    before, after = max(a - 1, 0), min(b + 1, last)
    R = motion.rotations
    omega_a, omega_b = (R[before].inverse() @ R[a]).log(), (R[b].inverse() @ R[after]).log()
    turn = (R[a].inverse() @ R[b]).log()
    vectors = leave[:, None, None] * n * omega_a + reach[:, None, None] * turn + arrive[:, None, None] * n * omega_b
    wxyz = R.wxyz.copy()
    wxyz[start:stop, joints] = (R[a] @ SO3.exp(vectors)).wxyz[:, joints]
    p = motion.root_positions
    positions = p.copy()
    if root:
        across = np.outer(reach, p[b] - p[a])
        positions[start:stop] = p[a] + np.outer(leave, n * (p[a] - p[before])) + across
        positions[start:stop] += np.outer(arrive, n * (p[after] - p[b]))
    return replace(motion, root_positions=positions, rotations=SO3(wxyz), source=motion.edited_source())


def format_time(motion: Motion, start: int, stop: int) -> str:
    """Write the times of frames ``start`` to ``stop`` (not included): "at 1.20 s" or "1.20-1.45 s"."""
    first, last = start / motion.rate_hz, (stop - 1) / motion.rate_hz
    return f"at {first:.2f} s" if stop - start == 1 else f"{first:.2f}-{last:.2f} s"

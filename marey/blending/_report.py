"""What a blend is worth: reach, gravity, jumps of velocity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray
from marey.blending._rules import blend_velocity
from marey.dynamics import Body

if TYPE_CHECKING:
    from marey.blending._phases import MotionPhase

REACH_TOL_M: Final = 0.01  # [m] a centre of mass farther off than this is out of reach of the legs
LEVEL_JUMP_MPS: Final = 0.5  # [m/s] jumps of the level velocity are seen from here on ([Reitsma2003]_)
UPWARD_JUMP_MPS: Final = 1.0  # [m/s] vertical ones are harder to see


@dataclass(frozen=True, slots=True)
class PhaseCheck:
    """One phase of a blend."""

    kind: str
    duration_s: float
    unreachable_m: float  # farthest that the centre of mass is from the blended one, because legs are too short

    @classmethod
    def from_residuals(cls, kind: str, duration_s: float, com_off_m: FloatArray) -> PhaseCheck:
        """Gather what the search for the root left."""
        return cls(kind, duration_s, float(com_off_m.max(initial=0.0)))

    @property
    def is_reachable(self) -> bool:
        """Whether legs are long enough, to a centimetre."""
        return self.unreachable_m <= REACH_TOL_M


@dataclass(frozen=True, slots=True, eq=False)
class BoundaryCheck:
    """The border of two phases of a blend."""

    velocity_jump: FloatArray  # (3,) [m/s] of the centre of mass

    @classmethod
    def between(
        cls,
        before: Sequence[MotionPhase],
        before_s: float,
        after: Sequence[MotionPhase],
        after_s: float,
        weights: FloatArray,
        body: Body,
    ) -> BoundaryCheck:
        """Compare the blended velocity at the end of one phase with that at the start of the next."""
        leave = np.stack([end_velocity(p, body, -1) for p in before])
        arrive = np.stack([end_velocity(p, body, 0) for p in after])
        spans = [np.array([p.duration_s for p in phases]) for phases in (before, after)]
        jump = blend_velocity(arrive, spans[1], weights, after_s) - blend_velocity(leave, spans[0], weights, before_s)
        jump.setflags(write=False)
        return cls(jump)

    @property
    def is_smooth(self) -> bool:
        """Whether the jump is below what is seen: 0.5 m/s level, 1 m/s vertical."""
        level = float(np.hypot(self.velocity_jump[0], self.velocity_jump[2]))
        return level <= LEVEL_JUMP_MPS and abs(float(self.velocity_jump[1])) <= UPWARD_JUMP_MPS


@dataclass(frozen=True, slots=True)
class BlendReport:
    """All phases and borders of a blend."""

    phases: tuple[PhaseCheck, ...]
    boundaries: tuple[BoundaryCheck, ...]

    @property
    def is_valid(self) -> bool:
        """Whether all phases are in reach and no border jumps visibly."""
        return all(p.is_reachable for p in self.phases) and all(b.is_smooth for b in self.boundaries)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, one sentence each."""
        found = [
            f"phase {i} ({p.kind}): the centre of mass is {100 * p.unreachable_m:.1f} cm out of reach of the legs"
            for i, p in enumerate(self.phases)
            if not p.is_reachable
        ]
        for i, b in enumerate(self.boundaries):
            if not b.is_smooth:
                level, up = float(np.hypot(b.velocity_jump[0], b.velocity_jump[2])), float(b.velocity_jump[1])
                found.append(
                    f"before phase {i + 1} the velocity jumps by {level:.2f} m/s level and {up:+.2f} m/s upwards"
                )
        return tuple(found)


def end_velocity(phase: MotionPhase, body: Body, end: int) -> FloatArray:
    """Velocity ``(3,)`` [m/s] of the centre of mass at the first (0) or last (-1) frame, by a parabola."""
    frames = phase.motion[:3] if end == 0 else phase.motion[-3:]
    a, b, c = body.centre_of_mass(body.motion(frames))
    rate = phase.motion.rate_hz
    return rate * ((-3.0 * a + 4.0 * b - c) if end == 0 else (3.0 * c - 4.0 * b + a)) / 2.0


def velocity_jump(
    velocities: FloatArray,
    before_s: FloatArray,
    after_s: FloatArray,
    weights: FloatArray,
    turns: FloatArray | None = None,
) -> FloatArray:
    r"""Jump ``(3,)`` [m/s] of a blend's velocity at the border of two phases.

    .. math:: \Delta V = \sum_i w_i \Big[R(\psi - \psi_i)\frac{T_i'}{T'} - \frac{T_i}{T}\Big] V_i

    Zero if and only if the phases of all sources have the same ratio of durations and nobody is turned
    ([Safonova2006]_ §5.4; the closed form is ours).

    Args:
        velocities: of the sources at the border ``(k, 3)`` [m/s].
        before_s: durations of their phases before it ``(k,)`` [s].
        after_s: after it.
        weights: ``(k,)``.
        turns: by how much each is realigned ``(k,)`` [rad]; not at all by default.
    """
    before, after = (np.sqrt(float(weights @ T**2)) for T in (before_s, after_s))
    turned = velocities
    if turns is not None:
        c, s = np.cos(turns), np.sin(turns)
        x, y, z = velocities.T
        turned = np.stack([c * x + s * z, y, c * z - s * x], axis=1)
    return (weights * after_s / after) @ turned - (weights * before_s / before) @ velocities

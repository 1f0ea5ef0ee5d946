r"""Where the feet of a runner land: a plan of all landings to come, made once for a clip and looked up at every step.

A centre of mass that is off the clip's path by e is carried further from it by feet that stand off their places by u,
:math:`\ddot e = \omega^2_i\,(e - \sum_s w_{is} u_s)`, with the clip's own stiffness at frame i, none in flight. Each
landing chooses u of one foot, so that the best choices are a linear-quadratic regulator: its gains come from one sweep
back over the clip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, frozen
from marey.control.balance import HORIZONTAL_AXES, CentreOfMassPath
from marey.control.reference import Reference
from marey.control.stepping import AIR, FootSchedule
from marey.motion import find_runs

ERROR, SPEED, FIRST_FOOT = 0, 1, 2  # state: e [m], de/dt [m/s], u of the left and of the right foot [m]


@dataclass(frozen=True, slots=True)
class LandingSettings:
    """What a landing off its place costs, against a centre of mass off its path."""

    step: float = 0.05  # [s] of squared metres that a foot lands elsewhere; squared errors are integrated over time
    end: float = 0.2  # [s] of the squared error of the capture point at the end of the clip


DEFAULT_LANDINGS: Final = LandingSettings()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LandingPlan:
    """Gains of the landings of a clip, and how errors grow from frame to frame; one for both horizontal axes."""

    growth: FloatArray  # (F, 4, 4) state after each frame
    gains: FloatArray  # (F, 2, 4) [-] u of a foot that lands in a frame per state; zero where none lands
    is_landing: FloatArray  # (F, 2) 1 where a foot lands
    until_flight: FloatArray  # (F,) frames of a stance until its flight; zero in flight, and where none follows

    def foresee(self, state: FloatArray, frame: int, due: int, side: int) -> FloatArray:
        """Where ``(2,)`` [m] a foot should land in a later frame, off its place in the clip; ``state (4, 2)``."""
        due = min(due, len(self.gains) - 1)
        for i in range(frame, due):
            state = self.growth[i] @ state
            for other in np.flatnonzero(self.is_landing[i + 1]) if i + 1 < due else ():
                state = np.array(state)
                state[FIRST_FOOT + other] = self.gains[i + 1, other] @ state
        return self.gains[due, side] @ state


def plan_landings(
    reference: Reference, path: CentreOfMassPath, schedule: FootSchedule, settings: LandingSettings = DEFAULT_LANDINGS
) -> LandingPlan:
    """Plan of all landings of a clip; see the module."""
    count, dt = len(reference), reference.dt
    down = schedule.phases != AIR
    # Share w (F, 2) of the feet: of two that stand, by where the pivot lies between them
    feet = reference.soles[:, :, HORIZONTAL_AXES]
    way = feet[:, 1] - feet[:, 0]
    share = ((path.pivot - feet[:, 0]) * way).sum(axis=1) / np.maximum((way**2).sum(axis=1), 1e-6)
    part = np.asarray(np.where(down.all(axis=1), np.clip(share, 0.0, 1.0), down[:, 1]), dtype=np.float64)
    growth = np.tile(np.eye(4), (count, 1, 1))
    pull = np.where(down.any(axis=1), path.stiffness, 0.0) * dt
    growth[:, SPEED, ERROR] = pull
    growth[:, SPEED, FIRST_FOOT], growth[:, SPEED, FIRST_FOOT + 1] = -pull * (1.0 - part), -pull * part
    growth[:, ERROR] += dt * growth[:, SPEED]
    is_landing = np.zeros((count, 2))
    is_landing[1:] = down[1:] & ~down[:-1]
    # Riccati's recursion, from the end: price z^T P z of a state z, with P the prices
    gains = np.zeros((count, 2, 4))
    capture = np.array([1.0, 1.0 / path.frequency, 0.0, 0.0])
    running = dt * np.diag([1.0, path.frequency**-2, 0.0, 0.0])
    prices = settings.end * np.outer(capture, capture) + running
    for i in range(count - 1, -1, -1):
        if i < count - 1:
            prices = running + growth[i].T @ prices @ growth[i]
        for side in np.flatnonzero(is_landing[i]):
            # u of this foot is chosen: z' = S z + b u, least (z')^T P z' + step u^2
            b = np.zeros(4)
            b[FIRST_FOOT + side] = 1.0
            kept = np.eye(4) - np.outer(b, b)
            whole = float(b @ prices @ b) + settings.step
            gain = b @ prices @ kept / whole
            gains[i, side] = -gain
            prices = kept.T @ prices @ kept - whole * np.outer(gain, gain)
    until_flight = np.zeros(count)
    for start, stop in find_runs(~path.is_flight):
        if stop < count:
            until_flight[start:stop] = stop - np.arange(start, stop)
    return LandingPlan(*(frozen(values, name="plan") for values in (growth, gains, is_landing, until_flight)))

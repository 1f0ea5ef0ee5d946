"""A treadmill's belt: feet in stance move backward together while the pelvis stays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.motion import Motion, find_runs
from marey.skeleton import contact_points

LOW_M: Final = 0.035  # [m] a point of the sole below this, above its own lowest places, may stand
SLOWEST_MPS: Final = 0.25  # [m/s] of a belt
SHARE: Final = 0.35  # [-] pelvis speed over belt speed up to which the pelvis stays
STEADY: Final = 0.25  # [-] spread of stance velocities over the belt's speed


@dataclass(frozen=True, slots=True, eq=False)
class Belt:
    """Velocity of the ground under the feet."""

    velocity_mps: FloatArray  # (3,) [m/s] in world, horizontal
    spread_mps: float  # [m/s] of single stances round it

    @property
    def speed_mps(self) -> float:
        """Speed of the belt [m/s]."""
        return float(np.linalg.norm(self.velocity_mps))

    def over_ground(self, motion: Motion) -> Motion:
        """The same motion seen from the belt: feet in stance rest, and the body advances."""
        way = -self.velocity_mps * (np.arange(motion.num_frames) / motion.rate_hz)[:, None]
        return replace(motion, root_positions=motion.root_positions + way)


def find_belt(motion: Motion) -> Belt | None:
    """The belt under a motion, or None where the feet stand on still ground.

    A point of a sole stands while it is low and moves level. On a belt the median of its velocity is that of the belt,
    in every stance of both feet, and the pelvis hardly moves on the whole; a walk over ground has stances at rest. A
    runner brakes the belt by up to a tenth while the heel is down and pushes it on later, so the speed is the mean over
    the stances of the toes, which are down all the time.
    """
    if motion.num_frames < 10:
        return None
    points = contact_points(motion.skeleton)
    places = points.positions(*motion.joint_frames())
    velocity = np.gradient(places, axis=0) * motion.rate_hz
    soles = [k for k, name in enumerate(points.names) if "heel" in name or "toe" in name]
    stances: list[FloatArray] = []
    of_toes: list[FloatArray] = []
    for k in soles:
        height = places[:, k, 1]
        low = (height < np.percentile(height, 3) + LOW_M) & (np.abs(velocity[:, k, 1]) < 0.5)
        for start, stop in find_runs(low):
            # The middle of a stance: neither landing nor leaving
            if stop - start >= max(3, int(0.04 * motion.rate_hz)):
                third = (stop - start) // 4
                middle = np.median(velocity[start + third : stop - third, k], axis=0)
                stances.append(middle)
                away = np.linalg.norm(velocity[start:stop, k] - middle, axis=-1)
                near = away < STEADY * max(float(np.linalg.norm(middle)), SLOWEST_MPS)
                if "toe" in points.names[k]:
                    of_toes.append(velocity[start:stop, k][near].mean(axis=0) if near.any() else middle)
    if len(stances) < 2:
        return None
    found = np.array(stances) * [1.0, 0.0, 1.0]
    belt = np.median(np.array(of_toes) * [1.0, 0.0, 1.0], axis=0) if len(of_toes) > 1 else np.median(found, axis=0)
    speed = float(np.linalg.norm(belt))
    spread = float(np.median(np.linalg.norm(found - belt, axis=1)))
    way = (motion.root_positions[-1] - motion.root_positions[0]) * [1.0, 0.0, 1.0]
    drift = float(np.linalg.norm(way)) / max(motion.duration_s, 1e-6)
    if speed < SLOWEST_MPS or drift > SHARE * speed or spread > STEADY * speed:
        return None
    return Belt(belt, spread)

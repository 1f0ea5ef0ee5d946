"""Both trackers on the seated person: ``python benchmarks/study_tracking.py [NAME ...]`` prints a table.

The settings were chosen on seeds 1 to 3; the study uses others. Each row is the mean over ``SEEDS`` of a clip of 675
frames seen with 2 px of noise. The full-pose filter has its own best settings for each number of particles.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from marey.motion import Motion
from marey.tracking import (
    Camera,
    EffectorFilter,
    FilterResult,
    Likelihood,
    Observations,
    Occlusion,
    PoseFilter,
    observe,
    seated_limits,
    seated_motion,
)

SEEDS = (11, 21, 31)
NOISE_PX = 2.0
HIDDEN = Occlusion(share=0.1, bursts_per_s=0.15, burst_s=0.4)
CAMERA = Camera(np.array([0.5, 1.15, 2.2]), np.array([0.0, 0.95, 0.15]))
LIMITS = seated_limits()
GUIDED = EffectorFilter(limits=LIMITS)
WALKING = replace(GUIDED, proposal="random-walk")
FULL = PoseFilter(limits=LIMITS)
FULL_SETTINGS = {100: (0.03, 12.0), 250: (0.02, 8.0), 1000: (0.02, 8.0), 5000: (0.02, 5.0)}  # step [rad], σ [px]

Tracker = EffectorFilter | PoseFilter


@dataclass(frozen=True)
class Row:
    """What a tracker did on all clips."""

    error_cm: float
    worst_cm: float  # mean of the clip that went worst
    median_cm: float
    error_95_cm: float
    lost: float  # [%] of frames
    frames_per_s: float

    def __str__(self) -> str:
        errors = f"{self.error_cm:.1f} | {self.worst_cm:.1f} | {self.median_cm:.1f} | {self.error_95_cm:.1f}"
        return f"{errors} | {self.lost:.1f} | {self.frames_per_s:.0f} |"


def clip(seed: int, occlusion: Occlusion | None, *, reach_back: bool) -> tuple[Motion, Observations]:
    """A truth and what the camera sees of it."""
    truth = seated_motion(np.random.default_rng(seed), reach_back=reach_back)
    rng = np.random.default_rng(seed + 1)
    return truth, observe(truth, CAMERA, noise_px=NOISE_PX, occlusion=occlusion, rng=rng)


def measure(tracker: Tracker, occlusion: Occlusion | None = None, *, reach_back: bool = False) -> Row:
    """Track all clips."""
    results: list[tuple[Motion, FilterResult]] = []
    for seed in SEEDS:
        truth, seen = clip(seed, occlusion, reach_back=reach_back)
        results.append((truth, tracker.run(seen, truth[0], np.random.default_rng(0))))
    clips = [100.0 * result.tool_errors(truth) for truth, result in results]
    errors, worst = np.concatenate(clips), max(float(e.mean()) for e in clips)
    seconds = np.concatenate([result.seconds for _, result in results])
    lost = 100.0 * float(np.mean([result.num_lost / len(result.seconds) for _, result in results]))
    middle, high = np.percentile(errors, (50, 95))
    return Row(float(errors.mean()), worst, float(middle), float(high), lost, float(1.0 / np.median(seconds)))


def full_pose(count: int) -> Row:
    """The full-pose filter at its best for a number of particles."""
    step_rad, sigma_px = FULL_SETTINGS[count]
    return measure(replace(FULL, num_particles=count, step_rad=step_rad, likelihood=Likelihood(sigma_px)))


ROWS = {
    "guided-25": ("end effectors, guided, 25", lambda: measure(GUIDED)),
    "guided-hidden": ("end effectors, guided, 25, points hidden", lambda: measure(GUIDED, HIDDEN)),
    "guided-back": ("end effectors, guided, 25, reaching back", lambda: measure(GUIDED, reach_back=True)),
    "walk-25": ("end effectors, random walk, 25", lambda: measure(WALKING)),
    "full-100": ("full pose, 100", lambda: full_pose(100)),
    "full-250": ("full pose, 250", lambda: full_pose(250)),
    "full-1000": ("full pose, 1000", lambda: full_pose(1000)),
    "full-5000": ("full pose, 5000", lambda: full_pose(5000)),
}


def main(names: Sequence[str]) -> int:
    """Print the rows whose key contains one of the names, all by default."""
    print("| tracker, particles | mean [cm] | worst clip | median | 95 % | lost [%] | frames/s |")
    print("|---|---|---|---|---|---|---|")
    for key, (label, job) in ROWS.items():
        if not names or any(name in key for name in names):
            print(f"| {label} | {job()}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

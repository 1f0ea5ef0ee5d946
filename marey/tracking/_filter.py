"""The particle filter that both trackers share: move, weigh, estimate, resample, recover."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from marey.base import FloatArray, InputError
from marey.tracking._particles import FrameDetections, MotionModel, Particles, TrackingProblem, TrackState
from marey.tracking._weights import (
    compute_effective_size,
    compute_reprojection_energies,
    normalise_log_weights,
    resample_systematic,
)


@dataclass(frozen=True, slots=True)
class Likelihood:
    r"""How detections weigh particles, and when a particle is beyond belief.

    .. math:: w \leftarrow w\,\exp\big(-E/2\sigma^2\big), \qquad E = \sum_k c_k\,\rho(\|\pi(p_k) - z_k\|)

    [Engell2012]_ leaves E to other papers; ours is the reprojection error of keypoints, with ρ of Geman and McClure.
    """

    sigma_px: float  # [px] σ; above the detector's noise, because few particles cannot meet it better
    robust_px: float = 60.0  # [px] a stray detection costs at most the square of this
    lost_px: float = 60.0  # [px] beyond this root mean square distance of the best particle, the track is lost
    lost_spread: float = 3.0  # [-] how much wider the noise is while searching

    def __post_init__(self) -> None:
        for name in ("sigma_px", "robust_px", "lost_px", "lost_spread"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0.0):
                raise InputError(f"{name} is {value}", "Give a positive number")

    def weigh(
        self, scene: TrackingProblem, sight: FrameDetections, particles: Particles, gains: FloatArray
    ) -> tuple[Particles, float]:
        """Return weighed particles, and the distance [px] of the best of them to what is seen."""
        seen = scene.pixels(particles.wxyz)
        energies, distances = compute_reprojection_energies(seen, sight.pixels, sight.trust, self.robust_px)
        log_weights = particles.log_weights + gains - energies / (2.0 * self.sigma_px**2)
        return particles.with_weights(normalise_log_weights(log_weights)), float(distances.min())

    def state(self, sight: FrameDetections, distance_px: float) -> TrackState:
        """Judge a frame."""
        if not sight.trust.any():
            return TrackState.OCCLUDED
        return TrackState.LOST if distance_px > self.lost_px else TrackState.TRACKED


@dataclass(frozen=True, slots=True, eq=False)
class TrackFrame:
    """One frame of a track."""

    state: TrackState
    wxyz: FloatArray  # (J, 4) estimated pose; the last good one while lost
    particles: Particles  # as weighed, before they are resampled
    effective_size: float  # between 1 and N
    resampled: bool
    distance_px: float  # [px] root mean square distance of the best particle to what is seen
    seconds: float  # wall time


def run_filter(
    scene: TrackingProblem, walk: MotionModel, likelihood: Likelihood, count: int, rng: np.random.Generator
) -> Iterator[TrackFrame]:
    """Run the filter, frame by frame, from particles that all stand in the first pose. [Engell2012]_ §8-9."""
    good, spread = scene.start.rotations.wxyz, 1.0
    particles = scene.repeat_pose(good, count)
    for f in range(len(scene.observations)):
        begin = perf_counter()
        sight = scene.detections(f)
        moved, gains = walk.move(particles, sight, spread, rng)
        weighed, distance_px = likelihood.weigh(scene, sight, moved, gains)
        size, state = compute_effective_size(weighed.weights), likelihood.state(sight, distance_px)
        is_lost, is_poor = state is TrackState.LOST, size < 0.5 * count
        if is_lost:
            particles, spread = scene.repeat_pose(good, count), likelihood.lost_spread
        else:
            good, spread = walk.estimate(weighed, sight), 1.0
            particles = weighed.resample(resample_systematic(weighed.weights, rng)) if is_poor else weighed
        yield TrackFrame(state, good, weighed, size, is_lost or is_poor, distance_px, perf_counter() - begin)

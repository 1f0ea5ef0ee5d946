"""The particle filter that both trackers share: move, weigh, estimate, resample, recover.

Weights are likelihoods in log space, with their effective number and systematic resampling.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from time import perf_counter
from typing import Final, Literal

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, Result, UnknownNameError
from marey.kinematics import JointLimits
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import ContactPoints, Pose, joint_frames
from marey.tracking.observation import TOOLS, Observations, body_points, check_views, track_points


def normalise_log_weights(log_weights: FloatArray) -> FloatArray:
    r"""Subtract :math:`\log\sum_i e^{l_i}`, with the largest taken out first, so that nothing over- or underflows."""
    shifted = log_weights - log_weights.max()
    return shifted - np.log(np.exp(shifted).sum())


def exponentiate_log_weights(log_weights: FloatArray) -> FloatArray:
    """Weights ``(N,)`` that sum to one."""
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def compute_effective_size(weights: FloatArray) -> float:
    r"""Effective number of particles, :math:`1/\sum_i w_i^2`, between 1 and N."""
    return float(1.0 / np.sum(weights**2))


def resample_systematic(weights: FloatArray, rng: np.random.Generator) -> IntArray:
    r"""Choose N particles with one draw: the i-th is where the cumulated weight passes :math:`(i + u)/N`.

    Particle i is chosen :math:`\lfloor N w_i \rfloor` or :math:`\lceil N w_i \rceil` times.
    """
    count = len(weights)
    comb = (np.arange(count) + rng.random()) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), comb, side="right"), count - 1).astype(np.int64)


def compute_reprojection_energies(
    projected: FloatArray, pixels: FloatArray, trust: FloatArray, robust_px: float
) -> tuple[FloatArray, FloatArray]:
    r"""Energy ``(N,)`` [px²] and root mean square distance ``(N,)`` [px] of projected points ``(N, K, 2)``.

    .. math:: E = \sum_k c_k\,\rho(\|\pi(p_k) - z_k\|), \qquad \rho(r) = \frac{r^2}{1 + r^2/s^2}

    ρ is that of Geman and McClure: a stray detection costs at most :math:`s^2`. Without any trust both are zero.
    """
    squares = np.sum((projected - pixels) ** 2, axis=-1)
    robust = squares / (1.0 + squares / robust_px**2)
    total = float(trust.sum())
    return robust @ trust, np.sqrt(squares @ trust / total) if total > 0.0 else np.zeros(len(projected))


class TrackState(Enum):
    """State of a tracked frame."""

    TRACKED = "tracked"
    OCCLUDED = "occluded"  # nothing is seen: the particles only spread
    LOST = "lost"  # no particle explains what is seen: the next frame searches around the last good estimate


@dataclass(frozen=True, slots=True, eq=False)
class Particles:
    """N guesses of a pose, with the places of their tools."""

    roots: FloatArray  # (N, 3) [m] in world
    wxyz: FloatArray  # (N, J, 4) local rotations
    tools: FloatArray  # (N, T, 3) [m] in world
    log_weights: FloatArray  # (N,)

    @property
    def weights(self) -> FloatArray:
        """Weights ``(N,)``, summing to one."""
        return exponentiate_log_weights(self.log_weights)

    def resample(self, which: IntArray) -> Particles:
        """Return some of the particles, all of one weight."""
        equal = np.full(len(which), -np.log(len(which)))
        return Particles(self.roots[which], self.wxyz[which], self.tools[which], equal)


@dataclass(frozen=True, slots=True, eq=False)
class FrameDetections:
    """What one frame shows, camera after camera."""

    pixels: FloatArray  # (K, 2) [px]
    trust: FloatArray  # (K,) confidence; zero where nothing is seen


@dataclass(frozen=True, slots=True, eq=False)
class TrackingProblem:
    """Constant data of a tracked clip."""

    views: tuple[Observations, ...]
    start: Pose  # inside the limits
    keypoints: ContactPoints  # what any camera sees, each once
    which: IntArray  # (K,) keypoint of each detection, camera after camera
    cameras: IntArray  # (K,) its camera
    tools: ContactPoints  # what is steered and reported, (T,)
    limits: JointLimits | None
    is_root_free: bool = False

    @classmethod
    def from_observations(
        cls,
        observations: Observations | Sequence[Observations],
        start: Pose,
        tools: tuple[str, ...],
        limits: JointLimits | None,
        *,
        is_root_free: bool = False,
    ) -> TrackingProblem:
        """Look up the points on the body of the first pose, and bring that pose inside the limits."""
        if limits is not None and limits.skeleton.names != start.skeleton.names:
            raise InputError(f"limits of {limits.skeleton!r} with a pose of {start.skeleton!r}", "Use one skeleton")
        views = (observations,) if isinstance(observations, Observations) else tuple(observations)
        check_views(views)
        names = tuple(dict.fromkeys(name for view in views for name in view.names))
        which = np.array([names.index(name) for view in views for name in view.names])
        cameras = np.repeat(np.arange(len(views)), [len(view.names) for view in views])
        allowed = start if limits is None else limits.project(start)
        points = body_points(start.skeleton, names), which, cameras, body_points(start.skeleton, tools)
        return cls(views, allowed, *points, limits, is_root_free)

    @property
    def num_frames(self) -> int:
        """Frames that were seen."""
        return len(self.views[0])

    def positions(self, points: ContactPoints, roots: FloatArray, wxyz: FloatArray) -> FloatArray:
        """Points ``(N, ., 3)`` [m] of poses ``(N, J, 4)``."""
        return points.positions(*joint_frames(self.start.skeleton, roots, wxyz))

    def pixels(self, particles: Particles) -> FloatArray:
        """Where the cameras see the keypoints of poses: ``(N, K, 2)`` [px]."""
        places = self.positions(self.keypoints, particles.roots, particles.wxyz)[:, self.which]
        seen = [view.camera.project(places[:, self.cameras == c]) for c, view in enumerate(self.views)]
        return np.concatenate(seen, axis=1)

    def project_to_limits(self, wxyz: FloatArray) -> FloatArray:
        """Nearest rotations ``(N, J, 4)`` inside the limits."""
        return wxyz if self.limits is None else self.limits.project_rotations(SO3(wxyz)).wxyz

    def particles(self, roots: FloatArray, wxyz: FloatArray, log_weights: FloatArray) -> Particles:
        """Particles of poses ``(N, J, 4)``."""
        return Particles(roots, wxyz, self.positions(self.tools, roots, wxyz), log_weights)

    def repeat_pose(self, root: FloatArray, wxyz: FloatArray, count: int) -> Particles:
        """Particles that all stand in one pose ``(J, 4)``."""
        rows = np.repeat(root[None], count, axis=0), np.repeat(wxyz[None], count, axis=0)
        return self.particles(*rows, np.full(count, -np.log(count)))


class MotionModel(ABC):
    """Motion of particles from frame to frame, and the pose estimate."""

    @abstractmethod
    def move(
        self, particles: Particles, sight: FrameDetections, spread: float, rng: np.random.Generator
    ) -> tuple[Particles, FloatArray]:
        """Return moved particles and log(motion prior / proposal) ``(N,)``; ``spread`` widens the noise."""

    @abstractmethod
    def estimate(self, particles: Particles, sight: FrameDetections) -> tuple[FloatArray, FloatArray]:
        """Return the root ``(3,)`` [m] and the rotations ``(J, 4)`` estimated from weighted particles."""


@dataclass(frozen=True, slots=True)
class Likelihood:
    r"""Weights of particles by detections, and the threshold of a lost particle.

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
        # w <- w p/q exp(-E / 2 sigma^2), in logarithms
        seen = scene.pixels(particles)
        energies, distances = compute_reprojection_energies(seen, sight.pixels, sight.trust, self.robust_px)
        log_weights = particles.log_weights + gains - energies / (2.0 * self.sigma_px**2)
        return replace(particles, log_weights=normalise_log_weights(log_weights)), float(distances.min())

    def state(self, sight: FrameDetections, distance_px: float) -> TrackState:
        """Judge a frame."""
        if not sight.trust.any():
            return TrackState.OCCLUDED
        return TrackState.LOST if distance_px > self.lost_px else TrackState.TRACKED


@dataclass(frozen=True, slots=True, eq=False)
class TrackFrame:
    """One frame of a track."""

    state: TrackState
    root: FloatArray  # (3,) [m] of the estimated pose; the last good one while lost
    wxyz: FloatArray  # (J, 4) its rotations
    particles: Particles  # as weighed, before they are resampled
    effective_size: float  # between 1 and N
    resampled: bool
    distance_px: float  # [px] root mean square distance of the best particle to what is seen
    seconds: float  # wall time


Proposal = Literal["guided", "random-walk"]
PROPOSALS: Final = ("guided", "random-walk")


@dataclass(frozen=True, slots=True, eq=False)
class ParticleFilter(ABC):
    """What both filters share: settings, cameras and the way from frame to frame."""

    num_particles: int = 25
    proposal: Proposal = "guided"
    tools: tuple[str, ...] = TOOLS  # what is reported, (T,)
    limits: JointLimits | None = None
    root: Literal["fixed", "free"] = "fixed"
    likelihood: Likelihood | None = None  # suits the proposal, if not given

    def __post_init__(self) -> None:
        if self.num_particles < 1:
            raise InputError(f"num_particles is {self.num_particles}", "Use at least one")
        if self.proposal not in PROPOSALS:
            raise UnknownNameError("proposal", self.proposal, type(self).__name__, PROPOSALS)
        self.check()

    @abstractmethod
    def check(self) -> None:
        """Refuse settings of the filter's own that make no sense."""

    @abstractmethod
    def build(self, scene: TrackingProblem) -> tuple[MotionModel, Likelihood]:
        """Return how particles move in a clip, and how they are weighed."""

    def follow(
        self, observations: Observations | Sequence[Observations], start_pose: Pose, rng: np.random.Generator
    ) -> Iterator[TrackFrame]:
        """Track frame by frame, for use while the frames arrive."""
        return self._frames(self._compile(observations, start_pose), rng)

    def run(
        self, observations: Observations | Sequence[Observations], start_pose: Pose, rng: np.random.Generator
    ) -> FilterResult:
        """Track a whole clip of one camera or several; ``start_pose`` is the pose just before its first frame."""
        scene = self._compile(observations, start_pose)
        frames = self._frames(scene, rng)
        kept = [(f.state, f.root, f.wxyz, f.effective_size, f.resampled, f.distance_px, f.seconds) for f in frames]
        states, roots, wxyz, sizes, resampled, distances, seconds = zip(*kept, strict=True)
        motion = Motion(
            start_pose.skeleton, scene.views[0].rate_hz, np.array(roots), SO3(np.array(wxyz)), name="tracked"
        )
        flags = np.array(resampled, dtype=np.bool_)
        tables = np.array(sizes), flags, np.array(distances), np.array(seconds)
        return FilterResult(motion, scene.tools.names, tuple(states), *tables)

    def _compile(self, observations: Observations | Sequence[Observations], start: Pose) -> TrackingProblem:
        is_free = self.root == "free"
        return TrackingProblem.from_observations(observations, start, self.tools, self.limits, is_root_free=is_free)

    def _frames(self, scene: TrackingProblem, rng: np.random.Generator) -> Iterator[TrackFrame]:
        """Run the filter from particles that all stand in the first pose. [Engell2012]_ §8-9."""
        (walk, likelihood), count = self.build(scene), self.num_particles
        good, spread = (scene.start.root_position, scene.start.rotations.wxyz), 1.0
        particles = scene.repeat_pose(*good, count)
        for f in range(scene.num_frames):
            begin = perf_counter()
            # What the frame shows; move, weigh, judge
            pixels = np.concatenate([view.pixels[f] for view in scene.views])
            sight = FrameDetections(pixels, np.concatenate([view.trust[f] for view in scene.views]))
            moved, gains = walk.move(particles, sight, spread, rng)
            weighed, distance_px = likelihood.weigh(scene, sight, moved, gains)
            size, state = compute_effective_size(weighed.weights), likelihood.state(sight, distance_px)
            is_lost, is_poor = state is TrackState.LOST, size < 0.5 * count
            # A lost track searches around the last good pose; a track of few weights is resampled
            if is_lost:
                particles, spread = scene.repeat_pose(*good, count), likelihood.lost_spread
            else:
                good, spread = walk.estimate(weighed, sight), 1.0
                particles = weighed.resample(resample_systematic(weighed.weights, rng)) if is_poor else weighed
            yield TrackFrame(state, *good, weighed, size, is_lost or is_poor, distance_px, perf_counter() - begin)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FilterResult(Result):
    """A tracked clip: one array per quantity, frames first."""

    motion: Motion
    tool_names: tuple[str, ...]  # (T,)
    states: tuple[TrackState, ...]  # (F,)
    effective_sizes: FloatArray  # (F,) between 1 and the number of particles
    resampled: BoolArray  # (F,)
    distances_px: FloatArray  # (F,) [px] root mean square distance of the best particle to what was seen
    seconds: FloatArray  # (F,) wall time of each frame

    @property
    def frame_errors_px(self) -> FloatArray:
        """Distance of the best particle to what was seen, ``(F,)`` [px]."""
        return self.distances_px

    @property
    def tools(self) -> FloatArray:
        """Estimated places of the tools, ``(F, T, 3)`` [m] in world."""
        return track_points(self.motion, self.tool_names)

    @property
    def num_resamplings(self) -> int:
        """Number of frames in which particles were resampled."""
        return int(self.resampled.sum())

    @property
    def num_lost(self) -> int:
        """In how many frames the track was lost."""
        return sum(state is TrackState.LOST for state in self.states)

    @property
    def frames_per_second(self) -> float:
        """Frames tracked per second of wall time."""
        return len(self.seconds) / float(self.seconds.sum())

    def tool_errors(self, truth: Motion) -> FloatArray:
        """Distance of each tool to where it really was, ``(F, T)`` [m]."""
        if truth.num_frames != self.motion.num_frames:
            raise InputError(f"the truth has {truth.num_frames} frames, the track {self.motion.num_frames}")
        return np.linalg.norm(self.tools - track_points(truth, self.tool_names), axis=-1)

    def __repr__(self) -> str:
        return (
            f"FilterResult({self.motion.num_frames} frames, {self.num_lost} lost, "
            f"{self.num_resamplings} resamplings, {self.frames_per_second:.0f} frames/s)"
        )

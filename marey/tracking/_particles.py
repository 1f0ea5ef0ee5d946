"""What a filter carries from frame to frame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.kinematics import JointLimits
from marey.lie import SO3
from marey.skeleton import ContactPoints, Pose
from marey.tracking._observe import Observations
from marey.tracking._points import body_points, compute_point_positions
from marey.tracking._weights import exponentiate_log_weights


class TrackState(Enum):
    """How a frame went."""

    TRACKED = "tracked"
    OCCLUDED = "occluded"  # nothing is seen: the particles only spread
    LOST = "lost"  # no particle explains what is seen: the next frame searches around the last good estimate


@dataclass(frozen=True, slots=True, eq=False)
class Particles:
    """N guesses of a pose, with the places of their tools."""

    wxyz: FloatArray  # (N, J, 4) local rotations
    tools: FloatArray  # (N, T, 3) [m] in world
    log_weights: FloatArray  # (N,)

    @property
    def weights(self) -> FloatArray:
        """Weights ``(N,)``, summing to one."""
        return exponentiate_log_weights(self.log_weights)

    def with_weights(self, log_weights: FloatArray) -> Particles:
        """Return the same guesses with other weights."""
        return Particles(self.wxyz, self.tools, log_weights)

    def resample(self, which: IntArray) -> Particles:
        """Return some of the particles, all of one weight."""
        return Particles(self.wxyz[which], self.tools[which], np.full(len(which), -np.log(len(which))))


@dataclass(frozen=True, slots=True, eq=False)
class FrameDetections:
    """What one frame shows."""

    pixels: FloatArray  # (K, 2) [px]
    trust: FloatArray  # (K,) confidence; zero where nothing is seen


@dataclass(frozen=True, slots=True, eq=False)
class TrackingProblem:
    """What stays the same while a clip is tracked; the root stays where it is at the start."""

    observations: Observations
    start: Pose  # inside the limits
    keypoints: ContactPoints  # what is seen, (K,)
    tools: ContactPoints  # what is steered and reported, (T,)
    limits: JointLimits | None

    @classmethod
    def from_observations(
        cls, observations: Observations, start: Pose, tools: tuple[str, ...], limits: JointLimits | None
    ) -> TrackingProblem:
        """Look up the points on the body of the first pose, and bring that pose inside the limits."""
        if limits is not None and limits.skeleton.names != start.skeleton.names:
            raise InputError(f"limits of {limits.skeleton!r} with a pose of {start.skeleton!r}", "Use one skeleton")
        keypoints = body_points(start.skeleton, observations.names)
        allowed = start if limits is None else limits.project(start)
        return cls(observations, allowed, keypoints, body_points(start.skeleton, tools), limits)

    def detections(self, frame: int) -> FrameDetections:
        """What one frame shows."""
        return FrameDetections(self.observations.pixels[frame], self.observations.trust[frame])

    def positions(self, points: ContactPoints, wxyz: FloatArray) -> FloatArray:
        """Points ``(N, ., 3)`` [m] of poses ``(N, J, 4)``."""
        roots = np.broadcast_to(self.start.root_position, (len(wxyz), 3))
        return compute_point_positions(points, self.start.skeleton, roots, wxyz)

    def pixels(self, wxyz: FloatArray) -> FloatArray:
        """Where the camera sees the keypoints of poses ``(N, J, 4)``: ``(N, K, 2)`` [px]."""
        return self.observations.camera.project(self.positions(self.keypoints, wxyz))

    def project_to_limits(self, wxyz: FloatArray) -> FloatArray:
        """Nearest rotations ``(N, J, 4)`` inside the limits."""
        return wxyz if self.limits is None else self.limits.project_rotations(SO3(wxyz)).wxyz

    def particles(self, wxyz: FloatArray, log_weights: FloatArray) -> Particles:
        """Particles of poses ``(N, J, 4)``."""
        return Particles(wxyz, self.positions(self.tools, wxyz), log_weights)

    def repeat_pose(self, wxyz: FloatArray, count: int) -> Particles:
        """Particles that all stand in one pose ``(J, 4)``."""
        return self.particles(np.repeat(wxyz[None], count, axis=0), np.full(count, -np.log(count)))


class MotionModel(ABC):
    """How particles move from frame to frame, and what pose they stand for together."""

    @abstractmethod
    def move(
        self, particles: Particles, sight: FrameDetections, spread: float, rng: np.random.Generator
    ) -> tuple[Particles, FloatArray]:
        """Return moved particles and log(motion prior / proposal) ``(N,)``; ``spread`` widens the noise."""

    @abstractmethod
    def estimate(self, particles: Particles, sight: FrameDetections) -> FloatArray:
        """Return the pose ``(J, 4)`` that weighted particles stand for."""

"""The baseline: a particle filter in the space of all joint rotations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from marey.base import FloatArray, InputError
from marey.kinematics import JointLimits
from marey.lie import SO3
from marey.skeleton import Pose
from marey.tracking.observation import TOOLS, Observations, average_rotations
from marey.tracking.particle_filter import (
    FilterResult,
    FrameDetections,
    Likelihood,
    MotionModel,
    Particles,
    TrackFrame,
    TrackingProblem,
    check_particle_count,
    collect_result,
    run_filter,
)

POSE_LIKELIHOOD: Final = Likelihood(sigma_px=12.0)  # the best of 8, 12 and 16 px for 100 particles


@final
@dataclass(frozen=True, slots=True, eq=False)
class PoseFilter:
    r"""Track by a random walk of every joint, projected on the limits; no inverse kinematics. [Engell2012]_ §9.1.

    .. math:: R_j \leftarrow P\big(R_j \exp(\sigma_j \varepsilon)\big), \qquad \varepsilon \sim N(0, I)

    Joints that carry no keypoint stay as they are, and so does the root: the person sits.
    """

    num_particles: int = 100
    step_rad: float | FloatArray = 0.03  # [rad] σ a frame, of all joints or ``(J,)``
    tools: tuple[str, ...] = TOOLS  # reported; they play no part in the filter
    limits: JointLimits | None = None
    likelihood: Likelihood = POSE_LIKELIHOOD

    def __post_init__(self) -> None:
        check_particle_count(self.num_particles)
        if np.any(~(np.asarray(self.step_rad) >= 0.0)):
            raise InputError("step_rad holds a negative number or NaN", "Give standard deviations [rad]")

    def follow(self, observations: Observations, start_pose: Pose, rng: np.random.Generator) -> Iterator[TrackFrame]:
        """Track frame by frame, for use while the frames arrive."""
        return self._frames(TrackingProblem.from_observations(observations, start_pose, self.tools, self.limits), rng)

    def run(self, observations: Observations, start_pose: Pose, rng: np.random.Generator) -> FilterResult:
        """Track a whole clip; ``start_pose`` is the pose just before its first frame."""
        scene = TrackingProblem.from_observations(observations, start_pose, self.tools, self.limits)
        return collect_result(scene, self._frames(scene, rng), "full-pose track")

    def _frames(self, scene: TrackingProblem, rng: np.random.Generator) -> Iterator[TrackFrame]:
        # Joints that move any of the keypoints, the root left out
        skeleton = scene.start.skeleton
        moving = np.zeros(skeleton.num_joints, dtype=np.bool_)
        for joint in scene.keypoints.joints:
            j = int(joint)
            while j > 0:
                moving[j] = True
                j = int(skeleton.parents[j])
        steps = np.asarray(self.step_rad, dtype=np.float64)
        if steps.shape not in ((), moving.shape):
            fix = f"Give one number, or one for each joint {moving.shape}"
            raise InputError(f"step_rad has shape {steps.shape}", fix)
        walk = PoseMotionModel(scene, np.where(moving, steps, 0.0))
        return run_filter(scene, walk, self.likelihood, self.num_particles, rng)


@final
@dataclass(frozen=True, slots=True, eq=False)
class PoseMotionModel(MotionModel):
    """Random walk on the joint rotations."""

    scene: TrackingProblem
    steps: FloatArray  # (J,) [rad]

    def move(
        self, particles: Particles, sight: FrameDetections, spread: float, rng: np.random.Generator
    ) -> tuple[Particles, FloatArray]:
        """Turn every moving joint a little; the proposal is the motion prior."""
        del sight
        count, moving = len(particles.wxyz), np.flatnonzero(self.steps)
        # R_j <- P(R_j exp(sigma_j eps))
        turns = spread * self.steps[moving, None] * rng.normal(size=(count, len(moving), 3))
        wxyz = particles.wxyz.copy()
        wxyz[:, moving] = (SO3(wxyz[:, moving]) @ SO3.exp(turns)).wxyz
        return self.scene.particles(self.scene.project_to_limits(wxyz), particles.log_weights), np.zeros(count)

    def estimate(self, particles: Particles, sight: FrameDetections) -> FloatArray:
        """Weighted mean of the rotations, brought inside the limits."""
        del sight
        return self.scene.project_to_limits(average_rotations(particles.wxyz, particles.weights)[None])[0]

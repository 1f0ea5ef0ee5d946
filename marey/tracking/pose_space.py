"""The baseline: a particle filter in the space of all joint rotations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError
from marey.kinematics import JointLimits
from marey.lie import SO3
from marey.models.evaluation import LINEAR_TANGENT
from marey.skeleton import Pose
from marey.tracking.end_effector_space import PROPOSALS, Proposal
from marey.tracking.observation import TOOLS, Observations, average_roots, average_rotations
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
from marey.tracking.prior_problem import CarriedPoints, NormalBlocks, SeenPoints, linearise_points

GUIDE_HUBER: Final = 3.0  # [-] standard deviations beyond which a detection guides no more

POSE_LIKELIHOODS: Final = {  # the best of 8, 12 and 16 px for 100 particles; guided as the other filter
    "random-walk": Likelihood(sigma_px=12.0),
    "guided": Likelihood(sigma_px=3.0),
}


@final
@dataclass(frozen=True, slots=True, eq=False)
class PoseFilter:
    r"""Track by a random walk of every joint, projected on the limits; no inverse kinematics. [Engell2012]_ §9.1.

    .. math:: R_j \leftarrow P\big(R_j \exp(\sigma_j \varepsilon)\big), \qquad \varepsilon \sim N(0, I)

    Joints that carry no keypoint stay as they are, and so does the root unless ``root="free"``: the person sits.

    ``proposal="random-walk"`` is the baseline of the thesis. ``"guided"`` gives it what the guided filter of end
    effectors has: the step δ of all rotations is drawn from the walk N(0, Q) conditioned on the detections, the cameras
    and the body linearised, :math:`P = (Q^{-1} + J^T R^{-1} J)^{-1}` and :math:`m = P J^T R^{-1} (z - \pi)`.
    """

    num_particles: int = 100
    step_rad: float | FloatArray = 0.03  # [rad] σ a frame, of all joints or ``(J,)``
    tools: tuple[str, ...] = TOOLS  # reported; they play no part in the filter
    limits: JointLimits | None = None
    root: Literal["fixed", "free"] = "fixed"
    proposal: Proposal = "random-walk"
    root_step_m: float = 0.03  # [m] σ of a free root a frame
    likelihood: Likelihood | None = None  # suits the proposal, if not given

    def __post_init__(self) -> None:
        check_particle_count(self.num_particles)
        if self.proposal not in PROPOSALS:
            raise UnknownNameError("proposal", self.proposal, "PoseFilter", PROPOSALS)
        if np.any(~(np.asarray(self.step_rad) >= 0.0)):
            raise InputError("step_rad holds a negative number or NaN", "Give standard deviations [rad]")

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
        return collect_result(scene, self._frames(scene, rng), "full-pose track")

    def _compile(self, observations: Observations | Sequence[Observations], start: Pose) -> TrackingProblem:
        is_free = self.root == "free"
        return TrackingProblem.from_observations(observations, start, self.tools, self.limits, is_root_free=is_free)

    def _frames(self, scene: TrackingProblem, rng: np.random.Generator) -> Iterator[TrackFrame]:
        # Joints that move any of the keypoints; the root if it is free
        skeleton = scene.start.skeleton
        moving = np.zeros(skeleton.num_joints, dtype=np.bool_)
        moving[0] = scene.is_root_free
        for joint in scene.keypoints.joints:
            j = int(joint)
            while j > 0:
                moving[j] = True
                j = int(skeleton.parents[j])
        steps = np.asarray(self.step_rad, dtype=np.float64)
        if steps.shape not in ((), moving.shape):
            fix = f"Give one number, or one for each joint {moving.shape}"
            raise InputError(f"step_rad has shape {steps.shape}", fix)
        likelihood = POSE_LIKELIHOODS[self.proposal] if self.likelihood is None else self.likelihood
        root_step = self.root_step_m if scene.is_root_free else 0.0
        guide_px = likelihood.sigma_px if self.proposal == "guided" else None
        walk = PoseMotionModel(scene, np.where(moving, steps, 0.0), root_step, guide_px)
        return run_filter(scene, walk, likelihood, self.num_particles, rng)


@final
@dataclass(frozen=True, slots=True, eq=False)
class PoseMotionModel(MotionModel):
    """Random walk on the joint rotations."""

    scene: TrackingProblem
    steps: FloatArray  # (J,) [rad]
    root_step_m: float
    guide_px: float | None  # [px] noise of the detections that steps are conditioned on; None: they are not

    def move(
        self, particles: Particles, sight: FrameDetections, spread: float, rng: np.random.Generator
    ) -> tuple[Particles, FloatArray]:
        """Turn every moving joint a little, and shift a free root."""
        count, moving = len(particles.wxyz), np.flatnonzero(self.steps)
        deviations = spread * np.concatenate([[self.root_step_m] * 3, np.repeat(self.steps[moving], 3)])
        noise = rng.normal(size=(count, len(deviations)))
        if self.guide_px is None:
            deltas, gains = deviations * noise, np.zeros(count)
        else:
            deltas, gains = self._condition(particles, sight, deviations, noise)
        # R_j <- P(R_j exp(sigma_j eps))
        wxyz = particles.wxyz.copy()
        wxyz[:, moving] = (SO3(wxyz[:, moving]) @ SO3.exp(deltas[:, 3:].reshape(count, -1, 3))).wxyz
        wxyz = self.scene.project_to_limits(wxyz)
        return self.scene.particles(particles.roots + deltas[:, :3], wxyz, particles.log_weights), gains

    def _condition(
        self, particles: Particles, sight: FrameDetections, deviations: FloatArray, noise: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return steps ``(N, n)`` drawn from N(m, P), and log(N(0, Q) / N(m, P)) of each ``(N,)``."""
        scene, skeleton, moving = self.scene, self.scene.start.skeleton, np.flatnonzero(self.steps)
        # The tangent of each joint is a coordinate of its own: root's place and turn first, as the kernel has them
        inner = moving[moving > 0]
        basis = np.zeros((skeleton.num_joints, 3, 3 * len(inner)))
        for i, j in enumerate(inner):
            basis[j, :, 3 * i : 3 * i + 3] = np.eye(3)
        views = scene.views
        seen = SeenPoints(
            np.concatenate([sight.pixels, np.zeros((len(sight.pixels), 1))], axis=1)[None],
            sight.trust[None] / float(self.guide_px or 1.0) ** 2,
            scene.cameras.astype(np.int64),
            np.array([view.camera.axes() for view in views]),
            np.array([view.camera.position for view in views]),
            np.array([view.camera.focal_px for view in views], dtype=np.float64),
            0.5 * np.array([view.camera.size for view in views], dtype=np.float64),
        )
        tree = skeleton.parents.copy(), skeleton.offsets.copy()
        points = scene.keypoints.joints[scene.which].astype(np.int64), np.array(scene.keypoints.offsets[scene.which])
        n = 6 + basis.shape[2]
        free = np.concatenate([np.arange(3), np.arange(3, 6 if self.steps[0] > 0.0 else 3), np.arange(6, n)])
        free = free[(self.root_step_m > 0.0) | (free >= 3)].astype(np.int64)
        q = deviations[deviations > 0.0]
        deltas, gains = np.zeros_like(noise), np.zeros(len(noise))
        for i in range(len(noise)):
            body = CarriedPoints(*tree, *points, LINEAR_TANGENT, np.array(particles.wxyz[i]), basis)
            out = NormalBlocks(np.zeros((1, n, n)), np.zeros((1, n)), np.zeros(1))
            state = particles.roots[i : i + 1].copy(), particles.wxyz[i : i + 1, 0].copy(), np.zeros((1, n - 6))
            linearise_points(body, seen, GUIDE_HUBER, *state, out)
            # In units of Q: P = L^-T L^-1 with L L^T = I + q J^T R^-1 J q
            inner = np.eye(len(free)) + q[:, None] * np.asarray(out.H[0], dtype=np.float64)[np.ix_(free, free)] * q
            L = np.asarray(np.linalg.cholesky(inner), dtype=np.float64)
            mean = np.linalg.solve(L.T, np.linalg.solve(L, q * np.asarray(out.g[0], dtype=np.float64)[free]))
            drawn = noise[i, deviations > 0.0]
            unit = mean + np.linalg.solve(L.T, drawn)
            deltas[i, deviations > 0.0] = q * unit
            gains[i] = 0.5 * (drawn @ drawn - unit @ unit) - np.log(np.diag(L)).sum()
        return deltas, gains

    def estimate(self, particles: Particles, sight: FrameDetections) -> tuple[FloatArray, FloatArray]:
        """Weighted mean of the rotations, brought inside the limits."""
        del sight
        weights = particles.weights
        wxyz = self.scene.project_to_limits(average_rotations(particles.wxyz, weights)[None])[0]
        return average_roots(particles.roots, weights), wxyz

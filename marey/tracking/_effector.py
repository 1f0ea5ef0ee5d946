"""Tracking in the space of the end effectors, with inverse kinematics as the decoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError
from marey.kinematics import JointLimits
from marey.skeleton import Pose
from marey.tracking._decode import EffectorDecoder
from marey.tracking._filter import Likelihood, TrackFrame, run_filter
from marey.tracking._observe import Observations
from marey.tracking._particles import FrameDetections, MotionModel, Particles, TrackingProblem
from marey.tracking._points import TOOLS, average_rotations
from marey.tracking._pose import check_particle_count
from marey.tracking._proposal import sample_guided_step, sample_random_step
from marey.tracking._result import FilterResult, collect_result

Proposal = Literal["guided", "random-walk"]
PROPOSALS: Final = ("guided", "random-walk")
LIKELIHOODS: Final = {"guided": Likelihood(sigma_px=3.0), "random-walk": Likelihood(sigma_px=20.0)}
STEPS_M: Final = {"guided": (0.03, 0.03, 0.02), "random-walk": (0.05, 0.05, 0.03)}  # [m] what did best on seeds 1 to 3


@final
@dataclass(frozen=True, slots=True, eq=False)
class EffectorFilter:
    r"""Track by particles that are places of a few tools; inverse kinematics turns each into a pose.

    .. math:: x_i \sim q(x \mid x_i^-, z), \quad \theta_i = \mathrm{IK}(x_i;\ \theta_i^-), \quad x_i = F(\theta_i),
              \quad w_i \propto w_i^- \frac{p(x_i \mid x_i^-)}{q(x_i \mid x_i^-, z)}\, e^{-E(z, \theta_i)/2\sigma^2}

    [Engell2012]_ §8-9: nine numbers for hands and head of a seated person, instead of all joint angles. Each particle
    starts its solve from its own last pose, and the limits hold by construction. The hip is fixed.

    ``proposal="random-walk"`` is the thesis's: q is the motion prior N(x⁻, Q), and only the tools are goals.
    ``"guided"``, the default, also looks at the picture: q is N(x⁻, Q) conditioned on the detections of the tools (the
    pinhole linearised), and the other keypoints pull the decoded pose onto their viewing rays.

    One camera does not see depth. The goals are weak along the view, as the thesis suggests, so that limb lengths,
    limits and the pose at rest settle it; a wide Q there only adds noise that the picture cannot take back.
    """

    num_particles: int = 25
    proposal: Proposal = "guided"
    step_m: tuple[float, float, float] | None = None  # [m] √Q a frame: across, up and along the view
    tools: tuple[str, ...] = TOOLS
    limits: JointLimits | None = None
    likelihood: Likelihood | None = None  # this and ``step_m`` suit the proposal, if not given
    depth_weight: float = 0.03  # [-] weight of the goals along the view, relative to across
    rest_weight: float = 0.02  # [m²/rad²] springs of trunk, neck, collars and wrists to the first pose
    iterations: int = 4  # most steps of a decode; warm starts need few

    def __post_init__(self) -> None:
        check_particle_count(self.num_particles)
        if self.proposal not in PROPOSALS:
            raise UnknownNameError("proposal", self.proposal, "EffectorFilter", PROPOSALS)
        steps = STEPS_M[self.proposal] if self.step_m is None else self.step_m
        if len(steps) != 3 or not all(np.isfinite(s) and s > 0.0 for s in steps):
            raise InputError(f"step_m is {steps}", "Give three positive lengths [m]: across, up, along the view")
        positive = {"depth_weight": self.depth_weight, "rest_weight": self.rest_weight, "iterations": self.iterations}
        for name, value in positive.items():
            if not (np.isfinite(value) and value > 0):
                raise InputError(f"{name} is {value}", "Give a positive number")

    def follow(self, observations: Observations, start_pose: Pose, rng: np.random.Generator) -> Iterator[TrackFrame]:
        """Track frame by frame, for use while the frames arrive."""
        return self._frames(TrackingProblem.from_observations(observations, start_pose, self.tools, self.limits), rng)

    def run(self, observations: Observations, start_pose: Pose, rng: np.random.Generator) -> FilterResult:
        """Track a whole clip; ``start_pose`` is the pose just before its first frame."""
        scene = TrackingProblem.from_observations(observations, start_pose, self.tools, self.limits)
        return collect_result(scene, self._frames(scene, rng), "end-effector track")

    def _frames(self, scene: TrackingProblem, rng: np.random.Generator) -> Iterator[TrackFrame]:
        likelihood = LIKELIHOODS[self.proposal] if self.likelihood is None else self.likelihood
        steps = STEPS_M[self.proposal] if self.step_m is None else self.step_m
        is_guided = self.proposal == "guided"
        decoder = EffectorDecoder.from_problem(
            scene, self.depth_weight, self.rest_weight, self.iterations, uses_rays=is_guided
        )
        covariance = scene.observations.camera.diagonal(*np.square(steps))
        walk = EffectorMotionModel(scene, decoder, covariance, likelihood.sigma_px, is_guided)
        return run_filter(scene, walk, likelihood, self.num_particles, rng)


@final
@dataclass(frozen=True, slots=True, eq=False)
class EffectorMotionModel(MotionModel):
    """Random walk of the tools, decoded."""

    scene: TrackingProblem
    decoder: EffectorDecoder
    covariance: FloatArray  # (3, 3) [m²] Q of each tool in world axes, a frame
    sigma_px: float
    is_guided: bool

    def move(
        self, particles: Particles, sight: FrameDetections, spread: float, rng: np.random.Generator
    ) -> tuple[Particles, FloatArray]:
        """Draw places of the tools, decode them, and keep the places that were reached."""
        covariance = spread**2 * self.covariance
        if self.is_guided:
            step = sample_guided_step(self.scene, particles.tools, sight, covariance, self.sigma_px, rng)
        else:
            step = sample_random_step(particles.tools, covariance, rng)
        wxyz = self.decoder(particles.wxyz, step.places, sight)
        return self.scene.particles(wxyz, particles.log_weights), step.gains

    def estimate(self, particles: Particles, sight: FrameDetections) -> FloatArray:
        """Decode the weighted mean of the tools, from the weighted mean of the rotations."""
        weights = particles.weights
        start = self.scene.project_to_limits(average_rotations(particles.wxyz, weights)[None])
        tools = np.einsum("n,ntc->tc", weights, particles.tools)
        return self.decoder(start, tools[None], sight)[0]

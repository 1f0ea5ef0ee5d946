"""Tracking in the space of the end effectors, with inverse kinematics as the decoder of every particle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.kinematics import JointLimits, PointTask, PoseTask, Task, solve_ik
from marey.lie import SO3
from marey.skeleton import ContactPoints, Pose, role_map
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

REST_ROLES: Final = (  # joints of small range; shoulders and elbows are left to the goals
    *("spine1", "spine2", "spine3", "neck", "head"),
    *(f"{side}_{part}" for part in ("collar", "wrist") for side in ("left", "right")),
)


@dataclass(frozen=True, slots=True, eq=False)
class EffectorDecoder:
    r"""Inverse kinematics of the tools, every solve started from the particle's own last pose.

    .. math:: \min_\theta \sum_t \|x_t - p_t(\theta)\|^2_W + \sum_k c_k \|r_k - p_k(\theta)\|^2_W
              + \rho \sum_j \|\log(\bar R_j^{-1} R_j)\|^2 \quad \text{within the limits}

    The first sum is the tools; the second, left out by the thesis's tracker, pulls the other keypoints to their viewing
    rays, as deep as they were; the third settles what neither says: trunk, neck, collars and wrists stay near the first
    pose. W is weak along the view, where one camera knows least.
    """

    scene: TrackingProblem
    weights: FloatArray  # (C, 3, 3) W of each camera in world axes; tools have their mean
    rest: PoseTask
    iterations: int
    uses_rays: bool

    @classmethod
    def from_problem(
        cls, scene: TrackingProblem, depth_weight: float, rest_weight: float, iterations: int, *, uses_rays: bool
    ) -> EffectorDecoder:
        """Find the joints that springs hold on this body."""
        roles = role_map(scene.start.skeleton)
        joints = tuple(roles[role] for role in REST_ROLES if role in roles)
        rest = PoseTask(scene.start, joints=joints, weight=rest_weight, priority=0)
        weights = np.array([view.camera.diagonal(1.0, 1.0, depth_weight) for view in scene.views])
        return cls(scene, weights, rest, iterations, uses_rays)

    def __call__(
        self, roots: FloatArray, wxyz: FloatArray, tools: FloatArray, sight: FrameDetections
    ) -> tuple[FloatArray, FloatArray]:
        """Roots ``(N, 3)`` and poses ``(N, J, 4)`` for tools ``(N, T, 3)`` [m], from roots and poses."""
        scene, body = self.scene, self.scene.start
        # Detected keypoints that are not effectors pull to their viewing rays
        is_ray = np.array([self.uses_rays and scene.keypoints.names[k] not in scene.tools.names for k in scene.which])
        seen = np.flatnonzero(is_ray & (sight.trust > 0.0)).tolist()
        places, rays = scene.positions(scene.keypoints, roots, wxyz), list[tuple[int, FloatArray, FloatArray]]()
        for i in seen:
            k, c = int(scene.which[i]), int(scene.cameras[i])
            on_ray = scene.views[c].camera.back_project(sight.pixels[i], places[:, k])
            rays.append((k, on_ray, frozen(sight.trust[i] * self.weights[c], name="weight")))
        weight = frozen(self.weights.mean(axis=0), name="weight")
        # Each particle is solved from its own last pose
        solved, moved = np.empty_like(wxyz), np.empty_like(roots)
        for n in range(len(wxyz)):
            tasks: list[Task] = [self.rest]
            tasks += [_point_task(scene.tools, t, tools[n, t], weight) for t in range(len(scene.tools))]
            tasks += [_point_task(scene.keypoints, k, on_ray[n], own) for k, on_ray, own in rays]
            result = solve_ik(
                body.skeleton,
                tasks,
                start=Pose(body.skeleton, roots[n], SO3(wxyz[n])),
                limits=scene.limits,
                root="free" if scene.is_root_free else "fixed",
                feet="free",
                max_iterations=self.iterations,
                follow=False,
                on_failure="return",
            )
            solved[n], moved[n] = result.pose.rotations.wxyz, result.pose.root_position
        return moved, solved


def _point_task(points: ContactPoints, k: int, place: FloatArray, weight: FloatArray) -> PointTask:
    return PointTask(int(points.joints[k]), place, point=points.offsets[k], weight=weight)


@dataclass(frozen=True, slots=True, eq=False)
class ProposalSample:
    """Drawn places of the tools."""

    places: FloatArray  # (N, T, 3) [m]
    gains: FloatArray  # (N,) log of motion prior over proposal


def sample_random_step(tools: FloatArray, covariance: FloatArray, rng: np.random.Generator) -> ProposalSample:
    """Draw from the motion prior N(x, Q) of every tool ``(N, T, 3)``."""
    noise = rng.normal(size=tools.shape) @ np.linalg.cholesky(covariance).T
    return ProposalSample(tools + noise, np.zeros(len(tools)))


def sample_guided_step(
    scene: TrackingProblem,
    tools: FloatArray,
    sight: FrameDetections,
    covariance: FloatArray,
    sigma_px: float,
    rng: np.random.Generator,
) -> ProposalSample:
    r"""Draw from the motion prior conditioned on the detections z of the tools, the camera linearised at x.

    .. math:: P = (Q^{-1} + H^T H c/\sigma^2)^{-1}, \qquad m = x + P H^T (z - \pi(x))\,c/\sigma^2

    Tools that are not seen are drawn from the prior. The gain is :math:`\log N(x'; x, Q) - \log N(x'; m, P)`.
    """
    # H^T R^-1 H and H^T R^-1 (z - pi(x)) of each tool, over the cameras that see it
    precision, names = np.linalg.inv(covariance), [scene.keypoints.names[int(k)] for k in scene.which.tolist()]
    information, pull = np.zeros((*tools.shape, 3)), np.zeros(tools.shape)
    for t, tool in enumerate(scene.tools.names):
        for i in [i for i, name in enumerate(names) if name == tool]:
            camera = scene.views[int(scene.cameras[i])].camera
            H = camera.jacobian(tools[:, t])
            back = np.swapaxes(H, -1, -2) * (sight.trust[i] / sigma_px**2)
            information[:, t] += back @ H
            pull[:, t] += (back @ (sight.pixels[i] - camera.project(tools[:, t]))[..., None])[..., 0]
    # The mean m and the covariance P of each tool
    P = np.linalg.inv(precision + information)
    mean = tools + (P @ pull[..., None])[..., 0]
    L = np.linalg.cholesky(P)
    noise = rng.normal(size=tools.shape)
    places = mean + (L @ noise[..., None])[..., 0]
    # The gain: densities of prior and proposal at what was drawn
    moved = places - tools
    prior = np.einsum("nti,ij,ntj->n", moved, precision, moved)
    spread = np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(axis=(1, 2))
    return ProposalSample(places, 0.5 * (np.sum(noise**2, axis=(1, 2)) - prior) + spread)


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
    starts its solve from its own last pose, and the limits hold by construction. The hip is fixed, as in the thesis,
    unless ``root="free"``; then the feet want to be among the tools.

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
    root: Literal["fixed", "free"] = "fixed"
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
        return collect_result(scene, self._frames(scene, rng), "end-effector track")

    def _compile(self, observations: Observations | Sequence[Observations], start: Pose) -> TrackingProblem:
        is_free = self.root == "free"
        return TrackingProblem.from_observations(observations, start, self.tools, self.limits, is_root_free=is_free)

    def _frames(self, scene: TrackingProblem, rng: np.random.Generator) -> Iterator[TrackFrame]:
        # What was not given suits the proposal
        likelihood = LIKELIHOODS[self.proposal] if self.likelihood is None else self.likelihood
        steps = STEPS_M[self.proposal] if self.step_m is None else self.step_m
        is_guided = self.proposal == "guided"
        decoder = EffectorDecoder.from_problem(
            scene, self.depth_weight, self.rest_weight, self.iterations, uses_rays=is_guided
        )
        covariance = scene.views[0].camera.diagonal(*np.square(steps))
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
        decoded = self.decoder(particles.roots, particles.wxyz, step.places, sight)
        return self.scene.particles(*decoded, particles.log_weights), step.gains

    def estimate(self, particles: Particles, sight: FrameDetections) -> tuple[FloatArray, FloatArray]:
        """Decode the weighted mean of the tools, from the weighted mean of the rotations."""
        weights = particles.weights
        start = self.scene.project_to_limits(average_rotations(particles.wxyz, weights)[None])
        tools = np.einsum("n,ntc->tc", weights, particles.tools)
        roots, wxyz = self.decoder(average_roots(particles.roots, weights)[None], start, tools[None], sight)
        return roots[0], wxyz[0]

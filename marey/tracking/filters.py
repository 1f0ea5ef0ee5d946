"""The two particle filters, in the space of the end effectors and of all rotations, and their seated person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.kinematics import BoxLimits, PointTask, PoseTask, Task, solve_ik
from marey.lie import SO3
from marey.models.projection import LINEAR_TANGENT
from marey.motion import Motion
from marey.skeleton import HUMAN, ContactPoints, Pose, role_map
from marey.tracking.observation import average_roots, average_rotations
from marey.tracking.particle_filter import (
    FrameDetections,
    Likelihood,
    MotionModel,
    ParticleFilter,
    Particles,
    Proposal,
    TrackingProblem,
)
from marey.tracking.prior_problem import CarriedPoints, NormalBlocks, SeenPoints, linearise_points, pack_lenses

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


LIKELIHOODS: Final = {"guided": Likelihood(sigma_px=3.0), "random-walk": Likelihood(sigma_px=20.0)}
STEPS_M: Final = {"guided": (0.03, 0.03, 0.02), "random-walk": (0.05, 0.05, 0.03)}  # [m] what did best on seeds 1 to 3


@final
@dataclass(frozen=True, slots=True, eq=False)
class EffectorFilter(ParticleFilter):
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

    step_m: tuple[float, float, float] | None = (
        None  # [m] √Q a frame: across, up and along the view; suits the proposal, if not given
    )
    depth_weight: float = 0.03  # [-] weight of the goals along the view, relative to across
    rest_weight: float = 0.02  # [m²/rad²] springs of trunk, neck, collars and wrists to the first pose
    iterations: int = 4  # most steps of a decode; warm starts need few

    def check(self) -> None:
        """Refuse steps and weights that are not positive."""
        steps = STEPS_M[self.proposal] if self.step_m is None else self.step_m
        if len(steps) != 3 or not all(np.isfinite(s) and s > 0.0 for s in steps):
            raise InputError(f"step_m is {steps}", "Give three positive lengths [m]: across, up, along the view")
        positive = {"depth_weight": self.depth_weight, "rest_weight": self.rest_weight, "iterations": self.iterations}
        for name, value in positive.items():
            if not (np.isfinite(value) and value > 0):
                raise InputError(f"{name} is {value}", "Give a positive number")

    def build(self, scene: TrackingProblem) -> tuple[MotionModel, Likelihood]:
        """Return a random walk of the tools, decoded, and the likelihood."""
        # What was not given suits the proposal
        likelihood = LIKELIHOODS[self.proposal] if self.likelihood is None else self.likelihood
        steps = STEPS_M[self.proposal] if self.step_m is None else self.step_m
        is_guided = self.proposal == "guided"
        decoder = EffectorDecoder.from_problem(
            scene, self.depth_weight, self.rest_weight, self.iterations, uses_rays=is_guided
        )
        covariance = scene.views[0].camera.diagonal(*np.square(steps))
        return EffectorMotionModel(scene, decoder, covariance, likelihood.sigma_px, is_guided), likelihood


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


GUIDE_HUBER: Final = 3.0  # [-] standard deviations beyond which a detection guides no more

POSE_LIKELIHOODS: Final = {  # the best of 8, 12 and 16 px for 100 particles; guided as the other filter
    "random-walk": Likelihood(sigma_px=12.0),
    "guided": Likelihood(sigma_px=3.0),
}


@final
@dataclass(frozen=True, slots=True, eq=False)
class PoseFilter(ParticleFilter):
    r"""Track by a random walk of every joint, projected on the limits; no inverse kinematics. [Engell2012]_ §9.1.

    .. math:: R_j \leftarrow P\big(R_j \exp(\sigma_j \varepsilon)\big), \qquad \varepsilon \sim N(0, I)

    Joints that carry no keypoint stay as they are, and so does the root unless ``root="free"``: the person sits.

    ``proposal="random-walk"`` is the baseline of the thesis. ``"guided"`` gives it what the guided filter of end
    effectors has: the step δ of all rotations is drawn from the walk N(0, Q) conditioned on the detections, the cameras
    and the body linearised, :math:`P = (Q^{-1} + J^T R^{-1} J)^{-1}` and :math:`m = P J^T R^{-1} (z - \pi)`.
    """

    num_particles: int = 100
    step_rad: float | FloatArray = 0.03  # [rad] σ a frame, of all joints or ``(J,)``
    proposal: Proposal = "random-walk"
    root_step_m: float = 0.03  # [m] σ of a free root a frame

    def check(self) -> None:
        """Refuse steps that are no standard deviations."""
        if np.any(~(np.asarray(self.step_rad) >= 0.0)):
            raise InputError("step_rad holds a negative number or NaN", "Give standard deviations [rad]")

    def build(self, scene: TrackingProblem) -> tuple[MotionModel, Likelihood]:
        """Return a random walk of the rotations, and the likelihood."""
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
        return PoseMotionModel(scene, np.where(moving, steps, 0.0), root_step, guide_px), likelihood


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
            deltas, gains = self.draw_guided_steps(particles, sight, deviations, noise)
        # R_j <- P(R_j exp(sigma_j eps))
        wxyz = particles.wxyz.copy()
        wxyz[:, moving] = (SO3(wxyz[:, moving]) @ SO3.exp(deltas[:, 3:].reshape(count, -1, 3))).wxyz
        wxyz = self.scene.project_to_limits(wxyz)
        return self.scene.particles(particles.roots + deltas[:, :3], wxyz, particles.log_weights), gains

    def draw_guided_steps(
        self, particles: Particles, sight: FrameDetections, deviations: FloatArray, noise: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Steps ``(N, n)`` from N(m, P) by standard normal ``noise``, and log(N(0, Q) / N(m, P)) of each ``(N,)``.

        ``deviations`` ``(n,)`` are the square roots of Q.
        """
        scene, skeleton, moving = self.scene, self.scene.start.skeleton, np.flatnonzero(self.steps)
        # The tangent of each joint is a coordinate of its own: root's place and turn first, as the kernel has them
        inner = moving[moving > 0]
        basis = np.zeros((skeleton.num_joints, 3, 3 * len(inner)))
        for i, j in enumerate(inner):
            basis[j, :, 3 * i : 3 * i + 3] = np.eye(3)
        seen = SeenPoints(
            np.pad(sight.pixels, ((0, 0), (0, 1)))[None],
            sight.trust[None] / float(self.guide_px or 1.0) ** 2,
            scene.cameras.astype(np.int64),
            *pack_lenses(scene.views),
        )
        tree = skeleton.parents.copy(), skeleton.offsets.copy()
        points = (
            scene.keypoints.joints[scene.which].astype(np.int64),
            np.array(scene.keypoints.offsets[scene.which]),
        )
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


SEATED_FRAMES: Final = 675  # 45 s at 15 frames a second, as the clip of [Engell2012]_ §9.1
SEATED_RATE_HZ: Final = 15.0
SEAT_M: Final = 0.55  # [m] height of the pelvis
WAVES_HZ: Final = (0.1, 0.8)  # [Hz] slowest and fastest wave of each coordinate
NUM_WAVES: Final = 4
RAMP_S: Final = 2.0  # [s] the person starts from the middle posture and is in full motion after this time
LIMIT_MARGIN_RAD: Final = 0.3  # [rad] the limits leave so much room around what the person does

# rotation vectors [rad] of the left side and the middle: centre and half width. Left arm: x twists, y swings it forward
# (negative), z lowers it (negative).
_JOINT_RANGES: Final = {
    "spine1": ((0.05, 0.0, 0.0), (0.12, 0.10, 0.08)),
    "spine2": ((0.05, 0.0, 0.0), (0.08, 0.10, 0.06)),
    "spine3": ((0.00, 0.0, 0.0), (0.06, 0.08, 0.05)),
    "neck": ((0.05, 0.0, 0.0), (0.20, 0.30, 0.15)),
    "head": ((0.00, 0.0, 0.0), (0.15, 0.25, 0.10)),
    "left_collar": ((0.0, -0.05, 0.0), (0.0, 0.10, 0.12)),
    "left_shoulder": ((0.0, -0.60, -0.55), (0.40, 0.80, 0.85)),
    "left_elbow": ((0.0, -1.10, 0.0), (0.20, 1.00, 0.0)),
    "left_wrist": ((0.0, 0.0, 0.0), (0.0, 0.25, 0.35)),
}
_FORWARD_RANGES: Final = {"left_shoulder": ((0.0, -0.75, -0.55), (0.40, 0.65, 0.85))}  # a chair's back stops the elbows
_SEATED_LEGS: Final = {"hip": (-1.45, 0.0, 0.0), "knee": (1.45, 0.0, 0.0)}


def seated_motion(
    rng: np.random.Generator,
    *,
    frames: int = SEATED_FRAMES,
    reach_back: bool = False,
) -> Motion:
    r"""Sit, hip fixed, and move arms, trunk and head smoothly at random.

    Every coordinate of every rotation vector is a sum of waves around the middle of its range,

    .. math:: v(t) = c + \frac{h}{\sum_i a_i} \sum_{i=1}^4 a_i \sin(2\pi f_i t + \varphi_i)

    so that the clip stays inside :func:`seated_limits`. It replaces the video of [Engell2012]_ §9.1, which is not
    available: same length, same rate, same three end effectors, and a truth to measure against.

    Args:
        rng: draws amplitudes, frequencies and phases.
        frames: how many.
        reach_back: let the elbows go behind the shoulders too. Where they cross, one camera cannot tell before from
            behind, and no tracker without more knowledge can be right every time.
    """
    if frames < 1:
        raise InputError(f"frames is {frames}", "Ask for at least one")
    centres, halves = _expand_ranges(_JOINT_RANGES if reach_back else {**_JOINT_RANGES, **_FORWARD_RANGES})
    # Four waves of each coordinate, from log-uniform frequencies
    times = np.arange(frames) / SEATED_RATE_HZ
    shape = (NUM_WAVES, *centres.shape)
    amplitudes, phases = rng.uniform(0.3, 1.0, shape), rng.uniform(0.0, 2.0 * np.pi, shape)
    frequencies = WAVES_HZ[0] * (WAVES_HZ[1] / WAVES_HZ[0]) ** rng.random(shape)
    waves = amplitudes * np.sin(2.0 * np.pi * frequencies * times[:, None, None, None] + phases)
    # The person starts from the middle of all ranges
    ramp = np.minimum(times / RAMP_S, 1.0) ** 2
    vectors = centres + ramp[:, None, None] * halves * waves.sum(axis=1) / amplitudes.sum(axis=0)
    roots = np.tile((0.0, SEAT_M, 0.0), (frames, 1))
    return Motion(HUMAN, SEATED_RATE_HZ, roots, SO3.exp(vectors), name="seated")


def seated_limits() -> BoxLimits:
    """Joint limits of the seated person, reaching back or not; legs are fixed, elbows are hinges that may twist."""
    centres, halves = _expand_ranges(_JOINT_RANGES)
    room = np.where(halves > 0.0, LIMIT_MARGIN_RAD, 0.0)
    return BoxLimits(HUMAN, centres - halves - room, centres + halves + room)


def _expand_ranges(ranges: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> tuple[FloatArray, FloatArray]:
    centres, halves = np.zeros((HUMAN.num_joints, 3)), np.zeros((HUMAN.num_joints, 3))
    for name, (centre, half) in ranges.items():
        centres[HUMAN.index(name)], halves[HUMAN.index(name)] = centre, half
        if name.startswith("left_"):
            mirrored = HUMAN.index(name.replace("left_", "right_"))
            centres[mirrored], halves[mirrored] = np.multiply(centre, (1.0, -1.0, -1.0)), half
    for part, vector in _SEATED_LEGS.items():
        for side in ("left", "right"):
            centres[HUMAN.index(f"{side}_{part}")] = vector
    return centres, halves

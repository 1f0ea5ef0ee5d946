r"""Tracking with a pose model as prior: what is not seen follows from what is, and from the motion before and after.

.. math:: \min_z \sum_{t,c} \rho\Big(\frac{\|y_{tc} - \Pi_c(f(z_t))\|}{s_c}\Big)
          + \sum_t \|\Lambda^{-1}\lambda_t\|^2 + \sum_t \|Q^{-1}(z_{t+1} - 2 z_t + z_{t-1})\|^2

over the root and the model's coordinates :math:`z_t = (R_t, x_t, \lambda_t)` of all frames; :math:`\Pi` is the identity
for points in space or the projection of a camera, :math:`\rho` is Huber's. [Tournier2011]_ §3.1.1 and 16 motivates the
prior and builds none. A first pass goes frame by frame, each from the constant-velocity prediction; the second solves
all frames at once, so that a point that reappears does not make the pose jump.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marey.base import BoolArray, FloatArray, Result
from marey.kinematics import JointLimits
from marey.models import PoseModel
from marey.motion import Markers, Motion
from marey.skeleton import Pose, Skeleton
from marey.tracking.key_frames import is_searchable, search_starts
from marey.tracking.observation import Observations
from marey.tracking.prior_problem import MAX_STEPS, PriorProblem, PriorState, follow_frames, solve_frames


@dataclass(frozen=True, slots=True, eq=False)
class PriorTracker:
    """Settings of a tracker whose prior is a pose model; the root is free, any number of cameras may watch."""

    model: PoseModel
    limits: JointLimits | None = None  # of the joints of the model: a soft wall
    noise_px: float = 3.0  # [px] standard deviation of image points
    noise_m: float = 0.005  # [m] of points in space: a marker on skin
    huber: float = 2.0  # [-] standard deviations beyond which the cost grows linearly: a wrong detection pulls no more
    spring: float = 2.0  # [-] weight of the prior; 1 is the Gaussian that the model's samples have
    max_sigma: float = 3.0  # [-] largest standard deviation of a coordinate
    limit_rad: float = 0.03  # [rad] a joint this far outside its limit costs as much as one standard deviation
    upright_rad: float | None = None  # [rad] standard deviation of the root's tilt; None: as the points say
    floor_m: float | None = None  # [m] height on which soles rest that are near it
    floor_noise_m: float = 0.03  # [m] standard deviation of a sole on the floor
    coordinate_acceleration: float = 150.0  # [1/s²] standard deviations of a coordinate: a mode at 2 Hz has 158
    root_acceleration: float = 5.0  # [m/s²] of the root: half of gravity, as in a walk
    root_turn_acceleration: float = 15.0  # [rad/s²] of the root's turn
    lost_sigma: float = 10.0  # [-] a point this many standard deviations away is not explained

    def run(
        self,
        seen: Observations | Sequence[Observations] | Markers,
        start: Pose | None = None,
        *,
        body: Skeleton | None = None,
    ) -> PriorTrack:
        """Find the motion that explains the points, the prior counted in.

        Args:
            seen: image points of one camera or of several over the same frames, or points in space whose names are
                those of body points (see ``body_points``).
            start: where the first frame begins, of a body with the joints of the model. In images, poses and headings
                are also searched in key frames, see :func:`search_starts`, and the better answer is taken.
            body: skeleton of the person where there is no start; that of the model by default.

        Raises:
            UnknownNameError: the body has no such point.
            InputError: the start is a pose of another skeleton, or the cameras saw different frames.
        """
        skeleton = start.skeleton if start is not None else body or self.model.skeleton
        problem = PriorProblem.compile(self, seen, skeleton)
        # From the start through the frames, and from key frames; the better of both where there is a start
        guesses = [] if start is None else [follow_frames(problem, PriorState.from_pose(problem, start))]
        if start is None or (problem.views and is_searchable(problem)):
            guesses.append(search_starts(problem))
        found = [solve_frames(problem, guess, slice(0, problem.num_frames), MAX_STEPS) for guess in guesses]
        state = min(found, key=problem.cost)
        motion = Motion(skeleton, problem.rate_hz, state.roots, state.rotations(self.model), name="tracked")
        # Huber's weights; a frame is lost if what is explained weighs less than half of what is seen
        errors, trust = problem.measure_errors(state), problem.trust
        scale = self.noise_px if problem.views else self.noise_m
        weights = np.minimum(1.0, self.huber * scale / np.maximum(errors, 1e-12)) * (trust > 0.0)
        is_lost = (trust * (errors < self.lost_sigma * scale)).sum(axis=1) < 0.5 * trust.sum(axis=1)
        return PriorTrack(motion, state.x, errors, weights, np.logical_not(trust.any(axis=1)), is_lost)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PriorTrack(Result):
    """A tracked clip, and how far it is from what was seen."""

    motion: Motion
    coordinates: FloatArray  # (F, k) of the model
    errors: FloatArray  # (F, K) [px] or [m] of each point, camera after camera; 0 where it was not seen
    weights: FloatArray  # (F, K) Huber's, 0 where it was not seen; far below 1 for a wrong detection
    is_predicted: BoolArray  # (F,) frames in which nothing was seen
    is_lost: BoolArray  # (F,) frames of which most points are far from where they were seen

    def __repr__(self) -> str:
        frames, predicted, lost = len(self.errors), int(self.is_predicted.sum()), int(self.is_lost.sum())
        return f"PriorTrack({frames} frames, {predicted} without any point, {lost} lost)"

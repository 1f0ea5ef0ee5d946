"""From places of the tools to poses: inverse kinematics for every particle of a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray, frozen
from marey.kinematics import PointTask, PoseTask, Task, solve_ik
from marey.lie import SO3
from marey.skeleton import ContactPoints, Pose, role_map
from marey.tracking._particles import FrameDetections, TrackingProblem

REST_ROLES: Final = (  # joints of small range; shoulders and elbows are left to the goals
    *("spine1", "spine2", "spine3", "neck", "head"),
    *(f"{side}_{part}" for part in ("collar", "wrist") for side in ("left", "right")),
)


@dataclass(frozen=True, slots=True, eq=False)
class EffectorDecoder:
    r"""Inverse kinematics of the tools, the root fixed, every solve started from the particle's own last pose.

    .. math:: \min_\theta \sum_t \|x_t - p_t(\theta)\|^2_W + \sum_k c_k \|r_k - p_k(\theta)\|^2_W
              + \rho \sum_j \|\log(\bar R_j^{-1} R_j)\|^2 \quad \text{within the limits}

    The first sum is the tools; the second, left out by the thesis's tracker, pulls the other keypoints to their viewing
    rays, as deep as they were; the third settles what neither says: trunk, neck, collars and wrists stay near the first
    pose. W is weak along the view, where one camera knows least.
    """

    scene: TrackingProblem
    weight: FloatArray  # (3, 3) W in world axes
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
        weight = scene.observations.camera.diagonal(1.0, 1.0, depth_weight)
        return cls(scene, weight, rest, iterations, uses_rays)

    def __call__(self, wxyz: FloatArray, tools: FloatArray, sight: FrameDetections) -> FloatArray:
        """Poses ``(N, J, 4)`` for tools ``(N, T, 3)`` [m], from poses ``(N, J, 4)``."""
        scene, seen = self.scene, self._visible_keypoints(sight)
        places = scene.positions(scene.keypoints, wxyz)[:, seen]
        rays = scene.observations.camera.back_project(sight.pixels[seen], places)
        weight = frozen(self.weight, name="weight")
        ray_weights = [frozen(c * self.weight, name="weight") for c in sight.trust[seen]]
        solved = np.empty_like(wxyz)
        for n in range(len(wxyz)):
            tasks: list[Task] = [self.rest]
            tasks += [_point_task(scene.tools, t, tools[n, t], weight) for t in range(len(scene.tools))]
            tasks += [_point_task(scene.keypoints, k, rays[n, i], ray_weights[i]) for i, k in enumerate(seen)]
            solved[n] = self._solve(wxyz[n], tasks)
        return solved

    def _visible_keypoints(self, sight: FrameDetections) -> IntArray:
        """Keypoints that are seen and are no tools."""
        if not self.uses_rays:
            return np.zeros(0, dtype=np.int64)
        other = np.array([name not in self.scene.tools.names for name in self.scene.keypoints.names])
        return np.flatnonzero(other & (sight.trust > 0.0))

    def _solve(self, wxyz: FloatArray, tasks: list[Task]) -> FloatArray:
        start = Pose(self.scene.start.skeleton, self.scene.start.root_position, SO3(wxyz))
        result = solve_ik(
            start.skeleton,
            tasks,
            start=start,
            limits=self.scene.limits,
            root="fixed",
            max_iterations=self.iterations,
            on_failure="return",
        )
        return result.pose.rotations.wxyz


def _point_task(points: ContactPoints, k: int, place: FloatArray, weight: FloatArray) -> PointTask:
    return PointTask(int(points.joints[k]), place, point=points.offsets[k], weight=weight)

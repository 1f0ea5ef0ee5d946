"""From places of the tools to poses: inverse kinematics for every particle of a frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, IntArray
from marey.lie import SO3
from marey.skeleton import ContactPoints, joint_frames
from marey.tracking._particles import Scene, Sight
from marey.tracking._points import carriers


@dataclass(frozen=True, slots=True, eq=False)
class Decoder:
    scene: Scene
    depth_weight: float
    rest_weight: FloatArray | float
    iterations: int
    uses_rays: bool

    def __call__(self, wxyz: FloatArray, tools: FloatArray, sight: Sight) -> FloatArray:
        scene, camera = self.scene, self.scene.observations.camera
        points, targets = scene.tools, tools
        weights = [camera.diagonal(1, 1, self.depth_weight)] * len(points)
        if self.uses_rays:
            others = [k for k, n in enumerate(scene.keypoints.names) if n not in scene.tools.names and sight.trust[k] > 0]
            places = scene.positions(scene.keypoints, wxyz)[:, others]
            targets = np.concatenate([tools, camera.on_rays(sight.pixels[others], places)], axis=1)
            weights = weights + [sight.trust[k] * camera.diagonal(1, 1, 0) for k in others]
            k = scene.keypoints
            points = ContactPoints(
                (*points.names, *(k.names[i] for i in others)),
                np.concatenate([points.joints, k.joints[others]]),
                np.concatenate([points.offsets, k.offsets[others]]),
            )
        return _solve(scene, points, wxyz, targets, np.array(weights), self.rest_weight, self.iterations)


def _solve(scene, points, wxyz, targets, weights, rho, iters, lam=1e-4):
    skel, ref = scene.start.skeleton, scene.start.rotations.wxyz
    joints = np.flatnonzero(carriers(skel, points))
    rho = np.broadcast_to(rho, (skel.num_joints,))[joints].repeat(3)
    mask = np.zeros((len(points), len(joints)))
    for t, j in enumerate(points.joints):
        j = int(j)
        while j > 0:
            mask[t, np.flatnonzero(joints == j)] = 1
            j = int(skel.parents[j])
    n = len(wxyz)
    roots = np.broadcast_to(scene.start.root_position, (n, 3))
    for _ in range(iters):
        pos, R = joint_frames(skel, roots, wxyz)
        p = points.positions(pos, R)
        e = targets - p
        Rm = R.matrix()[:, joints]
        lever = p[:, :, None, :] - pos[:, None, joints, :]
        J = np.cross(np.swapaxes(Rm, -1, -2)[:, None], lever[..., None, :]) * mask[None, :, :, None, None]
        J = J.transpose(0, 1, 4, 2, 3).reshape(n, len(points), 3, -1)
        WJ = np.einsum("bij,nbjk->nbik", weights, J)
        m = J.reshape(n, -1, J.shape[-1])
        A = np.swapaxes(m, 1, 2) @ WJ.reshape(m.shape)
        g = np.einsum("nbik,nbi->nk", WJ, e, optimize=True)
        r = (SO3(ref[joints]).inverse() @ SO3(wxyz[:, joints])).log().reshape(n, -1)
        A += (rho + lam) * np.eye(A.shape[-1])
        g -= rho * r
        d = np.linalg.solve(A, g[..., None])[..., 0].reshape(n, len(joints), 3)
        new = wxyz.copy()
        new[:, joints] = (SO3(wxyz[:, joints]) @ SO3.exp(d)).wxyz
        wxyz = scene.allowed(new)
    return wxyz

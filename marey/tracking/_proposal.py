"""Where the tools of a particle may have gone since the last frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray
from marey.tracking._particles import FrameDetections, TrackingProblem


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
    camera = scene.observations.camera
    trust, pixels = _tool_detections(scene, sight)
    H = camera.jacobian(tools)
    back = np.swapaxes(H, -1, -2) * (trust / sigma_px**2)[:, None, None]  # (N, T, 3, 2) HᵀR⁻¹
    precision = np.linalg.inv(covariance)
    P = np.linalg.inv(precision + back @ H)
    mean = tools + (P @ back @ (pixels - camera.project(tools))[..., None])[..., 0]
    L = np.linalg.cholesky(P)
    noise = rng.normal(size=tools.shape)
    places = mean + (L @ noise[..., None])[..., 0]
    moved = places - tools
    prior = np.einsum("nti,ij,ntj->n", moved, precision, moved)
    spread = np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(axis=(1, 2))
    return ProposalSample(places, 0.5 * (np.sum(noise**2, axis=(1, 2)) - prior) + spread)


def _tool_detections(scene: TrackingProblem, sight: FrameDetections) -> tuple[FloatArray, FloatArray]:
    """Trust ``(T,)`` and pixels ``(T, 2)`` of the tools; zero where a tool is not among the keypoints or not seen."""
    names = scene.keypoints.names
    trust, pixels = np.zeros(len(scene.tools)), np.zeros((len(scene.tools), 2))
    for t, name in enumerate(scene.tools.names):
        if name in names:
            k = names.index(name)
            trust[t], pixels[t] = sight.trust[k], sight.pixels[k]
    return trust, pixels

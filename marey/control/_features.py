r"""Features: what a task asks of a velocity, :math:`\Gamma v \approx \tilde\gamma`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray
from marey.simulate import StepSystem


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    r"""Rows :math:`\gamma(v) = \Gamma v - \tilde\gamma` with a weight and a level; [Tournier2011]_ §14.1.1."""

    matrix: FloatArray  # (r, d) Γ
    target: FloatArray  # (r,) γ̃
    weight: float = 1.0
    level: int = 0
    is_fence: bool = False  # Γ v need only be at least γ̃


def control_form(features: Iterable[Feature], size: int) -> tuple[FloatArray, FloatArray]:
    r"""Matrix ``(d, d)`` and vector ``(d,)`` of :math:`\frac12 v^TQv + c^Tv = \sum_i w_i\|\gamma_i(v)\|^2`."""
    quadratic, linear = np.zeros((size, size)), np.zeros(size)
    for feature in features:
        pulled = 2.0 * feature.weight * feature.matrix.T
        quadratic += pulled @ feature.matrix
        linear -= pulled @ feature.target
    return quadratic, linear


def max_angular_speed(system: StepSystem, velocity: FloatArray) -> float:
    """Largest angular velocity [rad/s] of any segment at a velocity ``(d,)``."""
    turns = system.mechanics.angular @ velocity
    return float(np.sqrt(np.einsum("ji,ji->j", turns, turns).max()))

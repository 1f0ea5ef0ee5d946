"""Limits learnt from clips: joint types, intervals, cones, polygons; one function for every kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from marey.base import FloatArray, UnknownNameError
from marey.kinematics._cones import ConeLimits, ReachConeLimits
from marey.kinematics._ellipsoids import EllipsoidLimits
from marey.kinematics._limits import JointLimits, collect_clips, compute_mean_rotation
from marey.kinematics._limits_box import BoxLimits, circular_interval
from marey.kinematics._limits_field import QuaternionFieldLimits
from marey.kinematics._sdf import SdfLimits
from marey.lie import SO3
from marey.motion import Motion

NUM_SAMPLES = 100  # rotations that tell a joint's type ([Engell2012]_ §13)
FREEDOM_EIGENVALUE = 1e-4  # [-] variance of a quaternion component below which it is no freedom: about 1.1 degrees
TRIM = 0.005  # share of the samples that a robust interval leaves out

KINDS = ("box", "cone", "reach", "ellipsoid", "sdf", "field")
JointKind = Literal["fixed", "hinge", "ball"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class JointEstimate:
    """What kind of joint the data show, and its intervals."""

    joint: str
    kind: JointKind
    axis: FloatArray  # (3,) unit axis of a hinge; zero for the others
    low_rad: FloatArray  # (3,) hinge: its angle first; ball: Z-Y-Z angles; in [0, 2 pi)
    high_rad: FloatArray  # (3,) not below ``low_rad``; infinite (with low minus infinite) is unlimited
    note: str = ""


def fit_limits(motions: Motion | Iterable[Motion], kind: str = "sdf", **options: Any) -> JointLimits:
    """Learn limits of a kind from clips: ``box``, ``cone``, ``reach``, ``ellipsoid``, ``sdf`` or ``field``.

    Options go to the ``from_clips`` of the class.
    """
    makers: dict[str, Any] = {
        "box": BoxLimits,
        "cone": ConeLimits,
        "reach": ReachConeLimits,
        "ellipsoid": EllipsoidLimits,
        "sdf": SdfLimits,
        "field": QuaternionFieldLimits,
    }
    if kind not in makers:
        raise UnknownNameError("kind of limits", kind, "marey", makers)
    return makers[kind].from_clips(motions, **options)


def estimate_joints(
    motions: Motion | Iterable[Motion], *, trim: float = 0.0, margin_rad: float = 0.0
) -> tuple[JointEstimate, ...]:
    """Type and intervals of every joint from clips. [Engell2012]_ §13.

    A hundred rotations tell in how many directions the quaternion varies: none, a fixed joint; one, a hinge about the
    principal axis; more, a ball with intervals of Z-Y-Z angles. An interval is what the largest gap of the angles on
    the circle leaves over, so it may cross zero.
    """
    skeleton, clips = collect_clips(motions)
    every = SO3.concatenate(clips)
    return tuple(_estimate_joint(n, every[:, j], trim, margin_rad) for j, n in enumerate(skeleton.names))


def _estimate_joint(joint: str, rotations: SO3, trim: float, margin_rad: float) -> JointEstimate:
    zero = np.zeros(3)
    if len(rotations) < 2:
        constant = rotations.log()[0]
        return JointEstimate(joint, "fixed", zero, constant, constant, "fewer than two frames")
    few = rotations[np.linspace(0, len(rotations) - 1, min(NUM_SAMPLES, len(rotations))).round().astype(int)]
    values, vectors = np.linalg.eigh(np.cov(_align_quaternions(few).T))
    freedoms = int(np.count_nonzero(np.abs(values) > FREEDOM_EIGENVALUE))
    if freedoms == 0:
        constant = compute_mean_rotation(rotations).log()
        return JointEstimate(joint, "fixed", zero, constant, constant)
    if freedoms == 1:
        axis = vectors[:, -1] * np.sign(vectors[np.argmax(np.abs(vectors[:, -1])), -1])
        low, high = circular_interval(rotations.twist_angle(axis), trim=trim, margin_rad=margin_rad)
        return JointEstimate(joint, "hinge", axis, np.array([low, 0.0, 0.0]), np.array([high, 0.0, 0.0]))
    from marey.kinematics._sdf_chart_kernels import ZYZ, chart_coordinates, unwrap_angles

    angles = unwrap_angles(chart_coordinates(rotations.wxyz, ZYZ))
    bounds = [circular_interval(angles[:, i], trim=trim, margin_rad=margin_rad) for i in range(3)]
    return JointEstimate(joint, "ball", zero, np.array([b[0] for b in bounds]), np.array([b[1] for b in bounds]))


def _align_quaternions(rotations: SO3) -> FloatArray:
    """Vector parts ``(N, 3)`` of the quaternions, all on the side of their mean."""
    wxyz = rotations.wxyz
    mean = np.linalg.eigh(wxyz.T @ wxyz)[1][:, -1]
    return wxyz[:, 1:] * np.where(wxyz @ mean < 0.0, -1.0, 1.0)[:, None]

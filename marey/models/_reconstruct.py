"""A clip seen through a model, and how far off it is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.models._contract import PoseModel
from marey.motion import Motion


def reconstruct(model: PoseModel, motion: Motion) -> Motion:
    """Return a clip whose joints below the root are what the model makes of them; root and body are the clip's own."""
    wxyz = np.array(model.rotations(model.encode(motion)).wxyz)
    wxyz[:, 0] = motion.rotations.wxyz[:, 0]
    source = None if motion.source is None else replace(motion.source, channels=None, dropped=None)
    return replace(motion, rotations=SO3(wxyz), source=source)


@dataclass(frozen=True, slots=True)
class JointError:
    """Distances between the joints of clips and of their reconstructions [cm]."""

    mean_cm: float
    p95_cm: float
    max_cm: float

    def __str__(self) -> str:
        return f"mean {self.mean_cm:.2f} cm, 95 % below {self.p95_cm:.2f} cm, max {self.max_cm:.2f} cm"


def joint_distances(model: PoseModel, motion: Motion) -> FloatArray:
    """How far each joint is off ``(F, J)`` [m] after a clip went through the model, root held."""
    apart = reconstruct(model, motion).joint_positions() - motion.joint_positions()
    return np.linalg.norm(apart, axis=-1)


def joint_error(model: PoseModel, motions: Motion | tuple[Motion, ...] | list[Motion]) -> JointError:
    """Mean, 95th percentile and maximum over all joints and frames of one clip or more."""
    clips = (motions,) if isinstance(motions, Motion) else motions
    apart = 100.0 * np.concatenate([joint_distances(model, motion).ravel() for motion in clips])
    return JointError(float(apart.mean()), float(np.percentile(apart, 95)), float(apart.max()))

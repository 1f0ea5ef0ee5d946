"""The mean pose of samples, or the joint that has none."""

from __future__ import annotations

import numpy as np

from marey.base import ConvergenceError
from marey.lie import SO3, frechet_mean, geodesic_distance
from marey.models._samples import Samples

BALL_RAD = np.pi / 2  # samples inside a ball of this radius have one mean alone; [Tournier2011]_ §7.3


def mean_rotations(samples: Samples) -> SO3:
    """Intrinsic mean of each joint below the root, batch ``(J - 1,)``.

    Raises:
        ConvergenceError: the samples of a joint are spread all around; the message names it.
    """
    try:
        return frechet_mean(samples.rotations)
    except ConvergenceError as error:
        spread = far_joints(samples)
        named = ", ".join(f"'{name}' ({np.rad2deg(angle):.0f} degrees)" for name, angle in list(spread.items())[:4])
        what = f"no mean pose: {named or 'a joint'} turns too far around. Leave out the clip or mend its flips"
        raise ConvergenceError(what, error.report) from error


def far_joints(samples: Samples) -> dict[str, float]:
    """Joints whose samples leave the ball in which a mean is unique, with the largest angle [rad], widest first."""
    middle = samples.rotations[samples.count // 2]
    angles = geodesic_distance(middle, samples.rotations).max(axis=0)
    order = np.argsort(-angles)
    return {samples.skeleton.names[1 + j]: float(angles[j]) for j in order.tolist() if angles[j] > BALL_RAD}

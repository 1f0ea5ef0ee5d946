"""First guesses: a flat pose, turned and bent towards the key poses (Fang F21)."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, InputError
from marey.motion import Motion
from marey.spacetime._full_layout import Layout
from marey.spacetime._full_sample import carry_flights
from marey.spacetime._poses import key_line


def flat_guess(layout: Layout) -> FloatArray:
    """Unknowns of the flat guess: every angle constant, or linear in time between the pose keys that name it.

    Root positions follow from the contacts; flights start with the ballistic velocity between their supports.
    """
    return with_flights(layout, key_line(layout))


def warm_guess(layout: Layout, motion: Motion) -> FloatArray:
    """Unknowns nearest to a motion, stretched to the length of the problem.

    Raises:
        InputError: the motion has another skeleton.
    """
    tree = layout.figure.tree
    if motion.skeleton.names != tree.skeleton.names:
        raise InputError(
            f"the warm start '{motion.name}' has {motion.skeleton.num_joints} joints of another skeleton",
            "Retarget it to the character of the problem first",
        )
    if motion.num_frames < 4:
        raise InputError(f"the warm start has {motion.num_frames} frames", "It needs at least four")
    angles = tree.from_motion(motion)[:, layout.figure.angles]
    times = np.linspace(0.0, layout.timeline.duration_s, len(angles))
    return with_flights(layout, layout.timeline.spline.fit(times, angles, smoothing=1e-6))


def with_flights(layout: Layout, points: FloatArray) -> FloatArray:
    """Append place, speed and spin of every flight to control points ``(K, D)``."""
    x = np.zeros(layout.num_unknowns)
    x[: layout.num_curve_unknowns] = points.ravel()
    return carry_flights(layout, x)

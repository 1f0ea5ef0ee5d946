"""First guesses: a flat pose, turned and bent towards the key poses (Fang F21)."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, InputError
from marey.motion import Motion
from marey.spacetime._full_layout import FullLayout
from marey.spacetime._full_sample import set_flight_unknowns
from marey.spacetime._poses import interpolate_pose_keys


def build_flat_guess(layout: FullLayout) -> FloatArray:
    """Unknowns of the flat guess: every angle constant, or linear in time between the pose keys that name it.

    Root positions follow from the contacts; flights start with the ballistic velocity between their supports.
    """
    return append_flights(layout, interpolate_pose_keys(layout))


def guess_from_motion(layout: FullLayout, motion: Motion) -> FloatArray:
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
    return append_flights(layout, layout.timeline.spline.fit(times, angles, smoothing=1e-6))


def append_flights(layout: FullLayout, points: FloatArray) -> FloatArray:
    """Append place, speed and spin of every flight to control points ``(K, D)``."""
    x = np.zeros(layout.num_unknowns)
    x[: layout.num_curve_unknowns] = points.ravel()
    return set_flight_unknowns(layout, x)

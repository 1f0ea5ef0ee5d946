"""Which heels, toes and hands touch the ground, and how much they slide while they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import FloatArray, UnknownNameError
from marey.motion.clip import Contacts, Motion
from marey.motion.contacts.baselines import detect_by_adaptive_threshold, detect_by_threshold
from marey.motion.contacts.hysteresis import detect_by_hysteresis
from marey.motion.contacts.points import find_body_points

METHODS: Final[dict[str, Callable[[Motion], Contacts]]] = {
    "hysteresis": detect_by_hysteresis,
    "adaptive": detect_by_adaptive_threshold,
    "threshold": detect_by_threshold,
}


def detect_contacts(motion: Motion, *, method: str = "hysteresis") -> Contacts:
    """Find which heels, toes and hands touch the ground, frame by frame.

    The names are those of ``marey.skeleton.contact_points``. A toe is in contact while the ball of the foot or the end
    of the toes is. Hands count only while they carry the body (a cartwheel, getting up); contacts with things are
    annotated by hand, in ``Motion.contacts``.

    Args:
        motion: any clip, at 30 to 250 Hz; a contact track that it has is not looked at.
        method: ``"hysteresis"`` for all behaviours ([Safonova2006]_ F3, with floors per plant and rules of the body);
            ``"adaptive"`` for walks and runs, never splits a plant ([Glardon2005]_ III.2.3);
            ``"threshold"`` to compare with: one height and one speed.

    Raises:
        UnknownNameError: there is no such method.
        InputError: ``"adaptive"`` found no gait cycle.
    """
    if method not in METHODS:
        raise UnknownNameError("contact method", method, "marey.detect_contacts", METHODS)
    return METHODS[method](motion)


def ensure_contacts(motion: Motion, *, method: str = "hysteresis") -> Motion:
    """Return the motion with a detected contact track; one that is there already is kept."""
    return motion if motion.contacts is not None else replace(motion, contacts=detect_contacts(motion, method=method))


def slide_mm(motion: Motion) -> FloatArray:
    """How far each planted point has moved over the ground since the frame before ``(F, K)`` [mm].

    Zero where the point is not in contact in both frames. Of a toe, the ball or the end counts, whichever moves less:
    a foot may roll. A motion without a contact track gets one.
    """
    contacts = ensure_contacts(motion).contacts
    assert contacts is not None
    points = find_body_points(motion.skeleton)
    steps = np.diff(points.positions(*motion.joint_frames())[..., [0, 2]], axis=0)
    moved = 1000.0 * np.hypot(steps[..., 0], steps[..., 1])
    slides = np.zeros(contacts.shape)
    for k, name in enumerate(contacts.names):
        wanted = {name, name.replace("toe", "ball"), name.replace("toe", "toe_end")}
        columns = [i for i, point in enumerate(points.names) if point in wanted]
        if columns:
            held = contacts.active[1:, k] & contacts.active[:-1, k]
            slides[1:, k] = np.where(held, moved[:, columns].min(axis=1), 0.0)
    return slides

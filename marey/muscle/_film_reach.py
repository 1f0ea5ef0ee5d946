"""A reaching arm as a film: played, drawn and written like that of a scene."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.muscle._body import SoftBody
from marey.muscle._bones_state import NoBones
from marey.muscle._film import BoneTrack, Film, Paint, paint_for
from marey.muscle._film_skin import own_skin
from marey.muscle._muscles import Muscles
from marey.muscle._pipeline import Reach
from marey.muscle._pipeline_arm import soft_arm

BONE_M: Final = (0.016, 0.013)  # [m] radii of a drawn bone at its two ends
REACH_M: Final = 0.045  # [m] how far the colour of a muscle reaches


def reach_film(found: Reach) -> Film:
    """What a soft arm did on its way from goal to goal."""
    system = found.system
    states = found.control.states
    elbow, wrist = (found.shoulder + states[:, system.end_components(bone)] for bone in ("upper", "fore"))
    shoulder = np.broadcast_to(found.shoulder, elbow.shape)
    ends = np.stack([np.stack([shoulder, elbow], axis=1), np.stack([elbow, wrist], axis=1)], axis=1)
    activations = np.concatenate([found.activations, found.activations[-1:]])
    return arm_film(system.body, found.positions, activations, ends, system.dt)


def hanging_film(shoulder: FloatArray, arm: SoftBody | None = None) -> Film:
    """One frame of a soft arm at rest that hangs from ``shoulder`` (3,) [m]."""
    body = soft_arm() if arm is None else arm
    joints = _joints(body)
    passive = np.zeros((1, _muscles(body).num_splines))
    return arm_film(body, (shoulder + body.mesh.nodes)[None], passive, (shoulder + joints)[None], 1.0)


def arm_film(body: SoftBody, positions: FloatArray, activations: FloatArray, ends: FloatArray, dt: float) -> Film:
    """A film of a soft body with bones.

    Args:
        body: with muscles.
        positions: of its nodes ``(F, V, 3)`` [m].
        activations: of its splines ``(F, P)``, 0 to 1.
        ends: of its bones ``(F, B, 2, 3)`` [m].
        dt: between two frames [s].
    """
    muscles, skin = _muscles(body), own_skin(body.mesh.surface)
    count = len(positions)
    radii = np.tile(np.array(BONE_M), (ends.shape[1], 1))
    return Film(
        "arm",
        dt * np.arange(count, dtype=np.float64),
        positions,
        np.stack([muscles.alphas(row) for row in activations]),
        skin,
        _paint(body, muscles),
        BoneTrack(tuple(body.bones.names), ends, radii, np.zeros((count, 0))),
    )


def _paint(body: SoftBody, muscles: Muscles) -> Paint:
    middles = muscles.points()[muscles.arrays.segments].mean(axis=1)
    rest = own_skin(body.mesh.surface).at(body.mesh.nodes)
    return paint_for(rest, middles, np.asarray(muscles.owners), np.full(muscles.num_splines, REACH_M))


def _joints(body: SoftBody) -> FloatArray:
    """Both ends of each bone ``(B, 2, 3)`` [m] where it is now."""
    if isinstance(body.bones, NoBones):
        return np.zeros((0, 2, 3))
    return np.stack([body.bones.origins, body.bones.ends], axis=1)


def _muscles(body: SoftBody) -> Muscles:
    if body.muscles is None:
        raise InputError("a body without muscles", "Give muscles= when it is made")
    return body.muscles

"""A reaching arm as a film: played, drawn and written like that of a scene."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.muscle._body import SoftBody
from marey.muscle._bones_state import NoBones
from marey.muscle._film import BoneTrack, Film, Paint, make_paint
from marey.muscle._film_skin import surface_of_mesh
from marey.muscle._muscles import Muscles
from marey.muscle._pipeline import ReachResult
from marey.muscle._pipeline_arm import make_soft_arm

BONE_RADII_M: Final = (0.016, 0.013)  # [m] radii of a drawn bone at its two ends
PAINT_REACH_M: Final = 0.045  # [m] how far the colour of a muscle reaches


def make_reach_film(found: ReachResult) -> Film:
    """What a soft arm did on its way from goal to goal."""
    system = found.system
    states = found.control.states
    elbow, wrist = (found.shoulder + states[:, system.end_components(bone)] for bone in ("upper", "fore"))
    shoulder = np.broadcast_to(found.shoulder, elbow.shape)
    ends = np.stack([np.stack([shoulder, elbow], axis=1), np.stack([elbow, wrist], axis=1)], axis=1)
    activations = np.concatenate([found.activations, found.activations[-1:]])
    return make_arm_film(system.body, found.positions, activations, ends, system.dt)


def make_hanging_film(shoulder: FloatArray, arm: SoftBody | None = None) -> Film:
    """One frame of a soft arm at rest that hangs from ``shoulder`` (3,) [m]."""
    body = make_soft_arm() if arm is None else arm
    joints = _bone_ends(body)
    passive = np.zeros((1, _require_muscles(body).num_splines))
    return make_arm_film(body, (shoulder + body.mesh.nodes)[None], passive, (shoulder + joints)[None], 1.0)


def make_arm_film(body: SoftBody, positions: FloatArray, activations: FloatArray, ends: FloatArray, dt: float) -> Film:
    """A film of a soft body with bones.

    Args:
        body: with muscles.
        positions: of its nodes ``(F, V, 3)`` [m].
        activations: of its splines ``(F, P)``, 0 to 1.
        ends: of its bones ``(F, B, 2, 3)`` [m].
        dt: between two frames [s].
    """
    muscles, skin = _require_muscles(body), surface_of_mesh(body.mesh.surface)
    count = len(positions)
    radii = np.tile(np.array(BONE_RADII_M), (ends.shape[1], 1))
    return Film(
        "arm",
        dt * np.arange(count, dtype=np.float64),
        positions,
        np.stack([muscles.alphas(row) for row in activations]),
        skin,
        _arm_paint(body, muscles),
        BoneTrack(tuple(body.bones.names), ends, radii, np.zeros((count, 0))),
    )


def _arm_paint(body: SoftBody, muscles: Muscles) -> Paint:
    middles = muscles.points()[muscles.arrays.segments].mean(axis=1)
    rest = surface_of_mesh(body.mesh.surface).at(body.mesh.nodes)
    return make_paint(rest, middles, np.asarray(muscles.owners), np.full(muscles.num_splines, PAINT_REACH_M))


def _bone_ends(body: SoftBody) -> FloatArray:
    """Both ends of each bone ``(B, 2, 3)`` [m] where it is now."""
    if isinstance(body.bones, NoBones):
        return np.zeros((0, 2, 3))
    return np.stack([body.bones.origins, body.bones.ends], axis=1)


def _require_muscles(body: SoftBody) -> Muscles:
    if body.muscles is None:
        raise InputError("a body without muscles", "Give muscles= when it is made")
    return body.muscles

"""Knees and elbows: how far they bend, which way, how suddenly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.measure.settings import MeterSettings
from marey.measure.tracks import SIDES, SOLE_PARTS, MeasuredBody

LIMBS: Final = {"knee": ("hip", "knee", "ankle"), "elbow": ("shoulder", "elbow", "wrist")}
LEAST_FRONT: Final = 0.3  # [-] part of the sole across the shank below which a pointed foot tells no front
LEAST_HINGE: Final = 0.8  # [-] length of the mean bend axis: below it a limb has no hinge
POP_ROLES: Final = (
    *(f"{side}_{part}" for side in SIDES for part in ("hip", "knee", "ankle", "shoulder", "elbow")),
    *("spine1", "spine2", "spine3", "neck", "head"),
)


@dataclass(frozen=True, slots=True, eq=False)
class LimbMeasures:
    """One knee or elbow, frame by frame."""

    name: str  # "left_knee", ...
    flexion_deg: FloatArray  # (F,) between the two bones, 0 when straight
    forward_deg: FloatArray  # (F,) flexion in the anatomical plane: negative when bent backwards
    plane_turn_deg: (
        FloatArray  # (F,) turn of the bend plane since the frame before; 0 where the limb is nearly straight
    )


def measure_limbs(tracks: MeasuredBody, settings: MeterSettings) -> tuple[LimbMeasures, ...]:
    r"""Measure knees and elbows of the roles there are.

    Flexion is the angle :math:`\theta` between the bones; in the anatomical plane it is
    :math:`\theta\,\cos\varphi`, with :math:`\varphi` between the way the limb bends and the way it should. So it is
    near zero for a straight limb whatever way its noise points, and negative for one bent backwards.

    Three witnesses say where a **knee** should point, and the middle one of their cosines counts: the foot (heel to
    ball, across the line from hip to ankle), the pelvis (its front, across that line), and the knee's own hinge in
    the frame of the thigh. A knee bent backwards has all three against it, a leg turned about its own axis the first
    two; an ankle that flips has the foot alone.

    An **elbow** has its hinge only: the mean axis :math:`u \times l` of upper arm and forearm in the frame of the
    shoulder joint, weighted by :math:`\sin\theta`. A limb whose mean axis is shorter than 0.8 has no hinge, and none
    of its frames is called inverted by it.
    """
    found: list[LimbMeasures] = []
    for part, chain in LIMBS.items():
        for side in SIDES:
            roles = [f"{side}_{joint}" for joint in chain]
            if not tracks.has(*roles):
                continue
            top, middle, end = (tracks.at(role) for role in roles)
            upper, lower = _unit(middle - top), _unit(end - middle)
            cross = np.cross(upper, lower)
            flexion = np.degrees(np.arctan2(np.linalg.norm(cross, axis=1), (upper * lower).sum(axis=1)))
            # Between the bend axis and the limb's hinge in the upper joint's frame; 1 where it has none
            axes = tracks.uppers[roles[0]].inverse() @ cross
            hinge = axes.sum(axis=0) / max(float(np.linalg.norm(axes, axis=1).sum()), 1e-9)
            has_hinge = np.linalg.norm(hinge) >= LEAST_HINGE
            cosine = (_unit(axes) * _unit(hinge)).sum(axis=1) if has_hinge else np.ones(len(axes))
            if part == "knee":
                # The way the knee points, beside those of foot and pelvis; a foot along the leg tells nothing
                line = _unit(end - top)
                knee_out = _unit((middle - top) - ((middle - top) * line).sum(axis=1, keepdims=True) * line)
                heel, ball = (tracks.soles[:, SIDES.index(side), SOLE_PARTS.index(part)] for part in ("heel", "ball"))
                sole = _unit(ball - heel)
                foot = sole - (sole * line).sum(axis=1, keepdims=True) * line
                is_known = np.linalg.norm(foot, axis=1) > LEAST_FRONT
                front = _unit(np.cross(line, tracks.at("left_hip") - tracks.at("right_hip")))
                to_foot = np.where(is_known, (knee_out * _unit(foot)).sum(axis=1), 1.0)
                cosine = np.median([cosine, to_foot, (knee_out * front).sum(axis=1)], axis=0)
            # Bend planes of successive frames, where the limb is bent in both
            axis = _unit(cross)
            turn = np.degrees(np.arccos(np.clip((axis[1:] * axis[:-1]).sum(axis=1), -1.0, 1.0)))
            is_bent = (flexion[1:] > settings.bent_deg) & (flexion[:-1] > settings.bent_deg)
            found.append(
                LimbMeasures(roles[1], flexion, flexion * cosine, np.append(0.0, np.where(is_bent, turn, 0.0)))
            )
    return tuple(found)


def _unit(vectors: FloatArray) -> FloatArray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)


def measure_turns(tracks: MeasuredBody) -> tuple[tuple[str, ...], FloatArray]:
    """Turns of the larger joints between frames: their names, and rotation vectors ``(F - 1, K, 3)`` [rad]."""
    names = tuple(role for role in POP_ROLES if role in tracks.roles)
    joints = (tracks.motion.rotations[:, tracks.roles[role]] for role in names)
    turns = [(rotations[:-1].inverse() @ rotations[1:]).log() for rotations in joints]
    return names, np.stack(turns, axis=1)

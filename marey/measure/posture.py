"""Knees, elbows, trunk, pelvis, arms and root: how far they bend, how they are carried, how suddenly they change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.measure.tracks import (
    SIDES,
    SOLE_PARTS,
    MeasuredBody,
    MeterSettings,
    differentiate,
    second_difference,
    smooth,
)
from marey.motion import headings

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


COURSE_HZ: Final = 0.7  # [Hz] the heading of a walk without the turning of its pelvis, which is twice as fast and more
RANGE: Final = (5.0, 95.0)  # percentiles between which a range is taken: what a single frame does tells no habit


def measure_carriage(tracks: MeasuredBody) -> dict[str, float]:
    """Figures of trunk, pelvis and arms [deg], [m], for the roles there are.

    The trunk is the line from the middle of the hips to the middle of the shoulders. Its pitch is forward in the
    direction the body faces, its lean to the left. The pelvis turns about the vertical against the smoothed heading,
    and tilts where one hip is higher. An upper arm swings in the plane of facing and trunk; a swing is the range
    between the 5th and the 95th percentile, mean of both sides.
    """
    figures: dict[str, float] = {}
    yaw = headings(tracks.motion, tracks.roles)
    course = smooth(yaw, tracks.rate_hz, COURSE_HZ) if tracks.num_frames > tracks.rate_hz else yaw
    ahead = np.stack([np.sin(course), np.zeros_like(course), np.cos(course)], axis=1)
    left = np.stack([np.cos(course), np.zeros_like(course), -np.sin(course)], axis=1)
    hips = tracks.at("left_hip") - tracks.at("right_hip")
    # Pelvis: yaw of the hip line about the course, height of the left hip over the right one
    across = np.degrees(np.arctan2((hips * ahead).sum(axis=1), (hips * left).sum(axis=1)))
    figures["pelvis_rotation_range_deg"] = _range(across)
    figures["pelvis_tilt_range_deg"] = _range(np.degrees(np.arctan2(hips[:, 1], np.hypot(hips[:, 0], hips[:, 2]))))
    if tracks.has("left_shoulder", "right_shoulder"):
        middle = 0.5 * (tracks.at("left_hip") + tracks.at("right_hip"))
        trunk = 0.5 * (tracks.at("left_shoulder") + tracks.at("right_shoulder")) - middle
        pitch = np.degrees(np.arctan2((trunk * ahead).sum(axis=1), trunk[:, 1]))
        lean = np.degrees(np.arctan2((trunk * left).sum(axis=1), trunk[:, 1]))
        figures["trunk_pitch_mean_deg"] = float(pitch.mean())
        figures["trunk_pitch_max_deg"] = float(pitch.max())
        figures["trunk_pitch_range_deg"] = _range(pitch)
        figures["trunk_lean_range_deg"] = _range(lean)
        # Of the upper arms to the trunk's own down, forwards, in the plane across the left
        down, swings = -trunk / np.maximum(np.linalg.norm(trunk, axis=1, keepdims=True), 1e-9), list[float]()
        front = np.cross(left, -down)
        for side in (side for side in SIDES if tracks.has(f"{side}_elbow")):
            arm = tracks.at(f"{side}_elbow") - tracks.at(f"{side}_shoulder")
            swings.append(_range(np.degrees(np.arctan2((arm * front).sum(axis=1), (arm * down).sum(axis=1)))))
        if swings:
            figures["upper_arm_swing_deg"] = float(np.mean(swings))
    feet = np.stack([tracks.at(f"{side}_ankle") - tracks.pelvis for side in SIDES])
    figures["foot_ahead_max_m"] = float((feet * ahead).sum(axis=-1).max())
    return figures


def _range(values: FloatArray) -> float:
    low, high = np.percentile(values, RANGE)
    return float(high - low)


def measure_course(tracks: MeasuredBody, settings: MeterSettings) -> dict[str, float]:
    """Figures of the pelvis: way, speed, turning, standing, acceleration."""
    steps = np.linalg.norm(np.diff(tracks.pelvis[:, [0, 2]], axis=0), axis=1)
    speeds = np.linalg.norm(differentiate(tracks.pelvis, tracks.rate_hz)[:, [0, 2]], axis=1)
    yaw = headings(tracks.motion, tracks.roles)
    course = smooth(yaw, tracks.rate_hz, COURSE_HZ) if tracks.num_frames > tracks.rate_hz else yaw
    acceleration = np.linalg.norm(second_difference(tracks.pelvis, tracks.rate_hz, settings.span_s), axis=-1)
    figures = {
        "way_m": float(steps.sum()),
        "root_speed_mean_mps": float(steps.sum() / tracks.motion.duration_s) if tracks.num_frames > 1 else 0.0,
        "root_speed_median_mps": float(np.median(speeds)),
        "heading_change_deg": float(np.degrees(np.abs(np.diff(course)).sum())),
        "standing_share": float((speeds < settings.standing_mps).mean()),
    }
    if len(acceleration):
        figures["root_acceleration_p99_mps2"] = float(np.percentile(acceleration, 99.0))
        figures["root_acceleration_max_mps2"] = float(acceleration.max())
    sizes = np.linalg.norm(tracks.jumps.offsets, axis=1)
    figures["root_jump_max_m"] = float(sizes.max(initial=0.0))
    return figures


def measure_bending(
    tracks: MeasuredBody, limbs: tuple[LimbMeasures, ...], turns: FloatArray, settings: MeterSettings
) -> dict[str, float]:
    """Figures of knees, elbows and joint turns.

    Joint steps are turns in a frame, scaled to 120 frames a second. Accelerations of joints are second differences of
    their turns over ``span_s``; the knee is also measured over ``fine_span_s`` where the clip has 100 frames a second.
    """
    figures: dict[str, float] = {}
    knees = [limb for limb in limbs if limb.name.endswith("knee")]
    elbows = [limb for limb in limbs if limb.name.endswith("elbow")]
    for side, knee in zip(SIDES, knees, strict=False):
        figures[f"{side}_knee_flexion_median_deg"] = float(np.median(knee.flexion_deg))
    figures["knee_flexion_least_deg"] = float(min(np.percentile(knee.flexion_deg, 1.0) for knee in knees))
    if elbows:
        figures["elbow_flexion_mean_deg"] = float(np.mean([limb.flexion_deg.mean() for limb in elbows]))
    for name, group in (("knee", knees), ("elbow", elbows)):
        if group:
            back = np.array([limb.forward_deg for limb in group])
            figures[f"{name}_backwards_max_deg"] = float(np.maximum(-back, 0.0).max())
            figures[f"inverted_{name}_frames"] = float((back < -settings.most_backwards_deg).any(axis=0).sum())
            turned = np.array([limb.plane_turn_deg for limb in group])
            figures[f"{name}_plane_flips"] = float((turned > settings.flip_deg).sum())
    bends = np.stack([knee.flexion_deg for knee in knees], axis=1)
    peak = np.abs(second_difference(bends, tracks.rate_hz, settings.span_s))
    if len(peak):
        figures["knee_acceleration_p99_deg_per_s2"] = float(np.percentile(peak, 99.0))
        figures["knee_acceleration_max_deg_per_s2"] = float(peak.max())
    if tracks.rate_hz >= 100.0:
        fine = np.abs(second_difference(bends, tracks.rate_hz, settings.fine_span_s))
        if len(fine):
            figures["knee_acceleration_120hz_p99_deg_per_s2"] = float(np.percentile(fine, 99.0))
            figures["knee_acceleration_120hz_max_deg_per_s2"] = float(fine.max())
    if len(turns) > 1:
        # Over a span of several frames the turns add up; a joint at a time, as a long clip has many
        fastest, sizes = 0.0, np.zeros((0, 0))
        for k in range(turns.shape[1]):
            fastest = max(fastest, (np.linalg.norm(turns[:, k], axis=-1) * tracks.rate_hz).max())
            turned = np.concatenate([np.zeros((1, 3)), np.cumsum(turns[:, k], axis=0)])
            change = second_difference(turned, tracks.rate_hz, settings.span_s)
            sizes = sizes if k else np.empty((len(change), turns.shape[1]))
            sizes[:, k] = np.degrees(np.linalg.norm(change, axis=-1))
        figures["joint_step_max_deg"] = float(np.degrees(fastest) / 120.0)
        if len(sizes):
            figures["joint_acceleration_p99_deg_per_s2"] = float(np.percentile(sizes, 99.0))
            figures["joint_acceleration_max_deg_per_s2"] = float(sizes.max())
    return figures

"""From a table of segments to the mass, centre and inertia that each joint carries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.motion import BodySegment, MassTable
from marey.skeleton import RoleMap, Skeleton, capsules, foot_points, t_pose

SIDES: Final = ("left_", "right_")
UP: Final = np.array([0.0, 1.0, 0.0])
FORWARD: Final = np.array([0.0, 0.0, 1.0])
_SPINE: Final = ("pelvis", "spine1", "spine2", "spine3")
_HEAD_CARRIERS: Final = ("head", "neck", "spine3", "spine2", "spine1", "pelvis")
_FLAT: Final = ("hand", "foot")  # palm and sole face down in the T-pose, so "back to front" is up


@dataclass(frozen=True, slots=True, eq=False)
class SegmentMass:
    """Mass carried by a joint; centre and inertia about it in the frame of the joint."""

    joint: int
    mass: float
    centre: FloatArray  # (3,) [m]
    inertia: FloatArray  # (3, 3) [kg m²]


@dataclass(frozen=True, slots=True, eq=False)
class StandingSkeleton:
    """A skeleton in the T-pose, with the landmarks that segments end at."""

    roles: RoleMap
    positions: FloatArray  # (J, 3) [m]
    frames: SO3  # (J,) R_world_joint
    landmarks: dict[str, FloatArray]  # (3,) [m] by name

    def segment_mass(self, joint: int, mass: float, centre: FloatArray, inertia: FloatArray) -> SegmentMass:
        """Turn a mass given in world to the frame of the joint that carries it."""
        R = self.frames[joint].inverse()
        matrix = R.matrix()
        return SegmentMass(joint, mass, R @ (centre - self.positions[joint]), matrix @ inertia @ matrix.T)

    def middle(self, names: tuple[str, ...]) -> FloatArray | None:
        """Middle of the landmarks; ``None`` if one is missing."""
        if any(name not in self.landmarks for name in names):
            return None
        return np.mean([self.landmarks[name] for name in names], axis=0)


def place_landmarks(skeleton: Skeleton, roles: RoleMap, table: MassTable, stature_m: float) -> StandingSkeleton:
    """Take the T-pose and find the landmarks; those that no joint marks are put where the stature suggests."""
    pose = t_pose(skeleton, roles)
    positions, frames = pose.joint_positions(), pose.joint_rotations()
    marks = {role: positions[joint] for role, joint in roles.joints.items()}
    stand = StandingSkeleton(roles, positions, frames, marks)
    # Head: from the neck, or the middle of the shoulders, to the tip of the head
    shoulders = stand.middle(("left_shoulder", "right_shoulder"))
    if "neck" not in marks and shoulders is not None:
        marks["neck"] = shoulders
    if "neck" in marks:
        head = roles.get("head")
        tip = np.zeros(3) if head is None else frames[head] @ skeleton.tips[head]
        marks["crown"] = marks["neck"] + table.head_length * stature_m * UP
        if head is not None and float(np.linalg.norm(tip)) >= 1e-3:
            marks["crown"] = positions[head] + tip
    points = foot_points(skeleton, roles)
    at = points.positions(positions, frames)
    for side in SIDES:
        if side + "foot" not in marks and side + "ball" in points.names:
            marks[side + "foot"] = at[points.index(side + "ball")]
        # Hand: along the forearm, from the wrist or the tip of the elbow's segment
        elbow = roles.get(side + "elbow")
        if elbow is None:
            continue
        if side + "wrist" not in marks:
            marks[side + "wrist"] = positions[elbow] + frames[elbow] @ skeleton.tips[elbow]
        forearm = marks[side + "wrist"] - marks[side + "elbow"]
        length = float(np.linalg.norm(forearm))
        if length > 1e-3:
            marks[side + "fingertip"] = marks[side + "wrist"] + table.hand_length * stature_m * forearm / length
    return stand


def masses_from_table(
    stand: StandingSkeleton, table: MassTable, stature_m: float, mass_kg: float
) -> tuple[list[SegmentMass], tuple[str, ...]]:
    """Lumps of the segments that the skeleton has, ``mass_kg`` in all, and the names of those that it lacks."""
    found: list[tuple[BodySegment, FloatArray, FloatArray]] = []
    for segment in table.segments:
        near, far = stand.middle(segment.near), stand.middle(segment.far)
        if near is not None and far is not None and float(np.linalg.norm(far - near)) >= 1e-4:
            found.append((segment, near, far))
    names = {segment.name for segment, _, _ in found}
    missing = tuple(segment.name for segment in table.segments if segment.name not in names)
    total = sum(segment.share for segment, _, _ in found)
    lumps: list[SegmentMass] = []
    for segment, near, far in found:
        scaled = replace(segment, share=segment.share * mass_kg / total)
        if segment.name == "trunk":
            # The three parts of the trunk, moved together so that their common centre is the printed one of the trunk
            parts = table.trunk_parts
            trunk = sum(part.share for part in parts)
            shift = scaled.along - sum(part.share * part.along for part in parts) / trunk
            length = float(np.linalg.norm(far - near))
            for part in parts:
                mass = scaled.share * part.share / trunk
                inertia = mass * (part.length * length) ** 2 * _gyration_matrix(far - near, FORWARD, part.radii)
                centre = near + (part.along + shift) * (far - near)
                # Carried by the highest joint of the spine that is not above it; the pelvis at least
                spine = [stand.roles[role] for role in _SPINE if role in stand.roles] or [0]
                below = [j for j in spine if float((stand.positions[j] - centre) @ (far - near)) >= 0.0]
                lumps.append(stand.segment_mass(below[-1] if below else spine[0], mass, centre, inertia))
        else:
            length = float(np.linalg.norm(far - near)) if segment.length is None else segment.length * stature_m
            front = UP if segment.name.endswith(_FLAT) else FORWARD
            inertia = scaled.share * length**2 * _gyration_matrix(far - near, front, segment.radii)
            # It is moved by the joint it starts at, or the one before that; the head by the highest there is
            carriers = _HEAD_CARRIERS if segment.name == "head" else segment.near
            if segment.name.endswith("hand"):
                carriers = (*carriers, carriers[0].replace("wrist", "elbow"))
            carrier = next((stand.roles[name] for name in carriers if name in stand.roles), 0)
            centre = near + segment.along * (far - near)
            lumps.append(stand.segment_mass(carrier, scaled.share, centre, inertia))
    return lumps, missing


def _gyration_matrix(along: FloatArray, front: FloatArray, radii: tuple[float, float, float]) -> FloatArray:
    """Matrix ``(3, 3)`` of squared radii of gyration for a segment that points ``along`` and faces ``front``."""
    a = along / np.linalg.norm(along)
    flat = front - a * float(a @ front)
    if float(np.linalg.norm(flat)) < 1e-3:
        flat = np.roll(a, 1) - a * float(a @ np.roll(a, 1))
    s = flat / np.linalg.norm(flat)
    axes = np.stack([s, np.cross(a, s), a])
    return axes.T @ np.diag(np.square(radii)) @ axes


def masses_from_capsules(skeleton: Skeleton, mass_kg: float) -> list[SegmentMass]:
    """Segments of the solid body around a skeleton, with uniform density; a point mass if it has no extent."""
    solid = capsules(skeleton)
    if not len(solid):
        return [SegmentMass(0, mass_kg, np.zeros(3), 0.4 * mass_kg * 0.05**2 * np.eye(3))]
    along = solid.ends - solid.starts
    lengths = np.maximum(np.linalg.norm(along, axis=1), 1e-6)
    radii = 0.5 * (solid.start_radii + solid.end_radii)
    volumes = np.pi * radii**2 * (lengths + 4.0 / 3.0 * radii)
    masses = mass_kg * volumes / volumes.sum()
    lumps: list[SegmentMass] = []
    for joint, a, b, r, mass in zip(
        solid.joints, solid.starts, solid.ends, radii.tolist(), masses.tolist(), strict=True
    ):
        # Inertia of a cylinder closed by two half balls, about its centre
        length = max(float(np.linalg.norm(b - a)), 1e-6)
        balls = mass * (4.0 / 3.0 * r) / (length + 4.0 / 3.0 * r)
        rod = mass - balls
        axial = 0.5 * rod * r**2 + 0.4 * balls * r**2
        across = rod * (length**2 / 12.0 + r**2 / 4.0)
        across += balls * (0.4 * r**2 + 0.25 * length**2 + 0.375 * length * r)
        axis = (b - a) / length if float(np.linalg.norm(b - a)) > 1e-9 else UP
        inertia = across * np.eye(3) + (axial - across) * np.outer(axis, axis)
        lumps.append(SegmentMass(int(joint), mass, 0.5 * (a + b), inertia))
    return lumps

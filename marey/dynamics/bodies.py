"""Body: a skeleton with the masses, centres and inertias of its segments, from a table of segments.

Bones that a conversion lost are put back, and inertias are checked before any loop runs over them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, frozen
from marey.lie import SO3
from marey.motion import BodySegment, MassTable, Motion, mass_table, standing_height
from marey.skeleton import (
    RoleMap,
    Skeleton,
    capsules,
    find_lost_bones,
    foot_points,
    restore_bones,
    restored_roles,
    t_pose,
)

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


INERTIA_TOL: Final = 1e-9  # [-] rounding of an inertia matrix, as a share of its trace


def check_inertias(names: tuple[str, ...], masses: FloatArray, inertias: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Masses ``(D,)`` and inertias ``(D, 3, 3)`` that a solid can have: positive, symmetric, obeying the triangle."""
    masses = frozen(masses, len(names), name="masses")
    inertias = frozen(inertias, len(names), 3, 3, name="inertias")
    for name, mass, inertia in zip(names, masses, inertias, strict=True):
        if mass < 0.0:
            raise InputError(f"link '{name}' weighs {mass:g} kg", "A mass is zero or more")
        if mass == 0.0 and np.any(inertia):
            raise InputError(f"link '{name}' has an inertia but no mass", "Give it a mass, or no inertia")
        slack = INERTIA_TOL * max(float(np.trace(inertia)), 1e-300)
        if np.abs(inertia - inertia.T).max() > slack:
            raise InputError(f"the inertia of link '{name}' is not symmetric", "Give (I + I.T) / 2")
        # Principal moments of a solid obey the triangle inequality
        low, middle, high = np.linalg.eigvalsh(inertia)
        if low < -slack or low + middle < high - slack:
            moments = f"{low:.3g}, {middle:.3g}, {high:.3g}"
            raise InputError(
                f"no solid has the moments {moments} of link '{name}'", "Each is at most the sum of the others"
            )
    if masses.sum() <= 0.0:
        raise InputError("there is no mass", "Give at least one link a positive mass")
    return masses, inertias


GRAVITY: Final = 9.81  # [m/s²]
BODY_MASS_INDEX: Final = 73.0 / 1.741**2  # [kg/m²] the men measured for [DeLeva1996]_
MIN_KNOWN_SHARE: Final = 0.5  # of the mass; a skeleton with fewer known segments is not taken for a human
MIN_HEIGHT_M: Final = 1e-3  # [m] what is lower does not stand


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Body:
    """A skeleton whose joints carry mass: what each joint moves is one rigid piece.

    Joints between two pieces of one segment (collars, twists, fingers, toes) carry none.
    """

    skeleton: Skeleton
    masses: FloatArray  # (J,) [kg]
    centres: FloatArray  # (J, 3) [m] in the joint's frame
    inertias: FloatArray  # (J, 3, 3) [kg m²] about the centre, axes of the joint's frame
    height_m: float  # [m] stature
    source: str = "given"  # the table that the masses come from
    report: tuple[str, ...] = ()  # sentences: what was put back, guessed or left out

    def __post_init__(self) -> None:
        count = self.skeleton.num_joints
        masses, inertias = check_inertias(self.skeleton.names, self.masses, self.inertias)
        object.__setattr__(self, "masses", masses)
        object.__setattr__(self, "centres", frozen(self.centres, count, 3, name="centres"))
        object.__setattr__(self, "inertias", inertias)
        object.__setattr__(self, "height_m", _require_positive(self.height_m, "height_m"))
        object.__setattr__(self, "report", tuple(self.report))

    @classmethod
    def from_motion(
        cls,
        motion: Motion,
        mass_kg: float | None = None,
        height_m: float | None = None,
        *,
        table: str = "deleva1996",
    ) -> Body:
        """Give mass to the body of a clip; bones that change length are given their mean.

        Args:
            motion: any clip; its lengths are kept.
            mass_kg: 24.1 kg/m² times the height squared by default.
            height_m: stature [m], measured on the skeleton by default. It sets the default mass and the size of hands
                and feet only.
            table: ``"deleva1996"`` or ``"winter2009"``.
        """
        skeleton = motion.skeleton
        if motion.translations is not None:
            offsets = motion.translations.mean(axis=0)
            offsets[0] = skeleton.offsets[0]
            skeleton = replace(skeleton, offsets=offsets)
        return _assemble_body(skeleton, mass_kg, height_m, mass_table(table))

    @classmethod
    def from_skeleton(
        cls,
        skeleton: Skeleton,
        mass_kg: float | None = None,
        height_m: float | None = None,
        *,
        table: str = "deleva1996",
    ) -> Body:
        """Give mass to a skeleton, first scaled to ``height_m`` [m] if that is given; see :meth:`from_motion`."""
        if height_m is not None:
            _require_positive(height_m, "height_m")
            skeleton = skeleton.scaled(height_m / _standing_height(restore_bones(skeleton)))
        return _assemble_body(skeleton, mass_kg, height_m, mass_table(table))

    @property
    def mass_kg(self) -> float:
        """Mass of the whole body [kg]."""
        return float(self.masses.sum())

    @property
    def weight_n(self) -> float:
        """Weight of the whole body [N]."""
        return self.mass_kg * GRAVITY

    def motion(self, motion: Motion) -> Motion:
        """Return the clip on this body's own skeleton, with lost bones put back; rotations and root stay.

        Raises:
            InputError: the clip's joints are not the body's.
        """
        if motion.skeleton.names != self.skeleton.names:
            raise InputError(
                f"the body has the joints of '{self.skeleton.name}', the motion those of '{motion.skeleton.name}'",
                "Make the body with Body.from_motion, or retarget the motion",
            )
        return replace(motion, skeleton=self.skeleton, translations=None, source=None)

    def centre_of_mass(self, motion: Motion) -> FloatArray:
        """Centre of mass ``(F, 3)`` [m] in world of every frame."""
        positions, frames = self.motion(motion).joint_frames()
        heavy = np.flatnonzero(self.masses)
        points = positions[:, heavy] + frames[:, heavy] @ self.centres[heavy]
        return np.einsum("p,fpi->fi", self.masses[heavy] / self.mass_kg, points)

    def __repr__(self) -> str:
        return f"Body('{self.skeleton.name}', {self.mass_kg:.1f} kg, {self.height_m:.2f} m, {self.source})"


def _assemble_body(skeleton: Skeleton, mass_kg: float | None, height_m: float | None, table: MassTable) -> Body:
    lost = find_lost_bones(skeleton)
    skeleton = restore_bones(skeleton)
    height = _standing_height(skeleton) if height_m is None else _require_positive(height_m, "height_m")
    mass = BODY_MASS_INDEX * height**2 if mass_kg is None else _require_positive(mass_kg, "mass_kg")
    roles = restored_roles(skeleton)
    # Landmarks in the T-pose; those that no joint marks are put where the stature suggests
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
        marks["crown"] = marks["neck"] + table.head_length * height * UP
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
            marks[side + "fingertip"] = marks[side + "wrist"] + table.hand_length * height * forearm / length
    lumps, missing = masses_from_table(stand, table, height, mass)
    report = [f"put back the lost bones of {', '.join(lost)}"] if lost else []
    if roles.profile == "guessed":
        report.append("the parts of the body were guessed; see role_map(skeleton).report")
    source = table.source
    if sum(segment.share for segment in table.segments if segment.name not in missing) < MIN_KNOWN_SHARE:
        lumps, source = masses_from_capsules(skeleton, mass), "capsules of one density"
        report.append("too few parts of a human body are known: masses are by the volume of capsules")
    elif missing:
        report.append(f"no joints for {', '.join(missing)}: their mass is distributed over the other segments")
    # Masses `(J,)`, centres `(J, 3)` and inertias about them `(J, 3, 3)`, by the parallel-axis theorem
    num_joints = skeleton.num_joints
    masses, centres, inertias = np.zeros(num_joints), np.zeros((num_joints, 3)), np.zeros((num_joints, 3, 3))
    for lump in lumps:
        masses[lump.joint] += lump.mass
        centres[lump.joint] += lump.mass * lump.centre
    has_mass = masses > 0.0
    centres[has_mass] /= masses[has_mass, None]
    for lump in lumps:
        d = lump.centre - centres[lump.joint]
        inertias[lump.joint] += lump.inertia + lump.mass * (float(d @ d) * np.eye(3) - np.outer(d, d))
    inertias = 0.5 * (inertias + inertias.transpose(0, 2, 1))
    return Body(skeleton, masses, centres, inertias, height, source, tuple(report))


def _standing_height(skeleton: Skeleton) -> float:
    """Standing height [m]; of a skeleton that does not stand, its largest extent, and 1 m if it has none."""
    height = standing_height(skeleton)
    if height > MIN_HEIGHT_M:
        return height
    points = skeleton.rest_positions()
    extent = float(np.ptp(np.concatenate([points, points + skeleton.tips]), axis=0).max())
    return extent if extent > MIN_HEIGHT_M else 1.0


def _require_positive(value: float, name: str) -> float:
    if np.ndim(value) or not np.isreal(value) or not 0.0 < value < np.inf:
        raise InputError(f"{name} is {value!r}", "It must be a positive number")
    return float(value)

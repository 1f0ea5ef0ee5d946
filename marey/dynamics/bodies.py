"""Body: a skeleton with the masses, centres and inertias of its segments.

Bones that a conversion lost are put back, and inertias are checked before any loop runs over them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, frozen
from marey.dynamics.segments import masses_from_capsules, masses_from_table, place_landmarks
from marey.motion import MassTable, Motion, mass_table, standing_height
from marey.skeleton import RoleMap, Skeleton, role_map

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


# joint whose offset was lost: joint whose offset it repeats, and how many times. In the ASF files of nine subjects the
# thorax is the bone below it to within 2.4 % and 4 degrees; the wrist bone is half the forearm in all of them.
_LOST_BONES: Final = {
    "Neck": ("Spine1", 1.0),
    "LeftShoulder": ("Spine1", 1.0),
    "RightShoulder": ("Spine1", 1.0),
    "LeftFingerBase": ("LeftHand", 0.5),
    "RightFingerBase": ("RightHand", 0.5),
    "LThumb": ("LeftHand", 0.5),
    "RThumb": ("RightHand", 0.5),
}
_WRISTS: Final = {"left_wrist": "LeftFingerBase", "right_wrist": "RightFingerBase"}


def restore_bones(skeleton: Skeleton) -> Skeleton:
    """Put back the thorax and wrist bones that the BVH conversion of the CMU database lost.

    Neck and arms of these files sit 11 to 13 cm too low. The thorax is given the length and direction of the bone
    below it, which in the original files it has to within 2.4 % and 4°; the wrist half of the forearm, which is exact.
    Joints, names and frames stay, so a clip's rotations fit as they are. Any other skeleton is returned unchanged.

    Args:
        skeleton: any skeleton.
    """
    lost = find_lost_bones(skeleton)
    if not lost:
        return skeleton
    offsets = skeleton.offsets.copy()
    for joint in lost:
        twin, factor = _LOST_BONES[joint]
        offsets[skeleton.index(joint)] = factor * offsets[skeleton.index(twin)]
    return replace(skeleton, offsets=offsets)


def find_lost_bones(skeleton: Skeleton) -> tuple[str, ...]:
    """Joints of a CMU skeleton that sit on their parents although their bone has a length."""
    if role_map(skeleton).profile != "cmu-bvh" or not set(_LOST_BONES).issubset(skeleton.names):
        return ()
    return tuple(joint for joint in _LOST_BONES if not np.any(skeleton.offsets[skeleton.index(joint)]))


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
    # Hands of a restored skeleton hang on the finger bases, where the wrists are
    roles = role_map(skeleton)
    if roles.profile == "cmu-bvh" and set(_LOST_BONES).issubset(skeleton.names):
        wrists = {role: skeleton.index(joint) for role, joint in _WRISTS.items()}
        roles = RoleMap({**roles.joints, **wrists}, roles.profile, roles.report)
    stand = place_landmarks(skeleton, roles, table, height)
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

"""What a user asks of an edited clip: points somewhere at a time, poses at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.dynamics import PRISMATIC
from marey.motion import Contacts, Motion, contact_positions, find_runs
from marey.skeleton import Pose, contact_points
from marey.spacetime.repair.programme import AngleRows, PointRows
from marey.spacetime.repair.window import DisplacementProblem, FootprintShift, find_limb, find_touching_points

SAME_M: Final = 1e-3  # pins that ask for places farther apart contradict one another
KEY_BAND: Final = 0.01  # [rad], and metres of the root
AROUND_S: Final = 1.0  # [s] how far from a goal a clip changes
POSE_TOL: Final = 0.05  # [rad] what the joints of a tree may lose of a key pose


@dataclass(frozen=True, slots=True, eq=False)
class PointPin:
    """A point of the body that is at a place at a time.

    A pin on a heel or toe while it stands moves the whole footprint.
    """

    point: str  # left_heel, right_toe, left_hand, ..., or the name of a joint
    time_s: float
    place: FloatArray  # (3,) [m] in world
    band_m: float = 0.005  # how far off it may be along each axis

    def __post_init__(self) -> None:
        place = np.asarray(self.place, dtype=np.float64)
        if place.shape != (3,) or not np.isfinite(place).all():
            raise InputError(f"pin of '{self.point}' at {place}", "Give three finite coordinates in metres")
        if not np.isfinite(self.time_s):
            raise InputError(f"pin of '{self.point}' at {self.time_s} s", "Give a finite time")
        if not (np.isfinite(self.band_m) and self.band_m > 0.0):
            raise InputError(f"pin of '{self.point}' with a band of {self.band_m} m", "It is positive")
        object.__setattr__(self, "place", frozen(place, 3, name="place"))


@dataclass(frozen=True, slots=True, eq=False)
class PoseKey:
    """A pose of the clip's skeleton at a time; the place of its root may be left open."""

    time_s: float
    pose: Pose
    holds_root: bool = True

    def __post_init__(self) -> None:
        if not np.isfinite(self.time_s):
            raise InputError(f"a key pose at {self.time_s} s", "Give a finite time")


REACHED_M: Final = 0.01  # [m] a pin this near to its place is reached


def measure_pin(motion: Motion, pin: PointPin) -> str | None:
    """By how much a clip misses a pin, in words; nothing if it is reached."""
    frame, known = round(pin.time_s * motion.rate_hz), contact_points(motion.skeleton).names
    if pin.point in known:
        place = contact_positions(motion)[frame, known.index(pin.point)]
    elif pin.point in motion.skeleton.names:
        place = motion[frame].joint_positions()[motion.skeleton.names.index(pin.point)]
    else:
        return None  # a point of the tree alone, between contact points
    off = float(np.linalg.norm(place - pin.place))
    if off <= max(REACHED_M, float(np.sqrt(3.0)) * pin.band_m):
        return None
    return f"{pin.point} is {1e3 * off:.0f} mm off its pin at {pin.time_s:.2f} s"


def find_footprint_shifts(motion: Motion, track: Contacts, pins: Sequence[PointPin]) -> tuple[FootprintShift, ...]:
    """Footprints that pins on standing heels, toes and hands move."""
    flags, positions = find_touching_points(motion, track), contact_positions(motion)
    known = contact_points(motion.skeleton).names
    steps: list[FootprintShift] = []
    for pin in pins:
        frame = round(pin.time_s * motion.rate_hz)
        for start, stop in find_runs(flags[pin.point]) if pin.point in flags else ():
            if start <= frame < stop:
                shift = pin.place - positions[frame, known.index(pin.point)]
                steps.append(FootprintShift(find_limb(pin.point), int(start), int(stop), shift))
    return tuple(steps)


def find_goal_window(
    motion: Motion, track: Contacts, pins: Sequence[PointPin], keys: Sequence[PoseKey]
) -> tuple[float | None, float | None]:
    """From a second before the first goal or moved footprint to a second after the last; None at an end of the clip."""
    steps = find_footprint_shifts(motion, track, pins)
    begins = [goal.time_s for goal in (*pins, *keys)] + [step.start / motion.rate_hz for step in steps]
    ends = [goal.time_s for goal in (*pins, *keys)] + [step.stop / motion.rate_hz for step in steps]
    if not begins or min(begins) < 0.0 or max(ends) > motion.duration_s + 1.0 / motion.rate_hz:
        return None, None  # without goals, or with some that will be refused
    start, stop = min(begins) - AROUND_S, max(ends) + AROUND_S
    inside = (start > 0.5 * AROUND_S, stop < motion.duration_s - 0.5 * AROUND_S)
    return start if inside[0] else None, stop if inside[1] else None


def pin_rows(stage: DisplacementProblem, pins: Sequence[PointPin]) -> PointRows:
    """Three rows for each pin on a contact point, or on a joint that turns."""
    found: list[tuple[int, tuple[int, FloatArray], FloatArray, float, str]] = []
    points, figure = dict(stage.figure.points), stage.figure.figure
    joints = {} if figure is None else dict(zip(figure.skeleton.names, figure.joint_dofs, strict=True))
    known = points | {name: (dofs[-1], np.zeros(3)) for name, dofs in joints.items() if dofs and name not in points}
    for pin in pins:
        if pin.point not in known:
            raise UnknownNameError("point", pin.point, "this body", list(known))
        label = f"{pin.point} at its pin, {pin.time_s:.2f} s"
        found.append((_nearest_instant(stage, pin.time_s), known[pin.point], pin.place, pin.band_m, label))
    return PointRows.from_entries(found)


def key_rows(stage: DisplacementProblem, keys: Sequence[PoseKey]) -> AngleRows:
    """One row for each coordinate of each key pose."""
    found: list[tuple[int, int, float, float, str]] = []
    for key in keys:
        n = _nearest_instant(stage, key.time_s)
        near = stage.q[stage.instants[n]]
        pose, clip = key.pose, stage.clip
        if pose.skeleton.names != clip.skeleton.names:
            raise InputError(f"the key pose at {key.time_s:g} s is of another skeleton", "Retarget it first")
        one = Motion(
            skeleton=clip.skeleton,
            rate_hz=clip.rate_hz,
            root_positions=pose.root_position[None],
            rotations=pose.rotations[None],
        )
        # Coordinates of the pose, by whole turns nearest to those of the clip
        q: FloatArray = np.array(stage.tree.from_motion(stage.body.motion(one))[0], dtype=np.float64)
        turns = np.flatnonzero(stage.tree.kinds != PRISMATIC)
        q[turns] += 2.0 * np.pi * np.rint((near[turns] - q[turns]) / (2.0 * np.pi))
        # What the joints of the tree cannot take of the pose
        lost = (stage.tree.to_motion(q[None], clip.rate_hz).rotations[0].inverse() @ pose.rotations).log()
        angles = np.linalg.norm(lost, axis=-1)
        if angles.max() > POSE_TOL:
            joint = clip.skeleton.names[int(angles.argmax())]
            raise InputError(
                f"the key pose at {key.time_s:g} s turns '{joint}' by {angles.max():.2f} rad beyond its axes",
                "In this clip it is a hinge, or stiff",
            )
        for i, name in enumerate(stage.tree.names):
            if key.holds_root or stage.tree.kinds[i] != PRISMATIC:
                label = f"{name} of the key pose, {key.time_s:.2f} s"
                found.append((n, i, float(q[i]) - KEY_BAND, float(q[i]) + KEY_BAND, label))
    return AngleRows.from_entries(found)


def _nearest_instant(stage: DisplacementProblem, time_s: float) -> int:
    return int(np.searchsorted(stage.instants, round(time_s * stage.clip.rate_hz)))

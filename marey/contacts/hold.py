"""Feet of a clip on the ground: they stay where they stand, and clear the floor where they swing."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from marey.base import FloatArray, InputError, Result
from marey.contacts.ankles import mend_ankles
from marey.contacts.body import BodyPosture, mean_leg_length, require_legs
from marey.contacts.detection.methods import detect_contacts
from marey.contacts.feet import PlantEdit
from marey.contacts.floor import FloorPlane
from marey.contacts.legs import PlantedFeet
from marey.contacts.plants import DEFAULT_HOLD, LEG_M, POINTS, HoldSettings, find_foot_modes
from marey.contacts.schedule import ContactSchedule, FootPlant, trim_contacts
from marey.lie import SO3
from marey.motion import Contacts, Motion, find_runs
from marey.skeleton import require_human, restored_roles


@dataclass(frozen=True, slots=True)
class BrokenPlant:
    """A stretch of a plant in which its point is not where it should stay, measured on the result."""

    foot: str
    point: str
    start: int
    stop: int
    distance_m: float  # farthest from its place
    start_s: float
    stop_s: float

    def __str__(self) -> str:
        return f"{self.foot} {self.point} at {self.start_s:.2f}-{self.stop_s:.2f} s, {1e3 * self.distance_m:.0f} mm off"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HoldResult(Result):
    """A clip whose feet are held, where they stand, and which plants could not be kept."""

    before: Motion
    motion: Motion  # its contact track is that of the schedule, broken plants included
    schedule: ContactSchedule
    broken: tuple[BrokenPlant, ...]
    floor: FloorPlane
    repairs: tuple[str, ...] = ()  # what was wrong with the clip before

    @property
    def sentence(self) -> str:
        """For people."""
        count = f"{len(self.schedule)} foot plant{'' if len(self.schedule) == 1 else 's'}"
        return f"{count}, {len(self.broken)} broken" + (f": {self.broken[0]}" if self.broken else "")

    def table_rows(self) -> list[dict[str, Any]]:
        """One row for each plant."""
        rows: list[dict[str, Any]] = []
        for plant in self.schedule:
            own = [b for b in self.broken if (b.foot, b.point) == (plant.foot, plant.point) and b.start < plant.stop]
            off = max((b.distance_m for b in own if b.start >= plant.start), default=0.0)
            row = {"foot": plant.foot, "point": plant.point, "start": plant.start, "stop": plant.stop}
            rows.append(row | dict(zip("xyz", map(float, plant.place), strict=True)) | {"broken_m": off})
        return rows

    def to_json(self) -> dict[str, Any]:
        """Facts for a report."""
        return {"plants": len(self.schedule), "broken": [asdict(plant) for plant in self.broken]}


def hold_feet(
    motion: Motion,
    contacts: Contacts | None = None,
    settings: HoldSettings = DEFAULT_HOLD,
    *,
    floor_m: float | None = None,
    edit: PlantEdit | None = None,
    shift: FloatArray | None = None,
) -> HoldResult:
    r"""Hold the feet of a clip where they stand ([Glardon2005]_ §III.2.4), over the whole clip at once.

    A foot is heel, ball and toe. In contact it turns about its heel as it lands, stands flat, and turns about its toes:
    one of them stays at its place on the ground. Corrections :math:`c` of the foot are exact in contact and fade over
    the swings,

    .. math:: \min_c \sum_t \rho\,|c_t|^2 + \tau^4 |\ddot c_t|^2 \quad\text{with } c_t \text{ given in contact},

    and a swing keeps its height over the ground. The pelvis follows the standing foot, so that knees bend as much as
    they did; a heel whose leg is too short for its place rises, and only then the pelvis is lowered. Knees bend in
    the plane in which the clip bends them, also where they were straight or hyperextended.

    What differs from the thesis: it enforces ankle and toe with one ease of given length, frame by frame.

    Args:
        motion: any clip of a human with two legs.
        contacts: which heels and toes are down; the clip's own track, or a detected one, where it is not given.
        settings: how feet are held.
        floor_m: height of the floor; if not given, a plane is fitted to the plants. Plants on steps keep their height.
        edit: changes where feet stand, such as :func:`pigeon_toe`.
        shift: moves the body over its feet, ``(F, 2)`` [m] along x and z.

    Returns:
        The clip, the schedule of its plants, and those that could not be kept: a leg was too short, or its knee would
        have turned too fast.

    Raises:
        InputError: the skeleton is no human or has no legs, its bones change their length, or a number is not finite.
    """
    if motion.translations is not None:
        raise InputError("the bones of this clip change their length", "Retarget it first: marey.retarget(motion)")
    if floor_m is not None and not np.isfinite(floor_m):
        raise InputError(f"floor_m is {floor_m}", "Give a height in metres")
    few = slice(None, None, max(1, motion.num_frames // 8))
    require_human(motion.skeleton, "holding feet", motion[few].joint_positions())
    require_legs(motion.skeleton, restored_roles(motion.skeleton))
    before = motion
    motion, mended = mend_ankles(motion, restored_roles(motion.skeleton))
    body = BodyPosture.from_motion(motion)
    # What is down: as told or as seen, from where each point has come to rest to where it leaves
    track = motion.contacts if contacts is None else contacts
    track = detect_contacts(motion) if track is None else track
    if len(track) != motion.num_frames:
        raise InputError(f"contacts of {len(track)} frames", f"The clip has {motion.num_frames}")
    touch_m = settings.touch_m * mean_leg_length(motion.skeleton, body.roles) / LEG_M
    heights = motion.map_frames(lambda positions, frames: body.sole.positions(positions, frames)[..., 1])
    track = trim_contacts(track, body, heights, touch_m, settings.tilt)
    modes = find_foot_modes(track, round(settings.flicker_s * motion.rate_hz))
    floor = None if floor_m is None else FloorPlane(float(floor_m), np.zeros(2))
    # Plants on a floor that somebody gave are on it
    settings = settings if floor is None else replace(settings, uneven_m=0.0)
    feet = PlantedFeet.measure(body, modes, motion.rate_hz, settings, floor=floor, edit=edit)
    feet = feet if shift is None else replace(feet, stand=body.move_by(np.insert(shift, 1, 0.0, axis=1)))
    feet = (feet.keep_soles() if floor is None else feet).release_heels()
    wxyz = motion.rotations.wxyz.copy()
    roots, plans = feet.plant(wxyz)
    plants = [
        FootPlant(side, POINTS[run.mode], start, stop, place, float(plan.ground[start]))
        for side, plan in plans.items()
        for plant, places in zip(plan.plants, plan.places, strict=True)
        for run, place in zip(plant, places, strict=True)
        for start, stop in plan.find_stays(run)
    ]
    plants.sort(key=lambda plant: (plant.start, plant.foot))
    schedule = ContactSchedule(tuple(plants), motion.num_frames, motion.rate_hz)
    moved = replace(
        motion,
        root_positions=roots,
        rotations=SO3(wxyz),
        contacts=schedule.to_contacts(track),
        source=before.edited_source(),
    )
    broken = find_broken_plants(moved, schedule, body, settings)
    return HoldResult(before, moved, schedule, broken, feet.floor, (mended,) if mended else ())


def find_broken_plants(
    motion: Motion, schedule: ContactSchedule, body: BodyPosture, settings: HoldSettings = DEFAULT_HOLD
) -> tuple[BrokenPlant, ...]:
    """Stretches of a motion in which a planted point is farther from its place than ``HoldSettings.broken_m``."""
    found, points = list[BrokenPlant](), motion.map_frames(body.sole.positions)
    for plant in schedule:
        at = points[plant.start : plant.stop, body.sole.index(plant.sole_point)]
        away = np.linalg.norm(at - plant.place, axis=-1)
        for start, stop in find_runs(away > settings.broken_m, 0):
            first, last = plant.start + start, plant.start + stop
            times = (first / motion.rate_hz, (last - 1) / motion.rate_hz)
            found.append(BrokenPlant(plant.foot, plant.point, first, last, float(away[start:stop].max()), *times))
    return tuple(found)


def pigeon_toe(angle_rad: float) -> PlantEdit:
    """Edit that turns the toes of both feet inwards by an angle; ankles stay ([Glardon2005]_ §III.2.5).

    A negative angle turns them out.
    """
    if not abs(angle_rad) < np.pi / 2:
        raise InputError(f"angle_rad is {angle_rad}", "Give an angle of less than a quarter turn, in radians")

    def turn_inwards(foot: str, ankle: FloatArray, heading_rad: float) -> tuple[FloatArray, float]:
        return ankle, heading_rad + (angle_rad if foot == "right" else -angle_rad)

    return turn_inwards

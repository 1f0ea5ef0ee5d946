"""Captured takes, cleaned in one pass of steps; and the physics touch-up of stretches that no body could make."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marey.base import MareyError, Result, UnknownNameError
from marey.contacts import FloorPlane, detect_contacts, hold_feet
from marey.kinematics.hinges import HINGE_SETTINGS, HingeSettings, straighten_hinges
from marey.lie import SO3, geodesic_distance
from marey.measure import measure_motion
from marey.motion import Motion, align_to_ground, check_time_base, contact_positions
from marey.motion.cleaning import (
    GAP_SETTINGS,
    JUMP_SETTINGS,
    TREMOR_SETTINGS,
    Correction,
    GapSettings,
    JumpSettings,
    TremorSettings,
    drop_repeated_frames,
    fill_gaps,
    remove_spikes,
    remove_tremor,
    undo_exchanges,
    undo_flips,
    undo_root_jumps,
)
from marey.pipeline.measures import check_motion
from marey.skeleton import contact_points
from marey.world import Sketch

if TYPE_CHECKING:
    from marey.dynamics import ValidityReport


@dataclass(frozen=True, slots=True)
class CleaningSettings:
    """What each step takes for a defect."""

    gaps: GapSettings = GAP_SETTINGS
    jumps: JumpSettings = JUMP_SETTINGS
    tremor: TremorSettings = TREMOR_SETTINGS
    hinges: HingeSettings = HINGE_SETTINGS
    least_tilt_rad: float = float(
        np.deg2rad(0.3)
    )  # of a floor that is levelled; less is within a capture's calibration
    least_height_m: float = 0.005  # of a floor that is moved to zero
    floor_reach_m: float = 1.0  # plants spread over less say nothing about a tilt
    repair_time_s: float = 60.0  # for the physical repair of all stretches


CLEANING_SETTINGS: Final = CleaningSettings()


@dataclass(frozen=True, slots=True, eq=False)
class CleaningStep:
    """What one step changed, measured on the motions before and after it."""

    name: str
    findings: tuple[str, ...]  # sentences; also for what was found and left
    frames: int  # in which a joint moved by more than 0.1 mm or turned by more than 0.01 degrees; all at a new rate
    largest_mm: float  # furthest that a joint moved in world
    largest_deg: float  # furthest that a joint was turned

    @property
    def sentence(self) -> str:
        """For people."""
        if not self.frames:
            return f"{self.name}: nothing {'changed' if self.findings else 'to do'}"
        change = f"{self.frames} frames changed, by at most {self.largest_mm:.1f} mm and {self.largest_deg:.1f}°"
        return f"{self.name}: {change}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CleaningResult(Result):
    """A take after cleaning."""

    before: Motion
    motion: Motion
    steps: tuple[CleaningStep, ...]

    @property
    def sentence(self) -> str:
        """For people."""
        busy = [step.name for step in self.steps if step.frames]
        return f"'{self.motion.name}': changed by {', '.join(busy)}" if busy else f"'{self.motion.name}': unchanged"

    def table_rows(self) -> list[dict[str, Any]]:
        """One row for each step."""
        return [
            {
                "step": step.name,
                "findings": len(step.findings),
                "frames": step.frames,
                "largest_mm": step.largest_mm,
                "largest_deg": step.largest_deg,
            }
            for step in self.steps
        ]

    def to_json(self) -> dict[str, Any]:
        """Facts for a report."""
        return {
            "steps": [
                row | {"found": list(step.findings)} for row, step in zip(self.table_rows(), self.steps, strict=True)
            ]
        }


def correct_time_base(motion: Motion) -> Correction:
    """Play a clip at the rate of its capture, where :func:`marey.motion.check_time_base` is sure of another."""
    smooth = drop_repeated_frames(motion)
    base = check_time_base(smooth.motion)
    if not base.is_suspect:
        doubt = () if base.is_testable else (f"{base.rate_hz:g} Hz is kept: nothing in the motion tells its rate",)
        return Correction(smooth.motion, (*smooth.findings, *doubt))
    sentence = f"played at {base.suggested_rate_hz:g} Hz, not {base.rate_hz:g}: {base.evidence[0]}"
    motion = replace(smooth.motion, rate_hz=base.suggested_rate_hz, source=smooth.motion.edited_source())
    return Correction(motion, (*smooth.findings, sentence))


def level_floor(motion: Motion, settings: CleaningSettings = CLEANING_SETTINGS) -> Correction:
    """Turn a tilted floor level and bring it to height zero; the floor is the plane through the plants of the feet."""
    findings: list[str] = []
    contacts = detect_contacts(motion) if motion.contacts is None else motion.contacts
    names = [name for name in contacts.names if name.endswith(("heel", "toe"))]
    points = contact_positions(motion)[:, [contact_points(motion.skeleton).index(name) for name in names]]
    down = np.stack([contacts.track(name) for name in names], axis=1) if names else np.zeros((0, 0), np.bool_)
    plants = points[down] if down.any() else np.zeros((0, 3))
    if len(plants) and np.ptp(plants[:, [0, 2]], axis=0).max() > settings.floor_reach_m:
        slope = FloorPlane.fit(plants).slope
        tilt = float(np.arctan(np.linalg.norm(slope)))
        # Plants on stairs and slopes fit no plane: only what one plane explains is a tilted floor
        flat = plants[:, 1] - plants[:, [0, 2]] @ slope
        if tilt > settings.least_tilt_rad and np.std(flat) < 0.7 * np.std(plants[:, 1]):
            normal = np.array([-slope[0], 1.0, -slope[1]])
            # Turn the take about the middle of its plants, so that the plane through them is level
            R = SO3.from_two_vectors(normal / np.linalg.norm(normal), (0.0, 1.0, 0.0))
            centre = plants.mean(axis=0)
            wxyz = motion.rotations.wxyz.copy()
            wxyz[:, 0] = (R @ motion.rotations[:, 0]).wxyz
            positions = R @ (motion.root_positions - centre) + centre
            motion = replace(motion, root_positions=positions, rotations=SO3(wxyz), source=motion.edited_source())
            findings.append(f"floor tilted by {np.rad2deg(tilt):.1f}°: levelled")
    lowered = align_to_ground(motion)
    height = float(motion.root_positions[0, 1] - lowered.root_positions[0, 1])
    if abs(height) > settings.least_height_m:
        motion = lowered
        findings.append(f"floor at {100 * height:.1f} cm: moved to zero")
    return Correction(motion, tuple(findings))


def hold_plants(motion: Motion) -> Correction:
    """Hold feet where they stand, if the meter agrees that they scrape less for it; tell the plants that broke."""
    held = hold_feet(motion)
    was, now = (float(measure_motion(one).scraped_m[-1]) for one in (motion, held.motion))
    figures = f"feet scrape {now:.2f} m, {was:.2f} without"
    if now > was:
        return Correction(motion, (f"foot plants not held: {figures}",))
    broken = tuple(f"foot plant broken: {plant}" for plant in held.broken)
    return Correction(held.motion, (f"{len(held.schedule)} foot plants held: {figures}", *broken))


def repair_physics(motion: Motion, settings: CleaningSettings = CLEANING_SETTINGS) -> Correction:
    """Move stretches that no body could make as little as needed; a stretch that gets no better stays."""
    done = repair_motion(motion, limit_s=settings.repair_time_s)
    words = {True: "repaired", False: "not repaired: no more of the clip would be valid"}
    found = tuple(f"{start_s:.2f}-{stop_s:.2f} s {words[is_kept]}" for start_s, stop_s, is_kept in done.stretches)
    return Correction(
        done.motion, found and (*found, f"{done.after:.0%} of the frames valid, {done.before:.0%} before")
    )


Step = Callable[[Motion, CleaningSettings], Correction]
STEPS: Final[dict[str, Step]] = {
    "time-base": lambda motion, _: correct_time_base(motion),
    "gaps": lambda motion, settings: fill_gaps(motion, settings.gaps),
    "exchanges": lambda motion, _: undo_exchanges(motion),
    "flips": lambda motion, settings: undo_flips(motion, settings.jumps),
    "spikes": lambda motion, settings: remove_spikes(motion, settings.jumps),
    "jumps": lambda motion, settings: undo_root_jumps(motion, settings.jumps),
    "limits": lambda motion, settings: Correction(*straighten_hinges(motion, settings.hinges)),
    "tremor": lambda motion, settings: remove_tremor(motion, settings.tremor),
    "floor": lambda motion, settings: level_floor(motion, settings),
    "plants": lambda motion, _: hold_plants(motion),
    "repair": lambda motion, settings: repair_physics(motion, settings),
}
OPTIONAL_STEPS: Final = ("repair",)  # minutes of work, and a larger change than any other: only where it is asked for
DEFAULT_STEPS: Final = tuple(name for name in STEPS if name not in OPTIONAL_STEPS)


def clean_motion(
    motion: Motion,
    *,
    steps: Iterable[str] = DEFAULT_STEPS,
    settings: CleaningSettings = CLEANING_SETTINGS,
    progress: Callable[[str], None] = lambda step: None,
) -> CleaningResult:
    """Clean a captured take: time base, gaps, exchanged limbs, flips, spikes, jumps, limits, tremor, floor, plants.

    Args:
        motion: the take, of a human.
        steps: names of ``STEPS``; they run in that order, whatever the order given.
        settings: thresholds of the steps.
        progress: called with the name of each step before it runs.

    Raises:
        UnknownNameError: there is no such step.
        InputError: the skeleton has no legs where a step needs them.
    """
    wanted = tuple(steps)
    for name in wanted:
        if name not in STEPS:
            raise UnknownNameError("step", name, "the cleaning", tuple(STEPS))
    before, done = motion, list[CleaningStep]()
    for name in STEPS:
        if name in wanted:
            progress(name)
            correction = STEPS[name](motion, settings)
            # Measure what a step changed, whatever it says of itself
            after = correction.motion
            if after is motion:
                account = CleaningStep(name, correction.findings, 0, 0.0, 0.0)
            else:
                moved = np.linalg.norm(after.joint_positions() - motion.joint_positions(), axis=-1).max(axis=1)
                turned = np.rad2deg(geodesic_distance(after.rotations, motion.rotations)).max(axis=1)
                changed = (moved > 1e-4) | (turned > 0.01) | (after.rate_hz != motion.rate_hz)
                account = CleaningStep(
                    name, correction.findings, int(changed.sum()), 1e3 * float(moved.max()), float(turned.max())
                )
            done.append(account)
            motion = correction.motion
    return CleaningResult(before, motion, tuple(done))


STRETCH_MARGIN_S: Final = 0.35  # [s] on either side of red frames that may change
MAX_STRETCH_S: Final = 3.0  # [s] of one stretch: longer ones are repaired in parts
REPAIR_TIME_LIMIT_S: Final = 60.0  # [s] for all
MAX_SCRAPED_M: Final = 0.02  # [m] that feet may scrape more after a repair
MAX_OFF_CORRIDOR_M: Final = 0.01
MAX_PENETRATION_MM: Final = 5.0
REACH_TOLERANCE_M: Final = 0.001


@dataclass(frozen=True, slots=True, eq=False)
class SketchRepair:
    """A motion after its red stretches were repaired."""

    motion: Motion
    before: float  # [-] part of the frames that is valid
    after: float
    stretches: tuple[tuple[float, float, bool], ...]  # begin and end [s], and whether its repair was better and kept
    seconds: float

    @property
    def kept(self) -> int:
        """Stretches whose repair was kept."""
        return sum(is_kept for *_, is_kept in self.stretches)

    def to_json(self) -> dict[str, Any]:
        """Facts for a report."""
        facts = {"tried": len(self.stretches), "kept": self.kept, "valid_before": round(self.before, 4)}
        return facts | {"valid_after": round(self.after, 4), "took_s": round(self.seconds, 3)}

    @property
    def sentence(self) -> str:
        """For people."""
        shares = f"{self.before:.0%} of the frames valid before, {self.after:.0%} after"
        return f"{self.kept} of {len(self.stretches)} red intervals repaired: {shares}"


def repair_motion(
    motion: Motion, sketch: Sketch | None = None, *, limit_s: float = REPAIR_TIME_LIMIT_S
) -> SketchRepair:
    """Repair red stretches one by one ([Fang2003]_ F25-F27); a repair is kept if more of the whole clip is valid.

    Args:
        motion: with contacts.
        sketch: corridor, rivers and things to reach, which stay as well kept as they were.
        limit_s: time for all of it.
    """
    from marey.dynamics import check_validity

    began = time.perf_counter()
    first = report = check_validity(motion)
    found, stretches = list[tuple[float, float, bool]](), find_invalid_stretches(report, motion.rate_hz)
    for number, (start_s, stop_s) in enumerate(stretches):
        left = limit_s - (time.perf_counter() - began)
        moved = None
        if left > 0.0:
            moved = repair_stretch(motion, start_s, stop_s, left / (len(stretches) - number))
        # Judged over the whole clip, not by the solver
        is_kept = moved is not None and (sketch is None or _keeps_sketch(motion, moved, sketch))
        again = check_validity(moved) if is_kept and moved is not None else report
        is_kept = again.valid_fraction > report.valid_fraction
        if is_kept and moved is not None:
            motion, report = moved, again
        found.append((start_s, stop_s, is_kept))
    took = time.perf_counter() - began
    return SketchRepair(motion, first.valid_fraction, report.valid_fraction, tuple(found), took)


def _keeps_sketch(motion: Motion, moved: Motion, sketch: Sketch) -> bool:
    """Whether a repaired motion keeps to the sketch as well as it did, or within the bars."""
    old, new = check_motion(motion, sketch), check_motion(moved, sketch)
    reaches = zip(measure_reaches(motion, sketch), measure_reaches(moved, sketch), strict=True)
    return (
        new.scraped_m <= old.scraped_m + MAX_SCRAPED_M
        and len(new.things) <= len(old.things)
        and new.off_corridor_m <= max(MAX_OFF_CORRIDOR_M, old.off_corridor_m)
        and new.penetration_mm <= max(MAX_PENETRATION_MM, old.penetration_mm)
        and new.wet_plants <= old.wet_plants
        and all(now <= max(REACH_TOLERANCE_M, was + 1e-6) for was, now in reaches)
    )


def find_invalid_stretches(report: ValidityReport, rate_hz: float) -> list[tuple[float, float]]:
    """Times [s] round red frames, joined where they meet, cut where they are long."""
    last = (report.num_frames - 1) / rate_hz
    found: list[tuple[float, float]] = []
    for frame in np.flatnonzero(report.levels == 2):
        # The margin round a red frame; joined to the stretch before it while that stays short enough
        low, high = max(0.0, frame / rate_hz - STRETCH_MARGIN_S), min(last, frame / rate_hz + STRETCH_MARGIN_S)
        if found and low <= found[-1][1] and high - found[-1][0] <= MAX_STRETCH_S:
            found[-1] = (found[-1][0], high)
        elif not found or high > found[-1][1]:
            found.append((max(low, found[-1][1]) if found else low, high))
    return [(low, high) for low, high in found if high - low > STRETCH_MARGIN_S]


def repair_stretch(motion: Motion, start_s: float, stop_s: float, limit_s: float) -> Motion | None:
    """Return the motion with one stretch repaired within a time, or ``None`` where more of it would not be valid."""
    from marey.spacetime import make_valid

    try:
        result = make_valid(motion, start_s=start_s, stop_s=stop_s, time_limit_s=limit_s, on_failure="return")
    except MareyError:
        return None  # nothing to stand on there, or no way: it stays red
    return result.motion if result.after.valid_fraction > result.before.valid_fraction else None


def measure_reaches(motion: Motion, sketch: Sketch) -> list[float]:
    """How near [m] a hand ever comes to each thing that is picked up or put down."""
    points, names = contact_positions(motion), contact_points(motion.skeleton).names
    hands = points[:, [k for k, name in enumerate(names) if name.endswith("hand")]]
    events = [event for event in sketch.events if event.kind in ("pick", "place")]
    placed = [e.to if e.kind == "place" else sketch.world.object(e.object or "").position for e in events]
    return [float(np.linalg.norm(hands - np.array(place), axis=-1).min()) for place in placed if place is not None]

"""One pass over a captured take: every defect that is found is mended, each step on its own account."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from marey.base import Result, UnknownNameError
from marey.contacts import FloorPlane, detect_contacts, hold_feet
from marey.kinematics.hinges import HINGE_SETTINGS, HingeSettings, straighten_hinges
from marey.lie import SO3, geodesic_distance
from marey.measure import measure_motion
from marey.motion import Motion, align_to_ground, check_time_base, contact_positions
from marey.motion.cleaning.gaps import GAP_SETTINGS, GapSettings, drop_repeated_frames, fill_gaps
from marey.motion.cleaning.interpolation import Correction
from marey.motion.cleaning.jumps import (
    JUMP_SETTINGS,
    JumpSettings,
    remove_spikes,
    undo_exchanges,
    undo_flips,
    undo_root_jumps,
)
from marey.motion.cleaning.tremor import TREMOR_SETTINGS, TremorSettings, remove_tremor
from marey.skeleton import contact_points


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
    from marey.pipeline.repair import repair_motion

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

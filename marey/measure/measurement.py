"""`measure`: every figure of a clip beside what captured people do, and what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, InputError, Result, UnknownNameError, save_figure
from marey.measure.faults import Fault, MeasuredGround, find_faults, find_obstacle_contacts, measure_rests
from marey.measure.feet import FootMeasures, count_short_steps, find_flight_arcs, measure_feet
from marey.measure.posture import measure_bending, measure_carriage, measure_course, measure_limbs, measure_turns
from marey.measure.published import ALIGNED_S, compare_frames, measure_published
from marey.measure.tracks import MeasuredBody, MeterSettings
from marey.motion import Motion, find_runs
from marey.skeleton import RoleMap
from marey.world import World

KINDS: Final = ("walk", "run", "jump", "other")
TABLE: Final = Path(__file__).with_name("typical.json")
FLIGHT_S: Final = 0.03  # [s] a shorter time in the air is noise of a heel strike
JUMP_FLIGHT_S: Final = 0.22  # [s] flights of runs, without take-off and landing, are shorter
SLOW_FLIGHT_S: Final = 0.10  # [s] ... and nobody flies so long who is slower than a run
RUN_MPS: Final = 1.7
WALK_MPS: Final = 0.25


@cache
def read_typical() -> Mapping[str, Any]:
    """The table that ships: for each kind its clips and, by figure, the 1st and 99th percentile over them."""
    return json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.is_file() else {}


def find_typical_range(kind: str, figure: str) -> tuple[float, float] | None:
    """1st and 99th percentile of a figure over the captured clips of a kind; none where no clip has it."""
    found = read_typical().get(kind, {}).get("figures", {}).get(figure)
    return None if found is None else (float(found[0]), float(found[1]))


def estimate_kind(tracks: MeasuredBody, feet: FootMeasures, speed_mps: float) -> str:
    """Say whether a clip walks, runs or jumps, by its speed and its longest time in the air."""
    runs = find_runs(feet.is_in_air)
    longest = max((stop - start for start, stop in runs), default=0) / tracks.rate_hz
    if longest > JUMP_FLIGHT_S or (longest > SLOW_FLIGHT_S and speed_mps < RUN_MPS):
        return "jump"
    if speed_mps >= RUN_MPS and longest > FLIGHT_S:
        return "run"
    return "walk" if speed_mps > WALK_MPS and len(feet.swings) > 1 else "other"


LEAST_METER_FRAMES: Final = 12  # shorter clips have no steps to measure
LEAST_WAY_M: Final = 1.0  # [m] on a shorter way nothing is counted per 10 m
WHOLE_PART: Final = 0.95  # [-] of a clip: a fault that lasts longer is that of the whole clip, and is not shaded
DRAGGING_M: Final = 0.003  # [m] a sole this low in the middle of a swing drags
STEP_FACTOR, STEP_EXTRA_DEG = 1.5, 3.0  # a joint step above 1.5 times the source's and 3 degrees was added to it
UNITS: Final = {
    "_m_per_10m": "m/10 m", "_m_per_s": "m/s", "_mps2": "m/s2", "_mps": "m/s", "_deg_per_s2": "deg/s2", "_deg": "deg",
    "_mm": "mm", "_m": "m", "_share": "share", "_ratio": "share", "_frames": "frames", "_flips": "times", "_g": "g",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MeasuredFigure:
    """One number, beside the captures of the same kind and beside the source."""

    name: str
    value: float
    unit: str
    low: float | None = None  # 1st percentile of captured clips of this kind
    high: float | None = None  # 99th
    source: float | None = None  # the same figure of the clip that it was made from

    @property
    def remark(self) -> str:
        """``low`` or ``high`` where the value is outside the captured range, else nothing."""
        if self.low is None or self.high is None or self.low <= self.value <= self.high:
            return ""
        return "low" if self.value < self.low else "high"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Measurement(Result):
    """What the meter says about a clip."""

    name: str
    kind: str  # "walk", "run", "jump", "other": whose captures stand beside the figures
    is_kind_given: bool
    figures: tuple[MeasuredFigure, ...]
    faults: tuple[Fault, ...]
    scraped_m: FloatArray  # (F,) way of both feet over their floor, summed from the start
    rate_hz: float

    def __getitem__(self, name: str) -> float:
        """Return a figure by its name."""
        for figure in self.figures:
            if figure.name == name:
                return figure.value
        raise UnknownNameError("figure", name, "this measurement", [figure.name for figure in self.figures])

    def __contains__(self, name: object) -> bool:
        return any(figure.name == name for figure in self.figures)

    @property
    def values(self) -> dict[str, float]:
        """Every figure by its name."""
        return {figure.name: figure.value for figure in self.figures}

    @property
    def sentence(self) -> str:
        """The verdict in a line."""
        kind = self.kind if self.is_kind_given else f"{self.kind} by its looks"
        first = next(iter(self.faults), None)
        if first is None:
            return f"'{self.name}', {kind}: no fault"
        count = f"{len(self.faults)} fault{'s' if len(self.faults) > 1 else ''}"
        return f"'{self.name}', {kind}: {count}, first: {first}"

    def table_rows(self) -> list[dict[str, Any]]:
        """One row for each figure."""
        return [asdict(figure) | {"remark": figure.remark} for figure in self.figures]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "kind_given": self.is_kind_given,
            "faults": [asdict(fault) for fault in self.faults],
            "figures": {figure.name: asdict(figure) | {"remark": figure.remark} for figure in self.figures},
        }

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the way scraped over time, and every figure between the 1st and 99th percentile of captures."""
        from matplotlib.figure import Figure

        ranged = [figure for figure in self.figures if figure.low is not None and figure.high is not None]
        drawing: Any = Figure(figsize=(8.0, 2.5 + 0.22 * len(ranged)), layout="constrained")
        above, below = drawing.subplots(2, 1, height_ratios=[2.0, 0.5 + 0.22 * len(ranged)])
        above.plot(np.arange(len(self.scraped_m)) / self.rate_hz, self.scraped_m)
        above.set(xlabel="time [s]", ylabel="scraped [m]", title=f"{self.name}, {self.kind}: {len(self.faults)} faults")
        above.margins(x=0.0)
        for fault in self.faults:
            if fault.stop_s - fault.start_s > WHOLE_PART * len(self.scraped_m) / self.rate_hz:
                continue
            above.axvspan(fault.start_s, max(fault.stop_s, fault.start_s + 1.0 / self.rate_hz), alpha=0.2, color="red")
        for row, figure in enumerate(ranged):
            # 0 is the 1st percentile, 1 the 99th; what lies far outside is drawn at the edge
            span = max(float(figure.high or 0.0) - float(figure.low or 0.0), 1e-12)
            at = float(np.clip((figure.value - float(figure.low or 0.0)) / span, -0.5, 1.5))
            below.plot(at, row, "o", color="red" if figure.remark else "black")
        below.axvspan(0.0, 1.0, alpha=0.15, color="grey")
        below.set(xlim=(-0.6, 1.6), yticks=range(len(ranged)), yticklabels=[figure.name for figure in ranged])
        below.set(xticks=[0.0, 1.0], xticklabels=["1 % of captures", "99 %"], ylim=(len(ranged) - 0.5, -0.5))
        if path is not None:
            save_figure(drawing, path)
        return drawing


def measure_motion(
    motion: Motion,
    *,
    against: Motion | None = None,
    world: World | None = None,
    ground: MeasuredGround | None = None,
    kind: str | None = None,
    roles: RoleMap | None = None,
    settings: MeterSettings | None = None,
) -> Measurement:
    """Measure a clip by geometry alone: no contact track, mask or tolerance of an engine is read.

    Args:
        motion: a clip of any human skeleton, 30 to 240 frames a second.
        against: the clip it was made from; its figures stand beside, and where both last equally long
            L2P, L2Q and NPSS are added, and joint steps that the source does not have are faults.
        world: what a body may stand on and may not be inside of.
        ground: height of the ground, such as :class:`marey.locomotion.Slope` or ``Stairs``; without it there is a
            floor at height zero. Scraping and clearance need none: each sole point has its own floor.
        kind: ``walk``, ``run``, ``jump`` or ``other``; by default estimated from the motion.
        roles: the joint of each role; found by default.
        settings: thresholds.

    Raises:
        InputError: the skeleton is no human (roles given by hand are trusted), or has no two legs.
    """
    # Refuse a kind that the table does not know
    if kind is not None and kind not in KINDS:
        raise InputError(f"a kind '{kind}' of motion", f"It is one of {', '.join(KINDS)}")
    settings = MeterSettings() if settings is None else settings
    found, feet, values, faults = _measure_clip(motion, (world, ground), kind, roles, settings)
    source_values: Mapping[str, float] = {}
    if against is not None:
        _, _, source_values, source_faults = _measure_clip(against, (world, ground), kind, None, settings)
        if abs(against.duration_s - motion.duration_s) <= ALIGNED_S:
            values |= compare_frames(motion, against)
        # Joint steps that the source does not have
        step, most = (found.get("joint_step_max_deg", np.nan) for found in (values, source_values))
        if step > STEP_FACTOR * most + STEP_EXTRA_DEG:
            text = f"a joint turns by {step:.0f}° in a frame at 120 Hz, in the source by at most {most:.0f}°"
            faults = (*faults, Fault("step", "joints", 0.0, motion.duration_s, step, text))
        values["source_faults"] = float(len(source_faults))
    figures: list[MeasuredFigure] = []
    for name, value in values.items():
        low, high = find_typical_range(found, name) or (None, None)
        unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), "")
        figures.append(MeasuredFigure(name, value, unit, low, high, source_values.get(name)))
    scraped = np.cumsum(feet.scraped.sum(axis=1))
    return Measurement(motion.name, found, kind is not None, tuple(figures), faults, scraped, motion.rate_hz)


def _measure_clip(
    motion: Motion,
    surroundings: tuple[World | None, MeasuredGround | None],
    kind: str | None,
    roles: RoleMap | None,
    settings: MeterSettings,
) -> tuple[str, FootMeasures, dict[str, float], tuple[Fault, ...]]:
    """Kind, feet, figures and faults of one clip."""
    world, ground = surroundings
    tracks = MeasuredBody.from_motion(motion, settings, roles)
    feet = measure_feet(tracks, settings)
    limbs = measure_limbs(tracks, settings)
    turns = measure_turns(tracks)
    arcs = find_flight_arcs(tracks, feet, settings)
    contacts = () if world is None else find_obstacle_contacts(tracks, feet, world, settings)
    values = measure_course(tracks, settings)
    # Figures of the feet over a whole clip
    scraped = float(feet.scraped.sum())
    values["scraped_m_per_s"] = scraped * tracks.rate_hz / tracks.num_frames
    if values["way_m"] > LEAST_WAY_M:
        values["scraped_m_per_10m"] = 10.0 * scraped / values["way_m"]
    middle = feet.slowest[feet.is_middle]
    if middle.size:
        values["stance_slip_p95_mps"] = float(np.percentile(middle, 95.0))
    values["short_steps_in_a_row"] = float(count_short_steps(tracks, feet))
    steps = [step for step in feet.steps if step.is_whole]
    if steps:
        values["stance_slip_median_mps"] = float(np.median([step.speed_mps for step in steps]))
        values["stance_slip_max_mps"] = max(step.speed_mps for step in steps)
        rests = measure_rests(tracks, feet, *surroundings)
        values["sole_rest_height_median_m"] = float(np.median(rests))
        values["sole_rest_height_max_m"] = float(rests.max())
        values["sole_rest_height_min_m"] = float(rests.min())
    if len(feet.drifts) >= settings.least_drifts:
        values["stance_drift_median_mps"] = float(np.median(feet.drifts))
    touches = (feet.heights < settings.near_m) & (tracks.ground_speeds < settings.scrape_mps)
    values["support_share"] = float(touches.any(axis=(1, 2)).mean())
    if feet.swings:
        clearances = np.array([swing.clearance_m for swing in feet.swings])
        values["swing_clearance_median_mm"] = 1e3 * float(np.median(clearances))
        values["swing_clearance_least_mm"] = 1e3 * float(clearances.min())
        values["swing_dragging_share"] = float((clearances < DRAGGING_M).mean())
    values |= measure_bending(tracks, limbs, turns[1], settings)
    values |= measure_carriage(tracks)
    if world is not None:
        inside = [contact.depths > settings.obstacle_m for contact in contacts]
        values["obstacle_frames"] = float(np.any(inside, axis=0).sum()) if inside else 0.0
        values["obstacle_depth_max_m"] = max((float(contact.depths.max()) for contact in contacts), default=0.0)
    if arcs:
        values["flight_gravity_median_g"] = float(np.median([arc.whole for arc in arcs]))
    values |= measure_published(tracks)
    kind = estimate_kind(tracks, feet, values["root_speed_mean_mps"]) if kind is None else kind
    whole = list[Fault]()
    # Feet that scrape farther over the whole clip than those of captured people
    scraped, limits = values.get("scraped_m_per_10m", 0.0), find_typical_range(kind, "scraped_m_per_10m")
    if limits is not None and scraped > settings.most_scraped * limits[1]:
        text = f"feet scrape {scraped:.1f} m per 10 m of way, in captured {kind}s at most {limits[1]:.1f} m"
        whole.append(Fault("scrape", "feet", 0.0, motion.duration_s, scraped, text))
    # Feet that move over the floor in most of their stances: the whole clip skates
    drift = values.get("stance_drift_median_mps", 0.0)
    if drift > (settings.most_run_drift_mps if kind == "run" else settings.most_drift_mps):
        text = f"standing feet slide at {drift:.2f} m/s in the median of the steps"
        whole.append(Fault("slide", "feet", 0.0, motion.duration_s, drift, text))
    faults = find_faults(tracks, feet, limbs, turns, arcs, contacts, world, settings, ground)
    return kind, feet, values, (*faults, *whole)

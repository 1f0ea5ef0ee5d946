"""Physics touch-up: red stretches of a motion are moved as little as needed so that a body could make them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marey.base import MareyError
from marey.motion import Motion, contact_positions
from marey.pipeline.measures import check_motion
from marey.skeleton import contact_points
from marey.world import Sketch

if TYPE_CHECKING:
    from marey.dynamics import ValidityReport


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

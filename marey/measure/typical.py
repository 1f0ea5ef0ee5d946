"""What captured walks, runs and jumps measure, and which of them a clip is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from marey.measure.feet import FootMeasures
from marey.measure.tracks import MeasuredBody
from marey.motion import find_runs

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

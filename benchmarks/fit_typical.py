"""Make the table of what captured walks, runs and jumps measure, and count false alarms on people left out of it.

    python benchmarks/fit_typical.py FOLDER_OF_CLIPS CLIPS.csv [--write]

CLIPS.csv has lines ``file,kind,rate_hz,use``: kind is walk, run or jump, use is ``table`` or ``test``. Nobody may be in
both (the subject is what stands before the underscore of a file name). With ``--write`` the table goes to
``marey/measure/typical.json``; without it, nothing is written. Prints the ranges, and of the test clips those that are
said to have a fault.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np

import marey
from marey.measure import KINDS, Measurement, measure_motion
from marey.measure.measurement import TABLE, read_typical

PERCENTILES = (1.0, 99.0)
LEAST_CLIPS = 5  # a range of fewer says nothing


def measure_clips(folder: Path, rows: list[dict[str, str]]) -> dict[str, list[Measurement]]:
    """Measure each clip as the kind that it is."""
    found: dict[str, list[Measurement]] = {}
    for row in rows:
        clip = marey.load(folder / row["file"], rate_hz=float(row["rate_hz"]))
        found.setdefault(row["kind"], []).append(measure_motion(clip, kind=row["kind"]))
    return found


def tabulate(found: dict[str, list[Measurement]]) -> dict[str, dict[str, object]]:
    """1st and 99th percentile of each figure over the clips of a kind."""
    table: dict[str, dict[str, object]] = {}
    for kind, measurements in found.items():
        names = {name: None for one in measurements for name in one.values}
        ranges: dict[str, list[float]] = {}
        for name in names:
            values = [one[name] for one in measurements if name in one]
            if len(values) >= LEAST_CLIPS:
                ranges[name] = [float(f"{value:.4g}") for value in np.percentile(values, PERCENTILES)]
        table[kind] = {"clips": sorted(one.name for one in measurements), "figures": ranges}
    return table


def main(folder: Path, listing: Path, is_written: bool) -> None:
    """Measure, tabulate, and judge the clips that the table has not seen."""
    with listing.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    people = {use: {row["file"].split("_")[0] for row in rows if row["use"] == use} for use in ("table", "test")}
    shared = people["table"] & people["test"]
    if shared or not {row["kind"] for row in rows} <= set(KINDS):
        sys.exit(f"people in both sets: {sorted(shared)}; or an unknown kind")
    table = tabulate(measure_clips(folder, [row for row in rows if row["use"] == "table"]))
    if is_written:
        TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
        read_typical.cache_clear()
    for kind, entry in table.items():
        print(kind, *entry.values(), sep="\n  ")
    # Clips that no range was made of
    for kind, measurements in measure_clips(folder, [row for row in rows if row["use"] == "test"]).items():
        named = [one for one in measurements if one.faults]
        kinds = Counter(fault for one in named for fault in {fault.kind for fault in one.faults})
        outside = [np.mean([bool(figure.remark) for figure in one.figures]) for one in measurements]
        print(f"{kind}: {len(named)} of {len(measurements)} clips have a fault: {dict(kinds)};", end=" ")
        print(f"{100 * np.mean(outside):.0f} % of the figures outside the ranges")
        for one in named:
            print("   ", one.name, "; ".join(str(fault) for fault in one.faults)[:200])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), "--write" in sys.argv)

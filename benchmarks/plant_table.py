"""Clips whose feet are held beside their sources, measured by the meter and by geometry: no contact track is read.

`python benchmarks/plant_table.py FOLDER [--every N] [--only NAME...] [--tuning]` holds the feet
of every BVH clip. Settings were chosen on the clips of subjects 02, 07 and 16 alone; the others are the test.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from oracles.held_feet import compare_clip

from marey.contacts import hold_feet
from marey.io import load

TUNING = ("02", "07", "16")  # subjects whose clips chose the settings
BARS = {"over_deg": 0.0, "flips": 0.0, "scrape_share": 0.5, "knee_deg": 3.0}


def format_row(row: dict[str, Any]) -> str:
    """One line of the table."""
    return (
        f"{row['clip']:>8} {row['frames']:5d}  step {row['over_deg']:+6.1f}  flips {row['flips']:d}"
        f"  stands {row['stands']:4.2f} held {row['held']:5.3f}"
        f"  scraped {row['scraped_m'][0]:5.2f} -> {row['scraped_m'][1]:5.2f} ({row['scrape_share']:4.2f})"
        f"  knee {row['knee_deg']:4.1f}  clear {row['clearance_mm'][0]:5.1f} -> {row['clearance_mm'][1]:5.1f}"
        f"  ankle {row['ankle_mm']:4.0f} mm  pelvis {row['pelvis_mm'][0]:4.0f} {row['pelvis_mm'][1]:4.0f}"
        f" {row['pelvis_mm'][2]:4.0f}  acc {row['knee_acceleration']:4.2f}  {row['frames_per_s']:6.0f} fps"
    )


def print_summary(title: str, rows: list[dict[str, Any]]) -> None:
    """How many clips meet each bar."""
    if not rows:
        return
    print(f"{title}: {len(rows)} clips")
    for key, bar in BARS.items():
        missed = [row["clip"] for row in rows if row[key] > bar]
        print(f"  {key:>13} at most {bar:g}: {len(rows) - len(missed)}; not {' '.join(missed) or '-'}")
    standing = [row for row in rows if row["stands"] >= 0.95]
    missed = [f"{row['clip']} {row['held']:.3f}" for row in standing if row["held"] < 0.95]
    print(f"  standing clips held in 95 % of frames: {len(standing) - len(missed)} of {len(standing)}; not {missed}")
    print(f"  held share of standing feet, median {np.median([row['held'] for row in rows]):.3f}")
    total = np.sum([row["scraped_m"] for row in rows], axis=0)
    print(f"  scraped in all {total[0]:.1f} -> {total[1]:.1f} m ({total[1] / max(total[0], 1e-9):.2f})")


def main() -> None:
    """Print the table, and how many clips meet each bar, tuning and test clips apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1, help="take every Nth clip")
    parser.add_argument("--only", nargs="*", default=[], help="names of clips")
    parser.add_argument("--tuning", action="store_true", help="the clips of the tuning subjects alone")
    parser.add_argument("--json", type=Path, help="write the facts of all clips")
    options = parser.parse_args()
    paths = sorted(options.folder.rglob("*.bvh"))
    if options.tuning:
        paths = [path for path in paths if path.stem.split("_")[0] in TUNING]
    paths = [p for p in paths if p.stem in options.only] if options.only else paths[:: options.every]
    rows: list[dict[str, Any]] = []
    for path in paths:
        rows.append(compare_clip(load(path), lambda clip: hold_feet(clip).motion))
        print(format_row(rows[-1]), flush=True)
    print_summary("tuning", [row for row in rows if row["clip"].split("_")[0] in TUNING])
    print_summary("test", [row for row in rows if row["clip"].split("_")[0] not in TUNING])
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

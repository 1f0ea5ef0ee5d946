"""Retargeted clips beside their sources: steps of the joints, feet by the source's contact track, scraping.

`python benchmarks/retarget_table.py FOLDER [--every N] [--only NAME...] [--json FILE]` puts every BVH clip of a folder
on the canonical human. Joint steps are held against 1.5 times the source's and 3 degrees; slip, depth and float are
those of the soles while the track detected on the *source* says contact, so that a contact which was given up counts.
Feet that stand on a step or a box of the source are measured against that; `over_floor_mm` is against the floor alone.
Settings are chosen on clips of subjects with odd numbers ("tune"); those with even numbers ("show") are the test.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from oracles.retargeted import measure_feet_mm, measure_pelvis_mps2, measure_steps_deg

from marey.contacts import detect_contacts
from marey.contacts.plants import RETARGET_HOLD, HoldSettings
from marey.io import load
from marey.kinematics import solve_retarget
from marey.measure import measure_motion
from marey.motion import check_time_base
from marey.skeleton import HUMAN

PELVIS_MPS2 = 50.0  # vertical acceleration of a pelvis that no capture of a walk or a run has
BARS = {"over_deg": 0.0, "slip_mm_s": 5.0, "depth_mm": 2.0, "float_mm": 5.0}


def compare_clip(path: Path, settings: HoldSettings, *, is_rate_checked: bool = False) -> dict[str, Any]:
    """Facts about one clip: the joint that exceeds its bar most, and its feet by both tracks."""
    clip = load(path)
    base = check_time_base(clip)
    if is_rate_checked and base.is_suspect:
        clip = replace(clip, rate_hz=base.suggested_rate_hz)
    begin = time.process_time()
    moved = solve_retarget(clip, HUMAN, settings=settings).motion
    seconds = time.process_time() - begin
    before, after = measure_steps_deg(clip), measure_steps_deg(moved)
    over = {part: after[part] - 1.5 * before[part] - 3.0 for part in after}
    worst = max(over, key=lambda part: over[part])
    by_source = replace(moved, contacts=detect_contacts(clip))
    slip, depth, high = measure_feet_mm(by_source, clip)
    own_slip, _, own_high = measure_feet_mm(moved)
    meter = [measure_motion(motion) for motion in (clip, moved)]
    return {
        "clip": path.stem,
        "frames": clip.num_frames,
        "frames_per_s": clip.num_frames / max(seconds, 1e-9),
        "joint": worst,
        "step_deg": after[worst],
        "source_deg": before[worst],
        "over_deg": over[worst],
        "num_over": sum(value > 0.0 for value in over.values()),
        "slip_mm_s": slip,
        "depth_mm": depth,
        "float_mm": high,
        "over_floor_mm": measure_feet_mm(by_source)[2],
        "own_slip_mm_s": own_slip,
        "own_float_mm": own_high,
        "pelvis_mps2": [measure_pelvis_mps2(motion) for motion in (clip, moved)],
        "scraped": [m.values.get("scraped_m_per_10m", float("nan")) for m in meter],
        "meter_slip_mps": [m.values.get("stance_slip_p95_mps", float("nan")) for m in meter],
    }


def main() -> None:
    """Print the table and how many clips meet each bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1, help="take every Nth clip")
    parser.add_argument("--only", nargs="*", default=[], help="names of clips")
    parser.add_argument("--json", type=Path, help="write the facts of all clips")
    parser.add_argument("--true-rate", action="store_true", help="play clips at the rate that `marey clean` gives them")
    parser.add_argument("--set", action="append", default=[], help="FIELD=VALUE of HoldSettings")
    options = parser.parse_args()
    paths = sorted(options.folder.rglob("*.bvh"))
    paths = [p for p in paths if p.stem in options.only] if options.only else paths[:: options.every]
    chosen = {field: float(value) for field, _, value in (s.partition("=") for s in options.set)}
    settings = replace(RETARGET_HOLD, **chosen)
    rows: list[dict[str, Any]] = []
    for path in paths:
        row = compare_clip(path, settings, is_rate_checked=options.true_rate)
        rows.append(row)
        print(
            f"{row['clip']:>8} {row['frames']:6d}  {row['joint']:>15} {row['step_deg']:6.2f} of"
            f" {row['source_deg']:6.2f} over {row['over_deg']:+6.2f} ({row['num_over']})"
            f"  slip {row['slip_mm_s']:7.1f}  depth {row['depth_mm']:5.1f}"
            f"  float {row['float_mm']:6.1f}  own {row['own_slip_mm_s']:6.1f} {row['own_float_mm']:6.1f}"
            f"  scraped {row['scraped'][0]:5.2f} -> {row['scraped'][1]:5.2f}  {row['frames_per_s']:6.0f} fps",
            flush=True,
        )
    for key, bar in {**BARS, "over_floor_mm": BARS["float_mm"]}.items():
        told = [f"{key} under {bar:g}:"]
        for title, is_odd in (("tune", True), ("show", False)):
            part = [row for row in rows if (int(row["clip"].partition("_")[0]) % 2 == 1) == is_odd]
            told.append(f"{title} {sum(row[key] < bar for row in part)} of {len(part)},")
        missed = [row["clip"] for row in rows if row[key] >= bar]
        print(*told, f"all {len(rows) - len(missed)} of {len(rows)}; not {' '.join(missed) or '-'}")
    jerks = [row["clip"] for row in rows if row["pelvis_mps2"][1] > max(1.5 * row["pelvis_mps2"][0], PELVIS_MPS2)]
    print(f"pelvis jerks more than its source and {PELVIS_MPS2:g} m/s²: {len(jerks)}: {' '.join(jerks) or '-'}")
    print(f"frames a second, median: {np.median([row['frames_per_s'] for row in rows]):.0f}")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

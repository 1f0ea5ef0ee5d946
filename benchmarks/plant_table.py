"""Clips whose feet are held beside their sources, measured by the meter and by geometry: no contact track is read.

`python benchmarks/plant_table.py FOLDER [--every N] [--only NAME...] [--subjects 02 07 16] [--tuning]` holds the feet
of every BVH clip. Settings were chosen on the clips of subjects 02, 07 and 16 alone; the others are the test.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from marey.base import FloatArray
from marey.contacts import hold_feet
from marey.io import load
from marey.measure import Measurement, measure_motion
from marey.motion import Motion
from marey.skeleton import foot_points, restored_roles

SIDES = ("left", "right")
TUNING = ("02", "07", "16")  # subjects whose clips chose the settings
STILL_MPS = 0.10  # [m/s] a captured foot whose slowest point moves less than this stands
HELD_MPS = 0.005  # [m/s] ... and is held when that point moves less than this
HELD_M = 0.005  # [m] no point of a foot that is held goes further below or above its floor than this
ROUNDING_M = 0.01  # [m] a scraped way under this is none: a landing heel and the meter's filter
BARS = {"over_deg": 0.0, "flips": 0.0, "scrape_share": 0.5, "knee_deg": 3.0}


def measure_steps_deg(motion: Motion) -> FloatArray:
    """Largest turn of hips, knees, ankles and toes of both legs against the joint above, from frame to frame."""
    roles = restored_roles(motion.skeleton)
    joints = [roles[f"{s}_{p}"] for s in SIDES for p in ("hip", "knee", "ankle", "foot") if f"{s}_{p}" in roles]
    turns = motion.rotations[:, joints]
    return np.degrees((turns[:-1].inverse() @ turns[1:]).angle().max(axis=0))


def measure_soles(motion: Motion) -> tuple[FloatArray, FloatArray]:
    """Slowest point of each sole ``(F - 1, 2)`` [m/s], and height of its lowest ``(F, 2)`` [m]."""
    points = foot_points(motion.skeleton, restored_roles(motion.skeleton))
    order = [points.index(f"{side}_{part}") for side in SIDES for part in ("heel", "ball", "toe_end")]
    at = points.positions(*motion.joint_frames())[:, order].reshape(-1, 2, 3, 3)
    speeds = np.linalg.norm(np.diff(at, axis=0), axis=-1) * motion.rate_hz
    return speeds.min(axis=2), at[..., 1].min(axis=2)


def count_faults(measured: Measurement) -> int:
    """How often a knee flips or bends backwards."""
    return sum(fault.kind in ("flip", "backwards") and fault.part.endswith("knee") for fault in measured.faults)


def compare_clip(clip: Motion, hold: Callable[[Motion], Motion]) -> dict[str, Any]:
    """Facts about one clip before and after."""
    begin = time.process_time()
    held = hold(clip)
    seconds = time.process_time() - begin
    before, after = measure_motion(clip), measure_motion(held)
    over = measure_steps_deg(held) - 1.5 * measure_steps_deg(clip) - 3.0
    # A foot stands where the capture moves little; it is held where the result does not move at all
    (slow, _), (still, _) = measure_soles(clip), measure_soles(held)
    stands = slow < STILL_MPS
    is_held = still < HELD_MPS
    moved = np.linalg.norm(held.joint_positions() - clip.joint_positions(), axis=-1)
    roles = restored_roles(clip.skeleton)
    scraped = [float(m.scraped_m[-1]) for m in (before, after)]
    knees = [f"{side}_knee_flexion_median_deg" for side in SIDES]
    lift = held.root_positions[:, 1] - clip.root_positions[:, 1]
    return {
        "clip": clip.name,
        "frames": clip.num_frames,
        "frames_per_s": clip.num_frames / max(seconds, 1e-9),
        "over_deg": float(over.max()),
        "flips": max(count_faults(after) - count_faults(before), 0),
        "stands": float(stands.all(axis=1).mean()),
        "held": float(is_held[stands].mean()) if stands.any() else 1.0,
        "stood": float((is_held | ~stands).all(axis=1).mean()),
        "scraped_m": scraped,
        "scrape_share": scraped[1] / scraped[0] if scraped[1] > ROUNDING_M else 0.0,
        "knee_deg": max(abs(after[name] - before[name]) for name in knees),
        "clearance_mm": [m.values.get("swing_clearance_median_mm", float("nan")) for m in (before, after)],
        "knee_acceleration": after["knee_acceleration_p99_deg_per_s2"] / before["knee_acceleration_p99_deg_per_s2"]
        if "knee_acceleration_p99_deg_per_s2" in before
        else float("nan"),
        "ankle_mm": 1e3 * float(moved[:, [roles[f"{side}_ankle"] for side in SIDES]].max()),
        "pelvis_mm": [1e3 * float(lift.min()), 1e3 * float(np.median(lift)), 1e3 * float(lift.max())],
    }


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
    print(f"  scraped in all {total[0]:.1f} -> {total[1]:.1f} m ({total[1] / total[0]:.2f})")


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
    sys.exit(main())

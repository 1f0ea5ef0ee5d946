"""Gaits of the on-line engine beside raw captures, by the meter, which reads no flag of the engine.

`python benchmarks/gait_table.py FOLDER [--styles 07 39] [--model FILE] [--json FILE]` prints, for every style and
speed, what `marey.measure` says of the engine with plants, of the same gait without plants, and of the captures whose
speed is near. FOLDER holds the captures of the manifest that ships with the model. The foot plants were tuned on the
style named in ``TUNING``; persons 39, 69 and 07 were seen while tuning, the others afterwards.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from marey.base import MissingFileError
from marey.locomotion import Engine, LocomotionModel, load_manifest, load_model
from marey.locomotion.fitting.trials import make_loader
from marey.measure import measure_motion

TUNING = (None,)  # styles on which the foot plants were tuned; None is the default mixture
WALKS_MPS = (0.3, 0.5, 0.8, 1.0, 1.4, 1.8, 2.2)
RUNS_MPS = (2.0, 2.5, 3.0, 3.5, 4.0, 4.5)
TURNS = (("walk", 1.2, 1.0), ("walk", 1.2, 2.0), ("run", 2.5, 1.0), ("run", 2.5, 2.0))  # gait, [m/s], [rad/s]
RATE_HZ, SECONDS = 120.0, 8.0
NEAR_MPS = {"walk": 0.3, "run": 0.6}  # captures this near in speed stand beside
FIGURES = (
    "scraped_m_per_10m", "swing_clearance_median_mm", "swing_clearance_least_mm", "swing_dragging_share",
    "stance_slip_p95_mps", "knee_flexion_least_deg", "knee_acceleration_120hz_p99_deg_per_s2", "upper_arm_swing_deg",
)  # fmt: skip
SHORT = ("scraped", "clear med", "clear min", "drag", "slip p95", "knee min", "knee acc", "arm")


def measure_captures(folder: Path) -> list[dict[str, Any]]:
    """Figures of every capture of the manifest that lies in the folder."""
    manifest, rows = load_manifest(), list[dict[str, Any]]()
    load = make_loader(folder, manifest.rates)
    for group in [group for group in manifest.groups if group.gait in ("walk", "run")]:
        for part, clips in (("train", group.train), ("test", group.test)):
            for clip in clips:
                try:
                    found = measure_motion(load(clip), kind=group.gait)
                except MissingFileError:
                    continue
                rows.append({"clip": clip, "subject": group.subject, "gait": group.gait, "split": part, **found.values})
    return rows


def measure_engine(
    model: LocomotionModel, style: str | None, gait: str, speed: float, turn: float = 0.0, *, plants: bool
) -> dict[str, Any]:
    """Figures of one steady gait."""
    run = float(gait == "run")
    engine = Engine(model, style=style, speed=speed, run=run, turn_rate=turn, plants=plants)
    engine.run(1.0, RATE_HZ)
    start, phase = engine.pose.root_position.copy(), engine.phase
    motion = engine.run(SECONDS, RATE_HZ)
    found = measure_motion(motion, kind=gait)
    # Speed over whole cycles, on a straight way
    cycles = int(engine.phase - phase)
    table, hertz = engine.frequency_table()
    frames = round(cycles / float(np.interp(speed, table, hertz[int(run)])) * RATE_HZ)
    way = float(np.hypot(*(motion.root_positions[min(frames, motion.num_frames - 1)] - start)[[0, 2]]))
    error = way * RATE_HZ / frames / speed - 1.0 if turn == 0.0 and frames > 0 else 0.0
    faults = [fault.kind for fault in found.faults]
    return {**found.values, "speed_error": error, "faults": faults}


def describe_captures(rows: list[dict[str, Any]], gait: str, speed: float, subject: str | None) -> dict[str, float]:
    """Median and largest scraping, clearance and knee acceleration of captures of about this speed."""
    near = [
        row for row in rows
        if row["gait"] == gait and abs(row["root_speed_median_mps"] - speed) <= NEAR_MPS[gait]
        and (subject is None or row["subject"] == subject)
    ]  # fmt: skip
    if not near:
        return {}
    scraped = [row["scraped_m_per_10m"] for row in near if "scraped_m_per_10m" in row]
    clear = [row["swing_clearance_median_mm"] for row in near if "swing_clearance_median_mm" in row]
    knee = [row["knee_acceleration_p99_deg_per_s2"] for row in near]
    return {
        "num": len(near),
        "scraped_median": float(np.median(scraped)) if scraped else float("nan"),
        "scraped_max": max(scraped, default=float("nan")),
        "clear_median": float(np.median(clear)) if clear else float("nan"),
        "knee_median": float(np.median(knee)),
    }


def judge(held: dict[str, Any], raw: dict[str, Any], beside: dict[str, float], own: dict[str, float]) -> list[str]:
    """Which bars are missed."""
    missed: list[str] = []
    scraped = held.get("scraped_m_per_10m", 0.0)
    if beside and scraped > 1.2 * beside["scraped_max"]:
        missed.append("scraped")
    least = min(10.0, 0.7 * own["clear_median"]) if own else 10.0
    if held.get("swing_clearance_median_mm", 99.0) < least:
        missed.append("clearance")
    if held["knee_acceleration_120hz_p99_deg_per_s2"] > 1.5 * raw["knee_acceleration_120hz_p99_deg_per_s2"]:
        missed.append("knee")
    if abs(held["speed_error"]) > 0.005:
        missed.append("speed")
    return [*missed, *sorted(set(held["faults"]))]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--styles", nargs="*", help="all by default; 'default' is the model's own mixture")
    parser.add_argument("--model", help="a file instead of the shipped model")
    parser.add_argument("--json", type=Path, help="write all figures")
    options = parser.parse_args()
    model = load_model(options.model)
    styles = ["default", *model.styles] if options.styles is None else options.styles
    captures = measure_captures(options.folder)
    rows: list[dict[str, Any]] = []
    print(
        f"{'style':8s} {'gait':4s} {'m/s':>4s} {'rad/s':>5s}  "
        + " ".join(f"{s:>9s}" for s in SHORT)
        + "   speed %  raw scraped, clear, knee; captures (number) scraped median..max, clear; missed"
    )
    steady = [(g, v, 0.0) for g, speeds in (("walk", WALKS_MPS), ("run", RUNS_MPS)) for v in speeds]
    for name in styles:
        style = None if name == "default" else name
        for gait, speed, turn in (*steady, *TURNS):
            held = measure_engine(model, style, gait, speed, turn, plants=True)
            raw = measure_engine(model, style, gait, speed, turn, plants=False)
            beside = describe_captures(captures, gait, speed, None)
            own = describe_captures(captures, gait, speed, name)
            missed = judge(held, raw, beside, own)
            rows.append({"style": name, "tuning": style in TUNING, "gait": gait, "speed": speed, "turn": turn,
                         "held": held, "raw": raw, "captures": beside, "own": own, "missed": missed})  # fmt: skip
            figures = " ".join(f"{held.get(f, float('nan')):9.3g}" for f in FIGURES)
            side = "none"
            if beside:
                scraped = f"{beside['scraped_median']:.2f}..{beside['scraped_max']:.2f}"
                side = f"({beside['num']}) {scraped}, {beside['clear_median']:.0f}"
            plain = (raw.get("scraped_m_per_10m", float("nan")), raw.get("swing_clearance_median_mm", float("nan")))
            knee = raw["knee_acceleration_120hz_p99_deg_per_s2"]
            print(
                f"{name:8s} {gait:4s} {speed:4.1f} {turn:5.1f}  {figures} {100 * held['speed_error']:8.2f}   "
                f"{plain[0]:.2f}, {plain[1]:.0f}, {knee:.0f}; {side}; {' '.join(missed) or '-'}",
                flush=True,
            )
    if options.json is not None:
        options.json.write_text(json.dumps({"captures": captures, "rows": rows}, indent=1), encoding="utf-8")
    print(f"{sum(not row['missed'] for row in rows)} of {len(rows)} rows meet every bar")


if __name__ == "__main__":
    main()

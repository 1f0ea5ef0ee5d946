"""Arms, trunk and pelvis of the model's people beside raw captures that the fit has not seen.

    python benchmarks/style_table.py FOLDER [--model MODEL] [--json FILE]

First every held-out clip of the shipped manifest against the engine in that person's style, then people who are not in
the model at all: fitted to one clip (`fit_person`), judged by another of theirs. All figures are the meter's, on the
captured body and on the model's at the same Froude number; trunk pitch counts from each body's own rest pose, in which
the line from hips to shoulders leans by 5 to 13 degrees in the captures. Bars: upper-arm swing within 15 %, mean elbow
within 8 degrees, trunk pitch (mean and range) and pelvis rotation within 25 %, or 2 degrees where they are small. A
person's clips differ from each other, so the means over each person's clips are judged too.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from marey.base import MareyError
from marey.locomotion import Engine, LocomotionModel, fit_person, load_manifest, load_model
from marey.locomotion.fitting.trials import make_loader, set_rate
from marey.locomotion.units.gait_unit import segment_clip
from marey.measure import measure_motion
from marey.motion import Motion, check_time_base
from marey.skeleton import role_map

FIGURES = (
    "upper_arm_swing_deg", "elbow_flexion_mean_deg", "trunk_pitch_mean_deg", "trunk_pitch_range_deg",
    "pelvis_rotation_range_deg",
)  # fmt: skip
SMALL_DEG = 2.0
STRANGERS = (
    ("132_18", "132_20"), ("132_20", "132_18"), ("143_14", "143_10"), ("143_10", "143_14"), ("43_01", "43_01"),
    ("82_12", "82_12"), ("37_01", "37_01"), ("56_01", "56_01"), ("141_25", "141_25"),
)  # fmt: skip


def keeps(figure: str, made: float, captured: float) -> bool:
    """Whether a figure is as near to the capture's as asked."""
    if figure == "elbow_flexion_mean_deg":
        return abs(made - captured) <= 8.0
    if figure == "upper_arm_swing_deg":
        return abs(made - captured) <= 0.15 * captured
    return abs(made - captured) <= max(0.25 * abs(captured), SMALL_DEG)


def measure(motion: Motion, gait: str) -> dict[str, float]:
    """The meter's figures, trunk pitch from the rest pose of the body."""
    found, rest = measure_motion(motion, kind=gait).values, motion.skeleton.rest_positions()
    roles, sides = role_map(motion.skeleton), ("left", "right")
    hips, shoulders = (rest[[roles[f"{side}_{part}"] for side in sides]].mean(axis=0) for part in ("hip", "shoulder"))
    _, up, ahead = shoulders - hips
    return {**found, "trunk_pitch_mean_deg": found["trunk_pitch_mean_deg"] - float(np.degrees(np.arctan2(ahead, up)))}


def compare(model: LocomotionModel, style: str | None, motion: Motion) -> dict[str, Any] | None:
    """Figures of a capture and of the engine at its speed and gait; nothing for a clip without a cycle."""
    units, _, _ = segment_clip(motion, "x")
    if not units:
        return None
    gait = units[0].gait
    speed = float(np.mean([unit.speed_n for unit in units if unit.gait == gait])) * model.leg_length_m
    first, last = min(unit.start for unit in units), max(unit.stop for unit in units)
    raw = measure(motion[first : last + 1], gait)
    engine = Engine(model, style=style, speed=speed, run=float(gait == "run"))
    engine.run(1.0, 120.0)
    made = measure(engine.run(4.0, 120.0), gait)
    return {"gait": gait, "speed_mps": speed, **{figure: (raw[figure], made[figure]) for figure in FIGURES}}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    model, plan, rows = load_model(args.model), load_manifest(), list[dict[str, Any]]()
    load = make_loader(args.folder, plan.rates)
    for group, clip in plan.clips_of("test", "walk", "run"):
        found = compare(model, group.subject, load(clip))
        rows += [] if found is None else [{"clip": clip, "style": group.subject, **found}]
    for known, judge in STRANGERS:
        try:
            clips = [load(name) for name in (known, judge)]
        except MareyError:
            continue
        clips = [set_rate(clip, check_time_base(clip).suggested_rate_hz) for clip in clips]
        found = compare(fit_person(clips[0], model, name="stranger"), "stranger", clips[1])
        name = f"one clip, {known}" if known != judge else "its own clip"
        rows += [] if found is None else [{"clip": judge, "style": name, **found}]
    people = dict.fromkeys((row["style"], row["gait"]) for row in rows if row["style"] in model.styles)
    means: list[dict[str, Any]] = []
    for style, gait in people:
        own = [row for row in rows if (row["style"], row["gait"]) == (style, gait)]
        mean = {f: tuple(np.mean([row[f] for row in own], axis=0)) for f in FIGURES}
        means.append({"clip": f"{len(own)} clips", "style": style, "gait": gait, "speed_mps": 0.0, **mean})
    print(f"{'clip':10}{'style':20}{'gait':6}{'m/s':>5}" + "".join(f"{f[:-4]:>22}" for f in FIGURES))
    for row in [*rows, *means]:
        cells = [f"{a:.1f} {b:6.1f} {' ' if keeps(f, b, a) else '*'}" for f in FIGURES for a, b in [row[f]]]
        start = f"{row['clip']:10}{row['style']:20}{row['gait']:6}{row['speed_mps']:5.2f}"
        print(start + "".join(f"{cell:>22}" for cell in cells))
    for figure in FIGURES:
        kept = [[keeps(figure, row[figure][1], row[figure][0]) for row in part] for part in (rows, means)]
        print(f"{figure}: kept by {sum(kept[0])} of {len(kept[0])} clips, {sum(kept[1])} of {len(kept[1])} people")
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

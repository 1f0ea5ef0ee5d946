"""Marker error of `fit_markers` beside that of AddBiomechanics, trial by trial.

`python benchmarks/markers_table.py FOLDER [--no-names] [--json FILE] [--every N]` takes a folder of trials, each with
`markers.trc`, and `_results.json` with AddBiomechanics' published error of each marker; `_subject.json` one folder up
has the stature. Errors are means over the markers that both use: ours is the root mean square of each marker over all
frames that show it, at its site on the fitted motion; theirs is what the file says. `--no-names` renames the markers
m1..mN first, so that only geometry is left.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from marey.io import find_subject, load_markers
from marey.kinematics import fit_markers
from marey.skeleton import HUMAN


def compare_trial(folder: Path, *, names: bool = True, height: bool = True) -> dict[str, Any]:
    """Facts about one trial: errors of both in millimetres, and whether the body is a sound one."""
    markers = load_markers(folder / "markers.trc")
    theirs = dict(json.loads((folder / "_results.json").read_text())["markerErrors"])
    subject = find_subject(folder / "markers.trc")
    known = subject.height_m if subject is not None else None
    true_names = markers.names
    if not names:
        markers = replace(markers, names=tuple(f"m{m + 1}" for m in range(markers.num_markers)))
    begin = time.perf_counter()
    fit = fit_markers(markers, height_m=known if height else None)
    seconds = time.perf_counter() - begin
    # Every sighting counts, also those that the fit itself takes for swaps
    positions, frames = fit.motion.joint_frames()
    span = slice(fit.first_frame, fit.first_frame + fit.motion.num_frames)
    ours: dict[str, float] = {}
    for name, site in fit.sites.items():
        m, joint = markers.names.index(name), fit.motion.skeleton.index(site.joint)
        away = np.linalg.norm(
            positions[:, joint] + frames[:, joint] @ np.array(site.point) - markers.positions[span, m], axis=-1
        )
        seen = markers.valid[span, m]
        if seen.any():
            ours[true_names[m]] = float(np.sqrt((away[seen] ** 2).mean()))
    both = [name for name in ours if theirs.get(name, 0.0) > 0.0]
    knees = np.degrees(fit.motion.rotations[:, [HUMAN.index("left_knee"), HUMAN.index("right_knee")]].log()[..., 0])
    return {
        "trial": "/".join(folder.parts[-3:]),
        "frames": markers.num_frames,
        "both": len(both),
        "theirs_only": sorted(name for name, error in theirs.items() if error > 0.0 and name not in ours),
        "ours_mm": 1e3 * float(np.mean([ours[name] for name in both])),
        "theirs_mm": 1e3 * float(np.mean([theirs[name] for name in both])),
        "height_m": fit.height_m,
        "true_height_m": known,
        "knee_deg": [float(knees.min()), float(knees.max())],
        "belt_mps": None if fit.belt is None else fit.belt.speed_mps,
        "left_out": dict(fit.left_out),
        "seconds": seconds,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--no-names", action="store_true")
    parser.add_argument("--no-height", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print(f"{'trial':44} frames both  marey  AddB.  height (true)  knee      belt    s")
    for results in sorted(options.folder.rglob("_results.json"))[:: options.every]:
        row = compare_trial(results.parent, names=not options.no_names, height=not options.no_height)
        rows.append(row)
        belt = "  -  " if row["belt_mps"] is None else f"{row['belt_mps']:5.2f}"
        flag = " " if row["ours_mm"] <= row["theirs_mm"] else "*"
        errors = f"{row['ours_mm']:6.1f} {row['theirs_mm']:6.1f}{flag}"
        low, high = row["knee_deg"]
        body = f"{row['height_m']:.2f} ({row['true_height_m'] or 0:.2f})  {low:4.0f} {high:4.0f}"
        print(
            f"{row['trial']:44} {row['frames']:6d} {row['both']:4d} {errors} {body}  {belt} {row['seconds']:5.1f}",
            *row["theirs_only"],
            flush=True,
        )
    ours, theirs = (np.array([row[key] for row in rows]) for key in ("ours_mm", "theirs_mm"))
    print(f"{len(rows)} trials: marey {ours.mean():.1f} mm, AddBiomechanics {theirs.mean():.1f} mm; ", end="")
    print(f"{int((ours <= theirs).sum())} of {len(rows)} at most theirs")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

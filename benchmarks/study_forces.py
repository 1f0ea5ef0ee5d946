"""Ground reaction without plates beside the plates.

``python benchmarks/study_forces.py FOLDER [--every N]`` takes a folder of trials, each with ``markers.trc`` and
``grf.mot`` and ``_subject.json`` one folder up, fits a body to the markers and prints the error of the vertical force
(root mean square, in body weights) and of the centre of pressure on one foot, with medians over walks, runs and drop
jumps. The filter was chosen on ``TUNING``; these are left out of the medians.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from marey.base import MareyError
from marey.dynamics import Body, check_validity, compare_reaction
from marey.io import find_subject, load_ground_reaction, load_markers
from marey.kinematics import fit_markers

TUNING = (
    "subject01/run300", "subject01/walk2", "subject2/DJ1", "subject2/DJ2", "subject3/DJ4", "subject2/walking1",
    "subject2/walking2", "subject3/walking2",
)  # fmt: skip
KINDS = (("run", "run"), ("walk", "walk"), ("DJ", "drop jump"), ("squat", "squat"))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1)
    args = parser.parse_args()
    found: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    print("| trial | averaged % | vertical % | pressure on one foot mm | s |")
    print("|---|---|---|---|---|")
    for path in sorted(args.folder.rglob("grf.mot"))[:: args.every]:
        trial, began = "/".join(path.parts[-3:-1]), time.process_time()
        kind = next((words for start, words in KINDS if path.parts[-2].startswith(start)), "walk")
        try:
            subject = find_subject(path.parent / "markers.trc")
            fit = fit_markers(load_markers(path.parent / "markers.trc"), height_m=subject.height_m if subject else None)
            motion, plates = fit.over_ground(), load_ground_reaction(path)
            if fit.belt is not None:
                plates = plates.over_ground(fit.belt.velocity_mps, fit.start_s)
            body = Body.from_motion(motion, mass_kg=None if subject is None else subject.mass_kg)
            report = check_validity(motion, body)
            old = compare_reaction(report, plates, start_s=fit.start_s)
            new = compare_reaction(report, plates, start_s=fit.start_s, motion=motion)
        except MareyError as error:
            print(f"| {trial} | {str(error)[:80]} | | | |", flush=True)
            continue
        row = (old.vertical_rms, new.vertical_rms, new.single_pressure_rms_m)
        seconds = time.process_time() - began
        mark = " (tuning)" if trial in TUNING else ""
        figures = f"{100 * row[0]:.1f} | {100 * row[1]:.1f} | {1e3 * row[2]:.0f}"
        print(f"| {trial}{mark} | {figures} | {seconds:.1f} |", flush=True)
        if not mark:
            found[kind].append(row)
    for kind, rows in found.items():
        old, new, pressure = np.median(np.array(rows), axis=0)
        print(f"{kind}: {len(rows)} trials, median {100 * old:.1f} -> {100 * new:.1f} %, {1e3 * pressure:.0f} mm")


if __name__ == "__main__":
    main()

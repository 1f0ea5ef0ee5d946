"""Repair of captured clips as they are, and played faster.

``python benchmarks/study_repair.py MOCAP [--held-out] [--each N] [--speeds 1 1.5]`` repairs walks, runs, jumps, turns
and dances and prints, for each, the colour before and after, how far the trunk moved at most, the flights before and
after as the detector sees them, whether the result was called solved, and the processor time. The bounds of
``RepairSettings`` were chosen on clips of the index; ``--held-out`` takes those that it does not list, but for those
whose frame rate the reader doubts; ``--every N`` takes every N-th of these, from ``--first`` on.
"""

from __future__ import annotations

import argparse
import csv
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import marey
from marey.base import MareyError
from marey.skeleton import role_map
from marey.spacetime import make_valid

WORDS = (
    ("jump", r"jump|hop|leap"),
    ("dance", r"danc|charleston|ballet|salsa|pirouette"),
    ("run", r"\brun|jog|sprint"),
    ("turn", r"turn|veer"),
    ("walk", r"walk"),
)
MOST_S = 5.0  # of a clip


def find_clips(folder: Path, *, held_out: bool) -> Iterator[tuple[str, Path, float | None]]:
    """Kind, file and true frame rate of clips in the index, or of those that it does not list."""
    with (folder / "index.csv").open() as file:
        listed = {row["file"]: float(row["fps_true"]) for row in csv.DictReader(file)}
    text = (folder / "cmu-docs" / "cmu-mocap-index-text.txt").read_text(errors="replace")
    described = dict(re.findall(r"^\s*(\d+_\d+)\s+(.*)$", text, flags=re.MULTILINE))
    for path in sorted((folder / "cmu-bvh").glob("*.bvh")):
        words = described.get(path.stem, "").lower()
        kind = next((kind for kind, pattern in WORDS if re.search(pattern, words)), None)
        if kind is not None and (path.name in listed) != held_out:
            yield kind, path, listed.get(path.name)


def measure_trunk(before: marey.Motion, after: marey.Motion) -> float:
    """Largest turn of the line from hips to neck [deg]."""
    top = role_map(before.skeleton).joints["neck"]
    lines = [m.joint_positions()[:, top] - m.joint_positions()[:, 0] for m in (before, after)]
    lines = [line / np.linalg.norm(line, axis=1, keepdims=True) for line in lines]
    return float(np.rad2deg(np.arccos(np.clip((lines[0] * lines[1]).sum(axis=1), -1.0, 1.0))).max())


def main() -> None:
    """Repair and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--each", type=int, default=3, help="clips of each kind")
    parser.add_argument("--every", type=int, default=1, help="of all clips in their order")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--speeds", type=float, nargs="+", default=[1.0, 1.5])
    args = parser.parse_args()
    count, results = Counter[str](), Counter[str]()
    print("| clip | kind | speed | before | after | green % | trunk ° | solved | s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for kind, path, rate_hz in list(find_clips(args.folder, held_out=args.held_out))[args.first :: args.every]:
        count[kind] += 1
        if count[kind] > args.each:
            continue
        motion = marey.load(path)
        if rate_hz is None and any("rate" in str(warning) for warning in motion.load_report.warnings):
            continue
        motion = motion if rate_hz is None else replace(motion, rate_hz=rate_hz)
        motion = motion[1 : 1 + round(MOST_S * motion.rate_hz)]
        for speed in args.speeds:
            clip, began = replace(motion, rate_hz=speed * motion.rate_hz), time.process_time()
            try:
                result = make_valid(clip, on_failure="return", time_limit_s=60.0)
            except MareyError as error:
                print(f"| {path.stem} | {kind} | {speed:g} | refused: {error} |", flush=True)
                continue
            seconds, trunk = time.process_time() - began, measure_trunk(clip, result.motion)
            green = f"{100 * result.before.valid_fraction:.0f} -> {100 * result.after.valid_fraction:.0f}"
            row = (path.stem, kind, f"{speed:g}", result.before.colour, result.after.colour, green, f"{trunk:.1f}")
            print(f"| {' | '.join(row)} | {result.is_solved} | {seconds:.1f} |", flush=True)
            if not result.is_solved:
                print(f"    {result.advice}", flush=True)
            results["all"] += 1
            results["green"] += result.after.colour == "green"
            results["solved"] += result.is_solved
            results["trunk within 15°"] += trunk <= 15.0
            results["called solved and is not"] += result.is_solved and result.after.colour != "green"
    print(dict(results))


if __name__ == "__main__":
    main()

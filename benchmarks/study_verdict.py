"""The verdict on captured clips: as they are, at other speeds, and with artefacts that a person would see.

``python benchmarks/study_verdict.py MOCAP [--held-out]`` prints, for walks, runs and jumps, how many clips are green,
amber and red as captured, at 1.5 times and at two thirds of their speed; and how many of the clips that are not red
become red with a root that jumps 30 cm in a frame, with a drift of 0.2 m/s along each level axis, 10 cm above the
floor, and with a knee that flips for one and for three frames. Thresholds were chosen on the clips of the index;
``--held-out`` takes those that it does not list, by the words of their descriptions.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import marey
from marey.dynamics import check_validity
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import role_map

KINDS = ("walk", "run", "jump")
SPEEDS = (1.0, 1.5, 2.0 / 3.0)
MOST_FRAMES = 1800  # of a clip that are judged
WORDS = (("jump", r"jump|hop|leap"), ("run", r"\brun|jog|sprint"), ("walk", r"walk"))


def read_index(folder: Path) -> Iterator[tuple[str, Path, float | None]]:
    """Kind, file and true frame rate of the walks, runs and jumps that the index lists."""
    with (folder / "index.csv").open() as file:
        for row in csv.DictReader(file):
            number = int(row["category"][0])
            if number <= len(KINDS):
                yield KINDS[number - 1], folder / "cmu-bvh" / row["file"], float(row["fps_true"])


def read_held_out(folder: Path) -> Iterator[tuple[str, Path, float | None]]:
    """The same of the clips that it does not list; a clip whose frame rate is in doubt is left out."""
    with (folder / "index.csv").open() as file:
        listed = {row["file"] for row in csv.DictReader(file)}
    text = (folder / "cmu-docs" / "cmu-mocap-index-text.txt").read_text(errors="replace")
    described = dict(re.findall(r"^\s*(\d+_\d+)\s+(.*)$", text, flags=re.MULTILINE))
    for path in sorted((folder / "cmu-bvh").glob("*.bvh")):
        words = described.get(path.stem, "").lower()
        kind = next((kind for kind, pattern in WORDS if re.search(pattern, words)), None)
        if kind is not None and path.name not in listed:
            yield kind, path, None


def spoil(motion: Motion) -> Iterator[tuple[str, Motion]]:
    """The clip with each artefact."""
    middle = motion.num_frames // 2
    times = np.arange(motion.num_frames) / motion.rate_hz
    jumped = np.array(motion.root_positions)
    jumped[middle:, 0] += 0.3
    yield "jump 30 cm", replace(motion, root_positions=jumped)
    for axis, name in ((0, "x"), (2, "z")):
        drifted = np.array(motion.root_positions)
        drifted[:, axis] += 0.2 * times
        yield f"skate 0.2 m/s along {name}", replace(motion, root_positions=drifted)
    yield "float 10 cm", replace(motion, root_positions=motion.root_positions + np.array([0.0, 0.1, 0.0]))
    knee = role_map(motion.skeleton)["left_knee"]
    for frames in (1, 3):
        wxyz = np.array(motion.rotations.wxyz)
        bent = SO3(wxyz[middle : middle + frames, knee]) @ SO3.exp(np.array([-1.4, 0.0, 0.0]))
        wxyz[middle : middle + frames, knee] = bent.wxyz
        yield f"knee flips for {frames} frames", replace(motion, rotations=SO3(wxyz))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--held-out", action="store_true", help="clips that the thresholds were not chosen on")
    parser.add_argument("--every", type=int, default=3, help="artefacts are put into every n-th clip")
    parser.add_argument("--part", type=int, nargs=2, default=[1, 0], metavar=("N", "FIRST"), help="every N-th clip")
    given = parser.parse_args()
    clips = list(read_held_out(given.folder) if given.held_out else read_index(given.folder))
    clips = clips[given.part[1] :: given.part[0]]
    colours = {(kind, speed): Counter[str]() for kind in KINDS for speed in SPEEDS}
    flying = {(kind, speed): Counter[str]() for kind in KINDS for speed in SPEEDS}
    seen: dict[tuple[str, str], Counter[bool]] = {}
    for number, (kind, path, rate_hz) in enumerate(clips):
        motion = marey.load(path)
        if rate_hz is None and any("rate" in str(warning) for warning in motion.load_report.warnings):
            continue
        motion = replace(motion[:MOST_FRAMES], rate_hz=rate_hz or motion.rate_hz)
        reports = {speed: check_validity(replace(motion, rate_hz=speed * motion.rate_hz)) for speed in SPEEDS}
        for speed, report in reports.items():
            colours[kind, speed][report.colour] += 1
            if reports[1.0].has_flights:
                flying[kind, speed][report.colour] += 1
        verdict = ", ".join(f"{report.colour} at {speed:.2f}" for speed, report in reports.items())
        print(f"  {path.stem} {kind}: {verdict}; as captured: {' '.join(reports[1.0].cause_counts)}")
        if number % given.every == 0 and reports[1.0].colour != "red":
            for name, spoilt in spoil(motion):
                seen.setdefault((kind, name), Counter())[check_validity(spoilt).colour == "red"] += 1
    print("\nkind, speed: green/amber/red; of clips with a flight")
    for (kind, speed), count in colours.items():
        of_flights = "/".join(str(flying[kind, speed][c]) for c in ("green", "amber", "red"))
        print(f"{kind} {speed:.2f}: {'/'.join(str(count[c]) for c in ('green', 'amber', 'red'))}; {of_flights}")
    print("\nartefact: red of all")
    for (kind, name), count in seen.items():
        print(f"{kind}, {name}: {count[True]} of {count.total()}")


if __name__ == "__main__":
    main()

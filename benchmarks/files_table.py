"""What becomes of every file of some folders: loaded and human, or refused with which reason.

``python benchmarks/files_table.py FOLDER... [--out TABLE.md] [--json ROWS.json] [--list]`` loads each file whose suffix
marey reads and prints one row for each source folder: files, how many load, how many are human, the range of their
heights, files refused and why, and the slowest load in seconds of a processor, its children's included. ``--list``
prints a line for each file; files that take over 5 s for 10 MB are named as wrong.

Heights are checked against 1.3 to 2.1 m. The speed of the pelvis is checked from outside: the path of the middle of the
two hip joints in world, which does not depend on which joint is the root.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from marey.base import MareyError
from marey.io import READABLE_SUFFIXES, load, load_markers
from marey.motion import Motion, assess_motion, mean_speed, standing_height
from marey.skeleton import role_map

HUMAN_M = (1.3, 2.1)
SPEED_TOL = 0.05  # [-] of the path of the hips; these also sway about the pelvis
SLOW_MPS = 0.1  # a speed below this is standing still
MARKERS = (".c3d", ".trc")
UNDECLARED = (".bvh", ".asf", ".amc")  # formats without a unit: the reader chooses, and answers for the height
MAX_REASON = 90  # characters
MOST_S = 5.0  # [s] of a processor for each 10 MB, and for what is smaller


@dataclass(frozen=True)
class Row:
    """One file."""

    folder: str
    file: str
    status: str  # "human", "other motion", "markers", "refused", "untyped error"
    seconds: float
    megabytes: float
    height_m: float | None = None
    speed_mps: float | None = None
    is_speed_right: bool = True
    unit: str = ""
    reason: str = ""

    @property
    def is_size_right(self) -> bool:
        """Of a person, none to measure, or as the file declares."""
        is_declared = Path(self.file).suffix.lower() not in UNDECLARED
        return self.height_m is None or is_declared or HUMAN_M[0] <= self.height_m <= HUMAN_M[1]

    @property
    def is_slow(self) -> bool:
        """Takes longer than a file of its size may."""
        return self.seconds > MOST_S * max(1.0, 0.1 * self.megabytes)

    @property
    def is_odd(self) -> bool:
        """A size that no grown person has, which the file declares."""
        return self.is_size_right and self.height_m is not None and not HUMAN_M[0] <= self.height_m <= HUMAN_M[1]


def find_files(folders: list[Path]) -> Iterator[tuple[str, Path]]:
    """Every file with a suffix that marey reads, with the name of its source folder."""
    for folder in folders:
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix.lower() in READABLE_SUFFIXES):
            inner = path.relative_to(folder).parts
            yield (inner[0] if len(inner) > 1 else folder.name), path


def _used_s() -> float:
    """Processor time of this process and of readers that have ended [s]; the clock on the wall counts others too."""
    return sum(os.times()[:4])


def load_row(source: str, path: Path) -> Row:
    """Load one file and say what it is."""
    megabytes = path.stat().st_size / 1e6
    start = _used_s()
    try:
        if path.suffix.lower() in MARKERS:
            load_markers(path)
            return Row(source, path.name, "markers", _used_s() - start, megabytes)
        motion = load(path)
    except MareyError as error:
        reason = str(error).replace(str(path), "").lstrip(": ").split(". ")[0]
        return Row(source, path.name, "refused", _used_s() - start, megabytes, reason=reason)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Row(source, path.name, "untyped error", _used_s() - start, megabytes, reason=reason)
    seconds = _used_s() - start
    anatomy = assess_motion(motion)
    if not anatomy.is_human:
        return Row(source, path.name, "other motion", seconds, megabytes, reason=anatomy.reasons[0])
    height, speed = standing_height(motion.skeleton), mean_speed(motion)
    unit = "m" if motion.source is None else motion.source.unit
    return Row(source, path.name, "human", seconds, megabytes, height, speed, _is_speed_right(motion, speed), unit)


def _is_speed_right(motion: Motion, speed_mps: float) -> bool:
    roles = role_map(motion.skeleton)
    if "left_hip" not in roles or "right_hip" not in roles or motion.num_frames < 2:
        return True
    hips = motion.joint_positions()[:, [roles["left_hip"], roles["right_hip"]]].mean(axis=1)[:, [0, 2]]
    truth = float(np.linalg.norm(hips[-1] - hips[0])) / motion.duration_s  # the way covered, which sway does not change
    path = float(np.linalg.norm(np.diff(hips, axis=0), axis=1).sum()) / motion.duration_s
    return max(path, speed_mps) < SLOW_MPS or (1.0 - SPEED_TOL) * truth <= speed_mps <= 1.5 * path + SLOW_MPS


def format_table(rows: list[Row]) -> str:
    """One line a source folder, as Markdown."""
    lines = [
        "| source | files | loaded | human | height [m] | height wrong (declared odd) | speed wrong | other motions | refused, reasons | slowest [s] |",  # noqa: E501
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for source in dict.fromkeys(row.folder for row in rows):
        these = [row for row in rows if row.folder == source]
        people = [row for row in these if row.status == "human"]
        heights = [row.height_m for row in people if row.height_m is not None]
        refused = [row for row in these if row.status in ("refused", "untyped error")]
        reasons = Counter(row.reason[:MAX_REASON].replace("|", "/") for row in refused)
        said = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(4))
        others = sum(row.status in ("other motion", "markers") for row in these)
        cells = [
            source,
            len(these),
            len(these) - len(refused),
            len(people),
            f"{min(heights):.2f} to {max(heights):.2f}" if heights else "",
            f"{sum(not row.is_size_right for row in people)} ({sum(row.is_odd for row in people)})",
            sum(not row.is_speed_right for row in people),
            others,
            f"{len(refused)}: {said}" if refused else "0",
            f"{max(row.seconds for row in these):.2f}",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Load all, print the table, and name what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    rows = [load_row(source, path) for source, path in find_files(options.folders)]
    table = format_table(rows)
    print(table)
    for row in rows:
        is_wrong = not (row.is_size_right and row.is_speed_right) or row.is_slow or row.status == "untyped error"
        if options.list or is_wrong:
            size = "" if row.height_m is None else f"{row.height_m:.2f} m, {row.speed_mps:.2f} m/s, {row.unit} "
            print(f"{'WRONG ' if is_wrong else ''}{row.folder}/{row.file}: {row.status} {size}{row.reason}")
    if options.out:
        options.out.write_text(table)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()

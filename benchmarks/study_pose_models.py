"""Walks of people who were not in the fit, seen through models of walks: joint error by number of modes.

``python benchmarks/study_pose_models.py MOCAP_FOLDER`` prints a table of PCA and PGA side by side.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

import marey
from marey.models import PCA, PGA, joint_error, selection_curve

FITTED = ("07", "08", "16", "35", "39")  # subjects with many walks
HELD_OUT = ("02", "37", "38", "43", "69", "91", "141")
STEP = 4  # every fourth frame: 30 a second
COUNTS = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 25, 30)
PLAIN = ("walk", "slow walk", "walk forward", "walkforward")
SETTINGS = {
    "PCA, Euler angles": PCA(space="euler"),
    "PCA, rotation vectors": PCA(),
    "PGA": PGA(),
    "PGA, lever arms": PGA(weights="lever"),
    "PGA, second kind": PGA(kind="second"),
}


def plain_walks(mocap: Path) -> dict[str, list[Path]]:
    """Files whose description is a plain walk, by subject."""
    with (mocap / "index.csv").open() as file:
        told = {row["file"]: row["description"] for row in csv.DictReader(file)}
    for line in (mocap / "README.md").read_text().splitlines():
        if found := re.match(r"\| (\d+_\d+\.bvh) \| ([^|]+?) \| \d+ \| \d+ \|", line):
            told[found[1]] = found[2]
    walks: dict[str, list[Path]] = {}
    for name in sorted(told):
        if told[name].lower() in PLAIN:
            walks.setdefault(name.split("_")[0], []).append(mocap / "cmu-bvh" / name)
    return walks


def main(folder: str) -> None:
    """Print the curves, then the models that the 90 and 95 % rules choose."""
    walks = plain_walks(Path(folder))
    fitted = [marey.load(path)[::STEP] for s in FITTED for path in walks[s]]
    held = [marey.load(path)[::STEP] for s in HELD_OUT for path in walks[s]]
    print(f"fit: {len(fitted)} walks of {len(FITTED)} people; measured on {len(held)} walks of {len(HELD_OUT)} others")
    print(f"{'':24s}{'modes':>6s}{'explained %':>13s}{'mean cm':>9s}{'p95 cm':>8s}{'max cm':>8s}")
    for name, settings in SETTINGS.items():
        curve = selection_curve(fitted, settings=settings, held_out=held, counts=COUNTS)
        columns = (curve.counts, curve.explained, curve.mean_cm, curve.p95_cm, curve.max_cm)
        for count, share, mean, p95, most in zip(*columns, strict=True):
            print(f"{name:24s}{count:6d}{100 * share:13.1f}{mean:9.2f}{p95:8.2f}{most:8.2f}")
    for share in (0.90, 0.95, 0.99):
        for name, settings in SETTINGS.items():
            model = type(settings)(**{**_fields(settings), "explained": share}).fit(fitted)
            print(f"{100 * share:.0f} % rule, {name:22s} {model.num_components:3d} modes: {joint_error(model, held)}")


def _fields(settings: PCA | PGA) -> dict[str, object]:
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}


if __name__ == "__main__":
    main(sys.argv[1])

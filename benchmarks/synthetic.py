"""Data for the races, made here so that they run on any machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np

# parent, number of joints, first offset [cm], following offsets [cm]: legs, spine, neck, arms of a standing person
CHAINS = [
    (0, 5, (10.0, -5.0, 0.0), (0.0, -21.0, 0.0)),
    (0, 5, (-10.0, -5.0, 0.0), (0.0, -21.0, 0.0)),
    (0, 3, (0.0, 12.0, 0.0), (0.0, 14.0, 0.0)),
    (13, 3, (0.0, 12.0, 0.0), (0.0, 9.0, 0.0)),
    (13, 7, (8.0, 8.0, 0.0), (11.0, 0.0, 0.0)),
    (13, 7, (-8.0, 8.0, 0.0), (-11.0, 0.0, 0.0)),
]


def tree_of_31() -> tuple[np.ndarray, np.ndarray]:
    """Parents and offsets [cm] of a 31-joint human-like tree."""
    parents, offsets = [-1], [(0.0, 0.0, 0.0)]
    for parent, count, first, following in CHAINS:
        for k in range(count):
            parents.append(parent if k == 0 else len(parents) - 1)
            offsets.append(first if k == 0 else following)
    return np.array(parents), np.array(offsets)


def write_cmu_like_bvh(path: Path, *, frames: int) -> None:
    """Write a BVH of 31 joints and 96 channels with smooth random rotations, four decimals as CMU files have."""
    rng = np.random.default_rng(7)
    parents, offsets = tree_of_31()
    lines = ["HIERARCHY"]
    _write_joint(lines, parents, offsets, 0, "")
    time = np.linspace(0.0, 8.0, frames)[:, None]
    rates, phases = rng.uniform(0.5, 2.0, 96), rng.uniform(0.0, 6.28, 96)
    values = 35.0 * np.sin(rates * time + phases)
    values[:, 1] += 95.0
    lines += ["MOTION", f"Frames: {frames}", "Frame Time: .0083333"]
    lines += [" ".join(f"{v:.4f}" for v in row) for row in values]
    path.write_text("\n".join(lines) + "\n")


def _write_joint(lines: list[str], parents: np.ndarray, offsets: np.ndarray, joint: int, indent: str) -> None:
    channels = "3 Zrotation Yrotation Xrotation"
    if joint == 0:
        channels = "6 Xposition Yposition Zposition Zrotation Yrotation Xrotation"
    lines += [f"{indent}{'JOINT' if joint else 'ROOT'} J{joint}", indent + "{"]
    lines += [f"{indent}\tOFFSET " + " ".join(f"{v:.5f}" for v in offsets[joint]), f"{indent}\tCHANNELS {channels}"]
    children = np.flatnonzero(parents == joint)
    for child in children:
        _write_joint(lines, parents, offsets, int(child), indent + "\t")
    if not len(children):
        lines += [f"{indent}\tEnd Site", indent + "\t{", f"{indent}\t\tOFFSET 0 5 0", indent + "\t}"]
    lines.append(indent + "}")

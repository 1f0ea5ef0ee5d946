"""Fit the behaviours that ship with the product.

Run it where the captured clips are: ``python benchmarks/fit_behaviours.py MOCAP``. Every file holds the trials that it
was made from. Clips of subjects 87, 88 and 143 were captured at 60 Hz, whatever their headers say.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from marey.io import load
from marey.motion import Motion
from marey.spacetime import BehaviourPose, BehaviourSpace

FOLDER = Path(__file__).parents[1] / "marey" / "spacetime" / "behaviours"
MASS_KG = 75.0
DIMENSION = 20
SIXTY_HZ = ("87", "88", "143")
JUMPS = (
    "118_01 118_02 118_03 118_05 118_06 118_07 118_08 118_10 118_11 118_12 118_13 118_14 118_15 118_16 118_19 118_20"
)
WALKS = "35_01 35_02 35_03 35_04 35_05 35_06 35_08"
RUNS = "35_17 35_18 35_19 35_20 35_21 35_23 35_24 35_26"
OVER = "143_14 143_15 143_16"
FLIPS = "88_01 87_03"


def clips(folder: Path, trials: str) -> list[Motion]:
    """Captured clips by trial, at their true rate."""
    return [
        load(folder / f"{trial}.bvh", rate_hz=60.0 if trial.split("_")[0] in SIXTY_HZ else None)
        for trial in trials.split()
    ]


def flip(folder: Path) -> BehaviourSpace:
    """Back flips: the root turns over, so its pitch is left out; a flip ends as it began, one turn further."""
    space = BehaviourSpace.fit(
        clips(folder, FLIPS),
        dimension=12,
        root_order="yzx",
        free_root="yx",
        mass_kg=MASS_KG,
        window="flight",
        name="flip",
    )
    start = space.pose("start")
    q = start.q.copy()
    q[space.tree.index("root_rx")] -= 2.0 * np.pi
    return replace(space, poses={"start": start, "end": BehaviourPose(q, np.zeros_like(q))})


def main(mocap: Path) -> None:
    """Fit all, write all."""
    folder = mocap / "cmu-bvh"
    FOLDER.mkdir(exist_ok=True)
    for name, trials, window in (
        ("jump", JUMPS, "flight"),
        ("turn", "83_46 83_51 83_54", "flight"),
        ("walk", WALKS, "stance"),
        ("run", RUNS, "stance"),
        ("over", f"{WALKS} {OVER}", "stance"),
    ):
        space = BehaviourSpace.fit(
            clips(folder, trials), dimension=DIMENSION, mass_kg=MASS_KG, window=window, name=name
        )
        _write(space)
    _write(flip(folder))


def _write(space: BehaviourSpace) -> None:
    path = FOLDER / f"{space.name}.safetensors"
    space.save(path)
    used = space.with_energy()
    size = f"{path.stat().st_size / 1e3:.0f} kB"
    print(f"{path.name}: {size}, {used.dimension} coordinates, {used.explained:.3f} of the variance")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("../shared/mocap"))

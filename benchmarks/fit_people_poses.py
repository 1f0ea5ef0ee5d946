"""Fit the pose model that ``marey track`` ships with: ``python benchmarks/fit_people_poses.py MOCAP OUT.safetensors``.

Principal geodesics of at most eight clips of each person of ``tracking_people.toml``, put on the canonical human, at 30
Hz, with their mirror images; modes below 0.03 rad are left out.
"""

from __future__ import annotations

import csv
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import marey
from marey.kinematics import retarget
from marey.lie import SO3
from marey.models import PGA
from marey.motion import Motion, resample
from marey.skeleton import HUMAN

PEOPLE = Path(__file__).with_name("tracking_people.toml")
LEFT_OUT = Path(__file__).with_name("anatomical_people.toml")  # clips with captured faults
CLIPS_EACH, POSES_EACH, POSES_OF_CLIP, SECONDS = 8, 900, 150, 20.0
MIN_DEVIATION = 0.03  # [rad]


def list_clips(mocap: Path, use: str) -> list[tuple[Path, float]]:
    """Files and true frame rates of the people of one list, at most ``CLIPS_EACH`` of each."""
    people = tomllib.loads(PEOPLE.read_text(encoding="utf-8"))[use]
    faulty = tomllib.loads(LEFT_OUT.read_text(encoding="utf-8"))["left_out"]
    with (mocap / "index.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if Path(row["file"]).stem not in faulty]
    found = list[tuple[Path, float]]()
    for person in people:
        own = [row for row in rows if int(row["subject"]) == person]
        chosen = np.unique(np.linspace(0, len(own) - 1, CLIPS_EACH).astype(int)) if own else []
        found += [(mocap / "cmu-bvh" / own[i]["file"], float(own[i]["fps_true"])) for i in chosen]
    return found


def read_clip(file: Path, rate_hz: float) -> Motion:
    """Put a capture on the canonical human, without the added first frame."""
    clip = marey.load(file, rate_hz=rate_hz)[1:]
    return resample(retarget(clip[: round(SECONDS * rate_hz)], HUMAN), 30.0)


def mirror(motion: Motion) -> Motion:
    """Swap left and right."""
    swap = {"left": "right", "right": "left"}
    names = [f"{swap[n.split('_')[0]]}_{n.split('_', 1)[1]}" if "_" in n else n for n in HUMAN.names]
    wxyz = motion.rotations.wxyz[:, [HUMAN.index(name) for name in names]] * (1.0, 1.0, -1.0, -1.0)
    return Motion(HUMAN, motion.rate_hz, motion.root_positions * (-1.0, 1.0, 1.0), SO3(wxyz))


def sample_poses(mocap: Path) -> Iterator[Motion]:
    """Poses of everybody in equal number, and their mirror images."""
    counts: dict[str, int] = {}
    for file, rate_hz in list_clips(mocap, "fit"):
        person = file.stem.split("_")[0]
        if counts.get(person, 0) <= POSES_EACH:
            clip = read_clip(file, rate_hz)
            poses = clip[:: max(1, clip.num_frames // POSES_OF_CLIP)]
            counts[person] = counts.get(person, 0) + poses.num_frames
            yield poses
            yield mirror(poses)


if __name__ == "__main__":
    model = PGA(explained=1.0 - 1e-9).fit(list(sample_poses(Path(sys.argv[1]))))
    kept = model.truncate(int((model.deviations > MIN_DEVIATION).sum()))
    kept.save(sys.argv[2])
    print(kept)

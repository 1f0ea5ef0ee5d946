"""Balance and tracking by forces from inside: ``python benchmarks/study_control.py --help``.

Prints a table and writes ``control.json``, and film strips where asked for, into ``--out``: two feet for a minute under
pushes, one foot with and without the angular momentum held, a captured walk in place and a standing reach for half a
minute, captured walks over ground, pushes of growing strength, and the reduced against the full space on clips that
the model has not seen.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import marey
from marey.control import TrackResult, TrackWeights, back_and_forth, balance, track_result, walk_in_place
from marey.control._reference import prepared_clip, sampled_clip
from marey.control._reference_stand import balance_moves
from marey.models import PGA
from marey.motion import Motion
from marey.picture import film_strip, save_image
from marey.simulate import Push

STANDING, WALK, REACH = "69_70", "37_01", "79_20"
WALKS = ("37_01", "07_04", "69_02", "16_33")
SEEN, UNSEEN = ("69_01", "69_04", "69_05"), "69_02"
PUSHES_N = (50.0, 100.0, 150.0, 200.0, 300.0, 400.0)
BARE = TrackWeights(root=0.0, pose=0.0)  # nothing but the features of the source


class Study:
    """Clips, and what was measured on them."""

    def __init__(self, folder: Path, out: Path, seconds: float, modes: int | None, strips: bool) -> None:
        self.folder, self.out, self.share, self.modes, self.strips = folder, out, seconds, modes, strips
        self.rows: list[dict[str, Any]] = []

    def clip(self, name: str) -> Motion:
        """A captured clip without its first frame, a T-pose."""
        return marey.load(self.folder / f"{name}.bvh")[1:]

    def note(self, name: str, run: Callable[[], TrackResult], **more: Any) -> TrackResult:
        """Run something, print and keep what came of it."""
        start, cpu = time.perf_counter(), time.process_time()
        found = run()
        steps = len(found.planned)
        row = {
            "what": name,
            "seconds": round(found.motion.duration_s, 2),
            "fall": None if found.fall is None else str(found.fall),
            "mean_error_cm": round(100.0 * found.mean_error_m, 2),
            "largest_error_cm": round(100.0 * float(found.error_m.max()), 2),
            "unplanned": int((~found.planned).sum()),
            "cpu_ms_per_step": round(1e3 * (time.process_time() - cpu) / steps, 2),
            "wall_ms_per_step": round(1e3 * (time.perf_counter() - start) / steps, 2),
            **more,
        }
        self.rows.append(row)
        print(json.dumps(row), flush=True)
        if self.strips:
            picture = film_strip(found.motion, count=10, width=1600)
            save_image(picture, self.out / f"{name.replace(' ', '_').replace('/', '_')}.png")
        return found


def pushes_around(force_n: float, seconds: float) -> list[Push]:
    """A push of a tenth of a second every five seconds, each from another side."""
    sides = [(np.cos(1.3 * n), 0.0, np.sin(1.3 * n)) for n in range(int(seconds / 5.0) + 1)]
    return [Push("Spine1", force_n * np.array(side), 5.0 * n + 1.0, 0.1) for n, side in enumerate(sides)]


def standing(study: Study) -> None:
    """Check 68: two feet for a minute, one foot with and without the angular momentum."""
    clip, whole = study.clip(STANDING), 60.0 * study.share
    pushes = pushes_around(20.0, whole)
    study.note("two feet, 20 N", lambda: balance(clip, seconds=whole, pushes=pushes, model=study.modes))
    seconds = 20.0 * study.share
    study.note("one foot", lambda: balance(clip, seconds=seconds, feet="left", model=study.modes))
    study.note(
        "one foot, 20 N",
        lambda: balance(clip, seconds=seconds, feet="left", model=study.modes, pushes=pushes_around(20.0, seconds)),
    )
    for momentum in (True, False):
        study.note(
            f"one foot, features of the source, momentum {'held' if momentum else 'free'}",
            lambda momentum=momentum: balance(
                clip, seconds=0.6 * seconds, feet="left", model=None, momentum=momentum, weights=BARE
            ),
        )


def tracking(study: Study) -> None:
    """A walk in place and a standing reach for half a minute, walks over ground for as long as they are."""
    seconds = 30.0 * study.share
    walk, reach = walk_in_place(study.clip(WALK), seconds), back_and_forth(study.clip(REACH), seconds)
    study.note("walk in place", lambda: track_result(walk, model=study.modes))
    study.note(
        "walk in place, 20 N", lambda: track_result(walk, model=study.modes, pushes=pushes_around(20.0, seconds))
    )
    study.note("standing reach", lambda: track_result(reach, model=study.modes))
    for name in WALKS:
        study.note(f"walk {name}", lambda name=name: track_result(study.clip(name), model=study.modes))


def pushed(study: Study) -> None:
    """How hard a push of a tenth of a second may be."""
    clip, walk = study.clip(STANDING), walk_in_place(study.clip(WALK), 4.0)
    for force in PUSHES_N:
        push = [Push("Spine1", (force, 0.0, 0.0), 1.0, 0.1)]
        study.note(f"stand, {force:.0f} N", lambda p=push: balance(clip, seconds=4.0, pushes=p, model=study.modes))
        study.note(f"walk in place, {force:.0f} N", lambda p=push: track_result(walk, pushes=p, model=study.modes))


def spaces(study: Study) -> None:
    """Equal tasks (centre of mass, momentum, root, feet; no pose) on a clip that the model has not seen."""
    seen = [prepared_clip(walk_in_place(study.clip(name), 2.0), 100.0) for name in SEEN]
    unseen = walk_in_place(study.clip(UNSEEN), max(2.0, 5.0 * study.share))
    moves = sampled_clip(balance_moves(study.clip(SEEN[0])), 100.0)
    model = PGA(n_components=study.modes or 24, weights="lever").fit([*seen, moves])
    truth = prepared_clip(unseen, 100.0)
    for name, space in (("reduced", model), ("full", None)):
        found = study.note(
            f"unseen, {name} space",
            lambda space=space: track_result(unseen, model=space, weights=TrackWeights(pose=0.0)),
        )
        study.rows[-1] |= pose_errors(found.motion, truth)
        print(json.dumps(study.rows[-1]), flush=True)


def pose_errors(motion: Motion, truth: Motion) -> dict[str, float]:
    """Mean distance of joints [cm] and mean angle between them [deg]."""
    count = min(len(motion), len(truth))
    wanted = replace(truth, skeleton=motion.skeleton)[:count]
    apart = np.linalg.norm(motion.joint_positions()[:count] - wanted.joint_positions(), axis=-1)
    turns = (wanted.rotations[:, 1:].inverse() @ motion.rotations[:count, 1:]).log()
    angle = np.degrees(np.linalg.norm(turns, axis=-1).mean())
    return {"joints_cm": round(100.0 * float(apart.mean()), 3), "joints_deg": round(float(angle), 3)}


PARTS = {"standing": standing, "tracking": tracking, "pushed": pushed, "spaces": spaces}


def main(arguments: list[str]) -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the captured clips, cmu-bvh")
    parser.add_argument("--out", type=Path, default=Path(".bench"))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--modes", type=int, default=24, help="of the clip's space; 0 for all joints")
    parser.add_argument("--share", type=float, default=1.0, help="of the full times, to try it out")
    parser.add_argument("--strips", action="store_true", help="write a film strip of each run")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    study = Study(given.folder, given.out, given.share, given.modes or None, given.strips)
    for part in given.parts:
        PARTS[part](study)
    (given.out / "control.json").write_text(json.dumps(study.rows, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

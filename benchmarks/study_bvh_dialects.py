"""BVH files drawn at random from what tools do: is each read as the right person?

``python benchmarks/study_bvh_dialects.py COUNT [CLIP.bvh ...] [--seed 9]`` draws COUNT files of the sample walk and of
the clips (tests/oracles/odd_bvh.py: 59 naming habits, 27 trees, 12 rest poses, nodes above the hips, units, axes,
orders of channels, kinds of text; statures of 1.35 to 2.1 m) and compares every joint of every frame with where it
was drawn. It prints the files that are wrong, and how many keep each fact. With ``--tools`` the files are those of
named tools and games (tests/oracles/tool_exports.py), each in turn.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from oracles.odd_bvh import MUST, OddFile, draw_file
from oracles.tool_exports import EXPORTS, draw_export

from marey import samples
from marey.base import MareyError
from marey.io import load
from marey.kinematics import retarget
from marey.lie import SO3
from marey.motion import Motion, assess_motion, headings, mean_speed, standing_height
from marey.skeleton import HUMAN, role_map

RATE_HZ, FRAMES = 30.0, 90
NEAR_M = 3e-3
HEIGHTS_M = (1.25, 2.15)  # drawn ones and the crowns that are estimated for heads without an end
SPEED_TOL = 0.02
FACING_TOL = np.radians(30.0)  # hips alone against hips and shoulders


def put_on_human(motion: Motion) -> Motion:
    """Some seconds of a clip on the canonical human, 30 frames a second."""
    moved = retarget(motion, HUMAN, contacts=False)
    step = max(1, round(moved.rate_hz / RATE_HZ))
    return Motion(HUMAN, RATE_HZ, moved.root_positions[::step][:FRAMES], SO3(moved.rotations.wxyz[::step][:FRAMES]))


def find_faults(drawn: OddFile, path: Path) -> list[str]:
    """What is wrong with a file as it is read, by fact."""
    path.write_bytes(drawn.data)
    try:
        motion = load(path)
    except MareyError as error:
        return [f"refused: {error.args[0]}"]
    names, faults = motion.skeleton.names, list[str]()
    if not assess_motion(motion).is_human:
        faults.append("not human")
    known = [(i, names.index(name)) for i, name in enumerate(drawn.joints) if name in names]
    if not known:
        return [*faults, f"other joints: {', '.join(names[:3])}"]
    there, here = drawn.positions[:, [i for i, _ in known]], motion.joint_positions()[:, [j for _, j in known]]
    if there.shape != here.shape or np.abs(there - here).max() > NEAR_M:
        faults.append("positions")
    if abs(motion.rate_hz / drawn.rate_hz - 1.0) > 1e-3:
        faults.append("rate")
    if not HEIGHTS_M[0] < standing_height(motion.skeleton) < HEIGHTS_M[1]:
        faults.append(f"height {standing_height(motion.skeleton):.2f} m")
    # Both hips tell which way the body faces, and a person who stands has the height that was drawn
    hips = [drawn.joints.index(drawn.roles[f"{side}_hip"]) for side in ("left", "right")]
    across = drawn.positions[:, hips[0]] - drawn.positions[:, hips[1]]
    if there.shape == here.shape:
        off = np.angle(np.exp(1j * (headings(motion) - np.arctan2(-across[:, 2], across[:, 0]))))
        if np.abs(off).max() > FACING_TOL:
            faults.append(f"facing {np.degrees(np.abs(off).max()):.0f}°")
    path_m = np.linalg.norm(np.diff(there[:, 0, [0, 2]], axis=0), axis=1).sum()
    speed = float(path_m) / max(motion.duration_s, 1e-9)
    if "pelvis" in drawn.roles and abs(mean_speed(motion) - speed) > SPEED_TOL * speed + 0.01:
        faults.append(f"speed {mean_speed(motion):.2f} for {speed:.2f} m/s")
    roles = role_map(motion.skeleton)
    wrong = [r for r in MUST if r in drawn.roles and (r not in roles or names[roles[r]] != drawn.roles[r])]
    return [*faults, *([f"roles: {', '.join(wrong)}"] if wrong else [])]


def main() -> None:
    """Draw, load, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("clips", nargs="*", type=Path)
    parser.add_argument("--seed", type=int, default=9)
    parser.add_argument("--tools", action="store_true", help="files of named tools")
    options = parser.parse_args()
    clips = [put_on_human(motion) for motion in (samples.walk(), *(load(path) for path in options.clips))]
    counts, slowest = Counter[str](), 0.0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.count):
            clip, rng = clips[number % len(clips)], np.random.default_rng([options.seed, number])
            tool = list(EXPORTS)[number % len(EXPORTS)]
            drawn = draw_export(clip, tool, rng) if options.tools else draw_file(clip, rng)
            start = time.perf_counter()
            faults = find_faults(drawn, Path(folder) / "take.bvh")
            slowest = max(slowest, time.perf_counter() - start)
            counts["right"] += not faults
            for fault in faults:
                counts[fault.split()[0].rstrip(":")] += 1
            if faults:
                print(number, "; ".join(faults), drawn.choices, flush=True)
    print(f"{options.count} files: {dict(counts)}, slowest {slowest:.1f} s")


if __name__ == "__main__":
    main()

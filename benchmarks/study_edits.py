"""Edits of captured clips, two on each: a hand in the air and a footprint on the ground.

``python benchmarks/study_edits.py MOCAP [--clips N] [--tuning] [--pictures FOLDER]`` takes clips that the index of the
folder does not list (``--tuning``: those that it lists), moves a hand by 15 cm and a standing foot by 12 cm at places
that a seeded generator chooses, and prints how far the pinned point is from its place in the edited clip, the valid
share before and after as ``check_validity`` finds it anew in both, the processor time of the whole edit, and how long
the editor took, from the moment that the pin was set, to the first picture that has the pin and no less validity.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from study_repair import find_clips

import marey
from marey.base import MareyError
from marey.contacts import detect_contacts
from marey.dynamics import check_validity
from marey.motion import Motion, contact_positions
from marey.picture import film_strip, save_image
from marey.picture.strips import StripSettings
from marey.skeleton import contact_points
from marey.spacetime import PointPin, ValidEditor, edit_physically
from marey.spacetime.goals import find_goal_window

MOST_S = 4.0  # of a clip
HAND_M, FOOT_M = 0.15, 0.12
PIN_M, FIRST_S, RESULT_S = 0.01, 0.5, 3.0  # what an edit must keep
SHARE_TOL = 1e-9


def choose_pins(motion: Motion, rng: np.random.Generator) -> list[tuple[str, PointPin]]:
    """A hand moved in the air, and a standing heel moved over the ground, well inside the clip."""
    points, names = contact_positions(motion), contact_points(motion.skeleton).names
    times = np.arange(motion.num_frames) / motion.rate_hz
    inside = np.flatnonzero((times > 1.0) & (times < times[-1] - 1.0))
    pins: list[tuple[str, PointPin]] = []
    side = ("left", "right")[int(rng.integers(2))]
    frame = int(rng.choice(inside))
    away = rng.normal(size=3)
    hand = f"{side}_hand"
    goal = points[frame, names.index(hand)] + HAND_M * away / np.linalg.norm(away)
    pins.append(("hand", PointPin(hand, float(times[frame]), goal)))
    # The heel that is lowest and stillest there
    heels = [names.index(f"{s}_heel") for s in ("left", "right")]
    speed = np.linalg.norm(np.gradient(points[:, heels], axis=0), axis=2) * motion.rate_hz
    frame = int(inside[np.argmin(speed[inside].min(axis=1))])
    heel = heels[int(np.argmin(speed[frame]))]
    turn = rng.uniform(0.0, 2.0 * np.pi)
    goal = points[frame, heel] + FOOT_M * np.array([np.cos(turn), 0.0, np.sin(turn)])
    pins.append(("foot", PointPin(names[heel], float(times[frame]), goal)))
    return pins


def measure_pin_error(motion: Motion, pin: PointPin) -> float:
    """Distance [m] of the pinned point from its place."""
    at = contact_positions(motion)[
        round(pin.time_s * motion.rate_hz), contact_points(motion.skeleton).names.index(pin.point)
    ]
    return float(np.linalg.norm(at - pin.place))


def time_first_picture(motion: Motion, pin: PointPin, share: float) -> float:
    """Processor time [s] from setting a pin to the first picture that has it and is no less valid; inf if none is."""
    start_s, stop_s = find_goal_window(motion, detect_contacts(motion), [pin], [])
    editor, seen = ValidEditor(motion, start_s=start_s, stop_s=stop_s), []
    began = time.process_time()
    editor.pin(pin)
    editor.improve(20.0, lambda iterate: bool(seen.append((time.process_time() - began, iterate))))
    for seconds, iterate in seen:
        if (
            measure_pin_error(iterate.motion, pin) <= PIN_M
            and check_validity(iterate.motion).valid_fraction >= share - SHARE_TOL
        ):
            return seconds
    return np.inf


def main() -> None:
    """Edit and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clips", type=int, default=10)
    parser.add_argument("--skip", type=int, default=0, help="clips of each kind that are left out first")
    parser.add_argument("--tuning", action="store_true", help="clips of the index, looked at while mending")
    parser.add_argument("--pictures", type=Path, help="folder for strips")
    args = parser.parse_args()
    rng, count, results = np.random.default_rng(20), Counter[str](), Counter[str]()
    print("| clip | kind | edit | pin mm | valid % | first picture s | result s | solved |")
    print("|---|---|---|---|---|---|---|---|")
    left = args.clips
    for kind, path, rate_hz in find_clips(args.folder, held_out=not args.tuning):
        count[kind] += 1
        if not left or not args.skip < count[kind] <= args.skip + 1 + args.clips // 3:
            continue
        motion = marey.load(path)
        motion = motion if rate_hz is None else replace(motion, rate_hz=rate_hz)
        motion = motion[1 : 1 + round(MOST_S * motion.rate_hz)]
        if motion.duration_s < 2.5:
            continue
        left -= 1
        share = check_validity(motion).valid_fraction
        for name, pin in choose_pins(motion, rng):
            began = time.process_time()
            try:
                result = edit_physically(motion, [pin], on_failure="return")
                seconds = time.process_time() - began
                off, after = measure_pin_error(result.motion, pin), check_validity(result.motion).valid_fraction
                first = time_first_picture(motion, pin, share)
            except MareyError as error:
                print(f"| {path.stem} | {kind} | {name} | refused: {error} |", flush=True)
                results["edits"] += 1
                continue
            green = f"{100 * share:.0f} -> {100 * after:.0f}"
            row = (path.stem, kind, name, f"{1e3 * off:.1f}", green, f"{first:.2f}", f"{seconds:.2f}", result.is_solved)
            print(f"| {' | '.join(map(str, row))} |", flush=True)
            if not result.is_solved:
                print(f"    {result.advice}", flush=True)
            results["edits"] += 1
            results["pin"] += off <= PIN_M
            results["valid"] += after >= share - SHARE_TOL
            results["first"] += first <= FIRST_S
            results["result"] += seconds <= RESULT_S
            results["called solved and is not"] += result.is_solved and (off > PIN_M or after < share - SHARE_TOL)
            if args.pictures is not None:
                args.pictures.mkdir(parents=True, exist_ok=True)
                for view, turn in (("side", 0.08), ("front", 1.45)):
                    look = StripSettings(grid_turn_rad=turn)
                    image = film_strip(result.motion, layout="grid", width=1200, settings=look)
                    save_image(image, args.pictures / f"{path.stem}-{name}-{view}.png")
    print(dict(results))


if __name__ == "__main__":
    main()

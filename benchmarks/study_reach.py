"""Reaches of a soft arm for random places in space.

``python benchmarks/study_reach.py [COUNT] [--seed N]`` draws places in the ball that the left hand could reach if its
joints had no limits, and times between 0.6 and 1.2 s. Places that the shipped limits forbid are counted as flagged;
for the others the distance of the drawn hand from the place, at its time, is printed. The arm was tuned on seed 1.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from marey.base import MareyError
from marey.kinematics import posing_limits
from marey.muscle import make_hanging_pose, make_reach_film, measure_arm, solve_reach
from marey.muscle.human.arm_reach import REACH_TOL_M, HandGoal, solve_key_poses
from marey.skeleton import HUMAN


def main() -> None:
    """Print a line for each place, and the distribution."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=50)
    parser.add_argument("--seed", type=int, default=2)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    shoulder = make_hanging_pose().joint_positions()[HUMAN.names.index("left_shoulder")]
    wrist = HUMAN.names.index("left_wrist")
    misses, flagged, failed = list[float](), 0, 0
    while len(misses) + failed < args.count:
        step = rng.standard_normal(3)
        place = shoulder + sum(measure_arm()) * rng.uniform() ** (1 / 3) * step / np.linalg.norm(step)
        when, began = float(rng.uniform(0.6, 1.2)), time.process_time()
        # A place that the limits forbid is flagged by its key pose; the film need not be made
        pose = solve_key_poses([HandGoal(when, place)], HUMAN, "left", posing_limits(HUMAN))[0]
        if np.linalg.norm(pose.joint_positions()[wrist] - place) > REACH_TOL_M:
            flagged += 1
            continue
        try:
            found = solve_reach([(when, place)])
        except MareyError as error:
            failed += 1
            print(f"{place.round(2)}  {str(error)[:80]}", flush=True)
            continue
        # The hand of the film: the end of its last bone, in the frame of the goal
        film = make_reach_film(found)
        frame = int(np.argmin(np.abs(film.times - when)))
        misses.append(float(np.linalg.norm(film.bones.ends[frame, -1, 1] - place)))
        seconds = time.process_time() - began
        figures = f"{when:.2f} s  {100 * misses[-1]:.2f} cm  {found.status}  {seconds:.1f} s"
        print(f"{(place - shoulder).round(2)} {figures}", flush=True)
    cm = 100 * np.array(misses)
    shares = f"median {np.median(cm):.2f} cm, 95 % below {np.percentile(cm, 95):.2f} cm, worst {cm.max():.2f} cm"
    print(f"{len(cm)} places, {flagged} flagged as out of reach, {failed} failed: {shares}")


if __name__ == "__main__":
    main()

"""The thesis's obstacle test bed: where the take-off toe comes down, over hundreds of random obstacles.

``python benchmarks/study_obstacles.py [JUMPS]`` repeats it: 353 leaps from a walk of 1.1 m/s and 334 from a run of
1.5 m/s with legs of 0.88 m ([Glardon2005] part IV, ch. 1; its own result is 70 % within 5 cm and 20 cm at most).
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass

import numpy as np

from marey.locomotion import Engine, Obstacle, get_obstacle_course, load_model, sample_obstacle
from marey.skeleton import foot_points

LEG_M = 0.88
RUNS = (("walk", 1.1, 0.0, 353), ("run", 1.5, 1.0, 334))
RATE_HZ = 60.0
GROUND_M = 0.03  # a point of the sole that is lower stands


@dataclass(frozen=True)
class Trial:
    """One obstacle that was jumped over."""

    miss_m: float  # toe joint, from the place planned for it
    before_m: float  # end of the toe before the front edge
    beyond_m: float  # landed heel behind the rear edge
    inside_m: float  # deepest that a point of a foot was inside the box
    speed_error: float  # [m/s] at take-off
    length_m: float


def jump_one(engine: Engine, rng: np.random.Generator, *, move_s: float | None = None) -> Trial | str:
    """Drop an obstacle, and jump over it if that is the decision; ``move_s``: it moves once after so long."""
    course = get_obstacle_course(engine)
    decision = course.add(sample_obstacle(rng, engine.position, engine.heading_rad))
    if decision.choice != "jump":
        return decision.choice
    points = foot_points(engine.skeleton)
    toe, started, landed, inside = np.zeros(3), np.zeros(3), np.zeros(3), 0.0
    heading, speed = engine.heading_rad, 0.0
    state, clock = "adapt", 0.0
    while not (state in ("blend-out", "restore") and engine.state not in ("blend-in", "jump", "blend-out")):
        state = engine.state
        pose = engine.step(1.0 / RATE_HZ)
        clock += 1.0 / RATE_HZ
        if move_s is not None and clock >= move_s and engine.state == "adapt":
            x, z = course.obstacles[0].position
            course.move(0, (x, z + rng.uniform(-0.1, 0.3)))
            move_s = None
        soles = points.positions(pose.joint_positions(), pose.joint_rotations())
        within = course.obstacles[0].distance(soles[:, [0, 2]]) == 0.0
        inside = max(inside, float(np.max(np.where(within, 0.1 - soles[:, 1], 0.0))))
        if engine.state == "blend-in":
            decision, heading = course.decision or decision, engine.heading_rad
            toe, speed = pose.joint_positions()[engine.skeleton.index(f"{decision.foot}_foot")], engine.speed
            started = _standing(soles[points.index(f"{decision.foot}_toe_end")], started)
        if engine.state == "blend-out":
            other = "left" if decision.foot == "right" else "right"
            landed = _standing(soles[points.index(f"{other}_heel")], landed)
        if engine.state not in ("adapt", "blend-in", "jump", "blend-out", "restore") and clock > 60.0:
            return "lost"
        if course.decision is not None and course.decision.choice != "jump":
            return "gave up"
    made, box = course.decision, course.obstacles[0]
    assert made is not None and made.takeoff is not None and made.leap is not None
    forward = np.array([np.sin(heading), np.cos(heading)])
    return Trial(
        float((toe[[0, 2]] - made.takeoff) @ forward),
        _ahead(box, started, heading)[0],
        -_ahead(box, landed, heading)[1],
        inside,
        speed - made.leap.speed_mps,
        made.leap.length_m,
    )


def _standing(point: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Where a point of the sole was last on the ground: a foot that lifts tells nothing about where it stood."""
    return point if point[1] < GROUND_M or not before.any() else before


def _ahead(box: Obstacle, point: np.ndarray, heading: float) -> tuple[float, float]:
    """Distance [m] from a point to the near and to the far edge of a box on its track."""
    seen = box.track_extent_from(point[[0, 2]], heading) or box.extent_from(point[[0, 2]], heading)
    return seen.front, seen.rear


def protocol(gait: str, speed: float, run: float, jumps: int, *, seed: int = 0, moving: bool = False) -> list[Trial]:
    """So many jumps over random obstacles; prints what was not jumped over."""
    model, rng = load_model(), np.random.default_rng(seed)
    trials: list[Trial] = []
    others: Counter[str] = Counter()
    while len(trials) < jumps:
        engine = Engine(model, leg_length_m=LEG_M, speed=speed, run=run, phase=float(rng.uniform()))
        move_s = float(rng.uniform(0.3, 1.0)) if moving else None
        outcome = jump_one(engine, rng, move_s=move_s)
        if isinstance(outcome, Trial):
            trials.append(outcome)
        else:
            others[outcome] += 1
    print(f"{gait}: {len(trials)} jumps; not jumped: {dict(others)}")
    return trials


def table(trials: list[Trial]) -> str:
    """The figures of a run of trials."""
    miss = 100.0 * np.abs([t.miss_m for t in trials])
    before = 100.0 * np.array([t.before_m for t in trials])
    return (
        f"  miss of the planned place: mean {miss.mean():.2f} cm, max {miss.max():.2f}, "
        f"within 2 cm {100 * np.mean(miss <= 2.0):.1f} %\n"
        f"  end of the toe before the edge: {before.min():.1f} to {before.max():.1f} cm\n"
        f"  heel beyond the rear edge: at least {100 * min(t.beyond_m for t in trials):.1f} cm; "
        f"deepest foot in a box {100 * max(t.inside_m for t in trials):.2f} cm\n"
        f"  speed at take-off: off by {max(abs(t.speed_error) for t in trials):.4f} m/s at most"
    )


def main() -> None:
    """Run both parts, and a part of each with obstacles that move once."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else None
    for gait, speed, run, jumps in RUNS:
        count = jumps if most is None else min(jumps, most)
        print(table(protocol(gait, speed, run, count)))
        print("moved once during the run-up, ", end="")
        print(table(protocol(gait, speed, run, max(1, count // 4), seed=1, moving=True)))


if __name__ == "__main__":
    main()

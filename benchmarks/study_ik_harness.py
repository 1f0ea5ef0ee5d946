"""Every solver of inverse kinematics in the same slot of time: ``python benchmarks/study_ik_harness.py --help``.

Prints tables and writes ``ik_harness.json`` and ``ik_harness.png`` into ``--out``. The goals come from the synthetic
walk, run and jump, or from the clips of a folder. Four sweeps: how much time lies between the frames (coherence), how
far out of reach the goals are, how noisy they are, how far away the start is; and the fixed step of the transpose.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from ik_harness import (
    RAW,
    SOLVERS,
    TOLERANCE_M,
    Course,
    Log,
    Solver,
    box_stats,
    course,
    follow,
    iterations_in_slot,
)
from ik_harness_plot import draw
from run import processor, versions

import marey
from marey import samples
from marey.kinematics import JointLimits, fit_limits, solve_ik
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import Pose

INTERVALS_S = (0.05, 0.175, 0.7, 1.0)
STRETCHES = (1.0, 1.1, 1.25, 1.5, 2.0, 4.0)
NOISES_M = (0.0, 0.002, 0.01, 0.05)
SPREADS_RAD = (0.1, 0.3, 0.6, 1.0)
STEPS = (0.0005, 0.001, 0.005, 0.01, 0.05)
SWEEP_INTERVAL_S = 0.05
MARGIN_RAD = 0.1


def clips(folder: Path | None, names: Sequence[str]) -> list[Motion]:
    """The synthetic clips, or those of a folder whose name contains one of ``names``."""
    if folder is None:
        return [samples.walk(), samples.run(), samples.jump()]
    files = sorted(
        p for p in folder.rglob("*") if p.suffix.lower() in (".bvh", ".amc") and (not names or p.stem in names)
    )
    if not files:
        raise SystemExit(f"no .bvh or .amc file in {folder}; give --mocap a folder of clips")
    return [marey.load(path) for path in files]


def limits_of(motion: Motion, kind: str) -> JointLimits | None:
    """Limits learnt from the clip, so that it obeys them."""
    return (
        None
        if kind == "none"
        else fit_limits(motion, kind, **({"margin_rad": MARGIN_RAD} if kind != "ellipsoid" else {}))
    )


def summary(log: Log, slot_s: float, max_iterations: int) -> dict[str, Any]:
    """Figures of one solver at one setting."""
    return {
        "max_iterations": max_iterations,
        "frames": len(log.objective),
        "objective_unit2": asdict(box_stats(log.objective)),
        "reached_share": float((log.goal_error_m <= TOLERANCE_M).mean()),
        "diverged_share": float(log.diverged.mean()),
        "iterations_median": float(np.median(log.iterations)),
        "evaluations_median": float(np.median(log.evaluations)),
        "ms_median": 1e3 * float(np.median(log.seconds)),
        "ms_p99": 1e3 * float(np.quantile(log.seconds, 0.99)),
        "over_slot_share": float((log.seconds > slot_s).mean()),
        "violation_rad": float(log.violation_rad.max()),
        "shake": float(np.sqrt((log.shake**2).mean())),
        "turn_rad_max": float(log.turn_rad.max()),
        "jump_max": float(log.jump.max()),
        "stray_cm": 100.0 * float(log.stray_m.mean()),
    }


def run(solver: Solver, ways: Iterable[Course], count: int, slot_s: float) -> dict[str, Any]:
    """One solver along several ways."""
    return summary(Log.joined([follow(way, solver, count) for way in ways]), slot_s, count)


def starts_sweep(solver: Solver, ways: Sequence[Course], count: int, spread_rad: float) -> dict[str, float]:
    """Share of frames reached, and of those that end worse than they began, from starts with random turns."""
    rng, reached, worse = np.random.default_rng(7), [], []
    for way in (way.for_solver(solver) for way in ways):
        for k in range(0, len(way.goals), 3):
            turns = SO3.exp(rng.normal(0.0, spread_rad, (way.skeleton.num_joints, 3)))
            start = Pose(way.skeleton, way.roots[k], way.rotations[k] @ turns)
            options = {"start": start, "limits": way.limits, "on_failure": "return", **RAW, **solver.options}
            first = solve_ik(
                way.skeleton,
                way.tasks(k),
                **{**options, "max_iterations": 0, "method": "projected-lm", "variant": None},
            )
            found = solve_ik(way.skeleton, way.tasks(k), max_iterations=count, **options)
            reached.append(found.position_error_m <= TOLERANCE_M)
            worse.append(found.objective > first.objective * (1.0 + 1e-9) + TOLERANCE_M**2)
    return {"reached_share": float(np.mean(reached)), "diverged_share": float(np.mean(worse))}


def step_sweep(ways: Sequence[Course], step: float) -> dict[str, float]:
    """The transpose with one fixed step: how often the objective rises, and how often it ends above its start."""
    rises, worse = [], []
    for way in ways:
        apart = min(5, len(way.goals) - 1)
        for k in range(apart, len(way.goals), apart):
            found = solve_ik(
                way.skeleton,
                way.tasks(k),
                start=way.pose(k - apart),
                limits=way.limits,
                **RAW,
                method="jacobian-transpose",
                step=step,
                max_iterations=100,
                record=True,
                on_failure="return",
            )
            if len(found.history):
                rises.append(float((np.diff(found.history[:, 0]) > 0.0).mean()) if len(found.history) > 1 else 0.0)
                worse.append(bool(found.history[-1, 0] > found.history[0, 0]))
    return {"rising_share": float(np.mean(rises)), "diverged_share": float(np.mean(worse))}


def study(motions: Sequence[Motion], kind: str, slot_s: float, frames: int, chosen: Sequence[Solver]) -> dict[str, Any]:
    """All sweeps of all solvers, as plain data."""
    held = [(motion, limits_of(motion, kind)) for motion in motions]
    by_interval = {s: [course(m, s, frames, limits) for m, limits in held] for s in INTERVALS_S}
    near = by_interval[SWEEP_INTERVAL_S]
    rng = np.random.default_rng(11)
    noisy = {d: [way.shaken(d, rng) for way in near] for d in NOISES_M}
    found: dict[str, Any] = {"coherence": {}, "stretch": {}, "noise": {}, "starts": {}, "transpose_step": {}}
    print(HEAD)
    for solver in chosen:
        count = iterations_in_slot(by_interval[0.175], solver, slot_s)
        name = solver.name
        found["coherence"][name] = {}
        for interval_s, ways in by_interval.items():
            found["coherence"][name][str(interval_s)] = row = run(solver, ways, count, slot_s)
            print(line(name, interval_s, row), flush=True)
        found["stretch"][name] = {str(f): run(solver, [w.stretched(f) for w in near], count, slot_s) for f in STRETCHES}
        found["noise"][name] = {str(d): run(solver, ways, count, slot_s) for d, ways in noisy.items()}
        found["starts"][name] = {str(a): starts_sweep(solver, near, count, a) for a in SPREADS_RAD}
    found["transpose_step"] = {str(step): step_sweep(near, step) for step in STEPS}
    return found


HEAD = (
    "| method | interval [s] | iterations | median f [unit²] | quartiles | whisker | outliers | reached [%] "
    "| diverged [%] | median [ms] | p99 [ms] | shake | largest turn [rad] | stray [cm] |\n" + "|---" * 14 + "|"
)


def line(name: str, interval_s: float, row: dict[str, Any]) -> str:
    """One row of the table."""
    f = row["objective_unit2"]
    cells = (
        name,
        interval_s,
        row["max_iterations"],
        f"{f['median']:.2g}",
        f"{f['q1']:.2g} to {f['q3']:.2g}",
        f"{f['high']:.2g}",
        len(f["outliers"]),
        f"{100 * row['reached_share']:.0f}",
        f"{100 * row['diverged_share']:.0f}",
        f"{row['ms_median']:.2f}",
        f"{row['ms_p99']:.2f}",
        f"{row['shake']:.2f}",
        f"{row['turn_rad_max']:.2f}",
        f"{row['stray_cm']:.1f}",
    )
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def print_sweep(title: str, sweep: dict[str, Any], key: str, scale: float = 100.0) -> None:
    """A table of one figure, solvers down, settings across."""
    settings = list(next(iter(sweep.values())))
    print(f"\n| {title} | " + " | ".join(settings) + " |\n" + "|---" * (len(settings) + 1) + "|")
    for name, row in sweep.items():
        print(f"| {name} | " + " | ".join(f"{scale * row[s][key]:.3g}" for s in settings) + " |")


def main(arguments: Sequence[str]) -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mocap", type=Path, help="folder of .bvh or .amc clips; the synthetic clips by default")
    parser.add_argument("--clips", nargs="*", default=[], help="names of clips in the folder, without suffix")
    parser.add_argument(
        "--limits", default="box", help="none, or a kind of limit learnt from each clip: box, cone, sdf ..."
    )
    parser.add_argument("--slot-ms", type=float, default=15.0, help="time for one frame; 15 is the source's")
    parser.add_argument("--frames", type=int, default=20, help="frames of each clip and setting")
    parser.add_argument("--methods", nargs="*", default=[], help="names of methods; all by default")
    parser.add_argument("--out", type=Path, default=Path("artefacts"), help="folder for ik_harness.json and .png")
    asked = parser.parse_args(arguments)
    if asked.frames < 4 or asked.slot_ms <= 0.0:
        parser.error("give at least 4 frames and a slot longer than nothing")
    chosen = [s for s in SOLVERS if not asked.methods or s.method in asked.methods]
    if not chosen:
        parser.error(
            f"no method called {', '.join(asked.methods)}; there are {', '.join({s.method: 0 for s in SOLVERS})}"
        )
    motions = clips(asked.mocap, asked.clips)
    found = study(motions, asked.limits, 1e-3 * asked.slot_ms, asked.frames, chosen)
    print_sweep("goals stretched: diverged [%]", found["stretch"], "diverged_share")
    print_sweep("goals stretched: largest turn over what the goals ask for", found["stretch"], "jump_max", 1.0)
    print_sweep("noise of the goals [m]: shake", found["noise"], "shake", 1.0)
    print_sweep("start away by [rad]: reached [%]", found["starts"], "reached_share")
    print_sweep("fixed step", {"objective rises [%]": found["transpose_step"]}, "rising_share")
    about = {"clips": [m.name for m in motions], "limits": asked.limits, "slot_ms": asked.slot_ms}
    asked.out.mkdir(parents=True, exist_ok=True)
    report = {"processor": processor(), "versions": versions(), **about, **found}
    (asked.out / "ik_harness.json").write_text(json.dumps(report, indent=1) + "\n")
    draw(report, asked.out / "ik_harness.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

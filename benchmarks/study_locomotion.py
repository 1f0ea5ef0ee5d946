"""How plausible are synthesised walks and runs?

``python benchmarks/study_locomotion.py [--mocap FOLDER] [--out FOLDER] [--only TEXT]`` prints three tables. Validity:
the part of the frames that a body could have made, for synthesised clips and, with ``--mocap``, for the captured clips
of the same gait and nearly the same speed, those of the fit and those kept from it. Flights: how fast the centre of
mass falls in runs and jumps. Slide: planted feet before and after the plants are enforced. ``--out`` gets a film strip
of every synthesised clip and ``locomotion.json``.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import marey
from marey.dynamics import check_validity, fit_flight_gravity
from marey.io import load
from marey.locomotion import Action, JumpAction, LocomotionModel, Script, load_model, perform_script, plant_slide_mm
from marey.motion import Motion, mean_speed
from marey.picture import film_strip, save_image

RATE_HZ = 60.0
WALKS_MPS = (0.3, 0.5, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.2)
RUNS_MPS = (2.0, 2.5, 3.0, 3.5, 4.0)
COMPARED = (("walk", 1.0), ("walk", 1.4), ("run", 3.0))
NEAR = 0.15  # captured clips of a speed within this share are compared
JUMPS = (("walk", 0.5), ("walk", 0.9), ("run", 1.0), ("run", 1.6), ("standing", 0.6), ("standing", 1.2))
LEGS_M = (0.6, 0.75, 0.9, 1.1)
TURNS = (0.25, 0.5, 1.0)
SECONDS = 6.0
MANIFEST = Path(marey.__file__).parent / "locomotion" / "data" / "locomotion.toml"


@dataclass(frozen=True, slots=True)
class Clip:
    """A synthesised clip to look at."""

    name: str
    script: Script


@dataclass(frozen=True, slots=True)
class Row:
    """Validity of one clip."""

    name: str
    mean_mps: float
    valid: float
    red: float
    max_haste: float
    causes: dict[str, int]


def gait(name: str, kind: str, speed: float, **options: Any) -> Clip:
    """A steady gait."""
    leg = options.pop("leg_length_m", None)
    action = Action(SECONDS, speed, float(kind == "run"), **options)
    return Clip(name, Script((action,), rate_hz=RATE_HZ, leg_length_m=leg, name=name))


def clips(model: LocomotionModel) -> Iterator[Clip]:
    """All that the study looks at."""
    for speed in WALKS_MPS:
        yield gait(f"walk-{speed:.1f}", "walk", speed)
    for speed in RUNS_MPS:
        yield gait(f"run-{speed:.1f}", "run", speed)
    for turn in TURNS:
        yield gait(f"walk-1.2-turn-{turn}", "walk", 1.2, turn_rate=turn)
    for leg in LEGS_M:
        yield gait(f"walk-1.2-leg-{leg}", "walk", 1.2, leg_length_m=leg)
    for style in model.styles:
        yield gait(f"style-{style}-walk-1.2", "walk", 1.2, style={style: 1.0})
        yield gait(f"style-{style}-run-3.0", "run", 3.0, style={style: 1.0})
    for kind, length in JUMPS:
        yield jump(kind, length)


def jump(kind: str, length: float) -> Clip:
    """A jump out of the gait it is made for."""
    speed = {"walk": 1.1, "run": 2.2, "standing": 0.0}[kind]
    move = Action(1.5, speed, float(kind == "run"))
    name = f"jump-{kind}-{length}"
    return Clip(name, Script((move, JumpAction(length, kind), move), rate_hz=RATE_HZ, name=name))


def weighed(motion: Motion) -> Row:
    """Validity in one row."""
    report = check_validity(motion)
    haste = float(report.haste.max())
    speed = mean_speed(motion)
    return Row(motion.name, speed, report.valid_fraction, report.red_fraction, haste, report.cause_counts)


def captured(folder: Path) -> Iterator[tuple[str, str, Motion]]:
    """Split, gait and motion of every clip of the manifest that is in the folder."""
    manifest = tomllib.loads(MANIFEST.read_text(encoding="utf-8"))
    files = {file.stem: file for file in folder.rglob("*.bvh")}
    for group in manifest["group"]:
        for split in ("train", "test"):
            for name in group[split]:
                if name in files and group["gait"] in ("walk", "run"):
                    yield split, group["gait"], load(files[name], rate_hz=group.get("rate_hz"))


def compared(model: LocomotionModel, folder: Path | None) -> list[dict[str, Any]]:
    """Synthesised clips beside captured ones of the same speed."""
    sources = [] if folder is None else [(s, g, mean_speed(m), m) for s, g, m in captured(folder)]
    rows: list[dict[str, Any]] = []
    for kind, speed in COMPARED:
        made = weighed(perform_script(gait(f"{kind}-{speed}", kind, speed).script, model).motion)
        near = [(s, m) for s, g, v, m in sources if g == kind and abs(v - speed) < NEAR * speed]
        found = {split: [weighed(m) for s, m in near if s == split] for split in ("train", "test")}
        rows.append({"gait": kind, "speed": speed, "made": made, **found})
    return rows


def print_compared(rows: Iterable[dict[str, Any]]) -> None:
    """The validity table."""
    print(f"{'gait':6s}{'m/s':>5s}{'synthesised':>13s}{'red':>6s}{'of the fit':>18s}{'kept from it':>18s}   causes")
    for row in rows:
        made: Row = row["made"]
        cells = [_share([r.valid for r in row[split]]) for split in ("train", "test")]
        causes = ", ".join(f"{name} {count}" for name, count in made.causes.items())
        figures = f"{row['speed']:5.1f}{made.valid:13.2f}{made.red:6.2f}{cells[0]:>18s}{cells[1]:>18s}"
        print(f"{row['gait']:6s}{figures}   {causes}")


def _share(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ({len(values)} clips)" if values else "-"


def figures(clip: Clip, model: LocomotionModel) -> tuple[Motion, dict[str, Any]]:
    """One synthesised clip: validity, flights, slides."""
    motion = perform_script(clip.script, model).motion
    raw = perform_script(replace(clip.script, plants=False), model).motion
    flights = [flight.vertical for flight in fit_flight_gravity(motion, min_flight_s=0.1)]
    slides = {name: _slide(m) for name, m in (("raw", raw), ("planted", motion))}
    return motion, {**asdict(weighed(motion)), "falls": flights, **slides}


def _slide(motion: Motion) -> dict[str, float]:
    """Mean and largest slide [mm a frame at 30 frames a second] of ankles and toes."""
    slides, scale = plant_slide_mm(motion), motion.rate_hz / 30.0
    assert motion.contacts is not None
    found: dict[str, float] = {}
    for point, columns in (("heel", (0, 2)), ("toe", (1, 3))):
        some, flags = slides[:, columns], motion.contacts.active[:, columns]
        found |= {f"{point}_mean": scale * float(some[flags].mean()) if flags.any() else 0.0}
        found |= {f"{point}_max": scale * float(some.max())}
    return found


def print_figures(facts: dict[str, Any]) -> None:
    """One line of the table of clips."""
    raw, planted = facts["raw"], facts["planted"]
    fall = f"{np.mean(facts['falls']):7.2f} ({len(facts['falls'])})" if facts["falls"] else f"{'-':>11s}"
    slides = "".join(f"{raw[k]:7.1f}{planted[k]:6.2f}" for k in ("heel_mean", "heel_max", "toe_mean", "toe_max"))
    print(
        f"{facts['name']:26s}{facts['mean_mps']:6.2f}{facts['valid']:7.2f}{facts['max_haste']:6.2f}{fall:>12s}{slides}"
    )


def main() -> None:
    """Print the tables and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mocap", type=Path, help="folder of captured clips")
    parser.add_argument("--out", type=Path, help="folder for strips and figures")
    parser.add_argument("--only", default="", help="clips whose name contains this")
    options = parser.parse_args()
    model = load_model()
    rows = compared(model, options.mocap)
    print_compared(rows)
    print("\nslide [mm a frame at 30 Hz], raw and planted: mean and largest of heels, mean and largest of toes")
    columns = "".join(f"{what:>13s}" for what in ("heel mean", "heel max", "toe mean", "toe max"))
    print(f"{'clip':26s}{'m/s':>6s}{'valid':>7s}{'haste':>6s}{'fall m/s²':>12s}{columns}")
    table: list[dict[str, Any]] = []
    for clip in clips(model):
        if options.only in clip.name:
            motion, facts = figures(clip, model)
            print_figures(facts)
            table.append(facts)
            if options.out is not None:
                options.out.mkdir(parents=True, exist_ok=True)
                save_image(film_strip(motion, count=10), options.out / f"{clip.name}.png")
    if options.out is not None:
        text = json.dumps({"clips": table}, indent=2, allow_nan=False)
        (options.out / "locomotion.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

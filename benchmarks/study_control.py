"""Balance and tracking by forces from inside: ``python benchmarks/study_control.py --help``.

Prints a line for each run, then the table of what must hold; writes ``control.json``, and film strips where asked
for, into ``--out``: two feet for a minute under pushes, one foot with and without the angular momentum held, a captured
walk in place and a standing reach for half a minute, hands that reach too far or are dragged round, pushes in eight
directions, walks over ground (captured, shipped, made by ``marey.locomotion`` and by a motion graph), the strongest
pushes that a stand and a walk survive, and the reduced against the full space on clips that the model has not seen.
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
from marey.base import FloatArray
from marey.control import (
    Tracker,
    TrackingResult,
    TrackWeights,
    back_and_forth,
    make_stand,
    solve_tracking,
    track_balance,
    walk_in_place,
)
from marey.control.balance import hull_distances
from marey.control.in_place import make_balance_clip
from marey.control.preparation import find_soles, prepare_clip, resample_clip
from marey.control.tracking import make_figure
from marey.kinematics import PointTask
from marey.models import PGA
from marey.motion import Motion
from marey.numerics import convex_hull
from marey.picture import film_strip, save_image
from marey.simulate import Push
from marey.skeleton import role_map

STANDING, WALK, REACH = "69_70", "37_01", "79_20"
WALKS = ("37_01", "16_33", "35_01", "02_01", "07_04", "69_02")
SEEN, UNSEEN = ("69_01", "69_02", "69_04", "69_05"), ("69_02", "69_05")  # each of these by a model of the others
PUSHES_N = (100.0, 150.0, 200.0, 250.0, 300.0, 350.0, 400.0, 500.0)
WAYS = {"left": (1.0, 0.0, 0.0), "right": (-1.0, 0.0, 0.0), "ahead": (0.0, 0.0, 1.0), "back": (0.0, 0.0, -1.0)}
FIGURES = ("115_01", "26_10", "69_70")
ON_GROUND_M = 0.01  # [m] points of soles that are lower bear
BARE = TrackWeights(root=0.0, pose=0.0, step=0.0)  # nothing but the features of the source


class Study:
    """Clips, and what was measured on them."""

    def __init__(self, folder: Path, out: Path, seconds: float, modes: int | None, strips: bool) -> None:
        self.folder, self.out, self.share, self.modes, self.strips = folder, out, seconds, modes, strips
        self.rows: list[dict[str, Any]] = []
        self.facts: list[tuple[str, str, bool]] = []  # what must hold, what was measured, and whether it does

    def check(self, what: str, measured: str, *, holds: bool) -> None:
        """Keep a line of the table."""
        self.facts.append((what, measured, holds))

    def clip(self, name: str) -> Motion:
        """A captured clip without its first frame, a T-pose."""
        return marey.load(self.folder / f"{name}.bvh")[1:]

    def note(self, name: str, run: Callable[[], TrackingResult], **more: Any) -> TrackingResult:
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
    clip, whole, seconds = study.clip(STANDING), 60.0 * study.share, 20.0 * study.share
    two = study.note(
        "two feet, 20 N",
        lambda: track_balance(clip, seconds=whole, pushes=pushes_around(20.0, whole), model=study.modes),
    )
    study.check(f"two feet, {whole:.0f} s, 20 N every 5 s", outcome(two), holds=two.fall is None)
    one = study.note("one foot", lambda: track_balance(clip, seconds=seconds, feet="left", model=study.modes))
    study.check("one foot, 10 s at least", outcome(one), holds=one.fall is None)
    study.note(
        "one foot, 20 N",
        lambda: track_balance(
            clip, seconds=seconds, feet="left", model=study.modes, pushes=pushes_around(20.0, seconds)
        ),
    )
    held, free = (
        study.note(
            f"one foot, features of the source, momentum {name}",
            lambda momentum=momentum: track_balance(
                clip, seconds=0.6 * seconds, feet="left", model=None, momentum=momentum, weights=BARE
            ),
        )
        for name, momentum in (("held", True), ("free", False))
    )
    longer = stood_s(held) > stood_s(free)
    study.check(
        "one foot longer with momentum held", f"{stood_s(held):.1f} s, else {stood_s(free):.1f} s", holds=longer
    )


def stood_s(found: TrackingResult) -> float:
    """How long [s] a figure stood."""
    return found.motion.duration_s if found.fall is None else found.fall.time_s


def outcome(found: TrackingResult) -> str:
    """What came of a run, in words."""
    end = "upright" if found.fall is None else str(found.fall)
    return f"{stood_s(found):.1f} s, {end}, {100.0 * found.mean_error_m:.1f} cm"


def tracking(study: Study) -> None:
    """A walk in place and a standing reach for half a minute."""
    seconds = 30.0 * study.share
    walk, reach = walk_in_place(study.clip(WALK), seconds), back_and_forth(study.clip(REACH), seconds)
    for name, clip, pushes in (
        ("walk in place", walk, ()),
        ("walk in place, 20 N", walk, pushes_around(20.0, seconds)),
        ("standing reach", reach, ()),
    ):
        found = study.note(name, lambda c=clip, p=pushes: solve_tracking(c, model=study.modes, pushes=p))
        study.check(f"{name}, {seconds:.0f} s", outcome(found), holds=found.fall is None)


def walks(study: Study) -> None:
    """Walks over ground, for as long as they are."""
    clips = {name: study.clip(name) for name in WALKS} | {"shipped": marey.samples.walk()} | made_walks()
    found = {
        name: study.note(f"walk {name}", lambda c=clip: solve_tracking(c, model=study.modes))
        for name, clip in clips.items()
    }
    upright = [name for name, one in found.items() if one.fall is None]
    study.check("walks over ground, 8 of 10", f"{len(upright)} of {len(found)}", holds=len(upright) >= 0.8 * len(found))


def made_walks() -> dict[str, Motion]:
    """A straight walk and one with a turn by the locomotion engine, and one from the demo graph."""
    from marey.locomotion import Action, Script, Transition, perform_script
    from marey.pipeline import synthesize_sketch
    from marey.world import load_sketch

    stand, ramp = Action(0.5, 0.0), Transition(1.0)
    straight = (stand, ramp, Action(3.0, 1.2), ramp, stand)
    turning = (stand, ramp, Action(1.0, 1.1), ramp, Action(2.5, 1.1, turn_rate=0.6), ramp, stand)
    walked = {
        f"locomotion {name}": perform_script(Script(line, rate_hz=100.0, name=name)).motion
        for name, line in (("straight", straight), ("turning", turning))
    }
    sketch = load_sketch(marey.samples.sketch_file("s-curve"))
    made = synthesize_sketch(sketch, engine="graph").motion
    return walked if made is None else walked | {"graph s-curve": made}


def pushed(study: Study) -> None:
    """How hard a push of a tenth of a second may be, standing and walking."""
    clip, walk = study.clip(STANDING), marey.samples.walk()
    for way, direction in WAYS.items():
        stand_n = strongest(
            study, f"stand, {way}", lambda p: track_balance(clip, seconds=4.0, pushes=p), "Spine1", direction
        )
        walk_n = strongest(study, f"walk, {way}", lambda p: solve_tracking(walk, pushes=p), "spine3", direction)
        least = min(stand_n, walk_n)
        study.check(f"push {way}, 0.1 s", f"stand {stand_n:.0f} N, walk {walk_n:.0f} N", holds=least >= PUSHES_N[0])


def strongest(
    study: Study, name: str, run: Callable[[list[Push]], TrackingResult], joint: str, direction: tuple[float, ...]
) -> float:
    """The strongest push [N] of those tried, in growing order, that is survived."""
    best = 0.0
    for force in PUSHES_N:
        push = [Push(joint, force * np.array(direction), 1.0, 0.1)]
        if study.note(f"{name}, {force:.0f} N", lambda p=push: run(p)).fall is not None:
            break
        best = force
    return best


def reaching(study: Study) -> None:
    """Check 69 and a hand dragged round for a minute: the centre of mass stays above the soles."""
    seconds = 60.0 * study.share
    for name in FIGURES:
        clip = study.clip(name)
        for way in ("round", *WAYS):
            tracker = Tracker(make_figure(clip, study.modes, limits="anatomical"), make_stand(clip, 4.0))
            figure, soles = tracker.simulator, find_soles(tracker.simulator.body.skeleton)
            hand = role_map(figure.body.skeleton)["left_wrist"]
            start, inside, away = figure.mechanics().joints[hand].copy(), list[float](), list[float]()
            for n in range(round(seconds / tracker.reference.dt)):
                time_s = n * tracker.reference.dt
                goal = start + (_go_round(time_s) if way == "round" else 2.0 * np.array(WAYS[way]))
                tracker.tasks = (PointTask(hand, goal),)
                tracker.step()
                if tracker.fall is not None:
                    break
                here = figure.mechanics()
                points = soles.places(here.joints, here.frames).reshape(-1, 3)
                hull = convex_hull(points[points[:, 1] < ON_GROUND_M][:, [0, 2]])
                inside.append(float(hull_distances(hull, here.com[[0, 2]])[1].min()) if len(hull) > 2 else -1.0)
                away.append(float(np.linalg.norm(here.joints[hand] - goal)))
            end = f"{len(inside) * tracker.reference.dt:.1f} s, {tracker.fall or 'upright'}"
            least, half = 100.0 * min(inside[5:]), 100.0 * float(np.median(away))
            measured = f"{end}, {least:.1f} cm inside, hand {half:.0f} cm off"
            print(name, way, measured, flush=True)
            is_inside = way == "round" or least > 0.0
            study.check(f"reach {way}, {name}", measured, holds=tracker.fall is None and is_inside)


def _go_round(time_s: float) -> FloatArray:
    """Place ``(3,)`` [m] on a level circle of half a metre, one round in ten seconds."""
    angle = 0.2 * np.pi * time_s
    return 0.5 * min(1.0, time_s) * np.array([np.sin(angle), 0.0, np.cos(angle)])


def shoved(study: Study) -> None:
    """Pushes of a tenth of a second in eight directions: where the figure is three seconds after their end."""
    for name in FIGURES:
        clip = study.clip(name)
        for force in (250.0, 500.0):
            for way in range(8):
                side = np.array([np.sin(0.25 * np.pi * way), 0.0, np.cos(0.25 * np.pi * way)])
                push = [Push("Spine1", force * side, 0.5, 0.1)]
                found = track_balance(clip, seconds=3.65, pushes=push, model=study.modes)
                places = found.motion.joint_positions()
                apart = 0.0 if found.fall else 100.0 * float(np.sqrt(((places[360] - places[40]) ** 2).sum(1).mean()))
                measured = f"{apart:.2f} cm" if found.fall is None else str(found.fall)
                print(name, force, way, measured, flush=True)
                study.check(f"{force:.0f} N, way {way}, {name}", measured, holds=found.fall is None and apart < 3.0)


def spaces(study: Study) -> None:
    """Equal tasks (centre of mass, momentum, root, feet; no pose) on clips that the model has not seen."""
    seen = {name: prepare_clip(walk_in_place(study.clip(name), 2.0), 100.0) for name in SEEN}
    moves = resample_clip(make_balance_clip(study.clip(SEEN[0])), 100.0)
    for clip in UNSEEN:
        others = [one for name, one in seen.items() if name != clip]
        model = PGA(n_components=study.modes or 24, weights="lever").fit([*others, moves])
        unseen = walk_in_place(study.clip(clip), max(2.0, 5.0 * study.share))
        truth, errors = prepare_clip(unseen, 100.0), dict[str, dict[str, float]]()
        for name, space in (("reduced", model), ("full", None)):
            found = study.note(
                f"unseen {clip}, {name} space",
                lambda u=unseen, space=space: solve_tracking(u, model=space, weights=TrackWeights(pose=0.0)),
            )
            errors[name] = pose_errors(found.motion, truth)
            study.rows[-1] |= errors[name]
        reduced, full = errors["reduced"], errors["full"]
        for unit in ("joints_cm", "joints_deg"):
            measured = f"reduced {reduced[unit]:.2f}, full {full[unit]:.2f}"
            study.check(f"unseen {clip}, {unit}: reduced nearer", measured, holds=reduced[unit] < full[unit])


def pose_errors(motion: Motion, truth: Motion) -> dict[str, float]:
    """Mean distance of joints [cm] and mean angle between them [deg]."""
    count = min(len(motion), len(truth))
    wanted = replace(truth, skeleton=motion.skeleton)[:count]
    apart = np.linalg.norm(motion.joint_positions()[:count] - wanted.joint_positions(), axis=-1)
    turns = (wanted.rotations[:, 1:].inverse() @ motion.rotations[:count, 1:]).log()
    angle = np.degrees(np.linalg.norm(turns, axis=-1).mean())
    return {"joints_cm": round(100.0 * float(apart.mean()), 3), "joints_deg": round(float(angle), 3)}


PARTS = {
    "reaching": reaching, "shoved": shoved, "standing": standing, "tracking": tracking, "walks": walks,
    "pushed": pushed, "spaces": spaces,
}  # fmt: skip


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
    for what, measured, holds in study.facts:
        print(f"{'holds' if holds else 'FAILS'}  {what:45s} {measured}")
    facts = [{"what": what, "measured": measured, "holds": holds} for what, measured, holds in study.facts]
    (given.out / "control.json").write_text(json.dumps({"runs": study.rows, "facts": facts}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

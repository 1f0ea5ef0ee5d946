"""Problems that nobody tuned for, solved and judged from the outside.

``python benchmarks/study_problems.py [NAME ...] [--tuning] [--pictures FOLDER] [--write FOLDER]`` solves each problem
and prints its status, the figures of the dense check, the deepest entry into floor, boxes and bars, how far the first
pose is from the one that was asked for, and the processor time. Problems in ``TUNING`` were looked at while the engine
was changed; those in ``TESTS`` were written down first and are what the table is about.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from marey.base import MareyError
from marey.picture import film_strip, save_image
from marey.picture.strips import StripSettings
from marey.spacetime import SpacetimeProblem, build_surroundings, optimize, save_problem
from marey.spacetime.dispatch import build_character
from marey.spacetime.problem.builders import build_jump_problem, build_run_problem, build_walk_problem, place_feet
from marey.spacetime.problem.definition import Contact, Key, Objective, ProblemPhase
from marey.world import Bar, Box

LIMIT_S = 600.0  # of a search, wall time
UPRIGHT = {"pitch": (-0.3, 0.9), "roll": (-0.3, 0.3), "yaw": (-0.6, 0.6)}
NEAR_POSE = Objective(accel=1.0, prior=2.0)


def feet(z: float, y: float = 0.0, x: float = 0.0) -> tuple[Contact, Contact]:
    """Both feet of the full character."""
    return Contact("left_foot", (x + 0.1, y, z), friction=0.9), Contact("right_foot", (x - 0.1, y, z), friction=0.9)


def hands(y: float, z: float, *, kind: str = "grip", apart: float = 0.2) -> tuple[Contact, Contact]:
    """Both hands of the full character, on a bar along X or flat on something."""
    if kind == "grip":
        left, right = (Contact(f"{s}_hand", (x, y, z), kind="grip", max_force=4.0) for s, x in _sides(apart))
    else:
        half, tilt = (0.08, 0.05), 75.0
        left, right = (
            Contact(f"{s}_hand", (x, y, z), half_extents_m=half, friction=0.9, max_tilt_deg=tilt)
            for s, x in _sides(apart)
        )
    return left, right


def _sides(apart: float) -> tuple[tuple[str, float], tuple[str, float]]:
    return ("left", apart), ("right", -apart)


def full(name: str, *phases: ProblemPhase, **more: object) -> SpacetimeProblem:
    """A problem of the full space, upright unless it says otherwise."""
    settings = {"guess": "crouch", "limits": UPRIGHT, "objective": NEAR_POSE} | more
    return SpacetimeProblem(name, phases, **settings)  # pyright: ignore[reportArgumentType]


def two_foot_jump() -> SpacetimeProblem:
    """Stand, jump 0.7 m ahead and land on both feet, in the full space."""
    jump = (ProblemPhase("push", 0.6, feet(0.0)), ProblemPhase("flight", 0.4), ProblemPhase("land", 0.5, feet(0.7)))
    return full("two-foot-jump", *jump)


def step_up() -> SpacetimeProblem:
    """One foot goes onto a step of 25 cm while the other carries, then the body follows."""
    left, high = feet(0.0)[0], Contact("right_foot", (-0.1, 0.25, 0.35), friction=0.9)
    phases = (("stand", 0.4, feet(0.0)), ("lift", 0.4, (left,)), ("on", 0.3, (left, high)), ("up", 0.5, (high,)))
    return full("foot-on-step", *(ProblemPhase(*phase) for phase in phases))


def rail() -> SpacetimeProblem:
    """A step ahead with a hand on a rail."""
    left, right = feet(0.0)
    hand = Contact("right_hand", (-0.35, 0.95, 0.2), kind="grip", max_force=1.5)
    ahead = Contact("right_foot", (-0.1, 0.0, 0.45), friction=0.9)
    phases = (("stand", 0.4, (left, right, hand)), ("lift", 0.4, (left, hand)), ("step", 0.4, (left, ahead)))
    return full("hand-on-rail", *(ProblemPhase(*phase) for phase in phases))


def bar_swing(height_m: float, away_m: float, flight_s: float) -> SpacetimeProblem:
    """Two hands swing on a bar and let go, to land on both feet."""
    grips = hands(height_m, 0.0)
    return full(
        f"bar-{height_m:g}",
        ProblemPhase("swing", 0.9, grips, span_s=0.08),
        ProblemPhase("flight", flight_s, span_s=0.08),
        ProblemPhase("land", 0.5, feet(away_m)),
        guess="hang",
        limits={},
        keys=(
            Key("turn", "swing", 0.0, axis="pitch", lower=0.2, upper=1.2),
            Key("com_velocity", "swing", 0.0, target=(0.0, 0.0, 0.0)),
        ),
    )


def vault(height_m: float = 0.8, slower: float = 1.0) -> SpacetimeProblem:
    """Over a box with both hands on it, from both feet to both feet."""
    phases = (
        ("push", 0.4, feet(-0.35)), ("fly", 0.25, ()), ("hands", 0.3, hands(height_m, 0.45, kind="foot")),
        ("over", 0.3, ()), ("land", 0.5, feet(1.25)),
    )  # fmt: skip
    return full(
        "vault" if height_m == 0.8 and slower == 1.0 else f"vault-{height_m:g}-{slower:g}",
        *(ProblemPhase(name, slower * duration_s, contacts) for name, duration_s, contacts in phases),
        limits={"roll": (-0.3, 0.3), "yaw": (-0.6, 0.6), "pitch": (-0.6, 1.6)},
        boxes=(Box((0.0, 0.45), (1.0, 0.25), height_m),),
        objective=replace(NEAR_POSE, balance=1.0),
    )


def cartwheel() -> SpacetimeProblem:
    """Sideways over both hands, one after the other."""
    left = feet(0.0)[0]
    ground = [Contact(f"{s}_hand", (x, 0.0, 0.0), half_extents_m=(0.08, 0.05), max_tilt_deg=80.0)
              for s, x in (("left", 0.8), ("right", 1.2))]  # fmt: skip
    far = Contact("right_foot", (1.9, 0.0, 0.0)), Contact("left_foot", (2.3, 0.0, 0.0))
    phases = (
        ("lunge", 0.4, (left,)), ("first hand", 0.3, (left, ground[0])), ("hands", 0.4, tuple(ground)),
        ("second hand", 0.3, (ground[1], far[0])), ("rise", 0.4, (far[0],)),
    )  # fmt: skip
    turn = (Key("turn", "lunge", 0.0, axis="roll", lower=-0.4, upper=0.4),
            Key("turn", "rise", 1.0, axis="roll", lower=-6.7, upper=-5.8))  # fmt: skip
    return full("cartwheel", *(ProblemPhase(*p) for p in phases), limits={}, keys=turn, guess="stand")


def stand_up() -> SpacetimeProblem:
    """From the pose of a seat, hands on its arms, to standing."""
    seat = {"left_hip_rx": -1.5, "right_hip_rx": -1.5, "left_knee": 1.6, "right_knee": 1.6, "pitch": 0.2}
    stand = {"left_hip_rx": -0.1, "right_hip_rx": -0.1, "left_knee": 0.2, "right_knee": 0.2, "pitch": 0.0}
    return full(
        "stand-up",
        ProblemPhase("sit", 0.9, (*feet(0.0), Contact("left_hand", (0.35, 0.62, -0.1), kind="grip", max_force=1.5),
                                  Contact("right_hand", (-0.35, 0.62, -0.1), kind="grip", max_force=1.5))),
        ProblemPhase("rise", 0.8, feet(0.0)),
        keys=(Key("pose", "sit", 0.0, joints=seat), Key("pose", "rise", 1.0, joints=stand),
              Key("velocity", "sit", 0.0), Key("velocity", "rise", 1.0)),
        guess="crouch",
    )  # fmt: skip


def slope_stand() -> SpacetimeProblem:
    """A squat with each foot on a slope of its own."""
    lean = 0.35
    left = Contact("left_foot", (0.25, 0.1, 0.0), normal=(-np.sin(lean), np.cos(lean), 0.0), friction=0.9)
    right = Contact("right_foot", (-0.25, 0.1, 0.0), normal=(np.sin(lean), np.cos(lean), 0.0), friction=0.9)
    return full("feet-on-two-slopes", ProblemPhase("squat", 0.8, (left, right)),
                keys=(Key("com", "squat", 0.5, target=(None, 0.65, None)),
                      Key("com", "squat", 1.0, target=(None, 0.9, None))))  # fmt: skip


def one_leg_hop() -> SpacetimeProblem:
    """A hop of 0.35 m on the left foot."""
    there = Contact("left_foot", (0.1, 0.0, 0.45), friction=0.9)
    hop = (ProblemPhase("push", 0.5, feet(0.0)[:1]), ProblemPhase("flight", 0.3), ProblemPhase("land", 0.5, (there,)))
    return full("one-leg-hop", *hop)


def box_jump() -> SpacetimeProblem:
    """Onto a box of 40 cm."""
    box = Box((0.0, 0.85), (0.8, 0.6), 0.4)
    jump = build_jump_problem(0.8, flight_s=0.5, landing_height_m=0.4, name="jump-onto-box")
    return replace(jump, boxes=(box,))


def sideways() -> SpacetimeProblem:
    """A jump 0.6 m to the left."""
    jump = build_jump_problem(0.0, name="jump-sideways")
    phases = list(jump.phases)
    moved = tuple(replace(c, position=(c.position[0] + 0.6, 0.0, 0.0)) for c in place_feet(0.0))
    phases[-1] = replace(phases[-1], contacts=moved)
    return replace(jump, phases=tuple(phases))


def hurdle() -> SpacetimeProblem:
    """Over a bar at 35 cm."""
    jump = build_jump_problem(1.1, flight_s=0.52, name="hurdle")
    return replace(jump, bars=(Bar((-0.6, 0.35, 0.55), (0.6, 0.35, 0.55)),))


def stairs() -> SpacetimeProblem:
    """Four steps of 17 cm."""
    walk = build_walk_problem((0.5, 0.5, 0.5, 0.5), name="stairs-up")
    heights = {0.0: 0.0, 0.5: 0.17, 1.0: 0.34, 1.5: 0.51, 2.0: 0.68}
    phases = tuple(
        replace(p, contacts=tuple(replace(c, position=(c.position[0], heights[c.position[2]], c.position[2]))
                                for c in p.contacts)) for p in walk.phases)  # fmt: skip
    return replace(walk, phases=phases)


def wall() -> SpacetimeProblem:
    """Both palms against a wall, then a push off it to stand free."""
    palms = tuple(
        Contact(f"{side}_hand", (x, 1.2, 0.45), normal=(0.0, 0.0, -1.0), half_extents_m=(0.08, 0.05), friction=0.7,
                max_tilt_deg=80.0) for side, x in _sides(0.2))  # fmt: skip
    return full(
        "wall-push",
        ProblemPhase("lean", 0.5, (*feet(0.0), *palms)),
        ProblemPhase("stand", 0.6, feet(0.0)),
        guess="stand",
        keys=(Key("com_velocity", "stand", 1.0, target=(0.0, 0.0, 0.0)),),
        boxes=(Box((0.0, 0.75), (2.0, 0.6), 2.5),),
    )


def box_leap() -> SpacetimeProblem:
    """Over a low box and down on its far side."""
    jump = build_jump_problem(1.1, flight_s=0.5, name="leap-over-box")
    return replace(jump, boxes=(Box((0.0, 0.55), (0.8, 0.25), 0.25),))


TUNING: dict[str, Callable[[], SpacetimeProblem]] = {
    "two-foot-jump": two_foot_jump,
    "foot-on-step": step_up,
    "hand-on-rail": rail,
    "bar-2.3": lambda: bar_swing(2.3, 1.2, 0.55),
    "vault": vault,
}
TESTS: dict[str, Callable[[], SpacetimeProblem]] = {
    "jump-onto-box": box_jump,
    "jump-down": lambda: build_jump_problem(0.7, flight_s=0.55, landing_height_m=-0.5, name="jump-down"),
    "jump-sideways": sideways,
    "turn-270": lambda: build_jump_problem(0.3, 270.0, flight_s=0.6, name="turn-270"),
    "turn-minus-270": lambda: build_jump_problem(0.3, -270.0, flight_s=0.6, name="turn-minus-270"),
    "one-leg-hop": one_leg_hop,
    "hurdle": hurdle,
    "cartwheel": cartwheel,
    "bar-2.0": lambda: bar_swing(2.0, 1.3, 0.5),
    "bar-2.6": lambda: bar_swing(2.6, 1.4, 0.65),
    "stairs-up": stairs,
    "stones": lambda: build_run_problem((0.7, 1.1, 0.8, 1.0), (0.0, 0.1, 0.0, 0.15, 0.05), name="stones"),
    "stand-up": stand_up,
    "feet-on-two-slopes": slope_stand,
    "wall-push": wall,
    "leap-over-box": box_leap,
    "strong-jump": lambda: replace(two_foot_jump(), name="strong-jump", strength=1.5),
    "strong-jump-reduced": lambda: replace(build_jump_problem(0.5, name="strong-jump-reduced"), strength=1.5),
    "vault-0.6": lambda: vault(0.6),
    "vault-0.95": lambda: vault(0.95),
    "vault-longer": lambda: vault(slower=1.1),
    "standing-jump-back": lambda: build_jump_problem(-0.5, name="standing-jump-back"),
}


def measure_start(problem: SpacetimeProblem, motion: object) -> str:
    """Largest angle [deg] between the first pose and what keys at the start ask for."""
    first = problem.phases[0].name
    wanted = [key for key in problem.keys if key.kind == "pose" and key.at == 0.0 and key.phase == first]
    if not wanted or problem.space != "full":
        return "-"
    tree = build_character(problem)
    names = {"pitch": "root_rx", "yaw": "root_ry", "roll": "root_rz"}
    q = tree.from_motion(motion)[0]  # pyright: ignore[reportArgumentType]
    apart = [abs(q[tree.index(names.get(name, name))] - value) for key in wanted for name, value in key.joints.items()]
    return f"{np.rad2deg(max(apart)):.2f}"


def main() -> None:
    """Solve and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tuning", action="store_true", help="the problems that were looked at while tuning")
    parser.add_argument("--pictures", type=Path, help="folder for strips from the side and from the front")
    parser.add_argument("--write", type=Path, help="folder for the problems as files")
    args = parser.parse_args()
    known = TUNING | TESTS
    chosen = args.names or list(TUNING if args.tuning else TESTS)
    print("| problem | status | residual % | drift mm | pressure mm | momentum % | limits ° | entry mm | start ° | s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    solved = 0
    for name in chosen:
        problem, began = known[name](), time.process_time()
        if args.write is not None:
            args.write.mkdir(parents=True, exist_ok=True)
            save_problem(problem, args.write / f"{name}.toml")
        try:
            result = optimize(problem, on_failure="return", time_limit_s=LIMIT_S)
        except MareyError as error:
            print(f"| {name} | refused: {error} | | | | | | | | |", flush=True)
            continue
        check, seconds = result.check, time.process_time() - began
        solved += result.is_solved
        row = (100.0 * check.wrench_residual, 1e3 * check.plant_drift_m, 1e3 * check.cop_excess_m,
               100.0 * check.angular_momentum_drift, np.rad2deg(check.limit_excess_rad),
               1e3 * check.penetration_m)  # fmt: skip
        figures = " | ".join(f"{value:.2g}" for value in row)
        start = measure_start(problem, result.motion)
        print(f"| {name} | {result.status.value} | {figures} | {start} | {seconds:.1f} |", flush=True)
        if not result.is_solved:
            print(f"    {result.sentence}", flush=True)
        if args.pictures is not None:
            args.pictures.mkdir(parents=True, exist_ok=True)
            for view, turn in (("side", 0.08), ("front", 1.45)):
                look, world = StripSettings(grid_turn_rad=turn), build_surroundings(problem)
                image = film_strip(result.motion, layout="grid", world=world, width=1200, settings=look)
                save_image(image, args.pictures / f"{name}-{view}.png")
    print(f"{solved} of {len(chosen)} solved")


if __name__ == "__main__":
    main()

"""The shipped problems as they were built, every number given: five of [Fang2003]_ §7 in the full space, and those of
[Safonova2006]_ in the reduced space."""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Final

from marey.dynamics import JointTree
from marey.spacetime import (
    Contact,
    Key,
    Objective,
    ProblemPhase,
    SpacetimeProblem,
    build_flip_problem,
    build_jump_problem,
    build_run_problem,
    build_walk_problem,
)
from marey.spacetime.full.layout import FullBodyModel
from marey.spacetime.full.sampling import neutral_pose

BAR_HEIGHT_M: Final = 2.2  # of the high bar, as low as a hanging body allows: arcs differ most with flight time
LANDING_M: Final = 1.4  # ahead of the bar
BAR_SPACING_M: Final = 0.45
BAR_REACH_M: Final = 2.2  # height of the monkey bars
PEG_SPACING_M: Final = 0.9
PEG_HEIGHT_M: Final = 0.2
HALF_STRIDE_M: Final = 0.09  # of the feet to both sides, the half width of the hips
SHOULDER_M: Final = 0.198  # of the hands to both sides
KNEE_CLEAR_M: Final = 0.08  # of a swinging knee from the ground
BAR_CLEAR_M: Final = 0.05  # of a forearm from the middle of a bar
CALM_OBJECTIVE: Final = Objective(accel=1.0, prior=0.3)
STRAIGHT_OBJECTIVE: Final = Objective(accel=1.0, prior=6.0)  # no tighter a tuck than the turn needs


def build_dismount(flight_s: float = 0.6) -> SpacetimeProblem:
    """High-bar dismount: swing on the bar, a backward somersault, landing on both feet."""
    hands = Contact("hands", (0.0, BAR_HEIGHT_M, 0.0), kind="grip", friction=1.0, max_force=5.0)
    feet = Contact("feet", (0.0, 0.0, LANDING_M), friction=1.0, max_force=5.0)
    phases = (
        ProblemPhase("swing", 0.9, (hands,), span_s=0.05),
        ProblemPhase("flight", flight_s, span_s=0.05),
        ProblemPhase("landing", 0.5, (feet,), span_s=0.04),
    )
    stance = {"pitch": -2.0 * pi + 0.24, "shoulder": -0.7, "elbow": 0.3, "hip": -1.1, "knee": 1.3}
    keys = (
        Key("com_velocity", "swing", 0.0, target=(0.0, 0.0, 0.0)),
        Key("range", "swing", None, joints={"elbow": 0.0}, upper=0.5),
        Key("turn", "swing", 0.0, lower=0.2, upper=1.3),
        Key("turn", "swing", 1.0, lower=-1.3, upper=0.5),
        Key("turn", "landing", 0.0, lower=-2.0 * pi - 0.6, upper=-2.0 * pi + 1.2),
        Key("force", "landing", 0.0, upper=2.0),
        Key("pose", "landing", 1.0, joints=stance),
        Key("velocity", "landing", 1.0),
    )
    return SpacetimeProblem(
        f"dismount-{flight_s:g}", phases, character="fang7", keys=keys, objective=STRAIGHT_OBJECTIVE, guess="hang"
    )


def build_monkey_bars() -> SpacetimeProblem:
    """Monkey bars: four sections of 0.7 s, hands in turn, no flight."""
    phases: list[ProblemPhase] = []
    keys: list[Key] = []
    for i in range(4):
        side, sign, free = ("left", 1.0, "right") if i % 2 == 0 else ("right", -1.0, "left")
        place = (sign * SHOULDER_M, BAR_REACH_M, i * BAR_SPACING_M)
        grip = Contact(f"{side}_hand", place, kind="grip", max_force=5.0)
        phases.append(ProblemPhase(f"bar {i + 1}", 0.7, (grip,)))
        bar = (None, BAR_REACH_M, i * BAR_SPACING_M)
        keys.append(Key("bar", f"bar {i + 1}", None, point=f"{free}_hand", target=bar, lower=BAR_CLEAR_M))
    return SpacetimeProblem("monkey-bars", tuple(phases), keys=tuple(keys), objective=CALM_OBJECTIVE, guess="hang")


def build_leaping(height_m: float = PEG_HEIGHT_M, *, clearance: bool = False, name: str = "pegs") -> SpacetimeProblem:
    """Leap from foot to foot: supports of 0.35 s, flights of 0.40 s."""
    phases: list[ProblemPhase] = []
    for i in range(3):
        side, sign = ("left", 1.0) if i % 2 == 0 else ("right", -1.0)
        foot = Contact(f"{side}_foot", (sign * HALF_STRIDE_M, height_m, i * PEG_SPACING_M), friction=1.0)
        phases.append(ProblemPhase(f"support {i + 1}", 0.35, (foot,)))
        if i < 2:
            phases.append(ProblemPhase(f"flight {i + 1}", 0.40))
    keys: list[Key] = []
    if clearance:
        for phase in phases:
            held = {contact.point for contact in phase.contacts}
            for point in ("left_foot", "right_foot"):
                if point not in held:
                    keys.append(Key("clearance", phase.name, None, point=point, lower=0.0))
                    keys.append(Key("clearance", phase.name, None, point=f"{point}@joint", lower=KNEE_CLEAR_M))
    trunk = {"pitch": (-0.2, 0.5), "roll": (-0.25, 0.25), "yaw": (-0.5, 0.5)}
    natural = Objective(accel=1.0, prior=2.0)
    return SpacetimeProblem(name, tuple(phases), keys=tuple(keys), objective=natural, guess="run", limits=trunk)


def build_peg_leaping(*, clearance: bool = False) -> SpacetimeProblem:
    """Leaping over pegs 0.2 m high, 0.9 m apart; with ``clearance`` the swinging leg stays above the floor."""
    return build_leaping(clearance=clearance, name="pegs-clear" if clearance else "pegs")


def build_ground_leaping() -> SpacetimeProblem:
    """The same on flat ground: the swinging feet are kept above it."""
    return build_leaping(0.0, clearance=True, name="ground-leap")


def build_space_spin(turn_rad: float = pi, duration_s: float = 6.0) -> SpacetimeProblem:
    """Zero gravity: from upright at rest to inverted at rest, by moving the limbs alone."""
    figure = FullBodyModel.from_tree(JointTree.fang22())
    pose = dict(zip(figure.names, neutral_pose(figure, "stand").tolist(), strict=True))
    keys = (
        Key("pose", "float", 0.0, joints=pose),
        Key("velocity", "float", 0.0),
        Key("pose", "float", 1.0, joints={**pose, "root_rx": turn_rad}),
        Key("velocity", "float", 1.0),
    )
    phase = ProblemPhase("float", duration_s, span_s=0.2)
    straight = Objective(accel=1.0, prior=1.0)
    return SpacetimeProblem("space-spin", (phase,), keys=keys, objective=straight, gravity=0.0, guess="stand")


EXAMPLES: Final[dict[str, Callable[[], SpacetimeProblem]]] = {
    "dismount-0.6": lambda: build_dismount(0.6),
    "dismount-0.8": lambda: build_dismount(0.8),
    "monkey-bars": build_monkey_bars,
    "pegs": build_peg_leaping,
    "pegs-clear": lambda: build_peg_leaping(clearance=True),
    "ground-leap": build_ground_leaping,
    "space-spin": build_space_spin,
}


REDUCED_EXAMPLES: Final[dict[str, Callable[[], SpacetimeProblem]]] = {
    **{
        f"jump-{length}": lambda n=length: build_jump_problem(n, name=f"jump-{n}")
        for length in (0.4, 0.7, 1.0, 1.3, 1.6, 1.9)
    },
    "turn-90": lambda: build_jump_problem(0.3, 90.0, basis="turn.safetensors", name="turn-90"),
    "turn-180": lambda: build_jump_problem(0.0, 180.0, basis="turn.safetensors", name="turn-180"),
    "turn-360": lambda: build_jump_problem(0.0, 360.0, basis="turn.safetensors", name="turn-360"),
    "stepping-stones": lambda: build_run_problem(
        (1.1, 1.35, 1.1, 1.25), (0.0, 0.08, 0.12, 0.05, 0.0), name="stepping-stones"
    ),
    "long-step": lambda: build_walk_problem((0.7, 1.0, 0.8, 0.7), single_s=0.42, name="long-step"),
    "step-over": lambda: build_walk_problem(
        (0.7, 0.8, 0.8, 0.7), single_s=0.5, obstacle_m=(0.0, 0.25, 0.25), basis="over.safetensors", name="step-over"
    ),
    "step-over-high": lambda: build_walk_problem(
        (0.7, 0.8, 0.8, 0.7), single_s=0.5, obstacle_m=(0.0, 0.4, 0.4), basis="over.safetensors", name="step-over-high"
    ),
    "back-flip": build_flip_problem,
    "back-flip-straight": lambda: build_flip_problem(-0.6, flight_s=0.8, is_straight=True, name="back-flip-straight"),
}

"""Problems in the reduced space, built from their measures, and clips that suit them ([Safonova2006]_).

The surroundings that a problem assumes, bars to hold and stones to step on, are a world that can be drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, Result
from marey.contacts import contact_phases
from marey.motion import Motion, headings
from marey.spacetime.problem.definition import Contact, Key, Objective, ProblemPhase, SpacetimeProblem
from marey.world import Bar, Stone, World

SIDES: Final = ("left", "right")
REDUCED_OBJECTIVE: Final = Objective(accel=1.0, torque=1.0, prior=1.0)
JUMP_STANCE_M: Final = 0.10  # [m] half the distance between the feet
WALK_STANCE_M: Final = 0.03
RUN_STANCE_M: Final = 0.02
STRAIGHT_FRACTIONS: Final = (0.35, 0.45, 0.55, 0.65)  # of the flight, where the legs of a straight flip are straight
STRAIGHT_RAD: Final = {"Leg": (0.0, 0.25), "UpLeg_rx": (-0.35, 0.0), "UpLeg_rz": (-0.2, 0.2)}  # knee, hip


def place_feet(forward_m: float, turn_deg: float = 0.0, *, height_m: float = 0.0) -> tuple[Contact, ...]:
    """Both feet side by side, ``forward_m`` along +Z, facing ``turn_deg`` to the left of it."""
    turn = np.deg2rad(turn_deg)
    across = JUMP_STANCE_M * np.array([np.cos(turn), 0.0, -np.sin(turn)])
    middle = np.array([0.0, height_m, forward_m])
    feet: list[Contact] = []
    for side, sign in (("left", 1.0), ("right", -1.0)):
        # Rounded, so that a file gives the same problem back; adding zero takes the sign off a zero
        x, y, z = (round(float(c), 9) + 0.0 for c in middle + sign * across)
        feet.append(Contact(f"{side}_foot", (x, y, z), heading_deg=turn_deg))
    return tuple(feet)


def build_jump_problem(
    length_m: float = 1.3,
    turn_deg: float = 0.0,
    *,
    flight_s: float = 0.44,
    landing_height_m: float = 0.0,
    basis: str = "jump.safetensors",
    name: str = "jump",
) -> SpacetimeProblem:
    """A jump with both feet from standing to standing.

    Args:
        length_m: how far the feet land ahead [m].
        turn_deg: how far the body turns to the left in the air.
        flight_s: time in the air [s]; a longer one is a higher jump.
        landing_height_m: of the ground that it lands on.
        basis: file of the behaviour.
        name: of the problem.
    """
    phases = (
        ProblemPhase("push", 0.9, place_feet(0.0)),
        ProblemPhase("flight", flight_s),
        ProblemPhase("land", 0.7, place_feet(length_m, turn_deg, height_m=landing_height_m)),
    )
    return SpacetimeProblem(name, phases, space="reduced", basis=basis, objective=REDUCED_OBJECTIVE)


def build_walk_problem(
    steps_m: Sequence[float],
    *,
    single_s: float = 0.4,
    double_s: float = 0.14,
    obstacle_m: Sequence[float] = (),
    basis: str = "walk.safetensors",
    name: str = "walk",
) -> SpacetimeProblem:
    """A walk from the middle of a left stance to the middle of another; an even number of steps.

    Args:
        steps_m: length of each step [m].
        single_s: time on one foot [s].
        double_s: time on both feet [s].
        obstacle_m: for each step, how high the foot that makes it is lifted [m]; 0 for nothing to step over.
        basis: file of the behaviour.
        name: of the problem.
    """
    places = _step_positions(steps_m)
    phases, keys = list[ProblemPhase](), list[Key]()
    for i, place in enumerate(places):
        here = _foot_contact(i, place, WALK_STANCE_M)
        half = 0.5 if i in (0, len(places) - 1) else 1.0
        phases.append(ProblemPhase(f"stance {i}", half * single_s, (here,)))
        if i + 1 < len(places):
            there = _foot_contact(i + 1, places[i + 1], WALK_STANCE_M)
            phases.append(ProblemPhase(f"double {i}", double_s, (here, there)))
            height = obstacle_m[i] if i < len(obstacle_m) else 0.0
            if height > 0.0 and i > 0:
                shares = (0.5, 0.62)
                keys += [Key("clearance", f"stance {i}", share, point=there.point, lower=height) for share in shares]
    return SpacetimeProblem(
        name, tuple(phases), space="reduced", basis=basis, objective=REDUCED_OBJECTIVE, keys=tuple(keys)
    )


def build_run_problem(
    steps_m: Sequence[float],
    heights_m: Sequence[float] = (),
    *,
    stance_s: float = 0.26,
    flight_s: float = 0.12,
    basis: str = "run.safetensors",
    name: str = "run",
) -> SpacetimeProblem:
    """A run from the middle of a left stance to the middle of another, over stones if heights are given.

    Args:
        steps_m: length of each step [m], an even number of them.
        heights_m: of the ground under each stance [m]; level without.
        stance_s: time on a foot [s].
        flight_s: time in the air [s].
        basis: file of the behaviour.
        name: of the problem.
    """
    places = _step_positions(steps_m)
    if heights_m and len(heights_m) != len(places):
        raise InputError(f"{len(heights_m)} heights for {len(places)} stances", "Give one for each stance")
    phases: list[ProblemPhase] = []
    for i, place in enumerate(places):
        half = 0.5 if i in (0, len(places) - 1) else 1.0
        foot = _foot_contact(i, place, RUN_STANCE_M, heights_m[i] if heights_m else 0.0)
        phases.append(ProblemPhase(f"stance {i}", half * stance_s, (foot,)))
        if i + 1 < len(places):
            phases.append(ProblemPhase(f"flight {i}", flight_s))
    return SpacetimeProblem(name, tuple(phases), space="reduced", basis=basis, objective=REDUCED_OBJECTIVE)


def build_flip_problem(
    length_m: float = -0.4,
    *,
    flight_s: float = 0.7,
    is_straight: bool = False,
    basis: str = "flip.safetensors",
    name: str = "back-flip",
) -> SpacetimeProblem:
    """A back flip from standing to standing, without a twist; straight legs are ranges in the middle of the flight."""
    phases = (
        ProblemPhase("push", 0.8, place_feet(0.0)),
        ProblemPhase("flight", flight_s),
        ProblemPhase("land", 0.8, place_feet(length_m)),
    )
    keys = [
        Key("turn", "flight", 1.0, axis="pitch", lower=-6.6, upper=-5.6),
        Key("turn", "flight", None, axis="yaw", lower=-0.3, upper=0.3),
        Key("turn", "flight", None, axis="roll", lower=-0.3, upper=0.3),
    ]
    if is_straight:
        for part, (low, high) in STRAIGHT_RAD.items():
            both = {f"{side}{part}": 0.0 for side in ("Left", "Right")}
            keys += [Key("range", "flight", at, joints=both, lower=low, upper=high) for at in STRAIGHT_FRACTIONS]
    return SpacetimeProblem(name, phases, space="reduced", basis=basis, objective=REDUCED_OBJECTIVE, keys=tuple(keys))


def _foot_contact(index: int, forward_m: float, half_width_m: float, height_m: float = 0.0) -> Contact:
    side = SIDES[index % 2]
    return Contact(f"{side}_foot", (half_width_m if side == "left" else -half_width_m, height_m, forward_m))


def _step_positions(steps_m: Sequence[float]) -> list[float]:
    if len(steps_m) == 0 or len(steps_m) % 2:
        raise InputError(f"{len(steps_m)} steps", "Give an even number: a walk begins and ends on the left foot")
    return [0.0, *(round(float(place), 9) for place in np.cumsum(steps_m))]


BAR_HALF_M: Final = 0.55  # [m] half the length of a drawn bar, which runs along X
RAISED_M: Final = 0.02  # [m] supports of feet above this stand on a stone


def build_surroundings(problem: SpacetimeProblem) -> World:
    """Return bars where hands grip or keys name one, and stones under the supports of feet above height 0."""
    contacts = [contact for phase in problem.phases for contact in phase.contacts]
    grips = [contact.position for contact in contacts if contact.kind == "grip"]
    named = [key.target for key in problem.keys if key.kind == "bar"]
    # One bar for all hands at the same height and place along the path; it runs along X, which a key may leave free
    known = [(x or 0.0, y, z) for x, y, z in named if y is not None and z is not None]
    lines = {(y, z): x for x, y, z in (*grips, *known)}
    bars = tuple(Bar((x - BAR_HALF_M, y, z), (x + BAR_HALF_M, y, z)) for (y, z), x in lines.items())
    feet = {c.position: max(c.half_extents_m) for c in contacts if c.kind == "foot" and c.position[1] > RAISED_M}
    stones = tuple(Stone((x, z), 1.4 * reach, y) for (x, y, z), reach in feet.items())
    return World(stones=stones, bars=(*bars, *problem.bars), boxes=problem.boxes)


PHASE_LETTERS: Final = {"double": "B", "left": "L", "right": "R", "flight": "-", "hands": "h", "unsupported": "?"}
MIN_CLIPS: Final = 3
FEATURE_SCALES: Final = np.array(
    [0.5, 0.5, 0.8, 0.1]
)  # [m] ahead, [m] to the left, [rad] turn, [m] height: one unit of unlike
POOL_FACTOR: Final = 2  # candidates for a spread selection, as a multiple of the requested number
RISE_S: Final = 0.5  # a flight that lasts T rises g T^2 / 8


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClipSelection(Result):
    """Chosen clips, nearest first."""

    indices: tuple[int, ...]
    distances: tuple[float, ...]  # of each chosen clip from the problem, in units of unlikeness
    pattern: str  # phases of the problem: B both feet, L, R, - flight
    report: tuple[str, ...]


def select_clips(motions: Sequence[Motion], problem: SpacetimeProblem, *, count: int = 8) -> ClipSelection:
    """Choose clips for a problem by contacts and overall direction ([Safonova2006]_ §3.3, made precise).

    A clip qualifies if its phases contain those of the problem in a row; if none does, one double support may be
    missing or too many. Of those nearest in displacement, turn and height of flight, a spread is taken: each
    next one is the farthest from those already chosen.

    Args:
        motions: candidates.
        problem: what is wanted.
        count: how many at most; at least three are given if there are.

    Raises:
        InputError: no clip shows these contacts.
    """
    wanted = encode_phase_pattern(problem)
    # Displacement, turn and height of flight of the problem itself
    grounded = [phase for phase in problem.phases if phase.contacts]
    if not grounded:
        raise InputError(f"problem '{problem.name}' never touches the ground", "Give a phase with contacts")
    places = [np.mean([c.position for c in phase.contacts], axis=0) for phase in (grounded[0], grounded[-1])]
    turns = [np.deg2rad(np.mean([c.heading_deg for c in phase.contacts])) for phase in (grounded[0], grounded[-1])]
    c, s = np.cos(turns[0]), np.sin(turns[0])
    x, _, z = places[1] - places[0]
    longest = max((phase.duration_s for phase in problem.phases if phase.is_flight), default=0.0)
    goal = np.array([s * x + c * z, c * x - s * z, turns[1] - turns[0], _flight_rise(longest)])
    found = [(i, _clip_features(motion, wanted)) for i, motion in enumerate(motions)]
    report: list[str] = []
    if not any(f is not None for _, f in found):
        doubles = [k for k, letter in enumerate(wanted) if letter == "B" and len(wanted) > 1]
        shorter = [wanted[:k] + wanted[k + 1 :] for k in doubles]
        found = [
            (i, next((f for p in shorter if (f := _clip_features(m, p)) is not None), None))
            for i, m in enumerate(motions)
        ]
        report.append(f"no clip has the phases {wanted}; one double support was left out")
    known = [(i, f) for i, f in found if f is not None]
    if not known:
        raise InputError(f"no example of this contact sequence ({wanted})", "Add clips that step like this")
    known.sort(key=lambda item: _feature_distance(item[1], goal))
    # The nearest, then always the one farthest from those chosen
    chosen, rest = [known[0]], known[1 : POOL_FACTOR * max(count, MIN_CLIPS)]
    while rest and len(chosen) < max(count, MIN_CLIPS):
        gaps = [min(_feature_distance(f, g) for _, g in chosen) for _, f in rest]
        chosen.append(rest.pop(int(np.argmax(gaps))))
    if len(chosen) < MIN_CLIPS:
        report.append(f"only {len(chosen)} clips: the space may be too narrow")
    return ClipSelection(
        tuple(i for i, _ in chosen), tuple(_feature_distance(f, goal) for _, f in chosen), wanted, tuple(report)
    )


def encode_phase_pattern(problem: SpacetimeProblem) -> str:
    """Phases as letters: B both feet, L left, R right, - flight; equal neighbours once."""
    letters: list[str] = []
    for phase in problem.phases:
        sides = [contact.point.split("_")[0] for contact in phase.contacts]
        one = PHASE_LETTERS.get(sides[0], "?") if sides else "-"
        letters.append("B" if {"left", "right"} <= set(sides) else one)
    return "".join(a for a, b in zip(letters, ["", *letters[:-1]], strict=True) if a != b)


def _clip_features(motion: Motion, wanted: str) -> FloatArray | None:
    """Displacement ahead and to the left [m], turn [rad] and height of flight [m] where the phases fit; or None."""
    phases = contact_phases(motion)
    at = "".join(PHASE_LETTERS.get(phase.kind, "?") for phase in phases).find(wanted)
    if at < 0:
        return None
    part = phases[at : at + len(wanted)]
    first, last = ((phase.start + phase.stop) // 2 for phase in (part[0], part[-1]))
    yaw = headings(motion)
    c, s = np.cos(yaw[first]), np.sin(yaw[first])
    x, _, z = motion.root_positions[last] - motion.root_positions[first]
    longest = max((len(phase) / motion.rate_hz for phase in part if phase.kind == "flight"), default=0.0)
    return np.array([s * x + c * z, c * x - s * z, yaw[last] - yaw[first], _flight_rise(longest)])


def _flight_rise(flight_s: float) -> float:
    return 9.81 * (RISE_S * flight_s) ** 2 / 2.0


def _feature_distance(features: FloatArray, goal: FloatArray) -> float:
    return float(np.linalg.norm((features - goal) / FEATURE_SCALES))

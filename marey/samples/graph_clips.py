"""The shipped motion graph, and the synthetic clips that it was built from.

Walks, turns, runs and jumps come from the locomotion engine, picks from inverse kinematics on the engine's stand. The
graph is a file, built by ``marey graph build demo --packed -o marey/samples/graphs/demo.safetensors``; a change of the
engine reaches it when that command is run again, and ``make study`` tells how far the two are apart.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marey.motion import Motion
from marey.samples.figure import pick_up

if TYPE_CHECKING:
    from marey.graph import MotionGraph
    from marey.locomotion import Action, JumpAction, LocomotionModel, Transition

    Element = Action | Transition | JumpAction


RATE_HZ: Final = 60.0
STAND_S: Final = 0.5  # [s] of standing at the start of a clip
SETTLE_S: Final = 1.6  # [s] and at its end, in which the feet come side by side
WALK_MPS: Final = 1.2  # at which a metre costs least
STARTS_MPS: Final = (0.6, 0.9, WALK_MPS, 1.5)  # of short walks from a stand to a stand
BENDS: Final = ((WALK_MPS, 0.15), (WALK_MPS, 0.3), (WALK_MPS, 0.6), (0.9, 0.8), (0.6, 1.2))  # [m/s], [rad/s]
BEND_RAMP_S: Final = 0.6  # [s] from straight on into a bend
BEND_S: Final = 1.4  # [s] of a bend at one rate: a few equal steps, so that the bend can be continued
WEAVES: Final = ((WALK_MPS, (0.6, -0.6, 0.3, -0.3)), (0.6, (1.2, -1.2, 0.6, -0.6)))  # from one bend to another
SWELL_MPS: Final = (0.6, 1.5, 0.9)  # of one walk, faster and slower
RUN_MPS: Final = 2.6
WALK_LEAPS_M: Final = (0.5, 0.65, 0.8, 0.95, 1.1)
RUN_LEAPS_M: Final = (1.3, 1.8)
STANDING_JUMPS_M: Final = (0.4, 0.8, 1.2)
SPINS: Final = ((1.0, 0.1), (1.2, 0.4), (1.5, 0.5), (1.5, 1.5))  # [rad/s], [s] of turns on the spot, to the left
SPIN_MPS: Final = 0.3
VEERS: Final = ((0.6, 0.8, 0.3), (0.6, 1.5, 0.3), (0.6, 2.0, 0.5), (0.45, 2.2, 0.9))
"""[m/s], [rad/s], [s] of turns to the left in the first steps of a walk, and in the last."""
VEER_S: Final = 0.5  # [s] from a stand into such a turn
SHORT_MPS: Final = (0.45, 0.75)  # of walks of a few steps
HEIGHTS_M: Final = tuple(round(0.1 * n, 1) for n in range(1, 13))  # of things that are picked up
PICKS_M: Final = ((0.0, 0.42), (0.12, 0.34), (0.12, 0.50), (0.26, 0.42))
"""Where they are: beside the root, on the side of the hand, and ahead."""
DEMO_SETTINGS: Final[dict[str, Any]] = {"mirror": True, "density": 100.0, "merge": 1.5, "links": 24}
"""Engine walks are far more alike than captured ones: links to the same gait alone would fill the usual density."""


@lru_cache(maxsize=1)  # a graph cannot be changed, so callers may share it
def demo_graph() -> MotionGraph:
    """The shipped motion graph of :func:`demo_clips` and their mirror images."""
    from marey.graph import load_graph

    with as_file(files("marey.samples") / "graphs" / "demo.safetensors") as file:
        return load_graph(file)


@lru_cache(maxsize=1)  # a Motion cannot be changed, so callers may share it
def demo_clips() -> tuple[Motion, ...]:
    """Clips of one body that stands, walks, turns, runs, jumps and picks things up with the right hand.

    All begin and end with the same stand. Left-hand picks and turns to the right are what their mirror images show.
    """
    from marey.locomotion import Action, JumpAction, Transition, load_model

    model = load_model()
    # Walks whose speed or direction changes all the time, so that no two cycles are alike, and runs
    found = [_perform_timeline(model, f"walk-{v}", _build_timeline(v, 1.2)) for v in STARTS_MPS]
    found += [_perform_timeline(model, f"steps-{v}", _build_timeline(v, 0.1)) for v in SHORT_MPS]
    swell = (Action(0.3, speed) for speed in SWELL_MPS)
    found.append(_perform_timeline(model, "swell", _build_timeline(1.1, 0.3, *swell, ramp_s=1.8)))
    # Into a bend and out of it again
    for speed, turn in BENDS:
        bend = (Action(BEND_S, speed, turn_rate=turn), Action(BEND_S, speed))
        found.append(
            _perform_timeline(model, f"bend-{speed}-{turn}", _build_timeline(speed, 0.6, *bend, ramp_s=BEND_RAMP_S))
        )
    # From one bend straight into the other
    for speed, turns in WEAVES:
        weave = (Action(0.7, speed, turn_rate=turn) for turn in turns)
        found.append(
            _perform_timeline(model, f"weave-{speed}", _build_timeline(speed, 0.6, *weave, ramp_s=BEND_RAMP_S))
        )
    faster = Action(0.8, RUN_MPS, run=1.0)
    found.append(
        _perform_timeline(model, "walk-run-walk", _build_timeline(1.2, 0.6, faster, Action(0.6, 1.2), ramp_s=1.0))
    )
    found += _turns(model)
    # Walks that set out turned away from the stand, and walks that turn into it
    for speed, turn, seconds in VEERS:
        stand, out, straight = Action(STAND_S, 0.0), Transition(VEER_S), Action(0.6, WALK_MPS)
        bend, ramp, rest = Action(seconds, speed, turn_rate=turn), Transition(BEND_RAMP_S), Action(SETTLE_S, 0.0)
        slower = Transition(0.5 + 0.5 * WALK_MPS)
        found.append(_perform_timeline(model, f"veer-{turn}", (stand, out, bend, ramp, straight, slower, rest)))
        found.append(_perform_timeline(model, f"veer-in-{turn}", (stand, slower, straight, ramp, bend, out, rest)))
    # Leaps out of a walk and out of a run, and jumps from a stand
    for length in WALK_LEAPS_M:
        leap = _build_timeline(1.2, 0.6, JumpAction(length, "walk"), Action(0.5, 1.2))
        found.append(_perform_timeline(model, f"leap-{length}", leap))
    for length in RUN_LEAPS_M:
        leap = _build_timeline(RUN_MPS, 0.6, JumpAction(length, "run"), Action(0.5, RUN_MPS, run=1.0), run=1.0)
        found.append(_perform_timeline(model, f"run-leap-{length}", leap))
    stand = Action(STAND_S, 0.0)
    for length in STANDING_JUMPS_M:
        found.append(_perform_timeline(model, f"jump-{length}", (stand, JumpAction(length, "standing"), stand)))
    return (*found, *demo_picks(model))


def demo_picks(model: LocomotionModel | None = None) -> tuple[Motion, ...]:
    """Picks from a stand with the right hand, at graded heights and reaches."""
    from marey.locomotion import Engine

    stand = Engine(model).pose
    x, _, z = stand.root_position
    places = [(x - beside, height, z + ahead) for height in HEIGHTS_M for beside, ahead in PICKS_M]
    return tuple(pick_up(stand, place, "right", rate_hz=RATE_HZ) for place in places)


def _turns(model: LocomotionModel) -> list[Motion]:
    """Turns all but on the spot, to the left; mirror images turn to the right."""
    from marey.locomotion import Action, Transition

    found: list[Motion] = []
    for turn, seconds in SPINS:
        ramp, turning = Transition(STAND_S), Action(seconds, SPIN_MPS, turn_rate=turn)
        name = f"turn-{np.degrees(turn * (seconds + STAND_S)):.0f}"
        found.append(_perform_timeline(model, name, (Action(STAND_S, 0.0), ramp, turning, ramp, Action(SETTLE_S, 0.0))))
    return found


def _build_timeline(
    speed: float, seconds: float, *then: Action | JumpAction, run: float = 0.0, ramp_s: float = 0.8
) -> tuple[Element, ...]:
    """From a stand to a gait, what comes then, and back to a stand."""
    from marey.locomotion import Action, JumpAction, Transition

    # A faster gait takes longer to come to
    ramp = Transition(0.5 + 0.5 * speed)
    parts: list[Element] = [Action(STAND_S, 0.0), ramp, Action(seconds, speed, run=run)]
    for one in then:
        parts += [one] if isinstance(one, JumpAction) else [Transition(ramp_s), one]
    return (*parts, ramp, Action(SETTLE_S, 0.0))


def _perform_timeline(model: LocomotionModel, name: str, timeline: tuple[Element, ...]) -> Motion:
    from marey.locomotion import Script, perform_script

    return replace(perform_script(Script(timeline, rate_hz=RATE_HZ, name=name), model).motion, name=name)

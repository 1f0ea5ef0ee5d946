"""Clips for a motion graph on a machine that has nothing else.

Walks, turns, runs and jumps come from the locomotion engine, picks from inverse kinematics on the engine's stand.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.motion import Motion
from marey.samples._picks import pick_up
from marey.world import Path, Sketch, Stand

if TYPE_CHECKING:
    from marey.locomotion import Action, JumpAction, LocomotionModel, Transition

    Element = Action | Transition | JumpAction

RATE_HZ: Final = 60.0
STAND_S: Final = 0.5  # [s] of standing at the start of a clip, and twice that at its end
SPEEDS_MPS: Final = (0.7, 1.0, 1.3)  # of walks
TURNS_RADPS: Final = (0.35, 0.7, 1.1)  # to the left; mirror images turn to the right
RUN_MPS: Final = 2.6
WALK_LEAPS_M: Final = (0.5, 0.75, 1.0)
RUN_LEAPS_M: Final = (1.3, 1.8)
STANDING_JUMPS_M: Final = (0.4, 0.8, 1.2)
TURNS_DEG: Final = (45.0, 90.0, 180.0)  # on the spot, to the left
HEIGHTS_M: Final = tuple(round(0.1 * n, 1) for n in range(1, 13))  # of things that are picked up
REACHES_M: Final = (0.38, 0.52)  # ahead of the root
BESIDE_M: Final = 0.12  # to the side of the hand that picks


@lru_cache(maxsize=1)  # a Motion cannot be changed, so callers may share it
def demo_clips() -> tuple[Motion, ...]:
    """Clips of one body that stands, walks, turns, runs, jumps and picks things up with the right hand.

    All begin and end with the same stand. Left-hand picks and turns to the right are what their mirror images show.
    """
    from marey.locomotion import load_model

    model = load_model()
    return (*_walks(model), *_turns(model), *_leaps(model), *demo_picks(model))


def demo_picks(model: LocomotionModel | None = None) -> tuple[Motion, ...]:
    """Picks from a stand with the right hand, at graded heights and reaches."""
    from marey.locomotion import Engine

    stand = Engine(model).pose
    x, _, z = stand.root_position
    places = [(x - BESIDE_M, height, z + reach) for height in HEIGHTS_M for reach in REACHES_M]
    return tuple(pick_up(stand, place, "right", rate_hz=RATE_HZ) for place in places)


def _walks(model: LocomotionModel) -> list[Motion]:
    """Straight walks, walks that turn on the way, and runs; all begin and end standing."""
    from marey.locomotion import Action

    found = [_played(model, f"walk-{v}", _going(v, 2.5)) for v in SPEEDS_MPS]
    for turn in TURNS_RADPS:
        bend = _going(1.0, 1.0, Action(2.5, 1.0, turn_rate=turn), Action(1.0, 1.0))
        found.append(_played(model, f"bend-{turn}", bend))
    weave = (Action(1.6, 1.2, turn_rate=turn) for turn in (0.6, -0.6, 0.9))
    found.append(_played(model, "weave", _going(1.2, 0.6, *weave)))
    found.append(_played(model, "run", _going(RUN_MPS, 2.0, run=1.0)))
    faster = Action(1.5, RUN_MPS, run=1.0)
    found.append(_played(model, "walk-run-walk", _going(1.2, 1.0, faster, Action(1.0, 1.2))))
    return found


def _turns(model: LocomotionModel) -> list[Motion]:
    """Turns on the spot, to the left, and two metres from there."""
    return [_turned(model, degrees) for degrees in TURNS_DEG]


def _turned(model: LocomotionModel, degrees: float) -> Motion:
    from marey.locomotion import follow

    yaw = np.radians(degrees)
    goal = (2.0 * float(np.sin(yaw)), 2.0 * float(np.cos(yaw)))
    way = Path(np.array([(0.0, 0.0), goal]))
    sketch = Sketch(Stand((0.0, 0.0), 0.0), Stand(goal, degrees), path=way)
    return replace(follow(sketch, model, rate_hz=RATE_HZ, speed_mps=1.0), name=f"turn-{degrees:g}")


def _leaps(model: LocomotionModel) -> list[Motion]:
    """Leaps out of a walk and out of a run, and jumps from a stand."""
    from marey.locomotion import Action, JumpAction

    found: list[Motion] = []
    for length in WALK_LEAPS_M:
        leap = _going(1.2, 1.5, JumpAction(length, "walk"), Action(1.0, 1.2))
        found.append(_played(model, f"leap-{length}", leap))
    for length in RUN_LEAPS_M:
        leap = _going(RUN_MPS, 1.5, JumpAction(length, "run"), Action(1.0, RUN_MPS, run=1.0), run=1.0)
        found.append(_played(model, f"run-leap-{length}", leap))
    stand = Action(STAND_S, 0.0)
    jumps = [(length, (stand, JumpAction(length, "standing"), stand)) for length in STANDING_JUMPS_M]
    return found + [_played(model, f"jump-{length}", jump) for length, jump in jumps]


def _going(speed: float, seconds: float, *then: Action | JumpAction, run: float = 0.0) -> tuple[Element, ...]:
    """From a stand to a gait, what comes then, and back to a stand."""
    from marey.locomotion import Action, JumpAction, Transition

    ramp = Transition(0.5 + 0.5 * speed)
    parts: list[Element] = [Action(STAND_S, 0.0), ramp, Action(seconds, speed, run=run)]
    for one in then:
        parts += [one] if isinstance(one, JumpAction) else [Transition(0.8), one]
    return (*parts, ramp, Action(2.0 * STAND_S, 0.0))


def _played(model: LocomotionModel, name: str, timeline: tuple[Element, ...]) -> Motion:
    from marey.locomotion import Script, perform

    return replace(perform(Script(timeline, rate_hz=RATE_HZ, name=name), model).motion, name=name)

"""Run-ups along any way: the profile that puts the take-off toe on its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from marey.locomotion._machine_adapt import find_planted_toe
from marey.locomotion._profile import FrequencyTable, SpeedProfile, plan_profile
from marey.locomotion._runup import clamp_approach_speed

if TYPE_CHECKING:
    from marey.locomotion._engine import Engine


def plan_approach_profile(
    engine: Engine, length_m: float, kind: str, ahead_m: float, *, feet: tuple[str, ...] = ("right", "left")
) -> tuple[SpeedProfile, str] | str:
    """Profile of a run-up whose way to the take-off toe is ``ahead_m`` long, and the foot; or why there is none.

    Speeds that the jump allows are tried from the nearest to the present one on, and both feet.
    """
    book, leg, now = engine.jumper.jumps, engine.leg_length_m, engine.parameters
    wanted, tolerance = (float(v) for v in book.run_up(kind, length_m, leg))
    run, table, why = (1.0 if kind == "run" else 0.0), FrequencyTable.from_source(engine), "too slow"
    for speed in (clamp_approach_speed(now.speed, wanted, tolerance), wanted, wanted - tolerance, wanted + tolerance):
        for foot in feet if speed > 0.05 else ():
            plan, _ = engine.jumper.preview(length_m, kind, speed, foot=foot)
            reach = float(find_planted_toe(plan, np.asarray(book.rest_heights_m(leg)))[1])
            strike = float(plan.gait.events[0 if foot == "right" else 4]) % 1.0
            profile = plan_profile(
                table, now.speed, speed, ahead_m - reach, engine.phase % 1.0, run=(now.run, run), foot=strike
            )
            if profile.is_feasible:
                return profile, foot
            why = profile.status
    return why

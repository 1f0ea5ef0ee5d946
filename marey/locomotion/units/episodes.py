"""Episodes of a captured clip: stands, starts, stops, turns, side and back steps.

They are told by the root's velocity and the pelvis's heading alone, without foot contacts, so that any capture of a
body with a pelvis can be catalogued.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.locomotion.units.gait_unit import measure_leg_length
from marey.motion import Motion, find_runs, headings
from marey.motion.time_series import lowpass_values
from marey.skeleton import role_map

EPISODES: Final = ("stand", "start", "stop", "turn", "spot-turn", "side-step", "back-step")
SMOOTHING_HZ: Final = 1.0  # [Hz] below the sway within steps
STANDING_MPS: Final = 0.15  # [m/s] for a leg of 0.9 m, as all speeds here; they go with the root of the leg
STEPPING_MPS: Final = 0.3  # [m/s] of the faster ankle
GOING_MPS: Final = 0.35
START_MPS: Final = 0.7  # [m/s] a start ends, a stop begins, at a gait at least this fast
RAMP_FRACTION: Final = 0.9  # [-] of the speed that is reached: where the start ends
LONGEST_RAMP_S: Final = 3.0
SHORTEST_STAND_S: Final = 0.4
SHORTEST_GOING_S: Final = 0.6
TURNING_RADPS: Final = 0.4
LEAST_TURNS_RAD: Final = {"turn": float(np.deg2rad(30.0)), "spot-turn": float(np.deg2rad(45.0))}
ASIDE_RAD: Final = (float(np.deg2rad(50.0)), float(np.deg2rad(130.0)))  # of the way against the facing: side, back
USUAL_LEG_M: Final = 0.9


@dataclass(frozen=True, slots=True)
class Episode:
    """A stretch of a clip in which somebody stands, starts, stops, turns or steps aside."""

    kind: str  # one of EPISODES
    start: int  # frames of the clip, end excluded
    stop: int
    entry_mps: float  # of the root at both ends
    exit_mps: float
    turn_rad: float  # of the pelvis, positive to the left
    clip: str = ""


def find_episodes(motion: Motion) -> tuple[Episode, ...]:
    """Episodes of a clip in the order in which they start; episodes of different kinds may overlap."""
    if motion.num_frames < 4:
        return ()
    scale = float(np.sqrt(measure_leg_length(motion.skeleton) / USUAL_LEG_M))
    velocity = np.gradient(motion.root_positions[:, [0, 2]], axis=0) * motion.rate_hz
    facing = np.unwrap(headings(motion))
    if motion.rate_hz > 2.5 * SMOOTHING_HZ:
        velocity, facing = (lowpass_values(track, motion.rate_hz, SMOOTHING_HZ) for track in (velocity, facing))
    speed = np.hypot(*velocity.T)
    # Feet that step on the spot do not stand
    roles = role_map(motion.skeleton)
    ankles = motion.joint_positions()[:, [roles[f"{side}_ankle"] for side in ("left", "right")]]
    stepping = np.linalg.norm(np.gradient(ankles, axis=0), axis=2).max(axis=1) * motion.rate_hz
    if motion.rate_hz > 2.5 * SMOOTHING_HZ:
        stepping = lowpass_values(stepping, motion.rate_hz, SMOOTHING_HZ)
    turning = np.abs(np.gradient(facing)) * motion.rate_hz > TURNING_RADPS
    aside = np.abs((np.arctan2(velocity[:, 0], velocity[:, 1]) - facing + np.pi) % (2.0 * np.pi) - np.pi)
    found: list[Episode] = []

    def add(kind: str, flags: BoolArray, shortest_s: float = 0.0) -> list[tuple[int, int]]:
        runs = [(a, b) for a, b in find_runs(flags) if b - a >= shortest_s * motion.rate_hz]
        if kind in LEAST_TURNS_RAD:
            runs = [(a, b) for a, b in runs if abs(facing[b - 1] - facing[a]) >= LEAST_TURNS_RAD[kind]]
        for a, b in runs:
            turn = float(facing[b - 1] - facing[a])
            found.append(Episode(kind, a, b, float(speed[a]), float(speed[b - 1]), turn, motion.name))
        return runs

    going, standing = (
        speed > GOING_MPS * scale,
        (speed < STANDING_MPS * scale) & ~turning & (stepping < STEPPING_MPS * scale),
    )
    stands = add("stand", standing, SHORTEST_STAND_S)
    add("turn", turning & going & (aside < ASIDE_RAD[0]))
    add("spot-turn", turning & ~going)
    add("side-step", going & ~turning & (aside >= ASIDE_RAD[0]) & (aside <= ASIDE_RAD[1]), SHORTEST_GOING_S)
    add("back-step", going & ~turning & (aside > ASIDE_RAD[1]), SHORTEST_GOING_S)
    # From the end of a stand to nearly the speed that is reached soon after, and the same backwards in time
    for first, last in stands:
        before, after = (_ramp_length(s, motion.rate_hz, scale) for s in (speed[:first][::-1], speed[last:]))
        for kind, a, b in (("stop", first - before, first), ("start", last, last + after)):
            if b > a:
                turn = float(facing[b - 1] - facing[a])
                found.append(Episode(kind, a, b, float(speed[a]), float(speed[b - 1]), turn, motion.name))
    return tuple(sorted(found, key=lambda one: (one.start, one.kind)))


def _ramp_length(speed: FloatArray, rate_hz: float, scale: float) -> int:
    """Frames until a body that stood goes at nearly the speed it will have; zero if it goes nowhere."""
    soon = speed[: round(LONGEST_RAMP_S * rate_hz)]
    if not len(soon) or soon.max() < START_MPS * scale:
        return 0
    return int(np.argmax(soon >= RAMP_FRACTION * soon.max())) + 1

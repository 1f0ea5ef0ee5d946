"""What a script asked for, and what was measured on the motion it became."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.locomotion._plant_measures import plant_slide_mm
from marey.locomotion._script import Action, JumpAction, Script
from marey.motion import Motion, contact_positions, find_runs
from marey.skeleton import contact_points

CONTACT_POINTS: Final = ("right_heel", "right_toe", "left_heel", "left_toe")  # in the order of EFFECTORS


@dataclass(frozen=True, slots=True)
class ScriptPart:
    """When an element of the time line was played."""

    index: int
    start_s: float
    stop_s: float


@dataclass(frozen=True, slots=True)
class PartReport:
    """One element: what was asked, what came out."""

    kind: str  # "action", "transition" or "jump"
    name: str
    line: int | None
    start_s: float
    stop_s: float
    asked_mps: float | None = None  # speed of an action
    mean_mps: float = 0.0  # of the root, along its path
    asked_m: float | None = None  # length of a jump
    length_m: float | None = None  # from the ball of the foot that leaves to the heel that lands; None without a flight
    flight_s: float | None = None
    takeoff_error_m: float | None = None  # from the place that was asked for to the ball of the foot that leaves


@dataclass(frozen=True, slots=True)
class ScriptReport:
    """A script and its motion in figures."""

    name: str
    seconds: float
    num_frames: int
    rate_hz: float
    distance_m: float
    slide_mean_mm: dict[str, float]  # a frame, by contact point, while it is planted
    slide_max_mm: dict[str, float]
    parts: tuple[PartReport, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @property
    def sentence(self) -> str:
        """One line for a reader."""
        jumps = sum(part.kind == "jump" for part in self.parts)
        extra = f", {jumps} jump{'s' if jumps > 1 else ''}" if jumps else ""
        slide = max(self.slide_max_mm.values(), default=0.0)
        return (
            f"{self.name}  {self.num_frames} frames at {self.rate_hz:g} Hz, {self.seconds:.2f} s, "
            f"{self.distance_m:.1f} m{extra}; planted feet slide {slide:.2f} mm a frame at most"
        )


def measure_script(
    script: Script, motion: Motion, parts: tuple[ScriptPart, ...], warnings: tuple[str, ...]
) -> ScriptReport:
    """Measure a motion part by part."""
    joints = motion.joint_positions()
    slides = plant_slide_mm(motion)
    return ScriptReport(
        name=script.name,
        seconds=motion.num_frames / motion.rate_hz,
        num_frames=motion.num_frames,
        rate_hz=motion.rate_hz,
        distance_m=_path_length_m(motion, 0, motion.num_frames),
        slide_mean_mm={
            name: _masked_mean(slides[:, k], _contact_track(motion, name)) for k, name in enumerate(CONTACT_POINTS)
        },
        slide_max_mm={name: float(slides[:, k].max()) for k, name in enumerate(CONTACT_POINTS)},
        parts=tuple(_measure_part(script, motion, joints, part) for part in parts),
        warnings=warnings,
    )


def _masked_mean(values: FloatArray, flags: BoolArray) -> float:
    return float(values[flags].mean()) if flags.any() else 0.0


def _contact_track(motion: Motion, name: str) -> BoolArray:
    assert motion.contacts is not None
    return motion.contacts.track(name)


def _measure_part(script: Script, motion: Motion, joints: FloatArray, part: ScriptPart) -> PartReport:
    element = script.timeline[part.index]
    start, stop = (round(time_s * motion.rate_hz) for time_s in (part.start_s, part.stop_s))
    facts: dict[str, Any] = {"kind": "transition"}
    if isinstance(element, Action):
        facts = {"kind": "action", "asked_mps": element.speed}
    elif isinstance(element, JumpAction):
        flight = _measure_flight(motion, joints, start, stop, element.takeoff)
        facts = {"kind": "jump", "asked_m": element.length_m, **flight}
    return PartReport(
        name=element.name,
        line=script.lines[part.index] if part.index < len(script.lines) else None,
        start_s=part.start_s,
        stop_s=part.stop_s,
        mean_mps=_path_length_m(motion, start, stop) / max(part.stop_s - part.start_s, 1e-9),
        **facts,
    )


def _path_length_m(motion: Motion, start: int, stop: int) -> float:
    steps = np.diff(motion.root_positions[start : stop + 1, [0, 2]], axis=0)
    return float(np.hypot(steps[:, 0], steps[:, 1]).sum())


def _measure_flight(
    motion: Motion, joints: FloatArray, start: int, stop: int, takeoff: tuple[float, float] | None
) -> dict[str, Any]:
    """Length and time of the longest flight between two frames, and how far from its place it began."""
    assert motion.contacts is not None
    active = motion.contacts.active
    leave, land = find_longest_run(np.asarray(~active[start:stop].any(axis=1)))
    leave, land = leave + start, land + start
    if land <= leave or leave == 0 or land >= motion.num_frames:
        return {}
    travel = (motion.root_positions[land] - motion.root_positions[leave])[[0, 2]]
    ahead = travel / max(float(np.hypot(*travel)), 1e-9)
    leaving, landing = _sides_down(motion, leave - 1), _sides_down(motion, land)
    toes = joints[leave - 1, [motion.skeleton.index(f"{side}_foot") for side in leaving]][:, [0, 2]]
    names = contact_points(motion.skeleton).names
    heels = contact_positions(motion[land : land + 1])[0, [names.index(f"{side}_heel") for side in landing]]
    length = float((heels[:, [0, 2]] @ ahead).mean() - (toes @ ahead).mean())
    missed = None if takeoff is None else float(np.hypot(*(toes.mean(axis=0) - np.array(takeoff))))
    return {"length_m": length, "flight_s": (land - leave) / motion.rate_hz, "takeoff_error_m": missed}


def _sides_down(motion: Motion, frame: int) -> list[str]:
    """Sides whose heel or toe is down."""
    return sorted({name.split("_", maxsplit=1)[0] for name in CONTACT_POINTS if _contact_track(motion, name)[frame]})


def find_longest_run(flags: BoolArray) -> tuple[int, int]:
    """First index and the one after the last of the longest stretch of true values; equal if there is none."""
    return max(find_runs(flags), key=lambda run: run[1] - run[0], default=(0, 0))

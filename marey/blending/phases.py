"""Phases as pieces of motion that can be blended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import InputError
from marey.kinematics import Limb, solve_two_bone
from marey.motion import ContactPhase, Contacts, Motion, StancePlant, contact_phases, contact_positions, ensure_contacts
from marey.numerics import fill_gaps
from marey.skeleton import contact_points

MIN_FRAMES: Final = 3  # of a phase, both ends included: two steps of time at least
SIDES: Final = ("left", "right")
MAX_PLANT_LEG_EXTENSION: Final = 0.9995  # [-] a leg that holds its plant may be this straight


@dataclass(frozen=True, slots=True, eq=False)
class MotionPhase:
    """A stretch of a clip with one set of planted feet and hands, from its first frame to the first of the next."""

    motion: Motion  # the last frame is the first of the next phase, if there is one
    kind: str  # "flight", "left", "right", "double", ...
    planted: tuple[str, ...]  # in double support the trailing foot first
    plants: tuple[StancePlant, ...] = ()
    start: int = 0  # frame in the clip

    def __post_init__(self) -> None:
        if self.motion.num_frames < MIN_FRAMES:
            raise InputError(
                f"a {self.kind} phase of {self.motion.num_frames} frames",
                f"It needs at least {MIN_FRAMES} to be blended",
            )

    @property
    def duration_s(self) -> float:
        """How long the phase lasts [s]."""
        return self.motion.duration_s

    @property
    def feet(self) -> tuple[str, ...]:
        """Planted feet, the trailing one first."""
        return tuple(name for name in self.planted if name in SIDES)


def cut_phases(motion: Motion, *, clean: bool = True) -> tuple[MotionPhase, ...]:
    """Cut a clip into phases that can be blended.

    Args:
        motion: any clip; contacts are detected where it carries none.
        clean: hold every planted foot at its plant first (:func:`hold_plants`), as the theorems on planted feet ask.
    """
    motion = ensure_contacts(motion)
    phases = contact_phases(motion)
    held = hold_plants(motion, phases) if clean else motion
    last = motion.num_frames - 1
    return tuple(
        MotionPhase(held[p.start : min(p.stop, last) + 1], p.kind, p.planted, p.plants, p.start)
        for p in phases
        if min(p.stop, last) - p.start + 1 >= MIN_FRAMES
    )


def phase_string(phases: tuple[MotionPhase, ...]) -> str:
    """Contacts of each phase in turn, as in ``LR|-|RL``: L, R are feet, the trailing one first; - is a flight."""
    letters = {"left": "L", "right": "R", "left_hand": "l", "right_hand": "r"}
    return "|".join("".join(letters[name] for name in p.planted) or "-" for p in phases)


def hold_plants(motion: Motion, phases: tuple[ContactPhase, ...] | None = None) -> Motion:
    """Hold the ball of each planted foot over its plant; legs bend for it, the root stays.

    Captured feet drift by some centimetres in a stance. The correction goes from that of one stance to that of the
    next during the swing, by a cubic step.
    """
    motion = ensure_contacts(motion)
    phases = contact_phases(motion) if phases is None else phases
    points, names = contact_positions(motion), contact_points(motion.skeleton).names
    held = motion
    for side in SIDES:
        if f"{side}_toe" not in names:
            continue
        ball = points[:, names.index(f"{side}_toe")]
        # What carries the ball over its plant while planted, the instant at which it leaves included
        shift, known = np.zeros_like(ball), np.zeros(len(ball), dtype=bool)
        for phase in phases:
            for plant in phase.plants:
                if plant.foot == side:
                    frames = slice(phase.start, phase.stop + 1)
                    shift[frames] = (plant.position - ball[frames]) * [1.0, 0.0, 1.0]
                    known[frames] = True
        shift = fill_gaps(shift, known)
        if shift.any():
            limb = Limb.from_name(motion.skeleton, f"{side}_leg")
            ankles = held.joint_positions()[:, limb.end]
            held = solve_two_bone(held, limb, ankles + shift, stretch=MAX_PLANT_LEG_EXTENSION).motion
    return held


def mark_planted(motion: Motion, planted: tuple[str, ...]) -> Motion:
    """The clip with heels and toes of the planted feet, and planted hands, marked in its contact track."""
    names = contact_points(motion.skeleton).names
    wanted = {f"{foot}_{part}" for foot in planted if foot in SIDES for part in ("heel", "toe")} | set(planted)
    active = np.tile([name in wanted for name in names], (motion.num_frames, 1))
    return replace(motion, contacts=Contacts(names, active))

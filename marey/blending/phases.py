"""Phases as pieces of motion that can be blended, and the weights and durations that keep gravity what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.contacts import ContactPhase, StancePlant, contact_phases, ensure_contacts
from marey.kinematics import Limb, solve_two_bone
from marey.motion import Contacts, Motion, contact_positions
from marey.numerics import fill_gaps
from marey.skeleton import contact_points

TIME_RULES: Final = ("sqrt", "linear")
MAX_EXTRAPOLATION: Final = 0.25  # [-] how far outside 0 to 1 a weight may lie when extrapolation is asked for
SUM_TOL: Final = 1e-9


def check_blend_weights(weights: ArrayLike, count: int, *, extrapolate: bool = False) -> FloatArray:
    """Weights ``(k,)`` that sum to one, within 0 to 1, or within -0.25 to 1.25 if ``extrapolate``.

    Outside 0 to 1 the theorems of [Safonova2006]_ ch. 5 are void: the centre of mass may leave the polygon and
    friction may be needed that the sources did not need ([Safonova2006]_ §6.1).

    Raises:
        InputError: another number of weights, another sum, or a weight outside.
    """
    w = frozen(weights, None, name="weights")
    if len(w) != count:
        raise InputError(f"{len(w)} weights for {count} motions", "Give one for each")
    if abs(float(w.sum()) - 1.0) > SUM_TOL:
        raise InputError(f"the weights sum to {float(w.sum()):.6g}", "They must sum to one")
    margin = MAX_EXTRAPOLATION if extrapolate else 0.0
    low, high = float(w.min()), float(w.max())
    if low < -margin - SUM_TOL or high > 1.0 + margin + SUM_TOL:
        fix = (
            f"Keep within {-margin:g} to {1.0 + margin:g}"
            if extrapolate
            else "Pass extrapolate=True to go a little beyond"
        )
        raise InputError(f"weights from {low:g} to {high:g} extrapolate", fix)
    return w


def blend_duration(durations: Sequence[float] | FloatArray, weights: ArrayLike, rule: str = "sqrt") -> float:
    r"""Duration [s] of a blend of phases that last ``durations``.

    .. math:: T^2 = \sum_i w_i T_i^2 \quad\text{("sqrt")}, \qquad T = \sum_i w_i T_i \quad\text{("linear")}

    [Safonova2006]_ (5.7). With "sqrt" a blend of flights falls at gravity; with "linear", the naive rule, gravity is
    multiplied by :math:`\sum_i w_i T_i^2 / T^2 \ge 1` (5.8).

    Raises:
        InputError: a duration is not positive, or an extrapolated blend would last no time.
        UnknownNameError: no such rule.
    """
    if rule not in TIME_RULES:
        raise UnknownNameError("time rule", rule, "blending", TIME_RULES)
    T, w = frozen(durations, None, name="durations"), frozen(weights, None, name="weights")
    if len(T) != len(w) or not len(T) or T.min() <= 0.0:
        raise InputError(f"durations {T.tolist()} with weights {w.tolist()}", "Give one positive duration per weight")
    square = float(w @ T**2) if rule == "sqrt" else float(w @ T)
    if square <= 0.0:
        raise InputError("the extrapolated phase would last no time", "Bring the weights nearer to 0 to 1")
    return float(np.sqrt(square)) if rule == "sqrt" else square


def blend_velocity(velocities: FloatArray, durations: FloatArray, weights: FloatArray, duration_s: float) -> FloatArray:
    r"""Velocity of a blend from those of its sources ``(k, ..., 3)``: :math:`V = \sum_i w_i V_i\,T_i/T`."""
    return np.tensordot(weights * durations / duration_s, velocities, axes=1)


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

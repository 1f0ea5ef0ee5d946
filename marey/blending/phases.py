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


def align_phases(motions: Sequence[Motion], *, clean: bool = True) -> tuple[tuple[MotionPhase, ...], ...]:
    """Stretches of clips with unlike contacts that correspond to one another: equally many of each clip.

    Phases with equal contacts are matched in order, so that the time matched less the time between is longest (local
    alignment, [Smith1981]_); what lies before and after is cut off. Unlike phases in between, such as the double
    support of a walk and the flight of a run, make one "mixed" phase with the feet that all have planted throughout.

    Raises:
        InputError: no two phases have equal contacts.
    """
    held = [hold_plants(motion) if clean else ensure_contacts(motion) for motion in motions]
    cuts = [cut_phases(motion, clean=False) for motion in held]
    # Ranges of phases of each clip, clip after clip; earlier clips are represented by the first
    groups: list[list[range]] = [[range(n, n + 1)] for n in range(len(cuts[0]))]
    for cut in cuts[1:]:
        rows = [_common_contacts([cuts[0][n] for n in group[0]]) for group in groups]
        lengths = [sum(cuts[0][n].duration_s for n in group[0]) for group in groups]
        # Local alignment of the two sequences of phases:
        # H_ij = max(0, H_i-1,j-1 + s_ij, H_i-1,j - T_i, H_i,j-1 - T_j)
        # with s the time matched, or less the longer of two unlike phases.
        second = [p.planted for p in cut]
        second_s = [p.duration_s for p in cut]
        best = np.zeros((len(rows) + 1, len(second) + 1))
        back = np.zeros(best.shape, dtype=np.int64)  # 0 stop, 1 both, 2 first, 3 second
        for i, (a, s) in enumerate(zip(rows, lengths, strict=True)):
            for j, (b, t) in enumerate(zip(second, second_s, strict=True)):
                step = min(s, t) if a == b else -max(s, t)
                ways = (0.0, best[i, j] + step, best[i, j + 1] - s, best[i + 1, j] - t)
                back[i + 1, j + 1] = int(np.argmax(ways))
                best[i + 1, j + 1] = ways[back[i + 1, j + 1]]
        i, j = (int(n) for n in np.unravel_index(int(np.argmax(best)), best.shape))
        # Backwards; a phase without a partner belongs to the pair before it
        pairs: list[tuple[range, range]] = []
        i_stop, j_stop = i, j
        while back[i, j]:
            way = back[i, j]
            i, j = i - (way != 3), j - (way != 2)
            if way == 1:
                pairs.append((range(i, i_stop), range(j, j_stop)))
                i_stop, j_stop = i, j
        pairs = pairs[::-1]
        groups = [
            [*(range(groups[own.start][n].start, groups[own.stop - 1][n].stop) for n in range(len(groups[0]))), other]
            for own, other in pairs
        ]
    if not groups:
        strings = " and ".join(phase_string(cut) for cut in cuts)
        raise InputError(f"the clips have no contacts in common: {strings}", "Choose clips that stand on the same foot")
    aligned: list[tuple[MotionPhase, ...]] = []
    for clip, cut, column in zip(held, cuts, range(len(cuts)), strict=True):
        own: list[MotionPhase] = []
        for group in groups:
            all_phases = [one[n] for one, part in zip(cuts, group, strict=True) for n in part]
            phases = [cut[n] for n in group[column]]
            planted = _common_contacts(all_phases)
            if all(phase.planted == planted for phase in all_phases) and len(phases) == 1:
                own.append(phases[0])
                continue
            plants = tuple(next(p for p in phases[0].plants if p.foot == name) for name in planted if name in SIDES)
            stop = phases[-1].start + phases[-1].motion.num_frames
            own.append(MotionPhase(clip[phases[0].start : stop], "mixed", planted, plants, phases[0].start))
        aligned.append(tuple(own))
    return tuple(aligned)


def _common_contacts(phases: Sequence[MotionPhase]) -> tuple[str, ...]:
    return tuple(name for name in phases[0].planted if all(name in phase.planted for phase in phases))


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

"""Blending of phases, and of whole clips phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, Result, UnknownNameError
from marey.blending.phases import (
    MotionPhase,
    align_phases,
    blend_duration,
    check_blend_weights,
    cut_phases,
    mark_planted,
    phase_string,
)
from marey.blending.pose_blending import (
    ROOT_SCHEMES,
    STANCE_SCHEMES,
    BlendedPoses,
    WeightedSources,
    blend_by_com,
    blend_by_contact,
    blend_by_foot,
    blend_by_root,
)
from marey.blending.sources import UP, BlendSource, Placement
from marey.blending.validity import BlendReport, BoundaryCheck, PhaseCheck
from marey.contacts import StancePlant
from marey.dynamics import Body
from marey.lie import SO3
from marey.motion import Contacts, Motion, transform_motion

ROTATION_MEANS: Final = ("slerp", "log")


@dataclass(frozen=True, slots=True)
class BlendSettings:
    """Rules of a blend; the defaults preserve physics, the others are baselines.

    ``time``: "sqrt" or "linear". ``root``: "com" blends the centre of mass, "root" the root, everywhere (naive);
    "auto" is "com". ``stance``: "contact" keeps planted feet, "foot_root" places the root at one planted foot.
    ``rotations``: "slerp", or "log", linear.
    """

    time: str = "sqrt"
    root: str = "auto"
    stance: str = "contact"
    rotations: str = "slerp"
    extrapolate: bool = False

    def __post_init__(self) -> None:
        for kind, name, known in (
            ("root", self.root, ROOT_SCHEMES),
            ("stance", self.stance, STANCE_SCHEMES),
            ("rotations", self.rotations, ROTATION_MEANS),
        ):
            if name not in known:
                raise UnknownNameError(kind, name, "blending", known)


@dataclass(frozen=True, slots=True, eq=False)
class BlendedPhase:
    """One phase made of several."""

    motion: Motion
    kind: str
    planted: tuple[str, ...]
    plants: tuple[StancePlant, ...]
    duration_s: float
    check: PhaseCheck


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BlendResult(Result):
    """A clip made of several, and what physics says about it."""

    motion: Motion
    report: BlendReport


def blend_phase(
    phases: Sequence[MotionPhase],
    weights: ArrayLike,
    *,
    rule: BlendSettings | None = None,
    align: bool = True,
    num_frames: int | None = None,
    body: Body | None = None,
) -> BlendedPhase:
    """Blend phases with the same feet planted, at constant weights, each scaled uniformly in time.

    Args:
        phases: two or more, of one skeleton.
        weights: ``(k,)``, sum one.
        rule: how; by default in the way that keeps gravity, planted feet and friction ([Safonova2006]_ ch. 5).
        align: first put the anchor foot of all (or for flights the root at lift-off) where that of the first one is.
        num_frames: of the result, both ends included; by default as many as the longest source has.
        body: of the first phase's skeleton by default.

    Raises:
        InputError: other feet are planted, other joints, weights that do not sum to one or lie outside 0 to 1.
    """
    rule = BlendSettings() if rule is None else rule
    w = check_blend_weights(weights, len(phases), extrapolate=rule.extrapolate)
    _check_same_contacts(phases)
    body = Body.from_motion(phases[0].motion) if body is None else body
    placed = [align_phase(phase, phases[0]) for phase in phases] if align else list(phases)
    duration = blend_duration([p.duration_s for p in placed], w, rule.time)
    count = max(p.motion.num_frames for p in placed) if num_frames is None else max(int(num_frames), 3)
    poses = evaluate_blend(placed, w, np.linspace(0.0, 1.0, count), rule, body)
    motion = Motion(phases[0].motion.skeleton, (count - 1) / duration, poses.roots, SO3(poses.wxyz), name="blend")
    first = placed[0]
    check = PhaseCheck.from_residuals(first.kind, duration, poses.com_off_m)
    plants = blend_plants(placed, w)
    return BlendedPhase(mark_planted(motion, first.planted), first.kind, first.planted, plants, duration, check)


def evaluate_blend(
    phases: Sequence[MotionPhase], weights: FloatArray, shares: FloatArray, rule: BlendSettings, body: Body
) -> BlendedPoses:
    """Blended poses at ``shares`` (N,) of the phase; the phases stand in one frame already."""
    feet = phases[0].feet
    sources = [BlendSource.from_motion(body.motion(p.motion), body, feet) for p in phases]
    return blend_sources(sources, weights, shares, feet, rule=rule, body=body)


def blend_sources(
    sources: Sequence[BlendSource],
    weights: FloatArray,
    shares: FloatArray,
    feet: Sequence[str],
    *,
    rule: BlendSettings,
    body: Body,
) -> BlendedPoses:
    """Blended poses at ``shares`` (N,) of phases gathered before (:meth:`Source.of`), which stand in one frame."""
    mixture = WeightedSources(body, [source.at(shares) for source in sources], weights, rule.rotations)
    if rule.root == "root":
        return blend_by_foot(mixture, feet[0]) if feet and rule.stance == "foot_root" else blend_by_root(mixture)
    if not feet:
        return blend_by_com(mixture)
    return blend_by_contact(mixture, feet) if rule.stance == "contact" else blend_by_foot(mixture, feet[0])


def blend(
    motions: Sequence[Motion],
    weights: ArrayLike,
    *,
    time: str = "sqrt",
    root: str = "auto",
    stance: str = "contact",
    rotations: str = "slerp",
    realign: bool = True,
    extrapolate: bool = False,
    clean: bool = True,
    align: bool = False,
    rate_hz: float | None = None,
    body: Body | None = None,
) -> BlendResult:
    r"""Blend whole clips with the same sequence of contacts, phase by phase.

    All stand with their first anchor foot in one place. After a flight in which they turned by different amounts
    each source is turned about its centre of mass to the blended heading, else feet would slide ([Safonova2006]_
    §5.4); the jump of velocity that this leaves is in the report.

    Args:
        motions: two or more clips of one skeleton.
        weights: ``(k,)``, sum one.
        time: "sqrt" (:math:`T^2 = \sum w_i T_i^2`) or "linear".
        root: "auto" or "com" blends the centre of mass, "root" the root (the naive rule).
        stance: "contact", or "foot_root".
        rotations: "slerp" or "log".
        realign: turn the sources after turning flights.
        extrapolate: allow weights from -0.25 to 1.25.
        clean: hold planted feet still in the sources first.
        align: clips may have unlike contacts; what corresponds is blended, see :func:`align_phases`.
        rate_hz: of the result; that of the first motion by default.
        body: of the first motion by default.

    Raises:
        InputError: the clips have other joints or another sequence of contacts.
    """
    rule = BlendSettings(time, root, stance, rotations, extrapolate)
    w = check_blend_weights(weights, len(motions), extrapolate=extrapolate)
    clips = align_phases(motions, clean=clean) if align else [cut_phases(motion, clean=clean) for motion in motions]
    strings = [phase_string(clip) for clip in clips]
    if len(set(strings)) > 1:
        fix = "Cut the clips to the same phases, or pass align=True"
        raise InputError(f"the sequences of contacts differ: {' and '.join(strings)}", fix)
    if not clips or not clips[0]:
        raise InputError("no phase is long enough to be blended", "Give longer clips")
    body = Body.from_motion(motions[0]) if body is None else body
    rate = motions[0].rate_hz if rate_hz is None else rate_hz
    # All sources stand where the first one begins; phases follow one another
    joiner = _PhaseSequence(body, w, rule, rate, realign=realign)
    places = [compute_placement(clip[0], clips[0][0]) for clip in clips]
    for number in range(len(clips[0])):
        _check_same_contacts([clip[number] for clip in clips])
        places = joiner.add([clip[number] for clip in clips], places)
    return joiner.result(motions[0])


class _PhaseSequence:
    """Blends phase after phase on one clock."""

    def __init__(self, body: Body, weights: FloatArray, rule: BlendSettings, rate_hz: float, *, realign: bool) -> None:
        self._body, self._weights, self._rule, self._realign = body, weights, rule, realign
        self._rate_hz, self._begin_s, self._frames = rate_hz, 0.0, 0
        self._motions: list[Motion] = []
        self._checks: list[PhaseCheck] = []
        self._boundaries: list[BoundaryCheck] = []
        self._before: tuple[list[MotionPhase], float] | None = None

    def add(self, phases: list[MotionPhase], places: list[Placement]) -> list[Placement]:
        """Blend one phase of each source, carried to ``places``; returns the places of the next."""
        placed = [place_phase(phase, place) for phase, place in zip(phases, places, strict=True)]
        duration = blend_duration([p.duration_s for p in placed], self._weights, self._rule.time)
        if self._before is not None:
            self._boundaries.append(BoundaryCheck.between(*self._before, placed, duration, self._weights, self._body))
        # Frames of the common clock that fall into the phase
        last = int(np.floor((self._begin_s + duration) * self._rate_hz - 1e-9))
        times = np.arange(self._frames, last + 1) / self._rate_hz
        self._frames = last + 1
        shares = np.clip((times - self._begin_s) / duration, 0.0, 1.0)
        if len(shares):
            poses = evaluate_blend(placed, self._weights, shares, self._rule, self._body)
            motion = Motion(phases[0].motion.skeleton, self._rate_hz, poses.roots, SO3(poses.wxyz))
            self._motions.append(mark_planted(motion, placed[0].planted))
            self._checks.append(PhaseCheck.from_residuals(placed[0].kind, duration, poses.com_off_m))
        self._begin_s += duration
        self._before = placed, duration
        # After a flight each source is turned to the blended heading
        is_turning = self._realign and placed[0].kind == "flight"
        if is_turning:
            # Places that turn each source, about its centre of mass at landing, to the blended heading
            motions = [phase.motion for phase in placed]
            yaws = [np.unwrap(motion.rotations[:, 0].twist_angle(UP)) for motion in motions]
            spins = np.array([float(np.ptp(yaw[[0, -1]]) * np.sign(yaw[-1] - yaw[0])) for yaw in yaws])
            # Headings at lift-off within half a turn of the first
            starts = [float(motion.rotations[0, 0].twist_angle(UP)) for motion in motions]
            whole = [start - 2.0 * np.pi * np.round((start - starts[0]) / (2.0 * np.pi)) for start in starts]
            landing = np.array(whole) + spins
            goal = float(self._weights @ landing)
            turned: list[Placement] = []
            for motion, (first, here, there), yaw in zip(motions, places, landing, strict=True):
                pivot = self._body.centre_of_mass(self._body.motion(motion[-1:]))[0] * [1.0, 0.0, 1.0]
                turn = goal - float(yaw)
                turned.append((first + turn, here, SO3.exp(turn * UP) @ (there - pivot) + pivot))
            return turned
        return places

    def result(self, like: Motion) -> BlendResult:
        """The whole clip."""
        contacts = [m.contacts for m in self._motions]
        track = Contacts(contacts[0].names, np.concatenate([c.active for c in contacts if c is not None]))  # type: ignore[union-attr]
        motion = Motion(
            like.skeleton,
            self._rate_hz,
            np.concatenate([m.root_positions for m in self._motions]),
            SO3.concatenate([m.rotations for m in self._motions]),
            contacts=track,
            name="blend",
        )
        return BlendResult(motion, BlendReport(tuple(self._checks), tuple(self._boundaries)))


def place_phase(phase: MotionPhase, place: Placement) -> MotionPhase:
    """A phase and its plants, turned and carried."""
    turn, here, there = place
    R = SO3.exp(turn * UP)
    plants = tuple(
        replace(plant, position=R @ (plant.position - here) + there, yaw_rad=plant.yaw_rad + turn)
        for plant in phase.plants
    )
    return replace(phase, motion=transform_motion(phase.motion, turn, here, there), plants=plants)


def compute_placement(phase: MotionPhase, like: MotionPhase) -> Placement:
    """Transform between the anchors of two phases: their first planted foot, else the root at the start."""
    (turn, here), (goal, there) = _phase_anchor(phase), _phase_anchor(like)
    return (goal - turn + np.pi) % (2.0 * np.pi) - np.pi, here, there


def align_phase(phase: MotionPhase, like: MotionPhase) -> MotionPhase:
    """A phase with its anchor where that of another is."""
    return place_phase(phase, compute_placement(phase, like))


def _phase_anchor(phase: MotionPhase) -> tuple[float, FloatArray]:
    if phase.plants:
        return phase.plants[0].yaw_rad, phase.plants[0].position * [1.0, 0.0, 1.0]
    root = phase.motion.root_positions[0] * [1.0, 0.0, 1.0]
    return float(phase.motion.rotations[0, 0].twist_angle(UP)), root


def blend_plants(phases: Sequence[MotionPhase], weights: FloatArray) -> tuple[StancePlant, ...]:
    """Positions of the planted feet of a blend."""
    plants: list[StancePlant] = []
    for own in zip(*(phase.plants for phase in phases), strict=True):
        position = np.tensordot(weights, np.stack([p.position for p in own]), axes=1)
        # Headings relative to the first, by the shorter way round
        turns = np.array([p.yaw_rad - own[0].yaw_rad for p in own])
        turns = (turns + np.pi) % (2.0 * np.pi) - np.pi
        spread = float(weights @ [p.spread_m for p in own])
        plants.append(StancePlant(own[0].foot, position, own[0].yaw_rad + float(weights @ turns), spread))
    return tuple(plants)


def _check_same_contacts(phases: Sequence[MotionPhase]) -> None:
    first = phases[0]
    for phase in phases[1:]:
        if phase.planted != first.planted:
            raise InputError(
                f"a phase with {first.planted or 'no feet'} planted and one with {phase.planted or 'none'}",
                "Blend phases with the same feet planted, in the same order",
            )
        if phase.motion.skeleton.names != first.motion.skeleton.names:
            raise InputError("the phases have other joints", "Retarget one motion to the skeleton of the other")

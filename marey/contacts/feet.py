"""Feet of a whole clip on the ground: level while they stand, still where they touch, above the floor elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.contacts.body import UP, BodyPosture
from marey.contacts.easing import pin_corrections, spread_cone
from marey.contacts.floor import FloorPlane, smooth_upper_envelope
from marey.contacts.plants import (
    FLAT,
    FREE,
    HEEL,
    TOES,
    FootPoints,
    HoldSettings,
    PlantRun,
    place_runs,
    split_runs,
)
from marey.lie import SO3
from marey.motion import find_runs
from marey.numerics import smoothstep
from marey.skeleton import t_pose

LEFT: Final = np.array([1.0, 0.0, 0.0])
MAX_TOE_SINE: Final = 0.9  # [-] toes stand no steeper than 64 degrees
MIN_FLAT_FRAMES: Final = 4  # fewer say nothing about how a sole is tilted
MAX_TILT_RAD: Final = np.radians(20.0)  # [rad] more is no error of a calibration
PITCH_RAD_PER_S: Final = np.radians(300.0)  # [rad/s] how fast a foot is levelled where its contact asks for it
MAX_TWIST_RAD: Final = np.radians(20.0)  # [rad] a foot turns this far over its toes before they turn as well
LEAST_LEVEL: Final = 0.5  # [-] level part of a foot: steeper than 60 degrees it has no heading
FADE_RESTS: Final = 2.0  # [-] of that time: after it a swing is no higher for how its foot left or lands
LIFT_S: Final = 0.06  # [s] how early a swinging foot is lifted over the ground


@dataclass(frozen=True, slots=True, eq=False)
class FootGeometry:
    """One foot of the target: its joints, its sole, and how it stands in the calibration pose."""

    ankle: int
    toes: int | None  # joint of the toes
    heel: FloatArray  # (3,) [m] from the ankle, in its frame
    hinge: FloatArray  # (3,) [m] joint of the toes from the ankle, in the ankle's frame; zero if there is none
    ball: FloatArray  # (3,) [m] from that joint, in its frame
    toe_end: FloatArray  # (3,) [m] likewise
    R_flat_ankle: SO3  # the ankle in the calibration pose, where the sole is level
    R_flat_toes: SO3
    heading_rad: float  # of heel to ball in that pose: 0 is +Z, positive towards +X

    @classmethod
    def measure(cls, target: BodyPosture, side: str) -> FootGeometry:
        """Measure a foot in the calibration pose."""
        pose, sole = t_pose(target.skeleton, target.roles), target.sole
        positions, frames = pose.joint_positions(), pose.joint_rotations()
        at = sole.positions(positions, frames)
        heel, ball, toe = (sole.index(f"{side}_{part}") for part in ("heel", "ball", "toe_end"))
        ankle, toes = int(sole.joints[heel]), int(sole.joints[ball])
        along = at[ball] - at[heel]
        return cls(
            ankle,
            None if toes == ankle else toes,
            sole.offsets[heel],
            frames[ankle].inverse() @ (positions[toes] - positions[ankle]),
            sole.offsets[ball],
            sole.offsets[toe],
            frames[ankle],
            frames[toes],
            float(np.arctan2(along[0], along[2])),
        )

    def points(self, R_world_ankle: SO3, R_world_toes: SO3) -> FootPoints:
        """Heel, ball and toe end from the ankle, frame by frame."""
        hinge = R_world_ankle @ self.hinge
        return FootPoints(
            R_world_ankle @ self.heel, hinge, hinge + R_world_toes @ self.ball, hinge + R_world_toes @ self.toe_end
        )


@dataclass(frozen=True, slots=True, eq=False)
class FootPath:
    """One foot in time."""

    ankle: FloatArray  # (F, 3) [m] in world
    R_world_ankle: SO3  # batch (F,)
    R_world_toes: SO3  # batch (F,); the ankle's where there is no toe joint

    def yaws(self, shape: FootGeometry) -> FloatArray:
        """Heading ``(F,)`` [rad] against that of the calibration pose, without jumps."""
        flat = np.array([np.sin(shape.heading_rad), 0.0, np.cos(shape.heading_rad)])
        along = (self.R_world_ankle @ shape.R_flat_ankle.inverse()) @ flat
        yaws = np.unwrap(np.arctan2(along[:, 0], along[:, 2]) - shape.heading_rad)
        # A foot that points up or down has no heading of its own
        known = np.flatnonzero(np.hypot(along[:, 0], along[:, 2]) > LEAST_LEVEL)
        return np.interp(np.arange(len(yaws)), known, yaws[known]) if len(known) else yaws


PlantEdit = Callable[[str, FloatArray, float], tuple[FloatArray, float]]
"""``edit(foot, ankle, heading_rad)``: ``"left"`` or ``"right"``, where its ankle stands ``(3,)`` [m] and where the foot
points (0 is +Z, positive towards +X) in one contact; returns both as they are wanted."""


def edit_path(
    path: FootPath, shape: FootGeometry, modes: IntArray, foot: str, edit: PlantEdit, rate_hz: float, ease_s: float
) -> FootPath:
    """Move and turn a foot as an edit of its contacts asks, eased over the swings ([Glardon2005]_ §III.2.5).

    Raises:
        InputError: the edit gave no point or no angle.
    """
    is_down, wanted = modes != FREE, np.zeros((len(modes), 4))
    yaws = path.yaws(shape) + shape.heading_rad
    for start, stop in find_runs(is_down, 0):
        ankle, heading = np.median(path.ankle[start:stop], axis=0), float(np.median(yaws[start:stop]))
        place, turned = edit(foot, ankle.copy(), heading)
        wanted[start:stop] = np.append(np.asarray(place, dtype=np.float64) - ankle, float(turned) - heading)
    if not np.isfinite(wanted).all():
        raise InputError("an edit of a foot plant gave no point", "Return three finite numbers in metres, and an angle")
    change = pin_corrections(wanted, is_down, rate_hz, ease_s)
    R_turn = SO3.exp(change[:, 3:] * UP)
    return FootPath(path.ankle + change[:, :3], R_turn @ path.R_world_ankle, R_turn @ path.R_world_toes)


def calibrate_foot(path: FootPath, shape: FootGeometry, modes: IntArray) -> FootPath:
    """Take out the constant tilt of a sole against the ground that it stands flat on.

    The calibration pose of a skeleton says when a sole is level, the ground says it again; captures differ by up to
    15 degrees. What is left after the median over all flat frames stays as it was.
    """
    is_flat = modes == FLAT
    if is_flat.sum() < MIN_FLAT_FRAMES:
        return path
    R_yaw = SO3.exp(path.yaws(shape)[:, None] * UP)[is_flat]
    ankle = (path.R_world_ankle[is_flat].inverse() @ R_yaw @ shape.R_flat_ankle).log()
    toes = (path.R_world_toes[is_flat].inverse() @ R_yaw @ shape.R_flat_toes).log()
    return replace(
        path,
        R_world_ankle=path.R_world_ankle @ SO3.exp(_limit_angle(np.median(ankle, axis=0))),
        R_world_toes=path.R_world_toes @ SO3.exp(_limit_angle(np.median(toes, axis=0))),
    )


def _limit_angle(vector: FloatArray) -> FloatArray:
    """Rotation vector of at most ``MAX_TILT_RAD``."""
    return vector * min(1.0, MAX_TILT_RAD / max(float(np.linalg.norm(vector)), 1e-12))


class ContactCut(NamedTuple):
    """The contacts of a foot cut into plants: what does not change with the height of the body."""

    modes: IntArray  # (F,) what it stands on
    plants: list[list[PlantRun]]
    held: IntArray  # (F,) modes, without the moments in which it goes on from one place to the next
    yaws: FloatArray  # (F,) [rad] headings, constant on the flat foot

    @classmethod
    def from_path(
        cls, path: FootPath, shape: FootGeometry, modes: IntArray, rate_hz: float, settings: HoldSettings, size: float
    ) -> ContactCut:
        """Cut the contacts of a foot; arguments as those of :func:`plant_foot`."""
        yaws = path.yaws(shape)
        natural = shape.points(path.R_world_ankle, path.R_world_toes)
        tracks = np.stack([path.ankle + natural.stands_on(mode) for mode in (FREE, HEEL, FLAT, TOES)])
        # A flat foot may not turn far; on heel or toes it turns about them. Heights are those of the ground
        tracks[..., 1] = 0.0
        tracks[FLAT, :, 1] = settings.yaw_m * size * yaws
        plants = split_runs(modes, tracks, (settings.drift_m * size, settings.roll_drift_m * size))
        # A foot that goes on to another place without leaving the ground is free for a moment
        held = modes.copy()
        step = round(0.5 * settings.step_s * rate_hz)
        for before, after in pairwise(plants):
            first = after[0].start
            if before[-1].stop == first:
                held[max(first - step, before[0].start + 1) : min(first + step, after[-1].stop - 1)] = FREE
        # On the flat foot its heading is constant, and goes over from one place to the next
        flat_yaws = yaws.copy()
        for run in (run for plant in plants for run in plant if run.mode == FLAT):
            flat_yaws[run.start : run.stop] = np.median(yaws[run.start : run.stop])
        goes_on, known = (held == FREE) & (modes != FREE), np.flatnonzero(held != FREE)
        if goes_on.any() and len(known):
            flat_yaws[goes_on] = np.interp(np.flatnonzero(goes_on), known, flat_yaws[known])
        return cls(modes, plants, held, flat_yaws)


@dataclass(frozen=True, slots=True, eq=False)
class PlantPlan:
    """Where a foot shall be, before it is eased into and out of its plants."""

    plants: list[list[PlantRun]]
    places: list[list[FloatArray]]  # (3,) [m] of each of their runs
    ground: FloatArray  # (F,) [m] height of the ground under the plant
    held: IntArray  # (F,) modes, without the moments in which a foot slides to its place or from one to the next
    modes: IntArray  # (F,) modes, without those in which a foot that lands or leaves slides

    def find_stays(self, run: PlantRun) -> list[tuple[int, int]]:
        """Return the frames of a run, first and last (not included), in which its point stays."""
        stays = self.held[run.start : run.stop] != FREE
        return [(run.start + start, run.start + stop) for start, stop in find_runs(stays, 0)]

    @classmethod
    def build(
        cls,
        path: FootPath,
        shape: FootGeometry,
        cut: ContactCut,
        floor: FloorPlane,
        rate_hz: float,
        settings: HoldSettings,
        size: float,
    ) -> tuple[PlantPlan, FootPath, FloatArray]:
        """Turn the foot, find the places; arguments as those of :func:`plant_foot`.

        Returns:
            The plan, the path of the foot, turned as it will be, and its ankle ``(F, 3)`` [m] at its plants.
        """
        modes, plants, held = cut.modes, cut.plants, cut.held
        path = _level_foot(path, shape, modes, plants, cut.yaws, rate_hz, settings)
        path = _clear_ends(path, shape, modes, rate_hz, settings, size)
        # Places of each plant, and the ankle that they ask for
        points = shape.points(path.R_world_ankle, path.R_world_toes)
        pin = points.at(modes)
        goals, ground, firm = path.ankle.copy(), floor.under(path.ankle), modes.copy()
        placed: list[list[FloatArray]] = []
        for plant in plants:
            span = slice(plant[0].start, plant[-1].stop)
            at = path.ankle[span] + pin[span]
            under = float(floor.under(np.median(at, axis=0)))
            level = float(np.quantile(at[:, 1], 0.25))
            # Grounds of captures are uneven by millimetres, for which a straight knee would bend by ten degrees
            flat = at[modes[span] == FLAT, 1]
            most = settings.uneven_m * size
            uneven = float(np.clip(np.median(flat) - under, -0.5 * most, most)) if len(flat) else 0.0
            # A foot a little below the floor has sunk into it; one far below it stands on lower ground
            is_on_floor = -settings.pit_m * size < level - under < settings.level_m * size
            ground[span] = under + uneven if is_on_floor else level
            places = place_runs(plant, points, path.ankle, float(ground[plant[0].start]))
            placed.append(places)
            for run, place in zip(plant, places, strict=True):
                goals[run.start : run.stop] = place - pin[run.start : run.stop]
            # Detectors give a fast foot the benefit of the doubt: one that lands or leaves at 3 m/s is called down
            # while it is 7 cm away. It slides on the ground then: to pin it would fold the leg in two frames
            shift = goals[span] - path.ankle[span]
            away = np.linalg.norm(shift - np.median(shift, axis=0), axis=-1)
            speed = np.linalg.norm(np.gradient(at, axis=0), axis=-1) * rate_hz if len(at) > 1 else np.zeros(1)
            near = np.flatnonzero((away < settings.hold_m * size) | (speed < settings.land_mps))
            most = int(settings.trim_share * (span.stop - span.start))
            if len(near) and (span.start == 0 or modes[span.start - 1] == FREE):
                firm[span.start : span.start + min(int(near[0]), most)] = FREE
            if len(near) and (span.stop == len(modes) or modes[span.stop] == FREE):
                firm[max(span.start + int(near[-1]) + 1, span.stop - most) : span.stop] = FREE
        return cls(plants, placed, ground, np.where(firm == FREE, FREE, held), firm), path, goals


def plant_foot(
    path: FootPath,
    shape: FootGeometry,
    cut: ContactCut,
    floor: FloorPlane,
    rate_hz: float,
    settings: HoldSettings,
    size: float,
) -> tuple[FootPath, PlantPlan]:
    """Put a foot on the floor of its clip; returns its path, and where it stands.

    Args:
        path: the foot as the posture of the source gives it.
        shape: of the foot.
        cut: its contacts.
        floor: under all plants but those on steps.
        rate_hz: frames per second.
        settings: how feet are planted.
        size: length of the legs over that for which the settings are stated.
    """
    modes = cut.modes
    if not (modes != FREE).any():
        ground = floor.under(path.ankle)
        lifted = _lift_above_floor(path, shape, (modes, modes), ground, rate_hz, settings, size)
        return lifted, PlantPlan([], [], ground, modes, modes)
    plan, path, goals = PlantPlan.build(path, shape, cut, floor, rate_hz, settings, size)
    is_held = plan.held != FREE
    contacts = modes if settings.drag else plan.held
    # A foot that is not at its place stays on the ground, but for one that goes on to ground of another height
    slides = (contacts != FREE) & ~is_held
    for start, stop in find_runs(slides, 0):
        slides[start:stop] = np.ptp(plan.ground[start:stop]) == 0.0
    asked = goals - path.ankle
    shift = pin_corrections(asked, is_held, rate_hz, settings.ease_s, strike=not settings.soft_landing)
    # A swing keeps its height over the ground: the ground of the clip rises and sinks slowly between two plants, and
    # what else a plant asks for is met within a few frames
    is_low = is_held | slides
    rests = _find_rests(asked[:, 1], is_low, max(1, round(settings.rest_s * rate_hz)), settings.rest_m * size)
    shift[:, 1] = (
        rests + pin_corrections((asked[:, 1] - rests)[:, None], is_low, rate_hz, settings.drop_s, strike=True)[:, 0]
    )
    path = replace(path, ankle=path.ankle + shift)
    ground = _fill_ground(plan.ground, floor.under(path.ankle), is_held, settings.level_m * size)
    lifted = _lift_above_floor(path, shape, (plan.held, contacts), ground, rate_hz, settings, size)
    return lifted, plan


def _find_rests(asked: FloatArray, is_low: BoolArray, frames: int, rise_m: float) -> FloatArray:
    """Rise ``(F,)`` [m] that brings a foot to the ground, as it rests before and after each swing, smooth in between.

    A foot rests where it is lowest within so many frames of its contact: there it is raised most, or lowered least. A
    contact begins and ends while the foot is at most ``rise_m`` above that.
    """
    rests, contacts = asked.copy(), find_runs(is_low, 0)
    ended, begun = ({contact[k]: contact for contact in contacts} for k in (1, 0))
    for start, stop in find_runs(~is_low, 0):
        inside = np.arange(start, stop)
        ends, more = list[float](), np.zeros(stop - start)
        for contact in (ended.get(start), begun.get(stop)):
            if contact is not None:
                first, last = contact
                side = asked[first:last][-frames:] if last == start else asked[first:last][:frames]
                # No more than it mostly is in that contact: toes that a capture pushes into the floor as they leave
                # do not lift the whole swing
                low = min(float(side[-1 if last == start else 0]), float(np.median(asked[first:last])))
                ends.append(low)
                since = inside - start + 1 if last == start else stop - inside
                more += min(float(side.max()) - low, rise_m) * (1.0 - smoothstep(since / (FADE_RESTS * frames)))
        share = smoothstep((inside - start + 1) / (stop - start + 1))
        rests[start:stop] = ends[0] + share * (ends[-1] - ends[0]) + more if ends else 0.0
    return rests


def _level_foot(
    path: FootPath,
    shape: FootGeometry,
    modes: IntArray,
    plants: list[list[PlantRun]],
    flat_yaws: FloatArray,
    rate_hz: float,
    settings: HoldSettings,
) -> FootPath:
    """Turn a foot so that its sole is level while it stands flat, and its toes while it stands on its ball."""
    # The sole: level where heel and ball are down
    R_yaw = SO3.exp(flat_yaws[:, None] * UP)
    error = (R_yaw @ shape.R_flat_ankle @ path.R_world_ankle.inverse()).log()
    ankle = SO3.exp(pin_corrections(error, modes == FLAT, rate_hz, settings.ease_s, strike=True)) @ path.R_world_ankle
    # No lower in front than the heel it stands on, no higher than the toes: where it would be, it is level
    points = shape.points(ankle, ankle if shape.toes is None else R_yaw @ shape.R_flat_toes)
    arm = (points.ball if shape.toes is None else points.hinge) - points.heel
    pitch = _pitch_to_height(arm, arm[:, 1] - (points.ball - points.heel)[:, 1])
    step = PITCH_RAD_PER_S / rate_hz
    up = spread_cone(np.where(modes == HEEL, np.maximum(pitch, 0.0), 0.0), step)
    down = spread_cone(np.where(modes == TOES, np.maximum(-pitch, 0.0), 0.0), step)
    turn = np.where(modes == FLAT, 0.0, up - down)
    turn = np.where(modes == HEEL, np.maximum(turn, pitch), np.where(modes == TOES, np.minimum(turn, pitch), turn))
    ankle = _raise_front(ankle, arm, turn)
    turned = replace(path, R_world_ankle=ankle)
    if shape.toes is None:
        return replace(turned, R_world_toes=ankle)
    # The toes in contact: flat under a ball that is down, on their end under one that has risen
    rises = _ball_rises(path, shape, plants, settings)
    length = max(float(np.linalg.norm(shape.toe_end - shape.ball)), 1e-6)
    tip = np.arcsin(np.clip(rises / length, 0.0, MAX_TOE_SINE))[:, None]
    yaw = _steady_yaws(turned.yaws(shape), plants, step)[:, None] * UP
    R_foot = SO3.exp(yaw + shape.heading_rad * UP)
    toes = R_foot @ SO3.exp(tip * LEFT) @ R_foot.inverse() @ SO3.exp(yaw) @ shape.R_flat_toes
    error = (toes @ path.R_world_toes.inverse()).log()
    is_known = (modes == FLAT) | (modes == TOES)
    toes = SO3.exp(pin_corrections(error, is_known, rate_hz, settings.ease_s, strike=True)) @ path.R_world_toes
    # Their end is never below the heel that the foot stands on
    points = shape.points(ankle, toes)
    arm = points.toe - points.hinge
    pitch = _pitch_to_height(arm, (points.heel - points.hinge)[:, 1])
    up = spread_cone(np.where(modes == HEEL, np.maximum(pitch, 0.0), 0.0), step)
    toes = _raise_front(toes, arm, np.where(is_known, 0.0, up))
    return replace(turned, R_world_toes=toes)


def _steady_yaws(yaws: FloatArray, plants: list[list[PlantRun]], step: float) -> FloatArray:
    """Headings ``(F,)`` [rad] of toes, which stay in contact while the foot turns over them.

    Up to ``MAX_TWIST_RAD``, and by at most ``step`` [rad] a frame: then they turn with it.
    """
    steady = yaws.copy()
    for plant in plants:
        for run in (run for run in plant if run.mode == TOES):
            frames, twist = range(run.start, run.stop), 0.0
            # From where the heel was down: before the toes stand alone, or after
            for before, t in pairwise(frames if run is not plant[0] else frames[::-1]):
                turned = min(max(yaws[before] - yaws[t], -step), step)
                twist = min(max(twist + turned, -MAX_TWIST_RAD), MAX_TWIST_RAD)
                steady[t] += twist
    return steady


def _clear_ends(
    path: FootPath, shape: FootGeometry, modes: IntArray, rate_hz: float, settings: HoldSettings, size: float
) -> FootPath:
    """Raise the heel of a foot that turns on its toes, and the front of one on its heel, where they would scrape."""
    points = shape.points(path.R_world_ankle, path.R_world_toes)
    joint = points.ball if shape.toes is None else points.hinge
    arm = joint - points.heel
    step, turn = PITCH_RAD_PER_S / rate_hz, np.zeros(len(modes))
    for mode, pivot, ends in (
        (TOES, points.toe, (points.heel,)),
        (HEEL, points.heel, (points.ball, points.toe)),
    ):
        lack = np.zeros(len(modes))
        for end in ends:
            # Height over the ground that the foot turns on, and speed against the point that stays there
            wanted = settings.clearance_m * size * _speed_share(end - pivot, rate_hz, settings)
            lack = np.maximum(lack, wanted - (end - pivot)[:, 1])
        needed = np.where(modes == mode, lack / np.maximum(np.linalg.norm(arm, axis=-1), 1e-6), 0.0)
        # Before and after it the foot pitches as fast as feet do; flat, or on its other end, it does not
        room = -spread_cone(np.where((modes == FREE) | (modes == mode), -np.pi, 0.0), step)
        turn += (1.0 if mode == HEEL else -1.0) * np.minimum(spread_cone(needed, step), room)
    if not turn.any():
        return path
    ankle = _raise_front(path.R_world_ankle, arm, turn)
    # Flat toes stay flat; those of a foot on its heel go up with it
    toes = ankle if shape.toes is None else _raise_front(path.R_world_toes, arm, np.maximum(turn, 0.0))
    return replace(path, R_world_ankle=ankle, R_world_toes=toes)


def _speed_share(at: FloatArray, rate_hz: float, settings: HoldSettings) -> FloatArray:
    """From 0 for a point ``(F, 3)`` [m] that may touch the ground to 1 for one that is too fast for it ``(F,)``."""
    speed = np.linalg.norm(np.gradient(at[:, [0, 2]], axis=0), axis=-1) * rate_hz if len(at) > 1 else np.zeros(1)
    return smoothstep((speed - settings.slow_mps) / (settings.fast_mps - settings.slow_mps))


def _pitch_to_height(arm: FloatArray, height: FloatArray) -> FloatArray:
    """Turn upwards ``(F,)`` [rad] after which the ends of arms ``(F, 3)`` are ``height`` [m] over where they start."""
    level = np.hypot(arm[:, 0], arm[:, 2])
    sine = height / np.maximum(np.hypot(level, arm[:, 1]), 1e-9)
    return np.arcsin(np.clip(sine, -1.0, 1.0)) - np.arctan2(arm[:, 1], level)


def _raise_front(frames: SO3, arm: FloatArray, pitch: FloatArray) -> SO3:
    """Turn frames about the level axis across their arms ``(F, 3)``, the front upwards by ``(F,)`` [rad]."""
    across = np.cross(arm, UP)
    across = across / np.maximum(np.linalg.norm(across, axis=-1, keepdims=True), 1e-9)
    return SO3.exp(pitch[:, None] * across) @ frames


def _ball_rises(
    path: FootPath, shape: FootGeometry, plants: list[list[PlantRun]], settings: HoldSettings
) -> FloatArray:
    """How far the ball of a foot on its toes has risen ``(F,)`` [m] since its heel left, or from its lowest."""
    height = (path.ankle + shape.points(path.R_world_ankle, path.R_world_toes).hinge)[:, 1]
    rises = np.zeros(len(height))
    for plant in plants:
        # Where the ball is known to be down: under the flat foot, and where heel and toes take turns
        down = [np.arange(run.start, run.stop) for run in plant if run.mode == FLAT]
        for one, two in pairwise(plant):
            down += [np.array([two.start])] if (one.mode, two.mode) == (HEEL, TOES) else []
            down += [np.array([one.stop - 1])] if (one.mode, two.mode) == (TOES, HEEL) else []
        known = np.sort(np.concatenate(down)) if down else None
        for run in (run for run in plant if run.mode == TOES):
            frames = np.arange(run.start, run.stop)
            low = np.quantile(height[frames], 0.1) if known is None else np.interp(frames, known, height[known])
            rises[frames] = np.maximum(height[frames] - low - settings.rise_m, 0.0)
    return rises


def _lift_above_floor(
    path: FootPath,
    shape: FootGeometry,
    both: tuple[IntArray, IntArray],
    ground: FloatArray,
    rate_hz: float,
    settings: HoldSettings,
    size: float,
) -> FootPath:
    """Lift a swinging foot where one of its points would be below the ground, or move fast too close to it.

    ``both`` holds the modes without the moments in which a foot slides on, and those with them: it slides, not swings.
    """
    modes, contacts = both
    points = shape.points(path.R_world_ankle, path.R_world_toes)
    need, sunk = np.zeros(len(modes)), np.zeros(len(modes))
    for point in (points.heel, points.ball, points.toe):
        at = path.ankle + point
        share = _speed_share(at, rate_hz, settings)
        wanted = np.where(contacts == FREE, settings.clearance_m * size * share, 0.0)
        need = np.maximum(need, ground + wanted - at[:, 1])
        sunk = np.maximum(sunk, ground - at[:, 1])
    need, sunk = (np.where(modes == FREE, rise, 0.0) for rise in (need, sunk))
    if not need.any():
        return path
    lift = smooth_upper_envelope(need, rate_hz, LIFT_S)
    # What stands stays: the lift begins and ends at the contacts, where nothing is below the ground
    for start, stop in find_runs(modes == FREE, 0):
        inside = np.arange(start, stop)
        edge = np.minimum(
            inside - start + 1 if start > 0 else np.inf, stop - inside if stop < len(modes) else np.inf
        ) / max(settings.strike_s * rate_hz, 1.0)
        lift[start:stop] = np.maximum(lift[start:stop] * np.minimum(edge, 1.0), sunk[start:stop])
    lift = np.where(contacts == FREE, lift, sunk)
    return replace(path, ankle=path.ankle + lift[:, None] * UP)


def _fill_ground(ground: FloatArray, floor: FloatArray, is_held: BoolArray, step_m: float) -> FloatArray:
    """Height of the ground under a swing ``(F,)`` [m]: even between its plants, the lower of them beside a step.

    A swing that begins or ends with the clip may come from the ``floor`` ``(F,)`` [m], or go down to it.
    """
    filled = ground.copy()
    for start, stop in find_runs(~is_held, 0):
        ends = [float(ground[i]) for i in (start - 1, stop) if 0 <= i < len(ground)]
        if len(ends) == 1 and ends[0] - floor[start:stop].min() > step_m:
            ends.append(float(floor[start:stop].min()))
        if ends:
            share = smoothstep(np.arange(1, stop - start + 1) / (stop - start + 1))
            even = ends[0] + share * (ends[-1] - ends[0])
            filled[start:stop] = even if abs(ends[-1] - ends[0]) < step_m else min(ends)
    return filled

"""Legs over planted feet: the pelvis rises and sinks so that knees stay as straight as they were, then they bend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, split_blocks
from marey.contacts.body import SIDES, BodyPosture, mean_leg_length
from marey.contacts.easing import limit_slope, pin_corrections, spread_cone, spread_corrections
from marey.contacts.feet import (
    UP,
    ContactCut,
    FootGeometry,
    FootPath,
    PlantEdit,
    PlantPlan,
    calibrate_foot,
    edit_path,
    plant_foot,
)
from marey.contacts.floor import FLOOR_BAND_M, LEVEL_FLOOR, FloorPlane, fit_floor, smooth_upper_envelope
from marey.contacts.knees import LONGEST, KneeLimit, solve_pelvis_rise
from marey.contacts.limbs import (
    STRAIGHT,
    find_bend,
    measure_flexion,
    measure_length,
    reach,
    turn_limb,
)
from marey.contacts.plants import FLAT, FREE, HEEL, LEG_M, TOES, HoldSettings
from marey.lie import SO3
from marey.motion import find_runs
from marey.numerics import smoothstep
from marey.skeleton import t_pose

FORWARD: Final = np.array([0.0, 0.0, 1.0])
MAX_PELVIS: Final = 0.06  # [-] of the leg: the most that the pelvis is raised or lowered for the feet
STRAIGHTNESS: Final = 0.01  # [-] slack of a leg, part of its length, up to which it counts as straight: 16 degrees
MAX_DROP: Final = 0.15  # [-] of the leg: the most that it is lowered to bring plants within reach
MAX_ROLL_RAD: Final = np.radians(8.0)  # [rad] legs that differ by more than 2.5 cm are no error of a capture
MIN_HIP_WIDTH: Final = 0.05  # [-] of the leg: hips closer together than this are one joint
PULL_ROUNDS: Final = 8  # of moving a plant to where its worst frame is within reach
TILTED: Final = (0.2, 0.1)  # [-] level part of a leg, squared: more upright, and from so much more on, it is pulled
MAX_HEEL_RAD: Final = np.radians(25.0)  # [rad] the most that a heel is raised to reach a plant
HEEL_RAD_PER_S: Final = np.radians(180.0)  # [rad/s] how fast it is: slower than feet turn in walks
HEEL_GAIN: Final = 0.03  # [m/rad] a heel whose rise brings the ankle nearer by less is not raised
HEEL_ROUNDS: Final = 4  # of Newton's method, which converges to a tenth of a millimetre
TOES_SHARE: Final = 0.5  # [-] of what a flat foot says about the height of the pelvis
FAR_RAD: Final = 1e3  # [rad] where nothing is known
OWN_QUANTILE: Final = 0.98  # [-] a leg is this part of the clip at most as long as the person makes it
MAX_SOLE_M: Final = 0.04  # [m] soles of a capture stand this far beside one floor; farther is a step
RELEASE_M: Final = 0.004  # [m] a heel rises where its leg is too short by more than this
MIN_STANDING_FRAMES: Final = 8  # of each foot, to compare how high they stand


@dataclass(frozen=True, slots=True, eq=False)
class PlantedFeet:
    """The feet of a clip and the floor under them."""

    stand: BodyPosture
    shapes: Mapping[str, FootGeometry]
    paths: Mapping[str, FootPath]  # as the posture gives them
    modes: Mapping[str, IntArray]
    floor: FloorPlane  # under both
    soles: Mapping[str, float]  # [m] height of each sole over it as it stands: thickness that a skeleton does not tell
    rate_hz: float
    settings: HoldSettings

    @classmethod
    def measure(
        cls,
        stand: BodyPosture,
        modes: Mapping[str, IntArray],
        rate_hz: float,
        settings: HoldSettings,
        *,
        floor: FloorPlane | None = None,
        edit: PlantEdit | None = None,
    ) -> PlantedFeet:
        """Find feet and floor of a posed body.

        Args:
            stand: the body.
            modes: what its feet stand on.
            rate_hz: frames per second.
            settings: how feet are held.
            floor: under them; fitted to their contacts if not given.
            edit: changes where they stand.
        """
        shapes = {side: FootGeometry.measure(stand, side) for side in SIDES}
        paths = {
            side: calibrate_foot(_trace_foot(stand, shape, rate_hz, settings), shape, modes[side])
            for side, shape in shapes.items()
        }
        if floor is None:
            soles = {side: shapes[side].points(path.R_world_ankle, path.R_world_toes) for side, path in paths.items()}
            stood = [(paths[s].ankle + soles[s].at(modes[s]))[modes[s] != FREE] for s in paths]
            floor = fit_floor(np.concatenate(stood))
        if edit is not None:
            paths = {
                side: edit_path(path, shapes[side], modes[side], side, edit, rate_hz, settings.ease_s)
                for side, path in paths.items()
            }
        return cls(stand, shapes, paths, modes, floor, dict.fromkeys(SIDES, 0.0), rate_hz, settings)

    def level_floor(self) -> PlantedFeet:
        """Return the body on a level floor at ``y = 0``, lowered by the height of the floor under its root."""
        shift = -self.floor.under(self.stand.roots)
        paths = {side: replace(path, ankle=path.ankle + shift[:, None] * UP) for side, path in self.paths.items()}
        return replace(self, stand=self.stand.raise_by(shift), paths=paths, floor=LEVEL_FLOOR)

    @property
    def _size(self) -> float:
        """Length of the legs over that for which the settings are stated."""
        return mean_leg_length(self.stand.skeleton, self.stand.roles) / LEG_M

    def keep_soles(self) -> PlantedFeet:
        """Return the feet, each on a floor of its own: the height over the common one at which it mostly stands.

        The sole of a skeleton is an estimate, and both feet of a capture may differ by centimetres. To put them on one
        height would bend a knee: 20 degrees for two centimetres.
        """
        soles: dict[str, float] = {}
        most = MAX_SOLE_M * self._size
        for side, path in self.paths.items():
            # A foot that stands flat will be level: its ball is as far below its ankle as in the calibration pose
            shape, is_flat = self.shapes[side], self.modes[side] == FLAT
            level = (shape.R_flat_ankle @ shape.hinge + shape.R_flat_toes @ shape.ball)[1]
            over = (path.ankle[:, 1] + level - self.floor.under(path.ankle))[is_flat]
            over = over[np.abs(over) < most]
            soles[side] = float(np.median(over)) if len(over) >= MIN_STANDING_FRAMES else 0.0
        return replace(self, soles=soles)

    def release_heels(self) -> PlantedFeet:
        """Return the feet, those of trailing legs on their toes as soon as the leg is too short for the flat foot.

        A detector calls a heel down until it has risen by a centimetre or two. Where the leg is straight already, the
        flat foot would pull the pelvis down by as much.
        """
        modes: dict[str, IntArray] = {}
        for side, path in self.paths.items():
            modes[side] = self.modes[side].copy()
            hip = self.stand.at(self.stand.leg(side).upper)
            long, bones = self.stand.leg_lengths(side)
            most = np.maximum(long, self._stretch(side) * bones) + RELEASE_M * self._size
            for start, stop in find_runs(self.modes[side] == FLAT, 0):
                if stop == len(hip) or self.modes[side][stop] == HEEL:
                    continue
                # A flat foot does not move: its ankle is where it mostly is
                far = np.linalg.norm(np.median(path.ankle[start:stop], axis=0) - hip[start:stop], axis=-1)
                enough = np.flatnonzero(far <= most[start:stop])
                first = max(int(enough[-1]) + 1 if len(enough) else 0, (stop - start) // 2)
                modes[side][start + first : stop] = TOES
        return replace(self, modes=modes)

    def pelvis_roll(self) -> float:
        """Constant roll of the pelvis [rad] after which both feet stand equally high; positive lifts the left hip."""
        heights: list[float] = []
        for side, path in self.paths.items():
            shape = self.shapes[side]
            sole = path.ankle[:, 1] + (shape.R_flat_ankle @ shape.heel)[1]
            sole = sole[(self.modes[side] == FLAT) & (np.abs(sole) < FLOOR_BAND_M)]
            if len(sole) < MIN_STANDING_FRAMES:
                return 0.0
            heights.append(float(np.median(sole)))
        left, right = (self.stand.at(self.stand.leg(side).upper)[0] for side in SIDES)
        width = float(np.linalg.norm(left - right))
        if width < MIN_HIP_WIDTH * mean_leg_length(self.stand.skeleton, self.stand.roles):
            return 0.0
        return float(np.clip((heights[1] - heights[0]) / width, -MAX_ROLL_RAD, MAX_ROLL_RAD))

    def plant(self, wxyz: FloatArray) -> tuple[FloatArray, dict[str, PlantPlan]]:
        """Put the feet on their plants: turn the legs in the body's local rotations ``(F, J, 4)``.

        Returns:
            The root ``(F, 3)`` [m], and where the plants are.
        """
        # The pelvis goes with the standing legs; feet in the air go with the pelvis
        given = self.rate_hz, self.settings, self._size
        cuts = {
            side: ContactCut.from_path(path, self.shapes[side], self.modes[side], *given)
            for side, path in self.paths.items()
        }
        level = np.zeros(len(self.stand.roots))
        rise = self._pelvis_rise({side: goal for side, goal, _ in self._planted(level, cuts)})
        planted = list(self._planted(rise, cuts))
        del cuts, level  # a long clip is large
        risen, plans = self.stand.raise_by(rise), {side: plan for side, _, plan in planted}
        goals = {side: self._raise_heel(risen, side, goal) for side, goal, _ in planted}
        del planted, rise
        risen.lift(-self._reach_drop(risen, goals))
        goals = {side: self._pull_plants(risen, side, goal, plans[side]) for side, goal in goals.items()}
        # Knees turn little faster than before: a straight one turns much for a little length. In contact the pelvis
        # gives that length, in the air the foot
        knees = {side: KneeLimit.measure(risen, side, self.modes[side], self.settings) for side in goals}
        risen.lift(solve_pelvis_rise(risen, goals, knees, self.rate_hz))
        ankles = {side: self._limit_knee(risen, side, goal, knees[side]) for side, goal in goals.items()}
        del knees
        for side, goal in goals.items():
            self._turn_leg(risen, side, replace(goal, ankle=ankles[side]), plans[side], wxyz)
        # Of norm one in place: a rounding that is off would have the whole clip copied
        for part in split_blocks(len(wxyz)):
            wxyz[part] = SO3(wxyz[part]).wxyz
        return risen.roots, plans

    def _turn_leg(self, risen: BodyPosture, side: str, goal: FootPath, plan: PlantPlan, wxyz: FloatArray) -> None:
        """Bend a leg, turn its foot and toes, in local rotations ``(F, J, 4)``."""
        skeleton, leg, shape = risen.skeleton, risen.leg(side), self.shapes[side]
        upper, (hip, knee, ankle) = risen.frame(leg.upper), risen.leg_path(side)
        forward = t_pose(skeleton, risen.roles).joint_rotations()[leg.upper].inverse() @ FORWARD
        pole = upper @ find_bend((hip, knee, ankle), upper, forward)
        stretch = np.where(self.modes[side] != FREE, STRAIGHT, self.settings.stretch)
        for part in split_blocks(len(wxyz)):
            path = (hip[part], knee[part], ankle[part])
            turns = reach(path, goal.ankle[part], pole[part], stretch[part])
            R_above = turn_limb(wxyz[part], replace(risen, world=risen.world[part]).frame, skeleton, leg, turns)
            wxyz[part, leg.end] = (R_above.inverse() @ goal.R_world_ankle[part]).wxyz
        if shape.toes is not None:
            del upper, pole, stretch
            between = risen.frame(leg.end).inverse() @ risen.frame(int(skeleton.parents[shape.toes]))
            toes = (goal.R_world_ankle @ between).inverse() @ goal.R_world_toes
            del between
            is_known = (plan.modes == FLAT) | (plan.modes == TOES)
            source = SO3(self.stand.wxyz[:, shape.toes])
            wxyz[:, shape.toes] = _limit_toes(source, toes, is_known, self.settings)

    def _raise_heel(self, risen: BodyPosture, side: str, goal: FootPath) -> FootPath:
        """Turn a foot on its toes about their joint, heel upwards, where its leg would have to be longer than it was.

        A trailing leg that is straight cannot follow its foot back to its place; a person raises the heel for that, and
        does not crouch.
        """
        shape, modes = self.shapes[side], self.modes[side]
        hip = risen.at(risen.leg(side).upper)
        long, bones = self.stand.leg_lengths(side)
        most = np.maximum(long, self._stretch(side) * bones)
        joint, across, turn = np.empty_like(hip), np.empty_like(hip), np.zeros(len(modes))
        for part in split_blocks(len(modes)):
            points = shape.points(goal.R_world_ankle[part], goal.R_world_toes[part])
            joint[part] = points.toe if shape.toes is None else points.hinge
            pivot, arm, axis = goal.ankle[part] + joint[part], -joint[part], np.cross(points.heel - joint[part], UP)
            across[part] = axis = axis / np.maximum(np.linalg.norm(axis, axis=-1, keepdims=True), 1e-9)
            # Newton's steps for the turn after which the ankle is as far from the hip as the leg was long
            for _ in range(HEEL_ROUNDS):
                at = SO3.exp(turn[part, None] * axis) @ arm
                away = pivot + at - hip[part]
                far = np.linalg.norm(away, axis=-1)
                slope = np.sum(np.cross(axis, at) * away, axis=-1) / np.maximum(far, 1e-9)
                step = np.where(slope < -HEEL_GAIN, (most[part] - far) / np.minimum(slope, -HEEL_GAIN), 0.0)
                turn[part] = np.clip(turn[part] + step, 0.0, MAX_HEEL_RAD)
        turn = np.where(modes == TOES, turn, 0.0)
        if not turn.any():
            return goal
        # No faster than a foot turns, and not at all while it is flat or on its heel
        slope_limit = HEEL_RAD_PER_S / self.rate_hz
        room = np.where((modes == FLAT) | (modes == HEEL), 0.0, MAX_HEEL_RAD)
        room = -spread_cone(-room, slope_limit)
        turn = np.minimum(spread_cone(turn, slope_limit), room)
        R = SO3.exp(turn[:, None] * across)
        ankle = R @ goal.R_world_ankle
        return FootPath(goal.ankle + joint - R @ joint, ankle, ankle if shape.toes is None else goal.R_world_toes)

    def _stretch(self, side: str) -> float:
        """Largest extension of a leg, part of both bones: that of the settings, or the person's own."""
        long, bones = self.stand.leg_lengths(side)
        return max(
            self.settings.stretch, min(float(np.quantile(long / bones, OWN_QUANTILE)), self.settings.own_stretch)
        )

    def _limit_knee(self, risen: BodyPosture, side: str, goal: FootPath, knee: KneeLimit) -> FloatArray:
        """Ankle ``(F, 3)`` [m] of one leg, its knee eased out of contact and no faster than it may be.

        No knee steps farther than the source's does at most (``HoldSettings.step_share``, ``step_rad``).
        """
        hip = risen.at(risen.leg(side).upper)
        far = np.linalg.norm(goal.ankle - hip, axis=-1)
        flexion = measure_flexion(far, *knee.bones)
        change = pin_corrections(
            (flexion - knee.natural)[:, None], knee.is_held, self.rate_hz, self.settings.ease_s, strike=True
        )[:, 0]
        # A leg in the air is stretched no farther than the settings say, or than the source's was
        least = measure_flexion(self.settings.stretch * (knee.bones[0] + knee.bones[1]), *knee.bones)
        eased = np.maximum(np.maximum(flexion, knee.natural + change), np.minimum(least, knee.natural))
        flexion = np.where(knee.is_held, flexion, eased)
        # From one contact to the next within reach of both
        low = spread_cone(np.where(knee.is_held, flexion, -FAR_RAD), knee.step)
        high = -spread_cone(np.where(knee.is_held, -flexion, -FAR_RAD), knee.step)
        # Where two contacts are too close for that, anywhere between
        low, high = np.minimum(low, high), np.maximum(low, high)
        limited = np.clip(limit_slope(np.clip(flexion, low, high), knee.step), low, high)
        # What pelvis and swing do not give, the plant does: the leg is shorter, and the plant is told as broken
        firm = spread_cone(flexion, self.settings.break_share * knee.step)
        length = measure_length(np.where(knee.is_held, firm, limited), *knee.bones)
        # A foot in the air may come lower than it was, down to the floor
        lowest = goal.ankle[:, 1].copy()
        for part in split_blocks(len(lowest)):
            points = self.shapes[side].points(goal.R_world_ankle[part], goal.R_world_toes[part])
            lowest[part] += np.minimum(points.heel, np.minimum(points.ball, points.toe))[:, 1]
        over = np.maximum(lowest - self.floor.under(goal.ankle) - self.soles[side], 0.0)
        lower = over / np.maximum(hip[:, 1] - goal.ankle[:, 1], 1e-6)
        most_share = np.where(knee.is_held | (not self.settings.overreach), 1.0, 1.0 + lower)
        share = cast(FloatArray, np.minimum(length / np.maximum(far, 1e-9), most_share))
        return hip + share[:, None] * (goal.ankle - hip)

    def _planted(self, rise: FloatArray, cuts: Mapping[str, ContactCut]) -> Iterator[tuple[str, FootPath, PlantPlan]]:
        """Both feet on their plants, the body higher by ``(F,)`` [m], and where these are."""
        for side, path in self.paths.items():
            higher = replace(path, ankle=path.ankle + rise[:, None] * UP)
            shape, floor = self.shapes[side], self.floor.raise_by(self.soles[side])
            yield side, *plant_foot(higher, shape, cuts[side], floor, self.rate_hz, self.settings, self._size)

    def _pelvis_rise(self, goals: Mapping[str, FootPath]) -> FloatArray:
        """Smooth rise of the pelvis ``(F,)`` [m] that keeps standing legs as long, and knees as bent, as they were."""
        asked, weight = np.zeros(len(self.stand.roots)), np.zeros(len(self.stand.roots))
        for side, goal in goals.items():
            hip, _, ankle = self.stand.leg_path(side)
            long, bones = self.stand.leg_lengths(side)
            level = np.sum((goal.ankle - hip)[:, [0, 2]] ** 2, axis=-1)
            rise: FloatArray = goal.ankle[:, 1] + np.sqrt(np.maximum(long**2 - level, 0.0)) - hip[:, 1]
            # A leg that is far from upright does not carry the pelvis; a nearly straight knee bends most for a little
            # height, so it counts most
            is_held = (self.modes[side] != FREE) & (hip[:, 1] - ankle[:, 1] > 0.5 * long)
            firm = _contact_depth(is_held, self.settings.firm_s * self.rate_hz)
            # A foot on its toes raises its heel where its leg is short, so it does not pull the pelvis down
            is_toes = self.modes[side] == TOES
            firm = np.where(is_toes, TOES_SHARE, 1.0) * firm
            rise = np.maximum(rise, np.where(is_toes, 0.0, -np.inf))
            count = firm / (STRAIGHTNESS + 1.0 - long / bones)
            asked, weight = asked + count * rise, weight + count
        most = MAX_PELVIS * mean_leg_length(self.stand.skeleton, self.stand.roles)
        mean = np.clip(asked / np.maximum(weight, 1e-9), -most, most)[:, None]
        ease = self.settings.pelvis_s
        return spread_corrections(mean, STRAIGHTNESS * weight, self.rate_hz, ease, rest=1e-3)[:, 0]

    def _pull_plants(self, risen: BodyPosture, side: str, goal: FootPath, plan: PlantPlan) -> FootPath:
        """Move plants that are still out of reach towards the hip: each as a whole, a foot that slides frame by frame.

        The legs of one who lies are straight, and a detector calls a foot down that lands half a metre ahead.
        """
        hip, (long, bones) = risen.at(risen.leg(side).upper), risen.leg_lengths(side)
        most = np.maximum(np.minimum(long, LONGEST * bones), self._stretch(side) * bones)
        shift, is_held = np.zeros_like(hip), plan.held != FREE
        is_down = is_held | (self.modes[side] != FREE)
        spans = [slice(plant[0].start, plant[-1].stop) for plant in plan.plants]
        for _ in range(PULL_ROUNDS):
            away = hip - goal.ankle - shift
            far, level = np.linalg.norm(away, axis=-1), away * [1.0, 0.0, 1.0]
            flat = np.sum(level**2, axis=-1)
            # The height of the pelvis is for upright legs
            tilt = flat / np.maximum(far**2, 1e-12)
            short = np.where(is_down, np.maximum(far - most, 0.0), 0.0) * smoothstep((tilt - TILTED[0]) / TILTED[1])
            if not short.any():
                break
            step = level * (short * far / np.maximum(flat, 1e-12))[:, None]
            for span in spans:
                worst = span.start + int(np.argmax(np.where(is_held[span], short[span], 0.0)))
                step[span][is_held[span]] = step[worst] if is_held[worst] else 0.0
            shift = shift + step
        if not shift.any():
            return goal
        return replace(goal, ankle=goal.ankle + pin_corrections(shift, is_down, self.rate_hz, self.settings.ease_s))

    def _reach_drop(self, risen: BodyPosture, goals: Mapping[str, FootPath]) -> FloatArray:
        """Least smooth lowering of the pelvis ``(F,)`` [m] that brings feet in contact within reach."""
        drop = np.zeros(len(risen.roots))
        for side, goal in goals.items():
            hip = risen.at(risen.leg(side).upper)
            long, bones = risen.leg_lengths(side)
            level = np.sum((goal.ankle - hip)[:, [0, 2]] ** 2, axis=-1)
            height = np.sqrt(np.maximum(np.maximum(long, self._stretch(side) * bones) ** 2 - level, 0.0))
            short = np.clip(hip[:, 1] - goal.ankle[:, 1] - height, 0.0, MAX_DROP * bones)
            drop = np.maximum(drop, np.where(self.modes[side] != FREE, short, 0.0))
        return smooth_upper_envelope(drop, self.rate_hz, self.settings.drop_s) if drop.any() else drop


def _limit_toes(source: SO3, turned: SO3, is_known: BoolArray, settings: HoldSettings) -> FloatArray:
    """Turned toes ``(F, 4)``: as they are in contact, and elsewhere turned little faster than those of the source."""
    change: FloatArray = (source.inverse() @ turned).log()
    change = change * np.minimum(
        1.0, settings.toes_rad / np.maximum(np.linalg.norm(change, axis=-1, keepdims=True), 1e-9)
    )
    steps = (source[:-1].inverse() @ source[1:]).angle()
    most = settings.toes_share * float(steps.max(initial=0.0)) + settings.toes_step_rad
    limited = np.empty_like(change)
    for k in range(3):
        # The least and the greatest curve through the known values that change no faster
        high = -spread_cone(np.where(is_known, -change[:, k], -FAR_RAD), most)
        low = spread_cone(np.where(is_known, change[:, k], -FAR_RAD), most)
        limited[:, k] = np.clip(limit_slope(np.clip(change[:, k], low, high), most), low, high)
    limited[is_known] = change[is_known]
    toes = source @ SO3.exp(limited)
    if (toes[:-1].inverse() @ toes[1:]).angle().max(initial=0.0) > float(steps.max(initial=0.0)) + most:
        # Toes that jump in contact as well are no longer held
        toes = source @ SO3.exp(np.stack([limit_slope(change[:, k], most) for k in range(3)], axis=-1))
    return toes.wxyz


def _contact_depth(is_held: BoolArray, frames: float) -> FloatArray:
    """Rise from 0 to 1 within so many frames after a contact began, and back before it ends ``(F,)``."""
    depth = np.zeros(len(is_held))
    for start, stop in find_runs(is_held, 0):
        t = np.arange(start, stop)
        since = t - start + 1 if start > 0 else np.inf
        until = stop - t if stop < len(is_held) else np.inf
        depth[start:stop] = np.minimum(np.minimum(since, until) / max(frames, 1.0), 1.0)
    return depth


def _trace_foot(stand: BodyPosture, shape: FootGeometry, rate_hz: float, settings: HoldSettings) -> FootPath:
    """A foot as the posture gives it, its toes without tremble."""
    ankle, R_ankle = stand.at(shape.ankle), stand.frame(shape.ankle)
    if shape.toes is None:
        return FootPath(ankle, R_ankle, R_ankle)
    bend = (R_ankle.inverse() @ stand.frame(shape.toes)).log()
    smooth = spread_corrections(bend, np.ones(len(bend)), rate_hz, 1.0 / (2.0 * np.pi * settings.toe_hz), rest=0.0)
    return FootPath(ankle, R_ankle, R_ankle @ SO3.exp(smooth))

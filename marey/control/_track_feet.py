"""Feet of a figure that follows a clip: they stand, roll, swing, and land where balance wants them."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.control._features_feet import sole_frame, sole_target
from marey.control._features_support import convex_hull
from marey.control._reference import SIDES
from marey.control._reference_com import HORIZONTAL_AXES, project_into_hull
from marey.control._steps import EDGE_CORNERS
from marey.control._steps_recovery import capturing_offset
from marey.control._steps_schedule import FLAT
from marey.control._tasks import RowsTask
from marey.control._track_laws import EDGE_M, TrackingStep, correct_velocity
from marey.lie import SO3

SOLE_ARM_M: Final = 0.1  # [m] a sole's turn counts as much as a shift by its half length
LOOK_AHEADS: Final = 8  # moments until a landing in which the capture point is foreseen
LONGEST_S: Final = 0.7  # [s] that the capture point is foreseen at most
APART_M: Final = 0.08  # [m] feet keep to their sides by as much, if the clip does
LANDING_PHASE: Final = 0.8  # [-] part of the way down that a foot goes in a step: what does not touch does not bear
DOWN_M_S: Final = 0.5  # [m/s] at most
DOWN_RAD_S: Final = 4.0  # [rad/s] at most
ZERO_VELOCITY: Final = np.zeros(3)


def foot_rows(at: TrackingStep, side: int) -> RowsTask:
    """A foot that is held by the edge it stands on, or swings to where the clip, and balance, want it."""
    return _standing_rows(at, side) if at.steps.feet[side].is_down else _swinging_rows(at, side)


def _standing_rows(at: TrackingStep, side: int) -> RowsTask:
    w, r, here, foot = at.weights, at.reference, at.here, at.steps.feet[side]
    joint, _, sole = sole_frame(at.simulator.body.skeleton, SIDES[side])
    edge = at.steps.soles.corners[side, EDGE_CORNERS[foot.edge]].mean(axis=0)
    jacobian, turning = here.point_jacobian(joint, edge), here.frames[joint].T @ here.angular[joint]
    pace, frame, spin = (at.dt, w.foot_per_s), SO3.from_matrix(here.frames[joint]), turning @ at.velocity
    away = foot.anchor - here.point(joint, edge)
    shift = _limit_length(np.array([0.0, LANDING_PHASE, 0.0]) * away / at.dt, DOWN_M_S)
    normal = at.steps.floor.normal(foot.anchor[HORIZONTAL_AXES])
    if foot.phase == FLAT:
        flat = SO3.from_matrix(sole_target(here.frames[joint] @ sole, normal, None) @ sole.T)
        turn = _limit_length(LANDING_PHASE * (frame.inverse() @ flat).log() / at.dt, DOWN_RAD_S)
    else:
        aim = (frame.inverse() @ _align_to_normal(normal, SO3(r.foot_turns[at.frame, side]))).log()
        turn = correct_velocity(pace, spin, *at.rates(r.foot_rates[:, side]), aim)
    part = np.sqrt(w.roll / w.stance)
    return RowsTask(np.concatenate([jacobian, part * turning]), np.concatenate([shift, part * turn]), weight=w.stance)


def _swinging_rows(at: TrackingStep, side: int) -> RowsTask:
    w, r, here = at.weights, at.reference, at.here
    joint, middle, _ = sole_frame(at.simulator.body.skeleton, SIDES[side])
    jacobian, turning = here.point_jacobian(joint, middle), here.frames[joint].T @ here.angular[joint]
    pace, frame, spin = (at.dt, w.foot_per_s), SO3.from_matrix(here.frames[joint]), turning @ at.velocity
    goal, (now, then) = at.steps.swing(at.step, side, landing_offset(at, side)), at.rates(r.sole_rates[:, side])
    place = r.soles[at.frame, side] + goal.offset
    place[1] += at.steps.floor.height(place[HORIZONTAL_AXES])
    velocity = goal.velocity + now
    velocity[1] += at.steps.floor.rise(place[HORIZONTAL_AXES]) @ velocity[HORIZONTAL_AXES]
    away = place - here.point(joint, middle)
    shift = correct_velocity(pace, jacobian @ at.velocity, velocity, velocity + then - now, away)
    aim = (
        frame.inverse()
        @ _align_to_normal(at.steps.floor.normal(place[HORIZONTAL_AXES]), SO3(r.foot_turns[at.frame, side]))
    ).log()
    turn = correct_velocity(pace, spin, *at.rates(r.foot_rates[:, side]), aim)
    matrix = np.concatenate([jacobian, SOLE_ARM_M * turning])
    return RowsTask(matrix, np.concatenate([shift, SOLE_ARM_M * turn]), weight=w.swing)


def _limit_length(vector: FloatArray, most: float) -> FloatArray:
    """Vector, shortened to a length."""
    return vector * min(1.0, most / max(float(np.linalg.norm(vector)), 1e-9))


def _align_to_normal(normal: FloatArray, turn: SO3) -> SO3:
    """A turn over level ground, on ground with a normal."""
    if normal[1] > 1.0 - 1e-12:
        return turn
    return SO3.from_two_vectors(np.array([0.0, 1.0, 0.0]), normal) @ turn


def landing_offset(at: TrackingStep, side: int) -> FloatArray:
    """How far from the clip ``(2,)`` [m] a foot shall land: as the other one stands, and by what balance needs."""
    other, foot = at.steps.feet[1 - side], at.steps.feet[side]
    if foot.is_own:
        return _avoid_crossing(at, side, capturing_offset(at, side))
    base = other.offset if other.is_down else at.steps.offset
    if foot.due >= len(at.reference):  # it never lands
        return _avoid_crossing(at, side, base)
    left_s = min(max(foot.due - at.step, 0) * at.dt, LONGEST_S)
    more = at.weights.step * predict_capture_error(at, 1 - side, left_s)
    return _avoid_crossing(at, side, base + _limit_length(more, at.weights.longest_step_m))


def predict_capture_error(at: TrackingStep, stance: int, left_s: float) -> FloatArray:
    r"""Error ``(2,)`` [m] of the capture point when a foot lands, :math:`\dot e = \omega\,(e - u)`.

    Until then the pressure moves by u under the sole that stands, as far as that reaches.
    """
    error, sway, last = at.capture_error(), at.sway, len(at.reference) - 1
    hull = convex_hull(at.points[stance, :4][:, HORIZONTAL_AXES]) - at.steps.offset
    h = left_s / LOOK_AHEADS
    grow = np.exp(sway.frequency * h)
    for n in range(LOOK_AHEADS if left_s > 0.0 else 0):
        i = min(at.frame + round((n + 0.5) * h / at.dt), last)
        pivot = sway.pivot[i] + sway.shift[i]
        push = project_into_hull(hull, pivot + (1.0 + at.weights.capture) * error, EDGE_M) - pivot
        error = push + grow * (error - push)
    return error


def _avoid_crossing(at: TrackingStep, side: int, offset: FloatArray) -> FloatArray:
    """Offset of a landing that does not cross the leg that stands."""
    r, steps, other = at.reference, at.steps, at.steps.feet[1 - side]
    if not other.is_down:
        return offset
    due = min(steps.feet[side].due, len(r) - 1)
    corners = at.points[1 - side]
    ahead = (corners[2:4] - corners[:2]).mean(axis=0)[HORIZONTAL_AXES]
    left = np.array([ahead[1], -ahead[0]]) / max(float(np.linalg.norm(ahead)), 1e-9)
    outwards = left if side == 0 else -left
    planned = float((r.soles[due, side] - r.soles[at.frame, 1 - side])[HORIZONTAL_AXES] @ outwards)
    place = r.soles[due, side][HORIZONTAL_AXES] + offset - corners[:4].mean(axis=0)[HORIZONTAL_AXES]
    lack = min(APART_M, planned) - float(place @ outwards)
    return offset + max(0.0, lack) * outwards

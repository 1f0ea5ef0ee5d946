r"""Laws of tracking: what each part of a figure, feet included, is asked to do in the next step.

All are laws for accelerations, :math:`v^+ = v + h\,(a^* + 2k(v^* - v) + k^2 e)`, critically damped, so that nothing is
asked that muscles and ground could not give. Feet stand, roll, swing, and land where balance needs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.control.balance import (
    HORIZONTAL_AXES,
    SOLE_ARM_M,
    SPENT_S,
    CentreOfMassPath,
    project_into_hull,
    sole_frame,
    sole_target,
)
from marey.control.preparation import SIDES
from marey.control.reference import Reference
from marey.control.stepping import BALL, EDGE_CORNERS, FLAT, UP, Footsteps, LandingPlan, SwingTarget
from marey.control.tasks import RowsTask
from marey.kinematics import PointTask
from marey.lie import SO3
from marey.numerics import convex_hull
from marey.simulate import Mechanics, Simulator

NEAR_M: Final = 0.003  # [m] lower corners support the figure
EDGE_M: Final = 0.01  # [m] pressure is asked for no nearer to the edge of the soles


VelocityGains = tuple[float, float]  # length of a step [s], and how fast errors are taken back [1/s]


@dataclass(frozen=True, slots=True)
class TrackWeights:
    """Weights of the tasks of a clip, and the rates of error correction."""

    com: float = 1e5  # of squared velocities of the centre of mass [s²/m²]
    height: float = 0.3  # [-] of that, of its height
    momentum: float = 2e3  # of squared angular momenta per kilogram; more keeps ankles from balancing the whole body
    root: float = 2e3  # of squared turns of the root
    pose: float = 100.0  # of squared turns of all joints
    legs: float = 0.3  # [-] of that, of hips, knees, ankles and toes, which the feet decide
    swing: float = 6e3  # of a foot in the air
    stance: float = 6e3  # of the edge of a supporting foot
    roll: float = 300.0  # of squared turns of a foot on the ground
    reach: float = 2e4  # of a point that is to reach a place, times the weight of its task up to MOST_REACH
    com_per_s: float = 8.0  # of the height of the centre of mass
    capture: float = 1.0  # [-] of the capture point, beyond what keeps it from running away
    momentum_per_s: float = 5.0
    root_per_s: float = 8.0
    pose_per_s: float = 10.0
    foot_per_s: float = 25.0
    reach_per_s: float = 8.0
    step: float = 1.0  # [-] part of the expected error of the capture point by which a foot lands elsewhere
    recall: float = 0.3  # [-] part by which it lands beyond that error, which leads back to the clip's place
    longest_step_m: float = 0.4  # [m] that a step is longer or shorter than in the clip, at most
    recovery_step_s: float = 0.28  # [s] of a step that the clip does not have, taken to catch a fall
    quiet_s: float = 0.3  # [s] in which the clip takes no step itself, before such a step
    last_swing_s: float = 0.6  # [s] before its end a clip may be amid its last swing
    outside_m: float = 0.0  # [m] that a capture point may be outside the soles before such a step ...
    astray_m: float = 0.05  # [m] ... and beyond the clip's own where that is outside, too: the clip steps or jumps
    falling_m_s: float = 0.3  # [m/s] of the centre of mass downwards, above which no such step begins
    beyond_m: float = 0.04  # [m] that its foot lands beyond the capture point
    longest_stride_m: float = 0.7  # [m] between the feet, at most
    sideways: float = 1.0  # [-] a fall that goes more sideways than this ahead is caught by the foot of that side

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0.0):
                raise InputError(f"{name} is {value}", "Give a finite number that is not negative")


RUN_FACTORS: Final = {
    # In a run: what turns in the air is not turned back, and legs that catch up with their swing in it
    # turn the trunk
    "com": 2.0,
    "momentum": 5.0,
    "root": 25.0,
    "pose": 5.0,
    "foot_per_s": 0.72,
}
PUSH_FACTORS: Final = {
    # In the push-off to a jump: what turns then turns on in flight, while a centre of mass that is a few cm/s too slow
    # lands elsewhere by as many cm, where the feet follow
    "momentum": 1000.0,
}
LEAST_PUSH_S: Final = 0.08  # [s] in which a push-off takes errors of the height back at the fastest

SOFT_FACTORS: Final = {
    "com": 5.0,
    "height": 0.05,
    "momentum": 10.0,
    "root": 0.02,
    "pose": 0.02,
    "legs": 3.0,
    "roll": 0.1,
    "reach": 0.02,
    "capture": 2.0,
}


@dataclass(frozen=True, slots=True, eq=False)
class TrackingStep:
    """A figure at the beginning of a step, and the frame that it should be in."""

    simulator: Simulator
    here: Mechanics
    before: Mechanics  # of the last step: rates change with the pose, too
    velocity: FloatArray  # (d,)
    reference: Reference
    sway: CentreOfMassPath
    step: int  # since the beginning; the clip may be shorter
    steps: Footsteps
    points: FloatArray  # (2, 5, 3) [m] corners of the soles, and toes
    weights: TrackWeights
    landings: LandingPlan | None = None  # of a run
    push_s: float = 0.0  # [s] until the flight that a stance pushes off to; zero in all else
    pace: float = 1.0  # [-] of the clip, that a jump which ends earlier or later has
    leap_s: float | None = None  # [s] until a jump lands, or should have; None in all else

    @property
    def frame(self) -> int:
        """Frame of the clip; after its end the last."""
        return min(self.step, len(self.reference) - 1)

    @property
    def dt(self) -> float:
        """Length of the step [s]."""
        return self.reference.dt

    @property
    def is_over(self) -> bool:
        """Whether the clip has come to its end, whose pose is held from then on."""
        return self.step >= len(self.reference) - 1

    def rates(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Velocities that led to this frame and that lead on, from ``values (F, ...)``; none after the end."""
        now, then = values[max(self.frame - 1, 0)], values[self.frame]
        return (np.zeros_like(now), np.zeros_like(now)) if self.is_over else (self.pace * now, self.pace * then)

    def com_velocity(self) -> FloatArray:
        """Velocity ``(3,)`` [m/s] of the centre of mass."""
        return self.here.com_jacobian @ self.velocity

    def capture_point(self) -> FloatArray:
        """Capture point ``(2,)`` [m]."""
        return (self.here.com + self.com_velocity() / self.sway.frequency)[HORIZONTAL_AXES]

    def capture_error(self) -> FloatArray:
        """Error ``(2,)`` [m] of the capture point."""
        wanted = self.rest() if self.is_over else self.sway.capture(self.frame)
        return self.capture_point() - wanted - self.steps.offset

    def rest(self) -> FloatArray:
        """Position ``(2,)`` [m] between the feet of the clip, where a standing figure is stable."""
        return self.reference.soles[self.frame][:, HORIZONTAL_AXES].mean(axis=0)


def correct_velocity(
    pace: VelocityGains, now: FloatArray, wanted: FloatArray, then: FloatArray, error: FloatArray
) -> FloatArray:
    """Velocity after a step, from the present one, the clip's last and next one, and the position error."""
    h, per_s = pace
    return now + (then - wanted) + h * (2.0 * per_s * (wanted - now) + per_s**2 * error)


def com_rows(at: TrackingStep) -> RowsTask:
    r"""The centre of mass, carried by the soles: :math:`\ddot c = \omega^2(c - p)`.

    The pivot moves with the capture point, :math:`p = p^* + (1 + k)(\xi - \xi^*)`, as far as the soles reach.
    """
    h, w, sway, i = at.dt, at.weights, at.sway, at.frame
    now, com, offset = at.com_velocity(), at.here.com, at.steps.offset
    # Desired centre of pressure [m]
    error = at.capture_error() + _limit_length(w.recall * offset, RECALL_M)
    pivot = (at.rest() if at.is_over else sway.pivot[i]) + offset + (1.0 + w.capture) * error
    # Hull `(h, 2)` [m] of the corners that bear the figure: of feet that stand, else of any
    low = at.steps.floor.gaps(at.points) < NEAR_M
    planned = low & np.array([[foot.is_down] for foot in at.steps.feet])
    planned[:, :4] |= np.array([[foot.phase == FLAT] for foot in at.steps.feet])
    bearing = planned if planned.any() else low
    hull = convex_hull(at.points[bearing][:, HORIZONTAL_AXES])
    if len(hull):
        pivot = project_into_hull(hull, pivot + sway.shift[i], EDGE_M) - sway.shift[i]
    rise = at.steps.floor.rise(pivot)
    wanted, then = (np.array([v[0], v[1] + rise @ v[HORIZONTAL_AXES], v[2]]) for v in at.rates(sway.velocity))
    # Place [m] that the clip asks for, moved as the feet are
    x, y, z = sway.com[i]
    place = np.array([x, y + at.steps.floor.height(sway.pivot[i] + offset), z]) + np.insert(offset, 1, 0.0)
    target = correct_velocity((h, w.com_per_s), now, wanted, then, place - com)
    if at.push_s > 0.0:
        # Height and its speed come back by the push-off, with the least squared acceleration
        left_s = max(at.push_s - SPENT_S, LEAST_PUSH_S)
        late, low = wanted[1] - now[1], place[1] - com[1]
        target[1] = now[1] + then[1] - wanted[1] + h * (4.0 * late / left_s + 6.0 * low / left_s**2)
    target[HORIZONTAL_AXES] = now[HORIZONTAL_AXES] + h * sway.stiffness[i] * (com[HORIZONTAL_AXES] - pivot)
    scale = np.array([1.0, np.sqrt(w.height), 1.0])
    return RowsTask(scale[:, None] * at.here.com_jacobian, scale * target, weight=w.com)


def turn_rows(at: TrackingStep, moving: IntArray, is_leg: BoolArray) -> list[RowsTask]:
    """Angular momentum, turn of the root and angles of the joints that move, some of legs, if they have weights."""
    w, r, here, laws = at.weights, at.reference, at.here, list[RowsTask]()
    back = (SO3.from_matrix(here.frames[0]).inverse() @ r.motion.rotations[at.frame, 0]).log()
    if w.momentum > 0.0:
        # Angular momentum of the clip, and what turns the whole body back to it, per kilogram
        mass, matrix = at.simulator.body.mass_kg, here.momentum_matrix()[:3]
        now, error = matrix @ at.velocity, matrix[:, :3] @ back
        target = correct_velocity((at.dt, w.momentum_per_s), now, *at.rates(r.momenta), error)
        target -= (matrix - at.before.momentum_matrix()[:3]) @ at.velocity
        laws.append(RowsTask(matrix / mass, target / mass, weight=w.momentum))
    if w.root > 0.0:
        rates = at.rates(r.velocities[:, :3])
        target = correct_velocity((at.dt, w.root_per_s), at.velocity[:3], *rates, back)
        laws.append(RowsTask(np.eye(3, at.velocity.size), target, weight=w.root))
    if w.pose > 0.0:
        turns = here.turns[moving].reshape(3 * len(moving), -1)
        matrix = np.concatenate([np.zeros((len(turns), 6)), turns], axis=1)
        turned = at.simulator.state.rotations[moving].inverse() @ r.motion.rotations[at.frame][moving]
        wanted, then = (values[moving].ravel() for values in at.rates(r.rates))
        now, error = turns @ at.velocity[6:], turned.log().ravel()
        target = correct_velocity((at.dt, w.pose_per_s), now, wanted, then, error)
        scale = np.repeat(np.where(is_leg, np.sqrt(w.legs), 1.0), 3)
        laws.append(RowsTask(scale[:, None] * matrix, scale * target, weight=w.pose))
    return laws


MOST_REACH: Final = 1.5  # [-] of the weight of a task: more costs the balance
PULL_M: Final = 0.12  # [m] of a point from its goal: a goal that is further, or out of reach, pulls no harder


def reach_rows(at: TrackingStep, task: PointTask, com_target: FloatArray) -> RowsTask:
    """A point that is to be at a place, by a bounded acceleration: a goal out of reach must not cost the balance."""
    joint = task.joint if isinstance(task.joint, int) else at.simulator.body.skeleton.index(task.joint)
    jacobian = at.here.point_jacobian(joint, task.point)
    away = _limit_length(task.goal.reshape(3) - at.here.point(joint, task.point), PULL_M)
    zero, here = np.zeros(3), at.here
    target = correct_velocity((at.dt, at.weights.reach_per_s), jacobian @ at.velocity, zero, zero, away)
    # The rest of the body moves the point, and the centre of mass goes where balance has it: J (v - v_c) + J v_c
    across = np.linalg.solve(here.inertia, here.com_jacobian.T)
    shift = across @ np.linalg.inv(here.com_jacobian @ across)
    part = jacobian @ shift
    jacobian, target = jacobian - part @ here.com_jacobian, target - part @ com_target
    weight = min(float(np.asarray(task.weight, dtype=np.float64).mean()), MOST_REACH)
    return RowsTask(jacobian, target, weight=at.weights.reach * weight, priority=task.priority)


RECALL_M: Final = 0.03  # [m] that pressure and landings lead back to the clip's place at most: no figure hurries back
LOOK_AHEADS: Final = 8  # moments until a landing in which the capture point is foreseen
LONGEST_S: Final = 0.7  # [s] that the capture point is foreseen at most
APART_M: Final = 0.03  # [m] feet keep to their sides by as much, if the clip does
LANDING_PHASE: Final = 0.8  # [-] fraction of its height that a landing foot moves down per step
DOWN_M_S: Final = 0.5  # [m/s] at most
DOWN_RAD_S: Final = 4.0  # [rad/s] at most


def foot_rows(at: TrackingStep, side: int) -> RowsTask:
    """A foot held by its supporting edge, or swinging to the target of clip and balance."""
    w, r, here, foot = at.weights, at.reference, at.here, at.steps.feet[side]
    joint, middle, sole = sole_frame(at.simulator.body.skeleton, SIDES[side])
    frame, turning = SO3.from_matrix(here.frames[joint]), here.frames[joint].T @ here.angular[joint]
    pace, spin = (at.dt, w.foot_per_s), turning @ at.velocity
    if foot.phase != FLAT:
        # Place and velocity of the sole: the clip's, moved by the offset of its landing, over the floor
        now, then = at.rates(r.sole_rates[:, side])
        if foot.is_down:
            goal = SwingTarget(np.insert(foot.offset, 1, 0.0), np.zeros(3))
        else:
            goal = at.steps.swing(at.step, side, landing_offset(at, side))
        place = r.soles[at.frame, side] + goal.offset
        place[1] += at.steps.floor.height(place[HORIZONTAL_AXES])
        velocity = goal.velocity + now
        velocity[1] += at.steps.floor.rise(place[HORIZONTAL_AXES]) @ velocity[HORIZONTAL_AXES]
        jacobian, away = here.point_jacobian(joint, middle), place - here.point(joint, middle)
        shift = correct_velocity(pace, jacobian @ at.velocity, velocity, velocity + then - now, away)
        # J(q') v' is about J(q) v' + (J(q') - J(q)) v: without the second part a fast leg lags behind
        shift -= (jacobian - at.before.point_jacobian(joint, middle)) @ at.velocity
        # Turn of the foot: the clip's, tilted to the floor; turns count in metres by the length of a sole
        normal = at.steps.floor.normal(place[HORIZONTAL_AXES])
        aim = (frame.inverse() @ SO3.from_two_vectors(UP, normal) @ SO3(r.foot_turns[at.frame, side])).log()
        turn = correct_velocity(pace, spin, *at.rates(r.foot_rates[:, side]), aim)
        if foot.is_down and (at.landings is not None or at.push_s > 0.0):
            # The edge that pushes off stays where it is
            edge = at.steps.soles.corners[side, EDGE_CORNERS[foot.edge]].mean(axis=0)
            jacobian = here.point_jacobian(joint, edge)
            shift = np.array([0.0, -at.steps.floor.gaps(at.points)[side, EDGE_CORNERS[foot.edge]].mean() / at.dt, 0.0])
            shift -= (jacobian - at.before.point_jacobian(joint, edge)) @ at.velocity
        matrix = np.concatenate([jacobian, SOLE_ARM_M * turning])
        return RowsTask(matrix, np.concatenate([shift, SOLE_ARM_M * turn]), weight=w.swing)
    # The edge that holds a foot comes down to its anchor, and the sole is laid on the floor
    edge = at.steps.soles.corners[side, EDGE_CORNERS[foot.edge]].mean(axis=0)
    jacobian = here.point_jacobian(joint, edge)
    away = foot.anchor - here.point(joint, edge)
    shift = _limit_length(np.array([0.0, LANDING_PHASE, 0.0]) * away / at.dt, DOWN_M_S)
    normal = at.steps.floor.normal(foot.anchor[HORIZONTAL_AXES])
    flat = SO3.from_matrix(sole_target(here.frames[joint] @ sole, normal, None) @ sole.T)
    turn = _limit_length(LANDING_PHASE * (frame.inverse() @ flat).log() / at.dt, DOWN_RAD_S)
    part = np.sqrt(w.roll / w.stance)
    return RowsTask(np.concatenate([jacobian, part * turning]), np.concatenate([shift, part * turn]), weight=w.stance)


def _limit_length(vector: FloatArray, most: float) -> FloatArray:
    """Vector, shortened to a length."""
    return vector * min(1.0, most / max(float(np.linalg.norm(vector)), 1e-9))


def landing_offset(at: TrackingStep, side: int) -> FloatArray:
    """Offset ``(2,)`` [m] of a landing from the clip: that of the other foot plus a correction for balance."""
    other, foot = at.steps.feet[1 - side], at.steps.feet[side]
    if foot.is_returning:
        return other.offset
    if foot.is_own:
        # A step of its own catches the figure: the capture point, as far as it will have run away by the landing
        stance = at.points[1 - side, :4][:, HORIZONTAL_AXES]
        point, until_s = at.capture_point(), max(foot.due - at.step, 0) * at.dt
        push = project_into_hull(convex_hull(stance), point, 0.0)
        away = (point - push) * np.exp(at.sway.frequency * until_s)
        away = away * (1.0 + at.weights.beyond_m / max(float(np.linalg.norm(away)), 1e-9))
        way = push + away - stance.mean(axis=0)
        way = _limit_length(way, at.weights.longest_stride_m)
        offset = stance.mean(axis=0) + way - at.reference.soles[at.frame, side][HORIZONTAL_AXES]
        return _avoid_crossing(at, side, offset)
    base = other.offset if other.is_down else at.steps.offset
    if foot.due >= len(at.reference):  # it never lands
        return base
    if at.leap_s is not None:
        # Both feet land where the capture point will be, off the clip's
        level = at.here.com + (at.leap_s + 1.0 / at.sway.frequency) * at.com_velocity()
        away = level[HORIZONTAL_AXES] - at.sway.capture(foot.due) - base
        return base + _limit_length(away, at.weights.longest_step_m)
    if at.landings is not None:
        away, drift = at.here.com - at.sway.com[at.frame], at.com_velocity() - at.rates(at.sway.velocity)[0]
        feet = [one.offset for one in at.steps.feet]
        state = np.stack([away[HORIZONTAL_AXES], drift[HORIZONTAL_AXES], *feet])
        away = at.landings.foresee(state, at.frame, foot.due, side) - base
        return base + _limit_length(away, at.weights.longest_step_m)
    left_s = min(max(foot.due - at.step, 0) * at.dt, LONGEST_S)
    # Error (2,) [m] of the capture point e when a foot lands: de/dt = omega (e - u)
    error, sway, last = at.capture_error(), at.sway, len(at.reference) - 1
    level = at.points[1 - side][:, HORIZONTAL_AXES] - at.steps.offset
    sole, ball = convex_hull(level[:4]), convex_hull(level[2:])
    h = left_s / LOOK_AHEADS
    grow = np.exp(sway.frequency * h)
    for n in range(LOOK_AHEADS if left_s > 0.0 else 0):
        # Pressure that the law would ask for at this time, within the sole; the error grows by omega
        i = min(at.frame + round((n + 0.5) * h / at.dt), last)
        pivot = sway.pivot[i] + sway.shift[i]
        hull = ball if at.steps.schedule.phases[i, 1 - side] == BALL else sole
        push = project_into_hull(hull, pivot + (1.0 + at.weights.capture) * error, EDGE_M) - pivot
        error = push + grow * (error - push)
    # e' = e^(wT) (e - o) + o over the next stance: a foot that lands beyond the error leads back to the clip's place
    landed = base + at.weights.step * error
    landed = landed + _limit_length(at.weights.recall * landed, RECALL_M)
    return base + _limit_length(landed - base, at.weights.longest_step_m)


def _avoid_crossing(at: TrackingStep, side: int, offset: FloatArray) -> FloatArray:
    """Offset of a landing that does not cross the leg that stands, for steps that the clip does not have.

    Those of the clip go where balance needs them: captured walks and turns put a foot across, and a foot that is kept
    off its place loses more than one that crosses.
    """
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

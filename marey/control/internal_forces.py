"""Controller: internal forces that make a simulated figure follow its tasks.

Strength is the largest force of each actuator, from the maximal joint torques. In the physics of a step,
actuators hold on to the speeds that were planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.control.balance import Support
from marey.control.problem import ROOT_SIZE, ControlProblem
from marey.control.solvers import (
    RANK,
    ControlSolution,
    Relaxation,
    find_pressing_rows,
    refine_contacts,
    solve_control,
    solve_strictly,
)
from marey.control.task_controller import PlannedStep, TaskController, solve_constrained
from marey.control.task_laws import Feature, Stance, control_form, encode_poses, stance_features
from marey.control.tasks import SIDES, ControlTask, Drive
from marey.dynamics import Body
from marey.numerics import SolveStatus
from marey.simulate import PointForce, Simulator, State, StepSystem
from marey.simulate.constrained_step import make_rows
from marey.simulate.contact import NO_REACH_M
from marey.skeleton import NO_PARENT, Pose, role_map

if TYPE_CHECKING:
    from marey.simulate.constraints import ConstraintSolution

TABLE_MASS_KG: Final = 45.0  # of the figure of the table; torques grow with mass
TORQUES_NM: Final = {  # the figure of [Peng2018]_; wrists, collars and balls of the feet are ours
    "hip": 200.0,
    "knee": 150.0,
    "ankle": 90.0,
    "foot": 30.0,
    "spine1": 200.0,
    "spine2": 200.0,
    "spine3": 200.0,
    "neck": 50.0,
    "head": 50.0,
    "collar": 100.0,
    "shoulder": 100.0,
    "elbow": 60.0,
    "wrist": 15.0,
}
NAMELESS: Final = 0.5  # [-] a joint without a part in the body has this share of the one above it


def joint_strength(body: Body) -> FloatArray:
    """Largest torque ``(J,)`` [N m] of each joint; zero for the root."""
    skeleton, scale = body.skeleton, body.mass_kg / TABLE_MASS_KG
    names = {number: role for role, number in role_map(skeleton).joints.items()}
    torques = np.zeros(skeleton.num_joints)
    for j in range(1, skeleton.num_joints):
        part = names.get(j, "").removeprefix("left_").removeprefix("right_")
        above = int(skeleton.parents[j])
        if part in TORQUES_NM:
            torques[j] = scale * TORQUES_NM[part]
        elif above in (NO_PARENT, 0):  # next to the root: the bones of the hips and the lowest of the back
            torques[j] = scale * TORQUES_NM["hip"]
        else:
            torques[j] = NAMELESS * torques[above]
    return torques


def actuator_strength(simulator: Simulator) -> FloatArray:
    r"""Largest generalised force ``(k,)`` [N m] of each actuator: :math:`\sum_i \|v_{j,i}\|\,\tau_i` over the joints i.

    A mode j that turns the joint i by :math:`v_{j,i}` per unit can use the torque of all of them. The thesis raises its
    bounds until the figure stands ([Tournier2011]_ §14.2); these are ours.
    """
    turns = simulator.mechanics().turns  # (J, 3, k)
    return np.linalg.norm(turns, axis=1).T @ joint_strength(simulator.body)


ROUNDING: Final = 1e-9  # [-] of its bound by which an actuator may seem to be above it


class ActuatedStep(NamedTuple):
    """Result of a planned step."""

    velocity: FloatArray  # (d,)
    actuation: FloatArray  # (k,) impulses
    system: StepSystem  # the step with its actuation
    outcome: ConstraintSolution | None  # of the constraints


def actuate_step(
    simulator: Simulator, system: StepSystem, plan: ControlSolution, strongest: FloatArray, slack_speed: float
) -> ActuatedStep:
    r"""Physics of a step under a plan's actuation.

    .. math:: (M + K)\,v = f + A^T\mu + K\,v_{plan} + J^T\lambda,\qquad \mu' = \mu + K\,(v_{plan} - v)

    which are internal forces, too. Where contacts push as planned, K does nothing; where they do not, a foot would
    whirl under a torque that was meant for the whole body ([Tournier2011]_ has K = 0). Actuators stay within their
    bounds.

    Args:
        simulator: the figure.
        system: its step without actuation.
        plan: actuation ``(k,)`` and velocity ``(d,)`` of the control programme.
        strongest: largest impulse ``(k,)`` of each actuator.
        slack_speed: by how much [rad/s] an actuator at full strength may miss its planned speed.
    """
    # K: full strength at a speed error of `slack_speed`
    stiff = strongest / slack_speed if isfinite(slack_speed) else np.zeros_like(strongest)
    wanted, actuation, size = plan.planned_velocity[ROOT_SIZE:], plan.actuation, system.rhs.size
    over = np.zeros_like(strongest, dtype=np.bool_)
    while True:
        inertia, rhs = np.array(system.damped), np.array(system.rhs)
        inertia.reshape(-1)[ROOT_SIZE * (size + 1) :: size + 1] += stiff
        rhs[ROOT_SIZE:] += actuation + stiff * wanted
        velocity, outcome = solve_constrained(simulator, replace(system, damped=inertia, rhs=rhs))
        whole = actuation + stiff * (wanted - velocity[ROOT_SIZE:])
        # Once more, with those that are above their bounds at them
        is_second, over = over.any(), np.abs(whole) > (1.0 + ROUNDING) * strongest
        if is_second or not over.any():
            break
        stiff = np.where(over, 0.0, stiff)
        actuation = np.where(over, np.clip(whole, -strongest, strongest), actuation)
    # Internal forces of the step, within their bounds
    realised = np.clip(whole, -strongest, strongest)
    inner = np.concatenate([np.zeros(ROOT_SIZE), realised])
    pushed = replace(system, rhs=system.rhs + inner, outer=system.outer + inner / system.dt)
    return ActuatedStep(velocity, realised, pushed, outcome)


Hierarchy = Literal["weights", "strict"]
HIERARCHIES: Final[tuple[Hierarchy, ...]] = ("weights", "strict")
MAX_HALVINGS: Final = 2  # times that a step is halved
MAX_ROTATION_RAD: Final = 0.5  # [rad] of a segment in one step; more is beyond explicit forces
SOFT_RANK: Final = 1e-2  # [-] few modes cannot do everything at once: what a level hardly feels, it leaves free
BRAKE_SPEED: Final = 0.1  # [rad/s] at which actuators that only brake use their full strength
DAMPING_WEIGHT: Final = 1e-3  # [s²/rad²] of the speeds of all joints, far below any goal
FADE_FACTOR: Final = 0.9  # [-] of the last actuation, where no new one can be found


@dataclass(frozen=True, slots=True, eq=False)
class ControlReport:
    """Report of one control step."""

    actuation: FloatArray  # (k,) mean generalised forces [N m] during the step
    planned_velocity: FloatArray  # (d,) predicted by the programme
    realised_velocity: FloatArray  # (d,) what came of it
    gap_j: float  # [J] how much the plan counted on contacts that do not touch
    errors: tuple[float, ...]  # of the tasks before the step, [m] or [rad], or standard deviations
    status: SolveStatus
    support: Support | None  # what the figure stands on

    @property
    def is_planned(self) -> bool:
        """False where no plan was found and the last actuation was faded out."""
        return self.status is SolveStatus.CONVERGED


@final
class Controller(TaskController[ControlReport]):
    """A figure that obeys both physics and its tasks, by forces from inside alone.

    Each step solves two quadratic programmes: one for the actuation, in which contacts are relaxed, and the
    simulator's own, which says what comes of it. [Tournier2011]_ §14.2. The first knows where the figure is and how it
    moves, and no external force: pushes are not anticipated.

    Args:
        simulator: the figure, its ground and its limits.
        tasks: what it is told: tasks of ``marey.kinematics`` and of ``marey.control``, each alone or in a ``Drive``
            with gains of its own. New ones may be set at any time.
        relaxation: what the plan pays for contacts, by name or with its weights.
        strength: weight of the kinetic energy of the actuation, in place of the relaxation's own.
        laziness: weight of its squared work; often makes a figure fall.
        strongest: largest generalised force of each actuator ``(k,)`` or of all [N m]; by default what the torques of
            human joints allow.
        stance: feet that stay where they stand: any of "left" and "right". The others may be lifted, and push if they
            happen to touch. It can be changed at any time.
        hierarchy: "weights" weighs all tasks against one another; "strict" lets a task act only where those of lower
            priority number leave it free.
        polish: make the plan true, contact by contact, before it is carried out.
        slack_speed: by how much [rad/s] an actuator at full strength may miss its planned speed where contacts do not
            push as planned; infinity leaves the torques as planned.
        preview: take the plan's own velocity, as if it were true. It looks robust and is not physics.
    """

    def __init__(
        self,
        simulator: Simulator,
        tasks: Iterable[ControlTask | Drive] = (),
        *,
        relaxation: str | Relaxation = "gap",
        strength: float | None = None,
        laziness: float | None = None,
        strongest: ArrayLike | None = None,
        stance: Stance = ("left", "right"),
        hierarchy: Hierarchy = "weights",
        polish: bool = True,
        slack_speed: float = 10.0,
        preview: bool = False,
    ) -> None:
        if hierarchy not in HIERARCHIES:
            raise UnknownNameError("hierarchy", str(hierarchy), "the controller", HIERARCHIES)
        self.hierarchy, self.polish, self.preview = hierarchy, polish, preview
        chosen = Relaxation(relaxation) if isinstance(relaxation, str) else relaxation
        given = {"strength": strength, "laziness": laziness}
        self.relaxation = replace(chosen, **{name: value for name, value in given.items() if value is not None})
        # Largest generalised force (k,) [N m] of each actuator: as given, for each or for all, or by the joints
        count = simulator.num_dof - ROOT_SIZE
        if count < 1:
            raise InputError("the figure has no actuator", "Give it a model with modes, or none for the full space")
        if strongest is None:
            self.strongest = frozen(actuator_strength(simulator), count, name="strongest")
        else:
            bounds = frozen(strongest, name="strongest")
            if bounds.shape not in ((), (count,)):
                raise InputError(
                    f"strongest has shape {bounds.shape}", f"Give one bound, or one for each of {count} actuators"
                )
            if (bounds < 0.0).any():
                raise InputError("an actuator has a negative bound", "Give forces that are not negative")
            self.strongest = frozen(np.broadcast_to(bounds, count), count, name="strongest")
        if not slack_speed > 0.0:
            raise InputError(f"slack_speed is {slack_speed}", "Give a speed above zero; infinity is one")
        self.stance, self.slack_speed = stance, slack_speed
        self.bearing: tuple[str, ...] = ()  # parts of other feet that should press, such as "left_ball"
        self.reach_m = NO_REACH_M  # [m] that they may be above the ground and are brought down to it in one step
        super().__init__(simulator, tasks)

    @property
    def stance(self) -> tuple[str, ...]:
        """Feet that stay where they stand."""
        return self._stance

    @stance.setter
    def stance(self, stance: Stance) -> None:
        feet = tuple(stance)
        for side in feet:
            if side not in SIDES:
                raise UnknownNameError("foot", str(side), "the stance", SIDES)
        self._stance = feet

    def _step_limits(self) -> tuple[int, float]:
        return MAX_HALVINGS, MAX_ROTATION_RAD

    def _plan_step(self, system: StepSystem, forces: tuple[PointForce, ...]) -> PlannedStep[ControlReport]:
        dt = system.dt
        # The programme knows the step without forces from outside, which come as a surprise
        known = self.simulator.system(dt) if forces else system
        here = known.mechanics
        features, errors = self._goals(known)
        # Contacts, limits and pins of the step, with friction as bounds on tangential impulses
        rows, figure = make_rows(np.zeros((0, known.rhs.size)), np.zeros(0), is_equality=True, name=""), self.simulator
        if figure.constrainer is not None:
            rows = figure.constrainer.rows(
                here, figure.state, dt, figure.memory, friction="staggered", reach_m=self.reach_m
            )
        rows, standing, expected = stance_features(rows, self._stance, dt, figure, here, self.bearing, self.reach_m)
        # Damping of joints that no task controls
        turns = here.turns.reshape(-1, here.turns.shape[2])
        matrix = np.concatenate([np.zeros((len(turns), ROOT_SIZE)), turns], axis=1)
        calm = Feature(matrix, np.zeros(len(turns)), DAMPING_WEIGHT)
        # Features are goals, or fences that may be broken at a price
        strongest, size = self.strongest * known.dt, known.rhs.size
        fences = [feature for feature in [*features, calm] if feature.is_fence]
        quadratic, linear = control_form([feature for feature in [*features, calm] if not feature.is_fence], size)
        is_equal = np.isneginf(rows.lower) & (rows.partners < 0)
        problem = ControlProblem(
            *(known.damped, known.rhs, rows.J, rows.b, is_equal, quadratic, linear, strongest),
            rows.partners,
            rows.grips,
            np.concatenate([np.zeros((0, size)), *(fence.matrix for fence in fences)]),
            np.concatenate([np.zeros(0), *(fence.target for fence in fences)]),
        )
        # Goals of each level, first things first; fences count at all of them
        ranks = sorted({feature.level for feature in features if not feature.is_fence})
        levels = [[f for f in features if f.level == rank and not f.is_fence] for rank in ranks]
        # Plan of the step: mechanics, contacts and goals first, then the goals level by level
        stance = control_form(standing, size)
        whole = problem.with_goals(problem.goal_matrix + stance[0], problem.goal_vector + stance[1])
        if self.polish or self.hierarchy == "strict":
            plan = refine_contacts(whole, self.relaxation, expected)
        else:
            plan = solve_control(whole, self.relaxation)
        if plan.is_solved and self.hierarchy == "strict":
            # In a strict hierarchy the contacts of that plan are kept
            closed = find_pressing_rows(problem, plan)
            rank = RANK if self.simulator.model is None else SOFT_RANK
            relaxation = replace(self.relaxation, name="none")
            plan = solve_strictly(problem, relaxation, [standing, *levels, [calm]], closed, rank=rank)
        # Without a plan the last actuation fades
        if not plan.is_solved:
            last = np.zeros(self.strongest.size) if self._report is None else self._report.actuation
            plan = replace(plan, actuation=FADE_FACTOR * last * dt)
        # Physics of the step under the plan
        slack = self.slack_speed if plan.is_solved else inf
        done = actuate_step(self.simulator, system, plan, self.strongest * dt, slack)
        velocity = plan.planned_velocity if self.preview and plan.is_solved else done.velocity
        support = self._support

        def report(state: State) -> ControlReport:
            planned = (plan.planned_velocity, state.velocity, plan.gap, errors, plan.status, support)
            return ControlReport(done.actuation / dt, *planned)

        return PlannedStep(done.system, velocity, done.outcome, report)

    def _brake_step(
        self, attempt: PlannedStep[ControlReport], system: StepSystem, forces: tuple[PointForce, ...]
    ) -> State:
        """One step in which all actuators brake, where every plan is unstable."""
        dt, count = system.dt, self.strongest.size
        still = ControlSolution(np.zeros(count), np.zeros(system.rhs.size), np.zeros(0), 0.0, SolveStatus.STALLED)
        done = actuate_step(self.simulator, system, still, self.strongest * dt, BRAKE_SPEED)
        inner = np.concatenate([np.zeros(ROOT_SIZE), np.nan_to_num(done.actuation / dt)])
        state = self.simulator.step(dt, forces, generalised_force=inner)
        braking, velocity = inner[ROOT_SIZE:], state.velocity
        told = replace(attempt.report(state), actuation=braking, planned_velocity=velocity, gap_j=0.0)
        self._report = replace(told, status=SolveStatus.STALLED)
        return state


@dataclass(frozen=True, slots=True, eq=False)
class Keyframe:
    """A state of a pose state machine: holds a pose for a duration, then continues with the next."""

    pose: Pose
    duration_s: float = 1.0

    def __post_init__(self) -> None:
        if not (isfinite(self.duration_s) and self.duration_s > 0.0):
            raise InputError(f"duration_s is {self.duration_s}", "Give a finite time above zero")


class PDController:
    r"""Springs and dampers at every joint or mode: the baseline that control is measured against.

    .. math:: \tau = \kappa_p\,e + \kappa_d\,\dot e

    taken at the end of the step, so that any gains are stable. [Tournier2011]_ §15.3. Gains are multiplied by the
    inertia of each coordinate: stiffness is a squared frequency. The poses follow one another in time and the last one
    stays, or they begin again.

    Args:
        simulator: the figure, its ground and its limits.
        keyframes: poses to hold, one after another.
        stiffness: :math:`\kappa_p` per inertia [1/s²].
        damping: :math:`\kappa_d` per inertia [1/s].
        repeats: begin again after the last pose.
    """

    def __init__(
        self,
        simulator: Simulator,
        keyframes: Sequence[Keyframe],
        *,
        stiffness: float = 400.0,
        damping: float = 40.0,
        repeats: bool = False,
    ) -> None:
        if not keyframes:
            raise InputError("there is no pose to hold", "Give at least one Keyframe")
        for name, value in (("stiffness", stiffness), ("damping", damping)):
            if not (isfinite(value) and value >= 0.0):
                raise InputError(f"{name} is {value}", "Give a finite number that is not negative")
        self.simulator, self.keyframes, self.repeats = simulator, tuple(keyframes), repeats
        self.stiffness, self.damping = stiffness, damping
        self.strongest = actuator_strength(simulator)
        # Poses as coordinates, or as they are in the full space
        poses = [k.pose for k in self.keyframes]
        self._targets = list(poses) if simulator.model is None else list(encode_poses(poses, simulator))
        self._ends = np.cumsum([k.duration_s for k in self.keyframes])

    def keyframe_at(self, time_s: float) -> int:
        """Number of the pose that is held at a time."""
        time_s = time_s % float(self._ends[-1]) if self.repeats else time_s
        return min(int(np.searchsorted(self._ends, time_s, side="right")), len(self.keyframes) - 1)

    def step(self, dt: float, forces: Iterable[PointForce] = ()) -> State:
        """Move the figure on by ``dt`` [s] under its springs."""
        simulator, pushes = self.simulator, tuple(forces)
        system = simulator.system(dt, pushes)
        weight = np.diag(system.damped)[ROOT_SIZE:]
        kp, kd = self.stiffness * weight, self.damping * weight
        # How far (k,) the figure is from the pose
        state, target = simulator.state, self._targets[self.keyframe_at(simulator.state.time_s)]
        if isinstance(target, Pose):
            joints = simulator.mechanism.joints
            error = (target.rotations[joints].inverse() @ state.rotations[joints]).log().ravel()
        else:
            error = state.coordinates - target
        stiff = np.array(system.damped)
        stiff[np.arange(ROOT_SIZE, stiff.shape[0]), np.arange(ROOT_SIZE, stiff.shape[0])] += dt * (kd + dt * kp)
        rhs = np.array(system.rhs)
        rhs[ROOT_SIZE:] -= dt * kp * error
        rates = np.linalg.solve(stiff, rhs)[ROOT_SIZE:]
        torque = np.clip(-kp * (error + dt * rates) - kd * rates, -self.strongest, self.strongest)
        inner = np.concatenate([np.zeros(ROOT_SIZE), torque])
        return simulator.step(dt, pushes, generalised_force=inner)

r"""Tasks as features of one step: what each asks of a velocity, :math:`\Gamma v \approx \tilde\gamma`.

Features of feet need the soles, their pose on the ground, and the points of support.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.control.balance import SOLE_ARM_M, Support, hull_distances, sole_frame, sole_target
from marey.control.tasks import (
    Drive,
    FootTask,
    Gains,
    GazeTask,
    ModesTask,
    MomentumTask,
    RowsTask,
    SupportTask,
    gaze_frame,
    gaze_rate,
)
from marey.kinematics import ComTask, LookAtTask, OrientationTask, PointTask, PoseTask
from marey.lie import SO3
from marey.simulate import ConstraintRows, Mechanics, Simulator
from marey.simulate.contact import NO_REACH_M
from marey.skeleton import Pose, t_pose


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    r"""Rows :math:`\gamma(v) = \Gamma v - \tilde\gamma` with a weight and a level; [Tournier2011]_ §14.1.1."""

    matrix: FloatArray  # (r, d) Γ
    target: FloatArray  # (r,) γ̃
    weight: float = 1.0
    level: int = 0
    is_fence: bool = False  # Γ v need only be at least γ̃


def control_form(features: Iterable[Feature], size: int) -> tuple[FloatArray, FloatArray]:
    r"""Matrix ``(d, d)`` and vector ``(d,)`` of :math:`\frac12 v^TQv + c^Tv = \sum_i w_i\|\gamma_i(v)\|^2`."""
    quadratic, linear = np.zeros((size, size)), np.zeros(size)
    for feature in features:
        pulled = 2.0 * feature.weight * feature.matrix.T
        quadratic += pulled @ feature.matrix
        linear -= pulled @ feature.target
    return quadratic, linear


Stance = Iterable[str]
STICK_WEIGHT: Final = 1e4  # [s²/m²] points that stand stay: above all goals, below what must hold
FLAT_WEIGHT: Final = 1e3  # [s²/m²] soles that stand come down flat
STANCE_TOUCH_M: Final = 1e-3  # [m] points that come nearer than this in the step can support the figure
DOWN: Final = 0.2  # [-] part of a gap that a sole which stands closes in a step
DOWN_SPEED: Final = 0.1  # [m/s] at most


def _stance_rows(rows: ConstraintRows, stance: tuple[str, ...]) -> BoolArray:
    """Rows ``(m,)`` of the soles that stand."""
    starts = tuple(f"contact of {side}_{part}" for side in stance for part in ("heel", "ball"))
    return np.array([name.startswith(starts) for name in rows.names], dtype=np.bool_)


def stance_features(
    rows: ConstraintRows,
    stance: tuple[str, ...],
    dt: float,
    simulator: Simulator,
    here: Mechanics,
    bearing: tuple[str, ...] = (),
    reach_m: float = NO_REACH_M,
) -> tuple[ConstraintRows, list[Feature], BoolArray]:
    """Contact rows of a figure, features that keep its soles in place, and which rows ``(m,)`` should press.

    A plan must not lean on points that do not touch, so that these are left out. Points that touch by a hair are taken
    to touch: what leans on them brings them down.

    Args:
        rows: all rows of the step, with friction as bounds ("staggered").
        stance: feet that stand.
        dt: length of the step [s].
        simulator: the figure.
        here: its mechanics.
        bearing: parts of other feet that should press, such as "left_ball".
        reach_m: that these may be above the ground and come down to it in this step [m].
    """
    velocity = simulator.state.velocity
    # Points that are far from the ground now and after the step carry nothing
    stands = _stance_rows(rows, stance)
    is_normal = (rows.owners >= 0) & (rows.partners < 0)
    gaps = -rows.b * dt
    parts = tuple(f"contact of {part}" for part in bearing)
    bears = is_normal & np.array([name.startswith(parts) for name in rows.names], dtype=np.bool_)
    reaches = bears & (gaps <= reach_m)
    touch = np.where(bears, max(reach_m, STANCE_TOUCH_M), STANCE_TOUCH_M)
    far = is_normal & (gaps > touch) & (gaps + dt * (rows.J @ velocity) > touch)
    # Points of a standing foot that are off the ground come down
    lying = far & stands
    lie = Feature(rows.J[lying], -np.minimum(DOWN * gaps[lying] / dt, DOWN_SPEED), FLAT_WEIGHT)
    landing: list[Feature] = []
    for side in stance:
        if (lying & _stance_rows(rows, (side,))).any():
            # A sole that is still in the air comes down where it is
            joint, middle, _ = sole_frame(simulator.body.skeleton, side)
            level = np.concatenate([here.point_jacobian(joint, middle)[[0, 2]], here.angular[joint][1:2] * SOLE_ARM_M])
            landing.append(Feature(level, np.zeros(3), FLAT_WEIGHT))
    # Points within STANCE_TOUCH_M of the ground count as contacts
    near = is_normal & (gaps > 0.0) & (gaps <= STANCE_TOUCH_M) & ~reaches
    rows = replace(rows, b=np.where(near, -DOWN * gaps / dt, rows.b))
    stuck = ~far & (rows.owners >= 0) & (stands | (rows.partners >= 0))
    # Keep the near rows; rows of friction follow their normal rows to their new numbers
    kept = ~far
    numbers = np.cumsum(kept) - 1
    partners = np.where(rows.partners >= 0, numbers[rows.partners], -1)[kept]
    columns = ("J", "b", "lower", "upper", "directions", "owners", "slots", "grips", "priorities", "names")
    picked = {column: getattr(rows, column)[kept] for column in columns}
    presses = kept & is_normal & (stands | np.array([name.startswith(parts) for name in rows.names], dtype=np.bool_))
    features = [Feature(rows.J[stuck], rows.b[stuck], STICK_WEIGHT), lie, *landing]
    return replace(rows, partners=partners, **picked), features, presses[kept]


SLOW_GAINS: Final = Gains(3.0, 0.0)  # of the whole body, whose natural frequency limits the gain
MODERATE_GAINS: Final = Gains(5.0, 0.0)  # of poses, which settle what goals leave open
FAST_GAINS: Final = Gains()


@dataclass(frozen=True, slots=True, eq=False)
class StepContext:
    """A figure at the beginning of a step."""

    simulator: Simulator
    here: Mechanics
    dt: float
    support: Support | None

    def joint(self, joint: str | int) -> int:
        """Number of a joint by its name."""
        return self.simulator.body.skeleton.index(joint) if isinstance(joint, str) else joint


@dataclass(frozen=True, slots=True, eq=False)
class TaskLaw:
    """Error of a task and its rate."""

    error: FloatArray  # (r,)
    matrix: FloatArray  # (r, d)
    flow: FloatArray | None = None  # (r,) velocity of the target, in the rows' axes
    weight: FloatArray | float = 1.0
    gains: Gains = FAST_GAINS
    fence: FloatArray | None = None  # (s, d) rows that need only be at least ``fence_ends``
    fence_ends: FloatArray | None = None  # (s,)


def make_features(drive: Drive, scene: StepContext) -> tuple[list[Feature], float]:
    """Features of a task in one step (none where it is undefined), and its distance from its target."""
    law = task_law(drive.task, scene, drive.flow)
    if law is None:
        return [], 0.0
    level, d = drive.task.priority, scene.here.inertia.shape[0]
    features: list[Feature] = []
    if law.error.size:
        gains = law.gains if drive.gains is None else drive.gains
        flow = np.zeros(law.error.size) if law.flow is None else law.flow
        current = law.matrix @ scene.simulator.state.velocity
        back = gains.per_s(scene.dt) * law.error
        back = back * min(1.0, gains.fastest / max(float(np.linalg.norm(back)), 1e-12))
        target = flow - back - gains.damping * (current - flow)
        # One weight, one for each row, or a matrix of weights, by its root
        matrix, weight = law.matrix, 1.0
        if isinstance(law.weight, float | int):
            weight = float(law.weight)
        elif law.weight.ndim == 1:
            roots = np.sqrt(law.weight)
            matrix, target = roots[:, None] * matrix, roots * target
        else:
            values, vectors = np.linalg.eigh(law.weight)
            root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
            matrix, target = root @ matrix, root @ target
        features.append(Feature(matrix, target, weight, level))
    if law.fence is not None and law.fence_ends is not None:
        features.append(Feature(law.fence.reshape(-1, d), law.fence_ends, level=level, is_fence=True))
    return features, float(np.linalg.norm(law.error))


@singledispatch
def task_law(task: object, scene: StepContext, flow: FloatArray | None) -> TaskLaw | None:
    """Law of a task, or None where it asks for nothing."""
    raise InputError(f"a task is a {type(task).__name__}", "Pass PointTask, ComTask, MomentumTask ...")


@task_law.register
def _(task: PointTask, scene: StepContext, flow: FloatArray | None) -> TaskLaw:
    j, here = scene.joint(task.joint), scene.here
    place = here.point(j, task.point)
    return TaskLaw(place - _single_row(task.goal), here.point_jacobian(j, task.point), flow, _task_weight(task.weight))


@task_law.register
def _(task: OrientationTask, scene: StepContext, flow: FloatArray | None) -> TaskLaw:
    R = scene.here.frames[scene.joint(task.joint)]
    turned = SO3.from_matrix(R)
    error = (SO3(_single_row(task.goal, 4)).inverse() @ turned).log()
    matrix = R.T @ scene.here.angular[scene.joint(task.joint)]
    return TaskLaw(error, matrix, None if flow is None else R.T @ flow, _task_weight(task.weight))


@task_law.register
def _(task: LookAtTask, scene: StepContext, flow: FloatArray | None) -> TaskLaw | None:
    r"""Two of three rows: a turn about the gaze is free.

    With the gaze d and the view w, the head turns with :math:`\omega` across d, and the view with
    :math:`w\times\dot w/\|w\|^2`, where :math:`\dot w` counts the motion of the eye.
    """
    j, here = scene.joint(task.joint), scene.here
    gaze, view = here.frames[j] @ np.asarray(task.axis), _single_row(task.goal) - here.point(j, task.point)
    far = float(np.linalg.norm(view))
    if far < 1e-3:
        return None
    turn = SO3.from_two_vectors(view / far, gaze).log()
    # Turn of the view with the eye: w x / |w|^2 as a matrix
    along = np.array([[0.0, -view[2], view[1]], [view[2], 0.0, -view[0]], [-view[1], view[0], 0.0]]) / far**2
    matrix = here.angular[j] - np.outer(gaze, gaze @ here.angular[j]) + along @ here.point_jacobian(j, task.point)
    return TaskLaw(turn, matrix, None if flow is None else along @ flow, _task_weight(task.weight))


@task_law.register
def _(task: GazeTask, scene: StepContext, flow: FloatArray | None) -> TaskLaw | None:
    j, here = scene.joint(task.joint), scene.here
    view, up = task.goal - here.joints[j], np.asarray(task.up_world)
    wanted = gaze_frame(view, up)
    if wanted is None:
        return None
    frame = here.frames[j] @ task.offset
    eye = here.linear[j] @ scene.simulator.state.velocity
    rate = gaze_rate(wanted, view, (0.0 if flow is None else flow) - eye, up)
    error = SO3.from_matrix(wanted.T @ frame).log()
    return TaskLaw(error, frame.T @ here.angular[j], frame.T @ wanted @ rate, task.weight)


@task_law.register
def _(task: ComTask, scene: StepContext, flow: FloatArray | None) -> TaskLaw:
    here = scene.here
    return TaskLaw(here.com - _single_row(task.goal), here.com_jacobian, flow, _task_weight(task.weight), SLOW_GAINS)


@task_law.register
def _(task: MomentumTask, scene: StepContext, flow: FloatArray | None) -> TaskLaw:
    mass = scene.simulator.body.mass_kg
    matrix = scene.here.momentum_matrix()[:3] / mass
    return TaskLaw(np.zeros(3), matrix, task.goal / mass, task.weight, Gains(1.0, 0.0))


@task_law.register
def _(task: SupportTask, scene: StepContext, flow: FloatArray | None) -> TaskLaw | None:
    support, here = scene.support, scene.here
    if support is None:
        return None
    hold = support.hold(task.hold_s)
    if hold <= 0.0:
        return None
    # Centre of mass over the middle of the support at its height; a fence for the capture point
    middle = support.middle(task.centre)
    height = support.first_height_m if task.height_m is None else task.height_m
    error = here.com - middle - np.array([0.0, height, 0.0])
    weights = hold * task.weight * np.array([task.keeps_middle, task.keeps_height, task.keeps_middle], dtype=np.float64)
    kept = weights > 0.0
    fence = ends = None
    if task.margin_m is not None and len(support.hull) >= 3:
        # Rows that keep the capture point inside the hull: n^T dc/dt >= -distance / (h + sqrt(z / g))
        gravity = max(float(np.linalg.norm(scene.simulator.gravity)), 1e-6)
        above_m = max(float(here.com[1] - support.points[:, 1].mean()), 0.1)
        normals, inside = hull_distances(support.hull, here.com[[0, 2]])
        margin = min(task.margin_m, 0.5 * float(hull_distances(support.hull, support.hull.mean(axis=0))[1].min()))
        fence, ends = normals @ here.com_jacobian[[0, 2]], -(inside - margin) / (scene.dt + np.sqrt(above_m / gravity))
    flow = None if flow is None else flow[kept]
    return TaskLaw(error[kept], here.com_jacobian[kept], flow, weights[kept], SLOW_GAINS, fence, ends)


@task_law.register
def _(task: ModesTask, scene: StepContext, flow: FloatArray | None) -> TaskLaw:
    model = scene.simulator.model
    if model is None or task.goal.size != model.num_components:
        count = 0 if model is None else model.num_components
        raise InputError(f"a task for {task.goal.size} modes, of {count}", "Give as many coordinates as the model has")
    if task.metric == "joints":
        return _mode_law(task.goal, scene, flow, task.weight)
    units = np.diag(1.0 / np.maximum(model.deviations, 1e-9))
    return _mode_law(task.goal, scene, flow, task.weight, units)


@task_law.register
def _(task: RowsTask, scene: StepContext, flow: FloatArray | None) -> TaskLaw:
    size = scene.here.inertia.shape[0]
    if task.rows.shape[1] != size:
        raise InputError(f"rows for {task.rows.shape[1]} velocities, of {size}", "Give one column for each of them")
    return TaskLaw(np.zeros(task.goal.size), task.rows, task.goal, task.weight, Gains(1.0, 0.0))


def _mode_law(
    goal: FloatArray, scene: StepContext, flow: FloatArray | None, weight: float, units: FloatArray | None = None
) -> TaskLaw:
    r"""Coordinates in units ``(k, k)``; by default such that squares are those of joint angles, summed over joints.

    With the turns :math:`T_j` of the joints per unit of each coordinate, :math:`U^TU = \sum_j T_j^TT_j`.
    """
    if units is None:
        turns = scene.here.turns.reshape(-1, goal.size)
        factor = np.linalg.cholesky(turns.T @ turns + 1e-12 * np.eye(goal.size))
        units = np.asarray(factor.T, dtype=np.float64)
    _check_flow(flow, goal.size)
    matrix = np.zeros((goal.size, scene.here.inertia.shape[0]))
    matrix[:, 6:] = units
    error = units @ (scene.simulator.state.coordinates - goal)
    return TaskLaw(error, matrix, None if flow is None else units @ flow, weight, MODERATE_GAINS)


@task_law.register
def _(task: PoseTask, scene: StepContext, flow: FloatArray | None) -> TaskLaw:
    simulator = scene.simulator
    if simulator.model is None:
        # Every joint in its own frame, in the full space
        joints, d = simulator.mechanism.joints, scene.here.inertia.shape[0]
        state, pose = simulator.state, t_pose(simulator.body.skeleton) if task.pose is None else task.pose
        error = (pose.rotations[joints].inverse() @ state.rotations[joints]).log().ravel()
        matrix = np.eye(d)[6:]
        if task.joints is not None:
            chosen = np.repeat(np.isin(joints, [scene.joint(j) for j in task.joints]), 3)
            error, matrix = error[chosen], matrix[chosen]
        _check_flow(flow, error.size)
        law = TaskLaw(error, matrix, flow, task.weight, MODERATE_GAINS)
    else:
        mean = np.zeros(simulator.model.num_components)
        law = _mode_law(
            mean if task.pose is None else encode_poses([task.pose], simulator)[0], scene, flow, task.weight
        )
    if task.root_weight == 0.0 or task.pose is None:
        return law
    # Six more rows, for the root's turn and place
    here, root = scene.here, task.pose
    R = here.frames[0]
    turn = (root.rotations[0].inverse() @ SO3.from_matrix(R)).log()
    error = np.concatenate([law.error, turn, here.joints[0] - root.root_position])
    matrix = np.concatenate([law.matrix, R.T @ here.angular[0], here.linear[0]])
    flow = None if law.flow is None else np.concatenate([law.flow, np.zeros(6)])
    weights = np.concatenate([np.full(law.error.size, law.weight), np.full(6, task.root_weight)])
    return TaskLaw(error, matrix, flow, weights, law.gains)


def _check_flow(flow: FloatArray | None, size: int) -> None:
    if flow is not None and flow.size != size:
        raise InputError(f"a target moves in {flow.size} coordinates, of {size}", "Give a velocity for each of them")


@task_law.register
def _(task: FootTask, scene: StepContext, flow: FloatArray | None) -> TaskLaw:
    here, (joint, middle, sole) = scene.here, sole_frame(scene.simulator.body.skeleton, task.side)
    R = here.frames[joint] @ sole
    wanted = sole_target(R, np.asarray(task.normal), task.heading_rad)
    turn = SO3.from_matrix(wanted.T @ R).log()
    error = np.concatenate([here.point(joint, middle) - task.goal, SOLE_ARM_M * turn])
    matrix = np.concatenate([here.point_jacobian(joint, middle), SOLE_ARM_M * R.T @ here.angular[joint]])
    moving = None if flow is None else np.concatenate([flow, np.zeros(3)])
    return TaskLaw(error, matrix, moving, task.weight)


def encode_poses(poses: Sequence[Pose], simulator: Simulator) -> FloatArray:
    """Coordinates ``(n, k)`` of poses in a simulator's model."""
    from marey.motion import Motion

    model = simulator.model
    assert model is not None
    places = np.stack([pose.root_position for pose in poses])
    return model.encode(Motion(model.skeleton, 60.0, places, SO3.stack([pose.rotations for pose in poses])))


def _single_row(goal: FloatArray, width: int = 3) -> FloatArray:
    if goal.shape != (width,):
        raise InputError(
            f"a task has targets of shape {goal.shape}", "Give one target; a controller takes new ones each step"
        )
    return goal


def _task_weight(weight: object) -> FloatArray | float:
    return float(weight) if isinstance(weight, float | int) else np.asarray(weight, dtype=np.float64)

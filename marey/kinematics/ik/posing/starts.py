"""Where a solve starts: the body or pose model, its coordinates and metric, restarts; and what it keeps by default.

A pose model brings its prior: springs and limits of its coordinates in standard deviations, and the kinetic metric,
which lets light limbs move before the whole body does. Restarts are other places to begin when the first start leads
nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, cast

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.kinematics.ik.coordinates import ModelSpace
from marey.kinematics.ik.problem import (
    ROOTS,
    Guess,
    IKProblem,
    Root,
    SolverInputs,
    joint_index,
    list_ancestors,
    moving_chain,
)
from marey.kinematics.ik.state import COM, POINT
from marey.kinematics.ik.tasks import ComTask, GoalTask, LookAtTask, OrientationTask, PointTask, PoseTask, Task
from marey.kinematics.limits.anatomy.model import posing_limits
from marey.kinematics.limits.contract import JointLimits
from marey.lie import SO3
from marey.models import PoseModel
from marey.models.samples import list_rods
from marey.motion import Motion
from marey.skeleton import Pose, Skeleton, foot_points, joint_frames, joint_positions, list_handles, role_map, t_pose
from marey.skeleton.body import is_drawn_as_person

ELLIPSOID_STIFFNESS: Final = 30.0  # [m²] a standard deviation beyond the ellipsoid counts like a goal missed by 5 m
MIN_DEVIATION: Final = 1e-6  # [-] of the largest: coordinates that hardly varied are held this much harder at most
MAX_SIGMA: Final = 3.0  # [-] standard deviations of a model's coordinates: 99.7 % of a Gaussian
NO_METRIC: Final = np.zeros((0, 0))
NO_COORDINATES: Final = np.zeros(0)


@dataclass(frozen=True, slots=True, eq=False)
class PosedBody:
    """A skeleton, and the pose model it is bound to, if any."""

    skeleton: Skeleton
    model: PoseModel | None


def match_body(model_or_skeleton: PoseModel | Skeleton, start: Pose | None, limits: JointLimits | None) -> PosedBody:
    """Check that model, start and limits speak of the same joints; a start may bring a body of another size.

    Raises:
        InputError: they do not, or the first argument is neither a model nor a skeleton.
    """
    model = None
    if isinstance(model_or_skeleton, Skeleton):
        skeleton = model_or_skeleton
    elif isinstance(cast(object, model_or_skeleton), PoseModel):
        model, skeleton = model_or_skeleton, model_or_skeleton.skeleton
    else:
        raise InputError(f"cannot pose a {type(model_or_skeleton).__name__}", "Give a Skeleton or a PoseModel")
    if start is not None and start.skeleton is not skeleton:
        _check_same_joints(skeleton, start.skeleton, "the start is a pose")
        skeleton = start.skeleton if model is not None else skeleton
    if limits is not None and limits.skeleton is not skeleton:
        _check_same_joints(skeleton, limits.skeleton, "the limits are those")
    return PosedBody(skeleton, model)


def _check_same_joints(skeleton: Skeleton, other: Skeleton, what: str) -> None:
    if other.names != skeleton.names or (other.parents != skeleton.parents).any():
        raise InputError(f"{what} of {other!r}, not of {skeleton!r}", "Retarget, or use those of this skeleton")


def build_space(body: PosedBody, problem: IKProblem, max_sigma: float | None) -> ModelSpace | None:
    r"""A pose model as the kernels take it: springs on its coordinates if a pose task asks for them, and their limits.

    No coordinate is beyond ``max_sigma`` standard deviations, and all together stay in the ellipsoid that holds the
    same share of a Gaussian as that interval does for one coordinate:
    :math:`\|\Lambda^{-1} x\|^2 \le \chi^2_k(2\Phi(s) - 1)`.

    Raises:
        InputError: ``max_sigma`` is not above 0.
    """
    if max_sigma is not None and not max_sigma > 0.0:
        raise InputError(f"max_sigma is {max_sigma}", "Give a positive number, or None for no limit")
    if body.model is None:
        return None
    arrays = body.model.arrays()
    deviations = np.asarray(body.model.deviations, dtype=np.float64)
    floor = MIN_DEVIATION * max(float(deviations.max(initial=0.0)), MIN_DEVIATION)
    deviations = np.maximum(deviations, floor)
    pose = problem.spring_pose
    reference = np.zeros(len(deviations)) if pose is None else _encode_pose(body.model, pose)
    most = np.inf if max_sigma is None else max_sigma
    # Between the weights of the first and the last level: stiff for both, and not a narrow valley for either
    weights = np.trace(problem.layout.blocks.weights, axis1=1, axis2=2) / 3.0
    weight = float(np.sqrt(weights.max(initial=0.0) * weights.min(initial=np.inf))) if len(weights) else 1.0
    return ModelSpace(
        True,
        int(arrays.kind),
        np.array(arrays.mean_wxyz),
        np.array(arrays.basis),
        problem.spring_weight / deviations**2,
        reference,
        most * deviations,
        deviations,
        _ellipsoid_radius(len(deviations), most),
        ELLIPSOID_STIFFNESS * weight,
        list_rods(body.skeleton),
    )


@lru_cache(maxsize=256)
def _ellipsoid_radius(count: int, max_sigma: float) -> float:
    """Radius [-] of the ball of ``count`` normal variables with the probability of ``max_sigma`` of one of them."""
    if count == 0 or not max_sigma < np.inf:
        return np.inf
    from math import erfc, sqrt

    from scipy.special import chdtri

    return sqrt(float(chdtri(count, erfc(max_sigma / sqrt(2.0)))))  # pyright: ignore[reportUnknownArgumentType]


def guess_from_pose(body: PosedBody, start: Pose | None) -> Guess:
    """Copies of the pose to begin at."""
    if body.model is None:
        if start is None:
            wxyz = np.zeros((body.skeleton.num_joints, 4))
            wxyz[:, 0] = 1.0
            return Guess(np.array(body.skeleton.offsets[0]), wxyz, NO_COORDINATES)
        return Guess(np.array(start.root_position), np.array(start.rotations.wxyz), NO_COORDINATES)
    pose = body.model.mean if start is None else start
    x = np.zeros(body.model.num_components) if start is None else _encode_pose(body.model, start)
    wxyz = np.array(body.model.rotations(x[None]).wxyz[0])
    wxyz[0] = pose.rotations.wxyz[0]
    return Guess(np.array(pose.root_position), wxyz, x)


def _encode_pose(model: PoseModel, pose: Pose) -> FloatArray:
    clip = Motion(pose.skeleton, model.rate_hz, pose.root_position[None], SO3(pose.rotations.wxyz[None]))
    return np.array(model.encode(clip)[0])


SPREAD_RAD: Final = 0.4  # [rad] standard deviation of the joints in a random start
RESTART_SPRING: Final = 0.03  # [-] pull towards no turn: a walk whose legs swing is not turned round
SEED: Final = 20110317  # one sequence for all calls: same input, same answer


def generate_restarts(run: SolverInputs, body: PosedBody, limits: JointLimits | None, count: int) -> Iterator[Guess]:
    """First a pose turned and shifted as a whole towards its goals, then random ones around it.

    It is the rest pose, the mean of a model, or the middle of limits: at a bound, a straight knee say, a descent may
    stay where it is.
    """
    rng, mobility = np.random.default_rng(SEED), run.problem.layout.springs.mobility
    middle = None if limits is None or body.model is not None else find_middle(limits)
    for i in range(count):
        # The first is the pose itself, the others are random around it
        guess = guess_from_pose(body, None)
        if middle is not None:
            is_free = mobility[1:-1] > 0.0
            guess.wxyz[1:][is_free] = middle[1:][is_free]
        if i > 0 and len(guess.x):
            guess.x[:] = rng.normal(0.0, 1.0, len(guess.x)) * np.asarray(body.model.deviations if body.model else 1.0)
        elif i > 0:
            turns = rng.normal(0.0, SPREAD_RAD, (len(guess.wxyz), 3)) * (mobility[:-1, None] > 0.0)
            guess.wxyz[:] = (SO3(guess.wxyz) @ SO3.exp(turns)).wxyz
        align_root(run, guess)
        yield guess


@lru_cache(maxsize=64)
def find_middle(limits: JointLimits) -> FloatArray:
    """Rotations ``(J, 4)`` well inside limits, kept from call to call."""
    return np.array(limits.middle().wxyz)


def align_root(run: SolverInputs, guess: Guess) -> None:
    """Turn and shift the root so that the points lie nearest to their targets (Kabsch), as far as it may move."""
    layout = run.problem.layout
    rows = np.flatnonzero((layout.blocks.kinds == POINT) & run.active)
    if layout.springs.mobility[-1] == 0.0 or not len(rows) or (layout.blocks.kinds == COM).all():
        return
    skeleton = run.problem.skeleton
    places = joint_positions(skeleton, guess.root[None], guess.wxyz[None])[0][layout.blocks.joints[rows]]
    goals = run.targets[rows, :3]
    middle, aim = places.mean(axis=0), goals.mean(axis=0)
    if layout.springs.mobility[0] > 0.0 and len(rows) >= 3:
        # Kabsch: the rotation nearest to the correlation, with a pull towards no turn
        spread = (goals - aim).T @ (places - middle)
        size = float(np.linalg.norm(goals - aim) * np.linalg.norm(places - middle))
        u, _, vt = np.linalg.svd(spread + RESTART_SPRING * size * np.eye(3))
        flip = np.diag([1.0, 1.0, float(np.sign(np.linalg.det(u @ vt)))])
        R = u @ flip @ vt
        guess.wxyz[0] = (SO3.from_matrix(R) @ SO3(guess.wxyz[0])).wxyz
        guess.root[:] = aim + R @ (guess.root - middle)
    else:
        guess.root[:] += aim - middle


Feet = Literal["auto", "free", "planted"]
FEET: Final = ("auto", "free", "planted")
SIDES: Final = ("left", "right")
PART_MOBILITY: Final = {"spine1": 0.3, "spine2": 0.3, "spine3": 0.3, "neck": 0.5, "collar": 0.03}  # [-] of a limb's
ANIMAL_TRUNK_MOBILITY: Final = 0.05  # [-] a paw that is lifted by 10 cm moves the trunk by a few degrees
STUB_MOBILITY: Final = 0.01  # [-] of joints without a role above one that has it: hip stubs, twist bones
TRUNK: Final = ("spine1", "spine2", "spine3", "left_collar", "right_collar")
TRUNK_WEIGHT: Final = 2e-5  # [1/rad²] of springs along a clip; more lets planted soles move by a millimetre
STANDING_M: Final = 0.08  # [m] captured floors lie up to 6 cm off the world's; a sole above this is in the air
LEVEL_M: Final = 0.03  # [m] a sole this much above the lowest one is in the air, too
STANDING_PART, FEWEST_LEGS = 0.25, 4  # [-], of animals: see plant_feet
UPPER_PERCENT: Final = 75.0  # [%] of the joints of an animal are lower than its trunk
LOW_PERCENT: Final = 5.0  # [%] of the heights of an ankle lie below that of its stance
STRIDE_S: Final = 0.5  # [s] within which a foot that swings has stood, or will stand
ZENITH_M: Final = 1000.0  # [m] a point this far above a sole is straight above it
ORIENTATION_WEIGHT: Final = 0.04  # [m²/rad²] a foot that turns by 0.1 rad counts like one that moves by 2 cm
FAR_REACHES: Final = 3.0  # [-] of the body's reach: goals farther from the root are brought to this distance


def default_limits(limits: JointLimits | Literal["auto"] | None, body: PosedBody) -> JointLimits | None:
    """The limits that hold: those given, or for ``"auto"`` the anatomical ones of a body whose joints are known.

    Raises:
        InputError: the word is another one.
    """
    if not isinstance(limits, str):
        return limits
    if limits != "auto":
        raise InputError(f"limits is {limits!r}", "Give JointLimits, 'auto' or None")
    return None if body.model is not None else _find_anatomy(body.skeleton)


@lru_cache(maxsize=64)
def _find_anatomy(skeleton: Skeleton) -> JointLimits | None:
    """Anatomical limits, the same object at each call; none of a body whose limbs are not known, or not a person's."""
    try:
        return posing_limits(skeleton)
    except InputError:
        return None


@lru_cache(maxsize=64)
def anatomical_mobility(skeleton: Skeleton) -> FloatArray:
    """How readily the joints of a person move ``(J,)``: limbs first, then the trunk, then collars and joints between.

    Limits alone would let a hand that reaches 10 cm shrug the shoulder by 10 cm.
    """
    roles = role_map(skeleton)
    named = {joint: role.split("_")[-1] for role, joint in roles.joints.items()}
    mobility = np.ones(skeleton.num_joints)
    for joint in range(1, skeleton.num_joints):
        part = named.get(joint)
        if part is not None:
            mobility[joint] = PART_MOBILITY.get(part, 1.0)
        elif any(int(child) in named for child in skeleton.children(joint)):
            mobility[joint] = STUB_MOBILITY
    mobility.setflags(write=False)
    return mobility


@lru_cache(maxsize=64)
def animal_mobility(skeleton: Skeleton) -> FloatArray:
    """How readily the joints of an animal move ``(J,)``: those that carry several limbs, its trunk, after the limbs."""
    carried = np.zeros(skeleton.num_joints, dtype=np.int64)
    for handle in list_handles(skeleton):
        if handle.kind in ("end", "head"):
            carried[list_ancestors(skeleton, handle.joint)] += 1
    mobility = np.where(carried > 1, ANIMAL_TRUNK_MOBILITY, 1.0)
    mobility.setflags(write=False)
    return mobility


def plant_feet(
    body: PosedBody, tasks: Sequence[Task], start: Pose | None, root: Root, feet: Feet, rate_hz: float = 1.0
) -> list[GoalTask]:
    """Pins of the feet that stand in the start pose: position and orientation of their ankles.

    A foot that a goal names is free; while its goal keeps the ankle as low as it was, its sole stays level.
    With ``root="free"`` the body may go anywhere: feet stay only if asked for.

    Raises:
        InputError: ``root`` or ``feet`` is another word, or feet are asked for that nobody knows.
    """
    if root not in ROOTS:
        raise InputError(f"root is {root!r}", "Say 'auto', 'free', 'turn' or 'fixed'")
    if feet not in FEET:
        raise InputError(f"feet is {feet!r}", "Say 'auto', 'free' or 'planted'")
    if feet == "free" or (feet == "auto" and (root == "free" or body.model is not None)):
        return []
    skeleton = body.skeleton
    roles = role_map(skeleton)
    # Roles that were guessed fit animals too: two legs of a fox are no person's
    is_person = roles.profile != "guessed" or is_drawn_as_person(skeleton, roles)
    ankles = {side: roles.joints[f"{side}_ankle"] for side in SIDES if is_person and f"{side}_ankle" in roles}
    goals = [task for task in tasks if not isinstance(task, PoseTask)]
    pose = start if start is not None else body.model.mean if body.model is not None else Pose.rest(skeleton)
    positions, frames = joint_frames(skeleton, pose.root_position[None], pose.rotations.wxyz[None])
    if ankles:
        paws = list[int]()
    else:
        # An animal stands on four or more ends of limbs: those lower than a quarter of the way from the lowest joint
        # up to the root, or up to its upper joints where the root lies on the floor, as in many rigs
        places = positions[0]
        bottom, trunk = float(places[:, 1].min()), float(places[0, 1])
        if trunk < bottom + STANDING_PART * float(np.ptp(places[:, 1])):
            trunk = float(np.percentile(places[:, 1], UPPER_PERCENT))
        low = bottom + STANDING_PART * (trunk - bottom)
        ends = [handle.joint for handle in list_handles(skeleton) if handle.kind == "end"]
        grounded = [joint for joint in ends if places[joint, 1] < low]
        paws = grounded if len(grounded) >= FEWEST_LEGS and abs(bottom) < STANDING_M else []
    if feet == "planted" and not ankles and not paws:
        raise InputError(f"{skeleton!r} has no feet that can be planted", "Give PointTask and OrientationTask")
    if not goals or not (ankles or paws):
        return []
    if feet == "planted":
        standing = set(SIDES)
    else:
        # Sides whose sole is on the floor, y = 0, or on the level of the lowest sole of a body placed elsewhere
        points = foot_points(skeleton)
        heights = points.positions(positions[0], SO3(frames[0].wxyz))[:, 1]
        lowest = {
            side: min(float(h) for h, name in zip(heights, points.names, strict=True) if name.startswith(side))
            for side in SIDES
            if any(name.startswith(side) for name in points.names)
        }
        ground = min(lowest.values(), default=0.0)
        standing = {side for side, height in lowest.items() if ground < STANDING_M and height - ground < LEVEL_M}
    named = {joint_index(skeleton, task.joint) for task in goals if not isinstance(task, ComTask)}
    moved = {joint for task in goals for joint in moving_chain(skeleton, task)}
    above = {joint for name in named for joint in list_ancestors(skeleton, name)}
    paws = [paw for paw in paws if paw not in above and moved.intersection(list_ancestors(skeleton, paw)[:-1])]
    pins, levels = [cast(GoalTask, PointTask(paw, positions[0, paw])) for paw in paws], list[GoalTask]()
    for side, ankle in ankles.items():
        leg = list_ancestors(skeleton, ankle)
        is_moved = root not in ("turn", "fixed") or any(joint in moved for joint in leg[1:])
        is_named = any(ankle in list_ancestors(skeleton, joint) for joint in named)
        if side in standing and is_moved and not is_named:
            pins.append(PointTask(ankle, positions[0, ankle]))
            pins.append(OrientationTask(ankle, frames[0, ankle], weight=ORIENTATION_WEIGHT))
        # A foot whose ankle has a goal is level while that goal is as low as it gets, or as it stands
        moves = [task for task in goals if isinstance(task, PointTask) and joint_index(skeleton, task.joint) == ankle]
        is_turned = any(isinstance(task, OrientationTask | LookAtTask) for task in goals if is_named)
        if len(moves) == 1 and not is_turned and feet == "auto" and (moves[0].goal.ndim == 2 or side in standing):
            goal = moves[0].goal
            is_low = np.abs(goal[..., 1:2] - positions[0, ankle, 1]) < LEVEL_M
            if goal.ndim == 2:
                is_low = _find_low_frames(goal[:, 1], rate_hz)[:, None]
            up = t_pose(skeleton, roles).joint_rotations()[ankle].inverse() @ np.array([0.0, 1.0, 0.0])
            levels.append(LookAtTask(ankle, np.where(is_low, goal + np.array([0.0, ZENITH_M, 0.0]), np.nan), axis=up))
    return [*pins, *levels]


def _find_low_frames(heights: FloatArray, rate_hz: float) -> BoolArray:
    """Frames ``(F,)`` in which an ankle is as low as in its stances; captured floors rise on the way."""
    reach = round(STRIDE_S * rate_hz)
    known = np.where(np.isnan(heights), np.inf, heights)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(known, reach, constant_values=np.inf), 2 * reach + 1)
    floor = np.nanpercentile(heights, LOW_PERCENT) if np.isfinite(known).any() else 0.0
    # The lowest height within a stride, unless the foot is held in the air
    nearby = windows.min(axis=-1)
    nearby = np.where(nearby < floor + STANDING_M, nearby, floor)
    return np.abs(heights - np.maximum(nearby, floor)) < LEVEL_M


def name_pins(skeleton: Skeleton, pins: Sequence[GoalTask]) -> tuple[str, ...]:
    """Names of the joints that are pinned."""
    return tuple(skeleton.names[joint_index(skeleton, pin.joint)] for pin in pins if isinstance(pin, PointTask))

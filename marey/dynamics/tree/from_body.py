"""A tree for any skeleton with masses: hinges where the capture has them, three turns elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.dynamics.bodies import Body
from marey.dynamics.tree.characters import AXES, TreeDraft, add_root
from marey.dynamics.tree.coordinates import Point, TreeSkeleton, continuous_euler_angles
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import RoleMap, Skeleton, contact_points, role_map

ROOT_ORDERS: Final = ("yxz", "yzx", "xyz", "xzy", "zxy", "zyx")
DOWN: Final = np.array([0.0, -1.0, 0.0])
HINGE_TOL: Final = 1e-5  # [rad] a joint that leaves one axis by less is a hinge
STIFF_TOL: Final = 1e-9  # [rad] a joint that turns by less is stiff
MIN_GIMBAL_MARGIN_RAD: Final = 0.35  # [rad] an order of turns this far from gimbal lock is kept
LIMB_ROLES: Final = {"hip": ("knee", "ankle", "foot"), "shoulder": ("elbow", "wrist")}
ORDERS: Final = {"shoulder": "xzy"}  # by role; "zyx" for all others: its lock is where no hip, ankle or spine goes
BENDS: Final = {"knee": (0.0, 2.7), "elbow": (0.0, 2.7)}  # [rad] hinges whose positive angle is flexion

# CMU's BVH files: one axis in the joint's frame, exact to 2e-6 rad in all 339 clips at hand; or none
_LEG: Final = (float(np.cos(np.deg2rad(20.0))), float(np.sin(np.deg2rad(20.0))), 0.0)
_CMU_HINGES: Final = {
    "leftleg": _LEG,
    "rightleg": (_LEG[0], -_LEG[1], 0.0),
    "lefttoebase": _LEG,
    "righttoebase": (_LEG[0], -_LEG[1], 0.0),
    "leftforearm": (0.0, -float(np.sqrt(0.75)), 0.5),
    "rightforearm": (0.0, float(np.sqrt(0.75)), -0.5),
    "lefthand": (1.0, 0.0, 0.0),
    "righthand": (1.0, 0.0, 0.0),
    "lefthandindex1": (0.0, 0.0, 1.0),
    "righthandindex1": (0.0, 0.0, 1.0),
}
_CMU_STIFF: Final = ("lhipjoint", "rhipjoint", "leftshoulder", "rightshoulder")
_CMU_FINGERS: Final = ("lefthandindex1", "righthandindex1", "lthumb", "rthumb")


@dataclass(frozen=True, slots=True, eq=False)
class JointAxes:
    """Rotation axes of one joint."""

    axes: FloatArray  # (n, 3) in the joint's frame, in the order they act; none for a stiff joint
    letters: str  # (n,) name of each turn; empty for a hinge
    orientation: SO3  # one rotation, before the first turn
    bounds: tuple[float, float] = (-np.inf, np.inf)


def plan_body_tree(
    body: Body, *, motion: Motion | None = None, root_order: str = "yxz", fingers: bool = True
) -> dict[str, Any]:
    """Fields of the tree; see :meth:`JointTree.from_body`."""
    if root_order == "auto" and motion is not None:
        root_order = _choose_rotation_order(ROOT_ORDERS[0], motion.rotations[:, 0], np.eye(3))
    if root_order not in ROOT_ORDERS:
        fix = f"It is one of {', '.join(ROOT_ORDERS)}, or auto with a motion"
        raise InputError(f"root order '{root_order}'", fix)
    skeleton = body.skeleton
    plans = choose_joint_axes(skeleton, role_map(skeleton), motion, fingers=fingers)
    draft = TreeDraft()
    # The link that carries each joint, where on it the joint is, and the joint's coordinates
    root = add_root(draft, "xyz", root_order, skeleton.names[0])
    links: list[tuple[int, FloatArray]] = [(root, np.zeros(3))]
    dofs: list[tuple[int, ...]] = [tuple(range(root + 1))]
    for j in range(1, skeleton.num_joints):
        carrier, carried_at = links[int(skeleton.parents[j])]
        plan, offset, own = plans[j], carried_at + skeleton.offsets[j], list[int]()
        orientation = plan.orientation.wxyz
        for n, axis in enumerate(plan.axes):
            name = f"{skeleton.names[j]}_r{plan.letters[n]}" if plan.letters else skeleton.names[j]
            group, bounds = skeleton.names[j], plan.bounds
            carrier = draft.add(name, carrier, axis, group=group, offset=offset, orientation=orientation, bounds=bounds)
            offset, orientation = np.zeros(3), SO3.identity().wxyz
            own.append(carrier)
        links.append((carrier, offset))
        dofs.append(tuple(own))
    # Masses go to the links that carry their joints
    for j in np.flatnonzero(body.masses):
        link, shift = links[int(j)]
        draft.weigh(link, float(body.masses[j]), body.centres[j] + shift, body.inertias[j])
    # Hinges and fixed joints, in sentences
    kinds = {1: "hinges", 0: "stiff joints"}
    found = {n: [skeleton.names[j] for j in range(1, len(plans)) if len(plans[j].axes) == n] for n in kinds}
    report = tuple(f"{kinds[count]}: {', '.join(names)}" for count, names in found.items() if names)
    # Heels, toes and hands on their links, and the middle of each sole
    marks = contact_points(skeleton)
    points: dict[str, Point] = {}
    for name, joint, offset in zip(marks.names, marks.joints, marks.offsets, strict=True):
        link, shift = links[int(joint)]
        points[name] = (link, shift + offset)
    for side in ("left", "right"):
        if f"{side}_heel" in marks.names and f"{side}_toe" in marks.names:
            heel, toe = marks.index(f"{side}_heel"), marks.index(f"{side}_toe")
            apart = skeleton.rest_positions()[marks.joints[toe]] - skeleton.rest_positions()[marks.joints[heel]]
            link, shift = links[int(marks.joints[heel])]
            points[f"{side}_foot"] = (link, shift + 0.5 * (marks.offsets[heel] + apart + marks.offsets[toe]))
    return draft.build(TreeSkeleton(skeleton, tuple(dofs)), points, report)


def choose_joint_axes(skeleton: Skeleton, roles: RoleMap, motion: Motion | None, *, fingers: bool) -> list[JointAxes]:
    """How each joint will turn; the root's entry is not used."""
    # Rotation that turns each limb's rest pose straight down
    turns: dict[int, SO3] = {}
    for top, others in LIMB_ROLES.items():
        for side in ("left", "right"):
            upper, lower = roles.get(f"{side}_{top}"), roles.get(f"{side}_{others[0]}")
            if upper is None or lower is None:
                continue
            rest = skeleton.rest_positions()
            bone = rest[lower] - rest[upper]
            if np.linalg.norm(bone) > 0.0:
                turn = SO3.from_two_vectors(bone, DOWN)
                inside = [upper]
                for j in range(upper + 1, skeleton.num_joints):
                    if skeleton.parents[j] in inside:
                        inside.append(j)
                for joint in inside:
                    turns[joint] = turn
    # Fixed fingers, hinges with the bounds of their part, or three turns in the order that suits the motion
    parts = {j: role.split("_")[-1] for role, j in roles.joints.items()}
    plans: list[JointAxes] = []
    for j, name in enumerate(skeleton.names):
        axis = None
        if j > 0:
            # Axis (1, 3) of a hinge, (0, 3) of a stiff joint, or None of a free one: by the habits of CMU's BVH files
            # and by the limits of ASF files
            called = skeleton.names[j]
            limits = {limit.joint: limit for limit in skeleton.limits}
            if roles.profile == "cmu-bvh":
                if called.lower() in _CMU_STIFF:
                    axis = np.zeros((0, 3))
                elif called.lower() in _CMU_HINGES:
                    axis = np.array([_CMU_HINGES[called.lower()]])
            elif called in limits:
                limit = limits[called]
                axis = (limit.axis @ np.array(AXES[limit.order]))[None] if len(limit.order) == 1 else None
            elif limits and roles.profile == "cmu-asf":
                axis = np.zeros((0, 3))
            # What a file format says is believed unless the clip contradicts it
            vectors = np.zeros((1, 3)) if motion is None else motion.rotations[:, j].log()
            if motion is not None and (axis is None or not _max_deviation_from_axis(vectors, axis) < HINGE_TOL):
                # From the rotation vectors (F, 3) of the clip; the mean angle is positive
                if np.abs(vectors).max() < STIFF_TOL:
                    axis = np.zeros((0, 3))
                else:
                    line = np.linalg.svd(vectors, full_matrices=False)[2][:1]
                    line = line if (vectors @ line[0]).sum() >= 0.0 else -line
                    axis = line if _max_deviation_from_axis(vectors, line) < HINGE_TOL else None
        part, hung = parts.get(j, ""), turns.get(j)
        start, frame = SO3.identity(), np.eye(3)
        if hung is not None:
            frame = hung.inverse().matrix()
            start = hung if part in LIMB_ROLES else start
        if not fingers and roles.profile == "cmu-bvh" and name.lower() in _CMU_FINGERS:
            plans.append(JointAxes(np.zeros((0, 3)), "", SO3.identity()))
        elif axis is not None:
            bounds = BENDS.get(part, (-np.inf, np.inf)) if len(axis) else (-np.inf, np.inf)
            plans.append(JointAxes(axis, "", SO3.identity(), bounds))
        else:
            order = ORDERS.get(part, "zyx")
            if motion is not None:
                order = _choose_rotation_order(order, start.inverse() @ motion.rotations[:, j], frame)
            plans.append(JointAxes(_axes_in_order(frame, order), order, start))
    return plans


def _max_deviation_from_axis(vectors: FloatArray, axis: FloatArray) -> float:
    """How far [rad] rotation vectors ``(F, 3)`` leave an axis ``(1, 3)``, or rest if there is none, ``(0, 3)``."""
    return float(np.linalg.norm(vectors - vectors @ axis.T @ axis, axis=1).max())


def _choose_rotation_order(order: str, rotations: SO3, frame: FloatArray) -> str:
    """The usual order of turns if a clip keeps away from its gimbal lock, else the one farthest from it."""

    def margin(candidate: str) -> float:
        middle = continuous_euler_angles(rotations, _axes_in_order(frame, candidate).T)[:, 1]
        return float(0.5 * np.pi - np.arcsin(np.abs(np.sin(middle)).max()))

    return order if margin(order) >= MIN_GIMBAL_MARGIN_RAD else max((order, *ROOT_ORDERS), key=margin)


def _axes_in_order(frame: FloatArray, order: str) -> FloatArray:
    """Axes ``(3, 3)`` in rows, in the order of their letters."""
    return np.array([frame @ np.array(AXES[letter]) for letter in order])

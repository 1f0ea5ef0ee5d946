"""Trees as plans: Fang's characters and chains put together by hand, and any skeleton with masses.

The proportions of Fang's characters are those of [Fang2003]_ §7.

The thesis does not print its layout; root 6, hips 3, knees 1, shoulders 3, elbows 1 is the one reading that gives its
22 and, seen from the side, its 7 degrees of freedom. Masses and lengths are Dempster's shares, [Winter2009]_ table 4.1.
At zero the body stands straight, arms down, facing +Z. Knees and elbows bend with positive angles; ``rx`` turns about
+X, so that a leg or an arm goes forward with a negative angle.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.dynamics.bodies import Body
from marey.dynamics.spatial import PRISMATIC, REVOLUTE, WORLD, Point, TreeSkeleton, continuous_euler_angles
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import NO_PARENT, RoleMap, Skeleton, contact_points, role_map

_ARRAYS: Final = ("parents", "kinds", "axes", "offsets", "masses", "centres", "inertias", "orientations")
AXES: Final = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


@dataclass(slots=True)
class TreeDraft:
    """A tree while it is being put together: links are appended, then frozen by :meth:`build`."""

    names: list[str] = field(default_factory=list[str])
    parents: list[int] = field(default_factory=list[int])
    kinds: list[int] = field(default_factory=list[int])
    axes: list[FloatArray] = field(default_factory=list[FloatArray])
    offsets: list[FloatArray] = field(default_factory=list[FloatArray])
    orientations: list[FloatArray] = field(default_factory=list[FloatArray])
    masses: list[float] = field(default_factory=list[float])
    centres: list[FloatArray] = field(default_factory=list[FloatArray])
    inertias: list[FloatArray] = field(default_factory=list[FloatArray])
    bounds: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    groups: list[str] = field(default_factory=list[str])

    def add(
        self,
        name: str,
        parent: int,
        axis: Iterable[float],
        *,
        group: str,
        kind: int = REVOLUTE,
        offset: Iterable[float] = (0.0, 0.0, 0.0),
        orientation: Iterable[float] = (1.0, 0.0, 0.0, 0.0),
        bounds: tuple[float, float] = (-np.inf, np.inf),
    ) -> int:
        """Append a massless link and return its number."""
        self.names.append(name)
        self.parents.append(parent)
        self.kinds.append(kind)
        self.axes.append(np.array(tuple(axis)))
        self.offsets.append(np.array(tuple(offset)))
        self.orientations.append(np.array(tuple(orientation)))
        self.masses.append(0.0)
        self.centres.append(np.zeros(3))
        self.inertias.append(np.zeros((3, 3)))
        self.bounds.append(bounds)
        self.groups.append(group)
        return len(self.names) - 1

    def weigh(self, link: int, mass: float, centre: FloatArray, inertia: FloatArray) -> None:
        """Fasten a solid to a link that may carry others already."""
        total = self.masses[link] + mass
        if total <= 0.0:
            return
        joint = (self.masses[link] * self.centres[link] + mass * centre) / total
        # Both about the common centre: m (r^2 E - r r^T) of each
        old, new = self.centres[link] - joint, centre - joint
        moved = self.masses[link] * (old @ old * np.eye(3) - np.outer(old, old))
        moved = moved + mass * (new @ new * np.eye(3) - np.outer(new, new))
        self.inertias[link] = self.inertias[link] + inertia + moved
        self.masses[link], self.centres[link] = total, joint

    def build(
        self, figure: TreeSkeleton | None, points: dict[str, Point], report: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Fields of a ``JointTree``, before they are checked."""
        lower, upper = np.array(self.bounds).T
        parts: dict[str, Any] = {name: np.array(getattr(self, name)) for name in _ARRAYS}
        parts |= {"names": tuple(self.names), "groups": tuple(self.groups), "lower": lower, "upper": upper}
        return parts | {"points": points, "figure": figure, "report": report}


def add_root(draft: TreeDraft, slides: str, turns: str, group: str) -> int:
    """Add the coordinates of a free root, slides before turns, and return the last link."""
    link = WORLD
    for letter in slides:
        link = draft.add(f"root_t{letter}", link, AXES[letter], group=group, kind=PRISMATIC)
    for letter in turns:
        link = draft.add(f"root_r{letter}", link, AXES[letter], group=group)
    return link


SIDES: Final = {"left": 1.0, "right": -1.0}  # sign of the side's X
STRAIGHT_RAD: Final = 0.02  # [rad] least bend of knees and elbows: a straight limb is singular
HIP_HALF_WIDTH: Final = 0.055  # [stature]
SHOULDER_HALF_WIDTH: Final = 0.12
HIP_HEIGHT: Final = 0.530
SHOULDER_RISE: Final = 0.288  # hip to shoulder
HEAD_RISE: Final = 0.470  # hip to the top of the head
GRIP: Final = 0.20  # elbow to the grip of the hand
SOLE: Final = 0.285  # knee to the sole


@dataclass(frozen=True, slots=True)
class CharacterSegment:
    """A link of the character, as shares of body mass, of stature and of its own length."""

    mass: float  # [body mass]
    length: float  # [stature]
    centre: float  # [length] from its upper joint; the trunk's from the hips
    gyration: float  # [length] about the centre, across the long axis
    radius_m: float  # of the rod whose long-axis inertia it has; the tables give none
    direction: float = -1.0  # along Y

    def link(self, height_m: float, mass_kg: float) -> tuple[float, FloatArray, FloatArray]:
        """Mass [kg], centre [m] and inertia [kg m^2] about it."""
        mass = self.mass * mass_kg
        across = mass * (self.gyration * self.length * height_m) ** 2
        along = 0.5 * mass * self.radius_m**2
        centre = np.array([0.0, self.direction * self.centre * self.length * height_m, 0.0])
        return mass, centre, np.diag([across, along, across])


TRUNK: Final = CharacterSegment(0.578, SHOULDER_RISE, 0.66, 0.503, 0.13, 1.0)
UPPER_ARM: Final = CharacterSegment(0.028, 0.186, 0.436, 0.322, 0.05)
FOREARM: Final = CharacterSegment(0.022, 0.146, 0.682, 0.468, 0.05)
THIGH: Final = CharacterSegment(0.100, 0.245, 0.433, 0.323, 0.08)
SHANK: Final = CharacterSegment(0.061, 0.246, 0.606, 0.416, 0.05)


def plan_fang22(height_m: float, mass_kg: float) -> dict[str, Any]:
    """The character in space: 22 degrees of freedom, nine links with mass."""
    _check_size(height_m, mass_kg)
    draft, dofs = TreeDraft(), {"pelvis": tuple(range(6))}
    link = add_root(draft, "xyz", "yzx", "pelvis")  # a full turn about X stays regular
    draft.weigh(link, *TRUNK.link(height_m, mass_kg))
    for side, sign in SIDES.items():
        hip = (sign * HIP_HALF_WIDTH * height_m, 0.0, 0.0)
        shoulder = (sign * SHOULDER_HALF_WIDTH * height_m, SHOULDER_RISE * height_m, 0.0)
        dofs |= _add_limb(draft, (f"{side}_hip", f"{side}_knee"), link, hip, (THIGH, SHANK), (height_m, mass_kg), sign)
        arms = (f"{side}_shoulder", f"{side}_elbow")
        dofs |= _add_limb(draft, arms, link, shoulder, (UPPER_ARM, FOREARM), (height_m, mass_kg), sign)
    points: dict[str, Point] = {}
    for side in SIDES:
        points[f"{side}_foot"] = (dofs[f"{side}_knee"][0], np.array([0.0, -SOLE * height_m, 0.0]))
        points[f"{side}_hand"] = (dofs[f"{side}_elbow"][0], np.array([0.0, -GRIP * height_m, 0.0]))
    points["head"] = (link, np.array([0.0, HEAD_RISE * height_m, 0.0]))
    return draft.build(_build_skeleton(height_m, dofs), points)


def plan_fang7(height_m: float, mass_kg: float) -> dict[str, Any]:
    """The character in the plane X = 0: left and right limbs are one link of doubled mass each."""
    _check_size(height_m, mass_kg)
    draft = TreeDraft()
    link = add_root(draft, "yz", "x", "pelvis")
    draft.weigh(link, *TRUNK.link(height_m, mass_kg))
    size = (height_m, 2.0 * mass_kg)
    shoulder = (0.0, SHOULDER_RISE * height_m, 0.0)
    dofs = _add_limb(draft, ("hip", "knee"), link, (0.0, 0.0, 0.0), (THIGH, SHANK), size, 0.0)
    dofs |= _add_limb(draft, ("shoulder", "elbow"), link, shoulder, (UPPER_ARM, FOREARM), size, 0.0)
    points: dict[str, Point] = {
        "feet": (dofs["knee"][0], np.array([0.0, -SOLE * height_m, 0.0])),
        "hands": (dofs["elbow"][0], np.array([0.0, -GRIP * height_m, 0.0])),
        "head": (link, np.array([0.0, HEAD_RISE * height_m, 0.0])),
    }
    both = {f"{side}_{part}": dofs[part] for side in SIDES for part in ("hip", "knee", "shoulder", "elbow")}
    return draft.build(_build_skeleton(height_m, {"pelvis": (0, 1, 2), **both}), points)


def plan_chain(num_links: int, length_m: float, mass_kg: float) -> dict[str, Any]:
    """Serial chain: rods of equal length, hinges about X, Z, X, Z, ..."""
    if num_links < 1:
        raise InputError(f"a chain of {num_links} links", "It needs at least one")
    _check_size(length_m, mass_kg)
    draft = TreeDraft()
    half = np.array([0.0, -0.5 * length_m, 0.0])
    inertia = mass_kg * length_m**2 * np.diag([1.0 / 12.0, 1.0 / 200.0, 1.0 / 12.0])
    for i in range(num_links):
        offset = (0.0, 0.0 if i == 0 else -length_m, 0.0)
        draft.add(f"link{i}", i - 1, AXES["xz"[i % 2]], group=f"link{i}", offset=offset)
        draft.weigh(i, mass_kg, half, inertia)
    parents = np.arange(num_links) - 1
    tips = np.zeros((num_links, 3))
    tips[-1, 1] = -length_m
    skeleton = Skeleton(tuple(draft.names), parents, np.array(draft.offsets), tips, name="chain")
    figure = TreeSkeleton(skeleton, tuple((i,) for i in range(num_links)))
    return draft.build(figure, {"tip": (num_links - 1, np.array([0.0, -length_m, 0.0]))})


def _check_size(length_m: float, mass_kg: float) -> None:
    if not (np.isfinite([length_m, mass_kg]).all() and length_m > 0.0 and mass_kg > 0.0):
        raise InputError(f"a body of {length_m} m and {mass_kg} kg", "Both must be positive numbers")


# [rad] what a grown person reaches, rounded: about X, about Z (left side: away from the body), about Y
_BALL_RANGES: Final = {
    "hip": ((-2.2, 0.6), (-0.5, 0.9), (-0.7, 0.7)),
    "shoulder": ((-3.3, 1.2), (-0.5, 1.45), (-1.2, 1.2)),
}
_HINGE_RANGES: Final = {"knee": (STRAIGHT_RAD, 2.5), "elbow": (STRAIGHT_RAD, 2.6)}


def _add_limb(
    draft: TreeDraft,
    names: tuple[str, str],
    trunk: int,
    offset: tuple[float, float, float],
    segments: tuple[CharacterSegment, CharacterSegment],
    size: tuple[float, float],
    sign: float,
) -> dict[str, tuple[int, ...]]:
    """Upper and lower link of a limb; ``sign`` is the side's, zero for a planar limb."""
    upper, lower = names
    part = upper.split("_")[-1]
    link, dofs = trunk, list[int]()
    for n, letter in enumerate("xzy" if sign else "x"):
        low, high = _BALL_RANGES[part][n]
        bounds = (low, high) if sign >= 0.0 or letter == "x" else (-high, -low)
        name = f"{upper}_r{letter}" if sign else upper
        at = offset if n == 0 else (0.0, 0.0, 0.0)
        link = draft.add(name, link, AXES[letter], group=upper, offset=at, bounds=bounds)
        dofs.append(link)
    draft.weigh(link, *segments[0].link(*size))
    bend = -1.0 if part == "shoulder" else 1.0  # forearms bend forwards, shanks backwards
    at = (0.0, -segments[0].length * size[0], 0.0)
    bounds = _HINGE_RANGES[lower.split("_")[-1]]
    hinge = draft.add(lower, link, (bend, 0.0, 0.0), group=lower, offset=at, bounds=bounds)
    draft.weigh(hinge, *segments[1].link(*size))
    return {upper: tuple(dofs), lower: (hinge,)}


# name, parent, joint position as a share of stature (x is the side's): the canonical names, arms down
_MIDDLE: Final = (
    ("pelvis", "", (0.0, HIP_HEIGHT, 0.0)),
    ("spine1", "pelvis", (0.0, 0.600, -0.005)),
    ("spine2", "spine1", (0.0, 0.670, -0.006)),
    ("spine3", "spine2", (0.0, 0.740, -0.004)),
    ("neck", "spine3", (0.0, 0.836, -0.004)),
    ("head", "neck", (0.0, 0.888, 0.008)),
)
_SIDED: Final = (
    ("hip", "pelvis", (HIP_HALF_WIDTH, HIP_HEIGHT, 0.0)),
    ("knee", "hip", (HIP_HALF_WIDTH, 0.285, 0.0)),
    ("ankle", "knee", (HIP_HALF_WIDTH, 0.039, 0.0)),
    ("foot", "ankle", (HIP_HALF_WIDTH, 0.010, 0.070)),
    ("collar", "spine3", (0.040, 0.800, 0.0)),
    ("shoulder", "collar", (SHOULDER_HALF_WIDTH, 0.818, 0.0)),
    ("elbow", "shoulder", (SHOULDER_HALF_WIDTH, 0.632, 0.0)),
    ("wrist", "elbow", (SHOULDER_HALF_WIDTH, 0.486, 0.0)),
)
_TIPS: Final = {"head": (0.0, 0.112, 0.0), "foot": (0.0, -0.004, 0.040), "wrist": (0.0, -0.095, 0.0)}


def _build_skeleton(height_m: float, dofs: dict[str, tuple[int, ...]]) -> TreeSkeleton:
    """Skeleton with the canonical names; joints without a coordinate are stiff."""
    rows = [(name, parent, place, _TIPS.get(name, (0.0, 0.0, 0.0))) for name, parent, place in _MIDDLE]
    for side, sign in SIDES.items():
        for name, parent, (x, y, z) in _SIDED:
            above = parent if parent in ("pelvis", "spine3") else f"{side}_{parent}"
            rows.append((f"{side}_{name}", above, (sign * x, y, z), _TIPS.get(name, (0.0, 0.0, 0.0))))
    names = tuple(row[0] for row in rows)
    parents = np.array([names.index(row[1]) if row[1] else NO_PARENT for row in rows], dtype=np.int64)
    places = height_m * np.array([row[2] for row in rows])
    offsets = places - np.where(parents[:, None] == NO_PARENT, 0.0, places[parents])
    skeleton = Skeleton(names, parents, offsets, height_m * np.array([row[3] for row in rows]), name="fang")
    return TreeSkeleton(skeleton, tuple(dofs.get(name, ()) for name in names))


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

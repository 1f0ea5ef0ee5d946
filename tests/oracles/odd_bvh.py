"""BVH files drawn at random from what tools do: bodies, trees, rest poses, nodes above, names, units, axes, text.

:func:`draw_file` makes one file and what is true of it: where each joint is in world, which joint plays which role. A
reader is right when its joints are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from oracles.bvh_dialects import DIALECTS

from marey.base import FloatArray
from marey.lie import SO3
from marey.motion import Motion

Rng = np.random.Generator
SIDES = ("left", "right")
UNIT_M = {"m": 1.0, "cm": 0.01, "mm": 0.001, "inch": 0.0254, "dm": 0.1, "foot": 0.3048}
NODES = ("Reference", "Armature", "root", "joint_Root", "Root", "World", "RootNode", "Character1_Reference", "CTRL",
         "Bip01", "RL_BoneRoot", "BoneRoot", "Reference_Node", "Hips_Root", "world_offset", "Global",
         "Solving:Actor", "Scene", "master", "Trajectory", "Motion", "Skeleton 1")  # fmt: skip
MUST = ("pelvis", "head", *(f"{side}_{part}" for side in SIDES for part in
        ("hip", "knee", "ankle", "shoulder", "elbow", "wrist")))  # fmt: skip


@dataclass
class OddFile:
    """A drawn file and what is true of it."""

    data: bytes
    positions: FloatArray  # (F, K, 3) [m] of the joints below, Y up
    joints: tuple[str, ...]  # (K,) names
    roles: dict[str, str]  # joint by role
    rate_hz: float
    choices: dict[str, str] = field(default_factory=dict[str, str])


@dataclass
class StudioNode:
    """A joint of the file: what it is called, where it hangs, how it moves."""

    name: str
    parent: int
    offset: FloatArray  # (3,)
    wxyz: FloatArray  # (F, 4)
    tip: FloatArray | None = None
    moves: FloatArray | None = None  # (F, 3) translation channels


@dataclass
class StudioRig:
    """A clip as a list of nodes that tests add to, and its text."""

    nodes: list[StudioNode]
    rate_hz: float
    roots: list[int] = field(default_factory=lambda: [0])

    @classmethod
    def from_motion(cls, motion: Motion, names: Mapping[str, str]) -> StudioRig:
        """Take over a motion of the canonical human, whose joints are called by their roles."""
        skeleton = motion.skeleton
        nodes = [
            StudioNode(
                names[name],
                int(skeleton.parents[j]),
                np.array(skeleton.offsets[j]),
                motion.rotations.wxyz[:, j].copy(),
                np.array(skeleton.tips[j]),
                motion.root_positions.copy() if j == 0 else None,
            )
            for j, name in enumerate(skeleton.names)
        ]
        return cls(nodes, motion.rate_hz)

    def find(self, name: str) -> int:
        """Return the index of a node."""
        return next(i for i, node in enumerate(self.nodes) if node.name == name)

    def add(self, name: str, parent: str, offset: Sequence[float], *, tip: Sequence[float] | None = None) -> None:
        """Hang a node that does not turn under another."""
        still = np.tile([1.0, 0.0, 0.0, 0.0], (len(self.nodes[0].wxyz), 1))
        self.nodes.append(
            StudioNode(name, self.find(parent), np.array(offset), still, None if tip is None else np.array(tip))
        )

    def put_above(self, name: str, offset: Sequence[float] = (0.0, 0.0, 0.0), *, takes_path: bool = False) -> None:
        """Hang the root under a node; with ``takes_path`` that node travels and the hips keep their height only."""
        root, frames = self.nodes[0], len(self.nodes[0].wxyz)
        assert root.moves is not None
        still = np.tile([1.0, 0.0, 0.0, 0.0], (frames, 1))
        path = root.moves * [1.0, 0.0, 1.0] if takes_path else np.tile(np.array(offset, dtype=float), (frames, 1))
        root.moves = root.moves - path
        root.offset = np.array(root.moves[0])
        for node in self.nodes:
            node.parent += 1
        self.nodes.insert(0, StudioNode(name, -1, np.array(offset, dtype=float), still, None, path))

    def text(self, *, unit: str = "cm", up: str = "y", order: str = "ZXY", all_move: bool = False) -> str:
        """Write the hierarchy depth first and all frames, angles in degrees."""
        scale = 1.0 / UNIT_M[unit]
        turn = np.eye(3) if up == "y" else np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
        children: dict[int, list[int]] = {i: [] for i in range(-1, len(self.nodes))}
        for i, node in enumerate(self.nodes):
            children[node.parent].append(i)
        lines, columns = ["HIERARCHY"], []

        def write(i: int, depth: int) -> None:
            node, pad = self.nodes[i], "\t" * depth
            where = turn @ node.offset * scale
            lines.extend([f"{pad}{'ROOT' if node.parent < 0 else 'JOINT'} {node.name}", pad + "{"])
            lines.append(f"{pad}\tOFFSET {where[0]:.6f} {where[1]:.6f} {where[2]:.6f}")
            angles = np.degrees(euler_angles(turn @ SO3(node.wxyz).matrix() @ turn.T, order))
            channels = [f"{axis}rotation" for axis in order]
            if node.moves is not None or all_move:
                moves = np.tile(node.offset, (len(angles), 1)) if node.moves is None else node.moves
                columns.append(moves @ turn.T * scale)
                channels = ["Xposition", "Yposition", "Zposition", *channels]
            columns.append(angles)
            lines.append(f"{pad}\tCHANNELS {len(channels)} {' '.join(channels)}")
            for child in children[i]:
                write(child, depth + 1)
            if not children[i]:
                tip = turn @ (np.zeros(3) if node.tip is None else node.tip) * scale
                lines.extend(
                    [f"{pad}\tEnd Site", pad + "\t{", f"{pad}\t\tOFFSET {tip[0]:.6f} {tip[1]:.6f} {tip[2]:.6f}"]
                )
                lines.append(pad + "\t}")
            lines.append(pad + "}")

        for root in children[-1]:
            write(root, 0)
        values = np.concatenate(columns, axis=1)
        lines += ["MOTION", f"Frames: {len(values)}", f"Frame Time: {1.0 / self.rate_hz:.7f}"]
        lines += [" ".join(f"{x:.5f}" for x in row) for row in values]
        return "\n".join(lines) + "\n"


def euler_angles(R: FloatArray, order: str) -> FloatArray:
    """Angles ``(F, 3)`` [rad] of intrinsic turns about the axes of ``order``, from matrices ``(F, 3, 3)``."""
    i, j, k = ("XYZ".index(axis) for axis in order)
    sign = 1.0 if (j - i) % 3 == 1 else -1.0
    middle = np.arcsin(np.clip(sign * R[:, i, k], -1.0, 1.0))
    first = np.arctan2(-sign * R[:, j, k], R[:, k, k])
    last = np.arctan2(-sign * R[:, i, j], R[:, i, i])
    return np.stack([first, middle, last], axis=-1)


class Draft(StudioRig):
    """A rig whose nodes are found by role."""

    names: dict[str, str]
    words: tuple[str, str] = SIDES  # how a name says left and right

    def node(self, role: str) -> StudioNode:
        """Return the node of a role."""
        return self.nodes[self.find(self.names[role])]

    def has(self, role: str) -> bool:
        """Whether the rig still has the joint."""
        return any(node.name == self.names[role] for node in self.nodes)

    def drop(self, role: str) -> None:
        """Take a joint out: its children hang on its parent, its turn goes into theirs."""
        index = self.find(self.names[role])
        gone = self.nodes.pop(index)
        for node in self.nodes:
            if node.parent == index:
                node.offset = gone.offset + node.offset
                node.wxyz = (SO3(gone.wxyz) @ SO3(node.wxyz)).wxyz
                node.parent = gone.parent
            node.parent -= node.parent > index

    def split(self, role: str, child: str, parts: int, word: str) -> None:
        """Put joints that do not turn into a bone."""
        bone = self.node(child)
        step = bone.offset / parts
        parent = self.names[role]
        for k in range(1, parts):
            name = f"{self.names[role]}{word}{k}"
            self.add(name, parent, step)
            parent = name
        bone.parent, bone.offset = self.find(parent), step

    def world(self) -> tuple[FloatArray, list[str]]:
        """Positions ``(F, J, 3)`` [m] of all nodes and their names."""
        frames: dict[int, tuple[SO3, FloatArray]] = {}

        def pose(i: int) -> tuple[SO3, FloatArray]:
            if i not in frames:
                node = self.nodes[i]
                local = np.tile(node.offset, (len(node.wxyz), 1)) if node.moves is None else node.moves
                if node.parent < 0:
                    frames[i] = SO3(node.wxyz), local
                else:
                    R, p = pose(node.parent)
                    frames[i] = R @ SO3(node.wxyz), p + R @ local
            return frames[i]

        return np.stack([pose(i)[1] for i in range(len(self.nodes))], axis=1), [node.name for node in self.nodes]


def scale_body(motion: Motion, rng: Rng) -> Motion:
    """Another person: stature, legs, arms, trunk and head of other lengths, still human."""
    stature = rng.uniform(1.42, 2.0) / 1.75
    legs, arms, trunk, head = np.exp(rng.normal(0.0, 0.06, 4))
    offsets, tips = motion.skeleton.offsets.copy(), motion.skeleton.tips.copy()
    for j, name in enumerate(motion.skeleton.names):
        part = name.removeprefix("left_").removeprefix("right_")
        factor = {"knee": legs, "ankle": legs, "elbow": arms, "wrist": arms, "spine1": trunk, "spine2": trunk,
                  "spine3": trunk, "neck": trunk, "collar": trunk, "head": head}.get(part, 1.0)  # fmt: skip
        offsets[j] *= factor * stature
        tips[j] *= stature * (head if part == "head" else 1.0)
    body = type(motion.skeleton)(motion.skeleton.names, motion.skeleton.parents, offsets, tips)
    return Motion(body, motion.rate_hz, motion.root_positions * legs * stature, motion.rotations, name="person")


def _drop_roles(*roles: str) -> Callable[[Draft, Rng], None]:
    def change(rig: Draft, _: Rng) -> None:
        for role in roles:
            for name in (role,) if role in rig.names else (f"left_{role}", f"right_{role}"):
                if rig.has(name):
                    rig.drop(name)

    return change


def _arms_on_neck(rig: Draft, _: Rng) -> None:
    """The collars of a Biped hang on its neck."""
    neck = rig.find(rig.names["neck"])
    R_neck = SO3(rig.nodes[neck].wxyz)
    for side in SIDES:
        collar = rig.node(f"{side}_collar")
        collar.offset = collar.offset - rig.nodes[neck].offset
        # The turn of the neck is taken back, at rest and in every frame: the neck does not turn here
        collar.parent = neck
    rig.nodes[neck].wxyz = np.tile([1.0, 0.0, 0.0, 0.0], (len(R_neck.wxyz), 1))


def _legs_on_spine(rig: Draft, _: Rng) -> None:
    """Thighs of an old Biped hang on its first spine joint, which does not turn then."""
    spine = rig.find(rig.names["spine1"])
    rig.nodes[spine].wxyz = np.tile([1.0, 0.0, 0.0, 0.0], (len(rig.nodes[spine].wxyz), 1))
    for side in SIDES:
        hip = rig.node(f"{side}_hip")
        hip.offset, hip.parent = hip.offset - rig.nodes[spine].offset, spine


def _twist_beside(rig: Draft, rng: Rng) -> None:
    for side in SIDES:
        for upper, lower in (("hip", "knee"), ("knee", "ankle"), ("shoulder", "elbow"), ("elbow", "wrist")):
            along = rig.node(f"{side}_{lower}").offset * rng.uniform(0.2, 0.8)
            rig.add(f"{rig.names[f'{side}_{upper}']}_twist", rig.names[f"{side}_{upper}"], along)


def _twist_inside(rig: Draft, _: Rng) -> None:
    for side in SIDES:
        for upper, lower in (("shoulder", "elbow"), ("elbow", "wrist"), ("hip", "knee")):
            rig.split(f"{side}_{upper}", f"{side}_{lower}", 2, "Roll")


def _fingers(rig: Draft, _: Rng) -> None:
    for side, out in (("left", 1.0), ("right", -1.0)):
        hand = rig.names[f"{side}_wrist"]
        for i, finger in enumerate(("Thumb", "Index", "Middle", "Ring", "Pinky")):
            parent = hand
            for k in range(1, 5):
                name = f"{hand}{finger}{k}"
                rig.add(name, parent, (out * (0.08 if k == 1 else 0.028), 0.0, 0.02 * (2 - i) if k == 1 else 0.0))
                parent = name


def _spines(count: int) -> Callable[[Draft, Rng], None]:
    return lambda rig, _: rig.split("spine1", "spine2", count, "x")


def _stubs(rig: Draft, _: Rng) -> None:
    """Joints of no length between pelvis and thigh."""
    for side in SIDES:
        rig.add(f"{rig.names[f'{side}_hip']}_stub", rig.names["pelvis"], (0.0, 0.0, 0.0))
        rig.node(f"{side}_hip").parent = len(rig.nodes) - 1


def _lower_body_node(rig: Draft, _: Rng) -> None:
    """Both legs hang on a node of their own beside the spine."""
    rig.add("LowerBody", rig.names["pelvis"], (0.0, 0.02, 0.0))
    for side in SIDES:
        hip = rig.node(f"{side}_hip")
        hip.parent, hip.offset = len(rig.nodes) - 1, hip.offset - [0.0, 0.02, 0.0]


def _ends(rig: Draft, rng: Rng) -> None:
    """Last joints instead of end sites: Nub, _End."""
    word = str(rng.choice(["_End", "Nub", "_end", "_Tip", " End"]))
    for node in list(rig.nodes):
        if node.tip is not None and node.tip.any():
            rig.add(node.name + word, node.name, node.tip)
            node.tip = None


def _face(rig: Draft, rng: Rng) -> None:
    for k in range(30):
        rig.add(f"face_{k}", rig.names["head"], 0.1 * rng.normal(size=3) * [0.5, 0.5, 0.3] + [0.0, 0.05, 0.08])


def _weapon(rig: Draft, _: Rng) -> None:
    rig.add("Sword", rig.names["right_wrist"], (-0.08, 0.0, 0.03), tip=(0.0, 0.0, 1.1))
    rig.add("Shield", rig.names["left_elbow"], (0.15, 0.0, 0.1), tip=(0.0, 0.4, 0.0))
    rig.add("Backpack", rig.names["spine3"], (0.0, 0.1, -0.2), tip=(0.0, -0.3, -0.1))


def _targets(rig: Draft, _: Rng) -> None:
    for name, where in (
        ("ik_foot_root", (0.0, 0.0, 0.0)),
        ("ik_hand_root", (0.0, 0.0, 0.0)),
        ("camera", (0.0, 1.0, 3.0)),
    ):
        rig.add(name, rig.nodes[0].name, where)
    for side, x in (("l", 0.1), ("r", -0.1)):
        rig.add(f"ik_foot_{side}", "ik_foot_root", (x, -0.9, 0.0))
        rig.add(f"ik_hand_{side}", "ik_hand_root", (6.0 * x, 0.4, 0.1))


def _hair(rig: Draft, _: Rng) -> None:
    for k in range(6):
        parent = rig.names["head"]
        for link in range(7):
            rig.add(f"hair{k}_{link}", parent, (0.02 * (k - 2.5), -0.07, -0.08 if link == 0 else 0.0))
            parent = f"hair{k}_{link}"
    for k in range(8):
        parent = rig.names["pelvis"]
        for link in range(4):
            rig.add(
                f"coat{k}_{link}", parent, (0.15 * np.sin(k), -0.15, 0.15 * np.cos(k)) if not link else (0, -0.16, 0)
            )
            parent = f"coat{k}_{link}"


def _double_limbs(rig: Draft, _: Rng) -> None:
    """Every bone of a limb in two, also the shank, as MakeHuman draws them."""
    for side in SIDES:
        for upper, lower in (("shoulder", "elbow"), ("elbow", "wrist"), ("hip", "knee"), ("knee", "ankle")):
            rig.split(f"{side}_{upper}", f"{side}_{lower}", 2, "b")


def _long_neck(rig: Draft, _: Rng) -> None:
    rig.split("neck", "head", 3, "n")


def _fore_foot(rig: Draft, _: Rng) -> None:
    """A joint between ankle and toes, and a heel beside it."""
    for side in SIDES:
        heel = rig.node(f"{side}_foot").offset * [0.0, 1.0, -0.4]
        rig.add(f"{rig.names[f'{side}_ankle']}Heel", rig.names[f"{side}_ankle"], heel)
        rig.split(f"{side}_ankle", f"{side}_foot", 2, "F")


def _tail(rig: Draft, _: Rng) -> None:
    """A costume with a tail, ears and wings."""
    parent = rig.names["pelvis"]
    for link in range(6):
        rig.add(f"tail{link}", parent, (0.0, 0.0 if link else 0.05, -0.12))
        parent = f"tail{link}"
    for side, x in (("L", 1.0), ("R", -1.0)):
        rig.add(f"ear{side}", rig.names["head"], (0.05 * x, 0.15, 0.0), tip=(0.0, 0.12, 0.0))
        parent = rig.names["spine3"]
        for link in range(3):
            rig.add(f"wing{link}{side}", parent, (0.3 * x, 0.1, -0.1))
            parent = f"wing{link}{side}"


def _soft_parts(rig: Draft, _: Rng) -> None:
    """Joints of muscles, of the chest and of the seat."""
    for side, x in (("l", 1.0), ("r", -1.0)):
        for part, parent, where in (
            ("breast", "spine3", (0.08 * x, 0.05, 0.12)),
            ("glute", "pelvis", (0.09 * x, -0.05, -0.1)),
            ("pec", "spine3", (0.12 * x, 0.1, 0.08)),
            ("lat", "spine2", (0.14 * x, 0.05, -0.06)),
        ):
            rig.add(f"{part}_{side}", rig.names[parent], where, tip=(0.0, 0.0, 0.04 if where[2] > 0 else -0.04))
        rig.add(f"kneecap_{side}", rig.names["left_knee" if x > 0 else "right_knee"], (0.0, 0.0, 0.05))
        rig.add(f"elbowtip_{side}", rig.names["left_elbow" if x > 0 else "right_elbow"], (0.0, 0.0, -0.04))


TREES: Mapping[str, Callable[[Draft, Rng], None]] = {
    "plain": lambda rig, rng: None,
    "no toes": _drop_roles("foot"),
    "no collars": _drop_roles("collar"),
    "no neck": _drop_roles("neck"),
    "one spine": _drop_roles("spine2", "spine3"),
    "two spines, no toes": _drop_roles("spine2", "foot"),
    "five spines": _spines(3),
    "seven spines, fingers": lambda rig, rng: (_spines(5)(rig, rng), _fingers(rig, rng))[0],
    "arms on the neck": _arms_on_neck,
    "legs on the spine": _legs_on_spine,
    "twist bones beside": _twist_beside,
    "twist bones inside": _twist_inside,
    "fingers": _fingers,
    "stubs": _stubs,
    "node of the legs": _lower_body_node,
    "last joints for ends": _ends,
    "face": _face,
    "weapon": _weapon,
    "targets": _targets,
    "hair and coat": _hair,
    "two joints for each limb bone": _double_limbs,
    "neck of three": _long_neck,
    "fore foot and heel": _fore_foot,
    "tail, ears, wings": _tail,
    "soft parts": _soft_parts,
    "metacarpals and long neck": lambda rig, rng: (_long_neck(rig, rng), _fingers(rig, rng))[0],
    "all of it": lambda rig, rng: [f(rig, rng) for f in (_twist_beside, _fingers, _face, _weapon, _hair)].clear(),
}


def _change_rest(rig: Draft, turns: Mapping[str, SO3]) -> None:
    """Draw the skeleton in another rest pose: each node gets a new rest frame; the motion stays.

    ``turns`` holds world rotations of the new frames in the old rest, by node; others inherit their parent's.
    """
    order = sorted(range(len(rig.nodes)), key=lambda i: _depth(rig, i))
    G: dict[int, SO3] = {-1: SO3.identity()}
    for i in order:
        node = rig.nodes[i]
        G[i] = turns.get(node.name, G[node.parent])
        above = G[node.parent]
        node.offset = above.inverse() @ node.offset
        if node.moves is not None:
            node.moves = above.inverse() @ node.moves
        node.wxyz = (above.inverse() @ SO3(node.wxyz) @ G[i]).wxyz
        if node.tip is not None:
            node.tip = G[i].inverse() @ node.tip


def _depth(rig: Draft, i: int) -> int:
    depth = 0
    while (i := rig.nodes[i].parent) >= 0:
        depth += 1
    return depth


def _arms_down(degrees: float) -> Callable[[Draft, Rng], None]:
    def change(rig: Draft, _: Rng) -> None:
        _change_rest(
            rig,
            {
                rig.names[f"{side}_shoulder"]: SO3.exp([0.0, 0.0, sign * np.radians(degrees)])
                for side, sign in (("left", 1.0), ("right", -1.0))
            },
        )

    return change


def _along_axis(axis: Sequence[float]) -> Callable[[Draft, Rng], None]:
    """Every bone along one local axis, as engines and LAFAN1 draw them: offsets are lists of lengths."""

    def change(rig: Draft, _: Rng) -> None:
        kids: dict[int, list[int]] = {}
        for i, node in enumerate(rig.nodes):
            kids.setdefault(node.parent, []).append(i)
        turns: dict[str, SO3] = {}
        for i, node in enumerate(rig.nodes):
            ways = [rig.nodes[k].offset for k in kids.get(i, [])] or ([] if node.tip is None else [node.tip])
            longest = max(ways, key=lambda way: float(np.linalg.norm(way)), default=np.zeros(3))
            if node.parent >= 0 and np.linalg.norm(longest) > 1e-9:
                turns[node.name] = _rotate_onto(np.array(axis, dtype=float), longest / np.linalg.norm(longest))
        _change_rest(rig, turns)

    return change


def _rotate_onto(a: FloatArray, b: FloatArray) -> SO3:
    cross, dot = np.cross(a, b), float(a @ b)
    if dot < -0.999999:
        other = np.cross(a, [1.0, 0.0, 0.0] if abs(a[0]) < 0.9 else [0.0, 1.0, 0.0])
        return SO3.exp(np.pi * other / np.linalg.norm(other))
    angle = np.arctan2(float(np.linalg.norm(cross)), dot)
    return SO3.exp(cross / max(float(np.linalg.norm(cross)), 1e-12) * angle)


def _random_frames(rig: Draft, rng: Rng) -> None:
    _change_rest(rig, {node.name: SO3.exp(rng.normal(size=3)) for node in rig.nodes[1:]})


def _small_turns(rig: Draft, rng: Rng) -> None:
    _change_rest(rig, {node.name: SO3.exp(0.15 * rng.normal(size=3)) for node in rig.nodes[1:]})


def _first_frame(rig: Draft, _: Rng) -> None:
    """The rest pose is the first frame, so all of its channels are zero."""
    frames: dict[int, SO3] = {}

    def turn(i: int) -> SO3:
        if i < 0:
            return SO3.identity()
        if i not in frames:
            frames[i] = turn(rig.nodes[i].parent) @ SO3(rig.nodes[i].wxyz[:1])[0]
        return frames[i]

    # R' = G_parent^-1 R G with G = W_0^-1 ... offsets as they are in world of frame 0
    new = [turn(i) for i in range(len(rig.nodes))]
    for i, node in enumerate(rig.nodes):
        above = new[node.parent] if node.parent >= 0 else SO3.identity()
        node.offset = above @ node.offset
        if node.moves is not None:
            node.moves = above @ node.moves
        node.wxyz = (above @ SO3(node.wxyz) @ new[i].inverse()).wxyz
        if node.tip is not None:
            node.tip = new[i] @ node.tip


def _pose_rest(**turns_deg: Sequence[float]) -> Callable[[Draft, Rng], None]:
    """Limbs of the rest pose turned in world, right ones mirrored; joints below go with them."""

    def change(rig: Draft, _: Rng) -> None:
        turns: dict[str, SO3] = {}
        for side, mirror in (("left", 1.0), ("right", -1.0)):
            for part, turn in turns_deg.items():
                turns[rig.names[f"{side}_{part}"]] = SO3.exp(np.radians(turn) * [1.0, mirror, mirror])
        # Frames below a turned joint go with it, so each is given the turn of the nearest one above
        _change_rest(rig, turns)

    return change


RESTS: Mapping[str, Callable[[Draft, Rng], None]] = {
    "T": lambda rig, rng: None,
    "A 45": _arms_down(-45.0),
    "A 30": _arms_down(-30.0),
    "arms down": _arms_down(-85.0),
    "first frame": _first_frame,
    "arms forward": _pose_rest(shoulder=(0.0, 88.0, 0.0)),
    "legs apart": _pose_rest(hip=(0.0, 0.0, -25.0), shoulder=(0.0, 0.0, 40.0)),
    "half sitting": _pose_rest(hip=(60.0, 0.0, 0.0), knee=(-40.0, 0.0, 0.0)),
    "small turns": _small_turns,
    "bones along x": _along_axis((1.0, 0.0, 0.0)),
    "bones along y": _along_axis((0.0, 1.0, 0.0)),
    "frames at random": _random_frames,
}


def _put_above(rig: Draft, rng: Rng) -> str:
    """Nodes above the hips: none, at rest, far away, travelling, turned."""
    kind = str(rng.choice(["none", "none", "at rest", "two", "far", "travels", "turned", "three", "turns"]))
    words = [str(w) for w in rng.permutation(NODES) if w not in [node.name for node in rig.nodes]]
    if kind in ("at rest", "two", "three"):
        for name in words[: {"at rest": 1, "two": 2, "three": 3}[kind]]:
            rig.put_above(name)
    elif kind == "far":
        rig.put_above(words[0], rng.normal(size=3) * [3.0, 0.5, 3.0])
    elif kind == "travels":
        rig.put_above(words[0], takes_path=True)
    elif kind == "turned":
        rig.put_above(words[0])
        quarter = (
            SO3.exp([-0.5 * np.pi, 0.0, 0.0]) if rng.random() < 0.5 else SO3.exp([0.0, rng.uniform(-3.0, 3.0), 0.0])
        )
        hips = rig.nodes[1]
        rig.nodes[0].wxyz = np.broadcast_to(quarter.wxyz, rig.nodes[0].wxyz.shape).copy()
        assert hips.moves is not None
        hips.moves = quarter.inverse() @ hips.moves
        hips.offset = quarter.inverse() @ hips.offset
        hips.wxyz = (quarter.inverse() @ SO3(hips.wxyz)).wxyz
    elif kind == "turns":
        # A root bone that goes along and looks ahead, as engines want it
        assert rig.nodes[0].moves is not None
        rig.put_above(words[0], takes_path=True)
        root, hips = rig.nodes[:2]
        assert root.moves is not None
        assert hips.moves is not None
        step = np.gradient(root.moves, axis=0)
        yaw = np.unwrap(np.arctan2(step[:, 0], step[:, 2]))
        turn = SO3.exp(yaw[:, None] * [0.0, 1.0, 0.0])
        root.wxyz = turn.wxyz
        hips.moves, hips.wxyz = turn.inverse() @ hips.moves, (turn.inverse() @ SO3(hips.wxyz)).wxyz
    return kind


def write_text(rig: Draft, rng: Rng, choices: dict[str, str], unit_m: float, up: str) -> bytes:
    """Write a rig in one of the ways of the tools; what was chosen goes into ``choices``."""
    order = str(rng.choice(["ZXY", "XYZ", "YXZ", "ZYX", "YZX", "XZY"]))
    has_all, is_last = rng.random() < 0.3, rng.random() < 0.15
    choices |= {"order": order, "positions": "all" if has_all else "root"}
    text = rig.text(unit="m", up=up, order=order, all_move=has_all)
    # Numbers in the file's unit: lengths are scaled word by word
    text = _scale_lengths(text, 1.0 / unit_m, is_last)
    style = str(
        rng.choice(
            [
                "plain",
                "crlf",
                "bom",
                "spaces",
                "lower",
                "upper",
                "braces",
                "blank lines",
                "tabs",
                "tight",
                "latin",
                "exponents",
                "cr",
            ]
        )
    )
    choices["text"] = style
    head, tail = text.split("\nMOTION\n")
    head, tail = head + "\n", "\n" + tail
    if style == "crlf":
        text = text.replace("\n", "\r\n")
    elif style == "cr":
        text = text.replace("\n", "\r")
    elif style == "spaces":
        text = "\n".join(line.replace("\t", "  ") + "  " for line in text.splitlines()) + "\n\n\n"
    elif style in ("lower", "upper"):
        for word in ("HIERARCHY", "ROOT", "JOINT", "End Site", "OFFSET", "CHANNELS"):
            new = word.lower() if style == "lower" else word.upper()
            head = "\n".join(
                line.replace(word, new, 1) if line.strip().startswith(word) else line for line in head.split("\n")
            )
        tail = tail.replace("Frames", "FRAMES" if style == "upper" else "frames").replace(
            "Frame Time", "FRAME TIME" if style == "upper" else "frame time"
        )
        text = head + ("MOTION" if style == "upper" else "motion") + tail
    elif style == "braces":
        text = head.replace("\n{", " {") + "MOTION" + tail
        lines: list[str] = []
        for line in text.split("\n"):
            if line.strip() == "{":
                lines[-1] += " {"
            else:
                lines.append(line)
        text = "\n".join(lines)
    elif style == "blank lines":
        text = text.replace("\nMOTION\n", "\n\n\nMOTION\n\n").replace("\n}", "\n\n}")
    elif style == "tabs":
        text = head + "MOTION" + tail.replace(" ", "\t").replace("Frame\tTime", "Frame Time")
    elif style == "tight":
        text = text.replace("Frames: ", "Frames:").replace("Frame Time: ", "Frame Time:")
    elif style == "exponents":
        lines = tail.split("\n")
        lines[3:] = [" ".join(f"{float(x):.8e}" for x in line.split()) for line in lines[3:]]
        text = head + "MOTION" + "\n".join(lines)
    if style == "bom":
        return b"\xef\xbb\xbf" + text.encode()
    if style == "latin":
        return text.encode("utf-16") if all(ord(c) < 128 for c in text) and rng.random() < 0.5 else text.encode("utf-8")
    return text.encode()


def _scale_lengths(text: str, factor: float, is_last: bool) -> str:
    """Scale offsets and positions; with ``is_last``, position channels follow the rotations."""
    head, tail = text.split("\nMOTION\n")
    lines, columns, moves = [], 0, []
    for line in head.split("\n"):
        words = line.split()
        pad = line[: len(line) - len(line.lstrip())]
        if words[:1] == ["OFFSET"]:
            line = pad + "OFFSET " + " ".join(f"{float(x) * factor:.6f}" for x in words[1:])
        elif words[:1] == ["CHANNELS"]:
            count = int(words[1])
            moves += range(columns, columns + 3) if count == 6 else []
            columns += count
            if count == 6 and is_last:
                line = pad + f"CHANNELS 6 {' '.join(words[5:])} {' '.join(words[2:5])}"
        lines.append(line)
    frames, time, *rows = tail.split("\n")
    table = np.array([[float(x) for x in row.split()] for row in rows if row.strip()])
    table[:, moves] *= factor
    if is_last:
        order = np.arange(table.shape[1])
        for start in moves[::3]:
            order[start : start + 6] = [start + 3, start + 4, start + 5, start, start + 1, start + 2]
        table = table[:, order]
    body = "\n".join(" ".join(f"{x:.6f}" for x in row) for row in table)
    return "\n".join(lines) + f"\nMOTION\n{frames}\n{time}\n{body}\n"


def draw_file(clip: Motion, rng: Rng, **fixed: str) -> OddFile:
    """Draw one file of a clip on the canonical human.

    ``fixed`` chooses ``dialect``, ``tree``, ``rest``, ``unit`` or ``up``; others are drawn.
    """

    def pick(key: str, options: Sequence[str]) -> str:
        return fixed.get(key) or str(rng.choice(options))

    choices = {
        "dialect": pick("dialect", list(DIALECTS)),
        "tree": pick("tree", list(TREES)),
        "rest": pick("rest", list(RESTS)),
        "unit": pick("unit", ["cm", "cm", "cm", "m", "mm", "inch", "dm"]),
        "up": pick("up", ["y", "y", "z"]),
    }
    person = scale_body(clip, rng)
    names = DIALECTS[choices["dialect"]].names()
    rig = Draft.from_motion(person, names)
    assert isinstance(rig, Draft)
    rig.names = names
    rig.nodes[0].offset = np.zeros(3) if rng.random() < 0.5 else rig.nodes[0].offset
    TREES[choices["tree"]](rig, rng)
    positions, joints = rig.world()
    RESTS[choices["rest"]](rig, rng)
    choices["above"] = fixed.get("above") or _put_above(rig, rng)
    rig.rate_hz = float(rng.choice([24.0, 25.0, 30.0, 50.0, 60.0, 100.0, 120.0]))
    data = write_text(rig, rng, choices, UNIT_M[choices["unit"]], choices["up"])
    # Where the legs meet at the spine, either joint may be called the pelvis
    unsure = {"pelvis"} if choices["tree"] == "legs on the spine" else set[str]()
    roles = {role: name for role, name in names.items() if name in joints and role not in unsure}
    return OddFile(data, positions, tuple(joints), roles, rig.rate_hz, choices)

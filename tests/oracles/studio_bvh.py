"""BVH text as studios' tools write it: their names, extra bones, nodes above the hips, units, axes, rates, orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.motion import Motion

SIDED = ("hip", "knee", "ankle", "foot", "collar", "shoulder", "elbow", "wrist")
MIDDLE = ("pelvis", "spine1", "spine2", "spine3", "neck", "head")
UNITS = {"m": 1.0, "cm": 100.0, "mm": 1000.0, "inch": 1.0 / 0.0254}


@dataclass(frozen=True)
class Dialect:
    """Names of one tool: those of the middle, of a left limb, and how a side is said."""

    middle: Sequence[str]
    limbs: Sequence[str]  # {} stands for the side
    sides: tuple[str, str] = ("Left", "Right")

    def names(self) -> dict[str, str]:
        """Return the joint's name by role."""
        found = dict(zip(MIDDLE, self.middle, strict=True))
        for side, word in zip(("left", "right"), self.sides, strict=True):
            found |= {f"{side}_{part}": name.format(word) for part, name in zip(SIDED, self.limbs, strict=True)}
        return found


def _prefix(dialect: Dialect, prefix: str) -> Dialect:
    return Dialect([prefix + n for n in dialect.middle], [prefix + n for n in dialect.limbs], dialect.sides)


MOTIONBUILDER = Dialect(
    ("Hips", "Spine", "Spine1", "Spine2", "Neck", "Head"),
    ("{}UpLeg", "{}Leg", "{}Foot", "{}ToeBase", "{}Shoulder", "{}Arm", "{}ForeArm", "{}Hand"),
)
DIALECTS: Mapping[str, Dialect] = {
    "motionbuilder": MOTIONBUILDER,
    "mixamo": _prefix(MOTIONBUILDER, "mixamorig:"),
    "maya": _prefix(MOTIONBUILDER, "Character1_Ctrl:"),
    "vicon shogun": _prefix(MOTIONBUILDER, "Solving Actor 1:"),
    "perception neuron": _prefix(MOTIONBUILDER, "Robot_"),
    "unreal": Dialect(
        ("pelvis", "spine_01", "spine_02", "spine_03", "neck_01", "head"),
        ("thigh_{}", "calf_{}", "foot_{}", "ball_{}", "clavicle_{}", "upperarm_{}", "lowerarm_{}", "hand_{}"),
        ("l", "r"),
    ),
    "unity": Dialect(
        ("Hips", "Spine", "Chest", "UpperChest", "Neck", "Head"),
        ("{}UpperLeg", "{}LowerLeg", "{}Foot", "{}Toes", "{}Shoulder", "{}UpperArm", "{}LowerArm", "{}Hand"),
    ),
    "game studio": Dialect(
        ("Hips", "Spine", "Chest", "UpperChest", "Neck", "Head"),
        ("UpperLeg_{}", "LowerLeg_{}", "Foot_{}", "Toes_{}", "Shoulder_{}", "UpperArm_{}", "LowerArm_{}", "Hand_{}"),
        ("L", "R"),
    ),
    "rokoko": Dialect(
        ("Hips", "Spine1", "Spine2", "Spine3", "Neck", "Head"),
        ("{}Thigh", "{}Shin", "{}Foot", "{}Toe", "{}Shoulder", "{}Arm", "{}ForeArm", "{}Hand"),
    ),
    "xsens": Dialect(
        ("Pelvis", "L5", "L3", "T8", "Neck", "Head"),
        ("{}UpperLeg", "{}LowerLeg", "{}Foot", "{}Toe", "{}Shoulder", "{}UpperArm", "{}Forearm", "{}Hand"),
    ),
    "xsens bvh": Dialect(
        ("Hips", "Chest", "Chest2", "Chest4", "Neck", "Head"),
        ("{}Hip", "{}Knee", "{}Ankle", "{}Toe", "{}Collar", "{}Shoulder", "{}Elbow", "{}Wrist"),
    ),
    "optitrack": Dialect(
        tuple(f"Skeleton 001_{p}" for p in ("Hip", "Ab", "Chest", "Chest2", "Neck", "Head")),
        tuple(f"Skeleton 001_{{}}{p}" for p in ("Thigh", "Shin", "Foot", "Toe", "Shoulder", "UArm", "FArm", "Hand")),
        ("L", "R"),
    ),
    "vicon": Dialect(
        ("root", "lowerback", "upperback", "thorax", "lowerneck", "head"),
        ("{}femur", "{}tibia", "{}foot", "{}toes", "{}clavicle", "{}humerus", "{}radius", "{}hand"),
        ("l", "r"),
    ),
    "blender rigify": Dialect(
        ("DEF-spine", "DEF-spine.001", "DEF-spine.002", "DEF-spine.003", "DEF-spine.004", "DEF-spine.006"),
        tuple(f"DEF-{p}.{{}}" for p in ("thigh", "shin", "foot", "toe", "shoulder", "upper_arm", "forearm", "hand")),
        ("L", "R"),
    ),
    "3ds max biped": Dialect(
        tuple(f"Bip001 {p}" for p in ("Pelvis", "Spine", "Spine1", "Spine2", "Neck", "Head")),
        tuple(f"Bip001 {{}} {p}" for p in ("Thigh", "Calf", "Foot", "Toe0", "Clavicle", "UpperArm", "Forearm", "Hand")),
        ("L", "R"),
    ),
    "poser": Dialect(
        ("hip", "abdomen", "chest", "chestUpper", "neck", "head"),
        ("{}Thigh", "{}Shin", "{}Foot", "{}Toe", "{}Collar", "{}Shldr", "{}ForeArm", "{}Hand"),
        ("l", "r"),
    ),
    "daz": Dialect(
        ("pelvis", "abdomenLower", "abdomenUpper", "chestLower", "neckLower", "head"),
        ("{}ThighBend", "{}Shin", "{}Foot", "{}Toe", "{}Collar", "{}ShldrBend", "{}ForearmBend", "{}Hand"),
        ("l", "r"),
    ),
    "character creator": Dialect(
        tuple(f"CC_Base_{p}" for p in ("Hip", "Waist", "Spine01", "Spine02", "NeckTwist01", "Head")),
        tuple(
            f"CC_Base_{{}}_{p}"
            for p in ("Thigh", "Calf", "Foot", "ToeBase", "Clavicle", "Upperarm", "Forearm", "Hand")
        ),
        ("L", "R"),
    ),
    "vrm": Dialect(
        tuple(f"J_Bip_C_{p}" for p in ("Hips", "Spine", "Chest", "UpperChest", "Neck", "Head")),
        tuple(
            f"J_Bip_{{}}_{p}"
            for p in ("UpperLeg", "LowerLeg", "Foot", "ToeBase", "Shoulder", "UpperArm", "LowerArm", "Hand")
        ),
        ("L", "R"),
    ),
    "smpl": Dialect(
        tuple(f"m_avg_{p}" for p in ("Pelvis", "Spine1", "Spine2", "Spine3", "Neck", "Head")),
        tuple(f"m_avg_{{}}_{p}" for p in ("Hip", "Knee", "Ankle", "Foot", "Collar", "Shoulder", "Elbow", "Wrist")),
        ("L", "R"),
    ),
    "depth camera": Dialect(
        ("SpineBase", "SpineLow", "SpineMid", "SpineShoulder", "Neck", "Head"),
        ("Hip{}", "Knee{}", "Ankle{}", "Foot{}", "Clavicle{}", "Shoulder{}", "Elbow{}", "Wrist{}"),
    ),
    "ipi": Dialect(
        ("Hip", "LowerSpine", "MiddleSpine", "Chest", "Neck", "Head"),
        ("{}Thigh", "{}Shin", "{}Foot", "{}Toe", "{}Clavicle", "{}Shoulder", "{}Forearm", "{}Hand"),
        ("L", "R"),
    ),
    "mikumiku": Dialect(
        ("センター", "上半身", "上半身2", "上半身3", "首", "頭"),
        ("{}足", "{}ひざ", "{}足首", "{}つま先", "{}肩", "{}腕", "{}ひじ", "{}手首"),
        ("左", "右"),
    ),
    "accents": Dialect(
        ("Hüfte", "Wirbel 1", "Wirbel 2", "Brust", "Hals", "Kopf"),
        tuple(
            f"{{}} {p}"
            for p in "Oberschenkel Unterschenkel Fuß Zehen Schlüsselbein Oberarm Unterarm Hand".split()  # noqa: SIM905
        ),
        ("Linker", "Rechter"),
    ),
}  # fmt: skip


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
        scale = UNITS[unit]
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

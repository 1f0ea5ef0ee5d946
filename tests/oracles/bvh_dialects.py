"""Names of joints as tools write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SIDED = ("hip", "knee", "ankle", "foot", "collar", "shoulder", "elbow", "wrist")
MIDDLE = ("pelvis", "spine1", "spine2", "spine3", "neck", "head")


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
    "100 styles": Dialect(
        ("Hips", "Chest", "Chest2", "Chest3", "Neck", "Head"),
        ("{}Hip", "{}Knee", "{}Ankle", "{}Toe", "{}Collar", "{}Shoulder", "{}Elbow", "{}Wrist"),
    ),
    "old biped": Dialect(
        tuple(f"Bip01 {p}" for p in ("Pelvis", "Spine", "Spine1", "Spine2", "Neck", "Head")),
        tuple(f"Bip01 {{}} {p}" for p in ("Thigh", "Calf", "Foot", "Toe0", "Clavicle", "UpperArm", "Forearm", "Hand")),
        ("L", "R"),
    ),
    "biped underscores": Dialect(
        tuple(f"Bip01_{p}" for p in ("Pelvis", "Spine", "Spine1", "Spine2", "Neck", "Head")),
        tuple(f"Bip01_{{}}_{p}" for p in ("Thigh", "Calf", "Foot", "Toe0", "Clavicle", "UpperArm", "Forearm", "Hand")),
        ("L", "R"),
    ),
    "second life": Dialect(
        ("mPelvis", "mTorso", "mSpine3", "mChest", "mNeck", "mHead"),
        tuple(
            f"m{p}{{}}" for p in ("Hip", "Knee", "Ankle", "Foot", "Collar", "Shoulder", "Elbow", "Wrist")
        ),
        ("Left", "Right"),
    ),
    "max friendly": Dialect(
        ("Hips", "ToSpine", "Chest", "Chest2", "Neck", "Head"),
        ("{}Hip", "{}Knee", "{}Ankle", "{}Toe", "{}Collar", "{}Shoulder", "{}Elbow", "{}Wrist"),
    ),
    "human 3.6m": Dialect(
        ("Hip", "Spine", "Thorax", "Thorax1", "Neck/Nose", "Head"),
        ("{}Hip", "{}Knee", "{}Foot", "{}ToeBase", "{}Clav", "{}Shoulder", "{}Elbow", "{}Wrist"),
        ("L", "R"),
    ),
    "eyes japan": Dialect(
        ("Hips", "Spine", "Spine1", "Spine2", "Neck", "Head"),
        ("{}Thigh", "{}Shin", "{}Foot", "{}Toe", "{}Collar", "{}UpArm", "{}LoArm", "{}Hand"),
        ("L", "R"),
    ),
    "advanced skeleton": Dialect(
        ("Root_M", "Spine1_M", "Spine2_M", "Chest_M", "Neck_M", "Head_M"),
        ("Hip_{}", "Knee_{}", "Ankle_{}", "Toes_{}", "Scapula_{}", "Shoulder_{}", "Elbow_{}", "Wrist_{}"),
        ("L", "R"),
    ),
    "source engine": Dialect(
        tuple(f"ValveBiped.Bip01_{p}" for p in ("Pelvis", "Spine", "Spine1", "Spine2", "Neck1", "Head1")),
        tuple(
            f"ValveBiped.Bip01_{{}}_{p}"
            for p in ("Thigh", "Calf", "Foot", "Toe0", "Clavicle", "UpperArm", "Forearm", "Hand")
        ),
        ("L", "R"),
    ),
    "japanese studio": Dialect(
        ("腰", "背骨", "背骨1", "胸", "首", "頭"),
        ("{}脚", "{}膝", "{}足", "{}爪先", "{}肩", "{}上腕", "{}前腕", "{}手"),
        ("左", "右"),
    ),
    "russian": Dialect(
        ("Таз", "Спина", "Спина1", "Грудь", "Шея", "Голова"),
        ("{} бедро", "{} голень", "{} стопа", "{} носок", "{} ключица", "{} плечо", "{} предплечье", "{} кисть"),
        ("Левое", "Правое"),
    ),
    "numbers": Dialect(
        tuple(f"joint{k}" for k in range(6)), tuple(f"joint{{}}{k}" for k in range(8)), ("1", "2")
    ),
    "letters alone": Dialect(
        ("p", "s1", "s2", "s3", "n", "h"), ("{}h", "{}k", "{}a", "{}t", "{}c", "{}s", "{}e", "{}w"), ("l", "r")
    ),
    "nokov": Dialect(
        ("Hips", "Spine", "Spine1", "Spine2", "Neck", "Head"),
        ("{}UpLeg", "{}Leg", "{}Foot", "{}ToeBase", "{}Shoulder", "{}Arm", "{}ForeArm", "{}Hand"),
    ),
    "unreal five": Dialect(
        ("pelvis", "spine_01", "spine_03", "spine_05", "neck_01", "head"),
        ("thigh_{}", "calf_{}", "foot_{}", "ball_{}", "clavicle_{}", "upperarm_{}", "lowerarm_{}", "hand_{}"),
        ("l", "r"),
    ),
    "suffix words": Dialect(
        ("Hips", "Torso", "Torso1", "Torso2", "Neck", "Head"),
        ("Thigh_{}", "Shin_{}", "Ankle_{}", "Ball_{}", "Clavicle_{}", "Bicep_{}", "Forearm_{}", "Palm_{}"),
        ("left", "right"),
    ),
    "sims": Dialect(
        ("b__ROOT_bind__", "b__Spine0__", "b__Spine1__", "b__Spine2__", "b__Neck__", "b__Head__"),
        (
            "b__{}_Thigh__", "b__{}_Calf__", "b__{}_Foot__", "b__{}_Toe__",
            "b__{}_Clavicle__", "b__{}_UpperArm__", "b__{}_Forearm__", "b__{}_Hand__",
        ),
        ("L", "R"),
    ),
}  # fmt: skip

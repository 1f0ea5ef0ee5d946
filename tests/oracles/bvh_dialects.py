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
    "deepmotion": Dialect(
        ("hips_JNT", "spine_JNT", "spine1_JNT", "spine2_JNT", "neck_JNT", "head_JNT"),
        (
            "{}_upleg_JNT", "{}_leg_JNT", "{}_foot_JNT", "{}_toebase_JNT",
            "{}_shoulder_JNT", "{}_arm_JNT", "{}_forearm_JNT", "{}_hand_JNT",
        ),
        ("l", "r"),
    ),
    "auto rig": Dialect(
        ("root.x", "spine_01.x", "spine_02.x", "spine_03.x", "neck.x", "head.x"),
        (
            "thigh_stretch.{}", "leg_stretch.{}", "foot.{}", "toes_01.{}",
            "shoulder.{}", "arm_stretch.{}", "forearm_stretch.{}", "hand.{}",
        ),
        ("l", "r"),
    ),
    "mgear": Dialect(
        ("body_C0_0_jnt", "spine_C0_0_jnt", "spine_C0_1_jnt", "spine_C0_2_jnt", "neck_C0_0_jnt", "neck_C0_head_jnt"),
        (
            "leg_{}0_0_jnt", "leg_{}0_1_jnt", "leg_{}0_end_jnt", "foot_{}0_0_jnt",
            "shoulder_{}0_shoulder_jnt", "arm_{}0_0_jnt", "arm_{}0_1_jnt", "arm_{}0_end_jnt",
        ),
        ("L", "R"),
    ),
    "beat": Dialect(
        ("Hips", "Spine", "Spine1", "Spine3", "Neck", "Head"),
        ("{}UpLeg", "{}Leg", "{}Foot", "{}ToeBase", "{}Shoulder", "{}Arm", "{}Arm1", "{}Hand"),
        ("L", "R"),
    ),
    "genesis nine": Dialect(
        ("pelvis", "spine1", "spine2", "spine4", "neck1", "head"),
        ("{}_thigh", "{}_shin", "{}_foot", "{}_toes", "{}_shoulder", "{}_upperarm", "{}_forearm", "{}_hand"),
        ("l", "r"),
    ),
    "makehuman": Dialect(
        ("root", "spine05", "spine03", "spine01", "neck01", "head"),
        (
            "upperleg01.{}", "lowerleg01.{}", "foot.{}", "toe1-1.{}",
            "clavicle.{}", "upperarm01.{}", "lowerarm01.{}", "wrist.{}",
        ),
        ("L", "R"),
    ),
    "vrm one": Dialect(
        ("hips", "spine", "chest", "upperChest", "neck", "head"),
        ("{}UpperLeg", "{}LowerLeg", "{}Foot", "{}Toes", "{}Shoulder", "{}UpperArm", "{}LowerArm", "{}Hand"),
        ("left", "right"),
    ),
    "from software": Dialect(
        ("Pelvis", "Spine", "Spine1", "Spine2", "Neck", "Head"),
        ("{}_Thigh", "{}_Calf", "{}_Foot", "{}_Toe0", "{}_Clavicle", "{}_UpperArm", "{}_Forearm", "{}_Hand"),
        ("L", "R"),
    ),
    "rage": Dialect(
        tuple(f"SKEL_{p}" for p in ("Pelvis", "Spine0", "Spine1", "Spine3", "Neck_1", "Head")),
        tuple(f"SKEL_{{}}_{p}" for p in ("Thigh", "Calf", "Foot", "Toe0", "Clavicle", "UpperArm", "Forearm", "Hand")),
        ("L", "R"),
    ),
    "creation engine": Dialect(
        (
            "NPC Pelvis [Pelv]", "NPC Spine [Spn0]", "NPC Spine1 [Spn1]", "NPC Spine2 [Spn2]",
            "NPC Neck [Neck]", "NPC Head [Head]",
        ),
        (
            "NPC {0} Thigh [{0}Thg]", "NPC {0} Calf [{0}Clf]", "NPC {0} Foot [{0}ft ]", "NPC {0} Toe0 [{0}Toe]",
            "NPC {0} Clavicle [{0}Clv]", "NPC {0} UpperArm [{0}UpA]", "NPC {0} Forearm [{0}LrA]",
            "NPC {0} Hand [{0}Hnd]",
        ),
        ("L", "R"),
    ),
    "chinese studio": Dialect(
        ("骨盆", "脊椎", "脊椎1", "胸", "脖子", "头"),
        ("{}大腿", "{}小腿", "{}脚", "{}脚趾", "{}肩", "{}上臂", "{}前臂", "{}手"),
        ("左", "右"),
    ),
    "french": Dialect(
        ("Bassin", "Colonne1", "Colonne2", "Poitrine", "Cou", "Tete"),
        ("Cuisse_{}", "Mollet_{}", "Pied_{}", "Orteils_{}", "Clavicule_{}", "Bras_{}", "AvantBras_{}", "Main_{}"),
        ("G", "D"),
    ),
    "spanish": Dialect(
        ("Cadera", "Columna1", "Columna2", "Pecho", "Cuello", "Cabeza"),
        ("Muslo{}", "Pantorrilla{}", "Pie{}", "Dedos{}", "Clavicula{}", "Brazo{}", "Antebrazo{}", "Mano{}"),
        ("Izq", "Der"),
    ),
    "maya joints": Dialect(
        ("pelvis_jnt", "spine_01_jnt", "spine_02_jnt", "spine_03_jnt", "neck_01_jnt", "head_jnt"),
        (
            "{}_leg_jnt", "{}_knee_jnt", "{}_ankle_jnt", "{}_ball_jnt",
            "{}_clav_jnt", "{}_arm_jnt", "{}_elbow_jnt", "{}_wrist_jnt",
        ),
        ("lf", "rt"),
    ),
    "binds": Dialect(
        ("bn_pelvis", "bn_spineA", "bn_spineB", "bn_spineC", "bn_neckA", "bn_head"),
        (
            "bn_legUpper_{}", "bn_legLower_{}", "bn_foot_{}", "bn_toe_{}",
            "bn_clav_{}", "bn_armUpper_{}", "bn_armLower_{}", "bn_hand_{}",
        ),
        ("lf", "rt"),
    ),
    "game names": Dialect(
        ("def_c_pelvis", "def_c_spine1", "def_c_spine2", "def_c_chest", "def_c_neck", "def_c_head"),
        (
            "def_{}_upleg", "def_{}_loleg", "def_{}_foot", "def_{}_toe",
            "def_{}_clavicle", "def_{}_uparm", "def_{}_loarm", "def_{}_hand",
        ),
        ("l", "r"),
    ),
    "side last": Dialect(
        ("HIPS", "SPINE", "SPINE1", "SPINE2", "NECK", "HEAD"),
        ("UPLEG{}", "LEG{}", "FOOT{}", "TOE{}", "CLAVICLE{}", "UPARM{}", "LOWARM{}", "HAND{}"),
        ("L", "R"),
    ),
    "studio namespace": Dialect(
        tuple(f"actor01:{p}" for p in ("Hips", "Spine", "Spine1", "Spine2", "Neck", "Head")),
        tuple(
            f"actor01:{{}}{p}" for p in ("UpLeg", "Leg", "Foot", "Toe", "Shoulder", "Arm", "ForeArm", "Hand")
        ),
    ),
}  # fmt: skip

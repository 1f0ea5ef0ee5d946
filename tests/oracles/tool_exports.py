"""BVH files with the trees that named tools and games export: twist bones, stubs, control nodes, names, axes and all.

Where :mod:`oracles.odd_bvh` draws names, trees and rest poses apart from one another, each :class:`Export` here is one
tool's own combination, and :func:`draw_export` draws what the tool leaves open: person, facing, unit, end sites, text.
No file is a copy of a captured one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from oracles.bvh_dialects import DIALECTS, Dialect
from oracles.odd_bvh import (
    MUST,
    RESTS,
    SIDES,
    UNIT_M,
    Draft,
    OddFile,
    Rng,
    StudioNode,
    _arms_on_neck,
    _change_rest,
    _drop_roles,
    _legs_on_spine,
    scale_body,
    write_text,
)

from marey.lie import SO3
from marey.motion import Motion

Change = Callable[[Draft], None]
STILL = np.array([1.0, 0.0, 0.0, 0.0])
FRAMES = ("all", "all", "all", "all", "T first", "one", "some")
ENDS = ("written", "written", "written", "absent", "zero")


@dataclass(frozen=True)
class Export:
    """What one tool writes: names, changes of the canonical tree, nodes above the hips, its usual unit, axis, rest."""

    names: Dialect
    changes: Sequence[Change] = ()
    above: Sequence[str] = ()  # topmost last
    unit: str = "cm"
    up: str = "y"
    rest: str = "T"
    all_move: bool = False
    pelvis_is_sure: bool = True  # false where legs and trunk meet at a node that is called otherwise


def drop(*roles: str) -> Change:
    """Leave joints out."""
    change = _drop_roles(*roles)
    return lambda rig: change(rig, np.random.default_rng(0))


def inside(role: str, *names: str, stub: bool = False) -> Change:
    """Put joints into the bones that lead to a role, at both sides where it has one: ``{}`` is the word of the side.

    The joints share the bone evenly; with ``stub`` they have no length and stand where the bone begins.
    """

    def change(rig: Draft) -> None:
        sided = role not in rig.names
        for full, k in [(f"{side}_{role}", i) for i, side in enumerate(SIDES)] if sided else [(role, 0)]:
            bone = rig.node(full)
            step = bone.offset * (0.0 if stub else 1.0 / (len(names) + 1))
            parent = rig.nodes[bone.parent].name
            for name in names:
                rig.add(name.format(rig.words[k]), parent, step)
                parent = name.format(rig.words[k])
            bone.parent = rig.find(parent)
            bone.offset = bone.offset if stub else step

    return change


def beside(role: str, *names: str, along: str = "", at: Sequence[float] = (0.0, 0.0, 0.0)) -> Change:
    """Hang joints on a role that lead nowhere: spread over the bone to ``along``, or at a place that is mirrored."""

    def change(rig: Draft) -> None:
        sided = role not in rig.names
        sides = list(enumerate(SIDES)) if sided else [(0, "")]
        if not sided and any("{}" in name for name in names):
            sides = list(enumerate(SIDES))
        for k, side in sides:
            parent = rig.names[f"{side}_{role}" if sided else role]
            for i, name in enumerate(n for n in names if k == 0 or "{}" in n):
                where = np.array(at) * [1.0 - 2.0 * k, 1.0, 1.0]
                if along:
                    where = rig.node(f"{side}_{along}").offset * (i + 1) / (len(names) + 1)
                rig.add(name.format(rig.words[k]), parent, where)

    return change


def chain(role: str, names: Sequence[str], first: Sequence[float], step: Sequence[float]) -> Change:
    """Hang a chain on a role: fingers, ponytails, straps; mirrored to the right where the names have a side."""

    def change(rig: Draft) -> None:
        sided = role not in rig.names
        for k, side in enumerate(SIDES) if sided or "{}" in names[0] else [(0, "")]:
            parent = rig.names[f"{side}_{role}" if sided else role]
            for i, name in enumerate(names):
                where = np.array(step if i else first) * [1.0 - 2.0 * k, 1.0, 1.0]
                rig.add(name.format(rig.words[k]), parent, where)
                parent = name.format(rig.words[k])

    return change


def fingers(
    pattern: str, count: int = 3, names: Sequence[str] = ("Thumb", "Index", "Middle", "Ring", "Pinky")
) -> Change:
    """Five fingers; in the pattern ``{side}``, ``{finger}`` and ``{k}``."""

    def change(rig: Draft) -> None:
        for i, finger in enumerate(names):
            links = [pattern.format(side="{}", finger=finger, k=k) for k in range(1, count + 1)]
            chain("wrist", links, (0.07, 0.0, 0.02 * (2 - i)), (0.028, 0.0, 0.0))(rig)

    return change


def legs_node(name: str, offset: Sequence[float] = (0.0, -0.02, 0.0)) -> Change:
    """Both legs hang on a node of their own below the root."""

    def change(rig: Draft) -> None:
        rig.add(name, rig.names["pelvis"], offset)
        for side in SIDES:
            hip = rig.node(f"{side}_hip")
            hip.parent, hip.offset = rig.find(name), hip.offset - np.array(offset)

    return change


def on_neck(rig: Draft) -> None:
    """Collars hang on the neck."""
    _arms_on_neck(rig, np.random.default_rng(0))


def on_spine(rig: Draft) -> None:
    """Thighs hang on the first spine joint."""
    _legs_on_spine(rig, np.random.default_rng(0))


def targets(*names: str) -> Change:
    """Nodes of inverse kinematics and props at the scene's root."""

    def change(rig: Draft) -> None:
        for i, name in enumerate(names):
            rig.add(name, rig.nodes[0].name, (0.3 * i - 0.5, -0.9 + 0.2 * (i % 3), 0.2 * (i % 2)))

    return change


def double_legs(word: str) -> Change:
    """A second pair of legs in the place of the first, which follows it: MMD's D bones, control rigs."""

    def change(rig: Draft) -> None:
        for side in SIDES:
            parent = rig.nodes[rig.node(f"{side}_hip").parent].name
            for part in ("hip", "knee", "ankle", "foot"):
                bone = rig.node(f"{side}_{part}")
                rig.add(bone.name + word, parent, bone.offset)
                rig.nodes[-1].wxyz = bone.wxyz.copy()
                parent = bone.name + word

    return change


def _d(middle: str, limbs: str, sides: tuple[str, str] = ("Left", "Right"), prefix: str = "") -> Dialect:
    """Names in one line each, parted by spaces; ``~`` is a space in a name."""
    words = [[prefix + n.replace("~", " ") for n in text.split()] for text in (middle, limbs)]
    return Dialect(words[0], words[1], sides)


LR, lr = ("L", "R"), ("l", "r")
HIK = "{}UpLeg {}Leg {}Foot {}ToeBase {}Shoulder {}Arm {}ForeArm {}Hand"
HIPS = "Hips Spine Spine1 Spine2 Neck Head"
UE = DIALECTS["unreal"]
UE_TWISTS = (
    beside("hip", "thigh_twist_01_{}", along="knee"),
    beside("knee", "calf_twist_01_{}", along="ankle"),
    beside("shoulder", "upperarm_twist_01_{}", along="elbow"),
    beside("elbow", "lowerarm_twist_01_{}", along="wrist"),
)
UE_TARGETS = targets("ik_foot_root", "ik_foot_l", "ik_foot_r", "ik_hand_root", "ik_hand_gun", "ik_hand_l", "ik_hand_r")

EXPORTS: Mapping[str, Export] = {
    "rokoko": Export(
        _d("Hips Spine1 Spine2 Spine4 Neck Head", "{}Thigh {}Shin {}Foot {}Toe {}Shoulder {}Arm {}ForeArm {}Hand"),
        (
            inside("spine3", "Spine3"),
            chain("foot", ["{}ToeTip"], (0, 0, 0.06), (0, 0, 0)),
            fingers("{side}{finger}{k}", 4, ("Finger1", "Finger2", "Finger3", "Finger4", "Finger5")),
        ),
        ("Root",),
    ),
    "motionbuilder namespace": Export(
        _d(HIPS, HIK, prefix="Character1:"),
        (inside("spine3", "Character1:Spine1b"), fingers("Character1:{side}Hand{finger}{k}", 4)),
        ("Character1:Reference",),
    ),
    "nested namespaces": Export(_d(HIPS, HIK, prefix="Stage:Actor_02:"), (), ("Stage:Actor_02:Root", "Stage:Scene")),
    "human ik": Export(
        _d("Hips Spine Spine1 Spine6 Neck Head", HIK),
        (
            inside("spine3", "Spine2", "Spine3", "Spine4", "Spine5"),
            inside("head", "Neck1", "Neck2"),
            beside("hip", "Leaf{}UpLegRoll1", "Leaf{}UpLegRoll2", along="knee"),
            beside("shoulder", "Leaf{}ArmRoll1", "Leaf{}ArmRoll2", along="elbow"),
            inside("shoulder", "{}ShoulderExtra"),
            fingers("{side}Hand{finger}{k}", 4),
        ),
        ("Reference",),
    ),
    "perception neuron": Export(
        _d("Hips Spine Spine1 Spine3 Neck Head", HIK),
        (
            drop("foot"),
            inside("spine3", "Spine2"),
            chain("wrist", ["{}HandThumb1", "{}HandThumb2", "{}HandThumb3"], (0.03, 0, 0.03), (0.03, 0, 0)),
            *(
                chain(
                    "wrist",
                    [f"{{}}InHand{f}", *(f"{{}}Hand{f}{k}" for k in (1, 2, 3))],
                    (0.03, 0, 0.01 * i),
                    (0.04, 0, 0),
                )
                for i, f in enumerate(("Index", "Middle", "Ring", "Pinky"))
            ),
        ),
        all_move=True,
    ),
    "axis studio": Export(
        _d("Hips Spine Spine1 Spine2 Neck Head", HIK), (drop("foot"), inside("head", "Neck1")), all_move=True
    ),
    "bandai namco": Export(DIALECTS["game studio"], (drop("spine3"),), ("joint_Root",)),
    "100style": Export(
        _d("Hips Chest Chest2 Chest4 Neck Head", "{}Hip {}Knee {}Ankle {}Toe {}Collar {}Shoulder {}Elbow {}Wrist"),
        (inside("spine3", "Chest3"),),
        all_move=True,
    ),
    "zeroeggs": Export(
        _d("Hips Spine Spine1 Spine3 Neck Head", HIK),
        (
            inside("spine3", "Spine2"),
            inside("head", "Neck1"),
            chain("head", ["HeadEnd"], (0, 0.18, 0.02), (0, 0, 0)),
            chain("foot", ["{}ToeBaseEnd"], (0, 0, 0.07), (0, 0, 0)),
            fingers("{side}Hand{finger}{k}", 4),
        ),
        all_move=True,
    ),
    "lafan1": Export(_d(HIPS, HIK.replace("ToeBase", "Toe")), (), rest="bones along x"),
    "sfu": Export(
        _d("Hips LowerBack Spine Spine1 Neck Head", HIK),
        (
            inside("hip", "{}HipJoint", stub=True),
            inside("head", "Neck1"),
            beside("wrist", "{}FingerBase", "{}HandIndex1", at=(0.02, 0, 0)),
        ),
    ),
    "unreal mannequin": Export(
        UE,
        (*UE_TWISTS, fingers("{finger}_0{k}_{side}", 3, ("thumb", "index", "middle", "ring", "pinky")), UE_TARGETS),
        ("root",),
        up="z",
    ),
    "unreal turned": Export(UE, (*UE_TWISTS, UE_TARGETS), ("root", "Armature"), up="z", rest="bones along x"),
    "metahuman": Export(
        DIALECTS["unreal five"],
        (
            inside("spine2", "spine_02"),
            inside("spine3", "spine_04"),
            inside("head", "neck_02"),
            *UE_TWISTS,
            beside("hip", "thigh_correctiveRoot_{}", "thigh_bck_{}", "thigh_fwd_{}", at=(0.02, -0.05, -0.04)),
            beside("shoulder", "upperarm_tricep_{}", "upperarm_bicep_{}", at=(0.12, 0.0, -0.03)),
            beside("collar", "clavicle_pec_{}", "clavicle_out_{}", at=(0.06, -0.08, 0.1)),
            beside("head", "FACIAL_C_FacialRoot", at=(0.0, 0.05, 0.08)),
            *(
                chain("head", [f"FACIAL_{{}}_{f}"], (0.03, 0.02 * i, 0.09), (0, 0, 0))
                for i, f in enumerate(("EyeParallel", "LipCorner", "Jaw", "CheekOuter", "NasolabialBulge", "Ear"))
            ),
        ),
        ("root",),
        up="z",
    ),
    "rigify": Export(
        _d(
            "DEF-spine DEF-spine.001 DEF-spine.002 DEF-spine.003 DEF-spine.004 DEF-spine.006",
            "DEF-thigh.{} DEF-shin.{} DEF-foot.{} DEF-toe.{} "
            "DEF-shoulder.{} DEF-upper_arm.{} DEF-forearm.{} DEF-hand.{}",
            LR,
        ),
        (
            inside("head", "DEF-spine.005"),
            inside("knee", "DEF-thigh.{}.001"),
            inside("ankle", "DEF-shin.{}.001"),
            inside("elbow", "DEF-upper_arm.{}.001"),
            inside("wrist", "DEF-forearm.{}.001"),
            beside("pelvis", "DEF-pelvis.{}", at=(0.05, 0.06, 0.02)),
            beside("spine3", "DEF-breast.{}", at=(0.09, 0.05, 0.12)),
            fingers("DEF-f_{finger}.0{k}.{side}", 3, ("thumb", "index", "middle", "ring", "pinky")),
        ),
        ("root",),
        up="z",
        unit="m",
    ),
    "blender metarig": Export(
        _d(
            "spine spine.001 spine.002 spine.003 spine.004 spine.006",
            "thigh.{} shin.{} foot.{} toe.{} shoulder.{} upper_arm.{} forearm.{} hand.{}",
            LR,
        ),
        (
            inside("head", "spine.005"),
            beside("pelvis", "pelvis.{}", at=(0.05, 0.06, 0.02)),
            beside("ankle", "heel.02.{}", at=(0.03, -0.07, -0.05)),
            beside("spine3", "breast.{}", at=(0.09, 0.05, 0.12)),
        ),
        up="z",
        unit="m",
    ),
    "daz genesis 8": Export(
        _d(
            "hip abdomenLower abdomenUpper chestUpper neckLower head",
            "{}ThighBend {}Shin {}Foot {}Toe {}Collar {}ShldrBend {}ForearmBend {}Hand",
            lr,
        ),
        (
            legs_node("pelvis"),
            inside("spine3", "chestLower"),
            inside("head", "neckUpper"),
            inside("knee", "{}ThighTwist"),
            inside("elbow", "{}ShldrTwist"),
            inside("wrist", "{}ForearmTwist"),
            inside("foot", "{}Metatarsals"),
            beside("foot", "{}BigToe", "{}SmallToe1", "{}SmallToe2", at=(0.01, 0.0, 0.03)),
            beside("spine3", "{}Pectoral", at=(0.08, 0.03, 0.1)),
            fingers("{side}{finger}{k}", 3, ("Thumb", "Index", "Mid", "Ring", "Pinky")),
        ),
        pelvis_is_sure=False,
        rest="A 45",
    ),
    "daz genesis 9": Export(
        _d(
            "hip spine1 spine2 spine4 neck1 head",
            "{}_thigh {}_shin {}_foot {}_toes {}_shoulder {}_upperarm {}_forearm {}_hand",
            lr,
        ),
        (
            legs_node("pelvis"),
            inside("spine3", "spine3"),
            inside("head", "neck2"),
            beside("hip", "{}_thightwist1", "{}_thightwist2", along="knee"),
            inside("foot", "{}_metatarsal"),
            beside("shoulder", "{}_upperarmtwist1", "{}_upperarmtwist2", along="elbow"),
        ),
        pelvis_is_sure=False,
        rest="A 30",
    ),
    "poser": Export(
        _d("hip abdomen abdomen2 chest neck head", "{}Thigh {}Shin {}Foot {}Toe {}Collar {}Shldr {}ForeArm {}Hand", lr),
        (inside("hip", "{}Buttock"), beside("head", "leftEye", "rightEye", at=(0.03, 0.06, 0.08))),
        ("BODY",),
    ),
    "max friendly": Export(DIALECTS["max friendly"], (drop("spine3"), inside("hip", "{}HipStub", stub=True))),
    "vicon blade": Export(
        _d("Hips Spine Spine1 Spine3 Neck Head", HIK, prefix="Actor01_"),
        (
            inside("spine3", "Actor01_Spine2"),
            inside("head", "Actor01_Neck1"),
            beside("foot", "Actor01_{}ToeBaseEnd", at=(0, 0, 0.06)),
        ),
        ("Actor01_Root",),
        unit="mm",
        up="z",
    ),
    "vicon labels": Export(
        _d(
            "PELVIS LUMBAR TORSO THORAX NECK HEAD",
            "{}FEMUR {}TIBIA {}FOOT {}TOES {}CLAVICLE {}HUMERUS {}RADIUS {}HAND",
            LR,
        ),
        (drop("spine2"),),
        unit="mm",
        up="z",
    ),
    "optitrack": Export(
        DIALECTS["optitrack"], (drop("spine3"), fingers("Skeleton 001_{side}{finger}{k}")), ("Skeleton 001",), unit="m"
    ),
    "xsens": Export(
        _d("Hips Chest Chest2 Chest4 Neck Head", "{}Hip {}Knee {}Ankle {}Toe {}Collar {}Shoulder {}Elbow {}Wrist"),
        (inside("spine3", "Chest3"),),
    ),
    "xsens segments": Export(
        _d(
            "Pelvis L5 L3 T8 Neck Head",
            "{}UpperLeg {}LowerLeg {}Foot {}Toe {}Shoulder {}UpperArm {}ForeArm {}Hand",
            ("Left", "Right"),
        ),
        (inside("spine3", "T12"),),
        unit="m",
        up="z",
    ),
    "mikumiku": Export(
        _d("腰 上半身 上半身2 上半身3 首 頭", "{}足 {}ひざ {}足首 {}つま先 {}肩 {}腕 {}ひじ {}手首", ("左", "右")),
        (
            drop("spine3"),
            legs_node("下半身"),
            inside("collar", "{}肩P", stub=True),
            inside("shoulder", "{}肩C", stub=True),
            inside("elbow", "{}腕捩"),
            inside("wrist", "{}手捩"),
            beside("pelvis", "腰キャンセル{}", at=(0.08, -0.05, 0)),
            beside("head", "{}目", at=(0.03, 0.06, 0.08)),
            beside("head", "両目", at=(0.0, 0.2, 0.1)),
            targets("左足ＩＫ", "右足ＩＫ", "左つま先ＩＫ", "右つま先ＩＫ"),
        ),
        ("グルーブ", "センター", "全ての親"),
        pelvis_is_sure=False,
        rest="A 30",
    ),
    "mikumiku doubled legs": Export(
        _d("下半身 上半身 上半身2 上半身3 首 頭", "{}足 {}ひざ {}足首 {}つま先 {}肩 {}腕 {}ひじ {}手首", ("左", "右")),
        (double_legs("D"),),
        ("センター",),
        rest="A 30",
    ),
    "character creator": Export(
        _d(
            "Hip Waist Spine01 Spine02 NeckTwist01 Head",
            "{}_Thigh {}_Calf {}_Foot {}_ToeBase {}_Clavicle {}_Upperarm {}_Forearm {}_Hand",
            LR,
            "CC_Base_",
        ),
        (
            legs_node("CC_Base_Pelvis"),
            inside("head", "CC_Base_NeckTwist02"),
            beside("hip", "CC_Base_{}_ThighTwist01", "CC_Base_{}_ThighTwist02", along="knee"),
            beside("knee", "CC_Base_{}_KneeShareBone", at=(0, 0, 0)),
            beside("knee", "CC_Base_{}_CalfTwist01", "CC_Base_{}_CalfTwist02", along="ankle"),
            beside("ankle", "CC_Base_{}_ToeBaseShareBone", at=(0, -0.05, 0.1)),
            beside("shoulder", "CC_Base_{}_UpperarmTwist01", "CC_Base_{}_UpperarmTwist02", along="elbow"),
            beside("elbow", "CC_Base_{}_ElbowShareBone", at=(0, 0, 0)),
            beside("elbow", "CC_Base_{}_ForearmTwist01", "CC_Base_{}_ForearmTwist02", along="wrist"),
            beside("spine3", "CC_Base_{}_RibsTwist", at=(0.07, -0.05, 0.09)),
            *(
                beside("head", f"CC_Base_{n}", at=(0.0, 0.03 * i, 0.07))
                for i, n in enumerate(("FacialBone", "JawRoot", "Tongue01", "Teeth01", "UpperJaw"))
            ),
            fingers("CC_Base_{side}_{finger}{k}", 3, ("Thumb", "Index", "Mid", "Ring", "Pinky")),
        ),
        ("RL_BoneRoot",),
        pelvis_is_sure=False,
    ),
    "biped": Export(
        DIALECTS["old biped"],
        (
            on_spine,
            on_neck,
            beside("pelvis", "Bip01 Footsteps", at=(0, -0.9, 0)),
            chain("head", ["Bip01 Ponytail1", "Bip01 Ponytail11", "Bip01 Ponytail12"], (0, 0.1, -0.1), (0, -0.1, 0)),
            chain("foot", ["Bip01 {} Toe0Nub"], (0, 0, 0.06), (0, 0, 0)),
            chain("head", ["Bip01 HeadNub"], (0, 0.2, 0), (0, 0, 0)),
            *(
                chain(
                    "wrist",
                    [f"Bip01 {{}} Finger{i}", f"Bip01 {{}} Finger{i}1", f"Bip01 {{}} Finger{i}2"],
                    (0.07, 0, 0.02 * (2 - i)),
                    (0.03, 0, 0),
                )
                for i in range(5)
            ),
        ),
        ("Bip01",),
        unit="inch",
        up="z",
        rest="bones along x",
        pelvis_is_sure=False,
    ),
    "biped plain": Export(
        DIALECTS["3ds max biped"],
        (on_neck, beside("ankle", "Bip001 {} Heel", at=(0, -0.06, -0.05))),
        ("Bip001",),
        up="z",
    ),
    "valve": Export(
        _d(
            "Pelvis Spine Spine1 Spine4 Neck1 Head1",
            "{}_Thigh {}_Calf {}_Foot {}_Toe0 {}_Clavicle {}_UpperArm {}_Forearm {}_Hand",
            LR,
            "ValveBiped.Bip01_",
        ),
        (
            inside("spine3", "ValveBiped.Bip01_Spine2"),
            beside("head", "ValveBiped.forward", at=(0, 0.08, 0.1)),
            beside("wrist", "ValveBiped.Anim_Attachment_{}H", at=(0.08, 0, 0)),
            beside("elbow", "ValveBiped.Bip01_{}_Ulna", "ValveBiped.Bip01_{}_Wrist", along="wrist"),
            beside("shoulder", "ValveBiped.Bip01_{}_Bicep", "ValveBiped.Bip01_{}_Elbow", along="elbow"),
            fingers("ValveBiped.Bip01_{side}_Finger{finger}{k}", 3, ("0", "1", "2", "3", "4")),
        ),
        ("ValveBiped",),
        unit="inch",
        up="z",
    ),
    "half-life": Export(
        _d(
            "Pelvis Spine Spine1 Spine2 Neck Head",
            "{}~Leg {}~Leg1 {}~Foot {}~Toe0 {}~Arm {}~Arm1 {}~Arm2 {}~Hand",
            LR,
            "Bip01 ",
        ),
        (),
        ("Bip01",),
        unit="inch",
        up="z",
    ),
    "momentum human": Export(
        _d(
            "root c_spine0 c_spine1 c_spine3 c_neck c_head",
            "{}_upleg {}_lowleg {}_foot {}_ball {}_clavicle {}_uparm {}_lowarm {}_wrist",
            lr,
        ),
        (
            inside("spine3", "c_spine2"),
            inside("foot", "{}_talocrural", "{}_subtalar", "{}_transversetarsal"),
            inside("wrist", "{}_wrist_twist"),
            beside("hip", *(f"{{}}_upleg_twist{k}_proc" for k in range(5)), along="knee"),
            beside("shoulder", *(f"{{}}_uparm_twist{k}_proc" for k in range(5)), along="elbow"),
            beside("head", "c_jaw", "{}_eye", at=(0.03, 0.05, 0.08)),
            *(
                chain("wrist", [f"{{}}_{f}{k}" for k in range(4)], (0.05, 0, 0.02 * (2 - i)), (0.03, 0, 0))
                for i, f in enumerate(("thumb", "index", "middle", "ring", "pinky"))
            ),
        ),
        ("body_world",),
        rest="A 45",
    ),
    "soma": Export(
        _d("Hips Spine1 Spine2 Chest Neck1 Head", "{}Leg {}Shin {}Foot {}ToeBase {}Shoulder {}Arm {}ForeArm {}Hand"),
        (
            inside("head", "Neck2"),
            beside("head", "HeadEnd", "Jaw", "{}Eye", at=(0.03, 0.1, 0.05)),
            chain("foot", ["{}ToeEnd"], (0, 0, 0.07), (0, 0, 0)),
            fingers("{side}Hand{finger}{k}", 4),
        ),
        ("Root",),
    ),
    "captury": Export(
        _d("Hips Spine Spine1 Spine4 Neck Head", HIK),
        (
            inside("spine3", "Spine2", "Spine3"),
            beside("ankle", "{}FootEE", at=(0, -0.07, 0.2)),
            beside("wrist", "{}HandEE", at=(0.17, 0, 0)),
            beside("head", "HeadEE", at=(0, 0.2, 0.0)),
        ),
        ("Root",),
        unit="mm",
    ),
    "arkit": Export(
        _d(
            "hips_joint spine_1_joint spine_2_joint spine_7_joint neck_1_joint head_joint",
            "{}_upLeg_joint {}_leg_joint {}_foot_joint {}_toes_joint "
            "{}_shoulder_1_joint {}_arm_joint {}_forearm_joint {}_hand_joint",
            ("left", "right"),
        ),
        (
            inside("spine3", *(f"spine_{k}_joint" for k in (3, 4, 5, 6))),
            inside("head", "neck_2_joint", "neck_3_joint", "neck_4_joint"),
            chain("foot", ["{}_toesEnd_joint"], (0, 0, 0.06), (0, 0, 0)),
            beside("head", "jaw_joint", "nose_joint", at=(0, 0.05, 0.1)),
            fingers("{side}_hand{finger}_{k}_joint", 5),
        ),
        ("root",),
        unit="m",
    ),
    "azure kinect": Export(
        _d(
            "PELVIS SPINE_LOW SPINE_NAVAL SPINE_CHEST NECK HEAD",
            "HIP_{} KNEE_{} ANKLE_{} FOOT_{} CLAVICLE_{} SHOULDER_{} ELBOW_{} WRIST_{}",
            ("LEFT", "RIGHT"),
        ),
        (
            drop("spine1"),
            chain("wrist", ["HAND_{}", "HANDTIP_{}"], (0.08, 0, 0), (0.09, 0, 0)),
            beside("wrist", "THUMB_{}", at=(0.05, 0, 0.05)),
            beside("head", "NOSE", "EYE_{}", "EAR_{}", at=(0.03, 0.05, 0.09)),
        ),
        unit="mm",
    ),
    "talking with hands": Export(
        _d(
            "b_root b_spine0 b_spine1 b_spine3 b_neck0 b_head",
            "b_{}_upleg b_{}_leg b_{}_foot b_{}_foot_end b_{}_shoulder b_{}_arm b_{}_forearm b_{}_wrist",
            lr,
        ),
        (
            drop("foot"),
            inside("spine3", "b_spine2"),
            inside("elbow", "b_{}_arm_twist"),
            inside("wrist", "b_{}_wrist_twist"),
            beside("spine3", "p_{}_scap", "p_{}_delt", at=(0.12, 0.1, -0.08)),
            beside("spine1", "p_navel", at=(0, 0, 0.12)),
            beside("head", "b_head_null", "b_jaw", at=(0, 0.05, 0.05)),
            *(
                chain("wrist", [f"b_{{}}_{f}{k}" for k in (1, 2, 3)], (0.07, 0, 0.02 * (2 - i)), (0.03, 0, 0))
                for i, f in enumerate(("thumb", "index", "middle", "ring", "pinky"))
            ),
        ),
        ("body_world",),
    ),
    "roblox": Export(
        _d(
            "LowerTorso Spine UpperTorso Chest Neck Head",
            "{}UpperLeg {}LowerLeg {}Foot {}Toe {}Collar {}UpperArm {}LowerArm {}Hand",
        ),
        (drop("spine1", "spine3", "neck", "foot", "collar"),),
        ("HumanoidRootPart",),
    ),
    "id tech": Export(
        _d(
            "body body2 spineup1 spineup2 neck head",
            "{}upleg {}loleg {}ankle {}ball {}shoulder {}uparm {}loarm {}hand",
            lr,
        ),
        (),
        ("origin",),
        unit="inch",
        up="z",
    ),
    "berkeley": Export(
        _d("hips spine spine1 spine2 neck head", HIK),
        (
            inside("elbow", "{}ArmRoll"),
            inside("wrist", "{}ForeArmRoll"),
            inside("knee", "{}UpLegRoll"),
            inside("ankle", "{}LegRoll"),
        ),
    ),
    "advanced skeleton": Export(
        DIALECTS["advanced skeleton"],
        (
            inside("knee", "HipPart1_{}", "HipPart2_{}"),
            inside("elbow", "ShoulderPart1_{}", "ShoulderPart2_{}"),
            inside("wrist", "ElbowPart1_{}", "ElbowPart2_{}"),
            inside("spine2", "Spine1Part1_M"),
            chain("foot", ["ToesEnd_{}"], (0, 0, 0.06), (0, 0, 0)),
            beside("wrist", "Cup_{}", at=(0.05, 0, -0.02)),
            fingers("{finger}Finger{k}_{side}", 4),
        ),
        ("DeformationSystem", "Group"),
    ),
    "qualisys": Export(
        _d(HIPS, HIK, prefix="QTM_Actor1_"),
        (inside("wrist", "QTM_Actor1_{}ForeArmRoll"),),
        ("QTM_Actor1_Reference",),
        up="z",
    ),
    "theia": Export(
        _d(
            "pelvis abdomen torso thorax neck head",
            "{}_thigh {}_shank {}_foot {}_toes {}_clav {}_uarm {}_larm {}_hand",
            lr,
        ),
        (drop("spine1", "spine2", "neck", "collar"),),
        ("worldbody",),
        unit="mm",
        up="z",
    ),
    "cascadeur": Export(
        _d(
            "pelvis stomach chest chest_up neck head",
            "thigh_{} calf_{} foot_{} toe_{} clavicle_{} arm_{} forearm_{} hand_{}",
            lr,
        ),
        (
            drop("spine3"),
            beside("head", "head_direction", at=(0, 0, 0.2)),
            beside("pelvis", "pelvis_direction", at=(0, 0, 0.2)),
        ),
    ),
    "asset store": Export(
        _d(
            "B-hips B-spine B-spineProxy B-chest B-neck B-head",
            "B-thigh.{} B-shin.{} B-foot.{} B-toe.{} B-shoulder.{} B-upper_arm.{} B-forearm.{} B-hand.{}",
            LR,
        ),
        (beside("wrist", "B-handProp.{}", at=(0.08, -0.03, 0)), beside("head", "B-jaw", at=(0, 0.02, 0.05))),
        ("B-root", "Rig"),
    ),
    "low poly": Export(
        _d(
            "Hips Spine_01 Spine_02 Spine_03 Neck Head",
            "UpperLeg_{} LowerLeg_{} Ankle_{} Ball_{} Clavicle_{} Shoulder_{} Elbow_{} Hand_{}",
            LR,
        ),
        (
            chain("foot", ["Toes_{}"], (0, -0.01, 0.05), (0, 0, 0)),
            beside("head", "Eyes", "Eyebrows", at=(0, 0.08, 0.1)),
            *(
                chain("wrist", [f"{f}_01_{{}}", f"{f}_02_{{}}", f"{f}_03_{{}}"], (0.07, 0, 0.02 * i), (0.03, 0, 0))
                for i, f in enumerate(("Thumb", "IndexFinger", "Finger"))
            ),
        ),
        ("Root",),
    ),
    "ready player": Export(
        _d(HIPS, HIK),
        (
            beside("head", "HeadTop_End", "{}Eye", at=(0.03, 0.1, 0.08)),
            chain("foot", ["{}Toe_End"], (0, 0, 0.07), (0, 0, 0)),
            fingers("{side}Hand{finger}{k}", 4),
        ),
        ("Armature",),
        unit="m",
    ),
    "mocopi": Export(
        _d(
            "root torso_1 torso_3 torso_7 neck_1 head",
            "{}_up_leg {}_low_leg {}_foot {}_toes {}_shoulder {}_up_arm {}_low_arm {}_hand",
            lr,
        ),
        (inside("spine2", "torso_2"), inside("spine3", "torso_4", "torso_5", "torso_6"), inside("head", "neck_2")),
        all_move=True,
    ),
    "capcom": Export(
        _d(
            "hip spine_0 spine_1 spine_2 neck_0 head",
            "{}_leg_femur {}_leg_tibia {}_leg_ankle {}_leg_ball "
            "{}_arm_clavicle {}_arm_humerus {}_arm_radius {}_arm_wrist",
            lr,
        ),
        (inside("head", "neck_1"), beside("elbow", "{}_arm_radius_twist", along="wrist")),
        ("COG", "Null_Offset", "root"),
        unit="m",
    ),
    "nintendo": Export(
        _d(
            "Waist Spine_1 Spine_2 Spine_3 Neck Head",
            "Leg_1_{} Leg_2_{} Ankle_{} Toe_{} Clavicle_{} Arm_1_{} Arm_2_{} Wrist_{}",
            LR,
        ),
        (
            drop("spine3"),
            beside("elbow", "Elbow_{}", at=(0, 0, -0.03)),
            beside("knee", "Knee_{}", at=(0, 0, 0.03)),
            beside("wrist", "Weapon_{}", at=(0.07, 0, 0)),
        ),
        ("Skl_Root",),
        unit="m",
    ),
    "square": Export(
        _d(
            "j_kosi j_sebo_a j_sebo_b j_sebo_c j_kubi j_kao",
            "j_asi_a_{} j_asi_b_{} j_asi_d_{} j_asi_e_{} j_sako_{} j_ude_a_{} j_ude_b_{} j_te_{}",
            lr,
        ),
        (
            inside("ankle", "j_asi_c_{}"),
            beside("elbow", "n_hhiji_{}", at=(0, 0, 0)),
            beside("wrist", "n_buki_{}", at=(0.05, -0.03, 0)),
            beside("head", "j_ago", "j_mimi_{}", at=(0.05, 0.03, 0.05)),
            chain("head", ["j_kami_a", "j_kami_b"], (0, 0.1, -0.1), (0, -0.15, -0.02)),
            chain("pelvis", ["j_sk_b_a_{}", "j_sk_b_b_{}", "j_sk_b_c_{}"], (0.08, -0.05, -0.1), (0.01, -0.2, -0.02)),
            chain("pelvis", ["j_sk_f_a_{}", "j_sk_f_b_{}", "j_sk_f_c_{}"], (0.08, -0.05, 0.1), (0.01, -0.2, 0.02)),
        ),
        ("n_hara", "n_root"),
        unit="m",
        rest="A 45",
    ),
    "plain words": Export(
        _d(
            "Pelvis Lower~Back Mid~Back Upper~Back Neck Head",
            "{}~Upper~Leg {}~Lower~Leg {}~Foot {}~Toe {}~Collar {}~Upper~Arm {}~Lower~Arm {}~Hand",
        ),
        (),
    ),
    "one spine, five above": Export(
        _d(HIPS, HIK), (drop("spine2", "spine3"),), ("Root", "Trajectory", "Motion", "GlobalSRT", "Scene Root")
    ),
    "seven spines": Export(
        _d("Hips Spine0 Spine1 Spine6 Neck Head", HIK),
        (inside("spine3", "Spine2", "Spine3", "Spine4", "Spine5"), fingers("{side}{finger}{k}", 3)),
    ),
    "letters and numbers": Export(
        _d(
            "C_hip_0 C_spine_0 C_spine_1 C_spine_2 C_neck_0 C_head_0",
            "{}_leg_0 {}_leg_1 {}_foot_0 {}_foot_1 {}_arm_0 {}_arm_1 {}_arm_2 {}_hand_0",
            LR,
        ),
        (),
        ("C_root_0",),
    ),
    "upper, middle, lower": Export(
        _d(
            "Hip SpineLower SpineMiddle SpineUpper NeckLower Head",
            "Leg{}Upper Leg{}Lower Foot{} Toe{} Shoulder{} Arm{}Upper Arm{}Lower Hand{}",
            LR,
        ),
        (inside("head", "NeckUpper"),),
        ("Base",),
    ),
    "korean": Export(
        _d(
            "골반 척추 척추1 가슴 목 머리",
            "{}허벅지 {}종아리 {}발 {}발가락 {}쇄골 {}위팔 {}아래팔 {}손",
            ("왼쪽", "오른쪽"),
        ),
        (),
    ),
    "italian": Export(
        _d(
            "Bacino Colonna1 Colonna2 Torace Collo Testa",
            "Coscia{} Polpaccio{} Piede{} Dita{} Clavicola{} Braccio{} Avambraccio{} Mano{}",
            ("Sx", "Dx"),
        ),
        (),
        ("Radice",),
    ),
}


def draw_export(clip: Motion, tool: str, rng: Rng, **fixed: str) -> OddFile:
    """Draw one file of a clip on the canonical human as a tool exports it.

    ``fixed`` chooses ``facing``, ``unit``, ``up``, ``case``, ``ends``, ``frames`` or ``prop``; others are drawn.
    """
    export = EXPORTS[tool]

    def pick(key: str, options: Sequence[str]) -> str:
        drawn = str(rng.choice(options))
        return fixed.get(key, drawn)

    choices = {
        "tool": tool,
        "facing": pick("facing", ["0", "0", "90", "-90", "180", "37"]),
        "unit": pick("unit", [export.unit, export.unit, *("cm", "m", "mm", "inch")]),
        "up": pick("up", [export.up, export.up, "y", "z"]),
        "case": pick("case", ["kept", "kept", "kept", "upper", "lower"]),
        "ends": pick("ends", ENDS),
        "frames": pick("frames", FRAMES),
        "prop": pick("prop", ["none", "none", "none", "root after", "root before"]),
    }
    person = scale_body(clip, rng)
    if choices["frames"] in ("one", "some"):
        count = 1 if choices["frames"] == "one" else int(rng.integers(2, 12))
        person = person[:count]
    rig = Draft.from_motion(person, export.names.names())
    assert isinstance(rig, Draft)
    rig.names = export.names.names()
    rig.words = export.names.sides
    if choices["frames"] == "T first":
        for node in rig.nodes:
            node.wxyz = np.concatenate([STILL[None], node.wxyz])
            if node.moves is not None:
                node.moves = np.concatenate([node.moves[:1], node.moves])
    # The whole scene looks another way, rest pose and path
    yaw = SO3.exp([0.0, np.radians(float(choices["facing"])), 0.0])
    root = rig.nodes[0]
    assert root.moves is not None
    root.wxyz, root.moves = (yaw @ SO3(root.wxyz)).wxyz, yaw @ root.moves
    for change in export.changes:
        change(rig)
    positions, joints = rig.world()
    RESTS[export.rest](rig, rng)
    _change_rest(rig, {node.name: yaw.inverse() for node in rig.nodes})
    for name in export.above:
        rig.put_above(name)
    rig.rate_hz = float(rng.choice([24.0, 30.0, 50.0, 60.0, 120.0]))
    if choices["prop"] != "none":
        # A ball or a sword that the studio tracked beside the person, with a root of its own
        still, path = np.tile(STILL, (len(rig.nodes[0].wxyz), 1)), rig.nodes[0].moves
        assert path is not None
        prop = StudioNode("Prop_Ball", -1, np.zeros(3), still, np.array([0.0, 0.1, 0.0]), 0.5 * path + [1.0, 0.3, 0.5])
        if choices["prop"] == "root before":
            for node in rig.nodes:
                node.parent += node.parent >= 0
            rig.nodes.insert(0, prop)
        else:
            rig.nodes.append(prop)
    recase = {"kept": str, "upper": str.upper, "lower": str.lower}[choices["case"]]
    if len({recase(node.name) for node in rig.nodes}) < len(rig.nodes):
        recase = str
    for node in rig.nodes:
        node.name = recase(node.name)
        if choices["ends"] == "zero":
            node.tip = None
    data = write_text(rig, rng, choices, UNIT_M[choices["unit"]], choices["up"])
    if choices["ends"] == "absent":
        code = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
        data = re.sub(r"[Ee][Nn][Dd] [Ss][Ii][Tt][Ee]\s*\{[^}]*\}", "", data.decode(code)).encode(code)
    unsure = set[str]() if export.pelvis_is_sure else {"pelvis"}
    roles = {r: recase(n) for r, n in rig.names.items() if n in joints and r in MUST and r not in unsure}
    first = int(choices["frames"] == "T first")
    return OddFile(data, positions[first:], tuple(map(recase, joints)), roles, rig.rate_hz, choices)

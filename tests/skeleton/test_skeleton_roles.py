"""Who plays which part: known naming habits, guesses, and maps made by hand."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.skeleton import HUMAN, ROLES, RoleMap, Skeleton, human, role_map

MOCAP_ARM, MOCAP_LEG = ("Shoulder", "Arm", "ForeArm", "Hand"), ("UpLeg", "Leg", "Foot", "ToeBase")


def word(side: str) -> str:
    return side.capitalize()


def names_by_role(skeleton: Skeleton) -> dict[str, str]:
    return {role: skeleton.names[joint] for role, joint in role_map(skeleton).joints.items()}


def test_the_canonical_human_plays_itself():
    roles = role_map(HUMAN)
    assert roles.profile == "human"
    assert dict(roles.joints) == {name: j for j, name in enumerate(HUMAN.names)}


def test_a_scaled_human_is_still_human_but_other_proportions_are_smpl():
    longer = HUMAN.offsets.copy()
    longer[4] *= 1.2
    other = Skeleton(HUMAN.names, HUMAN.parents, longer)
    assert role_map(human(1.2)).profile == "human"
    assert role_map(other).profile == "smpl"


def test_smpl_with_short_sides_and_avatar_prefix_is_known():
    renamed = [n.replace("left", "L").replace("right", "R").title() for n in HUMAN.names]
    plain = Skeleton(tuple(renamed), HUMAN.parents, HUMAN.offsets)
    avatar = Skeleton(tuple(f"m_avg_{n}" for n in renamed), HUMAN.parents, HUMAN.offsets)
    assert role_map(plain).profile == role_map(avatar).profile == "smpl"
    assert role_map(avatar)["left_knee"] == HUMAN.index("left_knee")


@pytest.mark.parametrize("prefix", ["", "mixamorig:", "mixamorig1:", "Armature|mixamorig:"])
def test_mixamo_is_known_with_and_without_its_namespace(body_maker, prefix):
    trunk = [prefix + n for n in ("Hips", "Spine", "Spine1", "Spine2")]
    head = [prefix + n for n in ("Neck", "Head")]
    body = body_maker(trunk, head, MOCAP_ARM, MOCAP_LEG, lambda side, part: prefix + word(side) + part)
    roles = role_map(body)
    assert roles.profile == "mixamo"
    assert len(roles) == len(ROLES)
    assert body.names[roles["left_foot"]] == prefix + "LeftToeBase"
    assert body.names[roles["left_ankle"]] == prefix + "LeftFoot"


def test_lafan1_is_known(lafan):
    roles = role_map(lafan)
    assert roles.profile == "lafan1"
    assert lafan.names[roles["right_foot"]] == "RightToe"
    assert lafan.names[roles["spine3"]] == "Spine2"


def test_deepmimic_lacks_toes_and_says_so(body_maker):
    body = body_maker(
        ["root", "chest"], ["neck", "nose"], ("shoulder", "elbow", "wrist"), ("hip", "knee", "ankle"),
        lambda side, part: f"{side}_{part}",
    )  # fmt: skip
    roles = role_map(body)
    assert roles.profile == "deepmimic"
    assert roles.get("left_foot") is None
    assert "left_foot" in roles.missing
    assert any("left_foot" in sentence for sentence in roles.report)
    assert body.names[roles["spine3"]] == "chest"


@pytest.mark.parametrize("edition", [("ankle", "wrist", "midtarsal"), ("talocrural", "radiocarpal", "metatarsal")])
def test_h_anim_is_known_in_both_editions(body_maker, edition):
    ankle, wrist, toe = edition
    body = body_maker(
        ["humanoidroot", "vl5", "vt6", "vt1"], ["vc7", "skullbase"],
        ("sternoclavicular", "shoulder", "elbow", wrist), ("hip", "knee", ankle, toe),
        lambda side, part: f"{side[0]}_{part}",
    )  # fmt: skip
    roles = role_map(body)
    assert roles.profile == "h-anim"
    assert body.names[roles["pelvis"]] == "humanoidroot"
    assert body.names[roles["left_ankle"]] == f"l_{ankle}"
    assert body.names[roles["right_foot"]] == f"r_{toe}"
    assert body.names[roles["spine2"]] == "vt6"
    assert not roles.missing


HABITS = {
    "blender": (["hips", "spine", "chest"], ["neck", "head"], ("shoulder", "upper_arm", "forearm", "hand"),
                ("thigh", "shin", "foot", "toe"), lambda side, part: f"{part}.{side[0].upper()}"),
    "biped": (["Bip01 Pelvis", "Bip01 Spine", "Bip01 Spine1"], ["Bip01 Neck", "Bip01 Head"],
              ("Clavicle", "UpperArm", "Forearm", "Hand"), ("Thigh", "Calf", "Foot", "Toe0"),
              lambda side, part: f"Bip01 {side[0].upper()} {part}"),
    "unreal": (["pelvis", "spine_01", "spine_02", "spine_03"], ["neck_01", "head"],
               ("clavicle", "upperarm", "lowerarm", "hand"), ("thigh", "calf", "foot", "ball"),
               lambda side, part: f"{part}_{side[0]}"),
    "joints": (["Hips", "Chest", "Chest2"], ["Neck", "Head"], ("Collar", "Shoulder", "Elbow", "Wrist"),
               ("Hip", "Knee", "Ankle", "Toe"), lambda side, part: word(side) + part),
    "poser": (["hip", "abdomen", "chest"], ["neck", "head"], ("Collar", "Shldr", "ForeArm", "Hand"),
              ("Thigh", "Shin", "Foot", "Toe"), lambda side, part: side[0] + part),
    "vrm": (["hips", "spine", "chest", "upperChest"], ["neck", "head"], ("Shoulder", "UpperArm", "LowerArm", "Hand"),
            ("UpperLeg", "LowerLeg", "Foot", "Toes"), lambda side, part: side + part),
    "prefixed": (["Bob_Hips", "Bob_Spine", "Bob_Chest"], ["Bob_Neck", "Bob_Head"],
                 ("Clavicle", "Arm", "ForeArm", "Hand"), ("UpLeg", "Leg", "Foot", "Toe"),
                 lambda side, part: f"Bob_{word(side)}{part}"),
}  # fmt: skip


@pytest.mark.parametrize("habit", HABITS)
def test_limbs_are_guessed_right_in_many_habits(body_maker, habit):
    trunk, head, arm, leg, sided = HABITS[habit]
    body = body_maker(trunk, head, arm, leg, sided)
    found = names_by_role(body)
    assert role_map(body).profile == "guessed"
    for side in ("left", "right"):
        assert [found[f"{side}_{p}"] for p in ("collar", "shoulder", "elbow", "wrist")] == [sided(side, p) for p in arm]
        assert [found[f"{side}_{p}"] for p in ("hip", "knee", "ankle", "foot")] == [sided(side, p) for p in leg]
    assert (found["pelvis"], found["spine1"], found["spine3"]) == (trunk[0], trunk[1], trunk[-1])
    assert (found["neck"], found["head"]) == tuple(head)


def test_names_that_say_nothing_are_guessed_from_chains_and_lengths(body_maker):
    letters = {"left": "m", "right": "n"}
    body = body_maker(
        ["j0", "j1", "j2"], ["j3", "j4"], ("a", "b", "c", "d"), ("e", "f", "g", "h"), lambda s, p: letters[s] + p
    )
    found = names_by_role(body)
    assert [found[f"left_{p}"] for p in ("hip", "knee", "ankle", "foot")] == ["me", "mf", "mg", "mh"]
    assert [found[f"right_{p}"] for p in ("collar", "shoulder", "elbow", "wrist")] == ["na", "nb", "nc", "nd"]
    assert (found["pelvis"], found["spine3"], found["neck"], found["head"]) == ("j0", "j2", "j3", "j4")
    assert any("left and right" in sentence for sentence in role_map(body).report)


def test_twist_and_finger_joints_get_no_role(skeleton_maker, body_maker):
    trunk, head, arm, leg, sided = HABITS["unreal"]
    body = body_maker(trunk, head, arm, leg, sided)
    names = [*body.names, "thigh_twist_01_l", "index_01_l", "thumb_01_r"]
    parents = [*body.parents, body.index("thigh_l"), body.index("hand_l"), body.index("hand_r")]
    offsets = [*body.offsets, (0.0, -0.2, 0.0), (0.08, 0.0, 0.0), (-0.03, 0.0, 0.03)]
    richer = Skeleton(tuple(names), np.array(parents), np.array(offsets))
    assert names_by_role(richer) == names_by_role(body)


def test_every_guess_is_reported_with_its_certainty(body_maker):
    trunk, head, arm, leg, sided = HABITS["vrm"]
    roles = role_map(body_maker(trunk, head, arm, leg, sided))
    for role in roles:
        assert any(sentence.startswith(f"{role}: ") and "(" in sentence for sentence in roles.report)


def test_a_skeleton_that_is_no_person_gets_an_empty_map(skeleton_maker):
    chain = skeleton_maker([("a", None, (0, 0, 0)), ("b", "a", (0, 1, 0)), ("c", "b", (0, 1, 0))])
    roles = role_map(chain)
    assert len(roles) == 0
    assert len(roles.missing) == len(ROLES)


def test_a_single_joint_has_no_roles(skeleton_maker):
    assert len(role_map(skeleton_maker([("x", None, (0, 0, 0))]))) == 0


def test_a_map_can_be_made_by_hand(body_maker):
    body = body_maker(*HABITS["vrm"])
    roles = RoleMap.from_names(body, {"left_foot": "leftToes", "pelvis": "hips"})
    assert roles.profile == "given"
    assert body.names[roles["left_foot"]] == "leftToes"
    assert "right_foot" not in roles
    assert "right_foot" in roles.missing


def test_a_map_by_hand_refuses_unknown_roles_and_joints(body_maker):
    body = body_maker(*HABITS["vrm"])
    with pytest.raises(UnknownNameError, match="left_feet"):
        RoleMap.from_names(body, {"left_feet": "leftToes"})
    with pytest.raises(UnknownNameError, match="leftToes"):
        RoleMap.from_names(body, {"left_foot": "leftToess"})
    with pytest.raises(InputError, match="two roles"):
        RoleMap.from_names(body, {"left_foot": "leftToes", "left_ankle": "leftToes"})


def test_a_missing_role_is_an_error_that_lists_what_there_is(body_maker):
    roles = RoleMap.from_names(body_maker(*HABITS["vrm"]), {"pelvis": "hips"})
    with pytest.raises(UnknownNameError, match="pelvis"):
        roles["left_foot"]


def test_role_maps_survive_pickling_and_are_kept():
    roles = role_map(HUMAN)
    copy = pickle.loads(pickle.dumps(roles))
    assert dict(copy.joints) == dict(roles.joints)
    assert role_map(HUMAN) is roles


@pytest.mark.mocap
def test_cmu_bvh_and_asf_are_known(mocap):
    from marey.io import load

    bvh = load(mocap / "cmu-bvh" / "02_01.bvh").skeleton
    asf = load(mocap / "cmu-asfamc" / "02" / "02_01.amc").skeleton
    assert role_map(bvh).profile == "cmu-bvh"
    assert role_map(asf).profile == "cmu-asf"
    assert not role_map(bvh).missing
    assert not role_map(asf).missing
    pairs = {
        "left_ankle": ("LeftFoot", "lfoot"),
        "left_foot": ("LeftToeBase", "ltoes"),
        "left_knee": ("LeftLeg", "ltibia"),
    }
    for role, (in_bvh, in_asf) in pairs.items():
        assert (bvh.names[role_map(bvh)[role]], asf.names[role_map(asf)[role]]) == (in_bvh, in_asf)


def test_a_sternum_beside_the_spine_is_no_spine_joint(body_maker):
    trunk, head = ["b_root", "b_spine0", "b_spine1", "b_spine2"], ["b_neck", "b_head"]
    body = body_maker(trunk, head, MOCAP_ARM, MOCAP_LEG, lambda side, part: f"b_{side[0]}_{part}")
    beside = Skeleton(
        (*body.names, "p_sternum"),
        [*body.parents, body.names.index("b_spine2")],
        np.concatenate([body.offsets, [[0.0, 0.05, 0.12]]]),
    )
    assert names_by_role(beside)["spine3"] == "b_spine2"


def test_long_arms_on_short_legs_keep_the_joints_that_their_names_say():
    said = dict(
        zip(
            ("hip", "knee", "ankle", "foot", "collar", "shoulder", "elbow", "wrist"),
            ("UpperLeg", "LowerLeg", "Foot", "Toes", "Shoulder", "UpperArm", "LowerArm", "Hand"),
            strict=True,
        )
    )
    factors = {"knee": 0.8, "ankle": 0.8, "elbow": 1.3, "wrist": 1.3}
    names, offsets = list[str](), HUMAN.offsets.copy()
    for j, name in enumerate(HUMAN.names):
        side, _, part = name.partition("_")
        names.append(side.capitalize() + said[part] if part else name.capitalize())
        offsets[j] *= factors.get(part, 1.0)
    found = names_by_role(Skeleton(tuple(names), HUMAN.parents, offsets, HUMAN.tips))
    for side in ("left", "right"):
        for part in ("shoulder", "elbow", "wrist"):
            assert found[f"{side}_{part}"] == side.capitalize() + said[part]

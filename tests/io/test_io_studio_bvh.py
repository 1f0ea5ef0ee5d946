"""BVH files as studios' tools write them: the person keeps height, speed and roles whatever surrounds it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from oracles.bvh_dialects import DIALECTS
from oracles.odd_bvh import StudioRig

from marey import samples
from marey.io import clips, load
from marey.kinematics import retarget
from marey.lie import SO3
from marey.motion import Motion, mean_speed, standing_height
from marey.skeleton import HUMAN, require_human, role_map

MUST_BE_FOUND = ("pelvis", "head", *(f"{side}_{part}" for side in ("left", "right") for part in
                 ("hip", "knee", "ankle", "shoulder", "elbow", "wrist")))  # fmt: skip


@cache
def walk() -> Motion:
    """The sample on the canonical human, one frame in two: its joints are called by their roles."""
    moved = retarget(samples.walk(), HUMAN, contacts=False)
    return Motion(HUMAN, moved.rate_hz / 2.0, moved.root_positions[::2], SO3(moved.rotations.wxyz[::2]))


def rig(dialect: str = "motionbuilder") -> StudioRig:
    return StudioRig.from_motion(walk(), DIALECTS[dialect].names())


def check_person(tmp_path, text: str, names: dict[str, str], *, clip: str | None = None, rate: float = 30.0) -> Motion:
    path = tmp_path / "take.bvh"
    path.write_text(text, encoding="utf-8")
    motion = load(path, clip=clip) if clip else load(path)
    assert motion.rate_hz == pytest.approx(rate, rel=1e-4)
    assert standing_height(motion.skeleton) == pytest.approx(standing_height(HUMAN), rel=0.06)
    assert 1.3 < standing_height(motion.skeleton) < 2.1
    speed = mean_speed(walk()) * rate / walk().rate_hz
    assert mean_speed(motion) == pytest.approx(speed, rel=0.03)
    roles = role_map(motion.skeleton)
    for role in MUST_BE_FOUND:
        assert motion.skeleton.names[roles[role]] == names[role], role
    require_human(motion.skeleton, "a check", motion.joint_positions()[::20])
    return motion


@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_of_every_tool_are_understood(tmp_path, dialect):
    check_person(tmp_path, rig(dialect).text(), DIALECTS[dialect].names())


def above(*nodes: str, **options: bool) -> Callable[[StudioRig], None]:
    def change(body: StudioRig) -> None:
        for name in nodes:
            body.put_above(name, **options)

    return change


def far_root(body: StudioRig) -> None:
    body.put_above("joint_Root", (0.008, 0.94, -4.52))


def fingers(body: StudioRig) -> None:
    for side in ("Left", "Right"):
        out = 1.0 if side == "Left" else -1.0
        for i, finger in enumerate(("Thumb", "Index", "Middle", "Ring", "Pinky")):
            parent = f"{side}Hand"
            for k in range(1, 5):
                name = f"{side}Hand{finger}{k}"
                body.add(
                    name, parent, (out * (0.08 if k == 1 else 0.03), 0.0, 0.02 * (2 - i)), tip=(out * 0.02, 0.0, 0.0)
                )
                parent = name


def face(body: StudioRig) -> None:
    body.add("Face", "Head", (0.0, 0.02, 0.05))
    for k in range(60):
        angle = 0.1 * k
        body.add(f"face_{k:02d}_Jaw", "Face", (0.05 * np.sin(angle), 0.05 * np.cos(angle), 0.04), tip=(0.0, 0.0, 0.01))


def twists(body: StudioRig) -> None:
    for side in ("Left", "Right"):
        for part, length in (("UpLeg", 0.2), ("Leg", 0.2), ("Arm", 0.13), ("ForeArm", 0.12)):
            bone = body.nodes[body.find(f"{side}{part}")]
            child = next(n for n in body.nodes if n.parent == body.find(f"{side}{part}"))
            along = child.offset / np.linalg.norm(child.offset) * length
            assert bone is not child
            body.add(f"{side}{part}Twist", f"{side}{part}", along, tip=0.1 * along)


def prop(body: StudioRig) -> None:
    body.add("Weapon_R", "RightHand", (-0.05, 0.0, 0.05), tip=(0.0, 0.0, 1.6))
    body.add("Shield", "LeftForeArm", (0.1, 0.0, 0.1), tip=(0.0, 0.8, 0.0))


def hair_and_cloth(body: StudioRig) -> None:
    for k in range(8):
        parent = "Head"
        for link in range(6):
            name = f"Hair_{k}_{link}"
            body.add(name, parent, (0.01 * k, -0.08, -0.1 if link == 0 else -0.01), tip=(0.0, -0.05, 0.0))
            parent = name
    for k in range(10):
        parent = "Hips"
        for link in range(5):
            name = f"Skirt_{k}_{link}"
            body.add(name, parent, (0.02 * np.sin(k), -0.15, 0.02 * np.cos(k)), tip=(0.0, -0.1, 0.0))
            parent = name


def end_inside_head(body: StudioRig) -> None:
    body.nodes[body.find("Head")].tip = np.zeros(3)


def no_tips(body: StudioRig) -> None:
    for node in body.nodes:
        node.tip = None


def zero_bones(body: StudioRig) -> None:
    """Helpers of no length between hips and legs."""
    for side in ("Left", "Right"):
        leg = body.nodes[body.find(f"{side}UpLeg")]
        body.add(f"{side}HipHelper", "Hips", (0.0, 0.0, 0.0))
        leg.parent = body.find(f"{side}HipHelper")


def tail_bones(body: StudioRig) -> None:
    for name, parent in (
        ("IK_Foot_L", "Hips"),
        ("IK_Foot_R", "Hips"),
        ("Pole_Knee_L", "Hips"),
        ("Pole_Knee_R", "Hips"),
    ):
        body.add(name, parent, (0.1 if name.endswith("L") else -0.1, -0.9, 0.4), tip=(0.0, 0.0, 0.1))


STRUCTURES: dict[str, Callable[[StudioRig], None]] = {
    "scene root": above("root"),
    "armature and reference": above("Reference", "Armature"),
    "root far from the hips": far_root,
    "path on a root bone": above("Root", takes_path=True),
    "fingers": fingers,
    "face": face,
    "twist bones": twists,
    "weapon and shield": prop,
    "hair and skirt": hair_and_cloth,
    "end site inside the head": end_inside_head,
    "no end sites": no_tips,
    "helpers of no length": zero_bones,
    "controls of inverse kinematics": tail_bones,
}


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("layout", ["cm", "m, z up, all joints have positions"])
def test_what_surrounds_the_person_changes_nothing(tmp_path, structure, layout):
    body, names = rig(), DIALECTS["motionbuilder"].names()
    STRUCTURES[structure](body)
    text = body.text() if layout == "cm" else body.text(unit="m", up="z", order="XYZ", all_move=True)
    check_person(tmp_path, text, names)


@pytest.mark.parametrize("unit", ["m", "cm", "mm", "inch"])
@pytest.mark.parametrize("order", ["ZXY", "XYZ", "YXZ", "ZYX"])
@pytest.mark.parametrize("up", ["y", "z"])
def test_units_orders_and_axes(tmp_path, unit, order, up):
    body = rig("game studio")
    far_root(body)
    check_person(tmp_path, body.text(unit=unit, order=order, up=up), DIALECTS["game studio"].names())


@pytest.mark.parametrize("rate", [24.0, 29.97, 30.0, 60.0, 100.0, 120.0, 240.0])
def test_rates_are_those_of_the_file(tmp_path, rate):
    body = rig()
    body.rate_hz = rate
    path = tmp_path / "take.bvh"
    path.write_text(body.text())
    motion = load(path)
    assert motion.rate_hz == pytest.approx(rate, rel=1e-4)


@pytest.mark.parametrize("angle_deg", [-45.0, -30.0, 20.0])
def test_arms_rest_in_an_a_pose(tmp_path, angle_deg):
    """The rest pose has lower arms: offsets turned, rotations turned back."""
    body, names = rig("unreal"), DIALECTS["unreal"].names()
    for side, sign in (("l", 1.0), ("r", -1.0)):
        turn = SO3.exp([0.0, 0.0, sign * np.radians(angle_deg)])
        chain = [f"upperarm_{side}", f"lowerarm_{side}", f"hand_{side}"]
        for k, name in enumerate(chain):
            node = body.nodes[body.find(name)]
            local = SO3(node.wxyz)
            if k > 0:
                node.offset = turn @ node.offset
            node.wxyz = ((local @ turn.inverse()) if k == 0 else (turn @ local @ turn.inverse())).wxyz
            if node.tip is not None:
                node.tip = turn @ node.tip
    check_person(tmp_path, body.text(), names)


def test_two_characters_in_one_file_are_two_clips(tmp_path):
    one, two = rig(), rig("unreal")
    for node in two.nodes:
        node.parent = -1 if node.parent < 0 else node.parent + len(one.nodes)
        if node.moves is not None:
            node.moves = node.moves + np.array([2.0, 0.0, 1.0])
    one.nodes += two.nodes
    path = tmp_path / "take.bvh"
    path.write_text(one.text())
    assert len(clips(path)) == 2
    check_person(tmp_path, one.text(), DIALECTS["motionbuilder"].names())
    check_person(tmp_path, one.text(), DIALECTS["unreal"].names(), clip=str(clips(path)[1]))

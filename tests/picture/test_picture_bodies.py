"""Bodies of any skeleton hold together: gaps between drawn segments, heads, hands, feet and what is left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from oracles.solid_gaps import widest_gap

from marey.base import MareyError
from marey.lie import SO3
from marey.motion import Motion
from marey.picture import CapsuleBatch, Palette, body_solids
from marey.skeleton import HUMAN, Skeleton, SkeletonDraft, capsules, human, t_pose

GAP_M = 0.01  # of a person; of other things the same share of a person's height
LIMBS = (("left", 1.0), ("right", -1.0))


def mixamo_like(*, legs: float = 1.0, trunk: float = 1.0, head: float = 1.0, width: float = 1.0) -> Skeleton:
    """A game character: fingers, end joints, twists beside and inside limbs, a prop, targets, a scene root above."""
    draft = SkeletonDraft(name="character")
    at: dict[str, int] = {}

    def add(name: str, parent: str, *offset: float) -> None:
        at[name] = draft.add(name, at.get(parent, -1), offset)

    add("Armature", "", 0.0, 0.0, 0.0)
    add("Hips", "Armature", 0.3, 0.08 + 0.92 * legs, -2.0)
    for name, parent, y in (("Spine", "Hips", 0.10), ("Spine1", "Spine", 0.12), ("Spine2", "Spine1", 0.13)):
        add(name, parent, 0.0, y * trunk, 0.0)
    add("Neck", "Spine2", 0.0, 0.15 * trunk, 0.0)
    add("Head", "Neck", 0.0, 0.10 * head, 0.01)
    add("HeadTop_End", "Head", 0.0, 0.19 * head, 0.0)
    add("Hair_End", "Head", 0.0, -0.5, -0.3)
    for side, x in LIMBS:
        word = side.capitalize()
        add(f"{word}Shoulder", "Spine2", 0.05 * x, 0.11 * trunk, 0.0)
        add(f"{word}Arm", f"{word}Shoulder", 0.13 * x * width, 0.0, 0.0)
        add(f"{word}ArmTwist", f"{word}Arm", 0.14 * x, 0.0, 0.0)
        add(f"{word}ForeArm", f"{word}ArmTwist", 0.14 * x, 0.0, 0.0)
        add(f"{word}Hand", f"{word}ForeArm", 0.26 * x, 0.0, 0.0)
        add(f"{word}HandMiddle1", f"{word}Hand", 0.09 * x, 0.0, 0.0)
        add(f"{word}HandMiddle4", f"{word}HandMiddle1", 0.08 * x, 0.0, 0.0)
        add(f"{word}UpLeg", "Hips", 0.09 * x * width, -0.06, 0.0)
        add(f"{word}UpLegRoll", f"{word}UpLeg", 0.0, -0.21 * legs, 0.0)
        add(f"{word}Leg", f"{word}UpLegRoll", 0.0, -0.21 * legs, 0.0)
        add(f"{word}Foot", f"{word}Leg", 0.0, -0.42 * legs, 0.0)
        add(f"{word}ToeBase", f"{word}Foot", 0.0, -0.07 * legs, 0.13 * legs)
        add(f"{word}Toe_End", f"{word}ToeBase", 0.0, 0.0, 0.07 * legs)
        add(f"IK_{word}_target", "Armature", 3.0 * x, 0.0, 3.0)
    add("Sword", "RightHand", -0.1, 0.0, 1.2)
    return draft.build()


def wriggle(skeleton: Skeleton, *, size_rad: float = 0.6, frames: int = 12) -> Motion:
    """Every joint turned at random, twists and helpers too."""
    rng = np.random.default_rng(7)
    turns = rng.normal(0.0, size_rad, (frames, skeleton.num_joints, 3))
    return Motion(skeleton, 30.0, np.tile(skeleton.offsets[0], (frames, 1)), SO3.exp(turns))


def gap_of(body: CapsuleBatch) -> float:
    return widest_gap(body.starts, body.ends, body.start_radii, body.end_radii) if len(body) > 1 else 0.0


def bodies(motion: Motion, count: int = 12) -> list[CapsuleBatch]:
    frames = np.unique(np.linspace(0, motion.num_frames - 1, count).round().astype(np.int64))
    return body_solids(motion, frames, Palette())


CHARACTERS = {
    "usual": mixamo_like(),
    "long legs": mixamo_like(legs=1.5),
    "toon": mixamo_like(legs=0.4, head=1.7, width=1.6),
    "child": mixamo_like(legs=0.45, trunk=0.65, head=0.8, width=0.6),
    "broad": mixamo_like(width=2.5),
    "human": HUMAN,
    "toddler": human(0.85),
    "giant": mixamo_like().scaled(60.0),
}


@pytest.mark.parametrize("name", CHARACTERS)
def test_the_segments_of_a_person_meet_in_any_pose(name):
    skeleton = CHARACTERS[name]
    size = float(np.ptp(t_pose(skeleton).joint_positions()[:, 1]))
    assert max(gap_of(body) for body in bodies(wriggle(skeleton))) < GAP_M * min(size / 1.7, 1.0)


def test_a_gap_is_seen_when_there_is_one():
    (body, *_) = bodies(wriggle(HUMAN))
    away = body.starts + np.where(np.arange(len(body))[:, None] == len(body) - 1, 1.0, 0.0)
    torn = CapsuleBatch(away, away, body.start_radii, body.start_radii, body.colours)
    assert gap_of(torn) > 0.3


def test_bones_that_change_their_length_stay_joined():
    plain = wriggle(mixamo_like(), size_rad=0.3)
    moving = np.tile(plain.skeleton.offsets, (plain.num_frames, 1, 1))
    moving *= 1.0 + 0.4 * np.sin(np.arange(plain.num_frames))[:, None, None]
    stretched = Motion(plain.skeleton, 30.0, plain.root_positions, plain.rotations, translations=moving)
    assert max(gap_of(body) for body in bodies(stretched)) < GAP_M


def test_props_targets_twists_and_scene_nodes_are_no_limbs():
    skeleton = mixamo_like()
    body = capsules(skeleton)
    drawn = {skeleton.names[j] for j in body.joints}
    assert not drawn & {"Armature", "Sword", "HandMiddle1", "LeftHandMiddle1", "IK_Left_target", "Hair_End"}
    pose = t_pose(skeleton)
    at = pose.joint_positions()[body.joints]
    ends = at + pose.joint_rotations()[body.joints] @ body.ends
    wrist = pose.joint_positions()[skeleton.index("RightHand")]
    reach = np.linalg.norm(ends[body.joints == skeleton.index("RightHand")] - wrist, axis=1)
    assert reach.max() < 0.2  # the sword is no finger
    middle = pose.joint_positions()[skeleton.index("Hips")]
    assert np.abs(ends[:, [0, 2]] - middle[[0, 2]]).max() < 1.0


@pytest.mark.parametrize("name", ["usual", "long legs", "child", "human", "toddler"])
def test_the_head_is_where_the_head_is(name):
    """Its top at the file's crown, its lower end near the joint of the head, its size that of a person's head."""
    skeleton = CHARACTERS[name]
    pose, body = t_pose(skeleton), capsules(skeleton)
    p = pose.joint_positions()
    head = skeleton.index("HeadTop_End") if "HeadTop_End" in skeleton.names else None
    joint = skeleton.index("Head" if head is not None else "head")
    crown = p[head] if head is not None else p[joint] + pose.joint_rotations()[joint] @ skeleton.tips[joint]
    rise = float(crown[1] - p[joint][1])
    mine = np.flatnonzero(body.joints == joint)
    largest = mine[np.argmax(body.end_radii[mine])]
    ends = p[joint] + pose.joint_rotations()[joint] @ np.stack([body.starts[largest], body.ends[largest]])
    radii = np.array([body.start_radii[largest], body.end_radii[largest]])
    assert (ends[:, 1] + radii).max() == pytest.approx(crown[1], abs=0.12 * rise)
    assert abs((ends[:, 1] - radii).min() - p[joint][1]) < 0.4 * rise
    assert 0.35 * rise < radii.max() < 0.75 * rise


def test_a_foot_of_five_toes_points_forwards():
    draft = SkeletonDraft()
    for name, parent, offset in zip(HUMAN.names, HUMAN.parents.tolist(), HUMAN.offsets, strict=True):
        draft.add({"left_foot": "left_toe5", "right_foot": "right_toe1"}.get(name, name), parent, offset.tolist())
    for side, x in LIMBS:
        for toe, across in ((2, -0.03), (3, -0.015), (4, 0.0)):
            step = HUMAN.offsets[HUMAN.index(f"{side}_foot")] + [x * across, 0.0, 0.02]
            draft.add(f"{side}_toe{toe}", HUMAN.index(f"{side}_ankle"), step.tolist())
    assert max(gap_of(body) for body in bodies(wriggle(draft.build()))) < GAP_M


def horse() -> Skeleton:
    draft = SkeletonDraft(name="horse")
    root = draft.add("root", -1, (0.0, 0.0, 0.0))
    hips = draft.add("hips", root, (0.0, 1.3, -0.6))
    spine = draft.add("spine", hips, (0.0, 0.1, 0.6))
    chest = draft.add("chest", spine, (0.0, 0.0, 0.6))
    neck = draft.add("neck", chest, (0.0, 0.4, 0.3))
    draft.add("head", neck, (0.0, 0.3, 0.3))
    draft.add("tail", hips, (0.0, -0.2, -0.6))
    for side, x in LIMBS:
        for part, top in (("", hips), ("front_", chest)):
            joint = draft.add(f"{side}_{part}hip", top, (0.2 * x, -0.1, 0.0))
            for name in ("knee", "ankle", "foot"):
                joint = draft.add(f"{side}_{part}{name}", joint, (0.0, -0.38, 0.05))
    return draft.build()


def test_an_animal_is_joined_sticks_without_a_persons_trunk():
    skeleton = horse()
    motion = wriggle(skeleton, size_rad=0.2)
    assert max(gap_of(body) for body in bodies(motion)) < GAP_M
    assert skeleton.names.index("root") not in capsules(skeleton).joints
    assert (
        len(capsules(skeleton)) == skeleton.num_joints - 2
    )  # a bone for each joint but the scene's root and the first


@pytest.mark.real
@pytest.mark.parametrize(("every", "least"), [(8, 5), pytest.param(1, 41, marks=pytest.mark.slow)])
def test_bodies_of_other_tools_hold_together(real: Path, every: int, least: int):
    from marey import load

    torn, seen = dict[str, float](), 0
    kinds = (".glb", ".gltf", ".bvh", ".txt", ".npz", ".fbx")
    for file in sorted(p for p in real.rglob("*") if p.suffix in kinds)[::every]:
        try:
            motion = load(file)
        except MareyError:
            continue
        if not isinstance(motion, Motion):
            continue
        some = bodies(motion, 8)
        ends = np.concatenate([some[0].starts, some[0].ends])
        size = float(np.ptp(ends, axis=0).max())
        seen += 1
        gap = max(gap_of(body) for body in some)
        if gap > GAP_M * max(size / 1.7, 1e-3):
            torn[file.name] = gap
    assert seen >= least and not torn


@pytest.mark.mocap
def test_bodies_of_captured_people_hold_together(mocap: Path):
    from marey import load

    for file in sorted((mocap / "cmu-bvh").glob("*.bvh"))[::25]:
        assert max(gap_of(body) for body in bodies(load(file), 6)) < GAP_M, file.name


def test_toes_stay_on_a_foot_whose_joints_turn():
    draft = SkeletonDraft()
    for name, parent, offset in zip(HUMAN.names, HUMAN.parents.tolist(), HUMAN.offsets, strict=True):
        draft.add(name, parent, offset.tolist())
    for side, _ in LIMBS:
        ankle, ball = HUMAN.index(f"{side}_ankle"), HUMAN.index(f"{side}_foot")
        draft.offsets[ball] = (0.5 * HUMAN.offsets[ball]).tolist()
        draft.names[ball] = f"{side}_talus"
        middle = draft.add(f"{side}_tarsus", ball, (0.2 * HUMAN.offsets[ball]).tolist())
        draft.add(f"{side}_foot", middle, (0.3 * HUMAN.offsets[ball]).tolist())
        assert draft.parents[ball] == ankle
    skeleton = draft.build()
    assert max(gap_of(body) for body in bodies(wriggle(skeleton, frames=20), 20)) < GAP_M

"""Who is human: people of every file, and no animal, prop, face or lone limb."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from oracles import foreign_rigs as rigs

from marey import samples
from marey.base import InputError
from marey.io import find_person, load
from marey.io.conventions import localise_frames
from marey.lie import SO3
from marey.motion import Motion, Source, assess_motion
from marey.skeleton import HUMAN, Skeleton, assess_anatomy, human, joint_frames, require_human, role_map

walk = cache(samples.walk)


def still(skeleton: Skeleton) -> Motion:
    return Motion(skeleton, 30.0, skeleton.offsets[None, 0], SO3.identity(1, skeleton.num_joints))


def tree(*bones: tuple[str, str, tuple[float, float, float]]) -> Skeleton:
    """A skeleton of (name, parent, world position) rows."""
    names = [name for name, _, _ in bones]
    places = {name: np.array(place) for name, _, place in bones}
    parents = [names.index(parent) if parent else -1 for _, parent, _ in bones]
    offsets = [places[n] - (places[p] if p else 0.0) for n, p, _ in bones]
    return Skeleton(tuple(names), np.array(parents), np.array(offsets))


def quadruped(tail: float = 0.5, neck: float = 0.5) -> Skeleton:
    """A dog: hind legs with three long bones, front legs under the chest, a level trunk."""
    rows: list[tuple[str, str, tuple[float, float, float]]] = [
        ("hips", "", (0.0, 0.6, 0.0)),
        ("back", "hips", (0.0, 0.6, 0.3)),
        ("chest", "back", (0.0, 0.6, 0.6)),
        ("neck", "chest", (0.0, 0.7, 0.7)),
        ("head", "neck", (0.0, 0.7 + 0.6 * neck, 0.7 + 0.4 * neck)),
    ]
    rows += [
        ("tail1", "hips", (0.0, 0.6, -0.1)),
        ("tail2", "tail1", (0.0, 0.6, -0.1 - 0.5 * tail)),
        ("tail3", "tail2", (0.0, 0.6, -0.1 - tail)),
    ]
    for side, x in (("l", 0.1), ("r", -0.1)):
        rows += [
            (f"{side}1", "hips", (x, 0.55, 0.0)),
            (f"{side}2", f"{side}1", (x, 0.35, 0.08)),
            (f"{side}3", f"{side}2", (x, 0.17, -0.06)),
            (f"{side}4", f"{side}3", (x, 0.02, 0.02)),
            (f"{side}5", "chest", (x, 0.52, 0.62)),
            (f"{side}6", f"{side}5", (x, 0.30, 0.55)),
            (f"{side}7", f"{side}6", (x, 0.08, 0.58)),
            (f"{side}8", f"{side}7", (x, 0.02, 0.63)),
        ]
    return tree(*rows)


@pytest.mark.parametrize("stature", [0.9, 1.2, 1.75, 2.1])
def test_people_of_all_sizes_are_human_and_their_pelvis_is_found(stature):
    anatomy = assess_anatomy(human(stature))
    assert anatomy.is_human and anatomy.pelvis == 0 and anatomy.score > 0.9


@pytest.mark.parametrize("factor", [1.0, 100.0, 1000.0, 39.37, 17.7])
def test_the_unit_does_not_matter(factor):
    assert assess_anatomy(HUMAN.scaled(factor)).score == pytest.approx(assess_anatomy(HUMAN).score)


def test_a_child_with_a_large_head_and_short_legs_is_human():
    offsets, tips = HUMAN.offsets.copy(), HUMAN.tips.copy()
    for j, name in enumerate(HUMAN.names):
        if "knee" in name or "ankle" in name:
            offsets[j] *= 0.72
        if name == "head":
            offsets[j] *= 1.3
            tips[j] *= 1.5
    assert assess_anatomy(Skeleton(HUMAN.names, HUMAN.parents, 0.5 * offsets, 0.5 * tips)).is_human


@pytest.mark.parametrize("lost", [("foot",), ("wrist",), ("foot", "wrist"), ("head",), ("collar",), ("spine2",)])
def test_people_may_lack_toes_hands_or_a_head(lost):
    kept = [n for n in HUMAN.names if not any(word in n for word in lost)]
    places = dict(zip(HUMAN.names, HUMAN.rest_positions(), strict=True))

    def parent(name: str) -> str:
        above = int(HUMAN.parents[HUMAN.index(name)])
        while above >= 0 and HUMAN.names[above] not in kept:
            above = int(HUMAN.parents[above])
        return HUMAN.names[above] if above >= 0 else ""

    body = tree(*((n, parent(n), tuple(places[n])) for n in kept))
    assert assess_anatomy(body).is_human


@pytest.mark.parametrize("seed", range(8))
def test_forty_more_bones_do_not_hide_a_human(seed):
    rng = np.random.default_rng(seed)
    rig = rigs.add_twigs(still(HUMAN), rng)
    anatomy = assess_anatomy(rig.skeleton)
    assert anatomy.is_human and anatomy.pelvis == 0


@pytest.mark.parametrize("seed", range(6))
def test_arms_may_hang_or_point_anywhere_at_rest(seed):
    rng = np.random.default_rng(seed)
    turns = np.zeros((22, 3))
    for name in ("left_shoulder", "right_shoulder", "left_elbow", "right_elbow"):
        turns[HUMAN.index(name)] = 0.6 * rng.normal(size=3)
    pose = Motion(HUMAN, 30.0, HUMAN.offsets[None, 0], SO3.exp(turns)[None])
    body = Skeleton(HUMAN.names, HUMAN.parents, HUMAN.offsets, HUMAN.tips)
    posed = pose.joint_positions()[0]
    offsets = posed.copy()
    offsets[1:] -= posed[HUMAN.parents[1:]]
    assert assess_anatomy(Skeleton(body.names, body.parents, offsets, body.tips)).is_human


def test_a_rest_pose_along_one_axis_is_no_reason_to_refuse():
    lengths = np.linalg.norm(HUMAN.offsets, axis=1)
    offsets = np.zeros((22, 3))
    offsets[:, 0] = lengths
    line = Skeleton(HUMAN.names, HUMAN.parents, offsets, HUMAN.tips)
    assert assess_anatomy(line).is_human
    require_human(line, "retargeting")


@pytest.mark.parametrize("tail", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("neck", [0.3, 0.9])
def test_four_legs_are_refused_with_the_reason(tail, neck):
    dog = quadruped(tail, neck)
    anatomy = assess_anatomy(dog, dog.rest_positions()[None])
    assert not anatomy.is_human and anatomy.reasons
    with pytest.raises(InputError, match=r"retargeting needs a human skeleton, and 'skeleton' is not human: .*trunk"):
        require_human(dog, "retargeting")


def test_wings_beside_arms_are_two_limbs_too_many():
    rows = [(n, HUMAN.names[p] if p >= 0 else "", tuple(x)) for n, p, x in
            zip(HUMAN.names, HUMAN.parents, HUMAN.rest_positions(), strict=True)]  # fmt: skip
    for side, x in (("L", 1.0), ("R", -1.0)):
        rows += [
            (f"wing{side}1", "spine3", (0.1 * x, 1.4, -0.1)),
            (f"wing{side}2", f"wing{side}1", (0.8 * x, 1.9, -0.3)),
            (f"wing{side}3", f"wing{side}2", (1.6 * x, 1.7, -0.5)),
            (f"wing{side}4", f"wing{side}3", (2.3 * x, 1.4, -0.6)),
        ]
    assert not assess_anatomy(tree(*rows)).is_human


def test_props_faces_and_lone_limbs_are_no_people():
    box = tree(("box", "", (0.0, 0.0, 0.0)), ("lid", "box", (0.0, 0.3, 0.0)))
    face = [("head", "", (0.0, 1.6, 0.0))]
    for k in range(40):
        face += [(f"face{k}a", "head", (0.05 * np.cos(k), 1.6, 0.05 * np.sin(k)))]
        face += [(f"face{k}b", f"face{k}a", (0.06 * np.cos(k), 1.6, 0.06 * np.sin(k)))]
    arm = [
        ("shoulder", "", (0.0, 1.4, 0.0)),
        ("elbow", "shoulder", (0.3, 1.4, 0.0)),
        ("hand", "elbow", (0.55, 1.4, 0.0)),
    ]
    for k in range(5):
        arm += [(f"f{k}a", "hand", (0.63, 1.4, 0.01 * k)), (f"f{k}b", f"f{k}a", (0.67, 1.4, 0.01 * k))]
    for thing in (tree(*face), tree(*arm), box):
        anatomy = assess_anatomy(thing)
        assert not anatomy.is_human and anatomy.reasons
        with pytest.raises(InputError, match="needs a human"):
            require_human(thing, "retargeting")


def test_sides_come_from_the_toes_when_names_are_silent():
    silent = Skeleton(tuple(f"b{j}" for j in range(22)), HUMAN.parents, HUMAN.offsets, HUMAN.tips)
    roles = role_map(silent)
    assert [roles[r] for r in ("left_hip", "right_hip", "left_wrist", "right_wrist")] == [1, 2, 20, 21]
    assert any("left and right" in line for line in roles.report)


def test_names_that_contradict_the_shape_are_not_believed():
    names = list(HUMAN.names)
    names[HUMAN.index("left_knee")], names[HUMAN.index("left_ankle")] = "left_ankle_x", "left_knee_x"
    names[0] = "middle"  # not a known convention
    roles = role_map(Skeleton(tuple(names), HUMAN.parents, HUMAN.offsets, HUMAN.tips))
    assert roles["left_knee"] == HUMAN.index("left_knee") and roles["left_ankle"] == HUMAN.index("left_ankle")


def test_of_two_joints_with_one_name_the_long_bone_gets_the_role():
    rows = [
        (n, HUMAN.names[p] if p >= 0 else "", tuple(x))
        for n, p, x in zip(HUMAN.names, HUMAN.parents, HUMAN.rest_positions(), strict=True)
    ]
    stubs = [(f"__{side}_hip", "pelvis", (0.0, 0.93, 0.0)) for side in ("left", "right")]
    rows = [
        rows[0],
        *stubs,
        *((n, f"__{n}" if n in ("left_hip", "right_hip") else p, x) for n, p, x in rows[1:] if n != "spine2"),
    ]
    rows = [(n, "spine1" if p == "spine2" else p, x) for n, p, x in rows]  # not a known convention
    body = tree(*rows)
    assert [body.names[role_map(body)[f"{side}_hip"]] for side in ("left", "right")] == ["left_hip", "right_hip"]


HUMANS = ("human-", "rig-human", "m2m-", "mixamo", "humanoid3d", "CesiumMan", "RiggedFigure", "BrainStem", "test_24fps",
          "test_30fps", "makehuman")  # fmt: skip


@pytest.mark.real
def test_real_files_of_people_are_human_and_those_of_animals_and_things_are_not(real: Path):
    wrong: list[str] = []
    count = 0
    for path in sorted(real.rglob("*")):
        if path.suffix not in (".bvh", ".glb", ".gltf", ".txt") or path.name.endswith("README.txt"):
            continue
        try:
            clip = load(path)
        except ValueError:
            continue
        count += 1
        is_human = any(word in str(path.relative_to(real)) for word in HUMANS)
        said = not any(note.startswith("not a human") for note in clip.load_report.notes)
        wrong += [] if said == is_human else [f"{path.name}: {clip.load_report.notes}"]
    assert count >= 45
    assert wrong == []


def dressed(*chains: tuple[str, str, tuple[float, float, float], tuple[float, float, float], int]) -> Skeleton:
    """The canonical human with chains of (name, host, start, step, count) joints hung on it, listed last."""
    rows = [
        (n, HUMAN.names[p] if p >= 0 else "", tuple(x))
        for n, p, x in zip(HUMAN.names, HUMAN.parents, HUMAN.rest_positions(), strict=True)
    ]
    for name, host, start, step, count in chains:
        for k in range(count):
            place = tuple(a + k * b for a, b in zip(start, step, strict=True))
            rows.append((f"{name}{k}", f"{name}{k - 1}" if k else host, place))
    return tree(*rows)


CLOTHES = {
    "skirt": [(f"skirt{i}", "pelvis", (0.2 * np.cos(i), 0.9, 0.2 * np.sin(i)), (0.0, -0.13, 0.0), 5) for i in range(8)],
    "long dress": [
        (f"dress{i}", "pelvis", (0.2 * np.cos(i), 0.9, 0.2 * np.sin(i)), (0.0, -0.14, 0.0), 7) for i in range(8)
    ],
    "cape": [(f"cape{s}", "spine3", (0.1 * s, 1.4, -0.1), (0.02 * s, -0.2, -0.02), 7) for s in (-1, 0, 1)],
    "long hair": [(f"hair{s}", "head", (0.05 * s, 1.7, -0.1), (0.0, -0.1, -0.01), 8) for s in (-1, 0, 1)],
    "sword": [("sword", "right_wrist", (-0.85, 1.43, 0.0), (0.0, 0.0, 0.5), 3)],
    "tail coat": [("coat", "pelvis", (0.0, 0.9, -0.1), (0.0, -0.12, -0.02), 5)],
    "twist bones": [
        (f"{side}{part}twist", f"{side}_{part}", tuple(HUMAN.rest_positions()[HUMAN.index(f"{side}_{part}")]),
         (0.05 if side == "left" else -0.05, -0.02, 0.0), 3)
        for side in ("left", "right") for part in ("shoulder", "elbow", "hip", "knee")
    ],
    "face": [(f"face{i}", "head", (0.03 * np.cos(i), 1.6, 0.08), (0.0, 0.01, 0.005), 2) for i in range(60)],
    "backpack": [("pack", "spine2", (0.0, 1.3, -0.15), (0.0, 0.1, -0.05), 4)],
}  # fmt: skip


@pytest.mark.parametrize("what", CLOTHES)
def test_clothes_hair_and_props_hide_no_human_and_no_role(what):
    body = dressed(*CLOTHES[what])
    silent = Skeleton(tuple(f"b{j}" for j in range(body.num_joints)), body.parents, body.offsets)
    anatomy = assess_anatomy(silent)
    assert anatomy.is_human and anatomy.pelvis == 0
    roles = role_map(silent)
    for role in (
        "pelvis",
        "left_hip",
        "right_knee",
        "left_ankle",
        "right_shoulder",
        "left_elbow",
        "right_wrist",
        "head",
    ):
        assert roles[role] == HUMAN.index(role), (what, role)


def test_all_clothes_at_once_hide_no_human():
    body = dressed(*(chain for chains in CLOTHES.values() for chain in chains))
    assert assess_anatomy(body).is_human and assess_anatomy(body).pelvis == 0


def test_of_two_people_in_one_scene_one_is_taken():
    rows = [("scene", "", (0.0, 0.0, 0.0))]
    for who, x in (("a", 0.0), ("b", 1.5)):
        rows += [
            (f"{who}_{n}", f"{who}_{HUMAN.names[p]}" if p >= 0 else "scene", (place[0] + x, place[1], place[2]))
            for n, p, place in zip(HUMAN.names, HUMAN.parents, HUMAN.rest_positions(), strict=True)
        ]
    anatomy = assess_anatomy(tree(*rows))
    assert anatomy.is_human and anatomy.pelvis in (1, 23)


def random_beast(rng: np.random.Generator) -> Skeleton:
    """Four legs of two or three long bones under a level trunk, with or without tail, stubs and hooves."""
    height, length = rng.uniform(0.3, 1.6), rng.uniform(0.6, 1.6)
    height, length = height, height * length
    rise = rng.uniform(-0.15, 0.15) * length
    rows: list[tuple[str, str, tuple[float, float, float]]] = [("a", "", (0.0, height, 0.0))]
    spine = int(rng.integers(1, 5))
    rows += [
        (f"s{k}", f"s{k - 1}" if k > 1 else "a", (0.0, height + rise * k / spine, length * k / spine))
        for k in range(1, spine + 1)
    ]
    chest = f"s{spine}"
    neck = height * rng.uniform(0.2, 0.9)
    rows += [
        ("n", chest, (0.0, height + rise + 0.4 * neck, length + 0.4 * neck)),
        ("h", "n", (0.0, height + rise + 0.8 * neck, length + 0.8 * neck)),
        ("m", "h", (0.0, height + rise + 0.7 * neck, length + neck)),
    ]
    if rng.random() < 0.7:
        tail = height * rng.uniform(0.1, 1.2)
        rows += [
            (f"t{k}", f"t{k - 1}" if k else "a", (0.0, height - 0.2 * tail * k / 3, -tail * k / 3)) for k in range(4)
        ]
    width = height * rng.uniform(0.08, 0.25)
    for fork, z, top, name in (("a", 0.0, height, "b"), (chest, length, height + rise, "f")):
        bones = int(rng.integers(2, 4))
        heights = top * (1.0 - np.linspace(0.1, 0.95, bones + 1)) * (1.0 + 0.05 * rng.normal(size=bones + 1))
        wiggle = 0.12 * height * rng.normal(size=bones + 1)
        for side, x in (("l", width), ("r", -width)):
            above = fork
            for k in range(bones + 1):
                rows.append((f"{name}{side}{k}", above, (x, float(heights[k]), z + float(wiggle[k]))))
                above = f"{name}{side}{k}"
            rows.append((f"{name}{side}t", above, (x, 0.0, z + float(wiggle[-1]) + 0.08 * height)))
    return tree(*rows)


def random_person(rng: np.random.Generator) -> Skeleton:
    """The canonical human with each bone up to a fifth longer or shorter, arms anywhere, and a name of no meaning."""
    factors = np.exp(0.12 * rng.normal(size=22))
    pairs = [(HUMAN.index(f"left_{p}"), HUMAN.index(f"right_{p}")) for p in
             ("hip", "knee", "ankle", "foot", "collar", "shoulder", "elbow", "wrist")]  # fmt: skip
    for left, right in pairs:
        factors[right] = factors[left] * np.exp(0.02 * rng.normal())
    turns = np.zeros((22, 3))
    for part, spread in (("shoulder", 0.7), ("elbow", 0.5), ("hip", 0.15), ("knee", 0.1)):
        for side in ("left", "right"):
            turns[HUMAN.index(f"{side}_{part}")] = spread * rng.normal(size=3)
    body = Skeleton(HUMAN.names, HUMAN.parents, HUMAN.offsets * factors[:, None], HUMAN.tips)
    posed = Motion(body, 30.0, body.offsets[None, 0], SO3.exp(turns)[None]).joint_positions()[0]
    offsets = posed.copy()
    offsets[1:] -= posed[body.parents[1:]]
    return Skeleton(tuple(f"b{j}" for j in range(22)), body.parents, offsets, body.tips)


def test_random_people_are_human_and_random_beasts_are_not():
    rng = np.random.default_rng(11)
    people = [assess_anatomy(random_person(rng)) for _ in range(300)]
    assert np.mean([p.is_human and p.pelvis == 0 for p in people]) > 0.98
    beasts = [assess_anatomy(random_beast(rng)) for _ in range(300)]
    assert np.mean([b.is_human for b in beasts]) < 0.02


def split_hips(motion: Motion) -> Motion:
    """Replace each hip by three hinges in a row, which turn as the hip's Euler angles do, as in a robot."""
    skeleton, names, parents, offsets = motion.skeleton, [], [], []
    columns: list[np.ndarray] = []
    place: dict[int, int] = {}
    for j, name in enumerate(skeleton.names):
        above = place.get(int(skeleton.parents[j]), -1)
        parts = (("", 0), (" roll", 2), (" yaw", 1)) if name.endswith("hip") else (("", -1),)
        for number, (part, axis) in enumerate(parts):
            names.append(name + part)
            parents.append(above)
            offsets.append(skeleton.offsets[j] if number == 0 else np.array([0.0, -0.01, 0.0]))
            angles = motion.rotations[:, j].log()
            turn = motion.rotations[:, j] if axis < 0 else SO3.exp(angles[:, axis, None] * np.eye(3)[axis])
            columns.append(turn.wxyz)
            above = len(names) - 1
        place[j] = above
    body = Skeleton(tuple(names), np.array(parents), np.array(offsets))
    return Motion(body, motion.rate_hz, motion.root_positions, SO3(np.stack(columns, axis=1)))


def test_a_robot_whose_hips_are_hinges_in_a_row_is_no_human():
    robot = split_hips(walk())
    assert assess_anatomy(robot.skeleton).is_human  # the rest pose alone cannot tell
    found = assess_motion(robot)
    assert not found.is_human and "three hinges in series" in str(found)
    with pytest.raises(InputError, match="robot"):
        require_human(robot.skeleton, "retargeting")
    assert assess_motion(walk()).is_human


@pytest.mark.real
def test_the_robot_of_kimodo_is_told_from_people(real):
    files = sorted((real / "kimodo-npz").glob("*__motion.npz"))
    assert files
    for file in files:
        assert assess_motion(load(file)).is_human == ("g1" not in file.name), file.name


def test_limbs_whose_chains_are_interrupted_are_joined_by_how_they_move():
    clip = walk()
    skeleton = clip.skeleton
    positions, frames = joint_frames(skeleton, clip.root_positions, clip.rotations.wxyz)
    parents = skeleton.parents.copy()
    for part in ("knee", "ankle", "shoulder", "elbow", "wrist"):
        parents[[skeleton.index(f"{side}_{part}") for side in ("left", "right")]] = 0
    posed = localise_frames(frames, positions, parents)
    rest = skeleton.rest_positions()
    offsets = np.concatenate([rest[:1], rest[1:] - rest[parents[1:]]])
    bones = np.concatenate([clip.root_positions[:, None], posed.bones[:, 1:]], axis=1)
    loose = Motion(
        Skeleton(skeleton.names, parents, offsets, skeleton.tips),
        clip.rate_hz,
        clip.root_positions,
        posed.rotations,
        translations=bones,
        source=Source("rigify.glb", "gltf"),
    )
    assert not assess_motion(loose).is_human
    joined = find_person(loose)
    assert assess_motion(joined).is_human and joined.translations is None
    order = [joined.skeleton.index(name) for name in skeleton.names]
    np.testing.assert_allclose(joined.joint_positions()[:, order], clip.joint_positions(), atol=1e-9)
    assert any("interrupted" in note for note in joined.load_report.notes)

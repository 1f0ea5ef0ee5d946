"""Names of the 22 canonical joints in the skeletons people actually have, and what a joint name says: side and part."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

SIDES: Final = ("left", "right")
_NAMESPACE: Final = re.compile(r"^(.*[:|]|mixamorig\d*_?|character\d*_|[mf]_avg_|bip0?0?1?[ _]|bip$)", re.IGNORECASE)


def plain_name(name: str) -> str:
    """Return a joint name in lower case, without a namespace: ``mixamorig:LeftArm`` is ``leftarm``."""
    short = _NAMESPACE.sub("", name.strip())
    return (short or name).lower()


@dataclass(frozen=True, slots=True)
class NamingProfile:
    """One naming convention. In ``sided`` names, ``{side}`` is replaced by the word of the side."""

    name: str
    words: tuple[str, str]  # how it writes left and right
    middle: Mapping[str, str]  # role -> joint
    sided: Mapping[str, str]  # role without its side -> joint
    optional: tuple[str, ...] = ()  # roles that members of the family may lack
    also: tuple[str, ...] = ()  # further joints that distinguish this family from similar ones
    notes: tuple[str, ...] = ()

    def joints(self) -> dict[str, str]:
        """Return the joint of every role, as a plain name."""
        table = {role: joint.lower() for role, joint in self.middle.items()}
        for side, word in zip(SIDES, self.words, strict=True):
            table |= {f"{side}_{role}": joint.format(side=word).lower() for role, joint in self.sided.items()}
        return table

    def fits(self, plain_names: Iterable[str]) -> bool:
        """Tell whether every joint of the profile that is not optional is there."""
        have = set(plain_names)
        needed = {
            joint
            for role, joint in self.joints().items()
            if role.removeprefix("left_").removeprefix("right_") not in self.optional
        }
        return needed <= have and set(self.also) <= have


_MOCAP_LIMBS: Final = {
    "hip": "{side}UpLeg",
    "knee": "{side}Leg",
    "ankle": "{side}Foot",
    "collar": "{side}Shoulder",
    "shoulder": "{side}Arm",
    "elbow": "{side}ForeArm",
    "wrist": "{side}Hand",
}
_SMPL_LIMBS: Final = {
    part: "{side}_" + part for part in ("hip", "knee", "ankle", "foot", "collar", "shoulder", "elbow", "wrist")
}
_SMPL_MIDDLE: Final = {part: part for part in ("pelvis", "spine1", "spine2", "spine3", "neck", "head")}
_THREE_SPINES: Final = {"pelvis": "Hips", "spine1": "Spine", "spine2": "Spine1", "spine3": "Spine2"}

PROFILES: Final = (
    NamingProfile("smpl", SIDES, _SMPL_MIDDLE, _SMPL_LIMBS),
    NamingProfile("smpl", ("l", "r"), _SMPL_MIDDLE, _SMPL_LIMBS),
    NamingProfile(
        "cmu-bvh",
        SIDES,
        {
            "pelvis": "Hips",
            "spine1": "LowerBack",
            "spine2": "Spine",
            "spine3": "Spine1",
            "neck": "Neck",
            "head": "Head",
        },
        {**_MOCAP_LIMBS, "foot": "{side}ToeBase"},
        also=("lhipjoint", "rhipjoint", "neck1"),
        notes=("the thorax and wrist bones of this conversion have no length, so neck, arms and hands sit too low",),
    ),
    NamingProfile(
        "cmu-asf",
        ("l", "r"),
        {
            "pelvis": "root",
            "spine1": "lowerback",
            "spine2": "upperback",
            "spine3": "thorax",
            "neck": "lowerneck",
            "head": "head",
        },
        {
            "hip": "{side}femur",
            "knee": "{side}tibia",
            "ankle": "{side}foot",
            "foot": "{side}toes",
            "collar": "{side}clavicle",
            "shoulder": "{side}humerus",
            "elbow": "{side}radius",
            "wrist": "{side}hand",
        },
        notes=("the wrist is the joint 'lhand' ('rhand'): 'lwrist' only twists the forearm, half-way along it",),
    ),
    NamingProfile(
        "lafan1", SIDES, {**_THREE_SPINES, "neck": "Neck", "head": "Head"}, {**_MOCAP_LIMBS, "foot": "{side}Toe"}
    ),
    NamingProfile(
        "mixamo", SIDES, {**_THREE_SPINES, "neck": "Neck", "head": "Head"}, {**_MOCAP_LIMBS, "foot": "{side}ToeBase"}
    ),
    NamingProfile(
        "deepmimic",
        SIDES,
        {"pelvis": "root", "spine3": "chest", "neck": "neck"},
        {part: "{side}_" + part for part in ("hip", "knee", "ankle", "shoulder", "elbow", "wrist")},
        optional=("wrist",),
    ),
    NamingProfile(
        "h-anim",
        ("l", "r"),
        {
            "pelvis": "sacroiliac",
            "spine1": "vl5",
            "spine2": "vt10",
            "spine3": "vt1",
            "neck": "vc7",
            "head": "skullbase",
        },
        {
            "hip": "{side}_hip",
            "knee": "{side}_knee",
            "ankle": "{side}_ankle",
            "foot": "{side}_midtarsal",
            "collar": "{side}_sternoclavicular",
            "shoulder": "{side}_shoulder",
            "elbow": "{side}_elbow",
            "wrist": "{side}_wrist",
        },
        optional=("pelvis", "spine1", "spine2", "spine3", "neck", "head", "foot", "collar", "ankle", "wrist"),
        also=("humanoidroot",),
    ),
)

# H-Anim names joints by level of articulation and by edition; the first that exists is taken
H_ANIM_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "pelvis": ("sacroiliac", "humanoidroot"),
    "spine1": ("vl5", "vl4", "vl3", "vl2", "vl1"),
    "spine2": ("vt10", "vt9", "vt8", "vt11", "vt7", "vt6", "vt12", "vl1", "vl2"),
    "spine3": ("vt1", "vt2", "vt3", "vt4", "vt5"),
    "neck": ("vc7", "vc6", "vc5", "vc4", "vc3", "vc2", "vc1"),
    "head": ("skullbase", "vc1"),
    "ankle": ("{side}_ankle", "{side}_talocrural"),
    "foot": ("{side}_metatarsal", "{side}_tarsometatarsal_2", "{side}_metatarsophalangeal_2", "{side}_midtarsal"),
    "collar": ("{side}_sternoclavicular", "{side}_acromioclavicular"),
    "wrist": ("{side}_wrist", "{side}_radiocarpal"),
}


_LEFT: Final = frozenset({"left", "l", "lft", "lf", "lt"})
_RIGHT: Final = frozenset({"right", "r", "rgt", "rt", "rght"})
_SEPARATOR: Final = re.compile(r"[:_ |.\-]")
MAX_PREFIX: Final = 64  # characters
MOST_NAMES: Final = 0.75  # [-] of the joints, that share a prefix: a scene's root and props have none
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Sides in other languages, which may stand anywhere in a name: German, French, Italian, Spanish, Portuguese, Russian,
# Japanese and Chinese
_FOREIGN_SIDES: Final = {
    "left": re.compile(r"link(s|e[rs]?)(?![a-z])|gauche|sinistr|izquierd|esquerd|лев|左", re.IGNORECASE),
    "right": re.compile(
        r"recht(s|e[rs]?)(?![a-z])|droite?(?![a-z])|(?<![a-z])destr|derech|direit|прав|右", re.IGNORECASE
    ),
}

# joints that are not limbs: helpers, fingers, face
_IGNORED: Final = frozenset((
    "twist", "roll", "helper", "aux", "adjust", "corrective", "ik", "fk", "pole", "target", "effector", "eff", "holder",
    "thumb", "index", "middle", "ring", "pinky", "pinkie", "little", "finger", "fingers", "metacarpal", "heel",
    "eye", "eyes", "jaw", "brow", "eyebrow", "lip", "ear", "ears", "nose", "tongue", "hair", "breast", "bust",
    "end", "site", "nub", "tip", "prop", "weapon", "tail", "skirt", "backpack", "camera", "cape", "coat",
    "control", "ctrl",
))  # fmt: skip
_TWISTS: Final = ("twist", "roll")  # also as the end of a word: "upperarmtwist1", "leftarmroll"
_HELPERS: Final = frozenset({"ik", "pole", "target", "effector", "eff", "helper", "ctrl", "control", "camera"})

# words of each part; several habits of the same thing
PART_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "collar": ("collar", "clavicle", "scapula", "clav", "sternoclavicular", "shoulderblade", "acromioclavicular"),
    "elbow": ("forearm", "lowerarm", "lowarm", "elbow", "radius", "ulna", "armlower", "loarm", "farm"),
    "shoulder": ("upperarm", "uparm", "humerus", "shoulder", "shldr", "armupper", "arm", "bicep", "uarm",
                 "glenohumeral"),
    "wrist": ("wrist", "hand", "palm", "carpus", "radiocarpal"),
    "foot": ("toebase", "toes", "toe", "ball", "metatarsal", "midtarsal", "forefoot", "midfoot", "metatarsals"),
    "ankle": ("ankle", "talus", "talocrural", "foot", "feet"),
    "knee": ("lowerleg", "lowleg", "leglower", "loleg", "shin", "calf", "knee", "tibia", "shank", "crus", "leg"),
    "hip": ("upleg", "upperleg", "thigh", "femur", "hipjoint", "buttock", "hip", "legupper"),
    "head": ("head", "skull", "skullbase", "cranium"),
    "neck": ("neck", "cervical"),
    "spine": (
        "spine", "spineupper", "lowerback", "upperback", "back", "lumbar", "thoracic", "chest", "upperchest", "thorax",
        "torso", "trunk", "body", "abdomen", "stomach", "belly", "waist", "midriff", "ribcage", "ribs", "sternum",
    ),
    "pelvis": ("hips", "pelvis", "hip", "centerhip", "hipcenter", "root", "cog", "sacroiliac", "sacrum"),
}  # fmt: skip
_SIDED_PARTS: Final = ("collar", "elbow", "shoulder", "wrist", "foot", "ankle", "knee", "hip")
_MIDDLE_PARTS: Final = ("head", "neck", "spine", "pelvis")


@lru_cache(maxsize=4096)
def parse_joint_name(name: str, prefix: str = "") -> tuple[str, str]:
    """Return the side (``"left"``, ``"right"`` or ``""``) and the part (``""`` if unknown) of a joint name."""
    bare = name[len(prefix) :] if name.startswith(prefix) else name
    tail = bare[len(bare) - len(plain_name(bare)) :]
    words = [word.lower() for word in _WORD.findall(tail)]
    # "lfemur", "rhip", "LFArm": the first letter is the side of a known part
    for text in (_SEPARATOR.split(tail)[-1], tail):
        whole = "".join(c for c in text.lower() if c.isalpha())
        if whole[:1] in ("l", "r"):
            part = next((part for part in _SIDED_PARTS if whole[1:] in PART_WORDS[part]), "")
            if part:
                return ("left" if whole[0] == "l" else "right"), part
    side, rest = _find_side(words)
    if not side:
        side = next((side for side, pattern in _FOREIGN_SIDES.items() if pattern.search(tail)), "")
    if any(word in _IGNORED or word.endswith(_TWISTS) for word in words):
        return side, ""
    # The part whose word is the whole text, else the one with the longest word in it
    text = "".join(word for word in rest if not word.isdigit())
    parts = _SIDED_PARTS if side else _MIDDLE_PARTS
    part = next((part for part in parts if text in PART_WORDS[part]), "")
    if not part:
        inside = [(len(word), part) for part in parts for word in PART_WORDS[part] if len(word) > 2 and word in text]
        part = max(inside, default=(0, ""), key=lambda pair: pair[0])[1]
    return side, part


@lru_cache(maxsize=4096)  # the search for limbs asks for one joint again and again
def is_twist(name: str) -> bool:
    """Tell whether a name is that of a joint that only shares the twist of a long bone."""
    return any(word.lower().endswith(_TWISTS) for word in _WORD.findall(name))


def is_helper(name: str) -> bool:
    """Tell whether a name is that of a control or a target of inverse kinematics: no part of a body."""
    return any(word.lower() in _HELPERS for word in _WORD.findall(name))


@lru_cache(maxsize=256)
def common_prefix(names: tuple[str, ...]) -> str:
    """Return what most names begin with, up to a separator: ``"Bob_"`` of ``Bob_Hips``, ``Bob_Head``, ``Root``."""
    if len(names) < 3:
        return ""
    counts = Counter(name[: match.end()] for name in names for match in _SEPARATOR.finditer(name[:MAX_PREFIX]))
    shared = [prefix for prefix, count in counts.items() if count >= MOST_NAMES * len(names)]
    return max(shared, key=len, default="")


def _find_side(words: list[str]) -> tuple[str, list[str]]:
    for i, word in enumerate(words):
        side = "left" if word in _LEFT else "right" if word in _RIGHT else ""
        if side:
            return side, words[:i] + words[i + 1 :]
    if words:
        for side in SIDES:
            if words[0].startswith(side) and len(words[0]) > len(side):
                return side, [words[0][len(side) :], *words[1:]]
            if words[-1].endswith(side) and len(words[-1]) > len(side):
                return side, [*words[:-1], words[-1][: -len(side)]]
    return "", words

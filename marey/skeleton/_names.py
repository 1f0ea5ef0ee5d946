"""What a joint name says: its side and the part of the body."""

from __future__ import annotations

import re
from typing import Final

from marey.skeleton._profiles import plain_name

_LEFT: Final = frozenset({"left", "l", "lft", "lf", "lt"})
_RIGHT: Final = frozenset({"right", "r", "rgt", "rt", "rght"})
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

# what is no limb of its own: helpers, fingers, face
_IGNORED: Final = frozenset((
    "twist", "roll", "helper", "aux", "adjust", "corrective", "ik", "fk", "pole", "target", "effector", "eff", "holder",
    "thumb", "index", "middle", "ring", "pinky", "pinkie", "little", "finger", "fingers", "metacarpal", "heel",
    "eye", "eyes", "jaw", "brow", "eyebrow", "lip", "ear", "ears", "nose", "tongue", "hair", "breast", "bust",
    "end", "site", "nub", "tip", "prop", "weapon", "tail", "skirt",
))  # fmt: skip

# words of each part; several habits of the same thing
PART_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "collar": ("collar", "clavicle", "scapula", "clav", "sternoclavicular", "shoulderblade", "acromioclavicular"),
    "elbow": ("forearm", "lowerarm", "lowarm", "elbow", "radius", "ulna", "armlower", "loarm"),
    "shoulder": ("upperarm", "uparm", "humerus", "shoulder", "shldr", "armupper", "arm", "bicep", "glenohumeral"),
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


def parse_joint_name(name: str, prefix: str = "") -> tuple[str, str]:
    """Return the side (``"left"``, ``"right"`` or ``""``) and the part (``""`` if unknown) that a name tells."""
    bare = name[len(prefix) :] if name.startswith(prefix) else name
    tail = bare[len(bare) - len(plain_name(bare)) :]
    words = [word.lower() for word in _WORD.findall(tail)]
    if any(word in _IGNORED for word in words):
        return _find_side(words)[0], ""
    side, rest = _find_side(words)
    text = "".join(word for word in rest if not word.isdigit())
    part = _find_part(text, _SIDED_PARTS if side else _MIDDLE_PARTS)
    if not side and not part and text[:1] in ("l", "r"):  # "lfemur", "rhip"
        part = _match_part(text[1:], _SIDED_PARTS)
        side = ("left" if text[0] == "l" else "right") if part else ""
    return side, part


def common_prefix(names: tuple[str, ...]) -> str:
    """Return what all names begin with, up to a separator: ``"Bob_"`` of ``Bob_Hips``, ``Bob_Head``."""
    if len(names) < 3:
        return ""
    first, last = min(names), max(names)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    cut = max((first.rfind(mark, 0, same) for mark in ":_ |.-"), default=-1)
    return first[: cut + 1]


def _find_side(words: list[str]) -> tuple[str, list[str]]:
    for i, word in enumerate(words):
        side = "left" if word in _LEFT else "right" if word in _RIGHT else ""
        if side:
            return side, words[:i] + words[i + 1 :]
    if words:
        for side in ("left", "right"):
            if words[0].startswith(side) and len(words[0]) > len(side):
                return side, [words[0][len(side) :], *words[1:]]
            if words[-1].endswith(side) and len(words[-1]) > len(side):
                return side, [*words[:-1], words[-1][: -len(side)]]
    return "", words


def _match_part(text: str, parts: tuple[str, ...]) -> str:
    return next((part for part in parts if text in PART_WORDS[part]), "")


def _find_part(text: str, parts: tuple[str, ...]) -> str:
    exact = _match_part(text, parts)
    if exact:
        return exact
    inside = [(len(word), part) for part in parts for word in PART_WORDS[part] if len(word) > 2 and word in text]
    return max(inside, default=(0, ""), key=lambda pair: pair[0])[1]

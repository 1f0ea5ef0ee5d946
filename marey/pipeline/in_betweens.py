"""From key poses in a file or a clip to a motion through them: as people move, with the feet that are said to stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from marey.base import FloatArray, FormatError, InputError, MareyError, Result, parse_toml, read_records, read_toml_text
from marey.base.toml import TomlLocation, as_number, check_keys
from marey.contacts import BrokenPlant, detect_contacts, hold_feet
from marey.io import load
from marey.kinematics import InBetweens, fill_in_betweens, posing_limits
from marey.lie import SO3
from marey.measure import compare_frames
from marey.models import load_in_betweens
from marey.motion import Contacts, KeyFrames, Motion
from marey.pipeline.takes import TOLD_HOLD
from marey.skeleton import Pose, role_map

InBetweenMethod = Literal["people", "smooth", "straight"]
KEY_MISS_M: Final = 0.01  # a key counts as met within this,
HELD_MISS_M: Final = 0.1  # or within this where feet are held: contacts and keys contradict one another
SAME_PLANT_M: Final = 0.3  # a key this near a contact, while the foot is down, belongs to it
MAX_FRAMES: Final = 1_000_000
FEET: Final = ("left", "right")


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """Keys, frame rate and contacts of a motion that is to be made."""

    keys: KeyFrames
    rate_hz: float
    contacts: Contacts | None = None  # of every frame, where somebody said which feet stand


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BetweenResult(Result):
    """A motion through keys, and how far it keeps them, the contacts and the limits, measured on the motion."""

    motion: Motion
    method: str
    key_miss_m: float  # of the joint that is farthest from its key
    violation_rad: float  # of the joint farthest outside the limits; 0 without limits
    broken: tuple[BrokenPlant, ...]  # contacts that were asked for and are not kept
    remarks: tuple[str, ...]
    tolerance_m: float  # of keys
    against: dict[str, dict[str, float]]  # L2P, L2Q and NPSS against the source: of this motion, and of slerp

    @property
    def is_kept(self) -> bool:
        """Whether every key is met within its tolerance and every contact is kept."""
        return self.key_miss_m <= self.tolerance_m and not self.broken

    def to_json(self) -> dict[str, Any]:
        """Facts for a report."""
        return {
            "method": self.method,
            "num_frames": self.motion.num_frames,
            "duration_s": self.motion.duration_s,
            "key_miss_m": self.key_miss_m,
            "violation_rad": self.violation_rad,
            "broken": [str(plant) for plant in self.broken],
            "remarks": list(self.remarks),
            "against": self.against,
        }

    def __repr__(self) -> str:
        return f"BetweenResult({self.motion.num_frames} frames, keys within {1e3 * self.key_miss_m:.1f} mm)"


def take_keys(motion: Motion, times_s: list[float], *, rate_hz: float | None = None) -> KeyPlan:
    """Keys of a clip at times; the first becomes time zero.

    Raises:
        InputError: fewer than two keys, or a time outside the clip.
    """
    if not all(np.isfinite(times_s)):
        raise InputError("a time of a key that is not finite", "Give seconds")
    frames = sorted({round(time * motion.rate_hz) for time in times_s})
    if len(frames) < 2:
        raise InputError(f"{len(frames)} keys", "It takes two at different times")
    if frames[0] < 0 or frames[-1] >= motion.num_frames:
        raise InputError(
            f"a key at {(frames[0] if frames[0] < 0 else frames[-1]) / motion.rate_hz:.2f} s",
            f"The clip lasts {motion.duration_s:.2f} s",
        )
    poses = {(frame - frames[0]) / motion.rate_hz: motion[frame] for frame in frames}
    return KeyPlan(KeyFrames(motion.skeleton, poses), rate_hz or motion.rate_hz)


@dataclass(frozen=True, slots=True)
class _KeyRow:
    time_s: float
    pose: str  # FILE@SECONDS
    place: tuple[float, float] | None = None  # [m] of the pelvis on the ground, x and z
    turn_deg: float = 0.0  # about the vertical, after the pose


@dataclass(frozen=True, slots=True)
class _ContactRow:
    foot: str
    from_s: float
    to_s: float


def load_keys(path: str | Path) -> KeyPlan:
    """Read keys from a TOML file; clips that it names are looked for beside it first.

    .. code-block:: toml

        rate_hz = 60                 # of the motion; 30 by default
        [[key]]
        time_s = 0.0
        pose = "walk.bvh@1.2"        # the clip at 1.2 s
        place = [0.0, 0.5]           # of the pelvis on the ground [m]; as in the clip without it
        turn_deg = 90.0              # turned about the vertical
        [[contact]]                  # feet that stand, if that is known; then all of them
        foot = "left"
        from_s = 0.1
        to_s = 0.6

    Raises:
        FormatError: the file is no TOML or breaks this schema; the message names the line.
        MissingFileError: no such file, or no such clip.
    """
    data, place = parse_toml(read_toml_text(path, "keys"), str(path))
    check_keys(data, ("rate_hz", "key", "contact"), place)
    rate_hz = as_number(data.get("rate_hz", 30.0), "rate_hz", place)
    if not 0.0 < rate_hz <= 1000.0:
        place.fail(f"rate_hz is {rate_hz:g}", "Give a positive number of frames per second, up to 1000", "rate_hz")
    rows = read_records(data, "key", _KeyRow, place)
    keys: KeyFrames | None = None
    for number, row in enumerate(rows):
        pose = _read_pose(row, Path(path).parent, place.at("key", number))
        keys = keys or KeyFrames(pose.skeleton)
        if pose.skeleton.names != keys.skeleton.names:
            place.at("key", number).fail("this pose is of another skeleton", "Retarget its clip first", "pose")
        if not 0.0 <= row.time_s <= MAX_FRAMES / rate_hz or row.time_s in keys.poses:
            place.at("key", number).fail(
                f"a key at {row.time_s:g} s", "Times are not negative and differ from one another", "time_s"
            )
        keys = keys.with_key(row.time_s, Pose(keys.skeleton, pose.root_position, pose.rotations))
    if keys is None or len(keys.times) < 2:
        place.fail(f"{len(rows)} keys", "It takes two [[key]] at different times")
    spans = read_records(data, "contact", _ContactRow, place)
    count = int(np.floor(keys.times[-1] * rate_hz + 1e-9)) + 1
    active = np.zeros((count, 4), dtype=np.bool_)
    at = np.arange(count) / rate_hz
    for number, span in enumerate(spans):
        if span.foot not in FEET or not span.from_s < span.to_s:
            place.at("contact", number).fail(
                f"contact of '{span.foot}' from {span.from_s:g} to {span.to_s:g} s",
                "foot is left or right, and to_s comes after from_s",
            )
        first = 2 * FEET.index(span.foot)
        active[(at >= span.from_s) & (at <= span.to_s), first : first + 2] = True
    names = tuple(f"{foot}_{point}" for foot in FEET for point in ("heel", "toe"))
    return KeyPlan(keys, rate_hz, Contacts(names, active) if spans else None)


def _read_pose(row: _KeyRow, folder: Path, place: TomlLocation) -> Pose:
    """The pose that a key names, where and as it is placed."""
    file, _, instant = row.pose.rpartition("@")
    try:
        time_s = float(instant)
        clip = load(str(folder / file) if (folder / file).is_file() else file)
        frame = round(time_s * clip.rate_hz)
        if not 0 <= frame < clip.num_frames:
            raise InputError(f"pose '{row.pose}' is outside its clip", f"The clip lasts {clip.duration_s:.2f} s")
    except (ValueError, OverflowError) as error:
        if isinstance(error, MareyError):
            raise
        place.fail(f"pose '{row.pose}'", 'Write pose = "FILE@SECONDS", such as "walk.bvh@1.2"', "pose")
    pose = clip[frame]
    turn = SO3.exp(np.array([0.0, np.deg2rad(row.turn_deg), 0.0]))
    wxyz = pose.rotations.wxyz.copy()
    wxyz[0] = (turn @ pose.rotations[0]).wxyz
    root = pose.root_position.copy()
    if row.place is not None:
        root[[0, 2]] = row.place
    return Pose(pose.skeleton, root, SO3(wxyz))


def make_in_betweens(
    plan: KeyPlan,
    *,
    method: InBetweenMethod = "people",
    limits: bool = True,
    hold: bool = False,
    source: Motion | None = None,
) -> BetweenResult:
    """Make a motion through keys, hold the feet that are said to stand, and measure what it keeps.

    ``people`` moves as captured people did between such keys (:class:`~marey.models.InBetweenModel`), ``smooth`` by a
    cubic on the group, ``straight`` by slerp. A body without the joints of a human is moved smoothly, and that is
    said. A foot that is at one place in two neighbouring keys stands between them; with contacts, those feet stand that
    they name.

    Args:
        plan: keys, rate and contacts.
        method: how the body moves between keys.
        limits: keep joints inside anatomical limits, widened by the keys.
        hold: hold the feet wherever they stand in the result; keys may then be missed by up to 10 cm.
        source: a clip of the same length to compare with, beside slerp.

    Raises:
        InputError: too many frames, or a source of another length.
    """
    keys, rate_hz, remarks = plan.keys, plan.rate_hz, list[str]()
    if keys.times[-1] * rate_hz > MAX_FRAMES:
        raise InputError(f"{keys.times[-1] * rate_hz:.0f} frames", f"At most {MAX_FRAMES}; lower the rate")
    straight = keys.in_betweens(rate_hz)
    bounds = None
    if limits and method != "straight":
        poses = Motion(
            keys.skeleton,
            1.0,
            np.stack([pose.root_position for pose in keys.poses.values()]),
            SO3.stack([pose.rotations for pose in keys.poses.values()]),
        )
        try:
            bounds = posing_limits(keys.skeleton, clips=[poses])
        except InputError:
            remarks.append("this skeleton has no anatomical limits")
    is_told = plan.contacts is not None
    if method == "straight":
        filled = InBetweens(straight, np.zeros((straight.num_frames, 2), dtype=np.bool_), 0.0, 0.0)
    else:
        prior = load_in_betweens() if method == "people" else None
        try:
            filled = fill_in_betweens(
                keys, rate_hz, prior=prior, contacts=plan.contacts, limits=bounds, hold_feet=not is_told
            )
        except FormatError:
            raise
        except InputError as error:
            if prior is None:
                raise
            remarks.append(f"moved smoothly, not as people do: {error}")
            method = "smooth"
            filled = fill_in_betweens(keys, rate_hz, limits=bounds, hold_feet=not is_told)
    motion, broken = filled.motion, ()
    if plan.contacts is not None or hold:
        if plan.contacts is None:
            held = hold_feet(motion)
        else:
            # Heels and toes of feet that stand as told: those that the motion has down, or both where it has none
            told, seen = plan.contacts, detect_contacts(motion)
            active = told.active.copy()
            for foot in FEET:
                columns = [told.names.index(f"{foot}_{point}") for point in ("heel", "toe")]
                found = np.stack([seen.track(told.names[column]) for column in columns], axis=1)
                active[:, columns] &= found | ~found.any(axis=1, keepdims=True)
            held = hold_feet(motion, Contacts(told.names, active), TOLD_HOLD, edit=_stand_as_in_keys(plan, told))
        motion, broken = replace(held.motion, name="keys"), held.broken
    violation = 0.0 if bounds is None else float(bounds.violations(motion.rotations).max(initial=0.0))
    against = {}
    if source is not None:
        against = {"motion": compare_frames(motion, source), "slerp": compare_frames(straight, source)}
    miss_m, most_m = _measure_keys(motion, keys), HELD_MISS_M if hold or is_told else KEY_MISS_M
    return BetweenResult(motion, method, miss_m, violation, broken, tuple(remarks), most_m, against)


def _stand_as_in_keys(plan: KeyPlan, told: Contacts) -> Callable[[str, FloatArray, float], tuple[FloatArray, float]]:
    """Edit of contacts: a foot stands where it does in the key of its contact, if there is one."""
    roles, places = role_map(plan.keys.skeleton), dict[str, list[FloatArray]]()
    for foot in FEET:
        is_down = told.track(f"{foot}_heel") | told.track(f"{foot}_toe")
        for time_s, pose in plan.keys.poses.items():
            frame = min(round(time_s * plan.rate_hz), len(is_down) - 1)
            if is_down[frame] and f"{foot}_ankle" in roles:
                places.setdefault(foot, []).append(pose.joint_positions()[roles[f"{foot}_ankle"]])

    def stand(foot: str, ankle: FloatArray, heading_rad: float) -> tuple[FloatArray, float]:
        known = places.get(foot, [])
        away = [float(np.hypot(*(place - ankle)[[0, 2]])) for place in known]
        if away and min(away) < SAME_PLANT_M:
            nearest = known[int(np.argmin(away))]
            ankle = np.array([nearest[0], ankle[1], nearest[2]])
        return ankle, heading_rad

    return stand


def _measure_keys(motion: Motion, keys: KeyFrames) -> float:
    """Distance [m] of the joint farthest from its key; between two frames joints go straight."""
    at = np.clip(np.array(keys.times) * motion.rate_hz, 0.0, motion.num_frames - 1.0)
    before = np.floor(at + 1e-9).astype(int)
    after = np.minimum(before + 1, motion.num_frames - 1)
    share = np.clip(at - before, 0.0, 1.0)[:, None, None]
    places = motion.joint_positions()
    found = (1.0 - share) * places[before] + share * places[after]
    wanted = np.stack([pose.joint_positions() for pose in keys.poses.values()])
    return float(np.linalg.norm(found - wanted, axis=-1).max(initial=0.0))

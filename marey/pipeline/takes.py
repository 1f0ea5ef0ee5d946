"""Takes: layers over a motion, its edits, and strips of takes, as the plain data of a document or a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, InputError, MareyError, UnknownNameError
from marey.contacts import HoldSettings, hold_feet
from marey.motion import (
    Contacts,
    Layer,
    LayerKey,
    Motion,
    apply_layers,
    concatenate,
    find_runs,
    join_motions,
    mirror,
    resample,
)
from marey.skeleton import restored_roles

Tree = Mapping[str, Any]
PLANT_M: Final = 0.1  # [m] an ankle within this of a place stands there
FAR: Final = 1e3  # [m], [rad] or a share that nothing exceeds
# Contacts that a user set hold as they are told, wherever the foot is then and whatever it takes
TOLD_HOLD: Final = HoldSettings(
    tilt=FAR, touch_m=FAR, hold_m=FAR, trim_share=0.0, drift_m=FAR, roll_drift_m=FAR, break_share=FAR, toes_rad=FAR,
    toes_step_rad=FAR,
)  # fmt: skip


def read_layers(layers: Sequence[Tree]) -> tuple[Layer, ...]:
    """Layers of a document: ``{weight, mask, keys: [{time_s, joint, rotation | offset, slope}]}``.

    Raises:
        InputError: a key without time, joint or value.
    """
    found: list[Layer] = []
    for layer in layers:
        try:
            keys = tuple(
                LayerKey(
                    float(key["time_s"]), str(key["joint"]),
                    rotation=key.get("rotation"), offset=key.get("offset"),
                    slope={str(axis): float(slope) for axis, slope in key.get("slope", {}).items()},
                )
                for key in layer.get("keys", ())
            )  # fmt: skip
            found.append(Layer(keys, float(layer.get("weight", 1.0)), tuple(map(str, layer.get("mask", ())))))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, MareyError):
                raise
            fix = "A key has time_s, joint, rotation or offset, and perhaps slope"
            raise InputError(f"a layer is not readable: {type(error).__name__} {error}", fix) from error
    return tuple(found)


def write_layer(layer: Layer) -> dict[str, Any]:
    """A layer as :func:`read_layers` takes it."""
    keys = [
        {"time_s": key.time_s, "joint": key.joint}
        | ({} if key.rotation is None else {"rotation": key.rotation.tolist()})
        | ({} if key.offset is None else {"offset": key.offset.tolist()})
        | ({"slope": dict(key.slope)} if key.slope else {})
        for key in layer.keys
    ]
    return {"weight": layer.weight, "mask": list(layer.mask), "keys": keys}


def edit_motion(motion: Motion, layers: Sequence[Tree] = (), edits: Sequence[Tree] = ()) -> Motion:
    """Put layers over a motion, then make its edits, in order; neighbours of one kind are made together.

    Edits: ``{kind: "trim", start_s, stop_s}``, ``{kind: "contact", point, from_s: [a, b], to_s: [a, b]}`` (either may
    be missing: a contact that appears or goes), ``{kind: "plant", foot, from: [x, z], to: [x, z], turn_deg}`` (a foot
    stands elsewhere), ``{kind: "pin", point, time_s, place: [x, y, z]}``, ``{kind: "mirror"}``,
    ``{kind: "rate", rate_hz}``.

    Raises:
        InputError: an edit of no known kind, or whose values make no sense.
        ConvergenceError: pins that cannot be reached.
    """
    if layers:
        motion = apply_layers(motion, read_layers(layers))
    number = 0
    while number < len(edits):
        kind = str(edits[number].get("kind"))
        if kind not in EDITS:
            raise UnknownNameError("edit", kind, "a recipe", tuple(EDITS))
        stop = number + 1
        while stop < len(edits) and edits[stop].get("kind") == kind and kind in ("contact", "pin", "plant"):
            stop += 1
        try:
            motion = EDITS[kind](motion, edits[number:stop])
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, MareyError):
                raise
            raise InputError(
                f"a {kind} edit is not readable: {type(error).__name__} {error}", "Make it anew"
            ) from error
        number = stop
    return motion


def _trim(motion: Motion, edits: Sequence[Tree]) -> Motion:
    start, stop = (float(edits[0][name]) * motion.rate_hz for name in ("start_s", "stop_s"))
    first, last = max(round(start), 0), min(round(stop) + 1, motion.num_frames)
    if last - first < 2:
        raise InputError("a trim that leaves fewer than two frames", "Choose a longer stretch")
    return motion[first:last]


def edit_contacts(contacts: Contacts, rate_hz: float, edits: Sequence[Tree]) -> Contacts:
    """A contact track whose runs were moved, added or taken away.

    Raises:
        InputError: a run outside the clip, or one that ends before it begins.
        UnknownNameError: there is no such point.
    """
    active = contacts.active.copy()
    for edit in edits:
        point = str(edit["point"])
        if point not in contacts.names:
            raise UnknownNameError("contact point", point, "the clip", contacts.names)
        column = contacts.names.index(point)
        for name, value in (("from_s", False), ("to_s", True)):
            if edit.get(name) is None:
                continue
            start, stop = (round(float(time) * rate_hz) for time in edit[name])
            if not 0 <= start < stop or start >= len(active):
                raise InputError(f"a contact from {edit[name][0]:g} to {edit[name][1]:g} s", "Stay within the clip")
            # The whole run goes that was seen there, also where its ends have moved since by a few frames
            for first, last in find_runs(active[:, column], 0) if name == "from_s" else ():
                if 2 * (min(last, stop) - max(first, start)) >= last - first:
                    active[first:last, column] = False
            active[start:stop, column] = value
    return Contacts(contacts.names, active)


def _hold_contacts(motion: Motion, edits: Sequence[Tree]) -> Motion:
    # The contacts as they are seen: those that feet are held by; what the user moved is then taken as told
    seen = hold_feet(motion).motion.contacts
    assert seen is not None
    return hold_feet(motion, edit_contacts(seen, motion.rate_hz, edits), TOLD_HOLD).motion


def list_plants(motion: Motion) -> list[dict[str, Any]]:
    """Where feet stand: ``foot``, ``start_s``, ``stop_s``, ``place`` of its ankle ``(3,)`` [m] and ``heading_deg``."""
    found: list[dict[str, Any]] = []

    def note(foot: str, ankle: FloatArray, heading_rad: float) -> tuple[FloatArray, float]:
        found.append({"foot": foot, "place": ankle.tolist(), "heading_deg": float(np.degrees(heading_rad))})
        return ankle, heading_rad

    held = hold_feet(motion, edit=note).motion
    positions, roles = held.joint_positions(), restored_roles(held.skeleton)
    for plant in found:
        ankle = positions[:, roles.joints[f"{plant['foot']}_ankle"]]
        frames = np.flatnonzero(np.linalg.norm(ankle - plant["place"], axis=-1) < PLANT_M)
        ends = frames[[0, -1]] if frames.size else np.zeros(2)
        plant |= dict(zip(("start_s", "stop_s"), (ends / motion.rate_hz).tolist(), strict=True))
    return sorted(found, key=lambda plant: plant["start_s"])


def _move_plants(motion: Motion, edits: Sequence[Tree]) -> Motion:
    def move(foot: str, ankle: FloatArray, heading_rad: float) -> tuple[FloatArray, float]:
        for edit in edits:
            if str(edit["foot"]) == foot and np.hypot(*(ankle[[0, 2]] - edit["from"])) < PLANT_M:
                ankle = np.array([edit["to"][0], ankle[1], edit["to"][1]], dtype=np.float64)
                heading_rad += float(np.radians(edit.get("turn_deg", 0.0)))
        return ankle, heading_rad

    return hold_feet(motion, edit=move).motion


def _pin_points(motion: Motion, edits: Sequence[Tree]) -> Motion:
    from marey.spacetime import PointPin, edit_physically

    pins = [
        PointPin(str(edit["point"]), float(edit["time_s"]), np.array(edit["place"], dtype=np.float64)) for edit in edits
    ]
    return edit_physically(motion, pins, physics=all(bool(edit.get("physics", True)) for edit in edits)).motion


EDITS: Final[dict[str, Callable[[Motion, Sequence[Tree]], Motion]]] = {
    "trim": _trim,
    "contact": _hold_contacts,
    "plant": _move_plants,
    "pin": _pin_points,
    "mirror": lambda motion, _: mirror(motion),
    "rate": lambda motion, edits: resample(motion, float(edits[0]["rate_hz"])),
}


def cut_strip(find: Callable[[str], Motion], strip: Tree) -> Motion:
    """The stretch of a take that a strip shows, as often as it is looped; each turn goes on from the last.

    ``find`` gives the motion of a take by its id.
    """
    motion = find(str(strip["take"]))
    first = max(0, round(float(strip.get("in_s", 0.0)) * motion.rate_hz))
    out = motion.duration_s if strip.get("out_s") is None else float(strip["out_s"])
    last = min(motion.num_frames, round(out * motion.rate_hz) + 1)
    if last - first < 2:
        raise InputError("a strip of fewer than two frames", "Pull its ends apart")
    part = motion[first:last]
    turns = float(strip.get("loop") or 1.0)
    count = round(turns * part.num_frames)
    return concatenate([part] * int(np.ceil(turns)), align=True)[:count] if turns > 1.0 else part


def fit_strip(find: Callable[[str], Motion], strip: Tree, whole: Motion) -> Motion:
    """The motion of a strip with the skeleton and the rate of the one that it goes on from."""
    part = cut_strip(find, strip)
    if part.skeleton.names != whole.skeleton.names:
        from marey.kinematics import retarget

        part = retarget(part, whole.skeleton)
    return resample(part, whole.rate_hz)


def play_strips(find: Callable[[str], Motion], strips: Sequence[Tree]) -> Motion:
    """The strips as they lie on the timeline: blended where they overlap, the last pose held where nothing lies."""
    first, *later = sorted(strips, key=lambda strip: float(strip["start_s"]))
    whole = cut_strip(find, first)
    whole = concatenate([*[whole[:1]] * round(max(0.0, first["start_s"]) * whole.rate_hz), whole])
    for strip in later:
        gap = round(float(strip["start_s"]) * whole.rate_hz) - whole.num_frames
        if gap > 0:
            whole = concatenate([whole, *[whole[-1:]] * gap])
        whole = join_motions(whole, fit_strip(find, strip, whole), max(0, -gap) / whole.rate_hz)
    return whole

r"""From a clip of a scene to a motion: the frames that keys lie on, the values between them, and the body.

Bones of other tools have rest frames of their own (a bone's own axis along it, say). We turn them into ours, aligned
with the world at rest: with the rest frame :math:`G_j` of a joint and its frame :math:`W_j` in the animation,

.. math:: R_{world,j} = W_j G_j^{-1}, \qquad R_j = R_{world,p(j)}^{-1} R_{world,j},

and bones are what joins the joints in world, so positions in world stay exactly what the file says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.io.conventions import METRES
from marey.io.scene.clip import Local, SceneClip, compose_transforms, rotation_part
from marey.lie import SO3
from marey.motion import Contacts, LoadReport, Motion, Source
from marey.skeleton import NO_PARENT, Skeleton

USUAL_HZ: Final = (24.0, 25.0, 30000 / 1001, 30.0, 48.0, 50.0, 60000 / 1001, 60.0, 72.0, 90.0, 100.0, 120.0, 240.0)
SLOWEST_HZ: Final = 12.0  # evenly spaced keys that are rarer than this are poses, not captured frames
FALLBACK_HZ: Final = 60.0
_OFF_GRID: Final = 0.02  # [frame] how far a key may lie from a frame
SNAP: Final = 1e-3  # [frame] a key this near to a frame is that frame: float32 times are not exact


def guess_rate(times: FloatArray, declared_hz: float | None = None) -> tuple[float, str]:
    """Frame rate [Hz] of rising key times [s], and a sentence on how it was found.

    Evenly spaced keys give their own rate, set to a usual one where it agrees to float32; else the file's own rate
    where keys lie on its frames; else the lowest usual rate on whose frames all keys lie; else the file's, or 60 Hz.
    """
    if len(times) < 2:
        rate = declared_hz or 30.0
        return rate, f"there is one key time only; {rate:g} Hz is assumed"
    steps = times - times[0]
    rate = (len(times) - 1) / steps[-1]
    if rate >= SLOWEST_HZ and _grid_error(steps, rate) < _OFF_GRID:
        return _nearest_usual_rate(rate), f"the keys are evenly spaced: {_nearest_usual_rate(rate):g} Hz"
    if declared_hz is not None and _grid_error(steps, declared_hz) < _OFF_GRID:
        return declared_hz, f"all keys lie on frames of the file's {declared_hz:g} Hz"
    for usual in USUAL_HZ:
        if _grid_error(steps, usual) < _OFF_GRID:
            return usual, f"all keys lie on frames of {usual:g} Hz, the rate used"
    rate = declared_hz or FALLBACK_HZ
    return rate, f"the keys lie on no usual frame rate; the motion is sampled at {rate:g} Hz"


def _grid_error(steps: FloatArray, rate: float) -> float:
    frames = steps * rate
    return float(np.abs(frames - np.round(frames)).max())


def _nearest_usual_rate(rate: float) -> float:
    whole = float(round(rate))
    near = min((*USUAL_HZ, whole), key=lambda usual: abs(usual - rate))
    return near if abs(near - rate) < 1e-4 * rate else float(rate)


def place_frames(
    times: FloatArray, asked_hz: float | None, notes: list[str], *, declared_hz: float | None = None
) -> tuple[float, float, int]:
    """Rate [Hz], time of the first frame [s] and number of frames of rising key times; decisions go to ``notes``.

    Args:
        times: of all keys [s].
        asked_hz: the rate that the user wants, else that of the keys.
        notes: of the load report.
        declared_hz: the rate that the file states.
    """
    rate, note = guess_rate(times, declared_hz)
    notes.append(note)
    rate = rate if asked_hz is None else float(asked_hz)
    first, last = float(times[0]), float(times[-1])
    if first != 0.0:
        notes.append(f"the animation starts at {first:g} s; the motion starts at 0")
    return rate, first, count_frames(first, last, rate)


def count_frames(first_s: float, last_s: float, rate_hz: float) -> int:
    """Return how many frames lie between two times, both included.

    Raises:
        InputError: the rate is no rate.
    """
    if not (np.isfinite(rate_hz) and rate_hz > 0.0):
        raise InputError(f"rate_hz is {rate_hz}", "It must be a positive number of frames per second")
    return int(min((last_s - first_s) * rate_hz + 1e-3, 1e12)) + 1


def block_times(start_s: float, rate_hz: float, block: slice) -> FloatArray:
    """Times [s] of the frames of a block."""
    return start_s + np.arange(int(block.start), int(block.stop)) / rate_hz


@dataclass(frozen=True, slots=True, eq=False)
class AnimationTrack:
    """Keys of one property of one node."""

    node: int
    path: str  # "translation", "rotation" (xyzw) or "scale"
    times: FloatArray  # (K,) [s] rising
    keys: FloatArray  # (K, C), or (K, 3, C) for CUBICSPLINE: in-tangent, value, out-tangent
    interpolation: str  # "LINEAR", "STEP" or "CUBICSPLINE"


def sample_track(track: AnimationTrack, times: FloatArray, rate_hz: float) -> FloatArray:
    """Values ``(F, C)`` of a track at ``times`` [s]; before the first key and after the last it stands still.

    As glTF 2.0 interpolates ([Khronos2021]_ appendix C).
    """
    keys = track.times
    snap = SNAP / rate_hz
    # Keys around each time and how far it is between them, in [0, 1]
    before = np.clip(np.searchsorted(keys, times + snap, side="right") - 1, 0, max(len(keys) - 2, 0))
    after = np.minimum(before + 1, len(keys) - 1)
    spans = np.where(after > before, keys[after] - keys[before], 1.0)
    elapsed = times - keys[before]
    elapsed = np.where(np.abs(elapsed) < snap, 0.0, np.where(np.abs(elapsed - spans) < snap, spans, elapsed))
    u = np.clip(elapsed / spans, 0.0, 1.0)
    if track.interpolation == "CUBICSPLINE":
        # Hermite: values, out-tangent of the key before, in-tangent of the key after
        t, d = u[:, None], spans[:, None]
        value = (2 * t**3 - 3 * t**2 + 1) * track.keys[before, 1] + (3 * t**2 - 2 * t**3) * track.keys[after, 1]
        leave, arrive = d * (t**3 - 2 * t**2 + t), d * (t**3 - t**2)
        values = value + leave * track.keys[before, 2] + arrive * track.keys[after, 0]
    elif track.interpolation == "STEP":
        values = track.keys[np.where(u >= 1.0, after, before)]
    elif track.path == "rotation":
        # \frac{\sin((1-u)\theta)}{\sin\theta}a + \frac{\sin(u\theta)}{\sin\theta}b along the shorter arc
        a, b, t = track.keys[before], track.keys[after], u[:, None]
        cosine = np.einsum("fc,fc->f", a, b)[:, None]
        b = np.where(cosine < 0.0, -b, b)
        angle = np.arccos(np.clip(np.abs(cosine), 0.0, 1.0))
        sine = np.sin(angle)
        near = sine < 1e-6  # [-] below this the chord and the arc agree to 1e-12
        safe = np.where(near, 1.0, sine)
        from_a = np.where(near, 1.0 - t, np.sin((1.0 - t) * angle) / safe)
        from_b = np.where(near, t, np.sin(t * angle) / safe)
        values = from_a * a + from_b * b
    else:
        values = track.keys[before] * (1.0 - u[:, None]) + track.keys[after] * u[:, None]
    return values


def sample_contacts(
    tracks: Mapping[str, Sequence[tuple[float, float]]], start_s: float, rate_hz: float, num_frames: int
) -> Contacts | None:
    """Contacts at frames, from ``(time [s], 0 or 1)`` keys that hold until the next; None where no track is one."""
    times = block_times(start_s, rate_hz, slice(0, num_frames)) + SNAP / rate_hz
    found: dict[str, FloatArray] = {}
    for name, keys in tracks.items():
        table: FloatArray = np.array(keys, dtype=np.float64).reshape(-1, 2)
        if len(table) and np.isin(table[:, 1], (0.0, 1.0)).all() and (np.diff(table[:, 0]) > 0.0).all():
            found[name] = table[np.maximum(np.searchsorted(table[:, 0], times, side="right") - 1, 0), 1]
    return Contacts(tuple(found), np.stack(list(found.values()), axis=1) > 0.5) if found else None


RIGID_TOL: Final = 2e-6  # [m] bones whose ends move less than this have one length: float32 noise
RIGID_SHARE: Final = 1e-6  # [-] ... or than this part of a larger body's extent
BLOCK: Final = 2048  # [frame] frames converted at a time, so that memory stays small


def build_motion(clip: SceneClip) -> Motion:
    """Sample a clip and turn it into a motion in metres, with +Y up and joint frames aligned with the world at rest."""
    place = {node: i for i, node in enumerate(clip.joints)}
    above = [int(clip.tree.parents[node]) if node != NO_PARENT else NO_PARENT for node in clip.joints]
    parents = [place.get(parent, 0) if i else NO_PARENT for i, parent in enumerate(above)]
    rest = place_at_rest(clip)
    positions, rotations, translations = _sample_clip(clip, parents, rest)
    # Joints need names of their own
    names: list[str] = []
    taken: set[str] = set()
    for joint in clip.joints:
        name = "root" if joint == NO_PARENT else clip.tree.names[joint] or f"node_{joint}"
        if name in taken:
            name = f"{name}_{joint}"
        names.append(name)
        taken.add(name)
    # Bones of one length give offsets; those that move keep their translations, and rest as the skin says
    metres = clip.metres_per_unit
    places = np.concatenate([position for _, position in rest])
    drift = np.abs(translations - translations[:1]).max() if translations.size else 0.0
    is_moving = bool(drift * metres > max(RIGID_TOL, RIGID_SHARE * metres * np.ptp(places, axis=0).max()))
    offsets = translations[0].copy()
    if is_moving:
        offsets = places - places[[max(parent, 0) for parent in parents]]
    offsets[0] = places[0]
    # Where a joint without joints below it carries one bare node, that node is where its bone ends: (J, 3)
    tips = np.zeros((len(clip.joints), 3))
    joints = set(clip.joints)
    for i, joint in enumerate(clip.joints):
        below = [] if joint == NO_PARENT else clip.tree.child_lists[joint]
        if len(below) == 1 and below[0] not in joints and clip.tree.is_bare(below[0]):
            tips[i] = rest[i][0][0] @ clip.tree.rest(below[0])[1][0]
    skeleton = Skeleton(tuple(names), np.array(parents), offsets * metres, tips * metres)
    notes = list(clip.notes)
    if is_moving:
        notes.append("bones change their length in the animation, so joint translations are kept frame by frame")
    return Motion(
        skeleton,
        clip.rate_hz,
        positions * metres,
        rotations,
        contacts=clip.contacts,
        translations=translations * metres if is_moving else None,
        source=Source(clip.path, clip.format, clip.unit, METRES.get(clip.unit, metres), clip.up),
        load_report=LoadReport(clip.warnings, notes),
        name=clip.name or "motion",
    )


def place_at_rest(clip: SceneClip) -> list[Local]:
    """World transform of each joint at rest: in the bind pose, else below its parent, else as its node stands."""
    worlds = clip.tree.rest_worlds(joint for joint in clip.joints if joint != NO_PARENT)
    rest: dict[int, Local] = {NO_PARENT: (np.eye(3)[None], np.zeros((1, 3)))}
    for joint in clip.joints:
        if joint == NO_PARENT:
            continue
        above = int(clip.tree.parents[joint])
        if joint in clip.binds:
            rest[joint] = clip.binds[joint]
        elif above in rest and above != NO_PARENT:
            rest[joint] = compose_transforms(rest[above], clip.tree.rest(joint))
        else:
            rest[joint] = worlds[joint]
    return [rest[joint] for joint in clip.joints]


def _sample_clip(clip: SceneClip, parents: list[int], rest: list[Local]) -> tuple[FloatArray, SO3, FloatArray]:
    """Root positions, local rotations and joint translations of every frame, block by block, in the file's unit."""
    count, frames = len(clip.joints), clip.num_frames
    positions, wxyz = np.empty((frames, 3)), np.empty((frames, count, 4))
    translations = np.zeros((frames, count, 3))
    undo_rest = rotation_part(np.concatenate([linear for linear, _ in rest])).inverse()
    above = np.array(parents[1:], dtype=np.int64)
    for first in range(0, frames, BLOCK):
        block = slice(first, min(first + BLOCK, frames))
        size = block.stop - block.start
        # World transforms of all joints, and of the nodes above them, parents first
        worlds: dict[int, Local] = {NO_PARENT: (np.tile(np.eye(3), (size, 1, 1)), np.zeros((size, 3)))}
        for joint in clip.joints:
            waiting = [joint]
            while waiting[-1] not in worlds:
                waiting.append(int(clip.tree.parents[waiting[-1]]))
            for node in waiting[-2::-1]:
                worlds[node] = compose_transforms(worlds[int(clip.tree.parents[node])], clip.sample(node, block))
        linear = np.stack([worlds[joint][0] for joint in clip.joints], axis=1)
        places = np.stack([worlds[joint][1] for joint in clip.joints], axis=1)
        # R_world,j = W_j G_j^-1, then relative to the parent
        turned = rotation_part(linear.reshape(-1, 3, 3)).reshape(-1, count) @ undo_rest
        to_parent = turned[:, above].inverse()
        positions[block], wxyz[block, 0] = places[:, 0], turned[:, 0].wxyz
        wxyz[block, 1:] = (to_parent @ turned[:, 1:]).wxyz
        translations[block, 1:] = to_parent @ (places[:, 1:] - places[:, above])
    return positions, SO3(wxyz), translations

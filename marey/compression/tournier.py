"""The codec of [Tournier2011]_ chapter 9: a pose space, thinned end-effector tracks, inverse kinematics to decode.

Tracks are thinned by a pyramid on rotations or on points (§9.2.2): every second sample is predicted from the others by
a cumulative Catmull-Rom spline. The codec drops the finest differences: every second, fourth, ... sample is left, and
the rest is filled in. A motion is edited in the same pose space by moving a joint (§9.3.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline

from marey.base import FloatArray, InputError, frozen
from marey.compression.decoder_ik import solve_coordinates
from marey.compression.file_format import (
    MAX_VALUES,
    FieldReader,
    FieldWriter,
    check_table_size,
    check_writable,
    format_error,
    read_clip,
    read_skeleton,
    write_clip,
    write_skeleton,
)
from marey.lie import SO3
from marey.models import PGA, GeodesicModel
from marey.motion import Contacts, Motion
from marey.skeleton import Skeleton, role_map

ALIASING_RAD: Final = np.pi / 2.0  # [rad] neighbours further apart than this may be filled in the wrong way round


def level_sizes(frames: int) -> tuple[int, ...]:
    r"""Samples of each level, finest first: :math:`s_0 = m`, :math:`s_{j+1} = \lceil s_j/2\rceil`, down to one.

    There are :math:`1 + \lceil\log_2 m\rceil` of them.
    """
    if frames < 1:
        raise InputError(f"a track of {frames} samples", "It needs at least one")
    sizes = [frames]
    while sizes[-1] > 1:
        sizes.append((sizes[-1] + 1) // 2)
    return tuple(sizes)


def upsample_rotations(kept: SO3, frames: int) -> SO3:
    """Track of ``frames`` rotations from the samples of a coarser level, all dropped details zero."""
    for size in _list_finer_sizes(kept.shape[0], frames):
        odd = predict_rotations(kept, size - kept.shape[0])
        kept = SO3(interleave(kept.wxyz, odd.wxyz))
    return kept


def upsample_points(kept: FloatArray, frames: int) -> FloatArray:
    """Track of ``frames`` points from the samples of a coarser level, all dropped details zero."""
    for size in _list_finer_sizes(len(kept), frames):
        kept = interleave(kept, predict_points(kept, size - len(kept)))
    return kept


def coarsest_safe_level(track: SO3) -> int:
    """How many of the finest levels may be dropped before neighbours are more than π/2 apart."""
    dropped = 0
    while track.shape[0] > 1:
        track = track[::2]
        if track.shape[0] > 1 and (track[:-1].inverse() @ track[1:]).angle().max() >= ALIASING_RAD:
            break
        dropped += 1
    return dropped


def _list_finer_sizes(kept: int, frames: int) -> tuple[int, ...]:
    sizes = level_sizes(frames)
    if kept not in sizes:
        raise InputError(f"{kept} samples are no level of a track of {frames}", f"The levels have {sizes}")
    return tuple(reversed(sizes[: sizes.index(kept)]))


def interleave(even: FloatArray, odd: FloatArray) -> FloatArray:
    """Samples of two tracks in turn."""
    track = np.empty((len(even) + len(odd), *even.shape[1:]))
    track[::2], track[1::2] = even, odd
    return track


def predict_rotations(q: SO3, count: int) -> SO3:
    r"""Rotations half-way after each of the first ``count`` samples.

    .. math:: q_i\,(q_{i-1}^{-1}q_i)^{1/16}\,(q_i^{-1}q_{i+1})^{1/2}\,(q_{i+1}^{-1}q_{i+2})^{-1/16}

    The cumulative Catmull-Rom spline at its middle. Beyond the ends the track is reflected in its end.
    """
    if q.shape[0] == 1:
        return SO3.concatenate([q] * count) if count else q[:0]
    # One sample more before the first, two more after the last: q_{-1} = q_0 q_1^{-1} q_0
    first, last, third = q[:1], q[-1:], q[max(-3, -q.shape[0])][None]
    tail = [last @ q[-2][None].inverse() @ last, last @ third.inverse() @ last]
    q = SO3.concatenate([first @ q[1:2].inverse() @ first, q, *tail])
    before, here, after, far = (q[i : i + count] for i in range(4))
    middle = (here.inverse() @ after).power(0.5)
    leave, arrive = (before.inverse() @ here).power(1.0 / 16.0), (after.inverse() @ far).power(-1.0 / 16.0)
    return here @ leave @ middle @ arrive


def predict_points(p: FloatArray, count: int) -> FloatArray:
    r"""Points half-way after each of the first ``count`` samples: :math:`(-p_{i-1}+9p_i+9p_{i+1}-p_{i+2})/16`."""
    if len(p) == 1:
        return np.repeat(p, count, axis=0)
    # Beyond the ends the track is reflected in its end
    tail = [2.0 * p[-1] - p[-2], 2.0 * p[-1] - p[max(-3, -len(p))]]
    p = np.concatenate([[2.0 * p[0] - p[1]], p, tail])
    before, here, after, far = (p[i : i + count] for i in range(4))
    return (9.0 * (here + after) - before - far) / 16.0


END_ROLES: Final = ("head", "left_wrist", "right_wrist", "left_ankle", "right_ankle")
MAX_COMPONENTS: Final = 4096
SPRING: Final = 2e-3  # [m^2] weight of the squared coordinates against squared distances; see `solve_coordinates`


@dataclass(frozen=True, slots=True, eq=False)
class TournierCode:
    """Encoded motion: a pose model and every 2^p-th sample of a few effector tracks."""

    model: GeodesicModel
    ends: tuple[int, ...]  # joints whose tracks are kept
    root_positions: FloatArray  # (s, 3) [m]
    root_rotations: SO3  # batch (s,)
    end_positions: FloatArray  # (s', E, 3) [m] in world
    frames: int
    rate_hz: float
    name: str
    spring: float
    contacts: Contacts | None = None

    def scalars(self) -> int:
        r"""Numbers that are kept, :math:`3n(k+1) + 6s + 3Es'`, with the root counted as a joint as the source does."""
        joints, count = self.model.skeleton.num_joints, self.model.num_components
        return 3 * joints * (count + 1) + 6 * len(self.root_positions) + self.end_positions.size

    def scalar_ratio(self) -> float:
        r"""Numbers of the motion, :math:`3m(n+1)`, over those kept: the ratio of the source's table 9.2."""
        return 3 * self.frames * (self.model.skeleton.num_joints + 1) / self.scalars()


def encode_tournier(
    motion: Motion,
    *,
    n_components: int | None = None,
    root_levels: int | None = None,
    end_levels: int | None = None,
    ends: tuple[str | int, ...] | None = None,
    spring: float = SPRING,
    max_error_m: float = 1e-2,
    aliasing: str = "refuse",
) -> TournierCode:
    """Encode as [Tournier2011]_ §9.2: fit the pose space, thin the tracks.

    Args:
        motion: the clip.
        n_components: geodesics; those that explain 99 % by default.
        root_levels: levels of the root's tracks that are kept, of ``1 + ceil(log2(m))``; as few as keep the track
            within ``max_error_m`` by default.
        end_levels: the same of the end effectors.
        ends: joints whose tracks are kept; head, hands and feet by default.
        spring: how strongly decoding holds the coordinates near zero.
        max_error_m: [m] of the tracks, where levels are chosen here. The poses in between may be off by more.
        aliasing: ``"allow"`` keeps the levels that were asked for even if the root then turns by more than a quarter
            between samples, as the source does with its breakdance and boxing clips.

    Raises:
        InputError: a clip too short for a pose space, or levels that would fill turns in the wrong way round.
    """
    check_writable(motion.num_frames, 3 * motion.skeleton.num_joints)
    fitted = PGA(n_components=n_components, explained=0.99).fit(motion)
    # Joints whose positions are kept: those asked for, else hands, feet and head, else the leaves of the tree
    skeleton = motion.skeleton
    if ends is not None:
        found = tuple(skeleton.index(e) if isinstance(e, str) else int(e) for e in ends)
        if not found or min(found) < 0 or max(found) >= skeleton.num_joints:
            raise InputError(f"end effectors {ends}", "Name some joints of the skeleton")
        joints = found
    else:
        roles = role_map(skeleton)
        known = tuple(roles[role] for role in END_ROLES if role in roles)
        leaves = tuple(j for j in range(skeleton.num_joints) if not len(skeleton.children(j)))
        joints = known if len(known) == len(END_ROLES) else leaves
    turns = motion.rotations[:, 0]
    tracks = motion.joint_positions()[:, list(joints)]
    root_drop = _count_dropped_levels(motion.root_positions[:, None], root_levels, max_error_m)
    end_drop = _count_dropped_levels(tracks, end_levels, max_error_m)
    if aliasing != "allow":
        # Neighbours of the kept turns may not be so far apart that they are filled in the wrong way round
        safe = coarsest_safe_level(turns)
        if root_levels is not None and root_drop > safe:
            levels = len(level_sizes(len(turns)))
            what = f"keeping {levels - root_drop} levels leaves the root's turns more than a quarter apart"
            raise InputError(what, f"Keep {levels - safe} at least")
        root_drop = min(root_drop, safe)
    # The model as the reader will have it
    centre = SO3.exp(_to_single(fitted.centre.log()))
    return TournierCode(
        _build_model(fitted.skeleton, centre, _to_single(fitted.basis), fitted.rate_hz),
        joints,
        _to_single(motion.root_positions[:: 1 << root_drop]),
        SO3(_to_single(turns.wxyz[:: 1 << root_drop])),
        _to_single(tracks[:: 1 << end_drop]),
        motion.num_frames,
        motion.rate_hz,
        motion.name,
        spring,
        motion.contacts,
    )


def decode_tournier(thinned: TournierCode) -> Motion:
    """Decode: fill the tracks in, then find the coordinates that reach the end effectors in every frame."""
    roots, turns, ends = upsample_tracks(thinned)
    local = turns[:, None].inverse() @ (ends - roots[:, None])
    coordinates = solve_coordinates(thinned.model, thinned.ends, local, thinned.spring)
    rate_hz, model = thinned.rate_hz, thinned.model
    decoded = model.decode(coordinates, root_positions=roots, root_rotations=turns, rate_hz=rate_hz)
    return Motion(decoded.skeleton, rate_hz, roots, decoded.rotations, thinned.contacts, name=thinned.name)


def upsample_tracks(thinned: TournierCode) -> tuple[FloatArray, SO3, FloatArray]:
    """Root positions ``(F, 3)``, root rotations ``(F,)`` and end effectors ``(F, E, 3)`` of every frame."""
    frames = thinned.frames
    return (
        upsample_points(thinned.root_positions, frames),
        upsample_rotations(thinned.root_rotations, frames),
        upsample_points(thinned.end_positions, frames),
    )


def write_tournier(thinned: TournierCode, motion: Motion, *, is_inside: bool) -> bytes:
    """Bytes of what is kept: float32, neither quantised further nor entropy-coded, as in the source."""
    out = FieldWriter()
    write_skeleton(out, motion.skeleton, is_inside=is_inside)
    write_clip(out, motion)
    out.real(thinned.spring)
    out.whole(thinned.model.num_components)
    out.ints(np.array(thinned.ends, dtype=np.int64))
    out.whole(len(thinned.root_positions))
    out.whole(len(thinned.end_positions))
    arrays = thinned.model
    for values in (arrays.centre.log(), arrays.basis, thinned.root_positions, thinned.root_rotations.log()):
        out.data += np.asarray(values, dtype="<f4").tobytes()
    out.data += thinned.end_positions.astype("<f4").tobytes()
    return bytes(out.data)


def read_tournier(fields: FieldReader, given: Skeleton | None) -> TournierCode:
    """Undo :func:`write_tournier`."""
    skeleton = read_skeleton(fields, given)
    frames, rate_hz, name, contacts = read_clip(fields)
    spring, count = fields.real(), fields.whole(MAX_COMPONENTS)
    ends = fields.ints()
    sizes = fields.whole(frames), fields.whole(frames)
    joints = skeleton.num_joints
    check_table_size(frames, 3 * joints, MAX_VALUES)  # long clips may well be in few bytes here
    is_wrong = not 1 <= len(ends) <= joints or ends.min() < 0 or ends.max() >= joints
    if is_wrong or set(sizes) - set(level_sizes(frames)) or not (np.isfinite(spring) and spring > 0.0):
        raise format_error("the tracks of the end effectors do not fit")
    # All in float32: the model, the root, the end effectors
    centre = fields.singles(3 * joints).reshape(-1, 3)
    basis = fields.singles(3 * joints * count).reshape(joints, 3, count)
    roots = fields.singles(3 * sizes[0]).reshape(-1, 3)
    turns = fields.singles(3 * sizes[0]).reshape(-1, 3)
    tracks = fields.singles(3 * len(ends) * sizes[1]).reshape(sizes[1], -1, 3)
    model = _build_model(skeleton, SO3.exp(centre), basis, rate_hz)
    fields.end()
    return TournierCode(
        model, tuple(int(e) for e in ends), roots, SO3.exp(turns), tracks, frames, rate_hz, name, spring, contacts
    )


def _build_model(skeleton: Skeleton, centre: SO3, basis: FloatArray, rate_hz: float) -> GeodesicModel:
    count = basis.shape[2]
    ones, shares = np.ones(count), np.full(count, 1.0 / max(count, 1))
    metric = np.ones(skeleton.num_joints)
    return GeodesicModel(skeleton, centre, basis, metric, shares, ones, np.zeros(3), rate_hz)


def _to_single(values: FloatArray) -> FloatArray:
    return np.asarray(values, dtype=np.float32).astype(np.float64)


def _count_dropped_levels(track: FloatArray, levels: int | None, max_error_m: float) -> int:
    """Number of finest levels to drop: as given, or as the error of the track ``(F, E, 3)`` allows."""
    sizes = level_sizes(len(track))
    if levels is not None:
        if not 1 <= levels <= len(sizes):
            raise InputError(f"{levels} levels of {len(sizes)}", f"Keep between 1 and {len(sizes)}")
        return len(sizes) - levels
    dropped = 0
    while dropped + 1 < len(sizes):
        filled = upsample_points(track[:: 2 << dropped], len(track))
        if np.linalg.norm(filled - track, axis=-1).max() > max_error_m:
            break
        dropped += 1
    return dropped


EDIT_SPRING: Final = 1e-6  # [m^2] holds the coordinates near those of the clip, well below a goal's pull
VARIANCE_SHARE: Final = 0.999  # of the variance of a clip, in the pose space that it is edited in
GOAL_WEIGHT: Final = 8  # a moved joint counts this many times among the targets


@dataclass(frozen=True, slots=True, eq=False)
class EditGoal:
    """What a joint is to do: an offset, a place at some times, or a trajectory.

    Between its times, which rise, the offset from the clip's own track is a cubic spline; before the first and after
    the last it fades to zero with the range. One time is a single handle.
    """

    joint: str | int
    times_s: FloatArray  # (N,) [s]
    values_m: FloatArray  # (N, 3) [m] in world
    is_offset: bool = False  # values are added to the clip's track; else they are places

    def __post_init__(self) -> None:
        times = frozen(np.atleast_1d(self.times_s), None, name="times_s")
        object.__setattr__(self, "times_s", times)
        object.__setattr__(self, "values_m", frozen(np.atleast_2d(self.values_m), len(times), 3, name="values_m"))
        if not len(times) or (np.diff(times) <= 0.0).any():
            raise InputError("the times of a goal do not rise", "Give each of them once, the earliest first")


def fade_window(count: int, first: int, last: int) -> FloatArray:
    r"""Weights ``(count,)`` that are one from ``first`` to ``last`` and fall to zero at both ends.

    Each ramp is :math:`s^4(35 - 84 s + 70 s^2 - 20 s^3)`: place, speed, acceleration and jerk join.
    """
    frames = np.arange(count, dtype=np.float64)
    rise = np.clip(frames / max(first, 1), 0.0, 1.0) if first > 0 else np.ones(count)
    fall = np.clip((count - 1 - frames) / max(count - 1 - last, 1), 0.0, 1.0) if last < count - 1 else np.ones(count)
    s = np.minimum(rise, fall)
    return s**4 * (35.0 - 84.0 * s + 70.0 * s**2 - 20.0 * s**3)


def edit_motion(
    motion: Motion,
    goals: str | int | EditGoal | Sequence[EditGoal],
    offset_world: ArrayLike | None = None,
    *,
    start: int,
    stop: int,
    model: GeodesicModel | None = None,
) -> Motion:
    r"""Move joints by handles, places or trajectories, and let the body follow in the clip's own pose space.

    [Tournier2011]_ §9.3.2. The root and the other end effectors are held where they are as well as the pose space
    allows. Frames outside ``start .. stop`` stay as they are, bit by bit. Inside, the clip's own poses are turned by
    what the pose space says has changed, so that detail that the space lacks stays and nothing jumps at the ends:

    .. math:: R_j \leftarrow R_j\, \hat R_j(x)^{-1}\, \hat R_j(x + \delta)

    Args:
        motion: the clip, captured or decompressed.
        goals: what joints are to do; or the name of one joint that is moved by ``offset_world`` in the middle.
        offset_world: ``(3,)`` [m], with a name.
        start: first frame that may change.
        stop: frame after the last.
        model: the pose space; fitted to the clip by default (99.9 % of the variance). One that is given is kept to:
            poses inside are poses of the model, without the detail that it lacks.

    Raises:
        InputError: the range is not in the clip, a goal's time is not in it, or a joint is the root.
    """
    if not 0 <= start < stop <= motion.num_frames:
        raise InputError(f"frames {start} to {stop} of {motion.num_frames}", "Give a range inside the clip")
    if isinstance(goals, str | int):
        middle = 0.5 * (start + stop - 1) / motion.rate_hz
        goals = EditGoal(goals, np.array([middle]), np.asarray(offset_world, dtype=np.float64)[None], is_offset=True)
    wanted = (goals,) if isinstance(goals, EditGoal) else tuple(goals)
    part, count = motion[start:stop], stop - start
    places_world = part.joint_positions()
    # Offset (count, 3) of each moved joint: a spline through what is asked for, faded out towards both ends
    offsets: dict[int, FloatArray] = {}
    for goal in wanted:
        joint = motion.skeleton.index(goal.joint) if isinstance(goal.joint, str) else int(goal.joint)
        if not 0 < joint < motion.skeleton.num_joints:
            raise InputError(f"joint {goal.joint} cannot be moved by a pose model", "Name a joint below the root")
        at = goal.times_s * motion.rate_hz - start
        if at[0] < 0.0 or at[-1] > count - 1:
            raise InputError(f"a goal of '{goal.joint}' lies outside frames {start} to {stop}", "Widen the range")
        frames, values = np.arange(count), np.array(goal.values_m)
        if not goal.is_offset:
            own = np.stack([np.interp(at, frames, places_world[:, joint, c]) for c in range(3)], axis=1)
            values = values - own
        inside = np.clip(frames, at[0], at[-1])
        track = CubicSpline(at, values)(inside) if len(at) > 1 else np.repeat(values, count, axis=0)
        window = fade_window(count, int(np.floor(at[0])), int(np.ceil(at[-1])))
        offsets[joint] = offsets.get(joint, np.zeros((count, 3))) + window[:, None] * track
    # Coordinates whose moved joints are displaced, the other end effectors where the model had them
    space = PGA(explained=VARIANCE_SHARE).fit(motion) if model is None else model
    before, turns, roots = space.encode(part), part.rotations[:, :1], part.root_positions
    posed = space.decode(before, root_positions=roots, root_rotations=turns[:, 0], skeleton=part.skeleton)
    roles = role_map(part.skeleton)
    held = [j for j in [roles[role] for role in END_ROLES if role in roles] if j not in offsets]
    places = turns.inverse() @ (posed.joint_positions() - roots[:, None])
    targets, ends = [places[:, held]], list(held)
    for joint, offset in offsets.items():
        goal_place = places[:, joint] + (turns[:, 0].inverse() @ offset)
        targets.append(np.repeat(goal_place[:, None], GOAL_WEIGHT, axis=1))
        ends += [joint] * GOAL_WEIGHT
    coordinates = solve_coordinates(space, tuple(ends), np.concatenate(targets, axis=1), EDIT_SPRING, before)
    changed = space.rotations(coordinates)
    if model is None:
        changed = part.rotations @ space.rotations(before).inverse() @ changed
    wxyz = np.array(motion.rotations.wxyz)
    wxyz[start:stop, 1:] = changed.wxyz[:, 1:]
    return Motion(
        motion.skeleton, motion.rate_hz, motion.root_positions, SO3(wxyz), motion.contacts, motion.translations,
        name=motion.name,
    )  # fmt: skip

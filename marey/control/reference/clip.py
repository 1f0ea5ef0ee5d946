"""Reference: what a clip asks of a simulated figure, step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, frozen, frozen_bools
from marey.contacts import detect_contacts, feet_down
from marey.control.reference.centre_of_mass import HORIZONTAL_AXES, solve_com_path
from marey.kinematics import solve_two_bone
from marey.lie import SO3
from marey.motion import Motion, find_runs, lowpass, resample
from marey.simulate import Mechanics, Simulator, contact_spheres
from marey.simulate.mechanism import make_mechanics
from marey.skeleton import Skeleton, role_map, t_pose

SIDES: Final = ("left", "right")
SMOOTHING_HZ: Final = 8.0  # faster components are noise of the capture
MIN_FRAMES: Final = 3  # an acceleration needs three
GROUNDING_ROUNDS: Final = 2  # of bringing a body down to its feet
SHORT_PERCENT: Final = 50.0  # of the heights of feet that do not reach the floor
LONGEST_LEG: Final = 0.998  # [-] of a leg: knees keep 7 degrees to balance with
BEND_RAD: Final = 0.1  # [rad] by which knees are bent before they are put back: more than captured ones bend backwards
REACH: Final = 0.985  # [-] of a leg that stands: a straight one can neither push nor follow
DROP_S: Final = 0.1  # [s] over which a body is lowered for it
CARRY_ROUNDS: Final = 3  # of moving a body onto a path that its soles can carry
LIFT_S: Final = 0.05  # [s] over which the lifts of feet are smoothed
CLEARANCE_M: Final = 0.015  # [m] of a swinging sole above the floor, in the middle of its swing
LEFT_M: Final = 0.015  # [m] a sole whose corners are all higher has left the ground
LOW_M: Final = 0.012  # [m] points of a clip that are lower touch the ground
FLICKER_S: Final = 0.08  # [s] shorter swings and stances are not steps
JUMP_RAD_S: Final = 60.0  # [rad/s] no joint of a person turns faster
BRIDGE_S: Final = 0.08  # [s] before and after a jump that are not trusted
FLOOR_PERCENT: Final = 50.0  # of the heights of the lowest corner of standing soles


_ARRAYS: Final = ("coordinates", "velocities", "com", "momenta", "rates", "corners", "soles", "sole_rates")


@dataclass(frozen=True, slots=True, eq=False)
class Soles:
    """Contact points of both feet: corners of the soles, fixed to the ankles, and toes."""

    joints: tuple[int, int]  # ankles, left and right
    corners: FloatArray  # (2, 4, 3) [m] heel left, heel right, ball left, ball right, in the ankle's frame
    toe_joints: tuple[int, int]
    toes: FloatArray  # (2, 3) [m] in the frames of their joints
    toe_radius_m: float

    def places(self, origins: FloatArray, frames: FloatArray) -> FloatArray:
        """Corners and toes ``(2, 5, 3)`` [m] in world, for joints at ``origins (J, 3)`` with ``frames (J, 3, 3)``."""
        ankles, toes = list(self.joints), list(self.toe_joints)
        found = np.empty((2, 5, 3))
        found[:, :4] = origins[ankles][:, None] + np.einsum("aij,acj->aci", frames[ankles], self.corners)
        found[:, 4] = origins[toes] + np.einsum("aij,aj->ai", frames[toes], self.toes)
        found[:, 4, 1] -= self.toe_radius_m
        return found


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reference:
    """A clip in the coordinates of a simulator, one frame for each step."""

    source: Motion  # the clip as it was given, at one frame a step, its floor at height zero
    motion: Motion  # as the simulator can pose it and its soles can carry it
    coordinates: FloatArray  # (F, k) of the pose model; empty in the full space
    velocities: FloatArray  # (F, d) that lead from each frame to the next
    com: FloatArray  # (F, 3) [m]
    momenta: FloatArray  # (F, 3) [kg m²/s] angular, about the centre of mass
    rates: FloatArray  # (F, J, 3) [rad/s] of the joints, each in its own frame
    corners: FloatArray  # (F, 2, 5, 3) [m] of the soles, and toes
    soles: FloatArray  # (F, 2, 3) [m] their middles
    sole_rates: FloatArray  # (F, 2, 3) [m/s]
    foot_turns: FloatArray  # (F, 2, 4) rotations of the ankles in world, as wxyz
    foot_rates: FloatArray  # (F, 2, 3) [rad/s] of the ankles in their own frames
    down: BoolArray  # (F, 2) feet on the ground, left and right
    bearing: BoolArray  # (F, 2, 5) corners low enough to be in contact

    def __post_init__(self) -> None:
        for name in (*_ARRAYS, "foot_turns", "foot_rates"):
            object.__setattr__(self, name, frozen(getattr(self, name), name=name))
        object.__setattr__(self, "down", frozen_bools(self.down, None, 2, name="down"))
        object.__setattr__(self, "bearing", frozen_bools(self.bearing, None, 2, 5, name="bearing"))

    def __len__(self) -> int:
        return len(self.com)

    @property
    def dt(self) -> float:
        """Length of a step [s]."""
        return 1.0 / self.motion.rate_hz


def find_soles(skeleton: Skeleton) -> Soles:
    """Corners of the soles of a skeleton.

    Raises:
        InputError: it lacks two feet.
    """
    spheres, names = contact_spheres(skeleton)
    wanted = [[f"{side}_{part}_{way}" for part in ("heel", "ball") for way in SIDES] for side in SIDES]
    if any(name not in names for foot in wanted for name in foot):
        raise InputError(f"'{skeleton.name}' lacks two feet to stand on", "Name its ankles; see marey.skeleton.ROLES")
    numbers = [[names.index(name) for name in foot] for foot in wanted]
    left, right = (int(spheres.joints[foot[0]]) for foot in numbers)
    toes = [names.index(f"{side}_toe") for side in SIDES]
    return Soles(
        (left, right),
        frozen(spheres.offsets[np.array(numbers)], 2, 4, 3, name="corners"),
        (int(spheres.joints[toes[0]]), int(spheres.joints[toes[1]])),
        frozen(spheres.offsets[np.array(toes)], 2, 3, name="toes"),
        float(spheres.radii[toes[0]]),
    )


def make_reference(motion: Motion, simulator: Simulator, dt: float) -> Reference:
    r"""Pose a clip in a simulator's coordinates, one frame every ``dt`` [s], its floor at height zero.

    Velocities are those that lead from frame to frame, as the integrator moves: :math:`g_{i+1} = g_i\exp(h v_i)`.

    Raises:
        InputError: the clip has other joints than the body, or fewer than three frames.
    """
    if motion.skeleton.names != simulator.body.skeleton.names:
        raise InputError("the clip has other joints than the body", "Retarget it, or give no body")
    if motion.duration_s < MIN_FRAMES * dt:
        raise InputError(f"a clip of {motion.duration_s:.3g} s", f"Give one of at least {MIN_FRAMES * dt:.3g} s")
    clip = prepare_clip(motion, 1.0 / dt)
    assert clip.contacts is not None
    given = motion if motion.rate_hz == clip.rate_hz else resample(motion, clip.rate_hz)
    given = Motion(simulator.body.skeleton, given.rate_hz, given.root_positions, given.rotations, name=motion.name)
    source = shift_to_floor(given, find_soles(given.skeleton), feet_down(clip.contacts)[: len(given)])
    # Move the body, between feet that stay, onto a path of the centre of mass that the soles can carry
    for _ in range(CARRY_ROUNDS):
        reference = pose_clip(clip, source, simulator)
        weight = float(np.linalg.norm(simulator.gravity))
        path = solve_com_path(reference, simulator.body.mass_kg, weight)
        offsets = path.com - reference.com
        offsets[:, 1] -= find_drops(clip, reference.down)
        clip = smooth_clip(move_body(clip, offsets))
    return pose_clip(clip, source, simulator)


def find_drops(motion: Motion, down: BoolArray) -> FloatArray:
    """How far ``(F,)`` [m] a body has to be lower, smoothly, for standing legs that are shorter than ``REACH``."""
    places, roles, drops = motion.joint_positions(), role_map(motion.skeleton), np.zeros(len(motion))
    for s, side in enumerate(SIDES):
        hip, knee, ankle = (places[:, roles[f"{side}_{part}"]] for part in ("hip", "knee", "ankle"))
        longest = REACH * (np.linalg.norm(hip - knee, axis=1) + np.linalg.norm(knee - ankle, axis=1))
        away = np.linalg.norm((hip - ankle)[:, HORIZONTAL_AXES], axis=1)
        excess = (hip - ankle)[:, 1] - np.sqrt(np.maximum(longest**2 - away**2, 0.0))
        drops = np.maximum(drops, np.where(down[:, s], excess, 0.0))
    # The largest nearby, then smooth
    width = max(2, round(DROP_S * motion.rate_hz))
    window = np.hanning(2 * width + 3)[1:-1]
    padded = np.pad(drops, 2 * width, mode="edge")
    highest = np.max([padded[n : len(padded) - 2 * width + n] for n in range(2 * width + 1)], axis=0)
    return np.asarray(np.convolve(highest, window / window.sum(), mode="valid"), dtype=np.float64)


def move_body(motion: Motion, offsets: FloatArray) -> Motion:
    """Clip whose root is moved by ``offsets (F, 3)`` [m]; the feet stay where they are."""
    places, soles = motion.joint_positions(), find_soles(motion.skeleton)
    result = replace(motion, root_positions=motion.root_positions + offsets)
    for side, joint in zip(SIDES, soles.joints, strict=True):
        result = solve_two_bone(result, f"{side}_leg", places[:, joint], stretch=LONGEST_LEG).motion
    return result


def pose_clip(clip: Motion, source: Motion, simulator: Simulator) -> Reference:
    """Reference of a prepared clip; see :func:`make_reference`."""
    dt = 1.0 / clip.rate_hz
    assert clip.contacts is not None
    soles = find_soles(simulator.body.skeleton)
    # Feet as captured, not as modelled; one that touches with its toes alone, while the other stands, is being lifted
    feet, corners = clip.joint_frames()[1][:, list(soles.joints)], sole_positions(clip, soles)
    down, low = feet_down(clip.contacts), corners[:, :, :4, 1].min(axis=2) < LEFT_M
    down = remove_short_phases(down & (low | ~(down & low)[:, ::-1]), round(FLICKER_S / dt))
    # A walk has no flights: one foot stays until the other lands
    for start, stop in find_runs(np.asarray(~down.any(axis=1), dtype=np.bool_)):
        if start > 0 and stop < len(down) and (stop - start) * dt < FLICKER_S:
            down[start:stop] = down[start - 1]
    # Coordinates of the clip in the model, and the clip that they stand for
    model, skeleton = simulator.model, simulator.body.skeleton
    wxyz = np.array(clip.rotations.wxyz)
    coordinates = np.zeros((len(clip), 0))
    if model is not None:
        coordinates = model.encode(replace(clip, skeleton=model.skeleton, translations=None))
        wxyz[:, 1:] = model.rotations(coordinates).wxyz[:, 1:]
    posed = Motion(skeleton, clip.rate_hz, clip.root_positions, SO3(wxyz), name=clip.name)
    # Mechanics of each frame, the pelvis where the clip has it
    here: list[Mechanics] = []
    for root, turned, at in zip(posed.root_positions, posed.rotations.wxyz, coordinates, strict=True):
        first = make_mechanics(simulator.mechanism, root, turned, at)
        here.append(make_mechanics(simulator.mechanism, root + (root - first.joints[0]), turned, at))
    com = np.array([m.com for m in here])
    rates = _turn_rates(posed.rotations, dt)
    # v_i from g_{i+1} = g_i exp(h v_i); the last frame repeats the one before
    place = com if simulator.mechanism.is_com else posed.root_positions
    inner = _repeat_last(np.diff(coordinates, axis=0) / dt)
    if simulator.model is None:
        inner = rates[:, simulator.mechanism.joints].reshape(len(rates), -1)
    velocities = np.concatenate([rates[:, 0], _repeat_last(np.diff(place, axis=0) / dt), inner], axis=1)
    middles = corners[:, :, :4].mean(axis=2)
    return Reference(
        source=source,
        motion=posed,
        coordinates=coordinates,
        velocities=velocities,
        com=com,
        momenta=np.array([m.momentum_matrix()[:3] @ v for m, v in zip(here, velocities, strict=True)]),
        rates=rates,
        corners=corners,
        soles=middles,
        sole_rates=_repeat_last(np.diff(middles, axis=0) / dt),
        foot_turns=feet.wxyz,
        foot_rates=_turn_rates(feet, dt),
        down=down,
        bearing=bearing_points(corners, down),
    )


def remove_short_phases(down: BoolArray, least: int) -> BoolArray:
    """Flags ``(F, 2)`` without swings and stances of fewer than some frames, the shortest first; ends stay."""
    calm = np.array(down)
    for side in range(2):
        flags = calm[:, side]
        while True:
            inner = [run for kind in (flags, ~flags) for run in find_runs(kind) if run[0] > 0 and run[1] < len(flags)]
            start, stop = min(inner, key=lambda run: run[1] - run[0], default=(0, least))
            if stop - start >= least:
                break
            flags[start:stop] = ~flags[start:stop]
    return calm


def bearing_points(corners: FloatArray, down: BoolArray) -> BoolArray:
    """Points ``(F, 2, 5)`` of feet that are down which are low enough; where none is, the lowest."""
    heights = np.where(down[..., None], corners[..., 1], np.inf)
    heights[..., 4] = np.where((heights[..., :4] < LOW_M).any(axis=-1), np.inf, heights[..., 4])  # toes come last
    lowest = heights.min(axis=(1, 2), keepdims=True)
    return heights < np.where(lowest < LOW_M, LOW_M, lowest + LOW_M)


def prepare_clip(motion: Motion, rate_hz: float) -> Motion:
    """Clip that a figure can stand on: smooth, at a rate, with contacts, standing feet on the floor at height zero."""
    clip = resample_clip(motion, rate_hz)
    contacts = detect_contacts(clip) if clip.contacts is None else clip.contacts
    down, soles = feet_down(contacts), find_soles(clip.skeleton)
    # Clip whose soles are level, in the mean, while heel and toe both touch: captures know feet to a few degrees
    turns, wxyz = clip.joint_frames()[1], np.array(clip.rotations.wxyz)
    for s, joint in enumerate(soles.joints):
        flat = contacts.track(f"{SIDES[s]}_heel") & contacts.track(f"{SIDES[s]}_toe")
        if not flat.any():
            continue
        heels, balls = soles.corners[s, :2], soles.corners[s, 2:]
        up = np.cross((balls - heels).sum(axis=0), (soles.corners[s, [0, 2]] - soles.corners[s, [1, 3]]).sum(axis=0))
        wanted = (turns[flat, joint].inverse() @ np.array([0.0, 1.0, 0.0])).mean(axis=0)
        turn = SO3.from_two_vectors(up / np.linalg.norm(up), wanted / np.linalg.norm(wanted))
        wxyz[:, joint] = (clip.rotations[:, joint] @ turn).wxyz
    clip = bend_knees(replace(clip, rotations=SO3(wxyz)))
    # Clip whose feet touch the floor with their lowest points while they are down, and only then
    result = shift_to_floor(clip, soles, down)
    for _ in range(GROUNDING_ROUNDS):
        result = _feet_on_floor(result, soles, down)
        high = sole_positions(result, soles)[..., 1].min(axis=-1)[down] if down.any() else np.zeros(1)
        drop = max(0.0, float(np.percentile(high, SHORT_PERCENT)))
        result = replace(result, root_positions=result.root_positions - (0.0, drop, 0.0))
    # Legs that come to their full length leave a kink
    return replace(smooth_clip(_feet_on_floor(result, soles, down)), contacts=contacts)


def bend_knees(motion: Motion) -> Motion:
    """Clip whose knees all bend the way they mostly do: a straight knee has no plane, a captured one flips it."""
    places, frames = motion.joint_frames()
    wxyz, roles, result = np.array(motion.rotations.wxyz), role_map(motion.skeleton), motion
    for side in SIDES:
        hip, knee, ankle = (roles[f"{side}_{part}"] for part in ("hip", "knee", "ankle"))
        # Mean axis of bending, in the frame of the thigh
        across = np.cross(places[:, knee] - places[:, hip], places[:, ankle] - places[:, knee])
        axis = (frames[:, int(motion.skeleton.parents[knee])].inverse() @ across).sum(axis=0)
        axis = axis / max(float(np.linalg.norm(axis)), 1e-9)
        wxyz[:, knee] = (SO3.exp(BEND_RAD * axis) @ motion.rotations[:, knee]).wxyz
    result = replace(motion, rotations=SO3(wxyz))
    for side in SIDES:
        ankle = roles[f"{side}_ankle"]
        result = solve_two_bone(
            result, f"{side}_leg", places[:, ankle], end_rotations=frames[:, ankle], stretch=LONGEST_LEG
        ).motion
    return result


def _feet_on_floor(motion: Motion, soles: Soles, down: BoolArray) -> Motion:
    lows: FloatArray = sole_positions(motion, soles)[..., 1].min(axis=-1)
    places, frames = motion.joint_positions(), np.arange(len(motion))
    result = motion
    for s, side in enumerate(SIDES):
        if not down[:, s].any():
            continue
        lifts = np.interp(frames, frames[down[:, s]], -lows[down[:, s], s])
        # A swing clears the floor, as far as it is not at its ends
        clear = np.zeros(len(motion))
        for start, stop in find_runs(~down[:, s]):
            clear[start:stop] = CLEARANCE_M * np.sin(np.pi * (np.arange(start, stop) - start + 0.5) / (stop - start))
        lifts = np.where(down[:, s], lifts, np.maximum(lifts, clear - lows[:, s]))
        width = max(2, round(LIFT_S * motion.rate_hz))
        window = np.hanning(2 * width + 3)[1:-1]
        smooth = np.convolve(np.pad(lifts, width, mode="edge"), window / window.sum(), mode="valid")
        ankles = places[:, soles.joints[s]] + smooth[:, None] * (0.0, 1.0, 0.0)
        result = solve_two_bone(result, f"{side}_leg", ankles, stretch=LONGEST_LEG).motion
    return result


def resample_clip(motion: Motion, rate_hz: float) -> Motion:
    """Smooth clip at a rate; contacts that it has are kept."""
    calm = smooth_clip(level_toes(bridge_jumps(motion)))
    return calm if calm.rate_hz == rate_hz else resample(calm, rate_hz)


def bridge_jumps(motion: Motion) -> Motion:
    """Clip without jumps of single joints, which captures have where a marker is lost: a short arc leads over each.

    At an end the pose beyond the jump is held.
    """
    wxyz, width = np.array(motion.rotations.wxyz), max(1, round(BRIDGE_S * motion.rate_hz))
    speeds = np.linalg.norm((motion.rotations[:-1].inverse() @ motion.rotations[1:]).log(), axis=-1) * motion.rate_hz
    for frame, joint in np.argwhere(speeds > JUMP_RAD_S).tolist():
        first, last = frame - width, frame + 1 + width
        if first < 0:
            wxyz[: frame + 1, joint] = wxyz[frame + 1, joint]
        elif last >= len(wxyz):
            wxyz[frame + 1 :, joint] = wxyz[frame, joint]
        else:
            parts = np.linspace(0.0, 1.0, 2 * width + 2)
            start = SO3(np.repeat(wxyz[first : first + 1, joint], len(parts), axis=0))
            wxyz[first : last + 1, joint] = start.slerp(SO3(wxyz[last, joint]), parts).wxyz
    return replace(motion, rotations=SO3(wxyz)) if (speeds > JUMP_RAD_S).any() else motion


def smooth_clip(motion: Motion) -> Motion:
    """Clip without what is faster than ``SMOOTHING_HZ``, if it has enough frames."""
    return lowpass(motion, SMOOTHING_HZ) if motion.rate_hz > 2.5 * SMOOTHING_HZ and len(motion) > 30 else motion


def level_toes(motion: Motion) -> Motion:
    """Clip whose toes never point below the sole: the angles of toes tremble in captures, and dig into the ground."""
    skeleton = motion.skeleton
    spheres, names = contact_spheres(skeleton)
    rest, wxyz = t_pose(skeleton).rotations, np.array(motion.rotations.wxyz)
    for side in SIDES:
        toe = int(spheres.joints[names.index(f"{side}_toe")]) if f"{side}_toe" in names else 0
        if toe and skeleton.parents[toe] in find_soles(skeleton).joints:
            offset = spheres.offsets[names.index(f"{side}_toe")]
            bent = motion.rotations[:, toe] @ offset - rest[toe] @ offset
            up = (t_pose(skeleton).joint_rotations()[int(skeleton.parents[toe])]).inverse() @ np.array([0.0, 1.0, 0.0])
            wxyz[bent @ up < 0.0, toe] = rest[toe].wxyz
    return replace(motion, rotations=SO3(wxyz))


def shift_to_floor(motion: Motion, soles: Soles, down: BoolArray) -> Motion:
    """Clip moved up or down so that the lowest corner of standing soles is at height zero, in the median."""
    lows = sole_positions(motion, soles)[..., 1].min(axis=-1)
    standing = lows[down] if down.any() else lows.min(axis=1)
    shift = np.array([0.0, float(np.percentile(standing, FLOOR_PERCENT)), 0.0])
    return replace(motion, root_positions=motion.root_positions - shift)


def sole_positions(motion: Motion, soles: Soles) -> FloatArray:
    """Corners and toes ``(F, 2, 5, 3)`` [m] in all frames of a clip."""
    origins, turns = motion.joint_frames()
    return np.array([soles.places(o, f) for o, f in zip(origins, turns.matrix(), strict=True)])


def _turn_rates(turns: SO3, dt: float) -> FloatArray:
    """Angular velocities in own frames from each frame to the next; the last is that of the one before."""
    return _repeat_last((turns[:-1].inverse() @ turns[1:]).log() / dt)


def _repeat_last(steps: FloatArray) -> FloatArray:
    """One row more: the last again."""
    return np.concatenate([steps, steps[-1:]])

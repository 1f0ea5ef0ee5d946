"""Simulators of one clip's figure: pose spaces and limits are learnt from the clip once."""

from __future__ import annotations

from math import ceil
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, MareyError
from marey.control import make_stand
from marey.dynamics import Body
from marey.kinematics import JointLimits
from marey.lie import SO3
from marey.models import PoseModel
from marey.motion import Motion
from marey.simulate import Ground, Simulator, contact_spheres
from marey.skeleton import Pose, role_map
from marey.studio._simulate_wish import FEET, RANGES, SimulationSettings

MAX_LEARNT_FRAMES: Final = 600  # frames: a pose space does not ask for more
LIMIT_ROOM_RAD: Final = 0.5  # round what the clip shows, so that a figure can fall and be pulled
LEARNT_STAND_S: Final = 4.0
LEAST_MODE: Final = 3e-3  # of the first mode: the clip says nothing about smaller ones
NEAR_M: Final = 0.15  # a figure that is higher is in the air, and is left there


class FigureFactory:
    """Makes simulators; what the clip teaches is kept."""

    def __init__(self, motion: Motion) -> None:
        self.motion = motion
        self.body = Body.from_motion(motion)
        self.clip = self.body.motion(motion)
        self._lesson = _thin_clip(self.clip)
        self._space: PoseModel | None = None
        self._limits: JointLimits | None = None

    def simulator(self, wish: SimulationSettings, ground: Ground) -> Simulator:
        """A figure as the sliders say."""
        return Simulator(
            self.body,
            None if wish.is_full else self.space(wish.modes),
            damping="energetic",
            damping_rate=wish.damping_per_s,
            gravity=wish.gravity,
            ground=ground,
            limits=self.limits() if wish.is_limited else None,
        )

    @property
    def num_modes(self) -> int | None:
        """Modes that the clip has; None while nobody asked for any."""
        return None if self._space is None else self._space.num_components

    def space(self, modes: int) -> PoseModel:
        """The first modes of the clip; fewer where it has fewer."""
        if self._space is None:
            from marey.models import PGA

            if self._lesson.num_frames < 3:
                raise InputError("a clip this short has no modes", "Let all joints move")
            most = min(round(RANGES["modes"][1]), self._lesson.num_frames - 1)
            space = PGA(n_components=most, weights="lever").fit([self._lesson, *_stands(self._lesson)])
            moving = int(np.count_nonzero(space.deviations > LEAST_MODE * space.deviations[0]))
            self._space = space.truncate(max(moving, 1))
        return self._space.truncate(min(modes, self._space.num_components))

    def standing(self, feet: str) -> Pose:
        """How it stands most quietly; on one foot, from a pose in which its feet are beside each other."""
        return make_stand(_standing_source(self.clip, feet), 1.0)[0]

    def limits(self) -> JointLimits:
        """What the joints do in the clip, with some room."""
        if self._limits is None:
            from marey.kinematics import BoxLimits

            self._limits = BoxLimits.from_clips([self._lesson], margin_rad=LIMIT_ROOM_RAD)
        return self._limits


def place_on_ground(simulator: Simulator, pose: Pose, ground: Ground) -> Pose:
    """The pose as the simulator has it, moved up or down until it touches the ground; in the air it is left there."""
    simulator.reset(pose)
    low = float(_ground_gaps(simulator, ground).min()) / float(ground.normal[1])
    here = simulator.state.pose
    if low > NEAR_M:
        return here
    return Pose(here.skeleton, here.root_position - np.array([0.0, low, 0.0]), here.rotations)


def _ground_gaps(simulator: Simulator, ground: Ground) -> FloatArray:
    """Heights [m] of all points that can touch, above the ground."""
    (joints, offsets, radii), _ = contact_spheres(simulator.body.skeleton)
    here = simulator.mechanics()
    centres = here.joints[joints] + (here.frames[joints] @ offsets[:, :, None])[:, :, 0]
    return ground.gaps(centres) - radii


def _standing_source(clip: Motion, feet: str) -> Motion | Pose:
    return clip if feet == "both" else clip[_narrowest(clip)]


def _narrowest(clip: Motion) -> int:
    """The upright frame with the ankles nearest to each other, seen from above."""
    roles, places = role_map(clip.skeleton), clip.joint_positions()
    left, right = (places[:, roles[f"{side}_ankle"]] for side in ("left", "right"))
    apart = np.linalg.norm((left - right)[:, [0, 2]], axis=1)
    heights = places[:, 0, 1]
    return int(np.argmin(apart + 5.0 * (heights.max() - heights)))


def _stands(clip: Motion) -> list[Motion]:
    """Stands on both feet and on each, so that a figure has the modes to balance; none of a body without feet."""
    try:
        return [make_stand(_standing_source(clip, feet), LEARNT_STAND_S, feet=feet) for feet in FEET]
    except MareyError:
        return []


def _thin_clip(clip: Motion) -> Motion:
    """Every so many frames of a clip that is long."""
    stride = ceil(clip.num_frames / MAX_LEARNT_FRAMES)
    wxyz = np.ascontiguousarray(clip.rotations.wxyz[::stride])
    return Motion(clip.skeleton, clip.rate_hz / stride, clip.root_positions[::stride], SO3(wxyz), name=clip.name)

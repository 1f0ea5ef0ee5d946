"""A clip made ready for the page: world frames of every joint, contacts and path, computed once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marey.base import BoolArray, FloatArray
from marey.motion import Motion, contact_positions, ensure_contacts
from marey.skeleton import BodyMesh, capsule_mesh, capsules, contact_points

Float32 = NDArray[np.float32]
TRAIL_POINTS = 400  # enough for a smooth line, few enough for the page


@dataclass(frozen=True, slots=True, eq=False)
class ClipFrames:
    """What the stage needs, frame by frame; float32 is precise enough for the screen."""

    motion: Motion  # with contacts
    positions: Float32  # (F, J, 3) [m]
    wxyz: Float32  # (F, J, 4) world rotations
    body: BodyMesh
    contact_names: tuple[str, ...]
    contact_points: Float32  # (F, K, 3) [m]
    contacts: BoolArray  # (F, K)

    @classmethod
    def from_motion(cls, motion: Motion) -> ClipFrames:
        """Solve the forward kinematics of the whole clip and find its contacts if it has none."""
        contacted = motion if motion.contacts is not None else ensure_contacts(motion)
        positions, rotations = motion.joint_frames()
        known = contact_points(motion.skeleton).names
        points = contact_positions(motion)
        names = tuple(n for n in known if contacted.contacts is not None and n in contacted.contacts.names)
        tracks = [] if contacted.contacts is None else [contacted.contacts.track(n) for n in names]
        active = np.stack(tracks, axis=1) if tracks else np.zeros((motion.num_frames, 0), dtype=bool)
        return cls(
            contacted,
            positions.astype(np.float32),
            rotations.wxyz.astype(np.float32),
            capsule_mesh(capsules(motion.skeleton)),
            names,
            points[:, [known.index(n) for n in names]].astype(np.float32),
            active,
        )

    @property
    def num_frames(self) -> int:
        """How many frames there are."""
        return self.motion.num_frames

    def trail(self) -> FloatArray:
        """Path of the root on the ground ``(N, 3)`` [m], thinned for drawing."""
        stride = max(1, self.num_frames // TRAIL_POINTS)
        path = self.motion.root_positions[::stride].copy()
        path[:, 1] = 0.004
        return path

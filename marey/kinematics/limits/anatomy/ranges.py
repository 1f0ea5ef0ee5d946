"""Joints of the human body: their axes in the calibration pose and their published ranges of motion.

Ranges are the normal values of [AAOS1965]_ and [NorkinWhite2016]_, given there for whole regions. Where a skeleton has
several joints for one region (three for the spine, two for the neck), each may take six tenths of it, since skeletons
share a bend in different ways. Clavicles are those of [Inman1944]_.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3

STUB_RAD: Final = float(np.deg2rad(3.0))  # [rad] a joint that no person has: a file's rounding, and no motion
TWIST_BONE_RAD: Final = float(np.deg2rad(12.0))  # [rad] swing of a joint inside a long bone, which only twists
X, Y, Z = np.eye(3)


@dataclass(frozen=True, slots=True, eq=False)
class JointPart:
    """A joint of the body, left side for paired ones.

    Coordinates are flexion about ``flexion``, side swing about ``bone x flexion`` and twist about ``bone``, measured
    from ``centre_deg``. Axes are those of the calibration pose: x left, y up, z forward.
    """

    bone: FloatArray  # (3,) direction of the bone, the axis of twist
    flexion: FloatArray  # (3,) axis about which a positive turn flexes
    ranges_deg: tuple[tuple[float, float], tuple[float, float], tuple[float, float]]  # flexion, side swing, twist
    centre_deg: tuple[float, float] = (0.0, 0.0)  # flexion and side swing from which coordinates are measured
    is_split: bool = False  # one of several joints of a region

    def frame(self) -> SO3:
        """Rotation whose columns are bone, flexion and side axes."""
        return SO3.from_matrix(np.stack([self.bone, self.flexion, np.cross(self.bone, self.flexion)], axis=1))

    def coordinates(self, turned: SO3) -> FloatArray:
        """Flexion, side swing and twist ``(..., 3)`` [rad] of rotations away from the calibration pose."""
        frame = self.frame()
        swing, twist = (self.centre().inverse() @ frame.inverse() @ turned @ frame).swing_twist([1.0, 0.0, 0.0])
        return np.concatenate([swing.log()[..., 1:], twist.log()[..., :1]], axis=-1)

    def centre(self) -> SO3:
        """Rotation in the middle of the range, in the axes of :meth:`frame`."""
        return SO3.exp([0.0, *np.deg2rad(self.centre_deg)])


SPINE: Final = JointPart(Y, X, ((-32.0, 60.0), (-25.0, 25.0), (-30.0, 30.0)), is_split=True)
NECK: Final = JointPart(Y, X, ((-40.0, 40.0), (-30.0, 30.0), (-45.0, 45.0)), is_split=True)

PARTS: Final = {
    # Flexion forward 120, extension 30; adduction 30, abduction 45; rotation inwards and outwards 45
    "hip": JointPart(-Y, -X, ((-30.0, 120.0), (-60.0, 30.0), (-45.0, 45.0)), (45.0, 0.0)),
    # Flexion 135 to 150, hyperextension 10; the shank turns when the knee is bent
    "knee": JointPart(-Y, X, ((-10.0, 155.0), (-10.0, 10.0), (-30.0, 30.0)), (60.0, 0.0)),
    # Dorsiflexion 20, plantar flexion 50; twist is eversion 15, inversion 35
    "ankle": JointPart(Z, -X, ((-55.0, 45.0), (-35.0, 35.0), (-35.0, 20.0))),
    # Metatarsal joints: extension 70, flexion 45
    "foot": JointPart(Z, -X, ((-45.0, 70.0), (-10.0, 10.0), (-10.0, 10.0))),
    # Thorax on pelvis: flexion 80, extension 25, to the sides 35, rotation 45
    "spine1": SPINE,
    "spine2": SPINE,
    "spine3": SPINE,
    # Cervical spine: flexion 45, extension 45 to 65, to the sides 45, rotation 60 to 80
    "neck": NECK,
    "head": NECK,
    # Sterno-clavicular joint: up 45, down 10, forward and back 30, rotation about its length 50
    "collar": JointPart(X, Z, ((-10.0, 45.0), (-30.0, 30.0), (-50.0, 50.0))),
    # Upper arm from a place before and below the shoulder: 180 upwards, 60 backwards, across 135; rotation 70 and 90
    "shoulder": JointPart(X, Z, ((-115.0, 100.0), (-65.0, 125.0), (-110.0, 110.0)), (-35.0, 35.0)),
    # Flexion 150, hyperextension 10, carrying angle; pronation and supination 80 to 90
    "elbow": JointPart(X, -Y, ((-10.0, 150.0), (-35.0, 15.0), (-90.0, 90.0)), (60.0, 0.0)),
    # Flexion 80, extension 70, to the sides 20 and 30: files do not agree on the palm at rest, and many
    # store the twist of the forearm here
    "wrist": JointPart(X, -Z, ((-80.0, 80.0), (-80.0, 80.0), (-90.0, 90.0))),
}

HANGING: Final = SO3.exp([0.0, 0.0, np.deg2rad(-82.0)])  # the left arm from the calibration pose to beside the body

# What an examiner asks for: the last turn of each joint [deg] as a rotation vector in the axes of the body, from
# standing; joints of the right side as in a mirror. Hips flex with a bent knee;
# the raise of a straight leg stands apart.
MOVEMENTS: Final = (
    {"left_hip": (-120.0, 0.0, 0.0), "left_knee": (130.0, 0.0, 0.0)},
    {"left_hip": (-85.0, 0.0, 0.0), "left_knee": (0.0, 0.0, 0.0)},
    {"left_hip": (30.0, 0.0, 0.0)},
    {"left_hip": (0.0, 0.0, 45.0)},
    {"left_hip": (0.0, 0.0, -30.0)},
    {"left_hip": (0.0, 45.0, 0.0)},
    {"left_hip": (0.0, -45.0, 0.0)},
    {"left_knee": (135.0, 0.0, 0.0)},
    {"left_ankle": (-20.0, 0.0, 0.0)},
    {"left_ankle": (50.0, 0.0, 0.0)},
    {"left_shoulder": (-180.0, 0.0, 0.0)},
    {"left_shoulder": (60.0, 0.0, 0.0)},
    {"left_shoulder": (0.0, 0.0, 175.0)},
    {"left_elbow": (0.0, -150.0, 0.0)},
    {"left_shoulder": (-90.0, 0.0, 0.0), "left_elbow": (0.0, -150.0, 0.0)},
    # Both sides together: arms out and up, sitting, squatting
    {"left_shoulder": (0.0, 0.0, 82.0), "right_shoulder": (0.0, 0.0, 82.0)},
    {"left_shoulder": (0.0, 0.0, 170.0), "right_shoulder": (0.0, 0.0, 170.0)},
    {"left_shoulder": (0.0, 0.0, 82.0), "right_shoulder": (0.0, 0.0, 82.0), "left_elbow": (0.0, -150.0, 0.0)},
    {"left_shoulder": (-175.0, 0.0, 0.0), "right_shoulder": (-175.0, 0.0, 0.0)},
    {
        "left_hip": (-90.0, 0.0, 0.0),
        "right_hip": (-90.0, 0.0, 0.0),
        "left_knee": (90.0, 0.0, 0.0),
        "right_knee": (90.0, 0.0, 0.0),
    },
    {
        "left_hip": (-120.0, 0.0, 0.0),
        "right_hip": (-120.0, 0.0, 0.0),
        "left_knee": (135.0, 0.0, 0.0),
        "right_knee": (135.0, 0.0, 0.0),
        "left_ankle": (-20.0, 0.0, 0.0),
        "right_ankle": (-20.0, 0.0, 0.0),
    },
    {"spine1": (30.0, 0.0, 0.0), "spine2": (25.0, 0.0, 0.0), "spine3": (25.0, 0.0, 0.0)},
    {"spine1": (-9.0, 0.0, 0.0), "spine2": (-8.0, 0.0, 0.0), "spine3": (-8.0, 0.0, 0.0)},
    {"spine1": (0.0, 0.0, 12.0), "spine2": (0.0, 0.0, 12.0), "spine3": (0.0, 0.0, 11.0)},
    {"spine1": (0.0, 15.0, 0.0), "spine2": (0.0, 15.0, 0.0), "spine3": (0.0, 15.0, 0.0)},
    {"neck": (25.0, 0.0, 0.0), "head": (20.0, 0.0, 0.0)},
    {"neck": (-25.0, 0.0, 0.0), "head": (-20.0, 0.0, 0.0)},
    {"neck": (0.0, 0.0, 23.0), "head": (0.0, 0.0, 22.0)},
    {"neck": (0.0, 35.0, 0.0), "head": (0.0, 35.0, 0.0)},
)

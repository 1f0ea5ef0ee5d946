r"""SMPL archives as AMASS lays them out, `.npz` ([Mahmood2019]_): the poses of the canonical human, in Z-up axes.

.. math:: R_{poses} = C^{-1} R_{root}, \quad trans = C^{-1} p_{root}, \quad C(x, y, z) = (x, z, -y)

for the root; the other joints keep their rotations, whose frames are those of :data:`marey.HUMAN`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import InputError
from marey.io.binary import AnyPath
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import HUMAN, tree_difference

WIDTH: Final = 156  # numbers a frame of SMPL-H: 22 joints of the body, 30 of the hands, three each
NUM_BETAS: Final = 16
SAME_DIRECTION: Final = 0.1  # [rad] bones of a rest pose that is SMPL's
_TO_Z_UP: Final = SO3.from_axis_angle([1.0, 0.0, 0.0], 0.5 * np.pi)  # (x, y, z) to (x, -z, y)


def write_amass(motion: Motion, path: AnyPath, *, gender: str = "neutral", betas: Any = None) -> None:
    """Write a motion of the canonical human as an AMASS archive: ``poses``, ``trans``, ``mocap_framerate``.

    Contacts travel as ``contacts`` ``(F, K)`` and ``contact_names``. Hands rest. The body's shape is SMPL's mean
    unless ``betas`` are given: SMPL then has its own bone lengths, so feet may float or sink by some centimetres on a
    body of other proportions.

    Args:
        motion: on the joints of :data:`marey.HUMAN`.
        path: an `.npz` file.
        gender: ``neutral``, ``female`` or ``male``.
        betas: shape coefficients, at most 16.

    Raises:
        InputError: the motion is on another skeleton.
    """
    skeleton = motion.skeleton
    difference = tree_difference(HUMAN, skeleton)
    # A bone that rests along another direction than the canonical human's; lengths do not count
    for joint in range(1, skeleton.num_joints) if difference is None else ():
        own, known = skeleton.offsets[joint], HUMAN.offsets[joint]
        lengths = np.linalg.norm(own) * np.linalg.norm(known)
        if lengths > 0.0 and own @ known < np.cos(SAME_DIRECTION) * lengths:
            difference = f"'{skeleton.names[joint]}' rests elsewhere than in its T-pose"
            break
    if difference is not None:
        raise InputError(
            f"'{motion.name}' is not on SMPL's joints: {difference}", "Retarget it first: marey.retarget(motion)"
        )
    if gender not in ("neutral", "female", "male"):
        raise InputError(f"gender '{gender}'", "SMPL knows neutral, female and male")
    shape = np.zeros(NUM_BETAS)
    given = np.asarray([] if betas is None else betas, dtype=np.float64).reshape(-1)
    if len(given) > NUM_BETAS or not np.isfinite(given).all():
        raise InputError(f"{len(given)} betas", f"At most {NUM_BETAS} finite numbers")
    shape[: len(given)] = given
    poses = np.zeros((motion.num_frames, WIDTH))
    poses[:, :3] = (_TO_Z_UP @ motion.rotations[:, 0]).log()
    poses[:, 3:66] = motion.rotations[:, 1:].log().reshape(motion.num_frames, -1)
    track = motion.contacts
    told: dict[str, Any] = {} if track is None else {"contacts": track.active, "contact_names": np.array(track.names)}
    with Path(path).open("wb") as file:
        np.savez(
            file,
            poses=poses,
            trans=_TO_Z_UP @ motion.root_positions,
            mocap_framerate=np.array(motion.rate_hz),
            gender=np.array(gender),
            betas=shape,
            **told,
        )

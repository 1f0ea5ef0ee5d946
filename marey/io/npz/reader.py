"""One reader for every `.npz` motion: the names of the arrays tell whose it is."""

from __future__ import annotations

from marey.base import InputError
from marey.io.binary import AnyPath, as_format_error, format_error
from marey.io.npz.archive import open_archive
from marey.io.npz.kimodo import read_kimodo
from marey.io.npz.mujoco import find_coordinates, read_coordinates
from marey.io.npz.smpl import find_smpl_names, read_smpl
from marey.motion import Motion


def read_npz(path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """Read a motion of AMASS, of SMPL parameters, of Kimodo or of MuJoCo's coordinates.

    Args:
        path: the `.npz` file.
        rate_hz: frames per second to use instead of the archive's.
        unit: the archives are in metres; anything but ``"m"`` is refused.

    Raises:
        FormatError: the archive is damaged, needs pickle, or holds no motion that is known here.
    """
    if unit not in (None, "m"):
        raise InputError(f"unit '{unit}' for an .npz archive", "These archives are always in metres; leave unit out")
    with as_format_error(path), open_archive(path) as archive:
        names = find_smpl_names(archive.names)
        has_rotations = "global_rot_mats" in archive.names or "local_rot_mats" in archive.names
        if has_rotations and "posed_joints" in archive.names:
            return read_kimodo(archive, rate_hz=rate_hz)
        if names is not None:
            return read_smpl(archive, names, rate_hz=rate_hz)
        coordinates = find_coordinates(archive)
        if coordinates is not None:
            return read_coordinates(archive, coordinates, rate_hz=rate_hz)
        raise format_error(
            path,
            f"no motion that marey knows is in it; it holds {archive.describe() or 'nothing'}",
            "Known are AMASS ('poses', 'trans'), SMPL parameters ('global_orient', 'body_pose', 'transl'), Kimodo "
            "('posed_joints', 'global_rot_mats') and MuJoCo's coordinates ('q_hip_flexion_r'), as plain arrays.",
        )

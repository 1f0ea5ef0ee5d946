"""Runs in the peers' environment: read a file with pybvh or ezc3d, write what it says as an array.

Usage: python peer_side.py FILE OUT.npz
"""

from __future__ import annotations

import sys

import numpy as np


def read(path: str) -> tuple[list[str], np.ndarray]:
    """Names and positions ``(F, J, 3)`` in the file's unit and axes; NaN where a marker was not seen."""
    if path.endswith(".bvh"):
        from pybvh import read_bvh_file

        clip = read_bvh_file(path)
        return list(clip.joint_names), clip.joint_positions()
    import ezc3d

    content = ezc3d.c3d(path)
    names = content["parameters"]["POINT"]["LABELS"]["value"]
    return list(names), np.transpose(content["data"]["points"][:3], (2, 1, 0))


if __name__ == "__main__":
    joints, positions = read(sys.argv[1])
    np.savez(sys.argv[2], names=np.array(joints), positions=positions)

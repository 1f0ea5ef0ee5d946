"""Reading a 1 000-frame BVH of 31 joints against pybvh and PyMotion."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from harness import Row, compare
from synthetic import write_cmu_like_bvh

import marey


def rows() -> list[Row]:
    """Check that all readers agree, then race them."""
    import pybvh
    from pymotion.io.bvh import BVH

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.bvh"
        write_cmu_like_bvh(path, frames=1000)

        def pymotion() -> object:
            clip = BVH()
            clip.load(str(path))
            return clip

        _check_same_positions(path)
        return [
            compare("read BVH, 1 000 x 31 joints", lambda: marey.load(path), "pybvh", _read(pybvh, path), bar=10.0),
            compare("read BVH, 1 000 x 31 joints", lambda: marey.load(path), "PyMotion", pymotion, repeats=15),
        ]


def _read(pybvh: object, path: Path):
    return lambda: pybvh.read_bvh_file(str(path))


def _check_same_positions(path: Path) -> None:
    import pybvh

    theirs = pybvh.read_bvh_file(str(path))
    ours = marey.load(path, unit="cm")
    gap = np.abs(100.0 * ours.joint_positions() - theirs.joint_positions()).max()
    if gap > 1e-3:
        raise SystemExit(f"marey and pybvh disagree by {gap} cm: the race would be void")

"""Compiling ahead: on a machine that has not run the demo before, a second process compiles what will be needed next.

Kernels are compiled when first called and kept. While clips are being made here, the second process builds a graph of
one small clip, searches it, rebuilds, checks and draws a motion, so that these find their kernels ready. A kernel that
both need is compiled by one of them, and the other waits for it (:mod:`marey.base.kernel_cache`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def compile_ahead(say: Callable[[str], None]) -> Generator[None]:
    """While the body makes the demo, compile in another process; nothing to do where its graph is kept."""
    from marey.samples import demo_graph_file

    if demo_graph_file().is_file():
        yield
        return
    say("first run: compiling and building the demo graph, one to two minutes; both are cached")
    helper = _start_compiler() if (os.cpu_count() or 1) > 1 else None
    try:
        yield
    finally:
        if helper is not None:
            helper.kill()
            helper.wait()


def _start_compiler() -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": paths},
    )


def compile_kernels() -> None:
    """Do everything once, on one walk."""
    import numpy as np

    from marey.graph import build_graph
    from marey.kinematics import PointTask, solve_ik
    from marey.picture import film_strip
    from marey.pipeline import synthesize_sketch
    from marey.samples import walk
    from marey.world import GroundPose, Sketch
    from marey.world import Path as Way

    graph = build_graph([walk()], mirror=True)
    way = Way(np.array([[0.0, 0.0], [0.0, 2.0]]))
    sketch = Sketch(GroundPose((0.0, 0.0)), GroundPose((0.0, 2.0), tolerance_m=0.5), way, corridor_m=2.0)
    result = synthesize_sketch(sketch, "graph", graph=graph, budget_s=1.0)
    reach = PointTask("right_wrist", target_world=(0.3, 1.0, 0.3))
    solve_ik(
        walk().skeleton, [reach], start=walk()[0], limits=None, root="fixed", feet="free", frozen_joints=[1],
        follow=False, on_failure="return",
    )  # fmt: skip
    film_strip(walk() if result.motion is None else result.motion, width=320, count=2)


if __name__ == "__main__":
    compile_kernels()

"""Ways that a search found, drawn on the ground while it goes on: the best one, and the one before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import viser

from marey.base import FloatArray
from marey.studio._film import Float32

if TYPE_CHECKING:
    from marey.graph import SearchSolution
    from marey.studio._sketch_run import SynthesisJob

CORNERS: Final = 120  # of a line; the number is fixed, so that only places are sent anew
HEIGHT_M: Final = 0.02  # above everything else on the ground
BEST, BEFORE = (200, 110, 20), (205, 175, 140)


class SearchPathLines:
    """Owns its two lines; :meth:`draw` follows a search."""

    def __init__(self, scene: viser.SceneApi, root: str) -> None:
        flat = path_segments(np.zeros((2, 2)))
        self._before = scene.add_line_segments(f"{root}/found_before", points=flat, colors=BEFORE, thickness=0.03)
        self._best = scene.add_line_segments(f"{root}/found_best", points=flat, colors=BEST, thickness=0.05)
        self._shown: object = None
        self.draw(None)

    def draw(self, synthesis: SynthesisJob | None) -> None:
        """Show the newest two ways of a search that goes on; nothing otherwise."""
        ways = [] if synthesis is None or not synthesis.is_running else distinct_paths(synthesis.solutions)
        self._best.visible, self._before.visible = len(ways) > 0, len(ways) > 1
        if not ways or ways[-1] is self._shown:
            return
        self._shown = ways[-1]
        self._best.points = path_segments(ways[-1])
        if len(ways) > 1:
            self._before.points = path_segments(ways[-2])


def distinct_paths(solutions: list[SearchSolution]) -> list[FloatArray]:
    """Ways ``(n, 2)`` [m] of solutions, each another than the one before it."""
    ways: list[FloatArray] = []
    for places in (solution.places for solution in solutions if len(solution.places) > 1):
        if not ways or places.shape != ways[-1].shape or not np.allclose(places, ways[-1], atol=1e-3):
            ways.append(places)
    return ways


def path_segments(way: FloatArray) -> Float32:
    """Pieces ``(CORNERS - 1, 2, 3)`` of a way ``(n, 2)``, evenly along it."""
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(way, axis=0), axis=1))])
    spots = np.linspace(0.0, float(along[-1]), CORNERS)
    places = np.full((CORNERS, 3), HEIGHT_M, dtype=np.float32)
    places[:, 0], places[:, 2] = np.interp(spots, along, way[:, 0]), np.interp(spots, along, way[:, 1])
    return np.stack([places[:-1], places[1:]], axis=1)

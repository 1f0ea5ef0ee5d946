"""Forces on the stage: an arrow at each foot and hand, the centre of pressure, the path of the centre of mass."""

from __future__ import annotations

import numpy as np
import viser

from marey.dynamics import ValidityReport
from marey.studio._document import PageDocument
from marey.studio._film import TRAIL_POINTS, Float32

METRES_PER_WEIGHT = 0.8  # length of an arrow that carries the body
GIVEN_COLOUR, PRESSURE_COLOUR, MASS_COLOUR = (40, 150, 90), (180, 60, 160), (150, 60, 60)
LEAST_FORCE = 0.02  # [body weights] shorter arrows are not drawn
HIDDEN_M = -1e3  # where an arrow waits that has nothing to show


class ForceArrows:
    """Owns its scene nodes; :meth:`load` replaces them, :meth:`draw` moves them with the playhead."""

    def __init__(self, scene: viser.SceneApi) -> None:
        self._scene = scene
        self._report: ValidityReport | None = None
        self._arrows: viser.ArrowsHandle | None = None
        self._pressure: viser.IcosphereHandle | None = None
        self._mass: viser.IcosphereHandle | None = None
        self._path: viser.LineSegmentsHandle | None = None

    def draw(self, document: PageDocument) -> None:
        """Show the forces of the frame under the playhead."""
        if document.report is not self._report:
            self._load(document.report)
        report, frame = self._report, document.index
        if report is None or self._arrows is None or self._pressure is None or self._mass is None:
            return
        on = document.shown["Forces"]
        self._arrows.points = _arrows(report, frame)
        self._pressure.position = tuple(report.centre_of_pressure[frame])
        self._mass.position = tuple(report.dynamics.com[frame])
        self._arrows.visible = on
        self._pressure.visible = on and bool(report.supports.active[frame].any())
        for handle in (self._mass, self._path):
            if handle is not None:
                handle.visible = document.shown["Mass"]

    def _load(self, report: ValidityReport | None) -> None:
        for handle in (self._arrows, self._pressure, self._mass, self._path):
            if handle is not None:
                handle.remove()
        self._arrows = self._pressure = self._mass = self._path = None
        self._report = report
        if report is None:
            return
        scene = self._scene
        self._arrows = scene.add_arrows(
            "/stage/clip/forces",
            _arrows(report, 0),
            GIVEN_COLOUR,
            shaft_radius=0.012,
            head_radius=0.03,
            head_length=0.07,
        )
        self._pressure = scene.add_icosphere("/stage/clip/pressure", radius=0.028, color=PRESSURE_COLOUR)
        self._mass = scene.add_icosphere("/stage/clip/mass", radius=0.035, color=MASS_COLOUR)
        path = report.dynamics.com[:: max(1, report.num_frames // TRAIL_POINTS)].astype(np.float32)
        if len(path) > 1:
            pairs = np.stack([path[:-1], path[1:]], axis=1)
            self._path = scene.add_line_segments(
                "/stage/clip/mass_path", points=pairs, colors=MASS_COLOUR, thickness=0.01
            )


def _arrows(report: ValidityReport, frame: int) -> Float32:
    """Begin and end of the arrow of each limb ``(L, 2, 3)`` [m]; those that carry nothing lie out of sight."""
    forces = report.split.forces[frame] / report.dynamics.body.weight_n
    places = report.split.places[frame]
    ends = np.stack([places, places + METRES_PER_WEIGHT * forces], axis=1)
    idle = np.linalg.norm(forces, axis=-1) < LEAST_FORCE
    ends[idle] = [[0.0, HIDDEN_M, 0.0], [0.0, HIDDEN_M + 0.1, 0.0]]
    return ends.astype(np.float32)

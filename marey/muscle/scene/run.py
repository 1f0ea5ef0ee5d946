"""Scenes: bodies, muscles and what drives them, by name or from a file; running one gives a film.

The tables of a scene become a body that moves and a surface that is seen. Rigid bones are capsules joined by hinges,
which carry the nodes inside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, frozen, read_toml_text
from marey.muscle.body.bones import Bone, Bones
from marey.muscle.body.contact import ContactPlane
from marey.muscle.body.soft_body import SoftBody, StepReport
from marey.muscle.elastic.mesh import SURFACE_SUFFIXES, SurfaceMesh, TetMesh
from marey.muscle.elastic.models import Lattice
from marey.muscle.elastic.shapes import Shape, Solid, tetrahedralise_shape, voxelise
from marey.muscle.muscles.forces import Muscles
from marey.muscle.muscles.programmes import ActivationPlan, ActivationProgramme, Cosine
from marey.muscle.muscles.setup import make_edge_graph
from marey.muscle.muscles.spline import (
    ActivationSpline,
    EmbeddedSurface,
    embed_surface,
    surface_of_mesh,
    surface_of_plate,
)
from marey.muscle.scene.film import BoneTrack, Film, Paint, make_paint, measure_film
from marey.muscle.scene.tables import BonePart, GroundPart, MeshPart, SceneParts, SeedPart, parse_scene

SEED_POINTS: Final = 7  # of a seeded spline
JOINT_DAMPING: Final = 0.05  # [N m s/rad] of a hinge: cartilage, ligaments, skin


def make_scene_bones(parts: tuple[BonePart, ...], nodes: FloatArray) -> Bones:
    """The bones of a scene; each carries the nodes in its grip, the first that asks gets a node."""
    free = np.ones(len(nodes), dtype=np.bool_)
    bones: list[Bone] = []
    for part in parts:
        # Nodes in the grip of a bone: in its box, or near to its capsule.
        if len(part.grip) == 2:
            grasped = np.all((nodes >= part.grip[0]) & (nodes <= part.grip[1]), axis=1)
        elif part.grip:
            raise InputError(f"the grip of bone '{part.name}' has {len(part.grip)} points", "Give two corners of a box")
        else:
            radii = (part.radii[0] + part.grip_m, part.radii[-1] + part.grip_m)
            grasped = Solid("rod", points=(part.start, part.end), radii=radii).distance(nodes) <= 0.0
        held = np.flatnonzero(grasped & free)
        free[held] = False
        bones.append(
            Bone(
                part.name,
                part.start,
                part.parent or None,
                "ball" if part.ball else "fixed" if part.axis is None else "hinge",
                part.axis or (0.0, 0.0, 1.0),
                limits=None
                if part.axis is None and not part.ball
                else (np.deg2rad(part.limits_deg[0]), np.deg2rad(part.limits_deg[1])),
                mass_kg=part.mass_kg,
                nodes=held,
                end=part.end,
            )
        )
    return Bones(bones, joint_damping=JOINT_DAMPING)


BONE_FACTOR: Final = 100.0  # [-] stiffer cells than this count as bone; tendons are softer
FrameActivations = Mapping[str, float] | FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class SceneModel:
    """A scene set up: its body at rest, its muscles and their plan, and the skin to draw."""

    body: SoftBody
    mesh: TetMesh | Lattice
    muscles: Muscles
    plan: ActivationPlan
    skin: EmbeddedSurface
    paint: Paint
    stiff: NDArray[np.bool_]  # (T,) cells of bones inside the body
    fades: FloatArray  # (S,) 0 to 1: how much of its activity each segment takes
    bone_radii: FloatArray  # (B, 2) [m] of the capsules that bones are drawn as

    def bone_state(self) -> tuple[FloatArray, FloatArray]:
        """Both ends of each bone ``(B, 2, 3)`` [m] where it stands, and angles of the hinges ``(D,)`` [rad]."""
        bones = self.body.bones
        return np.stack([bones.origins, bones.ends], axis=1), np.array(list(bones.angles.values()), dtype=np.float64)

    def alphas(self, activations: FrameActivations | None) -> FloatArray:
        """Contraction of each segment ``(S,)``: of activations of splines by name or number, or alphas of segments."""
        return self.apply_fades(self.muscles.alphas(activations))

    def apply_fades(self, alphas: FloatArray) -> FloatArray:
        """Alphas ``(..., S)`` with less activity towards the ends of splines that fade."""
        return 1.0 + self.fades * (alphas - 1.0)


def build_scene(parts: SceneParts) -> SceneModel:
    """Set up a scene."""
    mesh, surface = _fill_body(parts)
    # Factor on the stiffness of each cell (T,): cells whose middle or two corners lie in a bone are bone.
    corners = mesh.nodes[mesh.cells]
    scale = np.ones(len(mesh.cells))
    for part in sorted(parts.stiff, key=lambda part: part.factor):  # bones win over the soft pads between them
        solid = part.solid()
        inside = solid.distance(corners.reshape(-1, 3)).reshape(corners.shape[:2]) <= 0.0
        meets = (inside.sum(axis=1) >= 2) | (solid.distance(corners.mean(axis=1)) <= 0.0)
        scale = np.where(meets, part.factor, scale)
    seeds = [] if parts.seed is None else seed_splines(mesh, parts.seed)
    muscles = Muscles(
        mesh,
        [part.spline(mesh.nodes) for part in parts.splines] + seeds,
        density_kg_m3=parts.material.density_kg_m3,
        young_pa=parts.material.young_pa,
        transfer=parts.transfer,
    )
    # Nodes in the boxes of pins stay where they are.
    pinned = np.zeros(len(mesh.nodes), dtype=np.bool_)
    for number, pin in enumerate(parts.pins):
        here = np.all((mesh.nodes >= pin.low) & (mesh.nodes <= pin.high), axis=1)
        if not here.any():
            span = f"The body lies from {mesh.nodes.min(0)} to {mesh.nodes.max(0)}"
            raise InputError(f"pin {number} holds no node", span)
        pinned |= here
    material = parts.material
    body = SoftBody.from_mesh(
        mesh,
        material=material.model,
        young_pa=material.young_pa,
        poisson=material.poisson,
        density_kg_m3=material.density_kg_m3,
        stiffness_scale=scale if parts.stiff else None,
        damping=material.damping,
        pinned=np.flatnonzero(pinned),
        gravity=(0.0, -material.gravity_m_s2, 0.0),
        ground=_make_ground(parts),
        contact=parts.contact,
        muscles=muscles,
        integrator=material.integrator,
        bones=make_scene_bones(parts.bones, mesh.nodes),
    )
    programmes: dict[str, ActivationProgramme] = {p.spline: p.programme for p in parts.programmes}
    if parts.seed is not None:
        # Seeded splines contract one after another
        swing = 0.5 * parts.seed.amplitude
        for k, spline in enumerate(seeds):
            phase = -2.0 * np.pi * k / len(seeds)
            programmes.setdefault(spline.name, Cosine(swing, 1.0 / parts.seed.period_s, phase, 1.0 - swing, fade_s=0.2))
    plan = ActivationPlan(muscles, programmes, rate_per_s=parts.rate_limit)
    # The surface that is drawn: of a plate, of the mesh, or a finer one embedded in it
    if isinstance(mesh, Lattice) and mesh.is_flat:
        skin = surface_of_plate(mesh.cells, mesh.nodes, parts.mesh.thick_m)
    elif surface is not None:
        skin = embed_surface(surface.vertices, surface.faces, mesh.nodes, mesh.cells)
    elif parts.mesh.skin_m is None:
        skin = surface_of_mesh(mesh.surface)
    else:
        fine = TetMesh(*tetrahedralise_shape(Shape(parts.solids), parts.mesh.skin_m))
        own = surface_of_mesh(fine.surface)
        skin = embed_surface(own.at(fine.nodes), own.faces, mesh.nodes, mesh.cells)
    # A spline paints the skin that is nearest to it, and as far again.
    middles = muscles.points()[muscles.arrays.segments].mean(axis=1)
    rest = skin.at(mesh.nodes)
    reaches: list[float] = []
    for spline in range(muscles.num_splines):
        gaps = np.linalg.norm(middles[muscles.owners == spline][:, None] - rest[None], axis=-1)
        reaches.append(3.0 * float(np.median(gaps.min(axis=1))) + float(muscles.arrays.rest.mean()))
    paint, is_bone = make_paint(rest, middles, np.asarray(muscles.owners), np.array(reaches)), scale >= BONE_FACTOR
    # Parabolas up from the ends of splines that fade, level where they meet 1.
    fades, along = np.ones(muscles.num_segments), muscles.positions_along
    for number, part in enumerate(parts.splines):
        mine = np.asarray(muscles.owners) == number
        if part.fade > 0.0:
            length = float(muscles.arrays.rest[mine].sum())
            t = np.clip(np.minimum(along[mine], length - along[mine]) / (part.fade * length), 0.0, 1.0)
            fades[mine] = t * (2.0 - t)
    radii = np.array([np.broadcast_to(part.radii, 2) for part in parts.bones]).reshape(-1, 2)
    return SceneModel(body, mesh, muscles, plan, skin, paint, is_bone, fades, radii)


def _fill_body(parts: SceneParts) -> tuple[TetMesh | Lattice, SurfaceMesh | None]:
    """Cells of the solids or of the mesh file of a scene, and the surface of the file if it is one."""
    part, spacing_m = parts.mesh, parts.mesh.spacing_m
    if part.file:
        if Path(part.file).suffix.lower() in SURFACE_SUFFIXES:
            surface = SurfaceMesh.load(part.file, scale=part.scale)
            return surface.fill(spacing_m, max_cells=part.max_cells), surface
        mesh = TetMesh.from_file(part.file)
        return TetMesh(part.scale * mesh.nodes, mesh.cells), None
    assert spacing_m is not None
    shape = Shape(parts.solids)
    if part.kind == "tets":
        return TetMesh(*tetrahedralise_shape(shape, spacing_m)), None
    mask, origin = voxelise(shape, spacing_m, flat=part.kind == "squares")
    return Lattice.from_mask(mask, spacing_m, origin=origin), None


def seed_splines(mesh: TetMesh | Lattice, seed: SeedPart) -> list[ActivationSpline]:
    """Splines from the thickest place of a body to the ends of its limbs, along its medial axis.

    Ends are the nodes farthest inside the body from the thickest place and from each other; ways to them are shortest
    where an edge costs its length over the square of its depth, so they keep to the middle.
    """
    from scipy import sparse
    from scipy.sparse.csgraph import dijkstra
    from scipy.spatial import KDTree

    graph = make_edge_graph(mesh.nodes, mesh.cells)
    depth = np.asarray(KDTree(mesh.nodes[np.unique(mesh.surface)]).query(mesh.nodes)[0], dtype=np.float64)
    middle = int(np.argmax(depth))
    pairs = sparse.coo_array(graph)
    deep = 0.5 * (depth[pairs.row] + depth[pairs.col]) / max(float(depth.max()), 1e-12)
    costs = sparse.csr_array((pairs.data / (deep + 0.05) ** 2, (pairs.row, pairs.col)), shape=graph.shape)
    ways = cast(tuple[FloatArray, IntArray], dijkstra(costs, indices=[middle], return_predecessors=True))
    before = ways[1][0]
    far = np.asarray(dijkstra(graph, indices=[middle])[0], dtype=np.float64)
    splines: list[ActivationSpline] = []
    for k in range(seed.count):
        end = int(np.argmax(np.where(np.isfinite(far), far, -1.0)))
        way = [end]
        while way[-1] != middle and before[way[-1]] >= 0:
            way.append(int(before[way[-1]]))
        far = np.minimum(far, np.asarray(dijkstra(graph, indices=[end])[0], dtype=np.float64))
        # A few points of the way, from inside the limb's end
        line = np.asarray(mesh.nodes[way], dtype=np.float64)
        along = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1)))
        if along[-1] <= 0.0:
            continue
        places = np.linspace(0.08, 1.0, SEED_POINTS) * along[-1]
        columns = [np.asarray(np.interp(places, along, line[:, c]), dtype=np.float64) for c in range(3)]
        points = np.stack(columns, axis=1)
        splines.append(ActivationSpline(points[::-1], None, f"limb{k + 1}", alpha_min=seed.alpha_min, ratio=seed.ratio))
    return splines


def _make_ground(parts: SceneParts) -> ContactPlane | None:
    if parts.ground is None:
        return None
    part = parts.ground
    friction = part.friction[0] if len(part.friction) == 1 else (part.friction[0], part.friction[1], part.friction[2])
    return ContactPlane(
        np.array([0.0, part.height_m, 0.0]),
        stiffness=part.stiffness,
        friction=friction,
        axis=part.axis if len(part.friction) == 3 else None,
        smoothing_m_s=part.smoothing_m_s,
        boxes=parts.boxes,
    )


SceneActivations = Mapping[str, float] | Callable[[float], FloatArray] | FloatArray
OnFrame = Callable[[int, int], None]

MIN_SIZE_M, MAX_SIZE_M = 0.02, 10.0  # [m] of a body whose file says nothing of its unit
MAX_FRAMES: Final = 200_000
MAX_NUMBERS: Final = 400_000_000  # of positions in one film: 3.2 GB


def scene_names() -> tuple[str, ...]:
    """Names of the shipped scenes."""
    return tuple(sorted(f.name[:-5] for f in _scene_folder().iterdir() if f.name.endswith(".toml")))


def load_scene(name: str | Path) -> SoftBodyScene:
    """A shipped scene by its name, or one from a TOML file.

    Raises:
        UnknownNameError: it is neither a shipped scene nor a file.
        FormatError: the file is not TOML or breaks the schema; the message names file and line.
    """
    text = str(name)
    if Path(text).suffix.lower() in SURFACE_SUFFIXES:
        return make_mesh_scene(text)
    if text in scene_names():
        return SoftBodyScene(
            text, parse_scene((_scene_folder() / f"{text}.toml").read_text(encoding="utf-8"), file=f"{text}.toml")
        )
    if isinstance(name, Path) or Path(text).suffix or Path(text).exists():
        parts = parse_scene(read_toml_text(text, "scene"), file=str(text))
        if parts.mesh.file:
            parts = replace(parts, mesh=replace(parts.mesh, file=str(Path(text).parent / parts.mesh.file)))
        return SoftBodyScene(Path(text).stem, parts)
    raise UnknownNameError("scene", text, "marey.muscle", scene_names())


def make_mesh_scene(path: str | Path, *, scale: float = 1.0, seed: SeedPart | None = None) -> SoftBodyScene:
    """A scene of one closed surface, which stands on the ground and contracts along its medial axis.

    Args:
        path: an OBJ, PLY, STL or OFF file.
        scale: length of its unit [m].
        seed: splines; four by default.
    """
    low, high = SurfaceMesh.load(path, scale=scale).bounds()
    size = float((high - low).max())
    if not MIN_SIZE_M <= size <= MAX_SIZE_M:
        fix = f"If its unit is not a metre, write a scene file with [mesh] file = '{Path(path).name}', scale = 0.001"
        raise InputError(f"a body of {size:.3g} m", fix)
    parts = SceneParts(
        MeshPart(file=str(path), scale=scale),
        (),
        (),
        title=f"{Path(path).name} with seeded splines",
        seconds=2.0,
        seed=seed or SeedPart(),
        ground=GroundPart(height_m=float(low[1])),
    )
    return SoftBodyScene(Path(path).stem, parts)


def _scene_folder() -> Any:
    return files("marey.muscle") / "scenes"


@dataclass(frozen=True, slots=True, eq=False)
class SoftBodyScene:
    """A scene as its file says; :meth:`run` plays it from rest."""

    name: str
    parts: SceneParts
    _stages: list[SceneModel] = field(default_factory=list[SceneModel], repr=False)

    @property
    def title(self) -> str:
        """A sentence about it."""
        return self.parts.title

    def stage(self) -> SceneModel:
        """The scene, built once: its body keeps its state until it is reset."""
        if not self._stages:
            self._stages.append(build_scene(self.parts))
        return self._stages[0]

    def run(
        self,
        seconds: float | None = None,
        dt: float | None = None,
        on_frame: OnFrame | None = None,
        activations: SceneActivations | None = None,
    ) -> Film:
        """Play the scene from rest.

        Args:
            seconds: how long; as the file says without it.
            dt: one step and one frame [s]; as the file says without it.
            on_frame: called with (frames done, frames in all).
            activations: instead of the programmes: activation (0 to 1) of splines by name, alphas ``(S,)`` of all
                segments, alphas of all frames ``(F, S)``, or a function of the time [s] that gives ``(S,)``.

        Raises:
            ConvergenceError: a step failed; the report names the step.
        """
        stage, h = self.stage(), 1.0 / self.parts.rate_hz if dt is None else dt
        seconds = self.parts.seconds if seconds is None else seconds
        nodes = len(stage.mesh.nodes)
        if not (np.isfinite(seconds) and seconds > 0.0 and np.isfinite(h) and 0.0 < h <= 1.0):
            raise InputError(f"{seconds} seconds in steps of {h} s", "Both must be positive, a step at most 1 s")
        count = round(seconds / h) + 1
        if count > MAX_FRAMES or 3 * count * nodes > MAX_NUMBERS:
            raise InputError(f"a film of {count} frames with {nodes} nodes", "Take fewer seconds or longer steps")
        drive = _make_drive(stage, activations, np.arange(count, dtype=np.float64) * h)
        body = stage.body
        body.reset()
        positions, alphas = np.empty((count, *body.positions.shape)), np.ones((count, stage.muscles.num_segments))
        reports, ends, angles = list[StepReport](), list[FloatArray](), list[FloatArray]()
        for frame in range(count):
            alphas[frame] = drive(max(frame - 1, 0), max(frame - 1, 0) * h)
            if frame:
                reports.append(body.step(h, activations=alphas[frame]))
            # What is kept of each frame.
            positions[frame] = body.positions
            now = stage.bone_state()
            ends.append(now[0])
            angles.append(now[1])
            if frame and on_frame is not None:
                on_frame(frame, count - 1)
        reports = reports or [body.report]
        times = np.arange(count, dtype=np.float64) * h
        film = self.make_film(times, positions, alphas, np.stack(ends), np.stack(angles))
        metrics, failed = measure_film(film, stage, self.parts), list[str]()
        for check in self.parts.checks:
            if check.metric not in metrics:
                raise UnknownNameError("metric", check.metric, "this film", tuple(metrics))
            value = metrics[check.metric]
            if check.at_least is not None and value < check.at_least:
                failed.append(f"{check.metric} is {value:.4g}, less than {check.at_least:g}")
            if check.at_most is not None and value > check.at_most:
                failed.append(f"{check.metric} is {value:.4g}, more than {check.at_most:g}")
        report = {
            "iterations_mean": float(np.mean([report.iterations for report in reports])),
            "inverted_max": float(max(report.inverted for report in reports)),
            "substeps_max": float(max(report.substeps for report in reports)),
        }
        return replace(film, metrics=metrics, failed=tuple(failed), report=report)

    def make_film(
        self, times: FloatArray, positions: FloatArray, alphas: FloatArray, ends: FloatArray, angles: FloatArray
    ) -> Film:
        """A film of what was recorded: nodes ``(F, V, 3)``, alphas ``(F, S)``, ends and angles of bones."""
        stage, ground = self.stage(), self.parts.ground
        return Film(
            self.name,
            times,
            positions,
            alphas,
            stage.skin,
            stage.paint,
            BoneTrack(stage.body.bones.names, ends, stage.bone_radii, angles),
            view=self.parts.view,
            shown=tuple(check.metric for check in self.parts.checks),
            ground_m=None if ground is None else ground.height_m,
            boxes=self.parts.boxes,
        )


def _make_drive(
    stage: SceneModel, given: SceneActivations | None, times: FloatArray
) -> Callable[[int, float], FloatArray]:
    """Function of the frame and its time that gives all alphas ``(S,)``."""
    if callable(given):
        function = given
        return lambda frame, t: stage.alphas(function(t))
    if given is None:
        table = stage.apply_fades(stage.plan.sample(times))
    elif not isinstance(given, Mapping) and np.ndim(given) == 2:
        table = np.stack([stage.muscles.alphas(row) for row in frozen(given, None, None, name="activations")])
    else:
        table = stage.alphas(given)[None]
    return lambda frame, t: table[min(frame, len(table) - 1)]

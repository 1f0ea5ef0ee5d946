"""The sketch in the scene: way, corridor, things, events, a handle for what is selected, footprints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np
import viser

from marey.studio.document.page import ClipFrames, Float32
from marey.studio.document.sketch.editor import SketchEditor
from marey.studio.document.sketch.forms import FOUND_BY_ENGINE, SketchObject
from marey.studio.document.sketch.items import event_labels
from marey.studio.view.sketch_marks import (
    MAX_PRINTS,
    ComparedBody,
    SearchPathLines,
    arrow_mesh,
    carried_objects,
    corridor_faces,
    corridor_vertices,
    footprints,
    path_line,
    ring_mesh,
)
from marey.studio.view.walk import HIDDEN_SCALE, PRINT_COLOUR, add_instances, pad_rows, sole_mesh, yaw_rotations
from marey.world import GroundPose, Path

ItemMoveListener = Callable[[str, float, float, bool], None]  # label, x, z [m], whether the drag begins
ROOT: Final = "/stage/sketch"
COLOUR: Final = {
    "river": (70, 130, 200),
    "wall": (150, 140, 130),
    "stone": (120, 120, 116),
    "table": (170, 120, 70),
    "box": (190, 150, 60),
    "object": (200, 40, 90),
}
START, BETWEEN, GOAL = (40, 150, 80), (70, 90, 130), (200, 60, 50)
EVENT_COLOUR: Final = (130, 50, 150)
BAND_COLOUR, LINE_COLOUR = (120, 170, 220), (50, 80, 140)
BALL_M, OBJECT_M, GIZMO_M, ARROW_M = 0.07, 0.05, 0.5, 0.4
NAME_M: Final = 0.14  # from an item up to its name
SCALE_M: Final = 5.0  # marks grow with sketches that are larger
PRINT_Y_M: Final = 0.014  # above the band and the line
SEEN_THROUGH: Final = {"river": 0.6, "wall": 0.55}  # walls must not hide what is behind them
RIVER_M: Final = 0.01  # thickness of the water that is drawn
UPRIGHT: Final = (float(np.sqrt(0.5)), float(-np.sqrt(0.5)), 0.0, 0.0)  # an axis along z, turned to y


class SketchStage:
    """Owns its scene nodes; :meth:`draw` moves them."""

    def __init__(self, scene: viser.SceneApi, clicked: Callable[[str], None], moved: ItemMoveListener) -> None:
        self._scene, self._clicked, self._moved = scene, clicked, moved
        self._root = scene.add_frame(ROOT, show_axes=False, visible=False)
        self._way: PathLines | None = None
        self._ends: tuple[PathEndMark, ...] = ()
        self._found: SearchPathLines | None = None
        self._carried: tuple[object, object, dict[str, Float32]] = (None, None, {})  # of a clip and what is drawn
        self._ghost = ComparedBody(scene)
        self._nodes: dict[str, tuple[str, Any]] = {}  # label -> what it was made for, and its mesh
        self._names: dict[str, viser.LabelHandle] = {}
        self._gizmo: viser.TransformControlsHandle | None = None
        self._prints: ClipFootprints | None = None
        self._numbers = count()  # node names; labels may hold anything
        self._label, self._held = "", ""
        self._begins = True

    def hide(self) -> None:
        """Nothing of it is seen."""
        self._root.visible = False
        self._ghost.draw(None, 0.0)
        if self._gizmo is not None:
            self._gizmo.visible = False

    def draw(
        self, draft: SketchEditor, film: ClipFrames | None, other: ClipFrames | None = None, now_s: float = 0.0
    ) -> None:
        """Show the sketch, where the feet of its clip stand, and the clip that it is compared with."""
        self._root.visible = draft.shown["Sketch"]
        if self._way is None or self._prints is None:
            self._way, self._prints = PathLines(self._scene), ClipFootprints(self._scene)
            self._ends = PathEndMark(self._scene, "start", START), PathEndMark(self._scene, "goal", GOAL)
            self._found = SearchPathLines(self._scene, ROOT)
        self._way.draw(draft)
        if self._found is not None:
            self._found.draw(draft.synthesis)
        self._ghost.draw(other if draft.shown["Compared"] else None, now_s)
        if draft.drawn.points:
            self._ends[0].draw(draft.drawn.points[0], draft.drawn.start)
            self._ends[1].draw(draft.drawn.points[-1], draft.drawn.goal)
        labels = [label for label in draft.items() if not is_pick(draft, label)]  # a pick is its object
        for label_items in set(self._nodes) - set(labels):
            self._forget(label_items)
        scale = float(np.clip(draft.size_m() / SCALE_M, 1.0, 3.0))
        for number, label_items in enumerate(labels):
            form_items = draft.form(label_items)
            kind = "mark" if form_items is None else form_items.kind
            if label_items in self._nodes and self._nodes[label_items][0] != kind:
                self._forget(label_items)
            if label_items not in self._nodes:
                self._nodes[label_items] = (kind, self._add(label_items, kind))
            node = self._nodes[label_items][1]
            if form_items is None:
                x_items, y_items, z_items = draft.place_of(label_items)
                node.position, node.scale = (x_items, max(y_items, scale * BALL_M), z_items), scale
                last = len(draft.drawn.points) - 1
                colour = START if number == 0 else GOAL if number == last else BETWEEN
                node.color = colour if label_items.startswith("way-point") else EVENT_COLOUR
            else:
                _place_form(node, form_items)
                node.color = _highlight_colour(COLOUR[kind]) if label_items == draft.selected else COLOUR[kind]
            self._name(label_items, draft)
        if film is not None:
            # Let things follow the hand that took them
            if self._carried[0] is not film or self._carried[1] is not draft.drawn:
                self._carried = film, draft.drawn, carried_objects(film, draft.drawn)
            frame = min(max(round(now_s * film.motion.rate_hz), 0), film.num_frames - 1)
            for name, places in self._carried[2].items():
                x, y, z = places[frame].tolist()
                label = f"object {name}"
                self._nodes[label][1].position = (x, max(y, OBJECT_M), z)
                self._names[label].position = (x, y + NAME_M, z)
        if self._gizmo is None:
            self._gizmo = self._scene.add_transform_controls(
                f"{ROOT}/handle",
                scale=GIZMO_M,
                active_axes=(True, False, True),
                disable_rotations=True,
                depth_test=False,
            )
            self._gizmo.on_update(self._drag_item)
        self._gizmo.visible = draft.is_open and bool(draft.selected)
        if draft.selected and not self._held:
            x_gizmo, y_gizmo, z_gizmo = draft.place_of(draft.selected)
            form = draft.form(draft.selected)
            self._gizmo.position = (x_gizmo, y_gizmo if form is None or form.kind == "object" else 0.0, z_gizmo)
        self._label = draft.selected
        self._prints.draw(film if draft.shown["Footprints"] else None)

    def _add(self, label: str, kind: str) -> Any:
        name = f"{ROOT}/item_{next(self._numbers)}"
        if kind in ("mark", "object"):
            node = self._scene.add_icosphere(name, radius=BALL_M if kind == "mark" else OBJECT_M, subdivisions=2)
        elif kind == "stone":
            node = self._scene.add_cylinder(name, radius=0.5, height=1.0)
        else:
            node = self._scene.add_box(name, dimensions=(1.0, 1.0, 1.0), opacity=SEEN_THROUGH.get(kind))
        if kind != "mark":
            node.color = COLOUR[kind]
        node.on_click(partial(self._click, label))
        return node

    def _forget(self, label: str) -> None:
        self._nodes.pop(label)[1].remove()
        if label in self._names:
            self._names.pop(label).remove()

    def _name(self, label: str, draft: SketchEditor) -> None:
        """A label over the ends of the way, over objects and over events."""
        text = item_caption(draft, label)
        if label not in self._names:
            name = f"{ROOT}/name_{next(self._numbers)}"
            self._names[label] = self._scene.add_label(name, text, anchor="bottom-center")
        x, y, z = draft.place_of(label)
        node = self._names[label]
        node.position, node.visible = (x, y + NAME_M, z), bool(text)
        if node.text != text:
            node.text = text

    def _click(self, label: str, _: Any) -> None:
        self._clicked(label)

    def _drag_item(self, event: Any) -> None:
        if event.phase == "start":
            self._held, self._begins = self._label, True
        elif event.phase == "update":
            x, _, z = event.target.position
            self._moved(self._held or self._label, float(x), float(z), self._begins)
            self._begins = False
        else:
            self._held = ""


def is_pick(draft: SketchEditor, label: str) -> bool:
    """Whether an item is a pick, which is seen as its object."""
    number = event_labels(draft.drawn).get(label)
    return number is not None and draft.drawn.events[number].kind == "pick"


def item_caption(draft: SketchEditor, label: str) -> str:
    """What is written over an item: ends of the way, objects and events, with their numbers in the order of doing."""
    ends = {"way-point 1": "start", f"way-point {len(draft.drawn.points)}": "goal"}
    if label in ends:
        return ends[label]
    form = draft.form(label)
    if form is not None and form.kind == "object":
        picks = [n for n, e in enumerate(draft.drawn.events, start=1) if e.kind == "pick" and e.object == form.name]
        return "".join(f"{n}. pick " for n in picks) + form.name
    number = event_labels(draft.drawn).get(label)
    if number is None:
        return ""
    event = draft.drawn.events[number]
    return f"{number + 1}. {event.kind}" + (f" {event.object}" if event.object is not None else "")


class PathEndMark:
    """An end of the way: which way one faces, and how near is near enough."""

    def __init__(self, scene: viser.SceneApi, name: str, colour: tuple[int, int, int]) -> None:
        self._arrow = scene.add_mesh_simple(f"{ROOT}/{name}_facing", *arrow_mesh(), color=colour, side="double")
        self._ring = scene.add_mesh_simple(
            f"{ROOT}/{name}_ring", *ring_mesh(), color=colour, opacity=0.6, side="double"
        )

    def draw(self, place: tuple[float, float], stand: GroundPose) -> None:
        """Follow the sketch."""
        x, z = place
        self._arrow.visible = stand.heading_deg is not None
        self._arrow.position = self._ring.position = (x, 0.0, z)
        self._arrow.wxyz = yaw_rotations(np.radians(np.array([stand.heading_deg or 0.0])))[0]
        self._arrow.scale = (ARROW_M, 1.0, ARROW_M)
        self._ring.scale = (stand.tolerance_m, 1.0, stand.tolerance_m)


class PathLines:
    """The line of the way and the band of its corridor."""

    def __init__(self, scene: viser.SceneApi) -> None:
        rest = Path(np.array([[0.0, 0.0], [0.0, 1.0]]))
        self._band = scene.add_mesh_simple(
            f"{ROOT}/corridor",
            corridor_vertices(rest, 1.0),
            corridor_faces(),
            color=BAND_COLOUR,
            opacity=0.5,
            side="double",
            cast_shadow=False,
            receive_shadow=False,
        )
        self._line = scene.add_line_segments(f"{ROOT}/way", points=path_line(rest), colors=LINE_COLOUR, thickness=0.03)
        self._shown: object = None

    def draw(self, draft: SketchEditor) -> None:
        """Follow the way-points."""
        if draft.drawn is self._shown:
            return
        self._shown, drawn = draft.drawn, draft.drawn
        has_way = drawn.way != FOUND_BY_ENGINE and len(drawn.points) > 1
        self._band.visible = self._line.visible = has_way
        if has_way:
            path = Path(np.array(drawn.points), drawn.way)
            self._band.vertices = corridor_vertices(path, drawn.corridor_m)
            self._line.points = path_line(path)


class ClipFootprints:
    """Where the feet of the clip stand; sent anew only with another clip."""

    def __init__(self, scene: viser.SceneApi) -> None:
        self._node = add_instances(scene, f"{ROOT}/prints", sole_mesh(), MAX_PRINTS, PRINT_COLOUR["left"])
        self._film: ClipFrames | None = None

    def draw(self, film: ClipFrames | None) -> None:
        """Lay the prints of a clip."""
        self._node.visible = film is not None
        if film is None or film is self._film:
            return
        self._film = film
        places, headings, sides = footprints(film)
        on_ground = np.stack([places[:, 0], np.full(len(places), PRINT_Y_M), places[:, 1]], axis=1)
        self._node.batched_positions = pad_rows(on_ground, MAX_PRINTS, 0.0)
        self._node.batched_wxyzs = pad_rows(yaw_rotations(headings), MAX_PRINTS, 0.5)
        self._node.batched_scales = pad_rows(np.ones(len(places)), MAX_PRINTS, HIDDEN_SCALE)
        colours = np.array([PRINT_COLOUR[side] for side in sides]).reshape(-1, 3)
        self._node.batched_colors = pad_rows(colours, MAX_PRINTS, 200).astype(np.uint8)


def _highlight_colour(colour: tuple[int, int, int]) -> tuple[int, int, int]:
    """The colour of a thing that is selected."""
    red, green, blue = (int(0.5 * (part + 255)) for part in colour)
    return red, green, blue


def _place_form(node: Any, form: SketchObject) -> None:
    if form.kind == "object":
        node.position = (form.x, max(form.height_m, OBJECT_M), form.z)
        return
    height = RIVER_M if form.kind == "river" else max(form.height_m, 0.02)
    node.position = (form.x, 0.5 * height, form.z)
    if form.kind == "stone":
        node.wxyz, node.scale = UPRIGHT, (form.width_m, form.width_m, height)
    else:
        node.wxyz = yaw_rotations(np.array([np.radians(form.turn_deg)]))[0]
        node.scale = (form.length_m, height, form.width_m)

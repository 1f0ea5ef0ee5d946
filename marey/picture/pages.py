"""Motions as one web page that plays without a server: clips as arrays, the world around them, a timeline.

The page holds a description (JSON), one block of 32-bit floats (base64) and the player, which is built from ``web/``
and lies beside this file in an installed wheel. It asks nothing of the network.
In a notebook a motion shows itself: a small film strip and its facts; ``NotebookPage(a, b)`` plays motions in the cell.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, MissingFileError, write_atomically
from marey.io import Character
from marey.motion import Motion, find_runs
from marey.picture.bodies import (
    CharacterLike,
    body_of,
    contacts_or_detect,
    find_character,
    joint_sides,
    list_facts,
)
from marey.picture.capsules import encode_srgb
from marey.picture.motions import ground_level
from marey.picture.scene import TriangleMesh
from marey.picture.strips import film_strip
from marey.picture.worlds import build_scenery
from marey.skeleton import contact_points
from marey.world import Sketch, World

VERSION: Final = 1  # of the description; the player refuses another one
PLAYER: Final = Path(__file__).with_name("viewer") / "viewer.js"
PANE_OPACITY: Final = 0.35  # walls are seen through
MARK_HEIGHT_M: Final = 0.002  # marks lie on the ground, and are not lost in it
STROKE_SIDES: Final = 10  # corners of each round end of a stroke
LEVELS: Final = ("green", "amber", "red")

Spans = Sequence[tuple[float, float, str, str]]  # start [s], stop [s], one of LEVELS, a sentence


class _NumberBlock:
    """The page's floats, one array behind another."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0

    def add(self, array: ArrayLike) -> tuple[int, int]:
        """Append an array; return its first element and its count."""
        values = np.ascontiguousarray(array, dtype="<f4")
        if not np.isfinite(values).all():
            raise InputError("a number is not finite in single precision", "Check the motion's unit")
        first, self._count = self._count, self._count + values.size
        self._parts.append(values.tobytes())
        return first, values.size

    def encode(self) -> str:
        return b64encode(b"".join(self._parts)).decode()


def save_page(
    motions: Sequence[Motion],
    path: str | Path,
    *,
    title: str | None = None,
    world: World | Sketch | None = None,
    bands: Sequence[Mapping[str, Spans]] = (),
    character: CharacterLike | None = None,
    body: str = "auto",
    player: str | None = None,
) -> None:
    """Write a page that plays motions side by side, with their contacts and coloured bands on a timeline.

    Args:
        motions: one or several clips; they start together.
        path: the `.html` file to write, whole or not at all.
        title: of the page; the names of the clips by default.
        world: what stands around the bodies.
        bands: for each motion its rows of coloured stretches by name, such as the spans of a validity report.
        character: a character, or its file, on whose skeleton the motions are; by default that of each clip's own
            file, where it holds a skinned mesh.
        body: ``"capsules"`` for plain bodies, ``"mesh"`` to insist on characters, ``"auto"``.
        player: the player's script; the built one by default.

    Raises:
        InputError: there is no motion, a band has an unknown level, or the character has another skeleton.
        MissingFileError: the player is not built.
    """
    if not motions:
        raise InputError("a page needs a motion", "Give at least one clip")
    if bands and len(bands) != len(motions):
        raise InputError(f"there are bands for {len(bands)} of {len(motions)} motions", "Give one mapping for each")
    if player is None and not PLAYER.is_file():
        raise MissingFileError(str(PLAYER), "The player is part of a wheel; in a checkout, build it with `make web`.")
    script = PLAYER.read_text(encoding="utf-8") if player is None else player
    numbers = _NumberBlock()
    rows = bands or [{} for _ in motions]
    characters = [find_character(motion, character, body) for motion in motions]
    clips = [
        describe_clip(motion, band, numbers.add)
        | {
            "skin": None if found is None
            else {key: numbers.add(array) for key, array in bind_skin(found, motion.skeleton.names).items()},
            "roots": numbers.add(motion.root_positions),
            "rotations": numbers.add(np.roll(motion.rotations.wxyz, -1, axis=-1)),
            "translations": None if motion.translations is None else numbers.add(motion.translations),
        }
        for motion, band, found in zip(motions, rows, characters, strict=True)
    ]  # fmt: skip
    levels = [ground_level(motion, contacts_or_detect(motion)) for motion in motions]
    name = title or ", ".join(motion.name for motion in motions)
    header = {
        "version": VERSION,
        "title": name,
        "ground_m": 0.0 if world is not None else min(levels),
        "clips": clips,
        "world": [] if world is None else describe_world(world, numbers.add),
    }
    # `</` would end the script element that holds the description
    description = json.dumps(header, ensure_ascii=False, allow_nan=False).replace("</", "<\\/")
    script = script.replace("</script", "<\\/script")
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(name)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<style>html,body{margin:0;height:100%}</style></head><body>"
        '<main id="marey-player" style="height:100%"></main>'
        f'<script type="application/json" id="marey-header">{description}</script>'
        f'<script type="text/plain" id="marey-numbers">{numbers.encode()}</script>'
        f"<script>{script}</script></body></html>\n"
    )
    write_atomically(Path(path), page)


class NotebookPage:
    """Motions that play in the cell of a notebook, by the page of :func:`save_page`."""

    def __init__(self, *motions: Motion, height_px: int = 480, **options: Any) -> None:
        self.motions, self.height_px, self.options = motions, height_px, options

    def _repr_html_(self) -> str:
        with TemporaryDirectory(prefix="marey-page-") as folder:
            save_page(self.motions, Path(folder) / "page.html", **self.options)
            page = (Path(folder) / "page.html").read_text(encoding="utf-8")
        style = f"width:100%;height:{self.height_px}px;border:0"
        return f'<iframe title="motions" style="{style}" srcdoc="{escape(page)}"></iframe>'


def bind_skin(character: Character, names: Sequence[str]) -> dict[str, ArrayLike]:
    """A character's mesh for the player, carried by joints in the order of ``names``.

    Vertices ``(V, 3)`` [m], faces ``(T, 3)``, four carriers and their weights ``(V, 4)``, and matrices by columns
    ``(J, 4, 4)`` from the mesh to each joint: the rest pose has no rotations, so that a joint's frame is its place.
    """
    order = np.array([list(names).index(name) for name in character.skeleton.names])
    inverse_bind = np.tile(np.eye(4), (len(names), 1, 1))
    inverse_bind[order, 3, :3] = -character.skeleton.rest_positions()
    return {
        "vertices": character.vertices, "faces": character.triangles, "carriers": order[character.joints],
        "weights": character.weights, "inverse_bind": inverse_bind,
    }  # fmt: skip


def describe_clip(motion: Motion, bands: Mapping[str, Spans], add: Callable[[FloatArray], Any]) -> dict[str, Any]:
    """Everything of a clip but its frames, as the player reads it: joints, capsules, contacts, bands, facts.

    ``add`` keeps an array and returns what stands for it in the description.
    """
    skeleton, body = motion.skeleton, body_of(motion).capsules
    contacts = contacts_or_detect(motion)
    carriers = dict(zip(contact_points(skeleton).names, contact_points(skeleton).joints.tolist(), strict=True))
    shapes = np.column_stack([body.starts, body.ends, body.start_radii, body.end_radii])
    for level in (span[2] for spans in bands.values() for span in spans):
        if level not in LEVELS:
            raise InputError(f"'{level}' is no level of a band", f"Use one of {', '.join(LEVELS)}")
    return {
        "name": motion.name,
        "rate_hz": motion.rate_hz,
        "joints": list(skeleton.names),
        "parents": skeleton.parents.tolist(),
        "sides": joint_sides(skeleton).tolist(),
        "offsets": add(skeleton.offsets),
        "capsules": {
            "joints": body.joints.tolist(),
            "sides": joint_sides(skeleton)[body.joints].tolist(),
            "shapes": add(shapes),
        },
        "contacts": [
            {"name": name, "joint": carriers[name], "runs": find_runs(contacts.track(name))}
            for name in contacts.names
            if name in carriers
        ],
        "bands": [
            {"name": name, "spans": [dict(zip(("start_s", "stop_s", "level", "text"), s, strict=True)) for s in spans]}
            for name, spans in bands.items()
        ],
        "facts": [*list_facts(motion), *(("warning", text) for text in motion.load_report.warnings)],
    }


def describe_world(world: World | Sketch, add: Callable[[FloatArray], Any]) -> list[dict[str, Any]]:
    """Things of a world as triangles with one colour, as the player reads them; ``add`` as in :func:`describe_clip`."""
    scenery = build_scenery(world)
    # Strokes on the ground as triangles: the outline of two discs and what lies between them, one above another
    marks = scenery.marks
    meshes: list[TriangleMesh] = []
    turns = np.linspace(-0.5 * np.pi, 0.5 * np.pi, STROKE_SIDES)
    for i in range(len(marks.starts)):
        start, end = marks.starts[i], marks.ends[i]
        way = end - start
        heading = float(np.arctan2(way[1], way[0]))
        outline: FloatArray = np.concatenate(
            [
                centre + radius * np.column_stack([np.cos(angles), np.sin(angles)])
                for centre, radius, angles in (
                    (end, marks.end_radii[i], heading + turns),
                    (start, marks.start_radii[i], heading + np.pi + turns),
                )
            ]
        )
        height = MARK_HEIGHT_M * (1.0 + i / len(marks.starts))
        vertices = np.column_stack([outline[:, 0], np.full(len(outline), height), outline[:, 1]])
        # A fan over a convex outline, seen from above
        fan = [(0, k + 1, k) for k in range(1, len(outline) - 1)]
        mesh = TriangleMesh(vertices, np.array(fan), np.tile(marks.colours[i], (len(outline), 1)))
        if i and np.array_equal(marks.colours[i], marks.colours[i - 1]):
            mesh = TriangleMesh.join([meshes.pop(), mesh])
        meshes.append(mesh)
    things = [*((part, 1.0) for part in (*scenery.parts, *meshes)), (scenery.panes, PANE_OPACITY)]
    return [
        {
            "vertices": add(mesh.vertices),
            "faces": mesh.faces.ravel().tolist(),
            # A thing has one colour
            "colour": "#" + encode_srgb(mesh.colours[0]).astype(np.uint8).tobytes().hex(),
            "opacity": opacity,
        }
        for mesh, opacity in things
        if len(mesh.faces)
    ]


COUNT: Final = 6  # bodies on the strip
WIDTH_PX: Final = 840
MAX_FRAMES: Final = 2000  # of a longer clip every second frame or fewer are looked at
MAX_WARNINGS: Final = 3


def motion_html(motion: Motion) -> str:
    """Return a strip as a picture and a table of facts, as HTML; a clip that cannot be drawn has its facts only."""
    rows = list_facts(motion)
    if motion.contacts is not None:
        rows.append(("contacts", ", ".join(motion.contacts.names)))
    if motion.source is not None:
        rows.append(("file", f"{motion.source.path} ({motion.source.format}, {motion.source.unit})"))
    warnings = motion.load_report.warnings
    rows += [("warning", text) for text in warnings[:MAX_WARNINGS]]
    if len(warnings) > MAX_WARNINGS:
        rows.append(("warning", f"and {len(warnings) - MAX_WARNINGS} more in load_report.warnings"))
    cells = "".join(f"<tr><th style='text-align:left'>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in rows)
    return f"<div><b>{escape(motion.name)}</b>{_strip_tag(motion)}<table>{cells}</table></div>"


def _strip_tag(motion: Motion) -> str:
    """The strip as an image that is part of the page."""
    from PIL import Image as Pillow

    few = motion[:: max(1, motion.num_frames // MAX_FRAMES)]
    try:
        image = film_strip(few, count=COUNT, width=WIDTH_PX, caption=False)
    except Exception as error:  # a notebook shows what there is
        return f"<p>no picture: {escape(str(error))}</p>"
    file = BytesIO()
    Pillow.fromarray(image).save(file, format="PNG")
    return f"<br><img alt='film strip' src='data:image/png;base64,{b64encode(file.getvalue()).decode()}'>"

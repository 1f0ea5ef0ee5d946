"""`marey strip`, `film`, `view` and `plot`: pictures, films, pages and curves of a motion."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from marey.cli.common import (
    MARKER_SUFFIXES,
    expand_inputs,
    load_body_motion,
    load_clip,
    load_world,
    print_json,
    remark,
    write_strip,
)
from marey.cli.options import (
    PLOT_SUFFIXES,
    Clip,
    Clips,
    Json,
    ReadOptions,
    check_picture_file,
    check_target,
    flat_options,
    option,
)

Surroundings = Annotated[str | None, option("Sketch or problem whose world is drawn too.", "--world", metavar="TOML")]
CharacterFile = Annotated[
    str | None,
    option("Character (GLB, FBX) with the clip's skeleton, whose mesh is drawn.", "--character", metavar="FILE"),
]
BodyKind = Annotated[
    str,
    option(
        "capsules, mesh (of the character or of the clip's own file) or auto: the mesh where there is one.",
        "--body",
        choices=("auto", "capsules", "mesh"),
    ),
]


@flat_options
def strip(
    clip: Clip,
    out: Annotated[str, option("Picture to write.", "-o", "--out", show_default=False, callback=check_picture_file)],
    count: Annotated[int, option("Bodies on the strip.", min=1, max=200)] = 8,
    width: Annotated[int, option("Width of the picture [pixel].", min=64, max=8192)] = 1600,
    view: Annotated[
        str,
        option(
            "side, three-quarter, front or top, bodies side by side; auto: nearly from the side, where they were.",
            choices=("auto", "side", "three-quarter", "front", "top"),
        ),
    ] = "auto",
    world: Surroundings = None,
    character: CharacterFile = None,
    body: BodyKind = "auto",
    json: Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Draw a film strip of a motion.

    A solid body at several moments, or the mesh of the clip's own character, with ground, shadow and foot plants.
    """
    motion = load_clip(clip, read)
    write_strip(motion, out, count, width=width, view=view, world=load_world(world), character=character, body=body)
    if json:
        print_json({"file": clip, "out": out, "count": count, "num_frames": motion.num_frames})


@flat_options
def film(
    clip: Clip,
    out: Annotated[
        str, option("Film to write: .gif or .mp4.", "-o", "--out", show_default=False, suffixes=(".gif", ".mp4"))
    ],
    fps: Annotated[float, option("Pictures a second.", min=1, max=240)] = 30.0,
    world: Surroundings = None,
    character: CharacterFile = None,
    body: BodyKind = "auto",
    json: Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Render a motion as a GIF or MP4 film."""
    from marey.picture import save_film

    motion = load_clip(clip, read)
    save_film(motion, out, fps=fps, world=load_world(world), character=character, body=body)
    remark(f"wrote {out}")
    if json:
        print_json({"file": clip, "out": out, "fps": fps, "duration_s": motion.duration_s})


@flat_options
def view(
    clips: Clips,
    out: Annotated[
        str | None,
        option("Page to write; without it, one is opened in the browser.", "-o", "--out", suffixes=(".html",)),
    ] = None,
    world: Surroundings = None,
    physics: Annotated[bool, option("Judge each clip, and show the verdict on its timeline.", "--physics")] = False,
    json: Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Make a page that plays motions side by side, with a timeline of their contacts; it needs no server."""
    from marey.picture import save_page

    files = expand_inputs(clips, MARKER_SUFFIXES)
    motions = [load_body_motion(file, read) for file in files]
    bands: list[dict[str, list[tuple[float, float, str, str]]]] = []
    for motion in motions if physics else ():
        from marey.dynamics import check_validity

        report = check_validity(motion)
        bands.append({"physics": [(span.start_s, span.stop_s, span.status, span.words) for span in report.spans]})
    target = out
    if target is None:
        import tempfile

        # The browser reads the page after this process has ended, so nobody removes it here
        target = str(Path(tempfile.mkdtemp(prefix="marey-")) / "motion.html")
    save_page(motions, target, world=load_world(world), bands=bands)
    remark(f"wrote {target}")
    if out is None:
        import webbrowser

        if not webbrowser.open(Path(target).as_uri()):
            remark(f"no browser opened; open {target}")
    if json:
        print_json({"files": files, "out": target, "num_frames": [motion.num_frames for motion in motions]})


@flat_options
def plot(
    clip: Clip,
    out: Annotated[str, option("Picture to write.", "-o", "--out", show_default=False)],
    joint: Annotated[list[str] | None, option("Joint or role to plot; may be repeated.", "--joint", "-j")] = None,
    contacts: Annotated[bool, option("Plot contacts instead of joint angles.", "--contacts")] = False,
    speed: Annotated[bool, option("Plot speed and height of the root instead.", "--speed")] = False,
    json: Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Plot joint angles, contacts or the speed of the root over time."""
    if (joint is not None) + contacts + speed > 1:
        raise typer.BadParameter("give one of --joint, --contacts and --speed.")
    check_target(out, PLOT_SUFFIXES)
    from marey.contacts import ensure_contacts
    from marey.picture import plot_angles, plot_contacts, plot_speed

    motion = load_clip(clip, read)
    if contacts:
        plot_contacts(motion if motion.contacts is not None else ensure_contacts(motion), out)
    elif speed:
        plot_speed(motion, out)
    else:
        plot_angles(motion, out, joints=joint or None)
    remark(f"wrote {out}")
    if json:
        print_json({"file": clip, "out": out, "num_frames": motion.num_frames})

"""Tools at the border: import, library, export."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import InputError, UnknownNameError, cache_folder
from marey.io import WRITABLE_SUFFIXES
from marey.motion import Motion, assess_motion, standing_height
from marey.pipeline.recipes import RecipeBundle, format_toml
from marey.pipeline.tools import Parameter, Settings, Tool, ToolContext, ToolResult, need_motion, stop_if_cancelled
from marey.skeleton import RoleMap, Skeleton, role_map
from marey.studio.tools.clips import MOTION, ROLES

UNITS: Final = ("as read", "file", "m", "cm", "mm", "inch", "cmu")
AXES: Final = ("as read", "y", "z", "x", "-y", "-z", "-x")
MOTION_FORMATS: Final = tuple(suffix.removeprefix(".") for suffix in WRITABLE_SUFFIXES)
VIEWS: Final = ("three-quarter", "side", "front", "top")
THUMBNAIL_FRAMES: Final = 32
MAX_CLIPS: Final = 200  # of one file
MARKER_SUFFIXES: Final = (".c3d", ".trc")


def _list_clips(context: ToolContext, settings: Settings) -> ToolResult:
    from marey.io import clips, load

    path = context.file(str(settings["file"] or ""))
    if Path(path).suffix.lower() in MARKER_SUFFIXES:
        return ToolResult(text="markers", report={"clips": [], "joints": []})
    names = clips(path)
    joints = list(load(path, clip=names[0] if names else None).skeleton.names)
    return ToolResult(text=f"{len(names)} clips", report={"clips": list(names), "joints": joints})


def _import(context: ToolContext, settings: Settings) -> ToolResult:
    from marey.io import clips, find_subject, load, load_markers

    path = context.file(str(settings["file"] or ""))
    known: dict[str, Any] = {"rate_hz": settings["rate_hz"]}
    known |= {name: None if settings[name] == "as read" else settings[name] for name in ("unit", "up")}
    is_markers = Path(path).suffix.lower() in MARKER_SUFFIXES
    # Markers are one clip, and so is the pose of a character without an animation
    names = (None,) if is_markers else clips(path) or (None,)
    wanted = settings["clips"] or names
    for name in wanted:
        if name not in names:
            raise UnknownNameError("clip", str(name), "the file", [str(one) for one in names])
    if not wanted or len(wanted) > MAX_CLIPS:
        raise InputError(f"the file holds {len(names)} clips", f"Pick 1 to {MAX_CLIPS} of them")
    found: dict[str, Motion] = {}
    rows: list[dict[str, Any]] = []
    for number, name in enumerate(wanted):
        stop_if_cancelled(context)
        context.progress(number / len(wanted), f"reading {name or Path(path).name}")
        if is_markers:
            # A body is fitted to them, as tall as the file says
            from marey.kinematics import fit_markers

            subject = find_subject(path)
            fit = fit_markers(load_markers(path, **known), height_m=None if subject is None else subject.height_m)
            belt = "" if fit.belt is None else f", on a treadmill at {fit.belt.speed_mps:.2f} m/s"
            note = f"a body was fitted to {len(fit.sites)} markers, {1e3 * fit.rms_m:.1f} mm RMS{belt}"
            motion = fit.over_ground()
            motion = replace(motion, load_report=motion.load_report.adding(notes=[note]))
        else:
            motion = load(path, clip=name, **known)
        # A clip that is alone in its file is called like the file
        label = str(settings["name"] or Path(path).stem) if len(names) == 1 else str(name)
        if settings["roles"]:
            motion = replace(motion, skeleton=name_by_roles(motion.skeleton, settings["roles"]))
        found[label] = replace(motion, name=label)
        rows.append(describe_reading(found[label]))
    first = next(iter(found.values()))
    text = f"{len(found)} clip{'' if len(found) == 1 else 's'} read"
    return ToolResult(first, rows, text, report={"clips": [n for n in names if n is not None]}, motions=found)


def name_by_roles(skeleton: Skeleton, given: Mapping[str, str]) -> Skeleton:
    """Give joints the names of their roles, so that every engine finds them: those that were told, then the guessed."""
    told = RoleMap.from_names(skeleton, given).joints
    names = {joint: role for role, joint in role_map(skeleton).joints.items() if role not in told}
    names |= {joint: role for role, joint in told.items()}
    # A joint that has lost its role may not keep the role's name
    others = (f"{name} (other)" if name in names.values() else name for name in skeleton.names)
    return replace(skeleton, names=tuple(names.get(joint, name) for joint, name in enumerate(others)))


def describe_reading(motion: Motion) -> dict[str, Any]:
    """What the reader decided about a clip."""
    roles, source, is_human = role_map(motion.skeleton), motion.source, bool(assess_motion(motion).is_human)
    return {
        "name": motion.name, "frames": motion.num_frames, "rate_hz": motion.rate_hz,
        "unit": "m" if source is None else source.unit, "up": "+y" if source is None else source.up,
        "height_m": standing_height(motion.skeleton, roles) if is_human else None, "is_human": is_human,
        "roles": {role: motion.skeleton.names[joint] for role, joint in roles.joints.items()},
    }  # fmt: skip


# Library


def _library(context: ToolContext, settings: Settings) -> ToolResult:
    from marey import samples
    from marey.library import Library, Query

    action, text = settings["action"], str(settings["text"] or "")
    if action == "load" and settings["clip"] in samples.names():
        motion = samples.load(settings["clip"])
        return ToolResult(motion, [describe_reading(motion)], f"'{motion.name}' ships with marey")
    with closing(Library(cache_folder() / "library")) as library:
        words = tuple(word.strip() for word in str(settings["tags"] or "").split(",") if word.strip())
        if action == "search":
            behaviour = settings["behaviour"] or None
            low, high = settings["speed_mps"] or (None, None)
            query = Query(tags=words, behaviour=behaviour, text=text or None, speed_mps=(low, high))
            rows = [_row(record) for record in library.clips(query)]
            shipped = [n for n in samples.names() if text.lower() in n.lower() and not (words or behaviour)]
            rows += [{"id": name, "name": name, "tags": ["shipped"], "source": "marey"} for name in shipped]
            return ToolResult(None, rows, f"{len(rows)} clips")
        if action == "add":
            added = library.add_motion(need_motion(context, settings), tags=words)
            return ToolResult(None, [_row(record) for record in library.clips()], str(added))
        key = str(settings["clip"] or "")
        if action == "remove":
            return ToolResult(None, [_row(record) for record in library.remove(key)], "removed")
        motion = library.load(key)
        if action == "tag":
            # A clip that is there already gets more tags
            library.add_motion(motion, tags=words)
        return ToolResult(motion if action == "load" else None, [_row(library.find(key))], f"'{motion.name}'")


def _show_thumbnail(context: ToolContext, settings: Settings) -> ToolResult:
    """Places of the joints ``(n, J, 2)`` [m] seen from the side the body walks across, under its root; and parents."""
    from marey import samples
    from marey.library import Library

    name = str(settings["clip"])
    if name in samples.names():
        motion = samples.load(name)
    else:
        with closing(Library(cache_folder() / "library")) as library:
            motion = library.load(name)
    frames = np.linspace(0, motion.num_frames - 1, THUMBNAIL_FRAMES).round().astype(int)
    places = motion.joint_positions()[frames]
    way = places[-1, 0] - places[0, 0]
    ahead = np.array([way[0], 0.0, way[2]]) if np.hypot(way[0], way[2]) > 0.3 else np.array([0.0, 0.0, 1.0])
    ahead /= np.linalg.norm(ahead)
    root = places[:, :1] * [1.0, 0.0, 1.0] + [0.0, places[..., 1].min(), 0.0]
    flat = np.stack([(places - root) @ ahead, (places - root)[..., 1]], axis=-1)
    report = {"parents": motion.skeleton.parents.tolist(), "seconds": motion.duration_s}
    return ToolResult(text=motion.name, report=report, arrays={"places": flat})


def _row(record: Any) -> dict[str, Any]:
    names = ("id", "name", "behaviour", "duration_s", "rate_hz", "mean_speed_mps", "height_m", "format", "source")
    return {name: getattr(record, name) for name in names} | {"tags": list(record.tags)}


# Export


def _export(context: ToolContext, settings: Settings) -> ToolResult:
    kind = settings["format"]
    if kind == "recipe":
        from marey.studio import tools

        bundle = RecipeBundle(context, tools.TOOLS)
        bundle.add_take(str(settings["motion"] or ""), "recipe.toml")
        text = f"recipe.zip with {len(bundle.files)} files: unpack it and `marey run recipe.toml`"
        return ToolResult(text=text, files={"recipe.zip": bundle.to_zip()}, report={"files": sorted(bundle.files)})
    if kind == "sketch":
        tree = context.project.get("sketch")
        if not tree:
            raise InputError("there is no sketch", "Draw a path first")
        return ToolResult(text="sketch.toml", files={"sketch.toml": format_toml(tree).encode()})
    motion = need_motion(context, settings)
    suffix = ".png" if kind == "strip" else f".{kind}"
    stem = re.sub(r"[^\w.-]+", "-", motion.name).strip("-.") or "motion"
    onto = context.file(settings["character"]) if settings["character"] else None
    with tempfile.TemporaryDirectory(prefix="marey-export-") as folder:
        file = Path(folder) / f"{stem}{suffix}"
        context.progress(0.1, f"writing {file.name}")
        _write(motion, file, kind, onto, context, settings)
        data = file.read_bytes()
    return ToolResult(
        None, text=f"{file.name}, {len(data) / 1e6:.2f} MB", files={file.name: data},
        report={"frames": motion.num_frames, "rate_hz": motion.rate_hz, "bytes": len(data)},
    )  # fmt: skip


def _write(motion: Motion, file: Path, kind: str, onto: str | None, context: ToolContext, settings: Settings) -> None:
    if kind in MOTION_FORMATS:
        import marey

        options = {"root": "bone"} if settings["root_bone"] else {}
        marey.save(motion, file, onto=onto, **options)
        return
    character = None
    if onto is not None:
        from marey.io import load_character
        from marey.kinematics import retarget

        character = load_character(onto)
        motion = retarget(motion, character.skeleton)
    if kind == "marey":
        from marey.compression import compress

        file.write_bytes(compress(motion))
    elif kind == "strip":
        from marey.picture import film_strip, save_image

        view = "auto" if settings["view"] == VIEWS[0] else settings["view"]
        save_image(film_strip(motion, count=settings["count"], view=view, character=character), file)
    elif kind == "html":
        from marey.dynamics import check_validity
        from marey.picture import save_page

        report = check_validity(motion)
        save_page(
            [motion], file, bands=[{"validity": [(s.start_s, s.stop_s, s.status, s.words) for s in report.spans]}]
        )
    else:
        from marey.picture import save_film

        def tell(done: int, of: int) -> None:
            stop_if_cancelled(context)
            context.progress(done / of, f"picture {done} of {of}")

        save_film(motion, file, view=settings["view"], character=character, progress=tell)


TOOLS: Final = (
    Tool(
        "import", "Import", "File", "Read motion and marker files; see what the reader decided, and correct it.",
        "job", _import,
        (
            Parameter("file", "file", help="FBX, BVH, GLB, USD, C3D, TRC, npz, ASF/AMC, MVNX and others."),
            Parameter("name", "text", help="Of the clip; its own without it."),
            Parameter("clips", "table", shape="words", help="Which clips of the file; all without it."),
            Parameter("unit", "choice", "as read", choices=UNITS, help="Unit of length, where the guess is wrong."),
            Parameter("rate_hz", "float", None, "Hz", 1.0, 1000.0, help="Frames per second, where the file is wrong."),
            Parameter("up", "choice", "as read", choices=AXES, help="Vertical axis, where the guess is wrong."),
            ROLES,
        ), "i",
    ),
    Tool("contents", "Contents", "", "Clips and joints of an uploaded file.", "ask", _list_clips,
         (Parameter("file", "file", help="The file."),)),
    Tool(
        "library", "Library", "File", "Search clips by words, tags, behaviour and speed; keep your own.", "ask",
        _library,
        (
            Parameter("action", "choice", "search", choices=("search", "load", "add", "tag", "remove"),
                      help="What to do."),
            Parameter("text", "text", "", help="Words of names, folders, tags."),
            Parameter("tags", "text", "", help="Tags, with commas between."),
            Parameter("behaviour", "choice", "", choices=("", "walk", "run", "jump", "stand", "other"),
                      help="What people do in it."),
            Parameter("speed_mps", "range", None, "m/s", 0.0, 20.0, help="Mean speed."),
            Parameter("clip", "text", "", help="Name or id of the clip to load, tag or remove."),
            Parameter("motion", "clip", help="The clip to add."),
        ), "l",
    ),
    Tool("thumbnail", "Thumbnail", "", "A small moving figure of a clip of the library.", "ask", _show_thumbnail,
         (Parameter("clip", "text", "", help="Name or id of the clip."),)),
    Tool(
        "export", "Export", "File", "Write a take in any format, onto your character, as pictures, film or page.",
        "job", _export,
        (
            MOTION,
            Parameter("format", "choice", "glb",
                      choices=(*MOTION_FORMATS, "marey", "strip", "gif", "mp4", "html", "recipe", "sketch"),
                      help="marey is compressed, strip a picture, html a page that plays, recipe for `marey run`."),
            Parameter("character", "file", help="Your character; the motion is put on it."),
            Parameter("root_bone", "bool", False, help="Root motion on a bone of its own (glb, fbx, usda, bvh)."),
            Parameter("view", "choice", VIEWS[0], choices=VIEWS, help="Of pictures and films."),
            Parameter("count", "int", 8, "", 2, 40, help="Bodies of a strip."),
        ), "e",
    ),
)  # fmt: skip

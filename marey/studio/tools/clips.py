"""Tools over whole clips: clean, retarget, hold feet, measure, and strips of takes put one behind another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from marey.base import InputError
from marey.motion import Motion, join_motions
from marey.pipeline.cleaning import OPTIONAL_STEPS, STEPS
from marey.pipeline.takes import Tree, cut_strip, edit_motion, fit_strip
from marey.pipeline.tools import Parameter, Settings, Tool, ToolContext, ToolResult, need_motion, stop_if_cancelled
from marey.skeleton import HUMAN

MOTION: Final = Parameter("motion", "clip", help="The clip or take to work on.")
ROLES: Final = Parameter("roles", "table", shape="map", columns=(Parameter("joint", "joint"),), choices=HUMAN.names,
                         help="Joints of the motion by role, where the reader guessed wrong.")  # fmt: skip
ANY_COLUMNS: Final = (Parameter("*", "text"),)
STRIP_COLUMNS: Final = (
    Parameter("take", "take", is_required=True),
    *(Parameter(name, "float", None, "s", -1e6, 1e6) for name in ("start_s", "in_s", "out_s", "blend_s")),
    Parameter("loop", "float", 1.0, "", 1.0, 1000.0),
    Parameter("*", "text"),
)
STEP_HELP: Final = {
    "time-base": "Play at the rate of the capture, drop repeated frames.",
    "gaps": "Fill frames in which joints froze.",
    "exchanges": "Undo exchanged left and right limbs.",
    "flips": "Undo sudden turns of joints and back.",
    "spikes": "Remove single wrong frames.",
    "jumps": "Undo jumps of the root.",
    "limits": "Straighten knees and elbows that bend backwards.",
    "tremor": "Smooth tremor, and keep fast motion.",
    "floor": "Level a tilted floor and bring it to height zero.",
    "plants": "Hold feet where they stand.",
    "repair": "Repair stretches that break physics; slow.",
}


def _clean(context: ToolContext, settings: Settings) -> ToolResult:
    from marey.pipeline import clean_motion

    motion = need_motion(context, settings)
    wanted = [name for name in STEPS if settings[name]]
    done: list[str] = []

    def tell(step: str) -> None:
        stop_if_cancelled(context)
        context.progress(len(done) / max(len(wanted), 1), f"{step}: {STEP_HELP[step]}")
        done.append(step)

    result = clean_motion(motion, steps=wanted, progress=tell)
    rows, faults = compare_with_source(motion, result.motion)
    steps = [{"step": s.name, "sentence": s.sentence, "found": list(s.findings)} for s in result.steps]
    return ToolResult(result.motion, rows, result.sentence, report={"steps": steps, "faults": faults})


def compare_with_source(before: Motion, after: Motion) -> tuple[list[dict[str, Any]], list[str]]:
    """What the meter says before and after, one row for each figure, and the faults that are left."""
    from marey.measure import measure_motion

    found = measure_motion(after, against=before)
    rows = [
        {"measure": one.name, "unit": one.unit, "before": one.source, "after": one.value}
        for one in found.figures
        if one.source is not None
    ]
    return rows, [str(fault) for fault in found.faults]


def _measure(context: ToolContext, settings: Settings) -> ToolResult:
    from marey.measure import measure_motion

    motion = need_motion(context, settings)
    against = None if not settings["against"] else context.motion(settings["against"])
    kind = None if settings["kind"] == "auto" else settings["kind"]
    found = measure_motion(motion, against=against, kind=kind)
    return ToolResult(
        None, found.table_rows(), found.sentence,
        report={"kind": found.kind, "faults": [str(fault) for fault in found.faults], **found.to_json()},
    )  # fmt: skip


def _retarget(context: ToolContext, settings: Settings) -> ToolResult:
    from marey.io import load, load_character
    from marey.kinematics import solve_retarget
    from marey.skeleton import RoleMap

    motion = need_motion(context, settings)
    context.progress(0.1, "reading the character")
    character = None
    if settings["character"]:
        path = context.file(settings["character"])
        try:
            character = load_character(path)
            target = character.skeleton
        except InputError:
            target = load(path).skeleton  # a motion file without a mesh still has a skeleton
    elif settings["target"]:
        target = context.motion(settings["target"]).skeleton
    else:
        target = HUMAN
    stop_if_cancelled(context)
    roles = RoleMap.from_names(motion.skeleton, settings["roles"]) if settings["roles"] else None
    context.progress(0.3, f"onto {target.name}, {len(target.names)} joints")
    done = solve_retarget(motion, target, contacts=settings["contacts"], hands=settings["hands"], roles=roles)
    report = {**done.report.to_json(), "warnings": list(done.report.warnings())}
    report["broken"] = [str(plant) for plant in done.report.broken]
    return ToolResult(done.motion, text="; ".join(done.report.sentences()), report=report)


def _hold(context: ToolContext, settings: Settings) -> ToolResult:
    from math import radians

    from marey.contacts import hold_feet, pigeon_toe

    motion = need_motion(context, settings)
    context.progress(0.2, "holding the feet")
    turn = settings["toes_in_deg"]
    done = hold_feet(motion, floor_m=settings["floor_m"], edit=pigeon_toe(radians(turn)) if turn else None)
    return ToolResult(done.motion, compare_with_source(motion, done.motion)[0], done.sentence, report=done.to_json())


def _bake(context: ToolContext, settings: Settings) -> ToolResult:
    motion = need_motion(context, settings)
    layers, edits = settings["layers"] or (), settings["edits"] or ()
    made = edit_motion(motion, layers, edits)
    return ToolResult(made, text=f"{len(layers)} layers and {len(edits)} edits baked into {made.num_frames} frames")


def _join_strips(context: ToolContext, settings: Settings) -> ToolResult:
    strips: list[Tree] = sorted(settings["strips"] or (), key=lambda strip: float(strip.get("start_s", 0.0)))
    if not strips:
        raise InputError("there are no strips", "Put a take on the timeline first")
    whole = cut_strip(context.motion, strips[0])
    for number, strip in enumerate(strips[1:], 1):
        stop_if_cancelled(context)
        context.progress(number / len(strips), f"strip {number + 1} of {len(strips)}")
        whole = join_motions(whole, fit_strip(context.motion, strip, whole), float(strip.get("blend_s", 0.0)))
    if settings["hold_feet"] and len(strips) > 1:
        from marey.contacts import hold_feet

        whole = hold_feet(replace(whole, contacts=None)).motion
    return ToolResult(whole, text=f"{len(strips)} strips, {whole.duration_s:.2f} s")


TOOLS: Final = (
    Tool(
        "clean", "Clean", "Clip", "Remove faults of a captured take; each step says what it found.", "job", _clean,
        (
            MOTION,
            *(Parameter(step, "bool", step not in OPTIONAL_STEPS, help=STEP_HELP[step]) for step in STEPS),
        ), "c",
    ),
    Tool(
        "retarget", "Retarget", "Clip", "Put a motion on another body or on your character.", "job", _retarget,
        (
            MOTION,
            Parameter("character", "file", help="Your character: .glb, .gltf, .fbx, or any motion file's skeleton."),
            Parameter("target", "clip", help="Skeleton of another clip; the canonical human by default."),
            Parameter("hands", "choice", "directions", choices=("directions", "positions", "touch"),
                      help="What to keep: directions of arms, positions of hands, or touches of the body."),
            Parameter("contacts", "bool", True, help="Hold the feet where the motion has them down."),
            ROLES,
        ), "r",
    ),
    Tool(
        "hold", "Hold feet", "Clip", "Keep feet where they stand, over the whole clip at once.", "job", _hold,
        (
            MOTION,
            Parameter("floor_m", "float", None, "m", -10.0, 10.0, help="Height of the floor; fitted without it."),
            Parameter("toes_in_deg", "float", 0.0, "°", -60.0, 60.0, help="Turn the toes of both feet inwards."),
        ),
    ),
    Tool(
        "measure", "Measure", "Check", "Figures of a clip beside those of captured people; its faults.", "ask",
        _measure,
        (
            MOTION,
            Parameter("against", "clip", help="Source clip, for a table of before and after."),
            Parameter("kind", "choice", "auto", choices=("auto", "walk", "run", "jump", "other"),
                      help="Kind of motion, where the guess is wrong."),
        ), "m",
    ),
    Tool(
        "bake", "Bake", "Pose", "Put layers and edits into the clip.", "job", _bake,
        (
            MOTION,
            Parameter("layers", "table", shape="rows", columns=ANY_COLUMNS,
                      help="Layers: weight, mask, keys with time, joint, rotation or offset."),
            Parameter("edits", "table", shape="rows", columns=ANY_COLUMNS, help="trim, contact, pin, mirror, rate."),
        ),
    ),
    Tool(
        "strips", "Join strips", "Timeline", "Make one clip of the strips on the timeline.", "job", _join_strips,
        (
            Parameter("strips", "table", shape="rows", columns=STRIP_COLUMNS, help="Takes on the timeline."),
            Parameter("hold_feet", "bool", True, help="Hold the feet of the joined clip anew."),
        ),
    ),
)  # fmt: skip

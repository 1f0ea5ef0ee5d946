"""Posing: drags of joints into key frames of a layer, ends of contacts, and clips through key poses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from marey.base import InputError, UnknownNameError, frozen
from marey.contacts import hold_feet
from marey.kinematics import BoxLimits, ConeLimits, JointLimits, fill_in_betweens, load_limits
from marey.kinematics.posing import METHODS, MODE_RANGE, NUM_MODES, PoseEditor
from marey.models import load_in_betweens
from marey.motion import KeyFrames, Layer, Motion, key_pose
from marey.pipeline.takes import TOLD_HOLD, edit_contacts, edit_motion, list_plants, read_layers, write_layer
from marey.pipeline.tools import (
    DragAnswer,
    Parameter,
    Settings,
    Tool,
    ToolContext,
    ToolResult,
    find_frame,
    need_motion,
    pose_arrays,
    read_point,
    stretch_arrays,
)
from marey.skeleton import Pose, assess_anatomy
from marey.studio.tools.clips import MOTION

if TYPE_CHECKING:
    from marey.models import PoseModel

LIMITS: Final = ("anatomical", "box of this clip", "cone of this clip", "none")
LIMIT_MARGIN_RAD: Final = 0.1  # round what the clip shows
SPACES: Final = ("all joints", "pose space")
WAYS: Final = ("as people move", *SPACES)
AROUND_S: Final = 1.5  # [s] of the clip to both sides of a contact that a drag computes


def choose_limits(context: ToolContext, settings: Settings, motion: Motion) -> JointLimits | None:
    """Limits of a file or that a clip shows; ``None`` for anatomical ones, which solvers know, and for none."""
    if settings["limits_file"]:
        return load_limits(context.file(settings["limits_file"]))
    name, kinds = settings["limits"], {LIMITS[1]: BoxLimits, LIMITS[2]: ConeLimits}
    return kinds[name].from_clips([motion], margin_rad=LIMIT_MARGIN_RAD) if name in kinds else None


def fit_pose_space(motion: Motion) -> PoseModel:
    """Coordinates of the poses of a clip."""
    from marey.models import PGA

    return PGA(explained=0.95).fit(motion)


class PoseDrag:
    """Inverse kinematics under the pointer; keys of a layer at its end."""

    def __init__(self, context: ToolContext, settings: Settings) -> None:
        self._context, self._settings = context, settings
        self._motion = need_motion(context, settings)
        self._time_s = float(settings["time_s"])
        self.editor = PoseEditor(self._motion[find_frame(self._motion, self._time_s)])
        names, editor = self._motion.skeleton.names, self.editor
        own = {names[joint]: handle for handle, joint in editor.joints.items()}
        for joint in map(str, (*(settings["pins"] or ()), *(settings["free"] or ()))):
            handle = own.get(joint, joint)
            editor.joints[handle] = self._motion.skeleton.index(joint)
            (editor.held.discard if joint in (settings["free"] or ()) else editor.held.add)(handle)
        editor.method = settings["method"]
        own_limits = choose_limits(context, settings, self._motion)
        # The solver finds the anatomical ones by itself
        editor.limits = cast(Any, "auto") if own_limits is None and settings["limits"] == LIMITS[0] else own_limits
        if settings["space"] == SPACES[1]:
            editor.model, editor.is_reduced = fit_pose_space(self._motion), True
        self._handles = own
        editor.release()  # goals of joints that were just pinned are where the pose has them

    def move(self, args: Settings) -> DragAnswer:
        """Bring ``joint`` to ``target`` [m], or ``mode`` to so many ``deviations``."""
        editor = self.editor
        if args.get("mode") is not None:
            editor.model = editor.model or fit_pose_space(self._motion)
            editor.set_mode(int(args["mode"]), float(args["deviations"]))
            return self._answer()
        joint = str(args.get("joint") or self._settings.get("joint") or "")
        handle = self._handles.get(joint, joint)
        if handle not in editor.joints:
            editor.joints[handle] = self._motion.skeleton.index(joint)
        target = read_point(args.get("target"), "target")
        editor.drag(handle, target)
        return self._answer()

    def end(self, args: Settings) -> ToolResult:
        """Keys of the pose: a new layer, or more keys of the one that was chosen."""
        if args.get("target") is not None or args.get("mode") is not None:
            self.move(args)
        take = self._context.project.get("takes", {}).get(self._settings["motion"], {})
        wanted = self._settings["layer"]
        layers = [layer for layer in take.get("layers", ()) if layer.get("id") == wanted] if wanted else []
        layer = read_layers(layers)[0] if layers else Layer()
        around = self._settings["around_s"] or None
        keyed = write_layer(key_pose(layer, self._motion, self.editor.state.pose, self._time_s, around_s=around))
        if not keyed["keys"]:
            return ToolResult(text="nothing moved")
        if layers:
            return ToolResult(text="keys set", report={"keys": {"layer": wanted, "keys": keyed["keys"]}})
        return ToolResult(text="a layer with keys", report={"layer": {"name": "Pose", **keyed}})

    def _answer(self) -> DragAnswer:
        pose, result = self.editor.state.pose, self.editor.result
        facts: dict[str, Any] = {}
        if result is not None:
            facts["status"] = result.status.name.lower()
            facts["off_mm"] = round(1e3 * result.position_error_m, 2)
            facts["planted"], facts["advice"] = list(result.planted), result.advice
        if self.editor.model is not None:
            facts["modes"] = [round(value, 4) for value in self.editor.modes()[:NUM_MODES].tolist()]
        return DragAnswer(pose_arrays(pose), facts)


class ContactDrag:
    """The end of a contact under the pointer: feet follow in a stretch around it."""

    def __init__(self, context: ToolContext, settings: Settings) -> None:
        self._settings = settings
        self._motion = need_motion(context, settings)
        held = hold_feet(self._motion)
        self._seen = held.motion.contacts
        if self._seen is not None and settings["point"] not in self._seen.names:
            raise UnknownNameError("contact point", str(settings["point"]), "the clip", self._seen.names)

    def move(self, args: Settings) -> DragAnswer:
        """Let the contact last from ``to_s[0]`` to ``to_s[1]``."""
        edit, rate = self._edit(args), self._motion.rate_hz
        assert self._seen is not None
        contacts = edit_contacts(self._seen, rate, [edit])
        times = [time for name in ("from_s", "to_s") for time in edit.get(name) or ()]
        first = find_frame(self._motion, min(times) - AROUND_S)
        last = find_frame(self._motion, max(times) + AROUND_S) + 1
        part = type(contacts)(contacts.names, contacts.active[first:last])
        done = hold_feet(self._motion[first:last], part, TOLD_HOLD)
        facts = {"first": first, "broken": [str(plant) for plant in done.broken], "sentence": done.sentence}
        return DragAnswer(stretch_arrays(done.motion), facts)

    def end(self, args: Settings) -> ToolResult:
        """The edit of the take."""
        edit = self._edit(args)
        return ToolResult(text=f"contact of {edit['point']}", report={"edit": edit})

    def _edit(self, args: Settings) -> dict[str, Any]:
        edit: dict[str, Any] = {"kind": "contact", "point": self._settings["point"]}
        wanted = (("from_s", self._settings["from_s"]), ("to_s", args.get("to_s")))
        edit |= {name: [float(t) for t in value] for name, value in wanted if value is not None}
        if len(edit) == 2:
            raise InputError("a contact without times", "Give to_s, from_s or both")
        return edit


class PlantDrag:
    """A footprint under the pointer: the foot stands elsewhere, and the swings before and after lead there."""

    def __init__(self, context: ToolContext, settings: Settings) -> None:
        self._settings, motion = settings, need_motion(context, settings)
        start_s, stop_s = settings["while_s"]
        self._first = find_frame(motion, start_s - AROUND_S)
        self._part = motion[self._first : find_frame(motion, stop_s + AROUND_S) + 1]

    def move(self, args: Settings) -> DragAnswer:
        """Stand at ``to`` [m], turned by ``turn_deg``."""
        made = edit_motion(self._part, edits=[self._edit(args)])
        return DragAnswer(stretch_arrays(made), {"first": self._first})

    def end(self, args: Settings) -> ToolResult:
        """The edit of the take."""
        return ToolResult(text=f"{self._settings['foot']} foot moved", report={"edit": self._edit(args)})

    def _edit(self, args: Settings) -> dict[str, Any]:
        to = frozen(args.get("to", self._settings["place"]), 2, name="to").tolist()
        told = {"foot": self._settings["foot"], "from": self._settings["place"], "to": to}
        return {"kind": "plant", **told, "turn_deg": float(args.get("turn_deg", 0.0))}


def _list_plants(context: ToolContext, settings: Settings) -> ToolResult:
    found = list_plants(need_motion(context, settings))
    return ToolResult(None, found, f"{len(found)} foot plants")


def _between(context: ToolContext, settings: Settings) -> ToolResult:
    """A clip through poses of the timeline."""
    poses = settings["poses"] or ()
    if not poses:
        raise InputError("no pose is chosen", "Take poses from the timeline first")
    keys: KeyFrames | None = None
    first: Motion | None = None
    for row in poses:
        motion = context.motion(str(row.get("motion") or settings["motion"]))
        first = first or motion
        keys = keys or KeyFrames(motion.skeleton)
        pose = motion[find_frame(motion, float(row.get("at_s", row["time_s"])))]
        if row.get("place") is not None:
            root = pose.root_position.copy()
            root[[0, 2]] = frozen(row["place"], 2, name="place")
            pose = Pose(pose.skeleton, root, pose.rotations)
        keys = keys.with_key(float(row["time_s"]), pose)
    assert keys is not None
    assert first is not None
    model = fit_pose_space(first) if settings["space"] == SPACES[1] else None
    # A creature has no people to move as
    is_human = assess_anatomy(first.skeleton).is_human
    prior = load_in_betweens() if settings["space"] == WAYS[0] and is_human else None
    limits = choose_limits(context, settings, first)
    hold = settings["hold_feet"]
    done = fill_in_betweens(keys, settings["rate_hz"], model=model, prior=prior, limits=limits, hold_feet=hold)
    way = "" if is_human or settings["space"] != WAYS[0] else ", moved smoothly: this is no human"
    return ToolResult(done.motion, text=f"{len(poses)} poses, feet within {1e3 * done.slide_m:.1f} mm{way}")


def _encode(context: ToolContext, settings: Settings) -> ToolResult:
    motion = need_motion(context, settings)
    model = fit_pose_space(motion)
    count = min(settings["components"], model.num_components)
    values = model.encode(motion)[:, :count] / model.deviations[:count]
    return ToolResult(text=f"{count} of {model.num_components} coordinates", arrays={"coordinates": values})


_CHOICES: Final = (
    Parameter("limits", "choice", LIMITS[0], choices=LIMITS, help="How far joints may turn."),
    Parameter("limits_file", "file", help="Your own limits, such as sculpted ones: `marey limits` writes them."),
    Parameter("space", "choice", SPACES[0], choices=SPACES, help="Move all joints, or within poses like this clip's."),
)
TOOLS: Final = (
    Tool(
        "pose", "Pose", "Pose", "Drag a joint; the body follows within its limits. Letting go sets key frames.",
        "drag", PoseDrag,
        (
            MOTION,
            Parameter("time_s", "float", 0.0, "s", 0.0, help="Time of the pose: the playhead."),
            Parameter("joint", "joint", help="The joint that is dragged."),
            Parameter("layer", "text", "", help="Layer that gets the keys; a new one without it."),
            Parameter("around_s", "float", 0.5, "s", 0.0, 60.0, help="Time of fading; 0 changes the whole clip."),
            Parameter("pins", "table", shape="words", help="Joints to hold in place, besides hands, feet and head."),
            Parameter("free", "table", shape="words", help="Joints to release."),
            *_CHOICES,
            Parameter("method", "choice", METHODS[0], choices=METHODS, help="Solver."),
            Parameter("deviations", "float", 0.0, "σ", -MODE_RANGE, MODE_RANGE, help="Value of a pose mode."),
        ), "p",
    ),
    Tool(
        "contacts", "Contacts", "Pose", "Drag ends of contacts on the timeline; the feet follow.", "drag", ContactDrag,
        (
            MOTION,
            Parameter("point", "text", "", help="left_heel, left_toe, right_heel, right_toe."),
            Parameter("from_s", "range", None, "s", 0.0, help="When the contact lasts now; none for a new one."),
        ),
    ),
    Tool(
        "footprints", "Footprints", "Pose", "Drag where a foot stands; its end turns it. The body follows.", "drag",
        PlantDrag,
        (
            MOTION,
            Parameter("foot", "choice", "left", choices=("left", "right"), help="Which foot."),
            Parameter("place", "points", [0.0, 0.0], "m", help="Where it stands now: x and z of its ankle."),
            Parameter("while_s", "range", [0.0, 1.0], "s", 0.0, help="When it stands there."),
        ),
    ),
    Tool("plants", "Foot plants", "", "Where and when feet stand.", "ask", _list_plants, (MOTION,)),
    Tool(
        "between", "In-betweens", "Pose", "Make a clip through poses taken from the timeline.", "job", _between,
        (
            MOTION,
            Parameter("poses", "table", shape="rows", help="Key poses; 'At' is the time in their clip.", columns=(
                Parameter("time_s", "float", None, "s", 0.0, 3600.0, is_required=True), Parameter("motion", "clip"),
                Parameter("at_s", "float", None, "s", 0.0), Parameter("place", "points", None, "m"),
            )),
            Parameter("rate_hz", "float", 60.0, "Hz", 1.0, 240.0, help="Frames per second."),
            *_CHOICES[:2],
            Parameter("space", "choice", WAYS[0], choices=WAYS, help="Model of the motion between poses."),
            Parameter("hold_feet", "bool", True, help="Keep feet still that stand between two poses."),
        ),
    ),
    Tool(
        "coordinates", "Coordinates", "", "Poses of a clip in their own space, in standard deviations.", "ask", _encode,
        (MOTION, Parameter("components", "int", NUM_MODES, "", 1, 60, help="How many.")),
    ),
)  # fmt: skip

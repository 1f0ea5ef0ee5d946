"""USD skeletons by usd-core, inside a child process: joints, bind pose, animations and their samples.

Layers that a file refers to are read where they lie in its own folder or package, and nowhere else.
"""

from __future__ import annotations

import os
import re
import struct
from array import array
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

os.environ.setdefault("PXR_WORK_THREAD_LIMIT", "1")

# The library's modules carry no types
Ar, Sdf, Tf, Usd, UsdGeom, UsdSkel = (
    cast(Any, import_module(f"pxr.{name}")) for name in ("Ar", "Sdf", "Tf", "Usd", "UsdGeom", "UsdSkel")
)

MAX_JOINTS: Final = 100_000
MAX_PRIMS: Final = 1_000_000
MAX_LAYERS: Final = 1000
CONTACT: Final = "contact:"  # begins the name of an attribute that says whether a point touches something
Answer = tuple[dict[str, Any], dict[str, tuple["array[Any]", tuple[int, ...]]]]


def read(path: str, question: dict[str, Any]) -> Answer:
    """Describe the skeletons and animations of a file, with the samples of the animation asked for.

    ``question["clip"]`` is a number, or None for the first animation that moves; -1 asks for names only.
    """
    notes: list[str] = []
    try:
        layer = Sdf.Layer.FindOrOpen(path)
    except Tf.ErrorException as error:
        # The library's own words, without its source files and our path
        said = re.search(r" : '(.*?)'(?: |\n|$)", str(error).replace(path, "the file"))
        raise ValueError(f"USD cannot read it ({said[1][:160]})" if said else "USD cannot read it") from None
    if layer is None:
        raise ValueError("USD cannot read it")
    cut_outside_layers(layer, Path(path).resolve().parent, notes)
    stage = Usd.Stage.Open(layer, Usd.Stage.LoadAll)
    if stage is None:
        raise ValueError("USD cannot read it")
    # Skeletons, the one with most joints first, and animations in the file's order
    skeletons: list[Any] = []
    animations: list[Any] = []
    for number, prim in enumerate(Usd.PrimRange.Stage(stage, Usd.TraverseInstanceProxies())):
        if number > MAX_PRIMS:
            raise ValueError(f"it holds more than {MAX_PRIMS} prims")
        if prim.IsA(UsdSkel.Skeleton):
            skeletons.append(prim)
        elif prim.IsA(UsdSkel.Animation):
            animations.append(prim)
    skeletons.sort(key=lambda prim: -len(UsdSkel.Skeleton(prim).GetJointsAttr().Get() or ()))
    facts: dict[str, Any] = {
        "clips": [animation.GetName() for animation in animations],
        "chosen": -1,
        "notes": notes,
        "unit_m": UsdGeom.GetStageMetersPerUnit(stage) if UsdGeom.StageHasAuthoredMetersPerUnit(stage) else None,
        "up": str(UsdGeom.GetStageUpAxis(stage)).lower(),
        "rate_hz": stage.GetTimeCodesPerSecond(),
        "contacts": {},
    }
    if question["clip"] == -1:
        return facts, {}
    if not skeletons:
        raise ValueError("it holds no skeleton (UsdSkel)")
    cache = UsdSkel.Cache()
    chosen = question["clip"]
    if chosen is None and animations:
        moving = (i for i, animation in enumerate(animations) if len(sample_times(cache, animation, None)) > 1)
        chosen = next(moving, 0)
    skeleton = skeletons[0]
    facts["chosen"] = -1 if chosen is None else chosen
    if chosen is not None:
        animation = animations[chosen]
        skeleton = find_bound_skeleton(animation, skeletons)
        sampled, arrays = sample_animation(cache, animation, skeleton)
        facts |= sampled
    else:
        arrays: dict[str, tuple[array[Any], tuple[int, ...]]] = {}
    # Joints, their parents, rest transforms relative to the parent and bind transforms in world
    schema = UsdSkel.Skeleton(skeleton)
    joints = [str(joint) for joint in schema.GetJointsAttr().Get() or ()]
    if not 0 < len(joints) <= MAX_JOINTS:
        raise ValueError(f"skeleton '{skeleton.GetName()}' has {len(joints)} joints")
    parents = [int(parent) for parent in UsdSkel.Topology(joints).GetParentIndices()]
    more: dict[str, tuple[array[Any], tuple[int, ...]]] = {}
    for name, attribute in (("rest", schema.GetRestTransformsAttr()), ("binds", schema.GetBindTransformsAttr())):
        matrices = attribute.Get()
        if matrices is not None and len(matrices) == len(joints):
            more[name] = (array("d", bytes(memoryview(matrices))), (len(joints), 4, 4))
    world = UsdGeom.Xformable(skeleton).ComputeLocalToWorldTransform(Usd.TimeCode.EarliestTime())
    more["stands"] = (array("d", [value for row in world for value in row]), (4, 4))
    # Names of the joints for tools that know no paths, where there is one for each
    called = [str(name) for name in schema.GetJointNamesAttr().Get() or ()]
    called = called if len(called) == len(joints) else [joint.rpartition("/")[2] for joint in joints]
    facts |= {"joints": joints, "called": called, "parents": parents, "skeleton": skeleton.GetName()}
    if len(skeletons) > 1:
        notes.append(f"the file holds {len(skeletons)} skeletons; '{skeleton.GetName()}' was read")
    return facts, arrays | more


def cut_outside_layers(top: Any, folder: Path, notes: list[str]) -> None:
    """Take references to files outside of a folder, and to the network, out of a layer and those it refers to."""
    waiting, seen = [top], {top.identifier}
    while waiting:
        layer = waiting.pop()
        for asset in layer.GetCompositionAssetDependencies():
            place = layer.ComputeAbsolutePath(asset)
            outer = Ar.SplitPackageRelativePathOuter(place)[0] if Ar.IsPackageRelativePath(place) else place
            is_inside = "://" not in outer and folder in Path(outer).resolve().parents
            if not is_inside:
                layer.UpdateCompositionAssetDependency(asset, "")
                notes.append(f"'{asset[:120]}' lies outside of the file's folder and was left out")
                continue
            below = Sdf.Layer.FindOrOpen(place) if len(seen) < MAX_LAYERS else None
            if below is None:
                layer.UpdateCompositionAssetDependency(asset, "")
                notes.append(f"'{asset[:120]}', which the file refers to, is not there or cannot be read")
            elif below.identifier not in seen:
                seen.add(below.identifier)
                waiting.append(below)
        # Samples that lie in a series of other files
        clipped: list[Any] = []
        layer.Traverse("/", partial(find_value_clips, layer, clipped))
        for spec in clipped:
            spec.ClearInfo("clips")
            notes.append(f"'{spec.name}' takes values from a series of files, which were left out")


def find_value_clips(layer: Any, found: list[Any], path: Any) -> None:
    """Append the prim at a path to a list where it has value clips."""
    spec = layer.GetPrimAtPath(path) if path.IsPrimPath() else None
    if spec is not None and spec.HasInfo("clips"):
        found.append(spec)


def find_bound_skeleton(animation: Any, skeletons: list[Any]) -> Any:
    """Return the skeleton that an animation is bound to, else the one that shares most joints with it."""
    for skeleton in skeletons:
        source = UsdSkel.BindingAPI(skeleton).GetInheritedAnimationSource()
        if source and source.GetPath() == animation.GetPath():
            return skeleton
    names = set(UsdSkel.Animation(animation).GetJointsAttr().Get() or ())
    return max(skeletons, key=lambda prim: len(names & set(UsdSkel.Skeleton(prim).GetJointsAttr().Get() or ())))


def sample_times(cache: Any, animation: Any, skeleton: Any) -> list[float]:
    """Return the time codes at which an animation, or the skeleton as a whole, has samples."""
    query = cache.GetAnimQuery(UsdSkel.Animation(animation))
    times = set(query.GetJointTransformTimeSamples())
    prim = skeleton
    while prim is not None and prim and not prim.IsPseudoRoot():
        if prim.IsA(UsdGeom.Xformable):
            times |= set(UsdGeom.Xformable(prim).GetTimeSamples())
        prim = prim.GetParent()
    return sorted(times)


def sample_animation(cache: Any, animation: Any, skeleton: Any) -> Answer:
    """Return translations, rotations (xyzw) and scales of joints at the samples, and where the skeleton stands."""
    query = cache.GetAnimQuery(UsdSkel.Animation(animation))
    names = [str(joint) for joint in query.GetJointOrder() or ()]
    times = sample_times(cache, animation, skeleton)
    codes = [Usd.TimeCode(time) for time in times] or [Usd.TimeCode.EarliestTime()]
    frame = UsdGeom.Xformable(skeleton)
    moved, turned, scaled, stands = array("f"), array("f"), array("f"), array("d")
    for code in codes:
        parts = query.ComputeJointLocalTransformComponents(code)
        if any(len(part) != len(names) for part in parts):
            raise ValueError(f"animation '{animation.GetName()}' has {len(names)} joints, and other numbers of values")
        translations, rotations, scales = (memoryview(part) for part in parts)
        moved.frombytes(translations.tobytes())
        turned.frombytes(rotations.tobytes())
        scaled.extend(struct.unpack(f"={3 * len(names)}e", scales.tobytes()))
        for row in frame.ComputeLocalToWorldTransform(code):
            stands.extend(row)
    count, joints = len(codes), len(names)
    contacts: dict[str, list[tuple[float, float]]] = {}
    for attribute in animation.GetAttributes():
        name = attribute.GetName()
        if name.startswith(CONTACT) and attribute.GetTypeName() == Sdf.ValueTypeNames.Bool:
            samples = [(time, attribute.Get(time)) for time in attribute.GetTimeSamples()]
            contacts[attribute.GetDisplayName() or name.removeprefix(CONTACT)] = samples
    return {"animated": names, "contacts": contacts}, {
        "times": (array("d", times), (len(times),)),
        "translations": (moved, (count, joints, 3)),
        "rotations": (turned, (count, joints, 4)),
        "scales": (scaled, (count, joints, 3)),
        "frames": (stands, (count, 4, 4)),
    }

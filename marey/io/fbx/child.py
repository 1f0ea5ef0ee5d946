"""FBX by ufbx, inside a child process: nodes, bind pose, takes, and the transforms of nodes at frames.

The binding hands out one Python object for each element of a scene and forgets to count it: an element that is dropped
and asked for again crashes the interpreter (ufbx 0.0.5). Each element is therefore kept until the process ends.
"""

from __future__ import annotations

from array import array
from importlib import import_module
from itertools import chain
from typing import Any, Final

ufbx: Any = import_module("ufbx")  # its types are incomplete
MAX_NODES: Final = 100_000
MAX_KEYS: Final = 2_000_000  # different key times of a take
MAX_FLAGS: Final = 200_000  # keys of contacts in a take
CONTACT: Final = "contact_"  # begins the name of a property that says whether a point touches something
TRANSFORMS: Final = ("Lcl Translation", "Lcl Rotation", "Lcl Scaling")
Answer = tuple[dict[str, Any], dict[str, tuple["array[Any]", tuple[int, ...]]]]
_KEPT: Final[list[Any]] = []


def keep(element: Any) -> Any:
    """Return an element of a scene and keep it until the process ends."""
    _KEPT.append(element)
    return element


def keep_all(elements: Any) -> list[Any]:
    """Return the elements of a list of a scene, each kept."""
    return [keep(element) for element in keep(elements)]


def read(path: str, question: dict[str, Any]) -> Answer:
    """Answer a question about a file: ``describe`` its nodes and takes, ``sample`` nodes of a take, or its ``mesh``."""
    scene = keep(
        ufbx.load_file(
            path,
            ignore_embedded=True,
            ignore_geometry=question["job"] != "mesh",
            skip_mesh_parts=True,
            node_depth_limit=1000,
            target_axes=ufbx.axes_right_handed_y_up,
            space_conversion=ufbx.SpaceConversion.TRANSFORM_ROOT,
            # Children that do not take over their parent's scale are scaled back: transforms then multiply as usual
            inherit_mode_handling=ufbx.InheritModeHandling.COMPENSATE,
        )
    )
    nodes = keep_all(scene.nodes)
    if len(nodes) > MAX_NODES:
        raise ValueError(f"it has {len(nodes)} nodes; at most {MAX_NODES} are read")
    if question["job"] == "sample":
        # Translation, rotation (xyzw) and scale of the nodes relative to their parents at the frames of a take
        animation = keep(keep_all(scene.anim_stacks)[question["take"]].anim)
        start, rate, frames = question["start_s"], question["rate_hz"], question["frames"]
        times = [start + frame / rate for frame in range(frames)]
        values = array("d")
        for number in question["nodes"]:
            evaluate = nodes[number].evaluate_transform
            for time in times:
                append_transform(values, evaluate(animation, time))
        return {}, {"locals": (values, (len(question["nodes"]), frames, 10))}
    if question["job"] == "mesh":
        return read_meshes(scene, nodes)
    return describe(scene, nodes)


def describe(scene: Any, nodes: list[Any]) -> Answer:
    """Return names, parents, kinds, rest and bind transforms of the nodes, and the takes with their key times."""
    places = {node.element_id: i for i, node in enumerate(nodes)}
    parents: list[int] = []
    rest = array("d")
    for node in nodes:
        parent = node.parent
        parents.append(-1 if parent is None else places[keep(parent).element_id])
        append_transform(rest, node.local_transform)
    # Where bones were when the skin was bound to them; what a bind pose says of others
    bound: dict[int, Any] = {}
    clusters: list[int] = []
    for cluster in keep_all(scene.skin_clusters):
        bone = cluster.bone_node
        if bone is not None:
            clusters.append(places[keep(bone).element_id])
            bound.setdefault(clusters[-1], cluster.bind_to_world)
    for pose in keep_all(scene.poses):
        for bone_pose in keep_all(pose.bone_poses) if pose.is_bind_pose else ():
            bound.setdefault(places[keep(bone_pose.bone_node).element_id], bone_pose.bone_to_world)
    binds = array("d")
    for matrix in bound.values():
        append_matrix(binds, matrix)
    settings = keep(scene.settings)
    arrays: dict[str, tuple[array[Any], tuple[int, ...]]] = {
        "rest": (rest, (len(nodes), 10)),
        "binds": (binds, (len(bound), 3, 4)),
    }
    takes: list[dict[str, Any]] = []
    for number, stack in enumerate(keep_all(scene.anim_stacks)):
        take, times = describe_take(stack, places)
        takes.append({"name": stack.name, "begin_s": stack.time_begin, "end_s": stack.time_end} | take)
        arrays[f"times{number}"] = (times, (len(times),))
    # Vertical axis that the file states: +y where it states none
    props = keep(settings.props)
    axis = ufbx.find_int(props, "UpAxis", 1)
    sign = "-" if ufbx.find_int(props, "UpAxisSign", 1) < 0 else "+"
    facts = {
        "names": [node.name for node in nodes],
        "parents": parents,
        "kinds": [node.attrib_type.name for node in nodes],
        "helpers": [i for i, node in enumerate(nodes) if node.is_scale_helper or node.is_geometry_transform_helper],
        "clusters": clusters,
        "bound": list(bound),
        "takes": takes,
        "unit_m": settings.original_unit_meters,
        "up": (sign + "xyz"[axis] if 0 <= axis <= 2 else "+y"),
        "rate_hz": settings.frames_per_second,
        "version": keep(scene.metadata).version,
        "creator": keep(scene.metadata).creator,
    }
    return facts, arrays


def describe_take(stack: Any, places: dict[int, int]) -> tuple[dict[str, Any], array[float]]:
    """Return the nodes that a take animates, those whose curves are not constant, contacts, and all key times [s]."""
    animated: dict[int, None] = {}
    moving: dict[int, None] = {}
    contacts: dict[str, list[tuple[float, float]]] = {}
    times: set[float] = set()
    seen: set[tuple[int, float, float]] = set()
    for layer in keep_all(stack.layers):
        for prop in keep_all(layer.anim_props):
            node, name = places.get(keep(prop.element).element_id), prop.prop_name
            if node is None or not (name in TRANSFORMS or name.startswith(CONTACT)):
                continue
            for curve in keep(prop.anim_value).curves:
                if curve is None:
                    continue
                keys = keep(keep(curve).keyframes)
                if name not in TRANSFORMS:
                    if len(keys) <= MAX_FLAGS:
                        contacts[name.removeprefix(CONTACT)] = [(key.time, key.value) for key in keys]
                    continue
                animated[node] = None
                if curve.max_value > curve.min_value:
                    moving[node] = None
                # Curves of one take share their times, and to read a key takes a microsecond
                mark = (len(keys), curve.min_time, curve.max_time)
                if mark not in seen:
                    seen.add(mark)
                    times.update(key.time for key in keys)
                    if len(times) > MAX_KEYS:
                        raise ValueError(f"a take has more than {MAX_KEYS} different key times")
    take = {"animated": list(animated), "moving": list(moving), "contacts": contacts}
    return take, array("d", sorted(times))


def append_transform(values: array[float], transform: Any) -> None:
    """Append translation, rotation (xyzw) and scale to a flat list of numbers."""
    translation, rotation, scale = transform
    values.extend((*translation, *rotation, *scale))


def read_meshes(scene: Any, nodes: list[Any]) -> Answer:
    """Return vertices, polygons, materials and skin weights of the meshes, the arrays of each behind its number."""
    places = {node.element_id: i for i, node in enumerate(nodes)}
    colours = array("d")
    materials: dict[int, int] = {}
    for number, material in enumerate(keep_all(scene.materials)):
        materials[material.element_id] = number
        maps = keep(material.pbr)
        colours.extend(tuple(keep(maps.base_color).value_vec4)[:3])
    facts: list[dict[str, Any]] = []
    arrays: dict[str, tuple[array[Any], tuple[int, ...]]] = {"colours": (colours, (len(materials), 3))}
    for mesh in keep_all(scene.meshes):
        skins = keep_all(mesh.skin_deformers)
        for node in keep_all(mesh.instances):
            mark = str(len(facts))
            vertices = copy_rows("d", mesh.vertices)
            faces = copy_rows("I", mesh.faces)
            corners = copy_rows("I", mesh.vertex_indices)
            painted = copy_rows("I", mesh.face_material)
            arrays |= {
                f"vertices{mark}": (vertices, (len(vertices) // 3, 3)),
                f"faces{mark}": (faces, (len(faces) // 2, 2)),
                f"corners{mark}": (corners, (len(corners),)),
                f"painted{mark}": (painted, (len(painted),)),
            }
            clusters: list[int] = []
            matrices = array("d")
            for cluster in keep_all(keep(skins[0]).clusters) if skins else ():
                bone = cluster.bone_node
                if bone is None:
                    continue
                held, weights = copy_rows("I", cluster.vertices), copy_rows("d", cluster.weights)
                arrays[f"held{mark}.{len(clusters)}"] = (held, (len(held),))
                arrays[f"weights{mark}.{len(clusters)}"] = (weights, (len(weights),))
                clusters.append(places[keep(bone).element_id])
                append_matrix(matrices, cluster.geometry_to_bone)
            append_matrix(matrices, node.geometry_to_node)
            arrays[f"matrices{mark}"] = (matrices, (len(clusters) + 1, 3, 4))
            used = [materials[material.element_id] for material in keep_all(node.materials)]
            facts.append({"node": places[node.element_id], "clusters": clusters, "materials": used})
    return {"meshes": facts}, arrays


def copy_rows(kind: str, rows: Any) -> array[Any]:
    """Return the numbers of a list of a scene, whose rows are numbers or tuples of them."""
    kept = keep(rows)
    if not len(kept):
        return array(kind)
    return array(kind, kept if isinstance(kept[0], (int, float)) else chain.from_iterable(kept))


def append_matrix(values: array[float], matrix: Any) -> None:
    """Append the three rows of a matrix that is given by its four columns."""
    for row in zip(*matrix, strict=True):
        values.extend(row)

"""Prints what ufbx finds in an FBX file, as JSON: ``python ufbx_side.py FILE TAKE TIME_S...``.

Runs in a process of its own: the binding does not count its elements, so each is kept until the process ends.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import ufbx

KEPT: list[Any] = []


def keep(element: Any) -> Any:
    KEPT.append(element)
    return element


def turn(q: Any, v: tuple[float, float, float]) -> tuple[float, float, float]:
    """Rotate a vector by a quaternion."""
    x, y, z = v
    a, b, c = 2 * (q.y * z - q.z * y), 2 * (q.z * x - q.x * z), 2 * (q.x * y - q.y * x)
    return x + q.w * a + q.y * c - q.z * b, y + q.w * b + q.z * a - q.x * c, z + q.w * c + q.x * b - q.y * a


def main() -> None:
    scene = keep(ufbx.load_file(sys.argv[1]))
    stacks = [keep(stack) for stack in keep(scene.anim_stacks)]
    stack = stacks[int(sys.argv[2])]
    anim = keep(stack.anim)
    times = [float(text) for text in sys.argv[3:]]
    nodes = [keep(node) for node in keep(scene.nodes)]
    positions: dict[str, list[tuple[float, float, float]]] = {}
    properties: dict[str, list[float]] = {}
    for node in nodes:
        chain = []
        above = node
        while above is not None:
            chain.append(keep(above))
            above = above.parent
        for time in times:
            place = (0.0, 0.0, 0.0)
            for link in chain:
                t = ufbx.evaluate_transform(anim, link, time)
                s = t.scale
                scaled = (place[0] * s.x, place[1] * s.y, place[2] * s.z)
                x, y, z = turn(t.rotation, scaled)
                place = (x + t.translation.x, y + t.translation.y, z + t.translation.z)
            positions.setdefault(node.name, []).append(place)
    for layer in keep(stack.layers):
        for prop in keep(keep(layer).anim_props):
            if keep(prop).prop_name.startswith("contact_"):
                curve = keep(keep(prop.anim_value).curves[0])
                properties[prop.prop_name] = [ufbx.evaluate_curve(curve, time, -1.0) for time in times]
    settings = keep(scene.settings)
    skins = [keep(cluster) for cluster in keep(scene.skin_clusters)]
    json.dump(
        {
            "takes": [{"name": s.name, "begin_s": s.time_begin, "end_s": s.time_end} for s in stacks],
            "rate_hz": settings.frames_per_second,
            "unit_m": settings.unit_meters,
            "positions": positions,
            "properties": properties,
            "clusters": len(skins),
            "meshes": [keep(mesh).num_vertices for mesh in keep(scene.meshes)],
        },
        sys.stdout,
    )
    sys.stdout.flush()
    os._exit(0)  # no element is freed


main()

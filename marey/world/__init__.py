"""Sketches and worlds as plain data, with a TOML form."""

from marey.base import deprecated_names, guard_room
from marey.world.sketch import (
    Event,
    GroundPose,
    KeyPose,
    Path,
    Sketch,
    load_sketch,
    parse_sketch,
    save_sketch,
    sketch_to_toml,
)
from marey.world.things import (
    Bar,
    Box,
    River,
    Stone,
    Table,
    Thing,
    Wall,
    World,
    box_distance,
    segment_distance,
    shortest_way,
)

__all__ = [
    "Bar",
    "Box",
    "Event",
    "GroundPose",
    "KeyPose",
    "Path",
    "River",
    "Sketch",
    "Stone",
    "Table",
    "Thing",
    "Wall",
    "World",
    "box_distance",
    "load_sketch",
    "parse_sketch",
    "save_sketch",
    "segment_distance",
    "shortest_way",
    "sketch_to_toml",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "Stand": "GroundPose",
    },
)

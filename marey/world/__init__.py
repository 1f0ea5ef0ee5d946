"""Sketches and the world they are drawn in."""

from marey.base._deprecation import deprecated_names
from marey.world._path import Path
from marey.world._sketch import EVENT_KINDS, Event, GroundPose, KeyPose, Sketch
from marey.world._things import Bar, Box, River, Stone, Table, Thing, Wall, World
from marey.world._toml import SKETCH_VERSION, load_sketch, parse_sketch, save_sketch, sketch_to_toml

__all__ = [
    "EVENT_KINDS",
    "SKETCH_VERSION",
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
    "load_sketch",
    "parse_sketch",
    "save_sketch",
    "sketch_to_toml",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "Stand": "GroundPose",
    },
)

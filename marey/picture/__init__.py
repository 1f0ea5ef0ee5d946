"""What to draw, as plain data, and pictures of it: solid bodies, film strips, films, plots."""

from marey.base.deprecation import deprecated_names
from marey.picture.bodies import PALETTES, Palette, body_solids, foot_prints, joint_sides, root_path
from marey.picture.files import PICTURE_SUFFIXES, save_film, save_image, save_pictures
from marey.picture.motions import ground_level, main_heading, make_light, motion_scene, render_motion
from marey.picture.plots import SPAN_COLOURS, PhysicsCurves, plot_angles, plot_contacts, plot_physics, plot_speed
from marey.picture.raycast.capsules import Image, encode_srgb, render
from marey.picture.raycast.scene import (
    CapsuleBatch,
    GroundMarks,
    GroundPattern,
    Light,
    Margins,
    PinholeCamera,
    RenderScene,
    fit_height,
    frame_balls,
    linear_from_srgb,
    view_direction,
)
from marey.picture.raycast.triangles import TriangleMesh, render_mesh
from marey.picture.strips import Label, compare_strips, film_strip, write_labels

__all__ = [
    "PALETTES",
    "PICTURE_SUFFIXES",
    "SPAN_COLOURS",
    "CapsuleBatch",
    "GroundMarks",
    "GroundPattern",
    "Image",
    "Label",
    "Light",
    "Margins",
    "Palette",
    "PhysicsCurves",
    "PinholeCamera",
    "RenderScene",
    "TriangleMesh",
    "body_solids",
    "compare_strips",
    "encode_srgb",
    "film_strip",
    "fit_height",
    "foot_prints",
    "frame_balls",
    "ground_level",
    "joint_sides",
    "linear_from_srgb",
    "main_heading",
    "make_light",
    "motion_scene",
    "plot_angles",
    "plot_contacts",
    "plot_physics",
    "plot_speed",
    "render",
    "render_mesh",
    "render_motion",
    "root_path",
    "save_film",
    "save_image",
    "save_pictures",
    "view_direction",
    "write_labels",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "Camera": "PinholeCamera",
        "Ground": "GroundPattern",
        "Marks": "GroundMarks",
        "Mesh": "TriangleMesh",
        "Scene": "RenderScene",
        "Solids": "CapsuleBatch",
        "display": "encode_srgb",
        "lamp_for": "make_light",
        "srgb": "linear_from_srgb",
    },
)

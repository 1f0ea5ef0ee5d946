"""Rendering without a window system: scenes as plain data, film strips, films, plots."""

from marey.base import deprecated_names, guard_room
from marey.picture.bodies import Palette, body_solids
from marey.picture.capsules import Image, encode_srgb
from marey.picture.files import PICTURE_SUFFIXES, save_film, save_image, save_pictures
from marey.picture.motions import ground_level, main_heading, make_light, motion_scene, render_motion
from marey.picture.pages import NotebookPage, describe_clip, describe_world, motion_html, save_page
from marey.picture.plots import PhysicsCurves, plot_angles, plot_contacts, plot_physics, plot_speed
from marey.picture.scene import (
    CapsuleBatch,
    GroundMarks,
    GroundPattern,
    Margins,
    PinholeCamera,
    RenderScene,
    TriangleMesh,
    fit_height,
    frame_balls,
    linear_from_srgb,
    view_direction,
)
from marey.picture.strips import Label, compare_strips, film_strip, write_labels
from marey.picture.triangles import render, render_mesh

__all__ = [
    "PICTURE_SUFFIXES",
    "CapsuleBatch",
    "GroundMarks",
    "GroundPattern",
    "Image",
    "Label",
    "Margins",
    "NotebookPage",
    "Palette",
    "PhysicsCurves",
    "PinholeCamera",
    "RenderScene",
    "TriangleMesh",
    "body_solids",
    "compare_strips",
    "describe_clip",
    "describe_world",
    "encode_srgb",
    "film_strip",
    "fit_height",
    "frame_balls",
    "ground_level",
    "linear_from_srgb",
    "main_heading",
    "make_light",
    "motion_html",
    "motion_scene",
    "plot_angles",
    "plot_contacts",
    "plot_physics",
    "plot_speed",
    "render",
    "render_mesh",
    "render_motion",
    "save_film",
    "save_image",
    "save_page",
    "save_pictures",
    "view_direction",
    "write_labels",
]

guard_room(__name__)

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

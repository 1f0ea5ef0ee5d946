"""What to draw, as plain data, and pictures of it: solid bodies, film strips, films, plots."""

from marey.base._deprecation import deprecated_names
from marey.picture._body import PALETTES, Palette, body_solids, joint_sides
from marey.picture._camera import Margins, PinholeCamera, fit_height, frame_balls, view_direction
from marey.picture._files import PICTURE_SUFFIXES, save_film, save_image, save_pictures, write_atomically
from marey.picture._mesh import TriangleMesh, render_mesh
from marey.picture._motion import motion_scene, render_motion
from marey.picture._physics import SPAN_COLOURS, PhysicsCurves, plot_physics
from marey.picture._plants import foot_prints, root_path
from marey.picture._plots import plot_angles, plot_contacts, plot_speed
from marey.picture._render import Image, encode_srgb, render
from marey.picture._scene import CapsuleBatch, GroundMarks, GroundPattern, Light, RenderScene, linear_from_srgb
from marey.picture._strip import compare_strips, film_strip
from marey.picture._text import Label, write_labels
from marey.picture._views import ground_level, main_heading, make_light

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
    "write_atomically",
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
        "written": "write_atomically",
    },
)

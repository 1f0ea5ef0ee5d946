"""What to draw, as plain data, and pictures of it: solid bodies, film strips, films, plots."""

from marey.picture._body import PALETTES, Palette, body_solids, joint_sides
from marey.picture._camera import Camera, Margins, fit_height, frame_balls, view_direction
from marey.picture._files import PICTURE_SUFFIXES, save_film, save_image, save_pictures, written
from marey.picture._mesh import Mesh, render_mesh
from marey.picture._motion import motion_scene, render_motion
from marey.picture._physics import SPAN_COLOURS, PhysicsCurves, plot_physics
from marey.picture._plants import foot_prints, root_path
from marey.picture._plots import plot_angles, plot_contacts, plot_speed
from marey.picture._render import Image, display, render
from marey.picture._scene import Ground, Light, Marks, Scene, Solids, srgb
from marey.picture._strip import compare_strips, film_strip
from marey.picture._text import Label, write_labels
from marey.picture._views import ground_level, lamp_for, main_heading

__all__ = [
    "PALETTES",
    "PICTURE_SUFFIXES",
    "SPAN_COLOURS",
    "Camera",
    "Ground",
    "Image",
    "Label",
    "Light",
    "Margins",
    "Marks",
    "Mesh",
    "Palette",
    "PhysicsCurves",
    "Scene",
    "Solids",
    "body_solids",
    "compare_strips",
    "display",
    "film_strip",
    "fit_height",
    "foot_prints",
    "frame_balls",
    "ground_level",
    "joint_sides",
    "lamp_for",
    "main_heading",
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
    "srgb",
    "view_direction",
    "write_labels",
    "written",
]

"""Scenes of nodes (glTF, FBX, USD): one neutral clip, and the one function that makes a motion of it."""

from marey.io.scene.clip import Local, SceneClip, SceneTree, choose_clip, name_clips, order_nodes, pick_joints
from marey.io.scene.motion import build_motion

__all__ = [
    "Local",
    "SceneClip",
    "SceneTree",
    "build_motion",
    "choose_clip",
    "name_clips",
    "order_nodes",
    "pick_joints",
]

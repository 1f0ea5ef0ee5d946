"""Handles in the scene that the user drags: one for each goal of the posing desk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import viser

from marey.base import FloatArray

DragListener = Callable[[str, FloatArray, bool], None]  # handle, place [m], whether the drag begins
ReleaseListener = Callable[[], None]
SCALE = 0.22  # [m] arm of a handle


class DragHandles:
    """Owns the handles; tells where they are dragged, and puts them where they shall be."""

    def __init__(self, scene: viser.SceneApi, dragged: DragListener, released: ReleaseListener) -> None:
        self._scene, self._dragged, self._released = scene, dragged, released
        self._handles: dict[str, viser.TransformControlsHandle] = {}
        self._held: str | None = None
        self._begins = True

    def show(self, goals: Mapping[str, FloatArray]) -> None:
        """Place a handle at every goal; the one in the user's hand is left there."""
        for name, place in goals.items():
            if name not in self._handles:
                self._handles[name] = self._add(name, place)
            elif name != self._held:
                self._handles[name].position = place

    def clear(self) -> None:
        """Take all handles away."""
        for handle in self._handles.values():
            handle.remove()
        self._handles, self._held = {}, None

    def _add(self, name: str, place: FloatArray) -> viser.TransformControlsHandle:
        handle = self._scene.add_transform_controls(
            f"/stage/goals/{name}", scale=SCALE, disable_rotations=True, depth_test=False, position=place
        )
        handle.on_update(partial(self._report_drag, name))
        return handle

    def _report_drag(self, name: str, event: Any) -> None:
        if event.phase == "start":
            self._held, self._begins = name, True
        elif event.phase == "update":
            self._dragged(name, np.array(event.target.position, dtype=np.float64), self._begins)
            self._begins = False
        else:
            self._held = None
            self._released()

"""The Simulate tab over the wire: a page that is only a socket clicks, drags and reloads in a running studio."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

viser = pytest.importorskip("viser")
import msgspec  # noqa: E402
from viser import _messages as messages  # noqa: E402
from websockets.exceptions import ConnectionClosed  # noqa: E402
from websockets.sync.client import ClientConnection, connect  # noqa: E402
from websockets.typing import Subprotocol  # noqa: E402

from marey.base import InputError  # noqa: E402
from marey.studio import Studio  # noqa: E402

PATIENCE_S = 60.0  # kernels may have to be compiled


class Socket:
    """A page without a picture: it sends what hands do, and reads everything away."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        protocol = Subprotocol(f"viser-v{viser.__version__}")
        self._wire: ClientConnection = connect(
            studio.url.replace("http", "ws"), subprotocols=[protocol], max_size=None, compression=None
        )
        self.heard = 0
        threading.Thread(target=self._read, daemon=True).start()
        view = {"fov": 1.2, "near": 0.01, "far": 100.0, "image_height": 600, "image_width": 800}
        places = {"position": (3.0, 1.0, 2.0), "look_at": (0.0, 0.8, 0.0), "up_direction": (0.0, 1.0, 0.0)}
        self.send(messages.ViewerCameraMessage(wxyz=(1.0, 0.0, 0.0, 0.0), **view, **places))
        wait_until(lambda: len(studio._sessions) == 1 and bool(self.session._panels))
        wait_until(lambda: self.session.document.film is not None)

    @property
    def session(self):
        return max(self._studio._sessions.items())[1][1]

    @property
    def panel(self):
        return self.session._panels[-1]

    @property
    def arena(self):
        return self.session.document.arena

    def send(self, message: messages.Message) -> None:
        self._wire.send(msgspec.msgpack.encode(message.as_serializable_dict()))

    def click(self, widget, value: object = True) -> None:
        self.send(messages.GuiUpdateMessage(widget._impl.uuid, {"value": value}))

    def drag(self, phase: str, joint: int, start: np.ndarray, end: np.ndarray) -> None:
        node = self.session._simulate_stage._body._nodes[joint]
        here, there = ((float(p[0]), float(p[1]), float(p[2])) for p in (start, end))
        message = messages.SceneNodeDragMessage(phase, node.name, 0, here, (0.5, 0.5), there, (0.5, 0.5), "left", None)
        message.owner = str(self.session._client.client_id)
        self.send(message)

    def close(self) -> None:
        self._wire.close()

    def _read(self) -> None:
        try:
            for frame in self._wire:
                self.heard += len(frame)
        except ConnectionClosed:
            return


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def studio() -> Iterator[Studio]:
    with Studio(port=0) as running:
        yield running


@pytest.fixture(scope="module")
def page(studio: Studio) -> Iterator[Socket]:
    here = Socket(studio)
    yield here
    here.close()


def begin(page: Socket) -> None:
    """Simulate anew."""
    last = page.arena
    page.click(page.panel._start)
    wait_until(lambda: page.arena is not last and page.arena.time_s > 0.0)


def test_a_click_starts_the_figure_and_time_passes_for_all_to_see(page: Socket) -> None:
    begin(page)
    wait_until(lambda: page.arena.time_s > 0.3)
    heard = page.heard
    wait_until(lambda: page.arena.time_s > 0.5)
    assert page.heard > heard  # pictures are sent
    page.click(page.panel._time, "Go or pause")
    wait_until(lambda: not page.arena.is_running)


def test_a_drag_of_the_body_pulls_what_is_under_the_mouse(page: Socket) -> None:
    begin(page)
    page.click(page.panel._will.will.widget, "puppet")
    wait_until(lambda: page.arena.wish.will == "puppet" and bool(page.arena.will.words))
    x, z = page.arena.place()
    head = page.arena.clip.skeleton.index("head")
    seen = page.arena.simulator.mechanics().joints[head] - np.array([x, 0.0, z])
    page.drag("start", head, seen, seen)
    page.drag("update", head, seen, seen + np.array([0.0, 0.2, 0.0]))
    wait_until(lambda: page.arena.hand is not None)
    assert page.arena.hand.joint == head
    target = page.arena.hand.target
    wait_until(lambda: page.arena.simulator.mechanics().joints[head][1] > target[1] - 0.08)
    page.drag("end", head, seen, seen)
    wait_until(lambda: page.arena.hand is None)


def test_a_step_that_fails_becomes_a_notice_and_the_page_lives_on(page: Socket, monkeypatch) -> None:
    told: list[Exception] = []
    monkeypatch.setattr(page.session._worker, "_on_error", told.append)
    begin(page)

    def fail(*_: object) -> None:
        raise InputError("it broke", "")

    monkeypatch.setattr(page.arena.will, "step", fail)
    wait_until(lambda: bool(told))
    assert "it broke" in str(told[0]) and len(told) == 1
    wait_until(lambda: not page.arena.is_running)
    stopped_s = page.arena.time_s
    page.click(page.panel._again, "This frame")
    wait_until(lambda: page.arena.is_running and page.arena.time_s > stopped_s)
    assert len(told) == 1


def test_other_tabs_send_the_figure_away(page: Socket) -> None:
    page.click(page.panel._start)
    wait_until(lambda: page.session.document.active_simulation is not None)
    page.click(page.session._sketching._start)
    wait_until(lambda: page.session.document.active_sketch is not None)
    assert page.session.document.active_simulation is None and not page.session._simulate_stage._root.visible
    page.click(page.panel._start)
    wait_until(lambda: page.session.document.active_simulation is not None)
    assert page.session.document.active_sketch is None
    page.click(page.panel._back)
    wait_until(lambda: page.session.document.active_mode is None)

"""A page without a browser: a socket that speaks the studio's language."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager

import httpx
import uvicorn
from websockets.sync.client import connect

from marey.studio.web.app import StudioServer, make_config, open_project
from marey.studio.web.gate import Gate

from .frames import read_frame, write_frame

PATIENCE_S = 120.0  # kernels may be compiled meanwhile


class Page:
    """One socket; hears messages in order, and puts those that are not waited for aside."""

    def __init__(self, port: int, token: str, *, hello: bool = True, **options) -> None:
        headers = {"Cookie": f"marey-{port}={token}"}
        # One that has not read everything cannot hear that the server has closed, too
        options = {"max_size": None, "close_timeout": 0.2} | options
        self.opened = ExitStack()
        self.socket = self.opened.enter_context(
            connect(f"ws://127.0.0.1:{port}/ws", additional_headers=headers, **options)
        )
        self.aside: list[dict] = []
        if hello:
            self.send("hello", version=2)
            self.welcome = self.hear("welcome")

    def send(self, kind: str, **fields) -> None:
        self.socket.send(write_frame({"t": kind, **fields}))

    def hear(self, *kinds: str, **wanted) -> dict:
        """Wait for a message of a kind with these fields."""

        def fits(message: dict) -> bool:
            return message["t"] in kinds and all(message.get(key) == value for key, value in wanted.items())

        for message in self.aside:
            if fits(message):
                self.aside.remove(message)
                return message
        end = time.monotonic() + PATIENCE_S
        while True:
            message = read_frame(self.socket.recv(timeout=max(0.1, end - time.monotonic())))
            if fits(message):
                return message
            self.aside.append(message)

    def close(self) -> None:
        self.opened.close()

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.close()


class Studio:
    """A server in a thread."""

    def __init__(self, folder, **limits) -> None:
        hub = open_project(folder)
        self.gate = Gate("127.0.0.1", 0)
        self.server = StudioServer(hub, self.gate, **limits)
        self.hub = hub
        config = make_config(self.server)
        config.port = 0
        self.uvicorn = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.uvicorn.run, daemon=True)
        self.thread.start()
        while not self.uvicorn.started:
            time.sleep(0.01)
        self.port = self.uvicorn.servers[0].sockets[0].getsockname()[1]
        self.gate.cookie = f"marey-{self.port}"
        self.address = f"http://127.0.0.1:{self.port}"

    def page(self, **options) -> Page:
        return Page(self.port, self.gate.token, **options)

    def client(self, **options) -> httpx.Client:
        cookies = {self.gate.cookie: self.gate.token}
        return httpx.Client(base_url=self.address, cookies=cookies, timeout=PATIENCE_S, **options)

    def close(self) -> None:
        self.uvicorn.should_exit = True
        self.thread.join(20)


@contextmanager
def running(folder, **limits):
    studio = Studio(folder, **limits)
    try:
        yield studio
    finally:
        studio.close()

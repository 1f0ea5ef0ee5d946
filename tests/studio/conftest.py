"""What the studio's tests share: a real browser without a network, and a page that is no page at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from marey.base import MareyError
from marey.studio._document import Document

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHROMIUM is None:
        for item in items:
            if "browser" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="no chromium on the path"))


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


class Page:
    """A session without a page: edits are carried out at once, errors are kept."""

    def __init__(self, server, panel: Callable, document: Document) -> None:
        self.document, self.errors, self.sent, self.opened = document, [], [], []
        self.panel = panel(server.gui, self)

    def post(self, _: str, edit) -> None:
        try:
            edit()
        except MareyError as error:
            self.errors.append(error)
        self.panel.refresh(self.document)

    def send(self, motion, name: str) -> None:
        self.sent.append((motion, name))

    def open_motion(self, label: str, motion) -> None:
        self.opened.append((motion, label))

    def frame_body(self) -> None:
        """There is no camera."""

    def flush(self) -> None:
        """There is nothing to send."""

    def do(self, widget, value=None) -> None:
        """Do what a hand does: change the value, or click."""
        if value is not None:
            widget.value = value
        for callback in widget._impl.update_cb:
            callback(SimpleNamespace(client=object(), client_id=0, target=widget))


@pytest.fixture(scope="module")
def server() -> Iterator[object]:
    viser = pytest.importorskip("viser")
    running = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    yield running
    running.stop()


@pytest.fixture
def make_page(server) -> Callable[..., Page]:
    """Makes a page for a panel and a document."""
    return lambda panel, document=None: Page(server, panel, Document() if document is None else document)

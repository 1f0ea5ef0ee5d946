"""What the studio's tests share: a real browser without a network, and a page that is no page at all."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from types import SimpleNamespace

import numpy as np
import pytest

from marey.base import MareyError
from marey.lie import SO3
from marey.studio.document.page import PageDocument

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

ARTEFACTS = Path(os.environ.get("MAREY_ARTEFACTS", "artefacts"))
FIRST_MS = 120_000  # kernels are compiled when they are first used
PATIENCE_MS = 60_000
WIDE, HIGH = 1200, 900


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


class Tab:
    """One tab of the studio in a real page, which it stands for; drawn coarsely, since software rendering is slow."""

    def __init__(self, browser, studio, name: str) -> None:
        self.name, self.studio, self.wrongs = name, studio, []
        size = {"width": WIDE, "height": HIGH}
        context = browser.new_context(viewport=size, accept_downloads=True, device_scale_factor=0.25)
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("pageerror", lambda error: self.wrongs.append(str(error)))
        self.page.on("crash", lambda *_: self.wrongs.append("the page crashed"))
        self.page.goto(studio.url)
        self.page.get_by_test_id("clock").wait_for(timeout=FIRST_MS)
        self.page.get_by_role("tab", name=name).click()

    def __getattr__(self, what: str):
        return getattr(self.page, what)

    @property
    def session(self):
        return max(self.studio._sessions.items())[1][1]

    def words(self, where: str = "") -> str:
        """What a block says; that of the tab's state by default."""
        find = "w => (document.querySelector(`[data-testid=${w}]`) || {textContent: ''}).textContent"
        return self.page.evaluate(find, where or self.name.lower())

    def wait_until(self, is_so: Callable[[], bool], what: str, patience_ms: int = PATIENCE_MS) -> None:
        """Wait for something, for so long; what the page says instead is told."""
        end = monotonic() + 1e-3 * patience_ms
        while monotonic() < end:
            assert not self.wrongs
            if is_so():
                return
            self.page.wait_for_timeout(100)
        notices = self.page.locator("[class*=Notification-description]").all_inner_texts()
        raise AssertionError(f"{what} never came; the page says {self.words()!r} and {notices}")

    def wait_for_words(self, pattern: str, where: str = "", patience_ms: int = PATIENCE_MS) -> None:
        """Wait until a block of the tab says something."""
        found = re.compile(pattern)
        self.wait_until(lambda: found.search(self.words(where)) is not None, pattern, patience_ms)

    def choose(self, label: str, option: str) -> None:
        """Pick an option of a dropdown by its label."""
        path = f"xpath=//label[normalize-space()='{label}']/ancestor::*[.//input][1]//input"
        box = self.page.locator(path).locator("visible=true").first
        box.click()
        self.page.get_by_role("option", name=option, exact=True).locator("visible=true").click()
        self.wait_until(lambda: box.input_value() == option, f"{label}: {option}")

    def press_button(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).locator("visible=true").first.click()

    def write(self, label: str, value: str) -> None:
        """Write into the number of a slider."""
        row = f"xpath=//label[normalize-space()='{label}']/ancestor::*[.//input][1]"
        box = self.page.locator(f"{row}//input[not(@type='hidden')]").locator("visible=true").first
        box.fill(value)
        box.press("Enter")

    def pause(self) -> None:
        self.press_button("Go or pause")
        self.wait_for_words("paused")
        self.wait_until(lambda: not self.session._worker._ticking, "the pause")

    def pixel(self, place: np.ndarray) -> tuple[float, float]:
        """Pixel of a place in the scene, by the camera that the page told the server."""
        camera = self.session._client.camera
        right, down, ahead = SO3(np.array(camera.wxyz)).inverse() @ (np.asarray(place) - np.array(camera.position))
        focal = 0.5 * HIGH / np.tan(0.5 * camera.fov)
        return 0.5 * WIDE + focal * right / ahead, 0.5 * HIGH + focal * down / ahead

    def shot(self, name: str) -> bytes:
        """A picture of the page, kept."""
        ARTEFACTS.mkdir(exist_ok=True)
        return self.page.screenshot(path=str(ARTEFACTS / name))

    def fetch(self, path: Path) -> None:
        """Follow the newest download link."""
        link = self.page.locator("a[download]").last
        link.wait_for()
        with self.page.expect_download() as download:
            link.click()
        download.value.save_as(str(path))


@pytest.fixture(scope="module")
def open_tab(browser) -> Callable[..., Tab]:
    """Opens a tab of a studio in a page of its own."""
    return lambda studio, name: Tab(browser, studio, name)


@pytest.fixture
def whole(page) -> Iterator[None]:
    """A page that broke fails the test in which it did, with its words."""
    yield
    assert not page.wrongs


class Page:
    """A session without a page: edits are carried out at once, errors are kept."""

    def __init__(self, server, panel: Callable, document: PageDocument) -> None:
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
    return lambda panel, document=None: Page(server, panel, PageDocument() if document is None else document)

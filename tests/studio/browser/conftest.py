"""The studio as people start it, and a page of it in a real browser."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

# What the browser of somebody who was here before remembers: no tour opens, and nothing plays by itself
RETURNING = """
for (const [key, value] of [["toured", "true"], ["playhead", "0"]])
  localStorage.getItem(`marey-studio:${key}`) ?? localStorage.setItem(`marey-studio:${key}`, value);
"""

BUNDLE = Path(__file__).parents[3] / "marey" / "studio" / "web" / "static" / "studio.js"
FIRST_S, PATIENCE_S = 120.0, 60.0  # hang guards: kernels may be compiled, software rendering is slow


class RunningStudio:
    """`marey studio FOLDER` as a process of its own, so that it can be stopped and killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.start()

    def start(self, port: int = 0) -> None:
        log = self.folder.with_suffix(".log")
        command = [sys.executable, "-m", "marey", "studio", str(self.folder), "--port", str(port), "--no-open"]
        with log.open("w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        until = monotonic() + FIRST_S
        while (found := re.search(r"http://\S+", log.read_text())) is None:
            if self.process.poll() is not None or monotonic() > until:
                pytest.fail(f"the studio did not start: {log.read_text()}")
            sleep(0.1)
        self.address = found.group(0)
        self.port = int(re.search(r":(\d+)/", self.address).group(1))

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)


class StudioPage:
    """A page of the studio; values are asked for until they come, since the page forbids evaluation of text."""

    def __init__(
        self,
        browser: Any,
        address: str,
        *,
        scale: float = 0.25,
        size: tuple[int, int] = (1440, 900),
        is_returning: bool = True,
    ) -> None:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, device_scale_factor=scale, accept_downloads=True
        )
        if is_returning:
            context.add_init_script(RETURNING)
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE_S * 1000)
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(address)
        self.wait("mareyStudio.session.main.value !== null && mareyStudio.viewport.value.draws > 0", FIRST_S)

    def get(self, expression: str) -> Any:
        return self.page.evaluate(f"() => {expression}")

    def wait(self, expression: str, seconds: float = PATIENCE_S) -> Any:
        until = monotonic() + seconds
        while True:
            try:
                value = self.get(expression)
            except Exception:
                value = None
            if value or monotonic() > until:
                assert value, f"{expression} did not come; {self.get('mareyStudio.session.toasts.value')}"
                return value
            sleep(0.05)

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)

    def tool(self, title: str) -> None:
        """Open a tool by its button in the rail."""
        self.page.get_by_role("navigation", name="Tools").get_by_role("button", name=title, exact=True).click()

    def joint_pixel(self, joint: str) -> tuple[float, float]:
        """Where a joint of the main body is in the window."""
        return tuple(
            self.page.evaluate(
                """name => {
                  const v = mareyStudio.viewport.value, main = v.cast.main, j = main.clip.joints.indexOf(name);
                  const at = v.toPixels(v.camera.position.clone().fromArray(main.body.pose.positions, 3 * j));
                  const box = v.host.getBoundingClientRect();
                  return [at.x + box.left, at.y + box.top];
                }""",
                joint,
            )
        )


@pytest.fixture(scope="session")
def bundle() -> Path:
    """The built client."""
    if not BUNDLE.is_file():
        pytest.skip("the client is not built: make web")
    return BUNDLE


@pytest.fixture(scope="module")
def start_studio(bundle, tmp_path_factory) -> Iterator[Callable[[], RunningStudio]]:
    """Starts a studio with a project of its own."""
    running: list[RunningStudio] = []

    def do() -> RunningStudio:
        running.append(RunningStudio(tmp_path_factory.mktemp("studio") / "project"))
        return running[-1]

    yield do
    for one in running:
        one.stop()


@pytest.fixture(scope="module")
def studio(start_studio) -> RunningStudio:
    return start_studio()


@pytest.fixture
def open_page(browser) -> Iterator[Callable[..., StudioPage]]:
    pages: list[StudioPage] = []

    def do(address: str, **options: Any) -> StudioPage:
        pages.append(StudioPage(browser, address, **options))
        return pages[-1]

    yield do
    for one in pages:
        one.page.context.close()

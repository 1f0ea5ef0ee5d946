"""Pictures of the studio for its page: every tool at work, at 1440 x 900, by a real pointer and keyboard.

Run in a checkout whose client is built: ``python docs/studio_pictures.py [TOOL ...]``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

PICTURES = Path(__file__).with_name("pictures")
COLOURS = 200  # of a palette: a picture has a third of its bytes, and nothing that is seen is lost
PATIENCE_S = 300.0
CHROMIUM = (
    "/usr/bin/chromium",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--no-sandbox",
)
RETURNING = """for (const [key, value] of [["toured", "true"], ["playhead", "0"]])
  localStorage.getItem(`marey-studio:${key}`) ?? localStorage.setItem(`marey-studio:${key}`, value);"""


class Desk:
    """The page, as a person at a desk uses it."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def see(self, expression: str) -> Any:
        """A value of the page; `s` is the session, `v` the viewport, `t` the timeline."""
        names = "const s = mareyStudio.session, v = mareyStudio.viewport.value, t = window.mareyTimeline"
        return self.page.evaluate(f"() => {{ {names}; return {expression} }}")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + PATIENCE_S
        while not self.see(expression):
            if time.monotonic() > until:
                raise TimeoutError(f"{expression}: {self.see('JSON.stringify(s.toasts.value)')}")
            self.page.wait_for_timeout(200)

    def begin(self, name: str = "walk", time_s: float = 0.9) -> None:
        """Select a take as it was at first, at a time."""
        self.see("(s.tool.value = null, s.preview.value = null, s.rangeS.value = null, s.pause(), 1)")
        takes = f"Object.entries(s.project.value.takes).find(([, take]) => take.name === '{name}')[0]"
        self.see(f"(s.select({{ kind: 'take', id: {takes} }}), 1)")
        self.wait("s.main.value !== null && s.bands.value !== null")
        self.see(f"(s.seek({time_s}), v.look('free'), 1)")

    def run(self, tool: str) -> None:
        """Press the tool's own button, and wait until the job is done."""
        self.page.locator(".run .button.main").click()
        jobs = f"s.jobs.value.filter(job => job.tool === '{tool}')"
        self.wait(f"{jobs}.length > 0 && ['done', 'failed'].includes({jobs}.at(-1).state)")
        if self.see(f"{jobs}.at(-1).state") == "failed":
            raise RuntimeError(f"{tool}: {self.see(f'{jobs}.at(-1).sentence')}")
        self.page.wait_for_timeout(1500)

    def drag(self, start: list[float], stop: list[float]) -> None:
        """Drag the pointer."""
        mouse = self.page.mouse
        mouse.move(*start)
        mouse.down()
        for step in range(1, 11):
            mouse.move(*(a + 0.1 * step * (b - a) for a, b in zip(start, stop, strict=True)))
            self.page.wait_for_timeout(60)
        mouse.up()
        self.page.wait_for_timeout(1500)

    def joint(self, name: str) -> list[float]:
        """Pixels of a joint of the main body."""
        index = f"3 * s.main.value.joints.indexOf('{name}')"
        at = f"v.toPixels(v.camera.position.clone().fromArray(v.jointPositions, {index}))"
        return self.see(f"((at, box) => [at.x + box.left, at.y + box.top])({at}, v.host.getBoundingClientRect())")

    def on_timeline(self, row: str, time_s: float) -> list[float]:
        """Pixels of a time in the row whose id ends so."""
        index = f"t.model.rows.findIndex(row => row.id.endsWith('{row}'))"
        return self.see(f"(b => [b.left + t.axis.toPixels({time_s}), b.top + t.layout.top({index}) + 8])"
                        "(t.canvas.getBoundingClientRect())")  # fmt: skip

    def button(self, name: str) -> None:
        """Press the last button of a name."""
        self.page.get_by_role("button", name=name, exact=True).last.click()


def show_pose(desk: Desk, tool: str) -> None:
    """A wrist is dragged."""
    x, y = desk.joint("left_wrist")
    desk.drag([x, y], [x + 90, y - 130])


def show_contacts(desk: Desk, tool: str) -> None:
    """The end of a contact is dragged."""
    stop = desk.see("t.model.rows.find(row => row.id.endsWith('contact/left_toe')).stops[1]")
    desk.drag(desk.on_timeline("contact/left_toe", stop), desk.on_timeline("contact/left_toe", stop + 0.12))


def show_footprints(desk: Desk, tool: str) -> None:
    """Footprints from above."""
    desk.page.wait_for_timeout(1500)
    desk.see("(v.look('top'), 1)")


def show_walk(desk: Desk, tool: str) -> None:
    """Keys drive a walker."""
    desk.button("Walk")
    desk.page.wait_for_timeout(1000)
    desk.button("Add a walker")
    for key in ("w", "a"):
        desk.page.keyboard.down(key)
        desk.page.wait_for_timeout(1500)
    desk.page.keyboard.up("a")
    desk.page.wait_for_timeout(1500)


def show_physics(desk: Desk, tool: str) -> None:
    """Forces, the centre of mass and a plot."""
    desk.see("(s.overlays.value = { ...s.overlays.value, com: true, forces: true }, 1)")
    desk.page.get_by_role("radio", name="ground force").click()
    desk.page.wait_for_timeout(2500)


def show_simulate(desk: Desk, tool: str) -> None:
    """A ball is thrown at a figure."""
    desk.button("Simulate")
    desk.page.wait_for_timeout(1500)
    desk.button("Throw a ball")
    desk.page.wait_for_timeout(1200)


def show_muscles(desk: Desk, tool: str) -> None:
    """Muscles over a clip, as they work."""
    desk.button("Show them on the body")
    desk.page.get_by_role("button", name="Hide the muscles").wait_for()
    desk.page.wait_for_timeout(1500)


def show_measure(desk: Desk, tool: str) -> None:
    """The table of figures."""
    desk.button("Measure the motion")
    desk.page.locator(".result table").first.wait_for()
    desk.page.wait_for_timeout(800)


def show_muscle(desk: Desk, tool: str) -> None:
    """A scene runs."""
    desk.button("Start the scene")
    desk.page.wait_for_timeout(6000)


def show_between(desk: Desk, tool: str) -> None:
    """A clip through two poses."""
    for time_s in (0.0, 1.0):
        desk.see(f"(s.seek({time_s}), 1)")
        desk.page.locator(".cards").get_by_role("button", name="Add").click()
    desk.run(tool)


def show_repair(desk: Desk, tool: str) -> None:
    """A repaired range as a ghost."""
    desk.see("(s.rangeS.value = [7.3, 7.9], 1)")
    desk.page.get_by_role("button", name="From the timeline").click()
    desk.run(tool)


def show_strips(desk: Desk, tool: str) -> None:
    """A take on the timeline."""
    desk.page.keyboard.press("Control+k")
    desk.page.keyboard.type("Put the selected take")
    desk.page.keyboard.press("Enter")
    desk.page.wait_for_timeout(1000)


def run_tool(desk: Desk, tool: str) -> None:
    """The tool with its settings as at first."""
    desk.run(tool)


def look(desk: Desk, tool: str) -> None:
    """The panel alone."""
    desk.page.wait_for_timeout(2500)


FEET_SLIDE = "walk, feet slide"
TAKES = {
    "clean": FEET_SLIDE,
    "hold": FEET_SLIDE,
    "measure": FEET_SLIDE,
    "repair": "walk-and-run",
    "physics": "walk-and-run",
}
SHOWN: dict[str, Callable[[Desk, str], None]] = {
    "pose": show_pose, "edit": show_pose, "contacts": show_contacts, "footprints": show_footprints, "walk": show_walk,
    "physics": show_physics, "simulate": show_simulate, "muscle": show_muscle, "between": show_between,
    "repair": show_repair, "strips": show_strips, "measure": show_measure, "muscles": show_muscles,
    "import": look, "library": look,
    "accept": look, "bake": look, "reach": look, "problem": look,
}  # fmt: skip


def keep(page: Page, name: str) -> None:
    """Write a picture of the page."""
    image = Image.open(BytesIO(page.screenshot())).convert("RGB")
    file = PICTURES / f"{name}.png"
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    print(file.name, file.stat().st_size, flush=True)


def open_desk(browser: Any, address: str) -> Desk:
    """A page of somebody who was here before."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="dark")
    context.add_init_script(RETURNING)
    desk = Desk(context.new_page())
    desk.page.set_default_timeout(1000 * PATIENCE_S)
    desk.page.goto(address)
    desk.wait("s.main.value !== null && v !== null && v.draws > 0")
    return desk


def main(wanted: list[str]) -> None:
    """Start a studio with a project of its own, and show each tool on a page of its own."""
    with tempfile.TemporaryDirectory(prefix="marey-pictures-") as folder, sync_playwright() as playwright:
        command = [sys.executable, "-m", "marey", "studio", f"{folder}/opening", "--port", "0", "--no-open"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        browser = playwright.chromium.launch(executable_path=CHROMIUM[0], args=list(CHROMIUM[1:]))
        try:
            found = next(m for line in server.stdout or () if (m := re.search(r"http://\S+", line)))
            desk = open_desk(browser, found.group(0))
            tools = desk.see("s.tools.value.filter(tool => tool.group !== '').map(tool => tool.id)")
            for tool in [tool for tool in tools if not wanted or tool in wanted]:
                desk.begin(TAKES.get(tool, "walk"))
                changes = desk.see("s.undoLabel.value")
                desk.see(f"(s.tool.value = '{tool}', 1)")
                desk.page.wait_for_timeout(800)
                SHOWN.get(tool, run_tool)(desk, tool)
                keep(desk.page, f"studio-{tool}")
                # The next one begins with the project as it was
                desk.page.keyboard.press("Escape")
                desk.see("(s.tool.value = null, 1)")
                desk.page.wait_for_timeout(500)
                while desk.see("s.undoLabel.value") != changes:
                    desk.see("(s.undo(), 1)")
                    desk.page.wait_for_timeout(300)
                off = "com: false, forces: false, trails: false, onion: false"
                desk.see(f"(s.overlays.value = {{ ...s.overlays.value, {off} }}, 1)")
            if not wanted or "studio" in wanted:
                desk.begin()
                desk.see("(s.overlays.value = { ...s.overlays.value, trails: true, onion: true }, 1)")
                desk.page.wait_for_timeout(1500)
                keep(desk.page, "studio")
                desk.page.get_by_role("button", name="Light theme").click()
                desk.page.keyboard.press("Control+k")
                desk.page.keyboard.type("view")
                desk.page.wait_for_timeout(800)
                keep(desk.page, "studio-palette")
        finally:
            browser.close()
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main(sys.argv[1:])

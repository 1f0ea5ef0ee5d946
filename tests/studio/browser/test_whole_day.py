"""A whole day in the studio, by a real pointer and keyboard: from an imported file to an exported one."""

from __future__ import annotations

import json
from dataclasses import replace
from time import monotonic

import numpy as np
import pytest
from oracles.rigs import write_character

import marey
from marey.io import load_character
from marey.io.character import pose_vertices

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PATIENCE_S = 600


class Desk:
    """The studio's page, as a person at a desk uses it."""

    def __init__(self, studio_page) -> None:
        self.errors, self.page = studio_page.errors, studio_page.page

    def see(self, expression: str):
        """A value of the page; `s` is the session, `t` the timeline, `v` the viewport."""
        names = "const s = mareyStudio.session, t = window.mareyTimeline, v = mareyStudio.viewport.value"
        return self.page.evaluate(f"() => {{ {names}; return {expression} }}")

    def wait(self, expression: str, seconds: float = PATIENCE_S):
        until = monotonic() + seconds
        while not (value := self.see(expression)):
            said = "JSON.stringify([s.toasts.value, s.jobs.value.map(j => [j.tool, j.state, j.sentence, j.fix])])"
            assert monotonic() < until, f"{expression}: {self.see(said)}"
            self.page.wait_for_timeout(200)
        return value

    @property
    def project(self) -> dict:
        return json.loads(self.see("JSON.stringify(s.project.value)"))

    @property
    def selected(self) -> str:
        return self.see("s.selected.value.id")

    def open(self, tool: str) -> None:
        """Open a tool by the palette."""
        self.page.keyboard.press("Control+k")
        self.page.keyboard.type(tool)
        self.page.keyboard.press("Enter")
        self.page.locator(f'.tool[data-tool="{tool}"], .tool').first.wait_for()

    def run(self, tool: str) -> dict:
        """Press the tool's own button; give the job when it is done."""
        count = self.see(f"s.jobs.value.filter(j => j.tool === '{tool}').length")
        self.page.locator(".run .button.main").click()
        return self.finish(tool, count)

    def finish(self, tool: str, count: int) -> dict:
        self.wait(f"s.jobs.value.filter(j => j.tool === '{tool}').length > {count}")
        self.wait(f"['done', 'failed'].includes(s.jobs.value.filter(j => j.tool === '{tool}').at(-1).state)")
        job = json.loads(self.see(f"JSON.stringify(s.jobs.value.filter(j => j.tool === '{tool}').at(-1))"))
        assert job["state"] == "done", f"{job['sentence']}. {job['fix']}"
        return job

    def choose_file(self, name: str, content: bytes, act) -> None:
        with self.page.expect_file_chooser() as chooser:
            act()
        chooser.value.set_files({"name": name, "mimeType": "application/octet-stream", "buffer": content})

    def drag(self, start, stop, steps: int = 8) -> None:
        self.page.mouse.move(*start)
        self.page.mouse.down()
        for i in range(steps):
            share = (i + 1) / steps
            self.page.mouse.move(*(a + share * (b - a) for a, b in zip(start, stop, strict=True)))
            self.page.wait_for_timeout(40)
        self.page.mouse.up()

    def on_timeline(self, row: str, time_s: float) -> tuple[float, float]:
        """Pixels of a time in the row whose id ends so."""
        index = self.see(f"t.model.rows.findIndex(r => r.id.endsWith('{row}'))")
        x = self.see(f"t.canvas.getBoundingClientRect().left + t.axis.toPixels({time_s})")
        return x, self.see(f"t.canvas.getBoundingClientRect().top + t.layout.top({index}) + 8")

    def on_ground(self, x: float, z: float) -> tuple[float, float]:
        seen = self.see(f"v.toPixels(v.camera.position.clone().set({x}, v.groundM, {z}))")
        left, top = self.see("(box => [box.left, box.top])(v.host.getBoundingClientRect())")
        return left + seen["x"], top + seen["y"]

    def put(self, what: str, x: float, z: float) -> None:
        """Put a thing of the sketch onto the ground."""
        self.page.get_by_role("radio", name=what, exact=True).click()
        self.page.mouse.click(*self.on_ground(x, z))
        self.page.wait_for_timeout(300)


@pytest.fixture
def desk(start_studio, open_page):
    desk = Desk(open_page(start_studio().address, scale=0.5))
    desk.page.set_default_timeout(PATIENCE_S * 1000)
    desk.page.keyboard.press("Escape")
    yield desk
    assert desk.errors == []


def read_bytes(motion: marey.Motion, file) -> bytes:
    marey.save(motion, file)
    return file.read_bytes()


def test_import_clean_character_contact_repair_path_push_undo_reload_export(desk, tmp_path):
    page = desk.page
    # Played faster than it was walked, it breaks physics somewhere
    walk = replace(marey.samples.walk(), name="visitor", rate_hz=1.5 * marey.samples.walk().rate_hz)
    # Import an FBX, by the browser's own dialog
    desk.choose_file(
        "visitor.fbx", read_bytes(walk, tmp_path / "visitor.fbx"), lambda: page.keyboard.press("Control+o")
    )
    desk.wait("Object.values(s.project.value.clips).some(c => c.name.startsWith('visitor'))")
    begin = desk.project
    states = [begin]

    # Clean it
    desk.open("clean")
    cleaned = desk.run("clean")["result"]["take"]
    desk.wait(f"s.selected.value.id === '{cleaned}'")
    states.append(desk.project)

    # Put it on a skinned character, with bone frames of its own on an armature in centimetres
    someone = tmp_path / "someone.glb"
    write_character(someone)
    desk.open("retarget")
    character = page.locator(".tool .field", has_text="Character")
    desk.choose_file("someone.glb", someone.read_bytes(), lambda: character.get_by_text("Choose a file").click())
    character.get_by_text("someone.glb").wait_for()
    dressed = desk.run("retarget")["result"]["take"]
    desk.wait(f"s.selected.value.id === '{dressed}' && s.main.value !== null")
    # Its skin is what is drawn
    desk.wait("v.cast.main.look.skin !== undefined && v.cast.main.body.pose.positions.some(x => x !== 0)")
    skin = load_character(someone)
    assert desk.see("v.cast.main.body.mesh.geometry.getAttribute('position').count") == len(skin.vertices)
    states.append(desk.project)

    # Drag the end of a contact: the feet follow
    desk.wait("t.model.rows.some(r => r.id.endsWith('contact/left_heel'))")
    stop = desk.see("t.model.rows.find(r => r.id.endsWith('contact/left_heel')).stops[0]")
    before = desk.see("s.mainHash.value")
    desk.drag(desk.on_timeline("contact/left_heel", stop), desk.on_timeline("contact/left_heel", stop - 0.1))
    desk.wait(f"s.project.value.takes['{dressed}'].edits.length === 1")
    edit = desk.project["takes"][dressed]["edits"][0]
    assert edit["kind"] == "contact" and edit["to_s"][1] == pytest.approx(stop - 0.1, abs=0.04)
    desk.wait(f"s.project.value.takes['{dressed}'].result !== null && s.mainHash.value !== '{before}'")
    states.append(desk.project)

    # Repair a red range and accept half of it
    desk.wait("s.bands.value !== null")
    spans = json.loads(desk.see("JSON.stringify(s.bands.value[0].spans)"))
    red = max((s for s in spans if s["level"] == "red"), key=lambda s: s["stop_s"] - s["start_s"])
    desk.open("physics")
    page.get_by_role("button", name="Repair", exact=True).first.click()
    repaired = desk.run("repair")["result"]["take"]
    states.append(desk.project)
    half = (red["start_s"], 0.5 * (red["start_s"] + red["stop_s"]))
    for time_s, key in zip(half, "io", strict=True):
        page.mouse.click(*desk.on_timeline("band/validity", time_s))
        page.keyboard.press(key)
    assert desk.see("s.rangeS.value") == pytest.approx(half, abs=0.05)
    count = desk.see("s.jobs.value.filter(j => j.tool === 'accept').length")
    page.get_by_role("button", name="Accept the range").click()
    accepted = desk.finish("accept", count)["result"]["take"]
    assert len({dressed, repaired, accepted}) == 3
    states.append(desk.project)

    # Sketch a path with a pick, watch the search
    desk.open("path")
    if page.get_by_role("button", name="New sketch").count():
        page.get_by_role("button", name="New sketch").click()
        desk.wait("s.project.value.sketch.start !== undefined")
        states.append(desk.project)
    page.get_by_role("button", name="Top", exact=True).click()
    page.wait_for_timeout(600)
    page.mouse.move(*desk.on_ground(0, 1))
    for _ in range(5):
        page.mouse.wheel(0, 300)
    page.wait_for_timeout(600)
    events = len(desk.project["sketch"].get("event", []))
    desk.put("pick", 0.25, 2.0)
    desk.wait(f"(s.project.value.sketch.event ?? []).length === {events + 1}")
    states.append(desk.project)
    hear = "list => list.filter(job => job.tool === 'path').forEach(job => heard.add(job.sentence))"
    page.evaluate(f"(window.heard = new Set(), mareyStudio.session.jobs.subscribe({hear}), true)")
    look = "hash => hash !== null && seen.add(hash)"
    page.evaluate(f"(window.seen = new Set(), mareyStudio.session.preview.subscribe({look}), true)")
    made = desk.run("path")["result"]["take"]
    # How the search goes is told while it runs
    assert page.evaluate("heard.size") >= 3
    # and so is the motion that it has found so far, as a ghost
    assert page.evaluate("seen.size") >= 1
    desk.wait(f"s.selected.value.id === '{made}'")
    states.append(desk.project)

    # Push the result: it is simulated live, and kept
    desk.open("simulate")
    takes = len(desk.project["takes"])
    page.get_by_role("button", name="Simulate").last.click()
    clock = page.locator(".tool tr", has_text="Time").locator("td.n")
    for wanted_s in (0.5, 1.0):
        until = monotonic() + 120
        while not clock.count() or float(clock.inner_text().split()[0]) < wanted_s:
            assert monotonic() < until, "the figure does not move"
            page.wait_for_timeout(100)
        if wanted_s == 0.5:
            page.get_by_role("button", name="Push", exact=True).click()
    page.get_by_role("button", name="Keep").click()
    desk.wait(f"Object.keys(s.project.value.takes).length === {takes + 1}")
    states.append(desk.project)

    # Undo all of it, one press a step; each state comes back as it was
    for state in reversed(states[:-1]):
        page.keyboard.press("Control+z")
        wanted = json.dumps(state, sort_keys=True)
        until = monotonic() + 30
        while json.dumps(desk.project, sort_keys=True) != wanted:
            assert monotonic() < until, "undo gives another document"
            page.wait_for_timeout(100)
    for state in states[1:]:
        page.keyboard.press("Control+y")
        wanted = json.dumps(state, sort_keys=True)
        until = monotonic() + 30
        while json.dumps(desk.project, sort_keys=True) != wanted:
            assert monotonic() < until, "redo gives another document"
            page.wait_for_timeout(100)

    # Reload: nothing is lost
    page.reload()
    desk.wait("window.mareyStudio && s.main.value !== null && s.link.value === 'open'")
    assert desk.project == states[-1]

    # Export what is shown as GLB, and compare
    page.locator(".row .pick", has_text=desk.project["takes"][accepted]["name"]).first.click()
    desk.wait(f"s.selected.value.id === '{accepted}' && s.main.value !== null")
    desk.open("export")
    job = desk.run("export")
    with page.expect_download() as download:
        page.locator("a.file").first.click()
    file = tmp_path / job["result"]["files"][0]["name"]
    download.value.save_as(file)
    exported = marey.load(file)
    for frame in (0, exported.num_frames // 2, exported.num_frames - 1):
        desk.see(f"(s.seek({frame / exported.rate_hz}), true)")
        page.wait_for_timeout(700)
        shown = np.reshape(desk.see("Array.from(v.jointPositions)"), (-1, 3))
        np.testing.assert_allclose(exported[frame].joint_positions(), shown, rtol=0, atol=2e-3)
        # Points of the skin stand where Python puts them
        drawn = "Array.from({length: 40}, (_, i) => m.getVertexPosition(i, v.camera.position.clone()).toArray())"
        points = desk.see(f"(m => {drawn})(v.cast.main.body.mesh)")
        np.testing.assert_allclose(points, pose_vertices(skin, exported, [frame])[0, :40], rtol=0, atol=2e-3)

"""The studio by a real pointer and keyboard: open, play, scrub, import, change, undo, reload, export, and compare."""

from __future__ import annotations

import gzip
import signal

import numpy as np
import pytest

import marey
from marey.samples import starter_project

pytestmark = pytest.mark.browser

TAKES = "Object.values(mareyStudio.session.project.value.takes)"
SELECT_TAKE = """() => {
  const [id] = Object.keys(mareyStudio.session.project.value.takes);
  mareyStudio.session.select({ kind: 'take', id });
}"""
TIME = "mareyStudio.session.playheadS.value"


@pytest.fixture
def tab(studio, open_page):
    tab = open_page(studio.address)
    yield tab
    assert tab.errors == []


def shown_joints(tab) -> np.ndarray:
    """Joints of the main body as they are drawn, (J, 3)."""
    return np.reshape(tab.get("Array.from(mareyStudio.viewport.value.jointPositions)"), (-1, 3))


def seek(tab, time_s: float) -> None:
    tab.page.evaluate("t => mareyStudio.session.seek(t)", time_s)
    draws = tab.get("mareyStudio.viewport.value.draws")
    tab.get("mareyStudio.viewport.value.requestDraw()")
    tab.wait(f"mareyStudio.viewport.value.draws > {draws}")


def test_it_opens_with_a_motion_that_stands_where_python_puts_it(tab):
    walk = starter_project().motions[0]
    name = tab.get("mareyStudio.session.main.value.name")
    assert name == walk.name and "token" not in tab.page.url
    for frame in (0, 31, walk.num_frames - 1):
        seek(tab, frame / walk.rate_hz)
        np.testing.assert_allclose(shown_joints(tab), walk[frame].joint_positions(), rtol=0, atol=1e-4)


def test_keys_play_step_and_set_a_range(tab):
    tab.press("k")
    tab.press("Home")
    tab.press("ArrowRight")
    assert tab.get(TIME) == pytest.approx(1 / tab.get("mareyStudio.session.rateHz.value"))
    tab.press("Space")
    tab.wait(f"{TIME} > 0.3")
    tab.press("Space")
    stopped = tab.get(TIME)
    tab.page.wait_for_timeout(200)
    assert tab.get(TIME) == stopped
    tab.press("i")
    tab.press("End")
    tab.press("o")
    assert tab.get("mareyStudio.session.rangeS.value") == pytest.approx(
        [stopped, tab.get("mareyStudio.session.durationS.value")]
    )
    tab.press("x")
    assert tab.get("mareyStudio.session.rangeS.value") is None


def test_the_pointer_scrubs_on_the_timeline(tab):
    box = tab.page.get_by_role("slider", name="Time").bounding_box()
    tab.page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 10)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 10)
    middle = tab.get(TIME)
    tab.page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 10)
    tab.page.mouse.up()
    assert 0 < middle < tab.get(TIME) <= tab.get("mareyStudio.session.durationS.value")


def test_the_palette_and_the_sheet_are_reached_by_keys(tab):
    tab.press("Control+k")
    tab.page.keyboard.type("onion")
    tab.press("Enter")
    tab.wait("mareyStudio.session.overlays.value.onion")
    tab.press("Shift+O")
    tab.wait("!mareyStudio.session.overlays.value.onion")
    tab.press("?")
    tab.page.get_by_role("dialog", name="Keys").wait_for()
    tab.press("Escape")
    assert tab.page.get_by_role("dialog").count() == 0


def test_every_control_has_a_name_and_takes_the_focus(tab):
    for tool in tab.get("mareyStudio.session.tools.value.filter(t => t.group !== '').map(t => t.id)"):
        tab.page.evaluate("tool => { mareyStudio.session.tool.value = tool }", tool)
        nameless = tab.page.evaluate("""() => [...document.querySelectorAll('button, input, select, textarea, canvas')]
          .filter(e => e.offsetParent !== null && !e.getAttribute('aria-label') && !e.textContent.trim()
            && !(e.labels?.length)).map(e => e.outerHTML.slice(0, 120))""")
        assert nameless == [], tool
    tab.get("(mareyStudio.session.tool.value = null)")


def test_text_has_contrast_in_both_themes(tab):
    pairs = [("ink", "panel"), ("muted", "panel"), ("muted", "raised"), ("ink", "accent-soft"), ("on-accent", "accent")]
    pairs += [("accent", "accent-soft"), ("ink", "bad-soft"), ("muted", "field")]
    for theme in ("dark", "light"):
        tab.page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        for front, back in pairs:
            ratio = tab.page.evaluate(
                """([front, back]) => {
                  const light = (name) => {
                    const style = getComputedStyle(document.documentElement);
                    const text = style.getPropertyValue('--' + name).trim().slice(1);
                    const [r, g, b] = [0, 2, 4].map(i => parseInt(text.slice(i, i + 2), 16) / 255)
                      .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
                    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
                  };
                  const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
                  return (a + 0.05) / (b + 0.05);
                }""",
                [front, back],
            )
            assert ratio >= 4.5, (theme, front, back, ratio)


def test_a_rename_is_undone_redone_and_kept_over_a_reload(tab):
    old = tab.get(f"{TAKES}[0].name")
    row = tab.page.get_by_label("Project").get_by_role("button", name=old, exact=True).first
    row.focus()
    tab.press("F2")
    tab.page.get_by_label(f"Name of {old}").wait_for()
    tab.page.keyboard.type("my walk")
    tab.press("Enter")
    tab.wait(f"{TAKES}[0].name === 'my walk'")
    tab.page.get_by_label("Viewport").first.click(position={"x": 300, "y": 300})
    tab.press("Control+z")
    tab.wait(f"{TAKES}[0].name === '{old}'")
    tab.press("Control+y")
    tab.wait(f"{TAKES}[0].name === 'my walk'")
    tab.page.reload()
    tab.wait("mareyStudio.session.main.value !== null")
    assert tab.get(f"{TAKES}[0].name") == "my walk"
    tab.press("Control+z")
    tab.wait(f"{TAKES}[0].name === '{old}'")


def test_a_dropped_file_becomes_a_clip_and_its_joints_are_those_of_the_reader(tab, tmp_path):
    run = marey.samples.run()
    path = tmp_path / "run.bvh"
    marey.save(run, path)
    with tab.page.expect_file_chooser() as chooser:
        tab.page.get_by_role("button", name="Import files").click()
    chooser.value.set_files(path)
    tab.wait("Object.values(mareyStudio.session.project.value.clips).some(c => c.name === 'run' && c.frames > 0)")
    tab.wait("mareyStudio.session.main.value?.name === 'run'")
    read = marey.load(path)
    tab.wait("mareyStudio.session.clips.loaded(mareyStudio.session.mainHash.value) === 1")
    for frame in (0, read.num_frames // 2):
        seek(tab, frame / read.rate_hz)
        np.testing.assert_allclose(shown_joints(tab), read[frame].joint_positions(), rtol=0, atol=2e-4)
    tab.get("mareyStudio.session.undo()")


def test_a_dragged_joint_follows_the_pointer_and_its_keys_are_one_step_of_undo(tab):
    tab.page.evaluate(SELECT_TAKE)
    seek(tab, 0.6)
    tab.tool("Pose")
    before = shown_joints(tab)
    x, y = tab.joint_pixel("left_wrist")
    mouse = tab.page.mouse
    mouse.move(x, y)
    mouse.down()
    for i in range(1, 13):
        mouse.move(x + 6 * i, y - 8 * i)
        tab.page.wait_for_timeout(40)
    tab.wait("mareyDrag.lagsMs.length > 0")
    tab.page.wait_for_timeout(400)
    wrist = tab.get("mareyStudio.viewport.value.cast.main.clip.joints.indexOf('left_wrist')")
    dragged = shown_joints(tab)
    assert np.linalg.norm(dragged[wrist] - before[wrist]) > 0.1
    mouse.up()
    tab.wait(f"{TAKES}[0].layers.length === 1 && {TAKES}[0].result !== null")
    tab.wait("mareyStudio.session.clips.loaded(mareyStudio.session.mainHash.value) === 1")
    tab.page.wait_for_timeout(300)
    # What stands after the release is what was shown under the pointer
    np.testing.assert_allclose(shown_joints(tab)[wrist], dragged[wrist], rtol=0, atol=0.03)
    tab.press("Control+z")
    tab.wait(f"{TAKES}[0].layers.length === 0")
    tab.wait("mareyStudio.session.clips.loaded(mareyStudio.session.mainHash.value) === 1")
    seek(tab, 0.6)
    np.testing.assert_allclose(shown_joints(tab), before, rtol=0, atol=1e-5)


def test_a_point_of_a_trail_is_dragged_at_its_own_time(tab):
    tab.page.evaluate(SELECT_TAKE)
    seek(tab, 1.0)
    tab.tool("Pose")
    tab.page.evaluate("""() => {
      const { session } = mareyStudio;
      session.joint.value = 'left_wrist';
      session.overlays.value = { ...session.overlays.value, trails: true };
    }""")
    tab.page.wait_for_timeout(500)
    # The point of the trail that lies farthest from every joint, so that no joint takes the pointer
    x, y, time_s = tab.page.evaluate("""() => {
      const { session, viewport: { value: v } } = mareyStudio, { main } = v.cast;
      const box = v.host.getBoundingClientRect(), places = main.body.pose.positions;
      const joints = main.clip.joints.map((_, j) => v.toPixels(v.camera.position.clone().fromArray(places, 3 * j)));
      const gap = ({ at }) => Math.min(...joints.map((joint) => Math.hypot(joint.x - at.x, joint.y - at.y)));
      const points = [...v.overlays.trailPoints(session.playheadS.value)]
        .map(({ timeS, position }) => ({ timeS, at: v.toPixels(position) }))
        .filter(({ timeS }) => timeS > 0.2 && timeS < session.durationS.value - 0.2)
        .filter(({ at: { x, y } }) => x > 60 && x < box.width - 20 && y > 60 && y < box.height - 20);
      const [{ at, timeS }] = points.sort((a, b) => gap(b) - gap(a));
      return [at.x + box.left, at.y + box.top, timeS];
    }""")
    mouse, rate_hz = tab.page.mouse, tab.get("mareyStudio.session.rateHz.value")
    mouse.move(x, y)
    mouse.down()
    # The playhead goes to the time of the point, on a frame; a neighbour may lie under the pointer as well
    assert abs(tab.get(TIME) - time_s) < 0.1 and abs(tab.get(TIME) * rate_hz % 1.0 - 0.5) > 0.49
    held_s = tab.get(TIME)
    layers = tab.get(f"{TAKES}[0].layers.length")
    for i in range(1, 9):
        mouse.move(x + 4 * i, y - 6 * i)
        tab.page.wait_for_timeout(40)
    tab.wait("mareyDrag.lagsMs.length > 0")
    mouse.up()
    tab.wait(f"{TAKES}[0].layers.length === {layers + 1} && {TAKES}[0].result !== null")
    times = tab.get(f"{TAKES}[0].layers.at(-1).keys.map(({{ time_s }}) => time_s)")
    assert min(abs(time - held_s) for time in times) < 1e-6
    tab.page.keyboard.press("Control+z")
    tab.wait(f"{TAKES}[0].layers.length === {layers}")
    tab.get("(mareyStudio.session.overlays.value = { ...mareyStudio.session.overlays.value, trails: false })")


def test_a_soft_body_is_replayed_after_its_session(tab):
    tab.tool("Muscle")
    tab.page.get_by_role("button", name="Start the scene").click()
    tab.wait("parseFloat(document.querySelector('.tool .facts .n')?.textContent) > 0.2", 180.0)  # [s] of the scene
    tab.page.get_by_role("button", name="End and replay").click()
    slider = tab.page.locator("#replay")
    slider.wait_for()
    tab.page.get_by_role("button", name="Pause the replay").click()
    surface = """() => {
      let found = null;
      mareyStudio.viewport.value.scene.traverse((thing) => {
        const isSoft = thing.isMesh && thing.material.vertexColors && !thing.isSkinnedMesh;
        if (isSoft) found = Array.from(thing.geometry.getAttribute('position').array);
      });
      return found;
    }"""
    pictures = []
    for key in ("Home", "End", "Home"):
        slider.press(key)
        tab.page.wait_for_timeout(200)
        pictures.append(np.array(tab.page.evaluate(surface)))
    # The first frame is the same again, the last one is another
    np.testing.assert_array_equal(pictures[0], pictures[2])
    assert int(slider.get_attribute("max")) > 2 and np.abs(pictures[1] - pictures[0]).max() > 1e-4
    tab.press("Escape")
    tab.get("(mareyStudio.session.tool.value = null)")


def test_an_export_is_what_was_shown(tab, tmp_path):
    tab.page.evaluate(SELECT_TAKE)
    tab.tool("Export")
    tab.page.get_by_label("Format").select_option("bvh")
    tab.page.locator(".run").get_by_role("button", name="Export").click()
    link = tab.page.locator("a.file").first
    link.wait_for()
    with tab.page.expect_download() as download:
        link.click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    written = marey.load(path)
    for frame in (0, written.num_frames // 3):
        seek(tab, frame / written.rate_hz)
        shown = shown_joints(tab)
        joints = tab.get("mareyStudio.session.main.value.joints")
        positions = written[frame].joint_positions()
        places = {name: positions[j] for j, name in enumerate(written.skeleton.names)}
        common = [name for name in joints if name in places]
        assert len(common) >= 20
        for name in common:
            np.testing.assert_allclose(places[name], shown[joints.index(name)], rtol=0, atol=1e-3)


def test_a_hundred_loads_leave_no_memory_on_the_card(tab):
    tab.page.evaluate("""async () => {
      const { session, viewport } = mareyStudio, clips = Object.keys(session.project.value.clips);
      window.counts = [];
      for (let i = 0; i < 100; i++) {
        session.overlays.value = { ...session.overlays.value, onion: i % 2 === 0, trails: i % 3 === 0, joints: true };
        session.select({ kind: 'clip', id: clips[i % clips.length] });
        session.pinned.value = i % 2 === 0 ? [{ kind: 'take', id: Object.keys(session.project.value.takes)[0] }] : [];
        viewport.value.requestDraw();
        await new Promise(requestAnimationFrame);
        await new Promise(requestAnimationFrame);
        const { geometries, textures } = viewport.value.stage.renderer.info.memory;
        window.counts.push([geometries, textures]);
      }
      session.overlays.value = { ...session.overlays.value, onion: false, trails: false, joints: false };
    }""")
    counts = tab.get("window.counts")
    # The same state comes again every twelve loads at the latest
    assert counts[99 - 12][0] == counts[99][0] == counts[27][0]
    assert counts[99 - 12][1] == counts[99][1] == counts[27][1]


def test_who_comes_for_the_first_time_is_shown_round_a_project_that_moves(studio, open_page):
    tab = open_page(studio.address, is_returning=False)
    tour = tab.page.get_by_role("dialog")
    assert tour.is_visible()
    tab.wait(f"{TIME} > 0.2")
    tab.press("Escape")
    tour.wait_for(state="hidden")
    tab.page.reload()
    tab.wait("mareyStudio.session.main.value !== null && mareyStudio.viewport.value.draws > 0")
    assert not tour.is_visible()
    assert tab.errors == []


def test_it_plays_and_scrubs_with_the_server_stopped(start_studio, open_page):
    studio = start_studio()
    tab = open_page(studio.address)
    tab.wait("mareyStudio.session.clips.loaded(mareyStudio.session.mainHash.value) === 1")
    studio.stop()
    tab.wait("mareyStudio.session.link.value !== 'open'")
    tab.press("Home")
    tab.press("Space")
    tab.wait(f"{TIME} > 0.5")
    tab.press("k")
    walk = starter_project().motions[0]
    seek(tab, 100 / walk.rate_hz)
    np.testing.assert_allclose(shown_joints(tab), walk[100].joint_positions(), rtol=0, atol=1e-4)
    assert tab.page.get_by_label("No server: playing goes on").is_visible()
    assert tab.errors == []


def test_an_open_page_finds_a_server_that_was_killed_and_started_again(start_studio, open_page):
    studio = start_studio()
    tab = open_page(studio.address)
    tab.page.evaluate("() => mareyStudio.session.command('rename_project', { name: 'kept' }).then(() => true)")
    studio.stop(signal.SIGKILL)
    tab.wait("mareyStudio.session.link.value === 'lost'")
    studio.start(studio.port)
    tab.wait("mareyStudio.session.link.value === 'open' && mareyStudio.session.project.value.name === 'kept'")
    tab.page.evaluate("() => mareyStudio.session.command('rename_project', { name: 'more' }).then(() => true)")
    tab.wait("mareyStudio.session.project.value.name === 'more'")
    assert tab.errors == []


def test_a_search_is_seen_while_it_runs(tab):
    """What a job of the path tool tells is drawn: the motion it has found so far, and the ways of its solutions."""
    tab.page.evaluate("""() => {
      const { session } = mareyStudio, clips = Object.values(session.project.value.clips);
      session.tool.value = 'path';
      const other = clips.find((clip) => clip.hash !== session.mainHash.value);
      const places = [[0.25, 0], [0.25, 1], [0.25, 2.125]];
      const result = { partial: other.hash, partials: { 'k = 1': other.hash }, ways: [{ k: 1, cost: 2, places }] };
      const state = { t: 'job', id: 'told', tool: 'path', take: '', state: 'running', fraction: 0.4, left_s: null };
      session.receive({ ...state, sentence: 'k = 1', fix: '', result });
    }""")
    ghost = "mareyStudio.viewport.value.cast.actors.find(({ role }) => role === 'preview')"
    tab.wait(f"{ghost} !== undefined && {ghost}.body.pose.positions.some((x) => x !== 0) && {ghost}.body.mesh.visible")
    assert tab.page.evaluate("""() => {
      let found = false;
      mareyStudio.viewport.value.scene.traverse((thing) => {
        const at = thing.isLine && thing.geometry.getAttribute('position');
        if (at && at.count === 3 && at.getX(2) === 0.25 && at.getZ(2) === 2.125) found = true;
      });
      return found;
    }""")
    tab.page.evaluate("""() => {
      const { session } = mareyStudio;
      session.jobs.value = [];
      session.preview.value = session.tool.value = null;
    }""")


def test_the_bundle_is_small(bundle):
    files = [bundle, bundle.with_name("studio.css"), bundle.with_name("index.html")]
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) < 600_000

"""The timeline in a real browser: what a pointer and keys do to it, and the client's work per frame."""

from __future__ import annotations

import subprocess
from pathlib import Path
from statistics import median

import pytest

pytestmark = pytest.mark.browser

WEB = Path(__file__).parents[3] / "web"
ESBUILD = WEB / "node_modules" / ".bin" / "esbuild"
WIDE, LABELS, RIGHT = 1440, 120, 8
SHELL = (
    '<!doctype html><body style="margin:0"><div id="host" style="height:640px"></div><script src="page.js"></script>'
)


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """The page's script, bundled once."""
    if not ESBUILD.exists():
        pytest.skip("the client's packages are not installed: make web")
    folder = tmp_path_factory.mktemp("timeline")
    command = [ESBUILD, "test/timeline.page.ts", "--bundle", "--format=iife", f"--outfile={folder}/page.js"]
    subprocess.run([*command, "--log-level=warning"], cwd=WEB, check=True)
    (folder / "page.html").write_text(SHELL)
    return folder / "page.html"


@pytest.fixture
def page(browser, script):
    page = browser.new_context(viewport={"width": WIDE, "height": 660}).new_page()
    page.set_default_timeout(60_000)
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    page.goto(script.as_uri())
    page.wait_for_function("window.timeline !== undefined && timeline.drawnMs > 0")
    return page


def pixel(timeS: float, duration_s: float = 10.0) -> float:
    return LABELS + timeS / duration_s * (WIDE - LABELS - RIGHT)


def row(page, name: str) -> float:
    """Height of the middle of a row."""
    index = page.evaluate("name => timeline.model.rows.findIndex(row => row.id === name)", name)
    return page.evaluate("i => (timeline.layout.top(i) + timeline.layout.top(i + 1)) / 2", index)


def drag(page, start, stop) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move((start[0] + stop[0]) / 2, (start[1] + stop[1]) / 2)
    page.mouse.move(*stop)
    page.mouse.up()


def told(page, name: str) -> list:
    """Arguments of every event of a name so far; rows by their ids."""
    return page.evaluate("name => told.filter(e => e[0] === name).map(e => e.slice(1).map(v => v?.id ?? v))", name)


def test_a_dragged_contact_end_is_told_at_frames_and_ends_once(page):
    height = row(page, "walk/contact/left_heel")
    drag(page, (pixel(0.8), height), (pixel(1.0), height))
    events = told(page, "onContactEdge")
    assert [e[4] for e in events] == ["begin", "move", "end"]
    name, run, edge, time_s, _ = events[-1]
    assert (name, run, edge) == ("walk/contact/left_heel", 0, "stop")
    assert time_s == pytest.approx(1.0, abs=1 / 60)
    assert time_s * 60 == pytest.approx(round(time_s * 60), abs=1e-9)


def test_a_contact_end_does_not_pass_its_neighbour_and_escape_gives_it_back(page):
    height = row(page, "walk/contact/left_heel")
    drag(page, (pixel(0.8), height), (pixel(5.0), height))
    assert told(page, "onContactEdge")[-1][3] == pytest.approx(1.3 - 1 / 60)
    page.mouse.move(pixel(2.0), height)
    page.mouse.down()
    page.mouse.move(pixel(2.2), height)
    page.keyboard.press("Escape")
    page.mouse.up()
    assert told(page, "onContactEdge")[-1][3:] == [2.0, "cancel"]
    assert page.evaluate("timeline.model.rows.find(r => r.id === 'walk/contact/left_heel').stops[1]") == 2.0


def test_a_box_selects_keys_and_a_drag_moves_them_together(page):
    height = row(page, "key/hand")
    drag(page, (pixel(4.2), height - 7), (pixel(4.8), height + 7))
    assert page.evaluate("Array.from(timeline.model.selection.keys.get('key/hand'))") == [3, 4, 5, 6, 7]
    drag(page, (pixel(4.3), height), (pixel(5.3), height))
    moves = page.evaluate("told.filter(e => e[0] === 'onKeyMove').map(e => [Array.from(e[1][0].keys), e[2], e[3]])")
    assert moves[-1][0] == [3, 4, 5, 6, 7] and moves[-1][2] == "end"
    assert moves[-1][1] == pytest.approx(1.0, abs=0.02)
    times = page.evaluate("Array.from(timeline.model.rows.find(r => r.id === 'key/hand').times)")
    assert times == sorted(times) and times[3] == pytest.approx(5.3, abs=0.02)


def test_the_tangent_of_a_selected_key_turns_and_a_click_gives_it_back(page):
    find = """() => {
        const i = timeline.model.rows.findIndex(row => row.id === "curve/layer"), row = timeline.model.rows[i];
        const keys = row.channels[0].keys, values = timeline.valueAxis(row).at(timeline.layout.top(i));
        const [dx, dy] = [timeline.axis.pixelsPerSecond, -keys.slopes[2] * values.pixelsPerUnit];
        const [x, y] = [timeline.axis.toPixels(4), values.toPixels(0.1)];
        return { x, y, dx: dx / Math.hypot(dx, dy), dy: dy / Math.hypot(dx, dy), slope: keys.slopes[2],
                 perS: timeline.axis.pixelsPerSecond, perM: values.pixelsPerUnit };
    }"""
    at = page.evaluate(find)
    page.mouse.click(at["x"], at["y"])
    end = (at["x"] + 32 * at["dx"], at["y"] + 32 * at["dy"])
    drag(page, end, (at["x"] + 40, at["y"] - 30))
    name, channel, key, slope, phase = told(page, "onCurveSlope")[-1]
    assert (name, channel, key, phase) == ("curve/layer", 0, 2, "end")
    assert slope == pytest.approx(30 / at["perM"] / (40 / at["perS"]), rel=1e-6)
    now = page.evaluate(find)
    assert now["slope"] == slope
    page.mouse.click(now["x"] - 32 * now["dx"], now["y"] - 32 * now["dy"])
    assert page.evaluate(find)["slope"] == at["slope"]


def test_strips_move_trim_blend_and_loop(page):
    height = row(page, "strips")
    drag(page, (pixel(8.5), height), (pixel(8.9), height))
    change = told(page, "onStrip")[-1]
    assert change[1] == "c" and change[3] == "end" and change[2]["start_s"] == pytest.approx(7.0, abs=0.02)
    drag(page, (pixel(2.7), height + 6), (pixel(3.0), height + 6))
    assert set(told(page, "onStrip")[-1][2]) == {"start_s", "in_s"}
    strip = page.evaluate("timeline.model.rows[0].strips.find(s => s.id === 'b')")
    end = pixel(strip["start_s"] + (strip["out_s"] - strip["in_s"]) * strip["loop"])
    drag(page, (end - 3, height - 13), (end + 150, height - 13))
    assert told(page, "onStrip")[-1][2]["loop"] > 3.5


def test_keys_alone_reach_rows_items_range_and_edits(page):
    page.evaluate("timeline.canvas.focus()")
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("]")
    page.keyboard.press("Alt+ArrowRight")
    event = told(page, "onContactEdge")[-1]
    assert event[:3] == ["walk/contact/left_heel", 0, "start"] and event[3] == pytest.approx(0.1 + 1 / 60)
    page.keyboard.press("i")
    page.keyboard.press("End")
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("o")
    assert told(page, "onRange")[-1][0] == pytest.approx([0.1, 10 - 10 / 60])
    page.wait_for_timeout(300)
    assert "left heel" in page.evaluate("timeline.canvas.getAttribute('aria-valuetext')")
    described = page.evaluate("document.getElementById(timeline.canvas.getAttribute('aria-describedby')).textContent")
    assert "worst from 5.90 s to 6.80 s: pulls at the ground" in described


def test_the_cause_is_told_on_hover_and_the_wheel_zooms_at_the_pointer(page):
    x = round(pixel(6.2))  # a wheel tells whole pixels
    page.mouse.move(x, row(page, "walk/band/validity"))
    assert "210 N (worst)" in page.locator(".timeline-tip").inner_text()
    before = page.evaluate(f"timeline.axis.toSeconds({x})")
    page.mouse.wheel(0, -600)
    page.wait_for_function("timeline.axis.spanS < 5")
    assert page.evaluate(f"timeline.axis.toSeconds({x})") == pytest.approx(before, abs=1e-6)


def test_without_events_nothing_can_be_changed(browser, script):
    page = browser.new_context(viewport={"width": WIDE, "height": 660}).new_page()
    page.goto(script.as_uri() + "?read")
    page.wait_for_function("window.timeline !== undefined")
    rows = page.evaluate("JSON.stringify(timeline.model.rows.map(r => [r.id, r.times, r.starts, r.strips]))")
    for name in ("strips", "sketch", "walk/contact/left_heel", "key/hand", "curve/layer"):
        drag(page, (pixel(0.8), row(page, name)), (pixel(2.0), row(page, name)))
        assert told(page, "onScrub")[-1][0] == pytest.approx(2.0, abs=0.01)
    assert page.evaluate("JSON.stringify(timeline.model.rows.map(r => [r.id, r.times, r.starts, r.strips]))") == rows


@pytest.fixture
def spend(page):
    """Act on `count` frames: the thread's own time a frame [ms], and of each frame the least wall time of three runs.

    Other processes of a busy machine stretch wall time; a stall that is the page's own comes back in every run.
    """
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def thread_ms() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return 1000 * next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    def do(count: int, action: str, prepare: str = "0") -> tuple[float, list[float]]:
        spent, runs = 0.0, []
        for _ in range(3):
            page.evaluate(prepare)
            before = thread_ms()
            runs.append(page.evaluate(f"measure({count}, {action})"))
            spent += thread_ms() - before
        return spent / (3 * count), [min(frame) for frame in zip(*runs, strict=True)]

    return do


FRAME_MS = 1000 / 30
STALL_MS = 50


def test_a_hundred_thousand_keys_pan_and_zoom_at_thirty_frames_a_second(page, spend):
    page.evaluate("timeline.set({durationS: 2500, rows: manyKeys()})")
    assert page.evaluate("timeline.model.rows.reduce((n, r) => n + r.times.length, 0)") == 100_000
    zoom_in_and_out = "i => { timeline.axis.zoom(i < 60 ? 0.9 : 1 / 0.9, 700); timeline.redraw() }"
    zoom, zooms = spend(120, zoom_in_and_out, "timeline.show()")
    pan, pans = spend(120, "i => { timeline.axis.pan(i % 2 ? 7 : -5); timeline.redraw() }", "timeline.show(1000, 1200)")
    print(f"zoom {zoom:.1f} ms, pan {pan:.1f} ms of the thread a frame; worst {max(zooms):.1f} and {max(pans):.1f} ms")
    assert zoom < FRAME_MS and pan < FRAME_MS
    assert median(zooms) < FRAME_MS and median(pans) < FRAME_MS


def test_all_of_a_hundred_thousand_keys_can_be_selected_and_moved(page, spend):
    page.evaluate("timeline.set({durationS: 2600, rows: manyKeys()}); timeline.show()")
    page.mouse.move(WIDE - 10, row(page, "k0"))
    page.mouse.down()
    page.mouse.move(LABELS + 2, 600, steps=4)
    page.mouse.up()
    count = page.evaluate("Array.from(timeline.model.selection.keys.values()).reduce((n, k) => n + k.length, 0)")
    assert count > 50_000
    shift = "i => timeline.drags.shift(start.rows, start.selection, 0.1 * (i + 1), 0, 'move')"
    page.evaluate("window.start = {rows: timeline.model.rows, selection: timeline.model.selection}")
    mean, _ = spend(10, shift)
    print(f"{count} keys move in {mean:.0f} ms of the thread a frame")
    assert page.evaluate("timeline.model.rows.every(r => r.times.every((t, i) => i === 0 || r.times[i - 1] <= t))")
    assert mean < 250


def test_a_take_of_150_000_frames_is_scrubbed_without_a_stall(page, spend):
    page.evaluate("timeline.set({durationS: 2500, rows: longTake()})")
    scrub, scrubs = spend(200, "i => timeline.set({playheadS: (i * 977) % 2500})", "timeline.show()")
    zoom_in_and_out = "i => { timeline.axis.zoom(i < 50 ? 0.85 : 1 / 0.85, 500); timeline.redraw() }"
    zoom, zooms = spend(100, zoom_in_and_out, "timeline.show()")
    print(
        f"scrub {scrub:.1f} ms, zoom {zoom:.1f} ms of the thread a frame; worst {max(scrubs):.1f}, {max(zooms):.1f} ms"
    )
    assert max(scrubs) < STALL_MS
    assert zoom < FRAME_MS

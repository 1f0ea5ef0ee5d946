"""Who works by keys, with little contrast or on a small screen: computed styles and the focus of the page itself."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser

# Every text that is seen: its colour against what is really painted behind it (WCAG 2.1, 1.4.3)
LOW_CONTRAST = """() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return text.startsWith('color(') ? [255 * r, 255 * g, 255 * b, a] : [r, g, b, a];
  };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a), 1];
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    const layers = [];
    for (let e = element; e !== null; e = e.parentElement) {
      const paint = parse(getComputedStyle(e).backgroundColor);
      if (paint[3] > 0) layers.push(paint);
      if (paint[3] === 1) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255, 1]);
  };
  const found = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim() !== '');
    const style = getComputedStyle(e), box = e.getBoundingClientRect();
    const isField = e.matches('input, textarea, select') && (e.value || e.placeholder);
    if ((!own && !isField) || box.width < 2 || !e.checkVisibility({ visibilityProperty: true })) continue;
    if (e.closest(':disabled, [aria-disabled="true"], .sr, option, [type=range], [type=checkbox]')) continue;
    let opacity = 1;
    for (let p = e; p !== null; p = p.parentElement) opacity *= Number(getComputedStyle(p).opacity);
    const ground = behind(e), [r, g, b, a] = parse(style.color);
    const placeholder = isField && !e.value ? parse(getComputedStyle(e, '::placeholder').color) : null;
    const front = placeholder ?? [r, g, b, a];
    const ink = over([...front.slice(0, 3), front[3] * opacity], ground);
    const [x, y] = [light(ink), light(ground)].sort((p, q) => q - p);
    const size = parseFloat(style.fontSize), isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (x + 0.05) / (y + 0.05);
    if (ratio < (isLarge ? 3 : 4.5)) {
      const text = (e.value || e.placeholder || e.textContent).trim().slice(0, 30);
      found.push(`${ratio.toFixed(2)} ${e.className} '${text}' ${style.color}`);
    }
  }
  return found;
}"""

OPENED = ("Control+k", "?")


@pytest.fixture
def tab(studio, open_page):
    tab = open_page(studio.address)
    yield tab
    assert tab.errors == []


def open_tools(tab) -> list[str]:
    return tab.get("mareyStudio.session.tools.value.filter(t => t.group !== '').map(t => t.id)")


def set_tool(tab, tool: str | None) -> None:
    tab.page.evaluate("tool => { mareyStudio.session.tool.value = tool }", tool)
    tab.page.wait_for_timeout(60)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_text_has_contrast_with_what_is_behind_it(tab, theme) -> None:
    if tab.get("document.documentElement.dataset.theme") != theme:
        tab.page.get_by_role("button", name=f"{theme.capitalize()} theme").click()
    tab.wait(f"document.documentElement.dataset.theme === '{theme}'")
    tab.page.wait_for_timeout(300)  # colours fade from one theme to the other
    low: dict[str, list[str]] = {}
    for tool in open_tools(tab):
        set_tool(tab, tool)
        for more in tab.page.locator("details.more > summary").all():
            more.click()
        low[tool] = tab.page.evaluate(LOW_CONTRAST)
    set_tool(tab, None)
    for panel in ("Details", "Jobs", "Tool"):
        tab.page.get_by_role("tab", name=panel).click()
        low[panel] = tab.page.evaluate(LOW_CONTRAST)
    for key in OPENED:
        tab.press(key)
        tab.page.get_by_role("dialog").wait_for()
        low[key] = tab.page.evaluate(LOW_CONTRAST)
        tab.press("Escape")
    assert {where: texts for where, texts in low.items() if texts} == {}


FOCUSABLE = """() => {
  // One of the tabs of a list and of the options of a group takes the focus, arrows do the rest
  const all = [...document.querySelectorAll('button, input, select, textarea, summary, a[href], [tabindex]')];
  window.wanted = all.filter(e => !e.disabled && e.tabIndex >= 0
    && e.checkVisibility({ visibilityProperty: true }));
  window.reached = new Set();
  window.unseen = [];
  return window.wanted.length;
}"""
REACHED = """() => {
  const e = document.activeElement;
  if (e === null || e === document.body || window.reached.has(e)) return false;
  window.reached.add(e);
  const style = getComputedStyle(e), own = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
  const label = e.matches('.sr') && getComputedStyle(e.labels[0]).outlineStyle !== 'none';
  const ring = own || style.boxShadow !== 'none' || label;
  if (!ring) window.unseen.push(e.outerHTML.slice(0, 140));
  return true;
}"""


@pytest.mark.parametrize("tool", [None, "path", "retarget", "library", "pose", "simulate", "export", "footprints"])
def test_the_tab_key_comes_to_every_control_and_shows_where_it_is(tab, tool) -> None:
    set_tool(tab, tool)
    if tool == "library":
        tab.page.locator(".rows .pick.tall").first.wait_for()
    tab.page.wait_for_timeout(400)
    count = tab.page.evaluate(FOCUSABLE)
    for _ in range(count + 20):
        tab.press("Tab")
        tab.page.evaluate(REACHED)
    missed = tab.page.evaluate(
        "() => wanted.filter(e => !reached.has(e) && e.isConnected).map(e => e.outerHTML.slice(0, 140))"
    )
    assert count > 30 and missed == []
    assert tab.page.evaluate("() => unseen") == []
    set_tool(tab, None)


WIDE = """() => [...document.querySelectorAll('.panel')].filter(e => e.scrollWidth > e.clientWidth + 1)
  .map(e => e.id)"""


@pytest.mark.parametrize("size", [(1280, 720), (1440, 900)])
def test_nothing_is_cut_off_or_out_of_reach(studio, open_page, size) -> None:
    tab = open_page(studio.address, size=size)
    beyond = """() => [...document.querySelectorAll('button, input, select, textarea, summary')].filter(e => {
      const box = e.getBoundingClientRect();
      return box.width > 0 && !e.closest('.sr') && !e.matches('.sr') && (box.left < -1 || box.right > innerWidth + 1);
    }).map(e => e.outerHTML.slice(0, 120))"""
    for tool in open_tools(tab):
        set_tool(tab, tool)
        assert tab.get(
            "document.documentElement.scrollWidth <= innerWidth && document.documentElement.scrollHeight <= innerHeight"
        )
        assert tab.page.evaluate(beyond) == [], tool
        assert tab.page.evaluate(WIDE) == [], tool
        main = tab.page.locator(".run .button.main, .tool .button.main").first
        if main.count():
            # The tool's own button is seen without scrolling, and nothing lies over it
            box = main.bounding_box()
            at = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
            assert tab.page.evaluate(
                "([x, y]) => document.elementFromPoint(x, y)?.closest('.button.main') !== null", at
            ), tool
        view = tab.page.get_by_role("main", name="Viewport").bounding_box()
        assert view["width"] >= 0.4 * size[0] and view["height"] >= 0.35 * size[1]
    assert tab.errors == []

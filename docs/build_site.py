"""Build the static site: README, pages, decisions, examples and a reference of every public name (`make docs`).

The pages are copied to `build/pages` with their links adapted, the reference is written there from docstrings, and
mkdocs turns the folder into `build/site`. Every warning of mkdocs ends the build: a link, an anchor or a picture that
does not exist, a page that is listed and missing. Formulas become MathML, so that the site needs no network.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import logging
import os
import re
import shutil
import sys
import types
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import marey

ROOT = Path(__file__).resolve().parents[1]
DOCS, BUILD = ROOT / "docs", ROOT / "build"
PAGES, SITE = BUILD / "pages", BUILD / "site"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(?=\S)((?:[^$\n]|\n(?!\n))+?)(?<=\S)\$", re.DOTALL)
SECTIONS = ("Args", "Returns", "Raises", "Yields", "Note", "Methods")
MAX_SIGNATURE = 90  # [letters] of a signature on one line
STYLE = """.wy-nav-content { max-width: 1000px; }
.wy-table-responsive table td, .wy-table-responsive table th { white-space: normal; }
.rst-content pre { white-space: pre-wrap; }
"""
PLAYED = "## Pages that play"  # the heading under which a page plays
FRAME = '<iframe src="motions.html" title="A walk, a run, a jump" style="width:100%;height:480px;border:0"></iframe>'
GUIDES = {
    "Start": [
        *("own-clip", "own-people", "researchers", "formats", "characters", "pictures", "commands", "json"),
        "environment",
    ],
    "Studio": ["studio", "recipes"],
    "Clips": ["cleaning", "feet", "measure", "retargeting", "laboratories", "library", "scale", "compression"],
    "Poses": ["ik", "limits", "pose-models", "in-betweens", "tracking"],
    "Physics": ["physics-report", "physics", "simulation", "muscles"],
    "Motions that are made": ["locomotion", "scripts", "graphs"],
    "Background": ["conventions", "glossary", "architecture"],
}  # the menu: headings and pages


class _Text:
    """An annotation that prints as it stands in the source."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def replace_outside_code(text: str, change: Callable[[str], str]) -> str:
    """Apply a change to everything but code."""
    pieces, last = list[str](), 0
    for found in CODE.finditer(text):
        pieces += [change(text[last : found.start()]), found[0]]
        last = found.end()
    return "".join([*pieces, change(text[last:])])


# The reference


def format_docstring(text: str) -> str:
    """A docstring in Google style, with the roles and formulas of reStructuredText, as Markdown."""
    text = inspect.cleandoc(text)
    # Formulas: on the line of the directive, or indented below it
    text = re.sub(
        r"^( *)\.\. math::[ ]*(.*(?:\n(?:\1[ ]+\S.*|[ ]*(?=\n\1[ ]+\S)))*)",
        lambda found: f"{found[1]}$$ {' '.join(found[2].split())} $$",
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(r":math:`([^`]+)`", lambda found: f"${' '.join(found[1].split())}$", text)
    text = re.sub(r":\w+:`~?([^`<]+)(?: <[^`]+>)?`", r"`\1`", text)
    text = re.sub(r"``([^`]+)``", lambda found: f"`{' '.join(found[1].split())}`", text)
    text = re.sub(r"\[([A-Z]\w+\d{4}[a-z]?)\]_", r"\1", text)
    text = replace_outside_code(text, lambda part: re.sub(r"(?<![$*\\])\*(?=\w)", r"\\*", part))
    lines = list[str]()
    section = False
    for line in text.splitlines():
        heading = re.fullmatch(rf"({'|'.join(SECTIONS)}):", line)
        entry = re.fullmatch(r" {4}([\w*`][\w*`., ]*): (.*)", line)
        if heading:
            section = True
            lines += ["", f"**{heading[1]}**", ""]
        elif section and line and not line.startswith(" "):
            section = False
            lines += ["", line]
        elif section and entry:
            lines.append(f"- `{entry[1].strip('`')}`: {entry[2]}")
        elif section and line.startswith('    `"'):  # a value in quotes begins an entry too
            lines.append(f"- {line.strip()}")
        else:
            lines.append(f"  {line.strip()}" if section and line else line)
    return "\n".join(lines).strip()


def format_signature(value: Any) -> str:
    """The parameters of a function or class as they stand in its source."""
    try:
        signature = inspect.signature(getattr(value, "py_func", value))
    except (TypeError, ValueError):
        return ""

    def plain(annotation: Any) -> Any:
        return _Text(annotation) if isinstance(annotation, str) else annotation

    parameters = [one.replace(annotation=plain(one.annotation)) for one in signature.parameters.values()]
    parameters = [one for one in parameters if one.name not in ("self", "cls")]
    whole = signature.replace(parameters=parameters, return_annotation=plain(signature.return_annotation))
    text = str(whole)
    if len(text) > MAX_SIGNATURE:
        # One parameter a line; the marks of keyword-only parameters stand where the signature has them
        lines = [str(inspect.Signature([one]))[1:-1] for one in parameters]
        kinds = [one.kind for one in parameters]
        if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
            lines = [line.removeprefix("*, ") for line in lines]
            lines.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
        text = "(\n    " + ",\n    ".join(lines) + ",\n)" + text.rpartition(")")[2]
    return re.sub(r"<(?:function|class|built-in function) '?([\w.]+)'?[^>]*>", r"\1", text)


def list_members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class that have a docstring of their own."""
    for name, value in vars(kind).items():
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        if not name.startswith("_") and inspect.isfunction(function) and function.__doc__:
            yield name, value


def describe_name(room: str, name: str) -> list[str]:
    """Lines of a public name: signature, docstring, and for a class its fields and methods."""
    value = getattr(import_module(f"marey.{room}"), name)
    lines = [f"## {name}", ""]
    document = inspect.getdoc(value) if callable(value) or inspect.isclass(value) else None
    if not callable(value) or isinstance(value, types.GenericAlias):
        shown = repr(value)
        return [*lines, "```python", f"{name} = {shown if len(shown) < 200 else type(value).__name__}", "```", ""]
    word = "class " if inspect.isclass(value) else ""
    lines += ["```python", f"{word}marey.{room}.{name}{format_signature(value)}", "```", ""]
    # A dataclass without a docstring has its signature as one
    if document and not document.startswith(f"{name}("):
        lines += [format_docstring(document), ""]
    if inspect.isclass(value):
        if dataclasses.is_dataclass(value):
            # The comment behind a field has its shape and unit
            source = inspect.getsource(value)
            notes = dict(re.findall(r"^ {4}(\w+): [^#\n]*#[ ]*(?:noqa[^\n]*)?(.*)$", source, re.MULTILINE))
            fields = [
                f"`{field.name}`: `{field.type}`" + (f", {notes[field.name]}" if notes.get(field.name) else "")
                for field in dataclasses.fields(value)
                if field.repr
            ]
            lines += ["**Fields**", "", *(f"- {one}" for one in fields), ""] if fields else []
        for inner, member in list_members(value):
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            shown = "" if isinstance(member, property) else format_signature(function)
            lines += [f"### {name}.{inner}", "", "```python", f"{inner}{shown}", "```", ""]
            lines += [format_docstring(function.__doc__), ""]
    return lines


def describe_room(room: str) -> str:
    """The page of a room: its docstring and every name that it offers."""
    module = import_module(f"marey.{room}")
    names = sorted(cast(list[str], module.__all__), key=str.lower)
    lines = [f"# marey.{room}", "", format_docstring(module.__doc__ or ""), ""]
    lines += [" · ".join(f"[{name}](#{name.lower()})" for name in names), ""]
    for name in names:
        lines += describe_name(room, name)
    return "\n".join(lines)


# The pages


def map_sources() -> dict[Path, str]:
    """Where each source file stands in the site."""
    places = {ROOT / "README.md": "index.md", ROOT / "CONTRIBUTING.md": "contributing.md"}
    places |= {ROOT / "CHANGELOG.md": "changelog.md", ROOT / "examples" / "README.md": "examples/index.md"}
    places |= {ROOT / "examples": "examples/index.md"}
    places |= {DOCS / name: f"{name}/index.md" for name in ("theses", "decisions")}
    for path in sorted(DOCS.rglob("*")):
        if path.suffix in (".md", ".png", ".gif", ".svg"):
            places[path] = path.relative_to(DOCS).as_posix()
    for path in sorted((ROOT / "examples").glob("[0-9]*.py")):
        places[path] = f"examples/{path.stem}.md"
    return places


def adapt_links(text: str, source: Path, places: dict[Path, str]) -> str:
    """Let the links of a page lead to the pages of the site; those to source files become text."""

    def change(found: re.Match[str]) -> str:
        picture, label, link = found.groups()
        path, _, anchor = link.partition("#")
        if not path or ":" in path:
            return found[0]
        target = (source.parent / path).resolve()
        if target not in places:
            if not target.exists():
                raise SystemExit(f"{source.relative_to(ROOT)}: no file '{path}'")
            return label if label.startswith("`") else f"`{label}`"
        here = os.path.relpath(places[target], (PAGES / places[source]).relative_to(PAGES).parent)
        return f"{picture}[{label}]({here}{'#' if anchor else ''}{anchor})"

    return replace_outside_code(text, lambda part: LINK.sub(change, part))


def write_pages() -> dict[str, str]:
    """Write every page to `build/pages`; return the formulas by the word that stands for each."""
    shutil.rmtree(PAGES, ignore_errors=True)
    places, formulas = map_sources(), dict[str, str]()

    def write(place: str, text: str) -> None:
        def stand_in(found: re.Match[str]) -> str:
            word = f"FORMULA{len(formulas):05d}X"
            formulas[word] = ("$$" if found[1] else "") + (found[1] or found[2]).strip()
            return f"\n\n{word}\n\n" if found[1] and "\n\n" in found.string[found.end() : found.end() + 2] else word

        target = PAGES / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(replace_outside_code(text, lambda part: FORMULA.sub(stand_in, part)), encoding="utf-8")

    for source, place in places.items():
        if source.suffix == ".md":
            text = source.read_text(encoding="utf-8")
            # The marks of blocks are for the tests
            text = re.sub(r"^<!-- .* -->\n", "", text, flags=re.MULTILINE)
            write(place, adapt_links(text, source, places))
        elif source.suffix == ".py":
            write(place, f"# {source.name}\n\n```python\n{source.read_text(encoding='utf-8')}```\n")
        elif source.is_file():
            (PAGES / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, PAGES / place)
    (PAGES / "style.css").write_text(STYLE, encoding="utf-8")
    # The page on pictures plays some motions
    page = (PAGES / "pictures.md").read_text(encoding="utf-8")
    (PAGES / "pictures.md").write_text(page.replace(PLAYED, f"{PLAYED}\n\n{FRAME}"), encoding="utf-8")
    clips = [marey.samples.walk(), marey.samples.run(), marey.samples.jump(1.2)]
    marey.picture.save_page(clips, PAGES / "motions.html", title="walk, run, jump")
    for folder, title in (("theses", "From a thesis to its code"), ("decisions", "Decisions")):
        lines = [f"# {title}", ""]
        for path in sorted((DOCS / folder).glob("*.md")):
            heading = re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            lines.append(f"- [{heading[1] if heading else path.stem}]({path.name})")
        write(f"{folder}/index.md", "\n".join([*lines, ""]))
    rooms = list_rooms()
    lines = ["# Reference", "", "The rooms of the package, top floor first, with every name that they offer.", ""]
    for room in rooms:
        write(f"api/{room}.md", describe_room(room))
        sentence = (import_module(f"marey.{room}").__doc__ or "").split("\n\n")[0]
        lines.append(f"- [marey.{room}]({room}.md): {format_docstring(' '.join(sentence.split()))}")
    write("api/index.md", "\n".join([*lines, ""]))
    return formulas


def list_rooms() -> list[str]:
    """The rooms of the package in the order of the floors."""
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    return [room for room in re.findall(r"^- \*\*`(\w+)`\*\*", text, re.MULTILINE) if room != "cli"]


def write_settings() -> Path:
    """Write the settings of mkdocs, whose menu lists every guide; JSON is YAML."""
    listed = {name for names in GUIDES.values() for name in names}
    missing = {path.stem for path in DOCS.glob("*.md")} ^ listed
    if missing:
        raise SystemExit(f"docs/build_site.py: the menu and the pages differ: {', '.join(sorted(missing))}")
    menu: list[dict[str, Any]] = [{"Overview": "index.md"}]
    menu += [{heading: [f"{name}.md" for name in names]} for heading, names in GUIDES.items()]
    results = [f"results/{path.name}" for path in sorted(DOCS.glob("results/*.md")) if path.stem != "index"]
    menu += [{"Measurements": ["results/index.md", *results]}]
    menu += [{"Examples": "examples/index.md"}, {"Theses": "theses/index.md"}, {"Decisions": "decisions/index.md"}]
    menu += [{"Reference": ["api/index.md", *(f"api/{room}.md" for room in list_rooms())]}]
    menu += [{"Contributing": "contributing.md"}, {"Changelog": "changelog.md"}]
    strict = {"not_found": "warn", "anchors": "warn", "absolute_links": "warn", "unrecognized_links": "warn"}
    settings = {
        "site_name": "marey",
        "docs_dir": str(PAGES),
        "site_dir": str(SITE),
        "use_directory_urls": False,
        "strict": True,
        "theme": {"name": "readthedocs", "highlightjs": False, "navigation_depth": 3},
        "markdown_extensions": ["tables", "fenced_code", "sane_lists", {"toc": {"permalink": False}}],
        "validation": {"links": strict, "nav": {"not_found": "warn", "absolute_links": "warn"}},
        "extra_css": ["style.css"],
        "nav": menu,
    }
    path = BUILD / "mkdocs.yml"
    path.write_text(json.dumps(settings, indent=1), encoding="utf-8")
    return path


def write_formulas(formulas: dict[str, str]) -> None:
    """Put the formulas into the pages of the site."""
    from latex2mathml.converter import convert

    shown = {
        word: convert(tex.removeprefix("$$"), display="block" if tex.startswith("$$") else "inline")
        for word, tex in formulas.items()
    }
    for page in [*SITE.rglob("*.html"), *SITE.rglob("search_index.json")]:
        text = page.read_text(encoding="utf-8")
        for word in set(re.findall(r"FORMULA\d{5}X", text)):
            text = text.replace(word, shown[word] if page.suffix == ".html" else "")
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    BUILD.mkdir(exist_ok=True)
    formulas = write_pages()
    build(load_config(str(write_settings())))  # a warning ends it: the settings say `strict`
    write_formulas(formulas)
    sys.stdout.write(f"{SITE.relative_to(ROOT)}: {len(list(SITE.rglob('*.html')))} pages\n")

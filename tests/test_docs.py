"""The documentation follows the source: its code blocks run, generated pages are up to date, names and links exist.

The blocks of a page run one after the other, in one namespace and one empty folder. Lines of shell blocks go through
the command; other programs are not started. A comment above a block may say what to do with it:

- ``<!-- skip: reason -->``: it is not run;
- ``<!-- slow: reason -->``: it runs in `make study` only;
- ``<!-- file: NAME -->``: it is written to this file, for the blocks below it.

A shell line whose comment says ``exits with N`` must do so; every other line must exit with 0.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import io
import json
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, *sorted(DOCS.glob("*.md"))]
LANGUAGES = {"python", "sh", "toml", "text"}  # of code blocks; what is neither run nor written to a file is text
FENCE = re.compile(r"(?:^<!-- (skip|slow|file): (.*?) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"")
CITATION = re.compile(r"\[([A-Z][A-Za-z]*\d{4}[a-z]?)\]_")


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    page: Path
    line: int  # of its first line of code
    mark: str  # skip, slow, file or none
    why: str  # reason of the mark, or the name of the file
    language: str
    text: str
    below: str  # text between this block and the next one

    @property
    def is_run(self) -> bool:
        return self.language in ("python", "sh") and self.mark != "skip"


@cache
def find_blocks(page: Path) -> tuple[Block, ...]:
    """Code blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return tuple(
        Block(page, text.count("\n", 0, match.start(4)) + 1, match[1] or "", match[2] or "", match[3], match[4], below)
        for match, below in ((match, text[match.end() : end]) for match, end in zip(found, ends, strict=False))
    )


ALL_BLOCKS = [block for page in PAGES for block in find_blocks(page)]


def run_command(line: str, where: str) -> str:
    """Run a line of a shell block through the command; return what it prints."""
    from marey.cli import main

    comment = re.search(r"#.*exits with (\d+)", line)
    words = shlex.split(line, comments=True)
    assert words[0] == "marey", f"{where}: '{words[0]}' is not run; mark the block"
    # `> FILE` keeps what is printed
    target = Path(words.pop()) if ">" in words else None
    words = [word for word in words if word != ">"]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words[1:])
    assert code == (int(comment[1]) if comment else 0), f"{where}: `{line}` exits with {code}: {err.getvalue()}"
    if target is not None:
        target.write_text(out.getvalue(), encoding="utf-8")
    return out.getvalue()


def run_page(page: Path, *, with_slow: bool) -> Iterator[tuple[Block, str]]:
    """Run the blocks of a page in the present folder; give each with what its commands print."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in find_blocks(page):
        printed = ""
        if block.mark == "file":
            Path(block.why).write_text(block.text, encoding="utf-8")
        elif block.is_run and (with_slow or block.mark != "slow"):
            where = f"{page.name}:{block.line}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.simplefilter("error", DeprecationWarning)
                if block.language == "python":
                    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
                    with contextlib.redirect_stdout(io.StringIO()):
                        exec(code, namespace)
                else:
                    lines = block.text.replace("\\\n", " ").splitlines()
                    printed = "".join(run_command(line, where) for line in lines if line.split("#")[0].strip())
        yield block, printed


def list_fields(value: Any, name: str = "") -> Iterator[str]:
    """Names of the fields of a JSON value: ``spans[].start_s`` is a field of each item of a list."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from list_fields(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from list_fields(inner, f"{name}[]")
    else:
        yield name


def list_verbs() -> dict[str, Any]:
    """Verbs of the command by name; those inside a group carry its name."""
    import typer

    from marey.cli.app import app

    verbs: dict[str, Any] = {}
    for name, verb in typer.main.get_command(app).commands.items():  # pyright: ignore
        inner = getattr(verb, "commands", None)
        verbs |= {f"{name} {one}": value for one, value in inner.items()} if inner else {name: verb}
    return verbs


def find_anchors(page: Path) -> set[str]:
    """Anchors that the headings of a page have on GitHub and on the site."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@cache
def load_generator(file: str = "generate.py") -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{Path(file).stem}", DOCS / file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@cache
def defined_names() -> frozenset[tuple[str, str]]:
    """(room, name) of every class, function and constant at the top level of a module."""
    top = re.compile(r"^(?:class|def|async def) (\w+)|^(\w+) *(?::[^=\n]*)?=(?!=)", re.MULTILINE)
    names: set[tuple[str, str]] = set()
    for path in (ROOT / "marey").rglob("*.py"):
        room = path.relative_to(ROOT / "marey").parts[0]
        names |= {(room, one or other) for one, other in top.findall(path.read_text(encoding="utf-8"))}
    return frozenset(names)


def glossary_rows() -> list[list[str]]:
    lines = (DOCS / "glossary.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [row for row in rows if row[0] != "term"]


def test_the_generated_pages_are_those_that_the_generator_writes() -> None:
    for page, text in load_generator().write_pages().items():
        assert page.read_text(encoding="utf-8") == text, f"{page.name} is out of date: run `make docs`"


def test_every_thesis_page_names_functions_and_tests() -> None:
    for page, *_ in load_generator().THESES.values():
        text = (DOCS / "theses" / f"{page}.md").read_text(encoding="utf-8")
        rows = [line for line in text.splitlines() if "](../../marey/" in line]
        tested = [row for row in rows if "::test_" in row]
        assert len(rows) > 50 and len(tested) >= 0.95 * len(rows), page


def test_every_citation_key_has_an_entry_in_the_bibliography() -> None:
    entries = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "marey" / "cli" / "references.bib").read_text("utf-8"), re.M))
    pages = [*(ROOT / "marey").rglob("*.py"), *DOCS.rglob("*.md")]
    cited = {key for page in pages for key in CITATION.findall(page.read_text(encoding="utf-8"))}
    assert set(load_generator().THESES) <= cited and cited <= entries


def test_every_row_of_the_glossary_has_a_term_a_meaning_and_a_carrier_that_exists() -> None:
    rows = glossary_rows()
    assert len(rows) > 80
    for term, meaning, _, carrier in rows:
        found = re.fullmatch(r"`(\w+)\.(\w+)`", carrier)
        assert term and meaning and found, (term, carrier)
        assert (found[1], found[2]) in defined_names(), f"{term}: marey.{carrier} is not defined"


def test_a_term_of_the_glossary_stands_once() -> None:
    terms = [row[0] for row in glossary_rows()]
    assert sorted(terms) == sorted(set(terms))


def test_no_class_or_function_has_a_name_that_the_glossary_replaces() -> None:
    banned = {word for row in glossary_rows() for word in re.findall(r"`(\w+)`", row[2])}
    assert len(banned) > 30
    names = {(name.strip("_").lower(), room) for room, name in defined_names() if not name.isupper()}
    assert sorted((name, room) for name, room in names if name in banned) == []


def test_every_code_block_says_its_language_and_why_it_is_not_run() -> None:
    for block in ALL_BLOCKS:
        assert block.language in LANGUAGES, f"{block.page.name}:{block.line}: ```{block.language}"
        assert len(block.why) > 5 or block.mark == "", f"{block.page.name}:{block.line}: no reason"
    run = [block for block in ALL_BLOCKS if block.is_run]
    left_out = [block for block in ALL_BLOCKS if block.mark == "skip"]
    assert len(run) > 60 and len(left_out) < 12


def test_every_import_of_a_code_block_resolves() -> None:
    for block in ALL_BLOCKS:
        for node in ast.walk(ast.parse(block.text)) if block.language == "python" else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("marey"):
                module = importlib.import_module(node.module or "")
                assert {alias.name for alias in node.names} <= set(module.__all__), f"{block.page.name}:{block.line}"


PARTS = [page for page in PAGES[1:] if find_blocks(page) and page.stem != "json"]  # those two have tests of their own


@pytest.mark.parametrize("page", PARTS, ids=lambda page: page.stem)
def test_the_blocks_of_the_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in run_page(page, with_slow=False):
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PARTS if any(b.mark == "slow" for b in find_blocks(page))], ids=lambda page: page.stem
)
def test_the_slow_blocks_of_the_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in run_page(page, with_slow=True):
        pass


@pytest.mark.parametrize("with_slow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_readme_runs_and_writes_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_slow: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in run_page(README, with_slow=with_slow):
        pass
    written = {"jump.glb", "jump.bvh", "jump.gif", "validity.csv"} | ({"key.glb"} if with_slow else set())
    assert written <= {path.name for path in tmp_path.iterdir()}


def check_json_fields(*, with_slow: bool) -> None:
    """The tables of `json.md` list the fields that the commands above them print."""
    for block, printed in run_page(DOCS / "json.md", with_slow=with_slow):
        lines = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
        given = {field for line in lines for field in list_fields(line)}
        rows = re.findall(r"^\| (`.+?) \|", block.below, re.MULTILINE)
        listed = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
        open_names = tuple(name.removesuffix("*") for name in listed if name.endswith("*"))
        known = {name for name in given if name in listed or (open_names and name.startswith(open_names))}
        where = f"json.md:{block.line}"
        assert not lines or given == known, f"{where}: not listed: {sorted(given - known)}"
        fixed = {name for name in listed if not name.endswith("*")}
        assert not lines or fixed <= given, f"{where}: not printed: {sorted(fixed - given)}"


def test_the_json_page_lists_the_fields_that_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_json_fields(with_slow=False)


@pytest.mark.slow
def test_the_json_page_lists_the_fields_of_slow_verbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_json_fields(with_slow=True)


def test_the_json_page_shows_every_verb_that_prints_json() -> None:
    text = "\n".join(block.text for block in find_blocks(DOCS / "json.md"))
    for name, verb in list_verbs().items():
        if any("--json" in parameter.opts for parameter in verb.params):
            assert re.search(rf"^marey {name} .*--json", text, re.MULTILINE), name


def test_every_verb_has_a_page_that_shows_it_in_a_block() -> None:
    run = "\n".join(block.text for block in ALL_BLOCKS if block.language == "sh" and block.page.stem != "json")
    missing = [name for name in list_verbs() if not re.search(rf"^marey {name}\b", run, re.MULTILINE)]
    assert missing == []


def test_every_verb_of_the_documentation_exists() -> None:
    known = set(list_verbs())
    for page in PAGES:
        for first, second in re.findall(r"^marey ([a-z-]+)(?: +([a-z]+))?", page.read_text("utf-8"), re.MULTILINE):
            assert first in known or f"{first} {second}" in known, f"{page.name}: marey {first} {second}"


def test_every_option_of_a_command_line_exists() -> None:
    """Also of blocks that run in `make study` alone."""
    import click

    verbs = list_verbs()
    for block in ALL_BLOCKS:
        lines = block.text.replace("\\\n", " ").splitlines() if block.language == "sh" else []
        for words in (shlex.split(line.split("&&")[0], comments=True) for line in lines):
            if words[:1] != ["marey"]:
                continue
            words = [word for word in words[1:] if word not in (">", "--quiet", "--verbose")]
            verb = " ".join(words[: 2 if " ".join(words[:2]) in verbs else 1])
            parser = verbs[verb].make_parser(click.Context(verbs[verb]))
            parser.parse_args(words[len(verb.split()) :])  # an option that does not exist, or lacks its value, raises


def test_every_page_is_reached_from_the_readme() -> None:
    seen, ahead = set[Path](), [README]
    while ahead:
        page = ahead.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            target = (page.parent / (link[0] or link[1]).split("#")[0]).resolve()
            ahead += sorted(target.glob("*.md")) if target.is_dir() else [target] if target.is_file() else []
    assert sorted(page.name for page in DOCS.rglob("*.md") if page not in seen) == []


def test_every_link_leads_to_a_file_and_to_a_heading_of_it() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md", *DOCS.glob("*/*.md")]:
        for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            path, _, anchor = (link[0] or link[1]).partition("#")
            if ":" in path:
                continue
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page.name}: {path}"
            assert not anchor or anchor in find_anchors(target), f"{page.name}: {path}#{anchor}"


def test_the_reference_describes_every_public_name_by_its_docstring() -> None:
    site = load_generator("build_site.py")
    rooms = site.list_rooms()
    assert len(rooms) > 20
    for room in rooms:
        page, module = site.describe_room(room), importlib.import_module(f"marey.{room}")
        for name in module.__all__:
            assert f"\n## {name}\n" in page
            value = getattr(module, name)
            assert not isinstance(value, type | FunctionType) or value.__doc__, f"{room}.{name}"


def test_the_menu_of_the_site_lists_every_page() -> None:
    listed = sorted(name for names in load_generator("build_site.py").GUIDES.values() for name in names)
    assert listed == sorted(page.stem for page in DOCS.glob("*.md"))


@pytest.mark.slow
def test_the_site_builds_without_a_warning() -> None:
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    done = subprocess.run([sys.executable, str(DOCS / "build_site.py")], capture_output=True, text=True)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr

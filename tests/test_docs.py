"""The documentation follows the source: generated pages are up to date, names and citations exist."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCKS = {
    f"{page.stem}-{number}": block
    for page in sorted(DOCS.glob("*.md"))
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
}
CITATION = re.compile(r"\[([A-Z][A-Za-z]*\d{4}[a-z]?)\]_")


@cache
def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@cache
def defined_names() -> frozenset[tuple[str, str]]:
    """(room, name) of every class, function and constant at the top level of a module."""
    names: set[tuple[str, str]] = set()
    for path in (ROOT / "marey").rglob("*.py"):
        room = path.relative_to(ROOT / "marey").parts[0]
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            name = getattr(node, "name", getattr(target, "id", ""))
            names |= {(room, name)} if name else set()
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


def test_every_verb_of_the_documentation_exists() -> None:
    done = subprocess.run([sys.executable, "-m", "marey", "--help"], capture_output=True, text=True, check=True)
    known = set(re.findall(r"^\W*(\w+) ", done.stdout, re.MULTILINE))
    verbs = {
        (page.name, verb)
        for page in DOCS.glob("*.md")
        for verb in re.findall(r"^marey (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(verbs) > 20
    assert sorted((page, verb) for page, verb in verbs if verb not in known) == []


def test_every_import_of_a_code_block_resolves() -> None:
    assert len(BLOCKS) >= 8
    for name, block in BLOCKS.items():
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("marey"):
                module = importlib.import_module(node.module or "")
                assert {alias.name for alias in node.names} <= set(module.__all__), name


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_the_code_block_runs_without_deprecated_names(name: str, tmp_path: Path) -> None:
    (tmp_path / "block.py").write_text(BLOCKS[name], encoding="utf-8")
    command = [sys.executable, "-W", "error::DeprecationWarning", "block.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr

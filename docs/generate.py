"""Write the generated pages: the architecture, one page for each thesis, the reference of the command (`make docs`).

`docs/architecture.md` joins the floors of `.importlinter` with the docstrings of the packages. `docs/theses/*.md` list
the equations, sections and figures that docstrings and comments cite, each with its function and its tests.
"""

from __future__ import annotations

import ast
import configparser
import re
import sys
import tokenize
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
MAX_TESTS = 3  # tests named in one row
MAX_HOPS = 8  # calls between a tested function and the one that cites the thesis
NOTE = "<!-- Written by docs/generate.py from the source. Run `make docs`; do not edit. -->"
REFERENCE = "## Reference"  # everything below this heading of `commands.md` is written from the command
ARCHITECTURE = """# Architecture

```text
 files ──io──▶ Motion ──library──▶ clips ─┬─models──▶ pose models ──┐
                  │                       ├─locomotion model        ├─▶ engines ─▶ Motion ─▶ validity ─▶ files, studio
                  └─contacts, gait, body  └─motion graph ───────────┘      ▲
                                                       Sketch + World ─────┘
```

Imports go down the floors below; rooms on one floor do not import one another. `.importlinter` enforces the order. A
room is a public name; its folders and modules are private to it. [Conventions](conventions.md), [glossary](glossary.md)
and [decisions](decisions) hold the rules; [theses](theses) lead from an equation to its function and its tests.

## The rooms, top floor first
"""

THESES = {  # citation key: page, word that starts its acceptance tests, title
    "Tournier2011": ("tournier-2011", "tournier", "Tournier 2011, dimension reduction for character animation"),
    "Glardon2005": ("glardon-2005", "glardon", "Glardon 2005, on-line locomotion synthesis"),
    "Engell2012": ("engell-norregaard-2012", "engell", "Engell-Nørregård 2012, modelling and simulation of motion"),
    "Fang2003": ("fang-2003", "fang", "Fang 2003, synthesis of physically valid motion"),
    "Safonova2006": ("safonova-2006", "safonova", "Safonova 2006, reducing the search space of motion synthesis"),
}

_NUMBER = r"(?:[IVX]+\.|[A-Z]\.)?\d+(?:\.\d+)*[a-c]?"
_RANGE = rf"{_NUMBER}(?:(?:\s?-\s?|\sto\s|\sand\s){_NUMBER})?"
_EQUATION = rf"(?<!\w)\((?:\d+|[A-Z])\.\d+\)(?:-\(\d+\.\d+\))?|\bB\.\d+(?:-B\.\d+)?|[Ee]qs?\.?\s{_RANGE}"
_PLACE = (
    rf"§+\s?{_RANGE}|{_EQUATION}|[Ff]ig(?:ures?|\.)\s{_RANGE}|[Tt]able\s\d+(?:\.\d+)?|ch(?:apter|\.)\s?\d+"
    r"|part\s[IVX]+|[Aa]pp\.\s?[A-Z]|[AFP]\d+(?:-[AFP]?\d+)?|[Rr]ows\sC\d(?:-|\sto\s)C\d|[IVX]+(?:\.\d+)+|\d+\.\d+"
)
CITATION = re.compile(
    rf"(?:(?P<before>{_PLACE})\s+of\s+)?\[(?P<key>\w+\d{{4}}[a-z]?)\]_"
    rf"(?:,?\s+(?P<after>(?:{_PLACE})(?:(?:\s*,\s*|\s+and\s+|\s+with\s+|\s+)(?:{_PLACE}))*))?"
)
HEADINGS = ("Sections", "Equations", "Figures and tables", "Features and acceptance checks", "The method as a whole")
KINDS = (r"§|ch|part|[Aa]pp|[IVX]+\.", r"\(|[Ee]q|[Rr]ows|B\.|\d", r"[Ff]ig|[Tt]able", r"[AFP]\d", r"$")


@dataclass(eq=False)
class Definition:
    """A function, class, method or constant of the package or of the tests; without a name, a whole module."""

    path: Path
    name: str  # qualified inside its module
    first: int  # line
    last: int
    uses: set[str] = field(default_factory=set)  # identifiers in its body; empty for methods

    @property
    def room(self) -> str:
        """Room of the package that holds it or that it tests."""
        return self.path.relative_to(ROOT).parts[1]


@cache
def parse(path: Path) -> ast.Module:
    """Syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def list_sources(folder: str) -> list[Path]:
    """Python files below a folder of the repository."""
    return sorted((ROOT / folder).rglob("*.py"))


@cache
def collect_imports(path: Path) -> set[tuple[str, str]]:
    """Names that a file imports from the package, as (room, name)."""
    nodes = [node for node in ast.walk(parse(path)) if isinstance(node, ast.ImportFrom)]
    parts = [(f"{node.module}.".split("."), alias.name) for node in nodes for alias in node.names]
    return {(module[1], name) for module, name in parts if module[0] == "marey"}


def read_prose(path: Path) -> str:
    """Comments and docstrings of a file, each on the line where it stands; everything else is blank."""
    lines: dict[int, str] = defaultdict(str)
    with tokenize.open(path) as stream:
        for token in tokenize.generate_tokens(stream.readline):
            if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and '"""' in token.string):
                for n, text in enumerate(token.string.splitlines()):
                    lines[token.start[0] + n] += text
    return "\n".join(lines[n] for n in range(1, max(lines, default=0) + 1))


def collect_identifiers(node: ast.AST) -> set[str]:
    """Names and attributes that occur in a piece of code."""
    return {getattr(item, "id", getattr(item, "attr", "")) for item in ast.walk(node)} - {""}


@cache
def collect_definitions(path: Path) -> tuple[Definition, ...]:
    """Everything that a citation can belong to: the module first, inner definitions after outer ones."""
    found = [Definition(path, "", 1, sys.maxsize)]

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            name = getattr(node, "name", "" if prefix else getattr(target, "id", ""))
            if name:
                uses = set[str]() if prefix else collect_identifiers(node)
                found.append(Definition(path, prefix + name, node.lineno, node.end_lineno or node.lineno, uses))
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")

    visit(parse(path).body, "")
    return tuple(found)


@cache
def index_users(folder: str) -> dict[str, list[Definition]]:
    """Functions, classes and tables below a folder by the identifiers that they use."""
    users: dict[str, list[Definition]] = defaultdict(list)
    for path in list_sources(folder):
        for item in collect_definitions(path):
            for name in item.uses:
                users[name].append(item)
    return users


def find_citations(key: str) -> dict[str, list[Definition]]:
    """Definitions that cite a thesis, by the place in the thesis."""
    cited: dict[str, list[Definition]] = defaultdict(list)
    for path in list_sources("marey"):
        if f"[{key}]_" not in path.read_text(encoding="utf-8"):
            continue
        text = read_prose(path)
        matches = list(CITATION.finditer(text))
        found: list[tuple[int, str]] = []  # position in the text, place in the thesis
        for match in (match for match in matches if match["key"] == key):
            places = [match["before"] or "", *re.findall(_PLACE, match["after"] or "")]
            found += [(match.start("key"), place) for place in list(filter(None, places)) or [""]]
        if set(THESES).intersection(match["key"] for match in matches) == {key}:
            # The file cites one thesis alone: equation numbers without a key are those of that thesis.
            found += [(match.start(), match[0]) for match in re.finditer(_EQUATION, text)]
        for position, place in found:
            line = text.count("\n", 0, position) + 1
            owner = [item for item in collect_definitions(path) if item.first <= line <= item.last][-1]  # the innermost
            owners = cited[" ".join(place.split())]
            owners += [owner] if owner not in owners else []
    return cited


def find_users(item: Definition, folder: str) -> list[Definition]:
    """Definitions below a folder that use a definition under its own name."""
    head, member = item.name.split(".")[0], item.name.split(".")[-1]
    names = {("", head), (item.room, head)}
    users = index_users(folder)[member]
    return [user for user in users if user.path == item.path or names & collect_imports(user.path)]


def find_tests(definition: Definition, word: str) -> tuple[list[Definition], str]:
    """Tests of a definition, and the function through which they reach it (empty: they use it themselves)."""
    frontier = [definition] if definition.name else list(collect_definitions(definition.path))[1:]
    seen = {item.name for item in frontier}
    for hop in range(MAX_HOPS + 1):
        for item in frontier:
            tests = [user for user in find_users(item, "tests") if user.name.startswith("test_")]
            tests.sort(key=lambda test: (test.room != item.room, f"test_{word}" not in test.name))
            if tests:
                return tests, item.name if hop else ""
        users = {id(user): user for item in frontier for user in find_users(item, "marey") if user.name not in seen}
        frontier = sorted(users.values(), key=lambda item: (item.room != definition.room, item.path, item.first))
        seen |= {item.name for item in frontier}
    return [], ""


def order_place(place: str) -> tuple[int, list[tuple[int, str]]]:
    """Rank of a place: its kind, then its numbers in natural order."""
    kind = next(n for n, pattern in enumerate(KINDS) if re.match(pattern, place))
    return kind, [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|[A-Za-z]+", place)]


def write_thesis(key: str) -> str:
    """Page of one thesis: place, function, file, tests."""
    _, word, title = THESES[key]
    lines = [NOTE, f"# {title}", "", f"`marey cite {key}` prints the reference. Each row is a citation in the source;"]
    lines += ["its tests use the function, or reach it through the function named below them.", ""]
    cited = find_citations(key)
    for kind, places in groupby(sorted(cited, key=order_place), key=lambda place: order_place(place)[0]):
        lines += [f"## {HEADINGS[kind]}", "", "| place | function | file | tests |", "|---|---|---|---|"]
        for place in places:
            for item in sorted(cited[place], key=lambda item: (item.path, item.first)):
                tests, through = find_tests(item, word)
                shown = [f"`{t.path.relative_to(ROOT / 'tests').as_posix()}::{t.name}`" for t in tests[:MAX_TESTS]]
                shown += [f"through `{through}`"] if through else []
                file = item.path.relative_to(ROOT).as_posix()
                name = f"`{item.name}`" if item.name else "the folder" if file.endswith("__init__.py") else "the module"
                lines.append(f"| {place} | {name} | [{file}](../../{file}) | {'<br>'.join(shown) or '-'} |")
        lines.append("")
    return "\n".join(lines)


def describe_package(package: Path, label: str, indent: str) -> list[str]:
    """Lines of a package and of the packages inside it: the first paragraph of each docstring."""
    document = ast.get_docstring(parse(package / "__init__.py")) or ""
    lines = [f"{indent}- {label}: {' '.join(document.split(chr(10) * 2)[0].split())}"]
    for inner in sorted(path.parent for path in package.glob("*/__init__.py")):
        lines += describe_package(inner, f"`{inner.relative_to(ROOT / 'marey').as_posix()}`", indent + "  ")
    return lines


def write_architecture() -> str:
    """Page of the floors, the rooms and their folders."""
    config = configparser.ConfigParser()
    config.read(ROOT / ".importlinter", encoding="utf-8")
    floors = next(config[name] for name in config.sections() if config[name].get("containers", "").strip() == "marey")
    lines = [NOTE, ARCHITECTURE]
    for room in re.findall(r"\w+", floors["layers"]):
        lines += describe_package(ROOT / "marey" / room, f"**`{room}`**", "")
    return "\n".join([*lines, ""])


def describe_verb(name: str, verb: Any) -> list[str]:
    """Lines of a verb of the command, and of the verbs inside it: what it does, its arguments and options."""
    if getattr(verb, "commands", None):
        return [line for inner, one in verb.commands.items() for line in describe_verb(f"{name} {inner}", one)]
    text = " ".join((verb.help or "").split())
    lines = [f"### `marey {name}`", "", text, "", "| option | meaning | default |", "|---|---|---|"]
    for parameter in verb.params:
        if parameter.name == "help":
            continue
        names = [*parameter.opts, *parameter.secondary_opts]
        if parameter.param_type_name == "argument":
            names = [parameter.metavar or parameter.name.upper()]
        default = "" if parameter.default in (None, False, ()) else f"`{parameter.default}`"
        cells = [", ".join(f"`{one}`" for one in names), parameter.help or "", default]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return [*lines, ""]


def write_commands() -> str:
    """Page of the command: the text above the reference stays, the reference is that of the command itself."""
    import typer

    from marey.cli.app import app

    head = (DOCS / "commands.md").read_text(encoding="utf-8").partition(REFERENCE)[0]
    lines = [head + REFERENCE, "", NOTE, ""]
    for name, verb in cast(Any, typer.main.get_command(app)).commands.items():
        lines += describe_verb(name, verb)
    return "\n".join(lines)


def write_examples() -> str:
    """Index of the examples: the first sentence of each."""
    lines = [
        NOTE,
        "# Examples",
        "",
        "Each runs as it is and saves its pictures beside it: `python examples/01_load_and_look.py`.",
        "",
    ]
    for path in sorted((ROOT / "examples").glob("[0-9]*.py")):
        text = (ast.get_docstring(parse(path)) or "").split("\n\n")[0]
        lines.append(f"- [{path.name}]({path.name}): {' '.join(text.split())}")
    return "\n".join([*lines, ""])


def write_pages() -> dict[Path, str]:
    """Text of every generated page."""
    pages = {DOCS / "theses" / f"{THESES[key][0]}.md": write_thesis(key) for key in THESES}
    pages |= {DOCS / "architecture.md": write_architecture(), DOCS / "commands.md": write_commands()}
    return pages | {ROOT / "examples" / "README.md": write_examples()}


if __name__ == "__main__":
    for page, text in write_pages().items():
        page.parent.mkdir(exist_ok=True)
        page.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{page.relative_to(ROOT)}\n")

"""The product as a graph of definitions, read from its sources: nothing is imported.

A node is a module-level definition (function, class, constant); classes are taken whole. An edge is a mention: a name
that a definition uses, resolved through imports and re-exports. Three kinds of edges are no names: a decorated function
is reached from the object that registers it (``@task_law.register``, ``@app.command``), a table of strings from the
definition that holds it (``("marey.io.bvh", "read_bvh")``), and a module that is named by a string from its user.

``python tests/house.py`` prints every definition that no user can reach, with file, line and size.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = "marey"
PUBLIC_MODULES = frozenset({"marey.lie.kernels"})  # inside a room, and offered to the kernels of all others
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

Key = tuple[str, str]  # module and name; the name is "" for the statements of a module that define nothing
Chain = tuple[str, ...]  # a.b.c as it is written


@dataclass
class Module:
    """One source file: its definitions, and what each name that it imports stands for."""

    name: str
    path: Path
    text: str
    tree: ast.Module
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, Key] = field(default_factory=dict)  # local name -> (module, name in it or "")
    statements: list[ast.stmt] = field(default_factory=list)  # that define and import nothing

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree."""
        return list(ast.walk(self.tree))

    @property
    def package(self) -> str:
        """The package that relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @property
    def room(self) -> str:
        """The folder right below the package; the package's own files stand for themselves."""
        return self.name.split(".")[1] if "." in self.name else ""


def read_module(path: Path, name: str, text: str | None = None) -> Module:
    """Parse one file and sort its top-level statements."""
    text = path.read_text(encoding="utf-8") if text is None else text
    module = Module(name, path, text, ast.parse(text))
    _sort_statements(module, module.tree.body)
    return module


def _sort_statements(module: Module, body: Iterable[ast.stmt]) -> None:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module.imports |= imported_names(node, module.package)
        elif isinstance(node, FUNCTIONS) and is_dunder(node.name):
            module.statements.append(node)
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            module.definitions.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
            for name in names:
                if not is_dunder(name) and name != "_":
                    module.definitions.setdefault(name, []).append(node)
                elif name not in ("__all__", "_"):
                    module.statements.append(node)
        elif isinstance(node, ast.If) and not _is_main_guard(node):
            _sort_statements(module, [*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            _sort_statements(module, [*node.body, *node.orelse, *node.finalbody])
            _sort_statements(module, [one for handler in node.handlers for one in handler.body])
        else:
            module.statements.append(node)


def is_dunder(name: str) -> bool:
    """Whether the language itself calls a name: ``__getattr__``, ``__version__``."""
    return name.startswith("__") and name.endswith("__")


def _is_main_guard(node: ast.If) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(node.test))


def imported_names(node: ast.Import | ast.ImportFrom, package: str) -> dict[str, Key]:
    """Return what an import statement binds: local name -> (module, name in it or "")."""
    if isinstance(node, ast.Import):
        # `import a.b` binds `a`; `import a.b as c` binds the inner module
        whole = {one.asname: (one.name, "") for one in node.names if one.asname}
        return whole | {one.name.split(".")[0]: (one.name.split(".")[0], "") for one in node.names if not one.asname}
    source = node.module or ""
    if node.level:
        parents = package.split(".")
        base = ".".join(parents[: len(parents) - node.level + 1])
        source = f"{base}.{source}" if source else base
    return {a.asname or a.name: (source, a.name) for a in node.names}


@cache
def modules() -> dict[str, Module]:
    """Every module of the product by its dotted name, in nested packages too."""
    found = {}
    for path in sorted((PROJECT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(PROJECT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = read_module(path, name)
    return found


@cache
def scripts(folder: str) -> tuple[Module, ...]:
    """The Python files of a folder beside the product: examples, benchmarks."""
    return tuple(read_module(path, path.stem) for path in sorted((PROJECT / folder).rglob("*.py")))


def doc_files() -> list[Path]:
    """README and the pages of docs that a user reads; notes of decisions are history."""
    return [PROJECT / "README.md", *sorted(path for path in (PROJECT / "docs").glob("*.md"))]


@cache
def doc_blocks() -> tuple[Module, ...]:
    """The Python blocks of the documentation, each as a module; one page's blocks share their imports."""
    blocks = []
    for path in doc_files():
        code = "\n".join(re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
        blocks.append(read_module(path, path.stem, code))
    return tuple(blocks)


@cache
def doc_words() -> frozenset[str]:
    """Every identifier in code spans and blocks of the documentation."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in doc_files())
    code = re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL)
    return frozenset(word for span in code for word in re.findall(r"[A-Za-z_]\w*", span))


def resolve(module: str, name: str) -> Key | None:
    """Follow re-exports from ``module.name`` to a definition, or to a module (its name is ""); None outside."""
    seen = set()
    while (module, name) not in seen:
        seen.add((module, name))
        home = modules().get(module)
        if home is None:
            return None
        if name == "" or name in home.definitions:
            return module, name
        if name in home.imports:
            module, name = home.imports[name]
        elif f"{module}.{name}" in modules():
            return f"{module}.{name}", ""
    # a name that a package imports from its own module of the same name
    return (f"{module}.{name}", "") if f"{module}.{name}" in modules() else None


def find(module: Module, chain: Chain, local: dict[str, Key]) -> Key | None:
    """Return what a dotted name that is written in ``module`` stands for."""
    root = chain[0]
    if root in local:
        found = resolve(*local[root])
    elif root in module.definitions and module.name in modules():
        found = (module.name, root)
    elif root in module.imports:
        found = resolve(*module.imports[root])
    else:
        return None
    for part in chain[1:]:
        if found is None or found[1] != "":
            break
        found = resolve(found[0], part)
    return found


@dataclass
class Mentions:
    """What a piece of code names: dotted names that it does not bind itself, its own imports, its strings."""

    chains: set[Chain] = field(default_factory=set)
    local: dict[str, Key] = field(default_factory=dict)
    strings: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)  # of the scope that is being read


def read_mentions(nodes: Iterable[ast.AST], package: str) -> Mentions:
    """Collect the names that the code uses from outside itself."""
    found = Mentions()
    for node in nodes:
        _visit(node, found, package)
    return found


def _visit(node: ast.AST, found: Mentions, package: str) -> None:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load):
            found.chains.add((node.id,))
        else:
            found.bound.add(node.id)
    elif isinstance(node, ast.Attribute):
        chain = _read_chain(node)
        if chain is None:
            _visit(node.value, found, package)
        else:
            found.chains.add(chain)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            found.strings.add(node.value)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        found.local |= imported_names(node, package)
    elif isinstance(node, FUNCTIONS):
        found.bound.add(node.name)
        # decorators, defaults and annotations are evaluated outside the function
        given = [one.annotation for one in _all_arguments(node.args)]
        for one in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults, node.returns, *given):
            if one is not None:
                _visit(one, found, package)
        _visit_scope(node.body, [one.arg for one in _all_arguments(node.args)], found, package)
    elif isinstance(node, ast.Lambda):
        _visit_scope([node.body], [one.arg for one in _all_arguments(node.args)], found, package)
        for one in (*node.args.defaults, *node.args.kw_defaults):
            if one is not None:
                _visit(one, found, package)
    elif isinstance(node, COMPREHENSIONS):
        _visit_scope(ast.iter_child_nodes(node), (), found, package)
    elif isinstance(node, ast.ClassDef):
        # names that a class binds are no names of its methods
        found.bound.add(node.name)
        outer, found.bound = found.bound, set()
        for one in ast.iter_child_nodes(node):
            _visit(one, found, package)
        found.bound = outer
    else:
        quoted = node.annotation if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast" and node.args:
            quoted = node.args[0]
        if isinstance(quoted, ast.Constant) and isinstance(quoted.value, str):
            _visit(ast.parse(quoted.value, mode="eval"), found, package)
        if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            found.bound.add(node.name)
        for one in ast.iter_child_nodes(node):
            _visit(one, found, package)


def _visit_scope(body: Iterable[ast.AST], arguments: Iterable[str], found: Mentions, package: str) -> None:
    """Read code with names of its own; what it names but does not bind belongs to the code around it."""
    outer_chains, outer_bound = found.chains, found.bound
    found.chains, found.bound = set(), set(arguments)
    for one in body:
        _visit(one, found, package)
    free = {chain for chain in found.chains if chain[0] not in found.bound}
    found.chains, found.bound = outer_chains | free, outer_bound


def _read_chain(node: ast.AST) -> Chain | None:
    """Return ``a.b.c`` as a tuple, None where it does not start with a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else None


def _all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    stars = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *stars]


@cache
def module_mentions(name: str) -> dict[str, Mentions]:
    """What each definition of a module mentions, and under "" what its other statements do."""
    module = modules()[name]
    found = {name: read_mentions(nodes, module.package) for name, nodes in module.definitions.items()}
    return {"": read_mentions(module.statements, module.package), **found}


def targets(module: Module, mentions: Mentions) -> set[Key]:
    """Return the definitions and modules that the code leads to."""
    found = {find(module, chain, mentions.local) for chain in mentions.chains}
    # an import statement runs the module, whether its names are used or not
    found |= {(source, "") for source, _ in mentions.local.values() if source in modules()}
    named = {text for text in mentions.strings if text.startswith(f"{PACKAGE}.") and text in modules()}
    for source in named:
        found.add((source, ""))
        inside = {resolve(source, text) for text in mentions.strings if text.isidentifier()} - {None}
        if not inside:  # the module is loaded by its name; what it holds is used as an attribute somewhere in this file
            attributes = {one.attr for one in module.nodes if isinstance(one, ast.Attribute)}
            inside = {resolve(source, name) for name in attributes & modules()[source].definitions.keys()}
        found |= inside
    return {key for key in found if key is not None}


@cache
def edges() -> dict[Key, set[Key]]:
    """The graph: what each definition of the product, and each module's loose statements, lead to."""
    graph: dict[Key, set[Key]] = defaultdict(set)
    for module in modules().values():
        body = graph[module.name, ""]
        mentions = module_mentions(module.name)
        owners: dict[int, list[str]] = defaultdict(list)
        for name, nodes in module.definitions.items():
            for node in nodes:
                owners[id(node)].append(name)
        body |= targets(module, mentions[""])
        body |= {(source, "") for source, _ in module.imports.values() if source in modules()}
        for name, nodes in module.definitions.items():
            graph[module.name, name] |= {*targets(module, mentions[name]), (module.name, "")}
            for node in nodes:
                # names of one assignment are one definition: `LOW, MIDDLE, HIGH = range(3)`
                graph[module.name, name] |= {(module.name, other) for other in owners[id(node)]}
                for decorator in getattr(node, "decorator_list", ()):
                    call = decorator.func if isinstance(decorator, ast.Call) else decorator
                    chain = _read_chain(call) if isinstance(call, ast.Attribute) else None
                    registrar = find(module, chain[:1], {}) if chain else None
                    if registrar is not None and registrar[1]:
                        graph[registrar].add((module.name, name))
    return graph


@cache
def public_names(name: str) -> list[str]:
    """The names of ``__all__``."""
    for node in modules()[name].tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def roots(*, with_benchmarks: bool = False) -> set[Key]:
    """Where a user comes in: the command, the studio, the names of the package, the documentation, the examples."""
    found: set[Key | None] = {("marey.cli", ""), resolve("marey.cli", "main")}
    found |= {(name, "") for name in modules() if name.endswith("__main__")}
    for name in ("marey", "marey.studio"):
        found |= {resolve(name, public) for public in public_names(name)}
    users = [*scripts("examples"), *doc_blocks(), *(scripts("benchmarks") if with_benchmarks else ())]
    for user in users:
        found |= targets(user, read_mentions(user.tree.body, user.package))
    return {key for key in found if key is not None}


def reached(start: Iterable[Key]) -> set[Key]:
    """Everything that the graph leads to from ``start``."""
    seen: set[Key] = set()
    waiting = list(start)
    while waiting:
        key = waiting.pop()
        if key not in seen:
            seen.add(key)
            waiting.extend(edges().get(key, ()))
    return seen


@dataclass(frozen=True, order=True)
class Definition:
    """A module-level definition and its size; names of one assignment share its lines."""

    module: str
    line: int
    name: str
    lines: int

    def __str__(self) -> str:
        path = modules()[self.module].path.relative_to(PROJECT)
        return f"{path}:{self.line} {self.name} ({self.lines} lines)"


def definitions() -> Iterator[Definition]:
    """Every module-level definition of the product."""
    for module in modules().values():
        counted: set[int] = set()
        for name, nodes in module.definitions.items():
            first = min(_first_line(node) for node in nodes)
            lines = sum(node.end_lineno - _first_line(node) + 1 for node in nodes if id(node) not in counted)
            counted.update(id(node) for node in nodes)
            yield Definition(module.name, first, name, lines)


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])


def unreachable(*, with_benchmarks: bool = False) -> list[Definition]:
    """Definitions that no user can reach."""
    seen = reached(roots(with_benchmarks=with_benchmarks))
    return sorted(one for one in definitions() if (one.module, one.name) not in seen)


def rooms() -> list[str]:
    """The packages right below the product's own."""
    return sorted({m.room for m in modules().values() if m.name.count(".") == 1 and m.path.name == "__init__.py"})


def room_imports(user: Module) -> Iterator[tuple[int, Key]]:
    """Yield (line, (module, name or "")) of every import of the product, at whatever depth and for types too."""
    for node in user.nodes:
        if isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, key) for key in imported_names(node, user.package).values())
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, (alias.name, "")) for alias in node.names)


def private_imports() -> list[str]:
    """Imports that reach into another room: only ``from marey.room import name`` with a name of its ``__all__``."""
    found: dict[str, list[str]] = defaultdict(list)
    for user in modules().values():
        for line, (source, name) in room_imports(user):
            parts = source.split(".")
            if parts[0] != PACKAGE or len(parts) < 2 or parts[1] == user.room:
                continue
            home = modules().get(source)
            is_public = len(parts) == 2 and home is not None and (name == "" or name in public_names(source))
            is_public |= source in PUBLIC_MODULES
            if not is_public:
                found[f"{user.path.relative_to(PROJECT)}:{line} {source}"].append(name)
    return [f"{place}: {', '.join(names)}" for place, names in sorted(found.items())]


def unused_public_names() -> dict[str, list[str]]:
    """Names of a room's ``__all__`` that no other room, document, example or benchmark uses."""
    used: set[Key] = set()
    outside = [*scripts("examples"), *scripts("benchmarks"), *doc_blocks()]
    for user in [*modules().values(), *outside]:
        is_inside = modules().get(user.name) is user
        room = user.room if is_inside else ""
        parts = module_mentions(user.name).values() if is_inside else [read_mentions(user.tree.body, user.package)]
        names = set(user.imports.values())
        for mentions in parts:
            names |= set(mentions.local.values())
            for chain in mentions.chains:
                # `marey.kinematics.solve_ik`, `kinematics.solve_ik`, `marey.solve_ik`
                for cut in range(1, len(chain)):
                    key = find(user, chain[:cut], mentions.local)
                    if key is not None and key[1] == "":
                        names.add((key[0], chain[cut]))
        for source, name in names:
            if source == PACKAGE and name in modules()[PACKAGE].imports:
                used.add(modules()[PACKAGE].imports[name])
            elif source.count(".") == 1 and source.split(".")[1] != room:
                used.add((source, name))
    unused = {}
    for room in rooms():
        names = public_names(f"{PACKAGE}.{room}")
        lonely = [name for name in names if (f"{PACKAGE}.{room}", name) not in used and name not in doc_words()]
        if lonely and room not in ("cli", "studio"):
            unused[room] = lonely
    return unused


def folders() -> Counter[str]:
    """Modules in each folder, its ``__init__`` among them."""
    return Counter(str(module.path.parent.relative_to(PROJECT)) for module in modules().values())


def prefix_families() -> list[str]:
    """Three files or more of one folder whose names begin with one word: ``solve.py``, ``solve_clip.py``, ..."""
    families: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module in modules().values():
        stem = module.path.stem.lstrip("_")
        if module.path.name not in ("__init__.py", "__main__.py"):
            folder = str(module.path.parent.relative_to(PROJECT))
            families[folder, stem.split("_")[0]].append(stem)
    return sorted(f"{folder}/{word}*: {len(stems)}" for (folder, word), stems in families.items() if len(stems) > 2)


def functions() -> Iterator[tuple[Module, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function and method of the product, nested ones too."""
    for module in modules().values():
        yield from ((module, node) for node in module.nodes if isinstance(node, FUNCTIONS))


def classes(module: Module) -> Iterator[ast.ClassDef]:
    """Every class of a module, nested ones too."""
    return (node for node in module.nodes if isinstance(node, ast.ClassDef))


PARTICIPLE = re.compile(
    "[a-z]+ed|held|made|found|kept|given|taken|shown|known|drawn|built|bent|met|left|told|heard|laid|led|lent|won|lost|"
    "begun|grown|thrown|driven|written|wound|meant|felt|dealt|sought|brought"
)
NO_PARTICIPLE = re.compile("speed|seed|need|feed|bed|embed|exceed|proceed|indeed|red|shed")


def is_participle(name: str) -> bool:
    """Whether a function's name is one bare participle: ``moved``, ``_held``."""
    word = name.strip("_")
    return PARTICIPLE.fullmatch(word) is not None and NO_PARTICIPLE.fullmatch(word) is None


def share_used_once() -> float:
    """The share of functions whose name the product mentions at most once."""
    defined: Counter[str] = Counter(node.name for _, node in functions())
    mentioned: Counter[str] = Counter()
    for module in modules().values():
        for node in module.nodes:
            if isinstance(node, ast.Name):
                mentioned[node.id] += 1
            elif isinstance(node, ast.Attribute):
                mentioned[node.attr] += 1
    once = sum(count for name, count in defined.items() if mentioned[name] <= 1 and not name.startswith("__"))
    return once / sum(defined.values())


def long_kernels(most: int = 8) -> list[str]:
    """Compiled functions with more than ``most`` arguments."""
    found = []
    for module, node in functions():
        decorators = {one.id for one in node.decorator_list if isinstance(one, ast.Name)}
        count = len(_all_arguments(node.args))
        if decorators & {"kernel", "inline_kernel"} and count > most:
            found.append(f"{module.path.relative_to(PROJECT)}:{node.lineno} {node.name} takes {count}")
    return sorted(found)


def num_lines() -> int:
    """Lines of the product."""
    return sum(len(module.text.splitlines()) for module in modules().values())


def num_comment_lines() -> int:
    """Comments on lines of their own."""
    return sum(line.strip().startswith("#") for module in modules().values() for line in module.text.splitlines())


def main() -> None:
    """Print the definitions that no user can reach, by room; ``--public`` prints the names to drop from ``__all__``."""
    if "--public" in sys.argv:
        for room, names in unused_public_names().items():
            print(f"{room} ({len(names)}): {', '.join(names)}")
        return
    gc.disable()  # trees stay until the end; to look through them again and again takes half of the time
    found = unreachable()
    by_room: dict[str, list[Definition]] = defaultdict(list)
    for one in found:
        by_room[modules()[one.module].room].append(one)
    for room, members in sorted(by_room.items(), key=lambda item: -sum(one.lines for one in item[1])):
        print(f"{room}: {len(members)} definitions, {sum(one.lines for one in members)} lines")
        print("\n".join(f"  {one}" for one in members))
    beside = unreachable(with_benchmarks=True)
    print(f"{len(found)} definitions, {sum(one.lines for one in found)} lines cannot be reached", end="; ")
    print(f"benchmarks reach all but {len(beside)} definitions, {sum(one.lines for one in beside)} lines")


if __name__ == "__main__":
    main()

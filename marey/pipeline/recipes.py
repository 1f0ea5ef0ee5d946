"""Recipes: how a take was made, as TOML that runs again anywhere: a tool, its inputs and settings, a seed, edits.

The tools are those of the studio; they are handed in, since they live above this room.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NoReturn, cast
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from marey.base import (
    FormatError,
    InputError,
    MareyError,
    TomlLocation,
    UnknownNameError,
    as_number,
    as_text,
    check_keys,
    format_toml_value,
    parse_toml,
    read_toml_text,
    write_atomically,
)
from marey.motion import Motion
from marey.pipeline.takes import Tree, edit_motion
from marey.pipeline.tools import Tool, ToolContext, ToolResult

RECIPE_VERSION: Final = 1
RECIPE_KEYS: Final = ("version", "name", "tool", "seed", "inputs", "settings", "layers", "edits")
MAX_DEPTH: Final = 32  # of recipes whose inputs are recipes
ZIP_TIME: Final = (1980, 1, 1, 0, 0, 0)  # of files in a bundle
BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
ProgressListener = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that a take is made of, as plain data."""

    tool: str
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])  # a file, a shipped clip or another recipe
    settings: Tree = field(default_factory=dict[str, Any])
    seed: int = 0
    name: str = ""
    layers: tuple[Tree, ...] = ()
    edits: tuple[Tree, ...] = ()
    place: TomlLocation = field(default=TomlLocation("<recipe>", {}), compare=False, repr=False)

    @property
    def folder(self) -> Path:
        """Where inputs and files are looked for."""
        return Path(self.place.file).parent

    def to_toml(self) -> str:
        """Text that :func:`parse_recipe` reads back."""
        tree: dict[str, Any] = {"version": RECIPE_VERSION, "name": self.name, "tool": self.tool, "seed": self.seed}
        tree |= {"inputs": self.inputs, "settings": self.settings, "layers": self.layers, "edits": self.edits}
        return format_toml({key: value for key, value in tree.items() if value not in ("", (), {})})


def load_recipe(path: str | Path) -> Recipe:
    """Read a recipe.

    Raises:
        MissingFileError: there is no such file.
        FormatError: it is no TOML, or no recipe; the message names file and line.
    """
    return parse_recipe(read_toml_text(path, "recipe"), file=str(path))


def parse_recipe(text: str, *, file: str = "<recipe>") -> Recipe:
    """Read a recipe from TOML text; ``file`` is the name used in messages."""
    data, place = parse_toml(text, file)
    check_keys(data, RECIPE_KEYS, place)
    if data.get("version", RECIPE_VERSION) != RECIPE_VERSION:
        place.fail(f"recipe version {data['version']}", f"This marey reads version {RECIPE_VERSION}", "version")
    if "tool" not in data:
        place.fail("the recipe names no tool", 'Write tool = "clean"')
    seed = as_number(data.get("seed", 0), "seed", place)
    if seed != int(seed) or seed < 0:
        place.fail(f"seed is {seed:g}", "Write a whole number, 0 or more", "seed")
    for key in ("inputs", "settings"):
        if not isinstance(data.get(key, {}), dict):
            place.fail(f"'{key}' is no table", f"Write [{key}]", key)
    for key in ("layers", "edits"):
        rows = data.get(key, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in cast(list[Any], rows)):
            place.fail(f"'{key}' is no list of tables", f"Write [[{key}]]", key)
    inputs = {
        name: as_text(value, name, place.at("inputs")) for name, value in cast(Tree, data.get("inputs", {})).items()
    }
    return Recipe(
        as_text(data["tool"], "tool", place), inputs, data.get("settings", {}), int(seed),
        as_text(data.get("name", Path(file).stem), "name", place), tuple(data.get("layers", ())),
        tuple(data.get("edits", ())), place,
    )  # fmt: skip


def save_recipe(recipe: Recipe, path: str | Path) -> None:
    """Write a recipe, whole or not at all."""
    write_atomically(Path(path), recipe.to_toml())


def format_toml(tree: Tree, head: str = "") -> str:
    """A tree of plain data as TOML; keys without a value are left out."""
    lines: list[str] = []
    tables: list[str] = []
    for key, value in tree.items():
        if value is None:
            continue
        name = key if BARE_KEY.fullmatch(key) else format_toml_value(key)
        path = f"{head}.{name}" if head else name
        rows = cast(Sequence[Any], value) if isinstance(value, list | tuple) else ()
        if isinstance(value, Mapping):
            tables.append(f"[{path}]\n{format_toml(cast(Tree, value), path)}")
        elif rows and all(isinstance(one, Mapping) for one in rows):
            tables += [f"[[{path}]]\n{format_toml(cast(Tree, one), path)}" for one in rows]
        else:
            lines.append(f"{name} = {format_toml_value(value)}\n")
    return "".join(lines) + "".join(f"\n{table}" if lines or n else table for n, table in enumerate(tables))


@dataclass(slots=True)
class RecipeContext:
    """What a tool can ask while it runs a recipe: motions and files beside it, and its seed."""

    recipe: Recipe
    tools: Mapping[str, Tool]
    on_progress: ProgressListener | None = None
    depth: int = 0
    cancelled: bool = False

    @property
    def project(self) -> Tree:
        """A recipe stands alone."""
        return {}

    @property
    def seed(self) -> int:
        """Of everything random."""
        return self.recipe.seed

    def motion(self, key: str) -> Motion:
        """Load a file, a shipped clip, or run another recipe; paths are those of the recipe's folder."""
        from marey.io import load

        beside = self.recipe.folder / key
        if beside.suffix.lower() != ".toml":
            return load(beside if beside.is_file() else key)
        if self.depth >= MAX_DEPTH:
            raise InputError(f"recipes inside recipes, {MAX_DEPTH} deep", "Does one of them use itself?")
        made = run_recipe(load_recipe(beside), self.tools, on_progress=self.on_progress, depth=self.depth + 1)
        if made.motion is None:
            raise InputError(f"the recipe '{key}' makes no motion", "Use one that does")
        return made.motion

    def file(self, key: str) -> str:
        """Path of a file that the recipe names."""
        return str(self.recipe.folder / key)

    def progress(self, fraction: float, sentence: str, **facts: Any) -> None:
        """Tell the listener; nobody draws facts."""
        if self.on_progress is not None:
            self.on_progress(fraction, sentence)

    def partial(self, motion: Motion) -> None:
        """Nobody looks at motions before the end."""


def run_recipe(
    recipe: Recipe, tools: Mapping[str, Tool], *, on_progress: ProgressListener | None = None, depth: int = 0
) -> ToolResult:
    """Make what a recipe says: run its tool, then put its layers and edits on the motion.

    Args:
        recipe: what to make.
        tools: by name, such as ``marey.studio.tools.TOOLS``.
        on_progress: hears how far it is, 0 to 1, and a sentence.
        depth: how many recipes wait for this one.

    Returns:
        The tool's result: ``motion``, ``table``, ``text``, ``files``, ``report``.

    Raises:
        FormatError: an unknown tool, input or setting, or a value out of its range; the message names the line.
        MareyError: what the tool itself refuses.
    """
    place = recipe.place
    if recipe.tool not in tools:
        _fail(place, UnknownNameError("tool", recipe.tool, "the studio", tuple(tools)), "tool")
    tool = tools[recipe.tool]
    # Each value on its own, so that the message has its line
    for table, values in (("inputs", recipe.inputs), ("settings", recipe.settings)):
        for name, value in values.items():
            is_motion = name in tool.input_names
            if is_motion != (table == "inputs"):
                known = [one for one in tool.input_names if table == "inputs"]
                fix = f"'{tool.id}' takes the motions {', '.join(known) or 'none'}; everything else is a setting"
                if is_motion:
                    fix = "Write it in [inputs]"
                place.at(table).fail(f"'{name}' does not belong to [{table}]", fix, name)
            try:
                tool.check({name: value})
            except MareyError as error:
                _fail(place.at(table), error, name)
    context = RecipeContext(recipe, tools, on_progress, depth)
    result = tool.make(context, tool.check({**recipe.settings, **recipe.inputs}))
    if result.motion is None:
        if recipe.layers or recipe.edits:
            place.fail(f"'{tool.id}' makes no motion to edit", "Remove layers and edits", "tool")
        return result
    motion = edit_motion(result.motion, recipe.layers, recipe.edits)
    return replace(result, motion=replace(motion, name=recipe.name) if recipe.name else motion)


def _fail(place: TomlLocation, error: MareyError, key: str) -> NoReturn:
    what, fix = (error.what, error.fix) if isinstance(error, InputError) else (str(error), "Correct the name")
    try:
        place.fail(what, fix, key)
    except FormatError as told:
        raise told from error


# A take with all that it is made of


@dataclass(frozen=True, slots=True, eq=False)
class RecipeBundle:
    """Files of a take: its recipe, those of the takes it is made of, and the clips and files they start from."""

    context: ToolContext  # whose project holds the takes
    tools: Mapping[str, Tool]
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def add_take(self, key: str, name: str) -> None:
        """Add the recipe of a take under a name, and all that it needs.

        Raises:
            InputError: there is no such take.
        """
        take = self.context.project.get("takes", {}).get(key)
        if take is None:
            raise InputError("a clip has no recipe", "Select a take that a tool made")
        made, title = take.get("recipe"), str(take.get("name", ""))
        layers, edits = tuple(take.get("layers", ())), tuple(take.get("edits", ()))
        if made is None:
            # A take over a clip: its layers and edits alone
            recipe = Recipe("bake", {"motion": self._add_clip(str(take["clip"]))}, {}, 0, title, layers, edits)
        else:
            inputs = {one: self._add_motion(str(value)) for one, value in made.get("inputs", {}).items()}
            settings = {one: self._add_rows(value) for one, value in made.get("settings", {}).items()}
            for one in self.tools[made["tool"]].file_names if made["tool"] in self.tools else ():
                if settings.get(one):
                    path = Path(self.context.file(settings[one]))
                    settings[one] = f"files/{path.name}"
                    self.files[settings[one]] = path.read_bytes()
            recipe = Recipe(str(made["tool"]), inputs, settings, int(made.get("seed", 0)), title, layers, edits)
        self.files[name] = recipe.to_toml().encode()

    def _add_rows(self, value: Any) -> Any:
        """Rows of a table name motions too: strips of takes, poses of clips."""
        known = {*self.context.project.get("takes", {}), *self.context.project.get("clips", {})}
        if not isinstance(value, list) or not all(isinstance(row, dict) for row in cast(list[Any], value)):
            return cast(Any, value)
        return [
            row | {one: self._add_motion(row[one]) for one in ("take", "motion") if row.get(one) in known}
            for row in cast(list[dict[str, Any]], value)
        ]

    def _add_motion(self, key: str) -> str:
        if key not in self.context.project.get("takes", {}):
            return self._add_clip(key)
        name = f"take-{key}.toml"
        if name not in self.files:
            self.files[name] = b""  # marks it, so that a take that is made of itself ends
            self.add_take(key, name)
        return name

    def _add_clip(self, key: str) -> str:
        from marey.io import save

        name = f"clips/{re.sub(r'[^A-Za-z0-9_-]+', '-', key)}.safetensors"
        if name not in self.files:
            with TemporaryDirectory(prefix="marey-recipe-") as folder:
                file = Path(folder) / "clip.safetensors"
                save(self.context.motion(key), file)
                self.files[name] = file.read_bytes()
        return name

    def to_zip(self) -> bytes:
        """All files; the same take gives the same bytes."""
        data = BytesIO()
        with ZipFile(data, "w") as bundle:
            for name in sorted(self.files):
                bundle.writestr(ZipInfo(name, ZIP_TIME), self.files[name], ZIP_DEFLATED)
        return data.getvalue()

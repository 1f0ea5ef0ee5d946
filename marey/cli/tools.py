"""`marey studio`, `run`, `warm-up`, `bench` and `cite`: the application, its recipes, and verbs around the product."""

from __future__ import annotations

import os
import re
import sys
import time
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from marey.cli.common import (
    Outcome,
    plan_outputs,
    print_json,
    print_result,
    progress_bar,
    remark,
    run_each,
    warn,
    write_motion,
)
from marey.cli.options import Csv, Format, Json, check_motion_file, one_of, option

WARM_UP: Final = ("synth", "walk", "compress", "physics", "ik", "demo")  # verbs whose kernels are listed


def warm_up(
    verbs: Annotated[
        list[str] | None, typer.Argument(help=f"Of {', '.join(WARM_UP)}; all by default.", callback=one_of(*WARM_UP))
    ] = None,
    workers: Annotated[int, option("Processes at a time.", min=1, max=64)] = 2,
    environment: Annotated[
        bool, option("Keep it inside the Python environment, for all its users.", "--environment")
    ] = False,
    json: Json = False,
) -> None:
    """Compile what the common verbs need, before their first use.

    Compiled code is kept in the folder of the user's caches, or in MAREY_KERNEL_CACHE. With --environment it goes to
    share/marey/kernels of the environment, which every user of it reads, also without write access: for images
    and shared installations. It serves the kind of processor that compiled it; others compile their own.
    """
    from marey.cli.compile_ahead import start_compiler

    variables: dict[str, str] = {}
    if environment:
        from marey.base.kernel_cache import FOLDER_VARIABLE, environment_folder

        variables[FOLDER_VARIABLE] = str(environment_folder())
    failed = False
    for verb in verbs or WARM_UP:
        began = time.perf_counter()
        processes = [start_compiler([verb], number, workers, variables) for number in range(workers)]
        errors = [process.communicate()[1].decode(errors="replace").strip() for process in processes]
        code = max(process.returncode for process in processes)
        failed = failed or code != 0
        line = {"verb": verb, "seconds": round(time.perf_counter() - began, 1), "exit_code": code}
        if code:
            warn(f"{verb}: {next((text for text in errors if text), 'the compiler failed').splitlines()[-1]}")
        print_json(line) if json else typer.echo(f"{verb:10s} {line['seconds']:6.1f} s")
    if failed:
        raise typer.Exit(1)


def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Benchmarks to run; all by default.")] = None,
) -> None:
    """Run the benchmarks of a source checkout.

    Prints the ratio of our times to those of other libraries.
    """
    import runpy

    import marey
    from marey.base import InputError

    script = Path(marey.__file__).parents[1] / "benchmarks" / "run.py"
    if not script.is_file():
        raise InputError(
            "the benchmarks are part of the source checkout, and this marey was installed from a package",
            "Clone the repository and run `make bench` there",
        )
    code = runpy.run_path(str(script))["main"](list(names or ()))
    raise typer.Exit(code if isinstance(code, int) else 0)


_ENTRY: Final = re.compile(r"^@\w+\{([^,]+),.*?^\}", re.MULTILINE | re.DOTALL)
_KEY: Final = re.compile(r"\[([A-Z][A-Za-z]+\d{4}[a-z]?)\]_")


def cite(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Keys (Glardon2005) or public functions (contacts.detect_contacts); all by default."),
    ] = None,
    json: Json = False,
) -> None:
    """Print the BibTeX of the methods used.

    Give keys, or public functions to print the sources of.
    """
    entries = references()
    keys = [key for name in names or () for key in cited_keys(name)] if names else list(entries)
    for key in dict.fromkeys(keys):
        print_result({"key": key, "bibtex": entries[key]}, entries[key] + "\n", is_json=json)


def references() -> dict[str, str]:
    """BibTeX entries by key, in the order of the file."""
    text = files("marey.cli").joinpath("references.bib").read_text(encoding="utf-8")
    return {found.group(1).strip(): found.group(0) for found in _ENTRY.finditer(text)}


def cited_keys(name: str) -> tuple[str, ...]:
    """Keys of a name: the key itself, or those in the docstring of a public function or package.

    Raises:
        UnknownNameError: neither a key nor a public name.
        InputError: a public name whose docstring cites nothing.
    """
    from marey.base import InputError, UnknownNameError

    known = references()
    if name in known:
        return (name,)
    package, _, member = name.removeprefix("marey.").partition(".")
    try:
        value = import_module(f"marey.{package}")
        for part in filter(None, member.split(".")):
            value = getattr(value, part)
    except (ImportError, AttributeError):
        raise UnknownNameError("reference or public name", name, "marey", known) from None
    # Docstrings of what a package offers or a class defines, and of the modules that they live in
    inner = [getattr(value, name) for name in getattr(value, "__all__", vars(value) if isinstance(value, type) else ())]
    docs = [item.__doc__ for item in (value, *inner)]
    homes = {getattr(item, "__module__", None) for item in (value, *inner)}
    docs += [sys.modules[home].__doc__ for home in homes if isinstance(home, str) and home.startswith("marey.")]
    text = "\n".join(doc for doc in docs if isinstance(doc, str))
    keys = tuple(dict.fromkeys(key for key in _KEY.findall(text) if key in known))
    if not keys:
        raise InputError(f"'{name}' cites no source", "It is our own, or common knowledge")
    return keys


def studio(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[PROJECT-FOLDER] [CLIP]...", help="What to open.", show_default=False)
    ] = None,
    host: Annotated[str, option("Address to listen on; loopback by default.")] = "127.0.0.1",
    port: Annotated[int, option("0 takes a free one.", min=0, max=65535)] = 8080,
    allow_remote: Annotated[
        bool, option("Let other machines in that know the printed address.", "--allow-remote")
    ] = False,
    no_open: Annotated[bool, option("Open no browser window.", "--no-open")] = False,
    max_upload_mb: Annotated[int, option("Largest file a page may send.", min=1, max=4096)] = 512,
) -> None:
    """Edit motions in the browser; Ctrl-C ends it.

    A folder is a project: it need not exist, and keeps everything, as of the last change, also when the machine stops.
    Clips are imported into it. Without a folder, the user's own project is opened.
    """
    from marey.base import InputError
    from marey.studio import serve_project

    clips = [path for path in paths or () if Path(path).is_file() or Path(path).suffix]
    folders = [path for path in paths or () if path not in clips]
    if len(folders) > 1:
        raise InputError(f"{len(folders)} folders are more than one project", "Give one folder, and files")
    # The folder that is named, else the user's own: MAREY_PROJECT, or where the system keeps data of programs
    project: str | Path
    if folders:
        project = folders[0]
    elif own := os.environ.get("MAREY_PROJECT"):
        project = Path(own)
    elif sys.platform == "win32":
        project = Path(os.environ.get("APPDATA", str(Path.home()))) / "marey" / "project"
    elif sys.platform == "darwin":
        project = Path.home() / "Library" / "Application Support" / "marey" / "project"
    else:
        project = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "marey" / "project"
    serve_project(
        project,
        clips,
        host=host,
        port=port,
        allow_remote=allow_remote,
        open_browser=not no_open,
        max_upload_mb=max_upload_mb,
        tell=typer.echo,
    )


def run(
    recipes: Annotated[list[str], typer.Argument(metavar="RECIPE...", help="Recipe files (TOML).")],
    out: Annotated[str | None, option("Motion file to write; for several recipes, a folder.", "-o", "--out")] = None,
    format: Format = "safetensors",  # noqa: A002 (the option is called so)
    seed: Annotated[int | None, option("Another seed than the recipe's.", min=0)] = None,
    json: Json = False,
    csv: Csv = None,
) -> None:
    """Run recipes of takes: a tool of the studio, its inputs, settings and seed, and the layers and edits on top.

    Each gives its motion, beside the recipe unless -o says where; files that a tool makes go to the same folder. Paths
    in a recipe are those of its own folder. Same recipe, same bytes.
    """
    from marey.pipeline.recipes import load_recipe, run_recipe
    from marey.studio.tools import TOOLS

    targets = plan_outputs(recipes, out, f".{format}")
    for target in targets.values():
        check_motion_file(target)

    def cook(file: str) -> Outcome:
        from dataclasses import replace

        from marey.base import write_atomically

        recipe = load_recipe(file)
        recipe = recipe if seed is None else replace(recipe, seed=seed)
        with progress_bar(recipe.tool) as tell:
            made = run_recipe(recipe, TOOLS, on_progress=lambda share, _: tell(round(100 * share), 100))
        facts: dict[str, Any] = {"tool": recipe.tool, "out": None, "files": [], "text": made.text}
        if made.motion is not None:
            write_motion(made.motion, targets[file])
            facts |= {"out": targets[file], "frames": made.motion.num_frames, "rate_hz": made.motion.rate_hz}
        for name, data in made.files.items():
            path = Path(targets[file]).parent / name
            write_atomically(path, data)
            remark(f"wrote {path}")
            facts["files"].append(str(path))
        facts |= {"table": list(made.table), "report": dict(made.report)}
        return Outcome(facts, f"{file}  {recipe.tool}: {made.text}", list(made.table) or None)

    run_each("run", recipes, cook, is_json=json, csv=csv)

"""Verbs around the product: compiling ahead, our times beside others', the BibTeX."""

from __future__ import annotations

import re
import sys
import time
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import typer

from marey.cli.common import print_json, print_result, warn
from marey.cli.options import Json, one_of, option

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

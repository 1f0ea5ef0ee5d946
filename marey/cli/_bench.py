"""`marey bench`: our times beside those of other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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

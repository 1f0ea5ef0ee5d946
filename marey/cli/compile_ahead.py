"""Compiling ahead: what the common verbs need is known, so that further processes can compile it in the meantime.

``kernels.json`` lists the kernels of each verb with the types of their arguments, in the order in which the verb needs
them (``benchmarks/list_kernels.py`` writes it). When a verb finds that its first kernel is not on disk, other processes
go through its list from the end. A kernel that two of them need is compiled by one, and the other waits for it
(:mod:`marey.base.kernel_cache`). A list that is out of date costs time, nothing else.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

MAX_HELPERS = 3  # more would mostly wait for one another: a verb has one or two kernels that take long


@cache
def kernel_lists() -> dict[str, Any]:
    """Types and, by verb, kernels with their signatures."""
    return json.loads(files("marey.cli").joinpath("kernels.json").read_text(encoding="utf-8"))


def compile_ahead(verb: str) -> None:
    """Let other processes compile the last kernels of a verb as soon as its first one has to be compiled here."""
    helpers = min((os.cpu_count() or 1) - 1, MAX_HELPERS)
    if not helpers or verb not in kernel_lists()["verbs"]:
        return

    def start() -> None:
        from marey.base.kernel_cache import kernel_folder

        if kernel_folder() is not None:
            for number in range(helpers):
                process = start_compiler([verb], number, helpers, errors=subprocess.DEVNULL)
                atexit.register(process.wait)
                atexit.register(process.kill)

    # The compiler is loaded with numba, when a kernel is first called
    from marey.base.kernels import Kernel

    Kernel.on_first_compilation[:] = [start]


def start_compiler(
    verbs: Sequence[str],
    number: int,
    of: int,
    variables: Mapping[str, str] | None = None,
    errors: int = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    """Start a process that compiles its share of what verbs need, the last first.

    ``variables`` are added to its environment; ``errors`` is where its stderr goes.
    """
    paths = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, str(number), str(of), *verbs],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        env=os.environ | {"PYTHONPATH": paths} | dict(variables or {}),
    )


def main(arguments: Sequence[str]) -> int:
    """Compile: which share, of how many, and the verbs; return 1 where something could not be compiled."""
    from marey.base.signatures import compile_listed

    number, of, *verbs = arguments
    lists = kernel_lists()
    wanted = [one for verb in verbs for one in reversed(lists["verbs"][verb])]
    failed = compile_listed(lists, wanted[int(number) :: int(of)])
    print(*failed, sep="\n", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

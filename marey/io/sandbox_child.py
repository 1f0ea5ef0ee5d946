"""What runs in the child process: limits first, then one reader, then its answer on stdout.

The file is started by its path and imports the standard library only, so that a child is ready in a tenth of a second.
The reader is a function ``read(path, question) -> (facts, arrays)`` in a file of its own.

The answer is the length of a JSON text as eight bytes, the text, and the arrays one behind the other. Nothing in it is
code.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from array import array
from typing import Any, BinaryIO, cast


def set_limits(memory_bytes: int, output_bytes: int, cpu_s: float) -> None:
    """Let the system end this process where it takes more memory, output or processor time than it may."""
    try:
        import resource
    except ImportError:  # no such limits on Windows; the parent's clock remains
        return
    # Data, not address space: libraries reserve a gigabyte of addresses that they never touch
    for limit, value in ((resource.RLIMIT_DATA, memory_bytes), (resource.RLIMIT_FSIZE, output_bytes)):
        _, hard = resource.getrlimit(limit)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, hard))
    # No dump of the memory where the library crashes
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    signal.setitimer(signal.ITIMER_PROF, cpu_s)


def main() -> None:
    """Read the request from stdin, run the reader, write its answer, and leave without cleaning up."""
    request = json.load(sys.stdin)
    set_limits(request["memory_bytes"], request["output_bytes"], request["cpu_s"])
    # The answer has stdout for itself: what a library prints goes nowhere
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        answer(request, out)
        out.flush()
        # Objects of the library may not be freed in any order: nothing is freed
        os._exit(0)


def answer(request: dict[str, Any], out: BinaryIO) -> None:
    """Run the reader of a request and write what it finds."""
    arrays: dict[str, tuple[array[Any], tuple[int, ...]]] = {}
    try:
        import runpy

        read = runpy.run_path(request["reader"])[request["function"]]
        facts, arrays = cast(tuple[dict[str, Any], Any], read(request["path"], request["question"]))
    except ImportError as error:
        facts = {"missing": str(error)}
    except MemoryError:
        facts = {"error": "it needs more memory than a file of its size may"}
    except Exception as error:
        facts = {"error": " ".join(str(error).split())[:300] or type(error).__name__}
    shapes = {name: (values.typecode, shape) for name, (values, shape) in arrays.items()}
    text = json.dumps({"facts": facts, "arrays": shapes}).encode()
    out.write(len(text).to_bytes(8, "little") + text)
    for values, _ in arrays.values():
        out.write(memoryview(values).cast("B"))


if __name__ == "__main__":
    main()

"""A worker of the adding pool: reads jobs as JSON lines from stdin, answers each with one JSON line.

It is started as a program of its own (``python -m``), so a caller needs no ``if __name__ == "__main__"``, a file that
brings the interpreter down harms only itself, and the end of the caller closes stdin, which ends the worker.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from marey.base import MareyError
from marey.library.ingest import stage_file
from marey.library.records import IngestJob


def answer_request(line: str) -> str:
    """Do one job ``{"job": {...}, "clip_file": path}``; return the staged clip or ``{"error": sentence}``."""
    try:
        asked = json.loads(line)
        job = IngestJob(**(asked["job"] | {"tags": tuple(asked["job"]["tags"])}))
        return stage_file(job, Path(asked["clip_file"])).to_json().decode()
    except (MareyError, OSError) as error:
        return json.dumps({"error": str(error)})
    except Exception as error:
        return json.dumps({"error": f"{type(error).__name__}: {error}"})


def main() -> None:
    """Answer until stdin closes. What a library prints goes to stderr, not between the answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the caller, who closes stdin
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(answer_request(line), file=answers, flush=True)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.exit(1)  # the caller is gone

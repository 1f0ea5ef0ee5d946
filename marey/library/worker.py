"""A worker of the adding pool: reads jobs as JSON lines from stdin, answers each with one JSON line.

It is started as a program of its own (``python -m``), so a caller needs no ``if __name__ == "__main__"``, a file that
brings the interpreter down harms only itself, and the end of the caller closes stdin, which ends the worker.
"""

from __future__ import annotations

import json
from pathlib import Path

from marey.base import MareyError, serve_requests
from marey.library.ingest import file_stamp, stage_file
from marey.library.records import IngestJob


def answer_request(line: str) -> str:
    """Do one job ``{"job": {...}, "clip_file": path}``; return the staged clip or ``{"error": sentence}``."""
    try:
        # Whatever a file does to its reader, the caller gets a sentence
        asked = json.loads(line)
        job = IngestJob(**(asked["job"] | {"tags": tuple(asked["job"]["tags"])}))
        return stage_file(job, job.path, Path(asked["clip_file"]), file_stamp(job.path)).to_json().decode()
    except (MareyError, OSError) as error:
        return json.dumps({"error": str(error)})
    except Exception as error:
        return json.dumps({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    serve_requests(answer_request)

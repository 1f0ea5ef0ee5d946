"""A worker of the adding pool: reads jobs as JSON lines from stdin, answers each with one JSON line.

It is started as a program of its own (``python -m``), so a caller needs no ``if __name__ == "__main__"``, a file that
brings the interpreter down harms only itself, and the end of the caller closes stdin, which ends the worker.
"""

from __future__ import annotations

import json
from pathlib import Path

from marey.base import MareyError, serve_requests
from marey.library.ingest import file_stamp, stage_file
from marey.library.records import AddOutcome, IngestJob
from marey.library.store import StagedFile


def answer_request(line: str) -> str:
    """Do one job ``{"job": {...}, "clip_file": path}``; return the staged file, or the refusal, as one line."""
    path = ""
    try:
        # Whatever a file does to its reader, the caller gets a sentence
        asked = json.loads(line)
        path = str(asked["job"]["path"])
        job = IngestJob(**(asked["job"] | {"tags": tuple(asked["job"]["tags"])}))
        return stage_file(job, job.path, Path(asked["clip_file"]), file_stamp(job.path)).to_json()
    except (MareyError, OSError) as error:
        said = str(error)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    return StagedFile(refused=(AddOutcome(path, "failed", None, said),)).to_json()


if __name__ == "__main__":
    serve_requests(answer_request)

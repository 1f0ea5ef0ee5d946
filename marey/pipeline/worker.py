"""A process that makes motions: a job on each line of stdin, a report on each line of stdout."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from marey.pipeline.batch import BatchJob, run_job, store_result


def answer_request(line: str) -> str:
    """Make what one line asks for, write it, and tell."""
    request = json.loads(line)
    report, data = run_job(BatchJob(**request["job"]))
    store_result(report, data, Path(request["folder"]))
    return json.dumps(report)


def main() -> None:
    """Answer until there is nothing more to read."""
    out, sys.stdout = sys.stdout, sys.stderr  # nothing else may speak there
    for line in sys.stdin:
        print(answer_request(line), file=out, flush=True)


if __name__ == "__main__":
    main()

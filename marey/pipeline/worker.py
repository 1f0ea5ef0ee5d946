"""A process that makes motions: a job on each line of stdin, a report on each line of stdout."""

from __future__ import annotations

import json
from pathlib import Path

from marey.base import serve_requests
from marey.pipeline.batch import BatchJob, run_job, store_result


def answer_request(line: str) -> str:
    """Execute the job of one line, write its file, and report."""
    request = json.loads(line)
    report, data = run_job(BatchJob(**request["job"]))
    store_result(report, data, Path(request["folder"]))
    return json.dumps(report)


if __name__ == "__main__":
    serve_requests(answer_request)

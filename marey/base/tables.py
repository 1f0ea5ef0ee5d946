"""Tables: rows of named values to CSV, for the command and for results in Python."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def format_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV text with a header; the columns are the union of the keys, in order of appearance."""
    rows = list(rows)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_table(rows: Iterable[Mapping[str, Any]], path: str | Path) -> None:
    """Write rows as a CSV file."""
    Path(path).write_text(format_table(rows), encoding="utf-8")

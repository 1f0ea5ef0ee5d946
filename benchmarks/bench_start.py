"""How long a newcomer waits: importing the library, asking for help."""

from __future__ import annotations

import subprocess
import sys

from harness import Row, measure


def rows() -> list[Row]:
    """Fresh processes against their budgets; the interpreter's own start is part of it."""

    def importing() -> None:
        subprocess.run([sys.executable, "-c", "import marey"], check=True)

    def asking() -> None:
        subprocess.run([sys.executable, "-m", "marey", "--help"], check=True, stdout=subprocess.DEVNULL)

    return [
        measure("python -c 'import marey'", importing, limit_ms=300.0),
        measure("marey --help", asking, limit_ms=500.0),
    ]

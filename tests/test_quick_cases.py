"""The table of what runs in `make study` alone: every row names a test, and a quicker one of the same behaviour."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

TESTS = Path(__file__).parent
SLOW = "@pytest.mark.slow\n"


def test_every_test_kept_for_the_study_has_a_twin_in_the_quick_suite() -> None:
    table = tomllib.loads((TESTS / "quick_cases.toml").read_text(encoding="utf-8"))["study"]
    texts = {path.stem: path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")}

    def find(name: str) -> str:
        """The decorators of a test, which has to exist."""
        file, _, test = name.partition("::")
        found = re.search(rf"((?:^@.*\n(?:^[ )\]].*\n)*)*)^def {test}\(", texts[file], re.MULTILINE)
        assert found is not None, name
        return found[1]

    for name, twin in table.items():
        quick = twin if "::" in twin else f"{name.partition('::')[0]}::{twin}"
        find(name)
        assert quick not in table and SLOW not in find(quick), f"{name}: {quick} is not quick"

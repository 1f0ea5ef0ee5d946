"""Write `long_tests.txt` from measured processor times: what `make test` leaves to `make test-long`.

    mkdir times && pytest -m "not slow and not browser and not timing" -n 2 --dist loadfile --processor-times=times
    python tests/list_long_tests.py times

Run it with an empty kernel cache: what a test compiles counts, since a fresh machine compiles it too. A test is long
where one of its cases takes more than ``LONG_S``; names that are listed already stay. Checks that carry a number of a
specification stay in `make test`, whatever they cost, and so do facts of the whole product. Of the pages of the
documentation those that take longer than ``LONG_PAGE_S`` are listed one by one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LONG_S = 0.5  # [s] of processor time: eight thousand tests and more take less, and five minutes together
ACCEPTANCE = re.compile(r"::test_(tournier_\d|engell_\d|(fang_|glardon_|safonova_)?a\d)")
KEPT = re.compile(r"^test_(docs|house|package|examples|quick_cases)::")  # facts of the whole product
PAGE = re.compile(r"^test_docs::test_the_(blocks_of_the_page_run\[|json_page_lists)")
LONG_PAGE_S = 3.0  # [s] of processor time: pages that compile a solver, or run a search


def list_long_tests(folder: Path) -> list[str]:
    """Names ``file::test`` of the tests with a long case, and ``file::test[case]`` of long pages, sorted."""
    names = set[str]()
    for file in sorted(folder.glob("*.tsv")):
        for line in file.read_text(encoding="utf-8").splitlines():
            seconds, _, name = line.partition("\t")
            if float(seconds) > LONG_S and not ACCEPTANCE.search(name) and not KEPT.search(name):
                names.add(name.partition("[")[0])
            if float(seconds) > LONG_PAGE_S and PAGE.search(name):
                names.add(name)
    return sorted(names)


if __name__ == "__main__":
    target = Path(__file__).parent / "long_tests.txt"
    long_tests = sorted({*list_long_tests(Path(sys.argv[1])), *target.read_text(encoding="utf-8").split()})
    target.write_text("\n".join(long_tests) + "\n", encoding="utf-8")
    print(f"{len(long_tests)} long tests")

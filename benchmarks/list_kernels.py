"""Write `marey/cli/kernels.json`: the kernels that each common verb compiles, with their signatures, in order.

Run it after kernels of these verbs were added, renamed or given other arguments:

    python benchmarks/list_kernels.py [VERB...]

Helpers of a verb go through its list from the end: the kernels of its first job stand there, in the order in which
they are needed, and what only other jobs need stands before them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

TARGET = Path(__file__).parents[1] / "marey" / "cli" / "kernels.json"
JOBS = {
    "synth": ("synth pick-jump-goal --budget-s 60 -o a.glb", "synth three-rivers -o c.glb"),
    "demo": ("demo",),
    "walk": ("walk stroll -o a.glb", "walk leap -o b.bvh"),
    "compress": ("compress walk --max-error-mm 1 -o a.marey",),
    "physics": ("physics walk -o forces.png", "physics jump -o forces.png"),
    "ik": ("ik --task right_wrist=0.4,1.3,0.2 -o pose.bvh",),
}
COMPILED_AT_ONCE = ("ik",)  # verbs whose patient kernels are listed too: ahead of time there is no hurry
CHILD = """
import json, sys
from marey.base import kernel_cache
kernel_cache.environment_folder = lambda: kernel_cache.Path("nowhere")
from marey.cli import compile_ahead
compile_ahead.MAX_HELPERS = 0
from marey.cli import main
code = main(sys.argv[1].split())
from marey.base.errors import InputError
from marey.base.kernel_compiler import PROGRESS
from marey.base.signatures import TypeTable
table, rows = TypeTable(), []
for module, name, types in PROGRESS.compiled:
    try:
        rows.append([module, name, [table.number(one) for one in types]])
    except InputError as error:
        print(error, file=sys.stderr)
print("\\n" + json.dumps([code, table.rows, rows]))
"""


def main() -> None:
    """Run each job with an empty cache, and gather what it compiled; verbs that are not named keep their lists."""
    kept = json.loads(TARGET.read_text(encoding="utf-8"))
    wanted = sys.argv[1:] or list(JOBS)
    types: list[Any] = kept["types"] if sys.argv[1:] else []
    verbs: dict[str, list[Any]] = {verb: kept["verbs"].get(verb, []) if verb not in wanted else [] for verb in JOBS}
    for verb in wanted:
        for job in JOBS[verb]:
            with TemporaryDirectory() as folder:
                own = {"MAREY_KERNEL_CACHE": folder, "XDG_CACHE_HOME": folder, "PYTHONPATH": str(TARGET.parents[2])}
                own |= {"MAREY_COMPILE": "always"} if verb in COMPILED_AT_ONCE else {}
                done = subprocess.run(
                    [sys.executable, "-c", CHILD, job],
                    cwd=folder,
                    env=os.environ | own,
                    stdout=subprocess.PIPE,
                    check=True,
                )
            code, rows, kernels = json.loads(done.stdout.decode().splitlines()[-1])
            # Types of this job by their numbers in the common table; parts come before what they make up
            moved: list[int] = []
            for row in rows:
                whole = row if isinstance(row, str) or row[0] == "array" else [*row[:-1], [moved[n] for n in row[-1]]]
                if whole not in types:
                    types.append(whole)
                moved.append(types.index(whole))
            entries = [[module, name, [moved[n] for n in numbers]] for module, name, numbers in kernels]
            verbs[verb] = [entry for entry in entries if entry not in verbs[verb]] + verbs[verb]
            print(f"{job}: exit {code}, {len(kernels)} kernels")
    # A row a line, so that a change of the list can be read
    blocks = [(f'"{verb}": [', rows, "]") for verb, rows in verbs.items()]
    parts = ["\n".join([head, ",\n".join(map(json.dumps, rows)), tail]) for head, rows, tail in blocks]
    text = "\n".join(['{"types": [', ",\n".join(map(json.dumps, types)), '], "verbs": {', ",\n".join(parts), "}}", ""])
    json.loads(text)
    TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

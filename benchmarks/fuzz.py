"""Is anything lost, left half-written, untyped, slow or large, whatever is done to the product?

``python benchmarks/fuzz.py [PARTS] [--seed 1] [--seconds 60]`` shares the time among
the parts and prints what each found. Exit code 1 if something did not hold; each line names what to run again:

- readers: damaged copies of files of every format. Each is read or refused by a typed error, without NaN, in 2 s of a
  processor and 200 MB (``fuzz_readers.py``). ``readers --seed S --only FILE --number N`` repeats a finding.
- calls: public functions with arguments that they cannot use (``fuzz_calls.py``).
- commands: options that take a number, with numbers that they cannot use (``fuzz_commands.py``).
- load: the engine, a library and a batch side by side under random load, for ten minutes with ``--seconds 600``; memory
  stays flat (``fuzz_load.py``). ``--record FILE.csv`` keeps what each took, second by second.
- kills, disks: processes that are ended at any moment, disks that are full (``fuzz_faults.py``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

GOOD = ("read", "refused", "returned", "held", "fitted after all")
UNTRIED = "no right call"  # of functions for which no arguments are known
CUT = "cut by its time"  # of functions of which some calls were not made
Verdict = dict[str, Any]


def main() -> int:
    """Run the parts, print findings as they come and counts at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", choices=("readers", "calls", "commands", "kills", "disks", "load", []), default=[]
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", default="", help="readers: files whose path has this; calls: functions")
    parser.add_argument("--number", type=int, help="readers: this mutant alone")
    parser.add_argument(
        "--function-seconds", type=float, default=10.0, help="calls: for one function; 600 is all of them"
    )
    parser.add_argument("--record", type=Path, help="load: a CSV file of the memory of each job")
    parser.add_argument("--count", type=int, help="kills, readers: how many at most")
    options = parser.parse_args()
    import fuzz_calls
    import fuzz_commands
    import fuzz_faults
    import fuzz_load
    from fuzz_readers import run_readers

    each = options.seconds / len(options.parts or "123456")
    parts: dict[str, Callable[[], Iterator[Verdict]]] = {
        "readers": lambda: islice(run_readers(options.seed, each, options.only, options.number), options.count),
        "calls": lambda: fuzz_calls.run(options.seed, each, only=options.only, function_s=options.function_seconds),
        "commands": lambda: fuzz_commands.run_commands(options.seed, each, options.only),
        "kills": lambda: fuzz_faults.run_kills(options.seed, each, options.count or 1000),
        "disks": lambda: fuzz_faults.run_disks(options.seed, each),
        "load": lambda: fuzz_load.run_load(options.seed, each, options.record),
    }
    is_good = True
    for part in options.parts or parts:
        kills, formats = Counter[str](), Counter[str]()
        counts, slowest, largest, untried, cut = Counter[str](), 0.0, 0.0, list[str](), list[str]()
        for found in parts[part]():
            if found["verdict"] in (UNTRIED, CUT):
                (untried if found["verdict"] == UNTRIED else cut).append(found["name"])
                continue
            counts[found["verdict"]] += 1
            if "kills" in found:
                kills[found["kind"]] += found["kills"]
            formats[found.get("format", "")] += 1
            slowest, largest = max(slowest, found.get("s", 0.0)), max(largest, found.get("mb", 0.0))
            if found["verdict"] not in GOOD:
                is_good = False
                print(f"{part} --seed {options.seed}: {json.dumps(found)}", flush=True)
        said = ", ".join(f"{verdict} {count}" for verdict, count in counts.most_common())
        extra = f"; slowest {slowest:.2f} s, most {largest:.0f} MB" if part == "readers" else ""
        extra += (
            f" ({', '.join(f'{kind} {number}' for kind, number in formats.most_common())})" if part == "readers" else ""
        )
        extra += "".join(f"; {kind}: {number} kills" for kind, number in kills.items())
        extra += f"; not tried, {UNTRIED}: {', '.join(untried)}" if untried else ""
        extra += f"; {CUT}: {', '.join(cut)}" if cut else ""
        print(f"{part} --seed {options.seed}: {sum(counts.values())} tried: {said}{extra}", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""Damaged files: is every one read or refused by a typed error, in 2 s of a processor and 200 MB?

``python benchmarks/study_mutants.py COUNT FILE... [--seed 1]`` makes COUNT damaged copies of each file (cut off, bytes
changed, counts replaced by the largest numbers, pieces taken out or moved, lengths of words in the text changed), loads
each, and prints one row a file: read, refused, untyped errors, the slowest [s of processor] and the growth of memory
[MB], of this process and of the readers that it starts.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from marey.base import MareyError
from marey.io import load

WORDS = (
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    bytes(4),
    b"\0\0\0\x80",
    b"99999999999",
    b"-1",
    b"1e308",
    b"nan",
    b"<",
    b"{",
    b"\0",
)
PATIENCE_S, MEMORY_MB = 2.0, 200.0


def damage(content: bytes, rng: random.Random) -> bytes:
    """Return a damaged copy."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, size = rng.randrange(len(data)), rng.choice((1, 10, 100, 4000))
        kind = rng.randrange(6)
        if kind == 0:
            data = data[: max(1, at)]
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind == 2:
            word = rng.choice(WORDS)
            data[at : at + len(word)] = word
        elif kind == 3:
            del data[at : at + size]
        elif kind == 4:
            data[at:at] = data[at : at + size]
        else:
            # A number of the text, or of a header, becomes another
            at = rng.randrange(min(len(data), 4096))
            data[at : at + 1] = rng.choice((b"9", b"0", b"-", b".", b"e", b"\xff"))
        if not data:
            return b"\0"
    return bytes(data)


def used_s() -> float:
    """Processor time of this process and its children [s]."""
    mine, theirs = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return mine.ru_utime + mine.ru_stime + theirs.ru_utime + theirs.ru_stime


def main() -> None:
    """Damage, load, count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"{'file':44} {'read':>6} {'refused':>8} {'untyped':>8} {'slowest [s]':>12} {'memory [MB]':>12}")
    with tempfile.TemporaryDirectory() as folder:
        for path in options.files:
            content, rng, counts, slowest = path.read_bytes(), random.Random(options.seed), Counter[str](), 0.0
            target = Path(folder) / f"take{path.suffix}"
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for number in range(options.count):
                target.write_bytes(damage(content, rng))
                start = used_s()
                try:
                    motion = load(target)
                    counts["read"] += 1
                    if not np.isfinite(motion.joint_positions()).all():
                        raise AssertionError("not finite")
                except MareyError:
                    counts["refused"] += 1
                except Exception as error:
                    counts["untyped"] += 1
                    print(f"  {path.name} mutant {number}: {type(error).__name__}: {str(error)[:120]}", flush=True)
                took = used_s() - start
                slowest = max(slowest, took)
                if took > PATIENCE_S:
                    print(f"  {path.name} mutant {number}: {took:.2f} s", flush=True)
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024.0
            child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024.0
            cells = f"{counts['read']:6} {counts['refused']:8} {counts['untyped']:8} {slowest:12.2f}"
            print(f"{path.name:44.44} {cells} {max(grown, child):12.0f}", flush=True)


if __name__ == "__main__":
    main()

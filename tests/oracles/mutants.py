"""Damaged copies of a file, and the check that a reader survives them."""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from marey.base import MareyError
from marey.io.sandbox import CHILD, ChildLimits, find_module_file


def mutate(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(data[: rng.randrange(1, len(data))])
    if kind == 1:
        for _ in range(rng.choice((1, 5, 50))):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 2:
        at = rng.randrange(len(data) - 4)
        data[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", bytes(4), b"\0\0\0\x80"))
    else:
        at = rng.randrange(len(data))
        del data[at : at + rng.choice((1, 10, 1000))]
    return bytes(data)


def check_mutants(read, content: bytes, path: Path, count: int) -> None:
    """Every mutant is read or refused by a typed error, in two seconds of a processor."""
    rng = random.Random(11)
    for _ in range(count):
        path.write_bytes(mutate(content, rng))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.process_time()
        try:
            motion = read(path)
        except MareyError:
            pass
        else:
            assert np.isfinite(motion.joint_positions()).all()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = time.process_time() - started + after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        assert used < 2.0


def child_peak_mb(reader: tuple[str, str], path: Path, question: dict[str, object], limits: ChildLimits) -> float:
    """Most memory [MB] that a reader's child holds for a file, measured from a small process that starts it."""
    size = path.stat().st_size
    request = {
        "reader": find_module_file(reader[0]),
        "function": reader[1],
        "path": str(path),
        "question": question,
        "memory_bytes": limits.memory_bytes + int(limits.memory_per_byte * size),
        "output_bytes": limits.output_bytes,
        "cpu_s": limits.cpu_s + limits.cpu_s_per_byte * size,
    }
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run([sys.executable, '-P', sys.argv[1]], input=sys.argv[2].encode(), capture_output=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    command = [sys.executable, "-S", "-c", code, find_module_file(CHILD[0]), json.dumps(request)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1024.0

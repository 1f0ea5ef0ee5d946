"""Start a reader in a child process and take its answer, or a sentence on why there is none."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import MissingExtraError
from marey.io.binary import AnyPath, file_size, format_error

CHILD: Final = ("marey.io.sandbox_child", "main")
MAX_HEADER_BYTES: Final = 64 << 20  # [byte] of the JSON text of an answer
TYPES: Final = {"d": np.float64, "f": np.float32, "q": np.int64, "i": np.int32, "I": np.uint32}


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """What a child may take for a file: a part of its own, and a part for each byte of the file."""

    memory_bytes: int = 160 << 20  # address space: an interpreter and a library take 40 to 60 MB of it
    memory_per_byte: float = 24.0  # compressed keys grow 4 to 8 times, and are held twice
    output_bytes: int = 128 << 20
    output_per_byte: float = 24.0
    cpu_s: float = 1.5  # [s] a damaged file ends within two seconds
    cpu_s_per_byte: float = 0.5e-6  # 5 s for 10 MB
    wall_factor: float = 8.0  # other programs may hold the processor for so long


@dataclass(frozen=True, slots=True, eq=False)
class ChildAnswer:
    """What a reader found: plain JSON facts and arrays."""

    facts: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def find_module_file(module: str) -> str:
    """Return the file of a module, without importing it."""
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    return spec.origin


def run_reader(
    reader: tuple[str, str],
    path: AnyPath,
    question: dict[str, Any],
    *,
    extra: tuple[str, str],
    limits: ChildLimits | None = None,
) -> ChildAnswer:
    """Run a reader on ``path`` in a child process.

    Args:
        reader: module and function of the reader, ``read(path, question) -> (facts, arrays)``; the module imports
            nothing of marey.
        path: the file to read.
        question: plain JSON for the reader.
        extra: what needs the library (``reading FBX``) and the extra that installs it.
        limits: memory, output and time of the child.

    Raises:
        FormatError: the reader refused the file, crashed, or passed a limit.
        MissingExtraError: the library is not installed.
    """
    limits = limits or ChildLimits()
    size = file_size(path, limit=2 << 30)
    cpu_s = limits.cpu_s + limits.cpu_s_per_byte * size
    request = {
        "reader": find_module_file(reader[0]),
        "function": reader[1],
        "path": str(Path(path).resolve()),
        "question": question,
        "memory_bytes": limits.memory_bytes + int(limits.memory_per_byte * size),
        "output_bytes": limits.output_bytes + int(limits.output_per_byte * size),
        "cpu_s": cpu_s,
    }
    # -P: the folder of the child's own file is no place to import from
    command = [sys.executable, "-P", find_module_file(CHILD[0])]
    with tempfile.TemporaryFile() as out:
        try:
            done = subprocess.run(
                command,
                input=json.dumps(request).encode(),
                stdout=out,
                stderr=subprocess.DEVNULL,
                timeout=limits.wall_factor * cpu_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise format_error(path, f"reading it took more than {limits.wall_factor * cpu_s:.0f} s") from None
        if done.returncode != 0:
            # Why the child ended without an answer
            status = done.returncode
            if status == -signal.SIGPROF:
                why = f"reading it took more than {cpu_s:.1f} s of processor time: it is damaged"
            elif status == -signal.SIGXFSZ:
                why = "its content is larger than that of any file of its size: it is damaged"
            elif status < 0:
                why = f"it makes the library that reads it stop ({signal.Signals(-status).name}): it is damaged"
            else:
                why = "the library that reads it stopped without an answer: it is damaged"
            raise format_error(path, why)
        out.seek(0)
        head = out.read(8)
        length = int.from_bytes(head, "little")
        if len(head) < 8 or length > MAX_HEADER_BYTES:
            raise format_error(path, "the reader gave no answer")
        answer = cast(dict[str, Any], json.loads(out.read(length)))
        arrays: dict[str, NDArray[Any]] = {}
        for name, (code, shape) in answer["arrays"].items():
            kind = np.dtype(TYPES[code])
            content = out.read(int(np.prod(shape, dtype=np.int64)) * kind.itemsize)
            arrays[name] = np.frombuffer(content, dtype=kind).reshape(shape)
    facts = cast(dict[str, Any], answer["facts"])
    if "missing" in facts:
        raise MissingExtraError(*extra)
    if "error" in facts:
        raise format_error(path, str(facts["error"]))
    return ChildAnswer(facts, arrays)

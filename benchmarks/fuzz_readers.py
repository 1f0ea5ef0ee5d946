"""Damaged copies of files of every format: each is read or refused by a typed error, in bounded time and memory.

A mutant is drawn from the seed, the file and its number. Half of the mutants of containers are damaged inside, under
lengths and checksums that are right, so that the damage reaches what is behind them.
"""

from __future__ import annotations

import io
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_fork_server import ForkServer

WORDS = (
    b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", bytes(4), b"\0\0\0\x80", b"99999999999", b"-1", b"1e308", b"nan",
    b"<", b"{", b"\0",
)  # fmt: skip
NUMBERS = (float("nan"), float("inf"), 3e38, -1e30, 1e10, 1e-40, 0.0)  # as large or strange as they come
PATIENCE_S, MEMORY_MB, MESSAGE_CHARACTERS = 2.0, 200.0, 1000
ROOM_MB = 1000  # of address space that a reader may ask for
BATCH, BATCH_S = (5, 800), 0.4  # mutants of one process, at least and at most; processor time of a batch
FILES = 8  # of other tools, at most, of one format
DATA = tuple(
    Path(os.environ.get(f"MAREY_{n}", Path(__file__).parents[2] / "shared" / n.lower())) for n in ("MOCAP", "REAL")
)
SUFFIXES = (
    ".bvh", ".amc", ".asf", ".c3d", ".trc", ".mot", ".glb", ".gltf", ".fbx", ".usda", ".usdc", ".usdz", ".npz",
    ".safetensors", ".toml", ".txt", ".marey", ".json", ".mvnx",
)  # fmt: skip
MOST_BYTES = 1 << 20  # of a file that is damaged, or that lies beside one
Verdict = dict[str, Any]


def damage(content: bytes, rng: random.Random) -> bytes:
    """Return a damaged copy: cut off, bytes changed, numbers replaced by extreme ones, pieces taken out or moved."""
    data = bytearray(content or b"\0")
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, size = rng.randrange(len(data)), rng.choice((1, 10, 100, 4000))
        kind = rng.randrange(7)
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
        elif kind == 5:
            # A number of the text, or of a header, becomes another
            at = rng.randrange(min(len(data), 4096))
            data[at : at + 1] = rng.choice((b"9", b"0", b"-", b".", b"e", b"\xff"))
        else:
            number = rng.choice(NUMBERS)
            packed = struct.pack("<d", number) if rng.random() < 0.5 else np.float32(number).tobytes()
            at -= at % len(packed)
            data[at : at + len(packed)] = packed
        if not data:
            return b"\0"
    return bytes(data)


def damage_inside(content: bytes, rng: random.Random) -> bytes:
    """Damage a part of a container and put its lengths and checksums right; other files are damaged as they are."""
    if content[:4] == b"PK\x03\x04":
        return _damage_archive(content, rng)
    if content[:4] == b"MARY" and len(content) > 20:
        magic, version, method, spare, _, _ = struct.unpack_from("<4sBBHQI", content)
        body = damage(content[20:], rng)
        head = struct.pack("<4sBBHQI", magic, version, method, spare, len(body), 0)
        return head[:16] + struct.pack("<I", zlib.crc32(body, zlib.crc32(head))) + body
    if content[:4] == b"glTF" and len(content) > 20:
        size = int.from_bytes(content[12:16], "little")
        text = damage(content[20 : 20 + size], rng)
        text += b" " * (-len(text) % 4)
        rest = struct.pack("<I4s", len(text), b"JSON") + text + content[20 + size :]
        return struct.pack("<4sII", b"glTF", 2, 12 + len(rest)) + rest
    size = int.from_bytes(content[:8], "little")
    if content[8:9] == b"{" and size + 8 <= len(content):  # safetensors
        text, rest = content[8 : 8 + size], content[8 + size :]
        if rng.random() < 0.5:
            text = damage(text, rng)
            return len(text).to_bytes(8, "little") + text + rest
        at = 8 * rng.randrange(max(1, len(rest) // 8))
        return content[: 8 + size + at] + struct.pack("<d", rng.choice(NUMBERS)) + rest[at + 8 :]
    return damage(content, rng)


def _damage_archive(content: bytes, rng: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name, kind = rng.choice(list(members)), rng.randrange(4)
    if kind == 0:
        members[name] = damage(members[name], rng)
    elif kind == 1:
        # Eight bytes of an array become another number, as large or as strange as they come
        whole = members[name]
        at = 128 + 8 * rng.randrange(max(1, (len(whole) - 128) // 8))
        members[name] = whole[:at] + struct.pack("<d", rng.choice(NUMBERS)) + whole[at + 8 :]
    elif kind == 2:
        del members[name]
    else:
        members[name] = members[rng.choice(list(members))]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for inner, part in members.items():
            archive.writestr(inner, part)
    return packed.getvalue()


def seed_files(folder: Path) -> list[Path]:
    """Files of every format that the product reads: its own, then small ones of other tools, where there are any."""
    import marey
    from marey.base import write_atomically
    from marey.io import WRITABLE_SUFFIXES, write_clip

    walk = marey.samples.load("walk")[:30]
    for suffix in WRITABLE_SUFFIXES:
        try:
            marey.save(walk, folder / f"own{suffix}")
        except marey.MareyError:
            continue  # an extra that is not installed
    write_clip(walk, folder / "clip.safetensors")
    write_atomically(folder / "own.marey", marey.compress(walk))
    for kind in ("sketch", "problem", "script"):
        name = getattr(marey.samples, f"{kind}_names")()[0]
        write_atomically(folder / f"{kind}.toml", Path(getattr(marey.samples, f"{kind}_file")(name)).read_bytes())
    _make_binary_scenes(folder)
    _write_sensor_suit(folder / "own.mvnx")
    made = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)
    return made + _copy_others(folder / "others")


def _make_binary_scenes(folder: Path) -> None:
    """The written USD text as binary layer and as package, by a process of its own: the library starts threads."""
    words = (
        "from pxr import Sdf, UsdUtils; Sdf.Layer.FindOrOpen('own.usda').Export('own.usdc'); "
        "UsdUtils.CreateNewUsdzPackage('own.usdc', 'own.usdz')"
    )
    subprocess.run([sys.executable, "-c", words], cwd=folder, stderr=subprocess.DEVNULL, check=False)


def _write_sensor_suit(path: Path) -> None:
    """A short take of a sensor suit, as the reader's tests write it."""
    import runpy

    tests = Path(__file__).parents[1] / "tests" / "io" / "test_io_mvnx.py"
    if tests.is_file():
        made = runpy.run_path(str(tests))
        made["write_mvnx"](path, made["a_take"]())


def _copy_others(home: Path) -> list[Path]:
    """Copies of files of other tools that load unharmed, each with what lies beside it; nobody else reads there."""
    found = dict[str, list[Path]]()
    for root in DATA:
        for path in sorted(root.rglob("*")) if root.is_dir() else ():
            is_small = path.is_file() and 0 < path.stat().st_size < MOST_BYTES
            if path.suffix.lower() in SUFFIXES and is_small and not path.name.startswith("."):
                found.setdefault(path.suffix.lower(), []).append(path)
    copies, made = dict[Path, Path](), list[Path]()
    for paths in found.values():
        some = list[Path]()
        for path in paths[:: max(1, len(paths) // (2 * FILES))]:
            if len(some) == FILES:
                break
            if path.parent not in copies:
                # What lies beside a file belongs to it: skeletons of .amc, buffers of .gltf
                copy = copies[path.parent] = home / str(len(copies))
                copy.mkdir(parents=True)
                for other in path.parent.iterdir():
                    if other.is_file() and other.stat().st_size < MOST_BYTES and not other.name.startswith("."):
                        shutil.copy(other, copy / other.name)
            here = copies[path.parent] / path.name
            if read_mutant(here) == ("read", ""):
                some.append(here)
        made += some
    return made


def read_any(path: Path) -> str:
    """Read a file by what it is; say what is wrong with what was read."""
    import marey
    from marey.io import load_analog, load_ground_reaction, load_markers

    if path.suffix == ".toml":
        from marey.locomotion import load_script
        from marey.spacetime import load_problem

        readers: dict[str, Callable[[Path], Any]] = {
            "sketch": marey.Sketch.load,
            "problem": load_problem,
            "script": load_script,
        }
        next((read for name, read in readers.items() if name in path.name), marey.Sketch.load)(path)
        return ""
    if path.suffix == ".mot":
        load_ground_reaction(path)
        return "" if np.isfinite(load_analog(path).values).all() else "NaN"
    if path.suffix == ".marey":
        motion = marey.decompress(path.read_bytes())
    elif path.suffix.lower() in (".c3d", ".trc"):
        markers = load_markers(path)
        return "" if np.isfinite(markers.positions[markers.valid]).all() else "NaN"
    else:
        motion = marey.load(path)
        _ = motion.load_report.warnings
    is_finite = np.isfinite(motion.joint_positions()).all() and np.isfinite(motion.rotations.wxyz).all()
    return "" if is_finite and 0.0 < motion.rate_hz < np.inf else "NaN"


def read_mutant(path: Path) -> tuple[str, str]:
    """Verdict of one damaged file, and what was said."""
    from marey.base import MareyError

    try:
        wrong = read_any(path)
        return ("read", "") if not wrong else (wrong, "")
    except MareyError as error:
        said = str(error)
        return ("refused", "") if len(said) <= MESSAGE_CHARACTERS else ("long message", f"{len(said)} characters")
    except MemoryError:
        return "memory", ""
    except Exception as error:
        return "untyped", f"{type(error).__name__}: {str(error)[:160]}"


def run_readers(seed: int, seconds: float, only: str = "", number: int | None = None) -> Iterator[Verdict]:
    """Verdicts of damaged files until the time is up: each file in turn for ``BATCH_S``, in a process of its own."""
    server = ForkServer()
    server.serve_sandbox()
    with tempfile.TemporaryDirectory() as folder:
        files = [file for file in seed_files(Path(folder)) if only in str(file)]
        for suffix in {file.suffix for file in files}:
            read_mutant(next(file for file in files if file.suffix == suffix))  # loads what readers load, once
        made, each_s = dict.fromkeys(files, 0), dict.fromkeys(files, BATCH_S / 20)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for file in files:
                size = int(np.clip(BATCH_S / each_s[file], *BATCH))
                batch = range(made[file], made[file] + size) if number is None else range(number, number + 1)
                took_s = 0.0
                for verdict in _read_batch(file, server, seed, batch, deadline):
                    took_s += verdict.get("s", 0.0)
                    yield verdict
                if time.monotonic() > deadline:
                    break
                made[file] += len(batch)
                each_s[file] = max(took_s / len(batch), 1e-4)
            if number is not None:
                break
    server.close()


def _read_batch(file: Path, server: ForkServer, seed: int, batch: range, deadline: float) -> Iterator[Verdict]:
    content, at = file.read_bytes(), batch.start
    target = file.with_name(f"mutant{file.suffix}" if file.suffix != ".toml" else f"mutant-{file.name}")
    while at < batch.stop and time.monotonic() < deadline:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            try:
                _read_in_child(content, target, server, f"{seed}:{file.name}", range(at, batch.stop), write)
            finally:
                os._exit(1)
        os.close(write)
        with os.fdopen(read) as answers:
            for line in answers:
                yield {"kind": file.name, "format": file.suffix.lower(), "number": at, **json.loads(line)}
                at += 1
                if time.monotonic() > deadline:
                    os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            raise SystemExit(f"the harness itself failed at mutant {at} of {file.name}")
        if at < batch.stop and time.monotonic() < deadline and os.WIFSIGNALED(status):
            slow = os.WTERMSIG(status) == signal.SIGPROF
            verdict = f"over {2 * PATIENCE_S:g} s" if slow else f"signal {os.WTERMSIG(status)}"
            yield {"kind": file.name, "number": at, "verdict": verdict, "said": ""}
            at += 1


def _read_in_child(content: bytes, target: Path, server: ForkServer, seed: str, batch: range, write: int) -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (ROOM_MB << 20),) * 2)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    with os.fdopen(write, "w") as answers:
        for number in batch:
            rng = random.Random(f"{seed}:{number}")
            target.write_bytes((damage, damage_inside)[number % 2](content, rng))
            Path("/proc/self/clear_refs").write_text("5")  # the peak of memory counts from here
            server.grown_mb = 0.0
            before, start = _resident_mb("VmRSS"), _used_s() + server.used_s
            signal.setitimer(signal.ITIMER_PROF, 2 * PATIENCE_S)
            verdict, said = read_mutant(target)
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            took = _used_s() + server.used_s - start
            grown = max(_resident_mb("VmHWM") - before, server.grown_mb)
            if verdict in ("read", "refused") and (took > PATIENCE_S or grown > MEMORY_MB):
                verdict = f"over {PATIENCE_S:g} s" if took > PATIENCE_S else f"over {MEMORY_MB:g} MB"
            line = {"verdict": verdict, "said": said, "s": round(took, 5), "mb": round(grown, 1)}
            print(json.dumps(line), file=answers, flush=True)
        answers.flush()
        os._exit(0)


def _used_s() -> float:
    """Processor time of this process and its children [s]."""
    mine, theirs = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return mine.ru_utime + mine.ru_stime + theirs.ru_utime + theirs.ru_stime


def _resident_mb(key: str) -> float:
    text = Path("/proc/self/status").read_text()
    return int(text[text.index(key) :].split(None, 2)[1]) / 1024.0

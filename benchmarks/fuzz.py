"""Is anything lost, left half-written, untyped, slow or large, whatever is done to the product?

``python benchmarks/fuzz.py [readers] [calls] [kills] [disks] [load] [--seed 1] [--seconds 60]`` shares the time among
the parts and prints what each found. Exit code 1 if something did not hold; each line names what to run again:

- readers: damaged copies of files of every format. Each is read or refused by a typed error, without NaN, in 2 s of a
  processor and 200 MB. A finding is repeated by ``readers --seed S --only FILE --number N``.
- calls: public functions with arguments that they cannot use (``fuzz_calls.py``).
- load: the engine, a library and a batch side by side under random load, for ten minutes with ``--seconds 600``; memory
  stays flat (``fuzz_load.py``). ``--record FILE.csv`` keeps what each took, second by second.
- kills, disks: processes that are ended at any moment, disks that are full (``fuzz_faults.py``).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

WORDS = (
    b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", bytes(4), b"\0\0\0\x80", b"99999999999", b"-1", b"1e308", b"nan",
    b"<", b"{", b"\0",
)  # fmt: skip
PATIENCE_S, MEMORY_MB, MESSAGE_CHARACTERS = 2.0, 200.0, 1000
ROOM_MB = 1000  # of address space that a reader may ask for
BATCH, BATCH_S = (2, 400), 0.4  # mutants of one process, at least and at most; processor time of a batch
GOOD = ("read", "refused", "returned", "held", "fitted after all")
UNTRIED = "no right call"  # of functions for which no arguments are known
CUT = "cut by its time"  # of functions of which some calls were not made
DATA = tuple(
    Path(os.environ.get(f"MAREY_{n}", Path(__file__).parents[2] / "shared" / n.lower())) for n in ("MOCAP", "REAL")
)
SUFFIXES = (
    ".bvh", ".amc", ".asf", ".c3d", ".trc", ".mot", ".glb", ".gltf", ".fbx", ".usda", ".usdc", ".usdz", ".npz",
    ".safetensors", ".toml", ".txt", ".marey", ".json", ".mvnx", ".csv",
)  # fmt: skip
Verdict = dict[str, Any]


def damage(content: bytes, rng: random.Random) -> bytes:
    """Return a damaged copy: cut off, bytes changed, numbers replaced by extreme ones, pieces taken out or moved."""
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


def seed_files(folder: Path) -> list[Path]:
    """Files of every format that the product writes, then small ones of other tools, where there are any."""
    import marey
    from marey.base import write_atomically
    from marey.io import WRITABLE_SUFFIXES, write_clip

    walk = marey.samples.load("walk")[:30]
    made = list[Path]()
    for suffix in WRITABLE_SUFFIXES:
        file = folder / f"own{suffix}"
        try:
            marey.save(walk, file)
            made.append(file)
        except marey.MareyError:
            continue  # an extra that is not installed
    write_clip(walk, folder / "clip.safetensors")
    write_atomically(folder / "own.marey", marey.compress(walk))
    for kind in ("sketch", "problem", "script"):
        name = getattr(marey.samples, f"{kind}_names")()[0]
        write_atomically(folder / f"{kind}.toml", Path(getattr(marey.samples, f"{kind}_file")(name)).read_bytes())
    made += [folder / name for name in ("clip.safetensors", "own.marey", "sketch.toml", "problem.toml", "script.toml")]
    found = dict[str, list[Path]]()
    for home in DATA:
        for path in sorted(home.rglob("*")) if home.is_dir() else ():
            if path.suffix.lower() in SUFFIXES and 0 < path.stat().st_size < 1 << 20:
                found.setdefault(path.suffix.lower(), []).append(path)
    for paths in found.values():
        made += paths[:: max(1, len(paths) // 8)][:8]
    return made


def read_any(path: Path) -> str:
    """Read a file by what it is; say what is wrong with what was read."""
    import numpy as np

    import marey
    from marey.io import load_markers

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
    if path.suffix == ".marey":
        motion = marey.decompress(path.read_bytes())
    elif path.suffix in (".c3d", ".trc"):
        markers = load_markers(path)
        return "" if np.isfinite(markers.positions[markers.valid]).all() else "NaN"
    else:
        motion = marey.load(path)
        _ = motion.load_report.warnings
    return "" if np.isfinite(motion.joint_positions()).all() else "NaN"


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


def used_s() -> float:
    """Processor time of this process and its children [s]."""
    mine, theirs = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return mine.ru_utime + mine.ru_stime + theirs.ru_utime + theirs.ru_stime


def run_readers(seed: int, seconds: float, only: str = "", number: int | None = None) -> Iterator[Verdict]:
    """Verdicts of damaged files until the time is up: each file in turn for about ``BATCH_S``, in a separate process.

    A mutant is drawn from the seed, the file and its number, whatever the size of a batch.
    """
    import numpy as np

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
                # What lies beside a file belongs to it: skeletons of .amc, buffers of .gltf
                target = (
                    file.with_name(f".fuzz-{os.getpid()}{file.suffix}") if os.access(file.parent, os.W_OK) else None
                )
                target = target or Path(folder) / f"mutant{file.suffix}"
                took_s = 0.0
                try:
                    for verdict in _read_batch(file, target, seed, batch, deadline):
                        took_s += verdict.get("s", 0.0)
                        yield verdict
                finally:
                    target.unlink(missing_ok=True)
                if time.monotonic() > deadline:
                    return
                made[file] += len(batch)
                each_s[file] = max(took_s / len(batch), 1e-4)
            if number is not None:
                return


def _read_batch(file: Path, target: Path, seed: int, batch: range, deadline: float) -> Iterator[Verdict]:
    content, at = file.read_bytes(), batch.start
    while at < batch.stop and time.monotonic() < deadline:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _read_in_child(content, file.name, target, seed, range(at, batch.stop), write)
        os.close(write)
        with os.fdopen(read) as answers:
            for line in answers:
                yield {"kind": file.name, "format": file.suffix.lower(), "number": at, **json.loads(line)}
                at += 1
                if time.monotonic() > deadline:
                    os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if at < batch.stop and time.monotonic() < deadline and os.WIFSIGNALED(status):
            slow = os.WTERMSIG(status) == signal.SIGPROF
            verdict = f"over {2 * PATIENCE_S:g} s" if slow else f"signal {os.WTERMSIG(status)}"
            yield {"kind": file.name, "number": at, "verdict": verdict, "said": ""}
            at += 1


def _read_in_child(content: bytes, name: str, target: Path, seed: int, batch: range, write: int) -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (ROOM_MB << 20),) * 2)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    with os.fdopen(write, "w") as answers:
        for number in batch:
            target.write_bytes(damage(content, random.Random(f"{seed}:{name}:{number}")))
            Path("/proc/self/clear_refs").write_text("5")  # the peak of memory counts from here
            before, start = _resident_mb("VmRSS"), used_s()
            signal.setitimer(signal.ITIMER_PROF, 2 * PATIENCE_S)
            verdict, said = read_mutant(target)
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            took, grown = used_s() - start, _resident_mb("VmHWM") - before
            if verdict in GOOD and (took > PATIENCE_S or grown > MEMORY_MB):
                verdict = f"over {PATIENCE_S:g} s" if took > PATIENCE_S else f"over {MEMORY_MB:g} MB"
            print(
                json.dumps({"verdict": verdict, "said": said, "s": round(took, 3), "mb": round(grown, 1)}), file=answers
            )
            answers.flush()
    os._exit(0)


def _resident_mb(key: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024.0 for line in lines if line.startswith(key))


def main() -> int:
    """Run the parts, print findings as they come and counts at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=("readers", "calls", "kills", "disks", "load", []), default=[])
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
    import fuzz_faults
    import fuzz_load

    each = options.seconds / len(options.parts or "12345")
    parts: dict[str, Callable[[], Iterator[Verdict]]] = {
        "readers": lambda: islice(run_readers(options.seed, each, options.only, options.number), options.count),
        "calls": lambda: fuzz_calls.run(options.seed, each, only=options.only, function_s=options.function_seconds),
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

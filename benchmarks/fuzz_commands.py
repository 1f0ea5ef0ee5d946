"""Commands with numbers that they cannot use: each ends within its time, in a result or in one sentence.

Every option of a command that takes a number is given each of ``HOSTILE`` in turn. A command that is refused ends with
exit code 1 or 2 and one line on stderr that begins with ``marey:``; one that goes through shows no NaN.
"""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PATIENCE_S, MEMORY_BYTES, MESSAGE_CHARACTERS = 20, 3 << 30, 1000
HOSTILE = ("nan", "inf", "-inf", "-1", "0", "1e308", "-1e9", "1e9", "1e-300", "9" * 30, "1000000000", "abc", "")
# A right call of each command that takes a number; {out} is a folder, files are shipped or made before
COMMANDS = {
    "info": "info walk",
    "convert": "convert walk {out}/a.bvh",
    "clean": "clean walk -o {out}/a.bvh",
    "contacts": "contacts walk",
    "retarget": "retarget walk -o {out}/a.bvh",
    "plant": "plant walk -o {out}/a.bvh",
    "fit": "fit walk -o {out}/a.safetensors",
    "ik": "ik walk --point left_wrist=0.3,1.2,0.2",
    "between": "between {home}/keys.bvh -o {out}/a.bvh",
    "measure": "measure walk",
    "physics": "physics walk",
    "compress": "compress walk -o {out}/a.marey",
    "edit": "edit walk -o {out}/a.bvh",
    "walk": "walk stroll -o {out}/a.bvh",
    "blend": "blend walk run -o {out}/a.bvh",
    "synth": "synth straight -o {out}/a.bvh --engine locomotion",
    "simulate": "simulate walk --seconds 0.1 -o {out}/a.bvh",
    "strip": "strip walk -o {out}/a.png",
    "film": "film walk -o {out}/a.gif",
    "plot": "plot walk -o {out}/a.png",
    "limits fit": "limits fit walk -o {out}/a.safetensors --kind box",
    "library list": "library list --library {home}/library",
    "library add": "library add {home}/keys.bvh --library {out}/library",
    "library archive": "library archive {home}/clips -o {out}",
    "limits compare": "limits compare walk run",
    "fit-markers": "fit-markers {home}/walk.trc -o {out}/a.bvh",
    "optimize": "optimize jump-0.4 --time-limit-s 2 -o {out}/a.bvh",
    "muscle": "muscle fork --seconds 0.1 -o {out}/a.npz",
    "run": "run {home}/recipe.toml",
    "graph build": "graph build {home}/clips -o {out}/a.safetensors",
    "graph search": "graph search {home}/graph.safetensors straight -o {out}/a.bvh",
}
Verdict = dict[str, Any]


def number_options() -> Iterator[tuple[str, str]]:
    """Command and option, for every option that takes a number."""
    from marey.cli.app import build_command

    def look(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for name, other in getattr(command, "commands", {}).items():
            yield from look(other, (*path, name))
        for parameter in getattr(command, "params", ()):
            kind = str(parameter.type_descriptor.annotation)
            if parameter.opts[0].startswith("-") and ("int" in kind or "float" in kind):
                yield " ".join(path), parameter.opts[0]

    yield from look(build_command(""), ())


def run_commands(seed: int, seconds: float, only: str = "") -> Iterator[Verdict]:
    """Verdicts of commands, in an order that the seed draws, until the time is up; others are counted apart."""
    import marey
    from marey.cli import main

    deadline, rng = time.monotonic() + seconds, random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "clips").mkdir()
        for name in ("walk", "run"):
            marey.save(marey.samples.load(name), home / "clips" / f"{name}.bvh")
        marey.save(marey.samples.load("walk")[::30], home / "keys.bvh")
        marey.save(marey.samples.load("walk"), home / "walk.trc")
        marey.graph.save_graph(marey.samples.demo_graph(), home / "graph.safetensors")
        (home / "recipe.toml").write_text('version = 1\ntool = "clean"\n[inputs]\ntake = "walk"\n')
        main(["--quiet", "library", "add", str(home / "clips"), "--library", str(home / "library")])
        cases = [(*pair, word) for pair in number_options() for word in HOSTILE if only in pair[0]]
        for command in sorted({command for command, _, _ in cases} - set(COMMANDS)):
            yield {"name": command, "verdict": "no right call", "said": ""}
        cases = [case for case in cases if case[0] in COMMANDS]
        rng.shuffle(cases)
        for number, (command, option, word) in enumerate(cases):
            if time.monotonic() > deadline:
                yield {"name": f"{len(cases) - number} of {len(cases)} calls", "verdict": "cut by its time", "said": ""}
                return
            out = home / f"out{number}"
            out.mkdir()
            words = COMMANDS[command].replace("{out}", str(out)).replace("{home}", str(home)).split()
            yield {"name": f"{' '.join(words[:2])} {option}={word}", **_run_once([*words, f"{option}={word}"], out)}


def _run_once(words: list[str], out: Path) -> Verdict:
    """Run one command in a copy of this process and judge how it ended."""
    from marey.cli import main

    child = os.fork()
    if child == 0:
        code = 99
        try:
            size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES,) * 2)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, PATIENCE_S)
            for file, number in (("said", 2), ("shown", 1)):
                os.dup2(os.open(out / file, os.O_CREAT | os.O_WRONLY), number)
            code = main(["--quiet", *words])
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    said, shown = (
        (out / name).read_text(errors="replace") if (out / name).exists() else "" for name in ("said", "shown")
    )
    if os.WIFSIGNALED(status):
        slow = os.WTERMSIG(status) == signal.SIGPROF
        return {"verdict": f"over {PATIENCE_S} s" if slow else f"signal {os.WTERMSIG(status)}", "said": said[-300:]}
    code, lines = os.WEXITSTATUS(status), said.strip().splitlines()
    if code not in (0, 1, 2) or "Traceback" in said or "unexpected" in said:
        return {"verdict": f"untyped, exit {code}", "said": said[-300:]}
    if code and not (lines and lines[-1].startswith("marey: ")) and not shown:
        return {"verdict": "refused without a sentence", "said": said[-300:]}
    if max(map(len, lines), default=0) > MESSAGE_CHARACTERS:
        return {"verdict": "long message", "said": f"{max(map(len, lines))} characters"}
    if not code and re.search(r"(?<![\w/.=])nan(?![\w.])", shown + said):
        return {"verdict": "nan", "said": (shown + said)[:300]}
    return {"verdict": "refused" if code else "returned", "said": lines[-1] if lines else ""}

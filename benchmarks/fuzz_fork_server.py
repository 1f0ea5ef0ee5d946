"""Child processes that read FBX and USD files, made by copying one that has their libraries.

The product starts an interpreter for each file. Here one process imports the libraries and copies itself for each file;
the copy runs the same code under the same limits, so a damaged file costs a tenth of the time.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

LIBRARIES = ("pxr.Ar", "pxr.Sdf", "pxr.Tf", "pxr.Usd", "pxr.UsdGeom", "pxr.UsdSkel", "ufbx")


class ForkServer:
    """Client of the process that copies itself; stands for ``subprocess`` in the module that starts readers."""

    def __init__(self) -> None:
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        found = find_spec("marey.io.sandbox_child")
        assert found is not None and found.origin is not None
        words = [sys.executable, "-P", __file__, str(there.fileno()), found.origin]
        self._process = subprocess.Popen(words, pass_fds=[there.fileno()], stderr=subprocess.DEVNULL)
        there.close()
        self._own_mb = int(self._here.recv(16)) / 1024.0  # of the server, once its libraries are imported
        self.used_s = 0.0  # processor time of its copies
        self.grown_mb = 0.0  # of the largest copy, beside what the server takes

    def serve_sandbox(self) -> None:
        """Make the product's readers ask this server."""
        sandbox: Any = import_module("marey.io.sandbox")
        sandbox.subprocess = SimpleNamespace(
            run=self.run, DEVNULL=subprocess.DEVNULL, TimeoutExpired=subprocess.TimeoutExpired
        )

    def run(self, command: list[str], *, stdout: Any, timeout: float, **options: Any) -> Any:
        """Run the child's main function in a copy of the server; what ``subprocess.run`` returns."""
        asked = os.memfd_create("request")
        try:
            os.write(asked, options["input"])
            os.lseek(asked, 0, os.SEEK_SET)
            mark = f"{os.getpid()}:{asked}:{self.used_s}"
            socket.send_fds(self._here, [json.dumps([mark, timeout]).encode()], [asked, stdout.fileno()])
        finally:
            os.close(asked)
        # An answer to a reader that was ended is of no use
        answer = [""]
        while answer[0] != mark:
            answer = json.loads(self._here.recv(4096))
        _, status, used_s, peak_kb = answer
        self.used_s += used_s
        self.grown_mb = max(self.grown_mb, peak_kb / 1024.0 - self._own_mb)
        if status == -signal.SIGALRM:
            raise subprocess.TimeoutExpired(command, timeout)
        return SimpleNamespace(returncode=status, args=command)

    def close(self) -> None:
        """End the server."""
        self._here.close()
        self._process.kill()
        self._process.wait()


def serve(link: socket.socket, child_file: str) -> None:
    """Copy this process for each request, wait for the copy, and send its exit status, time and memory."""
    import runpy

    main = runpy.run_path(child_file)["main"]
    link.send(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss).encode())
    while True:
        text, fds, _, _ = socket.recv_fds(link, 4096, 2)
        if not text:
            return
        mark, timeout = json.loads(text)
        child = os.fork()
        if child == 0:
            link.close()
            os.dup2(fds[0], 0)
            os.dup2(fds[1], 1)
            sys.stdin = os.fdopen(0)
            signal.alarm(max(1, round(timeout)))
            try:
                main()
            finally:
                os._exit(1)
        for fd in fds:
            os.close(fd)
        _, status, used = os.wait4(child, 0)
        taken = used.ru_utime + used.ru_stime
        link.send(json.dumps([mark, os.waitstatus_to_exitcode(status), taken, used.ru_maxrss]).encode())


if __name__ == "__main__":
    os.environ.setdefault("PXR_WORK_THREAD_LIMIT", "1")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path = [entry for entry in sys.path if Path(entry) != Path(__file__).parent]
    for library in LIBRARIES:
        if find_spec(library.partition(".")[0]) is not None:
            import_module(library)
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])

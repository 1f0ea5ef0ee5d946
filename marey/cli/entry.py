"""Entry point of the command: arguments, exit code, user errors in one line.

Exit codes: 0 done; 1 an input cannot be read, the work failed, or a check does not hold; 2 wrong usage, or an output
that cannot be written, found before any work; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

DONE, FAILED, WRONG_USAGE, STOPPED = 0, 1, 2, 130
ANYWHERE = ("--debug", "--quiet", "--verbose")  # may stand before or behind the verb


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; ``--debug``, anywhere, shows tracebacks."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    switches = {switch for switch in ANYWHERE if switch in given}
    started = time.perf_counter()
    from marey.cli.app import build_command
    from marey.cli.common import LOG, TRACEBACK, describe_error, round_numbers, warn
    from marey.cli.compile_ahead import compile_ahead

    # The log of marey goes to stderr: warnings alone, remarks too, times as well, tracebacks at last
    levels = {"--debug": TRACEBACK, "--quiet": logging.WARNING, "--verbose": logging.DEBUG}
    LOG.setLevel(min((levels[switch] for switch in switches), default=logging.INFO))
    try:
        with warnings.catch_warnings():
            # Warnings of the library read like those of the command; the class is not imported for `--help`
            show = warnings.showwarning

            def show_warning(message: Any, category: type[Warning], *rest: Any) -> None:
                if category.__name__ == "MareyWarning":
                    warn(str(message))
                else:
                    show(message, category, *rest)

            warnings.showwarning = show_warning
            words = [a for a in given if a not in ANYWHERE]
            verb = next((word for word in words if not word.startswith("-")), "")
            compile_ahead(verb)
            code = build_command(verb)(args=words, prog_name="marey", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = STOPPED
    except BrokenPipeError:  # the reader of our output has gone, as in `marey ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FAILED
    except Exception as error:
        if "--debug" in switches:
            traceback.print_exc()
        usage = getattr(error, "format_message", None)  # typer's errors; their classes moved between versions
        if type(error).__name__ == "Abort":
            code = STOPPED
        elif callable(usage):
            # An error of usage ends in the help that explains it
            sentence = round_numbers(str(usage())).rstrip(".")
            path = str(getattr(getattr(error, "ctx", None), "command_path", "marey"))
            stop = "" if sentence.endswith("?") else "."
            print(f"marey: {sentence}{stop} Try: {path} --help", file=sys.stderr)
            return int(getattr(error, "exit_code", WRONG_USAGE))
        else:
            print(f"marey: {describe_error(error)}", file=sys.stderr)
            return FAILED
    if code == STOPPED:  # newer versions of typer turn Ctrl-C into this code themselves
        print("marey: stopped", file=sys.stderr)
    LOG.debug("%.2f s in all", time.perf_counter() - started)
    return code if isinstance(code, int) else DONE

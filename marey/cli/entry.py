"""Entry point of the command: arguments, exit code, user errors in one line.

Exit codes: 0 done, 1 the work failed, 2 wrong usage, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

DONE, FAILED, WRONG_USAGE, STOPPED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; ``--debug``, anywhere, shows tracebacks."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    is_debug = "--debug" in given
    from marey.cli.app import app

    try:
        code = app(args=[a for a in given if a != "--debug"], prog_name="marey", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = STOPPED
    except BrokenPipeError:  # the reader of our output has gone, as in `marey ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FAILED
    except Exception as error:
        if is_debug:
            traceback.print_exc()
        # Say in one line what went wrong
        usage = getattr(error, "format_message", None)  # typer's errors; their classes moved between versions
        if callable(usage):
            sentence = _one_line(str(usage())).rstrip(".")
            print(f"marey: {sentence}. Try: marey {_failed_verb(error)}--help", file=sys.stderr)
            return int(getattr(error, "exit_code", WRONG_USAGE))
        if type(error).__name__ == "Abort":
            print("marey: stopped", file=sys.stderr)
            return STOPPED
        print(f"marey: {_one_line(_error_sentence(error))}", file=sys.stderr)
        return FAILED
    if code == STOPPED:  # newer versions of typer turn Ctrl-C into this code themselves
        print("marey: stopped", file=sys.stderr)
    return code if isinstance(code, int) else DONE


def _error_sentence(error: Exception) -> str:
    from marey.base import MareyError

    if isinstance(error, MareyError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
    return f"unexpected {type(error).__name__}: {error} (run again with --debug, and report it)"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _failed_verb(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    path = str(getattr(context, "command_path", "marey"))
    return " ".join(path.split()[1:]) + " " if " " in path else ""

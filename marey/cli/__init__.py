"""The command `marey`: one verb a public function."""

from marey.cli._main import main

__all__ = ["main"]

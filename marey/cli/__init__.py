"""The command `marey`: one verb a public function."""

from marey.cli.entry import main

__all__ = ["main"]

"""``python -m marey`` is the same as ``marey``."""

from marey.cli import main

raise SystemExit(main())

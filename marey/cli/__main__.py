"""``python -m marey.cli`` is the command `marey`."""

import sys

from marey.cli._main import main

sys.exit(main())

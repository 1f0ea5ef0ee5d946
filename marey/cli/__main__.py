"""``python -m marey.cli`` is the command `marey`."""

import sys

from marey.cli.entry import main

sys.exit(main())

"""State of one page and of its modes, free of any browser type."""

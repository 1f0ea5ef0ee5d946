"""The document: a plain tree, typed commands, journal, store of clips."""

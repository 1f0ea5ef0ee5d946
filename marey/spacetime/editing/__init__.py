"""Editing of clips by pins and key poses, and problems solved with styles."""

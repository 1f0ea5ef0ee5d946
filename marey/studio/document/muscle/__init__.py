"""The soft bodies of one page: scenes, films, goals of a hand."""

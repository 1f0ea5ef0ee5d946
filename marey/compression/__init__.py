"""Motion codecs."""

from marey.compression._codec import compress, decompress

__all__ = ["compress", "decompress"]

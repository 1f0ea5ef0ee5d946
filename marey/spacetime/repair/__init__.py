"""Repair of clips that no body could make: the smallest displacement that physics allows."""

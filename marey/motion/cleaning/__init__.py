"""Defects of captured clips, found and mended one kind at a time: gaps, exchanged limbs, spikes, jumps, tremor."""

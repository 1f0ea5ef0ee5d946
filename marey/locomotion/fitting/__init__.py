"""Training of locomotion models from captured clips, and measures of their quality."""

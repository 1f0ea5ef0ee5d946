"""What holds a figure: ground, joint limits, pins, balls, gathered for one step."""

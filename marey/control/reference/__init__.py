"""What a clip asks of a simulated figure, step by step."""

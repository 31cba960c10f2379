"""Studies of the paper's synthetic world: its figures, and variations of its setting."""

"""What the model sees in a run besides the memory block: the history of its session."""

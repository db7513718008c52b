"""Learning from conversations: after a run, a model reads what was said, and what passes the guards becomes facts."""

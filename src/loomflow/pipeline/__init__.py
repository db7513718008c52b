"""The stages from question to block, as pure functions on frozen values: recall, rank, pack, render."""

"""Where memories are kept: the rules in `base`, the rows in one module for each backend."""

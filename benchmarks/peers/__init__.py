"""What other libraries for agent memory recall from the same conversations, each run in an environment of its own.

`environments.py` makes the environments and runs a peer; it is the only module here for this project's own
interpreter. `peer_*.py` are started by an environment's interpreter, and use the standard library, the peer and the
other modules of this folder.
"""

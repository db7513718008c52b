"""Who is at a run in the queue: claims name their process, so that those of a dead one need not be waited for."""

from __future__ import annotations

import os
import platform
import uuid


def new_claim() -> str:
    """A claim of this process."""
    return f"{platform.node()}|{os.getpid()}|{uuid.uuid4().hex}"


def is_dead(claim: str) -> bool:
    """Whether a claim was made by a process of this machine that is no more.

    One of another machine cannot be told, and counts until its time is over.
    """
    node, _, rest = claim.partition("|")
    number = rest.partition("|")[0]
    if node != platform.node() or not number.isdecimal() or os.name != "posix":
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OverflowError, PermissionError):
        return False
    return False

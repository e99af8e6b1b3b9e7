"""The shared memory behind a phase ring: it has no name, so there is nothing to clean up."""

import os

from orin_gov._phases import RING_BYTES


def make_ring() -> int:
    """Return a descriptor of fresh shared memory for a phase ring, which will seal its size."""
    ring = os.memfd_create("orin_gov-phases", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(ring, RING_BYTES)
    return ring


def meter_of(ring: int) -> str:
    """Return the abstract socket at which the supervisor that holds this ring is asked for energy."""
    return f"\0orin_gov meter {os.fstat(ring).st_ino}"

"""This process as a governed one: the ring it writes to, and the hooks that wait for torch."""

import logging
import os

from orin_gov._phases import PhaseRing
from orin_gov.workload.imports import when_imported
from orin_gov.workload.marker import Marker
from orin_gov.workload.ring import meter_of

logger = logging.getLogger(__name__)

_marker: Marker | None = None
_hooked: list[Marker] = []
_meter: str | None = None


def attach(descriptor: int) -> Marker:
    """Write this process's phases to the ring behind `descriptor`, which is closed.

    The hooks go in when, and only if, torch is imported; once in, they serve every later ring.
    """
    global _marker, _meter
    ring = PhaseRing(descriptor)
    _meter = meter_of(descriptor)
    os.close(descriptor)
    if not _hooked:
        _hooked.append(Marker())
        os.register_at_fork(after_in_child=_hooked[0].leave_to_parent)
        when_imported("torch", _install)
    _marker = _hooked[0]
    _marker.use(ring)
    return _marker


def detach() -> None:
    """Stop marking; the hooks stay in and do nothing."""
    global _marker
    if _marker is not None:
        _marker.use(None)
        _marker = None


def current_marker() -> Marker | None:
    """Return the marker of this process where it is governed already, else None."""
    return _marker


def meter_address() -> str | None:
    """Return where this process's supervisor is asked for energy, or None if it is not governed."""
    return _meter if _marker is not None else None


def _install() -> None:
    try:
        from orin_gov.workload.hooks import install_hooks

        install_hooks(_hooked[0])
    except (ImportError, AttributeError) as error:
        # A torch without what we hook; its user must still be able to train.
        logger.warning("orin-gov: this torch cannot be hooked, steps are not seen: %s", error)

"""The card of a policy against the board it is to govern: module family, top clock, power mode."""

from collections.abc import Mapping
from typing import Any

SAME_CLOCK = 0.01
"""Tables of one module differ by less than this at the top."""

OTHER_BOARD = 2.0
"""By how much a policy that was fitted for another board's state is trusted less."""


def differences(
    card: Mapping[str, Any], module: str | None, top_hz: int | None, power_mode: str | None
) -> list[str]:
    """Return in words what the card says of its board and this board is not.

    What either does not tell is not compared; `module` is a part number or its first half.
    """
    found = []
    fitted, family = card.get("module"), None if module is None else module.partition("-")[0]
    if isinstance(fitted, str) and family and fitted.partition("-")[0] != family:
        found.append(f"for the module {fitted}, this is a {family}")
    table_hz = card.get("table_hz")
    tops = [hz for hz in table_hz if _is_clock(hz)] if isinstance(table_hz, list) else []
    if tops and top_hz and abs(max(tops) / top_hz - 1) > SAME_CLOCK:
        found.append(f"for clocks up to {max(tops) / 1e6:.0f} MHz, here {top_hz / 1e6:.0f} MHz")
    mode = card.get("power_mode")
    if isinstance(mode, str) and power_mode and mode.casefold() != power_mode.casefold():
        found.append(f"in power mode {mode}, the board is in {power_mode}")
    return found


def _is_clock(hz: object) -> bool:
    return isinstance(hz, int | float) and not isinstance(hz, bool) and 0 < hz < 1e12

"""Times and energies as they are typed: 2h30m, 90m, 5400, 18:30; 50 or 50Wh."""

import math
import re
from datetime import datetime, time, timedelta

from orin_gov.errors import UsageError
from orin_gov.policy.plan import JOULES_PER_WH

NUMBER = r"(\d+(?:\.\d+)?)"
SPAN = re.compile(f"(?:{NUMBER}h)?(?:{NUMBER}m(?:in)?)?(?:{NUMBER}s?)?")
SECONDS = (3600.0, 60.0, 1.0)


def parse_deadline(text: str, now: datetime) -> float:
    """Return in how many seconds from `now` (local time) the deadline is that `text` names.

    A span as in 2h30m, 90m, 45s or 5400; a time of day, its next one; or a moment in ISO 8601.

    Raises:
        UsageError: it is none of them, or has passed.
    """
    words = text.strip().replace(" ", "")
    found = SPAN.fullmatch(words)
    if found and words:
        seconds = sum(
            float(part) * unit for part, unit in zip(found.groups(), SECONDS, strict=True) if part
        )
    else:
        seconds = _moment(text.strip(), now).timestamp() - now.timestamp()
    if not 0 < seconds < math.inf:
        raise UsageError(f"--deadline is {text!r}, expected a time to come")
    return seconds


def _moment(text: str, now: datetime) -> datetime:
    try:
        today = datetime.combine(now.date(), time.fromisoformat(text))
        return today if today > now else today + timedelta(days=1)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--deadline is {text!r}, expected a span as in 2h30m, 90m or 5400, "
            "a time as in 18:30, or one in ISO 8601 as in 2030-01-31T18:30"
        ) from None


def parse_watt_hours(text: str) -> float:
    """Return the joules of `50` or `50Wh`.

    Raises:
        UsageError: it is no number of watt-hours.
    """
    try:
        return float(text.removesuffix("Wh")) * JOULES_PER_WH
    except ValueError:
        raise UsageError(
            f"--energy-budget is {text!r}, expected watt-hours as in 50 or 50Wh"
        ) from None

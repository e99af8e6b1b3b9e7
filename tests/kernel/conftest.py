"""Tests on the rig's real kernel; elsewhere there is nothing to collect. See README.md."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import PARAMETERS, at_rest

if not PARAMETERS.exists():
    collect_ignore_glob = ["test_*.py"]
else:
    # The journal's folder stays once it is made, as any program's in /run.
    Path("/run/orin_gov").mkdir(mode=0o700, exist_ok=True)


@pytest.fixture(autouse=True)
def _rig() -> Iterator[None]:
    at_rest()
    yield
    at_rest()

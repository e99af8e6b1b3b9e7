"""A policy's card against the board."""

import pytest

from orin_gov.deciding import load_policy
from orin_gov.policy.card import differences

CARD = {"module": "p3701", "table_hz": [306_000_000, 1_300_500_000], "power_mode": "MAXN"}
TOP = 1_300_500_000


def test_a_card_that_matches_has_nothing_to_say() -> None:
    assert differences(CARD, "p3701-0005", TOP, "MAXN") == []
    assert differences(CARD, "p3701", TOP - 500_000, "maxn") == []


@pytest.mark.parametrize(
    ("module", "top_hz", "mode", "told"),
    [
        ("p3767-0003", TOP, "MAXN", "for the module p3701, this is a p3767"),
        ("p3701-0004", 930_750_000, "MAXN", "for clocks up to 1300 MHz, here 931 MHz"),
        ("p3701-0005", TOP, "MODE_30W", "in power mode MAXN, the board is in MODE_30W"),
    ],
)
def test_what_differs_is_told(module: str, top_hz: int, mode: str, told: str) -> None:
    assert differences(CARD, module, top_hz, mode) == [told]


@pytest.mark.parametrize(
    "card", [{}, {"module": 3, "table_hz": "all", "power_mode": None}, {"table_hz": [True, "x"]}]
)
def test_what_a_card_does_not_tell_is_not_compared(card: dict[str, object]) -> None:
    assert differences(card, "p3701", TOP, "MAXN") == []
    assert differences(CARD, None, None, None) == []


def test_the_policy_that_ships_tells_its_board_and_day() -> None:
    card = load_policy(None).card
    assert differences(card, "p3701-0005", TOP, "MAXN") == []
    assert len(differences(card, "p3767-0000", 918_000_000, "15W")) == 3
    assert card["date"]


def test_a_doubted_policy_expects_the_same_and_is_less_sure() -> None:
    policy = load_policy(None)
    assert policy.doubted(2.0).rest == 2 * policy.rest
    assert (policy.doubted(2.0).deviations == 2 * policy.deviations).all()
    assert policy.doubted(2.0).nodes == policy.nodes

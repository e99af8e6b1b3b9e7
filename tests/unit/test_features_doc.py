"""docs/features.md has the table of features as the code has it."""

from pathlib import Path

from orin_gov.policy.features import FEATURES, feature_table

PAGE = Path(__file__).parents[2] / "docs/features.md"
BEGIN, END = "<!-- features -->\n", "<!-- /features -->\n"


def test_the_page_has_the_table_of_the_code() -> None:
    told = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert told == feature_table(), "put feature_table() between the page's two marks"


def test_every_feature_has_a_unit_and_one_line_of_meaning() -> None:
    for name, feature in FEATURES.items():
        assert feature.unit, name
        assert 0 < len(feature.meaning) <= 100, name
        assert "\n" not in feature.meaning, name

"""The report: one page that stands alone, looked at in a real browser, and quick for a day's run."""

import json
import re
import resource
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from conftest import Run
from runs import write_day, write_run

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FIGURES = ("power", "steps", "clocks", "time-at-clock")


class Page(HTMLParser):
    """What a page shows and refers to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags = ["html"]
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for key, value in attrs:
            if key == "id":
                self.ids.append(value or "")
            if key in ("href", "src", "xlink:href"):
                self.links.append(value or "")

    def handle_data(self, data: str) -> None:
        if self.tags[-1] != "style":
            self.text += data


def report(orin_gov: Run, *words: object) -> Page:
    done = orin_gov("report", *words)
    assert done.returncode == 0, done.stderr
    file = Path(re.findall(r"wrote (\S+)", done.stdout)[0])
    return Page(file.read_text(encoding="utf-8"))


def test_the_page_tells_the_run_and_refers_to_nothing_outside(
    orin_gov: Run, tmp_path: Path
) -> None:
    run = write_run(tmp_path / "run")
    page = report(orin_gov, run, "-o", tmp_path / "page.html")
    assert all(link.startswith("#") for link in page.links)
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert len(page.ids) == len(set(page.ids))
    assert set(FIGURES) <= set(page.ids)
    for told in (
        "-12.3%",
        "95 %: -15.0% to -9.0%",
        "budget +10%",
        "The board was virtual (agx-orin-64gb)",
        "a warning & its <reason>",
        "clock_share 0.95 > 0.88 → load 0.66 <= 0.71",
        "expects -10.0% energy, +4.0% time",
        "VDD_GPU_SOC + VDD_CPU_CV + VIN_SYS_5V0",
        "MHz",
    ):
        assert told in page.text, told


def test_figures_are_written_as_png_and_svg(orin_gov: Run, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    done = orin_gov("report", run, "--figures", tmp_path / "figures", "--json")
    told = json.loads(done.stdout)
    assert told["report"] == str(run / "report.html")
    assert told["notes"] == {str(run): []}
    files = {Path(file).name for file in told["figures"]}
    assert files == {f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg")}
    for file in told["figures"]:
        content = Path(file).read_bytes()
        assert content.startswith(b"\x89PNG") or b"<svg" in content[:600]


def test_several_runs_and_a_characterization_stand_side_by_side(
    orin_gov: Run, tmp_path: Path
) -> None:
    first, second = write_run(tmp_path / "a"), write_run(tmp_path / "b", name="other.py")
    words = ("--workload", "bert-tiny/sst2", "--freqs", "306,1122", "--repeats", 2, "-o", "sweep")
    orin_gov("characterize", "--board", "virtual:agx-orin-64gb", *words)
    page = report(orin_gov, first, second, tmp_path / "sweep", "-o", tmp_path / "page.html")
    assert "Side by side" in page.text
    assert {"comparison", "1-power", "2-power", "3-curves"} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert page.text.count("-12.3% (95 %: -15.0% to -9.0%)") == 2
    assert "least energy at" in page.text


def test_a_run_that_lacks_much_is_shown_as_far_as_it_goes(orin_gov: Run, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", ended=False)
    for name in ("manifest.json", "samples.arrows", "decisions.jsonl"):
        (run / name).unlink()
    done = orin_gov("report", run)
    assert done.returncode == 0, done.stderr
    assert f"{run}: manifest.json is missing" in done.stdout
    page = Page((run / "report.html").read_text())
    assert "samples.arrows is missing" in page.text
    assert "steps" in page.ids
    assert "power" in page.ids  # the phases alone


def test_what_is_no_run_is_an_error_of_one_line(orin_gov: Run, tmp_path: Path) -> None:
    done = orin_gov("report", tmp_path)
    assert done.returncode == 125
    assert "is no run directory: it has none of" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_report_of_a_days_run_is_quick_and_small(orin_gov: Run, tmp_path: Path) -> None:
    run = write_day(tmp_path / "day")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = orin_gov("report", run, "--json")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    # What it may take on the clock, as time of the processor: others may be using this machine.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 20.0
    page = (run / "report.html").read_text()
    assert len(page) < 3_000_000
    assert "more here; orin-gov export has them all" in page or page.count("<tr") < 400


@pytest.fixture
def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    return found


def test_a_browser_shows_the_page_offline(browser: str, orin_gov: Run, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    assert orin_gov("report", run).returncode == 0
    page, picture, paper = run / "report.html", tmp_path / "page.png", tmp_path / "page.pdf"
    headless = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={tmp_path / 'profile'}",
        # Nothing resolves and nothing answers: what is shown is in the page.
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ]
    for words in (
        ("--window-size=1000,2600", f"--screenshot={picture}"),
        (f"--print-to-pdf={paper}",),
    ):
        subprocess.run(
            [*headless, *words, page.as_uri()], check=True, capture_output=True, timeout=90
        )
    assert paper.read_bytes().startswith(b"%PDF")
    image = pytest.importorskip("matplotlib.image").imread(str(picture))
    assert image.shape[:2] == (2600, 1000)
    # Paper, the bars of a figure and the edge of a remark: boxes and figures were drawn.
    for colour in ((255, 255, 255), (0, 114, 178), (230, 159, 0)):
        off = np.abs(np.round(image[..., :3] * 255) - colour).max(axis=-1)
        assert (off <= 4).sum() > 100, colour

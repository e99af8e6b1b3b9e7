"""Others write the same files: their caps are kept, and who writes against us may have the board."""

from pathlib import Path

from governed import AT_REST, SLOWLY, governed
from trees import (
    AGX_CLOCKS,
    eventually,
    following,
    gpu_folder,
    is_pinned,
    limits,
)


def test_a_clock_that_does_not_follow_makes_us_give_the_board_back(job: Path, root: Path) -> None:
    gpu = gpu_folder(root)
    with governed(job, "--root", root, *SLOWLY) as run:
        assert eventually(lambda: is_pinned(gpu))
        # One clock that does not come is closed; at a second one the board is left to itself.
        assert eventually(lambda: "-> fallback" in run.told, within_s=40)
        assert limits(gpu) == AT_REST
        assert run.ends() == 7
    assert "but the clock stays at 306 MHz; planned anew" in run.told
    assert "but the clock stays at 306 MHz; the board governs itself from here on" in run.told


def test_a_foreign_cap_is_adopted_planned_anew_within_and_kept(job: Path, root: Path) -> None:
    gpu = gpu_folder(root)
    foreign = AGX_CLOCKS[3]
    with following(gpu), governed(job, "--root", root) as run:
        assert eventually(lambda: is_pinned(gpu))
        (gpu / "max_freq").write_text(str(foreign))
        assert eventually(lambda: limits(gpu) == (AT_REST[0], str(foreign)))
        # A cap that moves at run time closes points without a restart: what is asked for from now
        # on lies under it, or is the board's own governor, where none of them is better.
        seen = len(run.told.splitlines())
        assert eventually(lambda: len(run.told.splitlines()) > seen + 2)
        assert int(limits(gpu)[1]) <= foreign
        assert run.ends() == 7
    assert "another writer set" in run.told
    assert "planned anew within 306-612 MHz" in run.told
    assert limits(gpu) == (AT_REST[0], str(foreign))


def test_a_writer_that_writes_against_us_may_have_the_board(job: Path, root: Path) -> None:
    gpu = gpu_folder(root)
    with following(gpu), governed(job, "--root", root) as run:
        for _ in range(4):
            assert eventually(lambda: is_pinned(gpu))
            (gpu / "max_freq").write_text(AT_REST[1])
            (gpu / "min_freq").write_text(AT_REST[0])
            assert eventually(lambda: limits(gpu) == AT_REST and not is_pinned(gpu))
        assert eventually(lambda: "-> fallback" in run.told)
        assert run.ends() == 7
    assert "again and again; the board governs itself from here on" in run.told
    assert limits(gpu) == AT_REST


def test_a_second_governor_is_refused_and_the_first_runs_on(
    job: Path, root: Path, orin_gov
) -> None:
    with following(gpu_folder(root)), governed(job, "--root", root) as run:
        for words in (
            ["run", "--root", root, "--output", "second", "--", "touch", "ran"],
            ["run", "--strict", "--root", root, "--output", "second", "--", "touch", "ran"],
        ):
            done = orin_gov(*words)
            assert done.returncode == 125
            assert done.stderr.splitlines() == [
                "orin-gov error: another orin-gov governs 17000000.gpu; wait for it or stop it"
            ]
        # One that writes nothing may watch.
        done = orin_gov("run", "--root", root, "--dry-run", "--output", "third", "--", "true")
        assert done.returncode == 0, done.stderr
        assert run.ends() == 7
    assert not (job.parent / "ran").exists()
    assert not (job.parent / "second").exists()

"""`python tests/fuzz TARGET [SECONDS]`: feed a target with inputs that atheris finds, from seeds.

What breaks it is left in a file crash-... here; `python tests/fuzz TARGET FILE` plays it again.
"""

import os
import sys
import tempfile
from pathlib import Path

import atheris

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

with atheris.instrument_imports(include=["orin_gov"]):
    import targets


def main() -> None:
    """Fuzz one target for so long, or play one input."""
    name, what = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "60"
    target = targets.TARGETS[name]
    if not what.isdigit():
        target(Path(what).read_bytes())
        return
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=targets.MEMORY) as folder:
        targets.MEMORY = folder
        if (child := os.fork()) == 0:  # libFuzzer ends its process without a word to Python
            fuzz(name, what, Path(folder) / "corpus")
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.exit(code)


def fuzz(name: str, seconds: str, corpus: Path) -> None:
    """Fuzz a target for so long; does not return."""
    corpus.mkdir()
    for number, seed in enumerate(targets.seeds(name)):
        (corpus / str(number)).write_bytes(seed)
    words = [f"-max_total_time={seconds}", "-max_len=20000", "-timeout=20", "-rss_limit_mb=2048"]
    stats = ["-verbosity=0", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *words, *stats, str(corpus)], targets.TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()

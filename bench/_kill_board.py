"""The board of a run that is killed: its files as they were, and what has become of them."""

from pathlib import Path

from orin_gov.virtual.plant import load_board
from orin_gov.virtual.tree import build_tree, chip_directory, devfreq_directory
from orin_gov.virtual.watch import Watch

BOARD = "agx-orin-64gb"
SLOW_SAMPLES = 512
FOREIGN_HZ = 1_122_000_000
"""Another writer's cap, which the decider never chooses."""

CHANGING = ("cur_freq", "target_freq", "load", "temp", ".truth", ".new", "_input")
"""Ends of the names of files that change by themselves; every other must be as before."""

OURS = ("min_freq", "max_freq", "samples")


class KillBoard:
    """A virtual board's files under `root`, and a watch on those that a run changes."""

    def __init__(self, root: Path) -> None:
        board = load_board(BOARD)
        self.root = root
        root.mkdir()
        build_tree(board, root)
        for chip in {rail.chip for rail in board.rails}:
            (chip_directory(chip, root) / "samples").write_text(f"{SLOW_SAMPLES}\n")
        folder = devfreq_directory(board, root)
        self._max, self._min = folder / "max_freq", folder / "min_freq"
        self._journals = root / "run/orin_gov"
        self._journals.mkdir(mode=0o700)
        self._expected = self._lasting()
        sensors = sorted(root.glob("sys/class/hwmon/*/samples"))
        self._watch = Watch([self._max, self._min, *sensors, self._journals])
        self.wakes = 0

    def look(self, deadline_s: float) -> str | None:
        """Wait for a write or the moment, and count the write; return what limits cross."""
        _, written = self._watch.wait(round(deadline_s * 1e9))
        self.wakes += written
        texts = [path.read_bytes() for path in (self._max, self._min, self._max)]
        if all(text.strip().isdigit() for text in texts) and texts[0] == texts[2]:
            max_hz, min_hz = int(texts[0]), int(texts[1])
            if min_hz > max_hz != FOREIGN_HZ:  # another writer's cap may cut what we have set
                return f"min_freq {min_hz} over max_freq {max_hz}"
        return None

    def can_be_capped(self) -> bool:
        """Whether the floor lies below another's cap: else the board resolves it, not we."""
        return int(self._min.read_bytes().strip() or b"0") <= FOREIGN_HZ

    def cap(self) -> None:
        """Cap the GPU as another writer, which is what must be found at the end."""
        self._expected[self._max] = b"%d\n" % FOREIGN_HZ
        self._max.write_bytes(self._expected[self._max])

    def is_as_before(self) -> bool:
        """Whether the files that a run changes are as before, and no journal is left."""
        expected = {path: text for path, text in self._expected.items() if path.name in OURS}
        return not any(self._journals.iterdir()) and expected == {
            path: path.read_bytes() for path in expected
        }

    def differences(self) -> list[str]:
        """Return every file that is not, bit for bit, as it was."""
        now = self._lasting()
        return [
            f"{path.relative_to(self.root)} was {self._expected.get(path)!r}, now {now.get(path)!r}"
            for path in sorted({*self._expected, *now})
            if self._expected.get(path) != now.get(path)
        ]

    def close(self) -> None:
        """Watch no more."""
        self._watch.close()

    def _lasting(self) -> dict[Path, bytes]:
        return {
            path: path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file() and not path.is_symlink() and not path.name.endswith(CHANGING)
        }

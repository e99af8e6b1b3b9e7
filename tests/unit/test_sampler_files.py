"""The sampler on files that are missing, wrong, unbound or renamed."""

import errno
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sampled import make_rail, running, sweep_on, write
from trees import eventually


def test_a_missing_file_is_counted_not_zero_and_found_when_it_appears(tmp_path: Path) -> None:
    good = make_rail(tmp_path, "good")
    late = (str(tmp_path / "late_mv"), str(tmp_path / "late_ma"))
    with running([good, late]) as sampler:
        sweep_on(sampler, 10)
        absent = sampler.quality()[1]
        make_rail(tmp_path, "late", 12000, 500)
        assert eventually(lambda: sampler.quality()[1].reads > 0)
    assert absent.reads == 0
    assert absent.errors > 0
    assert absent.last_errno == errno.ENOENT
    samples = sampler.drain()
    assert np.isnan(samples.power_w[: absent.errors, 1]).all()
    assert samples.power_w[-1] == pytest.approx([5.0, 6.0])
    assert sampler.quality()[0].errors == 0, "the other rail did not suffer"


def test_one_file_of_two_is_no_reading(tmp_path: Path) -> None:
    voltage, current = make_rail(tmp_path)
    os.unlink(current)
    with running([(voltage, current), (current, voltage)]) as sampler:
        sweep_on(sampler, 10)
    assert np.isnan(sampler.drain().power_w).all()
    assert [q.last_errno for q in sampler.quality()] == [errno.ENOENT] * 2


@pytest.mark.parametrize(
    ("path", "expected"),
    [("folder", errno.EISDIR), ("rail_mv/deeper", errno.ENOTDIR), ("loop", errno.ELOOP)],
)
def test_the_errno_of_a_failure_is_kept(tmp_path: Path, path: str, expected: int) -> None:
    voltage, _ = make_rail(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with running([(voltage, str(tmp_path / path))]) as sampler:
        sweep_on(sampler)
    quality = sampler.quality()[0]
    assert (quality.reads, quality.last_errno) == (0, expected)
    assert quality.errors == sampler.sweeps


def expected_outcome(content: bytes) -> int | None:
    """The integer that a kernel attribute of this content holds, or None."""
    if len(content) >= 64 or not re.fullmatch(rb"-?[0-9]+[ \t\n]*", content):
        return None
    value = int(content)
    return value if -(2**63) <= value < 2**63 else None


CONTENT = st.one_of(
    st.binary(max_size=70),
    st.from_regex(re.compile(rb"-?[0-9]{1,22}[ \t\n]{0,3}", re.DOTALL), fullmatch=True),
    st.integers(-(2**64), 2**64).map(lambda value: b"%d\n" % value),
    st.text("-+0123456789 \t\n.ex", max_size=24).map(str.encode),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.lists(CONTENT, min_size=1, max_size=20))
@example([b"%d\n" % value for value in (-(2**63) - 1, -(2**63), 2**63 - 1, 2**63)])
@example([b"", b"\n", b"-", b"-\n", b" 1", b"1 2", b"+1", b"--1", b"1\0", b"0x10", b"1 mA\n"])
@example([b"0" * 62 + b"1", b"0" * 63 + b"1", b"9" * 63, b"9" * 64, b"1" + b" " * 70, b"-0"])
def test_content_is_parsed_strictly(tmp_path: Path, contents: list[bytes]) -> None:
    thousand = tmp_path / "thousand"
    write(thousand, b"1000\n")
    rails = []
    for i, content in enumerate(contents):
        write(tmp_path / str(i), content)
        # Both files of a rail are parsed alike.
        rails += [(str(thousand), str(tmp_path / str(i))), (str(tmp_path / str(i)), str(thousand))]
    with running(rails) as sampler:
        assert eventually(lambda: sampler.sweeps > 0)
    values = [expected_outcome(content) for content in contents for _ in range(2)]
    power_w = [math.nan if v is None else float(v) * 1000.0 * 1e-6 for v in values]
    np.testing.assert_allclose(sampler.drain().power_w[0], power_w, rtol=1e-12)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", errno.ENODATA),
        (b"n/a\n", errno.EINVAL),
        (b"\n", errno.EINVAL),
        (b"12 mA\n", errno.EINVAL),
        (b"9223372036854775808\n", errno.ERANGE),
        (b"-9223372036854775809\n", errno.ERANGE),
        (b"9" * 100, errno.ERANGE),
        (b"9" * 30 + b"x", errno.EINVAL),
        (b"1" + b" " * 100, errno.EINVAL),
    ],
)
def test_bad_content_has_an_errno(tmp_path: Path, content: bytes, expected: int) -> None:
    voltage, current = make_rail(tmp_path)
    write(Path(current), content)
    with running([(voltage, current)]) as sampler:
        sweep_on(sampler)
    assert sampler.quality()[0].last_errno == expected


# A preloaded pread that fails with ENODEV while a file named by GONE exists, as the descriptors
# of an unbound driver do.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>
typedef ssize_t (*reader)(int, void *, size_t, off_t);
static ssize_t unless_gone(const char *name, int fd, void *to, size_t size, off_t offset) {
    if (access(getenv("GONE"), F_OK) == 0) { errno = ENODEV; return -1; }
    return ((reader)dlsym(RTLD_NEXT, name))(fd, to, size, offset);
}
ssize_t pread(int fd, void *to, size_t size, off_t offset) {
    return unless_gone("pread", fd, to, size, offset);
}
ssize_t pread64(int fd, void *to, size_t size, off_t offset) {
    return unless_gone("pread64", fd, to, size, offset);
}
"""
REBIND = """
import os, sys, time
from orin_gov._sampler import Sampler
folder = sys.argv[1]
sampler = Sampler([(folder + "/rail_mv", folder + "/rail_ma")], 1_000_000, 10**10)
def wait_for(condition):
    deadline = time.monotonic() + 20.0
    while not condition(): assert time.monotonic() < deadline; time.sleep(0.001)
sampler.start()
wait_for(lambda: sampler.quality()[0].reads > 0)
open(os.environ["GONE"], "w").close()
wait_for(lambda: sampler.quality()[0].errors > 0)
print(sampler.quality()[0].last_errno)
for name, value in (("mv", "12000"), ("ma", "500")):
    with open(f"{folder}/new", "w") as file: file.write(value)
    os.replace(f"{folder}/new", f"{folder}/rail_{name}")
os.unlink(os.environ["GONE"])
wait_for(lambda: 6.0 in sampler.drain().power_w[:, 0])
assert sampler.stop()
open_files = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
print(sum("rail" in path for path in open_files))
"""


CC = shlex.split(os.environ.get("CC", "cc"))


@pytest.mark.skipif(shutil.which(CC[0]) is None, reason="needs a C compiler")
def test_an_unbound_driver_is_opened_anew(tmp_path: Path) -> None:
    make_rail(tmp_path)
    (tmp_path / "shim.c").write_text(SHIM)
    shim = tmp_path / "shim.so"
    build = [*CC, "-shared", "-fPIC", "-o", str(shim), str(tmp_path / "shim.c"), "-ldl"]
    subprocess.run(build, check=True)
    result = subprocess.run(
        [sys.executable, "-c", REBIND, str(tmp_path)],
        env=os.environ | {"LD_PRELOAD": str(shim), "GONE": str(tmp_path / "gone")},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert result.stdout.split() == [str(errno.ENODEV), "0"], result.stderr


def test_a_chip_that_comes_back_under_another_number_is_found_by_pattern(tmp_path: Path) -> None:
    chip = tmp_path / "1-0040"
    pattern = (str(chip / "hwmon*/rail_mv"), str(chip / "hwmon*/rail_ma"))
    with running([pattern]) as sampler:
        sweep_on(sampler, 5)
        assert sampler.quality()[0].last_errno == errno.ENOENT
        (chip / "hwmon3").mkdir(parents=True)
        make_rail(chip / "hwmon3", voltage_mv=12000, current_ma=500)
        assert eventually(lambda: sampler.quality()[0].reads > 0)
    (chip / "hwmon3").rename(chip / "hwmon11")
    with running([pattern]) as sampler:
        assert eventually(lambda: sampler.quality()[0].reads > 0)
    assert sampler.drain().power_w[-1, 0] == pytest.approx(6.0)


def test_a_name_that_holds_a_star_is_a_name_first(tmp_path: Path) -> None:
    make_rail(tmp_path, "a", current_ma=2000)
    with running([make_rail(tmp_path, "*", current_ma=500)]) as sampler:
        sweep_on(sampler)
    assert sampler.drain().power_w[0, 0] == pytest.approx(2.5)

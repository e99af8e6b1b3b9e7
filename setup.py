"""The extension list and its compiler directives; everything else is in pyproject.toml."""

import os

from Cython.Build import cythonize
from setuptools import Extension, setup

# ORIN_GOV_CHECKS=1 turns Cython's bounds and other run-time checks back on, for tests.
CHECKS = os.environ.get("ORIN_GOV_CHECKS", "") not in ("", "0")

DIRECTIVES = {
    "language_level": 3,
    "freethreading_compatible": True,
    "embedsignature": True,
    "boundscheck": CHECKS,
    "wraparound": CHECKS,
    "initializedcheck": CHECKS,
    "cdivision": not CHECKS,
}

MODULES = ("sampler", "actuator", "phases")

setup(
    ext_modules=cythonize(
        [Extension(f"orin_gov._{name}", [f"ext/{name}.pyx"]) for name in MODULES],
        compiler_directives=DIRECTIVES,
        build_dir="build/cython",
    )
)

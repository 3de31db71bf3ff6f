# Every target installs its own dependencies. `make` alone lists the targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
BASE   := $(VENV)/.base#  adjudge itself, compiled, and its dependencies
READY  := $(VENV)/.ready# and its development dependencies
export PIP_DISABLE_PIP_VERSION_CHECK = 1
unexport PYTHONDONTWRITEBYTECODE # or each of the hundreds of processes of the tests compiles every file again
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell getconf _NPROCESSORS_ONLN)

# Installs a Debian package if that is allowed; otherwise says what to install.
# ("no" if neither is possible: the caller decides whether that matters.)
apt = { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(1) >/dev/null; } || { echo "please install $(1), then run make again"; false; }

# Without pip's remarks on package locations; the import below checks that the install worked.
quietly = 2>&1 | grep -v '^WARNING: Location' || true

.DEFAULT_GOAL := help
.PHONY: help demo setup test test-slow test-all coverage lint docs bench bench-gpu instructions bench-serve crash label-studio soft scores trust promise compare asking pictures board-pictures bench-board literature crowdkit-compare race reproduce sanitize fuzz wheel release-check clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s  %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(BASE)  ## install adjudge into .venv, then run the usual models on a small crowd
	@$(BIN)/adjudge demo

setup: $(READY)  ## install the development dependencies into .venv (the targets below do so themselves)

$(BASE): pyproject.toml constraints.txt $(shell find csrc -name '*.cpp' -o -name '*.hpp' -o -name CMakeLists.txt)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "adjudge needs Python 3.11 or newer; this is $$($(PYTHON) -V)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || $(call apt,python3-venv)
	@command -v c++ >/dev/null || { $(call apt,g++); } || echo "no C++ compiler: adjudge will run on its reference kernels, more slowly"
	@echo "installing adjudge into $(VENV) (once; about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@rm -f src/adjudge/_core*.so # an old one would hide that the new one does not build
	@$(BIN)/pip install --quiet -c constraints.txt -e . $(quietly)
	@$(BIN)/python -c 'import adjudge'
	@! command -v c++ >/dev/null || $(BIN)/python -c 'import adjudge._core' || { echo "the compiled core does not build: $(BIN)/pip install -v -e . shows why"; exit 1; }
	@touch $(BASE)

$(READY): $(BASE)
	@echo "installing what development needs into $(VENV) (once)"
	@$(BIN)/pip install --quiet -c constraints.txt 'adjudge[dev]' $(quietly) # adjudge is there: only what the extra names is added
	@$(BIN)/python -c 'import mypy, nbclient, pyspark, pytest, sklearn, zensical'
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { $(call apt,chromium); } || echo "no chromium: the tests of the report in a browser will be skipped"
	@command -v nginx >/dev/null || test -x /usr/sbin/nginx || { $(call apt,nginx-light); } || echo "no nginx: the tests of the service behind a proxy will be skipped"
	@command -v caddy >/dev/null || { $(call apt,caddy); } || echo "no caddy: the tests of deploy/Caddyfile will be skipped"
	@touch $(READY)

OLD := build/old-pandas# a pandas of two years ago, which a test of adjudge.crowdkit puts in front of the other packages
$(OLD)/pandas: $(READY)
	@$(BIN)/pip install --quiet --no-deps --upgrade --target $(OLD) pandas==2.2.3 pytz python-dateutil tzdata six $(quietly)
	@test -d $@ && touch $@ || echo "no pandas 2.2.3: the test of the drop-in with an old pandas will be skipped"

OLD_UVICORN := build/old-uvicorn# the oldest that pyproject.toml allows, which a test puts in front of the other packages
$(OLD_UVICORN)/uvicorn: $(READY)
	@$(BIN)/pip install --quiet --no-deps --upgrade --target $(OLD_UVICORN) uvicorn==0.40.0 $(quietly)
	@test -d $@ && touch $@ || echo "no uvicorn 0.40.0: the test of the service with the oldest uvicorn will be skipped"

PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
test: lint  ## lint, types, layers, doctests, and every test that needs no other engine or server
	$(PYTEST) -m 'not slow'

test-slow: $(OLD)/pandas $(OLD_UVICORN)/uvicorn  ## the other tests: Spark, the GPU emulator, PostgreSQL, a browser, notebooks, crashes
	$(PYTEST) -m slow

test-all: test test-slow  ## both

coverage: $(READY)  ## the tests, with the lines that none of them runs; slower, because every line is traced
	$(PYTEST) --cov --cov-report=term

crowdkit-compare: $(READY)  ## adjudge.crowdkit compared with crowd-kit: labels on the sets in ADJUDGE_DATA, time, memory, into docs/moving-from-crowd-kit.md (30 minutes)
	$(BIN)/python benchmarks/crowdkit_compare.py

STUDIO_VERSION := 1.23.2
STUDIO := build/label-studio-$(STUDIO_VERSION)# Label Studio, in an environment of its own
$(STUDIO)/bin/label-studio:
	@echo "installing Label Studio $(STUDIO_VERSION) into $(STUDIO) (once; some minutes)"
	@$(PYTHON) -m venv $(STUDIO)
	@$(STUDIO)/bin/pip install --quiet label-studio==$(STUDIO_VERSION) $(quietly)
	@test -x $@ || { echo "Label Studio could not be installed"; exit 1; }

label-studio: $(READY) $(STUDIO)/bin/label-studio  ## a real Label Studio posts its webhooks to the live service: its export equals the votes (5 minutes)
	cd tests && $(abspath $(BIN))/python -m label_studio --program $(abspath $(STUDIO))/bin/label-studio
	cd tests && $(abspath $(BIN))/python -m label_studio.push --program $(abspath $(STUDIO))/bin/label-studio

lint: $(READY)  ## style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: $(READY)  ## run every example of README, docs and notebooks, check their links, and build the site into build/site/html
	$(BIN)/python -m pytest tests/test_docs.py tests/test_examples.py
	$(BIN)/python docs/site/build.py

pictures: $(READY)  ## the pictures of README, docs/plots.md and docs/report.md, from simulated votes
	$(BIN)/python benchmarks/pictures.py
	$(BIN)/python benchmarks/report_pictures.py

board-pictures: $(READY)  ## the pictures of docs/board.md, from a server with simulated reviewers (VIEWS=FOLDER: every view, wide and narrow, light and dark)
	$(BIN)/python benchmarks/board_pictures.py $(if $(VIEWS),$(VIEWS) --all)

bench-board: $(READY)  ## the page of the live service with a million tasks: first byte of every view, votes with and without it (5 minutes)
	$(BIN)/python benchmarks/board.py

bench: $(READY)  ## speed, as ratios in one run
	$(BIN)/python benchmarks/run.py

bench-gpu: $(READY)  ## passes, fits and encoding on a CUDA device, into benchmarks/measured/gpu and docs/gpu.md; without one, says what is missing (20 minutes)
	$(BIN)/python benchmarks/gpu.py

race: $(READY)  ## adjudge against its peers, in environments made at first use, into benchmarks/measured/race (30 minutes; QUICK=1: 5, prints; LIMIT=6: seconds of a fit)
	$(BIN)/python benchmarks/race/run.py $(if $(QUICK),--quick) $(if $(LIMIT),--limit $(LIMIT))

instructions: $(READY)  ## instructions per vote of every kernel compared with the recorded ones, in valgrind (RECORD=1 records them; half a minute)
	@command -v valgrind >/dev/null || { $(call apt,valgrind); }
	$(BIN)/python benchmarks/instructions.py $(if $(RECORD),--record)

bench-serve: $(READY)  ## the live service: votes against empty requests, streams, memory over five million votes, restart (10 minutes)
	$(BIN)/python benchmarks/serve.py

crash: $(READY)  ## the live service killed 100 times under load over SQLite and over PostgreSQL: nothing is lost (5 minutes)
	$(BIN)/python benchmarks/crash.py

soft: $(READY)  ## cross-entropy of unseen votes under soft labels, from the sets in ADJUDGE_DATA (1 minute)
	$(BIN)/python benchmarks/soft.py

scores: $(READY)  ## coverage of the intervals of numeric scores over 200 simulated panels, and the time of a million scores (1 minute)
	$(BIN)/python benchmarks/scores.py

trust: $(READY)  ## every model judged by truth, from the sets in ADJUDGE_DATA: labels, confidence, workers (3 minutes)
	$(BIN)/python benchmarks/trust.py

promise: $(READY)  ## whether certificates, intervals, calibration and panels hold on the sets in ADJUDGE_DATA (5 minutes)
	$(BIN)/python benchmarks/promise.py

compare: $(READY)  ## whether compare names a good model, from the sets in ADJUDGE_DATA with a fifth of the truth as gold (6 minutes)
	$(BIN)/python benchmarks/compare.py

asking: $(READY)  ## accuracy by votes asked, at random and by ask_next, from the sets in ADJUDGE_DATA, into docs/asking-next.md (2 minutes)
	$(BIN)/python benchmarks/asking.py

literature: $(READY)  ## every model side by side: assumptions, cost, accuracy on the sets in ADJUDGE_DATA, into docs/literature (minutes)
	$(BIN)/python benchmarks/literature.py

reproduce: $(READY)  ## the paper's tables and figures next to ours, from the sets in ADJUDGE_DATA (else ./data)
	$(BIN)/adjudge reproduce -o benchmarks/measured/reproduction

sanitize: $(READY)  ## the compiled core under sanitizers: address and undefined behaviour on its tests, thread on many threads
	@for kind in address thread; do \
	  cmake -S csrc -B build/sanitize-$$kind -DADJUDGE_SANITIZE=$$kind -DPython_EXECUTABLE=$(abspath $(BIN))/python \
	    -Dnanobind_DIR=$$($(BIN)/python -m nanobind --cmake_dir) >/dev/null && cmake --build build/sanitize-$$kind --parallel 2 >/dev/null || exit 1; done
	LD_PRELOAD="$$(c++ -print-file-name=libasan.so) $$(c++ -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	  $(BIN)/python tests/sanitized.py build/sanitize-address address
	LD_PRELOAD="$$(c++ -print-file-name=libtsan.so)" ARROW_DEFAULT_MEMORY_POOL=system TSAN_OPTIONS=halt_on_error=1 $(BIN)/python tests/sanitized.py build/sanitize-thread thread

wheel:  ## a wheel in dist/, installed into an empty environment and checked there in an empty folder
	@rm -rf dist build/wheel && $(PYTHON) -m venv build/wheel && mkdir build/wheel/empty
	@build/wheel/bin/pip wheel --quiet --no-deps -w dist . $(quietly)
	@build/wheel/bin/pip install --quiet -c constraints.txt dist/*.whl $(quietly)
	@cd build/wheel/empty && ../bin/python -I $(CURDIR)/.ci/smoke.py
	@ls -l dist/*.whl

PYTHONS ?= $(PYTHON)
release-check:  ## sdist and manylinux wheels in dist/, tried in empty environments, also without a compiler (PYTHONS="python3.11 python3.12 python3.13"; 5 minutes)
	$(PYTHON) -u .ci/release_check.py $(PYTHONS)

MINUTES ?= 10
fuzz: $(READY)  ## random crowds, damaged and forged files, interrupted streams, the service under faults: no crash, no wrong answer (MINUTES=10)
	cd tests && $(abspath $(BIN))/python -m fuzzing --minutes $(MINUTES)

clean:  ## remove what the targets made
	cd csrc && rm -rf .cmake .ninja_* .skbuild-info.json CMakeCache.txt CMakeFiles CMakeInit.txt build.ninja cmake_install.cmake *.a
	rm -rf $(VENV) benchmarks/.peers* benchmarks/race/.cells src/adjudge/*.so build .coverage .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

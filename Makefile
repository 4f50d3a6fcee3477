# Everything runs from a private copy of uv in .tools/ and a project environment in .venv/; nothing is installed
# elsewhere. All that is needed beforehand: make, and Python 3.11 or newer with its venv module.

UV_VERSION := 0.13.7

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo docs site docs-serve pictures interview test warm test-old-gymnasium test-sb3 release-check lint lock clean

TOOLS := .tools
UV := $(TOOLS)/bin/uv
UV_READY := $(TOOLS)/uv-$(UV_VERSION)

# The first interpreter that is new enough and can make environments, as a full path; `make PYTHON=...` overrides it.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	found=$$($$python -c 'import sys, venv, ensurepip; sys.version_info >= (3, 11) and print(sys.executable)' \
	2>/dev/null) && [ -n "$$found" ] && echo "$$found" && break; done)

export UV_PYTHON := $(PYTHON)
export UV_PYTHON_DOWNLOADS := never
export UV_PROJECT_ENVIRONMENT := .venv
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE

RUN := $(UV) run --locked
# The GPU is simulated in the tests; its libraries are large.
RUN_ALL := $(RUN) --all-extras --no-extra gpu
# What people use; always the same set, so that one target does not take away what another has installed.
RUN_COMMAND := $(RUN) --no-dev --extra cluster --extra gym --extra web aceirl

help:
	@echo "make demo    recover a reward in an environment the software does not know"
	@echo "make interview ENV=FrozenLake-v1   be the expert yourself, in a web page"
	@echo "make test    style, types and tests"
	@echo "make docs    the site, in build/docs: pages, reference and gallery, every piece of code executed"
	@echo "make docs-serve  show it at http://127.0.0.1:8000"
	@echo "make pictures    draw the pictures of the page \"What this is about\" again"
	@echo "make test-sb3  agents of Stable-Baselines3 as experts and as pupils, in an environment of their own"
	@echo "make release-check  wheel and sdist in empty environments, on Python 3.11 to 3.14 (PYTHONS=\"3.12 /path/to/python\")"
	@echo "make lint    style and types only"
	@echo "make lock    resolve the dependencies again (uv.lock)"
	@echo "make clean   remove environments, caches and build results"

demo: $(UV_READY)
	$(RUN_COMMAND) demo

ENV ?= FrozenLake-v1

interview: $(UV_READY)
	$(RUN_COMMAND) interview $(ENV) --open

# The interview's page is tested in a real browser, with axe-core from npm. CI must not go without; others may.
BROWSER := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
NPM := $(shell command -v npm)
AXE := node_modules/axe-core/axe.min.js
WITH_BROWSER := $(if $(filter true,$(CI)),yes,$(and $(BROWSER),$(NPM)))

# Neighbours in a file share what they are made of, so each worker gets a stretch of tests, and takes from others at the end.
PYTEST_ALL := pytest -n auto --maxprocesses 8 --dist worksteal

test: $(UV_READY) $(if $(WITH_BROWSER),$(AXE))
	$(MAKE) -j 2 lint warm
	$(RUN_ALL) $(PYTEST_ALL) $(if $(WITH_BROWSER),,--ignore tests/browser)
	$(MAKE) test-old-gymnasium
	@$(if $(WITH_BROWSER),true,echo "Left out: the browser tests. They need Chromium and npm (Debian: apt install chromium npm).")

# While one core checks types the other compiles what most tests call, and reads the tests; else each worker would do both.
warm: $(UV_READY)
	folder=$$(mktemp -d) && $(RUN_ALL) aceirl run four-paths --out "$$folder" > /dev/null && rm -r "$$folder"
	$(RUN_ALL) pytest -q --collect-only $(if $(WITH_BROWSER),,--ignore tests/browser) > /dev/null

$(AXE): package.json package-lock.json
	npm ci
	@touch $@

# Warnings are errors. What the pages print is compared, the gallery is executed, and the built site is looked at.
RUN_DOCS := $(RUN_ALL) --group docs

docs: $(UV_READY)
	$(RUN_DOCS) $(PYTEST_ALL) -q tests/test_docs.py
	$(MAKE) site

# The same without the pages' own code, which `make test` executes too.
site: $(UV_READY) $(if $(WITH_BROWSER),$(AXE))
	$(RUN_DOCS) sphinx-build -W --keep-going -j auto -b html docs build/docs
	$(RUN_DOCS) pytest -q docs/test_site.py $(if $(WITH_BROWSER),,-k "not browser")

docs-serve: $(UV_READY)
	$(RUN_DOCS) python -m http.server 8000 --bind 127.0.0.1 --directory build/docs

pictures: $(UV_READY)
	$(RUN_DOCS) python docs/drawings.py

# The oldest Gymnasium that is supported, over the project's own environment; it needs the numpy of its time.
test-old-gymnasium: $(UV_READY)
	$(RUN_ALL) --with gymnasium==0.29.1 --with 'numpy<2' $(PYTEST_ALL) $(wildcard tests/test_gym_*.py)

# A job of its own, with dependencies of its own: it trains agents of Stable-Baselines3 on the processor.
test-sb3: $(UV_READY)
	"$(PYTHON)" -m venv --clear $(TOOLS)/sb3
	$(UV) build --quiet --wheel --out-dir $(TOOLS)/sb3/wheels
	$(TOOLS)/sb3/bin/python -m pip install --quiet --disable-pip-version-check --no-input torch==2.13.0 \
		stable-baselines3==2.9.2 "$$(echo $(TOOLS)/sb3/wheels/*.whl)[gym]" hypothesis pytest pytest-timeout
	$(TOOLS)/sb3/bin/python -m pip install --quiet --disable-pip-version-check --no-deps imitation==1.0.1
	$(TOOLS)/sb3/bin/python -m pytest -q tests/test_gym_outputs.py tests/test_day.py -k "imitation or agent"
	OMP_NUM_THREADS=1 $(TOOLS)/sb3/bin/python benchmarks/agents.py

# Slow, and not part of CI: what a package index would hand out, with the lowest and the newest dependencies.
release-check: $(UV_READY)
	.ci/release-check

lint: $(UV_READY)
	$(RUN_ALL) ruff check
	$(RUN_ALL) ruff format --check
	$(RUN_ALL) mypy src tests $(wildcard benchmarks docs studies)

# Only the public default index may end up in the lock file, whatever mirrors this machine is set up to use.
lock: $(UV_READY)
	env -u UV_INDEX -u UV_DEFAULT_INDEX -u UV_INDEX_URL -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS \
		UV_NO_CONFIG=1 $(UV) lock

clean:
	rm -rf .venv .tools node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist docs/gallery
	find src tests studies benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(UV_READY):
	@test -n "$(PYTHON)" || { \
		echo "aceirl needs Python 3.11 or newer with the venv module, and found none on the PATH." >&2; \
		echo "Found: $$(python3 --version 2>&1 || true)" >&2; \
		echo "Debian and Ubuntu: apt install python3 python3-venv. Elsewhere: make PYTHON=/path/to/python3.11 ..." >&2; \
		exit 1; }
	rm -rf $(TOOLS)
	"$(PYTHON)" -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --no-input uv==$(UV_VERSION)
	@touch $@

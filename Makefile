# Every target makes .venv and installs what it needs by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.installed-core
STAMP := $(VENV)/.installed
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test browser check docs bench interop studio study clean

# The product alone: what the demo and the common commands need.
$(CORE): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	touch $(CORE)

# With every extra, the peers that tests compare against, and the linters.
$(STAMP): $(CORE)
	$(INSTALL) -e '.[dev]'
	touch $(STAMP)

demo: $(CORE)
	$(BIN)/marey demo

test: $(STAMP)
	$(BIN)/python -m pytest -m "not slow and not browser and not timing" -n 2 --dist loadfile --no-loadscope-reorder

browser: $(STAMP)
	$(BIN)/python -m pytest -m "browser and not slow"

study: $(STAMP)
	$(BIN)/python -m pytest -m "slow and not timing"

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

docs: $(STAMP)
	$(INSTALL) -e '.[docs]'
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/build_site.py

bench: $(STAMP)
	$(INSTALL) -e '.[bench]'
	$(BIN)/marey bench
	$(BIN)/python -m pytest -m timing

interop: $(STAMP)
	$(BIN)/python benchmarks/interop/run.py

studio: $(CORE)
	$(INSTALL) -e '.[studio]'
	$(BIN)/marey studio

clean:
	rm -rf $(VENV) .venvs demo artefacts build

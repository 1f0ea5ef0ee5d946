# Every target makes .venv and installs what it needs by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test browser check docs bench interop studio study clean

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/marey demo

test: $(STAMP)
	$(BIN)/python -m pytest -m "not slow and not browser" -n 2 --dist loadfile --no-loadscope-reorder

browser: $(STAMP)
	$(BIN)/python -m pytest -m "browser and not slow"

study: $(STAMP)
	$(BIN)/python -m pytest -m slow

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

docs: $(STAMP)
	$(BIN)/python docs/generate.py

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/marey bench

interop: $(STAMP)
	$(BIN)/python benchmarks/interop/run.py

studio: $(STAMP)
	$(BIN)/marey studio

clean:
	rm -rf $(VENV) .venvs demo artefacts

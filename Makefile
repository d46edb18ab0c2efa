# `make` alone lists the targets.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# Where rustup puts cargo, for shells that do not know it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

target := $(or $(CARGO_TARGET_DIR),target)

# What the tests need, by the names of scripts/setup.sh.
test_needs := rust cc postgres venv node chromium

.PHONY: help run reset test soak lint bench bench-idle bench-allocations bench-feed bench-hot-row bench-neighbours openapi fuzz-api docker-check clean setup setup-test

run: setup ## build and start it with a private PostgreSQL and the demo (LISTEN=127.0.0.1:8080, ARGS=...)
	cargo build --release --bin counterfoil
	@exec $(target)/release/counterfoil dev $(if $(LISTEN),--listen $(LISTEN)) $(ARGS)

test: setup-test lint ## everything that must hold
	@# All run, also where one fails: a person wants to see all of it.
	@status=0; \
	cargo test --no-fail-fast $(ARGS) || status=$$?; \
	scripts/test-sql.sh || status=$$?; \
	scripts/fuzz-api.sh --cases 5 --seed 1 || status=$$?; \
	scripts/test-js.sh || status=$$?; \
	exit $$status

soak: setup-test ## the shows of retries and crossing batches in full, about 10 minutes
	COUNTERFOIL_SOAK=1 cargo test --test api -- --nocapture --test-threads=1 parallel_repeats a_server_that_is_killed_has around_commit whose_commit_is_lost unknown_outcome_can crossing_batches

lint: setup ## formatting, lints and the documentation's links
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings
	cargo doc --no-deps --document-private-items --quiet

bench: setup ## speed beside pgbench and a bare handler, about 25 minutes (ARGS=...)
	cargo bench --bench http $(if $(ARGS),-- $(ARGS))

bench-idle: setup ## what a server costs that nobody asks anything (BENCH_IDLE=600)
	BENCH_IDLE=$(or $(BENCH_IDLE),600) cargo bench --bench http

bench-allocations: setup ## allocations and instructions per request, counted by valgrind
	cargo bench --bench http -- --allocations $(ARGS)

bench-feed: setup ## a million changes pulled beside psql, and ten thousand idle streams
	cargo bench --bench feed

bench-hot-row: setup ## one row that 128 clients raise at once (BENCH_SECONDS=5)
	cargo bench --bench hot_row

bench-neighbours: setup ## what neighbours feel of bad rows, locks and floods (BENCH_ONLY=flood)
	cargo bench --bench neighbours

openapi: setup ## write openapi.yaml anew
	COUNTERFOIL_WRITE=openapi.yaml cargo test --quiet --test api openapi_yaml

fuzz-api: setup-test ## many generated requests against the running API
	scripts/fuzz-api.sh $(ARGS)

docker-check: setup ## build the image and try the compose file
	scripts/docker-check.sh $(ARGS)

reset: ## throw the demo's private database away
	rm -rf .counterfoil
	@d=/var/lib/counterfoil; if [ -d $$d ] && [ $$(id -u) = 0 ]; then echo "a database kept outside of this folder lies below $$d"; fi

clean: ## remove what was built; the database in .counterfoil stays
	rm -rf .venv
	cargo clean

setup:
	@scripts/setup.sh

setup-test:
	@scripts/setup.sh $(test_needs)

help:
	@echo 'Targets:'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

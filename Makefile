# `make help` lists the targets. You need Rust and make. scripts/need.sh installs the rest, or says what to install.

PORT ?= 6379

# `make install` installs below PREFIX. DESTDIR is for staging. The service of Debian's redis-server loads modules only
# from /usr/lib: on Debian, use `make deb` or PREFIX=/usr.
PREFIX     ?= /usr/local
DESTDIR    ?=
MODULE_DIR := $(PREFIX)/lib/redis/modules
BIN_DIR    := $(PREFIX)/bin
DOC_DIR    := $(PREFIX)/share/doc/zeitset

# The pages and the files that they link to, without build outputs.
DOCS       := README.md CHANGELOG.md CONTRIBUTING.md RELEASING.md SECURITY.md LICENSE redis.conf.example docs clients examples packaging
UNBUILT    := node_modules build dist .venv __pycache__

CARGO      ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
# The suffix of the library: .dylib on macOS, .so elsewhere.
SUFFIX     := $(if $(filter Darwin,$(shell uname -s)),dylib,so)
MODULE     := $(TARGET_DIR)/release/libzeitset.$(SUFFIX)
COMPANION  := $(TARGET_DIR)/companion/zeitset
NOTICES    := $(TARGET_DIR)/third-party.txt

.DEFAULT_GOAL := all
.PHONY: all build companion notices run ui demo pictures test test-matrix torture valgrind asan mutants bench bench-instructions bench-clients examples clients test-celery docs site lint install uninstall deb rpm wheel test-deb clean help need need-build need-dpkg need-port

## make            build all that `make install` installs: the module, the companion, the licences of linked libraries
all: build companion notices

## make build      build the module: target/release/libzeitset.so (on macOS libzeitset.dylib)
build: need-build
	$(CARGO) build --release --locked

## make companion  build the program with the web page, metrics and terminal view: target/companion/zeitset
companion: need-build
	$(CARGO) build --locked --profile companion -p zeitset-companion

notices: need-build
	@mkdir -p "$(TARGET_DIR)"
	@scripts/notices.sh "$(CARGO)" >"$(NOTICES).new" && mv "$(NOTICES).new" "$(NOTICES)"

## make run        build, then start a server with the module on PORT (default 6379)
run: need-port build
	@scripts/run.sh "$(MODULE)" "$(PORT)" "$(TARGET_DIR)/run"

## make ui         a web page of the server on PORT, with actions: http://127.0.0.1:8080 (another server: URL=redis://host:port)
ui: companion
	@"$(COMPANION)" ui --write --redis "$(or $(URL),redis://127.0.0.1:$(PORT))" $(if $(LISTEN),--listen "$(LISTEN)")

## make demo       a demo shop with its own server (PORT, default 6390) and web page (LISTEN, default 127.0.0.1:8080)
demo: need build companion
	@scripts/demo.sh "$(MODULE)" "$(COMPANION)" "$(TARGET_DIR)/demo" "$(if $(filter file,$(origin PORT)),6390,$(PORT))" $(LISTEN)

## make test       every test: unit tests, and integration tests against real servers
test: need
	$(CARGO) build --locked
	$(CARGO) test --locked -p zeitset -p zeitset-testkit
	$(CARGO) test --locked -p zeitset-companion
	$(CARGO) test --locked -p zeitset-client --all-features

## make bench      compare all commands with their rivals; results into docs/benchmarks (CELL=libredis_cell.so: redis-cell, too; SERVERS="...": also on these)
bench: need
	OUT="$(CURDIR)/docs/benchmarks" $(CARGO) bench --locked -p zeitset-benches --bench commands
	@for server in $(SERVERS); do \
	    REDIS_SERVER=$$server $(CARGO) bench --locked -p zeitset-benches --bench commands >docs/benchmarks/commands-$$(basename $$(dirname $$server)).md || exit 1; \
	done
	@for bench in sweep queues published groups boards; do \
	    $(CARGO) bench --locked -p zeitset-benches --bench $$bench >docs/benchmarks/$$bench.txt || exit 1; \
	    cat docs/benchmarks/$$bench.txt; \
	done
	$(CARGO) run --release --locked -p zeitset-benches --example replay >docs/benchmarks/replay.txt
	@cat docs/benchmarks/replay.txt
	$(CARGO) bench --locked -p zeitset-benches --bench scale >docs/benchmarks/scale.md
	@cat docs/benchmarks/scale.md

## make bench-instructions  count the server's instructions per request, into docs/benchmarks (CELL=... as for make bench; SERVERS="...": count limits on these servers, too)
bench-instructions: need
	CARGO="$(CARGO)" scripts/instructions.sh "$(TARGET_DIR)/instructions" docs/benchmarks/instructions.md $(SERVERS)

## make bench-clients  compare the libraries' workers with arq, RQ and BullMQ, and Celery's brokers; measure limits with units ahead, and the crate for Rust; into docs/benchmarks
bench-clients: need build
	clients/bench/run.sh "$(MODULE)" "$(TARGET_DIR)/bench-clients" docs/benchmarks/workers.md
	clients/bench/ahead.sh "$(MODULE)" "$(TARGET_DIR)/bench-clients/ahead" docs/benchmarks/ahead.md
	CARGO="$(CARGO)" clients/bench/rust.sh "$(MODULE)" "$(TARGET_DIR)/bench-clients/rust" docs/benchmarks/rust.md
	clients/bench/celery.sh "$(MODULE)" "$(TARGET_DIR)/bench-clients/celery" >docs/benchmarks/celery.md

## make test-matrix integration tests on other Redis and Valkey servers, which are not installed (see scripts/matrix.sh)
test-matrix: need-build
	scripts/matrix.sh "$(TARGET_DIR)/servers"

## make test-versions  this module together with the last release's: replicas, failovers, files and MIGRATE (VERSIONS=upgrade: from the release to this one only; VERSIONS=back)
test-versions: need
	CARGO="$(CARGO)" scripts/test-versions.sh "$(TARGET_DIR)/releases" $(VERSIONS)

## make torture    all random tests, from new seeds, for TORTURE_SECONDS (default 600): clocks, neighbours, crashes, hostile input
torture: need
	scripts/torture.sh "$(CARGO)" "$(or $(TORTURE_SECONDS),600)" "$(TARGET_DIR)/torture"

## make valgrind   some of the tests with the server inside valgrind (REDIS_SOURCE: the source of a Redis; else Debian's is fetched)
valgrind: need-build
	scripts/valgrind.sh "$(REDIS_SOURCE)" "$(TARGET_DIR)/valgrind" "$(CARGO)" $(VALGRIND_TESTS)

## make asan       some of the tests on a server built with AddressSanitizer, which REDIS_SERVER names
asan: need-build
	scripts/asan.sh "$(REDIS_SERVER)" "$(TARGET_DIR)/asan" "$(CARGO)" $(ASAN_TESTS)

## make mutants    does a test fail when the code is changed? MUTANTS=src/queues/waiting/model.rs TESTS=waiting::model SHARD=0/4 (cargo-mutants)
# Changes the source files in place, one mutant at a time, and restores them at the end. TESTS names the tests for each
# mutant (default: the tests of the models). SHARD=k/n selects a sample of the mutants. Compilation takes most of the
# time, so this compiles without optimisation: 3 s per mutant instead of 30. It runs few histories: repeat surviving
# mutants with ZEITSET_SEEDS=2000. Some mutants allocate memory without end, so each process may use at most 8 GB.
mutants: need-build
	git diff --quiet -- src || { echo "commit or stash your changes first"; exit 1; }
	mkdir -p "$(TARGET_DIR)/mutants"
	ulimit -v 8388608; CARGO_TARGET_DIR="$(TARGET_DIR)/mutants/target" CARGO_INCREMENTAL=1 CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 \
	ZEITSET_SEEDS=$(or $(ZEITSET_SEEDS),100) $(CARGO) mutants --in-place -f "$(or $(MUTANTS),src/{base/**,sets/index/**,*/model/**,queues/waiting/model.rs})" \
	    --shard $(or $(SHARD),0/1) --sharding round-robin --timeout $(or $(MUTANT_SECONDS),300) --build-timeout 600 \
	    --output "$(TARGET_DIR)/mutants" --cargo-arg=--lib -- -- $(or $(TESTS),base:: index:: model::)

## make examples   the tours and web services of examples/ against real servers; EXAMPLES="python node": do not skip these languages
examples: need
	$(CARGO) test --locked --test integration -- --include-ignored --nocapture examples::tour examples::web

## make clients    the libraries of clients/: built, installed into empty environments, tested; CLIENTS="python node": do not skip these languages; CHAOS_SECONDS=600: only the chaos test, for 600 s
clients: need build notices
	NOTICES="$(abspath $(NOTICES))" scripts/clients.sh "$(MODULE)" "$(TARGET_DIR)/clients"

## make test-celery  all integration tests of Celery itself, with zeitset:// and with redis:// (half an hour; CELERY=5.6.3: this version)
test-celery: need build
	clients/celery-tests.sh "$(MODULE)" "$(TARGET_DIR)/celery-tests"

## make docs       write what commands print now into the examples of docs/ and README.md
docs: need
	ZEITSET_DOCS=write $(CARGO) test --locked --test integration docs:: -- --test-threads=1

## make site       the documentation as a site with search, in target/site/html (mdBook; MDBOOK=path)
site:
	@scripts/need.sh bash && scripts/site.sh "$(TARGET_DIR)/site" $(MDBOOK)

## make pictures   click through the web page in Chromium, with a million jobs, and keep its pictures in docs/pictures
pictures: need
	ZEITSET_DOCS=write ZEITSET_FULL=1 $(CARGO) test --locked -p zeitset-companion --test companion browser -- --nocapture

## make lint       formatting, clippy, links in rustdoc, the syntax of the shell scripts, plain English, spelling
lint: need-build
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets -p zeitset -p zeitset-testkit -p zeitset-benches -- -D warnings
	$(CARGO) clippy --locked --all-targets -p zeitset-companion -- -D warnings
	$(CARGO) clippy --locked --all-targets -p zeitset-client -p zeitset-examples --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items -p zeitset -p zeitset-testkit
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items -p zeitset-companion
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --all-features -p zeitset-client
	for script in $$(git grep -n '^#!/bin/sh$$' | sed -n 's/:1:.*//p'); do sh -n "$$script" || exit 1; done
	for script in $$(git grep -n '^#!/usr/bin/env bash$$' | sed -n 's/:1:.*//p'); do bash -n "$$script" || exit 1; done
	scripts/words.sh
	@if command -v codespell >/dev/null; then git ls-files -z | xargs -0 codespell; else echo "lint: spelling is skipped, as codespell is not installed"; fi

## make install    install module, companion and documentation: make install PREFIX=/usr/local DESTDIR=
install: $(MODULE) $(COMPANION) $(NOTICES)
	install -d "$(DESTDIR)$(MODULE_DIR)" "$(DESTDIR)$(BIN_DIR)" "$(DESTDIR)$(DOC_DIR)/examples"
	install -m 755 "$(MODULE)" "$(DESTDIR)$(MODULE_DIR)/zeitset.so" # a server refuses a module that is not executable
	install -m 755 "$(COMPANION)" "$(DESTDIR)$(BIN_DIR)/zeitset"
	tar -cf - $(UNBUILT:%=--exclude %) $(DOCS) | tar -xof - -C "$(DESTDIR)$(DOC_DIR)" # keeps the folders, so that links between pages work
	install -m 644 "$(NOTICES)" "$(DESTDIR)$(DOC_DIR)"
	sed 's|/usr/bin/zeitset|$(BIN_DIR)/zeitset|' packaging/systemd/zeitset-ui.service >"$(DESTDIR)$(DOC_DIR)/examples/zeitset-ui.service"
	{ sed 's|/usr/lib/redis/modules|$(MODULE_DIR)|' packaging/zeitset.conf && sed -n 's/^zeitset\./# &/p' redis.conf.example; } \
	    >"$(DESTDIR)$(DOC_DIR)/examples/zeitset.conf" # adds the settings of the example, commented out
	@echo "Append $(DOC_DIR)/examples/zeitset.conf to the server's configuration, and restart the server."

## make uninstall  remove what `make install` with the same PREFIX and DESTDIR has installed
uninstall:
	rm -f "$(DESTDIR)$(MODULE_DIR)/zeitset.so" "$(DESTDIR)$(BIN_DIR)/zeitset"
	rm -rf "$(DESTDIR)$(DOC_DIR)"

## make deb        a Debian package in target/, for the release this machine runs
deb: need-dpkg all
	@scripts/deb.sh "$(TARGET_DIR)"

## make rpm        build an RPM package in target/, for Fedora, Red Hat and similar systems
rpm: all
	@scripts/rpm.sh "$(TARGET_DIR)"

## make wheel      build the Python package zeitset-server in target/, which carries the module
wheel: build notices
	@scripts/wheel.py "$(MODULE)" "$(NOTICES)" "$(TARGET_DIR)"

## make test-deb   build, install, use and remove the Debian package in a temporary root; as root, also run the server of the Docker image
test-deb: need deb
	$(CARGO) test --locked --test integration -- --include-ignored package:: container::

## make clean      remove everything built, and the data of `make run`
clean:
	$(CARGO) clean

## make help       this list
help:
	@sed -n 's/^## //p' Makefile

# Builds only missing files, because `make install` often runs as root, without Rust.
$(MODULE):
	$(MAKE) build

$(COMPANION):
	$(MAKE) companion

$(NOTICES):
	$(MAKE) notices

need-build:
	@CARGO="$(CARGO)" scripts/need.sh rust cc libclang

# These run before the build, which takes minutes.
need-dpkg:
	@scripts/deb.sh --need

need:
	@CARGO="$(CARGO)" scripts/need.sh rust cc libclang redis bash

need-port: need
	@scripts/run.sh --free "$(PORT)"

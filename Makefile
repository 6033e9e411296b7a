# `make help` lists what there is. Rust, a C compiler and make suffice: scripts/need.sh brings in the rest.

PORT ?= 6379

# Where `make install` installs; DESTDIR stages. (The service of Debian's redis-server runs code below /usr/lib only: there,
# `make deb` or PREFIX=/usr.)
PREFIX     ?= /usr/local
DESTDIR    ?=
MODULE_DIR := $(PREFIX)/lib/redis/modules
DOC_DIR    := $(PREFIX)/share/doc/zeitset

CARGO      ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
# Where cargo puts a library depends on the system: .so everywhere but on macOS.
SUFFIX     := $(if $(filter Darwin,$(shell uname -s)),dylib,so)
MODULE     := $(TARGET_DIR)/release/libzeitset.$(SUFFIX)

POSIX_SCRIPTS := scripts/need.sh packaging/debian/postinst packaging/debian/prerm examples/promoter.sh
BASH_SCRIPTS  := scripts/run.sh scripts/matrix.sh scripts/deb.sh scripts/valgrind.sh .ci/run

.DEFAULT_GOAL := build
.PHONY: build run top test test-matrix fuzz soak valgrind bench examples docs lint fmt install uninstall deb test-deb clean help need-libclang need-redis

## make            build the module: target/release/libzeitset.so
build: need-libclang
	$(CARGO) build --release --locked

## make run        build, then start a server with the module on PORT (default 6379)
run: build need-redis
	@scripts/run.sh "$(MODULE)" "$(PORT)" "$(TARGET_DIR)/run"

## make top        limits, sweeps and queues of the server on PORT, live (another one: make top URL=redis://host:port)
top:
	@$(CARGO) run --quiet --locked --example top -- $(or $(URL),redis://127.0.0.1:$(PORT))

## make test       every test: unit tests, and integration tests against real servers
test: need-libclang need-redis
	$(CARGO) build --locked
	$(CARGO) test --locked

## make bench      every command beside its rivals; results into docs/benchmarks (CELL=libredis_cell.so: redis-cell, too)
bench: need-libclang need-redis
	OUT="$(CURDIR)/docs/benchmarks" $(CARGO) bench --locked --bench commands
	@for bench in sweep queues boards; do \
	    $(CARGO) bench --locked --bench $$bench >docs/benchmarks/$$bench.txt || exit 1; \
	    cat docs/benchmarks/$$bench.txt; \
	done

## make test-matrix integration tests on Redis 7.0 and 8.0, Valkey 8.1 and 9: Debian's packages, not installed
test-matrix: need-libclang
	scripts/matrix.sh "$(TARGET_DIR)/servers"

## make fuzz       hostile input from a new seed, each kind for FUZZ_SECONDS (default 60); FUZZ_SEED=... repeats a run
fuzz: need-libclang need-redis
	FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) $(CARGO) test --locked --test integration -- fuzz:: --nocapture

## make valgrind   some of the tests with the server inside valgrind (REDIS_SOURCE: the source of a Redis; else Debian's is fetched)
valgrind: need-libclang
	scripts/valgrind.sh "$(REDIS_SOURCE)" "$(TARGET_DIR)/valgrind" "$(CARGO)" $(VALGRIND_TESTS)

## make soak       everything at once for SOAK_SECONDS (default 120), its invariants checked throughout
soak: need-libclang need-redis
	SOAK_SECONDS=$(or $(SOAK_SECONDS),120) $(CARGO) test --locked --test integration -- soak:: --nocapture

## make examples   the tours and web services of examples/ against real servers; EXAMPLES="python node" may skip neither
examples: need-libclang need-redis
	$(CARGO) test --locked --test integration -- --include-ignored --nocapture examples::tour examples::web

## make docs       write what commands print now into the examples of docs/ and README.md
docs: need-libclang need-redis
	ZEITSET_DOCS=write $(CARGO) test --locked --test integration docs_ -- --test-threads=1

## make lint       formatting, clippy and the syntax of the shell scripts
lint: need-libclang
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	for script in $(POSIX_SCRIPTS); do sh -n "$$script" || exit 1; done
	for script in $(BASH_SCRIPTS); do bash -n "$$script" || exit 1; done

## make fmt        format the Rust sources
fmt:
	$(CARGO) fmt

## make install    install module and documentation: make install PREFIX=/usr/local DESTDIR=
install: $(MODULE)
	install -d "$(DESTDIR)$(MODULE_DIR)" "$(DESTDIR)$(DOC_DIR)/examples"
	install -m 755 "$(MODULE)" "$(DESTDIR)$(MODULE_DIR)/zeitset.so" # a server refuses modules that are not executable
	install -m 644 README.md CHANGELOG.md LICENSE "$(DESTDIR)$(DOC_DIR)"
	sed 's|/usr/lib/redis/modules|$(MODULE_DIR)|' packaging/zeitset.conf >"$(DESTDIR)$(DOC_DIR)/examples/zeitset.conf"
	@echo "Append $(DOC_DIR)/examples/zeitset.conf to the server's configuration, and restart the server."

## make uninstall  remove what `make install` with the same PREFIX and DESTDIR has installed
uninstall:
	rm -f "$(DESTDIR)$(MODULE_DIR)/zeitset.so"
	rm -rf "$(DESTDIR)$(DOC_DIR)"

## make deb        a Debian package in target/, for the release this machine runs
deb: build
	@scripts/deb.sh "$(TARGET_DIR)"

## make test-deb   build, install, use and remove the Debian package in a throw-away root
test-deb: deb need-redis
	$(CARGO) test --locked --test integration -- --include-ignored package::

## make clean      remove everything built, and the data of `make run`
clean:
	$(CARGO) clean

## make help       this list
help:
	@sed -n 's/^## //p' Makefile

# Not `build`: whoever installs as root may have no Rust there.
$(MODULE):
	$(MAKE) build

need-libclang:
	@scripts/need.sh libclang

need-redis:
	@scripts/need.sh redis

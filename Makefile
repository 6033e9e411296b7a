# `make help` lists what there is. Rust, a C compiler and make suffice: scripts/need.sh brings in the rest.

PORT ?= 6379

# Where `make install` installs; DESTDIR stages. (The service of Debian's redis-server runs code below /usr/lib only: there,
# `make deb` or PREFIX=/usr.)
PREFIX     ?= /usr/local
DESTDIR    ?=
MODULE_DIR := $(PREFIX)/lib/redis/modules
BIN_DIR    := $(PREFIX)/bin
DOC_DIR    := $(PREFIX)/share/doc/zeitset

CARGO      ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
# Where cargo puts a library depends on the system: .so everywhere but on macOS.
SUFFIX     := $(if $(filter Darwin,$(shell uname -s)),dylib,so)
MODULE     := $(TARGET_DIR)/release/libzeitset.$(SUFFIX)
COMPANION  := $(TARGET_DIR)/companion/zeitset

POSIX_SCRIPTS := scripts/need.sh scripts/words.sh packaging/debian/postinst packaging/debian/prerm examples/promoter.sh
BASH_SCRIPTS  := scripts/run.sh scripts/matrix.sh scripts/deb.sh scripts/valgrind.sh scripts/asan.sh scripts/torture.sh scripts/instructions.sh scripts/clients.sh scripts/clients-python.sh scripts/clients-node.sh clients/bench/run.sh clients/bench/workers-python.sh clients/bench/workers-node.sh .ci/run

.DEFAULT_GOAL := build
.PHONY: build companion run ui top pictures test test-matrix torture fuzz soak valgrind asan mutants bench bench-instructions bench-clients examples clients docs lint fmt install uninstall deb test-deb clean help need-libclang need-redis

## make            build the module: target/release/libzeitset.so
build: need-libclang
	$(CARGO) build --release --locked

## make companion  build the program that shows what a server does: target/companion/zeitset
companion:
	$(CARGO) build --locked --profile companion -p zeitset-companion

## make run        build, then start a server with the module on PORT (default 6379)
run: build need-redis
	@scripts/run.sh "$(MODULE)" "$(PORT)" "$(TARGET_DIR)/run"

## make ui         a web page of the server on PORT, with actions: http://127.0.0.1:8080 (another server: URL=redis://host:port)
ui: companion
	@"$(COMPANION)" ui --write --redis "$(or $(URL),redis://127.0.0.1:$(PORT))" $(if $(LISTEN),--listen "$(LISTEN)")

## make top        limits, sweeps and queues of the server on PORT, live (another one: make top URL=redis://host:port)
top: companion
	@"$(COMPANION)" top "$(or $(URL),redis://127.0.0.1:$(PORT))"

## make test       every test: unit tests, and integration tests against real servers
test: need-libclang need-redis
	$(CARGO) build --locked
	$(CARGO) test --locked -p zeitset -p zeitset-testkit
	$(CARGO) test --locked -p zeitset-companion

## make bench      every command against its rivals; results into docs/benchmarks (CELL=libredis_cell.so: redis-cell, too)
bench: need-libclang need-redis
	OUT="$(CURDIR)/docs/benchmarks" $(CARGO) bench --locked -p zeitset-benches --bench commands
	@for bench in sweep queues groups boards; do \
	    $(CARGO) bench --locked -p zeitset-benches --bench $$bench >docs/benchmarks/$$bench.txt || exit 1; \
	    cat docs/benchmarks/$$bench.txt; \
	done
	$(CARGO) bench --locked -p zeitset-benches --bench scale >docs/benchmarks/scale.md
	@cat docs/benchmarks/scale.md

## make bench-instructions  what a request costs the server in instructions, into docs/benchmarks (CELL=... as for make bench)
bench-instructions: need-libclang need-redis
	CARGO="$(CARGO)" scripts/instructions.sh "$(TARGET_DIR)/instructions" docs/benchmarks/instructions.md

## make bench-clients  workers of the client libraries against arq, RQ and BullMQ, into docs/benchmarks/workers.md
bench-clients: build need-redis
	clients/bench/run.sh "$(MODULE)" "$(TARGET_DIR)/bench-clients" docs/benchmarks/workers.md

## make test-matrix integration tests on other Redis and Valkey servers, which are not installed (see scripts/matrix.sh)
test-matrix: need-libclang
	scripts/matrix.sh "$(TARGET_DIR)/servers"

## make torture    all that is random, from new seeds, for TORTURE_SECONDS (default 600): clocks, neighbours, crashes, hostile input
torture: need-libclang need-redis
	scripts/torture.sh "$(CARGO)" "$(or $(TORTURE_SECONDS),600)" "$(TARGET_DIR)/torture"

## make fuzz       hostile input from a new seed, each kind for FUZZ_SECONDS (default 60); FUZZ_SEED=... repeats a run
fuzz: need-libclang need-redis
	FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) $(CARGO) test --locked --test integration -- fuzz:: --nocapture

## make valgrind   some of the tests with the server inside valgrind (REDIS_SOURCE: the source of a Redis; else Debian's is fetched)
valgrind: need-libclang
	scripts/valgrind.sh "$(REDIS_SOURCE)" "$(TARGET_DIR)/valgrind" "$(CARGO)" $(VALGRIND_TESTS)

## make asan       some of the tests on a server built with AddressSanitizer, which REDIS_SERVER names
asan: need-libclang
	scripts/asan.sh "$(REDIS_SERVER)" "$(TARGET_DIR)/asan" "$(CARGO)" $(ASAN_TESTS)

## make mutants    does a test fail when the code is changed? MUTANTS=src/model/waiting.rs TESTS=model::waiting SHARD=0/4 (cargo-mutants)
# The tree is changed in place, one mutant at a time, and is as it was afterwards. TESTS (default: those of the models) names the
# tests that are run for each, SHARD=k/n a sample of the mutants. Compiling is most of it: hence without optimisation, which
# takes 3 s a mutant instead of 30, and few histories for each. Look at a survivor again with ZEITSET_SEEDS=2000. Some mutants
# never end and take all memory there is: each process may have 8 GB.
mutants: need-libclang
	git diff --quiet -- src || { echo "commit or stash your changes first"; exit 1; }
	mkdir -p "$(TARGET_DIR)/mutants"
	ulimit -v 8388608; CARGO_TARGET_DIR="$(TARGET_DIR)/mutants/target" CARGO_INCREMENTAL=1 CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 \
	ZEITSET_SEEDS=$(or $(ZEITSET_SEEDS),100) $(CARGO) mutants --in-place -f "$(or $(MUTANTS),src/model/**)" \
	    --shard $(or $(SHARD),0/1) --sharding round-robin --timeout $(or $(MUTANT_SECONDS),300) --build-timeout 600 \
	    --output "$(TARGET_DIR)/mutants" --cargo-arg=--lib -- $(or $(TESTS),model::)

## make soak       everything at once for SOAK_SECONDS (default 120), its invariants checked throughout
soak: need-libclang need-redis
	SOAK_SECONDS=$(or $(SOAK_SECONDS),120) $(CARGO) test --locked --test integration -- soak:: --nocapture

## make examples   the tours and web services of examples/ against real servers; EXAMPLES="python node" may skip neither
examples: need-libclang need-redis
	$(CARGO) test --locked --test integration -- --include-ignored --nocapture examples::tour examples::web

## make clients    the libraries of clients/: built, installed into empty environments, tested; CLIENTS="python node" may skip neither
clients: build need-redis
	scripts/clients.sh "$(MODULE)" "$(TARGET_DIR)/clients"

## make docs       write what commands print now into the examples of docs/ and README.md
docs: need-libclang need-redis
	ZEITSET_DOCS=write $(CARGO) test --locked --test integration docs:: -- --test-threads=1

## make pictures   click through the web page in Chromium, with a million jobs, and keep its pictures in docs/pictures
pictures: need-libclang need-redis
	ZEITSET_DOCS=write ZEITSET_FULL=1 $(CARGO) test --locked -p zeitset-companion --test companion browser -- --nocapture

## make lint       formatting, clippy, links in rustdoc, the syntax of the shell scripts, plain English, spelling
lint: need-libclang
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets -p zeitset -p zeitset-testkit -p zeitset-benches -- -D warnings
	$(CARGO) clippy --locked --all-targets -p zeitset-companion -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items -p zeitset -p zeitset-testkit
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items -p zeitset-companion
	for script in $(POSIX_SCRIPTS); do sh -n "$$script" || exit 1; done
	for script in $(BASH_SCRIPTS); do bash -n "$$script" || exit 1; done
	scripts/words.sh
	@if command -v codespell >/dev/null; then git ls-files -z | xargs -0 codespell; else echo "lint: spelling is skipped, as codespell is not installed"; fi

## make fmt        format the Rust sources
fmt:
	$(CARGO) fmt --all

## make install    install module, companion and documentation: make install PREFIX=/usr/local DESTDIR=
install: $(MODULE) $(COMPANION)
	install -d "$(DESTDIR)$(MODULE_DIR)" "$(DESTDIR)$(BIN_DIR)" "$(DESTDIR)$(DOC_DIR)/examples"
	install -m 755 "$(MODULE)" "$(DESTDIR)$(MODULE_DIR)/zeitset.so" # a server refuses modules that are not executable
	install -m 755 "$(COMPANION)" "$(DESTDIR)$(BIN_DIR)/zeitset"
	install -m 644 README.md CHANGELOG.md LICENSE docs/operations.md docs/upgrading.md "$(DESTDIR)$(DOC_DIR)"
	install -m 644 packaging/prometheus/zeitset.rules.yml packaging/grafana/zeitset.json "$(DESTDIR)$(DOC_DIR)/examples"
	sed 's|/usr/bin/zeitset|$(BIN_DIR)/zeitset|' packaging/systemd/zeitset-ui.service >"$(DESTDIR)$(DOC_DIR)/examples/zeitset-ui.service"
	{ sed 's|/usr/lib/redis/modules|$(MODULE_DIR)|' packaging/zeitset.conf && sed -n 's/^zeitset\./# &/p' redis.conf.example; } \
	    >"$(DESTDIR)$(DOC_DIR)/examples/zeitset.conf" # the settings stand in the example, commented out here
	@echo "Append $(DOC_DIR)/examples/zeitset.conf to the server's configuration, and restart the server."

## make uninstall  remove what `make install` with the same PREFIX and DESTDIR has installed
uninstall:
	rm -f "$(DESTDIR)$(MODULE_DIR)/zeitset.so" "$(DESTDIR)$(BIN_DIR)/zeitset"
	rm -rf "$(DESTDIR)$(DOC_DIR)"

## make deb        a Debian package in target/, for the release this machine runs
deb: build companion
	@scripts/deb.sh "$(TARGET_DIR)"

## make test-deb   build, install, use and remove the Debian package in a throw-away root; as root, start what the Docker image is made of
test-deb: deb need-redis
	$(CARGO) test --locked --test integration -- --include-ignored package:: container::

## make clean      remove everything built, and the data of `make run`
clean:
	$(CARGO) clean

## make help       this list
help:
	@sed -n 's/^## //p' Makefile

# Not `build`: whoever installs as root may have no Rust there.
$(MODULE):
	$(MAKE) build

$(COMPANION):
	$(MAKE) companion

need-libclang:
	@scripts/need.sh libclang

need-redis:
	@scripts/need.sh redis

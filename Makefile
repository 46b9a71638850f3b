# Every target works from a fresh clone: what it needs is set up by the stamp files it depends on.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 2
PARALLEL := $(PYTEST) -n $(WORKERS) --dist loadfile
SEED ?= 1
PLAN ?= swarm
MINUTES ?= 1
COUNT ?= 10000
CHAOS_REPORT ?= chaos-report
WAN_SCENARIOS ?= region-lost-under-load owners-region-lost metadata-leaders-region-lost everything-at-work wan-200ms
FETCH_SERVERS := $(VENV)/bin/python -c 'from rhumbline.tests.support.servers import installs as i; i.toxiproxy_binary(); i.etcd_binary()'
AWAY_S ?= 60
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Tests and benchmarks start hundreds of processes. Without byte code each compiles the whole package
# again (0.2 to 0.7 s of CPU).
unexport PYTHONDONTWRITEBYTECODE

# What the tests need besides the base: every optional part.
LOCK_EXTRAS := --extra test --extra arrow --extra typed --extra avro --extra grpc --extra dns --extra zookeeper --extra etcd --extra fdb --extra s3 --extra hdfs --extra otel --extra security --extra iceberg --extra spark --extra console --extra docs
# What the container image holds besides the base: what servers use.
IMAGE_EXTRAS := --extra arrow --extra avro --extra dns --extra etcd --extra grpc --extra hdfs --extra otel --extra s3 --extra security --extra typed --extra zookeeper
UV_COMPILE := UV_CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links pyproject.toml --group build

BENCH ?= write tail read proxy
COMPILED := build/compiled
COMPILED_MADE := $(COMPILED)/.made
PRODUCT := $(shell git ls-files '*.py' ':!tests' ':!docs' ':!.ci')

VENV_MADE := $(VENV)/.made
BASE := $(VENV)/.base
SELF := $(VENV)/.self
FULL := $(VENV)/.full
ARROW := $(VENV)/.arrow

.DEFAULT_GOAL := help
.PHONY: help setup setup-test demo check test test-long tests tests-long format lint types contract tidy stores away cut-off-region game-day migrations sim sim-before sim-many explore scopes linearizability kafka damages spark-many planted-bugs planted-bug region-losses proxy-balance big-cluster chaos chaos-all compiled image bench mutants proxies-many soak shared-topic retention reference vectors clients docs docs-serve wheel-check wheels archive-damages rolling-upgrade rotate-certificates sbom hostile security-drills apache-systems bench-console bench-peers soak-bookie guide-in-namespaces \
	packages proto lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SELF) ## make .venv with what the product needs
setup-test: $(FULL) $(SELF) ## add what the tests need, and every optional part

demo: $(ARROW) ## run three regions on this machine, with an outage; FILE=... sends that file
	@$(BIN)/rhumbline demo $(if $(FILE),"$(FILE)")

check: lint types contract ## run the quick part: lint, types, contract, tidy and unit tests (90 s)
	$(PARALLEL) -m "not long" tests/tidy tests/unit

test: ## test every promise and every real server: setup, lint, types, contract, SBOM, tests (15 minutes)
	@$(PYTHON) .ci/steps.py setup-test lint contract sbom types+tests

test-long: ## test the rest: compiled, Java, soak, planted bugs, all scenarios (40 minutes)
	@$(PYTHON) .ci/steps.py setup-test tests-long

tests: setup-test ## run the tests of `make test`
	$(PARALLEL) -m "not long"

tests-long: setup-test ## run the tests of `make test-long`; those that would begin after LAST_START (Unix time) are skipped
	$(PARALLEL) -m long $(if $(LAST_START),--last-start $(LAST_START))

format: setup-test ## format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lint: setup-test ## run the linter and check the format
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup-test ## check the types of the product, of its tests and of the examples
	$(BIN)/mypy
	$(BIN)/pyright --project docs/examples --pythonpath $(BIN)/python

contract: setup-test ## check the import contract
	$(BIN)/lint-imports

tidy: setup-test ## run the tests of the repository's conventions
	$(PYTEST) tests/tidy

stores: setup-test ## test every metadata store, with faults, and print the results side by side
	$(BIN)/python .ci/stores.py

away: setup-test ## make each metadata store unavailable for a minute: make away AWAY_S=60
	RHUMBLINE_AWAY_S=$(AWAY_S) $(PYTEST) -s tests/integration/stores/test_metadata_outage.py

cut-off-region: CUT_S = 600
cut-off-region: setup-test ## cut a region off for ten minutes and start readers in it (root): make cut-off-region CUT_S=600
	$(FETCH_SERVERS)
	$(BIN)/python -m rhumbline.chaos.lab.partition.cut_off_region --cut $(CUT_S) --plot docs/how-to/cut-off-region.svg

game-day: setup-test ## lose and fill disks, owners and regions, under real alerts (root): make game-day STEPS="lose-disk fill-disk"
	$(BIN)/python -c 'from rhumbline.tests.support.servers import installs as i; i.prometheus_binary(); i.etcd_binary()'
	$(BIN)/python -m rhumbline.chaos.lab.game_day.game_day --plot docs/how-to/game-day.svg --dashboards docs/how-to $(if $(STEPS),--steps $(STEPS))

rolling-upgrade: OLD = 951dc290
rolling-upgrade: PAUSE_S = 3
rolling-upgrade: $(SELF) ## upgrade a cluster under load from a commit to the work tree, and back: OLD=951dc290 PAUSE_S=3
	$(BIN)/python -m rhumbline.chaos.lab.upgrade --old $(OLD) --pause $(PAUSE_S)

hostile: FRAMES = 100000
hostile: CONNECTIONS = 10000
hostile: $(SELF) ## attack every port of a local cluster, and time an application meanwhile: FRAMES=1000000
	GRPC_VERBOSITY=NONE $(BIN)/python -m rhumbline.chaos.lab.hostile --frames $(FRAMES) --connections $(CONNECTIONS)

apache-systems: $(SELF) ## run Pulsar, DistributedLog, and BookKeeper's client, shell and autorecovery on our bookies
	$(BIN)/python -m pytest -s tests/interop

security-drills: $(SELF) ## expire certificates, revoke a principal and change the authority under load: DRILLS=principal-revoked
	GRPC_VERBOSITY=NONE $(BIN)/python -m rhumbline.chaos.lab.drills $(DRILLS)

guide-in-namespaces: setup-test ## follow the guide for three regions, with network namespaces as hosts (root)
	$(FETCH_SERVERS)
	$(BIN)/python -u -m rhumbline.chaos.lab.guide

rotate-certificates: PAUSE_S = 10
rotate-certificates: $(SELF) ## replace all certificates of three regions, including the authority, under load: PAUSE_S=10
	$(BIN)/python -m rhumbline.chaos.lab.certificates --pause $(PAUSE_S)

sbom: setup-test ## list every dependency with its hashes as CycloneDX, in build/rhumbline.cdx.json
	@mkdir -p build
	@# A list of requirements has no graph of dependencies, which the library warns about.
	$(BIN)/python -W "ignore:The Component this BOM:UserWarning" -m cyclonedx_py \
		requirements requirements.lock --pyproject pyproject.toml --mc-type library --sv 1.6 --output-reproducible -o build/rhumbline.cdx.json

migrations: setup-test ## kill metadata migrations at every step, on real servers under a stream
	RHUMBLINE_KILL_EVERY=1 $(PYTEST) -s tests/integration/stores/test_stream_across_migrations.py

sim: $(SELF) ## replay one simulated run with a readable trace: make sim SEED=7
	$(BIN)/python -m rhumbline.chaos.simulation --plan $(PLAN) --seed $(SEED) $(if $(KEEP),--keep $(KEEP))

sim-before: $(SELF) ## replay a seed on an older commit: make sim-before COMMIT=dfd10aa PLAN=changes SEED=7
	@folder=$$(mktemp -d) && trap 'rm -rf '$$folder EXIT && git clone -q . $$folder/rhumbline && cd $$folder/rhumbline && \
	today=$$(git rev-parse HEAD) && git checkout -q $(COMMIT) && git checkout -q $$today -- chaos && cd .. && \
	PYTHONPATH=$$folder $(CURDIR)/$(BIN)/python -m rhumbline.chaos.simulation --plan $(PLAN) --seed $(SEED) --brief

sim-many: PLAN = everything
sim-many: $(SELF) ## run seeds until time is up: make sim-many MINUTES=20 SHARES=races=3,damage=0
	$(BIN)/python -m rhumbline.chaos.simulation --plan $(PLAN) --seed $(SEED) --many $(MINUTES) $(if $(SHARES),--shares $(SHARES)) $(if $(PAGE),--page $(PAGE))

explore: $(SELF) ## try every order of events in small scopes: make explore SCOPE=fence MINUTES=5
	$(BIN)/python -m rhumbline.chaos.exploration $(SCOPE) --seconds $$(($(MINUTES) * 60)) $(if $(SAVE),--save $(SAVE))

scopes: $(SELF) ## exhaust all scopes, plant bugs in copies of the code, and write the page of results
	$(BIN)/python -m rhumbline.chaos.exploration --seconds 3600 $(if $(SAVE),--save $(SAVE)) --page docs/reference/scopes.md
	$(BIN)/python -m rhumbline.chaos.exploration --bugs --seconds 120 --page docs/reference/scopes.md

linearizability: OPERATIONS = 100000
linearizability: $(SELF) ## check simulated runs with Porcupine (Go): make linearizability OPERATIONS=100000
	$(BIN)/python -m rhumbline.chaos.linearizability --operations $(OPERATIONS) --seed $(SEED)

kafka: SECONDS = 120
kafka: setup-test ## run Jepsen's workload for Kafka through proxies, under faults, and find anomalies: SECONDS=120
	$(BIN)/python -m rhumbline.chaos.kafka --seconds $(SECONDS) --seed $(SEED)

planted-bugs: $(SELF) ## plant each known bug in a copy of the code; the checker must find it
	$(BIN)/python -m rhumbline.chaos.planted_bugs --page docs/reference/planted-bugs.md

planted-bug: $(SELF) ## plant one bug and run one seed: make planted-bug NAME=b5 SEED=1
	$(BIN)/python -m rhumbline.chaos.planted_bugs $(NAME) --seed $(SEED) --seeds 1

region-losses: $(SELF) ## compare the planner with simulated losses of regions, and write the table
	$(BIN)/python -m rhumbline.chaos.simulation.region_losses

proxy-balance: $(SELF) ## simulate the balance of 100 write proxies under skewed and shifting loads, and draw it
	$(BIN)/python -m rhumbline.chaos.simulation.balance --plot docs/how-to/proxy-balance.svg

big-cluster: STREAMS = 1000000
big-cluster: $(SELF) ## model 1,000 bookies and 1 million streams: placement, losses, growth; writes page and plots: STREAMS=200000
	$(BIN)/python -m rhumbline.chaos.simulation.capacity --streams $(STREAMS) --seed $(SEED) --page docs/explanation/capacity.md \
		--json docs/explanation/capacity.json

chaos: setup-test ## rehearse outages: every scenario simulated, some with real processes
	$(BIN)/rhumbline chaos run --all --report $(CHAOS_REPORT)
	$(FETCH_SERVERS)
	$(BIN)/rhumbline chaos run $(WAN_SCENARIOS) --world wan --report $(CHAOS_REPORT)
	$(BIN)/rhumbline chaos report $(CHAOS_REPORT)

chaos-all: setup-test ## rehearse every outage, simulated and with real processes where it has both (15 minutes)
	$(BIN)/rhumbline chaos run --all --report $(CHAOS_REPORT)
	$(FETCH_SERVERS)
	$(BIN)/rhumbline chaos run --all --world wan --report $(CHAOS_REPORT)
	$(BIN)/rhumbline chaos report $(CHAOS_REPORT)

bench-console: setup-test ## time the web console with 102 bookies and 10,000 streams, and search 100,000
	CONSOLE_SIZE="102 10000 100000" CONSOLE_ROUNDS=10 CONSOLE_COST_S=20 $(PYTEST) -s tests/integration/console/test_console_at_scale.py

spark-many: KILLS = 10
spark-many: setup-test ## kill the driver of a Spark query many times: make spark-many KILLS=30
	RHUMBLINE_SPARK_KILLS=$(KILLS) $(PYTEST) tests/integration/spark/test_streaming_is_exactly_once.py

damages: setup-test ## damage a bookie's files at random, index first, and count what breaks: make damages COUNT=100000
	$(BIN)/python -m rhumbline.tests.crash.damages $(COUNT)

archive-damages: COUNT = 2000
archive-damages: FIRST = 1
archive-damages: setup-test ## damage the objects of an archive and its table at random; verify and readers must notice: COUNT=500 FIRST=501
	$(BIN)/python -m rhumbline.tests.crash.archive_damages $(COUNT) $(FIRST)
	$(BIN)/python -m rhumbline.tests.crash.table_damages 500 $(SEED)

mutants: SAMPLE = 0
mutants: ONLY = core/protocol core/ledger core/bookie
mutants: setup-test ## change the code a little and see which tests fail: make mutants ONLY=core/protocol SAMPLE=300 SEED=1
	$(BIN)/python -m rhumbline.tests.mutants $(ONLY) --sample $(SAMPLE) --seed $(SEED) $(if $(PAGE),--page $(PAGE))

image: setup-test ## build the container image from Debian's packages (root, mmdebstrap and buildah): make image
	deploy/container/build.sh

compiled: $(COMPILED_MADE) ## make the compiled form of the package, as a wheel and for `make bench`

bench: $(COMPILED_MADE) ## measure the compiled form on this machine: make bench BENCH="write tail"
	for part in $(BENCH); do PYTHONPATH=$(COMPILED) $(BIN)/rhumbline bench $$part || exit 1; done

bench-peers: PEERS = ../shared/peers
bench-peers: SECONDS = 5
bench-peers: REPETITIONS = 2
bench-peers: $(COMPILED_MADE) ## measure DistributedLog, Kafka and JetStream beside this system (25 minutes): PEERS=../shared/peers
	PYTHONPATH=$(COMPILED) $(BIN)/python -m rhumbline.bench.peers --peers $(PEERS) --work build/peers \
		--seconds $(SECONDS) --repetitions $(REPETITIONS) --page docs/reference/benchmarks.md

proxies-many: ROUNDS = 20
proxies-many: setup-test ## stop proxies repeatedly, real and simulated ones: ROUNDS=20
	$(PYTEST) tests/integration/proxies/test_owners_and_regions_are_lost_under_load.py \
		tests/sim/test_two_owners_keep_invariants.py \
		tests/sim/test_proxies_survive_faults.py --seeds $(ROUNDS) -s

soak: MINUTES = 60
soak: $(SELF) ## run all workloads at once, plot them by the minute, and check that nothing grows: make soak MINUTES=60
	GRPC_VERBOSITY=NONE $(BIN)/python -m rhumbline.bench.soak --minutes $(MINUTES) --plot docs/how-to/soak.svg

soak-bookie: setup-test ## stress one real bookie: make soak-bookie MINUTES=10
	SOAK_MINUTES=$(MINUTES) $(PYTEST) tests/soak/test_bookie_soak.py -s

shared-topic: SECONDS = 600
shared-topic: setup-test ## 16 producers and 8 consumers share a topic through proxies, under kills: SECONDS=600
	$(BIN)/python -m rhumbline.bench.shared_topic.shared_topic --seconds $(SECONDS)

retention: setup-test ## write under a TTL and watch the disks of real bookies: make retention MINUTES=10
	RETENTION_MINUTES=$(MINUTES) $(PYTEST) tests/integration/test_retention_keeps_disk_use_flat.py -s

reference: $(SELF) ## write the reference pages (commands, settings, metrics, gRPC, machines, contracts), and dashboards
	$(BIN)/python -m rhumbline.cli.reference docs/reference deploy/grafana

vectors: $(SELF) ## write the test vectors of record sets, for decoders in other languages
	$(BIN)/python -m rhumbline.cli.reference.record_set_vectors docs/examples/record-sets

clients: setup-test ## make the stubs of Go, TypeScript and Java, and test the example clients with kills
	$(PYTEST) tests/integration/proxies/test_other_languages_survive_kills.py -s

MERMAID := docs/javascripts/mermaid.min.js

docs: setup-test $(MERMAID) ## build the documentation site into build/site; any warning fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

docs-serve: setup-test $(MERMAID) ## show the documentation site on http://127.0.0.1:8000 while you edit
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

# Diagrams are text in the pages. Without npm the site still builds, and shows that text.
$(MERMAID):
	@mkdir -p $(@D)
	@if command -v npm >/dev/null; then folder=$$(mktemp -d) && (cd $$folder && npm pack --silent mermaid@11 >/dev/null && \
	tar -xzf mermaid-*.tgz package/dist/mermaid.min.js) && mv $$folder/package/dist/mermaid.min.js $@; rm -rf $$folder; fi

wheel-check: setup-test ## build both wheels and try them in a bare environment
	$(PYTEST) tests/wheel

wheels: setup-test ## build, install and try the compiled wheel with every Python of this machine
	$(PYTEST) -s tests/wheel/test_every_python.py

$(COMPILED_MADE): $(FULL) $(SELF) pyproject.toml .ci/compiled.py $(PRODUCT)
	$(BIN)/python .ci/compiled.py $(COMPILED)
	@touch $@

$(VENV_MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(BASE): requirements.lock | $(VENV_MADE)
	$(PIP) install --require-hashes -r requirements.lock
	@touch $@

$(SELF): pyproject.toml lab/pyproject.toml $(BASE)
	$(PIP) install --no-deps --no-build-isolation --editable . --editable lab
	@touch $@

$(ARROW): requirements-test.lock $(SELF)
	sed -n '/^pyarrow==/,/[^\\]$$/p' requirements-test.lock > $(VENV)/arrow.lock
	$(PIP) install --require-hashes -r $(VENV)/arrow.lock
	@touch $@

# Modules are compiled when they are first imported, which most of these never are.
$(FULL): requirements-test.lock $(BASE)
	$(PIP) install --no-compile --require-hashes -r requirements-test.lock
	@touch $@

lock: | $(VENV_MADE) ## resolve the dependencies and write the lock files
	$(PIP) install uv
	$(UV_COMPILE) $(LOCK_EXTRAS) --upgrade --output-file requirements-test.lock
	$(UV_COMPILE) --constraint requirements-test.lock --upgrade --output-file requirements.lock
	$(UV_COMPILE) $(IMAGE_EXTRAS) --constraint requirements-test.lock --upgrade --output-file deploy/container/requirements.lock

packages: ## write the list of packages in pyproject.toml
	$(PYTHON) .ci/packages.py --write

proto: setup-test ## write the Python stubs of the .proto files
	$(BIN)/python .ci/protos.py .typecheck

clean: ## remove what the other targets made, including .venv
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

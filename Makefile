# Targets a contributor needs. Budgets are seconds on a 2-core machine; a suite
# that exceeds its budget fails. Longer runs belong to `make stress`.
GO       ?= go
SUITE    := ./.ci/suite
UNIT     := $$($(GO) list ./... | grep -v -e /compat -e /integration)
ALLOC    := $$(grep -rlE 'func Test[A-Za-z]*Alloc' --include='*_test.go' . | xargs -n1 dirname | sort -u)
JARS     := compat/.cache

.PHONY: help build run test deps lint unit alloc examples compat official integration bench stress fuzz clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 14

build: ## bin/gantry, and beside it the scripts with RocketMQ's names
	$(GO) build -o bin/gantry ./cmd/gantry
	cp dist/* bin/

run: build ## name server and broker in one process, store in ./data
	./bin/gantry standalone --store ./data

test: deps build lint unit alloc examples integration compat official ## everything CI runs, at most 65 minutes

deps: ## Go modules, Maven artifacts, and on Debian a JDK, Maven and gcc when missing
	$(SUITE) modules 300 $(GO) mod download
	$(SUITE) deps 600 ./compat/setup.sh

lint: ## gofmt and go vet
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt needed: $$out"; exit 1; }
	$(SUITE) vet 60 $(GO) vet ./...

unit: ## every package but compat and integration, with the race detector and its own checks
	$(SUITE) unit 480 $(GO) test -race -tags invariants $(UNIT)

alloc: ## allocation guards of the hot paths; they mean nothing under -race
	$(SUITE) alloc 60 $(GO) test -run Alloc $(ALLOC)

examples: deps ## the first messages of the README compile
	$(SUITE) examples 40 sh -ec "cd examples/go && $(GO) vet . && cd ../java && \
		javac -proc:none -d target/classes -cp '../../$(JARS)/client-5.5.0/*' src/main/java/*.java"

integration: build ## our processes as processes: crash, lock, store swap, source tree rules
	$(SUITE) integration 600 $(GO) test -count=1 -timeout 20m ./integration/...

compat: build ## real clients and the Java servers; writes compat/MATRIX.md
	$(SUITE) compat 1200 $(GO) test -count=1 -timeout 25m $$($(GO) list ./compat/... | grep -v compat/official)

official: build ## RocketMQ's own integration tests against Gantry (a part; all of them in stress); writes into compat/MATRIX.md
	$(SUITE) official 600 $(GO) test -count=1 -timeout 16m ./compat/official/...

bench: build ## Gantry beside the Java broker, one table of ratios (about 5 minutes)
	./bin/gantry bench compare --java-lib $(JARS)/server-5.5.0

stress: build ## long randomized runs
	GANTRY_STRESS=1 $(GO) test -count=1 -timeout 2h ./store/... ./remoting/... ./integration/... ./compat/...

fuzz: ## each fuzz target for a minute
	@for p in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$p | grep ^Fuzz); do \
		echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 60s $$p || exit 1; done; done

clean: ## what was built, and the store of `make run`
	rm -rf bin data examples/java/target

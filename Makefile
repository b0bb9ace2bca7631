# Short names for what .ci/run does; the script is the truth.

.PHONY: all build test race pollers pages fuzz lint cross bench bench-results desk cluster ci long

all: build test

build:
	go build ./...

test:
	go test ./...

race pages:
	go run ./scripts/gate $@

pollers:
	go run ./scripts/gate net select poll

cross desk:
	.ci/run $@

fuzz bench:
	scripts/long $@

lint:
	.ci/run format vet staticcheck

# bench/RESULTS.md and its pictures; takes about 40 minutes and wants an otherwise idle machine.
bench-results:
	cd bench && go run . results

# Three Desks on PostgreSQL and NATS behind a proxy: docs/desk-cluster.md.
cluster:
	go run ./scripts/cluster

ci:
	.ci/run

long:
	scripts/long

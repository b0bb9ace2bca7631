# Short names for what .ci/run does; the script is the truth.

.PHONY: all build test race pollers fuzz lint cross browser bench bench-results desk ci

all: build test

build:
	go build ./...

test:
	go test ./...

race:
	.ci/run test

pollers fuzz cross browser bench desk:
	.ci/run $@

lint:
	.ci/run format vet staticcheck

# bench/RESULTS.md and its pictures; takes a little less than 20 minutes and wants an otherwise idle machine.
bench-results:
	cd bench && go run . results

ci:
	.ci/run

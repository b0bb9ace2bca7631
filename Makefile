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

# The figures of bench/README.md; takes 15 to 20 minutes and wants an otherwise idle machine.
bench-results:
	cd bench && for c in echo hop topologies writes paused idle timers rings lanes pools http http-idle ws ws-idle ws-broadcast tls handshakes; do go run . $$c || exit; done

ci:
	.ci/run

# shellcheck shell=bash
# What .ci/run and scripts/long have in common: steps that are printed with their duration and processor time, and the way to other systems.
# Both source it with all_steps set and call "main", the words of the command line behind it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CI=true
unset EDDY_POLLER EDDY_LEAKS
export GOFLAGS="${GOFLAGS:-} -gcflags=all=-dwarf=false" # no debugger looks at what is built here, and its tables are a sixth of the compilers' time

readonly modules="interop interop/connect rpc/dubbo rpc/grpcgo otel rpc/discovery/etcd rpc/discovery/zookeeper cmd/eddy/full" # each with its own go.mod
readonly staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# patiently COMMAND...: again after a pause, four times at most, for what comes over a network.
patiently() {
	local pause
	for pause in 5 15 45; do
		"$@" && return
		echo "failed, once more in $pause s: $*"
		sleep "$pause"
	done
	"$@"
}

# compiling COMMAND...: where Go's compilers and readers of source run, whose collector takes an eighth of their time as it is.
compiling() {
	GOGC=400 "$@"
}

# programs PROGRAM[,OTHER...][=PACKAGES]...: installs the packages, by default of the same name, of those programs that no name is found of.
# A name with a slash is a file.
programs() {
	local program name
	local -a names missing=()
	for program in "$@"; do
		for name in $(tr , ' ' <<<"${program%%=*}"); do
			if command -v "$name" >/dev/null || [[ $name == */* && -e $name ]]; then continue 2; fi
		done
		read -r -a names <<<"${program#*=}"
		missing+=("${names[@]}")
	done
	if ((${#missing[@]} > 0)); then
		echo "installing ${missing[*]}"
		export DEBIAN_FRONTEND=noninteractive
		local -ra apt=(apt-get -q -o DPkg::Lock::Timeout=600 -o Acquire::Retries=5) # another process may hold the lock
		patiently "${apt[@]}" update
		patiently "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
	fi
}

# Everything the tests use besides Go: a browser for the page tests, and one that only draws, gcc for the race detector and the C baseline, node and npm for the page
# scripts and the rules that check pages, curl, openssl and wrk as clients of other people, PostgreSQL for Desk's store, versitygw for its files, ZooKeeper for the registry. And the modules, so that no later step waits for a network.
# gcc comes first: without it Go compiles other packages. While the rest comes over the network, the packages that vet reads are compiled.
step_tools() {
	local rest
	programs gcc="gcc libc6-dev"
	programs chromium,chromium-browser,google-chrome=chromium chromium-headless-shell,chrome-headless-shell,headless-shell=chromium-headless-shell node=nodejs npm curl="curl ca-certificates" openssl wrk \
		postgres,/usr/lib/postgresql/15/bin/postgres=postgresql /usr/share/java/zookeeper.jar=zookeeper &
	rest=$!
	patiently go mod download
	(cd rpc/discovery/etcd && patiently go mod download)
	(cd rpc/discovery/zookeeper && patiently go mod download)
	(cd cmd/eddy/full && patiently go mod download)
	(cd bench && patiently go mod download)
	if kill -0 "$rest" 2>/dev/null; then compiling go vet ./... >/dev/null 2>&1 || true; fi # what vet says is for its step to tell
	(cd interop/versitygw && compiling patiently go tool -n versitygw) # builds it, once
	wait "$rest"
	go version
	gcc --version | head -n 1
}

# find_versitygw: the object store that step_tools has built is found by its name from now on.
find_versitygw() {
	local built
	built=$(go -C interop/versitygw tool -n versitygw)
	export PATH=${built%/*}:$PATH
}

# What differs between systems is in the core, and nothing depends on the processor but by the size of a word: where the applications' libraries
# do not go, and on the second processor of a system, the core is asked alone.
readonly core="./internal/... ./buf/... ./executor/... ./ring/... ./codec/... ./responder/... ."

# on_system SYSTEM/PROCESSOR COMMAND... Without optimisation: nothing of it runs, and it compiles in three quarters of the time.
on_system() {
	local target=$1
	shift
	echo "$target: $*"
	CGO_ENABLED=0 GOFLAGS="'-gcflags=all=-N -l -dwarf=false'" GOOS=${target%/*} GOARCH=${target#*/} "$@"
}

# run_step STEP: what the step prints and its end; $scratch/STEP.time says how many seconds it took and how much processor time.
run_step() (
	set +e
	from=$SECONDS
	printf '\n== %s\n' "$1"
	(
		set -e
		"step_$1" </dev/null
	)
	status=$?
	((status == 0)) || echo "== $1 FAILED"
	times >"$scratch/$1.times" # the second line is that of the children
	printf '%d %s\n' $((SECONDS - from)) "$(tail -n 1 "$scratch/$1.times")" >"$scratch/$1.time"
	exit "$status"
)

# run_steps STEP...: all run even if one fails, and the end names those that did.
run_steps() {
	local -a failed=() durations=()
	local step status seconds processors
	for step in "$@"; do
		set +e # and not "run_step || …": behind a condition bash ignores the step's own set -e, and only its last command would count
		run_step "$step"
		status=$?
		set -e
		((status == 0)) || failed+=("$step")
		read -r seconds processors <"$scratch/$step.time"
		durations+=("$(printf '%-12s %4d s, processors %s' "$step" "$seconds" "$processors")")
	done
	printf '\n== summary\n'
	printf '%s\n' "${durations[@]}" "$(printf '%-12s %4d s' total "$SECONDS")"
	[[ ! -e $scratch/unsteady ]] || cat "$scratch/unsteady"
	if ((${#failed[@]} > 0)); then
		echo "failed: ${failed[*]}"
		return 1
	fi
	echo "all passed"
}

main() {
	local step
	if [[ ${1:-} == list ]]; then
		printf '%s\n' "${all_steps[@]}"
		return
	fi
	for step in "$@"; do
		declare -F "step_$step" >/dev/null || {
			echo "no step \"$step\"; the steps are: ${all_steps[*]}" >&2
			return 2
		}
	done
	if (($# > 0)); then run_steps "$@"; else run_steps "${all_steps[@]}"; fi
}

#!/usr/bin/env bash
# Runs a fuzz target on its corpus with changes (replay_main.c), in the build with sanitizers.
#
#   mutated.sh TARGET FALLBACK CORPUS COUNT SECONDS
#
# The fallback is that of this build, for where make has not built the other one.
set -euo pipefail
target=$1 fallback=$2
shift 2
program=$(dirname "$0")/../../build/asan/tests/fuzz/$target
if [[ ! -x $program ]]; then
    if [[ ${CI:-} == true ]]; then
        echo "$program is missing: make test builds it" >&2
        exit 1
    fi
    program=$fallback
fi
echo "$program"
exec "$program" "$@"

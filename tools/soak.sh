#!/usr/bin/env bash
# The long tests: those that ctest keeps for the configuration "soak" (simulation with
# fresh seeds, crash loops, the whole fault matrix), then every fuzzer for a while.
#
#   SIM_SECONDS    for the simulator, 600 by default
#   CRASH_KILLS    of the crash loop, 1000 by default
#   NODE_KILLS     of nodes over Redis Cluster, Kafka and PostgreSQL, 200 by default
#   GENERATOR_SECONDS  of bad requests to a build with sanitizers, 3600 by default
#   MATRIX_PAUSE   seconds that an engine is stopped for, 20 by default
#   DAMAGE_ROUNDS  of each cell of the sweep of damage to a data folder, 40 by default
#   FUZZ_SECONDS   for each fuzzer, and for each corpus with changes, 600 by default
#   TALLY_SEED     of tests that draw lots; a new one by default, which is printed
#
# What a fuzzer finds new is kept in build/fuzz/corpus, what it breaks in build/fuzz/found.
set -euo pipefail
cd "$(dirname "$0")/.."

slots=$((2 * $(nproc)))
export TALLY_SEED=${TALLY_SEED:-$(date +%s)}
echo "TALLY_SEED=$TALLY_SEED"
seconds=${FUZZ_SECONDS:-600}

tools/setup.sh check
make --no-print-directory build

cmake --preset dev --log-level=WARNING -DTALLY_SOAK_SECONDS="${SIM_SECONDS:-600}" \
    -DTALLY_SOAK_KILLS="${CRASH_KILLS:-1000}" -DTALLY_SOAK_NODE_KILLS="${NODE_KILLS:-200}" \
    -DTALLY_SOAK_PAUSE="${MATRIX_PAUSE:-20}" -DTALLY_SOAK_GENERATOR="${GENERATOR_SECONDS:-3600}" \
    -DTALLY_SOAK_DAMAGE="${DAMAGE_ROUNDS:-40}" -DTALLY_SOAK_MUTATION_SECONDS="$seconds"
cmake --build --preset dev
cmake --preset asan --log-level=WARNING
cmake --build --preset asan --target tallyd fuzz_targets
ctest --preset dev -C soak -L soak --no-tests=ignore -j "$slots"

cmake --preset fuzz --log-level=WARNING
cmake --build --preset fuzz --target fuzz_targets
mkdir -p build/fuzz/found
for source in tests/fuzz/fuzz_*.c; do
    target=$(basename "$source" .c)
    name=${target#fuzz_}
    mkdir -p "build/fuzz/corpus/$name"
    echo "$target: $seconds s"
    "build/fuzz/tests/fuzz/$target" -max_total_time="$seconds" -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="build/fuzz/found/$name-" "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name"
done

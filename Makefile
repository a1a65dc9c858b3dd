# The menu. The build itself is CMake's: see CMakeLists.txt and CMakePresets.json.

ARGS ?=
JOBS := $(shell nproc)
# Of ctest: tests with servers wait more than they compute. tests/CMakeLists.txt says who takes how many.
SLOTS := $(shell expr 3 \* $(JOBS))
SOURCES = $(shell git ls-files '*.c' '*.h')
SCRIPTS = $(shell git ls-files '*.sh' .ci/run)

.DEFAULT_GOAL := menu
.PHONY: menu run build test sanitize check bench screenshots soak format clean \
        check-format check-scripts tidy cppcheck asan tsan

menu:
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1 \2/p' Makefile | awk '{ printf "  %s %-11s", $$1, $$2; \
	  $$1 = $$2 = ""; print $$0 }'

run: build ## build what is missing and start tallyd; ARGS="--help" passes flags
	@exec build/tallyd $(ARGS)

build: ## the release build: build/tallyd and build/tally
	@tools/setup.sh run
	@tools/page.sh
	@cmake --preset release -Wno-dev --log-level=WARNING
	@cmake --build --preset release --target tallyd tally manual
	@ln -sfn release/tallyd build/tallyd
	@ln -sfn release/tally build/tally

test: build ## build and run all tests
	@tools/setup.sh test
	@cmake --preset dev --log-level=WARNING
	@cmake --build --preset dev
	@cmake --preset asan --log-level=WARNING
	@cmake --build --preset asan --target tallyd fuzz_targets
	@ctest --preset dev -j $(SLOTS)

sanitize: ## unit, contract and transcript tests under ASan and UBSan, those with threads under TSan
	@$(MAKE) --no-print-directory asan SOME="-R '^(unit|contract|transcript|fuzz)/' -E _mutated"
	@$(MAKE) --no-print-directory tsan SOME='-L threads' BUILT='--target thread_tests'

check: check-format check-scripts tidy cppcheck asan tsan ## format, layers, linters, sanitizers

bench: build ## measure against Redis, print the table; ARGS passes flags
	@tools/setup.sh bench
	@cmake --build --preset release
	@bench/run $(ARGS)

screenshots: build ## pictures of the web page, in build/screenshots
	@tools/setup.sh test
	@npm --prefix web run --silent screenshots

soak: ## hours of simulation, kills, faults and fuzzing; CONTRIBUTING.md has its bounds
	@tools/soak.sh

format: ## format all C sources
	@tools/setup.sh check
	@clang-format -i $(SOURCES)

clean: ## remove all builds; data stays
	@rm -rf build

# --- the parts of check ---------------------------------------------------------------------------

check-format:
	@tools/setup.sh check
	@clang-format --dry-run --Werror $(SOURCES)
	@tools/check-layers.sh

check-scripts:
	@shellcheck $(SCRIPTS)

tidy:
	@cmake --preset dev --log-level=WARNING
	@run-clang-tidy -quiet -j $(JOBS) -p build/dev "$(CURDIR)/src/.*\.c"

# Left out: our compilers shift signed numbers as we mean it, and clang-tidy is better at what is
# not initialised.
cppcheck:
	@cppcheck --quiet --error-exitcode=1 --std=c11 --inline-suppr -j $(JOBS) -D_GNU_SOURCE \
	  -DTALLY_VERSION='""' --enable=warning,portability,performance \
	  --suppress=shiftTooManyBitsSigned --suppress=uninitvar -Isrc src

# librdkafka is not made for TSan: a process ends as soon as it uses it.
tsan: LEFT_OUT = -LE kafka -E '^unit/log/kafka'

asan tsan:
	@cmake --preset $@ --log-level=WARNING
	@cmake --build --preset $@ $(BUILT)
	@ctest --preset $@ -j $(SLOTS) $(SOME) $(LEFT_OUT)

#!/bin/sh
# Installs what is missing: setup.sh run | packages | test | check | bench
#
#   run       what it takes to build tallyd, and Node for its page, unless TALLY_NO_PAGE is set
#   packages  and to test it, as far as it comes as Debian packages
#   test      and the rest of that: other people's clients, Apache Kafka, Python programs
#   check     and to lint, format and fuzz it
#   bench     what it takes to measure it against others
#
# Looks first, so that it takes a moment when nothing is missing. Debian packages
# need root or sudo; Kafka comes from Maven Central, Python programs from PyPI.
set -eu
cd "$(dirname "$0")/.."

run="gcc libc6-dev make cmake ninja-build pkg-config libuv1-dev libxxhash-dev libgmp-dev
libsqlite3-dev libjansson-dev libhiredis-dev libedit-dev libpq-dev librdkafka-dev"
test="git libcmocka-dev redis-server redis-tools python3 python3-venv python3-redis python3-yaml
python3-jsonschema python3-psycopg2 strace sqlite3 curl tmux mandoc postgresql-15 kcat chromium
fonts-liberation"
bench="redis-server redis-tools python3 python3-redis python3-psycopg2 valgrind wrk nginx-light
postgresql-15 kcat"
check="clang clang-format clang-tidy libclang-rt-14-dev cppcheck shellcheck"

say() {
    echo "setup: $*" >&2
}

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing_of() {
    for package; do
        is_installed "$package" || printf '%s ' "$package"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        say "not root, and there is no sudo; as root, run: $*"
        exit 1
    fi
}

# A package may start its service when it is installed; a policy file is Debian's way
# to say no. Ours is there for the time of the installation only.
policy=/usr/sbin/policy-rc.d

install_packages() {
    say "installing $*"
    ours=
    if [ ! -e $policy ]; then
        ours=yes
        printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
        as_root chmod 755 $policy
        trap 'as_root rm -f $policy' EXIT
    fi
    # Hundreds of small files, each synced, unless the machine is thrown away afterwards anyway.
    unsafe=
    [ "${CI:-}" != true ] || unsafe="-o Dpkg::Options::=--force-unsafe-io"
    as_root apt-get -q update
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y $unsafe --no-install-recommends \
        install "$@"
    if [ -n "$ours" ]; then
        as_root rm -f $policy
        trap - EXIT
    fi
    # We run private servers of our own; nobody asked for one at every boot.
    for package; do
        case $package in
        redis-server) as_root systemctl --quiet disable redis-server >/dev/null 2>&1 || true ;;
        postgresql-*) as_root systemctl --quiet disable postgresql >/dev/null 2>&1 || true ;;
        esac
    done
}

setup_packages() {
    if ! command -v dpkg-query >/dev/null; then
        say "this is no Debian; if the build fails, install the equivalents of: $*"
        return
    fi
    # shellcheck disable=SC2046,SC2086 # lists of names
    set -- $(missing_of "$@")
    [ $# -eq 0 ] || install_packages "$@"
}

# The HTTP parser is a library on newer systems; Debian 12 has its C sources with Node's.
llhttp_package() {
    if is_installed node-llhttp || ! apt-cache show libllhttp-dev >/dev/null 2>&1; then
        echo node-llhttp
    else
        echo libllhttp-dev
    fi
}

# Node may be there from elsewhere, in a newer version.
node_packages() {
    command -v node >/dev/null || echo nodejs
    command -v npm >/dev/null || echo npm
}

# The page is not needed by the server: who cannot install Node gets one without it.
setup_node() {
    [ -z "${TALLY_NO_PAGE:-}" ] || return 0
    # shellcheck disable=SC2046 # a list of names
    set -- $(node_packages)
    [ $# -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        say "not root, and there is no sudo; for the page, install as root: $*"
        return 0
    fi
    setup_packages "$@"
}

# Java may be there from elsewhere too.
java_packages() {
    command -v java >/dev/null || echo openjdk-17-jre-headless
    command -v mvn >/dev/null || echo maven
}

setup_kafka() {
    tests/servers/kafka/fetch.sh >/dev/null ||
        say "without Apache Kafka the tests that need it are skipped, or fail where CI=true"
}

setup_clients() {
    clients=tests/system/clients
    [ -e $clients/package-lock.json ] || return 0
    installed=$clients/node_modules/.package-lock.json
    [ -z "$(find $installed -newer $clients/package-lock.json 2>/dev/null)" ] || return 0
    say "installing the clients of $clients"
    npm --prefix $clients ci --no-audit --no-fund --loglevel=error
    touch $installed
}

# Into an environment of its own, in the versions and with the hashes of the list.
setup_venv() {
    list=tests/system/requirements.txt
    to=build/venv
    ! cmp -s $list $to/installed.txt || return 0
    say "installing the Python programs of $list into $to"
    python=/usr/bin/python3
    [ -x $python ] || python=python3
    rm -rf $to
    if $python -m venv $to && $to/bin/pip install --quiet --disable-pip-version-check \
        --require-hashes --only-binary :all: -r $list; then
        cp $list $to/installed.txt
    else
        say "without them the tests that need them are skipped, or fail where CI=true"
    fi
}

setup_test_packages() {
    # shellcheck disable=SC2046,SC2086
    setup_packages $run $(llhttp_package) $test $(node_packages) $(java_packages)
}

case ${1:-} in
run)
    # shellcheck disable=SC2046,SC2086
    setup_packages $run $(llhttp_package)
    setup_node ;;
packages)
    setup_test_packages ;;
test)
    setup_test_packages
    setup_clients
    setup_venv
    setup_kafka ;;
bench)
    # shellcheck disable=SC2046,SC2086
    setup_packages $run $(llhttp_package) $bench $(java_packages)
    setup_kafka ;;
check)
    # shellcheck disable=SC2046,SC2086
    setup_packages $run $(llhttp_package) $test $check $(node_packages) $(java_packages)
    setup_clients
    setup_venv
    setup_kafka ;;
*)
    echo "usage: $0 run|packages|test|check|bench" >&2
    exit 2 ;;
esac

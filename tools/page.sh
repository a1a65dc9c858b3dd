#!/bin/sh
# Builds the page, web/, into build/page/page_files.c, which CMake puts into tallyd.
#
# Looks first, so that it takes a moment when nothing is left to do. Without Node, or with
# TALLY_NO_PAGE=1, there is none, and what tallyd answers at / says so.
set -eu
cd "$(dirname "$0")/.."

node_least=18
out=build/page
installed=web/node_modules/.package-lock.json

say() {
    echo "page: $*" >&2
}

# Why there can be no page; nothing if there can.
hindrance() {
    if [ -n "${TALLY_NO_PAGE:-}" ]; then
        echo "TALLY_NO_PAGE is set"
    elif ! command -v node >/dev/null || ! command -v npm >/dev/null; then
        echo "node or npm is missing"
    elif [ "$(node -p 'process.versions.node.split(".")[0]')" -lt $node_least ]; then
        echo "node $(node --version) is older than $node_least"
    fi
}

is_newer() { # than the file $1: something among the rest
    than=$1
    shift
    [ ! -e "$than" ] || [ -n "$(find "$@" -newer "$than" -print -quit)" ]
}

why=$(hindrance)
if [ -n "$why" ]; then
    say "$why: tallyd is built without its page"
    rm -f $out/page_files.c $out/stamp
    exit 0
fi

if is_newer $installed web/package-lock.json; then # also the tests of the page need them
    say "installing what web/package-lock.json names"
    npm --prefix web ci --no-audit --no-fund --loglevel=error >&2
    touch $installed
fi

if [ -e $out/page_files.c ] &&
    ! is_newer $out/stamp web/src web/public web/tools web/index.html web/*.json web/*.ts; then
    exit 0
fi

mkdir -p $out
touch $out/stamp.next # what changes from now on is for the next build
say "building"
if ! npm --prefix web run --silent build >$out/build.txt 2>&1; then
    cat $out/build.txt >&2
    say "failed; with TALLY_NO_PAGE=1 tallyd is built without its page"
    exit 1
fi
grep gzipped $out/build.txt | grep -v '│' >&2 || true
mv $out/stamp.next $out/stamp

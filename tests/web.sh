#!/usr/bin/env bash
# The tests of the page: web.sh unit | browser [file...]
#
# Those in a browser need the page's packages (tools/page.sh) and the system's Chromium (tools/setup.sh test).
set -euo pipefail
cd "$(dirname "$0")/../web"

missing() {
    echo "skipped: $1"
    [ "${CI:-}" != true ] || exit 1
    exit 77
}

[ -d node_modules ] || missing "the packages of the page are not there: make build"
case $1 in
unit) exec npm run --silent test ;;
browser)
    [ -x "${CHROMIUM:=/usr/bin/chromium}" ] || missing "there is no Chromium: tools/setup.sh test"
    export CHROMIUM
    shift
    exec npm run --silent test:browser -- "$@"
    ;;
esac

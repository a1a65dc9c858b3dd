#!/bin/sh
# Says which #include lines point the wrong way. The table is the architecture:
# a folder on the left may use the folders on its right, and itself.
set -eu
cd "$(dirname "$0")/../src"

may_use() {
    case $1 in
    base)   echo "" ;;
    core)   echo "base" ;;
    net)    echo "base" ;;
    hot)    echo "net core base" ;;
    log)    echo "net core base" ;;
    store)  echo "net core base" ;;
    flow)   echo "core base" ;;
    door)   echo "flow net core base" ;;
    cli)    echo "base" ;;
    server) echo "door flow hot log store net core base" ;;
    *)      echo "?" ;;
    esac
}

status=0
for folder in */; do
    folder=${folder%/}
    allowed=" $folder $(may_use "$folder") "
    for used in $(grep -rhoE '^#include "[a-z_]+/' "$folder" | cut -d'"' -f2 | tr -d / | sort -u); do
        case $allowed in
        *" $used "*) ;;
        *) echo "$folder/ may not use $used/:" >&2
           grep -rnE "^#include \"$used/" "$folder" >&2
           status=1 ;;
        esac
    done
done

# What is pure stays pure: time, randomness, disk and network reach these
# folders through the environment that is passed in, never by a call of their own.
impure='time|clock_gettime|gettimeofday|rand|random|getrandom|read|write|pread|pwrite|open|fsync|fdatasync|socket|send|recv|usleep'
if grep -nE "\\b($impure)\\(" core/*.c hot/memory/*.c log/file/*.c flow/*.c 2>/dev/null |
    grep -vE '(->|\.|_)('"$impure"')\(|^[^:]*:[0-9]+: *(/?\*|//)'; then
    echo "the lines above call the outside world directly; go through struct env" >&2
    status=1
fi
exit $status

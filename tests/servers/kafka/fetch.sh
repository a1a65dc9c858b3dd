#!/bin/sh
# Fetches Apache Kafka, of the version that pom.xml names, from Maven Central into
# build/kafka/<version>, and prints that folder. Takes a moment when it is there.
# $TALLY_KAFKA names another folder that has it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
version=$(sed -n 's|.*<kafka.version>\(.*\)</kafka.version>.*|\1|p' "$here/pom.xml")
place=${TALLY_KAFKA:-$root/build/kafka/$version}

if [ ! -e "$place/complete" ]; then
    for program in java mvn; do
        command -v $program >/dev/null || { echo "kafka: there is no $program" >&2; exit 1; }
    done
    # Whoever comes second waits, and then finds it there.
    mkdir -p "$place"
    exec 9>"$place.lock"
    flock 9
    if [ ! -e "$place/complete" ]; then
        echo "kafka: fetching Apache Kafka $version from Maven Central" >&2
        if ! mvn -q -B -Dstyle.color=never -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
            "-DoutputDirectory=$place" >&2; then
            echo "kafka: Apache Kafka $version could not be fetched from Maven Central" >&2
            exit 1
        fi
        touch "$place/complete"
    fi
fi
echo "$place"

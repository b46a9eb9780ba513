#!/bin/sh
# SPDX-License-Identifier: MIT
# nightly.sh - a backup that every host may start and only one makes.
#
#   nightly.sh SOURCE TARGET
#
# Packs the folder SOURCE into the folder TARGET, which the hosts share, and keeps the newest $KEEP archives (7). Put it
# into the crontab of each host: the first one works, those that come while it does end at once and quietly. A host that
# dies in the middle keeps the others out for half a minute, not for ever.
#
# An archive is written under a temporary name and renamed when it is whole. Before that the script compares fencing
# tokens: a host that was suspended for hours in the middle wakes up with an old one, and leaves the work of its
# successor alone.
set -eu

[ $# -eq 2 ] || {
    echo "usage: nightly.sh SOURCE TARGET" >&2
    exit 64
}
source=$1
target=$2
lock=nightly:$target

# Start again under the lock. It is another host's turn when the lock is taken: that is no error.
[ "${REDLATCH_NAME-}" = "$lock" ] ||
    exec redlatch run --nonblock --conflict-exit-code 0 --max-hold 2h "$lock" -- "$0" "$@"

part=$target/.part-$REDLATCH_TOKEN
trap 'rm -f "$part"' EXIT
trap 'exit 143' TERM

# The highest token that has worked here.
newest()
{
    cat "$target/.token" 2>/dev/null || echo 0
}

must_be_newest()
{
    [ "$(newest)" -le "$REDLATCH_TOKEN" ] || {
        echo "nightly.sh: another host has taken over" >&2
        exit 75
    }
}

must_be_newest
echo "$REDLATCH_TOKEN" >"$target/.token"
tar -czf "$part" -C "$source" .
must_be_newest
mv "$part" "$target/backup-$REDLATCH_TOKEN.tar.gz"
find "$target" -name 'backup-*.tar.gz' | sort -r | tail -n +$((${KEEP-7} + 1)) | while read -r old; do
    rm -f "$old"
done

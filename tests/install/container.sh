#!/usr/bin/env bash
# Builds the image of deploy/container/Dockerfile without a daemon, and tries it: as the user 65532
# it checks a feed, serves, answers, and ends in order. Where no registry is reached, a base image
# like Python's is made of the packages of Debian. `make container-check` runs it.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() { echo "make container-check $1" >&2 && exit 1; }
[ "$(id -u)" = 0 ] || fail "needs root"
command -v buildah >/dev/null || fail "needs buildah: apt-get install buildah"

file=deploy/container/Dockerfile
base=$(sed -n 's/^FROM \(python:[^ ]*\)$/\1/p' "$file")
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
limited() { timeout 1800 "$@"; }
images() { limited buildah --storage-driver vfs --root "$work/root" --runroot "$work/run" "$@"; }

if ! images pull --quiet "$base" 2>"$work/pull"; then
    tail -n 1 "$work/pull" >&2
    command -v mmdebstrap >/dev/null || fail "needs a registry, or mmdebstrap: apt-get install mmdebstrap"
    echo "Making $base of the packages of Debian" >&2
    limited mmdebstrap --quiet --mode=root --variant=minbase \
        --include=ca-certificates,python-is-python3,python3-dev,python3-venv trixie "$work/base.tar"
    made=$(images from scratch)
    images add --quiet "$made" "$work/base.tar" / >/dev/null
    images commit --quiet --rm "$made" "$base" >/dev/null
fi

# The certificates of this machine: a proxy may stand before PyPI.
trusted=/etc/ssl/certs/ca-certificates.crt
images bud --quiet --isolation chroot --volume "$trusted:$trusted:ro" -f "$file" -t muster . >/dev/null

made=$(images from muster)
images add --quiet "$made" docs/feeds/first.yaml /feed.yaml >/dev/null
images run --isolation chroot --env MUSTER_SERVER=http://127.0.0.1:9089 "$made" -- sh -euxc '
    [ "$(id -u):$(id -g) $(stat -c %u:%g /var/lib/muster)" = "65532:65532 65532:65532" ]
    version=$(muster --version)
    echo "$version"
    [ "${version%(compiled)}" != "$version" ]
    muster check /feed.yaml
    timeout 300 muster serve --state /var/lib/muster/state --listen 127.0.0.1:9089 &
    tries=0
    until muster get queues; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ]
        sleep 1
    done
    kill -TERM "$!"
    wait "$!"
    muster store /var/lib/muster/state
'

#!/usr/bin/env bash
# Brings a control plane of Kubernetes for `make test-kubernetes`: etcd and kubectl from Debian's
# packages, and the API server, which Debian has as source only. It is built once, in some ten
# minutes of two cores, and kept in the user's cache.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/muster/kubernetes
# The number grows when it has to be built anew.
server=$cache/kube-apiserver-2
packages=(golang-go golang-github-modern-go-reflect2-dev dpkg-dev jq rsync)
[ ! -x "$server" ] || packages=()
command -v etcd >/dev/null || packages+=(etcd-server)
command -v kubectl >/dev/null || packages+=(kubernetes-client)
if [ -x "$server" ] && [ ${#packages[@]} = 0 ]; then
    echo "The API server is $server"
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! grep -qs '^VERSION_CODENAME=bookworm$' /etc/os-release; then
    echo "The API server is built as root on Debian bookworm, which has its source" >&2
    exit 1
fi
work=$(mktemp -d)
# Packages start their services unless this file says no.
policy=/usr/sbin/policy-rc.d
if [ -e "$policy" ]; then policy=; else printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"; fi
trap 'rm -rf "$work" ${policy:+"$policy"}' EXIT

echo "Installing ${packages[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update >/dev/null
apt-get install --yes --no-install-recommends "${packages[@]}" >/dev/null
[ ! -x "$server" ] || exit 0

echo "Building the API server, which takes some ten minutes" >&2
# The archives that the machine has its packages from have their sources, too.
mkdir -p "$work/lists/partial" "$work/parts"
for list in /etc/apt/sources.list /etc/apt/sources.list.d/debian.*; do
    [ ! -e "$list" ] ||
        sed 's/^Types: deb$/Types: deb-src/; s/^deb /deb-src /' "$list" >"$work/parts/${list##*/}"
done
sources=(-o "Dir::Etc::sourcelist=-" -o "Dir::Etc::sourceparts=$work/parts" -o "Dir::State::lists=$work/lists"
    -o APT::Sandbox::User=root)
apt-get "${sources[@]}" update >/dev/null
mkdir -p "$work/go/src/k8s.io"
cd "$work"
apt-get "${sources[@]}" source --download-only kubernetes >/dev/null
dpkg-source --extract ./*.dsc go/src/k8s.io/kubernetes >/dev/null
cd go/src/k8s.io/kubernetes
# The copy that is among the source does not go with this Go: custom resources crash the server.
rm vendor/github.com/modern-go/reflect2/*.go
cp /usr/share/gocode/src/github.com/modern-go/reflect2/*.go vendor/github.com/modern-go/reflect2/
log=$cache/build.log
mkdir -p "$cache"
GOPATH=$work/go GOCACHE=$work/cache GO111MODULE=off nice make WHAT=cmd/kube-apiserver >"$log" 2>&1 ||
    { tail -20 "$log" >&2 && exit 1; }
cp "$(find _output -type f -name kube-apiserver | head -n 1)" "$server.new"
mv "$server.new" "$server"
echo "The API server is $server"

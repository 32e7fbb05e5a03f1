#!/usr/bin/env bash
# Installs Chromium from Debian's package for the tests of the page, where that can be: as root,
# where apt-get is. It never fails: the tests say why they are skipped.
set -u

for program in chromium chromium-browser google-chrome; do
    command -v "$program" >/dev/null && exit 0
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Chromium is not installed: that takes root and apt-get" >&2
    exit 0
fi
echo "Installing Chromium" >&2
export DEBIAN_FRONTEND=noninteractive
{ apt-get update && apt-get install --yes --no-install-recommends chromium fonts-dejavu-core; } \
    >/dev/null 2>&1 || echo "Chromium could not be installed" >&2
exit 0

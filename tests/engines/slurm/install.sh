#!/usr/bin/env bash
# Installs Slurm and munge from Debian's packages for `make test-engines`, where that can be: as
# root, where apt-get is. Their daemons are not started: the tests start their own. It never fails:
# the tests say why they are skipped.
set -u

PATH=$PATH:/usr/sbin:/sbin
missing=
for program in munged slurmctld slurmd sbatch; do
    command -v "$program" >/dev/null || missing=yes
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Slurm is not installed: that takes root and apt-get" >&2
    exit 0
fi
echo "Installing Slurm and munge" >&2
# Packages start their services unless this file says no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
{ apt-get update && apt-get install --yes --no-install-recommends slurm-wlm munge; } >/dev/null ||
    echo "Slurm could not be installed" >&2
exit 0

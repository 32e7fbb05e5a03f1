#!/usr/bin/env bash
# Starts, reloads and stops muster.service as it is, by a systemd of its own, in namespaces whose
# mounts and network nobody else sees: unshare --mount --pid --net --fork --mount-proc started.sh
# PROJECT PREFIX PACKAGES. It is a manager of a user, so it cannot change to another one: of the unit
# only User= is taken back, and the log is a file.
set -euo pipefail
project=$1 prefix=$2 packages=$3

# What nobody has booted, systemd does not manage.
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/etc /run/manager/systemd/user/muster.service.d
cp -a /etc/. /run/etc && mount --bind /run/etc /etc
mkdir -p /run/python /run/packages /run/source
mount --bind "$prefix" /run/python
mount --bind "$packages" /run/packages
mount --bind "$project" /run/source
mount -t tmpfs tmpfs /opt
mount -t tmpfs tmpfs /var/lib
ip link set lo up

mkdir -p /etc/muster /opt/muster/bin /var/lib/muster
cat >/opt/muster/bin/muster <<'END'
#!/bin/sh
LD_LIBRARY_PATH=/run/python/lib PYTHONPATH=/run/source/core:/run/source/actors:/run/packages exec /run/python/bin/python3 -m muster "$@"
END
chmod +x /opt/muster/bin/muster
cp /run/source/examples/serve/queues.yaml /etc/muster/queues.yaml
install -m 0600 /dev/null /etc/muster/tokens
MUSTER_TOKEN=$(/opt/muster/bin/muster token new ci --role admin --tokens /etc/muster/tokens | head -n 1)
export MUSTER_TOKEN XDG_RUNTIME_DIR=/run/manager
cp /run/source/deploy/systemd/muster.service /run/manager/systemd/user
printf '[Service]\nUser=\nStandardError=append:/run/muster.log\n' >/run/manager/systemd/user/muster.service.d/user.conf

/lib/systemd/systemd --user --unit=basic.target --log-target=console >/run/systemd.log 2>&1 &
tries() {
	for _ in {1..300}; do
		"$@" >/run/said 2>&1 && return
		sleep 0.2
	done
	tail -n 20 /run/said /run/*.log >&2
	systemctl --user status muster >&2
	return 1
}
tries systemctl --user is-system-running
# As root, what is hidden is looked for where the manager of the system has it.
ln -s /run/manager/systemd/inaccessible /run/systemd/inaccessible
systemctl --user start muster
tries /opt/muster/bin/muster get queues
cat /run/said
systemctl --user reload muster
systemctl --user is-active muster
systemctl --user show muster --property=ProtectSystem,ProtectHome,NoNewPrivileges,LimitNOFILE
systemctl --user stop muster
systemctl --user show muster --property=ActiveState,Result,ExecMainStatus
ls /var/lib/muster/state

#!/bin/sh
# Called by the Makefile: installs what integration and e2e tests use. Without root or apt it only
# says what is missing; the tests that need it then skip by name.
set -eu
packages="python3 busybox openssh-server openssh-client openmpi-bin mpich dnsmasq-base iproute2 pdsh podman
buildah crun netavark aardvark-dns iptables uidmap debootstrap libnss-wrapper zsh tcsh fish mksh"
missing=""
for package in $packages; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' ||
        missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "install-system-packages.sh: missing, and not installed without root:$missing" >&2
    exit 0
fi
echo "installing:$missing"
apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null

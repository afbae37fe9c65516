#!/bin/sh
# Install moao and all it needs into an image: what containers/Dockerfile and containers/moao.def do, as root, in Debian 12
# or Ubuntu 24.04. Packages are those of scripts/install-deps.sh. PREFIX (/usr/local) takes the program.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
"$source/scripts/install-deps.sh" --build --demo

# build in a folder of its own: the source may hold objects of another machine
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -C "$source" --exclude=./build --exclude=./.git -cf - . | tar -C "$work" -xf -
make -C "$work" --no-print-directory -j"$(nproc)" all
make -C "$work" --no-print-directory -j"$(nproc)" gpu
make -C "$work" --no-print-directory install prefix="${PREFIX:-/usr/local}"

# In a container one process may not read another's memory, and Open MPI looks for ssh even on one node.
if [ -f /etc/openmpi/openmpi-mca-params.conf ]; then
    {
        echo "btl_vader_single_copy_mechanism = none"
        command -v ssh >/dev/null 2>&1 || echo "plm_rsh_agent = /bin/false"
    } >>/etc/openmpi/openmpi-mca-params.conf
fi
rm -rf /var/lib/apt/lists/*

#!/bin/sh
# Install the packages that moao needs and this machine lacks (Debian 12, Ubuntu 24.04: same names).
#   scripts/install-deps.sh [--build] [--demo] [--test] [--package] [--list]
# --build (the default): compiler and libraries; --demo: also what draws the maps; --test: also what the tests use;
# --package: also what make wheel and make deb use.
# --list only prints the names of what is missing. Says nothing when nothing is missing. MOAO_DEPS=no skips it all.
set -u
build="gcc libc6-dev make pkg-config openmpi-bin libopenmpi-dev libscalapack-openmpi-dev libopenblas-dev
 libfftw3-dev libcfitsio-dev libyaml-dev"
demo="python3 python3-numpy python3-astropy python3-matplotlib python3-plotly python3-tornado"
package="patchelf binutils dpkg-dev python3-venv python3-pip libmpich-dev libscalapack-mpich-dev"
# a|b: the first of these that the distribution has
test="libcmocka-dev clang-format-14|clang-format clang-14|clang-18 libclang-rt-14-dev|libclang-rt-18-dev cppcheck
 valgrind slurm-wlm munge zsh groff-base python3 python3-numpy python3-astropy
 python3-matplotlib python3-plotly python3-tornado patchelf binutils dpkg-dev python3-venv python3-pip python3-nbclient python3-ipykernel python3-selenium chromium|chromium-browser chromium-driver|chromium-chromedriver"

want=""; list=no
for a in "$@"; do
    case $a in
        --build) want="$want $build" ;;
        --demo) want="$want $build $demo" ;;
        --test) want="$want $build $test" ;;
        --package) want="$want $build $package" ;;
        --list) list=yes ;;
        -h|--help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "install-deps: unknown option $a (try --help)" >&2; exit 2 ;;
    esac
done
[ -n "$want" ] || want=$build
[ "${MOAO_DEPS:-}" = no ] && exit 0

say() { echo "install-deps: $*" >&2; }

if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
    say "no apt here; going on with what is installed. Needed (Debian's names):" $want
    exit 0
fi

installed() { [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | cut -c1-2)" = ii ]; }
# names of the wanted packages that are not installed, each once, alternatives kept together
missing() {
    for p in $want; do
        found=no
        for q in $(echo "$p" | tr '|' ' '); do installed "$q" && found=yes; done
        [ $found = yes ] || echo "$p"
    done | sort -u | tr '\n' ' '
}
need=$(missing)
[ -n "$need" ] || exit 0
if [ $list = yes ]; then echo "$need"; exit 0; fi

if [ "$(id -u)" = 0 ]; then as_root="env"
elif command -v sudo >/dev/null 2>&1; then as_root="sudo env"
else
    say "missing: $need"
    say "not root and no sudo: have an administrator install these, or set MOAO_DEPS=no if they are elsewhere"
    exit 1
fi
apt() { $as_root DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"; }

say "installing: $(echo "$need" | sed "s,|[^ ]*,,g")"
log=$(mktemp "${TMPDIR:-/tmp}/install-deps.XXXXXX") || exit 1
trap 'rm -f "$log"' EXIT
apt update >"$log" 2>&1 || { say "warning: apt-get update failed; trying with the lists there are:"; tail -3 "$log" >&2; }
names=""
for p in $need; do
    chosen=${p%%|*}
    for q in $(echo "$p" | tr '|' ' '); do
        if apt-cache show "$q" >/dev/null 2>&1; then chosen=$q; break; fi
    done
    names="$names $chosen"
done
if ! apt install -y --no-install-recommends $names >"$log" 2>&1; then
    tail -15 "$log" >&2
    say "could not install:$names"
    say "install them by hand, or set MOAO_DEPS=no if they are elsewhere"
    exit 1
fi

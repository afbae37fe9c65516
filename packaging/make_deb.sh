#!/bin/sh
# A package of Debian from what `make install prefix=/usr DESTDIR=TREE` left: packaging/make_deb.sh TREE VERSION [DIR [xz|gzip]]  (make deb)
# Depends on the libraries that the program is linked to (dpkg-shlibdeps), on Open MPI's programs and Python's numpy and astropy.
set -eu
tree=$1 version=$2 out=${3:-dist} how=${4:-xz}
[ "$how" = xz ] && level=6 || level=1 # gzip is for tests
for p in dpkg-deb dpkg-shlibdeps; do
    command -v $p >/dev/null 2>&1 || { echo "make_deb: $p not found: scripts/install-deps.sh --package" >&2; exit 2; }
done
arch=$(dpkg --print-architecture)
work=$(mktemp -d "${TMPDIR:-/tmp}/moao-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
# `import moao` of the distribution's Python
mkdir -p "$tree/usr/lib/python3/dist-packages" "$tree/DEBIAN" "$work/debian"
ln -sfn ../../../share/moao/python/moao "$tree/usr/lib/python3/dist-packages/moao"
cp "$tree/usr/share/doc/moao/LICENSE" "$tree/usr/share/doc/moao/copyright"
find "$tree/usr/share/man" -name '*.[15]' -exec gzip -9nf {} +
echo "Source: moao" >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O "$tree/usr/bin/moao" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || { echo "make_deb: dpkg-shlibdeps named no library" >&2; exit 1; }
cat >"$tree/DEBIAN/control" <<END
Package: moao
Version: $version
Architecture: $arch
Maintainer: the moao developers <moao@localhost>
Depends: $depends, openmpi-bin, python3, python3-numpy, python3-astropy
Recommends: python3-matplotlib, python3-plotly, python3-tornado
Installed-Size: $(du -sk --exclude=DEBIAN "$tree" | cut -f1)
Section: science
Priority: optional
Description: simulator of multi-object adaptive optics
 moao predicts Strehl ratios, ensquared energies and point-spread functions of
 open-loop multi-object adaptive optics on very large telescopes from covariances
 of wavefront-sensor slopes, on MPI ranks.
END
# Python's compiled files, which root leaves behind
cat >"$tree/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
find /usr/share/moao/python -name __pycache__ -type d -prune -exec rm -rf {} +
END
chmod 755 "$tree/DEBIAN/prerm"
mkdir -p "$out"
dpkg-deb --root-owner-group -Z"$how" -z$level --build "$tree" "$out/moao_${version}_$arch.deb" >/dev/null
echo "$out/moao_${version}_$arch.deb ($(du -k "$out/moao_${version}_$arch.deb" | cut -f1) kB)"

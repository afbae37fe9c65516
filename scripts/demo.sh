#!/bin/sh
# Run the small shipped case on 2 ranks and draw its maps.  scripts/demo.sh [FOLDER for the results: demo-out]
set -e
cd "$(dirname "$0")/.."
out=${1:-demo-out}
. scripts/mpi-env.sh
mpirun -n 2 "${MOAO:-build/moao}" run params/demo.yaml -o "$out" --overwrite
"${PYTHON:-python3}" scripts/plot_maps.py "$out" -o "$out/maps.png"
echo
echo "maps      $out/maps.fits   (Strehl, ensquared energy, FWHM over the field; docs/outputs.md tells how to read it)"
[ -f "$out/psf.fits" ] && echo "PSFs      $out/psf.fits"
echo "picture   $out/maps.png"
echo "next      copy params/demo.yaml, edit it, and: mpirun -n 2 build/moao run FILE -o FOLDER"

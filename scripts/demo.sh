#!/bin/sh
# Run the small shipped case on 2 ranks and draw its maps.  scripts/demo.sh [--force] [FOLDER for the results: demo-out]
# A folder that holds something else is left alone; --force (make demo FORCE=yes) replaces an earlier demo's results.
set -e
cd "$(dirname "$0")/.."
again=
if [ "${1:-}" = --force ]; then
    again="--overwrite --force"
    shift
fi
out=${1:-demo-out}
moao=${MOAO:-build/moao}
if [ -z "$again" ] && [ -f "$out/effective.yaml" ]; then
    again=--resume # what is finished is not computed again
fi
"$moao" run -n 2 params/demo.yaml -o "$out" $again
"${PYTHON:-python3}" scripts/plot_maps.py "$out" -o "$out/maps.png"
echo
echo "maps      $out/maps.fits   (Strehl, ensquared energy, FWHM over the field; docs/outputs.md"
echo "          tells how to read it)"
[ -f "$out/psf.fits" ] && echo "PSFs      $out/psf.fits"
echo "picture   $out/maps.png"
echo "next      copy params/demo.yaml, edit it, and: $moao run -n 2 FILE -o FOLDER"

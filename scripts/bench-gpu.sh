#!/bin/sh
# Ours, the vendor's and the ceiling for every operation, in one run: a table, CSV, and a roofline picture.
# usage: bench-gpu.sh [BUILD [GROUP...]]     normally through `make bench-gpu`; takes about ten minutes with the large cases.
# Writes $OUT or bench/results/: gpu-DATE.txt, gpu-DATE.csv, gpu-DATE.png
build=${1:-build}
[ $# -gt 0 ] && shift
groups=${*:-shapes trsm few trmm variants sym potrf potri accuracy tribig symmbig potrfbig}
out=${OUT:-bench/results}
name=$out/gpu-$(date +%Y-%m-%d)
[ -n "$MOAO_GPU_PLUGIN" ] || export MOAO_GPU_PLUGIN="$PWD/$build/libmoao_gpu.so"
mkdir -p "$out"
rm -f "$name.csv"
{
    echo "command: scripts/bench-gpu.sh $build $groups"
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    for g in $groups; do
        "$build/bench/gpu/bench_dense" --csv "$name.csv" "$g" || exit 1
    done
    "$build/bench/gpu/bench_dense" --csv "$name.csv" --float trsm trmm sym potrf potri || exit 1
    "$build/bench/gpu/bench_host" --csv "$name.csv" || exit 1
    "$build/bench/gpu/bench_multi" || exit 1
    for b in "$build"/bench/gpu/bench_*batch*; do
        case $b in *.d) continue ;; esac
        [ -x "$b" ] && { "$b" || exit 1; }
    done
} 2>&1 | tee "$name.txt"
"${PYTHON:-python3}" scripts/roofline.py "$name.csv" "$name.png" || echo "no picture: matplotlib is missing"

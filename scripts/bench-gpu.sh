#!/bin/sh
# Ours, the vendor's and the ceiling for every operation, in one run: a table, CSV, and a roofline picture.
# usage: bench-gpu.sh [BUILD [GROUP...]]     normally through `make bench-gpu`; takes about four minutes with the large cases.
# GROUP: one of bench_dense's, float (its FP32 rows), filter (D+ times covariances), host (host data), multi (all GPUs), batch, products, lowrank, tlr, formats, integer (double precision by integers); all of them.
# Writes $OUT or bench/results/: gpu-DATE.txt, gpu-DATE.csv, gpu-DATE.png, batched-DATE.csv, products-DATE.csv, compression-DATE.csv
build=${1:-build}
[ $# -gt 0 ] && shift
groups=${*:-shapes trsm few trmm variants sym potrf potri accuracy tribig symmbig potrfbig float filter host multi batch products lowrank tlr formats integer}
out=${OUT:-bench/results}
bench=$build/bench/gpu
day=$(date +%Y-%m-%d)
name=$out/gpu-$day
[ -n "$MOAO_GPU_PLUGIN" ] || export MOAO_GPU_PLUGIN="$PWD/$build/libmoao_gpu.so"
mkdir -p "$out"
rm -f "$name.csv"
{
    echo "command: scripts/bench-gpu.sh $build $groups"
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    for g in $groups; do
        case $g in
        float) "$bench/bench_dense" --csv "$name.csv" --float trsm trmm sym potrf potri ;;
        filter) "$build/bench/bench_filter" gpu 2816 40 84 ;;
        host) "$bench/bench_host" --csv "$name.csv" ;;
        multi) "$bench/bench_multi" 16384 32768 && "$bench/bench_multi" 32768 ;;
        batch) "$bench/bench_batch" "$out/batched-$day.csv" ;;
        products) "$bench/bench_products" "$out/products-$day.csv" ;;
        lowrank) "$bench/bench_lowrank" "$out/compression-$day.csv" ;;
        tlr) "$bench/bench_tlr" ;;
        integer) "$bench/bench_integer" --csv "$name.csv" products bytes factor 20480 51200 ;;
        formats) "$bench/bench_hss" --csv "$out/hss-$day.csv" table solve build && "$bench/bench_h2" --csv "$out/h2-$day.csv" compress coarse times ;;
        *) "$bench/bench_dense" --csv "$name.csv" "$g" ;;
        esac || exit 1
    done
    echo "all groups done"
} 2>&1 | tee "$name.txt"
tail -n 1 "$name.txt" | grep -qx "all groups done" || exit 1
[ ! -e "$name.csv" ] || "${PYTHON:-python3}" scripts/roofline.py "$name.csv" "$name.png" || echo "no picture: matplotlib is missing"

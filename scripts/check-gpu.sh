#!/bin/sh
# Every test of the backend's operations on this machine's GPU, and compute-sanitizer's four tools on the small sizes.
# usage: check-gpu.sh [BUILD]     normally through `make check-gpu`. Without a GPU it says so and fails.
build=${1:-build}
export MOAO_TEST_BACKEND=gpu
[ -n "$MOAO_GPU_PLUGIN" ] || export MOAO_GPU_PLUGIN="$PWD/$build/libmoao_gpu.so"
failed=0
run() {
    name=$1
    shift
    if "$@" >"$build/check-gpu.log" 2>&1; then
        echo "ok      $name"
    else
        echo "FAILED  $name"
        grep -v '^\[ *RUN\|^\[ *OK' "$build/check-gpu.log" | tail -15
        failed=1
    fi
}
for t in "$build"/tests/unit/test_linalg_* "$build"/tests/unit/test_backend_* "$build"/tests/gpu/test_*; do
    case $t in *.d | *.o | *.warn) continue ;; esac
    run "$(basename "$t")" "$t"
done
# racecheck reports the vendor's own kernels too (single precision syr2k): those are left out
own="--kernel-name-exclude kernel_substring=cublas"
if command -v compute-sanitizer >/dev/null; then
    export MOAO_TEST_SMALL=1
    for tool in memcheck racecheck initcheck synccheck; do
        for t in "$build"/tests/unit/test_linalg_* "$build"/tests/unit/test_backend_* "$build"/tests/gpu/test_*; do
            case $t in *.d | *.o | *.warn) continue ;; esac
            run "$tool $(basename "$t")" compute-sanitizer --tool $tool $own --error-exitcode 9 --print-limit 5 "$t"
        done
    done
else
    echo "compute-sanitizer not found: its checks were left out"
fi
exit $failed

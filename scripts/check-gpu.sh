#!/bin/sh
# Every test of the backend's operations on this machine's GPU, and compute-sanitizer's four tools on the small sizes.
# usage: check-gpu.sh [BUILD [TOOL...]]     normally through `make check-gpu`. Without a GPU it says so and fails.
# TOOL: tests memcheck racecheck initcheck synccheck (all of them). One line a run, with its time; several run at once.
# MOAO_CHECK_JOBS: how many (half the processors); MOAO_CHECK_LIMIT: seconds until a run has failed (600).
if [ "$1" = --one ]; then # a single run: BUILD TOOL PROGRAM, its output in a file that is shown when it fails
    build=$2 tool=$3 program=$4 run="$3 $(basename "$4")" from=$(date +%s)
    log=$build/check-gpu/$tool-$(basename "$program").log
    # the vendor's kernels are no concern of the tools that look inside one kernel: racecheck reports single precision
    # syr2k of cuBLAS. memcheck and initcheck must see what they read and write.
    ours=
    for name in cublas cutlass xmma magma gemmSN gemmk1 gemv splitK; do
        ours="$ours --kernel-name-exclude kns=$name"
    done
    case $tool in
    tests) set -- "$program" ;;
    racecheck | synccheck) set -- compute-sanitizer --tool "$tool" $ours --error-exitcode 9 --print-limit 5 "$program" ;;
    *) set -- compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 5 "$program" ;;
    esac
    [ "$tool" = tests ] || export MOAO_TEST_SMALL=1
    timeout "${MOAO_CHECK_LIMIT:-600}" "$@" >"$log" 2>&1
    code=$?
    seconds=$(($(date +%s) - from))
    if [ $code = 0 ]; then
        echo "ok      $run  $seconds s"
        exit 0
    fi
    [ $code = 124 ] && why="stopped after $seconds s" || why="exit code $code, $seconds s"
    printf 'FAILED  %s  %s\n%s\n' "$run" "$why" "$(grep -v '^\[ *RUN\|^\[ *OK' "$log" | tail -15)"
    exit 1
fi

build=${1:-build}
[ $# -gt 0 ] && shift
export MOAO_TEST_BACKEND=gpu
[ -n "$MOAO_GPU_PLUGIN" ] || export MOAO_GPU_PLUGIN="$PWD/$build/libmoao_gpu.so"
processors=$(nproc)
jobs=${MOAO_CHECK_JOBS:-$((processors > 1 ? processors / 2 : 1))}
programs=$(ls -d "$build"/tests/unit/test_linalg_* "$build"/tests/unit/test_backend_* "$build"/tests/unit/test_tlr_* "$build"/tests/gpu/test_* \
    "$build"/tests/mpi/test_small_cases 2>/dev/null)
mkdir -p "$build/check-gpu"
if [ $# = 0 ]; then
    set -- tests
    if command -v compute-sanitizer >/dev/null; then
        set -- tests racecheck memcheck initcheck synccheck
    else
        echo "compute-sanitizer not found: its checks were left out"
    fi
fi
runs() { # of a tool: lines for --one; $2...: the programs
    tool=$1
    shift
    for t in "$@"; do
        case $t in *.d | *.o | *.warn) continue ;; esac
        [ -x "$t" ] && echo "$build $tool $t"
    done
}
failed=0
case " $* " in *" tests "*) # one at a time: their references take all processors, and one watches how much memory is free
    runs tests $programs | xargs -r -L 1 sh "$0" --one || failed=1 ;;
esac
export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-2} OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
for tool in "$@"; do
    [ "$tool" = tests ] || runs "$tool" $programs
done | xargs -r -P "$jobs" -L 1 sh "$0" --one || failed=1
exit $failed

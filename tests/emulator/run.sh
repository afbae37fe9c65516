#!/bin/sh
# Runs tests of the backend's operations with the emulator for a GPU; normally through `make emulate-gpu`.
# usage: run.sh BUILD TEST...     one line a test, with its time; the output of one that failed, and where all of it is
# MOAO_EMULATOR_ORDER: forward (default), backward or scattered: in which order a block's threads take turns
# MOAO_EMULATOR_SHARED: KiB of shared memory that a block may have (227 of an H100; 163 of an A100, 99 of an RTX 4090)
# MOAO_EMULATOR_LIMIT: seconds until a test has failed (900)
build=$1
shift
emulator=${EMULATOR:-$build/emulator}
limit=${MOAO_EMULATOR_LIMIT:-900} failed=0
export MOAO_TEST_BACKEND=gpu MOAO_TEST_SMALL=1 MOAO_GPU_PLUGIN="$PWD/$emulator/libmoao_gpu.so"
export LD_LIBRARY_PATH="$PWD/$emulator${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
# a device that the plugin has no code for
refused=$(MOAO_EMULATOR_CAPABILITY=7.5 "$build/tests/unit/$1" 2>&1 | grep "GPU 0, emulator (compute 7.5): this plugin has code for 8.0, 9.0")
[ -n "$refused" ] && echo "ok      a GPU without code is refused by name" || { echo "FAILED  a GPU without code is not refused" && failed=1; }
for test in "$@"; do
    log=$emulator/$test.log from=$(date +%s)
    timeout "$limit" "$build/tests/unit/$test" >"$log" 2>&1
    code=$?
    seconds=$(($(date +%s) - from))
    passed=$(grep -c '^\[ *OK' "$log")
    kernels=$(sed -n 's/^emulator: \([0-9]* kernels, [0-9]* blocks\)$/\1/p' "$log" | tail -1)
    case $code,$kernels in
    0,[1-9]*) echo "ok      $test  $passed tests, $kernels, $seconds s" && continue ;;
    0,*) why="no kernel was run" ;;
    124,*) why="stopped after $seconds s (MOAO_EMULATOR_LIMIT)" ;;
    *) why="exit code $code after $passed tests, $seconds s" ;;
    esac
    printf 'FAILED  %s  %s\n%s\nall of it: %s\n' "$test" "$why" "$(grep -v '^\[ *OK' "$log" | tail -15)" "$log"
    failed=1
done
exit $failed

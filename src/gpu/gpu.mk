# The GPU plugin, the GPU tests and benches, and the installed library. Included by the Makefile, or used alone:
#   make -f src/gpu/gpu.mk B=build gpu-plugin gpu-tests gpu-bench
# Needs nvcc to compile (no GPU); a GPU to run.
B ?= build
Q ?= $(if $(V),,@)
NVCC ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) nvcc)
CUDA_ARCH ?= -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90
NVFLAGS ?= -O3
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(NVCC))
cu_flags = -std=c++17 $(NVFLAGS) $(CUDA_ARCH) -Xcompiler -fPIC,-fvisibility=hidden,-Wall -MMD -MP

gpu_obj := $(patsubst src/gpu/%.cu,$(B)/gpu/%.o,$(wildcard src/gpu/*.cu))
gpu_test := $(patsubst tests/gpu/%.cu,$(B)/tests/gpu/%,$(wildcard tests/gpu/test_*.cu))
gpu_bench := $(patsubst bench/gpu/%.cu,$(B)/bench/gpu/%,$(wildcard bench/gpu/bench_*.cu))

.PHONY: gpu-plugin gpu-tests gpu-bench
gpu-plugin: $(B)/libmoao_gpu.so
gpu-tests: $(gpu_test)
gpu-bench: $(gpu_bench)

$(B)/gpu/%.o: src/gpu/%.cu
	@mkdir -p $(@D)
	$(Q)$(NVCC) $(cu_flags) -c $< -o $@

$(B)/libmoao_gpu.so: $(gpu_obj)
	$(Q)$(NVCC) -shared -cudart static $(CUDA_ARCH) $^ -o $@ -lcublas

gpu_libs = -lcublas -lcusolver
# programs that call CUDA themselves, beside the backend's table
$(B)/gpu/host/%.o: src/%.c
	@mkdir -p $(@D)
	$(Q)gcc -std=c11 -D_GNU_SOURCE -O2 -fopenmp -Wall -Wextra -Isrc $(shell pkg-config --cflags openblas) -MMD -MP -c $< -o $@
gpu_host := $(patsubst src/%.c,$(B)/gpu/host/%.o,src/status.c src/backend.c $(wildcard src/linalg/cpu*.c src/linalg/batch_cpu*.c))

$(B)/tests/gpu/%: tests/gpu/%.cu $(gpu_host)
	@mkdir -p $(@D)
	$(Q)$(NVCC) -std=c++17 -O1 $(CUDA_ARCH) -cudart static -Isrc -Itests -MMD -MP $< $(gpu_host) -o $@ \
	  $(shell pkg-config --libs openblas) $(gpu_libs) -ldl -lgomp -lpthread

$(B)/bench/gpu/%: bench/gpu/%.cu $(gpu_host)
	@mkdir -p $(@D)
	$(Q)$(NVCC) -std=c++17 -O2 $(CUDA_ARCH) -cudart static -Isrc -Itests -MMD -MP $< $(gpu_host) -o $@ \
	  $(shell pkg-config --libs openblas) $(gpu_libs) -ldl -lgomp -lpthread

-include $(gpu_obj:.o=.d) $(gpu_host:.o=.d) $(addsuffix .d,$(gpu_test) $(gpu_bench))

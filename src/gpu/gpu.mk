# What belongs to the GPU plugin and to the library of dense operations; included by the Makefile.
#   make gpu          build/libmoao_gpu.so (needs nvcc, no GPU; GPU_ARCH: Makefile)     make check-gpu   every test of the operations, on a GPU
#   make bench-gpu    ours, the vendor's and the ceiling            make install     installs the library too
#   make check-architectures   kernels compiled for every GPU that is served (minutes)
#   make gpu-busy     a library that records when the GPU works (scripts/gpu-busy.py)
# the plugin has a status_set of its own, and shows nothing but its entry
NVCCFLAGS += -Xcompiler -fvisibility=hidden -DMOAO_PUBLIC=
LDFLAGS_GPU += -Xlinker --version-script=src/gpu/exports.map
GPU_LIBS += -lcublas -lcufft
# with other flags or targets everything is compiled anew
nvcc_flags := $(strip $(NVCC) $(NVCCFLAGS) $(GENCODE))
$(if $(filter gpu gpu-% check-gpu bench-gpu $(B)/%gpu.so $(B)/%.cu.o,$(MAKECMDGOALS)),$(shell [ "$$(cat $(B)/nvcc-flags 2>/dev/null)" = '$(nvcc_flags)' ] || rm -f $(B)/nvcc-flags))
$(B)/nvcc-flags:
	@mkdir -p $(@D); echo '$(nvcc_flags)' >$@
CUDA_LIBS ?= -lcublas -lcusolver -lcufft

# instructions of one chip, for which this file has the kernel and a way without it
$(B)/src/gpu/dense/fp16_rounded.cu.o $(B)/src/gpu/dense/split_hopper.cu.o: override GENCODE := -gencode arch=compute_90a,code=sm_90a

gpu_test := $(patsubst %.cu,$(B)/%,$(wildcard tests/gpu/test_*.cu))
gpu_bench := $(patsubst %.cu,$(B)/%,$(wildcard bench/gpu/bench_*.cu))
# the tests of the operations are the same programs on every backend
linalg_test := $(filter $(B)/tests/unit/test_linalg_% $(B)/tests/unit/test_backend_% $(B)/tests/unit/test_tlr_% $(B)/tests/unit/test_hier_% $(B)/tests/unit/test_library_batched $(B)/tests/unit/test_library_from_points $(B)/tests/unit/test_library_%_file $(B)/tests/unit/test_library_complex $(B)/tests/mpi/test_small_cases,$(tests))

.PHONY: check-architectures gpu-tests gpu-bench gpu-busy check-gpu bench-gpu install-linalg
gpu-tests: gpu $(gpu_test) $(linalg_test)
gpu-bench: gpu $(gpu_bench) $(B)/bench/bench_filter

# programs that call CUDA themselves, apart from the backend's table
$(gpu_test) $(filter-out %/bench_tlr,$(gpu_bench)): $(B)/%: %.cu $(B)/libmoao.a
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) -std=c++17 -O2 $(GENCODE) -Xcompiler -fopenmp -cudart static $(short) -Isrc -Isrc/linalg/include -Itests -MMD -MP -MF $@.d $< $(B)/libmoao.a -o $@ \
	  $(OPENBLAS_LIBS) $(CUDA_LIBS) -ldl -lgomp -lpthread

# reads parameter files too, so the program's own libraries are linked
$(B)/bench/gpu/bench_tlr: $(B)/%: %.cu $(B)/bench/gpu/tlr_case.o $(B)/libmoao.a
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) -std=c++17 -O2 $(GENCODE) -Xcompiler -fopenmp $(short) -Isrc -Isrc/linalg/include -MMD -MP -MF $@.d -c $< -o $@.o
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $@.o $(filter %.o %.a,$^) -L$(lastword $(cuda_home))/lib64 $(CUDA_LIBS) -lcudart_static -lrt -lstdc++ $(ALL_LIBS) -lpthread

# every kernel for every GPU that is served; `make check` compiles for the oldest one, which has the fewest instructions
quick_nvcc = $(if $(shell $(NVCC) --help | grep -e --Ofast-compile),--Ofast-compile=max,-O1)
own_arch = 90 $(if $(shell $(NVCC) --list-gpu-code | grep -x sm_120),100 120)
check-architectures:
	@$(if $(NVCC),NVCCFLAGS='$(quick_nvcc) --threads=6' \
	  GENCODE="$(foreach a,80 86 89,-gencode arch=compute_80$(comma)code=sm_$(a)) $(foreach a,$(own_arch),-gencode arch=compute_$(a)$(comma)code=sm_$(a))" \
	  $(MAKE) --no-print-directory B=$(B)/architectures gpu,echo "check-architectures: nvcc not found")
check-gpu: gpu-tests
	@scripts/check-gpu.sh $(B)
bench-gpu: gpu-bench
	@PYTHON=$(PYTHON) scripts/bench-gpu.sh $(B)

# --- the record of what a GPU does, made with CUPTI of the CUDA toolkit
cuda_home = $(patsubst %/bin/nvcc,%,$(NVCC))
CUPTI ?= $(firstword $(wildcard $(cuda_home)/extras/CUPTI $(cuda_home)))
cupti_lib = $(firstword $(wildcard $(CUPTI)/lib64 $(CUPTI)/lib))
gpu-busy: $(if $(and $(NVCC),$(wildcard $(CUPTI)/include/cupti.h)),$(B)/bench/gpu/libmoao_busy.so)
	@$(if $^,:,echo "gpu-busy: CUPTI not found (set CUPTI=...): not built")
$(B)/bench/gpu/libmoao_busy.so: bench/gpu/busy.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(OPT) -g -D_GNU_SOURCE= -std=c11 -Wall -Wextra -fPIC -shared -isystem$(CUPTI)/include -isystem$(cuda_home)/include \
	  -o $@ $< -L$(cupti_lib) -Wl,-rpath,$(cupti_lib) -lcupti -ldl -lpthread

# --- the library: header, static and shared, pkg-config
linalg_src := $(wildcard src/linalg/*/*.c)
# what the simulator alone needs of the library is not installed
public_headers := $(filter-out $(patsubst %,src/linalg/include/moao/%.h,backend_driver backend_group backend_mapped clones cpu_threads fp16_factor fp16_gemm),$(wildcard src/linalg/include/moao/*.h))
linalg_version = $(firstword $(subst +, ,$(VERSION)) 0)
linalg_major = $(firstword $(subst ., ,$(linalg_version)))
# one object, in which all but the public symbols are local
$(B)/libmoao_linalg.a: $(call obj,$(linalg_src))
	$(Q)rm -f $@; ld -r -o $(@:.a=.o) $^ && objcopy --localize-hidden $(@:.a=.o) && ar rcs $@ $(@:.a=.o)
$(B)/libmoao_linalg.so: $(call obj,$(linalg_src))
	$(Q)$(CC) -shared -fopenmp $(san_flags) $(LDFLAGS) -Wl,-soname,libmoao_linalg.so.$(linalg_major) -o $@ $^ $(OPENBLAS_LIBS) -ldl -lm -lpthread
# the tester: a program that sees what others see of the library
tester_src := $(wildcard bench/tester/*.c)
$(B)/moao-tester: $(call obj,$(tester_src)) $(B)/libmoao_linalg.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(OPENBLAS_LIBS) -ldl -lm -lpthread
-include $(patsubst %.o,%.d,$(call obj,$(tester_src)))
to-install: $(B)/moao-tester

# manual pages from what the headers say
$(B)/man3/moao_backend.3: scripts/make-man3.py $(public_headers)
	$(call say,MAN,$(@D))
	$(Q)rm -rf $(@D); if command -v $(PYTHON) >/dev/null; then $(PYTHON) $< $(@D) $(public_headers); else echo "no $(PYTHON): so the library has no manual pages"; fi
to-install: $(B)/man3/moao_backend.3
install: install-linalg
install-linalg: $(B)/libmoao_linalg.a $(B)/libmoao_linalg.so $(B)/moao-tester $(B)/man3/moao_backend.3
	install -d $(addprefix $(DESTDIR)$(prefix)/,bin include/moao lib/pkgconfig lib/moao share/man/man3)
	install -m 755 $(B)/moao-tester $(DESTDIR)$(prefix)/bin/
	[ ! -f $(B)/man3/moao_backend.3 ] || install -m 644 $(B)/man3/*.3 $(DESTDIR)$(prefix)/share/man/man3/
	install -m 644 $(public_headers) $(DESTDIR)$(prefix)/include/moao/
	install -m 644 $(B)/libmoao_linalg.a $(DESTDIR)$(prefix)/lib/
	install -m 755 $(B)/libmoao_linalg.so $(DESTDIR)$(prefix)/lib/libmoao_linalg.so.$(linalg_version)
	ln -sf libmoao_linalg.so.$(linalg_version) $(DESTDIR)$(prefix)/lib/libmoao_linalg.so.$(linalg_major)
	ln -sf libmoao_linalg.so.$(linalg_major) $(DESTDIR)$(prefix)/lib/libmoao_linalg.so
	$(Q)printf '%s\n' 'prefix=$(prefix)' 'libdir=$${prefix}/lib' 'includedir=$${prefix}/include' '' \
	  'Name: moao-linalg' 'Description: Dense linear algebra on CPU and GPU: triangular solves and products, Cholesky factors, batches, QR, SVD, compression, tile low-rank matrices' \
	  'Version: $(linalg_version)' 'Requires.private: openblas' 'Libs: -L$${libdir} -lmoao_linalg' \
	  'Libs.private: -fopenmp -ldl -lpthread -lm' 'Cflags: -I$${includedir}' >$(DESTDIR)$(prefix)/lib/pkgconfig/moao-linalg.pc

-include $(addsuffix .d,$(gpu_test) $(gpu_bench)) $(B)/bench/gpu/tlr_case.d

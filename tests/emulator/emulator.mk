# The GPU's batched low-rank routines and sums of small products on the CPU, included by the Makefile; needs g++ on x86-64, no nvcc and no GPU.
#   make emulate-gpu [TESTS="test_linalg_lowrank ..."] [EMU_ARCH=80]   settings of a run: tests/emulator/run.sh
# EMU_ARCH: the compute capability for which kernels are compiled; below 90 they do without its instructions

EMU_ARCH ?= 90
EMU_B := $(B)/emulator$(if $(filter-out 90,$(EMU_ARCH)),-$(EMU_ARCH))
EMU_CXX ?= $(firstword $(foreach c,$(CXX) g++,$(shell command -v $(c) 2>/dev/null)) g++)
EMU_TESTS := $(or $(TESTS),test_linalg_products test_linalg_scatter test_linalg_lowrank test_linalg_graded test_linalg_sweeps test_linalg_sketch test_linalg_filter test_linalg_integer test_linalg_gemm_sums test_linalg_toeplitz test_linalg_kept test_library_complex test_linalg_split test_linalg_split_products test_hier_gemm_sums test_backend_psf test_backend_phase)
emu_cu := $(wildcard src/gpu/lowrank/*.cu) $(addprefix src/gpu/batch/batch_,gemm.cu scatter.cu gather.cu) src/gpu/batch/complex_potrf.cu src/gpu/batch/complex_svd.cu $(wildcard src/gpu/matcov/*.cu src/gpu/psf/*.cu) \
    $(wildcard src/gpu/hier/toeplitz*.cu) src/gpu/hier/gemm_sums.cu src/gpu/hier/fused_levels.cu src/gpu/hier/hier.cu src/gpu/core/capability.cu src/gpu/dense/filter.cu src/gpu/dense/split.cu src/gpu/dense/split_pack.cu src/gpu/dense/split_products.cu src/gpu/integer/integer.cu
emu_text := $(patsubst src/%,$(EMU_B)/%,$(emu_cu) $(wildcard src/gpu/*/*.cuh))
emu_real := $(filter %_real.cu,$(emu_cu))
emu_obj := $(patsubst src/%,$(EMU_B)/%.o,$(filter-out $(emu_real),$(emu_cu))) $(foreach t,double float,$(emu_real:src/%.cu=$(EMU_B)/%.$(t).cu.o)) $(patsubst %,$(EMU_B)/%.o,emulator plugin)
# CUDA's attributes and pragmas mean nothing here, so warnings about them do not either
EMU_CXXFLAGS = -std=c++17 -O2 -g -fPIC -fvisibility=hidden -MMD -MP -DMOAO_PUBLIC= -DEMULATED_ARCH=$(EMU_ARCH)0 -Itests/emulator -I$(EMU_B) $(short) -Isrc -Isrc/linalg/include $(addprefix -I,$(wildcard src/gpu/*/.)) $(FFTW_CFLAGS)

.PHONY: emulate-gpu
emulate-gpu: $(EMU_B)/libmoao_gpu.so $(EMU_B)/libcuda.so.1 $(EMU_TESTS:%=$(B)/tests/unit/%)
	@EMULATOR=$(EMU_B) tests/emulator/run.sh $(B) $(EMU_TESTS)

$(EMU_B)/gpu/%: src/gpu/% tests/emulator/translate.py
	@mkdir -p $(@D)
	$(Q)$(PYTHON) tests/emulator/translate.py $< $@
$(EMU_B)/gpu/%.cu.o: $(EMU_B)/gpu/%.cu | $(emu_text)
	$(call say,EMU,$(<:$(EMU_B)/%=src/%))
	$(Q)$(EMU_CXX) $(EMU_CXXFLAGS) -w -x c++ -c $< -o $@
$(EMU_B)/gpu/%.double.cu.o: $(EMU_B)/gpu/%.cu | $(emu_text)
	$(call say,EMU,$(<:$(EMU_B)/%=src/%) in double precision)
	$(Q)$(EMU_CXX) $(EMU_CXXFLAGS) -w -x c++ -DREAL=double -c $< -o $@
$(EMU_B)/gpu/%.float.cu.o: $(EMU_B)/gpu/%.cu | $(emu_text)
	$(call say,EMU,$(<:$(EMU_B)/%=src/%) in single precision)
	$(Q)$(EMU_CXX) $(EMU_CXXFLAGS) -w -x c++ -DREAL=float -c $< -o $@
# what the emulated plugin says it has code for
$(EMU_B)/gpu/core/capability.cu.o: private EMU_CXXFLAGS += '-DGPU_CODE="sm_80 sm_90 compute_90"'
$(EMU_B)/%.o: tests/emulator/%.cpp
	@mkdir -p $(@D)
	$(call say,EMU,$<)
	$(Q)$(EMU_CXX) $(EMU_CXXFLAGS) -Wall -Wextra -Wno-missing-field-initializers -c $< -o $@
$(EMU_B)/libmoao_gpu.so: $(emu_obj)
	$(call say,EMU,$@)
	$(Q)$(EMU_CXX) -shared -o $@ $^ $(FFTW_LIBS) -lm
# The program looks for a driver before it loads a plugin: an empty library stands for it.
$(EMU_B)/libcuda.so.1:
	@mkdir -p $(@D)
	$(Q)$(EMU_CXX) -shared -x c++ /dev/null -o $@

-include $(emu_obj:.o=.d)

# What the fault campaign preloads and fuzzes with.

FAULT_B := $(B)/tests/fault
.PHONY: fault-tools
tests: $(FAULT_B)/faults.so
fault-tools: $(FAULT_B)/faults.so

# the faults that the program itself has not got (src/base/fault.h)
$(FAULT_B)/faults.so: tests/support/fault_hook.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE= -O1 $(WARN) -fPIC -shared -o $@ $<

fault-tools: $(FAULT_B)/preload.so

# libc's functions are replaced: no builtins of theirs, and every call returns to its caller
$(FAULT_B)/preload.so: $(wildcard tests/fault/preload*.[ch])
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE= -O1 -g $(WARN) -Wno-pedantic -fPIC -shared -fno-builtin -fno-optimize-sibling-calls $(OPENBLAS_CFLAGS) \
	  -o $@ $(filter %.c,$^) -ldl -lpthread

# Inputs that libFuzzer makes, into the readers alone, under AddressSanitizer and UBSan. The readers are
# compiled again; what else they call comes from the library as it is, but for what fuzz_main.c replaces.
FUZZ_CLANG := $(firstword $(foreach c,clang-14 clang-18 clang,$(shell command -v $(c) 2>/dev/null)))
FUZZ_SAN := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
fuzz_src := $(wildcard src/params/*.c src/system/*.c src/store/*.c \
  src/linalg/core/status.c src/linalg/core/number_file.c src/linalg/tlr/file.c src/linalg/cpu/hier_cpu.c src/linalg/hier/*.c $(patsubst %,src/base/%.c,text file crc fits fits_in fits_driver) src/maps/results.c src/asterism/stars.c \
  $(patsubst %,src/job/%.c,budget_read sweep_list sweep_table asterism_write) tests/fault/fuzz_*.c)
fuzz_obj := $(patsubst %.c,$(FAULT_B)/fuzz-objects/%.o,$(fuzz_src))
fault-tools: $(if $(FUZZ_CLANG),$(FAULT_B)/fuzz)

$(FAULT_B)/fuzz-objects/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CLANG,$<)
	$(Q)OMPI_CC=$(FUZZ_CLANG) $(CC) -std=c11 -D_GNU_SOURCE= -O1 -g $(WARN) -MMD -MP $(short) -Isrc -Isrc/linalg/include $(LIB_CFLAGS) \
	  -fsanitize=fuzzer-no-link $(FUZZ_SAN) -c $< -o $@

$(FAULT_B)/fuzz: $(fuzz_obj) $(B)/libmoao.a
	$(call say,LD,$@)
	$(Q)OMPI_CC=$(FUZZ_CLANG) $(CC) -fsanitize=fuzzer $(FUZZ_SAN) -Wl,-z,muldefs -o $@ $^ $(LIB_LIBS) -lgomp -ldl -lm

-include $(fuzz_obj:.o=.d)

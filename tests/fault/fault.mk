# What the fault campaign preloads and fuzzes with.

FAULT_B := $(B)/tests/fault
.PHONY: fault-tools
fault-tools: $(FAULT_B)/preload.so

# libc's functions are replaced: no builtins of theirs, and every call returns to its caller
$(FAULT_B)/preload.so: $(wildcard tests/fault/preload*.[ch])
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) -std=c11 -O1 -g $(WARN) -fPIC -shared -fno-builtin -fno-optimize-sibling-calls $(OPENBLAS_CFLAGS) \
	  -o $@ $(filter %.c,$^) -ldl -lpthread

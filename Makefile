# make              build the program          make demo     install what is missing, build, run a small case
# make check        every test                 make info     what would be used, and from where
# make check-fast   unit tests only            make bench    timed comparisons (build and run)
# make check-faults [HOURS=1]                  the long form of the fault campaign (docs/reliability.md)
# make mutants [N=50] [ONLY=word]              whether the tests notice changes that break something (docs/reliability.md)
# make check-install [ONLY="wheel deb"]  the ways of docs/install.md in fresh systems (root, debootstrap)
# make notebooks    the outputs of the notebooks of examples/ anew (python3-nbclient, python3-ipykernel)
# make wheel, make deb   packages for pip and apt, into dist/;  make dist   the source
# make release-notes   the changes of this version
# make pictures     the pictures of docs/ anew, from small runs (minutes)
# make emulate-gpu  kernels of the GPU on an emulator, without a GPU (docs/developing.md)
# make install prefix=/usr/local DESTDIR=      make gpu      the CUDA plugin, where nvcc exists
# Options: V=1 shows the commands; SAN=address,undefined builds with sanitizers into a folder of its own; NATIVE=1
# uses every instruction of this machine's processor (results then differ in the last digits between machines).
# DEPS="DIR ..." names prefixes of libraries installed by hand. Settings of a site go into a file config.mk beside this one.

.DEFAULT_GOAL := all
comma := ,
CC = mpicc
-include config.mk
NVCC ?= $(firstword $(wildcard $(CUDA_HOME)/bin/nvcc /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
PKG_CONFIG ?= pkg-config
# scripts need astropy and numpy of the distribution, which belong to its own python3
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
prefix ?= /usr/local
B := build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))$(if $(NATIVE),/native)
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(2)')

# --- libraries: pkg-config, overridden by e.g. make SCALAPACK_LIBS="-L/opt/lib -lscalapack" SCALAPACK_CFLAGS=
dep_dirs = $(strip $(foreach d,$(DEPS),$(d)/lib $(wildcard $(d)/lib64 $(d)/lib/*-linux-gnu)))
pc = $(shell $(if $(DEPS),PKG_CONFIG_PATH='$(subst $() ,:,$(dep_dirs:=/pkgconfig)):$(PKG_CONFIG_PATH)') $(PKG_CONFIG) $(1) 2>/dev/null)
pc_cflags = $(call pc,--cflags $(1))
pc_libs = $(or $(call pc,--libs $(1)),$(2))
OPENBLAS_CFLAGS ?= $(call pc_cflags,openblas)
OPENBLAS_LIBS ?= $(call pc_libs,openblas,-lopenblas)
SCALAPACK_CFLAGS ?= $(call pc_cflags,scalapack-openmpi)
SCALAPACK_LIBS ?= $(filter-out -lmpi -lblas -llapack,$(call pc_libs,scalapack-openmpi,$(call pc_libs,scalapack,-lscalapack)))
FFTW_CFLAGS ?= $(call pc_cflags,fftw3)
FFTW_LIBS ?= $(call pc_libs,fftw3,-lfftw3)
CFITSIO_CFLAGS ?= $(call pc_cflags,cfitsio)
CFITSIO_LIBS ?= $(call pc_libs,cfitsio,-lcfitsio)
YAML_CFLAGS ?= $(call pc_cflags,yaml-0.1)
YAML_LIBS ?= $(call pc_libs,yaml-0.1,-lyaml)
CMOCKA_CFLAGS ?= $(call pc_cflags,cmocka)
CMOCKA_LIBS ?= $(call pc_libs,cmocka,-lcmocka)
libs := OPENBLAS SCALAPACK FFTW CFITSIO YAML
# expanded once; headers of libraries are system headers, so their warnings are theirs
LIB_CFLAGS := $(filter-out -isystem/usr/include/x86_64-linux-gnu,$(sort $(patsubst -I%,-isystem%,$(foreach l,$(libs),$($(l)_CFLAGS)))))
LIB_LIBS := $(foreach l,$(libs),$($(l)_LIBS))
TEST_CFLAGS := -Itests $(CMOCKA_CFLAGS)
TEST_LIBS := $(CMOCKA_LIBS)

# --- flags; CFLAGS and LDFLAGS of the user come last
WARN ?= -Wall -Wextra -Wpedantic
# no -ffast-math and no -march by default: the same arithmetic on every x86-64 processor; -fPIC: the library of
# linear algebra is made of the same objects
OPT ?= $(if $(SAN),-O1,-O3) -fno-math-errno $(if $(NATIVE),-march=native)
# a minimum in the loop over pairs keeps it from being vectorised where a comparison may trap
$(B)/src/psf/psf_pairwise.o: private OPT += -fno-trapping-math
# what a test does itself is little compared with what it calls, and optimising it more costs three times the compilation
TEST_OPT ?= $(if $(SAN),-O0,-O1)
$(B)/tests/%.o: private OPT += $(TEST_OPT)
# which compute much themselves
$(patsubst %.c,$(B)/%.o,$(wildcard tests/unit/test_hier_*.c tests/unit/test_linalg_*.c tests/unit/test_tlr_*.c)): private TEST_OPT := -O1
$(B)/tests/unit/test_linalg_batch.o $(B)/tests/unit/test_linalg_lowrank.o: private TEST_OPT :=
san_flags := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
# the names of the library without moao_, in the sources of this project
short := -include src/linalg/core/short.h
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE= $(OPT) $(if $(SAN),-g1,-g) -fopenmp -fPIC -fvisibility=hidden $(WARN) -MMD -MP $(short) -Isrc -Isrc/linalg/include -I$(B) $(DEPS:%=-isystem%/include) $(LIB_CFLAGS) $(san_flags) $(CFLAGS)
# tests are many and large: linked by gold where it is, in a third of the time
test_ld := $(if $(shell command -v ld.gold),-fuse-ld=gold)
ALL_LDFLAGS = -fopenmp $(san_flags) $(foreach d,$(dep_dirs),-L$(d) -Wl$(comma)-rpath$(comma)$(d)) $(LDFLAGS)
ALL_LIBS = $(LIB_LIBS) -ldl -lm

# --- sources
prog_src := $(wildcard src/main.c src/cmd_*.c)
lib_src := $(wildcard src/*/*.c src/linalg/*/*.c)
cu_src := $(wildcard src/gpu/*/*.cu)
test_src := $(wildcard tests/unit/test_*.c tests/physics/test_*.c tests/mpi/test_*.c)
# files beside the tests that are not programs themselves are linked into each test of their folder
test_help := $(filter-out $(test_src),$(wildcard tests/unit/*.c tests/physics/*.c tests/mpi/*.c))
bench_src := $(wildcard bench/bench_*.c)
obj = $(patsubst %.c,$(B)/%.o,$(1))
progs := $(if $(prog_src),$(B)/moao)
tests := $(patsubst %.c,$(B)/%,$(test_src))
benches := $(patsubst %.c,$(B)/%,$(bench_src))
VERSION := $(shell cat VERSION 2>/dev/null)$(addprefix +,$(shell git describe --always --dirty 2>/dev/null))

.PHONY: all demo check check-fast check-faults check-install tests bench gpu info install clean format lint docs pictures FORCE
all: $(B)/libmoao.a $(progs)
tests: $(tests)

# --- rules. Each object keeps the compiler's messages beside it (NAME.warn), for the test that there are none.
$(B)/%.o: %.c $(B)/flags | $(B)/version.h
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(if $(filter tests/%,$<),$(TEST_CFLAGS)) -c $< -o $@ 2>$(@:.o=.warn); \
	  rc=$$?; cat $(@:.o=.warn) >&2; exit $$rc

$(B)/libmoao.a: $(call obj,$(lib_src))
	$(call say,AR,$@)
	$(Q)mkdir -p $(@D); rm -f $@; ar rcs $@ $^

# with the symbol that a recorder looks for (bench/gpu/busy.c)
$(B)/moao: $(call obj,$(prog_src)) $(B)/libmoao.a src/main.exports
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -Wl$(comma)--dynamic-list=src/main.exports -o $@ $(filter %.o %.a,$^) $(ALL_LIBS)

# with the symbols that are public, for a plugin of the tests (tests/emulator)
$(tests): $(B)/%: $(B)/%.o $(call obj,$(test_help)) $(B)/libmoao.a
	$(call say,LD,$@)
	$(Q)$(CC) $(test_ld) $(ALL_LDFLAGS) -rdynamic -o $@ $< $(filter $(@D)/%.o,$(filter-out $<,$^)) $(B)/libmoao.a $(TEST_LIBS) $(ALL_LIBS)

$(benches): $(B)/%: $(B)/%.o $(B)/libmoao.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(ALL_LIBS)

# written only when they change, so that what depends on them is made anew only then; others may call make too
$(B)/version.h $(B)/flags: FORCE
	@mkdir -p $(@D); echo '$(if $(filter %.h,$@),#define MOAO_VERSION "$(VERSION)",$(CC) $(ALL_CFLAGS); tests $(TEST_OPT))' >$@.$$$$; \
	  if cmp -s $@.$$$$ $@; then rm $@.$$$$; else mv $@.$$$$ $@; fi

# --- CUDA plugin: loaded by the program at run time when a GPU is asked for
# GPU_ARCH: compute capabilities that it has machine code for, as 80 (A100), 86, 89, 90 (H100, H200), 100, 120; the last one's intermediate code, too,
# which the driver compiles for later GPUs. all: what a package ships (docs/gpu.md); native: the GPU that is here
GPU_ARCH ?= 90
gpu_arch := $(GPU_ARCH)
gpu_flags := -lineinfo
ifneq ($(and $(NVCC),$(filter all,$(GPU_ARCH))),)
gpu_arch := 80 90 $(if $(shell $(NVCC) --list-gpu-code | grep -x sm_120),100 120)
gpu_flags := $(if $(shell $(NVCC) --help | grep compress-mode),--compress-mode=size)
endif
# the architectures of a file at once: the longest file otherwise takes minutes by itself
gpu_flags += $(if $(word 2,$(gpu_arch)),--threads=$(words $(gpu_arch)))
ifneq ($(filter native,$(GPU_ARCH)),)
gpu_arch := $(or $(shell nvidia-smi --query-gpu=compute_cap --format=csv$(comma)noheader | head -1 | tr -d .),$(error GPU_ARCH=native: nvidia-smi finds no GPU))
endif
NVCCFLAGS ?= -O3 $(gpu_flags)
GENCODE ?= $(foreach a,$(gpu_arch),-gencode arch=compute_$(a)$(comma)code=sm_$(a)) $(foreach a,$(lastword $(gpu_arch)),-gencode arch=compute_$(a)$(comma)code=compute_$(a))
GPU_LIBS ?=
# those that end in _real are compiled twice, side by side, with the type as the macro REAL
cu_real := $(filter %_real.cu,$(cu_src))
cu_obj := $(patsubst %.cu,$(B)/%.cu.o,$(filter-out $(cu_real),$(cu_src))) $(foreach t,double float,$(cu_real:%.cu=$(B)/%.$(t).cu.o))
# what a device is refused by
gpu_code = $(patsubst code=%,%,$(filter code=%,$(subst $(comma), ,$(GENCODE))))
$(B)/src/gpu/core/capability.cu.o: private NVCCFLAGS += '-DGPU_CODE="$(gpu_code)"'
NVCC_COMPILE = $(NVCC) -std=c++17 $(NVCCFLAGS) $(GENCODE) -Xcompiler -fPIC,-fopenmp,-Wall $(short) -Isrc -Isrc/linalg/include -MMD -MP -MF $(@:.o=.d) -c $< -o $@
$(B)/%.cu.o: %.cu $(B)/nvcc-flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC_COMPILE)
$(B)/%.double.cu.o: %.cu $(B)/nvcc-flags
	@mkdir -p $(@D)
	$(call say,NVCC,$< in double precision)
	$(Q)$(NVCC_COMPILE) -DREAL=double
$(B)/%.float.cu.o: %.cu $(B)/nvcc-flags
	@mkdir -p $(@D)
	$(call say,NVCC,$< in single precision)
	$(Q)$(NVCC_COMPILE) -DREAL=float
$(B)/libmoao_gpu.so: $(cu_obj)
	$(call say,NVCC,$@)
	$(Q)$(NVCC) -shared -cudart static $(GENCODE) -Xcompiler -fPIC,-fopenmp $(LDFLAGS_GPU) -o $@ $^ $(GPU_LIBS)
-include src/gpu/gpu.mk
gpu: $(if $(NVCC),$(if $(cu_src),$(B)/libmoao_gpu.so))
	@$(if $(NVCC),$(if $(cu_src),:,echo "gpu: no CUDA sources"),echo "gpu: nvcc not found (set NVCC=...): built without GPU support")

# --- what people call. Packages are looked up while this file is read, so after installing them make starts anew.
demo:
	@scripts/install-deps.sh --build --demo
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@MOAO=$(B)/moao PYTHON=$(PYTHON) scripts/demo.sh $(if $(FORCE),--force)

check:
	@scripts/install-deps.sh --build --test --demo
	@$(MAKE) --no-print-directory -j$$(nproc) all tests to-install fault-tools
	@$(PYTHON) tests/run.py --build $(B)

check-faults: all
	@$(PYTHON) tests/fault/campaign.py --build $(B) --hours $(or $(HOURS),1)

-include tests/fault/fault.mk
-include tests/mutants/mutants.mk
-include tests/emulator/emulator.mk

# the ways of docs/install.md in fresh systems; needs root and debootstrap
check-install:
	@$(PYTHON) tests/install/check_install.py $(ONLY)

check-fast: all tests
	@$(PYTHON) tests/run.py --build $(B) --only unit

# a library that records where the time of a run's ranks goes (bench/mpi/ranks.py)
bench-ranks: $(B)/bench/libmoao_ranks.so
$(B)/bench/libmoao_ranks.so: bench/mpi/ranks.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) -O2 -shared -fPIC -Wall -Wextra -o $@ $< -ldl
bench: all $(benches)
	@for b in $(benches); do echo "== $$b"; $$b || exit 1; done
	@echo "== bench/bench_run.py"; $(PYTHON) bench/bench_run.py --moao $(B)/moao

info:
	@echo "version    $(VERSION)"; echo "build in   $(B)"
	@echo "CC         $(CC) ($$($(CC) --version 2>/dev/null | head -1))"
	@echo "flags      $(strip $(ALL_CFLAGS))"
	@$(foreach l,$(libs) CMOCKA,echo "$(shell printf %-10s $(l)) $($(l)_CFLAGS) $($(l)_LIBS)";)
	@echo "MPI        $$(mpirun --version 2>/dev/null | head -1)"
	@echo "NVCC       $(or $(NVCC),none: no GPU plugin)"
	@echo "PYTHON     $(PYTHON)"
	@echo "prefix     $(DESTDIR)$(prefix)"

# what the installed program is found by: manual pages and completion in a shell, from its own words
on_results := $(wildcard python/moao_start.py python/moao/c*.py) scripts/moao-results
$(B)/man/moao.1: $(B)/moao scripts/make-man.sh $(on_results)
	$(call say,MAN,$(@D))
	$(Q)scripts/make-man.sh $(B)/moao $(@D)
$(B)/completion/moao.bash: $(B)/moao scripts/make-completion.sh $(on_results)
	$(call say,SH,$(@D))
	$(Q)scripts/make-completion.sh $(B)/moao $(@D)

# what is made for it alone; before the tests, which run side by side and call make
.PHONY: to-install
to-install: $(B)/man/moao.1 $(B)/completion/moao.bash $(B)/libmoao_linalg.a $(B)/libmoao_linalg.so

commands_on_results = $(shell sed -n 's/^    "moao-\([a-z-]*\)": .*/\1/p' python/moao_start.py)
install: all to-install
	install -d $(DESTDIR)$(prefix)/bin $(DESTDIR)$(prefix)/lib/moao $(DESTDIR)$(prefix)/share/moao/params $(DESTDIR)$(prefix)/share/moao/scripts $(DESTDIR)$(prefix)/share/doc/moao
	install -d $(addprefix $(DESTDIR)$(prefix)/share/,doc/moao/docs doc/moao/paper doc/moao/bench/results moao/examples)
	install -m 644 LICENSE CITATION.cff codemeta.json VERSION $(wildcard *.md) $(DESTDIR)$(prefix)/share/doc/moao/
	install -m 644 $(wildcard docs/*.md docs/*.png) docs/figures.json $(DESTDIR)$(prefix)/share/doc/moao/docs/
	install -m 644 $(wildcard paper/*) $(DESTDIR)$(prefix)/share/doc/moao/paper/
	install -m 644 $(wildcard bench/results/*) $(DESTDIR)$(prefix)/share/doc/moao/bench/results/
	install -m 644 $(wildcard examples/*) $(DESTDIR)$(prefix)/share/moao/examples/
	ln -sfn ../../moao/examples $(DESTDIR)$(prefix)/share/doc/moao/examples
	install -m 755 $(B)/moao $(DESTDIR)$(prefix)/bin/
	$(if $(wildcard $(B)/libmoao_gpu.so),install -m 755 $(B)/libmoao_gpu.so $(DESTDIR)$(prefix)/lib/moao/)
	install -d $(addprefix $(DESTDIR)$(prefix)/share/,man/man1 man/man5 bash-completion/completions zsh/site-functions)
	install -m 644 $(B)/man/*.1 $(DESTDIR)$(prefix)/share/man/man1/
	install -m 644 $(B)/man/*.5 $(DESTDIR)$(prefix)/share/man/man5/
	install -m 644 $(B)/completion/moao.bash $(DESTDIR)$(prefix)/share/bash-completion/completions/moao
	for c in $(commands_on_results); do ln -sf moao $(DESTDIR)$(prefix)/share/bash-completion/completions/moao-$$c; done
	install -m 644 $(B)/completion/_moao $(DESTDIR)$(prefix)/share/zsh/site-functions/
	cp -R params/. $(DESTDIR)$(prefix)/share/moao/params/
	install -m 755 $(filter-out scripts/lint.py scripts/draw_pictures.py scripts/run_notebooks.py,$(wildcard scripts/*.py scripts/*.sbatch)) scripts/mpi-env.sh scripts/moao-results $(DESTDIR)$(prefix)/share/moao/scripts/
	install -d $(DESTDIR)$(prefix)/share/moao/python/moao/importers
	install -m 644 VERSION $(DESTDIR)$(prefix)/share/moao/
	install -m 644 $(wildcard python/*.py) python/pyproject.toml $(DESTDIR)$(prefix)/share/moao/python/
	install -m 644 $(wildcard python/moao/*.py python/moao/*.html python/moao/*.js python/moao/py.typed) $(DESTDIR)$(prefix)/share/moao/python/moao/
	install -m 644 $(wildcard python/moao/importers/*.py) $(DESTDIR)$(prefix)/share/moao/python/moao/importers/
	for c in $(commands_on_results); do ln -sf ../share/moao/scripts/moao-results $(DESTDIR)$(prefix)/bin/moao-$$c; done

# packages of this build: dist/moao-VERSION-...whl for pip, dist/moao_VERSION_ARCH.deb for apt
.PHONY: wheel deb
DIST ?= dist
stage = $(B)/package/$@
staged = rm -rf $(stage); $(MAKE) --no-print-directory -s install DESTDIR=$(abspath $(stage)) prefix=/usr >/dev/null
# with the plugin where `make gpu` left it. A second program in the wheel, for MPICH and what has its ABI: where Debian's libmpich-dev is installed, or with MPICH=yes
MPICH ?= $(if $(shell command -v mpicc.mpich 2>/dev/null),yes,no)
wheel: all to-install
	$(call say,WHEEL,dist)
	+$(Q)$(staged) && $(if $(filter yes,$(MPICH)),$(MAKE) --no-print-directory B=$(B)/mpich CC=mpicc.mpich SCALAPACK_CFLAGS= SCALAPACK_LIBS=-lscalapack-mpich $(B)/mpich/moao &&) \
	  $(PYTHON) packaging/make_wheel.py --tree $(stage) --prefix /usr $(if $(filter yes,$(MPICH)),--mpich $(B)/mpich/moao) $(if $(NVCC),--cuda $(patsubst %/bin/nvcc,%,$(NVCC))) -o $(DIST)
deb: all to-install
	$(call say,DEB,dist)
	+$(Q)$(staged) && packaging/make_deb.sh $(abspath $(stage)) $(shell cat VERSION) $(DIST) $(COMPRESS)

# the source of the commit that is checked out, for Spack and for archives
.PHONY: dist
dist:
	@mkdir -p $(DIST)
	@git archive --prefix=moao-$(shell cat VERSION)/ -o $(DIST)/moao-$(shell cat VERSION).tar.gz HEAD
	@echo "$(DIST)/moao-$(shell cat VERSION).tar.gz"

.PHONY: release-notes
release-notes:
	@$(PYTHON) packaging/release_notes.py

clean:
	rm -rf build demo-out dist

format:
	clang-format-14 -i $(wildcard src/*.[ch] src/*/*.[ch] src/linalg/*/*.[ch] src/linalg/include/moao/*.h src/gpu/*/*.cu src/gpu/*/*.cuh tests/*/*.[ch] bench/*.[ch] bench/tester/*.[ch] bench/gpu/*.c)

lint:
	@$(PYTHON) scripts/lint.py

# other simulators beside this one, which PyPI has (docs/validation.md); not a part of the check
.PHONY: validation
validation: all
	@$(PYTHON) tests/validation/compare_tiptop.py $(B)/validation
	@$(PYTHON) tests/validation/compare_pytomoao.py $(B)/pytomoao
	@$(PYTHON) tests/validation/compare_tiptop_files.py $(B)/validation-files

# the pictures of docs/, each from a small run; make lint names those that are older than what they show
pictures: all to-install
	@MOAO=$(B)/moao $(PYTHON) scripts/draw_pictures.py $(PICTURES)

# the outputs in the notebooks of examples/ anew
.PHONY: notebooks
notebooks: all
	@MOAO=$(abspath $(B)/moao) $(PYTHON) scripts/run_notebooks.py $(NOTEBOOKS)

docs: all
	$(B)/moao params --markdown >docs/parameters.md

-include $(patsubst %.o,%.d,$(call obj,$(prog_src) $(lib_src) $(test_src) $(test_help) $(bench_src))) $(cu_obj:.o=.d)
.SECONDARY:

"""moao for Spack: see docs/install.md. Libraries are found by pkg-config, but for those whose names depend on the provider."""
import os

from spack.package import *

try:  # Spack 1.0 and later keep the build systems with the packages
    from spack_repo.builtin.build_systems.makefile import MakefilePackage
except ImportError:
    pass


class Moao(MakefilePackage):
    """Image quality of multi-object adaptive optics on very large telescopes, computed from covariances of
    wavefront-sensor slopes on MPI ranks and GPUs."""

    maintainers = []
    license("BSD-3-Clause")

    # the archive of a release comes with it (make dist): Spack takes it from the current folder
    manual_download = True
    url = "file://%s/moao-0.3.0.tar.gz" % os.getcwd()  # without which Spack knows no way to fetch

    version("0.3.0")

    variant("cuda", default=False, description="build the plugin that computes on NVIDIA GPUs")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")
    depends_on("scalapack")
    depends_on("openblas threads=pthreads")
    depends_on("fftw@3.3:")
    depends_on("cfitsio")
    depends_on("libyaml")
    depends_on("cuda@12:", when="+cuda")
    depends_on("python@3.8:", type="run")
    depends_on("py-numpy", type="run")
    depends_on("py-astropy", type="run")
    depends_on("py-matplotlib", type="run")

    def url_for_version(self, version):
        return "file://%s/moao-%s.tar.gz" % (os.getcwd(), version)

    def variables(self):
        spec = self.spec
        words = [
            "CC=" + spec["mpi"].mpicc,
            "SCALAPACK_LIBS=" + spec["scalapack"].libs.ld_flags,
            "OPENBLAS_LIBS=" + spec["openblas"].libs.ld_flags,
            "prefix=" + str(self.prefix),
        ]
        if spec.satisfies("+cuda"):
            words.append("NVCC=" + spec["cuda"].prefix.bin.nvcc)
        return words

    @property
    def build_targets(self):
        return ["all"] + (["gpu"] if self.spec.satisfies("+cuda") else []) + self.variables()

    @property
    def install_targets(self):
        return ["install"] + self.variables()

    def test_check(self):
        """the program reads a shipped case and forecasts a run of it"""
        moao = which(self.prefix.bin.moao)
        out = moao("check", join_path(self.prefix.share.moao.params, "demo.yaml"), output=str.split, error=str.split)
        assert "measurements" in out

    def test_run(self):
        """a run of one target and one exposure on one rank writes maps.fits"""
        moao = which(self.prefix.bin.moao)
        moao("run", join_path(self.prefix.share.moao.params, "demo.yaml"), "dm.nssp=4", "ngs_defaults.nssp=4", "lgs_defaults.nssp=4",
             "targets={list: [[0, 0]]}", "schedule.exposure_interval=1 h", "psf.residual=sensor", "-o", "smoke", "-q")
        assert os.path.exists(join_path("smoke", "maps.fits"))

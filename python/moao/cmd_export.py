"""Write the point-spread functions of a run for other programs: normalised to flux, with the share of the light that
lies inside the image (the sum of an image is that share; column FRACTION of the table TARGETS).

  scopesim   field-varying PSF, read by the effect FieldVaryingPSF of ScopeSim
  cube       one cube [target, y, x] for each wavelength
  aot        the whole system with stars, sensors, mirrors, profiles and images: Adaptive Optics Telemetry (pip install aotpy)
"""
import os
import sys

from .cmd_plot import waves_of
from .command import parser, run_command
from .export import FORMATS, export
from .results import MoaoError, Run


def options():
    p = parser(__doc__)
    p.add_argument("folder", metavar="DIR", help="folder of the results, with psf.fits")
    p.add_argument("-o", "--output", metavar="FILE", help="FITS file to write (default: DIR/psf-FORMAT.fits)")
    p.add_argument("-f", "--format", choices=FORMATS + ("aot",), default="scopesim", help="(default: scopesim)")
    p.add_argument("-w", "--wavelength", metavar="UM[,UM...]", help="wavelengths, the nearest ones (default: all)")
    p.add_argument("-e", "--exposure", type=int, metavar="N", help="exposure from 1 (default: the long one)")
    p.add_argument("-p", "--pixel", type=float, metavar="MAS",
                   help="flux in pixels of that side, e.g. the detector's (default: the samples of psf.fits)")
    p.add_argument("-s", "--side", type=int, metavar="N", help="side of the images in pixels, made odd (default: all)")
    p.add_argument("-d", "--directions", type=int, metavar="N",
                   help="N x N directions over the field in place of the targets, of a run with output.field: true")
    p.add_argument("--overwrite", action="store_true", help="replace a file of that name")
    return p


def work(a):
    run = Run(a.folder)
    for name, value in (("pixel", a.pixel), ("side", a.side)):
        if value is not None and not value > 0:
            raise MoaoError("--%s %s: must be above 0" % (name, value))
    path = a.output or os.path.join(a.folder, "aot.fits" if a.format == "aot" else "psf-%s.fits" % a.format)
    if os.path.exists(path) and not a.overwrite:
        raise MoaoError("%s exists; --overwrite replaces it" % path)
    if a.format == "aot":
        return work_aot(a, run, path)
    hdus = export(run, a.format, waves_of(run, a.wavelength), a.exposure, a.pixel, a.side, a.directions)
    new = path + ".new"
    hdus.writeto(new, overwrite=True, checksum=True)
    os.replace(new, path)
    for h in hdus:
        if h.name.startswith("PSF_"):
            print("%-12s %d images of %d x %d pixels of %.4g mas, %.3f to %.3f of the light inside" % (
                h.name, h.data.shape[0], h.data.shape[2], h.data.shape[1], h.header["PIXEL"], h.header["FRACMIN"],
                h.header["FRACMAX"]))
    print(path)
    return 0


def work_aot(a, run, path):
    if any(v is not None for v in (a.pixel, a.side, a.directions)):
        raise MoaoError("--pixel, --side and --directions are of the other formats")
    from .aot import write_aot
    system = write_aot(run, path, waves_of(run, a.wavelength), a.exposure)
    print("%s: %d sources, %d sensors, %d mirrors, %d loops, %d images" % (system.ao_mode, len(system.sources), len(system.wavefront_sensors),
                                                                       len(system.wavefront_correctors), len(system.loops), len(system.scoring_cameras)))
    print(path)
    return 0


def main(arguments=None):
    a = options().parse_args(arguments)
    return run_command("moao-export", lambda: work(a))


if __name__ == "__main__":
    sys.exit(main())

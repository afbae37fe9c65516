#include "commands.h"

const char cmd_lab_usage[] =
    "usage: moao lab FILE... [key=value ...] [-o DIR] [-p PORT] [--no-browser]\n"
    "\n"
    "Shows a case live: a page for the browser where stars and targets are dragged,\n"
    "and seeing, zenith angle, magnitudes, mirror and profile have sliders. The map,\n"
    "the error budget and a PSF follow.\n"
    "\n"
    "  moao lab params/demo.yaml\n"
    "  moao lab mine.yaml telescope.zenith=30 -o night1\n"
    "\n"
    "  -o DIR        folder of the run in full (default: moao-runs/NAME-HASH)\n"
    "  -p PORT       port (default: the first free one from 8770 on)\n"
    "  --no-browser  print the address, and open no browser\n"
    "\n"
    "What follows is a run at a reduced order, which the page states with its error\n"
    "against the full order. \"Run in full\" starts the real run; the parameter file\n"
    "of what is seen can be saved. The page is served to this machine alone, under\n"
    "an address with a token. Ctrl-C ends it and what it started.\n"
    "It needs Python with numpy, astropy and tornado.\n";

int cmd_lab(int argc, char **argv) {
    if (command_wants_help(argc, argv, cmd_lab_usage))
        return 0;
    return command_in_python(argc, argv, "lab", "it is part of the Python package of moao");
}

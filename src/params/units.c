#include "units.h"

#include "base/decimal.h"
#include "system/system.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { /* value inside = number * mul / div: one of them is 1 wherever it can be */
    const char *name;
    dimension dim;
    double mul, div;
} unit;

/* The first unit of each dimension is the one used inside the program. */
static const unit units[] = {
    {"m", DIM_LENGTH, 1, 1},
    {"km", DIM_LENGTH, 1e3, 1},
    {"cm", DIM_LENGTH, 1, 1e2},
    {"mm", DIM_LENGTH, 1, 1e3},
    {"um", DIM_LENGTH, 1, 1e6},
    {"\xc2\xb5m", DIM_LENGTH, 1, 1e6}, /* micro sign */
    {"\xce\xbcm", DIM_LENGTH, 1, 1e6}, /* Greek mu */
    {"nm", DIM_LENGTH, 1, 1e9},
    {"angstrom", DIM_LENGTH, 1, 1e10},
    {"rad", DIM_ANGLE, 1, 1},
    {"mrad", DIM_ANGLE, 1, 1e3},
    {"urad", DIM_ANGLE, 1, 1e6},
    {"deg", DIM_ANGLE, 3.141592653589793, 180},
    {"arcmin", DIM_ANGLE, 60, ARCSEC_PER_RAD},
    {"arcsec", DIM_ANGLE, 1, ARCSEC_PER_RAD},
    {"mas", DIM_ANGLE, 1, ARCSEC_PER_RAD * 1e3},
    {"s", DIM_TIME, 1, 1},
    {"ms", DIM_TIME, 1, 1e3},
    {"us", DIM_TIME, 1, 1e6},
    {"min", DIM_TIME, 60, 1},
    {"h", DIM_TIME, 3600, 1},
    {"d", DIM_TIME, 86400, 1},
    {"m/s", DIM_SPEED, 1, 1},
    {"km/h", DIM_SPEED, 1, 3.6},
    {"B", DIM_BYTES, 1, 1},
    {"kB", DIM_BYTES, 1e3, 1},
    {"MB", DIM_BYTES, 1e6, 1},
    {"GB", DIM_BYTES, 1e9, 1},
    {"TB", DIM_BYTES, 1e12, 1},
    {"KiB", DIM_BYTES, 1024., 1},
    {"MiB", DIM_BYTES, 1048576., 1},
    {"GiB", DIM_BYTES, 1073741824., 1},
    {"TiB", DIM_BYTES, 1099511627776., 1},
    {"arcsec2", DIM_VARIANCE, 1, 1},
    {"arcsec^2", DIM_VARIANCE, 1, 1},
    {"mas2", DIM_VARIANCE, 1, 1e6},
    {"mas^2", DIM_VARIANCE, 1, 1e6},
    {"ph/m2/s", DIM_FLUX, 1, 1},
    {"ph/m^2/s", DIM_FLUX, 1, 1},
    {"ph/cm2/s", DIM_FLUX, 1e4, 1},
    {"ph/cm^2/s", DIM_FLUX, 1e4, 1},
    {"e-", DIM_CHARGE, 1, 1},
    {"m^-5/3", DIM_STRENGTH, 1, 1},
    {"m^(-5/3)", DIM_STRENGTH, 1, 1},
    {"Hz", DIM_RATE, 1, 1},
    {"kHz", DIM_RATE, 1e3, 1},
};
enum { NUNIT = sizeof units / sizeof units[0] };

/* Central wavelengths [um], rounded to what papers on adaptive optics use: Johnson and Cousins in
 * the visible, the common near-infrared filters beyond. */
static const struct {
    const char *name;
    double um;
} bands[] = {{"U", 0.36}, {"B", 0.44}, {"V", 0.55}, {"R", 0.64}, {"I", 0.79},
             {"Z", 0.88}, {"Y", 1.02}, {"J", 1.25}, {"H", 1.65}, {"Ks", 2.15},
             {"K", 2.2},  {"L", 3.45}, {"M", 4.8},  {"N", 10.5}};
enum { NBAND = sizeof bands / sizeof bands[0] };

/* Wavelengths carry the units of lengths. */
static dimension unit_dimension(dimension dim) {
    return dim == DIM_WAVELENGTH ? DIM_LENGTH : dim;
}

static const unit *unit_find(const char *name) {
    for (int i = 0; i < NUNIT; i++)
        if (strcmp(units[i].name, name) == 0)
            return &units[i];
    return NULL;
}

static const unit *unit_inside(dimension dim) {
    dim = unit_dimension(dim);
    for (int i = 0; i < NUNIT; i++)
        if (units[i].dim == dim)
            return &units[i];
    return NULL;
}

const char *units_dimension_name(dimension dim) {
    switch (dim) {
    case DIM_LENGTH:
        return "a length";
    case DIM_ANGLE:
        return "an angle";
    case DIM_TIME:
        return "a time";
    case DIM_SPEED:
        return "a speed";
    case DIM_BYTES:
        return "an amount of memory";
    case DIM_VARIANCE:
        return "a slope variance";
    case DIM_FLUX:
        return "a photon flux";
    case DIM_CHARGE:
        return "a number of electrons";
    case DIM_STRENGTH:
        return "a turbulence strength";
    case DIM_RATE:
        return "a rate";
    case DIM_WAVELENGTH:
        return "a wavelength";
    default:
        return "a number";
    }
}

void units_bands(char *out, size_t n) {
    size_t used = 0;
    if (n > 0)
        out[0] = '\0';
    for (int i = 0; i < NBAND && used < n; i++)
        used += (size_t)snprintf(out + used, n - used, "%s%s=%g", i ? ", " : "", bands[i].name,
                                 bands[i].um);
}

void units_list(dimension dim, char *out, size_t n) {
    size_t used = 0;
    dim = unit_dimension(dim);
    if (n > 0)
        out[0] = '\0';
    for (int i = 0; i < NUNIT; i++) {
        if (units[i].dim != dim || (units[i].name[0] & 0x80))
            continue;
        int k = snprintf(out + used, n - used, "%s%s", used ? ", " : "", units[i].name);
        if (k < 0 || (size_t)k >= n - used)
            return;
        used += (size_t)k;
    }
}

static bool parse_unit(const char *rest, dimension dim, const char *reference, const unit **u,
                       char *why, size_t n) {
    char list[256];
    *u = unit_find(*rest ? rest : reference);
    if (*rest == '\0')
        return true;
    units_list(dim, list, sizeof list);
    if (dim == DIM_NONE)
        snprintf(why, n, *u ? "has a unit" : "is not a number");
    else if (*u == NULL)
        snprintf(why, n, "is not a number with one of the units %s", list);
    else if ((*u)->dim != unit_dimension(dim))
        snprintf(why, n, "is %s, not %s", units_dimension_name((*u)->dim),
                 units_dimension_name(dim));
    else
        return true;
    return false;
}

static bool convert(double x, const unit *u, double *value, char *why, size_t n) {
    *value = u ? x * u->mul / u->div : x;
    if (!isfinite(*value))
        snprintf(why, n, "is beyond what a double holds");
    return isfinite(*value);
}

bool units_parse(const char *text, dimension dim, const char *reference, bool infinite,
                 double *value, char *why, size_t n) {
    if (strcmp(text, "inf") == 0 || strcmp(text, ".inf") == 0) {
        *value = INFINITY;
        snprintf(why, n, "is not finite");
        return infinite;
    }
    for (int i = 0; dim == DIM_WAVELENGTH && i < NBAND; i++)
        if (strcmp(text, bands[i].name) == 0)
            return convert(bands[i].um, unit_find("um"), value, why, n);
    size_t len = decimal_length(text);
    if (len == 0) {
        snprintf(why, n, "is not a number");
        return false;
    }
    const char *rest = text + len;
    while (*rest == ' ' || *rest == '\t')
        rest++;
    const unit *u;
    if (!parse_unit(rest, dim, reference, &u, why, n))
        return false;
    errno = 0;
    double x = strtod(text, NULL);
    if (errno == ERANGE && x == 0) /* a small one that a double still holds is fine */
        x = HUGE_VAL;
    return convert(x, u, value, why, n);
}

void units_format(double value, dimension dim, const char *reference, char *out, size_t n) {
    char why[128];
    const unit *u = unit_find(reference), *inside = unit_inside(dim);
    double x = u ? value * u->div / u->mul : value, back;
    if (isinf(value)) {
        snprintf(out, n, "%sinf", value < 0 ? "-" : "");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, n, "%.*g", digits, x);
        if (strchr(out, 'e') != NULL && fabs(x) >= 1 && fabs(x) < 1e15)
            continue; /* 40 rather than 4e+01 */
        if (units_parse(out, dim, reference, false, &back, why, sizeof why) && back == value)
            return;
    }
    const double near[2] = {nextafter(x, -INFINITY), nextafter(x, INFINITY)};
    for (int i = 0; i < 2; i++) {
        snprintf(out, n, "%.17g", near[i]);
        if (units_parse(out, dim, reference, false, &back, why, sizeof why) && back == value)
            return;
    }
    snprintf(out, n, "%.17g%s%s", value, inside ? " " : "", inside ? inside->name : "");
}

double units_in(double value, dimension dim, const char *reference) {
    const unit *u = unit_find(reference);
    return u && u->dim == unit_dimension(dim) ? value * u->div / u->mul : value;
}

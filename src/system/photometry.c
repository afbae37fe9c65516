#include "photometry.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PLANCK_C 1.98644586e-25 /* h c [J m] */
#define SAMPLES 64              /* of a sensor's band */

/* Flux of magnitude 0 at the effective wavelength of an A0 star. U to I, J to L: Bessell, Castelli
 * & Plez 1998, A&A 333, 231, table A2. Z, Y: Hewett et al. 2006, MNRAS 367, 454 (2232 and 2026 Jy).
 */
static const struct {
    int band;
    double um, flux; /* [1e-11 erg/s/cm^2/angstrom = 1e-4 W/m^3] */
    double width;    /* at half of the peak [um]; sources: photometry.h */
} zeros[] = {
    {BAND_U, 0.366, 417.5, 0.065},  {BAND_B, 0.438, 632.0, 0.089}, {BAND_V, 0.545, 363.1, 0.084},
    {BAND_R, 0.641, 217.7, 0.158},  {BAND_I, 0.798, 112.6, 0.154}, {BAND_Z, 0.8817, 86.07, 0.095},
    {BAND_Y, 1.0305, 57.20, 0.100}, {BAND_J, 1.22, 31.47, 0.213},  {BAND_H, 1.63, 11.38, 0.307},
    {BAND_K, 2.19, 3.961, 0.390},   {BAND_L, 3.45, 0.708, 0.472}};
enum { ZEROS = sizeof zeros / sizeof *zeros };

/* Colours of the main sequence: Pecaut & Mamajek 2013, ApJS 208, 9, table 5, with Gaia's of the
 * table's revision of 2022. */
static const struct {
    double type, U_B, B_V, V_R, V_I, V_K, J_H, H_K, G_V, BP_RP, G_RP;
} colours[] = {{9, -0.200, -0.070, -0.028, -0.061, -0.121, -0.050, 0.016, 0.018, -0.120, -0.036},
               {10, -0.005, 0.000, 0.001, 0.004, 0.041, -0.032, 0.028, 0.015, -0.037, -0.020},
               {15, 0.100, 0.160, 0.089, 0.186, 0.403, 0.031, 0.038, -0.015, 0.194, 0.130},
               {20, 0.053, 0.295, 0.166, 0.339, 0.734, 0.096, 0.045, -0.060, 0.377, 0.230},
               {25, -0.029, 0.440, 0.252, 0.506, 1.079, 0.173, 0.054, -0.110, 0.587, 0.329},
               {30, 0.057, 0.595, 0.341, 0.673, 1.437, 0.262, 0.067, -0.155, 0.784, 0.439},
               {32, 0.133, 0.650, 0.363, 0.713, 1.564, 0.293, 0.073, -0.165, 0.823, 0.459},
               {35, 0.185, 0.680, 0.377, 0.738, 1.635, 0.310, 0.076, -0.179, 0.850, 0.473},
               {40, 0.436, 0.816, 0.443, 0.853, 1.953, 0.387, 0.091, -0.227, 0.983, 0.560},
               {43, 0.776, 0.990, 0.537, 1.013, 2.400, 0.487, 0.109, -0.320, 1.210, 0.660},
               {45, 1.081, 1.150, 0.685, 1.272, 2.880, 0.568, 0.132, -0.440, 1.430, 0.740},
               {47, 1.222, 1.340, 0.802, 1.519, 3.350, 0.619, 0.164, -0.580, 1.700, 0.860},
               {50, 1.204, 1.420, 0.889, 1.766, 3.650, 0.627, 0.190, -0.700, 1.840, 0.920},
               {52, 1.170, 1.505, 1.001, 2.173, 4.230, 0.600, 0.234, -0.925, 2.230, 1.060},
               {54, 1.222, 1.650, 1.241, 2.831, 5.250, 0.557, 0.280, -1.400, 2.940, 1.240},
               {56, 1.300, 2.010, 1.950, 4.100, 7.100, 0.605, 0.352, -2.370, 4.160, 1.430}};
enum { TYPES = sizeof colours / sizeof *colours };

const char *photometry_band_name(int band) {
    static const char *const names[BANDS] = {"U", "B", "V",  "R", "I", "Z",  "Y", "J",
                                             "H", "K", "Ks", "L", "G", "BP", "RP"};
    return names[band];
}

bool photometry_band_shape(const char *name, double *centre, double *width) {
    static const double ks[] = {2.159e-6, 0.262e-6};
    if (strcmp(name, photometry_band_name(BAND_KS)) == 0) {
        *centre = ks[0];
        *width = ks[1];
        return true;
    }
    for (int i = 0; i < ZEROS; i++)
        if (strcmp(name, photometry_band_name(zeros[i].band)) == 0) {
            *centre = zeros[i].um * 1e-6;
            *width = zeros[i].width * 1e-6;
            return true;
        }
    return false;
}

int photometry_band_at(double wavelength) {
    int best = 0;
    for (int i = 1; i < ZEROS; i++)
        if (fabs(log(wavelength / (zeros[i].um * 1e-6))) <
            fabs(log(wavelength / (zeros[best].um * 1e-6))))
            best = i;
    return zeros[best].band;
}

bool photometry_in_band(int band, double wavelength) {
    static const double gaia[] = {0.62, 0.51, 0.78}; /* G, BP, RP [um] */
    double um = band >= BAND_G ? gaia[band - BAND_G] : 0;
    for (int i = 0; i < ZEROS; i++)
        if (zeros[i].band == (band == BAND_KS ? BAND_K : band))
            um = zeros[i].um;
    return fabs(log(wavelength / (um * 1e-6))) < 0.15;
}

bool photometry_type(const char *text, double *type) {
    static const char classes[] = "BAFGKM";
    const char *at = *text != '\0' ? strchr(classes, toupper((unsigned char)*text)) : NULL;
    char *end;
    if (at == NULL || !isdigit((unsigned char)text[1]))
        return false;
    const double within = strtod(text + 1, &end);
    while (*end == ' ')
        end++;
    end += *end == 'V' || *end == 'v';
    *type = 10 * (double)(at - classes) + within;
    return *end == '\0' && within < 10 && *type >= colours[0].type &&
           *type <= colours[TYPES - 1].type;
}

/* Magnitudes less that in V of a row of the table. */
static void magnitudes_of(int i, double m[BANDS]) {
    m[BAND_V] = 0;
    m[BAND_B] = colours[i].B_V;
    m[BAND_U] = m[BAND_B] + colours[i].U_B;
    m[BAND_R] = -colours[i].V_R;
    m[BAND_I] = -colours[i].V_I;
    m[BAND_K] = m[BAND_KS] = m[BAND_L] = -colours[i].V_K;
    m[BAND_H] = m[BAND_K] + colours[i].H_K;
    m[BAND_J] = m[BAND_H] + colours[i].J_H;
    m[BAND_G] = colours[i].G_V;
    m[BAND_RP] = m[BAND_G] - colours[i].G_RP;
    m[BAND_BP] = m[BAND_RP] + colours[i].BP_RP;
    /* between I and J, by the logarithm of the wavelength */
    m[BAND_Z] = m[BAND_I] + 0.235 * (m[BAND_J] - m[BAND_I]);
    m[BAND_Y] = m[BAND_I] + 0.602 * (m[BAND_J] - m[BAND_I]);
}

static void magnitudes(double type, double m[BANDS]) {
    double low[BANDS], high[BANDS];
    int i = 0;
    memset(m, 0, BANDS * sizeof *m);
    if (isnan(type))
        return;
    while (i < TYPES - 2 && type > colours[i + 1].type)
        i++;
    const double x = (type - colours[i].type) / (colours[i + 1].type - colours[i].type);
    magnitudes_of(i, low);
    magnitudes_of(i + 1, high);
    for (int b = 0; b < BANDS; b++)
        m[b] = low[b] + x * (high[b] - low[b]);
}

/* Logarithm of the photons [1/m^2/s/m] of a star with the magnitudes m at zeros[i]. */
static double photons_at(int i, const double m[BANDS]) {
    const double per_photon = PLANCK_C / (zeros[i].um * 1e-6);
    return log(zeros[i].flux * 1e-4 / per_photon) - 0.4 * M_LN10 * m[zeros[i].band];
}

/* The same at any wavelength [um]: linear in its logarithm between the bands; beyond U as U, beyond
 * L as the tail of a black body. */
static double photons_between(double um, const double m[BANDS]) {
    int i = 0;
    if (um <= zeros[0].um)
        return photons_at(0, m);
    if (um >= zeros[ZEROS - 1].um)
        return photons_at(ZEROS - 1, m) - 3 * log(um / zeros[ZEROS - 1].um);
    while (um > zeros[i + 1].um)
        i++;
    const double x = log(um / zeros[i].um) / log(zeros[i + 1].um / zeros[i].um);
    return (1 - x) * photons_at(i, m) + x * photons_at(i + 1, m);
}

double photometry_zero(int band, double type, double wavelength, double bandwidth) {
    double m[BANDS], sum = 0;
    magnitudes(type, m);
    const double own = m[band];
    for (int b = 0; b < BANDS; b++)
        m[b] -= own;
    for (int i = 0; i < SAMPLES; i++) {
        const double um = 1e6 * (wavelength + ((i + 0.5) / SAMPLES - 0.5) * bandwidth);
        sum += um > 0 ? exp(photons_between(um, m)) : 0;
    }
    return sum * bandwidth / SAMPLES;
}

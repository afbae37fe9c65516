/* Light of natural stars: photons of magnitude 0 by band, colours of main-sequence types. Model
 * section 5. All local; nothing is allocated. */
#ifndef MOAO_PHOTOMETRY_H
#define MOAO_PHOTOMETRY_H

#include <stdbool.h>

/* Bands of a magnitude, in the order of the words of sensors[].band after `auto`. Vega's system; G,
 * BP and RP are Gaia's; Ks counts as K (their zero points differ by 2 %). */
enum {
    BAND_U,
    BAND_B,
    BAND_V,
    BAND_R,
    BAND_I,
    BAND_Z,
    BAND_Y,
    BAND_J,
    BAND_H,
    BAND_K,
    BAND_KS,
    BAND_L,
    BAND_G,
    BAND_BP,
    BAND_RP,
    BANDS
};

const char *photometry_band_name(int band);
/* Centre and width [m] of a band of images. Widths at half of the peak: U to I Bessell 1979 (PASP
 * 91, 589), J to L Bessell 2005 (ARA&A 43, 293); Z, Y Lawrence et al. 2007 (MNRAS 379, 1599); Ks
 * Cohen et al. 2003 (AJ 126, 1090). Centres: the effective wavelengths of the zero points. False:
 * no such band, or one of Gaia's. */
bool photometry_band_shape(const char *name, double *centre, double *width);
/* The band of U to L nearest to a wavelength [m], by its ratio. */
int photometry_band_at(double wavelength);
/* Whether a sensor at a wavelength [m] sees so much of a band that colours hardly matter. */
bool photometry_in_band(int band, double wavelength);

/* A main-sequence type between B9 and M6, as "G2", "K3.5V" or "m0 v", into a number that grows by
 * 10 a class (B0: 0). False: no such type. */
bool photometry_type(const char *text, double *type);
#define PHOTOMETRY_TYPES "B9 to M6, as G2 or K3.5V"

/* Photons above the atmosphere [1/m^2/s] between wavelength -+ bandwidth/2 [m] of a star of
 * magnitude 0 in `band`. type: of photometry_type, NAN for a star whose colours are all 0 (Vega's).
 */
double photometry_zero(int band, double type, double wavelength, double bandwidth);

#endif

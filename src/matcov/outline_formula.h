/* Where nodes on outlines of the lit parts (matcov_outline) serve instead of tables of whole
 * squares, and how: for host and device. Model section 4. */
#ifndef MOAO_MATCOV_OUTLINE_FORMULA_H
#define MOAO_MATCOV_OUTLINE_FORMULA_H

/* Separation, in root mean square sizes of two footprints, up to which nodes replace the tables. */
#define OUTLINE_RADIUS 6.107
/* Share of a covariance that nodes of one set on both sides have; the rest is that of one set with
 * the other, whose error is the opposite. */
#define OUTLINE_SAME (2.0 / 7.0)
/* Separation, in the same sizes, from which on few nodes serve. */
#define OUTLINE_APART 2.3
/* The same beyond which second moments change less than 1e-5 of the slope variance; between two
 * sensors they are left out there. Within one they decide its smallest eigenvalues. */
#define OUTLINE_MOMENTS 16.0

#endif

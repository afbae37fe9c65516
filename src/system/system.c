#include "system.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sys_subaperture_valid(int n, double obs, int ix, int iy) {
    int64_t x = 2 * (int64_t)ix + 1 - n, y = 2 * (int64_t)iy + 1 - n;
    int64_t r2 = x * x + y * y;
    double hole = obs * n;
    if (n <= 2) /* stars for tip-tilt and focus: each subaperture has its share of the annulus */
        return true;
    return hole * hole * (1 - 1e-9) <= (double)r2 && r2 < (int64_t)n * n;
}

bool sys_actuator_valid(int n, double obs, int ix, int iy) {
    int64_t x = 2 * (int64_t)ix - n, y = 2 * (int64_t)iy - n;
    double r = sqrt((double)(x * x + y * y));
    return obs * n - 1 + 1e-9 * n < r && r < n + 1.4;
}

/* Area of the disc of radius R around zero within [0, x] x [0, y], x, y >= 0. */
static double disc_in_corner(double R, double x, double y) {
    x = fmin(x, R);
    y = fmin(y, R);
    if (x * x + y * y <= R * R)
        return x * y;
    double from = sqrt(R * R - y * y); /* beyond it the circle is lower than y */
    return y * from +
           0.5 * (x * sqrt(R * R - x * x) - from * y + R * R * (asin(x / R) - asin(from / R)));
}

/* The same within a square from (x, y) on, of any signs. */
static double disc_in_square(double R, double x, double y, double side) {
    double area = 0;
    for (int i = 0; i < 4 && R > 0; i++) {
        double a = x + (i & 1) * side, b = y + (i >> 1) * side;
        double corner = disc_in_corner(R, fabs(a), fabs(b));
        corner = (a < 0) != (b < 0) ? -corner : corner;
        area += i == 0 || i == 3 ? corner : -corner;
    }
    return area;
}

/* Share of subaperture (ix, iy) of n x n within the annulus. */
static double annulus_share(int n, double obs, int ix, int iy) {
    const double R = 0.5 * n, x = ix - R, y = iy - R; /* in subapertures */
    return disc_in_square(R, x, y, 1) - disc_in_square(obs * R, x, y, 1);
}

/* Whether the pupil lights a subaperture of the annulus well enough; those of stars of 1 and 2 have
 * what there is. */
static bool is_lit(const sys *s, int n, int ix, int iy) {
    const double d = s->diameter / n, half = 0.5 * s->diameter;
    const double least = n <= 2 ? 0.01 : pupil_about(s->pupil)->min_light;
    return pupil_light(s->pupil, ix * d - half, iy * d - half, d) >=
           least * annulus_share(n, s->obs, ix, iy);
}

/* Indices iy*side + ix for which valid() holds, increasing; of a sensor those that are lit. */
static status list_valid(const sys *s, int n, int side, bool of_sensor,
                         bool (*valid)(int, double, int, int), int **list, int *count) {
    status st;
    *count = 0;
    free(*list);
    TRY(ALLOC(*list, (size_t)side * (size_t)side, "valid subapertures or actuators"));
    for (int iy = 0; iy < side; iy++)
        for (int ix = 0; ix < side; ix++)
            if (valid(n, s->obs, ix, iy) &&
                (!of_sensor || s->pupil == NULL || is_lit(s, n, ix, iy)))
                (*list)[(*count)++] = iy * side + ix;
    if (*count == 0)
        st = status_fail(MOAO_INPUT,
                         "%d subapertures across with an obscuration of %g: none is valid", n,
                         s->obs);
done:
    return st;
}

status sys_derive_mirror(const sys *s, dmirror *dm) {
    sys clear = *s;
    clear.obs = dm->altitude == 0 ? s->obs : 0;
    return list_valid(&clear, dm->nssp, dm->nssp + 1, false, sys_actuator_valid, &dm->act,
                      &dm->nact);
}

status sys_derive(sys *s) {
    status st;
    s->airmass = 1 / cos(s->zenith);
    s->m = 0;
    if (s->pupil != NULL)
        s->obs = pupil_about(s->pupil)->obs;
    for (int w = 0; w < s->nsensor; w++) {
        sensor *o = &s->sensors[w];
        TRY(list_valid(s, o->nssp, o->nssp, true, sys_subaperture_valid, &o->sub, &o->nsub));
        o->first = s->m;
        s->m += 2 * (size_t)o->nsub;
    }
    TRY(list_valid(s, s->ts.nssp, s->ts.nssp, false, sys_subaperture_valid, &s->ts.sub,
                   &s->ts.nsub));
    s->ts.whole = true;
    s->t = 2 * (size_t)s->ts.nsub;
    TRY(list_valid(s, s->dm.nssp, s->dm.nssp + 1, false, sys_actuator_valid, &s->dm.act,
                   &s->dm.nact));
    s->dm.pitch = s->diameter / s->dm.nssp;
done:
    return st;
}

void sys_free(sys *s) {
    for (int w = 0; s->sensors != NULL && w < s->nsensor; w++)
        free(s->sensors[w].sub);
    free(s->sensors);
    free(s->ts.sub);
    free(s->dm.act);
    free(s->targets);
    pupil_free(s->pupil);
    loop_free(&s->loop);
    loop_free(&s->low.loop);
    loop_free(&s->fit.split.own);
    loop_free(&s->fit.split.seen);
    free(s->fit.dir);
    free(s->fit.weight);
    for (int i = 0; s->fit.mirrors != NULL && i < s->fit.nmirror; i++)
        free(s->fit.mirrors[i].act);
    free(s->fit.mirrors);
    memset(s, 0, sizeof *s);
}

void sys_slope_at(const sys *s, size_t k, int *w, int *axis, int *isub) {
    int low = 0, high = s->nsensor - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (s->sensors[middle].first <= k)
            low = middle;
        else
            high = middle - 1;
    }
    size_t i = k - s->sensors[low].first, n = (size_t)s->sensors[low].nsub;
    *w = low;
    *axis = i >= n;
    *isub = (int)(i >= n ? i - n : i);
}

/* What reaches the ground of the light that an observer at zenith has, at the airmass. */
static double airmass_loss(const sys *s, const sensor *o) {
    double k = o->noise.extinction * (s->airmass - 1);
    if (!o->noise.extinct)
        return 1;
    /* a laser star's light passes twice, its column is longer and it is farther away */
    return o->lgs ? pow(10.0, -0.8 * k) / s->airmass : pow(10.0, -0.4 * k);
}

double sys_zero_photons(const sensor_noise *n) {
    return n->zero > 0 ? n->zero : pow(10.0, 2.9) * (n->bandwidth * 1e10) * 1e4;
}

/* Photo-electrons of a magnitude, by natural stars' sensors. */
static double natural_light(const sensor *o, double magnitude, double common) {
    if (o->noise.zero > 0)
        return pow(10.0, -0.4 * magnitude) * common * o->noise.zero;
    return pow(10.0, 2.9 - 0.4 * magnitude) * common * (o->noise.bandwidth * 1e10) * 1e4;
}

double sys_photons(const sys *s, const sensor *o) {
    const sensor_noise *n = &o->noise;
    double pitch = s->diameter / o->nssp, loss = airmass_loss(s, o);
    double common = n->throughput * pitch * pitch * n->frame_time;
    if (n->photons > 0)
        return n->photons;
    if (o->lgs)
        return n->lgs_return * common / n->t_atm * loss;
    return natural_light(o, n->magnitude, common) * loss;
}

double sys_background(const sys *s, const sensor *o) {
    const sensor_noise *n = &o->noise;
    double pitch = s->diameter / o->nssp, pixel = n->pixel * ARCSEC_PER_RAD;
    double common = n->throughput * pitch * pitch * n->frame_time;
    return n->background + (n->has_sky ? natural_light(o, n->sky, common) * pixel * pixel : 0);
}

/* Whether a share is all of a subaperture, but for rounding. */
static bool is_all(double share) {
    return share > 1 - 1e-9;
}

double sys_lit_share(const sys *s, const sensor *o, int isub) {
    const int ix = o->sub[isub] % o->nssp, iy = o->sub[isub] / o->nssp;
    const double d = s->diameter / o->nssp, half = 0.5 * s->diameter;
    return s->pupil != NULL ? pupil_light(s->pupil, ix * d - half, iy * d - half, d)
                            : annulus_share(o->nssp, s->obs, ix, iy);
}

bool sys_is_whole(const sys *s, const sensor *o, int isub) {
    const int ix = o->sub[isub] % o->nssp, iy = o->sub[isub] / o->nssp;
    const double d = s->diameter / o->nssp, half = 0.5 * s->diameter;
    return s->pupil != NULL ? !pupil_crosses(s->pupil, ix * d - half, iy * d - half, d)
                            : is_all(sys_lit_share(s, o, isub));
}

bool sys_is_lit(const sys *s, double x, double y) {
    const double r = hypot(x, y), R = 0.5 * s->diameter;
    return s->pupil != NULL ? pupil_contains(s->pupil, x, y) : r < R && r >= s->obs * R;
}

static double annulus_area(const sys *s) {
    return M_PI / 4 * s->diameter * s->diameter * (1 - s->obs * s->obs);
}

double sys_peak(const sys *s) {
    const double part = s->pupil != NULL ? pupil_about(s->pupil)->amplitude / annulus_area(s) : 1;
    return part * part;
}

double sys_area(const sys *s) {
    return s->pupil != NULL ? pupil_about(s->pupil)->area : annulus_area(s);
}

double sys_delay_of(const sys *s, const sensor *o) {
    return s->delay - o->late;
}

status sys_see_common(sys *s) {
    split_control *c = &s->fit.split;
    loop_free(&c->seen);
    return c->copies > 2 ? loop_join(&s->loop, &c->own, &c->seen) : MOAO_OK;
}

int sys_low_modes(const sys *s) {
    return 2 + (s->low.modes == LOW_FOCUS || s->low.modes == LOW_ALL) +
           3 * (s->low.modes == LOW_PLATE_SCALE || s->low.modes == LOW_ALL);
}

void sys_low_at(const sys *s, int d, double x, double y, double mode[LOW_MOST]) {
    const double R = 0.5 * s->diameter, u = x / R, v = y / R;
    double far = 0;
    int n = 0;
    mode[n++] = u;
    mode[n++] = v;
    if (s->low.modes == LOW_FOCUS || s->low.modes == LOW_ALL)
        mode[n++] = u * u + v * v;
    if (s->low.modes != LOW_PLATE_SCALE && s->low.modes != LOW_ALL)
        return;
    for (int i = 0; i < s->fit.ndir; i++)
        far = fmax(far, hypot(s->fit.dir[i][0], s->fit.dir[i][1]));
    const double a = s->fit.dir[d][0] / far, b = s->fit.dir[d][1] / far;
    mode[n++] = a * u + b * v;
    mode[n++] = a * u - b * v;
    mode[n++] = b * u + a * v;
}

size_t sys_low_slopes(const sys *s, size_t *list) {
    size_t n = 0;
    for (int w = 0; w < s->nsensor; w++)
        for (size_t i = 0; s->sensors[w].low && i < 2 * (size_t)s->sensors[w].nsub; i++, n++)
            if (list != NULL)
                list[n] = s->sensors[w].first + i;
    return n;
}

bool sys_has_own_delays(const sys *s) {
    bool any = false;
    for (int w = 0; w < s->nsensor; w++)
        any = any || s->sensors[w].late != 0;
    return any;
}

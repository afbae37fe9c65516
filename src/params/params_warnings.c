#include "params_warn.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void params_warn(warnings *w, const char *fmt, ...) {
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    char **grown = realloc(w->v, (size_t)(w->n + 1) * sizeof *grown);
    if (grown == NULL)
        return;
    w->v = grown;
    if ((grown[w->n] = strdup(line)) != NULL)
        w->n++;
}

/* --- stars and targets */

static double cross(const double o[2], const double a[2], const double b[2]) {
    return (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
}

static int compare_points(const void *a, const void *b) {
    const double *p = a, *q = b;
    if (p[0] != q[0])
        return p[0] < q[0] ? -1 : 1;
    return (p[1] > q[1]) - (p[1] < q[1]);
}

/* Convex hull, counterclockwise, of n points (sorted in place) by Andrew's monotone chain; hull has
 * room for 2 n points. Returns its number of corners. */
static int convex_hull(int n, double (*p)[2], double (*hull)[2]) {
    int k = 0;
    qsort(p, (size_t)n, sizeof *p, compare_points);
    for (int pass = 0; pass < 2; pass++) {
        int start = k;
        for (int j = 0; j < n; j++) {
            const double *next = p[pass ? n - 1 - j : j];
            while (k >= start + 2 && cross(hull[k - 2], hull[k - 1], next) <= 0)
                k--;
            memcpy(hull[k++], next, sizeof *hull);
        }
        k--; /* the last point starts the other chain */
    }
    return k > 0 ? k : 1;
}

static double distance_to_segment(const double p[2], const double a[2], const double b[2]) {
    double dx = b[0] - a[0], dy = b[1] - a[1], l2 = dx * dx + dy * dy;
    double u = l2 > 0 ? ((p[0] - a[0]) * dx + (p[1] - a[1]) * dy) / l2 : 0;
    u = u < 0 ? 0 : u > 1 ? 1 : u;
    return hypot(p[0] - a[0] - u * dx, p[1] - a[1] - u * dy);
}

/* Distance of a point from a convex polygon of k corners, counterclockwise; inside: whether it lies
 * there. */
static double distance_outside(const double p[2], bool inside, int k, double (*hull)[2]) {
    double nearest = INFINITY;
    for (int i = 0; i < k && !inside; i++)
        nearest = fmin(nearest, distance_to_segment(p, hull[i], hull[(i + 1) % k]));
    return inside ? 0 : nearest;
}

/* Whether a point lies in it, in log k steps: the wedge of the fan of triangles from the first
 * corner that the point is in, and then its outer edge. */
static bool is_inside(const double p[2], int k, double (*hull)[2]) {
    int low = 1, high = k - 1;
    if (k < 3 || cross(hull[0], hull[1], p) < 0 || cross(hull[0], hull[k - 1], p) > 0)
        return false;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (cross(hull[0], hull[middle], p) >= 0)
            low = middle;
        else
            high = middle;
    }
    return cross(hull[low], hull[high], p) >= 0;
}

typedef struct {
    int n;              /* outside */
    double largest;     /* distance [rad] */
    double farthest[2]; /* its place */
} stray;

/* Whether a point lies in it or not farther from it than a milliarcsecond, seen from its middle. */
static bool is_nearly_inside(const double p[2], int k, double (*hull)[2], const double middle[2]) {
    const double margin = 1e-3 / ARCSEC_PER_RAD;
    double d = hypot(middle[0] - p[0], middle[1] - p[1]), nearer[2] = {p[0], p[1]};
    if (k < 3)
        return distance_outside(p, false, k, hull) <= margin;
    for (int i = 0; i < 2 && d > margin; i++)
        nearer[i] += (middle[i] - p[i]) * margin / d;
    return is_inside(p, k, hull) || is_inside(nearer, k, hull);
}

/* Targets farther than a milliarcsecond from the field of the stars. The farthest is a corner of
 * the targets' own hull, as a distance from a convex set is convex. */
static stray find_strays(const sys *s, int k, double (*hull)[2], double (*sorted)[2],
                         double (*corner)[2]) {
    stray out = {0};
    double middle[2] = {0, 0};
    for (int i = 0; i < 2 * k; i++)
        middle[i % 2] += hull[i / 2][i % 2] / k;
    for (int i = 0; i < s->ntarget; i++)
        out.n += !is_nearly_inside(s->targets[i], k, hull, middle);
    memcpy(sorted, s->targets, (size_t)s->ntarget * sizeof *sorted);
    int n = convex_hull(s->ntarget, sorted, corner);
    for (int i = 0; i < n; i++) {
        double d = distance_outside(corner[i], is_inside(corner[i], k, hull), k, hull);
        if (d > out.largest) {
            out.largest = d;
            memcpy(out.farthest, corner[i], sizeof out.farthest);
        }
    }
    return out;
}

static void warn_targets(const sys *s, warnings *w) {
    const size_t ns = (size_t)sys_stars(s), nt = (size_t)s->ntarget;
    double(*star)[2] = malloc(ns * sizeof *star), (*hull)[2] = malloc((2 * ns + 2) * sizeof *hull);
    double(*sorted)[2] = malloc(nt * sizeof *sorted);
    double(*corner)[2] = malloc((2 * nt + 2) * sizeof *corner);
    stray out = {0};
    for (int i = 0; star != NULL && i < sys_stars(s); i++)
        memcpy(star[i], s->sensors[i].dir, sizeof *star);
    if (star != NULL && hull != NULL && sorted != NULL && corner != NULL)
        out = find_strays(s, convex_hull(sys_stars(s), star, hull), hull, sorted, corner);
    if (out.n > 0)
        params_warn(w,
                    "targets: %d of %d lie outside the field spanned by the guide stars, by up to "
                    "%.3g arcsec at [%.4g, %.4g]; turbulence is extrapolated there",
                    out.n, s->ntarget, out.largest * ARCSEC_PER_RAD,
                    out.farthest[0] * ARCSEC_PER_RAD, out.farthest[1] * ARCSEC_PER_RAD);
    free(star);
    free(hull);
    free(sorted);
    free(corner);
}

static void warn_sensors(const sys *s, const atmos *a, warnings *w) {
    bool any_ngs = false;
    for (int i = 0; i < sys_stars(s); i++) {
        const sensor *o = &s->sensors[i];
        double share = 0;
        const char *where = "";
        any_ngs = any_ngs || !o->lgs;
        for (int k = 0; o->lgs && k < a->nprofile; k++) {
            const profile *p = &a->profiles[k];
            double above = 0, total = 0;
            for (int j = 0; j < p->nlayer; j++) {
                total += p->strength[j];
                above += p->h[j] >= o->altitude ? p->strength[j] : 0;
            }
            if (above > share * total) {
                share = above / total;
                where = p->label;
            }
        }
        if (share > 0)
            params_warn(
                w,
                "%s: layers with %.2g %% of r0^(-5/3) (%s) are at or above the star and are not "
                "seen by it",
                o->name, 100 * share, where);
    }
    if (!any_ngs)
        params_warn(w, "sensors: no natural guide star, so that no sensor measures tip-tilt");
}

/* --- atmosphere and schedule */

static void warn_profiles(const params *par, const atmos *a, warnings *w) {
    int empty = 0, first_empty = 0, windless = 1, zeros_of_first = 0;
    for (int k = 0; k < a->nprofile; k++) {
        const profile *p = &a->profiles[k];
        int zeros = 0;
        for (int j = 0; j < p->nlayer; j++) {
            zeros += !(p->strength[j] > 0);
            windless = windless && !(hypot(p->wind[0][j], p->wind[1][j]) > 0);
        }
        if (zeros > 0 && empty++ == 0) {
            first_empty = k;
            zeros_of_first = zeros;
        }
    }
    if (empty > 0)
        params_warn(
            w,
            "atmosphere: layers of zero strength in %d profile%s, first %d of %d in %s; they do "
            "not count",
            empty, empty > 1 ? "s" : "", zeros_of_first, a->profiles[first_empty].nlayer,
            a->profiles[first_empty].label);
    if (par->loop_delay > 0 && windless)
        params_warn(w, "loop.delay: %g s without wind in any layer has no effect", par->loop_delay);
}

static void warn_schedule(const atmos *a, warnings *w) {
    int unused = 0, first_unused = 0, idle = 0;
    bool *used = calloc((size_t)a->nprofile, sizeof *used);
    for (int i = 0; used != NULL && i < a->ntor; i++)
        used[atmos_profile_at(a, a->tor_time[i]) - a->profiles] = true;
    for (int i = 0; used != NULL && i < a->nexposure; i++)
        used[atmos_profile_at(a, a->exposure_time[i]) - a->profiles] = true;
    for (int k = 0; used != NULL && k < a->nprofile; k++)
        if (!used[k] && unused++ == 0)
            first_unused = k;
    free(used);
    for (int i = 0; i < a->ntor; i++) {
        int first, end;
        atmos_exposures_of(a, i, &first, &end);
        idle += first == end;
    }
    if (unused > 0)
        params_warn(
            w,
            "atmosphere: %d of %d profiles never in force at a reconstructor or an exposure, "
            "first %s",
            unused, a->nprofile, a->profiles[first_unused].label);
    if (idle > 0)
        params_warn(w, "schedule: %d of %d reconstructors used by no exposure", idle, a->ntor);
    const profile *first = &a->profiles[0], *last = &a->profiles[a->nprofile - 1];
    double end = a->exposure_time[a->nexposure - 1];
    if (a->nprofile > 1 && end - last->time > 2 * (last->time - last[-1].time))
        params_warn(w,
                    "schedule: the last exposure, at %.6g s, is %.4g s later than the last profile",
                    end, end - last->time);
    if (a->nprofile > 1 && a->exposure_time[0] < first->time)
        params_warn(
            w, "schedule: the first exposure, at %.6g s, comes before the first profile, at %.6g s",
            a->exposure_time[0], first->time);
}

int params_warnings(const params *par, const sys *s, const atmos *a, char ***lines) {
    warnings w = {0};
    for (int i = 0; i < par->notes.n; i++)
        params_warn(&w, "%s", par->notes.v[i]);
    warn_targets(s, &w);
    warn_sensors(s, a, &w);
    warn_profiles(par, a, &w);
    warn_schedule(a, &w);
    params_warn_doubts(par, s, a, &w);
    *lines = w.v;
    return w.n;
}

void params_free_warnings(int n, char **lines) {
    for (int i = 0; i < n; i++)
        free(lines[i]);
    free(lines);
}

/* The parameters of `moao asterism`: which sensors stay, after which one the candidates' are made.
 */
#include "job/asterism.h"

#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Subapertures across a candidate's sensor at the default order of the search. */
#define SUBAPERTURES 8

/* Whether a name is among those of a list with commas between; blanks and case do not count. */
static bool is_listed(const char *list, const char *name) {
    for (const char *p = list; p != NULL && *p != '\0';) {
        const size_t len = strcspn(p, ",");
        const char *a = name;
        size_t i = 0;
        for (;;) {
            while (i < len && isspace((unsigned char)p[i]))
                i++;
            while (isspace((unsigned char)*a))
                a++;
            if (i == len || *a == '\0' ||
                tolower((unsigned char)p[i]) != tolower((unsigned char)*a))
                break;
            i++, a++;
        }
        if (i == len && *a == '\0')
            return true;
        p += len + (p[len] == ',');
    }
    return false;
}

static int count_names(const char *list) {
    int n = list != NULL && *list != '\0';
    for (const char *p = list; p != NULL && *p != '\0'; p++)
        n += *p == ',';
    return n;
}

/* Laser stars stay, natural ones only when --keep names them. */
static status part_sensors(ast_job *j) {
    const sensor_list *all = &j->par.sensors;
    int kept = 0;
    status st;
    TRY(ALLOC(j->fixed, (size_t)all->n, "sensors"));
    j->like = -1;
    for (int i = 0; i < all->n; i++) {
        const sensor_params *s = &all->v[i];
        const bool keep = s->type == SENSOR_NGS && is_listed(j->cl->keep, s->name);
        kept += keep;
        if (s->type == SENSOR_LGS || keep)
            j->fixed[j->nfixed++] = i;
        if (s->type == SENSOR_NGS && (j->like < 0 || is_listed(j->cl->keep, all->v[j->like].name)))
            j->like = i;
    }
    if (j->like < 0)
        return status_fail(MOAO_INPUT,
                           "%s: no natural star after which the candidates' sensors could be "
                           "made, expected one in sensors",
                           j->cl->files[0]);
    if (kept != count_names(j->cl->keep))
        return status_fail(MOAO_INPUT, "--keep %.60s: not all of these are natural stars of %s",
                           j->cl->keep, j->cl->files[0]);
    const sensor_params *like = &all->v[j->like];
    if (params_given(like->noise_variance) || params_given(like->photons))
        return status_fail(MOAO_INPUT,
                           "sensor %s: %s is given, so that magnitudes would not count, "
                           "expected none in the sensor after which the candidates' are made",
                           like->name,
                           params_given(like->noise_variance) ? "noise_variance" : "photons");
done:
    return st;
}

/* --- figures that are wanted --- */

/* Put a value into a list unless there is one within 1e-6 of it; the one that is there, or it. */
static status include(real_list *l, double v, double *found) {
    for (int i = 0; i < l->n; i++)
        if (fabs(l->v[i] / v - 1) < 1e-6) {
            *found = l->v[i];
            return MOAO_OK;
        }
    double *grown = realloc(l->v, (size_t)(l->n + 1) * sizeof *grown);
    if (grown == NULL)
        return status_fail(MOAO_MEMORY, "no memory for a list");
    l->v = grown;
    l->v[l->n++] = *found = v;
    return MOAO_OK;
}

status ast_complete_want(const char *text, const params *par, want *w) {
    const image_list *m = &par->images;
    int i = 0;
    status st;
    TRY(want_parse(text != NULL ? text : "mean strehl", w));
    if (w->lambda > 0)
        return MOAO_OK;
    while (w->band[0] != '\0' && i < m->n && strcmp(m->name[i], w->band) != 0)
        i++;
    if (i == m->n)
        return status_fail(MOAO_INPUT,
                           "--want '%.60s': psf.bands has no %s, expected one that it has", text,
                           w->band);
    w->lambda = m->lambda[i];
    w->width = m->width[i];
    snprintf(w->band, sizeof w->band, "%s", m->name[i]);
done:
    return st;
}

static status read_want(ast_job *j) {
    status st;
    TRY(ast_complete_want(j->cl->want, &j->par, &j->w));
    if (!(j->w.width > 0)) {
        TRY(include(&j->par.psf_wavelengths, j->w.lambda, &j->w.lambda));
        TRY(params_list_images(&j->par));
    }
    if (j->w.quantity == WANT_EE)
        TRY(include(&j->par.psf_ee_boxes, j->w.box, &j->w.box));
done:
    return st;
}

static status check_delays(const params *par) {
    if (par->mode == MODE_SPLIT)
        return status_fail(MOAO_INPUT,
                           "mode: split: the search knows no common mirror, expected mode=moao or "
                           "a mode of one set of mirrors");
    if (par->loop_type != LOOP_OPEN)
        return status_fail(MOAO_INPUT, "loop.type: the search knows no closed loop, expected open, "
                                       "with a loop.delay");
    for (int w = 0; w < par->sensors.n; w++)
        if (par->sensors.v[w].low_order && par->loop_low_control != LOW_JOINT)
            return status_fail(MOAO_INPUT,
                               "sensor %s: the search knows one reconstructor of all sensors, "
                               "expected low_order: false, or loop.low.control: joint",
                               par->sensors.v[w].name);
    for (int w = 0; w < par->sensors.n; w++)
        if (params_given(par->sensors.v[w].delay))
            return status_fail(MOAO_INPUT,
                               "sensor %s: the search knows one delay for all stars, expected no "
                               "sensors[].delay but loop.delay",
                               par->sensors.v[w].name);
    return MOAO_OK;
}

status ast_job_init(const comm *c, const cmdline *cl, int noverride, const char *const *overrides,
                    ast_job *j) {
    status st;
    *j = (ast_job){.cl = cl, .sk = {.ra = NAN, .dec = NAN, .angle = NAN}};
    TRY(params_load(c, cl->nfile, cl->files, noverride, overrides, &j->par));
    st = check_delays(&j->par);
    if (st == MOAO_OK)
        st = part_sensors(j);
    if (st == MOAO_OK)
        st = read_want(j);
    if (st == MOAO_OK && cl->choose > AST_MOST)
        st = status_fail(MOAO_INPUT, "--choose %d: more than %d stars, expected fewer", cl->choose,
                         AST_MOST);
    TRY(comm_agree(c, st));
    j->own = j->par.sensors;
    j->par.sensors = (sensor_list){0};
    j->order = cl->order > 0
                   ? cl->order
                   : (int)lround((double)SUBAPERTURES * j->par.dm_nssp / j->own.v[j->like].nssp);
    j->order = j->order > 4 ? j->order : 4;
    j->order = j->order < j->par.dm_nssp ? j->order : j->par.dm_nssp;
    params_sky(&j->par, &j->sk);
done:
    return st;
}

/* --- the sensors of an asterism --- */

static void free_taken(ast_job *j) {
    for (int i = 0; i < j->par.sensors.n; i++)
        free(j->par.sensors.v[i].name);
    free(j->par.sensors.v);
    j->par.sensors = (sensor_list){0};
}

void ast_job_free(ast_job *j) {
    if (j->own.v != NULL) {
        free_taken(j);
        j->par.sensors = j->own;
    }
    params_free(&j->par);
    free(j->fixed);
    *j = (ast_job){0};
}

/* A copy with a name of its own. */
static status copy(const sensor_params *from, const char *name, sensor_params *to) {
    *to = *from;
    to->name = strdup(name);
    return to->name != NULL ? MOAO_OK : status_fail(MOAO_MEMORY, "no memory for a sensor");
}

status ast_job_take(ast_job *j, const ast_stars *s, const int *index, int n) {
    status st;
    free_taken(j);
    TRY(ALLOC(j->par.sensors.v, (size_t)(j->nfixed + n) + 1, "sensors"));
    for (int i = 0; i < j->nfixed + n; i++) {
        sensor_params *to = &j->par.sensors.v[i];
        if (i < j->nfixed) {
            const sensor_params *from = &j->own.v[j->fixed[i]];
            TRY(copy(from, from->name, to));
        } else {
            const ast_star *a = &s->v[index != NULL ? index[i - j->nfixed] : i - j->nfixed];
            TRY(copy(&j->own.v[j->like], a->name, to));
            memcpy(to->direction, a->xy, sizeof a->xy);
            to->magnitude = a->magnitude;
        }
        j->par.sensors.n = i + 1;
    }
done:
    return st;
}

double ast_job_radius(const ast_job *j) {
    double most = 0;
    if (j->cl->radius > 0)
        return j->cl->radius;
    for (int i = 0; i < j->own.n; i++)
        most = fmax(most, hypot(j->own.v[i].direction[0], j->own.v[i].direction[1]));
    return most * (1 + 1e-9);
}

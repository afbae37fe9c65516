#include "commands.h"

#include "base/json.h"
#include "base/plain.h"
#include "base/text.h"
#include "job/budget_read.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char cmd_budget_usage[] =
    "usage: moao budget DIR [options]\n"
    "\n"
    "Where the wavefront error of a finished run comes from: fitting, aliasing,\n"
    "tomography, servo lag, noise of every star, jitter and static error, in nm rms\n"
    "over the pupil, with the share of the total variance and the factor by which\n"
    "each reduces the Strehl ratio, exp(-variance), at the first wavelength.\n"
    "A term with a minus sign has a negative variance (docs/model.md, section 7).\n"
    "\n"
    "  --target T     of one target, its number from 1 or its name (default: all)\n"
    "  --exposure E   of one exposure, from 1 (default: the long exposure)\n"
    "  --csv          every term, a line for each target and exposure\n"
    "  --json         the table as JSON\n";

#define NAME BUDGET_NAME
#define BAR 20 /* characters of a share of 1 */

/* The order of the table; the total comes at the end. */
static const int order[] = {BUDGET_FITTING, BUDGET_GENERALISED, BUDGET_ALIASING, BUDGET_TOMOGRAPHY,
                            BUDGET_LAG,     BUDGET_NOISE,       BUDGET_JITTER,   BUDGET_STATIC,
                            BUDGET_SODIUM,  BUDGET_TOTAL};

/* --- what is shown --- */

typedef struct {
    double rms, least, most; /* of the mean of the targets' variances, signed [nm] */
    double share, factor;    /* of the total variance; of the Strehl ratio */
} row;

static double value_of(const budget *b, long i, long t) {
    const budget_term *of = &b->terms[i];
    return b->exposure == 0 ? of->mean[t] : of->exposures[t * b->nexposure + b->exposure - 1];
}

static double mean_variance(const budget *b, long i) {
    double sum = 0;
    for (long t = 0; t < b->ntarget; t++)
        if (b->chosen < 0 || t == b->chosen) {
            const double v = value_of(b, i, t);
            sum += v * fabs(v) / (b->chosen < 0 ? (double)b->ntarget : 1);
        }
    return sum;
}

static row row_of(const budget *b, long i) {
    const double variance = mean_variance(b, i), total = mean_variance(b, BUDGET_TOTAL);
    row r = {.rms = budget_rms(variance),
             .least = INFINITY,
             .most = -INFINITY,
             .share = total > 0 ? variance / total : 0,
             .factor = exp(-variance * pow(2 * M_PI / (b->lambda * 1e3), 2))};
    for (long t = 0; t < b->ntarget; t++)
        if (b->chosen < 0 || t == b->chosen) {
            r.least = fmin(r.least, value_of(b, i, t));
            r.most = fmax(r.most, value_of(b, i, t));
        }
    return r;
}

static void print_row(const budget *b, long i, bool star) {
    const row r = row_of(b, i);
    char bar[BAR + 1] = "";
    const int n = star || i == BUDGET_TOTAL ? 0 : (int)lround(BAR * fmax(0, fmin(1, r.share)));
    memset(bar, '#', (size_t)n);
    printf("%s%-*.*s %7.1f", star ? "  " : "", star ? 14 : 16, star ? 14 : 16, b->terms[i].name,
           r.rms);
    if (b->chosen < 0 && b->ntarget > 1)
        printf(" %7.1f %7.1f", r.least, r.most);
    printf(" %5.1f %% %7.3f%s%s\n", 100 * r.share, r.factor, n > 0 ? "  " : "", bar);
}

static void print_table(const budget *b) {
    const bool several = b->chosen < 0 && b->ntarget > 1;
    if (b->chosen >= 0)
        printf("target %d%s%.40s at (%.5g, %.5g) arcsec", b->chosen + 1,
               b->names[b->chosen][0] != '\0' ? ", " : "", b->names[b->chosen], b->x[b->chosen],
               b->y[b->chosen]);
    else
        printf("%ld target%s", b->ntarget, b->ntarget == 1 ? "" : "s");
    if (b->exposure > 0)
        printf(", exposure %d of %ld", b->exposure, b->nexposure);
    else
        printf(", long exposure (%ld)", b->nexposure);
    printf("; wavefront error, nm rms\n\n%-16s %7s", "", several ? "mean" : "rms");
    if (several)
        printf(" %7s %7s", "least", "most");
    printf(" %7s  Strehl at %.4g um\n", "share", b->lambda);
    for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
        if (b->terms[order[k]].mean == NULL)
            continue;
        print_row(b, order[k], false);
        for (long w = 0; order[k] == BUDGET_NOISE && w < b->nstar; w++)
            print_row(b, BUDGET_TERMS + w, true);
    }
    if (b->merged[0] != '\0')
        printf("\n%s: %s (docs/model.md, section 7)\n", budget_without(b->merged), b->merged);
    printf("\nStrehl ratio of the images %s: %.4f%s\n", b->at, b->strehl, several ? ", mean" : "");
}

static status print_csv(const budget *b) {
    text out = {0};
    text_add(&out, "target,name,x_arcsec,y_arcsec,exposure");
    for (long i = 0; i < BUDGET_TERMS + b->nstar; i++) {
        char name[2 * NAME];
        if (b->terms[i].mean == NULL)
            continue;
        snprintf(name, sizeof name, "%s%s_nm", i < BUDGET_TERMS ? "" : "noise of ",
                 b->terms[i].name);
        for (char *p = name; *p != '\0'; p++)
            *p = *p == ' ' && i < BUDGET_TERMS ? '_' : *p;
        text_add(&out, ",");
        text_add_cell(&out, name, "");
    }
    text_add(&out, "\n");
    for (long t = 0; t < b->ntarget; t++)
        for (long e = 0; e <= b->nexposure; e++) {
            if ((b->chosen >= 0 && t != b->chosen) || (b->exposure > 0 && e != b->exposure))
                continue;
            text_add(&out, "%ld,", t + 1);
            text_add_cell(&out, b->names[t], "");
            text_add(&out, ",%.10g,%.10g,", b->x[t], b->y[t]);
            text_add(&out, e == 0 ? "long" : "%ld", e);
            for (long i = 0; i < BUDGET_TERMS + b->nstar; i++)
                if (b->terms[i].mean != NULL)
                    text_add(&out, ",%.10g",
                             e == 0 ? b->terms[i].mean[t]
                                    : b->terms[i].exposures[t * b->nexposure + e - 1]);
            text_add(&out, "\n");
        }
    if (out.failed == MOAO_OK)
        fputs(out.s, stdout);
    free(out.s);
    return out.failed;
}

static void write_row(json *j, const budget *b, long i) {
    const row r = row_of(b, i);
    json_object(j, NULL);
    json_string(j, "term", b->terms[i].name);
    json_number(j, "rms_nm", r.rms);
    json_number(j, "least_nm", r.least);
    json_number(j, "most_nm", r.most);
    json_number(j, "share", r.share);
    json_number(j, "strehl_factor", r.factor);
}

static status print_json(const budget *b) {
    json j = {0};
    json_to(&j, stdout);
    json_string(&j, "directory", b->dir);
    json_integer(&j, "targets", b->ntarget);
    if (b->chosen >= 0)
        json_integer(&j, "target", b->chosen + 1);
    if (b->exposure > 0)
        json_integer(&j, "exposure", b->exposure);
    json_number(&j, "wavelength_um", b->lambda);
    json_number(&j, "strehl", b->strehl);
    json_array(&j, "terms");
    for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
        if (b->terms[order[k]].mean == NULL)
            continue;
        write_row(&j, b, order[k]);
        if (order[k] == BUDGET_NOISE) {
            json_array(&j, "stars");
            for (long w = 0; w < b->nstar; w++) {
                write_row(&j, b, BUDGET_TERMS + w);
                json_end(&j);
            }
            json_end(&j);
        }
        json_end(&j);
    }
    json_end(&j);
    return json_done(&j);
}

/* --- the command --- */

static status parse(int argc, char **argv, budget *b) {
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        char *end = NULL;
        if (strcmp(a, "--csv") == 0)
            b->csv = true;
        else if (strcmp(a, "--json") == 0)
            b->json = true;
        else if (strcmp(a, "--target") == 0 && i + 1 < argc)
            b->target = argv[++i];
        else if (strcmp(a, "--exposure") == 0 && i + 1 < argc) {
            const long e = isdigit((unsigned char)argv[++i][0]) ? strtol(argv[i], &end, 10) : 0;
            if (e < 1 || e > 1000000000 || *end != '\0')
                return status_fail(MOAO_INPUT, "--exposure: %.80s, expected a number from 1",
                                   argv[i]);
            b->exposure = (int)e;
        } else if (a[0] == '-')
            return status_fail(MOAO_INPUT,
                               "moao budget: unknown option, or one without its value, "
                               "see moao help budget: %.80s",
                               a);
        else if (b->dir != NULL)
            return status_fail(MOAO_INPUT, "moao budget: one folder, not also %.200s", a);
        else
            b->dir = a;
    }
    if (b->dir == NULL)
        return status_fail(MOAO_INPUT, "moao budget: no folder, see moao help budget");
    if (b->csv && b->json)
        return status_fail(MOAO_INPUT, "moao budget: --csv and --json exclude each other");
    return MOAO_OK;
}

int cmd_budget(int argc, char **argv) {
    budget b = {0};
    status st;
    if (command_wants_help(argc, argv, cmd_budget_usage))
        return 0;
    TRY(parse(argc, argv, &b));
    TRY(budget_read(&b));
    if (b.json)
        TRY(print_json(&b));
    else if (b.csv)
        TRY(print_csv(&b));
    else
        print_table(&b);
    if (fflush(stdout) == EOF)
        st = status_fail(MOAO_IO, "moao budget: standard output cannot be written");
done:
    budget_free(&b);
    return command_fail(st);
}

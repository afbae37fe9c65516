/* Results that anybody may have edited: the maps.fits of a run of a sweep is read for its error
 * budget, for the table of the sweep and for a figure of merit, or refused in one line.
 *
 * The input is a list of changes to a good file, each a byte that says which kind:
 *   0  two bytes of place, one of value: a byte of the file
 *   1  a table, a length, a card: the one of the same keyword in that table, or a further one
 *   2  two bytes: the file is cut there
 *   3  a length, the rest: the whole file */
#include "base/fits.h"
#include "fuzz.h"
#include "job/asterism_write.h"
#include "job/budget_read.h"
#include "job/sweep_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TARGETS = 2, EXPOSURES = 2, LAMBDA = 2, STARS = 2, TABLES = 4, CARD = 80 };
#define MAPS "sweep/a/maps.fits"

static uint8_t *good, *now;
static size_t ngood, table_at[TABLES]; /* first card of each table */

static void fill(fitsout *o, int ncol, const fitsout_column *c, int rows) {
    for (int k = 0; k < ncol; k++)
        for (int r = 1; r <= rows; r++) {
            double v[8] = {1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4.25, 4.75};
            const int n = atoi(c[k].form);
            if (c[k].form[strlen(c[k].form) - 1] == 'A')
                fitsout_cell_text(o, k + 1, r, r == 1 ? "left" : "right");
            else
                fitsout_cells_double(o, k + 1, r, 1, n, v);
        }
}

static void write_good(void) {
    static const fitsout_column waves[] = {{"LAMBDA", "1D", "um", ""}},
                                times[] = {{"TIME", "1D", "s", ""}},
                                stars[] = {{"NAME", "32A", "", ""}};
    static char names[2 * BUDGET_TERMS][32];
    fitsout_column targets[16 + 2 * BUDGET_TERMS] = {{"X", "1D", "", ""},
                                                     {"Y", "1D", "", ""},
                                                     {"NAME", "8A", "", ""},
                                                     {"STREHL", "4D", "", ""},
                                                     {"STREHL_LONG", "2D", "", ""},
                                                     {"VARIANCE_LONG", "2D", "", ""},
                                                     {"EE_75mas_LONG", "2E", "", ""},
                                                     {"WFE_STAR", "4D", "", ""},
                                                     {"WFE_STAR_LONG", "2D", "", ""}};
    int n = 9;
    fitsout o;
    for (int i = 0; i < BUDGET_TERMS; i++) {
        snprintf(names[2 * i], sizeof *names, "%s", budget_column(i));
        snprintf(names[2 * i + 1], sizeof *names, "%s_LONG", budget_column(i));
        targets[n++] = (fitsout_column){names[2 * i], "2D", "", ""};
        targets[n++] = (fitsout_column){names[2 * i + 1], "1D", "", ""};
    }
    if (fitsout_create(&o, MAPS) != MOAO_OK)
        fuzz_broken("cannot begin", status_message());
    fitsout_table(&o, "TARGETS", TARGETS, n, targets);
    fill(&o, n, targets, TARGETS);
    fitsout_table(&o, "GUIDESTARS", STARS, 1, stars);
    fill(&o, 1, stars, STARS);
    fitsout_table(&o, "EXPOSURES", EXPOSURES, 1, times);
    fill(&o, 1, times, EXPOSURES);
    fitsout_table(&o, "WAVELENGTHS", LAMBDA, 1, waves);
    fill(&o, 1, waves, LAMBDA);
    for (int i = 1; i <= LAMBDA; i++) {
        const double lambda = 0.75 + 0.5 * i;
        fitsout_cells_double(&o, 1, i, 1, 1, &lambda);
    }
    if (fitsout_commit(&o) != MOAO_OK)
        fuzz_broken("cannot write", status_message());
}

static void prepare(void) {
    int found = 0;
    struct stat sb;
    mkdir("sweep", 0777);
    mkdir("sweep/a", 0777);
    mkdir("sweep/a/checkpoint", 0777);
    fuzz_write("sweep/a/checkpoint/finished", "", 0);
    write_good();
    FILE *f = fopen(MAPS, "rb");
    if (f == NULL || fstat(fileno(f), &sb) != 0)
        abort();
    ngood = (size_t)sb.st_size;
    good = malloc(ngood);
    now = malloc(ngood);
    if (good == NULL || now == NULL || fread(good, 1, ngood, f) != ngood)
        abort();
    fclose(f);
    for (size_t i = 0; i < ngood && found < TABLES; i += CARD)
        if (memcmp(good + i, "XTENSION", 8) == 0)
            table_at[found++] = i;
}

/* A card instead of the one of its keyword, or before END. */
static void put_card(uint8_t *header, const uint8_t *text, size_t n) {
    uint8_t card[CARD];
    memset(card, ' ', CARD);
    memcpy(card, text, n < CARD ? n : CARD);
    while (header + 2 * CARD < now + ngood && memcmp(header, card, 8) != 0 &&
           memcmp(header, "END     ", 8) != 0)
        header += CARD;
    const size_t at = (size_t)(header - now);
    if (memcmp(header, "END     ", 8) == 0 && (at / CARD + 1) % 36 != 0)
        memcpy(header + CARD, header, CARD);
    memcpy(header, card, CARD);
}

/* The good file with changes; its size. */
static size_t change(const uint8_t *p, size_t n) {
    size_t size = ngood;
    memcpy(now, good, ngood);
    while (n > 0) {
        const int kind = p[0] & 3;
        size_t used = kind == 0 ? 4 : 3;
        if (n < used)
            break;
        const size_t at = (p[1] | (size_t)p[2] << 8) % ngood;
        if (kind == 0) {
            now[at] = p[3];
        } else if (kind == 1) {
            const size_t len = p[2] < n - used ? p[2] : n - used;
            put_card(now + table_at[p[1] % TABLES], p + used, len);
            used += len;
        } else if (kind == 2) {
            size = at;
        } else {
            size = n - 1 < ngood ? n - 1 : ngood;
            memcpy(now, p + 1, size);
            used = n;
        }
        p += used;
        n -= used;
    }
    return size;
}

static void read_budget(int exposure, const char *target) {
    budget b = {.dir = "sweep/a", .exposure = exposure, .target = target};
    double sum = 0;
    const status st = budget_read(&b);
    if (st != MOAO_OK)
        fuzz_check_message(st);
    for (long i = 0; i < BUDGET_TERMS + b.nstar && st == MOAO_OK; i++)
        for (long t = 0; t < b.ntarget && b.terms[i].mean != NULL; t++)
            sum += b.terms[i].mean[t] + b.terms[i].exposures[(t + 1) * b.nexposure - 1] +
                   (double)strlen(b.terms[i].name) + (double)strlen(b.names[t]);
    if (st == MOAO_OK && (b.ntarget < 1 || b.nexposure < 1 || b.nstar < 1 || sum == -1))
        fuzz_broken("a budget of nothing", "");
    budget_free(&b);
    status_clear();
}

void fuzz_results(const uint8_t *data, size_t n) {
    static char folder[] = "a", word[] = "telescope.zenith=10", key[] = "telescope.zenith";
    char *words[] = {word}, *keys[] = {key};
    sweep_run run = {.folder = folder, .n = 1, .word = words, .damaged = true};
    sweep_list list = {.nkey = 1, .nrun = 1, .key = keys, .run = &run};
    want w;
    double figure;
    int finished;
    if (good == NULL)
        prepare();
    const size_t size = change(data, n);
    fuzz_write(MAPS, now, size);
    read_budget(n % 3, n % 5 == 0 ? "right" : NULL);
    if (want_parse("mean ee 75mas", &w) != MOAO_OK)
        fuzz_broken("a figure of merit is refused", status_message());
    w.lambda = 1.25e-6;
    status st = ast_read_figure("sweep/a", &w, &figure);
    if (st != MOAO_OK)
        fuzz_check_message(st);
    status_clear();
    st = sweep_table_write("sweep", &list, &finished);
    if (st != MOAO_OK)
        fuzz_check_message(st);
}

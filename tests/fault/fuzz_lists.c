/* Lists that people and other programs write. The first byte says which: 'r', runs.txt of a sweep,
 * which, written again, is the same list; 's' or 'm', a catalogue of stars, in the latter case
 * without those of no magnitude. */
#include "asterism/stars.h"
#include "fuzz.h"
#include "job/sweep_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void compare(const sweep_list *a, const sweep_list *b) {
    if (a->nkey != b->nkey || a->nrun != b->nrun)
        fuzz_broken("a list of runs changes when it is written again", "");
    for (int k = 0; k < a->nkey; k++)
        if (strcmp(a->key[k], b->key[k]) != 0)
            fuzz_broken("a key changes when it is written again", a->key[k]);
    for (int i = 0; i < a->nrun; i++) {
        const sweep_run *r = &a->run[i], *s = &b->run[i];
        if (r->n != s->n || strcmp(r->folder, s->folder) != 0 || r->n < a->nkey)
            fuzz_broken("a run changes when it is written again", r->folder);
        for (int k = 0; k < r->n; k++)
            if (strcmp(r->word[k], s->word[k]) != 0)
                fuzz_broken("a word changes when it is written again", r->word[k]);
    }
}

static void read_runs(void) {
    sweep_list l, again;
    int finished;
    status st = sweep_list_read("list", &l);
    if (st != MOAO_OK)
        fuzz_check_message(st);
    status_clear();
    if (st == MOAO_OK && l.nkey > 0) {
        st = sweep_table_write("list", &l, &finished);
        if (st != MOAO_OK)
            fuzz_check_message(st);
        status_clear();
        if (sweep_list_write("list", &l) != MOAO_OK || sweep_list_read("list", &again) != MOAO_OK)
            fuzz_broken("a list cannot be written and read again", status_message());
        compare(&l, &again);
        sweep_list_free(&again);
    }
    sweep_list_free(&l);
}

static void read_stars(bool magnitudes) {
    ast_stars s;
    ast_left_out left;
    status st = ast_stars_read("stars.csv", magnitudes, &s, &left);
    if (st != MOAO_OK)
        fuzz_check_message(st);
    for (int i = 0; i < s.n && st == MOAO_OK; i++) {
        const ast_star *a = &s.v[i];
        if (a->name[0] == '\0' || (magnitudes && isnan(a->magnitude)) ||
            (s.celestial ? !isfinite(a->ra) || !isfinite(a->dec)
                         : !isfinite(a->xy[0]) || !isfinite(a->xy[1])))
            fuzz_broken("a star without a place, a magnitude or a name", a->name);
    }
    ast_stars_free(&s);
}

void fuzz_lists(const uint8_t *data, size_t n) {
    static bool made;
    if (!made)
        mkdir("list", 0777);
    made = true;
    if (n == 0)
        return;
    if (data[0] == 'r') {
        fuzz_write("list/runs.txt", data + 1, n - 1);
        read_runs();
    } else {
        fuzz_write("stars.csv", data + 1, n - 1);
        read_stars(data[0] == 'm');
    }
}

#include "commands.h"

#include "base/file.h"
#include "base/plain.h"
#include "base/progress.h"
#include "job/advise.h"
#include "job/asterism_write.h"
#include "job/folder_lock.h"
#include "job/launch.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

const char cmd_asterism_usage[] =
    "usage: moao asterism FILE... --stars CATALOGUE --choose N -o DIR [-n RANKS]\n"
    "                     [--want FIGURE] [--limit MAG] [...] [key=value ...]\n"
    "\n"
    "Chooses guide stars: ranks the asterisms of N stars of a catalogue, with the\n"
    "laser stars of FILE, by the image quality of its targets, and computes the best\n"
    "ones in full. The natural stars of FILE are replaced; sensors of candidates are\n"
    "like the first of them.\n"
    "\n"
    "  moao asterism params/demo.yaml targets.grid.nx=4 targets.grid.ny=4 \\\n"
    "      --stars stars.csv --choose 3 -o best\n"
    "  moao asterism mine.yaml 'sensors[0].ring.radius=[30, 40]' --stars stars.csv \\\n"
    "      --choose 2 --limit 16 --want 'min ee 75mas over targets' -o best\n"
    "\n"
    "  --stars FILE   table with columns name, ra and dec (or x and y in arcsec) and\n"
    "                 magnitude; other kinds of files by way of moao-stars\n"
    "  --choose N     stars of an asterism\n"
    "  --want FIGURE  mean, min, max, median or pN of strehl, ee BOX or rms over the\n"
    "                 targets, at a wavelength or in a band of psf.bands (default:\n"
    "                 mean strehl, the first one)\n"
    "  --limit MAG    no fainter stars\n"
    "  --radius R     no stars farther from the centre (default: that of the farthest\n"
    "                 guide star of FILE) [arcsec]\n"
    "  --apart R      no two stars nearer to one another [arcsec]\n"
    "  --most N       the N brightest of the field (default 60)\n"
    "  --keep NAMES   natural stars of FILE that stay, with commas between\n"
    "  --order N      subapertures across the mirror for the ranking; sensors follow\n"
    "                 (default: so that the candidates' have 8)\n"
    "  --greedy       search by exchange; without it all are looked at up to 200000\n"
    "  --refine N     images of the N best at that order (default: what settles it)\n"
    "  --full N       full runs of the N best, in DIR/place-1... (default 3)\n"
    "  --sample N     what that order loses: N random asterisms at it and in full\n"
    "  --fields FILE  instead of one field, the best of each pointing of a table with\n"
    "                 ra and dec: sky coverage, DIR/coverage.csv; no full runs\n"
    "  key=a..b:step, key=[a, b]  laser stars at several places, as in moao sweep\n"
    "  -n RANKS       ranks, of the ranking and of each full run (default 1)\n"
    "  -q             no progress, no table\n"
    "\n"
    "DIR/asterism.csv is the table, DIR/winner.yaml the parameter file of the best.\n"
    "The table is there before the full runs; one that fails is reported in its\n"
    "row, and the exit code is then 1. Stars without a magnitude (empty, null, -999,\n"
    "99.99) and second rows of one star are left out and named.\n";

static const char options[] =
    "-n -o -q --stars --choose --want --limit --radius --apart --most --keep "
    "--order --greedy --refine --sample --full --fields --force";

static status check_words(const cmdline *cl) {
    want w;
    if (cl->dir == NULL || cl->dir[0] == '\0')
        return status_fail(MOAO_INPUT,
                           "moao asterism: no folder, expected -o DIR; see moao help asterism");
    if (cl->stars == NULL)
        return status_fail(MOAO_INPUT,
                           "moao asterism: no catalogue, expected --stars FILE; see moao "
                           "help asterism");
    if (cl->choose == 0)
        return status_fail(MOAO_INPUT,
                           "moao asterism: expected --choose N; see moao help asterism");
    return cl->want != NULL ? want_parse(cl->want, &w) : MOAO_OK;
}

/* DIR is new, empty, or an earlier asterism's. */
static status check_folder(const cmdline *cl) {
    DIR *d = cl->force ? NULL : opendir(cl->dir);
    bool foreign = false, own = false;
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        own = own || strcmp(e->d_name, "asterism.json") == 0;
        foreign = foreign || (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
                              strcmp(e->d_name, FOLDER_LOCK) != 0);
    }
    if (d != NULL)
        closedir(d);
    if (foreign && !own)
        return status_fail(MOAO_INPUT,
                           "%s: holds other files; choose another folder with -o, or --force",
                           cl->dir);
    return file_make_dir(cl->dir);
}

/* A script on results, quietly; its exit code. */
static int call_script(const char *command, const char *a, const char *b, const char *c,
                       bool quiet) {
    char script[4096];
    advise_script("moao-results", script, sizeof script);
    if (access(script, X_OK) != 0)
        return 127;
    fflush(NULL);
    int how = -1;
    const pid_t child = fork();
    if (child == 0) {
        if (quiet && (freopen("/dev/null", "w", stdout) == NULL ||
                      freopen("/dev/null", "w", stderr) == NULL))
            _exit(127);
        execl(script, script, command, a, b, c, (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &how, 0) == child && WIFEXITED(how) ? WEXITSTATUS(how) : 127;
}

/* Whether a file is of a kind that the Python package converts: by its name, or by what it begins
 * with, as a table whose header states units must not be read without them. */
static bool is_converted(const char *path) {
    static const char *const ends[] = {".fits",    ".fit",  ".gz",  ".vot", ".xml",
                                       ".votable", ".ecsv", ".tbl", ".tsv", ".mrt"};
    static const char *const starts[] = {"SIMPLE  =", "<?xml", "<VOTABLE", "# %ECSV",  "#%ECSV",
                                         "\x1F\x8B",  "\\",    "|",        "\xFF\xFE", "\xFE\xFF"};
    const size_t n = strlen(path);
    char head[16] = "";
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n > strlen(ends[i]) && strcasecmp(path + n - strlen(ends[i]), ends[i]) == 0)
            return true;
    FILE *f = file_unreadable(path) == NULL ? fopen(path, "rb") : NULL;
    if (f == NULL)
        return false;
    head[fread(head, 1, sizeof head - 1, f)] = '\0';
    fclose(f);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncasecmp(head, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* The table for the ranks: the user's, or one made of it in DIR. */
static status take_table(const char *dir, const char *name, const char **file, char **made) {
    status st;
    if (*file == NULL || !is_converted(*file))
        return MOAO_OK;
    TRY(file_join(dir, name, made));
    if (call_script("stars", *file, "-o", *made, false) != 0)
        return status_fail(MOAO_INPUT, "%s: cannot be converted; try moao-stars %s -o stars.csv",
                           *file, *file);
    *file = *made;
done:
    return st;
}

/* The words of the command line for the ranks: without -n, with other tables. */
static status rank_words(int argc, char **argv, const cmdline *cl, char ***out) {
    int k = 0;
    status st = ALLOC(*out, (size_t)argc + 1, "command line");
    if (st != MOAO_OK)
        return st;
    for (int i = 0; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (strcmp(argv[i], "-n") == 0 && more)
            i++;
        else if (strcmp(argv[i], "--stars") == 0 && more)
            (*out)[k++] = argv[i++], (*out)[k++] = (char *)cl->stars;
        else if (strcmp(argv[i], "--fields") == 0 && more)
            (*out)[k++] = argv[i++], (*out)[k++] = (char *)cl->fields;
        else if (strncmp(argv[i], "-n=", 3) != 0)
            (*out)[k++] = argv[i];
    }
    return st;
}

/* --- full runs of the best --- */

/* A full run, into the table: *figure is NAN where it failed, and only a run that was stopped is a
 * failure of the search. */
static status full_run(const cmdline *cl, int place, const want *w, double *figure) {
    text file = {0}, dir = {0}, log = {0};
    char state[48] = "done";
    int code = 0;
    bool asked = false;
    const double from = report_now();
    status st;
    *figure = NAN;
    text_add(&file, "%s/place-%d.yaml", cl->dir, place);
    text_add(&dir, "%s/place-%d", cl->dir, place);
    text_add(&log, "%s/place-%d.log", cl->dir, place);
    TRY(file.failed);
    TRY(dir.failed);
    TRY(log.failed);
    char *words[] = {"run", file.s, "-o", dir.s, "--overwrite", NULL};
    TRY(launch_run(cl->ranks > 0 ? cl->ranks : 1, words, log.s, &code, &asked));
    if (code == 3)
        TRY(status_fail(MOAO_STOPPED, "asterism: stopped; the ranking is in %s", cl->dir));
    if (code == 0 && ast_read_figure(dir.s, w, figure) != MOAO_OK) {
        snprintf(state, sizeof state, "failed (no figure in maps.fits)");
        fprintf(stderr, "moao asterism: the full run of place %d: ", place);
        plain_line(stderr, "", status_message());
        status_clear();
    } else if (code != 0) {
        snprintf(state, sizeof state, "failed (exit code %d)", code);
        fprintf(stderr, "moao asterism: the full run of place %d failed (exit code %d), see %s\n",
                place, code, file_shown(log.s));
    }
    TRY(ast_add_full(cl->dir, place, *figure, state));
    if (progress_is_json())
        progress_run(place, cl->full > 0 ? cl->full : 3, dir.s, isnan(*figure) ? "failed" : "done",
                     report_now() - from);
    if (!isnan(*figure) && !cl->quiet)
        printf("place %d in full: %.4g\n", place, *figure);
done:
    free(file.s);
    free(dir.s);
    free(log.s);
    return st;
}

/* The parameter file of the best, under its own name. */
static status write_winner(const char *dir, int place) {
    char name[40], *from = NULL, *to = NULL, *all = NULL;
    status st;
    snprintf(name, sizeof name, "place-%d.yaml", place);
    TRY(file_join(dir, name, &from));
    TRY(file_join(dir, "winner.yaml", &to));
    TRY(file_read_text(from, &all));
    st = file_write_text(to, all);
done:
    free(from);
    free(to);
    free(all);
    return st;
}

/* What ast_job_init makes of --want, once more. */
static status read_want(const cmdline *cl, want *w) {
    params par = {0};
    char *path = NULL;
    status st = file_join(cl->dir, "place-1.yaml", &path);
    if (st == MOAO_OK) {
        const char *const files[] = {path};
        st = params_load(NULL, 1, files, 0, NULL, &par);
    }
    if (st == MOAO_OK)
        st = ast_complete_want(cl->want, &par, w);
    params_free(&par);
    free(path);
    return st;
}

static status finish(const cmdline *cl) {
    const int most = cl->full > 0 ? cl->full : 3;
    double figure = NAN, best_figure = NAN;
    int best = 0, failed = 0, n = 0;
    want w;
    status st;
    TRY(read_want(cl, &w));
    for (; n < most; n++) {
        text path = {0};
        text_add(&path, "%s/place-%d.yaml", cl->dir, n + 1);
        const bool there = path.failed == MOAO_OK && file_exists(path.s);
        free(path.s);
        if (!there)
            break;
        TRY(full_run(cl, n + 1, &w, &figure));
        failed += isnan(figure);
        if (!isnan(figure) &&
            (best == 0 || (want_larger(&w) ? figure > best_figure : figure < best_figure))) {
            best = n + 1;
            best_figure = figure;
        }
    }
    if (best > 0)
        TRY(write_winner(cl->dir, best));
    if (!cl->quiet)
        printf("table    %s/asterism.csv\n", cl->dir);
    if (!cl->quiet && best > 0)
        printf("winner   %s/winner.yaml: place %d\n", cl->dir, best);
    if (failed > 0)
        st = status_fail(MOAO_NUMERIC, "asterism: %d of %d full runs failed, as said above; %s",
                         failed, n,
                         best > 0 ? "the winner is the best of the others"
                                  : "the ranking is in asterism.csv, there is no winner");
done:
    return st;
}

static void draw(const cmdline *cl) {
    const char *what = cl->fields != NULL ? "plot-coverage" : "plot-asterism";
    if (call_script(what, cl->dir, NULL, NULL, true) == 0)
        printf("picture  %s/%s.png\n", cl->dir, cl->fields != NULL ? "coverage" : "asterism");
    else
        printf("picture  moao-%s %s\n", what, cl->dir);
}

/* Parameter files that an earlier search left: what this one does not find must not be run. */
static status forget_places(const char *dir) {
    char *winner = NULL;
    status st = file_join(dir, "winner.yaml", &winner);
    if (st == MOAO_OK && file_exists(winner))
        st = file_delete(winner);
    free(winner);
    for (int place = 1; st == MOAO_OK; place++) {
        char name[40], *path = NULL;
        snprintf(name, sizeof name, "place-%d.yaml", place);
        st = file_join(dir, name, &path);
        const bool there = st == MOAO_OK && file_exists(path);
        if (there)
            st = file_delete(path);
        free(path);
        if (!there)
            break;
    }
    return st;
}

/* Everything but the ranking: in this process, which is no rank. */
static int drive(int argc, char **argv, cmdline *cl) {
    char **words = NULL, *stars = NULL, *fields = NULL;
    int code = 1, lock = -1;
    status st;
    TRY(check_folder(cl));
    TRY(folder_lock(cl->dir, "search", &lock));
    TRY(forget_places(cl->dir));
    TRY(take_table(cl->dir, "stars.csv", &cl->stars, &stars));
    TRY(take_table(cl->dir, "fields.csv", &cl->fields, &fields));
    TRY(rank_words(argc, argv, cl, &words));
    TRY(launch_run(cl->ranks > 0 ? cl->ranks : 1, words, NULL, &code, NULL));
    if (code != 0)
        goto done;
    if (progress_is_json()) { /* but not the logs of the full runs */
        progress_keep_json();
        setenv("MOAO_PROGRESS", "log", 1);
    }
    if (cl->fields == NULL)
        st = finish(cl);
    if (!cl->quiet && (st == MOAO_OK || st == MOAO_NUMERIC))
        draw(cl);
done:
    free(words);
    free(stars);
    free(fields);
    if (lock >= 0)
        close(lock);
    return st == MOAO_OK ? code : command_fail(st);
}

int cmd_asterism(int argc, char **argv) {
    comm c;
    cmdline cl = {0};
    if (command_wants_help(argc, argv, cmd_asterism_usage))
        return 0;
    status st = cmdline_parse(argc, argv, options, &cl);
    if (st == MOAO_OK)
        st = check_words(&cl);
    if (!launch_is_rank()) {
        const int code = st == MOAO_OK ? drive(argc, argv, &cl) : command_fail(st);
        cmdline_free(&cl);
        return code;
    }
    command_start(&argc, &argv);
    const status joined = comm_init(MPI_COMM_WORLD, &c);
    st = joined != MOAO_OK ? joined : comm_agree(&c, st);
    if (st == MOAO_OK && c.rank == 0)
        st = file_make_dir(cl.dir);
    progress_init(c.rank == 0 && !cl.quiet, 0);
    if (joined == MOAO_OK)
        st = comm_agree(&c, st);
    if (st == MOAO_OK)
        st = cl.fields != NULL ? ast_job_fields(&c, &cl) : ast_job_all(&c, &cl);
    progress_end();
    return command_end(&c, &cl, st);
}

#include "commands.h"

#include "base/file.h"
#include "base/plain.h"
#include "base/progress.h"
#include "job/advise.h"
#include "job/folder_lock.h"
#include "job/launch.h"
#include "job/setup.h"
#include "job/sweep_table.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char cmd_sweep_usage[] =
    "usage: moao sweep FILE... key=a..b[:step] ... [key=value ...] [-n RANKS] -o DIR\n"
    "       moao sweep --table -o DIR\n"
    "\n"
    "Makes a run for every combination of the values of the swept keys, each in a\n"
    "folder of its own below DIR, and a table of every figure of merit against the\n"
    "keys: DIR/sweep.fits and DIR/sweep.csv.\n"
    "\n"
    "  moao sweep params/demo.yaml telescope.zenith=0..60:15 -n 2 -o zenith\n"
    "  moao sweep mine.yaml 'sensors.*.magnitude=10..16:2' 'dm.nssp=[8, 16]' -o ab\n"
    "\n"
    "  key=a..b:step  from a to b, with one unit behind (0..50:10 mas); no step: 1\n"
    "  key=[a, b, c]  these values (quote it for the shell); for keys that take lists\n"
    "                 a list of lists\n"
    "  LIST.*.key=... all entries of a list together: sensors.*.magnitude fades all\n"
    "                 natural stars, sensors.NGS*.ron those with such a name\n"
    "  key=value      holds for all runs\n"
    "  -n RANKS       ranks of each run (default 1); the runs come one after another\n"
    "  -o DIR         folder of the sweep\n"
    "  --slurm        compute nothing: write DIR/runs.txt, print a line for SLURM\n"
    "  --table        compute nothing: write the table of what is finished in DIR\n"
    "  --force        use a DIR that holds other files\n"
    "  -q             no line for each run\n"
    "\n"
    "The same line again goes on: finished runs are kept, an interrupted one is\n"
    "resumed, further values are added. Ctrl-C and TERM stop it after the current\n"
    "exposure (exit code 3). moao-plot-sweep DIR draws the table.\n";

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int sig) {
    (void)sig;
    asked_to_stop = 1;
}

static void catch_signals(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&sa.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &sa, NULL);
}

enum { MOST = 1000 };

typedef struct {
    const cmdline *cl;
    int lock; /* descriptor, -1: not taken */
    sweep_list l;
    int nnew;          /* runs of this call, the first ones of the list */
    int done, failed;  /* of them */
    int computed;      /* by this call */
    int nlambda, nbox; /* different wavelengths and bands, boxes of all runs */
    double lambda[MOST], box[MOST];
    double from, last; /* start of the first computed run, last writing of the table [s] */
} sweep;

/* --- before anything is computed --- */

/* DIR is new, empty, or a sweep's. */
static status check_folder(const char *dir, bool force) {
    DIR *d = force ? NULL : opendir(dir);
    bool foreign = false;
    if (dir[0] == '\0')
        return status_fail(MOAO_INPUT, "moao sweep: an empty name of the folder, expected -o DIR");
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        foreign = foreign || (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
                              strcmp(e->d_name, FOLDER_LOCK) != 0 && !file_is_temporary(e->d_name));
    if (d != NULL)
        closedir(d);
    if (foreign)
        return status_fail(MOAO_INPUT,
                           "%s: holds files of something else than a sweep; choose another folder "
                           "with -o, or --force",
                           dir);
    return MOAO_OK;
}

/* Add x to the n different numbers of v; what is beyond MOST counts. */
static void add_new(double x, double *v, int *n) {
    for (int i = 0; i < *n && i < MOST; i++)
        if (fabs(v[i] / x - 1) < 1e-6)
            return;
    if (*n < MOST)
        v[*n] = x;
    ++*n;
}

static void count_columns(sweep *s, const params *par) {
    for (int i = 0; i < par->images.n; i++) /* a band is another one than its centre */
        add_new(par->images.lambda[i] + 10 * par->images.width[i], s->lambda, &s->nlambda);
    for (int i = 0; i < par->psf_ee_boxes.n; i++)
        add_new(par->psf_ee_boxes.v[i], s->box, &s->nbox);
}

/* The table of FITS will have room for what the runs give. */
static status check_columns(const sweep *s) {
    const double n = s->l.nkey + (double)s->nlambda * (SWEEP_FIGURES + s->nbox) + SWEEP_OTHERS;
    if (n <= SWEEP_COLUMNS)
        return MOAO_OK;
    return status_fail(MOAO_INPUT,
                       "moao sweep: its table would have %.0f columns, of which FITS has at most "
                       "%d; expected fewer psf.wavelengths (%d) or psf.ee_boxes (%d)",
                       n, SWEEP_COLUMNS, s->nlambda, s->nbox);
}

/* The parameters of one run are right, and those of what is in its folder. */
static status check_run(sweep *s, const sweep_run *r) {
    const cmdline *cl = s->cl;
    params par = {0};
    text path = {0};
    char *now = NULL, *before = NULL, difference[512];
    status st = params_load(NULL, cl->nfile, cl->files, r->n, (const char *const *)r->word, &par);
    if (st != MOAO_OK) {
        char why[1200];
        snprintf(why, sizeof why, "%s", status_message());
        status_clear();
        TRY(status_fail(st, "%s (in the run %s)", why, r->folder));
    }
    count_columns(s, &par);
    text_add(&path, "%s/%s/effective.yaml", cl->dir, r->folder);
    TRY(path.failed);
    if (!file_exists(path.s) || !sweep_begun(cl->dir, r->folder))
        goto done;
    TRY(setup_choose(&par));
    now = params_effective_text(&par);
    if (now == NULL)
        TRY(status_fail(MOAO_MEMORY, "no memory for effective parameters"));
    TRY(file_read_text(path.s, &before));
    if (params_compare_effective(before, now, difference, sizeof difference) != MOAO_OK)
        st =
            status_fail(MOAO_INPUT,
                        "%s/%s: computed with other parameters: %s; change it back, choose another "
                        "-o, or remove that folder",
                        cl->dir, r->folder, difference);
done:
    free(path.s);
    free(now);
    free(before);
    params_free(&par);
    return st;
}

/* The list of runs, joined with what DIR has already. */
static status make_list(sweep *s) {
    const cmdline *cl = s->cl;
    sweep_grid g = {0};
    sweep_list old = {0};
    status st;
    sweep_list_free(&s->l);
    TRY(sweep_parse(cl, &g));
    for (int i = 0; i < g.naxis; i++)
        if (g.axis[i].missed && s->nnew == 0) /* the first time */
            progress_warn(
                "%s: the steps end at %s, before %.10g: a step that fits, or another end, "
                "reaches it",
                g.axis[i].key, g.axis[i].value[g.axis[i].n - 1], g.axis[i].end);
    TRY(sweep_list_make(&g, &s->l));
    s->nnew = s->l.nrun;
    TRY(sweep_list_read(cl->dir, &old));
    if (old.nkey > 0)
        TRY(sweep_list_join(&s->l, &old, cl->dir));
    else
        TRY(check_folder(cl->dir, cl->force));
done:
    sweep_list_free(&old);
    sweep_free(&g);
    return st;
}

/* Everything is checked before anything is made; then the list is made again, as another sweep may
 * have added to it until the lock was taken. */
static status prepare(sweep *s) {
    status st;
    TRY(make_list(s));
    for (int i = 0; i < s->nnew; i++)
        TRY(check_run(s, &s->l.run[i]));
    TRY(check_columns(s));
    TRY(file_make_dir(s->cl->dir));
    TRY(folder_lock(s->cl->dir, "sweep", &s->lock));
    TRY(make_list(s));
    st = sweep_list_write(s->cl->dir, &s->l);
done:
    return st;
}

/* --- the runs --- */

static void add_duration(text *t, double seconds) {
    long n = (long)(seconds + 0.5);
    if (n >= 3600)
        text_add(t, "%ld:%02ld:%02ld", n / 3600, n / 60 % 60, n % 60);
    else
        text_add(t, "%ld:%02ld", n / 60, n % 60);
}

/* A run has results: it counts as done, or, where they cannot be read, as failed.
 * "[ 3/12] telescope.zenith=30: Strehl 0.431 at 2.2 um, 12 s, 1:48 left" */
static status tell(sweep *s, int i, const char *what, double seconds) {
    sweep_run *r = &s->l.run[i];
    double strehl;
    char at[SWEEP_AT];
    text t = {0};
    status st = sweep_check(s->cl->dir, r, &strehl, at);
    s->done += !r->damaged;
    s->failed += r->damaged;
    if (progress_is_json())
        progress_run(i + 1, s->nnew, r->folder,
                     r->damaged    ? "failed"
                     : seconds > 0 ? "done"
                                   : "before",
                     seconds);
    if (st != MOAO_OK || r->damaged || s->cl->quiet)
        return st;
    text_add(&t, "[%d/%d] %s: %s", i + 1, s->nnew, r->folder, what);
    if (isfinite(strehl))
        text_add(&t, ", Strehl %.3f at %s", strehl, at);
    if (seconds > 0) {
        text_add(&t, ", ");
        add_duration(&t, seconds);
    }
    if (s->computed > 0 && i + 1 < s->nnew) {
        text_add(&t, ", about ");
        add_duration(&t, (report_now() - s->from) / s->computed * (s->nnew - i - 1));
        text_add(&t, " left");
    }
    plain_line(stdout, "", t.s != NULL ? t.s : "");
    fflush(stdout);
    free(t.s);
    return st;
}

/* Last line of a log that says something, for a run that failed. */
static void tell_failure(const sweep *s, int i, const char *log, int code) {
    char *all = NULL, *last = NULL, *after = NULL;
    if (file_read_text(log, &all) == MOAO_OK)
        for (char *p = strtok_r(all, "\n", &after); p != NULL; p = strtok_r(NULL, "\n", &after))
            last = p;
    status_clear();
    if (progress_is_json())
        progress_run(i + 1, s->nnew, s->l.run[i].folder, "failed", 0);
    fprintf(stderr, "moao sweep: %s failed (exit code %d):\n", s->l.run[i].folder, code);
    plain_line(stderr, "  ", last != NULL ? last : "its log is empty");
    plain_line(stderr, "  all of it: ", log);
    if (code == 2) /* what a run would be told to do is not for a sweep */
        sweep_say_again(s->cl->dir, s->l.run[i].folder);
    free(all);
}

/* One run; *code as of moao run. */
static status compute(const sweep *s, const sweep_run *r, const char *log, int *code, bool *asked) {
    const cmdline *cl = s->cl;
    char **words = NULL;
    text dir = {0};
    int n = 0;
    status st;
    TRY(ALLOC(words, (size_t)(cl->nfile + r->n + 6), "command line"));
    text_add(&dir, "%s/%s", cl->dir, r->folder);
    TRY(dir.failed);
    words[n++] = "run";
    for (int i = 0; i < cl->nfile; i++)
        words[n++] = (char *)cl->files[i];
    for (int i = 0; i < r->n; i++)
        words[n++] = r->word[i];
    words[n++] = "-o";
    words[n++] = dir.s;
    if (sweep_begun(cl->dir, r->folder))
        words[n++] = "--resume";
    st = launch_run(cl->ranks > 0 ? cl->ranks : 1, words, log, code, asked);
done:
    free(dir.s);
    free(words);
    return st;
}

static status one_run(sweep *s, int i) {
    const sweep_run *r = &s->l.run[i];
    text log = {0};
    bool asked = false;
    int code = 1, finished;
    status st;
    if (sweep_finished(s->cl->dir, r->folder))
        return tell(s, i, "finished before", 0);
    const double from = report_now();
    s->from = s->computed == 0 ? from : s->from;
    text_add(&log, "%s/%s.log", s->cl->dir, r->folder);
    TRY(log.failed);
    TRY(compute(s, r, log.s, &code, &asked));
    if (code == 3 || asked)
        asked_to_stop = 1;
    s->computed++;
    s->failed += code != 0 && code != 3;
    if (code == 0)
        TRY(tell(s, i, "done", report_now() - from));
    else if (code != 3)
        tell_failure(s, i, log.s, code);
    if (report_now() - s->last > 10) {
        TRY(sweep_table_write(s->cl->dir, &s->l, &finished));
        s->last = report_now();
    }
done:
    free(log.s);
    return st;
}

/* --- afterwards --- */

/* Draw the table where the script is; quietly nothing where it, or what it needs, is not. */
static bool draw(const char *dir) {
    char script[4096];
    advise_script("moao-results", script, sizeof script);
    if (access(script, X_OK) != 0)
        return false;
    fflush(NULL);
    int how = -1;
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout) != NULL && freopen("/dev/null", "w", stderr) != NULL)
            execl(script, script, "plot-sweep", dir, (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

static void tell_picture(const char *dir) {
    text t = {0};
    advise_results("plot-sweep", &t);
    text_add(&t, " ");
    advise_word(&t, dir);
    plain_line(stdout, "picture  ", t.s != NULL ? t.s : "");
    free(t.s);
}

static status finish(sweep *s, bool picture) {
    const char *dir = s->cl->dir;
    int finished, damaged = 0;
    status st = sweep_table_write(dir, &s->l, &finished);
    if (st != MOAO_OK)
        return st;
    for (int i = 0; i < s->l.nrun; i++)
        damaged += s->l.run[i].damaged;
    if (damaged > 0 && s->cl->table)
        st = status_fail(MOAO_INPUT, "sweep: of %d runs %d cannot be read, as said above",
                         s->l.nrun, damaged);
    if (s->cl->quiet)
        return st;
    printf("table    %s/sweep.fits, %s/sweep.csv: %d of %d runs\n", dir, dir, finished, s->l.nrun);
    if (finished == 0 || !picture)
        return st;
    if (draw(dir))
        printf("picture  %s/sweep.png\n", dir);
    else
        tell_picture(dir);
    return st;
}

/* Nothing is computed: the line for a job array. */
static status tell_slurm(const sweep *s) {
    const cmdline *cl = s->cl;
    char script[4096];
    text t = {0};
    if (cl->nfile > 1)
        return status_fail(MOAO_INPUT, "moao sweep --slurm: expected one parameter file, not %d",
                           cl->nfile);
    advise_script("campaign.sbatch", script, sizeof script);
    text_add(&t, "sbatch --array=1-%d --ntasks=%d ", s->l.nrun, cl->ranks > 0 ? cl->ranks : 1);
    advise_word(&t, script);
    text_add(&t, " \\\n    ");
    advise_word(&t, cl->files[0]);
    text_add(&t, " ");
    text path = {0};
    text_add(&path, "%s/runs.txt", cl->dir);
    advise_word(&t, path.s != NULL ? path.s : "");
    text_add(&t, " ");
    advise_word(&t, cl->dir);
    status st = t.failed != MOAO_OK ? t.failed : path.failed;
    if (st == MOAO_OK)
        printf("%s\n", t.s);
    free(path.s);
    free(t.s);
    return st;
}

static status run_sweep(sweep *s) {
    status st;
    if (s->cl->dir == NULL)
        return status_fail(MOAO_INPUT,
                           "moao sweep: no folder, expected -o DIR; see moao help sweep");
    if (s->cl->table) {
        TRY(sweep_list_read(s->cl->dir, &s->l));
        if (s->l.nkey == 0)
            TRY(status_fail(MOAO_INPUT, "%s: holds no sweep (no runs.txt)", s->cl->dir));
        return finish(s, false);
    }
    catch_signals();
    if (progress_is_json()) { /* but not the logs of its runs */
        progress_keep_json();
        setenv("MOAO_PROGRESS", "log", 1);
    }
    TRY(prepare(s));
    if (s->cl->slurm)
        return tell_slurm(s);
    s->last = report_now();
    for (int i = 0; i < s->nnew && !asked_to_stop; i++)
        TRY(one_run(s, i));
    TRY(finish(s, s->done == s->nnew));
    if (s->failed > 0)
        st = status_fail(MOAO_NUMERIC, "sweep: %d of %d runs failed, as said above", s->failed,
                         s->nnew);
    else if (s->done < s->nnew)
        st = status_fail(MOAO_STOPPED,
                         "sweep: stopped with %d of %d runs finished; the same line "
                         "again goes on",
                         s->done, s->nnew);
done:
    return st;
}

int cmd_sweep(int argc, char **argv) {
    if (command_wants_help(argc, argv, cmd_sweep_usage))
        return 0;
    cmdline cl = {0};
    sweep s = {.cl = &cl, .lock = -1};
    status st = cmdline_parse(argc, argv, "-n -o --slurm --table --force -q", &cl);
    if (st == MOAO_OK && launch_is_rank())
        st = status_fail(MOAO_INPUT, "moao sweep starts mpirun itself: say -n RANKS behind it");
    if (st == MOAO_OK)
        st = run_sweep(&s);
    sweep_list_free(&s.l);
    cmdline_free(&cl);
    if (s.lock >= 0)
        close(s.lock);
    return command_fail(st);
}

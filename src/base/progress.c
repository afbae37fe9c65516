#define _GNU_SOURCE
#include "progress.h"

#include "plain.h"
#include "progress_json.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 80, MIN_WIDTH = 30, PROGRESS_PROTOCOL = 1 };
static const double REDRAW = 0.2; /* shortest time between two drawings of the bar [s] */

static struct {
    bool enabled, bar;  /* bar: on a terminal; else dated lines */
    bool json;          /* or events */
    int width;          /* of the bar [columns] */
    bool drawn;         /* the bar stands on the terminal's last line */
    double total;       /* of the run, as expected [s] */
    double work;        /* the parts that are done [s] */
    double part, flops; /* of the part being done: its expected time [s], and flops */
    double told;        /* flops of it that are done */
    double spent;       /* time that the parts took so far [s] */
    double since;       /* start of the part [s] */
    double last;        /* time of the last drawing [s] */
    char step[128];
} progress;

double report_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void (*report_listener)(const char *phase);

void report_phase(const char *phase) {
    if (report_listener != NULL)
        report_listener(phase);
}

/* Columns of the terminal that stderr ends at, at most WIDTH; 0 when it is no terminal. Under
 * mpirun a rank's stderr is a pipe to its parent, whose stderr then counts. */
static int terminal_width(void) {
    struct winsize w = {0};
    int fd = STDERR_FILENO;
    if (!isatty(fd) && getenv("OMPI_COMM_WORLD_SIZE") != NULL) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%ld/fd/2", (long)getppid());
        fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK);
    }
    bool terminal = fd >= 0 && isatty(fd);
    if (terminal && (ioctl(fd, TIOCGWINSZ, &w) != 0 || w.ws_col == 0))
        w.ws_col = WIDTH;
    if (fd >= 0 && fd != STDERR_FILENO)
        close(fd);
    int width = w.ws_col > WIDTH ? WIDTH : w.ws_col;
    return terminal && width < MIN_WIDTH ? MIN_WIDTH : width;
}

/* "1:02:03" or "02:03"; "--:--" when unknown. */
static void format_duration(double s, char *out, size_t size) {
    if (!(s >= 0 && s < 3.6e8)) {
        snprintf(out, size, "--:--");
        return;
    }
    long t = (long)(s + 0.5);
    if (t >= 3600)
        snprintf(out, size, "%ld:%02ld:%02ld", t / 3600, t / 60 % 60, t % 60);
    else
        snprintf(out, size, "%02ld:%02ld", t / 60, t % 60);
}

/* Work that is done, what is told of the current part included; a part ends by progress_part. */
static double work_done(void) {
    double share = progress.flops > 0 ? progress.told / progress.flops : 0;
    return progress.work + progress.part * (share > 0.98 ? 0.98 : share);
}

static double fraction_done(void) {
    double f = progress.total > 0 ? work_done() / progress.total : 0;
    return f < 0 ? 0 : f > 1 ? 1 : f;
}

/* Per cent, 100 only at the end. */
static int percent_done(void) {
    int percent = (int)(100 * fraction_done());
    return percent > 99 ? 99 : percent;
}

/* At the pace of the parts so far, which the expected pace joins with the weight of two percent of
 * the run; -1 when unknown. */
static double time_left(void) {
    const double prior = 0.02 * progress.total;
    double spent = progress.spent + (progress.part > 0 ? report_now() - progress.since : 0);
    double left = progress.total - work_done();
    if (!(progress.total > 0))
        return -1;
    return (left > 0 ? left : 0) * (spent + prior) / (work_done() + prior);
}

static void erase_bar(void) {
    if (progress.drawn)
        fputs("\r\033[K", stderr);
    progress.drawn = false;
}

/* {"event": "progress", "done": 0.42, "left_s": 83, "step": "exposure 2/6"} */
static void send_progress(bool now) {
    progress_event e;
    const double t = report_now();
    if (!progress.enabled || progress.step[0] == '\0' || (!now && t - progress.last < REDRAW))
        return;
    progress.last = t;
    progress_event_begin(&e, "progress");
    json_number(&e.j, "done", progress.total > 0 ? fraction_done() : NAN);
    json_number(&e.j, "left_s", progress.total > 0 ? time_left() : NAN);
    json_string(&e.j, "step", progress.step);
    progress_event_end(&e);
}

/* Redraw the bar: step [####....]  42% left 01:23, one column short of the width so that it never
 * wraps. */
static void draw_bar(bool now) {
    double t = report_now();
    if (progress.json)
        send_progress(now);
    if (!progress.bar || progress.step[0] == '\0' || (!now && t - progress.last < REDRAW))
        return;
    progress.last = t;
    char left[24], tail[48];
    double f = fraction_done();
    int width = progress.width - 1;
    format_duration(time_left(), left, sizeof left);
    int ntail = snprintf(tail, sizeof tail, " %3d%% left %s", percent_done(), left);
    int nstep = (int)strlen(progress.step);
    int most = (width - ntail) * 3 / 5;
    nstep = nstep > most ? most : nstep;
    int nbar = width - ntail - nstep - 3, filled;
    nbar = nbar < 0 ? 0 : nbar;
    filled = (int)(f * nbar);
    char bar[WIDTH + 1];
    memset(bar, '.', (size_t)nbar);
    memset(bar, '#', (size_t)filled);
    fprintf(stderr, "\r%.*s [%.*s]%s\033[K", nstep, progress.step, nbar, bar, tail);
    fflush(stderr);
    progress.drawn = true;
}

void progress_init(bool enabled, double seconds) {
    const char *mode = getenv("MOAO_PROGRESS");
    memset(&progress, 0, sizeof progress);
    progress.enabled = enabled;
    progress.width = enabled ? terminal_width() : 0;
    progress.bar = progress.width > 0;
    if (!progress.bar)
        progress.width = WIDTH;
    if (mode != NULL && strcmp(mode, "bar") == 0)
        progress.bar = enabled;
    progress.json = progress_is_json();
    if (progress.json || (mode != NULL && strcmp(mode, "log") == 0))
        progress.bar = false;
    progress.total = seconds;
    if (progress.json && enabled) {
        progress_event e;
        progress_event_begin(&e, "begin");
        json_integer(&e.j, "protocol", PROGRESS_PROTOCOL);
        json_number(&e.j, "expected_s", seconds > 0 ? seconds : NAN);
        progress_event_end(&e);
    }
}

/* Start a line of the log with the local time: "2026-11-21T03:12:45 ". */
static void print_date(void) {
    char date[40];
    time_t now = time(NULL);
    struct tm tm;
    if (localtime_r(&now, &tm) != NULL && strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm) > 0)
        fprintf(stderr, "%s ", date);
}

/* A line that stays, above the bar when there is one. */
static void print_line(const char *prefix, const char *kind, const char *fmt, va_list ap) {
    char line[1024];
    vsnprintf(line, sizeof line, fmt, ap);
    if (progress_is_json()) {
        progress_event_text(kind, plain_text(line));
        return;
    }
    erase_bar();
    if (prefix[0] == '\0' && !progress.bar)
        print_date();
    plain_line(stderr, prefix, line);
    fflush(stderr);
    draw_bar(true);
}

void progress_step(const char *fmt, ...) {
    char step[sizeof progress.step], left[24];
    va_list ap;
    if (!progress.enabled)
        return;
    va_start(ap, fmt);
    vsnprintf(step, sizeof step, fmt, ap);
    va_end(ap);
    plain_text(step);
    bool first = progress.step[0] == '\0';
    memcpy(progress.step, step, sizeof step);
    if (progress.bar || progress.json) {
        draw_bar(first || progress.json);
        return;
    }
    print_date();
    fprintf(stderr, "%s", step);
    if (progress.total > 0) {
        format_duration(time_left(), left, sizeof left);
        fprintf(stderr, " (%d%% done, %s left)", percent_done(), left);
    }
    fputc('\n', stderr);
    fflush(stderr);
}

void progress_part(double seconds, double flops) {
    const double now = report_now();
    if (progress.part > 0)
        progress.spent += now - progress.since;
    progress.work += progress.part;
    progress.part = seconds;
    progress.flops = flops;
    progress.told = 0;
    progress.since = now;
    draw_bar(false);
}

void progress_advance(double flops) {
    progress.told += flops;
    draw_bar(false);
}

void progress_note(const char *fmt, ...) {
    va_list ap;
    if (!progress.enabled)
        return;
    va_start(ap, fmt);
    print_line("", "note", fmt, ap);
    va_end(ap);
}

void progress_warn(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    print_line("moao: warning: ", "warning", fmt, ap);
    va_end(ap);
}

void progress_tell(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    print_line("moao: ", "stopping", fmt, ap);
    va_end(ap);
}

/* The pace: time that the finished parts took for each second that was expected of them, 1 with the
 * weight of two percent of the run. */
double progress_part_left(void) {
    const double prior = 0.02 * progress.total, spent = report_now() - progress.since;
    if (!(progress.part > 0) || !(progress.work + prior > 0))
        return 0;
    const double pace = (progress.spent + prior) / (progress.work + prior);
    const double share = progress.flops > 0 ? fmin(progress.told / progress.flops, 1) : 0;
    const double left = share > 0.05 ? spent * (1 - share) / share : progress.part * pace - spent;
    return left > 0 ? left : 0;
}

void progress_end(void) {
    erase_bar();
    fflush(stderr);
    progress.step[0] = '\0';
}

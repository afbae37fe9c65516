/* The report of `moao check`: text of at most 80 columns, or JSON. */
#include "cmd_check.h"

#include "base/json.h"
#include "base/plain.h"
#include "base/text.h"
#include "budget/terms.h"
#include "matcov/matcov.h"
#include "system/photometry.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 80, LABEL = 16, MOST_SENSORS = 24 };

static void add_memory(text *t, double bytes) {
    if (bytes < 9.5e8)
        text_add(t, "%.0f MB", bytes / 1e6);
    else if (bytes < 9.5e11)
        text_add(t, "%.3g GB", bytes / 1e9);
    else
        text_add(t, "%.3g TB", bytes / 1e12);
}

/* A label, and words that are broken before the terminal's edge. */
static void paragraph(const char *label, const char *words) {
    int column = printf("%-*s", LABEL, label);
    bool first = true;
    while (*words != '\0') {
        int n = (int)strcspn(words, " ");
        if (!first && column + 1 + n > COLUMNS)
            column = printf("\n%*s", LABEL, "") - 1;
        else if (!first)
            column += printf(" ");
        column += printf("%.*s", n, words);
        words += n + (words[n] == ' ');
        first = false;
    }
    printf("\n");
}

__attribute__((format(printf, 2, 3))) static void say(const char *label, const char *fmt, ...) {
    char words[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    paragraph(label, plain_text(words));
}

/* dgemm of a rank, of its GPU where that is known [flop/s]. */
static double advice_rate(const advice *a) {
    return a->m.devices && a->m.device_rate > 0 ? a->m.device_rate : a->m.rate;
}

static void print_split(const sys *s) {
    const split_control *c = &s->fit.split;
    if (!c->on)
        return;
    const bool closed = s->loop.type != LOOP_OPEN;
    char common[60], own[100];
    snprintf(common, sizeof common, "%.4g ms old", 1e3 * sys_common_delay(s));
    snprintf(own, sizeof own, "%.4g ms old", 1e3 * s->delay);
    if (closed) {
        snprintf(common, sizeof common, "in closed loop");
        snprintf(own, sizeof own, "%.4g frames old, leaky with gain %.4g", c->own.frames,
                 c->own.gain);
        if (c->own.gain == 1)
            snprintf(own, sizeof own, "%.4g frames old", c->own.frames);
    }
    say("commands", "of the common mirror: fitted to the phase in %d direction%s, %s", s->fit.ndir,
        text_plural(s->fit.ndir), common);
    say("", "of a target's: from %s%s, %s",
        c->residual ? "residual slopes" : "pseudo-open-loop slopes",
        c->residual  ? ""
        : c->unknown ? "; the common mirror's current shape is unknown to them"
                     : "; the common mirror's current shape is known to them",
        own);
    if (c->shift[0] != 0 || c->shift[1] != 0 || c->rot != 0 || c->scale != 1)
        say("", "sensors see the common mirror at (%.4g, %.4g) m, %.4g deg, %.6g times its size",
            c->shift[0], c->shift[1], c->rot * 180 / M_PI, c->scale);
}

/* Whether a sensor's delay is not that of the others. */
static bool own_delays(const sys *s) {
    bool any = false;
    for (int w = 0; w < sys_stars(s); w++)
        any = any || s->sensors[w].late != 0;
    return any;
}

static void print_low_orders(const sys *s) {
    static const char *const control[] = {"split", "cascade", "independent", "joint"};
    char text[256];
    int n = 0;
    for (int w = 0; w < s->nsensor; w++)
        n += s->sensors[w].low;
    if (!s->low.on)
        return;
    if (s->low.control == LOW_JOINT)
        say("low orders", "by one reconstructor of all sensors; %d star%s", n, text_plural(n));
    else
        say("low orders", "%d mode%s by %d star%s, %s", sys_low_modes(s),
            text_plural(sys_low_modes(s)), n, text_plural(n), control[s->low.control]);
    loop_describe(&s->low.loop, text, sizeof text);
    if (s->low.loop.type != LOOP_OPEN)
        say("", "%s", text);
}

static void print_sensors(const sys *s) {
    printf("sensors         %-20s %-4s %6s %12s  %s\n", "name", "type", "nssp", "measurements",
           "direction [\"]");
    for (int w = 0; w < sys_stars(s) && w < MOST_SENSORS; w++) {
        const sensor *k = &s->sensors[w];
        char name[sizeof k->name];
        memcpy(name, k->name, sizeof name);
        printf("%8d        %-20.20s %-4s %6d %12d  (%.1f, %.1f)\n", w, plain_text(name),
               k->lgs ? "LGS" : "NGS", k->nssp, 2 * k->nsub, k->dir[0] * ARCSEC_PER_RAD,
               k->dir[1] * ARCSEC_PER_RAD);
    }
    if (sys_stars(s) > MOST_SENSORS)
        say("", "and %d more", sys_stars(s) - MOST_SENSORS);
    for (int w = 0; w < sys_stars(s) && w < MOST_SENSORS && own_delays(s); w++)
        say(w == 0 ? "delays" : "", "%d %.4g ms from the middle of a frame of %.4g ms", w,
            1e3 * sys_delay_of(s, &s->sensors[w]), 1e3 * s->sensors[w].noise.frame_time);
    char loop[256];
    loop_describe(&s->loop, loop, sizeof loop);
    if (s->loop.type != LOOP_OPEN)
        say("loop", "%s", loop);
    print_low_orders(s);
    say("measurements", "%zu in all", sys_slopes(s));
    say("truth sensor", "%d subapertures across, %zu measurements", s->ts.nssp, s->t);
    if (s->fit.nmirror == 0)
        say("DM", "%d actuators, pitch %.3f m", s->dm.nact, s->dm.pitch);
    for (int i = 0; i < s->fit.nmirror; i++)
        say(i == 0 ? "mirrors" : "", "at %.0f m: %d actuators, pitch %.3f m, %d across",
            s->fit.mirrors[i].altitude, s->fit.mirrors[i].nact, s->fit.mirrors[i].pitch,
            s->fit.mirrors[i].nssp + 1);
    print_split(s);
    if (sys_shares(s))
        say("commands", "shared by all targets, fitted to the phase in %d direction%s", s->fit.ndir,
            text_plural(s->fit.ndir));
}

/* What of the annulus is lit, and what sensors lose by it. */
static void print_pupil(const sys *s) {
    const double(*centres)[2];
    int cut = 0, dark = 0;
    if (s->pupil == NULL)
        return;
    const int segments = pupil_segment_count(s->pupil, &centres);
    for (int w = 0; w < sys_stars(s); w++) {
        const sensor *o = &s->sensors[w];
        for (int k = 0; k < o->nssp * o->nssp; k++)
            dark += sys_subaperture_valid(o->nssp, s->obs, k % o->nssp, k / o->nssp);
        dark -= o->nsub;
        for (int k = 0; k < o->nsub; k++)
            cut += !sys_is_whole(s, o, k);
    }
    say("pupil", "%.4g m2 of the annulus' %.4g; peak %.4f of that of the clear annulus",
        sys_area(s), M_PI / 4 * s->diameter * s->diameter * (1 - s->obs * s->obs), sys_peak(s));
    say("", "obscuration %.4g, turned by %.4g deg", s->obs, pupil_angle(s->pupil) * 180 / M_PI);
    if (segments > 0)
        say("", "%d segments, piston %.4g nm and tilt %.4g mas rms", segments,
            pupil_piston(s->pupil) * 1e9, pupil_tiptilt(s->pupil) * 1e3 * ARCSEC_PER_RAD);
    say("", "subapertures of all sensors: %d of the annulus' too dark, %d partly lit", dark, cut);
}

static void print_map(const static_map *m) {
    if (m->map.path != NULL)
        say("static map", "%d x %d pixels of %.4g m, %s; %.4g nm rms over the pupil", m->map.nx,
            m->map.ny, m->map.pixel,
            m->map.blocks ? "each a block, as lines between them would smooth it"
                          : "linear between them",
            m->rms * 1e9);
}

/* Where the error budget has not got all its terms. */
static void print_budget(const params *par) {
    if (params_wants_budget(par) && par->psf_residual == RESIDUAL_SENSOR)
        say("error budget", "psf.residual: sensor: %s, as its truth sensor sees both as slopes",
            BUDGET_WITHOUT_WORDS);
    else if (params_wants_budget(par) && par->reconstructor_fit == FIT_PHASE)
        say("error budget", "reconstructor.fit: phase: %s, as no truth sensor is meant",
            BUDGET_FIT_WORDS);
}

static void print_motion(const setup *u) {
    const double mas = 1e3 * ARCSEC_PER_RAD;
    for (int i = 0; i < u->par->told.n; i++)
        say(i == 0 ? "image motion" : "", "%s", u->par->told.v[i]);
    if (u->par->told.n > 0)
        say("", "with errors.jitter and errors.windshake %.4g x %.4g mas rms are left",
            u->o.jitter[0] * mas, u->o.jitter[1] * mas);
}

static void print_sequence(const setup *u) {
    const sys *s = setup_wanted(u);
    int layers = 0;
    double lo = INFINITY, hi = 0;
    for (int i = 0; i < u->a.nprofile; i++) {
        const profile *p = &u->a.profiles[i];
        layers = p->nlayer > layers ? p->nlayer : layers;
        lo = p->r0 < lo ? p->r0 : lo;
        hi = p->r0 > hi ? p->r0 : hi;
    }
    if (s->grid[0] > 0)
        say("targets", "%d x %d", s->grid[0], s->grid[1]);
    else
        say("targets", "%d", s->ntarget);
    if (u->sampled) {
        say("", "from %d nodes %.2f arcsec apart, %.1f times fewer, %d of them targets to compare",
            u->f.nnode, u->f.step * ARCSEC_PER_RAD, (double)s->ntarget / u->f.nnode,
            field_count(&u->f, NODE_CHECK));
        say("", "with; more where they differ by over %g (targets.tolerance)",
            u->par->targets_tolerance);
        const int whole = field_whole_exposures(&u->f, &u->a);
        if (whole < u->a.nexposure)
            say("", "all of them in %d of %d exposures, which the others follow: %.0f residuals",
                whole, u->a.nexposure, field_residuals(&u->f, &u->a));
    }
    say("atmosphere", "%d profile%s of up to %d layer%s", u->a.nprofile, text_plural(u->a.nprofile),
        layers, text_plural(layers));
    say("line of sight", "r0 %.3f to %.3f m, seeing %.2f to %.2f arcsec at 500 nm", lo, hi,
        SEEING_LAMBDA / hi * ARCSEC_PER_RAD, SEEING_LAMBDA / lo * ARCSEC_PER_RAD);
    say("schedule", "%d reconstructor%s, %d exposure%s", u->a.ntor, text_plural(u->a.ntor),
        u->a.nexposure, text_plural(u->a.nexposure));
    say("PSF", "grid of %d x %d, pixel %.4f m; %d x %d pixels kept", u->grid.grid, u->grid.grid,
        u->grid.pixel, u->o.crop, u->o.crop);
    for (int l = 0; l < u->o.nlambda && l < MOST_SENSORS; l++) {
        char label[48], band[96] = "";
        params_image_label(u->par, l, label, sizeof label);
        if (u->o.width[l] > 0)
            snprintf(band, sizeof band, " (%.4g um wide around %.4g um, %d wavelengths)",
                     u->o.width[l] * 1e6, u->o.lambda[l] * 1e6, u->o.band_wavelengths);
        say("", "%s%s: pixel %.3f mas", label, band,
            u->o.lambda[l] / (u->grid.grid * u->grid.pixel) * ARCSEC_PER_RAD * 1e3);
    }
}

static void print_items(const plan *p, plan_memory where) {
    for (int i = 0; i < p->memory[where].n; i++)
        printf("%9.3f GB    %s\n", (double)p->memory[where].item[i].bytes / 1e9,
               p->memory[where].item[i].name);
}

/* Memory of a GPU, for as many targets at a time as fit, and what its host must offer. */
static void print_device(const advice *a, double memory) {
    const plan *p = &a->p;
    const gpu_model *g = a->m.model;
    const int n = p->chunk < p->fits ? p->chunk : p->fits;
    memory = fmin(memory, a->m.device_memory);
    if (g != NULL)
        say("card",
            "%s, compute %d.%d: FP64 %.3g, FP32 %.3g, FP16 %.4g TFLOP/s, INT8 %.4g; %.0f GB at "
            "%.0f GB/s; %d multiprocessors, %d MB of cache, %zu KiB of shared memory a block%s",
            g->name, g->major, g->minor, g->fp64, g->fp32, g->fp16, g->int8, g->memory,
            g->bandwidth, g->multiprocessors, g->l2, gpu_model_shared(g) >> 10,
            g == gpu_model_reference() ? "" : "; the time is an estimate from these rates");
    if (p->fits == 0) {
        say("GPU", "%.3f GB are needed for one target, %.3f GB given (compute.gpu_memory)",
            (double)plan_device_bytes(p, 1) / 1e9, memory / 1e9);
        return;
    }
    say("computes", "factor %s, products %s", p->pair->factor->word, p->pair->product->word);
    if (p->moduli > 0)
        say("", "double precision by integers: %d moduli, in W and exposures %d", p->moduli,
            p->moduli_exposure);
    if (p->mixed_needs > 0)
        say("", "in double precision: mixed needs %.3f GB for one target", p->mixed_needs / 1e9);
    say("GPU", "%.3f GB of %.3f GB, with W of %d target%s; %d would fit",
        (double)plan_device_bytes(p, n) / 1e9, memory / 1e9, n, text_plural(n), p->fits);
    print_items(p, PLAN_DEVICE);
    printf("%9.3f GB    %s, times %d\n", (double)p->target / 1e9, p->per_target, n);
    if (plan_device_bytes(p, n) > p->fixed + (size_t)n * p->target)
        printf("%9.3f GB    more, for the factor of Cmm0 before them\n",
               (double)(plan_device_bytes(p, n) - p->fixed - (size_t)n * p->target) / 1e9);
    say("GPU's host", "%.3f GB for each rank", (double)a->memory / 1e9);
    print_items(p, PLAN_HOST);
    if (!a->fits)
        say("", "not here: %.3f GB are available", (double)a->m.available / 1e9);
}

/* What is predicted of a compressed factor. */
static void print_ranks(const plan *p) {
    const tlr_prediction *r = p->ranks;
    if (r == NULL)
        return;
    const double nt = r->tiles;
    say("compressed",
        "%.0f tiles of %d, rank %.0f on average, %.0f %% dense: %.3f GB of %.3f; at "
        "first %.1e arcsec^2 of a tile may be dropped, %.2g of the least noise, %.0e of a tile "
        "(from a sample of tiles of Cmm)",
        nt, r->tile, r->mean, 100 * r->dense, r->bytes / 1e9, r->bytes_dense / 1e9, r->tau,
        r->noise > 0 ? r->tau / r->noise : 0, r->eps);
}

static status print_plan(const check_facts *f, const advice *a) {
    const plan *p = &a->p;
    char group[48] = "";
    double total = 0;
    text t = {0};
    for (int i = 0; i < STAGE_COUNT; i++)
        total += p->flops[i];
    if (a->nodes > 0 && f->elsewhere)
        say("machine", "%d node%s of %d core%s", a->nodes, text_plural(a->nodes), f->cores,
            text_plural(f->cores));
    if (p->group_size > 0) /* else not even one target fits */
        snprintf(group, sizeof group, "; %d rank%s a target", p->group_size,
                 text_plural(p->group_size));
    say("ranks", "%d of %d thread%s; Cmm on a grid of %d x %d%s", a->m.nrank, a->m.threads,
        text_plural(a->m.threads), p->grid[0], p->grid[1], group);
    if (a->gpus > 0) {
        print_device(a, f->u->par->compute_gpu_memory);
    } else {
        say("memory", "%.3f GB on the fullest rank", (double)a->memory / 1e9);
        print_items(p, PLAN_HOST);
        print_items(p, PLAN_DEVICE);
        if (p->devices)
            printf("%9.3f GB    %s, times %d\n", (double)p->target / 1e9, p->per_target, p->chunk);
    }
    print_ranks(p);
    if (!a->fits)
        return MOAO_OK;
    say("work", "%d target%s at a time; %.3g flop (reconstructors %.0f %%, exposures %.0f %%)",
        p->chunk, text_plural(p->chunk), total,
        100 * (p->flops[STAGE_FACTOR] + p->flops[STAGE_SOLVE]) / total,
        100 * p->flops[STAGE_EXPOSURE] / total);
    text_add(&t, "%.3g GB", p->output / 1e9);
    say("output", "%s", t.s != NULL ? t.s : "");
    t.len = 0;
    text_add_time(&t, p->time.total);
    char card[80];
    snprintf(card, sizeof card, "of %s", a->m.model != NULL ? a->m.model->name : "an H200");
    text_add(&t, " (dgemm %s: %.1f GFLOP/s a rank); checkpoints %s",
             f->cl->gflops > 0 ? "as given"
             : a->gpus > 0     ? card
             : f->measured     ? "measured here"
                               : "assumed",
             advice_rate(a) / 1e9, a->step < 1 ? "within " : "every ");
    if (a->step < 1)
        text_add(&t, "1 s");
    else
        text_add_time(&t, a->step);
    say("expected time", "%s", t.s != NULL ? t.s : "");
    if (p->time.exact > 1.05 * p->time.total) {
        t.len = 0;
        text_add_time(&t, p->time.exact);
        say("", "%s where mixed precision is not within compute.mixed_tolerance",
            t.s != NULL ? t.s : "");
    }
    free(t.s);
    return t.failed;
}

/* The plan that the line for SLURM is made of. */
static const advice *chosen(const check_facts *f) {
    return f->elsewhere ? &f->there : &f->here;
}

/* "0.49 GB of 16.2 GB a rank, about 41 s, in one job" */
static void add_course(text *t, const advice *a) {
    add_memory(t, (double)a->memory);
    text_add(t, " of ");
    add_memory(t, (double)a->m.available);
    text_add(t, " a rank, about ");
    text_add_time(t, a->p.time.total);
    if (a->jobs > 1) {
        text_add(t, " in %d jobs of at most ", a->jobs);
        text_add_time(t, a->limit);
        text_add(t, ": each goes on where the one before stopped (the script requeues itself)");
    } else if (a->jobs == 0) {
        text_add(t, ". But a job of ");
        text_add_time(t, a->limit);
        text_add(t, " ends before its first checkpoint, which comes after ");
        text_add_time(t, a->first);
        text_add(t, ": more nodes, fewer compute.targets_per_chunk, or a longer --time");
    }
}

static void add_lack(text *t, const advice *a) {
    const plan *p = &a->p;
    if (a->gpus > 0 && p->fits == 0) {
        text_add(t, "one target at a time needs ");
        add_memory(t, (double)plan_device_bytes(p, 1));
        text_add(t, " of a GPU (compute.gpu_memory), even with the factor in the host's memory");
        return;
    }
    text_add(t, "a rank needs ");
    add_memory(t, (double)a->memory);
    text_add(t, a->gpus > 0 ? " of its host's memory, " : " for one target at a time, ");
    add_memory(t, (double)a->m.available);
    text_add(t, " are available");
}

static void add_nodes(text *t, const check_facts *f) {
    const advice *a = &f->there;
    text_add(t, "%d node%s of %d core%s", a->nodes, text_plural(a->nodes), f->cores,
             text_plural(f->cores));
    if (a->gpus > 0)
        text_add(t, ", %d GPU%s", a->gpus, text_plural(a->gpus));
    text_add(t, " and ");
    add_memory(t, f->node);
}

/* In words: one paragraph. */
static void add_verdict(const check_facts *f, text *t) {
    if (!f->described && f->here.fits) {
        text_add(t, "fits this machine: ");
        add_course(t, &f->here);
        return;
    }
    if (!f->described) {
        text_add(t, "does not fit this machine: ");
        add_lack(t, &f->here);
        if (!f->elsewhere)
            return;
        text_add(t, "; ");
    }
    if (f->lacking) {
        if (f->cl->nodes > 0)
            text_add(t, "does not fit %d node%s of ", f->cl->nodes, text_plural(f->cl->nodes));
        else
            text_add(t, "does not fit any number of nodes of ");
        add_memory(t, f->asked);
        text_add(t, " (a rank there needs ");
        add_memory(t, f->need);
        text_add(t, "): ");
    }
    text_add(t, f->there.fits && f->lacking ? "needs " : f->there.fits ? "fits " : "does not fit ");
    add_nodes(t, f);
    text_add(t, ": ");
    if (f->there.fits)
        add_course(t, &f->there);
    else
        add_lack(t, &f->there);
    if (!f->described)
        text_add(t, "; say what your cluster has: --nodes --cores --memory --gflops --gpus");
}

/* The command for this machine. */
static void add_command(const check_facts *f, text *t) {
    const cmdline *cl = f->cl;
    char program[512];
    advise_program(program, sizeof program);
    advise_word(t, program);
    text_add(t, " run");
    if (f->here.m.nrank > 1)
        text_add(t, " -n %d", f->here.m.nrank);
    for (int i = 0; i < cl->nfile + cl->noverride; i++) {
        text_add(t, " ");
        advise_word(t, i < cl->nfile ? cl->files[i] : cl->overrides[i - cl->nfile]);
    }
    text_add(t, " -o ");
    advise_word(t, f->dir);
}

/* From what the photons of a star follow. */
static void describe_light(const sensor *o, char *out, size_t n) {
    const sensor_noise *m = &o->noise;
    if (m->variance >= 0)
        snprintf(out, n, "-");
    else if (m->photons > 0)
        snprintf(out, n, "as given");
    else if (o->lgs)
        snprintf(out, n, "%.3g", m->lgs_return);
    else
        snprintf(out, n, "%.4g %s", m->magnitude,
                 m->zero > 0 ? photometry_band_name(m->band) : "published");
}

/* Photo-electrons, spot and noise of each sensor under a profile, a line each. */
static void print_noise(const sys *s, const profile *p) {
    printf("noise           %-14s %-13s %9s %13s %11s\n", "of a slope", "light", "photons",
           "spot [arcsec]", "noise [mas]");
    for (int w = 0; w < sys_stars(s) && w < MOST_SENSORS; w++) {
        noise_figures f;
        char spot[32], photons[32], noise[32], light[32];
        matcov_noise_figures(s, p, w, &f);
        snprintf(photons, sizeof photons, isnan(f.photons) ? "-" : "%.4g", f.photons);
        if (isnan(f.across))
            snprintf(spot, sizeof spot, "as given");
        else if (f.along > 1.005 * f.across)
            snprintf(spot, sizeof spot, "%.2f x %.2f", f.across, f.along);
        else
            snprintf(spot, sizeof spot, "%.2f", f.across);
        double mas = 1e3 * sqrt(f.variance);
        snprintf(noise, sizeof noise, mas >= 1 ? "%.1f" : "%.2g", mas);
        describe_light(&s->sensors[w], light, sizeof light);
        printf("%8d        %-14.14s %-13.13s %9s %13s %11s\n", w, s->sensors[w].name, light,
               photons, spot, noise);
    }
    for (int w = 0; w < sys_stars(s) && w < MOST_SENSORS; w++)
        if (s->sensors[w].noise.corrected && !(s->sensors[w].noise.core > 0))
            printf("%8sspot of %d: as without correction; a run finds the Strehl ratio of a "
                   "subaperture\n",
                   "", w);
    printf("%8smagnitude and band, or photons/m2/s; photo-electrons per subaperture and\n"
           "%8sframe; FWHM, rms noise for r0 %.3f m\n",
           "", "", p->r0);
}

status check_print(const check_facts *f) {
    text verdict = {0}, command = {0}, slurm = {0};
    status st;
    print_sensors(&f->u->s);
    print_noise(&f->u->s, atmos_profile_at(&f->u->a, f->u->a.exposure_time[0]));
    print_sequence(f->u);
    print_budget(f->u->par);
    print_motion(f->u);
    print_pupil(&f->u->s);
    print_map(&f->u->map);
    if (f->elsewhere && !f->described) {
        printf("here\n");
        TRY(print_plan(f, &f->here));
        printf("elsewhere\n");
    }
    TRY(print_plan(f, chosen(f)));
    add_verdict(f, &verdict);
    paragraph("verdict", verdict.s != NULL ? plain_text(verdict.s) : "");
    if (!f->described && f->here.fits) {
        add_command(f, &command);
        printf("%-*s%s\n", LABEL, "run", command.s != NULL ? plain_text(command.s) : "");
    }
    advise_slurm(chosen(f), f->cl, f->dir, &slurm);
    printf("SLURM%s\n  %s\n", chosen(f)->fits ? "" : " (it would stop at once, as said above)",
           slurm.s != NULL ? slurm.s : "");
    st = verdict.failed != MOAO_OK   ? verdict.failed
         : command.failed != MOAO_OK ? command.failed
                                     : slurm.failed;
done:
    free(verdict.s);
    free(command.s);
    free(slurm.s);
    return st;
}

/* --- JSON --- */

static void write_plan(json *j, const char *key, const advice *a) {
    const plan *p = &a->p;
    double total = 0;
    for (int i = 0; i < STAGE_COUNT; i++)
        total += p->flops[i];
    json_object(j, key);
    json_bool(j, "fits", a->fits);
    if (a->nodes > 0)
        json_integer(j, "nodes", a->nodes);
    json_integer(j, "gpus_per_node", a->gpus);
    if (a->gpus > 0 && a->m.model != NULL)
        json_string(j, "gpu_model", a->m.model->name);
    if (p->pair != NULL) {
        json_string(j, "factor", p->pair->factor->word);
        json_string(j, "product", p->pair->product->word);
    }
    json_integer(j, "ranks", a->m.nrank);
    json_integer(j, "threads", a->m.threads);
    json_number(j, "rank_memory_bytes", (double)a->memory);
    json_number(j, "rank_available_bytes", (double)a->m.available);
    if (a->gpus > 0)
        json_number(
            j, "gpu_memory_bytes",
            (double)plan_device_bytes(p, p->chunk > 0 && p->chunk < p->fits ? p->chunk : p->fits));
    json_number(j, "flop", total);
    json_number(j, "output_bytes", p->output);
    if (a->fits) {
        json_integer(j, "targets_at_a_time", p->chunk);
        json_number(j, "rank_gflops", advice_rate(a) / 1e9);
        json_number(j, "seconds", p->time.total);
        if (p->time.exact > p->time.total)
            json_number(j, "seconds_exact", p->time.exact);
        json_number(j, "checkpoint_seconds", a->step);
        json_number(j, "job_limit_seconds", a->limit);
        json_integer(j, "jobs", a->jobs);
    }
    json_end(j);
}

/* What is predicted of a compressed factor. */
static void write_ranks(json *j, const tlr_prediction *r) {
    if (r == NULL)
        return;
    json_object(j, "compression");
    json_integer(j, "tile", r->tile);
    json_number(j, "tiles", r->tiles);
    json_number(j, "mean_rank", r->mean);
    json_number(j, "dense_share", r->dense);
    json_number(j, "bytes", r->bytes);
    json_number(j, "dense_bytes", r->bytes_dense);
    json_number(j, "tolerance_arcsec2", r->tau);
    json_number(j, "noise_arcsec2", r->noise);
    json_number(j, "relative_tolerance", r->eps);
    json_end(j);
}

static void write_photometry(json *j, const sensor_noise *n) {
    json_number(j, "magnitude", n->magnitude);
    json_string(j, "band", n->zero > 0 ? photometry_band_name(n->band) : "published");
    json_number(j, "zero_photons_per_m2_s", sys_zero_photons(n));
}

/* What the noise model makes of each star under the first exposure's profile. */
static void write_stars(json *j, const sys *s, const profile *p) {
    json_array(j, "stars");
    for (int w = 0; w < sys_stars(s); w++) {
        noise_figures f;
        matcov_noise_figures(s, p, w, &f);
        json_object(j, NULL);
        json_string(j, "name", s->sensors[w].name);
        if (!s->sensors[w].lgs && isfinite(f.photons) && !(s->sensors[w].noise.photons > 0))
            write_photometry(j, &s->sensors[w].noise);
        if (isfinite(f.photons)) {
            json_number(j, "photons", f.photons);
            json_number(j, "spot_arcsec", f.across);
            json_number(j, "spot_along_arcsec", f.along);
        }
        json_number(j, "noise_mas", 1e3 * sqrt(f.variance));
        json_end(j);
    }
    json_end(j);
}

/* Continued lines of the shell become one. */
static void join_lines(char *s) {
    static const char broken[] = " \\\n    ";
    const size_t n = sizeof broken - 1;
    char *to = s;
    while (*s != '\0') {
        bool here = strncmp(s, broken, n) == 0;
        *to++ = here ? ' ' : *s;
        s += here ? n : 1;
    }
    *to = '\0';
}

status check_json(const check_facts *f) {
    const setup *u = f->u;
    text verdict = {0}, slurm = {0};
    json j;
    json_to(&j, stdout);
    json_integer(&j, "sensors", sys_stars(&u->s));
    write_stars(&j, &u->s, atmos_profile_at(&u->a, u->a.exposure_time[0]));
    json_number(&j, "pupil_area_m2", sys_area(&u->s));
    json_number(&j, "pupil_peak", sys_peak(&u->s));
    if (u->map.map.path != NULL)
        json_number(&j, "static_map_rms_m", u->map.rms);
    json_integer(&j, "measurements", (long long)sys_slopes(&u->s));
    json_integer(&j, "truth_measurements", (long long)u->s.t);
    json_integer(&j, "actuators", sys_commands(&u->s));
    json_integer(&j, "targets", setup_wanted(u)->ntarget);
    if (u->sampled) {
        json_integer(&j, "nodes", u->f.nnode);
        json_number(&j, "node_step_arcsec", u->f.step * ARCSEC_PER_RAD);
        json_integer(&j, "node_residuals", (long long)field_residuals(&u->f, &u->a));
    }
    json_integer(&j, "reconstructors", u->a.ntor);
    json_integer(&j, "exposures", u->a.nexposure);
    json_integer(&j, "psf_grid", u->grid.grid);
    json_integer(&j, "psf_crop", u->o.crop);
    if (!f->described)
        write_plan(&j, "here", &f->here);
    if (f->elsewhere)
        write_plan(&j, f->described ? "machine" : "elsewhere", &f->there);
    write_ranks(&j, chosen(f)->p.ranks);
    json_bool(&j, "fits", f->described ? f->there.fits && !f->lacking : f->here.fits);
    add_verdict(f, &verdict);
    json_string(&j, "verdict", verdict.s != NULL ? verdict.s : "");
    advise_slurm(chosen(f), f->cl, f->dir, &slurm);
    if (slurm.s != NULL)
        join_lines(slurm.s);
    const char *const joint = " \\\n    "; /* to one line */
    for (char *p = slurm.s != NULL ? strstr(slurm.s, joint) : NULL; p != NULL; p = strstr(p, joint))
        memmove(p + 1, p + 7, strlen(p + 7) + 1);
    json_string(&j, "slurm", slurm.s != NULL ? slurm.s : "");
    free(verdict.s);
    free(slurm.s);
    char *effective = f->cl->effective ? params_effective_text(u->par) : NULL;
    if (f->cl->effective && effective == NULL)
        return status_fail(MOAO_MEMORY, "effective parameters: no memory");
    if (effective != NULL)
        json_string(&j, "effective", effective);
    free(effective);
    return json_done(&j);
}

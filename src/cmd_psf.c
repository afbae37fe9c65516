/* moao psf: images of any direction of a finished run that kept its nodes (output.field). */
#include "commands.h"

#include "base/file.h"
#include "job/field_file.h"
#include "job/launch.h"
#include "maps/maps_field.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char cmd_psf_usage[] =
    "usage: moao psf DIR --at X,Y[,X,Y...] [--exposure N] [-o FILE]\n"
    "\n"
    "Point-spread functions in any directions of the field of a finished run, also\n"
    "where it has no target: interpolated between its nodes, which the run kept\n"
    "(output.field: true). Prints Strehl ratio, FWHM and ensquared energies.\n"
    "\n"
    "  moao psf night1 --at 12.5,-3.2,0,0 -o psf.fits\n"
    "\n"
    "  --at X,Y,...   directions [arcsec], pairs of numbers\n"
    "  --exposure N   of the N-th short exposure; else of the long exposure\n"
    "  -o FILE        images (extensions PSF, one a wavelength: x, y, direction) and\n"
    "                 the table DIRECTIONS as a FITS file\n";

enum { MOST = 100000 };

typedef struct {
    const char *dir, *at, *out;
    int exposure; /* from 1, 0: long */
    int n;
    double (*xy)[2]; /* [rad] */
} request;

static status parse(int argc, char **argv, request *q) {
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (strcmp(a, "--at") == 0 && i + 1 < argc)
            q->at = argv[++i];
        else if (strcmp(a, "-o") == 0 && i + 1 < argc)
            q->out = argv[++i];
        else if (strcmp(a, "--exposure") == 0 && i + 1 < argc) {
            char *end = NULL;
            const long e = isdigit((unsigned char)argv[++i][0]) ? strtol(argv[i], &end, 10) : 0;
            if (e < 1 || e > 1000000000 || *end != '\0')
                return status_fail(MOAO_INPUT, "--exposure: %.80s, expected a number from 1",
                                   argv[i]);
            q->exposure = (int)e;
        } else if (a[0] == '-')
            return status_fail(MOAO_INPUT,
                               "moao psf: unknown option, or one without its value, see moao help "
                               "psf: %.80s",
                               a);
        else if (q->dir != NULL)
            return status_fail(MOAO_INPUT, "moao psf: one folder, not also %.200s", a);
        else
            q->dir = a;
    }
    if (q->dir == NULL)
        return status_fail(MOAO_INPUT, "moao psf: no folder, see moao help psf");
    if (q->at == NULL)
        return status_fail(MOAO_INPUT, "moao psf: no directions, expected --at X,Y in arcsec");
    return MOAO_OK;
}

/* Pairs of numbers of --at. */
static status read_directions(request *q) {
    int count = 1;
    const char *p = q->at;
    for (const char *c = p; *c != '\0'; c++)
        count += *c == ',';
    if (count % 2 != 0 || count > 2 * MOST)
        return status_fail(MOAO_INPUT,
                           "--at: %d numbers, expected pairs X,Y of at most %d directions", count,
                           MOST);
    q->n = count / 2;
    status st = ALLOC(q->xy, (size_t)q->n, "directions");
    for (int i = 0; i < count && st == MOAO_OK; i++) {
        char *end;
        const double v = strtod(p, &end);
        if (end == p || (*end != ',' && *end != '\0') || !(fabs(v) <= 36000))
            return status_fail(MOAO_INPUT, "--at: number %d is not one of arcsec, expected X,Y",
                               i + 1);
        q->xy[i / 2][i % 2] = v / ARCSEC_PER_RAD;
        p = end + (*end == ',');
    }
    return st;
}

static void print_table(const setup *u, const request *q, const double *scalars) {
    const int nl = u->o.nlambda, nb = u->o.nbox;
    printf("%10s %10s %8s %8s %9s", "x arcsec", "y arcsec", "um", "Strehl", "FWHM mas");
    for (int b = 0; b < nb; b++)
        printf("  EE %5.4g mas", u->o.box[b] * ARCSEC_PER_RAD * 1e3);
    printf("\n");
    for (int i = 0; i < q->n; i++)
        for (int l = 0; l < nl; l++) {
            const double *s = scalars + ((size_t)i * (size_t)nl + (size_t)l) * (size_t)(3 + nb);
            printf("%10.3f %10.3f %8.4g %8.5f %9.2f", q->xy[i][0] * ARCSEC_PER_RAD,
                   q->xy[i][1] * ARCSEC_PER_RAD, u->o.lambda[l] * 1e6, s[0],
                   s[1] * ARCSEC_PER_RAD * 1e3);
            for (int b = 0; b < nb; b++)
                printf("  %12.5f", s[3 + b]);
            printf("\n");
        }
}

static status write_images(const setup *u, const request *q, const double *scalars,
                           const float *images) {
    double pixel[1024];
    char *effective = params_effective_text(u->par);
    status st;
    if (effective == NULL || u->o.nlambda > 1024) {
        free(effective);
        return status_fail(MOAO_MEMORY, "effective parameters: no memory");
    }
    for (int l = 0; l < u->o.nlambda; l++)
        pixel[l] = psf_image_pixel(u->ps, l);
    const maps_directions d = {.par = u->par,
                               .n = q->n,
                               .at = (const double(*)[2])q->xy,
                               .crop = psf_crop_size(u->ps),
                               .exposure = q->exposure,
                               .pixel = pixel,
                               .scalars = scalars,
                               .images = images};
    st = maps_write_directions(q->out, &d, effective);
    free(effective);
    return st;
}

static status answer(const comm *c, setup *u, request *q) {
    char *path = NULL;
    const char *files[1];
    cmdline cl = {.files = files, .nfile = 1};
    field_file file = {0};
    double *scalars = NULL;
    float *images = NULL;
    status st;
    TRY(read_directions(q));
    TRY(file_of_run(q->dir, "effective.yaml", "the folder of a finished run", &path));
    files[0] = path;
    TRY(setup_init(c, &cl, u));
    if (q->exposure > u->a.nexposure)
        TRY(status_fail(MOAO_INPUT, "--exposure: %d, expected 1 to %d", q->exposure,
                        u->a.nexposure));
    TRY(setup_psf(c, u));
    TRY(field_file_open(q->dir, u, &file));
    for (int i = 0; i < q->n; i++)
        TRY(field_file_check(&file, q->xy[i]));
    const size_t crop = (size_t)psf_crop_size(u->ps), n = (size_t)q->n * (size_t)u->o.nlambda;
    TRY(ALLOC(scalars, n * (3 + (size_t)u->o.nbox), "results"));
    TRY(ALLOC(images, n * crop * crop, "images"));
    TRY(field_file_images(&file, u, q->exposure - 1, q->n, (const double(*)[2])q->xy, scalars,
                          images));
    print_table(u, q, scalars);
    if (fflush(stdout) == EOF)
        TRY(status_fail(MOAO_IO, "moao psf: standard output cannot be written"));
    if (q->out != NULL)
        st = write_images(u, q, scalars, images);
done:
    free(path);
    free(scalars);
    free(images);
    field_file_close(&file);
    return st;
}

int cmd_psf(int argc, char **argv) {
    request q = {0};
    cmdline cl = {0};
    comm c;
    setup u = {0};
    if (command_wants_help(argc, argv, cmd_psf_usage))
        return 0;
    status st = parse(argc, argv, &q);
    if (st != MOAO_OK)
        return command_fail(st);
    command_start(&argc, &argv);
    st = comm_init(MPI_COMM_WORLD, &c);
    if (st == MOAO_OK)
        st = answer(&c, &u, &q);
    setup_free(&u);
    free(q.xy);
    return command_end(&c, &cl, st);
}

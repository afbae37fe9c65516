#include "fits_image.h"

#include "file.h"
#include "fits_in.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

status fits_image_refuse(const fits_image *in, const char *what) {
    return status_fail(MOAO_INPUT, "%s: %s: %s", in->key, file_shown(in->path), what);
}

static status refuse_status(const fits_image *in, int err) {
    char line[80];
    snprintf(line, sizeof line, "it cannot be read as FITS (cfitsio's status %d)", err);
    return fits_image_refuse(in, line);
}

static const char *cards_wrong(const char *path) {
    uint64_t size = 0;
    int fd = -1;
    const bool open = file_open_plain(path, &fd, &size) == MOAO_OK;
    const char *wrong = open ? fits_cards_wrong(fd, size) : "cannot be read";
    if (open)
        close(fd);
    else
        status_clear();
    return wrong;
}

/* Go to the first image that has pixels. */
static status find_image(fits_image *in) {
    int err = 0, count = 0, naxis = 0, type = 0;
    fits_get_num_hdus(in->f, &count, &err);
    for (int i = 1; i <= count && err == 0 && naxis == 0; i++)
        if (fits_movabs_hdu(in->f, i, &type, &err) == 0 && type == IMAGE_HDU)
            fits_get_img_dim(in->f, &naxis, &err);
    if (err != 0)
        return refuse_status(in, err);
    if (naxis == 0)
        return fits_image_refuse(in, "it has no image");
    if (naxis != 2)
        return fits_image_refuse(in, "its first image has not two axes, expected a map of x and y");
    return MOAO_OK;
}

status fits_image_open(fits_image *in, const char *key, const char *path, int most) {
    long n[2] = {0, 0};
    char line[200];
    int err = 0;
    status st;
    *in = (fits_image){.key = key, .path = path};
    const char *why = file_unreadable(path);
    if (why != NULL) {
        snprintf(line, sizeof line, "cannot be read (%.80s), expected a FITS file", why);
        return fits_image_refuse(in, line);
    }
    why = cards_wrong(path);
    if (why != NULL)
        return fits_image_refuse(in, why);
    if (fits_open_diskfile(&in->f, path, READONLY, &err) != 0) {
        in->f = NULL;
        return refuse_status(in, err);
    }
    TRY(find_image(in));
    if (fits_get_img_size(in->f, 2, n, &err) != 0)
        return refuse_status(in, err);
    if (n[0] < 2 || n[1] < 2 || n[0] > most || n[1] > most) {
        snprintf(line, sizeof line, "its axes have less than 2 or more than %d pixels", most);
        return fits_image_refuse(in, line);
    }
    in->nx = (int)n[0];
    in->ny = (int)n[1];
done:
    return st;
}

void fits_image_close(fits_image *in) {
    int err = 0;
    if (in->f != NULL)
        fits_close_file(in->f, &err);
    in->f = NULL;
}

status fits_image_read(fits_image *in, double *v) {
    double none = NAN;
    int err = 0, any = 0;
    fits_read_img(in->f, TDOUBLE, 1, (LONGLONG)in->nx * in->ny, &none, v, &any, &err);
    return err == 0 ? MOAO_OK : refuse_status(in, err);
}

void fits_image_text(fits_image *in, const char *key, char out[FLEN_VALUE]) {
    int err = 0;
    if (fits_read_key(in->f, TSTRING, key, out, NULL, &err) != 0)
        out[0] = '\0';
    for (size_t n = strlen(out); n > 0 && out[n - 1] == ' '; n--)
        out[n - 1] = '\0';
}

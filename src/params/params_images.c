/* What images are of: the wavelengths and bands of the group psf. */
#include "params_load.h"
#include "system/photometry.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_BAND = 96 };

/* Whether a text can be part of the names of extensions and columns. */
static bool is_name(const char *text) {
    static const char others[] = "+-_.'";
    for (const char *p = text; *p != '\0'; p++)
        if (!isalnum((unsigned char)*p) && strchr(others, *p) == NULL)
            return false;
    return *text != '\0' && strlen(text) < IMAGE_NAME;
}

typedef struct {
    char name[IMAGE_NAME];
    double lambda, width; /* [m] */
} band;

/* A length with its unit; blanks around it do not count. */
static bool read_length(const char *text, double *v, char *why, size_t n) {
    char own[LONGEST_BAND];
    snprintf(own, sizeof own, "%s", text + strspn(text, " \t"));
    for (size_t k = strlen(own); k > 0 && isspace((unsigned char)own[k - 1]);)
        own[--k] = '\0';
    return units_parse(own, DIM_LENGTH, "um", false, v, why, n);
}

/* [NAME=]CENTRE/WIDTH. False: why it is none. */
static bool read_custom(const char *text, band *b, char *why, size_t n) {
    char own[LONGEST_BAND];
    snprintf(own, sizeof own, "%s", text);
    char *slash = strchr(own, '/'), *equal = strchr(own, '='), *from = own;
    if (equal != NULL && equal < slash) {
        *equal = '\0';
        from = equal + 1;
        if (!is_name(own)) {
            snprintf(why, n,
                     "has a name of other characters than letters, digits, + - _ . ' or "
                     "of more than %d",
                     IMAGE_NAME - 1);
            return false;
        }
        snprintf(b->name, sizeof b->name, "%.*s", IMAGE_NAME - 1, own);
    }
    *slash = '\0';
    if (!read_length(from, &b->lambda, why, n) || !read_length(slash + 1, &b->width, why, n))
        return false;
    if (from == own)
        snprintf(b->name, sizeof b->name, "%.6g-%.6g", b->lambda * 1e6, b->width * 1e6);
    return true;
}

/* False: why the text is no band. */
static bool read_band(const char *text, band *b, char *why, size_t n) {
    if (strlen(text) >= LONGEST_BAND) {
        snprintf(why, n, "is longer than %d bytes", LONGEST_BAND - 1);
        return false;
    }
    if (strchr(text, '/') != NULL) {
        if (!read_custom(text, b, why, n))
            return false;
    } else if (photometry_band_shape(text, &b->lambda, &b->width)) {
        snprintf(b->name, sizeof b->name, "%s", text);
    } else {
        snprintf(why, n, "is not known");
        return false;
    }
    const param_field *f = param_table_find(&params_main_table, "psf.wavelengths");
    snprintf(why, n, "reaches beyond %s um", f->range);
    return b->width > 0 && param_in_range(f, b->lambda - 0.5 * b->width) &&
           param_in_range(f, b->lambda + 0.5 * b->width);
}

status params_list_images(params *par) {
    const int nl = par->psf_wavelengths.n, n = nl + par->psf_bands.n;
    image_list *to = &par->images;
    char why[256];
    status st;
    free(to->lambda);
    free(to->width);
    free(to->name);
    *to = (image_list){0};
    TRY(ALLOC(to->lambda, (size_t)n, "images"));
    TRY(ALLOC(to->width, (size_t)n, "images"));
    TRY(ALLOC(to->name, (size_t)n, "images"));
    to->n = n;
    for (int i = 0; i < n; i++) {
        band b = {.lambda = i < nl ? par->psf_wavelengths.v[i] : 0};
        if (i >= nl && !read_band(par->psf_bands.v[i - nl], &b, why, sizeof why))
            TRY(status_fail(MOAO_INTERNAL, "psf.bands: '%.60s' %s", par->psf_bands.v[i - nl], why));
        to->lambda[i] = b.lambda;
        to->width[i] = b.width;
        memcpy(to->name[i], b.name, sizeof b.name);
    }
done:
    return st;
}

void params_image_label(const params *par, int i, char *out, size_t n) {
    const image_list *m = &par->images;
    if (m->width[i] > 0)
        snprintf(out, n, "band %s", m->name[i]);
    else
        snprintf(out, n, "%.4g um", m->lambda[i] * 1e6);
}

/* A mistake of the i-th band. */
static status bad_band(const params_loader *l, int i, const char *why) {
    const ynode *list = param_node(l->root, "psf.bands");
    char path[PARAM_PATH];
    snprintf(path, sizeof path, "psf.bands[%d]", i);
    return yaml_tree_fail(list != NULL && list->kind == YAML_TREE_LIST ? list->item[i] : list, path,
                          "'%s' %s, expected U, B, V, R, I, Z, Y, J, H, K, Ks or L, or "
                          "centre/width such as 1.6um/0.2um, or name=centre/width",
                          yaml_tree_quote(l->par->psf_bands.v[i]).s, why);
}

status params_read_images(params_loader *l) {
    params *par = l->par;
    char why[256];
    status st;
    for (int i = 0; i < par->psf_bands.n; i++) {
        band b = {0}, before = {0};
        if (!read_band(par->psf_bands.v[i], &b, why, sizeof why))
            return bad_band(l, i, why);
        for (int k = 0; k < i; k++)
            if (read_band(par->psf_bands.v[k], &before, why, sizeof why) &&
                strcmp(before.name, b.name) == 0)
                return bad_band(l, i, "is there for the second time");
    }
    if (par->psf_bands.n > 0 && param_node(l->root, "psf.wavelengths") == NULL)
        par->psf_wavelengths.n = 0;
    TRY(params_list_images(par));
done:
    return st;
}

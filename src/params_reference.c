#include "params_table.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *kind_name(const param_field *f) {
    switch (f->kind) {
    case KIND_text:
        return "text";
    case KIND_file:
        return "file";
    case KIND_flag:
        return "true or false";
    case KIND_choice:
        return "word";
    case KIND_count:
        return "whole number";
    case KIND_real:
        return "number";
    case KIND_pair:
        return "two numbers";
    case KIND_counts:
        return "two whole numbers";
    case KIND_reals:
        return "list of numbers";
    case KIND_words:
        return "list of words";
    case KIND_texts:
        return "list of texts";
    case KIND_files:
        return "list of files";
    case KIND_points:
        return "list of pairs";
    case KIND_sensors:
        return "list of sensors";
    case KIND_profiles:
        return "list of profiles";
    case KIND_sensor_keys:
        return "keys of a sensor";
    }
    return "";
}

/* "none" reads as an em dash in the page; sensors have two defaults. */
static void default_text(const param_field *f, bool sensor, char *out, size_t n) {
    const char *word[2];
    for (int i = 0; i < 2; i++)
        word[i] = strcmp(f->def[i], "-") == 0 ? "not allowed" : *f->def[i] ? f->def[i] : "empty";
    if (sensor && strcmp(word[0], word[1]) != 0)
        snprintf(out, n, "NGS %s, LGS %s", word[0], word[1]);
    else
        snprintf(out, n, "%s", word[0]);
}

static void range_text(const param_field *f, char *out, size_t n) {
    size_t used = 0;
    for (const char *p = f->range; *p && used + 3 < n; p++) {
        if (*p == '|') {
            out[used++] = ',';
            out[used++] = ' ';
        } else {
            out[used++] = *p;
        }
    }
    out[used] = '\0';
}

static void add_units(text *t, const char *bullet, const char *mark) {
    char list[256];
    for (dimension d = DIM_LENGTH; d <= DIM_WAVELENGTH; d++) {
        units_list(d, list, sizeof list);
        text_add(t, "%s%s: %s%s%s\n", bullet, units_dimension_name(d), mark, list, mark);
    }
}

static void add_plain(text *t, const param_table *table, const char *prefix) {
    char path[PARAM_PATH], def[128], range[128];
    for (int i = 0; i < table->n; i++) {
        const param_field *f = &table->fields[i];
        param_field_path(f, path);
        default_text(f, table == &params_sensor_table, def, sizeof def);
        range_text(f, range, sizeof range);
        text_add(t, "%s%s: %s", prefix, path, kind_name(f));
        if (*f->unit)
            text_add(t, ", %s", f->unit);
        text_add(t, ", default: %s", def);
        if (*range)
            text_add(t, ", range: %s", range);
        text_add(t, "\n    %s\n", f->sentence);
    }
}

static void add_page(text *t, const param_table *table) {
    char path[PARAM_PATH], def[128], range[128];
    text_add(t, "| key | type | unit | default | range | meaning |\n"
                "| --- | --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < table->n; i++) {
        const param_field *f = &table->fields[i];
        param_field_path(f, path);
        default_text(f, table == &params_sensor_table, def, sizeof def);
        range_text(f, range, sizeof range);
        text_add(t, "| `%s` | %s | %s | %s | %s | %s |\n", path, kind_name(f), f->unit, def, range,
                 f->sentence);
    }
}

static const char introduction[] = "A parameter file is YAML. Several files may be given: mappings "
                                   "of a later one are merged into\n"
                                   "those of the earlier ones, anything else replaces; `key=value` "
                                   "arguments come last, with keys such\n"
                                   "as `telescope.zenith`, `sensors[2].magnitude` or "
                                   "`atmosphere.profiles[0].r0` (lists count from 0).\n"
                                   "A bare number has the unit stated here; a value may carry "
                                   "another one of its kind (`1.65 um`,\n"
                                   "`7.4 arcmin`, `10 min`). File names are relative to the file "
                                   "that states them. A range excludes\n"
                                   "the bound at a round bracket. The default `none` means that "
                                   "the key is optional and has no value.\n";

static void add_markdown(text *t) {
    text_add(t,
             "# Parameters\n\nThis page is made by `moao params --markdown`.\n\n%s\n"
             "Units that a value may carry:\n\n",
             introduction);
    add_units(t, "- ", "`");
    text_add(t, "\n## The parameters\n\n");
    add_page(t, &params_main_table);
    text_add(t, "\n## Keys of a sensor\n\nOf an item of `sensors`, and (but for name, type and "
                "direction) of "
                "`ngs_defaults` and\n`lgs_defaults`.\n\n");
    add_page(t, &params_sensor_table);
    text_add(t, "\n## Keys of a profile\n\nOf an item of `atmosphere.profiles`, and of a YAML file "
                "that one "
                "names.\n\n");
    add_page(t, &params_profile_table);
}

char *params_reference(bool markdown) {
    text t = {0};
    if (markdown) {
        add_markdown(&t);
    } else {
        add_plain(&t, &params_main_table, "");
        text_add(&t, "\nKeys of a sensor, and of ngs_defaults and lgs_defaults:\n");
        add_plain(&t, &params_sensor_table, "  ");
        text_add(&t, "\nKeys of a profile:\n");
        add_plain(&t, &params_profile_table, "  ");
        text_add(&t, "\nUnits that a value may carry:\n");
        add_units(&t, "  ", "");
    }
    if (t.failed != MOAO_OK) {
        free(t.s);
        return NULL;
    }
    return t.s;
}

#include "base/text.h"
#include "params_table.h"
#include "params_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* A sentence on lines of up to 79 columns, the first and the others indented. */
static void add_wrapped(text *t, int first, int others, const char *sentence) {
    int column = 0;
    while (*sentence != '\0') {
        int n = (int)strcspn(sentence, " "), indent = column > 0 ? others : first;
        bool fits = column > 0 && column + 1 + n <= 79;
        if (!fits)
            text_add(t, "%s%*s", column > 0 ? "\n" : "", indent, "");
        text_add(t, "%s%.*s", fits ? " " : "", n, sentence);
        column = fits ? column + 1 + n : indent + n;
        sentence += n + (sentence[n] == ' ');
    }
    text_add(t, "\n");
}

static void add_units(text *t, const char *bullet, const char *mark) {
    char list[256];
    for (dimension d = DIM_LENGTH; d < DIM_WAVELENGTH; d++) {
        units_list(d, list, sizeof list);
        text_add(t, "%s%s: %s%s%s\n", bullet, units_dimension_name(d), mark, list, mark);
    }
    units_bands(list, sizeof list);
    text_add(t, "%sa wavelength: a length, or a band, which stands for [um]\n", bullet);
    int indent = *bullet ? (int)strlen(bullet) : 2;
    add_wrapped(t, indent, indent, list);
}

static void add_field(text *t, const param_table *table, const param_field *f, const char *prefix) {
    char path[PARAM_PATH], def[128], range[128];
    param_field_path(f, path);
    default_text(f, table == &params_sensor_table, def, sizeof def);
    param_range_words(f->range, range, sizeof range);
    text head = {0};
    text_add(&head, "%s: %s%s%s, default: %s%s%s", path, kind_name(f), *f->unit ? ", " : "",
             f->unit, def, *range ? ", range: " : "", range);
    int indent = (int)strlen(prefix);
    add_wrapped(t, indent, indent + 8, head.s ? head.s : "");
    add_wrapped(t, indent + 4, indent + 4, f->sentence);
    t->failed = t->failed != MOAO_OK ? t->failed : head.failed;
    free(head.s);
}

/* The tables one after the other, as people meet them. */
static const struct {
    const param_table *table;
    const char *at;      /* where the table's keys stand */
    const char *word;    /* for all of them */
    const char *heading; /* of the plain text */
    const char *prefix;
} parts[] = {
    {&params_main_table, "", "main", "", ""},
    {&params_sensor_table, "sensors", "sensor",
     "Keys of a sensor, and of ngs_defaults and lgs_defaults:", "  "},
    {&params_profile_table, "atmosphere.profiles", "profiles", "Keys of a profile:", "  "},
};

/* Whether `part` is in a text, whatever the case. */
static bool holds(const char *s, const char *part) {
    const size_t n = strlen(part);
    for (; *s != '\0'; s++)
        if (strncasecmp(s, part, n) == 0)
            return true;
    return false;
}

/* Whether a word stands for a key (params_words.h). */
static bool stands_for(const char *word, const char *full) {
    const char *key, *note;
    for (int i = 0; params_word(word, i, &key, &note); i++)
        if (key != NULL && strcmp(key, full) == 0)
            return true;
    return false;
}

/* What is said of fields: those of a section; else those whose name or text has the word, or for
 * which it stands. NULL: all. */
typedef struct {
    const char *section, *word;
} choice;

/* Whether a name is a path, or a group that the path lies in. */
static bool names(const char *name, const char *path) {
    size_t n = strlen(name);
    return strncmp(name, path, n) == 0 && (path[n] == '\0' || path[n] == '.');
}

static bool chosen(const choice *c, int part, const param_field *f, const char *path,
                   const char *full) {
    if (c->section != NULL)
        return strcmp(c->section, parts[part].word) == 0 || names(c->section, path) ||
               names(c->section, full);
    return c->word == NULL || holds(full, c->word) || holds(f->sentence, c->word) ||
           stands_for(c->word, full);
}

/* Fields that are chosen, a heading before the first of a table. Returns their number. */
static int add_plain(text *t, choice c) {
    char path[PARAM_PATH], full[PARAM_PATH];
    int count = 0;
    for (int k = 0; k < 3; k++) {
        bool begun = false;
        for (int i = 0; i < parts[k].table->n; i++) {
            const param_field *f = &parts[k].table->fields[i];
            param_field_path(f, path);
            param_join(full, parts[k].at, path);
            if (!chosen(&c, k, f, path, full))
                continue;
            if (!begun && *parts[k].heading)
                text_add(t, "%s%s\n", count > 0 ? "\n" : "", parts[k].heading);
            begun = true;
            count++;
            add_field(t, parts[k].table, f, parts[k].prefix);
        }
    }
    return count;
}

static void add_page(text *t, const param_table *table) {
    char path[PARAM_PATH], def[128], range[128];
    text_add(t, "| key | type | unit | default | range | meaning |\n"
                "| --- | --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < table->n; i++) {
        const param_field *f = &table->fields[i];
        param_field_path(f, path);
        default_text(f, table == &params_sensor_table, def, sizeof def);
        param_range_words(f->range, range, sizeof range);
        text_add(t, "| `%s` | %s | %s | %s | %s | %s |\n", path, kind_name(f), f->unit, def, range,
                 f->sentence);
    }
}

static const char *const introduction[] = {
    "A parameter file is YAML. Several files may be given: mappings of a later one are merged into "
    "those of the earlier ones, anything else replaces. `key=value` arguments come last, with keys "
    "such as `telescope.zenith`, `sensors[2].magnitude` or `atmosphere.profiles[0].r0`. Lists "
    "count "
    "from 0, as in the files: a ring of stars is one item. A sensor's name may stand for its "
    "number "
    "(`sensors.LGS1.magnitude`), without blanks and in any case; where both are given, a name goes "
    "before a number. Of alternatives, such as `r0` and `seeing`, the one given last counts.",
    "A bare number has the unit stated here; a value may carry another one of its kind (`1.65 um`, "
    "`7.4 arcmin`, `10 min`). Words may be in upper case (`type: LGS`). File names are relative to "
    "the file that states them, else to the shipped parameter files (params/, or share/moao/params "
    "of an installation). A range excludes the bound at a round bracket. The default `none` "
    "means that the key is optional and has no value.",
    "`effective.yaml`, which a run leaves, has one form of all this: frame times, strengths of "
    "layers "
    "at 500 nm, wavelengths in um, the stars of a ring and the targets of a file one by one."};

static void add_introduction(text *t) {
    for (int i = 0; i < 3; i++) {
        add_wrapped(t, 0, 0, introduction[i]);
        text_add(t, "\n");
    }
}

static void add_markdown(text *t) {
    text_add(t, "# Parameters\n\nThis page is made by `moao params --markdown`.\n\n");
    add_introduction(t);
    text_add(t, "Units that a value may carry:\n\n");
    add_units(t, "- ", "`");
    text_add(t, "\n## The parameters\n\n");
    add_page(t, &params_main_table);
    text_add(t, "\n## Keys of a sensor\n\nOf an item of `sensors`, and (but for name, type, "
                "direction and ring) of "
                "`ngs_defaults` and\n`lgs_defaults`.\n\n");
    add_page(t, &params_sensor_table);
    text_add(t, "\n## Keys of a profile\n\nOf an item of `atmosphere.profiles`, and of a YAML file "
                "that one "
                "names.\n\n");
    add_page(t, &params_profile_table);
}

/* A text as roff shows it: nothing of it is a command. */
static void add_roff(text *t, const char *s) {
    for (bool start = true; *s != '\0'; s++) {
        if (start && (*s == '.' || *s == '\''))
            text_add(t, "\\&");
        if (*s == '\\')
            text_add(t, "\\e");
        else if (*s == '-')
            text_add(t, "\\-");
        else if (*s != '`')
            text_add(t, "%c", *s);
        start = *s == '\n';
    }
}

static void add_man_table(text *t, const param_table *table) {
    char path[PARAM_PATH], def[128], range[128];
    for (int i = 0; i < table->n; i++) {
        const param_field *f = &table->fields[i];
        param_field_path(f, path);
        default_text(f, table == &params_sensor_table, def, sizeof def);
        param_range_words(f->range, range, sizeof range);
        text_add(t, ".TP\n.B ");
        add_roff(t, path);
        text_add(t, "\n");
        add_roff(t, kind_name(f));
        text_add(t, "%s", *f->unit ? ", " : "");
        add_roff(t, f->unit);
        text_add(t, ", default: ");
        add_roff(t, def);
        text_add(t, "%s", *range ? ", range: " : "");
        add_roff(t, range);
        text_add(t, "\n.br\n");
        add_roff(t, f->sentence);
        text_add(t, "\n");
    }
}

static void add_man(text *t) {
    text units = {0};
    text_add(t, ".TH MOAO\\-PARAMETERS 5 \"\" moao\n.SH NAME\nmoao\\-parameters \\- parameter file "
                "of moao\n.SH DESCRIPTION\n");
    for (int i = 0; i < 3; i++) {
        text_add(t, "%s", i > 0 ? ".PP\n" : "");
        add_roff(t, introduction[i]);
        text_add(t, "\n");
    }
    text_add(t, ".SH UNITS\n.nf\n");
    add_units(&units, "", "");
    add_roff(t, units.s ? units.s : "");
    t->failed = t->failed != MOAO_OK ? t->failed : units.failed;
    free(units.s);
    text_add(t, ".fi\n.SH PARAMETERS\n");
    add_man_table(t, &params_main_table);
    text_add(t, ".SH KEYS OF A SENSOR\nOf an item of\n.BR sensors ,\nof\n.B ngs_defaults\nand\n"
                ".BR lgs_defaults .\n");
    add_man_table(t, &params_sensor_table);
    text_add(t, ".SH KEYS OF A PROFILE\nOf an item of\n.BR atmosphere.profiles .\n");
    add_man_table(t, &params_profile_table);
    text_add(t, ".SH SEE ALSO\n.BR moao (1)\n");
}

/* "main KEY WORD..." and so on, "ngs KEY" and "lgs KEY" for the defaults of sensors: what
 * completion in a shell needs. */
static void add_keys(text *t) {
    static const char *const title[] = {"main", "sensor", "profile"};
    char path[PARAM_PATH];
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < parts[k].table->n; i++) {
            const param_field *f = &parts[k].table->fields[i];
            bool words = f->kind == KIND_choice || f->kind == KIND_words;
            param_field_path(f, path);
            text_add(t, "%s %s", title[k], path);
            for (const char *p = f->range; words && *p;
                 p += strcspn(p, "|") + (strchr(p, '|') != NULL))
                text_add(t, " %.*s", (int)strcspn(p, "|"), p);
            text_add(t, "%s\n", f->kind == KIND_flag ? " true false" : "");
            bool own = strcmp(path, "name") == 0 || strcmp(path, "type") == 0 ||
                       strcmp(path, "direction") == 0 || *f->group != '\0';
            for (int type = 0; k == 1 && !own && type < 2; type++)
                if (strcmp(f->def[type], "-") != 0)
                    text_add(t, "%s %s\n", type == SENSOR_LGS ? "lgs" : "ngs", path);
        }
}

char *params_reference(reference_form form) {
    text t = {0};
    if (form == REFERENCE_MARKDOWN)
        add_markdown(&t);
    else if (form == REFERENCE_MAN)
        add_man(&t);
    else if (form == REFERENCE_KEYS)
        add_keys(&t);
    else {
        add_plain(&t, (choice){NULL, NULL});
        text_add(&t, "\nUnits that a value may carry:\n");
        add_units(&t, "  ", "");
    }
    if (t.failed != MOAO_OK) {
        free(t.s);
        return NULL;
    }
    return t.s;
}

/* Fields that a word has to do with: its notes, then the fields. Returns their number. */
static int add_word(text *t, const char *word) {
    const char *key, *note;
    char singular[PARAM_PATH];
    size_t n = strlen(word);
    int count = 0, notes = 0;
    for (int i = 0; params_word(word, i, &key, &note); i++, count++)
        if (key == NULL || *note != '\0') {
            text_add(t, "%s: %s%s%s\n", word, key != NULL ? key : "", key != NULL ? ", " : "",
                     note);
            notes++;
        }
    if (n > 3 && word[n - 1] == 's' && word[n - 2] != 's')
        n--;
    snprintf(singular, sizeof singular, "%.*s", (int)n, word);
    if (notes > 0)
        text_add(t, "\n");
    return count + add_plain(t, (choice){NULL, singular});
}

status params_reference_section(const char *name, char **out) {
    char hint[PARAM_PATH + 64];
    text t = {0};
    size_t n = strlen(name);
    *out = NULL;
    if (strcmp(name, "units") == 0)
        add_units(&t, "", "");
    else if (n == 0 || n >= PARAM_PATH / 2 ||
             (add_plain(&t, (choice){name, NULL}) == 0 && (n < 3 || add_word(&t, name) == 0))) {
        param_table_suggest(&params_main_table, "", name, hint, sizeof hint);
        free(t.s);
        return status_fail(MOAO_INPUT, "%s: no such section or key, nor a word of their texts, %s",
                           yaml_tree_quote(name).s, hint);
    }
    if (t.failed != MOAO_OK)
        free(t.s);
    else
        *out = t.s;
    return t.failed;
}

/* The table that params.def expands to, and what is done with one entry. Private to params*.c. */
#ifndef MOAO_PARAMS_TABLE_H
#define MOAO_PARAMS_TABLE_H

#include "params.h"
#include "params_files.h"
#include "units.h"
#include "yaml_tree.h"

typedef enum {
    KIND_text,
    KIND_file,
    KIND_flag,
    KIND_choice,
    KIND_count,
    KIND_real,
    KIND_pair,
    KIND_counts,
    KIND_reals,
    KIND_words,
    KIND_texts,
    KIND_files,
    KIND_points,
    KIND_sensors,
    KIND_profiles,
    KIND_sensor_keys,
} param_kind;

typedef struct {
    const char *group; /* "" at the top; levels are separated by underscores */
    const char *key;
    param_kind kind;
    dimension dim;
    const char *unit;
    const char *def[2]; /* default; of sensors: NGS, LGS */
    const char *range;
    const char *sentence;
    size_t offset; /* in the struct */
} param_field;

typedef struct {
    const char *name; /* "a sensor", for messages */
    int n;
    const param_field *fields;
} param_table;

extern const param_table params_main_table, params_sensor_table, params_profile_table;

enum { PARAM_PATH = 512 };

/* "group.key" with the group's levels separated by dots. */
void param_field_path(const param_field *f, char out[PARAM_PATH]);
/* "path.key", or "key" when path is empty. */
void param_join(char out[PARAM_PATH], const char *path, const char *key);
/* The field at a path such as "telescope.diameter"; and whether a path is a group of the table. */
const param_field *param_table_find(const param_table *t, const char *path);
bool param_table_has_group(const param_table *t, const char *path);
/* A range as it is read: its choices, which lie between bars, with commas. */
void param_range_words(const char *words, char *out, size_t n);
/* What a value of this field must be: "a length in m, (0, 200]". */
void param_field_expected(const param_field *f, char *out, size_t n);

/* Fill every member with its default (type: SENSOR_NGS or SENSOR_LGS for sensors, else 0). */
status param_table_defaults(const param_table *t, int type, void *base);
void param_table_free(const param_table *t, void *base);

/* Convert the value at a node into its member. `path` is for messages. */
status param_field_read(const param_field *f, const ynode *node, const char *path, void *base);
/* Whether a number (inside units) lies in the field's range. */
bool param_in_range(const param_field *f, double v);
/* Convert one number. */
status param_real_read(const param_field *f, const ynode *node, const char *path, double *v);

/* Check that the required keys of a struct stand in `map` or in `defaults` (may be NULL). */
status param_table_require(const param_table *t, int type, const ynode *map, const ynode *defaults,
                           const char *path);
/* The node at a dotted path of keys below a mapping, NULL when absent. */
const ynode *param_node(const ynode *map, const char *path);

/* Read every key of a mapping into the struct at base, following groups; `path` is that of the
 * mapping, for messages ("" at the top). Refuses unknown keys; skips kinds that the caller reads
 * (sensors, profiles). */
status param_table_read(const param_table *t, int type, const ynode *map, const char *path,
                        void *base);

/* The known key nearest to an unknown one, as ", did you mean X?", or the list of keys. */
void param_table_suggest(const param_table *t, const char *group, const char *key, char *out,
                         size_t n);

#endif

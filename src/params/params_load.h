/* Steps of params_load. Private to params*.c. All local; `at` of a mistake is the node that made
 * it. */
#ifndef MOAO_PARAMS_LOAD_H
#define MOAO_PARAMS_LOAD_H

#include "params_table.h"

typedef struct {
    params *par;
    params_files *files;
    yaml_tree *tree;
    ynode *root; /* all sources merged, rings of stars written out */
    const int
        *item_of;   /* [sensors] the item of the list in the files that each sensor comes from */
    int aimless;    /* profiles with wind and without wind directions, */
    char first[64]; /* the first of them */
} params_loader;

/* Keys of which a mapping may hold only one; a later source that sets one drops the others. */
bool params_excludes(const char *path, const char *a, const char *b);
/* Refuse two such keys in `map`, which stands at `path` (without indices). */
status params_check_alternatives(const ynode *map, const char *path, const char *where);

/* Whether a key=value is about a sensor by name and no ring: 0 or 1. */
int params_names_star(const char *override);
/* The sensor that a name stands for; see yaml_tree_named. Blanks and case do not count. */
int params_find_sensor(const ynode *list, const char *path, const char *name, size_t len, char *why,
                       size_t n);
/* Items that a key with a * sets; see yaml_tree_choose. Of the sensors those whose name is like the
 * pattern and whose type has the key: sensors.*.magnitude leaves laser stars alone. */
int params_choose_items(const ynode *list, const char *path, const char *pattern, size_t len,
                        const char *below, bool *chosen, char *why, size_t n);
/* Write the rings of stars out in l->root. */
status params_expand_rings(params_loader *l);
status params_read_sensors(params_loader *l);
/* "sensors[i].key" with the number of the item in the files. */
void params_sensor_path(const params_loader *l, int i, const char *key, char out[PARAM_PATH]);

/* What images are of (params_list_images), where the bands are right. */
status params_read_images(params_loader *l);
/* The zenith angle that follows from sky, into par. */
status params_read_sky(params_loader *l);
status params_read_targets(params_loader *l);
/* Spiders and segments; the image of the pupil into par->pupil, which rank 0 reads from disk:
 * collective when c is not NULL. */
status params_check_pupil(const params_loader *l);
status params_read_pupil(const comm *c, params *par);
/* Spectra of the image's motion and what the loop leaves of them, into errors.jitter and
 * errors.windshake. */
status params_read_motion(params_loader *l);
status params_read_atmosphere(params_loader *l);
/* What no single value shows: lengths, orders, stars below layers, impossible geometry. */
status params_check(params_loader *l);
/* Mode, mirrors and directions that targets share: completed, or refused. */
status params_check_correctors(params_loader *l);
/* The loop in time: its rate completed; refused where it is not stable. */
status params_check_loop(params_loader *l);
/* Filters of the loop and of the stars for low orders, not opened (loop_init); local. */
void params_filters(const params *par, loop_filter *loop, loop_filter *low);
/* That of the mirrors of targets behind a common one in closed loop, the same. */
loop_filter params_target_filter(const params *par);
/* Stars for low orders, their control and their loop, before params_check_loop. */
status params_check_low_order(params_loader *l);
/* auto becomes what factors in double precision and exact products have; what has not is refused,
 * as it stands with `what`. */
status params_choose_exact(params_loader *l, const char *what);

/* Add a line of what files came to, for reports. */
status params_tell(params *par, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Add a warning that only the reader can know. */
status params_note(params *par, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Parse a YAML file named at a node whose root must be a mapping. */
status params_parse_file(params_loader *l, const char *name, const ynode *at, const char *path,
                         ynode **root);

/* Number of times of a schedule, -1 when too many; the times into out[] when not NULL. */
int params_schedule(const real_list *times, double interval, double start, double end, double *out);

#endif

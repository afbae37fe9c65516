/* What the files of this folder share: places on the lattice, nodes that are added. */
#ifndef MOAO_FIELD_INTERNAL_H
#define MOAO_FIELD_INTERNAL_H

#include "field/field.h"

#define FIELD_WORTH 0.75 /* of the targets' number: more nodes save too little */

/* Levels of the exposures, by profiles; line: no nodes are of half the level. False: all are whole,
 * as lacking nodes would save too little. */
bool field_choose_levels(const sys *s, const atmos *a, double tolerance, double step, bool line,
                         unsigned char *level);

/* Whether a node is computed no more, as all targets are. */
static inline bool field_has_left(const field *f, const field_node *n, int tor) {
    return f->left_from > 0 && tor >= f->left_from && n->target < 0;
}

/* A direction [rad] in steps of the lattice, and back. */
void field_to_lattice(const field *f, const double at[2], double *u, double *v);
void field_from_lattice(const field *f, double u, double v, double at[2]);
/* Place of a target; the last ones of a row belong to the last cell. */
void field_place(const field *f, const double at[2], double *u, double *v);
bool field_in_cell(const field *f, int t, const field_cell *c);

/* A node, which is the very target where it is next to one; one that exists there is computed in
 * every exposure from `tor` on. False: it is already, or there is no room. */
bool field_add(field *f, const double at[2], field_kind kind, int tor, int target);
/* The target of a stratum (-1: any) in a cell (NULL: any) that is no node, drawn at random; -1:
 * none. */
int field_draw(const field *f, int stratum, const field_cell *c);
/* Compares up to `count` more of a stratum, drawn at random; returns how many. */
int field_draw_more(field *f, int tor, int stratum, int count);

#endif

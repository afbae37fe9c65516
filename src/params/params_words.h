/* Words that people of the field, and parameter files of other programs, use for what has another
 * name here. Private to params*.c. Local. */
#ifndef MOAO_PARAMS_WORDS_H
#define MOAO_PARAMS_WORDS_H

#include "params_table.h"

/* "did you mean KEY? (NOTE)" for an unknown key of a table, "" when the word is not known. */
void params_word_hint(const param_table *t, const char *key, char *out, size_t n);
/* A key that there was in earlier versions: a note in `par` where its value is the one that is
 * still what is done, else the mistake. *was: whether it is such a key. `path` is without indices,
 * `where` for messages. */
status params_read_removed(const param_table *t, const char *path, const char *where,
                           const ynode *value, params *par, bool *was);
/* Key and note that a word stands for: the i-th of those that know it, from any table; false beyond
 * the last. The key is a path as in `moao params`, NULL where nothing stands for it. */
bool params_word(const char *word, int i, const char **key, const char **note);

#endif

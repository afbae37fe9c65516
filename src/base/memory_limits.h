/* Limits that others have set for this process: memory (ulimit, control groups) and processor time
 * (control groups). All local. */
#ifndef MOAO_MEMORY_LIMITS_H
#define MOAO_MEMORY_LIMITS_H

#include "moao/status.h"
#include <stddef.h>

/* A line "NAME:  1234 kB" of a file under /proc [bytes]; name with its colon. 0 when there is none.
 */
size_t limits_proc_field(const char *path, const char *name);

/* Call first in main. MOAO_INPUT, with what to do, when the limit on the address space (ulimit -v)
 * or on data (ulimit -d) leaves no room for the buffers of OpenBLAS's threads, for which the
 * library would ask for ever, or when threads have too little stack (ulimit -s). threads: that it
 * has started. */
status limits_probe(int threads);

/* Memory of this node that all processes of the job may still take together [bytes]: what is
 * available, and the room below the limits of the control groups that this process is in. */
size_t limits_node(void);
/* The same where nothing else ran: what the node has, and the limits of the control groups. */
size_t limits_node_total(void);

/* Room below the limits of a control group and of those it lies in, page cache that gives way left
 * out; SIZE_MAX without limits. top: the mount point; path: of the group below it, "" for itself;
 * names of the files that hold a limit and what is in use, "": nothing. */
size_t limits_group_room(const char *top, const char *path, const char *limit, const char *usage);

/* Cores whose time the control groups of this process may use together (the quota of a container,
 * of a job), INFINITY without a quota; may be a fraction. */
double limits_cores(void);

/* The same of one control group and of those it lies in; top, path as above. */
double limits_group_cores(const char *top, const char *path);

/* Resident memory that this process may reach below its own limits (address space, data) [bytes];
 * SIZE_MAX without any. */
size_t limits_process(void);

#endif

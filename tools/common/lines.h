/* SPDX-License-Identifier: Apache-2.0
 *
 * Logs of one JSON object a line that runs append to: metrics, events of a store. Each line is
 * written at once. A log holds whole lines only, whatever happens: what a failed write left of its
 * line is taken back, and nothing is written after it.
 */
#ifndef TSR_TOOLS_COMMON_LINES_H
#define TSR_TOOLS_COMMON_LINES_H

#include "runtime/base/result.h"

#include <signal.h>

enum { TSR_LINES_STOP = 2 }; /* value of `stop` after a failure */

typedef struct tsr_lines {
    int fd;           /* owned; -1: no log */
    const char *what; /* static: "metrics"; for messages */
    const char *path; /* borrowed */
    int error;        /* errno of the first failed write, or 0 */
    /* Borrowed, or NULL: becomes TSR_LINES_STOP at the first failure, unless it is set already. */
    volatile sig_atomic_t *stop;
} tsr_lines;

/* Opens a file for appending, which is created where there is none. A last line without its end is
 * what a kill or a full disk left of an earlier run: if it is a whole object it gets its end, else
 * it is removed, and a warning says what it was. TSR_USAGE where the last line does not begin like
 * a JSON object: the file is no log, and is not touched. TSR_IO. */
TSR_RESULT tsr_lines_open(tsr_ctx *ctx, const char *what, const char *path,
                          volatile sig_atomic_t *stop, tsr_lines *out_lines);
/* `text` ends with a newline. From one thread at a time. */
void tsr_lines_append(tsr_lines *lines, const char *text, size_t size_bytes);
/* As if a write had failed with this errno: a line could not be made. */
void tsr_lines_fail(tsr_lines *lines, int error);
/* TSR_IO where a line could not be written, or what was written could not be stored. */
TSR_RESULT tsr_lines_close(tsr_ctx *ctx, tsr_lines *lines);

static inline bool tsr_lines_is_open(const tsr_lines *lines) { return lines->fd >= 0; }

#endif

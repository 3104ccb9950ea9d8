/* SPDX-License-Identifier: Apache-2.0
 *
 * Logs with one JSON object per line, to which runs append: metrics, events of a store. Each line
 * is written at once. A log always contains whole lines only: the partial line of a failed write is
 * removed, and nothing is written after it.
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

/* Opens a file for appending, and creates it if it does not exist. A last line without a newline is
 * the rest of an earlier run that was killed or met a full disk: if it is a complete object it gets
 * a newline, else it is removed, and a warning shows its text. Fails with TSR_USAGE if the last
 * line does not begin like a JSON object: then the file is not a log, and is left unchanged. May
 * fail with TSR_IO. */
TSR_RESULT tsr_lines_open(tsr_ctx *ctx, const char *what, const char *path,
                          volatile sig_atomic_t *stop, tsr_lines *out_lines);
/* `text` ends with a newline. Call it from one thread at a time. */
void tsr_lines_append(tsr_lines *lines, const char *text, size_t size_bytes);
/* Behaves as if a write had failed with this errno: a line could not be made. */
void tsr_lines_fail(tsr_lines *lines, int error);
/* Fails with TSR_IO if a line could not be written, or if written lines could not be stored. */
TSR_RESULT tsr_lines_close(tsr_ctx *ctx, tsr_lines *lines);

static inline bool tsr_lines_is_open(const tsr_lines *lines) { return lines->fd >= 0; }

#endif

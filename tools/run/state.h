/* SPDX-License-Identifier: Apache-2.0
 *
 * What tessera-run does with a state directory besides training: the event log, and the commands
 * that end in `DIR`.
 */
#ifndef TSR_TOOLS_RUN_STATE_H
#define TSR_TOOLS_RUN_STATE_H

#include "runtime/base/result.h"

#include <stdint.h>

/* The event log of a store, appended line by line, so that a killed run leaves whole lines. */
typedef struct tsr_state_log {
    int fd; /* owned; -1: none */
    const char *path;
    int error; /* errno of the first failed write */
} tsr_state_log;

TSR_RESULT tsr_state_log_open(tsr_ctx *ctx, const char *path, tsr_state_log *out_log);
void tsr_state_log_line(void *log, const char *line);
/* TSR_IO if a line could not be written. */
TSR_RESULT tsr_state_log_close(tsr_ctx *ctx, tsr_state_log *log);

/* `export DIR -o FILE`: prints which generation was written. has_generation: that one, else the
 * newest good one. */
TSR_RESULT tsr_state_export(tsr_ctx *ctx, const char *directory, bool has_generation,
                            uint64_t generation, const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What tessera-run does with a state directory besides training: the event log, and the commands
 * that end in `DIR`.
 */
#ifndef TSR_TOOLS_RUN_STATE_H
#define TSR_TOOLS_RUN_STATE_H

#include "runtime/base/result.h"

#include <stdint.h>

/* A line of the event log of a store, without its end; user is a tsr_lines. */
void tsr_state_log_line(void *user, const char *line);

/* `export DIR -o FILE`: prints which generation was written. has_generation: that one, else the
 * newest good one. */
TSR_RESULT tsr_state_export(tsr_ctx *ctx, const char *directory, bool has_generation,
                            uint64_t generation, const char *path);

#endif

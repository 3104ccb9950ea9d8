/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of tessera-run on a state directory other than training: the event log, and the
 * commands that end in `DIR`.
 */
#ifndef TSR_TOOLS_RUN_STATE_H
#define TSR_TOOLS_RUN_STATE_H

#include "runtime/base/result.h"

#include <stdint.h>

/* Appends a line to the event log of a store; `line` has no newline; user is a tsr_lines. */
void tsr_state_log_line(void *user, const char *line);

/* `export DIR -o FILE`: prints the number of the exported generation. has_generation: exports that
 * one, else the newest good one. */
TSR_RESULT tsr_state_export(tsr_ctx *ctx, const char *directory, bool has_generation,
                            uint64_t generation, const char *path);

#endif

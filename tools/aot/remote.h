/* SPDX-License-Identifier: Apache-2.0
 *
 * Code shared by push and pull: flags, environment variables, progress, the summary.
 */
#ifndef TSR_TOOLS_AOT_REMOTE_H
#define TSR_TOOLS_AOT_REMOTE_H

#include "registry/registry.h"
#include "runtime/base/arena.h"
#include "tools/aot/aot.h"

enum { TSR_REMOTE_AUTH_MAX = 4 };

/* Progress on a terminal: a bar that is redrawn; elsewhere an occasional line. */
typedef struct tsr_remote_meter {
    bool quiet, terminal, drawn;
    const char *what;        /* name of the phase at the last call */
    double start, last_line; /* seconds */
    double rate;             /* bytes a second, smoothed */
    double rate_time;
    uint64_t rate_bytes;
} tsr_remote_meter;

typedef struct tsr_remote_line {
    tsr_registry_options options;
    bool quiet, json;
    const char *auth_file, *proxy;
    uint64_t retries, retry_delay_ms, timeout_s, jobs;
    const char *auth_paths[TSR_REMOTE_AUTH_MAX];
    tsr_remote_meter meter;
    tsr_arena arena;
} tsr_remote_line;

/* Sets the defaults; the command adds the rows of remote.def to its own flags. */
void tsr_remote_line_init(tsr_remote_line *line);
/* Called after the flags were parsed: sets the options, from the environment if no flag sets them.
 */
TSR_RESULT tsr_remote_line_finish(tsr_ctx *ctx, tsr_remote_line *line, const char *command);
void tsr_remote_line_release(tsr_remote_line *line);

/* Prints the summary to stdout: a line, or a JSON object. `verb`: "pushed". */
void tsr_remote_print(const tsr_remote_line *line, const char *verb, const char *reference,
                      const char *path, const tsr_registry_report *report);
/* Removes the progress bar. */
void tsr_remote_meter_end(tsr_remote_meter *meter);

#endif

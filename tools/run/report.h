/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of tessera-run during a run: a progress line on stderr, results on stdout, metrics in
 * a file.
 */
#ifndef TSR_TOOLS_RUN_REPORT_H
#define TSR_TOOLS_RUN_REPORT_H

#include "runtime/base/buffer.h"
#include "tessera/tessera.h"
#include "tools/common/lines.h"
#include "tools/run/rates.h"
#include "tools/run/tensorboard.h"

#include <pthread.h>

typedef struct tsr_report {
    bool quiet;
    bool terminal;         /* stderr is a terminal: the progress line is rewritten in place */
    pthread_mutex_t lock;  /* protects line_open: saves log from their own thread */
    bool line_open;        /* a progress line without its newline is on the terminal */
    double next_update;    /* seconds of the run */
    tsr_lines metrics;     /* owned; may be closed */
    tsr_tensorboard board; /* owned; may be closed */
    uint64_t board_step;   /* the last step in it, and its seconds */
    double board_seconds;
    tsr_buffer line;                  /* line of the metrics; owned, reused */
    const tsr_model *trained;         /* borrowed; has the hyper-parameters of the run */
    const char *entry;                /* the entry that trains; borrowed */
    tsr_rates rates;                  /* learning rates of its optimizers */
    const tsr_model *measured;        /* its workspace is marked but not yet reported; or NULL */
    uint64_t first_step;              /* the first step of the run */
    uint64_t trace_first, trace_last; /* steps to be traced, until they are reported; or 0 */
} tsr_report;

void tsr_report_init(tsr_report *report, bool quiet);
/* Opens the metrics file for appending, if a path is given; stop: see tsr_lines. This may remove a
 * torn last line, so the path must have been compared with the input files before. */
TSR_RESULT tsr_report_open_metrics(tsr_ctx *ctx, tsr_report *report, const char *path,
                                   volatile sig_atomic_t *stop);
/* Opens an event file in a directory, if one is given. */
TSR_RESULT tsr_report_open_board(tsr_ctx *ctx, tsr_report *report, const char *directory,
                                 volatile sig_atomic_t *stop);
/* Ends the progress line; fails with TSR_IO if metrics could not be written. May be called twice.
 */
TSR_RESULT tsr_report_finish(tsr_ctx *ctx, tsr_report *report);

/* The run will train this model (borrowed), with this entry; NULL: its first one that trains. */
void tsr_report_train(tsr_report *report, const tsr_model *model, const char *entry);

/* Callbacks; user is a tsr_report. */
void tsr_report_begun(void *user, const tsr_recovery *recovery, const tsr_position *position);
void tsr_report_step(void *user, const tsr_step_report *step);
void tsr_report_eval(void *user, const tsr_eval_report *eval);
void tsr_report_saved(void *user, const tsr_save_status *saves);
void tsr_report_judged(void *user, const tsr_best *best);
void tsr_report_called(void *user, uint64_t number, double seconds);
void tsr_report_ranks(void *user, uint64_t step, const tsr_rank_use *uses, uint32_t rank_count);
/* Prints a line about the best generation, if there is one. */
void tsr_report_print_best(const tsr_best *best);
/* Reports the use of the workspace by a run, once, if this was requested. */
void tsr_report_workspace(tsr_report *report);
/* A tsr_log_fn that does not write into an open progress line. */
void tsr_report_log(void *user, tsr_log_level level, const char *text);

/* Writes a notice of how the ranks exchange, and why; nothing for a single rank. */
void tsr_report_exchange(const char *tool, const tsr_model *model);

#endif

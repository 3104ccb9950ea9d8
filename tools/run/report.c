/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/report.h"

#include "runtime/base/plural.h"
#include "tools/common/options.h"
#include "tools/run/entries.h"
#include "tools/run/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double terminal_interval = 0.1,
                    plain_interval = 2.0; /* seconds between progress lines */

void tsr_report_init(tsr_report *report, bool quiet) {
    *report = (tsr_report){.quiet = quiet,
                           .terminal = isatty(STDERR_FILENO) == 1,
                           .lock = PTHREAD_MUTEX_INITIALIZER,
                           .metrics = {.fd = -1},
                           .board = {.fd = -1}};
}

tsr_result tsr_report_open_metrics(tsr_ctx *ctx, tsr_report *report, const char *path,
                                   volatile sig_atomic_t *stop) {
    return path ? tsr_lines_open(ctx, "metrics", path, stop, &report->metrics) : TSR_SUCCESS;
}

tsr_result tsr_report_open_board(tsr_ctx *ctx, tsr_report *report, const char *directory,
                                 volatile sig_atomic_t *stop) {
    return directory ? tsr_tensorboard_open(ctx, directory, stop, &report->board) : TSR_SUCCESS;
}

void tsr_report_train(tsr_report *report, const tsr_model *model, const char *entry) {
    report->trained = model;
    report->entry = tsr_run_name_training(tsr_model_get_config(model), entry);
}

static void end_line(tsr_report *report) {
    pthread_mutex_lock(&report->lock);
    if (report->line_open) fputc('\n', stderr);
    report->line_open = false;
    pthread_mutex_unlock(&report->lock);
}

tsr_result tsr_report_finish(tsr_ctx *ctx, tsr_report *report) {
    end_line(report);
    tsr_buffer_finish(&report->line);
    tsr_result metrics = tsr_lines_close(ctx, &report->metrics);
    tsr_ctx aside = tsr_ctx_fork(ctx);
    tsr_result board = tsr_tensorboard_close(metrics.code ? &aside : ctx, &report->board);
    return metrics.code ? metrics : board;
}

/* ---- metrics: one JSON object a line, written at once ---- */

static void begin_counted(tsr_report *report, const char *event, const char *what,
                          uint64_t number) {
    report->line.size_bytes = 0;
    tsr_buffer_printf(&report->line, "{\"event\":\"%s\",\"%s\":%" PRIu64, event, what, number);
}

static void begin_record(tsr_report *report, const char *event, uint64_t step) {
    begin_counted(report, event, "step", step);
}

/* Appends a member of "outputs"; JSON has no NaN and no infinities. */
static void append_output(tsr_report *report, const char *name, double value) {
    tsr_buffer *line = &report->line;
    if (line->size_bytes && line->bytes[line->size_bytes - 1] != '{') tsr_buffer_text(line, ",");
    tsr_buffer_json_string(line, name);
    if (isfinite(value))
        tsr_buffer_printf(line, ":%.9g", value);
    else
        tsr_buffer_text(line, ":null");
}

static void end_record(tsr_report *report) {
    tsr_buffer_text(&report->line, "}\n");
    if (report->line.failed) tsr_lines_fail(&report->metrics, ENOMEM);
    tsr_lines_append(&report->metrics, report->line.bytes, report->line.size_bytes);
}

/* ---- steps ---- */

static void append_rates(tsr_report *report, uint64_t step) {
    if (!report->rates.count) return;
    tsr_buffer_text(&report->line, ",\"rates\":{");
    for (size_t i = 0; i < report->rates.count; i++)
        append_output(report, report->rates.items[i].name,
                      tsr_rate_at(&report->rates.items[i], step));
    tsr_buffer_text(&report->line, "}");
}

static void write_step(tsr_report *report, const tsr_step_report *step) {
    begin_record(report, "step", step->step);
    tsr_buffer_printf(&report->line, ",\"samples\":%" PRIu64 ",\"seconds\":%.6f,\"outputs\":{",
                      step->samples, step->seconds);
    for (size_t i = 0; i < step->output_count; i++)
        if (step->outputs[i].shape.rank == 0)
            append_output(report, step->outputs[i].name,
                          tsr_dtype_read(step->outputs[i].dtype, step->outputs[i].data, 0));
    tsr_buffer_text(&report->line, "}");
    append_rates(report, step->step);
    end_record(report);
}

static void add_to_board(tsr_report *report, const tsr_step_report *step) {
    tsr_tensorboard *board = &report->board;
    double seconds = step->seconds - report->board_seconds;
    uint64_t before = report->board_step ? report->board_step : step->first_step;
    tsr_tensorboard_begin(board, step->step);
    for (size_t i = 0; i < step->output_count; i++)
        if (step->outputs[i].shape.rank == 0)
            tsr_tensorboard_scalar(
                board, "train", step->outputs[i].name,
                tsr_dtype_read(step->outputs[i].dtype, step->outputs[i].data, 0));
    for (size_t i = 0; i < report->rates.count; i++)
        tsr_tensorboard_scalar(board, "rates", report->rates.items[i].name,
                               tsr_rate_at(&report->rates.items[i], step->step));
    if (seconds > 0)
        tsr_tensorboard_scalar(board, "throughput", "samples_per_second",
                               (double)(step->samples * (step->step - before)) / seconds);
    tsr_tensorboard_end(board);
    report->board_step = step->step;
    report->board_seconds = step->seconds;
}

/* A terminal would wrap a longer line, and the next one would not replace it. The last column stays
 * free: some terminals wrap when it is written. */
static void print_progress(tsr_report *report, const tsr_step_report *step) {
    char text[TSR_PROGRESS_BYTES_MAX];
    unsigned columns = report->terminal ? tsr_progress_columns(STDERR_FILENO) : 0;
    tsr_progress_format(step, columns > 1 ? columns - 1 : columns, text);
    pthread_mutex_lock(&report->lock);
    fprintf(stderr, "%s%s%s", report->terminal ? "\r\033[K" : "", text,
            report->terminal ? "" : "\n");
    report->line_open = report->terminal;
    pthread_mutex_unlock(&report->lock);
}

/* Called once the steps of the run are known: reports steps that should be traced but are not in
 * the run. */
static void tell_untraced(tsr_report *report, const tsr_step_report *step) {
    uint64_t first = report->trace_first, last = report->trace_last;
    uint64_t begin = step->first_step + 1, end = step->last_step;
    report->trace_first = report->trace_last = 0;
    if (report->quiet || !first || (first >= begin && last <= end)) return;
    bool none = first > end || last < begin;
    end_line(report);
    fprintf(stderr,
            "tessera-run: notice: --trace-steps is '%" PRIu64 ":%" PRIu64
            "'; the run has steps %" PRIu64 " to %" PRIu64 ", %s\n",
            first, last, begin, end, none ? "and none is traced" : "and no others are traced");
}

void tsr_report_step(void *user, const tsr_step_report *step) {
    tsr_report *report = user;
    bool last = step->step == step->last_step;
    tell_untraced(report, step);
    if (tsr_lines_is_open(&report->metrics)) write_step(report, step);
    if (tsr_tensorboard_is_open(&report->board)) add_to_board(report, step);
    if (report->quiet || (step->seconds < report->next_update && !last)) return;
    report->next_update = step->seconds + (report->terminal ? terminal_interval : plain_interval);
    print_progress(report, step);
}

void tsr_report_eval(void *user, const tsr_eval_report *eval) {
    tsr_report *report = user;
    end_line(report);
    printf("eval step %" PRIu64, eval->step);
    for (size_t i = 0; i < eval->count; i++) printf(" %s %.6f", eval->names[i], eval->means[i]);
    printf(" (%" PRIu64 " row%s)\n", eval->rows, TSR_PLURAL(eval->rows));
    fflush(stdout); /* a killed run then leaves whole lines; tsr_tool_finish reports an error */
    if (tsr_tensorboard_is_open(&report->board)) {
        tsr_tensorboard_begin(&report->board, eval->step);
        for (size_t k = 0; k < eval->count; k++)
            tsr_tensorboard_scalar(&report->board, "eval", eval->names[k], eval->means[k]);
        tsr_tensorboard_end(&report->board);
    }
    if (!tsr_lines_is_open(&report->metrics)) return;
    begin_record(report, "eval", eval->step);
    tsr_buffer_printf(&report->line, ",\"rows\":%" PRIu64 ",\"outputs\":{", eval->rows);
    for (size_t i = 0; i < eval->count; i++) append_output(report, eval->names[i], eval->means[i]);
    tsr_buffer_text(&report->line, "}");
    end_record(report);
}

static void begin_generation(tsr_report *report, const char *event,
                             const tsr_generation *generation) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&generation->state_hash, hex);
    begin_record(report, event, generation->position.step);
    tsr_buffer_printf(&report->line,
                      ",\"generation\":%" PRIu64 ",\"epoch\":%" PRIu64 ",\"state\":\"%s\"",
                      generation->number, generation->epoch, hex);
}

void tsr_report_saved(void *user, const tsr_save_status *saves) {
    tsr_report *report = user;
    if (!tsr_lines_is_open(&report->metrics)) return;
    begin_generation(report, "save", &saves->last_committed);
    const tsr_generation *saved = &saves->last_committed;
    const tsr_best *named = &saved->position.best;
    bool best = named->generation == saved->number && named->epoch == saved->epoch;
    tsr_buffer_printf(&report->line, ",\"stall_seconds\":%.9f,\"persist_seconds\":%.9f%s",
                      saves->stall_seconds, saves->persist_seconds, best ? ",\"best\":true" : "");
    end_record(report);
}

void tsr_report_judged(void *user, const tsr_best *best) {
    tsr_report *report = user;
    if (!tsr_lines_is_open(&report->metrics)) return;
    begin_record(report, "best", best->evaluated_step);
    tsr_buffer_text(&report->line, ",\"metric\":");
    tsr_buffer_json_string(&report->line, best->metric);
    if (best->generation)
        tsr_buffer_printf(&report->line, ",\"best_step\":%" PRIu64 ",\"value\":%.9g", best->step,
                          best->value);
    tsr_buffer_printf(&report->line, ",\"without_gain\":%" PRIu64, best->without_gain);
    end_record(report);
}

void tsr_report_print_best(const tsr_best *best) {
    if (!best->generation) return;
    printf("best %s %.9g at step %" PRIu64 ", generation %" PRIu64, best->metric, best->value,
           best->step, best->generation);
    if (best->without_gain)
        printf("; %" PRIu64 " evaluation%s without gain since", best->without_gain,
               TSR_PLURAL(best->without_gain));
    printf("\n");
}

void tsr_report_called(void *user, uint64_t number, double seconds) {
    tsr_report *report = user;
    if (!tsr_lines_is_open(&report->metrics)) return;
    begin_counted(report, "call", "call", number);
    tsr_buffer_printf(&report->line, ",\"seconds\":%.9f", seconds);
    end_record(report);
}

void tsr_report_ranks(void *user, uint64_t step, const tsr_rank_use *uses, uint32_t rank_count) {
    tsr_report *report = user;
    const double mib = 1 << 20;
    if (!report->quiet) end_line(report);
    for (uint32_t r = 0; r < rank_count; r++) {
        const tsr_rank_use *use = &uses[r];
        if (!report->quiet)
            fprintf(
                stderr,
                "rank %u: %.1f MiB planned, %.1f to save, %.1f resident; a step sends %.3f MiB, "
                "%.3f planned\n",
                r, (double)use->planned_bytes / mib, (double)use->saver_bytes / mib,
                (double)use->resident_bytes / mib, (double)use->sent_bytes / mib,
                (double)use->planned_sent_bytes / mib);
        if (!tsr_lines_is_open(&report->metrics)) continue;
        begin_record(report, "rank", step);
        tsr_buffer_printf(&report->line,
                          ",\"rank\":%u,\"planned_bytes\":%" PRIu64 ",\"saver_bytes\":%" PRIu64
                          ",\"resident_bytes\":%" PRIu64 ",\"planned_sent_bytes\":%" PRIu64
                          ",\"sent_bytes\":%" PRIu64,
                          r, use->planned_bytes, use->saver_bytes, use->resident_bytes,
                          use->planned_sent_bytes, use->sent_bytes);
        end_record(report);
    }
}

void tsr_report_workspace(tsr_report *report) {
    if (!report->measured) return;
    tsr_workspace_use use = tsr_model_measure_workspace(report->measured);
    report->measured = NULL;
    end_line(report);
    if (!report->quiet)
        fprintf(stderr,
                "workspace: %" PRIu64 " byte%s planned, %" PRIu64 " reached, %" PRIu64 " written\n",
                use.planned_bytes, TSR_PLURAL(use.planned_bytes), use.reached_bytes,
                use.written_bytes);
    if (!tsr_lines_is_open(&report->metrics)) return;
    begin_counted(report, "workspace", "planned_bytes", use.planned_bytes);
    tsr_buffer_printf(&report->line, ",\"reached_bytes\":%" PRIu64 ",\"written_bytes\":%" PRIu64,
                      use.reached_bytes, use.written_bytes);
    end_record(report);
}

void tsr_report_begun(void *user, const tsr_recovery *recovery, const tsr_position *position) {
    tsr_report *report = user;
    report->first_step = position->step;
    tsr_rates_find(tsr_model_get_identity(report->trained), report->entry, &report->rates);
    if (!recovery->found) return;
    end_line(report);
    printf("resumed generation %" PRIu64 " at step %" PRIu64 " (epoch %" PRIu64 ", seed %" PRIu64
           ")\n",
           recovery->generation.number, position->step, recovery->generation.epoch, position->seed);
    tsr_report_print_best(&position->best);
    fflush(stdout);
    if (!tsr_lines_is_open(&report->metrics)) return;
    begin_generation(report, "resume", &recovery->generation);
    tsr_buffer_printf(&report->line, ",\"damaged\":%u", recovery->damaged_count);
    end_record(report);
}

void tsr_report_log(void *user, tsr_log_level level, const char *text) {
    end_line(user);
    tsr_tool_log("tessera-run", level, text);
}

void tsr_report_exchange(const char *tool, const tsr_model *model) {
    const char *reason = NULL, *name = tsr_model_get_exchange(model, &reason);
    if (name && reason[0])
        fprintf(stderr, "%s: notice: the ranks exchange by %s: %s\n", tool, name, reason);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/report.h"

#include "runtime/base/buffer.h"
#include "tools/common/options.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const double terminal_interval = 0.1,
                    plain_interval = 2.0; /* seconds between progress lines */

tsr_result tsr_report_init(tsr_ctx *ctx, tsr_report *report, bool quiet, const char *metrics_path) {
    *report = (tsr_report){
        .quiet = quiet, .terminal = isatty(STDERR_FILENO) == 1, .metrics_path = metrics_path};
    if (!metrics_path) return TSR_SUCCESS;
    report->metrics = fopen(metrics_path, "ae");
    if (!report->metrics)
        FAIL_ERRNO(ctx, TSR_IO, errno, "cannot write metrics to '%s'", metrics_path);
    setvbuf(report->metrics, NULL, _IOLBF,
            1 << 16); /* whole lines: a killed run leaves whole records */
    return TSR_SUCCESS;
}

static void end_line(tsr_report *report) {
    if (report->line_open) fputc('\n', stderr);
    report->line_open = false;
}

tsr_result tsr_report_finish(tsr_ctx *ctx, tsr_report *report) {
    end_line(report);
    if (!report->metrics) return TSR_SUCCESS;
    if (fclose(report->metrics) != 0 && !report->metrics_error) report->metrics_error = errno;
    report->metrics = NULL;
    if (report->metrics_error)
        FAIL_ERRNO(ctx, TSR_IO, report->metrics_error, "cannot write metrics to '%s'",
                   report->metrics_path);
    return TSR_SUCCESS;
}

static void note_metrics(tsr_report *report, int written) {
    if (written < 0 && !report->metrics_error) report->metrics_error = errno;
}

static double read_scalar(const tsr_tensor *tensor) {
    switch (tensor->dtype) {
    case TSR_DTYPE_F64:
        return *(const double *)tensor->data;
    case TSR_DTYPE_F32:
        return (double)*(const float *)tensor->data;
    case TSR_DTYPE_I64:
        return (double)*(const int64_t *)tensor->data;
    case TSR_DTYPE_I32:
        return (double)*(const int32_t *)tensor->data;
    case TSR_DTYPE_I1:
    case TSR_DTYPE_UI8:
        return (double)*(const uint8_t *)tensor->data;
    case TSR_DTYPE_NONE:
        break;
    }
    return 0;
}

/* "loss 0.1234" or "\"loss\":0.1234…" for each scalar output. */
static size_t format_outputs(const tsr_step_report *step, bool json, char *text, size_t room) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < step->output_count && used < room; i++) {
        if (step->outputs[i].shape.rank != 0) continue;
        double value = read_scalar(&step->outputs[i]);
        int length =
            json ? snprintf(text + used, room - used, "%s\"%s\":%.9g", used ? "," : "",
                            step->outputs[i].name, value)
                 : snprintf(text + used, room - used, "  %s %.5g", step->outputs[i].name, value);
        if (length > 0) used += (size_t)length;
    }
    return used;
}

static void print_progress(tsr_report *report, const tsr_step_report *step) {
    char outputs[512];
    double done = (double)(step->step - step->first_step),
           rate = step->seconds > 0 ? done / step->seconds : 0;
    double left = rate > 0 ? (double)(step->last_step - step->step) / rate : 0;
    format_outputs(step, false, outputs, sizeof outputs);
    fprintf(stderr, "%sstep %llu/%llu%s  %.0f samples/s  ETA %.0f s%s",
            report->terminal ? "\r\033[K" : "", (unsigned long long)step->step,
            (unsigned long long)step->last_step, outputs, rate * (double)step->samples, left,
            report->terminal ? "" : "\n");
    report->line_open = report->terminal;
}

void tsr_report_step(void *user, const tsr_step_report *step) {
    tsr_report *report = user;
    bool last = step->step == step->last_step;
    if (report->metrics) {
        char outputs[4096];
        format_outputs(step, true, outputs, sizeof outputs);
        note_metrics(report, fprintf(report->metrics,
                                     "{\"event\":\"step\",\"step\":%llu,\"samples\":%llu,"
                                     "\"seconds\":%.6f,\"outputs\":{%s}}\n",
                                     (unsigned long long)step->step,
                                     (unsigned long long)step->samples, step->seconds, outputs));
    }
    if (report->quiet || (step->seconds < report->next_update && !last)) return;
    report->next_update = step->seconds + (report->terminal ? terminal_interval : plain_interval);
    print_progress(report, step);
}

void tsr_report_eval(void *user, const tsr_eval_report *eval) {
    tsr_report *report = user;
    end_line(report);
    printf("eval step %llu", (unsigned long long)eval->step);
    for (size_t i = 0; i < eval->count; i++) printf(" %s %.6f", eval->names[i], eval->means[i]);
    printf(" (%llu rows)\n", (unsigned long long)eval->rows);
    if (!report->metrics) return;
    note_metrics(report, fprintf(report->metrics,
                                 "{\"event\":\"eval\",\"step\":%llu,\"rows\":%llu,\"outputs\":{",
                                 (unsigned long long)eval->step, (unsigned long long)eval->rows));
    for (size_t i = 0; i < eval->count; i++)
        note_metrics(report, fprintf(report->metrics, "%s\"%s\":%.9g", i ? "," : "", eval->names[i],
                                     eval->means[i]));
    note_metrics(report, fprintf(report->metrics, "}}\n"));
}

static void write_generation(tsr_report *report, const char *event,
                             const tsr_generation *generation) {
    char hex[TSR_DIGEST_HEX + 1];
    if (!report->metrics) return;
    tsr_digest_format(&generation->state_hash, hex);
    note_metrics(report, fprintf(report->metrics,
                                 "{\"event\":\"%s\",\"generation\":%llu,\"epoch\":%llu,\"step\":%"
                                 "llu,\"state\":\"%s\"}\n",
                                 event, (unsigned long long)generation->number,
                                 (unsigned long long)generation->epoch,
                                 (unsigned long long)generation->position.step, hex));
}

void tsr_report_saved(void *user, const tsr_generation *generation) {
    tsr_report *report = user;
    write_generation(report, "save", generation);
}

void tsr_report_begun(void *user, const tsr_recovery *recovery, const tsr_position *position) {
    tsr_report *report = user;
    report->first_step = position->step;
    if (!recovery->found) return;
    end_line(report);
    printf("resumed generation %llu at step %llu (epoch %llu, seed %llu)\n",
           (unsigned long long)recovery->generation.number, (unsigned long long)position->step,
           (unsigned long long)recovery->generation.epoch, (unsigned long long)position->seed);
    fflush(stdout);
    write_generation(report, "resume", &recovery->generation);
}

void tsr_report_log(void *user, tsr_log_level level, const char *text) {
    end_line(user);
    tsr_tool_log("tessera-run", level, text);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Planned pipelines: one JSON form for the manifest and for the struct that is passed between
 * compiler stages.
 */
#include "manifests/deployment/read.h"
#include "manifests/json_write.h"
#include "runtime/base/plural.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <string.h>

static void write_text(tsr_buffer *out, const char *before, const char *key, const char *text) {
    if (!text) return;
    tsr_buffer_printf(out, "%s\"%s\":", before, key);
    tsr_buffer_json_string(out, text);
}

static void write_one(tsr_buffer *out, const tsr_deployment_pipeline *p) {
    write_text(out, "", "schedule", p->schedule);
    write_text(out, ",", "axis", p->axis);
    write_text(out, ",", "function", p->function);
    tsr_buffer_printf(out,
                      ",\"ranks\":%" PRIu64 ",\"microbatches\":%" PRIu64 ",\"chunks\":%" PRIu64
                      ",\"stages\":[",
                      p->ranks, p->microbatches, p->chunks);
    for (size_t i = 0; i < p->stage_count; i++) {
        tsr_buffer_printf(out, "%s{\"index\":%zu,\"rank\":%" PRIu64 ",\"after\":[", i ? "," : "", i,
                          i % p->ranks);
        if (i) tsr_buffer_printf(out, "%zu", i - 1);
        write_text(out, "],", "function", p->stages[i]);
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_text(out, "]");
}

void tsr_deployment_write_pipelines(const tsr_deployment *d, const char *key, tsr_buffer *out) {
    if (d->pipeline_count == 0) return;
    tsr_buffer_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < d->pipeline_count; i++) {
        tsr_buffer_text(out, i ? ",{" : "{");
        write_one(out, &d->pipelines[i]);
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_text(out, "]");
}

/* ---- reading ---- */

static TSR_RESULT read_optional(tsr_json_reader *r, const cJSON *object, const char *key,
                                const char **out_text) {
    if (!tsr_json_find(object, key)) return TSR_SUCCESS;
    return tsr_json_read_name(r, object, key, out_text);
}

static TSR_RESULT read_count(tsr_json_reader *r, const cJSON *object, const char *key, uint64_t max,
                             uint64_t *out_count) {
    TRY(r->ctx, tsr_json_get_u64(r->ctx, object, key, &r->options, out_count));
    if (*out_count < 1 || *out_count > max)
        FAIL(r->ctx, TSR_CORRUPT, "%s: %s: expected 1 ... %" PRIu64 ", got %" PRIu64, r->subject,
             key, max, *out_count);
    return TSR_SUCCESS;
}

/* The stages form a chain that passes over the ranks repeatedly. */
static TSR_RESULT read_stage(tsr_json_reader *r, const cJSON *object, size_t index, uint64_t ranks,
                             const char **out_function) {
    const cJSON *after = NULL;
    uint64_t number = 0, rank = 0;
    size_t count = 0;
    TRY(r->ctx, tsr_json_get_u64(r->ctx, object, "index", &r->options, &number));
    TRY(r->ctx, tsr_json_get_u64(r->ctx, object, "rank", &r->options, &rank));
    TRY(r->ctx, tsr_json_get_array(r->ctx, object, "after", &r->options, &after, &count));
    bool follows =
        count == (index > 0) && (index == 0 || (cJSON_IsNumber(after->child) &&
                                                after->child->valuedouble == (double)(index - 1)));
    if (number != index || rank != index % ranks || !follows)
        FAIL(r->ctx, TSR_CORRUPT,
             "%s: stage %zu: expected it on rank %" PRIu64 ", after the previous stage", r->subject,
             index, index % ranks);
    return tsr_json_read_name(r, object, "function", out_function);
}

static TSR_RESULT read_one(tsr_json_reader *r, const cJSON *object, tsr_deployment_pipeline *p) {
    const cJSON *stages = NULL, *item;
    size_t index = 0;
    TRY(r->ctx, tsr_json_read_name(r, object, "schedule", &p->schedule));
    if (strcmp(p->schedule, "1f1b") != 0 && strcmp(p->schedule, "interleaved") != 0)
        TSR_JSON_READ_FAIL(r, "schedule", "1f1b or interleaved", p->schedule);
    TRY(r->ctx, read_optional(r, object, "axis", &p->axis));
    TRY(r->ctx, read_optional(r, object, "function", &p->function));
    TRY(r->ctx, read_count(r, object, "ranks", TSR_DEPLOYMENT_PIPELINE_MAX, &p->ranks));
    TRY(r->ctx,
        read_count(r, object, "microbatches", TSR_DEPLOYMENT_PIPELINE_MAX, &p->microbatches));
    TRY(r->ctx, read_count(r, object, "chunks", TSR_DEPLOYMENT_PIPELINE_MAX, &p->chunks));
    TRY(r->ctx, tsr_json_read_table(r, object, "stages", TSR_DEPLOYMENT_PIPELINE_MAX,
                                    sizeof *p->stages, &stages, &p->stage_count, &p->stages));
    if (p->stage_count && p->stage_count != p->ranks * p->chunks)
        FAIL(r->ctx, TSR_CORRUPT, "%s: expected %" PRIu64 " stage%s or none, got %zu", r->subject,
             p->ranks * p->chunks, TSR_PLURAL(p->ranks * p->chunks), p->stage_count);
    cJSON_ArrayForEach(item, stages) {
        TRY(r->ctx, read_stage(r, item, index, p->ranks, &p->stages[index]));
        index++;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_deployment_read_pipelines(tsr_json_reader *r, const cJSON *object, const char *key,
                                         tsr_deployment *d) {
    const cJSON *array = NULL, *item;
    size_t index = 0;
    if (!tsr_json_find(object, key)) return TSR_SUCCESS;
    TRY(r->ctx, tsr_json_read_table(r, object, key, TSR_JSON_TOKENS_MAX, sizeof *d->pipelines,
                                    &array, &d->pipeline_count, &d->pipelines));
    cJSON_ArrayForEach(item, array) {
        tsr_json_at(r, "deployment: %s[%zu]", key, index);
        TRY(r->ctx, read_one(r, item, &d->pipelines[index++]));
    }
    return TSR_SUCCESS;
}

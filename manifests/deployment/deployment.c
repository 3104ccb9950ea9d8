/* SPDX-License-Identifier: Apache-2.0 */
#include "manifests/deployment.h"

#include "manifests/deployment/read.h"
#include "manifests/json_write.h"
#include "runtime/base/plural.h"

#include <inttypes.h>
#include <string.h>

/* The inputs of the writer. */
typedef struct writer {
    tsr_buffer out;
    const tsr_config *config;
    const tsr_deployment *deployment;
    unsigned parts;
    unsigned minor; /* the version */
} writer;

/* From this version on, a mesh of several virtual ranks says which of its axes divide the batch,
 * and its shards and collectives are those of the virtual ranks. */
enum { BY_VIRTUAL_RANK = 3 };

static bool has(const writer *w, unsigned part) { return w->parts & part; }

/* Writes the axes that the program names; else one axis of V positions along which the batch is
 * split. */
static void write_mesh(writer *w) {
    uint64_t ranks = w->config->virtual_ranks;
    const tsr_deployment *d = w->deployment;
    if (!has(w, TSR_PART_MESH)) return;
    tsr_buffer_text(&w->out, ",\"mesh\":{\"axes\":[");
    if (d->axis_count == 0)
        tsr_buffer_printf(&w->out, "{\"name\":\"data\",\"size\":%" PRIu64 ",\"batch\":true}",
                          ranks);
    for (size_t i = 0; i < d->axis_count; i++) {
        tsr_buffer_text(&w->out, i ? ",{\"name\":" : "{\"name\":");
        tsr_buffer_json_string(&w->out, d->axes[i].name);
        bool batch = ranks > 1 &&
                     (w->minor >= BY_VIRTUAL_RANK ? d->axes[i].batch : d->axes[i].size == ranks);
        tsr_buffer_printf(&w->out, ",\"size\":%" PRIu64 ",\"batch\":%s}", d->axes[i].size,
                          batch ? "true" : "false");
    }
    tsr_buffer_printf(&w->out, "],\"virtualRanks\":%" PRIu64 ",\"ranks\":1}", ranks);
}

static const tsr_deployment_shard *find_shard(const tsr_deployment *d, const char *tensor) {
    for (size_t i = 0; i < d->shard_count; i++)
        if (strcmp(d->shards[i].tensor, tensor) == 0) return &d->shards[i];
    return NULL;
}

/* Shards are ranges of elements of the unpadded row-major tensor, as in the state store. A tensor
 * without shards is whole on every rank. */
static void write_shards(writer *w, const tsr_config_tensor *tensor) {
    const tsr_deployment_shard *shard = find_shard(w->deployment, tensor->name);
    uint64_t count = 0;
    bool fits = tsr_shape_count(&tensor->shape, &count);
    TSR_ASSERT(fits);
    if (!shard) {
        tsr_buffer_printf(&w->out, ",\"shards\":[{\"rank\":0,\"begin\":0,\"end\":%" PRIu64 "}]}",
                          count);
        return;
    }
    tsr_buffer_text(&w->out, ",\"axis\":");
    tsr_buffer_json_string(&w->out, shard->axis);
    tsr_buffer_text(&w->out, ",\"shards\":[");
    for (size_t i = 0; i < shard->position_count; i++)
        tsr_buffer_printf(
            &w->out, "%s{\"rank\":%zu,\"position\":%zu,\"begin\":%" PRIu64 ",\"end\":%" PRIu64 "}",
            i ? "," : "", w->minor >= BY_VIRTUAL_RANK ? i : 0, i, shard->begin[i], shard->end[i]);
    tsr_buffer_text(&w->out, "]}");
}

static void write_tensors(writer *w, const char *key, tsr_tensor_role role) {
    bool first = true;
    if (!has(w, TSR_PART_OPTIMIZER)) return;
    tsr_buffer_printf(&w->out, ",\"%s\":[", key);
    for (size_t i = 0; i < w->config->tensor_count; i++) {
        const tsr_config_tensor *tensor = &w->config->tensors[i];
        if (tensor->role != role) continue;
        tsr_buffer_text(&w->out, first ? "{\"name\":" : ",{\"name\":");
        first = false;
        tsr_buffer_json_string(&w->out, tensor->name);
        if (role == TSR_ROLE_STATE) {
            tsr_buffer_text(&w->out, ",\"of\":");
            tsr_buffer_json_string(&w->out, tensor->of);
            tsr_buffer_text(&w->out, ",\"kind\":");
            tsr_buffer_json_string(&w->out, tensor->kind);
        }
        tsr_json_write_type(&w->out, tensor->dtype, &tensor->shape);
        write_shards(w, tensor);
    }
    tsr_buffer_text(&w->out, "]");
}

static void write_member(writer *w, const char *key, const char *text) {
    tsr_buffer_printf(&w->out, "\"%s\":", key);
    tsr_buffer_json_string(&w->out, text);
    tsr_buffer_text(&w->out, ",");
}

static void write_collectives(writer *w) {
    if (!has(w, TSR_PART_COLLECTIVES)) return;
    tsr_buffer_text(&w->out, ",\"collectives\":[");
    for (size_t i = 0; i < w->deployment->collective_count; i++) {
        const tsr_deployment_collective *collective = &w->deployment->collectives[i];
        tsr_buffer_text(&w->out, i ? ",{" : "{");
        write_member(w, "entry", collective->entry);
        write_member(w, "kind", collective->kind);
        write_member(w, "axis", collective->axis);
        if (collective->tensor) write_member(w, "tensor", collective->tensor);
        tsr_buffer_printf(&w->out, "\"positions\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
                          collective->positions, collective->bytes);
    }
    tsr_buffer_text(&w->out, "]");
}

static void write_checkpoint(writer *w) {
    const tsr_deployment *d = w->deployment;
    if (!has(w, TSR_PART_CHECKPOINT)) return;
    if (d->recompute_count == 0) {
        tsr_buffer_text(&w->out, ",\"checkpoint\":{\"policy\":\"none\"}");
        return;
    }
    tsr_buffer_text(&w->out, ",\"checkpoint\":{\"policy\":\"recompute\",\"entries\":[");
    for (size_t i = 0; i < d->recompute_count; i++) {
        const tsr_deployment_recompute *r = &d->recomputes[i];
        tsr_buffer_text(&w->out, i ? ",{" : "{");
        write_member(w, "entry", r->entry);
        tsr_buffer_printf(&w->out,
                          "\"bytesBefore\":%" PRIu64 ",\"bytesSaved\":%" PRIu64 ",\"ops\":%" PRIu64
                          ",\"operations\":%" PRIu64 "}",
                          r->bytes_before, r->bytes_saved, r->ops, r->operations);
    }
    tsr_buffer_text(&w->out, "]}");
}

static void write_pipeline(writer *w) {
    if (!has(w, TSR_PART_PIPELINE) && !has(w, TSR_PART_STAGES)) return;
    tsr_buffer_text(&w->out,
                    ",\"pipeline\":{\"schedule\":\"none\",\"stages\":[{\"index\":0,\"ranks\":[0],"
                    "\"after\":[],\"entries\":[");
    for (size_t i = 0; i < w->config->entry_count; i++) {
        const tsr_config_entry *entry = &w->config->entries[i];
        tsr_buffer_text(&w->out, i ? ",{" : "{");
        tsr_json_write_entry_head(&w->out, entry);
        tsr_json_write_ports(&w->out, "inputs", entry->inputs, entry->input_count, TSR_JSON_INPUTS);
        tsr_json_write_ports(&w->out, "outputs", entry->outputs, entry->output_count,
                             TSR_JSON_OUTPUTS);
        tsr_buffer_text(&w->out, "}");
    }
    tsr_buffer_text(&w->out, "]}]");
    tsr_deployment_write_pipelines(w->deployment, "plans", &w->out);
    tsr_buffer_text(&w->out, "}");
}

/* Version 1.0 has every part, and no shards or recomputation; 1.1 has no pipelines; 1.2 has one
 * virtual rank. */
static unsigned find_minor(const writer *w, bool by_virtual_rank) {
    const tsr_deployment *d = w->deployment;
    bool plain =
        w->parts == TSR_PART_ALL && !d->shard_count && !d->recompute_count && !d->axis_count;
    bool pipelines = d->pipeline_count && w->parts & (TSR_PART_PIPELINE | TSR_PART_STAGES);
    if (by_virtual_rank) return BY_VIRTUAL_RANK;
    return pipelines ? 2 : !plain;
}

static void write_manifest(writer *w) {
    tsr_buffer_printf(&w->out, "{\"formatVersion\":\"1.%u\",\"name\":", w->minor);
    tsr_buffer_json_string(&w->out, w->config->name);
    tsr_buffer_text(&w->out, ",\"producer\":");
    tsr_buffer_json_string(&w->out, w->config->producer);
    write_mesh(w);
    write_tensors(w, "parameters", TSR_ROLE_PARAM);
    write_tensors(w, "optimizer", TSR_ROLE_STATE);
    write_tensors(w, "constants", TSR_ROLE_CONSTANT);
    write_collectives(w);
    write_checkpoint(w);
    write_pipeline(w);
    tsr_buffer_text(&w->out, "}");
}

static TSR_RESULT encode(tsr_ctx *ctx, const tsr_config *config, const tsr_deployment *deployment,
                         unsigned parts, bool by_virtual_rank, tsr_arena *arena, char **out_json,
                         size_t *out_size_bytes) {
    writer w = {.config = config, .deployment = deployment, .parts = parts};
    w.minor = find_minor(&w, by_virtual_rank);
    write_manifest(&w);
    tsr_result result =
        tsr_json_take(ctx, &w.out, "deployment manifest", arena, out_json, out_size_bytes);
    tsr_buffer_finish(&w.out);
    return result;
}

static TSR_RESULT check_shards(tsr_ctx *ctx, const tsr_config *config, const tsr_deployment *d) {
    for (size_t i = 0; i < d->shard_count; i++) {
        const tsr_deployment_shard *shard = &d->shards[i];
        const tsr_config_tensor *tensor = tsr_config_find_tensor(config, shard->tensor);
        uint64_t count = 0, last = shard->end[shard->position_count - 1];
        if (!tensor || !tsr_shape_count(&tensor->shape, &count))
            FAIL(ctx, TSR_COMPILE,
                 "deployment: shards of '%s', which is not a tensor of the config", shard->tensor);
        if (last != count)
            FAIL(ctx, TSR_COMPILE,
                 "deployment: shards of '%s' cover %" PRIu64 " element%s; it has %" PRIu64,
                 shard->tensor, last, TSR_PLURAL(last), count);
    }
    return TSR_SUCCESS;
}

tsr_result tsr_deployment_check_names(tsr_ctx *ctx, const tsr_config *config,
                                      const tsr_deployment *d, unsigned parts, tsr_code code) {
    bool tensors = parts & TSR_PART_OPTIMIZER, entries = parts & TSR_PART_PIPELINE;
    for (size_t i = 0; i < d->collective_count; i++)
        if ((entries && !tsr_config_find_entry(config, d->collectives[i].entry)) ||
            (tensors && d->collectives[i].tensor &&
             !tsr_config_find_tensor(config, d->collectives[i].tensor)))
            return tsr_fail_(ctx, code, 0, __FILE__, __LINE__,
                             "deployment: a collective of '%s' in '%s': no such tensor or entry",
                             d->collectives[i].tensor ? d->collectives[i].tensor : "",
                             d->collectives[i].entry);
    for (size_t i = 0; i < d->recompute_count; i++)
        if (entries && !tsr_config_find_entry(config, d->recomputes[i].entry))
            return tsr_fail_(ctx, code, 0, __FILE__, __LINE__,
                             "deployment: recomputation in '%s', which is not an entry",
                             d->recomputes[i].entry);
    return TSR_SUCCESS;
}

tsr_result tsr_deployment_encode(tsr_ctx *ctx, const tsr_config *config,
                                 const tsr_deployment *deployment, unsigned parts, tsr_arena *arena,
                                 char **out_json, size_t *out_size_bytes) {
    static const tsr_deployment nothing = {0};
    const tsr_deployment *d = deployment ? deployment : &nothing;
    TRY(ctx, tsr_config_verify(ctx, config, TSR_COMPILE));
    TRY(ctx, check_shards(ctx, config, d));
    TRY(ctx, tsr_deployment_check_names(ctx, config, d, TSR_PART_ALL, TSR_COMPILE));
    return encode(ctx, config, d, parts, config->virtual_ranks > 1, arena, out_json,
                  out_size_bytes);
}

tsr_result tsr_deployment_encode_again(tsr_ctx *ctx, const tsr_deployment_manifest *manifest,
                                       tsr_arena *arena, char **out_json, size_t *out_size_bytes) {
    return encode(ctx, &manifest->config, &manifest->deployment, manifest->parts,
                  manifest->version_minor >= BY_VIRTUAL_RANK, arena, out_json, out_size_bytes);
}

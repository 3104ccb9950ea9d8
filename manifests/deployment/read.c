/* SPDX-License-Identifier: Apache-2.0
 *
 * The deployment manifest read back.
 */
#include "manifests/deployment/read.h"

#include "runtime/base/array.h"
#include "runtime/base/plural.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    tsr_json_reader json;
    tsr_deployment_manifest *m;
} reader;

#define CTX (r->json.ctx)

static TSR_RESULT get_u64(reader *r, const cJSON *object, const char *key, uint64_t *out) {
    return tsr_json_get_u64(CTX, object, key, &r->json.options, out);
}

/* ---- mesh ---- */

/* Programs without a named mesh have one axis, the axis of the virtual ranks. */
static bool is_unnamed(const tsr_deployment_manifest *m, bool batch) {
    const tsr_deployment *d = &m->deployment;
    return d->axis_count == 1 && batch && strcmp(d->axes[0].name, "data") == 0 &&
           d->axes[0].size == m->config.virtual_ranks &&
           (m->version_minor == 0 || m->config.virtual_ranks == 1);
}

static TSR_RESULT read_mesh(reader *r, const cJSON *root) {
    tsr_deployment *d = &r->m->deployment;
    const cJSON *mesh, *axes, *item;
    uint64_t ranks = 0;
    size_t index = 0;
    bool batch = false;
    if (!tsr_json_find(root, "mesh")) return TSR_SUCCESS;
    r->m->parts |= TSR_PART_MESH;
    TRY(CTX, tsr_json_get_object(CTX, root, "mesh", &r->json.options, &mesh));
    TRY(CTX, tsr_json_read_table(&r->json, mesh, "axes", TSR_DEPLOYMENT_AXES_MAX, sizeof *d->axes,
                                 &axes, &d->axis_count, &d->axes));
    cJSON_ArrayForEach(item, axes) {
        tsr_json_at(&r->json, "deployment: mesh.axes[%zu]", index);
        TRY(CTX, tsr_deployment_read_axis(&r->json, item, &d->axes[index++]));
        batch = cJSON_IsTrue(tsr_json_find(item, "batch"));
    }
    tsr_json_at(&r->json, "deployment: mesh");
    TRY(CTX, get_u64(r, mesh, "virtualRanks", &r->m->config.virtual_ranks));
    TRY(CTX, get_u64(r, mesh, "ranks", &ranks));
    if (!d->axis_count || ranks != 1 || r->m->config.virtual_ranks < 1 ||
        r->m->config.virtual_ranks > TSR_CONFIG_VIRTUAL_RANKS_MAX)
        FAIL(CTX, TSR_CORRUPT,
             "deployment: mesh: expected axes, 1 ... %d virtual ranks on 1 rank, got %zu axes, "
             "%" PRIu64 " on %" PRIu64,
             TSR_CONFIG_VIRTUAL_RANKS_MAX, d->axis_count, r->m->config.virtual_ranks, ranks);
    if (is_unnamed(r->m, batch)) d->axis_count = 0;
    return TSR_SUCCESS;
}

/* ---- tensors ---- */

/* Reads the range of one shard; it must begin where the previous one ends. */
static TSR_RESULT read_range(reader *r, const cJSON *item, uint64_t from, uint64_t *out_end) {
    uint64_t begin = 0;
    TRY(CTX, get_u64(r, item, "begin", &begin));
    TRY(CTX, get_u64(r, item, "end", out_end));
    if (begin == from && *out_end >= from) return TSR_SUCCESS;
    FAIL(CTX, TSR_CORRUPT, "%s: expected a range from %" PRIu64 " on, got %" PRIu64 " to %" PRIu64,
         r->json.subject, from, begin, *out_end);
}

static TSR_RESULT read_shards(reader *r, const cJSON *object, const tsr_config_tensor *tensor) {
    tsr_deployment *d = &r->m->deployment;
    tsr_deployment_shard shard = {.tensor = tensor->name};
    const cJSON *shards, *item;
    uint64_t count = 0, end = 0;
    size_t index = 0;
    bool is_sharded = tsr_json_find(object, "axis") != NULL;
    for (uint32_t i = 0; i < tensor->shape.rank; i++)
        if (tensor->shape.dims[i] < 1)
            FAIL(CTX, TSR_CORRUPT, "%s: shape: expected dims of at least 1, got 0",
                 r->json.subject);
    if (!tsr_shape_count(&tensor->shape, &count))
        FAIL(CTX, TSR_CORRUPT, "%s: shape: expected fewer than 2^64 elements", r->json.subject);
    if (is_sharded) TRY(CTX, tsr_json_read_name(&r->json, object, "axis", &shard.axis));
    TRY(CTX, tsr_json_get_array(CTX, object, "shards", &r->json.options, &shards,
                                &shard.position_count));
    size_t limit = is_sharded ? TSR_DEPLOYMENT_POSITIONS_MAX : 1;
    if (shard.position_count < 1 || shard.position_count > limit)
        FAIL(CTX, TSR_CORRUPT, "%s: shards: expected 1 ... %zu, got %zu", r->json.subject, limit,
             shard.position_count);
    shard.begin = TSR_NEW(r->json.arena, uint64_t, shard.position_count);
    shard.end = TSR_NEW(r->json.arena, uint64_t, shard.position_count);
    if (!shard.begin || !shard.end) FAIL(CTX, TSR_MEMORY, "no memory for a deployment");
    cJSON_ArrayForEach(item, shards) {
        shard.begin[index] = end;
        TRY(CTX, read_range(r, item, end, &end));
        shard.end[index++] = end;
    }
    if (end != count)
        FAIL(CTX, TSR_CORRUPT, "%s: shards cover %" PRIu64 " element%s; it has %" PRIu64,
             r->json.subject, end, TSR_PLURAL(end), count);
    if (is_sharded) d->shards[d->shard_count++] = shard;
    return TSR_SUCCESS;
}

typedef struct list {
    const char *key;
    tsr_tensor_role role;
    const cJSON *array; /* NULL: absent */
    size_t count;
} list;

static TSR_RESULT read_tensors(reader *r, list *of) {
    tsr_config *config = &r->m->config;
    const cJSON *item;
    size_t index = 0;
    cJSON_ArrayForEach(item, of->array) {
        tsr_config_tensor *tensor = &config->tensors[config->tensor_count++];
        tsr_json_at(&r->json, "deployment: %s[%zu]", of->key, index++);
        tensor->role = of->role;
        TRY(CTX, tsr_json_read_name(&r->json, item, "name", &tensor->name));
        if (of->role == TSR_ROLE_STATE) {
            TRY(CTX, tsr_json_read_name(&r->json, item, "of", &tensor->of));
            TRY(CTX, tsr_json_read_name(&r->json, item, "kind", &tensor->kind));
        }
        TRY(CTX, tsr_json_read_type(&r->json, item, &tensor->dtype, &tensor->shape));
        TRY(CTX, read_shards(r, item, tensor));
    }
    return TSR_SUCCESS;
}

static int by_name(const void *a, const void *b) {
    const tsr_config_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static TSR_RESULT read_all_tensors(reader *r, const cJSON *root) {
    list lists[] = {{.key = "parameters", .role = TSR_ROLE_PARAM},
                    {.key = "optimizer", .role = TSR_ROLE_STATE},
                    {.key = "constants", .role = TSR_ROLE_CONSTANT}};
    tsr_config *config = &r->m->config;
    size_t total = 0;
    /* canonical bytes then have no such list */
    if (!tsr_json_find(root, lists[0].key)) return TSR_SUCCESS;
    r->m->parts |= TSR_PART_OPTIMIZER;
    for (size_t i = 0; i < 3; i++) {
        TRY(CTX, tsr_json_get_array(CTX, root, lists[i].key, &r->json.options, &lists[i].array,
                                    &lists[i].count));
        total += lists[i].count;
    }
    if (total > TSR_CONFIG_TENSORS_MAX)
        FAIL(CTX, TSR_CORRUPT, "deployment: expected at most %d tensors, got %zu",
             TSR_CONFIG_TENSORS_MAX, total);
    config->tensors = TSR_NEW(r->json.arena, tsr_config_tensor, total + 1);
    r->m->deployment.shards = TSR_NEW(r->json.arena, tsr_deployment_shard, total + 1);
    if (!config->tensors || !r->m->deployment.shards)
        FAIL(CTX, TSR_MEMORY, "no memory for a deployment");
    for (size_t i = 0; i < 3; i++) TRY(CTX, read_tensors(r, &lists[i]));
    qsort(config->tensors, total, sizeof *config->tensors, by_name);
    for (size_t i = 1; i < total; i++)
        if (by_name(&config->tensors[i - 1], &config->tensors[i]) == 0)
            FAIL(CTX, TSR_CORRUPT, "deployment: tensor '%s' is listed twice",
                 config->tensors[i].name);
    return TSR_SUCCESS;
}

/* ---- collectives, recomputation, stages ---- */

static TSR_RESULT read_collectives(reader *r, const cJSON *root) {
    tsr_deployment *d = &r->m->deployment;
    const cJSON *array, *item;
    size_t index = 0;
    if (!tsr_json_find(root, "collectives")) return TSR_SUCCESS;
    r->m->parts |= TSR_PART_COLLECTIVES;
    TRY(CTX,
        tsr_json_read_table(&r->json, root, "collectives", TSR_JSON_TOKENS_MAX,
                            sizeof *d->collectives, &array, &d->collective_count, &d->collectives));
    cJSON_ArrayForEach(item, array) {
        tsr_json_at(&r->json, "deployment: collectives[%zu]", index);
        TRY(CTX, tsr_deployment_read_collective(&r->json, item, &d->collectives[index++]));
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_checkpoint(reader *r, const cJSON *root) {
    tsr_deployment *d = &r->m->deployment;
    const cJSON *checkpoint, *array, *item;
    const char *policy;
    size_t index = 0;
    if (!tsr_json_find(root, "checkpoint")) return TSR_SUCCESS;
    r->m->parts |= TSR_PART_CHECKPOINT;
    TRY(CTX, tsr_json_get_object(CTX, root, "checkpoint", &r->json.options, &checkpoint));
    tsr_json_at(&r->json, "deployment: checkpoint");
    TRY(CTX, tsr_json_get_string(CTX, checkpoint, "policy", &r->json.options, &policy));
    if (strcmp(policy, "none") == 0) return TSR_SUCCESS;
    if (strcmp(policy, "recompute") != 0)
        TSR_JSON_READ_FAIL(&r->json, "policy", "none or recompute", policy);
    TRY(CTX,
        tsr_json_read_table(&r->json, checkpoint, "entries", TSR_CONFIG_ENTRIES_MAX,
                            sizeof *d->recomputes, &array, &d->recompute_count, &d->recomputes));
    cJSON_ArrayForEach(item, array) {
        tsr_json_at(&r->json, "deployment: checkpoint.entries[%zu]", index);
        TRY(CTX, tsr_deployment_read_recompute(&r->json, item, &d->recomputes[index++]));
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_pipeline(reader *r, const cJSON *root) {
    tsr_config *config = &r->m->config;
    const cJSON *pipeline, *stages, *entries, *item;
    char subject[64];
    size_t count = 0;
    if (!tsr_json_find(root, "pipeline")) return TSR_SUCCESS;
    r->m->parts |= TSR_PART_PIPELINE | TSR_PART_STAGES;
    TRY(CTX, tsr_json_get_object(CTX, root, "pipeline", &r->json.options, &pipeline));
    tsr_json_at(&r->json, "deployment: pipeline");
    TRY(CTX, tsr_json_get_array(CTX, pipeline, "stages", &r->json.options, &stages, &count));
    if (count != 1)
        FAIL(CTX, TSR_CORRUPT, "deployment: pipeline: expected 1 stage, got %zu", count);
    tsr_json_at(&r->json, "deployment: pipeline.stages[0]");
    TRY(CTX, tsr_json_read_table(&r->json, stages->child, "entries", TSR_CONFIG_ENTRIES_MAX,
                                 sizeof *config->entries, &entries, &config->entry_count,
                                 &config->entries));
    count = 0;
    cJSON_ArrayForEach(item, entries) {
        snprintf(subject, sizeof subject, "deployment: entries[%zu]", count);
        TRY(CTX, tsr_json_read_entry(&r->json, item, subject, &config->entries[count]));
        if (count && strcmp(config->entries[count - 1].name, config->entries[count].name) >= 0)
            FAIL(CTX, TSR_CORRUPT, "%s: expected a name after '%s' in byte order, got '%s'",
                 subject, config->entries[count - 1].name, config->entries[count].name);
        count++;
    }
    tsr_json_at(&r->json, "deployment: pipeline");
    return tsr_deployment_read_pipelines(&r->json, pipeline, "plans", &r->m->deployment);
}

/* ---- manifest ---- */

static TSR_RESULT read_version(reader *r, const cJSON *root) {
    uint32_t major;
    const char *text;
    TRY(CTX, tsr_json_get_string(CTX, root, "formatVersion", &r->json.options, &text));
    if (!tsr_json_parse_version(text, &major, &r->m->version_minor) || major < 1)
        TSR_JSON_READ_FAIL(&r->json, "formatVersion", "MAJOR.MINOR from 1.0 on", text);
    if (major > 1)
        FAIL(CTX, TSR_VERSION,
             "deployment: formatVersion: expected 1.x, got %s; it needs a newer Tessera, this "
             "is " TSR_VERSION_TEXT,
             text);
    return TSR_SUCCESS;
}

typedef tsr_result (*part_reader)(reader *r, const cJSON *root);

static TSR_RESULT read_manifest(reader *r, const cJSON *root) {
    static const part_reader parts[] = {read_mesh, read_all_tensors, read_collectives,
                                        read_checkpoint, read_pipeline};
    tsr_json_at(&r->json, "deployment");
    TRY(CTX, read_version(r, root));
    TRY(CTX, tsr_json_read_name(&r->json, root, "name", &r->m->config.name));
    TRY(CTX, tsr_json_read_name(&r->json, root, "producer", &r->m->config.producer));
    for (size_t i = 0; i < TSR_COUNT(parts); i++) {
        tsr_json_at(&r->json, "deployment");
        TRY(CTX, parts[i](r, root));
    }
    return tsr_deployment_check_names(CTX, &r->m->config, &r->m->deployment, r->m->parts,
                                      TSR_CORRUPT);
}

tsr_result tsr_deployment_decode(tsr_ctx *ctx, const char *json, size_t size_bytes,
                                 tsr_arena *arena, tsr_deployment_manifest *out_manifest) {
    tsr_deployment_manifest manifest = {0};
    reader r = {.json = {.ctx = ctx, .arena = arena}, .m = &manifest};
    tsr_result result = TSR_SUCCESS;
    cJSON *root = NULL;
    char *again;
    size_t again_bytes;
    if (size_bytes > TSR_DEPLOYMENT_BYTES_MAX)
        FAIL(ctx, TSR_CORRUPT, "deployment: expected at most %d bytes, got %zu",
             TSR_DEPLOYMENT_BYTES_MAX, size_bytes);
    tsr_json_at(&r.json, "deployment");
    TRY_GOTO(ctx, result, tsr_json_parse(ctx, json, size_bytes, &r.json.options, &root));
    TRY_GOTO(ctx, result, read_manifest(&r, root));
    if (manifest.version_minor <= TSR_DEPLOYMENT_VERSION_MINOR) {
        TRY_GOTO(ctx, result,
                 tsr_deployment_encode_again(ctx, &manifest, arena, &again, &again_bytes));
        const tsr_buffer whole = {.bytes = again, .size_bytes = again_bytes};
        TRY_GOTO(ctx, result,
                 tsr_json_check_canonical(ctx, "deployment", &whole, json, size_bytes));
    }
    *out_manifest = manifest;
done:
    tsr_json_destroy(root);
    return result;
}

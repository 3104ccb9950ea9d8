/* SPDX-License-Identifier: Apache-2.0 */
#include "manifests/deployment.h"

#include "manifests/json_write.h"

/* The one axis that V counts: the batch is split along it. */
static void write_mesh(tsr_buffer *out, const tsr_config *config) {
    unsigned long long ranks = config->virtual_ranks;
    tsr_buffer_printf(out,
                      ",\"mesh\":{\"axes\":[{\"name\":\"data\",\"size\":%llu,\"batch\":true}],"
                      "\"virtualRanks\":%llu,\"ranks\":1}",
                      ranks, ranks);
}

/* Shards are ranges of elements of the unpadded row-major tensor, as in the state store. */
static void write_tensors(tsr_buffer *out, const char *key, const tsr_config *config,
                          tsr_tensor_role role) {
    bool first = true;
    tsr_buffer_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < config->tensor_count; i++) {
        const tsr_config_tensor *tensor = &config->tensors[i];
        uint64_t count = 0;
        if (tensor->role != role) continue;
        TSR_ASSERT(tsr_shape_count(&tensor->shape, &count));
        tsr_buffer_text(out, first ? "{\"name\":" : ",{\"name\":");
        first = false;
        tsr_buffer_json_string(out, tensor->name);
        if (role == TSR_ROLE_STATE) {
            tsr_buffer_text(out, ",\"of\":");
            tsr_buffer_json_string(out, tensor->of);
            tsr_buffer_text(out, ",\"kind\":");
            tsr_buffer_json_string(out, tensor->kind);
        }
        tsr_json_write_type(out, tensor->dtype, &tensor->shape);
        tsr_buffer_printf(out, ",\"shards\":[{\"rank\":0,\"begin\":0,\"end\":%llu}]}",
                          (unsigned long long)count);
    }
    tsr_buffer_text(out, "]");
}

static void write_pipeline(tsr_buffer *out, const tsr_config *config) {
    tsr_buffer_text(out,
                    ",\"pipeline\":{\"schedule\":\"none\",\"stages\":[{\"index\":0,\"ranks\":[0],"
                    "\"after\":[],\"entries\":[");
    for (size_t i = 0; i < config->entry_count; i++) {
        const tsr_config_entry *entry = &config->entries[i];
        tsr_buffer_text(out, i ? ",{" : "{");
        tsr_json_write_entry_head(out, entry);
        tsr_json_write_ports(out, "inputs", entry->inputs, entry->input_count, true);
        tsr_json_write_ports(out, "outputs", entry->outputs, entry->output_count, false);
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_text(out, "]}]}");
}

tsr_result tsr_deployment_encode(tsr_ctx *ctx, const tsr_config *config, tsr_arena *arena,
                                 char **out_json, size_t *out_size_bytes) {
    tsr_buffer out = {0};
    TRY(ctx, tsr_config_verify(ctx, config, TSR_COMPILE));
    tsr_buffer_text(&out, "{\"formatVersion\":\"1.0\",\"name\":");
    tsr_buffer_json_string(&out, config->name);
    tsr_buffer_text(&out, ",\"producer\":");
    tsr_buffer_json_string(&out, config->producer);
    write_mesh(&out, config);
    write_tensors(&out, "parameters", config, TSR_ROLE_PARAM);
    write_tensors(&out, "optimizer", config, TSR_ROLE_STATE);
    write_tensors(&out, "constants", config, TSR_ROLE_CONSTANT);
    tsr_buffer_text(&out, ",\"collectives\":[],\"checkpoint\":{\"policy\":\"none\"}");
    write_pipeline(&out, config);
    tsr_buffer_text(&out, "}");
    tsr_result result =
        tsr_json_take(ctx, &out, "deployment manifest", arena, out_json, out_size_bytes);
    tsr_buffer_finish(&out);
    return result;
}

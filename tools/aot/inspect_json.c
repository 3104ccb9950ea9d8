/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot inspect as one JSON object: schemas/inspect.schema.json.
 */
#include "runtime/base/io/identity_json.h"
#include "tools/aot/inspect.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static void json_text(tsr_buffer *out, const char *key, const char *text) {
    tsr_buffer_printf(out, "\"%s\":", key);
    tsr_buffer_json_string(out, text);
}

/* JSON has no infinities. */
static void json_number(tsr_buffer *out, const char *key, double value) {
    if (isfinite(value))
        tsr_buffer_printf(out, ",\"%s\":%.17g", key, value);
    else
        tsr_buffer_printf(out, ",\"%s\":\"%g\"", key, value);
}

static void json_type(tsr_buffer *out, tsr_dtype dtype, const tsr_shape *shape) {
    tsr_buffer_printf(out, ",\"dtype\":\"%s\",\"shape\":[", tsr_dtype_name(dtype));
    for (uint32_t i = 0; i < shape->rank; i++)
        tsr_buffer_printf(out, "%s%" PRIu64, i ? "," : "", shape->dims[i]);
    tsr_buffer_text(out, "]");
}

static void json_ports(tsr_buffer *out, const char *key, const tsr_config_port *ports, size_t count,
                       bool inputs) {
    tsr_buffer_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < count; i++) {
        tsr_buffer_text(out, i ? ",{" : "{");
        json_text(out, "name", ports[i].name);
        json_type(out, ports[i].dtype, &ports[i].shape);
        if (inputs)
            tsr_buffer_printf(out, ",\"source\":\"%s\"", tsr_port_source_name(ports[i].source));
        const tsr_config_hyperparameter *of = ports[i].hyperparameter;
        if (of) {
            tsr_buffer_text(out, ",");
            json_text(out, "hyperparameter", of->name);
            tsr_buffer_printf(out, ",\"value\":%.17g,\"least\":%.17g,\"most\":%.17g", of->value,
                              of->least, of->most);
        }
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_text(out, "]");
}

static void json_handler(const inspect_view *v, const char *key, uint32_t handler,
                         tsr_buffer *out) {
    if (!handler) return;
    tsr_buffer_text(out, ",");
    json_text(out, key, v->config.entries[handler - 1].name);
}

static void json_regions(const inspect_view *v, const tsr_program_entry *plan, tsr_buffer *out) {
    if (!plan->region_count && !plan->on_recovery) return;
    tsr_buffer_text(out, ",\"regions\":[");
    for (uint32_t i = 0; i < plan->region_count; i++) {
        const tsr_program_region *region = &plan->regions[i];
        inspect_span span = inspect_region(plan, i);
        tsr_buffer_text(out, i ? ",{" : "{");
        json_text(out, "name", region->name);
        tsr_buffer_printf(out, ",\"mode\":\"%s\",\"exported\":%s", inspect_mode(region->mode),
                          span.exported ? "true" : "false");
        if (region->mode != TSR_REGION_IMPORTED)
            tsr_buffer_printf(out, ",\"firstCommand\":%u,\"lastCommand\":%u", span.first,
                              span.last);
        json_handler(v, "onFailure", region->on_failure, out);
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_text(out, "]");
    json_handler(v, "onRecovery", plan->on_recovery, out);
}

/* Writes a member for each target that offloads values to the host's memory. */
static void json_offloaded(inspect_view *v, size_t entry, tsr_buffer *out) {
    bool some = false;
    for (size_t i = 0; i < v->target_count; i++) {
        const tsr_program_entry *plan = inspect_offloaded(v, i, entry);
        if (!plan) continue;
        tsr_buffer_text(out, some ? ",{" : ",\"away\":[{");
        json_text(out, "target", tsr_bundle_get_target_name(v->bundle, i));
        tsr_buffer_printf(out,
                          ",\"workspaceBytes\":%" PRIu64 ",\"peakBytes\":%" PRIu64
                          ",\"hostBytes\":%" PRIu64 "}",
                          plan->workspace_bytes, inspect_peak(plan, &v->arena),
                          tsr_program_space_bytes(plan, TSR_SPACE_HOST));
        some = true;
    }
    if (some) tsr_buffer_text(out, "]");
}

static void json_effects(const char *key, uint32_t effects, tsr_buffer *out) {
    const char *before = "";
    tsr_buffer_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < TSR_EFFECT_COUNT; i++) {
        if (!(effects >> i & 1)) continue;
        tsr_buffer_printf(out, "%s\"%s\"", before, tsr_effect_name(i));
        before = ",";
    }
    tsr_buffer_text(out, "]");
}

static void json_entries(inspect_view *v, tsr_buffer *out) {
    tsr_buffer_text(out, ",\"entries\":[");
    for (size_t i = 0; i < v->config.entry_count; i++) {
        const tsr_config_entry *entry = &v->config.entries[i];
        const tsr_program_entry *plan = inspect_plan(v, i);
        tsr_buffer_text(out, i ? ",{" : "{");
        json_text(out, "name", entry->name);
        tsr_buffer_printf(out, ",\"kind\":\"%s\",\"batch\":%" PRIu64 ",\"rowsIndependent\":%s",
                          tsr_entry_kind_name(entry->kind), entry->batch,
                          entry->rows_independent ? "true" : "false");
        json_ports(out, "inputs", entry->inputs, entry->input_count, true);
        json_ports(out, "outputs", entry->outputs, entry->output_count, false);
        tsr_config_write_open(out, entry);
        if (plan) json_effects("effects", inspect_effects(v, i), out);
        if (entry->states_effects) json_effects("statedEffects", entry->effects, out);
        if (plan)
            tsr_buffer_printf(out,
                              ",\"workspaceBytes\":%" PRIu64 ",\"peakBytes\":%" PRIu64
                              ",\"launchBytes\":%" PRIu64 ",\"commands\":%u",
                              plan->workspace_bytes, inspect_peak(plan, &v->arena),
                              inspect_launch_bytes(plan, v->config.virtual_ranks),
                              plan->command_count);
        json_offloaded(v, i, out);
        if (plan) json_regions(v, plan, out);
        tsr_buffer_printf(out, ",\"inputBytes\":%" PRIu64 ",\"outputBytes\":%" PRIu64 "}",
                          inspect_ports_bytes(entry->inputs, entry->input_count),
                          inspect_ports_bytes(entry->outputs, entry->output_count));
    }
    tsr_buffer_text(out, "]");
}

/* The numbers equal those of text_init. */
static void json_init(const tsr_config_tensor *tensor, tsr_buffer *out) {
    tsr_buffer_printf(out, ",\"init\":{\"kind\":\"%s\"", tsr_init_kind_name(tensor->init));
    switch (tensor->init) {
    case TSR_INIT_DATA:
        break;
    case TSR_INIT_CONSTANT:
        json_number(out, "value", tensor->init_a);
        break;
    case TSR_INIT_UNIFORM:
        json_number(out, "low", tensor->init_a);
        json_number(out, "high", tensor->init_b);
        break;
    case TSR_INIT_NORMAL:
        json_number(out, "mean", tensor->init_a);
        json_number(out, "deviation", tensor->init_b);
        break;
    }
    tsr_buffer_text(out, "}");
}

/* What a parameter's optimizer was told; omitted if it was told nothing. */
static void json_group(const tsr_config_tensor *tensor, tsr_buffer *out) {
    bool trained = tensor->no_decay || tensor->lr_factor;
    if (!tensor->frozen && !trained) return;
    tsr_buffer_printf(out, ",\"group\":{\"frozen\":%s,\"decay\":%s",
                      tensor->frozen ? "true" : "false",
                      tensor->frozen || tensor->no_decay ? "false" : "true");
    if (tensor->lr_factor) json_number(out, "lrFactor", tensor->lr_factor);
    tsr_buffer_text(out, "}");
}

static void json_tensors(const inspect_view *v, tsr_buffer *out) {
    tsr_buffer_text(out, ",\"tensors\":[");
    for (size_t i = 0; i < v->config.tensor_count; i++) {
        const tsr_config_tensor *tensor = &v->config.tensors[i];
        tsr_buffer_text(out, i ? ",{" : "{");
        json_text(out, "name", tensor->name);
        tsr_buffer_printf(out, ",\"role\":\"%s\"", tsr_tensor_role_name(tensor->role));
        json_type(out, tensor->dtype, &tensor->shape);
        json_init(tensor, out);
        json_group(tensor, out);
        tsr_buffer_printf(out, ",\"sizeBytes\":%" PRIu64, inspect_tensor_bytes(tensor));
        if (inspect_part_bytes(v, tensor))
            tsr_buffer_printf(out, ",\"partBytes\":%" PRIu64, inspect_part_bytes(v, tensor));
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_printf(out, "],\"tensorBytes\":%" PRIu64, inspect_tensors_bytes(&v->config));
}

/* Writes the resources of each kernel on a GPU; the list is empty without GPU code. */
static void json_launches(const inspect_view *v, size_t target, tsr_buffer *out) {
    const tsr_fatbin *code = &v->codes[target];
    tsr_buffer_text(out, ",\"launches\":[");
    for (uint32_t i = 0; i < code->kernel_count; i++) {
        const tsr_fatbin_kernel *k = &code->kernels[i];
        tsr_buffer_text(out, i ? ",{" : "{");
        json_text(out, "kernel", v->programs[target].kernels[i]);
        tsr_buffer_printf(out,
                          ",\"threads\":%u,\"registers\":%u,\"sharedBytes\":%u,"
                          "\"scratchBytes\":%u,\"spillBytes\":%u,\"%s\":%u",
                          k->threads, k->registers, k->shared_bytes + k->static_bytes,
                          k->scratch_bytes, k->spill_bytes,
                          inspect_is_amd(code) ? "simdWaves" : "residentWarps",
                          inspect_warps(code, i));
        if (inspect_is_amd(code))
            tsr_buffer_printf(out,
                              ",\"scalarRegisters\":%u,\"accumulators\":%u,"
                              "\"matrixProducts\":%u",
                              k->scalar_registers, k->accumulators,
                              inspect_amd_products(v, target, i));
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_text(out, "]");
}

static void json_targets(const inspect_view *v, tsr_buffer *out) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_buffer_text(out, ",\"targets\":[");
    for (size_t i = 0; i < v->target_count; i++) {
        tsr_buffer_text(out, i ? ",{" : "{");
        json_text(out, "name", tsr_bundle_get_target_name(v->bundle, i));
        tsr_buffer_printf(out, ",\"kernels\":%u,\"layers\":[", v->programs[i].kernel_count);
        for (size_t k = 0; k < tsr_bundle_get_layer_count(v->bundle, i); k++) {
            tsr_bundle_layer layer = tsr_bundle_get_layer(v->bundle, i, k);
            tsr_digest_format(&layer.digest, hex);
            tsr_buffer_text(out, k ? ",{" : "{");
            json_text(out, "mediaType", layer.media_type);
            tsr_buffer_text(out, ",");
            json_text(out, "title", layer.title ? layer.title : "");
            tsr_buffer_printf(out, ",\"sizeBytes\":%" PRIu64 ",\"digest\":\"sha256:%s\"}",
                              layer.size_bytes, hex);
        }
        tsr_buffer_text(out, "]");
        json_launches(v, i, out);
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_text(out, "]");
}

static void json_sections(const inspect_view *v, tsr_buffer *out) {
    tsr_buffer_text(out, ",\"sections\":[");
    for (size_t i = 0; i < v->section_count; i++)
        tsr_buffer_printf(out, "%s{\"name\":\"%s\",\"sizeBytes\":%" PRIu64 ",\"blobs\":%zu}",
                          i ? "," : "", v->sections[i].name, v->sections[i].size_bytes,
                          v->sections[i].blob_count);
    tsr_buffer_text(out, "]");
}

static void json_schedule(const inspect_view *v, tsr_buffer *out) {
    tsr_buffer_text(out, ",\"schedule\":");
    if (!v->schedule.found) {
        tsr_buffer_text(out, "null");
        return;
    }
    tsr_buffer_printf(out, "{\"entries\":%zu,\"calls\":%zu,\"origin\":", v->schedule.entry_count,
                      v->schedule.call_count);
    if (v->schedule.origin)
        tsr_buffer_json_string(out, v->schedule.origin);
    else
        tsr_buffer_text(out, "null");
    const struct cJSON *targets = tsr_json_find(v->schedule.root, "targets");
    char *text = v->kernel_sizes && targets ? cJSON_PrintUnformatted(targets) : NULL;
    if (text) tsr_buffer_printf(out, ",\"targets\":%s", text);
    cJSON_free(text);
    tsr_buffer_text(out, "}");
}

/* Writes null for a complete bundle. */
static void json_slice(const inspect_view *v, tsr_buffer *out) {
    char hex[TSR_DIGEST_HEX + 1];
    const char *target = NULL;
    tsr_digest index = tsr_bundle_get_digest(v->bundle);
    if (!tsr_bundle_is_slice(v->bundle)) {
        tsr_buffer_text(out, ",\"slice\":null");
        return;
    }
    tsr_digest_format(&index, hex);
    tsr_buffer_printf(out, ",\"slice\":{\"index\":\"sha256:%s\",\"missingTargets\":[", hex);
    for (size_t i = 0; (target = tsr_bundle_get_missing_target(v->bundle, i)); i++) {
        tsr_buffer_text(out, i ? "," : "");
        tsr_buffer_json_string(out, target);
    }
    tsr_buffer_text(out, "]}");
}

static void json_signature(const inspect_view *v, tsr_buffer *out) {
    static const char *const names[] = {[TSR_SIGNATURE_ABSENT] = "absent",
                                        [TSR_SIGNATURE_UNCHECKED] = "unchecked",
                                        [TSR_SIGNATURE_GOOD] = "good"};
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&v->signature.key_id, hex);
    tsr_buffer_printf(out, ",\"signature\":{\"state\":\"%s\",\"key\":", names[v->signature.state]);
    if (v->signature.state == TSR_SIGNATURE_ABSENT)
        tsr_buffer_text(out, "null}");
    else
        tsr_buffer_printf(out, "\"sha256:%s\"}", hex);
}

static void json_provenance(const inspect_view *v, tsr_buffer *out) {
    const tsr_provenance *p = &v->provenance;
    char hex[TSR_DIGEST_HEX + 1];
    tsr_buffer_text(out,
                    v->has_provenance ? ",\"provenance\":{\"inputs\":[" : ",\"provenance\":null");
    if (!v->has_provenance) return;
    for (size_t i = 0; i < p->input_count; i++) {
        tsr_digest_format(&p->inputs[i].digest, hex);
        tsr_buffer_text(out, i ? ",{" : "{");
        json_text(out, "name", p->inputs[i].name);
        tsr_buffer_printf(out, ",\"digest\":\"sha256:%s\"}", hex);
    }
    tsr_buffer_text(out, "],\"versions\":{");
    for (size_t i = 0; i < p->library_count; i++) {
        tsr_buffer_text(out, i ? "," : "");
        tsr_buffer_json_string(out, p->libraries[i].name);
        tsr_buffer_text(out, ":");
        tsr_buffer_json_string(out, p->libraries[i].value);
    }
    tsr_buffer_text(out, "},\"startedOn\":");
    if (p->started_on)
        tsr_buffer_json_string(out, p->started_on);
    else
        tsr_buffer_text(out, "null");
    tsr_buffer_text(out, "}");
}

/* Writes null for a bundle without a program digest. */
static void json_program(const inspect_view *v, tsr_buffer *out) {
    char program[TSR_DIGEST_HEX + 1], operations[TSR_DIGEST_HEX + 1];
    const tsr_identity *identity = &v->config.identity;
    if (!tsr_identity_is_known(identity)) {
        tsr_buffer_text(out, ",\"program\":null");
        return;
    }
    tsr_digest_format(&identity->program, program);
    tsr_digest_format(&v->config.operations, operations);
    tsr_buffer_printf(out,
                      ",\"program\":{\"digest\":\"sha256:%s\",\"operations\":\"sha256:%s\","
                      "\"hyperparameters\":",
                      program, operations);
    tsr_identity_write_hyperparameters(out, identity);
    tsr_buffer_text(out, "}");
}

void inspect_show_json(inspect_view *v, tsr_buffer *out) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest digest = tsr_bundle_get_digest(v->bundle);
    tsr_digest_format(&digest, hex);
    tsr_buffer_text(out, "{");
    json_text(out, "name", v->config.name);
    tsr_buffer_text(out, ",");
    json_text(out, "producer", v->config.producer);
    tsr_buffer_text(out, ",");
    json_text(out, "numerics", v->config.numerics);
    tsr_buffer_printf(out,
                      ",\"formatVersion\":\"%u.%u\",\"virtualRanks\":%" PRIu64
                      ",\"digest\":\"sha256:%s\",\"fileBytes\":%" PRIu64,
                      v->config.version_major, v->config.version_minor, v->config.virtual_ranks,
                      hex, tsr_bundle_get_file_size(v->bundle));
    json_program(v, out);
    json_slice(v, out);
    json_signature(v, out);
    json_provenance(v, out);
    json_schedule(v, out);
    json_sections(v, out);
    json_entries(v, out);
    json_tensors(v, out);
    json_targets(v, out);
    tsr_buffer_text(out, "}\n");
}

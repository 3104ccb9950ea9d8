/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot inspect: shows the contents of a bundle. Everything shown is verified first.
 */
#include "tools/aot/inspect.h"

#include "manifests/amd.h"
#include "runtime/base/array.h"
#include "runtime/base/io/json.h"
#include "runtime/base/plural.h"
#include "tools/aot/aot.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t inspect_ports_bytes(const tsr_config_port *ports, size_t count) {
    uint64_t sum = 0, size;
    for (size_t i = 0; i < count; i++)
        if (tsr_shape_size(&ports[i].shape, ports[i].dtype, &size)) sum += size;
    return sum;
}

uint64_t inspect_tensor_bytes(const tsr_config_tensor *tensor) {
    uint64_t size = 0;
    return tsr_shape_size(&tensor->shape, tensor->dtype, &size) ? size : 0;
}

uint64_t inspect_tensors_bytes(const tsr_config *config) {
    uint64_t sum = 0;
    for (size_t i = 0; i < config->tensor_count; i++)
        sum += inspect_tensor_bytes(&config->tensors[i]);
    return sum;
}

const tsr_program_entry *inspect_plan(const inspect_view *view, size_t entry) {
    for (size_t i = 0; i < view->target_count; i++)
        if (view->programs[i].entry_count) return &view->programs[i].entries[entry];
    return NULL;
}

const tsr_program_entry *inspect_offloaded(const inspect_view *view, size_t target, size_t entry) {
    const tsr_program *program = &view->programs[target];
    if (!program->entry_count || !tsr_program_has_offloads(&program->entries[entry])) return NULL;
    return &program->entries[entry];
}

uint32_t inspect_effects(const inspect_view *view, size_t entry) {
    uint32_t effects = 0;
    for (size_t i = 0; i < view->target_count; i++)
        if (view->programs[i].entry_count)
            effects |= tsr_program_effects(&view->programs[i], &view->config, (uint32_t)entry);
    return effects;
}

bool inspect_is_amd(const tsr_fatbin *code) {
    return code->image_count && code->images[0].kind == TSR_FATBIN_HSACO;
}

uint32_t inspect_warps(const tsr_fatbin *code, uint32_t kernel) {
    enum { LANES = 32 };
    const tsr_fatbin_kernel *row = &code->kernels[kernel];
    if (inspect_is_amd(code)) return tsr_amd_waves(row, code->images[0].arch);
    uint32_t warps = (row->threads + LANES - 1) / LANES;
    return tsr_fatbin_resident(row, code->images[0].arch) * warps;
}

/* ---- regions ---- */

uint64_t inspect_part_bytes(const inspect_view *view, const tsr_config_tensor *tensor) {
    size_t index = (size_t)(tensor - view->config.tensors);
    bool parts = view->holdings && view->holdings[index] == TSR_HOLDING_PARTS;
    return parts ? tsr_program_part_bytes(&view->config, index) : 0;
}

inspect_span inspect_region(const tsr_program_entry *plan, uint32_t region) {
    inspect_span span = {0};
    for (uint32_t i = 0; i < plan->command_count; i++) {
        const tsr_program_command *command = &plan->commands[i];
        if (command->opcode < TSR_OP_ENTER || command->kernel != region) continue;
        if (command->opcode == TSR_OP_ENTER) span.first = i;
        if (command->opcode == TSR_OP_LEAVE) span.last = i;
        if (command->opcode == TSR_OP_EXPORT) span.exported = true;
    }
    return span;
}

const char *inspect_mode(tsr_region_mode mode) {
    static const char *const names[] = {"imported", "replay", "restart"};
    TSR_ASSERT(mode <= TSR_REGION_RESTART);
    return names[mode];
}

/* ---- memory in use ---- */

uint64_t inspect_peak(const tsr_program_entry *plan, tsr_arena *arena) {
    uint64_t *live = TSR_NEW(arena, uint64_t, (size_t)plan->command_count + 1), peak = 0;
    if (!live || !tsr_program_live(plan, arena, live)) return 0;
    for (uint32_t c = 0; c < plan->command_count; c++)
        if (live[c] > peak) peak = live[c];
    return peak;
}

uint64_t inspect_launch_bytes(const tsr_program_entry *plan, uint64_t virtual_ranks) {
    uint64_t sum = 0, for_vranks = 0; /* remaining commands of a loop */
    for (uint32_t c = 0; c < plan->command_count; c++) {
        const tsr_program_command *command = &plan->commands[c];
        uint64_t times = for_vranks ? virtual_ranks : 1;
        if (command->opcode == TSR_OP_VRANK_SUM) times = virtual_ranks - 1;
        if (command->opcode == TSR_OP_LAUNCH || command->opcode == TSR_OP_VRANK_SUM)
            sum += times * tsr_program_command_bytes(plan, command, NULL);
        if (for_vranks) for_vranks--;
        if (command->opcode == TSR_OP_EACH_VRANK) for_vranks = command->grid;
    }
    return sum;
}

/* ---- gathering ---- */

static const char *section_of(const char *media_type) {
    static const struct {
        const char *media_type, *section;
    } rows[] = {{TSR_MEDIA_IR, "program text"},
                {TSR_MEDIA_SCHEDULE, "schedule"},
                {TSR_MEDIA_PROGRAM, "host program"},
                {TSR_MEDIA_ELF, "code"},
                {TSR_MEDIA_FATBIN, "code"},
                {TSR_MEDIA_HSACO, "code"},
                {TSR_MEDIA_WEIGHTS, "weights"},
                {TSR_MEDIA_STATE, "optimizer state"},
                {TSR_MEDIA_POSITION, "optimizer state"},
                {TSR_MEDIA_EXTERNAL, "names of weights"},
                {TSR_MEDIA_CHUNKS, "chunk tables"},
                {TSR_MEDIA_DEPLOYMENT, "deployment"},
                {TSR_MEDIA_SBOM, "bill of materials"},
                {TSR_MEDIA_PROVENANCE, "provenance"}};
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        if (strcmp(rows[i].media_type, media_type) == 0) return rows[i].section;
    return "other";
}

static void add_section(inspect_view *v, const char *name, uint64_t size_bytes) {
    size_t i = 0;
    while (i < v->section_count && strcmp(v->sections[i].name, name) != 0) i++;
    if (i == v->section_count) {
        TSR_ASSERT(i < INSPECT_SECTIONS_MAX);
        v->sections[v->section_count++].name = name;
    }
    v->sections[i].size_bytes += size_bytes;
    v->sections[i].blob_count++;
}

static int by_digest(const void *a, const void *b) {
    return memcmp(((const tsr_bundle_layer *)a)->digest.bytes,
                  ((const tsr_bundle_layer *)b)->digest.bytes, TSR_DIGEST_BYTES);
}

static int by_section_size(const void *a, const void *b) {
    const inspect_section *x = a, *y = b;
    if (x->size_bytes != y->size_bytes) return x->size_bytes > y->size_bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static tsr_result sum_sections(tsr_ctx *ctx, inspect_view *v) {
    size_t count = 0, at = 0;
    for (size_t i = 0; i < v->target_count; i++) count += tsr_bundle_get_layer_count(v->bundle, i);
    tsr_bundle_layer *layers = TSR_NEW(&v->arena, tsr_bundle_layer, count + 1);
    if (!layers) FAIL(ctx, TSR_MEMORY, "no memory for %zu layers", count);
    for (size_t i = 0; i < v->target_count; i++)
        for (size_t k = 0; k < tsr_bundle_get_layer_count(v->bundle, i); k++)
            layers[at++] = tsr_bundle_get_layer(v->bundle, i, k);
    qsort(layers, count, sizeof *layers, by_digest);
    for (size_t i = 0; i < count; i++)
        if (!i || by_digest(&layers[i - 1], &layers[i]) != 0)
            add_section(v, section_of(layers[i].media_type), layers[i].size_bytes);
    qsort(v->sections, v->section_count, sizeof *v->sections, by_section_size);
    return TSR_SUCCESS;
}

static int by_tensor_size(const void *a, const void *b) {
    const tsr_config_tensor *x = *(const tsr_config_tensor *const *)a,
                            *y = *(const tsr_config_tensor *const *)b;
    uint64_t x_size = inspect_tensor_bytes(x), y_size = inspect_tensor_bytes(y);
    if (x_size != y_size) return x_size > y_size ? -1 : 1;
    return strcmp(x->name, y->name);
}

static tsr_result sort_tensors(tsr_ctx *ctx, inspect_view *v) {
    size_t count = v->config.tensor_count;
    v->by_size = TSR_NEW(&v->arena, const tsr_config_tensor *, count + 1);
    if (!v->by_size) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", count);
    for (size_t i = 0; i < count; i++) v->by_size[i] = &v->config.tensors[i];
    if (count) qsort(v->by_size, count, sizeof *v->by_size, by_tensor_size);
    return TSR_SUCCESS;
}

/* Returns the origin of the kernels: the source of the schedule's groups, "mixed" if they differ.
 */
static const char *schedule_origin(const struct cJSON *root, tsr_arena *arena) {
    const struct cJSON *group = NULL;
    const char *origin = NULL;
    cJSON_ArrayForEach(group, tsr_json_find(root, "groups")) {
        const struct cJSON *source = tsr_json_find(group, "source");
        if (!cJSON_IsString(source) || !tsr_name_valid(source->valuestring)) return NULL;
        if (origin && strcmp(origin, source->valuestring) != 0) return "mixed";
        origin = source->valuestring;
    }
    return origin ? tsr_arena_strdup(arena, origin) : NULL;
}

/* Reads the counts and the origin; the form belongs to the scheduler. */
static tsr_result read_schedule(tsr_ctx *ctx, inspect_view *v) {
    const tsr_json_options options = {.subject = "schedule", .code = TSR_CORRUPT};
    tsr_bundle_layer layer;
    struct cJSON *root = NULL;
    const struct cJSON *entry = NULL;
    void *bytes = NULL;
    size_t size_bytes = 0;
    if (!tsr_bundle_find_layer(v->bundle, 0, TSR_MEDIA_SCHEDULE, &layer)) return TSR_SUCCESS;
    TRY(ctx, tsr_bundle_read_layer(ctx, v->bundle, &layer, &v->arena, &bytes, &size_bytes));
    TRY(ctx, tsr_json_parse(ctx, bytes, size_bytes, &options, &root));
    v->schedule.found = true;
    cJSON_ArrayForEach(entry, tsr_json_find(root, "entries")) {
        v->schedule.entry_count++;
        v->schedule.call_count += (size_t)cJSON_GetArraySize(tsr_json_find(entry, "calls"));
    }
    v->schedule.origin = schedule_origin(root, &v->arena);
    v->schedule.root = root;
    return TSR_SUCCESS;
}

static tsr_result read_target(tsr_ctx *ctx, inspect_view *v, size_t target) {
    tsr_bundle_layer layer;
    void *bytes = NULL;
    size_t size_bytes = 0;
    const tsr_program *program = &v->programs[target];
    const tsr_fatbin *code = &v->codes[target];
    if (!tsr_bundle_find_layer(v->bundle, target, TSR_MEDIA_PROGRAM, &layer)) return TSR_SUCCESS;
    TRY(ctx, tsr_bundle_read_layer(ctx, v->bundle, &layer, &v->arena, &bytes, &size_bytes));
    TRY(ctx,
        tsr_program_decode(ctx, bytes, size_bytes, &v->config, &v->arena, &v->programs[target]));
    if (!tsr_bundle_find_layer(v->bundle, target, TSR_MEDIA_FATBIN, &layer)) return TSR_SUCCESS;
    TRY(ctx, tsr_bundle_read_layer(ctx, v->bundle, &layer, &v->arena, &bytes, &size_bytes));
    TRY(ctx, tsr_fatbin_decode(ctx, bytes, size_bytes, &v->arena, &v->codes[target]));
    if (code->kernel_count != program->kernel_count)
        FAIL(ctx, TSR_CORRUPT, "'%s': GPU code has %u kernel%s; the program of '%s' has %u",
             v->path, code->kernel_count, TSR_PLURAL(code->kernel_count),
             tsr_bundle_get_target_name(v->bundle, target), program->kernel_count);
    return TSR_SUCCESS;
}

/* Uses the first program: the programs of all targets have the same plan. */
static tsr_result find_holdings(tsr_ctx *ctx, inspect_view *v) {
    size_t first = 0;
    while (first < v->target_count && !v->programs[first].entry_count) first++;
    if (first == v->target_count) return TSR_SUCCESS;
    v->holdings = TSR_NEW(&v->arena, tsr_holding, v->config.tensor_count + 1);
    if (!v->holdings) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", v->config.tensor_count);
    tsr_program_find_holdings(&v->programs[first], &v->config, v->holdings);
    return TSR_SUCCESS;
}

static tsr_result read_view(tsr_ctx *ctx, inspect_view *v, const tsr_signature_policy *policy) {
    const char *json = NULL;
    size_t size_bytes = 0;
    TRY(ctx, tsr_bundle_open(ctx, v->path, NULL, &v->bundle));
    TRY(ctx, tsr_signature_check(ctx, v->bundle, policy, &v->signature));
    TRY(ctx, tsr_provenance_read(ctx, v->bundle, &v->arena, &v->provenance, &v->has_provenance));
    v->target_count = tsr_bundle_get_target_count(v->bundle);
    v->programs = TSR_NEW(&v->arena, tsr_program, v->target_count + 1);
    v->codes = TSR_NEW(&v->arena, tsr_fatbin, v->target_count + 1);
    if (!v->programs || !v->codes)
        FAIL(ctx, TSR_MEMORY, "no memory for %zu programs", v->target_count);
    tsr_bundle_get_config(v->bundle, 0, &json, &size_bytes);
    TRY(ctx, tsr_config_decode(ctx, json, size_bytes, &v->arena, &v->config));
    for (size_t i = 0; i < v->target_count; i++) TRY(ctx, read_target(ctx, v, i));
    TRY(ctx, find_holdings(ctx, v));
    TRY(ctx, sum_sections(ctx, v));
    TRY(ctx, sort_tensors(ctx, v));
    return read_schedule(ctx, v);
}

static tsr_result inspect(tsr_ctx *ctx, inspect_view *v, const tsr_signature_policy *policy,
                          bool json) {
    tsr_buffer out = {0};
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result, read_view(ctx, v, policy));
    if (json)
        inspect_show_json(v, &out);
    else
        inspect_show_text(v, &out);
    if (out.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to show '%s'", v->path);
    fwrite(out.bytes, 1, out.size_bytes, stdout);
done:
    tsr_buffer_finish(&out);
    tsr_bundle_close(ctx, v->bundle);
    tsr_json_destroy(v->schedule.root);
    tsr_arena_finish(&v->arena);
    return result;
}

tsr_result tsr_aot_inspect(tsr_ctx *ctx, int argc, char **argv) {
    bool done = false, json = false;
    inspect_view v = {0};
    tsr_flag_list keys = {0};
    tsr_flag flags[] = {
        TSR_FLAG("--json", SWITCH, NONE, &json, NULL, "one JSON object", 0, 0),
        TSR_FLAG("--tensors", SWITCH, NONE, &v.all_tensors, NULL,
                 "list every tensor, not only the largest", 0, 0),
        TSR_FLAG("--kernels", SWITCH, NONE, &v.all_kernels, NULL,
                 "the GPU resources that each kernel uses", 0, 0),
        TSR_FLAG("--effects", SWITCH, NONE, &v.effects, NULL,
                 "what each entry does besides computing its results", 0, 0),
        TSR_FLAG("--schedule", SWITCH, NONE, &v.kernel_sizes, NULL,
                 "the sizes of each kernel, who chose them, and other sizes that it can have", 0,
                 0),
        TSR_FLAG("--key", LIST, READ, &keys, "PUB",
                 "a public key that may have signed it; more than one may be given", 0, 0)};
    const tsr_aot_word positional[] = {{"FILE", TSR_FILE_BUNDLE}, {NULL, TSR_FILE_NONE}};
    const tsr_aot_command_line line = {.name = "inspect",
                                       .flags = flags,
                                       .flag_count = TSR_COUNT(flags),
                                       .positional = positional,
                                       .out_words = &v.path};
    TRY(ctx, tsr_aot_parse(ctx, argc, argv, &line, &done));
    if (done) return TSR_SUCCESS;
    const tsr_signature_policy policy = {
        .size_bytes = sizeof policy, .keys = keys.texts, .key_count = keys.count};
    return inspect(ctx, &v, &policy, json);
}

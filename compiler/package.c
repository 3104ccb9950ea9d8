/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/package.h"

#include "bundle/provenance.h"
#include "compiler/graph/graph.h"
#include "compiler/ir/names.h"
#include "compiler/resilience/resilience.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/host/host.h"
#include "manifests/deployment.h"
#include "runtime/base/io/io.h"
#include "runtime/data/array_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Programs with fewer tensors than this exceed no limit of the config and are not checked. */
enum { WEIGHTS_ALIGN_BYTES = 64 * 1024, CHECKED_TENSORS_MIN = 10000 };

/* ---- tensors ---- */

static int by_tensor_name(const void *a, const void *b) {
    return strcmp(((const tsr_config_tensor *)a)->name, ((const tsr_config_tensor *)b)->name);
}

/* A splat becomes an init rule, which takes no space in the weights, if the config can represent
 * its value exactly. */
static bool is_rule(tsr_dtype dtype, double value) {
    bool wide = dtype == TSR_DTYPE_I64 && fabs(value) > 0x1p53;
    return isfinite(value) && !wide;
}

static tsr_config_tensor constant_tensor(MlirOperation op, const char *name) {
    tsr_type type = {0};
    double value;
    tsr_value_type(tsr_op_result(op, 0), &type);
    tsr_config_tensor tensor = {.name = name,
                                .role = TSR_ROLE_CONSTANT,
                                .dtype = type.dtype,
                                .shape = type.shape,
                                .init = TSR_INIT_DATA};
    if (tsr_attr_splat(tsr_op_attr(op, "value"), &value) && is_rule(type.dtype, value)) {
        tensor.init = TSR_INIT_CONSTANT;
        tensor.init_a = value;
    }
    return tensor;
}

static bool is_entry(MlirOperation op) { return tsr_graph_is_lowered_func(op); }

/* Adds the constants that entries pass to kernels; equal names are equal constants. */
static TSR_RESULT add_constants(tsr_ctx *ctx, MlirModule module, tsr_config_tensor *tensors,
                                size_t *count, size_t capacity) {
    tsr_names known = {0};
    tsr_result result = TSR_SUCCESS;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!is_entry(func)) continue;
        for (MlirOperation op = mlirBlockGetFirstOperation(tsr_op_body(func));
             !mlirOperationIsNull(op); op = tsr_op_next_(op)) {
            const char *name = tsr_op_string(op, TSR_CONSTANT_NAME);
            if (!tsr_op_is(op, TSR_GRAPH_CONSTANT)) continue;
            if (!name)
                FAIL_GOTO(ctx, result, TSR_INTERNAL, "@%s holds a constant without a name",
                          tsr_op_symbol(func));
            if (tsr_names_add(&known, name, (uint32_t)*count) != *count) continue;
            TSR_ASSERT(*count < capacity);
            tensors[(*count)++] = constant_tensor(op, name);
        }
    }
done:
    tsr_names_finish(&known);
    return result;
}

static size_t count_constants(MlirModule module) {
    size_t count = 0;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!is_entry(func)) continue;
        for (MlirOperation op = mlirBlockGetFirstOperation(tsr_op_body(func));
             !mlirOperationIsNull(op); op = tsr_op_next_(op))
            count += tsr_op_is(op, TSR_GRAPH_CONSTANT);
    }
    return count;
}

/* Collects parameters and state, with capacity for the constants. */
static TSR_RESULT collect_declared(tsr_ctx *ctx, MlirModule module, tsr_arena *arena,
                                   tsr_config *config, size_t *out_capacity) {
    tsr_graph_tensor *declared = NULL;
    size_t count = 0;
    TRY(ctx, tsr_graph_tensors(ctx, module, arena, &declared, &count));
    size_t capacity = count + count_constants(module);
    config->tensors = TSR_NEW(arena, tsr_config_tensor, capacity + 1);
    if (!config->tensors) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", capacity);
    for (size_t i = 0; i < count; i++) {
        const tsr_graph_tensor *from = &declared[i];
        bool drawn = from->init == TSR_INIT_UNIFORM || from->init == TSR_INIT_NORMAL;
        config->tensors[config->tensor_count++] =
            (tsr_config_tensor){.name = from->name,
                                .role = from->role,
                                .of = from->of,
                                .kind = from->kind,
                                .dtype = from->type.dtype,
                                .shape = from->type.shape,
                                .init = from->init,
                                .init_a = from->init_a,
                                .init_b = from->init_b,
                                .init_stream = drawn ? tsr_name_stream(from->name) : 0};
    }
    *out_capacity = capacity;
    return TSR_SUCCESS;
}

static TSR_RESULT collect_tensors(tsr_ctx *ctx, MlirModule module, tsr_arena *arena,
                                  tsr_config *config) {
    size_t capacity = 0;
    TRY(ctx, collect_declared(ctx, module, arena, config, &capacity));
    TRY(ctx, add_constants(ctx, module, config->tensors, &config->tensor_count, capacity));
    qsort(config->tensors, config->tensor_count, sizeof *config->tensors, by_tensor_name);
    return TSR_SUCCESS;
}

/* ---- entries ---- */

static int by_entry_name(const void *a, const void *b) {
    return strcmp(((const tsr_config_entry *)a)->name, ((const tsr_config_entry *)b)->name);
}

/* Rows per call: the first dimension of the data inputs, or of any input of an entry with
 * independent rows. tessera-verify has checked on the source that all agree, and the config is
 * checked again. */
static uint64_t find_batch(const tsr_graph_entry *entry) {
    for (size_t i = 0; i < entry->input_count; i++) {
        const tsr_graph_port *port = &entry->inputs[i];
        if (port->source != TSR_PORT_DATA && !entry->rows_independent) continue;
        return port->type.shape.rank > 0 ? port->type.shape.dims[0] : 0;
    }
    return 0;
}

static bool reads(MlirOperation func, tsr_op id) {
    bool found = false;
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) found |= tsr_op_is(op, id);
    return found;
}

/* Adds an input that the runtime fills, if the entry reads it: "step", or "step_", "step__", … if
 * an input already has that name. */
static bool add_filled(const tsr_graph_entry *from, tsr_op op, tsr_port_source source,
                       tsr_arena *arena, tsr_config_entry *to) {
    const char *name = tsr_port_source_name(source);
    if (!reads(from->func, op)) return true;
    for (size_t i = 0; i < to->input_count && name; i++) {
        if (strcmp(to->inputs[i].name, name) != 0) continue;
        name = tsr_arena_printf(arena, "%s_", name);
        i = (size_t)-1; /* the new name may be taken too */
    }
    to->inputs[to->input_count++] =
        (tsr_config_port){.name = name, .dtype = TSR_DTYPE_I64, .source = source};
    return name;
}

static tsr_config_port *copy_ports(const tsr_graph_port *ports, size_t count, bool inputs,
                                   tsr_arena *arena) {
    tsr_config_port *copies = TSR_NEW(arena, tsr_config_port, count + 2);
    for (size_t i = 0; i < count && copies; i++)
        copies[i] = (tsr_config_port){.name = ports[i].name,
                                      .dtype = ports[i].type.dtype,
                                      .shape = ports[i].type.shape,
                                      .source = inputs ? ports[i].source : TSR_PORT_ARGUMENT,
                                      .may_be_infinite = ports[i].may_be_infinite,
                                      .watched = ports[i].watched};
    return copies;
}

static TSR_RESULT collect_entry(tsr_ctx *ctx, const tsr_graph_entry *from, tsr_arena *arena,
                                tsr_config_entry *to) {
    *to =
        (tsr_config_entry){.name = from->name,
                           .kind = from->kind,
                           .rows_independent = from->rows_independent,
                           .input_count = from->input_count,
                           .output_count = from->output_count,
                           .inputs = copy_ports(from->inputs, from->input_count, true, arena),
                           .outputs = copy_ports(from->outputs, from->output_count, false, arena)};
    if (!to->inputs || !to->outputs)
        FAIL(ctx, TSR_MEMORY, "no memory for the ports of @%s", from->name);
    to->batch = find_batch(from);
    if (!add_filled(from, TSR_GRAPH_STEP, TSR_PORT_STEP, arena, to) ||
        !add_filled(from, TSR_GRAPH_SEED, TSR_PORT_SEED, arena, to))
        FAIL(ctx, TSR_MEMORY, "no memory for the ports of @%s", from->name);
    return TSR_SUCCESS;
}

tsr_result tsr_package_check_tensors(tsr_ctx *ctx, MlirModule module) {
    tsr_config config = {.version_major = TSR_CONFIG_VERSION_MAJOR,
                         .version_minor = TSR_CONFIG_VERSION_MINOR,
                         .name = "program",
                         .producer = "tessera",
                         .numerics = "portable",
                         .virtual_ranks = 1};
    tsr_arena arena = {0};
    tsr_result result = TSR_SUCCESS;
    size_t capacity = 0, size = 0;
    char *json = NULL;
    TRY_GOTO(ctx, result, collect_declared(ctx, module, &arena, &config, &capacity));
    if (config.tensor_count >= CHECKED_TENSORS_MIN)
        TRY_GOTO(ctx, result, tsr_config_encode(ctx, &config, &arena, &json, &size));
done:
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_package_config(tsr_ctx *ctx, MlirModule module, const char *name, tsr_arena *arena,
                              tsr_config *out_config) {
    const char *symbol = tsr_op_symbol(mlirModuleGetOperation(module));
    const char *numerics = tsr_op_string(mlirModuleGetOperation(module), TSR_NUMERICS_NAME);
    tsr_config config = {.version_major = TSR_CONFIG_VERSION_MAJOR,
                         .version_minor = TSR_CONFIG_VERSION_MINOR,
                         .name = symbol[0] ? symbol : name,
                         .producer = "tessera " TSR_VERSION_TEXT,
                         .numerics = numerics ? "native" TSR_NUMERICS_VERSION
                                              : "portable" TSR_NUMERICS_VERSION,
                         .virtual_ranks = tsr_sr_virtual_ranks(module)};
    tsr_graph_entry *entries = NULL;
    TRY(ctx, tsr_graph_entries(ctx, module, arena, &entries, &config.entry_count));
    TRY(ctx, collect_tensors(ctx, module, arena, &config));
    config.entries = TSR_NEW(arena, tsr_config_entry, config.entry_count + 1);
    if (!config.entries) FAIL(ctx, TSR_MEMORY, "no memory for %zu entries", config.entry_count);
    for (size_t i = 0; i < config.entry_count; i++)
        TRY(ctx, collect_entry(ctx, &entries[i], arena, &config.entries[i]));
    qsort(config.entries, config.entry_count, sizeof *config.entries, by_entry_name);
    TRY(ctx, tsr_config_verify(ctx, &config, TSR_COMPILE));
    *out_config = config;
    return TSR_SUCCESS;
}

/* ---- weights ---- */

/* Maps each tensor to its data: declared tensors first, then constants. */
static void number_data(MlirModule module, const tsr_graph_tensor *declared, size_t declared_count,
                        MlirAttribute *data, tsr_names *out_names) {
    uint32_t count = 0;
    for (size_t i = 0; i < declared_count; i++)
        if (tsr_names_add(out_names, declared[i].name, count) == count)
            data[count++] = declared[i].data;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!is_entry(func)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
            const char *name = tsr_op_string(op, TSR_CONSTANT_NAME);
            if (name && tsr_names_add(out_names, name, count) == count)
                data[count++] = tsr_op_attr(op, "value");
        }
    }
}

tsr_result tsr_package_data(tsr_ctx *ctx, MlirModule module, const tsr_config *config,
                            tsr_arena *arena, MlirAttribute **out_data) {
    tsr_graph_tensor *declared = NULL;
    size_t declared_count = 0;
    tsr_names names = {0};
    tsr_result result = TSR_SUCCESS;
    MlirAttribute *data = TSR_NEW(arena, MlirAttribute, config->tensor_count + 1), *all = NULL;
    if (!data) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", config->tensor_count);
    TRY(ctx, tsr_graph_tensors(ctx, module, arena, &declared, &declared_count));
    all = TSR_NEW(arena, MlirAttribute, declared_count + count_constants(module) + 1);
    if (!all) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", declared_count);
    number_data(module, declared, declared_count, all, &names);
    for (size_t i = 0; i < config->tensor_count; i++) {
        data[i] = mlirAttributeGetNull();
        if (config->tensors[i].init != TSR_INIT_DATA) continue;
        uint32_t number = tsr_names_find(&names, config->tensors[i].name);
        if (number == TSR_NAME_ABSENT)
            FAIL_GOTO(ctx, result, TSR_INTERNAL, "the data of tensor '%s' is not in the module",
                      config->tensors[i].name);
        data[i] = all[number];
    }
    *out_data = data;
done:
    tsr_names_finish(&names);
    return result;
}

/* Numbers the data that the Target IR contains. */
static TSR_RESULT number_stored(tsr_ctx *ctx, MlirModule module, tsr_arena *arena,
                                tsr_names *out_names, MlirAttribute **out_data) {
    uint32_t count = 0;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) count += tsr_op_is(op, TSR_TARGET_DATA);
    MlirAttribute *data = TSR_NEW(arena, MlirAttribute, (size_t)count + 1);
    if (!data) FAIL(ctx, TSR_MEMORY, "no memory for %u tensors", count);
    count = 0;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        const char *name = tsr_op_is(op, TSR_TARGET_DATA) ? tsr_op_string(op, "name") : NULL;
        if (name && tsr_names_add(out_names, name, count) == count)
            data[count++] = tsr_op_attr(op, "value");
    }
    *out_data = data;
    return TSR_SUCCESS;
}

/* Reads the elements of one tensor, as the config describes it. */
static TSR_RESULT read_stored(tsr_ctx *ctx, const tsr_config_tensor *tensor, MlirAttribute data,
                              tsr_arena *arena, tsr_tensor *out_tensor) {
    tsr_type type;
    void *bytes = NULL;
    if (!tsr_attr_elements(data, arena, &type, &bytes))
        FAIL(ctx, TSR_COMPILE,
             "the data of tensor '%s' is missing, cannot be read, or is more than memory holds",
             tensor->name);
    if (type.dtype != tensor->dtype || !tsr_shape_equal(&type.shape, &tensor->shape)) {
        char has[TSR_TYPE_TEXT_MAX], wants[TSR_TYPE_TEXT_MAX];
        FAIL(ctx, TSR_COMPILE, "the data of tensor '%s' is %s; the config says %s", tensor->name,
             tsr_type_text(&type, has), tsr_type_format(tensor->dtype, &tensor->shape, wants));
    }
    *out_tensor = (tsr_tensor){
        .name = tensor->name, .dtype = tensor->dtype, .shape = tensor->shape, .data = bytes};
    return TSR_SUCCESS;
}

tsr_result tsr_package_weights_encode(tsr_ctx *ctx, MlirModule target_module,
                                      const tsr_config *config, tsr_arena *arena,
                                      tsr_package_weights *out_weights) {
    tsr_package_weights weights = {0};
    size_t count = 0;
    tsr_names names = {0};
    MlirAttribute *data = NULL;
    tsr_result result = TSR_SUCCESS;
    tsr_tensor *tensors = TSR_NEW(arena, tsr_tensor, config->tensor_count + 1);
    if (!tensors) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", config->tensor_count);
    TRY_GOTO(ctx, result, number_stored(ctx, target_module, arena, &names, &data));
    for (size_t i = 0; i < config->tensor_count; i++) {
        const tsr_config_tensor *tensor = &config->tensors[i];
        if (tensor->init != TSR_INIT_DATA) continue;
        uint32_t number = tsr_names_find(&names, tensor->name);
        MlirAttribute value = number == TSR_NAME_ABSENT ? mlirAttributeGetNull() : data[number];
        TRY_GOTO(ctx, result, read_stored(ctx, tensor, value, arena, &tensors[count++]));
    }
    if (count > 0)
        TRY_GOTO(ctx, result,
                 tsr_safetensors_encode(ctx, tensors, count, WEIGHTS_ALIGN_BYTES, NULL, arena,
                                        &weights.bytes, &weights.size_bytes));
    *out_weights = weights;
done:
    tsr_names_finish(&names);
    return result;
}

/* ---- bundle ---- */

static TSR_RESULT encode_target(tsr_ctx *ctx, const tsr_package *package,
                                const tsr_package_target *from, tsr_arena *arena,
                                tsr_bundle_target *to) {
    void *program = NULL;
    size_t size_bytes = 0;
    tsr_bundle_blob *blobs = TSR_NEW(arena, tsr_bundle_blob, 2);
    if (!blobs) FAIL(ctx, TSR_MEMORY, "no memory for target %s", from->name);
    TRY(ctx, tsr_program_verify(ctx, from->program, package->config, TSR_INTERNAL));
    TRY(ctx, tsr_program_encode(ctx, from->program, arena, &program, &size_bytes));
    blobs[0] = (tsr_bundle_blob){.media_type = TSR_MEDIA_PROGRAM,
                                 .title = "program.bin",
                                 .bytes = program,
                                 .size_bytes = size_bytes};
    blobs[1] = (tsr_bundle_blob){.media_type = from->is_gpu ? TSR_MEDIA_FATBIN : TSR_MEDIA_ELF,
                                 .title = from->is_gpu ? "kernels.fatbin" : "kernels.so",
                                 .bytes = from->code,
                                 .size_bytes = from->code_size_bytes};
    *to = (tsr_bundle_target){.name = from->name, .blobs = blobs, .blob_count = 2};
    return TSR_SUCCESS;
}

static TSR_RESULT write_beside(tsr_ctx *ctx, const char *path, const char *json, size_t size_bytes,
                               tsr_arena *arena) {
    tsr_io_atomic file = {0};
    TRY(ctx, tsr_io_atomic_open(ctx, path, arena, &file));
    tsr_result result = tsr_io_write_all(ctx, file.fd, path, json, size_bytes, 0);
    if (!result.code) result = tsr_io_atomic_commit(ctx, &file);
    tsr_io_atomic_abandon(ctx, &file);
    return result;
}

/* Adds the whole manifest to the bundle, and writes the requested file into the bundle's folder. */
static TSR_RESULT encode_deployment(tsr_ctx *ctx, const char *path, const tsr_package *package,
                                    tsr_arena *arena, char **out_json, size_t *out_size_bytes) {
    tsr_deployment deployment = {0};
    const char *text = package->deployment, *slash = strrchr(path, '/');
    char *json = NULL;
    size_t size_bytes = 0;
    if (text) TRY(ctx, tsr_deployment_read(ctx, text, strlen(text), arena, &deployment));
    TRY(ctx, tsr_deployment_find_collectives(ctx, package->config, package->targets[0].program,
                                             arena, &deployment));
    TRY(ctx, tsr_deployment_encode(ctx, package->config, &deployment, TSR_PART_ALL, arena, out_json,
                                   out_size_bytes));
    if (!deployment.path) return TSR_SUCCESS;
    if (strchr(deployment.path, '/') || deployment.path[0] == '.')
        FAIL(ctx, TSR_COMPILE,
             "the manifest's path is '%s'; expected the name of a file, which is written next to "
             "the "
             "bundle",
             deployment.path);
    const char *beside =
        slash ? tsr_arena_printf(arena, "%.*s/%s", (int)(slash - path), path, deployment.path)
              : deployment.path;
    if (!beside) FAIL(ctx, TSR_MEMORY, "no memory for the path of the manifest");
    TRY(ctx, tsr_deployment_encode(ctx, package->config, &deployment, deployment.include, arena,
                                   &json, &size_bytes));
    return write_beside(ctx, beside, json, size_bytes, arena);
}

tsr_result tsr_package_write(tsr_ctx *ctx, const char *path, const tsr_package *package,
                             tsr_arena *arena) {
    char *config = NULL, *deployment = NULL;
    size_t deployment_size = 0, count = 0;
    tsr_bundle_blob blobs[5];
    tsr_bundle_spec spec = {
        .size_bytes = sizeof spec, .blobs = blobs, .target_count = package->target_count};
    tsr_bundle_target *targets = TSR_NEW(arena, tsr_bundle_target, package->target_count + 1);
    if (!targets) FAIL(ctx, TSR_MEMORY, "no memory for %zu targets", package->target_count);
    TRY(ctx, tsr_config_encode(ctx, package->config, arena, &config, &spec.config_size_bytes));
    TRY(ctx, encode_deployment(ctx, path, package, arena, &deployment, &deployment_size));
    blobs[count++] = (tsr_bundle_blob){.media_type = TSR_MEDIA_IR,
                                       .title = "graph.mlir",
                                       .bytes = package->graph,
                                       .size_bytes = package->graph_size_bytes};
    blobs[count++] = (tsr_bundle_blob){.media_type = TSR_MEDIA_SCHEDULE,
                                       .title = "schedule.json",
                                       .bytes = package->schedule,
                                       .size_bytes = package->schedule_size_bytes};
    blobs[count++] = (tsr_bundle_blob){.media_type = TSR_MEDIA_DEPLOYMENT,
                                       .title = "deployment.json",
                                       .bytes = deployment,
                                       .size_bytes = deployment_size};
    blobs[count++] = (tsr_bundle_blob){.media_type = TSR_MEDIA_PROVENANCE,
                                       .title = TSR_PROVENANCE_TITLE,
                                       .bytes = package->provenance,
                                       .size_bytes = package->provenance_size_bytes};
    if (package->weights.bytes)
        blobs[count++] = (tsr_bundle_blob){.media_type = TSR_MEDIA_WEIGHTS,
                                           .title = "weights.safetensors",
                                           .bytes = package->weights.bytes,
                                           .size_bytes = package->weights.size_bytes};
    for (size_t i = 0; i < package->target_count; i++)
        TRY(ctx, encode_target(ctx, package, &package->targets[i], arena, &targets[i]));
    spec.config = config;
    spec.blob_count = count;
    spec.targets = targets;
    return tsr_bundle_write(ctx, path, &spec);
}

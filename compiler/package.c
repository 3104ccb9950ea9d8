/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/package.h"

#include "bundle/provenance.h"
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
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

enum { WEIGHTS_ALIGN_BYTES = 64 * 1024 };

/* ---- weights ---- */

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

/* SPDX-License-Identifier: Apache-2.0
 *
 * Initializers: integers of a few elements and scalars are constants of the program, all others
 * parameters. Their elements stay in the mapped files until they are written.
 */
#include "compiler/frontend/onnx/importer.h"
#include "compiler/ir/attributes.h"
#include "compiler/process/guard.h"
#include "manifests/config.h"
#include "runtime/base/hash/file.h"
#include "runtime/data/array_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Elements of an integer tensor that is a constant of the program. */
enum { CONSTANT_INTS_MAX = 256 };

/* ---- emitting ---- */

static MlirValue refuse(tsr_onnx_importer *im, MlirLocation location) {
    tsr_diag_error(location, TSR_DIAG_ONNX_DATA, "%s", im->ctx->error.text);
    tsr_error_clear(im->ctx);
    return (MlirValue){NULL};
}

/* A name that no other parameter has, of printable UTF-8. */
static const char *unique_name(tsr_onnx_importer *im, const char *name) {
    bool usable = name[0] && tsr_text_valid(name, TSR_NAME_MAX - 8);
    if (usable && tsr_names_find(&im->param_names, name) == TSR_NAME_ABSENT) return name;
    const char *stem = usable ? name : "tensor";
    for (size_t i = im->param_count;; i++) {
        const char *other = tsr_arena_printf(&im->arena, "%s.%zu", stem, i);
        TSR_NEED(other);
        if (tsr_names_find(&im->param_names, other) == TSR_NAME_ABSENT) return other;
    }
}

static MlirValue emit_param(tsr_onnx_importer *im, const tsr_onnx_tensor *tensor, const char *name,
                            const tsr_tensor *view, MlirLocation location) {
    tsr_type type = {.dtype = view->dtype, .shape = view->shape};
    char text[TSR_TYPE_TEXT_MAX], init[TSR_TYPE_TEXT_MAX + 64];
    snprintf(init, sizeof init, "#tessera.constant<0.0> : tensor<%s>", tsr_type_text(&type, text));
    MlirAttribute rule = mlirAttributeParseGet(im->mlir, tsr_ref(init));
    TSR_ASSERT(!mlirAttributeIsNull(rule));
    tsr_onnx_grow(&im->arena, (void **)&im->params, im->param_count, &im->param_capacity,
                  sizeof *im->params);
    tsr_onnx_param *param = &im->params[im->param_count];
    *param = (tsr_onnx_param){.name = unique_name(im, name), .tensor = tensor};
    tsr_names_add(&im->param_names, param->name, (uint32_t)im->param_count++);
    tsr_builder builder = tsr_builder_before(im->anchor);
    builder.location = location;
    tsr_attr attrs[] = {{"name", tsr_attr_make_string(im->mlir, param->name)}, {"init", rule}, {0}};
    param->value = tsr_build_value(&builder, TSR_GRAPH_NAME("param"), NULL, 0,
                                   tsr_type_make(im->mlir, &type), attrs);
    return param->value;
}

static MlirValue emit_constant(tsr_onnx_importer *im, const tsr_tensor *view, uint64_t count,
                               MlirLocation location) {
    tsr_type type = {.dtype = view->dtype, .shape = view->shape};
    size_t size = (size_t)count * tsr_dtype_size(view->dtype);
    void *aligned = tsr_arena_alloc(&im->arena, size + 1, 1, 16);
    TSR_NEED(aligned);
    if (size) memcpy(aligned, view->data, size);
    tsr_builder builder = tsr_builder_before(im->anchor);
    builder.location = location;
    tsr_attr attrs[] = {{"value", tsr_attr_make_elements(im->mlir, &type, aligned)}, {0}};
    return tsr_build_value(&builder, TSR_GRAPH_NAME("constant"), NULL, 0,
                           tsr_type_make(im->mlir, &type), attrs);
}

MlirValue tsr_onnx_emit_tensor(tsr_onnx_importer *im, const tsr_onnx_tensor *tensor,
                               const char *name, MlirLocation location) {
    tsr_tensor view;
    uint64_t count = 0;
    if (tsr_onnx_elements(im->ctx, &im->files, tensor, &im->scratch, &view).code)
        return refuse(im, location);
    bool fits = tsr_shape_count(&view.shape, &count);
    TSR_ASSERT(fits);
    bool is_small = count <= 1 || (!tsr_dtype_is_float(view.dtype) && count <= CONSTANT_INTS_MAX);
    return is_small ? emit_constant(im, &view, count, location)
                    : emit_param(im, tensor, name, &view, location);
}

const tsr_onnx_param *tsr_onnx_find_param(const tsr_onnx_importer *im, MlirOperation op) {
    const char *name = tsr_op_string(op, "name");
    uint32_t number = name ? tsr_names_find(&im->param_names, name) : TSR_NAME_ABSENT;
    return number == TSR_NAME_ABSENT ? NULL : &im->params[number];
}

/* ---- order of dims --------------------------------------------------------------------------- */

static bool is_movement(MlirOperation op) {
    tsr_op id = tsr_op_of(op);
    return id == TSR_GRAPH_TRANSPOSE || id == TSR_GRAPH_RESHAPE;
}

static bool same_movement(MlirOperation a, MlirOperation b) {
    return tsr_op_of(a) == tsr_op_of(b) &&
           mlirTypeEqual(mlirValueGetType(tsr_op_result(a, 0)),
                         mlirValueGetType(tsr_op_result(b, 0))) &&
           mlirAttributeEqual(tsr_op_attr(a, "permutation"), tsr_op_attr(b, "permutation"));
}

/* The op by which all uses read the value; null if they differ. */
static MlirOperation common_movement(MlirValue value) {
    MlirOperation first = {NULL};
    for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use)) {
        MlirOperation op = mlirOpOperandGetOwner(use);
        if (!is_movement(op)) return (MlirOperation){NULL};
        if (mlirOperationIsNull(first)) first = op;
        if (!same_movement(first, op)) return (MlirOperation){NULL};
    }
    return first;
}

static void take_movement(tsr_onnx_importer *im, tsr_onnx_param *param, MlirOperation first) {
    tsr_onnx_movement *step = &param->steps[param->step_count++];
    size_t count = 0;
    tsr_type type = tsr_onnx_type_of(tsr_op_result(first, 0));
    *step = (tsr_onnx_movement){.shape = type.shape};
    step->is_transpose = tsr_op_of(first) == TSR_GRAPH_TRANSPOSE;
    bool complete = !step->is_transpose ||
                    tsr_op_i64s(first, "permutation", TSR_RANK_MAX, step->permutation, &count);
    TSR_ASSERT(complete);
    MlirOperation op = mlirOpResultGetOwner(param->value);
    char text[TSR_TYPE_TEXT_MAX], init[TSR_TYPE_TEXT_MAX + 64];
    snprintf(init, sizeof init, "#tessera.constant<0.0> : tensor<%s>", tsr_type_text(&type, text));
    tsr_op_set(op, "init", mlirAttributeParseGet(im->mlir, tsr_ref(init)));
    size_t use_count = 0;
    for (MlirOpOperand use = mlirValueGetFirstUse(param->value); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use))
        use_count++;
    MlirOperation *uses = TSR_NEW(&im->arena, MlirOperation, use_count + 1);
    TSR_NEED(uses);
    MlirOpOperand at = mlirValueGetFirstUse(param->value);
    for (size_t i = 0; i < use_count; i++, at = mlirOpOperandGetNextUse(at))
        uses[i] = mlirOpOperandGetOwner(at);
    for (size_t i = 0; i < use_count; i++) { /* their uses become the parameter's */
        mlirValueReplaceAllUsesOfWith(tsr_op_result(uses[i], 0), param->value);
        mlirOperationDestroy(uses[i]);
    }
    mlirValueSetType(param->value, tsr_type_make(im->mlir, &type));
}

/* From the end: an op whose uses were erased is erased, too. */
static void erase_unused(MlirBlock block) {
    size_t count = 0, at = 0;
    TSR_FOR_EACH_OP(each, block) count++;
    MlirOperation *ops = calloc(count + 1, sizeof *ops);
    TSR_NEED(ops);
    TSR_FOR_EACH_OP(each, block) ops[at++] = each;
    while (at-- > 0) {
        bool used = tsr_op_result_count(ops[at]) == 0;
        for (size_t i = 0; i < tsr_op_result_count(ops[at]); i++)
            used = used || tsr_value_is_used(tsr_op_result(ops[at], i));
        if (!used) mlirOperationDestroy(ops[at]);
    }
    free(ops);
}

/* Marks the parameters that are still in the program; the others lose their value. */
static void find_read(tsr_onnx_importer *im) {
    for (size_t i = 0; i < im->param_count; i++) im->params[i].is_read = false;
    TSR_FOR_EACH_OP(op, im->entry) {
        if (tsr_op_of(op) != TSR_GRAPH_PARAM) continue;
        im->params[tsr_names_find(&im->param_names, tsr_op_string(op, "name"))].is_read = true;
    }
}

void tsr_onnx_lay_params(tsr_onnx_importer *im) {
    erase_unused(im->entry);
    find_read(im);
    for (size_t i = 0; i < im->param_count; i++) {
        tsr_onnx_param *param = &im->params[i];
        if (!param->is_read) continue;
        for (MlirOperation first; param->step_count < TSR_ONNX_STEPS_MAX &&
                                  (first = common_movement(param->value), first.ptr);)
            take_movement(im, param, first);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static void transpose(const tsr_shape *from, const tsr_onnx_movement *step, size_t size,
                      const char *in, char *out) {
    uint64_t dense[TSR_RANK_MAX], strides[TSR_RANK_MAX], at[TSR_RANK_MAX] = {0}, inner = 1;
    uint64_t count = 0, offset = 0;
    uint32_t rank = from->rank;
    bool fits = tsr_shape_count(from, &count);
    TSR_ASSERT(fits);
    for (uint32_t i = rank; i-- > 0; inner *= from->dims[i]) dense[i] = inner;
    for (uint32_t i = 0; i < rank; i++) strides[i] = dense[step->permutation[i]];
    for (uint64_t k = 0; k < count; k++) {
        memcpy(out + k * size, in + offset * size, size);
        for (uint32_t i = rank; i-- > 0;) { /* to the next element in the new order */
            offset += strides[i];
            if (++at[i] < step->shape.dims[i]) break;
            offset -= strides[i] * step->shape.dims[i];
            at[i] = 0;
        }
    }
}

static TSR_RESULT append_param(tsr_onnx_importer *im, const tsr_onnx_param *param, size_t index,
                               tsr_array_writer *writer) {
    tsr_arena arena = {0};
    tsr_tensor view;
    tsr_result result = tsr_onnx_elements(im->ctx, &im->files, param->tensor, &arena, &view);
    uint64_t size_bytes = 0;
    if (result.code) goto done;
    bool fits = tsr_shape_size(&view.shape, view.dtype, &size_bytes);
    TSR_ASSERT(fits);
    const char *bytes = view.data;
    for (size_t i = 0; i < param->step_count; i++) {
        const tsr_onnx_movement *step = &param->steps[i];
        if (step->is_transpose) {
            char *moved = tsr_arena_alloc(&arena, (size_t)size_bytes, 1, 64);
            TSR_NEED(moved);
            transpose(&view.shape, step, tsr_dtype_size(view.dtype), bytes, moved);
            bytes = moved;
        }
        view.shape = step->shape;
    }
    result = tsr_array_writer_append(im->ctx, writer, index, bytes, (size_t)size_bytes);
done:
    tsr_arena_finish(&arena);
    return result;
}

static void name_file(tsr_onnx_importer *im, MlirModule module, const tsr_digest *digest) {
    MlirOperation self = mlirModuleGetOperation(module);
    char hex[TSR_DIGEST_HEX + 1], text[TSR_DIGEST_HEX + 8];
    const char *path = im->options->weights_path, *slash = strrchr(path, '/');
    tsr_digest_format(digest, hex);
    snprintf(text, sizeof text, "sha256:%s", hex);
    tsr_op_set(self, TSR_WEIGHTS_NAME, tsr_attr_make_string(im->mlir, slash ? slash + 1 : path));
    tsr_op_set(self, TSR_WEIGHTS_DIGEST_NAME, tsr_attr_make_string(im->mlir, text));
}

tsr_result tsr_onnx_write_params(tsr_onnx_importer *im, MlirModule module) {
    tsr_array_writer *writer = NULL;
    tsr_result result = TSR_SUCCESS;
    tsr_digest digest;
    size_t count = 0;
    find_read(im);
    tsr_tensor *arrays = TSR_NEW(&im->arena, tsr_tensor, im->param_count + 1);
    const tsr_onnx_param **read = TSR_NEW(&im->arena, const tsr_onnx_param *, im->param_count + 1);
    TSR_NEED(arrays && read ? im : NULL);
    for (size_t i = 0; i < im->param_count; i++) {
        const tsr_onnx_param *param = &im->params[i];
        if (!param->is_read) continue;
        tsr_type type = tsr_onnx_type_of(param->value);
        arrays[count] = (tsr_tensor){.name = param->name, .dtype = type.dtype, .shape = type.shape};
        read[count++] = param;
    }
    if (count == 0 || !im->options->weights_path) return TSR_SUCCESS;
    TRY(im->ctx,
        tsr_array_writer_create(im->ctx, im->options->weights_path, arrays, count, &writer));
    for (size_t i = 0; i < count; i++)
        TRY_GOTO(im->ctx, result, append_param(im, read[i], i, writer));
    TRY_GOTO(im->ctx, result, tsr_array_writer_commit(im->ctx, writer));
    TRY_GOTO(im->ctx, result, tsr_file_digest(im->ctx, im->options->weights_path, &digest));
    name_file(im, module, &digest);
done:
    tsr_array_writer_destroy(im->ctx, writer);
    return result;
}

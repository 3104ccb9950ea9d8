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

MlirValue tsr_onnx_param_value(const tsr_onnx_param *param) {
    for (size_t i = 0; i < TSR_ONNX_BODIES_MAX; i++)
        if (!mlirValueIsNull(param->values[i])) return param->values[i];
    return (MlirValue){NULL};
}

/* The parameter of an earlier function that has this tensor, and that the current one does not read
 * yet; they are read in about the same order. NULL if there is none. */
static tsr_onnx_param *find_same(tsr_onnx_importer *im, const tsr_onnx_tensor *tensor) {
    if (im->body_count < 2) return NULL;
    for (size_t i = 0; i < im->param_count; i++) {
        size_t at = (im->param_next + i) % im->param_count;
        tsr_onnx_param *param = &im->params[at];
        if (param->tensor != tensor || !mlirValueIsNull(param->values[im->body_count - 1]))
            continue;
        im->param_next = at + 1;
        return param;
    }
    return NULL;
}

static tsr_onnx_param *add_param(tsr_onnx_importer *im, const tsr_onnx_tensor *tensor,
                                 const char *name, bool is_constant) {
    tsr_onnx_grow(&im->arena, (void **)&im->params, im->param_count, &im->param_capacity,
                  sizeof *im->params);
    tsr_onnx_param *param = &im->params[im->param_count];
    *param = (tsr_onnx_param){
        .name = unique_name(im, name), .tensor = tensor, .is_constant = is_constant};
    tsr_names_add(&im->param_names, param->name, (uint32_t)im->param_count++);
    return param;
}

static MlirValue emit_param(tsr_onnx_importer *im, tsr_onnx_param *param, const tsr_tensor *view,
                            MlirLocation location) {
    tsr_type type = {.dtype = view->dtype, .shape = view->shape};
    char text[TSR_TYPE_TEXT_MAX], init[TSR_TYPE_TEXT_MAX + 64];
    snprintf(init, sizeof init, "#tessera.constant<0.0> : tensor<%s>", tsr_type_text(&type, text));
    MlirAttribute rule = mlirAttributeParseGet(im->mlir, tsr_ref(init));
    TSR_ASSERT(!mlirAttributeIsNull(rule));
    tsr_builder builder = tsr_builder_before(im->anchor);
    builder.location = location;
    tsr_attr attrs[] = {{"name", tsr_attr_make_string(im->mlir, param->name)}, {"init", rule}, {0}};
    MlirValue value = tsr_build_value(&builder, TSR_GRAPH_NAME("param"), NULL, 0,
                                      tsr_type_make(im->mlir, &type), attrs);
    param->values[im->body_count - 1] = value;
    return value;
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

static MlirValue emit_tensor(tsr_onnx_importer *im, const tsr_onnx_tensor *tensor, const char *name,
                             bool is_constant, MlirLocation location) {
    tsr_tensor view;
    uint64_t count = 0;
    if (tsr_onnx_elements(im->ctx, &im->files, tensor, &im->scratch, &view).code)
        return refuse(im, location);
    bool fits = tsr_shape_count(&view.shape, &count);
    TSR_ASSERT(fits);
    bool is_float = tsr_dtype_is_float(view.dtype);
    bool trains = im->options->training && is_float && !is_constant && count > 0;
    bool is_small = (count <= 1 && !trains) || (!is_float && count <= CONSTANT_INTS_MAX);
    if (is_small) return emit_constant(im, &view, count, location);
    tsr_onnx_param *param = find_same(im, tensor);
    if (!param) param = add_param(im, tensor, name, is_constant);
    return emit_param(im, param, &view, location);
}

MlirValue tsr_onnx_emit_initializer(tsr_onnx_importer *im, const tsr_onnx_tensor *tensor,
                                    const char *name, MlirLocation location) {
    return emit_tensor(im, tensor, name, false, location);
}

MlirValue tsr_onnx_emit_tensor(tsr_onnx_importer *im, const tsr_onnx_tensor *tensor,
                               const char *name, MlirLocation location) {
    return emit_tensor(im, tensor, name, true, location);
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

/* The op by which all uses read the value; null if they differ, or differ from `first`. */
static MlirOperation common_movement(MlirValue value, MlirOperation first) {
    for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use)) {
        MlirOperation op = mlirOpOperandGetOwner(use);
        if (!is_movement(op)) return (MlirOperation){NULL};
        if (mlirOperationIsNull(first)) first = op;
        if (!same_movement(first, op)) return (MlirOperation){NULL};
    }
    return first;
}

/* The op by which all functions that use the parameter read it; null if they differ. */
static MlirOperation param_movement(const tsr_onnx_param *param) {
    MlirOperation first = {NULL};
    for (size_t i = 0; i < TSR_ONNX_BODIES_MAX; i++) {
        if (mlirValueIsNull(param->values[i])) continue;
        first = common_movement(param->values[i], first);
        if (mlirOperationIsNull(first)) break;
    }
    return first;
}

/* The value takes the type of its uses, which it replaces. */
static void replace_uses(tsr_onnx_importer *im, MlirValue value, const tsr_type *type) {
    MlirOperation op = mlirOpResultGetOwner(value);
    char text[TSR_TYPE_TEXT_MAX], init[TSR_TYPE_TEXT_MAX + 64];
    snprintf(init, sizeof init, "#tessera.constant<0.0> : tensor<%s>", tsr_type_text(type, text));
    tsr_op_set(op, "init", mlirAttributeParseGet(im->mlir, tsr_ref(init)));
    size_t use_count = 0;
    for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use))
        use_count++;
    MlirOperation *uses = TSR_NEW(&im->arena, MlirOperation, use_count + 1);
    TSR_NEED(uses);
    MlirOpOperand at = mlirValueGetFirstUse(value);
    for (size_t i = 0; i < use_count; i++, at = mlirOpOperandGetNextUse(at))
        uses[i] = mlirOpOperandGetOwner(at);
    for (size_t i = 0; i < use_count; i++) {
        mlirValueReplaceAllUsesOfWith(tsr_op_result(uses[i], 0), value);
        mlirOperationDestroy(uses[i]);
    }
    mlirValueSetType(value, tsr_type_make(im->mlir, type));
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
    for (size_t i = 0; i < im->body_count; i++)
        if (!mlirValueIsNull(param->values[i])) replace_uses(im, param->values[i], &type);
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

/* Finds the parameters that are still in the program. */
static void find_read(tsr_onnx_importer *im) {
    for (size_t i = 0; i < im->param_count; i++) {
        im->params[i].is_read = false;
        memset(im->params[i].values, 0, sizeof im->params[i].values);
    }
    for (size_t i = 0; i < im->body_count; i++) TSR_FOR_EACH_OP(op, im->bodies[i]) {
            if (tsr_op_of(op) != TSR_GRAPH_PARAM) continue;
            uint32_t number = tsr_names_find(&im->param_names, tsr_op_string(op, "name"));
            im->params[number].is_read = true;
            im->params[number].values[i] = tsr_op_result(op, 0);
        }
}

void tsr_onnx_relayout_params(tsr_onnx_importer *im) {
    for (size_t i = 0; i < im->body_count; i++) erase_unused(im->bodies[i]);
    find_read(im);
    for (size_t i = 0; i < im->param_count; i++) {
        tsr_onnx_param *param = &im->params[i];
        if (!param->is_read) continue;
        for (MlirOperation first;
             param->step_count < TSR_ONNX_STEPS_MAX && (first = param_movement(param), first.ptr);)
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

static void name_file(MlirModule module, const char *path, const tsr_digest *digest) {
    MlirOperation self = mlirModuleGetOperation(module);
    MlirContext context = mlirModuleGetContext(module);
    char hex[TSR_DIGEST_HEX + 1], text[TSR_DIGEST_HEX + 8];
    const char *slash = strrchr(path, '/');
    tsr_digest_format(digest, hex);
    snprintf(text, sizeof text, "sha256:%s", hex);
    tsr_op_set(self, TSR_WEIGHTS_NAME, tsr_attr_make_string(context, slash ? slash + 1 : path));
    tsr_op_set(self, TSR_WEIGHTS_DIGEST_NAME, tsr_attr_make_string(context, text));
}

/* A parameter of one of the models. */
typedef struct stored {
    tsr_onnx_importer *im;
    const tsr_onnx_param *param;
} stored;

static TSR_RESULT write_file(tsr_ctx *ctx, const stored *params, const tsr_tensor *arrays,
                             size_t count, const char *path, tsr_digest *out_digest) {
    tsr_array_writer *writer = NULL;
    tsr_result result = TSR_SUCCESS;
    TRY(ctx, tsr_array_writer_create(ctx, path, arrays, count, &writer));
    for (size_t i = 0; i < count; i++)
        TRY_GOTO(ctx, result, append_param(params[i].im, params[i].param, i, writer));
    TRY_GOTO(ctx, result, tsr_array_writer_commit(ctx, writer));
    TRY_GOTO(ctx, result, tsr_file_digest(ctx, path, out_digest));
done:
    tsr_array_writer_destroy(ctx, writer);
    return result;
}

tsr_result tsr_onnx_write_params(tsr_onnx_importer *const *importers, size_t importer_count,
                                 MlirModule module, const char *path) {
    size_t count = 0, limit = 1;
    tsr_digest digest;
    if (importer_count == 0) return TSR_SUCCESS;
    tsr_ctx *ctx = importers[0]->ctx;
    tsr_arena *arena = &importers[0]->arena;
    for (size_t k = 0; k < importer_count; k++) limit += importers[k]->param_count;
    tsr_tensor *arrays = TSR_NEW(arena, tsr_tensor, limit);
    stored *params = TSR_NEW(arena, stored, limit);
    TSR_NEED(arrays && params ? arena : NULL);
    for (size_t k = 0; k < importer_count; k++) {
        find_read(importers[k]);
        for (size_t i = 0; i < importers[k]->param_count; i++) {
            const tsr_onnx_param *param = &importers[k]->params[i];
            if (!param->is_read) continue;
            tsr_type type = tsr_onnx_type_of(tsr_onnx_param_value(param));
            arrays[count] =
                (tsr_tensor){.name = param->name, .dtype = type.dtype, .shape = type.shape};
            params[count++] = (stored){importers[k], param};
        }
    }
    if (count == 0 || !path) return TSR_SUCCESS;
    TRY(ctx, write_file(ctx, params, arrays, count, path, &digest));
    name_file(module, path, &digest);
    return TSR_SUCCESS;
}

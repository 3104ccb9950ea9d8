/* SPDX-License-Identifier: Apache-2.0
 *
 * The module is lowered for its largest sizes, whose errors and remarks the author reads, for its
 * smallest, where only errors count, and for the samples. The functions of the samples then take
 * the offsets in the program for the largest sizes.
 */
#include "compiler/graph/open/open.h"
#include "compiler/ir/attributes.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool tsr_graph_has_range(MlirModule module) {
    MlirAttribute list = tsr_op_attr(mlirModuleGetOperation(module), TSR_SIZES_NAME);
    if (mlirAttributeIsNull(list) || !mlirAttributeIsADictionary(list)) return false;
    for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(list); i++)
        if (mlirAttributeIsADictionary(mlirDictionaryAttrGetElement(list, i).attribute))
            return true;
    return false;
}

static bool read_range(MlirAttribute attr, const char *name, int64_t *out_value) {
    MlirAttribute value = mlirDictionaryAttrGetElementByName(attr, tsr_ref(name));
    return !mlirAttributeIsNull(value) && tsr_attr_i64(value, out_value);
}

/* False if there are too many, or a range has another form: pass tessera-bind-dims says which. */
static bool read_symbols(MlirModule module, tsr_samples *s) {
    MlirAttribute list = tsr_op_attr(mlirModuleGetOperation(module), TSR_SIZES_NAME);
    for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(list); i++) {
        MlirNamedAttribute one = mlirDictionaryAttrGetElement(list, i);
        size_t at = s->symbol_count;
        if (!mlirAttributeIsADictionary(one.attribute)) continue;
        if (at == TSR_SAMPLE_SYMBOLS_MAX || !read_range(one.attribute, "low", &s->low[at]) ||
            !read_range(one.attribute, "high", &s->high[at]))
            return false;
        s->symbols[s->symbol_count++] = mlirIdentifierStr(one.name).data;
    }
    return true;
}

/* ---- expressions that samples would not show ------------------------------------------------- */

typedef struct scan {
    const tsr_samples *samples;
    bool found, done;
} scan;

static void find_symbol(void *user, const char *symbol) {
    scan *s = user;
    for (size_t i = 0; i < s->samples->symbol_count; i++)
        s->found = s->found || strcmp(s->samples->symbols[i], symbol) == 0;
}

/* The samples are larger than all sizes, so a minimum or maximum could be another number there. */
static void scan_dim(scan *s, MlirOperation op, uint64_t dim) {
    char text[TSR_DIM_TEXT_MAX];
    if (!s->done || !tsr_dim_is_open(dim)) return;
    tsr_dim_text(dim, text);
    if (!strstr(text, "min(") && !strstr(text, "max(")) return;
    s->found = false;
    tsr_dim_symbols(dim, find_symbol, s);
    if (!s->found) return;
    const char *name = s->samples->symbols[0];
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_OPEN_DIM,
                   "%s: a size is %s, so dim '%s' cannot stay open; build for its sizes: --dim "
                   "%s=1,8,64",
                   tsr_op_name(op), text, name, name);
    s->done = false;
}

static void scan_type(scan *s, MlirOperation op, MlirType type) {
    tsr_type read;
    if (!mlirTypeIsARankedTensor(type) || !tsr_type_read(type, &read)) return;
    for (uint32_t d = 0; d < read.shape.rank; d++) scan_dim(s, op, read.shape.dims[d]);
}

static void scan_list(scan *s, MlirOperation op, MlirAttribute list) {
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(list); i++) {
        uint64_t dim;
        MlirAttribute entry = mlirArrayAttrGetElement(list, i);
        if (mlirAttributeIsAString(entry) && tsr_dim_read(entry, &dim)) scan_dim(s, op, dim);
    }
}

static MlirWalkResult scan_op(MlirOperation op, void *user) {
    scan *s = user;
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        scan_type(s, op, mlirValueGetType(tsr_op_operand(op, i)));
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        scan_type(s, op, mlirValueGetType(tsr_op_result(op, i)));
    for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
        MlirAttribute value = mlirOperationGetAttribute(op, i).attribute;
        if (mlirAttributeIsAArray(value)) scan_list(s, op, value);
    }
    return s->done ? MlirWalkResultAdvance : MlirWalkResultInterrupt;
}

/* ---- other sizes ----------------------------------------------------------------------------- */

/* Gives each symbol with a range one size. */
static void choose_sizes(const tsr_samples *s, MlirModule module, const int64_t *sizes) {
    MlirOperation top = mlirModuleGetOperation(module);
    MlirAttribute list = tsr_op_attr(top, TSR_SIZES_NAME);
    MlirNamedAttribute all[64];
    intptr_t count = mlirDictionaryAttrGetNumElements(list);
    TSR_ASSERT(count <= (intptr_t)TSR_COUNT(all));
    for (intptr_t i = 0; i < count; i++) {
        all[i] = mlirDictionaryAttrGetElement(list, i);
        for (size_t k = 0; k < s->symbol_count; k++)
            if (tsr_ref_is(mlirIdentifierStr(all[i].name), s->symbols[k]))
                all[i].attribute = tsr_attr_make_i64(s->context, sizes[k]);
    }
    tsr_op_set(top, TSR_SIZES_NAME, mlirDictionaryAttrGet(s->context, count, all));
}

/* The first error of a lowering whose diagnostics nobody sees. */
typedef struct hidden {
    MlirLocation location;
    tsr_buffer text;
} hidden;

static void append(MlirStringRef text, void *user) {
    tsr_buffer_append(user, text.data, text.length);
}

static MlirLogicalResult hide(MlirDiagnostic diagnostic, void *user) {
    hidden *h = user;
    if (mlirDiagnosticGetSeverity(diagnostic) == MlirDiagnosticError && !h->text.size_bytes) {
        h->location = mlirDiagnosticGetLocation(diagnostic);
        mlirDiagnosticPrint(diagnostic, append, &h->text);
    }
    return mlirLogicalResultSuccess();
}

static bool lower_hidden(const tsr_samples *s, MlirModule module, hidden *out) {
    tsr_ctx ctx = {0};
    tsr_diag_list list = {0};
    MlirDiagnosticHandlerID id = mlirContextAttachDiagnosticHandler(s->context, hide, out, NULL);
    tsr_result result = tsr_mlir_run_passes(&ctx, module, &list, TSR_GRAPH_PIPELINE, NULL);
    mlirContextDetachDiagnosticHandler(s->context, id);
    tsr_diag_finish(&list);
    return !result.code;
}

/* A copy of the module, lowered for these sizes; null after an error. */
static MlirModule lower_for(const tsr_samples *s, MlirModule source, const int64_t *sizes) {
    MlirModule module = mlirModuleFromOperation(mlirOperationClone(mlirModuleGetOperation(source)));
    MlirOperation top = mlirModuleGetOperation(module);
    hidden error = {.location = mlirOperationGetLocation(top)};
    choose_sizes(s, module, sizes);
    if (tsr_op_has(top, TSR_BOUNDS_NAME)) /* what they allow to compute holds for expressions */
        mlirOperationRemoveDiscardableAttributeByName(top, tsr_ref(TSR_BOUNDS_NAME));
    if (!lower_hidden(s, module, &error)) {
        tsr_diag_error(error.location, TSR_DIAG_OPEN_DIM,
                       "where dim '%s' is %" PRId64 ": %s; so it cannot stay open; build for its "
                       "sizes: --dim %s=1,8,64",
                       s->symbols[0], sizes[0], error.text.bytes ? error.text.bytes : "unknown",
                       s->symbols[0]);
        mlirModuleDestroy(module);
        module = (MlirModule){NULL};
    }
    tsr_buffer_finish(&error.text);
    return module;
}

/* ---- the functions --------------------------------------------------------------------------- */

/* Puts the function of the first sample in the place of this one, whose marks it gets. */
static void replace(MlirOperation func, MlirOperation made) {
    static const char *const marks[] = {TSR_OPEN_DIM_NAME, TSR_OPEN_RANGE_NAME,
                                        TSR_OPEN_INPUTS_NAME, TSR_OPEN_OUTPUTS_NAME};
    for (size_t i = 0; i < TSR_COUNT(marks); i++)
        if (tsr_op_has(func, marks[i])) tsr_op_set(made, marks[i], tsr_op_attr(func, marks[i]));
    mlirOperationRemoveFromParent(made);
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(func), func, made);
    mlirOperationDestroy(func);
}

static bool compare_all(const tsr_samples *s, MlirModule module, const MlirModule *samples) {
    MlirOperation next, op = mlirBlockGetFirstOperation(mlirModuleGetBody(module));
    for (; !mlirOperationIsNull(op); op = next) {
        MlirOperation funcs[TSR_SAMPLES];
        bool differs = false, all = true;
        next = mlirOperationGetNextInBlock(op);
        if (!tsr_graph_is_lowered_func(op)) continue;
        for (size_t i = 0; i < TSR_SAMPLES; i++) {
            funcs[i] = tsr_module_find(samples[i], tsr_op_symbol(op));
            all = all && !mlirOperationIsNull(funcs[i]);
        }
        if (!all) {
            tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_OPEN_DIM,
                           "@%s is not in the program for other sizes, so dim '%s' cannot stay "
                           "open; build for its sizes: --dim %s=1,8,64",
                           tsr_op_symbol(op), s->symbols[0], s->symbols[0]);
            return false;
        }
        if (!tsr_samples_compare(s, funcs, &differs)) return false;
        if (differs) replace(op, funcs[0]);
    }
    return true;
}

static TSR_RESULT lower_samples(tsr_ctx *ctx, const tsr_samples *s, MlirModule source,
                                MlirModule module, tsr_diag_list *list) {
    MlirModule samples[TSR_SAMPLES] = {{NULL}}, low = lower_for(s, source, s->low);
    bool done = !mlirModuleIsNull(low);
    if (done) mlirModuleDestroy(low);
    for (size_t i = 0; i < TSR_SAMPLES && done; i++) {
        samples[i] = lower_for(s, source, s->sizes[i]);
        done = !mlirModuleIsNull(samples[i]);
    }
    done = done && compare_all(s, module, samples);
    for (size_t i = 0; i < TSR_SAMPLES; i++)
        if (!mlirModuleIsNull(samples[i])) mlirModuleDestroy(samples[i]);
    return done ? TSR_SUCCESS : tsr_diag_fail(ctx, list, "compiling");
}

tsr_result tsr_graph_lower_open(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list,
                                const tsr_pass_options *options) {
    tsr_samples s = {.context = mlirModuleGetContext(module)};
    MlirOperation top = mlirModuleGetOperation(module);
    if (!read_symbols(module, &s))
        return tsr_mlir_run_passes(ctx, module, list, TSR_GRAPH_PIPELINE, options);
    tsr_samples_init(&s);
    MlirModule source = mlirModuleFromOperation(mlirOperationClone(top));
    tsr_op_set(top, TSR_COMPARED_NAME, tsr_attr_make_unit(s.context));
    tsr_result result = tsr_mlir_run_passes(ctx, module, list, TSR_GRAPH_PIPELINE, options);
    mlirOperationRemoveDiscardableAttributeByName(top, tsr_ref(TSR_COMPARED_NAME));
    scan expressions = {.samples = &s, .done = true};
    if (!result.code)
        mlirOperationWalk(mlirModuleGetOperation(source), scan_op, &expressions, MlirWalkPreOrder);
    if (!expressions.done) result = tsr_diag_fail(ctx, list, "compiling");
    if (!result.code) result = lower_samples(ctx, &s, source, module, list);
    if (!result.code) result = tsr_mlir_verify(ctx, module, list, "compiling");
    mlirModuleDestroy(source);
    return result;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver: parses the module, imports its entry op after op, then the functions that were
 * called.
 */
#include "compiler/frontend/stablehlo/import.h"

#include "compiler/frontend/stablehlo/entry.h"
#include "compiler/frontend/stablehlo/importer.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"
#include "runtime/base/io/io.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- failures -------------------------------------------------------------------------------- */

enum { MESSAGE_MAX = 1024 };

static void emit_failure(tsr_hlo_call *c, tsr_diag_number number, const char *format,
                         va_list arguments) {
    char text[MESSAGE_MAX];
    if (!c->failed) {
        vsnprintf(text, sizeof text, format, arguments);
        tsr_diag_error(mlirOperationGetLocation(c->op), number, "%s: %s", c->name, text);
    }
    c->failed = true;
}

bool tsr_hlo_fail(tsr_hlo_call *c, tsr_diag_number number, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    emit_failure(c, number, format, arguments);
    va_end(arguments);
    return false;
}

MlirValue tsr_hlo_fail_value(tsr_hlo_call *c, tsr_diag_number number, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    emit_failure(c, number, format, arguments);
    va_end(arguments);
    return (MlirValue){NULL};
}

/* ---- values ---------------------------------------------------------------------------------- */

static void bind(tsr_hlo_importer *im, MlirValue source, MlirValue value) {
    if (im->value_count == im->value_capacity) {
        MlirValue *grown = tsr_arena_grow(&im->arena, im->values, &im->value_capacity, 256,
                                          sizeof *grown, _Alignof(MlirValue));
        TSR_NEED(grown);
        im->values = grown;
    }
    uint32_t number = (uint32_t)im->value_count;
    im->values[im->value_count++] = value;
    TSR_NEED(tsr_value_map_set(&im->map, &im->arena, source, number) ? im : NULL);
}

MlirValue tsr_hlo_bound(const tsr_hlo_call *c, MlirValue value) {
    uint32_t number = tsr_value_map_get(&c->importer->map, value);
    return number == UINT32_MAX ? (MlirValue){NULL} : c->importer->values[number];
}

MlirOperation tsr_hlo_end(MlirBlock block) {
    MlirOperation last = {NULL};
    TSR_FOR_EACH_OP(op, block) { last = op; }
    return last;
}

bool tsr_hlo_made_by(MlirValue value, const char *name) {
    return !mlirValueIsNull(value) && mlirValueIsAOpResult(value) &&
           tsr_op_is_named(mlirOpResultGetOwner(value), name);
}

bool tsr_hlo_known_int(const tsr_hlo_call *c, MlirValue value, int64_t *out_value) {
    double number;
    MlirValue bound = tsr_hlo_bound(c, value);
    bool known = false;
    if (tsr_hlo_made_by(value, "stablehlo.constant"))
        known = tsr_attr_splat(mlirOperationGetInherentAttributeByName(mlirOpResultGetOwner(value),
                                                                       tsr_ref("value")),
                               &number) ||
                tsr_attr_splat(tsr_op_attr(mlirOpResultGetOwner(value), "value"), &number);
    if (!known && !mlirValueIsNull(bound)) known = tsr_hlo_splat(bound, &number);
    if (!known || !(number > -9.0e15 && number < 9.0e15)) return false;
    *out_value = (int64_t)number;
    return true;
}

bool tsr_hlo_out(tsr_hlo_call *c, size_t output, MlirValue value) {
    c->out[output] = value;
    return !c->failed;
}

/* ---- ops ------------------------------------------------------------------------------------- */

static bool has_region_arguments(MlirBlock block, size_t count) {
    return !mlirBlockIsNull(block) && mlirBlockIsNull(mlirBlockGetNextInRegion(block)) &&
           (size_t)mlirBlockGetNumArguments(block) == count;
}

MlirBlock tsr_hlo_block(tsr_hlo_call *c, size_t region, size_t argument_count) {
    MlirBlock block = {NULL};
    if ((size_t)mlirOperationGetNumRegions(c->op) > region)
        block = mlirRegionGetFirstBlock(mlirOperationGetRegion(c->op, (intptr_t)region));
    if (has_region_arguments(block, argument_count)) return block;
    tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "region %zu is not one block with %zu arguments", region,
                 argument_count);
    return (MlirBlock){NULL};
}

/* Dynamic dims, and types of elements that Graph IR lacks, are refused. */
static bool read_type(tsr_hlo_call *c, const char *what, size_t index, MlirType type,
                      tsr_type *out_type) {
    tsr_buffer text = {0};
    if (tsr_type_read(type, out_type) && tsr_type_is_static(out_type)) return true;
    mlirTypePrint(type, tsr_hlo_append, &text);
    bool is_dynamic = tsr_type_read(type, out_type);
    tsr_hlo_fail(c, TSR_DIAG_HLO_TYPE, "%s %zu has the type %s; expected %s%s", what, index,
                 text.failed || !text.bytes ? "?" : text.bytes,
                 is_dynamic ? "a size for each dim; lower the function for arrays with sizes"
                            : "a tensor of ",
                 is_dynamic ? "" : tsr_dtype_names());
    tsr_buffer_finish(&text);
    return false;
}

void tsr_hlo_append(MlirStringRef text, void *user) {
    tsr_buffer_append(user, text.data, text.length);
}

static bool read_operands(tsr_hlo_call *c) {
    const tsr_hlo_row *row = c->row;
    if (c->in_count < row->in_low || c->in_count > row->in_high ||
        (row->out_count != SIZE_MAX && c->out_count != row->out_count))
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "it has %zu operands and %zu results",
                            c->in_count, c->out_count);
    for (size_t i = 0; i < c->in_count; i++) {
        c->in[i] = tsr_hlo_bound(c, tsr_op_operand(c->op, i));
        if (mlirValueIsNull(c->in[i]))
            return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "operand %zu is not known here", i);
    }
    for (size_t i = 0; i < c->out_count; i++)
        if (!read_type(c, "result", i, mlirValueGetType(tsr_op_result(c->op, i)), &c->types[i]))
            return false;
    return true;
}

/* Each result has the type that the op declares; in a lifted block only its elements. */
static bool bind_results(tsr_hlo_call *c) {
    for (size_t i = 0; i < c->out_count; i++) {
        tsr_type is = tsr_hlo_type(c->out[i]);
        char one[TSR_TYPE_TEXT_MAX], other[TSR_TYPE_TEXT_MAX];
        TSR_ASSERT(!mlirValueIsNull(c->out[i]));
        if (is.dtype != c->types[i].dtype ||
            (!c->importer->lifted && !tsr_shape_equal(&is.shape, &c->types[i].shape)))
            return tsr_hlo_fail(c, TSR_DIAG_HLO_TYPE, "result %zu is declared as %s; it is %s", i,
                                tsr_type_text(&c->types[i], one), tsr_type_text(&is, other));
        bind(c->importer, tsr_op_result(c->op, i), c->out[i]);
    }
    return true;
}

static bool find_rule(tsr_hlo_call *c) {
    c->row = tsr_hlo_find_row(c->name);
    if (c->row) return true;
    return tsr_hlo_fail(c, TSR_DIAG_HLO_OP, "no rule imports this op");
}

static bool import_op(tsr_hlo_importer *im, MlirOperation op) {
    tsr_arena arena = {0};
    tsr_hlo_call c = {.importer = im,
                      .op = op,
                      .name = tsr_op_name(op),
                      .builder = &im->builder,
                      .arena = &arena,
                      .in_count = tsr_op_operand_count(op),
                      .out_count = tsr_op_result_count(op)};
    im->builder.location = mlirOperationGetLocation(op);
    c.in = TSR_NEW(&arena, MlirValue, c.in_count + 1);
    c.out = TSR_NEW(&arena, MlirValue, c.out_count + 1);
    c.types = TSR_NEW(&arena, tsr_type, c.out_count + 1);
    TSR_NEED(c.in && c.out && c.types ? im : NULL);
    bool done =
        im->op_count++ < TSR_HLO_OPS_MAX ||
        tsr_hlo_fail(&c, TSR_DIAG_HLO_FORM, "the program has more than %d ops", TSR_HLO_OPS_MAX);
    if (done && (c.in_count > TSR_HLO_VALUES_MAX || c.out_count > TSR_HLO_VALUES_MAX))
        done = tsr_hlo_fail(&c, TSR_DIAG_HLO_FORM,
                            "it has %zu operands and %zu results; at most %d can be imported",
                            c.in_count, c.out_count, TSR_HLO_VALUES_MAX);
    done = done && find_rule(&c) && read_operands(&c) && c.row->rule(&c) && !c.failed &&
           bind_results(&c);
    im->builder.location = mlirOperationGetLocation(op);
    tsr_arena_finish(&arena);
    return done;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static bool is_terminator(MlirOperation op) {
    return tsr_op_is(op, TSR_FUNC_RETURN) || tsr_op_is_named(op, "stablehlo.return");
}

/* The ops of a block up to its terminator, whose operands are the results. */
static bool import_ops(tsr_hlo_importer *im, MlirBlock block, size_t out_count,
                       MlirValue *out_values) {
    tsr_hlo_call at = {.importer = im};
    TSR_FOR_EACH_OP(op, block) {
        if (!is_terminator(op)) {
            if (!import_op(im, op)) return false;
            continue;
        }
        at.op = op;
        at.name = tsr_op_name(op);
        if (tsr_op_operand_count(op) != out_count)
            return tsr_hlo_fail(&at, TSR_DIAG_HLO_FORM, "it gives %zu values; expected %zu",
                                tsr_op_operand_count(op), out_count);
        for (size_t i = 0; i < out_count; i++) {
            out_values[i] = tsr_hlo_bound(&at, tsr_op_operand(op, i));
            if (mlirValueIsNull(out_values[i]))
                return tsr_hlo_fail(&at, TSR_DIAG_HLO_FORM, "value %zu is not known here", i);
        }
        return true;
    }
    at.op = mlirBlockGetParentOperation(block);
    at.name = tsr_op_name(at.op);
    return tsr_hlo_fail(&at, TSR_DIAG_HLO_FORM, "a block ends without a return");
}

bool tsr_hlo_import_block(tsr_hlo_call *c, MlirBlock block, const MlirValue *arguments, bool lifted,
                          size_t out_count, MlirValue *out_values) {
    tsr_hlo_importer *im = c->importer;
    bool outside = im->lifted;
    MlirLocation location = im->builder.location;
    if (c->failed || mlirBlockIsNull(block)) return false;
    if (im->depth == TSR_HLO_DEPTH_MAX)
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "regions and calls are nested more than %d deep",
                            TSR_HLO_DEPTH_MAX);
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++) {
        if (mlirValueIsNull(arguments[i])) return false;
        bind(im, mlirBlockGetArgument(block, i), arguments[i]);
    }
    im->depth++;
    im->lifted = lifted || outside;
    bool done = import_ops(im, block, out_count, out_values);
    im->lifted = outside;
    im->depth--;
    im->builder.location = location;
    c->failed = c->failed || !done;
    return done;
}

/* ---- functions ------------------------------------------------------------------------------- */

MlirOperation tsr_hlo_need_function(tsr_hlo_importer *im, const char *symbol) {
    MlirOperation func = tsr_module_find(im->source, symbol);
    if (mlirOperationIsNull(func) || !tsr_op_has_body(func)) return (MlirOperation){NULL};
    uint32_t number = tsr_names_add(&im->called, symbol, (uint32_t)im->function_count);
    if (number != im->function_count) return func;
    if (im->function_count == im->function_capacity) {
        MlirOperation *grown = tsr_arena_grow(&im->arena, im->functions, &im->function_capacity, 16,
                                              sizeof *grown, _Alignof(MlirOperation));
        TSR_NEED(grown);
        im->functions = grown;
    }
    im->functions[im->function_count++] = func;
    return func;
}

bool tsr_hlo_import_body(tsr_hlo_importer *im, MlirOperation func, const MlirValue *arguments,
                         size_t out_count, MlirValue *out_values) {
    MlirBlock block = tsr_op_body(func);
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
        bind(im, mlirBlockGetArgument(block, i), arguments[i]);
    return import_ops(im, block, out_count, out_values);
}

bool tsr_hlo_port_type(tsr_hlo_importer *im, MlirOperation func, const char *what, size_t index,
                       MlirType type, tsr_type *out_type) {
    tsr_hlo_call at = {.importer = im, .op = func, .name = tsr_op_symbol(func)};
    return read_type(&at, what, index, type, out_type);
}

/* The entry, then the functions that were called, which may call others. */
static bool import_functions(tsr_hlo_importer *im) {
    if (!tsr_hlo_import_entry(im)) return false;
    for (size_t i = 0; i < im->function_count; i++)
        if (!tsr_hlo_import_private(im, im->functions[i])) return false;
    return true;
}

/* ---- the file -------------------------------------------------------------------------------- */

bool tsr_hlo_is_program(const char *path) {
    static const char *const endings[] = {".stablehlo.mlir", ".stablehlo"};
    size_t length = strlen(path);
    for (size_t i = 0; i < 2; i++) {
        size_t size = strlen(endings[i]);
        if (length > size && strcmp(path + length - size, endings[i]) == 0) return true;
    }
    return false;
}

/* Text, as an artifact of VHLO is read wrongly without declarations of its ops. */
static TSR_RESULT check_form(tsr_ctx *ctx, const char *path, const char *text, size_t size_bytes) {
    if (size_bytes >= 4 && memcmp(text, "ML\xefR", 4) == 0)
        FAIL(ctx, TSR_USAGE,
             "'%s' is a portable artifact, which only StableHLO itself can read; write the text of "
             "the module: exported.mlir_module() of jax.export",
             path);
    return TSR_SUCCESS;
}

static TSR_RESULT import_module(tsr_hlo_importer *im, const void *text, size_t size_bytes,
                                const char *file) {
    MlirLocation location = mlirLocationFileLineColGet(im->mlir, tsr_ref(file), 1, 1);
    tsr_shim_load_stablehlo(im->mlir);
    TRY(im->ctx, tsr_mlir_parse(im->ctx, im->mlir, im->diags, text, size_bytes, file, &im->source));
    im->diags->verified = 0; /* that was the other module */
    im->module = mlirModuleCreateEmpty(location);
    tsr_guard_note("importing StableHLO");
    if (!import_functions(im)) {
        if (im->failure.code) return im->failure;
        return tsr_diag_fail(im->ctx, im->diags, "import");
    }
    return TSR_SUCCESS;
}

tsr_result tsr_hlo_import(tsr_ctx *ctx, MlirContext context, tsr_diag_list *list,
                          const tsr_hlo_options *options, MlirModule *out_module,
                          tsr_digest *out_digest) {
    const char *slash = strrchr(options->path, '/'), *file = slash ? slash + 1 : options->path;
    tsr_hlo_importer im = {.ctx = ctx, .diags = list, .options = options, .mlir = context};
    void *text = NULL;
    size_t size = 0;
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result,
             tsr_io_read_file(ctx, options->path, TSR_HLO_BYTES_MAX, &list->arena, &text, &size));
    TRY_GOTO(ctx, result, check_form(ctx, options->path, text, size));
    TRY_GOTO(ctx, result, import_module(&im, text, size, file));
    *out_module = im.module;
    im.module = (MlirModule){NULL};
    *out_digest = tsr_hash(text, size);
done:
    if (!mlirModuleIsNull(im.module)) mlirModuleDestroy(im.module);
    if (!mlirModuleIsNull(im.source)) mlirModuleDestroy(im.source);
    tsr_names_finish(&im.called);
    tsr_arena_finish(&im.arena);
    return result;
}

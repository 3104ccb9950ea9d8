/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry: names of its inputs and outputs, and the tensors that it carries from step to step.
 */
#include "compiler/frontend/stablehlo/entry.h"

#include "compiler/ir/attributes.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"
#include "manifests/config.h"

#include <stdio.h>
#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

/* "result[0]['loss']" as "result.0.loss". */
static void plain_name(const char *path, size_t length, char out_name[static TSR_NAME_MAX + 1]) {
    size_t at = 0;
    for (size_t i = 0; i < length && at < TSR_NAME_MAX; i++) {
        char mark = path[i];
        if (strchr("]'\"", mark)) continue;
        bool separates = mark == '[' || mark == '.';
        if (separates && (at == 0 || out_name[at - 1] == '.')) continue;
        out_name[at++] = separates ? '.' : mark;
    }
    out_name[at] = '\0';
}

static MlirAttribute port_attr(MlirOperation func, const char *list, size_t index,
                               const char *name) {
    MlirAttribute attrs = tsr_op_attr(func, list);
    if (mlirAttributeIsNull(attrs) || !mlirAttributeIsAArray(attrs) ||
        (intptr_t)index >= mlirArrayAttrGetNumElements(attrs))
        return (MlirAttribute){NULL};
    MlirAttribute port = mlirArrayAttrGetElement(attrs, (intptr_t)index);
    return mlirAttributeIsADictionary(port)
               ? mlirDictionaryAttrGetElementByName(port, tsr_ref(name))
               : (MlirAttribute){NULL};
}

/* A name from `path`, or PREFIX and the number; one that is taken gets the number, too. */
static const char *make_name(tsr_hlo_importer *im, tsr_names *taken, MlirStringRef path,
                             const char *prefix, size_t index) {
    char name[TSR_NAME_MAX + 1];
    plain_name(path.data, path.length, name);
    const char *made = name[0] && tsr_text_valid(name, TSR_NAME_MAX - 8)
                           ? tsr_arena_strdup(&im->arena, name)
                           : tsr_arena_printf(&im->arena, "%s%zu", prefix, index);
    if (made && tsr_names_add(taken, made, (uint32_t)index) != index) {
        made = tsr_arena_printf(&im->arena, "%s.%zu", made, index);
        if (made) tsr_names_add(taken, made, (uint32_t)index);
    }
    TSR_NEED(made);
    return made;
}

static MlirStringRef string_of(MlirAttribute attr) {
    bool is = !mlirAttributeIsNull(attr) && mlirAttributeIsAString(attr);
    return is ? mlirStringAttrGetValue(attr) : mlirStringRefCreate("", 0);
}

/* Its attribute tessera.name, else the name that jax writes as the location of an argument. */
static MlirStringRef argument_path(MlirOperation func, size_t index) {
    MlirStringRef given = string_of(port_attr(func, "arg_attrs", index, "tessera.name"));
    MlirLocation location =
        mlirValueGetLocation(mlirBlockGetArgument(tsr_op_body(func), (intptr_t)index));
    if (given.length || !mlirLocationIsAName(location)) return given;
    return mlirIdentifierStr(mlirLocationNameGetName(location));
}

static MlirStringRef result_path(MlirOperation func, size_t index) {
    return string_of(port_attr(func, "res_attrs", index, "jax.result_info"));
}

/* ---- functions ------------------------------------------------------------------------------- */

typedef struct signature {
    size_t in_count, out_count;
    tsr_type in[TSR_HLO_VALUES_MAX], out[TSR_HLO_VALUES_MAX];
    tsr_hlo_carry carry_in[TSR_HLO_VALUES_MAX], carry_out[TSR_HLO_VALUES_MAX];
    const char *in_names[TSR_HLO_VALUES_MAX], *out_names[TSR_HLO_VALUES_MAX];
} signature;

static bool read_signature(tsr_hlo_importer *im, MlirOperation func, signature *s) {
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(func, "function_type"));
    s->in_count = (size_t)mlirFunctionTypeGetNumInputs(type);
    s->out_count = (size_t)mlirFunctionTypeGetNumResults(type);
    if (s->in_count > TSR_HLO_VALUES_MAX || s->out_count > TSR_HLO_VALUES_MAX) {
        tsr_diag_error(mlirOperationGetLocation(func), TSR_DIAG_HLO_ENTRY,
                       "'@%s' has %zu inputs and %zu outputs; at most %d can be imported",
                       tsr_op_symbol(func), s->in_count, s->out_count, TSR_HLO_VALUES_MAX);
        return false;
    }
    for (size_t i = 0; i < s->in_count; i++)
        if (!tsr_hlo_port_type(im, func, "input", i, mlirFunctionTypeGetInput(type, (intptr_t)i),
                               &s->in[i]))
            return false;
    for (size_t i = 0; i < s->out_count; i++)
        if (!tsr_hlo_port_type(im, func, "output", i, mlirFunctionTypeGetResult(type, (intptr_t)i),
                               &s->out[i]))
            return false;
    return true;
}

static void name_ports(tsr_hlo_importer *im, MlirOperation func, signature *s) {
    tsr_names inputs = {0}, outputs = {0};
    for (size_t i = 0; i < s->in_count; i++)
        s->in_names[i] = make_name(im, &inputs, argument_path(func, i), "arg", i);
    for (size_t i = 0; i < s->out_count; i++)
        s->out_names[i] = make_name(im, &outputs, result_path(func, i), "result", i);
    tsr_names_finish(&inputs);
    tsr_names_finish(&outputs);
}

/* Opens a function of Graph IR, whose type is set when it is closed. */
static MlirOperation open_function(tsr_hlo_importer *im, MlirOperation source, const char *symbol,
                                   const char *entry) {
    MlirLocation location = mlirOperationGetLocation(source);
    const tsr_attr attrs[] = {
        {"sym_name", tsr_attr_make_string(im->mlir, symbol)},
        {"function_type", tsr_attr_make_type(mlirFunctionTypeGet(im->mlir, 0, NULL, 0, NULL))},
        entry ? (tsr_attr){"tessera.entry", tsr_attr_make_string(im->mlir, entry)}
              : (tsr_attr){"sym_visibility", tsr_attr_make_string(im->mlir, "private")}};
    MlirBlock block = mlirBlockCreate(0, NULL, NULL);
    MlirRegion region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(region, block);
    tsr_builder top = tsr_builder_at_end(mlirModuleGetBody(im->module), location);
    MlirOperation func = tsr_build(&top, &(tsr_op_desc){.name = "func.func",
                                                        .attr_count = 3,
                                                        .attrs = attrs,
                                                        .region_count = 1,
                                                        .regions = &region});
    im->builder = tsr_builder_at_end(block, location);
    return func;
}

static void close_function(tsr_hlo_importer *im, MlirOperation func, size_t out_count,
                           const MlirValue *values) {
    MlirType inputs[TSR_HLO_VALUES_MAX], outputs[TSR_HLO_VALUES_MAX];
    MlirBlock block = tsr_op_body(func);
    intptr_t in_count = mlirBlockGetNumArguments(block);
    for (intptr_t i = 0; i < in_count; i++)
        inputs[i] = mlirValueGetType(mlirBlockGetArgument(block, i));
    for (size_t i = 0; i < out_count; i++) outputs[i] = mlirValueGetType(values[i]);
    im->builder.location = mlirOperationGetLocation(func);
    tsr_build(
        &im->builder,
        &(tsr_op_desc){.name = "func.return", .operands = values, .operand_count = out_count});
    tsr_op_set(func, "function_type",
               tsr_attr_make_type(
                   mlirFunctionTypeGet(im->mlir, in_count, inputs, (intptr_t)out_count, outputs)));
}

static MlirValue add_argument(tsr_hlo_importer *im, const tsr_type *type, MlirLocation location) {
    return mlirBlockAddArgument(im->builder.block, tsr_type_make(im->mlir, type), location);
}

bool tsr_hlo_import_private(tsr_hlo_importer *im, MlirOperation func) {
    MlirValue arguments[TSR_HLO_VALUES_MAX], values[TSR_HLO_VALUES_MAX];
    signature *s = TSR_NEW(&im->arena, signature, 1);
    TSR_NEED(s);
    if (!read_signature(im, func, s)) return false;
    MlirOperation made = open_function(im, func, tsr_op_symbol(func), NULL);
    for (size_t i = 0; i < s->in_count; i++)
        arguments[i] = add_argument(im, &s->in[i], mlirOperationGetLocation(func));
    if (!tsr_hlo_import_body(im, func, arguments, s->out_count, values)) return false;
    close_function(im, made, s->out_count, values);
    return true;
}

/* ---- the entry ------------------------------------------------------------------------------- */

/* `main`, or the only public function. */
static MlirOperation find_entry(tsr_hlo_importer *im) {
    MlirOperation found = tsr_module_find(im->source, "main");
    size_t count = 0;
    if (!mlirOperationIsNull(found) && tsr_op_has_body(found)) return found;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(im->source)) {
        const char *visibility = tsr_op_string(op, "sym_visibility");
        if (!tsr_op_is(op, TSR_FUNC_FUNC) || !tsr_op_has_body(op) ||
            (visibility && strcmp(visibility, "private") == 0))
            continue;
        found = op;
        count++;
    }
    if (count == 1) return found;
    tsr_diag_error(mlirOperationGetLocation(mlirModuleGetOperation(im->source)), TSR_DIAG_HLO_ENTRY,
                   "the module has no function '@main' and %zu public ones; expected one of them",
                   count);
    return (MlirOperation){NULL};
}

static MlirAttribute port_dictionary(const tsr_hlo_importer *im, const char *key, const char *name,
                                     bool may_be_infinite) {
    MlirNamedAttribute named[] = {
        {mlirIdentifierGet(im->mlir, tsr_ref(key)), tsr_attr_make_string(im->mlir, name)},
        {mlirIdentifierGet(im->mlir, tsr_ref(TSR_INFINITE_NAME)), tsr_attr_make_unit(im->mlir)}};
    return mlirDictionaryAttrGet(im->mlir, may_be_infinite ? 2 : 1, named);
}

/* A carried input: a tensor of the state, whose first value is 0 unless --params gives it. */
static MlirValue read_state(tsr_hlo_importer *im, const tsr_type *type, const char *name) {
    const tsr_attr attrs[] = {{"name", tsr_attr_make_string(im->mlir, name)},
                              {"data", tsr_attr_make_splat(im->mlir, type, 0)},
                              {0}};
    return tsr_build_value(&im->builder, TSR_GRAPH_NAME("param"), NULL, 0,
                           tsr_type_make(im->mlir, type), attrs);
}

static bool check_carried(MlirOperation func, const signature *s) {
    char one[TSR_TYPE_TEXT_MAX], other[TSR_TYPE_TEXT_MAX];
    for (size_t i = 0; i < s->in_count; i++) {
        const tsr_hlo_carry *carry = &s->carry_in[i];
        const tsr_type *out = &s->out[carry->partner];
        if (!carry->name ||
            (s->in[i].dtype == out->dtype && tsr_shape_equal(&s->in[i].shape, &out->shape)))
            continue;
        tsr_diag_error(
            mlirOperationGetLocation(func), TSR_DIAG_HLO_CARRY,
            "'%s' is carried from output %zu, which has the type %s, to input %zu, which "
            "has %s",
            carry->name, carry->partner, tsr_type_text(out, one), i,
            tsr_type_text(&s->in[i], other));
        return false;
    }
    return true;
}

static bool add_inputs(tsr_hlo_importer *im, MlirOperation func, const signature *s,
                       MlirValue *arguments, MlirAttribute *attrs, size_t *out_count) {
    bool trains = im->options->carry_count != 0;
    for (size_t i = 0; i < s->in_count; i++) {
        if (s->carry_in[i].name) {
            arguments[i] = read_state(im, &s->in[i], s->carry_in[i].name);
            continue;
        }
        if (trains && s->in[i].shape.rank == 0) {
            tsr_diag_error(
                mlirOperationGetLocation(func), TSR_DIAG_HLO_CARRY,
                "input %zu ('%s') is a scalar and not carried; only tensors, whose dim 0 "
                "are rows, can be bound to data",
                i, s->in_names[i]);
            return false;
        }
        attrs[(*out_count)++] =
            port_dictionary(im, trains ? "tessera.data" : "tessera.name", s->in_names[i], false);
        arguments[i] = add_argument(im, &s->in[i], mlirOperationGetLocation(func));
    }
    return true;
}

/* Carried outputs are assigned; the others are results. */
static size_t add_outputs(tsr_hlo_importer *im, const signature *s, const MlirValue *values,
                          MlirValue *results, MlirAttribute *attrs) {
    bool trains = im->options->carry_count != 0;
    size_t count = 0;
    for (size_t i = 0; i < s->out_count; i++) {
        if (!s->carry_out[i].name) {
            bool infinite = !trains && tsr_dtype_is_float(s->out[i].dtype);
            attrs[count] = port_dictionary(im, "tessera.name", s->out_names[i], infinite);
            results[count++] = values[i];
            continue;
        }
        const tsr_attr target[] = {
            {"target", tsr_attr_make_string(im->mlir, s->carry_out[i].name)}};
        tsr_build(&im->builder, &(tsr_op_desc){.name = TSR_GRAPH_NAME("assign"),
                                               .operands = &values[i],
                                               .operand_count = 1,
                                               .attrs = target,
                                               .attr_count = 1});
    }
    return count;
}

static bool fill_entry(tsr_hlo_importer *im, MlirOperation func, MlirOperation made,
                       const signature *s) {
    MlirValue arguments[TSR_HLO_VALUES_MAX], values[TSR_HLO_VALUES_MAX],
        results[TSR_HLO_VALUES_MAX];
    MlirAttribute in_attrs[TSR_HLO_VALUES_MAX], out_attrs[TSR_HLO_VALUES_MAX];
    size_t in_count = 0;
    if (!add_inputs(im, func, s, arguments, in_attrs, &in_count) ||
        !tsr_hlo_import_body(im, func, arguments, s->out_count, values))
        return false;
    im->builder.location = mlirOperationGetLocation(func);
    size_t out_count = add_outputs(im, s, values, results, out_attrs);
    close_function(im, made, out_count, results);
    tsr_op_set(made, "arg_attrs", mlirArrayAttrGet(im->mlir, (intptr_t)in_count, in_attrs));
    tsr_op_set(made, "res_attrs", mlirArrayAttrGet(im->mlir, (intptr_t)out_count, out_attrs));
    return true;
}

bool tsr_hlo_import_entry(tsr_hlo_importer *im) {
    MlirOperation func = find_entry(im);
    signature *s = TSR_NEW(&im->arena, signature, 1);
    TSR_NEED(s);
    if (mlirOperationIsNull(func) || !read_signature(im, func, s)) return false;
    name_ports(im, func, s);
    im->failure =
        tsr_hlo_read_carry(im->ctx, &im->arena, im->options->carry_count, im->options->carry,
                           s->in_count, s->out_count, s->carry_in, s->carry_out);
    if (im->failure.code || !check_carried(func, s)) return false;
    const char *entry = im->options->carry_count ? "train" : "infer";
    const char *symbol = im->options->carry_count ? "train" : "main";
    return fill_entry(im, func, open_function(im, func, symbol, entry), s);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of the ops of ops.def.
 */
#include "compiler/graph/effects/effects.h"
#include "compiler/resilience/resilience.h"
#include "compiler/shim/shim.h"
#include "manifests/config.h"

#include <inttypes.h>
#include <string.h>

typedef bool (*check_fn)(MlirOperation op);

static MlirLocation where(MlirOperation op) { return mlirOperationGetLocation(op); }

/* ---- strings --------------------------------------------------------------------------------- */

static bool is_one_of(const char *text, const char *const *all) {
    for (; text && *all; all++)
        if (strcmp(text, *all) == 0) return true;
    return false;
}

/* An absent attribute is allowed. */
static bool check_choice(MlirOperation op, const char *name, tsr_diag_number number,
                         const char *const *all, const char *list) {
    const char *text = tsr_op_string(op, name);
    if (!tsr_op_has(op, name) || is_one_of(text, all)) return true;
    tsr_diag_error(where(op), number, "%s: %s is \"%s\", must be %s", tsr_op_name(op), name,
                   text ? text : "no string", list);
    return false;
}

/* ---- regions --------------------------------------------------------------------------------- */

static bool check_yield(MlirOperation op, size_t first) {
    MlirBlock block = tsr_sr_body(op);
    MlirOperation last =
        mlirBlockIsNull(block) ? (MlirOperation){NULL} : mlirBlockGetTerminator(block);
    bool yields = tsr_op_is(last, TSR_GRAPH_YIELD);
    size_t results = tsr_op_result_count(op) - first;
    size_t values = yields ? tsr_op_operand_count(last) : 0;
    if (!mlirOperationIsNull(last) && !yields) {
        tsr_diag_error(where(last), TSR_DIAG_SR_REGION,
                       "%s: a region ends with tessera.yield or nothing, not with %s",
                       tsr_op_name(op), tsr_op_name(last));
        return false;
    }
    if (!mlirBlockIsNull(block) && mlirBlockGetNumArguments(block) > 0) {
        tsr_diag_error(where(op), TSR_DIAG_SR_REGION, "%s: its block has %zd arguments, needs none",
                       tsr_op_name(op), mlirBlockGetNumArguments(block));
        return false;
    }
    if (values != results) {
        tsr_diag_error(where(op), TSR_DIAG_SR_REGION, "%s: yields %zu values, but has %zu results",
                       tsr_op_name(op), values, results);
        return false;
    }
    for (size_t i = 0; i < values; i++) {
        if (mlirTypeEqual(mlirValueGetType(tsr_op_operand(last, i)),
                          mlirValueGetType(tsr_op_result(op, first + i))))
            continue;
        tsr_diag_error(where(last), TSR_DIAG_SR_REGION,
                       "%s: the type of yielded value %zu differs from the result's",
                       tsr_op_name(op), i);
        return false;
    }
    return true;
}

static bool check_policy(MlirOperation op) {
    static const char *const policies[] = {"full", "selective", "none", NULL};
    int64_t budget = 0;
    if (!check_choice(op, "policy", TSR_DIAG_SR_POLICY, policies,
                      "\"full\", \"selective\" or \"none\""))
        return false;
    if (!tsr_op_i64(op, "budget_bytes", &budget) || budget >= 0) return true;
    tsr_diag_error(where(op), TSR_DIAG_SR_POLICY,
                   "%s: budget_bytes is %" PRId64 ", needs at least 0", tsr_op_name(op), budget);
    return false;
}

static bool check_checkpoint(MlirOperation op) { return check_policy(op) && check_yield(op, 0); }

static bool check_region(MlirOperation op) {
    static const char *const modes[] = {"replay", "restart", NULL};
    return check_choice(op, "mode", TSR_DIAG_SR_MODE, modes, "\"replay\" or \"restart\"") &&
           check_yield(op, 1);
}

static bool check_suspend(MlirOperation op) {
    return tsr_effects_check(op, "effects", true) && check_yield(op, 0);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

enum { ORDERED_MAX = 64 }; /* maximum operands of one op */
static_assert(TSR_SR_VALUES_MAX == 12, "the messages below say so");

static bool fail_order(MlirOperation op, const char *text) {
    tsr_diag_error(where(op), TSR_DIAG_SR_ORDER, "%s: %s", tsr_op_name(op), text);
    return false;
}

/* Tensors come first, then tokens; counts the tensors. */
static bool check_order(MlirOperation op, bool results, size_t *out_tensors) {
    size_t count = results ? tsr_op_result_count(op) : tsr_op_operand_count(op), tensors = 0;
    for (size_t i = 0; i < count; i++) {
        MlirType type = mlirValueGetType(results ? tsr_op_result(op, i) : tsr_op_operand(op, i));
        if (tsr_sr_is_token(type)) continue;
        if (!mlirTypeIsARankedTensor(type))
            return fail_order(op, "a value is neither a ranked tensor nor a token");
        if (tensors != i) return fail_order(op, "a tensor comes after a token");
        tensors++;
    }
    *out_tensors = tensors;
    return true;
}

/* Checks that the op has one result, a token; `tensors` receives the number of operands that are
 * not tokens. */
static bool check_token_op(MlirOperation op, size_t *out_tensors) {
    const char *name = tsr_op_string(op, "name");
    size_t made = 0;
    if (!name || !tsr_name_valid(name))
        return fail_order(op, "its name is empty, too long or not text");
    if (tsr_op_operand_count(op) > ORDERED_MAX)
        return fail_order(op, "takes more than 64 values and tokens");
    if (!check_order(op, false, out_tensors) || !check_order(op, true, &made)) return false;
    if (tsr_op_result_count(op) - made == 1) return true;
    return fail_order(op, "its last result, and no other, must be a token");
}

static bool check_enter(MlirOperation op) {
    size_t tensors = 0;
    if (!check_token_op(op, &tensors)) return false;
    if (tensors || tsr_op_result_count(op) != 1)
        return fail_order(op, "takes only tokens and returns one");
    static const char *const modes[] = {"replay", "restart", NULL};
    return check_choice(op, "mode", TSR_DIAG_SR_MODE, modes, "\"replay\" or \"restart\"");
}

static bool check_leave(MlirOperation op) {
    size_t tensors = 0;
    if (!check_token_op(op, &tensors)) return false;
    if (tsr_op_result_count(op) != 1) return fail_order(op, "returns one token and nothing else");
    if (tensors > TSR_SR_VALUES_MAX) return fail_order(op, "yields more than 12 values");
    return true;
}

/* Checks that values `first` … and those `count` further on have equal types. */
static bool check_pairs(MlirOperation op, size_t count, bool with_results) {
    for (size_t i = 0; i < count; i++) {
        MlirValue a = tsr_op_operand(op, i);
        MlirValue b = with_results ? tsr_op_result(op, i) : tsr_op_operand(op, count + i);
        if (!mlirTypeEqual(mlirValueGetType(a), mlirValueGetType(b)))
            return fail_order(op, "a value and its tensor differ in type");
    }
    return true;
}

static bool check_export_begin(MlirOperation op) {
    size_t tensors = 0;
    if (!check_token_op(op, &tensors)) return false;
    if (tensors % 2 || tsr_op_result_count(op) != 1)
        return fail_order(op, "takes one tensor for each value and returns one token");
    if (tensors > 2 * TSR_SR_VALUES_MAX) return fail_order(op, "takes more than 12 values");
    return check_pairs(op, tensors / 2, false);
}

static bool check_import_begin(MlirOperation op) {
    size_t tensors = 0;
    if (!check_token_op(op, &tensors)) return false;
    if (tsr_op_result_count(op) != tensors + 1)
        return fail_order(op, "returns one value for each tensor, and a token");
    if (tensors > TSR_SR_VALUES_MAX) return fail_order(op, "returns more than 12 values");
    return check_pairs(op, tensors, true);
}

static bool check_name(MlirOperation op) {
    const char *name = tsr_op_string(op, "name");
    if (name && tsr_name_valid(name)) return true;
    return fail_order(op, "its name is empty, too long or not text");
}

static bool check_nothing(MlirOperation op) {
    TSR_ASSERT(!mlirOperationIsNull(op));
    return true;
}

/* ---- manifest -------------------------------------------------------------------------------- */

static bool check_manifest(MlirOperation op) {
    static const char *const parts[] = {"mesh",        "pipeline", "optimizer", "checkpoint",
                                        "collectives", "stages",   NULL};
    const char *path = tsr_op_string(op, "path");
    MlirAttribute include = tsr_op_attr(op, "include");
    if (path && !path[0]) {
        tsr_diag_error(where(op), TSR_DIAG_SR_MANIFEST, "%s: path is empty", tsr_op_name(op));
        return false;
    }
    if (path && (strchr(path, '/') || path[0] == '.')) {
        tsr_diag_error(
            where(op), TSR_DIAG_SR_MANIFEST,
            "%s: path is \"%s\"; expected the name of a file, which is written next to the "
            "bundle",
            tsr_op_name(op), path);
        return false;
    }
    for (intptr_t i = 0; !mlirAttributeIsNull(include) && i < mlirArrayAttrGetNumElements(include);
         i++) {
        const char *part = tsr_attr_string(mlirArrayAttrGetElement(include, i));
        if (is_one_of(part, parts)) continue;
        tsr_diag_error(where(op), TSR_DIAG_SR_MANIFEST,
                       "%s: include[%zd] is \"%s\", must be \"mesh\", \"pipeline\", \"optimizer\", "
                       "\"checkpoint\", \"collectives\" or \"stages\"",
                       tsr_op_name(op), i, part ? part : "");
        return false;
    }
    return true;
}

/* ---- sharding -------------------------------------------------------------------------------- */

static bool check_same_values(MlirOperation op) {
    size_t inputs = tsr_op_operand_count(op), results = tsr_op_result_count(op);
    if (inputs == 0 || inputs != results) {
        tsr_diag_error(
            where(op), TSR_DIAG_SR_SHARD,
            "%s: has %zu operands and %zu results; needs at least one, and the same number of both",
            tsr_op_name(op), inputs, results);
        return false;
    }
    for (size_t i = 0; i < inputs; i++) {
        MlirType type = mlirValueGetType(tsr_op_operand(op, i));
        if (!mlirTypeEqual(type, mlirValueGetType(tsr_op_result(op, i)))) {
            tsr_diag_error(where(op), TSR_DIAG_SR_SHARD,
                           "%s: the type of result %zu differs from the operand's", tsr_op_name(op),
                           i);
            return false;
        }
        if (mlirTypeIsATensor(type) || tsr_shim_is_opt_state(type)) continue;
        tsr_diag_error(where(op), TSR_DIAG_SR_SHARD,
                       "%s: operand %zu is neither a tensor nor !tessera.opt.state",
                       tsr_op_name(op), i);
        return false;
    }
    return true;
}

/* `shard`, `partition` or `offload`, which is #tessera.<mnemonic>; its text goes to *out_text. */
static bool check_attr(MlirOperation op, const char *name, const char *mnemonic,
                       const char **out_text) {
    MlirAttribute attr = tsr_op_attr(op, name), text = {NULL}, mesh = {NULL};
    const char *is = "";
    if (mlirAttributeIsNull(attr)) return true;
    if (tsr_shim_opt_attr(attr, &is, &text, &mesh) && strcmp(is, mnemonic) == 0) {
        *out_text = tsr_attr_string(text);
        return true;
    }
    tsr_diag_error(where(op), TSR_DIAG_SR_SHARD, "%s: %s is not a #tessera.%s", tsr_op_name(op),
                   name, mnemonic);
    return false;
}

static bool check_mesh(MlirOperation op) {
    MlirAttribute mesh = tsr_op_attr(op, "mesh");
    bool done = mlirAttributeIsNull(mesh) || tsr_attr_string(mesh);
    if (!done && mlirAttributeIsAArray(mesh)) {
        done = mlirArrayAttrGetNumElements(mesh) > 0;
        for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(mesh); i++)
            done = done && tsr_attr_string(mlirArrayAttrGetElement(mesh, i));
    }
    if (done) return true;
    tsr_diag_error(where(op), TSR_DIAG_SR_MESH,
                   "%s: mesh must be names of axes: \"dataxmodel\" or [\"data\", \"model\"]",
                   tsr_op_name(op));
    return false;
}

static bool check_shard(MlirOperation op) {
    static const char *const policies[] = {"zero1", "zero2", "zero3", NULL};
    static const char *const memories[] = {"host", "nvme", NULL};
    const char *axis = NULL, *policy = NULL, *memory = NULL;
    if (!check_same_values(op) || !check_mesh(op) || !check_attr(op, "shard", "opt.shard", &axis) ||
        !check_attr(op, "partition", "opt.partition", &policy) ||
        !check_attr(op, "offload", "opt.offload", &memory))
        return false;
    if (policy && !is_one_of(policy, policies)) {
        tsr_diag_error(where(op), TSR_DIAG_SR_SHARD,
                       "%s: partition is \"%s\", must be \"zero1\", \"zero2\" or \"zero3\"",
                       tsr_op_name(op), policy);
        return false;
    }
    if (memory && !is_one_of(memory, memories)) {
        tsr_diag_error(where(op), TSR_DIAG_SR_SHARD,
                       "%s: offload is \"%s\", must be \"host\" or \"nvme\"", tsr_op_name(op),
                       memory);
        return false;
    }
    return check_choice(op, "policy", TSR_DIAG_SR_SHARD, policies,
                        "\"zero1\", \"zero2\" or \"zero3\"");
}

/* ---- products -------------------------------------------------------------------------------- */

static bool check_gemm(MlirOperation op) {
    tsr_type a, b, c;
    char a_text[TSR_TYPE_TEXT_MAX], b_text[TSR_TYPE_TEXT_MAX], c_text[TSR_TYPE_TEXT_MAX];
    bool known = tsr_value_type(tsr_op_operand(op, 0), &a) &&
                 tsr_value_type(tsr_op_operand(op, 1), &b) &&
                 tsr_value_type(tsr_op_result(op, 0), &c);
    bool fits = known && a.shape.rank == 2 && b.shape.rank == 2 && c.shape.rank == 2 &&
                a.dtype == b.dtype && tsr_dtype_is_float(a.dtype) && tsr_dtype_is_float(c.dtype) &&
                tsr_dim_fits(a.shape.dims[1], b.shape.dims[0]) &&
                tsr_dim_fits(a.shape.dims[0], c.shape.dims[0]) &&
                tsr_dim_fits(b.shape.dims[1], c.shape.dims[1]);
    if (fits) return true;
    if (known)
        tsr_diag_error(where(op), TSR_DIAG_DIMENSION,
                       "tessera.tile.gemm: [M, K] times [K, N] gives [M, N] of floats; has %s, %s "
                       "and %s",
                       tsr_type_text(&a, a_text), tsr_type_text(&b, b_text),
                       tsr_type_text(&c, c_text));
    else
        tsr_diag_error(where(op), TSR_DIAG_DTYPE,
                       "tessera.tile.gemm: operands and result must be tensors of floats");
    return false;
}

static bool check_barrier(MlirOperation op) {
    size_t inputs = 0, results = 0;
    if (!check_order(op, false, &inputs) || !check_order(op, true, &results)) return false;
    bool done =
        tsr_op_result_count(op) > 0 && results <= inputs && tsr_op_result_count(op) - results <= 1;
    for (size_t i = 0; i < results && done; i++)
        done = mlirTypeEqual(mlirValueGetType(tsr_op_operand(op, i)),
                             mlirValueGetType(tsr_op_result(op, i)));
    if (!done)
        tsr_diag_error(where(op), TSR_DIAG_SR_BARRIER,
                       "%s: %zu results must have the types of the first of %zu operands",
                       tsr_op_name(op), results, inputs);
    return done;
}

/* ---- collectives ----------------------------------------------------------------------------- */

static bool fail_collective(MlirOperation op, const char *text) {
    tsr_diag_error(where(op), TSR_DIAG_SR_COLLECTIVE, "%s: %s", tsr_op_name(op), text);
    return false;
}

/* Checks that all operands are static tensors, all of the first one's type if `same`; counts their
 * elements. */
static bool check_inputs(MlirOperation op, bool same, uint64_t *out_count, tsr_type *out_type) {
    uint64_t sum = 0, count = 0;
    if (tsr_op_operand_count(op) == 0) return fail_collective(op, "needs at least one operand");
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        MlirValue value = tsr_op_operand(op, i);
        tsr_type type;
        if (!tsr_value_type(value, &type) || !tsr_type_is_static(&type) ||
            !tsr_shape_count(&type.shape, &count))
            return fail_collective(op, "operands must be static tensors");
        if (i == 0) *out_type = type;
        if (type.dtype != out_type->dtype)
            return fail_collective(op, "operands differ in element type");
        if (same && !tsr_shape_equal(&type.shape, &out_type->shape))
            return fail_collective(op, "operands differ in shape");
        if (!same && type.shape.rank != 1)
            return fail_collective(op, "slices must have one dimension");
        if (__builtin_add_overflow(sum, count, &sum))
            return fail_collective(op, "operands have too many elements");
    }
    *out_count = same ? count : sum;
    return true;
}

static bool check_all_reduce(MlirOperation op) {
    uint64_t count;
    tsr_type type, result;
    if (!check_inputs(op, true, &count, &type)) return false;
    if (tsr_value_type(tsr_op_result(op, 0), &result) && result.dtype == type.dtype &&
        tsr_shape_equal(&result.shape, &type.shape))
        return true;
    return fail_collective(op, "the result's type differs from the operands'");
}

static bool check_broadcast(MlirOperation op) {
    if (tsr_op_operand_count(op) != 1) return fail_collective(op, "needs one operand");
    return check_all_reduce(op);
}

static bool check_join(MlirOperation op) {
    uint64_t count, has;
    tsr_type type, result;
    if (!check_inputs(op, false, &count, &type)) return false;
    if (tsr_value_type(tsr_op_result(op, 0), &result) && result.dtype == type.dtype &&
        tsr_type_is_static(&result) && tsr_shape_count(&result.shape, &has) && has == count)
        return true;
    return fail_collective(op, "the result does not hold the elements of all slices");
}

static bool check_take(MlirOperation op) {
    uint64_t count;
    int64_t begin = 0, end = 0, position = 0;
    tsr_type type, result;
    if (!check_inputs(op, true, &count, &type)) return false;
    if (!tsr_op_i64(op, "begin", &begin) || !tsr_op_i64(op, "end", &end) ||
        !tsr_op_i64(op, "position", &position) || begin < 0 || end < begin || position < 0 ||
        (uint64_t)end > count) {
        tsr_diag_error(where(op), TSR_DIAG_SR_COLLECTIVE,
                       "%s: [%" PRId64 ", %" PRId64 ") at position %" PRId64
                       " is not a range of %" PRIu64 " elements",
                       tsr_op_name(op), begin, end, position, count);
        return false;
    }
    if (tsr_value_type(tsr_op_result(op, 0), &result) && result.dtype == type.dtype &&
        result.shape.rank == 1 && result.shape.dims[0] == (uint64_t)(end - begin))
        return true;
    return fail_collective(op, "the result does not hold the elements of its range");
}

static bool check_slice(MlirOperation op) {
    if (tsr_op_operand_count(op) != 1) return fail_collective(op, "needs one operand");
    return check_take(op);
}

static bool check_squares(MlirOperation op) {
    tsr_type of, result;
    bool fits = tsr_value_type(tsr_op_operand(op, 0), &of) &&
                tsr_value_type(tsr_op_result(op, 0), &result) && tsr_type_is_static(&of) &&
                tsr_type_is_static(&result) &&
                (result.dtype == of.dtype || result.dtype == TSR_DTYPE_F64) &&
                (of.dtype == TSR_DTYPE_F32 || of.dtype == TSR_DTYPE_F64) &&
                result.shape.rank == 1 && result.shape.dims[0] > 0;
    return fits || fail_collective(op, "the result is not one sum of squares for each part");
}

/* ---- virtual ranks --------------------------------------------------------------------------- */

static bool fail_vrank(MlirOperation op) {
    tsr_diag_error(where(op), TSR_DIAG_SR_COLLECTIVE,
                   "%s: the result's type differs from the type that a virtual rank has",
                   tsr_op_name(op));
    return false;
}

static bool check_vrank(MlirOperation op) {
    tsr_type type;
    bool fits = tsr_value_type(tsr_op_result(op, 0), &type) && type.dtype == TSR_DTYPE_I64 &&
                type.shape.rank == 0;
    return fits || fail_vrank(op);
}

/* One type is the other with the first dim multiplied. */
static bool check_times(MlirOperation op, MlirValue larger, MlirValue smaller) {
    tsr_type all, part;
    bool fits = tsr_value_type(larger, &all) && tsr_value_type(smaller, &part) &&
                tsr_type_is_static(&all) && tsr_type_is_static(&part) && all.dtype == part.dtype &&
                all.shape.rank == part.shape.rank && part.shape.rank > 0 &&
                part.shape.dims[0] > 0 && all.shape.dims[0] % part.shape.dims[0] == 0;
    for (uint32_t i = 1; fits && i < all.shape.rank; i++)
        fits = all.shape.dims[i] == part.shape.dims[i];
    return fits || fail_vrank(op);
}

/* Only inputs can be split into rows: a computed value is not sharded. */
static bool check_vrank_rows(MlirOperation op) {
    if (!mlirValueIsABlockArgument(tsr_op_operand(op, 0))) {
        tsr_diag_error(where(op), TSR_DIAG_SR_COLLECTIVE,
                       "%s: the operand is not an argument of the function", tsr_op_name(op));
        return false;
    }
    return check_times(op, tsr_op_operand(op, 0), tsr_op_result(op, 0));
}

static bool check_vrank_gather(MlirOperation op) {
    return check_times(op, tsr_op_result(op, 0), tsr_op_operand(op, 0));
}

static bool check_vrank_sum(MlirOperation op) {
    tsr_type type;
    bool fits = tsr_value_type(tsr_op_result(op, 0), &type) &&
                (type.dtype == TSR_DTYPE_F32 || type.dtype == TSR_DTYPE_F64 ||
                 type.dtype == TSR_DTYPE_I64) &&
                mlirTypeEqual(mlirValueGetType(tsr_op_operand(op, 0)),
                              mlirValueGetType(tsr_op_result(op, 0)));
    return fits || fail_vrank(op);
}

static bool check_vrank_all_to_all(MlirOperation op) {
    tsr_type type;
    bool fits = tsr_value_type(tsr_op_result(op, 0), &type) && tsr_type_is_static(&type) &&
                type.shape.rank > 0 &&
                mlirTypeEqual(mlirValueGetType(tsr_op_operand(op, 0)),
                              mlirValueGetType(tsr_op_result(op, 0)));
    return fits || fail_vrank(op);
}

/* True if the part is the whole with its first dim divided. */
static bool divides_rows(const tsr_shape *all, const tsr_shape *one) {
    bool fits = all->rank == one->rank && one->rank > 1 && one->dims[0] > 0 &&
                all->dims[0] % one->dims[0] == 0;
    for (uint32_t i = 1; fits && i < all->rank; i++) fits = all->dims[i] == one->dims[i];
    return fits;
}

/* Checks that `part` is a vector with the number of elements of each part of the whole, or rows of
 * the whole. */
static bool check_parts(MlirOperation op, MlirValue whole, MlirValue part) {
    tsr_type all, one;
    uint64_t count = 0;
    bool fits = tsr_value_type(whole, &all) && tsr_value_type(part, &one) &&
                tsr_type_is_static(&all) && tsr_type_is_static(&one) && all.dtype == one.dtype &&
                tsr_shape_count(&all.shape, &count);
    bool line = fits && one.shape.rank == 1 && one.shape.dims[0] <= count &&
                (one.shape.dims[0] > 0 || count == 0);
    return line || (fits && divides_rows(&all.shape, &one.shape)) || fail_vrank(op);
}

static bool check_vrank_part(MlirOperation op) {
    return check_parts(op, tsr_op_operand(op, 0), tsr_op_result(op, 0));
}

static bool check_vrank_join(MlirOperation op) {
    return check_parts(op, tsr_op_result(op, 0), tsr_op_operand(op, 0));
}

/* ---- the table ------------------------------------------------------------------------------- */

static const check_fn checks[TSR_OP_COUNT] = {
#define X(ID, name, DIALECT, Class, rule, CANONICAL) [TSR_SR_##ID] = check_##rule,
#include "compiler/resilience/ops.def"
#undef X
};

bool tsr_sr_policy_read(MlirOperation op, tsr_sr_policy *out_policy) {
    const char *text = tsr_op_string(op, "policy");
    if (!text || strcmp(text, "selective") == 0)
        *out_policy = TSR_SR_SELECTIVE;
    else if (strcmp(text, "full") == 0)
        *out_policy = TSR_SR_FULL;
    else if (strcmp(text, "none") == 0)
        *out_policy = TSR_SR_NONE;
    else
        return false;
    return true;
}

bool tsr_sr_verify_op(MlirOperation op) {
    tsr_op id = tsr_op_of(op);
    TSR_ASSERT(tsr_op_dialect(id) == TSR_DIALECT_SR);
    return checks[id](op);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions with a way to round, codes of number formats, quantisation. ../NUMERICS.md is
 * normative.
 *
 * Outline: what casts and encode accept · blocks and their scales · lowering.
 */
#include "compiler/graph/rules.h"
#include "runtime/base/array.h"
#include "runtime/base/format.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- casts, encode, decode ------------------------------------------------------------------- */

static bool check_rounding(const tsr_rule *rule, tsr_rounding *out_rounding) {
    const char *text = tsr_op_string(rule->op, "rounding");
    *out_rounding = TSR_ROUND_NEAREST_EVEN;
    if (!text || tsr_rounding_from_name(text, out_rounding)) return true;
    return tsr_rule_fail(rule, TSR_DIAG_ROUNDING,
                         "rounding is \"%s\", must be \"nearest_even\", \"toward_zero\", \"up\", "
                         "\"down\" or \"stochastic\"",
                         text);
}

static bool is_integer(tsr_dtype dtype) { return TSR_DTYPES_INTEGER >> dtype & 1; }

bool tsr_check_cast(tsr_rule *rule) {
    tsr_dtype from = rule->operands[0].dtype, to = rule->declared[0].dtype;
    bool is_float = (TSR_DTYPES_FLOAT >> from & 1) || tsr_dtype_is_small(from);
    bool rounds = tsr_format_of(to) || (is_float && is_integer(to));
    bool saturates = tsr_format_of(to) || is_integer(to);
    tsr_rounding rounding;
    rule->results[0].shape = rule->operands[0].shape;
    if (!check_rounding(rule, &rounding)) return false;
    if (rounding == TSR_ROUND_STOCHASTIC)
        return tsr_rule_fail(rule, TSR_DIAG_ROUNDING,
                             "rounding is \"stochastic\", which needs random bits; "
                             "tessera.encode and tessera.quant take them");
    if (tsr_op_has(rule->op, "rounding") && !rounds)
        return tsr_rule_fail(rule, TSR_DIAG_ROUNDING,
                             "rounding is \"%s\" from %s to %s; only a float can be rounded, to an "
                             "integer or to a float of at most 16 bits",
                             tsr_rounding_name(rounding), tsr_dtype_name(from), tsr_dtype_name(to));
    if (tsr_op_has(rule->op, "saturate") && !saturates)
        return tsr_rule_fail(rule, TSR_DIAG_ROUNDING,
                             "saturate has no meaning from %s to %s; the result must be an integer "
                             "or a float of at most 16 bits",
                             tsr_dtype_name(from), tsr_dtype_name(to));
    return true;
}

static const char *const format_words =
    "\"bf16\", \"f16\", \"f8E5M2\", \"f8E4M3FN\", \"f8E8M0FNU\" or \"f4E2M1FN\"";

static const tsr_format *check_format(const tsr_rule *rule) {
    const char *text = tsr_op_string(rule->op, "format");
    const tsr_format *format = text ? tsr_format_from_name(text) : NULL;
    if (!format)
        tsr_rule_fail(rule, TSR_DIAG_FORMAT, "format is \"%s\", must be %s", text ? text : "",
                      format_words);
    return format;
}

static tsr_dtype code_dtype(const tsr_format *format) {
    return format->bits == 16 ? TSR_DTYPE_UI16 : TSR_DTYPE_UI8;
}

/* Stochastic rounding has random bits as operand `index`; other roundings have none. */
static bool check_random(const tsr_rule *rule, tsr_rounding rounding, size_t index) {
    const bool has = rule->operand_count > index, needs = rounding == TSR_ROUND_STOCHASTIC;
    if (has != needs)
        return tsr_rule_fail(
            rule, TSR_DIAG_ROUNDING, "rounding \"%s\" %s", tsr_rounding_name(rounding),
            needs ? "needs random bits: ui32 of the shape of the input" : "takes no random bits");
    if (!has) return true;
    return tsr_rule_dtype(rule, index, "random", 1 << TSR_DTYPE_UI32) &&
           tsr_rule_shape(rule, index, "random", &rule->operands[0].shape);
}

bool tsr_check_encode(tsr_rule *rule) {
    tsr_rounding rounding;
    const tsr_format *format = check_format(rule);
    if (!format || !tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_NUMBER) ||
        !check_rounding(rule, &rounding) || !check_random(rule, rounding, 1))
        return false;
    rule->results[0] = (tsr_type){code_dtype(format), rule->operands[0].shape};
    return true;
}

bool tsr_check_decode(tsr_rule *rule) {
    const tsr_format *format = check_format(rule);
    if (!format) return false;
    rule->results[0] = (tsr_type){TSR_DTYPE_F32, rule->operands[0].shape};
    return tsr_rule_dtype(rule, 0, "the operand", 1u << code_dtype(format));
}

/* ---- quantised numbers ----------------------------------------------------------------------- */

/* What quant makes of a number: a float format, or a signed integer. */
typedef struct target {
    const char *name;
    tsr_dtype dtype; /* of the result */
    const tsr_format *format;
    unsigned bits;
    double largest, largest_power;
} target;

static const struct {
    const char *name;
    tsr_dtype dtype;
    unsigned bits;
    double largest, largest_power;
} targets[] = {
    {"f8E4M3FN", TSR_DTYPE_F8E4M3FN, 8, 448, 256},
    {"f8E5M2", TSR_DTYPE_F8E5M2, 8, 57344, 32768},
    {"f4E2M1FN", TSR_DTYPE_UI8, 4, 6, 4},
    {"i8", TSR_DTYPE_I8, 8, 127, 64},
    {"i4", TSR_DTYPE_UI8, 4, 7, 4},
};

static bool find_target(const char *name, target *out_target) {
    for (size_t i = 0; i < TSR_COUNT(targets); i++) {
        if (strcmp(targets[i].name, name) != 0) continue;
        *out_target =
            (target){targets[i].name, targets[i].dtype,   tsr_format_from_name(targets[i].name),
                     targets[i].bits, targets[i].largest, targets[i].largest_power};
        return true;
    }
    return false;
}

static bool fail_target(const tsr_rule *rule, const char *text) {
    return tsr_rule_fail(
        rule, TSR_DIAG_FORMAT,
        "format is \"%s\", must be \"f8E4M3FN\", \"f8E5M2\", \"f4E2M1FN\", \"i8\" or \"i4\"", text);
}

/* From attribute `format`, or from the type of the quantised numbers. */
static bool check_target(const tsr_rule *rule, const tsr_type *quantised, target *out_target) {
    const char *text = tsr_op_string(rule->op, "format");
    const char *name = text ? text : tsr_dtype_name(quantised->dtype);
    if (!text && quantised->dtype == TSR_DTYPE_UI8)
        return tsr_rule_fail(rule, TSR_DIAG_FORMAT,
                             "has ui8 without a format; write format = \"f4E2M1FN\" or \"i4\"");
    if (!find_target(name, out_target)) return fail_target(rule, name);
    if (out_target->dtype == quantised->dtype) return true;
    return tsr_rule_fail(rule, TSR_DIAG_FORMAT, "format \"%s\" has elements of %s, not of %s", name,
                         tsr_dtype_name(out_target->dtype), tsr_dtype_name(quantised->dtype));
}

/* Two numbers of 4 bits share a byte. */
static bool check_packed(const tsr_rule *rule, const target *to, const tsr_shape *whole,
                         tsr_shape *out_packed) {
    *out_packed = *whole;
    if (to->bits == 8) return true;
    uint64_t *last = whole->rank ? &out_packed->dims[whole->rank - 1] : NULL;
    if (last && tsr_dim_is_known(*last) && *last % 2 == 0) {
        *last /= 2;
        return true;
    }
    return tsr_rule_fail(rule, TSR_DIAG_FORMAT,
                         "packs two numbers of %s into a byte; the last dim must be known and even",
                         to->name);
}

static const unsigned scale_dtypes = 1 << TSR_DTYPE_F32 | 1 << TSR_DTYPE_BF16 | 1 << TSR_DTYPE_F16 |
                                     1 << TSR_DTYPE_F8E4M3FN | 1 << TSR_DTYPE_F8E8M0FNU;

/* One scale, or one for each block: each dim divides the dim of `whole`. */
static bool check_blocks(const tsr_rule *rule, const tsr_type *scale, const tsr_shape *whole) {
    uint32_t blocked = 0;
    if (!(scale_dtypes >> scale->dtype & 1))
        return tsr_rule_fail(rule, TSR_DIAG_QUANT,
                             "scales are %s, must be f32, bf16, f16, f8E4M3FN or f8E8M0FNU",
                             tsr_dtype_name(scale->dtype));
    if (!scale->shape.rank) return true;
    if (scale->shape.rank != whole->rank)
        return tsr_rule_fail(rule, TSR_DIAG_QUANT,
                             "scales have %" PRIu32 " dims, must have %" PRIu32
                             " as the input has, or none",
                             scale->shape.rank, whole->rank);
    for (uint32_t i = 0; i < whole->rank; i++) {
        uint64_t part = scale->shape.dims[i], all = whole->dims[i];
        if (tsr_dim_fits(part, all) || part == 1) continue;
        char texts[2][TSR_DIM_TEXT_MAX];
        if (!tsr_dim_is_known(part) || !tsr_dim_is_known(all) || !part || all % part)
            return tsr_rule_fail(rule, TSR_DIAG_QUANT,
                                 "dim %" PRIu32 " of the scales is %s, which does not divide dim "
                                 "%" PRIu32 " of the input, %s",
                                 i, tsr_dim_text(part, texts[0]), i, tsr_dim_text(all, texts[1]));
        blocked++;
    }
    if (whole->rank + blocked <= TSR_RANK_MAX) return true;
    return tsr_rule_fail(rule, TSR_DIAG_QUANT,
                         "has %" PRIu32 " dims and blocks along %" PRIu32
                         " of them; their sum must be at most %d",
                         whole->rank, blocked, TSR_RANK_MAX);
}

static bool check_tensor_scale(const tsr_rule *rule, size_t index) {
    return rule->operand_count <= index ||
           (tsr_rule_dtype(rule, index, "tensor_scale", 1 << TSR_DTYPE_F32) &&
            tsr_rule_rank(rule, index, "tensor_scale", 0));
}

static const unsigned quantised_from =
    1 << TSR_DTYPE_F32 | 1 << TSR_DTYPE_BF16 | 1 << TSR_DTYPE_F16;

bool tsr_check_quant_scale(tsr_rule *rule) {
    static const char *const words[] = {"floor", "nearest_even", "ceil", NULL};
    const char *text = tsr_op_string(rule->op, "format");
    const char *rounding = tsr_op_string(rule->op, "scale_rounding");
    const tsr_type *input = &rule->operands[0];
    target to;
    bool known = !rounding;
    for (size_t i = 0; words[i] && !known; i++) known = strcmp(words[i], rounding) == 0;
    if (!known)
        return tsr_rule_fail(
            rule, TSR_DIAG_ROUNDING,
            "scale_rounding is \"%s\", must be \"floor\", \"nearest_even\" or \"ceil\"", rounding);
    if (!text || !find_target(text, &to)) return fail_target(rule, text ? text : "");
    rule->results[0] = rule->declared[0];
    return tsr_rule_dtype(rule, 0, "the operand", quantised_from) && check_tensor_scale(rule, 1) &&
           check_blocks(rule, &rule->declared[0], &input->shape);
}

/* The operands after the scales: tensor_scale, which has no dims, and random. */
static size_t random_index(const tsr_rule *rule) {
    bool has_scale = rule->operand_count > 2 && rule->operands[2].dtype == TSR_DTYPE_F32;
    return has_scale ? 3 : 2;
}

bool tsr_check_quant(tsr_rule *rule) {
    target to;
    tsr_rounding rounding;
    size_t random = random_index(rule);
    if (!tsr_rule_dtype(rule, 0, "the input", quantised_from) ||
        !check_target(rule, &rule->declared[0], &to) ||
        !check_blocks(rule, &rule->operands[1], &rule->operands[0].shape) ||
        (random == 3 && !check_tensor_scale(rule, 2)) || !check_rounding(rule, &rounding) ||
        !check_random(rule, rounding, random) || !tsr_rule_operand_count(rule, 2, random + 1))
        return false;
    if (rounding == TSR_ROUND_STOCHASTIC && !to.format)
        return tsr_rule_fail(rule, TSR_DIAG_ROUNDING,
                             "rounding \"stochastic\" is for float formats, not for %s", to.name);
    rule->results[0].dtype = to.dtype;
    return check_packed(rule, &to, &rule->operands[0].shape, &rule->results[0].shape);
}

bool tsr_check_dequant(tsr_rule *rule) {
    target from;
    tsr_shape packed;
    const tsr_type *whole = &rule->declared[0];
    if (!(quantised_from >> whole->dtype & 1))
        return tsr_rule_fail(rule, TSR_DIAG_RESULT_DTYPE,
                             "element type of the result is %s, must be f32, bf16 or f16",
                             tsr_dtype_name(whole->dtype));
    if (!check_target(rule, &rule->operands[0], &from) ||
        !check_packed(rule, &from, &whole->shape, &packed) ||
        !tsr_rule_shape(rule, 0, "the input", &packed) ||
        !check_blocks(rule, &rule->operands[1], &whole->shape) || !check_tensor_scale(rule, 2))
        return false;
    rule->results[0] = *whole;
    return true;
}

/* ---- lowering -------------------------------------------------------------------------------- */

static MlirValue build(tsr_builder *b, const char *name, const MlirValue *operands, size_t count,
                       tsr_dtype dtype, const tsr_attr *attrs) {
    tsr_type type = {dtype, tsr_type_of(operands[0]).shape};
    return tsr_build_value(b, name, operands, count, tsr_type_make(b->context, &type), attrs);
}

static MlirValue build_encode(tsr_builder *b, const tsr_format *format, const char *rounding,
                              bool saturates, MlirValue x, MlirValue random) {
    MlirValue operands[] = {x, random};
    tsr_attr attrs[4] = {{"format", tsr_attr_make_string(b->context, format->name)},
                         {"rounding", tsr_attr_make_string(b->context, rounding)}};
    if (saturates) attrs[2] = (tsr_attr){"saturate", tsr_attr_make_unit(b->context)};
    return build(b, TSR_GRAPH_NAME("encode"), operands, mlirValueIsNull(random) ? 1 : 2,
                 code_dtype(format), attrs);
}

static MlirValue build_decode(tsr_builder *b, const tsr_format *format, MlirValue codes) {
    tsr_attr attrs[] = {{"format", tsr_attr_make_string(b->context, format->name)}, {NULL}};
    return build(b, TSR_GRAPH_NAME("decode"), &codes, 1, TSR_DTYPE_F32, attrs);
}

static MlirValue build_bitcast(tsr_builder *b, MlirValue x, tsr_dtype dtype) {
    return build(b, TSR_GRAPH_NAME("bitcast"), &x, 1, dtype, NULL);
}

/* Saturating: NaN becomes 0. */
static MlirValue build_cast(tsr_builder *b, MlirValue x, tsr_dtype dtype, const char *rounding) {
    tsr_attr attrs[] = {{"rounding", tsr_attr_make_string(b->context, rounding)},
                        {"saturate", tsr_attr_make_unit(b->context)},
                        {NULL}};
    return build(b, TSR_GRAPH_NAME("cast"), &x, 1, dtype, attrs);
}

static const char *rounding_of(MlirOperation op) {
    const char *text = tsr_op_string(op, "rounding");
    return text ? text : tsr_rounding_name(TSR_ROUND_NEAREST_EVEN);
}

bool tsr_cast_is_plain(MlirOperation op) {
    return !tsr_op_has(op, "rounding") && !tsr_op_has(op, "saturate");
}

/* Of a cast to bf16 or f16 that says how it rounds: later stages know only plain ones. */
bool tsr_lower_cast(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue x = tsr_op_operand(op, 0);
    tsr_dtype to = tsr_type_of(tsr_op_result(op, 0)).dtype;
    if (tsr_dtype_is_small(tsr_type_of(x).dtype)) x = tsr_emit_cast(&b, x, TSR_DTYPE_F32);
    MlirValue codes = build_encode(&b, tsr_format_of(to), rounding_of(op),
                                   tsr_op_flag(op, "saturate"), x, (MlirValue){NULL});
    MlirValue value = build_bitcast(&b, codes, to);
    tsr_emit_replace(op, 1, &value);
    return true;
}

/* `whole` with each dim that has several scales split into blocks and elements of a block; the
 * dims of the scales are aligned with it. */
typedef struct blocks {
    tsr_shape whole, scales;
    int64_t inside[TSR_RANK_MAX]; /* dims of elements of a block */
    size_t inside_count;
} blocks;

static blocks split_blocks(const tsr_shape *whole, const tsr_shape *scales) {
    blocks split = {0};
    for (uint32_t i = 0; i < whole->rank; i++) {
        uint64_t all = whole->dims[i], parts = scales->rank ? scales->dims[i] : 1;
        bool is_split = parts != all && parts != 1;
        split.whole.dims[split.whole.rank++] = is_split ? parts : all;
        split.scales.dims[split.scales.rank++] = parts;
        if (is_split) {
            split.whole.dims[split.whole.rank++] = all / parts;
            split.scales.dims[split.scales.rank++] = 1;
        }
        if (parts != all) split.inside[split.inside_count++] = split.whole.rank - 1;
    }
    return split;
}

static MlirValue number(tsr_builder *b, double value) {
    return tsr_emit_constant(b, TSR_DTYPE_F32, value);
}

/* The largest magnitude of each block, f32. */
static MlirValue largest_of_blocks(tsr_builder *b, MlirValue x, const blocks *split) {
    MlirValue wide = tsr_emit_reshape(b, tsr_emit_cast(b, x, TSR_DTYPE_F32), &split->whole);
    MlirValue size = tsr_emit_unary(b, TSR_GRAPH_NAME("abs"), wide);
    return split->inside_count ? tsr_emit_reduce(b, TSR_GRAPH_NAME("reduce_max"), size,
                                                 split->inside_count, split->inside)
                               : size;
}

static const char *scale_rounding_of(MlirOperation op, tsr_dtype dtype) {
    const char *text = tsr_op_string(op, "scale_rounding");
    bool is_floor = text ? strcmp(text, "floor") == 0 : dtype == TSR_DTYPE_F8E8M0FNU;
    if (is_floor) return tsr_rounding_name(TSR_ROUND_TOWARD_ZERO);
    bool is_ceil = text && strcmp(text, "ceil") == 0;
    return tsr_rounding_name(is_ceil ? TSR_ROUND_UP : TSR_ROUND_NEAREST_EVEN);
}

/* The smallest positive number of a type of scales. */
static double least_scale(tsr_dtype dtype) {
    const tsr_format *format = tsr_format_of(dtype);
    if (!format) return 0x1p-126;
    return tsr_format_read(format, format->specials == TSR_SPECIALS_SCALE ? 0 : 1);
}

bool tsr_lower_quant_scale(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    tsr_type x = tsr_type_of(tsr_op_operand(op, 0)), scale = tsr_type_of(tsr_op_result(op, 0));
    blocks split = split_blocks(&x.shape, &scale.shape);
    target to;
    bool known = find_target(tsr_op_string(op, "format"), &to);
    TSR_ASSERT(known);
    MlirValue largest = largest_of_blocks(&b, tsr_op_operand(op, 0), &split);
    bool is_power = scale.dtype == TSR_DTYPE_F8E8M0FNU;
    double most = is_power ? to.largest_power : to.largest;
    MlirValue ratio = tsr_emit_div(&b, largest, number(&b, most));
    if (tsr_op_operand_count(op) > 1) ratio = tsr_emit_div(&b, ratio, tsr_op_operand(op, 1));
    MlirValue is_zero = tsr_emit_compare(&b, TSR_PREDICATE_EQ, largest, number(&b, 0));
    ratio = tsr_emit_binary(&b, TSR_GRAPH_NAME("max"), ratio, number(&b, least_scale(scale.dtype)));
    ratio = tsr_emit_where(&b, is_zero, number(&b, 1), ratio);
    ratio = tsr_emit_binary(&b, TSR_GRAPH_NAME("min"), ratio, number(&b, (double)FLT_MAX));
    MlirValue rounded = ratio;
    if (scale.dtype != TSR_DTYPE_F32)
        rounded = build_cast(&b, ratio, scale.dtype, scale_rounding_of(op, scale.dtype));
    rounded = tsr_emit_reshape(&b, rounded, &scale.shape);
    tsr_emit_replace(op, 1, &rounded);
    return true;
}

/* The scales, times the scale of the tensor, as f32, aligned with the split dims. */
static MlirValue wide_scales(tsr_builder *b, MlirOperation op, const blocks *split) {
    MlirValue scale = tsr_emit_cast(b, tsr_op_operand(op, 1), TSR_DTYPE_F32);
    bool has_more =
        tsr_op_operand_count(op) > 2 && tsr_type_of(tsr_op_operand(op, 2)).dtype == TSR_DTYPE_F32;
    if (tsr_type_of(scale).shape.rank) scale = tsr_emit_reshape(b, scale, &split->scales);
    return has_more ? tsr_emit_mul(b, scale, tsr_op_operand(op, 2)) : scale;
}

/* A factor for the first and for the second number of a byte. */
static MlirValue pair_of(tsr_builder *b, tsr_dtype dtype, uint32_t rank, const void *two) {
    tsr_type type = {dtype, {.rank = rank}};
    for (uint32_t i = 0; i < rank; i++) type.shape.dims[i] = i + 1 == rank ? 2 : 1;
    tsr_attr attrs[] = {{"value", tsr_attr_make_elements(b->context, &type, two)}, {NULL}};
    return tsr_build_value(b, TSR_GRAPH_NAME("constant"), NULL, 0, tsr_type_make(b->context, &type),
                           attrs);
}

/* The shape with the last dim halved and a dim of 2; with rank 8, the first two dims are one. */
static tsr_shape pairs_shape(const tsr_shape *whole) {
    tsr_shape pairs = {0};
    uint64_t before = 1;
    for (uint32_t i = 0; i + 1 < whole->rank; i++) before *= whole->dims[i];
    pairs.dims[pairs.rank++] = before;
    pairs.dims[pairs.rank++] = whole->dims[whole->rank - 1] / 2;
    pairs.dims[pairs.rank++] = 2;
    return pairs;
}

/* Codes of 4 bits, ui8, to bytes of two codes. */
static MlirValue pack(tsr_builder *b, MlirValue codes, const tsr_shape *packed) {
    static const int32_t factors[] = {1, 16};
    tsr_shape whole = tsr_type_of(codes).shape, pairs = pairs_shape(&whole);
    MlirValue wide = tsr_emit_cast(b, tsr_emit_reshape(b, codes, &pairs), TSR_DTYPE_I32);
    wide = tsr_emit_mul(b, wide, pair_of(b, TSR_DTYPE_I32, pairs.rank, factors));
    int64_t last = pairs.rank - 1;
    wide = tsr_emit_reduce(b, TSR_GRAPH_NAME("sum"), wide, 1, &last);
    return tsr_emit_reshape(b, tsr_emit_cast(b, wide, TSR_DTYPE_UI8), packed);
}

/* The reverse; bits above the codes are not zero. */
static MlirValue unpack(tsr_builder *b, MlirValue bytes, const tsr_shape *whole) {
    static const uint8_t shifts[] = {0, 4};
    tsr_shape pairs = pairs_shape(whole), one = pairs;
    one.dims[one.rank - 1] = 1;
    MlirValue both = tsr_emit_reshape(b, bytes, &one);
    both = tsr_emit_broadcast(b, both, &pairs);
    both = tsr_emit_binary(b, TSR_GRAPH_NAME("shift_right"), both,
                           pair_of(b, TSR_DTYPE_UI8, pairs.rank, shifts));
    return tsr_emit_reshape(b, both, whole);
}

/* f32 to the codes of i4, ui8: the low 4 bits of a number from -8 to 7. */
static MlirValue encode_i4(tsr_builder *b, MlirValue x, const char *rounding) {
    MlirValue low = tsr_emit_constant(b, TSR_DTYPE_I8, -8);
    MlirValue y = build_cast(b, x, TSR_DTYPE_I8, rounding);
    y = tsr_emit_binary(b, TSR_GRAPH_NAME("max"), y, low);
    y = tsr_emit_binary(b, TSR_GRAPH_NAME("min"), y, tsr_emit_constant(b, TSR_DTYPE_I8, 7));
    y = tsr_emit_binary(b, TSR_GRAPH_NAME("and"), y, tsr_emit_constant(b, TSR_DTYPE_I8, 15));
    return build_bitcast(b, y, TSR_DTYPE_UI8);
}

static MlirValue decode_i4(tsr_builder *b, MlirValue codes) {
    MlirValue four = tsr_emit_constant(b, TSR_DTYPE_I8, 4);
    MlirValue y = build_bitcast(b, codes, TSR_DTYPE_I8);
    y = tsr_emit_binary(b, TSR_GRAPH_NAME("shift_left"), y, four);
    y = tsr_emit_binary(b, TSR_GRAPH_NAME("shift_right"), y, four);
    return tsr_emit_cast(b, y, TSR_DTYPE_F32);
}

static MlirValue round_to(tsr_builder *b, const target *to, MlirOperation op, MlirValue x) {
    size_t last = tsr_op_operand_count(op) - 1;
    const char *rounding = rounding_of(op);
    MlirValue random = {NULL};
    if (strcmp(rounding, tsr_rounding_name(TSR_ROUND_STOCHASTIC)) == 0)
        random = tsr_op_operand(op, last);
    if (!to->format)
        return to->bits == 4 ? encode_i4(b, x, rounding) : build_cast(b, x, to->dtype, rounding);
    MlirValue codes = build_encode(b, to->format, rounding, true, x, random);
    return to->bits == 4 ? codes : build_bitcast(b, codes, to->dtype);
}

bool tsr_lower_quant(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    tsr_type x = tsr_type_of(tsr_op_operand(op, 0)), y = tsr_type_of(tsr_op_result(op, 0));
    tsr_type scale = tsr_type_of(tsr_op_operand(op, 1));
    blocks split = split_blocks(&x.shape, &scale.shape);
    const char *name = tsr_op_string(op, "format");
    target to;
    bool known = find_target(name ? name : tsr_dtype_name(y.dtype), &to);
    TSR_ASSERT(known);
    MlirValue wide = tsr_emit_cast(&b, tsr_op_operand(op, 0), TSR_DTYPE_F32);
    wide = tsr_emit_div(&b, tsr_emit_reshape(&b, wide, &split.whole), wide_scales(&b, op, &split));
    MlirValue result = round_to(&b, &to, op, tsr_emit_reshape(&b, wide, &x.shape));
    if (to.bits == 4) result = pack(&b, result, &y.shape);
    tsr_emit_replace(op, 1, &result);
    return true;
}

bool tsr_lower_dequant(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue codes = tsr_op_operand(op, 0), wide;
    tsr_type x = tsr_type_of(codes), y = tsr_type_of(tsr_op_result(op, 0));
    tsr_type scale = tsr_type_of(tsr_op_operand(op, 1));
    blocks split = split_blocks(&y.shape, &scale.shape);
    const char *name = tsr_op_string(op, "format");
    target from;
    bool known = find_target(name ? name : tsr_dtype_name(x.dtype), &from);
    TSR_ASSERT(known);
    if (from.bits == 4) codes = unpack(&b, codes, &y.shape);
    if (from.bits == 4)
        wide = from.format ? build_decode(&b, from.format, codes) : decode_i4(&b, codes);
    else
        wide = tsr_emit_cast(&b, codes, TSR_DTYPE_F32);
    wide = tsr_emit_mul(&b, tsr_emit_reshape(&b, wide, &split.whole), wide_scales(&b, op, &split));
    wide = tsr_emit_cast(&b, tsr_emit_reshape(&b, wide, &y.shape), y.dtype);
    tsr_emit_replace(op, 1, &wide);
    return true;
}

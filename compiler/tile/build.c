/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/build.h"

#include "compiler/tile/attributes.h"
#include "compiler/tile/open/extent.h"

#include <stdio.h>
#include <string.h>

const MlirValue tsr_tile_null = {NULL};

/* ---- types ----------------------------------------------------------------------------------- */

MlirType tsr_tile_index_type(tsr_tile_builder *b) { return mlirIndexTypeGet(b->at.context); }

bool tsr_dtype_is_narrow(tsr_dtype dtype) {
    return dtype == TSR_DTYPE_BF16 || dtype == TSR_DTYPE_F16;
}

tsr_dtype tsr_tile_compute_dtype(tsr_dtype dtype) {
    return tsr_dtype_is_narrow(dtype) ? TSR_DTYPE_F32 : dtype;
}

MlirType tsr_tile_storage_type(tsr_tile_builder *b, tsr_dtype dtype) {
    return tsr_dtype_make(b->at.context, tsr_dtype_stored(dtype));
}

MlirType tsr_tile_value_type(tsr_tile_builder *b, tsr_dtype dtype, uint32_t lanes) {
    MlirType element = dtype == TSR_DTYPE_I1
                           ? mlirIntegerTypeGet(b->at.context, 1)
                           : tsr_tile_storage_type(b, tsr_tile_compute_dtype(dtype));
    return tsr_tile_vector_type(element, lanes);
}

MlirType tsr_tile_vector_type(MlirType element, uint32_t lanes) {
    int64_t dim = lanes;
    return lanes ? mlirVectorTypeGet(1, &dim, element) : element;
}

MlirType tsr_tile_buffer_type(MlirType element, uint32_t rank, const int64_t *dims) {
    MlirAttribute none = mlirAttributeGetNull();
    return mlirMemRefTypeGet(element, rank, dims, none, none);
}

static MlirType element_of(MlirType type) {
    return mlirTypeIsAVector(type) ? mlirShapedTypeGetElementType(type) : type;
}

static uint32_t lanes_of(MlirValue value) {
    MlirType type = mlirValueGetType(value);
    return mlirTypeIsAVector(type) ? (uint32_t)mlirShapedTypeGetDimSize(type, 0) : 0;
}

/* ---- values ---------------------------------------------------------------------------------- */

static MlirValue build(tsr_tile_builder *b, const char *op, uint32_t operand_count,
                       const MlirValue *operands, MlirType type, const char *attr_name,
                       MlirAttribute attr) {
    tsr_attr attrs[] = {{attr_name, attr}, {NULL, {NULL}}};
    return tsr_build_value(&b->at, op, operands, operand_count, type, attr_name ? attrs : NULL);
}

static MlirValue constant(tsr_tile_builder *b, MlirType type, MlirAttribute element) {
    bool vector = mlirTypeIsAVector(type);
    MlirAttribute value = vector ? mlirDenseElementsAttrSplatGet(type, element) : element;
    return build(b, "arith.constant", 0, NULL, type, "value", value);
}

MlirValue tsr_tile_float(tsr_tile_builder *b, MlirType type, double value) {
    return constant(b, type, mlirFloatAttrDoubleGet(b->at.context, element_of(type), value));
}

MlirValue tsr_tile_int(tsr_tile_builder *b, MlirType type, int64_t value) {
    return constant(b, type, mlirIntegerAttrGet(element_of(type), value));
}

MlirValue tsr_tile_exp_below_40(tsr_tile_builder *b, MlirValue x) {
    return build(b, "math.exp", 1, &x, mlirValueGetType(x), TSR_BELOW_40_NAME,
                 tsr_attr_make_unit(b->at.context));
}

MlirValue tsr_tile_exp_shifted(tsr_tile_builder *b, MlirValue x) {
    return build(b, "math.exp", 1, &x, mlirValueGetType(x), TSR_SHIFTED_NAME,
                 tsr_attr_make_unit(b->at.context));
}

MlirValue tsr_tile_gelu(tsr_tile_builder *b, MlirValue x, const char *form) {
    return build(b, "tile.gelu", 1, &x, mlirValueGetType(x), form,
                 tsr_attr_make_unit(b->at.context));
}

MlirValue tsr_tile_small(tsr_tile_builder *b, tsr_dtype dtype, MlirType type, double value) {
    uint8_t code = 0;
    TSR_ASSERT(tsr_dtype_is_small(dtype));
    tsr_dtype_write(dtype, value, &code, 0);
    return tsr_tile_int(b, type, (int8_t)code);
}

MlirValue tsr_tile_1(tsr_tile_builder *b, const char *op, MlirValue x) {
    return tsr_tile_to(b, op, x, mlirValueGetType(x));
}

MlirValue tsr_tile_2(tsr_tile_builder *b, const char *op, MlirValue x, MlirValue y) {
    MlirValue operands[] = {x, y};
    return build(b, op, 2, operands, mlirValueGetType(x), NULL, mlirAttributeGetNull());
}

MlirValue tsr_tile_3(tsr_tile_builder *b, const char *op, MlirValue x, MlirValue y, MlirValue z) {
    MlirValue operands[] = {x, y, z};
    return build(b, op, 3, operands, mlirValueGetType(x), NULL, mlirAttributeGetNull());
}

MlirValue tsr_tile_to(tsr_tile_builder *b, const char *op, MlirValue x, MlirType type) {
    return build(b, op, 1, &x, type, NULL, mlirAttributeGetNull());
}

static MlirValue compare(tsr_tile_builder *b, const char *op, int64_t how, MlirValue x,
                         MlirValue y) {
    MlirValue operands[] = {x, y};
    MlirType type = tsr_tile_value_type(b, TSR_DTYPE_I1, lanes_of(x));
    return build(b, op, 2, operands, type, "predicate", tsr_attr_make_i64(b->at.context, how));
}

MlirValue tsr_tile_icompare(tsr_tile_builder *b, tsr_tile_icmp how, MlirValue x, MlirValue y) {
    return compare(b, "arith.cmpi", (int64_t)how, x, y);
}

MlirValue tsr_tile_fcompare(tsr_tile_builder *b, tsr_tile_fcmp how, MlirValue x, MlirValue y) {
    return compare(b, "arith.cmpf", (int64_t)how, x, y);
}

MlirValue tsr_tile_select(tsr_tile_builder *b, MlirValue condition, MlirValue x, MlirValue y) {
    MlirValue operands[] = {condition, x, y};
    MlirAttribute none = mlirAttributeGetNull();
    return build(b, "arith.select", 3, operands, mlirValueGetType(x), NULL, none);
}

MlirValue tsr_tile_round(tsr_tile_builder *b, tsr_dtype dtype, MlirValue value) {
    if (!tsr_dtype_is_narrow(dtype) || b->wide) return value;
    MlirType narrow = tsr_tile_vector_type(tsr_tile_storage_type(b, dtype), lanes_of(value));
    MlirType wide = mlirValueGetType(value);
    return tsr_tile_to(b, "arith.extf", tsr_tile_to(b, "arith.truncf", value, narrow), wide);
}

/* ---- index arithmetic ------------------------------------------------------------------------ */

MlirValue tsr_tile_index(tsr_tile_builder *b, int64_t value) {
    if (tsr_extent_is_open(value)) return tsr_extent_value(b, value);
    return tsr_tile_int(b, tsr_tile_index_type(b), value);
}

bool tsr_tile_index_known(MlirValue value, int64_t *out_value) {
    MlirOperation owner = tsr_value_owner(value);
    if (!tsr_op_is(owner, TSR_ARITH_CONSTANT)) return false;
    return tsr_attr_i64(tsr_op_attr(owner, "value"), out_value);
}

MlirValue tsr_tile_add(tsr_tile_builder *b, MlirValue x, MlirValue y) {
    int64_t a = 0, c = 0;
    bool known_x = tsr_tile_index_known(x, &a), known_y = tsr_tile_index_known(y, &c);
    if (known_x && known_y) return tsr_tile_index(b, a + c);
    if (known_x && a == 0) return y;
    if (known_y && c == 0) return x;
    return tsr_tile_2(b, "arith.addi", x, y);
}

MlirValue tsr_tile_sub(tsr_tile_builder *b, MlirValue x, MlirValue y) {
    int64_t a = 0, c = 0;
    bool known_x = tsr_tile_index_known(x, &a), known_y = tsr_tile_index_known(y, &c);
    if (known_x && known_y) return tsr_tile_index(b, a - c);
    if (known_y && c == 0) return x;
    return tsr_tile_2(b, "arith.subi", x, y);
}

MlirValue tsr_tile_mul(tsr_tile_builder *b, MlirValue x, int64_t factor) {
    int64_t a = 0;
    if (factor == 1) return x;
    if (factor == 0) return tsr_tile_index(b, 0);
    if (tsr_tile_index_known(x, &a) && a >= 0)
        return tsr_tile_index(b, tsr_extent_times(a, factor));
    return tsr_tile_2(b, "arith.muli", x, tsr_tile_index(b, factor));
}

MlirValue tsr_tile_div(tsr_tile_builder *b, MlirValue x, int64_t divisor) {
    int64_t a = 0;
    if (divisor == 1) return x;
    if (tsr_tile_index_known(x, &a) && (!a || !tsr_extent_is_open(divisor)))
        return tsr_tile_index(b, a ? a / divisor : 0);
    return tsr_tile_2(b, "arith.divui", x, tsr_tile_index(b, divisor));
}

MlirValue tsr_tile_rem(tsr_tile_builder *b, MlirValue x, int64_t divisor) {
    int64_t a = 0;
    if (divisor == 1) return tsr_tile_index(b, 0);
    if (tsr_tile_index_known(x, &a) && (!a || !tsr_extent_is_open(divisor)))
        return tsr_tile_index(b, a ? a % divisor : 0);
    return tsr_tile_2(b, "arith.remui", x, tsr_tile_index(b, divisor));
}

MlirValue tsr_tile_min(tsr_tile_builder *b, MlirValue x, MlirValue y) {
    int64_t a = 0, c = 0;
    if (tsr_tile_index_known(x, &a) && tsr_tile_index_known(y, &c))
        return tsr_tile_index(b, a < c ? a : c);
    return tsr_tile_2(b, "arith.minsi", x, y);
}

MlirValue tsr_tile_offset(tsr_tile_builder *b, MlirValue x, int64_t y) {
    return y ? tsr_tile_add(b, x, tsr_tile_index(b, y)) : x;
}

/* ---- vectors --------------------------------------------------------------------------------- */

MlirValue tsr_tile_splat(tsr_tile_builder *b, MlirValue x, uint32_t lanes) {
    if (!lanes || lanes_of(x)) return x;
    return tsr_tile_to(b, "vector.broadcast", x, tsr_tile_vector_type(mlirValueGetType(x), lanes));
}

MlirValue tsr_tile_extract(tsr_tile_builder *b, MlirValue vector, int64_t lane) {
    return build(b, "vector.extract", 1, &vector, element_of(mlirValueGetType(vector)),
                 "static_position", mlirDenseI64ArrayGet(b->at.context, 1, &lane));
}

MlirValue tsr_tile_slice(tsr_tile_builder *b, MlirValue vector, int64_t begin, uint32_t lanes) {
    int64_t size = lanes, stride = 1;
    MlirContext context = b->at.context;
    tsr_attr attrs[] = {{"offsets", tsr_attr_make_i64s(context, 1, &begin)},
                        {"sizes", tsr_attr_make_i64s(context, 1, &size)},
                        {"strides", tsr_attr_make_i64s(context, 1, &stride)},
                        {NULL, {NULL}}};
    MlirType type = tsr_tile_vector_type(element_of(mlirValueGetType(vector)), lanes);
    return tsr_build_value(&b->at, "vector.extract_strided_slice", &vector, 1, type, attrs);
}

MlirValue tsr_tile_shuffle(tsr_tile_builder *b, MlirValue x, MlirValue y, uint32_t count,
                           const int64_t *lanes) {
    MlirValue operands[] = {x, y};
    MlirType type = tsr_tile_vector_type(element_of(mlirValueGetType(x)), count);
    return build(b, "vector.shuffle", 2, operands, type, "mask",
                 mlirDenseI64ArrayGet(b->at.context, (intptr_t)count, lanes));
}

MlirValue tsr_tile_iota(tsr_tile_builder *b, MlirType element, uint32_t lanes) {
    MlirAttribute values[256];
    TSR_ASSERT(lanes && lanes <= 256);
    for (uint32_t i = 0; i < lanes; i++) values[i] = mlirIntegerAttrGet(element, i);
    MlirType type = tsr_tile_vector_type(element, lanes);
    MlirAttribute value = mlirDenseElementsAttrGet(type, (intptr_t)lanes, values);
    return build(b, "arith.constant", 0, NULL, type, "value", value);
}

MlirValue tsr_tile_step_vector(tsr_tile_builder *b, uint32_t lanes) {
    MlirType type = tsr_tile_vector_type(tsr_tile_index_type(b), lanes);
    return build(b, "vector.step", 0, NULL, type, NULL, mlirAttributeGetNull());
}

MlirValue tsr_tile_mask(tsr_tile_builder *b, MlirValue count, uint32_t lanes) {
    return tsr_tile_to(b, "vector.create_mask", count, tsr_tile_value_type(b, TSR_DTYPE_I1, lanes));
}

/* The perfect shuffle: log2(lanes) times, row i and row i + lanes/2 interleave to rows 2i, 2i+1. */
void tsr_tile_transpose(tsr_tile_builder *b, uint32_t lanes, MlirValue *rows) {
    int64_t low[64], high[64];
    MlirValue next[64];
    TSR_ASSERT(lanes <= 64 && (lanes & (lanes - 1)) == 0);
    for (uint32_t i = 0; i < lanes; i++) {
        low[i] = (i & 1 ? lanes : 0) + i / 2;
        high[i] = low[i] + lanes / 2;
    }
    for (uint32_t done = 1; done < lanes; done *= 2) {
        for (uint32_t i = 0; i < lanes / 2; i++) {
            next[2 * i] = tsr_tile_shuffle(b, rows[i], rows[i + lanes / 2], lanes, low);
            next[2 * i + 1] = tsr_tile_shuffle(b, rows[i], rows[i + lanes / 2], lanes, high);
        }
        memcpy(rows, next, lanes * sizeof *rows);
    }
}

MlirValue tsr_tile_reduction(tsr_tile_builder *b, const char *kind, MlirValue vector) {
    char text[32];
    snprintf(text, sizeof text, "#vector.kind<%s>", kind);
    MlirAttribute attr = mlirAttributeParseGet(b->at.context, tsr_ref(text));
    return build(b, "vector.reduction", 1, &vector,
                 mlirShapedTypeGetElementType(mlirValueGetType(vector)), "kind", attr);
}

/* ---- memory ---------------------------------------------------------------------------------- */

MlirValue tsr_tile_butterfly(tsr_tile_builder *b, MlirValue x, int64_t distance) {
    return build(b, "tile.butterfly", 1, &x, mlirValueGetType(x), "distance",
                 tsr_attr_make_i64(b->at.context, distance));
}

MlirValue tsr_tile_program_id(tsr_tile_builder *b) {
    return build(b, "tile.program_id", 0, NULL, tsr_tile_index_type(b), NULL,
                 mlirAttributeGetNull());
}

MlirValue tsr_tile_program_end(tsr_tile_builder *b) {
    return build(b, "tile.program_end", 0, NULL, tsr_tile_index_type(b), NULL,
                 mlirAttributeGetNull());
}

MlirValue tsr_tile_local(tsr_tile_builder *b, MlirType element, int64_t count) {
    MlirType type = tsr_tile_buffer_type(element, 1, &count);
    return build(b, "tile.local", 0, NULL, type, NULL, mlirAttributeGetNull());
}

MlirValue tsr_tile_local_own(tsr_tile_builder *b, MlirType element, int64_t count) {
    MlirValue local = tsr_tile_local(b, element, count);
    tsr_op_set(tsr_value_owner(local), TSR_OWN_NAME, tsr_attr_make_unit(b->at.context));
    return local;
}

void tsr_tile_fetch(tsr_tile_builder *b, MlirValue from, MlirValue offset, MlirValue to,
                    MlirValue at, int64_t elements, MlirValue mask) {
    MlirValue operands[] = {from, offset, to, at, mask};
    tsr_attr attrs[] = {{"elements", tsr_attr_make_i64(b->at.context, elements)}, {0}};
    tsr_build(&b->at, &(tsr_op_desc){.name = "tile.fetch",
                                     .operand_count = mlirValueIsNull(mask) ? 4 : 5,
                                     .operands = operands,
                                     .attr_count = 1,
                                     .attrs = attrs});
}

void tsr_tile_fetched(tsr_tile_builder *b, int64_t but) {
    tsr_attr attrs[] = {{"but", tsr_attr_make_i64(b->at.context, but)}, {0}};
    tsr_build(&b->at, &(tsr_op_desc){.name = "tile.fetched", .attr_count = 1, .attrs = attrs});
}

MlirValue tsr_tile_add_programs(tsr_tile_builder *b, MlirValue value, MlirValue local) {
    MlirValue operands[] = {value, local};
    return build(b, "tile.add_programs", 2, operands, mlirValueGetType(value), NULL,
                 mlirAttributeGetNull());
}

MlirValue tsr_tile_load_stored(tsr_tile_builder *b, tsr_dtype dtype, MlirValue buffer,
                               MlirValue offset, uint32_t lanes, MlirValue mask) {
    MlirValue operands[] = {buffer, offset, mask};
    MlirType type = tsr_tile_vector_type(tsr_tile_storage_type(b, dtype), lanes);
    bool masked = lanes && !mlirValueIsNull(mask);
    return build(b, "tile.load", masked ? 3 : 2, operands, type, NULL, mlirAttributeGetNull());
}

void tsr_tile_store_stored(tsr_tile_builder *b, MlirValue value, MlirValue buffer, MlirValue offset,
                           MlirValue mask) {
    MlirValue operands[] = {value, buffer, offset, mask};
    bool masked = lanes_of(value) && !mlirValueIsNull(mask);
    tsr_op_desc desc = {
        .name = "tile.store", .operand_count = masked ? 4 : 3, .operands = operands};
    tsr_build(&b->at, &desc);
}

MlirValue tsr_tile_gather(tsr_tile_builder *b, MlirValue buffer, MlirValue offsets,
                          uint32_t lanes) {
    MlirValue operands[] = {buffer, offsets};
    MlirType type =
        tsr_tile_vector_type(mlirShapedTypeGetElementType(mlirValueGetType(buffer)), lanes);
    return build(b, "tile.gather", 2, operands, type, NULL, mlirAttributeGetNull());
}

void tsr_tile_scatter(tsr_tile_builder *b, MlirValue value, MlirValue buffer, MlirValue offsets) {
    MlirValue operands[] = {value, buffer, offsets};
    tsr_build(&b->at,
              &(tsr_op_desc){.name = "tile.scatter", .operand_count = 3, .operands = operands});
}

MlirValue tsr_tile_load(tsr_tile_builder *b, tsr_dtype dtype, MlirValue buffer, MlirValue offset,
                        uint32_t lanes, MlirValue mask) {
    MlirValue value = tsr_tile_load_stored(b, dtype, buffer, offset, lanes, mask);
    if (tsr_dtype_is_narrow(dtype))
        return tsr_tile_to(b, "arith.extf", value, tsr_tile_value_type(b, dtype, lanes));
    if (dtype != TSR_DTYPE_I1) return value;
    MlirType type = mlirValueGetType(value);
    return tsr_tile_icompare(b, TSR_ICMP_NE, value, tsr_tile_int(b, type, 0));
}

/* True if the value is a narrow value of `storage` that was widened, after a rounding or from given
 * bits. Storing the narrow value gives the same bits as rounding again, except that a NaN made from
 * bits keeps them. */
static bool is_rounded(MlirValue value, MlirType storage, MlirValue *out_narrow) {
    MlirOperation owner = tsr_value_owner(value);
    if (!tsr_op_is(owner, TSR_ARITH_EXTF)) return false;
    MlirValue narrow = tsr_op_operand(owner, 0);
    if (!mlirTypeEqual(mlirValueGetType(narrow), storage)) return false;
    owner = tsr_value_owner(narrow);
    *out_narrow = narrow;
    return tsr_op_is(owner, TSR_ARITH_TRUNCF) || tsr_op_is(owner, TSR_ARITH_BITCAST);
}

static MlirValue to_storage(tsr_tile_builder *b, tsr_dtype dtype, MlirValue value) {
    MlirType storage = tsr_tile_vector_type(tsr_tile_storage_type(b, dtype), lanes_of(value));
    if (dtype == TSR_DTYPE_I1) return tsr_tile_to(b, "arith.extui", value, storage);
    MlirValue narrow = tsr_tile_null;
    if (tsr_dtype_is_narrow(dtype) && is_rounded(value, storage, &narrow)) return narrow;
    if (tsr_dtype_is_narrow(dtype)) return tsr_tile_to(b, "arith.truncf", value, storage);
    return value;
}

void tsr_tile_store_streamed(tsr_tile_builder *b, tsr_dtype dtype, MlirValue value,
                             MlirValue buffer, MlirValue offset) {
    MlirValue operands[] = {to_storage(b, dtype, value), buffer, offset};
    tsr_attr attrs[] = {{"streamed", mlirUnitAttrGet(b->at.context)}};
    tsr_build(&b->at, &(tsr_op_desc){.name = "tile.store",
                                     .operand_count = 3,
                                     .operands = operands,
                                     .attr_count = 1,
                                     .attrs = attrs});
}

void tsr_tile_store(tsr_tile_builder *b, tsr_dtype dtype, MlirValue value, MlirValue buffer,
                    MlirValue offset, MlirValue mask) {
    tsr_tile_store_stored(b, to_storage(b, dtype, value), buffer, offset, mask);
}

void tsr_tile_prefetch_later(tsr_tile_builder *b, MlirValue buffer, MlirValue offset) {
    MlirValue operands[] = {buffer, offset};
    tsr_attr later = {"later", tsr_attr_make_unit(b->at.context)};
    tsr_build(&b->at, &(tsr_op_desc){.name = "tile.prefetch",
                                     .operand_count = 2,
                                     .operands = operands,
                                     .attr_count = 1,
                                     .attrs = &later});
}

MlirValue tsr_tile_until_aligned(tsr_tile_builder *b, MlirValue buffer, MlirValue offset) {
    MlirValue operands[] = {buffer, offset};
    return build(b, "tile.until_aligned", 2, operands, tsr_tile_index_type(b), NULL,
                 mlirAttributeGetNull());
}

void tsr_tile_prefetch_vector(tsr_tile_builder *b, tsr_dtype dtype, MlirValue buffer,
                              MlirValue offset, uint32_t lanes) {
    enum { LINE_BYTES = 64 };
    int64_t step = LINE_BYTES / (int64_t)tsr_dtype_size(dtype);
    for (int64_t at = 0; at < (int64_t)lanes; at += step)
        tsr_tile_prefetch_later(b, buffer, tsr_tile_offset(b, offset, at));
}

MlirValue tsr_tile_check_index(tsr_tile_builder *b, MlirValue value, MlirValue element,
                               int64_t argument, int64_t limit) {
    bool is_open = tsr_extent_is_open(limit);
    MlirValue operands[] = {value, element, is_open ? tsr_tile_index(b, limit) : tsr_tile_null};
    limit = tsr_extent_high(b, limit);
    tsr_attr attrs[] = {{"argument", tsr_attr_make_i64(b->at.context, argument)},
                        {"limit", tsr_attr_make_i64(b->at.context, limit)},
                        {NULL, {NULL}}};
    return tsr_build_value(&b->at, "tile.check_index", operands, is_open ? 3 : 2,
                           tsr_tile_value_type(b, TSR_DTYPE_I1, 0), attrs);
}

void tsr_tile_barrier(tsr_tile_builder *b) {
    tsr_build(&b->at, &(tsr_op_desc){.name = "tile.barrier"});
}

void tsr_tile_approximate(tsr_tile_builder *b, MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        if (tsr_op_is(op, TSR_SCF_FOR)) tsr_tile_approximate(b, tsr_op_body(op));
        if (tsr_op_is_of(op, TSR_DIALECT_MATH) || tsr_op_is(op, TSR_TILE_GELU))
            tsr_op_set(op, TSR_APPROXIMATE_NAME, tsr_attr_make_unit(b->at.context));
    }
}

void tsr_tile_set_blocked(tsr_tile_builder *b, MlirBlock block, bool masks) {
    TSR_FOR_EACH_OP(op, block) {
        if (tsr_op_is(op, TSR_SCF_FOR)) tsr_tile_set_blocked(b, tsr_op_body(op), masks);
        bool is_load = tsr_op_is(op, TSR_TILE_LOAD), is_store = tsr_op_is(op, TSR_TILE_STORE);
        bool is_mask = masks && tsr_op_is(op, TSR_VECTOR_CREATE_MASK);
        if (!is_load && !is_store && !is_mask) continue;
        MlirType type = mlirValueGetType(is_store ? tsr_op_operand(op, 0) : tsr_op_result(op, 0));
        size_t plain = is_load ? 2 : 3; /* operands without the mask */
        if (mlirTypeIsAVector(type) && (masks || tsr_op_operand_count(op) == plain) &&
            mlirShapedTypeGetDimSize(type, 0) % TSR_BLOCKED_ELEMENTS == 0)
            tsr_op_set(op, TSR_BLOCKED_NAME, tsr_attr_make_unit(b->at.context));
    }
}

/* ---- loops ----------------------------------------------------------------------------------- */

void tsr_tile_loop_begin(tsr_tile_builder *b, tsr_tile_loop *loop, MlirValue low, MlirValue high,
                         int64_t step, uint32_t carried_count, const MlirValue *carried) {
    TSR_ASSERT(carried_count <= TSR_TILE_CARRIED_MAX);
    *loop = (tsr_tile_loop){.outer = b->at.block, .carried_count = carried_count};
    loop->bounds[0] = low;
    loop->bounds[1] = high;
    loop->bounds[2] = tsr_tile_index(b, step);
    MlirType types[1 + TSR_TILE_CARRIED_MAX];
    MlirLocation locations[1 + TSR_TILE_CARRIED_MAX];
    types[0] = tsr_tile_index_type(b);
    locations[0] = b->at.location;
    for (uint32_t i = 0; i < carried_count; i++) {
        loop->bounds[3 + i] = carried[i];
        types[1 + i] = mlirValueGetType(carried[i]);
        locations[1 + i] = b->at.location;
    }
    loop->body = mlirBlockCreate((intptr_t)(1 + carried_count), types, locations);
    loop->index = mlirBlockGetArgument(loop->body, 0);
    for (uint32_t i = 0; i < carried_count; i++)
        loop->carried[i] = mlirBlockGetArgument(loop->body, (intptr_t)(1 + i));
    b->at.block = loop->body;
}

void tsr_tile_loop_end(tsr_tile_builder *b, tsr_tile_loop *loop, const MlirValue *next) {
    tsr_op_desc yield = {
        .name = "scf.yield", .operand_count = loop->carried_count, .operands = next};
    tsr_build(&b->at, &yield);
    b->at.block = loop->outer;
    MlirRegion region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(region, loop->body);
    MlirType types[TSR_TILE_CARRIED_MAX];
    for (uint32_t i = 0; i < loop->carried_count; i++)
        types[i] = mlirValueGetType(loop->bounds[3 + i]);
    const tsr_attr rare = {TSR_RARE_NAME, tsr_attr_make_unit(b->at.context)};
    tsr_op_desc desc = {.name = "scf.for",
                        .operand_count = 3 + loop->carried_count,
                        .operands = loop->bounds,
                        .result_count = loop->carried_count,
                        .results = types,
                        .attr_count = loop->is_rare,
                        .attrs = &rare,
                        .region_count = 1,
                        .regions = &region};
    MlirOperation op = tsr_build(&b->at, &desc);
    for (uint32_t i = 0; i < loop->carried_count; i++) loop->carried[i] = tsr_op_result(op, i);
    loop->body = (MlirBlock){NULL};
}

tsr_tile_loop tsr_tile_loop_open_(tsr_tile_builder *b, MlirValue low, MlirValue high, int64_t step,
                                  uint32_t count, MlirValue *variables) {
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, low, high, step, count, variables);
    loop.variables = variables;
    if (count) memcpy(variables, loop.carried, count * sizeof *variables);
    return loop;
}

void tsr_tile_loop_close_(tsr_tile_builder *b, tsr_tile_loop *loop) {
    tsr_tile_loop_end(b, loop, loop->variables);
    if (loop->carried_count)
        memcpy(loop->variables, loop->carried, loop->carried_count * sizeof *loop->variables);
}

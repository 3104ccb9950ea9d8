/* SPDX-License-Identifier: Apache-2.0
 *
 * `tessera.philox` on lanes: runtime/base/random/philox.c operation by operation, so that a number
 * drawn in a kernel has the same bits as one drawn by the runtime. 32-bit words are in 64-bit
 * lanes. No operation here may be fused or reordered. If a CPU draws many normal numbers, those in
 * the tails, which take the most time, are computed separately: the same operations on each.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/tile/elements/element.h"
#include "runtime/base/random/quantile.h"

#include <math.h>

static const double MIDDLE = 0.425; /* limit of |u - 0.5| in the middle interval */

typedef struct draw {
    tsr_tile_builder *b;
    MlirType words, reals; /* i64 and f64, with one lane for each element */
    MlirType narrow;       /* i32 */
} draw;

static MlirValue integer(const draw *d, int64_t value) {
    return tsr_tile_int(d->b, d->words, value);
}

static MlirValue real(const draw *d, double value) { return tsr_tile_float(d->b, d->reals, value); }

static MlirValue two(const draw *d, const char *op, MlirValue x, MlirValue y) {
    return tsr_tile_2(d->b, op, x, y);
}

static MlirValue low_word(const draw *d, MlirValue x) {
    return two(d, "arith.andi", x, integer(d, 0xffffffff));
}

static MlirValue high_word(const draw *d, MlirValue x) {
    return two(d, "arith.shrui", x, integer(d, 32));
}

/* words[0 … 3]: the counter, replaced by the result. */
static void philox(const draw *d, MlirValue seed, int64_t stream, MlirValue words[static 4]) {
    MlirValue k0 = low_word(d, seed), k1 = integer(d, stream & 0xffffffff);
    for (int round = 0; round < 10; round++) {
        MlirValue product0 = two(d, "arith.muli", words[0], integer(d, 0xD2511F53));
        MlirValue product1 = two(d, "arith.muli", words[2], integer(d, 0xCD9E8D57));
        words[0] = two(d, "arith.xori", two(d, "arith.xori", high_word(d, product1), words[1]), k0);
        words[2] = two(d, "arith.xori", two(d, "arith.xori", high_word(d, product0), words[3]), k1);
        words[1] = low_word(d, product1);
        words[3] = low_word(d, product0);
        k0 = low_word(d, two(d, "arith.addi", k0, integer(d, 0x9E3779B9)));
        k1 = low_word(d, two(d, "arith.addi", k1, integer(d, 0xBB67AE85)));
    }
}

/* ---- the normal distribution ----------------------------------------------------------------- */

/* The interval of the quantile for each number. Null if all numbers are in one interval, or are
 * known not to be in the middle. */
typedef struct interval {
    MlirValue is_middle, is_near; /* otherwise it is far */
} interval;

static MlirValue of_interval(const draw *d, const interval *p, MlirValue center, MlirValue tail,
                             MlirValue far) {
    if (mlirValueIsNull(p->is_near)) return center;
    MlirValue outer = tsr_tile_select(d->b, p->is_near, tail, far);
    return mlirValueIsNull(p->is_middle) ? outer
                                         : tsr_tile_select(d->b, p->is_middle, center, outer);
}

/* Evaluates each lane's own polynomial; all have the same number of terms, so all lanes do the same
 * operations in the same order. */
static MlirValue polynomial(const draw *d, const interval *p, const double *center,
                            const double *tail, const double *far, MlirValue x) {
    MlirValue value = tsr_tile_null;
    for (int i = TSR_QUANTILE_TERMS - 1; i >= 0; i--) {
        MlirValue c = of_interval(d, p, real(d, center[i]), real(d, tail[i]), real(d, far[i]));
        if (!mlirValueIsNull(value)) value = two(d, "arith.mulf", value, x);
        value = mlirValueIsNull(value) ? c : two(d, "arith.addf", value, c);
    }
    return value;
}

static MlirValue as(const draw *d, MlirValue x, MlirType type) {
    return tsr_tile_to(d->b, "arith.bitcast", x, type);
}

/* Converts an integer from -2^51 ... 2^51 exactly, by placing it in the last bits of 1.5 x 2^52.
 * CPUs have no instruction for 64-bit integers before AVX-512. */
static MlirValue small_integer(const draw *d, MlirValue x) {
    MlirValue biased = two(d, "arith.addi", x, integer(d, INT64_C(0x4338000000000000)));
    return two(d, "arith.subf", as(d, biased, d->reals), real(d, 0x1.8p52));
}

/* The logarithm of a normal number. */
static MlirValue log_positive(const draw *d, MlirValue x) {
    tsr_tile_builder *b = d->b;
    MlirValue bits = as(d, x, d->words), one = real(d, 1);
    MlirValue exponent =
        two(d, "arith.subi", two(d, "arith.shrui", bits, integer(d, 52)), integer(d, 1023));
    bits = two(d, "arith.andi", bits, integer(d, INT64_C(0xFFFFFFFFFFFFF)));
    bits = two(d, "arith.ori", bits, integer(d, INT64_C(1023) << 52));
    MlirValue m = as(d, bits, d->reals);
    MlirValue large = tsr_tile_fcompare(b, TSR_FCMP_OGE, m, real(d, 0x1.6a09e667f3bcdp0));
    MlirValue next = two(d, "arith.addi", exponent, integer(d, 1));
    m = tsr_tile_select(b, large, two(d, "arith.mulf", m, real(d, 0.5)), m);
    exponent = tsr_tile_select(b, large, next, exponent);
    MlirValue f = two(d, "arith.subf", m, one);
    MlirValue s = two(d, "arith.divf", f, two(d, "arith.addf", m, one));
    MlirValue z = two(d, "arith.mulf", s, s), tail = real(d, 2.0 / 23);
    for (int odd = 21; odd >= 3; odd -= 2)
        tail = two(d, "arith.addf", two(d, "arith.mulf", tail, z), real(d, 2.0 / odd));
    MlirValue k = small_integer(d, exponent);
    MlirValue rest = two(d, "arith.mulf", two(d, "arith.mulf", s, z), tail);
    rest = two(d, "arith.addf", rest, two(d, "arith.mulf", k, real(d, 0x1.a39ef35793c76p-33)));
    rest = two(d, "arith.addf", two(d, "arith.mulf", real(d, 2), s), rest);
    return two(d, "arith.addf", two(d, "arith.mulf", k, real(d, 0x1.62e42feep-1)), rest);
}

/* The numbers that are computed. Rare numbers are computed separately: computing them for all lanes
 * would take most of the time. */
typedef enum part { PART_ALL, PART_MIDDLE, PART_OUTER } part;

static MlirValue quantile(const draw *d, MlirValue u, part which) {
    tsr_tile_builder *b = d->b;
    MlirValue q = two(d, "arith.subf", u, real(d, 0.5)), below = tsr_tile_null;
    MlirValue r = two(d, "arith.subf", real(d, 0.180625), two(d, "arith.mulf", q, q)), x = r;
    interval p = {tsr_tile_null, tsr_tile_null};
    if (which != PART_MIDDLE) {
        below = tsr_tile_fcompare(b, TSR_FCMP_OLT, q, real(d, 0));
        MlirValue side = tsr_tile_select(b, below, u, two(d, "arith.subf", real(d, 1), u));
        MlirValue root =
            tsr_tile_1(b, "math.sqrt", tsr_tile_1(b, "arith.negf", log_positive(d, side)));
        if (which == PART_ALL)
            p.is_middle =
                tsr_tile_fcompare(b, TSR_FCMP_OLE, tsr_tile_1(b, "math.absf", q), real(d, MIDDLE));
        p.is_near = tsr_tile_fcompare(b, TSR_FCMP_OLE, root, real(d, 5));
        x = of_interval(d, &p, r, two(d, "arith.subf", root, real(d, 1.6)),
                        two(d, "arith.subf", root, real(d, 5)));
    }
    MlirValue over = polynomial(d, &p, tsr_quantile_center_over, tsr_quantile_tail_over,
                                tsr_quantile_far_over, x);
    MlirValue under = polynomial(d, &p, tsr_quantile_center_under, tsr_quantile_tail_under,
                                 tsr_quantile_far_under, x);
    MlirValue value = two(d, "arith.divf", over, under);
    if (which == PART_MIDDLE) return two(d, "arith.mulf", q, value);
    MlirValue outer = tsr_tile_select(b, below, tsr_tile_1(b, "arith.negf", value), value);
    if (which == PART_OUTER) return outer;
    return tsr_tile_select(b, p.is_middle, two(d, "arith.mulf", q, value), outer);
}

static draw draw_of(tsr_tile_builder *b, uint32_t lanes) {
    return (draw){b, tsr_tile_value_type(b, TSR_DTYPE_I64, lanes),
                  tsr_tile_value_type(b, TSR_DTYPE_F64, lanes),
                  tsr_tile_value_type(b, TSR_DTYPE_I32, lanes)};
}

/* ---- the op ---------------------------------------------------------------------------------- */

/* The upper `bits` of two words. */
static MlirValue joined(const draw *d, const MlirValue *words, int64_t bits) {
    MlirValue both = two(d, "arith.ori", two(d, "arith.shli", words[0], integer(d, 32)), words[1]);
    return two(d, "arith.shrui", both, integer(d, 64 - bits));
}

/* Converts 52 bits to a number, as the fraction of a number from 2^52 on. */
static MlirValue fraction(const draw *d, MlirValue x) {
    MlirValue biased = two(d, "arith.ori", x, integer(d, INT64_C(0x4330000000000000)));
    return two(d, "arith.subf", as(d, biased, d->reals), real(d, 0x1p52));
}

/* The element's part of the words that eight elements share, as a number. */
static MlirValue part_of_words(const draw *d, MlirValue element, const MlirValue *words,
                               MlirType result) {
    tsr_tile_builder *b = d->b;
    MlirValue bit[3], zero = integer(d, 0);
    for (int i = 0; i < 3; i++)
        bit[i] = tsr_tile_icompare(b, TSR_ICMP_NE,
                                   two(d, "arith.andi", element, integer(d, 1 << i)), zero);
    MlirValue word = tsr_tile_select(b, bit[2], tsr_tile_select(b, bit[1], words[3], words[2]),
                                     tsr_tile_select(b, bit[1], words[1], words[0]));
    word = tsr_tile_select(b, bit[0], two(d, "arith.shrui", word, integer(d, 16)), word);
    word = two(d, "arith.andi", word, integer(d, 0x7fff));
    word = tsr_tile_to(b, "arith.sitofp", tsr_tile_to(b, "arith.trunci", word, d->narrow), result);
    return tsr_tile_2(b, "arith.mulf", word, tsr_tile_float(b, result, 0x1p-15));
}

/* The words of an element's counter. */
static void draw_words(const draw *d, const tsr_philox *how, MlirValue element,
                       const MlirValue *operands, MlirValue words[static 4]) {
    words[0] = low_word(d, operands[1]);
    words[1] = low_word(d, element);
    words[2] = high_word(d, element);
    words[3] = integer(d, how->draw & 0xffffffff);
    philox(d, operands[2], how->stream, words);
}

/* The middle of an interval of 2^-52, so never 0 or 1. */
static MlirValue draw_open(const draw *d, const tsr_philox *how, const MlirValue *operands) {
    MlirValue words[4];
    draw_words(d, how, operands[0], operands, words);
    MlirValue value = two(d, "arith.addf", fraction(d, joined(d, words, 52)), real(d, 0.5));
    return two(d, "arith.mulf", value, real(d, 0x1p-52));
}

/* ---- normal numbers, the outer ones separately ----------------------------------------------- */

/* A list of the numbers outside the middle, 15 of 100: otherwise their computation would be done
 * for all numbers. */
typedef struct outer_list {
    MlirValue numbers, positions; /* index of each among all numbers */
    MlirValue drawn, flags;       /* the lanes that are being listed */
} outer_list;

static MlirValue load_index(tsr_tile_builder *b, MlirValue buffer, MlirValue at) {
    MlirValue value = tsr_tile_load(b, TSR_DTYPE_I64, buffer, at, 0, tsr_tile_null);
    return tsr_tile_to(b, "arith.index_cast", value, tsr_tile_index_type(b));
}

static void store_i64(tsr_tile_builder *b, MlirValue value, MlirValue buffer, MlirValue at) {
    tsr_tile_store(b, TSR_DTYPE_I64, value, buffer, at, tsr_tile_null);
}

static MlirValue load_real(tsr_tile_builder *b, MlirValue buffer, MlirValue at, uint32_t lanes) {
    return tsr_tile_load(b, TSR_DTYPE_F64, buffer, at, lanes, tsr_tile_null);
}

static void store_real(tsr_tile_builder *b, MlirValue value, MlirValue buffer, MlirValue at) {
    tsr_tile_store(b, TSR_DTYPE_F64, value, buffer, at, tsr_tile_null);
}

/* Lists the outer numbers of `u`, whose first index is `first`; returns the new length of the list.
 * Each number is written to the list's end, and the list only grows if the number belongs to it. */
static MlirValue list_outer(const draw *d, const outer_list *list, MlirValue u, uint32_t lanes,
                            MlirValue first, MlirValue count) {
    tsr_tile_builder *b = d->b;
    MlirValue q = two(d, "arith.subf", u, real(d, 0.5)), zero = tsr_tile_index(b, 0);
    MlirValue is_outer =
        tsr_tile_fcompare(b, TSR_FCMP_OGT, tsr_tile_1(b, "math.absf", q), real(d, MIDDLE));
    MlirType number = tsr_tile_value_type(b, TSR_DTYPE_I64, 0);
    store_real(b, u, list->drawn, zero);
    store_i64(b, tsr_tile_to(b, "arith.extui", is_outer, d->words), list->flags, zero);
    for (uint32_t i = 0; i < lanes; i++) {
        MlirValue at = tsr_tile_index(b, i), position = tsr_tile_offset(b, first, i);
        store_real(b, load_real(b, list->drawn, at, 0), list->numbers, count);
        store_i64(b, tsr_tile_to(b, "arith.index_cast", position, number), list->positions, count);
        count = tsr_tile_add(b, count, load_index(b, list->flags, at));
    }
    return count;
}

/* A few lanes of an operand that is stored in `buffer`, or is the same for all lanes. */
static MlirValue some_lanes(tsr_tile_builder *b, MlirValue operand, MlirValue buffer, MlirValue at,
                            uint32_t lanes) {
    if (!mlirValueIsNull(buffer))
        return tsr_tile_load(b, TSR_DTYPE_I64, buffer, at, lanes, tsr_tile_null);
    return tsr_tile_splat(b, tsr_op_operand(tsr_value_owner(operand), 0), lanes);
}

/* Replaces the list's numbers by their quantiles, and stores these at their indices in `values`. */
static void finish_outer(tsr_tile_builder *b, const outer_list *list, MlirValue count,
                         MlirValue values) {
    uint32_t lanes = b->target->vector_bytes / (uint32_t)sizeof(double);
    draw d = draw_of(b, lanes);
    MlirValue zero = tsr_tile_index(b, 0);
    store_real(b, real(&d, 0.25), list->numbers, count); /* beyond the end: any number */
    TSR_TILE_FOR(b, loop, zero, count, lanes) {
        MlirValue u = load_real(b, list->numbers, loop.index, lanes);
        store_real(b, quantile(&d, u, PART_OUTER), list->numbers, loop.index);
    }
    TSR_TILE_FOR(b, loop, zero, count, 1) {
        store_real(b, load_real(b, list->numbers, loop.index, 0), values,
                   load_index(b, list->positions, loop.index));
    }
}

/* The lanes that a CPU computes at once: four vectors hide the latency. */
static uint32_t lanes_at_once(const tsr_target *target) {
    return 4 * target->vector_bytes / (uint32_t)sizeof(double);
}

/* Computes quantile() of all numbers by the same operations on each number. */
static MlirValue normals_apart(tsr_tile_builder *b, const tsr_philox *how,
                               const MlirValue *operands, uint32_t lanes) {
    enum { OPERANDS = 3 };
    uint32_t some = lanes_at_once(b->target);
    MlirType number = tsr_tile_storage_type(b, TSR_DTYPE_F64);
    MlirType integers = tsr_tile_storage_type(b, TSR_DTYPE_I64);
    MlirValue zero = tsr_tile_index(b, 0), buffers[OPERANDS], values;
    outer_list list = {tsr_tile_local(b, number, lanes + some), tsr_tile_local(b, integers, lanes),
                       tsr_tile_local(b, number, some), tsr_tile_local(b, integers, some)};
    draw d = draw_of(b, some);
    values = tsr_tile_local(b, number, lanes);
    for (int i = 0; i < OPERANDS; i++) {
        MlirOperation owner = tsr_value_owner(operands[i]);
        bool same = tsr_op_is(owner, TSR_VECTOR_BROADCAST);
        buffers[i] = same ? tsr_tile_null : tsr_tile_local(b, integers, lanes);
        if (!same) store_i64(b, operands[i], buffers[i], zero);
    }
    MlirValue count = zero;
    TSR_TILE_FOR_CARRIED(b, loop, zero, tsr_tile_index(b, lanes), some, 1, &count) {
        MlirValue few[OPERANDS];
        for (int i = 0; i < OPERANDS; i++)
            few[i] = some_lanes(b, operands[i], buffers[i], loop.index, some);
        MlirValue u = draw_open(&d, how, few);
        count = list_outer(&d, &list, u, some, loop.index, count);
        store_real(b, quantile(&d, u, PART_MIDDLE), values, loop.index);
    }
    finish_outer(b, &list, count, values);
    return load_real(b, values, zero, lanes);
}

MlirValue tsr_philox_build(tsr_tile_builder *b, const tsr_philox *how, const MlirValue *operands,
                           uint32_t lanes, tsr_dtype dtype) {
    draw d = draw_of(b, lanes);
    MlirType result = tsr_tile_value_type(b, dtype, lanes);
    MlirValue element = operands[0], words[4], value;
    if (how->normal && !how->shared) {
        bool apart = !b->target->warp_lanes && lanes > lanes_at_once(b->target);
        value = apart ? normals_apart(b, how, operands, lanes)
                      : quantile(&d, draw_open(&d, how, operands), PART_ALL);
        return dtype == TSR_DTYPE_F64 ? value : tsr_tile_to(b, "arith.truncf", value, result);
    }
    if (how->shared) element = two(&d, "arith.shrui", element, integer(&d, 3));
    draw_words(&d, how, element, operands, words);
    if (how->shared) return part_of_words(&d, operands[0], words, result);
    if (dtype == TSR_DTYPE_F64) {
        value = tsr_tile_to(b, "arith.sitofp", joined(&d, words, 53), d.reals);
        return two(&d, "arith.mulf", value, real(&d, 0x1p-53));
    }
    MlirValue word = two(&d, "arith.shrui", words[0], integer(&d, 8));
    word = tsr_tile_to(b, "arith.trunci", word, d.narrow);
    value = tsr_tile_to(b, "arith.sitofp", word, result);
    return tsr_tile_2(b, "arith.mulf", value, tsr_tile_float(b, result, 0x1p-24));
}

void tsr_philox_words_build(tsr_tile_builder *b, int64_t stream, const MlirValue *operands,
                            uint32_t lanes, MlirValue out_words[static 4]) {
    draw d = {.b = b, .words = tsr_tile_value_type(b, TSR_DTYPE_I64, lanes)};
    out_words[0] = low_word(&d, operands[1]);
    out_words[1] = low_word(&d, operands[0]);
    out_words[2] = high_word(&d, operands[0]);
    out_words[3] = integer(&d, 0);
    philox(&d, operands[2], stream, out_words);
}

MlirValue tsr_element_philox(tsr_tile_builder *b, MlirOperation op, const MlirValue *operands,
                             uint32_t lanes, tsr_dtype dtype) {
    tsr_philox how = {.normal = tsr_op_has(op, "normal"), .shared = tsr_op_has(op, "shared")};
    bool known = tsr_op_i64(op, "stream", &how.stream) && tsr_op_i64(op, "draw", &how.draw);
    TSR_ASSERT(known);
    return tsr_philox_build(b, &how, operands, lanes, dtype);
}

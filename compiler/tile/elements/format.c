/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoding: an f32 is a whole number of 24 bits times a power of two. `shift` bits of the number
 * are dropped, after adding what rounds it; then the sum is the code of the magnitude, except for
 * the exponent. A carry out of the fraction goes into the exponent.
 */
#include "compiler/tile/elements/format.h"

enum {
    F32_BIAS = 127,
    F32_FRACTION = 23,
    F32_ONE = 1 << F32_FRACTION, /* the bit that normal numbers do not store */
    F32_INFINITY = 0x7f800000,
    F32_NAN = 0x7fc00000,
    MAGNITUDE = 0x7fffffff,
    SHIFT_MAX = 31,
};

typedef struct coder {
    tsr_tile_builder *b;
    const tsr_format *format;
    MlirType i32, f32; /* with the lanes of the values */
} coder;

static coder make(tsr_tile_builder *b, const tsr_format *format, uint32_t lanes) {
    return (coder){b, format, tsr_tile_value_type(b, TSR_DTYPE_I32, lanes),
                   tsr_tile_value_type(b, TSR_DTYPE_F32, lanes)};
}

static MlirValue whole(const coder *c, int64_t value) { return tsr_tile_int(c->b, c->i32, value); }

static MlirValue with(const coder *c, const char *op, MlirValue x, int64_t y) {
    return tsr_tile_2(c->b, op, x, whole(c, y));
}

static MlirValue is(const coder *c, tsr_tile_icmp how, MlirValue x, int64_t y) {
    return tsr_tile_icompare(c->b, how, x, whole(c, y));
}

/* ---- decoding -------------------------------------------------------------------------------- */

static MlirValue decode_scale(const coder *c, MlirValue code) {
    MlirValue power = with(c, "arith.shli", code, F32_FRACTION);
    power = tsr_tile_select(c->b, is(c, TSR_ICMP_EQ, code, 0), whole(c, F32_ONE / 2), power);
    return tsr_tile_select(c->b, is(c, TSR_ICMP_UGT, code, c->format->largest), whole(c, F32_NAN),
                           power);
}

/* The bits of an f32. */
static MlirValue decode_magnitude(const coder *c, MlirValue magnitude) {
    const tsr_format *f = c->format;
    tsr_tile_builder *b = c->b;
    MlirValue value = with(c, "arith.shli", magnitude, F32_FRACTION - f->fraction);
    value = with(c, "arith.addi", value, (int64_t)(F32_BIAS - f->bias) << F32_FRACTION);
    MlirValue digits = tsr_tile_to(b, "arith.uitofp", magnitude, c->f32);
    double unit = 1;
    for (int i = 1 - f->bias - (int)f->fraction; i < 0; i++) unit /= 2;
    digits = tsr_tile_2(b, "arith.mulf", digits, tsr_tile_float(b, c->f32, unit));
    value = tsr_tile_select(b, is(c, TSR_ICMP_ULT, magnitude, 1 << f->fraction),
                            tsr_tile_to(b, "arith.bitcast", digits, c->i32), value);
    if (f->specials == TSR_SPECIALS_FINITE) return value;
    MlirValue special = whole(c, F32_NAN);
    if (f->specials == TSR_SPECIALS_INFINITIES)
        special = tsr_tile_select(b, is(c, TSR_ICMP_EQ, magnitude, f->largest + 1),
                                  whole(c, F32_INFINITY), special);
    return tsr_tile_select(b, is(c, TSR_ICMP_UGT, magnitude, f->largest), special, value);
}

MlirValue tsr_format_decode(tsr_tile_builder *b, const tsr_format *format, MlirValue codes,
                            uint32_t lanes) {
    const coder c = make(b, format, lanes);
    const int64_t sign = INT64_C(1) << (format->bits - 1);
    MlirValue code = with(&c, "arith.andi", codes, 2 * sign - 1), bits = code;
    if (format->specials == TSR_SPECIALS_SCALE) {
        bits = decode_scale(&c, code);
    } else {
        MlirValue negative = with(&c, "arith.andi", code, sign);
        negative = with(&c, "arith.shli", negative, 32 - format->bits);
        bits = decode_magnitude(&c, with(&c, "arith.andi", code, sign - 1));
        bits = tsr_tile_2(b, "arith.ori", bits, negative);
    }
    return tsr_tile_to(b, "arith.bitcast", bits, c.f32);
}

/* ---- encoding -------------------------------------------------------------------------------- */

typedef struct number {
    MlirValue negative;            /* i1 */
    MlirValue magnitude;           /* the bits of f32 without sign */
    MlirValue exponent;            /* biased, at least 1 */
    MlirValue digits, shift, rest; /* rest: digits >> shift */
    MlirValue beyond;              /* i1: the shift was reduced to SHIFT_MAX */
} number;

static number take_apart(const coder *c, MlirValue x) {
    tsr_tile_builder *b = c->b;
    number n = {0};
    MlirValue bits = tsr_tile_to(b, "arith.bitcast", x, c->i32);
    n.negative = is(c, TSR_ICMP_SLT, bits, 0);
    n.magnitude = with(c, "arith.andi", bits, MAGNITUDE);
    MlirValue stored = with(c, "arith.shrui", n.magnitude, F32_FRACTION);
    MlirValue is_denormal = is(c, TSR_ICMP_EQ, stored, 0);
    n.exponent = tsr_tile_select(b, is_denormal, whole(c, 1), stored);
    n.digits = with(c, "arith.andi", n.magnitude, F32_ONE - 1);
    n.digits = tsr_tile_select(b, is_denormal, n.digits, with(c, "arith.ori", n.digits, F32_ONE));
    return n;
}

/* Sets how many bits are dropped: fewer digits fit below the normal numbers of the format. */
static void find_shift(const coder *c, number *n) {
    const tsr_format *f = c->format;
    tsr_tile_builder *b = c->b;
    int64_t least = F32_FRACTION - f->fraction, lowest = F32_BIAS + 1 - f->bias;
    MlirValue more = tsr_tile_2(b, "arith.subi", whole(c, lowest), n->exponent);
    n->shift = with(c, "arith.addi", tsr_tile_2(b, "arith.maxsi", more, whole(c, 0)), least);
    n->beyond = is(c, TSR_ICMP_SGT, n->shift, SHIFT_MAX);
    n->shift = tsr_tile_2(b, "arith.minsi", n->shift, whole(c, SHIFT_MAX));
    n->rest = tsr_tile_2(b, "arith.shrui", n->digits, n->shift);
}

/* What is added to the digits before bits are dropped. */
static MlirValue rounding_term(const coder *c, const tsr_conversion *how, const number *n) {
    tsr_tile_builder *b = c->b;
    MlirValue all = with(c, "arith.subi", tsr_tile_2(b, "arith.shli", whole(c, 1), n->shift), 1);
    MlirValue zero = whole(c, 0), odd = with(c, "arith.andi", n->rest, 1);
    switch (how->rounding) {
    case TSR_ROUND_NEAREST_EVEN:
        return tsr_tile_2(b, "arith.addi", with(c, "arith.shrui", all, 1), odd);
    case TSR_ROUND_UP:
        return tsr_tile_select(b, n->negative, zero, all);
    case TSR_ROUND_DOWN:
        return tsr_tile_select(b, n->negative, all, zero);
    case TSR_ROUND_STOCHASTIC: {
        MlirValue unused = tsr_tile_2(b, "arith.subi", whole(c, 32), n->shift);
        MlirValue random = tsr_tile_2(b, "arith.shrui", how->random, unused);
        return tsr_tile_select(b, n->beyond, zero, random);
    }
    case TSR_ROUND_TOWARD_ZERO:
        break;
    }
    return zero;
}

/* What takes the place of a number that exceeds the largest one, finite or not. */
static MlirValue overflow(const coder *c, const tsr_conversion *how, const number *n,
                          bool is_infinity) {
    const tsr_format *f = c->format;
    MlirValue largest = whole(c, f->largest);
    if (how->saturates || f->specials == TSR_SPECIALS_FINITE) return largest;
    MlirValue infinity = whole(c, f->specials == TSR_SPECIALS_INFINITIES ? f->largest + 1 : f->nan);
    if (is_infinity) return infinity;
    switch (how->rounding) {
    case TSR_ROUND_TOWARD_ZERO:
        return largest;
    case TSR_ROUND_UP:
        return tsr_tile_select(c->b, n->negative, largest, infinity);
    case TSR_ROUND_DOWN:
        return tsr_tile_select(c->b, n->negative, infinity, largest);
    default:
        return infinity;
    }
}

static MlirValue encode_magnitude(const coder *c, const tsr_conversion *how, number *n) {
    const tsr_format *f = c->format;
    tsr_tile_builder *b = c->b;
    find_shift(c, n);
    MlirValue sum = tsr_tile_2(b, "arith.addi", n->digits, rounding_term(c, how, n));
    MlirValue code = tsr_tile_2(b, "arith.shrui", sum, n->shift);
    MlirValue base = with(c, "arith.subi", n->exponent, F32_BIAS + 1 - f->bias);
    base = tsr_tile_2(b, "arith.maxsi", base, whole(c, 0));
    return tsr_tile_2(b, "arith.addi", with(c, "arith.shli", base, f->fraction), code);
}

/* A power of two: the exponent of f32, and one more if the fraction says so. The smallest power is
 * a denormal of f32. */
static MlirValue encode_scale(const coder *c, const tsr_conversion *how, const number *n) {
    tsr_tile_builder *b = c->b;
    MlirValue stored = with(c, "arith.shrui", n->magnitude, F32_FRACTION);
    MlirValue fraction = with(c, "arith.andi", n->magnitude, F32_ONE - 1);
    MlirValue is_denormal = is(c, TSR_ICMP_EQ, stored, 0);
    MlirValue rest = with(c, "arith.maxsi", with(c, "arith.subi", fraction, F32_ONE / 2), 0);
    rest = tsr_tile_select(b, is_denormal, with(c, "arith.shli", rest, 1), fraction);
    MlirValue more = whole(c, 0);
    if (how->rounding == TSR_ROUND_NEAREST_EVEN) {
        more = with(c, "arith.shrui", rest, F32_FRACTION - 1);
    } else if (how->rounding == TSR_ROUND_UP) {
        MlirValue any = is(c, TSR_ICMP_NE, rest, 0);
        more = tsr_tile_to(b, "arith.extui", any, c->i32);
    } else if (how->rounding == TSR_ROUND_STOCHASTIC) {
        MlirValue random = with(c, "arith.shrui", how->random, 32 - F32_FRACTION);
        MlirValue sum = tsr_tile_2(b, "arith.addi", rest, random);
        more = with(c, "arith.shrui", sum, F32_FRACTION);
    }
    return tsr_tile_2(b, "arith.addi", stored, more);
}

/* Zero and negative numbers are no powers of two. */
static MlirValue scale_without_sign(const coder *c, const tsr_conversion *how, const number *n,
                                    MlirValue code) {
    tsr_tile_builder *b = c->b;
    MlirValue nan = whole(c, c->format->nan), is_zero = is(c, TSR_ICMP_EQ, n->magnitude, 0);
    code = tsr_tile_select(b, n->negative, nan, code);
    return tsr_tile_select(b, is_zero, how->saturates ? whole(c, 0) : nan, code);
}

MlirValue tsr_format_encode(tsr_tile_builder *b, const tsr_conversion *how, MlirValue x,
                            uint32_t lanes) {
    const tsr_format *f = how->format;
    const coder c = make(b, f, lanes);
    const bool is_scale = f->specials == TSR_SPECIALS_SCALE;
    const int64_t sign = is_scale ? 0 : INT64_C(1) << (f->bits - 1);
    number n = take_apart(&c, x);
    MlirValue code = is_scale ? encode_scale(&c, how, &n) : encode_magnitude(&c, how, &n);
    MlirValue too_large = is(&c, TSR_ICMP_UGT, code, f->largest);
    code = tsr_tile_select(b, too_large, overflow(&c, how, &n, false), code);
    MlirValue is_infinite = is(&c, TSR_ICMP_EQ, n.magnitude, F32_INFINITY);
    code = tsr_tile_select(b, is_infinite, overflow(&c, how, &n, true), code);
    MlirValue is_nan = is(&c, TSR_ICMP_UGT, n.magnitude, F32_INFINITY);
    MlirValue negative = tsr_tile_select(b, n.negative, whole(&c, sign), whole(&c, 0));
    if (is_scale)
        code = scale_without_sign(&c, how, &n, code);
    else if (f->specials == TSR_SPECIALS_FINITE)
        negative = tsr_tile_select(b, is_nan, whole(&c, 0), negative);
    code = tsr_tile_select(b, is_nan, whole(&c, f->nan), code);
    return tsr_tile_2(b, "arith.ori", code, negative);
}

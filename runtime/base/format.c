/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/format.h"

#include "runtime/base/array.h"

#include <math.h>
#include <string.h>

const tsr_format tsr_formats[TSR_FORMAT_COUNT] = {
#define X(NAME, dtype, text, bits, fraction, bias, SPECIALS, largest, nan)                         \
    {TSR_DTYPE_##dtype, text, bits, fraction, bias, TSR_SPECIALS_##SPECIALS, largest, nan},
#include "runtime/base/formats.def"
#undef X
};

static const char *const roundings[] = {"nearest_even", "toward_zero", "up", "down", "stochastic"};
_Static_assert(TSR_COUNT(roundings) == TSR_ROUNDING_COUNT, "a name for each rounding");

const char *tsr_rounding_name(tsr_rounding rounding) { return roundings[rounding]; }

bool tsr_rounding_from_name(const char *name, tsr_rounding *out_rounding) {
    for (size_t i = 0; i < TSR_COUNT(roundings); i++) {
        if (strcmp(roundings[i], name) != 0) continue;
        *out_rounding = (tsr_rounding)i;
        return true;
    }
    return false;
}

const tsr_format *tsr_format_of(tsr_dtype dtype) {
    for (size_t i = 0; i < TSR_FORMAT_COUNT; i++)
        if (dtype != TSR_DTYPE_NONE && tsr_formats[i].dtype == dtype) return &tsr_formats[i];
    return NULL;
}

const tsr_format *tsr_format_from_name(const char *name) {
    for (size_t i = 0; i < TSR_FORMAT_COUNT; i++)
        if (strcmp(tsr_formats[i].name, name) == 0) return &tsr_formats[i];
    return NULL;
}

static unsigned sign_of(const tsr_format *f) {
    return f->specials == TSR_SPECIALS_SCALE ? 0 : 1u << (f->bits - 1);
}

double tsr_format_read(const tsr_format *f, unsigned code) {
    const unsigned sign = sign_of(f), all = (1u << f->bits) - 1;
    const unsigned magnitude = code & all & ~sign;
    double value;
    if (f->specials == TSR_SPECIALS_SCALE)
        return magnitude > f->largest ? (double)NAN : ldexp(1, (int)magnitude - f->bias);
    if (magnitude > f->largest) {
        bool is_infinity = f->specials == TSR_SPECIALS_INFINITIES && magnitude == f->largest + 1;
        value = is_infinity ? (double)INFINITY : (double)NAN;
    } else {
        unsigned exponent = magnitude >> f->fraction, one = 1u << f->fraction;
        unsigned digits = exponent ? (magnitude & (one - 1)) | one : magnitude;
        value = ldexp(digits, (int)(exponent ? exponent : 1) - f->bias - (int)f->fraction);
    }
    return code & sign ? -value : value;
}

/* True if the magnitude whole + rest, 0 < rest < 1, is rounded to whole + 1; `shift` bits of a
 * number of 24 bits were dropped. */
static bool rounds_outward(double whole, double rest, unsigned shift, bool is_negative,
                           bool is_power, tsr_encoding how) {
    switch (how.rounding) {
    case TSR_ROUND_NEAREST_EVEN:
        return rest > 0.5 || (rest == 0.5 && (is_power || fmod(whole, 2) != 0));
    case TSR_ROUND_UP:
        return !is_negative;
    case TSR_ROUND_DOWN:
        return is_negative;
    case TSR_ROUND_STOCHASTIC: /* the carry of dropped bits + random bits */
        return shift < 32 &&
               ldexp(rest, (int)shift) + (how.random >> (32 - shift)) >= ldexp(1, (int)shift);
    case TSR_ROUND_TOWARD_ZERO:
        break;
    }
    return false;
}

/* What takes the place of a number that exceeds the largest one. */
static unsigned overflow(const tsr_format *f, bool is_negative, bool is_infinity,
                         tsr_encoding how) {
    const unsigned infinity = f->specials == TSR_SPECIALS_INFINITIES ? f->largest + 1 : f->nan;
    bool toward_zero = how.rounding == TSR_ROUND_TOWARD_ZERO ||
                       (how.rounding == TSR_ROUND_UP && is_negative) ||
                       (how.rounding == TSR_ROUND_DOWN && !is_negative);
    bool stays =
        how.saturates || f->specials == TSR_SPECIALS_FINITE || (toward_zero && !is_infinity);
    return stays ? f->largest : infinity;
}

static unsigned round_magnitude(const tsr_format *f, double size, bool is_negative,
                                tsr_encoding how) {
    const bool is_power = f->specials == TSR_SPECIALS_SCALE;
    int exponent, least = is_power ? -f->bias : 1 - f->bias;
    frexp(size, &exponent); /* size in [2^(exponent - 1), 2^exponent) */
    int lead = exponent - 1;
    if (is_power && lead < least) return 0;
    int unit = (lead < least ? least : lead) - (int)f->fraction;
    double scaled = ldexp(size, -unit), whole = floor(scaled), rest = scaled - whole;
    /* f32 has 24 bits, denormals fewer. */
    unsigned shift = (unsigned)(unit - ((lead < -126 ? -126 : lead) - 23));
    double base = is_power ? lead + f->bias
                           : ldexp(lead < least ? 0 : lead + f->bias - 1, (int)f->fraction) + whole;
    if (rest > 0 && rounds_outward(whole, rest, shift, is_negative, is_power, how)) base++;
    return base > f->largest ? overflow(f, is_negative, false, how) : (unsigned)base;
}

unsigned tsr_format_write(const tsr_format *f, double value, tsr_encoding how) {
    const bool is_negative = signbit(value) != 0, is_scale = f->specials == TSR_SPECIALS_SCALE;
    const unsigned sign = is_negative ? sign_of(f) : 0;
    if (isnan(value)) return f->specials == TSR_SPECIALS_FINITE ? 0 : sign | f->nan;
    if (is_scale && (value < 0 || (value == 0 && !how.saturates))) return f->nan;
    if (value == 0) return sign;
    if (isinf(value)) return sign | overflow(f, is_negative, true, how);
    return sign | round_magnitude(f, fabs(value), is_negative, how);
}

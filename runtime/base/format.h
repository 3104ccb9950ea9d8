/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions between f64 and the number formats of formats.def, and the ways in which conversions
 * round. compiler/graph/NUMERICS.md is normative.
 */
#ifndef TSR_BASE_FORMAT_H
#define TSR_BASE_FORMAT_H

#include "runtime/base/tensor.h"

typedef enum tsr_rounding {
    TSR_ROUND_NEAREST_EVEN, /* ties: the larger magnitude if no code is even (f8E8M0FNU) */
    TSR_ROUND_TOWARD_ZERO,
    TSR_ROUND_UP,   /* toward +infinity */
    TSR_ROUND_DOWN, /* toward -infinity */
    TSR_ROUND_STOCHASTIC,
} tsr_rounding;
enum { TSR_ROUNDING_COUNT = TSR_ROUND_STOCHASTIC + 1 };
/* "nearest_even", "toward_zero", "up", "down", "stochastic" */
const char *tsr_rounding_name(tsr_rounding rounding);
bool tsr_rounding_from_name(const char *name, tsr_rounding *out_rounding);

typedef enum tsr_specials {
    TSR_SPECIALS_INFINITIES,
    TSR_SPECIALS_ONE_NAN,
    TSR_SPECIALS_FINITE,
    TSR_SPECIALS_SCALE,
} tsr_specials;

typedef struct tsr_format {
    tsr_dtype dtype; /* TSR_DTYPE_NONE: codes in ui8 */
    const char *name;
    unsigned bits, fraction;
    int bias;
    tsr_specials specials;
    unsigned largest, nan; /* codes without sign */
} tsr_format;

#define X(...) +1
enum {
    TSR_FORMAT_COUNT = 0
#include "runtime/base/formats.def"
};
#undef X
extern const tsr_format tsr_formats[TSR_FORMAT_COUNT];
/* NULL if there is no such format. */
const tsr_format *tsr_format_of(tsr_dtype dtype);
const tsr_format *tsr_format_from_name(const char *name);

double tsr_format_read(const tsr_format *format, unsigned code);
typedef struct tsr_encoding {
    tsr_rounding rounding;
    bool saturates;
    uint32_t random; /* TSR_ROUND_STOCHASTIC: 32 random bits */
} tsr_encoding;
/* Rounds once. */
unsigned tsr_format_write(const tsr_format *format, double value, tsr_encoding how);

#endif

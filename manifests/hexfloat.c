/* SPDX-License-Identifier: Apache-2.0 */
#include "manifests/hexfloat.h"

#include "runtime/base/result.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FRACTION_BITS = 52, FRACTION_DIGITS = 13, EXPONENT_BIAS = 1023 };

const char *tsr_hexfloat_format(double value, char out_text[static TSR_HEXFLOAT_TEXT_MAX]) {
    static_assert(sizeof(double) == sizeof(uint64_t), "IEEE 754 binary64");
    TSR_ASSERT(isfinite(value));
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t fraction = bits & ((UINT64_C(1) << FRACTION_BITS) - 1);
    int biased = (int)(bits >> FRACTION_BITS & 0x7ff);
    int exponent = biased ? biased - EXPONENT_BIAS : fraction ? 1 - EXPONENT_BIAS : 0;
    char digits[FRACTION_DIGITS + 1];
    size_t count = FRACTION_DIGITS;
    for (size_t i = 0; i < FRACTION_DIGITS; i++)
        digits[i] = "0123456789abcdef"[fraction >> (FRACTION_BITS - 4 - 4 * i) & 15];
    while (count && digits[count - 1] == '0') count--;
    snprintf(out_text, TSR_HEXFLOAT_TEXT_MAX, "%s0x%d%s%.*sp%+d", bits >> 63 ? "-" : "",
             biased != 0, count ? "." : "", (int)count, digits, exponent);
    return out_text;
}

static int hex_value(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    return -1;
}

/* Parses leniently into the bits; formatting them again and comparing ensures the only valid
 * spelling. */
bool tsr_hexfloat_parse(const char *text, double *out_value) {
    const char *at = text;
    uint64_t fraction = 0, sign = *at == '-';
    int exponent = 0;
    if (sign) at++;
    if (at[0] != '0' || at[1] != 'x' || (at[2] != '0' && at[2] != '1')) return false;
    bool normal = at[2] == '1';
    at += 3;
    if (*at == '.') at++;
    for (int i = 0; i < FRACTION_DIGITS; i++) {
        int digit = hex_value(*at);
        if (digit >= 0) at++;
        fraction = fraction << 4 | (uint64_t)(digit < 0 ? 0 : digit);
    }
    if (at[0] != 'p' || (at[1] != '+' && at[1] != '-')) return false;
    const char *digits = at + 2;
    for (at = digits; *at >= '0' && *at <= '9' && at - digits < 4; at++)
        exponent = exponent * 10 + (*at - '0');
    if (digits[-1] == '-') exponent = -exponent;
    if (normal && (exponent < 1 - EXPONENT_BIAS || exponent > EXPONENT_BIAS)) return false;
    uint64_t biased = normal ? (uint64_t)(exponent + EXPONENT_BIAS) : 0;
    uint64_t bits = sign << 63 | biased << FRACTION_BITS | fraction;
    double value;
    memcpy(&value, &bits, sizeof value);
    char again[TSR_HEXFLOAT_TEXT_MAX];
    if (strcmp(tsr_hexfloat_format(value, again), text) != 0) return false;
    *out_value = value;
    return true;
}

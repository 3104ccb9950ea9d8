/* SPDX-License-Identifier: Apache-2.0
 *
 * Every operation here is exact or correctly rounded by IEEE 754 (+ - * / and sqrt, no
 * contraction), in a fixed order, so the bits are the same on every machine.
 */
#include "runtime/base/random/philox.h"

#include "runtime/base/random/quantile.h"
#include "runtime/base/result.h"

#include <math.h>
#include <string.h>

tsr_philox_words tsr_philox(const uint32_t key[static 2], const uint32_t counter[static 4]) {
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53u * c0;
        uint64_t product1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t next0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
        uint32_t next2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
        c0 = next0;
        c1 = (uint32_t)product1;
        c2 = next2;
        c3 = (uint32_t)product0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (tsr_philox_words){{c0, c1, c2, c3}};
}

float tsr_philox_uniform_f32(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }

double tsr_philox_uniform_f64(uint32_t high, uint32_t low) {
    return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

/* Exact, symmetric about 1/2. */
double tsr_philox_middle_f64(uint32_t high, uint32_t low) {
    return ((double)(((uint64_t)high << 32 | low) >> 12) + 0.5) * 0x1p-52;
}

double tsr_philox_normal_f64(uint32_t high, uint32_t low) {
    return tsr_normal_quantile(tsr_philox_middle_f64(high, low));
}

/* Natural logarithm of a positive, finite x: x = 2^k m with m in [sqrt(1/2), sqrt(2)), s = (m - 1)
 * / (m + 1), log x = k log 2 + 2 atanh s. |s| < 0.1716, so the series ends after s^23. The error is
 * below 2 units in the last place of the result for x <= 1/2 (measured against 200-bit values). */
static double log_positive(double x) {
    static const double log2_high = 0x1.62e42feep-1; /* 32 bits: k times it is exact */
    static const double log2_low = 0x1.a39ef35793c76p-33;
    int64_t exponent = 0;
    uint64_t bits;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        exponent = -54;
    }
    memcpy(&bits, &x, sizeof bits);
    exponent += (int64_t)(bits >> 52) - 1023;
    bits = (bits & 0xFFFFFFFFFFFFFu) | (uint64_t)1023 << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m >= 0x1.6a09e667f3bcdp0) {
        m *= 0.5;
        exponent++;
    }
    double f = m - 1.0, s = f / (m + 1.0), z = s * s;
    double tail = 2.0 / 23;
    for (int odd = 21; odd >= 3; odd -= 2) tail = tail * z + 2.0 / odd;
    double k = (double)exponent;
    return k * log2_high + (2.0 * s + (s * z * tail + k * log2_low));
}

/* Coefficients in ascending order of powers; Horner's rule. */
static double polynomial(const double coefficients[static TSR_QUANTILE_TERMS], double x) {
    double value = coefficients[TSR_QUANTILE_TERMS - 1];
    for (int i = TSR_QUANTILE_TERMS - 2; i >= 0; i--) value = value * x + coefficients[i];
    return value;
}

double tsr_normal_quantile(double u) {
    TSR_ASSERT(u > 0.0 && u < 1.0);
    double q = u - 0.5;
    if (fabs(q) <= 0.425) {
        double r = 0.180625 - q * q;
        return q *
               (polynomial(tsr_quantile_center_over, r) / polynomial(tsr_quantile_center_under, r));
    }
    double r = sqrt(-log_positive(q < 0.0 ? u : 1.0 - u));
    double value = r <= 5.0 ? polynomial(tsr_quantile_tail_over, r - 1.6) /
                                  polynomial(tsr_quantile_tail_under, r - 1.6)
                            : polynomial(tsr_quantile_far_over, r - 5.0) /
                                  polynomial(tsr_quantile_far_under, r - 5.0);
    return q < 0.0 ? -value : value;
}

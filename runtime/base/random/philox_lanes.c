/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of philox.c for many elements: four at a time if the processor has AVX2, with the
 * same operations in the same order, so that the bits are the same. Both branches of the quantile
 * are computed if any of the four numbers is in a tail; far tails (one in 10^10) are computed one
 * by one.
 */
#include "runtime/base/random/philox.h"
#include "runtime/base/random/quantile.h"

#include <stdbool.h>

static void uniforms_one_by_one(const uint32_t key[static 2], uint64_t first, uint64_t count,
                                double *out) {
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t counter[4] = {0, (uint32_t)(first + i), (uint32_t)((first + i) >> 32), 0};
        tsr_philox_words bits = tsr_philox(key, counter);
        out[i] = tsr_philox_middle_f64(bits.words[0], bits.words[1]);
    }
}

static void quantiles_one_by_one(double *values, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) values[i] = tsr_normal_quantile(values[i]);
}

#ifdef __x86_64__

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE __attribute__((target("avx2"), always_inline)) static inline

enum { LANES = 4 };

/* __builtin_cpu_supports reads a result that was queried once. */
static bool has_lanes(void) { return __builtin_cpu_supports("avx2"); }

AVX2_INLINE __m256i all(uint32_t word) { return _mm256_set1_epi64x((int64_t)word); }

/* A word is in the lower half of each lane; the upper half is ignored. */
AVX2 static void uniforms_by_lanes(const uint32_t key[static 2], uint64_t first, uint64_t count,
                                   double *out) {
    const __m256i low = _mm256_set1_epi64x(0xffffffff),
                  exponent = _mm256_set1_epi64x(0x433ull << 52);
    for (uint64_t i = 0; i < count; i += LANES) {
        __m256i element = _mm256_add_epi64(_mm256_set1_epi64x((int64_t)(first + i)),
                                           _mm256_setr_epi64x(0, 1, 2, 3));
        __m256i c0 = _mm256_setzero_si256(), c1 = element, c2 = _mm256_srli_epi64(element, 32),
                c3 = _mm256_setzero_si256();
        uint32_t k0 = key[0], k1 = key[1];
        for (int round = 0; round < 10; round++) {
            __m256i product0 = _mm256_mul_epu32(all(0xD2511F53u), c0);
            __m256i product1 = _mm256_mul_epu32(all(0xCD9E8D57u), c2);
            c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), c1), all(k0));
            c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), c3), all(k1));
            c1 = product1;
            c3 = product0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        __m256i bits = _mm256_or_si256(_mm256_slli_epi64(c0, 32), _mm256_and_si256(c1, low));
        /* An integer below 2^52 in the mantissa, with the exponent of 2^52, is the sum of both. */
        __m256d whole = _mm256_sub_pd(
            _mm256_castsi256_pd(_mm256_or_si256(_mm256_srli_epi64(bits, 12), exponent)),
            _mm256_set1_pd(0x1p52));
        _mm256_storeu_pd(out + i, _mm256_mul_pd(_mm256_add_pd(whole, _mm256_set1_pd(0.5)),
                                                _mm256_set1_pd(0x1p-52)));
    }
}

AVX2_INLINE __m256d polynomial(const double coefficients[static TSR_QUANTILE_TERMS], __m256d x) {
    __m256d value = _mm256_set1_pd(coefficients[TSR_QUANTILE_TERMS - 1]);
    for (int i = TSR_QUANTILE_TERMS - 2; i >= 0; i--)
        value = _mm256_add_pd(_mm256_mul_pd(value, x), _mm256_set1_pd(coefficients[i]));
    return value;
}

/* log_positive of philox.c, for numbers that are not subnormal. */
AVX2_INLINE __m256d logarithm(__m256d x) {
    const __m256d log2_high = _mm256_set1_pd(0x1.62e42feep-1),
                  log2_low = _mm256_set1_pd(0x1.a39ef35793c76p-33), one = _mm256_set1_pd(1.0);
    __m256i bits = _mm256_castpd_si256(x);
    __m256d m = _mm256_castsi256_pd(
        _mm256_or_si256(_mm256_and_si256(bits, _mm256_set1_epi64x(0xFFFFFFFFFFFFF)),
                        _mm256_set1_epi64x(1023ll << 52)));
    /* The biased exponent is an integer, too. */
    __m256d k = _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(
                                  _mm256_srli_epi64(bits, 52), _mm256_set1_epi64x(0x433ll << 52))),
                              _mm256_set1_pd(0x1p52 + 1023));
    __m256d large = _mm256_cmp_pd(m, _mm256_set1_pd(0x1.6a09e667f3bcdp0), _CMP_GE_OQ);
    m = _mm256_blendv_pd(m, _mm256_mul_pd(m, _mm256_set1_pd(0.5)), large);
    k = _mm256_add_pd(k, _mm256_and_pd(large, one));
    __m256d s = _mm256_div_pd(_mm256_sub_pd(m, one), _mm256_add_pd(m, one));
    __m256d z = _mm256_mul_pd(s, s), tail = _mm256_set1_pd(2.0 / 23);
    static const double terms[] = {2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13,
                                   2.0 / 11, 2.0 / 9,  2.0 / 7,  2.0 / 5,  2.0 / 3};
    for (int i = 0; i < 10; i++)
        tail = _mm256_add_pd(_mm256_mul_pd(tail, z), _mm256_set1_pd(terms[i]));
    __m256d rest =
        _mm256_add_pd(_mm256_mul_pd(_mm256_mul_pd(s, z), tail), _mm256_mul_pd(k, log2_low));
    return _mm256_add_pd(_mm256_mul_pd(k, log2_high),
                         _mm256_add_pd(_mm256_mul_pd(_mm256_set1_pd(2.0), s), rest));
}

/* Computes the lanes of mask `in_tail`; *out_far: the lanes that are further out than this formula
 * allows. */
AVX2_INLINE __m256d tails(__m256d u, __m256d q, __m256d in_tail, int *out_far) {
    const __m256d sign = _mm256_set1_pd(-0.0);
    __m256d below = _mm256_cmp_pd(q, _mm256_setzero_pd(), _CMP_LT_OQ);
    __m256d p = _mm256_blendv_pd(_mm256_sub_pd(_mm256_set1_pd(1.0), u), u, below);
    __m256d r = _mm256_sqrt_pd(_mm256_xor_pd(logarithm(p), sign));
    __m256d x = _mm256_sub_pd(r, _mm256_set1_pd(1.6));
    __m256d far = _mm256_cmp_pd(r, _mm256_set1_pd(5.0), _CMP_GT_OQ);
    *out_far = _mm256_movemask_pd(_mm256_and_pd(far, in_tail));
    return _mm256_xor_pd(_mm256_div_pd(polynomial(tsr_quantile_tail_over, x),
                                       polynomial(tsr_quantile_tail_under, x)),
                         _mm256_and_pd(below, sign));
}

AVX2 static void quantiles_by_lanes(double *values, uint64_t count) {
    for (uint64_t i = 0; i < count; i += LANES) {
        __m256d u = _mm256_loadu_pd(values + i), q = _mm256_sub_pd(u, _mm256_set1_pd(0.5));
        __m256d r = _mm256_sub_pd(_mm256_set1_pd(0.180625), _mm256_mul_pd(q, q));
        __m256d value = _mm256_mul_pd(q, _mm256_div_pd(polynomial(tsr_quantile_center_over, r),
                                                       polynomial(tsr_quantile_center_under, r)));
        __m256d in_tail = _mm256_cmp_pd(_mm256_andnot_pd(_mm256_set1_pd(-0.0), q),
                                        _mm256_set1_pd(0.425), _CMP_GT_OQ);
        int far = 0;
        if (_mm256_movemask_pd(in_tail))
            value = _mm256_blendv_pd(value, tails(u, q, in_tail, &far), in_tail);
        double given[LANES];
        if (far) _mm256_storeu_pd(given, u);
        _mm256_storeu_pd(values + i, value);
        for (int lane = 0; far; lane++, far >>= 1)
            if (far & 1) values[i + (uint64_t)lane] = tsr_normal_quantile(given[lane]);
    }
}

#else
enum { LANES = 1 };
static bool has_lanes(void) { return false; }
static void uniforms_by_lanes(const uint32_t key[static 2], uint64_t first, uint64_t count,
                              double *out) {
    uniforms_one_by_one(key, first, count, out);
}
static void quantiles_by_lanes(double *values, uint64_t count) {
    quantiles_one_by_one(values, count);
}
#endif

void tsr_normal_quantiles(double *values, uint64_t count) {
    uint64_t whole = has_lanes() ? count - count % LANES : 0;
    if (whole) quantiles_by_lanes(values, whole);
    quantiles_one_by_one(values + whole, count - whole);
}

void tsr_philox_normals(const uint32_t key[static 2], uint64_t first, uint64_t count, double *out) {
    uint64_t whole = has_lanes() ? count - count % LANES : 0;
    if (whole) uniforms_by_lanes(key, first, whole, out);
    uniforms_one_by_one(key, first + whole, count - whole, out + whole);
    tsr_normal_quantiles(out, count);
}

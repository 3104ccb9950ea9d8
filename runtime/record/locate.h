/* SPDX-License-Identifier: Apache-2.0
 *
 * Where two tensors differ, of which one is there and of the other sums were kept. Elements count
 * as the unsigned number x that their bytes are, all modulo 2^64. Of each of 8 parts of a tensor
 * two sums are kept: of x, and of hashes mix(mix(i) ^ x) with the place i in the part, from 1; mix
 * is mix64variant13 of Steele, Lea and Flood ("Fast Splittable Pseudorandom Number Generators",
 * OOPSLA 2014, figure 16). Where one element of a part differs, the first sums tell by how much,
 * and the second ones at which place that is so. Several are not taken for one.
 */
#ifndef TSR_RUNTIME_LOCATE_H
#define TSR_RUNTIME_LOCATE_H

#include "runtime/base/tensor.h"

enum {
    TSR_SUMS_PARTS = 8,                     /* of ceil(n / 8) elements; the last may be short */
    TSR_SUMS_HEX = TSR_SUMS_PARTS * 2 * 16, /* characters, without the NUL */
};

typedef struct tsr_sums {
    uint64_t of_values[TSR_SUMS_PARTS], of_hashes[TSR_SUMS_PARTS];
} tsr_sums;

void tsr_sums_take(const tsr_tensor *tensor, tsr_sums *out_sums);
/* The two sums of each part by turns, 16 lower-case digits each. */
void tsr_sums_format(const tsr_sums *sums, char out_hex[static TSR_SUMS_HEX + 1]);
/* Exactly as many digits; false otherwise. */
bool tsr_sums_parse(const char *hex, size_t length, tsr_sums *out_sums);

typedef struct tsr_difference {
    uint64_t first, last; /* elements; equal where one alone differs in the first part that does */
    double was, is;       /* of that one; f64 and i64 beyond 2^53 rounded */
} tsr_difference;
/* Of the tensor and of what the sums were taken from; false where the sums are equal. */
bool tsr_sums_locate(const tsr_tensor *tensor, const tsr_sums *sums,
                     tsr_difference *out_difference);

#endif

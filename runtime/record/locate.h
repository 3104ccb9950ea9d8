/* SPDX-License-Identifier: Apache-2.0
 *
 * Locates differences between two tensors, when one is in memory and only sums of the other were
 * kept. The bytes of each element are an unsigned number x; all sums are modulo 2^64. A tensor has
 * 8 parts, and two sums of each part are kept: the sum of x, and the sum of hashes mix(mix(i) ^ x),
 * where i is the position in the part, from 1; mix is mix64variant13 of Steele, Lea and Flood
 * ("Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, figure 16). If one element of a
 * part differs, the first sums give the difference, and the second sums give its position. Several
 * differing elements are not mistaken for one.
 */
#ifndef TSR_RUNTIME_LOCATE_H
#define TSR_RUNTIME_LOCATE_H

#include "runtime/base/tensor.h"

enum {
    TSR_SUMS_PARTS = 8, /* parts of ceil(n / 8) elements; the last may be short */
    TSR_SUMS_HEX = TSR_SUMS_PARTS * 2 * 16, /* characters, without the NUL */
};

typedef struct tsr_sums {
    uint64_t of_values[TSR_SUMS_PARTS], of_hashes[TSR_SUMS_PARTS];
} tsr_sums;

void tsr_sums_take(const tsr_tensor *tensor, tsr_sums *out_sums);
/* Formats the two sums of each part alternately, 16 lower-case digits each. */
void tsr_sums_format(const tsr_sums *sums, char out_hex[static TSR_SUMS_HEX + 1]);
/* Accepts exactly that number of digits; else returns false. */
bool tsr_sums_parse(const char *hex, size_t length, tsr_sums *out_sums);

typedef struct tsr_difference {
    uint64_t first, last; /* elements; equal if the first differing part has only one difference */
    double was, is;       /* values of that element; f64 and i64 beyond 2^53 rounded */
} tsr_difference;
/* Locates the difference between the tensor and the source of the sums; false if the sums are
 * equal. */
bool tsr_sums_locate(const tsr_tensor *tensor, const tsr_sums *sums,
                     tsr_difference *out_difference);

#endif

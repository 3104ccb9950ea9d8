/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "runtime/record/locate.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS_MAX = 70 };
static unsigned char bytes[8 * ELEMENTS_MAX];

static tsr_tensor make(tsr_dtype dtype, uint64_t count) {
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(rand() & 1);
    return (tsr_tensor){"t", dtype, {1, {count}}, bytes};
}

static const tsr_dtype dtypes[] = {TSR_DTYPE_F64, TSR_DTYPE_F32, TSR_DTYPE_BF16,
                                   TSR_DTYPE_F16, TSR_DTYPE_I64, TSR_DTYPE_I32,
                                   TSR_DTYPE_I8,  TSR_DTYPE_UI8, TSR_DTYPE_I1};
enum { DTYPES = TSR_COUNT(dtypes) };

/* Changes every element of tensors of every length and type, by the highest or the lowest bit. */
Test(locate, one_element) {
    for (size_t d = 0; d < DTYPES; d++) {
        size_t size = tsr_dtype_size(dtypes[d]);
        for (uint64_t count = 1; count <= ELEMENTS_MAX; count++) {
            tsr_tensor tensor = make(dtypes[d], count);
            tsr_sums sums, read;
            char hex[TSR_SUMS_HEX + 1];
            tsr_difference found;
            tsr_sums_take(&tensor, &sums);
            tsr_sums_format(&sums, hex);
            cr_assert(tsr_sums_parse(hex, TSR_SUMS_HEX, &read));
            cr_assert_not(tsr_sums_locate(&tensor, &read, &found));
            for (uint64_t i = 0; i < count; i++) {
                bool top = dtypes[d] != TSR_DTYPE_I1 && i % 2;
                unsigned char *byte = &bytes[i * size + (top ? size - 1 : 0)];
                double was = tsr_dtype_read(dtypes[d], bytes, i);
                *byte ^= top ? 0x40 : 1;
                cr_assert(tsr_sums_locate(&tensor, &read, &found));
                cr_assert(found.first == i && found.last == i, "%zu %lu", d, (unsigned long)i);
                cr_assert(found.was == was && found.is == tsr_dtype_read(dtypes[d], bytes, i));
                *byte ^= top ? 0x40 : 1;
            }
        }
    }
}

/* The first part that differs is reported; if several of its elements differ, as a whole. */
Test(locate, several_elements) {
    tsr_tensor tensor = make(TSR_DTYPE_I32, 64);
    int32_t *values = (int32_t *)(void *)bytes;
    tsr_sums sums;
    tsr_difference found;
    tsr_sums_take(&tensor, &sums);
    values[63]++;
    values[17]++;
    cr_assert(tsr_sums_locate(&tensor, &sums, &found));
    cr_assert(found.first == 17 && found.last == 17);
    values[19]++; /* as if it were values[18], twice */
    cr_assert(tsr_sums_locate(&tensor, &sums, &found));
    cr_assert(found.first == 16 && found.last == 23, "%lu", (unsigned long)found.first);
    values[19] -= 2; /* now the sum of the values is the original one */
    cr_assert(tsr_sums_locate(&tensor, &sums, &found));
    cr_assert(found.first == 16 && found.last == 23);
}

Test(locate, text_that_is_none) {
    char hex[TSR_SUMS_HEX + 1];
    tsr_sums sums = {.of_values = {1}};
    tsr_sums_format(&sums, hex);
    cr_assert(tsr_sums_parse(hex, TSR_SUMS_HEX, &sums));
    cr_assert_not(tsr_sums_parse(hex, TSR_SUMS_HEX - 1, &sums));
    hex[40] = 'A';
    cr_assert_not(tsr_sums_parse(hex, TSR_SUMS_HEX, &sums));
}

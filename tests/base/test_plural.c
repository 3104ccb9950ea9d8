/* SPDX-License-Identifier: Apache-2.0
 *
 * Words in messages that depend on a number of any integer type.
 */
#include "runtime/base/array.h"
#include "runtime/base/plural.h"

#include <criterion/criterion.h>
#include <stdint.h>

Test(plural, only_one_is_one) {
    const struct {
        int64_t count;
        const char *s, *y, *is, *was;
    } rows[] = {{0, "s", "ies", "are", "were"},
                {1, "", "y", "is", "was"},
                {2, "s", "ies", "are", "were"},
                {-1, "s", "ies", "are", "were"},
                {INT64_C(1) << 32 | 1, "s", "ies", "are", "were"}};
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        cr_assert_str_eq(TSR_PLURAL(rows[i].count), rows[i].s);
        cr_assert_str_eq(TSR_PLURAL_Y(rows[i].count), rows[i].y);
        cr_assert_str_eq(TSR_IS_ARE(rows[i].count), rows[i].is);
        cr_assert_str_eq(TSR_WAS_WERE(rows[i].count), rows[i].was);
    }
    cr_assert_str_eq(TSR_PLURAL((unsigned char)1), "");
    cr_assert_str_eq(TSR_PLURAL(UINT64_MAX), "s");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/frontend/stablehlo/rules.h"

#include "runtime/base/array.h"

#include <stdlib.h>
#include <string.h>

#define ANY SIZE_MAX
static const tsr_hlo_row rows[] = {
#define X(op, rule, with, in_low, in_high, out_count)                                              \
    {op, tsr_hlo_rule_##rule, with, in_low, in_high, out_count},
#include "compiler/frontend/stablehlo/rules.def"
#undef X
};

const tsr_hlo_row *tsr_hlo_find_row(const char *op) {
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        if (strcmp(rows[i].op, op) == 0) return &rows[i];
    return NULL;
}

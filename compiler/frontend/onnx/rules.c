/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/frontend/onnx/rules.h"

#include "runtime/base/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const tsr_onnx_row rows[] = {
#define X(domain_name, op_name, first_version, last_version, rule_name, with_text)                 \
    {.domain = domain_name,                                                                        \
     .op = op_name,                                                                                \
     .first = first_version,                                                                       \
     .last = last_version,                                                                         \
     .rule = tsr_onnx_rule_##rule_name,                                                            \
     .with = with_text},
#include "compiler/frontend/onnx/rules.def"
#undef X
};

const tsr_onnx_row *tsr_onnx_find_row(const char *domain, const char *op, int64_t version,
                                      char out_other[static 64]) {
    out_other[0] = 0;
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        const tsr_onnx_row *row = &rows[i];
        if (strcmp(row->op, op) != 0 || strcmp(row->domain, domain) != 0) continue;
        if (version >= row->first && version <= row->last) return row;
        snprintf(out_other, 64, "%" PRId64 " to %" PRId64, row->first, row->last);
    }
    return NULL;
}

bool tsr_onnx_takes_open(const tsr_onnx_row *row) {
    static bool (*const all[])(tsr_onnx_call *) = {
#define X(rule) tsr_onnx_rule_##rule,
#include "compiler/frontend/onnx/open.def"
#undef X
    };
    for (size_t i = 0; i < TSR_COUNT(all); i++)
        if (row->rule == all[i]) return true;
    return false;
}

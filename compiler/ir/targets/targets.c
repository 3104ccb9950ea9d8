/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/ir/targets/features.h"
#include "compiler/ir/targets/target.h"
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/suggest.h"

#include <string.h>

static const tsr_target targets[] = {
#define X(ID, family, name, triple, cpu, features, vector_bytes, has_fma, has_f16c, has_dot,       \
          has_vnni, warp_lanes, wave_lanes, arch, exactly, arguments, ...)                         \
    {TSR_FAMILY_##family, name,       triple,   cpu,     features,                                 \
     vector_bytes,        has_fma,    has_f16c, has_dot, has_vnni,                                 \
     warp_lanes,          wave_lanes, arch,     exactly, arguments,                                \
     __VA_ARGS__},
#include "compiler/ir/targets/targets.def"
#undef X
};

size_t tsr_target_count(void) { return TSR_COUNT(targets); }

const tsr_target *tsr_target_get(size_t index) {
    TSR_ASSERT(index < tsr_target_count());
    return &targets[index];
}

tsr_result tsr_target_find(tsr_ctx *ctx, const char *name, const tsr_target **out_target) {
    char names[512] = "", meant[TSR_SUGGESTION_TEXT_MAX];
    size_t used = 0;
    tsr_suggestion likely = {.wrong = name};
    for (size_t i = 0; i < tsr_target_count(); i++) {
        if (strcmp(targets[i].name, name) == 0) {
            *out_target = &targets[i];
            return TSR_SUCCESS;
        }
        tsr_suggest(&likely, targets[i].name);
        const char *parts[] = {i ? ", " : "", targets[i].name};
        for (size_t k = 0; k < 2 && used + strlen(parts[k]) < sizeof names; k++) {
            memcpy(names + used, parts[k], strlen(parts[k]) + 1);
            used += strlen(parts[k]);
        }
    }
    FAIL(ctx, TSR_USAGE, "unknown target '%s'; there are %s%s", name, names,
         tsr_suggestion_text(&likely, meant));
}

bool tsr_target_has_matrix_units(const tsr_target *target) {
    return target->family == TSR_FAMILY_CUDA;
}

bool tsr_target_has_matrix_products(const tsr_target *target) { return target->warp_lanes != 0; }

int64_t tsr_target_shared_bytes(const tsr_target *target) {
    const tsr_feature *has = target->arch ? tsr_feature_find(target->cpu) : NULL;
    return has ? has->shared_bytes : 0;
}

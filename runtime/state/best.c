/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/state/best.h"

#include "runtime/commit/mutants.h"
#include "runtime/state/record.h"

#include <math.h>
#include <string.h>

const char *tsr_metric_check(const char *metric) {
    if (strncmp(metric, "min:", 4) != 0 && strncmp(metric, "max:", 4) != 0)
        return "it does not begin with min: or max:";
    if (!metric[4]) return "it names no output";
    return strlen(metric) < TSR_METRIC_MAX ? NULL : "it is too long";
}

static bool is_own(const tsr_token *token) {
    const tsr_best *best = &token->position.best;
    return best->generation == token->generation && best->epoch == token->epoch;
}

bool tsr_best_is_sound(const tsr_token *token) {
    static const tsr_digest none;
    const tsr_best *best = &token->position.best;
    bool linked = !tsr_digest_equal(&best->manifest_hash, &none);
    uint64_t bits;
    memcpy(&bits, &best->value, sizeof bits);
    if (best->evaluated_step > token->position.step) return false;
    /* From version 5 on there may be no metric. */
    if (!best->metric[0] && (best->evaluated_step || best->without_gain || best->generation))
        return false;
    if (!best->generation) return !best->epoch && !best->step && !bits && !linked;
    if (!isfinite(best->value) || best->step > best->evaluated_step || !best->epoch) return false;
    if (is_own(token)) return !linked && best->step == token->position.step;
    return linked && best->generation < token->generation && best->epoch <= token->epoch;
}

tsr_best tsr_best_of(const tsr_manifest *manifest) {
    tsr_best best = manifest->token.position.best;
    if (is_own(&manifest->token)) best.manifest_hash = manifest->hash;
    return best;
}

void tsr_best_link(tsr_token *token, const tsr_best *known) {
    tsr_best *best = &token->position.best;
    if (best->generation == TSR_BEST_ITSELF) {
        TSR_ASSERT(best->step == token->position.step);
        best->generation = token->generation;
        best->epoch = token->epoch;
        best->manifest_hash = (tsr_digest){{0}};
    } else if (best->generation) {
        TSR_ASSERT(best->generation == known->generation && best->epoch == known->epoch);
        best->manifest_hash = known->manifest_hash;
    }
}

tsr_retained tsr_retained_of(const tsr_manifest *manifest) {
    const tsr_token *token = &manifest->token;
    const tsr_best *best = &token->position.best;
    return (tsr_retained){{TSR_NAME_MANIFEST, token->epoch, token->generation, 0, 0},
                          {TSR_NAME_MANIFEST, best->epoch, best->generation, 0, 0}};
}

static bool same(const tsr_name *a, const tsr_name *b) {
    return a->epoch == b->epoch && a->generation == b->generation;
}

bool tsr_retained_has(const tsr_retained *retained, const tsr_name *name) {
    return same(&retained->name, name) ||
           (same(&retained->best, name) && !TSR_MUTANT(BEST_REMOVED));
}

tsr_result tsr_best_check(tsr_ctx *ctx, int root, tsr_arena *arena, const tsr_best *best,
                          tsr_manifest *out_manifest) {
    const tsr_name name = {TSR_NAME_MANIFEST, best->epoch, best->generation, 0, 0};
    char text[TSR_NAME_TEXT_MAX];
    TRY(ctx, tsr_record_manifest(ctx, root, arena, &name, out_manifest));
    if (!tsr_digest_equal(&best->manifest_hash, &out_manifest->hash))
        FAIL(ctx, TSR_STATE, "%s is not the manifest that a later generation names as the best",
             tsr_name_format(&name, text));
    return TSR_SUCCESS;
}

void tsr_best_forget(tsr_best *best) {
    best->generation = best->epoch = best->step = 0;
    best->manifest_hash = (tsr_digest){{0}};
    best->value = 0;
}

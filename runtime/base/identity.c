/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/identity.h"

#include "runtime/base/io/json.h"

#include <string.h>

bool tsr_identity_is_known(const tsr_identity *identity) {
    static const tsr_digest unknown;
    return identity && !tsr_digest_equal(&identity->program, &unknown);
}

size_t tsr_identity_size(const tsr_identity *identity) {
    size_t size = 0;
    for (size_t i = 0; i < identity->hyperparameter_count; i++)
        size += 2 + strlen(identity->hyperparameters[i].name) +
                strlen(identity->hyperparameters[i].value);
    return size;
}

static bool name_is_good(const char *name) {
    size_t length = strlen(name);
    if (!length || length > TSR_HYPERPARAMETER_NAME_MAX || !tsr_utf8_valid(name, length))
        return false;
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) return false;
    return true;
}

static bool value_is_good(const char *value) {
    size_t length = strlen(value);
    for (const char *c = value; *c; c++)
        if (*c <= ' ' || *c >= 0x7f) return false;
    return length && length <= TSR_HYPERPARAMETER_VALUE_MAX;
}

const char *tsr_identity_check(const tsr_identity *identity) {
    const tsr_hyperparameter *list = identity->hyperparameters;
    if (identity->hyperparameter_count > TSR_HYPERPARAMETERS_MAX)
        return "it has too many hyper-parameters";
    if (identity->hyperparameter_count && !tsr_identity_is_known(identity))
        return "it has hyper-parameters and no program digest";
    for (size_t i = 0; i < identity->hyperparameter_count; i++) {
        if (!name_is_good(list[i].name)) return "a name of its hyper-parameters is not usable";
        if (!value_is_good(list[i].value)) return "a value of its hyper-parameters is not usable";
        if (i && strcmp(list[i - 1].name, list[i].name) >= 0)
            return "its hyper-parameters are not in the order of their names";
    }
    if (tsr_identity_size(identity) > TSR_HYPERPARAMETERS_BYTES_MAX)
        return "its hyper-parameters are too long";
    return NULL;
}

tsr_result tsr_identity_copy(tsr_ctx *ctx, const tsr_identity *identity, tsr_arena *arena,
                             tsr_identity *out_copy) {
    size_t count = identity->hyperparameter_count;
    tsr_hyperparameter *list = TSR_NEW(arena, tsr_hyperparameter, count + 1);
    bool copied = list != NULL;
    for (size_t i = 0; i < count && copied; i++) {
        list[i].name = tsr_arena_strdup(arena, identity->hyperparameters[i].name);
        list[i].value = tsr_arena_strdup(arena, identity->hyperparameters[i].value);
        copied = list[i].name && list[i].value;
    }
    if (!copied) FAIL(ctx, TSR_MEMORY, "no memory for %zu hyper-parameters", count);
    *out_copy = (tsr_identity){identity->program, count, list};
    return TSR_SUCCESS;
}

bool tsr_identity_next_change(const tsr_identity *a, const tsr_identity *b, tsr_identity_cursor *at,
                              tsr_hyperparameter_change *out_change) {
    while (at->a < a->hyperparameter_count || at->b < b->hyperparameter_count) {
        const tsr_hyperparameter *left = &a->hyperparameters[at->a],
                                 *right = &b->hyperparameters[at->b];
        int order = at->a == a->hyperparameter_count   ? 1
                    : at->b == b->hyperparameter_count ? -1
                                                       : strcmp(left->name, right->name);
        at->a += order <= 0;
        at->b += order >= 0;
        if (order == 0 && strcmp(left->value, right->value) == 0) continue;
        *out_change = (tsr_hyperparameter_change){order <= 0 ? left->name : right->name,
                                                  order <= 0 ? left->value : NULL,
                                                  order >= 0 ? right->value : NULL};
        return true;
    }
    return false;
}

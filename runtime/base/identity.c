/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/identity.h"

#include "runtime/base/io/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *tsr_hyperparameter_format(double value,
                                      char out_text[static TSR_HYPERPARAMETER_VALUE_MAX]) {
    if (fabs(value) < 1e15 && value == floor(value)) {
        snprintf(out_text, TSR_HYPERPARAMETER_VALUE_MAX, "%.0f", value);
        return out_text;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out_text, TSR_HYPERPARAMETER_VALUE_MAX, "%.*g", digits, value);
        if (strtod(out_text, NULL) == value) break;
    }
    return out_text;
}

const tsr_hyperparameter *tsr_identity_find(const tsr_identity *identity, const char *name) {
    for (size_t i = 0; i < identity->hyperparameter_count; i++)
        if (strcmp(identity->hyperparameters[i].name, name) == 0)
            return &identity->hyperparameters[i];
    return NULL;
}

uint64_t tsr_identity_get_set(const tsr_identity *identity) {
    uint64_t set = 0;
    for (size_t i = 0; i < identity->hyperparameter_count; i++)
        if (identity->hyperparameters[i].is_set) set |= UINT64_C(1) << i;
    return set;
}

bool tsr_identity_is_known(const tsr_identity *identity) {
    static const tsr_digest unknown;
    return identity && !tsr_digest_equal(&identity->program, &unknown);
}

bool tsr_identity_mark_set(tsr_identity *identity, uint64_t set) {
    tsr_hyperparameter *list = (tsr_hyperparameter *)(uintptr_t)identity->hyperparameters;
    size_t count = identity->hyperparameter_count;
    if (count < 64 && set >> count) return false;
    for (size_t i = 0; i < count; i++) list[i].is_set = set >> i & 1;
    return true;
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
        list[i].is_set = identity->hyperparameters[i].is_set;
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
        *out_change = (tsr_hyperparameter_change){
            order <= 0 ? left->name : right->name, order <= 0 ? left->value : NULL,
            order >= 0 ? right->value : NULL, order <= 0 && left->is_set,
            order >= 0 && right->is_set};
        return true;
    }
    return false;
}

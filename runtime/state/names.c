/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/state/names.h"

#include "runtime/base/array.h"
#include "runtime/base/plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *tsr_name_format(const tsr_name *name, char out_text[static TSR_NAME_TEXT_MAX]) {
    const size_t capacity = TSR_NAME_TEXT_MAX;
    switch (name->kind) {
    case TSR_NAME_EPOCH:
        snprintf(out_text, capacity, "EPOCH.%" PRIu64, name->epoch);
        break;
    case TSR_NAME_BASE:
        snprintf(out_text, capacity, "BASE.%" PRIu64, name->epoch);
        break;
    case TSR_NAME_MANIFEST:
        snprintf(out_text, capacity, "MANIFEST.%" PRIu64 ".%" PRIu64, name->generation,
                 name->epoch);
        break;
    case TSR_NAME_TEMP:
        snprintf(out_text, capacity, "TEMP.%" PRIu64 ".%" PRIu64 ".%" PRIu64, name->epoch,
                 name->pid, name->nonce);
        break;
    case TSR_NAME_SPARE:
        snprintf(out_text, capacity, "SPARE.%" PRIu64, name->epoch);
        break;
    case TSR_NAME_GENERATION:
        snprintf(out_text, capacity, "%" PRIu64 "-%" PRIu64, name->epoch, name->generation);
        break;
    case TSR_NAME_SEGMENT:
        snprintf(out_text, capacity, "segment.%" PRIu64, name->generation);
        break;
    case TSR_NAME_COMMITTED:
        snprintf(out_text, capacity, "COMMITTED");
        break;
    case TSR_NAME_OTHER:
        TSR_ASSERT(!"a name of no kind is never written");
    }
    return out_text;
}

/* Parses a decimal number without leading zeros, below 2^64 - 1, so that it can always be
 * incremented. */
static bool take_number(const char **at, uint64_t *out_value) {
    const char *c = *at;
    uint64_t value = 0;
    if (*c < '0' || *c > '9' || (*c == '0' && c[1] >= '0' && c[1] <= '9')) return false;
    for (; *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*c - '0'), &value))
            return false;
    *at = c;
    *out_value = value;
    return value < UINT64_MAX;
}

tsr_name tsr_name_parse(const char *text) {
    static const struct {
        tsr_name_kind kind;
        const char *prefix;
        char separator;
        uint8_t fields[3]; /* 1 epoch, 2 generation, 3 pid, 4 nonce */
    } rows[] = {
        {TSR_NAME_EPOCH, "EPOCH.", 0, {1}},
        {TSR_NAME_BASE, "BASE.", 0, {1}},
        {TSR_NAME_MANIFEST, "MANIFEST.", '.', {2, 1}},
        {TSR_NAME_TEMP, "TEMP.", '.', {1, 3, 4}},
        {TSR_NAME_SPARE, "SPARE.", 0, {1}},
        {TSR_NAME_GENERATION, "", '-', {1, 2}},
        {TSR_NAME_SEGMENT, "segment.", 0, {2}},
        {TSR_NAME_COMMITTED, "COMMITTED", 0, {0}},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        tsr_name name = {.kind = rows[i].kind};
        uint64_t *const slots[] = {NULL, &name.epoch, &name.generation, &name.pid, &name.nonce};
        size_t length = strlen(rows[i].prefix);
        const char *at = text + length;
        bool good = strncmp(text, rows[i].prefix, length) == 0;
        for (size_t k = 0; good && k < 3 && rows[i].fields[k]; k++) {
            if (k) good = *at++ == rows[i].separator;
            good = good && take_number(&at, slots[rows[i].fields[k]]);
        }
        if (good && !*at) return name;
    }
    return (tsr_name){.kind = TSR_NAME_OTHER};
}

bool tsr_names_list(const tsr_name *names, size_t count, uint64_t without,
                    char out_text[static TSR_NAMES_TEXT_MAX]) {
    enum { SHOWN_MAX = 10 };
    const size_t capacity = TSR_NAMES_TEXT_MAX;
    const tsr_name *shown[SHOWN_MAX];
    size_t used = 0, shown_count = 0, older = 0;
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        if (names[i].generation == without)
            found = true;
        else if (shown_count < SHOWN_MAX)
            shown[shown_count++] = &names[i];
        else
            older++;
    }
    memcpy(out_text, "none", sizeof "none");
    for (size_t i = shown_count; i-- > 0;)
        used += (size_t)snprintf(out_text + used, capacity - used, "%s%" PRIu64, used ? ", " : "",
                                 shown[i]->generation);
    if (older)
        snprintf(out_text + used, capacity - used, " and %zu older one%s", older,
                 TSR_PLURAL(older));
    return found;
}

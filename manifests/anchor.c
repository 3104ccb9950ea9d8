/* SPDX-License-Identifier: Apache-2.0 */
#include "manifests/anchor.h"

#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 18 };

bool tsr_anchor_read(const char *entry_name, tsr_anchor *out_anchor) {
    const char *at = strrchr(entry_name, '[');
    tsr_anchor anchor = {0};
    if (!at || at == entry_name) return false;
    anchor.name_length = (size_t)(at - entry_name);
    do {
        tsr_anchor_size *one = &anchor.sizes[anchor.count++];
        const char *symbol = at + 1, *equals = symbol + strcspn(symbol, "=,[]");
        size_t digits = *equals == '=' ? strspn(equals + 1, "0123456789") : 0;
        if (equals == symbol || !digits || digits > DIGITS_MAX) return false;
        *one = (tsr_anchor_size){symbol, (size_t)(equals - symbol), strtoull(equals + 1, NULL, 10)};
        at = equals + 1 + digits;
    } while (*at == ',' && anchor.count < TSR_ANCHOR_SYMBOLS_MAX);
    if (at[0] != ']' || at[1]) return false;
    *out_anchor = anchor;
    return true;
}

bool tsr_anchor_same_symbols(const tsr_anchor *a, const tsr_anchor *b) {
    size_t i = 0;
    while (i < a->count && i < b->count && a->sizes[i].length == b->sizes[i].length &&
           memcmp(a->sizes[i].symbol, b->sizes[i].symbol, a->sizes[i].length) == 0)
        i++;
    return i == a->count && i == b->count;
}

static bool is_copy_of(const char *entry_name, const char *name, size_t length) {
    tsr_anchor anchor;
    return tsr_anchor_read(entry_name, &anchor) && anchor.name_length == length &&
           memcmp(entry_name, name, length) == 0;
}

size_t tsr_anchor_find(const tsr_config *config, const char *name) {
    size_t index = 0;
    while (index < config->entry_count &&
           !is_copy_of(config->entries[index].name, name, strlen(name)))
        index++;
    return index;
}

bool tsr_anchor_follows(const tsr_config *config, size_t index) {
    tsr_anchor anchor;
    const char *name = config->entries[index].name;
    return index > 0 && tsr_anchor_read(name, &anchor) &&
           is_copy_of(config->entries[index - 1].name, name, anchor.name_length);
}

size_t tsr_anchor_name_length(const char *entry_name) {
    tsr_anchor anchor;
    return tsr_anchor_read(entry_name, &anchor) ? anchor.name_length : strlen(entry_name);
}

void tsr_anchor_list_entries(const tsr_config *config, tsr_buffer *list) {
    for (size_t i = 0; i < config->entry_count; i++) {
        const char *name = config->entries[i].name;
        if (tsr_anchor_follows(config, i)) continue;
        tsr_buffer_printf(list, "%s%.*s", i ? ", " : "", (int)tsr_anchor_name_length(name), name);
    }
}

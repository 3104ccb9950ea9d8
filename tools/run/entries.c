/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/entries.h"

#include "runtime/base/suggest.h"

#include <string.h>

/* The length of an entry's name without the sizes of its dims: "predict[N=8]" has 7. */
static size_t name_length(const tsr_config_entry *entry) { return strcspn(entry->name, "["); }

/* True if both are copies of one entry, for different sizes of its dims. */
static bool are_copies(const tsr_config_entry *a, const tsr_config_entry *b) {
    size_t length = name_length(a);
    return a->name[length] && strncmp(a->name, b->name, length + 1) == 0;
}

/* Appends the names of the entries; copies of one entry are listed once. */
static void list_entries(const tsr_config *config, tsr_buffer *list) {
    for (size_t i = 0; i < config->entry_count; i++) {
        const tsr_config_entry *entry = &config->entries[i];
        if (i && are_copies(entry - 1, entry)) continue;
        tsr_buffer_printf(list, "%s%.*s", i ? ", " : "", (int)name_length(entry), entry->name);
    }
}

tsr_result tsr_run_find_entry(tsr_ctx *ctx, const tsr_config *config, const char *name,
                              const tsr_config_entry **out_entry) {
    tsr_buffer list = {0};
    tsr_result result = TSR_SUCCESS;
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = name};
    *out_entry = tsr_config_find_entry(config, name);
    list_entries(config, &list);
    for (size_t i = 0; i < config->entry_count; i++) tsr_suggest(&likely, config->entries[i].name);
    if (!*out_entry)
        FAIL_GOTO(ctx, result, TSR_USAGE, "no entry '%s'; the bundle has %s%s", name,
                  list.bytes ? list.bytes : "none", tsr_suggestion_text(&likely, meant));
done:
    tsr_buffer_finish(&list);
    return result;
}

tsr_result tsr_run_need_training(tsr_ctx *ctx, const tsr_config *config) {
    tsr_buffer list = {0};
    tsr_result result = TSR_SUCCESS;
    for (size_t i = 0; i < config->entry_count; i++)
        if (config->entries[i].kind == TSR_ENTRY_TRAIN) goto done;
    list_entries(config, &list);
    FAIL_GOTO(ctx, result, TSR_USAGE, "the bundle trains nothing; expected --entry with one of %s",
              list.bytes ? list.bytes : "none");
done:
    tsr_buffer_finish(&list);
    return result;
}

const char *tsr_run_only_entry(const tsr_config *config, tsr_buffer *name) {
    const tsr_config_entry *first = config->entries;
    bool calls = config->entry_count && first->kind != TSR_ENTRY_TRAIN;
    for (size_t i = 1; i < config->entry_count; i++) calls &= are_copies(first, &first[i]);
    if (!calls) return NULL;
    if (config->entry_count == 1) return first->name;
    list_entries(config, name);
    return name->bytes;
}

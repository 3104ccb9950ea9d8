/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/entries.h"

#include "manifests/anchor.h"
#include "runtime/base/suggest.h"

tsr_result tsr_run_find_entry(tsr_ctx *ctx, const tsr_config *config, const char *name,
                              const tsr_config_entry **out_entry) {
    tsr_buffer list = {0};
    tsr_result result = TSR_SUCCESS;
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = name};
    *out_entry = tsr_config_find_entry(config, name);
    tsr_anchor_list_entries(config, &list);
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
    tsr_anchor_list_entries(config, &list);
    FAIL_GOTO(ctx, result, TSR_USAGE, "the bundle trains nothing; expected --entry with one of %s",
              list.bytes ? list.bytes : "none");
done:
    tsr_buffer_finish(&list);
    return result;
}

const char *tsr_run_name_training(const tsr_config *config, const char *given) {
    const tsr_config_entry *entry = given ? tsr_config_find_entry(config, given) : NULL;
    for (size_t i = 0; i < config->entry_count && !entry; i++)
        if (config->entries[i].kind == TSR_ENTRY_TRAIN) entry = &config->entries[i];
    return entry ? entry->name : "";
}

const char *tsr_run_only_entry(const tsr_config *config, tsr_buffer *name) {
    const tsr_config_entry *first = config->entries;
    bool calls = config->entry_count && first->kind != TSR_ENTRY_TRAIN;
    for (size_t i = 1; i < config->entry_count; i++) calls &= tsr_anchor_follows(config, i);
    if (!calls) return NULL;
    if (config->entry_count == 1) return first->name;
    tsr_anchor_list_entries(config, name);
    return name->bytes;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors in tuples, lists, dicts and caches.
 */
#include "compiler/frontend/language/trace/tracer.h"
#include "runtime/base/array.h"

static void add(tsr_evaluator *e, tsr_value v, tsr_leaves *out) {
    if (out->count == out->capacity) {
        tsr_value *larger = TSR_ARENA_GROW(e->arena, out->items, &out->capacity, 8);
        if (!larger) {
            tsr_evaluate_no_memory(e);
            return;
        }
        out->items = larger;
    }
    out->items[out->count++] = v;
}

void tsr_leaves_collect(tsr_evaluator *e, tsr_value v, tsr_leaves *out) {
    if (tsr_value_is(v, &tsr_tensor_class)) add(e, v, out);
    if (tsr_cache_get(v)) {
        add(e, tsr_cache_get(v)->k, out);
        add(e, tsr_cache_get(v)->v, out);
    }
    if (v.kind == TSR_VALUE_TUPLE || v.kind == TSR_VALUE_LIST)
        for (size_t i = 0; i < v.list->count; i++) tsr_leaves_collect(e, v.list->items[i], out);
    if (v.kind == TSR_VALUE_DICT)
        for (size_t i = 0; i < v.dict->live; i++)
            tsr_leaves_collect(e, tsr_dict_entry_at(v.dict, i)->value, out);
}

static tsr_value replace_dict(tsr_evaluator *e, tsr_value v, const MlirValue *values, size_t *at) {
    tsr_value made = tsr_value_dict(e->arena);
    if (!made.kind) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < v.dict->live; i++) {
        const tsr_dict_entry *entry = tsr_dict_entry_at(v.dict, i);
        tsr_value item = tsr_leaves_replace(e, entry->value, values, at);
        if (!tsr_dict_set(e->arena, made.dict, entry->key, entry->hash, item))
            return tsr_evaluate_no_memory(e);
    }
    return made;
}

tsr_value tsr_leaves_replace(tsr_evaluator *e, tsr_value v, const MlirValue *values, size_t *at) {
    if (tsr_value_is(v, &tsr_tensor_class)) return tsr_tensor_make(e, values[(*at)++]);
    if (tsr_cache_get(v)) return tsr_cache_replace(e, v, values, at);
    if (v.kind == TSR_VALUE_DICT) return replace_dict(e, v, values, at);
    if (v.kind != TSR_VALUE_TUPLE && v.kind != TSR_VALUE_LIST) return v;
    tsr_value made = tsr_value_list(e->arena, v.kind, v.list->count);
    if (!made.kind) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < v.list->count; i++)
        made.list->items[made.list->count++] = tsr_leaves_replace(e, v.list->items[i], values, at);
    return made;
}

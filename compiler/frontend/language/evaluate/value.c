/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/frontend/language/evaluate/value.h"

#include "runtime/base/array.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

tsr_value tsr_value_text(tsr_arena *arena, const char *bytes, size_t size_bytes) {
    tsr_ast_text *text = TSR_NEW(arena, tsr_ast_text, 1);
    char *own = tsr_arena_alloc(arena, size_bytes + 1, 1, 1);
    if (!text || !own) return TSR_POISON;
    if (size_bytes) memcpy(own, bytes, size_bytes);
    *text = (tsr_ast_text){own, size_bytes};
    return (tsr_value){.kind = TSR_VALUE_TEXT, .text = text};
}

tsr_value tsr_value_list(tsr_arena *arena, tsr_value_kind kind, size_t capacity) {
    tsr_list *list = TSR_NEW(arena, tsr_list, 1);
    if (!list) return TSR_POISON;
    if (capacity) list->items = TSR_NEW(arena, tsr_value, capacity);
    if (capacity && !list->items) return TSR_POISON;
    list->capacity = capacity;
    return (tsr_value){.kind = kind, .list = list};
}

bool tsr_list_append(tsr_arena *arena, tsr_list *list, tsr_value item) {
    if (list->count == list->capacity) {
        tsr_value *items = TSR_ARENA_GROW(arena, list->items, &list->capacity, 8);
        if (!items) return false;
        list->items = items;
    }
    list->items[list->count++] = item;
    return true;
}

tsr_value tsr_value_dict(tsr_arena *arena) {
    tsr_dict *dict = TSR_NEW(arena, tsr_dict, 1);
    return dict ? (tsr_value){.kind = TSR_VALUE_DICT, .dict = dict} : TSR_POISON;
}

tsr_value tsr_value_range(tsr_arena *arena, int64_t start, int64_t stop, int64_t step) {
    tsr_range *range = TSR_NEW(arena, tsr_range, 1);
    if (!range) return TSR_POISON;
    *range = (tsr_range){.start = start, .stop = stop, .step = step};
    uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    if (step > 0 && start < stop) range->count = ((uint64_t)stop - (uint64_t)start - 1) / size + 1;
    if (step < 0 && start > stop) range->count = ((uint64_t)start - (uint64_t)stop - 1) / size + 1;
    return (tsr_value){.kind = TSR_VALUE_RANGE, .range = range};
}

const char *tsr_value_type_name(tsr_value v) {
    static const char *const names[] = {
        [TSR_VALUE_POISON] = "an error",    [TSR_VALUE_NONE] = "None",
        [TSR_VALUE_ELLIPSIS] = "...",       [TSR_VALUE_BOOL] = "bool",
        [TSR_VALUE_INTEGER] = "int",        [TSR_VALUE_FLOAT] = "float",
        [TSR_VALUE_TEXT] = "str",           [TSR_VALUE_TUPLE] = "tuple",
        [TSR_VALUE_LIST] = "list",          [TSR_VALUE_DICT] = "dict",
        [TSR_VALUE_RANGE] = "range",        [TSR_VALUE_FUNCTION] = "a function",
        [TSR_VALUE_BUILTIN] = "a function",
    };
    return v.kind == TSR_VALUE_OBJECT ? v.object->class->name : names[v.kind];
}

bool tsr_value_as_integer(tsr_value v, int64_t *out) {
    if (v.kind == TSR_VALUE_BOOL)
        *out = v.truth;
    else if (v.kind == TSR_VALUE_INTEGER)
        *out = v.integer;
    else
        return false;
    return true;
}

bool tsr_value_as_real(tsr_value v, double *out) {
    int64_t integer;
    if (v.kind == TSR_VALUE_FLOAT)
        *out = v.real;
    else if (tsr_value_as_integer(v, &integer))
        *out = (double)integer;
    else
        return false;
    return true;
}

bool tsr_value_truth(tsr_value v) {
    size_t length;
    if (v.kind == TSR_VALUE_NONE) return false;
    if (v.kind == TSR_VALUE_BOOL) return v.truth;
    if (v.kind == TSR_VALUE_INTEGER) return v.integer != 0;
    if (v.kind == TSR_VALUE_FLOAT) return v.real != 0;
    return !tsr_value_length(v, &length) || length > 0;
}

/* ---- sequences ---- */

/* Bytes of the character at `at`. */
static size_t character_size(const tsr_ast_text *text, size_t at) {
    size_t size = 1;
    while (at + size < text->size_bytes && (text->bytes[at + size] & 0xc0) == 0x80) size++;
    return size;
}

bool tsr_value_length(tsr_value v, size_t *out) {
    switch (v.kind) {
    case TSR_VALUE_TEXT:
        *out = 0;
        for (size_t i = 0; i < v.text->size_bytes; i++) *out += (v.text->bytes[i] & 0xc0) != 0x80;
        return true;
    case TSR_VALUE_TUPLE:
    case TSR_VALUE_LIST:
        *out = v.list->count;
        return true;
    case TSR_VALUE_DICT:
        *out = v.dict->live;
        return true;
    case TSR_VALUE_RANGE:
        *out = (size_t)v.range->count;
        return true;
    default:
        return false;
    }
}

tsr_value tsr_value_item(tsr_arena *arena, tsr_value v, size_t index) {
    size_t at = 0;
    switch (v.kind) {
    case TSR_VALUE_TEXT:
        while (index--) at += character_size(v.text, at);
        return tsr_value_text(arena, v.text->bytes + at, character_size(v.text, at));
    case TSR_VALUE_TUPLE:
    case TSR_VALUE_LIST:
        return v.list->items[index];
    case TSR_VALUE_DICT:
        return tsr_dict_entry_at(v.dict, index)->key;
    default:
        return tsr_value_integer(
            (int64_t)((uint64_t)v.range->start + index * (uint64_t)v.range->step));
    }
}

/* ---- equality and order ---- */

static int order(double a, double b) { return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2; }

/* A long double holds every 64-bit integer and every double. */
static int order_numbers(tsr_value a, tsr_value b) {
    static_assert(__LDBL_MANT_DIG__ >= 64, "integers are exact");
    int64_t i = 0, k = 0;
    bool first = tsr_value_as_integer(a, &i), second = tsr_value_as_integer(b, &k);
    if (first && second) return i < k ? -1 : i > k;
    if (!first && !second) return order(a.real, b.real);
    long double x = first ? (long double)i : (long double)a.real;
    long double y = second ? (long double)k : (long double)b.real;
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

static bool is_number(tsr_value v) {
    return v.kind == TSR_VALUE_BOOL || v.kind == TSR_VALUE_INTEGER || v.kind == TSR_VALUE_FLOAT;
}

static bool is_sequence(tsr_value v) {
    return v.kind == TSR_VALUE_TUPLE || v.kind == TSR_VALUE_LIST;
}

static int order_texts(const tsr_ast_text *a, const tsr_ast_text *b) {
    size_t size = a->size_bytes < b->size_bytes ? a->size_bytes : b->size_bytes;
    int by_bytes = size ? memcmp(a->bytes, b->bytes, size) : 0;
    if (by_bytes) return by_bytes < 0 ? -1 : 1;
    return a->size_bytes < b->size_bytes ? -1 : a->size_bytes > b->size_bytes;
}

static bool equal_dicts(const tsr_dict *a, const tsr_dict *b) {
    if (a->live != b->live) return false;
    for (size_t i = 0; i < a->count; i++) {
        const tsr_dict_entry *e = &a->entries[i];
        const tsr_value *other = e->removed ? &e->value : tsr_dict_find(b, e->key, e->hash);
        if (!other || !tsr_value_equal(e->value, *other)) return false;
    }
    return true;
}

static bool equal_ranges(const tsr_range *a, const tsr_range *b) {
    if (a->count != b->count) return false;
    return a->count == 0 || (a->start == b->start && (a->count == 1 || a->step == b->step));
}

bool tsr_value_equal(tsr_value a, tsr_value b) {
    if (is_number(a) && is_number(b)) return order_numbers(a, b) == 0;
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case TSR_VALUE_TEXT:
        return order_texts(a.text, b.text) == 0;
    case TSR_VALUE_TUPLE:
    case TSR_VALUE_LIST:
        if (a.list->count != b.list->count) return false;
        for (size_t i = 0; i < a.list->count; i++)
            if (!tsr_value_equal(a.list->items[i], b.list->items[i])) return false;
        return true;
    case TSR_VALUE_DICT:
        return equal_dicts(a.dict, b.dict);
    case TSR_VALUE_RANGE:
        return equal_ranges(a.range, b.range);
    case TSR_VALUE_FUNCTION:
    case TSR_VALUE_BUILTIN:
    case TSR_VALUE_OBJECT:
        return a.object == b.object;
    default:
        return true;
    }
}

bool tsr_value_compare(tsr_value a, tsr_value b, int *out) {
    if (is_number(a) && is_number(b)) {
        *out = order_numbers(a, b);
        return true;
    }
    if (a.kind != b.kind) return false;
    if (tsr_value_is_text(a)) {
        *out = order_texts(a.text, b.text);
        return true;
    }
    if (!is_sequence(a)) return false;
    for (size_t i = 0; i < a.list->count && i < b.list->count; i++)
        if (!tsr_value_equal(a.list->items[i], b.list->items[i]))
            return tsr_value_compare(a.list->items[i], b.list->items[i], out);
    *out = a.list->count < b.list->count ? -1 : a.list->count > b.list->count;
    return true;
}

/* ---- dicts ---- */

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

bool tsr_value_hash(tsr_value v, uint64_t *out) {
    uint64_t hash = 17, item;
    int64_t integer;
    switch (v.kind) {
    case TSR_VALUE_BOOL:
    case TSR_VALUE_INTEGER:
        tsr_value_as_integer(v, &integer);
        hash = mix(1, (uint64_t)integer);
        break;
    case TSR_VALUE_FLOAT: /* equal to an integer: the same hash */
        if (v.real >= -0x1p63 && v.real < 0x1p63 && v.real == floor(v.real))
            hash = mix(1, (uint64_t)(int64_t)v.real);
        else
            memcpy(&hash, &v.real, sizeof hash);
        break;
    case TSR_VALUE_TEXT:
        for (size_t i = 0; i < v.text->size_bytes; i++)
            hash = mix(hash, (unsigned char)v.text->bytes[i]);
        break;
    case TSR_VALUE_TUPLE:
        for (size_t i = 0; i < v.list->count; i++) {
            if (!tsr_value_hash(v.list->items[i], &item)) return false;
            hash = mix(hash, item);
        }
        break;
    case TSR_VALUE_NONE:
    case TSR_VALUE_ELLIPSIS:
        hash = v.kind;
        break;
    case TSR_VALUE_FUNCTION:
    case TSR_VALUE_BUILTIN:
    case TSR_VALUE_OBJECT:
        hash = mix(2, (uint64_t)(uintptr_t)v.object);
        break;
    default:
        return false;
    }
    *out = hash;
    return true;
}

static size_t find_slot(const tsr_dict *dict, tsr_value key, uint64_t hash) {
    size_t at = (size_t)hash & (dict->slot_count - 1);
    for (;; at = (at + 1) & (dict->slot_count - 1)) {
        if (!dict->slots[at]) return at;
        const tsr_dict_entry *e = &dict->entries[dict->slots[at] - 1];
        if (!e->removed && e->hash == hash && tsr_value_equal(e->key, key)) return at;
    }
}

tsr_value *tsr_dict_find(const tsr_dict *dict, tsr_value key, uint64_t hash) {
    if (!dict->slot_count) return NULL;
    uint32_t index = dict->slots[find_slot(dict, key, hash)];
    return index ? &dict->entries[index - 1].value : NULL;
}

static bool grow_slots(tsr_arena *arena, tsr_dict *dict) {
    size_t count = dict->slot_count ? dict->slot_count * 2 : 16;
    uint32_t *slots = TSR_NEW(arena, uint32_t, count);
    if (!slots) return false;
    dict->slots = slots;
    dict->slot_count = count;
    for (size_t i = 0; i < dict->count; i++) {
        size_t at = (size_t)dict->entries[i].hash & (count - 1);
        while (slots[at]) at = (at + 1) & (count - 1);
        slots[at] = (uint32_t)i + 1;
    }
    return true;
}

bool tsr_dict_set(tsr_arena *arena, tsr_dict *dict, tsr_value key, uint64_t hash, tsr_value value) {
    tsr_value *found = tsr_dict_find(dict, key, hash);
    if (found) {
        *found = value;
        return true;
    }
    if (dict->count * 2 >= dict->slot_count && !grow_slots(arena, dict)) return false;
    if (dict->count == dict->capacity) {
        tsr_dict_entry *entries = TSR_ARENA_GROW(arena, dict->entries, &dict->capacity, 8);
        if (!entries) return false;
        dict->entries = entries;
    }
    dict->entries[dict->count++] = (tsr_dict_entry){.key = key, .value = value, .hash = hash};
    dict->live++;
    dict->slots[find_slot(dict, key, hash)] = (uint32_t)dict->count;
    return true;
}

bool tsr_dict_remove(tsr_dict *dict, tsr_value key, uint64_t hash) {
    if (!tsr_dict_find(dict, key, hash)) return false;
    dict->entries[dict->slots[find_slot(dict, key, hash)] - 1].removed = true;
    dict->live--;
    return true;
}

const tsr_dict_entry *tsr_dict_entry_at(const tsr_dict *dict, size_t index) {
    const tsr_dict_entry *e = dict->entries;
    if (dict->live == dict->count) return e + index;
    for (;; e++) {
        if (e->removed) continue;
        if (index-- == 0) return e;
    }
}

/* ---- texts of values ---- */

/* As Python shows a text, with characters beyond ASCII as they are. */
static void repr_text(const tsr_ast_text *text, tsr_buffer *out) {
    size_t begin = 0;
    bool ascii = true;
    for (size_t i = 0; i < text->size_bytes; i++) ascii = ascii && !(text->bytes[i] & 0x80);
    if (ascii) {
        tsr_print_ascii(text->bytes, text->size_bytes, out);
        return;
    }
    bool single =
        memchr(text->bytes, '\'', text->size_bytes) && !memchr(text->bytes, '"', text->size_bytes);
    const char *quote = single ? "\"" : "'";
    tsr_buffer_text(out, quote);
    for (size_t i = 0; i <= text->size_bytes; i++) {
        char c = i < text->size_bytes ? text->bytes[i] : 0;
        bool plain = (c & 0x80) || (c >= ' ' && c != 0x7f && c != '\\' && c != quote[0]);
        if (plain) continue;
        tsr_buffer_append(out, text->bytes + begin, i - begin);
        begin = i + 1;
        if (i == text->size_bytes) break;
        if (c == '\\' || c == quote[0])
            tsr_buffer_printf(out, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            tsr_buffer_text(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else
            tsr_buffer_printf(out, "\\x%02x", (unsigned char)c);
    }
    tsr_buffer_text(out, quote);
}

static void repr_items(tsr_value v, tsr_buffer *out) {
    bool tuple = v.kind == TSR_VALUE_TUPLE;
    tsr_buffer_text(out, tuple ? "(" : "[");
    for (size_t i = 0; i < v.list->count; i++) {
        tsr_buffer_text(out, i ? ", " : "");
        tsr_value_repr(v.list->items[i], out);
    }
    tsr_buffer_text(out, !tuple ? "]" : v.list->count == 1 ? ",)" : ")");
}

static void repr_dict(const tsr_dict *dict, tsr_buffer *out) {
    tsr_buffer_text(out, "{");
    for (size_t i = 0; i < dict->live; i++) {
        const tsr_dict_entry *e = tsr_dict_entry_at(dict, i);
        tsr_buffer_text(out, i ? ", " : "");
        tsr_value_repr(e->key, out);
        tsr_buffer_text(out, ": ");
        tsr_value_repr(e->value, out);
    }
    tsr_buffer_text(out, "}");
}

void tsr_value_repr(tsr_value v, tsr_buffer *out) {
    switch (v.kind) {
    case TSR_VALUE_NONE:
        tsr_buffer_text(out, "None");
        break;
    case TSR_VALUE_ELLIPSIS:
        tsr_buffer_text(out, "Ellipsis");
        break;
    case TSR_VALUE_BOOL:
        tsr_buffer_text(out, v.truth ? "True" : "False");
        break;
    case TSR_VALUE_INTEGER:
        tsr_buffer_printf(out, "%" PRId64, v.integer);
        break;
    case TSR_VALUE_FLOAT:
        tsr_print_float(v.real, out);
        break;
    case TSR_VALUE_TEXT:
        repr_text(v.text, out);
        break;
    case TSR_VALUE_TUPLE:
    case TSR_VALUE_LIST:
        repr_items(v, out);
        break;
    case TSR_VALUE_DICT:
        repr_dict(v.dict, out);
        break;
    case TSR_VALUE_RANGE:
        tsr_buffer_printf(out, "range(%" PRId64 ", %" PRId64, v.range->start, v.range->stop);
        if (v.range->step != 1) tsr_buffer_printf(out, ", %" PRId64, v.range->step);
        tsr_buffer_text(out, ")");
        break;
    default:
        tsr_buffer_printf(out, "<%s>", tsr_value_type_name(v));
    }
}

void tsr_value_str(tsr_value v, tsr_buffer *out) {
    if (tsr_value_is_text(v))
        tsr_buffer_append(out, v.text->bytes, v.text->size_bytes);
    else
        tsr_value_repr(v, out);
}

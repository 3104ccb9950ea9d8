/* SPDX-License-Identifier: Apache-2.0
 *
 * Two walks over the fields of a message: the first counts the elements of each list, the second
 * stores them. Numbers of a packed list are counted by their bytes.
 */
#include "compiler/frontend/onnx/wire.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* wire types */
enum { VARINT_BYTES_MAX = 10 };

typedef struct reader {
    tsr_ctx *ctx;
    tsr_arena *arena;
    const uint8_t *begin; /* of the whole file, for offsets in messages */
    size_t items;
} reader;

/* One field as it lies in the buffer. */
typedef struct token {
    uint32_t number, type;
    uint64_t value;     /* VARINT, FIXED32, FIXED64 */
    tsr_wire_span span; /* BYTES */
} token;

static TSR_RESULT damaged(reader *r, const tsr_wire_message *m, const uint8_t *at,
                          const char *what) {
    FAIL(r->ctx, TSR_COMPILE, "%s at byte %zu of the file, in a message %s", what,
         (size_t)(at - r->begin), m->name);
}

/* Returns the number of bytes of the varint, or 0. */
static size_t read_varint(const uint8_t *at, const uint8_t *end, uint64_t *out_value) {
    uint64_t value = 0;
    for (size_t i = 0; i < VARINT_BYTES_MAX && at + i < end; i++) {
        value |= (uint64_t)(at[i] & 0x7f) << (7 * i);
        if (at[i] & 0x80) continue;
        *out_value = value;
        return i + 1;
    }
    return 0;
}

static uint64_t read_fixed(const uint8_t *at, size_t size_bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < size_bytes; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static TSR_RESULT next_token(reader *r, const tsr_wire_message *m, const uint8_t **at,
                             const uint8_t *end, token *out) {
    uint64_t key = 0;
    const uint8_t *begin = *at;
    size_t size = read_varint(begin, end, &key);
    if (!size || key >> 3 == 0 || key >> 3 > 0x1fffffff)
        return damaged(r, m, begin, "no field begins");
    *out = (token){.number = (uint32_t)(key >> 3), .type = (uint32_t)(key & 7)};
    begin += size;
    size_t left = (size_t)(end - begin);
    size_t fixed = out->type == FIXED64 ? 8 : 4;
    switch (out->type) {
    case VARINT:
        size = read_varint(begin, end, &out->value);
        if (!size) return damaged(r, m, begin, "a number does not end");
        break;
    case FIXED32:
    case FIXED64:
        if (left < fixed) return damaged(r, m, begin, "a number is cut off");
        out->value = read_fixed(begin, fixed);
        size = fixed;
        break;
    case BYTES: {
        uint64_t length = 0;
        size = read_varint(begin, end, &length);
        if (!size || length > left - size) return damaged(r, m, begin, "a field is cut off");
        out->span = (tsr_wire_span){begin + size, (size_t)length};
        size += (size_t)length;
        break;
    }
    default:
        return damaged(r, m, begin, "a field has an unknown wire type");
    }
    *at = begin + size;
    return TSR_SUCCESS;
}

static const tsr_wire_field *find_field(const tsr_wire_message *m, uint32_t number) {
    for (size_t i = 0; i < m->field_count; i++)
        if (m->fields[i].number == number) return &m->fields[i];
    return NULL;
}

/* ---- kinds: wire type and size of an element ---- */

typedef struct kind_row {
    uint32_t type; /* wire type of one element */
    bool is_list;
    size_t size_bytes;   /* of an element of a list; 0: the message's */
    size_t packed_bytes; /* of an element in a packed list; 0: a varint */
    bool packs;
} kind_row;

static const kind_row kinds[] = {
    [TSR_WIRE_TEXT] = {.type = BYTES},
    [TSR_WIRE_BYTES] = {.type = BYTES},
    [TSR_WIRE_INT] = {.type = VARINT},
    [TSR_WIRE_F32] = {.type = FIXED32},
    [TSR_WIRE_MESSAGE] = {.type = BYTES},
    [TSR_WIRE_TEXTS] = {.type = BYTES, .is_list = true, .size_bytes = sizeof(const char *)},
    [TSR_WIRE_SPANS] = {.type = BYTES, .is_list = true, .size_bytes = sizeof(tsr_wire_span)},
    [TSR_WIRE_INTS] = {.type = VARINT, .is_list = true, .size_bytes = 8, .packs = true},
    [TSR_WIRE_F32S] =
        {.type = FIXED32, .is_list = true, .size_bytes = 4, .packed_bytes = 4, .packs = true},
    [TSR_WIRE_F64S] =
        {.type = FIXED64, .is_list = true, .size_bytes = 8, .packed_bytes = 8, .packs = true},
    [TSR_WIRE_MESSAGES] = {.type = BYTES, .is_list = true},
};

static bool is_packed(const kind_row *kind, const token *t) {
    return kind->packs && t->type == BYTES;
}

/* The numbers of a packed list; a varint ends at a byte without its high bit. */
static TSR_RESULT count_packed(reader *r, const tsr_wire_message *m, const kind_row *kind,
                               tsr_wire_span span, size_t *count) {
    if (kind->packed_bytes) {
        if (span.size_bytes % kind->packed_bytes)
            return damaged(r, m, span.bytes, "a packed list ends inside a number");
        *count += span.size_bytes / kind->packed_bytes;
        return TSR_SUCCESS;
    }
    for (size_t i = 0; i < span.size_bytes; i++) *count += !(span.bytes[i] & 0x80);
    if (span.size_bytes && (span.bytes[span.size_bytes - 1] & 0x80))
        return damaged(r, m, span.bytes, "a packed list ends inside a number");
    return TSR_SUCCESS;
}

static TSR_RESULT take_items(reader *r, const tsr_wire_message *m, const uint8_t *at,
                             size_t count) {
    if (count > TSR_WIRE_ITEMS_MAX - r->items) {
        (void)m, (void)at;
        FAIL(r->ctx, TSR_COMPILE, "the file has more than %d messages, texts and numbers",
             TSR_WIRE_ITEMS_MAX);
    }
    r->items += count;
    return TSR_SUCCESS;
}

/* First walk: allocates every list of the struct. */
static TSR_RESULT count_lists(reader *r, const tsr_wire_message *m, tsr_wire_span span,
                              uint8_t *out) {
    const uint8_t *at = span.bytes, *end = span.bytes + span.size_bytes;
    while (at < end) {
        token t;
        TRY(r->ctx, next_token(r, m, &at, end, &t));
        const tsr_wire_field *field = find_field(m, t.number);
        if (!field) continue;
        const kind_row *kind = &kinds[field->kind];
        if (t.type != kind->type && !is_packed(kind, &t))
            return damaged(r, m, at, "a field has the wrong wire type");
        TRY(r->ctx, take_items(r, m, at, 1));
        if (!kind->is_list) continue;
        tsr_wire_list *list = (tsr_wire_list *)(void *)(out + field->offset);
        if (is_packed(kind, &t))
            TRY(r->ctx, count_packed(r, m, kind, t.span, &list->count));
        else
            list->count++;
    }
    for (size_t i = 0; i < m->field_count; i++) {
        const tsr_wire_field *field = &m->fields[i];
        const kind_row *kind = &kinds[field->kind];
        tsr_wire_list *list = (tsr_wire_list *)(void *)(out + field->offset);
        if (!kind->is_list || !list->count) continue;
        TRY(r->ctx, take_items(r, m, end, list->count));
        size_t size = kind->size_bytes ? kind->size_bytes : field->message->size_bytes;
        list->items = tsr_arena_alloc(r->arena, list->count, size, _Alignof(max_align_t));
        if (!list->items) FAIL(r->ctx, TSR_MEMORY, "no memory for a message %s", m->name);
        list->count = 0;
    }
    return TSR_SUCCESS;
}

/* ---- storing ---- */

static TSR_RESULT read_message(reader *r, const tsr_wire_message *m, tsr_wire_span span,
                               size_t depth, void *out);

static TSR_RESULT read_text(reader *r, const tsr_wire_message *m, tsr_wire_span span,
                            const char **out) {
    if (memchr(span.bytes, 0, span.size_bytes))
        return damaged(r, m, span.bytes, "a text contains a NUL");
    *out = tsr_arena_strndup(r->arena, (const char *)span.bytes, span.size_bytes);
    if (!*out) FAIL(r->ctx, TSR_MEMORY, "no memory for a text");
    return TSR_SUCCESS;
}

static void store_number(tsr_wire_kind kind, uint64_t value, void *to) {
    uint32_t half = (uint32_t)value;
    bool narrow = kind == TSR_WIRE_F32 || kind == TSR_WIRE_F32S;
    memcpy(to, narrow ? (void *)&half : (void *)&value, narrow ? sizeof half : sizeof value);
}

static TSR_RESULT store_packed(reader *r, const tsr_wire_message *m, const tsr_wire_field *field,
                               tsr_wire_span span, tsr_wire_list *list) {
    const kind_row *kind = &kinds[field->kind];
    const uint8_t *at = span.bytes, *end = span.bytes + span.size_bytes;
    while (at < end) {
        uint64_t value = 0;
        size_t size = kind->packed_bytes;
        if (size)
            value = read_fixed(at, size);
        else
            size = read_varint(at, end, &value);
        if (!size) return damaged(r, m, at, "a number does not end");
        store_number(field->kind, value, (uint8_t *)list->items + list->count++ * kind->size_bytes);
        at += size;
    }
    return TSR_SUCCESS;
}

static TSR_RESULT store_one(reader *r, const tsr_wire_message *m, const tsr_wire_field *field,
                            const token *t, size_t depth, void *to) {
    const tsr_wire_message *inner = field->message;
    switch (field->kind) {
    case TSR_WIRE_TEXT:
    case TSR_WIRE_TEXTS:
        return read_text(r, m, t->span, to);
    case TSR_WIRE_BYTES:
    case TSR_WIRE_SPANS:
        memcpy(to, &t->span, sizeof t->span);
        return TSR_SUCCESS;
    case TSR_WIRE_INT:
    case TSR_WIRE_F32:
    case TSR_WIRE_INTS:
    case TSR_WIRE_F32S:
    case TSR_WIRE_F64S:
        store_number(field->kind, t->value, to);
        return TSR_SUCCESS;
    case TSR_WIRE_MESSAGE: {
        /* A message that occurs twice is merged by protobuf; here the last one counts. */
        void *made = tsr_arena_alloc(r->arena, 1, inner->size_bytes, _Alignof(max_align_t));
        if (!made) FAIL(r->ctx, TSR_MEMORY, "no memory for a message %s", inner->name);
        memcpy(to, &made, sizeof made);
        return read_message(r, inner, t->span, depth + 1, made);
    }
    case TSR_WIRE_MESSAGES:
        return read_message(r, inner, t->span, depth + 1, to);
    }
    return TSR_SUCCESS;
}

static TSR_RESULT store_field(reader *r, const tsr_wire_message *m, const tsr_wire_field *field,
                              const token *t, size_t depth, uint8_t *out) {
    const kind_row *kind = &kinds[field->kind];
    void *to = out + field->offset;
    if (field->given) out[field->given] = true;
    if (!kind->is_list) return store_one(r, m, field, t, depth, to);
    tsr_wire_list *list = to;
    if (is_packed(kind, t)) return store_packed(r, m, field, t->span, list);
    size_t size = kind->size_bytes ? kind->size_bytes : field->message->size_bytes;
    return store_one(r, m, field, t, depth, (uint8_t *)list->items + list->count++ * size);
}

static TSR_RESULT read_message(reader *r, const tsr_wire_message *m, tsr_wire_span span,
                               size_t depth, void *out) {
    const uint8_t *at = span.bytes, *end = span.bytes + span.size_bytes;
    if (depth == TSR_WIRE_DEPTH_MAX) return damaged(r, m, at, "messages are nested too deeply");
    for (size_t i = 0; i < m->field_count; i++)
        if (m->fields[i].kind == TSR_WIRE_TEXT)
            memcpy((uint8_t *)out + m->fields[i].offset, &(const char *){""}, sizeof(char *));
    TRY(r->ctx, count_lists(r, m, span, out));
    while (at < end) {
        token t;
        TRY(r->ctx, next_token(r, m, &at, end, &t));
        const tsr_wire_field *field = find_field(m, t.number);
        if (field) TRY(r->ctx, store_field(r, m, field, &t, depth, out));
    }
    return TSR_SUCCESS;
}

tsr_result tsr_wire_read(tsr_ctx *ctx, tsr_arena *arena, const tsr_wire_message *message,
                         tsr_wire_span span, void *out_struct) {
    reader r = {.ctx = ctx, .arena = arena, .begin = span.bytes};
    memset(out_struct, 0, message->size_bytes);
    return read_message(&r, message, span, 0, out_struct);
}

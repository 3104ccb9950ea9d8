/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors (github.com/huggingface/safetensors, "Format"): 8 bytes of header length, a JSON
 * object of tensors (dtype, shape, data_offsets), the data.
 */
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/io/io.h"
#include "runtime/base/io/json.h"
#include "runtime/base/plural.h"
#include "runtime/data/array_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };
static const char metadata_key[] = "__metadata__";

static const char known_dtypes[] = ""
#define X(name, number, size, kind, type, mlir, safetensors, numpy) " " safetensors
#include "tessera/dtype.def"
#undef X
    ;

/* ---- reading ---- */

enum { MEMBER_DTYPE = 1, MEMBER_SHAPE = 2, MEMBER_OFFSETS = 4, MEMBERS = 7 };

/* The header is read token by token without a tree, so that a header of the maximum size needs only
 * a few times its own memory. */
typedef struct reader {
    const char *subject;
    tsr_code code;
    tsr_arena *arena;
    tsr_safetensors_entry *entries; /* owned; the last one is being read while `depth` > 1 */
    size_t entry_count, entry_capacity;
    bool in_metadata;
    unsigned member;         /* member whose value comes next; 0: no member of a tensor */
    unsigned members, extra; /* members that the tensor already has; number of unknown members */
    uint64_t offsets[2];
    size_t offset_count;
} reader;

tsr_result tsr_safetensors_check_entry(tsr_ctx *ctx, const tsr_safetensors_entry *entry,
                                       const char *subject, tsr_code code) {
    size_t length = strlen(entry->name);
    char name[TSR_QUOTE_MAX], dtype[TSR_QUOTE_MAX];
    tsr_quote(entry->name, length, name);
    if (!length || length > TSR_NAME_MAX)
        FAIL(ctx, code, "%s: tensor name '%s' has %zu byte%s; expected 1 to %d", subject, name,
             length, TSR_PLURAL(length), TSR_NAME_MAX);
    if (entry->unknown_dtype)
        FAIL(ctx, code, "%s: tensor '%s' has the dtype '%s'; expected one of%s", subject, name,
             tsr_quote(entry->unknown_dtype, strlen(entry->unknown_dtype), dtype), known_dtypes);
    if (entry->dim_count > TSR_RANK_MAX)
        FAIL(ctx, code, "%s: tensor '%s': 'shape' has %zu dimension%s; at most %d are accepted",
             subject, name, entry->dim_count, TSR_PLURAL(entry->dim_count), TSR_RANK_MAX);
    return TSR_SUCCESS;
}

tsr_result tsr_safetensors_check(tsr_ctx *ctx, const tsr_safetensors *index, const char *subject,
                                 tsr_code code) {
    for (size_t i = 0; i < index->entry_count; i++)
        TRY(ctx, tsr_safetensors_check_entry(ctx, &index->entries[i], subject, code));
    return TSR_SUCCESS;
}

#define ENTRY_FAIL(r, ...) return entry_fail(ctx, (r), __LINE__, __VA_ARGS__)
__attribute__((format(printf, 4, 5))) static tsr_result
entry_fail(tsr_ctx *ctx, const reader *r, int line, const char *format, ...) {
    const char *name = r->entries[r->entry_count - 1].name;
    char text[TSR_ERROR_TEXT_MAX / 2], shown[TSR_QUOTE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return tsr_fail_(ctx, r->code, 0, __FILE__, line, "%s: tensor '%s'%s", r->subject,
                     tsr_quote(name, strlen(name), shown), text);
}

static tsr_result begin_entry(tsr_ctx *ctx, reader *r, const tsr_json_event *event) {
    if (r->entry_count == r->entry_capacity) {
        tsr_safetensors_entry *entries =
            tsr_grow(r->entries, &r->entry_capacity, 64, sizeof *entries);
        if (!entries) FAIL(ctx, TSR_MEMORY, "no memory for the header of %s", r->subject);
        r->entries = entries;
    }
    char *name = tsr_arena_strndup(r->arena, event->text, event->size_bytes);
    if (!name) FAIL(ctx, TSR_MEMORY, "no memory for the header of %s", r->subject);
    r->entries[r->entry_count++] = (tsr_safetensors_entry){.name = name};
    r->members = r->extra = 0;
    r->offset_count = 0;
    return TSR_SUCCESS;
}

static tsr_result take_dtype(tsr_ctx *ctx, reader *r, const tsr_json_event *event) {
    tsr_safetensors_entry *entry = &r->entries[r->entry_count - 1];
    if (event->kind != TSR_JSON_STRING) ENTRY_FAIL(r, ": 'dtype' is not a string");
    char *text = tsr_arena_strndup(r->arena, event->text, event->size_bytes);
    if (!text) FAIL(ctx, TSR_MEMORY, "no memory for the header of %s", r->subject);
    entry->dtype = tsr_dtype_from_safetensors(text);
    if (entry->dtype == TSR_DTYPE_NONE) entry->unknown_dtype = text;
    return TSR_SUCCESS;
}

/* A dimension, or one of the two offsets. */
static tsr_result take_number(tsr_ctx *ctx, reader *r, const tsr_json_event *event) {
    tsr_safetensors_entry *entry = &r->entries[r->entry_count - 1];
    uint64_t value = 0;
    bool is_shape = r->member == MEMBER_SHAPE;
    if (event->kind != TSR_JSON_NUMBER)
        ENTRY_FAIL(r, is_shape ? ": 'shape' is not a list of numbers"
                               : ": 'data_offsets' is not a pair of numbers");
    for (size_t i = 0; i < event->size_bytes; i++)
        value = value * 10 + (uint64_t)(event->text[i] - '0');
    if (is_shape) {
        if (entry->dim_count < TSR_RANK_MAX) entry->shape.dims[entry->shape.rank++] = value;
        entry->dim_count++;
        return TSR_SUCCESS;
    }
    if (r->offset_count == 2) ENTRY_FAIL(r, ": 'data_offsets' is not a pair of numbers");
    r->offsets[r->offset_count++] = value;
    return TSR_SUCCESS;
}

/* The entry's offset is still relative to the data. The element size of an unknown dtype is not
 * known: only the offsets give its size. */
static tsr_result end_entry(tsr_ctx *ctx, reader *r) {
    tsr_safetensors_entry *entry = &r->entries[r->entry_count - 1];
    char type[TSR_TYPE_TEXT_MAX];
    uint64_t size = 0, begin = r->offsets[0], end = r->offsets[1];
    if (r->members != MEMBERS || r->extra)
        ENTRY_FAIL(r, ": expected an object of dtype, shape, data_offsets");
    if (r->offset_count != 2) ENTRY_FAIL(r, ": 'data_offsets' is not a pair of numbers");
    bool checked = !entry->unknown_dtype && entry->dim_count <= TSR_RANK_MAX;
    if (checked && !tsr_shape_size(&entry->shape, entry->dtype, &size))
        ENTRY_FAIL(r, " claims to be %s, which is too large",
                   tsr_type_format(entry->dtype, &entry->shape, type));
    if (end < begin || (checked && end - begin != size))
        ENTRY_FAIL(r,
                   " has the data offsets %" PRIu64 " to %" PRIu64 "; %s needs %" PRIu64 " byte%s",
                   begin, end, checked ? tsr_type_format(entry->dtype, &entry->shape, type) : "it",
                   size, TSR_PLURAL(size));
    entry->offset_bytes = begin;
    entry->size_bytes = end - begin;
    return TSR_SUCCESS;
}

static bool is_text(const tsr_json_event *event, const char *text) {
    return event->size_bytes == strlen(text) && memcmp(event->text, text, event->size_bytes) == 0;
}

static tsr_result take_member(tsr_ctx *ctx, reader *r, const tsr_json_event *event) {
    if (event->kind == TSR_JSON_KEY) {
        r->member = is_text(event, "dtype")          ? MEMBER_DTYPE
                    : is_text(event, "shape")        ? MEMBER_SHAPE
                    : is_text(event, "data_offsets") ? MEMBER_OFFSETS
                                                     : 0;
        r->members |= r->member;
        r->extra += !r->member;
        return TSR_SUCCESS;
    }
    if (r->member == MEMBER_DTYPE) return take_dtype(ctx, r, event);
    if (r->member && event->kind != TSR_JSON_ARRAY && event->kind != TSR_JSON_ARRAY_END)
        ENTRY_FAIL(r, ": '%s' is not an array",
                   r->member == MEMBER_SHAPE ? "shape" : "data_offsets");
    return TSR_SUCCESS;
}

/* Depth 0: the header; 1: names of tensors; 2: their members; 3: dimensions and offsets. */
static tsr_result take_token(tsr_ctx *ctx, void *user, const tsr_json_event *event) {
    reader *r = user;
    if (event->depth == 0) {
        if (event->kind != TSR_JSON_OBJECT && event->kind != TSR_JSON_OBJECT_END)
            FAIL(ctx, r->code, "%s: the header is not an object", r->subject);
        return TSR_SUCCESS;
    }
    if (event->depth == 1 && event->kind == TSR_JSON_KEY) {
        r->in_metadata = is_text(event, metadata_key);
        return r->in_metadata ? TSR_SUCCESS : begin_entry(ctx, r, event);
    }
    if (r->in_metadata) {
        bool expected = event->depth == 1
                            ? event->kind == TSR_JSON_OBJECT || event->kind == TSR_JSON_OBJECT_END
                            : event->kind == TSR_JSON_KEY || event->kind == TSR_JSON_STRING;
        if (expected) return TSR_SUCCESS;
        FAIL(ctx, r->code, "%s: '%s' is not an object of strings", r->subject, metadata_key);
    }
    if (event->depth == 1 && event->kind == TSR_JSON_OBJECT_END) return end_entry(ctx, r);
    if (event->depth == 1 && event->kind != TSR_JSON_OBJECT)
        ENTRY_FAIL(r, ": expected an object of dtype, shape, data_offsets");
    if (event->depth == 2) return take_member(ctx, r, event);
    if (event->depth == 3 && (r->member & (MEMBER_SHAPE | MEMBER_OFFSETS)))
        return take_number(ctx, r, event);
    return TSR_SUCCESS;
}

static int by_offset(const void *a, const void *b) {
    const tsr_safetensors_entry *x = a, *y = b;
    if (x->offset_bytes != y->offset_bytes) return x->offset_bytes < y->offset_bytes ? -1 : 1;
    return (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes);
}

static int by_name(const void *a, const void *b) {
    const tsr_safetensors_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Checks that tensors follow each other, from the first byte of the data to the last. */
static tsr_result check_cover(tsr_ctx *ctx, tsr_safetensors *index, uint64_t data_bytes,
                              const char *subject, tsr_code code) {
    uint64_t at = 0;
    if (index->entry_count)
        qsort(index->entries, index->entry_count, sizeof *index->entries, by_offset);
    for (size_t i = 0; i < index->entry_count; i++) {
        tsr_safetensors_entry *entry = &index->entries[i];
        char shown[TSR_QUOTE_MAX];
        if (entry->offset_bytes != at)
            FAIL(ctx, code,
                 "%s: tensor '%s' begins at byte %" PRIu64 " of the data; expected %" PRIu64,
                 subject, tsr_quote(entry->name, strlen(entry->name), shown), entry->offset_bytes,
                 at);
        at += entry->size_bytes;
        entry->offset_bytes += index->data_offset_bytes;
    }
    if (at != data_bytes)
        FAIL(ctx, code, "%s has %" PRIu64 " byte%s of data; its tensors need %" PRIu64, subject,
             data_bytes, TSR_PLURAL(data_bytes), at);
    return TSR_SUCCESS;
}

static tsr_result decode_header(tsr_ctx *ctx, const char *text, size_t size_bytes,
                                const char *subject, tsr_code code, tsr_arena *arena,
                                tsr_safetensors *index) {
    const tsr_json_options options = {.subject = subject, .code = code};
    reader r = {.subject = subject, .code = code, .arena = arena};
    tsr_result result = tsr_json_scan(ctx, text, size_bytes, &options, take_token, &r);
    if (!result.code) {
        index->entry_count = r.entry_count;
        index->entries = TSR_NEW(arena, tsr_safetensors_entry, r.entry_count + 1);
        if (index->entries && r.entry_count)
            memcpy(index->entries, r.entries, r.entry_count * sizeof *r.entries);
    }
    free(r.entries);
    TRY(ctx, result);
    if (!index->entries) FAIL(ctx, TSR_MEMORY, "no memory for the header of %s", subject);
    return TSR_SUCCESS;
}

/* Returns the header's length from the first 8 bytes, checked against the blob. */
static tsr_result header_length(tsr_ctx *ctx, const unsigned char *bytes, size_t size_bytes,
                                uint64_t blob_size_bytes, const char *subject, tsr_code code,
                                uint64_t *out_length) {
    uint64_t length = 0;
    if (size_bytes < LENGTH_BYTES || blob_size_bytes < LENGTH_BYTES)
        FAIL(ctx, code, "%s has %" PRIu64 " byte%s; a safetensors file has at least %d", subject,
             blob_size_bytes, TSR_PLURAL(blob_size_bytes), LENGTH_BYTES);
    for (int i = LENGTH_BYTES; i-- > 0;) length = length << 8 | bytes[i];
    if (length > TSR_SAFETENSORS_HEADER_MAX)
        FAIL(ctx, code, "%s has a header of %" PRIu64 " byte%s; at most %d are accepted", subject,
             length, TSR_PLURAL(length), TSR_SAFETENSORS_HEADER_MAX);
    if (length > blob_size_bytes - LENGTH_BYTES)
        FAIL(ctx, code, "%s has %" PRIu64 " byte%s; its header ends at byte %" PRIu64, subject,
             blob_size_bytes, TSR_PLURAL(blob_size_bytes), length + LENGTH_BYTES);
    *out_length = length;
    return TSR_SUCCESS;
}

tsr_result tsr_safetensors_decode(tsr_ctx *ctx, const void *bytes, size_t size_bytes,
                                  uint64_t blob_size_bytes, const char *subject, tsr_code code,
                                  tsr_arena *arena, tsr_safetensors *out_index) {
    tsr_safetensors index = {0};
    uint64_t length = 0;
    const char *text = (const char *)bytes + LENGTH_BYTES;
    TRY(ctx, header_length(ctx, bytes, size_bytes, blob_size_bytes, subject, code, &length));
    if (length > size_bytes - LENGTH_BYTES)
        FAIL(ctx, code, "%s: %zu bytes were read; its header ends at byte %" PRIu64, subject,
             size_bytes, length + LENGTH_BYTES);
    index.data_offset_bytes = LENGTH_BYTES + length;
    if (!length || text[0] != '{')
        FAIL(ctx, code, "%s: the safetensors header does not begin with '{'", subject);
    while (text[length - 1] == ' ') length--;
    TRY(ctx, decode_header(ctx, text, (size_t)length, subject, code, arena, &index));
    TRY(ctx, check_cover(ctx, &index, blob_size_bytes - index.data_offset_bytes, subject, code));
    if (index.entry_count) qsort(index.entries, index.entry_count, sizeof *index.entries, by_name);
    *out_index = index;
    return TSR_SUCCESS;
}

/* ---- a tensor of a file ---- */

static tsr_result select_tensor(tsr_ctx *ctx, tsr_array *array, const tsr_safetensors *index,
                                const char *subject, const char *member) {
    tsr_name_list names = {0};
    for (size_t i = 0; i < index->entry_count; i++) {
        const tsr_safetensors_entry *entry = &index->entries[i];
        tsr_name_list_add(&names, entry->name, strlen(entry->name));
        if (member ? strcmp(entry->name, member) != 0 : index->entry_count != 1) continue;
        TRY(ctx, tsr_safetensors_check_entry(ctx, entry, subject, TSR_DATA));
        array->offset_bytes = entry->offset_bytes;
        array->size_bytes = entry->size_bytes;
        array->dtype = entry->dtype;
        array->shape = entry->shape;
        return TSR_SUCCESS;
    }
    FAIL(ctx, TSR_DATA, "'%s': %s; the file has: %s", array->spec,
         member ? "no such tensor" : "name a tensor as FILE.safetensors:NAME",
         names.length ? names.text : "none");
}

tsr_result tsr_safetensors_locate(tsr_ctx *ctx, tsr_array *array, const char *member,
                                  tsr_dtype flat) {
    (void)flat;
    tsr_result result = TSR_SUCCESS;
    tsr_arena scratch = {0};
    tsr_safetensors index = {0};
    unsigned char first[LENGTH_BYTES] = {0};
    uint64_t length = 0, size = array->size_bytes;
    size_t have = size < LENGTH_BYTES ? (size_t)size : LENGTH_BYTES;
    char *subject = tsr_arena_printf(&scratch, "'%s'", array->spec);
    if (!subject) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to read '%s'", array->spec);
    TRY_GOTO(ctx, result, tsr_array_fetch(ctx, array, 0, first, have));
    TRY_GOTO(ctx, result, header_length(ctx, first, have, size, subject, TSR_DATA, &length));
    length += LENGTH_BYTES;
    unsigned char *bytes = TSR_NEW(&scratch, unsigned char, (size_t)length);
    if (!bytes) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to read '%s'", array->spec);
    TRY_GOTO(ctx, result, tsr_array_fetch(ctx, array, 0, bytes, (size_t)length));
    TRY_GOTO(ctx, result,
             tsr_safetensors_decode(ctx, bytes, (size_t)length, size, subject, TSR_DATA, &scratch,
                                    &index));
    TRY_GOTO(ctx, result, select_tensor(ctx, array, &index, subject, member));
done:
    tsr_arena_finish(&scratch);
    return result;
}

/* ---- writing ---- */

static int by_layout(const void *a, const void *b) {
    const tsr_tensor *x = *(const tsr_tensor *const *)a, *y = *(const tsr_tensor *const *)b;
    size_t x_size = tsr_dtype_size(x->dtype), y_size = tsr_dtype_size(y->dtype);
    if (x_size != y_size) return x_size > y_size ? -1 : 1;
    return strcmp(x->name, y->name);
}

static uint64_t tensor_size(const tsr_tensor *tensor) {
    uint64_t size = 0;
    bool sane = tsr_shape_size(&tensor->shape, tensor->dtype, &size);
    TSR_ASSERT(sane && tsr_dtype_size(tensor->dtype));
    return size;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Refuses tensors that a reader would refuse. */
static tsr_result check_names(tsr_ctx *ctx, const tsr_tensor *tensors, size_t tensor_count,
                              tsr_arena *arena) {
    const char **names = TSR_NEW(arena, const char *, tensor_count + 1);
    if (!names) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensor names", tensor_count);
    for (size_t i = 0; i < tensor_count; i++) {
        const char *name = tensors[i].name;
        size_t length = name ? strlen(name) : 0;
        if (!length || length > TSR_NAME_MAX || strcmp(name, metadata_key) == 0 ||
            !tsr_utf8_valid(name, length))
            FAIL(ctx, TSR_USAGE,
                 "tensors[%zu] has the name '%s'; expected 1 to %d bytes of UTF-8, not '%s'", i,
                 name ? name : "", TSR_NAME_MAX, metadata_key);
        names[i] = name;
    }
    if (tensor_count) qsort(names, tensor_count, sizeof *names, by_text);
    for (size_t i = 1; i < tensor_count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            FAIL(ctx, TSR_USAGE, "two tensors have the name '%s'", names[i]);
    return TSR_SUCCESS;
}

typedef struct layout {
    const tsr_tensor **order; /* ordered as in the file */
    void *header;             /* includes the length, padded */
    size_t header_bytes;
    uint64_t data_bytes;
} layout;

static void print_tensor(tsr_buffer *out, const tsr_tensor *tensor, uint64_t begin, uint64_t end) {
    tsr_buffer_json_string(out, tensor->name);
    tsr_buffer_printf(out, ":{\"dtype\":\"%s\",\"shape\":[",
                      tsr_dtype_safetensors_name(tensor->dtype));
    for (uint32_t i = 0; i < tensor->shape.rank; i++)
        tsr_buffer_printf(out, "%s%" PRIu64, i ? "," : "", tensor->shape.dims[i]);
    tsr_buffer_printf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
}

static void print_metadata(tsr_buffer *out, const char *const *metadata) {
    tsr_buffer_json_string(out, metadata_key);
    tsr_buffer_text(out, ":{");
    for (size_t i = 0; metadata[i]; i += 2) {
        if (i) tsr_buffer_text(out, ",");
        tsr_buffer_json_string(out, metadata[i]);
        tsr_buffer_text(out, ":");
        tsr_buffer_json_string(out, metadata[i + 1]);
    }
    tsr_buffer_text(out, "}");
}

static tsr_result make_layout(tsr_ctx *ctx, const tsr_tensor *tensors, size_t tensor_count,
                              size_t align_bytes, const char *const *metadata, tsr_arena *arena,
                              layout *out) {
    tsr_result result = TSR_SUCCESS;
    tsr_buffer text = {0};
    TSR_ASSERT(align_bytes >= 8 && align_bytes <= 65536 && !(align_bytes & (align_bytes - 1)));
    TRY(ctx, check_names(ctx, tensors, tensor_count, arena));
    out->order = TSR_NEW(arena, const tsr_tensor *, tensor_count + 1);
    if (!out->order) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", tensor_count);
    for (size_t i = 0; i < tensor_count; i++) out->order[i] = &tensors[i];
    if (tensor_count) qsort(out->order, tensor_count, sizeof *out->order, by_layout);
    tsr_buffer_u64(&text, 0);
    tsr_buffer_text(&text, "{");
    if (metadata) print_metadata(&text, metadata);
    for (size_t i = 0; i < tensor_count; i++) {
        uint64_t end;
        if (__builtin_add_overflow(out->data_bytes, tensor_size(out->order[i]), &end) ||
            end > INT64_MAX)
            FAIL_GOTO(ctx, result, TSR_USAGE, "%zu tensor%s need more than 2^63 bytes",
                      tensor_count, TSR_PLURAL(tensor_count));
        if (i || metadata) tsr_buffer_text(&text, ",");
        print_tensor(&text, out->order[i], out->data_bytes, end);
        out->data_bytes = end;
    }
    tsr_buffer_text(&text, "}");
    tsr_buffer_printf(&text, "%*s", (int)(-text.size_bytes & (align_bytes - 1)), "");
    out->header_bytes = text.size_bytes;
    if (!text.failed)
        for (size_t i = 0; i < LENGTH_BYTES; i++)
            text.bytes[i] = (char)((text.size_bytes - LENGTH_BYTES) >> 8 * i & 0xFF);
    out->header = text.failed ? NULL : tsr_arena_memdup(arena, text.bytes, text.size_bytes);
    if (!out->header)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for the header of %zu tensors", tensor_count);
done:
    tsr_buffer_finish(&text);
    return result;
}

tsr_result tsr_safetensors_encode(tsr_ctx *ctx, const tsr_tensor *tensors, size_t tensor_count,
                                  size_t align_bytes, const char *const *metadata, tsr_arena *arena,
                                  void **out_bytes, size_t *out_size_bytes) {
    layout file = {0};
    TRY(ctx, make_layout(ctx, tensors, tensor_count, align_bytes, metadata, arena, &file));
    size_t total = file.header_bytes + (size_t)file.data_bytes;
    char *bytes = tsr_arena_alloc(arena, total, 1, 64);
    if (!bytes) FAIL(ctx, TSR_MEMORY, "no memory for %zu bytes of tensors", total);
    memcpy(bytes, file.header, file.header_bytes);
    size_t at = file.header_bytes;
    for (size_t i = 0; i < tensor_count; i++) {
        size_t size = (size_t)tensor_size(file.order[i]);
        if (size) memcpy(bytes + at, file.order[i]->data, size);
        at += size;
    }
    *out_bytes = bytes;
    *out_size_bytes = total;
    return TSR_SUCCESS;
}

tsr_result tsr_safetensors_assign_offsets(tsr_ctx *ctx, const tsr_tensor *tensors,
                                          size_t tensor_count, size_t align_bytes, tsr_arena *arena,
                                          void **out_header, size_t *out_header_bytes,
                                          uint64_t *out_offsets) {
    layout file = {0};
    uint64_t at = 0;
    TRY(ctx, make_layout(ctx, tensors, tensor_count, align_bytes, NULL, arena, &file));
    for (size_t i = 0; i < tensor_count; i++) {
        out_offsets[file.order[i] - tensors] = at;
        at += tensor_size(file.order[i]);
    }
    *out_header = file.header;
    *out_header_bytes = file.header_bytes;
    return TSR_SUCCESS;
}

tsr_result tsr_safetensors_write(tsr_ctx *ctx, const char *path, const tsr_tensor *tensors,
                                 size_t tensor_count, const char *const *metadata) {
    tsr_result result = TSR_SUCCESS;
    tsr_arena scratch = {0};
    tsr_io_atomic file = {0};
    layout blob = {0};
    TRY_GOTO(ctx, result,
             make_layout(ctx, tensors, tensor_count, TSR_SAFETENSORS_ALIGN_BYTES, metadata,
                         &scratch, &blob));
    TRY_GOTO(ctx, result, tsr_io_atomic_open(ctx, path, &scratch, &file));
    TRY_GOTO(ctx, result, tsr_io_write_all(ctx, file.fd, path, blob.header, blob.header_bytes, 0));
    uint64_t at = blob.header_bytes;
    for (size_t i = 0; i < tensor_count; i++) {
        const uint64_t size = tensor_size(blob.order[i]);
        TRY_GOTO(ctx, result,
                 tsr_io_write_all(ctx, file.fd, path, blob.order[i]->data, (size_t)size, at));
        at += size;
    }
    TRY_GOTO(ctx, result, tsr_io_atomic_commit(ctx, &file));
done:
    tsr_io_atomic_abandon(ctx, &file);
    tsr_arena_finish(&scratch);
    return result;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "runtime/base/io/io.h"
#include "runtime/base/io/json.h"
#include "runtime/data/array_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct array_format {
    const char *extension; /* "" matches every path */
    bool members;          /* "PATH.extension:MEMBER" */
    tsr_result (*locate)(tsr_ctx *ctx, tsr_array *array, const char *member, tsr_dtype flat);
} array_format;

/* Formats with members come first: "a.npz:b.npy" is a member of an .npz. */
static const array_format formats[] = {
    {".npz", true, tsr_npz_locate},
    {".safetensors", true, tsr_safetensors_locate},
    {".npy", false, tsr_npy_locate},
    {"", false, tsr_flat_locate},
};

/* Returns true if a spec has this format; then also the length of its path and its member (NULL:
 * none). */
static bool match(const array_format *format, const char *spec, size_t *out_path_length,
                  const char **out_member) {
    const size_t length = strlen(format->extension);
    for (const char *at = spec; (at = strstr(at, format->extension)); at++) {
        const char *end = at + length;
        if (*end && (*end != ':' || !format->members)) continue;
        *out_path_length = (size_t)(end - spec);
        *out_member = *end ? end + 1 : NULL;
        return true;
    }
    return false;
}

size_t tsr_array_path_length(const char *spec) {
    size_t length = 0;
    const char *member = NULL;
    const array_format *format = formats;
    while (!match(format, spec, &length, &member)) format++;
    return length;
}

tsr_result tsr_array_fetch(tsr_ctx *ctx, const tsr_array *array, uint64_t at, void *out_bytes,
                           size_t size_bytes) {
    TSR_ASSERT(at <= array->size_bytes && size_bytes <= array->size_bytes - at);
    if (!size_bytes) return TSR_SUCCESS;
    if (array->memory) {
        memcpy(out_bytes, array->memory + array->offset_bytes + at, size_bytes);
        return TSR_SUCCESS;
    }
    return tsr_io_read_exact(ctx, array->fd, array->spec, out_bytes, size_bytes,
                             array->offset_bytes + at);
}

/* Reads standard input until there are `size_bytes` bytes, or until its end. */
static tsr_result read_stream(tsr_ctx *ctx, tsr_array *array, size_t *inout_capacity,
                              uint64_t size_bytes) {
    enum { FIRST_BYTES = 1 << 16 };
    while (array->size_bytes < size_bytes) {
        if (array->size_bytes == *inout_capacity) {
            unsigned char *bytes = tsr_grow(array->memory, inout_capacity, FIRST_BYTES, 1);
            if (!bytes)
                FAIL(ctx, TSR_MEMORY, "no memory for more than %zu bytes of standard input",
                     *inout_capacity);
            array->memory = bytes;
        }
        uint64_t end = size_bytes < *inout_capacity ? size_bytes : *inout_capacity;
        ssize_t got = read(STDIN_FILENO, array->memory + array->size_bytes,
                           (size_t)(end - array->size_bytes));
        if (got < 0 && tsr_io_retry(STDIN_FILENO, POLLIN)) continue;
        if (got < 0) FAIL_ERRNO(ctx, TSR_IO, errno, "cannot read standard input");
        if (got == 0) break;
        array->size_bytes += (uint64_t)got;
    }
    return TSR_SUCCESS;
}

/* Reads standard input into memory: a pipe cannot be sought, and an array is read by rows. What the
 * bytes so far tell is checked before more are read: the input may have no end. */
static tsr_result open_stream(tsr_ctx *ctx, tsr_array *array) {
    uint64_t size = TSR_NPY_PREFIX_BYTES;
    size_t capacity = 0;
    do {
        TRY(ctx, read_stream(ctx, array, &capacity, size));
        if (array->size_bytes < size) break;
        TRY(ctx, tsr_npy_extent(ctx, array, &size));
    } while (size > array->size_bytes);
    if (!array->size_bytes) FAIL(ctx, TSR_DATA, "standard input is empty; expected an NPY array");
    if (array->size_bytes == size) TRY(ctx, read_stream(ctx, array, &capacity, size + 1));
    if (array->size_bytes > size)
        FAIL(ctx, TSR_DATA, "standard input does not end after the %" PRIu64 " bytes of its array",
             size);
    return tsr_npy_locate(ctx, array, NULL, TSR_DTYPE_NONE);
}

static tsr_result open_file(tsr_ctx *ctx, const char *path, const array_format *format,
                            const char *member, tsr_dtype flat, tsr_array *array) {
    if (strcmp(path, TSR_ARRAY_STREAM) == 0) {
        TRY(ctx, open_stream(ctx, array));
    } else {
        TRY(ctx, tsr_io_open(ctx, path, O_RDONLY | O_NONBLOCK, 0, &array->fd));
        TRY(ctx, tsr_io_file_size(ctx, array->fd, path, &array->size_bytes));
        if (!array->size_bytes) FAIL(ctx, TSR_DATA, "'%s' is empty", path);
        TRY(ctx, format->locate(ctx, array, member, flat));
    }
    uint64_t size = 0;
    bool sane = tsr_shape_count(&array->shape, &array->count) &&
                tsr_shape_size(&array->shape, array->dtype, &size);
    TSR_ASSERT(sane && size == array->size_bytes);
    return TSR_SUCCESS;
}

tsr_result tsr_array_open(tsr_ctx *ctx, const char *spec, tsr_dtype flat_dtype,
                          tsr_array **out_array) {
    tsr_result result = TSR_SUCCESS;
    size_t path_length = 0;
    const char *member = NULL;
    const array_format *format = formats;
    while (!match(format, spec, &path_length, &member)) format++;
    tsr_array *array = calloc(1, sizeof *array);
    char *path = strndup(spec, path_length);
    bool stream = strcmp(spec, TSR_ARRAY_STREAM) == 0;
    if (array) *array = (tsr_array){.fd = -1, .spec = strdup(stream ? "standard input" : spec)};
    if (!array || !path || !array->spec)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to open '%s'", spec);
    if (!path[0]) FAIL_GOTO(ctx, result, TSR_USAGE, "the path of an array is empty");
    if (member && !member[0])
        FAIL_GOTO(ctx, result, TSR_USAGE, "'%s' names no member after the colon", spec);
    TRY_GOTO(ctx, result, open_file(ctx, path, format, member, flat_dtype, array));
    *out_array = array;
    array = NULL;
done:
    tsr_array_close(ctx, array);
    free(path);
    return result;
}

void tsr_array_close(tsr_ctx *ctx, tsr_array *array) {
    if (!array) return;
    const tsr_io *io = tsr_ctx_io(ctx);
    if (array->fd >= 0) io->close(io->self, array->fd);
    free(array->memory);
    free(array->spec);
    free(array);
}

tsr_dtype tsr_array_get_dtype(const tsr_array *array) { return array->dtype; }
const tsr_shape *tsr_array_get_shape(const tsr_array *array) { return &array->shape; }
int tsr_array_get_fd(const tsr_array *array) { return array->fd; }
bool tsr_array_is_flat(const tsr_array *array) { return array->is_flat; }

tsr_result tsr_array_read(tsr_ctx *ctx, const tsr_array *array, uint64_t first, uint64_t count,
                          void *out_elements) {
    const size_t size = tsr_dtype_size(array->dtype);
    TSR_ASSERT(first <= array->count && count <= array->count - first);
    TRY(ctx, tsr_array_fetch(ctx, array, first * size, out_elements, (size_t)count * size));
    const unsigned char *bytes = out_elements;
    for (uint64_t i = 0; array->dtype == TSR_DTYPE_I1 && i < count; i++)
        if (bytes[i] > 1)
            FAIL(ctx, TSR_DATA, "element %" PRIu64 " of '%s' is %u; a boolean is 0 or 1", first + i,
                 array->spec, bytes[i]);
    return TSR_SUCCESS;
}

tsr_result tsr_array_digest(tsr_ctx *ctx, const tsr_array *array, tsr_digest *out_digest) {
    static const uint64_t elements = 8192;
    char bytes[8192 * 8];
    tsr_tree_hasher hasher;
    tsr_tree_hasher_init(&hasher);
    for (uint64_t first = 0; first < array->count; first += elements) {
        uint64_t part = array->count - first < elements ? array->count - first : elements;
        TRY(ctx, tsr_array_read(ctx, array, first, part, bytes));
        tsr_tree_hasher_update(&hasher, bytes, (size_t)part * tsr_dtype_size(array->dtype));
    }
    *out_digest = tsr_tree_hasher_finish(&hasher);
    return TSR_SUCCESS;
}

const char *tsr_quote(const char *text, size_t length, char out_text[static TSR_QUOTE_MAX]) {
    size_t shown = length < TSR_QUOTE_MAX ? length : TSR_QUOTE_MAX - 4;
    while (shown < length && shown && ((unsigned char)text[shown] & 0xC0) == 0x80) shown--;
    const bool utf8 = tsr_utf8_valid(text, shown);
    for (size_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char)text[i];
        out_text[i] = c < 0x20 || c == 0x7F || (c > 0x7F && !utf8) ? '?' : text[i];
    }
    memcpy(out_text + shown, shown < length ? "..." : "", shown < length ? 4 : 1);
    return out_text;
}

void tsr_name_list_add(tsr_name_list *list, const char *text, size_t length) {
    static const char full[] = ", ...";
    char quoted[TSR_QUOTE_MAX];
    tsr_quote(text, length, quoted);
    size_t added = strlen(quoted) + 2, capacity = sizeof list->text - sizeof full;
    if (list->length > capacity) return;
    if (added > capacity - list->length) {
        memcpy(list->text + list->length, full, sizeof full);
        list->length = capacity + 1;
        return;
    }
    if (list->length) list->text[list->length++] = ',', list->text[list->length++] = ' ';
    memcpy(list->text + list->length, quoted, strlen(quoted) + 1);
    list->length += strlen(quoted);
}

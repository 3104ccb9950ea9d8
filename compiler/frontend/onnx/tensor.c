/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/frontend/onnx/tensor.h"

#include "runtime/base/array.h"
#include "runtime/base/io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct type_row {
    const char *name;
    tsr_dtype dtype;
    size_t field; /* offset of the list in tsr_onnx_tensor */
    const char *field_name;
} type_row;

static const type_row types[] = {
#define X(id, number, text, bits, our_dtype, list)                                                 \
    [number] = {text, our_dtype, offsetof(tsr_onnx_tensor, list), #list},
#include "compiler/frontend/onnx/types.def"
#undef X
};
enum { TYPE_COUNT = TSR_COUNT(types) };

static bool is_type(int64_t number) { return number > 0 && number < TYPE_COUNT; }

const char *tsr_onnx_type_name(int64_t data_type) {
    return is_type(data_type) ? types[data_type].name : "?";
}

tsr_dtype tsr_onnx_type_dtype(int64_t data_type) {
    return is_type(data_type) ? types[data_type].dtype : TSR_DTYPE_NONE;
}

int64_t tsr_onnx_type_of_dtype(tsr_dtype dtype) {
    for (int64_t i = 1; i < TYPE_COUNT; i++)
        if (dtype != TSR_DTYPE_NONE && types[i].dtype == dtype) return i;
    return TSR_ONNX_UNDEFINED;
}

/* ---- files ---- */

tsr_result tsr_onnx_map_open(tsr_ctx *ctx, const char *path, tsr_onnx_map *out_map) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int fd = -1;
    uint64_t size = 0;
    tsr_result result = TSR_SUCCESS;
    TRY(ctx, tsr_io_open(ctx, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, &fd));
    TRY_GOTO(ctx, result, tsr_io_file_size(ctx, fd, path, &size));
    *out_map = (tsr_onnx_map){.path = path, .size_bytes = (size_t)size};
    if (size == 0) goto done;
    void *bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) {
        result = tsr_fail_(ctx, TSR_IO, errno, __FILE__, __LINE__, "cannot map '%s'", path);
        goto done;
    }
    out_map->bytes = bytes;
done:
    io->close(io->self, fd);
    return result;
}

void tsr_onnx_map_close(tsr_onnx_map *map) {
    if (map->bytes) munmap((void *)(uintptr_t)map->bytes, map->size_bytes);
    *map = (tsr_onnx_map){0};
}

void tsr_onnx_files_finish(tsr_onnx_files *files) {
    for (tsr_onnx_map *m = files->first; m; m = m->next)
        if (m->bytes) munmap((void *)(uintptr_t)m->bytes, m->size_bytes);
    tsr_arena_finish(&files->arena);
    files->first = NULL;
}

static bool has_parent_step(const char *path) {
    for (const char *at = path; *at;) {
        size_t length = strcspn(at, "/");
        if (length == 2 && at[0] == '.' && at[1] == '.') return true;
        at += length;
        at += *at == '/';
    }
    return false;
}

/* True if the file that `path` leads to, through any links, is below the folder. */
static bool is_below(const char *folder, const char *path) {
    char *real_folder = realpath(folder[0] ? folder : ".", NULL), *real = realpath(path, NULL);
    size_t length = real_folder ? strlen(real_folder) : 0;
    bool below = real && real_folder && strncmp(real, real_folder, length) == 0 &&
                 (real[length] == '/' || strcmp(real_folder, "/") == 0);
    free(real_folder);
    free(real);
    return below;
}

static TSR_RESULT open_external(tsr_ctx *ctx, tsr_onnx_files *files, const tsr_onnx_tensor *tensor,
                                const char *location, const tsr_onnx_map **out_map) {
    if (!location[0] || location[0] == '/' || has_parent_step(location))
        FAIL(ctx, TSR_COMPILE,
             "initializer '%s': its data is in the file '%s'; expected a path below the folder of "
             "the model",
             tensor->name, location);
    const char *path = files->folder[0]
                           ? tsr_arena_printf(&files->arena, "%s/%s", files->folder, location)
                           : tsr_arena_strdup(&files->arena, location);
    if (!path) FAIL(ctx, TSR_MEMORY, "no memory for a path");
    for (const tsr_onnx_map *m = files->first; m; m = m->next)
        if (strcmp(m->path, path) == 0) {
            *out_map = m;
            return TSR_SUCCESS;
        }
    tsr_onnx_map *map = TSR_NEW(&files->arena, tsr_onnx_map, 1);
    if (!map) FAIL(ctx, TSR_MEMORY, "no memory for a path");
    tsr_result result = tsr_onnx_map_open(ctx, path, map);
    if (result.code)
        return tsr_error_prefix(ctx, result, "initializer '%s': its data cannot be read",
                                tensor->name);
    map->next = files->first;
    files->first = map;
    if (!is_below(files->folder, path))
        FAIL(ctx, TSR_COMPILE,
             "initializer '%s': the file '%s' of its data is a link to a file outside of the "
             "folder of the model",
             tensor->name, location);
    *out_map = map;
    return TSR_SUCCESS;
}

static bool parse_u64(const char *text, uint64_t *out) {
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == 0;
}

static TSR_RESULT find_external(tsr_ctx *ctx, tsr_onnx_files *files, const tsr_onnx_tensor *tensor,
                                uint64_t size_bytes, const void **out_data) {
    const char *location = "";
    uint64_t offset = 0, length = size_bytes;
    const tsr_onnx_map *map = NULL;
    for (size_t i = 0; i < tensor->external_data.count; i++) {
        const tsr_onnx_pair *p = TSR_ONNX_ITEM(tensor->external_data, tsr_onnx_pair, i);
        bool is_offset = strcmp(p->key, "offset") == 0, is_length = strcmp(p->key, "length") == 0;
        if (strcmp(p->key, "location") == 0) location = p->value;
        if ((is_offset || is_length) && !parse_u64(p->value, is_offset ? &offset : &length))
            FAIL(ctx, TSR_COMPILE, "initializer '%s': the %s of its data is '%s', no number",
                 tensor->name, p->key, p->value);
    }
    if (length != size_bytes)
        FAIL(ctx, TSR_COMPILE,
             "initializer '%s' has %" PRIu64 " bytes of external data; its type and shape need "
             "%" PRIu64,
             tensor->name, length, size_bytes);
    TRY(ctx, open_external(ctx, files, tensor, location, &map));
    if (offset > map->size_bytes || length > map->size_bytes - offset)
        FAIL(ctx, TSR_COMPILE,
             "initializer '%s': its data ends at byte %" PRIu64 " of '%s', which has %zu bytes",
             tensor->name, offset + length, location, map->size_bytes);
    *out_data = map->bytes ? map->bytes + offset : (const uint8_t *)"";
    return TSR_SUCCESS;
}

/* ---- elements ---- */

tsr_result tsr_onnx_tensor_shape(tsr_ctx *ctx, const tsr_onnx_tensor *tensor,
                                 tsr_shape *out_shape) {
    tsr_shape shape = {.rank = (uint32_t)tensor->dims.count};
    uint64_t count = 0;
    if (tensor->dims.count > TSR_RANK_MAX)
        FAIL(ctx, TSR_COMPILE, "initializer '%s' has %zu dims; a tensor has at most %d",
             tensor->name, tensor->dims.count, TSR_RANK_MAX);
    for (uint32_t i = 0; i < shape.rank; i++) {
        int64_t dim = TSR_ONNX_INT(tensor->dims, i);
        if (dim < 0)
            FAIL(ctx, TSR_COMPILE, "initializer '%s': dim %u is %" PRId64, tensor->name, i, dim);
        shape.dims[i] = (uint64_t)dim;
    }
    if (!tsr_shape_count(&shape, &count))
        FAIL(ctx, TSR_COMPILE, "initializer '%s' has more than 2^63 elements", tensor->name);
    *out_shape = shape;
    return TSR_SUCCESS;
}

/* An element of a list of integers or floats, in our layout. */
static void store_element(const tsr_wire_list *list, size_t field, tsr_dtype dtype, size_t index,
                          uint8_t *to) {
    size_t size = tsr_dtype_size(dtype);
    if (field == offsetof(tsr_onnx_tensor, float_data)) {
        memcpy(to, (const float *)list->items + index, size);
        return;
    }
    /* little-endian: the low bytes of an integer, or the bits of a small float, come first */
    memcpy(to, (const uint64_t *)list->items + index, size);
    if (dtype == TSR_DTYPE_I1) *to = TSR_ONNX_INT(*list, index) != 0;
}

static TSR_RESULT read_typed(tsr_ctx *ctx, const tsr_onnx_tensor *tensor, uint64_t count,
                             tsr_arena *arena, tsr_tensor *view) {
    const type_row *row = &types[tensor->data_type];
    tsr_wire_list list;
    memcpy(&list, (const uint8_t *)tensor + row->field, sizeof list);
    if (list.count != count)
        FAIL(ctx, TSR_COMPILE, "initializer '%s' has %zu elements in %s; its shape needs %" PRIu64,
             tensor->name, list.count, row->field_name, count);
    size_t size = tsr_dtype_size(view->dtype);
    uint8_t *bytes = tsr_arena_alloc(arena, (size_t)count + 1, size, 8);
    if (!bytes) FAIL(ctx, TSR_MEMORY, "no memory for initializer '%s'", tensor->name);
    for (size_t i = 0; i < count; i++)
        store_element(&list, row->field, view->dtype, i, bytes + i * size);
    view->data = bytes;
    return TSR_SUCCESS;
}

/* Bools of other programs may be any number that is not 0. */
static TSR_RESULT normalize(tsr_ctx *ctx, uint64_t count, tsr_arena *arena, tsr_tensor *view) {
    const uint8_t *bytes = view->data;
    bool plain = true;
    for (uint64_t i = 0; i < count && view->dtype == TSR_DTYPE_I1; i++)
        plain = plain && bytes[i] <= 1;
    if (plain) return TSR_SUCCESS;
    uint8_t *own = tsr_arena_memdup(arena, bytes, (size_t)count);
    if (!own) FAIL(ctx, TSR_MEMORY, "no memory for initializer '%s'", view->name);
    for (uint64_t i = 0; i < count; i++) own[i] = own[i] != 0;
    view->data = own;
    return TSR_SUCCESS;
}

tsr_result tsr_onnx_elements(tsr_ctx *ctx, tsr_onnx_files *files, const tsr_onnx_tensor *tensor,
                             tsr_arena *arena, tsr_tensor *out_view) {
    tsr_tensor view = {.name = tensor->name, .dtype = tsr_onnx_type_dtype(tensor->data_type)};
    uint64_t count = 0, size_bytes = 0;
    const void *data = NULL;
    if (view.dtype == TSR_DTYPE_NONE)
        FAIL(ctx, TSR_COMPILE,
             "initializer '%s' has elements of type %s (number %" PRId64
             "); the types of the language are %s",
             tensor->name, tsr_onnx_type_name(tensor->data_type), tensor->data_type,
             tsr_dtype_names());
    if (tensor->has_segment)
        FAIL(ctx, TSR_COMPILE, "initializer '%s' is stored in segments, which no exporter writes",
             tensor->name);
    TRY(ctx, tsr_onnx_tensor_shape(ctx, tensor, &view.shape));
    if (!tsr_shape_count(&view.shape, &count) ||
        !tsr_shape_size(&view.shape, view.dtype, &size_bytes))
        FAIL(ctx, TSR_COMPILE, "initializer '%s' has more than 2^63 bytes", tensor->name);
    if (tensor->data_location == 1) {
        TRY(ctx, find_external(ctx, files, tensor, size_bytes, &data));
    } else if (!tensor->raw_data.bytes) {
        TRY(ctx, read_typed(ctx, tensor, count, arena, &view));
        *out_view = view;
        return TSR_SUCCESS;
    } else if (tensor->raw_data.size_bytes != size_bytes) {
        FAIL(ctx, TSR_COMPILE, "initializer '%s' has %zu bytes; its type and shape need %" PRIu64,
             tensor->name, tensor->raw_data.size_bytes, size_bytes);
    } else {
        data = tensor->raw_data.bytes;
    }
    view.data = (void *)(uintptr_t)data;
    TRY(ctx, normalize(ctx, count, arena, &view));
    *out_view = view;
    return TSR_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/weights/weights.h"

#include "loader/weights/external.h"
#include "runtime/base/io/io.h"
#include "runtime/base/plural.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, FIRST_BYTES = 64 * 1024 /* most headers fit in it */ };

tsr_result tsr_check_type(tsr_ctx *ctx, tsr_code code, const char *subject, const char *name,
                          tsr_dtype dtype, const tsr_shape *shape, tsr_dtype expected_dtype,
                          const tsr_shape *expected_shape) {
    char got[TSR_TYPE_TEXT_MAX], expected[TSR_TYPE_TEXT_MAX];
    if (dtype == expected_dtype && tsr_shape_equal(shape, expected_shape)) return TSR_SUCCESS;
    FAIL(ctx, code, "%s: tensor '%s' is %s; expected %s", subject, name,
         tsr_type_format(dtype, shape, got),
         tsr_type_format(expected_dtype, expected_shape, expected));
}

/* ---- reading ---- */

static tsr_result read_range(tsr_ctx *ctx, const tsr_weights *weights, uint64_t offset_bytes,
                             void *bytes, size_t size_bytes) {
    const tsr_bundle_segment segment = {offset_bytes, size_bytes, bytes};
    if (weights->external)
        return tsr_bundle_read_file_segments(ctx, weights->external, &segment, 1, 0);
    if (weights->bundle)
        return tsr_bundle_read_range(ctx, weights->bundle, &weights->layer, offset_bytes, bytes,
                                     size_bytes);
    return tsr_io_read_exact(ctx, weights->fd, weights->path, bytes, size_bytes, offset_bytes);
}

static tsr_result read_index(tsr_ctx *ctx, tsr_weights *weights, uint64_t size_bytes,
                             tsr_arena *arena) {
    size_t first = size_bytes < FIRST_BYTES ? (size_t)size_bytes : FIRST_BYTES;
    unsigned char *bytes = tsr_arena_alloc(arena, FIRST_BYTES, 1, 8);
    uint64_t header = 0;
    if (!bytes) FAIL(ctx, TSR_MEMORY, "no memory for the index of weights");
    if (!weights->subject) FAIL(ctx, TSR_MEMORY, "no memory for the index of weights");
    if (size_bytes < LENGTH_BYTES)
        FAIL(ctx, weights->code, "%s: has %" PRIu64 " byte%s; expected at least %d",
             weights->subject, size_bytes, TSR_PLURAL(size_bytes), LENGTH_BYTES);
    TRY(ctx, read_range(ctx, weights, 0, bytes, first));
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) header = header << 8 | bytes[i];
    uint64_t left = size_bytes - LENGTH_BYTES;
    if (header > left || header > TSR_SAFETENSORS_HEADER_MAX)
        FAIL(ctx, weights->code,
             "%s: has a header of %" PRIu64 " byte%s; %" PRIu64
             " follow, and at most %d are accepted",
             weights->subject, header, TSR_PLURAL(header), left, TSR_SAFETENSORS_HEADER_MAX);
    size_t size = (size_t)header + LENGTH_BYTES;
    if (size > first) {
        bytes = tsr_arena_alloc(arena, size, 1, 8);
        if (!bytes)
            FAIL(ctx, TSR_MEMORY, "%s: no memory for a header of %zu bytes", weights->subject,
                 size);
        TRY(ctx, read_range(ctx, weights, 0, bytes, size));
    }
    TRY(ctx, tsr_safetensors_decode(ctx, bytes, size, size_bytes, weights->subject, weights->code,
                                    arena, &weights->index));
    /* A blob of a bundle contains only the bytes that our writer stores. */
    if (!weights->bundle || weights->external) return TSR_SUCCESS;
    return tsr_safetensors_check(ctx, &weights->index, weights->subject, weights->code);
}

static int by_name(const void *name, const void *entry) {
    return strcmp(name, ((const tsr_safetensors_entry *)entry)->name);
}

static const tsr_safetensors_entry *find_entry(const tsr_weights *weights, const char *name) {
    if (!weights->index.entry_count) return NULL;
    return bsearch(name, weights->index.entries, weights->index.entry_count,
                   sizeof *weights->index.entries, by_name);
}

tsr_result tsr_weights_find(tsr_ctx *ctx, const tsr_weights *weights,
                            const tsr_config_tensor *tensor, tsr_code code,
                            const tsr_safetensors_entry **out_entry) {
    const tsr_safetensors_entry *entry = find_entry(weights, tensor->name);
    if (!entry) FAIL(ctx, code, "%s: no tensor '%s'", weights->subject, tensor->name);
    TRY(ctx, tsr_safetensors_check_entry(ctx, entry, weights->subject, code));
    TRY(ctx, tsr_check_type(ctx, code, weights->subject, tensor->name, entry->dtype, &entry->shape,
                            tensor->dtype, &tensor->shape));
    *out_entry = entry;
    return TSR_SUCCESS;
}

tsr_result tsr_weights_read(tsr_ctx *ctx, const tsr_weights *weights,
                            const tsr_safetensors_entry *entry, void *out_bytes) {
    return read_range(ctx, weights, entry->offset_bytes, out_bytes, (size_t)entry->size_bytes);
}

/* ---- files ---- */

static tsr_result open_file(tsr_ctx *ctx, tsr_weights *weights, tsr_arena *arena) {
    uint64_t size = 0;
    TRY(ctx, tsr_io_open(ctx, weights->path, O_RDONLY | O_NONBLOCK, 0, &weights->fd));
    TRY(ctx, tsr_io_file_size(ctx, weights->fd, weights->path, &size));
    return read_index(ctx, weights, size, arena);
}

tsr_result tsr_weights_open(tsr_ctx *ctx, const char *path, tsr_arena *arena,
                            tsr_weights *out_weights) {
    tsr_weights weights = {.subject = tsr_arena_printf(arena, "parameters '%s'", path),
                           .code = TSR_DATA,
                           .fd = -1,
                           .path = path};
    tsr_result result = open_file(ctx, &weights, arena);
    if (result.code)
        tsr_weights_close(ctx, &weights);
    else
        *out_weights = weights;
    return result;
}

void tsr_weights_close(tsr_ctx *ctx, tsr_weights *weights) {
    const tsr_io *io = tsr_ctx_io(ctx);
    if (weights->fd >= 0) io->close(io->self, weights->fd);
    weights->fd = -1;
}

/* ---- a bundle ---- */

static bool is_wanted(const tsr_config_tensor *tensor, unsigned roles) {
    return tensor->init == TSR_INIT_DATA && (roles & 1u << tensor->role);
}

static int by_offset(const void *a, const void *b) {
    const tsr_bundle_segment *x = a, *y = b;
    return (x->offset_bytes > y->offset_bytes) - (x->offset_bytes < y->offset_bytes);
}

/* The tensors to load, and the loaded ones. */
typedef struct loading {
    const tsr_config *config;
    unsigned roles;
    void *const *data;
    tsr_sender *sender; /* NULL: no sender */
    bool *loaded, *sent;
} loading;

static bool is_sent(const loading *l, const tsr_weights *weights, uint64_t size_bytes) {
    return l->sender && size_bytes && size_bytes >= l->sender->bytes_min &&
           (weights->external || tsr_bundle_has_chunks(weights->bundle, &weights->layer));
}

/* *out_sent stays false if the device does not have the additional memory that sending needs. */
static tsr_result send_segments(tsr_ctx *ctx, const loading *l, const tsr_weights *weights,
                                const tsr_bundle_segment *segments, size_t count, bool *out_sent) {
    tsr_sender *sender = l->sender;
    tsr_result result = tsr_sender_begin(ctx, sender);
    if (result.code == TSR_MEMORY) return TSR_SUCCESS;
    TRY(ctx, result);
    *out_sent = true;
    result = weights->external ? tsr_bundle_send_file_segments(ctx, weights->external, segments,
                                                               count, &sender->sink)
                               : tsr_bundle_send_segments(ctx, weights->bundle, &weights->layer,
                                                          segments, count, &sender->sink);
    return tsr_sender_end(ctx, sender, result);
}

/* Loads all requested tensors of one layer in one read. */
static tsr_result load_layer(tsr_ctx *ctx, const tsr_weights *weights, const loading *l,
                             tsr_arena *arena) {
    const tsr_config *config = l->config;
    tsr_bundle_segment *segments = TSR_NEW(arena, tsr_bundle_segment, config->tensor_count + 1);
    bool *here = TSR_NEW(arena, bool, config->tensor_count + 1);
    uint64_t size_bytes = 0;
    size_t count = 0;
    if (!segments || !here)
        FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", config->tensor_count);
    for (size_t i = 0; i < config->tensor_count; i++) {
        const tsr_config_tensor *tensor = &config->tensors[i];
        const tsr_safetensors_entry *entry = NULL;
        if (!is_wanted(tensor, l->roles) || l->loaded[i] || !find_entry(weights, tensor->name))
            continue;
        TRY(ctx, tsr_weights_find(ctx, weights, tensor, TSR_CORRUPT, &entry));
        /* An empty tensor has the same offset as its neighbour; there is nothing to read. */
        if (entry->size_bytes)
            segments[count++] =
                (tsr_bundle_segment){entry->offset_bytes, (size_t)entry->size_bytes, l->data[i]};
        size_bytes += entry->size_bytes;
        l->loaded[i] = here[i] = true;
    }
    if (count) qsort(segments, count, sizeof *segments, by_offset);
    bool sent = false;
    if (is_sent(l, weights, size_bytes))
        TRY(ctx, send_segments(ctx, l, weights, segments, count, &sent));
    for (size_t i = 0; i < config->tensor_count && sent; i++) l->sent[i] = l->sent[i] || here[i];
    if (sent) return TSR_SUCCESS;
    if (weights->external)
        return tsr_bundle_read_file_segments(ctx, weights->external, segments, count, 0);
    return tsr_bundle_read_segments(ctx, weights->bundle, &weights->layer, segments, count, 0);
}

static bool has_missing(const loading *l) {
    for (size_t i = 0; i < l->config->tensor_count; i++)
        if (is_wanted(&l->config->tensors[i], l->roles) && !l->loaded[i]) return true;
    return false;
}

/* Loads tensors from the file that the bundle names, if it names one. */
static tsr_result load_external(tsr_ctx *ctx, tsr_bundle *bundle, size_t target, const loading *l,
                                const tsr_weights_folders *folders, tsr_arena *arena) {
    tsr_external external = {.file = {.fd = -1}};
    bool found = false;
    TRY(ctx, tsr_external_read(ctx, bundle, target, arena, &found, &external));
    if (!found) return TSR_SUCCESS;
    TRY(ctx, tsr_external_open(ctx, folders->paths, folders->count, arena, &external));
    tsr_weights weights = {.subject = tsr_arena_printf(arena, "weights '%s'", external.file.path),
                           .code = TSR_MISMATCH,
                           .external = &external.file,
                           .fd = -1};
    tsr_result result = read_index(ctx, &weights, external.file.size_bytes, arena);
    if (!result.code) result = load_layer(ctx, &weights, l, arena);
    tsr_external_close(ctx, &external);
    return result;
}

static tsr_result load_layers(tsr_ctx *ctx, tsr_bundle *bundle, size_t target, loading *l,
                              const tsr_weights_folders *folders, tsr_arena *arena) {
    const tsr_config *config = l->config;
    l->loaded = TSR_NEW(arena, bool, config->tensor_count + 1);
    if (!l->loaded) FAIL(ctx, TSR_MEMORY, "no memory for %zu flags", config->tensor_count);
    size_t layer_count = tsr_bundle_get_layer_count(bundle, target);
    for (size_t i = 0; i < layer_count; i++) {
        tsr_weights weights = {.subject = "weights blob",
                               .code = TSR_CORRUPT,
                               .bundle = bundle,
                               .layer = tsr_bundle_get_layer(bundle, target, i),
                               .fd = -1};
        if (strcmp(weights.layer.media_type, TSR_MEDIA_WEIGHTS) != 0 &&
            strcmp(weights.layer.media_type, TSR_MEDIA_STATE) != 0)
            continue;
        TRY(ctx, read_index(ctx, &weights, weights.layer.size_bytes, arena));
        TRY(ctx, load_layer(ctx, &weights, l, arena));
    }
    if (has_missing(l)) TRY(ctx, load_external(ctx, bundle, target, l, folders, arena));
    for (size_t i = 0; i < config->tensor_count; i++)
        if (is_wanted(&config->tensors[i], l->roles) && !l->loaded[i])
            FAIL(ctx, TSR_CORRUPT, "'%s' stores no data for tensor '%s'",
                 tsr_bundle_get_path(bundle), config->tensors[i].name);
    return TSR_SUCCESS;
}

tsr_result tsr_weights_load(tsr_ctx *ctx, tsr_bundle *bundle, size_t target,
                            const tsr_config *config, unsigned roles,
                            const tsr_weights_folders *folders, void *const *data,
                            tsr_sender *sender, bool *out_sent) {
    loading l = {config, roles, data, sender, NULL, out_sent};
    tsr_arena arena = {0};
    size_t wanted = 0;
    for (size_t i = 0; i < config->tensor_count; i++)
        wanted += is_wanted(&config->tensors[i], roles);
    if (wanted == 0) return TSR_SUCCESS;
    tsr_result result = load_layers(ctx, bundle, target, &l, folders, &arena);
    tsr_arena_finish(&arena);
    return result;
}

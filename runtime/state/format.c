/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: little-endian cursors · state hash · planning the layout · encoding · decoding (hash
 * first, then syntax, then consistency) · BASE records.
 */
#include "runtime/state/format.h"

#include "runtime/base/array.h"
#include "runtime/base/plural.h"
#include "runtime/commit/mutants.h"
#include "runtime/state/best.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char token_magic[8] = "TSRTOKEN", map_magic[8] = "TSRSTATE",
                  base_magic[8] = "TSRBASE1";
static const char state_tag[16] = "tessera.state.1";
enum {
    TOKEN_FIXED_BYTES = 176,
    MAP_FIXED_BYTES = 72,
    TENSOR_FIXED_BYTES = 12 + TSR_DIGEST_BYTES,
    CHUNK_BYTES = 64,
    SORT_BATCH = 256,
};

/* ---- cursors ---- */

static uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t size) {
    if (size) memcpy(at, bytes, size);
    return at + size;
}
static uint8_t *put(uint8_t *at, uint64_t value, unsigned width) {
    for (unsigned i = 0; i < width; i++) *at++ = (uint8_t)(value >> (8 * i));
    return at;
}
static uint8_t *put_digest(uint8_t *at, const tsr_digest *digest) {
    return put_bytes(at, digest->bytes, TSR_DIGEST_BYTES);
}
/* Hashes begin … at and appends the result. */
static uint8_t *put_hash(uint8_t *begin, uint8_t *at, tsr_digest *out_digest) {
    *out_digest = tsr_hash(begin, (size_t)(at - begin));
    return put_digest(at, out_digest);
}

typedef struct cursor {
    const uint8_t *at, *end;
    bool failed;    /* read past the end: all later values are zero */
    bool no_memory; /* out of memory for a text; the bytes may be good */
} cursor;

static const uint8_t *take_bytes(cursor *in, size_t size) {
    if (in->failed || size > (size_t)(in->end - in->at)) {
        in->failed = true;
        return NULL;
    }
    in->at += size;
    return in->at - size;
}
static uint64_t take_number(cursor *in, unsigned width) {
    const uint8_t *bytes = take_bytes(in, width);
    uint64_t value = 0;
    for (unsigned i = 0; bytes && i < width; i++) value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}
static tsr_digest take_digest(cursor *in) {
    tsr_digest digest = {{0}};
    const uint8_t *bytes = take_bytes(in, TSR_DIGEST_BYTES);
    if (bytes) memcpy(digest.bytes, bytes, TSR_DIGEST_BYTES);
    return digest;
}
/* Returns NULL if the text is too long or contains control characters, or if memory is out, which
 * the cursor records. */
static const char *take_text(cursor *in, size_t length, tsr_arena *arena) {
    const uint8_t *bytes = take_bytes(in, length);
    if (!bytes || length > TSR_TOKEN_TEXT_MAX) return NULL;
    for (size_t i = 0; i < length; i++)
        if (bytes[i] < 0x20 || bytes[i] == 0x7f) return NULL;
    const char *text = tsr_arena_strndup(arena, (const char *)bytes, length);
    in->no_memory |= !text;
    return text;
}

/* ---- state hash ---- */

static void hash_number(tsr_hasher *hasher, uint64_t value, unsigned width) {
    uint8_t bytes[8];
    put(bytes, value, width);
    tsr_hasher_update(hasher, bytes, width);
}

static void state_hash_begin(tsr_hasher *hasher, uint64_t tensor_count) {
    tsr_hasher_init(hasher);
    tsr_hasher_update(hasher, state_tag, sizeof state_tag);
    hash_number(hasher, tensor_count, 8);
}

static void state_hash_add(tsr_hasher *hasher, const char *name, tsr_dtype dtype,
                           const tsr_shape *shape, const tsr_digest *digest) {
    size_t length = strlen(name);
    hash_number(hasher, length, 4);
    tsr_hasher_update(hasher, name, length);
    hash_number(hasher, dtype, 4);
    hash_number(hasher, shape->rank, 4);
    for (uint32_t i = 0; i < shape->rank; i++) hash_number(hasher, shape->dims[i], 8);
    tsr_hasher_update(hasher, digest->bytes, TSR_DIGEST_BYTES);
}

static tsr_digest manifest_state_hash(const tsr_manifest *manifest) {
    tsr_hasher hasher;
    state_hash_begin(&hasher, manifest->tensor_count);
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        const tsr_tensor_row *row = &manifest->tensors[i];
        if (!row->chunk_count && TSR_MUTANT(EMPTY_TENSOR_SKIPPED)) continue;
        state_hash_add(&hasher, row->name, row->dtype, &row->shape, &row->digest);
    }
    return tsr_hasher_finish(&hasher);
}

static void hash_tensor(tsr_hasher *hasher, const tsr_tensor *tensor, const tsr_digest *known) {
    uint64_t size = 0;
    bool fits = tsr_shape_size(&tensor->shape, tensor->dtype, &size);
    TSR_ASSERT(fits);
    tsr_digest digest = known ? *known : tsr_hash_tree(tensor->data, (size_t)size);
    state_hash_add(hasher, tensor->name, tensor->dtype, &tensor->shape, &digest);
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const tsr_tensor *const *)a)->name, (*(const tsr_tensor *const *)b)->name);
}

static void check_unique(const tsr_tensor *const *sorted, size_t count) {
    for (size_t i = 1; i < count; i++)
        TSR_ASSERT(strcmp(sorted[i - 1]->name, sorted[i]->name) < 0 && "tensor names are unique");
}

static void sort_by_name(const tsr_tensor *tensors, size_t count, const tsr_tensor **out_sorted) {
    for (size_t i = 0; i < count; i++) out_sorted[i] = &tensors[i];
    qsort(out_sorted, count, sizeof *out_sorted, by_name);
    check_unique(out_sorted, count);
}

/* Finds the next names above `after` (NULL: the lowest), ascending. This sort needs no extra
 * memory: one pass per SORT_BATCH tensors. Equal names are only counted in one batch, so that the
 * caller's sum is then too small. */
static size_t next_by_name(const tsr_tensor *tensors, size_t count, const char *after,
                           const tsr_tensor *batch[static SORT_BATCH]) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const char *name = tensors[i].name;
        if (after && strcmp(name, after) <= 0) continue;
        if (used == SORT_BATCH && strcmp(name, batch[SORT_BATCH - 1]->name) >= 0) continue;
        size_t at = used < SORT_BATCH ? used++ : SORT_BATCH - 1;
        for (; at > 0 && strcmp(name, batch[at - 1]->name) < 0; at--) batch[at] = batch[at - 1];
        batch[at] = &tensors[i];
    }
    return used;
}

static void hash_in_batches(tsr_hasher *hasher, const tsr_tensor *tensors,
                            const tsr_digest *digests, size_t tensor_count) {
    const tsr_tensor *batch[SORT_BATCH];
    const char *after = NULL;
    for (size_t done = 0; done < tensor_count;) {
        size_t count = next_by_name(tensors, tensor_count, after, batch);
        TSR_ASSERT(count > 0 && "tensor names are unique");
        check_unique(batch, count);
        for (size_t i = 0; i < count; i++)
            hash_tensor(hasher, batch[i], digests ? &digests[batch[i] - tensors] : NULL);
        after = batch[count - 1]->name;
        done += count;
    }
}

static bool are_sorted(const tsr_tensor *tensors, size_t tensor_count) {
    for (size_t i = 1; i < tensor_count; i++)
        if (strcmp(tensors[i - 1].name, tensors[i].name) >= 0) return false;
    return true;
}

tsr_digest tsr_state_hash(const tsr_tensor *tensors, size_t tensor_count) {
    return tsr_state_hash_digests(tensors, NULL, tensor_count);
}

tsr_digest tsr_state_hash_digests(const tsr_tensor *tensors, const tsr_digest *digests,
                                  size_t tensor_count) {
    bool sorted = are_sorted(tensors, tensor_count); /* as in a bundle: nothing is allocated */
    const tsr_tensor **order = sorted ? NULL : calloc(tensor_count, sizeof *order);
    tsr_hasher hasher;
    state_hash_begin(&hasher, tensor_count);
    if (order) sort_by_name(tensors, tensor_count, order);
    for (size_t i = 0; (sorted || order) && i < tensor_count; i++) {
        const tsr_tensor *tensor = sorted ? &tensors[i] : order[i];
        hash_tensor(&hasher, tensor, digests ? &digests[tensor - tensors] : NULL);
    }
    if (!sorted && !order) hash_in_batches(&hasher, tensors, digests, tensor_count);
    free(order);
    return tsr_hasher_finish(&hasher);
}

/* ---- layout ---- */

static uint64_t chunks_of(uint64_t size_bytes) {
    return size_bytes / TSR_HASH_CHUNK_BYTES + (size_bytes % TSR_HASH_CHUNK_BYTES != 0);
}

static bool name_is_good(const char *name) {
    if (!name || !name[0] || strlen(name) > TSR_NAME_MAX) return false;
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) return false;
    return true;
}

static tsr_result check_tensors(tsr_ctx *ctx, const tsr_tensor *tensors, size_t tensor_count,
                                uint64_t *out_chunk_count) {
    uint64_t chunks = 0;
    if (tensor_count > TSR_MANIFEST_TENSORS_MAX)
        FAIL(ctx, TSR_USAGE, "a state has %zu tensor%s; at most %d are supported", tensor_count,
             TSR_PLURAL(tensor_count), TSR_MANIFEST_TENSORS_MAX);
    for (size_t i = 0; i < tensor_count; i++) {
        const tsr_tensor *tensor = &tensors[i];
        uint64_t size;
        if (!name_is_good(tensor->name))
            FAIL(ctx, TSR_USAGE,
                 "tensor %zu of the state has no usable name (1 … %d printable bytes)", i,
                 TSR_NAME_MAX);
        if (!tsr_dtype_size(tensor->dtype))
            FAIL(ctx, TSR_USAGE, "tensor '%s' has the unknown element type %d", tensor->name,
                 (int)tensor->dtype);
        if (!tsr_shape_size(&tensor->shape, tensor->dtype, &size) ||
            (chunks += chunks_of(size)) > TSR_MANIFEST_CHUNKS_MAX)
            FAIL(ctx, TSR_USAGE, "the state grows past %d chunks of 4 MiB at tensor '%s'",
                 TSR_MANIFEST_CHUNKS_MAX, tensor->name);
    }
    *out_chunk_count = chunks;
    return TSR_SUCCESS;
}

/* Sifts the tensor at `at` down in the heap, whose root has the highest name. */
static void sift_down(const tsr_tensor **heap, size_t count, size_t at) {
    const tsr_tensor *moved = heap[at];
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && strcmp(heap[child]->name, heap[child + 1]->name) < 0) child++;
        if (strcmp(heap[child]->name, moved->name) <= 0) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* Heapsort: qsort may allocate, and a crafted order of names must not make it slow. */
static tsr_result sort_tensors(tsr_ctx *ctx, const tsr_tensor *tensors, size_t tensor_count,
                               const tsr_tensor **sorted) {
    for (size_t i = 0; i < tensor_count; i++) sorted[i] = &tensors[i];
    for (size_t i = tensor_count / 2; i-- > 0;) sift_down(sorted, tensor_count, i);
    for (size_t end = tensor_count; end-- > 1;) {
        const tsr_tensor *highest = sorted[0];
        sorted[0] = sorted[end];
        sorted[end] = highest;
        sift_down(sorted, end, 0);
    }
    for (size_t i = 1; i < tensor_count; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            FAIL(ctx, TSR_USAGE, "two tensors of the state are named '%s'", sorted[i]->name);
    return TSR_SUCCESS;
}

/* Lays chunks out in tensor order; a chunk never crosses into the next segment, and chunks of two
 * writers never share a segment. */
static void assign_segments(tsr_manifest *manifest, const tsr_division *division) {
    uint64_t offset = 0;
    uint32_t segment = 0, writer = 0, index = 0;
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        const tsr_tensor_row *row = &manifest->tensors[i];
        uint64_t element = tsr_dtype_size(row->dtype), count = 0, part;
        bool fits = tsr_shape_count(&row->shape, &count);
        TSR_ASSERT(fits);
        for (uint64_t first = 0; first < count; first += part, index++) {
            bool full;
            part = TSR_HASH_CHUNK_BYTES / element;
            if (part > count - first) part = count - first;
            full = offset + part * element > division->segment_bytes_max;
            for (; writer + 1 < division->writer_count &&
                   index >=
                       tsr_part_of(manifest->chunk_count, writer + 1, division->writer_count).first;
                 writer++)
                full |= offset > 0;
            if (full) {
                segment++;
                offset = 0;
            }
            manifest->chunks[index] = (tsr_chunk_row){.first = first,
                                                      .count = part,
                                                      .offset = offset,
                                                      .segment = segment,
                                                      .size_bytes = (uint32_t)(part * element)};
            offset += part * element;
        }
    }
    manifest->segment_count = offset ? segment + 1 : 0;
    if (!manifest->segment_sizes) return;
    for (uint32_t i = 0; i < manifest->chunk_count; i++)
        manifest->segment_sizes[manifest->chunks[i].segment] += manifest->chunks[i].size_bytes;
}

tsr_result tsr_manifest_plan(tsr_ctx *ctx, tsr_arena *arena, const tsr_tensor *tensors,
                             size_t tensor_count, const tsr_division *division,
                             const tsr_tensor **sorted, tsr_manifest *out_manifest) {
    tsr_manifest manifest = {.token = {.region = "", .numerics = "", .topology = ""}};
    uint64_t chunk_count = 0;
    TSR_ASSERT(division->segment_bytes_max >= TSR_HASH_CHUNK_BYTES && division->writer_count);
    TRY(ctx, check_tensors(ctx, tensors, tensor_count, &chunk_count));
    TRY(ctx, sort_tensors(ctx, tensors, tensor_count, sorted));
    manifest.tensor_count = (uint32_t)tensor_count;
    manifest.chunk_count = (uint32_t)chunk_count;
    manifest.tensors = TSR_NEW(arena, tsr_tensor_row, tensor_count + 1);
    manifest.chunks = TSR_NEW(arena, tsr_chunk_row, (size_t)chunk_count + 1);
    if (!manifest.tensors || !manifest.chunks) FAIL(ctx, TSR_MEMORY, "no memory for a manifest");
    for (size_t i = 0; i < tensor_count; i++) {
        uint64_t size = 0;
        bool fits = tsr_shape_size(&sorted[i]->shape, sorted[i]->dtype, &size);
        TSR_ASSERT(fits);
        manifest.tensors[i] = (tsr_tensor_row){.name = tsr_arena_strdup(arena, sorted[i]->name),
                                               .dtype = sorted[i]->dtype,
                                               .chunk_count = (uint32_t)chunks_of(size),
                                               .shape = sorted[i]->shape};
        if (!manifest.tensors[i].name) FAIL(ctx, TSR_MEMORY, "no memory for a manifest");
    }
    assign_segments(&manifest, division);
    if (manifest.segment_count > TSR_MANIFEST_SEGMENTS_MAX)
        FAIL(ctx, TSR_USAGE, "the state needs %u segment%s; at most %d are supported",
             manifest.segment_count, TSR_PLURAL(manifest.segment_count), TSR_MANIFEST_SEGMENTS_MAX);
    manifest.segment_sizes = TSR_NEW(arena, uint64_t, (size_t)manifest.segment_count + 1);
    if (!manifest.segment_sizes) FAIL(ctx, TSR_MEMORY, "no memory for a manifest");
    assign_segments(&manifest, division);
    if (tsr_manifest_size(&manifest) > TSR_MANIFEST_BYTES_MAX)
        FAIL(ctx, TSR_USAGE, "the manifest would have %zu byte%s; at most %d are supported",
             tsr_manifest_size(&manifest), TSR_PLURAL(tsr_manifest_size(&manifest)),
             TSR_MANIFEST_BYTES_MAX);
    *out_manifest = manifest;
    return TSR_SUCCESS;
}

/* ---- encoding ---- */

/* Writes the lowest version that has room: each token has only one encoding. */
static unsigned token_version(const tsr_token *token) {
    static const tsr_digest unknown;
    const tsr_position *position = &token->position;
    bool has_data = position->epoch_base || position->epoch_base_sample || position->rows ||
                    !tsr_digest_equal(&position->data, &unknown);
    if (tsr_identity_get_set(&token->identity)) return 5;
    if (position->best.metric[0]) return 4;
    if (tsr_identity_is_known(&token->identity)) return 3;
    return has_data ? 2 : 1;
}

static size_t token_size(const tsr_token *token) {
    unsigned version = token_version(token);
    size_t data_bytes = version > 1 ? TSR_TOKEN_DATA_BYTES : 0;
    if (version > 4) data_bytes += TSR_TOKEN_SET_BYTES;
    size_t program_bytes =
        version > 2 ? TSR_TOKEN_PROGRAM_BYTES + tsr_identity_size(&token->identity) : 0;
    size_t best_bytes =
        version > 3 ? TSR_TOKEN_BEST_BYTES + strlen(token->position.best.metric) : 0;
    return TOKEN_FIXED_BYTES + data_bytes + program_bytes + best_bytes + strlen(token->region) +
           strlen(token->numerics) + strlen(token->topology) + TSR_DIGEST_BYTES;
}

size_t tsr_manifest_size(const tsr_manifest *manifest) {
    size_t size = token_size(&manifest->token) + MAP_FIXED_BYTES +
                  (size_t)manifest->segment_count * 8 + (size_t)manifest->chunk_count * CHUNK_BYTES;
    for (uint32_t i = 0; i < manifest->tensor_count; i++)
        size += TENSOR_FIXED_BYTES + (size_t)manifest->tensors[i].shape.rank * 8 +
                strlen(manifest->tensors[i].name);
    return size + TSR_DIGEST_BYTES;
}

static void derive_digests(tsr_manifest *manifest) {
    const tsr_chunk_row *chunk = manifest->chunks;
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        tsr_tensor_row *row = &manifest->tensors[i];
        tsr_hasher hasher;
        tsr_hasher_init(&hasher);
        for (uint32_t k = 0; k < row->chunk_count; k++)
            tsr_hasher_update(&hasher, chunk[k].digest.bytes, TSR_DIGEST_BYTES);
        row->digest = row->chunk_count == 1 ? chunk->digest : tsr_hasher_finish(&hasher);
        chunk += row->chunk_count;
    }
}

static uint8_t *put_hyperparameters(uint8_t *at, const tsr_identity *identity) {
    for (size_t i = 0; i < identity->hyperparameter_count; i++) {
        const char *texts[] = {identity->hyperparameters[i].name,
                               identity->hyperparameters[i].value};
        at = put(at, strlen(texts[0]), 1);
        at = put(at, strlen(texts[1]), 1);
        for (size_t k = 0; k < 2; k++) at = put_bytes(at, texts[k], strlen(texts[k]));
    }
    return at;
}

static uint8_t *put_best(uint8_t *at, const tsr_best *best) {
    uint64_t value;
    memcpy(&value, &best->value, sizeof value);
    const uint64_t numbers[] = {best->evaluated_step, best->without_gain, best->generation,
                                best->epoch,          best->step,         value};
    for (size_t i = 0; i < TSR_COUNT(numbers); i++) at = put(at, numbers[i], 8);
    return put_digest(at, &best->manifest_hash);
}

static uint8_t *put_token(uint8_t *at, const tsr_token *token, tsr_digest *out_hash) {
    uint8_t *begin = at;
    const tsr_position *position = &token->position;
    unsigned version = token_version(token);
    at = put_bytes(at, token_magic, sizeof token_magic);
    at = put(at, version, 4);
    at = put(at, token_size(token), 4);
    const uint64_t numbers[] = {token->generation,        token->epoch,     position->seed,
                                position->step,           position->sample, position->virtual_ranks,
                                position->shuffle_version};
    for (size_t i = 0; i < TSR_COUNT(numbers); i++) at = put(at, numbers[i], 8);
    if (version > 1) {
        at = put(at, position->epoch_base, 8);
        at = put(at, position->epoch_base_sample, 8);
        at = put(at, position->rows, 8);
        at = put_digest(at, &position->data);
    }
    if (version > 2) at = put_digest(at, &token->identity.program);
    if (version > 3) at = put_best(at, &position->best);
    if (version > 4) at = put(at, tsr_identity_get_set(&token->identity), 8);
    at = put_digest(at, &token->bundle_hash);
    at = put_digest(at, &token->state_hash);
    at = put_digest(at, &token->previous);
    at = put(at, strlen(token->region), 2);
    at = put(at, strlen(token->numerics), 2);
    at = put(at, strlen(token->topology), 2);
    at = put(at, 0, 2); /* length of the signature */
    if (version > 2) at = put(at, tsr_identity_size(&token->identity), 2);
    const char *metric = position->best.metric;
    if (version > 3) at = put(at, strlen(metric), 2);
    at = put_bytes(at, token->region, strlen(token->region));
    at = put_bytes(at, token->numerics, strlen(token->numerics));
    at = put_bytes(at, token->topology, strlen(token->topology));
    if (version > 2) at = put_hyperparameters(at, &token->identity);
    if (version > 3) at = put_bytes(at, metric, strlen(metric));
    return put_hash(begin, at, out_hash);
}

static uint8_t *put_map(uint8_t *at, const tsr_manifest *manifest) {
    at = put_bytes(at, map_magic, sizeof map_magic);
    at = put(at, manifest->previous.generation, 8);
    at = put(at, manifest->previous.epoch, 8);
    at = put_digest(at, &manifest->previous.manifest_hash);
    at = put(at, manifest->segment_count, 4);
    at = put(at, manifest->tensor_count, 4);
    at = put(at, manifest->chunk_count, 4);
    at = put(at, 0, 4);
    for (uint32_t i = 0; i < manifest->segment_count; i++)
        at = put(at, manifest->segment_sizes[i], 8);
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        const tsr_tensor_row *row = &manifest->tensors[i];
        at = put(at, strlen(row->name), 2);
        at = put(at, row->dtype, 2);
        at = put(at, row->shape.rank, 4);
        at = put(at, row->chunk_count, 4);
        for (uint32_t k = 0; k < row->shape.rank; k++) at = put(at, row->shape.dims[k], 8);
        at = put_digest(at, &row->digest);
        at = put_bytes(at, row->name, strlen(row->name));
    }
    return at;
}

static uint8_t *put_chunk(uint8_t *at, const tsr_chunk_row *chunk) {
    at = put(at, chunk->first, 8);
    at = put(at, chunk->count, 8);
    at = put(at, chunk->offset, 8);
    at = put(at, chunk->segment, 4);
    at = put(at, chunk->size_bytes, 4);
    return put_digest(at, &chunk->digest);
}

tsr_digest tsr_manifest_layout(const tsr_manifest *manifest, uint8_t *scratch) {
    tsr_manifest blank = *manifest;
    blank.previous = (tsr_link){0};
    uint8_t *at = put_map(scratch, &blank);
    uint8_t *row = scratch + MAP_FIXED_BYTES + (size_t)manifest->segment_count * 8;
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        row += 12 + (size_t)manifest->tensors[i].shape.rank * 8;
        memset(row, 0, TSR_DIGEST_BYTES);
        row += TSR_DIGEST_BYTES + strlen(manifest->tensors[i].name);
    }
    TSR_ASSERT(row == at);
    for (uint32_t i = 0; i < manifest->chunk_count; i++) {
        tsr_chunk_row chunk = manifest->chunks[i];
        chunk.digest = (tsr_digest){{0}};
        at = put_chunk(at, &chunk);
    }
    return tsr_hash(scratch, (size_t)(at - scratch));
}

void tsr_manifest_encode(tsr_manifest *manifest, uint8_t *out_bytes) {
    derive_digests(manifest);
    manifest->token.state_hash = manifest_state_hash(manifest);
    uint8_t *at = put_token(out_bytes, &manifest->token, &manifest->token_hash);
    at = put_map(at, manifest);
    for (uint32_t i = 0; i < manifest->chunk_count; i++) at = put_chunk(at, &manifest->chunks[i]);
    at = put_hash(out_bytes, at, &manifest->hash);
    TSR_ASSERT((size_t)(at - out_bytes) == tsr_manifest_size(manifest));
}

/* ---- decoding ---- */

#define DAMAGED(ctx, subject, ...)                                                                 \
    return tsr_error_prefix((ctx),                                                                 \
                            tsr_fail_((ctx), TSR_STATE, 0, __FILE__, __LINE__, __VA_ARGS__),       \
                            "%s is damaged", (subject))

/* `size` bytes of names and values; the caller checks order, texts and limits. */
static void take_hyperparameters(cursor *in, size_t size, tsr_arena *arena,
                                 tsr_identity *identity) {
    const uint8_t *bytes = take_bytes(in, size);
    if (!bytes) return;
    cursor list = {bytes, bytes + size, false, false};
    tsr_hyperparameter *found = TSR_NEW(arena, tsr_hyperparameter, TSR_HYPERPARAMETERS_MAX);
    in->no_memory |= !found;
    while (found && list.at != list.end && !list.failed) {
        size_t name = (size_t)take_number(&list, 1), value = (size_t)take_number(&list, 1);
        if (identity->hyperparameter_count == TSR_HYPERPARAMETERS_MAX) break;
        tsr_hyperparameter *one = &found[identity->hyperparameter_count++];
        one->name = take_text(&list, name, arena);
        one->value = take_text(&list, value, arena);
        if (list.failed) break;
        if (!one->name) one->name = ""; /* control characters: no usable name */
        if (!one->value) one->value = "";
    }
    in->no_memory |= list.no_memory;
    in->failed |= !in->no_memory && (list.failed || list.at != list.end);
    identity->hyperparameters = found;
}

static void take_best(cursor *in, tsr_best *best) {
    uint64_t value = 0;
    uint64_t *const numbers[] = {&best->evaluated_step, &best->without_gain, &best->generation,
                                 &best->epoch,          &best->step,         &value};
    for (size_t i = 0; i < TSR_COUNT(numbers); i++) *numbers[i] = take_number(in, 8);
    memcpy(&best->value, &value, sizeof value);
    best->manifest_hash = take_digest(in);
}

static bool take_metric(cursor *in, size_t length, tsr_arena *arena, tsr_best *best) {
    const char *text = take_text(in, length, arena);
    if (!text || length >= TSR_METRIC_MAX || tsr_metric_check(text)) return false;
    memcpy(best->metric, text, length + 1);
    return true;
}

static tsr_result take_token(tsr_ctx *ctx, const char *subject, cursor *in, tsr_arena *arena,
                             tsr_token *token) {
    const uint8_t *begin = in->at;
    take_bytes(in, sizeof token_magic); /* the caller has checked it and the version */
    uint64_t version = take_number(in, 4);
    uint64_t size = take_number(in, 4);
    tsr_position *position = &token->position;
    uint64_t *const numbers[] = {&token->generation,        &token->epoch,
                                 &position->seed,           &position->step,
                                 &position->sample,         &position->virtual_ranks,
                                 &position->shuffle_version};
    for (size_t i = 0; i < TSR_COUNT(numbers); i++) *numbers[i] = take_number(in, 8);
    if (version > 1) {
        position->epoch_base = take_number(in, 8);
        position->epoch_base_sample = take_number(in, 8);
        position->rows = take_number(in, 8);
        position->data = take_digest(in);
    }
    if (version > 2) token->identity.program = take_digest(in);
    if (version > 3) take_best(in, &position->best);
    uint64_t set = version > 4 ? take_number(in, 8) : 0;
    token->bundle_hash = take_digest(in);
    token->state_hash = take_digest(in);
    token->previous = take_digest(in);
    size_t lengths[4];
    for (size_t i = 0; i < 4; i++) lengths[i] = (size_t)take_number(in, 2);
    size_t list_bytes = version > 2 ? (size_t)take_number(in, 2) : 0;
    size_t metric_bytes = version > 3 ? (size_t)take_number(in, 2) : 0;
    token->region = take_text(in, lengths[0], arena);
    token->numerics = take_text(in, lengths[1], arena);
    token->topology = take_text(in, lengths[2], arena);
    if (version > 2) take_hyperparameters(in, list_bytes, arena, &token->identity);
    bool metric =
        (version != 4 && !metric_bytes) || take_metric(in, metric_bytes, arena, &position->best);
    take_bytes(in, TSR_DIGEST_BYTES);
    if (in->failed || size != (size_t)(in->at - begin) || size > TSR_TOKEN_BYTES_MAX)
        DAMAGED(ctx, subject,
                "the size of its token differs from the %" PRIu64 " byte%s that it states", size,
                TSR_PLURAL(size));
    if (lengths[3])
        DAMAGED(ctx, subject, "its token is signed; expected no signature in versions 1 to 5");
    if (in->no_memory) FAIL(ctx, TSR_MEMORY, "no memory for %s", subject);
    if (!token->region || !token->numerics || !token->topology)
        DAMAGED(ctx, subject, "a text of its token is not usable");
    const char *wrong = tsr_identity_check(&token->identity);
    if (wrong) DAMAGED(ctx, subject, "its program: %s", wrong);
    bool marked = tsr_identity_mark_set(&token->identity, set);
    if (!marked) DAMAGED(ctx, subject, "a value that was set has no hyper-parameter");
    if (!metric) DAMAGED(ctx, subject, "the metric of its best generation is not usable");
    if (version > 3 && !tsr_best_is_sound(token))
        DAMAGED(ctx, subject, "a number of its best generation is out of range");
    if (!token->generation || !token->epoch || !position->virtual_ranks ||
        position->seed > UINT32_MAX || position->epoch_base_sample > position->sample ||
        version != token_version(token))
        DAMAGED(ctx, subject, "a number of its token is out of range");
    return TSR_SUCCESS;
}

static tsr_result take_tensors(tsr_ctx *ctx, const char *subject, cursor *in, tsr_arena *arena,
                               tsr_manifest *manifest) {
    uint64_t chunks = 0;
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        tsr_tensor_row *row = &manifest->tensors[i];
        uint64_t size;
        size_t length = (size_t)take_number(in, 2);
        row->dtype = (tsr_dtype)take_number(in, 2);
        row->shape.rank = (uint32_t)take_number(in, 4);
        row->chunk_count = (uint32_t)take_number(in, 4);
        if (row->shape.rank > TSR_RANK_MAX)
            DAMAGED(ctx, subject, "tensor %u has rank %u; at most %d is supported", i,
                    row->shape.rank, TSR_RANK_MAX);
        for (uint32_t k = 0; k < row->shape.rank; k++) row->shape.dims[k] = take_number(in, 8);
        row->digest = take_digest(in);
        row->name = take_text(in, length, arena);
        if (in->no_memory) FAIL(ctx, TSR_MEMORY, "no memory for %s", subject);
        if (in->failed || !row->name || !name_is_good(row->name))
            DAMAGED(ctx, subject, "tensor %u has no usable name", i);
        if (i && strcmp(row[-1].name, row->name) >= 0)
            DAMAGED(ctx, subject, "tensor '%s' follows '%s'", row->name, row[-1].name);
        if (!tsr_dtype_size(row->dtype) || !tsr_shape_size(&row->shape, row->dtype, &size) ||
            chunks_of(size) != row->chunk_count)
            DAMAGED(ctx, subject, "type, shape and %u chunk%s of tensor '%s' do not agree",
                    row->chunk_count, TSR_PLURAL(row->chunk_count), row->name);
        chunks += row->chunk_count;
    }
    if (chunks != manifest->chunk_count)
        DAMAGED(ctx, subject, "its tensors have %" PRIu64 " chunk%s; it states %u", chunks,
                TSR_PLURAL(chunks), manifest->chunk_count);
    return TSR_SUCCESS;
}

/* Chunks cover their tensor in order, and cover segments without a gap. */
static tsr_result take_chunks(tsr_ctx *ctx, const char *subject, cursor *in,
                              tsr_manifest *manifest) {
    tsr_chunk_row *chunk = manifest->chunks;
    uint64_t offset = 0;
    uint32_t segment = 0;
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        const tsr_tensor_row *row = &manifest->tensors[i];
        uint64_t element = tsr_dtype_size(row->dtype), total = 0, first = 0;
        bool fits = tsr_shape_count(&row->shape, &total);
        TSR_ASSERT(fits);
        for (uint32_t k = 0; k < row->chunk_count; k++, chunk++) {
            uint64_t part = TSR_HASH_CHUNK_BYTES / element;
            if (part > total - first) part = total - first;
            chunk->first = take_number(in, 8);
            chunk->count = take_number(in, 8);
            chunk->offset = take_number(in, 8);
            chunk->segment = (uint32_t)take_number(in, 4);
            chunk->size_bytes = (uint32_t)take_number(in, 4);
            chunk->digest = take_digest(in);
            if (chunk->segment != segment && offset == manifest->segment_sizes[segment]) {
                segment++;
                offset = 0;
            }
            if (in->failed || chunk->first != first || chunk->count != part ||
                chunk->size_bytes != part * element || segment >= manifest->segment_count ||
                chunk->segment != segment || chunk->offset != offset ||
                chunk->size_bytes > manifest->segment_sizes[segment] - offset)
                DAMAGED(ctx, subject, "chunk %u of tensor '%s' is not in order", k, row->name);
            first += part;
            offset += chunk->size_bytes;
        }
    }
    if (segment + (manifest->chunk_count > 0) != manifest->segment_count ||
        (manifest->segment_count && offset != manifest->segment_sizes[segment]))
        DAMAGED(ctx, subject, "its %u segments are not filled by its chunks",
                manifest->segment_count);
    return TSR_SUCCESS;
}

static tsr_result take_map(tsr_ctx *ctx, const char *subject, cursor *in, tsr_arena *arena,
                           tsr_manifest *manifest) {
    const uint8_t *magic = take_bytes(in, sizeof map_magic);
    if (!magic || memcmp(magic, map_magic, sizeof map_magic) != 0)
        DAMAGED(ctx, subject, "its map has the wrong magic number");
    manifest->previous.generation = take_number(in, 8);
    manifest->previous.epoch = take_number(in, 8);
    manifest->previous.manifest_hash = take_digest(in);
    manifest->segment_count = (uint32_t)take_number(in, 4);
    manifest->tensor_count = (uint32_t)take_number(in, 4);
    manifest->chunk_count = (uint32_t)take_number(in, 4);
    take_bytes(in, 4);
    /* The rows must fit into the remaining bytes before memory is allocated for them. */
    if (in->failed || manifest->segment_count > TSR_MANIFEST_SEGMENTS_MAX ||
        manifest->tensor_count > TSR_MANIFEST_TENSORS_MAX ||
        manifest->chunk_count > TSR_MANIFEST_CHUNKS_MAX ||
        (uint64_t)manifest->segment_count * 8 +
                (uint64_t)manifest->tensor_count * TENSOR_FIXED_BYTES +
                (uint64_t)manifest->chunk_count * CHUNK_BYTES >
            (uint64_t)(in->end - in->at))
        DAMAGED(ctx, subject, "%u segment%s, %u tensor%s and %u chunks do not fit into its bytes",
                manifest->segment_count, TSR_PLURAL(manifest->segment_count),
                manifest->tensor_count, TSR_PLURAL(manifest->tensor_count), manifest->chunk_count);
    manifest->segment_sizes = TSR_NEW(arena, uint64_t, (size_t)manifest->segment_count + 1);
    manifest->tensors = TSR_NEW(arena, tsr_tensor_row, (size_t)manifest->tensor_count + 1);
    manifest->chunks = TSR_NEW(arena, tsr_chunk_row, (size_t)manifest->chunk_count + 1);
    if (!manifest->segment_sizes || !manifest->tensors || !manifest->chunks)
        FAIL(ctx, TSR_MEMORY, "no memory for %s", subject);
    for (uint32_t i = 0; i < manifest->segment_count; i++) {
        manifest->segment_sizes[i] = take_number(in, 8);
        if (!manifest->segment_sizes[i] || manifest->segment_sizes[i] > TSR_SEGMENT_BYTES_MAX)
            DAMAGED(ctx, subject, "segment %u has %" PRIu64 " byte%s; expected 1 … %" PRIu64, i,
                    manifest->segment_sizes[i], TSR_PLURAL(manifest->segment_sizes[i]),
                    TSR_SEGMENT_BYTES_MAX);
    }
    TRY(ctx, take_tensors(ctx, subject, in, arena, manifest));
    return take_chunks(ctx, subject, in, manifest);
}

/* The manifest's own hash covers all bytes before it in every version, so that a damaged version
 * number and a newer format can be distinguished. The parsed manifest is encoded again and
 * compared, so reserved fields, token hash, tensor digests and state hash need no separate checks.
 */
tsr_result tsr_manifest_decode(tsr_ctx *ctx, const char *subject, const void *bytes,
                               size_t size_bytes, tsr_arena *arena, tsr_manifest *out_manifest) {
    const uint8_t *begin = bytes;
    tsr_manifest manifest = {0};
    char expected[TSR_DIGEST_HEX + 1], found[TSR_DIGEST_HEX + 1];
    if (size_bytes < sizeof token_magic + 4 + TSR_DIGEST_BYTES ||
        memcmp(begin, token_magic, sizeof token_magic) != 0)
        DAMAGED(ctx, subject, "%zu bytes do not begin like a manifest", size_bytes);
    cursor in = {begin, begin + size_bytes - TSR_DIGEST_BYTES, false, false};
    cursor tail = {in.end, in.end + TSR_DIGEST_BYTES, false, false};
    tsr_digest own = take_digest(&tail), actual = tsr_hash(bytes, size_bytes - TSR_DIGEST_BYTES);
    if (!tsr_digest_equal(&own, &actual) && !TSR_MUTANT(MANIFEST_HASH_UNCHECKED)) {
        tsr_digest_format(&own, expected);
        tsr_digest_format(&actual, found);
        DAMAGED(ctx, subject, "its hash is %s; it states %s", found, expected);
    }
    cursor version = {begin + sizeof token_magic, in.end, false, false};
    uint64_t number = take_number(&version, 4);
    if (number < 1 || number > TSR_MANIFEST_VERSION)
        FAIL(ctx, TSR_VERSION,
             "%s has format version %" PRIu64 "; this Tessera reads versions 1 to %d", subject,
             number, TSR_MANIFEST_VERSION);
    TRY(ctx, take_token(ctx, subject, &in, arena, &manifest.token));
    TRY(ctx, take_map(ctx, subject, &in, arena, &manifest));
    if (in.at != in.end)
        DAMAGED(ctx, subject, "%zu byte%s follow its map", (size_t)(in.end - in.at),
                TSR_PLURAL(in.end - in.at));
    uint8_t *again = tsr_arena_alloc(arena, tsr_manifest_size(&manifest), 1, 16);
    if (!again) FAIL(ctx, TSR_MEMORY, "no memory for %s", subject);
    TSR_ASSERT(tsr_manifest_size(&manifest) == size_bytes);
    tsr_manifest_encode(&manifest, again);
    if (memcmp(again, bytes, size_bytes) != 0 && !TSR_MUTANT(STATE_HASH_UNCHECKED))
        DAMAGED(ctx, subject, "its digests do not agree with each other");
    *out_manifest = manifest;
    return TSR_SUCCESS;
}

/* ---- BASE ---- */

void tsr_base_encode(uint64_t epoch, const tsr_link *link,
                     uint8_t out_bytes[static TSR_BASE_BYTES]) {
    tsr_digest own;
    uint8_t *at = put_bytes(out_bytes, base_magic, sizeof base_magic);
    at = put(at, epoch, 8);
    at = put(at, link->generation, 8);
    at = put(at, link->epoch, 8);
    at = put_digest(at, &link->manifest_hash);
    at = put_hash(out_bytes, at, &own);
    TSR_ASSERT(at == out_bytes + TSR_BASE_BYTES);
}

tsr_result tsr_base_decode(tsr_ctx *ctx, const char *subject, const uint8_t *bytes,
                           size_t size_bytes, uint64_t epoch, tsr_link *out_link) {
    uint8_t again[TSR_BASE_BYTES];
    cursor in = {bytes, bytes + size_bytes, false, false};
    take_bytes(&in, sizeof base_magic);
    uint64_t stated = take_number(&in, 8);
    tsr_link link;
    link.generation = take_number(&in, 8);
    link.epoch = take_number(&in, 8);
    link.manifest_hash = take_digest(&in);
    tsr_base_encode(epoch, &link, again);
    if (size_bytes != TSR_BASE_BYTES || memcmp(again, bytes, TSR_BASE_BYTES) != 0 ||
        link.epoch >= stated || (link.generation == 0) != (link.epoch == 0))
        DAMAGED(ctx, subject, "its bytes do not match its hash or its name");
    *out_link = link;
    return TSR_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes manifests, and tokens inside a manifest whose map is valid. The repair follows
 * docs/state-store.md and does not use the encoder under test.
 */
#include "runtime/base/array.h"
#include "runtime/state/format.h"
#include "tests/store/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAP_FIXED = 72,
    CHUNK = 64,
    AT_VERSION = 8,
    AT_TOKEN_SIZE = 12,
    DIGEST = TSR_DIGEST_BYTES,
    SEED_COUNT = 6,
    TEXTS_MAX = 5,
};

/* Where a version's token has what: its state hash, the lengths of its texts, the texts. The last
 * text of version 3 is the list of hyper-parameters. */
typedef struct token_form {
    size_t state_hash, lengths, texts;
    unsigned text_count;
} token_form;
static const token_form forms[] = {
    {104, 168, 176, 4}, {104 + 56, 168 + 56, 176 + 56, 4}, {104 + 88, 168 + 88, 178 + 88, 5}};
enum { NEWEST = TSR_COUNT(forms) };

static const token_form *form_of(const uint8_t *bytes, size_t size_bytes) {
    uint64_t version = size_bytes >= AT_VERSION + 4 ? fuzz_take(bytes + AT_VERSION, 4) : 0;
    return &forms[version >= 1 && version <= NEWEST ? version - 1 : 0];
}

/* ---- offsets ---- */

typedef struct map {
    uint8_t *bytes; /* bytes of the map, up to the hash of the manifest */
    size_t size;
    uint64_t segments, tensors, chunks; /* as stated */
} map;

static size_t token_size(const uint8_t *bytes, size_t size_bytes) {
    const token_form *form = form_of(bytes, size_bytes);
    if (size_bytes < form->texts + DIGEST) return 0;
    size_t size = form->texts + DIGEST;
    for (unsigned i = 0; i < form->text_count; i++)
        size += (size_t)fuzz_take(bytes + form->lengths + 2 * i, 2);
    return size <= size_bytes ? size : 0;
}

static bool find_map(uint8_t *bytes, size_t size_bytes, map *out_map) {
    size_t token = token_size(bytes, size_bytes);
    if (!token || size_bytes - token < MAP_FIXED + DIGEST) return false;
    uint8_t *at = bytes + token;
    *out_map = (map){at, size_bytes - token - DIGEST, fuzz_take(at + 56, 4), fuzz_take(at + 60, 4),
                     fuzz_take(at + 64, 4)};
    return out_map->segments * 8 + out_map->tensors * 44 + out_map->chunks * CHUNK <=
           out_map->size - MAP_FIXED;
}

/* Calls back for each tensor row that is inside the map; returns the offset of the chunks, or 0. */
static size_t each_tensor(const map *m, void (*row)(void *user, uint8_t *row), void *user) {
    size_t at = MAP_FIXED + (size_t)m->segments * 8;
    for (uint64_t i = 0; i < m->tensors; i++) {
        if (m->size - at < 12) return 0;
        size_t rank = (size_t)fuzz_take(m->bytes + at + 4, 4);
        if (rank > 8) return 0;
        size_t size = 12 + rank * 8 + DIGEST + (size_t)fuzz_take(m->bytes + at, 2);
        if (m->size - at < size) return 0;
        if (row) row(user, m->bytes + at);
        at += size;
    }
    return at;
}

/* ---- repairing ---- */

typedef struct mender {
    tsr_hasher state;
    const uint8_t *chunk, *end; /* digests that have not been used yet */
} mender;

static void mend_tensor(void *user, uint8_t *row) {
    mender *m = user;
    size_t rank = (size_t)fuzz_take(row + 4, 4), name = (size_t)fuzz_take(row, 2);
    uint64_t chunks = fuzz_take(row + 8, 4);
    uint8_t *digest = row + 12 + rank * 8, head[8];
    tsr_hasher whole;
    tsr_hasher_init(&whole);
    for (uint64_t i = 0; i < chunks && m->chunk < m->end; i++, m->chunk += CHUNK) {
        if (chunks == 1) memcpy(digest, m->chunk + 32, DIGEST);
        tsr_hasher_update(&whole, m->chunk + 32, DIGEST);
    }
    tsr_digest all = tsr_hasher_finish(&whole); /* digest of no bytes if there is no chunk */
    if (chunks != 1) memcpy(digest, all.bytes, DIGEST);
    fuzz_give(head, name, 4);
    tsr_hasher_update(&m->state, head, 4);
    tsr_hasher_update(&m->state, digest + DIGEST, name);
    fuzz_give(head, fuzz_take(row + 2, 2), 4);
    tsr_hasher_update(&m->state, head, 4);
    tsr_hasher_update(&m->state, row + 4, 4);
    tsr_hasher_update(&m->state, row + 12, rank * 8);
    tsr_hasher_update(&m->state, digest, DIGEST);
}

static void mend_digests(uint8_t *bytes, size_t size_bytes, const map *where) {
    size_t chunks = each_tensor(where, NULL, NULL);
    uint8_t count[8];
    mender m = {.chunk = where->bytes + chunks, .end = where->bytes + chunks};
    if (!chunks) return;
    if (where->size - chunks >= where->chunks * CHUNK) m.end += (size_t)where->chunks * CHUNK;
    tsr_hasher_init(&m.state);
    tsr_hasher_update(&m.state, "tessera.state.1", 16);
    fuzz_give(count, where->tensors, 8);
    tsr_hasher_update(&m.state, count, 8);
    each_tensor(where, mend_tensor, &m);
    tsr_digest state = tsr_hasher_finish(&m.state);
    memcpy(bytes + form_of(bytes, size_bytes)->state_hash, state.bytes, DIGEST);
}

/* Some versions stay that are not there. */
static void mend_version(uint8_t *bytes) {
    uint64_t version = fuzz_take(bytes + AT_VERSION, 4);
    if (version >= 1 && version <= NEWEST) return;
    if (version % 64) fuzz_give(bytes + AT_VERSION, 1 + version % NEWEST, 4);
}

static size_t manifest_mend(uint8_t *bytes, size_t size_bytes, size_t size_max) {
    (void)size_max;
    map where;
    if (size_bytes < 12 + DIGEST) return size_bytes;
    memcpy(bytes, "TSRTOKEN", 8);
    mend_version(bytes);
    size_t token = token_size(bytes, size_bytes);
    if (token) {
        fuzz_give(bytes + AT_TOKEN_SIZE, token, 4);
        if (size_bytes - token >= 8 + DIGEST) memcpy(bytes + token, "TSRSTATE", 8);
        if (find_map(bytes, size_bytes, &where)) mend_digests(bytes, size_bytes, &where);
        fuzz_seal(bytes, token);
    }
    fuzz_seal(bytes, size_bytes);
    return size_bytes;
}

static bool manifest_passes(const uint8_t *bytes, size_t size_bytes) {
    return size_bytes >= 12 + DIGEST && memcmp(bytes, "TSRTOKEN", 8) == 0 &&
           fuzz_is_sealed(bytes, size_bytes);
}

/* ---- mutations ---- */

static size_t open_gap(uint8_t *bytes, size_t size_bytes, size_t size_max, size_t at, size_t gap) {
    if (size_bytes + gap > size_max) return size_bytes;
    memmove(bytes + at + gap, bytes + at, size_bytes - at);
    return size_bytes + gap;
}

/* Makes a text of the token longer or shorter. */
static size_t change_text(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t *random) {
    const token_form *form = form_of(bytes, size_bytes);
    size_t token = token_size(bytes, size_bytes), which = fuzz_random(random) % form->text_count;
    size_t gap = fuzz_random(random) % 300, size = size_bytes, at = form->texts;
    uint8_t *length = bytes + form->lengths + 2 * which;
    if (!token || size_bytes + gap > size_max || fuzz_take(length, 2) + gap > UINT16_MAX)
        return size_bytes;
    for (size_t i = 0; i < which; i++) at += (size_t)fuzz_take(bytes + form->lengths + 2 * i, 2);
    size = open_gap(bytes, size_bytes, size_max, at, gap);
    memset(bytes + at, fuzz_random(random) % 8 ? 'x' : (int)(fuzz_random(random) % 256), gap);
    fuzz_give(length, fuzz_take(length, 2) + gap, 2);
    return size;
}

/* Puts a hyper-parameter before the others, in their order or not. */
static size_t add_hyperparameter(uint8_t *bytes, size_t size_bytes, size_t size_max,
                                 uint32_t *random) {
    enum { PAIR = 4 };
    const token_form *form = form_of(bytes, size_bytes);
    uint8_t *length = bytes + form->lengths + 8;
    if (form->text_count < TEXTS_MAX || !token_size(bytes, size_bytes) ||
        size_bytes + PAIR > size_max)
        return size_bytes;
    size_t at = form->texts;
    for (size_t i = 0; i + 1 < TEXTS_MAX; i++)
        at += (size_t)fuzz_take(bytes + form->lengths + 2 * i, 2);
    const uint8_t pair[PAIR] = {1, 1, (uint8_t)('a' + fuzz_random(random) % 26),
                                (uint8_t)('0' + fuzz_random(random) % 10)};
    size_t size = open_gap(bytes, size_bytes, size_max, at, PAIR);
    memcpy(bytes + at, pair, PAIR);
    fuzz_give(length, fuzz_take(length, 2) + PAIR, 2);
    return size;
}

static size_t change_count(uint8_t *bytes, size_t size_bytes, const map *where, uint32_t *random) {
    (void)bytes;
    fuzz_give(where->bytes + 56 + 4 * (fuzz_random(random) % 4), fuzz_number(random), 4);
    return size_bytes;
}

/* Duplicates or removes a tensor row, a chunk row, or the size of a segment. */
static size_t change_rows(uint8_t *bytes, size_t size_bytes, size_t size_max, const map *where,
                          uint32_t *random) {
    size_t chunks = each_tensor(where, NULL, NULL), base = (size_t)(where->bytes - bytes);
    unsigned what = fuzz_random(random) % 3;
    size_t row = what == 0 ? 8 : what == 1 ? CHUNK : 0, at = MAP_FIXED;
    uint64_t count = what == 0 ? where->segments : what == 1 ? where->chunks : where->tensors;
    if (!chunks || !count) return size_bytes;
    if (what == 1) at = chunks;
    if (what == 2) {
        at += (size_t)where->segments * 8;
        row = 12 + (size_t)fuzz_take(where->bytes + at + 4, 4) * 8 + DIGEST +
              (size_t)fuzz_take(where->bytes + at, 2);
    } else
        at += row * (size_t)(fuzz_random(random) % count);
    if (at + row > where->size) return size_bytes;
    at += base;
    uint8_t *stated = where->bytes + (what == 0 ? 56 : what == 1 ? 64 : 60);
    if (fuzz_random(random) & 1) {
        memmove(bytes + at, bytes + at + row, size_bytes - at - row);
        fuzz_give(stated, count - 1, 4);
        return size_bytes - row;
    }
    if (size_bytes + row > size_max) return size_bytes;
    memmove(bytes + at + row, bytes + at, size_bytes - at);
    fuzz_give(stated, count + 1, 4);
    return size_bytes + row;
}

/* Changes a number of a row. */
static size_t change_number(size_t size_bytes, const map *where, uint32_t *random) {
    size_t chunks = each_tensor(where, NULL, NULL), at = MAP_FIXED + (size_t)where->segments * 8;
    unsigned what = fuzz_random(random) % 3, width = 8;
    if (what == 0 && where->segments)
        at = MAP_FIXED + 8 * (size_t)(fuzz_random(random) % where->segments);
    else if (what == 1 && chunks && where->chunks) {
        static const uint8_t offsets[] = {0, 8, 16, 24, 28};
        unsigned field = fuzz_random(random) % 5;
        at = chunks + CHUNK * (size_t)(fuzz_random(random) % where->chunks) + offsets[field];
        width = field < 3 ? 8 : 4;
    } else {
        static const uint8_t offsets[] = {0, 2, 4, 8, 12, 20}, widths[] = {2, 2, 4, 4, 8, 8};
        unsigned field = fuzz_random(random) % 6;
        at += offsets[field];
        width = widths[field];
    }
    if (at + width > where->size) return size_bytes;
    uint64_t old = fuzz_take(where->bytes + at, width);
    uint64_t near = old + fuzz_random(random) % 3 - 1;
    fuzz_give(where->bytes + at, fuzz_random(random) & 1 ? near : fuzz_number(random), width);
    return size_bytes;
}

static size_t change_token_number(uint8_t *bytes, size_t size_bytes, uint32_t *random) {
    unsigned count = form_of(bytes, size_bytes) == forms ? 7 : 10; /* with those of the data */
    if (size_bytes >= form_of(bytes, size_bytes)->texts)
        fuzz_give(bytes + 16 + 8 * (fuzz_random(random) % count), fuzz_number(random), 8);
    return size_bytes;
}

static size_t manifest_change(uint8_t *bytes, size_t size_bytes, size_t size_max,
                              uint32_t *random) {
    map where;
    if (!find_map(bytes, size_bytes, &where) || fuzz_random(random) % 8 == 0)
        return change_text(bytes, size_bytes, size_max, random);
    switch (fuzz_random(random) % 6) {
    case 0:
        return change_count(bytes, size_bytes, &where, random);
    case 1:
    case 2:
        return change_rows(bytes, size_bytes, size_max, &where, random);
    case 3:
        return change_token_number(bytes, size_bytes, random);
    case 4:
        return add_hyperparameter(bytes, size_bytes, size_max, random);
    default:
        return change_number(size_bytes, &where, random);
    }
}

/* ---- promises of the decoder ---- */

static void check_accepted(const tsr_manifest *m, const uint8_t *bytes, size_t size_bytes) {
    tsr_manifest again = *m;
    fuzz_require(tsr_manifest_size(m) == size_bytes,
                 "an accepted manifest has the size of its own");
    uint8_t *encoded = malloc(size_bytes);
    fuzz_require(encoded != NULL, "there is memory");
    tsr_manifest_encode(&again, encoded);
    fuzz_require(memcmp(encoded, bytes, size_bytes) == 0, "an accepted manifest is written so");
    free(encoded);
    uint64_t in_segments = tsr_manifest_data_bytes(m), in_chunks = 0, in_tensors = 0, chunks = 0;
    for (uint32_t i = 0; i < m->chunk_count; i++) {
        const tsr_chunk_row *chunk = &m->chunks[i];
        in_chunks += chunk->size_bytes;
        fuzz_require(chunk->segment < m->segment_count && chunk->size_bytes &&
                         chunk->size_bytes <= TSR_HASH_CHUNK_BYTES &&
                         chunk->offset + chunk->size_bytes <= m->segment_sizes[chunk->segment],
                     "a chunk lies in its segment");
    }
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        uint64_t size = 0;
        fuzz_require(tsr_shape_size(&m->tensors[i].shape, m->tensors[i].dtype, &size),
                     "a tensor has a size");
        in_tensors += size;
        chunks += m->tensors[i].chunk_count;
        fuzz_require(!i || strcmp(m->tensors[i - 1].name, m->tensors[i].name) < 0,
                     "tensors ascend by name");
    }
    fuzz_require(in_segments == in_chunks && in_chunks == in_tensors && chunks == m->chunk_count,
                 "each byte belongs to one chunk of one tensor");
    fuzz_require(m->token.generation && m->token.epoch && m->token.position.virtual_ranks &&
                     m->token.position.seed <= UINT32_MAX,
                 "the token's numbers are in range");
}

static void manifest_run(const uint8_t *bytes, size_t size_bytes) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_manifest manifest;
    tsr_result result = tsr_manifest_decode(&ctx, "fuzz", bytes, size_bytes, &arena, &manifest);
    fuzz_require(arena.used_bytes <= 4096 + 16 * size_bytes, "memory in proportion to the input");
    if (!result.code)
        check_accepted(&manifest, bytes, size_bytes);
    else
        fuzz_require((result.code == TSR_STATE || result.code == TSR_VERSION) &&
                         strncmp(ctx.error.text, "fuzz", 4) == 0,
                     "a refusal says what was refused");
    tsr_arena_finish(&arena);
}

/* ---- seed inputs ---- */

static void *encode_sample(unsigned which, tsr_arena *arena, size_t *out_size_bytes) {
    static uint8_t data[1 << 16];
    const tsr_tensor tensors[] = {
        {"a.weights", TSR_DTYPE_F32, {2, {3, 5}}, data}, {"b", TSR_DTYPE_F64, {0, {0}}, data},
        {"c.none", TSR_DTYPE_F32, {2, {0, 3}}, NULL},    {"d", TSR_DTYPE_I64, {1, {1 << 20}}, data},
        {"e", TSR_DTYPE_F32, {1, {1200000}}, data},
    };
    static const size_t counts[SEED_COUNT] = {2, 0, 3, 5, 1, 2};
    static const tsr_hyperparameter list[] = {{"eps", "1e-08", false}, {"lr", "0.001", false}};
    const tsr_tensor *sorted[5];
    tsr_ctx ctx = {0};
    tsr_manifest m;
    const tsr_division division = {.segment_bytes_max = UINT64_C(8) << 20,
                                   .writer_count = which == 3 ? 2 : 1};
    tsr_result result =
        tsr_manifest_plan(&ctx, arena, tensors, counts[which], &division, sorted, &m);
    fuzz_require(!result.code, "a sample can be laid out");
    m.token = (tsr_token){.generation = 1 + which,
                          .epoch = 1,
                          .position = {.seed = 7, .step = 100, .virtual_ranks = 1},
                          .region = which ? "train" : "",
                          .numerics = "portable+fma",
                          .topology = "ranks=1"};
    if (which >= 4) m.token.position.rows = 77; /* version 2 */
    if (which == 5) m.token.identity = (tsr_identity){tsr_hash("program", 7), 2, list}; /* 3 */
    *out_size_bytes = tsr_manifest_size(&m);
    uint8_t *bytes = TSR_NEW(arena, uint8_t, *out_size_bytes);
    fuzz_require(bytes != NULL, "there is memory");
    tsr_manifest_encode(&m, bytes);
    return bytes;
}

static void manifest_seed(const char *folder) {
    for (unsigned i = 0; i < SEED_COUNT; i++) {
        tsr_arena arena = {0};
        size_t size;
        void *bytes = encode_sample(i, &arena, &size);
        fuzz_put(folder, i, bytes, size);
        tsr_arena_finish(&arena);
    }
}

/* ---- a token before a valid map ---- */

static uint8_t *wrap_token(const uint8_t *token, size_t size_bytes, size_t *out_size_bytes) {
    tsr_arena arena = {0};
    size_t sample_size;
    uint8_t *sample = encode_sample(0, &arena, &sample_size);
    size_t own = token_size(sample, sample_size), rest = sample_size - own;
    uint8_t *bytes = malloc(size_bytes + rest);
    fuzz_require(bytes != NULL, "there is memory");
    if (size_bytes) memcpy(bytes, token, size_bytes);
    memcpy(bytes + size_bytes, sample + own, rest);
    *out_size_bytes = size_bytes + rest;
    fuzz_seal(bytes, *out_size_bytes);
    tsr_arena_finish(&arena);
    return bytes;
}

static void token_run(const uint8_t *bytes, size_t size_bytes) {
    size_t size;
    uint8_t *whole = wrap_token(bytes, size_bytes, &size);
    manifest_run(whole, size);
    free(whole);
}

static bool token_passes(const uint8_t *bytes, size_t size_bytes) {
    return token_size(bytes, size_bytes) == size_bytes && size_bytes &&
           memcmp(bytes, "TSRTOKEN", 8) == 0 && fuzz_take(bytes + AT_TOKEN_SIZE, 4) == size_bytes &&
           fuzz_is_sealed(bytes, size_bytes);
}

/* Makes the lengths of texts those of the bytes that are there: texts in the middle lose what is
 * too much, the topology, or the signature if it has any, gets what is left over. */
static void mend_lengths(uint8_t *bytes, size_t size_bytes, const token_form *form) {
    enum { TOPOLOGY = 2, SIGNATURE = 3 };
    uint8_t *lengths = bytes + form->lengths;
    size_t room = size_bytes - form->texts - DIGEST;
    unsigned last = fuzz_take(lengths + 2 * SIGNATURE, 2) ? SIGNATURE : TOPOLOGY;
    for (unsigned i = 0; i < form->text_count; i++) {
        size_t length = i == last ? 0 : (size_t)fuzz_take(lengths + 2 * i, 2);
        if (length > room) length = 0;
        fuzz_give(lengths + 2 * i, length, 2);
        room -= length;
    }
    fuzz_give(lengths + 2 * last, room, 2);
}

static size_t token_mend(uint8_t *bytes, size_t size_bytes, size_t size_max) {
    const size_t least = forms[NEWEST - 1].texts + DIGEST;
    if (size_max < least) return size_bytes;
    for (; size_bytes < least; size_bytes++) bytes[size_bytes] = 0;
    memcpy(bytes, "TSRTOKEN", 8);
    mend_version(bytes);
    const token_form *form = form_of(bytes, size_bytes);
    if (form == forms && fuzz_take(bytes + AT_VERSION, 4) != 1) fuzz_give(bytes + AT_VERSION, 1, 4);
    mend_lengths(bytes, size_bytes, form);
    fuzz_give(bytes + AT_TOKEN_SIZE, size_bytes, 4);
    tsr_arena arena = {0};
    size_t sample_size;
    const uint8_t *sample = encode_sample(0, &arena, &sample_size);
    memcpy(bytes + form->state_hash, sample + forms[0].state_hash, DIGEST);
    tsr_arena_finish(&arena);
    fuzz_seal(bytes, size_bytes);
    return size_bytes;
}

static size_t token_change(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t *random) {
    unsigned what = fuzz_random(random) % 4;
    if (what == 0) return add_hyperparameter(bytes, size_bytes, size_max, random);
    return what == 1 ? change_token_number(bytes, size_bytes, random)
                     : change_text(bytes, size_bytes, size_max, random);
}

static void token_seed(const char *folder) {
    static const unsigned samples[] = {0, 2, 4, 5};
    for (unsigned i = 0; i < TSR_COUNT(samples); i++) {
        tsr_arena arena = {0};
        size_t size;
        uint8_t *bytes = encode_sample(samples[i], &arena, &size);
        fuzz_put(folder, i, bytes, token_size(bytes, size));
        tsr_arena_finish(&arena);
    }
}

const fuzz_target fuzz_manifest = {
    .name = "manifest",
    .seed = manifest_seed,
    .run = manifest_run,
    .passes = manifest_passes,
    .change = manifest_change,
    .mend = manifest_mend,
};
const fuzz_target fuzz_token = {
    .name = "token",
    .seed = token_seed,
    .run = token_run,
    .passes = token_passes,
    .change = token_change,
    .mend = token_mend,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes chunk tables, and reading through them. The input is a list of reads, a row of bits that
 * select digests of the table to corrupt, and bytes that are added to the table. A read returns the
 * right bytes or fails, and fails only if it touches a chunk whose digest was corrupted. The same
 * holds for a read into a sink.
 */
#include "bundle/bundle.h"
#include "runtime/base/array.h"
#include "tests/bundle/kit.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum {
    LARGE_TAIL = 1000, /* size of the second chunk of the large layer */
    LARGE_BYTES = TSR_HASH_CHUNK_BYTES + LARGE_TAIL,
    LAYERS = 3,
    CHUNKS = 4,
    HEAD_BYTES = 2, /* corrupted digests; change of the table's size */
    READ_BYTES = 6, /* layer, slow or not, offset, size */
    READS_MAX = 16,
    SLOW_READ = 0xa5,
};

static uint8_t *large_bytes(void) {
    static uint8_t *bytes;
    if (bytes) return bytes;
    bytes = malloc(LARGE_BYTES);
    fuzz_require(bytes != NULL, "memory for a layer of two chunks");
    for (size_t i = 0; i < LARGE_BYTES; i++) bytes[i] = (uint8_t)(i >> 8 ^ i);
    return bytes;
}

typedef struct subject {
    kit k;
    tsr_digest table[CHUNKS + 2];
} subject;

/* The digests are made once, since the large layer takes milliseconds. */
static void make(subject *s, uint8_t spoilt, uint8_t more) {
    static const char small[40] = "weights";
    static tsr_digest right[CHUNKS], large;
    static bool ready;
    uint8_t *bytes = large_bytes();
    kit_init(&s->k);
    s->k.layers[1] =
        (kit_layer){.media_type = TSR_MEDIA_WEIGHTS, .bytes = small, .size_bytes = sizeof small};
    s->k.layers[2] =
        (kit_layer){.media_type = TSR_MEDIA_STATE, .bytes = bytes, .size_bytes = LARGE_BYTES};
    s->k.layer_count = LAYERS;
    if (!ready) {
        large = tsr_hash(bytes, LARGE_BYTES);
        right[0] = tsr_hash_tree(s->k.layers[0].bytes, s->k.layers[0].size_bytes);
        right[1] = tsr_hash_tree(small, sizeof small);
        right[2] = tsr_hash_tree(bytes, TSR_HASH_CHUNK_BYTES);
        right[3] = tsr_hash_tree(bytes + TSR_HASH_CHUNK_BYTES, LARGE_TAIL);
        ready = true;
    }
    s->k.layers[2].digest = &large;
    memcpy(s->table, right, sizeof right);
    for (unsigned i = 0; i < CHUNKS; i++)
        if (spoilt >> i & 1) s->table[i].bytes[more % TSR_DIGEST_BYTES] ^= 1;
    s->k.table = s->table;
    s->k.table_size_bytes = sizeof right;
    /* One in eight tables has another size. */
    if (more >= 224) s->k.table_size_bytes = (size_t)(more - 224) * 5 + 1;
}

/* An in-memory sink. */
enum { WINDOWS = 2, DEPTH = 2, SLOTS = WINDOWS + DEPTH };

static uint8_t sink_windows[WINDOWS][TSR_HASH_CHUNK_BYTES], sink_slots[SLOTS][TSR_HASH_CHUNK_BYTES];

static tsr_result sink_window(tsr_ctx *ctx, void *user, uint64_t number, void **out_window) {
    (void)ctx, (void)user;
    *out_window = sink_windows[number % WINDOWS];
    return TSR_SUCCESS;
}

static tsr_result sink_submit(tsr_ctx *ctx, void *user, uint64_t number, size_t size_bytes) {
    (void)ctx, (void)user;
    memcpy(sink_slots[number % SLOTS], sink_windows[number % WINDOWS], size_bytes);
    return TSR_SUCCESS;
}

static tsr_result sink_digest(tsr_ctx *ctx, void *user, uint64_t number, size_t size_bytes,
                              tsr_digest *out_digest) {
    (void)ctx, (void)user;
    *out_digest = tsr_hash_tree(sink_slots[number % SLOTS], size_bytes);
    return TSR_SUCCESS;
}

static tsr_result sink_put(tsr_ctx *ctx, void *user, uint64_t number,
                           const tsr_bundle_segment *piece) {
    (void)ctx, (void)user;
    memcpy(piece->bytes, sink_slots[number % SLOTS] + piece->offset_bytes, piece->size_bytes);
    return TSR_SUCCESS;
}

/* The first chunk of the large layer takes milliseconds, so it is read for one byte in 256. */
static void read_one(subject *s, tsr_bundle *bundle, const uint8_t *at, uint8_t spoilt,
                     bool elsewhere) {
    uint16_t offset, size;
    unsigned layer = at[0] % LAYERS;
    uint8_t got[1 << 16];
    memcpy(&offset, at + 2, sizeof offset);
    memcpy(&size, at + 4, sizeof size);
    uint64_t begin = offset;
    if (layer == 2 && at[1] != SLOW_READ) begin += TSR_HASH_CHUNK_BYTES;
    tsr_bundle_layer of = tsr_bundle_get_layer(bundle, 0, layer);
    tsr_result result;
    if (elsewhere) {
        const tsr_bundle_segment piece = {begin, size, got};
        const tsr_bundle_sink sink = {.threads_max = 2,
                                      .window_count = WINDOWS,
                                      .depth = DEPTH,
                                      .get_window = sink_window,
                                      .submit = sink_submit,
                                      .digest = sink_digest,
                                      .put = sink_put};
        result = tsr_bundle_send_segments(&s->k.ctx, bundle, &of, &piece, 1, &sink);
    } else {
        result = tsr_bundle_read_range(&s->k.ctx, bundle, &of, begin, got, size);
    }
    uint64_t whole = s->k.layers[layer].size_bytes;
    if (begin > whole || size > whole - begin) {
        fuzz_require(result.code == TSR_USAGE || fuzz_faults, "a read past the end refused");
        return;
    }
    unsigned first = layer + (begin >= TSR_HASH_CHUNK_BYTES);
    unsigned last = layer + (size && begin + size > TSR_HASH_CHUNK_BYTES);
    bool bad = size && ((spoilt >> first & 1) || (spoilt >> last & 1));
    fuzz_require((result.code == TSR_CORRUPT) == bad || fuzz_faults,
                 "spoilt chunks refused, and no others");
    fuzz_require(result.code ||
                     memcmp(got, (const uint8_t *)s->k.layers[layer].bytes + begin, size) == 0,
                 "the bytes that were written");
}

static bool run(const uint8_t *bytes, size_t size_bytes) {
    subject s = {0};
    tsr_bundle *bundle = NULL;
    if (size_bytes < HEAD_BYTES) return false;
    fuzz_armed = false;
    make(&s, bytes[0], bytes[1]);
    kit_link(&s.k);
    fuzz_armed = true;
    s.k.ram.fail_at = fuzz_fail_read;
    bool good_size = s.k.table_size_bytes == CHUNKS * TSR_DIGEST_BYTES;
    tsr_result result = tsr_bundle_open(&s.k.ctx, "x.tsb", NULL, &bundle);
    fuzz_require(!result.code == good_size || fuzz_faults, "a table of the right size, only");
    fuzz_require(!result.code || result.code == TSR_CORRUPT || fuzz_faults, "the code of damage");
    size_t reads = (size_bytes - HEAD_BYTES) / READ_BYTES;
    for (size_t i = 0; !result.code && i < reads && i < READS_MAX; i++) {
        for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
            read_one(&s, bundle, bytes + HEAD_BYTES + i * READ_BYTES, bytes[0], elsewhere);
            tsr_error_clear(&s.k.ctx);
        }
    }
    tsr_bundle_close(&s.k.ctx, bundle);
    fuzz_require(s.k.ram.open_count == s.k.ram.close_count, "every file closed");
    kit_finish(&s.k);
    return good_size;
}

static void seed(const char *folder) {
    static const uint8_t seeds[][HEAD_BYTES + 2 * READ_BYTES] = {
        {0, 0, 0, 0, 0, 0, 5, 0, 1, 0, 3, 0, 37, 0},
        {2, 7, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0},
        {8, 9, 2, 0, 0, 0, 232, 3, 2, 0, 255, 0, 1, 0},
        {4, 1, 2, SLOW_READ, 0, 0, 1, 0, 2, 0, 0, 0, 1, 0},
        {0, 240, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    };
    for (unsigned i = 0; i < TSR_COUNT(seeds); i++) fuzz_put(folder, i, seeds[i], sizeof seeds[i]);
}

/* Moves reads to the ends of layers and chunks. */
static size_t mutate(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed) {
    static const uint16_t edges[] = {0, 1, 39, 40, 41, 999, 1000, 1001, 16383, 16384, 65535};
    uint32_t state = seed;
    size_t size = LLVMFuzzerMutate(bytes, size_bytes, size_max);
    if (size < HEAD_BYTES + READ_BYTES) return size;
    size_t reads = (size - HEAD_BYTES) / READ_BYTES;
    uint8_t *at = bytes + HEAD_BYTES + fuzz_random(&state) % reads * READ_BYTES;
    uint16_t edge = edges[fuzz_random(&state) % (TSR_COUNT(edges))];
    memcpy(at + (fuzz_one_in(&state, 2) ? 2 : 4), &edge, sizeof edge);
    for (size_t i = 0; i < reads; i++) { /* most inputs have no slow read */
        uint8_t *slow = bytes + HEAD_BYTES + i * READ_BYTES + 1;
        if (*slow == SLOW_READ && !fuzz_one_in(&state, 64)) *slow = 0;
    }
    return size;
}

const fuzz_target fuzz_the_target = {"chunks", seed, run, mutate};

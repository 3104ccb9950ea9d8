/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of manifests, resilience tokens and BASE records; docs/state-store.md is normative.
 * Encoding allocates nothing. Decoding trusts no input: its results are canonical, complete and
 * consistent (hashes, state hash, layout), so that its users only assert.
 */
#ifndef TSR_RUNTIME_STATE_FORMAT_H
#define TSR_RUNTIME_STATE_FORMAT_H

#include "runtime/base/identity.h"
#include "runtime/store.h"

enum {
    /* The newest; version 1 has no fields for the data, version 2 none for the program, version 3
     * none for the best generation, version 4 none for values that a run set. */
    TSR_MANIFEST_VERSION = 5,
    TSR_TOKEN_DATA_BYTES = 24 + TSR_DIGEST_BYTES,     /* size of the fields that version 2 adds */
    TSR_TOKEN_PROGRAM_BYTES = TSR_DIGEST_BYTES + 2,   /* version 3, without the list */
    TSR_TOKEN_BEST_BYTES = 48 + TSR_DIGEST_BYTES + 2, /* version 4, without the metric */
    TSR_TOKEN_SET_BYTES = 8,                          /* version 5 */
    /* A token may have this much more when it is written than when it was planned. */
    TSR_TOKEN_GROWTH_MAX = TSR_TOKEN_DATA_BYTES + TSR_TOKEN_PROGRAM_BYTES + TSR_TOKEN_BEST_BYTES +
                           TSR_METRIC_MAX + TSR_TOKEN_SET_BYTES + TSR_HYPERPARAMETERS_BYTES_MAX,
    TSR_TOKEN_BYTES_MAX = 4096,
    TSR_TOKEN_TEXT_MAX = 255, /* length of region, numerics, topology */
    TSR_MANIFEST_TENSORS_MAX = 1 << 20,
    TSR_MANIFEST_CHUNKS_MAX = 1 << 22, /* 16 TiB */
    TSR_MANIFEST_SEGMENTS_MAX = 1 << 16,
    TSR_MANIFEST_BYTES_MAX = 1 << 29,
    TSR_BASE_BYTES = 96,
};
#define TSR_SEGMENT_BYTES_MAX (UINT64_C(4) << 30)

typedef struct tsr_token {
    uint64_t generation, epoch; /* both >= 1 */
    tsr_position position;
    tsr_digest bundle_hash, state_hash;
    tsr_identity identity; /* of the program that computed it; borrowed */
    tsr_digest previous;   /* token hash of the generation from which this one continued, or zero */
    const char *region, *numerics, *topology; /* borrowed, never NULL */
} tsr_token;

/* A generation's link to its predecessor; all zero for the first generation of a store. */
typedef struct tsr_link {
    uint64_t generation, epoch;
    tsr_digest manifest_hash;
} tsr_link;

typedef struct tsr_chunk_row {
    uint64_t first, count; /* elements of its tensor */
    uint64_t offset;       /* offset in its segment */
    uint32_t segment, size_bytes;
    tsr_digest digest;
} tsr_chunk_row;

typedef struct tsr_tensor_row {
    const char *name; /* borrowed */
    tsr_dtype dtype;
    uint32_t chunk_count;
    tsr_shape shape;
    tsr_digest digest; /* tsr_hash_tree of its bytes */
} tsr_tensor_row;

typedef struct tsr_manifest {
    tsr_token token;
    tsr_link previous;
    uint64_t *segment_sizes; /* bytes */
    tsr_tensor_row *tensors; /* ascending by name */
    tsr_chunk_row *chunks;   /* tensor by tensor, in element order */
    uint32_t segment_count, tensor_count, chunk_count;
    tsr_digest token_hash, hash; /* set by encode and decode */
} tsr_manifest;

/* Chunks first … first + count - 1 of a manifest. */
typedef struct tsr_part {
    uint32_t first, count;
} tsr_part;
/* Returns the share of rank `rank` of `rank_count`. */
tsr_part tsr_part_of(uint32_t chunk_count, uint32_t rank, uint32_t rank_count);

typedef struct tsr_division {
    uint64_t segment_bytes_max; /* TSR_HASH_CHUNK_BYTES … TSR_SEGMENT_BYTES_MAX */
    uint32_t writer_count;      /* >= 1; the part of each writer begins a new segment */
} tsr_division;

/* Plans the layout of tensors as chunks and segments; digests are zero. TSR_USAGE: missing,
 * overlong or duplicate name, unknown dtype, too large. sorted[i] receives the tensor of row i and
 * has room for tensor_count. */
TSR_RESULT tsr_manifest_plan(tsr_ctx *ctx, tsr_arena *arena, const tsr_tensor *tensors,
                             size_t tensor_count, const tsr_division *division,
                             const tsr_tensor **sorted, tsr_manifest *out_manifest);
/* Two plans with the same layout hash can form one generation: SHA-256 of the map without its
 * digests. `scratch` has tsr_manifest_size bytes. */
tsr_digest tsr_manifest_layout(const tsr_manifest *manifest, uint8_t *scratch);
uint64_t tsr_manifest_data_bytes(const tsr_manifest *manifest); /* size of all segments */
tsr_generation tsr_manifest_generation(const tsr_manifest *manifest);
size_t tsr_manifest_size(const tsr_manifest *manifest);
/* Derives tensor digests, state hash, token hash and own hash from the chunk digests and writes
 * tsr_manifest_size() bytes. */
void tsr_manifest_encode(tsr_manifest *manifest, uint8_t *out_bytes);
/* TSR_STATE: damaged; the text names the damage. TSR_VERSION: intact, but in a newer format.
 * `subject` begins every message. Results are stored in the arena. */
TSR_RESULT tsr_manifest_decode(tsr_ctx *ctx, const char *subject, const void *bytes,
                               size_t size_bytes, tsr_arena *arena, tsr_manifest *out_manifest);

void tsr_base_encode(uint64_t epoch, const tsr_link *link,
                     uint8_t out_bytes[static TSR_BASE_BYTES]);
TSR_RESULT tsr_base_decode(tsr_ctx *ctx, const char *subject, const uint8_t *bytes,
                           size_t size_bytes, uint64_t epoch, tsr_link *out_link);

#endif

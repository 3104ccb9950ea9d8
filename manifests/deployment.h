/* SPDX-License-Identifier: Apache-2.0
 *
 * The deployment manifest, which an orchestrator reads before it schedules a bundle: logical mesh,
 * shards of parameters and optimizer state, collectives, checkpoints, pipeline stages with their
 * entries. Canonical JSON (application/vnd.tessera.deployment.v1+json; layout in
 * manifests/README.md, schemas/deployment.schema.json).
 *
 * The results of the compiler's passes are in a separate struct, tsr_deployment, whose JSON form is
 * passed from stage to stage. The manifest is made from it and from the config.
 */
#ifndef TSR_MANIFESTS_DEPLOYMENT_H
#define TSR_MANIFESTS_DEPLOYMENT_H

#include "manifests/config.h"
#include "manifests/program.h"

enum {
    TSR_DEPLOYMENT_VERSION_MINOR = 3,    /* minor version of 1.x */
    TSR_DEPLOYMENT_BYTES_MAX = 64 << 20, /* size of the JSON; see also runtime/base/io/json.h */
    TSR_DEPLOYMENT_AXES_MAX = 64,
    TSR_DEPLOYMENT_POSITIONS_MAX = 1024,
    TSR_DEPLOYMENT_PIPELINE_MAX = 1 << 18, /* ranks, microbatches, chunks, stages of one */
};

typedef struct tsr_deployment_axis {
    const char *name;
    uint64_t size; /* positions, 1 … TSR_CONFIG_VIRTUAL_RANKS_MAX */
    bool batch;    /* the virtual ranks divide the batch along it */
} tsr_deployment_axis;

/* A parameter or state that is sharded along an axis: position i stores elements [begin[i], end[i])
 * of the unpadded row-major tensor. Position i is virtual rank i. */
typedef struct tsr_deployment_shard {
    const char *tensor, *axis;
    size_t position_count; /* 1 … TSR_DEPLOYMENT_POSITIONS_MAX */
    uint64_t *begin, *end; /* ascending, covering the tensor */
} tsr_deployment_shard;

typedef struct tsr_deployment_collective {
    const char *entry, *kind, *axis; /* kind: a row of collectives.def other than slice */
    const char *tensor;        /* the parameter, or the one whose gradient it is; NULL: none */
    uint64_t positions, bytes; /* bytes that all positions together send */
} tsr_deployment_collective;

/* An optimizer step: the gradient of this parameter is summed over the virtual ranks. */
typedef struct tsr_deployment_step {
    const char *entry, *tensor;
} tsr_deployment_step;

/* The effect of recomputation on an entry, in bytes of forward values that are kept for the
 * backward pass. */
typedef struct tsr_deployment_recompute {
    const char *entry;
    uint64_t bytes_before, bytes_saved; /* bytes without and with recomputation */
    uint64_t ops, operations; /* operators run again; estimate of their arithmetic operations */
} tsr_deployment_recompute;

/* A pipeline that the program plans. One rank runs its stages one after another. */
typedef struct tsr_deployment_pipeline {
    const char *schedule; /* "1f1b", "interleaved" */
    const char *axis;     /* axis of the mesh; NULL: unspecified */
    const char *function; /* the function that is split into stages; NULL: stages are functions */
    uint64_t ranks, microbatches, chunks;
    size_t stage_count;  /* ranks * chunks, or 0 */
    const char **stages; /* functions: stage i runs on rank i mod ranks, after stage i - 1 */
} tsr_deployment_pipeline;

typedef enum tsr_deployment_part {
    TSR_PART_MESH = 1,
    TSR_PART_PIPELINE = 2,
    TSR_PART_OPTIMIZER = 4,
    TSR_PART_CHECKPOINT = 8,
    TSR_PART_COLLECTIVES = 16,
    TSR_PART_STAGES = 32,
    TSR_PART_ALL = 63,
} tsr_deployment_part;

typedef struct tsr_deployment {
    size_t axis_count, shard_count, collective_count, recompute_count, pipeline_count, step_count;
    tsr_deployment_axis *axes;
    tsr_deployment_shard *shards;
    tsr_deployment_collective *collectives;
    tsr_deployment_recompute *recomputes;
    tsr_deployment_pipeline *pipelines;
    tsr_deployment_step *steps; /* not part of the manifest */
    const char *path;           /* path to which a tool also writes the manifest; NULL: no file */
    unsigned include;           /* the tsr_deployment_parts in that file */
} tsr_deployment;

/* Returns 0 if there is no part of that name. */
unsigned tsr_deployment_part_parse(const char *name);

/* Convert the struct to JSON and back. Invalid JSON fails with TSR_CORRUPT and the expected value.
 * Results are in the arena. */
TSR_RESULT tsr_deployment_write(tsr_ctx *ctx, const tsr_deployment *deployment, tsr_arena *arena,
                                char **out_json, size_t *out_size_bytes);
TSR_RESULT tsr_deployment_read(tsr_ctx *ctx, const char *json, size_t size_bytes, tsr_arena *arena,
                               tsr_deployment *out_deployment);

/* Sets the collectives to those that the host program runs, with a rank for each virtual rank. A
 * sum of gradients has the name of a parameter of its size that the entry takes a step of. */
TSR_RESULT tsr_deployment_find_collectives(tsr_ctx *ctx, const tsr_config *config,
                                           const tsr_program *program, tsr_arena *arena,
                                           tsr_deployment *io_deployment);

/* Writes the manifest with the requested parts: TSR_PART_ALL in a bundle. The manifest describes
 * one physical rank, which has every virtual rank and every position. First verifies `config`, that
 * it has the tensors and entries named by the deployment, and that shards cover their tensors
 * (TSR_COMPILE). `deployment` NULL: nothing is sharded or recomputed. The bytes depend only on
 * these inputs; *out_json is in the arena, NUL-terminated. */
TSR_RESULT tsr_deployment_encode(tsr_ctx *ctx, const tsr_config *config,
                                 const tsr_deployment *deployment, unsigned parts, tsr_arena *arena,
                                 char **out_json, size_t *out_size_bytes);

/* A decoded manifest. It contains no init rules of tensors, no numerics and no independence of
 * rows: these fields of the config are zero. */
typedef struct tsr_deployment_manifest {
    uint32_t version_minor;
    unsigned parts;            /* parts in the manifest; PIPELINE and STAGES occur together */
    tsr_config config;         /* name, producer; MESH: virtual_ranks; OPTIMIZER: tensors, by name;
                                * PIPELINE: entries */
    tsr_deployment deployment; /* path and include are not set */
} tsr_deployment_manifest;

/* Verifies everything: version (TSR_VERSION), names, limits, that shards are contiguous and cover
 * their tensors, that named objects exist if their part is present, and that the bytes are the
 * canonical ones (TSR_CORRUPT). A later minor version may add unknown members: they are ignored,
 * and the bytes need not be canonical. The result is in the arena. */
TSR_RESULT tsr_deployment_decode(tsr_ctx *ctx, const char *json, size_t size_bytes,
                                 tsr_arena *arena, tsr_deployment_manifest *out_manifest);
/* Encodes a decoded manifest: the bytes are those that it was decoded from. */
TSR_RESULT tsr_deployment_encode_again(tsr_ctx *ctx, const tsr_deployment_manifest *manifest,
                                       tsr_arena *arena, char **out_json, size_t *out_size_bytes);

#endif

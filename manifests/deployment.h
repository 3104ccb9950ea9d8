/* SPDX-License-Identifier: Apache-2.0
 *
 * The deployment manifest: what an orchestrator needs to know before it places a bundle: logical
 * mesh, shards of parameters and optimizer state, collectives, checkpoints, pipeline stages with
 * their entries. Canonical JSON (application/vnd.tessera.deployment.v1+json; layout in
 * manifests/README.md, schemas/deployment.schema.json).
 *
 * What the compiler's passes did is a struct of its own, a tsr_deployment, with a JSON form that
 * goes from stage to stage. The manifest is made of that and of the config.
 */
#ifndef TSR_MANIFESTS_DEPLOYMENT_H
#define TSR_MANIFESTS_DEPLOYMENT_H

#include "manifests/config.h"
#include "manifests/program.h"

enum {
    TSR_DEPLOYMENT_VERSION_MINOR = 3,    /* of 1.x */
    TSR_DEPLOYMENT_BYTES_MAX = 64 << 20, /* of the JSON; the limits of runtime/base/json.h too */
    TSR_DEPLOYMENT_AXES_MAX = 64,
    TSR_DEPLOYMENT_POSITIONS_MAX = 1024,
    TSR_DEPLOYMENT_PIPELINE_MAX = 1 << 18, /* ranks, microbatches, chunks, stages of one */
};

typedef struct tsr_deployment_axis {
    const char *name;
    uint64_t size; /* positions, 1 … TSR_CONFIG_VIRTUAL_RANKS_MAX */
    bool batch;    /* the virtual ranks divide the batch along it */
} tsr_deployment_axis;

/* A parameter or state that is spread over an axis: position i holds elements [begin[i], end[i]) of
 * the unpadded row-major tensor. Position i is virtual rank i. */
typedef struct tsr_deployment_shard {
    const char *tensor, *axis;
    size_t position_count; /* 1 … TSR_DEPLOYMENT_POSITIONS_MAX */
    uint64_t *begin, *end; /* ascending, covering the tensor */
} tsr_deployment_shard;

typedef struct tsr_deployment_collective {
    const char *entry, *kind, *axis; /* kind: a row of collectives.def, but slice */
    const char *tensor;        /* the parameter, or the one whose gradient it is; NULL: none */
    uint64_t positions, bytes; /* bytes that all positions together send */
} tsr_deployment_collective;

/* An optimizer step: the gradient of this parameter is summed over the virtual ranks. */
typedef struct tsr_deployment_step {
    const char *entry, *tensor;
} tsr_deployment_step;

/* What recomputation made of an entry, in bytes of forward values that the backward pass keeps. */
typedef struct tsr_deployment_recompute {
    const char *entry;
    uint64_t bytes_before, bytes_saved; /* without recomputation; with it */
    uint64_t ops, operations;           /* run again; about how much arithmetic that is */
} tsr_deployment_recompute;

/* A pipeline that the program plans. One rank runs its stages one after another. */
typedef struct tsr_deployment_pipeline {
    const char *schedule; /* "1f1b", "interleaved" */
    const char *axis;     /* of the mesh; NULL: not said */
    const char *function; /* that is cut into stages; NULL: stages are functions */
    uint64_t ranks, microbatches, chunks;
    size_t stage_count;  /* ranks * chunks, or 0 */
    const char **stages; /* functions: stage i runs on rank i mod ranks, behind stage i - 1 */
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
    const char *path;           /* where a tool writes the manifest, too; NULL: nowhere */
    unsigned include;           /* the tsr_deployment_parts of that file */
} tsr_deployment;

/* 0 where there is no part of that name. */
unsigned tsr_deployment_part_parse(const char *name);

/* The struct as JSON, and back: whole or TSR_CORRUPT, with what was expected. In the arena. */
TSR_RESULT tsr_deployment_write(tsr_ctx *ctx, const tsr_deployment *deployment, tsr_arena *arena,
                                char **out_json, size_t *out_size_bytes);
TSR_RESULT tsr_deployment_read(tsr_ctx *ctx, const char *json, size_t size_bytes, tsr_arena *arena,
                               tsr_deployment *out_deployment);

/* Sets the collectives to those that the host program runs, with a rank for each virtual rank. A
 * sum of gradients has the name of a parameter of its size that the entry takes a step of. */
TSR_RESULT tsr_deployment_find_collectives(tsr_ctx *ctx, const tsr_config *config,
                                           const tsr_program *program, tsr_arena *arena,
                                           tsr_deployment *io_deployment);

/* The manifest, with the parts that are asked for: TSR_PART_ALL in a bundle. For one physical rank,
 * which holds every virtual rank and every position. `config` is verified first, and that it has
 * the tensors and entries which the deployment names, and that shards cover theirs (TSR_COMPILE).
 * `deployment` NULL: nothing is spread or computed again. The bytes are a function of these alone;
 * *out_json is in the arena, NUL-terminated. */
TSR_RESULT tsr_deployment_encode(tsr_ctx *ctx, const tsr_config *config,
                                 const tsr_deployment *deployment, unsigned parts, tsr_arena *arena,
                                 char **out_json, size_t *out_size_bytes);

/* A manifest as it was read. It has no room for how tensors begin, for numerics and for whether
 * rows are independent: of the config these are zero. */
typedef struct tsr_deployment_manifest {
    uint32_t version_minor;
    unsigned parts;            /* that it has; PIPELINE and STAGES are one */
    tsr_config config;         /* name, producer; MESH: virtual_ranks; OPTIMIZER: tensors, by name;
                                * PIPELINE: entries */
    tsr_deployment deployment; /* path and include are not part of it */
} tsr_deployment_manifest;

/* Verifies everything: version (TSR_VERSION), names, limits, that shards follow on each other and
 * cover their tensors, that what is named exists as far as the parts are there, and that the bytes
 * are the canonical ones (TSR_CORRUPT). A later minor version may bring members unknown here: they
 * are ignored, and the spelling is free. All of it lies in the arena. */
TSR_RESULT tsr_deployment_decode(tsr_ctx *ctx, const char *json, size_t size_bytes,
                                 tsr_arena *arena, tsr_deployment_manifest *out_manifest);
/* What was read, as the bytes that it was read from. */
TSR_RESULT tsr_deployment_encode_again(tsr_ctx *ctx, const tsr_deployment_manifest *manifest,
                                       tsr_arena *arena, char **out_json, size_t *out_size_bytes);

#endif

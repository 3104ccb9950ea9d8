/* SPDX-License-Identifier: Apache-2.0
 *
 * The deployment manifest: what an orchestrator needs to know before it places a bundle: logical
 * mesh, shards of parameters and optimizer state, collectives, checkpoints, pipeline stages with
 * their entries. Canonical JSON (application/vnd.tessera.deployment.v1+json; layout in
 * manifests/README.md, schemas/deployment.schema.json).
 */
#ifndef TSR_MANIFESTS_DEPLOYMENT_H
#define TSR_MANIFESTS_DEPLOYMENT_H

#include "manifests/config.h"

/* For one physical rank, which holds every virtual rank and every tensor whole: no collectives, one
 * pipeline stage. `config` is verified first (TSR_COMPILE). The bytes are a function of the config
 * alone; *out_json is in the arena, NUL-terminated. */
TSR_RESULT tsr_deployment_encode(tsr_ctx *ctx, const tsr_config *config, tsr_arena *arena,
                                 char **out_json, size_t *out_size_bytes);

#endif

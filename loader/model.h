/* SPDX-License-Identifier: Apache-2.0
 *
 * What a tsr_model is made of; private to this folder.
 */
#ifndef TSR_LOADER_MODEL_H
#define TSR_LOADER_MODEL_H

#include "bundle/bundle.h"
#include "loader/tessera.h"
#include "loader/weights.h"
#include "manifests/program.h"
#include "runtime/cpu.h"
#include "runtime/device/device.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/held.h"

struct tsr_model {
    tsr_arena arena;
    tsr_bundle *bundle; /* owned */
    size_t target;      /* in the bundle */
    const char *choice, *numerics;
    tsr_config config;
    tsr_program program;
    tsr_memory_plan plan;
    tsr_transport *transport; /* borrowed; NULL: one process alone */
    tsr_device *device;       /* owned */
    tsr_executor *executor;   /* owned */
    tsr_tensor *state;        /* in the arena; views of the executor's memory, sorted by name */
    size_t state_count;
    uint32_t *state_parts;       /* of each, see tsr_spread; in the arena */
    uint64_t resident_before;    /* memory in use before the plan's was allocated */
    bool filled;                 /* the state holds values */
    bool untrained;              /* these are the initial ones, and nobody was told yet */
    uint32_t initial_seed;       /* that they were drawn with */
    tsr_finite_mode finite;      /* as opened */
    const struct tsr_use *use;   /* the current use (use.h), or NULL */
    bool ignore_memory_plan;     /* as opened */
    bool draws_there;            /* random values of what is being filled, where the device can */
    tsr_weights_folders folders; /* as opened, and the bundle's own; in the arena */
};

/* Where weights are looked for that the bundle at `path` only names: the folders of the options,
 * then its own. In the arena. */
TSR_RESULT tsr_weights_list_folders(tsr_ctx *ctx, const char *path,
                                    const tsr_model_options *options, tsr_arena *arena,
                                    tsr_weights_folders *out_folders);
/* Are there so many random values in tensors of these roles (bit 1 << role) that a device that can
 * draws them sooner than the host? */
bool tsr_model_draws_there(const tsr_model *model, unsigned roles);
/* Of the tensors whose values the bundle, or a file that it names, stores. */
uint64_t tsr_model_stored_bytes(const tsr_model *model);

/* The state as this rank holds it; valid as long as the model. */
tsr_held tsr_model_get_held(const tsr_model *model);

/* TSR_USAGE when the state holds no values yet, or a load of them failed half-way. */
TSR_RESULT tsr_model_check_filled(tsr_ctx *ctx, const tsr_model *model);

/* As tsr_model_check_filled; and logs a warning, once after each initialization, if `entry` reads
 * parameters that hold their initial values. */
TSR_RESULT tsr_model_check_ready(tsr_ctx *ctx, tsr_model *model, size_t entry);

/* Fills the tensors of role CONSTANT. They are no part of a state, so that neither a state nor a
 * parameter file brings them. */
TSR_RESULT tsr_model_load_constants(tsr_ctx *ctx, tsr_model *model);

/* The entry of that name, or TSR_USAGE listing those there are. NULL: the only one of `kind`. */
TSR_RESULT tsr_model_find_entry(tsr_ctx *ctx, const tsr_model *model, const char *name,
                                tsr_entry_kind kind, size_t *out_entry);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a tsr_model; private to this folder.
 */
#ifndef TSR_LOADER_MODEL_H
#define TSR_LOADER_MODEL_H

#include "bundle/bundle.h"
#include "loader/hyperparameters.h"
#include "loader/weights/weights.h"
#include "manifests/program.h"
#include "runtime/cpu.h"
#include "runtime/device/device.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/sharded_view.h"
#include "tessera/tessera.h"

struct tsr_model {
    tsr_arena arena;
    tsr_bundle *bundle; /* owned */
    size_t target;      /* index in the bundle */
    const char *choice, *numerics;
    tsr_config config;
    tsr_program program;
    tsr_memory_plan plan;
    tsr_transport *transport; /* borrowed; NULL: only one process */
    tsr_device *device;       /* owned */
    tsr_executor *executor;   /* owned */
    /* array in the arena; views of the executor's memory, sorted by name */
    tsr_tensor *state;
    size_t state_count;
    uint32_t *state_parts;    /* parts of each tensor, see tsr_spread; in the arena */
    uint64_t resident_before; /* memory in use before the plan's was allocated */
    bool filled;              /* the state has values */
    bool untrained;           /* these are the initial values, and no warning was logged yet */
    uint32_t initial_seed;    /* seed of the initial values */
    tsr_finite_mode finite;   /* as passed to tsr_model_open */
    tsr_hyperparameters hyperparameters;
    const struct tsr_use *use; /* the current use (use.h), or NULL */
    int64_t process;           /* its number when the model was opened: a child of fork has none of
                                  the model's threads */
    bool ignore_memory_plan;   /* as passed to tsr_model_open, like debug_numerics */
    bool debug_numerics;
    bool samples_on_device; /* random values are drawn on the device if it can */
    /* folders of the options, then the bundle's own folder; in the arena */
    tsr_weights_folders folders;
};

/* Lists the folders that are searched for weights that the bundle at `path` only names: the folders
 * of the options, then its own. In the arena. */
TSR_RESULT tsr_weights_list_folders(tsr_ctx *ctx, const char *path,
                                    const tsr_model_options *options, tsr_arena *arena,
                                    tsr_weights_folders *out_folders);
/* Returns true if tensors with a role in `roles` (bit 1 << role) have enough random values that a
 * device, if it can, draws them faster than the host. */
bool tsr_model_samples_on_device(const tsr_model *model, unsigned roles);
/* Returns the bytes of the tensors whose values are stored in the bundle or in a file that it
 * names. */
uint64_t tsr_model_stored_bytes(const tsr_model *model);

/* Returns the state as this rank stores it; valid as long as the model. */
tsr_sharded_view tsr_model_get_sharded_view(const tsr_model *model);

/* Fails with TSR_USAGE if the state has no values yet, or if loading them failed halfway. */
TSR_RESULT tsr_model_check_filled(tsr_ctx *ctx, const tsr_model *model);

/* Like tsr_model_check_filled; also logs a warning, once after each initialization, if `entry`
 * reads parameters that still have their initial values. */
TSR_RESULT tsr_model_check_ready(tsr_ctx *ctx, tsr_model *model, size_t entry);

/* Fills the tensors of role CONSTANT. Constants are not part of a state, so neither a state nor a
 * parameter file contains them. */
TSR_RESULT tsr_model_load_constants(tsr_ctx *ctx, tsr_model *model);

/* Finds the entry with that name; fails with TSR_USAGE and lists the entries. NULL: the only one of
 * `kind`. */
TSR_RESULT tsr_model_find_entry(tsr_ctx *ctx, const tsr_model *model, const char *name,
                                tsr_entry_kind kind, size_t *out_entry);

/* Standard input (TSR_ARRAY_STREAM) can be read once: TSR_USAGE if two arrays are bound to it. */
TSR_RESULT tsr_bindings_check_streams(tsr_ctx *ctx, const tsr_binding *bindings, size_t count);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * libtessera: open a bundle, train it, call it. tessera-run trains, evaluates, calls and replays
 * through this header; for its commands on state directories it also uses runtime/store.h.
 *
 *     tsr_ctx ctx = {0};
 *     tsr_model *model = NULL;
 *     tsr_result result = tsr_model_open(&ctx, "digits.tsb", NULL, &model);
 *     if (!result.code) result = tsr_model_initialize(&ctx, model, 0);
 *     if (!result.code) result = tsr_model_call(&ctx, model, "predict", inputs, 1, outputs, 1);
 *     if (result.code) fprintf(stderr, "%s\n", ctx.error.text);
 *     tsr_model_close(&ctx, model);
 *
 * A model belongs to one thread at a time; a process may have any number of them. A callback of a
 * function that uses a model (of a step, a save, a call, the log) may read that model, and may call
 * its entries except for the one that is being called; this changes no bit of the run. Functions
 * that would change the model fail with TSR_USAGE there: those that train it or set its state.
 * Marking its workspace returns false, and closing it only logs an error.
 *
 * Options structs begin with their size, so that they can grow: a smaller one is filled up with
 * defaults, a larger one is TSR_USAGE; NULL means the defaults. Result codes are those of
 * runtime/base/codes.def.
 */
#ifndef TSR_LOADER_TESSERA_H
#define TSR_LOADER_TESSERA_H

#include "manifests/config.h"
#include "runtime/base/hash.h"
#include "runtime/base/tensor.h"
#include "runtime/base/trace.h"
#include "runtime/exec/memory.h"
#include "runtime/report.h"
#include "runtime/trace/nvtx.h"

#include <signal.h>

TSR_API const char *tsr_version(void); /* "0.1.0" */

/* ---- several ranks ---- */

/* A rank's end of what ranks reach each other by. */
typedef struct tsr_transport tsr_transport;

/* What a rank does, in a process of its own: opens the model with this transport, trains it. */
typedef tsr_result (*tsr_rank_body)(tsr_ctx *ctx, tsr_transport *transport, void *user);

typedef struct tsr_ranks_options {
    size_t size_bytes;                 /* sizeof(tsr_ranks_options) */
    uint32_t rank_count;               /* 1 … 1024; at most the virtual ranks of the bundle */
    uint32_t restarts;                 /* how often all start again after one died or hung */
    const volatile sig_atomic_t *stop; /* non-zero: ranks are asked to stop by SIGTERM; or NULL */
    void (*restarting)(void *user, uint32_t attempt); /* from 1; may be NULL */
} tsr_ranks_options;

/* Starts `rank_count` processes of this host, each bound to its share of the processors, and waits
 * for them. To be called before this process has threads. When a rank fails all end, and the error
 * is that of the first one: TSR_RANK names the rank, where it was and why it ended. */
TSR_API TSR_RESULT tsr_ranks_run(tsr_ctx *ctx, const tsr_ranks_options *options, tsr_rank_body body,
                                 void *user);
/* This process as a rank of the MPI job (mpirun, srun) that it was started by. TSR_USAGE in builds
 * without MPI. A rank that fails ends the job. */
TSR_API TSR_RESULT tsr_ranks_join_job(tsr_ctx *ctx, tsr_rank_body body, void *user);
/* From 0. */
TSR_API uint32_t tsr_rank_get_number(const tsr_transport *transport);

/* ---- a bundle, ready to run ---- */

typedef struct tsr_model tsr_model;

typedef struct tsr_model_options {
    size_t size_bytes;       /* sizeof(tsr_model_options) */
    bool strict;             /* only canonical bytes, all verified before anything is used */
    const char *cpu;         /* force a variant: "x86-64-v3"; NULL: the highest this CPU has */
    unsigned threads;        /* 0: every CPU this process may use */
    bool ignore_memory_plan; /* do not compare the plan with what is available */
    const char *const *keys; /* paths of public keys (PEM) that may have signed it; borrowed */
    size_t key_count;
    bool require_signature;             /* by one of the keys; else only a wrong one is refused */
    const char *const *weights_folders; /* where weights that the bundle names, and does not hold,
                                           are looked for before its own folder; borrowed */
    size_t weights_folder_count;
    const char *device;         /* "cpu" (or NULL), "cuda", "cuda:1", "cuda:GPU-…" (a UUID, or its
                                   beginning), or "auto": a GPU that the bundle has code for, opens and has
                                   room for it, else the CPU */
    uint64_t device_memory_max; /* bytes to take of a GPU's memory at most; 0: what is free */
    tsr_transport *transport;   /* of a rank, borrowed; NULL: one process alone */
    bool one_by_one; /* a GPU runs one kernel at a time, so that an error names it: much slower */
    tsr_finite_mode check_finite; /* what runs do about outputs that are not finite */
} tsr_model_options;

/* Opens, verifies, chooses the variant, maps its code, allocates. Tensors hold nothing yet: call
 * one of initialize, load_state, load_params, or tsr_train. TSR_SIGNATURE (see bundle/FORMAT.md,
 * section 12) before anything of the program is used. TSR_TARGET lists the targets there are;
 * TSR_MACHINE for a CPU below v2; TSR_MEMORY with planned and available bytes. */
TSR_API TSR_RESULT tsr_model_open(tsr_ctx *ctx, const char *path, const tsr_model_options *options,
                                  tsr_model **out_model);
/* Accepts NULL. A model in use is not closed. */
TSR_API void tsr_model_close(tsr_ctx *ctx, tsr_model *model);

/* Borrowed from the model. */
TSR_API const tsr_config *tsr_model_get_config(const tsr_model *model);
TSR_API tsr_digest tsr_model_get_digest(const tsr_model *model);  /* of the bundle */
TSR_API const char *tsr_model_get_target(const tsr_model *model); /* "cpu:x86-64-v3" */
TSR_API const char *
tsr_model_get_choice(const tsr_model *model); /* why this one, why not the others */
TSR_API const char *
tsr_model_get_numerics(const tsr_model *model); /* "portable+fma.2": equal texts, equal bits */
TSR_API unsigned tsr_model_get_thread_count(const tsr_model *model);
TSR_API tsr_memory_plan tsr_model_get_memory_plan(const tsr_model *model);
/* The file of weights that the bundle names and does not hold, where it is looked for and found now
 * (none of its bytes are read); NULL where the bundle names none, or no file fits or can be opened.
 * In the arena. */
TSR_API TSR_RESULT tsr_model_find_weights(tsr_ctx *ctx, const tsr_model *model, tsr_arena *arena,
                                          const char **out_path);
/* The measured peak of the workspace, of all entries that run after the mark. Marking writes the
 * whole workspace once; false, and nothing to measure, on a device with memory of its own and while
 * the model is in use. */
TSR_API bool tsr_model_mark_workspace(tsr_model *model);
TSR_API tsr_workspace_use tsr_model_measure_workspace(const tsr_model *model);
/* The state (parameters and optimizer state) in memory, sorted by name. Whoever writes to it asks
 * for it again before the next run: what was prepared from it before is then made anew. */
TSR_API const tsr_tensor *tsr_model_get_state(const tsr_model *model, size_t *out_count);

/* ---- will it run here? ---- */

typedef struct tsr_check_target {
    const char *name;          /* borrowed: all of these live as long as the report */
    bool chosen;               /* this is the one that would run */
    const char *reason;        /* why it was chosen, or why not */
    const char *driver;        /* library it needs of the machine: "libcuda.so.1"; NULL: none */
    const char *driver_origin; /* "the NVIDIA driver"; NULL: none */
} tsr_check_target;

/* Bytes of this host and of a device (0 on a CPU, whose memory is the host's). */
typedef struct tsr_check_memory {
    uint64_t parameter_bytes, state_bytes, constant_bytes; /* tensors by role */
    uint64_t prepared_bytes;              /* weights in the order in which kernels read them */
    uint64_t workspace_bytes, port_bytes; /* inputs and outputs */
    uint64_t away_bytes;        /* of the host: values that wait there, not on the device */
    uint64_t code_bytes;        /* of kernels, as it is stored; on a GPU the code for it */
    uint64_t scratch_bytes;     /* that kernels share on a GPU */
    uint64_t staging_bytes;     /* taken while the bundle's weights are read */
    uint64_t save_bytes;        /* besides, with a state directory: the copy that is being saved */
    uint64_t host_bytes;        /* in all, without save_bytes */
    uint64_t device_bytes;      /* of tensors, workspace, inputs, outputs, code and scratch */
    uint64_t device_free_bytes; /* of the device now; UINT64_MAX: unknown */
    uint64_t device_allowed_bytes; /* the options' device_memory_max; 0: all that is free */
    uint64_t available_bytes;      /* of the host; UINT64_MAX: unknown */
} tsr_check_memory;

typedef struct tsr_check_report {
    tsr_code code;            /* TSR_OK: it runs here; else what tsr_model_open would return */
    const char *problem;      /* of code; NULL when it runs */
    const char *advice;       /* what to do about it; NULL when it runs */
    tsr_digest digest;        /* of the bundle */
    bool is_signed;           /* there is a signature, and it is not wrong */
    unsigned cpu_level;       /* of this machine: 3 for x86-64-v3, 5 for x86-64-v4-bf16 */
    const char *cpu;          /* the same: "x86-64-v3" */
    const char *numerics;     /* of the chosen target; NULL without one */
    const char *choice;       /* device "auto": what it chose and why; else NULL */
    const tsr_config *config; /* entries and what they need: NULL when not even that is readable */
    size_t target_count;
    const tsr_check_target *targets;
    tsr_check_memory memory; /* zeros without a chosen target */
} tsr_check_report;

/* Reads metadata alone (no weight, no kernel but a GPU's) and tells whether the bundle runs here;
 * takes no memory for it and maps no code, but a context of the GPU for a moment, whose free memory
 * is told by nothing else. The result is TSR_OK or report->code, with the problem in the context;
 * the report is filled in as far as could be read, in either case. All of it lies in the arena. */
TSR_API TSR_RESULT tsr_model_check(tsr_ctx *ctx, const char *path, const tsr_model_options *options,
                                   tsr_arena *arena, tsr_check_report *out_report);

/* ---- parameters ---- */

/* Init rules with this seed, stored data and constants from the bundle. Calls draw their random
 * numbers with it, too. */
TSR_API TSR_RESULT tsr_model_initialize(tsr_ctx *ctx, tsr_model *model, uint32_t seed);
/* A generation of a state directory, read-only and without its lock; verified. TSR_STATE when there
 * is none. */
TSR_API TSR_RESULT tsr_model_load_state(tsr_ctx *ctx, tsr_model *model, const char *directory,
                                        tsr_resume_mode mode, uint64_t generation,
                                        tsr_generation *out_generation);
typedef struct tsr_rename {
    const char *from, *to; /* borrowed; a name, or the beginning of names before a dot */
} tsr_rename;
typedef struct tsr_adopt_options {
    const char *directory; /* read without its lock */
    const tsr_rename *renames;
    size_t rename_count;
} tsr_adopt_options;
/* After initialize: of the newest good generation of a state directory, of whatever bundle, the
 * tensors whose name, dtype and shape the model has; of several renames the one that says most.
 * What was taken, what was not and why is logged. TSR_MISMATCH when there is nothing in common,
 * TSR_USAGE for a rename of what is not there or to what is there twice, TSR_STATE for an empty
 * directory. */
TSR_API TSR_RESULT tsr_model_adopt(tsr_ctx *ctx, tsr_model *model, const tsr_adopt_options *options,
                                   tsr_generation *out_generation);
/* Every parameter from a safetensors file, which may hold others too, of any dtype; names, dtypes
 * and shapes must match (TSR_MISMATCH with both values; nothing is changed then). */
TSR_API TSR_RESULT tsr_model_load_params(tsr_ctx *ctx, tsr_model *model, const char *path);
/* Every parameter to a safetensors file, whole or not at all. Of several ranks all call it, and the
 * first one writes. */
TSR_API TSR_RESULT tsr_model_export_params(tsr_ctx *ctx, const tsr_model *model, const char *path);

/* ---- calls ---- */

/* A call or evaluation logs a warning (TSR_LOG_WARNING, once after each tsr_model_initialize) when
 * its entry reads parameters that hold their initial values: no state, file or training has set
 * them, and the bundle stores no values of them.
 *
 * Outputs that were asked for are checked as the model's options say; the message names the output
 * and the first element. NaN is always reported. An infinity is not reported where the config says
 * that the output may be infinite (see tsr_config_port), nor where an input of the call holds one;
 * with independent rows, where that row of an input does. */

/* One call with tensors found by name; all inputs of source ARGUMENT or DATA must be there
 * (TSR_USAGE lists them), dtypes and shapes equal (TSR_DATA). Outputs are optional. Where rows are
 * independent, dimension 0 may be any number of rows, equal for all. `entry` NULL is the only INFER
 * entry. A TRAIN entry is refused (TSR_USAGE): use tsr_train. On failure the outputs hold
 * nothing of use. */
TSR_API TSR_RESULT tsr_model_call(tsr_ctx *ctx, tsr_model *model, const char *entry,
                                  const tsr_tensor *inputs, size_t input_count,
                                  const tsr_tensor *outputs, size_t output_count);

typedef struct tsr_binding {
    const char *name, *path; /* borrowed */
} tsr_binding;
/* The same from array files (.npy, FILE.npz:MEMBER, FILE.safetensors:NAME, or flat, little-endian)
 * to array files (.npy; .npz or .safetensors, where several outputs may go; .bin, elements alone;
 * .txt, the same of bytes), each whole or not at all; at least one output is asked for. */
TSR_API TSR_RESULT tsr_model_call_files(tsr_ctx *ctx, tsr_model *model, const char *entry,
                                        const tsr_binding *inputs, size_t input_count,
                                        const tsr_binding *outputs, size_t output_count);

typedef struct tsr_call_options {
    size_t size_bytes; /* sizeof(tsr_call_options) */
    /* Calls; 0: one, or as many as the rows need. What a call gives under the name of an input is
     * that input of the next one, and is written after the last; other inputs stay, and of other
     * outputs files hold all calls, as a first dimension. The step that the program reads is the
     * number of the call, from 1, so that random numbers are drawn anew. */
    uint64_t repeat;
    bool keeps_nothing; /* no output need be asked for */
    /* After each call, counted from 1: what it took, inputs to the device and outputs back, but not
     * their files. May be NULL. */
    void (*called)(void *user, uint64_t number, double seconds);
    void *called_user; /* borrowed */
    /* Log files, or NULL; not both. A log has a line for each call, with the digests of what it
     * took and gave, and names the digests of the inputs' arrays and of the parameters. */
    const char *record, *replay;
    bool records_values; /* of call `values_of`, in the log that is written */
    uint64_t values_of;
} tsr_call_options;
/* The same, told how. TSR_USAGE where calls are to be repeated and rows are independent, or what is
 * handed on has another type. A replay: TSR_MISMATCH for a log of another bundle,
 * entry, seed, input or set of parameters; TSR_DIVERGED names the call, the first tensor that
 * differs, its element, region and place in the source. */
TSR_API TSR_RESULT tsr_model_run_files(tsr_ctx *ctx, tsr_model *model, const char *entry,
                                       const tsr_call_options *options, const tsr_binding *inputs,
                                       size_t input_count, const tsr_binding *outputs,
                                       size_t output_count);

/* Means of an EVAL entry's row-wise outputs over the data bound to its inputs. `entry` NULL is the
 * only one. out_report's arrays are in the arena, their names the model's. */
TSR_API TSR_RESULT tsr_model_evaluate(tsr_ctx *ctx, tsr_model *model, const char *entry,
                                      const tsr_binding *data, size_t data_count, tsr_arena *arena,
                                      tsr_eval_report *out_report);

/* ---- training ---- */

typedef struct tsr_train_options {
    size_t size_bytes; /* sizeof(tsr_train_options) */
    const char *entry; /* NULL: the only TRAIN entry */
    uint64_t steps;    /* absolute step to stop at, >= 1 */
    bool has_seed;     /* else: the state's, or 0 */
    uint32_t seed;
    const tsr_binding
        *data; /* data inputs of the train entry, and of the eval entry if it is to be used */
    size_t data_count;
    const char *state_directory; /* NULL: nothing is saved */
    uint64_t save_every;         /* steps; 0: at the end only */
    uint32_t keep;               /* generations, >= 2; 0 means 2 */
    tsr_resume_mode resume;
    uint64_t resume_generation; /* TSR_RESUME_EXACT */
    bool allow_network_fs;
    uint64_t eval_every;         /* steps; 0: at the end only */
    const char *record, *replay; /* log files, or NULL; not both */
    const char *params; /* start from these parameters where no state is resumed, or NULL */
    /* Go on from what fits of another bundle's state, where no state is resumed: at its step and
     * with its seed. directory NULL: no. Not with params, nor with a replay. */
    tsr_adopt_options adopt;
    tsr_train_callbacks callbacks;
    void (*begun)(void *user, const tsr_recovery *recovery,
                  const tsr_position *position); /* before the first step; may be NULL */
    const volatile sig_atomic_t *stop; /* non-zero: finish the step, save, return; may be NULL */
    /* Lines of the store's event log, from one thread at a time; may be NULL. */
    void (*store_event)(void *user, const char *line);
    void *store_event_user; /* borrowed */
    bool records_values;    /* of step `values_of`, in the log that is written */
    uint64_t values_of;
    bool allow_inexact; /* go on, with a warning, from a state of other numerics */
    bool new_data;      /* go on with other data than the state was trained with, from its next
                           epoch on */
    bool verify_data;   /* hash the data even if its files did not change since the last time */
} tsr_train_options;

/* Recovers or initialises, trains, saves. A state that was trained with other data, by rows or
 * digest, is TSR_MISMATCH without `new_data`. Without the data it needs: TSR_USAGE listing names,
 * dtypes and shapes. A state at or past `steps` is no error: nothing is run. A state of another
 * bundle, seed or numerics is TSR_MISMATCH. The trained tensors stay in the model; without a state
 * directory each call begins anew. Errors of the run: see tsr_train_run (runtime/train.h). A replay
 * needs `steps` only to end early, and the state directory only if the log begins after step 0;
 * it writes nothing. */
TSR_API TSR_RESULT tsr_train(tsr_ctx *ctx, tsr_model *model, const tsr_train_options *options,
                             tsr_train_summary *out_summary);

/* ---- what it took ---- */

/* With a trace in the context (runtime/base/trace.h) from before tsr_model_open on, what is done is
 * recorded there; it is written before the model is closed, whose names it uses. This writes what
 * each kernel took while the trace recorded as CSV (docs/traces.md), whole or not at all, beside
 * what the machine does at most, which is measured now. TSR_USAGE of a model opened without a
 * trace. */
TSR_API TSR_RESULT tsr_model_write_roofline(tsr_ctx *ctx, tsr_model *model, const char *path);

/* ---- a trained bundle ---- */

typedef struct tsr_bake_options {
    size_t size_bytes;           /* sizeof(tsr_bake_options) */
    const char *state_directory; /* read without its lock */
    tsr_resume_mode resume;
    uint64_t resume_generation; /* TSR_RESUME_EXACT */
    const char *out_path;       /* the trained bundle, or NULL */
    const char *export_params;  /* the parameters as a safetensors file, or NULL */
    const char *params; /* instead of a state: parameters of a .safetensors or .npz, which may hold
                           more; or NULL */
    bool with_state;    /* the optimizer state too, and where it stands: training goes on there */
    bool reference;     /* `params`, a safetensors file, is named by its digest and not stored */
} tsr_bake_options;

/* The bundle at `in_path` with the parameters of a generation or a file stored in it (optimizer
 * state begins anew, unless with_state); the parameters alone; or both. Tensors whose elements are
 * all equal become init rules; the others fill blobs of at most 4 GiB in the order of their names.
 * Each file whole or not at all, byte-identical for equal inputs. TSR_MISMATCH for another bundle's
 * state. */
TSR_API TSR_RESULT tsr_bake(tsr_ctx *ctx, const char *in_path, const tsr_bake_options *options,
                            tsr_generation *out_generation);

#endif

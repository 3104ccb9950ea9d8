/* SPDX-License-Identifier: Apache-2.0
 *
 * libtessera: open a bundle, train it, call it. This header includes all others of tessera/. A
 * program in C++ includes it as it is. tessera-run trains, evaluates, calls and replays through it.
 *
 *     tsr_ctx ctx = {0};
 *     tsr_model *model = NULL;
 *     tsr_result result = tsr_model_open(&ctx, "digits.tsb", NULL, &model);
 *     if (!result.code) result = tsr_model_initialize(&ctx, model, 0);
 *     if (!result.code) result = tsr_model_call(&ctx, model, "predict", inputs, 1, outputs, 1);
 *     if (result.code) fprintf(stderr, "%s\n", ctx.error.text);
 *     tsr_model_close(&ctx, model);
 *
 * A model belongs to one thread at a time; a process may have any number of models. A callback of a
 * function that uses a model (a step, save, call or log callback) may read that model, and may call
 * its entries except the one being called; this changes no bit of the run. In a callback, functions
 * that would change the model (train it or set its state) fail with TSR_USAGE. Marking its
 * workspace returns false, and closing it only logs an error.
 *
 * Options structs begin with their size, so that they can grow: the missing fields of a smaller
 * struct get their defaults, a larger one fails with TSR_USAGE; NULL means the defaults.
 * tessera/codes.def lists the result codes.
 */
#ifndef TSR_TESSERA_H
#define TSR_TESSERA_H

#include "tessera/arena.h"
#include "tessera/config.h"
#include "tessera/dlpack.h"
#include "tessera/memory.h"
#include "tessera/report.h"
#include "tessera/trace.h"
#include "tessera/trainer.h"

#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

TSR_API const char *tsr_version(void); /* "0.1.0" */

/* ---- several ranks ---- */

/* A rank's endpoint for communication with the other ranks. */
typedef struct tsr_transport tsr_transport;

/* The body of a rank, run in a process of its own: opens the model with this transport, trains it.
 */
typedef tsr_result (*tsr_rank_body)(tsr_ctx *ctx, tsr_transport *transport, void *user);

typedef struct tsr_ranks_options {
    size_t size_bytes;                 /* sizeof(tsr_ranks_options) */
    uint32_t rank_count;               /* 1 … 1024; at most the virtual ranks of the bundle */
    uint32_t restarts;                 /* restarts of all ranks after one died or hung, at most */
    const volatile sig_atomic_t *stop; /* non-zero: ranks are asked to stop by SIGTERM; or NULL */
    void (*restarting)(void *user, uint32_t attempt); /* attempts count from 1; may be NULL */
} tsr_ranks_options;

/* Starts `rank_count` processes on this host, each bound to its share of the processors, and waits
 * for them. Call it before this process has threads. When a rank fails, all ranks end, and the
 * error is the error of the first rank that failed: TSR_RANK names the rank, the position in its
 * run and the reason. */
TSR_API TSR_RESULT tsr_ranks_run(tsr_ctx *ctx, const tsr_ranks_options *options, tsr_rank_body body,
                                 void *user);

/* How the ranks of a job that another program started exchange data. */
typedef enum tsr_job_transport {
    TSR_JOB_TCP, /* connections between each two ranks */
    TSR_JOB_MPI, /* the job was started by mpirun or srun; only `mpi_module` is used below */
} tsr_job_transport;

typedef struct tsr_job_options {
    size_t size_bytes; /* sizeof(tsr_job_options) */
    tsr_job_transport transport;
    const char *mpi_module; /* path of tessera-mpi.so; NULL: looks where it is installed */
    uint32_t rank;          /* 0 … rank_count - 1 */
    uint32_t rank_count;    /* 1 … 1024; at most the virtual ranks of the bundle */
    /* Of the ranks on this host, if this one is to be bound to its share of the processors; count
     * 0: it may use all processors of the process. */
    uint32_t local_rank, local_rank_count;
    const char *address, *port; /* where rank 0 listens: "node1", "29500" */
    const void *key;            /* a secret that all ranks share; NULL: none */
    size_t key_bytes;           /* at least 16 if there is a key */
    bool insecure;              /* accept a job without a key that other hosts can reach */
    uint32_t join_seconds;      /* how long to wait for all ranks to join; 0: 120 */
} tsr_job_options;

/* Runs this process as a rank of a job that a launcher started: torchrun, Slurm, mpirun. The
 * options are borrowed until it returns. A rank that fails ends the job, which its launcher can
 * start again. TSR_USAGE: bad options; no MPI; or no key although `address` is not this host's
 * loopback address. TSR_RANK: a rank did not join, or has another key, number of ranks or state
 * directory. */
TSR_API TSR_RESULT tsr_ranks_join_job(tsr_ctx *ctx, const tsr_job_options *options,
                                      tsr_rank_body body, void *user);
/* Ranks count from 0. */
TSR_API uint32_t tsr_rank_get_number(const tsr_transport *transport);

/* ---- a bundle, ready to run ---- */

typedef struct tsr_model tsr_model;

typedef struct tsr_model_options {
    size_t size_bytes;       /* sizeof(tsr_model_options) */
    bool strict;             /* accept only canonical bytes, and verify all bytes before use */
    const char *cpu;         /* force a variant: "x86-64-v3"; NULL: the highest this CPU has */
    unsigned threads;        /* 0: every CPU this process may use */
    bool ignore_memory_plan; /* do not compare the plan with the available memory */
    const char *const *keys; /* paths of the accepted public keys (PEM); borrowed */
    size_t key_count;
    bool require_signature; /* refuse a bundle without a signature by one of the keys; else only a
                               wrong one is refused */
    const char *const *weights_folders; /* folders searched, before the bundle's own, for weights
                                           that the bundle names but does not contain; borrowed */
    size_t weights_folder_count;
    /* "cpu" (or NULL), "cuda", "cuda:1", "cuda:GPU-…" (a UUID or its beginning),
     * "cuda:0000:1b:00.0" (a PCI address), the same with "hip" for AMD GPUs, or "auto": a GPU that
     * has code in the bundle, opens and has enough memory; else the CPU */
    const char *device;
    uint64_t device_memory_max; /* the most bytes to take of a GPU's memory; 0: all that is free */
    tsr_transport *transport;   /* transport of a rank, borrowed; NULL: only one process */
    bool one_by_one; /* a GPU runs one kernel at a time, so that errors name the kernel: much slower
                      */
    tsr_finite_mode check_finite; /* how runs handle outputs that are not finite */
    /* Several ranks on GPUs (`device` is "cuda" or "auto"): the GPUs of the ranks of this host, in
     * their order, "0,1" or "GPU-…,GPU-…"; NULL: the GPUs in the order of the driver. */
    const char *devices;
    bool share_device; /* several ranks may have the same GPU */
    /* How ranks on GPUs exchange: "p2p", "host", or "auto" (or NULL): the best possible way. */
    const char *exchange;
    /* Check the results of every kernel: runs fail with TSR_NONFINITE at the first NaN, and name
     * the step, the kernel, its place in the source, the value and the element. Much slower. */
    bool debug_numerics;
} tsr_model_options;

/* Opens and verifies the bundle, chooses the variant, maps its code, allocates memory. The tensors
 * are not set yet: call one of initialize, load_state, load_params, or tsr_train. Fails with
 * TSR_SIGNATURE (see bundle/FORMAT.md, section 12) before any part of the program is used;
 * TSR_TARGET, listing the bundle's targets; TSR_MACHINE for a CPU below v2; TSR_MEMORY with planned
 * and available bytes. */
TSR_API TSR_RESULT tsr_model_open(tsr_ctx *ctx, const char *path, const tsr_model_options *options,
                                  tsr_model **out_model);
/* Accepts NULL. A model in use is not closed. */
TSR_API void tsr_model_close(tsr_ctx *ctx, tsr_model *model);

/* Borrowed from the model. */
TSR_API const tsr_config *tsr_model_get_config(const tsr_model *model);
TSR_API tsr_digest tsr_model_get_digest(const tsr_model *model); /* digest of the bundle */
/* The program digest and the hyper-parameters with their current values, by which states and logs
 * are matched (docs/state-store.md); its digest is zero for a bundle that has none. Borrowed from
 * the model. */
TSR_API const tsr_identity *tsr_model_get_identity(const tsr_model *model);
TSR_API const char *tsr_model_get_target(const tsr_model *model); /* "cpu:x86-64-v3" */
/* Why this target was chosen, and why the others were not. */
TSR_API const char *tsr_model_get_choice(const tsr_model *model);
TSR_API const char *
tsr_model_get_numerics(const tsr_model *model); /* "portable+fma.2": equal texts, equal bits */
/* How the ranks exchange, "p2p", and why; NULL: a single rank. */
TSR_API const char *tsr_model_get_exchange(const tsr_model *model, const char **out_reason);
TSR_API unsigned tsr_model_get_thread_count(const tsr_model *model);
TSR_API tsr_memory_plan tsr_model_get_memory_plan(const tsr_model *model);
/* Finds the file of weights that the bundle names but does not contain, without reading any of its
 * bytes. The path is in the arena; NULL if the bundle names no such file, or if no matching file
 * can be opened. */
TSR_API TSR_RESULT tsr_model_find_weights(tsr_ctx *ctx, const tsr_model *model, tsr_arena *arena,
                                          const char **out_path);
/* Measure the peak use of the workspace by all entries that run after the mark. Marking writes the
 * whole workspace once; it returns false, and nothing is measured, on a device with its own memory
 * and while the model is in use. */
TSR_API bool tsr_model_mark_workspace(tsr_model *model);
TSR_API tsr_workspace_use tsr_model_measure_workspace(const tsr_model *model);
/* The state (parameters and optimizer state) in memory, sorted by name. A caller that writes to it
 * must get it again before the next run: the model then prepares the derived data again. */
TSR_API const tsr_tensor *tsr_model_get_state(const tsr_model *model, size_t *out_count);

/* ---- will it run here? ---- */

typedef struct tsr_check_target {
    const char *name;          /* borrowed: all pointers are valid as long as the report */
    bool chosen;               /* true for the target that would run */
    const char *reason;        /* why it was chosen, or why it was not */
    const char *driver;        /* the system library it needs: "libcuda.so.1"; NULL: no library */
    const char *driver_origin; /* "the NVIDIA driver"; NULL: no library */
} tsr_check_target;

/* Bytes needed on this host and on a device (0 on a CPU, which uses the host's memory). */
typedef struct tsr_check_memory {
    uint64_t parameter_bytes, state_bytes, constant_bytes; /* tensors by role */
    uint64_t prepacked_bytes;             /* weights in the order in which kernels read them */
    uint64_t workspace_bytes, port_bytes; /* inputs and outputs */
    uint64_t offloaded_bytes; /* host memory for values that are offloaded from the device */
    uint64_t code_bytes;      /* kernels, as stored; on a GPU the code for that GPU */
    uint64_t scratch_bytes;   /* scratch memory that kernels share on a GPU */
    uint64_t staging_bytes;   /* used while the bundle's weights are read */
    uint64_t save_bytes;      /* additional, with a state directory: the copy that is being saved */
    uint64_t host_bytes;      /* host total, without save_bytes */
    uint64_t device_bytes; /* device total: tensors, workspace, inputs, outputs, code and scratch */
    uint64_t device_free_bytes;    /* free on the device now; UINT64_MAX: unknown */
    uint64_t device_allowed_bytes; /* the options' device_memory_max; 0: all that is free */
    uint64_t available_bytes;      /* available on the host; UINT64_MAX: unknown */
} tsr_check_memory;

typedef struct tsr_check_report {
    tsr_code code;        /* TSR_OK: it runs here; else the code that tsr_model_open would return */
    const char *problem;  /* the message of `code`; NULL when it runs */
    const char *advice;   /* how to solve the problem; NULL when it runs */
    tsr_digest digest;    /* digest of the bundle */
    bool is_signed;       /* there is a signature, and it is not wrong */
    unsigned cpu_level;   /* level of this machine's CPU: 3 for x86-64-v3, 5 for x86-64-v4-bf16 */
    const char *cpu;      /* the same level by name: "x86-64-v3" */
    const char *numerics; /* numerics of the chosen target; NULL without one */
    const char *choice;   /* device "auto": the chosen device and why; else NULL */
    const tsr_config *config; /* entries and their needs; NULL if it cannot be read */
    size_t target_count;
    const tsr_check_target *targets;
    tsr_check_memory memory; /* zeros without a chosen target */
} tsr_check_report;

/* Reads only metadata (no weights; kernels only for a GPU) and reports whether the bundle runs
 * here. The check allocates no memory for the run and maps no code, but creates a GPU context for a
 * moment, because nothing else reports the GPU's free memory. The result is TSR_OK or report->code,
 * with the problem in the context; in both cases the report contains everything that could be read.
 * The report is in the arena. */
TSR_API TSR_RESULT tsr_model_check(tsr_ctx *ctx, const char *path, const tsr_model_options *options,
                                   tsr_arena *arena, tsr_check_report *out_report);

/* ---- parameters ---- */

/* Sets the state from the bundle: init rules with this seed, stored data and constants. Calls use
 * this seed for their random numbers, too. */
TSR_API TSR_RESULT tsr_model_initialize(tsr_ctx *ctx, tsr_model *model, uint32_t seed);
/* Loads a generation of a state directory, read-only and without its lock, and verifies it. Fails
 * with TSR_STATE if this generation does not exist. */
TSR_API TSR_RESULT tsr_model_load_state(tsr_ctx *ctx, tsr_model *model, const char *directory,
                                        tsr_resume_mode mode, uint64_t generation,
                                        tsr_generation *out_generation);
/* Call after initialize: takes the newest good generation of a state directory of any bundle, and
 * copies the tensors whose name, dtype and shape match the model's. If several renames match, the
 * most specific one applies. Logs which tensors were taken, which were not and why. Fails with
 * TSR_MISMATCH if no tensor matches, TSR_USAGE if the source of a rename does not exist or two
 * tensors get the same name, TSR_STATE for an empty directory. */
TSR_API TSR_RESULT tsr_model_adopt(tsr_ctx *ctx, tsr_model *model, const tsr_adopt_options *options,
                                   tsr_generation *out_generation);
/* Loads every parameter from a safetensors file, which may contain other tensors of any dtype;
 * names, dtypes and shapes must match (TSR_MISMATCH with both values; nothing is changed then). */
TSR_API TSR_RESULT tsr_model_load_params(tsr_ctx *ctx, tsr_model *model, const char *path);
/* Writes every parameter to a safetensors file, whole or not at all. Every rank must call it; the
 * first one writes. */
TSR_API TSR_RESULT tsr_model_export_params(tsr_ctx *ctx, const tsr_model *model, const char *path);

/* ---- calls ---- */

/* A call or evaluation logs a warning (TSR_LOG_WARNING, once after each tsr_model_initialize) when
 * its entry reads parameters that still have their initial values: no state, file or training has
 * set them, and the bundle stores no values for them.
 *
 * Requested outputs are checked as the model's options say; the message names the output and the
 * first element. NaN is always reported. An infinity is not reported if the config says that the
 * output may be infinite (see tsr_config_port), or if an input of the call contains one; with
 * independent rows, if the same row of an input does. */

/* Makes one call; tensors are matched by name. All inputs of source ARGUMENT or DATA must be given
 * (TSR_USAGE lists them), with equal dtypes and shapes (TSR_DATA). Outputs are optional. If rows
 * are independent, dimension 0 may be any number of rows, equal for all tensors. If the entry was
 * built for several sizes of its dims, the config has an entry "NAME[N=8]" for each, and a call of
 * "NAME" makes the one that has the shapes of the inputs (TSR_DATA if there is none). If a dim of
 * the entry is open, the inputs give its size (TSR_DATA if it is not in the range of the config, or
 * two inputs differ), and outputs have the rows that follow from it. `entry` NULL
 * means the only INFER entry. A TRAIN entry is refused (TSR_USAGE): use tsr_train. On failure the
 * contents of the outputs are undefined. */
TSR_API TSR_RESULT tsr_model_call(tsr_ctx *ctx, tsr_model *model, const char *entry,
                                  const tsr_tensor *inputs, size_t input_count,
                                  const tsr_tensor *outputs, size_t output_count);

typedef struct tsr_binding {
    const char *name, *path; /* borrowed */
} tsr_binding;
/* Makes one call from array files (.npy, FILE.npz:MEMBER, FILE.safetensors:NAME, or flat,
 * little-endian) to array files (.npy; .npz or .safetensors, which may contain several outputs;
 * .bin, elements only; .txt, the elements of a byte tensor), each written whole or not at all; at
 * least one output must be requested. */
TSR_API TSR_RESULT tsr_model_call_files(tsr_ctx *ctx, tsr_model *model, const char *entry,
                                        const tsr_binding *inputs, size_t input_count,
                                        const tsr_binding *outputs, size_t output_count);

typedef struct tsr_call_options {
    size_t size_bytes; /* sizeof(tsr_call_options) */
    /* Number of calls; 0: one, or as many as the rows need. An output that has the name of an input
     * becomes that input of the next call, and is written after the last call; other inputs stay
     * the same. For other outputs, files contain the results of all calls along a new first
     * dimension. The step that the program reads is the number of the call, from 1, so that each
     * call draws new random numbers. */
    uint64_t repeat;
    bool keeps_nothing; /* outputs are optional */
    /* Called after each call; `number` counts from 1. `seconds` includes the transfer of inputs to
     * the device and of outputs back, but not file access. May be NULL. */
    void (*called)(void *user, uint64_t number, double seconds);
    void *called_user; /* borrowed */
    /* Log files, or NULL; not both. A log has a line for each call, with the digests of its inputs
     * and outputs, and contains the digests of the input arrays and of the parameters. */
    const char *record, *replay;
    bool records_values; /* store the values of call `values_of` in the log that is written */
    uint64_t values_of;
} tsr_call_options;
/* Like tsr_model_call_files, with options. Fails with TSR_USAGE if calls are repeated and rows are
 * independent, or if an output that is passed on to the next call has another type. A replay fails
 * with TSR_MISMATCH for a log of another program, entry, seed, input or set of parameters;
 * TSR_DIVERGED names the call, the first tensor that differs, its element, region and location in
 * the source. */
TSR_API TSR_RESULT tsr_model_run_files(tsr_ctx *ctx, tsr_model *model, const char *entry,
                                       const tsr_call_options *options, const tsr_binding *inputs,
                                       size_t input_count, const tsr_binding *outputs,
                                       size_t output_count);

/* Computes the means of an EVAL entry's row-wise outputs over the data bound to its inputs. `entry`
 * NULL means the only EVAL entry. The arrays of out_report are in the arena; their names belong to
 * the model. */
TSR_API TSR_RESULT tsr_model_evaluate(tsr_ctx *ctx, tsr_model *model, const char *entry,
                                      const tsr_binding *data, size_t data_count, tsr_arena *arena,
                                      tsr_eval_report *out_report);

/* ---- training ---- */

/* Sets a hyper-parameter of the training entries, such as "lr", for all runs of the model from now
 * on; between the steps of a trainer, from its next step on. The states and logs of these runs
 * record it. A run that resumes such a state, or replays such a log, has the value too, unless the
 * caller has set another one; the program's own value, set here, ends that. A value counts with as
 * many digits as distinguish doubles, and is rounded to f32 where the program computes in f32.
 * tsr_model_get_identity lists names and current values, tsr_config_port ranges. TSR_USAGE for a
 * name that the program does not have, for a value out of range (also NaN), and for one that cannot
 * be set: older bundles have no input for it, and so have schedules and loops. With several ranks,
 * every rank makes the call, with the same value: otherwise the next step is TSR_MISMATCH or
 * TSR_RANK. From a callback: TSR_USAGE. */
TSR_API TSR_RESULT tsr_model_set_hyperparameter(tsr_ctx *ctx, tsr_model *model, const char *name,
                                                double value);

typedef struct tsr_train_options {
    size_t size_bytes; /* sizeof(tsr_train_options) */
    const char *entry; /* NULL: the only TRAIN entry */
    uint64_t steps;    /* absolute step to stop at, >= 1 */
    bool has_seed;     /* else: the state's, or 0 */
    uint32_t seed;
    const tsr_binding
        *data; /* data inputs of the train entry, and of the eval entry if it is used */
    size_t data_count;
    const char *state_directory; /* NULL: nothing is saved */
    uint64_t save_every;         /* steps; 0: at the end only */
    uint32_t keep;               /* generations, >= 2; 0 means 2 */
    tsr_resume_mode resume;
    uint64_t resume_generation; /* TSR_RESUME_EXACT */
    bool allow_network_fs;
    uint64_t eval_every;         /* steps; 0: at the end only */
    const char *record, *replay; /* log files, or NULL; not both */
    const char *params;          /* start from these parameters if no state is resumed, or NULL */
    /* Continue from the matching tensors of another bundle's state if no state is resumed: at its
     * step and with its seed. directory NULL: no. This option cannot be combined with params or
     * with a replay. */
    tsr_adopt_options adopt;
    tsr_train_callbacks callbacks;
    void (*begun)(void *user, const tsr_recovery *recovery,
                  const tsr_position *position); /* called before the first step; may be NULL */
    const volatile sig_atomic_t *stop; /* non-zero: finish the step, save, return; may be NULL */
    /* Lines of the store's event log, from one thread at a time; may be NULL. */
    void (*store_event)(void *user, const char *line);
    void *store_event_user; /* borrowed */
    bool records_values;    /* store the values of step `values_of` in the log that is written */
    uint64_t values_of;
    bool allow_inexact; /* continue, with a warning, from a state with other numerics */
    bool new_data; /* continue with other data than the state was trained with, from its next epoch
                      on */
    bool verify_data; /* hash the data even if its files did not change since the last time */
    /* Appended to the message if the state directory belongs to another program, for example how to
     * adopt it: "; adopt it with …". NULL: nothing. */
    const char *advice;
    /* Keep the best generation by a metric in the state directory, beside the newest ones:
     * "min:NAME" or "max:NAME" of at most 63 bytes, where NAME is an output of the evaluation or a
     * scalar output of the training entry (its value after the step), or "ENTRY.NAME" to choose
     * between the two. The state stores it as "min:ENTRY.NAME", of at most 63 bytes, too. It is
     * judged every `eval_every` steps and at the end, and the state is saved where it is the best
     * so far. NULL: by the metric that the resumed state has; "none": none. */
    const char *keep_best;
    /* End the run after this many judgements in a row without gain, which are counted across
     * resumes; the state is saved. 0: never. */
    uint64_t stop_after;
    /* Called after each judgement; may be NULL. The user is that of `callbacks`. best->generation
     * is UINT64_MAX if the state of this step is the best one and not saved yet. */
    void (*judged)(void *user, const tsr_best *best);
    uint64_t record_every; /* with `record`: the log gets only every so many steps; 0: each step */
} tsr_train_options;

/* Recovers or initialises, trains, saves. A state that was trained with other data, by rows or
 * digest, is TSR_MISMATCH without `new_data`. If data is missing: TSR_USAGE listing names, dtypes
 * and shapes. A state at or past `steps` is not an error: nothing is run. A state of another
 * program, seed or numerics is TSR_MISMATCH; of the same program with other hyper-parameters, a
 * notice (TSR_LOG_NOTICE) names each of them with both values, and the run continues. The trained
 * tensors stay in the model; without a state directory each call starts from the beginning. Errors
 * of the run:
 * TSR_NONFINITE names the output or tensor; TSR_DIVERGED from a replay; TSR_DATA from a kernel;
 * TSR_SAVE after three failed saves in a row; TSR_LOCKED when another run took over the directory.
 * An error that leaves the state intact ends the run after a save of it. A replay needs `steps`
 * only to end early, and the state directory only if the log begins after step 0; it writes
 * nothing. */
TSR_API TSR_RESULT tsr_train(tsr_ctx *ctx, tsr_model *model, const tsr_train_options *options,
                             tsr_train_summary *out_summary);

/* ---- performance ---- */

/* If the context had a trace (tessera/trace.h) before tsr_model_open, everything that is
 * done is recorded in it; write the trace before the model is closed, because it uses names of the
 * model. This function writes a CSV file (docs/traces.md) with the time of each kernel while the
 * trace recorded, next to the limits of the machine, which are measured now; whole or not at all.
 * Fails with TSR_USAGE for a model opened without a trace. */
TSR_API TSR_RESULT tsr_model_write_roofline(tsr_ctx *ctx, tsr_model *model, const char *path);

/* ---- a trained bundle ---- */

typedef struct tsr_bake_options {
    size_t size_bytes;           /* sizeof(tsr_bake_options) */
    const char *state_directory; /* read without its lock */
    tsr_resume_mode resume;
    uint64_t resume_generation; /* TSR_RESUME_EXACT */
    const char *out_path;       /* the trained bundle, or NULL */
    const char *export_params;  /* the parameters as a safetensors file, or NULL */
    const char *params; /* read parameters from this .safetensors or .npz instead of a state; it may
                           contain more; or NULL */
    bool with_state; /* store the optimizer state and its position too: training continues there */
    bool reference;  /* `params`, a safetensors file, is named by its digest and not stored */
} tsr_bake_options;

/* Writes the bundle at `in_path` with the parameters of a generation or a file stored in it (the
 * optimizer state starts from its initial values, unless with_state); only the parameters; or
 * both. Tensors whose elements are all equal become init rules; the others fill blobs of at most 4
 * GiB in the order of their names. Each file is written whole or not at all, byte-identical for
 * equal inputs. TSR_MISMATCH for another program's state. */
TSR_API TSR_RESULT tsr_bake(tsr_ctx *ctx, const char *in_path, const tsr_bake_options *options,
                            tsr_generation *out_generation);

#ifdef __cplusplus
}
#endif

#endif

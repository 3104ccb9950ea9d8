/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiler as one call: a source file in, a bundle out. Stages are listed in stages.def.
 *
 *     const char *targets[] = {"cpu:x86-64-v3"};
 *     tsr_compile_options options = {.size_bytes = sizeof options, .source_path = "digits.mlir",
 *                                    .output_path = "digits.tsb", .targets = targets,
 *                                    .target_count = 1};
 *     tsr_result result = tsr_compile(&ctx, &options, NULL);
 *
 * The bytes of the bundle depend only on the source text, its base name, the targets, the
 * options, the given time and the versions of Tessera, LLVM and zstd.
 */
#ifndef TSR_COMPILER_COMPILE_H
#define TSR_COMPILER_COMPILE_H

#include "compiler/diag/diag.h"
#include "compiler/frontend/onnx/binding.h"
#include "compiler/frontend/onnx/exporting.h"
#include "compiler/frontend/onnx/links.h"
#include "compiler/frontend/onnx/training.h"
#include "compiler/schedule/measured.h"
#include "runtime/base/hash/hash.h"
#include "runtime/base/result.h"
#include "runtime/base/tensor.h"

typedef enum tsr_stage {
#define X(id, name, scope, load, run, dump, ending, about) TSR_STAGE_##id,
#include "compiler/stages.def"
#undef X
    TSR_STAGE_COUNT
} tsr_stage;

typedef struct tsr_stage_info {
    const char *name, *ending, *about;
    bool per_target, dumps;
    bool reads; /* its result can be the source */
} tsr_stage_info;
const tsr_stage_info *tsr_stage_get(tsr_stage stage);

typedef struct tsr_compile_options {
    size_t size_bytes; /* sizeof(tsr_compile_options) */
    const char
        *source_path;   /* MLIR; a name that ends in ".onnx", ".py" or ".stablehlo.mlir": that */
    tsr_stage from;     /* the stage whose result the source is: GRAPH (0) for a model */
    size_t stage_limit; /* number of stages of the table to run; 0: all, with a bundle */
    const char *output_path;    /* written whole or not at all; NULL where no bundle is made */
    const char *const *targets; /* "cpu:x86-64-v3"; each once */
    size_t target_count;        /* at least 1; if `from` is a stage for each target: one target, or
                                 * 0 */
    unsigned threads;           /* targets compiled at once; 0: every CPU this process may use */
    bool strict_python;         /* a .py must be a text that CPython reads */
    uint32_t virtual_ranks;     /* overrides the number that the model names; 0: no override */
    bool dump[TSR_STAGE_COUNT]; /* stages to show */
    bool dump_whole; /* with locations and everything needed to continue from that stage */
    /* Called for each stage to show, and each target where the stage has one (else NULL). A failure
     * ends the compilation. */
    TSR_RESULT(*on_dump)
    (tsr_ctx *ctx, void *user, tsr_stage stage, const char *target, const char *text,
     size_t size_bytes);
    void (*on_diag)(void *user, const tsr_diag *diag); /* errors of the source, as they come */
    void *user;                                        /* borrowed, for both callbacks */
    const char *schedule_path; /* tsched.tile ops, which take precedence over models; NULL: none */
    /* Sizes that were measured, for kernels without a choice of the schedule; borrowed. */
    const tsr_measured *measured;
    size_t measured_count;
    const char *ptxas;        /* assembler for NVIDIA GPUs; NULL: it is searched for */
    const char *tool_path;    /* folders to search for it, like PATH; may be NULL */
    const char *toolkit_path; /* CUDA's own folders, searched last; may be NULL */
    /* "portable" (NULL): every target gives the same bits, as far as it rounds products the same
     * way. "native": matrix units of GPUs may be used, which sum in an order of their own. */
    const char *numerics;
    /* Maximum bytes of an entry's workspace, on targets with memory of their own. If an entry
     * needs more, idle values are offloaded to host memory; TSR_COMPILE if that is not enough. 0:
     * no limit. At most INT64_MAX. */
    uint64_t workspace_max;
    const char *started_on; /* "2026-11-21T00:00:00Z": put into the provenance; NULL: no time */
    /* The sizes of open dims. Of an ONNX model: where the values of its parameters are written, as
     * safetensors, if it has any (NULL: they are not written). */
    const tsr_dim_binding *dims;
    size_t dim_count;
    const char *weights_path;
    const tsr_onnx_training *training; /* of an ONNX model; NULL: the program has inference only */
    /* Files that are linked to the source, and custom ops of models. Of `freeze`, the patterns of
     * parameters of linked models that are not trained. */
    tsr_links links;
    const char *const *freeze;
    size_t freeze_count;
    const char *const *carry; /* of a module of StableHLO: frontend/stablehlo/carry.h */
    size_t carry_count;
    const tsr_onnx_export_options *export; /* after stage GRAPH; NULL: no export */
} tsr_compile_options;

typedef struct tsr_compile_report {
    double stage_seconds[TSR_STAGE_COUNT]; /* 0 where the stage did not run */
    double seconds;
    size_t entry_count, kernel_count, tensor_count;
    uint64_t workspace_bytes; /* the largest workspace of all entries */
    /* The file in the folder of the source (or at weights_path) that holds the values of the
     * parameters, and its SHA-256; "": no file. */
    char weights_name[TSR_NAME_MAX + 1];
    tsr_digest weights_digest;
} tsr_compile_report;

enum { TSR_SOURCE_BYTES_MAX = 1 << 30 };

/* Compiles in a child process, so that an input that crashes MLIR or LLVM does not end the caller:
 * the crash becomes a diagnostic and TSR_COMPILE. Callbacks and the context's log are called here,
 * on this thread; several threads may compile at once. The context's io is the child's copy. Fails
 * with TSR_USAGE for an unknown or repeated target (the text lists the known ones), TSR_IO when a
 * file cannot be read or written, TSR_COMPILE for errors in the source (after on_diag), TSR_MEMORY
 * when no child can be created, TSR_MACHINE when a signal ended the assembler, or the result of
 * on_dump. `out_report` may be NULL. */
TSR_RESULT tsr_compile(tsr_ctx *ctx, const tsr_compile_options *options,
                       tsr_compile_report *out_report);

/* The same in the calling process, for a caller that may be killed by the input. The call may
 * fork; nothing else may use MLIR or LLVM during the call. */
TSR_RESULT tsr_compile_here(tsr_ctx *ctx, const tsr_compile_options *options,
                            tsr_compile_report *out_report);

#endif
